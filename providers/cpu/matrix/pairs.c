/* Products in pairs (pairs.h): how B is packed, and the loops around the blocks. */
#include "matrix/pairs.h"
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

enum { DEPTH = 1024 /* of a panel, at most */, BLOCK_FLOATS = 96 * 1024, BLOCK_ROWS = 160, OWN_ROWS = 48 };

const pairs_set *pairs_of_cpu(void)
{
    return KERNEL_BEST(pairs);
}

/* ------------------------------------------------------------------ the pack */

static int64_t rounded(int64_t count, int64_t step)
{
    return (count + step - 1) / step * step;
}

/* k in parts of an even number of rows, but for the last. */
static int64_t part_count(int64_t k)
{
    return (k + DEPTH - 1) / DEPTH;
}

static int64_t part_begin(int64_t k, int64_t part)
{
    const int64_t parts = part_count(k);

    return part == parts ? k : k * part / parts / 2 * 2;
}

/* Where a part's first panel begins. */
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

/* `count` rows that lie weights->step apart, `columns` elements of each. */
static void read_run(const pairs_packed_weights *weights, const char *from, int64_t columns, int64_t width,
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

static void read_rows(const pairs_packed_weights *weights, int64_t first, int64_t columns, int64_t width, int64_t k0,
                      int64_t k1, float *out)
{
    if (columns < width)
        memset(out, 0, (size_t)((k1 - k0) * width) * sizeof *out);
    while (k0 < k1) {
        const int64_t count = weights->in - k0 % weights->in < k1 - k0 ? weights->in - k0 % weights->in : k1 - k0;
        int64_t place = k0 / weights->in, at = k0 % weights->in * weights->step + first * weights->column;

        for (int i = 2; i >= 0; i--) {
            at += place % weights->window[i] * weights->steps[i];
            place /= weights->window[i];
        }
        read_run(weights, (const char *)weights->data + at * (int64_t)sizeof(float), columns, width, count, out);
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

    for (int64_t u = begin; u < end; u++) {
        const int64_t part = u / panels, p = u % panels, width = panel_width(weights->n, p), first = p * PAIRS_WIDTH;
        const int64_t k0 = part_begin(weights->k, part), k1 = part_begin(weights->k, part + 1),
                      rows = rounded(k1 - k0, 2);
        float *panel = target + part_offset(weights->k, weights->n, part) + first * (PAIRS_HEAD + rows);

        read_rows(weights, first, weights->n - first < PAIRS_WIDTH ? weights->n - first : PAIRS_WIDTH, width, k0, k1,
                  panel + PAIRS_HEAD * width);
        if (rows > k1 - k0)
            memset(panel + (PAIRS_HEAD + rows - 1) * width, 0, (size_t)width * sizeof *panel);
        KERNEL_BEST(pairs)->make_head(panel, rows, k1 - k0, width);
    }
}

/* ------------------------------------------------------------------ the run */

static int64_t panels_of(const sgemm_job *job)
{
    return (job->n + PAIRS_WIDTH - 1) / PAIRS_WIDTH;
}

/* Elements of a prepared row: those of neighbours must not all fall into the same set of the cache. */
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
    if (threads > 1 && job->m / threads >= OWN_ROWS)
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

/* A worker has a piece of scratch for each part of k: which block of rows is prepared there (a line of cache), what the
 * rows were made by, and the rows. */
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
    /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): no floats, but what mark() left */
    return memcmp(piece, &block, sizeof block) == 0;
}

void pairs_start(const sgemm_job *job, float *scratch, uint32_t workers)
{
    for (int64_t p = 0; p < part_count(job->k) * workers; p++)
        mark(scratch + p * rounded(piece_floats(job), SGEMM_LANES), -1);
}

/* What is done with a product while its block is in registers, and what is left of the job's posts. */
struct ending {
    const float *bias, *add;
    int64_t add_row;
    bool clamp;
    float low, high;
    uint32_t posts; /* the first that is left */
};

static void find_ending(const sgemm_job *job, struct ending *ending)
{
    const sgemm_post *post = job->posts;
    uint32_t n = 0;

    *ending = (struct ending){ .bias = job->bias, .add = job->add ? job->c : NULL, .add_row = job->c_row };
    if (n < job->post_count && post[n].fn == SGEMM_ADD && post[n].col == 1 && post[n].row == 0 && ending->bias == NULL)
        ending->bias = post[n++].other;
    if (n < job->post_count && post[n].fn == SGEMM_ADD && post[n].col == 1 && post[n].row > 0 && ending->add == NULL) {
        ending->add = post[n].other;
        ending->add_row = post[n++].row;
    }
    if (n < job->post_count && (post[n].fn == SGEMM_CLIP || (post[n].fn == SGEMM_RELU && post[n].alpha == 0))) {
        ending->clamp = true;
        ending->low = post[n].fn == SGEMM_CLIP ? post[n].alpha : 0;
        ending->high = post[n].fn == SGEMM_CLIP ? post[n].beta : INFINITY;
        n++;
    }
    ending->posts = n;
}

struct block {
    const sgemm_job *job;
    const pairs_set *set;
    const struct ending *end;
    const float *a; /* prepared */
    const pairs_row *facts;
    int64_t first, count; /* rows */
    int64_t k0, k1;
};

/* A tile some of which the kernel can't do. */
static void write_out(const struct block *d, int64_t row, int64_t rows, const pairs_tile *tile, int64_t width,
                      int64_t columns)
{
    float sum[PAIRS_WIDTH];

    for (int64_t r = 0; r < rows; r++) {
        float *c = tile->c + r * tile->c_row;

        KERNEL_BEST(pairs)->as_written(d->job->a + (d->first + row + r) * d->job->a_row + d->k0, d->k1 - d->k0, tile->b,
                                       width, sum);
        for (int64_t j = 0; j < columns; j++) {
            float x = sum[j] + (tile->bias != NULL ? tile->bias[j] : 0) +
                      (tile->add != NULL ? tile->add[r * tile->add_row + j] : 0);

            if (tile->clamp)
                x = x < tile->low ? tile->low : x > tile->high ? tile->high : x;
            c[j] = x;
        }
    }
}

static bool all_fine(const pairs_row *rows, int64_t count)
{
    bool fine = true;

    for (int64_t row = 0; row < count; row++)
        fine = fine && rows[row].fine != 0;
    return fine;
}

/* The rows of a block by panel j. next: what is read after it. */
static void run_panel(const struct block *d, int64_t j, const float *panel, const float *next)
{
    const sgemm_job *job = d->job;
    const struct ending *ending = d->end;
    const int64_t at = j * PAIRS_WIDTH, width = panel_width(job->n, j);
    const int64_t columns = job->n - at < width ? job->n - at : width;
    const int64_t vectors = width / SGEMM_LANES, tiles = (d->count + d->set->rows[vectors] - 1) / d->set->rows[vectors];
    const int64_t pairs = rounded(d->k1 - d->k0, 2) / 2;
    /* Elements a pair that each tile fetches of what comes next: evenly, for memory gives no more at a time. */
    const int64_t share = ((2 * pairs + PAIRS_HEAD) * PAIRS_WIDTH + tiles * pairs - 1) / (tiles * pairs);
    const bool onto = d->k0 > 0, fine = panel[3 * width] != 0;
    pairs_tile tile = { .k = 2 * pairs,
                        .width = width,
                        .a_row = prepared_row(job->k),
                        .b = panel,
                        .c_row = job->c_row,
                        .lines = share > SGEMM_LANES ? 2 : 1,
                        .ahead_step = share,
                        .bias = !onto && ending->bias != NULL ? ending->bias + at : NULL,
                        .add_row = onto ? job->c_row : ending->add_row,
                        .clamp = ending->clamp && d->k1 == job->k,
                        .low = ending->low,
                        .high = ending->high,
                        .last = (uint32_t)(columns - (vectors - 1) * SGEMM_LANES) };

    for (int64_t n = 0; n < tiles; n++) {
        const int64_t i = d->count * n / tiles, rows = d->count * (n + 1) / tiles - i;

        tile.a = d->a + i * tile.a_row;
        tile.rows = d->facts + i;
        tile.c = job->c + (d->first + i) * job->c_row + at;
        tile.add = onto ? tile.c : ending->add != NULL ? ending->add + (d->first + i) * ending->add_row + at : NULL;
        tile.ahead = next + n * pairs * share;
        if (fine && all_fine(tile.rows, rows))
            d->set->tile[vectors - 1][rows - 1](&tile);
        else
            write_out(d, i, rows, &tile, width, columns);
        for (uint32_t post_index = ending->posts; post_index < job->post_count && d->k1 == job->k; post_index++) {
            sgemm_post post = job->posts[post_index];

            if (post.other != NULL)
                post.other += (d->first + i) * post.row + at * post.col;
            job->kernel->post(&post, tile.c, job->c_row, rows, columns);
        }
    }
}

static const float *panel_of(const sgemm_job *job, int64_t part, int64_t j)
{
    const int64_t rows = part_begin(job->k, part + 1) - part_begin(job->k, part);

    return job->b + part_offset(job->k, job->n, part) + j * PAIRS_WIDTH * (PAIRS_HEAD + rounded(rows, 2));
}

/* What is read after panel j of a part, of [j0, j1) in all parts: at the end what another range begins with, which
 * mostly falls to the same core. */
static const float *panel_after(const sgemm_job *job, int64_t part, int64_t j, int64_t j0, int64_t j1)
{
    if (j + 1 < j1)
        return panel_of(job, part, j + 1);
    if (part + 1 < part_count(job->k))
        return panel_of(job, part + 1, j0);
    return panel_of(job, 0, j1 < panels_of(job) ? j1 : 0);
}

/* Part number `part` of k, for block number `at` of the rows and panels [j0, j1). */
static void run_part(const sgemm_job *job, const struct ending *ending, float *scratch, int64_t at, int64_t part,
                     int64_t j0, int64_t j1)
{
    const int64_t k0 = part_begin(job->k, part), k1 = part_begin(job->k, part + 1), blocks = row_blocks(job);
    float *piece = scratch + part * rounded(piece_floats(job), SGEMM_LANES);
    float *a = piece + SGEMM_LANES + block_rows(job) * (int64_t)(sizeof(pairs_row) / sizeof(float));
    pairs_row *facts = (pairs_row *)(void *)(piece + SGEMM_LANES);
    struct block block = { .job = job,
                           .set = pairs_of_cpu(),
                           .end = ending,
                           .a = a,
                           .facts = facts,
                           .first = job->m * at / blocks,
                           .k0 = k0,
                           .k1 = k1 };

    block.count = job->m * (at + 1) / blocks - block.first;
    if (!is_marked(piece, at)) {
        block.set->prepare(job->a + block.first * job->a_row + k0, job->a_row, block.count, k1 - k0, a,
                           prepared_row(job->k), facts);
        mark(piece, at);
    }
    for (int64_t j = j0; j < j1; j++)
        run_panel(&block, j, panel_of(job, part, j), panel_after(job, part, j, j0, j1));
}

void pairs_run(const sgemm_job *job, float *scratch, int64_t begin, int64_t end)
{
    const int64_t panels = panels_of(job);
    struct ending ending;

    find_ending(job, &ending);
    while (begin < end) {
        const int64_t j0 = begin % panels, j1 = end - begin < panels - j0 ? j0 + (end - begin) : panels;

        for (int64_t p = 0; p < part_count(job->k); p++)
            run_part(job, &ending, scratch, begin / panels, p, j0, j1);
        begin += j1 - j0;
    }
}

/* ------------------------------------------------------------------ whether it pays */

struct trial {
    sgemm_job written, paired;
    float *scratch;
};

static double seconds_of(const struct trial *trial, bool paired)
{
    const uint64_t begin = clock_ns();

    if (paired)
        pairs_run(&trial->paired, trial->scratch, 0, pairs_units(&trial->paired));
    else
        sgemm_run(&trial->written, 0, sgemm_units(&trial->written));
    return 1e-9 * (double)(clock_ns() - begin);
}

/* One panel by a few blocks of rows, in the cache: the shortest of some turns of both. CPUs with units that add beside
 * those that multiply are faster in pairs by a fifth, others slower. */
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
        struct trial trial = { .written = job, .paired = job, .scratch = packed + pack };

        for (int64_t i = 0; i < FLOATS; i++)
            all[i] = (float)(i % 17 - 8) / 16;
        pairs_pack(&weights, packed, 0, pairs_pack_units(&weights));
        trial.written.a = trial.paired.a = all;
        trial.written.c = trial.paired.c = c;
        trial.written.b = b;
        trial.paired.b = packed;
        pairs_start(&job, trial.scratch, 1);
        for (int turn = 0; turn < TURNS; turn++)
            for (int paired = 0; paired < 2; paired++) {
                const double now = seconds_of(&trial, paired != 0);

                least[paired] = now < least[paired] ? now : least[paired];
            }
        fast = least[1] * 1.05 < least[0];
    }
    free(all);
    return fast;
}

static bool gains;

static void ask(void)
{
    gains = pairs_of_cpu() != NULL && sgemm_kernel_best() != NULL && measure_gain();
}

bool pairs_are_fast(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, ask);
    return gains;
}
