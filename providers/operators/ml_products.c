/* ml_products.c - rows times a table of coefficients, and exponentials, for linear models and support vector machines.
 * It contains no kernels.
 *
 * Coefficients are floats. For float inputs, dot products use the GEMM kernel, and distances are summed as float over
 * STRETCH features, then in double. Other inputs are computed in double. */
#include "operators/ml.h"
#include "inlay/check.h"
#include "cpu/matrix/sgemm.h"
#include "operators/lanes.h"
#include "simd/vecmath.h"

/* Columns computed at once, rows computed at once, blocks of columns of a single row, and features summed as float. */
enum { WIDE = SGEMM_LANES, ROWS = 6, LONE_BLOCKS = SGEMM_WIDTH / WIDE, STRETCH = 64 };
/* The vectors of this instruction set: GCC keeps longer ones in memory. */
enum { LANES = __BIGGEST_ALIGNMENT__ / sizeof(float), PARTS = WIDE / LANES };
typedef float vector __attribute__((vector_size(LANES * sizeof(float))));
typedef float loose_vector __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

ml_table ml_table_of(ml_pool *pool, const float *values, int64_t outputs, int64_t features)
{
    const int64_t columns = (outputs + WIDE - 1) / WIDE * WIDE, width = columns < SGEMM_WIDTH ? columns : SGEMM_WIDTH;
    const int64_t panels = (columns + width - 1) / width;
    ml_table table = { NULL, columns, width, features };

    table.values = ml_alloc(pool, (uint64_t)(panels * width) * (uint64_t)features, sizeof *table.values);
    for (int64_t output = 0; table.values != NULL && output < outputs; output++)
        for (int64_t i = 0; i < features; i++)
            table.values[(output / width * features + i) * width + output % width] = values[output * features + i];
    return table;
}

/* Returns the coefficients of columns [column, column + WIDE). */
static const float *columns_at(const ml_table *table, int64_t column)
{
    INLAY_CHECK(column >= 0 && column + WIDE <= table->columns);
    return table->values + column / table->width * table->width * table->features + column % table->width;
}

int64_t ml_table_room(const ml_table *table, int64_t rows)
{
    return table->features + (rows * table->columns + 1) / 2;
}

void ml_table_products(const ml_table *table, const float *input, int64_t rows, const float *bias, float *out,
                       int64_t outputs)
{
    const sgemm_job job = { .kernel = KERNEL_BEST(products),
                            .m = rows,
                            .n = outputs,
                            .k = table->features,
                            .a = input,
                            .a_row = table->features,
                            .b = table->values,
                            .width = table->width,
                            .b_panel = table->width * table->features,
                            .b_step = table->width,
                            .bias = bias,
                            .c = out,
                            .c_row = outputs };

    INLAY_CHECK(outputs <= table->columns);
    sgemm_run(&job, 0, sgemm_units(&job));
}

/* Squared distances of `rows` rows to `blocks` times WIDE columns. rows and blocks are constants after inlining, so
 * that the sums stay in registers; rows * blocks is at most ROWS. */
static inline __attribute__((always_inline)) void squares_block(const float *input, const int64_t rows,
                                                                const int64_t blocks, const ml_table *descriptor,
                                                                const float *table, double *out, int64_t out_step)
{
    const int64_t features = descriptor->features, step = descriptor->width, vectors = blocks * PARTS;

    for (int64_t first = 0; first < features; first += STRETCH) {
        const int64_t end = first + STRETCH < features ? first + STRETCH : features;
        vector sums[ROWS * PARTS];

#pragma GCC unroll 32
        for (int64_t sum = 0; sum < rows * vectors; sum++)
            sums[sum] = (vector){ 0 };
        for (int64_t i = first; i < end; i++) {
#pragma GCC unroll 32
            for (int64_t v = 0; v < vectors; v++) {
                const vector coefficients = *(const loose_vector *)(const void *)(table + i * step + v * LANES);
#pragma GCC unroll 32
                for (int64_t row = 0; row < rows; row++) {
                    const vector difference = input[row * features + i] - coefficients;
                    sums[row * vectors + v] += difference * difference;
                }
            }
        }
        for (int64_t row = 0; row < rows; row++) {
            const float *part = (const float *)&sums[row * vectors];
            double *to = out + row * out_step;

            for (int64_t column = 0; column < blocks * WIDE; column++)
                to[column] = (first == 0 ? 0 : to[column]) + (double)part[column];
        }
    }
}

static void squares_rows(const ml_table *table, const float *input, int64_t rows, double *out)
{
    for (; rows >= ROWS; rows -= ROWS, input += ROWS * table->features, out += ROWS * table->columns)
        for (int64_t column = 0; column < table->columns; column += WIDE)
            squares_block(input, ROWS, 1, table, columns_at(table, column), out + column, table->columns);
    for (; rows > 0; rows--, input += table->features, out += table->columns) {
        int64_t column = 0;

        /* several sums hide the latency of additions */
        for (; table->width == LONE_BLOCKS * WIDE && column + LONE_BLOCKS * WIDE <= table->columns;
             column += LONE_BLOCKS * WIDE)
            squares_block(input, 1, LONE_BLOCKS, table, columns_at(table, column), out + column, table->columns);
        for (; column < table->columns; column += WIDE)
            squares_block(input, 1, 1, table, columns_at(table, column), out + column, table->columns);
    }
}

/* Computes squared distances or dot products for one row of doubles. */
static void doubles_row(const ml_table *table, const double *input, bool squares, double *out)
{
    for (int64_t column = 0; column < table->columns; column += WIDE) {
        const float *coefficients = columns_at(table, column);

        for (int lane = 0; lane < WIDE; lane++)
            out[column + lane] = 0;
        for (int64_t i = 0; i < table->features; i++, coefficients += table->width) {
            for (int lane = 0; lane < WIDE; lane++) {
                const double difference = squares ? input[i] - (double)coefficients[lane] : (double)coefficients[lane];
                out[column + lane] += squares ? difference * difference : input[i] * difference;
            }
        }
    }
}

void ml_table_rows(const ml_table *table, const kit_tensor *input, int64_t first, int64_t rows, bool squares,
                   double *room, double *out)
{
    float *products = (float *)(void *)(room + table->features);

    INLAY_CHECK(rows >= 0 && table->width > 0);
    if (input->dtype == INLAY_FLOAT && squares) {
        squares_rows(table, (const float *)input->data + first * table->features, rows, out);
        return;
    }
    if (input->dtype == INLAY_FLOAT) {
        ml_table_products(table, (const float *)input->data + first * table->features, rows, NULL, products,
                          table->columns);
        convert_to_f64(out, INLAY_FLOAT, products, 0, rows * table->columns);
        return;
    }
    for (int64_t row = 0; row < rows; row++) {
        convert_to_f64(room, input->dtype, input->data, (first + row) * table->features, table->features);
        doubles_row(table, room, squares, out + row * table->columns);
    }
}

/* base ^ power, power from 1 to 4. */
static inline __attribute__((always_inline)) double power_of(double base, int power)
{
    const double square = base * base;

    return power == 1 ? base : power == 2 ? square : power == 3 ? square * base : square * square;
}

/* Implements ml_sum_of_powers(); power is a constant after inlining. */
static inline __attribute__((always_inline)) double sum_of(const float *values, const double *weight, int64_t count,
                                                           double factor, double term, const int power)
{
    double sum = 0;

    SUM_IN_LANES(double, float, sum, i, 0, count, weight[i] * power_of(factor * (double)values[i] + term, power));
    return sum;
}
double ml_sum_of_powers(const float *values, const double *weight, int64_t count, double factor, double term, int power)
{
    INLAY_CHECK(power >= 1 && power <= 4);
    return power == 1   ? sum_of(values, weight, count, factor, term, 1)
           : power == 2 ? sum_of(values, weight, count, factor, term, 2)
           : power == 3 ? sum_of(values, weight, count, factor, term, 3)
                        : sum_of(values, weight, count, factor, term, 4);
}

void ml_exp(double *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = vd_exp(values[i]);
}

double ml_dot(const double *first, const double *second, int64_t count)
{
    double sum = 0;

    SUM_IN_LANES(double, double, sum, i, 0, count, first[i] * second[i]);
    return sum;
}

/* values[i] = (factor * values[i] + term) ^ power. */
void ml_powers(double *values, int64_t count, double factor, double term, int power)
{
    INLAY_CHECK(power >= 1 && power <= 4);
    for (int64_t i = 0; i < count; i++)
        values[i] = power_of(factor * values[i] + term, power);
}
