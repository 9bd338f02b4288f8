/* texts/model/image_folder.h - models that read images in folders as Hugging Face publishes them: vision_encoder.onnx
 * makes rows of an image, embed_tokens.onnx rows of tokens, and decoder_model_merged.onnx reads both. */
#ifndef TEXTS_IMAGE_FOLDER_H
#define TEXTS_IMAGE_FOLDER_H
#include "inlay/status.h"
#include <limits.h>
#include <stdbool.h>

typedef struct image_files {
    char decoder[PATH_MAX], embedding[PATH_MAX], vision[PATH_MAX];
} image_files;

/* How the models of a model_type read images. */
typedef struct image_kind {
    const char *name;
    const char *begin, *end; /* texts of the tokens around the rows of an image; "": none, or each tile has its own */
    bool has_grid;           /* positions of rows have a time, a row and a column */
} image_kind;

/* Whether the folder has a config.json and these three parts. */
bool image_folder_is(const char *folder);
/* out_kind may be NULL. INLAY_UNSUPPORTED: models of its model_type read images in a way that is not supported. */
INLAY_NODISCARD inlay_status image_folder_check(const char *folder, const image_kind **out_kind, inlay_diag *diag);
/* The files of such a folder; variant: of model_folder_choose(). */
INLAY_NODISCARD inlay_status image_files_find(const char *folder, const char *variant, image_files *out_files,
                                              inlay_diag *diag);
#endif
