/* graph/graph.h - the host's representation of a model: graphs of nodes and values, which are referred to by index.
 *
 * A model owns one arena; graphs, nodes, names, dims and attributes are allocated in it and freed with it. Constant
 * data is not in the arena but mapped from the files, or owned by the model's list of blobs.
 *
 * The structs that plugins see (inlay_node_info, inlay_value_info) are embedded here, so a snapshot only copies arrays.
 * Bodies of If, Loop and Scan are separate graphs. A body has one extra value for each outer value that it uses (a
 * capture), and the node lists these outer values in `captures`. So every graph is closed, and liveness analysis and
 * planning treat a capture as an additional input. */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H
#include "base/arena.h"
#include "base/mapped_file.h"
#include "base/names.h"
#include "inlay/check.h"
#include "inlay/graph_view.h"
#include "schema.h"
#include <stdbool.h>

struct graph;
typedef struct graph_model graph_model;
typedef struct graph_history graph_history;

/* A value of a graph. Its type may be nested: seq(tensor), optional(seq(tensor)), seq(map). info.kind is the outermost
 * kind; info.dtype, rank and dims describe the innermost tensor (for a map: its value). */
typedef struct graph_value {
    inlay_value_info info; /* graph_finish() updates producer and flags */
    uint32_t inner_kind;   /* for SEQUENCE and OPTIONAL: INLAY_VALUE_TENSOR, SEQUENCE or MAP; otherwise 0 */
    inlay_dtype map_key;   /* MAP: INT64 or STRING */
    bool sparse;           /* declared as a sparse tensor; the host stores it densely */
    const char *doc;       /* doc_string, or NULL */
    bool declared;         /* listed in graph input, output or value_info, with the type in declared_* */
    /* A graph input that is also an initializer. In IR 3 it is a constant and not in graph.inputs. From IR 4 on it is
     * an input that the caller may omit, with the value default_value; info.data stays NULL. */
    bool has_default;
    const inlay_tensor_view *default_value;
    inlay_dtype declared_dtype; /* UNDEFINED if the file has none */
    uint32_t declared_rank;
    /* Dims are UNKNOWN where the file has -1 or nothing; info.dims of graph inputs have symbols instead. */
    const inlay_dim *declared_dims;
    inlay_str extra; /* see graph_node.extra */
} graph_value;

/* A subgraph attribute of a node. */
typedef struct graph_body {
    const char *attr; /* "then_branch", "else_branch", "body" */
    struct graph *graph;
    uint32_t *capture_outer; /* [capture_count] values of the enclosing graph */
    uint32_t *capture_inner; /* [capture_count] the corresponding values of the body */
    uint32_t capture_count;
    bool in_list; /* an element of an attribute of kind GRAPHS; the bodies of one list are adjacent */
} graph_body;

/* An attribute of a node in a function's body whose value is an attribute of the call. */
typedef struct graph_attr_ref {
    const char *name; /* the node's attribute */
    const char *from; /* the function's attribute */
    uint32_t kind;    /* INLAY_ATTR_* */
} graph_attr_ref;

typedef struct graph_node graph_node;
struct graph_node {
    inlay_node_info info;         /* inputs and outputs are in the arena; passes may modify them */
    const op_row *row;            /* row of the schema table; NULL before graph_bind() and for custom operators */
    const op_schema *schema;      /* shared by nodes with the same signature; NULL before graph_bind() */
    const inlay_operator *custom; /* a plugin's operator, or NULL */
    int64_t opset;                /* imported version of its domain; functions have separate imports */
    const char *overload;         /* of a model-local function (IR 10), or "" */
    const char *doc;
    graph_body *bodies; /* [body_count] */
    uint32_t body_count;
    uint32_t *captures; /* [capture_count] outer values used by any body, each once */
    uint32_t capture_count;
    const graph_value *type_attr; /* attribute of kind TYPE_PROTO (Optional), or NULL */
    const char *type_attr_name;
    graph_attr_ref *refs; /* [ref_count]; only in functions, resolved by inlining */
    uint32_t ref_count;
    bool early;              /* bound to an operator version newer than the model's opset, as ONNX Runtime does */
    uint32_t place;          /* 1 + its index among the nodes of the file's graph; 0 = not from the file */
    uint32_t own_attr_count; /* attributes of the file or set later come first; defaults that bind adds follow */
    inlay_str extra;         /* fields of the file that inlay does not interpret (metadata_props, device
                                configurations), in wire format; the writer writes them unchanged */
    const char *source;      /* line and module of the program that the model was exported from, as in
                                "FILE:12, model.layers.0"; NULL: the file does not say */
    const char *made_by;     /* optimiser pass that created the node; NULL: it is from the file */
    int64_t rewrite;         /* number of the rewrite that created it; 0 = none */
    const char *not_lowered; /* why a lowering pass did not replace the node; NULL: no pass refused */
};

struct graph {
    graph_model *model;
    struct graph *parent; /* NULL for the main graph and for functions */
    const char *name;
    const char *doc;
    graph_value *values; /* [value_count]; adding values may move the array, so keep indexes, not pointers */
    uint32_t value_count, value_capacity;
    graph_node **nodes; /* [node_count] in topological order after graph_finish(); node pointers are stable */
    uint32_t node_count, node_capacity;
    uint32_t *inputs; /* formal inputs in file order; inputs that are also initializers are included from IR 4 on, where
                         the initializer is a default */
    uint32_t *outputs;
    uint32_t input_count, output_count;
    uint32_t *captured; /* [captured_count] values that represent outer values (bodies only) */
    uint32_t captured_count;
    inlay_str extra;        /* see graph_node.extra; quantization annotations among others */
    graph_history *history; /* nodes that passes removed, see graph/history.h; NULL: none */
};

/* An input of the main graph that the next run gets from an output of this run. */
typedef struct graph_state {
    uint32_t input, output; /* indexes into the graph's inputs and outputs */
    uint32_t axis;          /* axis along which the output is longer; INLAY_NONE: the output replaces the input */
} graph_state;

typedef struct graph_opset {
    const char *domain; /* "ai.onnx" for "" */
    int64_t version;
} graph_opset;

typedef struct graph_property {
    const char *key, *value;
} graph_property;

/* A model-local function, before inlining. */
typedef struct graph_function {
    const char *domain, *name, *overload, *doc;
    struct graph *body; /* inputs and outputs are the formal ones, untyped */
    const char **attrs; /* names without default */
    uint32_t attr_count;
    const inlay_attr_info *defaults; /* attribute_proto */
    uint32_t default_count;
    graph_opset *opsets;
    uint32_t opset_count;
    inlay_str extra;
} graph_function;

/* Kinds of faults of a model that have a code: GRAPH_OPSET_TWICE, ... (faults.def). */
typedef enum graph_fault {
#define FAULT(name, code, fix) GRAPH_##name,
#include "graph/faults.def"
#undef FAULT
} graph_fault;

/* A fault of a model. The model owns all texts. */
typedef struct graph_finding {
    struct graph_finding *next;
    inlay_status status;        /* INLAY_OK: the model can still be run */
    const char *code;           /* stable: "opset-imported-twice" */
    const char *path;           /* JSONPath into the ModelProto: "$.graph.node[3]" */
    const struct graph *graph;  /* may be NULL */
    const struct graph_node *n; /* may be NULL */
    const char *node;           /* name of the node, or "" */
    const char *text;           /* message of one line, which names the location */
    const char *fix;            /* "" if the message contains it */
} graph_finding;

/* External data: a mapped file, or memory that a translation has filled (model/format.h). */
typedef struct graph_external {
    struct graph_external *next;
    const char *location;
    const void *bytes; /* [count] */
    size_t count;
} graph_external;

typedef struct graph_blob graph_blob; /* a file mapping or a heap block that contains constants; see graph.c */

/* What the file says about the model; texts may be "". */
typedef struct graph_about {
    const char *producer_name, *producer_version, *domain, *doc;
    int64_t version;
} graph_about;

/* Where a model comes from. */
typedef struct graph_source {
    const char *path;  /* of the file, or NULL */
    const void *bytes; /* [byte_count] that were parsed, for model_load_again() */
    size_t byte_count;
    uint64_t identity;         /* hash of the size, beginning and end of these bytes; never 0 for a loaded model */
    uint64_t stored_bytes;     /* size of the files of the model in the file system, without pipes and packed files */
    uint64_t copied_bytes;     /* bytes of files that were read into memory instead of being mapped */
    graph_external *externals; /* external data of the tensors; NULL: none */
    uint32_t made_externals;   /* those that a translation has made (model/format.h) */
    /* model_load_again(): the model whose mappings this one reads, which outlives it; otherwise NULL. */
    const graph_model *base;
} graph_source;

/* Memory of constants, unmapped or freed with the model. */
typedef struct graph_memory {
    graph_blob *blobs;
    graph_blob *files; /* the blobs that are mapped files */
    /* Folder for temporary files that hold large blocks of graph_blob_alloc(), whose pages can then be released; NULL:
     * all are in the heap. From the arena. */
    const char *spill_dir;
} graph_memory;

/* Schemas that bind.c has parsed. */
typedef struct graph_schemas {
    struct graph_schema **list; /* [count] */
    uint32_t count;
    names_table table; /* signature -> index into list */
} graph_schemas;

/* While the optimiser runs: new nodes are marked with both, and removed nodes are recorded in the history. */
typedef struct graph_rewrite {
    const char *pass; /* NULL: the optimiser does not run */
    int64_t number;   /* of the rewrite; 0 without a pass */
} graph_rewrite;

/* How faults of the model are handled, and those that were found. */
typedef struct graph_findings {
    bool strict;                 /* what violates ONNX but can be interpreted fails, instead of becoming a finding */
    bool collect;                /* binding and inference continue after an error, see graph_continue_after_error() */
    uint32_t fault;              /* 1 + the graph_fault of the last error, 0 = none */
    graph_finding *first, *last; /* in the order of discovery */
    uint32_t count;              /* at most 1000 are stored */
} graph_findings;

struct graph_model {
    struct arena arena;
    int64_t ir_version;
    graph_about about;
    graph_source source;
    graph_opset *opsets;
    uint32_t opset_count;
    graph_property *metadata;
    uint32_t metadata_count;
    graph_function *functions;
    uint32_t function_count;
    struct graph *main;
    inlay_symbol_info *symbols; /* [symbol_count], 0 reserved */
    uint32_t symbol_count;
    names_table symbol_table; /* name -> index into symbols */
    graph_schemas schemas;
    uint64_t next_name; /* number of the next name that graph_add_value() generates */
    graph_memory memory;
    inlay_str extra; /* see graph_node.extra */
    graph_rewrite rewrite;
    graph_findings findings;
    bool trusts_file; /* inference used a type or shape that the file declares, which may be wrong */
    /* For models that are being converted: if a node has types that its operator version does not support, inference
     * binds it to a later version, up to this opset. 0: inference fails. */
    int64_t later_opset;
};

/* Checks what holds for a model after graph_finish(), as INLAY_CHECK(graph_model_check(model)): returns true, or the
 * process ends at the condition that does not hold. In model_check.c. */
bool graph_model_check(const graph_model *model);

/* The symbol of an open dimension that a user names: by its name, as INPUT:AXIS, or, if no dimension has that name, as
 * "batch", which is the first dimension of the first input. 0: there is none. */
uint32_t graph_find_dim(const graph_model *model, const char *name, size_t bytes);
/* Fails with "PLACE: the model has no dimension named 'NAME'" and the nearest name, or those that there are. */
inlay_status graph_no_dim(const graph_model *model, const char *place, const char *name, size_t bytes,
                          inlay_diag *diag);

/* The module of graph_node.source, "model.layers.0"; NULL: none is known. */
const char *graph_node_module(const graph_node *node);
/* Writes the module of a node: that of graph_node_module(), "model.layers.0", or else the node's name up to its last
 * '/', "/model/layers.0" of "/model/layers.0/Add" and of "model/layers.0/Add". It begins with '/' in the second
 * case only, in which the parts of the name may contain '.'. Returns text, or NULL if neither is known. */
enum { GRAPH_SCOPE = 256 };
const char *graph_node_scope(const graph_node *node, char text[GRAPH_SCOPE]);
/* Tables of modules are at the deepest level with at most this many of them. */
enum { GRAPH_SCOPE_ROWS = 40 };
/* Cuts a text of graph_node_scope() to its first `parts` (at least one) parts. False: it has no further parts. */
bool graph_scope_cut(char *scope, uint32_t parts);
/* Appends " (from SOURCE)" to the message, if the node has a source, the message does not have it yet, and both fit. */
void graph_add_source(const graph_node *node, inlay_diag *diag);
/* Fails with "graph 'g', node 'n' (Conv): <text>". node and tensor may be NULL; a node without a name is identified by
 * its first output, and its source follows. Control characters of names are replaced, so the message has one line. */
INLAY_PRINTF(6, 7)
inlay_status graph_fail(const struct graph *graph, const graph_node *node, const char *tensor, inlay_status code,
                        inlay_diag *diag, const char *format, ...);

/* Records a finding about something that violates ONNX but can be interpreted (findings.c), or fails if the model is
 * strict. The text contains no fix; the fix of the fault is added. */
INLAY_PRINTF(7, 8)
INLAY_NODISCARD inlay_status graph_tolerate(graph_model *model, const struct graph *graph, const graph_node *node,
                                            const char *tensor, graph_fault fault, inlay_diag *diag, const char *format,
                                            ...);
/* Updates the paths of all findings after the graphs have been connected. False: out of memory. */
bool graph_update_finding_paths(graph_model *model);
/* graph_fail() with a fault code for `inlay check`. */
INLAY_PRINTF(7, 8)
inlay_status graph_fault_fail(const struct graph *graph, const graph_node *node, const char *tensor, graph_fault fault,
                              inlay_status code, inlay_diag *diag, const char *format, ...);
/* Called after a step for a node (or for the graph if node is NULL): may processing continue? If the model collects
 * errors, an error becomes a finding and *status becomes INLAY_OK. */
bool graph_continue_after_error(graph_model *model, const struct graph *graph, const graph_node *node,
                                inlay_status *status, inlay_diag *diag);
/* Code and fix of an error. If fault is 0, the code follows from the status. */
void graph_fault_text(uint32_t fault, inlay_status status, const char **out_code, const char **out_fix);

/* Creates a model with an empty main graph. NULL: out of memory. */
graph_model *graph_model_create(void);
void graph_model_destroy(graph_model *model); /* NULL is a no-op */

/* Creates a graph in the model's arena; parent is NULL for a main graph. NULL: out of memory. */
struct graph *graph_create(graph_model *model, struct graph *parent, const char *name);
/* Adds a value and returns its index, or INLAY_NONE if out of memory. name is copied; NULL generates one. Names are
 * unique within a graph. */
uint32_t graph_add_value(struct graph *graph, const char *name, size_t name_bytes);
/* Appends the input `name`, whose first dimension is the symbol `length`. view: its default, of any length and of rank
 * 1 or more, which states its other dimensions; its data and dims must outlive the model. INLAY_NONE: out of memory. */
uint32_t graph_add_list_input(struct graph *graph, const char *name, const char *length, const inlay_tensor_view *view);
uint32_t graph_find_value(const struct graph *graph, const char *name); /* linear search; the loader has a table */
/* Adds a node with the given numbers of inputs and outputs, all INLAY_NONE. NULL: out of memory. */
graph_node *graph_add_node(struct graph *graph, const char *op_type, const char *domain, const char *name,
                           uint32_t input_count, uint32_t output_count);
/* Appends a node of another graph of the model. The caller sets its inputs and outputs. */
inlay_status graph_append_node(struct graph *graph, graph_node *node);
/* Makes a value a constant. data is borrowed from a blob of the model, or from the arena. */
inlay_status graph_set_constant(struct graph *graph, uint32_t value, inlay_dtype dtype, uint32_t rank,
                                const int64_t *dims, const void *data, uint64_t bytes);
/* Adds a constant without a name; its data is borrowed as above. False: out of memory. */
bool graph_add_constant(struct graph *graph, const inlay_tensor_view *view, uint32_t *out_value);
/* Memory aligned to 64 bytes that is freed with the model: in the heap, or in a file of spill_dir. NULL: out of
 * memory. */
void *graph_blob_alloc(graph_model *model, size_t bytes);
/* Transfers a block from malloc to the model, which frees it. On failure the caller keeps it. */
inlay_status graph_blob_adopt(graph_model *model, void *block, size_t bytes);
/* Transfers a mapping and its watch to the model, which ends both. On failure the caller keeps them. */
inlay_status graph_blob_map(graph_model *model, void *address, size_t bytes, mapped_file *file);
/* INLAY_IO_ERROR: a mapped file of the model, or of source.base, has changed or cannot be read, so bytes read from
 * it may be wrong. Called after each step that reads constants: loading, compiling, a run. Thread-safe. */
INLAY_NODISCARD inlay_status graph_files_check(const graph_model *model, inlay_diag *diag);
/* Computed constants of at least this size are written directly to a block of the model; smaller ones are copied. */
enum { GRAPH_LARGE_CONSTANT = 16 << 10 };
/* Is data the start of a block of graph_blob_alloc() or graph_blob_adopt()? */
bool graph_blob_owns(const graph_model *model, const void *data);
/* The file that these bytes are mapped from, and their offset in it; NULL: none. Also for mappings of source.base. */
const file_id *graph_blob_file(const graph_model *model, const void *data, size_t bytes, uint64_t *out_offset);
/* Are these bytes mapped from a file, also from one of spill_dir, or by source.base? */
bool graph_blob_is_mapped(const graph_model *model, const void *data, size_t bytes);

/* A hint that the bytes will probably not be read again. Pages of a mapping that are completely within the range are
 * released; a later read loads them from the file again. No effect on heap memory. Also for mappings of source.base.
 * Thread-safe. */
void graph_blob_release_pages(const graph_model *model, const void *data, size_t bytes);
/* The same for all mapped files of the model. */
void graph_model_release_pages(const graph_model *model);

/* Is a constant small enough that shapes may depend on its elements? Such constants are shown to providers, and are
 * copied if they are misaligned in the file; larger constants (weights) are not. Integers have a higher limit because
 * shapes are computed from them. */
static inline bool graph_constant_may_set_shapes(const inlay_value_info *info)
{
    bool integers = info->dtype == INLAY_INT64 || info->dtype == INLAY_INT32;

    return info->data_bytes <= (integers ? UINT64_C(1) << 16 : UINT64_C(1) << 12);
}

/* Does the host execute this node, not a provider (control flow, sequences, optionals)? */
bool graph_node_is_host(const struct graph *graph, const graph_node *node);
/* The minor version of the plugin ABI since which passes may create nodes with this operator (made_ops.def).
 * UINT32_MAX: the operator is not listed. 0 for nodes from the file. */
uint32_t graph_op_since_minor(const graph_node *node);
/* May two runs of a bound node of the graph give different results? Such a node is never folded. Dropout may if its
 * training mode is on, or is not known. */
bool graph_node_is_random(const struct graph *graph, const graph_node *node);

/* The interned symbol of that name; 0: out of memory. */
uint32_t graph_symbol(graph_model *model, const char *name);

/* The attribute of that name, or NULL; graph_own_attr(): only if the node states it, so no default. */
const inlay_attr_info *graph_attr(const graph_node *node, const char *name);
const inlay_attr_info *graph_own_attr(const graph_node *node, const char *name);
/* The values that a node reads: its inputs, then those that its bodies capture. INLAY_NONE: an omitted input. */
static inline uint32_t graph_read_count(const graph_node *node)
{
    return node->info.input_count + node->capture_count;
}
static inline uint32_t graph_read_at(const graph_node *node, uint32_t i)
{
    INLAY_CHECK(i < graph_read_count(node));
    return i < node->info.input_count ? node->info.inputs[i] : node->captures[i - node->info.input_count];
}
/* Does the node read the value, as an input or in a body? */
bool graph_node_reads(const graph_node *node, uint32_t value);
/* Input i of the node; INLAY_NONE if omitted or past the last. */
static inline uint32_t graph_input_at(const graph_node *node, uint32_t i)
{
    return i < node->info.input_count ? node->info.inputs[i] : INLAY_NONE;
}
static inline bool graph_is_constant(const struct graph *graph, uint32_t value)
{
    return (graph->values[value].info.flags & INLAY_VALUE_CONSTANT) != 0;
}
/* The number of the attribute of that name; `otherwise` without one of this kind. */
int64_t graph_attr_int(const graph_node *node, const char *name, int64_t otherwise);
double graph_attr_float(const graph_node *node, const char *name, double otherwise);
/* Element i of a list of integers, such as the axes or directions of a Scan; 0 if the list is missing or shorter. */
int64_t graph_attr_int_at(const graph_node *node, const char *name, uint32_t i);
/* The (first) body of the attribute of that name, or NULL. */
const graph_body *graph_body_named(const graph_node *node, const char *name);
/* Number of tensors in attribute->tensor: one for kinds TENSOR and SPARSE_TENSOR (11, converted to dense), any number
 * for TENSORS (9), none for other kinds. */
static inline uint32_t graph_attr_tensors(const inlay_attr_info *attribute)
{
    return attribute->kind == 9 ? attribute->count : attribute->tensor != NULL ? 1 : 0;
}
/* Sets or replaces an attribute; strings and lists are copied into the arena. */
inlay_status graph_set_attr_int(struct graph *graph, graph_node *node, const char *name, int64_t value);
inlay_status graph_set_attr_ints(struct graph *graph, graph_node *node, const char *name, const int64_t *values,
                                 uint32_t count);
inlay_status graph_set_attr_float(struct graph *graph, graph_node *node, const char *name, double value);
inlay_status graph_set_attr_string(struct graph *graph, graph_node *node, const char *name, const char *value);
/* Sets an attribute of any kind; its name and data are borrowed. */
inlay_status graph_set_attr(struct graph *graph, graph_node *node, const inlay_attr_info *attr);

/* Makes the default values of inputs constants and removes those inputs from graph.inputs, as in IR 3. For models whose
 * exporter lists every weight as an input. The caller of the model can no longer set these inputs. */
inlay_status graph_freeze_defaults(struct graph *graph);
/* The opset version that the model imports for the domain ("" is "ai.onnx"), 0 = none. */
int64_t graph_model_opset(const graph_model *model, const char *domain);
/* Imports that version of the domain unless the model imports one already. domain is borrowed. False: out of memory. */
bool graph_model_import(graph_model *model, const char *domain, int64_t version);

/* Sorts nodes topologically (stable: in file order where possible), sets producers and flags, and names unnamed nodes.
 * A cycle, a value with two producers or an input without a producer is INLAY_INVALID_MODEL; the message names graph,
 * node and input. Recurses into bodies. */
INLAY_NODISCARD inlay_status graph_finish(struct graph *graph, inlay_diag *diag);

/* The operators that plugins define. */
typedef struct graph_operators {
    const inlay_operator *(*find)(void *ctx, const char *domain, const char *op_type, int64_t opset);
    /* Writes why find returned NULL, as a message of at most `bytes`. May be NULL. */
    void (*missing)(void *ctx, const char *domain, const char *op_type, int64_t opset, char *text, size_t bytes);
    void *ctx;
    const char *searched; /* searched directories, for messages; may be NULL */
} graph_operators;

/* Binds each node to its schema: resolves since_version, fills in attribute defaults, checks arity and attributes
 * (graph_infer() checks types). operators may be NULL. Recurses into bodies and functions. Skips nodes that are already
 * bound, so it may be called again after passes have added nodes. */
INLAY_NODISCARD inlay_status graph_bind(graph_model *model, const graph_operators *operators, inlay_diag *diag);

/* Binds one node that a pass has created, which may not be in graph yet. Does not bind its bodies. */
INLAY_NODISCARD inlay_status graph_bind_node(struct graph *graph, graph_node *node, inlay_diag *diag);

/* Replaces calls of model-local functions by their bodies, innermost calls last. Recursion is an error. */
INLAY_NODISCARD inlay_status graph_inline_functions(graph_model *model, inlay_diag *diag);

/* Infers types and shapes of the main graph and of bodies, whose inputs get the types of the node's inputs. Declared
 * types and shapes are used only where inference yields none: exporters often declare wrong output shapes. */
INLAY_NODISCARD inlay_status graph_infer(graph_model *model, inlay_diag *diag);

/* After inference: records a finding for each value of the main graph whose declared type or shape differs. */
INLAY_NODISCARD inlay_status graph_check_declared(graph_model *model, inlay_diag *diag);

/* Infers one node. in[i] and out[i] describe its inputs and outputs (NULL = omitted). Sets rank, dims and elements of
 * out, and its dtype if the operator determines it (Cast); otherwise dtype must be set already. dims are allocated in
 * scratch. For a node with bodies, the result is that of the bodies' last inference. Symbols are created only if
 * scratch is the model's arena; otherwise the model does not change, so planners may call it from any thread. */
INLAY_NODISCARD inlay_status graph_infer_node(graph_model *model, const graph_node *node,
                                              const inlay_value_info *const *in, inlay_value_info *const *out,
                                              struct arena *scratch, inlay_diag *diag);

/* Infers the bound nodes of graph from index `first` on, as graph_infer() does; earlier nodes are inferred already. */
INLAY_NODISCARD inlay_status graph_infer_from(struct graph *graph, uint32_t first, inlay_diag *diag);

/* Infers a bound node without bodies that may not be in graph. Sets out[o] (NULL = omitted); dims are allocated in
 * scratch, and symbols are created as in graph_infer_node(). */
INLAY_NODISCARD inlay_status graph_infer_detached_node(const struct graph *graph, const graph_node *node,
                                                       graph_value *const *out, struct arena *scratch,
                                                       inlay_diag *diag);

/* Creates a flat snapshot for providers, with the node and value indexes of graph. It borrows from graph, which must
 * not change while the snapshot is in use. Memory is allocated in arena. */
INLAY_NODISCARD inlay_status graph_snapshot(const struct graph *graph, struct arena *arena, inlay_graph *out,
                                            inlay_diag *diag);

/* Does a user's pattern name the node? "op:" and a glob of operators, or a glob of node names. A name with brackets or
 * stars also matches itself. */
bool graph_node_matches(const char *pattern, const inlay_node_info *node);

/* Are the rank and all dims known? */
bool graph_has_sizes(const inlay_value_info *info);
/* Do both have the same shape, with all dims fixed? */
bool graph_same_sizes(const inlay_value_info *a, const inlay_value_info *b);
/* Are these dims the same, open ones included? */
bool graph_same_dims(const inlay_dim *a, const inlay_dim *b, uint64_t count);
/* The number of elements of a constant or of a computed value; both have fixed sizes that were checked for
 * overflow. */
int64_t graph_constant_count(const inlay_value_info *info);

/* The content hash of a constant (dtype, dims, elements), computed once and stored in info.content_hash; 0 for other
 * values. */
uint64_t graph_constant_hash(const struct graph *graph, uint32_t value);
/* The seed for hashing many constants at once: the hash is hash_blocks(data, data_bytes, seed), or 1 if that is 0. Not
 * for constants of strings. */
uint64_t graph_constant_seed(const inlay_value_info *info);
/* Adds operator, version and attributes of a node to a hash; not its name, values and bodies. */
uint64_t graph_hash_node(const inlay_node_info *node, uint64_t hash);
#endif
