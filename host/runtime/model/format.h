/* model/format.h - models in other formats than ONNX, which become ONNX models when they are loaded.
 *
 * Each format is an entry of library_parts.formats (base/parts.h). Its function writes the whole model in ONNX's wire
 * format, from which load.c loads it; no other part of the host knows the format. */
#ifndef MODEL_FORMAT_H
#define MODEL_FORMAT_H
#include "base/wire.h"
#include "inlay/types.h"

/* A property of models, with any value: where operators rotate pairs (rotary_interleaved), the products before them
 * have the rows of a head of queries or keys in pairs, row i of its first half followed by row i of its second half.
 * Adapters store the first half before the second. */
#define FORMAT_PAIRED_ROWS "inlay.paired_rows"

/* The file. Its bytes are not trusted. */
typedef struct format_file {
    const uint8_t *bytes;
    size_t count;
    const char *name;     /* without its folder; NULL: it has none */
    const char *location; /* `name`, for tensors that stay in the file as external data; NULL: they are copied */
    /* Memory of the model for the data of tensors, aligned to 64 bytes. *out_location: its name as a file of external
     * data, valid until translate() returns. NULL: out of memory. */
    void *(*alloc)(void *alloc_ctx, size_t bytes, const char **out_location);
    void *alloc_ctx;
    /* Another file of the folder, which is then a location of external data, too. Its bytes live as long as the
     * model. */
    inlay_status (*open)(void *open_ctx, const char *location, const uint8_t **out_bytes, size_t *out_count,
                         inlay_diag *diag);
    void *open_ctx;
    /* Quantized weights may stay in the file, as constants that UnpackBlocks nodes (ai.inlay) read. Only with a
     * location. */
    bool keeps_blocks;
} format_file;

/* Who takes the factors of a LoRA adapter. */
typedef struct format_adapter {
    /* Takes a factor, named by the module of its product, as in
     * "/model/layers.0/self_attn/q_proj/MatMul.lora_A.weight". Its rows are in the order of a model in this format.
     * The view is valid during the call, its data as long as the file. type: as the file names it; dtype UNDEFINED:
     * another one than F32, F16 and BF16. */
    inlay_status (*add)(void *ctx, const char *name, const char *type, const inlay_tensor_view *view);
    void *ctx;
    double alpha; /* out: divided by the rank, the factor of all products; 0: the factor is 1 */
} format_adapter;

typedef struct model_format {
    const char *name;
    bool (*is_file)(const uint8_t *bytes, size_t count);
    /* Appends the model; out->failed after success: out of memory. */
    INLAY_NODISCARD inlay_status (*translate)(const format_file *file, struct wire *out, inlay_diag *diag);
    /* Reads the adapter of a file. */
    INLAY_NODISCARD inlay_status (*read_adapter)(const format_file *file, format_adapter *out, inlay_diag *diag);
} model_format;
#endif
