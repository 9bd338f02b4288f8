/* formats/gguf_altup.h - layers of Gemma 3n, which have four streams of hidden states. */
#ifndef FORMATS_GGUF_ALTUP_H
#define FORMATS_GGUF_ALTUP_H
#include "formats/gguf_builder.h"

enum { GGUF_ALTUP_KEY_LAYERS = 20 /* with keys and values of their own; the others read those of earlier layers */ };

/* Writes the constants that the layers share, and makes the streams and the vectors of the layers of the embeddings. */
void gguf_begin_altup(struct builder *b);
/* Predicts the streams of a layer; the first one becomes the hidden states that the layer reads. */
void gguf_begin_altup_layer(struct builder *b, int64_t layer, const char *prefix);
/* Between attention and the feed-forward network: adds the product of two small matrices and the layer's input, which
 * is normalized. */
void gguf_write_laurel(struct builder *b, const char *prefix, const char *input);
/* Corrects the streams by the hidden states that the layer has made. */
void gguf_end_altup_layer(struct builder *b, int64_t layer, const char *prefix);
/* The hidden states after the last layer become the mean of the streams. */
void gguf_end_altup(struct builder *b);
#endif
