/* The parts of sparse products that need no vectors: the pack, and how a product is cut. */
#include "sparse/fours.h"
#include <string.h>

enum {
    SAMPLE = SP_SAMPLE,
    GROUP = SG_WIDTH / SP_WIDTH /* panels whose columns are finished together */,
    CHUNKS = 4,
    DEPTH = 1024 /* of k at a time: so many turned rows stay in the second-level cache */
};
#define LEAST_ZEROS SP_LEAST_ZEROS

const sp_set *sparse_of_cpu(void)
{
    return KERNEL_BEST(sparse);
}

static bool is_zero(const sp_weights *w, int64_t k, int64_t panel)
{
    const int64_t end = (panel + 1) * SP_WIDTH < w->n ? (panel + 1) * SP_WIDTH : w->n;

    for (int64_t j = panel * SP_WIDTH; j < end; j++)
        if (sp_element(w, k, j) != 0)
            return false;
    return true;
}

double sparse_share(const sp_weights *w)
{
    const int64_t panels = sp_panels(w->n), blocks = w->k * panels;
    int64_t zeros = 0;

    if (blocks < SAMPLE)
        return 1;
    for (int64_t i = 0; i < SAMPLE; i++) { /* spread by a step that falls on all rows and panels */
        const int64_t at = (int64_t)((double)blocks * (double)i / SAMPLE) + i % (blocks / SAMPLE);

        zeros += is_zero(w, at / panels, at % panels);
    }
    return zeros < LEAST_ZEROS * SAMPLE ? 1 : 1 - (double)zeros / SAMPLE;
}

int64_t sparse_count(const sp_weights *w, double most)
{
    const int64_t panels = sp_panels(w->n);
    int64_t count = 0;

    if (sparse_share(w) > most)
        return -1;
    for (int64_t k = 0; k < w->k; k++)
        for (int64_t panel = 0; panel < panels; panel++)
            count += !is_zero(w, k, panel);
    return count;
}

/* Where the blocks begin: behind where each panel's begin, and the list, on a line of the cache. */
int64_t sparse_blocks_at(int64_t n, int64_t count)
{
    return (sp_panels(n) + 1 + count + SP_WIDTH - 1) / SP_WIDTH * SP_WIDTH;
}

int64_t sparse_pack_floats(const sp_weights *w, int64_t count)
{
    return sparse_blocks_at(w->n, count) + count * SP_WIDTH + SP_AHEAD;
}

bool sparse_pack(const sp_weights *w, int64_t count, float *target)
{
    const int64_t panels = sp_panels(w->n);
    uint32_t *begins = (uint32_t *)(void *)target, *index = begins + panels + 1;
    float *to = target + sparse_blocks_at(w->n, count);
    int64_t at = 0;

    memset(target, 0, (size_t)sparse_pack_floats(w, count) * sizeof *target);
    for (int64_t panel = 0; panel < panels; panel++) {
        begins[panel] = (uint32_t)at;
        for (int64_t k = 0; k < w->k; k++) {
            if (is_zero(w, k, panel))
                continue;
            if (at == count)
                return false;
            index[at++] = (uint32_t)k;
            for (int64_t j = 0; j < SP_WIDTH && panel * SP_WIDTH + j < w->n; j++)
                to[j] = sp_element(w, k, panel * SP_WIDTH + j);
            to += SP_WIDTH;
        }
    }
    begins[panels] = (uint32_t)at;
    return at == count;
}

/* ------------------------------------------------------------------ a product */

static int64_t row_blocks(const sg_job *job)
{
    const int64_t rows = job->m == 1 ? 1 : sparse_of_cpu()->rows;

    return (job->m + rows - 1) / rows;
}

/* Columns are cut where rows alone are too few parts for threads. */
static int64_t chunks_of(const sg_job *job)
{
    const int64_t groups = (job->n + SG_WIDTH - 1) / SG_WIDTH, wanted = row_blocks(job) >= 2 * CHUNKS ? 1 : 2 * CHUNKS;

    return groups < wanted ? groups : wanted;
}

int64_t sparse_units(const sg_job *job)
{
    return job->width == FR_WIDTH ? fours_units(job) : row_blocks(job) * chunks_of(job);
}

int64_t sparse_scratch_floats(const sg_job *job)
{
    return job->width == FR_WIDTH ? fours_scratch_floats(job) : (job->k + 1) * SP_MOST_ROWS;
}

/* The first of an ascending list that is not below k. */
static int64_t first_from(const uint32_t *index, int64_t count, int64_t k)
{
    int64_t from = 0;

    while (from < count) {
        const int64_t middle = (from + count) / 2;

        if ((int64_t)index[middle] < k)
            from = middle + 1;
        else
            count = middle;
    }
    return from;
}

/* A panel by a block of rows, of those blocks with k in [k0, k1). Rows by themselves take all at once, with the last.
 */
static void multiply(const sg_job *job, const sp_set *set, const float *turned, bool finite, int64_t row, int64_t rows,
                     int64_t panel, int64_t k0, int64_t k1)
{
    const uint32_t *begins = (const uint32_t *)(const void *)job->b, *index = begins + sp_panels(job->n) + 1;
    const int64_t total = begins[sp_panels(job->n)], at = panel * SP_WIDTH, count = begins[panel + 1] - begins[panel];
    sp_tile t = { .k = job->k,
                  .index = index + begins[panel],
                  .count = count,
                  .blocks = job->b + sparse_blocks_at(job->n, total) + (int64_t)begins[panel] * SP_WIDTH,
                  .a = turned,
                  .c = job->c + row * job->c_row + at,
                  .c_row = job->c_row,
                  .rows = rows,
                  .last = (uint32_t)(job->n - at < SP_WIDTH ? job->n - at : SP_WIDTH),
                  .add = k0 > 0 };

    if (finite && job->m > 1) {
        const int64_t first = first_from(t.index, count, k0);

        t.count = first_from(t.index, count, k1) - first;
        t.index += first;
        t.blocks += first * SP_WIDTH;
        (rows <= set->few ? set->some : set->many)(&t);
        return;
    }
    for (int64_t r = 0; k1 == job->k && r < rows; r++) {
        t.a = job->a + (row + r) * job->a_row;
        (finite ? set->one : set->all)(&t);
        t.c += t.c_row;
    }
}

void sparse_finish(const sg_job *job, int64_t row, int64_t rows, int64_t at)
{
    const int64_t columns = job->n - at < SG_WIDTH ? job->n - at : SG_WIDTH;
    float *c = job->c + row * job->c_row + at;

    if (job->bias != NULL)
        job->kernel->post(&(sg_post){ .fn = SG_ADD, .other = job->bias + at, .col = 1 }, c, job->c_row, rows, columns);
    for (uint32_t p = 0; p < job->post_count; p++) {
        sg_post post = job->posts[p];

        if (post.other != NULL)
            post.other += row * post.row + at * post.col;
        job->kernel->post(&post, c, job->c_row, rows, columns);
    }
}

static bool is_finite(const float *a, int64_t k)
{
    float zeros = 0;

#pragma omp simd reduction(+ : zeros)
    for (int64_t i = 0; i < k; i++)
        zeros += a[i] * 0;
    return zeros == 0;
}

static void run_blocks(const sg_job *job, float *scratch, int64_t begin, int64_t end)
{
    const sp_set *set = sparse_of_cpu();
    const int64_t chunks = chunks_of(job), groups = (job->n + SG_WIDTH - 1) / SG_WIDTH, panels = sp_panels(job->n);
    const int64_t height = job->m == 1 ? 1 : set->rows;
    int64_t turned = -1;
    bool finite = true;

    for (int64_t u = begin; u < end; u++) {
        const int64_t block = u / chunks, chunk = u % chunks, row = block * height;
        const int64_t rows = job->m - row < height ? job->m - row : height;

        if (turned != block)
            finite = job->m == 1 ? is_finite(job->a, job->k)
                                 : set->turn(job->a + row * job->a_row, job->a_row, rows, job->k, scratch);
        turned = block;
        for (int64_t k0 = 0; k0 < job->k; k0 += DEPTH)
            for (int64_t g = groups * chunk / chunks; g < groups * (chunk + 1) / chunks; g++) {
                const int64_t k1 = k0 + DEPTH < job->k ? k0 + DEPTH : job->k;

                for (int64_t p = g * GROUP; p < (g + 1) * GROUP && p < panels; p++)
                    multiply(job, set, scratch, finite, row, rows, p, k0, k1);
                if (k1 == job->k)
                    sparse_finish(job, row, rows, g * SG_WIDTH);
            }
    }
}

void sparse_run(const sg_job *job, float *scratch, int64_t begin, int64_t end)
{
    (job->width == FR_WIDTH ? fours_run : run_blocks)(job, scratch, begin, end);
}
