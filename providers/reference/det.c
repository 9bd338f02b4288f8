/* Det: ONNX 11, 22. LU decomposition in double, with pivoting. */
#include "inlay/check.h"
#include "simd/convert.h"
#include "operators/operators.h"

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *input = &plan->in[0];
    int64_t rows;

    (void)state;
    if (input->rank < 2 || input->dims[input->rank - 1] != input->dims[input->rank - 2])
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "a determinant needs square matrices in the last two dims");
    rows = input->dims[input->rank - 1];
    if (rows > INT32_MAX || __builtin_mul_overflow((uint64_t)(rows * rows) * sizeof(double),
                                                   (uint64_t)plan->max_threads, &plan->workspace_bytes))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "a matrix of %lld rows is too large", (long long)rows);
    return INLAY_OK;
}

/* Returns the determinant of matrix [size, size], which is overwritten. */
static double determinant(double *matrix, int64_t size)
{
    double det = 1;

    for (int64_t k = 0; k < size; k++) {
        int64_t pivot = k;
        for (int64_t i = k + 1; i < size; i++) {
            double candidate = matrix[i * size + k], largest = matrix[pivot * size + k];
            pivot = (candidate < 0 ? -candidate : candidate) > (largest < 0 ? -largest : largest) ? i : pivot;
        }
        if (matrix[pivot * size + k] == 0)
            return 0;
        if (pivot != k) {
            det = -det;
            for (int64_t j = k; j < size; j++) {
                double element = matrix[k * size + j];
                matrix[k * size + j] = matrix[pivot * size + j];
                matrix[pivot * size + j] = element;
            }
        }
        det *= matrix[k * size + k];
        for (int64_t i = k + 1; i < size; i++) {
            double factor = matrix[i * size + k] / matrix[k * size + k];
            for (int64_t j = k + 1; j < size; j++)
                matrix[i * size + j] -= factor * matrix[k * size + j];
        }
    }
    return det;
}

static inlay_status run_matrices(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const kit_tensor *input = &call->in[0];
    int64_t size = input->dims[input->rank - 1];
    double *matrix = (double *)call->workspace + (int64_t)worker * size * size;

    INLAY_CHECK(call->workspace != NULL || size == 0);
    for (int64_t i = begin; i < end; i++) {
        double det;
        convert_to_f64(matrix, input->dtype, input->data, i * size * size, size * size);
        det = determinant(matrix, size);
        convert_from_f64(call->out[0].dtype, call->out[0].data, i, 1, &det, 0);
    }
    return INLAY_OK;
}

static inlay_status run(const kit_call *call)
{
    int64_t size = call->in[0].dims[call->in[0].rank - 1];

    return kit_parallel(call, call->out[0].count, 32768 / (size * size * size + 1) + 1, run_matrices,
                        (void *)(uintptr_t)call);
}

static const kit_kernel kernels[] = {
    { .op_type = "Det", .since_max = 22, .shape = shape, .run = run },
};
const kit_table reference_det = { kernels, KIT_COUNT(kernels) };
