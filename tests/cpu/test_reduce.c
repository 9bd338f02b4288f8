/* Reductions over axes of one element, for which oneDNN has no reduction, and ops after them. */
#define COMPARE_TOLERANCE 1e-6f
#include "compare.h"

static void expect_equal(const char *script)
{
    compare_expect(&(compare_case){ NULL, script }, 13, NULL);
}

static void one_element(void **state)
{
    (void)state;
    expect_equal("x : 4,1\ny = ReduceMean(x) axes=-1, keepdims=1\n-> y");
    expect_equal("x : 4,1\na = Neg(x)\nb = ReduceMean(a) axes=1, keepdims=1\ny = Relu(b)\n-> y");
    expect_equal("x : 4,1\na = ReduceMean(x) axes=1, keepdims=0\ny = Exp(a)\n-> y, a");
    expect_equal("x : 2,3,1,1\ns = i[2] 2,3\na = ReduceSum(x, s) keepdims=0\ny = Add(a, a)\n-> y, a");
    expect_equal("x : 4,N\ny = ReduceMean(x) axes=-1, keepdims=1\n-> y");
}

/* Rows of a sequence that a Transpose, which moves no elements, has made strided. */
static void after_transpose(void **state)
{
    (void)state;
    expect_equal("x : 2,70,5\na = Neg(x)\nt = Transpose(a) perm=0,2,1\nd = Exp(t)\ny = ReduceMean(d) axes=-1,\n-> y");
    expect_equal("x : 3,70,9\nt = Transpose(x) perm=0,2,1\nm = ReduceMean(t) axes=-1,\nd = Sub(t, m)\np = Mul(d, d)\n"
                 "v = ReduceMean(p) axes=2, keepdims=0\n-> v, d");
    expect_equal("x : 2,129,4\nc = i[1] 2\na = Neg(x)\nt = Transpose(a) perm=0,2,1\ny = ReduceSum(t, c)\nz = Relu(y)\n"
                 "-> z");
    expect_equal("x : N,7,5\na = Neg(x)\nt = Transpose(a) perm=0,2,1\ny = ReduceMax(t) axes=-1,\n-> y");
}

static void feed_nonfinite(struct rig *rig)
{
    script_feed_odd(rig, 11, 0.05f);
}

static void feed_empty(struct rig *rig)
{
    script_feed_sized(rig, 0, 11, 0);
}

/* Every reduction over every set of axes: rows, columns, separate axes; with NaN and infinity. */
static void all_axes(void **state)
{
    static const char *const ops[] = { "Mean", "Sum", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSumExp" };
    static const char *const axes[] = { "0,", "1,", "2,", "3,", "0,2", "1,3", "0,1,3", "1,2", "-1,-2,-3", "0,1,2,3" };
    static const char *const first[] = { "", "t = Transpose(x) perm=0,2,3,1\n", "k = [18,6,1,1]\nt = Conv(x, k)\n" };
    char script[256], op[24];

    (void)state;
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (size_t a = 0; a < sizeof axes / sizeof *axes; a++) {
            (void)snprintf(op, sizeof op, "Reduce%s", ops[o]);
            (void)snprintf(script, sizeof script, "x : 2,6,5,3\n%sy = %s(%s) axes=%s keepdims=%d\n-> y", first[a % 3],
                           op, a % 3 == 0 ? "x" : "t", axes[a], (int)(a % 2));
            compare_expect(&(compare_case){ strcmp(ops[o], "Sum") == 0 ? NULL : op, script }, 12,
                           a % 3 == 2 || strcmp(ops[o], "Prod") == 0 ? NULL : feed_nonfinite);
        }
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) { /* several blocks of columns, the last one partial */
        (void)snprintf(op, sizeof op, "Reduce%s", ops[o]);
        (void)snprintf(script, sizeof script, "x : 9,1100\ny = %s(x) axes=0,\n-> y", op);
        compare_expect(&(compare_case){ strcmp(ops[o], "Sum") == 0 ? NULL : op, script }, 12, NULL);
    }
    compare_expect(&(compare_case){ "ReduceLogSum", "x : 3,N,70\na = Abs(x)\ny = ReduceLogSum(a) axes=1,\n-> y" }, 13,
                   NULL);
    compare_expect(&(compare_case){ "ReduceMax", "x : 3,90\ny = ReduceMax(x) axes=1,\nz = ReduceMin(x) keepdims=0\n"
                                                 "-> y, z" },
                   13, feed_nonfinite);
}

static void empty_tensors(void **state)
{
    static const char *const ops[] = { "Sum", "Prod", "L1", "L2", "SumSquare", "Min", "Max", "LogSumExp", "LogSum" };
    char script[96];

    (void)state;
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
        (void)snprintf(script, sizeof script, "x : 3,N,2\ny = Reduce%s(x) axes=1,\nz = Neg(y)\n-> z", ops[o]);
        compare_expect(&(compare_case){ NULL, script }, 12, feed_empty);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_element), cmocka_unit_test(after_transpose),
                                        cmocka_unit_test(all_axes), cmocka_unit_test(empty_tensors) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
