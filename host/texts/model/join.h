/* texts/model/join.h - one model of a decoder and of the embedding of its tokens, which are two files where models read
 * images: embed_tokens.onnx makes of `input_ids` the input `inputs_embeds` of the decoder, and perhaps others. The
 * result is a model in memory with the input `input_ids`, whose weights stay in the files.
 *
 * Where the decoder's `position_ids` is [3, batch, tokens], for a time, a row and a column, the input becomes [batch,
 * tokens], and the constant `image_shifts.none` [1, 3] is what the three differ by from it (image_rows.c). */
#ifndef TEXTS_JOIN_H
#define TEXTS_JOIN_H
#include "base/wire.h"
#include "inlay/inlay.h"

/* out_bytes, which starts as {0} and is the caller's, becomes the model, and *options gets the folder of its weights.
 *     INLAY_INVALID_ARGUMENT  a file cannot be read, or the two do not fit together; the message says where */
INLAY_NODISCARD inlay_status text_join(const char *decoder_path, const char *embedding_path, inlay_options *options,
                                       struct wire *out_bytes, inlay_diag *diag);
#endif
