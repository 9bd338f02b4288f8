/* Normalisations with constant operands, with a residual before them, and by the mean square, on cpu compared with the
 * reference. */
#include "graph_script.h"
#include "session/session.h"

static const char *provider_of(const struct rig *rig, const char *op_type)
{
    const struct partition *partition = &rig->session->main->parts;

    for (uint32_t i = 0; i < partition->region_count; i++)
        for (uint32_t k = 0; k < partition->regions[i].node_count; k++)
            if (strstr(rig->session->model->main->nodes[partition->regions[i].nodes[k]]->info.op_type.data, op_type) !=
                NULL)
                return rig->session->providers[partition->regions[i].provider].name;
    return "";
}

static void expect_same(const char *script, const char *op_type, const char *threads)
{
    struct rig rig[2];

    for (int i = 0; i < 2; i++) {
        struct wire wire = { 0 };

        script_model(&wire, 23, script);
        rig[i] = rig_open(&wire, i == 0 ? (const char *const[]){ "providers", "cpu,reference", "policy", "priority",
                                                                 "intra_threads", threads, NULL }
                                        : (const char *const[]){ "providers", "reference", "level", "0", NULL });
        script_feed(&rig[i], 3);
        rig_run(&rig[i]);
    }
    if (strcmp(op_type, "LRN") != 0) /* cpu has no kernel for it */
        assert_string_equal(provider_of(&rig[0], op_type), "cpu");
    for (uint32_t o = 0; o < inlay_session_output_count(rig[1].session); o++) {
        inlay_value *got = inlay_context_output(rig[0].context, o), *want = inlay_context_output(rig[1].context, o);
        const float *input = inlay_value_data(got), *output = inlay_value_data(want);

        assert_int_equal(inlay_value_bytes(got), inlay_value_bytes(want));
        for (int64_t i = 0; i < inlay_value_count(got); i++)
            if (!(fabsf(input[i] - output[i]) <= 4e-6f * (1 + fabsf(output[i]))))
                fail_msg("element %lld of output %u is %g, not %g, in\n%s", (long long)i, o, (double)input[i],
                         (double)output[i], script);
    }
    rig_close(&rig[0]);
    rig_close(&rig[1]);
}

/* Constants of a BatchNormalization; no variance is negative. */
#define BATCH(n) "g = [" n "]\nb = [" n "]\nm = [" n "]\nu = [" n "]\nv = Abs(u)\n"

static void against_reference(void **state)
{
    static const struct {
        const char *script, *op;
    } rows[] = {
        { "x : 2,70,67\nz : 2,70,67\ng = [67]\nb = [67]\ns = Add(z, x)\ny = LayerNormalization(s, g, b)\n-> y",
          "SkipLayer" },
        { "x : 1,5,16\nz : 1,5,16\ng = [16]\nb = [16]\nc = [16]\nw = [16,16]\np = MatMul(x, w)\nq = Add(p, c)\n"
          "s = Add(z, q)\nn = LayerNormalization(s, g, b)\nv = [16,16]\nt = MatMul(n, v)\ny = Add(t, s)\n-> y",
          "SkipLayer" },
        { "x : 3,16\nz : 3,16\ng = [16]\ns = Add(z, x)\nn = LayerNormalization(s, g)\ny = Add(n, s)\n-> y, n",
          "SkipLayer" },
        { "x : 2,3,33\ng = [33]\ny = RMSNormalization(x, g)\n-> y", "RMSNorm" },
        { "x : 2,3,33\ng = [3,33]\ny = RMSNormalization(x, g) axis=1\n-> y", "RMSNorm" },
        { "x : N,3,5\ng = [3,5]\nb = [3,5]\ny = LayerNormalization(x, g, b) axis=1\n-> y", "LayerNorm" },
        { "x : 2,3,5\ng = [2,3,5]\ny = LayerNormalization(x, g) axis=-3\n-> y", "LayerNorm" },
        { "x : 2,5\ng : 5\nb : 5\na = Tanh(x)\nn = LayerNormalization(a, g, b)\ny = Tanh(n)\n-> y", "LayerNorm" },
        { "x : 7\ng = [7]\ny = LayerNormalization(x, g)\n-> y", "LayerNorm" },
        { "x : 2,3,4,5\nt = Transpose(x) perm=0,2,3,1\ng = [5,3]\ny = LayerNormalization(t, g) axis=2\n-> y",
          "LayerNorm" },
        { "x : 2,7,9\ny = LRN(x) size=3 alpha=0.1\n-> y", "LRN" },
        { "x : 2,7,3,2,4\na = Tanh(x)\nn = LRN(a) size=5 alpha=0.5 bias=2.0\ny = Neg(n)\n-> y", "LRN" },
        { "x : 1,16,8,8\nw = [24,16,3,3]\nc = Conv(x, w)\ny = LRN(c) size=5 alpha=0.5\n-> y", "LRN" },
        { "x : 400,257\ng = [257]\na = Tanh(x)\nb = RMSNormalization(a, g) epsilon=0.01\ny = Tanh(b)\n-> y",
          "RMSNorm" },
        { "x : 2,S,33\nz : 2,S,33\ng = [33]\nb = [33]\na = Add(x, b)\ns = Add(a, z)\nn = RMSNormalization(s, g)\n"
          "t = Tanh(n)\ny = Add(s, t)\n-> y",
          "SkipSimplified" },
        { "x : 2,70,5,7\n" BATCH("70") "n = BatchNormalization(x, g, b, m, v)\ny = Relu(n)\n-> y", "BatchNorm" },
        { "x : 2,70,130,7\n" BATCH("70") "a = Tanh(x)\ny = BatchNormalization(a, g, b, m, v) epsilon=0.1\n-> y",
          "BatchNorm" },
        { "x : 3,8,9,11\n" BATCH("37") "w = [37,8,3,3]\nc = Conv(x, w) kernel_shape=3,3\nt = Sigmoid(c)\n"
                                       "n = BatchNormalization(t, g, b, m, v)\nr = Relu(n)\ny = Tanh(r)\n-> y",
          "BatchNorm" },
        { "x : 1,8,40,40\n" BATCH("1100") "w = [1100,8,1,1]\nc = Conv(x, w)\nt = Sigmoid(c)\n"
                                          "y = BatchNormalization(t, g, b, m, v)\n-> y",
          "BatchNorm" },
        { "x : 2,19,33\n" BATCH("19") "n = BatchNormalization(x, g, b, m, v)\ny = LeakyRelu(n)\n-> y", "BatchNorm" },
        { "x : 2,5,3,4,6\n" BATCH("5") "y = BatchNormalization(x, g, b, m, v)\n-> y", "BatchNorm" },
        { "x : N,1300\n" BATCH("1300") "y = BatchNormalization(x, g, b, m, v)\n-> y", "BatchNorm" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        expect_same(rows[i].script, rows[i].op, "1");
        expect_same(rows[i].script, rows[i].op, "2");
    }
}

/* Normalisations as separate nodes, at level 0 and fused, on both providers: the bits must be equal. */
static void fused_bits(void **state)
{
    static const char *const scripts[] = {
        "x : 3,7,97\ne = [] 0.00001\ng = [97]\nb = [97]\nm = ReduceMean(x) axes=-1, keepdims=1\nd = Sub(x, m)\n"
        "q = Mul(d, d)\nv = ReduceMean(q) axes=-1, keepdims=1\na = Add(v, e)\ns = Sqrt(a)\nn = Div(d, s)\n"
        "t = Mul(n, g)\ny = Add(t, b)\n-> y",
        "x : 300,1300\ne = [] 0.01\ng = [1300]\nm = ReduceMean(x) axes=1, keepdims=1\nd = Sub(x, m)\n"
        "q = Mul(d, d)\nv = ReduceMean(q) axes=1, keepdims=1\na = Add(v, e)\ns = Sqrt(a)\nn = Div(d, s)\n"
        "y = Mul(n, g)\n-> y",
        ("x : 2,5,65\ne = [] 0.01\ng = [65]\nq = Mul(x, x)\nv = ReduceMean(q) axes=2, keepdims=1\na = Add(v, e)\n"
         "s = Sqrt(a)\nr = Reciprocal(s)\nn = Mul(x, r)\ny = Mul(n, g)\n-> y"),
        "x : 2,3,4,33\na = ReduceMean(x) axes=-1, keepdims=0\nb = ReduceMean(x) axes=2,3, keepdims=1\n-> a, b",
    };

    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        struct rig rig[4];

        for (int k = 0; k < 4; k++) {
            struct wire wire = { 0 };

            script_model(&wire, 13, scripts[i]);
            rig[k] =
                rig_open(&wire, (const char *const[]){ "providers", k < 2 ? "reference" : "cpu,reference", "policy",
                                                       "priority", "level", k % 2 == 0 ? "0" : "99", NULL });
            script_feed(&rig[k], 5);
            rig_run(&rig[k]);
        }
        for (uint32_t o = 0; o < inlay_session_output_count(rig[0].session); o++) {
            inlay_value *want = inlay_context_output(rig[0].context, o);

            for (int k = 1; k < 4; k++) {
                inlay_value *got = inlay_context_output(rig[k].context, o);

                assert_int_equal(inlay_value_bytes(got), inlay_value_bytes(want));
                if (memcmp(inlay_value_data(got), inlay_value_data(want), inlay_value_bytes(want)) != 0)
                    fail_msg("the bits differ at level %d on %s in\n%s", k % 2 * 99, k < 2 ? "reference" : "cpu",
                             scripts[i]);
            }
        }
        for (int k = 0; k < 4; k++)
            rig_close(&rig[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(against_reference), cmocka_unit_test(fused_bits) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
