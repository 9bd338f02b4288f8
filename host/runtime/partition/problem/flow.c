#include "partition/problem/flow.h"
#include <string.h>

/* Nodes of the tree "0" are reached from where cost1 flows in, those of the tree "1" reach to where cost0 flows out. */
struct flow_node {
    int64_t excess;       /* > 0: what tree 0 may still push in here, < 0: what tree 1 may still take out */
    uint32_t first;       /* arc, NONE */
    uint32_t parent;      /* arc to the parent in the tree; or FREE, ROOT, ORPHAN */
    uint32_t next_active; /* NONE = not in the queue; itself = the last */
    uint32_t stamp;       /* clock at which distance was right */
    uint32_t distance;    /* to the root */
    bool one;             /* in tree 1 */
};
struct flow_arc {
    int64_t left; /* residual capacity; the reverse arc is the neighbour with the other lowest bit */
    uint32_t head, next;
};
static const uint32_t NONE = UINT32_MAX, FREE = UINT32_MAX, ROOT = UINT32_MAX - 1, ORPHAN = UINT32_MAX - 2;

/* ------------------------------------------------------------------ building */

static bool reserve(struct flow *f, void **array, uint32_t count, uint32_t more, uint32_t *capacity,
                    size_t element_bytes)
{
    uint32_t bigger = *capacity == 0 ? 256 : *capacity;
    void *copy;

    if (f->failed)
        return false;
    if (count + more <= *capacity)
        return true;
    while (bigger < count + more)
        bigger *= 2;
    copy = arena_grown(f->a, *array, count, bigger, element_bytes);
    if (copy == NULL) {
        f->failed = true;
        return false;
    }
    *array = copy;
    *capacity = bigger;
    return true;
}

void flow_clear(struct flow *f)
{
    f->node_count = 0;
    f->arc_count = 0;
    f->failed = false;
}

uint32_t flow_add(struct flow *f)
{
    if (!reserve(f, (void **)&f->nodes, f->node_count, 1, &f->node_capacity, sizeof *f->nodes))
        return 0;
    f->nodes[f->node_count] = (flow_node){ .first = NONE, .parent = FREE, .next_active = NONE };
    return f->node_count++;
}

void flow_cost(struct flow *f, uint32_t node, int64_t cost0, int64_t cost1)
{
    if (!f->failed)
        f->nodes[node].excess += cost1 - cost0;
}

void flow_pair(struct flow *f, uint32_t from, uint32_t to, int64_t cost)
{
    flow_arc *arc;

    if (cost <= 0 || !reserve(f, (void **)&f->arcs, f->arc_count, 2, &f->arc_capacity, sizeof *f->arcs))
        return;
    arc = &f->arcs[f->arc_count];
    arc[0] = (flow_arc){ .left = cost, .head = to, .next = f->nodes[from].first };
    arc[1] = (flow_arc){ .left = 0, .head = from, .next = f->nodes[to].first };
    f->nodes[from].first = f->arc_count;
    f->nodes[to].first = f->arc_count + 1;
    f->arc_count += 2;
}

/* ------------------------------------------------------------------ queues */

static void activate(struct flow *f, uint32_t n)
{
    if (f->nodes[n].next_active != NONE)
        return;
    f->nodes[n].next_active = n;
    if (f->active_last == NONE)
        f->active_first = n;
    else
        f->nodes[f->active_last].next_active = n;
    f->active_last = n;
}

/* The next node that may grow and is in a tree; NONE. */
static uint32_t next_active(struct flow *f)
{
    while (f->active_first != NONE) {
        uint32_t n = f->active_first;

        if (f->active_first == f->active_last)
            f->active_first = f->active_last = NONE;
        else
            f->active_first = f->nodes[n].next_active;
        f->nodes[n].next_active = NONE;
        if (f->nodes[n].parent != FREE)
            return n;
    }
    return NONE;
}

/* A node is an orphan at most once at a time, so the ring of as many places as there are nodes is long enough. */
static void make_orphan(struct flow *f, uint32_t n)
{
    f->nodes[n].parent = ORPHAN;
    f->orphans[(f->orphan_first + f->orphan_count++) % f->node_count] = n;
}

/* ------------------------------------------------------------------ the three phases */

/* Grows the tree of node n by its neighbours; returns the arc, from tree 0 to tree 1, over which the trees meet. */
static uint32_t grow(struct flow *f, uint32_t n)
{
    flow_node *from = &f->nodes[n];

    for (uint32_t a = from->first; a != NONE; a = f->arcs[a].next) {
        flow_node *to = &f->nodes[f->arcs[a].head];

        if (f->arcs[from->one ? a ^ 1 : a].left == 0)
            continue;
        if (to->parent == FREE) {
            to->one = from->one;
            to->parent = a ^ 1;
            to->stamp = from->stamp;
            to->distance = from->distance + 1;
            activate(f, f->arcs[a].head);
        } else if (to->one != from->one) {
            return from->one ? a ^ 1 : a;
        } else if (to->stamp <= from->stamp && to->distance > from->distance) {
            to->parent = a ^ 1; /* a shorter way to the root */
            to->stamp = from->stamp;
            to->distance = from->distance + 1;
        }
    }
    return NONE;
}

/* The arc in the direction of flow between a node and its parent. */
static uint32_t tree_arc(const flow_node *n)
{
    return n->one ? n->parent : n->parent ^ 1;
}

/* The root of n's branch; *least shrinks to what fits through on the way. */
static uint32_t narrow(const struct flow *f, uint32_t n, int64_t *least)
{
    while (f->nodes[n].parent != ROOT) {
        int64_t left = f->arcs[tree_arc(&f->nodes[n])].left;

        *least = left < *least ? left : *least;
        n = f->arcs[f->nodes[n].parent].head;
    }
    if (f->nodes[n].one)
        *least = -f->nodes[n].excess < *least ? -f->nodes[n].excess : *least;
    else
        *least = f->nodes[n].excess < *least ? f->nodes[n].excess : *least;
    return n;
}

static void push(struct flow *f, uint32_t n, int64_t amount)
{
    while (f->nodes[n].parent != ROOT) {
        uint32_t up = f->arcs[f->nodes[n].parent].head, a = tree_arc(&f->nodes[n]);

        f->arcs[a].left -= amount;
        f->arcs[a ^ 1].left += amount;
        if (f->arcs[a].left == 0)
            make_orphan(f, n);
        n = up;
    }
    f->nodes[n].excess += f->nodes[n].one ? amount : -amount;
    if (f->nodes[n].excess == 0)
        make_orphan(f, n);
}

static void augment(struct flow *f, uint32_t arc)
{
    uint32_t zero = f->arcs[arc ^ 1].head, one = f->arcs[arc].head;
    int64_t amount = f->arcs[arc].left;

    (void)narrow(f, zero, &amount);
    (void)narrow(f, one, &amount);
    f->arcs[arc].left -= amount;
    f->arcs[arc ^ 1].left += amount;
    push(f, zero, amount);
    push(f, one, amount);
}

/* Steps from n to the root of its tree, NONE when its branch hangs on an orphan. Leaves stamps, so that the next walk
 * is short. */
static uint32_t distance_of(struct flow *f, uint32_t n)
{
    uint32_t steps = 0, at = n;

    while (f->nodes[at].stamp != f->clock) {
        if (f->nodes[at].parent == ORPHAN || f->nodes[at].parent == FREE)
            return NONE;
        if (f->nodes[at].parent == ROOT) {
            f->nodes[at].stamp = f->clock;
            f->nodes[at].distance = 1;
            break;
        }
        at = f->arcs[f->nodes[at].parent].head;
        steps++;
    }
    steps += f->nodes[at].distance;
    for (uint32_t d = steps; f->nodes[n].stamp != f->clock; n = f->arcs[f->nodes[n].parent].head) {
        f->nodes[n].stamp = f->clock;
        f->nodes[n].distance = d--;
    }
    return steps;
}

/* Finds the orphan another parent in its tree, or sets it free and makes orphans of its children. */
static void adopt(struct flow *f, uint32_t n)
{
    flow_node *orphan = &f->nodes[n];
    uint32_t best = NONE, best_distance = NONE;

    for (uint32_t a = orphan->first; a != NONE; a = f->arcs[a].next) {
        uint32_t d;

        if (f->arcs[orphan->one ? a : a ^ 1].left == 0 || f->nodes[f->arcs[a].head].one != orphan->one ||
            f->nodes[f->arcs[a].head].parent == FREE)
            continue;
        d = distance_of(f, f->arcs[a].head);
        if (d < best_distance) {
            best = a;
            best_distance = d;
        }
    }
    orphan->parent = best;
    if (best != NONE) {
        orphan->stamp = f->clock;
        orphan->distance = best_distance + 1;
        return;
    }
    for (uint32_t a = orphan->first; a != NONE; a = f->arcs[a].next) {
        flow_node *near = &f->nodes[f->arcs[a].head];

        if (near->parent == FREE || near->one != orphan->one)
            continue;
        if (f->arcs[orphan->one ? a : a ^ 1].left > 0)
            activate(f, f->arcs[a].head);
        if (near->parent < ORPHAN && f->arcs[near->parent].head == n)
            make_orphan(f, f->arcs[a].head);
    }
}

static void plant(struct flow *f)
{
    f->clock = 0;
    f->active_first = f->active_last = NONE;
    f->orphan_first = f->orphan_count = 0;
    for (uint32_t n = 0; n < f->node_count; n++) {
        flow_node *x = &f->nodes[n];

        if (x->excess == 0)
            continue;
        x->one = x->excess < 0;
        x->parent = ROOT;
        x->distance = 1;
        activate(f, n);
    }
}

bool flow_solve(struct flow *f)
{
    uint32_t current = NONE;

    if (!reserve(f, (void **)&f->orphans, 0, f->node_count, &f->orphan_capacity, sizeof *f->orphans))
        return false;
    plant(f);
    for (;;) {
        uint32_t meeting;

        if (current == NONE || f->nodes[current].parent == FREE)
            current = next_active(f);
        if (current == NONE)
            return true;
        meeting = grow(f, current);
        f->clock++;
        if (meeting == NONE) {
            current = NONE;
            continue;
        }
        augment(f, meeting);
        while (f->orphan_count > 0) {
            uint32_t n = f->orphans[f->orphan_first];
            f->orphan_first = (f->orphan_first + 1) % f->node_count;
            f->orphan_count--;
            adopt(f, n);
        }
    }
}

bool flow_is_one(const struct flow *f, uint32_t node)
{
    return f->nodes[node].parent != FREE && f->nodes[node].one;
}
