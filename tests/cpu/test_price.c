/* Prices of fused attention, and of elementwise chains: a region computes a chain in one loop, so its price has the
 * memory traffic of the chain, not of each operator. If another provider takes an operator out of the chain, the parts
 * cost more than the whole. */
#include "compare.h"
#include "text_buffer.h"
#include "random.h"
#include "simd/cpu.h"
#include <jansson.h>

enum { CHAINS = 24, MAX_LENGTH = 12 };
static uint64_t seed = 7;

enum { NEG = 3 };
static const char *const operators[] = { "Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Add", "Mul", "Sub" };

/* Writes a chain of the operators at list[0 .. length). */
static void write_chain(char *script, size_t bytes, uint32_t side, const uint32_t *list, uint32_t length)
{
    size_t at = (size_t)snprintf(script, bytes, "x : %u,%u\nz : %u,%u\n", side, side, side, side);

    for (uint32_t i = 0; i < length; i++) {
        char input[16] = "x";

        if (i > 0)
            (void)snprintf(input, sizeof input, "t%u", i - 1);
        at += (size_t)snprintf(script + at, bytes - at, "t%u = %s(%s%s)\n", i, operators[list[i]], input,
                               list[i] >= 5 ? ", z" : "");
    }
    (void)snprintf(script + at, bytes - at, "-> t%u", length - 1);
}

/* Opens a session and returns the predicted time of the nodes that cpu runs; *out_nodes: their number. pin: or NULL. */
static double predicted_ns(const char *script, const char *pin, uint32_t *out_nodes)
{
    inlay_explain_options options = { .struct_size = sizeof options, .format = "json" };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct text_buffer output = { 0 };
    struct wire wire = { 0 };
    double ns = 0;
    json_t *json, *stretch;
    struct rig rig;
    size_t i;

    script_model(&wire, 17, script);
    rig = rig_open(&wire, (const char *const[]){ "providers", "cpu,reference", "intra_threads", "1",
                                                 pin != NULL ? "pin" : NULL, pin, NULL });
    assert_int_equal(inlay_session_explain(rig.session, &options, text_buffer_append, &output, &diag), INLAY_OK);
    json = json_loadb(output.data, output.bytes, 0, NULL);
    assert_non_null(json);
    *out_nodes = 0;
    json_array_foreach(json_object_get(json_object_get(json, "main"), "stretches"), i, stretch) {
        if (strcmp(json_string_value(json_object_get(stretch, "provider")), "cpu") != 0)
            continue;
        ns += json_number_value(json_object_get(stretch, "cost_ns"));
        *out_nodes += (uint32_t)json_integer_value(json_object_get(stretch, "nodes"));
    }
    json_decref(json);
    text_buffer_free(&output);
    rig_close(&rig);
    return ns;
}

static void chains_cost_less_than_their_parts(void **state)
{
    static const uint32_t sides[] = { 256, 1024, 2048 };
    char script[1024];

    (void)state;
    for (uint32_t chain = 0; chain < CHAINS; chain++) {
        const uint32_t side = sides[chain % 3], length = 4 + random_below(&seed, MAX_LENGTH - 3);
        uint32_t list[MAX_LENGTH], nodes;
        double alone = 0, whole, before = 0;

        for (uint32_t i = 0; i < length; i++) {
            do
                list[i] = (uint32_t)random_below(&seed, sizeof operators / sizeof *operators);
            while (i > 0 && list[i] == NEG && list[i - 1] == NEG); /* the optimiser removes both */
            write_chain(script, sizeof script, side, &list[i], 1);
            alone += predicted_ns(script, NULL, &nodes);
        }
        write_chain(script, sizeof script, side, list, length);
        whole = predicted_ns(script, NULL, &nodes);
        if (nodes == 0 || whole > 0.9 * alone) /* prices are those of this CPU, measured while other tests run */
            fail_msg("%.0f ns for %u nodes, which cost %.0f ns as models of one node:\n%s", whole, nodes, alone,
                     script);
        for (uint32_t i = 1; i <= length; i++) { /* a longer chain never costs less */
            write_chain(script, sizeof script, side, list, i);
            whole = predicted_ns(script, NULL, &nodes);
            if (whole < before * 0.999)
                fail_msg("%.0f ns, but %.0f ns without the last node:\n%s", whole, before, script);
            before = whole;
        }
    }
}

static void a_node_taken_out_saves_nothing(void **state)
{
    char script[1024];

    (void)state;
    for (uint32_t chain = 0; chain < CHAINS; chain++) {
        const uint32_t length = 5 + random_below(&seed, MAX_LENGTH - 4), taken = 1 + random_below(&seed, length - 2);
        uint32_t list[MAX_LENGTH], nodes, left;
        double whole, parts;

        for (uint32_t i = 0; i < length; i++)
            list[i] = i % 3 == 2 ? 5 : 2; /* Tanh and Add: the optimiser removes none of them, nor a Relu after them */
        list[taken] = 0;
        write_chain(script, sizeof script, 1024, list, length);
        whole = predicted_ns(script, NULL, &nodes);
        parts = predicted_ns(script, "op:Relu=reference", &left);
        assert_int_equal(left, nodes - 1);
        if (parts <= whole)
            fail_msg("%.0f ns without node %u, %.0f ns with it:\n%s", parts, taken, whole, script);
    }
}

static uint32_t draw(uint32_t low, uint32_t high)
{
    return (uint32_t)random_between(&seed, low, high);
}

/* A random convolution or matrix multiplication. */
static void write_layer(char *script, size_t bytes)
{
    static const uint32_t taps[] = { 1, 3, 3, 5, 7 };
    const uint32_t kind = draw(0, 4), kernel = taps[draw(0, 4)], pad = kernel / 2, group = kind == 2 ? 4 : 1,
                   side = draw(7, 46), stride = draw(1, 2), in = group * draw(1, 40), out = group * draw(1, 40);

    if (kind == 0)
        (void)snprintf(script, bytes, "x : %u,%u\nw = [%u,%u]\nc = [%u]\ny = Gemm(x, w, c)\n-> y", draw(1, 64), 8 * in,
                       8 * in, 8 * out, 8 * out);
    else if (kind == 1)
        (void)snprintf(script, bytes, "x : 2,%u,%u\nz : 2,%u,%u\ny = MatMul(x, z)\n-> y", draw(1, 64), 4 * in, 4 * in,
                       4 * out);
    else
        (void)snprintf(script, bytes,
                       "x : 1,%u,%u,%u\nw = [%u,%u,%u,%u]\n"
                       "y = Conv(x, w) pads=%u,%u,%u,%u, strides=%u,%u, group=%u\n-> y",
                       in, side, side, kind == 3 ? in : out, kind == 3 ? 1 : in / group, kernel, kernel, pad, pad, pad,
                       pad, stride, stride, kind == 3 ? in : group);
}

static json_t *explain_layer(const char *script, const char *threads)
{
    const inlay_explain_options options = { .struct_size = sizeof options,
                                            .format = "json",
                                            .flags = INLAY_EXPLAIN_KERNELS };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct text_buffer output = { 0 };
    struct wire wire = { 0 };
    struct rig rig;
    json_t *json;

    script_model(&wire, 17, script);
    rig = rig_open(&wire, (const char *const[]){ "providers", "cpu,reference", "policy", "priority", "intra_threads",
                                                 threads, "cache_dir", "", NULL });
    assert_int_equal(inlay_session_explain(rig.session, &options, text_buffer_append, &output, &diag), INLAY_OK);
    json = json_loadb(output.data, output.bytes, 0, NULL);
    assert_non_null(json);
    text_buffer_free(&output);
    rig_close(&rig);
    return json;
}

/* The time of the kernel that `inlay explain --kernels` prints is the price of the node, apart from entering the
 * region, for any number of threads. */
static void kernels_have_the_price_of_their_node(void **state)
{
    enum { ENTER_NS = 200 };
    const uint32_t rounds = random_rounds(60);
    uint32_t compared = 0;

    (void)state;
    for (uint32_t n = 0; n < rounds; n++) {
        const json_t *node, *kernel;
        char script[512];
        json_t *json;
        size_t i;

        write_layer(script, sizeof script);
        json = explain_layer(script, n % 2 == 0 ? "1" : "2");
        json_array_foreach(json_object_get(json_object_get(json, "main"), "nodes"), i, node) {
            const double price = json_number_value(json_object_get(json, "cost_ns"));
            double ns;

            /* A price cannot know that the errors with these weights exclude a kernel. */
            if ((kernel = json_object_get(node, "kernel")) == NULL || json_object_get(kernel, "why") != NULL)
                continue;
            ns = json_number_value(json_object_get(kernel, "ns"));
            compared++;
            if (!(ns > 0 && ns <= price && price <= 1.001 * ns + ENTER_NS))
                fail_msg("kernel %s takes %.0f ns, and the node %.0f ns:\n%s",
                         json_string_value(json_object_get(kernel, "name")), ns, price, script);
        }
        json_decref(json);
    }
    assert_true(compared > rounds / 2);
}

/* Attention that the host fused: its price grows with the square of the tokens. */
static void attention_costs_its_scores(void **state)
{
    double ns[2];

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t tokens = i == 0 ? 128 : 512;
        char script[300];
        uint32_t nodes;

        (void)snprintf(script, sizeof script,
                       "q : 1,12,%u,32\nk : 1,12,%u,32\nv : 1,12,%u,32\nt = Transpose(k) perm=0,1,3,2\n"
                       "s = MatMul(q, t)\np = Softmax(s) axis=-1\ny = MatMul(p, v)\n-> y",
                       tokens, tokens, tokens);
        ns[i] = predicted_ns(script, NULL, &nodes);
        assert_int_equal(nodes, 1);
    }
    if (!(ns[1] > 10 * ns[0] && ns[1] < 20 * ns[0]))
        fail_msg("%.0f ns for 128 tokens, %.0f ns for 512", ns[0], ns[1]);
}

/* Bytes are multiplied as 16-bit integers, at least as fast as floats, also if no matrix is constant. */
static void integers_cost_as_floats(void **state)
{
    static const char *const models[] = {
        "a : 256,768\nb : 768,768\ny = MatMul(a, b)\n-> y",
        "a : uint8 256,768\nb : uint8 768,768\ny = MatMulInteger(a, b)\n=> y",
    };
    double ns[2];

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t nodes;

        ns[i] = predicted_ns(models[i], NULL, &nodes);
        assert_int_equal(nodes, 1);
    }
    if (!(ns[1] < 3 * ns[0]))
        fail_msg("%.0f ns for floats, %.0f ns for bytes", ns[0], ns[1]);
}

/* A row of a normalisation costs less than the start of one in provider reference (operators/work.def), which would
 * otherwise get short rows. */
static void short_rows_of_norms_are_cheap(void **state)
{
    enum { REFERENCE_ROW_NS = 22 };

    (void)state;
    if (!cpu_has(CPU_AVX512))
        skip();
    for (uint32_t n = 0; n < random_rounds(30); n++) {
        const uint32_t rows = draw(200, 4000), width = draw(3, 24);
        char script[200];
        uint32_t nodes;
        double ns;

        (void)snprintf(script, sizeof script,
                       "x : %u,%u\ns = [%u]\nb = [%u]\ny = LayerNormalization(x, s, b) axis=-1\n-> y", rows, width,
                       width, width);
        ns = predicted_ns(script, NULL, &nodes);
        if (!(ns < REFERENCE_ROW_NS * (double)rows))
            fail_msg("%.0f ns for %u rows of %u", ns, rows, width);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_cost_less_than_their_parts),
        cmocka_unit_test(a_node_taken_out_saves_nothing),
        cmocka_unit_test(kernels_have_the_price_of_their_node),
        cmocka_unit_test(attention_costs_its_scores),
        cmocka_unit_test(integers_cost_as_floats),
        cmocka_unit_test(short_rows_of_norms_are_cheap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
