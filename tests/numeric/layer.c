#include "layer.h"
#include <float.h>
#include <math.h>

enum { CHAIN = 256 }; /* terms that a plain sum adds one after another */

static void *take(int64_t count, size_t bytes)
{
    void *p = calloc((size_t)count, bytes);

    assert_non_null(p);
    return p;
}

/* [outer][channels][inner]; channels count anew in each group of so many. */
static float *draw_tensor(uint64_t seed, int64_t outer, int64_t channels, int64_t inner, int64_t group,
                          double (*value)(nm_place))
{
    float *t = take(outer * channels * inner, sizeof *t);

    for (int64_t o = 0; o < outer; o++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t i = 0; i < inner; i++)
                t[(o * channels + c) * inner + i] = (float)value((nm_place){ seed, o, c % group, i });
    return t;
}

static double whole(nm_place at)
{
    return round(30 * nm_noise(at));
}

/* ------------------------------------------------------------------ sums */

struct sum {
    double exact, size;
    float plain, chain;
    int64_t count;
};

static void add_term(struct sum *s, float a, float b)
{
    const double term = (double)a * (double)b;

    s->exact += term;
    s->size += fabs(term);
    s->chain = (float)((double)s->chain + term);
    if (++s->count % CHAIN == 0) {
        s->plain += s->chain;
        s->chain = 0;
    }
}

static void finish(nm_case *c, int64_t at, int64_t channel, struct sum *s)
{
    float plain = s->plain + s->chain;
    double error;

    if (c->bias != NULL) {
        s->exact += (double)c->bias[channel];
        s->size += fabs((double)c->bias[channel]);
        plain += c->bias[channel];
    }
    if (c->other != NULL) {
        s->exact += (double)c->other[at];
        s->size += fabs((double)c->other[at]);
        plain += c->other[at];
    }
    if (c->layer->ending != NM_NONE) {
        s->exact = fmax(s->exact, 0);
        plain = fmaxf(plain, 0);
    }
    c->exact[at] = s->exact;
    c->sizes[at] = s->size;
    error = fabs((double)plain - s->exact);
    if (error > 0)
        c->plain = fmax(c->plain, error / s->size);
}

static void sum_product(nm_case *c)
{
    const nm_layer *l = c->layer;

    for (int64_t r = 0; r < l->images * l->height; r++)
        for (int64_t j = 0; j < l->out; j++) {
            const float *w = c->w + (l->computed ? r / l->height * l->in * l->out : 0) + j;
            struct sum s = { .exact = 0 };

            for (int64_t k = 0; k < l->in; k++)
                add_term(&s, c->x[r * l->in + k], w[k * l->out]);
            finish(c, r * l->out + j, j, &s);
        }
}

static void sum_window(const nm_case *c, int64_t image, int64_t o, int64_t row, int64_t column, struct sum *s)
{
    const nm_layer *l = c->layer;
    const int64_t in = l->in / l->group, first = o / (l->out / l->group) * in;

    for (int64_t i = 0; i < in; i++)
        for (int64_t t = 0; t < l->kernel * l->kernel; t++) {
            const int64_t y = row * l->stride + t / l->kernel * l->dilation - l->pad;
            const int64_t x = column * l->stride + t % l->kernel * l->dilation - l->pad;

            if (y >= 0 && y < l->height && x >= 0 && x < l->width)
                add_term(s, c->x[((image * l->in + first + i) * l->height + y) * l->width + x],
                         c->w[(o * in + i) * l->kernel * l->kernel + t]);
        }
}

static void sum_windows(nm_case *c)
{
    const int64_t pixels = c->y_height * c->y_width;

    for (int64_t at = 0; at < c->y_count; at++) {
        const int64_t o = at / pixels % c->layer->out;
        struct sum s = { .exact = 0 };

        sum_window(c, at / pixels / c->layer->out, o, at % pixels / c->y_width, at % c->y_width, &s);
        finish(c, at, o, &s);
    }
}

/* ------------------------------------------------------------------ a case */

void nm_case_init(nm_case *c, const nm_layer *l, const nm_kind *kind)
{
    const int64_t taps = l->kernel * l->kernel;
    double (*const add)(nm_place) = kind->integers ? whole : nm_noise;

    *c = (nm_case){ .layer = l, .kind = kind };
    if (l->product) {
        c->terms = l->in;
        c->x_count = l->images * l->height * l->in;
        c->w_count = (l->computed ? l->images : 1) * l->in * l->out;
        c->y_count = l->images * l->height * l->out;
        c->x = draw_tensor(11, l->images * l->height, l->in, 1, l->in, kind->x);
        c->w = draw_tensor(12, c->w_count / l->in / l->out, l->in, l->out, l->in, kind->w);
    } else {
        const int64_t reach = (l->kernel - 1) * l->dilation + 1, in = l->in / l->group;

        c->y_height = (l->height + 2 * l->pad - reach) / l->stride + 1;
        c->y_width = (l->width + 2 * l->pad - reach) / l->stride + 1;
        c->terms = in * taps;
        c->x_count = l->images * l->in * l->height * l->width;
        c->w_count = l->out * in * taps;
        c->y_count = l->images * l->out * c->y_height * c->y_width;
        c->x = draw_tensor(11, l->images, l->in, l->height * l->width, in, kind->x);
        c->w = draw_tensor(12, l->out, in, taps, in, kind->w);
    }
    if (l->ending == NM_BIAS_RELU)
        c->bias = draw_tensor(13, 1, l->out, 1, l->out, add);
    if (l->ending == NM_RESIDUAL)
        c->other = draw_tensor(14, 1, 1, c->y_count, 1, add);
    c->exact = take(c->y_count, sizeof *c->exact);
    c->sizes = take(c->y_count, sizeof *c->sizes);
    (l->product ? sum_product : sum_windows)(c);
}

void nm_case_deinit(nm_case *c)
{
    free(c->x);
    free(c->w);
    free(c->bias);
    free(c->other);
    free(c->exact);
    free(c->sizes);
    *c = (nm_case){ 0 };
}

double nm_case_error(const nm_case *c, const float *y, double factor)
{
    const double eps = FLT_EPSILON / 2.0, least = (double)c->terms * FLT_TRUE_MIN / 2;
    const double allowed = fmax(factor * eps * sqrt((double)c->terms), 4 * c->plain);
    double worst = 0;

    for (int64_t i = 0; i < c->y_count; i++) {
        const double off = fabs((double)y[i] - c->exact[i]);

        if (c->kind->integers && off > 0)
            return INFINITY;
        if (!(off <= least))
            worst = !isfinite(off) ? INFINITY : fmax(worst, (off - least) / (allowed * c->sizes[i]));
    }
    return worst;
}

/* ------------------------------------------------------------------ the model */

static void write_tensor(struct wire *w, const char *name, uint32_t rank, const int64_t *dims, const float *data,
                         int64_t step)
{
    wire_mark t = wire_begin(w, MW_INITIALIZER);
    int64_t count = 1;

    for (uint32_t d = 0; d < rank; d++)
        count *= dims[d];
    mw_tensor_head(w, name, INLAY_FLOAT, rank, dims);
    for (int64_t i = 0; i < count; i++) /* step > 1: a matrix [step of it][rest], turned */
        wire_float(w, 4, data[step > 1 ? i % (count / step) * step + i / (count / step) : i]);
    wire_end(w, t);
}

static void x_shape(const nm_layer *l, char *text, size_t bytes)
{
    if (!l->product)
        (void)snprintf(text, bytes, "%d,%d,%d,%d", (int)l->images, (int)l->in, (int)l->height, (int)l->width);
    else if (l->turned)
        (void)snprintf(text, bytes, "%d,%d", (int)(l->images * l->height), (int)l->in);
    else
        (void)snprintf(text, bytes, "%d,%d,%d", (int)l->images, (int)l->height, (int)l->in);
}

static void y_shape(const nm_case *c, char *text, size_t bytes)
{
    const nm_layer *l = c->layer;

    if (!l->product)
        (void)snprintf(text, bytes, "%d,%d,%d,%d", (int)l->images, (int)l->out, (int)c->y_height, (int)c->y_width);
    else if (l->turned)
        (void)snprintf(text, bytes, "%d,%d", (int)(l->images * l->height), (int)l->out);
    else
        (void)snprintf(text, bytes, "%d,%d,%d", (int)l->images, (int)l->height, (int)l->out);
}

/* q: a copy of x. */
static void write_copy(const nm_layer *l, struct wire *w)
{
    const int64_t in = l->in / l->copies, dims[] = { l->in, in, 3, 3 }, ones[] = { 1, 1, 1, 1 };
    float *weights = take(l->in * in * 9, sizeof *weights);
    wire_mark n = mw_node_begin(w, "Conv", "x,v", "q");

    rig_attr_ints(w, "pads", 4, ones);
    rig_attr_int(w, "group", l->copies);
    wire_end(w, n);
    for (int64_t o = 0; o < l->in; o++)
        weights[(o * in + o % in) * 9 + 4] = 1;
    write_tensor(w, "v", 4, dims, weights, 1);
    free(weights);
}

static void write_conv(const nm_case *c, struct wire *w, const char *result)
{
    const nm_layer *l = c->layer;
    const int64_t dims[] = { l->out, l->in / l->group, l->kernel, l->kernel },
                  pads[] = { l->pad, l->pad, l->pad, l->pad };
    const int64_t strides[] = { l->stride, l->stride }, dilations[] = { l->dilation, l->dilation };
    char inputs[8];
    wire_mark n;

    if (l->copies > 0)
        write_copy(l, w);
    (void)snprintf(inputs, sizeof inputs, "%s,w%s", l->copies > 0 ? "q" : "x", c->bias != NULL ? ",b" : "");
    n = mw_node_begin(w, "Conv", inputs, result);
    rig_attr_ints(w, "strides", 2, strides);
    rig_attr_ints(w, "dilations", 2, dilations);
    rig_attr_ints(w, "pads", 4, pads);
    rig_attr_int(w, "group", l->group);
    wire_end(w, n);
    write_tensor(w, "w", 4, dims, c->w, 1);
}

static void write_product(const nm_case *c, struct wire *w, const char *result)
{
    const nm_layer *l = c->layer;
    const int64_t dims[] = { l->in, l->out }, turned[] = { l->out, l->in };

    if (l->turned)
        rig_node_int(w, "Gemm", c->bias != NULL ? "x,w,b" : "x,w", result, "transB", 1);
    else if (c->bias != NULL) {
        mw_node(w, "MatMul", "x,w", "p");
        mw_node(w, "Add", "p,b", result);
    } else
        mw_node(w, "MatMul", "x,w", result);
    if (!l->computed)
        write_tensor(w, "w", 2, l->turned ? turned : dims, c->w, l->turned ? l->out : 1);
}

void nm_case_model(const nm_case *c, struct wire *w)
{
    const nm_layer *l = c->layer;
    wire_mark g = mw_begin(w, 8, 17);
    char shape[64];

    x_shape(l, shape, sizeof shape);
    mw_value(w, MW_INPUT, "x", RIG_FLOAT, shape);
    if (l->computed) {
        (void)snprintf(shape, sizeof shape, "%d,%d,%d", (int)l->images, (int)l->in, (int)l->out);
        mw_value(w, MW_INPUT, "w", RIG_FLOAT, shape);
    }
    (l->product ? write_product : write_conv)(c, w, l->ending == NM_NONE ? "y" : "k");
    if (c->bias != NULL)
        write_tensor(w, "b", 1, &l->out, c->bias, 1);
    y_shape(c, shape, sizeof shape);
    if (c->other != NULL) {
        mw_value(w, MW_INPUT, "r", RIG_FLOAT, shape);
        mw_node(w, "Add", "k,r", "a");
    }
    if (l->ending != NM_NONE)
        mw_node(w, "Relu", c->other != NULL ? "a" : "k", "y");
    mw_value(w, MW_OUTPUT, "y", RIG_FLOAT, shape);
    wire_end(w, g);
}

void nm_case_feed(const nm_case *c, struct rig *r)
{
    const nm_layer *l = c->layer;
    uint32_t input = 0;
    char shape[64];

    x_shape(l, shape, sizeof shape);
    rig_floats(r, input++, shape, c->x);
    if (l->computed) {
        (void)snprintf(shape, sizeof shape, "%d,%d,%d", (int)l->images, (int)l->in, (int)l->out);
        rig_floats(r, input++, shape, c->w);
    }
    y_shape(c, shape, sizeof shape);
    if (c->other != NULL)
        rig_floats(r, input, shape, c->other);
}
