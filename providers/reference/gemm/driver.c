/* driver.c - chooses the microkernel, cuts products into blocks and tiles, runs them. */
#include "gemm/set.h"
#include "convert.h"
#include <stdlib.h>

enum {
    DEPTH_BYTES = 1024,        /* of one line in a block: a panel of B then fits the first-level cache */
    TILE_A_BYTES = 512 * 1024, /* packed rows of a tile, per block of k: half a second-level cache */
    TILE_B_BYTES = 384 * 1024, /* packed columns likewise */
    SLACK = 64                 /* after packed columns: see gemm_pack_fn */
};

/* ------------------------------------------------------------------ kernels */

static bool cpu_has_avx512(void)
{
#ifdef GEMM_X86_LEVELS
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
    return false;
#endif
}

static bool cpu_has_avx2(void)
{
#ifdef GEMM_X86_LEVELS
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

const gemm_kernel *gemm_kernel_at(uint32_t type, uint32_t i)
{
    const gemm_kernel *found[3];
    uint32_t count = 0;

#ifdef GEMM_X86_LEVELS
    if (cpu_has_avx512())
        found[count++] = gemm_set_avx512[type];
    if (cpu_has_avx2())
        found[count++] = gemm_set_avx2[type];
#else
    (void)cpu_has_avx512;
    (void)cpu_has_avx2;
#endif
    found[count++] = gemm_set_base[type];
    return i < count ? found[i] : NULL;
}

const gemm_kernel *gemm_kernel_best(uint32_t type)
{
    return gemm_kernel_at(type, 0);
}

/* ------------------------------------------------------------------ sizes */

static inline int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}
static inline int64_t round_up(int64_t a, int64_t b)
{
    return ceil_div(a, b) * b;
}

int64_t gemm_depth(const gemm_kernel *kernel, int64_t k)
{
    int64_t most = DEPTH_BYTES / kernel->in_bytes;
    int64_t blocks = k > 0 ? ceil_div(k, most) : 1;

    /* Blocks of about the same depth; a short last block would waste the loads and stores of C. */
    return k > 0 ? min64(round_up(ceil_div(k, blocks), kernel->k_step), round_up(k, kernel->k_step)) : kernel->k_step;
}

bool gemm_packed_bytes(const gemm_kernel *kernel, uint32_t width, int64_t lines, int64_t k, uint64_t *out_bytes)
{
    uint64_t bytes = (uint64_t)kernel->in_bytes;

    if (lines < 0 || k < 0 || lines > INT64_MAX - 64 || k > INT64_MAX - 64)
        return false;
    return !__builtin_mul_overflow(bytes, (uint64_t)round_up(lines, width), &bytes) &&
           !__builtin_mul_overflow(bytes, (uint64_t)round_up(k, kernel->k_step), &bytes) &&
           !__builtin_add_overflow(bytes, UINT64_C(63), &bytes) && (*out_bytes = bytes & ~UINT64_C(63), true);
}

void gemm_pack_all(const gemm_kernel *kernel, uint32_t width, const gemm_operand *source, int64_t batch, int64_t lines,
                   int64_t k, void *out)
{
    int64_t depth = gemm_depth(kernel, k);
    char *to = out;

    for (int64_t k0 = 0; k0 < k; k0 += depth) {
        int64_t k1 = min64(k0 + depth, k);
        source->pack(source, batch, 0, lines, k0, k1, width, to);
        to += round_up(lines, width) * round_up(k1 - k0, kernel->k_step) * kernel->in_bytes;
    }
}

inlay_status gemm_pack_constant(const gemm_kernel *kernel, uint32_t width, gemm_operand *operand, int64_t matrices,
                                int64_t lines, int64_t k, void **out_memory, inlay_diag *diag)
{
    uint64_t each, all;
    char *memory = NULL;

    *out_memory = NULL;
    if (gemm_packed_bytes(kernel, width, lines, k, &each) && matrices >= 0 &&
        !__builtin_mul_overflow(each, (uint64_t)matrices, &all) && all < SIZE_MAX - 64)
        memory = aligned_alloc(64, all + 64);
    if (memory == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for packed weights, %lld x %lld x %lld",
                          (long long)matrices, (long long)lines, (long long)k);
    for (int64_t i = 0; i < matrices; i++) {
        gemm_operand one = *operand;
        one.which = &i;
        gemm_pack_all(kernel, width, &one, 0, lines, k, memory + (uint64_t)i * each);
    }
    operand->packed = memory;
    operand->packed_stride = matrices > 1 ? (int64_t)each : 0;
    *out_memory = memory;
    return INLAY_OK;
}

/* Is B read where it lies? Packing pays off only when more than a few panels of A meet it. */
static bool reads_in_place(const gemm_job *job)
{
    return job->b.packed == NULL && job->b.in_place && job->m <= 3 * (int64_t)job->kernel->mr;
}

static uint64_t align64(uint64_t bytes)
{
    return (bytes + 63) & ~UINT64_C(63);
}

void gemm_plan(gemm_job *job, uint32_t threads)
{
    const gemm_kernel *kernel = job->kernel;
    int64_t mr = kernel->mr, nr = kernel->nr, depth = gemm_depth(kernel, job->k), line = depth * kernel->in_bytes;
    int64_t tile_m = TILE_A_BYTES / line / mr * mr, tile_n = TILE_B_BYTES / line / nr * nr;

    /* Packed already: a taller tile only means that fewer tiles pack the same columns. */
    if (job->a.packed != NULL)
        tile_m *= 4;
    if (job->c_in_workspace) /* keep that workspace small */
        tile_m = min64(tile_m, 128);
    tile_m = min64(tile_m < mr ? mr : tile_m, round_up(job->m, mr));
    tile_n = min64(tile_n < nr ? nr : tile_n, round_up(job->n, nr));
    tile_m = tile_m < mr ? mr : tile_m;
    tile_n = tile_n < nr ? nr : tile_n;
    /* Every thread should have a few tiles, as long as a tile is worth handing out. */
    while (threads > 1) {
        int64_t tiles = ceil_div(job->m, tile_m) * ceil_div(job->n, tile_n);
        if (job->batch > 0 && tiles > INT64_MAX / job->batch)
            break;
        tiles *= job->batch;
        if (tiles >= 4 * (int64_t)threads || tile_m * tile_n * depth < 64 * 1024)
            break;
        if (tile_n > nr && (tile_n >= tile_m || tile_m <= mr))
            tile_n = round_up(tile_n / 2, nr);
        else if (tile_m > mr)
            tile_m = round_up(tile_m / 2, mr);
        else
            break;
    }
    gemm_plan_tiles(job, tile_m, tile_n);
}

void gemm_plan_tiles(gemm_job *job, int64_t tile_m, int64_t tile_n)
{
    int64_t line = gemm_depth(job->kernel, job->k) * job->kernel->in_bytes;

    job->tile_m = tile_m;
    job->tile_n = tile_n;
    job->thread_bytes = 0;
    if (job->a.packed == NULL)
        job->thread_bytes += align64((uint64_t)(tile_m * line));
    if (job->b.packed == NULL)
        job->thread_bytes += align64((uint64_t)(tile_n * line)) + SLACK;
    if (job->c_in_workspace)
        job->thread_bytes += align64((uint64_t)(tile_m * tile_n * job->kernel->acc_bytes));
}

bool gemm_workspace(const gemm_job *job, uint32_t threads, uint64_t *out_bytes)
{
    return !__builtin_mul_overflow(job->thread_bytes, (uint64_t)(threads > 0 ? threads : 1), out_bytes);
}

/* ------------------------------------------------------------------ one tile */

/* One block of k of one tile: panels ready to be multiplied. */
typedef struct k_block {
    const char *a;       /* first panel of the tile's rows */
    const char *b;       /* first panel of the tile's columns; of the last, partial one when in_place */
    const char *b_plain; /* in place: row k0, first column of the tile; otherwise NULL */
    int64_t b_plain_stride;
    int64_t packed_depth; /* of the block, rounded up to k_step */
    bool add;
} k_block;

static void multiply_panel(const gemm_job *job, const k_block *block, const gemm_tile *tile, int64_t i, int64_t j)
{
    const gemm_kernel *kernel = job->kernel;
    int64_t rows = min64(kernel->mr, tile->i1 - tile->i0 - i), cols = min64(kernel->nr, tile->j1 - tile->j0 - j);
    int64_t panel = block->packed_depth * kernel->in_bytes; /* bytes of one line */
    const char *a = block->a + i * panel, *b = block->b + j * panel;
    int64_t b_stride = (int64_t)kernel->nr * kernel->k_step;
    char *c = (char *)tile->c + (i * tile->c_stride + j) * kernel->acc_bytes;

    if (block->b_plain != NULL) {
        b = block->b;
        if (cols == kernel->nr) {
            b = block->b_plain + j * kernel->in_bytes;
            b_stride = block->b_plain_stride;
        }
    }
    kernel->tile[3 * (rows - 1) + (cols - 1) / kernel->lanes](block->packed_depth, a, b, b_stride, c, tile->c_stride,
                                                             cols, block->add);
}

/* The panels that stay in the first-level cache go into the outer loop: those of the side that is read again and again
 * from further away go into the inner one. */
static void multiply_block(const gemm_job *job, const k_block *block, const gemm_tile *tile)
{
    int64_t m = tile->i1 - tile->i0, n = tile->j1 - tile->j0, mr = job->kernel->mr, nr = job->kernel->nr;

    if (n < m) {
        for (int64_t i = 0; i < m; i += mr)
            for (int64_t j = 0; j < n; j += nr)
                multiply_panel(job, block, tile, i, j);
    } else {
        for (int64_t j = 0; j < n; j += nr)
            for (int64_t i = 0; i < m; i += mr)
                multiply_panel(job, block, tile, i, j);
    }
}

static const char *packed_at(const gemm_job *job, const gemm_operand *operand, uint32_t width, int64_t lines,
                             int64_t batch, int64_t line, int64_t k0, int64_t packed_depth)
{
    return (const char *)operand->packed + gemm_which(operand, batch) * operand->packed_stride +
           (k0 * round_up(lines, width) + line * packed_depth) * job->kernel->in_bytes;
}

void gemm_run_tile(const gemm_job *job, gemm_tile *tile, void *workspace)
{
    const gemm_kernel *kernel = job->kernel;
    int64_t depth = gemm_depth(kernel, job->k), line = depth * kernel->in_bytes;
    bool in_place = reads_in_place(job);
    char *a_room = workspace, *b_room = a_room + (job->a.packed == NULL ? align64((uint64_t)(job->tile_m * line)) : 0);
    char *c_room = b_room + (job->b.packed == NULL ? align64((uint64_t)(job->tile_n * line)) + SLACK : 0);

    if (tile->c == NULL) {
        tile->c_stride = job->c_in_workspace ? job->tile_n : job->c_stride;
        tile->c = job->c_in_workspace ? c_room
                                      : (char *)job->c + (tile->batch * job->c_batch_stride + tile->i0 * job->c_stride +
                                                          tile->j0) * kernel->acc_bytes;
    }
    if (job->init != NULL)
        job->init(job->init_user, tile);
    else if (job->k <= 0)
        for (int64_t i = 0; i < tile->i1 - tile->i0; i++)
            memset((char *)tile->c + i * tile->c_stride * kernel->acc_bytes, 0,
                   (size_t)((tile->j1 - tile->j0) * kernel->acc_bytes));
    for (int64_t k0 = 0; k0 < job->k; k0 += depth) {
        int64_t k1 = min64(k0 + depth, job->k), rounded = round_up(k1 - k0, kernel->k_step);
        k_block block = { .a = a_room, .b = b_room,
                        .packed_depth = rounded,
                        .add = k0 > 0 || job->init != NULL };

        if (job->a.packed != NULL)
            block.a = packed_at(job, &job->a, kernel->mr, job->m, tile->batch, tile->i0, k0, rounded);
        else
            job->a.pack(&job->a, tile->batch, tile->i0, tile->i1, k0, k1, kernel->mr, a_room);
        if (job->b.packed != NULL) {
            block.b = packed_at(job, &job->b, kernel->nr, job->n, tile->batch, tile->j0, k0, rounded);
        } else if (in_place) {
            const gemm_operand *b = &job->b;
            int64_t whole = (tile->j1 - tile->j0) / kernel->nr * kernel->nr;
            int64_t at = gemm_which(b, tile->batch) * b->matrix_stride;
            block.b_plain = (const char *)b->data + (at + k0 * b->k_stride + tile->j0) * kernel->in_bytes;
            block.b_plain_stride = b->k_stride;
            if (tile->j0 + whole < tile->j1)
                b->pack(b, tile->batch, tile->j0 + whole, tile->j1, k0, k1, kernel->nr, b_room);
        } else {
            job->b.pack(&job->b, tile->batch, tile->j0, tile->j1, k0, k1, kernel->nr, b_room);
        }
        multiply_block(job, &block, tile);
    }
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

void gemm_set_output(gemm_job *job, gemm_half_output *out, inlay_dtype dtype, void *y)
{
    job->c_in_workspace = dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16;
    if (job->c_in_workspace) {
        *out = (gemm_half_output){ y, dtype, job->m, job->n };
        job->finish = store_half;
        job->finish_user = out;
    }
    job->c = y;
    job->c_stride = job->n;
    job->c_batch_stride = job->m * job->n;
}

/* ------------------------------------------------------------------ all tiles */

/* Tile number `index`; the tiles of a column stripe follow each other. */
static void run_tile(const gemm_job *job, int64_t batch, int64_t index, char *workspace)
{
    int64_t down = ceil_div(job->m, job->tile_m);
    gemm_tile tile = { .batch = batch };

    tile.i0 = index % down * job->tile_m;
    tile.j0 = index / down * job->tile_n;
    tile.i1 = min64(tile.i0 + job->tile_m, job->m);
    tile.j1 = min64(tile.j0 + job->tile_n, job->n);
    gemm_run_tile(job, &tile, workspace);
}

static int64_t tiles_per_batch(const gemm_job *job)
{
    return ceil_div(job->m, job->tile_m) * ceil_div(job->n, job->tile_n);
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
    const parallel_job *p = user;

    for (int64_t i = begin; i < end; i++)
        run_tile(p->job, i / p->tiles, i % p->tiles, p->workspace + worker * p->job->thread_bytes);
    return INLAY_OK;
}

inlay_status gemm_run(const kit_call *call, const gemm_job *job, void *workspace)
{
    parallel_job p = { job, workspace, 0 };
    int64_t tile_work, grain;

    p.tiles = tiles_per_batch(job);
    if (p.tiles == 0 || job->batch <= 0)
        return INLAY_OK;
    tile_work = job->tile_m * job->tile_n * (job->k > 0 ? job->k : 1);
    grain = tile_work > 0 && tile_work < 128 * 1024 ? 128 * 1024 / tile_work : 1;
    return kit_parallel(call, job->batch * p.tiles, grain, run_tiles, &p);
}
