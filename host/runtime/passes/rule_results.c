/* Replaces nodes by the results of rules (rules.h). */
#include "inlay/check.h"
#include "passes/rules.h"
#include "passes/subgraph_builder.h"
#include <string.h>

enum { MAX_INPUTS = 16 };

typedef struct rule_results {
    subgraph_builder builder;
    rule_match *match;
} rule_results;

static uint32_t make(rule_results *results, const rule_term *term, inlay_dtype dtype);

/* The attribute that the matched node states; NULL: it does not. */
static const inlay_attr_info *stated_attr(const graph_node *node, const char *name)
{
    for (uint32_t i = 0; i < node->own_attr_count; i++) { /* attributes after these are defaults */
        const inlay_attr_info *own = INLAY_AT(inlay_attr_info, node->info.attrs, node->info.attr_stride, i);

        if (strcmp(own->name.data, name) == 0)
            return own;
    }
    return NULL;
}

static inlay_status set_attr(const rule_match *match, graph_node *new_node, const rule_attr *attr)
{
    struct graph *graph = match->rewrite->graph;
    const double number = attr->kind == RULE_ATTR_SLOT ? match->numbers[attr->slot] : attr->number;
    const inlay_attr_info *stated;

    switch (attr->kind) {
    case RULE_ATTR_TEXT:
        return graph_set_attr_string(graph, new_node, attr->name, attr->text);
    case RULE_ATTR_INTS:
        return graph_set_attr_ints(graph, new_node, attr->name, attr->ints, attr->count);
    case RULE_ATTR_COPY:
        stated = stated_attr(match->node, attr->name);
        return stated == NULL ? INLAY_OK : graph_set_attr(graph, new_node, stated);
    default:
        return attr->is_int ? graph_set_attr_int(graph, new_node, attr->name, (int64_t)number)
                            : graph_set_attr_float(graph, new_node, attr->name, number);
    }
}

/* The type of an output, as the rule states it. */
static inlay_dtype output_type(const rule_results *results, const graph_node *node, uint8_t type)
{
    return type < RULE_LIKE ? (inlay_dtype)type : builder_dtype(&results->builder, node->info.inputs[type - RULE_LIKE]);
}

/* Creates the node of an operator of a result and the nodes that it reads. Numbers among its inputs have the type of
 * the first input that is not a number. NULL: the builder has failed. */
static graph_node *make_node(rule_results *results, const rule_term *term)
{
    subgraph_builder *builder = &results->builder;
    const int64_t opset =
        term->first == 0 || (term->newer && builder->node->opset > term->first) ? builder->node->opset : term->first;
    uint32_t inputs[MAX_INPUTS], count = term->count;
    inlay_dtype dtype = INLAY_UNDEFINED;
    graph_node *new_node;

    INLAY_CHECK(count <= MAX_INPUTS);
    for (uint32_t i = 0; i < count; i++) {
        if (term->args[i].kind == RULE_NUMBER || term->args[i].kind == RULE_SCALAR)
            continue;
        inputs[i] = make(results, &term->args[i], INLAY_UNDEFINED);
        dtype = dtype == INLAY_UNDEFINED ? builder_dtype(builder, inputs[i]) : dtype;
    }
    for (uint32_t i = 0; i < count; i++)
        if (term->args[i].kind == RULE_NUMBER || term->args[i].kind == RULE_SCALAR)
            inputs[i] = make(results, &term->args[i], dtype);
    if (builder->status != INLAY_OK)
        return NULL;
    while (count > 0 && inputs[count - 1] == INLAY_NONE)
        count--;
    new_node = rewrite_make_node(builder->rewrite, term->text, opset, builder->node, inputs, count, term->outputs);
    for (uint32_t i = 0; new_node != NULL && i < term->attr_count; i++)
        if (set_attr(results->match, new_node, &term->attrs[i]) != INLAY_OK)
            new_node = NULL;
    if (new_node == NULL)
        builder->status = rewrite_no_memory(builder->rewrite);
    else if (strcmp(term->domain, "ai.onnx") != 0)
        new_node->info.domain = (inlay_str){ term->domain, strlen(term->domain) };
    return new_node;
}

static uint32_t make_op(rule_results *results, const rule_term *term)
{
    struct rewrite *rewrite = results->match->rewrite;
    graph_node *new_node = make_node(results, term);

    if (new_node == NULL)
        return INLAY_NONE;
    results->builder.status = rewrite_insert_node(rewrite, new_node, output_type(results, new_node, term->types[0]));
    if (results->builder.status != INLAY_OK)
        return INLAY_NONE;
    for (uint32_t i = 1; i < term->outputs; i++)
        rewrite->graph->values[new_node->info.outputs[i]].info.dtype = output_type(results, new_node, term->types[i]);
    return new_node->info.outputs[0];
}

static uint32_t make_term(rule_results *results, const rule_term *term, inlay_dtype dtype)
{
    subgraph_builder *builder = &results->builder;
    const rule_match *match = results->match;
    uint32_t value = match->values[term->slot];
    bool given;

    if (builder->status != INLAY_OK)
        return INLAY_NONE;
    switch (term->kind) {
    case RULE_VALUE:
        return term->output == 0 ? value : rewrite_producer(match->rewrite, value)->info.outputs[term->output];
    case RULE_SCALAR:
        return emit_number(builder, dtype, match->numbers[term->slot]);
    case RULE_NUMBER:
        return emit_number(builder, dtype, term->number);
    case RULE_LIST:
        return emit_integers(builder, term->ints, term->count);
    case RULE_CAST:
        dtype = term->dtype != INLAY_UNDEFINED ? (inlay_dtype)term->dtype : builder_dtype(builder, value);
        return emit_cast(builder, make(results, term->args, INLAY_UNDEFINED), dtype);
    case RULE_GIVEN:
        given = term->compares ? match->numbers[term->slot] == term->number : value != INLAY_NONE;
        return make(results, &term->args[!given], dtype);
    case RULE_OP:
        return make_op(results, term);
    default:
        return INLAY_NONE;
    }
}

/* Creates a value and binds it to its label. dtype: of a number. Returns INLAY_NONE for an omitted input and after an
 * error. */
static uint32_t make(rule_results *results, const rule_term *term, inlay_dtype dtype)
{
    const uint32_t value = make_term(results, term, dtype);

    if (term->label > 0)
        results->match->values[term->label - 1] = value;
    return value;
}

inlay_status rule_replace(const rewrite_rule *rule, rule_match *match, bool decomposes)
{
    rule_results results = { .builder = { .rewrite = match->rewrite, .node = match->node }, .match = match };
    const rule_term *first = rule->results;
    uint32_t wanted = rule->result_count; /* results of later outputs may use what earlier ones create */
    graph_node *new_node;
    bool done;

    if (decomposes)
        match->node->not_lowered = rule->refusal;
    if (rule->refusal != NULL)
        return INLAY_OK;
    while (decomposes && wanted > 0 && !builder_wants(&results.builder, wanted - 1))
        wanted--;
    for (uint32_t i = 0; decomposes && i < wanted; i++)
        builder_set_output(&results.builder, i, make(&results, &rule->results[i], INLAY_UNDEFINED));
    if (decomposes)
        return builder_finish(&results.builder);
    if (first->kind != RULE_OP)
        return rewrite_forward(match->rewrite, match->node->info.outputs[0], make(&results, first, INLAY_UNDEFINED),
                               &done);
    new_node = make_node(&results, first);
    return new_node == NULL ? results.builder.status : rewrite_replace_node(match->rewrite, match->node, new_node);
}
