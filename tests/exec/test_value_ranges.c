/* Operators over the whole range of floats: results that overflow, vanish or are special values where exact ones do not
 * are wrong. Level 0 is compared with the same operators in double, each provider with level 0. */
#include "each_provider.h"
#include "random.h"
#include <float.h>

/* Operators of x, [8,7], or of x4, the same as [2,4,7,1] (marked by "4"). Those marked by "~" have a relative
 * accuracy over the whole range, even if their result is small. */
static const char *const ranged[] = {
    "Softmax(x)",
    "Softmax(x) axis=0",
    "LogSoftmax(x)",
    "LogSoftmax(x) axis=0",
    "Hardmax(x)",
    "ReduceSum(x, last)",
    "ReduceMean(x, last)",
    "ReduceMean(x, first)",
    "ReduceMax(x, last)",
    "ReduceMin(x, last)",
    "ReduceL1(x, last)",
    "ReduceL2(x, last)",
    "ReduceL2(x, first)",
    "ReduceSumSquare(x, last)",
    "ReduceLogSum(x, last)",
    "ReduceLogSumExp(x, last)",
    "ReduceLogSumExp(x, first)",
    "LpNormalization(x) p=2",
    "LpNormalization(x) p=1 axis=0",
    "LayerNormalization(x, ones)",
    "RMSNormalization(x, ones)",
    "4LRN(x4) size=3",
    "4LRN(x4) size=3 beta=0.5 alpha=0.1",
    "4InstanceNormalization(x4, four, four)",
    "4GroupNormalization(x4, four, four) num_groups=2",
    "4GlobalAveragePool(x4)",
    "4GlobalLpPool(x4) p=2",
    "4MeanVarianceNormalization(x4)",
    "~Softplus(x)",
    "~Softsign(x)",
    "~Sigmoid(x)",
    "HardSigmoid(x)",
    "HardSwish(x)",
    "~Swish(x)",
    "~Swish(x) alpha=-1.702",
    "~Mish(x)",
    "~Gelu(x)",
    "Gelu(x) approximate=tanh",
    "~Elu(x)",
    "~Selu(x)",
    "~Celu(x)",
    "~Tanh(x)",
    "~Erf(x)",
    "~Exp(x)",
    "Log(x)",
    "~Sqrt(x)",
    "~Reciprocal(x)",
    "~Sinh(x)",
    "Cosh(x)",
    "~Asinh(x)",
    "Acosh(x)",
    "~Atan(x)",
    "~Atanh(x)",
    "Pow(x, two)",
    "Pow(x, half)",
    "Pow(x, less)",
    "Floor(x)",
    "Round(x)",
};

enum { OVERFLOWING = 2, ODD_SETS, LARGEST = ODD_SETS + 3, SETS = LARGEST + 2 };

/* Fills one row of 7 values. Sets 0 to 2: values of similar magnitude, whose squares overflow or underflow in some
 * rows. Other sets: values of set 0 and one special value. */
static void fill_range(float *input, int row, size_t set)
{
    static const float sizes[3][8] = { { 1e-17f, 1e-12f, 1e-8f, 1e-3f, 1, 20, 90, 1e4f },
                                       { 1e8f, 1e13f, 1e15f, 1e16f, 1e17f, 1e18f, 0, 3 },
                                       { 1e-45f, 1e-38f, 1e-30f, 1e-19f, 1e19f, 1e20f, 1e30f, 1e37f } };
    static const float odd[] = { NAN, INFINITY, -INFINITY, 3.4028235e38f, -3.4028235e38f };
    for (int i = 0; i < 7; i++) {
        const float size = sizes[set < 3 ? set : 0][row];

        input[i] = size * (i % 3 == 1 ? -1 : 1) * (0.4f + 0.1f * (float)((i * 5 + row) % 7));
    }
    if (set >= ODD_SETS) /* one special value in each row; row 3 consists of it */
        input[row % 7] = odd[set - ODD_SETS];
    for (int i = 0; set >= ODD_SETS && row == 3 && i < 7; i++)
        input[i] = odd[set - ODD_SETS];
}

static void feed_range(struct rig *rig, const void *fed)
{
    const size_t set = *(const size_t *)fed;
    float *input;
    inlay_value *value = NULL;

    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, (const int64_t[]){ 8, 7 }, &value, NULL), INLAY_OK);
    input = inlay_value_data(value);
    for (int row = 0; row < 8; row++)
        fill_range(input + row * 7, row, set);
    rig_bind(rig, 0, value);
}

/* Compares within a factor of 1e-3, subnormal numbers within their precision; the largest number and infinity count as
 * equal. Differences up to `least` are ignored. */
static bool is_close(float got, float want, float least)
{
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want);
    if (fabsf(got) > 3.39e38f && fabsf(want) > 3.39e38f)
        return signbit(got) == signbit(want);
    return fabsf(got - want) <= 1e-3f * fabsf(want) || fabsf(got - want) <= least;
}

static void compare_range(const struct rig *got, const struct rig *want, const char *op, const char *setting,
                          size_t set)
{
    const inlay_value *a = inlay_context_output(got->context, 0), *b = inlay_context_output(want->context, 0);
    const float *input = inlay_value_data(a), *output = inlay_value_data(b);

    assert_int_equal(inlay_value_count(a), inlay_value_count(b));
    for (int64_t i = 0; i < inlay_value_count(b); i++)
        if (!is_close(input[i], output[i], *op == '~' ? 1e-36f : 1e-6f)) {
            print_error("%s, %s, set %zu: element %lld is %g, not %g\n", op, setting, set, (long long)i,
                        (double)input[i], (double)output[i]);
            wrong++;
            break;
        }
}

static void write_range(char *script, size_t room, const char *op, bool wide)
{
    const bool images = *op == '4';
    const char *in = op + (images || *op == '~'), *cast = wide ? "x = Cast(xf) to=11\n" : "";

    (void)snprintf(script, room,
                   "%s : 8,7\n%sshape = i[4] 2,4,7,1\nlast = i[1] 1\nfirst = i[1] 0\nones%s = [7] 1,1,1,1,1,1,1\n"
                   "four%s = [4] 1,1,1,1\ntwo%s = [] 2\nhalf%s = [] 0.5\nless%s = [] -0.75\n%s%s%s = %s\n%s-> y",
                   wide ? "xf" : "x", cast, wide ? "f" : "", wide ? "f" : "", wide ? "f" : "", wide ? "f" : "",
                   wide ? "f" : "",
                   wide ? "ones = Cast(onesf) to=11\nfour = Cast(fourf) to=11\ntwo = Cast(twof) to=11\n"
                          "half = Cast(halff) to=11\nless = Cast(lessf) to=11\n"
                        : "",
                   images ? "x4 = Reshape(x, shape)\n" : "", wide ? "d" : "y", in, wide ? "y = Cast(d) to=1\n" : "");
}

static void whole_range(void **state)
{
    (void)state;
    wrong = 0;
    for (size_t i = 0; i < sizeof ranged / sizeof *ranged; i++) {
        const char *op = ranged[i];
        char script[1024], wide[1400];
        struct sessions sessions = { .script = script };
        struct rig exact;
        bool has_exact;

        write_range(script, sizeof script, op, false);
        write_range(wide, sizeof wide, op, true);
        has_exact = try_open(wide, settings[LEVEL_0].options, &exact); /* Celu accepts float only */
        for (size_t set = 0; set < SETS; set++) {
            const struct rig *level_0;

            if (!random_takes(set + i)) /* other numbers in the same memory */
                continue;
            level_0 = sessions_run(&sessions, LEVEL_0, feed_range, &set);

            if (has_exact && set != OVERFLOWING && set < LARGEST) {
                feed_range(&exact, &set);
                rig_run(&exact);
                compare_range(level_0, &exact, op, "level 0 compared with double", set);
            }
            for (size_t k = 0; k < SETTINGS; k++)
                if (available[k] && (k != VULKAN || (set + i) % 4 == 2 || (*op == '~' && set < ODD_SETS)))
                    compare_range(sessions_run(&sessions, k, feed_range, &set), level_0, op, settings[k].name, set);
        }
        rig_close(&exact);
        sessions_close(&sessions);
    }
    expect_none_wrong();
}

/* The activations in the cells of recurrent operators are separate functions. */
static void tiny_cell(void **state)
{
    const char *script = "x : 1,1,1\nw = [1,1,1] 1\nr = [1,1,1] 0\n"
                         "y = RNN(x, w, r) hidden_size=1 activations='Elu\n-> y";

    (void)state;
    for (size_t k = 0; k < SETTINGS; k++) {
        struct rig rig;

        if (!available[k])
            continue;
        assert_true(try_open(script, settings[k].options, &rig));
        rig_floats(&rig, 0, "1,1,1", (float[]){ -1e-20f });
        rig_run(&rig);
        assert_true(is_close(*(const float *)inlay_value_data(inlay_context_output(rig.context, 0)), -1e-20f, 0));
        rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_range),
        cmocka_unit_test(tiny_cell),
    };

    return cmocka_run_group_tests(tests, find_providers, release_providers);
}
