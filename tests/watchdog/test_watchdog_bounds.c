/* The bound of a region's results: results that are right, results that are wrong, and regions that are not compared.
 * */
#include "cmocka_all.h"
#include "graph_script.h"
#include "session/session.h"
#include "watchdog/judge.h"
#include <math.h>

enum { MOST = 4096 };

/* A model whose main graph is one piece, on the reference provider at level 0. */
struct bench {
    struct rig rig;
    program_folder folder;
    piece_machine machine;
    struct piece piece;
    uint32_t nodes[32];
    uint8_t inexact[64];
    enum piece_kind kind;
    const char *why;
    piece_values from, values;
    uint32_t never;
};

static void open_bench(struct bench *bench, const char *script)
{
    const char *const options[] = { "providers", "reference", "level", "0", NULL };
    const graph_node *node = NULL;
    struct wire wire = { 0 };
    struct graph *graph;

    *bench = (struct bench){ .never = 0 };
    script_model(&wire, 21, script);
    bench->rig = rig_open(&wire, options);
    graph = bench->rig.session->model->main;
    assert_true(graph->node_count <= 32 && graph->value_count <= 64);
    for (uint32_t i = 0; i < graph->node_count; i++)
        bench->nodes[i] = i;
    bench->folder.env = &bench->rig.session->env;
    bench->machine = (piece_machine){ &bench->folder, &bench->rig.session->env.providers[0], &bench->never,
                                      UINT64_C(1) << 30, false };
    bench->piece = (struct piece){ graph, bench->nodes, graph->outputs, graph->node_count, graph->output_count };
    bench->kind = piece_classify(&bench->piece, bench->inexact, &bench->why, &node);
    assert_true(piece_values_init(&bench->from, graph));
}

static void close_bench(struct bench *bench)
{
    piece_values_deinit(&bench->values);
    piece_values_deinit(&bench->from);
    program_folder_deinit(&bench->folder);
    rig_close(&bench->rig);
}

static void set_input(struct bench *bench, uint32_t input, inlay_dtype dtype, const char *shape, const void *data,
                      uint64_t bytes)
{
    int64_t dims[INLAY_MAX_RANK];
    const uint32_t rank = mw_dims(shape, dims);

    assert_true(piece_values_set(&bench->from, bench->piece.graph->inputs[input], dtype, rank, dims, data, bytes));
}

/* Judges the results of the reference after `change` has changed output 0. */
static struct verdict judge(struct bench *bench, void (*change)(void *data, int64_t count))
{
    static char data[MOST * 8];
    inlay_tensor_view got[8];
    int64_t dims[8][INLAY_MAX_RANK];
    struct verdict verdict;
    inlay_diag diag = INLAY_DIAG_INIT;
    piece_values plain = { 0 };

    assert_true(piece_values_init(&plain, bench->piece.graph));
    memcpy(plain.infos, bench->from.infos, bench->from.count * sizeof *plain.infos);
    if (piece_compute(&bench->machine, &bench->piece, NULL, &plain, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    for (uint32_t i = 0; i < bench->piece.output_count; i++) {
        const inlay_value_info *info = &plain.infos[bench->piece.outputs[i]];

        for (uint32_t d = 0; d < info->rank; d++)
            dims[i][d] = info->dims[d].value;
        got[i] = (inlay_tensor_view){
            .data = info->data, .bytes = info->data_bytes, .dims = dims[i], .rank = info->rank, .dtype = info->dtype
        };
    }
    assert_true(got[0].bytes <= sizeof data);
    memcpy(data, got[0].data, (size_t)got[0].bytes);
    got[0].data = data;
    if (change != NULL)
        change(data,
               inlay_dtype_bits(got[0].dtype) > 0 ? (int64_t)got[0].bytes * 8 / inlay_dtype_bits(got[0].dtype) : 0);
    piece_values_deinit(&bench->values);
    if (judge_piece(&bench->machine, &bench->piece, bench->inexact, &bench->from, got, &bench->values, &verdict,
                    &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    piece_values_deinit(&plain);
    return verdict;
}

static void percent(void *data, int64_t count)
{
    ((float *)data)[count / 2] *= 1.01F;
}

static void last_place(void *data, int64_t count)
{
    ((float *)data)[count / 2] = nextafterf(((float *)data)[count / 2], INFINITY);
}

static void not_a_number(void *data, int64_t count)
{
    ((float *)data)[count - 1] = NAN;
}

static void one_step(void *data, int64_t count)
{
    ((uint8_t *)data)[count - 1]++;
}

static void two_steps(void *data, int64_t count)
{
    ((uint8_t *)data)[count - 1] = (uint8_t)(((uint8_t *)data)[count - 1] + 2);
}

static void other_integer(void *data, int64_t count)
{
    ((int64_t *)data)[count - 1]++;
}

static void numbers(float *x, size_t count)
{
    uint64_t state = 5;

    for (size_t i = 0; i < count; i++)
        x[i] = (float)(random_below(&state, 2000)) / 500 - 2;
}

/* Floats: rounding errors are right, a percent of an element is not; a NaN is wrong if nothing can overflow. */
static void judges_floats(void **state)
{
    static const char *const scripts[] = {
        "x : 8,64\nw = [64,32]\ny = MatMul(x, w)\n-> y",
        "x : 8,64\nw = [64,32]\nb = [32]\nh = MatMul(x, w)\ni = Add(h, b)\nj = Sigmoid(i)\nv = [32,16]\ny = MatMul(j, "
        "v)\n-> y",
        "x : 8,64\nu = [64,64]\nv = [64,64]\nw = [64,64]\nk = [] 0.015\na = MatMul(x, u)\nb = Mul(a, k)\n"
        "c = MatMul(b, v)\nd = Mul(c, k)\ne = MatMul(d, w)\nf = Mul(e, k)\ny = Exp(f)\n-> y",
        "x : 8,64\ny = Exp(x)\n-> y",
        "x : 8,64\ns = [64]\nb = [64]\nn = LayerNormalization(x, s, b)\ny = Exp(n)\n-> y",
    };
    float x[8 * 64];

    (void)state;
    numbers(x, 8 * 64);
    for (size_t row = 0; row < sizeof scripts / sizeof *scripts; row++) {
        struct bench bench;
        struct verdict verdict;

        open_bench(&bench, scripts[row]);
        assert_int_equal(bench.kind, PIECE_ROUNDED);
        set_input(&bench, 0, INLAY_FLOAT, "8,64", x, sizeof x);
        assert_false(judge(&bench, NULL).wrong);
        assert_false(judge(&bench, last_place).wrong);
        verdict = judge(&bench, percent);
        if (!verdict.wrong)
            fail_msg("script %zu: a percent is not wrong", row);
        assert_true(verdict.error > verdict.bound && verdict.error < fabs(verdict.want) * 0.011);
        assert_true(verdict.at >= 0 && !verdict.unsteady);
        verdict = judge(&bench, not_a_number);
        assert_true(verdict.wrong && isinf(verdict.error));
        close_bench(&bench);
    }
}

/* Results that depend on nothing but the elements are equal. */
static void judges_exact_results(void **state)
{
    static const char *const scripts[] = { "x : 8,64\ny = Transpose(x) perm=1,0\n-> y", "x : 8,64\ny = Relu(x)\n-> y",
                                           "x : 8,64\ny = Slice(x, a, b)\na = i[2] 0,3\nb = i[2] 4,9\n-> y" };
    float x[8 * 64];
    struct bench bench;

    (void)state;
    for (int i = 0; i < 8 * 64; i++)
        x[i] = 1 + (float)i;
    for (size_t row = 0; row < sizeof scripts / sizeof *scripts; row++) {
        open_bench(&bench, scripts[row]);
        assert_int_equal(bench.kind, PIECE_EXACT);
        set_input(&bench, 0, INLAY_FLOAT, "8,64", x, sizeof x);
        assert_false(judge(&bench, NULL).wrong);
        assert_true(judge(&bench, last_place).wrong);
        close_bench(&bench);
    }
    open_bench(&bench, "x : 8,64\ny = ArgMax(x) axis=1\n-> y");
    assert_int_equal(bench.kind, PIECE_EXACT);
    set_input(&bench, 0, INLAY_FLOAT, "8,64", x, sizeof x);
    assert_false(judge(&bench, NULL).wrong);
    assert_true(judge(&bench, other_integer).wrong);
    close_bench(&bench);
}

static void judges_quantized_results(void **state)
{
    float x[8 * 64];
    struct bench bench;

    (void)state;
    numbers(x, 8 * 64);
    open_bench(&bench, "x : 8,64\ns = [] 0.05\nz = uint8[] 100\ny = QuantizeLinear(x, s, z)\n-> y");
    assert_int_equal(bench.kind, PIECE_ROUNDED);
    set_input(&bench, 0, INLAY_FLOAT, "8,64", x, sizeof x);
    assert_false(judge(&bench, NULL).wrong);
    assert_false(judge(&bench, one_step).wrong);
    assert_true(judge(&bench, two_steps).wrong);
    close_bench(&bench);
}

/* Errors that the inputs magnify are right: the difference of nearly equal numbers. */
static void allows_magnified_errors(void **state)
{
    float x[8 * 64];
    struct bench bench;

    (void)state;
    for (int i = 0; i < 8 * 64; i++)
        x[i] = 1000 + (float)i * 1e-4F;
    open_bench(&bench, "x : 8,64\na = [] 0.1\nb = [] 0.3\nc = Mul(x, a)\nd = Div(x, b)\ne = Mul(d, b)\nf = Mul(e, a)\n"
                       "y = Sub(c, f)\n-> y");
    set_input(&bench, 0, INLAY_FLOAT, "8,64", x, sizeof x);
    assert_false(judge(&bench, NULL).wrong);
    assert_false(judge(&bench, last_place).wrong);
    close_bench(&bench);
}

/* Nothing is said about results where a kernel may overflow, but masks are compared. */
static void is_unsure_of_overflows(void **state)
{
    static const struct {
        const char *script;
        float first;
        bool unsure;
    } rows[] = {
        { "x : 8,64\nw = [64,32]\ny = MatMul(x, w)\n-> y", 1e30F, true },
        { "x : 8,64\nw = [64,32]\ny = MatMul(x, w)\n-> y", NAN, true },
        { "x : 8,64\nc = [1] 1e30\ny = Mul(x, c)\n-> y", 1, true },
        { "x : 8,64\nm = [64] @3 -inf\ns = Add(x, m)\ny = Softmax(s)\n-> y", 1, false },
        { "x : 8,64\ny = Exp(x)\n-> y", 1e-40F, false },
    };
    float x[8 * 64];

    (void)state;
    numbers(x, 8 * 64);
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        struct bench bench;
        struct verdict verdict;

        open_bench(&bench, rows[row].script);
        x[0] = rows[row].first;
        x[256] = 3; /* percent() changes the result of this element */
        set_input(&bench, 0, INLAY_FLOAT, "8,64", x, sizeof x);
        assert_false(judge(&bench, NULL).unsure);
        verdict = judge(&bench, percent);
        if (verdict.unsure != rows[row].unsure || verdict.wrong == rows[row].unsure)
            fail_msg("row %zu: wrong %d, unsure %d, error %g, bound %g at %lld", row, verdict.wrong, verdict.unsure,
                     verdict.error, verdict.bound, (long long)verdict.at);
        close_bench(&bench);
    }
}

/* Steps of rounded values, random operators, and strings have no bound. */
static void skips_what_has_no_bound(void **state)
{
    static const char *const rows[][2] = {
        { "x : 8,64\ny = Exp(x)\nz = Floor(y)\n-> z", "rounding errors" },
        { "x : 8,64\ny = Exp(x)\nz = ArgMax(y)\n-> z", "rounding errors" },
        { "x : 8,64\ny = Exp(x)\nc = [] 1.0\nz = Greater(y, c)\n-> z", "rounding errors" },
        { "x : 8,64\ny = RandomNormalLike(x)\n-> y", "random" },
        { "x : string 8\ny = Identity(x)\n-> y", "not tensors of numbers" },
    };

    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        struct bench bench;

        open_bench(&bench, rows[row][0]);
        assert_int_equal(bench.kind, PIECE_SKIPPED);
        assert_non_null(strstr(bench.why, rows[row][1]));
        close_bench(&bench);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(judges_floats),
        cmocka_unit_test(judges_exact_results),
        cmocka_unit_test(judges_quantized_results),
        cmocka_unit_test(allows_magnified_errors),
        cmocka_unit_test(skips_what_has_no_bound),
        cmocka_unit_test(is_unsure_of_overflows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
