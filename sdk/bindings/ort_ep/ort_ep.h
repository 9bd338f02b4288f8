/* ort_ep.h - inlay as an execution provider (EP) of ONNX Runtime 1.23 and later.
 *
 * factory.c answers the library's two symbols and creates one ep for each session. The ep is asked twice: capability.c
 * says which nodes inlay runs, compute.c makes an inlay session of each group of nodes and runs it. Both write the
 * nodes as an ONNX file in memory (model.c), which is the only form in which inlay takes a model. */
#ifndef ORT_EP_H
#define ORT_EP_H
#include "inlay/inlay.h"
#include "api.h"
#include "ep_types.h"
#include "writer.h"

#define EP_NAME "InlayExecutionProvider"

/* The functions of version 23 are used, and later ones where the runtime has them. */
enum { EP_API_VERSION = 23, EP_PROFILER_VERSION = 25 };

/* The tables of the runtime that loaded the library; the same in all sessions. */
typedef struct ep_runtime {
    const OrtApi *api;
    const OrtEpApi *ep_api;
    uint32_t version; /* 30 of 1.30.0 */
} ep_runtime;

/* A model in memory, with the session that runs it. Shared by the ep, which finds it by its text, and the fused
 * node. */
typedef struct ep_model {
    ort_writer text; /* the graph without large initializers: two models of an ep with the same text are the same */
    ort_writer file; /* the ONNX file; the session reads weights from it */
    inlay_session *session;
    size_t node_count;
} ep_model;

/* An execution provider of one session. */
struct ep {
    OrtEp base; /* first: the runtime passes pointers to it */
    ep_runtime runtime;
    const OrtLogger *logger;
    inlay_options *options;
    ep_model *whole; /* the model of the whole graph, compiled to learn whether inlay takes it; or NULL */
    struct {
        bool wanted;   /* the runtime writes a model with EPContext nodes */
        bool embedded; /* these nodes contain the compiled models; otherwise separate files do */
        char *path;    /* of the model that it writes; "": not stated */
        char *prefix;  /* of the names of such nodes */
    } context;
};

/* A status of the runtime with a message; text may be NULL. */
OrtStatus *ep_fail(const ep_runtime *runtime, OrtErrorCode code, const char *what, const char *text);
OrtStatus *ep_no_memory(const ep_runtime *runtime);
/* The status of a call of inlay; NULL if it succeeded. */
OrtStatus *ep_from(const ep_runtime *runtime, inlay_status status, const inlay_diag *diag);
void ep_log(const struct ep *self, OrtLoggingLevel level, const char *text);

/* The element type as inlay's; INLAY_UNDEFINED: inlay has none. */
static inline inlay_dtype ep_dtype(ONNXTensorElementDataType type)
{
    return type > 0 && type <= ORT_FLOAT4E2M1 ? type : INLAY_UNDEFINED;
}

/* Values by name. Names are borrowed. */
typedef struct ep_name {
    const char *name;
    const OrtValueInfo *info;
    bool produced; /* by a node of the group */
} ep_name;
typedef struct ep_names {
    ep_name *items;  /* [count], in the order in which they were added */
    uint32_t *slots; /* [capacity] index + 1 of an item; 0: free */
    size_t count, capacity;
} ep_names;
/* Finds the item of that name, or adds it. NULL: out of memory. */
ep_name *ep_names_add(ep_names *names, const char *name, const OrtValueInfo *info);
/* NULL: there is none. */
ep_name *ep_names_find(const ep_names *names, const char *name);
void ep_names_deinit(ep_names *names);

/* A list that the runtime fills. */
typedef struct ep_values {
    const OrtValueInfo **items; /* [count] malloc; NULL: an omitted input or output */
    size_t count;
} ep_values;
typedef struct ep_nodes {
    const OrtNode **items; /* [count] malloc */
    size_t count;
} ep_nodes;
OrtStatus *ep_graph_nodes(const ep_runtime *runtime, const OrtGraph *graph, ep_nodes *out);
OrtStatus *ep_graph_outputs(const ep_runtime *runtime, const OrtGraph *graph, ep_values *out);
OrtStatus *ep_node_inputs(const ep_runtime *runtime, const OrtNode *node, ep_values *out);
OrtStatus *ep_node_implicit_inputs(const ep_runtime *runtime, const OrtNode *node, ep_values *out);
OrtStatus *ep_node_outputs(const ep_runtime *runtime, const OrtNode *node, ep_values *out);
/* *out is the element type if the value is a tensor, otherwise INLAY_UNDEFINED. */
OrtStatus *ep_value_dtype(const ep_runtime *runtime, const OrtValueInfo *info, inlay_dtype *out);

/* The nodes of a model, and how they are written. */
typedef struct ep_group {
    const OrtGraph *graph;
    const OrtNode *const *nodes; /* [count] in topological order */
    size_t count;
    const OrtValueInfo *const *outputs; /* [output_count] */
    size_t output_count;
    /* The model only serves to ask whether inlay supports the nodes: large initializers become inputs, and numbers
     * replace the names of values, so that the model is small and equal nodes are asked about once. */
    bool probe;
} ep_group;
/* Writes the nodes as an ONNX file. Values that they read and do not compute become inputs, constants initializers.
 * *bindable is false if an input or output is not a tensor that inlay and the runtime store in the same way: strings,
 * sequences, maps; the model is then not written. */
OrtStatus *ep_model_write(const ep_runtime *runtime, const ep_group *group, ep_model *out, bool *bindable);
/* Writes the group and creates its session. *out is NULL if the group is not bindable, or if inlay does not support it:
 * *diag then has the reason. */
OrtStatus *ep_model_create(const struct ep *self, const ep_group *group, ep_model **out, inlay_diag *diag);
/* NULL is a no-op. */
void ep_model_destroy(ep_model *model);

/* Reads the session's options; ep_context_deinit releases them, also after a failure. */
OrtStatus *ep_context_options(struct ep *self, const OrtKeyValuePairs *entries);
void ep_context_deinit(struct ep *self);
/* Whether the node is an EPContext node of this provider. */
OrtStatus *ep_context_is_own(const ep_runtime *runtime, const OrtNode *node, bool *out);
/* Creates the EPContext node for a fused node, whose model is written into it or into a file next to it. */
OrtStatus *ep_context_write(const struct ep *self, const OrtGraph *graph, const OrtNode *fused_node,
                            const ep_values *inputs, const ep_values *outputs, const ep_model *model, OrtNode **out);
/* Opens the model of an EPContext node. */
OrtStatus *ep_context_read(const struct ep *self, const OrtGraph *graph, const OrtNode *node, ep_model **out);
/* OrtEp and OrtEpFactory: whether a compiled model is up to date. */
const char *ep_context_compatibility(OrtEp *base, const OrtGraph *graph);
OrtStatus *ep_context_validate(OrtEpFactory *base, const OrtHardwareDevice *const *devices, size_t device_count,
                               const char *info, OrtCompiledModelCompatibility *out);

/* OrtEp, of version 25. */
OrtStatus *ep_create_profiler(OrtEp *base, OrtEpProfilerImpl **out);
/* Whether a run on this thread is to be profiled, by the next function instead of inlay_context_run(). */
bool ep_profile_wanted(void);
/* Runs and reports the steps of the run. name: of the fused node. */
inlay_status ep_profile_run(inlay_context *context, const char *name, inlay_diag *diag);

OrtStatus *ep_get_capability(OrtEp *base, const OrtGraph *graph, OrtEpGraphSupportInfo *support);
OrtStatus *ep_compile(OrtEp *base, const OrtGraph **graphs, const OrtNode **fused_nodes, size_t count,
                      OrtNodeComputeInfo **infos, OrtNode **ep_context_nodes);
void ep_release_compute_infos(OrtEp *base, OrtNodeComputeInfo **infos, size_t count);
#endif
