/* ml.h - functions for the kernels of ai.onnx.ml: copies of attributes, labels, score transforms, [N, C] inputs. */
#ifndef ML_H
#define ML_H
#include "operators/instance.h"
#include "inlay/check.h"
#include "simd/convert.h"
#include "operators/operators.h"
#include <math.h>
#include <stdlib.h>

#define ML_NUMBERS (KIT_BIT(FLOAT) | KIT_BIT(DOUBLE) | KIT_BIT(INT64) | KIT_BIT(INT32))

enum { ML_POOL_MAX = 24 };
typedef struct ml_pool {
    void *items[ML_POOL_MAX];
    uint32_t count;
    bool failed; /* an allocation failed: check once, after all allocations */
} ml_pool;

/* Allocates zeroed memory that ml_pool_deinit() frees. Returns NULL if this or an earlier allocation failed. A count of
 * 0 allocates one element. */
static inline void *ml_alloc(ml_pool *pool, uint64_t count, size_t bytes)
{
    void *memory = pool->failed || pool->count == ML_POOL_MAX ? NULL : calloc(count > 0 ? (size_t)count : 1, bytes);

    if (memory == NULL)
        pool->failed = true;
    else
        pool->items[pool->count++] = memory;
    return memory;
}
static inline void ml_pool_deinit(ml_pool *pool)
{
    while (pool->count > 0)
        free(pool->items[--pool->count]);
}
/* Frees one item before the others. */
static inline void ml_free(ml_pool *pool, void *item)
{
    INLAY_CHECK(item != NULL);
    for (uint32_t i = 0; i < pool->count; i++) {
        if (pool->items[i] == item) {
            pool->items[i] = pool->items[--pool->count];
            free(item);
            return;
        }
    }
}

static inline int64_t *ml_integers(ml_pool *pool, const kit_node *node, const char *name, uint32_t *out_count)
{
    const int64_t *values = kit_attr_ints(node->info, name, out_count);
    int64_t *out = values != NULL ? ml_alloc(pool, *out_count, sizeof *out) : NULL;

    if (out != NULL && *out_count > 0)
        memcpy(out, values, *out_count * sizeof *out);
    return out;
}
/* Copies strings and their bytes. */
static inline inlay_str *ml_strings(ml_pool *pool, const inlay_str *values, uint64_t count)
{
    inlay_str *out = ml_alloc(pool, count, sizeof *out);
    uint64_t bytes = 0;
    char *text;

    for (uint64_t i = 0; i < count; i++)
        bytes += values[i].bytes;
    text = ml_alloc(pool, bytes, 1);
    for (uint64_t i = 0; text != NULL && i < count; i++) {
        out[i] = (inlay_str){ text, values[i].bytes };
        if (values[i].bytes > 0)
            memcpy(text, values[i].data, (size_t)values[i].bytes);
        text += values[i].bytes;
    }
    return text != NULL ? out : NULL;
}

/* Reads the size of an input: a single sample [C], or samples [N, C]. Any other rank is an error. */
static inline inlay_status ml_matrix(const kit_tensor *input, int64_t *out_rows, int64_t *out_columns, inlay_diag *diag)
{
    if (input->rank != 1 && input->rank != 2)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "X has rank %u; it must be [C] or [N, C]", input->rank);
    *out_rows = input->rank == 2 ? input->dims[0] : 1;
    *out_columns = input->dims[input->rank - 1];
    return INLAY_OK;
}

/* Allocates output `index` if its size was unknown when shapes were computed; otherwise checks its size. */
static inline inlay_status ml_output(const kit_call *call, uint32_t index, uint32_t rank, const int64_t *dims)
{
    int64_t count = 1;
    INLAY_CHECK(index < call->out_count);

    if (call->out[index].dtype == INLAY_UNDEFINED)
        return INLAY_OK;
    for (uint32_t d = 0; d < rank; d++)
        count *= dims[d];
    if (call->out[index].data == NULL)
        return kit_alloc_output(call, index, rank, dims);
    if (call->out[index].count != count)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "output %u has %lld elements where %lld are computed",
                          index, (long long)call->out[index].count, (long long)count);
    return INLAY_OK;
}

/* Allocates the labels [N], if the node classifies, then the scores [N, C], if it has that output. dims: N, C. */
static inline inlay_status ml_outputs(const kit_call *call, bool classifies, const int64_t *dims)
{
    const inlay_status status = classifies ? ml_output(call, 0, 1, dims) : INLAY_OK;

    return status == INLAY_OK && call->out_count > (classifies ? 1u : 0u) ? ml_output(call, classifies, 2, dims)
                                                                          : status;
}
/* To be called by a shape function: declares that the run allocates the outputs whose size is unknown. */
static inline void ml_allocates(kit_plan *plan)
{
    for (uint32_t index = 0; index < plan->out_count; index++)
        if (plan->out[index].count < 0)
            plan->allocates |= 1u << index;
}

/* Copies a string into memory of the run. */
static inline inlay_status ml_put_string(const kit_call *call, inlay_str text, inlay_str *out)
{
    char *copy = kit_alloc_string(call, text.bytes > 0 ? text.bytes : 1);

    if (copy == NULL)
        return inlay_fail(call->diag, INLAY_OUT_OF_MEMORY, "no memory for a string of %llu bytes",
                          (unsigned long long)text.bytes);
    if (text.bytes > 0)
        memcpy(copy, text.data, (size_t)text.bytes);
    *out = (inlay_str){ copy, text.bytes };
    return INLAY_OK;
}

/* Coefficients [outputs, features], packed for matrix multiplication: panels of `width` columns, feature by feature.
 * The last panel is padded with zeros. */
typedef struct ml_table {
    float *values;
    int64_t columns, width, features;
} ml_table;

/* Packs the coefficients into memory of the pool. Out of memory: the member `values` of the result is NULL. */
ml_table ml_table_of(ml_pool *pool, const float *values, int64_t outputs, int64_t features);
/* Number of doubles in the scratch memory that the next two functions need for `rows` rows. */
int64_t ml_table_room(const ml_table *table, int64_t rows);
/* Computes out [rows, columns] from rows of input [.., features]: the dot product with each column, or the squared
 * distance from it. */
void ml_table_rows(const ml_table *table, const kit_tensor *input, int64_t first, int64_t rows, bool squares,
                   double *room, double *out);
/* Dot products of floats with the first `outputs` columns, plus bias (NULL: none): out [rows, outputs]. */
void ml_table_products(const ml_table *table, const float *input, int64_t rows, const float *bias, float *out,
                       int64_t outputs);
/* The sum over i of weight[i] * (factor * values[i] + term) ^ power; power is 1 to 4. */
double ml_sum_of_powers(const float *values, const double *weight, int64_t count, double factor, double term,
                        int power);
/* values[i] = (factor * values[i] + term) ^ power; power is 1 to 4. */
void ml_powers(double *values, int64_t count, double factor, double term, int power);
/* values[i] = e ^ values[i]. */
void ml_exp(double *values, int64_t count);
/* The dot product; the order of summation is unspecified. */
double ml_dot(const double *first, const double *second, int64_t count);

typedef struct ml_labels {
    uint32_t count;
    inlay_str *texts;  /* [count], or NULL */
    int64_t *integers; /* [count], or NULL */
} ml_labels;

/* Writes label `which` to element `index` of a tensor of labels. */
static inline inlay_status ml_put_label(const kit_call *call, const ml_labels *labels, int64_t which, kit_tensor *out,
                                        int64_t index)
{
    INLAY_CHECK(which >= 0 && index >= 0 && index < out->count);
    if (labels->texts != NULL)
        return ml_put_string(call, labels->texts[which], &((inlay_str *)out->data)[index]);
    ((int64_t *)out->data)[index] = labels->integers != NULL && which < labels->count ? labels->integers[which] : which;
    return INLAY_OK;
}

enum { ML_NONE, ML_SOFTMAX, ML_LOGISTIC, ML_SOFTMAX_ZERO, ML_PROBIT, ML_TRANSFORMS };

/* Finds the transform of that name; returns false if there is none. */
bool ml_transform_find(const char *name, uint32_t *out);
/* Transforms the scores of one sample in place. */
void ml_transform(uint32_t transform, double *scores, int64_t count);
/* Expands the score of the second of two classes into scores[0] and scores[1]. centered: the second class wins if the
 * score is positive; otherwise the score is a probability, and the second class wins above one half. */
void ml_two_scores(uint32_t transform, bool centered, double *scores);
static inline double ml_logistic(double score)
{
    return score >= 0 ? 1 / (1 + exp(-score)) : exp(score) / (1 + exp(score));
}
#endif
