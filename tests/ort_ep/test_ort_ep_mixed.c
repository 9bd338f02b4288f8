/* One model on provider cpu, the execution provider of a separate library, and a simulated device: what the report says
 * of the library's nodes, and that the chosen assignment is not predicted to be slower than the best one with a single
 * provider, but for the uncertainty of prices. No condition depends on the speed of the machine. */
#include "assigned.h"
#include "keep_plugins.h"
#include "onnx_bytes.h"
#include "random.h"
#include "run_context.h"
#include <math.h>
#include <stdlib.h>

enum { MOST_NODES = 12, MOST_ELEMENTS = 4096, MIXED_GRAPHS = 40 };
/* The margin of a guessed price is 25 % for each place in the order of providers, of which the last is 3
 * (partition/README.md). */
#define UNCERTAINTY (1 + 3 * 0.25)
static const char mixed[] = "cpu,ort_ep,fake,reference";

typedef struct mixed_model {
    onnx_bytes file;
    int64_t size;
} mixed_model;

/* n = -(x * y + x), t = tanh(n), a = |t|, z = a * y */
static void write_chain(mixed_model *model, int64_t size)
{
    static onnx_bytes graph;

    graph = (onnx_bytes){ .count = 0 };
    model->size = size;
    onnx_node(&graph, "Mul", "", "x,y", "m");
    onnx_node(&graph, "Add", "", "m,x", "s");
    onnx_node(&graph, "Neg", "", "s", "n");
    onnx_node(&graph, "Tanh", "", "n", "t");
    onnx_node(&graph, "Abs", "", "t", "a");
    onnx_node(&graph, "Mul", "", "a,y", "z");
    onnx_input(&graph, "x", INLAY_FLOAT, 1, &model->size);
    onnx_input(&graph, "y", INLAY_FLOAT, 1, &model->size);
    onnx_output(&graph, "z", INLAY_FLOAT, 1, &model->size);
    model->file.count = 0;
    assert_int_equal(onnx_file(&model->file, &graph, 17, NULL), 0);
}

/* A random graph of operators of which each provider supports others. Values that no node reads are outputs. */
static void write_random(mixed_model *model, uint64_t *seed)
{
    static const struct {
        const char *op;
        int inputs;
    } kinds[] = {
        { "Mul", 2 }, { "Add", 2 }, { "Neg", 1 }, { "Abs", 1 }, { "Relu", 1 }, { "Tanh", 1 }, { "Sigmoid", 1 }
    };
    static const int64_t sizes[] = { 1, 60, MOST_ELEMENTS };
    const int count = (int)random_between(seed, 2, MOST_NODES);
    bool is_read[MOST_NODES + 2] = { false };
    static onnx_bytes graph;
    char inputs[32], output[16];

    graph = (onnx_bytes){ .count = 0 };
    model->size = sizes[random_below(seed, 3)];
    onnx_input(&graph, "v0", INLAY_FLOAT, 1, &model->size);
    onnx_input(&graph, "v1", INLAY_FLOAT, 1, &model->size);
    for (int i = 0; i < count; i++) {
        const size_t kind = (size_t)random_below(seed, sizeof kinds / sizeof kinds[0]);
        /* mostly the newest value, so that there are chains */
        const int a = random_below(seed, 3) > 0 ? i + 1 : (int)random_below(seed, (uint64_t)i + 2);
        const int b = (int)random_below(seed, (uint64_t)i + 2);

        is_read[a] = true;
        is_read[b] = is_read[b] || kinds[kind].inputs == 2;
        (void)snprintf(inputs, sizeof inputs, kinds[kind].inputs == 2 ? "v%d,v%d" : "v%d", a, b);
        (void)snprintf(output, sizeof output, "v%d", i + 2);
        onnx_node(&graph, kinds[kind].op, "", inputs, output);
    }
    for (int i = 2; i < count + 2; i++) {
        (void)snprintf(output, sizeof output, "v%d", i);
        if (!is_read[i])
            onnx_output(&graph, output, INLAY_FLOAT, 1, &model->size);
    }
    model->file.count = 0;
    assert_int_equal(onnx_file(&model->file, &graph, 17, NULL), 0);
}

static inlay_session *open_mixed(const mixed_model *model, const char *providers, const char *const *pairs)
{
    const char *const common[] = { "plugin_dirs", FAKE_DIR, "providers",     providers, "level", "0",
                                   "cache_dir",   "",       "intra_threads", "1",       NULL };
    inlay_options *options = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;

    keep_plugins();
    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    for (const char *const *pair = common; *pair != NULL; pair += 2)
        assert_int_equal(inlay_options_set(options, pair[0], pair[1], &diag), INLAY_OK);
    if (strstr(providers, "ort_ep") != NULL)
        assert_int_equal(inlay_options_set(options, "ort_ep.library", TEST_EP, &diag), INLAY_OK);
    for (; pairs != NULL && *pairs != NULL; pairs += 2)
        assert_int_equal(inlay_options_set(options, pairs[0], pairs[1], &diag), INLAY_OK);
    if (inlay_session_create_from_bytes(model->file.data, model->file.count, options, &session, &diag) != INLAY_OK)
        fail_msg("%s: %s", providers, diag.text);
    inlay_options_destroy(options);
    return session;
}

/* Runs the model; results is NULL, or gets the elements of all outputs. Returns how many there are. */
static size_t run_mixed(inlay_session *session, const mixed_model *model, float *results)
{
    static float data[2][MOST_ELEMENTS];
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_context *context = NULL;
    size_t count = 0;

    assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
    for (uint32_t i = 0; i < inlay_session_input_count(session); i++) {
        inlay_value *value = NULL;

        for (int64_t k = 0; k < model->size; k++)
            data[i][k] = (float)((k * 7 + 3 * i) % 23 - 11) / 8;
        assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 1, &model->size, data[i], sizeof data[i], &value, &diag),
                         INLAY_OK);
        assert_int_equal(inlay_context_set_input(context, i, value, &diag), INLAY_OK);
        inlay_value_unref(value);
    }
    run_context(context);
    for (uint32_t i = 0; i < inlay_session_output_count(session); i++) {
        const inlay_value *value = inlay_context_output(context, i);

        if (results != NULL)
            memcpy(results + count, inlay_value_data(value), inlay_value_bytes(value));
        count += (size_t)inlay_value_count(value);
    }
    inlay_context_destroy(context);
    return count;
}

static void check_near(const float *got, const float *want, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-5f * (1 + fabsf(want[i]))))
            fail_msg("element %zu is %g, want %g", i, (double)got[i], (double)want[i]);
}

/* The predicted time of a run. */
static double predicted(const inlay_session *session)
{
    const char *at = strstr(explained(session), "\"cost_ns\":");

    assert_non_null(at);
    return strtod(at + strlen("\"cost_ns\":"), NULL);
}

/* Calls fn for each offer of the library in the report: those with a price, or those without. */
static int each_offer(const inlay_session *session, void (*fn)(const char *offer), bool priced)
{
    const char *const begin =
        priced ? "{\"provider\":\"ort_ep\",\"cost_ns\":" : "{\"provider\":\"ort_ep\",\"price\":\"none\"";
    int count = 0;

    for (const char *at = strstr(explained(session), begin); at != NULL; at = strstr(at + 1, begin)) {
        fn(at);
        count++;
    }
    return count;
}

static double price_of(const char *offer)
{
    const char *price = strstr(offer, "\"cost_ns\":");

    return strtod(price + strlen("\"cost_ns\":"), NULL);
}

static void is_unknown(const char *offer)
{
    const char *end = strchr(offer, '}'), *price = strstr(offer, "\"cost_ns\"");

    assert_true(price == NULL || price > end);
}

/* The provider states the time that it has measured. */
static void is_known(const char *offer)
{
    const char *end = strchr(offer, '}'), *claimed = strstr(offer, "\"price\":\"claimed\"");

    if (claimed == NULL || claimed > end)
        fail_msg("a price that is not known: %.*s", (int)(end - offer), offer);
    assert_true(price_of(offer) > 0);
}

/* The provider states a price that follows from the times at other sizes. */
static void is_estimated(const char *offer)
{
    const char *end = strchr(offer, '}'), *model = strstr(offer, "\"price\":\"model\"");

    if (model == NULL || model > end)
        fail_msg("a price that is not estimated: %.*s", (int)(end - offer), offer);
    assert_true(price_of(offer) > 0);
}

static double *prices;
static size_t price_count;

static void keep_price(const char *offer)
{
    assert_true(price_count < 4);
    prices[price_count++] = price_of(offer);
}

/* Runs the library's nodes once. From then on they have prices in this process. */
static void learn(const mixed_model *model)
{
    inlay_session *session = open_mixed(model, "ort_ep,reference", (const char *[]){ "policy", "priority", NULL });

    (void)run_mixed(session, model, NULL);
    inlay_session_destroy(session);
}

static void test_report(void **state)
{
    static const char *const rules[] = { "pin", "op:Mul=ort_ep", "pin", "op:Neg=fake", "pin", "op:Tanh=cpu", NULL };
    static const char *const texts[] = {
        "test_epdoesnotclaimthenode",                         /* of Tanh */
        "test_epclaimsthenode,buthasregisterednokernelforit", /* of Abs */
        "\"provider\":\"ort_ep\",\"nodes\":[",                /* regions */
        "\"provider\":\"fake\",\"nodes\":[",
        "\"provider\":\"cpu\",\"nodes\":[",
    };
    float got[16], want[16];
    static mixed_model model;
    inlay_session *session;

    (void)state;
    write_chain(&model, 8);
    session = open_mixed(&model, mixed, NULL);
    assert_int_equal(each_offer(session, is_unknown, false), 4); /* Mul and Add are one */
    assert_false(runs_on(session, "ort_ep"));
    inlay_session_destroy(session);

    learn(&model);
    session = open_mixed(&model, mixed, rules);
    assert_int_equal(each_offer(session, is_known, true), 4);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strstr(explained(session), texts[i]) == NULL)
            fail_msg("'%s' is not in %s", texts[i], explained(session));
    assert_int_equal(run_mixed(session, &model, got), 8);
    inlay_session_destroy(session);
    session = open_mixed(&model, "reference", NULL);
    (void)run_mixed(session, &model, want);
    inlay_session_destroy(session);
    check_near(got, want, 8);
}

/* Each size that has run has its own price. Other sizes have one as soon as two are known, which is not below the
 * shortest time. */
static void test_prices_by_size(void **state)
{
    static const int64_t sizes[] = { 16, MOST_ELEMENTS, 1024 };
    double known[3][4];
    static mixed_model model;

    (void)state;
    for (int i = 0; i < 3; i++) {
        inlay_session *session;

        write_chain(&model, sizes[i]);
        session = open_mixed(&model, mixed, NULL);
        (void)each_offer(session, i == 0 ? is_unknown : is_estimated, i != 0);
        inlay_session_destroy(session);
        if (i < 2)
            learn(&model);
        session = open_mixed(&model, mixed, NULL);
        (void)each_offer(session, i < 2 ? is_known : is_estimated, true);
        price_count = 0;
        prices = known[i];
        assert_int_equal(each_offer(session, keep_price, true), 4);
        inlay_session_destroy(session);
    }
    for (int offer = 0; offer < 4; offer++) {
        const double least = known[0][offer] < known[1][offer] ? known[0][offer] : known[1][offer];

        assert_true(known[2][offer] >= least);
    }
}

static void test_choice(void **state)
{
    static const char *const single[] = { "cpu,reference", "ort_ep,reference", "fake,reference", "reference" };
    static float got[MOST_NODES * MOST_ELEMENTS], want[MOST_NODES * MOST_ELEMENTS];
    static mixed_model model;
    uint64_t seed = 42;

    (void)state;
    for (int graph = 0; graph < MIXED_GRAPHS; graph++) {
        inlay_session *session;
        double chosen;
        size_t count;

        write_random(&model, &seed);
        learn(&model);
        session = open_mixed(&model, mixed, NULL);
        (void)each_offer(session, is_known, true);
        chosen = predicted(session);
        for (size_t i = 0; i < sizeof single / sizeof single[0]; i++) { /* before a run, which teaches other prices */
            inlay_session *alone = open_mixed(&model, single[i], NULL);

            if (!(chosen <= predicted(alone) * UNCERTAINTY))
                fail_msg("graph %d: %g ns with all providers, %g ns with %s", graph, chosen, predicted(alone),
                         single[i]);
            inlay_session_destroy(alone);
        }
        count = run_mixed(session, &model, got);
        inlay_session_destroy(session);
        session = open_mixed(&model, "reference", NULL);
        (void)run_mixed(session, &model, want);
        inlay_session_destroy(session);
        check_near(got, want, count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_report), cmocka_unit_test(test_prices_by_size),
                                        cmocka_unit_test(test_choice) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
