/* graph/graph.h - the host's model of a model: graphs of nodes and values, known by index.
 *
 * A model owns one arena; graphs, nodes, names, dims and attributes live in it and are freed with it. Constant data is
 * not in the arena but mapped from the files, or owned by the model's blob list.
 *
 * The structs that a plugin sees (inlay_node_info, inlay_value_info) are embedded here, so a snapshot is a gather of
 * arrays and not a translation. Bodies of If, Loop and Scan are graphs of their own; what they use of the outer scope
 * is explicit: the body has one extra value per capture, and the node lists the outer values in `captures`. So every
 * graph is closed, and liveness and planning treat a capture as one more input. */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H
#include "base/arena.h"
#include "base/names.h"
#include "inlay/plugin.h"
#include "schema.h"
#include <stdbool.h>

struct graph;
typedef struct graph_model graph_model;
typedef struct graph_history graph_history;

/* A value type deeper than an element type: seq(tensor), optional(seq(tensor)), seq(map). info.kind is the outermost
 * kind, info.dtype, rank and dims describe the innermost tensor (of a map: its value). */
typedef struct graph_value {
    inlay_value_info info; /* producer and the flags are kept current by graph_finish() */
    uint32_t inner_kind;   /* of SEQUENCE and OPTIONAL: INLAY_VALUE_TENSOR, SEQUENCE or MAP; otherwise 0 */
    inlay_dtype map_key;   /* MAP: INT64 or STRING */
    bool sparse;           /* declared as a sparse tensor, which is dense here */
    const char *doc;       /* doc_string, or NULL */
    bool declared;         /* stands in graph input, output or value_info: then the declared type is: */
    bool has_default;      /* a graph input that also is an initializer: in IR 3 simply a constant, which is then not
                              among graph.inputs; from IR 4 on an input that the caller may leave out: */
    const inlay_tensor_view *default_value; /* IR 4 on: what such an input is then; info.data stays NULL */
    inlay_dtype declared_dtype;             /* UNDEFINED if the file gave none */
    uint32_t declared_rank;
    const inlay_dim
        *declared_dims; /* UNKNOWN where the file says -1 or nothing; info.dims of inputs have symbols there */
    inlay_str extra;    /* see graph_node.extra */
} graph_value;

/* A subgraph attribute of a node. */
typedef struct graph_body {
    const char *attr; /* "then_branch", "else_branch", "body" */
    struct graph *graph;
    uint32_t *capture_outer; /* [capture_count] values of the enclosing graph ... */
    uint32_t *capture_inner; /* ... and the body's values that stand for them */
    uint32_t capture_count;
    bool in_list; /* an element of an attribute of kind GRAPHS; the bodies of one list stand together */
} graph_body;

/* An attribute of a node in a function's body whose value the caller of the function gives. */
typedef struct graph_attr_ref {
    const char *name; /* of the node's attribute */
    const char *from; /* of the function's attribute */
    uint32_t kind;    /* INLAY_ATTR_* */
} graph_attr_ref;

typedef struct graph_node graph_node;
struct graph_node {
    inlay_node_info info;         /* inputs and outputs point into the arena and may be rewritten by passes */
    const op_row *row;            /* the schema's row; NULL until graph_bind, and for custom operators */
    const op_schema *schema;      /* parsed, shared by nodes of the same row */
    const inlay_operator *custom; /* a plugin's operator, or NULL */
    int64_t opset;                /* the import that holds for its domain here (functions have their own) */
    const char *overload;         /* of a model-local function (IR 10), or "" */
    const char *doc;
    graph_body *bodies; /* [body_count] */
    uint32_t body_count;
    uint32_t *captures; /* [capture_count] outer values used by any body, each once */
    uint32_t capture_count;
    const graph_value *type_attr; /* attribute of kind TYPE_PROTO (Optional), or NULL */
    const char *type_attr_name;
    graph_attr_ref *refs; /* [ref_count]; only in functions, gone after inlining */
    uint32_t ref_count;
    bool early;              /* bound to a version that came after the model's opset, as ONNX Runtime has it */
    uint32_t place;          /* 1 + its index among the nodes of the file's graph; 0 = not from the file */
    uint32_t own_attr_count; /* the first attributes stood in the file or were set; what bind fills in comes after */
    inlay_str extra;         /* fields of the file that inlay does not interpret (metadata_props, device
                                configurations), in wire form; the writer puts them back */
    const char *made_by;     /* the optimiser's pass that made the node; NULL: it stood in the file */
    int64_t rewrite;         /* the number of the rewrite that made it; 0 = none */
    const char *not_lowered; /* why the pass that puts other operators in its place left it; NULL: none did */
};

struct graph {
    graph_model *model;
    struct graph *parent; /* NULL for the main graph and for functions */
    const char *name;
    const char *doc;
    graph_value *values; /* [value_count]; grows, so hold indexes and not pointers while adding */
    uint32_t value_count, value_capacity;
    graph_node **nodes; /* [node_count] in topological order after graph_finish(); node pointers are stable */
    uint32_t node_count, node_capacity;
    uint32_t *inputs; /* formal inputs, in file order; initializers with an input of the same name count when
                         ir_version is 4 or more (they are defaults) */
    uint32_t *outputs;
    uint32_t input_count, output_count;
    uint32_t *captured; /* [captured_count] values that stand for outer ones (bodies only) */
    uint32_t captured_count;
    inlay_str extra;        /* see graph_node.extra; quantization annotations among others */
    graph_history *history; /* what passes took out, see graph/history.h; NULL: nothing */
};

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

/* What may be wrong with a model where it is told apart: GRAPH_OPSET_TWICE, ... (faults.def). */
typedef enum graph_fault {
#define FAULT(name, code, fix) GRAPH_##name,
#include "graph/faults.def"
#undef FAULT
} graph_fault;

/* One thing that is wrong with a model. All texts are the model's. */
typedef struct graph_finding {
    struct graph_finding *next;
    inlay_status status;       /* INLAY_OK: the model runs nonetheless */
    const char *code;          /* stable: "opset-imported-twice" */
    const char *path;          /* JSONPath into the ModelProto: "$.graph.node[3]" */
    const struct graph *graph; /* where, or NULL */
    const struct graph_node *n;
    const char *node; /* its name, or "" */
    const char *text; /* one line, which names the place */
    const char *fix;  /* or "" where the text has it */
} graph_finding;

typedef struct graph_blob graph_blob; /* a mapping or a heap block that constants point into; see graph.c */

struct graph_model {
    struct arena arena;
    int64_t ir_version;
    const char *producer_name, *producer_version, *domain, *doc;
    int64_t model_version;
    graph_opset *opsets;
    uint32_t opset_count;
    graph_property *metadata;
    uint32_t metadata_count;
    graph_function *functions;
    uint32_t function_count;
    struct graph *main;
    inlay_symbol_info *symbols; /* [symbol_count], 0 reserved */
    uint32_t symbol_count;
    names_table symbol_table;      /* name -> index into symbols */
    names_table schema_table;      /* signature -> index into schemas */
    struct graph_schema **schemas; /* [schema_count] what bind.c has parsed */
    uint32_t schema_count;
    uint64_t next_name; /* number of the next name that graph_add_value makes up */
    graph_blob *blobs;  /* everything that is unmapped or freed with the model */
    const char *path;   /* of the file, or NULL */
    inlay_str extra;    /* see graph_node.extra */
    const char *pass;   /* while the optimiser runs: the pass, and the number of its rewrite; nodes are marked with */
    int64_t rewrite;    /* both, and what is taken out is remembered. NULL and 0 otherwise */
    bool strict;        /* what graph_tolerate() would let pass is an error */
    bool trusts_file;   /* inference took a shape from what the file declares: it may be wrong */
    bool collect;       /* binding and inference go on behind an error, see graph_goes_on() */
    uint32_t fault;     /* 1 + the graph_fault of the last error, 0 = none */
    graph_finding *findings, *last_finding; /* in the order in which they were found */
    uint32_t finding_count;                 /* at most 1000 are kept */
    int64_t later_opset;                    /* inference takes a node of types that its version lacks for one of a later
                                               version, up to this opset, as one that is to be converted; 0: it fails */
};

/* Fails with "graph 'g', node 'n' (Conv): <text>"; node and tensor may be NULL, a node without a name is called after
 * its first output. The text stays on one line whatever the names in it hold. */
INLAY_PRINTF(6, 7)
inlay_status graph_fail(const struct graph *graph, const graph_node *node, const char *tensor, inlay_status code,
                        inlay_diag *diag, const char *format, ...);

/* Notes something that breaks a rule of ONNX but is understood (findings.c), or fails where the model is strict. The
 * text has no fix: that of the fault is added. */
INLAY_PRINTF(7, 8)
INLAY_NODISCARD inlay_status graph_tolerate(graph_model *model, const struct graph *graph, const graph_node *node,
                                            const char *tensor, graph_fault fault, inlay_diag *diag, const char *format,
                                            ...);
/* Finds the paths anew once all graphs are in their places. false: out of memory. */
bool graph_place_findings(graph_model *model);
/* graph_fail() with a fault that `inlay check` can name. */
INLAY_PRINTF(7, 8)
inlay_status graph_fault_fail(const struct graph *graph, const graph_node *node, const char *tensor, graph_fault fault,
                              inlay_status code, inlay_diag *diag, const char *format, ...);
/* After a step on node node (or the graph, node NULL): may the next follow? An error becomes a finding and *status
 * INLAY_OK where the model collects them. */
bool graph_goes_on(graph_model *model, const struct graph *graph, const graph_node *node, inlay_status *status,
                   inlay_diag *diag);
/* Code and fix of an error, by its status where the fault is 0. */
void graph_fault_text(uint32_t fault, inlay_status status, const char **out_code, const char **out_fix);

/* An empty model with an empty main graph, NULL when memory is out. */
graph_model *graph_model_create(void);
void graph_model_destroy(graph_model *model); /* NULL is a no-op */

/* A new graph in the model's arena; parent NULL for a main graph. NULL: out of memory. */
struct graph *graph_create(graph_model *model, struct graph *parent, const char *name);
/* Adds a value; returns its index, INLAY_NONE when memory is out. name is copied; NULL makes one up. Names are unique
 * within a graph; graph_find_value finds them. */
uint32_t graph_add_value(struct graph *graph, const char *name, size_t name_bytes);
uint32_t graph_find_value(const struct graph *graph, const char *name); /* linear; the loader keeps its own table */
/* Adds a node with room for the given counts (all INLAY_NONE); NULL: out of memory. */
graph_node *graph_add_node(struct graph *graph, const char *op_type, const char *domain, const char *name,
                           uint32_t input_count, uint32_t output_count);
/* Puts a node of another graph of the model at the end; its values are named by the caller. */
inlay_status graph_append_node(struct graph *graph, graph_node *node);
/* Makes value v a constant. data is borrowed from a blob of the model, or from the arena. */
inlay_status graph_set_constant(struct graph *graph, uint32_t v, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                const void *data, uint64_t bytes);
/* Heap memory aligned to 64 bytes that is freed with the model. NULL: out of memory. */
void *graph_blob_alloc(graph_model *model, size_t bytes);
/* Has the model free(block) in the end. On failure the caller keeps it. */
inlay_status graph_blob_adopt(graph_model *model, void *block, size_t bytes);
/* A file as it was when it was mapped: whoever writes to it changes one of these, see session/hash_memo.h. */
typedef struct graph_file_id {
    uint64_t device, inode, bytes;
    int64_t modified[2], changed[2]; /* seconds, nanoseconds */
} graph_file_id;
/* Hands a mapping to the model, which unmaps it in the end. On failure the caller keeps it. id is copied. */
inlay_status graph_blob_map(graph_model *model, void *address, size_t bytes, const graph_file_id *id);
/* From this size on a computed constant is made in a block of the model's; what is smaller is copied to one. */
enum { GRAPH_LARGE_CONSTANT = 16 << 10 };
/* Is it a block from graph_blob_alloc, or one that was adopted? */
bool graph_blob_owns(const graph_model *model, const void *data);
/* The file that these bytes are mapped from, and where in it; NULL: none. */
const graph_file_id *graph_blob_file(const graph_model *model, const void *data, size_t bytes, uint64_t *out_offset);

/* The bytes of all files that the model is mapped from. */
uint64_t graph_blob_mapped(const graph_model *model);

/* Says that the bytes will hardly be read again: pages of a mapping that lie wholly within go back to the system, and
 * come again from the file if somebody reads them after all. Heap memory is left alone. Thread-safe. */
void graph_blob_forget(const graph_model *model, const void *data, size_t bytes);

/* Are the elements of a constant few enough to decide a shape? Those that lie at an odd address in the file are copied
 * to be shown to providers; weights need not be, and integers are what shapes are made of. */
static inline bool graph_decides_shapes(const inlay_value_info *info)
{
    bool integers = info->dtype == INLAY_INT64 || info->dtype == INLAY_INT32;

    return info->data_bytes <= (integers ? UINT64_C(1) << 16 : UINT64_C(1) << 12);
}

/* Does the host run this node itself: control flow, sequences, optionals? */
bool graph_node_is_host(const struct graph *graph, const graph_node *node);
/* The minor of the plugin ABI since which passes may make such a node (made_ops.def); UINT32_MAX: it is not listed. 0
 * also for nodes that stood in the file. */
uint32_t graph_made_since(const graph_node *node);
/* May two runs of a bound node differ? Such a node is never folded. */
bool graph_node_is_random(const graph_node *node);

/* The interned symbol of that name; 0 when memory is out. */
uint32_t graph_symbol(graph_model *model, const char *name);

/* The attribute of that name, or NULL. */
const inlay_attr_info *graph_attr(const graph_node *node, const char *name);
/* The (first) body that is the attribute of that name, or NULL. */
const graph_body *graph_body_named(const graph_node *node, const char *name);
/* How many tensors an attribute holds in `tensor`: one for kinds TENSOR and SPARSE_TENSOR (11, made dense), any number
 * for TENSORS (9), none for the rest. */
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
/* Any other kind: name and all pointers of attr are kept, not copied. */
inlay_status graph_set_attr(struct graph *graph, graph_node *node, const inlay_attr_info *attr);

/* Makes the default values of inputs constants and takes those inputs off graph.inputs, as IR 3 has it. For models
 * whose exporter lists every weight as an input; what was an optional input can no longer be given. */
inlay_status graph_freeze_defaults(struct graph *graph);
/* The opset version that the model imports for the domain ("" is "ai.onnx"), 0 if it does not. */
int64_t graph_model_opset(const graph_model *model, const char *domain);
/* Imports the domain (static text, or the model's) in that version where the model does not; false: no memory. */
bool graph_model_import(graph_model *model, const char *domain, int64_t version);

/* Sorts nodes topologically (stable: file order where it is legal), sets producers and flags, gives nameless nodes a
 * name, drops nothing. A cycle, a value with two producers or an input that nobody makes is INLAY_INVALID_MODEL with
 * graph, node and input named. Recurses into bodies. */
INLAY_NODISCARD inlay_status graph_finish(struct graph *graph, inlay_diag *diag);

/* The operators that plugins brought. */
typedef struct graph_operators {
    const inlay_operator *(*find)(void *ctx, const char *domain, const char *op_type, int64_t opset);
    /* Why find came back with nothing, as the end of a sentence, in at most bytes of text. Or NULL. */
    void (*missing)(void *ctx, const char *domain, const char *op_type, int64_t opset, char *text, size_t bytes);
    void *ctx;
    const char *searched; /* directories, for messages about what is missing; or NULL */
} graph_operators;

/* Binds each node to its schema: resolves since_version, fills attribute defaults, checks arity and attributes (types
 * are graph_infer's). operators may be NULL. Recurses into bodies and functions. Nodes that are bound already are left
 * alone, so it may run again after passes have added nodes. */
INLAY_NODISCARD inlay_status graph_bind(graph_model *model, const graph_operators *operators, inlay_diag *diag);

/* The same for one node that a pass has made, which need not be in graph yet; its bodies are not bound. */
INLAY_NODISCARD inlay_status graph_bind_node(struct graph *graph, graph_node *node, inlay_diag *diag);

/* Replaces calls of model-local functions by their bodies, innermost last; recursion is an error. */
INLAY_NODISCARD inlay_status graph_inline_functions(graph_model *model, inlay_diag *diag);

/* Shape and type inference over the main graph and, with the types at the node, its bodies. Declared shapes are checked
 * against what is inferred; where they disagree in rank (exporters do that for outputs) inference wins. */
INLAY_NODISCARD inlay_status graph_infer(graph_model *model, inlay_diag *diag);

/* After inference: notes each value of the main graph whose declared type or shape is not what is computed. */
INLAY_NODISCARD inlay_status graph_check_declared(graph_model *model, inlay_diag *diag);

/* Infers one node. in[i] and out[i] stand for its inputs and outputs (NULL = omitted); out's rank, dims and elements
 * are set, and its dtype where the operator computes it (Cast); otherwise dtype must be there already. scratch holds
 * dims. Of a node with bodies it gives what the bodies' last inference fixed. Symbols are made only when scratch is the
 * model's arena; with another one nothing of the model changes, so planners may call it from any number of threads. */
INLAY_NODISCARD inlay_status graph_infer_node(graph_model *model, const graph_node *node,
                                              const inlay_value_info *const *in, inlay_value_info *const *out,
                                              struct arena *scratch, inlay_diag *diag);

/* Infers the bound nodes of graph from index `first` on, as graph_infer() does; what they read is known. */
INLAY_NODISCARD inlay_status graph_infer_from(struct graph *graph, uint32_t first, inlay_diag *diag);

/* Types and shapes of a bound node without bodies that need not be in graph: out[o] (NULL = omitted) is set, dims come
 * from scratch, and symbols are made as in graph_infer_node(). */
INLAY_NODISCARD inlay_status graph_infer_apart(const struct graph *graph, const graph_node *node,
                                               graph_value *const *out, struct arena *scratch, inlay_diag *diag);

/* A flat snapshot for providers. Borrows from graph, which must not change while it is in use. nodes_map (may be NULL)
 * receives nothing: node and value indexes are those of graph. Memory comes from a. */
INLAY_NODISCARD inlay_status graph_snapshot(const struct graph *graph, struct arena *arena, inlay_graph *out,
                                            inlay_diag *diag);

/* Writes the graph as text, for people and for tests, through `write`. */
typedef void (*graph_write_fn)(void *ctx, const char *text, size_t bytes);
void graph_dump(const struct graph *graph, graph_write_fn write, void *ctx);

/* Do both have the same shape, with fixed sizes? */
bool graph_same_sizes(const inlay_value_info *a, const inlay_value_info *b);

/* The content hash of a constant (dtype, dims, elements), made once and kept in info.content_hash; 0 for others. */
uint64_t graph_constant_hash(const struct graph *graph, uint32_t v);
/* For those who hash many: that hash is hash_blocks(data, data_bytes, seed), and at least 1. Constants of strings are
 * none of them. */
uint64_t graph_constant_seed(const inlay_value_info *info);
#endif
