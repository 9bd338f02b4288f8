/* LSTM, GRU and RNN beside a plain loop over the formulas of the operators' pages, in double: random sizes, attributes,
 * types, lengths, missing inputs and outputs, threads. Products of panels beside a plain sum, for each instruction set.
 * Outputs start as NaN, tensors and workspace end at a forbidden page. */
#include "simd/convert.h"
#include "kernel_case.h"
#include "panels.h"
#include "reference.h"
#include "reference_tables.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

static uint64_t seed = 99;
static int64_t pick(int64_t low, int64_t high)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return low + (int64_t)((seed >> 33) % (uint64_t)(high - low + 1));
}

/* ------------------------------------------------------------------ panels */

static double element(bool wide, const void *data, int64_t i)
{
    return wide ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

static void fill(bool wide, void *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double v = (double)pick(-999, 999) / 1000;
        if (wide)
            ((double *)data)[i] = v;
        else
            ((float *)data)[i] = (float)v;
    }
}

/* The same matrix at an odd address is packed alike. */
static void expect_packed_anywhere(const struct panels *p, const panels_source *from, int64_t bytes, const void *packed)
{
    struct guard odd = guard_alloc((size_t)bytes + 1), again = guard_alloc((size_t)p->bytes);
    panels_source there = *from;

    memcpy(odd.data, from->data, (size_t)bytes); /* one byte more, so that it begins one byte before */
    there.data = odd.data;
    panels_pack(p, &there, 0, p->count, again.data);
    assert_memory_equal(again.data, packed, (size_t)p->bytes);
    guard_free(&odd);
    guard_free(&again);
}

/* Rows of x times a matrix whose lines are columns (along) or rows. */
static void product(panels_fn fn, bool wide)
{
    const inlay_dtype dtype = wide ? INLAY_DOUBLE : INLAY_FLOAT;
    struct panels p = { .depth = pick(0, 40), .columns = pick(1, 150), .gates = (uint32_t)pick(1, 4), .wide = wide };
    const bool along = pick(0, 1) == 0 || p.gates > 1;
    const int64_t rows = pick(1, 14), lanes = wide ? 8 : 16, size = wide ? 8 : 4;
    struct guard w = guard_alloc((size_t)(p.depth * p.columns * p.gates * size)), x[14], y[14], packed, start;
    const void *x_rows[14];
    void *y_rows[14];
    panels_source from = {
        .data = w.data, .dtype = dtype, .line_stride = along ? p.depth : 1, .k_stride = along ? 1 : p.columns
    };
    const bool starts = pick(0, 1) == 0;
    int64_t written;

    assert_true(panels_describe(&p));
    written = p.gates == 1 ? p.columns : p.stored;
    packed = guard_alloc((size_t)p.bytes);
    start = guard_alloc((size_t)(p.stored * size));
    fill(wide, w.data, p.depth * p.columns * p.gates);
    fill(wide, start.data, p.stored);
    for (int64_t r = 0; r < rows; r++) {
        x[r] = guard_alloc((size_t)(p.depth * size));
        y[r] = guard_alloc((size_t)(written * size));
        fill(wide, x[r].data, p.depth);
        memset(y[r].data, 0xff, (size_t)(written * size));
        x_rows[r] = x[r].data;
        y_rows[r] = y[r].data;
    }
    panels_pack(&p, &from, 0, p.count, packed.data);
    expect_packed_anywhere(&p, &from, p.depth * p.columns * p.gates * size, packed.data);
    if (pick(0, 1) == 0) {
        fn(&p, packed.data, 0, p.count / 2, true, rows, x_rows, starts ? start.data : NULL, y_rows);
        fn(&p, packed.data, p.count / 2, p.count, false, rows, x_rows, starts ? start.data : NULL, y_rows);
    } else {
        fn(&p, packed.data, 0, p.count, pick(0, 1) == 0, rows, x_rows, starts ? start.data : NULL, y_rows);
    }
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t j = 0; j < p.columns * p.gates; j++) {
            const int64_t gate = j / p.columns, column = j % p.columns;
            const int64_t at = (column / lanes * p.gates + gate) * lanes + column % lanes;
            double want = starts ? element(wide, start.data, at) : 0, got = element(wide, y[r].data, at);
            for (int64_t k = 0; k < p.depth; k++)
                want += element(wide, x[r].data, k) *
                        element(wide, w.data, along ? j * p.depth + k : k * p.columns + column);
            if (!(fabs(got - want) <= (wide ? 1e-12 : 1e-4)))
                fail_msg("depth %d, %d x %u columns, row %d of %d, column %d: %g, not %g", (int)p.depth, (int)p.columns,
                         p.gates, (int)r, (int)rows, (int)j, got, want);
        }
        guard_free(&x[r]);
        guard_free(&y[r]);
    }
    guard_free(&w);
    guard_free(&packed);
    guard_free(&start);
}

static void test_panels(void **state)
{
    (void)state;
    for (uint32_t wide = 0; wide < 2; wide++)
        for (uint32_t i = 0; panels_product_at(wide != 0, i) != NULL; i++)
            for (int n = 0; n < 400; n++)
                product(panels_product_at(wide != 0, i), wide != 0);
}

static void test_panels_too_large(void **state)
{
    struct panels p = { .depth = INT64_MAX / 8, .columns = 1 << 20, .gates = 4 };

    (void)state;
    assert_false(panels_describe(&p));
    p = (struct panels){ .depth = 1, .columns = INT64_MAX - 3, .gates = 3 };
    assert_false(panels_describe(&p));
}

/* ------------------------------------------------------------------ a layer */

static const char *const activation_names[] = { "Tanh",      "Sigmoid",         "Relu",       "Affine",
                                                "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid",
                                                "Elu",       "Softsign",        "Softplus" };

struct layer {
    const char *op;
    inlay_dtype dtype;
    int64_t gates, steps, batch, in, hidden, directions, direction, layout;
    double *x, *w, *r, *b, *h0, *c0, *p; /* as the kernel reads them; b, h0, c0, p may be NULL */
    int32_t *lengths;                    /* or NULL */
    const char *names[6];
    uint32_t functions; /* of a direction */
    double clip;        /* 0: none */
    bool input_forget, linear;
    double *y, *yh, *yc;
};

static double activate(const char *name, double x)
{
    if (strcmp(name, "Tanh") == 0)
        return tanh(x);
    if (strcmp(name, "Sigmoid") == 0)
        return 1 / (1 + exp(-x));
    if (strcmp(name, "Relu") == 0)
        return x > 0 ? x : 0;
    if (strcmp(name, "Affine") == 0)
        return x;
    if (strcmp(name, "LeakyRelu") == 0)
        return x >= 0 ? x : 0.01 * x;
    if (strcmp(name, "ThresholdedRelu") == 0)
        return x >= 1 ? x : 0;
    if (strcmp(name, "ScaledTanh") == 0)
        return tanh(x);
    if (strcmp(name, "HardSigmoid") == 0)
        return fmax(0, fmin(1, 0.2 * x + 0.5));
    if (strcmp(name, "Elu") == 0)
        return x >= 0 ? x : exp(x) - 1;
    if (strcmp(name, "Softsign") == 0)
        return x / (1 + fabs(x));
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static double clip(const struct layer *l, double x)
{
    return l->clip == 0 ? x : fmax(-l->clip, fmin(l->clip, x));
}

/* Row `row` of gate g: the input's share with both biases, and the recurrent share (with recurrent: its bias). */
static double input_share(const struct layer *l, int64_t d, int64_t g, int64_t j, const double *x,
                          bool with_recurrent_bias)
{
    const int64_t row = g * l->hidden + j, rows = l->gates * l->hidden;
    double sum = l->b != NULL ? l->b[d * 2 * rows + row] : 0;

    if (l->b != NULL && with_recurrent_bias)
        sum += l->b[d * 2 * rows + rows + row];
    for (int64_t k = 0; k < l->in; k++)
        sum += l->w[(d * rows + row) * l->in + k] * x[k];
    return sum;
}
static double recurrent_share(const struct layer *l, int64_t d, int64_t g, int64_t j, const double *h)
{
    const int64_t row = g * l->hidden + j;
    double sum = 0;

    for (int64_t k = 0; k < l->hidden; k++)
        sum += l->r[(d * l->gates * l->hidden + row) * l->hidden + k] * h[k];
    return sum;
}

/* One step of a sample: h and c become the next. */
static void step(const struct layer *l, int64_t d, const double *x, double *h, double *c)
{
    const char *const *f = l->names + d * l->functions;
    const int64_t n = l->hidden, rows = l->gates * n;
    const double *p = l->p != NULL ? l->p + d * 3 * n : NULL;
    double next[128], reset[128], z[128], r[128];

    for (int64_t j = 0; j < n && l->gates == 3; j++) {
        z[j] = activate(f[0], clip(l, input_share(l, d, 0, j, x, true) + recurrent_share(l, d, 0, j, h)));
        r[j] = activate(f[0], clip(l, input_share(l, d, 1, j, x, true) + recurrent_share(l, d, 1, j, h)));
        reset[j] = r[j] * h[j];
    }
    for (int64_t j = 0; j < n; j++) {
        if (l->gates == 1) {
            next[j] = activate(f[0], clip(l, input_share(l, d, 0, j, x, true) + recurrent_share(l, d, 0, j, h)));
        } else if (l->gates == 3) {
            double t = input_share(l, d, 2, j, x, !l->linear);
            if (l->linear)
                t += r[j] *
                     (recurrent_share(l, d, 2, j, h) + (l->b != NULL ? l->b[d * 2 * rows + rows + 2 * n + j] : 0));
            else
                t += recurrent_share(l, d, 2, j, reset);
            t = activate(f[1], clip(l, t));
            next[j] = (1 - z[j]) * t + z[j] * h[j];
        } else {
            double gate[4], i, forget, o;
            for (int64_t g = 0; g < 4; g++)
                gate[g] = input_share(l, d, g, j, x, true) + recurrent_share(l, d, g, j, h);
            i = activate(f[0], clip(l, gate[0] + (p != NULL ? p[j] * c[j] : 0)));
            forget = activate(f[0], clip(l, gate[2] + (p != NULL ? p[2 * n + j] * c[j] : 0)));
            if (l->input_forget)
                forget = 1 - i;
            c[j] = forget * c[j] + i * activate(f[1], clip(l, gate[3]));
            o = activate(f[0], clip(l, gate[1] + (p != NULL ? p[n + j] * c[j] : 0)));
            next[j] = o * activate(f[2], c[j]);
        }
    }
    memcpy(h, next, (size_t)n * sizeof *h);
}

static void run_plainly(struct layer *l)
{
    const int64_t n = l->hidden;
    double h[128], c[128];

    memset(l->y, 0, (size_t)(l->steps * l->directions * l->batch * n) * sizeof *l->y);
    for (int64_t d = 0; d < l->directions; d++) {
        for (int64_t s = 0; s < l->batch; s++) {
            const int64_t length = l->lengths == NULL ? l->steps : l->lengths[s] < 0 ? 0 : l->lengths[s];
            const int64_t at = (l->layout ? s * l->directions + d : d * l->batch + s) * n;
            for (int64_t j = 0; j < n; j++) {
                h[j] = l->h0 != NULL ? l->h0[at + j] : 0;
                c[j] = l->c0 != NULL ? l->c0[at + j] : 0;
            }
            for (int64_t k = 0; k < length; k++) {
                const int64_t t = l->direction == 1 || d == 1 ? length - 1 - k : k;
                step(l, d, l->x + (l->layout ? s * l->steps + t : t * l->batch + s) * l->in, h, c);
                memcpy(l->y + (l->layout ? (s * l->steps + t) * l->directions + d
                                         : (t * l->directions + d) * l->batch + s) *
                                  n,
                       h, (size_t)n * sizeof *h);
            }
            memcpy(l->yh + at, h, (size_t)n * sizeof *h);
            memcpy(l->yc + at, c, (size_t)n * sizeof *c);
        }
    }
}

/* ------------------------------------------------------------------ the same by the kernel */

enum { MOST = 16 };
struct trial {
    kernel_case c;
    struct guard tensors[MOST];
    double *values[MOST]; /* what the tensors hold, as double */
    uint32_t count;
};

static double *keep(struct trial *t, int64_t count)
{
    double *v = calloc((size_t)count + 1, sizeof *v);

    assert_non_null(v);
    t->values[t->count] = v;
    return v;
}

/* Elements of matrices are small, so that nothing runs away. */
static double *input(struct trial *t, inlay_dtype dtype, uint32_t rank, const int64_t *dims, bool constant)
{
    const double scale = 1000.0 * (constant || t->count == 1 || t->count == 2 ? (double)(1 + dims[rank - 1]) : 1);
    int64_t count = 1;
    double *v;

    for (uint32_t d = 0; d < rank; d++)
        count *= dims[d];
    v = keep(t, count);
    for (int64_t i = 0; i < count; i++)
        v[i] = (double)pick(-999, 999) / scale;
    t->tensors[t->count] = guard_alloc((size_t)(kit_bytes(dtype, count) + 63) & ~(size_t)63);
    convert_from_f64(dtype, t->tensors[t->count].data, 0, count, v, 0);
    convert_to_f64(v, dtype, t->tensors[t->count].data, 0, count);
    kernel_case_input(&t->c, dtype, rank, dims, t->tensors[t->count++].data, constant);
    return v;
}

static double *maybe(struct trial *t, inlay_dtype dtype, uint32_t rank, const int64_t *dims, bool constant)
{
    if (pick(0, 1) == 0)
        return input(t, dtype, rank, dims, constant);
    kernel_case_input(&t->c, INLAY_UNDEFINED, 0, NULL, NULL, false);
    return NULL;
}

static int64_t output(struct trial *t, inlay_dtype dtype, uint32_t rank, const int64_t *dims, bool wanted)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < rank; d++)
        count *= dims[d];
    if (!wanted) {
        kernel_case_output(&t->c, INLAY_UNDEFINED, 0, NULL, NULL);
        return 0;
    }
    (void)keep(t, count);
    t->tensors[t->count] = guard_alloc((size_t)kit_bytes(dtype, count));
    memset(t->tensors[t->count].data, 0xff, (size_t)kit_bytes(dtype, count)); /* NaN */
    kernel_case_output(&t->c, dtype, rank, dims, t->tensors[t->count++].data);
    return count;
}

static void compare(const struct layer *l, const kernel_case *c, uint32_t o, const double *want, int64_t count)
{
    const double tolerance = l->dtype == INLAY_DOUBLE ? 1e-9 : l->dtype == INLAY_FLOAT ? 1e-4 : 2e-2;

    for (int64_t i = 0; i < count; i++) {
        double got = convert_get_f64(l->dtype, c->tensors[KERNEL_CASE_VALUES + o].data, i);
        if (!(fabs(got - want[i]) <= tolerance * (1 + fabs(want[i]))))
            fail_msg("%s %s, %d steps, batch %d, %d inputs, %d hidden, direction %d, layout %d, %u threads: output %u "
                     "element %d is %g, not %g",
                     l->op, inlay_dtype_name(l->dtype), (int)l->steps, (int)l->batch, (int)l->in, (int)l->hidden,
                     (int)l->direction, (int)l->layout, c->threads, o, (int)i, got, want[i]);
    }
}

static void choose_functions(struct trial *t, struct layer *l)
{
    static inlay_str list[6];
    static const uint32_t defaults[3][3] = { { 0, 0, 0 }, { 1, 0, 0 }, { 1, 0, 0 } };
    const bool other = pick(0, 2) == 0 && l->steps < 10; /* some have no bounds, and run away */
    inlay_attr_info *a;

    l->functions = l->gates == 4 ? 3 : l->gates == 3 ? 2 : 1;
    for (uint32_t i = 0; i < l->functions * (uint32_t)l->directions; i++) {
        const int64_t which = other ? pick(0, 10) : defaults[l->functions - 1][i % l->functions];
        l->names[i] = activation_names[which];
        list[i] = (inlay_str){ l->names[i], strlen(l->names[i]) };
    }
    if (!other)
        return;
    a = kernel_case_attr(&t->c, "activations", INLAY_ATTR_STRINGS);
    a->strings = list;
    a->count = l->functions * (uint32_t)l->directions;
}

static void set_attributes(struct trial *t, struct layer *l)
{
    static const char *const directions[] = { "forward", "reverse", "bidirectional" };

    kernel_case_string(&t->c, "direction", directions[l->direction]);
    kernel_case_int(&t->c, "hidden_size", l->hidden);
    kernel_case_int(&t->c, "layout", l->layout);
    l->clip = pick(0, 3) == 0 ? 0.5 : 0;
    if (l->clip != 0)
        kernel_case_float(&t->c, "clip", l->clip);
    l->input_forget = l->gates == 4 && pick(0, 3) == 0;
    l->linear = l->gates == 3 && pick(0, 1) == 0;
    kernel_case_int(&t->c, "input_forget", l->input_forget);
    kernel_case_int(&t->c, "linear_before_reset", l->linear);
    choose_functions(t, l);
}

static void one(const char *op, int64_t gates, bool large)
{
    static const inlay_dtype types[] = { INLAY_FLOAT,  INLAY_FLOAT,   INLAY_FLOAT,
                                         INLAY_DOUBLE, INLAY_FLOAT16, INLAY_BFLOAT16 };
    const inlay_dtype dtype = types[pick(0, 5)];
    struct trial t = { .c = { .op_type = op, .since_version = 22, .threads = (uint32_t)pick(1, 4) } };
    struct layer l = { .op = op,
                       .dtype = dtype,
                       .gates = gates,
                       .steps = pick(0, 9) == 0 ? pick(90, 130) : pick(0, 6),
                       .batch = pick(0, 3) == 0 ? pick(5, 30) : pick(1, 4),
                       .in = pick(1, 40),
                       .direction = pick(0, 2),
                       .hidden = large             ? pick(100, 128)
                                 : pick(0, 3) == 0 ? pick(30, 70)
                                                   : pick(1, 20),
                       .layout = pick(0, 1) };
    const int64_t d = l.directions = l.direction == 2 ? 2 : 1, n = l.hidden;
    const int64_t x[3] = { l.layout ? l.batch : l.steps, l.layout ? l.steps : l.batch, l.in };
    const int64_t w[3] = { d, gates * n, l.in }, r[3] = { d, gates * n, n }, b[2] = { d, 2 * gates * n };
    const int64_t s[3] = { l.layout ? l.batch : d, l.layout ? d : l.batch, n }, p[2] = { d, 3 * n };
    const int64_t y[4] = { l.layout ? l.batch : l.steps, l.layout ? l.steps : d, l.layout ? d : l.batch, n };
    const bool constant = pick(0, 1) == 0;
    int64_t counts[3] = { 0 };

    l.x = input(&t, dtype, 3, x, false);
    l.w = input(&t, dtype, 3, w, constant);
    l.r = input(&t, dtype, 3, r, constant || pick(0, 3) == 0);
    l.b = maybe(&t, dtype, 2, b, constant && pick(0, 3) != 0);
    if (pick(0, 1) == 0) {
        t.tensors[t.count] = guard_alloc((size_t)l.batch * sizeof *l.lengths);
        l.lengths = t.tensors[t.count++].data;
        for (int64_t i = 0; i < l.batch; i++)
            l.lengths[i] = (int32_t)pick(0, l.steps);
        kernel_case_input(&t.c, INLAY_INT32, 1, &l.batch, l.lengths, false);
    } else {
        kernel_case_input(&t.c, INLAY_UNDEFINED, 0, NULL, NULL, false);
    }
    l.h0 = maybe(&t, dtype, 3, s, false);
    l.c0 = gates == 4 ? maybe(&t, dtype, 3, s, false) : NULL;
    l.p = gates == 4 ? maybe(&t, dtype, 2, p, constant) : NULL;
    set_attributes(&t, &l);
    counts[0] = output(&t, dtype, 4, y, pick(0, 3) != 0);
    counts[1] = output(&t, dtype, 3, s, pick(0, 3) != 0);
    if (gates == 4)
        counts[2] = output(&t, dtype, 3, s, pick(0, 3) != 0);
    l.y = calloc((size_t)(l.steps * d * l.batch * n) + 1, sizeof *l.y);
    l.yh = calloc((size_t)(d * l.batch * n) + 1, sizeof *l.yh);
    l.yc = calloc((size_t)(d * l.batch * n) + 1, sizeof *l.yc);
    assert_true(l.y != NULL && l.yh != NULL && l.yc != NULL);
    run_plainly(&l);
    if (kernel_case_prepare(&t.c, &reference_recurrent) != INLAY_OK)
        fail_msg("%s: %s", op, t.c.diag.text);
    for (int again = 0; again < 2; again++) { /* the workspace of the second run is the first one's */
        if (kernel_case_run(&t.c) != INLAY_OK)
            fail_msg("%s: %s", op, t.c.diag.text);
        compare(&l, &t.c, 0, l.y, counts[0]);
        compare(&l, &t.c, 1, l.yh, counts[1]);
        compare(&l, &t.c, 2, l.yc, counts[2]);
    }
    kernel_case_deinit(&t.c);
    for (uint32_t i = 0; i < t.count; i++) {
        guard_free(&t.tensors[i]);
        free(t.values[i]);
    }
    free(l.y);
    free(l.yh);
    free(l.yc);
}

static void test_layers(void **state)
{
    (void)state;
    for (int i = 0; i < 400; i++) {
        one("LSTM", 4, i % 50 == 0);
        one("GRU", 3, i % 50 == 0);
        one("RNN", 1, i % 50 == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_panels),
        cmocka_unit_test(test_panels_too_large),
        cmocka_unit_test(test_layers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
