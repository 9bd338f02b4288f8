/* texts/model/purpose.h - what a model does with texts, also by its files alone, before it is loaded. */
#ifndef TEXTS_PURPOSE_H
#define TEXTS_PURPOSE_H
#include "texts/model/text_model.h"

/* Bits. */
enum text_purpose {
    TEXT_GENERATES = 1,  /* texts, token by token */
    TEXT_EMBEDS = 2,     /* vectors of texts, or scores of two texts */
    TEXT_TRANSCRIBES = 4 /* a model of texts/speech */
};

/* Of a loaded model; NULL, one that is none for texts: 0. */
uint32_t text_model_purposes(const text_model *text);
/* Of a model that is not loaded, by the inputs and outputs of an ONNX file, or the keys of a GGUF file, and whether it
 * has a tokenizer. A file in another format may have several purposes. */
uint32_t text_file_purposes(const char *path);
#endif
