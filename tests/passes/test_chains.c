/* Chains of pointwise operators: each is one region, and its results are bitwise equal to those of its nodes
 * executed one by one (option tap makes every value an output, which prevents chains). */
#include "graph_script.h"
#include "session/session.h"

static struct rig open_with(const char *script, const char *tap)
{
    struct wire wire = { 0 };

    script_model(&wire, 17, script);
    return rig_open(&wire,
                    (const char *const[]){ "level", "0", "intra_threads", "2", tap != NULL ? "tap" : NULL, tap, NULL });
}

/* Counts the regions with several nodes. */
static uint32_t count_chains(const struct rig *rig)
{
    const struct partition *partition = &rig->session->main->parts;
    uint32_t n = 0;

    for (uint32_t i = 0; i < partition->region_count; i++)
        n += partition->regions[i].node_count > 1;
    return n;
}

static void expect_same(const char *script, uint32_t chains)
{
    struct rig one = open_with(script, NULL), each = open_with(script, "*");

    if (count_chains(&one) != chains)
        fail_msg("%u chains, expected %u, in\n%s", count_chains(&one), chains, script);
    assert_int_equal(count_chains(&each), 0);
    for (uint32_t seed = 1; seed < 3; seed++) {
        script_feed(&one, seed);
        script_feed(&each, seed);
        rig_run(&one);
        rig_run(&each);
        for (uint32_t i = 0; i < inlay_session_output_count(one.session); i++) {
            inlay_value *got = inlay_context_output(one.context, i), *want = inlay_context_output(each.context, i);
            assert_int_equal(inlay_value_bytes(got), inlay_value_bytes(want));
            if (inlay_value_bytes(got) > 0 &&
                memcmp(inlay_value_data(got), inlay_value_data(want), (size_t)inlay_value_bytes(got)) != 0)
                fail_msg("other values, in\n%s", script);
        }
    }
    rig_close(&one);
    rig_close(&each);
}

static void rows(void **state)
{
    (void)state;
    expect_same("x : 2,3,40\na = Relu(x)\nb = Neg(a)\ny = Tanh(b)\n-> y", 1);
    expect_same("x : 5000\nc = [] 3\na = Mul(x, c)\nb = Add(a, x)\ny = Mul(b, b)\n-> y", 1);
    expect_same("x : 7,1300\nz : 7,1\nw : 1300\na = Add(x, z)\nb = Mul(a, w)\ny = Sub(b, x)\n-> y", 1);
    expect_same("x : 2,3,4,5\nc = [3,1,1]\nd = [5]\na = Mul(c, x)\nb = Add(a, d)\ny = Sigmoid(b)\n-> y", 1);
    expect_same("x : 600,700\na = Add(x, x)\nb = Mul(a, x)\ny = Relu(b)\n-> y", 1); /* both threads */
    expect_same("x : 1\na = Exp(x)\ny = Neg(a)\n-> y", 1);
    expect_same("x : -\na = Exp(x)\ny = Neg(a)\n-> y", 1);
    expect_same("x : 0,4\na = Exp(x)\ny = Neg(a)\n-> y", 1);
    expect_same("x : N,4\nc = [4]\na = Exp(x)\ny = Add(a, c)\n-> y", 1);
    expect_same("x : 2,8\nl = [] 0\nh = [] 2\na = Clip(x, l, h)\nb = Mul(a, a)\ny = Clip(b, l)\n-> y", 1);
    expect_same("x : 2,8\ns = [8]\na = PRelu(x, s)\ny = Neg(a)\n-> y", 1);
    /* A value with two consumers in the chain does not end it. An output, another shape and Softmax do. */
    expect_same("x : 2,8\na = Exp(x)\nb = Neg(a)\nc = Abs(a)\ny = Add(b, c)\n-> y", 1);
    expect_same("x : 2,8\na = Exp(x)\ny = Neg(a)\n-> y, a", 0);
    expect_same("x : 1,8\nz : 4,8\na = Exp(x)\ny = Add(a, z)\n-> y", 0);
    expect_same("x : 2,8\na = Exp(x)\nb = Softmax(a)\nc = Neg(b)\ny = Abs(c)\n-> y", 1);
}

/* Random trees of operators over shapes that broadcast. */
static void random_trees(void **state)
{
    static const char *const unary[] = { "Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Exp" };
    static const char *const binary[] = { "Add", "Sub", "Mul" };
    static const char *const shapes[] = { "3,4,70", "4,1", "70", "3,1,1", "1,4,70", "-" };
    uint64_t seed = 5;

    (void)state;
    for (int round = 0; round < 200; round++) {
        char script[4096] = "x : 3,4,70\n", line[128];
        int nodes = 2 + (int)random_below(&seed, 12), last = 0;

        for (int shape = 0; shape < 6; shape++) {
            (void)snprintf(line, sizeof line, "i%d : %s\n", shape, shapes[shape]);
            (void)strcat(script, line);
        }
        for (int n = 1; n <= nodes; n++, last++) {
            char from[16];

            (void)snprintf(from, sizeof from, last == 0 ? "x" : "n%d", last);
            if (random_unit(&seed) < 0.4f)
                (void)snprintf(line, sizeof line, "n%d = %s(%s)\n", n, unary[random_below(&seed, 6)], from);
            else if (random_unit(&seed) < 0.5f)
                (void)snprintf(line, sizeof line, "n%d = %s(%s, i%d)\n", n, binary[random_below(&seed, 3)], from,
                               (int)random_below(&seed, 6));
            else
                (void)snprintf(line, sizeof line, "n%d = %s(i%d, %s)\n", n, binary[random_below(&seed, 3)],
                               (int)random_below(&seed, 6), from);
            (void)strcat(script, line);
        }
        (void)snprintf(line, sizeof line, "-> n%d\n", last);
        (void)strcat(script, line);
        expect_same(script, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),
        cmocka_unit_test(random_trees),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
