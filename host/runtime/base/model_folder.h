/* base/model_folder.h - folders of models as Hugging Face publishes them: config.json, and in the subfolder onnx, or
 * in the folder itself, a file for each part of the model and each variant of its weights:
 *
 *     onnx/model.onnx, onnx/model_fp16.onnx, onnx/model_q4.onnx ...
 *     onnx/encoder_model.onnx, onnx/decoder_model_merged.onnx, onnx/encoder_model_quantized.onnx ...
 *
 * Variants have the names of Hugging Face's library for JavaScript. All functions are thread-safe. */
#ifndef BASE_MODEL_FOLDER_H
#define BASE_MODEL_FOLDER_H
#include "inlay/status.h"
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

enum { MODEL_FOLDER_PARTS = 16, MODEL_FOLDER_NAME = 128 };

typedef struct model_folder {
    char path[PATH_MAX];                               /* of the folder with the .onnx files */
    char parts[MODEL_FOLDER_PARTS][MODEL_FOLDER_NAME]; /* [count] names without variants, in order */
    uint32_t count;
    bool is_published; /* it has a config.json */
} model_folder;

/* Lists the parts of the model in a folder. If one is the whole model (model, model_merged), or has the functions of
 * others (decoder_model_merged those of decoder_model and decoder_with_past_model), these others are left out.
 * INLAY_NOT_FOUND: path is not a folder, or has no .onnx files; INLAY_LIMIT_EXCEEDED: too many parts. */
INLAY_NODISCARD inlay_status model_folder_read(const char *path, model_folder *out_folder, inlay_diag *diag);

/* Writes the path of the file of a part. variant: fp32, fp16, q8 or quantized, int8, q4 ..., or any other end of a name
 * that the folder has; INLAY_NOT_FOUND, with the names that exist, if this one does not. "": the most accurate variant
 * whose files take at most half of the memory that this process may use, on CPUs without conversions of float16 rather
 * one without float16; if none is that small, the smallest. */
INLAY_NODISCARD inlay_status model_folder_choose(const model_folder *folder, uint32_t part, const char *variant,
                                                 char out_path[PATH_MAX], inlay_diag *diag);

/* Both: the file of the only part. INLAY_NOT_FOUND: no config.json; INLAY_INVALID_ARGUMENT: several parts, which are
 * named. */
INLAY_NODISCARD inlay_status model_folder_find(const char *path, const char *variant, char out_path[PATH_MAX],
                                               inlay_diag *diag);
#endif
