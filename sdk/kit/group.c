/* Groups of nodes by patterns in text. */
#include "inlay/kit_group.h"
#include "inlay/check.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

uint32_t *kit_readers(const inlay_graph *graph)
{
    const uint32_t unread = INLAY_NONE - 1;
    uint32_t *readers = malloc(((size_t)graph->value_count + 1) * sizeof *readers);

    for (uint32_t value = 0; readers != NULL && value < graph->value_count; value++)
        readers[value] = (inlay_graph_value(graph, value)->flags & INLAY_VALUE_GRAPH_OUTPUT) != 0 ? INLAY_NONE : unread;
    for (uint32_t node = 0; readers != NULL && node < graph->node_count; node++) {
        const inlay_node_info *info = inlay_graph_node(graph, node);

        for (uint32_t i = 0; i < info->input_count; i++) {
            const uint32_t value = info->inputs[i];

            if (value != INLAY_NONE)
                readers[value] = readers[value] == unread || readers[value] == node ? node : INLAY_NONE;
        }
    }
    for (uint32_t value = 0; readers != NULL && value < graph->value_count; value++)
        if (readers[value] == unread)
            readers[value] = INLAY_NONE;
    return readers;
}

static bool is_text(const inlay_str *text, const char *expected, size_t bytes)
{
    return text->bytes == bytes && memcmp(text->data, expected, bytes) == 0;
}

/* Is the operator of the node one of a word's alternatives? */
static bool is_one_of(const inlay_node_info *node, const char *word, size_t bytes)
{
    const char *end = word + bytes;

    while (word < end) {
        const size_t length = strcspn(word, "| ?");
        const size_t all = length < (size_t)(end - word) ? length : (size_t)(end - word);
        const char *colon = memchr(word, ':', all);
        const char *name = colon != NULL ? colon + 1 : word;

        if (is_text(&node->op_type, name, all - (size_t)(name - word)) &&
            (colon != NULL ? is_text(&node->domain, word, (size_t)(colon - word))
                           : is_text(&node->domain, "ai.onnx", strlen("ai.onnx"))))
            return true;
        word += all + 1;
    }
    return false;
}

/* The only reader of output 0 of the node; INLAY_NONE: there is none. */
static uint32_t reader_of(const inlay_graph *graph, const uint32_t *readers, uint32_t node)
{
    const inlay_node_info *info = inlay_graph_node(graph, node);

    return info->output_count == 0 || info->outputs[0] == INLAY_NONE ? INLAY_NONE : readers[info->outputs[0]];
}

/* The chain for the rest of a pattern that begins with node `at`, or with the next word if the first one may be
 * absent; appends it to nodes [count] and returns its length in all. 0: none fits. */
static uint32_t match_rest(const inlay_graph *graph, const uint32_t *readers, const uint8_t *candidates,
                           const char *pattern, uint32_t at, uint32_t nodes[KIT_GROUP_NODES], uint32_t count)
{
    size_t bytes;
    bool may_be_absent;
    uint32_t taken = 0;

    pattern += strspn(pattern, " ");
    bytes = strcspn(pattern, " ");
    if (bytes == 0)
        return count;
    may_be_absent = pattern[bytes - 1] == '?';
    if (at != INLAY_NONE && count < KIT_GROUP_NODES && (candidates == NULL || candidates[at] != 0) &&
        is_one_of(inlay_graph_node(graph, at), pattern, bytes - may_be_absent)) {
        nodes[count] = at;
        taken =
            match_rest(graph, readers, candidates, pattern + bytes, reader_of(graph, readers, at), nodes, count + 1);
    }
    if (taken > 0 || !may_be_absent)
        return taken;
    return match_rest(graph, readers, candidates, pattern + bytes, at, nodes, count);
}

uint32_t kit_group_match(const inlay_graph *graph, const uint32_t *readers, const uint8_t *candidates,
                         const char *pattern, uint32_t first, uint32_t nodes[KIT_GROUP_NODES])
{
    INLAY_CHECK(first < graph->node_count);
    return match_rest(graph, readers, candidates, pattern, first, nodes, 0);
}
