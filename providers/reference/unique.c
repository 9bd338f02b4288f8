/* Unique: ONNX 11. The indices of elements, or of the slices along an axis, are sorted stably: numbers by the digits of
 * their keys (rank.h), others by merge sort. Equal neighbors form a group; its first index is that of the first
 * occurrence. NaN equals NaN and sorts last, as in numpy. */
#include "inlay/check.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/rank.h"
#include "operators/operators.h"
#include "operators/work.h"
#include "operators/strided.h"
#include <math.h>

typedef struct unique_state {
    int64_t axis;
    bool flat, sorted;
} unique_state;

static inlay_status prepare_unique(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_status status = arg_allocate_state(sizeof(unique_state), out_state, diag);

    if (status == INLAY_OK)
        *(unique_state *)*out_state = (unique_state){ .axis = kit_attr_int(node->info, "axis", 0),
                                                      .flat = kit_attr(node->info, "axis") == NULL,
                                                      .sorted = kit_attr_int(node->info, "sorted", 1) != 0 };
    return status;
}

static int order_f64(double a, double b)
{
    if (a != a || b != b)
        return (a != a) - (b != b);
    return (a > b) - (a < b);
}

static int order_strings(const inlay_str *a, const inlay_str *b)
{
    const uint64_t shared = a->bytes < b->bytes ? a->bytes : b->bytes;
    const int order = shared > 0 ? memcmp(a->data, b->data, (size_t)shared) : 0;

    return order != 0 ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static int order_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Compares elements a and b of input: negative, 0 or positive. Complex numbers are ordered by real, then by imaginary
 * part. */
static int order_elements(const kit_tensor *input, int64_t a, int64_t b)
{
    int order;

    switch (input->dtype) {
    case INLAY_STRING:
        return order_strings((const inlay_str *)input->data + a, (const inlay_str *)input->data + b);
    case INLAY_COMPLEX64:
        order = order_f64((double)((const float *)input->data)[2 * a], (double)((const float *)input->data)[2 * b]);
        return order != 0 ? order
                          : order_f64((double)((const float *)input->data)[2 * a + 1],
                                      (double)((const float *)input->data)[2 * b + 1]);
    case INLAY_COMPLEX128:
        order = order_f64(((const double *)input->data)[2 * a], ((const double *)input->data)[2 * b]);
        return order != 0
                   ? order
                   : order_f64(((const double *)input->data)[2 * a + 1], ((const double *)input->data)[2 * b + 1]);
    case INLAY_FLOAT:
        return order_f64((double)((const float *)input->data)[a], (double)((const float *)input->data)[b]);
    case INLAY_DOUBLE:
        return order_f64(((const double *)input->data)[a], ((const double *)input->data)[b]);
    case INLAY_FLOAT16:
        return order_f64((double)f16_to_f32(((const uint16_t *)input->data)[a]),
                         (double)f16_to_f32(((const uint16_t *)input->data)[b]));
    case INLAY_BFLOAT16:
        return order_f64((double)bf16_to_f32(((const uint16_t *)input->data)[a]),
                         (double)bf16_to_f32(((const uint16_t *)input->data)[b]));
    case INLAY_UINT64:
        return order_u64(((const uint64_t *)input->data)[a], ((const uint64_t *)input->data)[b]);
    case INLAY_BOOL:
        return order_u64(((const uint8_t *)input->data)[a] != 0, ((const uint8_t *)input->data)[b] != 0);
    default: {
        const int64_t value_a = convert_get_i64(input->dtype, input->data, a),
                      value_b = convert_get_i64(input->dtype, input->data, b);
        return (value_a > value_b) - (value_a < value_b);
    }
    }
}

struct slices {
    const kit_tensor *input;
    int64_t count;        /* slices */
    int64_t outer, inner; /* a slice consists of `outer` runs of `inner` elements, which are count * inner apart */
};

static int order_slices(const struct slices *slices, int64_t a, int64_t b)
{
    for (int64_t outer_index = 0; outer_index < slices->outer; outer_index++) {
        for (int64_t i = 0; i < slices->inner; i++) {
            const int64_t row = outer_index * slices->count * slices->inner + i;
            const int order = order_elements(slices->input, row + a * slices->inner, row + b * slices->inner);

            if (order != 0)
                return order;
        }
    }
    return 0;
}

/* Sorts the slices 0 ... count - 1 by bottom-up merge sort. *out_order receives the array with the result: order or
 * other. */
static void sort_slices(const struct slices *slices, int64_t *order, int64_t *other, int64_t **out_order)
{
    for (int64_t i = 0; i < slices->count; i++)
        order[i] = i;
    for (int64_t width = 1; width < slices->count; width *= 2) {
        for (int64_t begin = 0; begin < slices->count; begin += 2 * width) {
            const int64_t middle = begin + width < slices->count ? begin + width : slices->count;
            const int64_t end = begin + 2 * width < slices->count ? begin + 2 * width : slices->count;
            int64_t a = begin, b = middle;

            for (int64_t to = begin; to < end; to++)
                other[to] =
                    a < middle && (b >= end || order_slices(slices, order[a], order[b]) <= 0) ? order[a++] : order[b++];
        }
        {
            int64_t *swap = order;
            order = other;
            other = swap;
        }
    }
    *out_order = order;
}

/* Returns whether slices can be compared by keys. */
static bool has_keys(const struct slices *slices)
{
    const inlay_dtype dtype = slices->input->dtype;

    return slices->outer == 1 && slices->inner == 1 && dtype != INLAY_STRING && dtype != INLAY_COMPLEX64 &&
           dtype != INLAY_COMPLEX128;
}

/* Returns a key of an element; keys have the order of order_elements(). */
static uint64_t key_of_element(const kit_tensor *input, int64_t index)
{
    INLAY_CHECK(index >= 0 && index < input->count);
    switch (input->dtype) {
    case INLAY_FLOAT:
        return rank_key_f32(((const float *)input->data)[index]);
    case INLAY_DOUBLE:
        return rank_key_f64(((const double *)input->data)[index]);
    case INLAY_FLOAT16:
        return rank_key_f32(f16_to_f32(((const uint16_t *)input->data)[index]));
    case INLAY_BFLOAT16:
        return rank_key_f32(bf16_to_f32(((const uint16_t *)input->data)[index]));
    case INLAY_INT64:
        return rank_key_i64(((const int64_t *)input->data)[index]);
    case INLAY_UINT64:
        return ((const uint64_t *)input->data)[index];
    case INLAY_BOOL:
        return ((const uint8_t *)input->data)[index] != 0;
    default:
        return rank_key_i64(convert_get_i64(input->dtype, input->data, index));
    }
}

/* Writes the slices 0 ... count - 1, sorted by key, to order. entries: scratch memory for 2 * count entries; the first
 * half receives the sorted, inverted keys. */
static void sort_keys(const struct slices *slices, rank_entry *entries, int64_t *order)
{
    INLAY_CHECK(has_keys(slices));
    for (int64_t i = 0; i < slices->count; i++)
        entries[i] = (rank_entry){ ~key_of_element(slices->input, i), i };
    rank_order(entries, slices->count, entries + slices->count);
    for (int64_t i = 0; i < slices->count; i++)
        order[i] = entries[i].index;
}

/* Arrays with one index per slice: two for sorting, the group of each slice, and the first slice of each group. */
enum { ARRAYS = 4, KEY_ARRAYS = 4 /* integers per slice of two arrays of rank_entry, which follow */ };

static int64_t slice_count(const unique_state *state, const kit_tensor *input, uint32_t axis)
{
    return state->flat ? input->count : input->dims[axis];
}

static inlay_status shape_unique(const void *opaque, kit_plan *plan, inlay_diag *diag)
{
    const unique_state *state = opaque;
    uint32_t axis = 0;
    inlay_status status = INLAY_OK;

    if (!state->flat)
        status = arg_axis(diag, state->axis, plan->in[0].rank, "axis", &axis);
    if (status == INLAY_OK)
        plan->workspace_bytes =
            (uint64_t)slice_count(state, &plan->in[0], axis) * (ARRAYS + KEY_ARRAYS) * sizeof(int64_t);
    return status;
}

/* Numbers the groups. sorted[i] is the i-th slice in order; group[slice] receives its group, first[g] the first slice
 * of group g. Groups are in the order of first occurrence unless `by_value`. Returns the number of groups. */
static int64_t number_groups(const struct slices *slices, const int64_t *sorted, const rank_entry *keys, bool by_value,
                             int64_t *group, int64_t *first)
{
    int64_t groups = 0;

    for (int64_t i = 0; i < slices->count; i++) {
        const bool same = i > 0 && (keys != NULL ? keys[i - 1].key == keys[i].key
                                                 : order_slices(slices, sorted[i - 1], sorted[i]) == 0);

        /* The sort is stable: the first member of a run is its first occurrence, which identifies the group for now. */
        group[sorted[i]] = same ? group[sorted[i - 1]] : sorted[i];
        if (!same && by_value)
            first[groups] = sorted[i];
        groups += !same;
    }
    if (by_value) {
        /* Replace the first occurrence by the number of the group: a group is a run in sorted order. */
        int64_t number = -1;

        for (int64_t i = 0; i < slices->count; i++) {
            number += number + 1 < groups && sorted[i] == first[number + 1];
            group[sorted[i]] = number;
        }
    } else {
        groups = 0;
        for (int64_t i = 0; i < slices->count; i++) {
            if (group[i] == i) {
                first[groups] = i;
                group[i] = groups++;
            } else {
                group[i] = group[group[i]]; /* the first occurrence precedes slice i, and already has its number */
            }
        }
    }
    INLAY_CHECK(groups <= slices->count);
    return groups;
}

static inlay_status write_values(const kit_call *call, const struct slices *slices, const int64_t *first,
                                 int64_t groups, uint32_t rank, const int64_t *dims)
{
    const int64_t element = strided_element_bytes(call->in[0].dtype), run = slices->inner * element;
    inlay_status status = kit_alloc_output(call, 0, rank, dims);

    if (status != INLAY_OK || call->out[0].data == NULL || call->out[0].count == 0)
        return status;
    for (int64_t outer_index = 0; outer_index < slices->outer; outer_index++)
        for (int64_t group = 0; group < groups; group++)
            memcpy((char *)call->out[0].data + (outer_index * groups + group) * run,
                   (const char *)slices->input->data + (outer_index * slices->count + first[group]) * run, (size_t)run);
    return INLAY_OK;
}

static inlay_status run_unique(const kit_call *call)
{
    const unique_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    int64_t dims[INLAY_MAX_RANK] = { 0 }, *sorted, *arrays = call->workspace, *group, *first, groups;
    struct slices slices = { input, input->count, 1, 1 };
    rank_entry *keys = NULL;
    inlay_status status = INLAY_OK;
    uint32_t axis = 0;

    if (!state->flat) {
        INLAY_TRY(arg_axis(call->diag, state->axis, input->rank, "axis", &axis));
        memcpy(dims, input->dims, input->rank * sizeof *dims);
        slices = (struct slices){ input, input->dims[axis], strided_product(input->dims, 0, axis),
                                  strided_product(input->dims, axis + 1, input->rank) };
    }
    group = arrays + 2 * slices.count;
    first = arrays + 3 * slices.count;
    if (has_keys(&slices)) {
        keys = (rank_entry *)(void *)(arrays + ARRAYS * slices.count);
        sorted = arrays;
        sort_keys(&slices, keys, sorted);
    } else {
        sort_slices(&slices, arrays, arrays + slices.count, &sorted);
    }
    groups = number_groups(&slices, sorted, keys, state->sorted, group, first);
    dims[axis] = groups;
    INLAY_TRY(write_values(call, &slices, first, groups, state->flat ? 1 : input->rank, dims));
    INLAY_TRY(kit_alloc_output(call, 1, 1, &groups));
    if (kit_has_output(call, 1) && groups > 0)
        memcpy(call->out[1].data, first, (size_t)groups * sizeof *first);
    INLAY_TRY(kit_alloc_output(call, 2, 1, &slices.count));
    if (kit_has_output(call, 2) && slices.count > 0)
        memcpy(call->out[2].data, group, (size_t)slices.count * sizeof *group);
    INLAY_TRY(kit_alloc_output(call, 3, 1, &groups));
    if (kit_has_output(call, 3) && groups > 0) {
        int64_t *counts = call->out[3].data;

        memset(counts, 0, (size_t)groups * sizeof *counts);
        for (int64_t i = 0; i < slices.count; i++)
            counts[group[i]]++;
    }
done:
    return status;
}

/* The cost of a stable sort of all slices: about 15 ns per comparison, or 2 ns per digit of a key. */
static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    const kit_tensor *input = &shapes->in[0];
    int64_t axis = kit_attr_int(node->info, "axis", 0);
    double units = work_count(input);

    axis += axis < 0 ? (int64_t)input->rank : 0;
    if (kit_attr(node->info, "axis") != NULL && units > 0 && axis >= 0 && axis < (int64_t)input->rank)
        units = (double)input->dims[axis];
    if (units == work_count(input) && input->dtype != INLAY_STRING)
        work_cost(shapes, units * 8, 2, 1, out);
    else
        work_cost(shapes, work_sort(units), 15, 1, out);
}

static const kit_kernel kernels[] = {
    { .op_type = "Unique",
      .flags = KIT_SHAPES_AT_RUN,
      .prepare = prepare_unique,
      .shape = shape_unique,
      .cost = cost,
      .run = run_unique },
};
const kit_table reference_unique = { kernels, KIT_COUNT(kernels) };
