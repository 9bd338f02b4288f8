/* inlay/kit_shapes.h - what kernels read from nodes: lists and texts of attributes, types of any input, the padding of
 * windows, axes, and broadcasting.
 *
 * Included in addition to inlay/kit.h by files that need it. All functions are inline and thread-safe. */
#ifndef INLAY_KIT_SHAPES_H
#define INLAY_KIT_SHAPES_H
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "inlay/kit_table.h"
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the list and, in *out_count, its length; NULL and 0 if the node has no such attribute. */
static inline const float *kit_attr_floats(const inlay_node_info *node, const char *name, uint32_t *out_count)
{
    const inlay_attr_info *attr = kit_attr(node, name);
    const bool has = attr != NULL && attr->kind == INLAY_ATTR_FLOATS;

    *out_count = has ? attr->count : 0;
    return has ? attr->floats : NULL;
}
static inline const inlay_str *kit_attr_strings(const inlay_node_info *node, const char *name, uint32_t *out_count)
{
    const inlay_attr_info *attr = kit_attr(node, name);
    const bool has = attr != NULL && attr->kind == INLAY_ATTR_STRINGS;

    *out_count = has ? attr->count : 0;
    return has ? attr->strings : NULL;
}
/* Returns the tensor, whose data may be misaligned; NULL if the node has no such attribute. */
static inline const inlay_tensor_view *kit_attr_tensor(const inlay_node_info *node, const char *name)
{
    const inlay_attr_info *attr = kit_attr(node, name);

    return attr != NULL && attr->kind == INLAY_ATTR_TENSOR ? attr->tensor : NULL;
}
/* True if attribute `name` is the text; `otherwise` stands for an attribute that the node does not have. */
static inline bool kit_attr_is(const inlay_node_info *node, const char *name, const char *text, const char *otherwise)
{
    return strcmp(kit_attr_string(node, name, otherwise), text) == 0;
}

/* Checks the type of an input in kit_kernel.supports, for inputs that kit_kernel.in_types does not list. False, with
 * the reason, if input i is present and has none of the types. */
static inline bool kit_input_is(const kit_node *node, uint32_t i, uint64_t types, kit_refusal *why)
{
    const inlay_dtype dtype = kit_input_dtype(node, i);

    if (dtype == INLAY_UNDEFINED || types == KIT_ANY || (types & INLAY_DTYPE_BIT(dtype)) != 0)
        return true;
    return kit_refuse(why, INLAY_REFUSE_DTYPE, "insert a Cast", "input %u is %s", i, inlay_dtype_name(dtype));
}
/* The same for output i. */
static inline bool kit_output_is(const kit_node *node, uint32_t i, uint64_t types, kit_refusal *why)
{
    const inlay_dtype dtype = kit_output_dtype(node, i);

    if (dtype == INLAY_UNDEFINED || types == KIT_ANY || (types & INLAY_DTYPE_BIT(dtype)) != 0)
        return true;
    return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "output %u is %s", i, inlay_dtype_name(dtype));
}
/* Sets of types for as many inputs and outputs as an operator has, for kit_kernel.supports:
 *
 *     static const uint64_t in[] = { KIT_BIT(UINT8), KIT_BIT(FLOAT), KIT_BIT(UINT8), ... }, out[] = { KIT_BIT(UINT8) };
 *     return kit_types_fit(node, in, KIT_COUNT(in), out, KIT_COUNT(out), why);
 *
 * KIT_ANY and inputs and outputs beyond the lists take every type of the schema. */
static inline bool kit_types_fit(const kit_node *node, const uint64_t *in, uint32_t in_count, const uint64_t *out,
                                 uint32_t out_count, kit_refusal *why)
{
    bool fits = true;

    for (uint32_t i = 0; fits && i < in_count; i++)
        fits = kit_input_is(node, i, in[i], why);
    for (uint32_t i = 0; fits && i < out_count; i++)
        fits = kit_output_is(node, i, out[i], why);
    return fits;
}
/* For kit_kernel.supports: false, with the reason, if inputs i and k are present and have different types. */
static inline bool kit_inputs_agree(const kit_node *node, uint32_t i, uint32_t k, kit_refusal *why)
{
    const inlay_dtype one = kit_input_dtype(node, i), other = kit_input_dtype(node, k);

    if (one == INLAY_UNDEFINED || other == INLAY_UNDEFINED || one == other)
        return true;
    return kit_refuse(why, INLAY_REFUSE_DTYPE, "insert a Cast", "input %u is %s, and input %u %s", i,
                      inlay_dtype_name(one), k, inlay_dtype_name(other));
}

/* Reads the list attribute `name` to out [count]; `otherwise` for each element if it is absent or empty. False, with
 * the reason, if it has another length or an element that is not from `low` to `high`. why may be NULL. */
static inline bool kit_attr_list(const inlay_node_info *node, const char *name, uint32_t count, int64_t low,
                                 int64_t high, int64_t otherwise, int64_t *out, kit_refusal *why)
{
    uint32_t given;
    const int64_t *list = kit_attr_ints(node, name, &given);

    for (uint32_t i = 0; i < count; i++)
        out[i] = otherwise;
    if (list == NULL || given == 0)
        return true;
    if (given != count)
        return why != NULL && kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL,
                                         "%s has %u elements where the window has %u", name, given, count);
    for (uint32_t i = 0; i < count; i++) {
        if (list[i] < low || list[i] > high)
            return why != NULL &&
                   kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "%s has an element below %lld or above %lld", name,
                              (long long)low, (long long)high);
        out[i] = list[i];
    }
    return true;
}

/* How a window is padded: attribute auto_pad of convolutions and pools. */
enum { KIT_PAD_EXPLICIT = 0, KIT_PAD_SAME_UPPER = 1, KIT_PAD_SAME_LOWER = 2, KIT_PAD_VALID = 3 };
static inline uint32_t kit_pad_mode(const inlay_node_info *node)
{
    const char *mode = kit_attr_string(node, "auto_pad", "NOTSET");

    return strcmp(mode, "SAME_UPPER") == 0   ? KIT_PAD_SAME_UPPER
           : strcmp(mode, "SAME_LOWER") == 0 ? KIT_PAD_SAME_LOWER
           : strcmp(mode, "VALID") == 0      ? KIT_PAD_VALID
                                             : KIT_PAD_EXPLICIT;
}

/* A window on one axis. */
typedef struct kit_window {
    int64_t in, out; /* elements of the axis of the input and of the output */
    int64_t size;    /* of the window, in elements, without those that dilation skips */
    int64_t stride, dilation;
    int64_t begin, end; /* padding before the first and after the last element; of attribute pads at first */
} kit_window;

/* Sets begin and end of a convolution or pool, which is not transposed. The windows of an output that ceil_mode has
 * rounded up reach past `end`: kit_window_past(). */
static inline void kit_window_pad(kit_window *window, uint32_t mode)
{
    int64_t total = (window->out - 1) * window->stride + (window->size - 1) * window->dilation + 1 - window->in;

    total = total > 0 ? total : 0;
    if (mode == KIT_PAD_EXPLICIT)
        return;
    window->begin = mode == KIT_PAD_VALID ? 0 : (total + (mode == KIT_PAD_SAME_LOWER)) / 2;
    window->end = mode == KIT_PAD_VALID ? 0 : total - window->begin;
}
/* The padding that the last window needs after the last element: more than `end` with ceil_mode, otherwise at most as
 * much. */
static inline int64_t kit_window_past(const kit_window *window)
{
    return (window->out - 1) * window->stride + (window->size - 1) * window->dilation + 1 - window->in - window->begin;
}

/* Converts an axis, which counts from the end if it is negative, to an index below rank. False: it is out of range. */
static inline bool kit_axis(int64_t axis, uint32_t rank, uint32_t *out)
{
    if (axis < -(int64_t)rank || axis >= (int64_t)rank)
        return false;
    *out = (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
    return true;
}
/* Sets is_listed [rank] for each axis of the list. False: one is out of range, or occurs twice. */
static inline bool kit_axes(const int64_t *list, uint32_t count, uint32_t rank, bool *is_listed)
{
    uint32_t axis;

    for (uint32_t i = 0; i < rank; i++)
        is_listed[i] = false;
    for (uint32_t i = 0; i < count; i++) {
        if (!kit_axis(list[i], rank, &axis) || is_listed[axis])
            return false;
        is_listed[axis] = true;
    }
    return true;
}

/* The shape of two operands that broadcast: out [*out_rank], which is the larger rank. False: they do not fit. out has
 * room for INLAY_MAX_RANK dims. */
static inline bool kit_broadcast(const int64_t *a, uint32_t a_rank, const int64_t *b, uint32_t b_rank, int64_t *out,
                                 uint32_t *out_rank)
{
    const uint32_t rank = a_rank > b_rank ? a_rank : b_rank;

    *out_rank = rank;
    for (uint32_t i = 0; i < rank; i++) { /* from the last dim */
        const int64_t x = i < a_rank ? a[a_rank - 1 - i] : 1, y = i < b_rank ? b[b_rank - 1 - i] : 1;

        if (x != y && x != 1 && y != 1)
            return false;
        out[rank - 1 - i] = x == 1 ? y : x;
    }
    return true;
}
/* Writes to steps [out_rank], for each axis of the result of broadcasting, how many elements the operand moves for one
 * step along the axis: 0 where the operand repeats. dims [rank] are the dims of the operand, which is dense. */
static inline void kit_broadcast_steps(const int64_t *dims, uint32_t rank, uint32_t out_rank, int64_t *steps)
{
    int64_t step = 1;

    for (uint32_t i = 0; i < out_rank; i++) {
        const int64_t size = i < rank ? dims[rank - 1 - i] : 1;

        steps[out_rank - 1 - i] = size == 1 ? 0 : step;
        step *= size;
    }
}

#ifdef __cplusplus
}
#endif
#endif
