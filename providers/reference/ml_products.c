/* ml_products.c - what linear models and support vector machines have in common: rows times a table, and exponentials.
 * No kernels here.
 *
 * Coefficients are floats. Inputs that are floats, too, are multiplied as such, some features at a time, and those sums
 * are added in double; other inputs are doubles throughout. */
#include "ml.h"
#include "vecmath.h"

/* Columns of the table that are computed at once, rows, and features whose sum is a float. */
enum { WIDE = ML_TABLE_WIDE, ROWS = 6, STRETCH = 64 };
typedef double wide_double __attribute__((vector_size(WIDE * sizeof(double))));
typedef float wide_float __attribute__((vector_size(WIDE * sizeof(float))));
typedef float loose_float __attribute__((vector_size(WIDE * sizeof(float)), aligned(4), may_alias));
typedef double loose_double __attribute__((vector_size(WIDE * sizeof(double)), aligned(8), may_alias));

int64_t ml_table_columns(int64_t outputs)
{
    return (outputs + WIDE - 1) / WIDE * WIDE;
}

float *ml_table(ml_pool *pool, const float *values, int64_t outputs, int64_t features)
{
    float *table = ml_alloc(pool, (uint64_t)ml_table_columns(outputs) * (uint64_t)features, sizeof *table);

    for (int64_t o = 0; table != NULL && o < outputs; o++)
        for (int64_t i = 0; i < features; i++)
            table[(o / WIDE * features + i) * WIDE + o % WIDE] = values[o * features + i];
    return table;
}

/* WIDE columns of `rows` rows: products added up, or squares of differences. rows and squares are constants where this
 * is inlined, and the sums stay in registers. */
static inline __attribute__((always_inline)) void floats_block(const float *x, const int64_t rows, int64_t features,
                                                               const float *table, const bool squares, double *out,
                                                               int64_t out_step)
{
    for (int64_t first = 0; first < features; first += STRETCH) {
        const int64_t end = first + STRETCH < features ? first + STRETCH : features;
        wide_float sums[ROWS];

#pragma GCC unroll 8
        for (int64_t r = 0; r < rows; r++)
            sums[r] = (wide_float){ 0 };
        for (int64_t i = first; i < end; i++) {
            const wide_float t = *(const loose_float *)(const void *)(table + i * WIDE);
#pragma GCC unroll 8
            for (int64_t r = 0; r < rows; r++) {
                const wide_float d = squares ? x[r * features + i] - t : t;
                sums[r] += squares ? d * d : x[r * features + i] * d;
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

static inline __attribute__((always_inline)) void floats_rows(const float *x, int64_t rows, int64_t features,
                                                              const float *table, int64_t columns, const bool squares,
                                                              double *out)
{
    for (; rows >= ROWS; rows -= ROWS, x += ROWS * features, out += ROWS * columns)
        for (int64_t o = 0; o < columns; o += WIDE)
            floats_block(x, ROWS, features, table + o * features, squares, out + o, columns);
    for (; rows > 0; rows--, x += features, out += columns)
        for (int64_t o = 0; o < columns; o += WIDE)
            floats_block(x, 1, features, table + o * features, squares, out + o, columns);
}

KIT_MULTIVERSION static void floats_products(const float *x, int64_t rows, int64_t features, const float *table,
                                             int64_t columns, double *out)
{
    floats_rows(x, rows, features, table, columns, false, out);
}
KIT_MULTIVERSION static void floats_squares(const float *x, int64_t rows, int64_t features, const float *table,
                                            int64_t columns, double *out)
{
    floats_rows(x, rows, features, table, columns, true, out);
}

/* The same of one row of doubles. */
KIT_MULTIVERSION static void doubles_row(const double *x, int64_t features, const float *table, int64_t columns,
                                         bool squares, double *out)
{
    for (int64_t o = 0; o < columns; o += WIDE) {
        const float *t = table + o * features;

        for (int k = 0; k < WIDE; k++)
            out[o + k] = 0;
        for (int64_t i = 0; i < features; i++) {
            for (int k = 0; k < WIDE; k++) {
                const double d = squares ? x[i] - (double)t[i * WIDE + k] : (double)t[i * WIDE + k];
                out[o + k] += squares ? d * d : x[i] * d;
            }
        }
    }
}

void ml_table_rows(const float *table, int64_t columns, int64_t features, const kit_tensor *x, int64_t first,
                   int64_t rows, bool squares, double *room, double *out)
{
    if (x->dtype == INLAY_FLOAT) {
        (squares ? floats_squares : floats_products)((const float *)x->data + first * features, rows, features, table,
                                                     columns, out);
        return;
    }
    for (int64_t r = 0; r < rows; r++) {
        convert_to_f64(room, x->dtype, x->data, (first + r) * features, features);
        doubles_row(room, features, table, columns, squares, out + r * columns);
    }
}

KIT_MULTIVERSION void ml_exp(double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = vd_exp(x[i]);
}

KIT_MULTIVERSION double ml_dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* v = (factor * v + term) ^ power. */
KIT_MULTIVERSION void ml_powers(double *v, int64_t n, double factor, double term, int power)
{
    for (int64_t i = 0; i < n; i++) {
        const double z = factor * v[i] + term, z2 = z * z;
        v[i] = power == 1 ? z : power == 2 ? z2 : power == 3 ? z2 * z : z2 * z2;
    }
}
