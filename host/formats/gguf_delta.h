/* formats/gguf_delta.h - layers with a recurrent state: the gated delta rule, and the attention of models that have it,
 * Mamba 2, or a short convolution alone. */
#ifndef FORMATS_GGUF_DELTA_H
#define FORMATS_GGUF_DELTA_H
#include "formats/gguf_builder.h"

/* Reads the sizes of these layers, after those of the model. */
void gguf_read_delta(struct builder *b);
bool gguf_is_delta(const struct builder *b, int64_t layer);
/* Writes the constants that the layers share. */
void gguf_begin_delta(struct builder *b);
/* output = what the layer adds to the hidden states, of the normalized ones. */
void gguf_write_delta(struct builder *b, int64_t layer, const char *prefix, const char *input, const char *output);
/* QUERIES.both has the query and the gate of each head: they become QUERIES, and LAYERattn.share by which the head's
 * output is multiplied. */
void gguf_split_gates(struct builder *b, const char *layer, const char *queries);

#endif
