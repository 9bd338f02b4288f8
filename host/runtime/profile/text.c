/* profile/text.c - writes the profile as text: sums by operator and provider, then the slowest steps. */
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
    say(sink, "%-28s %-12s %8s %10s %7s %10s\n", "operator", "provider", "calls", "time", "share", "GFLOP/s");
    for (uint32_t k = 0; k < count && k < SHOWN_SUMS; k++) {
        say_column(sink, sums[k].op, 28);
        say(sink, " %-12s %8.0f %10s %6.1f%% %10.1f\n", sums[k].row->provider, sums[k].calls, format_ns(sums[k].ns, a),
            report->run_ns > 0 ? sums[k].ns / report->run_ns * 100 : 0,
            sums[k].ns > 0 ? sums[k].flops / sums[k].ns : 0);
    }
    if (count > SHOWN_SUMS)
        say(sink, "... and %u more\n", count - SHOWN_SUMS);
    if (report->outside_ns > 0)
        say(sink, "%-28s %-12s %8s %10s %6.1f%% %10s\n", "(outside kernels)", "-", "-",
            format_ns(report->outside_ns, a), report->outside_ns / report->run_ns * 100, "-");
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
    if (count > 0) {
        qsort(sums, count, sizeof *sums, slower_sum);
        say(sink, "\n%-41s %8s %10s %7s\n", "module", "calls", "time", "share");
    }
    for (uint32_t k = 0; k < count && k < SHOWN_SUMS; k++) {
        say_column(sink, sums[k].op, 41);
        say(sink, " %8.0f %10s %6.1f%%\n", sums[k].calls, format_ns(sums[k].ns, a),
            report->run_ns > 0 ? sums[k].ns / report->run_ns * 100 : 0);
    }
    if (count > SHOWN_SUMS || cut)
        say(sink, "... --json and --html have every module\n");
    free(sums);
}

/* The column of names: of several nodes, their number and the name of the first. */
static void say_step(const profile_event *event, const explain_sink *sink)
{
    const partition_region *region = event->step->kind == PLAN_COPY ? NULL : event->step->step->region;
    char name[PROFILE_NAME], count[32] = "";

    if (region != NULL && event->node == INLAY_NONE && region->node_count > 1)
        (void)snprintf(count, sizeof count, "(%u nodes) ", region->node_count);
    say(sink, "%s", count);
    say_column(sink,
               count[0] != '\0' ? event->program->graph->nodes[region->nodes[0]]->info.name.data
                                : profile_name(event, name),
               36 - (uint32_t)strlen(count));
}

static void say_row(const profile_report *report, const profile_row *row, const explain_sink *sink)
{
    double ns = row->calls > 0 ? row->ns / row->calls : 0, roof = profile_roofline(report, row);
    char op[PROFILE_NAME], a[FORMATTED_BYTES], b[FORMATTED_BYTES];

    say_step(row->sample, sink);
    say(sink, " %-18.18s %-12s %10s %5.1f%% %8.1f %7.1f", profile_op(row->sample, op), row->provider,
        format_ns(row->ns, a), row->share * 100, ns > 0 ? row->flops / ns : 0, ns > 0 ? row->bytes / ns : 0);
    if (roof >= 0)
        say(sink, " %5.0f%%", roof * 100);
    else
        say(sink, " %6s", "-");
    say(sink, " %9s\n", format_bytes(row->live_bytes, b));
}

void profile_text(const profile_report *report, const explain_sink *sink)
{
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
    say(sink, "\n%-36s %-18s %-12s %10s %6s %8s %7s %6s %9s\n", "step", "operator", "provider", "time", "share",
        "GFLOP/s", "GB/s", "roof", "memory");
    for (uint32_t i = 0; i < report->row_count && i < SHOWN_STEPS; i++)
        say_row(report, order[i], sink);
    if (report->row_count > SHOWN_STEPS)
        say(sink, "... and %u more; --json and --html have all\n", report->row_count - SHOWN_STEPS);
    free(order);
}
