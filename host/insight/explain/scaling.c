/* Predictions for other numbers of threads: the assignment of the session at the prices for 1 to 16 threads, with the
 * time in which threads wait, the ends of parallel loops (barriers), and the longest chain of nodes that need each
 * other's results. */
#include "base/memory.h"
#include "explain/text.h"
#include "inlay/check.h"
#include <inttypes.h>
#include <string.h>

static const uint32_t thread_counts[FACTS_SCALES] = { 1, 2, 4, 8, 16 };

/* Times of one execution of a graph on a number of threads. */
struct graph_scale {
    double ns, chain_ns;
    double alone_ns; /* part of ns in which one thread works: nodes that more threads do not make faster, and copies */
    double barriers;
    double *node_ns; /* [node_count] without bodies */
};

/* The longest path through the graph. */
static double longest_chain(const facts_graph *graph, const struct graph_scale *scales, double *ends)
{
    const struct graph *nodes = graph->program->graph;
    double longest = 0;

    for (uint32_t n = 0; n < nodes->node_count; n++) {
        const graph_node *node = nodes->nodes[n];
        const facts_region *region = &graph->regions[graph->nodes[n].region];
        double begin = 0, ns = scales[graph->index].node_ns[n];

        for (uint32_t i = 0; i < graph_read_count(node); i++) {
            const uint32_t value = graph_read_at(node, i);
            const uint32_t producer = value == INLAY_NONE ? INLAY_NONE : nodes->values[value].info.producer;

            INLAY_CHECK(producer == INLAY_NONE || producer < n);
            if (producer != INLAY_NONE && ends[producer] > begin)
                begin = ends[producer];
        }
        for (uint32_t b = 0; b < region->body_count; b++)
            ns += facts_repeated_ns(region->bodies[b], scales[region->bodies[b]->index].chain_ns, 0);
        ends[n] = begin + ns;
        longest = ends[n] > longest ? ends[n] : longest;
    }
    return longest;
}

/* Divides the time of a region among its nodes, by the prices of its offers. */
static void price_nodes(const struct partition *parts, const partition_region *region, double *node_ns)
{
    const double ns = facts_displayed_region_ns(parts, region) + region->launch_ns;
    double sum = 0;

    for (uint32_t k = 0; k < region->offer_count; k++)
        sum += facts_displayed_ns(&parts->offers[region->offers[k]], parts->offers[region->offers[k]].cost.ns);
    for (uint32_t k = 0; k < region->offer_count; k++) {
        const partition_offer *offer = &parts->offers[region->offers[k]];
        const double share = sum > 0 ? facts_displayed_ns(offer, offer->cost.ns) / sum : 1.0 / region->offer_count;

        for (uint32_t m = 0; m < offer->node_count; m++)
            node_ns[offer->nodes[m]] = ns * share / offer->node_count;
    }
}

/* scales: of the graph and its bodies, which are complete. on_one: the same on one thread; NULL for these. */
static bool scale_graph(const facts_graph *graph, uint32_t threads, const struct graph_scale *on_one,
                        struct graph_scale *scales, struct arena *arena)
{
    const uint32_t node_count = graph->program->graph->node_count;
    const struct partition *parts = facts_at_threads(graph, threads, arena);
    struct graph_scale *scale = &scales[graph->index];
    double *ends = arena_array(arena, (size_t)node_count + 1, sizeof *ends);

    *scale = (struct graph_scale){ .node_ns = arena_array(arena, (size_t)node_count + 1, sizeof *scale->node_ns) };
    if (parts == NULL || ends == NULL || scale->node_ns == NULL)
        return false;
    memset(scale->node_ns, 0, node_count * sizeof *scale->node_ns);
    scale->ns = facts_displayed_sum(parts);
    for (uint32_t r = 0; r < graph->region_count; r++)
        price_nodes(parts, graph->regions[r].region, scale->node_ns);
    scale->alone_ns = scale->ns;
    for (uint32_t n = 0; on_one != NULL && n < node_count; n++)
        if (scale->node_ns[n] < on_one[graph->index].node_ns[n] * 0.99) {
            scale->alone_ns -= scale->node_ns[n];
            scale->barriers++;
        }
    for (uint32_t r = 0; r < graph->region_count; r++)
        for (uint32_t b = 0; b < graph->regions[r].body_count; b++) {
            const facts_graph *body = graph->regions[r].bodies[b];
            const struct graph_scale *inner = &scales[body->index];

            scale->ns += facts_repeated_ns(body, inner->ns, body->parts->once_ns);
            scale->alone_ns += facts_repeated_ns(body, inner->alone_ns, body->parts->once_ns);
            scale->barriers += facts_repeated_ns(body, inner->barriers, 0);
        }
    scale->chain_ns = longest_chain(graph, scales, ends);
    return true;
}

inlay_status facts_scaling(const struct facts *facts, facts_scale *out, inlay_diag *diag)
{
    struct arena arena = { 0 };
    struct graph_scale *on_one = NULL;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < FACTS_SCALES && status == INLAY_OK; i++) {
        struct graph_scale *scales = arena_array(&arena, (size_t)facts->graph_count + 1, sizeof *scales);
        bool done = scales != NULL;

        for (uint32_t g = facts->graph_count; done && g-- > 0;) /* bodies before the graph that contains them */
            done = scale_graph(facts->graphs[g], thread_counts[i], on_one, scales, &arena);
        if (!done) {
            status = no_memory(diag, "for the times on other numbers of threads");
            break;
        }
        on_one = i == 0 ? scales : on_one;
        out[i] = (facts_scale){ .threads = thread_counts[i],
                                .ns = scales[0].ns,
                                .alone_ns = scales[0].alone_ns,
                                .chain_ns = scales[0].chain_ns,
                                .barriers = scales[0].barriers,
                                .waiting_ns = thread_counts[i] * scales[0].ns - on_one[0].ns };
        if (out[i].waiting_ns < 0) /* several threads have larger caches */
            out[i].waiting_ns = 0;
    }
    arena_deinit(&arena);
    return status;
}

void text_scaling(const struct text_page *page, const facts_scale *scales)
{
    enum { THREADS, TIME, FASTER, WAITING, ALONE, BARRIERS, CHAIN, COLUMNS };
    static const table_column columns[COLUMNS] = {
        [THREADS] = { "threads", NULL, TABLE_NUMBER },     [TIME] = { "time", NULL, TABLE_NUMBER },
        [FASTER] = { "speed-up", NULL, TABLE_NUMBER },     [WAITING] = { "waiting", NULL, TABLE_NUMBER },
        [ALONE] = { "on one thread", NULL, TABLE_NUMBER }, [BARRIERS] = { "barriers", NULL, TABLE_NUMBER },
        [CHAIN] = { "longest chain", NULL, TABLE_NUMBER }
    };
    struct table table = { .columns = columns, .column_count = COLUMNS };
    char text[FORMATTED_BYTES];

    for (uint32_t i = 0; i < FACTS_SCALES; i++) {
        const facts_scale *scale = &scales[i];

        table_row(&table);
        table_whole(&table, THREADS, scale->threads);
        table_say(&table, TIME, "%s", format_ns(scale->ns, text));
        table_say(&table, FASTER, "%.2f", scale->ns > 0 ? scales[0].ns / scale->ns : 1.0);
        table_say(&table, WAITING, "%.1f%%",
                  scale->ns > 0 ? 100 * scale->waiting_ns / (scale->threads * scale->ns) : 0.0);
        table_say(&table, ALONE, "%s", format_ns(scale->alone_ns, text));
        table_say(&table, BARRIERS, "%.0f", scale->barriers);
        table_say(&table, CHAIN, "%s", format_ns(scale->chain_ns, text));
    }
    text_table(page, &table);
    say(page->sink, "\n");
}

void json_scaling(json_out *json, const facts_scale *scales)
{
    json_open(json, "scaling", '[', false);
    for (uint32_t i = 0; i < FACTS_SCALES; i++) {
        json_open(json, NULL, '{', true);
        json_whole(json, "threads", scales[i].threads);
        json_number(json, "cost_ns", scales[i].ns);
        json_number(json, "waiting_ns", scales[i].waiting_ns);
        json_number(json, "one_thread_ns", scales[i].alone_ns);
        json_number(json, "barriers", scales[i].barriers);
        json_number(json, "longest_chain_ns", scales[i].chain_ns);
        json_close(json);
    }
    json_close(json);
}
