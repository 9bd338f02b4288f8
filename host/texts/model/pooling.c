#include "texts/model/pooling.h"
#include <math.h>

void text_model_pool(const text_model *model, const float *vectors, size_t count, size_t size, double *sums, float *out)
{
    const float *first = model->pooling == POOL_LAST ? vectors + (count - 1) * size : vectors;
    double norm = 0;

    for (size_t i = 0; i < size; i++)
        sums[i] = (double)first[i];
    for (size_t k = 1; k < count && (model->pooling == POOL_MEAN || model->pooling == POOL_MAX); k++)
        for (size_t i = 0; i < size; i++) {
            double next = (double)vectors[k * size + i];

            sums[i] = model->pooling == POOL_MEAN ? sums[i] + next : fmax(sums[i], next);
        }
    if (model->pooling == POOL_MEAN)
        for (size_t i = 0; i < size; i++)
            sums[i] /= (double)count;
    for (size_t i = 0; i < size; i++)
        norm += sums[i] * sums[i];
    norm = model->is_normalized && norm > 0 && isfinite(norm) ? sqrt(norm) : 1;
    for (size_t i = 0; i < size; i++)
        out[i] = (float)(sums[i] / norm);
}
