#include "plan/create/undo.h"
#include "partition/assign/saved.h"
#include "passes/type_guard.h"
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ all graphs of a model */

static void list_programs(struct programs *all, struct program *p)
{
    all->list[all->count++] = p;
    for (uint32_t i = 0; i < p->body_count; i++)
        list_programs(all, p->bodies[i]);
}

bool programs_open(struct programs *all, struct program *p)
{
    uint32_t count = program_count(p);
    bool saved = true;

    *all = (struct programs){ 0 };
    all->list = arena_array(&all->a, count, sizeof(struct program *));
    all->saved = arena_array(&all->a, count, sizeof *all->saved);
    if (all->list == NULL || all->saved == NULL)
        return false;
    list_programs(all, p);
    for (uint32_t i = 0; saved && i < count; i++)
        saved = history_save(all->list[i]->graph, &all->a, &all->saved[i]);
    return saved;
}

void programs_restore(const struct programs *all)
{
    for (uint32_t i = 0; i < all->count; i++)
        history_restore(all->list[i]->graph, &all->saved[i]);
}

bool programs_complete(const struct programs *all)
{
    graph_model *model = all->list[0]->model;
    bool holds = graph_finish(model->main, NULL) == INLAY_OK && graph_infer(model, NULL) == INLAY_OK;

    for (uint32_t i = 0; i < all->count && holds; i++)
        holds = type_guard_keeps(all->list[i]->graph, all->saved[i].values, all->saved[i].value_count);
    if (!holds)
        programs_restore(all);
    return holds;
}

void undo_report(const struct program *p, const graph_node *n, const char *why)
{
    char text[320];

    if (p->env->log == NULL)
        return;
    (void)snprintf(text, sizeof text, "what pass %s made of '%.100s' (%.40s) was undone: %.120s", n->made_by,
                   n->info.name.data, n->info.op_type.data, why);
    p->env->log(p->env->log_ctx, INLAY_LOG_INFO, text);
}

/* The nodes of p's graph, which stay there while rewrites are undone; NULL: no memory. */
static graph_node **list_nodes(const struct program *p, struct arena *a)
{
    return arena_copy(a, p->graph->nodes, ((size_t)p->graph->node_count + 1) * sizeof(graph_node *));
}

/* ------------------------------------------------------------------ what no provider may run */

static bool was_declined(const struct program *p, uint32_t node)
{
    for (uint32_t o = 0; o < p->parts.offer_count; o++)
        for (uint32_t k = 0; p->parts.offers[o].declined && k < p->parts.offers[o].node_count; k++)
            if (p->parts.offers[o].nodes[k] == node)
                return true;
    return false;
}

static bool undo_uncovered_in(struct program *p, struct arena *a)
{
    const part_request request = program_request(p);
    const uint8_t *open = p->parts.profile != NULL ? part_uncovered(&request, &p->parts, a) : NULL;
    const uint32_t count = p->graph->node_count;
    graph_node **nodes = list_nodes(p, a);
    bool any = false;

    for (uint32_t n = 0; open != NULL && nodes != NULL && n < count; n++) {
        if (!open[n] || !history_undo(p->graph, nodes[n]->rewrite))
            continue;
        undo_report(p, nodes[n],
                    was_declined(p, n) ? "it was declined late, and nobody else runs it"
                                       : "no provider that may run it knows it");
        any = true;
    }
    return any;
}

bool undo_uncovered(struct program *p)
{
    struct programs all;
    bool any = false;

    if (programs_open(&all, p))
        for (uint32_t i = 0; i < all.count; i++)
            any |= undo_uncovered_in(all.list[i], &all.a);
    any = any && programs_complete(&all);
    arena_deinit(&all.a);
    return any;
}

/* ------------------------------------------------------------------ what a plan names */

/* Undoes what passes made of nodes that the plan names, and what they made that it does not. */
static bool undo_unplanned(struct program *p, const names_table *planned, struct arena *a)
{
    const uint32_t count = p->graph->node_count;
    graph_node **nodes = list_nodes(p, a);
    bool any = false;

    for (uint32_t n = 0; nodes != NULL && n < count; n++) {
        const inlay_str *name = &nodes[n]->info.name;
        const graph_node *was;
        bool wanted = graph_node_is_host(p->graph, nodes[n]) ||
                      names_find(planned, name->data, (size_t)name->bytes) != NAMES_NONE;

        for (uint32_t i = 0; wanted && (was = history_replaced(p->graph, nodes[n]->rewrite, i)) != NULL; i++)
            wanted = strcmp(was->info.name.data, name->data) == 0 ||
                     names_find(planned, was->info.name.data, (size_t)was->info.name.bytes) == NAMES_NONE;
        if (wanted || !history_undo(p->graph, nodes[n]->rewrite))
            continue;
        undo_report(p, nodes[n], "the saved plan names the nodes that were there before");
        any = true;
    }
    return any;
}

bool undo_for_plan(struct program *p)
{
    const part_job job = { .path = p->path, .request = program_request(p) };
    saved_plan *plan = NULL;
    struct programs all = { 0 };
    bool any = false;

    if (saved_plan_open(&job, &plan, NULL) == INLAY_OK && programs_open(&all, p))
        for (uint32_t i = 0; i < all.count; i++) {
            names_table planned = { 0 };

            if (saved_plan_names(plan, all.list[i]->path, &planned))
                any |= undo_unplanned(all.list[i], &planned, &all.a);
            names_deinit(&planned);
        }
    any = any && programs_complete(&all);
    arena_deinit(&all.a);
    saved_plan_close(plan);
    return any;
}
