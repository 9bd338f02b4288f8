#include "quantize/mixed.h"
#include "session/session.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NO_SET UINT32_MAX
enum { SAMPLES = 4, MOST_SETS = 64, ENOUGH_SETS = 48, FLOAT_BITS = 32 };
static const double LARGE = 0.005; /* the share of all weights that a product has to be measured by itself */

/* Products of one size, the part-th of those that are measured together. */
struct set {
    int64_t depth, rows;
    uint32_t part;
    double harm;     /* of the outputs, all of the set in 4 bits */
    double relative; /* sum over its layers of loss / energy */
};

struct choice {
    const mixed_how *how;
    const layer_list *list;
    struct set sets[MOST_SETS];
    uint32_t set_count;
    uint32_t *set_of; /* [list->count]; NO_SET: the layer is no product */
    inlay_diag *diag;
};

double mixed_bits(const struct layer *l, uint32_t bits, uint32_t block, bool halves)
{
    const double depth = (double)l->g->values[l->weight].info.dims[l->depth != INLAY_NONE ? l->depth : 0].value;

    return bits == 4 ? 4 + ((halves ? 16.0 : 32.0) + 4) / block : bits == 8 ? 8 + 32 / (depth > 1 ? depth : 1) : bits;
}

static bool is_product(const struct layer *l)
{
    return l->kept == NULL && l->count >= NARROW_LEAST_WEIGHTS && narrow_is_matrix(l);
}

/* The part of that size's set; what is beyond the most sets shares the last. */
static uint32_t find_set(struct choice *c, int64_t depth, int64_t rows, uint32_t part)
{
    for (uint32_t i = 0; i < c->set_count; i++)
        if (c->sets[i].depth == depth && c->sets[i].rows == rows && c->sets[i].part == part)
            return i;
    if (c->set_count == MOST_SETS)
        return MOST_SETS - 1;
    c->sets[c->set_count] = (struct set){ .depth = depth, .rows = rows, .part = part };
    return c->set_count++;
}

/* How many products of that size stand before layer i. */
static uint32_t find_ordinal(const struct choice *c, uint32_t i)
{
    const struct layer *items = c->list->items, *l = &items[i];
    uint32_t before = 0;

    for (uint32_t k = 0; k < i; k++)
        before += is_product(&items[k]) && items[k].count == l->count &&
                  items[k].g->values[items[k].weight].info.dims[items[k].depth].value ==
                      l->g->values[l->weight].info.dims[l->depth].value;
    return before;
}

/* Large products are sets of their own, or of as few neighbours of one size as there is time for: what 4 bits do hangs
 * on where in the model a product stands. */
static void find_sets(struct choice *c)
{
    double weights = 0;
    uint32_t large = 0, together;

    for (uint32_t i = 0; i < c->list->count; i++)
        weights += (double)c->list->items[i].count;
    for (uint32_t i = 0; i < c->list->count; i++)
        large += is_product(&c->list->items[i]) && (double)c->list->items[i].count > LARGE * weights;
    together = 1 + large / ENOUGH_SETS;
    for (uint32_t i = 0; i < c->list->count; i++) {
        const struct layer *l = &c->list->items[i];
        const inlay_value_info *info = &l->g->values[l->weight].info;
        const bool alone = (double)l->count > LARGE * weights;

        c->set_of[i] = NO_SET;
        if (is_product(l))
            c->set_of[i] = find_set(c, info->dims[l->depth].value, info->dims[1 - l->depth].value,
                                    alone ? find_ordinal(c, i) / together : 0);
    }
}

/* ------------------------------------------------------------------ what a set does */

/* The model with the layers that have 4 of bits_of in 4 bits, and no other. */
static inlay_status build(const struct choice *c, const uint8_t *bits_of, char *path)
{
    const mixed_how *how = c->how;
    const session_source source = { .path = how->base, .fd = -1 };
    inlay_session raw = { .model = NULL };
    narrow_how narrow = *how->narrow;
    struct arena a = { 0 };
    layer_form *forms;
    layer_list list;
    inlay_status status;

    narrow.bits_of = bits_of;
    INLAY_TRY(session_load_model(&raw, &source, how->args->options, c->diag));
    INLAY_TRY(layers_find(raw.model, how->args->skip, how->args->skip_count, &a, &list, c->diag));
    forms = arena_array(&a, (size_t)list.count + 1, sizeof *forms);
    if (forms == NULL || list.count != c->list->count) {
        status = inlay_fail(c->diag, forms == NULL ? INLAY_OUT_OF_MEMORY : INLAY_INTERNAL,
                            "the layers of the model cannot be listed again");
        goto done;
    }
    INLAY_TRY(narrow_model(raw.model, &list, &narrow, forms, c->diag));
    INLAY_TRY(scratch_save(how->scratch, "set", raw.model, true, path, c->diag));
done:
    graph_model_destroy(raw.model);
    arena_deinit(&a);
    return status;
}

static void note_set(const struct choice *c, uint32_t k)
{
    const struct set *s = &c->sets[k];
    char line[160];

    (void)snprintf(line, sizeof line, "4 bits for %lld x %lld, part %u: error %.3g", (long long)s->depth,
                   (long long)s->rows, s->part, sqrt(s->harm));
    if (c->how->args->note != NULL)
        c->how->args->note(c->how->args->progress_user, line);
}

static inlay_status measure(struct choice *c, uint32_t k, uint8_t *bits_of)
{
    struct subject after = { 0 };
    char path[PATH_MAX];
    struct verdict v;
    inlay_status status;

    for (uint32_t i = 0; i < c->list->count; i++)
        bits_of[i] = c->set_of[i] == k ? 4 : FLOAT_BITS;
    INLAY_TRY(build(c, bits_of, path));
    INLAY_TRY(subject_open(path, c->how->plain, &after, c->diag));
    INLAY_TRY(judge_agreement(c->how->args->data, SAMPLES, c->how->args->metric, c->how->before, &after, &v, c->diag));
    c->sets[k].harm = v.error * v.error;
    for (uint32_t i = 0; i < c->list->count; i++)
        if (c->set_of[i] == k && c->how->narrow->known[i].energy > 0)
            c->sets[k].relative += c->how->narrow->known[i].loss / c->how->narrow->known[i].energy;
    note_set(c, k);
done:
    subject_close(&after);
    return status;
}

/* ------------------------------------------------------------------ the choice */

/* What 4 bits of the layer cost, for each bit that 8 would take. */
static double price_of(const struct choice *c, uint32_t i)
{
    const struct nibbles *q = &c->how->narrow->known[i];
    const struct set *s = &c->sets[c->set_of[i]];
    const double share = s->relative > 0 && q->energy > 0 ? q->loss / q->energy / s->relative : 0;

    return s->harm * share / (double)c->list->items[i].count;
}

static void spend(const struct choice *c, uint8_t *bits_of)
{
    const uint32_t block = c->how->narrow->block;
    double bits = 0, weights = 0;

    for (uint32_t i = 0; i < c->list->count; i++) {
        const struct layer *l = &c->list->items[i];

        bits_of[i] = c->set_of[i] == NO_SET ? 8 : 4;
        if (l->kept != NULL || l->count < NARROW_LEAST_WEIGHTS)
            continue;
        bits += mixed_bits(l, bits_of[i], block, c->how->narrow->known[i].m.halves) * (double)l->count;
        weights += (double)l->count;
    }
    for (;;) { /* the dearest of those that there is room for */
        uint32_t best = NO_SET;
        double more = 0;

        for (uint32_t i = 0; i < c->list->count; i++) {
            const struct layer *l = &c->list->items[i];
            const bool halves = c->how->narrow->known[i].m.halves;
            const double extra = (mixed_bits(l, 8, block, halves) - mixed_bits(l, 4, block, halves)) * (double)l->count;

            if (c->set_of[i] == NO_SET || bits_of[i] == 8 || bits + extra > c->how->args->most_bits * weights ||
                (best != NO_SET && price_of(c, i) <= price_of(c, best)))
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

inlay_status mixed_choose(const mixed_how *how, const layer_list *list, uint8_t *bits_of, inlay_diag *diag)
{
    struct choice c = { .how = how, .list = list, .diag = diag };
    inlay_status status = INLAY_OK;

    c.set_of = malloc(((size_t)list->count + 1) * sizeof *c.set_of);
    if (c.set_of == NULL)
        return no_memory(diag, "for %u layers", list->count);
    find_sets(&c);
    for (uint32_t k = 0; k < c.set_count; k++) {
        if (how->args->progress != NULL &&
            how->args->progress(how->args->progress_user, 0.4 + 0.2 * k / c.set_count, "choosing bits") != 0) {
            status = inlay_fail(diag, INLAY_CANCELLED, "stopped; nothing was written");
            goto done;
        }
        INLAY_TRY(measure(&c, k, bits_of));
    }
    spend(&c, bits_of);
done:
    free(c.set_of);
    return status;
}
