#include "quantize/awq.h"
#include "quantize/balance_parts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 64, POWERS = 3 };
static const double powers[POWERS] = { 0.25, 0.5, 0.75 }, GAIN = 0.98;

/* One value on its way. */
struct trial {
    const struct balancing *balancing;
    const struct balanced *balanced;
    const awq_how *how;
    const struct moments *known;
    float *factors; /* [channels]; NULL: all are 1 */
};

/* ------------------------------------------------------------------ factors */

/* Powers of the mean size, around 1. */
static void find_factors(const struct trial *trial, const float *squares, double power)
{
    const int64_t n = trial->balanced->channels;
    double mean = 0, logs = 0;

    for (int64_t c = 0; c < n; c++)
        mean += (double)squares[c] / (double)n;
    for (int64_t c = 0; c < n; c++) {
        const double s = pow(((double)squares[c] + 1e-4 * mean) / mean, power / 2);

        trial->factors[c] = (float)(s < 1.0 / 64 ? 1.0 / 64 : s > 64 ? 64 : s);
        logs += log((double)trial->factors[c]) / (double)n;
    }
    for (int64_t c = 0; c < n; c++)
        trial->factors[c] = (float)((double)trial->factors[c] / exp(logs));
}

/* What is known of the value when its channels are divided by the factors: the inverse of the moments is multiplied by
 * them from both sides, and so is its factor from one; the moments below it are divided. What is written may be what is
 * read. */
static void scale_known(const struct trial *trial, const weight_inputs *from, float *importance, float *factor)
{
    const int64_t n = trial->balanced->channels;

    for (int64_t c = 0; c < n; c++)
        importance[c] = from->importance[c] / (trial->factors[c] * trial->factors[c]);
    for (int64_t p = 0; p < n; p++)
        for (int64_t j = 0; j < n; j++) {
            const float f = trial->factors[from->order != NULL ? from->order[j] : j];

            factor[p * n + j] = from->factor[p * n + j] *
                                (j < p ? 1 / (f * trial->factors[from->order != NULL ? from->order[p] : p]) : f);
        }
}

/* ------------------------------------------------------------------ trials */

/* Rows of the layer, spread over all, times the factors: [rows, channels]. */
static int64_t pick_rows(const struct trial *trial, const struct layer *layer, float *out)
{
    const inlay_value_info *info = &layer->graph->values[layer->weight].info;
    const int64_t n = trial->balanced->channels, all = info->dims[1 - layer->depth].value;
    const int64_t rows = all < MOST_ROWS ? all : MOST_ROWS;

    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < n; c++) {
            const int64_t r = i * all / rows, at = layer->depth == 0 ? c * all + r : r * n + c;
            float w;

            memcpy(&w, (const char *)info->data + at * (int64_t)sizeof w, sizeof w);
            out[i * n + c] = w * (trial->factors != NULL ? trial->factors[c] : 1);
        }
    return rows;
}

/* What the layer's outputs are off; negative: no memory. */
static double loss_of(const struct trial *trial, const struct layer *layer, const weight_inputs *in)
{
    const int64_t n = trial->balanced->channels;
    struct arena arena = { 0 };
    float *weights = arena_array(&arena, (size_t)(MOST_ROWS * n), sizeof *weights);
    float *scratch = arena_array(&arena, (size_t)(WEIGHTS_TOGETHER * (n + WEIGHTS_MOST_BLOCK)), sizeof *scratch);
    float *scales = arena_array(&arena, (size_t)(MOST_ROWS * n), sizeof *scales);
    uint8_t *codes = arena_array(&arena, (size_t)(MOST_ROWS * n), 1),
            *zeros = arena_array(&arena, (size_t)(MOST_ROWS * n), 1);
    weight_rows rows = { .weights = weights, .depth = n, .row_step = n, .step = 1, .block = trial->how->block };
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

/* The same of all layers that read the value. */
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

/* What all layers that read the value are off with these factors; negative: no memory. */
static double losses_scaled(const struct trial *trial, const weight_inputs *in)
{
    const int64_t n = trial->balanced->channels;
    float *importance = malloc((size_t)n * sizeof *importance), *factor = malloc((size_t)(n * n) * sizeof *factor);
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

/* What is known of the value, if all that read it are products of 4 bits. */
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

/* The best power; 0: none is. False: no memory. */
static bool find_power(struct trial *trial, const weight_inputs *in, double *out_power)
{
    float *const factors = trial->factors;
    double least;

    *out_power = 0;
    trial->factors = NULL;
    least = losses(trial, in) * GAIN;
    trial->factors = factors;
    for (int i = 0; i < POWERS && least >= 0; i++) {
        double loss;

        find_factors(trial, in->importance, powers[i]);
        loss = losses_scaled(trial, in);
        if (loss < 0)
            return false;
        if (loss >= least)
            break; /* the next is worse still */
        least = loss;
        *out_power = powers[i];
    }
    return least >= 0;
}

/* Tries the value and scales it where that is better; false: no memory. */
static bool scale_value(struct balancing *balancing, struct trial *trial, bool *out_scaled)
{
    const weight_inputs *in = known_of(trial);
    double power;
    bool good;

    *out_scaled = false;
    if (in == NULL)
        return true;
    trial->factors = malloc((size_t)trial->balanced->channels * sizeof *trial->factors);
    good = trial->factors != NULL && find_power(trial, in, &power);
    if (good && power > 0) {
        find_factors(trial, in->importance, power);
        balancing_scale(balancing, trial->balanced, trial->factors);
        /* Layers that read one value share what is known of it. */
        scale_known(trial, in, (float *)(uintptr_t)in->importance, (float *)(uintptr_t)in->factor);
        *out_scaled = true;
    }
    free(trial->factors);
    return good;
}

inlay_status awq_model(graph_model *model, const layer_list *list, const awq_how *how, struct moments *known,
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
