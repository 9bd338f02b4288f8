/* Det: ONNX 11, 22. By LU decomposition in double, with pivoting. */
#include "instance.h"
#include "simd/convert.h"
#include "reference.h"

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *input = &plan->in[0];
    int64_t n;

    (void)state;
    if (input->rank < 2 || input->dims[input->rank - 1] != input->dims[input->rank - 2])
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "a determinant needs square matrices in the last two dims");
    n = input->dims[input->rank - 1];
    if (n > INT32_MAX ||
        __builtin_mul_overflow((uint64_t)(n * n) * sizeof(double), (uint64_t)plan->max_threads, &plan->workspace_bytes))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "a matrix of %lld rows is too large", (long long)n);
    return INLAY_OK;
}

/* a: n x n, destroyed. */
static double determinant(double *a, int64_t n)
{
    double det = 1;

    for (int64_t k = 0; k < n; k++) {
        int64_t pivot = k;
        for (int64_t i = k + 1; i < n; i++) {
            double x = a[i * n + k], y = a[pivot * n + k];
            pivot = (x < 0 ? -x : x) > (y < 0 ? -y : y) ? i : pivot;
        }
        if (a[pivot * n + k] == 0)
            return 0;
        if (pivot != k) {
            det = -det;
            for (int64_t j = k; j < n; j++) {
                double t = a[k * n + j];
                a[k * n + j] = a[pivot * n + j];
                a[pivot * n + j] = t;
            }
        }
        det *= a[k * n + k];
        for (int64_t i = k + 1; i < n; i++) {
            double f = a[i * n + k] / a[k * n + k];
            for (int64_t j = k + 1; j < n; j++)
                a[i * n + j] -= f * a[k * n + j];
        }
    }
    return det;
}

static inlay_status run_matrices(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const kit_tensor *input = &call->in[0];
    int64_t n = input->dims[input->rank - 1];
    double *room = (double *)call->workspace + (int64_t)worker * n * n;

    for (int64_t i = begin; i < end; i++) {
        double det;
        convert_to_f64(room, input->dtype, input->data, i * n * n, n * n);
        det = determinant(room, n);
        convert_from_f64(call->out[0].dtype, call->out[0].data, i, 1, &det, 0);
    }
    return INLAY_OK;
}

static inlay_status run(const kit_call *call)
{
    int64_t n = call->in[0].dims[call->in[0].rank - 1];

    return kit_parallel(call, call->out[0].count, 32768 / (n * n * n + 1) + 1, run_matrices, (void *)(uintptr_t)call);
}

static const kit_kernel kernels[] = {
    { .op_type = "Det", .since_max = 22, .shape = shape, .run = run },
};
const kit_table OPERATOR(reference_det) = { kernels, KIT_COUNT(kernels) };
