/* ml_tree_named.c - the trees of versions 1 and 3, whose nodes are named by tree and number; no kernels here.
 *
 * Files have millions of them, nearly always in the order of their names: then nothing is sorted or copied. */
#include "ml_tree.h"

/* A name, with the node's place in the lists. */
typedef struct tree_name {
    int64_t tree, number, at;
} tree_name;

static int tree_name_compare(const void *a, const void *b)
{
    const tree_name *name = a, *y = b;

    if (name->tree != y->tree)
        return name->tree < y->tree ? -1 : 1;
    return (name->number > y->number) - (name->number < y->number);
}

/* All names, in their order. guess: where a tree's numbers begin, which most files count from 0 without gaps. */
typedef struct tree_index {
    const int64_t *trees, *numbers; /* as the lists have them: their order, where names is NULL */
    tree_name *names;
    int64_t count, guess;
} tree_index;

static tree_name tree_named(const tree_index *index, int64_t k)
{
    return index->names != NULL ? index->names[k] : (tree_name){ index->trees[k], index->numbers[k], k };
}

/* The first name that is not below (tree, number). */
static int64_t tree_lower(const tree_index *index, int64_t tree, int64_t number)
{
    const tree_name key = { tree, number, 0 };
    int64_t low = 0, high = index->count;

    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const tree_name name = tree_named(index, middle);
        if (tree_name_compare(&name, &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool tree_is(const tree_index *index, int64_t k, int64_t tree, int64_t number)
{
    const tree_name name = tree_named(index, k);
    return name.tree == tree && name.number == number;
}

static int64_t tree_find(tree_index *index, int64_t tree, int64_t number)
{
    int64_t k;

    if (index->names == NULL && number >= 0 && number < index->count - index->guess) {
        k = index->guess + number;
        if (index->trees[index->guess] == tree && index->trees[k] == tree && index->numbers[k] == number)
            return k;
    }
    if (index->guess >= index->count || tree_named(index, index->guess).tree != tree)
        index->guess = tree_lower(index, tree, INT64_MIN);
    k = index->guess + number;
    if (number < 0 || number >= index->count - index->guess || !tree_is(index, k, tree, number))
        k = tree_lower(index, tree, number);
    return k < index->count && tree_is(index, k, tree, number) ? tree_named(index, k).at : -1;
}

/* Sorts the names, unless the lists have them in order. */
static void tree_sort(tree_index *index, ml_pool *pool)
{
    int64_t i = 1;

    while (i < index->count && (index->trees[i - 1] < index->trees[i] ||
                                (index->trees[i - 1] == index->trees[i] && index->numbers[i - 1] <= index->numbers[i])))
        i++;
    if (i >= index->count)
        return;
    index->names = ml_alloc(pool, (uint64_t)index->count, sizeof *index->names);
    for (i = 0; index->names != NULL && i < index->count; i++)
        index->names[i] = (tree_name){ index->trees[i], index->numbers[i], i };
    if (index->names != NULL)
        qsort(index->names, (size_t)index->count, sizeof *index->names, tree_name_compare);
}

static bool tree_mode_find(inlay_str text, uint8_t *out)
{
#define MODE(name)                                                                                                     \
    {                                                                                                                  \
        name, sizeof(name) - 1                                                                                         \
    }
    static const struct {
        const char *name;
        size_t bytes;
    } modes[] = { [TREE_LEQ] = MODE("BRANCH_LEQ"), [TREE_LT] = MODE("BRANCH_LT"), [TREE_GTE] = MODE("BRANCH_GTE"),
                  [TREE_GT] = MODE("BRANCH_GT"),   [TREE_EQ] = MODE("BRANCH_EQ"), [TREE_NEQ] = MODE("BRANCH_NEQ"),
                  [TREE_LEAF] = MODE("LEAF") };
#undef MODE

    for (uint32_t i = 0; i < KIT_COUNT(modes); i++) {
        if (modes[i].name != NULL && modes[i].bytes == text.bytes &&
            memcmp(modes[i].name, text.data, modes[i].bytes) == 0) {
            *out = (uint8_t)i;
            return true;
        }
    }
    return false;
}

/* Numbers of a list, where they are, or of a tensor. */
typedef struct tree_reals {
    const float *list;
    const double *tensor;
    uint32_t count;
} tree_reals;

static tree_reals tree_reals_read(tree_state *state, const kit_node *node, const char *name, const char *name_tensor)
{
    const inlay_attr_info *attribute = kit_attr(node->info, name);
    tree_reals reals = { 0 };

    if (kit_attr(node->info, name_tensor) == NULL && attribute != NULL && attribute->kind == INLAY_ATTR_FLOATS)
        reals = (tree_reals){ .list = attribute->floats, .count = attribute->count };
    else
        reals.tensor = ml_doubles(&state->reading, node, name, name_tensor, &reals.count);
    return reals;
}

static double tree_real(const tree_reals *reals, int64_t i)
{
    return reals->list != NULL ? (double)reals->list[i] : reals->tensor[i];
}

/* The lists of the weights: class_* or target_*. */
typedef struct tree_lists {
    const int64_t *trees, *numbers, *targets;
    tree_reals weights;
    uint32_t count;
} tree_lists;

static bool tree_lists_read(const kit_node *node, tree_state *state, tree_lists *lists)
{
    bool Bool = state->classifies;
    uint32_t a, b;

    lists->trees = kit_attr_ints(node->info, Bool ? "class_treeids" : "target_treeids", &a);
    lists->numbers = kit_attr_ints(node->info, Bool ? "class_nodeids" : "target_nodeids", &b);
    lists->targets = kit_attr_ints(node->info, Bool ? "class_ids" : "target_ids", &lists->count);
    lists->weights = tree_reals_read(state, node, Bool ? "class_weights" : "target_weights",
                                     Bool ? "class_weights_as_tensor" : "target_weights_as_tensor");
    return a == lists->count && b == lists->count && lists->weights.count == lists->count;
}

/* Hangs the weights on their leaves: counted first, then filled in. */
static inlay_status tree_hang(tree_state *state, const tree_lists *lists, tree_index *names, inlay_diag *diag)
{
    uint32_t total = 0;

    state->weights = ml_alloc(&state->pool, lists->count, sizeof *state->weights);
    if (state->weights == NULL)
        return INLAY_OK; /* the pool says it */
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < lists->count; i++) {
            int64_t at = tree_find(names, lists->trees[i], lists->numbers[i]);
            if (at < 0 || state->nodes[at].mode != TREE_LEAF || lists->targets[i] < 0 ||
                lists->targets[i] >= state->targets)
                return tree_broken(diag, "a weight belongs to no leaf, or to a target or class that is not there");
            if (pass == 1)
                state->weights[state->nodes[at].end] =
                    (tree_weight){ tree_real(&lists->weights, i), (uint32_t)lists->targets[i] };
            state->nodes[at].end++;
        }
        for (int64_t i = 0; i < state->node_count && pass == 0; i++) {
            const uint32_t n = state->nodes[i].end;
            state->nodes[i].first = state->nodes[i].end = total;
            total += n;
        }
    }
    return INLAY_OK;
}

inlay_status tree_read_named(const kit_node *node, tree_state *state, inlay_diag *diag)
{
    uint32_t n, counts[5], missing_count;
    const int64_t *trees = kit_attr_ints(node->info, "nodes_treeids", &n);
    const int64_t *numbers = kit_attr_ints(node->info, "nodes_nodeids", &counts[0]);
    const int64_t *yes = kit_attr_ints(node->info, "nodes_truenodeids", &counts[1]);
    const int64_t *no = kit_attr_ints(node->info, "nodes_falsenodeids", &counts[2]);
    const int64_t *features = kit_attr_ints(node->info, "nodes_featureids", &counts[3]);
    const int64_t *missing = kit_attr_ints(node->info, "nodes_missing_value_tracks_true", &missing_count);
    const inlay_attr_info *modes = kit_attr(node->info, "nodes_modes");
    const tree_reals splits = tree_reals_read(state, node, "nodes_values", "nodes_values_as_tensor");
    tree_index index = { trees, numbers, NULL, n, 0 };
    const char *mode = NULL; /* the text that was read last: neighbours share it */
    tree_lists lists;

    counts[4] = modes != NULL && modes->kind == INLAY_ATTR_STRINGS ? modes->count : 0;
    for (uint32_t i = 0; i < 5; i++)
        if (counts[i] != n)
            return tree_broken(diag, "the nodes_* attributes differ in length");
    if (n == 0 || splits.count != n || !tree_lists_read(node, state, &lists))
        return tree_broken(diag, "there are no nodes, or lists of nodes or weights differ in length");
    for (uint32_t i = 0; i < n; i++) /* the first node of a tree is its root */
        state->root_count += i == 0 || trees[i] != trees[i - 1];
    state->node_count = n;
    state->nodes = ml_alloc(&state->pool, n, sizeof *state->nodes);
    state->roots = ml_alloc(&state->pool, (uint64_t)state->root_count, sizeof *state->roots);
    tree_sort(&index, &state->reading);
    if (state->pool.failed || state->reading.failed)
        return INLAY_OK;
    state->root_count = 0;
    for (uint32_t i = 0; i < n; i++) {
        tree_node *t = &state->nodes[i];
        if (i == 0 || trees[i] != trees[i - 1])
            state->roots[state->root_count++] = i;
        t->split = tree_real(&splits, i);
        t->missing_goes_true = i < missing_count && missing[i] != 0;
        if (i > 0 && modes->strings[i].data == mode)
            t->mode = state->nodes[i - 1].mode;
        else if (!tree_mode_find(modes->strings[i], &t->mode))
            return tree_broken(diag, "nodes_modes holds an unknown mode");
        mode = modes->strings[i].data;
    }
    for (uint32_t i = 0; i < n; i++) {
        tree_node *t = &state->nodes[i];
        int64_t to[2];
        if (t->mode == TREE_LEAF)
            continue;
        to[0] = tree_find(&index, trees[i], yes[i]);
        to[1] = tree_find(&index, trees[i], no[i]);
        if (!tree_branch(t, to[0], to[1], features[i]))
            return tree_broken(diag, "a branch leads to a node that is not there, or its feature is not possible");
    }
    return tree_hang(state, &lists, &index, diag);
}
