/* custom.h - custom operators of programs (OrtCustomOp) as operators and kernels of an inlay provider.
 *
 *     attribute.c   attributes of nodes, and attributes created by programs
 *     domain.c      domains
 *     custom.c      registers operators with inlay
 *     signature.c   their schemas
 *     infer.c       shape inference before the run
 *     custom_kernel.c   creates and runs kernels
 *     kernel.c      what a kernel can query: its node (OrtKernelInfo) and its run (OrtKernelContext)
 *     operator.c    operators that kernels call
 *     ports.c       inputs, constants and outputs of a node in a region, and its run
 *     provider.c    the provider that runs kernels
 *
 * The operators of a session (ort_custom) have a number. The options of the session pass this number to the provider,
 * so that sessions with different operators of the same name do not affect each other. */
#ifndef ORT_CUSTOM_H
#define ORT_CUSTOM_H
#include "inlay/plugin.h"
#include "ort.h"

struct OrtCustomOpDomain {
    char *name;
    const OrtCustomOp **ops; /* [count] owned by the program */
    size_t count;
};

/* The name of the provider that runs custom operators. */
#define ORT_PROVIDER "ort_custom"

/* An operator of a session. */
typedef struct ort_custom_op {
    char *domain;
    const OrtCustomOp *op;
} ort_custom_op;
struct ort_custom {
    uint64_t id;
    ort_custom_op *ops; /* [count] */
    size_t count;
    OrtKeyValuePairs entries; /* of the session's options, for kernels */
    ort_custom *next;
};

/* Prepares the custom operators of options: registers them with inlay and adds to `to` the setting by which the
 * provider finds them. *out is NULL if options have none. */
OrtStatus *ort_custom_begin(const OrtSessionOptions *options, inlay_options *to, ort_custom **out);
/* Sets the operators used for shape inference on this thread while a session is being created; NULL: none. Returns the
 * operators set before, those of the session whose creation made a callback create this one. */
const ort_custom *ort_custom_creating(const ort_custom *custom);
/* The schema in the notation of inlay/plugin.h. An input without a type accepts any type. An output without a type has
 * the type of the first such input, unless the operator has a shape inference function. */
enum { ORT_SIGNATURE = 2048 };
OrtStatus *ort_custom_signature(const OrtCustomOp *op, char text[ORT_SIGNATURE]);
uint32_t ort_custom_start_version(const OrtCustomOp *op);
/* The least number of inputs, or of outputs, of the operator's nodes if its signature cannot state it; otherwise 0. */
size_t ort_custom_least(const OrtCustomOp *op, bool output);
/* Checks what the signature of the operator could not state. */
inlay_status ort_custom_check_counts(const OrtCustomOp *op, const inlay_node_info *node, inlay_diag *diag);
bool ort_custom_infers(const OrtCustomOp *op);
/* inlay_operator.infer of a custom operator; op: the OrtCustomOp. */
inlay_status ort_custom_infer(void *op, inlay_infer *infer, inlay_diag *diag);
OrtStatus *ort_custom_kernel_create(const OrtCustomOp *op, const OrtKernelInfo *info, void **out);
OrtStatus *ort_custom_kernel_run(const OrtCustomOp *op, void *kernel, OrtKernelContext *context);
/* Called after the session is released. */
void ort_custom_end(ort_custom *custom);
/* The operators of a session by number; NULL: released. */
const ort_custom *ort_custom_find(uint64_t id);
/* The custom operator of a node; NULL: the session has none. */
const OrtCustomOp *ort_custom_match(const ort_custom *custom, const inlay_node_info *node);
/* The entry point of the plugin with the provider. */
inlay_status ort_provider_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag);

struct OrtOpAttr {
    char *name;
    OrtOpAttrType type;
    size_t count; /* of the lists; the number of bytes of a single string */
    int64_t *ints;
    float *floats;
    inlay_str *strings; /* NUL-terminated */
    OrtValue *tensor;
};
/* NULL: no memory. A kind without counterpart has the type ORT_OP_ATTR_UNDEFINED. */
OrtOpAttr *ort_attr_copy(const inlay_attr_info *attr);
/* A copy of an attribute; the copy of a tensor holds a reference to it. */
OrtStatus *ort_attr_clone(const OrtOpAttr *attribute, OrtOpAttr **out);

struct OrtKernelInfo {
    uint32_t references;
    char *name, *domain, *op_type;
    uint32_t since_version;
    OrtOpAttr **attrs; /* [attr_count] */
    size_t attr_count, input_count, output_count;
    char **names;         /* [input_count + output_count] */
    OrtTypeInfo **types;  /* [input_count + output_count] NULL: omitted */
    OrtValue **constants; /* [input_count] NULL: not constant */
    const OrtKeyValuePairs *entries;
    const struct OrtEp *ep; /* of a kernel of a plug-in execution provider; otherwise NULL */
};
/* entries is borrowed. The caller sets the constants. NULL: no memory. */
OrtKernelInfo *ort_kernel_info_new(const inlay_graph *graph, const inlay_node_info *node,
                                   const OrtKeyValuePairs *entries);
/* The type of a value of a graph. NULL: no memory. */
OrtTypeInfo *ort_type_of_value(const inlay_value_info *value);

typedef struct ort_scratch {
    struct ort_scratch *next;
    max_align_t memory[];
} ort_scratch;
struct OrtKernelContext {
    const inlay_host *host;
    const inlay_exec_args *args;
    const OrtKernelInfo *info;
    OrtValue **inputs;         /* [info->input_count] NULL: omitted */
    OrtValue **outputs;        /* [info->output_count] NULL: not created yet */
    const uint32_t *output_at; /* [info->output_count] in args->outputs; INLAY_NONE: no consumer */
    const inlay_dtype *output_types;
    ort_scratch *scratch;
    /* of kernels that compute in the memory of a device; otherwise NULL */
    const OrtMemoryInfo *memory; /* that memory: of all buffers that are not in the host's domain */
    OrtAllocator *allocator;     /* of that memory */
    const bool *host_outputs;    /* [info->output_count] the kernel writes the output in host memory */
    OrtValue **placed;           /* [info->output_count] tensors there in place of outputs in host memory; NULL: none */
    OrtSyncStream *stream;       /* of that device; NULL: none */
    void *stream_handle;         /* the device's own handle of the stream */
};

/* The inputs and outputs of a node, or of several nodes that are fused to one, in a region. */
typedef struct ort_ports {
    const char *kind; /* what messages call the node: "custom operator" */
    OrtKernelInfo *info;
    uint32_t *input_at;  /* [info->input_count] in the run's inputs; INLAY_NONE: a constant, or omitted */
    uint32_t *output_at; /* [info->output_count] in the run's outputs; INLAY_NONE: no consumer */
    inlay_dtype *output_types;
} ort_ports;
/* Finds the node's inputs and outputs among those of the request, and holds its constants, which are borrowed as long
 * as the region exists. ports is zero, and is released by _deinit, also after a failure. entries is borrowed. */
inlay_status ort_ports_init(ort_ports *ports, const inlay_host *host, const inlay_compile_request *request,
                            const inlay_node_info *node, const OrtKeyValuePairs *entries, inlay_diag *diag);
void ort_ports_deinit(ort_ports *ports);
/* Converts a failure of a library's function, which it releases; what: "creating its kernel failed". */
inlay_status ort_ports_fail(const ort_ports *ports, const char *what, OrtStatus *failed, inlay_diag *diag);
/* Runs compute on the tensors of a run, which are not copied. memory: of those that are not in the host's domain; NULL:
 * there are none. */
typedef OrtStatus *(*ort_compute_fn)(const void *user, OrtKernelContext *context);
inlay_status ort_ports_run(const ort_ports *ports, const inlay_host *host, const inlay_exec_args *args,
                           const OrtMemoryInfo *memory, ort_compute_fn compute, const void *user);

struct OrtShapeInferContext {
    const inlay_infer *infer;
    OrtTensorTypeAndShapeInfo **shapes; /* [input_count] NULL: not requested yet */
    OrtOpAttr **attrs;                  /* [attr_count] NULL: not requested yet */
};
#endif
