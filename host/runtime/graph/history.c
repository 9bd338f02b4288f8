#include "graph/history.h"
#include "inlay/check.h"
#include <string.h>

/* A node that was removed. */
typedef struct removed_node {
    graph_node *node;
    int64_t rewrite;   /* number of the rewrite that removed the node */
    uint32_t *earlier; /* [output_count] 1 + index of the removed node that produced the output before; 0 = none */
} removed_node;

struct graph_history {
    removed_node *removed;
    uint32_t removed_count;
    uint32_t *last; /* [value_capacity] 1 + index of the last removed producer of the value; 0 = none */
    uint32_t *same; /* [value_capacity] the value that is read instead, or INLAY_NONE */
    uint32_t value_capacity;
    graph_node **checks; /* [check_count] see history_keep_check() */
    uint32_t check_count;
};

static const struct {
    uint32_t minor;
    const char *domain, *op;
} made_ops[] = {
#define MADE(minor, domain, op) { minor, domain, op },
#include "graph/made_ops.def"
#undef MADE
};

uint32_t graph_op_since_minor(const graph_node *node)
{
    for (size_t i = 0; node->made_by != NULL && i < sizeof made_ops / sizeof made_ops[0]; i++)
        if (strcmp(made_ops[i].op, node->info.op_type.data) == 0 &&
            strcmp(made_ops[i].domain, node->info.domain.data) == 0)
            return made_ops[i].minor;
    return node->made_by != NULL ? UINT32_MAX : 0;
}

/* The graph's history, with room for all of its values. NULL: no pass runs, or out of memory. */
static graph_history *history_of(struct graph *graph)
{
    struct arena *arena = &graph->model->arena;
    graph_history *history = graph->history;
    uint32_t capacity;

    if (graph->model->rewrite.pass == NULL)
        return NULL;
    if (history == NULL)
        history = graph->history = arena_alloc(arena, sizeof *history);
    if (history == NULL || history->value_capacity >= graph->value_count)
        return history;
    capacity = graph->value_count + graph->value_count / 2 + 64;
    history->last = arena_grown(arena, history->last, history->value_capacity, capacity, sizeof *history->last);
    history->same = arena_grown(arena, history->same, history->value_capacity, capacity, sizeof *history->same);
    if (history->last == NULL || history->same == NULL) {
        graph->history = NULL; /* an incomplete history is unusable */
        return NULL;
    }
    memset(history->same + history->value_capacity, 0xff, (capacity - history->value_capacity) * sizeof *history->same);
    history->value_capacity = capacity;
    return history;
}

void history_removed(struct graph *graph, graph_node *node)
{
    graph_history *history = history_of(graph);
    uint32_t *earlier;

    if (history == NULL || !ARENA_GROW(&graph->model->arena, history->removed, history->removed_count))
        return;
    earlier = arena_array(&graph->model->arena, (size_t)node->info.output_count + 1, sizeof *earlier);
    if (earlier == NULL)
        return;
    history->removed[history->removed_count++] = (removed_node){ node, graph->model->rewrite.number, earlier };
    for (uint32_t i = 0; i < node->info.output_count; i++) {
        if (node->info.outputs[i] == INLAY_NONE)
            continue;
        INLAY_CHECK(node->info.outputs[i] < history->value_capacity);
        earlier[i] = history->last[node->info.outputs[i]];
        history->last[node->info.outputs[i]] = history->removed_count;
    }
}

void history_value_replaced(struct graph *graph, uint32_t value, uint32_t instead)
{
    graph_history *history = value == instead ? NULL : history_of(graph);

    if (history == NULL)
        return;
    INLAY_CHECK(value < graph->value_count && instead < graph->value_count);
    history->same[value] = instead;
}

void history_keep_check(struct graph *graph, graph_node *node)
{
    graph_history *history = history_of(graph);

    if (history != NULL && ARENA_GROW(&graph->model->arena, history->checks, history->check_count))
        history->checks[history->check_count++] = node;
}

graph_node *const *history_checks(const struct graph *graph, uint32_t *out_count)
{
    *out_count = graph->history != NULL ? graph->history->check_count : 0;
    return *out_count > 0 ? graph->history->checks : NULL;
}

uint32_t history_resolve(const struct graph *graph, uint32_t value)
{
    const graph_history *history = graph->history;

    while (history != NULL && value != INLAY_NONE && value < history->value_capacity &&
           history->same[value] != INLAY_NONE)
        value = history->same[value];
    return value;
}

const graph_node *history_replaced(const struct graph *graph, int64_t rewrite, uint32_t i)
{
    const graph_history *history = graph->history;
    uint32_t low = 0, high = history != NULL ? history->removed_count : 0;

    while (low < high) { /* binary search: rewrite numbers ascend */
        uint32_t middle = low + (high - low) / 2;

        if (history->removed[middle].rewrite < rewrite)
            low = middle + 1;
        else
            high = middle;
    }
    return history != NULL && low + i < history->removed_count && history->removed[low + i].rewrite == rewrite
               ? history->removed[low + i].node
               : NULL;
}

bool history_save(const struct graph *graph, struct arena *arena, graph_saved *out)
{
    *out = (graph_saved){ .node_count = graph->node_count,
                          .node_capacity = graph->node_capacity,
                          .value_count = graph->value_count };
    out->nodes = arena_array(arena, (size_t)graph->node_capacity + 1, sizeof(graph_node *));
    out->values = arena_array(arena, (size_t)graph->value_count + 1, sizeof *out->values);
    if (out->nodes == NULL || out->values == NULL)
        return false;
    if (graph->node_count > 0)
        memcpy(out->nodes, graph->nodes, graph->node_count * sizeof(graph_node *));
    if (graph->value_count > 0)
        memcpy(out->values, graph->values, graph->value_count * sizeof *out->values);
    return true;
}

void history_restore(struct graph *graph, const graph_saved *saved)
{
    /* Neither undoing nor inference adds values, and undoing never reduces the capacity for nodes. */
    INLAY_CHECK(saved->node_count <= graph->node_capacity && saved->value_count <= graph->value_capacity);
    memcpy(graph->nodes, saved->nodes, saved->node_count * sizeof(graph_node *));
    graph->node_count = saved->node_count;
    memcpy(graph->values, saved->values, saved->value_count * sizeof *graph->values);
    graph->value_count = saved->value_count;
}

struct undo_state {
    struct graph *graph;
    const graph_history *history;
    int64_t rewrite;
    struct arena arena;    /* for the duration of history_undo() */
    graph_node **producer; /* [value_count] among remaining and restored nodes */
    bool *is_source;       /* [value_count] inputs, constants, captures */
    bool *requested;       /* [value_count] the value is in the queue */
    uint32_t *instead;     /* [value_count] value that replaces a removed value, or INLAY_NONE */
    uint32_t *queue;       /* [value_count] values that must be available */
    uint32_t queue_count;
    graph_node **nodes; /* remaining nodes, then restored nodes */
    uint32_t node_count;
    uint32_t kept_count; /* number of remaining nodes */
};

static bool is_available(const struct undo_state *undo, uint32_t value)
{
    return undo->is_source[value] || undo->producer[value] != NULL;
}

/* The value to read for `value`: itself, or an available value with the same contents. INLAY_NONE if none is
 * available. */
static uint32_t resolve(const struct undo_state *undo, uint32_t value)
{
    for (uint32_t steps = 0; value != INLAY_NONE && steps < undo->graph->value_count; steps++) {
        if (is_available(undo, value))
            return value;
        if (undo->instead[value] != INLAY_NONE)
            value = undo->instead[value];
        else
            value = value < undo->history->value_capacity ? undo->history->same[value] : INLAY_NONE;
    }
    return INLAY_NONE;
}

static void request_value(struct undo_state *undo, uint32_t value)
{
    if (value == INLAY_NONE)
        return;
    INLAY_CHECK(value < undo->graph->value_count);
    if (undo->requested[value])
        return;
    INLAY_CHECK(undo->queue_count < undo->graph->value_count);
    undo->requested[value] = true;
    undo->queue[undo->queue_count++] = value;
}

/* The removed node that produced value before the rewrite; NULL: none can be restored. */
static const removed_node *previous_producer(const struct undo_state *undo, uint32_t value)
{
    uint32_t at = value < undo->history->value_capacity ? undo->history->last[value] : 0;

    while (at != 0) {
        const removed_node *removed;
        const inlay_node_info *info;
        uint32_t output = 0;
        bool usable;

        INLAY_CHECK(at <= undo->history->removed_count);
        removed = &undo->history->removed[at - 1];
        info = &removed->node->info;
        usable = removed->node->rewrite < undo->rewrite && removed->node->body_count == 0;
        for (uint32_t i = 0; i < info->output_count; i++) {
            output = info->outputs[i] == value ? i : output;
            usable = usable && (info->outputs[i] == INLAY_NONE || !is_available(undo, info->outputs[i]));
        }
        if (usable)
            return removed;
        at = removed->earlier[output];
    }
    return NULL;
}

static graph_node *copy_node(struct arena *arena, const graph_node *node)
{
    graph_node *copy = arena_copy(arena, node, sizeof *node);

    if (copy == NULL)
        return NULL;
    copy->info.inputs = arena_copy(arena, node->info.inputs, node->info.input_count * sizeof *node->info.inputs);
    copy->info.outputs = arena_copy(arena, node->info.outputs, node->info.output_count * sizeof *node->info.outputs);
    return (copy->info.inputs == NULL && node->info.input_count > 0) ||
                   (copy->info.outputs == NULL && node->info.output_count > 0)
               ? NULL
               : copy;
}

static bool add_node(struct undo_state *undo, graph_node *node)
{
    if (!ARENA_GROW(&undo->arena, undo->nodes, undo->node_count))
        return false;
    undo->nodes[undo->node_count++] = node;
    for (uint32_t i = 0; i < node->info.output_count; i++)
        if (node->info.outputs[i] != INLAY_NONE)
            undo->producer[node->info.outputs[i]] = node;
    return true;
}

static bool restore_node(struct undo_state *undo, const removed_node *removed)
{
    graph_node *node = copy_node(&undo->graph->model->arena, removed->node);

    if (node == NULL || !add_node(undo, node))
        return false;
    for (uint32_t i = 0; i < node->info.input_count; i++)
        request_value(undo, node->info.inputs[i]);
    return true;
}

/* Makes value available, by restoring its previous producer if necessary. */
static bool make_available(struct undo_state *undo, uint32_t value)
{
    const removed_node *node;

    if (resolve(undo, value) != INLAY_NONE)
        return true;
    for (uint32_t equal = value, steps = 0; equal < undo->history->value_capacity && steps < undo->graph->value_count;
         equal = undo->history->same[equal], steps++) {
        node = previous_producer(undo, equal);
        if (node != NULL)
            return restore_node(undo, node);
    }
    /* The rewrite created value as a replacement for another value, whose readers now read it. */
    for (uint32_t equal = 0; equal < undo->graph->value_count && equal < undo->history->value_capacity; equal++) {
        if (undo->history->same[equal] != value)
            continue;
        node = is_available(undo, equal) ? NULL : previous_producer(undo, equal);
        if (node == NULL && !is_available(undo, equal))
            continue;
        undo->instead[value] = equal;
        return node == NULL || restore_node(undo, node);
    }
    return false;
}

static bool undo_open(struct undo_state *undo)
{
    const struct graph *graph = undo->graph;
    size_t values = (size_t)graph->value_count + 1;

    undo->producer = arena_array(&undo->arena, values, sizeof(graph_node *));
    undo->is_source = arena_array(&undo->arena, values, sizeof *undo->is_source);
    undo->requested = arena_array(&undo->arena, values, sizeof *undo->requested);
    undo->instead = arena_array(&undo->arena, values, sizeof *undo->instead);
    undo->queue = arena_array(&undo->arena, values, sizeof *undo->queue);
    if (undo->producer == NULL || undo->is_source == NULL || undo->requested == NULL || undo->instead == NULL ||
        undo->queue == NULL)
        return false;
    memset(undo->instead, 0xff, values * sizeof *undo->instead);
    for (uint32_t value = 0; value < graph->value_count; value++)
        undo->is_source[value] = (graph->values[value].info.flags & INLAY_VALUE_CONSTANT) != 0;
    for (uint32_t i = 0; i < graph->input_count; i++)
        undo->is_source[graph->inputs[i]] = true;
    for (uint32_t i = 0; i < graph->captured_count; i++)
        undo->is_source[graph->captured[i]] = true;
    for (uint32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->rewrite != undo->rewrite && !add_node(undo, graph->nodes[i]))
            return false;
    undo->kept_count = undo->node_count;
    return undo->kept_count < graph->node_count;
}

/* Requests all values that the remaining nodes and the graph's outputs read. */
static void request_all_reads(struct undo_state *undo)
{
    for (uint32_t i = 0; i < undo->kept_count; i++) {
        const graph_node *node = undo->nodes[i];

        for (uint32_t k = 0; k < node->info.input_count; k++)
            request_value(undo, node->info.inputs[k]);
        for (uint32_t k = 0; k < node->capture_count; k++)
            request_value(undo, node->captures[k]);
    }
    for (uint32_t i = 0; i < undo->graph->output_count; i++)
        request_value(undo, undo->graph->outputs[i]);
}

/* Makes a node read available values. A remaining node is copied before it is modified. False: impossible. */
static bool redirect_inputs(struct undo_state *undo, uint32_t at)
{
    graph_node *node = undo->nodes[at];

    for (uint32_t k = 0; k < node->capture_count; k++)
        if (resolve(undo, node->captures[k]) != node->captures[k])
            return false;
    for (uint32_t k = 0; k < node->info.input_count; k++) {
        uint32_t value = node->info.inputs[k], replacement = resolve(undo, value);

        if (replacement == value)
            continue;
        if (replacement == INLAY_NONE)
            return false;
        if (at < undo->kept_count && node == undo->nodes[at]) {
            node = copy_node(&undo->graph->model->arena, node);
            if (node == NULL || node->body_count > 0)
                return false;
        }
        ((uint32_t *)(uintptr_t)node->info.inputs)[k] = replacement;
    }
    undo->nodes[at] = node;
    return true;
}

/* Removes nodes that passes created and whose outputs are no longer read. */
static bool remove_unused(struct undo_state *undo)
{
    uint32_t *uses = arena_array(&undo->arena, (size_t)undo->graph->value_count + 1, sizeof *uses), kept = 0;
    bool again = true;

    if (uses == NULL)
        return false;
    for (uint32_t i = 0; i < undo->node_count; i++) {
        for (uint32_t k = 0; k < undo->nodes[i]->info.input_count; k++)
            if (undo->nodes[i]->info.inputs[k] != INLAY_NONE)
                uses[undo->nodes[i]->info.inputs[k]]++;
        for (uint32_t k = 0; k < undo->nodes[i]->capture_count; k++)
            uses[undo->nodes[i]->captures[k]]++;
    }
    for (uint32_t i = 0; i < undo->graph->output_count; i++)
        if (undo->graph->outputs[i] != INLAY_NONE)
            uses[undo->graph->outputs[i]]++;
    while (again) {
        again = false;
        for (uint32_t i = undo->node_count; i-- > 0;) {
            const graph_node *node = undo->nodes[i];
            bool read = node == NULL || node->rewrite == 0 || node->body_count > 0;

            for (uint32_t k = 0; !read && k < node->info.output_count; k++)
                read = node->info.outputs[k] != INLAY_NONE && uses[node->info.outputs[k]] > 0;
            for (uint32_t k = 0; !read && k < node->info.input_count; k++)
                if (node->info.inputs[k] != INLAY_NONE)
                    uses[node->info.inputs[k]]--;
            if (!read) {
                undo->nodes[i] = NULL;
                again = true;
            }
        }
    }
    for (uint32_t i = 0; i < undo->node_count; i++)
        if (undo->nodes[i] != NULL)
            undo->nodes[kept++] = undo->nodes[i];
    undo->node_count = kept;
    return true;
}

/* Stores the nodes in the graph. Keeps the graph's array if it has room, because a graph_saved may be restored to
 * it. */
static bool install(struct undo_state *undo)
{
    struct graph *graph = undo->graph;

    if (undo->node_count > graph->node_capacity) {
        graph_node **bigger = arena_array(&graph->model->arena, (size_t)undo->node_count + 16, sizeof *bigger);

        if (bigger == NULL)
            return false;
        graph->nodes = bigger;
        graph->node_capacity = undo->node_count + 16;
    }
    if (undo->node_count > 0)
        memcpy(graph->nodes, undo->nodes, undo->node_count * sizeof *graph->nodes);
    graph->node_count = undo->node_count;
    return true;
}

bool history_undo(struct graph *graph, int64_t rewrite)
{
    struct undo_state undo = { .graph = graph, .history = graph->history, .rewrite = rewrite };
    bool done = rewrite > 0 && graph->history != NULL && undo_open(&undo);

    if (done)
        request_all_reads(&undo);
    for (uint32_t i = 0; done && i < undo.queue_count; i++)
        done = make_available(&undo, undo.queue[i]);
    for (uint32_t i = 0; done && i < undo.node_count; i++)
        done = redirect_inputs(&undo, i);
    for (uint32_t i = 0; done && i < graph->output_count; i++)
        done = graph->outputs[i] == INLAY_NONE || is_available(&undo, graph->outputs[i]);
    done = done && remove_unused(&undo) && install(&undo);
    arena_deinit(&undo.arena);
    return done;
}
