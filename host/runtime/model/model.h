/* model/model.h - ONNX files to graphs and back. The only folder that sees protobuf-c.
 *
 * Loading maps the file, walks its wire format once within limits (prescan.c), and hands protobuf-c a rewritten stream
 * in which every tensor's payload is replaced by its place in the file: weights stay mapped where they are. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H
#include "graph/graph.h"

/* What a file may ask for. {0} means the defaults, which model_limits_default() spells out. */
typedef struct model_limits {
    uint32_t max_depth;           /* nested messages of any kind; default 100 */
    uint32_t max_subgraph_depth;  /* graphs within graphs; default 32 */
    uint64_t max_nodes;           /* of all graphs together; default 4 million */
    uint64_t max_values;          /* default 16 million */
    uint64_t max_tensor_bytes;    /* of one tensor; default 1 TiB */
    uint64_t max_densified_bytes; /* of all sparse tensors, made dense; default 1 GiB */
    uint64_t max_parsed_bytes;    /* of the file without tensor payloads; default 1 GiB */
} model_limits;
model_limits model_limits_default(void);

typedef struct model_load_options {
    model_limits limits;
    const char *external_dir; /* where external data may lie; NULL = the model file's folder, of /dev/stdin the working
                                 directory */
    bool strict;              /* graph_model.strict */
    bool collect;             /* graph_model.collect; a model that fails is there nonetheless, for its findings */
    bool keep_sparse;         /* large sparse matrices of floats become nodes, SparseToDense of ai.inlay, which the
                                 optimiser makes dense where nobody reads them as they are; not for models to be saved */
    uint32_t *out_fault;      /* graph_model.fault of a model that did not load, or NULL */
} model_load_options;

/* Each returns a model whose graphs are finished (graph_finish) but not yet bound. options may be NULL. Errors name the
 * file, and inside it graph, node and tensor. */
INLAY_NODISCARD inlay_status model_load_path(const char *path, const model_load_options *options,
                                             graph_model **out_model, inlay_diag *diag);
/* data is borrowed for the life of the model. External data needs options->external_dir. */
INLAY_NODISCARD inlay_status model_load_bytes(const void *data, size_t bytes, const model_load_options *options,
                                              graph_model **out_model, inlay_diag *diag);
/* fd may be closed afterwards. */
INLAY_NODISCARD inlay_status model_load_fd(int fd, const model_load_options *options, graph_model **out_model,
                                           inlay_diag *diag);

typedef struct model_save_options {
    const char *external_file; /* name beside the model for tensors above external_bytes; NULL = inline everything */
    uint64_t external_bytes;   /* default 1024 */
    bool with_inferred_shapes; /* write value_info for what inference found */
} model_save_options;

/* Writes the model to path, as base/output.h says. Unbound and bound models both; filled-in attribute defaults
 * are written only where they stood in the file. */
INLAY_NODISCARD inlay_status model_save(const graph_model *model, const char *path, const model_save_options *options,
                                        inlay_diag *diag);

/* Makes the nodes those of the versions that the model imports, so that it can be saved; what cannot be becomes the
 * call of a function. opset: of ai.onnx, to be imported instead; 0 = the model's. It can no longer be run afterwards.
 */
INLAY_NODISCARD inlay_status model_outline(graph_model *model, int64_t opset, inlay_diag *diag);

/* A TensorProto, SequenceProto or OptionalProto file (ONNX's test data, `.pb` inputs), in one flat form: see
 * exec/values/value.h for what the runtime makes of it. */
typedef struct model_datum {
    uint32_t kind; /* INLAY_VALUE_TENSOR, SEQUENCE, OPTIONAL (empty: item_count 0) or MAP */
    const char *name;
    inlay_tensor_view tensor;  /* TENSOR, aligned; string elements are inlay_str */
    struct model_datum *items; /* SEQUENCE, OPTIONAL; MAP: two, keys and values */
    uint32_t item_count;
    const int64_t *dims;
} model_datum;
/* kind says what the file holds (a bare file does not say): INLAY_VALUE_*, or MODEL_DATUM_SPARSE, a SparseTensorProto,
 * which becomes a TENSOR. Values of a map are one tensor [n]. All memory is the arena's. */
enum { MODEL_DATUM_SPARSE = INLAY_VALUE_MAP + 1 };
INLAY_NODISCARD inlay_status model_datum_load(const char *path, uint32_t kind, struct arena *arena, model_datum *out,
                                              inlay_diag *diag);
#endif
