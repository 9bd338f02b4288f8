/* ml_tree_flat.c - trees as flat arrays; no kernels here.
 *
 * Numbers are compared as integers: a float's bits, with those of negative ones turned, sort as the floats do. All
 * comparisons become `key of x <= key of split` by exchanging children and by taking the neighbour of a split; where a
 * missing number (NaN) goes is which of two copies of x a node reads, in which NaN is the largest or the least of all.
 * A node's children are neighbours, so that a step is an addition and no branch. A leaf leads to itself: it reads a key
 * that is less than all, and its own key is free to hold its weight. So sixteen rows at once (or sixteen trees, for a
 * row alone) walk as many steps as the deepest of them needs, and nothing waits for a comparison.
 *
 * Children lie in the cache line of their parent while there is room, so that a walk reads a line for two or three
 * levels. */
#include "ml_tree.h"

enum {
    LANES = 16,
    LINE = 8, /* narrow nodes of a cache line */
    FEW = 10, /* fewer rows are walked one by one */
    BLOCK_BYTES = 128 << 10,
    BLOCK_ROWS = 256
};

/* Whose numbers a node reads: one bit says where NaN goes, the other how numbers that are no float are rounded. */
enum { COPY_MISSING_TRUE = 1, COPY_DOWN = 2, COPIES = 4 };

typedef struct narrow_node {
    int32_t key;
    uint16_t feature;
    int16_t child; /* how many nodes on the first one is; 0 = a leaf */
} narrow_node;

typedef struct wide_node {
    int32_t key;
    uint32_t feature;
    int32_t child;
} wide_node;

typedef struct flat_leaf {
    uint32_t first, end;
} flat_leaf;

struct tree_flat {
    void *nodes;                         /* narrow_node, or wide_node where wide */
    uint32_t *starts, *depths, *targets; /* [trees]; targets: of all leaves of the tree, where direct */
    flat_leaf *leaves;                   /* a leaf's key is its place here; NULL where direct: it is the weight */
    int64_t trees, features, keys;       /* keys: numbers of a row, the first being the one that leaves read */
    int64_t copy_at[COPIES];             /* first key of a copy of x; 0 = no node reads it */
    bool wide;
};

void tree_flat_destroy(tree_flat *f)
{
    if (f == NULL)
        return;
    free(f->nodes);
    free(f->starts);
    free(f->leaves);
    free(f);
}

bool tree_flat_is_direct(const tree_flat *f)
{
    return f->leaves == NULL;
}

/* ------------------------------------------------------------------ keys */

/* Of a number; -0 is 0. */
static inline int32_t key_of(float v)
{
    int32_t bits = (int32_t)f32_bits(v + 0.0f);

    return bits ^ (int32_t)((uint32_t)(bits >> 31) >> 1);
}

/* Of the float above or below a double that is none. */
static inline int32_t key_above(double v)
{
    float f = (float)v;
    return key_of(f) + ((double)f < v);
}
static inline int32_t key_below(double v)
{
    float f = (float)v;
    return key_of(f) - ((double)f > v);
}

static bool exact_inputs(inlay_dtype dtype)
{
    return dtype == INLAY_FLOAT || dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16;
}

/* What node t becomes: its key, the copy it reads, and whether its children change places. False: it cannot. */
static bool flat_compare(const tree_node *t, bool exact, int32_t *out_key, uint32_t *out_copy, bool *out_swap)
{
    const bool less = t->mode == TREE_LT || t->mode == TREE_GTE; /* than the split, or at most it */
    const bool is_float = (double)(float)t->split == t->split;

    *out_swap = t->mode == TREE_GTE || t->mode == TREE_GT;
    if (t->mode > TREE_GT || isnan(t->split) || (!exact && !is_float))
        return false;
    *out_key = key_below(t->split) - (less && is_float);
    *out_copy = (t->missing_goes_true != *out_swap ? COPY_MISSING_TRUE : 0) | (less && !exact ? COPY_DOWN : 0);
    return true;
}

/* ------------------------------------------------------------------ building */

/* A node as it is queued: where it is in tree_state, its depth, and its place in the flat array. */
typedef struct flat_place {
    uint32_t node, depth, at;
} flat_place;

typedef struct flat_build {
    const tree_state *s;
    tree_flat *f;
    flat_place
        *places;      /* all nodes of all trees, each tree's by depth: children follow in the order of their parents */
    uint32_t *firsts; /* [trees + 1]: each tree's first place in it */
    uint8_t *used;    /* of each line of the flat array: how many nodes it has */
    int64_t count, lines, leaf_count;
    bool exact;
} flat_build;

static bool is_leaf(const flat_build *b, uint32_t node)
{
    return b->s->nodes[node].mode == TREE_LEAF;
}

/* A new line; its first node's place in the flat array. */
static uint32_t open_line(flat_build *b)
{
    b->used[b->lines] = 0;
    return (uint32_t)(b->lines++ * LINE);
}

/* The place of two children: in their parent's line, or else in a new one. Leaves, which nothing follows, fill lines of
 * their own: *io_leaves is the one that has room. */
static uint32_t place_pair(flat_build *b, uint32_t parent_at, bool leaves, uint32_t *io_leaves)
{
    uint32_t line = parent_at / LINE * LINE, at;

    if (b->used[line / LINE] + 2 > LINE) {
        line = !leaves ? open_line(b) : *io_leaves;
        if (leaves && (line == UINT32_MAX || b->used[line / LINE] + 2 > LINE))
            line = *io_leaves = open_line(b);
    }
    at = line + b->used[line / LINE];
    b->used[line / LINE] += 2;
    return at;
}

/* Queues the children of the node at place k. False: there are more of them than nodes, as where a branch leads back or
 * two lead to one node; or a comparison has no flat form. */
static bool queue_children(flat_build *b, int64_t k, uint32_t *io_leaves)
{
    const flat_place *p = &b->places[k];
    const tree_node *t = &b->s->nodes[p->node];
    int32_t key;
    uint32_t copy, first, second, at;
    bool swap;

    if (b->count + 2 > b->s->node_count || !flat_compare(t, b->exact, &key, &copy, &swap))
        return false;
    first = swap ? t->no : t->yes;
    second = swap ? t->yes : t->no;
    at = place_pair(b, p->at, is_leaf(b, first) && is_leaf(b, second), io_leaves);
    b->places[b->count++] = (flat_place){ first, p->depth + 1, at };
    b->places[b->count++] = (flat_place){ second, p->depth + 1, at + 1 };
    b->f->copy_at[copy] = 1;
    return true;
}

/* Lists the nodes of all trees. */
static bool flat_order(flat_build *b)
{
    const tree_state *s = b->s;

    for (int64_t r = 0; r < s->root_count; r++) {
        uint32_t leaves = UINT32_MAX;

        b->firsts[r] = (uint32_t)b->count;
        if (b->count == s->node_count)
            return false;
        b->f->starts[r] = open_line(b);
        b->used[b->lines - 1] = 1;
        b->places[b->count++] = (flat_place){ (uint32_t)s->roots[r], 0, b->f->starts[r] };
        for (int64_t k = b->firsts[r]; k < b->count; k++) {
            b->f->depths[r] = b->places[k].depth;
            if (is_leaf(b, b->places[k].node))
                b->leaf_count++;
            else if (!queue_children(b, k, &leaves))
                return false;
        }
    }
    b->firsts[s->root_count] = (uint32_t)b->count;
    return b->lines <= INT32_MAX / LINE;
}

/* Does each tree count for one target only, with at most one weight a leaf, that is a float? Then leaves hold them. */
static bool flat_direct(const flat_build *b)
{
    const tree_state *s = b->s;

    if (s->aggregate > TREE_SUM)
        return false;
    for (int64_t r = 0; r < s->root_count; r++) {
        bool seen = false;

        for (int64_t k = b->firsts[r]; k < b->firsts[r + 1]; k++) {
            const tree_node *t = &s->nodes[b->places[k].node];
            const tree_weight *w = &s->weights[t->first];

            if (t->mode != TREE_LEAF || t->end == t->first)
                continue;
            if (t->end - t->first > 1 || (double)(float)w->weight != w->weight ||
                (seen && w->target != b->f->targets[r]))
                return false;
            b->f->targets[r] = w->target;
            seen = true;
        }
    }
    return true;
}

static void put_node(tree_flat *f, int64_t at, int32_t key, int64_t feature, int64_t child)
{
    if (f->wide)
        ((wide_node *)f->nodes)[at] = (wide_node){ key, (uint32_t)feature, (int32_t)child };
    else
        ((narrow_node *)f->nodes)[at] = (narrow_node){ key, (uint16_t)feature, (int16_t)child };
}

/* Writes the nodes. */
static void flat_fill(flat_build *b)
{
    const tree_state *s = b->s;
    tree_flat *f = b->f;
    uint32_t leaf = 0;

    for (int64_t r = 0; r < s->root_count; r++) {
        int64_t child = b->firsts[r] + 1;

        for (int64_t k = b->firsts[r]; k < b->firsts[r + 1]; k++) {
            const flat_place *p = &b->places[k];
            const tree_node *t = &s->nodes[p->node];
            int32_t key = 0;
            uint32_t copy = 0;
            bool swap;

            if (t->mode != TREE_LEAF) {
                (void)flat_compare(t, b->exact, &key, &copy, &swap);
                put_node(f, p->at, key, f->copy_at[copy] + t->feature, (int64_t)b->places[child].at - p->at);
                child += 2;
                continue;
            }
            if (f->leaves != NULL) {
                f->leaves[leaf] = (flat_leaf){ t->first, t->end };
                key = (int32_t)leaf++;
            } else {
                key = (int32_t)f32_bits(t->end > t->first ? (float)s->weights[t->first].weight : 0.0f);
            }
            put_node(f, p->at, key, 0, 0);
        }
    }
}

/* Is a node too far from its children for a narrow one? They lie behind it, but for leaves in an older line. */
static bool flat_is_wide(const flat_build *b)
{
    for (int64_t r = 0; r < b->s->root_count; r++) {
        int64_t child = b->firsts[r] + 1;

        for (int64_t k = b->firsts[r]; k < b->firsts[r + 1]; k++) {
            if (is_leaf(b, b->places[k].node))
                continue;
            if (llabs((int64_t)b->places[child].at - b->places[k].at) > INT16_MAX)
                return true;
            child += 2;
        }
    }
    return b->f->keys > UINT16_MAX;
}

static bool flat_build_all(flat_build *b)
{
    tree_flat *f = b->f;

    if (!flat_order(b))
        return false;
    f->keys = 1;
    for (uint32_t c = 0; c < COPIES; c++) {
        if (f->copy_at[c] != 0) {
            f->copy_at[c] = f->keys;
            f->keys += f->features;
        }
    }
    if (f->keys > INT32_MAX / (LANES * (int64_t)sizeof(int32_t)))
        return false;
    f->wide = flat_is_wide(b);
    f->nodes = aligned_alloc(64, (size_t)b->lines * LINE * (f->wide ? sizeof(wide_node) : sizeof(narrow_node)));
    if (!flat_direct(b) && (f->leaves = malloc((size_t)b->leaf_count * sizeof *f->leaves)) == NULL)
        return false;
    if (f->nodes == NULL)
        return false;
    flat_fill(b);
    return true;
}

tree_flat *tree_flat_create(const tree_state *s, inlay_dtype dtype)
{
    flat_build b = { .s = s, .exact = exact_inputs(dtype) };
    tree_flat *f = calloc(1, sizeof *f);
    bool built = false;

    if (f == NULL || s->root_count == 0)
        goto done;
    b.f = f;
    f->trees = s->root_count;
    f->features = s->features;
    b.places = malloc((size_t)s->node_count * sizeof *b.places);
    b.firsts = malloc((size_t)(s->root_count + 1) * sizeof *b.firsts);
    b.used = malloc((size_t)(s->node_count / 2 + s->root_count + 1)); /* a line has a root or two children at least */
    f->starts = calloc((size_t)s->root_count, 3 * sizeof *f->starts);
    if (b.places == NULL || b.firsts == NULL || b.used == NULL || f->starts == NULL)
        goto done;
    f->depths = f->starts + s->root_count;
    f->targets = f->depths + s->root_count;
    built = flat_build_all(&b);
done:
    free(b.places);
    free(b.firsts);
    free(b.used);
    if (!built) {
        tree_flat_destroy(f);
        return NULL;
    }
    return f;
}

/* ------------------------------------------------------------------ running */

int64_t tree_flat_rows(const tree_flat *f)
{
    int64_t groups = BLOCK_BYTES / (f->keys * LANES * (int64_t)sizeof(int32_t));

    return groups < 1 ? LANES : groups * LANES > BLOCK_ROWS ? BLOCK_ROWS : groups * LANES;
}

uint64_t tree_flat_room(const tree_flat *f, int64_t rows)
{
    const int64_t lanes = rows < FEW ? 1 : (rows + LANES - 1) / LANES * LANES;
    return (uint64_t)lanes * (uint64_t)f->keys * sizeof(int32_t);
}

/* The keys of one row, `step` apart, behind the one that leaves read. */
static void keys_of_row(const tree_flat *f, const tree_block *b, int64_t row, int32_t *keys, int64_t step)
{
    const int64_t at = row * b->columns;

    keys[0] = INT32_MIN;
    for (uint32_t c = 0; c < COPIES; c++) {
        const int32_t missing = (c & COPY_MISSING_TRUE) != 0 ? INT32_MIN : INT32_MAX;
        int32_t *to = keys + f->copy_at[c] * step;

        if (f->copy_at[c] == 0)
            continue;
        if (b->dtype == INLAY_FLOAT) {
            const float *x = (const float *)b->x + at;
            for (int64_t i = 0; i < f->features; i++)
                to[i * step] = x[i] != x[i] ? missing : key_of(x[i]);
            continue;
        }
        for (int64_t i = 0; i < f->features; i++) {
            double v = convert_get_f64(b->dtype, b->x, at + i);
            to[i * step] = v != v ? missing : (c & COPY_DOWN) != 0 ? key_below(v) : key_above(v);
        }
    }
}

/* From a node to its child; a leaf stays. keys: of one row, `step` apart. Compiled for each kind of node. */
static inline const void *flat_step(const void *node, bool wide, const int32_t *keys, int64_t step)
{
    if (wide) {
        const wide_node *n = node;
        return n + n->child + (keys[n->feature * step] > n->key);
    } else {
        const narrow_node *n = node;
        return n + n->child + (keys[n->feature * step] > n->key);
    }
}
static inline bool flat_at_leaf(const void *node, bool wide)
{
    return wide ? ((const wide_node *)node)->child == 0 : ((const narrow_node *)node)->child == 0;
}

/* Walks from at[] down `depth` levels, or until all are at leaves, which is looked at now and then: trees may be deep
 * on one side only. lane: how far apart the keys of neighbours are, 0 where one row walks several trees. */
static inline void flat_walk(const void *const *roots, bool wide, uint32_t depth, const int32_t *keys, int64_t lane,
                             int64_t step, int32_t *leaves)
{
    enum { LEVELS = 8 };
    const void *at[LANES];

    for (int i = 0; i < LANES; i++)
        at[i] = roots[i];
    for (uint32_t d = 0; d < depth; d += LEVELS) {
        const uint32_t end = depth - d < LEVELS ? depth : d + LEVELS;
        bool done = true;

        for (uint32_t level = d; level < end; level++)
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++)
                at[i] = flat_step(at[i], wide, keys + i * lane, step);
        for (int i = 0; i < LANES; i++)
            done = done && flat_at_leaf(at[i], wide);
        if (done)
            break;
    }
    for (int i = 0; i < LANES; i++) /* both kinds of nodes begin with the key */
        memcpy(&leaves[i], at[i], sizeof leaves[i]);
}

static const void *flat_root(const tree_flat *f, int64_t tree)
{
    return (const char *)f->nodes + f->starts[tree] * (f->wide ? sizeof(wide_node) : sizeof(narrow_node));
}

static void add_leaf(const tree_flat *f, const tree_state *s, int64_t tree, int32_t leaf, double *scores)
{
    if (f->leaves == NULL)
        scores[f->targets[tree]] += (double)f32_from_bits((uint32_t)leaf);
    else
        tree_add(s, f->leaves[leaf].first, f->leaves[leaf].end, scores);
}

static void run_rows(const tree_flat *f, const tree_state *s, const tree_block *b, int64_t rows)
{
    const int64_t groups = (rows + LANES - 1) / LANES, stride = 2 * s->targets;
    int32_t leaves[LANES];

    for (int64_t r = 0; r < groups * LANES; r++) /* lanes without a row take the last one's */
        keys_of_row(f, b, b->row + (r < rows ? r : rows - 1),
                    (int32_t *)b->room + r / LANES * LANES * f->keys + r % LANES, LANES);
    for (int64_t t = 0; t < f->trees; t++) {
        const void *roots[LANES];

        for (int i = 0; i < LANES; i++)
            roots[i] = flat_root(f, t);
        for (int64_t g = 0; g < groups; g++) {
            const int32_t *keys = (const int32_t *)b->room + g * LANES * f->keys;

            if (f->wide)
                flat_walk(roots, true, f->depths[t], keys, 1, LANES, leaves);
            else
                flat_walk(roots, false, f->depths[t], keys, 1, LANES, leaves);
            for (int64_t i = 0; i < LANES && g * LANES + i < rows; i++)
                add_leaf(f, s, t, leaves[i], b->scores + (g * LANES + i) * stride);
        }
    }
}

static void run_row(const tree_flat *f, const tree_state *s, const tree_block *b, int64_t row)
{
    int32_t *keys = b->room, leaves[LANES];
    double *scores = b->scores + row * 2 * s->targets;

    keys_of_row(f, b, b->row + row, keys, 1);
    for (int64_t t = 0; t < f->trees; t += LANES) {
        const int count = f->trees - t < LANES ? (int)(f->trees - t) : LANES;
        const void *roots[LANES];
        uint32_t depth = 0;

        for (int i = 0; i < LANES; i++)
            roots[i] = flat_root(f, i < count ? t + i : t);
        for (int i = 0; i < count; i++)
            depth = f->depths[t + i] > depth ? f->depths[t + i] : depth;
        if (f->wide)
            flat_walk(roots, true, depth, keys, 0, 1, leaves);
        else
            flat_walk(roots, false, depth, keys, 0, 1, leaves);
        for (int i = 0; i < count; i++)
            add_leaf(f, s, t + i, leaves[i], scores);
    }
}

void tree_flat_run(const tree_flat *f, const tree_state *s, const tree_block *b)
{
    const int64_t rest = b->rows % LANES, together = rest < FEW ? b->rows - rest : b->rows;

    if (together > 0)
        run_rows(f, s, b, together);
    for (int64_t r = together; r < b->rows; r++)
        run_row(f, s, b, r);
}
