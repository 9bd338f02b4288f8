/* formats/gguf_vision.h - vision parts of language models (mmproj files), of the architecture clip. */
#ifndef FORMATS_GGUF_VISION_H
#define FORMATS_GGUF_VISION_H
#include "formats/gguf_builder.h"

/* Writes the graph of an encoder of images: from `image`, the bytes of a file, to `image_rows` [rows, width], which
 * take the places of tokens in a text. */
void gguf_write_vision(struct builder *b);
#endif
