/* ep_types.h - the types of ONNX Runtime's interface of plug-in execution providers (1.23 and later): numbers, layouts
 * and signatures that such libraries were compiled with, described independently.
 *
 * A library exports CreateEpFactories and ReleaseEpFactory. A factory, which the library defines, lists the devices
 * that it supports and creates an OrtEp for a session; the runtime passes tables of functions (OrtApi, OrtEpApi).
 * `ort_version_supported` of a struct is the version that the library was compiled for: members of later versions do
 * not exist. A number after a member is the version that added this member and the next ones. */
#ifndef ORT_EP_TYPES_H
#define ORT_EP_TYPES_H
#include "types.h"

/* clang-format off */
#define ORT_EP_CLASSES(X)                                                                                              \
    X(Ep) X(EpFactory) X(EpGraphSupportInfo) X(MemoryDevice) X(NodeComputeContext) X(DataTransferImpl)                 \
    X(SyncNotificationImpl) X(SyncStreamImpl) X(ExternalResourceImporterImpl) X(OpSchema) X(OpSchemaTypeConstraint)    \
    X(ProfilingEventsContainer) X(ProfilingEvent) X(EpProfilerImpl) X(KernelRegistry) X(KernelDefBuilder) X(KernelDef) \
    X(DataType) X(SharedPrePackedWeightCache) X(NodeFusionOptions) X(NodeComputeInfo) X(KernelImpl)                    \
    X(LoopKernelHelper) X(ScanKernelHelper) X(ResourceCount) X(GraphicsInteropConfig)
/* clang-format on */
#define ORT_CLASS(name) typedef struct Ort##name Ort##name;
ORT_EP_CLASSES(ORT_CLASS)
#undef ORT_CLASS

typedef int OrtProfilingEventCategory;           /* 0 session, 1 node, 2 kernel, 3 call */
typedef int OrtEpDataLayout;                     /* 0 NCHW, 1 NHWC */
typedef int OrtGraphCaptureNodeAssignmentPolicy; /* 0 all nodes, 1 nodes of shapes may run on the CPU */
typedef int OrtWeightlessSupport;                /* 0 none, 1 external initializers only, 2 all */

typedef OrtStatus *(*OrtKernelCreateFunc)(void *state, const OrtKernelInfo *info, OrtKernelImpl **out);

/* The names of the library's two functions, and their types. */
#define ORT_EP_CREATE_FACTORIES "CreateEpFactories"
#define ORT_EP_RELEASE_FACTORY "ReleaseEpFactory"
typedef OrtStatus *(*CreateEpApiFactoriesFn)(const char *registered_name, const OrtApiBase *ort_api_base,
                                             const OrtLogger *default_logger, OrtEpFactory **factories,
                                             size_t max_factories, size_t *num_factories);
typedef OrtStatus *(*ReleaseEpApiFactoryFn)(OrtEpFactory *factory);

/* How nodes are fused. */
struct OrtNodeFusionOptions {
    uint32_t ort_version_supported;
    bool drop_constant_initializers; /* constants are not inputs of the fused node: the library has copied them */
};

/* A fused node after Compile. */
struct OrtNodeComputeInfo {
    uint32_t ort_version_supported;
    OrtStatus *(*CreateState)(OrtNodeComputeInfo *self, OrtNodeComputeContext *context, void **state);
    OrtStatus *(*Compute)(OrtNodeComputeInfo *self, void *state, OrtKernelContext *context);
    void (*ReleaseState)(OrtNodeComputeInfo *self, void *state);
};

/* A kernel of one node, created by a function of a kernel registry. */
struct OrtKernelImpl {
    uint32_t ort_version_supported;
    uint32_t flags;
    OrtStatus *(*Compute)(OrtKernelImpl *self, OrtKernelContext *context);
    void (*Release)(OrtKernelImpl *self);
    OrtStatus *(*PrePackWeight)(OrtKernelImpl *self, const OrtValue *tensor, int input_index, OrtAllocator *allocator,
                                OrtSharedPrePackedWeightCache *cache, bool *is_packed);
    OrtStatus *(*SetSharedPrePackedWeight)(OrtKernelImpl *self, const void *const *buffers, const size_t *sizes,
                                           size_t count, int input_index);
};

/* Copies between the memory of a device and that of the host. */
struct OrtDataTransferImpl {
    uint32_t ort_version_supported;
    void (*Release)(OrtDataTransferImpl *self);
    bool (*CanCopy)(const OrtDataTransferImpl *self, const OrtMemoryDevice *from, const OrtMemoryDevice *to);
    OrtStatus *(*CopyTensors)(OrtDataTransferImpl *self, const OrtValue **from, OrtValue **to, OrtSyncStream **streams,
                              size_t count);
};

struct OrtSyncNotificationImpl {
    uint32_t ort_version_supported;
    void (*Release)(OrtSyncNotificationImpl *self);
    OrtStatus *(*Activate)(OrtSyncNotificationImpl *self);
    OrtStatus *(*WaitOnDevice)(OrtSyncNotificationImpl *self, OrtSyncStream *consumer);
    OrtStatus *(*WaitOnHost)(OrtSyncNotificationImpl *self);
};

struct OrtSyncStreamImpl {
    uint32_t ort_version_supported;
    void (*Release)(OrtSyncStreamImpl *self);
    void *(*GetHandle)(OrtSyncStreamImpl *self);
    OrtStatus *(*CreateNotification)(OrtSyncStreamImpl *self, OrtSyncNotificationImpl **out);
    OrtStatus *(*Flush)(OrtSyncStreamImpl *self);
    OrtStatus *(*OnSessionRunEnd)(OrtSyncStreamImpl *self);
};

/* Collects events of a session or of a run. */
struct OrtEpProfilerImpl {
    uint32_t ort_version_supported;
    void (*Release)(OrtEpProfilerImpl *self); /* 25 */
    OrtStatus *(*StartProfiling)(OrtEpProfilerImpl *self, int64_t offset_ns);
    OrtStatus *(*StartEvent)(OrtEpProfilerImpl *self, uint64_t id);
    OrtStatus *(*StopEvent)(OrtEpProfilerImpl *self, uint64_t id, const OrtProfilingEvent *event);
    OrtStatus *(*EndProfiling)(OrtEpProfilerImpl *self, OrtProfilingEventsContainer *events);
};

/* An execution provider of one session. */
struct OrtEp {
    uint32_t ort_version_supported;
    const char *(*GetName)(const OrtEp *self);
    OrtStatus *(*GetCapability)(OrtEp *self, const OrtGraph *graph, OrtEpGraphSupportInfo *support);
    OrtStatus *(*Compile)(OrtEp *self, const OrtGraph **graphs, const OrtNode **fused_nodes, size_t count,
                          OrtNodeComputeInfo **infos, OrtNode **ep_context_nodes);
    void (*ReleaseNodeComputeInfos)(OrtEp *self, OrtNodeComputeInfo **infos, size_t count);
    OrtStatus *(*GetPreferredDataLayout)(OrtEp *self, OrtEpDataLayout *out);
    OrtStatus *(*ShouldConvertDataLayoutForOp)(OrtEp *self, const char *domain, const char *op_type,
                                               OrtEpDataLayout target, int *out);
    OrtStatus *(*SetDynamicOptions)(OrtEp *self, const char *const *keys, const char *const *values, size_t count);
    OrtStatus *(*OnRunStart)(OrtEp *self, const OrtRunOptions *options);
    OrtStatus *(*OnRunEnd)(OrtEp *self, const OrtRunOptions *options, bool sync_stream);
    OrtStatus *(*CreateAllocator)(OrtEp *self, const OrtMemoryInfo *info, OrtAllocator **out);
    OrtStatus *(*CreateSyncStreamForDevice)(OrtEp *self, const OrtMemoryDevice *device, OrtSyncStreamImpl **out);
    const char *(*GetCompiledModelCompatibilityInfo)(OrtEp *self, const OrtGraph *graph);
    OrtStatus *(*GetKernelRegistry)(OrtEp *self, const OrtKernelRegistry **out); /* 24 */
    OrtStatus *(*IsConcurrentRunSupported)(OrtEp *self, bool *out);
    OrtStatus *(*Sync)(OrtEp *self); /* 25 */
    OrtStatus *(*CreateProfiler)(OrtEp *self, OrtEpProfilerImpl **out);
    bool (*IsGraphCaptureEnabled)(const OrtEp *self); /* 26 */
    bool (*IsGraphCaptured)(const OrtEp *self, int graph);
    OrtStatus *(*ReplayGraph)(OrtEp *self, int graph);
    OrtGraphCaptureNodeAssignmentPolicy (*GetGraphCaptureNodeAssignmentPolicy)(const OrtEp *self);
    OrtStatus *(*GetAvailableResource)(const OrtEp *self, OrtResourceCount *out);
    OrtStatus *(*OnSessionInitializationEnd)(OrtEp *self); /* 27 */
    OrtStatus *(*GetDefaultMemoryDevice)(const OrtEp *self, const OrtMemoryDevice **out);
    OrtStatus *(*ReleaseCapturedGraph)(OrtEp *self, int graph);
    OrtStatus *(*GetWeightlessSupport)(const OrtEp *self, OrtWeightlessSupport *out); /* 29 */
};

/* Creates the execution providers of one kind. */
struct OrtEpFactory {
    uint32_t ort_version_supported;
    const char *(*GetName)(const OrtEpFactory *self);
    const char *(*GetVendor)(const OrtEpFactory *self);
    OrtStatus *(*GetSupportedDevices)(OrtEpFactory *self, const OrtHardwareDevice *const *devices, size_t device_count,
                                      OrtEpDevice **out, size_t most, size_t *out_count);
    OrtStatus *(*CreateEp)(OrtEpFactory *self, const OrtHardwareDevice *const *devices,
                           const OrtKeyValuePairs *const *metadata, size_t device_count,
                           const OrtSessionOptions *options, const OrtLogger *logger, OrtEp **out);
    void (*ReleaseEp)(OrtEpFactory *self, OrtEp *ep);
    uint32_t (*GetVendorId)(const OrtEpFactory *self);
    const char *(*GetVersion)(const OrtEpFactory *self);
    OrtStatus *(*ValidateCompiledModelCompatibilityInfo)(OrtEpFactory *self, const OrtHardwareDevice *const *devices,
                                                         size_t device_count, const char *info,
                                                         OrtCompiledModelCompatibility *out);
    OrtStatus *(*CreateAllocator)(OrtEpFactory *self, const OrtMemoryInfo *info, const OrtKeyValuePairs *options,
                                  OrtAllocator **out);
    void (*ReleaseAllocator)(OrtEpFactory *self, OrtAllocator *allocator);
    OrtStatus *(*CreateDataTransfer)(OrtEpFactory *self, OrtDataTransferImpl **out);
    bool (*IsStreamAware)(const OrtEpFactory *self);
    OrtStatus *(*CreateSyncStreamForDevice)(OrtEpFactory *self, const OrtMemoryDevice *device,
                                            const OrtKeyValuePairs *options, OrtSyncStreamImpl **out);
    OrtStatus *(*GetHardwareDeviceIncompatibilityDetails)(OrtEpFactory *self, const OrtHardwareDevice *device,
                                                          OrtDeviceEpIncompatibilityDetails *details); /* 24 */
    OrtStatus *(*CreateExternalResourceImporterForDevice)(OrtEpFactory *self, const OrtEpDevice *device,
                                                          OrtExternalResourceImporterImpl **out);
    OrtStatus *(*GetNumCustomOpDomains)(OrtEpFactory *self, size_t *out);
    OrtStatus *(*GetCustomOpDomains)(OrtEpFactory *self, OrtCustomOpDomain **out, size_t count);
    OrtStatus *(*InitGraphicsInterop)(OrtEpFactory *self, const OrtEpDevice *device,
                                      const OrtGraphicsInteropConfig *config); /* 25 */
    OrtStatus *(*DeinitGraphicsInterop)(OrtEpFactory *self, const OrtEpDevice *device);
    OrtStatus *(*SelectBestModelCandidate)(OrtEpFactory *self, const OrtHardwareDevice *device,
                                           const OrtKeyValuePairs *const *candidates, size_t count,
                                           const OrtSessionOptions *options, size_t *out); /* 28 */
};

/* The functions that the runtime offers to execution providers, in addition to those of OrtApi. */
struct OrtEpApi {
#define ENTRY(returns, name, params) returns(*name) params;
#include "ep.def"
#undef ENTRY
};
#endif
