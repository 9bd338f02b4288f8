/* recurrent.c - LSTM, GRU and RNN, compared with a plain loop over the formulas of ONNX's documentation, in double:
 * random sizes, attributes, types, lengths, omitted inputs and outputs, threads. Packed matrix multiplication, compared
 * with a plain sum, for each instruction set. Outputs are initialised with NaN; tensors and workspace end at a guard
 * page. */
#include "simd/convert.h"
#include "kernel_case.h"
#include "oracle.h"
#include "random.h"
#include "operators/panels.h"
#include "operators/operators.h"
#include "operators/tables.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

static uint64_t seed = 99;

ORACLE static double element(bool wide, const void *data, int64_t i)
{
    return wide ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

ORACLE static void fill(bool wide, void *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double v = (double)random_between(&seed, -999, 999) / 1000;
        if (wide)
            ((double *)data)[i] = v;
        else
            ((float *)data)[i] = (float)v;
    }
}

/* The same matrix at an odd address has the same packed form. */
static void expect_packed_anywhere(const struct panels *panels, const panels_source *from, int64_t bytes,
                                   const void *packed)
{
    struct guard odd = guard_alloc((size_t)bytes + 1), again = guard_alloc((size_t)panels->bytes);
    panels_source there = *from;

    memcpy(odd.data, from->data, (size_t)bytes); /* one byte larger, so that it begins one byte earlier */
    there.data = odd.data;
    panels_pack(panels, &there, 0, panels->count, again.data);
    assert_memory_equal(again.data, packed, (size_t)panels->bytes);
    guard_free(&odd);
    guard_free(&again);
}

/* `sum`, plus row x by column `line` of the unpacked matrix. */
ORACLE static double product_at(bool wide, const void *x, const panels_source *from, int64_t depth, int64_t line,
                                double sum)
{
    for (int64_t k = 0; k < depth; k++)
        sum += element(wide, x, k) * element(wide, from->data, line * from->line_stride + k * from->k_stride);
    return sum;
}

/* Multiplies rows by packed panels of a random matrix, and compares the result with a plain sum. */
static void check_product(panels_fn fn, bool wide)
{
    const inlay_dtype dtype = wide ? INLAY_DOUBLE : INLAY_FLOAT;
    struct panels panels = { .depth = random_between(&seed, 0, 40),
                             .columns = random_between(&seed, 1, 150),
                             .gates = (uint32_t)random_between(&seed, 1, 4),
                             .wide = wide };
    const bool along = random_between(&seed, 0, 1) == 0 || panels.gates > 1;
    const int64_t rows = random_between(&seed, 1, 14), lanes = wide ? 8 : 16, size = wide ? 8 : 4;
    struct guard guard = guard_alloc((size_t)(panels.depth * panels.columns * panels.gates * size)), x[14], y[14],
                 packed, start;
    const void *x_rows[14];
    void *y_rows[14];
    panels_source from = { .data = guard.data,
                           .dtype = dtype,
                           .line_stride = along ? panels.depth : 1,
                           .k_stride = along ? 1 : panels.columns };
    const bool starts = random_between(&seed, 0, 1) == 0;
    int64_t written;

    assert_true(panels_describe(&panels));
    written = panels.gates == 1 ? panels.columns : panels.stored;
    packed = guard_alloc((size_t)panels.bytes);
    start = guard_alloc((size_t)(panels.stored * size));
    fill(wide, guard.data, panels.depth * panels.columns * panels.gates);
    fill(wide, start.data, panels.stored);
    for (int64_t row = 0; row < rows; row++) {
        x[row] = guard_alloc((size_t)(panels.depth * size));
        y[row] = guard_alloc((size_t)(written * size));
        fill(wide, x[row].data, panels.depth);
        memset(y[row].data, 0xff, (size_t)(written * size));
        x_rows[row] = x[row].data;
        y_rows[row] = y[row].data;
    }
    panels_pack(&panels, &from, 0, panels.count, packed.data);
    expect_packed_anywhere(&panels, &from, panels.depth * panels.columns * panels.gates * size, packed.data);
    if (random_between(&seed, 0, 1) == 0) {
        fn(&panels, packed.data, 0, panels.count / 2, true, rows, x_rows, starts ? start.data : NULL, y_rows);
        fn(&panels, packed.data, panels.count / 2, panels.count, false, rows, x_rows, starts ? start.data : NULL,
           y_rows);
    } else {
        fn(&panels, packed.data, 0, panels.count, random_between(&seed, 0, 1) == 0, rows, x_rows,
           starts ? start.data : NULL, y_rows);
    }
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t j = 0; j < panels.columns * panels.gates; j++) {
            const int64_t gate = j / panels.columns, column = j % panels.columns;
            const int64_t at = (column / lanes * panels.gates + gate) * lanes + column % lanes;
            double want = starts ? element(wide, start.data, at) : 0, got = element(wide, y[r].data, at);
            want = product_at(wide, x[r].data, &from, panels.depth, along ? j : column, want);
            if (!(fabs(got - want) <= (wide ? 1e-12 : 1e-4)))
                fail_msg("depth %d, %d x %u columns, row %d of %d, column %d: %g, not %g", (int)panels.depth,
                         (int)panels.columns, panels.gates, (int)r, (int)rows, (int)j, got, want);
        }
        guard_free(&x[r]);
        guard_free(&y[r]);
    }
    guard_free(&guard);
    guard_free(&packed);
    guard_free(&start);
}

static void test_panels(void **state)
{
    (void)state;
    for (uint32_t wide = 0; wide < 2; wide++)
        for (uint32_t i = 0; panels_product_at(wide != 0, i) != NULL; i++)
            for (int n = 0; n < 400; n++)
                check_product(panels_product_at(wide != 0, i), wide != 0);
}

static void test_panels_too_large(void **state)
{
    struct panels panels = { .depth = INT64_MAX / 8, .columns = 1 << 20, .gates = 4 };

    (void)state;
    assert_false(panels_describe(&panels));
    panels = (struct panels){ .depth = 1, .columns = INT64_MAX - 3, .gates = 3 };
    assert_false(panels_describe(&panels));
}

static const char *const activation_names[] = { "Tanh",      "Sigmoid",         "Relu",       "Affine",
                                                "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid",
                                                "Elu",       "Softsign",        "Softplus" };

struct layer {
    const char *op;
    inlay_dtype dtype;
    int64_t gates, steps, batch, in, hidden, directions, direction, layout;
    double *input, *weights, *r, *b, *h0, *c0, *p; /* as the kernel reads them; b, h0, c0, p may be NULL */
    int32_t *lengths;                              /* or NULL */
    const char *names[6];
    uint32_t functions; /* of a direction */
    double clip;        /* 0: none */
    bool input_forget, linear;
    double *output, *yh, *yc;
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

static double clip(const struct layer *layer, double x)
{
    return layer->clip == 0 ? x : fmax(-layer->clip, fmin(layer->clip, x));
}

/* Row j of gate g: the weighted sum of the input with the input's bias and, on request, the recurrent bias. */
static double input_share(const struct layer *layer, int64_t d, int64_t g, int64_t j, const double *input,
                          bool with_recurrent_bias)
{
    const int64_t row = g * layer->hidden + j, rows = layer->gates * layer->hidden;
    double sum = layer->b != NULL ? layer->b[d * 2 * rows + row] : 0;

    if (layer->b != NULL && with_recurrent_bias)
        sum += layer->b[d * 2 * rows + rows + row];
    for (int64_t k = 0; k < layer->in; k++)
        sum += layer->weights[(d * rows + row) * layer->in + k] * input[k];
    return sum;
}
static double recurrent_share(const struct layer *layer, int64_t d, int64_t g, int64_t j, const double *h)
{
    const int64_t row = g * layer->hidden + j;
    double sum = 0;

    for (int64_t k = 0; k < layer->hidden; k++)
        sum += layer->r[(d * layer->gates * layer->hidden + row) * layer->hidden + k] * h[k];
    return sum;
}

/* One step of a sample: updates h and c. */
static void step(const struct layer *layer, int64_t d, const double *input, double *h, double *c)
{
    const char *const *f = layer->names + d * layer->functions;
    const int64_t n = layer->hidden, rows = layer->gates * n;
    const double *p = layer->p != NULL ? layer->p + d * 3 * n : NULL;
    double next[128], reset[128], z[128], r[128];

    for (int64_t j = 0; j < n && layer->gates == 3; j++) {
        z[j] =
            activate(f[0], clip(layer, input_share(layer, d, 0, j, input, true) + recurrent_share(layer, d, 0, j, h)));
        r[j] =
            activate(f[0], clip(layer, input_share(layer, d, 1, j, input, true) + recurrent_share(layer, d, 1, j, h)));
        reset[j] = r[j] * h[j];
    }
    for (int64_t j = 0; j < n; j++) {
        if (layer->gates == 1) {
            next[j] = activate(
                f[0], clip(layer, input_share(layer, d, 0, j, input, true) + recurrent_share(layer, d, 0, j, h)));
        } else if (layer->gates == 3) {
            double t = input_share(layer, d, 2, j, input, !layer->linear);
            if (layer->linear)
                t += r[j] * (recurrent_share(layer, d, 2, j, h) +
                             (layer->b != NULL ? layer->b[d * 2 * rows + rows + 2 * n + j] : 0));
            else
                t += recurrent_share(layer, d, 2, j, reset);
            t = activate(f[1], clip(layer, t));
            next[j] = (1 - z[j]) * t + z[j] * h[j];
        } else {
            double gate[4], i, forget, o;
            for (int64_t g = 0; g < 4; g++)
                gate[g] = input_share(layer, d, g, j, input, true) + recurrent_share(layer, d, g, j, h);
            i = activate(f[0], clip(layer, gate[0] + (p != NULL ? p[j] * c[j] : 0)));
            forget = activate(f[0], clip(layer, gate[2] + (p != NULL ? p[2 * n + j] * c[j] : 0)));
            if (layer->input_forget)
                forget = 1 - i;
            c[j] = forget * c[j] + i * activate(f[1], clip(layer, gate[3]));
            o = activate(f[0], clip(layer, gate[1] + (p != NULL ? p[n + j] * c[j] : 0)));
            next[j] = o * activate(f[2], c[j]);
        }
    }
    memcpy(h, next, (size_t)n * sizeof *h);
}

static void run_by_definition(struct layer *layer)
{
    const int64_t n = layer->hidden;
    double h[128], c[128];

    memset(layer->output, 0, (size_t)(layer->steps * layer->directions * layer->batch * n) * sizeof *layer->output);
    for (int64_t d = 0; d < layer->directions; d++) {
        for (int64_t s = 0; s < layer->batch; s++) {
            const int64_t length = layer->lengths == NULL  ? layer->steps
                                   : layer->lengths[s] < 0 ? 0
                                                           : layer->lengths[s];
            const int64_t at = (layer->layout ? s * layer->directions + d : d * layer->batch + s) * n;
            for (int64_t j = 0; j < n; j++) {
                h[j] = layer->h0 != NULL ? layer->h0[at + j] : 0;
                c[j] = layer->c0 != NULL ? layer->c0[at + j] : 0;
            }
            for (int64_t k = 0; k < length; k++) {
                const int64_t t = layer->direction == 1 || d == 1 ? length - 1 - k : k;
                step(layer, d, layer->input + (layer->layout ? s * layer->steps + t : t * layer->batch + s) * layer->in,
                     h, c);
                memcpy(layer->output + (layer->layout ? (s * layer->steps + t) * layer->directions + d
                                                      : (t * layer->directions + d) * layer->batch + s) *
                                           n,
                       h, (size_t)n * sizeof *h);
            }
            memcpy(layer->yh + at, h, (size_t)n * sizeof *h);
            memcpy(layer->yc + at, c, (size_t)n * sizeof *c);
        }
    }
}

enum { MOST = 16 };
struct trial {
    kernel_case kernel_case;
    struct guard tensors[MOST];
    double *values[MOST]; /* the elements of the tensors, as double */
    uint32_t count;
};

/* Allocates the elements of the next tensor, as double. */
static double *add_values(struct trial *trial, int64_t count)
{
    double *v = calloc((size_t)count + 1, sizeof *v);

    assert_non_null(v);
    trial->values[trial->count] = v;
    return v;
}

/* Adds a random input and returns its elements. Elements of matrices are small, so that the states do not diverge. */
static double *input(struct trial *trial, inlay_dtype dtype, uint32_t rank, const int64_t *dims, bool constant)
{
    const double scale =
        1000.0 * (constant || trial->count == 1 || trial->count == 2 ? (double)(1 + dims[rank - 1]) : 1);
    int64_t count = 1;
    double *v;

    for (uint32_t d = 0; d < rank; d++)
        count *= dims[d];
    v = add_values(trial, count);
    for (int64_t i = 0; i < count; i++)
        v[i] = (double)random_between(&seed, -999, 999) / scale;
    trial->tensors[trial->count] = guard_alloc((size_t)(kit_bytes(dtype, count) + 63) & ~(size_t)63);
    convert_from_f64(dtype, trial->tensors[trial->count].data, 0, count, v, 0);
    convert_to_f64(v, dtype, trial->tensors[trial->count].data, 0, count);
    kernel_case_input(&trial->kernel_case, dtype, rank, dims, trial->tensors[trial->count++].data, constant);
    return v;
}

/* Adds a random input, or omits it and returns NULL. */
static double *optional_input(struct trial *trial, inlay_dtype dtype, uint32_t rank, const int64_t *dims, bool constant)
{
    if (random_between(&seed, 0, 1) == 0)
        return input(trial, dtype, rank, dims, constant);
    kernel_case_input(&trial->kernel_case, INLAY_UNDEFINED, 0, NULL, NULL, false);
    return NULL;
}

static int64_t output(struct trial *trial, inlay_dtype dtype, uint32_t rank, const int64_t *dims, bool wanted)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < rank; d++)
        count *= dims[d];
    if (!wanted) {
        kernel_case_output(&trial->kernel_case, INLAY_UNDEFINED, 0, NULL, NULL);
        return 0;
    }
    (void)add_values(trial, count);
    trial->tensors[trial->count] = guard_alloc((size_t)kit_bytes(dtype, count));
    memset(trial->tensors[trial->count].data, 0xff, (size_t)kit_bytes(dtype, count)); /* NaN */
    kernel_case_output(&trial->kernel_case, dtype, rank, dims, trial->tensors[trial->count++].data);
    return count;
}

static void compare(const struct layer *layer, const kernel_case *c, uint32_t o, const double *want, int64_t count)
{
    const double tolerance = layer->dtype == INLAY_DOUBLE ? 1e-9 : layer->dtype == INLAY_FLOAT ? 1e-4 : 2e-2;

    for (int64_t i = 0; i < count; i++) {
        double got = convert_get_f64(layer->dtype, c->tensors[KERNEL_CASE_VALUES + o].data, i);
        if (!(fabs(got - want[i]) <= tolerance * (1 + fabs(want[i]))))
            fail_msg("%s %s, %d steps, batch %d, %d inputs, %d hidden, direction %d, layout %d, %u threads: output %u "
                     "element %d is %g, not %g",
                     layer->op, inlay_dtype_name(layer->dtype), (int)layer->steps, (int)layer->batch, (int)layer->in,
                     (int)layer->hidden, (int)layer->direction, (int)layer->layout, c->threads, o, (int)i, got,
                     want[i]);
    }
}

static void choose_functions(struct trial *trial, struct layer *layer)
{
    static inlay_str list[6];
    static const uint32_t defaults[3][3] = { { 0, 0, 0 }, { 1, 0, 0 }, { 1, 0, 0 } };
    const bool other =
        random_between(&seed, 0, 2) == 0 && layer->steps < 10; /* some functions are not bounded, and diverge */
    inlay_attr_info *attribute;

    layer->functions = layer->gates == 4 ? 3 : layer->gates == 3 ? 2 : 1;
    for (uint32_t i = 0; i < layer->functions * (uint32_t)layer->directions; i++) {
        const int64_t which =
            other ? random_between(&seed, 0, 10) : defaults[layer->functions - 1][i % layer->functions];
        layer->names[i] = activation_names[which];
        list[i] = (inlay_str){ layer->names[i], strlen(layer->names[i]) };
    }
    if (!other)
        return;
    attribute = kernel_case_attr(&trial->kernel_case, "activations", INLAY_ATTR_STRINGS);
    attribute->strings = list;
    attribute->count = layer->functions * (uint32_t)layer->directions;
}

static void set_attributes(struct trial *trial, struct layer *layer)
{
    static const char *const directions[] = { "forward", "reverse", "bidirectional" };

    kernel_case_string(&trial->kernel_case, "direction", directions[layer->direction]);
    kernel_case_int(&trial->kernel_case, "hidden_size", layer->hidden);
    kernel_case_int(&trial->kernel_case, "layout", layer->layout);
    layer->clip = random_between(&seed, 0, 3) == 0 ? 0.5 : 0;
    if (layer->clip != 0)
        kernel_case_float(&trial->kernel_case, "clip", layer->clip);
    layer->input_forget = layer->gates == 4 && random_between(&seed, 0, 3) == 0;
    layer->linear = layer->gates == 3 && random_between(&seed, 0, 1) == 0;
    kernel_case_int(&trial->kernel_case, "input_forget", layer->input_forget);
    kernel_case_int(&trial->kernel_case, "linear_before_reset", layer->linear);
    choose_functions(trial, layer);
}

/* A parallel_for() that expects a range for each thread: the host divides a loop into at most count / grain ranges. */
static inlay_status shared_loop(void *ctx, inlay_run *run, int64_t count, int64_t grain, inlay_parallel_fn fn,
                                void *user)
{
    const int64_t threads = ((const kernel_case *)ctx)->plan.max_threads;

    assert_true(grain >= 1 && count / grain >= (count < threads ? count : threads));
    return kernel_case_loop(ctx, run, count, grain, fn, user);
}

static void check_random_layer(const char *op, int64_t gates, bool large)
{
    static const inlay_dtype types[] = { INLAY_FLOAT,  INLAY_FLOAT,   INLAY_FLOAT,
                                         INLAY_DOUBLE, INLAY_FLOAT16, INLAY_BFLOAT16 };
    const inlay_dtype dtype = types[random_between(&seed, 0, 5)];
    struct trial trial = { .kernel_case = {
                               .op_type = op, .since_version = 22, .threads = (uint32_t)random_between(&seed, 1, 4) } };
    struct layer layer = {
        .op = op,
        .dtype = dtype,
        .gates = gates,
        .steps = random_between(&seed, 0, 9) == 0 ? random_between(&seed, 90, 130) : random_between(&seed, 0, 6),
        .batch = random_between(&seed, 0, 3) == 0 ? random_between(&seed, 5, 30) : random_between(&seed, 1, 4),
        .in = random_between(&seed, 1, 40),
        .direction = random_between(&seed, 0, 2),
        .hidden = large                              ? random_between(&seed, 100, 128)
                  : random_between(&seed, 0, 3) == 0 ? random_between(&seed, 30, 70)
                                                     : random_between(&seed, 1, 20),
        .layout = random_between(&seed, 0, 1)
    };
    const int64_t d = layer.directions = layer.direction == 2 ? 2 : 1, n = layer.hidden;
    const int64_t x[3] = { layer.layout ? layer.batch : layer.steps, layer.layout ? layer.steps : layer.batch,
                           layer.in };
    const int64_t w[3] = { d, gates * n, layer.in }, r[3] = { d, gates * n, n }, b[2] = { d, 2 * gates * n };
    const int64_t s[3] = { layer.layout ? layer.batch : d, layer.layout ? d : layer.batch, n }, p[2] = { d, 3 * n };
    const int64_t y[4] = { layer.layout ? layer.batch : layer.steps, layer.layout ? layer.steps : d,
                           layer.layout ? d : layer.batch, n };
    const bool constant = random_between(&seed, 0, 1) == 0;
    int64_t counts[3] = { 0 };

    layer.input = input(&trial, dtype, 3, x, false);
    layer.weights = input(&trial, dtype, 3, w, constant);
    layer.r = input(&trial, dtype, 3, r, constant || random_between(&seed, 0, 3) == 0);
    layer.b = optional_input(&trial, dtype, 2, b, constant && random_between(&seed, 0, 3) != 0);
    if (random_between(&seed, 0, 1) == 0) {
        trial.tensors[trial.count] = guard_alloc((size_t)layer.batch * sizeof *layer.lengths);
        layer.lengths = trial.tensors[trial.count++].data;
        for (int64_t i = 0; i < layer.batch; i++)
            layer.lengths[i] = (int32_t)random_between(&seed, 0, layer.steps);
        kernel_case_input(&trial.kernel_case, INLAY_INT32, 1, &layer.batch, layer.lengths, false);
    } else {
        kernel_case_input(&trial.kernel_case, INLAY_UNDEFINED, 0, NULL, NULL, false);
    }
    layer.h0 = optional_input(&trial, dtype, 3, s, false);
    layer.c0 = gates == 4 ? optional_input(&trial, dtype, 3, s, false) : NULL;
    layer.p = gates == 4 ? optional_input(&trial, dtype, 2, p, constant) : NULL;
    set_attributes(&trial, &layer);
    counts[0] = output(&trial, dtype, 4, y, random_between(&seed, 0, 3) != 0);
    counts[1] = output(&trial, dtype, 3, s, random_between(&seed, 0, 3) != 0);
    if (gates == 4)
        counts[2] = output(&trial, dtype, 3, s, random_between(&seed, 0, 3) != 0);
    layer.output = calloc((size_t)(layer.steps * d * layer.batch * n) + 1, sizeof *layer.output);
    layer.yh = calloc((size_t)(d * layer.batch * n) + 1, sizeof *layer.yh);
    layer.yc = calloc((size_t)(d * layer.batch * n) + 1, sizeof *layer.yc);
    assert_true(layer.output != NULL && layer.yh != NULL && layer.yc != NULL);
    run_by_definition(&layer);
    if (kernel_case_prepare(&trial.kernel_case, &operators_recurrent) != INLAY_OK)
        fail_msg("%s: %s", op, trial.kernel_case.diag.text);
    trial.kernel_case.host.parallel_for = shared_loop;
    for (int again = 0; again < 2; again++) { /* the second run reuses the workspace of the first one */
        if (kernel_case_run(&trial.kernel_case) != INLAY_OK)
            fail_msg("%s: %s", op, trial.kernel_case.diag.text);
        compare(&layer, &trial.kernel_case, 0, layer.output, counts[0]);
        compare(&layer, &trial.kernel_case, 1, layer.yh, counts[1]);
        compare(&layer, &trial.kernel_case, 2, layer.yc, counts[2]);
    }
    for (int sign = -1; sign <= 1 && layer.lengths != NULL && layer.batch > 0 && layer.hidden > 0; sign += 2) {
        layer.lengths[layer.batch - 1] = sign < 0 ? -1 : (int32_t)layer.steps + 1;
        assert_int_equal(kernel_case_run(&trial.kernel_case), INLAY_INVALID_ARGUMENT);
        assert_non_null(strstr(trial.kernel_case.diag.text, "sequence_lens["));
    }
    kernel_case_deinit(&trial.kernel_case);
    for (uint32_t i = 0; i < trial.count; i++) {
        guard_free(&trial.tensors[i]);
        free(trial.values[i]);
    }
    free(layer.output);
    free(layer.yh);
    free(layer.yc);
}

static void test_layers(void **state)
{
    (void)state;
    for (int i = 0; i < 400; i++) {
        check_random_layer("LSTM", 4, i % 50 == 0);
        check_random_layer("GRU", 3, i % 50 == 0);
        check_random_layer("RNN", 1, i % 50 == 0);
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
