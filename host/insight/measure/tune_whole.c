/* Times the assignment that follows from the new measurements against the one before, and keeps the better one.
 *
 * The times of single kernels do not add up to the time of a run. A region that is split sends its values through
 * memory once more; a kernel finds its inputs in another cache than in its own measurement. So the model is run both
 * ways before the measurements are kept. If the new assignment is slower, the prices of the moved nodes are raised
 * by the difference, and the model is assigned again. If that does not help either, the measurements are dropped,
 * except of offers that nobody else has a price for: tune_prefer() then compares the runs without these providers. */
#include "base/memory.h"
#include "inlay/check.h"
#include "measure/tune.h"
#include "measure/tune_variant.h"
#include "plan/create/create.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double RAISED_SPREAD = 0.15; /* spread of a raised price */
static const double NOISE_FACTOR = 1.02;  /* tolerance for equal regions, which may use other kernels */
enum { ATTEMPTS = 3, BLOCKS = 15, LOST_BLOCKS = 11 };

/* Times blocks of both variants alternately. *out_lost: `after` is slower in most of them, so that noise is not
 * the reason. INLAY_UNSUPPORTED: one of them does not run. */
static inlay_status time_variants(struct tuning *tuning, struct program *before, struct program *after,
                                  inlay_value **inputs, double *out_before, double *out_after, bool *out_lost)
{
    uint32_t lost = 0;
    tune_variant *first = NULL, *second = NULL;
    inlay_status status = tune_variant_open(tuning, before, inputs, &first);

    if (status == INLAY_OK)
        status = tune_variant_open(tuning, after, inputs, &second);
    for (int i = 0; status == INLAY_OK && i < BLOCKS; i++) {
        status = tune_variant_block(first, NULL, out_before);
        if (status == INLAY_OK)
            status = tune_variant_block(second, NULL, out_after);
        lost += status == INLAY_OK && *out_after > *out_before;
    }
    *out_lost = lost >= LOST_BLOCKS;
    if (status == INLAY_OK) {
        *out_before = tune_variant_best(first);
        *out_after = tune_variant_best(second);
    }
    tune_variant_close(first);
    tune_variant_close(second);
    return status == INLAY_OK || status == INLAY_DEVICE_LOST ? status : INLAY_UNSUPPORTED;
}

/* Uses the caller's inputs, and zeros for missing ones, at the sizes that are priced. False: they cannot be created. */
static bool make_inputs(struct tuning *tuning, inlay_value **inputs)
{
    const struct graph *graph = tuning->session->main->graph;

    for (uint32_t i = 0; i < graph->input_count; i++) {
        const inlay_value_state *state = &tuning->graphs[0].values[graph->inputs[i]];
        inlay_value *given =
            tuning->options.inputs != NULL && i < tuning->options.input_count ? tuning->options.inputs[i] : NULL;

        if (given == NULL && (graph->values[graph->inputs[i]].info.kind != INLAY_VALUE_TENSOR ||
                              state->dtype == INLAY_STRING || state->rank == INLAY_RANK_UNKNOWN ||
                              value_create(state->dtype, state->rank, state->dims, true, &inputs[i], NULL) != INLAY_OK))
            return false;
        if (given == NULL)
            memset(value_data(inputs[i]), 0, (size_t)inputs[i]->buffer.bytes);
        else
            inputs[i] = value_ref(given);
    }
    return true;
}

static uint32_t provider_of(const struct program *program, uint32_t node)
{
    for (uint32_t i = 0; i < program->parts.region_count; i++)
        for (uint32_t k = 0; k < program->parts.regions[i].node_count; k++)
            if (program->parts.regions[i].nodes[k] == node)
                return program->parts.regions[i].provider;
    return INLAY_NONE;
}

/* The time of the program's regions at the given prices of its graph, without bodies. */
static double priced_ns(const struct program *program, const struct partition *prices)
{
    double ns = 0;

    for (uint32_t i = 0; i < program->parts.region_count; i++)
        for (uint32_t k = 0; k < program->parts.regions[i].offer_count; k++)
            ns += prices->offers[program->parts.regions[i].offers[k]].cost.ns;
    return ns;
}

/* Raises the price of one kernel in the list of new measurements. If the list does not have the kernel, adds its
 * earlier measurement, or else known_ns, with the raise. False: out of memory. */
static bool raise_price(struct tuning *tuning, cost_key key, double known_ns, double increase_ns)
{
    cost_record *fresh = cost_list_find(&tuning->list, key), raised = { .key = key, .ns = known_ns, .samples = 1 };
    const cost_record *old = cost_store_find(&tuning->store, key);

    if (fresh != NULL) {
        fresh->ns = fmax(fresh->ns, known_ns) + increase_ns;
        fresh->spread = fmaxf(fresh->spread, (float)RAISED_SPREAD);
        return true;
    }
    if (old != NULL)
        raised = *old;
    raised.ns += increase_ns;
    raised.spread = (float)RAISED_SPREAD;
    raised.when = (int64_t)time(NULL);
    return cost_list_add(&tuning->list, &raised);
}

/* Distributes missing_ns over the offers that run nodes on another provider than before, in proportion to their
 * times. */
static bool raise_changed(struct tuning *tuning, const struct program *before, const struct program *after,
                          double missing_ns)
{
    double total_ns = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t offer_index = 0; offer_index < after->parts.offer_count; offer_index++) {
            const partition_offer *offer = &after->parts.offers[offer_index];
            const cost_question question = { .graph = &after->snapshot,
                                             .provider = &after->env->providers[offer->provider],
                                             .offer = offer,
                                             .values = after->parts.profile,
                                             .max_threads = after->env->max_threads,
                                             .weight_bytes = after->parts.weight_bytes };

            if (!offer->chosen || provider_of(before, offer->nodes[0]) == offer->provider)
                continue;
            if (pass == 0)
                total_ns += offer->cost.ns;
            else if (total_ns > 0 && !raise_price(tuning, cost_key_of(&question), offer->cost.ns,
                                                  missing_ns * offer->cost.ns / total_ns))
                return false;
        }
    }
    qsort(tuning->list.records, tuning->list.count, sizeof *tuning->list.records, cost_key_order);
    return true;
}

/* Assigns the model with the new measurements. *out_program is NULL if nothing changes or the assignment fails.
 * Equal regions may still run by other kernels. */
static inlay_status reassign(struct tuning *tuning, const program_env *env, struct program **out_program)
{
    struct assignment assignment = { .graph = tuning->session->main->graph, .env = env, .shares_graph = true };
    inlay_status status = program_assign(assignment.graph, env, true, &assignment.program, NULL);

    if (status == INLAY_OK && (tuning->kernels_timed || !tune_equal_regions(tuning->session->main, assignment.program)))
        status = assign_until_stable(&assignment, NULL);
    else
        status = status == INLAY_OUT_OF_MEMORY ? status : INLAY_UNSUPPORTED;
    *out_program = status == INLAY_OK ? assignment.program : NULL;
    if (status == INLAY_OK)
        return INLAY_OK;
    program_destroy(assignment.program);
    return status == INLAY_OUT_OF_MEMORY ? status : INLAY_OK;
}

/* Copies the measurements of offers that no provider has a price for. False: out of memory. */
static bool find_only_prices(struct tuning *tuning)
{
    for (uint32_t i = 0; i < tuning->graph_count; i++) {
        const tuned_graph *tuned = &tuning->graphs[i];

        for (uint32_t offer = 0; offer < tuned->program->parts.offer_count; offer++) {
            const cost_record *record =
                tuned->sources[offer] == COST_NONE ? cost_list_find(&tuning->list, tune_key_of(tuned, offer)) : NULL;

            if (record != NULL && cost_list_find(&tuning->only, record->key) == NULL &&
                !cost_list_add(&tuning->only, record))
                return false;
        }
    }
    cost_list_merge(&tuning->only);
    return true;
}

static void drop_measurements(struct tuning *tuning)
{
    INLAY_CHECK(tuning->only.count <= tuning->list.count);
    tuning->list.count = tuning->only.count;
    if (tuning->only.count > 0)
        memcpy(tuning->list.records, tuning->only.records, tuning->only.count * sizeof *tuning->only.records);
    tuning->result.dropped = 1;
}

/* One attempt. *out_done: no further one is needed. */
static inlay_status attempt(struct tuning *tuning, const char *folder, inlay_value **inputs, bool *out_done)
{
    program_env env = tuning->session->env;
    cost_book_request open = { .folder = folder,
                               .providers = env.providers,
                               .provider_count = env.provider_count,
                               .max_threads = env.max_threads,
                               .fresh = tuning->list.records,
                               .fresh_count = tuning->list.count };
    cost_sizes sizes = tune_fresh_sizes(tuning);
    double before_ns, after_ns;
    bool lost;
    struct program *after = NULL;
    cost_book *book = NULL;
    inlay_status status = INLAY_OK;

    *out_done = true;
    INLAY_TRY(cost_book_open(&open, &book, tuning->diag));
    env.costs = book;
    env.sizes = &sizes;
    env.progress = NULL;
    env.cache_dir = NULL;
    INLAY_TRY(reassign(tuning, &env, &after));
    if (after == NULL)
        goto done;
    status = time_variants(tuning, tuning->session->main, after, inputs, &before_ns, &after_ns, &lost);
    if (status == INLAY_UNSUPPORTED) { /* a variant that does not run is not an improvement, and would not run again */
        drop_measurements(tuning);
        status = INLAY_OK;
        goto done;
    }
    if (status != INLAY_OK)
        goto done;
    tuning->result.run_before_ns = before_ns;
    tuning->result.run_after_ns = after_ns;
    if (tune_equal_regions(tuning->session->main, after))
        *out_done = !lost || after_ns <= before_ns * NOISE_FACTOR;
    else
        *out_done = after_ns <= before_ns;
    if (!*out_done) {
        double promised = priced_ns(tuning->session->main, &after->parts) - after->parts.cost_ns;

        if (!raise_changed(tuning, tuning->session->main, after, after_ns - before_ns + fmax(promised, 0)))
            status = INLAY_OUT_OF_MEMORY;
    }
done:
    if (!tuning->session->abandoned)
        program_destroy(after);
    cost_sizes_deinit(&sizes);
    cost_book_close(book);
    return status == INLAY_OUT_OF_MEMORY ? no_memory(tuning->diag, "to tune") : status;
}

inlay_status tune_whole(struct tuning *tuning, const char *folder)
{
    uint32_t count = tuning->session->main->graph->input_count;
    inlay_value **inputs = arena_array(&tuning->arena, (size_t)count + 1, sizeof(inlay_value *));
    inlay_status status = INLAY_OK;
    bool done = false;

    if (inputs == NULL || !find_only_prices(tuning))
        return no_memory(tuning->diag, "to tune");
    if (tuning->stopped || (tuning->session->env.rules != NULL && tuning->session->env.rules->saved_plan != NULL) ||
        !make_inputs(tuning, inputs))
        goto done;
    done = tuning->list.count == 0;
    for (int i = 0; status == INLAY_OK && !done && i < ATTEMPTS; i++)
        status = attempt(tuning, folder, inputs, &done);
    if (status == INLAY_OK && !done)
        drop_measurements(tuning);
    if (status == INLAY_OK)
        status = tune_prefer(tuning, folder, inputs);
done:
    for (uint32_t i = 0; i < count; i++)
        value_unref(inputs[i]);
    return status;
}
