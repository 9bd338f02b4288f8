#include "quantize/mixed.h"
#include "inlay/check.h"
#include "session/session.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#define NO_SET UINT32_MAX
enum {
    SAMPLES = 4,      /* samples that each set is measured on */
    MOST_SETS = 64,   /* limit of the number of sets */
    ENOUGH_SETS = 48, /* if there are more large matrix multiplications than this, neighbours share a set */
    FLOAT_BITS = 32
};
static const double LARGE = 0.005; /* share of all weights from which a matrix multiplication is measured by itself */

/* Matrix multiplications of one size that are measured together; `part` numbers the sets of that size. */
struct set {
    int64_t depth, rows;
    uint32_t part;
    double harm;     /* squared output error with the whole set in 4 bits */
    double relative; /* sum of loss / energy over its layers */
};

struct choice {
    const mixed_options *how;
    const layer_list *list;
    struct set sets[MOST_SETS];
    uint32_t set_count;
    uint32_t *set_of; /* [list->count]; NO_SET: not a matrix multiplication */
    inlay_diag *diag;
};

/* Bits of one weight, including its share of scales and zero points. */
static double mixed_bits(const struct layer *layer, uint32_t bits, uint32_t block, bool halves)
{
    const double depth =
        (double)layer->graph->values[layer->weight].info.dims[layer->depth != INLAY_NONE ? layer->depth : 0].value;

    return bits == 4 ? 4 + ((halves ? 16.0 : 32.0) + 4) / block : bits == 8 ? 8 + 32 / (depth > 1 ? depth : 1) : bits;
}

static bool is_product(const struct layer *layer)
{
    return layer->reason == NULL && layer->count >= LOW_BIT_MIN_WEIGHTS && low_bit_is_matrix(layer);
}

/* Finds or creates the set for a size and part. When there are MOST_SETS, the last one takes all others. */
static uint32_t find_set(struct choice *choice, int64_t depth, int64_t rows, uint32_t part)
{
    for (uint32_t i = 0; i < choice->set_count; i++)
        if (choice->sets[i].depth == depth && choice->sets[i].rows == rows && choice->sets[i].part == part)
            return i;
    if (choice->set_count == MOST_SETS)
        return MOST_SETS - 1;
    choice->sets[choice->set_count] = (struct set){ .depth = depth, .rows = rows, .part = part };
    return choice->set_count++;
}

/* Number of layers of the same size before layer i. */
static uint32_t find_ordinal(const struct choice *choice, uint32_t i)
{
    const struct layer *items = choice->list->items, *layer = &items[i];
    uint32_t before = 0;

    for (uint32_t k = 0; k < i; k++)
        before += is_product(&items[k]) && items[k].count == layer->count &&
                  items[k].graph->values[items[k].weight].info.dims[items[k].depth].value ==
                      layer->graph->values[layer->weight].info.dims[layer->depth].value;
    return before;
}

/* Forms the sets. A large matrix multiplication is a set by itself, or with as few neighbours of its size as time
 * allows, because the effect of 4 bits depends on the position in the model. */
static void find_sets(struct choice *choice)
{
    double weights = 0;
    uint32_t large = 0, together;

    for (uint32_t i = 0; i < choice->list->count; i++)
        weights += (double)choice->list->items[i].count;
    for (uint32_t i = 0; i < choice->list->count; i++)
        large += is_product(&choice->list->items[i]) && (double)choice->list->items[i].count > LARGE * weights;
    together = 1 + large / ENOUGH_SETS;
    for (uint32_t i = 0; i < choice->list->count; i++) {
        const struct layer *layer = &choice->list->items[i];
        const inlay_value_info *info = &layer->graph->values[layer->weight].info;
        const bool alone = (double)layer->count > LARGE * weights;

        choice->set_of[i] = NO_SET;
        if (is_product(layer))
            choice->set_of[i] = find_set(choice, info->dims[layer->depth].value, info->dims[1 - layer->depth].value,
                                         alone ? find_ordinal(choice, i) / together : 0);
    }
}

/* Builds the model with those layers in 4 bits whose bits_of is 4; all others stay float. */
static inlay_status build(const struct choice *choice, const uint8_t *bits_of, char *path)
{
    const mixed_options *how = choice->how;
    const session_source source = { .path = how->base, .fd = -1 };
    inlay_session raw = { .model = NULL };
    low_bit_options narrow = *how->narrow;
    struct arena arena = { 0 };
    layer_form *forms;
    layer_list list;
    inlay_status status;

    narrow.bits_of = bits_of;
    INLAY_TRY(session_load_model(&raw, &source, how->args->options, choice->diag));
    INLAY_TRY(layers_find(raw.model, how->args->skip, how->args->skip_count, &arena, &list, choice->diag));
    forms = arena_array(&arena, (size_t)list.count + 1, sizeof *forms);
    if (forms == NULL) {
        status = no_memory(choice->diag, "for %u layers", list.count);
        goto done;
    }
    if (list.count != choice->list->count) {
        status = inlay_fail(choice->diag, INLAY_INTERNAL, "the layers of the reloaded model differ");
        goto done;
    }
    INLAY_TRY(low_bit_model(raw.model, &list, &narrow, forms, choice->diag));
    INLAY_TRY(scratch_save(how->scratch, "set", raw.model, true, path, choice->diag));
done:
    graph_model_destroy(raw.model);
    arena_deinit(&arena);
    return status;
}

static void note_set(const struct choice *choice, uint32_t index)
{
    const struct set *set = &choice->sets[index];
    char line[160];

    (void)snprintf(line, sizeof line, "4 bits for %lld x %lld, part %u: error %.3g", (long long)set->depth,
                   (long long)set->rows, set->part, sqrt(set->harm));
    if (choice->how->args->calls.note != NULL)
        choice->how->args->calls.note(choice->how->args->calls.progress_user, line);
}

static inlay_status measure(struct choice *choice, uint32_t k, uint8_t *bits_of)
{
    struct subject after = { 0 };
    char path[PATH_MAX];
    struct verdict verdict;
    inlay_status status;

    for (uint32_t i = 0; i < choice->list->count; i++)
        bits_of[i] = choice->set_of[i] == k ? 4 : FLOAT_BITS;
    INLAY_TRY(build(choice, bits_of, path));
    INLAY_TRY(subject_open(path, choice->how->plain, &after, choice->diag));
    INLAY_TRY(evaluate_agreement(choice->how->args->data, SAMPLES, &choice->how->args->demand, choice->how->before,
                                 &after, &verdict, choice->diag));
    choice->sets[k].harm = verdict.error * verdict.error;
    for (uint32_t i = 0; i < choice->list->count; i++)
        if (choice->set_of[i] == k && choice->how->narrow->known[i].energy > 0)
            choice->sets[k].relative += choice->how->narrow->known[i].loss / choice->how->narrow->known[i].energy;
    note_set(choice, k);
done:
    subject_close(&after);
    return status;
}

/* The output error that 4 bits cause in the layer, per weight. */
static double price_of(const struct choice *choice, uint32_t i)
{
    const struct nibbles *nibbles = &choice->how->narrow->known[i];
    const struct set *set = &choice->sets[choice->set_of[i]];
    const double share = set->relative > 0 && nibbles->energy > 0 ? nibbles->loss / nibbles->energy / set->relative : 0;

    INLAY_CHECK(choice->set_of[i] < choice->set_count);
    return set->harm * share / (double)choice->list->items[i].count;
}

/* Gives 8 bits to layers in the order of their cost, as long as the average of all bits stays below the limit. */
static void assign_bits(const struct choice *choice, uint8_t *bits_of)
{
    const uint32_t block = choice->how->narrow->block;
    double bits = 0, weights = 0;

    for (uint32_t i = 0; i < choice->list->count; i++) {
        const struct layer *layer = &choice->list->items[i];

        bits_of[i] = choice->set_of[i] == NO_SET ? 8 : 4;
        if (layer->reason != NULL || layer->count < LOW_BIT_MIN_WEIGHTS)
            continue;
        bits += mixed_bits(layer, bits_of[i], block, choice->how->narrow->known[i].rows.halves) * (double)layer->count;
        weights += (double)layer->count;
    }
    for (;;) { /* each time the most expensive layer that still fits */
        uint32_t best = NO_SET;
        double more = 0;

        for (uint32_t i = 0; i < choice->list->count; i++) {
            const struct layer *layer = &choice->list->items[i];
            const bool halves = choice->how->narrow->known[i].rows.halves;
            const double extra =
                (mixed_bits(layer, 8, block, halves) - mixed_bits(layer, 4, block, halves)) * (double)layer->count;

            if (choice->set_of[i] == NO_SET || bits_of[i] == 8 ||
                bits + extra > choice->how->args->most_bits * weights ||
                (best != NO_SET && price_of(choice, i) <= price_of(choice, best)))
                continue;
            best = i;
            more = extra;
        }
        if (best == NO_SET)
            break;
        bits_of[best] = 8;
        bits += more;
    }
}

inlay_status mixed_choose(const mixed_options *how, const layer_list *list, uint8_t *bits_of, inlay_diag *diag)
{
    struct choice choice = { .how = how, .list = list, .diag = diag };
    inlay_status status = INLAY_OK;

    INLAY_CHECK(how->narrow->known != NULL);
    choice.set_of = malloc(((size_t)list->count + 1) * sizeof *choice.set_of);
    if (choice.set_of == NULL)
        return no_memory(diag, "for %u layers", list->count);
    find_sets(&choice);
    for (uint32_t k = 0; k < choice.set_count; k++) {
        if (how->args->calls.progress != NULL &&
            how->args->calls.progress(how->args->calls.progress_user, 0.4 + 0.2 * k / choice.set_count,
                                      "choosing bits") != 0) {
            status = inlay_fail(diag, INLAY_CANCELLED, "stopped; nothing was written");
            goto done;
        }
        INLAY_TRY(measure(&choice, k, bits_of));
    }
    assign_bits(&choice, bits_of);
done:
    free(choice.set_of);
    return status;
}
