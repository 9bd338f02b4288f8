/* All details of a node, as text and as JSON: inputs, outputs, copies, the answers of the providers, and why the
 * others do not run it. */
#include "tables/table.h"
#include "explain/internal.h"
#include <inttypes.h>
#include <math.h>

enum { SHOWN_READERS = 4 }; /* of a value */

static const char *provider_of_node(const struct facts *facts, const facts_graph *graph, uint32_t node)
{
    return facts_provider_name(facts, graph->regions[graph->nodes[node].region].region->provider);
}

/* Does the copy deliver an input of the node, or take away an output? */
static bool touches_node(const facts_graph *graph, const partition_copy *copy, uint32_t node)
{
    if (copy->to_region == graph->nodes[node].region && facts_reads(graph, node, copy->value))
        return true;
    return graph->program->graph->values[copy->value].info.producer == node;
}

static void say_neighbour(const explain_sink *sink, const struct facts *facts, const facts_graph *graph, uint32_t node)
{
    say(sink, "%s ", facts_node_info(graph, node)->op_type.data);
    say_text(sink, facts_node_info(graph, node)->name.data);
    say(sink, " (%s)", provider_of_node(facts, graph, node));
}

static void say_readers(const explain_sink *sink, const struct facts *facts, const facts_graph *graph, uint32_t value)
{
    uint32_t count = 0;

    for (uint32_t other = 0; other < graph->program->graph->node_count; other++) {
        if (!facts_reads(graph, other, value))
            continue;
        if (count < SHOWN_READERS) {
            say(sink, "%s", count == 0 ? "  to " : ", ");
            say_neighbour(sink, facts, graph, other);
        }
        count++;
    }
    if (count > SHOWN_READERS)
        say(sink, " and %" PRIu32 " more", count - SHOWN_READERS);
    if ((graph->program->graph->values[value].info.flags & INLAY_VALUE_GRAPH_OUTPUT) != 0)
        say(sink, "%s an output of the graph", count > 0 ? "," : " ");
}

static void say_value(const explain_sink *sink, const struct facts *facts, const facts_graph *graph, uint32_t value,
                      const char *label, bool output)
{
    const inlay_value_info *info = &graph->program->graph->values[value].info;
    char a[FORMATTED_BYTES];

    say(sink, "  %-8s ", label);
    say_text(sink, info->name.data);
    say(sink, " %s", inlay_dtype_name(info->dtype));
    say(sink, "%s", info->rank == INLAY_RANK_UNKNOWN ? "[...]" : "[");
    for (uint32_t d = 0; info->rank != INLAY_RANK_UNKNOWN && d < info->rank; d++) {
        const inlay_dim *dim = &info->dims[d];
        if (dim->kind == INLAY_DIM_FIXED)
            say(sink, "%s%" PRId64, d > 0 ? "," : "", dim->value);
        else
            say(sink, "%s%.60s", d > 0 ? "," : "",
                dim->kind == INLAY_DIM_SYMBOLIC ? graph->program->model->symbols[dim->symbol].name.data : "?");
    }
    say(sink, "%s %s", info->rank == INLAY_RANK_UNKNOWN ? "" : "]", format_bytes(facts_value_bytes(graph, value), a));
    if (output) {
        say_readers(sink, facts, graph, value);
    } else if (info->producer != INLAY_NONE) {
        say(sink, "  from ");
        say_neighbour(sink, facts, graph, info->producer);
    } else {
        say(sink, "  %s", (info->flags & INLAY_VALUE_CONSTANT) != 0 ? "constant" : "an input of the graph");
    }
    say(sink, "\n");
}

enum { LABEL, PROVIDER, TIME, ANSWER, COLUMNS };
static const table_column answer_columns[COLUMNS] = {
    [LABEL] = { "", NULL, TABLE_NAME },
    [PROVIDER] = { "", NULL, TABLE_NAME },
    [TIME] = { "", NULL, TABLE_NUMBER },
    [ANSWER] = { "", NULL, TABLE_TEXT },
};

/* Why the provider does not run the node although it offers to. */
static void add_why_not(struct table *table, const struct facts *facts, const facts_answer *answer, uint32_t winner)
{
    const char *obstacle = answer->obstacle != NULL ? answer->obstacle : answer->impossible;
    char a[FORMATTED_BYTES], b[FORMATTED_BYTES];

    if (!answer->evaluated)
        return;
    if (obstacle != NULL) {
        table_add(table, ANSWER, ", not %s: %s", answer->obstacle != NULL ? "chosen" : "possible", obstacle);
        return;
    }
    if (answer->extra_ns >= FACTS_TIE_NS)
        table_add(table, ANSWER, ", would cost %s more in all", format_ns(answer->extra_ns, a));
    else if (answer->extra_ns <= -FACTS_TIE_NS)
        table_add(table, ANSWER, ", would save %s; not chosen: %s", format_ns(-answer->extra_ns, a),
                  answer->why != NULL ? answer->why : "");
    else if (isfinite(answer->alone_ns) && answer->alone_ns >= FACTS_TIE_NS)
        table_add(table, ANSWER, ", would cost %s more, or the same if other nodes move, too",
                  format_ns(answer->alone_ns, a));
    else if (facts_precedes(facts, winner, answer->provider))
        table_add(table, ANSWER, ", same cost; %s precedes it in the order of providers",
                  facts_provider_name(facts, winner));
    else
        table_add(table, ANSWER, ", same cost");
    if (answer->copies_ns > 0.5 || answer->copies_ns < -0.5)
        table_add(table, ANSWER, " (%s here, %s of copies)", format_ns_change(answer->here_ns, a),
                  format_ns_change(answer->copies_ns, b));
}

/* Whether the provider does not have the operator at all, which no change of the node would alter. */
static bool lacks_operator(const facts_answer *answer)
{
    return answer->offer == INLAY_NONE && answer->refusal != NULL && answer->refusal->code == INLAY_REFUSE_OPERATOR;
}

static void add_offer(struct table *table, const struct facts *facts, const partition_offer *offer,
                      const facts_answer *answer, uint32_t winner)
{
    char a[FORMATTED_BYTES];

    if (answer->no_price != NULL) {
        table_text(table, TIME, "-");
        table_say(table, ANSWER, "no price: %s", answer->no_price);
    } else {
        table_say(table, TIME, "%s", format_ns(facts_displayed_ns(offer, offer->cost.ns), a));
        table_say(table, ANSWER, "%s%s", cost_source_name(offer->cost_source),
                  offer->region_price ? " of its region" : "");
    }
    if (offer->node_count > 1)
        table_add(table, ANSWER, ", for %" PRIu32 " nodes together", offer->node_count);
    if (answer->chosen)
        table_add(table, ANSWER, ", chosen");
    add_why_not(table, facts, answer, winner);
}

/* The answer of each provider. Providers without a kernel for the operator are only listed. */
static void say_answers(const explain_sink *sink, const struct facts *facts, const facts_graph *graph,
                        const facts_answer *answers, uint32_t winner)
{
    struct table table = { .columns = answer_columns, .column_count = COLUMNS, .indent = 2 };
    uint32_t without = 0;

    for (uint32_t i = 0; i < facts->provider_count; i++) {
        const facts_answer *answer = &answers[i];

        if (lacks_operator(answer))
            continue;
        table_row(&table);
        table_text(&table, LABEL, table.row_count == 1 ? "answers" : NULL);
        table_text(&table, PROVIDER, facts_provider_name(facts, i));
        if (answer->offer != INLAY_NONE)
            add_offer(&table, facts, &graph->parts->offers[answer->offer], answer, winner);
        else if (answer->refusal == NULL)
            table_text(&table, ANSWER, "not queried: the host runs this node");
        else
            table_say(&table, ANSWER, "refused: %s", answer->refusal->text);
        if (answer->refusal != NULL && answer->refusal->accepted_if != NULL && answer->offer == INLAY_NONE)
            table_add(&table, ANSWER, "; accepted if: %s", answer->refusal->accepted_if);
    }
    for (uint32_t i = 0; i < facts->provider_count; i++) {
        if (!lacks_operator(&answers[i]))
            continue;
        if (without++ == 0) {
            table_row(&table);
            table_text(&table, LABEL, table.row_count == 1 ? "answers" : NULL);
            table_text(&table, PROVIDER, "the others");
            table_say(&table, ANSWER, "refused: no kernel for the operator: ");
        }
        table_add(&table, ANSWER, "%s%s", without > 1 ? ", " : "", facts_provider_name(facts, i));
    }
    table_write(&table, sink);
    table_deinit(&table);
}

/* Who has run the node in the measured runs. */
static void say_instead(const explain_sink *sink, const struct facts *facts, uint32_t node)
{
    for (uint32_t i = 0; i < facts->instead->step_count; i++) {
        const partition_region *region = facts->instead->steps[i].region;

        for (uint32_t k = 0; k < region->node_count; k++)
            if (region->nodes[k] == node)
                say(sink, "; %s made the measured runs: ", facts_provider_name(facts, region->provider));
    }
    say_text(sink, facts->instead->fallback.why);
}

static void say_node(const explain_sink *sink, const struct facts *facts, const facts_graph *graph, uint32_t node,
                     const facts_answer *answers)
{
    const graph_node *model_node = graph->program->graph->nodes[node];
    const facts_region *region = &graph->regions[graph->nodes[node].region];
    char a[FORMATTED_BYTES], b[FORMATTED_BYTES];
    bool any = false;

    say(sink, "%s ", model_node->info.op_type.data);
    say_text(sink, model_node->info.name.data);
    say(sink, "  (%s-%" PRIu32 " of %s, region %" PRIu32 " of ", model_node->info.op_type.data,
        model_node->info.since_version, model_node->info.domain.data, graph->nodes[node].region);
    say_text(sink, graph->path);
    say(sink, ")\n  runs on  %s, ", facts_provider_name(facts, region->region->provider));
    if (region->source == COST_NONE && region->region->provider != INLAY_NONE)
        say(sink, "without a price");
    else
        say(sink, "predicted %s", format_ns(region->ns, a));
    if (region->measured_ns >= 0)
        say(sink, ", measured %s", format_ns(region->measured_ns, a));
    if (facts->instead != NULL && graph->parent == NULL)
        say_instead(sink, facts, node);
    if (region->region->node_count > 1)
        say(sink, ", with %" PRIu32 " other nodes", region->region->node_count - 1);
    if (region->resident_bytes > 0)
        say(sink, ", resident %s", format_bytes(region->resident_bytes, a));
    if (region->workspace_bytes > 0)
        say(sink, ", workspace %s", format_bytes(region->workspace_bytes, a));
    say(sink, "\n");
    for (uint32_t i = 0; i < model_node->info.input_count; i++)
        if (model_node->info.inputs[i] != INLAY_NONE)
            say_value(sink, facts, graph, model_node->info.inputs[i], i == 0 ? "inputs" : "", false);
    for (uint32_t i = 0; i < model_node->capture_count; i++)
        say_value(sink, facts, graph, model_node->captures[i], i == 0 ? "captures" : "", false);
    for (uint32_t i = 0; i < model_node->info.output_count; i++)
        if (model_node->info.outputs[i] != INLAY_NONE)
            say_value(sink, facts, graph, model_node->info.outputs[i], i == 0 ? "outputs" : "", true);
    for (uint32_t i = 0; i < graph->parts->copy_count; i++) {
        const partition_copy *copy = &graph->parts->copies[i];
        if (!touches_node(graph, copy, node))
            continue;
        say(sink, "  %-8s ", any ? "" : "copies");
        say_text(sink, facts_value_name(graph, copy->value));
        say(sink, " %s -> %s, %s, %s\n", facts_domain_name(facts, copy->from_domain),
            facts_domain_name(facts, copy->to_domain), format_bytes(copy->bytes, a), format_ns(copy->ns, b));
        any = true;
    }
    say_answers(sink, facts, graph, answers, region->region->provider);
}

inlay_status text_nodes(struct facts *facts, const char *pattern, const explain_view *view, inlay_diag *diag)
{
    uint32_t found = 0, limit = view->all ? UINT32_MAX : NODES_SHOWN;

    for (uint32_t i = 0; i < facts->graph_count; i++) {
        const facts_graph *graph = facts->graphs[i];
        for (uint32_t other = 0; other < graph->program->graph->node_count; other++) {
            facts_answer *answers;
            inlay_status status;

            if (!graph_node_matches(pattern, facts_node_info(graph, other)) || found++ >= limit)
                continue;
            status = facts_evaluate_node(facts, graph, other, found <= NODES_EVALUATED, &answers, diag);
            if (status != INLAY_OK)
                return status;
            say(view->sink, "%s", found > 1 ? "\n" : "");
            say_node(view->sink, facts, graph, other, answers);
        }
    }
    if (found > limit)
        say(view->sink, "\nand %" PRIu32 " other nodes (--all shows them)\n", found - limit);
    return INLAY_OK;
}

static void write_value(json_out *json, const struct facts *facts, const facts_graph *graph, uint32_t value,
                        bool output)
{
    uint32_t producer = graph->program->graph->values[value].info.producer;

    json_value(json, NULL, graph, value, true);
    if (!output && producer != INLAY_NONE) {
        json_text(json, "from", facts_node_info(graph, producer)->name.data);
        json_text(json, "from_provider", provider_of_node(facts, graph, producer));
    }
    if (output) {
        json_open(json, "to", '[', true);
        for (uint32_t other = 0; other < graph->program->graph->node_count; other++) {
            if (!facts_reads(graph, other, value))
                continue;
            json_open(json, NULL, '{', true);
            json_text(json, "node", facts_node_info(graph, other)->name.data);
            json_text(json, "provider", provider_of_node(facts, graph, other));
            json_close(json);
        }
        json_close(json);
    }
    json_close(json);
}

static void write_answer(json_out *json, const struct facts *facts, const facts_graph *graph,
                         const facts_answer *answer)
{
    json_open(json, NULL, '{', true);
    json_text(json, "provider", facts_provider_name(facts, answer->provider));
    json_bool(json, "chosen", answer->chosen);
    if (answer->offer != INLAY_NONE) {
        const partition_offer *offer = &graph->parts->offers[answer->offer];
        if (answer->no_price == NULL)
            json_number(json, "cost_ns", facts_displayed_ns(offer, offer->cost.ns));
        json_text(json, "price", cost_source_name(offer->cost_source));
        json_text(json, "no_price", answer->no_price);
        if (offer->region_price)
            json_bool(json, "region_price", true);
        json_whole(json, "nodes", offer->node_count);
    }
    if (answer->refusal != NULL) {
        json_text(json, "refused", answer->refusal->text);
        json_text(json, "accepted_if", answer->refusal->accepted_if);
    }
    if (answer->impossible != NULL) {
        json_text(json, "impossible", answer->impossible);
    } else if (answer->evaluated) {
        json_number(json, "extra_ns", answer->extra_ns);
        json_number(json, "extra_here_ns", answer->here_ns);
        json_number(json, "extra_copies_ns", answer->copies_ns);
        if (answer->obstacle != NULL || answer->why != NULL)
            json_text(json, "why", answer->obstacle != NULL ? answer->obstacle : answer->why);
    }
    json_close(json);
}

static void write_node(json_out *json, const struct facts *facts, const facts_graph *graph, uint32_t node,
                       const facts_answer *answers)
{
    const graph_node *model_node = graph->program->graph->nodes[node];
    const facts_region *region = &graph->regions[graph->nodes[node].region];

    json_open(json, NULL, '{', false);
    json_text(json, "name", model_node->info.name.data);
    json_text(json, "op", model_node->info.op_type.data);
    json_text(json, "domain", model_node->info.domain.data);
    json_whole(json, "since_version", model_node->info.since_version);
    json_text(json, "graph", graph->path);
    json_whole(json, "region", graph->nodes[node].region);
    json_text(json, "provider", facts_provider_name(facts, region->region->provider));
    json_number(json, "region_cost_ns", region->ns);
    if (region->measured_ns >= 0)
        json_number(json, "region_measured_ns", region->measured_ns);
    json_open(json, "inputs", '[', false);
    for (uint32_t i = 0; i < graph_read_count(model_node); i++) {
        const uint32_t value = graph_read_at(model_node, i);

        if (value != INLAY_NONE)
            write_value(json, facts, graph, value, false);
    }
    json_close(json);
    json_open(json, "outputs", '[', false);
    for (uint32_t i = 0; i < model_node->info.output_count; i++)
        if (model_node->info.outputs[i] != INLAY_NONE)
            write_value(json, facts, graph, model_node->info.outputs[i], true);
    json_close(json);
    json_open(json, "copies", '[', false);
    for (uint32_t i = 0; i < graph->parts->copy_count; i++) {
        const partition_copy *copy = &graph->parts->copies[i];
        if (!touches_node(graph, copy, node))
            continue;
        json_open(json, NULL, '{', true);
        json_text(json, "name", facts_value_name(graph, copy->value));
        json_text(json, "from", facts_domain_name(facts, copy->from_domain));
        json_text(json, "to", facts_domain_name(facts, copy->to_domain));
        json_whole(json, "bytes", copy->bytes);
        json_number(json, "cost_ns", copy->ns);
        json_close(json);
    }
    json_close(json);
    json_open(json, "answers", '[', false);
    for (uint32_t i = 0; i < facts->provider_count; i++)
        write_answer(json, facts, graph, &answers[i]);
    json_close(json);
    json_close(json);
}

inlay_status json_nodes(struct facts *facts, const char *pattern, const explain_view *view, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    json_out json = { .sink = view->sink };
    uint32_t found = 0;

    json_open(&json, NULL, '{', false);
    json_whole(&json, "version", 1);
    json_text(&json, "pattern", pattern);
    json_open(&json, "nodes", '[', false);
    for (uint32_t i = 0; i < facts->graph_count && status == INLAY_OK; i++) {
        const facts_graph *graph = facts->graphs[i];
        for (uint32_t other = 0; other < graph->program->graph->node_count && status == INLAY_OK; other++) {
            facts_answer *answers;

            if (!graph_node_matches(pattern, facts_node_info(graph, other)))
                continue;
            status = facts_evaluate_node(facts, graph, other, found++ < NODES_EVALUATED, &answers, diag);
            if (status == INLAY_OK)
                write_node(&json, facts, graph, other, answers);
        }
    }
    json_close(&json);
    json_close(&json);
    return status;
}
