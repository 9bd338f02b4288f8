/* blas.c - a tile of a product as one call of the library, or a few.
 *
 * A and B are handed over where they lie whenever one of their two strides is 1, which is what BLAS can express; that
 * holds for all weights, so constants are never copied. What cannot be expressed (the windows of a convolution, odd
 * Einsums) is packed by the job's own function into a panel as wide as the tile, block of k by block of k: such a panel
 * is a dense row-major matrix. The library packs what it is given once more, into the workspace of its own that it keeps
 * for each caller.
 *
 * Threads are the host's: a tile is computed on one of them, and many call the library at once, which it allows: its
 * buffers are taken under a lock of its own. */
#include "blas.h"

enum {
    DEPTH = 384,          /* k of a packed block: that, times WIDTH floats, stays in the second-level cache */
    WIDTH = GEMM_MAX_WIDTH,
    SLACK = 64,           /* after packed columns: see gemm_pack_fn */
    MOST_LINES = 1 << 20, /* of a tile: far below what BLAS's int holds */
    MIN_TILE = 1 << 20    /* multiplications that are worth another thread: some microseconds */
};

/* ------------------------------------------------------------------ operands */

/* A or B as the library takes it: count lines along k, from the first line of the tile on. */
typedef struct blas_matrix {
    const char *data;
    int trans;     /* of the matrix that BLAS sees as m x k (A), k x n (B) */
    int ld;        /* elements between its rows in memory */
    int64_t k_stride; /* elements between steps of k, for vectors */
    double scale;  /* 1 when it was applied while packing */
} blas_matrix;

/* Can BLAS read the operand where it lies, lines [., lines) of depth k? Then ld is set, and along says whether the
 * lines lie along memory (k_stride is 1) or across. */
static bool is_plain(const gemm_kernel *kernel, const gemm_operand *o, int64_t lines, int64_t k, bool *along,
                     int64_t *ld)
{
    bool is_double = kernel->in_bytes == sizeof(double);

    if (o->pack != gemm_strided_pack(is_double ? GEMM_F64 : GEMM_F32, is_double ? INLAY_DOUBLE : INLAY_FLOAT))
        return false;
    if ((o->k_stride == 1 || k <= 1) && (o->line_stride >= k || lines <= 1)) {
        *along = true;
        *ld = o->line_stride > k ? o->line_stride : k > 0 ? k : 1;
    } else if ((o->line_stride == 1 || lines <= 1) && (o->k_stride >= lines || k <= 1)) {
        *along = false;
        *ld = o->k_stride > lines ? o->k_stride : lines;
    } else {
        return false;
    }
    return *ld <= INT32_MAX && k <= INT32_MAX;
}

static bool operand_is_plain(const gemm_job *job, bool is_b)
{
    bool along;
    int64_t ld;

    return is_plain(job->kernel, is_b ? &job->b : &job->a, is_b ? job->n : job->m, job->k, &along, &ld);
}

static double scale_of(const gemm_operand *o)
{
    return o->scale == 0 ? 1 : o->scale;
}

/* The operand's lines from `line` on, k from k0 on, where they lie. */
static blas_matrix plain_matrix(const gemm_job *job, const gemm_operand *o, int64_t batch, int64_t line, int64_t k0,
                                int64_t lines, bool is_b)
{
    int64_t at = gemm_which(o, batch) * o->matrix_stride + line * o->line_stride + k0 * o->k_stride, ld = 1;
    blas_matrix m = { .data = (const char *)o->data + at * (int64_t)job->kernel->in_bytes, .k_stride = o->k_stride,
                      .scale = scale_of(o) };
    bool along = false;

    (void)is_plain(job->kernel, o, lines, job->k, &along, &ld);
    m.trans = along == is_b ? BLAS_TRANS : BLAS_NO_TRANS;
    m.ld = (int)ld;
    return m;
}

/* The same lines, packed into room: rows of k, each as wide as a tile. */
static blas_matrix packed_matrix(const gemm_operand *o, int64_t batch, int64_t line, int64_t line_end, int64_t k0,
                                 int64_t k1, int64_t width, void *room, bool is_b)
{
    o->pack(o, batch, line, line_end, k0, k1, (uint32_t)width, room);
    return (blas_matrix){ .data = room, .trans = is_b ? BLAS_NO_TRANS : BLAS_TRANS, .ld = (int)width,
                          .k_stride = width, .scale = 1 };
}

/* ------------------------------------------------------------------ the library's calls */

/* C [m, n] (+)= A * B, on the calling thread. */
static void call_matrix(const gemm_kernel *kernel, int m, int n, int k, const blas_matrix *a, const blas_matrix *b,
                        bool add, void *c, int ldc)
{
    const blas_library *lib = kernel->user;

    if (kernel->acc_bytes == sizeof(double))
        lib->dgemm(BLAS_ROW_MAJOR, a->trans, b->trans, m, n, k, a->scale * b->scale, (const void *)a->data, a->ld,
                   (const void *)b->data, b->ld, add, c, ldc);
    else
        lib->sgemm(BLAS_ROW_MAJOR, a->trans, b->trans, m, n, k, (float)(a->scale * b->scale), (const void *)a->data,
                   a->ld, (const void *)b->data, b->ld, add, c, ldc);
}

/* y (+)= M * x, or its transpose, where M has `rows` rows in memory. y starts from 0 and the library always adds: with
 * beta 0 some versions of its gemv multiply what was there, which may be NaN. */
static void call_vector(const gemm_kernel *kernel, int rows, int columns, const blas_matrix *matrix, bool transposed,
                        const blas_matrix *x, bool add, void *y, int64_t y_stride)
{
    const blas_library *lib = kernel->user;
    int trans = transposed ? BLAS_TRANS : BLAS_NO_TRANS, count = transposed ? columns : rows;
    double alpha = matrix->scale * x->scale;

    for (int64_t i = 0; i < count && !add; i++)
        memset((char *)y + i * y_stride * kernel->acc_bytes, 0, kernel->acc_bytes);
    if (kernel->acc_bytes == sizeof(double))
        lib->dgemv(BLAS_ROW_MAJOR, trans, rows, columns, alpha, (const void *)matrix->data, matrix->ld,
                   (const void *)x->data, (int)x->k_stride, 1, y, (int)y_stride);
    else
        lib->sgemv(BLAS_ROW_MAJOR, trans, rows, columns, (float)alpha, (const void *)matrix->data, matrix->ld,
                   (const void *)x->data, (int)x->k_stride, 1, y, (int)y_stride);
}

static bool fits(int64_t stride)
{
    return stride >= 1 && stride <= INT32_MAX;
}

/* One block of k of a tile. Products with a vector are bound by memory, and have a call of their own. */
static void multiply_block(const gemm_job *job, const gemm_tile *tile, const blas_matrix *a, const blas_matrix *b,
                           int64_t depth, bool add)
{
    int m = (int)(tile->i1 - tile->i0), n = (int)(tile->j1 - tile->j0), k = (int)depth;

    if (m > 1 && !fits(tile->c_stride)) { /* rows too far apart for BLAS's int */
        for (int64_t i = tile->i0; i < tile->i1; i++) {
            gemm_tile row = *tile;
            blas_matrix line = *a;
            row.i0 = i;
            row.i1 = i + 1;
            row.c = (char *)tile->c + (i - tile->i0) * tile->c_stride * job->kernel->acc_bytes;
            line.data += (i - tile->i0) * (a->trans == BLAS_TRANS ? 1 : a->ld) * (int64_t)job->kernel->in_bytes;
            multiply_block(job, &row, &line, b, depth, add);
        }
        return;
    }
    if (m == 1 && fits(a->k_stride))
        call_vector(job->kernel, b->trans == BLAS_TRANS ? n : k, b->trans == BLAS_TRANS ? k : n, b,
                    b->trans == BLAS_NO_TRANS, a, add, tile->c, 1);
    else if (n == 1 && fits(b->k_stride) && fits(tile->c_stride))
        call_vector(job->kernel, a->trans == BLAS_TRANS ? k : m, a->trans == BLAS_TRANS ? m : k, a,
                    a->trans == BLAS_TRANS, b, add, tile->c, tile->c_stride);
    else
        call_matrix(job->kernel, m, n, k, a, b, add, tile->c, m > 1 ? (int)tile->c_stride : n);
}

static int64_t packed_depth(const gemm_job *job)
{
    return gemm_min(DEPTH * (int64_t)sizeof(float) / job->kernel->in_bytes, job->k);
}

static uint64_t room_of_lines(const gemm_job *job, int64_t lines)
{
    return gemm_align((uint64_t)(lines * packed_depth(job)) * job->kernel->in_bytes + SLACK);
}

static void multiply(const gemm_job *job, const gemm_tile *tile, void *workspace)
{
    bool a_plain = operand_is_plain(job, false), b_plain = operand_is_plain(job, true);
    int64_t depth = a_plain && b_plain ? job->k : packed_depth(job);
    char *a_room = workspace, *b_room = a_room + (a_plain ? 0 : room_of_lines(job, job->tile_m));
    const blas_library *lib = job->kernel->user;
    int omp = lib->flavour == BLAS_OPENMP ? lib->omp_get_max_threads() : 0;
    blas_matrix a, b;

    if (omp > 1)
        lib->omp_set_num_threads(1);
    for (int64_t k0 = 0; k0 < job->k; k0 += depth) {
        int64_t k1 = gemm_min(k0 + depth, job->k);
        if (a_plain)
            a = plain_matrix(job, &job->a, tile->batch, tile->i0, k0, job->m, false);
        else
            a = packed_matrix(&job->a, tile->batch, tile->i0, tile->i1, k0, k1, job->tile_m, a_room, false);
        if (b_plain)
            b = plain_matrix(job, &job->b, tile->batch, tile->j0, k0, job->n, true);
        else
            b = packed_matrix(&job->b, tile->batch, tile->j0, tile->j1, k0, k1, job->tile_n, b_room, true);
        multiply_block(job, tile, &a, &b, k1 - k0, k0 > 0 || job->init != NULL);
    }
    if (omp > 1)
        lib->omp_set_num_threads(omp);
}

/* ------------------------------------------------------------------ planning */

static uint64_t pack_bytes(const gemm_job *job)
{
    return (operand_is_plain(job, false) ? 0 : room_of_lines(job, job->tile_m)) +
           (operand_is_plain(job, true) ? 0 : room_of_lines(job, job->tile_n));
}

/* As few tiles as the threads and the cache allow: each call has the library pack its operands anew. */
static void plan(const gemm_job *job, uint32_t threads, int64_t *out_tile_m, int64_t *out_tile_n)
{
    int64_t most_m = operand_is_plain(job, false) ? MOST_LINES : WIDTH, tile_m, tile_n;
    int64_t most_n = operand_is_plain(job, true) ? MOST_LINES : WIDTH;

    if (job->c_in_workspace) {
        most_m = gemm_min(most_m, 256);
        most_n = gemm_min(most_n, WIDTH);
    }
    tile_m = job->m < 1 ? 1 : gemm_min(job->m, most_m);
    tile_n = job->n < 1 ? 1 : gemm_min(job->n, most_n);
    /* Two tiles a thread, so that one that is slower holds up the others less. Whole vectors along n. */
    while (threads > 1) {
        int64_t tiles = gemm_ceil_div(job->m, tile_m) * gemm_ceil_div(job->n, tile_n);
        if (job->batch > 0 && tiles > INT64_MAX / job->batch)
            break;
        if (tiles * job->batch >= 2 * (int64_t)threads || (double)tile_m * (double)tile_n * (double)job->k < MIN_TILE)
            break;
        if (tile_n > 64 && tile_n >= tile_m)
            tile_n = gemm_round_up(tile_n / 2, 16);
        else if (tile_m > 16)
            tile_m = gemm_round_up(tile_m / 2, 8);
        else
            break;
    }
    *out_tile_m = tile_m;
    *out_tile_n = operand_is_plain(job, true) ? tile_n : gemm_round_up(tile_n, 16); /* panels are that wide */
}

static const gemm_kernel *kernel_of(const gemm_engine *self, uint32_t type)
{
    const blas_engine *e = (const blas_engine *)(const void *)self;

    return type == GEMM_F32 || type == GEMM_F64 ? &e->kernels[type] : NULL;
}

void blas_engine_init(blas_engine *e)
{
    e->engine = (gemm_engine){ kernel_of };
    for (uint32_t type = GEMM_F32; type <= GEMM_F64; type++) {
        uint32_t bytes = type == GEMM_F32 ? sizeof(float) : sizeof(double);
        e->kernels[type] = (gemm_kernel){ .isa = "openblas", .mr = 1, .nr = 1, .in_bytes = bytes, .acc_bytes = bytes,
                                          .k_step = 1, .plan = plan, .pack_bytes = pack_bytes, .multiply = multiply,
                                          .user = &e->library };
    }
}
