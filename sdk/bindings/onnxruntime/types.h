/* types.h - the types of ONNX Runtime's C interface used by its table (api.def): the numbers, layouts and signatures
 * that programs were compiled with, described independently. Enumerations are int, as compilers represent them. */
#ifndef ORT_TYPES_H
#define ORT_TYPES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The newest version of the interface that the table has: GetApi() accepts 1 to ORT_VERSION_MINOR. */
#define ORT_VERSION_MINOR 30

typedef int OrtErrorCode;
enum {
    ORT_OK,
    ORT_FAIL,
    ORT_INVALID_ARGUMENT,
    ORT_NO_SUCHFILE,
    ORT_NO_MODEL,
    ORT_ENGINE_ERROR,
    ORT_RUNTIME_EXCEPTION,
    ORT_INVALID_PROTOBUF,
    ORT_MODEL_LOADED,
    ORT_NOT_IMPLEMENTED,
    ORT_INVALID_GRAPH,
    ORT_EP_FAIL,
    ORT_MODEL_LOAD_CANCELED,
    ORT_MODEL_REQUIRES_COMPILATION,
    ORT_NOT_FOUND
};

/* Numbers as in ONNX up to 23; the last three differ. */
typedef int ONNXTensorElementDataType;
enum { ORT_FLOAT4E2M1 = 23, ORT_UINT2 = 24, ORT_INT2 = 25, ORT_FLOAT8E8M0 = 26, ORT_DTYPE_COUNT = 27 };

typedef int ONNXType;
enum {
    ONNX_TYPE_UNKNOWN,
    ONNX_TYPE_TENSOR,
    ONNX_TYPE_SEQUENCE,
    ONNX_TYPE_MAP,
    ONNX_TYPE_OPAQUE,
    ONNX_TYPE_SPARSETENSOR,
    ONNX_TYPE_OPTIONAL
};

typedef int OrtLoggingLevel;
enum {
    ORT_LOGGING_LEVEL_VERBOSE,
    ORT_LOGGING_LEVEL_INFO,
    ORT_LOGGING_LEVEL_WARNING,
    ORT_LOGGING_LEVEL_ERROR,
    ORT_LOGGING_LEVEL_FATAL
};

typedef int OrtAllocatorType;
enum { ORT_INVALID_ALLOCATOR = -1, ORT_DEVICE_ALLOCATOR = 0, ORT_ARENA_ALLOCATOR = 1, ORT_READ_ONLY_ALLOCATOR = 2 };
typedef int OrtMemType;
enum { ORT_MEM_CPU_INPUT = -2, ORT_MEM_CPU_OUTPUT = -1, ORT_MEM_DEFAULT = 0 };
typedef int OrtMemoryInfoDeviceType; /* 0 CPU, 1 GPU, 2 FPGA, 3 NPU */
typedef int OrtDeviceMemoryType;     /* 0 default, 5 host accessible */
typedef int OrtHardwareDeviceType;   /* 0 CPU, 1 GPU, 2 NPU */

typedef int OrtSparseFormat;
enum { ORT_SPARSE_UNDEFINED = 0, ORT_SPARSE_COO = 1, ORT_SPARSE_CSRC = 2, ORT_SPARSE_BLOCK_SPARSE = 4 };
typedef int OrtSparseIndicesFormat;
enum {
    ORT_SPARSE_COO_INDICES,
    ORT_SPARSE_CSR_INNER_INDICES,
    ORT_SPARSE_CSR_OUTER_INDICES,
    ORT_SPARSE_BLOCK_SPARSE_INDICES
};

typedef int OrtOpAttrType;
enum {
    ORT_OP_ATTR_UNDEFINED,
    ORT_OP_ATTR_INT,
    ORT_OP_ATTR_INTS,
    ORT_OP_ATTR_FLOAT,
    ORT_OP_ATTR_FLOATS,
    ORT_OP_ATTR_STRING,
    ORT_OP_ATTR_STRINGS,
    ORT_OP_ATTR_GRAPH,
    ORT_OP_ATTR_TENSOR
};

typedef int
    GraphOptimizationLevel; /* 0 none, 1 basic, 2 extended, 3 layout, 99 all: the values of inlay's option `level` */
typedef int ExecutionMode;  /* 0 sequential, 1 parallel */
typedef int OrtLanguageProjection;
typedef int OrtExecutionProviderDevicePolicy;
typedef int OrtCompiledModelCompatibility;
enum { ORT_COMPATIBILITY_NOT_APPLICABLE, ORT_COMPATIBILITY_OPTIMAL, ORT_COMPATIBILITY_PREFER_RECOMPILATION };
typedef int OrtCustomOpInputOutputCharacteristic;
enum { ORT_REQUIRED, ORT_OPTIONAL, ORT_VARIADIC };

/* clang-format off */
#define ORT_CLASSES(X)                                                                                                 \
    X(Env) X(Status) X(MemoryInfo) X(IoBinding) X(Session) X(Value) X(RunOptions) X(TypeInfo)                          \
    X(TensorTypeAndShapeInfo) X(MapTypeInfo) X(SequenceTypeInfo) X(OptionalTypeInfo) X(SessionOptions)                 \
    X(CustomOpDomain) X(ModelMetadata) X(ThreadingOptions) X(ArenaCfg) X(PrepackedWeightsContainer)                    \
    X(TensorRTProviderOptions) X(TensorRTProviderOptionsV2) X(CUDAProviderOptions) X(CUDAProviderOptionsV2)            \
    X(CANNProviderOptions) X(DnnlProviderOptions) X(ROCMProviderOptions) X(MIGraphXProviderOptions)                    \
    X(OpenVINOProviderOptions) X(Op) X(OpAttr) X(Logger) X(ShapeInferContext) X(LoraAdapter) X(ValueInfo) X(Node)      \
    X(Graph) X(Model) X(HardwareDevice) X(EpDevice) X(KeyValuePairs) X(SyncStream) X(ExternalInitializerInfo)          \
    X(DeviceEpIncompatibilityDetails) X(EpAssignedSubgraph) X(EpAssignedNode) X(KernelInfo) X(KernelContext) X(Api)    \
    X(TrainingApi) X(ModelEditorApi) X(CompileApi) X(InteropApi) X(EpApi) X(ThreadPoolCallbacksConfig) X(Allocator)    \
    X(CustomOp) X(ApiBase) X(EnvCreationOptions) X(ModelCompilationOptions)
/* clang-format on */
#define ORT_CLASS(name) typedef struct Ort##name Ort##name;
ORT_CLASSES(ORT_CLASS)
#undef ORT_CLASS

typedef void (*OrtExperimentalFnPtr)(void);
typedef void (*OrtLoggingFunction)(void *param, OrtLoggingLevel severity, const char *category, const char *logid,
                                   const char *code_location, const char *message);
typedef void (*RunAsyncCallbackFn)(void *user_data, OrtValue **outputs, size_t num_outputs, OrtStatus *status);
typedef const struct OrtCustomHandleType *(*OrtCustomCreateThreadFn)(void *options, void (*worker)(void *),
                                                                     void *param);
typedef void (*OrtCustomJoinThreadFn)(const struct OrtCustomHandleType *handle);
typedef OrtStatus *(*EpSelectionDelegate)(const OrtEpDevice **devices, size_t count, const OrtKeyValuePairs *model,
                                          const OrtKeyValuePairs *runtime, const OrtEpDevice **selected,
                                          size_t max_selected, size_t *num_selected, void *state);
typedef OrtStatus *(*OrtWriteBufferFunc)(void *state, const void *buffer, size_t buffer_num_bytes);
typedef OrtStatus *(*OrtGetInitializerLocationFunc)(void *state, const char *initializer_name,
                                                    const OrtValue *initializer_value,
                                                    const OrtExternalInitializerInfo *external_info,
                                                    OrtExternalInitializerInfo **new_external_info);
typedef OrtStatus *(*RegisterCustomOpsFn)(OrtSessionOptions *options, const OrtApiBase *api);

struct OrtApiBase {
    const OrtApi *(*GetApi)(uint32_t version);
    const char *(*GetVersionString)(void);
};

/* This library and programs create allocators. `version` is the version of the interface that its creator was compiled
 * for: Reserve is present from 18 on, GetStats from 23, AllocOnStream and Shrink from 24. */
struct OrtAllocator {
    uint32_t version;
    void *(*Alloc)(OrtAllocator *self, size_t bytes);
    void (*Free)(OrtAllocator *self, void *memory);
    const OrtMemoryInfo *(*Info)(const OrtAllocator *self);
    void *(*Reserve)(OrtAllocator *self, size_t bytes);
    OrtStatus *(*GetStats)(const OrtAllocator *self, OrtKeyValuePairs **out);
    void *(*AllocOnStream)(OrtAllocator *self, size_t bytes, OrtSyncStream *stream);
    OrtStatus *(*Shrink)(OrtAllocator *self);
};

struct OrtEnvCreationOptions {
    uint32_t version;
    int32_t logging_severity_level;
    const char *log_id;
    OrtLoggingFunction custom_logging_function;
    void *custom_logging_param;
    const OrtThreadingOptions *threading_options;
    const OrtKeyValuePairs *config_entries;
};

/* A custom operator of a program. `version` is the version of the interface that the program was compiled for; a number
 * after a member is the version that added this member and the next ones. */
struct OrtCustomOp {
    uint32_t version;
    void *(*CreateKernel)(const OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *info);
    const char *(*GetName)(const OrtCustomOp *op);
    const char *(*GetExecutionProviderType)(const OrtCustomOp *op);
    ONNXTensorElementDataType (*GetInputType)(const OrtCustomOp *op, size_t index);
    size_t (*GetInputTypeCount)(const OrtCustomOp *op);
    ONNXTensorElementDataType (*GetOutputType)(const OrtCustomOp *op, size_t index);
    size_t (*GetOutputTypeCount)(const OrtCustomOp *op);
    void (*KernelCompute)(void *kernel, OrtKernelContext *context);
    void (*KernelDestroy)(void *kernel);
    OrtCustomOpInputOutputCharacteristic (*GetInputCharacteristic)(const OrtCustomOp *op, size_t index); /* 8 */
    OrtCustomOpInputOutputCharacteristic (*GetOutputCharacteristic)(const OrtCustomOp *op, size_t index);
    OrtMemType (*GetInputMemoryType)(const OrtCustomOp *op, size_t index); /* 13 */
    int (*GetVariadicInputMinArity)(const OrtCustomOp *op);                /* 14 */
    int (*GetVariadicInputHomogeneity)(const OrtCustomOp *op);
    int (*GetVariadicOutputMinArity)(const OrtCustomOp *op);
    int (*GetVariadicOutputHomogeneity)(const OrtCustomOp *op);
    OrtStatus *(*CreateKernelV2)(const OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *info,
                                 void **out); /* 16 */
    OrtStatus *(*KernelComputeV2)(void *kernel, OrtKernelContext *context);
    OrtStatus *(*InferOutputShapeFn)(const OrtCustomOp *op, OrtShapeInferContext *context); /* 17 */
    int (*GetStartVersion)(const OrtCustomOp *op);
    int (*GetEndVersion)(const OrtCustomOp *op);
    size_t (*GetMayInplace)(int **input_index, int **output_index); /* 18 */
    void (*ReleaseMayInplace)(int *input_index, int *output_index);
    size_t (*GetAliasMap)(int **input_index, int **output_index);
    void (*ReleaseAliasMap)(int *input_index, int *output_index);
};

/* Returns the failure of a call from the function. */
#define ORT_TRY(call)                                                                                                  \
    do {                                                                                                               \
        OrtStatus *failed_ = (call);                                                                                   \
        if (failed_ != NULL)                                                                                           \
            return failed_;                                                                                            \
    } while (0)
#endif
