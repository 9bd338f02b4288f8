/* Rewrites convolutions of dequantized 8-bit values whose result is not quantized directly:
 *
 *     DQ(x), DQ(w), bias -> Conv     ConvInteger, Cast, Mul by the scales of the filters, Add of the bias
 *
 * The integer sums are exact. Weights with another zero point become int8 with zero point 0 if they fit. Otherwise they
 * are split into a difference of two int8 tensors, which covers all weights minus zero points, [-255, 255] (a sum would
 * end at 254), and the convolution into a difference of two. */
#include "passes/quantized.h"
#include "base/element.h"
#include "inlay/check.h"
#include <math.h>

enum { MAX_TERMS = 2, LARGEST = 255 /* of weights minus zero points, positive or negative */ };

/* Integer weights with a fixed zero point: int8 with 0, or uint8 with 128. Their values are those of the first term
 * minus those of the second. */
typedef struct split_weights {
    uint32_t value[MAX_TERMS], zero; /* zero: INLAY_NONE for int8 */
    uint32_t count;
} split_weights;

static int64_t filters_of(const struct rewrite *rewrite, const struct quant *weights)
{
    return rewrite_dim(rewrite_value_info(rewrite, weights->value), 0);
}

/* Weight i minus its zero point; `each`: number of weights of a filter. */
static int64_t weight_at(const struct rewrite *rewrite, const struct quant *weights, const inlay_value_info *info,
                         int64_t i, int64_t each)
{
    int64_t value = 0;

    (void)element_integer(info->dtype, info->data, i, &value);
    return value - quant_zero(rewrite, weights, i / each);
}

static int64_t nearest_int8(int64_t value)
{
    return value < INT8_MIN ? INT8_MIN : value > INT8_MAX ? INT8_MAX : value;
}

/* Subtracts the zero points, and splits the result into as few int8 tensors as possible. Returns false if out of
 * memory. */
static bool split_into_terms(struct rewrite *rewrite, const struct quant *weights, split_weights *out)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, weights->value);
    const int64_t count = graph_constant_count(info), each = count / filters_of(rewrite, weights);
    int64_t dims[INLAY_MAX_RANK];

    *out = (split_weights){ .zero = INLAY_NONE, .count = 1 };
    for (uint32_t d = 0; d < info->rank; d++)
        dims[d] = info->dims[d].value;
    for (int64_t i = 0; out->count < MAX_TERMS && i < count; i++) {
        const int64_t value = weight_at(rewrite, weights, info, i, each);

        if (value != nearest_int8(value))
            out->count = MAX_TERMS;
    }
    for (uint32_t k = 0; k < out->count; k++) {
        int8_t *term = graph_blob_alloc(rewrite->graph->model, (size_t)count);

        for (int64_t i = 0; term != NULL && i < count; i++) {
            const int64_t value = weight_at(rewrite, weights, info, i, each), first = nearest_int8(value);
            const int64_t part = k == 0 ? first : first - value; /* of 255: 127 and -128 */

            INLAY_CHECK(value >= -LARGEST && value <= LARGEST && part == nearest_int8(part));
            term[i] = (int8_t)part;
        }
        out->value[k] = term == NULL
                            ? INLAY_NONE
                            : rewrite_constant_blob(rewrite, INLAY_INT8, info->rank, dims, term, (uint64_t)count);
        if (out->value[k] == INLAY_NONE)
            return false;
    }
    return true;
}

static bool find_terms(struct rewrite *rewrite, const struct quant *weights, split_weights *out)
{
    for (int64_t i = 0; i < weights->count; i++)
        if (quant_zero(rewrite, weights, i) != (weights->dtype == INLAY_INT8 ? 0 : 128))
            return split_into_terms(rewrite, weights, out);
    *out = (split_weights){ .value = { weights->value }, .zero = INLAY_NONE, .count = 1 };
    if (weights->dtype == INLAY_UINT8 && (out->zero = quant_byte(rewrite, INLAY_UINT8, 128)) == INLAY_NONE)
        return false;
    return true;
}

/* Inserts ConvInteger, Cast and Mul. If `last`, Mul replaces conv; otherwise *out receives its output. INLAY_NONE: no
 * provider would run the ConvInteger. */
static inlay_status insert_conv(struct rewrite *rewrite, graph_node *conv, const struct quant *quant,
                                const split_weights *weights, uint32_t term, uint32_t scale, bool last, uint32_t *out)
{
    const uint32_t inputs[] = { quant->value, weights->value[term],
                                quant_byte(rewrite, quant->dtype, quant_zero(rewrite, quant, 0)), weights->zero };
    graph_node *new_node =
        rewrite_make_node(rewrite, "ConvInteger", 10, conv, inputs, weights->zero == INLAY_NONE ? 3 : 4, 1);
    inlay_status status;

    *out = INLAY_NONE;
    if (new_node == NULL || inputs[2] == INLAY_NONE)
        return rewrite_no_memory(rewrite);
    for (uint32_t i = 0; i < conv->info.attr_count; i++)
        if (graph_set_attr(rewrite->graph, new_node, &conv->info.attrs[i]) != INLAY_OK)
            return rewrite_no_memory(rewrite);
    if (!quant_is_offered(rewrite, new_node, conv->info.outputs[0], INLAY_INT32))
        return INLAY_OK;
    INLAY_TRY(rewrite_insert_node(rewrite, new_node, INLAY_INT32));
    status = quant_scale_product(rewrite, conv, new_node, scale, last, out);
done:
    return status;
}

/* Replaces conv by the sum of the convolutions with each term, and of the bias, if there is one. scales: of each
 * term. */
static inlay_status replace_by_sum(struct rewrite *rewrite, graph_node *conv, const struct quant *quant,
                                   const split_weights *weights, const uint32_t *scales, uint32_t bias)
{
    const bool alone = weights->count == 1 && bias == INLAY_NONE;
    uint32_t parts[MAX_TERMS + 1], count = 0, sum;
    inlay_status status = INLAY_OK;

    for (uint32_t p = 0; p < weights->count; p++) {
        INLAY_TRY(insert_conv(rewrite, conv, quant, weights, p, scales[p], alone, &parts[count]));
        if (parts[count] == INLAY_NONE)
            return INLAY_OK;
        count++;
    }
    if (bias != INLAY_NONE)
        parts[count++] = bias;
    sum = parts[0];
    for (uint32_t i = 1; i < count; i++) {
        graph_node *add = rewrite_make_node(rewrite, "Add", 13, conv, (const uint32_t[]){ sum, parts[i] }, 2, 1);

        if (add == NULL)
            return rewrite_no_memory(rewrite);
        if (i + 1 == count)
            return rewrite_replace_node(rewrite, conv, add);
        INLAY_TRY(rewrite_insert_node(rewrite, add, INLAY_FLOAT));
        sum = add->info.outputs[0];
    }
done:
    return status;
}

inlay_status quantized_conv(struct rewrite *rewrite, graph_node *node)
{
    const uint32_t bias = rewrite_input(rewrite, node, 2);
    uint32_t scales[MAX_TERMS] = { INLAY_NONE, INLAY_NONE }, added = INLAY_NONE;
    double *numbers;
    struct quant quant, weights;
    int64_t filters;
    split_weights split;
    float *floats;

    if (!quant_read(rewrite, rewrite_input(rewrite, node, 0), &quant) ||
        !quant_read(rewrite, rewrite_input(rewrite, node, 1), &weights) || quant.count != 1 ||
        !rewrite_is_constant(rewrite, weights.value) || rewrite_value_info(rewrite, weights.value)->rank < 3 ||
        quant_room(rewrite, &weights, LARGEST * LARGEST) < 0)
        return INLAY_OK;
    filters = filters_of(rewrite, &weights);
    if (weights.count > 1 && (weights.axis != 0 || weights.count != filters))
        return INLAY_OK;
    numbers = arena_array(&rewrite->scratch, 2 * (size_t)filters, sizeof *numbers);
    floats = arena_array(&rewrite->scratch, (size_t)filters, sizeof *floats);
    if (numbers == NULL || floats == NULL)
        return rewrite_no_memory(rewrite);
    if (bias != INLAY_NONE) {
        if (!quant_bias(rewrite, bias, filters, numbers, numbers + filters))
            return INLAY_OK;
        for (int64_t i = 0; i < filters; i++)
            floats[i] = (float)(numbers[i] * numbers[filters + i]);
        added = quant_along_filters(rewrite, rewrite_value_info(rewrite, weights.value)->rank, filters, floats);
    }
    if ((bias != INLAY_NONE && added == INLAY_NONE) || !find_terms(rewrite, &weights, &split))
        return rewrite_no_memory(rewrite);
    for (uint32_t k = 0; k < split.count; k++) { /* a negative scale subtracts the second term */
        for (int64_t i = 0; i < filters; i++)
            floats[i] =
                (float)(quant_scale(rewrite, &quant, 0) * quant_scale(rewrite, &weights, i) * (k == 0 ? 1 : -1));
        scales[k] = quant_along_filters(rewrite, rewrite_value_info(rewrite, weights.value)->rank, filters, floats);
        if (scales[k] == INLAY_NONE)
            return rewrite_no_memory(rewrite);
    }
    return replace_by_sum(rewrite, node, &quant, &split, scales, added);
}
