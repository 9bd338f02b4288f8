/* formats/formats.h - the formats, for host/library/parts.c. */
#ifndef FORMATS_FORMATS_H
#define FORMATS_FORMATS_H
#include "model/format.h"

extern const model_format gguf_format;
#endif
