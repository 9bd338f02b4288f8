#include "quantize/awq.h"
#include "inlay/check.h"
#include "quantize/balance_parts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 64, POWERS = 3 }; /* MOST_ROWS: rows of a layer that a trial rounds */
static const double powers[POWERS] = { 0.25, 0.5, 0.75 };
static const double BETTER = 0.98; /* a power is used if its relative error is below this */

/* The trial of one value. */
struct trial {
    const struct balancing *balancing;
    const struct balanced *balanced;
    const awq_options *how;
    const struct moments *known;
    float *factors; /* [channels]; NULL: all are 1 */
};

/* Powers of the mean magnitude, normalised to geometric mean 1. */
static void find_factors(const struct trial *trial, const float *squares, double power)
{
    const int64_t channels = trial->balanced->channels;
    double mean = 0, logs = 0;

    for (int64_t channel = 0; channel < channels; channel++)
        mean += (double)squares[channel] / (double)channels;
    for (int64_t channel = 0; channel < channels; channel++) {
        const double factor = pow(((double)squares[channel] + 1e-4 * mean) / mean, power / 2);

        trial->factors[channel] = (float)(factor < 1.0 / 64 ? 1.0 / 64 : factor > 64 ? 64 : factor);
        logs += log((double)trial->factors[channel]) / (double)channels;
    }
    for (int64_t channel = 0; channel < channels; channel++)
        trial->factors[channel] = (float)((double)trial->factors[channel] / exp(logs));
}

/* Adapts the statistics to a value whose channels are divided by the factors. The inverse of the moments is multiplied
 * by the factors on both sides, so its Cholesky factor is multiplied on one side. The moments, below the diagonal of
 * `factor`, are divided. The outputs may be the arrays of `from`. */
static void scale_known(const struct trial *trial, const weight_inputs *from, float *importance, float *factor)
{
    const int64_t channels = trial->balanced->channels;

    for (int64_t channel = 0; channel < channels; channel++)
        importance[channel] = from->importance[channel] / (trial->factors[channel] * trial->factors[channel]);
    for (int64_t p = 0; p < channels; p++)
        for (int64_t j = 0; j < channels; j++) {
            const float scale = trial->factors[from->order != NULL ? from->order[j] : j];

            factor[p * channels + j] =
                from->factor[p * channels + j] *
                (j < p ? 1 / (scale * trial->factors[from->order != NULL ? from->order[p] : p]) : scale);
        }
}

/* Copies evenly spread rows of the layer times the factors: [rows, channels]. */
static int64_t pick_rows(const struct trial *trial, const struct layer *layer, float *out)
{
    const inlay_value_info *info = &layer->graph->values[layer->weight].info;
    const int64_t channels = trial->balanced->channels, all = info->dims[1 - layer->depth].value;
    const int64_t rows = all < MOST_ROWS ? all : MOST_ROWS;

    for (int64_t i = 0; i < rows; i++)
        for (int64_t channel = 0; channel < channels; channel++) {
            const int64_t row = i * all / rows, at = layer->depth == 0 ? channel * all + row : row * channels + channel;
            float weight;

            memcpy(&weight, (const char *)info->data + at * (int64_t)sizeof weight, sizeof weight);
            out[i * channels + channel] = weight * (trial->factors != NULL ? trial->factors[channel] : 1);
        }
    return rows;
}

/* The squared output error of the layer; negative: out of memory. */
static double loss_of(const struct trial *trial, const struct layer *layer, const weight_inputs *in)
{
    const int64_t channels = trial->balanced->channels;
    struct arena arena = { 0 };
    float *weights = arena_array(&arena, (size_t)(MOST_ROWS * channels), sizeof *weights);
    float *scratch = arena_array(&arena, (size_t)(WEIGHTS_TOGETHER * (channels + WEIGHTS_MOST_BLOCK)), sizeof *scratch);
    float *scales = arena_array(&arena, (size_t)(MOST_ROWS * channels), sizeof *scales);
    uint8_t *codes = arena_array(&arena, (size_t)(MOST_ROWS * channels), 1),
            *zeros = arena_array(&arena, (size_t)(MOST_ROWS * channels), 1);
    weight_rows rows = {
        .weights = weights, .depth = channels, .row_step = channels, .step = 1, .block = trial->how->block
    };
    double loss = -1;

    if (weights != NULL && scratch != NULL && scales != NULL && codes != NULL && zeros != NULL) {
        loss = 0;
        rows.rows = pick_rows(trial, layer, weights);
        for (int64_t r = 0; r < rows.rows; r += WEIGHTS_TOGETHER)
            loss += weights_nibbles_compensated(&rows, in, r,
                                                rows.rows - r < WEIGHTS_TOGETHER ? rows.rows - r : WEIGHTS_TOGETHER,
                                                codes, scales, zeros, scratch);
        loss *= (double)layer->graph->values[layer->weight].info.dims[1 - layer->depth].value / (double)rows.rows;
    }
    arena_deinit(&arena);
    return loss;
}

/* The sum over all layers that read the value. */
static double losses(const struct trial *trial, const weight_inputs *in)
{
    double sum = 0;

    for (uint32_t i = 0; i < trial->balancing->list->count && sum >= 0; i++)
        if (balancing_axis(trial->balancing, &trial->balancing->list->items[i], trial->balanced) != INLAY_NONE) {
            const double one = loss_of(trial, &trial->balancing->list->items[i], in);

            sum = one < 0 ? -1 : sum + one;
        }
    return sum;
}

/* The sum with these factors applied; negative: out of memory. */
static double losses_scaled(const struct trial *trial, const weight_inputs *in)
{
    const int64_t channels = trial->balanced->channels;
    float *importance = malloc((size_t)channels * sizeof *importance),
          *factor = malloc((size_t)(channels * channels) * sizeof *factor);
    double loss = -1;

    if (importance != NULL && factor != NULL) {
        const weight_inputs scaled = { importance, factor, in->order };

        scale_known(trial, in, importance, factor);
        loss = losses(trial, &scaled);
    }
    free(importance);
    free(factor);
    return loss;
}

/* The statistics of the value if all its readers are matrix multiplications with 4 bits, otherwise NULL. */
static const weight_inputs *known_of(const struct trial *trial)
{
    const weight_inputs *in = NULL;

    for (uint32_t i = 0; i < trial->balancing->list->count; i++) {
        const struct layer *layer = &trial->balancing->list->items[i];

        if (balancing_axis(trial->balancing, layer, trial->balanced) == INLAY_NONE)
            continue;
        in = &trial->known->layers[i];
        if (in->factor == NULL || layer->graph->values[layer->weight].info.rank != 2 || layer->depth == INLAY_NONE)
            return NULL;
    }
    return in;
}

/* Finds the best power; 0: none helps. False: out of memory. */
static bool find_power(struct trial *trial, const weight_inputs *in, double *out_power)
{
    float *const factors = trial->factors;
    double least;

    *out_power = 0;
    trial->factors = NULL;
    least = losses(trial, in) * BETTER;
    trial->factors = factors;
    for (int i = 0; i < POWERS && least >= 0; i++) {
        double loss;

        find_factors(trial, in->importance, powers[i]);
        loss = losses_scaled(trial, in);
        if (loss < 0)
            return false;
        if (loss >= least)
            break; /* larger powers are worse still */
        least = loss;
        *out_power = powers[i];
    }
    return least >= 0;
}

/* Scales the value if that reduces the error; false: out of memory. */
static bool scale_value(struct balancing *balancing, struct trial *trial, bool *out_scaled)
{
    const weight_inputs *in = known_of(trial);
    double power;
    bool good;

    *out_scaled = false;
    if (in == NULL)
        return true;
    INLAY_CHECK(in->importance != NULL && in->factor != NULL);
    trial->factors = malloc((size_t)trial->balanced->channels * sizeof *trial->factors);
    good = trial->factors != NULL && find_power(trial, in, &power);
    if (good && power > 0) {
        find_factors(trial, in->importance, power);
        balancing_scale(balancing, trial->balanced, trial->factors);
        /* Layers that read the same value share its statistics. */
        scale_known(trial, in, (float *)(uintptr_t)in->importance, (float *)(uintptr_t)in->factor);
        *out_scaled = true;
    }
    free(trial->factors);
    return good;
}

inlay_status awq_model(graph_model *model, const layer_list *list, const awq_options *how, struct moments *known,
                       uint32_t *out_count, inlay_diag *diag)
{
    struct balancing balancing;
    inlay_status status;

    *out_count = 0;
    balancing_begin(&balancing, model, list);
    for (uint32_t k = 0; k < balancing.count && !balancing.editor.failed; k++) {
        struct trial trial = { .balancing = &balancing, .balanced = &balancing.items[k], .how = how, .known = known };
        bool scaled;

        balancing.editor.failed = !scale_value(&balancing, &trial, &scaled);
        *out_count += scaled;
    }
    status = balancing_finish(&balancing, diag);
    balancing_end(&balancing);
    return status;
}
