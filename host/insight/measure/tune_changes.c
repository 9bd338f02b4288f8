/* The effect of inlay_tune(): the cost of the assignment before and after, and the nodes that change their provider. */
#include "base/memory.h"
#include "inlay/check.h"
#include "measure/tune.h"

/* Prices the main graph's offers with a cost book; the result lives in the tuning's arena. */
static bool price_again(struct tuning *tuning, const cost_book *book, struct partition *out)
{
    const tuned_graph *tuned = &tuning->graphs[0];
    const struct program *program = tuned->program;

    *out = program->parts;
    out->profile = tuned->values;
    out->offers = arena_array(&tuning->arena, (size_t)program->parts.offer_count + 1, sizeof *out->offers);
    for (uint32_t offer = 0; out->offers != NULL && offer < program->parts.offer_count; offer++) {
        cost_question question = { .graph = &program->snapshot,
                                   .provider = &program->env->providers[program->parts.offers[offer].provider],
                                   .offer = &program->parts.offers[offer],
                                   .values = tuned->values,
                                   .max_threads = program->env->max_threads,
                                   .weight_bytes = program->parts.weight_bytes };
        out->offers[offer] = program->parts.offers[offer];
        cost_price_offer(book, &question, &out->offers[offer]);
    }
    return out->offers != NULL;
}

/* The cost of the session's own assignment at these prices. */
static double assignment_ns(const struct tuning *tuning, const cost_book *book, const struct partition *priced)
{
    const struct program *program = tuning->graphs[0].program;
    double ns = 0;

    for (uint32_t i = 0; i < program->parts.region_count; i++) {
        const partition_region *region = &program->parts.regions[i];
        if (region->provider != INLAY_NONE)
            ns += cost_launch_ns(book, &program->env->providers[region->provider]);
        for (uint32_t k = 0; k < region->offer_count; k++)
            ns += priced->offers[region->offers[k]].cost.ns;
    }
    for (uint32_t i = 0; i < program->parts.copy_count; i++) {
        const partition_copy *copy = &program->parts.copies[i];
        ns += cost_copy_ns(book, program->env->providers, program->env->provider_count, copy->from_domain,
                           copy->to_domain, cost_value_bytes(&tuning->graphs[0].values[copy->value]));
    }
    return ns;
}

/* [node_count] the offer that runs each node, INLAY_NONE for the host. NULL: out of memory. */
static uint32_t *offer_of_nodes(struct tuning *tuning, const struct partition *parts)
{
    uint32_t nodes = tuning->graphs[0].program->graph->node_count;
    uint32_t *offer = arena_array(&tuning->arena, (size_t)nodes + 1, sizeof *offer);

    for (uint32_t node = 0; offer != NULL && node < nodes; node++)
        offer[node] = INLAY_NONE;
    for (uint32_t i = 0; offer != NULL && i < parts->region_count; i++) {
        const partition_region *region = &parts->regions[i];
        for (uint32_t k = 0; k < region->offer_count; k++)
            for (uint32_t m = 0; m < parts->offers[region->offers[k]].node_count; m++)
                offer[parts->offers[region->offers[k]].nodes[m]] = region->offers[k];
    }
    return offer;
}

static inlay_status report_changes(struct tuning *tuning, const struct partition *priced, const struct partition *after)
{
    const struct program *program = tuning->graphs[0].program;
    uint32_t *old_offer = offer_of_nodes(tuning, &program->parts), *new_offer = offer_of_nodes(tuning, after);

    if (old_offer == NULL || new_offer == NULL)
        return no_memory(tuning->diag, "to tune");
    for (uint32_t node = 0; node < program->graph->node_count; node++) {
        const partition_offer *from = old_offer[node] == INLAY_NONE ? NULL : &priced->offers[old_offer[node]];
        const partition_offer *to = new_offer[node] == INLAY_NONE ? NULL : &priced->offers[new_offer[node]];
        inlay_tune_change change = { .struct_size = sizeof change };

        if (from == NULL || to == NULL || from->provider == to->provider)
            continue;
        INLAY_CHECK(from->provider < program->env->provider_count && to->provider < program->env->provider_count);
        tuning->result.changed_count++;
        change.node = program->graph->nodes[node]->info.name.data;
        change.op_type = program->graph->nodes[node]->info.op_type.data;
        change.from = program->env->providers[from->provider].name;
        change.to = program->env->providers[to->provider].name;
        change.from_ns = from->cost.ns;
        change.to_ns = to->cost.ns;
        if (tuning->options.change != NULL)
            tuning->options.change(tuning->options.change_user, &change);
    }
    return INLAY_OK;
}

inlay_status tune_compare(struct tuning *tuning, const char *folder)
{
    const struct program *program = tuning->graphs[0].program;
    const program_env *env = program->env;
    partition_rules rules = env->rules != NULL ? *env->rules : (partition_rules){ 0 };
    cost_book_request open = { .folder = folder,
                               .providers = env->providers,
                               .provider_count = env->provider_count,
                               .max_threads = env->max_threads };
    partition_request request = { .graph = program->graph,
                                  .snapshot = &program->snapshot,
                                  .providers = env->providers,
                                  .provider_count = env->provider_count,
                                  .max_threads = env->max_threads,
                                  .rules = &rules };
    struct partition before, now, after;
    cost_book *book = NULL;
    inlay_status status = INLAY_OK;

    if (tuning->runs.left_out != NULL)
        rules.left_out = tuning->runs.left_out;
    INLAY_TRY(cost_book_open(&open, &book, tuning->diag));
    if (!price_again(tuning, env->costs, &before) || !price_again(tuning, book, &now)) {
        status = no_memory(tuning->diag, "to tune");
        goto done;
    }
    request.costs = book;
    tuning->result.before_ns = assignment_ns(tuning, env->costs, &before);
    tuning->result.measured_ns = assignment_ns(tuning, book, &now);
    INLAY_TRY(partition_again(&request, &now, &tuning->arena, &after, tuning->diag));
    tuning->result.after_ns = after.cost_ns;
    INLAY_TRY(report_changes(tuning, &now, &after));
done:
    cost_book_close(book);
    return status;
}
