/* bench_elementwise - nanoseconds per element of elementwise kernels on one thread. Operands are in the cache, except
 * in the 4096 x 4096 row, which measures memory. Not a test. */
#include "simd/convert.h"
#include "kernel_case.h"
#include "operators/operators.h"
#include "operators/tables.h"
#include <stdio.h>
#include <time.h>

enum { ROUNDS = 15, REPEATS = 20 };

static double now(void)
{
    struct timespec timespec;
    clock_gettime(CLOCK_MONOTONIC, &timespec);
    return 1e9 * (double)timespec.tv_sec + (double)timespec.tv_nsec;
}

struct shape {
    uint32_t rank;
    int64_t dims[4];
};

static const struct row {
    const char *op_type;
    const kit_table *table;
    inlay_dtype in, out;
    uint32_t inputs;
    struct shape shapes[3]; /* the first is that of the output */
} rows[] = {
#define SAME                                                                                                           \
    {                                                                                                                  \
        2,                                                                                                             \
        {                                                                                                              \
            64, 1024                                                                                                   \
        }                                                                                                              \
    }
    { "Add", &operators_arithmetic, INLAY_FLOAT, INLAY_FLOAT, 2, { SAME, SAME } },
    { "Add", &operators_arithmetic, INLAY_FLOAT, INLAY_FLOAT, 2, { { 2, { 4096, 4096 } }, { 2, { 4096, 4096 } } } },
    { "Add", &operators_arithmetic, INLAY_FLOAT, INLAY_FLOAT, 2, { SAME, { 0, { 0 } } } },
    { "Add", &operators_arithmetic, INLAY_FLOAT, INLAY_FLOAT, 2, { SAME, { 1, { 1024 } } } },
    { "Mul", &operators_arithmetic, INLAY_FLOAT, INLAY_FLOAT, 2, { { 3, { 64, 32, 32 } }, { 3, { 64, 1, 1 } } } },
    { "Mul", &operators_arithmetic, INLAY_FLOAT, INLAY_FLOAT, 2, { { 3, { 1024, 7, 7 } }, { 3, { 1024, 1, 1 } } } },
    { "Mul", &operators_arithmetic, INLAY_FLOAT, INLAY_FLOAT, 2, { { 2, { 16384, 4 } }, { 1, { 4 } } } },
    { "Mul", &operators_arithmetic, INLAY_FLOAT, INLAY_FLOAT, 2, { { 2, { 16384, 4 } }, { 2, { 16384, 1 } } } },
    { "Add", &operators_arithmetic, INLAY_FLOAT16, INLAY_FLOAT16, 2, { SAME, SAME } },
    { "Add", &operators_arithmetic, INLAY_BFLOAT16, INLAY_BFLOAT16, 2, { SAME, SAME } },
    { "Add", &operators_arithmetic, INLAY_INT64, INLAY_INT64, 2, { SAME, SAME } },
    { "Pow", &operators_arithmetic, INLAY_FLOAT, INLAY_FLOAT, 2, { SAME, SAME } },
    { "Less", &operators_compare, INLAY_FLOAT, INLAY_BOOL, 2, { SAME, SAME } },
    { "Max", &operators_variadic, INLAY_FLOAT, INLAY_FLOAT, 3, { SAME, SAME, SAME } },
    { "Clip", &operators_clip, INLAY_FLOAT, INLAY_FLOAT, 3, { SAME, { 0, { 0 } }, { 0, { 0 } } } },
    { "Cast", &operators_cast, INLAY_FLOAT, INLAY_INT64, 1, { SAME } },
    { "Cast", &operators_cast, INLAY_INT64, INLAY_FLOAT, 1, { SAME } },
    { "Cast", &operators_cast, INLAY_FLOAT, INLAY_FLOAT16, 1, { SAME } },
    { "Cast", &operators_cast, INLAY_FLOAT16, INLAY_FLOAT, 1, { SAME } },
    { "Cast", &operators_cast, INLAY_INT4, INLAY_FLOAT, 1, { SAME } },
#define UNARY(name)                                                                                                    \
    {                                                                                                                  \
        name, &operators_unary, INLAY_FLOAT, INLAY_FLOAT, 1,                                                           \
        {                                                                                                              \
            SAME                                                                                                       \
        }                                                                                                              \
    }
    UNARY("Abs"),
    UNARY("Sqrt"),
    UNARY("Exp"),
    UNARY("Log"),
    UNARY("Erf"),
    UNARY("Sin"),
    UNARY("Tan"),
    UNARY("Tanh"),
    UNARY("Atan"),
#define ACTIVATION(name)                                                                                               \
    {                                                                                                                  \
        name, &operators_activation, INLAY_FLOAT, INLAY_FLOAT, 1,                                                      \
        {                                                                                                              \
            SAME                                                                                                       \
        }                                                                                                              \
    }
    ACTIVATION("Relu"),
    ACTIVATION("Sigmoid"),
    ACTIVATION("HardSwish"),
    ACTIVATION("Elu"),
    ACTIVATION("Softplus"),
    ACTIVATION("Mish"),
    ACTIVATION("Gelu"),
};

static void *tensor(kernel_case *c, inlay_dtype dtype, const struct shape *shape, bool is_input)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < shape->rank; d++)
        count *= shape->dims[d];
    void *data = aligned_alloc(64, (size_t)(kit_bytes(dtype, count) + 63) / 64 * 64);
    if (data == NULL)
        abort();
    for (int64_t i = 0; i < count; i++) {
        double v = 1 + 0.25 * (double)(i % 13);
        convert_from_f64(dtype, data, i, 1, &v, CONVERT_SATURATE);
    }
    if (is_input)
        kernel_case_input(c, dtype, shape->rank, shape->dims, data, false);
    else
        kernel_case_output(c, dtype, shape->rank, shape->dims, data);
    return data;
}

static void time_row(const struct row *row)
{
    kernel_case row_case = { .op_type = row->op_type, .since_version = 22 };
    void *data[4];
    double best = 1e30;

    for (uint32_t i = 0; i < row->inputs; i++)
        data[i] = tensor(&row_case, row->in, &row->shapes[i], true);
    data[row->inputs] = tensor(&row_case, row->out, &row->shapes[0], false);
    kernel_case_float(&row_case, "alpha", 0.5);
    if (kernel_case_prepare(&row_case, row->table) != INLAY_OK)
        abort();
    for (int round = 0; round < ROUNDS; round++) {
        double start = now();
        for (int i = 0; i < REPEATS; i++)
            if (kernel_case_run(&row_case) != INLAY_OK)
                abort();
        best = now() - start < best ? now() - start : best;
    }
    (void)printf("%-10s %-8s -> %-8s", row->op_type, inlay_dtype_name(row->in), inlay_dtype_name(row->out));
    for (uint32_t i = 0; i < row->inputs; i++) {
        (void)printf(" [");
        for (uint32_t d = 0; d < row->shapes[i].rank; d++)
            (void)printf("%s%lld", d > 0 ? "," : "", (long long)row->shapes[i].dims[d]);
        (void)printf("]");
    }
    (void)printf("  %.3f ns\n", best / REPEATS / (double)row_case.tensors[KERNEL_CASE_VALUES].count);
    kernel_case_deinit(&row_case);
    for (uint32_t i = 0; i <= row->inputs; i++)
        free(data[i]);
}

int main(void)
{
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++)
        time_row(&rows[row]);
    return 0;
}
