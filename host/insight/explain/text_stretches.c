/* One line per partition (a stretch in the code): provider, time, runner-up. Bodies of control flow follow below
 * their node. */
#include "explain/text.h"
#include "inlay/check.h"
#include <inttypes.h>
#include <string.h>

enum { SHOWN_STRETCHES = 24 };

enum { PART, PROVIDER, NODES, CONTENT, PREDICTED, MEASURED, RATIO, PRICE, IN, OUT, RUNNER_UP, COLUMNS };
static const table_column columns[COLUMNS] = {
    [PART] = { "part", NULL, TABLE_NAME },
    [PROVIDER] = { "provider", NULL, TABLE_NAME },
    [NODES] = { "nodes", NULL, TABLE_NUMBER },
    [CONTENT] = { "content", NULL, TABLE_NAME },
    [PREDICTED] = { "predicted", NULL, TABLE_NUMBER },
    [MEASURED] = { "measured", NULL, TABLE_NUMBER },
    [RATIO] = { "ratio", NULL, TABLE_NUMBER },
    [PRICE] = { "price", NULL, TABLE_NAME },
    [IN] = { "in", NULL, TABLE_NUMBER },
    [OUT] = { "out", NULL, TABLE_NUMBER },
    [RUNNER_UP] = { "runner-up", NULL, TABLE_TEXT },
};

/* The content of a stretch: the node's operator and name, or "12 Conv, 11 Relu, Add". */
static void add_content(struct table *table, const facts_graph *graph, uint32_t first, uint32_t count)
{
    enum { KINDS = 8, WIDTH = 40 };
    struct {
        const char *op;
        uint32_t count;
    } kinds[KINDS];
    uint32_t kind_count = 0, nodes = 0;
    size_t at = 0;

    for (uint32_t i = first; i < first + count; i++) {
        const partition_region *region = graph->regions[i].region;
        for (uint32_t node = 0; node < region->node_count; node++, nodes++) {
            const char *op = facts_node_info(graph, region->nodes[node])->op_type.data;
            uint32_t k = 0;
            while (k < kind_count && strcmp(kinds[k].op, op) != 0)
                k++;
            if (k == KINDS)
                continue;
            if (k == kind_count) {
                kinds[k].op = op;
                kinds[kind_count++].count = 0;
            }
            kinds[k].count++;
            /* Sorted by frequency; on a tie by first occurrence. */
            for (; k > 0 && kinds[k].count > kinds[k - 1].count; k--) {
                uint32_t swapped = kinds[k].count;
                const char *name = kinds[k].op;
                kinds[k] = kinds[k - 1];
                kinds[k - 1].op = name;
                kinds[k - 1].count = swapped;
            }
        }
    }
    INLAY_CHECK(first + count <= graph->region_count);
    if (nodes == 1) {
        const inlay_node_info *info = facts_node_info(graph, graph->regions[first].region->nodes[0]);

        table_say(table, CONTENT, "%s %s", info->op_type.data, info->name.data);
        return;
    }
    for (uint32_t k = 0; k < kind_count; k++) {
        char piece[96];

        if (kinds[k].count == 1)
            (void)snprintf(piece, sizeof piece, "%s%.60s", k > 0 ? ", " : "", kinds[k].op);
        else
            (void)snprintf(piece, sizeof piece, "%s%" PRIu32 " %.60s", k > 0 ? ", " : "", kinds[k].count, kinds[k].op);
        if (at + strlen(piece) + (k + 1 < kind_count ? 3 : 0) > WIDTH && k > 0) {
            table_add(table, CONTENT, " ..");
            break;
        }
        table_add(table, CONTENT, "%s", piece);
        at += strlen(piece);
    }
}

static void add_runner_up(struct table *table, const struct text_page *page, const facts_stretch *stretch)
{
    const facts_runner_up *runner_up = &stretch->runner_up;
    char a[FORMATTED_BYTES];

    if (stretch->provider == INLAY_NONE)
        return;
    if (runner_up->kind == RUNNER_UP_NONE || runner_up->provider == INLAY_NONE) {
        table_text(table, RUNNER_UP, "no other provider");
        return;
    }
    if (runner_up->kind == RUNNER_UP_UNPRICED)
        table_say(table, RUNNER_UP, "%s, without a price", facts_provider_name(page->facts, runner_up->provider));
    else if (runner_up->extra_ns < 0.5 && runner_up->extra_ns > -0.5)
        table_say(table, RUNNER_UP, "%s, %s", facts_provider_name(page->facts, runner_up->provider),
                  runner_up->offers_differ ? "the same in all" : "a tie");
    else
        table_say(table, RUNNER_UP, "%s %s%s", facts_provider_name(page->facts, runner_up->provider),
                  runner_up->kind == RUNNER_UP_ESTIMATE ? "about " : "", format_ns_change(runner_up->extra_ns, a));
    if (runner_up->node_count < stretch->node_count)
        table_add(table, RUNNER_UP, " (%" PRIu32 " of %" PRIu32 ")", runner_up->node_count, stretch->node_count);
}

/* Columns that need a wide page. */
static int traffic_columns(const struct text_page *page)
{
    return page->measured ? 128 : 110;
}
static bool has_traffic(const struct text_page *page)
{
    return page->all || page->sink->columns >= traffic_columns(page);
}

/* The predicted time; "*" marks the provider's price of the region as a whole. */
static void add_predicted(struct table *table, double ns, bool region_price)
{
    char a[FORMATTED_BYTES];

    table_say(table, PREDICTED, "%s%s", format_ns(ns, a), region_price ? "*" : "");
}

static void add_measured(struct table *table, const struct text_page *page, double measured_ns, double predicted_ns)
{
    char a[FORMATTED_BYTES];

    if (!page->measured)
        return;
    table_say(table, MEASURED, "%s", measured_ns < 0 ? "-" : format_ns(measured_ns, a));
    table_say(table, RATIO, "%s", text_ratio(measured_ns, predicted_ns, a));
}

static void add_traffic(struct table *table, uint64_t in, uint64_t out)
{
    char a[FORMATTED_BYTES];

    table_say(table, IN, "%s", format_bytes(in, a));
    table_say(table, OUT, "%s", format_bytes(out, a));
}

static void add_stretch(struct table *table, const struct text_page *page, const facts_graph *graph,
                        const facts_stretch *stretch, int indent)
{
    table_row(table);
    table_say(table, PART, "%*s%4" PRIu32, indent, "", stretch->first);
    table_text(table, PROVIDER, facts_provider_name(page->facts, stretch->provider));
    table_whole(table, NODES, stretch->node_count);
    add_content(table, graph, stretch->first, stretch->count);
    if (stretch->source == COST_NONE && stretch->provider != INLAY_NONE)
        table_text(table, PREDICTED, "-");
    else
        add_predicted(table, stretch->ns, stretch->region_price);
    add_measured(table, page, stretch->measured_ns, stretch->ns);
    if (page->source == INLAY_NONE)
        table_text(table, PRICE, stretch->provider == INLAY_NONE ? "bodies" : cost_source_name(stretch->source));
    if (has_traffic(page))
        add_traffic(table, stretch->bytes_in, stretch->bytes_out);
    add_runner_up(table, page, stretch);
    if (stretch->runner_up.why != NULL)
        table_line(table, "%*s%s not chosen: %s", indent + 8, "",
                   facts_provider_name(page->facts, stretch->runner_up.provider), stretch->runner_up.why);
}

/* Adds a size to the last cell of a region; nothing if it is 0. */
static void add_size(struct table *table, const char *what, uint64_t bytes, const char *where)
{
    const char *text = table->failed ? NULL : table->rows[table->row_count - 1].cells[RUNNER_UP].text;
    char a[FORMATTED_BYTES];

    if (bytes > 0)
        table_add(table, RUNNER_UP, "%s%s %s%s", text != NULL ? ", " : "", what, format_bytes(bytes, a), where);
}

static void add_regions(struct table *table, const struct text_page *page, const facts_graph *graph,
                        const facts_stretch *stretch, int indent)
{
    for (uint32_t i = stretch->first; stretch->count > 1 && i < stretch->first + stretch->count; i++) {
        const facts_region *region = &graph->regions[i];

        table_row(table);
        table_say(table, PART, "%*s%4" PRIu32, indent + 2, "", i);
        add_content(table, graph, i, 1);
        add_predicted(table, region->ns, region->region_price);
        add_measured(table, page, region->measured_ns, region->ns);
        table_text(table, PRICE, cost_source_name(region->source));
        add_traffic(table, region->bytes_in, region->bytes_out);
        add_size(table, "resident", region->resident_bytes, "");
        add_size(table, "weights", region->weights.resident, " in memory");
        add_size(table, "weights", region->weights.streamed, " read in each run");
        add_size(table, "table", region->weights.on_demand, "");
        add_size(table, "workspace", region->workspace_bytes, "");
    }
}

/* The stretches that get a line: all with a time of at least `least`, and the first `extra` of those with a time from
 * `nearly` to `least`. */
struct selection {
    double least, nearly;
    uint32_t extra;
};

/* Selects the SHOWN_STRETCHES most expensive stretches by bisection of their times, which needs no memory. */
static struct selection select_stretches(const struct text_page *page, const facts_graph *graph)
{
    double low = 0, high = graph->ns > 0 ? graph->ns * 2 : 1;
    uint32_t above_high = 0;

    if (page->all || graph->partition_count <= SHOWN_STRETCHES)
        return (struct selection){ 0 };
    for (int step = 0; step < 60; step++) {
        double middle = (low + high) / 2;
        uint32_t above = 0;
        for (uint32_t i = 0; i < graph->partition_count; i++)
            above += graph->stretches[i].ns >= middle;
        if (above > SHOWN_STRETCHES) {
            low = middle;
        } else {
            high = middle;
            above_high = above;
        }
    }
    return (struct selection){ high, low, SHOWN_STRETCHES - above_high };
}

static bool is_selected(struct selection *selection, const facts_stretch *stretch)
{
    if (stretch->ns >= selection->least)
        return true;
    if (stretch->ns < selection->nearly || selection->extra == 0)
        return false;
    selection->extra--;
    return true;
}

static double weight_of(const facts_region *region)
{
    return region->measured_ns >= 0 ? region->measured_ns : region->ns;
}

/* The most expensive regions of a long stretch, on one line. */
static void add_most_expensive(struct table *table, const facts_graph *graph, const facts_stretch *stretch, int indent)
{
    enum { NAMED = 3 };
    uint32_t top[NAMED], count = 0;
    char text[NAMED * 240] = "";
    size_t used = 0;
    char a[FORMATTED_BYTES];

    for (uint32_t i = stretch->first; i < stretch->first + stretch->count; i++) {
        uint32_t at = count;
        while (at > 0 && weight_of(&graph->regions[top[at - 1]]) < weight_of(&graph->regions[i]))
            at--;
        if (at == NAMED)
            continue;
        count += count < NAMED;
        for (uint32_t k = count - 1; k > at; k--)
            top[k] = top[k - 1];
        top[at] = i;
    }
    for (uint32_t k = 0; k < count; k++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %.200s %s", k > 0 ? "," : "",
                                 facts_node_info(graph, graph->regions[top[k]].region->nodes[0])->name.data,
                                 format_ns(weight_of(&graph->regions[top[k]]), a));
    table_line(table, "%*smost expensive:%s", indent + 8, "", text);
}

static void add_graph(struct table *table, const struct text_page *page, const facts_graph *graph, int indent)
{
    struct selection shown = select_stretches(page, graph);
    double hidden_ns = 0;
    uint32_t hidden = 0;
    char a[FORMATTED_BYTES], b[FORMATTED_BYTES], times[80] = "";

    for (uint32_t i = 0; i < graph->partition_count; i++) {
        const facts_stretch *stretch = &graph->stretches[i];
        const facts_region *first = &graph->regions[stretch->first];

        if (first->body_count == 0 && !is_selected(&shown, stretch)) {
            hidden++;
            hidden_ns += stretch->ns;
            continue;
        }
        add_stretch(table, page, graph, stretch, indent);
        if (page->all)
            add_regions(table, page, graph, stretch, indent);
        else if (stretch->count > 3)
            add_most_expensive(table, graph, stretch, indent);
        for (uint32_t k = 0; k < first->body_count; k++) {
            const facts_graph *body = first->bodies[k];

            if (!body->times_known)
                (void)snprintf(times, sizeof times, ", count depends on data; predicted as once");
            else if (body->times == 0)
                (void)snprintf(times, sizeof times, ", not taken");
            else if (body->times != 1)
                (void)snprintf(times, sizeof times, ", predicted %.3g times", body->times);
            table_line(table, "%*s%s of %s, %s%s:", indent + 8, "", first->step->node->bodies[k].attr,
                       first->step->node->info.name.data, format_ns(body->ns, a),
                       body->times_known && body->times == 1 ? "" : times);
            add_graph(table, page, body, indent + 4);
        }
    }
    if (hidden > 0)
        table_line(table, "%*sand %" PRIu32 " %s of at most %s, together %s (--all shows them)", indent + 6, "", hidden,
                   plural(hidden, "partition", "partitions"), format_ns(shown.least, a), format_ns(hidden_ns, b));
}

static bool has_region_price(const struct facts *facts)
{
    for (uint32_t i = 0; i < facts->graph_count; i++)
        for (uint32_t k = 0; k < facts->graphs[i]->partition_count; k++)
            if (facts->graphs[i]->stretches[k].region_price)
                return true;
    return false;
}

void text_stretches(const struct text_page *page)
{
    struct table table = { .columns = columns, .column_count = COLUMNS };

    say(page->sink, "\n");
    add_graph(&table, page, page->facts->graphs[0], 0);
    if (has_region_price(page->facts))
        table_line(&table, "* the provider's price of the whole region, not the sum of its nodes");
    if (!has_traffic(page))
        table_line(&table, "bytes in and out: --all, or %d columns", traffic_columns(page));
    text_table(page, &table);
}
