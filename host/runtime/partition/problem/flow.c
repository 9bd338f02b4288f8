#include "partition/problem/flow.h"
#include "inlay/check.h"

/* Nodes of tree 0 are reachable from the source, nodes of tree 1 reach the sink. */
struct flow_node {
    int64_t excess;       /* > 0: residual capacity from the source, < 0: to the sink */
    uint32_t first;       /* first arc, or NONE */
    uint32_t parent;      /* arc to the parent in the tree; or FREE, ROOT, ORPHAN */
    uint32_t next_active; /* NONE = not in the queue; the node itself = the last one */
    uint32_t stamp;       /* clock at which `distance` was valid */
    uint32_t distance;    /* to the root */
    bool one;             /* belongs to tree 1 */
};
struct flow_arc {
    int64_t residual; /* residual capacity; the reverse arc is the index with the lowest bit inverted */
    uint32_t head, next;
};
static const uint32_t NONE = UINT32_MAX, FREE = UINT32_MAX, ROOT = UINT32_MAX - 1, ORPHAN = UINT32_MAX - 2;

static bool reserve(struct flow *flow, void **array, uint32_t count, uint32_t more, uint32_t *capacity,
                    size_t element_bytes)
{
    uint32_t bigger = *capacity == 0 ? 256 : *capacity;
    void *copy;

    if (flow->failed)
        return false;
    if (count + more <= *capacity)
        return true;
    while (bigger < count + more)
        bigger *= 2;
    copy = arena_grown(flow->arena, *array, count, bigger, element_bytes);
    if (copy == NULL) {
        flow->failed = true;
        return false;
    }
    *array = copy;
    *capacity = bigger;
    return true;
}

void flow_clear(struct flow *flow)
{
    flow->node_count = 0;
    flow->arc_count = 0;
    flow->failed = false;
}

uint32_t flow_add(struct flow *flow)
{
    if (!reserve(flow, (void **)&flow->nodes, flow->node_count, 1, &flow->node_capacity, sizeof *flow->nodes))
        return 0;
    flow->nodes[flow->node_count] = (flow_node){ .first = NONE, .parent = FREE, .next_active = NONE };
    return flow->node_count++;
}

void flow_cost(struct flow *flow, uint32_t node, int64_t cost0, int64_t cost1)
{
    INLAY_CHECK(flow->failed || node < flow->node_count);
    if (!flow->failed)
        flow->nodes[node].excess += cost1 - cost0;
}

void flow_pair(struct flow *flow, uint32_t from, uint32_t to, int64_t cost)
{
    flow_arc *arc;

    if (cost <= 0 || !reserve(flow, (void **)&flow->arcs, flow->arc_count, 2, &flow->arc_capacity, sizeof *flow->arcs))
        return;
    arc = &flow->arcs[flow->arc_count];
    arc[0] = (flow_arc){ .residual = cost, .head = to, .next = flow->nodes[from].first };
    arc[1] = (flow_arc){ .residual = 0, .head = from, .next = flow->nodes[to].first };
    flow->nodes[from].first = flow->arc_count;
    flow->nodes[to].first = flow->arc_count + 1;
    flow->arc_count += 2;
}

static void activate(struct flow *flow, uint32_t node)
{
    if (flow->nodes[node].next_active != NONE)
        return;
    flow->nodes[node].next_active = node;
    if (flow->active_last == NONE)
        flow->active_first = node;
    else
        flow->nodes[flow->active_last].next_active = node;
    flow->active_last = node;
}

/* Removes and returns the next active node that is in a tree; NONE: none. */
static uint32_t next_active(struct flow *flow)
{
    while (flow->active_first != NONE) {
        uint32_t node = flow->active_first;

        if (flow->active_first == flow->active_last)
            flow->active_first = flow->active_last = NONE;
        else
            flow->active_first = flow->nodes[node].next_active;
        flow->nodes[node].next_active = NONE;
        if (flow->nodes[node].parent != FREE)
            return node;
    }
    return NONE;
}

/* A node is an orphan at most once at a time, so a ring of node_count entries is large enough. */
static void make_orphan(struct flow *flow, uint32_t node)
{
    INLAY_CHECK(flow->orphan_count < flow->node_count);
    flow->nodes[node].parent = ORPHAN;
    flow->orphans[(flow->orphan_first + flow->orphan_count++) % flow->node_count] = node;
}

/* Grows the tree of the node by its neighbours. Returns the arc from tree 0 to tree 1 where the trees meet. */
static uint32_t grow(struct flow *flow, uint32_t node)
{
    flow_node *from = &flow->nodes[node];

    for (uint32_t arc = from->first; arc != NONE; arc = flow->arcs[arc].next) {
        flow_node *to = &flow->nodes[flow->arcs[arc].head];

        if (flow->arcs[from->one ? arc ^ 1 : arc].residual == 0)
            continue;
        if (to->parent == FREE) {
            to->one = from->one;
            to->parent = arc ^ 1;
            to->stamp = from->stamp;
            to->distance = from->distance + 1;
            activate(flow, flow->arcs[arc].head);
        } else if (to->one != from->one) {
            return from->one ? arc ^ 1 : arc;
        } else if (to->stamp <= from->stamp && to->distance > from->distance) {
            to->parent = arc ^ 1; /* a shorter path to the root */
            to->stamp = from->stamp;
            to->distance = from->distance + 1;
        }
    }
    return NONE;
}

/* The arc in flow direction between a node and its parent. */
static uint32_t tree_arc(const flow_node *node)
{
    return node->one ? node->parent : node->parent ^ 1;
}

/* Returns the root of the node's branch, and reduces *least to the residual capacity of the path. */
static uint32_t narrow(const struct flow *flow, uint32_t node, int64_t *least)
{
    while (flow->nodes[node].parent != ROOT) {
        int64_t residual = flow->arcs[tree_arc(&flow->nodes[node])].residual;

        *least = residual < *least ? residual : *least;
        node = flow->arcs[flow->nodes[node].parent].head;
    }
    if (flow->nodes[node].one)
        *least = -flow->nodes[node].excess < *least ? -flow->nodes[node].excess : *least;
    else
        *least = flow->nodes[node].excess < *least ? flow->nodes[node].excess : *least;
    return node;
}

static void push(struct flow *flow, uint32_t node, int64_t amount)
{
    while (flow->nodes[node].parent != ROOT) {
        uint32_t up = flow->arcs[flow->nodes[node].parent].head, arc = tree_arc(&flow->nodes[node]);

        flow->arcs[arc].residual -= amount;
        flow->arcs[arc ^ 1].residual += amount;
        if (flow->arcs[arc].residual == 0)
            make_orphan(flow, node);
        node = up;
    }
    flow->nodes[node].excess += flow->nodes[node].one ? amount : -amount;
    if (flow->nodes[node].excess == 0)
        make_orphan(flow, node);
}

static void augment(struct flow *flow, uint32_t arc)
{
    uint32_t zero = flow->arcs[arc ^ 1].head, one = flow->arcs[arc].head;
    int64_t amount = flow->arcs[arc].residual;

    (void)narrow(flow, zero, &amount);
    (void)narrow(flow, one, &amount);
    INLAY_CHECK(amount > 0);
    flow->arcs[arc].residual -= amount;
    flow->arcs[arc ^ 1].residual += amount;
    push(flow, zero, amount);
    push(flow, one, amount);
}

/* The number of steps from the node to the root of its tree; NONE if its branch ends at an orphan. Stores distances and
 * time stamps, so that the next walk is short. */
static uint32_t distance_of(struct flow *flow, uint32_t node)
{
    uint32_t steps = 0, at = node;

    while (flow->nodes[at].stamp != flow->clock) {
        if (flow->nodes[at].parent == ORPHAN || flow->nodes[at].parent == FREE)
            return NONE;
        if (flow->nodes[at].parent == ROOT) {
            flow->nodes[at].stamp = flow->clock;
            flow->nodes[at].distance = 1;
            break;
        }
        at = flow->arcs[flow->nodes[at].parent].head;
        steps++;
    }
    steps += flow->nodes[at].distance;
    for (uint32_t distance = steps; flow->nodes[node].stamp != flow->clock;
         node = flow->arcs[flow->nodes[node].parent].head) {
        flow->nodes[node].stamp = flow->clock;
        flow->nodes[node].distance = distance--;
    }
    return steps;
}

/* Finds another parent for the orphan in its tree; otherwise makes it free and its children orphans. */
static void adopt(struct flow *flow, uint32_t node)
{
    flow_node *orphan = &flow->nodes[node];
    uint32_t best = NONE, best_distance = NONE;

    for (uint32_t arc = orphan->first; arc != NONE; arc = flow->arcs[arc].next) {
        uint32_t distance;

        if (flow->arcs[orphan->one ? arc : arc ^ 1].residual == 0 ||
            flow->nodes[flow->arcs[arc].head].one != orphan->one || flow->nodes[flow->arcs[arc].head].parent == FREE)
            continue;
        distance = distance_of(flow, flow->arcs[arc].head);
        if (distance < best_distance) {
            best = arc;
            best_distance = distance;
        }
    }
    orphan->parent = best;
    if (best != NONE) {
        orphan->stamp = flow->clock;
        orphan->distance = best_distance + 1;
        return;
    }
    for (uint32_t arc = orphan->first; arc != NONE; arc = flow->arcs[arc].next) {
        flow_node *near = &flow->nodes[flow->arcs[arc].head];

        if (near->parent == FREE || near->one != orphan->one)
            continue;
        if (flow->arcs[orphan->one ? arc : arc ^ 1].residual > 0)
            activate(flow, flow->arcs[arc].head);
        if (near->parent < ORPHAN && flow->arcs[near->parent].head == node)
            make_orphan(flow, flow->arcs[arc].head);
    }
}

/* Makes every node with an excess the root of a tree. */
static void plant(struct flow *flow)
{
    flow->clock = 0;
    flow->active_first = flow->active_last = NONE;
    flow->orphan_first = flow->orphan_count = 0;
    for (uint32_t node = 0; node < flow->node_count; node++) {
        flow_node *source = &flow->nodes[node];

        if (source->excess == 0)
            continue;
        source->one = source->excess < 0;
        source->parent = ROOT;
        source->distance = 1;
        activate(flow, node);
    }
}

bool flow_solve(struct flow *flow)
{
    uint32_t current = NONE;

    if (!reserve(flow, (void **)&flow->orphans, 0, flow->node_count, &flow->orphan_capacity, sizeof *flow->orphans))
        return false;
    plant(flow);
    for (;;) {
        uint32_t meeting;

        if (current == NONE || flow->nodes[current].parent == FREE)
            current = next_active(flow);
        if (current == NONE)
            return true;
        meeting = grow(flow, current);
        flow->clock++;
        if (meeting == NONE) {
            current = NONE;
            continue;
        }
        augment(flow, meeting);
        while (flow->orphan_count > 0) {
            uint32_t orphan = flow->orphans[flow->orphan_first];
            flow->orphan_first = (flow->orphan_first + 1) % flow->node_count;
            flow->orphan_count--;
            adopt(flow, orphan);
        }
    }
}

bool flow_is_one(const struct flow *flow, uint32_t node)
{
    INLAY_CHECK(node < flow->node_count);
    return flow->nodes[node].parent != FREE && flow->nodes[node].one;
}
