#include "plan/create/undo.h"
#include "inlay/check.h"
#include "inlay/execution.h"
#include "partition/assign/saved.h"
#include "passes/type_guard.h"
#include <stdio.h>
#include <string.h>

static void list_programs(struct programs *all, struct program *program)
{
    all->list[all->count++] = program;
    for (uint32_t i = 0; i < program->body_count; i++)
        list_programs(all, program->bodies[i]);
}

bool programs_open(struct programs *all, struct program *program)
{
    uint32_t count = program_count(program);
    bool saved = true;

    *all = (struct programs){ 0 };
    all->list = arena_array(&all->arena, count, sizeof(struct program *));
    all->saved = arena_array(&all->arena, count, sizeof *all->saved);
    if (all->list == NULL || all->saved == NULL)
        return false;
    list_programs(all, program);
    INLAY_CHECK(all->count == count);
    for (uint32_t i = 0; saved && i < count; i++)
        saved = history_save(all->list[i]->graph, &all->arena, &all->saved[i]);
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
    bool consistent = graph_finish(model->main, NULL) == INLAY_OK && graph_infer(model, NULL) == INLAY_OK;

    for (uint32_t i = 0; i < all->count && consistent; i++)
        consistent = type_guard_keeps(all->list[i]->graph, all->saved[i].values, all->saved[i].value_count);
    if (!consistent)
        programs_restore(all);
    return consistent;
}

void undo_report(const struct program *program, const graph_node *node, const char *why)
{
    char text[320];

    if (program->env->log == NULL)
        return;
    (void)snprintf(text, sizeof text, "pass %s: rewrite of '%.100s' (%.40s) was undone: %.120s", node->made_by,
                   node->info.name.data, node->info.op_type.data, why);
    program->env->log(program->env->log_ctx, INLAY_LOG_INFO, text);
}

/* The nodes of the program's graph, copied because undoing rewrites changes the graph; a body may have none. NULL: out
 * of memory. */
static graph_node **list_nodes(const struct program *program, struct arena *arena)
{
    const size_t count = program->graph->node_count;
    graph_node **nodes = arena_array(arena, count + 1, sizeof *nodes);

    if (nodes != NULL && count > 0)
        memcpy(nodes, program->graph->nodes, count * sizeof *nodes);
    return nodes;
}

static bool was_declined(const struct program *program, uint32_t node)
{
    for (uint32_t offer = 0; offer < program->parts.offer_count; offer++)
        for (uint32_t k = 0; program->parts.offers[offer].declined && k < program->parts.offers[offer].node_count; k++)
            if (program->parts.offers[offer].nodes[k] == node)
                return true;
    return false;
}

static bool undo_uncovered_in(struct program *program, struct arena *arena)
{
    const partition_request request = program_request(program);
    const uint8_t *open = program->parts.profile != NULL ? partition_uncovered(&request, &program->parts, arena) : NULL;
    const uint32_t count = program->graph->node_count;
    graph_node **nodes = list_nodes(program, arena);
    bool any = false;

    for (uint32_t node = 0; open != NULL && nodes != NULL && node < count; node++) {
        if (!open[node] || !history_undo(program->graph, nodes[node]->rewrite))
            continue;
        undo_report(program, nodes[node],
                    was_declined(program, node) ? "its provider declined it, and no other provider runs it"
                                                : "no provider that may run it supports it");
        any = true;
    }
    return any;
}

bool undo_uncovered(struct program *program)
{
    struct programs all;
    bool any = false;

    if (programs_open(&all, program))
        for (uint32_t i = 0; i < all.count; i++)
            any |= undo_uncovered_in(all.list[i], &all.arena);
    any = any && programs_complete(&all);
    arena_deinit(&all.arena);
    return any;
}

/* Does a node that the rewrite created have the name? The last one has that of the node that it replaces. */
static bool has_name(graph_node *const *nodes, uint32_t count, int64_t rewrite, const inlay_str *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (nodes[i]->rewrite == rewrite && strcmp(nodes[i]->info.name.data, name->data) == 0)
            return true;
    return false;
}

/* Undoes rewrites that removed nodes named in the saved plan, and rewrites that created nodes not named in it. */
static bool undo_unplanned(struct program *program, const names_table *planned, struct arena *arena)
{
    const uint32_t count = program->graph->node_count;
    graph_node **nodes = list_nodes(program, arena);
    bool any = false;

    for (uint32_t node = 0; nodes != NULL && node < count; node++) {
        const inlay_str *name = &nodes[node]->info.name;
        const graph_node *was;
        bool wanted = graph_node_is_host(program->graph, nodes[node]) ||
                      names_find(planned, name->data, (size_t)name->bytes) != NAMES_NONE;

        for (uint32_t i = 0; wanted && (was = history_replaced(program->graph, nodes[node]->rewrite, i)) != NULL; i++)
            wanted = has_name(nodes, count, nodes[node]->rewrite, &was->info.name) ||
                     names_find(planned, was->info.name.data, (size_t)was->info.name.bytes) == NAMES_NONE;
        if (wanted || !history_undo(program->graph, nodes[node]->rewrite))
            continue;
        undo_report(program, nodes[node], "the saved plan names the original nodes");
        any = true;
    }
    return any;
}

bool undo_for_plan(struct program *program)
{
    const partition_job job = { .path = program->path, .request = program_request(program) };
    saved_plan *plan = NULL;
    struct programs all = { 0 };
    bool any = false;

    if (saved_plan_open(&job, &plan, NULL) == INLAY_OK && programs_open(&all, program))
        for (uint32_t i = 0; i < all.count; i++) {
            names_table planned = { 0 };

            if (saved_plan_names(plan, all.list[i]->path, &planned))
                any |= undo_unplanned(all.list[i], &planned, &all.arena);
            names_deinit(&planned);
        }
    any = any && programs_complete(&all);
    arena_deinit(&all.arena);
    saved_plan_close(plan);
    return any;
}
