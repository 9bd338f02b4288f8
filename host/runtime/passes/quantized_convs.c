/* Convolutions of dequantized bytes that nothing quantizes again, or only behind other functions:
 *
 *     DQ(x), DQ(w), bias -> Conv     ConvInteger, Cast, Mul by the scales of the filters, Add of the bias
 *
 * Sums are exact then. Weights around another zero point become int8 around 0 where they fit; where they do not, they
 * are a sum of two such tensors, and the convolution a sum of two. */
#include "passes/quantized.h"
#include "base/element.h"
#include <math.h>
#include <string.h>

enum { PLANES = 2 };

/* Weights as integers of which the zero point is known to all: int8 around 0, or uint8 around 128. */
struct planes {
    uint32_t value[PLANES], zero; /* zero: INLAY_NONE for int8 */
    uint32_t count;
};

static int64_t filters_of(const struct rewrite *rewrite, const struct quant *weights)
{
    return rw_dim(rw_info(rewrite, weights->value), 0);
}

/* Weight i less its zero point. */
static int64_t weight_at(const struct rewrite *rewrite, const struct quant *weights, const inlay_value_info *info,
                         int64_t i, int64_t each)
{
    int64_t value = 0;

    (void)element_integer(info->dtype, info->data, i, &value);
    return value - quant_zero(rewrite, weights, i / each);
}

/* Less their zero points, cut into as few tensors as hold them. false: no memory. */
static bool cut_weights(struct rewrite *rewrite, const struct quant *weights, struct planes *out)
{
    const inlay_value_info *info = rw_info(rewrite, weights->value);
    const int64_t count = quant_count(info), each = count / filters_of(rewrite, weights);
    int64_t dims[INLAY_MAX_RANK];

    *out = (struct planes){ .zero = INLAY_NONE, .count = 1 };
    for (uint32_t d = 0; d < info->rank; d++)
        dims[d] = info->dims[d].value;
    for (int64_t i = 0; out->count < PLANES && i < count; i++) {
        const int64_t value = weight_at(rewrite, weights, info, i, each);

        if (value < -128 || value > 127)
            out->count = PLANES;
    }
    for (uint32_t p = 0; p < out->count; p++) {
        int8_t *plane = graph_blob_alloc(rewrite->graph->model, (size_t)count);

        for (int64_t i = 0; plane != NULL && i < count; i++) {
            const int64_t value = weight_at(rewrite, weights, info, i, each);
            const int64_t first = value < -128 ? -128 : value > 127 ? 127 : value;

            plane[i] = (int8_t)(p == 0 ? first : value - first); /* of -255 to 255 */
        }
        out->value[p] = plane == NULL ? INLAY_NONE
                                      : rw_constant_blob(rewrite, INLAY_INT8, info->rank, dims, plane, (uint64_t)count);
        if (out->value[p] == INLAY_NONE)
            return false;
    }
    return true;
}

static bool find_planes(struct rewrite *rewrite, const struct quant *weights, struct planes *out)
{
    for (int64_t i = 0; i < weights->count; i++)
        if (quant_zero(rewrite, weights, i) != (weights->dtype == INLAY_INT8 ? 0 : 128))
            return cut_weights(rewrite, weights, out);
    *out = (struct planes){ .value = { weights->value }, .zero = INLAY_NONE, .count = 1 };
    if (weights->dtype == INLAY_UINT8 && (out->zero = quant_byte(rewrite, INLAY_UINT8, 128)) == INLAY_NONE)
        return false;
    return true;
}

/* Numbers of the filters as a constant [filters, 1, ..] that goes with [N, filters, ..]; INLAY_NONE: no memory. */
static uint32_t along_filters(struct rewrite *rewrite, uint32_t rank, int64_t filters, const float *values)
{
    int64_t dims[INLAY_MAX_RANK] = { filters };

    for (uint32_t d = 1; d + 1 < rank; d++)
        dims[d] = 1;
    return rw_constant(rewrite, INLAY_FLOAT, rank - 1, dims, values, (uint64_t)filters * sizeof *values);
}

/* ConvInteger, Cast, Mul, which replaces conv if it is the last node: *out is its value otherwise; INLAY_NONE: nobody
 * would run them. */
static inlay_status insert_conv(struct rewrite *rewrite, graph_node *conv, const struct quant *quant,
                                const struct planes *weights, uint32_t plane, uint32_t scale, bool last, uint32_t *out)
{
    const uint32_t inputs[] = { quant->value, weights->value[plane],
                                quant_byte(rewrite, quant->dtype, quant_zero(rewrite, quant, 0)), weights->zero };
    graph_node *fresh = rw_make(rewrite, "ConvInteger", 10, conv, inputs, weights->zero == INLAY_NONE ? 3 : 4, 1);
    inlay_status status;

    *out = INLAY_NONE;
    if (fresh == NULL || inputs[2] == INLAY_NONE)
        return rw_no_memory(rewrite);
    for (uint32_t i = 0; i < conv->info.attr_count; i++)
        if (graph_set_attr(rewrite->graph, fresh, &conv->info.attrs[i]) != INLAY_OK)
            return rw_no_memory(rewrite);
    if (!quant_is_offered(rewrite, fresh, conv->info.outputs[0], INLAY_INT32))
        return INLAY_OK;
    INLAY_TRY(rw_insert(rewrite, fresh, INLAY_INT32));
    status = quant_scale_product(rewrite, conv, fresh, scale, last, out);
done:
    return status;
}

/* All planes and the bias, which may be none, summed up in the place of conv. */
static inlay_status replace(struct rewrite *rewrite, graph_node *conv, const struct quant *quant,
                            const struct planes *weights, uint32_t scale, uint32_t bias)
{
    const bool alone = weights->count == 1 && bias == INLAY_NONE;
    uint32_t parts[PLANES + 1], count = 0, sum;
    inlay_status status = INLAY_OK;

    for (uint32_t p = 0; p < weights->count; p++) {
        INLAY_TRY(insert_conv(rewrite, conv, quant, weights, p, scale, alone, &parts[count]));
        if (parts[count] == INLAY_NONE)
            return INLAY_OK;
        count++;
    }
    if (bias != INLAY_NONE)
        parts[count++] = bias;
    sum = parts[0];
    for (uint32_t i = 1; i < count; i++) {
        graph_node *add = rw_make(rewrite, "Add", 13, conv, (const uint32_t[]){ sum, parts[i] }, 2, 1);

        if (add == NULL)
            return rw_no_memory(rewrite);
        if (i + 1 == count)
            return rw_replace(rewrite, conv, add);
        INLAY_TRY(rw_insert(rewrite, add, INLAY_FLOAT));
        sum = add->info.outputs[0];
    }
done:
    return status;
}

/* Sums of so many products of bytes by -255 to 255 fit into int32. */
static bool sums_fit(const struct rewrite *rewrite, const struct quant *weights)
{
    const int64_t filters = filters_of(rewrite, weights);

    return filters > 0 && quant_count(rw_info(rewrite, weights->value)) / filters <= INT32_MAX / (255 * 255);
}

inlay_status quantized_conv(struct rewrite *rewrite, graph_node *node)
{
    const uint32_t bias = rw_input(rewrite, node, 2);
    uint32_t scale, added = INLAY_NONE;
    double *numbers;
    struct quant quant, weights;
    int64_t filters;
    struct planes planes;
    float *floats;

    if (!quant_read(rewrite, rw_input(rewrite, node, 0), &quant) ||
        !quant_read(rewrite, rw_input(rewrite, node, 1), &weights) || quant.count != 1 ||
        !rw_is_constant(rewrite, weights.value) || rw_info(rewrite, weights.value)->rank < 3 ||
        !sums_fit(rewrite, &weights))
        return INLAY_OK;
    filters = filters_of(rewrite, &weights);
    if (weights.count > 1 && (weights.axis != 0 || weights.count != filters))
        return INLAY_OK;
    numbers = arena_array(&rewrite->scratch, 2 * (size_t)filters, sizeof *numbers);
    floats = arena_array(&rewrite->scratch, (size_t)filters, sizeof *floats);
    if (numbers == NULL || floats == NULL)
        return rw_no_memory(rewrite);
    if (bias != INLAY_NONE) {
        if (!quant_bias(rewrite, bias, filters, numbers, numbers + filters))
            return INLAY_OK;
        for (int64_t i = 0; i < filters; i++)
            floats[i] = (float)(numbers[i] * numbers[filters + i]);
        added = along_filters(rewrite, rw_info(rewrite, weights.value)->rank, filters, floats);
    }
    for (int64_t i = 0; i < filters; i++)
        floats[i] = (float)(quant_scale(rewrite, &quant, 0) * quant_scale(rewrite, &weights, i));
    scale = along_filters(rewrite, rw_info(rewrite, weights.value)->rank, filters, floats);
    if (scale == INLAY_NONE || (bias != INLAY_NONE && added == INLAY_NONE) || !find_planes(rewrite, &weights, &planes))
        return rw_no_memory(rewrite);
    return replace(rewrite, node, &quant, &planes, scale, added);
}
