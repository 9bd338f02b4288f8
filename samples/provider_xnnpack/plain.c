/* Plain loops for runs with NaN or infinite inputs. XNNPACK limits each result to [low, high], also if it fuses no
 * Clip, by instructions that replace NaN by a bound (in the version of Debian 12). A provider has to pass NaN on. Such
 * runs are rare, so these loops are simple rather than fast. Values are in XNNPACK's layout. */
#include "provider.h"
#include <math.h>

struct plain_node {
    const inlay_compiled *compiled;
    const inlay_node_info *node;
    const struct node_constants *constants;
    enum operator_kind kind;
    const struct plain_value *values; /* by index in the region, as inputs and outputs of the node */
    const struct plain_value *in, *out;
    float *const *data; /* likewise; NULL for constants */
    const float *x;     /* of input 0 */
    float *y;           /* of output 0 */
};

bool plain_is_needed(const float *x, int64_t count)
{
    uint32_t found = 0;

    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;

        memcpy(&bits, &x[i], sizeof bits);
        found |= (uint32_t)((bits & 0x7f800000u) == 0x7f800000u);
    }
    return found != 0;
}

static size_t count_of(const struct plain_value *value)
{
    size_t count = 1;

    for (uint32_t i = 0; i < value->rank; i++)
        count *= value->dims[i];
    return count;
}

/* One output of a convolution or pooling: pixel (row, column) of an image, channel `channel`. */
static float window_result(const struct plain_node *self, const struct window *w, const float *image, int64_t row,
                           int64_t column, size_t channel)
{
    const size_t channels = self->in->dims[3], outputs = self->out->dims[3];
    const bool conv = self->kind == KIND_CONV;
    const struct plain_value *filter = conv ? &self->values[self->node->inputs[1]] : self->in;
    const size_t depth = conv ? filter->dims[3] : 1; /* input channels of an output */
    const size_t first = conv ? channel / (outputs / (channels / depth)) * depth : channel;
    float sum = conv && self->constants->data[2] != NULL ? self->constants->data[2][channel] : 0, most = -INFINITY;
    int64_t covered = 0;

    for (int64_t tap = 0; tap < w->size[0] * w->size[1]; tap++) {
        const int64_t y = row * w->stride[0] + tap / w->size[1] * w->dilation[0] - w->before[0];
        const int64_t x = column * w->stride[1] + tap % w->size[1] * w->dilation[1] - w->before[1];

        if (y < 0 || x < 0 || y >= (int64_t)self->in->dims[1] || x >= (int64_t)self->in->dims[2])
            continue;
        covered++;
        for (size_t i = 0; i < depth; i++) {
            const float value = image[((size_t)y * self->in->dims[2] + (size_t)x) * channels + first + i];
            const size_t taps = (size_t)(w->size[0] * w->size[1]);
            const size_t at = depth == 1 && channels > 1 ? (size_t)tap * outputs + channel
                                                         : (channel * taps + (size_t)tap) * depth + i;

            sum += conv ? value * self->constants->data[1][at] : value;
            most = value > most || isnan(value) ? value : most;
        }
    }
    return conv ? sum : self->kind == KIND_MAX_POOL ? most : sum / (float)covered;
}

static void run_window(const struct plain_node *self)
{
    const size_t *in = self->in->dims, *out = self->out->dims;
    const int64_t in_size[] = { (int64_t)in[1], (int64_t)in[2] }, out_size[] = { (int64_t)out[1], (int64_t)out[2] };
    const struct plain_value *filter = self->kind == KIND_CONV ? &self->values[self->node->inputs[1]] : NULL;
    const int64_t kernel[] = { filter != NULL ? (int64_t)filter->dims[1] : 0,
                               filter != NULL ? (int64_t)filter->dims[2] : 0 };
    struct window w = window_of(self->node, filter != NULL ? kernel : NULL, in_size, out_size);
    float *y = self->y;

    if (self->kind == KIND_GLOBAL_AVERAGE)
        w = (struct window){ .size = { in_size[0], in_size[1] }, .stride = { 1, 1 }, .dilation = { 1, 1 } };
    for (size_t n = 0; n < out[0]; n++)
        for (int64_t row = 0; row < out_size[0]; row++)
            for (int64_t column = 0; column < out_size[1]; column++)
                for (size_t channel = 0; channel < out[3]; channel++)
                    *y++ = window_result(self, &w, self->x + n * in[1] * in[2] * in[3], row, column, channel);
}

static void run_product(const struct plain_node *self)
{
    const size_t columns = self->out->dims[self->out->rank - 1], depth = self->in->dims[self->in->rank - 1];
    const bool transposed = self->kind == KIND_GEMM && kit_attr_int(self->node, "transB", 0) != 0;
    const float *b = self->constants->data[1], *c = self->constants->data[2];
    const size_t count = count_of(self->out);

    for (size_t i = 0; i < count; i++) {
        const float *row = self->x + i / columns * depth;
        const size_t column = i % columns;
        float sum = c != NULL ? c[column] : 0;

        for (size_t k = 0; k < depth; k++)
            sum += row[k] * (transposed ? b[column * depth + k] : b[k * columns + column]);
        self->y[i] = sum;
    }
}

/* Returns the size of operand i along dimension d, counted from the last one. A constant of a lower rank than an image
 * is an image, too. */
static size_t operand_size(const struct plain_node *self, uint32_t i, uint32_t d)
{
    static const uint32_t image_axes[] = { 2, 0, 1, 3 }; /* channels, width, height, batch, from the last of ONNX's */
    const struct plain_value *operand = &self->values[self->node->inputs[i]];
    const uint32_t from_last = self->out->rank == IMAGE_RANK && operand->rank < IMAGE_RANK ? image_axes[d] : d;

    return from_last < operand->rank ? operand->dims[operand->rank - 1 - from_last] : 1;
}

/* Returns the element of operand i that belongs to element `at` of the output. */
static float operand_at(const struct plain_node *self, uint32_t i, size_t at)
{
    const float *data = self->constants->data[i] != NULL ? self->constants->data[i] : self->data[self->node->inputs[i]];
    size_t offset = 0, step = 1;

    for (uint32_t d = 0; d < self->out->rank; d++) {
        const uint32_t axis = self->out->rank - 1 - d;
        const size_t position = at % self->out->dims[axis];
        const size_t size = operand_size(self, i, d);

        at /= self->out->dims[axis];
        offset += size > 1 ? position * step : 0;
        step *= size;
    }
    return data[offset];
}

static void run_binary(const struct plain_node *self)
{
    const size_t count = count_of(self->out);

    for (size_t i = 0; i < count; i++) {
        const float a = operand_at(self, 0, i), b = operand_at(self, 1, i);

        self->y[i] = self->kind == KIND_ADD ? a + b : self->kind == KIND_SUB ? a - b : a * b;
    }
}

static void run_unary(const struct plain_node *self)
{
    const size_t count = count_of(self->out);
    float low, high;

    clamp_of(self->compiled, self->node, &low, &high);
    for (size_t i = 0; i < count; i++) {
        const float x = self->x[i];
        const float gate = x <= -3 ? 0 : x >= 3 ? 1 : x / 6 + 0.5f;

        if (self->kind == KIND_SIGMOID)
            self->y[i] = 1 / (1 + expf(-x));
        else if (self->kind == KIND_HARDSWISH)
            self->y[i] = x * gate;
        else
            self->y[i] = x < low ? low : x > high ? high : x;
    }
}

static void run_softmax(const struct plain_node *self)
{
    const size_t columns = self->out->dims[self->out->rank - 1], count = count_of(self->out);

    for (size_t row = 0; row < count; row += columns) {
        const float *x = self->x + row;
        float most = -INFINITY, sum = 0;

        for (size_t i = 0; i < columns; i++)
            most = x[i] > most ? x[i] : most;
        for (size_t i = 0; i < columns; i++)
            sum += self->y[row + i] = expf(x[i] - most);
        for (size_t i = 0; i < columns; i++)
            self->y[row + i] /= sum;
    }
}

static void run_reshape(const struct plain_node *self)
{
    memcpy(self->y, self->x, count_of(self->out) * sizeof *self->y);
}

static void run_concat(const struct plain_node *self)
{
    const size_t axis = concat_axis(self->node, self->out->rank);
    size_t rows = 1, inner = 1, written = 0;

    for (size_t d = 0; d < axis; d++)
        rows *= self->out->dims[d];
    for (size_t d = axis + 1; d < self->out->rank; d++)
        inner *= self->out->dims[d];
    for (uint32_t i = 0; i < self->node->input_count; i++) {
        const struct plain_value *operand = &self->values[self->node->inputs[i]];
        const size_t length = operand->dims[axis] * inner;

        for (size_t row = 0; row < rows; row++)
            memcpy(self->y + row * self->out->dims[axis] * inner + written,
                   self->data[self->node->inputs[i]] + row * length, length * sizeof *self->y);
        written += length;
    }
}

void plain_run(const inlay_compiled *compiled, const struct plain_value *values, float *const *data, uint32_t n)
{
    static void (*const run[KIND_COUNT])(const struct plain_node *) = {
        [KIND_CONV] = run_window,     [KIND_GEMM] = run_product,        [KIND_MATMUL] = run_product,
        [KIND_MAX_POOL] = run_window, [KIND_AVERAGE_POOL] = run_window, [KIND_GLOBAL_AVERAGE] = run_window,
        [KIND_ADD] = run_binary,      [KIND_SUB] = run_binary,          [KIND_MUL] = run_binary,
        [KIND_RELU] = run_unary,      [KIND_CLIP] = run_unary,          [KIND_HARDSWISH] = run_unary,
        [KIND_SIGMOID] = run_unary,   [KIND_SOFTMAX] = run_softmax,     [KIND_RESHAPE] = run_reshape,
        [KIND_CONCAT] = run_concat,
    };
    const inlay_node_info *node = &compiled->region.nodes[n];
    const struct plain_node self = { .compiled = compiled,
                                     .node = node,
                                     .constants = &compiled->constants[n],
                                     .kind = compiled->kinds[n],
                                     .values = values,
                                     .in = &values[node->inputs[0]],
                                     .out = &values[node->outputs[0]],
                                     .data = data,
                                     .x = data[node->inputs[0]],
                                     .y = data[node->outputs[0]] };

    run[self.kind](&self);
}
