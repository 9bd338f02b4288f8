/* Packs of blocks that are not zero: which there are, and how they lie. */
#include "sparse/sparse.h"
#include <string.h>

static bool is_zero(const sp_weights *weights, int64_t k, int64_t panel)
{
    const int64_t end = (panel + 1) * SP_WIDTH < weights->n ? (panel + 1) * SP_WIDTH : weights->n;

    for (int64_t j = panel * SP_WIDTH; j < end; j++)
        if (sp_element(weights, k, j) != 0)
            return false;
    return true;
}

double sparse_share(const sp_weights *weights)
{
    const int64_t panels = sp_panels(weights->n), blocks = weights->k * panels;
    int64_t zeros = 0;

    if (blocks < SP_SAMPLE)
        return 1;
    for (int64_t i = 0; i < SP_SAMPLE; i++) { /* spread by a step that falls on all rows and panels */
        const int64_t at = (int64_t)((double)blocks * (double)i / SP_SAMPLE) + i % (blocks / SP_SAMPLE);

        zeros += is_zero(weights, at / panels, at % panels);
    }
    return zeros < SP_LEAST_ZEROS * SP_SAMPLE ? 1 : 1 - (double)zeros / SP_SAMPLE;
}

int64_t sparse_count(const sp_weights *weights, double most)
{
    const int64_t panels = sp_panels(weights->n);
    int64_t count = 0;

    if (sparse_share(weights) > most)
        return -1;
    for (int64_t k = 0; k < weights->k; k++)
        for (int64_t panel = 0; panel < panels; panel++)
            count += !is_zero(weights, k, panel);
    return count;
}

/* Where the blocks begin: behind where each panel's begin, and the list, on a line of the cache. */
int64_t sparse_blocks_at(int64_t n, int64_t count)
{
    return (sp_panels(n) + 1 + count + SP_WIDTH - 1) / SP_WIDTH * SP_WIDTH;
}

int64_t sparse_pack_floats(const sp_weights *weights, int64_t count)
{
    return sparse_blocks_at(weights->n, count) + count * SP_WIDTH + SP_AHEAD;
}

bool sparse_pack(const sp_weights *weights, int64_t count, float *target)
{
    const int64_t panels = sp_panels(weights->n);
    uint32_t *begins = (uint32_t *)(void *)target, *index = begins + panels + 1;
    float *to = target + sparse_blocks_at(weights->n, count);
    int64_t at = 0;

    memset(target, 0, (size_t)sparse_pack_floats(weights, count) * sizeof *target);
    for (int64_t panel = 0; panel < panels; panel++) {
        begins[panel] = (uint32_t)at;
        for (int64_t k = 0; k < weights->k; k++) {
            if (is_zero(weights, k, panel))
                continue;
            if (at == count)
                return false;
            index[at++] = (uint32_t)k;
            for (int64_t j = 0; j < SP_WIDTH && panel * SP_WIDTH + j < weights->n; j++)
                to[j] = sp_element(weights, k, panel * SP_WIDTH + j);
            to += SP_WIDTH;
        }
    }
    begins[panels] = (uint32_t)at;
    return at == count;
}
