/* provider.h - the provider ort_ep: a plug-in execution provider (EP) of ONNX Runtime as a provider of inlay.
 *
 *     plugin.c      the provider: options, opening
 *     library.c     the EP's library: its factory, its device, and the EPs that it creates
 *     devices.c     what the library can query and create: devices and kinds of memory
 *     tables.c      OrtApi and OrtEpApi: the functions that the library calls
 *     tensor.c      tensors, as inlay.h declares them, for the functions shared with sdk/bindings/onnxruntime
 *     graph.c       OrtGraph, OrtNode, OrtValueInfo over inlay's graph
 *     capability.c  what the library supports: its groups of nodes as offers
 *     registry.c    kernels that the library registers
 *     kernel.c      the kernel of a node
 *     region.h      a region: a group, or the kernel of a node
 *     region.c      compiles it
 *     context.c     EPContext nodes: compiled groups in the engine cache
 *     run.c         runs it
 *     operators.c   custom operators that the library defines
 *     schema.c      schemas of operators
 *     device_memory.c the memory of the library's device as a domain of inlay
 *     environment.c ONNX Runtime's environment, one for each library
 *     stream.c      streams of a device
 *     profile.c     events of the library's profiler
 *     price.c       measured times
 *
 * Functions called ort_NAME are those of the tables. A library keeps state in an OrtEp by the names of nodes and
 * constants, which differ only within a model. So each region has a separate OrtEp; another one assesses graphs. */
#ifndef ORT_EP_PROVIDER_H
#define ORT_EP_PROVIDER_H
#include "custom.h"
#include "ep_types.h"
#include "inlay/extensions.h"
#include <pthread.h>

/* All functions of the tables; those that no file defines are refused (tables.c). */
#define ENTRY(state, returns, name, params) returns ort_##name params;
#include "api.def"
#undef ENTRY
#define ENTRY(returns, name, params) returns ort_##name params;
#include "ep.def"
#undef ENTRY

typedef struct ep_library {
    ReleaseEpApiFactoryFn release_factory;
    OrtEpFactory *factories[16]; /* [factory_count] */
    size_t factory_count;
    uint32_t device_count; /* devices that the factories support */
    /* [used_count] the devices that are used, all of one factory: the number of each among all devices, and the
     * arguments of CreateEp */
    uint32_t numbers[ORT_EP_MOST_DEVICES];
    OrtEpDevice *devices[ORT_EP_MOST_DEVICES];
    const OrtHardwareDevice *hardware[ORT_EP_MOST_DEVICES];
    const OrtKeyValuePairs *metadata[ORT_EP_MOST_DEVICES];
    size_t used_count;
    OrtEpDevice *device; /* the first of them */
} ep_library;

typedef struct ep_prices ep_prices;

/* The memory of the library's device, and the functions of its factory for it. */
typedef struct ep_memory {
    const OrtMemoryInfo *info;     /* NULL: the library computes in host memory */
    OrtAllocator *allocator;       /* NULL: only an OrtEp has allocators */
    OrtDataTransferImpl *transfer; /* NULL: none */
    bool has_copies;               /* transfer copies from the host and to it */
    bool has_inner_copies;         /* ... and within the memory */
} ep_memory;

/* An open provider. */
typedef struct ep_state {
    const inlay_host *host;
    const char *name; /* of the EP */
    ep_library library;
    ep_memory memory;
    uint32_t domain; /* id of the memory as a domain, if ep_memory_is_domain() */
    char domain_name[96];
    OrtSessionOptions options, context_options; /* context_options ask for EPContext nodes */
    bool makes_contexts;
    char fingerprint[1024];
    char *device, *facts; /* option device, and properties of the device, for inlay_device_info */
    OrtKeyValuePairs environment;
    OrtLogger logger;
    pthread_mutex_t lock; /* protects the members below, and calls that create, ask or release an OrtEp */
    OrtEp *assessing;
    uint64_t fused_count; /* for the names of fused nodes */
    ep_prices *prices;
    inlay_operator *operators; /* [operator_count] custom operators of the library; ctx is the OrtCustomOp */
    size_t operator_count;
    inlay_ext_operators operator_table;
} ep_state;

/* The host, for functions of the tables that get no object of it. */
const inlay_host *ep_host(void);

/* Opens the library and chooses devices of the EP with this name, by their numbers in a list such as "0,2"; ep_name
 * NULL: devices of all EPs. */
inlay_status ep_library_open(ep_state *state, const char *path, const char *ep_name, const char *numbers,
                             inlay_diag *diag);
void ep_library_close(ep_state *state);
/* state->environment is the environment of calls of its library. */
void ep_environment_open(const ep_state *state);
void ep_environment_close(ep_state *state);
/* Records that this thread calls the library of a provider, for functions of the tables that do not get the provider as
 * an argument; NULL: none. Returns the previous one, which the caller restores. */
const ep_state *ep_enter(const ep_state *state);
/* Prepares the memory of the device; _close also after a failure. */
OrtStatus *ep_memory_open(ep_state *state);
void ep_memory_close(ep_state *state);
/* Whether values stay in the memory of the device between regions, with the functions below. */
bool ep_memory_is_domain(const ep_state *state);
inlay_status ep_buffer_alloc(void *state, const inlay_alloc_request *request, inlay_buffer *out, inlay_diag *diag);
void ep_buffer_free(void *state, const inlay_free_request *request);
inlay_status ep_buffer_copy(void *state, const inlay_copy_request *request, inlay_diag *diag);
/* Creates an OrtEp, which may be asked to make EPContext nodes; _release with NULL is a no-op. */
OrtStatus *ep_create(const ep_state *state, bool makes_context, OrtEp **out);
void ep_release(const ep_state *state, OrtEp *ep);
/* The version of the interface that this thread's library asked for in vain since the last call; 0: none. */
uint32_t ep_refused_version(void);
void ep_describe_version(uint32_t version, char *out, size_t bytes);
/* Whether a struct that the library made has the members of a version of the interface. */
#define EP_SINCE(object, version) ((object)->ort_version_supported >= (version))
/* Converts a failure of the library, which it releases. */
inlay_status ep_fail(const ep_state *state, const char *what, OrtStatus *failed, inlay_status code, inlay_diag *diag);

/* Prepares the tables; create calls it, and every call has the same host. */
void ep_tables_open(const inlay_host *host);

/* The memory for tensors is kept while a provider is open: one thread at a time opens and closes. _reserve makes room
 * for the tensors of a run; false: no memory. */
void ep_tensors_open(void);
void ep_tensors_close(void);
bool ep_tensors_reserve(size_t count);

struct OrtValueInfo {
    const OrtGraph *graph;
    const inlay_value_info *info;
    uint32_t value; /* index in the graph of inlay; INLAY_NONE: the entry is not used */
    bool is_input, is_output;
    OrtTypeInfo *type;
    OrtValue *constant; /* atomic; NULL: not requested yet */
};

struct OrtNode {
    const OrtGraph *graph;
    const inlay_node_info *info;
    size_t id; /* index in the graph of inlay; of a fused node: the number of its nodes */
    const char *ep_name;
    const OrtValueInfo **inputs, **outputs; /* [input_count], [output_count] NULL: omitted */
    size_t input_count, output_count, attr_count;
    OrtOpAttr **attrs; /* [attr_count] */
};

/* A view of some of the nodes of a graph. Pointers into the graph are borrowed. */
struct OrtGraph {
    const inlay_graph *graph;
    const inlay_host *host;
    void *compile;        /* the handle of a compile request; NULL: the graph is only assessed */
    OrtNode *nodes;       /* [node_count] in the order of the graph */
    OrtValueInfo *values; /* [graph->value_count] */
    const OrtValueInfo **inputs, **outputs, **constants;
    size_t node_count, input_count, output_count, constant_count;
    bool is_whole;
};

/* A view of all nodes (nodes NULL), or of the given ones, ascending. The inputs of a part are the values that enter, in
 * the order of their first use, with constants; the outputs are those that leave. */
OrtStatus *ep_graph_create(const inlay_graph *graph, const uint32_t *nodes, size_t node_count, const inlay_host *host,
                           void *compile, OrtGraph **out);
/* The node that stands for all nodes of a view, described by *out_info: its inputs are those of the view, without
 * constants if they are dropped. ep_node_deinit releases it. */
OrtStatus *ep_fused_init(const OrtGraph *view, const char *name, const char *ep_name, bool drop_constants,
                         inlay_node_info *out_info, OrtNode *out);
void ep_node_deinit(OrtNode *node);

/* Whether a value is a tensor of one of the types, bits of ONNXTensorElementDataType. */
bool ep_value_has_type(const OrtValueInfo *value, uint64_t types);

/* Nodes that run together. */
typedef struct ep_group {
    uint32_t *nodes; /* [node_count] ascending */
    size_t node_count;
    bool is_fused, drops_constants;
} ep_group;
struct OrtEpGraphSupportInfo {
    const OrtKernelRegistry *registry; /* NULL: none */
    const char *ep_name;
    ep_group *groups; /* [group_count] */
    size_t group_count;
};
/* Asks the library which nodes of a view it supports. ep_support_deinit releases the answer, also after a failure. */
OrtStatus *ep_support_ask(OrtEp *ep, const OrtGraph *view, OrtEpGraphSupportInfo *out);
void ep_support_deinit(OrtEpGraphSupportInfo *support);
/* Orders uint32_t by size, for qsort(). */
int ep_compare_indices(const void *one, const void *other);
inlay_status ep_assess(void *state, const inlay_assess_request *request, inlay_diag *diag);

/* Gets the custom operators of the library. */
inlay_status ep_operators_open(ep_state *state, inlay_diag *diag);
void ep_operators_close(ep_state *state);
/* The custom operator of a node; NULL: it has another operator. */
const OrtCustomOp *ep_operator_find(const ep_state *state, const inlay_node_info *node);
const void *ep_extension(void *state, const char *name);

/* Whether the inputs and outputs of a node to which a type constraint of a kernel applies have permitted types. name:
 * of the type parameter, or of an input or output. */
bool ep_schema_fits(const OrtOpSchema *schema, const OrtNode *node, const char *name, uint64_t types);

typedef struct ep_kernel ep_kernel; /* a registered kernel */
const OrtKernelDef *ep_kernel_find(const OrtKernelRegistry *registry, const char *ep_name, const OrtNode *node);
OrtStatus *ep_kernel_create(const OrtKernelRegistry *registry, const OrtKernelDef *found, const OrtKernelInfo *info,
                            OrtKernelImpl **out);

/* The kernel of one node, which the library registered, or which a custom operator of it creates. */
typedef struct ep_single {
    OrtKernelImpl *kernel; /* NULL: a custom operator's */
    const OrtKernelDef *def;
    const OrtCustomOp *op;
    void *custom; /* what op created */
} ep_single;
/* _release also after a failure; out is zero. */
inlay_status ep_single_create(ep_single *out, const ep_state *state, const OrtEpGraphSupportInfo *support,
                              const OrtNode *node, const OrtKernelInfo *info, inlay_diag *diag);
void ep_single_release(ep_single *single);
OrtStatus *ep_single_run(const ep_single *single, OrtKernelContext *context);
/* Lets the kernel pack a constant input. *packed: it does not read the input any more. */
OrtStatus *ep_single_pack(const ep_single *single, size_t input, const OrtValue *tensor, OrtAllocator *allocator,
                          bool *packed);
/* Returns true if a kernel's input or output is in host memory although the EP computes in the memory of a device. def
 * and op: members of the kernel's ep_single; both NULL: false. */
bool ep_is_on_host(const OrtKernelDef *def, const OrtCustomOp *op, size_t index, bool is_output);

/* EPContext nodes.
 *
 * A library that supports EPContext returns such a node for each compiled subgraph; the engine cache stores it. Its key
 * contains no names, but libraries may look up inputs and outputs by name. So the names are stored, too, and given to
 * the node. */

/* A stored node; texts point into the blob. */
typedef struct ep_context {
    const char *fused_name, *node_name, *compatibility;
    bool drops_constants;
    uint64_t input_count, output_count, attr_count;
    const char *first_name; /* of the inputs, then of the outputs */
    const char *first_attr;
    const char *end;
} ep_context;
/* False: the blob is none, or is damaged. */
bool ep_context_read(ep_context *out, const void *blob, uint64_t bytes);
/* Stores the node. A failure is logged. */
void ep_context_store(const ep_state *state, OrtEp *ep, const inlay_compile_request *request, const OrtGraph *view,
                      const OrtNode *fused, bool drops_constants, const OrtNode *node);
/* A graph with a stored node alone. fused: the node of the region that it stands for, in view. */
typedef struct ep_context_graph {
    inlay_graph graph;
    inlay_node_info node;
    inlay_value_info *values;
    inlay_attr_info *attrs;
    uint32_t *indices;
    OrtGraph *view;
} ep_context_graph;
OrtStatus *ep_context_graph_init(ep_context_graph *out, const ep_context *context, const OrtGraph *view,
                                 const OrtNode *fused);
void ep_context_graph_deinit(ep_context_graph *graph);
/* inlay_provider.fingerprint and cache_verdict. */
inlay_status ep_fingerprint(void *state, inlay_fingerprint *out, inlay_diag *diag);
inlay_status ep_cache_verdict(void *state, inlay_cache_request *request, inlay_diag *diag);

inlay_status ep_compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                        inlay_diag *diag);
void ep_release_compiled(void *state, inlay_compiled *compiled);
inlay_status ep_specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                           inlay_instance **out_instance, inlay_diag *diag);
void ep_release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance);
inlay_status ep_execute(void *state, inlay_compiled *compiled, inlay_instance *instance, const inlay_exec_args *args);

/* Creates a stream for the memory of the device; NULL if the library has none. _release with NULL is a no-op. */
OrtStatus *ep_stream_create(OrtEp *ep, const OrtEpDevice *device, OrtSyncStream **out);
void ep_stream_release(OrtSyncStream *stream);
/* Waits for what was submitted to the stream, which may be NULL. */
OrtStatus *ep_stream_wait(OrtSyncStream *stream);

/* A node of a region, for profiles. */
typedef struct ep_node_name {
    uint32_t index; /* in the graph */
    char *name;
} ep_node_name;
/* The profiler of a run. nodes and node_count are set by the caller. */
typedef struct ep_profiling {
    const ep_node_name *nodes; /* [node_count] */
    size_t node_count;
    const inlay_host *host;
    const inlay_ext_steps *steps;
    inlay_run *run;
    OrtEpProfilerImpl *profiler; /* NULL: the run is not profiled, or the library has none */
    uint64_t id;                 /* of the event of the region */
    uint64_t begin_ns;           /* of the profiler, on CLOCK_MONOTONIC */
} ep_profiling;
/* Before and after a run of a region. */
void ep_profile_begin(ep_profiling *run, const inlay_host *host, OrtEp *ep, inlay_run *of);
void ep_profile_end(const ep_profiling *run, const OrtKernelInfo *info);

/* What the price of nodes depends on: their operators, and the shapes of their inputs and outputs. */
typedef struct ep_signature {
    uint64_t structure; /* hash of the operators and their attributes */
    uint32_t *values;   /* [count] inputs and outputs, as indices in the graph */
    size_t count;
} ep_signature;
bool ep_signature_init(ep_signature *signature, const inlay_graph *graph, const uint32_t *nodes, uint32_t node_count);
void ep_signature_deinit(ep_signature *signature);
/* The measured times of a library with the settings that the texts state. They are kept while the process lives, so
 * that later sessions know them. NULL: no memory. */
ep_prices *ep_prices_open(const char *const *texts, size_t count);
/* Where the times at these shapes are kept; SIZE_MAX: nowhere, because there are too many, or no memory. */
size_t ep_price_place(ep_prices *prices, const ep_signature *signature, const inlay_value_state *values,
                      uint32_t value_stride);
void ep_price_learn(ep_prices *prices, size_t place, double ns);
inlay_status ep_cost(void *state, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag);
#endif
