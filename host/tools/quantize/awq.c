#include "quantize/awq.h"
#include "quantize/balance_parts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 64, POWERS = 3 };
static const double powers[POWERS] = { 0.25, 0.5, 0.75 }, GAIN = 0.98;

/* One value on its way. */
struct trial {
    const struct balancing *x;
    const struct balanced *b;
    const awq_how *how;
    const struct moments *known;
    float *factors; /* [channels]; NULL: all are 1 */
};

/* ------------------------------------------------------------------ factors */

/* Powers of the mean size, around 1. */
static void find_factors(const struct trial *t, const float *squares, double power)
{
    const int64_t n = t->b->channels;
    double mean = 0, logs = 0;

    for (int64_t c = 0; c < n; c++)
        mean += (double)squares[c] / (double)n;
    for (int64_t c = 0; c < n; c++) {
        const double s = pow(((double)squares[c] + 1e-4 * mean) / mean, power / 2);

        t->factors[c] = (float)(s < 1.0 / 64 ? 1.0 / 64 : s > 64 ? 64 : s);
        logs += log((double)t->factors[c]) / (double)n;
    }
    for (int64_t c = 0; c < n; c++)
        t->factors[c] = (float)((double)t->factors[c] / exp(logs));
}

/* What is known of the value when its channels are divided by the factors: the inverse of the moments is multiplied by
 * them from both sides, and so is its factor from one; the moments below it are divided. What is written may be what is
 * read. */
static void scale_known(const struct trial *t, const weight_inputs *from, float *importance, float *factor)
{
    const int64_t n = t->b->channels;

    for (int64_t c = 0; c < n; c++)
        importance[c] = from->importance[c] / (t->factors[c] * t->factors[c]);
    for (int64_t p = 0; p < n; p++)
        for (int64_t j = 0; j < n; j++) {
            const float f = t->factors[from->order != NULL ? from->order[j] : j];

            factor[p * n + j] =
                from->factor[p * n + j] * (j < p ? 1 / (f * t->factors[from->order != NULL ? from->order[p] : p]) : f);
        }
}

/* ------------------------------------------------------------------ trials */

/* Rows of the layer, spread over all, times the factors: [rows, channels]. */
static int64_t pick_rows(const struct trial *t, const struct layer *l, float *out)
{
    const inlay_value_info *info = &l->g->values[l->weight].info;
    const int64_t n = t->b->channels, all = info->dims[1 - l->depth].value;
    const int64_t rows = all < MOST_ROWS ? all : MOST_ROWS;

    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < n; c++) {
            const int64_t r = i * all / rows, at = l->depth == 0 ? c * all + r : r * n + c;
            float w;

            memcpy(&w, (const char *)info->data + at * (int64_t)sizeof w, sizeof w);
            out[i * n + c] = w * (t->factors != NULL ? t->factors[c] : 1);
        }
    return rows;
}

/* What the layer's outputs are off; negative: no memory. */
static double loss_of(const struct trial *t, const struct layer *l, const weight_inputs *in)
{
    const int64_t n = t->b->channels;
    struct arena a = { 0 };
    float *w = arena_array(&a, (size_t)(MOST_ROWS * n), sizeof *w);
    float *scratch = arena_array(&a, (size_t)(WEIGHTS_TOGETHER * (n + WEIGHTS_MOST_BLOCK)), sizeof *scratch);
    float *scales = arena_array(&a, (size_t)(MOST_ROWS * n), sizeof *scales);
    uint8_t *codes = arena_array(&a, (size_t)(MOST_ROWS * n), 1), *zeros = arena_array(&a, (size_t)(MOST_ROWS * n), 1);
    weight_rows m = { .w = w, .depth = n, .row_step = n, .step = 1, .block = t->how->block };
    double loss = -1;

    if (w != NULL && scratch != NULL && scales != NULL && codes != NULL && zeros != NULL) {
        loss = 0;
        m.rows = pick_rows(t, l, w);
        for (int64_t r = 0; r < m.rows; r += WEIGHTS_TOGETHER)
            loss +=
                weights_nibbles_compensated(&m, in, r, m.rows - r < WEIGHTS_TOGETHER ? m.rows - r : WEIGHTS_TOGETHER,
                                            codes, scales, zeros, scratch);
        loss *= (double)l->g->values[l->weight].info.dims[1 - l->depth].value / (double)m.rows;
    }
    arena_deinit(&a);
    return loss;
}

/* The same of all layers that read the value. */
static double losses(const struct trial *t, const weight_inputs *in)
{
    double sum = 0;

    for (uint32_t i = 0; i < t->x->list->count && sum >= 0; i++)
        if (balancing_axis(t->x, &t->x->list->items[i], t->b) != INLAY_NONE) {
            const double one = loss_of(t, &t->x->list->items[i], in);

            sum = one < 0 ? -1 : sum + one;
        }
    return sum;
}

/* What all layers that read the value are off with these factors; negative: no memory. */
static double losses_scaled(const struct trial *t, const weight_inputs *in)
{
    const int64_t n = t->b->channels;
    float *importance = malloc((size_t)n * sizeof *importance), *factor = malloc((size_t)(n * n) * sizeof *factor);
    double loss = -1;

    if (importance != NULL && factor != NULL) {
        const weight_inputs scaled = { importance, factor, in->order };

        scale_known(t, in, importance, factor);
        loss = losses(t, &scaled);
    }
    free(importance);
    free(factor);
    return loss;
}

/* What is known of the value, if all that read it are products of 4 bits. */
static const weight_inputs *known_of(const struct trial *t)
{
    const weight_inputs *in = NULL;

    for (uint32_t i = 0; i < t->x->list->count; i++) {
        const struct layer *l = &t->x->list->items[i];

        if (balancing_axis(t->x, l, t->b) == INLAY_NONE)
            continue;
        in = &t->known->layers[i];
        if (in->factor == NULL || l->g->values[l->weight].info.rank != 2 || l->depth == INLAY_NONE)
            return NULL;
    }
    return in;
}

/* The best power; 0: none is. False: no memory. */
static bool find_power(struct trial *t, const weight_inputs *in, double *out_power)
{
    float *const factors = t->factors;
    double least;

    *out_power = 0;
    t->factors = NULL;
    least = losses(t, in) * GAIN;
    t->factors = factors;
    for (int i = 0; i < POWERS && least >= 0; i++) {
        double loss;

        find_factors(t, in->importance, powers[i]);
        loss = losses_scaled(t, in);
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
static bool scale_value(struct balancing *x, struct trial *t, bool *out_scaled)
{
    const weight_inputs *in = known_of(t);
    double power;
    bool good;

    *out_scaled = false;
    if (in == NULL)
        return true;
    t->factors = malloc((size_t)t->b->channels * sizeof *t->factors);
    good = t->factors != NULL && find_power(t, in, &power);
    if (good && power > 0) {
        find_factors(t, in->importance, power);
        balancing_scale(x, t->b, t->factors);
        /* Layers that read one value share what is known of it. */
        scale_known(t, in, (float *)(uintptr_t)in->importance, (float *)(uintptr_t)in->factor);
        *out_scaled = true;
    }
    free(t->factors);
    return good;
}

inlay_status awq_model(graph_model *model, const layer_list *list, const awq_how *how, struct moments *known,
                       uint32_t *out_count, inlay_diag *diag)
{
    struct balancing x;
    inlay_status status;

    *out_count = 0;
    balancing_begin(&x, model, list);
    for (uint32_t k = 0; k < x.count && !x.e.failed; k++) {
        struct trial t = { .x = &x, .b = &x.items[k], .how = how, .known = known };
        bool scaled;

        x.e.failed = !scale_value(&x, &t, &scaled);
        *out_count += scaled;
    }
    status = balancing_finish(&x, diag);
    balancing_end(&x);
    return status;
}
