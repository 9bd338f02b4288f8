/* blas.c - GEMM by calls of the library.
 *
 * A and B are passed in place if one of their two strides is 1, which BLAS can express. Other operands (the windows of
 * a convolution, general Einsums) are packed by the job's function into panels, one block of k at a time; a panel is a
 * dense row-major matrix. A tile is computed by one of three methods:
 *
 *     whole    one call for each block of k, in which the library packs the operands (again, if they are packed here)
 *     thin     for few rows: calls that are so small that the library does not pack, on operands in place
 *     panels   calls of the same small size on panels that this file packs, so that operands are packed only once
 *
 * The last two need the kernels for small products that the library has for AVX-512 since version 0.3.17. These take
 * unpacked operands, up to SMALL multiplications per call, and reach the speed of the machine when B is a panel of
 * PANEL_BYTES columns: 245 to 260 GFLOP/s, compared with 180 to 240 of one call for the whole matrix (one core of a Zen
 * 5 with a nominal 258, OpenBLAS 0.3.21). Thin products, of 4 to 32 rows, reach 200 instead of 50 to 130. With these
 * kernels a constant B is packed ahead of the run, unless A is known to have one row, because memory is read up to five
 * times as fast in sequential order as by columns. A constant A, the weights of convolutions, is read in place.
 *
 * Each tile is computed on one thread of the host. Several threads call the library concurrently, which it allows: a
 * lock of the library guards its buffers. */
#include "openblas/blas.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include "openblas/panel_rows.h"
#include "simd/at_fork.h"
#include "common/library.h"
#include "operators/product_cost.h"
#include <stdlib.h>

enum {
    WHOLE_DEPTH = 384, /* k of a packed block: WHOLE_DEPTH * WHOLE_WIDTH floats stay in the second-level cache */
    WHOLE_WIDTH = GEMM_MAX_WIDTH,
    SMALL = 1000000,         /* limit of m * n * k of the library's small products: 100 cubed */
    SMALL_TRANSPOSED = 1200, /* limit of m * n if B is stored transposed; k must then be at least SMALL_TRANSPOSED_K */
    SMALL_TRANSPOSED_K = 32,
    THIN_ROWS = 32, /* maximum rows of a thin product; more if B is stored transposed: packing it is slower then */
    THIN_ROWS_TRANSPOSED = 384,
    VECTOR = 16,       /* floats */
    PANEL_DEPTH = 480, /* k of a panel: PANEL_ROWS * 64 * PANEL_DEPTH is below SMALL */
    PANEL_ROWS = 32,
    PANEL_TILE = 4,      /* panels of a tile, together half a megabyte */
    TRANSPOSED_LD = 256, /* a transposed A with a larger ld misses the caches, and is packed, too */
    SLACK = 64,          /* bytes after packed columns, see gemm_pack_fn */
    MAX_LINES = 1 << 20, /* lines of a tile: far below the limit of BLAS's int */
    /* A large tile is divided in two as long as each half has MIN_TILE multiplications (five us) and there are at most
     * FEW_TILES tiles, or each half has LARGE_TILE multiplications and there are at most MAX_TILES tiles. */
    FEW_TILES = 8,
    MAX_TILES = 128,
    MIN_TILE = 1 << 19,
    LARGE_TILE = 1 << 25
};

enum { METHOD_WHOLE, METHOD_THIN, METHOD_PANELS };

/* A or B as an argument of the library: lines (rows of A, columns of B) of depth k. */
typedef struct blas_matrix {
    const char *data;
    bool along;       /* true: a line is contiguous, and lines are ld apart; false: lines are adjacent, and steps of k
                         are ld apart */
    int64_t ld;       /* elements */
    int64_t k_stride; /* elements, for vectors */
    double scale;     /* factor of the elements; 1 if packing has applied it */
} blas_matrix;

/* Whether BLAS can read the operand in place. If so, sets *along and *ld. */
static bool blas_can_read(const gemm_kernel *kernel, const gemm_operand *operand, int64_t lines, int64_t k, bool *along,
                          int64_t *ld)
{
    bool is_double = kernel->in_bytes == sizeof(double);

    if (operand->pack != gemm_strided_pack(is_double ? GEMM_F64 : GEMM_F32, is_double ? INLAY_DOUBLE : INLAY_FLOAT))
        return false;
    if ((operand->k_stride == 1 || k <= 1) && (operand->line_stride >= k || lines <= 1)) {
        *along = true;
        *ld = operand->line_stride > k ? operand->line_stride : k > 0 ? k : 1;
    } else if ((operand->line_stride == 1 || lines <= 1) && (operand->k_stride >= lines || k <= 1)) {
        *along = false;
        *ld = operand->k_stride > lines ? operand->k_stride : lines > 0 ? lines : 1;
    } else {
        return false;
    }
    return *ld <= INT32_MAX && k <= INT32_MAX;
}

static double scale_of(const gemm_operand *operand)
{
    return operand->scale == 0 ? 1 : operand->scale;
}

/* The part of a matrix that starts at line `line` and depth k0. */
static blas_matrix part_of(const gemm_kernel *kernel, const blas_matrix *matrix, int64_t line, int64_t k0)
{
    blas_matrix part = *matrix;

    part.data += (matrix->along ? line * matrix->ld + k0 : k0 * matrix->ld + line) * (int64_t)kernel->in_bytes;
    return part;
}

/* Packs lines [line, line_end) of an operand into panels of `width`, and returns the first panel. */
static blas_matrix pack(const gemm_operand *operand, int64_t batch, int64_t line, int64_t line_end, int64_t k0,
                        int64_t k1, int64_t width, void *buffer)
{
    INLAY_CHECK(line <= line_end && k0 <= k1 && width > 0);
    operand->pack(operand, batch, line, line_end, k0, k1, (uint32_t)width, buffer);
    return (blas_matrix){ .data = buffer, .along = false, .ld = width, .k_stride = width, .scale = 1 };
}

/* How a job is computed. The strategy depends only on the shapes and strides of the job. It is cheap to compute, so it
 * is computed wherever it is needed. */
struct strategy {
    uint32_t method;       /* METHOD_* */
    bool a_plain, b_plain; /* BLAS can read the operand in place */
    bool a_packs, b_packs; /* the operand is packed for each tile */
    bool a_along, b_along;
    int64_t a_ld, b_ld;
    int64_t depth;            /* k of a block */
    int64_t a_width, b_width; /* of panels */
};

static struct strategy choose_strategy(const gemm_job *job)
{
    const gemm_kernel *kernel = job->kernel;
    const blas_library *lib = kernel->user;
    const int64_t floats = kernel->in_bytes / (int64_t)sizeof(float), panel = PANEL_BYTES / kernel->in_bytes;
    struct strategy strategy = { .method = METHOD_WHOLE };
    int64_t blocks;

    strategy.a_plain = blas_can_read(kernel, &job->a, job->m, job->k, &strategy.a_along, &strategy.a_ld);
    strategy.b_plain = blas_can_read(kernel, &job->b, job->n, job->k, &strategy.b_along, &strategy.b_ld);
    if (job->b.packed != NULL)
        /* NOLINTNEXTLINE(bugprone-branch-clone): the order of the conditions matters */
        strategy.method = METHOD_PANELS;
    else if (lib->small && strategy.a_plain && strategy.b_plain &&
             (job->m <= (strategy.b_along ? THIN_ROWS_TRANSPOSED : THIN_ROWS) || job->n == 1))
        strategy.method = METHOD_THIN;
    else if (strategy.a_plain && strategy.b_plain && !strategy.b_along &&
             (double)job->m * (double)job->n * (double)job->k < SMALL / 2)
        strategy.method = METHOD_WHOLE;                /* small enough for the library's kernels for small products */
    else if (lib->small && job->n > panel - panel / 8) /* a narrower last panel costs as much as a full one */
        strategy.method = METHOD_PANELS;
    strategy.a_packs =
        !strategy.a_plain || (strategy.method == METHOD_PANELS && !strategy.a_along && strategy.a_ld > TRANSPOSED_LD);
    strategy.b_packs = job->b.packed == NULL && (!strategy.b_plain || strategy.method == METHOD_PANELS);
    strategy.a_width = strategy.method == METHOD_PANELS ? PANEL_ROWS : gemm_min(job->tile_m, WHOLE_WIDTH);
    strategy.b_width = strategy.method == METHOD_PANELS ? panel : job->tile_n;
    strategy.depth = WHOLE_DEPTH / floats;
    if (strategy.method == METHOD_PANELS) {
        strategy.depth = gemm_depth(kernel, job->k);
        return strategy;
    }
    if (!strategy.a_packs && !strategy.b_packs)
        strategy.depth = job->k > 0 ? job->k : 1;
    blocks = gemm_ceil_div(job->k > 0 ? job->k : 1, strategy.depth); /* blocks of about equal size */
    strategy.depth = gemm_ceil_div(job->k > 0 ? job->k : 1, blocks);
    INLAY_CHECK(strategy.depth > 0);
    return strategy;
}

/* C [m, n] (+)= A * B, on the calling thread. */
static void call_once(const gemm_kernel *kernel, int64_t m, int64_t n, int64_t k, const blas_matrix *a,
                      const blas_matrix *b, bool add, void *c, int64_t ldc)
{
    const blas_library *lib = kernel->user;
    int trans_a = a->along ? BLAS_NO_TRANS : BLAS_TRANS, trans_b = b->along ? BLAS_TRANS : BLAS_NO_TRANS;
    double alpha = a->scale * b->scale;

    INLAY_CHECK(m <= INT32_MAX && n <= INT32_MAX && k <= INT32_MAX && ldc <= INT32_MAX);
    INLAY_CHECK(a->ld <= INT32_MAX && b->ld <= INT32_MAX);
    if (kernel->acc_bytes == sizeof(double))
        lib->dgemm(BLAS_ROW_MAJOR, trans_a, trans_b, (int)m, (int)n, (int)k, alpha, (const void *)a->data, (int)a->ld,
                   (const void *)b->data, (int)b->ld, add, c, (int)ldc);
    else
        lib->sgemm(BLAS_ROW_MAJOR, trans_a, trans_b, (int)m, (int)n, (int)k, (float)alpha, (const void *)a->data,
                   (int)a->ld, (const void *)b->data, (int)b->ld, add, c, (int)ldc);
}

/* The same, in pieces of k that are at most the maximum chain of additions. */
static void call_matrix(const gemm_kernel *kernel, int64_t m, int64_t n, int64_t k, const blas_matrix *a,
                        const blas_matrix *b, bool add, void *c, int64_t ldc)
{
    const int64_t chain = gemm_chain(kernel, k);

    for (int64_t k0 = 0; k0 < k; k0 += chain) {
        const blas_matrix left = part_of(kernel, a, 0, k0), right = part_of(kernel, b, 0, k0);

        call_once(kernel, m, n, gemm_min(chain, k - k0), &left, &right, add || k0 > 0, c, ldc);
    }
}

/* output (+)= the `lines` lines of a matrix times x. Without `add`, the output is cleared and the library called with
 * beta 1: with beta 0, gemv of some versions multiplies the old contents by 0, which gives NaN if they are NaN. */
static void call_vector(const gemm_kernel *kernel, int64_t lines, int64_t k, const blas_matrix *matrix,
                        const blas_matrix *x, bool add, void *output, int64_t y_stride)
{
    const blas_library *lib = kernel->user;
    int trans = matrix->along ? BLAS_NO_TRANS : BLAS_TRANS;
    int rows = (int)(matrix->along ? lines : k), columns = (int)(matrix->along ? k : lines);
    double alpha = matrix->scale * x->scale;

    INLAY_CHECK(y_stride >= 1 && y_stride <= INT32_MAX && x->k_stride >= 1 && x->k_stride <= INT32_MAX);
    for (int64_t i = 0; i < lines && !add; i++)
        memset((char *)output + i * y_stride * kernel->acc_bytes, 0, kernel->acc_bytes);
    if (kernel->acc_bytes == sizeof(double))
        lib->dgemv(BLAS_ROW_MAJOR, trans, rows, columns, alpha, (const void *)matrix->data, (int)matrix->ld,
                   (const void *)x->data, (int)x->k_stride, 1, output, (int)y_stride);
    else
        lib->sgemv(BLAS_ROW_MAJOR, trans, rows, columns, (float)alpha, (const void *)matrix->data, (int)matrix->ld,
                   (const void *)x->data, (int)x->k_stride, 1, output, (int)y_stride);
}

/* A multiplication of depth k whose result is a part of C, [m, n] with rows ldc apart. add: adds to the part. */
struct block {
    int64_t m, n, k;
    bool add;
    char *c;
    int64_t ldc;
};

static bool fits_int(int64_t stride)
{
    return stride >= 1 && stride <= INT32_MAX;
}

/* Multiplies in one call: gemv for products with a vector, whose speed memory limits, otherwise gemm. */
static void multiply_whole(const gemm_kernel *kernel, const struct block *block, const blas_matrix *a,
                           const blas_matrix *b)
{
    const bool vectors = kernel->chain == 0; /* not if sums are strict: some kernels of gemv add in one chain */

    if (vectors && block->m == 1 && fits_int(a->k_stride)) {
        call_vector(kernel, block->n, block->k, b, a, block->add, block->c, 1);
    } else if (vectors && block->n == 1 && fits_int(b->k_stride) && fits_int(block->ldc)) {
        call_vector(kernel, block->m, block->k, a, b, block->add, block->c, block->ldc);
    } else if (fits_int(block->ldc)) {
        call_matrix(kernel, block->m, block->n, block->k, a, b, block->add, block->c, block->ldc);
    } else { /* ldc exceeds BLAS's int */
        for (int64_t i = 0; i < block->m; i++) {
            blas_matrix line = part_of(kernel, a, i, 0);
            call_matrix(kernel, 1, block->n, block->k, &line, b, block->add,
                        block->c + i * block->ldc * kernel->acc_bytes, block->n);
        }
    }
}

/* Multiplies strips of few rows, in pieces of columns (whole vectors) and of k that the library's small kernels accept.
 * B is read once; all strips use a piece of it while it is in the cache. */
static void multiply_strips(const gemm_kernel *kernel, const struct block *block, const blas_matrix *a,
                            const blas_matrix *b)
{
    const int64_t vectors = PANEL_BYTES / kernel->in_bytes,
                  rows = gemm_ceil_div(block->m, gemm_ceil_div(block->m, THIN_ROWS));
    int64_t columns = (b->along ? SMALL_TRANSPOSED : SMALL / 384) / rows,
            depth; /* leaves room for a depth of a few hundred */

    columns = columns > vectors ? columns / vectors * vectors : b->along ? columns : vectors;
    depth = SMALL / (rows * columns);
    for (int64_t j = 0; j < block->n; j += columns) {
        for (int64_t k = 0; k < block->k; k += depth) {
            const blas_matrix right = part_of(kernel, b, j, k);
            for (int64_t i = 0; i < block->m; i += rows) {
                const blas_matrix left = part_of(kernel, a, i, k);
                call_matrix(kernel, gemm_min(rows, block->m - i), gemm_min(columns, block->n - j),
                            gemm_min(depth, block->k - k), &left, &right, block->add || k > 0,
                            block->c + (i * block->ldc + j) * kernel->acc_bytes, block->ldc);
            }
        }
    }
}

static void multiply_thin(const gemm_kernel *kernel, const struct block *block, const blas_matrix *a,
                          const blas_matrix *b)
{
    if (block->n == 1 && block->ldc == 1 &&
        block->m > 1) { /* computes the transposed product: a row times the lines of A */
        const struct block transposed = {
            .m = 1, .n = block->m, .k = block->k, .add = block->add, .c = block->c, .ldc = block->m
        };
        multiply_thin(kernel, &transposed, b, a);
    } else if (!fits_int(block->ldc) || (block->m == 1 && !(a->along && b->along)) ||
               (b->along && block->k < SMALL_TRANSPOSED_K)) {
        multiply_whole(kernel, block, a, b);
    } else {
        multiply_strips(kernel, block, a, b);
    }
}

/* Multiplies by a B that is stored in consecutive panels of b_width columns. A is read in place, or packed in chunks of
 * PANEL_ROWS rows of the tile. */
static void multiply_panels(const gemm_job *job, const struct strategy *strategy, const gemm_tile *tile,
                            const struct block *block, const blas_matrix *a, const blas_matrix *b, int64_t k0,
                            void *a_buffer)
{
    const gemm_kernel *kernel = job->kernel;
    const int64_t panel_bytes = strategy->b_width * block->k * kernel->in_bytes;

    for (int64_t i = 0; i < block->m; i += PANEL_ROWS) {
        int64_t rows = gemm_min(PANEL_ROWS, block->m - i);
        blas_matrix left;

        if (strategy->a_packs)
            left =
                pack(&job->a, tile->batch, tile->i0 + i, tile->i0 + i + rows, k0, k0 + block->k, PANEL_ROWS, a_buffer);
        else
            left = part_of(kernel, a, i, 0);
        for (int64_t j = 0; j < block->n; j += strategy->b_width) {
            const struct block part = { .m = rows,
                                        .n = gemm_min(strategy->b_width, block->n - j),
                                        .k = block->k,
                                        .add = block->add,
                                        .c = block->c + (i * block->ldc + j) * kernel->acc_bytes,
                                        .ldc = block->ldc };
            blas_matrix right = *b;
            right.data += j / strategy->b_width * panel_bytes;
            multiply_whole(kernel, &part, &left, &right);
        }
    }
}

static uint64_t buffer_of_lines(const gemm_job *job, const struct strategy *strategy, int64_t lines)
{
    return gemm_align((uint64_t)(lines * strategy->depth) * job->kernel->in_bytes + SLACK);
}

/* The bytes of the buffer of a packed A: a chunk of its lines, or all lines of the tile. */
static uint64_t buffer_of_a(const gemm_job *job, const struct strategy *strategy)
{
    return !strategy->a_packs
               ? 0
               : buffer_of_lines(job, strategy, strategy->method == METHOD_PANELS ? PANEL_ROWS : strategy->a_width);
}

/* The operand in place, starting at a line of a batch. */
static blas_matrix matrix_at(const gemm_job *job, const gemm_operand *operand, int64_t batch, int64_t line, bool along,
                             int64_t ld)
{
    int64_t at = gemm_matrix_index(operand, batch) * operand->matrix_stride + line * operand->line_stride;

    return (blas_matrix){ .data = (const char *)operand->data + at * (int64_t)job->kernel->in_bytes,
                          .along = along,
                          .ld = ld,
                          .k_stride = operand->k_stride,
                          .scale = scale_of(operand) };
}

/* B as packed by gemm_pack_constant(): blocks of k, each a sequence of panels. */
static blas_matrix packed_ahead(const gemm_job *job, const struct strategy *strategy, const gemm_tile *tile, int64_t k0,
                                int64_t k1)
{
    const int64_t at = k0 * gemm_round_up(job->n, strategy->b_width) + tile->j0 * (k1 - k0);
    const char *matrix = (const char *)job->b.packed + gemm_matrix_index(&job->b, tile->batch) * job->b.packed_stride;

    INLAY_CHECK(tile->j0 % strategy->b_width == 0 && k0 % strategy->depth == 0);
    return (blas_matrix){ .data = matrix + at * (int64_t)job->kernel->in_bytes,
                          .along = false,
                          .ld = strategy->b_width,
                          .k_stride = strategy->b_width,
                          .scale = 1 };
}

/* Packs the columns of a tile of a plain B with contiguous rows. */
static blas_matrix pack_rows(const gemm_job *job, const gemm_tile *tile, int64_t k0, int64_t k1, int64_t ld,
                             int64_t width, void *buffer)
{
    const int64_t in = job->kernel->in_bytes;
    const blas_matrix matrix = matrix_at(job, &job->b, tile->batch, tile->j0, false, ld);

    KERNEL_BEST(panel_rows)
    (matrix.data + k0 * ld * in, ld * in, k1 - k0, (tile->j1 - tile->j0) * in, (k1 - k0) * PANEL_BYTES, buffer);
    return (blas_matrix){ .data = buffer, .along = false, .ld = width, .k_stride = width, .scale = matrix.scale };
}

static void multiply(const gemm_job *job, const gemm_tile *tile, void *workspace)
{
    const gemm_kernel *kernel = job->kernel;
    const blas_library *lib = kernel->user;
    const struct strategy strategy = choose_strategy(job);
    char *a_buffer = workspace, *b_buffer = a_buffer + buffer_of_a(job, &strategy);
    blas_matrix whole_a = { 0 }, whole_b = { 0 };
    int threads;

    if (!strategy.a_packs)
        whole_a = matrix_at(job, &job->a, tile->batch, tile->i0, strategy.a_along, strategy.a_ld);
    if (!strategy.b_packs && job->b.packed == NULL)
        whole_b = matrix_at(job, &job->b, tile->batch, tile->j0, strategy.b_along, strategy.b_ld);
    threads = blas_library_enter(lib);
    for (int64_t k0 = 0; k0 < job->k; k0 += strategy.depth) {
        int64_t k1 = gemm_min(k0 + strategy.depth, job->k);
        const struct block block = { .m = tile->i1 - tile->i0,
                                     .n = tile->j1 - tile->j0,
                                     .k = k1 - k0,
                                     .add = k0 > 0 || job->init != NULL,
                                     .c = tile->c,
                                     .ldc = tile->c_stride };
        blas_matrix a = part_of(kernel, &whole_a, 0, k0), b = part_of(kernel, &whole_b, 0, k0);

        if (job->b.packed != NULL)
            b = packed_ahead(job, &strategy, tile, k0, k1);
        else if (strategy.b_packs && strategy.method == METHOD_PANELS && strategy.b_plain && !strategy.b_along)
            b = pack_rows(job, tile, k0, k1, strategy.b_ld, strategy.b_width, b_buffer);
        else if (strategy.b_packs)
            b = pack(&job->b, tile->batch, tile->j0, tile->j1, k0, k1, strategy.b_width, b_buffer);
        if (strategy.method == METHOD_PANELS) {
            multiply_panels(job, &strategy, tile, &block, &a, &b, k0, a_buffer);
            continue;
        }
        if (strategy.a_packs)
            a = pack(&job->a, tile->batch, tile->i0, tile->i1, k0, k1, strategy.a_width, a_buffer);
        (strategy.method == METHOD_THIN ? multiply_thin : multiply_whole)(kernel, &block, &a, &b);
    }
    blas_library_leave(lib, threads);
}

static uint64_t pack_bytes(const gemm_job *job)
{
    const struct strategy strategy = choose_strategy(job);
    int64_t columns = strategy.method == METHOD_PANELS ? gemm_round_up(job->tile_n, strategy.b_width) : job->tile_n;

    return buffer_of_a(job, &strategy) + (strategy.b_packs ? buffer_of_lines(job, &strategy, columns) : 0);
}

/* The largest tile that the packed operands allow. */
static void largest_tile(const gemm_job *job, const struct strategy *strategy, int64_t *out_m, int64_t *out_n)
{
    int64_t m = MAX_LINES, n = MAX_LINES;

    if (strategy->method == METHOD_PANELS)
        n = PANEL_TILE * strategy->b_width;
    if (strategy->method == METHOD_WHOLE && strategy->a_packs)
        m = WHOLE_WIDTH;
    if (strategy->method == METHOD_WHOLE && strategy->b_packs)
        n = WHOLE_WIDTH;
    if (job->c_in_workspace) {
        m = gemm_min(m, 256);
        n = gemm_min(n, WHOLE_WIDTH);
    }
    *out_m = job->m < 1 ? 1 : gemm_min(job->m, m);
    *out_n = job->n < 1 ? 1 : gemm_min(job->n, n);
}

/* Divides tiles, from the largest one on. They do not depend on the number of threads, because the library sums in
 * another order at other sizes. Along n, tiles consist of whole panels, of `step` columns. */
static void divide_tiles(double batch, double m, double n, double k, int64_t step, int64_t *tile_m, int64_t *tile_n)
{
    for (;;) {
        const double tiles = batch * ceil(m / (double)*tile_m) * ceil(n / (double)*tile_n);

        if (tiles >= MAX_TILES ||
            (double)*tile_m * (double)*tile_n * k < 2 * (tiles < FEW_TILES ? MIN_TILE : LARGE_TILE))
            break;
        if (*tile_n > step && (*tile_n >= *tile_m || *tile_m <= PANEL_ROWS))
            *tile_n = gemm_round_up(*tile_n / 2, step);
        else if (*tile_m > PANEL_ROWS)
            *tile_m = gemm_round_up(*tile_m / 2, PANEL_ROWS);
        else
            break;
    }
}

static void plan(const gemm_job *job, uint32_t threads, int64_t *out_tile_m, int64_t *out_tile_n)
{
    const struct strategy strategy = choose_strategy(job);
    int64_t tile_m, tile_n;

    (void)threads;
    largest_tile(job, &strategy, &tile_m, &tile_n);
    divide_tiles((double)job->batch, (double)job->m, (double)job->n, (double)job->k,
                 PANEL_BYTES / job->kernel->in_bytes, &tile_m, &tile_n);
    *out_tile_m = tile_m;
    *out_tile_n = strategy.method == METHOD_WHOLE && strategy.b_packs ? gemm_round_up(tile_n, 16)
                                                                      : tile_n; /* the panel is as wide as the tile */
}

/* The columns whose time a product takes. Small kernels compute up to half of a last vector column by column, other
 * kernels whole vectors. */
static double columns_of(double n, bool small)
{
    const double last = fmod(n, VECTOR);

    return small && last > 0 && last <= VECTOR / 2 ? n + 1 : ceil(n / VECTOR) * VECTOR;
}

/* Operations per nanosecond, measured as described in product_cost.c: panels 262, other methods 235 to 250, or half of
 * it if the library packs few columns again; double
 * takes twice as long. Kernels for AVX2 have half the speed. Packing panels costs as much as in the reference
 * provider. */
static gemm_price price(const gemm_kernel *kernel, const product_size *size)
{
    const double store_ns = 0.03, /* an element of C is read and written for each block of k */
        last_row = 1.3;           /* rows are computed in pairs; one without another takes longer by this many */
    const blas_library *lib = kernel->user;
    const double work = size->m * size->n * size->k, floats = sizeof(float) / (double)kernel->in_bytes;
    double rate = 245, packing = 0, rows, columns;
    bool thin = size->m <= (size->b_along ? THIN_ROWS_TRANSPOSED : THIN_ROWS), ahead, whole;
    int64_t tile_m = (int64_t)fmin(size->m, MAX_LINES), tile_n = (int64_t)fmin(size->n, MAX_LINES);
    const bool small = __atomic_load_n(&lib->small, __ATOMIC_RELAXED); /* another thread may be opening the library */

    ahead = small && size->b_constant && size->m >= kernel->pack_rows && size->n >= kernel->pack_columns;
    if (!small) {
        rate = 128;
        packing =
            thin && size->m > 1 && size->n > 1 ? 0.25 * size->n * size->k : 0; /* the library packs B for few rows */
    } else if (ahead) {
        rate = 255;
    } else if (size->b_windows && work >= SMALL / 2 && size->n <= 56) {
        rate = 120; /* packed windows of few columns are not divided into panels */
        packing = size->n * size->k * 0.1;
    } else if (size->b_windows || (!thin && work >= SMALL / 2 && size->n > 56)) {
        rate = 262;
        packing = size->n * size->k * (size->b_along ? 0.4 : 0.1);
    } else if (thin && work >= SMALL / 2) {
        rate = 235;
    }
    if (size->m <= 1)
        rate = 70; /* by a vector: the matrix is loaded once for each multiplication */
    if (size->b_windows && !small)
        packing += size->n * size->k * 0.1;
    if (small && size->a_across && size->m > TRANSPOSED_LD)
        packing += size->m * size->k * 0.1 * (double)(int64_t)(1 + size->n / (PANEL_TILE * PANEL_BYTES / 4.0));
    rows = small && size->m > 1 && fmod(size->m, 2) == 1 ? size->m + last_row : size->m;
    if (packing > 0 || ahead)
        tile_n = gemm_min(tile_n, ahead || size->n > 56 ? PANEL_TILE * PANEL_BYTES / kernel->in_bytes : WHOLE_WIDTH);
    divide_tiles(size->batch, size->m, size->n, size->k, PANEL_BYTES / kernel->in_bytes, &tile_m, &tile_n);
    whole = !thin && size->n <= 56 && !size->b_windows && (double)tile_m * (double)tile_n * size->k > SMALL;
    if (small && whole)
        rate = 194;
    columns = columns_of(size->n, small && !whole);
    packing =
        (packing + size->window_ns * size->n * size->k) * ceil(size->m / (double)tile_m); /* again for each tile */
    return (gemm_price){ .multiply_ns = 2 * rows * columns * size->k / (rate * floats),
                         .more_ns = (size->b_along && size->k < SMALL_TRANSPOSED_K ? 450 : 250) + packing +
                                    store_ns * size->m * size->n,
                         .tiles = ceil(size->m / (double)tile_m) * ceil(size->n / (double)tile_n),
                         .whole = size->m / (double)tile_m * size->n / (double)tile_n,
                         .tile = (double)tile_m * (double)tile_n * size->k };
}

static const gemm_kernel *kernel_of(const gemm_engine *self, uint32_t type)
{
    const blas_engine *engine = (const blas_engine *)(const void *)self;

    return type == GEMM_F32 || type == GEMM_F64 ? &engine->kernels[type] : NULL;
}

/* Sets whether the library has kernels for small products. Other threads may be computing costs, so only these fields
 * change: price() reads `small`, and `packs` is read only after blas_engine_ensure_open(). */
static void set_small(blas_engine *engine, bool small)
{
    __atomic_store_n(&engine->library.small, small, __ATOMIC_RELAXED);
    for (uint32_t type = GEMM_F32; type <= GEMM_F64; type++)
        engine->kernels[type].packs = small ? GEMM_PACKS_B : 0;
}

/* Sets the kernels of an engine for a library without kernels for small products. */
static void set_kernels(blas_engine *engine)
{
    for (uint32_t type = GEMM_F32; type <= GEMM_F64; type++) {
        uint32_t bytes = type == GEMM_F32 ? sizeof(float) : sizeof(double);
        engine->kernels[type] = (gemm_kernel){ .isa = "openblas",
                                               .mr = 1,
                                               .nr = PANEL_BYTES / bytes,
                                               .in_bytes = bytes,
                                               .acc_bytes = bytes,
                                               .k_step = 1,
                                               .depth = PANEL_DEPTH,
                                               .pack_rows = 2,
                                               .pack_columns = PANEL_BYTES / bytes - PANEL_BYTES / bytes / 8,
                                               .plan = plan,
                                               .pack_bytes = pack_bytes,
                                               .multiply = multiply,
                                               .price = price,
                                               .user = &engine->library };
    }
}

void blas_engine_set_strict(blas_engine *engine)
{
    engine->kernels[GEMM_F32].chain = GEMM_STRICT_CHAIN;
}

static void engine_init(blas_engine *out)
{
    *out = (blas_engine){ .engine = { kernel_of } };
    set_kernels(out);
}

inlay_status blas_engine_open(const inlay_host *host, const char *library, const char *core, blas_engine *out,
                              inlay_diag *diag)
{
    inlay_status status;

    engine_init(out);
    status = blas_library_open(host, library, core, &out->library, diag);
    set_small(out, out->library.small);
    return status;
}

inlay_status blas_engine_open_lazily(const inlay_host *host, const char *library, const char *core, blas_engine *out,
                                     inlay_diag *diag)
{
    if (strcmp(library, BLAS_DEFAULT_LIBRARY) != 0 || strcmp(core, BLAS_DEFAULT_CORE) != 0 ||
        !library_is_available_unloaded(library))
        return blas_engine_open(host, library, core, out, diag);
    engine_init(out);
    out->pending_library = strdup(library);
    if (out->pending_library == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for provider openblas");
    set_small(out, blas_core_is_avx512(blas_core_expected(core)));
    return INLAY_OK;
}

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER; /* guards pending_library of all engines */

static __attribute__((constructor)) void guard_opening(void)
{
    lock_at_fork(&opening);
}

inlay_status blas_engine_ensure_open(const inlay_host *host, blas_engine *engine, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    blas_library opened;

    (void)pthread_mutex_lock(&opening);
    if (engine->pending_library != NULL) {
        INLAY_TRY(blas_library_open(host, engine->pending_library, BLAS_DEFAULT_CORE, &opened, diag));
        set_small(engine, opened.small);
        blas_library_move(&engine->library, &opened);
        free(engine->pending_library);
        engine->pending_library = NULL;
    }
done:
    (void)pthread_mutex_unlock(&opening);
    return status;
}

void blas_engine_close(blas_engine *engine)
{
    blas_library_close(&engine->library);
    free(engine->pending_library);
}
