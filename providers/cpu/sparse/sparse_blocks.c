/* GEMM with a block-sparse pack: rows by panels, and the epilogue. */
#include "cpu/sparse/sparse.h"
#include "inlay/check.h"

enum {
    GROUP = SGEMM_WIDTH / SPARSE_WIDTH, /* panels whose epilogue runs together */
    CHUNKS = 4,
    DEPTH = 1024 /* k at a time: these transposed rows stay in the second-level cache */
};

const sparse_set *sparse_of_cpu(void)
{
    return KERNEL_BEST(sparse);
}

static int64_t row_blocks(const sgemm_job *job)
{
    const int64_t rows = job->m == 1 ? 1 : sparse_of_cpu()->rows;

    return (job->m + rows - 1) / rows;
}

/* Columns are divided if there are too few blocks of rows for the threads. */
static int64_t chunks_of(const sgemm_job *job)
{
    const int64_t groups = (job->n + SGEMM_WIDTH - 1) / SGEMM_WIDTH,
                  wanted = row_blocks(job) >= 2 * CHUNKS ? 1 : 2 * CHUNKS;

    return groups < wanted ? groups : wanted;
}

int64_t sparse_units(const sgemm_job *job)
{
    return row_blocks(job) * chunks_of(job);
}

int64_t sparse_scratch_floats(const sgemm_job *job)
{
    return (job->k + 1) * SPARSE_MOST_ROWS;
}

/* The position of the first element that is at least k in an ascending list. */
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

/* Multiplies a block of rows by the blocks of a panel with k in [k0, k1). A single row, or rows with NaN or infinity,
 * are multiplied by all blocks at once, when k1 is the last. */
static void multiply(const sgemm_job *job, const sparse_set *set, const float *turned, bool finite, int64_t row,
                     int64_t rows, int64_t panel, int64_t k0, int64_t k1)
{
    const uint32_t *begins = (const uint32_t *)(const void *)job->b, *index = begins + sparse_panels(job->n) + 1;
    const int64_t total = begins[sparse_panels(job->n)], at = panel * SPARSE_WIDTH,
                  count = begins[panel + 1] - begins[panel];
    sparse_tile tile = { .k = job->k,
                         .index = index + begins[panel],
                         .count = count,
                         .blocks = job->b + sparse_blocks_at(job->n, total) + (int64_t)begins[panel] * SPARSE_WIDTH,
                         .a = turned,
                         .c = job->c + row * job->c_row + at,
                         .c_row = job->c_row,
                         .rows = rows,
                         .last = (uint32_t)(job->n - at < SPARSE_WIDTH ? job->n - at : SPARSE_WIDTH),
                         .add = k0 > 0 };

    INLAY_CHECK(panel < sparse_panels(job->n) && begins[panel] <= begins[panel + 1]);
    if (finite && job->m > 1) {
        const int64_t first = first_from(tile.index, count, k0);

        tile.count = first_from(tile.index, count, k1) - first;
        tile.index += first;
        tile.blocks += first * SPARSE_WIDTH;
        (rows <= set->few ? set->some : set->many)(&tile);
        return;
    }
    for (int64_t r = 0; k1 == job->k && r < rows; r++) {
        tile.a = job->a + (row + r) * job->a_row;
        (finite ? set->one : set->all)(&tile);
        tile.c += tile.c_row;
    }
}

void sparse_finish(const sgemm_job *job, int64_t row, int64_t rows, int64_t at)
{
    const int64_t columns = job->n - at < SGEMM_WIDTH ? job->n - at : SGEMM_WIDTH;
    float *c = job->c + row * job->c_row + at;

    if (job->bias != NULL)
        job->kernel->post(&(sgemm_post){ .fn = SGEMM_ADD, .other = job->bias + at, .col = 1 }, c, job->c_row, rows,
                          columns);
    for (uint32_t post_index = 0; post_index < job->post_count; post_index++) {
        sgemm_post post = job->posts[post_index];

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

void sparse_run(const sgemm_job *job, float *scratch, int64_t begin, int64_t end)
{
    const sparse_set *set = sparse_of_cpu();
    const int64_t chunks = chunks_of(job), groups = (job->n + SGEMM_WIDTH - 1) / SGEMM_WIDTH,
                  panels = sparse_panels(job->n);
    const int64_t height = job->m == 1 ? 1 : set->rows;
    int64_t turned = -1;
    bool finite = true;

    INLAY_CHECK(begin >= 0 && end <= sparse_units(job));
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
                    sparse_finish(job, row, rows, g * SGEMM_WIDTH);
            }
    }
}
