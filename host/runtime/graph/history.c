#include "graph/history.h"
#include <string.h>

/* A node that was taken out. */
typedef struct removed_node {
    graph_node *node;
    int64_t rewrite;   /* the one that took it out */
    uint32_t *earlier; /* [output_count] the removed node, counted from 1, that made the output before; 0 = none */
} removed_node;

struct graph_history {
    removed_node *removed;
    uint32_t removed_count;
    uint32_t *last; /* [value_capacity] the node, counted from 1, removed last of those that made the value */
    uint32_t *same; /* [value_capacity] what is read instead, INLAY_NONE */
    uint32_t value_capacity;
};

static const struct {
    uint32_t minor;
    const char *domain, *op;
} made_ops[] = {
#define MADE(minor, domain, op) { minor, domain, op },
#include "graph/made_ops.def"
#undef MADE
};

uint32_t graph_made_since(const graph_node *node)
{
    for (size_t i = 0; node->made_by != NULL && i < sizeof made_ops / sizeof made_ops[0]; i++)
        if (strcmp(made_ops[i].op, node->info.op_type.data) == 0 &&
            strcmp(made_ops[i].domain, node->info.domain.data) == 0)
            return made_ops[i].minor;
    return node->made_by != NULL ? UINT32_MAX : 0;
}

/* ------------------------------------------------------------------ remembering */

/* The graph's history, with room for its values; NULL: no pass runs, or no memory. */
static graph_history *history_of(struct graph *graph)
{
    struct arena *arena = &graph->model->arena;
    graph_history *history = graph->history;
    uint32_t capacity;

    if (graph->model->pass == NULL)
        return NULL;
    if (history == NULL)
        history = graph->history = arena_alloc(arena, sizeof *history);
    if (history == NULL || history->value_capacity >= graph->value_count)
        return history;
    capacity = graph->value_count + graph->value_count / 2 + 64;
    history->last = arena_grown(arena, history->last, history->value_capacity, capacity, sizeof *history->last);
    history->same = arena_grown(arena, history->same, history->value_capacity, capacity, sizeof *history->same);
    if (history->last == NULL || history->same == NULL) {
        graph->history = NULL; /* what is remembered in part is not to be trusted */
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
    history->removed[history->removed_count++] = (removed_node){ node, graph->model->rewrite, earlier };
    for (uint32_t i = 0; i < node->info.output_count; i++) {
        if (node->info.outputs[i] == INLAY_NONE)
            continue;
        earlier[i] = history->last[node->info.outputs[i]];
        history->last[node->info.outputs[i]] = history->removed_count;
    }
}

void history_same(struct graph *graph, uint32_t value, uint32_t instead)
{
    graph_history *history = value == instead ? NULL : history_of(graph);

    if (history != NULL)
        history->same[value] = instead;
}

const graph_node *history_replaced(const struct graph *graph, int64_t rewrite, uint32_t i)
{
    const graph_history *history = graph->history;
    uint32_t low = 0, high = history != NULL ? history->removed_count : 0;

    while (low < high) { /* rewrites are numbered as they come */
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
    /* Undoing adds neither room nor values of its own; inference may have added to neither. */
    memcpy(graph->nodes, saved->nodes, saved->node_count * sizeof(graph_node *));
    graph->node_count = saved->node_count;
    memcpy(graph->values, saved->values, saved->value_count * sizeof *graph->values);
    graph->value_count = saved->value_count;
}

/* ------------------------------------------------------------------ undoing */

struct undoing {
    struct graph *graph;
    const graph_history *history;
    int64_t rewrite;
    struct arena arena; /* until it is done */
    graph_node **maker; /* [value_count] among those that stay or come back */
    bool *given;        /* [value_count] inputs, constants, captures */
    bool *asked;        /* [value_count] */
    uint32_t *instead;  /* [value_count] what all read in the place of a value that goes, INLAY_NONE */
    uint32_t *queue;    /* [value_count] values to be had */
    uint32_t queue_count;
    graph_node **nodes; /* those that stay, then those that come back */
    uint32_t node_count;
    uint32_t kept_count;
};

static bool is_there(const struct undoing *undoing, uint32_t value)
{
    return undoing->given[value] || undoing->maker[value] != NULL;
}

/* What to read for value: itself, or what has its elements. INLAY_NONE: nothing has. */
static uint32_t resolve(const struct undoing *undoing, uint32_t value)
{
    for (uint32_t steps = 0; value != INLAY_NONE && steps < undoing->graph->value_count; steps++) {
        if (is_there(undoing, value))
            return value;
        if (undoing->instead[value] != INLAY_NONE)
            value = undoing->instead[value];
        else
            value = value < undoing->history->value_capacity ? undoing->history->same[value] : INLAY_NONE;
    }
    return INLAY_NONE;
}

static void ask(struct undoing *undoing, uint32_t value)
{
    if (value == INLAY_NONE || undoing->asked[value])
        return;
    undoing->asked[value] = true;
    undoing->queue[undoing->queue_count++] = value;
}

/* The node that made value before the rewrite; NULL: none that can come back. */
static const removed_node *maker_before(const struct undoing *undoing, uint32_t value)
{
    uint32_t at = value < undoing->history->value_capacity ? undoing->history->last[value] : 0;

    while (at != 0) {
        const removed_node *node = &undoing->history->removed[at - 1];
        const inlay_node_info *n = &node->node->info;
        bool same = node->node->rewrite < undoing->rewrite && node->node->body_count == 0;
        uint32_t output = 0;

        for (uint32_t i = 0; i < n->output_count; i++) {
            output = n->outputs[i] == value ? i : output;
            same = same && (n->outputs[i] == INLAY_NONE || !is_there(undoing, n->outputs[i]));
        }
        if (same)
            return node;
        at = node->earlier[output];
    }
    return NULL;
}

static graph_node *copy_of(struct arena *arena, const graph_node *node)
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

static bool add_node(struct undoing *undoing, graph_node *node)
{
    if (!ARENA_GROW(&undoing->arena, undoing->nodes, undoing->node_count))
        return false;
    undoing->nodes[undoing->node_count++] = node;
    for (uint32_t i = 0; i < node->info.output_count; i++)
        if (node->info.outputs[i] != INLAY_NONE)
            undoing->maker[node->info.outputs[i]] = node;
    return true;
}

static bool bring_back(struct undoing *undoing, const removed_node *node)
{
    graph_node *n = copy_of(&undoing->graph->model->arena, node->node);

    if (n == NULL || !add_node(undoing, n))
        return false;
    for (uint32_t i = 0; i < n->info.input_count; i++)
        ask(undoing, n->info.inputs[i]);
    return true;
}

/* Sees to it that value can be read. */
static bool provide(struct undoing *undoing, uint32_t value)
{
    const removed_node *node;

    if (resolve(undoing, value) != INLAY_NONE)
        return true;
    for (uint32_t w = value, steps = 0; w < undoing->history->value_capacity && steps < undoing->graph->value_count;
         w = undoing->history->same[w], steps++) {
        node = maker_before(undoing, w);
        if (node != NULL)
            return bring_back(undoing, node);
    }
    /* The rewrite made value for everybody to read in the place of another value. */
    for (uint32_t w = 0; w < undoing->graph->value_count && w < undoing->history->value_capacity; w++) {
        if (undoing->history->same[w] != value)
            continue;
        node = is_there(undoing, w) ? NULL : maker_before(undoing, w);
        if (node == NULL && !is_there(undoing, w))
            continue;
        undoing->instead[value] = w;
        return node == NULL || bring_back(undoing, node);
    }
    return false;
}

static bool open_undoing(struct undoing *undoing)
{
    const struct graph *graph = undoing->graph;
    size_t values = (size_t)graph->value_count + 1;

    undoing->maker = arena_array(&undoing->arena, values, sizeof(graph_node *));
    undoing->given = arena_array(&undoing->arena, values, sizeof *undoing->given);
    undoing->asked = arena_array(&undoing->arena, values, sizeof *undoing->asked);
    undoing->instead = arena_array(&undoing->arena, values, sizeof *undoing->instead);
    undoing->queue = arena_array(&undoing->arena, values, sizeof *undoing->queue);
    if (undoing->maker == NULL || undoing->given == NULL || undoing->asked == NULL || undoing->instead == NULL ||
        undoing->queue == NULL)
        return false;
    memset(undoing->instead, 0xff, values * sizeof *undoing->instead);
    for (uint32_t value = 0; value < graph->value_count; value++)
        undoing->given[value] = (graph->values[value].info.flags & INLAY_VALUE_CONSTANT) != 0;
    for (uint32_t i = 0; i < graph->input_count; i++)
        undoing->given[graph->inputs[i]] = true;
    for (uint32_t i = 0; i < graph->captured_count; i++)
        undoing->given[graph->captured[i]] = true;
    for (uint32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->rewrite != undoing->rewrite && !add_node(undoing, graph->nodes[i]))
            return false;
    undoing->kept_count = undoing->node_count;
    return undoing->kept_count < graph->node_count;
}

/* What is read in the graph without the nodes of the rewrite. */
static void ask_for_all(struct undoing *undoing)
{
    for (uint32_t i = 0; i < undoing->kept_count; i++) {
        const graph_node *node = undoing->nodes[i];

        for (uint32_t k = 0; k < node->info.input_count; k++)
            ask(undoing, node->info.inputs[k]);
        for (uint32_t k = 0; k < node->capture_count; k++)
            ask(undoing, node->captures[k]);
    }
    for (uint32_t i = 0; i < undoing->graph->output_count; i++)
        ask(undoing, undoing->graph->outputs[i]);
}

/* Lets a node read what there is; one that stays is copied when that changes it. False: it can't. */
static bool rewire(struct undoing *undoing, uint32_t at)
{
    graph_node *node = undoing->nodes[at];

    for (uint32_t k = 0; k < node->capture_count; k++)
        if (resolve(undoing, node->captures[k]) != node->captures[k])
            return false;
    for (uint32_t k = 0; k < node->info.input_count; k++) {
        uint32_t value = node->info.inputs[k], now = resolve(undoing, value);

        if (now == value)
            continue;
        if (now == INLAY_NONE)
            return false;
        if (at < undoing->kept_count && node == undoing->nodes[at]) {
            node = copy_of(&undoing->graph->model->arena, node);
            if (node == NULL || node->body_count > 0)
                return false;
        }
        ((uint32_t *)(uintptr_t)node->info.inputs)[k] = now;
    }
    undoing->nodes[at] = node;
    return true;
}

/* What passes made for the sake of what has gone, and nobody reads any more, goes too. */
static bool drop_unread(struct undoing *undoing)
{
    uint32_t *uses = arena_array(&undoing->arena, (size_t)undoing->graph->value_count + 1, sizeof *uses), kept = 0;
    bool again = true;

    if (uses == NULL)
        return false;
    for (uint32_t i = 0; i < undoing->node_count; i++) {
        for (uint32_t k = 0; k < undoing->nodes[i]->info.input_count; k++)
            if (undoing->nodes[i]->info.inputs[k] != INLAY_NONE)
                uses[undoing->nodes[i]->info.inputs[k]]++;
        for (uint32_t k = 0; k < undoing->nodes[i]->capture_count; k++)
            uses[undoing->nodes[i]->captures[k]]++;
    }
    for (uint32_t i = 0; i < undoing->graph->output_count; i++)
        if (undoing->graph->outputs[i] != INLAY_NONE)
            uses[undoing->graph->outputs[i]]++;
    while (again) {
        again = false;
        for (uint32_t i = undoing->node_count; i-- > 0;) {
            const graph_node *node = undoing->nodes[i];
            bool read = node == NULL || node->rewrite == 0 || node->body_count > 0;

            for (uint32_t k = 0; !read && k < node->info.output_count; k++)
                read = node->info.outputs[k] != INLAY_NONE && uses[node->info.outputs[k]] > 0;
            for (uint32_t k = 0; !read && k < node->info.input_count; k++)
                if (node->info.inputs[k] != INLAY_NONE)
                    uses[node->info.inputs[k]]--;
            if (!read) {
                undoing->nodes[i] = NULL;
                again = true;
            }
        }
    }
    for (uint32_t i = 0; i < undoing->node_count; i++)
        if (undoing->nodes[i] != NULL)
            undoing->nodes[kept++] = undoing->nodes[i];
    undoing->node_count = kept;
    return true;
}

/* Puts the nodes in; the graph's own array stays where there is room, for who has saved it. */
static bool install(struct undoing *undoing)
{
    struct graph *graph = undoing->graph;

    if (undoing->node_count > graph->node_capacity) {
        graph_node **bigger = arena_array(&graph->model->arena, (size_t)undoing->node_count + 16, sizeof *bigger);

        if (bigger == NULL)
            return false;
        graph->nodes = bigger;
        graph->node_capacity = undoing->node_count + 16;
    }
    if (undoing->node_count > 0)
        memcpy(graph->nodes, undoing->nodes, undoing->node_count * sizeof *graph->nodes);
    graph->node_count = undoing->node_count;
    return true;
}

bool history_undo(struct graph *graph, int64_t rewrite)
{
    struct undoing undoing = { .graph = graph, .history = graph->history, .rewrite = rewrite };
    bool done = rewrite > 0 && graph->history != NULL && open_undoing(&undoing);

    if (done)
        ask_for_all(&undoing);
    for (uint32_t i = 0; done && i < undoing.queue_count; i++)
        done = provide(&undoing, undoing.queue[i]);
    for (uint32_t i = 0; done && i < undoing.node_count; i++)
        done = rewire(&undoing, i);
    for (uint32_t i = 0; done && i < graph->output_count; i++)
        done = graph->outputs[i] == INLAY_NONE || is_there(&undoing, graph->outputs[i]);
    done = done && drop_unread(&undoing) && install(&undoing);
    arena_deinit(&undoing.arena);
    return done;
}
