/* Correct kernels of Transpose, Pad, Where, Clip, Expand, Tile, CumSum, DepthToSpace, MatMul, BatchNormalization,
 * DequantizeLinear and TopK, in which option `fault` plants one of the defects that kernels have which compute where an
 * element comes from: an order of axes, a broadcast, an end, a border, a tie or a type that they do not regard. Without
 * a fault nothing is wrong. */
#include "planted.h"

enum fault {
    NONE,
    TRANSPOSE_DEFAULT,
    TRANSPOSE_HIGH,
    TRANSPOSE_BYTES,
    TRANSPOSE_INVERSE,
    PAD_NEGATIVE,
    PAD_VALUE,
    PAD_REFLECT,
    PAD_LAST,
    PAD_HALVES,
    WHERE_CONDITION,
    WHERE_SCALAR,
    WHERE_OUTER,
    WHERE_BYTES,
    CLIP_NO_MIN,
    CLIP_NO_MAX,
    CLIP_NAN,
    CLIP_ORDER,
    EXPAND_LEADING,
    EXPAND_INNER,
    EXPAND_EMPTY,
    TILE_FIRST,
    TILE_ODD,
    TILE_BYTES,
    SUM_EXCLUSIVE,
    SUM_REVERSE,
    SUM_BOTH,
    SUM_AXIS,
    DEPTH_MODE,
    DEPTH_BLOCK,
    DEPTH_BATCH,
    MATMUL_BATCH,
    MATMUL_VECTOR,
    MATMUL_ROW,
    MATMUL_ONE,
    BATCH_EPSILON,
    BATCH_CHANNEL,
    BATCH_RANK,
    DEQUANTIZE_AXIS,
    DEQUANTIZE_ZERO_POINT,
    DEQUANTIZE_SIGN,
    TOP_SMALLEST,
    TOP_TIE,
    TOP_AXIS,
    FAULTS
};

/* Attributes of a node, and numbers of its constants. */
struct setup {
    int64_t list[2 * MOST_RANK]; /* perm, pads, repeats */
    int64_t axis, block;
    double epsilon, value;
    bool exclusive, reverse, is_crd, smallest, is_edge, is_reflect, has_list, has_zero_point;
};

static int64_t number_of(const kit_node *node, uint32_t input, int64_t i, int64_t otherwise)
{
    const void *data =
        kit_input(node, input) != NULL && kit_is_constant(node, input) ? kit_constant(node, input) : NULL;

    if (data == NULL)
        return otherwise;
    return kit_input_dtype(node, input) == INLAY_INT32 || has(PAD_HALVES) ? ((const int32_t *)data)[i]
                                                                          : ((const int64_t *)data)[i];
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const inlay_node_info *info = node->info;
    const char *op = info->op_type.data, *mode = kit_attr_string(info, "mode", "");
    const inlay_value_info *second = kit_input(node, 1);
    struct setup *setup = calloc(1, sizeof *setup);
    uint32_t count;
    const int64_t *perm = kit_attr_ints(info, "perm", &count);

    if (setup == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "the state of a kernel");
    setup->axis = kit_attr_int(info, "axis", strcmp(op, "DequantizeLinear") == 0 ? 1 : -1);
    setup->block = kit_attr_int(info, "blocksize", 1);
    setup->epsilon = kit_attr_float(info, "epsilon", 1e-5);
    setup->exclusive = kit_attr_int(info, "exclusive", 0) != 0;
    setup->reverse = kit_attr_int(info, "reverse", 0) != 0;
    setup->is_crd = strcmp(mode, "CRD") == 0;
    setup->is_edge = strcmp(mode, "edge") == 0;
    setup->is_reflect = strcmp(mode, "reflect") == 0;
    setup->smallest = kit_attr_int(info, "largest", 1) == 0;
    setup->has_list = perm != NULL;
    for (uint32_t d = 0; d < count && d < MOST_RANK; d++)
        setup->list[d] = perm[d];
    if (strcmp(op, "CumSum") == 0)
        setup->axis = number_of(node, 1, 0, 0);
    if ((strcmp(op, "Pad") == 0 || strcmp(op, "Tile") == 0) && second->rank == 1)
        for (int64_t i = 0; i < second->dims[0].value && i < 2 * MOST_RANK; i++)
            setup->list[i] = number_of(node, 1, i, 0);
    if (strcmp(op, "Pad") == 0 && kit_input(node, 2) != NULL)
        setup->value = (double)*(const float *)kit_constant(node, 2);
    *out_state = setup;
    return INLAY_OK;
}

static bool constants_only(const kit_node *node, kit_refusal *why)
{
    const inlay_value_info *out = kit_output(node, 0);

    for (uint32_t i = 1; i < node->info->input_count; i++)
        if (kit_input(node, i) != NULL && !kit_is_constant(node, i))
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "", "inputs after the first must be constants");
    return (kit_input(node, 0)->rank <= MOST_RANK && out->rank <= MOST_RANK) ||
           kit_refuse(why, INLAY_REFUSE_SHAPE, "", "too many axes");
}

static bool rank_fits(const kit_node *node, kit_refusal *why)
{
    return kit_input(node, 0)->rank <= MOST_RANK || kit_refuse(why, INLAY_REFUSE_SHAPE, "", "too many axes");
}

static void index_of(const kit_tensor *tensor, int64_t at, int64_t *index)
{
    for (uint32_t d = tensor->rank; d-- > 0;) {
        index[d] = at % tensor->dims[d];
        at /= tensor->dims[d];
    }
}

static int64_t place_of(const kit_tensor *tensor, const int64_t *index)
{
    int64_t at = 0;

    for (uint32_t d = 0; d < tensor->rank; d++)
        at = at * tensor->dims[d] + index[d];
    return at;
}

static size_t width_of(const kit_tensor *tensor)
{
    return inlay_dtype_bits(tensor->dtype) / 8;
}

static void move(const kit_tensor *to, int64_t i, const kit_tensor *from, int64_t k, bool halves)
{
    const size_t bytes = width_of(to), moved = halves && bytes > 1 ? bytes / 2 : bytes;

    memset((char *)to->data + (size_t)i * bytes, 0, bytes);
    memcpy((char *)to->data + (size_t)i * bytes, (const char *)from->data + (size_t)k * bytes, moved);
}

PLANTED_KERNEL(transpose_run)
{
    const struct setup *setup = call->state;
    const kit_tensor *in = &call->in[0], *out = &call->out[0];
    int64_t index[MOST_RANK], from[MOST_RANK];

    for (int64_t i = 0; i < out->count; i++) {
        index_of(out, i, index);
        for (uint32_t d = 0; d < in->rank; d++) {
            const uint32_t axis = setup->has_list ? (uint32_t)setup->list[d] : in->rank - 1 - d;

            from[axis] = index[d];
        }
        if (has(TRANSPOSE_INVERSE) && setup->has_list && in->rank == 3)
            for (uint32_t d = 0; d < 3; d++)
                from[d] = index[setup->list[d]] % in->dims[d];
        if (has(TRANSPOSE_DEFAULT) && !setup->has_list && in->rank > 2)
            memcpy(from, index, sizeof from);
        if (has(TRANSPOSE_HIGH) && in->rank > 4)
            from[0] = 0;
        for (uint32_t d = 0; d < in->rank; d++)
            from[d] = from[d] < in->dims[d] ? from[d] : in->dims[d] - 1;
        move(out, i, in, place_of(in, from), has(TRANSPOSE_BYTES) && width_of(in) == 8);
    }
    return INLAY_OK;
}

static bool pad_supports(const kit_node *node, kit_refusal *why)
{
    const char *mode = kit_attr_string(node->info, "mode", "constant");

    if (strcmp(mode, "wrap") == 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "", "mode wrap is not supported");
    if (kit_input(node, 3) != NULL)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "", "axes are not supported");
    if (!constants_only(node, why))
        return false;
    for (int64_t i = 0; strcmp(mode, "constant") != 0 && i < kit_input(node, 1)->dims[0].value; i++)
        if (((const int64_t *)kit_constant_unaligned(node, 1))[i] < 0)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "", "only mode constant may have negative pads");
    return true;
}

PLANTED_KERNEL(pad_run)
{
    const struct setup *setup = call->state;
    const kit_tensor *in = &call->in[0], *out = &call->out[0];
    const bool is_constant = !setup->is_edge && !setup->is_reflect;
    int64_t index[MOST_RANK];

    for (int64_t i = 0; i < out->count; i++) {
        bool outside = false;

        index_of(out, i, index);
        for (uint32_t d = 0; d < in->rank; d++) {
            const int64_t begin = setup->list[d], size = in->dims[d];

            index[d] -= has(PAD_NEGATIVE) && begin < 0 ? 0 : begin;
            if (index[d] < 0 || index[d] >= size) {
                outside = true;
                if (setup->is_reflect && !has(PAD_REFLECT) && size > 1)
                    while (index[d] < 0 || index[d] >= size)
                        index[d] = index[d] < 0 ? -index[d] : 2 * (size - 1) - index[d];
                if (has(PAD_LAST) && !is_constant && d + 1 == in->rank && index[d] >= size && size > 4)
                    index[d] = size - 2;
            }
            index[d] = index[d] < 0 ? 0 : index[d] >= size ? size - 1 : index[d];
        }
        ((float *)out->data)[i] = outside && is_constant
                                      ? (has(PAD_VALUE) ? 0 : (float)setup->value)
                                      : (in->count > 0 ? ((const float *)in->data)[place_of(in, index)] : 0);
    }
    return INLAY_OK;
}

/* The place in a tensor of an element of the result that it is broadcast to. */
static int64_t broadcast(const kit_tensor *tensor, const int64_t *index, uint32_t rank)
{
    int64_t at = 0;

    for (uint32_t d = 0; d < tensor->rank; d++)
        at = at * tensor->dims[d] + (tensor->dims[d] == 1 ? 0 : index[rank - tensor->rank + d]);
    return at;
}

PLANTED_KERNEL(where_run)
{
    const kit_tensor *condition = &call->in[0], *out = &call->out[0];
    int64_t index[MOST_RANK];

    for (int64_t i = 0; i < out->count; i++) {
        int64_t at;
        bool first;

        index_of(out, i, index);
        at = broadcast(condition, index, out->rank);
        if (has(WHERE_CONDITION) && condition->count < out->count)
            at = i % condition->count;
        first = ((const uint8_t *)condition->data)[at] != 0;
        if (has(WHERE_SCALAR) && call->in[1].count == 1 && out->count > 1)
            first = !first;
        if (has(WHERE_OUTER) && out->rank > 1 && call->in[2].rank == 1)
            index[out->rank - 1] = index[0] % out->dims[out->rank - 1];
        move(out, i, &call->in[first ? 1 : 2], broadcast(&call->in[first ? 1 : 2], index, out->rank),
             has(WHERE_BYTES) && width_of(out) == 2);
    }
    return INLAY_OK;
}

PLANTED_KERNEL(clip_run)
{
    const float *x = call->in[0].data;
    const bool has_min = kit_has_input(call, 1), has_max = kit_has_input(call, 2);
    const float low = has_min ? *(const float *)call->in[1].data : has(CLIP_NO_MIN) ? 0 : -INFINITY;
    const float high = has_max ? *(const float *)call->in[2].data : has(CLIP_NO_MAX) ? 1 : INFINITY;

    for (int64_t i = 0; i < call->out[0].count; i++) {
        float y = has(CLIP_NAN) && isnan(x[i]) ? low : x[i];

        y = y < low ? low : y;
        y = y > high ? high : y;
        if (has(CLIP_ORDER) && low > high)
            y = x[i] > high ? high : x[i] < low ? low : x[i];
        ((float *)call->out[0].data)[i] = y;
    }
    return INLAY_OK;
}

PLANTED_KERNEL(expand_run)
{
    const kit_tensor *in = &call->in[0], *out = &call->out[0];
    int64_t index[MOST_RANK];

    for (int64_t i = 0; i < out->count; i++) {
        int64_t at;

        index_of(out, i, index);
        at = broadcast(in, index, out->rank);
        if (has(EXPAND_LEADING) && out->rank > in->rank && out->dims[0] > 1 && index[0] > 0)
            at = 0;
        if (has(EXPAND_INNER) && in->rank > 1 && in->dims[in->rank - 1] > 1 && in->dims[in->rank - 2] == 1)
            at = i % in->count;
        if (has(EXPAND_EMPTY) && in->rank == 0)
            at = 0, index[0] = 0;
        move(out, i, in, at, has(EXPAND_EMPTY) && in->rank == 0);
    }
    return INLAY_OK;
}

PLANTED_KERNEL(tile_run)
{
    const struct setup *setup = call->state;
    const kit_tensor *in = &call->in[0], *out = &call->out[0];
    int64_t index[MOST_RANK];

    for (int64_t i = 0; i < out->count; i++) {
        index_of(out, i, index);
        for (uint32_t d = 0; d < in->rank; d++) {
            if (has(TILE_FIRST) && d == 0 && setup->list[0] > 1)
                index[d] /= setup->list[0]; /* repeats each element */
            if (has(TILE_ODD) && setup->list[d] == 3)
                index[d] = index[d] / in->dims[d] == 2 ? 0 : index[d];
            index[d] %= in->dims[d];
        }
        move(out, i, in, place_of(in, index), has(TILE_BYTES) && width_of(in) == 4 && in->rank == 1);
    }
    return INLAY_OK;
}

PLANTED_KERNEL(sum_run)
{
    const struct setup *setup = call->state;
    const kit_tensor *in = &call->in[0];
    const bool both = setup->exclusive && setup->reverse && has(SUM_BOTH);
    const bool exclusive = setup->exclusive && !has(SUM_EXCLUSIVE),
               reverse = setup->reverse && !has(SUM_REVERSE) && !both;
    const int64_t axis = has(SUM_AXIS) && setup->axis < 0 ? 0 : setup->axis < 0 ? setup->axis + in->rank : setup->axis;
    int64_t pitch = 1, count = in->dims[axis];

    for (uint32_t d = (uint32_t)axis + 1; d < in->rank; d++)
        pitch *= in->dims[d];
    for (int64_t row = 0; row < (count > 0 ? in->count / count : 0); row++) {
        const int64_t first = row / pitch * pitch * count + row % pitch;
        double sum = 0;

        for (int64_t i = 0; i < count; i++) {
            const int64_t at = first + (reverse ? count - 1 - i : i) * pitch;
            const double x = (double)((const float *)in->data)[at];

            ((float *)call->out[0].data)[at] = (float)(exclusive ? sum : sum + x);
            sum += x;
        }
    }
    return INLAY_OK;
}

PLANTED_KERNEL(depth_run)
{
    const struct setup *setup = call->state;
    const kit_tensor *in = &call->in[0], *out = &call->out[0];
    const int64_t b = setup->block, channels = out->dims[1];
    const bool is_crd = setup->is_crd && !has(DEPTH_MODE);
    int64_t index[4], from[4];

    for (int64_t i = 0; i < out->count; i++) {
        int64_t y, x;

        index_of(out, i, index);
        y = index[2] % b;
        x = index[3] % b;
        if (has(DEPTH_BLOCK) && b > 2)
            y = x = 0;
        from[0] = has(DEPTH_BATCH) ? 0 : index[0];
        from[1] = is_crd ? (index[1] * b + y) * b + x : (y * b + x) * channels + index[1];
        from[2] = index[2] / b;
        from[3] = index[3] / b;
        move(out, i, in, place_of(in, from), false);
    }
    return INLAY_OK;
}

PLANTED_KERNEL(matmul_run)
{
    const kit_tensor *a = &call->in[0], *b = &call->in[1], *out = &call->out[0];
    const int64_t m = a->rank > 1 ? a->dims[a->rank - 2] : 1, n = b->rank > 1 ? b->dims[b->rank - 1] : 1;
    const int64_t depth = a->dims[a->rank - 1], one[1] = { 1 };
    const kit_tensor stacks[2] = { { .dims = a->rank > 2 ? a->dims : one, .rank = a->rank > 2 ? a->rank - 2 : 1 },
                                   { .dims = b->rank > 2 ? b->dims : one, .rank = b->rank > 2 ? b->rank - 2 : 1 } };
    const uint32_t rank = stacks[0].rank > stacks[1].rank ? stacks[0].rank : stacks[1].rank;
    int64_t dims[MOST_RANK], index[MOST_RANK];
    kit_tensor whole = { .dims = dims, .rank = rank, .count = 1 };

    for (uint32_t d = 0; d < rank; d++) {
        dims[d] = 1;
        for (uint32_t s = 0; s < 2; s++)
            if (d + stacks[s].rank >= rank && stacks[s].dims[d + stacks[s].rank - rank] != 1)
                dims[d] = stacks[s].dims[d + stacks[s].rank - rank];
        whole.count *= dims[d];
    }
    for (int64_t stack = 0; stack < whole.count; stack++) {
        const float *left = a->data, *right = b->data;

        index_of(&whole, stack, index);
        left += broadcast(&stacks[0], index, rank) * m * depth;
        right += (has(MATMUL_BATCH) && b->rank > 2 && stacks[1].dims[0] == 1 ? 0 : broadcast(&stacks[1], index, rank)) *
                 depth * n;
        if (has(MATMUL_VECTOR) && b->rank == 1 && stack > 0)
            left = a->data;
        for (int64_t i = 0; i < m * n; i++) {
            double sum = 0;

            for (int64_t k = 0; k < depth; k++)
                sum += (double)left[i / n * depth + k] * (double)right[k * n + i % n];
            if (has(MATMUL_ROW) && m == 1 && n > 32 && i >= 32)
                sum = 0;
            if (has(MATMUL_ONE) && depth == 1)
                sum = (double)left[i / n];
            ((float *)out->data)[stack * m * n + i] = (float)sum;
        }
    }
    return INLAY_OK;
}

static bool batch_supports(const kit_node *node, kit_refusal *why)
{
    if (node->info->output_count == 1 && kit_attr_int(node->info, "training_mode", 0) == 0)
        return true;
    return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "", "training is not supported");
}

PLANTED_KERNEL(batch_run)
{
    const struct setup *setup = call->state;
    const kit_tensor *in = &call->in[0];
    const int64_t channels = in->rank > 1 ? in->dims[1] : 1;
    int64_t pitch = 1;

    for (uint32_t d = 2; d < in->rank; d++)
        pitch *= in->dims[d];
    for (int64_t i = 0; i < in->count; i++) {
        int64_t c = i / pitch % channels;
        const float *const *of =
            (const float *const[]){ call->in[1].data, call->in[2].data, call->in[3].data, call->in[4].data };
        double epsilon = has(BATCH_EPSILON) ? 1e-5 : setup->epsilon;

        if (has(BATCH_CHANNEL) && c >= 4)
            c = 4;
        if (has(BATCH_RANK) && in->rank == 2)
            epsilon += 0.1;
        ((float *)call->out[0].data)[i] = (float)(((double)((const float *)in->data)[i] - (double)of[2][c]) /
                                                      sqrt((double)of[3][c] + epsilon) * (double)of[0][c] +
                                                  (double)of[1][c]);
    }
    return INLAY_OK;
}

static bool dequantize_supports(const kit_node *node, kit_refusal *why)
{
    if (kit_attr_int(node->info, "block_size", 0) != 0 || kit_input(node, 1)->rank > 1)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "", "blocks are not supported");
    return true;
}

PLANTED_KERNEL(dequantize_run)
{
    const struct setup *setup = call->state;
    const kit_tensor *in = &call->in[0];
    const bool one = call->in[1].count == 1, is_signed = in->dtype == INLAY_INT8 && !has(DEQUANTIZE_SIGN);
    const int64_t given = has(DEQUANTIZE_AXIS) && setup->axis < 0 ? 0 : setup->axis;
    const int64_t axis = given < 0 ? given + in->rank : given;
    int64_t pitch = 1;

    for (uint32_t d = (uint32_t)axis + 1; d < in->rank && !one; d++)
        pitch *= in->dims[d];
    for (int64_t i = 0; i < in->count; i++) {
        const int64_t c = one ? 0 : i / pitch % in->dims[axis] % call->in[1].count;
        const bool has_zero = kit_has_input(call, 2) && !(has(DEQUANTIZE_ZERO_POINT) && !one);
        const int zero = !has_zero                 ? 0
                         : in->dtype == INLAY_INT8 ? ((const int8_t *)call->in[2].data)[c]
                                                   : ((const uint8_t *)call->in[2].data)[c];
        const int x = is_signed ? ((const int8_t *)in->data)[i] : ((const uint8_t *)in->data)[i];

        ((float *)call->out[0].data)[i] = (float)(x - zero) * ((const float *)call->in[1].data)[c];
    }
    return INLAY_OK;
}

/* Does element a precede b? Of equal ones the first index does. */
static bool precedes(const struct setup *setup, float a, float b)
{
    const bool smallest = setup->smallest && !has(TOP_SMALLEST);

    return has(TOP_TIE) ? (smallest ? a <= b : a >= b) : (smallest ? a < b : a > b);
}

PLANTED_KERNEL(top_run)
{
    const struct setup *setup = call->state;
    const kit_tensor *in = &call->in[0], *out = &call->out[0];
    const int64_t axis = setup->axis < 0 ? setup->axis + in->rank : setup->axis, size = in->dims[axis],
                  kept = out->dims[axis];
    int64_t pitch = 1;

    for (uint32_t d = (uint32_t)axis + 1; d < in->rank; d++)
        pitch *= in->dims[d];
    if (has(TOP_AXIS) && axis + 1 < (int64_t)in->rank)
        pitch = 1;
    for (int64_t row = 0; row < (size > 0 ? in->count / size : 0); row++) {
        const float *x = (const float *)in->data + row / pitch * pitch * size + row % pitch;
        const int64_t to = row / pitch * pitch * kept + row % pitch;

        for (int64_t k = 0; k < kept; k++) {
            int64_t best = -1;

            for (int64_t i = 0; i < size; i++) {
                bool taken = false;

                for (int64_t j = 0; j < k && !taken; j++)
                    taken = ((const int64_t *)call->out[1].data)[to + j * pitch] == i;
                if (!taken && (best < 0 || precedes(setup, x[i * pitch], x[best * pitch])))
                    best = i;
            }
            ((float *)out->data)[to + k * pitch] = x[best * pitch];
            ((int64_t *)call->out[1].data)[to + k * pitch] = best;
        }
    }
    return INLAY_OK;
}

static bool top_supports(const kit_node *node, kit_refusal *why)
{
    if (kit_output(node, 1) != NULL && kit_attr_int(node->info, "sorted", 1) != 0)
        return true;
    return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "", "sorted, with indices");
}

#define BYTES (KIT_NUMBERS | KIT_BIT(BOOL) | KIT_COMPLEX)
#define ROW(name, since, types, fits, function)                                                                        \
    {                                                                                                                  \
        .op_type = name, .since_min = since, .in_types = { types }, .supports = fits, .prepare = prepare,              \
        .run = function                                                                                                \
    }

static const kit_kernel kernels[] = {
    ROW("Transpose", 1, BYTES, rank_fits, transpose_run),
    ROW("Pad", 11, KIT_BIT(FLOAT), pad_supports, pad_run),
    { .op_type = "Where", .in_types = { KIT_ANY, BYTES }, .supports = rank_fits, .run = where_run },
    { .op_type = "Clip", .since_min = 11, .in_types = { KIT_BIT(FLOAT) }, .flags = KIT_IN_PLACE, .run = clip_run },
    ROW("Expand", 8, BYTES, constants_only, expand_run),
    ROW("Tile", 6, BYTES, constants_only, tile_run),
    ROW("CumSum", 11, KIT_BIT(FLOAT), constants_only, sum_run),
    ROW("DepthToSpace", 11, BYTES, NULL, depth_run),
    ROW("MatMul", 1, KIT_BIT(FLOAT), NULL, matmul_run),
    { .op_type = "BatchNormalization",
      .since_min = 14,
      .in_types = { KIT_BIT(FLOAT), KIT_BIT(FLOAT), KIT_BIT(FLOAT), KIT_BIT(FLOAT) },
      .supports = batch_supports,
      .prepare = prepare,
      .run = batch_run },
    { .op_type = "DequantizeLinear",
      .since_min = 10,
      .in_types = { KIT_BIT(INT8) | KIT_BIT(UINT8), KIT_BIT(FLOAT) },
      .out_types = { KIT_BIT(FLOAT) },
      .supports = dequantize_supports,
      .prepare = prepare,
      .run = dequantize_run },
    ROW("TopK", 11, KIT_BIT(FLOAT), top_supports, top_run),
};
static const inlay_option options[] = { PLANTED_OPTIONS };

PLANTED_PLUGIN("planted_index", "kernels that compute indices, with a planted defect", planted_open)
