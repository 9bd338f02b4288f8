/* Sin in regions: row-major, transposed, and in the layout of a convolution. */
#include "compare.h"

static void layouts(void **state)
{
    (void)state;
    compare_expect(&(compare_case){ "Sin", "x : 3,37\na = Neg(x)\nb = Sin(a)\ny = Relu(b)\n-> y" }, 14, NULL);
    compare_expect(&(compare_case){ "Sin", "x : 2,3,5,7\nt = Transpose(x) perm=0,2,3,1\ny = Sin(t)\n-> y" }, 14, NULL);
    compare_expect(&(compare_case){ "Sin", "x : 2,6,9,7\nk = [21,6,3,3]\nc = Conv(x, k)\ny = Sin(c)\n-> y" }, 14, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(layouts) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
