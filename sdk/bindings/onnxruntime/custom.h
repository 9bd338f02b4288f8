/* custom.h - custom operators of programs (OrtCustomOp) as operators and kernels of an inlay provider.
 *
 *     attribute.c   attributes, of nodes and made by programs
 *     custom.c      domains; operators made known to inlay
 *     infer.c       shapes that are known before the run
 *     kernel.c      what a kernel asks: its node (OrtKernelInfo) and its run (OrtKernelContext)
 *     operator.c    operators that kernels call
 *     provider.c    the provider that runs kernels
 *
 * A session's operators are looked up by a number that the session's options hand to the provider, so that sessions
 * with operators of the same name do not see each other's. */
#ifndef ORT_CUSTOM_H
#define ORT_CUSTOM_H
#include "inlay/plugin.h"
#include "ort.h"

struct OrtCustomOpDomain {
    char *name;
    const OrtCustomOp **ops; /* [count] the program's */
    size_t count;
};

/* The name of the provider that runs them. */
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

/* Prepares the custom operators that options name: makes them known to inlay and adds to `to` the setting that lets
 * this session's provider find them. *out is NULL where options name none. */
OrtStatus *ort_custom_begin(const OrtSessionOptions *options, inlay_options *to, ort_custom **out);
/* The operators that answer for shapes on this thread, from when a session is created to when it is there; NULL: none.
 */
void ort_custom_creating(const ort_custom *custom);
bool ort_custom_infers(const OrtCustomOp *op);
inlay_status ort_custom_infer(void *ctx, inlay_infer *infer, inlay_diag *diag);
/* After the session is gone. */
void ort_custom_end(ort_custom *custom);
/* The one of that number; NULL: it is gone. */
const ort_custom *ort_custom_find(uint64_t id);
/* The operator of a node; NULL: the session has none. */
const OrtCustomOp *ort_custom_match(const ort_custom *custom, const inlay_node_info *node);
/* The entry of the plugin that brings the provider. */
inlay_status ort_provider_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag);

/* ------------------------------------------------------------------ attributes */

struct OrtOpAttr {
    char *name;
    OrtOpAttrType type;
    size_t count; /* of the lists; bytes of a text */
    int64_t *ints;
    float *floats;
    inlay_str *strings; /* texts end in NUL */
    OrtValue *tensor;
};
/* NULL: no memory, or a kind that has no type there. */
OrtOpAttr *ort_attr_copy(const inlay_attr_info *attr);

/* ------------------------------------------------------------------ kernels */

struct OrtKernelInfo {
    uint32_t references;
    char *name, *domain, *op_type;
    uint32_t since_version;
    OrtOpAttr **attrs; /* [attr_count] */
    size_t attr_count, input_count, output_count;
    char **names;         /* [input_count + output_count] */
    OrtTypeInfo **types;  /* likewise; NULL: omitted */
    OrtValue **constants; /* [input_count] NULL: not constant */
    const OrtKeyValuePairs *entries;
};
/* constants are the caller's to fill in. NULL: no memory. */
OrtKernelInfo *ort_kernel_info_new(const inlay_graph *graph, const inlay_node_info *node, const ort_custom *custom);

typedef struct ort_scratch {
    struct ort_scratch *next;
    max_align_t memory[];
} ort_scratch;
struct OrtKernelContext {
    const inlay_host *host;
    const inlay_exec_args *args;
    const OrtKernelInfo *info;
    OrtValue **inputs;         /* [info->input_count] NULL: omitted */
    OrtValue **outputs;        /* [info->output_count] NULL: not made yet */
    const uint32_t *output_at; /* [info->output_count] in args->outputs; INLAY_NONE: nobody reads it */
    const inlay_dtype *output_types;
    ort_scratch *scratch;
};

struct OrtShapeInferContext {
    const inlay_infer *infer;
    OrtTensorTypeAndShapeInfo **shapes; /* [input_count] those that were asked for */
    OrtOpAttr **attrs;                  /* [attr_count] likewise */
};
#endif
