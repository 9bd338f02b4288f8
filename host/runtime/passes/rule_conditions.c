/* The conditions of rules (rule_conditions.def). */
#include "base/element.h"
#include "passes/rules.h"
#include <math.h>

enum {
    MAX_ONES = 1 << 16,  /* elements of a scale that is made */
    MAX_EQUAL = 1 << 18, /* bytes of a constant whose elements are compared */
    MAX_EXPONENT = 100   /* of a divisor whose inverse is a normal number */
};

static const inlay_value_info *value_at(const rule_match *match, uint8_t slot)
{
    return rewrite_value_info(match->rewrite, match->values[slot]);
}

static bool is_float(const rule_match *match, uint8_t slot)
{
    return element_is_float(value_at(match, slot)->dtype);
}

/* All elements of the constant equal the number; zeros of floats have its sign. */
bool rule_if_all(rule_match *match, const uint8_t *slots, double number)
{
    const inlay_value_info *info = value_at(match, slots[0]);
    const uint32_t bits = info == NULL ? 0 : (uint32_t)inlay_dtype_bits(info->dtype);
    double element, imaginary;

    if (!rewrite_is_constant(match->rewrite, match->values[slots[0]]) || info->data_bytes == 0 ||
        info->data_bytes > MAX_EQUAL || bits < 8)
        return false;
    for (uint64_t i = 0; i < info->data_bytes / (bits / 8); i++)
        if (!element_number(info->dtype, info->data, (int64_t)i, &element, &imaginary) || element != number ||
            imaginary != 0 ||
            (number == 0 && element_is_float(info->dtype) && (signbit(element) != 0) != (signbit(number) != 0)))
            return false;
    return true;
}

/* Binds the axis of the value, counted from its first axis. */
bool rule_if_axis_of(rule_match *match, const uint8_t *slots, double number)
{
    const inlay_value_info *info = value_at(match, slots[0]);
    const double axis = match->numbers[slots[1]];

    (void)number;
    match->numbers[slots[2]] = axis < 0 ? axis + info->rank : axis;
    return info->rank != INLAY_RANK_UNKNOWN;
}

/* The first value has exactly the shape of the second one from the axis on, as scale and bias of a norm must have. */
bool rule_if_fits_last(rule_match *match, const uint8_t *slots, double number)
{
    const inlay_value_info *scale = value_at(match, slots[0]), *info = value_at(match, slots[1]);
    const int64_t axis = (int64_t)match->numbers[slots[2]];

    (void)number;
    if (scale->rank == INLAY_RANK_UNKNOWN || (int64_t)scale->rank != (int64_t)info->rank - axis ||
        scale->dtype != info->dtype)
        return false;
    for (uint32_t d = 0; d < scale->rank; d++)
        if (rewrite_dim(scale, d) < 0 || rewrite_dim(scale, d) != rewrite_dim(info, axis + d))
            return false;
    return true;
}

bool rule_if_float32(rule_match *match, const uint8_t *slots, double number)
{
    (void)number;
    return value_at(match, slots[0])->dtype == INLAY_FLOAT;
}

bool rule_if_floats(rule_match *match, const uint8_t *slots, double number)
{
    (void)number;
    return is_float(match, slots[0]);
}

/* Binds the inverse of a constant power of two of one element. Multiplication by it equals the division exactly. */
bool rule_if_inverse(rule_match *match, const uint8_t *slots, double number)
{
    static const int64_t ones[INLAY_MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    const inlay_value_info *info = value_at(match, slots[0]);
    double divisor;
    int exponent;
    float inverse;

    (void)number;
    if (info->dtype != INLAY_FLOAT || info->rank > INLAY_MAX_RANK ||
        !rewrite_scalar(match->rewrite, match->values[slots[0]], &divisor) || divisor == 1 ||
        frexp(fabs(divisor), &exponent) != 0.5 || exponent < -MAX_EXPONENT || exponent > MAX_EXPONENT)
        return false;
    inverse = (float)(1 / divisor);
    match->values[slots[1]] = rewrite_constant(match->rewrite, INLAY_FLOAT, info->rank, ones, &inverse, sizeof inverse);
    return match->values[slots[1]] != INLAY_NONE;
}

bool rule_if_keeps_rank(rule_match *match, const uint8_t *slots, double number)
{
    (void)number;
    return rewrite_keeps_rank(match->rewrite, match->values[0], match->values[slots[0]]);
}

/* The first axis of a ReduceMean over the last axes of its input; -1: other axes, or unknown ones. */
static int64_t first_axis(const rule_match *match, uint8_t slot)
{
    struct rewrite *rewrite = match->rewrite;
    const graph_node *node = rewrite_producer(rewrite, match->values[slot]);
    const uint32_t rank = rewrite_value_info(rewrite, rewrite_input(rewrite, node, 0))->rank;
    const int64_t *axes;
    int64_t lowest = INT64_MAX;
    uint32_t count;

    axes = rewrite_attr_ints(node, "axes", &count);
    if (rank == INLAY_RANK_UNKNOWN ||
        (axes == NULL && !rewrite_integers(rewrite, rewrite_input(rewrite, node, 1), &axes, &count)) || count == 0)
        return -1;
    for (uint32_t i = 0; i < count; i++) {
        const int64_t axis = axes[i] < 0 ? axes[i] + (int64_t)rank : axes[i];

        lowest = axis < lowest ? axis : lowest;
    }
    return lowest + (int64_t)count == (int64_t)rank ? lowest : -1; /* the axes are distinct */
}

bool rule_if_last_axes(rule_match *match, const uint8_t *slots, double number)
{
    (void)number;
    match->numbers[slots[1]] = (double)first_axis(match, slots[0]);
    return match->numbers[slots[1]] >= 0;
}

bool rule_if_last_axis(rule_match *match, const uint8_t *slots, double number)
{
    const double axis = match->numbers[slots[1]];

    (void)number;
    return axis == -1 || axis + 1 == value_at(match, slots[0])->rank;
}

bool rule_if_may_round(rule_match *match, const uint8_t *slots, double number)
{
    (void)slots, (void)number;
    return !rewrite_is_quantized_later(match->rewrite, match->values[0]);
}

bool rule_if_nonzero(rule_match *match, const uint8_t *slots, double number)
{
    (void)number;
    return isfinite(match->numbers[slots[0]]) && match->numbers[slots[0]] != 0;
}

bool rule_if_not_in_file(rule_match *match, const uint8_t *slots, double number)
{
    (void)slots, (void)number;
    return match->rewrite->ctx->options.newest_opset == 0;
}

/* Binds a scale of ones for the axes of the value from an axis on. */
bool rule_if_ones(rule_match *match, const uint8_t *slots, double number)
{
    const inlay_value_info *info = value_at(match, slots[0]);
    const int64_t axis = (int64_t)match->numbers[slots[1]];
    const uint32_t rank = info->rank - (uint32_t)axis;
    int64_t dims[INLAY_MAX_RANK], count = 1;
    uint64_t bytes;
    void *data;

    (void)number;
    for (uint32_t d = 0; d < rank; d++) {
        dims[d] = rewrite_dim(info, axis + d);
        if (dims[d] <= 0 || dims[d] > MAX_ONES / count)
            return false;
        count *= dims[d];
    }
    bytes = (uint64_t)count * (uint64_t)inlay_dtype_bits(info->dtype) / 8;
    data = arena_alloc(&match->rewrite->scratch, bytes);
    for (int64_t i = 0; data != NULL && i < count; i++)
        if (!element_put(info->dtype, data, i, 1))
            return false;
    match->values[slots[2]] =
        data == NULL ? INLAY_NONE : rewrite_constant(match->rewrite, info->dtype, rank, dims, data, bytes);
    return match->values[slots[2]] != INLAY_NONE;
}

bool rule_if_same_axes(rule_match *match, const uint8_t *slots, double number)
{
    (void)number;
    return first_axis(match, slots[0]) == first_axis(match, slots[1]);
}

bool rule_if_same_dtype(rule_match *match, const uint8_t *slots, double number)
{
    (void)number;
    return value_at(match, slots[0])->dtype == value_at(match, 0)->dtype;
}

bool rule_if_same_type(rule_match *match, const uint8_t *slots, double number)
{
    (void)number;
    return rewrite_same_type(match->rewrite, match->values[slots[0]], match->values[0]);
}

bool rule_if_scalar(rule_match *match, const uint8_t *slots, double number)
{
    (void)number;
    return value_at(match, slots[0])->rank == 0;
}

/* The node has that output. */
bool rule_if_wants(rule_match *match, const uint8_t *slots, double number)
{
    const uint32_t output = (uint32_t)number;

    (void)slots;
    return output < match->node->info.output_count && match->node->info.outputs[output] != INLAY_NONE;
}
