/* One line per partition (a stretch in the code): provider, time, runner-up. Bodies of control flow follow below
 * their node. */
#include "explain/text.h"
#include "inlay/check.h"
#include <inttypes.h>
#include <string.h>

enum { SHOWN_STRETCHES = 24 };

/* The content of a stretch: the node's operator and name, or "12 Conv, 11 Relu, Add". */
static void say_content(const struct text_page *page, const facts_graph *graph, uint32_t first, uint32_t count,
                        int width)
{
    enum { KINDS = 8 };
    struct {
        const char *op;
        uint32_t count;
    } kinds[KINDS];
    uint32_t kind_count = 0, nodes = 0;
    char text[256];
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
        (void)snprintf(text, sizeof text, "%.60s %.180s", info->op_type.data, info->name.data);
        if ((int)strlen(text) > width) { /* keep the operator and the end of the name */
            int op = (int)(info->op_type.bytes < 60 ? info->op_type.bytes : 60) + 1;
            if (op + 8 <= width) {
                say(page->sink, "%.*s", op, text);
                say_column(page->sink, text + op, width - op);
                return;
            }
        }
        say_column(page->sink, text, width);
        return;
    }
    text[0] = '\0';
    for (uint32_t k = 0; k < kind_count && at < sizeof text; k++) {
        char piece[96];
        if (kinds[k].count == 1)
            (void)snprintf(piece, sizeof piece, "%s%.60s", k > 0 ? ", " : "", kinds[k].op);
        else
            (void)snprintf(piece, sizeof piece, "%s%" PRIu32 " %.60s", k > 0 ? ", " : "", kinds[k].count, kinds[k].op);
        if (at + strlen(piece) + (k + 1 < kind_count ? 3 : 0) > (size_t)width && k > 0) {
            at += (size_t)snprintf(text + at, sizeof text - at, " ..");
            break;
        }
        at += (size_t)snprintf(text + at, sizeof text - at, "%s", piece);
    }
    say_column(page->sink, text, width);
}

static void say_runner_up(const struct text_page *page, const facts_stretch *stretch)
{
    const facts_runner_up *runner_up = &stretch->runner_up;
    char a[FORMATTED_BYTES];

    if (stretch->provider == INLAY_NONE)
        return;
    if (runner_up->kind == RUNNER_UP_NONE || runner_up->provider == INLAY_NONE) {
        say(page->sink, "  no other provider");
        return;
    }
    if (runner_up->extra_ns < 0.5 && runner_up->extra_ns > -0.5)
        say(page->sink, "  %s, %s", facts_provider_name(page->facts, runner_up->provider),
            runner_up->offers_differ ? "the same in all" : "a tie");
    else
        say(page->sink, "  %s %s%s", facts_provider_name(page->facts, runner_up->provider),
            runner_up->kind == RUNNER_UP_ESTIMATE ? "about " : "", format_ns_change(runner_up->extra_ns, a));
    if (runner_up->node_count < stretch->node_count)
        say(page->sink, " (%" PRIu32 " of %" PRIu32 ")", runner_up->node_count, stretch->node_count);
}

/* Columns that are omitted if the page is narrow. */
static bool has_traffic(const struct text_page *page)
{
    return page->columns >= (page->measured ? 128 : 110);
}
static bool has_source(const struct text_page *page)
{
    return page->source == INLAY_NONE && page->columns >= (page->measured ? 100 : 84);
}
static int content_width(const struct text_page *page)
{
    int rest = page->columns - 6 - page->names - 1 - 6 - 10 - 22;

    rest -= page->measured ? 17 : 0;
    rest -= has_source(page) ? 11 : 0;
    rest -= has_traffic(page) ? 20 : 0;
    return rest < 14 ? 14 : rest > 40 ? 40 : rest;
}

/* The predicted time; "*" marks the provider's price of the region as a whole. */
static void say_predicted(const struct text_page *page, double ns, bool region_price)
{
    char a[FORMATTED_BYTES];

    if (region_price)
        say(page->sink, " %8s*", format_ns(ns, a));
    else
        say(page->sink, " %9s", format_ns(ns, a));
}

static void say_row(const struct text_page *page, const facts_graph *graph, const facts_stretch *stretch, int indent)
{
    char a[FORMATTED_BYTES], b[FORMATTED_BYTES];
    int width = content_width(page) - indent;

    say(page->sink, "%*s%5" PRIu32 " ", indent, "", stretch->first);
    say_column(page->sink, facts_provider_name(page->facts, stretch->provider), page->names);
    say(page->sink, " %5" PRIu32 " ", stretch->node_count);
    say_content(page, graph, stretch->first, stretch->count, width < 14 ? 14 : width);
    say_predicted(page, stretch->ns, stretch->region_price);
    if (page->measured)
        say(page->sink, " %9s %6s", stretch->measured_ns < 0 ? "-" : format_ns(stretch->measured_ns, a),
            text_ratio(stretch->measured_ns, stretch->ns, b));
    if (has_source(page))
        say(page->sink, " %10s", stretch->provider == INLAY_NONE ? "bodies" : cost_source_name(stretch->source));
    if (has_traffic(page))
        say(page->sink, " %9s %9s", format_bytes(stretch->bytes_in, a), format_bytes(stretch->bytes_out, b));
    say_runner_up(page, stretch);
    say(page->sink, "\n");
    if (stretch->runner_up.why != NULL)
        say(page->sink, "%*s%s not chosen: %s\n", indent + 16, "",
            facts_provider_name(page->facts, stretch->runner_up.provider), stretch->runner_up.why);
}

static void say_regions(const struct text_page *page, const facts_graph *graph, const facts_stretch *stretch,
                        int indent)
{
    char a[FORMATTED_BYTES], b[FORMATTED_BYTES];

    for (uint32_t i = stretch->first; stretch->count > 1 && i < stretch->first + stretch->count; i++) {
        const facts_region *region = &graph->regions[i];
        say(page->sink, "%*s%5" PRIu32 "  ", indent + page->names + 1, "", i);
        say_content(page, graph, i, 1, content_width(page) + 1);
        say_predicted(page, region->ns, region->region_price);
        if (page->measured)
            say(page->sink, " %9s %6s", region->measured_ns < 0 ? "-" : format_ns(region->measured_ns, a),
                text_ratio(region->measured_ns, region->ns, b));
        say(page->sink, " %10s", cost_source_name(region->source));
        say(page->sink, " %9s", format_bytes(region->bytes_in, a));
        say(page->sink, " %9s", format_bytes(region->bytes_out, a));
        if (region->resident_bytes > 0)
            say(page->sink, "  resident %s", format_bytes(region->resident_bytes, a));
        if (region->weights.resident > 0)
            say(page->sink, "  weights %s in memory", format_bytes(region->weights.resident, a));
        if (region->weights.streamed > 0)
            say(page->sink, "  weights %s read in each run", format_bytes(region->weights.streamed, a));
        if (region->weights.on_demand > 0)
            say(page->sink, "  table %s", format_bytes(region->weights.on_demand, a));
        if (region->workspace_bytes > 0)
            say(page->sink, "  workspace %s", format_bytes(region->workspace_bytes, a));
        say(page->sink, "\n");
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
static void say_most_expensive(const struct text_page *page, const facts_graph *graph, const facts_stretch *stretch,
                               int indent)
{
    enum { NAMED = 3 };
    uint32_t top[NAMED], count = 0;
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
    say(page->sink, "%*smost expensive:", indent + 16, "");
    for (uint32_t k = 0; k < count; k++) {
        say(page->sink, "%s ", k > 0 ? "," : "");
        say_text(page->sink, facts_node_info(graph, graph->regions[top[k]].region->nodes[0])->name.data);
        say(page->sink, " %s", format_ns(weight_of(&graph->regions[top[k]]), a));
    }
    say(page->sink, "\n");
}

static void say_graph(const struct text_page *page, const facts_graph *graph, int indent)
{
    struct selection shown = select_stretches(page, graph);
    double hidden_ns = 0;
    uint32_t hidden = 0;
    char a[FORMATTED_BYTES], b[FORMATTED_BYTES];

    for (uint32_t i = 0; i < graph->partition_count; i++) {
        const facts_stretch *stretch = &graph->stretches[i];
        const facts_region *first = &graph->regions[stretch->first];

        if (first->body_count == 0 && !is_selected(&shown, stretch)) {
            hidden++;
            hidden_ns += stretch->ns;
            continue;
        }
        say_row(page, graph, stretch, indent);
        if (page->all)
            say_regions(page, graph, stretch, indent);
        else if (stretch->count > 3)
            say_most_expensive(page, graph, stretch, indent);
        for (uint32_t k = 0; k < first->body_count; k++) {
            const facts_graph *body = first->bodies[k];
            say(page->sink, "%*s%s of ", indent + 8, "", first->step->node->bodies[k].attr);
            say_text(page->sink, first->step->node->info.name.data);
            say(page->sink, ", %s", format_ns(body->ns, a));
            if (!body->times_known)
                say(page->sink, ", count depends on data; predicted as once:\n");
            else if (body->times != 1)
                say(page->sink, body->times == 0 ? ", not taken:\n" : ", predicted %.3g times:\n", body->times);
            else
                say(page->sink, ":\n");
            say_graph(page, body, indent + 6);
        }
    }
    if (hidden > 0)
        say(page->sink, "%*s      and %" PRIu32 " %s of at most %s, together %s (--all shows them)\n", indent, "",
            hidden, plural(hidden, "partition", "partitions"), format_ns(shown.least, a), format_ns(hidden_ns, b));
}

void text_stretches(const struct text_page *page)
{
    int width = content_width(page);

    say(page->sink, "\n%5s %-*s %5s %-*s %9s", "part", page->names, "provider", "nodes", width, "content", "predicted");
    if (page->measured)
        say(page->sink, " %9s %6s", "measured", "ratio");
    if (has_source(page))
        say(page->sink, " %10s", "price");
    if (has_traffic(page))
        say(page->sink, " %9s %9s", "in", "out");
    say(page->sink, "  runner-up\n");
    say_graph(page, page->facts->graphs[0], 0);
    for (uint32_t i = 0; i < page->facts->graph_count; i++)
        for (uint32_t k = 0; k < page->facts->graphs[i]->partition_count; k++)
            if (page->facts->graphs[i]->stretches[k].region_price) {
                say(page->sink, "* the provider's price of the whole region, not the sum of its nodes\n");
                return;
            }
}
