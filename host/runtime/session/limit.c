/* session/limit.c - the cap on a session's share of the host's memory (option memory_limit, host=BYTES).
 *
 * What is held between runs is counted where it is known exactly, and measured where it is not: weights that are read
 * from the file, packs that are mapped, and what malloc has given out while the session was made and its plans were.
 * Runs count for themselves (exec/values/run_memory.h). */
#include "base/heap.h"
#include "config/checks.h"
#include "session/session.h"
#include <stdlib.h>
#include <string.h>

uint64_t session_host_limit(const inlay_options *options)
{
    option_pair pair;
    uint64_t bytes = 0;

    for (uint32_t i = 0; options_pair(options, OPTION_memory_limit, i, &pair); i++)
        if (pair.key_bytes == 4 && memcmp(pair.key, "host", 4) == 0 && option_bytes(pair.value, &bytes))
            return bytes;
    return 0;
}

/* Weights that lie in the file. What providers copy is forgotten, and counted no more (program_release_pages). */
static uint64_t mapped_bytes(const struct graph *graph)
{
    uint64_t sum = 0, at;

    for (uint32_t value = 0; value < graph->value_count; value++) {
        const inlay_value_info *input = &graph->values[value].info;

        if (input->data != NULL && graph_blob_file(graph->model, input->data, (size_t)input->data_bytes, &at) != NULL)
            sum += input->data_bytes;
    }
    for (uint32_t node = 0; node < graph->node_count; node++)
        for (uint32_t b = 0; b < graph->nodes[node]->body_count; b++)
            sum += mapped_bytes(graph->nodes[node]->bodies[b].graph);
    return sum;
}

void session_limit_begin(inlay_session *session)
{
    if (session->env.held_bytes != NULL)
        __atomic_store_n(session->env.held_bytes, mapped_bytes(session->model->main), __ATOMIC_RELAXED);
}

uint64_t session_limit_room(void *ctx, uint64_t more, uint64_t coming, inlay_diag *over)
{
    const inlay_session *session = ctx;
    uint64_t least = __atomic_load_n(session->env.held_bytes, __ATOMIC_RELAXED) + more;

    (void)heap_count(&least, session->heap_before, 0);
    if (least < session->host_limit)
        return session->host_limit - least;
    if (over != NULL)
        (void)run_memory_limit_error(session->memory, "the model", least + coming, over);
    return 0;
}

/* The plan of a model whose inputs have fixed sizes; NULL: they have not, or there is none, which a run will say. */
static struct plan *only_plan(const inlay_session *session)
{
    const struct graph *graph = session->model->main;
    plan_input *key = calloc((size_t)graph->input_count + 1, sizeof *key);
    struct arena arena = { 0 };
    struct plan *plan = NULL;
    bool fixed = key != NULL;

    for (uint32_t i = 0; fixed && i < graph->input_count; i++) {
        const inlay_value_info *input = &graph->values[graph->inputs[i]].info;
        int64_t *dims =
            arena_array(&arena, (size_t)(input->rank == INLAY_RANK_UNKNOWN ? 0 : input->rank) + 1, sizeof *dims);

        fixed = input->kind == INLAY_VALUE_TENSOR && input->rank != INLAY_RANK_UNKNOWN && dims != NULL;
        for (uint32_t d = 0; fixed && d < input->rank; d++) {
            dims[d] = input->dims[d].value;
            fixed = input->dims[d].kind == INLAY_DIM_FIXED;
        }
        key[i] = (plan_input){ .dtype = input->dtype, .rank = input->rank, .dims = dims, .domain = INLAY_DOMAIN_HOST };
    }
    if (fixed && plan_get(session->main, key, graph->input_count, &plan, NULL) != INLAY_OK)
        plan = NULL;
    arena_deinit(&arena);
    free(key);
    return plan;
}

/* What a context keeps of a plan: calls and addresses, about as much as the plan. More than that is asked for, so that
 * what is named does. */
static uint64_t context_bytes(const struct plan *plan)
{
    return 2 * plan->arena.total_bytes + (1 << 16);
}

inlay_status session_limit_check(inlay_session *session, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    uint64_t least;
    struct plan *plan;

    if (session->env.held_bytes == NULL)
        return INLAY_OK;
    (void)heap_count(session->env.held_bytes, session->heap_before, 0);
    (void)__atomic_add_fetch(session->env.held_bytes, packs_counted(session->main->packs).mapped_bytes,
                             __ATOMIC_RELAXED);
    plan = only_plan(session);
    if (!run_memory_fits(session->memory, plan != NULL ? plan_run_bytes(plan) + context_bytes(plan) : 0, 0, &least))
        status = run_memory_limit_error(session->memory,
                                        plan != NULL ? "the model" : "the model, without what runs need,", least, diag);
    plan_unref(plan);
    return status;
}
