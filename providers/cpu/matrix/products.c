/* Tiles of the GEMM, functions of its epilogue, and softmax of attention, see sgemm.h. Loops over rows and vectors
 * have constant bounds and are unrolled entirely, so that the sums stay in registers: of 32 registers of 16 lanes, 6
 * rows of 4 vectors, 8 of 3, 12 of 2 or 1; of 16 registers of 8 lanes, 6 rows of 2 at a time. */
#include "cpu/matrix/block.h"
#include "inlay/check.h"
#include "cpu/matrix/gelu.h"
#include "cpu/matrix/sgemm.h"
#include "simd/vecmath.h"

enum {
    ROWS_AHEAD = 16,                 /* elements of k between the weights that are multiplied and prefetched */
    PARTS = SGEMM_LANES / VEC_LANES, /* vectors for SGEMM_LANES columns */
    WIDE = PARTS == 1,               /* all columns of a tile are multiplied in one pass */
    SPAN = WIDE ? 1 : 64,            /* elements between two prefetches: a prefetch takes as long as a sum of 8 lanes */
    LINE = 16
};

/* Computes `vectors` vectors of VEC_LANES; the last one has `last` columns; full: it has all. lines: cache lines of
 * weights that are prefetched with each k, ROW_AHEAD floats ahead. */
VEC_INLINE void tile(const int rows, const int vectors, const bool full, const int64_t last, const int lines,
                     const sgemm_tile *t)
{
    const vmask part = vec_first(last);
    const float *ahead = t->ahead, *from = t->from;
    const int64_t k = t->k, c_row = t->c_row, ahead_step = t->ahead_step;
    const int64_t chains = k <= t->chain ? 1 : (k + t->chain - 1) / t->chain; /* a division takes as long as 10 terms */
    block_source source = { .a_row = t->a_row, .b = t->b, .b_step = t->b_step, .part = part };
    int64_t from_row = t->from_row, p = 0;
    float *c = t->c;
    /* enough registers are left for the earlier chains */
    const bool kept = 2 * rows * vectors < VEC_REGISTERS * 3 / 4;
    vec sum[SGEMM_ROWS][SGEMM_WIDTH / VEC_LANES], before[SGEMM_ROWS][SGEMM_WIDTH / VEC_LANES];

    INLAY_CHECK(t->chain > 0 && last > 0);
    VEC_UNROLL
    for (int i = 0; 3 * i < rows; i++)
        source.a[i] = t->a + 3 * i * t->a_row;
    if (kept) { /* the value that the chains are added to; -0 changes no sum */
        VEC_UNROLL
        for (int r = 0; r < rows; r++) {
            VEC_UNROLL
            for (int v = 0; v < vectors; v++) {
                before[r][v] = vec_set(-0.0f);
                if (from != NULL && (full || v + 1 < vectors))
                    before[r][v] = vec_load(from + r * from_row + v * VEC_LANES);
                else if (from != NULL)
                    before[r][v] = vec_load_some(part, from + r * from_row + v * VEC_LANES);
            }
        }
    }
    /* each chain is added to the earlier ones, which are stored in C unless kept in registers */
    for (int64_t n = 1; n <= chains; n++) {
        const int64_t end = n == chains ? k : k * n / chains;

        VEC_UNROLL
        for (int r = 0; r < rows; r++) {
            VEC_UNROLL
            for (int v = 0; v < vectors; v++)
                sum[r][v] = vec_zero();
        }
        while (p < end) {
            const int64_t count = end - p < SPAN ? end - p : SPAN;

            for (int64_t i = 0; i < (!WIDE ? ahead_step * SPAN : vectors > 1 ? 1 : 0); i += LINE)
                vec_fetch_far(ahead + i);
            ahead += ahead_step * SPAN;
            if (lines > 0 && k > ROWS_AHEAD)
                block_sum(rows, vectors, full, &source, count, lines, ROWS_AHEAD * t->b_step, sum[0],
                          SGEMM_WIDTH / VEC_LANES);
            else
                block_sum(rows, vectors, full, &source, count, 0, 0, sum[0], SGEMM_WIDTH / VEC_LANES);
            p += count;
        }
        if (kept) {
            VEC_UNROLL
            for (int r = 0; r < rows; r++) {
                VEC_UNROLL
                for (int v = 0; v < vectors; v++)
                    before[r][v] = sum[r][v] = vec_add(sum[r][v], before[r][v]);
            }
            if (n < chains)
                continue;
        }
        VEC_UNROLL
        for (int r = 0; r < rows; r++) {
            VEC_UNROLL
            for (int v = 0; v < vectors; v++) {
                const bool all = full || v + 1 < vectors;
                float *y = c + r * c_row + v * VEC_LANES;

                if (!kept && from != NULL) {
                    const float *x = from + r * from_row + v * VEC_LANES;

                    sum[r][v] = vec_add(sum[r][v], all ? vec_load(x) : vec_load_some(part, x));
                }
                if (n == chains && t->bias != NULL) { /* last: adding to a large bias would cost the sums digits */
                    const float *x = t->bias + v * VEC_LANES;

                    sum[r][v] = vec_add(sum[r][v], all ? vec_load(x) : vec_load_some(part, x));
                }
                if (all)
                    vec_store(y, sum[r][v]);
                else
                    vec_store_some(y, part, sum[r][v]);
            }
        }
        from = c;
        from_row = c_row;
    }
}

#define CELLS_6(X, v) X(1, v) X(2, v) X(3, v) X(4, v) X(5, v) X(6, v)
#define CELLS_8(X, v) CELLS_6(X, v) X(7, v) X(8, v)
#define CELLS_12(X, v) CELLS_8(X, v) X(9, v) X(10, v) X(11, v) X(12, v)
#if VEC_NARROW
/* Prefetches of few rows, or of one vector, would take as long as its multiply-adds. */
#define LINES(r, v) ((r) > 3 && (v) > 1 ? (v) : 0)
#define CELL(r, v)                                                                                                     \
    KERNEL_PART(void, tile_##r##_##v, const sgemm_tile *t)                                                             \
    {                                                                                                                  \
        if (t->last == VEC_LANES) /* a masked load takes one of the execution units of a multiply-add */               \
            tile(r, v, true, VEC_LANES, LINES(r, v), t);                                                               \
        else                                                                                                           \
            tile(r, v, false, t->last, LINES(r, v), t);                                                                \
    }
CELLS_12(CELL, 1)
CELLS_12(CELL, 2)
CELLS_8(CELL, 3)
CELLS_6(CELL, 4)
#define ROWS                                                                                                           \
    {                                                                                                                  \
        0, 12, 12, 8, 6                                                                                                \
    }
#else
/* A tile is computed in groups of 16 columns, or 32 where rows are few; one row takes all columns. So a panel is read
 * several times, in parts of k that stay in the second-level cache. If the panel was not prefetched by another tile,
 * the first group of columns prefetches it for all. */
#define GROUP(rows) ((rows) == 1 ? SGEMM_WIDTH / VEC_LANES : (rows) == 2 ? 2 * PARTS : PARTS)
enum { PANEL_LINES = SGEMM_WIDTH / LINE };

/* Tile `t` cut to slice `n` of `parts` along k. */
static sgemm_tile slice_of(const sgemm_tile *t, int64_t n, int64_t parts)
{
    const int64_t begin = t->k * n / parts;
    sgemm_tile slice = *t;

    slice.k = t->k * (n + 1) / parts - begin;
    slice.a += begin;
    slice.b += begin * t->b_step;
    slice.ahead += begin * t->ahead_step;
    if (n > 0) {
        slice.from = t->c;
        slice.from_row = t->c_row;
    }
    if (n + 1 < parts)
        slice.bias = NULL;
    return slice;
}

static void next_columns(sgemm_tile *tile, int64_t count)
{
    tile->b += count;
    tile->c += count;
    tile->from = tile->from != NULL ? tile->from + count : NULL;
    tile->bias = tile->bias != NULL ? tile->bias + count : NULL;
    tile->ahead = tile->a; /* already prefetched */
    tile->ahead_step = 0;
}

#define CELL(r, none)                                                                                                  \
    static __attribute__((noinline)) void group_##r(const sgemm_tile *t)                                               \
    {                                                                                                                  \
        tile(r, GROUP(r), true, VEC_LANES, 0, t);                                                                      \
    }                                                                                                                  \
    static __attribute__((noinline)) void first_##r(const sgemm_tile *t)                                               \
    {                                                                                                                  \
        tile(r, GROUP(r), true, VEC_LANES, PANEL_LINES, t);                                                            \
    }                                                                                                                  \
    static __attribute__((noinline)) void one_##r(const sgemm_tile *t)                                                 \
    {                                                                                                                  \
        tile(r, 1, false, t->last, 0, t);                                                                              \
    }                                                                                                                  \
    static void columns_##r(const sgemm_tile *t, int64_t count)                                                        \
    {                                                                                                                  \
        const int64_t parts = t->k <= t->chain ? 1 : (t->k + t->chain - 1) / t->chain;                                 \
        const bool cold = (r) > 1 && t->ahead_step == 0 && t->b_step == SGEMM_WIDTH;                                   \
                                                                                                                       \
        for (int64_t n = 0; n < parts; n++) {                                                                          \
            sgemm_tile u = slice_of(t, n, parts);                                                                      \
            int64_t left = count;                                                                                      \
                                                                                                                       \
            while (left > 0) {                                                                                         \
                const bool group = left >= GROUP(r) * VEC_LANES;                                                       \
                const int64_t take = group ? GROUP(r) * VEC_LANES : left < VEC_LANES ? left : VEC_LANES;               \
                                                                                                                       \
                u.last = (uint32_t)take;                                                                               \
                (!group ? one_##r : cold && left == count ? first_##r : group_##r)(&u);                                \
                next_columns(&u, take);                                                                                \
                left -= take;                                                                                          \
            }                                                                                                          \
        }                                                                                                              \
    }
CELLS_6(CELL, )
#undef CELL
#define CELL(r, v)                                                                                                     \
    KERNEL_PART(void, tile_##r##_##v, const sgemm_tile *t)                                                             \
    {                                                                                                                  \
        columns_##r(t, ((v)-1) * SGEMM_LANES + (int64_t)t->last);                                                      \
    }
CELLS_6(CELL, 1)
CELLS_6(CELL, 2)
CELLS_6(CELL, 3)
CELLS_6(CELL, 4)
#undef CELLS_8
#undef CELLS_12
#define CELLS_8 CELLS_6
#define CELLS_12 CELLS_6
#define ROWS                                                                                                           \
    {                                                                                                                  \
        0, 6, 6, 6, 6                                                                                                  \
    }
#endif
#undef CELL
#define CELL(r, v) KERNEL_PART_OF(tile_##r##_##v),
static const sgemm_tile_fn tiles_1[] = { CELLS_12(CELL, 1) }, tiles_2[] = { CELLS_12(CELL, 2) },
                           tiles_3[] = { CELLS_8(CELL, 3) }, tiles_4[] = { CELLS_6(CELL, 4) };
#undef CELL

#define FUNCTION(name, expression)                                                                                     \
    KERNEL_PART(void, name, const sgemm_post *post, float *c, int64_t c_row, int64_t rows, int64_t cols)               \
    {                                                                                                                  \
        const float alpha = post->alpha, beta = post->beta;                                                            \
                                                                                                                       \
        (void)alpha, (void)beta;                                                                                       \
        for (int64_t r = 0; r < rows; r++) {                                                                           \
            float *y = c + r * c_row;                                                                                  \
                                                                                                                       \
            _Pragma("omp simd") for (int64_t i = 0; i < cols; i++)                                                     \
            {                                                                                                          \
                const float x = y[i];                                                                                  \
                y[i] = (expression);                                                                                   \
            }                                                                                                          \
        }                                                                                                              \
    }
FUNCTION(fn_relu, x < 0 ? (alpha == 0 ? 0.0f : alpha * x) : x)
FUNCTION(fn_sigmoid, vm_sigmoid(x))
FUNCTION(fn_tanh, vm_tanh(x))
FUNCTION(fn_swish, x *vm_sigmoid(alpha *x))
FUNCTION(fn_hardswish, x *(x<-3.0f ? 0.0f : x> 3.0f ? 1.0f : x *(1.0f / 6) + 0.5f))
FUNCTION(fn_linear, alpha *x + beta)
FUNCTION(fn_clip, x<alpha ? alpha : x> beta ? beta : x)

/* Gelu, on groups of whole vectors, then one by one. */
#define GELU(name, of)                                                                                                 \
    KERNEL_PART(void, name, const sgemm_post *post, float *c, int64_t c_row, int64_t rows, int64_t cols)               \
    {                                                                                                                  \
        (void)post;                                                                                                    \
        for (int64_t r = 0; r < rows; r++) {                                                                           \
            float *y = c + r * c_row;                                                                                  \
            int64_t i = 0;                                                                                             \
            vec x[GELU_TOGETHER];                                                                                      \
                                                                                                                       \
            for (; i + GELU_TOGETHER * VEC_LANES <= cols; i += GELU_TOGETHER * VEC_LANES) {                            \
                VEC_UNROLL                                                                                             \
                for (int k = 0; k < GELU_TOGETHER; k++)                                                                \
                    x[k] = vec_load(y + i + k * VEC_LANES);                                                            \
                of(x, GELU_TOGETHER);                                                                                  \
                VEC_UNROLL                                                                                             \
                for (int k = 0; k < GELU_TOGETHER; k++)                                                                \
                    vec_store(y + i + k * VEC_LANES, x[k]);                                                            \
            }                                                                                                          \
            for (; i < cols; i += VEC_LANES) {                                                                         \
                const vmask part = vec_first(cols - i);                                                                \
                                                                                                                       \
                x[0] = vec_load_some(part, y + i);                                                                     \
                of(x, 1);                                                                                              \
                vec_store_some(y + i, part, x[0]);                                                                     \
            }                                                                                                          \
        }                                                                                                              \
    }
GELU(fn_gelu, gelu_erf)
GELU(fn_gelu_tanh, gelu_tanh)

#define FUNCTION_2(name, expression)                                                                                   \
    KERNEL_PART(void, name, const sgemm_post *post, float *c, int64_t c_row, int64_t rows, int64_t cols)               \
    {                                                                                                                  \
        for (int64_t r = 0; r < rows; r++) {                                                                           \
            const float *other = post->other + r * post->row;                                                          \
            float *y = c + r * c_row;                                                                                  \
                                                                                                                       \
            if (post->col == 0) {                                                                                      \
                const float o = *other;                                                                                \
                _Pragma("omp simd") for (int64_t i = 0; i < cols; i++)                                                 \
                {                                                                                                      \
                    const float x = y[i];                                                                              \
                    y[i] = (expression);                                                                               \
                }                                                                                                      \
                continue;                                                                                              \
            }                                                                                                          \
            _Pragma("omp simd") for (int64_t i = 0; i < cols; i++)                                                     \
            {                                                                                                          \
                const float x = y[i], o = other[i];                                                                    \
                y[i] = (expression);                                                                                   \
            }                                                                                                          \
        }                                                                                                              \
    }
FUNCTION_2(fn_add, x + o)
FUNCTION_2(fn_sub, x - o)
FUNCTION_2(fn_mul, x *o)
FUNCTION_2(fn_div, x / o)
FUNCTION_2(fn_prelu, x < 0 ? x * o : x)

static void post_block(const sgemm_post *post, float *c, int64_t c_row, int64_t rows, int64_t cols)
{
    static void (*const functions[SGEMM_FN_COUNT])(const sgemm_post *, float *, int64_t, int64_t, int64_t) = {
        [SGEMM_RELU] = KERNEL_PART_OF(fn_relu),
        [SGEMM_GELU] = KERNEL_PART_OF(fn_gelu),
        [SGEMM_GELU_TANH] = KERNEL_PART_OF(fn_gelu_tanh),
        [SGEMM_SIGMOID] = KERNEL_PART_OF(fn_sigmoid),
        [SGEMM_TANH] = KERNEL_PART_OF(fn_tanh),
        [SGEMM_SWISH] = KERNEL_PART_OF(fn_swish),
        [SGEMM_HARDSWISH] = KERNEL_PART_OF(fn_hardswish),
        [SGEMM_LINEAR] = KERNEL_PART_OF(fn_linear),
        [SGEMM_CLIP] = KERNEL_PART_OF(fn_clip),
        [SGEMM_ADD] = KERNEL_PART_OF(fn_add),
        [SGEMM_SUB] = KERNEL_PART_OF(fn_sub),
        [SGEMM_MUL] = KERNEL_PART_OF(fn_mul),
        [SGEMM_DIV] = KERNEL_PART_OF(fn_div),
        [SGEMM_PRELU] = KERNEL_PART_OF(fn_prelu),
    };

    INLAY_CHECK(post->fn < SGEMM_FN_COUNT &&
                (post->fn < SGEMM_ADD || (post->other != NULL && (post->col == 0 || post->col == 1))));
    functions[post->fn](post, c, c_row, rows, cols);
}

/* e^x for x up to 0, 1 ulp; NaN is kept. It is 0 where it would be subnormal (masked scores), because a CPU takes a
 * hundred times as long for subnormal results. */
VEC_INLINE vec exp_of(vec x)
{
    const vec integer = vec_set(12582912); /* 1.5 * 2^23: floats of this size have no fraction */
    const vec least = vec_set(-87);        /* a little above ln 2^-126 */
    const vec c = vec_max(least, x);       /* vec_max returns the second operand if one is NaN */
    const vec n = vec_sub(vec_fma(c, vec_set(1.44269504f), integer), integer);
    const vec high = vec_fnma(n, vec_set(VM_LN2_HIGH), c);
    const vec r = vec_fnma(n, vec_set(VM_LN2_LOW), high);
    vec p = vec_fma(vec_set(1.3821304e-3f), r, vec_set(8.368669e-3f));

    p = vec_fma(p, r, vec_set(4.166826e-2f));
    p = vec_fma(p, r, vec_set(1.6666521e-1f));
    p = vec_fma(p, r, vec_set(4.9999994e-1f));
    p = vec_fma(p, r, vec_set(1));
    p = vec_fma(p, r, vec_set(1));
    return vec_select(vec_greater(least, x), vec_zero(), vec_scale(p, n));
}

/* Scales and masks n scores of a row. Returns the largest of each lane: -infinity if all are NaN, which are kept. */
VEC_INLINE vec scale_scores(float *x, const float *mask, vec factor, int64_t n)
{
    enum { AT_ONCE = 4 }; /* hides the latency of the maximum */
    const vec least = vec_set(-VM_INFINITY);
    vec tops[AT_ONCE] = { least, least, least, least };
    int64_t i = 0;

    for (; i + AT_ONCE * VEC_LANES <= n; i += AT_ONCE * VEC_LANES) {
        VEC_UNROLL
        for (int k = 0; k < AT_ONCE; k++) {
            float *at = x + i + k * VEC_LANES;
            vec v = vec_load(at);

            v = mask != NULL ? vec_fma(v, factor, vec_load(mask + i + k * VEC_LANES)) : vec_mul(v, factor);
            tops[k] = vec_max(v, tops[k]); /* returns the second operand if one is NaN */
            vec_store(at, v);
        }
    }
    for (; i < n; i += VEC_LANES) {
        const vmask part = vec_first(n - i);
        vec v = vec_load_some(part, x + i);

        v = mask != NULL ? vec_fma(v, factor, vec_load_some(part, mask + i)) : vec_mul(v, factor);
        v = vec_select(part, v, least);
        tops[0] = vec_max(v, tops[0]);
        vec_store(x + i, v);
    }
    return vec_max(vec_max(tops[0], tops[1]), vec_max(tops[2], tops[3]));
}

/* The sinks of the rows from `first` on. */
VEC_INLINE vec load_sinks(const sgemm_scores *scores, int64_t first, int64_t rows)
{
    float sinks[VEC_LANES];

    for (int64_t r = 0; r < VEC_LANES; r++)
        sinks[r] = scores->sinks[(first + (r < rows ? r : 0)) * scores->sink_row];
    return vec_load(sinks);
}

/* Computes at most VEC_LANES rows from `first` on. Horizontal reductions are done for all of these rows at once, which
 * pays because rows of windowed attention and of images are short. */
static void softmax_some(const sgemm_scores *scores, int64_t first, int64_t rows)
{
    const vec least = vec_set(-VM_INFINITY), zero = vec_zero(), factor = vec_set(scores->scale);
    const int64_t size = scores->count;
    vec tops[VEC_LANES], sums[VEC_LANES];
    float top[VEC_LANES];

    for (int64_t r = 0; r < VEC_LANES; r++) {
        const int64_t n = r >= rows ? 0 : scores->seen + first + r < size ? scores->seen + first + r : size;
        const float *mask = scores->mask != NULL ? scores->mask + (first + r) * scores->mask_row : NULL;
        float *x = scores->input + (first + r) * scores->x_row;

        tops[r] = scale_scores(x, mask, factor, n);
        sums[r] = zero;
    }
    tops[0] = vec_tops(tops); /* -infinity also if all are NaN, which are kept */
    if (scores->sinks != NULL)
        tops[0] = vec_max(load_sinks(scores, first, rows), tops[0]);
    vec_store(top, vec_select(vec_greater(tops[0], least), tops[0], zero));
    for (int64_t r = 0; r < rows; r++) {
        const int64_t n = scores->seen + first + r < size ? scores->seen + first + r : size;
        float *x = scores->input + (first + r) * scores->x_row;
        vec sum = zero;
        int64_t i = 0;

        for (; i < n; i += VEC_LANES) {
            const vec y = exp_of(vec_sub(vec_load(x + i), vec_set(top[r])));

            vec_store(x + i, y);
            sum = vec_add(sum, y);
        }
        for (; i < size; i += VEC_LANES)
            vec_store(x + i, zero);
        sums[r] = sum;
    }
    sums[0] = vec_sums(sums);
    if (scores->sinks != NULL)
        sums[0] = vec_add(sums[0], exp_of(vec_sub(load_sinks(scores, first, rows), vec_load(top))));
    tops[0] = vec_div(vec_set(1), sums[0]); /* infinity if all are 0, which makes NaN of them */
    if (scores->blank != SGEMM_BLANK_NAN)
        tops[0] = vec_select(vec_greater(sums[0], zero), tops[0], scores->blank == SGEMM_BLANK_ZERO ? sums[0] : zero);
    vec_store(top, tops[0]);
    for (int64_t r = 0; r < rows && scores->blank == SGEMM_BLANK_GUARDED; r++)
        for (int64_t i = 0; i < size && top[r] == 0; i += VEC_LANES)
            vec_store(scores->input + (first + r) * scores->x_row + i, zero);
    vec_store_some(scores->factors + first, vec_first(rows), tops[0]);
}

KERNEL_PART(void, softmax_rows, const sgemm_scores *scores)
{
    for (int64_t r = 0; r < scores->rows; r += VEC_LANES)
        softmax_some(scores, r, scores->rows - r < VEC_LANES ? scores->rows - r : VEC_LANES);
}

enum { FLOAT32, FLOAT16, BFLOAT16 }; /* the elements of lines; those of 16 bits: `size` is a multiple of VEC_LANES */
enum { CACHE_LINE = 64 };            /* bytes */

VEC_INLINE int bytes_of(int type)
{
    return type == FLOAT32 ? 4 : 2;
}

/* Reads elements at any address: files do not align them, and matrices of 16 bits are read in the file. */
VEC_INLINE vec load_whole(const void *lines, int type, int64_t at)
{
    typedef uint16_t shorts __attribute__((vector_size(2 * VEC_LANES)));
    typedef uint32_t words __attribute__((vector_size(4 * VEC_LANES)));
    uint16_t half[VEC_LANES];
    shorts low;
    words bits;
    vec x;

    if (type == FLOAT32) {
        memcpy(&x, (const char *)lines + at * (int64_t)sizeof(float), sizeof x);
        return x;
    }
    memcpy(half, (const char *)lines + at * (int64_t)sizeof *half, sizeof half);
    if (type == FLOAT16)
        return vec_load_half(half);
#ifdef KERNEL_IS_avx512 /* compilers convert such vectors in two parts */
    (void)low, (void)bits;
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)half)), 16));
#else
    memcpy(&low, half, sizeof low);
    bits = __builtin_convertvector(low, words) << 16;
    memcpy(&x, &bits, sizeof x);
    return x;
#endif
}

VEC_INLINE vec load_line(const void *lines, int type, int64_t at, vmask part)
{
    return type == FLOAT32 ? vec_load_some(part, (const float *)lines + at) : load_whole(lines, type, at);
}

VEC_INLINE void panel_of(const void *lines, int type, int64_t stride, int64_t count, int64_t size, float *out)
{
    const int64_t past = (count + SGEMM_LANES - 1) / SGEMM_LANES * SGEMM_LANES;

    INLAY_CHECK(count >= 0 && count <= SGEMM_WIDTH);

    for (int64_t i = 0; i < past; i += VEC_LANES) {
        for (int64_t k = 0; k < size; k += VEC_LANES) {
            const vmask part = vec_first(size - k);
            vec r[VEC_LANES];

            VEC_UNROLL
            for (int n = 0; n < VEC_LANES; n++) {
                const int64_t at = (i + n) * stride + k;

                r[n] = i + n >= count ? vec_zero() : load_line(lines, type, at, part);
            }
            vec_transpose(r);
            for (int n = 0; n < VEC_LANES && k + n < size; n++)
                vec_store(out + (k + n) * SGEMM_WIDTH + i, r[n]);
        }
    }
}

KERNEL_PART(void, make_panel, const float *lines, int64_t stride, int64_t count, int64_t size, float *out)
{
    panel_of(lines, FLOAT32, stride, count, size, out);
}

KERNEL_PART(void, panel_of_halves, const uint16_t *lines, int64_t stride, int64_t count, int64_t size, float *out)
{
    panel_of(lines, FLOAT16, stride, count, size, out);
}

KERNEL_PART(void, panel_of_brains, const uint16_t *lines, int64_t stride, int64_t count, int64_t size, float *out)
{
    panel_of(lines, BFLOAT16, stride, count, size, out);
}

/* Dot products of `rows` rows of a with the first VEC_LANES / rows of `lines` lines of b; each line is read once. The
 * order of additions of an element does not depend on its neighbours. Lines are read by whole cache lines, as those
 * that are a power of two apart compete for the same sets of the cache. With each, one is prefetched from `next`, whose
 * stride is that of b; any address is valid for that. */
VEC_INLINE void dots_of(int rows, const float *a, int64_t a_row, const void *b, int type, int64_t b_stride,
                        int64_t lines, int64_t size, const char *next, float *out, int64_t out_row)
{
    const int across = VEC_LANES / rows, bytes = bytes_of(type);
    const int step = CACHE_LINE / bytes;
    const int64_t some = lines < across ? lines : across, whole = size / step * step;
    vec sum[VEC_LANES];
    float y[VEC_LANES];

    VEC_UNROLL
    for (int n = 0; n < VEC_LANES; n++)
        sum[n] = vec_zero();
    for (int64_t k = 0; k < whole; k += step) {
        VEC_UNROLL
        for (int n = 0; n < across; n++) {
            const int64_t at = (n < some ? n : 0) * b_stride + k;

            vec_fetch_near(next + (n * b_stride + k) * bytes);
            VEC_UNROLL
            for (int i = 0; i < step; i += VEC_LANES) {
                const vec line = load_whole(b, type, at + i);

                VEC_UNROLL
                for (int r = 0; r < rows; r++)
                    sum[r * across + n] = vec_fma(vec_load(a + r * a_row + k + i), line, sum[r * across + n]);
            }
        }
    }
    for (int64_t k = whole; k < size; k += VEC_LANES) {
        const vmask part = vec_first(size - k);

        VEC_UNROLL
        for (int n = 0; n < across; n++) {
            const vec line = load_line(b, type, (n < some ? n : 0) * b_stride + k, part);

            VEC_UNROLL
            for (int r = 0; r < rows; r++)
                sum[r * across + n] = vec_fma(vec_load_some(part, a + r * a_row + k), line, sum[r * across + n]);
        }
    }
    vec_store(y, vec_sums(sum));
    for (int r = 0; r < rows; r++) {
        if (lines >= across)
            memcpy(out + r * out_row, y + r * across, (size_t)across * sizeof *out);
        else
            memcpy(out + r * out_row, y + r * across, (size_t)some * sizeof *out);
    }
}

/* The first rows prefetch the next lines, which are usually those of the next call after the last ones; others only
 * touch their own. */
VEC_INLINE void dots_all(const float *a, int64_t a_row, int64_t rows, const void *b, int type, int64_t b_stride,
                         int64_t count, int64_t size, float *out, int64_t out_row)
{
    const int64_t line = b_stride * bytes_of(type);

    for (int64_t i = 0; i < count; i += VEC_LANES) {
        const int64_t lines = count - i < VEC_LANES ? count - i : VEC_LANES;
        const char *from = (const char *)b + i * line;
        int64_t r = 0;

        for (; r + 4 <= rows; r += 4)
            for (int64_t n = 0; n < lines; n += VEC_LANES / 4)
                dots_of(4, a + r * a_row, a_row, from + n * line, type, b_stride, lines - n, size,
                        from + (r == 0 ? n + VEC_LANES : n) * line, out + r * out_row + i + n, out_row);
        for (; r < rows; r++)
            dots_of(1, a + r * a_row, a_row, from, type, b_stride, lines, size, from + (r == 0 ? VEC_LANES : 0) * line,
                    out + r * out_row + i, out_row);
    }
}

KERNEL_PART(void, dots, const float *a, int64_t a_row, int64_t rows, const float *b, int64_t b_stride, int64_t count,
            int64_t size, float *out, int64_t out_row)
{
    dots_all(a, a_row, rows, b, FLOAT32, b_stride, count, size, out, out_row);
}

KERNEL_PART(void, dots_of_halves, const float *a, int64_t a_row, int64_t rows, const uint16_t *b, int64_t b_stride,
            int64_t count, int64_t size, float *out, int64_t out_row)
{
    dots_all(a, a_row, rows, b, FLOAT16, b_stride, count, size, out, out_row);
}

KERNEL_PART(void, dots_of_brains, const float *a, int64_t a_row, int64_t rows, const uint16_t *b, int64_t b_stride,
            int64_t count, int64_t size, float *out, int64_t out_row)
{
    dots_all(a, a_row, rows, b, BFLOAT16, b_stride, count, size, out, out_row);
}

const sgemm_kernel KERNEL(products) = {
    .isa = KERNEL_TEXT,
    .rows = ROWS,
    .tile = { NULL, tiles_1, tiles_2, tiles_3, tiles_4 },
    .post = post_block,
    .softmax = KERNEL_PART_OF(softmax_rows),
    .panel = KERNEL_PART_OF(make_panel),
    .dots = KERNEL_PART_OF(dots),
    .float16 = { .panel = KERNEL_PART_OF(panel_of_halves), .dots = KERNEL_PART_OF(dots_of_halves) },
    .bfloat16 = { .panel = KERNEL_PART_OF(panel_of_brains), .dots = KERNEL_PART_OF(dots_of_brains) },
};
