/* blocks.c - the gemm engine of the providers reference and cpu: chooses the microkernel, divides tiles into
 * cache-sized blocks, and runs them. */
#include "inlay/check.h"
#include "simd/instances.h"
#include "operators/gemm/set.h"
#include "operators/product_cost.h"

enum {
    TILE_A_BYTES = 512 * 1024, /* packed rows of a tile, per block of k: half of the second-level cache */
    TILE_B_BYTES = 384 * 1024, /* packed columns of a tile, per block of k */
    SLACK = 64                 /* bytes after packed columns, see gemm_pack_fn */
};

/* A program of `inlay bundle` may lack the sets that it does not use, so only the i-th set is read. */
const gemm_kernel *gemm_kernel_at(uint32_t type, uint32_t i)
{
    gemm_set *found[CPU_LEVEL_COUNT];
    uint32_t count = 0;

#if defined(__x86_64__) && !defined(SIMD_ONLY)
    if (cpu_uniform() != CPU_UNIFORM_NO) {
        found[0] = KERNEL_BEST(gemm_set);
        return i == 0 ? (*found[0])[type] : NULL;
    }
    if (cpu_has(CPU_AVX512))
        found[count++] = &gemm_set_avx512;
    if (cpu_has(CPU_AVX2))
        found[count++] = &gemm_set_avx2;
    found[count++] = &gemm_set_c;
#else
#if defined(__aarch64__) && !defined(SIMD_ONLY)
    if (type == GEMM_BF16 && &gemm_bf16_neon_i8mm != NULL && cpu_uniform() == CPU_UNIFORM_NO && cpu_has_i8mm())
        return i == 0 ? &gemm_bf16_neon_i8mm : NULL;
#endif
    found[count++] = KERNEL_BEST(gemm_set);
#endif
    return i < count ? (*found[i])[type] : NULL;
}

const gemm_kernel *gemm_kernel_best(uint32_t type)
{
    return gemm_kernel_at(type, 0);
}

static const gemm_kernel *engine_kernel(const gemm_engine *self, uint32_t type)
{
    (void)self;
    return gemm_kernel_best(type);
}
const gemm_engine blocked_engine = { engine_kernel };

/* Whether B is read unpacked. Packing pays off only for more than a few panels of A. */
static bool reads_in_place(const gemm_job *job)
{
    return job->b.packed == NULL && job->b.in_place && job->m <= 3 * (int64_t)job->kernel->mr;
}

void gemm_blocks_plan(const gemm_job *job, uint32_t threads, int64_t *out_tile_m, int64_t *out_tile_n)
{
    const gemm_kernel *kernel = job->kernel;
    int64_t mr = kernel->mr, nr = kernel->nr, depth = gemm_depth(kernel, job->k), line = depth * kernel->in_bytes;
    int64_t tile_m = TILE_A_BYTES / line / mr * mr, tile_n = TILE_B_BYTES / line / nr * nr;

    INLAY_CHECK(depth > 0 && mr <= GEMM_MAX_MR && nr <= GEMM_MAX_NR);
    /* Prepacked A: a taller tile has no disadvantage, and fewer tiles pack the same columns. */
    if (job->a.packed != NULL)
        tile_m *= 4;
    if (job->c_in_workspace) /* keep the workspace small */
        tile_m = gemm_min(tile_m, 128);
    tile_m = gemm_min(tile_m < mr ? mr : tile_m, gemm_round_up(job->m, mr));
    tile_n = gemm_min(tile_n < nr ? nr : tile_n, gemm_round_up(job->n, nr));
    tile_m = tile_m < mr ? mr : tile_m;
    tile_n = tile_n < nr ? nr : tile_n;
    /* Give every thread a few tiles, as long as a tile has enough work. */
    while (threads > 1) {
        int64_t tiles = gemm_ceil_div(job->m, tile_m) * gemm_ceil_div(job->n, tile_n);
        if (job->batch > 0 && tiles > INT64_MAX / job->batch)
            break;
        tiles *= job->batch;
        if (tiles >= 4 * (int64_t)threads || tile_m * tile_n * depth < 64 * 1024)
            break;
        if (tile_n > nr && (tile_n >= tile_m || tile_m <= mr))
            tile_n = gemm_round_up(tile_n / 2, nr);
        else if (tile_m > mr)
            tile_m = gemm_round_up(tile_m / 2, mr);
        else
            break;
    }
    *out_tile_m = tile_m;
    *out_tile_n = tile_n;
}

uint64_t gemm_blocks_pack_bytes(const gemm_job *job)
{
    int64_t line = gemm_depth(job->kernel, job->k) * job->kernel->in_bytes;
    uint64_t bytes = 0;

    if (job->a.packed == NULL)
        bytes += gemm_align((uint64_t)(job->tile_m * line));
    if (job->b.packed == NULL)
        bytes += gemm_align((uint64_t)(job->tile_n * line)) + SLACK;
    return bytes;
}

/* Measured as described in product_cost.c. Microkernels do 15 operations per nanosecond and lane (16 lanes: 240
 * GFLOP/s), a third of that without fused multiply-add. Fewer than four rows take as long as four, because each
 * addition waits for the previous one. Packing a non-constant operand costs 0.4 ns per element if its lines are
 * contiguous (packing then transposes them), otherwise 0.1 ns, once per stripe of tiles. */
gemm_price gemm_blocks_price(const gemm_kernel *kernel, const product_size *size)
{
    double lanes = kernel->lanes, line = kernel->in_bytes * (double)gemm_depth(kernel, 1 << 20);
    double columns = size->n <= lanes ? lanes : lanes * (double)gemm_ceil_div((int64_t)size->n, (int64_t)lanes);
    double rows = size->m < 4 ? 4 : size->m, rate = lanes * (lanes > 4 ? 15 : 5) * kernel->k_step;
    double ns = size->a_constant || size->b_constant ? 40 : 55, tiles = ceil(size->m * size->n * size->k / GEMM_GRAIN);

    if (!size->a_constant)
        ns += size->m * size->k * (size->a_across ? 0.1 : 0.4) * (double)(int64_t)(1 + size->n * line / TILE_B_BYTES);
    ns += size->window_ns * size->n * size->k;
    if (!size->b_constant && (size->b_along || size->b_windows || size->m > 3 * kernel->mr))
        ns += size->n * size->k * (size->b_along ? 0.4 : 0.1) * (double)(int64_t)(1 + size->m * line / TILE_A_BYTES);
    return (gemm_price){ .multiply_ns = 2 * rows * columns * size->k / rate,
                         .more_ns = ns,
                         .tiles = tiles,
                         .whole = tiles,
                         .tile = GEMM_GRAIN };
}

/* One block of k of one tile, with its panels. */
typedef struct k_block {
    const char *a; /* first panel of the tile's rows */
    const char
        *b; /* first panel of the tile's columns; if B is read in place: the packed copy of the last, partial panel */
    const char *b_plain; /* in place: row k0, first column of the tile; otherwise NULL */
    int64_t b_plain_stride;
    int64_t packed_depth; /* depth of the block, rounded up to k_step */
    bool add;
} k_block;

static void multiply_panel(const gemm_job *job, const k_block *block, const gemm_tile *tile, int64_t i, int64_t j)
{
    const gemm_kernel *kernel = job->kernel;
    int64_t rows = gemm_min(kernel->mr, tile->i1 - tile->i0 - i), cols = gemm_min(kernel->nr, tile->j1 - tile->j0 - j);
    int64_t panel = block->packed_depth * kernel->in_bytes; /* bytes of one line */
    const char *a = block->a + i * panel, *b = block->b + j * panel;
    int64_t b_stride = (int64_t)kernel->nr * kernel->k_step;
    int64_t chain = kernel->chain > 0 ? gemm_chain(kernel, job->k) : block->packed_depth;
    char *c = (char *)tile->c + (i * tile->c_stride + j) * kernel->acc_bytes;

    if (block->b_plain != NULL) {
        b = block->b;
        if (cols == kernel->nr) {
            b = block->b_plain + j * kernel->in_bytes;
            b_stride = block->b_plain_stride;
        }
    }
    INLAY_CHECK(rows > 0 && cols > 0 && chain > 0);
    for (int64_t k = 0; k < block->packed_depth; k += chain) /* usually once */
        kernel->tile[3 * (rows - 1) + (cols - 1) / kernel->lanes](
            gemm_min(chain, block->packed_depth - k), a + k * kernel->mr * kernel->in_bytes,
            b + k / kernel->k_step * b_stride * kernel->in_bytes, b_stride, c, tile->c_stride, cols,
            block->add || k > 0);
}

/* Multiplies all panels of a block. The operand with more panels is in the inner loop and is read repeatedly from the
 * second-level cache; a panel of the outer loop stays in the first-level cache. */
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
    return (const char *)operand->packed + gemm_matrix_index(operand, batch) * operand->packed_stride +
           (k0 * gemm_round_up(lines, width) + line * packed_depth) * job->kernel->in_bytes;
}

void gemm_blocks_multiply(const gemm_job *job, const gemm_tile *tile, void *workspace)
{
    const gemm_kernel *kernel = job->kernel;
    int64_t depth = gemm_depth(kernel, job->k), line = depth * kernel->in_bytes;
    bool in_place = reads_in_place(job);
    char *a_room = workspace;
    char *b_room = a_room + (job->a.packed == NULL ? gemm_align((uint64_t)(job->tile_m * line)) : 0);

    INLAY_CHECK(tile->i0 % kernel->mr == 0 && tile->j0 % kernel->nr == 0);
    for (int64_t k0 = 0; k0 < job->k; k0 += depth) {
        int64_t k1 = gemm_min(k0 + depth, job->k), rounded = gemm_round_up(k1 - k0, kernel->k_step);
        k_block block = { .a = a_room, .b = b_room, .packed_depth = rounded, .add = k0 > 0 || job->init != NULL };

        if (job->a.packed != NULL)
            block.a = packed_at(job, &job->a, kernel->mr, job->m, tile->batch, tile->i0, k0, rounded);
        else
            job->a.pack(&job->a, tile->batch, tile->i0, tile->i1, k0, k1, kernel->mr, a_room);
        if (job->b.packed != NULL) {
            block.b = packed_at(job, &job->b, kernel->nr, job->n, tile->batch, tile->j0, k0, rounded);
        } else if (in_place) {
            const gemm_operand *operand = &job->b;
            int64_t whole = (tile->j1 - tile->j0) / kernel->nr * kernel->nr;
            int64_t at = gemm_matrix_index(operand, tile->batch) * operand->matrix_stride;
            block.b_plain = (const char *)operand->data + (at + k0 * operand->k_stride + tile->j0) * kernel->in_bytes;
            block.b_plain_stride = operand->k_stride;
            if (tile->j0 + whole < tile->j1)
                operand->pack(operand, tile->batch, tile->j0 + whole, tile->j1, k0, k1, kernel->nr, b_room);
        } else {
            job->b.pack(&job->b, tile->batch, tile->j0, tile->j1, k0, k1, kernel->nr, b_room);
        }
        multiply_block(job, &block, tile);
    }
}
