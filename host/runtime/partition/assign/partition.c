/* Partitions one graph: collects offers, prices them, chooses, enforces limits, and forms regions. */
#include "base/memory.h"
#include "inlay/check.h"
#include "inlay/execution.h"
#include "partition/assign/saved.h"
#include <string.h>

/* Providers read elements of weights for the cost of an offer: without the release the pages of all weights would be in
 * memory after the last offer. */
static void release_weights(const struct graph *graph, const partition_offer *offer)
{
    for (uint32_t k = 0; k < offer->node_count; k++) {
        const inlay_node_info *node = &graph->nodes[offer->nodes[k]]->info;

        for (uint32_t i = 0; i < node->input_count; i++)
            if (node->inputs[i] != INLAY_NONE && graph->values[node->inputs[i]].info.data != NULL)
                graph_blob_release_pages(graph->model, graph->values[node->inputs[i]].info.data,
                                         (size_t)graph->values[node->inputs[i]].info.data_bytes);
    }
}

/* Prices every offer at the given shapes. */
static void price_all(const partition_request *request, struct partition *partition)
{
    for (uint32_t i = 0; i < partition->offer_count; i++) {
        partition_offer *offer = &partition->offers[i];
        cost_question question = { .graph = request->snapshot,
                                   .provider = &request->providers[offer->provider],
                                   .offer = offer,
                                   .values = partition->profile,
                                   .max_threads = request->max_threads,
                                   .weight_bytes = partition->weight_bytes };

        cost_price_offer(request->costs, &question, offer);
        if (request->rules != NULL && request->rules->max_weight_bytes > 0)
            release_weights(request->graph, offer);
    }
}

/* Chooses among the priced offers and forms regions. candidates: [node_count] nodes that a provider must run. If
 * out_bodies is not NULL, nodes with bodies that a provider offers become candidates, and *out_bodies is set if there
 * are any. If it is NULL, the host runs them. */
static inlay_status choose_from(const partition_request *request, uint8_t *candidates, bool *out_bodies,
                                struct arena *arena, struct partition *out, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    struct arena scratch = { 0 };
    uint8_t *usable = arena_array(&scratch, (size_t)out->offer_count + 1, sizeof *usable);
    uint32_t *choice = arena_array(&scratch, (size_t)request->graph->node_count + 1, sizeof *choice);
    uint32_t uncovered;
    struct problem problem;

    if (usable == NULL || choice == NULL) {
        status = no_memory(diag, "to partition graph '%s'", request->graph->name);
        goto done;
    }
    INLAY_TRY(partition_apply_rules(request, out, &scratch, usable, diag));
    if (out_bodies != NULL)
        *out_bodies = partition_cover_bodies(request->graph, out, usable, candidates);
    else
        partition_drop_bodies(request->graph, out, usable);
    if (!problem_init(&problem, request, out, candidates, usable, &scratch) ||
        !partition_solve(&problem, choice, &uncovered)) {
        status = no_memory(diag, "to partition graph '%s'", request->graph->name);
        goto done;
    }
    if (uncovered != INLAY_NONE) {
        status = report_uncovered_node(request, out, candidates, usable, uncovered, &scratch, diag);
        goto done;
    }
    /* Amounts in bytes are exact, so no margin protects regions from being divided. */
    if (!partition_by_priority(request) && partition_has_margins(request) &&
        partition_objective(request) != OBJECTIVE_MEMORY &&
        (!drop_marginal_moves(&problem, choice) || !keep_regions_whole(&problem, choice) ||
         !compare_single_providers(&problem, choice))) {
        status = no_memory(diag, "to partition graph '%s'", request->graph->name);
        goto done;
    }
    INLAY_TRY(partition_keep_limits(&problem, choice, diag));
    INLAY_TRY(partition_form_regions(&problem, choice, arena, diag));
done:
    arena_deinit(&scratch);
    return status;
}

/* If limits leave no memory for a provider to run a node with bodies, the host runs it. */
static inlay_status choose(const partition_request *request, uint8_t *candidates, struct arena *arena,
                           struct partition *out, inlay_diag *diag)
{
    inlay_diag why = INLAY_DIAG_INIT;
    bool bodies = false;
    inlay_status status = choose_from(request, candidates, &bodies, arena, out, &why);

    if (bodies && (status == INLAY_UNSUPPORTED || status == INLAY_LIMIT_EXCEEDED)) {
        for (uint32_t i = 0; i < request->graph->node_count; i++)
            candidates[i] &= !graph_node_is_host(request->graph, request->graph->nodes[i]);
        return choose_from(request, candidates, NULL, arena, out, diag);
    }
    if (status != INLAY_OK && diag != NULL && diag->struct_size >= sizeof why) {
        why.struct_size = diag->struct_size;
        *diag = why;
    }
    return status;
}

/* Infers the shapes for compile if the guessed sizes are inconsistent (for example a past, a present, and a mask for
 * both); guesses are then used for costs only. Providers that pack weights when they compile need consistent shapes.
 * Size 1 for every unknown symbol usually is consistent; otherwise *out is NULL. False: out of memory. */
static bool infer_consistent_shapes(const partition_request *request, struct arena *arena,
                                    const inlay_value_state **out)
{
    cost_sizes sizes = { .assumed = request->sizes->assumed,
                         .assumed_count = request->sizes->assumed_count,
                         .inputs = request->sizes->inputs,
                         .input_count = request->sizes->input_count,
                         .ones = true };

    *out = cost_shapes(request->graph, request->snapshot, &sizes, arena);
    cost_sizes_deinit(&sizes);
    if (*out == NULL)
        return false;
    if (sizes.conflict)
        *out = NULL;
    return true;
}

/* Collects the offers of every provider, and sets the shapes to price them at. */
static inlay_status collect_and_shape(const partition_request *request, const uint8_t *candidates, struct arena *arena,
                                      struct partition *out, inlay_diag *diag)
{
    inlay_status status;

    *out = (struct partition){ .boundaries = request->boundaries, .iterations = request->iterations };
    if (candidates == NULL)
        return no_memory(diag, "to assess graph '%s'", request->graph->name);
    status = collect_offers(request, candidates, arena, out, diag);
    if (status != INLAY_OK)
        return status;
    out->weight_bytes = cost_weight_bytes(request->snapshot);
    out->profile = cost_shapes(request->graph, request->snapshot, request->sizes, arena);
    out->compiled_for = out->profile;
    if (out->profile != NULL && request->sizes != NULL && request->sizes->conflict &&
        !infer_consistent_shapes(request, arena, &out->compiled_for))
        return no_memory(diag, "to partition graph '%s'", request->graph->name);
    return out->profile == NULL ? no_memory(diag, "to partition graph '%s'", request->graph->name) : INLAY_OK;
}

inlay_status partition_graph(const partition_request *request, struct arena *arena, struct partition *out,
                             inlay_diag *diag)
{
    uint8_t *candidates = partition_candidates(request->graph, arena);
    inlay_status status = collect_and_shape(request, candidates, arena, out, diag);
    bool repriced = false;

    if (status != INLAY_OK)
        return status;
    price_all(request, out);
    status = choose(request, candidates, arena, out, diag);
    if (status != INLAY_OK)
        return status;
    status = partition_price_regions(request, out, &repriced);
    if (status != INLAY_OK)
        return no_memory(diag, "to partition graph '%s'", request->graph->name);
    return repriced ? choose(request, candidates, arena, out, diag) : INLAY_OK;
}

/* Fails if the saved plan contradicts rules that were added later. */
static inlay_status check_followed(struct problem *problem, const char *path, const uint32_t *choice, inlay_diag *diag)
{
    partition_verdict verdict;

    for (uint32_t node = 0; node < problem->nodes; node++)
        if (choice[node] != INLAY_NONE && !problem->usable[choice[node]])
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "option plan: %s gives node '%s' of graph '%s' to %s, "
                              "against pin, forbid or no_cpu",
                              path, problem->graph->nodes[node]->info.name.data, problem->graph->name,
                              problem->request->providers[problem->partition->offers[choice[node]].provider].name);
    verdict = partition_evaluate(problem, choice);
    if (!verdict.runs)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "option plan: %s has groups that wait for each other in graph "
                          "'%s'",
                          path, problem->graph->name);
    if (!verdict.feasible)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                          "option plan: %s does not keep memory_limit or max_partitions in "
                          "graph '%s'",
                          path, problem->graph->name);
    return INLAY_OK;
}

inlay_status partition_follow(const saved_plan *plan, const partition_job *job, inlay_diag *diag)
{
    const partition_request *request = &job->request;
    uint8_t *candidates = partition_candidates(request->graph, job->arena), *usable = NULL;
    inlay_status status = collect_and_shape(request, candidates, job->arena, job->out, diag);
    uint32_t *choice = NULL;
    struct arena scratch = { 0 };
    struct problem problem;

    if (status != INLAY_OK)
        return status;
    job->out->unpriced = true;
    usable = arena_array(&scratch, (size_t)job->out->offer_count + 1, sizeof *usable);
    choice = arena_array(&scratch, (size_t)request->graph->node_count + 1, sizeof *choice);
    if (usable == NULL || choice == NULL) {
        status = no_memory(diag, "to partition graph '%s'", request->graph->name);
        goto done;
    }
    INLAY_TRY(saved_plan_follow(plan, job, candidates, &scratch, choice, diag));
    INLAY_TRY(partition_apply_rules(request, job->out, &scratch, usable, diag));
    for (uint32_t node = 0; node < request->graph->node_count; node++)
        candidates[node] |= choice[node] != INLAY_NONE; /* nodes with bodies that the plan assigns to a provider */
    if (!problem_init(&problem, request, job->out, candidates, usable, &scratch)) {
        status = no_memory(diag, "to partition graph '%s'", request->graph->name);
        goto done;
    }
    INLAY_TRY(check_followed(&problem, request->rules->saved_plan, choice, diag));
    INLAY_TRY(partition_form_regions(&problem, choice, job->arena, diag));
done:
    arena_deinit(&scratch);
    return status;
}

/* Restores the choice from the regions. */
static void restore_choice(const struct partition *partition, uint32_t *choice)
{
    for (uint32_t i = 0; i < partition->region_count; i++)
        for (uint32_t k = 0; k < partition->regions[i].offer_count; k++) {
            const uint32_t offer = partition->regions[i].offers[k];

            INLAY_CHECK(offer < partition->offer_count);
            for (uint32_t m = 0; m < partition->offers[offer].node_count; m++)
                choice[partition->offers[offer].nodes[m]] = offer;
        }
}

inlay_status partition_form_again(const partition_job *job, inlay_diag *diag)
{
    const partition_request *request = &job->request;
    struct arena scratch = { 0 };
    uint8_t *candidates = partition_candidates(request->graph, &scratch);
    uint8_t *usable = arena_array(&scratch, (size_t)job->out->offer_count + 1, sizeof *usable);
    uint32_t *choice = arena_array(&scratch, (size_t)request->graph->node_count + 1, sizeof *choice);
    inlay_status status = INLAY_OUT_OF_MEMORY;
    struct problem problem;

    if (candidates == NULL || usable == NULL || choice == NULL)
        goto done;
    memset(choice, 0xff, request->graph->node_count * sizeof *choice);
    restore_choice(job->out, choice);
    for (uint32_t node = 0; node < request->graph->node_count; node++)
        candidates[node] |= choice[node] != INLAY_NONE;
    job->out->boundaries = request->boundaries;
    job->out->iterations = request->iterations;
    if (!problem_init(&problem, request, job->out, candidates, usable, &scratch))
        goto done;
    job->out->copy_count = 0;
    job->out->cost_ns = job->out->launch_ns = job->out->once_ns = 0;
    status = partition_form_regions(&problem, choice, job->arena, diag);
done:
    arena_deinit(&scratch);
    return status == INLAY_OUT_OF_MEMORY ? no_memory(diag, "to partition graph '%s'", request->graph->name) : status;
}

inlay_status partition_again(const partition_request *request, const struct partition *base, struct arena *arena,
                             struct partition *out, inlay_diag *diag)
{
    uint8_t *candidates = partition_candidates(request->graph, arena);

    *out = (struct partition){ .offer_count = base->offer_count,
                               .refusals = base->refusals,
                               .refusal_count = base->refusal_count,
                               .profile = base->profile,
                               .compiled_for = base->compiled_for,
                               .weight_bytes = base->weight_bytes,
                               .boundaries = request->boundaries != NULL ? request->boundaries : base->boundaries,
                               .iterations = request->boundaries != NULL ? request->iterations : base->iterations };
    if (base->offer_count > 0)
        out->offers = arena_copy(arena, base->offers, base->offer_count * sizeof *out->offers);
    if (candidates == NULL || (out->offers == NULL && base->offer_count > 0))
        return no_memory(diag, "to partition graph '%s'", request->graph->name);
    for (uint32_t i = 0; i < out->offer_count; i++)
        out->offers[i].chosen = false;
    if (base->unpriced)
        price_all(request, out);
    return choose(request, candidates, arena, out, diag);
}
