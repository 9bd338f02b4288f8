/* Resolves sequences whose elements are known individually, which exporters write for lists of tensors: SequenceAt
 * becomes the element, SequenceLength a constant, and ConcatFromSequence a Concat. SplitToSequence with known parts
 * becomes a Split. */
#include "passes/rewrite.h"
#include "inlay/check.h"
#include <string.h>

enum { MAX_ELEMENTS = 4096 }; /* elements, and nodes that build a sequence */

struct tensor_list {
    uint32_t *values; /* [MAX_ELEMENTS] */
    uint32_t count;
};

/* Reads input i, a constant position in [0, places); if omitted, places - 1. Returns false if it is unknown or out of
 * range. */
static bool read_position(struct rewrite *rewrite, const graph_node *node, uint32_t i, int64_t places, int64_t *out)
{
    const int64_t *ints;
    uint32_t count;

    *out = places - 1;
    if (rewrite_input(rewrite, node, i) != INLAY_NONE) {
        if (!rewrite_integers(rewrite, rewrite_input(rewrite, node, i), &ints, &count) || count != 1)
            return false;
        *out = ints[0];
    }
    return *out >= 0 && *out < places;
}

/* The same with negative positions, which count from the end: -1 is the last element for SequenceErase and SequenceAt,
 * and the position before it for SequenceInsert. */
static bool find_position(struct rewrite *rewrite, const graph_node *node, uint32_t i, int64_t elements, bool insert,
                          int64_t *out)
{
    const int64_t *ints;
    uint32_t count;

    if (rewrite_input(rewrite, node, i) != INLAY_NONE &&
        rewrite_integers(rewrite, rewrite_input(rewrite, node, i), &ints, &count) && count == 1 && ints[0] < 0) {
        *out = ints[0] + elements;
        return *out >= 0;
    }
    return read_position(rewrite, node, i, elements + insert, out);
}

static bool creates_sequence(const graph_node *node)
{
    return pass_is_op(node, "SequenceEmpty") || pass_is_op(node, "SequenceConstruct");
}

/* Applies one node to the list. Returns false if its effect is unknown. */
static bool apply_node(struct rewrite *rewrite, const graph_node *node, struct tensor_list *list)
{
    int64_t at;

    if (creates_sequence(node)) {
        list->count = 0;
        for (uint32_t i = 0; i < node->info.input_count && i < MAX_ELEMENTS; i++)
            list->values[list->count++] = rewrite_input(rewrite, node, i);
        return node->info.input_count <= MAX_ELEMENTS;
    }
    if (pass_is_op(node, "SequenceInsert")) {
        if (list->count == MAX_ELEMENTS || !find_position(rewrite, node, 2, list->count, true, &at))
            return false;
        INLAY_CHECK(at >= 0 && at <= (int64_t)list->count);
        memmove(list->values + at + 1, list->values + at, (list->count - (size_t)at) * sizeof *list->values);
        list->values[at] = rewrite_input(rewrite, node, 1);
        list->count++;
        return true;
    }
    if (list->count == 0 || !find_position(rewrite, node, 1, list->count, false, &at))
        return false;
    INLAY_CHECK(at >= 0 && at < (int64_t)list->count);
    memmove(list->values + at, list->values + at + 1, (list->count - (size_t)at - 1) * sizeof *list->values);
    list->count--;
    return true;
}

/* Reads the elements of a sequence. *out_known is false if they are unknown. */
static inlay_status read_list(struct rewrite *rewrite, uint32_t value, struct tensor_list *out, bool *out_known)
{
    const graph_node **nodes = arena_array(&rewrite->scratch, MAX_ELEMENTS, sizeof(const graph_node *)), *node;
    uint32_t count = 0;

    *out = (struct tensor_list){ arena_array(&rewrite->scratch, MAX_ELEMENTS, sizeof *out->values), 0 };
    *out_known = false;
    if (nodes == NULL || out->values == NULL)
        return rewrite_no_memory(rewrite);
    for (;;) { /* back to the node that creates the sequence */
        node = rewrite_producer(rewrite, value);
        if (node == NULL || count == MAX_ELEMENTS ||
            !(creates_sequence(node) || pass_is_op(node, "SequenceInsert") || pass_is_op(node, "SequenceErase")))
            return INLAY_OK;
        nodes[count++] = node;
        if (creates_sequence(node))
            break;
        value = rewrite_input(rewrite, node, 0);
    }
    while (count > 0)
        if (!apply_node(rewrite, nodes[--count], out))
            return INLAY_OK;
    *out_known = true;
    return INLAY_OK;
}

static inlay_status replace_element(struct rewrite *rewrite, graph_node *node)
{
    inlay_status status;
    bool known, done;
    int64_t at;
    struct tensor_list list;

    status = read_list(rewrite, rewrite_input(rewrite, node, 0), &list, &known);
    if (status != INLAY_OK || !known || !find_position(rewrite, node, 1, list.count, false, &at))
        return status;
    return rewrite_forward(rewrite, node->info.outputs[0], list.values[at], &done);
}

static inlay_status replace_length(struct rewrite *rewrite, graph_node *node)
{
    inlay_status status;
    int64_t length;
    bool known, done;
    uint32_t value;
    struct tensor_list list;

    status = read_list(rewrite, rewrite_input(rewrite, node, 0), &list, &known);
    if (status != INLAY_OK || !known)
        return status;
    length = list.count;
    value = rewrite_constant(rewrite, INLAY_INT64, 0, NULL, &length, sizeof length);
    return value == INLAY_NONE ? rewrite_no_memory(rewrite)
                               : rewrite_forward(rewrite, node->info.outputs[0], value, &done);
}

/* Only along an existing axis; with new_axis the node is kept. */
static inlay_status replace_concat(struct rewrite *rewrite, graph_node *node)
{
    graph_node *new_node;
    inlay_status status;
    bool known;
    struct tensor_list list;

    if (graph_attr_int(node, "new_axis", 0) != 0)
        return INLAY_OK;
    status = read_list(rewrite, rewrite_input(rewrite, node, 0), &list, &known);
    if (status != INLAY_OK || !known || list.count == 0)
        return status;
    new_node = rewrite_make_node(rewrite, "Concat", node->opset, node, list.values, list.count, 1);
    if (new_node == NULL ||
        graph_set_attr_int(rewrite->graph, new_node, "axis", graph_attr_int(node, "axis", 0)) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    return rewrite_replace_node(rewrite, node, new_node);
}

/* Reads the sizes of the parts and returns their number; 0: unknown. */
static uint32_t read_parts(struct rewrite *rewrite, const graph_node *node, int64_t size, int64_t **out)
{
    uint32_t split = rewrite_input(rewrite, node, 1), count = 0;
    const int64_t *ints;
    int64_t step = 1, sum = 0;

    *out = arena_array(&rewrite->scratch, MAX_ELEMENTS, sizeof **out);
    if (*out == NULL || (split == INLAY_NONE && graph_attr_int(node, "keepdims", 1) == 0))
        return 0;
    if (split != INLAY_NONE) {
        if (!rewrite_integers(rewrite, split, &ints, &count))
            return 0;
        step = ints != NULL && count == 1 ? ints[0] : 0;
    }
    if (split != INLAY_NONE && rewrite_value_info(rewrite, split)->rank == 1) {
        for (uint32_t i = 0; i < count && i < MAX_ELEMENTS; sum += ints[i++]) {
            if (ints[i] < 0 || ints[i] > size)
                return 0;
            (*out)[i] = ints[i];
        }
        return count <= MAX_ELEMENTS && sum == size ? count : 0;
    }
    if (step < 1 || size < 1 || (size - 1) / step >= MAX_ELEMENTS)
        return 0;
    for (count = 0; size > 0; size -= step)
        (*out)[count++] = size < step ? size : step;
    return count;
}

static inlay_status replace_split(struct rewrite *rewrite, graph_node *node)
{
    const inlay_value_info *input = rewrite_value_info(rewrite, rewrite_input(rewrite, node, 0));
    int64_t axis = graph_attr_int(node, "axis", 0), *sizes;
    uint32_t inputs[2] = { rewrite_input(rewrite, node, 0), INLAY_NONE }, count;
    graph_node *parts, *construct;
    inlay_status status;

    if (node->opset < 13 || input->rank == INLAY_RANK_UNKNOWN || axis < -(int64_t)input->rank ||
        axis >= (int64_t)input->rank)
        return INLAY_OK;
    count = read_parts(rewrite, node, rewrite_dim(input, axis), &sizes);
    if (count == 0)
        return INLAY_OK;
    inputs[1] = rewrite_constant_ints(rewrite, sizes, count);
    parts = inputs[1] == INLAY_NONE ? NULL : rewrite_make_node(rewrite, "Split", node->opset, node, inputs, 2, count);
    if (parts == NULL || graph_set_attr_int(rewrite->graph, parts, "axis", axis) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    status = rewrite_insert_node(rewrite, parts, input->dtype);
    if (status != INLAY_OK)
        return status;
    construct = rewrite_make_node(rewrite, "SequenceConstruct", node->opset, node, parts->info.outputs, count, 1);
    return construct == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, construct);
}

inlay_status match_sequences(struct rewrite *rewrite, graph_node *node)
{
    if (pass_is_op(node, "SequenceAt"))
        return replace_element(rewrite, node);
    if (pass_is_op(node, "SequenceLength"))
        return replace_length(rewrite, node);
    if (pass_is_op(node, "ConcatFromSequence"))
        return replace_concat(rewrite, node);
    return pass_is_op(node, "SplitToSequence") ? replace_split(rewrite, node) : INLAY_OK;
}
