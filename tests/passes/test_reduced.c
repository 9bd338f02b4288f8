/* Option reduce: matrix multiplications in 8-bit integers; options max_error and error_table: the choice of nodes. */
#include "cmocka_all.h"
#include "passes/reduced_products.h"
#include "rewrite_rows.h"
#include "session/error_table.h"
#include <unistd.h>

enum { ROWS = 5, DEPTH = 24, COLUMNS = 6, LAYERS = 9 };

static const char product[] = "x : 5,24\nw = [24,6]\ny = MatMul(x, w)\n-> y",
                  turned[] = "x : 5,24\nw = [6,24]\nb = [6]\ny = Gemm(x, w, b) transB=1\n-> y";

/* x as DynamicQuantizeLinear rounds it. */
static void round_input(const float *x, int count, double *out)
{
    float low = 0, high = 0, scale, zero;

    for (int i = 0; i < count; i++) {
        low = fminf(low, x[i]);
        high = fmaxf(high, x[i]);
    }
    scale = (high - low) / 255;
    zero = nearbyintf(-low / scale);
    for (int i = 0; i < count; i++)
        out[i] = (double)scale * (double)(fminf(fmaxf(nearbyintf(x[i] / scale) + zero, 0), 255) - zero);
}

/* Element i of a list of floats that need not be aligned. */
static double element(const void *list, int i)
{
    float x;

    memcpy(&x, (const char *)list + (size_t)i * sizeof x, sizeof x);
    return (double)x;
}

/* Column k of the weights in 127 steps. */
static void round_column(const void *w, int k, bool is_turned, double out[DEPTH])
{
    double largest = 0, step;

    for (int i = 0; i < DEPTH; i++)
        largest = fmax(largest, fabs(element(w, is_turned ? k * DEPTH + i : i * COLUMNS + k)));
    step = largest / 127;
    for (int i = 0; i < DEPTH; i++)
        out[i] = step * nearbyint(element(w, is_turned ? k * DEPTH + i : i * COLUMNS + k) / step);
}

static const graph_node *only_node(const struct rig *rig)
{
    assert_int_equal(rig->session->model->main->node_count, 1);
    return rig->session->model->main->nodes[0];
}

static const void *constant(const struct rig *rig, uint32_t input)
{
    return rig->session->model->main->values[only_node(rig)->info.inputs[input]].info.data;
}

/* Every element is that of rounded operands: neither of exact ones, nor of another scale. */
static void check_rounded(const char *script, bool is_turned, const char *reduce, const char *ops)
{
    const struct row row = { reduce, script, ops, 0 };
    struct rig plain = open_row(&row, (const char *const[]){ "level", "0", NULL }),
               reduced = open_row(&row, (const char *const[]){ "level", "0", "reduce", reduce, NULL });
    double x[ROWS * DEPTH], w[DEPTH], exact = 0;
    float input[ROWS * DEPTH];
    const float *is;
    uint64_t seed = 7;
    char text[256];

    list_ops(reduced.session->model->main, text, sizeof text);
    assert_string_equal(text, ops);
    for (int i = 0; i < ROWS * DEPTH; i++)
        input[i] = 2 * random_signed(&seed) + 0.5f;
    rig_floats(&plain, 0, "5,24", input);
    rig_floats(&reduced, 0, "5,24", input);
    rig_run(&plain);
    rig_run(&reduced);
    is = inlay_value_data(inlay_context_output(reduced.context, 0));
    for (int i = 0; i < ROWS * DEPTH; i++)
        x[i] = (double)input[i];
    if (strstr(reduce, "int8") != NULL)
        round_input(input, ROWS * DEPTH, x);
    for (int k = 0; k < COLUMNS; k++) {
        round_column(constant(&plain, 1), k, is_turned, w);
        for (int r = 0; r < ROWS; r++) {
            double sum = is_turned ? element(constant(&plain, 2), k) : 0;

            for (int i = 0; i < DEPTH; i++)
                sum += x[r * DEPTH + i] * w[i];
            assert_true(fabs(sum - (double)is[r * COLUMNS + k]) < 2e-5);
            exact = fmax(exact, fabs((double)((const float *)inlay_value_data(
                                         inlay_context_output(plain.context, 0)))[r * COLUMNS + k] -
                                     (double)is[r * COLUMNS + k]));
        }
    }
    assert_true(exact > 1e-3);
    rig_close(&plain);
    rig_close(&reduced);
}

static void arithmetics(void **state)
{
    (void)state;
    check_rounded(product, false, "op:MatMul=int8", "DynamicQuantizeLinear MatMulInteger Cast Mul Mul");
    check_rounded(turned, true, "*=int8", "DynamicQuantizeLinear MatMulInteger Cast Mul Mul Add");
    check_rounded(product, false, "op:*=weights8", "DequantizeLinear MatMul");
    check_rounded(turned, true, "op:Gemm=weights8", "DequantizeLinear Gemm");
}

/* A convolution of rounded operands, padded with zeros; results within 2e-5. */
static void convolution(void **state)
{
    enum { CHANNELS = 3, FILTERS = 4, SIZE = 5, WINDOW = 3, OUT = 3, TAPS = CHANNELS * WINDOW * WINDOW };
    const struct row row = { "convolution",
                             "x : 1,3,5,5\nw = [4,3,3,3]\nb = [4]\n"
                             "y = Conv(x, w, b) pads=1,1,1,1 strides=2,2\n-> y",
                             NULL, 0 };
    struct rig plain = open_row(&row, (const char *const[]){ "level", "0", NULL }),
               reduced = open_row(&row, (const char *const[]){ "level", "0", "reduce", "op:Conv=int8", NULL });
    const void *w = constant(&plain, 1), *bias = constant(&plain, 2);
    float input[CHANNELS * SIZE * SIZE];
    double x[CHANNELS * SIZE * SIZE], step;
    const float *is;
    uint64_t seed = 9;
    char text[256];

    (void)state;
    list_ops(reduced.session->model->main, text, sizeof text);
    assert_string_equal(text, "DynamicQuantizeLinear ConvInteger Cast Mul Mul Add");
    for (size_t i = 0; i < sizeof input / sizeof input[0]; i++)
        input[i] = 2 * random_signed(&seed) + 0.5f;
    rig_floats(&reduced, 0, "1,3,5,5", input);
    rig_run(&reduced);
    is = inlay_value_data(inlay_context_output(reduced.context, 0));
    round_input(input, CHANNELS * SIZE * SIZE, x);
    for (int at = 0; at < FILTERS * OUT * OUT; at++) {
        const int filter = at / (OUT * OUT), row_of = at / OUT % OUT * 2 - 1, column = at % OUT * 2 - 1;
        double sum = element(bias, filter), largest = 0;

        for (int i = 0; i < TAPS; i++)
            largest = fmax(largest, fabs(element(w, filter * TAPS + i)));
        step = largest / 127;
        for (int i = 0; i < TAPS; i++) {
            const int y = row_of + i / WINDOW % WINDOW, z = column + i % WINDOW;

            if (y >= 0 && y < SIZE && z >= 0 && z < SIZE)
                sum += step * nearbyint(element(w, filter * TAPS + i) / step) *
                       x[(i / (WINDOW * WINDOW) * SIZE + y) * SIZE + z];
        }
        assert_true(fabs(sum - (double)is[at]) < 2e-5);
    }
    rig_close(&plain);
    rig_close(&reduced);
}

/* The message of a session with two options; "": it opens. */
static const char *message(const char *script, const char *const *options)
{
    static inlay_diag diag;
    struct wire wire = { 0 };
    struct rig rig;

    diag = (inlay_diag)INLAY_DIAG_INIT;
    script_model(&wire, 17, script);
    if (rig_try_open(&wire, options, &rig, &diag) == INLAY_OK)
        diag.text[0] = '\0';
    rig_close(&rig);
    return diag.text;
}

static void refused(void **state)
{
    static const char *const items[] = {
        "op:Add=int8", "x : 5,24\nw = [24,6]\nv = Neg(w)\ny = MatMul(x, v)\n-> y", /* no such node; no constant yet */
        "*=int8",      "x : 5,24\nw : 24,6\ny = MatMul(x, w)\n-> y",
        "*=int8",      "x : 5,24\nw = [24,6] @3 inf\ny = MatMul(x, w)\n-> y",
        "*=int8",      "x : 5,24\nw = [24,6]\nb = [5,1]\ny = Gemm(x, w, b)\n-> y",
        "*=int8",      "x : 5,24\nw = [24,6]\ny = Gemm(x, w) alpha=0.5\n-> y",
        "*=int8",      "x : 24,5\nw = [24,6]\ny = Gemm(x, w) transA=1\n-> y",
        "*=weights8",  "x : 1,3,5\nw = [4,3,2]\ny = Conv(x, w)\n-> y",
        "*=int8",      "x : 1,4,5\nw = [4,2,2]\ny = Conv(x, w) group=2\n-> y",
        "*=int8",      "x : 1,3,5\nb : 4\nw = [4,3,2]\ny = Conv(x, w, b)\n-> y",
        "*=int8",      "x : 1,3,5\nw = [4,3,2] @3 inf\ny = Conv(x, w)\n-> y",
    };

    static const char *const values[] = { "reduce",    "*=int4", "reduce",    "int8",  "max_error", "2",
                                          "max_error", "-1",     "max_error", "1e-2x", "max_error", "1e2" };
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i += 2)
        assert_non_null(strstr(message(items[i + 1], (const char *const[]){ "level", "0", "reduce", items[i], NULL }),
                               "option reduce: no MatMul, Gemm or Conv"));
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i += 2) {
        inlay_options *options = NULL;

        assert_int_equal(inlay_options_create(&options, NULL), INLAY_OK);
        assert_int_equal(inlay_options_set(options, values[i], values[i + 1], &diag), INLAY_INVALID_ARGUMENT);
        assert_non_null(strstr(diag.text, values[i + 1]));
        inlay_options_destroy(options);
    }
    assert_non_null(strstr(message(product, (const char *const[]){ "max_error", "1e-2", NULL }), "--errors"));
    assert_string_equal(message(product, (const char *const[]){ "max_error", "0", NULL }), "");
}

/* The rows that save most for their error come first, one for each node. With 99 samples errors count twice: by the
 * logarithm of 10,000 over that of 100. */
static void choice(void **state)
{
    error_row rows[] = {
        { .node = "a", .arithmetic = REDUCED_INT8, .error = 0.01, .saved_ns = 100 },
        { .node = "a", .arithmetic = REDUCED_WEIGHTS8, .error = 0.001, .saved_ns = 90 },
        { .node = "b", .arithmetic = REDUCED_INT8, .error = 0.002, .saved_ns = 50 },
        { .node = "c", .arithmetic = REDUCED_INT8, .error = 0.0001, .saved_ns = 0 },
        { .node = "d", .arithmetic = REDUCED_INT8, .error = (double)INFINITY, .saved_ns = 1e9 },
        { .node = "e", .arithmetic = REDUCED_INT8, .error = 0, .saved_ns = 1 },
    };
    static const struct {
        double limit, sum;
        const char *chosen;
    } cases[] = { { 0.0019, 0, "e" },
                  { 0.0021, 0.002, "ae" }, /* weights8 */
                  { 0.0061, 0.006, "abe" },
                  { 1, 0.006, "abe" } };

    error_table table = { .rows = rows, .count = 6, .samples = 99 };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char chosen[8] = "";

        assert_true(fabs(error_table_choose(&table, cases[i].limit) - cases[i].sum) < 1e-9);
        for (int k = 0; k < 6; k++)
            if (rows[k].chosen)
                strcat(chosen, rows[k].node);
        assert_string_equal(chosen, cases[i].chosen);
        assert_false(rows[0].chosen);
    }
}

/* A perceptron: Tanh of products less the mean of each row. */
static const char *perceptron(void)
{
    static char script[2048];
    size_t used = (size_t)snprintf(script, sizeof script, "t0 : 4,40\nf = [] 0.4\n");

    for (int i = 0; i < LAYERS; i++)
        used += (size_t)snprintf(script + used, sizeof script - used,
                                 "w%d = [40,40]\np%d = MatMul(t%d, w%d)\nm%d = ReduceMean(p%d) axes=1,\n"
                                 "d%d = Sub(p%d, m%d)\ns%d = Mul(d%d, f)\nt%d = Tanh(s%d)\n",
                                 i, i, i, i, i, i, i, i, i, i, i, i + 1, i);
    (void)snprintf(script + used, sizeof script - used, "-> t%d", LAYERS);
    return script;
}

/* The largest difference of the outputs for an input, relative to the largest element of the first. */
static double difference(struct rig *a, struct rig *b, uint64_t seed)
{
    double largest = 0, worst = 0;
    const float *want, *got;

    script_feed(a, seed);
    script_feed(b, seed);
    rig_run(a);
    rig_run(b);
    want = inlay_value_data(inlay_context_output(a->context, 0));
    got = inlay_value_data(inlay_context_output(b->context, 0));
    for (int i = 0; i < 4 * 40; i++) {
        largest = fmax(largest, fabs((double)want[i]));
        worst = fmax(worst, fabs((double)want[i] - (double)got[i]));
    }
    return worst / largest;
}

static uint32_t count_integers(const struct rig *rig)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < rig->session->model->main->node_count; i++)
        count += strcmp(rig->session->model->main->nodes[i]->info.op_type.data, "MatMulInteger") == 0;
    return count;
}

/* A limit that some layers exceed together: others are reduced, and inputs that were not samples stay below it. */
static void held_inputs(void **state)
{
    enum { SAMPLES = 4, HELD = 30 };
    const struct row row = { "perceptron", perceptron(), NULL, 0 };
    struct rig plain = open_row(&row, (const char *const[]){ "level", "0", NULL });
    const struct graph *graph = plain.session->model->main;
    char path[] = "/tmp/inlay-errors-XXXXXX", limit[32];
    error_row rows[LAYERS];
    const error_table table = { .rows = rows, .count = LAYERS, .samples = SAMPLES, .run_ns = 1e6 };
    uint32_t count = 0;
    double sum = 0, worst = 0;
    struct rig reduced;
    const int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    (void)close(fd);
    for (uint32_t i = 0; i < graph->node_count; i++) {
        char item[256];

        if (!reduced_product_fits(graph, graph->nodes[i], REDUCED_INT8))
            continue;
        assert_true(count < LAYERS);
        (void)snprintf(item, sizeof item, "%s=int8", graph->nodes[i]->info.name.data);
        reduced = open_row(&row, (const char *const[]){ "level", "0", "reduce", item, NULL });
        assert_int_equal(count_integers(&reduced), 1);
        rows[count] = (error_row){ .node = graph->nodes[i]->info.name.data,
                                   .weights = reduced_product_hash(graph, graph->nodes[i]),
                                   .saved_ns = 1 };
        for (uint64_t seed = 1; seed <= SAMPLES; seed++)
            rows[count].error = fmax(rows[count].error, difference(&plain, &reduced, seed));
        sum += rows[count++].error;
        rig_close(&reduced);
    }
    assert_int_equal(count, LAYERS);
    assert_int_equal(error_table_write(path, &table, NULL), INLAY_OK);
    (void)snprintf(limit, sizeof limit, "%.6f",
                   sum *= error_table_margin(SAMPLES) / 2); /* for about half of the layers */
    reduced = open_row(&row, (const char *const[]){ "max_error", limit, "error_table", path, NULL });
    count = count_integers(&reduced);
    assert_true(count > 1 && count < LAYERS);
    for (uint64_t seed = 100; seed < 100 + HELD; seed++)
        worst = fmax(worst, difference(&plain, &reduced, seed));
    assert_true(worst > 0 && worst < sum);
    rig_close(&reduced);

    for (uint32_t i = 0; i < LAYERS; i++)
        rows[i].error = 0; /* all are chosen */
    rows[0].weights ^= 1;  /* of another model */
    assert_int_equal(error_table_write(path, &table, NULL), INLAY_OK);
    assert_non_null(strstr(message(row.script, (const char *const[]){ "max_error", "1", "error_table", path, NULL }),
                           "other weights"));
    rows[0].node = "gone";
    assert_int_equal(error_table_write(path, &table, NULL), INLAY_OK);
    assert_non_null(
        strstr(message(row.script, (const char *const[]){ "max_error", "1", "error_table", path, NULL }), "'gone'"));
    assert_int_equal(truncate(path, 20), 0);
    assert_non_null(
        strstr(message(row.script, (const char *const[]){ "max_error", "1", "error_table", path, NULL }), path));
    (void)unlink(path);
    rig_close(&plain);
}

int main(void)
{
    static const struct CMUnitTest tests[] = { cmocka_unit_test(arithmetics), cmocka_unit_test(convolution),
                                               cmocka_unit_test(refused), cmocka_unit_test(choice),
                                               cmocka_unit_test(held_inputs) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
