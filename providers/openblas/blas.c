/* blas.c - a product as calls of the library.
 *
 * A and B are handed over where they lie whenever one of their two strides is 1, which is what BLAS can express. What
 * cannot be expressed (the windows of a convolution, odd Einsums) is packed by the job's own function into panels,
 * block of k by block of k: a panel is a dense row-major matrix. There are three ways to go about a tile:
 *
 *     whole    one call a block of k; the library packs its operands again and goes its own way
 *     thin     few rows: calls so small that the library does not pack at all, on operands where they lie
 *     panels   calls so small on panels that we packed, so that they are packed once and not twice
 *
 * The latter two need the kernels for small products that the library has had for AVX-512 since 0.3.17. They take
 * operands that are not packed, up to SMALL multiplications a call, and run as fast as the machine can when B is a
 * panel of PANEL_BYTES columns: 245 to 260 GFLOP/s where a call for the whole has 180 to 240 (one core of a Zen 5 at
 * its 258 nominal, OpenBLAS 0.3.21), and thin products, of 4 to 32 rows, have 200 instead of 50 to 130. With them a
 * constant B is packed ahead, unless A is known to have one row: a matrix that is read in the order in which it lies
 * comes from memory up to five times as fast as one whose columns are gathered. Constants that are A, the weights of
 * convolutions, are read where they lie.
 *
 * Threads are the host's: a tile is computed on one of them, and many call the library at once, which it allows: its
 * buffers are taken under a lock of its own. */
#include "blas.h"
#include "panel_rows.h"
#include "simd/at_fork.h"
#include "at_rest.h"
#include "product_cost.h"
#include <stdlib.h>

enum {
    WHOLE_DEPTH = 384, /* k of a packed block: that, times WHOLE_WIDTH floats, stays in the second-level cache */
    WHOLE_WIDTH = GEMM_MAX_WIDTH,
    SMALL = 1000000,     /* m * n * k of the library's small products: 100 cubed */
    SMALL_TURNED = 1200, /* m * n of those whose B lies along k; for them k is at least SMALL_TURNED_K */
    SMALL_TURNED_K = 32,
    THIN_ROWS = 32, /* at most, for a product to be thin; with B along k more, for transposing it costs more */
    THIN_ROWS_TURNED = 384,
    PANEL_DEPTH = 480, /* k of a panel: PANEL_ROWS * 64 * PANEL_DEPTH is below SMALL */
    PANEL_ROWS = 32,
    PANEL_TILE = 4,       /* panels of a tile, together half a megabyte */
    TURNED_LD = 256,      /* rows of A further apart than that, across the calls, miss the caches: A is packed too */
    SLACK = 64,           /* after packed columns: see gemm_pack_fn */
    MOST_LINES = 1 << 20, /* of a tile: far below what BLAS's int holds */
    FEW_TILES = 8,    /* of a job: so many are cut where each has LEAST_TILE multiplications, some ten microseconds, */
    MOST_TILES = 128, /* and so many where each has LARGE_TILE */
    LEAST_TILE = 1 << 21,
    LARGE_TILE = 1 << 25
};

enum { WAY_WHOLE, WAY_THIN, WAY_PANELS };

/* ------------------------------------------------------------------ operands */

/* A or B as the library takes it: lines of depth k. */
typedef struct blas_matrix {
    const char *data;
    bool along;       /* lines lie along memory, ld apart; otherwise steps of k are ld apart and lines are neighbours */
    int64_t ld;       /* elements */
    int64_t k_stride; /* elements, for vectors */
    double scale;     /* 1 when it was applied while packing */
} blas_matrix;

/* Can BLAS read the operand where it lies? Then *along and *ld are set. */
static bool is_plain(const gemm_kernel *kernel, const gemm_operand *operand, int64_t lines, int64_t k, bool *along,
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

/* Part of a matrix: lines from `line` on, k from k0 on. */
static blas_matrix part_of(const gemm_kernel *kernel, const blas_matrix *matrix, int64_t line, int64_t k0)
{
    blas_matrix part = *matrix;

    part.data += (matrix->along ? line * matrix->ld + k0 : k0 * matrix->ld + line) * (int64_t)kernel->in_bytes;
    return part;
}

/* Packs lines [line, line_end) of an operand into panels of `width`; the result is the first of them. */
static blas_matrix pack(const gemm_operand *operand, int64_t batch, int64_t line, int64_t line_end, int64_t k0,
                        int64_t k1, int64_t width, void *room)
{
    operand->pack(operand, batch, line, line_end, k0, k1, (uint32_t)width, room);
    return (blas_matrix){ .data = room, .along = false, .ld = width, .k_stride = width, .scale = 1 };
}

/* ------------------------------------------------------------------ how a job goes */

/* What is known of a job before its data is; cheap, so it is worked out where it is needed. */
struct course {
    uint32_t way;          /* WAY_* */
    bool a_plain, b_plain; /* may be read where they lie */
    bool a_packs, b_packs; /* are packed, tile by tile */
    bool a_along, b_along;
    int64_t a_ld, b_ld;
    int64_t depth;            /* k of a block */
    int64_t a_width, b_width; /* of panels */
};

static struct course course_of(const gemm_job *job)
{
    const gemm_kernel *kernel = job->kernel;
    const blas_library *lib = kernel->user;
    const int64_t floats = kernel->in_bytes / (int64_t)sizeof(float), panel = PANEL_BYTES / kernel->in_bytes;
    struct course course = { .way = WAY_WHOLE };
    int64_t blocks;

    course.a_plain = is_plain(kernel, &job->a, job->m, job->k, &course.a_along, &course.a_ld);
    course.b_plain = is_plain(kernel, &job->b, job->n, job->k, &course.b_along, &course.b_ld);
    if (job->b.packed != NULL)
        /* NOLINTNEXTLINE(bugprone-branch-clone): asked in this order */
        course.way = WAY_PANELS;
    else if (lib->small && course.a_plain && course.b_plain &&
             (job->m <= (course.b_along ? THIN_ROWS_TURNED : THIN_ROWS) || job->n == 1))
        course.way = WAY_THIN;
    else if (course.a_plain && course.b_plain && !course.b_along &&
             (double)job->m * (double)job->n * (double)job->k < SMALL / 2)
        course.way = WAY_WHOLE;                        /* which the library finds small enough by itself */
    else if (lib->small && job->n > panel - panel / 8) /* a narrower last panel costs as much as a full one */
        course.way = WAY_PANELS;
    course.a_packs = !course.a_plain || (course.way == WAY_PANELS && !course.a_along && course.a_ld > TURNED_LD);
    course.b_packs = job->b.packed == NULL && (!course.b_plain || course.way == WAY_PANELS);
    course.a_width = course.way == WAY_PANELS ? PANEL_ROWS : gemm_min(job->tile_m, WHOLE_WIDTH);
    course.b_width = course.way == WAY_PANELS ? panel : job->tile_n;
    course.depth = WHOLE_DEPTH / floats;
    if (course.way == WAY_PANELS) {
        course.depth = gemm_depth(kernel, job->k);
        return course;
    }
    if (!course.a_packs && !course.b_packs)
        course.depth = job->k > 0 ? job->k : 1;
    blocks = gemm_ceil_div(job->k > 0 ? job->k : 1, course.depth); /* of about the same size */
    course.depth = gemm_ceil_div(job->k > 0 ? job->k : 1, blocks);
    return course;
}

/* ------------------------------------------------------------------ the library's calls */

/* C [m, n] (+)= A * B, on the calling thread. */
static void call_once(const gemm_kernel *kernel, int64_t m, int64_t n, int64_t k, const blas_matrix *a,
                      const blas_matrix *b, bool add, void *c, int64_t ldc)
{
    const blas_library *lib = kernel->user;
    int trans_a = a->along ? BLAS_NO_TRANS : BLAS_TRANS, trans_b = b->along ? BLAS_TRANS : BLAS_NO_TRANS;
    double alpha = a->scale * b->scale;

    if (kernel->acc_bytes == sizeof(double))
        lib->dgemm(BLAS_ROW_MAJOR, trans_a, trans_b, (int)m, (int)n, (int)k, alpha, (const void *)a->data, (int)a->ld,
                   (const void *)b->data, (int)b->ld, add, c, (int)ldc);
    else
        lib->sgemm(BLAS_ROW_MAJOR, trans_a, trans_b, (int)m, (int)n, (int)k, (float)alpha, (const void *)a->data,
                   (int)a->ld, (const void *)b->data, (int)b->ld, add, c, (int)ldc);
}

/* The same, so much of k at a time as may be summed in a row. */
static void call_matrix(const gemm_kernel *kernel, int64_t m, int64_t n, int64_t k, const blas_matrix *a,
                        const blas_matrix *b, bool add, void *c, int64_t ldc)
{
    const int64_t chain = gemm_chain(kernel, k);

    for (int64_t k0 = 0; k0 < k; k0 += chain) {
        const blas_matrix left = part_of(kernel, a, 0, k0), right = part_of(kernel, b, 0, k0);

        call_once(kernel, m, n, gemm_min(chain, k - k0), &left, &right, add || k0 > 0, c, ldc);
    }
}

/* output (+)= the `lines` lines of a matrix times x. output starts from 0 and the library always adds: with beta 0 some
 * versions of its gemv multiply what was there, which may be NaN. */
static void call_vector(const gemm_kernel *kernel, int64_t lines, int64_t k, const blas_matrix *matrix,
                        const blas_matrix *x, bool add, void *output, int64_t y_stride)
{
    const blas_library *lib = kernel->user;
    int trans = matrix->along ? BLAS_NO_TRANS : BLAS_TRANS;
    int rows = (int)(matrix->along ? lines : k), columns = (int)(matrix->along ? k : lines);
    double alpha = matrix->scale * x->scale;

    for (int64_t i = 0; i < lines && !add; i++)
        memset((char *)output + i * y_stride * kernel->acc_bytes, 0, kernel->acc_bytes);
    if (kernel->acc_bytes == sizeof(double))
        lib->dgemv(BLAS_ROW_MAJOR, trans, rows, columns, alpha, (const void *)matrix->data, (int)matrix->ld,
                   (const void *)x->data, (int)x->k_stride, 1, output, (int)y_stride);
    else
        lib->sgemv(BLAS_ROW_MAJOR, trans, rows, columns, (float)alpha, (const void *)matrix->data, (int)matrix->ld,
                   (const void *)x->data, (int)x->k_stride, 1, output, (int)y_stride);
}

/* A block of C [m, n], rows ldc apart, that is to be computed from depth k. */
struct block {
    int64_t m, n, k;
    bool add;
    char *c;
    int64_t ldc;
};

static bool fits(int64_t stride)
{
    return stride >= 1 && stride <= INT32_MAX;
}

/* In one call. Products with a vector are bound by memory, and have a call of their own. */
static void multiply_whole(const gemm_kernel *kernel, const struct block *p, const blas_matrix *a, const blas_matrix *b)
{
    const bool vectors = kernel->chain == 0; /* some of the library's add all terms in a row */

    if (vectors && p->m == 1 && fits(a->k_stride)) {
        call_vector(kernel, p->n, p->k, b, a, p->add, p->c, 1);
    } else if (vectors && p->n == 1 && fits(b->k_stride) && fits(p->ldc)) {
        call_vector(kernel, p->m, p->k, a, b, p->add, p->c, p->ldc);
    } else if (fits(p->ldc)) {
        call_matrix(kernel, p->m, p->n, p->k, a, b, p->add, p->c, p->ldc);
    } else { /* rows too far apart for BLAS's int */
        for (int64_t i = 0; i < p->m; i++) {
            blas_matrix line = part_of(kernel, a, i, 0);
            call_matrix(kernel, 1, p->n, p->k, &line, b, p->add, p->c + i * p->ldc * kernel->acc_bytes, p->n);
        }
    }
}

/* Strips of few rows: of each as many columns and as much of k at a time as the library calls small, whole vectors of
 * columns. B is walked through once; the strips meet it while it is in the cache. */
static void multiply_strips(const gemm_kernel *kernel, const struct block *p, const blas_matrix *a,
                            const blas_matrix *b)
{
    const int64_t vectors = PANEL_BYTES / kernel->in_bytes, rows = gemm_ceil_div(p->m, gemm_ceil_div(p->m, THIN_ROWS));
    int64_t columns = (b->along ? SMALL_TURNED : SMALL / 384) / rows, depth; /* k in pieces of some hundreds */

    columns = columns > vectors ? columns / vectors * vectors : b->along ? columns : vectors;
    depth = SMALL / (rows * columns);
    for (int64_t j = 0; j < p->n; j += columns) {
        for (int64_t k = 0; k < p->k; k += depth) {
            const blas_matrix right = part_of(kernel, b, j, k);
            for (int64_t i = 0; i < p->m; i += rows) {
                const blas_matrix left = part_of(kernel, a, i, k);
                call_matrix(kernel, gemm_min(rows, p->m - i), gemm_min(columns, p->n - j), gemm_min(depth, p->k - k),
                            &left, &right, p->add || k > 0, p->c + (i * p->ldc + j) * kernel->acc_bytes, p->ldc);
            }
        }
    }
}

static void multiply_thin(const gemm_kernel *kernel, const struct block *p, const blas_matrix *a, const blas_matrix *b)
{
    if (p->n == 1 && p->ldc == 1 && p->m > 1) { /* the same, transposed: a row times the lines of A */
        const struct block turned = { .m = 1, .n = p->m, .k = p->k, .add = p->add, .c = p->c, .ldc = p->m };
        multiply_thin(kernel, &turned, b, a);
    } else if (!fits(p->ldc) || (p->m == 1 && !(a->along && b->along)) || (b->along && p->k < SMALL_TURNED_K)) {
        multiply_whole(kernel, p, a, b);
    } else {
        multiply_strips(kernel, p, a, b);
    }
}

/* B in panels of `width` columns, one after the other; A as it lies, or of `tile` to be packed a chunk at a time. */
static void multiply_panels(const gemm_job *job, const struct course *course, const gemm_tile *tile,
                            const struct block *p, const blas_matrix *a, const blas_matrix *b, int64_t k0, void *a_room)
{
    const gemm_kernel *kernel = job->kernel;
    const int64_t panel_bytes = course->b_width * p->k * kernel->in_bytes;

    for (int64_t i = 0; i < p->m; i += PANEL_ROWS) {
        int64_t rows = gemm_min(PANEL_ROWS, p->m - i);
        blas_matrix left;

        if (course->a_packs)
            left = pack(&job->a, tile->batch, tile->i0 + i, tile->i0 + i + rows, k0, k0 + p->k, PANEL_ROWS, a_room);
        else
            left = part_of(kernel, a, i, 0);
        for (int64_t j = 0; j < p->n; j += course->b_width) {
            const struct block part = { .m = rows,
                                        .n = gemm_min(course->b_width, p->n - j),
                                        .k = p->k,
                                        .add = p->add,
                                        .c = p->c + (i * p->ldc + j) * kernel->acc_bytes,
                                        .ldc = p->ldc };
            blas_matrix right = *b;
            right.data += j / course->b_width * panel_bytes;
            multiply_whole(kernel, &part, &left, &right);
        }
    }
}

/* ------------------------------------------------------------------ a tile */

static uint64_t room_of_lines(const gemm_job *job, const struct course *course, int64_t lines)
{
    return gemm_align((uint64_t)(lines * course->depth) * job->kernel->in_bytes + SLACK);
}

/* What packing A takes: a chunk of its lines, or all of the tile's. */
static uint64_t room_of_a(const gemm_job *job, const struct course *course)
{
    return !course->a_packs ? 0 : room_of_lines(job, course, course->way == WAY_PANELS ? PANEL_ROWS : course->a_width);
}

/* The operand where it lies, from a line of a batch on. */
static blas_matrix matrix_at(const gemm_job *job, const gemm_operand *operand, int64_t batch, int64_t line, bool along,
                             int64_t ld)
{
    int64_t at = gemm_which(operand, batch) * operand->matrix_stride + line * operand->line_stride;

    return (blas_matrix){ .data = (const char *)operand->data + at * (int64_t)job->kernel->in_bytes,
                          .along = along,
                          .ld = ld,
                          .k_stride = operand->k_stride,
                          .scale = scale_of(operand) };
}

/* B as gemm_pack_constant left it: block after block of k, in each panel after panel. */
static blas_matrix packed_ahead(const gemm_job *job, const struct course *course, const gemm_tile *tile, int64_t k0,
                                int64_t k1)
{
    const int64_t at = k0 * gemm_round_up(job->n, course->b_width) + tile->j0 * (k1 - k0);
    const char *matrix = (const char *)job->b.packed + gemm_which(&job->b, tile->batch) * job->b.packed_stride;

    return (blas_matrix){ .data = matrix + at * (int64_t)job->kernel->in_bytes,
                          .along = false,
                          .ld = course->b_width,
                          .k_stride = course->b_width,
                          .scale = 1 };
}

/* Packs the columns of a tile of a plain B whose rows lie along memory. */
static blas_matrix pack_rows(const gemm_job *job, const gemm_tile *tile, int64_t k0, int64_t k1, int64_t ld,
                             int64_t width, void *room)
{
    const int64_t in = job->kernel->in_bytes;
    const blas_matrix matrix = matrix_at(job, &job->b, tile->batch, tile->j0, false, ld);

    KERNEL_BEST(panel_rows)
    (matrix.data + k0 * ld * in, ld * in, k1 - k0, (tile->j1 - tile->j0) * in, (k1 - k0) * PANEL_BYTES, room);
    return (blas_matrix){ .data = room, .along = false, .ld = width, .k_stride = width, .scale = matrix.scale };
}

static void multiply(const gemm_job *job, const gemm_tile *tile, void *workspace)
{
    const gemm_kernel *kernel = job->kernel;
    const blas_library *lib = kernel->user;
    const struct course course = course_of(job);
    char *a_room = workspace, *b_room = a_room + room_of_a(job, &course);
    int omp = lib->flavour == BLAS_OPENMP ? lib->omp_get_max_threads() : 0;
    blas_matrix whole_a = { 0 }, whole_b = { 0 };

    if (!course.a_packs)
        whole_a = matrix_at(job, &job->a, tile->batch, tile->i0, course.a_along, course.a_ld);
    if (!course.b_packs && job->b.packed == NULL)
        whole_b = matrix_at(job, &job->b, tile->batch, tile->j0, course.b_along, course.b_ld);
    if (omp > 1)
        lib->omp_set_num_threads(1);
    for (int64_t k0 = 0; k0 < job->k; k0 += course.depth) {
        int64_t k1 = gemm_min(k0 + course.depth, job->k);
        const struct block block = { .m = tile->i1 - tile->i0,
                                     .n = tile->j1 - tile->j0,
                                     .k = k1 - k0,
                                     .add = k0 > 0 || job->init != NULL,
                                     .c = tile->c,
                                     .ldc = tile->c_stride };
        blas_matrix a = part_of(kernel, &whole_a, 0, k0), b = part_of(kernel, &whole_b, 0, k0);

        if (job->b.packed != NULL)
            b = packed_ahead(job, &course, tile, k0, k1);
        else if (course.b_packs && course.way == WAY_PANELS && course.b_plain && !course.b_along)
            b = pack_rows(job, tile, k0, k1, course.b_ld, course.b_width, b_room);
        else if (course.b_packs)
            b = pack(&job->b, tile->batch, tile->j0, tile->j1, k0, k1, course.b_width, b_room);
        if (course.way == WAY_PANELS) {
            multiply_panels(job, &course, tile, &block, &a, &b, k0, a_room);
            continue;
        }
        if (course.a_packs)
            a = pack(&job->a, tile->batch, tile->i0, tile->i1, k0, k1, course.a_width, a_room);
        (course.way == WAY_THIN ? multiply_thin : multiply_whole)(kernel, &block, &a, &b);
    }
    if (omp > 1)
        lib->omp_set_num_threads(omp);
}

/* ------------------------------------------------------------------ planning */

static uint64_t pack_bytes(const gemm_job *job)
{
    const struct course course = course_of(job);
    int64_t columns = course.way == WAY_PANELS ? gemm_round_up(job->tile_n, course.b_width) : job->tile_n;

    return room_of_a(job, &course) + (course.b_packs ? room_of_lines(job, &course, columns) : 0);
}

/* The tiles of a job on one thread: as few as what is packed allows. */
static void largest_tile(const gemm_job *job, const struct course *course, int64_t *out_m, int64_t *out_n)
{
    int64_t m = MOST_LINES, n = MOST_LINES;

    if (course->way == WAY_PANELS)
        n = PANEL_TILE * course->b_width;
    if (course->way == WAY_WHOLE && course->a_packs)
        m = WHOLE_WIDTH;
    if (course->way == WAY_WHOLE && course->b_packs)
        n = WHOLE_WIDTH;
    if (job->c_in_workspace) {
        m = gemm_min(m, 256);
        n = gemm_min(n, WHOLE_WIDTH);
    }
    *out_m = job->m < 1 ? 1 : gemm_min(job->m, m);
    *out_n = job->n < 1 ? 1 : gemm_min(job->n, n);
}

static void plan(const gemm_job *job, uint32_t threads, int64_t *out_tile_m, int64_t *out_tile_n)
{
    const struct course course = course_of(job);
    int64_t step = PANEL_BYTES / job->kernel->in_bytes, tile_m, tile_n;

    (void)threads;
    largest_tile(job, &course, &tile_m, &tile_n);
    /* However many threads there are, for the library sums in another order at other sizes. Whole panels along n. */
    for (;;) {
        int64_t tiles = gemm_ceil_div(job->m, tile_m) * gemm_ceil_div(job->n, tile_n);
        if (job->batch > 0 && tiles > INT64_MAX / job->batch)
            break;
        tiles *= job->batch;
        if (tiles >= MOST_TILES ||
            (double)tile_m * (double)tile_n * (double)job->k < 2 * (tiles < FEW_TILES ? LEAST_TILE : LARGE_TILE))
            break;
        if (tile_n > step && (tile_n >= tile_m || tile_m <= PANEL_ROWS))
            tile_n = gemm_round_up(tile_n / 2, step);
        else if (tile_m > PANEL_ROWS)
            tile_m = gemm_round_up(tile_m / 2, PANEL_ROWS);
        else
            break;
    }
    *out_tile_m = tile_m;
    *out_tile_n =
        course.way == WAY_WHOLE && course.b_packs ? gemm_round_up(tile_n, 16) : tile_n; /* panels are that wide */
}

/* Measured as product_cost.c says, operations a nanosecond: panels 262, the rest 235 to 250; double takes twice as
 * long. Kernels for AVX2 do half of that. What is packed as panels costs as much as in the reference provider. */
static double product_ns(const gemm_kernel *kernel, const product_size *size)
{
    const blas_library *lib = kernel->user;
    const double vector = PANEL_BYTES / 4.0 / kernel->in_bytes, work = size->m * size->n * size->k;
    double columns = size->n <= 1 ? size->n : vector * (double)gemm_ceil_div((int64_t)size->n, (int64_t)vector);
    double floats = sizeof(float) / (double)kernel->in_bytes, rate = 245, packing = 0;
    double memory = product_memory_ns((size->m * size->k + size->n * size->k + size->m * size->n) * kernel->in_bytes),
           ns;
    bool thin = size->m <= (size->b_along ? THIN_ROWS_TURNED : THIN_ROWS), ahead;

    ahead = (kernel->packs & GEMM_PACKS_B) != 0 && size->b_constant && size->m >= kernel->pack_rows &&
            size->n >= kernel->pack_columns;
    if (!lib->small) {
        rate = 128;
        packing =
            thin && size->m > 1 && size->n > 1 ? 0.25 * size->n * size->k : 0; /* that the library does for few rows */
    } else if (ahead) {
        rate = 255;
    } else if (size->b_windows || (!thin && work >= SMALL / 2 && size->n > 56)) {
        rate = 262;
        packing = size->n * size->k * (size->b_along ? 0.4 : 0.1);
    } else if (thin && work >= SMALL / 2) {
        rate = 235;
    }
    if (size->b_windows && !lib->small)
        packing += size->n * size->k * 0.1;
    if (lib->small && size->a_across && size->m > TURNED_LD)
        packing += size->m * size->k * 0.1 * (double)(int64_t)(1 + size->n / (PANEL_TILE * PANEL_BYTES / 4.0));
    ns = (size->b_along && size->k < SMALL_TURNED_K ? 95 : 45) + 2 * size->m * columns * size->k / (rate * floats) +
         packing;
    return ns > memory ? ns : memory;
}

static const gemm_kernel *kernel_of(const gemm_engine *self, uint32_t type)
{
    const blas_engine *engine = (const blas_engine *)(const void *)self;

    return type == GEMM_F32 || type == GEMM_F64 ? &engine->kernels[type] : NULL;
}

/* The kernels of an engine whose library has, or will have, kernels for small products. */
static void set_kernels(blas_engine *engine, bool small)
{
    engine->library.small = small;
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
                                               .chain = engine->strict && type == GEMM_F32 ? GEMM_STRICT_CHAIN : 0,
                                               .packs = small ? GEMM_PACKS_B : 0,
                                               .plan = plan,
                                               .pack_bytes = pack_bytes,
                                               .multiply = multiply,
                                               .product_ns = product_ns,
                                               .user = &engine->library };
    }
}

void blas_engine_be_strict(blas_engine *engine)
{
    engine->strict = true;
    engine->kernels[GEMM_F32].chain = GEMM_STRICT_CHAIN;
}

static void engine_init(blas_engine *out)
{
    *out = (blas_engine){ .engine = { kernel_of } };
    set_kernels(out, false);
}

inlay_status blas_engine_open(const inlay_host *host, const char *library, const char *core, blas_engine *out,
                              inlay_diag *diag)
{
    inlay_status status;

    engine_init(out);
    status = blas_library_open(host, library, core, &out->library, diag);
    set_kernels(out, out->library.small);
    return status;
}

inlay_status blas_engine_await(const inlay_host *host, const char *library, const char *core, blas_engine *out,
                               inlay_diag *diag)
{
    if (strcmp(library, BLAS_DEFAULT_LIBRARY) != 0 || strcmp(core, BLAS_DEFAULT_CORE) != 0 ||
        !library_is_at_rest(library))
        return blas_engine_open(host, library, core, out, diag);
    engine_init(out);
    out->awaited = strdup(library);
    if (out->awaited == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for provider openblas");
    set_kernels(out, blas_core_is_avx512(blas_core_expected(core)));
    return INLAY_OK;
}

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER; /* guards what is awaited, of all engines */

static __attribute__((constructor)) void guard_opening(void)
{
    lock_at_fork(&opening);
}

inlay_status blas_engine_need(const inlay_host *host, blas_engine *engine, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    blas_library opened;

    (void)pthread_mutex_lock(&opening);
    if (engine->awaited != NULL) {
        INLAY_TRY(blas_library_open(host, engine->awaited, BLAS_DEFAULT_CORE, &opened, diag));
        if (opened.small != engine->library.small) /* who reads prices meanwhile may see either */
            set_kernels(engine, opened.small);
        blas_library_move(&engine->library, &opened);
        free(engine->awaited);
        engine->awaited = NULL;
    }
done:
    (void)pthread_mutex_unlock(&opening);
    return status;
}

void blas_engine_close(blas_engine *engine)
{
    blas_library_close(&engine->library);
    free(engine->awaited);
}
