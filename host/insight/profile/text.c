/* profile/text.c - writes the profile as text: sums by operator and provider, then the slowest steps. */
#include "tables/table.h"
#include "profile/internal.h"
#include <stdlib.h>
#include <string.h>

enum { SHOWN_STEPS = 30, SHOWN_SUMS = 20 };

struct sum {
    const profile_row *row; /* one of the rows */
    char op[PROFILE_NAME];  /* or the module */
    double ns, flops, calls;
};

static int slower_row(const void *a, const void *b)
{
    double x = (*(const profile_row *const *)a)->ns, y = (*(const profile_row *const *)b)->ns;

    return (x < y) - (x > y);
}

static int slower_sum(const void *a, const void *b)
{
    double x = ((const struct sum *)a)->ns, y = ((const struct sum *)b)->ns;

    return (x < y) - (x > y);
}

/* Writes sums over rows with the same operator and provider, and the rest of the run, so that the shares add up. Steps
 * that run bodies and regions with reported kernels are omitted, because the rows within them are counted. */
static void say_sums(const profile_report *report, const explain_sink *sink)
{
    enum { OP, PROVIDER, CALLS, TIME, SHARE, SPEED, COLUMNS };
    static const table_column columns[COLUMNS] = {
        [OP] = { "operator", NULL, TABLE_NAME },   [PROVIDER] = { "provider", NULL, TABLE_NAME },
        [CALLS] = { "calls", NULL, TABLE_NUMBER }, [TIME] = { "time", NULL, TABLE_NUMBER },
        [SHARE] = { "share", NULL, TABLE_NUMBER }, [SPEED] = { "GFLOP/s", NULL, TABLE_NUMBER },
    };
    struct table table = { .columns = columns, .column_count = COLUMNS };
    struct sum *sums = calloc((size_t)report->row_count + 1, sizeof *sums);
    uint32_t count = 0;
    char a[FORMATTED_BYTES];

    for (uint32_t i = 0; sums != NULL && i < report->row_count; i++) {
        const profile_row *row = &report->rows[i];
        char op[PROFILE_NAME];
        uint32_t k = 0;

        if (!row->leaf)
            continue;
        (void)profile_op(row->sample, op);
        while (k < count && (strcmp(sums[k].op, op) != 0 || strcmp(sums[k].row->provider, row->provider) != 0))
            k++;
        if (k == count) {
            sums[count].row = row;
            memcpy(sums[count++].op, op, sizeof op);
        }
        sums[k].ns += row->ns;
        sums[k].calls += row->calls;
        sums[k].flops += row->flops * row->calls;
    }
    if (sums == NULL)
        return;
    qsort(sums, count, sizeof *sums, slower_sum);
    for (uint32_t k = 0; k < count && k < SHOWN_SUMS; k++) {
        table_row(&table);
        table_text(&table, OP, sums[k].op);
        table_text(&table, PROVIDER, sums[k].row->provider);
        table_say(&table, CALLS, "%.0f", sums[k].calls);
        table_say(&table, TIME, "%s", format_ns(sums[k].ns, a));
        table_say(&table, SHARE, "%.1f%%", report->run_ns > 0 ? sums[k].ns / report->run_ns * 100 : 0);
        table_say(&table, SPEED, "%.1f", sums[k].ns > 0 ? sums[k].flops / sums[k].ns : 0);
    }
    if (count > SHOWN_SUMS)
        table_line(&table, "... and %u more", count - SHOWN_SUMS);
    if (report->outside_ns > 0) {
        table_row(&table);
        table_text(&table, OP, "(outside kernels)");
        table_text(&table, PROVIDER, "-");
        table_text(&table, CALLS, "-");
        table_say(&table, TIME, "%s", format_ns(report->outside_ns, a));
        table_say(&table, SHARE, "%.1f%%", report->outside_ns / report->run_ns * 100);
        table_text(&table, SPEED, "-");
    }
    table_write(&table, sink);
    table_deinit(&table);
    free(sums);
}

/* Sums the leaf rows by the first `parts` parts of their modules, up to `most` of these. *out_cut: some have more. */
static uint32_t sum_modules(const profile_report *report, uint32_t parts, uint32_t most, struct sum *sums,
                            bool *out_cut)
{
    uint32_t count = 0;

    *out_cut = false;
    for (uint32_t i = 0; i < report->row_count; i++) {
        const profile_row *row = &report->rows[i];
        char module[PROFILE_NAME];
        uint32_t k = 0;

        if (!row->leaf || profile_module(row->sample, module) == NULL)
            continue;
        *out_cut = graph_scope_cut(module, parts) || *out_cut;
        while (k < count && strcmp(sums[k].op, module) != 0)
            k++;
        if (k == most)
            continue;
        if (k == count) {
            sums[count++] = (struct sum){ .ns = 0 };
            memcpy(sums[k].op, module, sizeof module);
        }
        sums[k].ns += row->ns;
        sums[k].calls += row->calls;
    }
    return count;
}

/* Writes sums over the leaf rows of each module of the program that the model was exported from, if the file names
 * modules: at the deepest level that fits a table. */
static void say_modules(const profile_report *report, const explain_sink *sink)
{
    enum { MODULE, CALLS, TIME, SHARE, COLUMNS };
    static const table_column columns[COLUMNS] = {
        [MODULE] = { "module", NULL, TABLE_NAME },
        [CALLS] = { "calls", NULL, TABLE_NUMBER },
        [TIME] = { "time", NULL, TABLE_NUMBER },
        [SHARE] = { "share", NULL, TABLE_NUMBER },
    };
    struct table table = { .columns = columns, .column_count = COLUMNS };
    const uint32_t most = report->row_count + GRAPH_SCOPE_ROWS + 1;
    struct sum *sums = calloc(most, sizeof *sums);
    uint32_t count, parts = 1;
    bool cut = false;
    char a[FORMATTED_BYTES];

    if (sums == NULL)
        return;
    do
        count = sum_modules(report, parts++, GRAPH_SCOPE_ROWS + 1, sums, &cut);
    while (count <= GRAPH_SCOPE_ROWS && cut);
    parts -= count > GRAPH_SCOPE_ROWS && parts > 2 ? 2 : 1;
    count = sum_modules(report, parts, most, sums, &cut);
    qsort(sums, count, sizeof *sums, slower_sum);
    for (uint32_t k = 0; k < count && k < SHOWN_SUMS; k++) {
        table_row(&table);
        table_text(&table, MODULE, sums[k].op);
        table_say(&table, CALLS, "%.0f", sums[k].calls);
        table_say(&table, TIME, "%s", format_ns(sums[k].ns, a));
        table_say(&table, SHARE, "%.1f%%", report->run_ns > 0 ? sums[k].ns / report->run_ns * 100 : 0);
    }
    if (count > SHOWN_SUMS || cut)
        table_line(&table, "... --json and --html have every module");
    say(sink, "%s", count > 0 ? "\n" : "");
    table_write(&table, sink);
    table_deinit(&table);
    free(sums);
}

enum { STEP, OP, PROVIDER, TIME, SHARE, SPEED, BANDWIDTH, ROOF, MEMORY, COLUMNS };
static const table_column step_columns[COLUMNS] = {
    [STEP] = { "step", NULL, TABLE_NAME },         [OP] = { "operator", NULL, TABLE_NAME },
    [PROVIDER] = { "provider", NULL, TABLE_NAME }, [TIME] = { "time", NULL, TABLE_NUMBER },
    [SHARE] = { "share", NULL, TABLE_NUMBER },     [SPEED] = { "GFLOP/s", NULL, TABLE_NUMBER },
    [BANDWIDTH] = { "GB/s", NULL, TABLE_NUMBER },  [ROOF] = { "roof", NULL, TABLE_NUMBER },
    [MEMORY] = { "memory", NULL, TABLE_NUMBER },
};

/* The name; of several nodes, their number and the name of the first. */
static void add_name(struct table *table, const profile_event *event)
{
    const partition_region *region = event->step->kind == PLAN_COPY ? NULL : event->step->step->region;
    char name[PROFILE_NAME];

    if (region != NULL && event->node == INLAY_NONE && region->node_count > 1)
        table_say(table, STEP, "(%u nodes) %s", region->node_count,
                  event->program->graph->nodes[region->nodes[0]]->info.name.data);
    else
        table_text(table, STEP, profile_name(event, name));
}

static void add_row(struct table *table, const profile_report *report, const profile_row *row)
{
    double ns = row->calls > 0 ? row->ns / row->calls : 0, roof = profile_roofline(report, row);
    char op[PROFILE_NAME], a[FORMATTED_BYTES];

    table_row(table);
    add_name(table, row->sample);
    table_text(table, OP, profile_op(row->sample, op));
    table_text(table, PROVIDER, row->provider);
    table_say(table, TIME, "%s", format_ns(row->ns, a));
    table_say(table, SHARE, "%.1f%%", row->share * 100);
    table_say(table, SPEED, "%.1f", ns > 0 ? row->flops / ns : 0);
    table_say(table, BANDWIDTH, "%.1f", ns > 0 ? row->bytes / ns : 0);
    table_text(table, ROOF, "-");
    if (roof >= 0)
        table_say(table, ROOF, "%.0f%%", roof * 100);
    table_say(table, MEMORY, "%s", format_bytes(row->live_bytes, a));
}

void profile_text(const profile_report *report, const explain_sink *sink)
{
    struct table table = { .columns = step_columns, .column_count = COLUMNS };
    const profile_row **order = calloc((size_t)report->row_count + 1, sizeof *order);
    char a[FORMATTED_BYTES], b[FORMATTED_BYTES];
    bool beyond = false;

    for (uint32_t i = 0; i < report->row_count; i++)
        beyond = beyond || profile_roofline(report, &report->rows[i]) > 1;
    say(sink, "a run took %s (median of %u)", format_ns(report->run_ns, a), report->profile->run_count);
    say(sink, ", planned memory %s (lower bound %s)\n", format_bytes(report->slab_bytes, a),
        format_bytes(report->lower_bound_bytes, b));
    if (report->peak_flops > 0)
        say(sink, "the machine: %.0f GFLOP/s, %.1f GB/s as measured", report->peak_flops / 1e9,
            report->peak_bytes / 1e9);
    if (report->peak_integers > 0)
        say(sink, "; %.0f Gop/s with 8-bit integers", report->peak_integers / 1e9);
    if (report->peak_halves > 0)
        say(sink, "; %.0f GFLOP/s with 16-bit floats", report->peak_halves / 1e9);
    if (report->peak_flops > 0)
        say(sink, "\n");
    if (beyond)
        say(sink, "roof above 100%%: the kernel computes fewer operations than the operator has (Winograd)\n");
    if (report->profile->dropped > 0)
        say(sink, "%llu steps of later runs were not stored (max_events)\n",
            (unsigned long long)report->profile->dropped);
    say(sink, "\n");
    say_sums(report, sink);
    say_modules(report, sink);
    if (order == NULL)
        return;
    for (uint32_t i = 0; i < report->row_count; i++)
        order[i] = &report->rows[i];
    qsort(order, report->row_count, sizeof *order, slower_row);
    say(sink, "\n");
    for (uint32_t i = 0; i < report->row_count && i < SHOWN_STEPS; i++)
        add_row(&table, report, order[i]);
    if (report->row_count > SHOWN_STEPS)
        table_line(&table, "... and %u more; --json and --html have all", report->row_count - SHOWN_STEPS);
    table_write(&table, sink);
    table_deinit(&table);
    free(order);
}
