#include "layer.h"
#include "oracle.h"
#include <float.h>
#include <math.h>

enum { CHAIN = 256 }; /* terms that a plain float sum accumulates sequentially */

static void *allocate(int64_t count, size_t bytes)
{
    void *memory = calloc((size_t)count, bytes);

    assert_non_null(memory);
    return memory;
}

/* Generates [outer][channels][inner]; channels are numbered within each group of `group` channels. */
static float *draw_tensor(uint64_t seed, int64_t outer, int64_t channels, int64_t inner, int64_t group,
                          double (*value)(nm_place))
{
    float *tensor = allocate(outer * channels * inner, sizeof *tensor);

    for (int64_t o = 0; o < outer; o++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t i = 0; i < inner; i++)
                tensor[(o * channels + c) * inner + i] = (float)value((nm_place){ seed, o, c % group, i });
    return tensor;
}

static double integer_noise(nm_place at)
{
    return round(30 * nm_noise(at));
}

struct sum {
    double exact, size;
    float plain, chain;
    int64_t count;
};

ORACLE static void add_term(struct sum *sum, float a, float b)
{
    const double term = (double)a * (double)b;

    sum->exact += term;
    sum->size += fabs(term);
    sum->chain = (float)((double)sum->chain + term);
    if (++sum->count % CHAIN == 0) {
        sum->plain += sum->chain;
        sum->chain = 0;
    }
}

ORACLE static void finish(nm_case *test_case, int64_t at, int64_t channel, struct sum *sum)
{
    float plain = sum->plain + sum->chain;
    double error;

    if (test_case->bias != NULL) {
        sum->exact += (double)test_case->bias[channel];
        sum->size += fabs((double)test_case->bias[channel]);
        plain += test_case->bias[channel];
    }
    if (test_case->other != NULL) {
        sum->exact += (double)test_case->other[at];
        sum->size += fabs((double)test_case->other[at]);
        plain += test_case->other[at];
    }
    if (test_case->layer->ending != NM_NONE) {
        sum->exact = fmax(sum->exact, 0);
        plain = fmaxf(plain, 0);
    }
    test_case->exact[at] = sum->exact;
    test_case->sizes[at] = sum->size;
    error = fabs((double)plain - sum->exact);
    if (error > 0)
        test_case->plain = fmax(test_case->plain, error / sum->size);
}

ORACLE static void sum_gemm(nm_case *test_case)
{
    const nm_layer *layer = test_case->layer;

    for (int64_t r = 0; r < layer->images * layer->height; r++)
        for (int64_t j = 0; j < layer->out; j++) {
            const float *weights =
                test_case->weights + (layer->dynamic_weights ? r / layer->height * layer->in * layer->out : 0) + j;
            struct sum sum = { .exact = 0 };

            for (int64_t k = 0; k < layer->in; k++)
                add_term(&sum, test_case->input[r * layer->in + k], weights[k * layer->out]);
            finish(test_case, r * layer->out + j, j, &sum);
        }
}

ORACLE static void sum_window(const nm_case *test_case, int64_t image, int64_t o, int64_t row, int64_t column,
                              struct sum *sum)
{
    const nm_layer *layer = test_case->layer;
    const int64_t in = layer->in / layer->group, first = o / (layer->out / layer->group) * in;

    for (int64_t i = 0; i < in; i++)
        for (int64_t h = 0; h < layer->kernel; h++) {
            const int64_t y = row * layer->stride + h * layer->dilation - layer->pad;
            const int64_t line = ((image * layer->in + first + i) * layer->height + y) * layer->width;
            const float *weights = test_case->weights + ((o * in + i) * layer->kernel + h) * layer->kernel;

            for (int64_t w = 0; w < layer->kernel && y >= 0 && y < layer->height; w++) {
                const int64_t x = column * layer->stride + w * layer->dilation - layer->pad;

                if (x >= 0 && x < layer->width)
                    add_term(sum, test_case->input[line + x], weights[w]);
            }
        }
}

ORACLE static void sum_windows(nm_case *test_case)
{
    const int64_t pixels = test_case->y_height * test_case->y_width;

    for (int64_t at = 0; at < test_case->y_count; at++) {
        const int64_t o = at / pixels % test_case->layer->out;
        struct sum sum = { .exact = 0 };

        sum_window(test_case, at / pixels / test_case->layer->out, o, at % pixels / test_case->y_width,
                   at % test_case->y_width, &sum);
        finish(test_case, at, o, &sum);
    }
}

void nm_case_init(nm_case *test_case, const nm_layer *layer, const nm_kind *kind)
{
    const int64_t taps = layer->kernel * layer->kernel;
    double (*const add)(nm_place) = kind->integers ? integer_noise : nm_noise;

    *test_case = (nm_case){ .layer = layer, .kind = kind };
    if (layer->is_gemm) {
        test_case->terms = layer->in;
        test_case->x_count = layer->images * layer->height * layer->in;
        test_case->w_count = (layer->dynamic_weights ? layer->images : 1) * layer->in * layer->out;
        test_case->y_count = layer->images * layer->height * layer->out;
        test_case->input = draw_tensor(11, layer->images * layer->height, layer->in, 1, layer->in, kind->input);
        test_case->weights = draw_tensor(12, test_case->w_count / layer->in / layer->out, layer->in, layer->out,
                                         layer->in, kind->weight);
    } else {
        const int64_t reach = (layer->kernel - 1) * layer->dilation + 1, in = layer->in / layer->group;

        test_case->y_height = (layer->height + 2 * layer->pad - reach) / layer->stride + 1;
        test_case->y_width = (layer->width + 2 * layer->pad - reach) / layer->stride + 1;
        test_case->terms = in * taps;
        test_case->x_count = layer->images * layer->in * layer->height * layer->width;
        test_case->w_count = layer->out * in * taps;
        test_case->y_count = layer->images * layer->out * test_case->y_height * test_case->y_width;
        test_case->input = draw_tensor(11, layer->images, layer->in, layer->height * layer->width, in, kind->input);
        test_case->weights = draw_tensor(12, layer->out, in, taps, in, kind->weight);
    }
    if (layer->ending == NM_BIAS_RELU)
        test_case->bias = draw_tensor(13, 1, layer->out, 1, layer->out, add);
    if (layer->ending == NM_RESIDUAL)
        test_case->other = draw_tensor(14, 1, 1, test_case->y_count, 1, add);
    test_case->exact = allocate(test_case->y_count, sizeof *test_case->exact);
    test_case->sizes = allocate(test_case->y_count, sizeof *test_case->sizes);
    (layer->is_gemm ? sum_gemm : sum_windows)(test_case);
}

void nm_case_deinit(nm_case *test_case)
{
    free(test_case->input);
    free(test_case->weights);
    free(test_case->bias);
    free(test_case->other);
    free(test_case->exact);
    free(test_case->sizes);
    *test_case = (nm_case){ 0 };
}

double nm_case_error(const nm_case *test_case, const float *output, double factor)
{
    const double eps = FLT_EPSILON / 2.0, least = (double)test_case->terms * FLT_TRUE_MIN / 2;
    const double allowed = fmax(factor * eps * sqrt((double)test_case->terms), 4 * test_case->plain);
    double worst = 0;

    for (int64_t i = 0; i < test_case->y_count; i++) {
        const double off = fabs((double)output[i] - test_case->exact[i]);

        if (test_case->kind->integers && off > 0)
            return INFINITY;
        if (!(off <= least))
            worst = !isfinite(off) ? INFINITY : fmax(worst, (off - least) / (allowed * test_case->sizes[i]));
    }
    return worst;
}

static void write_tensor(struct wire *wire, const char *name, uint32_t rank, const int64_t *dims, const float *data,
                         int64_t step)
{
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);
    int64_t count = 1;

    for (uint32_t d = 0; d < rank; d++)
        count *= dims[d];
    mw_tensor_head(wire, name, INLAY_FLOAT, rank, dims);
    for (int64_t i = 0; i < count; i++) /* step > 1: the transposed matrix */
        wire_float(wire, 4, data[step > 1 ? i % (count / step) * step + i / (count / step) : i]);
    wire_end(wire, mark);
}

static void x_shape(const nm_layer *layer, char *text, size_t bytes)
{
    if (!layer->is_gemm)
        (void)snprintf(text, bytes, "%d,%d,%d,%d", (int)layer->images, (int)layer->in, (int)layer->height,
                       (int)layer->width);
    else if (layer->transposed)
        (void)snprintf(text, bytes, "%d,%d", (int)(layer->images * layer->height), (int)layer->in);
    else
        (void)snprintf(text, bytes, "%d,%d,%d", (int)layer->images, (int)layer->height, (int)layer->in);
}

static void y_shape(const nm_case *test_case, char *text, size_t bytes)
{
    const nm_layer *layer = test_case->layer;

    if (!layer->is_gemm)
        (void)snprintf(text, bytes, "%d,%d,%d,%d", (int)layer->images, (int)layer->out, (int)test_case->y_height,
                       (int)test_case->y_width);
    else if (layer->transposed)
        (void)snprintf(text, bytes, "%d,%d", (int)(layer->images * layer->height), (int)layer->out);
    else
        (void)snprintf(text, bytes, "%d,%d,%d", (int)layer->images, (int)layer->height, (int)layer->out);
}

/* Writes a convolution q that copies x. */
static void write_copy(const nm_layer *layer, struct wire *wire)
{
    const int64_t in = layer->in / layer->copies, dims[] = { layer->in, in, 3, 3 }, ones[] = { 1, 1, 1, 1 };
    float *weights = allocate(layer->in * in * 9, sizeof *weights);
    wire_mark mark = mw_node_begin(wire, "Conv", "x,v", "q");

    mw_attr_ints(wire, "pads", 4, ones);
    mw_attr_int(wire, "group", layer->copies);
    wire_end(wire, mark);
    for (int64_t o = 0; o < layer->in; o++)
        weights[(o * in + o % in) * 9 + 4] = 1;
    write_tensor(wire, "v", 4, dims, weights, 1);
    free(weights);
}

static void write_conv(const nm_case *test_case, struct wire *wire, const char *result)
{
    const nm_layer *layer = test_case->layer;
    const int64_t dims[] = { layer->out, layer->in / layer->group, layer->kernel, layer->kernel },
                  pads[] = { layer->pad, layer->pad, layer->pad, layer->pad };
    const int64_t strides[] = { layer->stride, layer->stride }, dilations[] = { layer->dilation, layer->dilation };
    char inputs[8];
    wire_mark mark;

    if (layer->copies > 0)
        write_copy(layer, wire);
    (void)snprintf(inputs, sizeof inputs, "%s,w%s", layer->copies > 0 ? "q" : "x", test_case->bias != NULL ? ",b" : "");
    mark = mw_node_begin(wire, "Conv", inputs, result);
    mw_attr_ints(wire, "strides", 2, strides);
    mw_attr_ints(wire, "dilations", 2, dilations);
    mw_attr_ints(wire, "pads", 4, pads);
    mw_attr_int(wire, "group", layer->group);
    wire_end(wire, mark);
    write_tensor(wire, "w", 4, dims, test_case->weights, 1);
}

static void write_gemm(const nm_case *test_case, struct wire *wire, const char *result)
{
    const nm_layer *layer = test_case->layer;
    const int64_t dims[] = { layer->in, layer->out }, transposed_dims[] = { layer->out, layer->in };

    if (layer->transposed)
        mw_node_int(wire, "Gemm", test_case->bias != NULL ? "x,w,b" : "x,w", result, "transB", 1);
    else if (test_case->bias != NULL) {
        mw_node(wire, "MatMul", "x,w", "p");
        mw_node(wire, "Add", "p,b", result);
    } else
        mw_node(wire, "MatMul", "x,w", result);
    if (!layer->dynamic_weights)
        write_tensor(wire, "w", 2, layer->transposed ? transposed_dims : dims, test_case->weights,
                     layer->transposed ? layer->out : 1);
}

void nm_case_model(const nm_case *test_case, struct wire *wire)
{
    const nm_layer *layer = test_case->layer;
    wire_mark mark = mw_begin(wire, 8, 17);
    char shape[64];

    x_shape(layer, shape, sizeof shape);
    mw_value(wire, MW_INPUT, "x", RIG_FLOAT, shape);
    if (layer->dynamic_weights) {
        (void)snprintf(shape, sizeof shape, "%d,%d,%d", (int)layer->images, (int)layer->in, (int)layer->out);
        mw_value(wire, MW_INPUT, "w", RIG_FLOAT, shape);
    }
    (layer->is_gemm ? write_gemm : write_conv)(test_case, wire, layer->ending == NM_NONE ? "y" : "k");
    if (test_case->bias != NULL)
        write_tensor(wire, "b", 1, &layer->out, test_case->bias, 1);
    y_shape(test_case, shape, sizeof shape);
    if (test_case->other != NULL) {
        mw_value(wire, MW_INPUT, "r", RIG_FLOAT, shape);
        mw_node(wire, "Add", "k,r", "a");
    }
    if (layer->ending != NM_NONE)
        mw_node(wire, "Relu", test_case->other != NULL ? "a" : "k", "y");
    mw_value(wire, MW_OUTPUT, "y", RIG_FLOAT, shape);
    wire_end(wire, mark);
}

void nm_case_feed(const nm_case *test_case, struct rig *rig)
{
    const nm_layer *layer = test_case->layer;
    uint32_t input = 0;
    char shape[64];

    x_shape(layer, shape, sizeof shape);
    rig_floats(rig, input++, shape, test_case->input);
    if (layer->dynamic_weights) {
        (void)snprintf(shape, sizeof shape, "%d,%d,%d", (int)layer->images, (int)layer->in, (int)layer->out);
        rig_floats(rig, input++, shape, test_case->weights);
    }
    y_shape(test_case, shape, sizeof shape);
    if (test_case->other != NULL)
        rig_floats(rig, input, shape, test_case->other);
}
