/* Reductions over axes of one element, which oneDNN does not take for reductions, and what stands behind them. */
#include "beside.h"

static void expect_equal(const char *script)
{
    beside_expect(&(beside_row){ NULL, script }, 13, NULL);
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

/* Rows of a sequence whose elements a Transpose, which moves nothing, has left apart. */
static void turned(void **state)
{
    (void)state;
    expect_equal("x : 2,70,5\na = Neg(x)\nt = Transpose(a) perm=0,2,1\nd = Exp(t)\ny = ReduceMean(d) axes=-1,\n-> y");
    expect_equal("x : 3,70,9\nt = Transpose(x) perm=0,2,1\nm = ReduceMean(t) axes=-1,\nd = Sub(t, m)\np = Mul(d, d)\n"
                 "v = ReduceMean(p) axes=2, keepdims=0\n-> v, d");
    expect_equal("x : 2,129,4\nc = i[1] 2\na = Neg(x)\nt = Transpose(a) perm=0,2,1\ny = ReduceSum(t, c)\nz = Relu(y)\n"
                 "-> z");
    expect_equal("x : N,7,5\na = Neg(x)\nt = Transpose(a) perm=0,2,1\ny = ReduceMax(t) axes=-1,\n-> y");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_element), cmocka_unit_test(turned) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
