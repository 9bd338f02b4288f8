/* ml_tree_flat.c - trees as flat arrays: building and traversing them.
 *
 * Numbers are compared as integers: the bits of floats, with those of negative numbers inverted, have the order of the
 * floats. All comparisons become `key of x <= key of split`, by exchanging children and by using the float next to a
 * split. There are two copies of x, in which NaN (a missing number) is the largest or the smallest number: a node reads
 * the copy that leads NaN to the correct child. The children of a node are adjacent, so that a step is an addition
 * without a branch. The child of a leaf is the leaf itself. The comparison of a leaf reads a key of x that is less than
 * all others, so that the key of the leaf can store its weight. Sixteen rows (or sixteen trees for a single row)
 * advance together as many steps as the deepest of them needs, and their comparisons are independent of each other.
 *
 * Children are placed in the cache line of their parent while it has room, so that a line serves two or three
 * levels. */
#include "operators/ml_tree.h"
#include "inlay/check.h"

enum {
    LANES = 16,
    LINE = 8, /* narrow nodes per cache line */
    FEW = 10, /* fewer rows are processed one at a time */
    BLOCK_BYTES = 128 << 10,
    BLOCK_ROWS = 256
};

/* The copy of x that a node reads. One bit selects the direction of NaN, the other one selects how doubles are rounded
 * to float. */
enum { COPY_MISSING_TRUE = 1, COPY_DOWN = 2, COPIES = 4 };

typedef struct narrow_node {
    int32_t key;
    uint16_t feature;
    int16_t child; /* distance in nodes to the first child; 0 = a leaf */
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
    void *nodes;                         /* narrow_node, or wide_node if wide */
    uint32_t *starts, *depths, *targets; /* [trees]; targets: the target of all leaves of the tree, if direct */
    flat_leaf *leaves;                   /* indexed by a leaf's key; NULL if direct: the key is the weight */
    int64_t trees, features, keys;       /* keys: number of keys of a row; leaves read the first key */
    int64_t copy_at[COPIES];             /* first key of a copy of x; 0 = no node reads it */
    bool wide;
};

void tree_flat_destroy(tree_flat *flat)
{
    if (flat == NULL)
        return;
    free(flat->nodes);
    free(flat->starts);
    free(flat->leaves);
    free(flat);
}

bool tree_flat_is_direct(const tree_flat *flat)
{
    return flat->leaves == NULL;
}

/* Returns the key of a number; -0 has the key of 0. */
static inline int32_t key_of(float value)
{
    int32_t bits = (int32_t)f32_bits(value + 0.0f);

    return bits ^ (int32_t)((uint32_t)(bits >> 31) >> 1);
}

/* key_above() and key_below() return the key of a double; if it is not a float, that of the nearest float above or
 * below. */
static inline int32_t key_above(double value)
{
    float rounded = (float)value;
    return key_of(rounded) + ((double)rounded < value);
}
static inline int32_t key_below(double value)
{
    float rounded = (float)value;
    return key_of(rounded) - ((double)rounded > value);
}

static bool exact_inputs(inlay_dtype dtype)
{
    return dtype == INLAY_FLOAT || dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16;
}

/* Converts the comparison of a node to a key, the copy of x that the node reads, and whether its children are
 * exchanged. Returns false if the comparison has no flat form. */
static bool flat_compare(const tree_node *node, bool exact, int32_t *out_key, uint32_t *out_copy, bool *out_swap)
{
    const bool less = node->mode == TREE_LT || node->mode == TREE_GTE; /* compares with < instead of <= */
    const bool is_float = (double)(float)node->split == node->split;

    *out_swap = node->mode == TREE_GTE || node->mode == TREE_GT;
    if (node->mode > TREE_GT || isnan(node->split) || (!exact && !is_float))
        return false;
    *out_key = key_below(node->split) - (less && is_float);
    *out_copy = (node->missing_goes_true != *out_swap ? COPY_MISSING_TRUE : 0) | (less && !exact ? COPY_DOWN : 0);
    return true;
}

/* A queued node: its index in tree_state, its depth in the tree, and its index in the flat array. */
typedef struct flat_place {
    uint32_t node, depth, at;
} flat_place;

typedef struct flat_build {
    const tree_state *state;
    tree_flat *flat;
    /* All nodes of all trees. Each tree is ordered by depth, and children have the order of their parents. */
    flat_place *places;
    uint32_t *firsts; /* [trees + 1]: first place of each tree */
    uint8_t *used;    /* number of nodes in each line of the flat array */
    int64_t count, lines, leaf_count;
    bool exact;
} flat_build;

static bool is_leaf(const flat_build *build, uint32_t node)
{
    return build->state->nodes[node].mode == TREE_LEAF;
}

/* Starts a new cache line; returns the index of its first node in the flat array. */
static uint32_t open_line(flat_build *build)
{
    build->used[build->lines] = 0;
    return (uint32_t)(build->lines++ * LINE);
}

/* Finds room for two children: in the line of their parent, or else in a new one. Pairs of leaves, which have no
 * children, share separate lines: *io_leaves is the current line of leaves. */
static uint32_t place_pair(flat_build *build, uint32_t parent_at, bool leaves, uint32_t *io_leaves)
{
    uint32_t line = parent_at / LINE * LINE, at;

    INLAY_CHECK(line / LINE < (uint64_t)build->lines);
    if (build->used[line / LINE] + 2 > LINE) {
        line = !leaves ? open_line(build) : *io_leaves;
        if (leaves && (line == UINT32_MAX || build->used[line / LINE] + 2 > LINE))
            line = *io_leaves = open_line(build);
    }
    at = line + build->used[line / LINE];
    build->used[line / LINE] += 2;
    return at;
}

/* Queues the children of the node at place `parent`. Returns false if there are more children than nodes, because of a
 * cycle or a shared child, or if a comparison has no flat form. */
static bool queue_children(flat_build *build, int64_t parent, uint32_t *io_leaves)
{
    const flat_place *place = &build->places[parent];
    const tree_node *node = &build->state->nodes[place->node];
    int32_t key;
    uint32_t copy, first, second, at;
    bool swap;

    INLAY_CHECK(parent < build->count);
    if (build->count + 2 > build->state->node_count || !flat_compare(node, build->exact, &key, &copy, &swap))
        return false;
    first = swap ? node->no : node->yes;
    second = swap ? node->yes : node->no;
    at = place_pair(build, place->at, is_leaf(build, first) && is_leaf(build, second), io_leaves);
    build->places[build->count++] = (flat_place){ first, place->depth + 1, at };
    build->places[build->count++] = (flat_place){ second, place->depth + 1, at + 1 };
    build->flat->copy_at[copy] = 1;
    return true;
}

/* Queues the nodes of all trees. */
static bool flat_order(flat_build *build)
{
    const tree_state *state = build->state;

    for (int64_t root = 0; root < state->root_count; root++) {
        uint32_t leaves = UINT32_MAX;

        build->firsts[root] = (uint32_t)build->count;
        if (build->count == state->node_count)
            return false;
        build->flat->starts[root] = open_line(build);
        build->used[build->lines - 1] = 1;
        build->places[build->count++] = (flat_place){ (uint32_t)state->roots[root], 0, build->flat->starts[root] };
        for (int64_t place = build->firsts[root]; place < build->count; place++) {
            build->flat->depths[root] = build->places[place].depth;
            if (is_leaf(build, build->places[place].node))
                build->leaf_count++;
            else if (!queue_children(build, place, &leaves))
                return false;
        }
    }
    build->firsts[state->root_count] = (uint32_t)build->count;
    return build->lines <= INT32_MAX / LINE;
}

/* Returns whether each tree has a single target and at most one weight per leaf, which is a float. Then leaves store
 * their weights. */
static bool flat_direct(const flat_build *build)
{
    const tree_state *state = build->state;

    if (state->aggregate > TREE_SUM)
        return false;
    for (int64_t root = 0; root < state->root_count; root++) {
        bool seen = false;

        for (int64_t place = build->firsts[root]; place < build->firsts[root + 1]; place++) {
            const tree_node *node = &state->nodes[build->places[place].node];
            const tree_weight *weight = &state->weights[node->first];

            if (node->mode != TREE_LEAF || node->end == node->first)
                continue;
            if (node->end - node->first > 1 || (double)(float)weight->weight != weight->weight ||
                (seen && weight->target != build->flat->targets[root]))
                return false;
            build->flat->targets[root] = weight->target;
            seen = true;
        }
    }
    return true;
}

static void put_node(tree_flat *flat, int64_t at, int32_t key, int64_t feature, int64_t child)
{
    INLAY_CHECK(at >= 0 && (flat->wide || (feature <= UINT16_MAX && child >= INT16_MIN && child <= INT16_MAX)));
    if (flat->wide)
        ((wide_node *)flat->nodes)[at] = (wide_node){ key, (uint32_t)feature, (int32_t)child };
    else
        ((narrow_node *)flat->nodes)[at] = (narrow_node){ key, (uint16_t)feature, (int16_t)child };
}

/* Writes the nodes of the flat array. */
static void flat_fill(flat_build *build)
{
    const tree_state *state = build->state;
    tree_flat *flat = build->flat;
    uint32_t leaf = 0;

    for (int64_t root = 0; root < state->root_count; root++) {
        int64_t child = build->firsts[root] + 1;

        for (int64_t index = build->firsts[root]; index < build->firsts[root + 1]; index++) {
            const flat_place *place = &build->places[index];
            const tree_node *node = &state->nodes[place->node];
            int32_t key = 0;
            uint32_t copy = 0;
            bool swap;

            if (node->mode != TREE_LEAF) {
                (void)flat_compare(node, build->exact, &key, &copy, &swap);
                put_node(flat, place->at, key, flat->copy_at[copy] + node->feature,
                         (int64_t)build->places[child].at - place->at);
                child += 2;
                continue;
            }
            if (flat->leaves != NULL) {
                flat->leaves[leaf] = (flat_leaf){ node->first, node->end };
                key = (int32_t)leaf++;
            } else {
                key = (int32_t)f32_bits(node->end > node->first ? (float)state->weights[node->first].weight : 0.0f);
            }
            put_node(flat, place->at, key, 0, 0);
        }
    }
}

/* Returns whether the distance to a child, or a feature, does not fit in a narrow node. Distances may be negative,
 * because a pair of leaves may be in a cache line before the line of its parent. */
static bool flat_is_wide(const flat_build *build)
{
    for (int64_t root = 0; root < build->state->root_count; root++) {
        int64_t child = build->firsts[root] + 1;

        for (int64_t place = build->firsts[root]; place < build->firsts[root + 1]; place++) {
            if (is_leaf(build, build->places[place].node))
                continue;
            if (llabs((int64_t)build->places[child].at - build->places[place].at) > INT16_MAX)
                return true;
            child += 2;
        }
    }
    return build->flat->keys > UINT16_MAX;
}

static bool flat_build_all(flat_build *build)
{
    tree_flat *flat = build->flat;

    if (!flat_order(build))
        return false;
    flat->keys = 1;
    for (uint32_t copy = 0; copy < COPIES; copy++) {
        if (flat->copy_at[copy] != 0) {
            flat->copy_at[copy] = flat->keys;
            flat->keys += flat->features;
        }
    }
    if (flat->keys > INT32_MAX / (LANES * (int64_t)sizeof(int32_t)))
        return false;
    flat->wide = flat_is_wide(build);
    flat->nodes =
        aligned_alloc(64, (size_t)build->lines * LINE * (flat->wide ? sizeof(wide_node) : sizeof(narrow_node)));
    if (!flat_direct(build) && (flat->leaves = malloc((size_t)build->leaf_count * sizeof *flat->leaves)) == NULL)
        return false;
    if (flat->nodes == NULL)
        return false;
    flat_fill(build);
    return true;
}

tree_flat *tree_flat_create(const tree_state *state, inlay_dtype dtype)
{
    flat_build build = { .state = state, .exact = exact_inputs(dtype) };
    tree_flat *flat = calloc(1, sizeof *flat);
    bool built = false;

    if (flat == NULL || state->root_count == 0)
        goto done;
    build.flat = flat;
    flat->trees = state->root_count;
    flat->features = state->features;
    build.places = malloc((size_t)state->node_count * sizeof *build.places);
    build.firsts = malloc((size_t)(state->root_count + 1) * sizeof *build.firsts);
    /* A line contains at least a root or a pair of children. */
    build.used = malloc((size_t)(state->node_count / 2 + state->root_count + 1));
    flat->starts = calloc((size_t)state->root_count, 3 * sizeof *flat->starts);
    if (build.places == NULL || build.firsts == NULL || build.used == NULL || flat->starts == NULL)
        goto done;
    flat->depths = flat->starts + state->root_count;
    flat->targets = flat->depths + state->root_count;
    built = flat_build_all(&build);
done:
    free(build.places);
    free(build.firsts);
    free(build.used);
    if (!built) {
        tree_flat_destroy(flat);
        return NULL;
    }
    return flat;
}

int64_t tree_flat_rows(const tree_flat *flat)
{
    int64_t groups = BLOCK_BYTES / (flat->keys * LANES * (int64_t)sizeof(int32_t));

    return groups < 1 ? LANES : groups * LANES > BLOCK_ROWS ? BLOCK_ROWS : groups * LANES;
}

uint64_t tree_flat_room(const tree_flat *flat, int64_t rows)
{
    const int64_t lanes = rows < FEW ? 1 : (rows + LANES - 1) / LANES * LANES;
    return (uint64_t)lanes * (uint64_t)flat->keys * sizeof(int32_t);
}

/* Computes the keys of one row, `step` apart. Leaves read the first key. */
static void keys_of_row(const tree_flat *flat, const tree_block *block, int64_t row, int32_t *keys, int64_t step)
{
    const int64_t at = row * block->columns;

    keys[0] = INT32_MIN;
    for (uint32_t copy = 0; copy < COPIES; copy++) {
        const int32_t missing = (copy & COPY_MISSING_TRUE) != 0 ? INT32_MIN : INT32_MAX;
        int32_t *to = keys + flat->copy_at[copy] * step;

        if (flat->copy_at[copy] == 0)
            continue;
        if (block->dtype == INLAY_FLOAT) {
            const float *input = (const float *)block->input + at;
            for (int64_t i = 0; i < flat->features; i++)
                to[i * step] = input[i] != input[i] ? missing : key_of(input[i]);
            continue;
        }
        for (int64_t i = 0; i < flat->features; i++) {
            double value = convert_get_f64(block->dtype, block->input, at + i);
            to[i * step] = value != value ? missing : (copy & COPY_DOWN) != 0 ? key_below(value) : key_above(value);
        }
    }
}

/* Moves from a node to its child; the child of a leaf is the leaf. keys: the keys of one row, `step` apart. The
 * function is inlined once per kind of node. */
static inline const void *flat_step(const void *node, bool wide, const int32_t *keys, int64_t step)
{
    if (wide) {
        const wide_node *current = node;
        return current + current->child + (keys[current->feature * step] > current->key);
    } else {
        const narrow_node *current = node;
        return current + current->child + (keys[current->feature * step] > current->key);
    }
}
static inline bool flat_at_leaf(const void *node, bool wide)
{
    return wide ? ((const wide_node *)node)->child == 0 : ((const narrow_node *)node)->child == 0;
}

/* Descends `depth` levels from the roots, or until all lanes have reached a leaf, because a single branch may be deep.
 * This is tested only every LEVELS levels. lane: distance between the keys of adjacent lanes, 0 if one row descends
 * several trees. */
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
    for (int i = 0; i < LANES; i++) /* the key is the first field of both kinds of nodes */
        memcpy(&leaves[i], at[i], sizeof leaves[i]);
}

static const void *flat_root(const tree_flat *flat, int64_t tree)
{
    INLAY_CHECK(tree >= 0 && tree < flat->trees);
    return (const char *)flat->nodes + flat->starts[tree] * (flat->wide ? sizeof(wide_node) : sizeof(narrow_node));
}

static void add_leaf(const tree_flat *flat, const tree_state *state, int64_t tree, int32_t leaf, double *scores)
{
    if (flat->leaves == NULL)
        scores[flat->targets[tree]] += (double)f32_from_bits((uint32_t)leaf);
    else
        tree_add(state, flat->leaves[leaf].first, flat->leaves[leaf].end, scores);
}

static void run_rows(const tree_flat *flat, const tree_state *state, const tree_block *block, int64_t rows)
{
    const int64_t groups = (rows + LANES - 1) / LANES, stride = 2 * state->targets;
    int32_t leaves[LANES];

    for (int64_t row = 0; row < groups * LANES; row++) /* lanes without a row repeat the last row */
        keys_of_row(flat, block, block->row + (row < rows ? row : rows - 1),
                    (int32_t *)block->room + row / LANES * LANES * flat->keys + row % LANES, LANES);
    for (int64_t tree = 0; tree < flat->trees; tree++) {
        const void *roots[LANES];

        for (int i = 0; i < LANES; i++)
            roots[i] = flat_root(flat, tree);
        for (int64_t group = 0; group < groups; group++) {
            const int32_t *keys = (const int32_t *)block->room + group * LANES * flat->keys;

            if (flat->wide)
                flat_walk(roots, true, flat->depths[tree], keys, 1, LANES, leaves);
            else
                flat_walk(roots, false, flat->depths[tree], keys, 1, LANES, leaves);
            for (int64_t i = 0; i < LANES && group * LANES + i < rows; i++)
                add_leaf(flat, state, tree, leaves[i], block->scores + (group * LANES + i) * stride);
        }
    }
}

static void run_row(const tree_flat *flat, const tree_state *state, const tree_block *block, int64_t row)
{
    int32_t *keys = block->room, leaves[LANES];
    double *scores = block->scores + row * 2 * state->targets;

    INLAY_CHECK(row < block->rows);
    keys_of_row(flat, block, block->row + row, keys, 1);
    for (int64_t tree = 0; tree < flat->trees; tree += LANES) {
        const int count = flat->trees - tree < LANES ? (int)(flat->trees - tree) : LANES;
        const void *roots[LANES];
        uint32_t depth = 0;

        for (int i = 0; i < LANES; i++)
            roots[i] = flat_root(flat, i < count ? tree + i : tree);
        /* While these trees wait for memory, those after them come. */
        for (int64_t next = tree + LANES; next < tree + 2 * LANES && next < flat->trees; next++)
            __builtin_prefetch(flat_root(flat, next));
        for (int i = 0; i < count; i++)
            depth = flat->depths[tree + i] > depth ? flat->depths[tree + i] : depth;
        if (flat->wide)
            flat_walk(roots, true, depth, keys, 0, 1, leaves);
        else
            flat_walk(roots, false, depth, keys, 0, 1, leaves);
        for (int i = 0; i < count; i++)
            add_leaf(flat, state, tree + i, leaves[i], scores);
    }
}

void tree_flat_run(const tree_flat *flat, const tree_state *state, const tree_block *block)
{
    const int64_t remainder = block->rows % LANES, together = remainder < FEW ? block->rows - remainder : block->rows;

    INLAY_CHECK(block->rows >= 0);
    if (together > 0)
        run_rows(flat, state, block, together);
    for (int64_t row = together; row < block->rows; row++)
        run_row(flat, state, block, row);
}
