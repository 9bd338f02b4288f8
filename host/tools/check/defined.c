#include "check/defined.h"
#include "base/element.h"
#include <string.h>

static const inlay_attr_info *find_attr(const op_case *entry, const char *name)
{
    for (uint32_t i = 0; i < entry->attr_count; i++)
        if (strcmp(entry->attrs[i].name.data, name) == 0)
            return &entry->attrs[i];
    return NULL;
}

static const char *word_of(const op_case *entry, const char *name, const char *otherwise)
{
    const inlay_attr_info *attr = find_attr(entry, name);

    return attr != NULL && attr->kind == INLAY_ATTR_STRING ? attr->s.data : otherwise;
}

/* Windows of padding only: their maximum and mean are not defined. ONNX Runtime refuses them. */
static bool has_whole_windows(const op_case *entry)
{
    const inlay_attr_info *kernel = find_attr(entry, "kernel_shape"), *pads = find_attr(entry, "pads");

    for (uint32_t i = 0; kernel != NULL && pads != NULL && kernel->count > 0 && i < pads->count; i++)
        if (pads->ints[i] >= kernel->ints[i % kernel->count])
            return false;
    return true;
}

/* A list of zero points or scales belongs to the rows or columns of matrices; for stacks of them ONNX's shapes have all
 * their dims. */
static bool is_quantized_by_matrix(const op_case *entry, uint32_t operand, uint32_t parameter)
{
    const case_tensor *list = parameter < entry->in_count ? &entry->in[parameter] : NULL;

    return list == NULL || list->dtype == INLAY_UNDEFINED || list->rank != 1 || list->count == 1 ||
           entry->in[operand].rank <= 2;
}

/* Is twice the coordinate, which is numerator / denominator, an integer of this parity? */
static bool is_half(int64_t numerator, int64_t denominator, int64_t parity)
{
    return denominator > 0 && numerator % denominator == 0 && (numerator / denominator & 1) == parity;
}

/* Resize of mode nearest: no coordinate at a tie (of floor and ceil: at an integer) unless its scale is exact. */
static bool has_clear_neighbours(const op_case *entry, const case_instance *built)
{
    const char *way = word_of(entry, "coordinate_transformation_mode", "half_pixel");
    const char *rounding = word_of(entry, "nearest_mode", "round_prefer_floor");
    const int64_t parity = strcmp(rounding, "floor") != 0 && strcmp(rounding, "ceil") != 0;
    const inlay_value_state *out = &built->states[built->outputs[0]];

    if (strcmp(word_of(entry, "mode", "nearest"), "nearest") != 0)
        return true;
    for (uint32_t d = 0; d < out->rank && d < entry->in[0].rank; d++) {
        const int64_t from = entry->in[0].dims[d], to = out->dims[d];

        if (from <= 0 || to <= 0 || from == to || (to & (to - 1)) == 0)
            continue;
        for (int64_t x = 0; x < to; x++)
            if (strcmp(way, "align_corners") == 0 ? to > 1 && is_half(2 * x * (from - 1), to - 1, parity)
                : strcmp(way, "asymmetric") == 0  ? is_half(2 * x * from, to, parity)
                                                  : is_half((2 * x + 1) * from - to, to, parity))
                return false;
    }
    return true;
}

bool case_is_defined(const op_case *entry, const case_instance *built)
{
    const char *op = entry->op_type;

    if (strcmp(entry->domain, "ai.onnx") != 0)
        return true;
    if (strcmp(op, "MaxPool") == 0 || strcmp(op, "AveragePool") == 0 || strcmp(op, "LpPool") == 0)
        return has_whole_windows(entry);
    if (strcmp(op, "LayerNormalization") == 0) /* the mean of nothing */
        return entry->in_count == 0 || entry->in[0].count > 0;
    if (strcmp(op, "MatMulInteger") == 0)
        return is_quantized_by_matrix(entry, 0, 2) && is_quantized_by_matrix(entry, 1, 3);
    if (strcmp(op, "QLinearMatMul") == 0)
        return is_quantized_by_matrix(entry, 0, 1) && is_quantized_by_matrix(entry, 0, 2) &&
               is_quantized_by_matrix(entry, 3, 4) && is_quantized_by_matrix(entry, 3, 5) &&
               is_quantized_by_matrix(entry, 0, 6) && is_quantized_by_matrix(entry, 0, 7);
    if (strcmp(op, "Resize") == 0 || strcmp(op, "Upsample") == 0)
        return has_clear_neighbours(entry, built);
    return true;
}

double case_rounding(const op_case *entry)
{
    return strcmp(entry->op_type, "Resize") == 0 && !element_is_float(entry->in[0].dtype) &&
           strcmp(word_of(entry, "mode", "nearest"), "nearest") != 0;
}
