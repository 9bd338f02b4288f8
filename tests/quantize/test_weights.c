/* Integers from weights: errors within half a step, exact zeros, and compensation that reduces the error of matrix
 * multiplications. */
#include "cmocka_all.h"
#include "random.h"
#include "base/element.h"
#include "quantize/loops.h"
#include "quantize/moments.h"
#include "quantize/refine.h"
#include "quantize/weights.h"
#include <math.h>
#include <stdlib.h>

enum { ROWS = 12, DEPTH = 70, BLOCK = 32, BLOCKS = 3, INPUTS = 300 };

static uint64_t seed = 7;

static void int8_within_half_a_step(void **state)
{
    enum { OUTER = 3, CHANNELS = 5, INNER = 4, COUNT = OUTER * CHANNELS * INNER };
    float w[COUNT], scales[CHANNELS];
    int8_t codes[COUNT];

    (void)state;
    for (int i = 0; i < COUNT; i++)
        w[i] = i / INNER % CHANNELS == 2 ? 0 : random_signed(&seed) * (float)(1 + i / INNER % CHANNELS);
    weights_bytes(w, OUTER, CHANNELS, INNER, 127, codes, scales);
    assert_true(scales[2] == 1); /* zeros */
    for (int i = 0; i < COUNT; i++) {
        const float scale = scales[i / INNER % CHANNELS];

        assert_true(fabsf((float)codes[i] * scale - w[i]) <= scale * 0.5001F);
        assert_true(codes[i] >= -127);
    }
}

/* Weights that are multiples of one step of the whole tensor get the original integers, although no channel's range
 * determines that step. */
static void integers_are_restored(void **state)
{
    enum { CHANNELS = 6, INNER = 50, COUNT = CHANNELS * INNER };
    const float step = 0.00317F;
    float w[COUNT], scales[CHANNELS];
    int8_t codes[COUNT];

    (void)state;
    for (int i = 0; i < COUNT; i++)
        w[i] = (float)(int)(random_signed(&seed) * (float)(20 + 20 * (i / INNER))) * step;
    weights_bytes(w, 1, CHANNELS, INNER, 127, codes, scales);
    for (int i = 0; i < COUNT; i++)
        assert_true(fabsf((float)codes[i] * scales[i / INNER] - w[i]) <= 1e-6F * fabsf(w[i]));
}

static float value(const uint8_t *codes, const float *scales, const uint8_t *zeros, int row, int k)
{
    const int b = row * BLOCKS + k / BLOCK;

    return (float)(codes[row * DEPTH + k] - zeros[b]) * scales[b];
}

static void int4_of_both_layouts(void **state)
{
    float upright[DEPTH * ROWS], lying[ROWS * DEPTH], scales[2][ROWS * BLOCKS];
    uint8_t codes[2][ROWS * DEPTH], zeros[2][ROWS * BLOCKS];
    const weight_rows a = { lying, ROWS, DEPTH, DEPTH, 1, BLOCK, false },
                      b = { upright, ROWS, DEPTH, 1, ROWS, BLOCK, false };

    (void)state;
    for (int row = 0; row < ROWS; row++)
        for (int k = 0; k < DEPTH; k++)
            lying[row * DEPTH + k] = upright[k * ROWS + row] = row == 3 ? 0 : row == 4 ? 2.5F : random_signed(&seed);
    weights_nibbles(&a, NULL, codes[0], scales[0], zeros[0]);
    weights_nibbles(&b, NULL, codes[1], scales[1], zeros[1]);
    assert_memory_equal(codes[0], codes[1], sizeof codes[0]);
    assert_memory_equal(scales[0], scales[1], sizeof scales[0]);
    for (int row = 0; row < ROWS; row++)
        for (int k = 0; k < DEPTH; k++) {
            const float error = value(codes[0], scales[0], zeros[0], row, k) - lying[row * DEPTH + k];

            assert_true(codes[0][row * DEPTH + k] <= 15);
            assert_true(fabsf(error) <= (row == 3 ? 0 : row == 4 ? 1e-3F : 0.2F));
        }
}

/* Computes the upper Cholesky factor of the inverse of the Hessian, by another method than the tested code. */
static void factor_of(double *hessian, float *out)
{
    static double inverse[DEPTH * DEPTH], l[DEPTH * DEPTH];

    for (int column = 0; column < DEPTH; column++) /* Gauss-Jordan elimination */
        for (int row = 0; row < DEPTH; row++)
            inverse[row * DEPTH + column] = row == column;
    for (int column = 0; column < DEPTH; column++) {
        const double pivot = hessian[column * DEPTH + column];

        for (int k = 0; k < DEPTH; k++) {
            hessian[column * DEPTH + k] /= pivot;
            inverse[column * DEPTH + k] /= pivot;
        }
        for (int row = 0; row < DEPTH; row++) {
            const double f = hessian[row * DEPTH + column];

            for (int k = 0; row != column && k < DEPTH; k++) {
                hessian[row * DEPTH + k] -= f * hessian[column * DEPTH + k];
                inverse[row * DEPTH + k] -= f * inverse[column * DEPTH + k];
            }
        }
    }
    for (int i = 0; i < DEPTH; i++) /* inverse = l l' */
        for (int j = 0; j <= i; j++) {
            double sum = inverse[i * DEPTH + j];

            for (int k = 0; k < j; k++)
                sum -= l[i * DEPTH + k] * l[j * DEPTH + k];
            l[i * DEPTH + j] = i == j ? sqrt(sum) : sum / l[j * DEPTH + j];
        }
    for (int i = 0; i < DEPTH; i++)
        for (int j = 0; j < DEPTH; j++)
            out[i * DEPTH + j] = j >= i ? (float)l[j * DEPTH + i] : 0;
}

static void compensation_lowers_the_error_of_products(void **state)
{
    static float x[INPUTS][DEPTH], w[ROWS * DEPTH], importance[DEPTH];
    static float scratch[WEIGHTS_TOGETHER * (2 * DEPTH + WEIGHTS_MOST_BLOCK)], whole[DEPTH * DEPTH];
    static double hessian[DEPTH * DEPTH];
    float scales[ROWS * BLOCKS];
    uint8_t codes[ROWS * DEPTH], zeros[ROWS * BLOCKS];
    const weight_rows rows = { w, ROWS, DEPTH, DEPTH, 1, BLOCK, false };
    static double turned[DEPTH * DEPTH];
    static float factors[2][DEPTH * DEPTH], below[DEPTH * DEPTH];
    int32_t order[DEPTH];
    double errors[4] = { 0, 0, 0, 0 }, loss[4] = { 0, 0, 0, 0 };

    (void)state;
    for (int i = 0; i < INPUTS; i++) { /* correlated inputs, as in real models */
        const float common = random_signed(&seed) * 3;

        for (int k = 0; k < DEPTH; k++)
            x[i][k] = common + random_signed(&seed);
    }
    for (int k = 0; k < ROWS * DEPTH; k++)
        w[k] = random_signed(&seed);
    for (int row = 0; row < DEPTH; row++)
        for (int column = 0; column < DEPTH; column++) {
            for (int i = 0; i < INPUTS; i++)
                hessian[row * DEPTH + column] += (double)x[i][row] * x[i][column] / INPUTS;
            hessian[row * DEPTH + column] += row == column ? 0.01 : 0;
        }
    for (int k = 0; k < DEPTH; k++)
        importance[k] = (float)hessian[k * DEPTH + k];
    for (int k = 0; k < DEPTH; k++) /* the second block, from its end, and the first; an incomplete block is not
                                     * compensated */
        order[k] = k < 2 * BLOCK ? 2 * BLOCK - 1 - k : k;
    for (int row = 0; row < DEPTH; row++)
        for (int column = 0; column < DEPTH; column++)
            turned[row * DEPTH + column] = hessian[order[row] * DEPTH + order[column]];
    for (int k = 0; k < DEPTH * DEPTH; k++)
        below[k] = (float)turned[k];
    factor_of(hessian, factors[0]); /* overwrites hessian */
    factor_of(turned, factors[1]);
    for (int row = 0; row < DEPTH; row++)
        for (int column = 0; column < row; column++)
            factors[1][row * DEPTH + column] = below[row * DEPTH + column];
    for (int way = 0; way < 4; way++) { /* plain, compensated, in another order, with a second pass */
        const weight_inputs in = { importance, factors[way >= 2], way >= 2 ? order : NULL };

        if (way == 0)
            weights_nibbles(&rows, importance, codes, scales, zeros);
        if (way == 3)
            refine_moments(&in, DEPTH, whole);
        for (int64_t row = 0; row < ROWS && way > 0; row += WEIGHTS_TOGETHER) {
            const int64_t count = ROWS - row < WEIGHTS_TOGETHER ? ROWS - row : WEIGHTS_TOGETHER;
            const double one = weights_nibbles_compensated(&rows, &in, row, count, codes, scales, zeros, scratch);

            loss[way] += way < 3 ? one : refine_nibbles(&rows, &in, whole, row, count, codes, scales, zeros, scratch);
        }
        for (int i = 0; i < INPUTS; i++)
            for (int row = 0; row < ROWS; row++) {
                double sum = 0;

                for (int k = 0; k < DEPTH; k++)
                    sum += (value(codes, scales, zeros, row, k) - w[row * DEPTH + k]) * x[i][k];
                errors[way] += sum * sum;
            }
    }
    assert_true(errors[3] < 0.95 * errors[2]);
    for (int way = 1; way < 4; way++) { /* the reported loss is close to the measured one */
        assert_true(errors[way] < 0.5 * errors[0]);
        assert_true(loss[way] > 0.95 * errors[way] / INPUTS && loss[way] < 1.2 * errors[way] / INPUTS);
    }
}

/* Scales that the format requires in float16 are exact float16 values, with little loss of accuracy. */
static void float16_scales(void **state)
{
    static float w[ROWS * DEPTH], scales[2][ROWS * BLOCKS];
    uint8_t codes[2][ROWS * DEPTH], zeros[2][ROWS * BLOCKS];
    double errors[2] = { 0, 0 };

    (void)state;
    for (int i = 0; i < ROWS * DEPTH; i++)
        w[i] = random_signed(&seed) * (i < DEPTH ? 1e-7F : 0.1F); /* a row below the range of float16 */
    for (int way = 0; way < 2; way++) {
        const weight_rows rows = { w, ROWS, DEPTH, DEPTH, 1, BLOCK, way == 1 };

        weights_nibbles(&rows, NULL, codes[way], scales[way], zeros[way]);
        for (int i = DEPTH; i < ROWS * DEPTH; i++)
            errors[way] += pow((double)(value(codes[way], scales[way], zeros[way], i / DEPTH, i % DEPTH) - w[i]), 2);
    }
    assert_true(errors[1] < 1.02 * errors[0]);
    for (int i = 0; i < ROWS * BLOCKS; i++) {
        double back;
        const uint16_t half = element_half(scales[1][i]);

        assert_true(element_number(INLAY_FLOAT16, &half, 0, &back, NULL));
        assert_true((float)back == scales[1][i]);
    }
    for (int i = 0; i < DEPTH; i++)
        assert_true(fabsf(value(codes[1], scales[1], zeros[1], 0, i) - w[i]) <= 3.1e-5F);
}

static void blocked_multiplications(void **state)
{
    enum { ROWS_C = 21, COLUMNS = 37, LONG = 19, LINE = 64 };
    static float a[LINE * LINE], b[LINE * LINE], c[LINE * LINE], want[LINE * LINE];

    (void)state;
    for (int i = 0; i < LINE * LINE; i++) {
        a[i] = random_signed(&seed);
        b[i] = random_signed(&seed);
        c[i] = want[i] = random_signed(&seed);
    }
    for (int turned = 0; turned < 2; turned++) {
        for (int i = 0; i < ROWS_C; i++)
            for (int j = 0; j < COLUMNS; j++)
                for (int k = 0; k < LONG; k++)
                    want[i * LINE + j] -= 0.5F * (turned ? a[k * LINE + i] : a[i * LINE + k]) * b[k * LINE + j];
        blockmul_add(&(struct blockmul){ .c = c,
                                         .a = a,
                                         .b = b,
                                         .rows = ROWS_C,
                                         .columns = COLUMNS,
                                         .depth = LONG,
                                         .c_row = LINE,
                                         .a_row = turned ? 1 : LINE,
                                         .a_step = turned ? LINE : 1,
                                         .b_row = LINE,
                                         .factor = -0.5F });
    }
    for (int i = 0; i < LINE * LINE; i++)
        assert_true(fabsf(c[i] - want[i]) < 1e-4F); /* no change outside the block */
}

/* Two strips and an incomplete one. */
static void factor_of_the_inverse(void **state)
{
    enum { N = 75 };
    static float hessian[N * N], u[N * N];
    static double whole[N * N];

    (void)state;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            whole[i * N + j] = i == j ? 4 + i % 3 : 1.0 / (1 + abs(i - j));
    for (int i = 0; i < N * N; i++)
        hessian[i] = i / N <= i % N ? (float)whole[i] : NAN; /* the lower triangle is not read */
    assert_true(moments_factor(hessian, N, u));
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;

            for (int k = 0; k < N; k++) /* (u' u) hessian */
                for (int l = 0; l < N; l++)
                    sum += (double)u[k * N + i] * (double)u[k * N + l] * whole[l * N + j];
            assert_true(fabs(sum - (i == j)) < 1e-4);
            assert_true(j >= i || u[i * N + j] == 0);
        }
    for (int i = 0; i < N * N; i++)
        hessian[i] = i / N == i % N ? -1 : 0;
    assert_false(moments_factor(hessian, N, u));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(int8_within_half_a_step), cmocka_unit_test(integers_are_restored),
        cmocka_unit_test(int4_of_both_layouts),    cmocka_unit_test(compensation_lowers_the_error_of_products),
        cmocka_unit_test(float16_scales),          cmocka_unit_test(blocked_multiplications),
        cmocka_unit_test(factor_of_the_inverse)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
