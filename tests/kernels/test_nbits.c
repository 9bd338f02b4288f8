/* Matrix multiplications with packed n-bit weights, for every instruction set that this CPU supports, compared with
 * sums in double of the unpacked weights: numbers of bits, block sizes that do and do not divide k, transposed
 * weights, zero points, numbers of rows, and activations that cannot be quantized. */
#include "cpu/weights/nbits.h"
#include "cmocka_all.h"
#include "oracle.h"
#include "random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct level {
    const nbits_kernel *kernel;
    cpu_level needs;
    bool vnni;
};

static const struct level levels[] = {
#if defined(__x86_64__)
    { &nbits_avx512_vnni, CPU_AVX512, true },
    { &nbits_avx512, CPU_AVX512, false },
    { &nbits_avx2, CPU_AVX2, false },
#elif defined(__aarch64__)
    { &nbits_neon_dot, CPU_NEON_DOT, false },
    { &nbits_neon, CPU_BASELINE, false },
#endif
    { &nbits_c, CPU_BASELINE, false },
};

static const uint32_t all_bits[] = { 2, 4, 5, 6, 8 };
static uint64_t noise_state = 1;

static bool can_test(const struct level *level)
{
    return cpu_has(level->needs) && (!level->vnni || cpu_has_vnni());
}

/* The weights of a test case, as stored in a file, as numbers and packed. */
struct weights {
    nbits_shape shape;
    nbits_source source;
    uint8_t *file;   /* of exact size, so that sanitizers detect reads beyond the end */
    double *weights; /* [k][n] */
    uint8_t *packed;
    float *scales, *zeros, *file_scales;
    float zero;
};

/* The packed weight. */
static int32_t weight_at(const struct weights *weights, int64_t k, int64_t n)
{
    const nbits_source *from = &weights->source;
    const uint32_t bits = weights->shape.bits;
    const int32_t code =
        nbits_element(from->data, k * from->k_step + n * from->n_step, nbits_has_planes(bits) ? 8 : bits, false);

    return (code & ((1 << bits) - 1)) ^ (from->is_signed ? 1 << (bits - 1) : 0);
}

static void make_weights(struct weights *weights, uint32_t bits, int64_t k, int64_t n, int64_t block, bool transposed,
                         bool is_signed, bool zeros, float fraction)
{
    const uint32_t file_bits = nbits_has_planes(bits) ? 8 : bits;
    const uint32_t zero_bits = nbits_has_planes(bits) ? 4 : bits;
    const bool signed_zeros = is_signed && zero_bits == bits;
    const int64_t bytes = (k * n * file_bits + 7) / 8;

    assert_true(nbits_shape_init(&weights->shape, bits, k, n, block));
    const int64_t blocks = weights->shape.blocks;
    weights->file = malloc((size_t)bytes);
    weights->weights = malloc((size_t)(k * n) * sizeof *weights->weights);
    weights->packed = malloc((size_t)nbits_weight_bytes(&weights->shape));
    weights->scales = malloc((size_t)nbits_scale_count(&weights->shape) * sizeof(float));
    weights->zeros = zeros ? malloc((size_t)nbits_scale_count(&weights->shape) * sizeof(float)) : NULL;
    weights->file_scales = malloc((size_t)(blocks * n) * sizeof(float));
    uint8_t *file_zeros = malloc((size_t)(blocks * n * zero_bits + 7) / 8);
    assert_true(weights->file && weights->weights && weights->packed && weights->scales && weights->file_scales &&
                file_zeros);
    for (int64_t i = 0; i < bytes; i++)
        weights->file[i] = (uint8_t)random_bits(&noise_state);
    for (int64_t i = 0; i < (blocks * n * zero_bits + 7) / 8; i++)
        file_zeros[i] = (uint8_t)random_bits(&noise_state);
    for (int64_t i = 0; i < blocks * n; i++)
        weights->file_scales[i] = 0.5f + random_signed(&noise_state) * 0.25f;
    weights->source = (nbits_source){
        .data = weights->file, .k_step = transposed ? 1 : n, .n_step = transposed ? k : 1, .is_signed = is_signed
    };
    weights->zero = is_signed ? (float)(1 << (bits - 1)) : 3.0f;
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < n; j++) {
            const int64_t at = i / weights->shape.block * n + j;
            const double zero = zeros ? nbits_element(file_zeros, at, zero_bits, signed_zeros) +
                                            (signed_zeros ? 1 << (zero_bits - 1) : 0) + fraction
                                      : weights->zero;

            weights->weights[i * n + j] = (weight_at(weights, i, j) - zero) * (double)weights->file_scales[at];
        }
    nbits_pack_weights(&weights->shape, &weights->source, 0, weights->shape.panels, weights->packed);
    nbits_pack_floats(&weights->shape, &(nbits_source){ .data = weights->file_scales, .k_step = n, .n_step = 1 },
                      weights->scales);
    if (zeros)
        nbits_pack_zeros(&weights->shape,
                         &(nbits_source){ .data = file_zeros, .k_step = n, .n_step = 1, .is_signed = signed_zeros },
                         zero_bits, 0, weights->zeros);
    for (int64_t i = 0; zeros && i < nbits_scale_count(&weights->shape); i++)
        weights->zeros[i] += fraction;
    free(file_zeros);
}

/* Replaces scales by bytes with joint factors, and zero points by such minima. */
static void join_scales(struct weights *weights)
{
    nbits_shape *shape = &weights->shape;
    double *plain = malloc((size_t)(shape->k * shape->n) * sizeof *plain);

    assert_non_null(plain);
    for (int64_t i = 0; i < shape->k; i++)
        for (int64_t j = 0; j < shape->n; j++)
            plain[i * shape->n + j] = weight_at(weights, i, j) - (weights->zeros == NULL ? weights->zero : 0);
    memset(weights->weights, 0, (size_t)(shape->k * shape->n) * sizeof *plain);
    assert_true(nbits_join_scales(shape));
    assert_true(nbits_scale_count(shape) < shape->panels * NBITS_COLUMNS * shape->blocks);
    for (int minima = 0; minima < (weights->zeros == NULL ? 1 : 2); minima++) {
        float *panel = minima ? weights->zeros : weights->scales;

        for (int64_t k = 0, step = 16 + (4 << shape->joint); k < shape->panels * shape->k; k += NBITS_JOINED) {
            int8_t *codes = (int8_t *)(panel + 16);

            for (int64_t i = 0; i < 16; i++)
                panel[i] = 0.01f + random_signed(&noise_state) * 0.009f;
            for (int64_t i = 0; i < 16 << shape->joint; i++)
                codes[i] = (int8_t)(random_bits(&noise_state) % 256);
            for (int64_t i = 0; i < NBITS_JOINED * 16; i++) {
                const int64_t column = k / shape->k * 16 + i % 16, at = (k % shape->k + i / 16) * shape->n + column;
                const double scale = (double)panel[i % 16] * codes[i / 16 / shape->block * 16 + i % 16];

                if (column < shape->n)
                    weights->weights[at] += minima ? -scale : scale * plain[at];
            }
            panel += step;
        }
    }
    free(plain);
}

static void free_weights(struct weights *weights)
{
    free(weights->file);
    free(weights->weights);
    free(weights->packed);
    free(weights->scales);
    free(weights->zeros);
    free(weights->file_scales);
}

/* Activations with each block padded with zeros. */
static float *spread_rows(const nbits_shape *shape, const float *a, int64_t rows)
{
    const int64_t depth = nbits_depth(shape);
    float *out = calloc((size_t)(rows * depth), sizeof *out);

    assert_non_null(out);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < shape->k; k++)
            out[r * depth + k / shape->block * shape->padded + k % shape->block] = a[r * shape->k + k];
    return out;
}

enum { GUARD = 8 };

/* Multiplies a block of several panels, NBITS_PARTS parts at a time. */
static void multiply_block(const struct level *level, const nbits_tile *tile, nbits_mode mode)
{
    enum { COUNT = NBITS_PARTS * NBITS_BESIDE * NBITS_COLUMNS };
    const nbits_shape *shape = tile->shape;
    const int64_t scales = nbits_scale_count(shape) / shape->panels;
    const nbits_spread spread = { malloc(NBITS_BLOCK_BYTES), malloc(COUNT * sizeof(int32_t)),
                                  malloc(COUNT * sizeof(float)), malloc(COUNT * sizeof(float)) };

    assert_true(spread.weights && spread.starts && spread.scales && spread.zeros);
    for (int64_t first = 0; first < nbits_parts(shape); first += NBITS_PARTS) {
        const int64_t left = nbits_parts(shape) - first;
        nbits_weight_block block = { *tile, spread, first, left < NBITS_PARTS ? left : NBITS_PARTS };

        for (int i = 0; i < NBITS_BESIDE; i++) {
            const int64_t at = i * NBITS_COLUMNS < tile->columns ? i : 0;
            nbits_tile panel = *tile;

            panel.weights += nbits_weight_bytes(shape) / shape->panels * at;
            panel.scales += scales * at;
            panel.zeros = panel.zeros == NULL ? NULL : panel.zeros + scales * at;
            level->kernel->spread(&panel, mode, block.first, block.parts, i, &spread);
        }
        level->kernel->block(&block, mode);
    }
    free(spread.weights);
    free(spread.starts);
    free(spread.scales);
    free(spread.zeros);
}

/* tiles: used instead of tiles of the level; NULL: not. */
static void multiply_by(const struct level *level, const nbits_tiles *tiles, const struct weights *weights,
                        nbits_mode mode, bool blocks, const float *a, int64_t rows, float *c)
{
    const nbits_shape *shape = &weights->shape;
    const bool apart = blocks && level->kernel->block_rows;
    const int64_t beside = blocks ? NBITS_BESIDE : 1,
                  limbs_row = nbits_depth(&weights->shape) * (apart ? (int64_t)mode : 2);
    const int64_t depth = nbits_depth(shape), parts = nbits_parts(shape);
    const int64_t padded = (rows + NBITS_TILE_ROWS - 1) / NBITS_TILE_ROWS * NBITS_TILE_ROWS;
    float *spread = spread_rows(shape, a, rows), *factors = calloc((size_t)(padded * parts), sizeof *factors),
          *sums = calloc((size_t)(padded * parts), sizeof *sums);
    int32_t *starts = calloc((size_t)(padded * parts), sizeof *starts);
    int8_t *limbs = calloc((size_t)(padded * limbs_row), 1);

    assert_true(factors && sums && starts && limbs);
    for (int64_t r = 0; mode != NBITS_EXACT && level->kernel->has_limbs && r < rows; r++)
        assert_true(level->kernel->prepare(
            shape, mode, weights->zeros == NULL ? &weights->zero : NULL, spread + r * depth,
            &(nbits_row){ limbs + r * limbs_row, limbs_row / parts, factors + r * parts, sums + r * parts,
                          starts + r * parts, apart, (rows == 1 && !blocks) || tiles != NULL }));
    for (int64_t p = 0; p < shape->panels; p += beside) {
        const int64_t left = shape->n - p * NBITS_COLUMNS;
        nbits_tile tile = { .shape = shape,
                            .weights = weights->packed + nbits_weight_bytes(shape) / shape->panels * p,
                            .scales = weights->scales + nbits_scale_count(shape) / shape->panels * p,
                            .zeros = weights->zeros == NULL
                                         ? NULL
                                         : weights->zeros + nbits_scale_count(shape) / shape->panels * p,
                            .zero = weights->zero,
                            .rows = rows,
                            .single = rows == 1,
                            .a = spread,
                            .a_row = depth,
                            .limbs = limbs,
                            .limbs_row = limbs_row,
                            .limbs_part = limbs_row / parts,
                            .factors = factors,
                            .sums = sums,
                            .starts = starts,
                            .c = c + p * NBITS_COLUMNS,
                            .c_row = shape->n + GUARD,
                            .columns = left < beside * NBITS_COLUMNS ? left : beside * NBITS_COLUMNS };

        if (blocks)
            multiply_block(level, &tile, mode);
        else if (tiles != NULL)
            tiles->panel(&tile, mode);
        else
            level->kernel->tile[mode](&tile);
    }
    free(spread);
    free(factors);
    free(sums);
    free(starts);
    free(limbs);
}

static void multiply(const struct level *level, const struct weights *weights, nbits_mode mode, bool blocks,
                     const float *a, int64_t rows, float *c)
{
    multiply_by(level, NULL, weights, mode, blocks, a, rows, c);
}

/* A row of activations by the weights; the sizes of the terms, and of those of the largest activation of each part. */
struct sums {
    double want, size, lost;
};

/* tops: [k], the largest activation of the part; sums: [n] */
ORACLE static void sum_row(const struct weights *weights, const float *row, const float *tops, struct sums *sums)
{
    const nbits_shape *shape = &weights->shape;

    memset(sums, 0, (size_t)shape->n * sizeof *sums);
    for (int64_t k = 0; k < shape->k; k++)
        for (int64_t j = 0; j < shape->n; j++) {
            const double weight = weights->weights[k * shape->n + j];

            sums[j].want += (double)row[k] * weight;
            sums[j].size += fabs((double)row[k] * weight);
            sums[j].lost += (double)tops[k] * fabs(weight);
        }
}

/* The error of exact sums is that of float sums; the error of integers is half a quantization step of the largest
 * activation of each part. */
static void check(const struct level *level, const struct weights *weights, nbits_mode mode, bool blocks, int64_t rows)
{
    const nbits_shape *shape = &weights->shape;
    float *a = malloc((size_t)(rows * shape->k) * sizeof *a),
          *c = malloc((size_t)(rows * (shape->n + GUARD)) * sizeof *c), *tops = malloc((size_t)shape->k * sizeof *tops);
    struct sums *sums = malloc((size_t)shape->n * sizeof *sums);

    assert_true(a && c && tops && sums);
    for (int64_t i = 0; i < rows * shape->k; i++)
        a[i] = random_signed(&noise_state);
    a[shape->k / 2] = 100; /* increases the error of its part only */
    for (int64_t i = 0; i < rows * (shape->n + GUARD); i++)
        c[i] = 123;
    multiply(level, weights, mode, blocks, a, rows, c);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t begin = 0, end; begin < shape->k; begin = end) { /* a part, which ends with its block */
            float top = 0;

            end = begin + shape->part - begin % shape->block % shape->part;
            end = end < begin - begin % shape->block + shape->block ? end : begin - begin % shape->block + shape->block;
            end = end < shape->k ? end : shape->k;
            for (int64_t k = begin; k < end; k++)
                top = fmaxf(top, fabsf(a[r * shape->k + k]));
            for (int64_t k = begin; k < end; k++)
                tops[k] = top;
        }
        sum_row(weights, a + r * shape->k, tops, sums);
        for (int64_t j = 0; j < shape->n; j++) {
            const double steps = mode == NBITS_FINE ? 0.5001 / 32639 : mode == NBITS_BYTE ? 0.5001 / 127 : 0;
            const double got = c[r * (shape->n + GUARD) + j], bound = 2e-6 * sums[j].size + 1e-6 + sums[j].lost * steps;

            if (!(fabs(got - sums[j].want) <= bound))
                fail_msg(
                    "%s, %u bits, k %lld n %lld block %lld, mode %d, row %lld of %lld, column %lld: %.9g, not %.9g",
                    level->kernel->isa, shape->bits, (long long)shape->k, (long long)shape->n, (long long)shape->block,
                    (int)mode, (long long)r, (long long)rows, (long long)j, got, sums[j].want);
        }
        for (int64_t j = shape->n; j < shape->n + GUARD; j++)
            assert_true(c[r * (shape->n + GUARD) + j] == 123);
    }
    free(sums);
    free(a);
    free(c);
    free(tops);
}

/* The result of a row does not depend on the tile or block that it is part of. */
static void check_rows(const struct level *level, const struct weights *weights, nbits_mode mode)
{
    const int64_t row = weights->shape.n + GUARD, most = level->kernel->rows;
    float *a = malloc((size_t)(most * weights->shape.k) * sizeof *a), *c = calloc((size_t)(2 * most * row), sizeof *c),
          *single = c + most * row;

    assert_true(a && c);
    for (int64_t i = 0; i < most * weights->shape.k; i++)
        a[i] = random_signed(&noise_state);
    for (int64_t r = 0; r < most; r++)
        multiply(level, weights, mode, false, a + r * weights->shape.k, 1, single + r * row);
    for (int64_t rows = 2; rows <= most; rows++) {
        multiply(level, weights, mode, false, a, rows, c);
        assert_memory_equal(c, single, (size_t)(rows * row) * sizeof *c);
    }
    if (level->kernel->many > 0) {
        memset(c, 0, (size_t)(most * row) * sizeof *c);
        multiply(level, weights, mode, true, a, NBITS_FEW_ROWS, c);
        assert_memory_equal(c, single, (size_t)(NBITS_FEW_ROWS * row) * sizeof *c);
    }
    free(a);
    free(c);
}

#if defined(__x86_64__)
/* The results of nbits_tiles are those of the tiles of nbits_avx512_vnni. */
static void check_tiles(const struct level *level, const nbits_tiles *tiles, const struct weights *weights,
                        nbits_mode mode)
{
    const int64_t row = weights->shape.n + GUARD, rows = 1 + (int64_t)random_below(&noise_state, 20);
    float *a = malloc((size_t)(rows * weights->shape.k) * sizeof *a), *c = calloc((size_t)(2 * rows * row), sizeof *c);

    assert_true(a && c);
    for (int64_t i = 0; i < rows * weights->shape.k; i++)
        a[i] = random_signed(&noise_state);
    multiply_by(level, tiles, weights, mode, false, a, rows, c);
    for (int64_t r = 0; r < rows; r++)
        multiply(level, weights, mode, false, a + r * weights->shape.k, 1, c + (rows + r) * row);
    assert_memory_equal(c, c + rows * row, (size_t)(rows * row) * sizeof *c);
    free(a);
    free(c);
}
#endif

/* error: the largest of an element. */
static void check_unfold(const struct level *level, const struct weights *weights, double error)
{
    const nbits_shape *shape = &weights->shape;
    float *out = malloc((size_t)(shape->k * NBITS_COLUMNS) * sizeof *out);

    assert_non_null(out);
    for (int64_t p = 0; p < shape->panels; p++) {
        const nbits_tile tile = { .shape = shape,
                                  .weights = weights->packed + nbits_weight_bytes(shape) / shape->panels * p,
                                  .scales = weights->scales + nbits_scale_count(shape) / shape->panels * p,
                                  .zeros = weights->zeros == NULL
                                               ? NULL
                                               : weights->zeros + nbits_scale_count(shape) / shape->panels * p,
                                  .zero = weights->zero };

        level->kernel->unfold(&tile, out, NBITS_COLUMNS);
        for (int64_t k = 0; k < shape->k; k++)
            for (int64_t j = 0; j < NBITS_COLUMNS && p * NBITS_COLUMNS + j < shape->n; j++)
                assert_true(fabs(out[k * NBITS_COLUMNS + j] -
                                 (double)(float)weights->weights[k * shape->n + p * NBITS_COLUMNS + j]) <= error);
    }
    free(out);
}

/* Every kernel of every level. error: that of dequantized weights; is_long: with the fewest and the most rows alone. */
static void check_levels(const struct weights *weights, double error, bool is_long)
{
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        const struct level *level = &levels[i];
        const int64_t step = is_long ? level->kernel->rows - 1 : 1;

        if (!can_test(level) || (nbits_has_planes(weights->shape.bits) && !level->kernel->planes))
            continue;
        check_unfold(level, weights, error);
        for (int64_t rows = 1; rows <= level->kernel->rows; rows += step)
            for (int mode = rows <= NBITS_FEW_ROWS ? NBITS_EXACT : NBITS_BYTE; mode <= NBITS_FINE; mode++) {
                check(level, weights, (nbits_mode)mode, false, rows);
                if (level->kernel->many > 0 && mode != NBITS_EXACT && rows <= NBITS_FEW_ROWS)
                    check(level, weights, (nbits_mode)mode, true, rows);
            }
        for (int mode = NBITS_BYTE; level->kernel->has_limbs && mode <= NBITS_FINE; mode++)
            check_rows(level, weights, (nbits_mode)mode);
#if defined(__x86_64__)
        for (int mode = NBITS_BYTE; level->vnni && mode <= NBITS_FINE; mode++) {
            if (!is_long)
                check_tiles(level, &nbits_tiles_avx512_vnni, weights, (nbits_mode)mode);
            if (tile_problem() == NULL)
                check_tiles(level, &nbits_tiles_amx, weights, (nbits_mode)mode);
        }
#endif
    }
}

static void products(void **state)
{
    static const struct {
        int64_t k, n, block;
    } sizes[] = { { 1, 1, 0 },     { 64, 32, 32 },  { 70, 19, 32 }, { 48, 16, 16 },   { 37, 33, 0 },
                  { 130, 17, 64 }, { 100, 16, 24 }, { 96, 7, 128 }, { 4224, 16, 32 }, { 4160, 3, 0 } };

    (void)state;
    for (size_t b = 0; b < sizeof all_bits / sizeof *all_bits; b++)
        for (size_t z = 0; z < sizeof sizes / sizeof *sizes; z++)
            for (int kind = 0; kind < 9; kind++) {
                const bool is_long = sizes[z].k > 4000;
                struct weights weights;

                if ((is_long ? kind != 0 && kind != 7 : !random_takes(b + z + (uint64_t)kind)) ||
                    !nbits_shape_init(&weights.shape, all_bits[b], sizes[z].k, sizes[z].n, sizes[z].block))
                    continue;
                make_weights(&weights, all_bits[b], sizes[z].k, sizes[z].n, sizes[z].block, kind & 1, kind & 2,
                             kind >= 4, kind == 8 ? 0.25f : 0);
                check_levels(&weights, 0, is_long);
                free_weights(&weights);
            }
}

/* Scales and minima with joint factors, in each kernel. */
static void joint_scales(void **state)
{
    static const struct {
        int64_t k, n, block;
    } sizes[] = { { 256, 16, 32 }, { 512, 19, 16 }, { 512, 50, 32 }, { 1280, 33, 16 } };
    nbits_shape shape;

    (void)state;
    assert_true(nbits_shape_init(&shape, 4, 512, 16, 64) && !nbits_join_scales(&shape));
    assert_true(nbits_shape_init(&shape, 4, 384, 16, 32) && !nbits_join_scales(&shape));
    for (size_t b = 0; b < sizeof all_bits / sizeof *all_bits; b++)
        for (size_t z = 0; z < 2 * (sizeof sizes / sizeof *sizes); z++) {
            struct weights weights;

            if (!nbits_shape_init(&shape, all_bits[b], sizes[z / 2].k, sizes[z / 2].n, sizes[z / 2].block))
                continue;
            make_weights(&weights, all_bits[b], sizes[z / 2].k, sizes[z / 2].n, sizes[z / 2].block, true, z % 4 == 0,
                         z % 2 != 0, 0);
            join_scales(&weights);
            check_levels(&weights, 1e-4, false);
            free_weights(&weights);
        }
}

/* Both weights give the same bits, in rows of all layouts. Returns the number of products. */
static int check_same(const struct level *level, const struct weights *one, const struct weights *other, const float *a)
{
    const int64_t k = one->shape.k, n = one->shape.n, row = n + GUARD;
    float *c = calloc((size_t)(2 * NBITS_ROWS * row), sizeof *c), *out = malloc((size_t)k * 32 * sizeof *out);
    int tried = 0;

    assert_true(c && out);
    for (int64_t rows = 1; rows <= level->kernel->rows; rows++)
        for (int mode = 0; mode < 6; mode++) {
            const bool blocks = mode >= 3;

            if ((blocks && (level->kernel->many == 0 || mode == 3)) || (rows > NBITS_FEW_ROWS && (blocks || mode == 0)))
                continue;
            multiply(level, one, (nbits_mode)(mode % 3), blocks, a, rows, c);
            multiply(level, other, (nbits_mode)(mode % 3), blocks, a, rows, c + NBITS_ROWS * row);
            assert_memory_equal(c, c + NBITS_ROWS * row, (size_t)(rows * row) * sizeof *c);
            tried++;
        }
    for (int64_t p = 0; p < one->shape.panels; p++) {
        for (int i = 0; i < 2; i++) {
            const struct weights *weights = i == 0 ? one : other;
            const nbits_shape *shape = &weights->shape;
            const int64_t scales = nbits_scale_count(shape) / shape->panels * p;
            const nbits_tile tile = { .shape = shape,
                                      .weights = weights->packed + nbits_weight_bytes(shape) / shape->panels * p,
                                      .scales = weights->scales + scales,
                                      .zeros = weights->zeros == NULL ? NULL : weights->zeros + scales,
                                      .zero = weights->zero };

            level->kernel->unfold(&tile, out + i * k * NBITS_COLUMNS, NBITS_COLUMNS);
        }
        for (int64_t at = 0; at < k * NBITS_COLUMNS; at++)
            if (at % NBITS_COLUMNS < n - p * NBITS_COLUMNS) /* columns of padding are arbitrary */
                assert_memory_equal(out + at, out + k * NBITS_COLUMNS + at, sizeof *out);
    }
    free(c);
    free(out);
    return tried;
}

/* Indexes of a table and the weights that it has for them give the same bits, with every instruction set, with float4
 * as both and with other weights, and rows of all layouts. */
static void tables(void **state)
{
    static const struct {
        int64_t k, n, block;
        bool transposed;
    } sizes[] = { { 64, 32, 32, false }, { 64, 32, 32, true },   { 70, 19, 32, true },
                  { 37, 33, 0, false },  { 100, 16, 24, false }, { 4224, 16, 32, true } };
    static const uint8_t steps[16] = { 1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 255 };
    int tried = 0;

    (void)state;
    for (size_t i = 0; i < 2 * (sizeof sizes / sizeof *sizes); i++) {
        const int64_t k = sizes[i / 2].k, n = sizes[i / 2].n;
        const bool e2m1 = i % 2 != 0;
        struct weights coded, plain;
        float *a = malloc((size_t)(NBITS_ROWS * k) * sizeof *a);

        make_weights(&coded, 4, k, n, sizes[i / 2].block, sizes[i / 2].transposed, e2m1, false, 0);
        make_weights(&plain, 8, k, n, sizes[i / 2].block, sizes[i / 2].transposed, e2m1, false, 0);
        assert_non_null(a);
        coded.source.e2m1 = plain.source.e2m1 = e2m1;
        coded.shape.table = e2m1 ? nbits_e2m1 : steps;
        if (e2m1)
            plain.source.data = coded.file;
        for (int64_t at = 0; !e2m1 && at < k * n; at++)
            plain.file[at] = steps[nbits_element(coded.file, at, 4, false)];
        nbits_pack_weights(&coded.shape, &coded.source, 0, coded.shape.panels, coded.packed);
        nbits_pack_weights(&plain.shape, &plain.source, 0, plain.shape.panels, plain.packed);
        memcpy(plain.scales, coded.scales, (size_t)nbits_scale_count(&plain.shape) * sizeof *plain.scales);
        coded.zero = plain.zero = 128;
        for (int64_t at = 0; at < NBITS_ROWS * k; at++)
            a[at] = random_signed(&noise_state);
        for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
            const struct level *level = &levels[l];

            if (!level->kernel->tables || !can_test(level))
                continue;
            tried += check_same(level, &coded, &plain, a);
#if defined(__x86_64__)
            for (int mode = NBITS_BYTE; level->vnni && mode <= NBITS_FINE; mode++)
                check_tiles(level, &nbits_tiles_avx512_vnni, &coded, (nbits_mode)mode);
#endif
        }
        free(a);
        free_weights(&coded);
        free_weights(&plain);
    }
    if (nbits_kernel_best()->tables)
        assert_true(tried > 0);
}

/* Weights in two planes and the same in 8 bits give the same bits, with every instruction set. */
static void planes(void **state)
{
    static const struct {
        int64_t k, n, block;
    } sizes[] = { { 64, 32, 32 }, { 512, 19, 16 }, { 512, 50, 32 }, { 50, 33, 0 }, { 4224, 16, 32 } };
    int tried = 0;

    (void)state;
    for (size_t i = 0; i < 8 * (sizeof sizes / sizeof *sizes); i++) {
        const uint32_t bits = 5 + i % 2;
        const int64_t k = sizes[i / 8].k, n = sizes[i / 8].n, block = sizes[i / 8].block;
        const bool is_signed = i / 2 % 2 != 0, zeros = i / 4 % 2 != 0;
        struct weights split, plain;
        float *a = malloc((size_t)(NBITS_ROWS * k) * sizeof *a);

        assert_non_null(a);
        if (bits == 5 && block == 16) {
            assert_false(nbits_shape_init(&split.shape, bits, k, n, block));
            free(a);
            continue;
        }
        make_weights(&split, bits, k, n, block, i % 3 != 0, is_signed, zeros, 0.25f);
        make_weights(&plain, 8, k, n, block, i % 3 != 0, false, zeros, 0);
        for (int64_t at = 0; at < k * n; at++)
            plain.file[at] = (uint8_t)((split.file[at] & ((1 << bits) - 1)) ^ (is_signed ? 1 << (bits - 1) : 0));
        nbits_pack_weights(&plain.shape, &plain.source, 0, plain.shape.panels, plain.packed);
        if (k % NBITS_JOINED == 0) {
            join_scales(&split);
            assert_true(nbits_join_scales(&plain.shape));
        }
        memcpy(plain.scales, split.scales, (size_t)nbits_scale_count(&split.shape) * sizeof *split.scales);
        if (zeros)
            memcpy(plain.zeros, split.zeros, (size_t)nbits_scale_count(&split.shape) * sizeof *split.zeros);
        plain.zero = split.zero;
        for (int64_t at = 0; at < NBITS_ROWS * k; at++)
            a[at] = random_signed(&noise_state);
        for (size_t l = 0; l < sizeof levels / sizeof *levels; l++)
            if (levels[l].kernel->planes && can_test(&levels[l]))
                tried += check_same(&levels[l], &split, &plain, a);
        free(a);
        free_weights(&split);
        free_weights(&plain);
    }
    assert_true(tried > 0);
}

/* prepare() refuses activations that have no quantization factor. */
static void refusals(void **state)
{
    static const float bad[] = { INFINITY, -INFINITY, NAN, 1e-31f, 1e-44f };

    (void)state;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        const struct level *level = &levels[i];
        nbits_shape shape;
        float a[64], factors[2], sums[2];
        int8_t limbs[128];
        int32_t starts[2];
        const nbits_row row = { limbs, 64, factors, sums, starts, false, false };

        if (!can_test(level) || !level->kernel->has_limbs)
            continue;
        assert_true(nbits_shape_init(&shape, 4, 64, 16, 32));
        for (size_t b = 0; b < sizeof bad / sizeof *bad; b++)
            for (int at = 0; at < 64; at += 21) {
                memset(a, 0, sizeof a);
                assert_true(level->kernel->prepare(&shape, NBITS_FINE, NULL, a, &row));
                a[at] = bad[b];
                assert_false(level->kernel->prepare(&shape, NBITS_FINE, NULL, a, &row));
            }
    }
}

static void sizes(void **state)
{
    nbits_shape shape;

    (void)state;
    assert_false(nbits_shape_init(&shape, 3, 16, 16, 0));
    assert_false(nbits_shape_init(&shape, 4, 0, 16, 0));
    assert_false(nbits_shape_init(&shape, 4, INT64_MAX, 16, 0));
    assert_false(nbits_shape_init(&shape, 8, INT32_MAX, INT32_MAX, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products), cmocka_unit_test(joint_scales), cmocka_unit_test(tables),
        cmocka_unit_test(planes),   cmocka_unit_test(refusals),     cmocka_unit_test(sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
