/* session/last_logits.c - option last_logits: a language model computes the logits of its last tokens only. The model
 * gets an input `last_logits`, whose number of elements is the number of these tokens, and the product that makes the
 * logits reads a part of the hidden states:
 *
 *     hidden, weights -> MatMul -> ... -> logits
 *     hidden, -Shape(last_logits) -> Slice -> rows;  rows, weights -> MatMul -> ... -> logits
 *
 * No element, the default, begins the slice at 0, which are all tokens. The number is a size and not a value, because
 * plans are made for sizes. If the model has the number of these tokens as its input `num_logits_to_keep`, the input
 * `last_logits` replaces this one. */
#include "base/memory.h"
#include "inlay/check.h"
#include "passes/pass.h"
#include "session/session.h"
#include <string.h>

enum { TOKEN_AXIS = 1, LOGITS_RANK = 3, MOST_NODES = 16 };
static const char NAME[] = "last_logits", NUMBER[] = "num_logits_to_keep";

/* The nodes from the logits back to the product, which is the last of them. */
struct path {
    graph_node *nodes[MOST_NODES];
    uint32_t count;
};

static bool is_one_of(const graph_node *node, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(node->info.op_type.data, names[i]) == 0)
            return true;
    return false;
}

/* A product of each row of its first input and a matrix. */
static bool is_product(const struct graph *graph, const graph_node *node)
{
    static const char *const products[] = { "MatMul", "MatMulInteger", "MatMulNBits", "MatMulBnb4" };

    return is_one_of(node, products, sizeof products / sizeof *products) && node->info.input_count >= 2 &&
           graph->values[node->info.inputs[0]].info.rank == LOGITS_RANK &&
           (strcmp(node->info.op_type.data, "MatMul") != 0 || graph->values[node->info.inputs[1]].info.rank == 2);
}

/* Whether all rows of the value, [tokens, words] of each text, are alike. */
static bool is_alike(const inlay_value_info *info)
{
    for (uint32_t d = 0; info->rank != INLAY_RANK_UNKNOWN && d + 1 < info->rank; d++)
        if (info->dims[d].kind != INLAY_DIM_FIXED || info->dims[d].value != 1)
            return false;
    return info->rank <= LOGITS_RANK;
}

/* The input of a node that computes each element of its output from the same one of this input; INLAY_NONE: it is
 * another node. */
static uint32_t same_place(const struct graph *graph, const graph_node *node)
{
    static const char *const elementwise[] = { "Add", "Sub", "Mul", "Div", "Tanh", "Cast" };
    uint32_t found = INLAY_NONE;

    if (!is_one_of(node, elementwise, sizeof elementwise / sizeof *elementwise))
        return INLAY_NONE;
    for (uint32_t i = 0; i < node->info.input_count; i++) {
        const uint32_t value = node->info.inputs[i];
        const inlay_value_info *info = &graph->values[value].info;

        /* is_alike() also accepts logits of one token, so the rank or a constant decides. */
        if (is_alike(info) && (info->rank < LOGITS_RANK || (info->flags & INLAY_VALUE_CONSTANT) != 0))
            continue;
        if (found != INLAY_NONE || graph->values[value].info.rank != LOGITS_RANK)
            return INLAY_NONE;
        found = value;
    }
    return found;
}

static uint32_t count_uses(const struct graph *graph, uint32_t value)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];

        for (uint32_t k = 0; k < node->info.input_count; k++)
            count += node->info.inputs[k] == value;
        for (uint32_t k = 0; k < node->capture_count; k++)
            count += node->captures[k] == value;
    }
    for (uint32_t i = 0; i < graph->output_count; i++)
        count += graph->outputs[i] == value;
    return count;
}

/* Follows the logits back to their product. false: a node may mix tokens, or a value has another reader. */
static bool find_path(const struct graph *graph, uint32_t logits, struct path *out)
{
    *out = (struct path){ .count = 0 };
    for (uint32_t value = logits; value != INLAY_NONE && count_uses(graph, value) == 1 && out->count < MOST_NODES;) {
        const uint32_t producer = graph->values[value].info.producer;
        graph_node *node = producer != INLAY_NONE ? graph->nodes[producer] : NULL;

        if (node == NULL || node->info.output_count != 1)
            return false;
        out->nodes[out->count++] = node;
        if (is_product(graph, node))
            return true;
        /* An adapter of the product, which reads the hidden states once more. */
        value = strcmp(node->info.op_type.data, "LowRank") == 0 ? node->info.inputs[0] : same_place(graph, node);
    }
    return false;
}

/* Adds the input, by default without elements. INLAY_NONE: out of memory. */
static uint32_t add_input(struct graph *graph)
{
    static const int64_t none[1];

    return graph_add_list_input(graph, NAME, NAME,
                                &(inlay_tensor_view){ .data = none, .dims = none, .rank = 1, .dtype = INLAY_INT64 });
}

/* Forgets the inferred shape of a value, and what the file declares; logits have another size now. false: out of
 * memory. */
static bool forget_shape(struct graph *graph, graph_value *value)
{
    const uint32_t symbol = graph_symbol(graph->model, "last_logits_tokens");
    inlay_dim *dims;

    value->info.rank = INLAY_RANK_UNKNOWN;
    value->info.dims = NULL;
    if (!value->declared || value->declared_rank != LOGITS_RANK) {
        value->declared = false;
        return true;
    }
    dims = arena_copy(&graph->model->arena, value->declared_dims, LOGITS_RANK * sizeof *dims);
    if (dims == NULL || symbol == 0)
        return false;
    dims[TOKEN_AXIS] = (inlay_dim){ .value = -1, .kind = INLAY_DIM_SYMBOLIC, .symbol = symbol };
    value->declared_dims = dims;
    return true;
}

/* The input `num_logits_to_keep`, a whole number that only nodes of the main graph read; INLAY_NONE: none. */
static uint32_t find_number(const struct graph *graph)
{
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const graph_value *value = &graph->values[graph->inputs[i]];
        const bool is_list =
            value->info.rank == 1 && value->info.dims[0].kind == INLAY_DIM_FIXED && value->info.dims[0].value == 1;
        bool captured = false;

        for (uint32_t k = 0; k < graph->node_count; k++)
            for (uint32_t c = 0; c < graph->nodes[k]->capture_count; c++)
                captured |= graph->nodes[k]->captures[c] == graph->inputs[i];
        if (strcmp(value->info.name.data, NUMBER) == 0)
            return value->info.kind == INLAY_VALUE_TENSOR && value->info.dtype == INLAY_INT64 && !value->has_default &&
                           (value->info.rank == 0 || is_list) && !captured && !pass_is_output(graph, graph->inputs[i])
                       ? i
                       : INLAY_NONE;
    }
    return INLAY_NONE;
}

/* Takes input i, the number of tokens, from the size of the new input. false: out of memory. */
static bool replace_number(struct graph *graph, uint32_t i, uint32_t logits)
{
    const uint32_t number = graph->inputs[i], nodes = graph->node_count;
    const char *op_type = graph->values[number].info.rank == 0 ? "Size" : "Shape";
    uint32_t count = add_input(graph);

    if (count == INLAY_NONE || !session_insert_node(graph, NAME, op_type, &count, 1, &count) ||
        !forget_shape(graph, &graph->values[logits]))
        return false;
    for (uint32_t n = 0; n < nodes; n++)
        for (uint32_t k = 0; k < graph->nodes[n]->info.input_count; k++)
            if (graph->nodes[n]->info.inputs[k] == number)
                ((uint32_t *)(uintptr_t)graph->nodes[n]->info.inputs)[k] = count;
    graph->input_count--;
    memmove(graph->inputs + i, graph->inputs + i + 1, (graph->input_count - i) * sizeof *graph->inputs);
    return true;
}

/* false: out of memory. */
static bool rewrite(struct graph *graph, const struct path *path)
{
    const graph_node *product = path->nodes[path->count - 1];
    const uint32_t hidden = product->info.inputs[0];
    uint32_t count = add_input(graph), slice[4] = { hidden };
    bool good = count != INLAY_NONE && session_insert_node(graph, NAME, "Shape", &count, 1, &count) &&
                session_insert_node(graph, NAME, "Neg", &count, 1, &slice[1]) &&
                session_insert_number(graph, INT64_MAX, &slice[2]) &&
                session_insert_number(graph, TOKEN_AXIS, &slice[3]) &&
                session_insert_node(graph, NAME, "Slice", slice, 4, &count);

    for (uint32_t i = 0; good && i < path->count; i++) {
        uint32_t *inputs = (uint32_t *)(uintptr_t)path->nodes[i]->info.inputs;

        good = forget_shape(graph, &graph->values[path->nodes[i]->info.outputs[0]]);
        for (uint32_t k = 0; k < path->nodes[i]->info.input_count; k++)
            if (inputs[k] == hidden)
                inputs[k] = count;
    }
    return good;
}

inlay_status session_keep_last_logits(graph_model *model, const inlay_options *options, inlay_diag *diag)
{
    struct graph *graph = model->main;
    const uint32_t logits = graph_find_value(graph, "logits"), number = find_number(graph);
    inlay_status status = INLAY_OK;
    struct path path;

    if (options_int(options, OPTION_last_logits) == 0 || logits == INLAY_NONE ||
        graph->values[logits].info.rank != LOGITS_RANK || graph_model_opset(model, "ai.onnx") < 10 ||
        graph_find_value(graph, NAME) != INLAY_NONE || !session_names_states(graph, options) ||
        (number == INLAY_NONE && !find_path(graph, logits, &path)))
        return INLAY_OK;
    if (number != INLAY_NONE ? !replace_number(graph, number, logits) : !rewrite(graph, &path))
        return no_memory(diag, "for option last_logits");
    INLAY_TRY(graph_bind(model, NULL, diag));
    INLAY_TRY(graph_finish(graph, diag));
    INLAY_TRY(graph_infer(model, diag));
done:
    return status;
}
