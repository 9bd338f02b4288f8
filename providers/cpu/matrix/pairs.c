/* Winograd's inner product (pairs.h): packing of B, and the loops around the tiles. */
#include "matrix/pairs.h"
#include "inlay/check.h"
#include "simd/clock.h"
#include "simd/optional.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_IF_CALLED(pairs_block_rows);
OPTIONAL_IF_CALLED(pairs_pack);
OPTIONAL_IF_CALLED(pairs_pack_floats);
OPTIONAL_IF_CALLED(pairs_pack_units);
OPTIONAL_IF_CALLED(pairs_run);
OPTIONAL_IF_CALLED(pairs_scratch_floats);
OPTIONAL_IF_CALLED(pairs_share);
OPTIONAL_IF_CALLED(pairs_start);
OPTIONAL_IF_CALLED(pairs_units);

enum { MAX_DEPTH = 1024 /* of a panel */, BLOCK_FLOATS = 96 * 1024, BLOCK_ROWS = 160, MIN_THREAD_ROWS = 48 };

const pairs_set *pairs_of_cpu(void)
{
    return KERNEL_BEST(pairs);
}

/* ------------------------------------------------------------------ packing */

static int64_t rounded(int64_t count, int64_t step)
{
    return (count + step - 1) / step * step;
}

/* Parts of k; all but the last have an even number of rows. */
static int64_t part_count(int64_t k)
{
    return (k + MAX_DEPTH - 1) / MAX_DEPTH;
}

static int64_t part_begin(int64_t k, int64_t part)
{
    const int64_t parts = part_count(k);

    return part == parts ? k : k * part / parts / 2 * 2;
}

/* Offset of a part's first panel. */
static int64_t part_offset(int64_t k, int64_t n, int64_t part)
{
    return (rounded(part_begin(k, part), 2) + part * PAIRS_HEAD) * rounded(n, SGEMM_LANES);
}

static int64_t panel_width(int64_t n, int64_t panel)
{
    const int64_t rest = n - panel * PAIRS_WIDTH;

    return rest < PAIRS_WIDTH ? rounded(rest, SGEMM_LANES) : PAIRS_WIDTH;
}

int64_t pairs_pack_floats(int64_t k, int64_t n)
{
    return part_offset(k, n, part_count(k));
}

enum { SQUARE = 16 };

/* Copies `count` rows that are weights->step apart, `columns` elements of each. */
static void copy_run(const pairs_packed_weights *weights, const char *from, int64_t columns, int64_t width,
                     int64_t count, float *out)
{
    const int64_t column = weights->column * (int64_t)sizeof(float), step = weights->step * (int64_t)sizeof(float);

    for (int64_t k = 0; weights->column == 1 && k < count; k++)
        memcpy(out + k * width, from + k * step, (size_t)columns * sizeof *out);
    for (int64_t k0 = 0; weights->column != 1 && k0 < count; k0 += SQUARE) {
        const int64_t k1 = count - k0 < SQUARE ? count : k0 + SQUARE;

        for (int64_t j = 0; j < columns; j++)
            for (int64_t k = k0; k < k1; k++)
                memcpy(&out[k * width + j], from + j * column + k * step, sizeof *out);
    }
}

static void copy_rows(const pairs_packed_weights *weights, int64_t first, int64_t columns, int64_t width, int64_t k0,
                      int64_t k1, float *out)
{
    if (columns < width)
        memset(out, 0, (size_t)((k1 - k0) * width) * sizeof *out);
    while (k0 < k1) {
        const int64_t count = weights->in - k0 % weights->in < k1 - k0 ? weights->in - k0 % weights->in : k1 - k0;
        int64_t position = k0 / weights->in, offset = k0 % weights->in * weights->step + first * weights->column;

        for (int i = 2; i >= 0; i--) {
            offset += position % weights->window[i] * weights->steps[i];
            position /= weights->window[i];
        }
        copy_run(weights, (const char *)weights->data + offset * (int64_t)sizeof(float), columns, width, count, out);
        out += count * width;
        k0 += count;
    }
}

/* Units: panels of a part. */
int64_t pairs_pack_units(const pairs_packed_weights *weights)
{
    return part_count(weights->k) * ((weights->n + PAIRS_WIDTH - 1) / PAIRS_WIDTH);
}

void pairs_pack(const pairs_packed_weights *weights, float *target, int64_t begin, int64_t end)
{
    const int64_t panels = (weights->n + PAIRS_WIDTH - 1) / PAIRS_WIDTH;

    INLAY_CHECK(begin >= 0 && end <= pairs_pack_units(weights) && (begin >= end || weights->in > 0));
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t part = unit / panels, panel_index = unit % panels, width = panel_width(weights->n, panel_index),
                      first = panel_index * PAIRS_WIDTH;
        const int64_t k0 = part_begin(weights->k, part), k1 = part_begin(weights->k, part + 1),
                      rows = rounded(k1 - k0, 2);
        float *panel = target + part_offset(weights->k, weights->n, part) + first * (PAIRS_HEAD + rows);

        copy_rows(weights, first, weights->n - first < PAIRS_WIDTH ? weights->n - first : PAIRS_WIDTH, width, k0, k1,
                  panel + PAIRS_HEAD * width);
        if (rows > k1 - k0)
            memset(panel + (PAIRS_HEAD + rows - 1) * width, 0, (size_t)width * sizeof *panel);
        KERNEL_BEST(pairs)->make_head(panel, rows, k1 - k0, width);
    }
}

/* ------------------------------------------------------------------ execution */

static int64_t panels_of(const sgemm_job *job)
{
    return (job->n + PAIRS_WIDTH - 1) / PAIRS_WIDTH;
}

/* Elements of a prepared row: padded so that neighbouring rows do not map to the same set of the cache. */
static int64_t prepared_row(int64_t k)
{
    const int64_t most = (k + part_count(k) - 1) / part_count(k) + 2;

    return rounded(most, 2 * SGEMM_LANES) + SGEMM_LANES;
}

int64_t pairs_block_rows(int64_t k)
{
    const int64_t fit = BLOCK_FLOATS / prepared_row(k);

    return fit < BLOCK_ROWS ? fit : BLOCK_ROWS;
}

static int64_t row_blocks(const sgemm_job *job)
{
    const int64_t most = pairs_block_rows(job->k), least = (job->m + most - 1) / most;

    return least > job->blocks ? least : job->blocks;
}

void pairs_share(sgemm_job *job, uint32_t threads)
{
    if (threads > 1 && job->m / threads >= MIN_THREAD_ROWS)
        job->blocks = rounded(row_blocks(job), threads);
}

static int64_t block_rows(const sgemm_job *job)
{
    return (job->m + row_blocks(job) - 1) / row_blocks(job);
}

int64_t pairs_units(const sgemm_job *job)
{
    return row_blocks(job) * panels_of(job);
}

/* A worker has a piece of scratch for each part of k: the index of the row block that is prepared there (a cache
 * line), the preparation data of its rows, and the rows. */
static int64_t piece_floats(const sgemm_job *job)
{
    return SGEMM_LANES + block_rows(job) * (prepared_row(job->k) + (int64_t)(sizeof(pairs_row) / sizeof(float)));
}

int64_t pairs_scratch_floats(const sgemm_job *job)
{
    return part_count(job->k) * rounded(piece_floats(job), SGEMM_LANES);
}

static void mark(float *piece, int64_t block)
{
    memcpy(piece, &block, sizeof block);
}

static bool is_marked(const float *piece, int64_t block)
{
    /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): bytes that mark() wrote, not floats */
    return memcmp(piece, &block, sizeof block) == 0;
}

void pairs_start(const sgemm_job *job, float *scratch, uint32_t workers)
{
    for (int64_t piece = 0; piece < part_count(job->k) * workers; piece++)
        mark(scratch + piece * rounded(piece_floats(job), SGEMM_LANES), -1);
}

/* The part of the epilogue that tiles apply in registers, and the first post-op that remains. */
struct epilogue {
    const float *bias, *add;
    int64_t add_row;
    bool clamp;
    float low, high;
    uint32_t posts; /* index of the first remaining post-op */
};

static void find_epilogue(const sgemm_job *job, struct epilogue *epilogue)
{
    const sgemm_post *post = job->posts;
    uint32_t next = 0;

    *epilogue = (struct epilogue){ .bias = job->bias, .add = job->add ? job->c : NULL, .add_row = job->c_row };
    if (next < job->post_count && post[next].fn == SGEMM_ADD && post[next].col == 1 && post[next].row == 0 &&
        epilogue->bias == NULL)
        epilogue->bias = post[next++].other;
    if (next < job->post_count && post[next].fn == SGEMM_ADD && post[next].col == 1 && post[next].row > 0 &&
        epilogue->add == NULL) {
        epilogue->add = post[next].other;
        epilogue->add_row = post[next++].row;
    }
    if (next < job->post_count &&
        (post[next].fn == SGEMM_CLIP || (post[next].fn == SGEMM_RELU && post[next].alpha == 0))) {
        epilogue->clamp = true;
        epilogue->low = post[next].fn == SGEMM_CLIP ? post[next].alpha : 0;
        epilogue->high = post[next].fn == SGEMM_CLIP ? post[next].beta : INFINITY;
        next++;
    }
    epilogue->posts = next;
}

struct block {
    const sgemm_job *job;
    const pairs_set *set;
    const struct epilogue *end;
    const float *a; /* prepared rows */
    const pairs_row *row_data;
    int64_t first, count; /* rows */
    int64_t k0, k1;
};

/* Computes a tile directly, without pairs. */
static void multiply_directly(const struct block *block, int64_t row, int64_t rows, const pairs_tile *tile,
                              int64_t width, int64_t columns)
{
    float sum[PAIRS_WIDTH];

    for (int64_t r = 0; r < rows; r++) {
        float *c = tile->c + r * tile->c_row;

        KERNEL_BEST(pairs)->multiply_direct(block->job->a + (block->first + row + r) * block->job->a_row + block->k0,
                                            block->k1 - block->k0, tile->b, width, sum);
        for (int64_t j = 0; j < columns; j++) {
            float value = sum[j] + (tile->bias != NULL ? tile->bias[j] : 0) +
                          (tile->add != NULL ? tile->add[r * tile->add_row + j] : 0);

            if (tile->clamp)
                value = value < tile->low ? tile->low : value > tile->high ? tile->high : value;
            c[j] = value;
        }
    }
}

static bool all_paired(const pairs_row *rows, int64_t count)
{
    bool paired = true;

    for (int64_t row = 0; row < count; row++)
        paired = paired && rows[row].paired != 0;
    return paired;
}

/* Multiplies the rows of a block with panel j. next: the data that is read after it. */
static void run_panel(const struct block *block, int64_t j, const float *panel, const float *next)
{
    const sgemm_job *job = block->job;
    const struct epilogue *epilogue = block->end;
    const int64_t at = j * PAIRS_WIDTH, width = panel_width(job->n, j);
    const int64_t columns = job->n - at < width ? job->n - at : width;
    const int64_t vectors = width / SGEMM_LANES,
                  tiles = (block->count + block->set->rows[vectors] - 1) / block->set->rows[vectors];
    const int64_t pair_count = rounded(block->k1 - block->k0, 2) / 2;
    /* Elements that each tile prefetches for one pair: an even share, because memory bandwidth is limited. */
    const int64_t share = ((2 * pair_count + PAIRS_HEAD) * PAIRS_WIDTH + tiles * pair_count - 1) / (tiles * pair_count);
    const bool accumulate = block->k0 > 0, paired = panel[3 * width] != 0;
    pairs_tile tile = { .k = 2 * pair_count,
                        .width = width,
                        .a_row = prepared_row(job->k),
                        .b = panel,
                        .c_row = job->c_row,
                        .lines = share > SGEMM_LANES ? 2 : 1,
                        .ahead_step = share,
                        .bias = !accumulate && epilogue->bias != NULL ? epilogue->bias + at : NULL,
                        .add_row = accumulate ? job->c_row : epilogue->add_row,
                        .clamp = epilogue->clamp && block->k1 == job->k,
                        .low = epilogue->low,
                        .high = epilogue->high,
                        .last = (uint32_t)(columns - (vectors - 1) * SGEMM_LANES) };

    for (int64_t tile_index = 0; tile_index < tiles; tile_index++) {
        const int64_t i = block->count * tile_index / tiles, rows = block->count * (tile_index + 1) / tiles - i;

        tile.a = block->a + i * tile.a_row;
        tile.rows = block->row_data + i;
        tile.c = job->c + (block->first + i) * job->c_row + at;
        tile.add = accumulate              ? tile.c
                   : epilogue->add != NULL ? epilogue->add + (block->first + i) * epilogue->add_row + at
                                           : NULL;
        tile.ahead = next + tile_index * pair_count * share;
        if (paired && all_paired(tile.rows, rows))
            block->set->tile[vectors - 1][rows - 1](&tile);
        else
            multiply_directly(block, i, rows, &tile, width, columns);
        for (uint32_t post_index = epilogue->posts; post_index < job->post_count && block->k1 == job->k; post_index++) {
            sgemm_post post = job->posts[post_index];

            if (post.other != NULL)
                post.other += (block->first + i) * post.row + at * post.col;
            job->kernel->post(&post, tile.c, job->c_row, rows, columns);
        }
    }
}

static const float *panel_of(const sgemm_job *job, int64_t part, int64_t j)
{
    const int64_t rows = part_begin(job->k, part + 1) - part_begin(job->k, part);

    return job->b + part_offset(job->k, job->n, part) + j * PAIRS_WIDTH * (PAIRS_HEAD + rounded(rows, 2));
}

/* The data that is read after panel j of a part, within panels [j0, j1) of all parts. At the end: the start of the
 * next range, which mostly runs on the same core. */
static const float *panel_after(const sgemm_job *job, int64_t part, int64_t j, int64_t j0, int64_t j1)
{
    if (j + 1 < j1)
        return panel_of(job, part, j + 1);
    if (part + 1 < part_count(job->k))
        return panel_of(job, part + 1, j0);
    return panel_of(job, 0, j1 < panels_of(job) ? j1 : 0);
}

/* Multiplies part `part` of k for row block `at` and panels [j0, j1). */
static void run_part(const sgemm_job *job, const struct epilogue *epilogue, float *scratch, int64_t at, int64_t part,
                     int64_t j0, int64_t j1)
{
    const int64_t k0 = part_begin(job->k, part), k1 = part_begin(job->k, part + 1), blocks = row_blocks(job);
    float *piece = scratch + part * rounded(piece_floats(job), SGEMM_LANES);
    float *rows = piece + SGEMM_LANES + block_rows(job) * (int64_t)(sizeof(pairs_row) / sizeof(float));
    pairs_row *row_data = (pairs_row *)(void *)(piece + SGEMM_LANES);
    struct block block = { .job = job,
                           .set = pairs_of_cpu(),
                           .end = epilogue,
                           .a = rows,
                           .row_data = row_data,
                           .first = job->m * at / blocks,
                           .k0 = k0,
                           .k1 = k1 };

    block.count = job->m * (at + 1) / blocks - block.first;
    if (!is_marked(piece, at)) {
        block.set->prepare(job->a + block.first * job->a_row + k0, job->a_row, block.count, k1 - k0, rows,
                           prepared_row(job->k), row_data);
        mark(piece, at);
    }
    for (int64_t j = j0; j < j1; j++)
        run_panel(&block, j, panel_of(job, part, j), panel_after(job, part, j, j0, j1));
}

void pairs_run(const sgemm_job *job, float *scratch, int64_t begin, int64_t end)
{
    const int64_t panels = panels_of(job);
    struct epilogue epilogue;
    INLAY_CHECK(begin >= 0 && end <= pairs_units(job));

    find_epilogue(job, &epilogue);
    while (begin < end) {
        const int64_t j0 = begin % panels, j1 = end - begin < panels - j0 ? j0 + (end - begin) : panels;

        for (int64_t part = 0; part < part_count(job->k); part++)
            run_part(job, &epilogue, scratch, begin / panels, part, j0, j1);
        begin += j1 - j0;
    }
}

/* ------------------------------------------------------------------ measurement */

struct comparison {
    sgemm_job direct, paired;
    float *scratch;
};

static double seconds_of(const struct comparison *comparison, bool paired)
{
    const uint64_t begin = clock_ns();

    if (paired)
        pairs_run(&comparison->paired, comparison->scratch, 0, pairs_units(&comparison->paired));
    else
        sgemm_run(&comparison->direct, 0, sgemm_units(&comparison->direct));
    return 1e-9 * (double)(clock_ns() - begin);
}

/* Multiplies one panel with a few blocks of rows, in the cache; compares the shortest of several interleaved runs of
 * both kernels. Pairs are faster by a fifth on CPUs with separate units for additions, and slower on others. */
static bool measure_gain(void)
{
    enum { M = 70, K = 256, FLOATS = (M + PAIRS_WIDTH) * K + M * PAIRS_WIDTH, TURNS = 9 };
    const int64_t pack = pairs_pack_floats(K, PAIRS_WIDTH);
    sgemm_job job = { .kernel = sgemm_kernel_best(),
                      .m = M,
                      .n = PAIRS_WIDTH,
                      .k = K,
                      .a_row = K,
                      .width = PAIRS_WIDTH,
                      .b_step = PAIRS_WIDTH,
                      .c_row = PAIRS_WIDTH };
    const int64_t scratch = pairs_scratch_floats(&job);
    double least[2] = { 1, 1 };
    bool fast = false;
    float *all = malloc((size_t)(FLOATS + pack + scratch) * sizeof *all);

    if (all != NULL) {
        float *b = all + M * K, *c = b + K * PAIRS_WIDTH, *packed = c + M * PAIRS_WIDTH;
        const pairs_packed_weights weights = {
            .data = b, .n = PAIRS_WIDTH, .k = K, .column = 1, .in = K, .step = PAIRS_WIDTH, .window = { 1, 1, 1 }
        };
        struct comparison comparison = { .direct = job, .paired = job, .scratch = packed + pack };

        for (int64_t i = 0; i < FLOATS; i++)
            all[i] = (float)(i % 17 - 8) / 16;
        pairs_pack(&weights, packed, 0, pairs_pack_units(&weights));
        comparison.direct.a = comparison.paired.a = all;
        comparison.direct.c = comparison.paired.c = c;
        comparison.direct.b = b;
        comparison.paired.b = packed;
        pairs_start(&job, comparison.scratch, 1);
        for (int turn = 0; turn < TURNS; turn++)
            for (int paired = 0; paired < 2; paired++) {
                const double now = seconds_of(&comparison, paired != 0);

                least[paired] = now < least[paired] ? now : least[paired];
            }
        fast = least[1] * 1.05 < least[0];
    }
    free(all);
    return fast;
}

static bool pairs_gain;

static void measure_once(void)
{
    pairs_gain = pairs_of_cpu() != NULL && sgemm_kernel_best() != NULL && measure_gain();
}

bool pairs_are_fast(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, measure_once);
    return pairs_gain;
}
