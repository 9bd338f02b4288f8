/* Convolutions and products: the choice among the kernels of the table. */
#include "choice/kernels.h"
#include "choice/trust.h"

/* How many times as long a layer may take for not having a pack of its own. */
static const double KN_WORTH_A_PACK = 1.25, KN_WORTH_A_MATRIX = 1.5;

uint32_t kn_find(const char *name)
{
    for (uint32_t k = 0; k < KN_COUNT; k++)
        if (strcmp(kn_kernels[k].name, name) == 0)
            return k;
    return KN_COUNT;
}

/* ------------------------------------------------------------------ the choice */

static void put(kn_choice *choice, uint32_t at, uint8_t kernel, double ns)
{
    for (uint32_t i = choice->count; i > at; i--) {
        choice->kernel[i] = choice->kernel[i - 1];
        choice->ns[i] = choice->ns[i - 1];
    }
    choice->kernel[at] = kernel;
    choice->ns[at] = ns;
    choice->count++;
}

static void take_out(kn_choice *choice, uint32_t at)
{
    choice->count--;
    for (uint32_t i = at; i < choice->count; i++) {
        choice->kernel[i] = choice->kernel[i + 1];
        choice->ns[i] = choice->ns[i + 1];
    }
}

static void to_front(kn_choice *choice, uint32_t at)
{
    uint8_t kernel = choice->kernel[at];
    double ns = choice->ns[at];

    take_out(choice, at);
    put(choice, 0, kernel, ns);
}

/* Kernels with short chains, where there are any. */
static void leave_strict(kn_choice *choice)
{
    kn_choice strict = *choice;

    strict.count = 0;
    for (uint32_t i = 0; i < choice->count; i++)
        if (kn_kernels[choice->kernel[i]].is_strict)
            put(&strict, strict.count, choice->kernel[i], choice->ns[i]);
    if (strict.count == 0)
        return;
    if (strict.count < choice->count && choice->why == NULL)
        strict.why = "precision strict adds few terms in a row, as only loops of our own do";
    *choice = strict;
}

/* By what each is expected to take. */
static void by_model(rg_build *build, const rg_group *group, const kn_case *layer, kn_choice *choice)
{
    for (uint32_t k = 0; k < KN_COUNT; k++) {
        const char *why = NULL;
        uint32_t at = 0;
        double ns;

        if ((k >= KN_PACKED) != layer->product)
            continue;
        if (!kn_kernels[k].runs(build, group, layer, &why)) {
            choice->why = why != NULL ? why : choice->why;
            continue;
        }
        ns = kn_kernels[k].ns(build, group, layer) + kn_gates_ns(build, group, kn_kernels[k].gate_ns) +
             kn_turns_ns(build, group, layer, k);
        while (at < choice->count && choice->ns[at] <= ns)
            at++;
        put(choice, at, k, ns);
    }
    if (build->state->strict)
        leave_strict(choice);
    choice->source = choice->count > 1 ? KN_BY_MODEL : KN_ONLY;
}

static double timing(const rg_build *build, const uint64_t key[2])
{
    if (build->attempt != NULL)
        return build->attempt->find(build->attempt->ctx, key);
    return build->state->timings->find(build->state->host->ctx, build->compiled->timings, key, sizeof(kn_key_words));
}

/* By what they took, where at least two were timed: those that were not go behind. */
static void by_time(const rg_build *build, kn_choice *choice)
{
    kn_choice timed = *choice;
    bool left[KN_COUNT] = { false };
    uint32_t known = 0;

    if (build->attempt == NULL && build->compiled->timings == NULL)
        return;
    timed.count = 0;
    for (uint32_t i = 0; i < choice->count; i++) {
        uint64_t word[2];
        uint32_t at = 0;
        double ns;

        kn_key(choice, choice->kernel[i], word);
        ns = timing(build, word);
        left[i] = ns < 0;
        if (ns < 0)
            continue;
        while (at < timed.count && timed.ns[at] <= ns)
            at++;
        put(&timed, at, choice->kernel[i], ns);
        known++;
    }
    if (known < 2)
        return;
    for (uint32_t i = 0; i < choice->count; i++)
        if (left[i])
            put(&timed, timed.count, choice->kernel[i], choice->ns[i]);
    timed.source = KN_BY_TIME;
    *choice = timed;
}

/* The best of our own in the place of oneDNN's, where those are not worth making. */
static void spare_library(const rg_build *build, kn_choice *choice)
{
    for (uint32_t i = 0; build->spares_library && choice->source == KN_BY_MODEL && i < choice->count; i++) {
        const uint8_t k = choice->kernel[i];

        if (k == KN_LIBRARY || k == KN_BLOCKS || k == KN_LIBRARY_WINOGRAD)
            continue;
        if (i > 0) {
            to_front(choice, i);
            choice->why = "oneDNN's would save less than making its code takes";
        }
        return;
    }
}

/* The time of a kernel, plus the price of the memory for its packed weights: the original weights stay as well. */
static double priced_ns(const rg_build *build, const kn_case *layer, uint8_t kernel, double ns)
{
    const double points = (double)kn_kernels[kernel].points;

    return ns +
           build->state->pack_price * points * points * (double)(layer->window.in * layer->window.out) * sizeof(float);
}

/* Option pack_price: orders the kernels by time plus the price of memory. */
static void spare_memory(const rg_build *build, const kn_case *layer, kn_choice *choice)
{
    kn_choice spared = *choice;

    if (build->state->pack_price <= 0 || layer->product || kn_is_narrow(build))
        return;
    spared.count = 0;
    for (uint32_t i = 0; i < choice->count; i++) {
        const double ns = priced_ns(build, layer, choice->kernel[i], choice->ns[i]);
        uint32_t at = spared.count;

        while (at > 0 && priced_ns(build, layer, spared.kernel[at - 1], spared.ns[at - 1]) > ns)
            at--;
        put(&spared, at, choice->kernel[i], choice->ns[i]);
    }
    if (spared.kernel[0] != choice->kernel[0])
        spared.why = "by option pack_price, transformed weights would save too little for the memory that they take";
    *choice = spared;
}

/* The kernel whose pack the weights have already, where it costs little: weights that several layers have in common, as
 * the heads of a detector on images of all sizes do, or layers of other sizes, of a sentence one word longer. A pack
 * for each would be several times the weights in memory. */
static void share_pack(const rg_build *build, kn_choice *choice)
{
    const double worth = choice->kernel[0] >= KN_PACKED ? KN_WORTH_A_MATRIX : KN_WORTH_A_PACK;
    const uint32_t kernel = kn_packs_find(build);

    for (uint32_t i = 0; choice->source == KN_BY_MODEL && i < choice->count && choice->ns[i] <= worth * choice->ns[0];
         i++) {
        if (choice->kernel[i] != kernel)
            continue;
        if (i > 0) {
            to_front(choice, i);
            choice->why = "its weights are packed so for another layer, or other sizes";
        }
        return;
    }
}

/* One for each kind, for option reproducible: what is not listed comes behind these. */
static void by_kind(kn_choice *choice)
{
    static const uint8_t kinds[] = { KN_PACKED,  KN_BATCHED, KN_DEPTHWISE, KN_TILES, KN_GROUPS,
                                     KN_LIBRARY, KN_INNER,   KN_PLAIN,     KN_MATMUL };

    for (size_t k = 0; k < sizeof kinds; k++)
        for (uint32_t i = 0; i < choice->count; i++)
            if (choice->kernel[i] == kinds[k]) {
                to_front(choice, i);
                choice->why = "option reproducible takes it whatever the sizes are";
                choice->source = choice->count > 1 ? KN_BY_OPTION : KN_ONLY;
                return;
            }
}

static void choose(rg_build *build, const rg_group *group, const kn_case *layer, kn_choice *choice)
{
    *choice = (kn_choice){ .op = group->op };
    by_model(build, group, layer, choice);
    if (choice->count < 2)
        return;
    kn_layer_key(build, group, layer, choice->key);
    if (build->state->reproducible && build->state->kernel == KN_COUNT)
        by_kind(choice);
    else if (build->attempt == NULL || build->attempt->find != NULL) {
        by_time(build, choice);
        spare_library(build, choice);
        spare_memory(build, layer, choice);
        share_pack(build, choice);
    } else if (build->attempt->order < choice->count &&
               choice->ns[build->attempt->order] < KN_PLAUSIBLE * choice->ns[0]) {
        choice->moved = build->attempt->order > 0;
        to_front(choice, build->attempt->order);
    }
    for (uint32_t i = 0; build->state->kernel != KN_COUNT && i < choice->count; i++) {
        if (choice->kernel[i] != build->state->kernel)
            continue;
        to_front(choice, i);
        choice->source = KN_BY_OPTION;
        return;
    }
}

/* Does the error of the first have a bound? Otherwise it is taken out. */
static inlay_status check_error(rg_build *build, const kn_case *layer, kn_choice *choice, bool *out_fine)
{
    const uint8_t kernel = choice->kernel[0];
    const uint32_t constant = build->compiled->values[build->op->in[1]].constant;
    const tile_trust **trust = &choice->trusts[kernel];
    inlay_status status = INLAY_OK;

    *out_fine = kn_kernels[kernel].points == 0;
    if (*out_fine)
        return INLAY_OK;
    INLAY_TRY(rg_constant_trust(build->compiled, &build->compiled->constants[constant], &layer->weights,
                                kn_kernels[kernel].points, trust, build->diag));
    *out_fine = tiles_are_trusted(build->state, *trust);
    if (*out_fine)
        return INLAY_OK;
    take_out(choice, 0);
    choice->moved = false;
    choice->source = choice->count < 2 ? KN_ONLY : choice->source == KN_BY_OPTION ? KN_BY_MODEL : choice->source;
done:
    return status;
}

inlay_status kn_remember(rg_build *build, const kn_choice *choice)
{
    inlay_instance *instance = build->instance;

    if (!rg_scratch_grow(instance->memory, &instance->choices, instance->choice_count, &build->choice_capacity,
                         sizeof *instance->choices))
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", build->op->name);
    instance->choices[instance->choice_count++] = *choice;
    return INLAY_OK;
}

inlay_status kn_lower(rg_build *build, const rg_group *group, const kn_case *layer)
{
    inlay_status status = INLAY_OK;
    kn_choice choice;

    choose(build, group, layer, &choice);
    while (choice.count > 0) {
        bool done = false, fine;

        INLAY_TRY(check_error(build, layer, &choice, &fine));
        if (!fine)
            continue;
        INLAY_TRY(kn_kernels[choice.kernel[0]].lower(build, group, layer, &done));
        if (done) {
            if (build->attempt == NULL)
                kn_packs_note(build, choice.kernel[0]);
            return kn_remember(build, &choice);
        }
        take_out(&choice, 0);
        choice.source = choice.count > 1 ? choice.source : KN_ONLY;
    }
    if (build->state->strict && !layer->product) { /* where no loop of our own can be after all */
        bool done = false;

        choice = (kn_choice){ .op = group->op, .count = 1, .source = KN_ONLY, .kernel = { KN_LIBRARY } };
        INLAY_TRY(kn_kernels[KN_LIBRARY].lower(build, group, layer, &done));
        if (done)
            return kn_remember(build, &choice);
    }
    status = inlay_fail(build->diag, INLAY_UNSUPPORTED, "node '%s': %s has no kernel for this %s", build->op->name,
                        dn_in_use->title, layer->product ? "product" : "convolution");
done:
    return status;
}
