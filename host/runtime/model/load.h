/* model/load.h - declarations shared by the files of the loader; private to this folder. */
#ifndef MODEL_LOAD_H
#define MODEL_LOAD_H
#include "model/model.h"
#include "model/prescan.h"
#include "onnx.pb-c.h"

typedef struct file_map {
    const uint8_t *bytes;
    size_t count;
    mapped_file *watch; /* of a mapping; NULL: the bytes are in the heap, or borrowed */
    uint64_t stored;    /* size of the regular file; 0 for others */
    bool borrowed;      /* model_load_options.files */
} file_map;

/* Maps a regular file of more than copy_bytes bytes; reads other ones, and pipes to their end. Messages do not contain
 * the name of the file; the caller adds it. */
INLAY_NODISCARD inlay_status file_map_fd(int fd, uint64_t copy_bytes, file_map *out, inlay_diag *diag);
INLAY_NODISCARD inlay_status file_map_path(const char *path, uint64_t copy_bytes, file_map *out, inlay_diag *diag);
void file_unmap(file_map *map);
/* Transfers the mapping to the model, which unmaps it; on failure it is unmapped at once. */
INLAY_NODISCARD inlay_status file_transfer(file_map *map, graph_model *model, inlay_diag *diag);

/* Records a file of external data for external_open(), also of models that are loaded again from this one. false: out
 * of memory. */
bool file_record(graph_model *model, const char *location, const void *bytes, size_t count);

/* Files that tensors name as external data. Each is mapped once; the model owns the mappings. */
typedef struct external_files {
    graph_model *model;
    struct arena scratch;
    const char *dir;                   /* folder of the files; NULL = none, because the model came from memory */
    const model_load_options *options; /* for each_external and copy_bytes; may be NULL */
    names_table index;
    file_map *maps; /* [count], borrowed from the model */
    uint32_t count;
} external_files;

/* Finds the file at `location` in memory, or maps it below files->dir. Refuses locations outside of the folder:
 * absolute paths, "..", symbolic links that leave it and the folder of the real file of a model named by a link. */
INLAY_NODISCARD inlay_status external_open(external_files *files, const char *location, file_map *out,
                                           inlay_diag *diag);
void external_deinit(external_files *files);

/* The sources of a tensor's elements, and the allocators for its memory. */
typedef struct tensor_source {
    const uint8_t *file; /* the offsets of Onnx__Tensor.place refer to it */
    size_t file_bytes;
    const model_limits *limits;
    external_files *external;                /* NULL: external data is an error */
    struct arena *arena;                     /* for dims and views */
    void *(*alloc)(void *ctx, size_t bytes); /* for elements, aligned to 16 bytes or more */
    void *alloc_ctx;
    bool copy;           /* copy the elements instead of pointing into file */
    uint64_t *densified; /* total bytes of converted sparse tensors; at most model_limits.densified_bytes */
} tensor_source;

/* Reads a tensor in any storage format. out->data points into the file if the format allows that, otherwise to memory
 * from alloc; it is never NULL. Messages contain only the fault ("float_data holds 3 of 4 elements"); the caller adds
 * the location. */
INLAY_NODISCARD inlay_status tensor_read(const tensor_source *source, const Onnx__Tensor *proto, inlay_tensor_view *out,
                                         inlay_diag *diag);
/* Reads a sparse tensor as a dense one. */
INLAY_NODISCARD inlay_status tensor_read_sparse(const tensor_source *source, const Onnx__SparseTensor *proto,
                                                inlay_tensor_view *out, inlay_diag *diag);
/* Reads the parts of a sparse tensor: values [n], indices [n] (int64, linear), and dense, the dense tensor without
 * data. *out_ascending is false if the indices do not ascend strictly, or if one is out of range. */
INLAY_NODISCARD inlay_status tensor_read_entries(const tensor_source *source, const Onnx__SparseTensor *proto,
                                                 inlay_tensor_view *values, inlay_tensor_view *indices,
                                                 inlay_tensor_view *dense, bool *out_ascending, inlay_diag *diag);

struct loader {
    graph_model *model;
    model_limits limits;
    tensor_source source;
    uint64_t densified;
    external_files external;
    const graph_opset *opsets; /* of the model, or of the function being loaded */
    uint32_t opset_count;
    uint32_t deep_count;      /* number of tensors that were skipped because of their rank */
    bool keep_sparse;         /* model_load_options.keep_sparse */
    bool drop_metadata;       /* model_load_options.drop_metadata */
    struct kept_sparse *kept; /* [kept_count] of the main graph, until their nodes are created (load_sparse.c) */
    uint32_t kept_count;
    inlay_diag *diag;
};

/* The names of a graph while it is loaded, nested in those of the enclosing graphs. */
struct scope {
    struct scope *outer; /* NULL for the main graph and functions */
    struct graph *graph;
    names_table table;                       /* name -> value of graph */
    uint32_t *capture_outer, *capture_inner; /* [capture_count], in the arena */
    uint32_t capture_count;
};

/* Unset strings of protobuf-c are NULL. */
static inline const char *text_of(const char *text)
{
    return text == NULL ? "" : text;
}
/* "" means ai.onnx. */
static inline const char *domain_of(const char *domain)
{
    return domain == NULL || domain[0] == '\0' ? "ai.onnx" : domain;
}

/* Fails with INLAY_OUT_OF_MEMORY. In load_text.c, like the next five functions. */
inlay_status load_no_memory(const struct loader *loader, const struct graph *graph);
/* Parses the message that prescan() has prepared into the arena. NULL: out of memory. */
ProtobufCMessage *load_unpack(const ProtobufCMessageDescriptor *kind, const prescan_result *scanned,
                              struct arena *arena);
/* Prepends "<place>: " to the message in diag. */
void load_prefix(inlay_diag *diag, const char *place);
/* Copies a text to the model's arena. NULL: out of memory. */
const char *load_text(const struct loader *loader, const char *text);
enum { NODE_METADATA_PROPS = 9 }; /* NodeProto.metadata_props, which onnx.proto does not list */
/* Stores the fields of a message that onnx.proto does not list, except field `without` (0: all). */
INLAY_NODISCARD inlay_status load_extra(const struct loader *loader, const ProtobufCMessage *message, uint32_t without,
                                        inlay_str *out);
/* Reads where the node comes from, for graph_node.source. */
INLAY_NODISCARD inlay_status load_source(const struct loader *loader, const Onnx__Node *proto, const char **out);
/* Adds graph and tensor to the error in diag. */
inlay_status load_fail_tensor(struct loader *loader, const struct graph *graph, const char *name, inlay_status status);

/* If sparse initializer i of the main graph can stay sparse: defines its value and sets *out_kept. */
INLAY_NODISCARD inlay_status load_keep_sparse(struct loader *loader, struct scope *scope, const Onnx__Graph *proto,
                                              size_t i, bool *out_kept);
/* Appends the nodes of the initializers that stay sparse. */
INLAY_NODISCARD inlay_status load_kept_sparse(struct loader *loader, struct scope *scope);

/* Fills the scope's graph. */
INLAY_NODISCARD inlay_status load_graph(struct loader *loader, struct scope *scope, const Onnx__Graph *proto);
INLAY_NODISCARD inlay_status load_function(struct loader *loader, const Onnx__Function *proto, graph_function *out);
/* Sets kind, types and declared_* of a value. as_fact (for inputs of the main graph): also sets dtype, rank and dims of
 * info, with symbols for dims that the file does not specify. In load_type.c. */
INLAY_NODISCARD inlay_status load_type(struct loader *loader, const struct graph *graph, const Onnx__Type *proto,
                                       graph_value *value, bool as_fact);

/* Adds a value of that name. In load_names.c, like the next four functions. */
INLAY_NODISCARD inlay_status scope_add(struct loader *loader, struct scope *scope, const char *name,
                                       uint32_t *out_value);
/* Reports a name of a subgraph that an enclosing graph has already. If that is tolerated, the name refers to the inner
 * value. */
INLAY_NODISCARD inlay_status scope_check_hidden(struct loader *loader, const struct scope *scope,
                                                const graph_node *node, const char *what, const char *name);
/* Adds a value of that name; an existing name is an error. */
INLAY_NODISCARD inlay_status scope_define(struct loader *loader, struct scope *scope, const char *name,
                                          const char *what, uint32_t *out_value);
/* Finds the value of that name in the graph or in an enclosing graph; then each level between the two captures the
 * value. *out_value is INLAY_NONE if none exists. */
INLAY_NODISCARD inlay_status scope_resolve(struct loader *loader, struct scope *scope, const char *name,
                                           uint32_t *out_value);
void scope_deinit(struct scope *scope);

/* Loads inputs, attributes and bodies of a node whose outputs are defined. */
INLAY_NODISCARD inlay_status load_node(struct loader *loader, struct scope *scope, const Onnx__Node *proto,
                                       graph_node *node);
/* Lists of an attribute (load_list.c): field numbers of AttributeProto. */
enum { LIST_FLOATS = 7, LIST_INTS = 8, LIST_STRINGS = 9 };
/* Does the list have an element? */
bool load_has_list(const Onnx__Attribute *attribute, uint64_t field);
/* Sets the list and count of out. Messages contain only the fault; the caller adds the location. */
INLAY_NODISCARD inlay_status load_list(struct loader *loader, const Onnx__Attribute *attribute, uint64_t field,
                                       inlay_attr_info *out);
/* Loads an attribute that is not a graph, a type or a reference. */
INLAY_NODISCARD inlay_status load_attr(struct loader *loader, const struct graph *graph, const graph_node *node,
                                       const Onnx__Attribute *proto, inlay_attr_info *out);

/* The format of a file (model/format.h); NULL: ONNX, or unknown. */
const struct model_format *load_format_of(const uint8_t *bytes, size_t count);
#endif
