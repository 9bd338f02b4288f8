/* Det: ONNX 11, 22. LU decomposition in double, with pivoting among the columns, so that every loop is along a row. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "simd/convert.h"
#include "operators/operators.h"

enum {
    LANES = 8, /* rows are padded to a multiple of it, so that loops have no remainder */
    SMALL = 16 /* up to this number of rows, LANES matrices are computed at a time, with their elements interleaved */
};

static int64_t row_length(int64_t size)
{
    return (size + LANES - 1) / LANES * LANES;
}

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *input = &plan->in[0];
    int64_t rows, doubles;

    (void)state;
    if (input->rank < 2 || input->dims[input->rank - 1] != input->dims[input->rank - 2])
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "a determinant needs square matrices in the last two dims");
    rows = input->dims[input->rank - 1];
    doubles = rows <= SMALL ? 2 * LANES * SMALL * SMALL : rows <= INT32_MAX ? rows * row_length(rows) : INT64_MAX;
    if (__builtin_mul_overflow((uint64_t)doubles, sizeof(double) * (uint64_t)plan->max_threads, &plan->workspace_bytes))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "a matrix of %lld rows is too large", (long long)rows);
    return INLAY_OK;
}

/* The index of the largest magnitude in row[from ... size - 1], the first of equal ones; `from` if all are 0 or NaN. */
static int64_t find_pivot(const double *row, int64_t from, int64_t size)
{
    double most[LANES] = { 0 }, largest = 0;
    int64_t j = from;

    for (; j + LANES <= size; j += LANES)
        for (int64_t l = 0; l < LANES; l++) {
            const double magnitude = row[j + l] < 0 ? -row[j + l] : row[j + l];
            most[l] = magnitude > most[l] ? magnitude : most[l];
        }
    for (int64_t l = 0; j < size; j++, l++) {
        const double magnitude = row[j] < 0 ? -row[j] : row[j];
        most[l] = magnitude > most[l] ? magnitude : most[l];
    }
    for (int64_t l = 0; l < LANES; l++)
        largest = most[l] > largest ? most[l] : largest;
    for (j = from; largest > 0 && j < size; j++)
        if (row[j] == largest || row[j] == -largest)
            return j;
    return from;
}

/* row -= factor * pivots, for whole vectors from the vector of element `from` on. */
static void subtract_row(double *restrict row, const double *restrict pivots, double factor, int64_t from,
                         int64_t length)
{
    for (int64_t j = from / LANES * LANES; j < length; j += LANES)
        for (int64_t l = 0; l < LANES; l++)
            row[j + l] -= factor * pivots[j + l];
}

/* Returns the determinant of matrix [size, length], which is overwritten, as are elements left of the diagonal that no
 * later step reads. */
static double determinant(double *matrix, int64_t size, int64_t length)
{
    double det = 1;

    for (int64_t k = 0; k < size; k++) {
        double *pivots = matrix + k * length;
        const int64_t pivot = find_pivot(pivots, k, size);
        const double divisor = pivots[pivot];

        if (divisor == 0)
            return 0;
        if (pivot != k) {
            det = -det;
            for (int64_t i = k; i < size; i++) {
                double *row = matrix + i * length, element = row[k];
                row[k] = row[pivot];
                row[pivot] = element;
            }
        }
        det *= divisor;
        for (int64_t j = k / LANES * LANES; j < length; j += LANES)
            for (int64_t l = 0; l < LANES; l++)
                pivots[j + l] /= divisor;
        for (int64_t i = k + 1; i < size; i++)
            subtract_row(matrix + i * length, pivots, matrix[i * length + k], k + 1, length);
    }
    return det;
}

static inlay_status run_matrices(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const kit_tensor *input = &call->in[0];
    const int64_t size = input->dims[input->rank - 1], length = row_length(size);
    double *matrix = (double *)call->workspace + (int64_t)worker * size * length;

    INLAY_CHECK(call->workspace != NULL);
    for (int64_t i = begin; i < end; i++) {
        double det;

        for (int64_t row = 0; row < size; row++) {
            convert_to_f64(matrix + row * length, input->dtype, input->data, (i * size + row) * size, size);
            for (int64_t j = size; j < length; j++)
                matrix[row * length + j] = 0;
        }
        det = determinant(matrix, size, length);
        convert_from_f64(call->out[0].dtype, call->out[0].data, i, 1, &det, 0);
    }
    return INLAY_OK;
}

/* In each of LANES matrices the column of the largest magnitude in row k, as find_pivot(), becomes column k. Multiplies
 * det by the pivots and by -1 where columns change places; it is 0 for good after a pivot of 0. `divisors`: the pivots,
 * or 1. */
static void place_pivots(double (*matrix)[LANES], int64_t size, int64_t k, double *det, double *divisors)
{
    double(*row)[LANES] = matrix + k * size, most[LANES] = { 0 };
    int64_t pivot[LANES];

    for (int64_t l = 0; l < LANES; l++)
        pivot[l] = row[k][l] == 0 ? -1 : k;
    for (int64_t j = k; j < size; j++)
        for (int64_t l = 0; l < LANES; l++) {
            const double magnitude = row[j][l] < 0 ? -row[j][l] : row[j][l];

            pivot[l] = magnitude > most[l] ? j : pivot[l];
            most[l] = magnitude > most[l] ? magnitude : most[l];
        }
    for (int64_t l = 0; l < LANES; l++) {
        if (pivot[l] > k) {
            det[l] = -det[l];
            for (int64_t i = k; i < size; i++) {
                const double element = matrix[i * size + k][l];
                matrix[i * size + k][l] = matrix[i * size + pivot[l]][l];
                matrix[i * size + pivot[l]][l] = element;
            }
        }
        divisors[l] = pivot[l] >= 0 ? row[k][l] : 1;
        det[l] = pivot[l] >= 0 && det[l] != 0 ? det[l] * row[k][l] : 0;
    }
}

/* Computes the determinants of LANES matrices [size, size], which are overwritten. */
static void determinants(double (*matrix)[LANES], int64_t size, double *det)
{
    for (int64_t l = 0; l < LANES; l++)
        det[l] = 1;
    for (int64_t k = 0; k < size; k++) {
        double(*pivots)[LANES] = matrix + k * size, divisors[LANES];

        place_pivots(matrix, size, k, det, divisors);
        for (int64_t j = k + 1; j < size; j++)
            for (int64_t l = 0; l < LANES; l++)
                pivots[j][l] /= divisors[l];
        for (int64_t i = k + 1; i < size; i++) {
            double(*restrict row)[LANES] = matrix + i * size;
            double(*restrict above)[LANES] = pivots;

            for (int64_t j = k + 1; j < size; j++)
                for (int64_t l = 0; l < LANES; l++)
                    row[j][l] -= row[k][l] * above[j][l];
        }
    }
}

/* Computes groups [begin, end) of LANES matrices; the last group may have fewer. */
static inlay_status run_small(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const kit_tensor *input = &call->in[0];
    const int64_t size = input->dims[input->rank - 1], elements = size * size;
    double *loaded = (double *)call->workspace + (int64_t)worker * 2 * LANES * SMALL * SMALL;
    double(*matrix)[LANES] = (double(*)[LANES])(loaded + LANES * SMALL * SMALL), det[LANES];

    INLAY_CHECK(call->workspace != NULL && size <= SMALL);
    for (int64_t first = begin * LANES; first < end * LANES; first += LANES) {
        const int64_t rest = call->out[0].count - first, count = rest < LANES ? rest : LANES;

        if (count <= 0)
            break;
        convert_to_f64(loaded, input->dtype, input->data, first * elements, count * elements);
        for (int64_t e = count * elements; e < LANES * elements; e++)
            loaded[e] = 0;
        for (int64_t e = 0; e < elements; e++)
            for (int64_t l = 0; l < LANES; l++)
                matrix[e][l] = loaded[l * elements + e];
        determinants(matrix, size, det);
        convert_from_f64(call->out[0].dtype, call->out[0].data, first, count, det, 0);
    }
    return INLAY_OK;
}

static inlay_status run(const kit_call *call)
{
    const int64_t size = call->in[0].dims[call->in[0].rank - 1], count = call->out[0].count;
    const int64_t grain = 32768 / (size * size * size + 1) + 1;

    if (size <= SMALL)
        return kit_parallel(call, (count + LANES - 1) / LANES, (grain + LANES - 1) / LANES, run_small,
                            (void *)(uintptr_t)call);
    return kit_parallel(call, count, grain, run_matrices, (void *)(uintptr_t)call);
}

static const kit_kernel kernels[] = {
    { .op_type = "Det", .since_max = 22, .shape = shape, .run = run },
};
const kit_table OPERATOR(operators_det) = { kernels, KIT_COUNT(kernels) };
