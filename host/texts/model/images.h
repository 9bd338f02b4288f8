/* texts/model/images.h - images in texts. An encoder, the vision part of a language model (an mmproj file), makes rows
 * of an image, which stand in the places of tokens in a prompt.
 *
 * The encoder keeps the rows of the latest images, since a chat sends its images with each turn. Functions are
 * thread-safe; images are encoded one after another. */
#ifndef TEXTS_IMAGES_H
#define TEXTS_IMAGES_H
#include "texts/decode/decoding.h"
#include "texts/tokens/tokenizer.h"

typedef struct image_encoder image_encoder;
struct encoded_image;

/* An image as a file: PNG, JPEG or another format of ONNX's ImageDecoder. */
typedef struct image_file {
    const void *data; /* [bytes] */
    size_t bytes;
} image_file;

/* For a session of a vision part, which must exist as long, and texts of `model`.
 *     INLAY_INVALID_ARGUMENT  the session is none of a vision part, or its rows have another width, or see each other
 *                             as those of the model do not
 *     INLAY_UNSUPPORTED       the model takes no rows of images */
INLAY_NODISCARD inlay_status image_encoder_create(inlay_session *session, const decode_model *model,
                                                  image_encoder **out_encoder, inlay_diag *diag);
/* What vision_encoder.onnx of a published folder (image_folder.h) needs besides its session. Borrowed. */
typedef struct image_source {
    const char *folder;                /* with preprocessor_config.json */
    const inlay_options *options;      /* of the session that decodes images */
    const struct tokenizer *tokenizer; /* of the language model */
} image_source;
/* The same for a session of such a file, whose rows do not see each other.
 *     INLAY_INVALID_ARGUMENT  the folder's settings or tokens are damaged, or missing
 *     INLAY_UNSUPPORTED       an input or a setting is not supported, which is named */
INLAY_NODISCARD inlay_status image_encoder_create_published(inlay_session *session, const image_source *source,
                                                            const decode_model *model, image_encoder **out_encoder,
                                                            inlay_diag *diag);
/* NULL is a no-op. Its prompts must have been freed. */
void image_encoder_destroy(image_encoder *encoder);

/* A prompt in which images are in the places of INLAY_TEXT_IMAGE_MARK. */
typedef struct image_prompt {
    image_encoder *encoder;
    int64_t *tokens; /* [count] owned; see decoding_text.tokens */
    size_t count;
    image_span *spans; /* [span_count] owned: an image has several if it has tiles */
    uint32_t span_count, image_count;
    struct encoded_image **images; /* [image_count] */
} image_prompt;

/* Reads a prompt that has its special tokens already. out_prompt is to be freed also after a failure.
 *     INLAY_INVALID_ARGUMENT  the text has another number of marks than there are files
 *     and what inlay_context_run() returns for a file that is no image */
INLAY_NODISCARD inlay_status image_prompt_read(image_encoder *encoder, const struct tokenizer *tokenizer,
                                               const char *text, const image_file *files, uint32_t count,
                                               image_prompt *out_prompt, inlay_diag *diag);
void image_prompt_deinit(image_prompt *prompt);
#endif
