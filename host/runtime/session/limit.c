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

/* Weights that lie in the file. What providers copy is forgotten, and counted no more (program_forget). */
static uint64_t mapped_bytes(const struct graph *g)
{
    uint64_t sum = 0, at;

    for (uint32_t v = 0; v < g->value_count; v++) {
        const inlay_value_info *x = &g->values[v].info;

        if (x->data != NULL && graph_blob_file(g->model, x->data, (size_t)x->data_bytes, &at) != NULL)
            sum += x->data_bytes;
    }
    for (uint32_t n = 0; n < g->node_count; n++)
        for (uint32_t b = 0; b < g->nodes[n]->body_count; b++)
            sum += mapped_bytes(g->nodes[n]->bodies[b].graph);
    return sum;
}

void session_limit_begin(inlay_session *s)
{
    if (s->env.held_bytes != NULL)
        __atomic_store_n(s->env.held_bytes, mapped_bytes(s->model->main), __ATOMIC_RELAXED);
}

uint64_t session_limit_room(void *ctx, uint64_t more, uint64_t coming, inlay_diag *over)
{
    const inlay_session *s = ctx;
    uint64_t least = __atomic_load_n(s->env.held_bytes, __ATOMIC_RELAXED) + more;

    (void)heap_count(&least, s->heap_before, 0);
    if (least < s->host_limit)
        return s->host_limit - least;
    if (over != NULL)
        (void)run_memory_over(s->memory, "the model", least + coming, over);
    return 0;
}

/* The plan of a model whose inputs have fixed sizes; NULL: they have not, or there is none, which a run will say. */
static struct plan *only_plan(const inlay_session *s)
{
    const struct graph *g = s->model->main;
    plan_input *key = calloc((size_t)g->input_count + 1, sizeof *key);
    struct arena a = { 0 };
    struct plan *p = NULL;
    bool fixed = key != NULL;

    for (uint32_t i = 0; fixed && i < g->input_count; i++) {
        const inlay_value_info *x = &g->values[g->inputs[i]].info;
        int64_t *dims = arena_array(&a, (size_t)(x->rank == INLAY_RANK_UNKNOWN ? 0 : x->rank) + 1, sizeof *dims);

        fixed = x->kind == INLAY_VALUE_TENSOR && x->rank != INLAY_RANK_UNKNOWN && dims != NULL;
        for (uint32_t d = 0; fixed && d < x->rank; d++) {
            dims[d] = x->dims[d].value;
            fixed = x->dims[d].kind == INLAY_DIM_FIXED;
        }
        key[i] = (plan_input){ .dtype = x->dtype, .rank = x->rank, .dims = dims, .domain = INLAY_DOMAIN_HOST };
    }
    if (fixed && plan_get(s->main, key, g->input_count, &p, NULL) != INLAY_OK)
        p = NULL;
    arena_deinit(&a);
    free(key);
    return p;
}

/* What a context keeps of a plan: calls and addresses, about as much as the plan. More than that is asked for, so that
 * what is named does. */
static uint64_t context_bytes(const struct plan *p)
{
    return 2 * p->a.total_bytes + (1 << 16);
}

inlay_status session_limit_check(inlay_session *s, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    uint64_t least;
    struct plan *p;

    if (s->env.held_bytes == NULL)
        return INLAY_OK;
    (void)heap_count(s->env.held_bytes, s->heap_before, 0);
    (void)__atomic_add_fetch(s->env.held_bytes, packs_counted(s->main->packs).mapped_bytes, __ATOMIC_RELAXED);
    p = only_plan(s);
    if (!run_memory_fits(s->memory, p != NULL ? plan_run_bytes(p) + context_bytes(p) : 0, 0, &least))
        status =
            run_memory_over(s->memory, p != NULL ? "the model" : "the model, without what runs need,", least, diag);
    plan_unref(p);
    return status;
}
