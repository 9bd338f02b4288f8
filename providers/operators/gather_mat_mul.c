/* GatherMatMul of ai.inlay: products of rows with matrices of a constant that are chosen by index, such as the experts
 * of a mixture. Rows with the same matrix are multiplied together, so that the matrix is read once for all these rows.
 * Sums do not depend on the other rows, nor on the number of threads. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "operators/args.h"
#include "operators/gemm.h"
#include "operators/indices.h"
#include "operators/operators.h"
#include "operators/panels.h"
#include "simd/convert.h"
#include <stdlib.h>
#include <string.h>

enum { IN_X, IN_WEIGHTS, IN_INDICES };
enum {
    TILE = 64,           /* rows that are multiplied together */
    WORK_GRAIN = 1 << 17 /* minimum multiplications per thread */
};

typedef struct product_state {
    struct panels panels; /* of each matrix */
    panels_fn product;
    kit_pack pack; /* [matrices] of panels.bytes each */
    int64_t matrices;
    bool transposed; /* the matrices are [N, K] */
} product_state;

/* Rows [first, first + rows), in the order sorted by matrix. */
typedef struct product_tile {
    int64_t first, matrix;
    int64_t rows;
} product_tile;

typedef struct product_plan {
    int64_t rows, rows_per_index;
    bool converts_x, converts_y;
    uint64_t start_bytes, tile_bytes, pointer_bytes, x_bytes, y_bytes;
} product_plan;

static void release(void *user)
{
    product_state *state = user;

    if (state != NULL)
        kit_pack_free(&state->pack);
    free(state);
}

static bool supports(const kit_node *node, kit_refusal *why)
{
    return (kit_is_constant(node, IN_WEIGHTS) && kit_input(node, IN_WEIGHTS)->data_bytes > 0) ||
           kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "make the matrices a constant that is not empty",
                      "matrices that are computed, or empty");
}

static void pack_matrices(const kit_node *node, product_state *state)
{
    const int64_t k = state->panels.depth, n = state->panels.columns;
    const inlay_dtype dtype = kit_input_dtype(node, IN_WEIGHTS);
    panels_source from = { .data = kit_constant_unaligned(node, IN_WEIGHTS),
                           .dtype = dtype,
                           .line_stride = state->transposed ? k : 1,
                           .k_stride = state->transposed ? 1 : n };

    for (int64_t m = 0; m < state->matrices; m++) {
        panels_pack(&state->panels, &from, 0, state->panels.count,
                    (char *)state->pack.data + (uint64_t)m * state->panels.bytes);
        from.data = (const char *)from.data + kit_bytes(dtype, k * n);
    }
}

static inlay_status pack(const kit_node *node, product_state *state, inlay_diag *diag)
{
    enum { FORMAT = 1 };
    const inlay_value_info *info = kit_input(node, IN_WEIGHTS);
    const int64_t k = info->dims[state->transposed ? 2 : 1].value, n = info->dims[state->transposed ? 1 : 2].value;
    const uint64_t key[] = { FORMAT,      info->content_hash, info->dtype,       (uint64_t)info->dims[0].value,
                             (uint64_t)k, (uint64_t)n,        state->transposed, PANEL_BLOCK_BYTES };
    inlay_status status = INLAY_OK;
    uint64_t bytes;

    state->matrices = info->dims[0].value;
    state->panels = (struct panels){ .depth = k, .columns = n, .gates = 1 };
    if (!panels_describe(&state->panels) ||
        __builtin_mul_overflow(state->panels.bytes, (uint64_t)state->matrices, &bytes) || bytes > SIZE_MAX / 4)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for %lld packed matrices of %lld x %lld",
                          (long long)state->matrices, (long long)k, (long long)n);
    INLAY_TRY(kit_pack_take(node, key, info->content_hash != 0 ? sizeof key : 0, bytes, &state->pack, diag));
    if (!state->pack.filled)
        pack_matrices(node, state);
    kit_pack_keep(node, &state->pack);
    kit_drop_constant(node, IN_WEIGHTS);
done:
    return status;
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    product_state *state = NULL;
    inlay_status status = arg_allocate_state(sizeof *state, (void **)&state, diag);

    if (status != INLAY_OK)
        return status;
    state->transposed = kit_attr_int(node->info, "transposed", 0) != 0;
    state->product = panels_product(false);
    status = pack(node, state, diag);
    if (status == INLAY_OK)
        *out_state = state;
    else
        release(state);
    return status;
}

static inlay_status shape(const void *user, kit_plan *plan, inlay_diag *diag)
{
    const product_state *state = user;
    const kit_tensor *x = &plan->in[IN_X], *indices = &plan->in[IN_INDICES];
    product_plan *sizes = kit_plan_new(plan, sizeof *sizes);
    bool fits = x->rank == indices->rank + 2;

    if (sizes == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a plan");
    for (uint32_t d = 0; fits && d < indices->rank; d++)
        fits = x->dims[d] == indices->dims[d];
    if (!fits || x->dims[x->rank - 1] != state->panels.depth)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "x is not [..., M, %lld] for indices [...]",
                          (long long)state->panels.depth);
    *sizes = (product_plan){ .rows_per_index = x->dims[x->rank - 2],
                             .rows = indices->count * x->dims[x->rank - 2],
                             .converts_x = x->dtype != INLAY_FLOAT,
                             .converts_y = plan->out[0].dtype != INLAY_FLOAT };
    sizes->start_bytes = gemm_align(((uint64_t)state->matrices + 1) * sizeof(int64_t));
    sizes->tile_bytes = gemm_align((uint64_t)sizes->rows * sizeof(product_tile));
    sizes->pointer_bytes = gemm_align((uint64_t)sizes->rows * sizeof(void *));
    sizes->x_bytes = sizes->converts_x ? gemm_align((uint64_t)x->count * sizeof(float)) : 0;
    sizes->y_bytes =
        sizes->converts_y ? gemm_align((uint64_t)(sizes->rows * state->panels.columns) * sizeof(float)) : 0;
    plan->workspace_bytes =
        sizes->start_bytes + sizes->tile_bytes + 2 * sizes->pointer_bytes + sizes->x_bytes + sizes->y_bytes;
    return INLAY_OK;
}

static void estimate(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const kit_tensor *x = &shapes->in[IN_X], *weights = &shapes->in[IN_WEIGHTS], *indices = &shapes->in[IN_INDICES];
    const int64_t matrices = weights->rank == 3 ? weights->dims[0] : 0;
    int64_t read;

    (void)node;
    if (matrices <= 0 || x->count < 0 || x->rank < 2 || x->dims[x->rank - 1] <= 0 || indices->count < 0)
        return;
    read = indices->count < matrices ? indices->count : matrices;
    cost->flops = 2.0 * (double)x->count / (double)x->dims[x->rank - 1] * (double)weights->count / (double)matrices;
    cost->bytes_read -= kit_bytes(weights->dtype, weights->count / matrices * (matrices - read));
}

typedef struct product_job {
    const product_state *state;
    const product_tile *tiles;
    const void **x; /* [rows] sorted by matrix */
    void **y;
} product_job;

/* Items [begin, end) of tile * panels + panel. */
static inlay_status multiply(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const product_job *job = user;
    const product_state *state = job->state;
    const struct panels *panels = &state->panels;

    (void)worker;
    for (int64_t item = begin, last; item < end; item = last) {
        const product_tile *tile = &job->tiles[item / panels->count];
        const int64_t first = item % panels->count, left = panels->count - first;

        last = item + (left < end - item ? left : end - item);
        state->product(panels, (const char *)state->pack.data + (uint64_t)tile->matrix * panels->bytes, first,
                       first + last - item, false, tile->rows, job->x + tile->first, NULL, job->y + tile->first);
    }
    return INLAY_OK;
}

static int64_t index_of(const kit_tensor *indices, int64_t i, int64_t matrices)
{
    const int64_t index = arg_index(indices, i);

    return index < 0 ? index + matrices : index;
}

/* Sorts the rows of x and y by matrix, and divides those of each matrix into tiles. starts [matrices + 1]. Returns the
 * number of tiles. */
static int64_t make_tiles(const kit_call *call, const float *x, float *y, int64_t *starts, product_tile *tiles,
                          const product_job *job)
{
    const product_plan *plan = call->plan;
    const product_state *state = job->state;
    const kit_tensor *indices = &call->in[IN_INDICES];
    const int64_t k = state->panels.depth, n = state->panels.columns;
    int64_t count = 0;

    memset(starts, 0, ((size_t)state->matrices + 1) * sizeof *starts);
    for (int64_t i = 0; i < indices->count; i++)
        starts[index_of(indices, i, state->matrices) + 1] += plan->rows_per_index;
    for (int64_t m = 0; m < state->matrices; m++) {
        for (int64_t row = 0; row < starts[m + 1]; row += TILE) {
            const int64_t left = starts[m + 1] - row;

            tiles[count++] = (product_tile){ starts[m] + row, m, left < TILE ? left : TILE };
        }
        starts[m + 1] += starts[m];
    }
    for (int64_t i = 0; i < indices->count; i++) {
        int64_t *at = &starts[index_of(indices, i, state->matrices)];

        for (int64_t row = i * plan->rows_per_index; row < (i + 1) * plan->rows_per_index; row++) {
            job->x[*at] = x + row * k;
            job->y[(*at)++] = y + row * n;
        }
    }
    INLAY_CHECK(count <= plan->rows);
    return count;
}

static inlay_status run(const kit_call *call)
{
    const product_plan *plan = call->plan;
    const product_state *state = call->state;
    const kit_tensor *x = &call->in[IN_X], *y = &call->out[0];
    char *room = call->workspace;
    int64_t *starts = (int64_t *)(void *)room;
    product_tile *tiles = (product_tile *)(void *)(room += plan->start_bytes);
    const void **x_rows = (const void **)(void *)(room += plan->tile_bytes);
    void **y_rows = (void **)(void *)(room += plan->pointer_bytes);
    product_job job = { .state = state, .tiles = tiles, .x = x_rows, .y = y_rows };
    float *from = (float *)(void *)(room += plan->pointer_bytes), *to = (float *)(void *)(room += plan->x_bytes);
    inlay_status status = INLAY_OK;
    int64_t count, work;

    INLAY_TRY(indices_check(call, &call->in[IN_INDICES], state->matrices));
    if (y->count == 0)
        return INLAY_OK;
    if (plan->converts_x)
        convert_to_f32(from, x->dtype, x->data, 0, x->count);
    count = make_tiles(call, plan->converts_x ? from : x->data, plan->converts_y ? to : y->data, starts, tiles, &job);
    work = plan->rows / count * state->panels.depth * state->panels.columns / state->panels.count;
    INLAY_TRY(kit_parallel(call, count * state->panels.count, WORK_GRAIN / (work + 1) + 1, multiply, &job));
    if (plan->converts_y)
        convert_from_f32(y->dtype, y->data, 0, y->count, to, 0);
done:
    return status;
}

static const kit_kernel kernels[] = {
    { .domain = "ai.inlay",
      .op_type = "GatherMatMul",
      .since_max = 1,
      .supports = supports,
      .cost = estimate,
      .prepare = prepare,
      .release = release,
      .shape = shape,
      .run = run },
};
const kit_table OPERATOR(operators_gather_mat_mul) = { kernels, KIT_COUNT(kernels) };
