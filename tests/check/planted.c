/* Correct kernels of Conv, MaxPool, AveragePool, Gemm, Slice, Resize and QuantizeLinear, in which option `fault` plants
 * one of the defects that kernels of a part of an operator have: an attribute, an input, a shape or a value that they
 * do not regard. Without a fault nothing is wrong. Option `narrow` restricts Conv to kernels of size 1. */
#include "planted.h"

static int64_t is_narrow;

enum fault {
    NONE,
    /* Conv */
    CONV_STRIDES,
    CONV_PADS,
    CONV_GROUP,
    CONV_BIAS,
    CONV_BATCH,
    CONV_DILATION,
    CONV_NAN,
    CONV_LAST_CHANNEL,
    CONV_PAD_ENDS,
    CONV_EDGE,
    CONV_THREADS,
    CONV_WEIGHTS,
    CONV_SMALL_IMAGE,
    CONV_PAD_PAIRS,
    CONV_MULTIPLIER,
    CONV_TALL,
    CONV_POINT_GROUP,
    /* MaxPool, AveragePool */
    POOL_STRIDES,
    POOL_PADS,
    POOL_CEIL,
    POOL_INCLUDE,
    POOL_AREA,
    POOL_ZERO,
    POOL_DILATION,
    POOL_CHANNELS,
    POOL_SQUARE,
    POOL_INFINITY,
    POOL_FLAT,
    POOL_LARGE,
    /* Gemm */
    GEMM_ALPHA,
    GEMM_BETA,
    GEMM_TRANS_A,
    GEMM_TRANS_B,
    GEMM_SCALAR,
    GEMM_COLUMN,
    GEMM_DEEP,
    GEMM_ROW,
    GEMM_TAIL,
    GEMM_ALPHA_C,
    GEMM_EMPTY,
    GEMM_VECTOR,
    GEMM_SUM,
    /* Slice */
    SLICE_BACKWARDS,
    SLICE_AXES,
    SLICE_NEGATIVE_AXIS,
    SLICE_STEP,
    SLICE_RANK,
    SLICE_START,
    SLICE_FAR,
    SLICE_BYTES,
    /* Resize */
    RESIZE_COORDINATES,
    RESIZE_NEAREST,
    RESIZE_WIDTH,
    RESIZE_SIZES,
    RESIZE_LEADING,
    RESIZE_CEIL,
    RESIZE_DOWN,
    RESIZE_CORNER,
    /* QuantizeLinear */
    QUANTIZE_TIES,
    QUANTIZE_ZERO_POINT,
    FAULTS
};

static int64_t list_at(const inlay_node_info *node, const char *name, uint32_t i, int64_t otherwise)
{
    uint32_t count;
    const int64_t *list = kit_attr_ints(node, name, &count);

    return i < count ? list[i] : otherwise;
}

static bool has_no_auto_pad(const kit_node *node, kit_refusal *why)
{
    if (strcmp(kit_attr_string(node->info, "auto_pad", "NOTSET"), "NOTSET") == 0)
        return true;
    return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "state the pads", "auto_pad is not supported");
}

static bool has_rank(const kit_node *node, uint32_t rank, kit_refusal *why)
{
    if (kit_input(node, 0)->rank == rank)
        return true;
    return kit_refuse(why, INLAY_REFUSE_SHAPE, "", "input 0 must have rank %u", rank);
}

struct window {
    int64_t kernel[2], strides[2], pads[4], dilations[2], group;
    bool include, is_ceil;
};

static inlay_status window_prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    struct window *window = calloc(1, sizeof *window);

    if (window == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "a window");
    for (uint32_t i = 0; i < 2; i++) {
        window->kernel[i] = list_at(node->info, "kernel_shape", i, 0);
        window->strides[i] = list_at(node->info, "strides", i, 1);
        window->dilations[i] = list_at(node->info, "dilations", i, 1);
        window->pads[i] = list_at(node->info, "pads", i, 0);
        window->pads[2 + i] = list_at(node->info, "pads", 2 + i, 0);
    }
    window->group = kit_attr_int(node->info, "group", 1);
    window->include = kit_attr_int(node->info, "count_include_pad", 0) != 0;
    window->is_ceil = kit_attr_int(node->info, "ceil_mode", 0) != 0;
    if (has(CONV_STRIDES))
        window->strides[1] = window->strides[0];
    if (has(CONV_PAD_PAIRS)) { /* begin and end of each axis, as other formats order them */
        window->pads[1] = list_at(node->info, "pads", 2, 0);
        window->pads[2] = list_at(node->info, "pads", 1, 0);
    }
    if (has(CONV_PADS))
        window->pads[0] = window->pads[1] = 0;
    if (has(CONV_DILATION))
        window->dilations[1] = window->dilations[0];
    if (has(POOL_STRIDES))
        window->strides[0] = window->strides[1];
    if (has(POOL_PADS))
        window->pads[1] = window->pads[0];
    if (has(POOL_DILATION))
        window->dilations[0] = window->dilations[1] = 1;
    if (has(POOL_INCLUDE))
        window->include = false;
    *out_state = window;
    return INLAY_OK;
}

static bool conv_supports(const kit_node *node, kit_refusal *why)
{
    const inlay_value_info *w = kit_input(node, 1);

    if (!has_rank(node, 4, why) || !has_no_auto_pad(node, why))
        return false;
    if (is_narrow && (w->rank != 4 || w->dims[2].value != 1 || w->dims[3].value != 1))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "", "kernels larger than 1x1 are not supported");
    return true;
}

/* Element [n, c, y, x] of the padded input. */
static float conv_input(const kit_tensor *in, int64_t n, int64_t c, int64_t y, int64_t x)
{
    const int64_t height = in->dims[2], width = in->dims[3];
    float value;

    if (has(CONV_EDGE) && y == -1)
        y = 0;
    if (y < 0 || x < 0 || y >= height || x >= width)
        return 0;
    value = ((const float *)in->data)[((n * in->dims[1] + c) * height + y) * width + x];
    return has(CONV_NAN) && isnan(value) ? 0 : value;
}

struct conv_loop {
    const kit_call *call;
    const float *weights;
};

static inlay_status conv_planes(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct conv_loop *loop = user;
    const kit_call *call = loop->call;
    const struct window *window = call->state;
    const kit_tensor *in = &call->in[0], *w = &call->in[1], *out = &call->out[0];
    const int64_t filters = out->dims[1], height = out->dims[2], width = out->dims[3];
    const int64_t depth = w->dims[1], kernel[] = { w->dims[2], w->dims[3] };

    (void)worker;
    for (int64_t plane = begin; plane < end; plane++) {
        const int64_t n = has(CONV_BATCH) ? 0 : plane / filters, m = plane % filters;
        const bool wraps = has(CONV_MULTIPLIER) && depth == 1 && filters > window->group;
        const bool is_point = kernel[0] * kernel[1] == 1 && has(CONV_POINT_GROUP);
        const int64_t first = has(CONV_GROUP) || is_point ? 0
                              : wraps                     ? m % window->group
                                                          : m / (filters / window->group) * depth;
        const bool skips = has(CONV_BIAS) || (has(CONV_LAST_CHANNEL) && m >= 8 && m == filters - 1);
        const float bias = kit_has_input(call, 2) && !skips ? ((const float *)call->in[2].data)[m] : 0;
        float *y = (float *)out->data + plane * height * width;

        for (int64_t at = 0; at < height * width; at++) {
            double sum = (double)bias;

            for (int64_t k = 0; k < depth * kernel[0] * kernel[1]; k++) {
                const int64_t c = k / (kernel[0] * kernel[1]), i = k / kernel[1] % kernel[0], j = k % kernel[1];
                const int64_t row = at / width * window->strides[0] + i * window->dilations[0] - window->pads[0];
                const int64_t column = at % width * window->strides[1] + j * window->dilations[1] - window->pads[1];

                if (has(CONV_PAD_ENDS) && column >= in->dims[3] && window->pads[3] != window->pads[1])
                    continue;
                if (has(CONV_TALL) && i >= 4)
                    continue;
                if (has(CONV_SMALL_IMAGE) && in->dims[2] < kernel[0] && i > 0)
                    continue;
                sum += (double)conv_input(in, n, first + c, row, column) *
                       (double)loop->weights[m * depth * kernel[0] * kernel[1] + k];
            }
            y[at] = (float)sum;
            if (has(CONV_PAD_ENDS) && at % width == width - 1 && window->pads[3] > window->pads[1])
                y[at] = bias;
        }
        if (has(CONV_THREADS) && call->max_threads == 3 && plane == out->dims[0] * filters - 1)
            y[0] = 0;
    }
    return INLAY_OK;
}

PLANTED_KERNEL(conv_run)
{
    static float kept[4];
    struct conv_loop loop = { call, call->in[1].data };

    if (has(CONV_WEIGHTS) && call->in[1].count <= 4) { /* those of the first run */
        if (kept[0] == 0)
            memcpy(kept, loop.weights, (size_t)call->in[1].count * sizeof *kept);
        loop.weights = kept;
    }
    return kit_parallel(call, call->out[0].dims[0] * call->out[0].dims[1], 1, conv_planes, &loop);
}

static bool pool_supports(const kit_node *node, kit_refusal *why)
{
    if (!has_rank(node, 4, why) || !has_no_auto_pad(node, why))
        return false;
    if (node->info->output_count > 1)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "", "indices are not supported");
    for (uint32_t i = 0; i < 4; i++)
        if (list_at(node->info, "pads", i, 0) >= list_at(node->info, "kernel_shape", i % 2, 0))
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "", "pads must be smaller than the kernel");
    return true;
}

static void pool_plane(const kit_call *call, const float *x, float *y, bool is_max)
{
    const struct window *window = call->state;
    const int64_t height = call->in[0].dims[2], width = call->in[0].dims[3];
    const int64_t rows = call->out[0].dims[2], columns = call->out[0].dims[3];

    for (int64_t at = 0; at < rows * columns; at++) {
        const bool is_flat = has(POOL_FLAT) && rows == 1;
        const int64_t top = at / columns * window->strides[0] - (is_flat ? 0 : window->pads[0]);
        const int64_t left = at % columns * window->strides[1] - window->pads[1];
        float largest = has(POOL_ZERO) ? 0 : has(POOL_INFINITY) ? -FLT_MAX : -INFINITY;
        double sum = 0;
        int64_t count = 0, area = 0;

        for (int64_t k = 0; k < window->kernel[0] * window->kernel[1]; k++) {
            const int64_t row = top + k / window->kernel[1] * window->dilations[0];
            const int64_t column = left + k % window->kernel[1] * window->dilations[1];
            const float *value = x + row * width + column;

            area += row < height + window->pads[2] && column < width + window->pads[3];
            if (row < 0 || column < 0 || row >= height || column >= width)
                continue;
            if (has(POOL_CEIL) && window->is_ceil && row == height - 1 && k > 0)
                continue;
            if (has(POOL_LARGE) && k >= 16)
                continue;
            if (has(POOL_SQUARE) && k / window->kernel[1] >= window->kernel[1])
                continue;
            largest = *value > largest || isnan(*value) ? *value : largest;
            sum += (double)*value;
            count++;
        }
        if (window->include || has(POOL_AREA))
            count = area;
        y[at] = is_max ? largest : (float)(sum / (double)count);
    }
}

static inlay_status pool(const kit_call *call, bool is_max)
{
    const int64_t planes = call->in[0].dims[0] * call->in[0].dims[1];
    const int64_t from = call->in[0].dims[2] * call->in[0].dims[3], to = call->out[0].dims[2] * call->out[0].dims[3];

    for (int64_t plane = 0; plane < planes; plane++)
        pool_plane(call,
                   (const float *)call->in[0].data +
                       (has(POOL_CHANNELS) && plane % call->in[0].dims[1] >= 16 ? plane - 16 : plane) * from,
                   (float *)call->out[0].data + plane * to, is_max);
    return INLAY_OK;
}

PLANTED_KERNEL(max_run)
{
    return pool(call, true);
}

PLANTED_KERNEL(average_run)
{
    return pool(call, false);
}

struct gemm {
    double alpha, beta;
    bool trans_a, trans_b;
};

static inlay_status gemm_prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    struct gemm *gemm = malloc(sizeof *gemm);

    if (gemm == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "Gemm");
    *gemm = (struct gemm){ .alpha = has(GEMM_ALPHA) ? 1 : kit_attr_float(node->info, "alpha", 1),
                           .beta = has(GEMM_BETA) ? 1 : kit_attr_float(node->info, "beta", 1),
                           .trans_a = kit_attr_int(node->info, "transA", 0) != 0,
                           .trans_b = kit_attr_int(node->info, "transB", 0) != 0 };
    *out_state = gemm;
    return INLAY_OK;
}

/* Element [i, j] of C, which is broadcast to m x n. */
static double gemm_term(const kit_call *call, int64_t i, int64_t j)
{
    const kit_tensor *c = &call->in[2];
    const int64_t columns = c->rank > 0 ? c->dims[c->rank - 1] : 1, rows = c->rank > 1 ? c->dims[0] : 1;

    if (has(GEMM_SCALAR) && c->count == 1)
        return 0;
    if (has(GEMM_COLUMN) && rows > 1 && columns == 1)
        i = 0;
    if (has(GEMM_VECTOR) && c->rank == 1 && columns == call->out[0].dims[0])
        j = i;
    return (double)((const float *)c->data)[(rows > 1 ? i * columns : 0) + (columns > 1 ? j : 0)];
}

PLANTED_KERNEL(gemm_run)
{
    const struct gemm *gemm = call->state;
    const int64_t m = call->out[0].dims[0], n = call->out[0].dims[1];
    const bool square = m == n;
    const bool trans_a = gemm->trans_a && !(has(GEMM_TRANS_A) && square);
    const bool trans_b = gemm->trans_b && !(has(GEMM_TRANS_B) && call->in[1].dims[0] == call->in[1].dims[1]);
    const int64_t depth = call->in[0].dims[gemm->trans_a ? 0 : 1];
    const float *a = call->in[0].data, *b = call->in[1].data;

    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            const bool ignores_c = has(GEMM_ROW) && m == 1;
            double sum = 0;

            for (int64_t k = 0; k < depth && !(has(GEMM_DEEP) && k >= 32); k++)
                if (!(has(GEMM_TAIL) && n > 16 && n % 4 == 1 && j == n - 1))
                    sum += (double)a[trans_a && k * m + i < call->in[0].count ? k * m + i : i * depth + k] *
                           (double)b[trans_b ? j * depth + k : k * n + j];
            if (has(GEMM_ALPHA_C) && kit_has_input(call, 2))
                sum += gemm->beta * gemm_term(call, i, j);
            sum *= gemm->alpha;
            if (kit_has_input(call, 2) && !ignores_c && !has(GEMM_ALPHA_C))
                sum += gemm->beta * gemm_term(call, i, j);
            if (has(GEMM_EMPTY) && depth == 0)
                continue;
            if (has(GEMM_SUM)) /* saturates, as halves do */
                sum = fmin(65504, fmax(-65504, sum));
            ((float *)call->out[0].data)[i * n + j] = (float)sum;
        }
    return INLAY_OK;
}

struct slice {
    int64_t start[MOST_RANK], step[MOST_RANK];
};

static bool slice_supports(const kit_node *node, kit_refusal *why)
{
    for (uint32_t i = 1; i < node->info->input_count; i++)
        if (kit_input(node, i) != NULL && !kit_is_constant(node, i))
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "", "starts, ends, axes and steps must be constants");
    return true;
}

static int64_t number_at(const kit_node *node, uint32_t input, int64_t i, int64_t otherwise)
{
    const void *data = kit_input(node, input) != NULL ? kit_constant(node, input) : NULL;

    if (data == NULL)
        return otherwise;
    return kit_input_dtype(node, input) == INLAY_INT32 ? ((const int32_t *)data)[i] : ((const int64_t *)data)[i];
}

static inlay_status slice_prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const inlay_value_info *x = kit_input(node, 0), *starts = kit_input(node, 1);
    struct slice *slice = calloc(1, sizeof *slice);

    if (slice == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "Slice");
    for (uint32_t d = 0; d < MOST_RANK; d++)
        slice->step[d] = 1;
    for (int64_t i = 0; i < (int64_t)(starts->rank > 0 ? starts->dims[0].value : 0); i++) {
        int64_t axis = has(SLICE_AXES) ? i : number_at(node, 3, i, i), step = number_at(node, 4, i, 1);
        int64_t start = number_at(node, 1, i, 0), dim, last;

        if (axis < 0)
            axis += has(SLICE_NEGATIVE_AXIS) ? x->rank - 1 : x->rank;
        axis = axis < 0 ? 0 : axis;
        dim = x->dims[axis].value;
        start += start < 0 ? dim : 0;
        last = step < 0 ? dim - 1 : dim;
        start = start < 0 ? 0 : start > last ? last : start;
        if (has(SLICE_START) && step < 0 && start == dim - 1 && dim > 1)
            start--;
        if (has(SLICE_BACKWARDS) && step < 0)
            start = 0, step = -step;
        if (has(SLICE_FAR) && step < -2)
            step = -2;
        if (has(SLICE_STEP) && step > 2)
            step = 2;
        slice->start[axis] = start;
        slice->step[axis] = step;
    }
    *out_state = slice;
    return INLAY_OK;
}

PLANTED_KERNEL(slice_run)
{
    const struct slice *slice = call->state;
    const kit_tensor *in = &call->in[0], *out = &call->out[0];
    const size_t bytes = inlay_dtype_bits(in->dtype) / 8;

    for (int64_t at = 0; at < out->count; at++) {
        int64_t from = 0, rest = at, pitch = 1;

        for (uint32_t d = in->rank; d-- > 0;) {
            int64_t index = rest % out->dims[d];

            rest /= out->dims[d];
            if (has(SLICE_RANK) && in->rank > 4 && d == 0)
                index = 0;
            index =
                slice->start[d] + index * (has(SLICE_BYTES) && bytes == 1 && d + 1 == in->rank ? 1 : slice->step[d]);
            from += (index < 0 ? 0 : index >= in->dims[d] ? in->dims[d] - 1 : index) * pitch;
            pitch *= in->dims[d];
        }
        memcpy((char *)out->data + (size_t)at * bytes, (const char *)in->data + (size_t)from * bytes, bytes);
    }
    return INLAY_OK;
}

enum { HALF_PIXEL, ASYMMETRIC, ALIGN_CORNERS };
enum { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL };

struct resize {
    uint32_t coordinates, nearest, rank;
    double scales[MOST_RANK]; /* 0: out/in */
};

static bool is_word(const inlay_node_info *node, const char *name, const char *otherwise, const char *word)
{
    return strcmp(kit_attr_string(node, name, otherwise), word) == 0;
}

static bool resize_supports(const kit_node *node, kit_refusal *why)
{
    static const char *const coordinates[] = { "half_pixel", "asymmetric", "align_corners" };
    bool known = false;

    for (uint32_t i = 0; i < 3; i++)
        known = known || is_word(node->info, "coordinate_transformation_mode", "half_pixel", coordinates[i]);
    if (!known || !is_word(node->info, "mode", "nearest", "nearest"))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "", "only nearest is supported");
    if (kit_attr(node->info, "axes") != NULL || !is_word(node->info, "keep_aspect_ratio_policy", "stretch", "stretch"))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "", "axes and policies are not supported");
    for (uint32_t i = 2; i < node->info->input_count; i++)
        if (kit_input(node, i) != NULL && !kit_is_constant(node, i))
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "", "scales and sizes must be constants");
    return true;
}

static inlay_status resize_prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    static const char *const coordinates[] = { "half_pixel", "asymmetric", "align_corners" };
    static const char *const nearest[] = { "round_prefer_floor", "round_prefer_ceil", "floor", "ceil" };
    struct resize *resize = calloc(1, sizeof *resize);
    const inlay_value_info *scales = kit_input(node, 2);

    if (resize == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "Resize");
    for (uint32_t i = 0; i < 3; i++)
        if (is_word(node->info, "coordinate_transformation_mode", "half_pixel", coordinates[i]))
            resize->coordinates = i;
    for (uint32_t i = 0; i < 4; i++)
        if (is_word(node->info, "nearest_mode", "round_prefer_floor", nearest[i]))
            resize->nearest = i;
    if (scales != NULL && scales->rank == 1 && scales->dims[0].value <= MOST_RANK && scales->data_bytes > 0)
        for (int64_t d = 0; d < scales->dims[0].value; d++)
            resize->scales[d] = (double)((const float *)kit_constant(node, 2))[d];
    if (has(RESIZE_COORDINATES) && resize->coordinates == ALIGN_CORNERS)
        resize->coordinates = HALF_PIXEL;
    if (has(RESIZE_NEAREST) && resize->nearest == PREFER_CEIL)
        resize->nearest = PREFER_FLOOR;
    *out_state = resize;
    return INLAY_OK;
}

static int64_t resize_index(const struct resize *resize, double scale, int64_t index, int64_t from, int64_t to)
{
    double x;
    int64_t found;

    if (scale == 0)
        scale = (double)to / (double)from;
    if (scale == 1 && to == from)
        return index;
    x = resize->coordinates == ASYMMETRIC ? (double)index / scale : ((double)index + 0.5) / scale - 0.5;
    if (resize->coordinates == ALIGN_CORNERS)
        x = to == 1 ? 0 : (double)index * (double)(from - 1) / (double)(to - 1);
    if (has(RESIZE_CORNER) && to == 1 && resize->coordinates == ALIGN_CORNERS)
        x = (double)(from - 1) / 2;
    found = (int64_t)(has(RESIZE_CEIL) && resize->nearest == CEIL                        ? floor(x) + 1
                      : has(RESIZE_DOWN) && resize->nearest == PREFER_FLOOR && to < from ? floor(x + 0.5)
                      : resize->nearest == PREFER_FLOOR                                  ? ceil(x - 0.5)
                      : resize->nearest == PREFER_CEIL                                   ? floor(x + 0.5)
                      : resize->nearest == FLOOR                                         ? floor(x)
                                                                                         : ceil(x));
    return found < 0 ? 0 : found >= from ? from - 1 : found;
}

PLANTED_KERNEL(resize_run)
{
    const struct resize *resize = call->state;
    const kit_tensor *in = &call->in[0], *out = &call->out[0];

    for (int64_t at = 0; at < out->count; at++) {
        int64_t from = 0, rest = at, pitch = 1;

        for (uint32_t d = in->rank; d-- > 0;) {
            const uint32_t like = has(RESIZE_WIDTH) && d == in->rank - 1 && d > 0 ? d - 1 : d;
            double scale = d < MOST_RANK ? resize->scales[like] : 0;
            const int64_t index = rest % out->dims[d];

            if (has(RESIZE_SIZES) && scale == 0)
                scale = 1;
            rest /= out->dims[d];
            from += (has(RESIZE_LEADING) && d == 0 ? index % in->dims[0]
                                                   : resize_index(resize, scale, index, in->dims[d], out->dims[d])) *
                    pitch;
            pitch *= in->dims[d];
        }
        ((float *)out->data)[at] = ((const float *)in->data)[from];
    }
    return INLAY_OK;
}

static bool quantize_supports(const kit_node *node, kit_refusal *why)
{
    if (kit_input(node, 1)->rank == 0 && kit_attr_int(node->info, "precision", 0) == 0)
        return true;
    return kit_refuse(why, INLAY_REFUSE_SHAPE, "", "one scale, in the precision of the input");
}

PLANTED_KERNEL(quantize_run)
{
    const float *x = call->in[0].data, scale = *(const float *)call->in[1].data;
    const float zero_point =
        kit_has_input(call, 2) && !has(QUANTIZE_ZERO_POINT) ? *(const uint8_t *)call->in[2].data : 0;

    for (int64_t i = 0; i < call->in[0].count; i++) {
        const float at = (has(QUANTIZE_TIES) ? roundf(x[i] / scale) : nearbyintf(x[i] / scale)) + zero_point;

        ((uint8_t *)call->out[0].data)[i] = at >= 255 ? 255 : at > 0 ? (uint8_t)at : 0;
    }
    return INLAY_OK;
}

static const kit_kernel kernels[] = {
    { .op_type = "Conv",
      .in_types = { KIT_BIT(FLOAT) },
      .supports = conv_supports,
      .prepare = window_prepare,
      .run = conv_run },
    { .op_type = "MaxPool",
      .in_types = { KIT_BIT(FLOAT) },
      .supports = pool_supports,
      .prepare = window_prepare,
      .run = max_run },
    { .op_type = "AveragePool",
      .in_types = { KIT_BIT(FLOAT) },
      .supports = pool_supports,
      .prepare = window_prepare,
      .run = average_run },
    { .op_type = "Gemm", .since_min = 11, .in_types = { KIT_BIT(FLOAT) }, .prepare = gemm_prepare, .run = gemm_run },
    { .op_type = "Slice",
      .since_min = 10,
      .in_types = { KIT_NUMBERS },
      .supports = slice_supports,
      .prepare = slice_prepare,
      .run = slice_run },
    { .op_type = "Resize",
      .since_min = 13,
      .in_types = { KIT_BIT(FLOAT) },
      .supports = resize_supports,
      .prepare = resize_prepare,
      .run = resize_run },
    { .op_type = "QuantizeLinear",
      .since_min = 10,
      .in_types = { KIT_BIT(FLOAT), KIT_BIT(FLOAT), KIT_BIT(UINT8) },
      .out_types = { KIT_BIT(UINT8) },
      .supports = quantize_supports,
      .run = quantize_run },
};
static const inlay_option options[] = {
    PLANTED_OPTIONS,
    { .name = "narrow", .doc = "1: Conv of kernels of size 1 only", .default_value = "0", .kind = INLAY_OPTION_STRING },
};

static inlay_status open_narrow(const inlay_host *host, const inlay_create_args *args, void **out, inlay_diag *diag)
{
    is_narrow = planted_option(args, 2);
    return planted_open(host, args, out, diag);
}

PLANTED_PLUGIN("planted", "kernels with a planted defect", open_narrow)
