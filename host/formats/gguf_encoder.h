/* formats/gguf_encoder.h - models that make embeddings of texts. */
#ifndef FORMATS_GGUF_ENCODER_H
#define FORMATS_GGUF_ENCODER_H
#include "formats/gguf_builder.h"

/* Writes the graph of an encoder. */
void gguf_write_encoder(struct builder *b);
/* Layers of decoders whose tokens see later ones, too, and some only a window around themselves. The constants that the
 * layers share; LAYERattn, of LAYERattn_q, attn_k and attn_v. */
void gguf_begin_both_ways(struct builder *b);
void gguf_write_both_ways(struct builder *b, const char *layer, bool is_local);
/* Does the file have products of the mean of the tokens? They make sentence_embedding of the hidden states. */
bool gguf_has_dense(struct builder *b);
void gguf_write_dense(struct builder *b, const char *input);
/* Does the file say how well two texts match, instead of making embeddings? Writes `logits` [texts, labels] of the
 * hidden states of a token: the first one, or the one at `last` [texts] (NULL: the first). */
bool gguf_ranks(struct builder *b);
void gguf_write_ranks(struct builder *b, const char *input, const char *last);
/* Writes, as a property, how the embedding of a text is made of those of its tokens, as sentence-transformers states
 * it. */
void gguf_write_pooling(struct gguf *gguf, struct wire *out);
#endif
