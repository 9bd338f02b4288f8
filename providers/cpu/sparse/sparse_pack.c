/* Counts the nonzero blocks of a matrix, and packs them. */
#include "cpu/sparse/sparse.h"
#include "inlay/check.h"
#include <string.h>

static bool is_zero(const sparse_packed_weights *weights, int64_t k, int64_t panel)
{
    const int64_t end = (panel + 1) * SPARSE_WIDTH < weights->n ? (panel + 1) * SPARSE_WIDTH : weights->n;

    for (int64_t j = panel * SPARSE_WIDTH; j < end; j++)
        if (sparse_element(weights, k, j) != 0)
            return false;
    return true;
}

double sparse_share(const sparse_packed_weights *weights)
{
    const int64_t panels = sparse_panels(weights->n), blocks = weights->k * panels;
    int64_t zeros = 0;

    if (blocks < SPARSE_SAMPLE)
        return 1;
    for (int64_t i = 0; i < SPARSE_SAMPLE; i++) { /* the additional offset spreads the sample over all panels */
        const int64_t at = (int64_t)((double)blocks * (double)i / SPARSE_SAMPLE) + i % (blocks / SPARSE_SAMPLE);

        zeros += is_zero(weights, at / panels, at % panels);
    }
    return zeros < SPARSE_LEAST_ZEROS * SPARSE_SAMPLE ? 1 : 1 - (double)zeros / SPARSE_SAMPLE;
}

int64_t sparse_count(const sparse_packed_weights *weights, double most)
{
    const int64_t panels = sparse_panels(weights->n);
    int64_t count = 0;

    if (sparse_share(weights) > most)
        return -1;
    for (int64_t k = 0; k < weights->k; k++)
        for (int64_t panel = 0; panel < panels; panel++)
            count += !is_zero(weights, k, panel);
    return count;
}

int64_t sparse_blocks_at(int64_t n, int64_t count)
{
    return (sparse_panels(n) + 1 + count + SPARSE_WIDTH - 1) / SPARSE_WIDTH * SPARSE_WIDTH;
}

int64_t sparse_pack_floats(const sparse_packed_weights *weights, int64_t count)
{
    return sparse_blocks_at(weights->n, count) + count * SPARSE_WIDTH + SPARSE_AHEAD;
}

bool sparse_pack(const sparse_packed_weights *weights, int64_t count, float *target)
{
    const int64_t panels = sparse_panels(weights->n);
    uint32_t *begins = (uint32_t *)(void *)target, *index = begins + panels + 1;
    float *to = target + sparse_blocks_at(weights->n, count);
    int64_t at = 0;

    INLAY_CHECK(count >= 0 && weights->k <= UINT32_MAX);
    memset(target, 0, (size_t)sparse_pack_floats(weights, count) * sizeof *target);
    for (int64_t panel = 0; panel < panels; panel++) {
        begins[panel] = (uint32_t)at;
        for (int64_t k = 0; k < weights->k; k++) {
            if (is_zero(weights, k, panel))
                continue;
            if (at == count)
                return false;
            index[at++] = (uint32_t)k;
            for (int64_t j = 0; j < SPARSE_WIDTH && panel * SPARSE_WIDTH + j < weights->n; j++)
                to[j] = sparse_element(weights, k, panel * SPARSE_WIDTH + j);
            to += SPARSE_WIDTH;
        }
    }
    begins[panels] = (uint32_t)at;
    return at == count;
}
