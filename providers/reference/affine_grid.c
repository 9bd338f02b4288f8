/* AffineGrid: ONNX 20. theta [N, 2, 3] and size [N, C, H, W] give a grid [N, H, W, 2]; theta [N, 3, 4] and size
 * [N, C, D, H, W] give a grid [N, D, H, W, 3]. The x coordinate of a point comes first. */
#include "inlay/check.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/operators.h"

typedef struct affine_state {
    bool corners;
} affine_state;

static inlay_status prepare_affine(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_status status = arg_allocate_state(sizeof(affine_state), out_state, diag);

    if (status == INLAY_OK)
        ((affine_state *)*out_state)->corners = kit_attr_int(node->info, "align_corners", 0) != 0;
    return status;
}

typedef struct affine_job {
    const kit_tensor *theta, *output;
    const int64_t *dims; /* [spatial]: (D,) H, W */
    uint32_t spatial;
    bool corners;
    int64_t rows; /* of one batch */
} affine_job;

/* Returns the coordinate, in [-1, 1], of pixel `index` of `count`. With `corners` the centers of the first and the last
 * pixel are at -1 and 1; otherwise the outer edges of these pixels are. */
static double grid_coordinate(int64_t index, int64_t count, bool corners)
{
    if (corners)
        return count > 1 ? -1 + 2 * (double)index / (double)(count - 1) : 0;
    return (2 * (double)index + 1) / (double)count - 1;
}

enum { COLUMNS = 256 }; /* points of a row that are computed at once */

/* Computes points of a row: out[i][c] = theta[c] . (x[i], point[1], ..., 1). spatial is a constant after inlining. */
static inline __attribute__((always_inline)) void row_points(const double *theta, const double *x, const double *point,
                                                             int64_t count, const uint32_t spatial, double *out)
{
    double terms[3][3]; /* [coordinate]: of the axes other than x, and the constant */

    for (uint32_t coordinate = 0; coordinate < spatial; coordinate++)
        for (uint32_t term = 0; term < spatial; term++)
            terms[coordinate][term] = theta[coordinate * (spatial + 1) + term + 1] * point[term + 1];
    for (int64_t i = 0; i < count; i++)
        for (uint32_t coordinate = 0; coordinate < spatial; coordinate++) {
            double sum = theta[coordinate * (spatial + 1)] * x[i];

            for (uint32_t term = 0; term < spatial; term++)
                sum += terms[coordinate][term];
            out[i * spatial + coordinate] = sum;
        }
}

/* Computes rows [begin, end) of the grid; the rows are along its last spatial axis. */
static inlay_status affine_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const affine_job *job = user;
    const uint32_t spatial = job->spatial;
    const int64_t width = job->dims[spatial - 1];
    INLAY_CHECK(job->spatial == 2 || job->spatial == 3);

    (void)worker;
    for (int64_t column = 0; column < width; column += COLUMNS) {
        const int64_t count = width - column < COLUMNS ? width - column : COLUMNS;
        double x[COLUMNS], out[COLUMNS * 3];

        for (int64_t i = 0; i < count; i++) /* the same in all rows */
            x[i] = grid_coordinate(column + i, width, job->corners);
        for (int64_t row = begin; row < end; row++) {
            const int64_t batch = row / job->rows;
            double theta[12], point[4];
            int64_t remaining = row % job->rows;

            convert_to_f64(theta, job->theta->dtype, job->theta->data, batch * spatial * (spatial + 1),
                           spatial * (spatial + 1));
            for (uint32_t d = spatial - 1; d-- > 0;) {
                point[spatial - 1 - d] = grid_coordinate(remaining % job->dims[d], job->dims[d], job->corners);
                remaining /= job->dims[d];
            }
            point[spatial] = 1;
            if (spatial == 2)
                row_points(theta, x, point, count, 2, out);
            else
                row_points(theta, x, point, count, 3, out);
            convert_from_f64(job->output->dtype, job->output->data, (row * width + column) * spatial, count * spatial,
                             out, 0);
        }
    }
    return INLAY_OK;
}

static inlay_status run_affine(const kit_call *call)
{
    const kit_tensor *theta = &call->in[0], *size = &call->in[1], *output = &call->out[0];
    const int64_t *sizes = size->data;
    affine_job job = { .theta = theta, .output = output, .corners = ((const affine_state *)call->state)->corners };
    int64_t dims[5];
    inlay_status status;

    if (size->count != 4 && size->count != 5)
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "size must hold 4 or 5 values");
    job.spatial = (uint32_t)size->count - 2;
    if (theta->rank != 3 || theta->dims[0] != sizes[0] || theta->dims[1] != (int64_t)job.spatial ||
        theta->dims[2] != (int64_t)job.spatial + 1)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "theta must be [%lld, %u, %u] for this size",
                          (long long)sizes[0], job.spatial, job.spatial + 1);
    dims[0] = sizes[0];
    memcpy(dims + 1, sizes + 2, job.spatial * sizeof *dims);
    dims[job.spatial + 1] = (int64_t)job.spatial;
    status = arg_expect_dims(call->diag, output, job.spatial + 2, dims);
    if (status != INLAY_OK || output->count == 0)
        return status;
    job.dims = dims + 1;
    job.rows = job.spatial == 2 ? dims[1] : dims[1] * dims[2];
    return kit_parallel(call, dims[0] * job.rows, 2048 / dims[job.spatial] + 1, affine_range, &job);
}

static const kit_kernel kernels[] = {
    { .op_type = "AffineGrid", .prepare = prepare_affine, .run = run_affine },
};
const kit_table reference_affine_grid = { kernels, KIT_COUNT(kernels) };
