/* With a cap, no loop uses a higher instruction set. The tests check the selected instances and the results. */
#include "cpu/attention/score_loops.h"
#include "cpu/convolution/sum_loops.h"
#include "cpu/elementwise/element_loops.h"
#include "cpu/normalization/norm_loops.h"
#include "cpu/normalization/row_loops.h"
#include "cpu/pooling/pool_lanes.h"
#include "cpu/pooling/pool_loops.h"
#include "cpu/quantized/byte_loops.h"
#include "operators/conv/conv_loops.h"
#include "operators/recurrent/recurrent_loops.h"
#include "common/resize_loops.h"
#include "simd/convert_loops.h"
#include "cmocka_all.h"

#if defined(__aarch64__)
#define OF_BASELINE(name) &name##_neon
#else
#define OF_BASELINE(name) &name##_c
#endif

static void tables(void **state)
{
    (void)state;
#define TABLE(name) assert_ptr_equal(KERNEL_BEST(name), OF_BASELINE(name));
    TABLE(byte_loops)
    TABLE(conv_loops)
    TABLE(convert_loops)
    TABLE(element_loops)
    TABLE(norm_loops)
    TABLE(pool_lanes)
    TABLE(pool_loops)
    TABLE(recurrent_f32)
    TABLE(recurrent_f64)
    TABLE(resize_f32)
    TABLE(resize_u8)
    TABLE(row_loops)
    TABLE(score_loops)
    TABLE(sum_loops)
#undef TABLE
}

#if defined(__x86_64__)
/* The baseline of x86-64 has no fused multiply-add: (1 + 2^-23)(1 - 2^-23) - 1 is 0 there, and -2^-46 with a fused one.
 */
static void unfused(void **state)
{
    enum { COUNT = 40 };
    float x[COUNT], y[COUNT];

    (void)state;
    for (int i = 0; i < COUNT; i++)
        x[i] = 1 + 0x1p-23f;
    KERNEL_BEST(element_loops)->linear(x, y, COUNT, 1 - 0x1p-23f, -1);
    for (int i = 0; i < COUNT; i++)
        assert_true(y[i] == 0);
#if defined(LOOPS_ARE_OPTIMISED) /* otherwise compilers do not fuse it */
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return;
    element_loops_avx2.linear(x, y, COUNT, 1 - 0x1p-23f, -1);
    for (int i = 0; i < COUNT; i++)
        assert_true(y[i] == -0x1p-46f);
#endif
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables),
#if defined(__x86_64__)
        cmocka_unit_test(unfused),
#endif
    };

    if (cpu_limit_isa("baseline", NULL) != INLAY_OK)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
