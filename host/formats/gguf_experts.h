/* formats/gguf_experts.h - layers with experts, of which a router chooses some for each token. */
#ifndef FORMATS_GGUF_EXPERTS_H
#define FORMATS_GGUF_EXPERTS_H
#include "formats/gguf_builder.h"

/* Reads how many experts there are and how they are chosen; b->mixture.count 0: the file has none. */
void gguf_read_experts(struct builder *b);
/* Writes the constants that the layers share. */
void gguf_begin_experts(struct builder *b);
/* output = the experts that the router chooses, and the shared expert of the file times the sigmoid of its gate. */
void gguf_write_mixture(struct builder *b, const char *layer, const char *input, const char *output);
#endif
