/* driver.c - the engine-independent part of a multiplication: tiles, their order, and storing results in half
 * precision. */
#include "inlay/check.h"
#include "simd/convert.h"
#include "operators/gemm.h"

int64_t gemm_depth(const gemm_kernel *kernel, int64_t k)
{
    int64_t most = kernel->depth;
    int64_t blocks = k > 0 ? gemm_ceil_div(k, most) : 1;

    INLAY_CHECK(most > 0 && kernel->k_step > 0);
    /* Blocks of similar depth: a short last block would waste the loads and stores of C. */
    if (k <= 0)
        return kernel->k_step;
    return gemm_min(gemm_round_up(gemm_ceil_div(k, blocks), kernel->k_step), gemm_round_up(k, kernel->k_step));
}

bool gemm_packed_bytes(const gemm_kernel *kernel, uint32_t width, int64_t lines, int64_t k, uint64_t *out_bytes)
{
    uint64_t bytes = (uint64_t)kernel->in_bytes;

    if (lines < 0 || k < 0 || lines > INT64_MAX - 64 || k > INT64_MAX - 64)
        return false;
    return !__builtin_mul_overflow(bytes, (uint64_t)gemm_round_up(lines, width), &bytes) &&
           !__builtin_mul_overflow(bytes, (uint64_t)gemm_round_up(k, kernel->k_step), &bytes) &&
           !__builtin_add_overflow(bytes, UINT64_C(63), &bytes) && (*out_bytes = bytes & ~UINT64_C(63), true);
}

void gemm_plan(gemm_job *job, uint32_t threads)
{
    int64_t tile_m = 1, tile_n = 1;

    job->kernel->plan(job, threads > 0 ? threads : 1, &tile_m, &tile_n);
    gemm_plan_tiles(job, tile_m, tile_n);
}

void gemm_plan_tiles(gemm_job *job, int64_t tile_m, int64_t tile_n)
{
    INLAY_CHECK(tile_m > 0 && tile_n > 0);
    job->tile_m = tile_m;
    job->tile_n = tile_n;
    job->pack_bytes = gemm_align(job->kernel->pack_bytes(job));
    job->thread_bytes = job->pack_bytes;
    if (job->c_in_workspace)
        job->thread_bytes += gemm_align((uint64_t)(tile_m * tile_n * job->kernel->acc_bytes));
}

bool gemm_workspace(const gemm_job *job, uint32_t threads, uint64_t *out_bytes)
{
    return !__builtin_mul_overflow(job->thread_bytes, (uint64_t)(threads > 0 ? threads : 1), out_bytes);
}

void gemm_run_tile(const gemm_job *job, gemm_tile *tile, void *workspace)
{
    const gemm_kernel *kernel = job->kernel;

    INLAY_CHECK(tile->i0 <= tile->i1 && tile->i1 <= job->m && tile->j0 <= tile->j1 && tile->j1 <= job->n);
    if (tile->c == NULL && job->c_in_workspace) {
        tile->c_stride = job->tile_n;
        tile->c = (char *)workspace + job->pack_bytes;
    } else if (tile->c == NULL) {
        tile->c_stride = job->c_stride;
        tile->c = (char *)job->c +
                  (tile->batch * job->c_batch_stride + tile->i0 * job->c_stride + tile->j0) * kernel->acc_bytes;
    }
    if (job->init != NULL)
        job->init(job->init_user, tile);
    else if (job->k <= 0)
        for (int64_t i = 0; i < tile->i1 - tile->i0; i++)
            memset((char *)tile->c + i * tile->c_stride * kernel->acc_bytes, 0,
                   (size_t)((tile->j1 - tile->j0) * kernel->acc_bytes));
    if (job->k > 0)
        kernel->multiply(job, tile, workspace);
    if (job->finish != NULL)
        job->finish(job->finish_user, tile);
}

static void store_half(void *user, const gemm_tile *tile)
{
    const gemm_half_output *out = user;
    const float *from = tile->c;

    for (int64_t i = tile->i0; i < tile->i1; i++, from += tile->c_stride)
        convert_from_f32(out->dtype, out->data, (tile->batch * out->m + i) * out->n + tile->j0, tile->j1 - tile->j0,
                         from, 0);
}

void gemm_set_output(gemm_job *job, gemm_half_output *out, inlay_dtype dtype, void *output)
{
    job->c_in_workspace = dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16;
    if (job->c_in_workspace) {
        *out = (gemm_half_output){ output, dtype, job->m, job->n };
        job->finish = store_half;
        job->finish_user = out;
    }
    job->c = output;
    job->c_stride = job->n;
    job->c_batch_stride = job->m * job->n;
}

/* Runs tile `index`; tiles of a column stripe are consecutive. */
static void run_tile(const gemm_job *job, int64_t batch, int64_t index, char *workspace)
{
    int64_t down = gemm_ceil_div(job->m, job->tile_m);
    gemm_tile tile = { .batch = batch };

    INLAY_CHECK(batch >= 0 && index < down * gemm_ceil_div(job->n, job->tile_n));
    tile.i0 = index % down * job->tile_m;
    tile.j0 = index / down * job->tile_n;
    tile.i1 = gemm_min(tile.i0 + job->tile_m, job->m);
    tile.j1 = gemm_min(tile.j0 + job->tile_n, job->n);
    gemm_run_tile(job, &tile, workspace);
}

static int64_t tiles_per_batch(const gemm_job *job)
{
    return gemm_ceil_div(job->m, job->tile_m) * gemm_ceil_div(job->n, job->tile_n);
}

void gemm_run_serial(const gemm_job *job, int64_t batch, void *workspace)
{
    int64_t tiles = tiles_per_batch(job);

    for (int64_t i = 0; i < tiles; i++)
        run_tile(job, batch, i, workspace);
}

typedef struct parallel_job {
    const gemm_job *job;
    char *workspace;
    int64_t tiles;
} parallel_job;

static inlay_status run_tiles(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const parallel_job *job = user;

    for (int64_t i = begin; i < end; i++)
        run_tile(job->job, i / job->tiles, i % job->tiles, job->workspace + worker * job->job->thread_bytes);
    return INLAY_OK;
}

inlay_status gemm_run(const kit_call *call, const gemm_job *job, void *workspace)
{
    parallel_job parallel = { job, workspace, 0 };
    int64_t tile_work, grain;

    parallel.tiles = tiles_per_batch(job);
    if (parallel.tiles == 0 || job->batch <= 0)
        return INLAY_OK;
    INLAY_CHECK(job->tile_m > 0 && job->tile_n > 0 && (workspace != NULL || job->thread_bytes == 0));
    tile_work = job->tile_m * job->tile_n * (job->k > 0 ? job->k : 1);
    grain = tile_work > 0 && tile_work < GEMM_GRAIN ? GEMM_GRAIN / tile_work : 1;
    return kit_parallel(call, job->batch * parallel.tiles, grain, run_tiles, &parallel);
}
