/* formats/gguf_encoder.h - models that make embeddings of texts. */
#ifndef FORMATS_GGUF_ENCODER_H
#define FORMATS_GGUF_ENCODER_H
#include "formats/gguf_builder.h"

/* Writes the graph of an encoder. */
void gguf_write_encoder(struct builder *b);
/* Writes, as a property, how the embedding of a text is made of those of its tokens, as sentence-transformers states
 * it. */
void gguf_write_pooling(struct gguf *gguf, struct wire *out);
#endif
