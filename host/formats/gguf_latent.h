/* formats/gguf_latent.h - latent attention. */
#ifndef FORMATS_GGUF_LATENT_H
#define FORMATS_GGUF_LATENT_H
#include "formats/gguf_builder.h"

/* Reads the sizes and the scale of attention, after those of the model. */
void gguf_read_latent(struct builder *b);
/* Writes the constants that the layers share. */
void gguf_begin_latent(struct builder *b);
/* LAYERattn_q, attn_k and attn_v for one head of keys, of the normalized hidden states. */
void gguf_write_latent(struct builder *b, const char *layer, const char *input);
/* LAYERattn.values, of LAYERattn. */
void gguf_write_latent_values(struct builder *b, const char *layer);

#endif
