/* texts/model/pooling.h - embeddings of texts from the vectors of their tokens. */
#ifndef TEXTS_POOLING_H
#define TEXTS_POOLING_H
#include "texts/model/text_model.h"

/* Pools the vectors of a text's tokens [count, size], count at least 1, into the embedding of the text, out [size], as
 * the model states; a single vector is the embedding itself. sums: [size] scratch. */
void text_model_pool(const text_model *model, const float *vectors, size_t count, size_t size, double *sums,
                     float *out);
#endif
