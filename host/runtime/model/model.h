/* model/model.h - reads ONNX files into graphs, and writes graphs to ONNX files. Only this folder uses protobuf-c.
 *
 * The loader maps the file and scans its wire format once within limits (prescan.c). protobuf-c parses a rewritten
 * stream in which the payload of every tensor is replaced by its position in the file, so weights stay in the
 * mapping. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H
#include "base/memory_file.h"
#include "graph/graph.h"

/* Limits for a file. 0 means the default, see model_limits_default(). */
typedef struct model_limits {
#define LIMIT(name, preset, most, what) uint64_t name;
#include "base/model_limits.def"
} model_limits;
model_limits model_limits_default(void);

typedef struct model_load_options {
    model_limits limits;
    const char *external_dir; /* folder of external data; NULL = the model file's folder, for /dev/stdin the working
                                 directory */
    const memory_file *files; /* [file_count] external data in memory, which must outlive the model; they come before
                               * the files of the folder */
    uint32_t file_count;
    bool strict;      /* what violates ONNX but can be interpreted fails, instead of becoming a finding */
    bool collect;     /* graph_model.collect; a load from a file that fails also returns the model, for its findings */
    bool keep_sparse; /* large sparse matrices of floats become SparseToDense nodes (ai.inlay), which the optimiser
                       * folds unless a consumer reads sparse data; not for models that will be saved */
    bool keep_blocks; /* the same for quantized weights in blocks of other formats, as UnpackBlocks nodes (ai.inlay) */
    void (*each_external)(void *user, const char *location); /* called for each file of external data; may be NULL */
    void *external_user;
    uint64_t copy_bytes; /* files are read into memory while all of them together have at most this many bytes, and are
                          * mapped beyond it */
    /* Returns the folder of temporary files for the weights that the translation of a file of `bytes` bytes computes;
     * NULL: they are in the heap. Called for files of other formats than ONNX; may be NULL. */
    const char *(*spill_dir)(void *spill_user, size_t bytes);
    void *spill_user;
    bool drop_metadata;  /* leaves out metadata_props of nodes; graph_node.source is still set */
    uint32_t *out_fault; /* receives graph_model.fault of a model that failed to load; may be NULL */
} model_load_options;

/* Each function returns a model after graph_finish(), before graph_bind(). options may be NULL. Messages name the file,
 * the graph, the node and the tensor. */
INLAY_NODISCARD inlay_status model_load_path(const char *path, const model_load_options *options,
                                             graph_model **out_model, inlay_diag *diag);
/* data must outlive the model. External data requires options->external_dir or files. */
INLAY_NODISCARD inlay_status model_load_bytes(const void *data, size_t bytes, const model_load_options *options,
                                              graph_model **out_model, inlay_diag *diag);
/* Loads a model once more that was loaded without options.collect: from the bytes and the mapped files of `base`, which
 * must outlive the new model. Nothing is read from the file system. options as for base. */
INLAY_NODISCARD inlay_status model_load_again(const graph_model *base, const model_load_options *options,
                                              graph_model **out_model, inlay_diag *diag);
/* fd may be closed afterwards. */
INLAY_NODISCARD inlay_status model_load_fd(int fd, const model_load_options *options, graph_model **out_model,
                                           inlay_diag *diag);

typedef struct model_save_options {
    const char *external_file; /* file in the model's folder for tensors of at least external_bytes; NULL = none */
    uint64_t external_bytes;   /* default 1024 */
    bool with_inferred_shapes; /* write inferred types and shapes as value_info */
} model_save_options;

/* Writes the model, bound or not, to path as described in base/output.h. Attribute defaults are written only if the
 * file had them. */
INLAY_NODISCARD inlay_status model_save(const graph_model *model, const char *path, const model_save_options *options,
                                        inlay_diag *diag);

/* Writes several models, models[i] to paths[i], in one folder, with one file of large tensors for all: each tensor is
 * stored once, even if several models have it. options->external_file names it. After a failure some
 * files may exist. */
INLAY_NODISCARD inlay_status model_save_together(const graph_model *const *models, const char *const *paths,
                                                 uint32_t count, const model_save_options *options, inlay_diag *diag);

/* Converts nodes to the operator versions that the model imports, so that it can be saved. A node that cannot be
 * converted becomes the call of a function. opset: version of ai.onnx to import; 0 = the model's. The model cannot be
 * run afterwards. */
INLAY_NODISCARD inlay_status model_convert_versions(graph_model *model, int64_t opset, inlay_diag *diag);

/* The contents of a TensorProto, SequenceProto, MapProto or OptionalProto file (ONNX's test data, `.pb` inputs). For
 * the runtime's representation see exec/values/value.h. */
typedef struct model_datum {
    uint32_t kind; /* INLAY_VALUE_TENSOR, SEQUENCE, OPTIONAL (empty: item_count 0) or MAP */
    const char *name;
    inlay_tensor_view tensor;  /* TENSOR, aligned; string elements are inlay_str */
    struct model_datum *items; /* SEQUENCE, OPTIONAL; MAP: two, keys and values */
    uint32_t item_count;
    const int64_t *dims;
} model_datum;
/* kind is the type of the file's message, which the file does not contain: INLAY_VALUE_*, or MODEL_DATUM_SPARSE for a
 * SparseTensorProto, which becomes a TENSOR. Values of a map become one tensor [n]. Memory is allocated in arena. */
enum { MODEL_DATUM_SPARSE = INLAY_VALUE_MAP + 1 };
INLAY_NODISCARD inlay_status model_datum_load(const char *path, uint32_t kind, struct arena *arena, model_datum *out,
                                              inlay_diag *diag);
#endif
