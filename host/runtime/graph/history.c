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

uint32_t graph_made_since(const graph_node *n)
{
    for (size_t i = 0; n->made_by != NULL && i < sizeof made_ops / sizeof made_ops[0]; i++)
        if (strcmp(made_ops[i].op, n->info.op_type.data) == 0 && strcmp(made_ops[i].domain, n->info.domain.data) == 0)
            return made_ops[i].minor;
    return n->made_by != NULL ? UINT32_MAX : 0;
}

/* ------------------------------------------------------------------ remembering */

/* The graph's history, with room for its values; NULL: no pass runs, or no memory. */
static graph_history *history_of(struct graph *g)
{
    struct arena *a = &g->model->arena;
    graph_history *h = g->history;
    uint32_t capacity;

    if (g->model->pass == NULL)
        return NULL;
    if (h == NULL)
        h = g->history = arena_alloc(a, sizeof *h);
    if (h == NULL || h->value_capacity >= g->value_count)
        return h;
    capacity = g->value_count + g->value_count / 2 + 64;
    h->last = arena_grown(a, h->last, h->value_capacity, capacity, sizeof *h->last);
    h->same = arena_grown(a, h->same, h->value_capacity, capacity, sizeof *h->same);
    if (h->last == NULL || h->same == NULL) {
        g->history = NULL; /* what is remembered in part is not to be trusted */
        return NULL;
    }
    memset(h->same + h->value_capacity, 0xff, (capacity - h->value_capacity) * sizeof *h->same);
    h->value_capacity = capacity;
    return h;
}

void history_removed(struct graph *g, graph_node *n)
{
    graph_history *h = history_of(g);
    uint32_t *earlier;

    if (h == NULL || !ARENA_GROW(&g->model->arena, h->removed, h->removed_count))
        return;
    earlier = arena_array(&g->model->arena, (size_t)n->info.output_count + 1, sizeof *earlier);
    if (earlier == NULL)
        return;
    h->removed[h->removed_count++] = (removed_node){ n, g->model->rewrite, earlier };
    for (uint32_t i = 0; i < n->info.output_count; i++) {
        if (n->info.outputs[i] == INLAY_NONE)
            continue;
        earlier[i] = h->last[n->info.outputs[i]];
        h->last[n->info.outputs[i]] = h->removed_count;
    }
}

void history_same(struct graph *g, uint32_t v, uint32_t instead)
{
    graph_history *h = v == instead ? NULL : history_of(g);

    if (h != NULL)
        h->same[v] = instead;
}

const graph_node *history_replaced(const struct graph *g, int64_t rewrite, uint32_t i)
{
    const graph_history *h = g->history;
    uint32_t low = 0, high = h != NULL ? h->removed_count : 0;

    while (low < high) { /* rewrites are numbered as they come */
        uint32_t middle = low + (high - low) / 2;

        if (h->removed[middle].rewrite < rewrite)
            low = middle + 1;
        else
            high = middle;
    }
    return h != NULL && low + i < h->removed_count && h->removed[low + i].rewrite == rewrite ? h->removed[low + i].node
                                                                                             : NULL;
}

bool history_save(const struct graph *g, struct arena *a, graph_saved *out)
{
    *out =
        (graph_saved){ .node_count = g->node_count, .node_capacity = g->node_capacity, .value_count = g->value_count };
    out->nodes = arena_array(a, (size_t)g->node_capacity + 1, sizeof(graph_node *));
    out->values = arena_array(a, (size_t)g->value_count + 1, sizeof *out->values);
    if (out->nodes == NULL || out->values == NULL)
        return false;
    if (g->node_count > 0)
        memcpy(out->nodes, g->nodes, g->node_count * sizeof(graph_node *));
    if (g->value_count > 0)
        memcpy(out->values, g->values, g->value_count * sizeof *out->values);
    return true;
}

void history_restore(struct graph *g, const graph_saved *saved)
{
    /* Undoing adds neither room nor values of its own; inference may have added to neither. */
    memcpy(g->nodes, saved->nodes, saved->node_count * sizeof(graph_node *));
    g->node_count = saved->node_count;
    memcpy(g->values, saved->values, saved->value_count * sizeof *g->values);
    g->value_count = saved->value_count;
}

/* ------------------------------------------------------------------ undoing */

struct undoing {
    struct graph *g;
    const graph_history *h;
    int64_t rewrite;
    struct arena a;     /* until it is done */
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

static bool is_there(const struct undoing *u, uint32_t v)
{
    return u->given[v] || u->maker[v] != NULL;
}

/* What to read for v: itself, or what has its elements. INLAY_NONE: nothing has. */
static uint32_t resolve(const struct undoing *u, uint32_t v)
{
    for (uint32_t steps = 0; v != INLAY_NONE && steps < u->g->value_count; steps++) {
        if (is_there(u, v))
            return v;
        if (u->instead[v] != INLAY_NONE)
            v = u->instead[v];
        else
            v = v < u->h->value_capacity ? u->h->same[v] : INLAY_NONE;
    }
    return INLAY_NONE;
}

static void ask(struct undoing *u, uint32_t v)
{
    if (v == INLAY_NONE || u->asked[v])
        return;
    u->asked[v] = true;
    u->queue[u->queue_count++] = v;
}

/* The node that made v before the rewrite; NULL: none that can come back. */
static const removed_node *maker_before(const struct undoing *u, uint32_t v)
{
    uint32_t at = v < u->h->value_capacity ? u->h->last[v] : 0;

    while (at != 0) {
        const removed_node *r = &u->h->removed[at - 1];
        const inlay_node_info *n = &r->node->info;
        bool same = r->node->rewrite < u->rewrite && r->node->body_count == 0;
        uint32_t output = 0;

        for (uint32_t i = 0; i < n->output_count; i++) {
            output = n->outputs[i] == v ? i : output;
            same = same && (n->outputs[i] == INLAY_NONE || !is_there(u, n->outputs[i]));
        }
        if (same)
            return r;
        at = r->earlier[output];
    }
    return NULL;
}

static graph_node *copy_of(struct arena *a, const graph_node *n)
{
    graph_node *copy = arena_copy(a, n, sizeof *n);

    if (copy == NULL)
        return NULL;
    copy->info.inputs = arena_copy(a, n->info.inputs, n->info.input_count * sizeof *n->info.inputs);
    copy->info.outputs = arena_copy(a, n->info.outputs, n->info.output_count * sizeof *n->info.outputs);
    return (copy->info.inputs == NULL && n->info.input_count > 0) ||
                   (copy->info.outputs == NULL && n->info.output_count > 0)
               ? NULL
               : copy;
}

static bool add_node(struct undoing *u, graph_node *n)
{
    if (!ARENA_GROW(&u->a, u->nodes, u->node_count))
        return false;
    u->nodes[u->node_count++] = n;
    for (uint32_t i = 0; i < n->info.output_count; i++)
        if (n->info.outputs[i] != INLAY_NONE)
            u->maker[n->info.outputs[i]] = n;
    return true;
}

static bool bring_back(struct undoing *u, const removed_node *r)
{
    graph_node *n = copy_of(&u->g->model->arena, r->node);

    if (n == NULL || !add_node(u, n))
        return false;
    for (uint32_t i = 0; i < n->info.input_count; i++)
        ask(u, n->info.inputs[i]);
    return true;
}

/* Sees to it that v can be read. */
static bool provide(struct undoing *u, uint32_t v)
{
    const removed_node *r;

    if (resolve(u, v) != INLAY_NONE)
        return true;
    for (uint32_t w = v, steps = 0; w < u->h->value_capacity && steps < u->g->value_count; w = u->h->same[w], steps++) {
        r = maker_before(u, w);
        if (r != NULL)
            return bring_back(u, r);
    }
    /* The rewrite made v for everybody to read in the place of another value. */
    for (uint32_t w = 0; w < u->g->value_count && w < u->h->value_capacity; w++) {
        if (u->h->same[w] != v)
            continue;
        r = is_there(u, w) ? NULL : maker_before(u, w);
        if (r == NULL && !is_there(u, w))
            continue;
        u->instead[v] = w;
        return r == NULL || bring_back(u, r);
    }
    return false;
}

static bool open_undoing(struct undoing *u)
{
    const struct graph *g = u->g;
    size_t values = (size_t)g->value_count + 1;

    u->maker = arena_array(&u->a, values, sizeof(graph_node *));
    u->given = arena_array(&u->a, values, sizeof *u->given);
    u->asked = arena_array(&u->a, values, sizeof *u->asked);
    u->instead = arena_array(&u->a, values, sizeof *u->instead);
    u->queue = arena_array(&u->a, values, sizeof *u->queue);
    if (u->maker == NULL || u->given == NULL || u->asked == NULL || u->instead == NULL || u->queue == NULL)
        return false;
    memset(u->instead, 0xff, values * sizeof *u->instead);
    for (uint32_t v = 0; v < g->value_count; v++)
        u->given[v] = (g->values[v].info.flags & INLAY_VALUE_CONSTANT) != 0;
    for (uint32_t i = 0; i < g->input_count; i++)
        u->given[g->inputs[i]] = true;
    for (uint32_t i = 0; i < g->captured_count; i++)
        u->given[g->captured[i]] = true;
    for (uint32_t i = 0; i < g->node_count; i++)
        if (g->nodes[i]->rewrite != u->rewrite && !add_node(u, g->nodes[i]))
            return false;
    u->kept_count = u->node_count;
    return u->kept_count < g->node_count;
}

/* What is read in the graph without the nodes of the rewrite. */
static void ask_for_all(struct undoing *u)
{
    for (uint32_t i = 0; i < u->kept_count; i++) {
        const graph_node *n = u->nodes[i];

        for (uint32_t k = 0; k < n->info.input_count; k++)
            ask(u, n->info.inputs[k]);
        for (uint32_t k = 0; k < n->capture_count; k++)
            ask(u, n->captures[k]);
    }
    for (uint32_t i = 0; i < u->g->output_count; i++)
        ask(u, u->g->outputs[i]);
}

/* Lets a node read what there is; one that stays is copied when that changes it. False: it can't. */
static bool rewire(struct undoing *u, uint32_t at)
{
    graph_node *n = u->nodes[at];

    for (uint32_t k = 0; k < n->capture_count; k++)
        if (resolve(u, n->captures[k]) != n->captures[k])
            return false;
    for (uint32_t k = 0; k < n->info.input_count; k++) {
        uint32_t v = n->info.inputs[k], now = resolve(u, v);

        if (now == v)
            continue;
        if (now == INLAY_NONE)
            return false;
        if (at < u->kept_count && n == u->nodes[at]) {
            n = copy_of(&u->g->model->arena, n);
            if (n == NULL || n->body_count > 0)
                return false;
        }
        ((uint32_t *)(uintptr_t)n->info.inputs)[k] = now;
    }
    u->nodes[at] = n;
    return true;
}

/* What passes made for the sake of what has gone, and nobody reads any more, goes too. */
static bool drop_unread(struct undoing *u)
{
    uint32_t *uses = arena_array(&u->a, (size_t)u->g->value_count + 1, sizeof *uses), kept = 0;
    bool again = true;

    if (uses == NULL)
        return false;
    for (uint32_t i = 0; i < u->node_count; i++) {
        for (uint32_t k = 0; k < u->nodes[i]->info.input_count; k++)
            if (u->nodes[i]->info.inputs[k] != INLAY_NONE)
                uses[u->nodes[i]->info.inputs[k]]++;
        for (uint32_t k = 0; k < u->nodes[i]->capture_count; k++)
            uses[u->nodes[i]->captures[k]]++;
    }
    for (uint32_t i = 0; i < u->g->output_count; i++)
        if (u->g->outputs[i] != INLAY_NONE)
            uses[u->g->outputs[i]]++;
    while (again) {
        again = false;
        for (uint32_t i = u->node_count; i-- > 0;) {
            const graph_node *n = u->nodes[i];
            bool read = n == NULL || n->rewrite == 0 || n->body_count > 0;

            for (uint32_t k = 0; !read && k < n->info.output_count; k++)
                read = n->info.outputs[k] != INLAY_NONE && uses[n->info.outputs[k]] > 0;
            for (uint32_t k = 0; !read && k < n->info.input_count; k++)
                if (n->info.inputs[k] != INLAY_NONE)
                    uses[n->info.inputs[k]]--;
            if (!read) {
                u->nodes[i] = NULL;
                again = true;
            }
        }
    }
    for (uint32_t i = 0; i < u->node_count; i++)
        if (u->nodes[i] != NULL)
            u->nodes[kept++] = u->nodes[i];
    u->node_count = kept;
    return true;
}

/* Puts the nodes in; the graph's own array stays where there is room, for who has saved it. */
static bool install(struct undoing *u)
{
    struct graph *g = u->g;

    if (u->node_count > g->node_capacity) {
        graph_node **bigger = arena_array(&g->model->arena, (size_t)u->node_count + 16, sizeof *bigger);

        if (bigger == NULL)
            return false;
        g->nodes = bigger;
        g->node_capacity = u->node_count + 16;
    }
    if (u->node_count > 0)
        memcpy(g->nodes, u->nodes, u->node_count * sizeof *g->nodes);
    g->node_count = u->node_count;
    return true;
}

bool history_undo(struct graph *g, int64_t rewrite)
{
    struct undoing u = { .g = g, .h = g->history, .rewrite = rewrite };
    bool done = rewrite > 0 && g->history != NULL && open_undoing(&u);

    if (done)
        ask_for_all(&u);
    for (uint32_t i = 0; done && i < u.queue_count; i++)
        done = provide(&u, u.queue[i]);
    for (uint32_t i = 0; done && i < u.node_count; i++)
        done = rewire(&u, i);
    for (uint32_t i = 0; done && i < g->output_count; i++)
        done = g->outputs[i] == INLAY_NONE || is_there(&u, g->outputs[i]);
    done = done && drop_unread(&u) && install(&u);
    arena_deinit(&u.a);
    return done;
}
