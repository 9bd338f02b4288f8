/* model/load.h - what the parts of the loader share; private to this folder. */
#ifndef MODEL_LOAD_H
#define MODEL_LOAD_H
#include "model/model.h"
#include "model/prescan.h"
#include "onnx.pb-c.h"

/* ------------------------------------------------------------------ files (file.c) */

typedef struct file_map {
    const uint8_t *bytes;
    size_t count;
    bool mapped;      /* how file_unmap lets go of it: munmap, otherwise free */
    graph_file_id id; /* of mapped ones */
} file_map;

/* Maps a regular file, or reads anything else (a pipe) to its end. Messages do not name the file: the caller does. */
INLAY_NODISCARD inlay_status file_map_fd(int fd, file_map *out, inlay_diag *diag);
INLAY_NODISCARD inlay_status file_map_path(const char *path, file_map *out, inlay_diag *diag);
void file_unmap(file_map *map);
/* Has the model unmap it in the end; on failure it is unmapped at once. */
INLAY_NODISCARD inlay_status file_give(file_map *map, graph_model *model, inlay_diag *diag);

/* Files that tensors name as external data. Each is mapped once; the model owns the mappings. */
typedef struct external_files {
    graph_model *model;
    struct arena scratch;
    const char *dir; /* where they may lie; NULL = nowhere: the model came from memory */
    names_table index;
    file_map *maps; /* [count], borrowed from the model */
    uint32_t count;
} external_files;

/* The file at `location` below files->dir, of which no part may lead elsewhere: not an absolute path, not "..", not a
 * symbolic link out of the folder. */
INLAY_NODISCARD inlay_status external_open(external_files *files, const char *location, file_map *out,
                                           inlay_diag *diag);
void external_deinit(external_files *files);

/* ------------------------------------------------------------------ tensors (tensor.c) */

/* Where a tensor's elements come from, and where what has to be made goes. */
typedef struct tensor_source {
    const uint8_t *file; /* places are offsets into it */
    size_t file_bytes;
    const model_limits *limits;
    external_files *external;                /* NULL: external data is an error */
    struct arena *arena;                     /* for dims and views */
    void *(*alloc)(void *ctx, size_t bytes); /* for elements, aligned to 16 bytes or more */
    void *alloc_ctx;
    bool copy;           /* elements must not point into file */
    uint64_t *densified; /* bytes that sparse tensors have taken so far; at most max_densified_bytes */
} tensor_source;

/* Reads a tensor of any storage form. out->data points into the file where the form allows, else into memory from
 * alloc; never NULL. Messages begin with what is wrong, the caller says where: "float_data holds 3 of 4 elements". */
INLAY_NODISCARD inlay_status tensor_read(const tensor_source *source, const Onnx__Tensor *proto, inlay_tensor_view *out,
                                         inlay_diag *diag);
/* The same for a sparse tensor, made dense. */
INLAY_NODISCARD inlay_status tensor_read_sparse(const tensor_source *source, const Onnx__SparseTensor *proto,
                                                inlay_tensor_view *out, inlay_diag *diag);
/* Its parts, not made dense: values [n], indices [n] of int64 into the elements in a row, and of the dense tensor all
 * but data. *out_ascending is false where an index does not come after the one before, or is out of range. */
INLAY_NODISCARD inlay_status tensor_read_entries(const tensor_source *source, const Onnx__SparseTensor *proto,
                                                 inlay_tensor_view *values, inlay_tensor_view *indices,
                                                 inlay_tensor_view *dense, bool *out_ascending, inlay_diag *diag);

/* ------------------------------------------------------------------ graphs (load*.c) */

struct loader {
    graph_model *model;
    model_limits limits;
    tensor_source source;
    uint64_t densified;
    external_files external;
    const graph_opset *opsets; /* of the model, or of the function being loaded */
    uint32_t opset_count;
    uint32_t deep_count;      /* tensors left out for their rank */
    bool keep_sparse;         /* model_load_options.keep_sparse */
    struct kept_sparse *kept; /* [kept_count] of the main graph, until their nodes are made (load_sparse.c) */
    uint32_t kept_count;
    inlay_diag *diag;
};

/* The names of a graph while it is loaded, inside those of the graphs around it. */
struct scope {
    struct scope *outer; /* NULL for the main graph and functions */
    struct graph *graph;
    names_table table;                       /* name -> value of g */
    uint32_t *capture_outer, *capture_inner; /* [capture_count], in the arena */
    uint32_t capture_count;
};

/* Unset strings of protobuf-c are NULL. */
static inline const char *text_of(const char *text)
{
    return text == NULL ? "" : text;
}
/* "" is a name for ai.onnx. */
static inline const char *domain_of(const char *domain)
{
    return domain == NULL || domain[0] == '\0' ? "ai.onnx" : domain;
}

/* Fails for want of memory. In load_text.c, as are the next five. */
inlay_status load_no_memory(const struct loader *loader, const struct graph *graph);
/* The message that prescan() has prepared, in the arena; NULL: out of memory. */
ProtobufCMessage *load_unpack(const ProtobufCMessageDescriptor *kind, const prescan_result *scanned,
                              struct arena *arena);
/* Puts "<place>: " before the message in diag. */
void load_prefix(inlay_diag *diag, const char *place);
/* A copy in the model's arena; NULL: out of memory. */
const char *load_text(const struct loader *loader, const char *text);
/* Keeps the fields of a message that onnx.proto does not list. */
INLAY_NODISCARD inlay_status load_extra(const struct loader *loader, const ProtobufCMessage *message, inlay_str *out);
/* Says where a tensor's error is. */
inlay_status load_fail_tensor(struct loader *loader, const struct graph *graph, const char *name, inlay_status status);

/* Sparse initializer i of the main graph, where it may stay so: defines its value. */
INLAY_NODISCARD inlay_status load_keep_sparse(struct loader *loader, struct scope *scope, const Onnx__Graph *proto,
                                              size_t i, bool *out_kept);
/* Makes the nodes of those that stay, behind the graph's own. */
INLAY_NODISCARD inlay_status load_kept_sparse(struct loader *loader, struct scope *scope);

/* Fills the scope's graph. */
INLAY_NODISCARD inlay_status load_graph(struct loader *loader, struct scope *scope, const Onnx__Graph *proto);
INLAY_NODISCARD inlay_status load_function(struct loader *loader, const Onnx__Function *proto, graph_function *out);
/* Fills kind, types and declared_* of a value. `as_fact`: also info's dtype, rank and dims, with symbols for what the
 * file leaves open (inputs of the main graph). In load_type.c. */
INLAY_NODISCARD inlay_status load_type(struct loader *loader, const struct graph *graph, const Onnx__Type *proto,
                                       graph_value *value, bool as_fact);

/* Adds a value of that name. In load_names.c, as are the next four. */
INLAY_NODISCARD inlay_status scope_add(struct loader *loader, struct scope *scope, const char *name,
                                       uint32_t *out_value);
/* A subgraph may not have names of the graphs around it again. Where it does, its own value is meant. */
INLAY_NODISCARD inlay_status scope_check_hidden(struct loader *loader, const struct scope *scope,
                                                const graph_node *node, const char *what, const char *name);
/* Adds a value of that name; a name that is there already is an error. */
INLAY_NODISCARD inlay_status scope_define(struct loader *loader, struct scope *scope, const char *name,
                                          const char *what, uint32_t *out_value);
/* The value of that name here or in a graph around, in which case it is captured at each level between; INLAY_NONE if
 * there is none. */
INLAY_NODISCARD inlay_status scope_resolve(struct loader *loader, struct scope *scope, const char *name,
                                           uint32_t *out_value);
void scope_deinit(struct scope *scope);

/* Inputs, attributes and bodies of a node whose outputs are there. */
INLAY_NODISCARD inlay_status load_node(struct loader *loader, struct scope *scope, const Onnx__Node *proto,
                                       graph_node *node);
/* Lists of an attribute (load_list.c), by the field of AttributeProto that they stand in. */
enum { LIST_FLOATS = 7, LIST_INTS = 8, LIST_STRINGS = 9 };
/* Is there an element? */
bool load_has_list(const Onnx__Attribute *Attribute, uint64_t field);
/* Fills out's list and count. Messages begin with what is wrong. */
INLAY_NODISCARD inlay_status load_list(struct loader *loader, const Onnx__Attribute *Attribute, uint64_t field,
                                       inlay_attr_info *out);
/* An attribute with a value; not a graph, a type or a reference. */
INLAY_NODISCARD inlay_status load_attr(struct loader *loader, const struct graph *graph, const graph_node *node,
                                       const Onnx__Attribute *proto, inlay_attr_info *out);
#endif
