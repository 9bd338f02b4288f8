/* The loops around the tiles of a GEMM. Rows and k are divided so that a block of A stays in the second-level cache
 * while panels of B are streamed; each panel is read from memory once for a block of rows. */
#include "cpu/matrix/sgemm.h"
#include "inlay/check.h"
#include "simd/optional.h"
#include <stddef.h>

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(sgemm_kernel_best,
              "cpu_product cpu_conv cpu_conv_transpose cpu_attention cpu_nbits_product cpu_experts cpu_recurrent");

#define FLOPS_PER_NS 200.0
#define BYTES_PER_NS 30.0
/* MIN_UNEVEN_ROWS: where panels cannot be divided evenly. */
enum { BLOCK_ROWS = 160, BLOCK_K = 768, MIN_THREAD_ROWS = 48, MIN_UNEVEN_ROWS = 2 * SGEMM_VECTORS };

const sgemm_kernel *sgemm_kernel_best(void)
{
    return KERNEL_BEST(products);
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

static int64_t panels_of(const sgemm_job *job)
{
    return ceil_div(job->n, job->width);
}

static int64_t row_blocks(const sgemm_job *job)
{
    const int64_t blocks = ceil_div(job->m, BLOCK_ROWS);

    return blocks > job->blocks ? blocks : job->blocks;
}

void sgemm_share(sgemm_job *job, uint32_t threads)
{
    if (threads > 1 &&
        job->m / threads >= (sgemm_shares_evenly(job->n, job->width, threads) ? MIN_THREAD_ROWS : MIN_UNEVEN_ROWS))
        job->blocks = ceil_div(row_blocks(job), threads) * threads;
}

int64_t sgemm_units(const sgemm_job *job)
{
    return row_blocks(job) * panels_of(job);
}

double sgemm_estimate_ns(const sgemm_job *job)
{
    double work = 2.0 * (double)job->m * (double)job->n * (double)job->k / FLOPS_PER_NS;
    double bytes = 4.0 * (double)job->n * (double)job->k / BYTES_PER_NS;

    return work > bytes ? work : bytes;
}

/* Multiplies rows [i0, i1) with panel j, for k in [k0, k1). next: the data that is read after this panel; NULL:
 * nothing. */
static void run_panel(const sgemm_job *job, int64_t i0, int64_t i1, int64_t j, int64_t k0, int64_t k1,
                      const float *next)
{
    const sgemm_kernel *kernel = job->kernel;
    int64_t at = j * job->width, cols = job->n - at < job->width ? job->n - at : job->width;
    int64_t vectors = ceil_div(cols, SGEMM_LANES), blocks = ceil_div(i1 - i0, kernel->rows[vectors]);
    /* Elements that each call prefetches for one k: an even share, because memory bandwidth is limited. */
    int64_t share = ceil_div(job->width, blocks < SGEMM_VECTORS ? SGEMM_VECTORS : blocks);
    const int64_t even = blocks > 0 ? (i1 - i0) / blocks : 0, left = i1 - i0 - even * blocks;
    bool sums = k0 > 0 || job->add;
    sgemm_tile tile = { .k = k1 - k0,
                        .chain = job->chain > 0 ? job->chain : SGEMM_CHAIN,
                        .a_row = job->a_row,
                        .b = job->b + j * job->b_panel + k0 * job->b_step,
                        .b_step = job->b_step,
                        .from_row = sums ? job->c_row : 0,
                        .c_row = job->c_row,
                        .last = (uint32_t)(cols - (vectors - 1) * SGEMM_LANES) };

    INLAY_CHECK(vectors >= 1 && vectors <= SGEMM_VECTORS && i0 <= i1 && k0 < k1);
    /* Blocks of about the same size: block n ends at (i1 - i0) (n + 1) / blocks, computed without a division for
     * each. */
    for (int64_t n = 0, i = i0, rows, part = 0; n < blocks; n++, i += rows) {
        bool fetch = next != NULL && blocks > 1 && job->b_step == job->width;

        rows = even;
        part += left;
        if (part >= blocks) {
            part -= blocks;
            rows++;
        }
        tile.a = job->a + i * job->a_row + k0;
        tile.c = job->c + i * job->c_row + at;
        tile.from = sums ? tile.c : NULL;
        tile.bias = k1 == job->k && job->bias != NULL ? job->bias + at : NULL;
        tile.ahead = fetch ? next + n * tile.k * share : tile.a;
        tile.ahead_step = fetch ? share : 0;
        kernel->tile[vectors][rows - 1](&tile);
        if (k1 < job->k)
            continue;
        for (uint32_t post_index = 0; post_index < job->post_count; post_index++) {
            sgemm_post post = job->posts[post_index];

            if (post.other != NULL)
                post.other += i * post.row + at * post.col;
            kernel->post(&post, tile.c, job->c_row, rows, cols);
        }
    }
}

void sgemm_run(const sgemm_job *job, int64_t begin, int64_t end)
{
    int64_t panels = panels_of(job), row_count = row_blocks(job), k_count = ceil_div(job->k, BLOCK_K);

    while (begin < end) {
        int64_t block = begin / panels, j0 = begin % panels;
        int64_t j1 = end - begin < panels - j0 ? j0 + (end - begin) : panels;
        int64_t i0 = job->m * block / row_count, i1 = job->m * (block + 1) / row_count;

        for (int64_t p = 0; p < k_count; p++) {
            int64_t k0 = job->k * p / k_count, k1 = job->k * (p + 1) / k_count;

            for (int64_t j = j0; j < j1; j++) {
                const float *next = j + 1 < j1        ? job->b + (j + 1) * job->b_panel + k0 * job->b_step
                                    : p + 1 < k_count ? job->b + j0 * job->b_panel + k1 * job->b_step
                                    : j1 < panels     ? job->b + j1 * job->b_panel /* likely the next range's */
                                                      : NULL;

                run_panel(job, i0, i1, j, k0, k1, next);
            }
        }
        begin += j1 - j0;
    }
}
