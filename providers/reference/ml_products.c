/* ml_products.c - what linear models and support vector machines have in common: rows times a table, and exponentials.
 * No kernels here.
 *
 * Coefficients are floats. Inputs that are floats, too, are multiplied by the product kernel, which adds some features
 * at a time; distances likewise, whose sums are added in double. Other inputs are doubles throughout. */
#include "ml.h"
#include "matrix/sgemm.h"
#include "simd/vecmath.h"

/* Columns of the table that are computed at once, rows, and features whose sum is a float. */
enum { WIDE = SGEMM_LANES, ROWS = 6, STRETCH = 64 };
typedef double wide_double __attribute__((vector_size(WIDE * sizeof(double))));
typedef float wide_float __attribute__((vector_size(WIDE * sizeof(float))));
typedef float loose_float __attribute__((vector_size(WIDE * sizeof(float)), aligned(4), may_alias));
typedef double loose_double __attribute__((vector_size(WIDE * sizeof(double)), aligned(8), may_alias));

ml_table ml_table_of(ml_pool *pool, const float *values, int64_t outputs, int64_t features)
{
    const int64_t columns = (outputs + WIDE - 1) / WIDE * WIDE, width = columns < SGEMM_WIDTH ? columns : SGEMM_WIDTH;
    const int64_t panels = (columns + width - 1) / width;
    ml_table table = { NULL, columns, width, features };

    table.values = ml_alloc(pool, (uint64_t)(panels * width) * (uint64_t)features, sizeof *table.values);
    for (int64_t o = 0; table.values != NULL && o < outputs; o++)
        for (int64_t i = 0; i < features; i++)
            table.values[(o / width * features + i) * width + o % width] = values[o * features + i];
    return table;
}

/* Where columns [o, o + WIDE) begin. */
static const float *columns_at(const ml_table *table, int64_t o)
{
    return table->values + o / table->width * table->width * table->features + o % table->width;
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

    sgemm_run(&job, 0, sgemm_units(&job));
}

/* WIDE columns of `rows` rows: squares of differences added up. rows is a constant where this is inlined, and the sums
 * stay in registers. */
static inline __attribute__((always_inline)) void squares_block(const float *input, const int64_t rows,
                                                                const ml_table *t, const float *table, double *out,
                                                                int64_t out_step)
{
    const int64_t features = t->features, step = t->width;

    for (int64_t first = 0; first < features; first += STRETCH) {
        const int64_t end = first + STRETCH < features ? first + STRETCH : features;
        wide_float sums[ROWS];

#pragma GCC unroll 8
        for (int64_t r = 0; r < rows; r++)
            sums[r] = (wide_float){ 0 };
        for (int64_t i = first; i < end; i++) {
            const wide_float v = *(const loose_float *)(const void *)(table + i * step);
#pragma GCC unroll 8
            for (int64_t r = 0; r < rows; r++) {
                const wide_float d = input[r * features + i] - v;
                sums[r] += d * d;
            }
        }
        for (int64_t r = 0; r < rows; r++) {
            loose_double *to = (loose_double *)(void *)(out + r * out_step);
            const wide_double sum = __builtin_convertvector(sums[r], wide_double);
            if (first == 0)
                *to = sum;
            else
                *to += sum;
        }
    }
}

static void squares_rows(const ml_table *table, const float *input, int64_t rows, double *out)
{
    for (; rows >= ROWS; rows -= ROWS, input += ROWS * table->features, out += ROWS * table->columns)
        for (int64_t o = 0; o < table->columns; o += WIDE)
            squares_block(input, ROWS, table, columns_at(table, o), out + o, table->columns);
    for (; rows > 0; rows--, input += table->features, out += table->columns)
        for (int64_t o = 0; o < table->columns; o += WIDE)
            squares_block(input, 1, table, columns_at(table, o), out + o, table->columns);
}

/* The same, or products, of one row of doubles. */
static void doubles_row(const ml_table *table, const double *input, bool squares, double *out)
{
    for (int64_t o = 0; o < table->columns; o += WIDE) {
        const float *t = columns_at(table, o);

        for (int k = 0; k < WIDE; k++)
            out[o + k] = 0;
        for (int64_t i = 0; i < table->features; i++, t += table->width) {
            for (int k = 0; k < WIDE; k++) {
                const double d = squares ? input[i] - (double)t[k] : (double)t[k];
                out[o + k] += squares ? d * d : input[i] * d;
            }
        }
    }
}

void ml_table_rows(const ml_table *table, const kit_tensor *input, int64_t first, int64_t rows, bool squares,
                   double *room, double *out)
{
    float *products = (float *)(void *)(room + table->features);

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
    for (int64_t r = 0; r < rows; r++) {
        convert_to_f64(room, input->dtype, input->data, (first + r) * table->features, table->features);
        doubles_row(table, room, squares, out + r * table->columns);
    }
}

/* power is a constant where this is inlined. */
static inline __attribute__((always_inline)) double sum_of(const float *v, const double *weight, int64_t n,
                                                           double factor, double term, const int power)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        const double z = factor * (double)v[i] + term, z2 = z * z;
        sum += weight[i] * (power == 1 ? z : power == 2 ? z2 : power == 3 ? z2 * z : z2 * z2);
    }
    return sum;
}
double ml_sum_of_powers(const float *v, const double *weight, int64_t n, double factor, double term, int power)
{
    return power == 1   ? sum_of(v, weight, n, factor, term, 1)
           : power == 2 ? sum_of(v, weight, n, factor, term, 2)
           : power == 3 ? sum_of(v, weight, n, factor, term, 3)
                        : sum_of(v, weight, n, factor, term, 4);
}

void ml_exp(double *input, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        input[i] = vd_exp(input[i]);
}

double ml_dot(const double *input, const double *output, int64_t n)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += input[i] * output[i];
    return sum;
}

/* v = (factor * v + term) ^ power. */
void ml_powers(double *v, int64_t n, double factor, double term, int power)
{
    for (int64_t i = 0; i < n; i++) {
        const double z = factor * v[i] + term, z2 = z * z;
        v[i] = power == 1 ? z : power == 2 ? z2 : power == 3 ? z2 * z : z2 * z2;
    }
}
