/* The kernels by which the providers of a session run nodes. */
#include "base/order.h"
#include "tables/table.h"
#include "explain/internal.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "plan/program/kernels.h"
#include <stdio.h>

/* "model", "timed", "only one", "option". */
static const char *facts_kernel_reason(uint32_t reason)
{
    static const char *const names[] = { [INLAY_KERNEL_ONLY] = "only one",
                                         [INLAY_KERNEL_MODEL] = "model",
                                         [INLAY_KERNEL_TIMED] = "timed",
                                         [INLAY_KERNEL_OPTION] = "option" };

    return reason < sizeof names / sizeof names[0] ? names[reason] : "";
}

struct listing {
    struct facts *facts;
    facts_graph *graph;
    const facts_region *region;
};

static const char *copy_text(struct arena *arena, const char *text)
{
    return text != NULL ? arena_string(arena, text) : NULL;
}

/* Skips reports that are invalid or from an ABI without these fields. */
static inlay_status add_kernel(void *ctx, const inlay_kernel *kernel)
{
    struct listing *listing = ctx;
    facts_kernel *copy;

    if (kernel == NULL || !INLAY_HAS(kernel, why) || kernel->name == NULL ||
        !is_listed(listing->region->region->nodes, listing->region->region->node_count, kernel->node))
        return INLAY_OK;
    copy = arena_alloc(&listing->facts->arena, sizeof *copy);
    if (copy == NULL)
        return INLAY_OUT_OF_MEMORY;
    *copy = (facts_kernel){ .name = copy_text(&listing->facts->arena, kernel->name),
                            .runner_up = copy_text(&listing->facts->arena, kernel->runner_up),
                            .why = copy_text(&listing->facts->arena, kernel->why),
                            .ns = kernel->ns,
                            .runner_up_ns = kernel->runner_up_ns,
                            .reason = kernel->reason,
                            .error = INLAY_HAS(kernel, error) ? kernel->error : 0,
                            .error_bound = INLAY_HAS(kernel, error_bound) ? kernel->error_bound : 0 };
    if (copy->name == NULL)
        return INLAY_OUT_OF_MEMORY;
    INLAY_CHECK(kernel->node < listing->graph->program->graph->node_count); /* it is listed in a region */
    listing->graph->nodes[kernel->node].kernel = copy;
    return INLAY_OK;
}

static inlay_status list_region_kernels(struct facts *facts, facts_graph *graph, const facts_region *region)
{
    struct listing listing = { facts, graph, region };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;

    if (region->step != NULL)
        status = program_list_kernels((struct program *)(uintptr_t)graph->program, region->step, graph->parts->profile,
                                      add_kernel, &listing, &diag);
    if (status != INLAY_OK && status != INLAY_OUT_OF_MEMORY && facts->session->log.write != NULL) {
        char line[sizeof diag.text + 64];

        (void)snprintf(line, sizeof line, "the list of kernels is incomplete: %s", diag.text);
        facts->session->log.write(facts->session->log.user, INLAY_LOG_WARNING, line);
    }
    return status == INLAY_OUT_OF_MEMORY ? status : INLAY_OK;
}

inlay_status facts_find_kernels(struct facts *facts, inlay_diag *diag)
{
    for (uint32_t i = 0; i < facts->graph_count; i++)
        for (uint32_t region = 0; region < facts->graphs[i]->region_count; region++)
            if (list_region_kernels(facts, facts->graphs[i], &facts->graphs[i]->regions[region]) != INLAY_OK)
                return no_memory(diag, "to explain the session");
    return INLAY_OK;
}

enum { KERNEL, TAKES, BY, RUNNER_UP, RUNNER_UP_TAKES, NODE, COLUMNS };
static const table_column kernel_columns[COLUMNS] = {
    [KERNEL] = { "kernel", NULL, TABLE_NAME },
    [TAKES] = { "takes", NULL, TABLE_NUMBER },
    [BY] = { "by", NULL, TABLE_NAME },
    [RUNNER_UP] = { "runner-up", NULL, TABLE_NAME },
    [RUNNER_UP_TAKES] = { "takes", NULL, TABLE_NUMBER },
    [NODE] = { "node", NULL, TABLE_TEXT },
};

static void add_row(struct table *table, const facts_kernel *kernel, const inlay_node_info *node)
{
    char text[FORMATTED_BYTES];

    table_row(table);
    table_text(table, KERNEL, kernel->name);
    table_say(table, TAKES, "%s", kernel->ns >= 0 ? format_ns(kernel->ns, text) : "-");
    table_text(table, BY, facts_kernel_reason(kernel->reason));
    table_text(table, RUNNER_UP, kernel->runner_up != NULL ? kernel->runner_up : "-");
    if (kernel->runner_up != NULL && kernel->runner_up_ns >= 0)
        table_say(table, RUNNER_UP_TAKES, "%s", format_ns(kernel->runner_up_ns, text));
    table_say(table, NODE, "%s %s", node->op_type.data, node->name.data);
    if (kernel->error > 0)
        table_add(table, NODE, "  (error %.1e of the largest result", kernel->error);
    if (kernel->error > 0 && kernel->error_bound > 0)
        table_add(table, NODE, ", bound %.0e", kernel->error_bound);
    if (kernel->error > 0)
        table_add(table, NODE, ")");
    if (kernel->why != NULL)
        table_add(table, NODE, "  (%s)", kernel->why);
}

void text_kernels(const struct facts *facts, const explain_view *view)
{
    struct table table = { .columns = kernel_columns, .column_count = COLUMNS, .indent = 1 };

    for (uint32_t i = 0; i < facts->graph_count; i++)
        for (uint32_t node = 0; node < facts->graphs[i]->program->graph->node_count; node++)
            if (facts->graphs[i]->nodes[node].kernel != NULL)
                add_row(&table, facts->graphs[i]->nodes[node].kernel, facts_node_info(facts->graphs[i], node));
    say(view->sink,
        table.row_count > 0 ? "\nkernels\n" : "\nno provider of this session has several kernels for a node\n");
    table_write(&table, view->sink);
    table_deinit(&table);
}

void json_kernel(json_out *json, const facts_kernel *kernel)
{
    json_open(json, "kernel", '{', true);
    json_text(json, "name", kernel->name);
    if (kernel->ns >= 0)
        json_number(json, "ns", kernel->ns);
    json_text(json, "by", facts_kernel_reason(kernel->reason));
    if (kernel->runner_up != NULL) {
        json_text(json, "runner_up", kernel->runner_up);
        if (kernel->runner_up_ns >= 0)
            json_number(json, "runner_up_ns", kernel->runner_up_ns);
    }
    if (kernel->error > 0)
        json_number(json, "error", kernel->error);
    if (kernel->error_bound > 0)
        json_number(json, "error_bound", kernel->error_bound);
    if (kernel->why != NULL)
        json_text(json, "why", kernel->why);
    json_close(json);
}
