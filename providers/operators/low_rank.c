/* LowRank of ai.inlay: adds the products of two small factors to the rows of a matrix multiplication (LoRA adapters).
 * Each row has its adapter or none, and reads only the factors of its own. Sums do not depend on the other rows, nor on
 * the number of threads. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "operators/args.h"
#include "operators/gemm.h"
#include "simd/convert.h"
#include "operators/operators.h"
#include <stdlib.h>

enum { IN_BASE, IN_X, IN_ROWS, IN_FACTORS };
enum {
    LANES = 16,          /* partial sums of a dot product */
    TILE = 8,            /* rows that read a factor together */
    GROUP = 4,           /* of them, rows whose sums are in registers together */
    COLUMNS = 64,        /* columns of the result that are computed together */
    WORK_GRAIN = 1 << 17 /* minimum multiplications per thread */
};

typedef struct low_rank_state {
    int64_t count;     /* adapters of the session */
    uint32_t pairs;    /* of factors */
    uint32_t *pair_of; /* [count] 1 + pair of each adapter; 0: it does not change this product */
    float *scales;     /* [pairs] */
} low_rank_state;

/* Consecutive rows of one adapter. */
typedef struct low_rank_tile {
    int64_t first;
    uint32_t rows;
    uint32_t pair; /* 1 + pair; 0: none */
} low_rank_tile;

typedef struct low_rank_plan {
    int64_t k, n, rows, rank; /* rank: the highest of all pairs */
    bool converts;            /* x is converted to float first */
    uint64_t tile_bytes, x_bytes, inner_bytes, worker_bytes;
} low_rank_plan;

static void release(void *user)
{
    low_rank_state *state = user;

    if (state == NULL)
        return;
    free(state->pair_of);
    free(state->scales);
    free(state);
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    uint32_t pairs = 0;
    const int64_t *adapters = kit_attr_ints(node->info, "adapters", &pairs);
    const inlay_attr_info *scales = kit_attr(node->info, "scales");
    const int64_t count = kit_attr_int(node->info, "count", 0);
    low_rank_state *state;

    if (count < 0 || count > INT32_MAX || scales == NULL || scales->count != pairs)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "count is %lld, with %u adapters and %u scales", (long long)count,
                          pairs, scales != NULL ? scales->count : 0);
    *out_state = state = calloc(1, sizeof *state);
    if (state != NULL) {
        state->pair_of = calloc((size_t)count + 1, sizeof *state->pair_of);
        state->scales = calloc((size_t)pairs + 1, sizeof *state->scales);
    }
    if (state == NULL || state->pair_of == NULL || state->scales == NULL) {
        release(state);
        *out_state = NULL;
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the state of a kernel");
    }
    state->count = count;
    state->pairs = pairs;
    for (uint32_t p = 0; p < pairs; p++) {
        if (adapters[p] < 0 || adapters[p] >= count) {
            release(state);
            *out_state = NULL;
            return inlay_fail(diag, INLAY_INVALID_MODEL, "adapters[%u] is %lld, outside [0, %lld)", p,
                              (long long)adapters[p], (long long)count);
        }
        state->pair_of[adapters[p]] = p + 1;
        state->scales[p] = scales->floats[p];
    }
    return INLAY_OK;
}

static inlay_status shape(const void *user, kit_plan *plan, inlay_diag *diag)
{
    const low_rank_state *state = user;
    const kit_tensor *base = &plan->in[IN_BASE], *x = &plan->in[IN_X];
    low_rank_plan *sizes = kit_plan_new(plan, sizeof *sizes);

    if (sizes == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a plan");
    if (x->rank < 1 || base->rank < 1 || plan->in_count != IN_FACTORS + 2 * state->pairs)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the rows to multiply and to add to need at least one axis");
    *sizes = (low_rank_plan){ .k = x->dims[x->rank - 1],
                              .n = base->dims[base->rank - 1],
                              .converts = x->dtype != INLAY_FLOAT };
    sizes->rows = sizes->k > 0 ? x->count / sizes->k : 0;
    if (sizes->k < 1 || base->count != sizes->rows * sizes->n)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "%lld rows are multiplied and %lld elements added to",
                          (long long)sizes->rows, (long long)base->count);
    for (uint32_t i = IN_FACTORS; i < plan->in_count; i += 2) {
        const kit_tensor *a = &plan->in[i], *b = &plan->in[i + 1];

        if (a->rank != 2 || b->rank != 2 || a->dims[0] != b->dims[0] || a->dims[1] != sizes->k ||
            b->dims[1] != sizes->n)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                              "factors %u and %u are not [rank, %lld] and [rank, %lld] with equal ranks",
                              i - IN_FACTORS, i + 1 - IN_FACTORS, (long long)sizes->k, (long long)sizes->n);
        sizes->rank = a->dims[0] > sizes->rank ? a->dims[0] : sizes->rank;
    }
    sizes->tile_bytes = gemm_align((uint64_t)sizes->rows * sizeof(low_rank_tile));
    sizes->x_bytes = sizes->converts ? gemm_align((uint64_t)x->count * sizeof(float)) : 0;
    sizes->inner_bytes = gemm_align((uint64_t)(sizes->rows * sizes->rank) * sizeof(float));
    sizes->worker_bytes = gemm_align((uint64_t)sizes->k * sizeof(float));
    plan->workspace_bytes = sizes->tile_bytes + sizes->x_bytes + sizes->inner_bytes +
                            sizes->worker_bytes * ((uint64_t)plan->max_threads + 1);
    return INLAY_OK;
}

static void estimate(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const kit_tensor *base = &shapes->in[IN_BASE], *x = &shapes->in[IN_X];
    const kit_tensor *a = shapes->in_count > IN_FACTORS ? &shapes->in[IN_FACTORS] : NULL;

    (void)node;
    if (a != NULL && a->rank == 2 && x->count > 0 && base->count > 0)
        cost->flops = 2.0 * (double)a->dims[0] * (double)(x->count + base->count);
}

typedef struct low_rank_job {
    const kit_call *call;
    const low_rank_tile *tiles;
    const float *x; /* [rows, k] */
    float *inner;   /* [rows, rank] x * transpose(a) */
    char *workers;
} low_rank_job;

static float sum_of(const float *sums)
{
    float sum = 0;

    for (int lane = 0; lane < LANES; lane++)
        sum += sums[lane];
    return sum;
}

static float dot(const float *a, const float *b, int64_t count)
{
    float sums[LANES] = { 0 };
    int64_t i = 0;

    for (; i + LANES <= count; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            sums[lane] += a[i + lane] * b[i + lane];
    for (int lane = 0; i < count; i++, lane++)
        sums[lane] += a[i] * b[i];
    return sum_of(sums);
}

/* dot() of GROUP rows, `stride` elements apart, with the same vector. */
static void dot_group(const float *a, int64_t stride, const float *b, int64_t count, float *out, int64_t out_stride)
{
    float sums[GROUP][LANES] = { { 0 } };
    int64_t i = 0;

    for (; i + LANES <= count; i += LANES)
        for (int row = 0; row < GROUP; row++)
            for (int lane = 0; lane < LANES; lane++)
                sums[row][lane] += a[row * stride + i + lane] * b[i + lane];
    for (int lane = 0; i < count; i++, lane++)
        for (int row = 0; row < GROUP; row++)
            sums[row][lane] += a[row * stride + i] * b[i];
    for (int row = 0; row < GROUP; row++)
        out[row * out_stride] = sum_of(sums[row]);
}

/* Elements [first, first + count) of a factor as floats; `room` receives them if the factor has another type. */
static const float *floats_of(const kit_tensor *factor, int64_t first, int64_t count, float *room)
{
    if (factor->dtype == INLAY_FLOAT)
        return (const float *)factor->data + first;
    convert_to_f32(room, factor->dtype, factor->data, first, count);
    return room;
}

/* Items [begin, end) of tile * rank + row of the first factor. */
static inlay_status multiply_first(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const low_rank_job *job = user;
    const low_rank_plan *plan = job->call->plan;
    float *room = (float *)(void *)(job->workers + worker * plan->worker_bytes);

    for (int64_t item = begin; item < end; item++) {
        const low_rank_tile *tile = &job->tiles[item / plan->rank];
        const int64_t j = item % plan->rank;
        const kit_tensor *factor = &job->call->in[IN_FACTORS + 2 * (tile->pair > 0 ? tile->pair - 1 : 0)];
        const float *a, *x = job->x + tile->first * plan->k;
        float *inner = job->inner + tile->first * plan->rank + j;
        uint32_t row = 0;

        if (tile->pair == 0 || j >= factor->dims[0])
            continue;
        a = floats_of(factor, j * plan->k, plan->k, room);
        for (; row + GROUP <= tile->rows; row += GROUP)
            dot_group(x + row * plan->k, plan->k, a, plan->k, inner + row * plan->rank, plan->rank);
        for (; row < tile->rows; row++)
            inner[row * plan->rank] = dot(x + row * plan->k, a, plan->k);
    }
    return INLAY_OK;
}

/* Writes columns [column, column + count) of the sums to the output, added to those of the input. */
static void add_to(const kit_call *call, int64_t first, const float *sums, int64_t count)
{
    const kit_tensor *base = &call->in[IN_BASE];
    float values[COLUMNS];

    if (base->dtype == INLAY_FLOAT) {
        const float *from = (const float *)base->data + first;
        float *to = (float *)call->out[0].data + first;

        for (int64_t i = 0; i < count; i++)
            to[i] = from[i] + sums[i];
        return;
    }
    convert_to_f32(values, base->dtype, base->data, first, count);
    for (int64_t i = 0; i < count; i++)
        values[i] += sums[i];
    convert_from_f32(base->dtype, call->out[0].data, first, count, values, 0);
}

/* Items [begin, end) of tile * blocks + block of columns. */
static inlay_status multiply_second(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const low_rank_job *job = user;
    const kit_call *call = job->call;
    const low_rank_plan *plan = call->plan;
    const low_rank_state *state = call->state;
    const int64_t blocks = (plan->n + COLUMNS - 1) / COLUMNS;

    (void)worker;
    for (int64_t item = begin; item < end; item++) {
        const low_rank_tile *tile = &job->tiles[item / blocks];
        const int64_t column = item % blocks * COLUMNS, left = plan->n - column;
        const int64_t count = left < COLUMNS ? left : COLUMNS;
        const kit_tensor *factor = &call->in[IN_FACTORS + 1 + 2 * (tile->pair > 0 ? tile->pair - 1 : 0)];
        float sums[TILE][COLUMNS] = { { 0 } }, room[COLUMNS];

        if (tile->pair == 0)
            continue;
        for (int64_t j = 0; j < factor->dims[0]; j++) {
            const float *b = floats_of(factor, j * plan->n + column, count, room);

            for (uint32_t row = 0; row < tile->rows; row++) {
                const float by = job->inner[(tile->first + row) * plan->rank + j] * state->scales[tile->pair - 1];

                for (int64_t i = 0; i < count; i++)
                    sums[row][i] += by * b[i];
            }
        }
        for (uint32_t row = 0; row < tile->rows; row++)
            add_to(call, (tile->first + row) * plan->n + column, sums[row], count);
    }
    return INLAY_OK;
}

/* Divides the rows into tiles; *out_any: one of them has an adapter. */
static inlay_status make_tiles(const kit_call *call, low_rank_tile *tiles, int64_t *out_count, bool *out_any)
{
    const low_rank_state *state = call->state;
    const low_rank_plan *plan = call->plan;
    const int64_t *which = call->in[IN_ROWS].data, parts = call->in[IN_ROWS].count;
    int64_t count = 0;

    *out_any = false;
    if (parts < 1 || plan->rows % parts != 0)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "%lld adapters are chosen for %lld rows", (long long)parts,
                          (long long)plan->rows);
    for (int64_t row = 0; row < plan->rows; row++) {
        const int64_t part = row / (plan->rows / parts), adapter = which[part];
        low_rank_tile *last = count > 0 ? &tiles[count - 1] : NULL;
        uint32_t pair;

        if (adapter < -1 || adapter >= state->count)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                              "adapter[%lld] is %lld, outside [-1, %lld); -1 = none", (long long)part,
                              (long long)adapter, (long long)state->count);
        pair = adapter < 0 ? 0 : state->pair_of[adapter];
        *out_any |= pair != 0;
        if (last != NULL && last->pair == pair && last->rows < TILE)
            last->rows++;
        else
            tiles[count++] = (low_rank_tile){ row, 1, pair };
    }
    *out_count = count;
    return INLAY_OK;
}

static int64_t grain_of(int64_t work)
{
    return WORK_GRAIN / (work + 1) + 1;
}

static inlay_status run(const kit_call *call)
{
    const low_rank_plan *plan = call->plan;
    const kit_tensor *base = &call->in[IN_BASE], *x = &call->in[IN_X];
    char *room = call->workspace;
    low_rank_tile *tiles = (low_rank_tile *)(void *)room;
    float *converted = (float *)(void *)(room + plan->tile_bytes);
    low_rank_job job = { .call = call,
                         .tiles = tiles,
                         .x = plan->converts ? converted : x->data,
                         .inner = (float *)(void *)(room + plan->tile_bytes + plan->x_bytes),
                         .workers = room + plan->tile_bytes + plan->x_bytes + plan->inner_bytes };
    inlay_status status = INLAY_OK;
    int64_t count = 0;
    bool any;

    if (base->count == 0)
        return INLAY_OK;
    INLAY_TRY(make_tiles(call, tiles, &count, &any));
    if (call->out[0].data != base->data)
        memcpy(call->out[0].data, base->data, kit_bytes(base->dtype, base->count));
    if (!any || plan->rank == 0)
        return INLAY_OK;
    if (plan->converts)
        convert_to_f32(converted, x->dtype, x->data, 0, x->count);
    INLAY_TRY(kit_parallel(call, count * plan->rank, grain_of(plan->k * (count < plan->rows ? TILE : 1)),
                           multiply_first, &job));
    INLAY_TRY(kit_parallel(call, count * ((plan->n + COLUMNS - 1) / COLUMNS),
                           grain_of(COLUMNS * plan->rank * (count < plan->rows ? TILE : 1)), multiply_second, &job));
done:
    return status;
}

static const kit_kernel kernels[] = {
    { .domain = "ai.inlay",
      .op_type = "LowRank",
      .since_max = 1,
      .flags = KIT_IN_PLACE_FIRST,
      .cost = estimate,
      .prepare = prepare,
      .release = release,
      .shape = shape,
      .run = run },
};
const kit_table OPERATOR(operators_low_rank) = { kernels, KIT_COUNT(kernels) };
