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

/* Whether the folder has a config.json and these three parts. */
bool image_folder_is(const char *folder);
/* INLAY_UNSUPPORTED: models of its model_type read images in another way than as causal rows. */
INLAY_NODISCARD inlay_status image_folder_check(const char *folder, inlay_diag *diag);
/* The files of such a folder; variant: of model_folder_choose(). */
INLAY_NODISCARD inlay_status image_files_find(const char *folder, const char *variant, image_files *out_files,
                                              inlay_diag *diag);
#endif
