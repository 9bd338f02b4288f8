/* ml_tree_named.c - the trees of versions 1 and 3, whose nodes are identified by a name: tree and number. It contains
 * no kernels.
 *
 * Models have up to millions of nodes, which are nearly always sorted by name. Then nothing is sorted or copied. */
#include "operators/ml_attrs.h"
#include "operators/ml_tree.h"
#include "inlay/check.h"

/* The name of a node, and the index of the node in the lists of the model. */
typedef struct tree_name {
    int64_t tree, number, at;
} tree_name;

static int tree_name_compare(const void *first_entry, const void *second_entry)
{
    const tree_name *first = first_entry, *second = second_entry;

    if (first->tree != second->tree)
        return first->tree < second->tree ? -1 : 1;
    return (first->number > second->number) - (first->number < second->number);
}

/* All names, sorted. guess: index of the first node of a tree. Most models number the nodes of a tree from 0 without
 * gaps, so a node is looked up at guess + number first. */
typedef struct tree_index {
    const int64_t *trees, *numbers; /* the lists of the model; sorted if names is NULL */
    tree_name *names;
    int64_t count, guess;
} tree_index;

static tree_name tree_named(const tree_index *index, int64_t position)
{
    INLAY_CHECK(position >= 0 && position < index->count);
    return index->names != NULL ? index->names[position]
                                : (tree_name){ index->trees[position], index->numbers[position], position };
}

/* Returns the position of the first name that is not less than (tree, number). */
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

static bool tree_is(const tree_index *index, int64_t position, int64_t tree, int64_t number)
{
    const tree_name name = tree_named(index, position);
    return name.tree == tree && name.number == number;
}

static int64_t tree_find(tree_index *index, int64_t tree, int64_t number)
{
    int64_t position;

    if (index->names == NULL && number >= 0 && number < index->count - index->guess) {
        position = index->guess + number;
        if (index->trees[index->guess] == tree && index->trees[position] == tree && index->numbers[position] == number)
            return position;
    }
    if (index->guess >= index->count || tree_named(index, index->guess).tree != tree)
        index->guess = tree_lower(index, tree, INT64_MIN);
    position = number >= 0 && number < index->count - index->guess ? index->guess + number : index->count;
    if (position == index->count || !tree_is(index, position, tree, number))
        position = tree_lower(index, tree, number);
    return position < index->count && tree_is(index, position, tree, number) ? tree_named(index, position).at : -1;
}

/* Sorts the names, unless the lists are sorted. */
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

/* The numbers of a list attribute, which belong to the node, or of a tensor attribute. */
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

static double tree_real(const tree_reals *reals, int64_t index)
{
    return reals->list != NULL ? (double)reals->list[index] : reals->tensor[index];
}

/* The lists of the weights: class_* or target_*. */
typedef struct tree_lists {
    const int64_t *trees, *numbers, *targets;
    tree_reals weights;
    uint32_t count;
} tree_lists;

static bool tree_lists_read(const kit_node *node, tree_state *state, tree_lists *lists)
{
    bool classifies = state->classifies;
    uint32_t tree_count, number_count;

    lists->trees = kit_attr_ints(node->info, classifies ? "class_treeids" : "target_treeids", &tree_count);
    lists->numbers = kit_attr_ints(node->info, classifies ? "class_nodeids" : "target_nodeids", &number_count);
    lists->targets = kit_attr_ints(node->info, classifies ? "class_ids" : "target_ids", &lists->count);
    lists->weights = tree_reals_read(state, node, classifies ? "class_weights" : "target_weights",
                                     classifies ? "class_weights_as_tensor" : "target_weights_as_tensor");
    return tree_count == lists->count && number_count == lists->count && lists->weights.count == lists->count;
}

/* Assigns the weights to their leaves, in two passes: counting, then writing. */
static inlay_status tree_assign_weights(tree_state *state, const tree_lists *lists, tree_index *names, inlay_diag *diag)
{
    uint32_t total = 0;

    state->weights = ml_alloc(&state->pool, lists->count, sizeof *state->weights);
    if (state->weights == NULL)
        return INLAY_OK; /* the caller checks the pool */
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < lists->count; i++) {
            int64_t at = tree_find(names, lists->trees[i], lists->numbers[i]);
            if (at < 0 || lists->targets[i] < 0 || lists->targets[i] >= state->targets)
                return tree_broken(diag,
                                   "weight %u is for node %lld of tree %lld, which does not exist, or for target %lld "
                                   "of %lld",
                                   i, (long long)lists->numbers[i], (long long)lists->trees[i],
                                   (long long)lists->targets[i], (long long)state->targets);
            if (state->nodes[at].mode != TREE_LEAF)
                continue; /* early converters wrote weights for all nodes; those of branches have no effect */
            if (pass == 1)
                state->weights[state->nodes[at].end] =
                    (tree_weight){ tree_real(&lists->weights, i), (uint32_t)lists->targets[i] };
            state->nodes[at].end++;
        }
        for (int64_t i = 0; i < state->node_count && pass == 0; i++) {
            const uint32_t count = state->nodes[i].end;
            state->nodes[i].first = state->nodes[i].end = total;
            total += count;
        }
    }
    return INLAY_OK;
}

inlay_status tree_read_named(const kit_node *node, tree_state *state, inlay_diag *diag)
{
    uint32_t node_count, counts[5], missing_count;
    const int64_t *trees = kit_attr_ints(node->info, "nodes_treeids", &node_count);
    const int64_t *numbers = kit_attr_ints(node->info, "nodes_nodeids", &counts[0]);
    const int64_t *yes = kit_attr_ints(node->info, "nodes_truenodeids", &counts[1]);
    const int64_t *no = kit_attr_ints(node->info, "nodes_falsenodeids", &counts[2]);
    const int64_t *features = kit_attr_ints(node->info, "nodes_featureids", &counts[3]);
    const int64_t *missing = kit_attr_ints(node->info, "nodes_missing_value_tracks_true", &missing_count);
    const inlay_attr_info *modes = kit_attr(node->info, "nodes_modes");
    const tree_reals splits = tree_reals_read(state, node, "nodes_values", "nodes_values_as_tensor");
    tree_index index = { trees, numbers, NULL, node_count, 0 };
    const char *mode = NULL; /* the previous string: consecutive nodes often share it */
    tree_lists lists;

    counts[4] = modes != NULL && modes->kind == INLAY_ATTR_STRINGS ? modes->count : 0;
    for (uint32_t i = 0; i < 5; i++)
        if (counts[i] != node_count)
            return tree_broken(diag, "the nodes_* attributes differ in length");
    if (missing_count != 0 && missing_count != node_count)
        return tree_broken(diag,
                           "nodes_missing_value_tracks_true has another length than the other nodes_* attributes");
    if (node_count == 0)
        return tree_broken(diag, "it has no nodes");
    if (splits.count != node_count)
        return tree_broken(diag, "nodes_values has another length than the other nodes_* attributes");
    if (!tree_lists_read(node, state, &lists))
        return tree_broken(diag, "the lists of targets or classes and of their weights differ in length");
    for (uint32_t i = 0; i < node_count; i++) /* the first node of a tree is its root */
        state->root_count += i == 0 || trees[i] != trees[i - 1];
    state->node_count = node_count;
    state->nodes = ml_alloc(&state->pool, node_count, sizeof *state->nodes);
    state->roots = ml_alloc(&state->pool, (uint64_t)state->root_count, sizeof *state->roots);
    tree_sort(&index, &state->reading);
    if (state->pool.failed || state->reading.failed)
        return INLAY_OK;
    state->root_count = 0;
    for (uint32_t i = 0; i < node_count; i++) {
        tree_node *current = &state->nodes[i];
        if (i == 0 || trees[i] != trees[i - 1])
            state->roots[state->root_count++] = i;
        current->split = tree_real(&splits, i);
        current->missing_goes_true = i < missing_count && missing[i] != 0;
        if (i > 0 && modes->strings[i].data == mode)
            current->mode = state->nodes[i - 1].mode;
        else if (!tree_mode_find(modes->strings[i], &current->mode))
            return tree_broken(diag, "nodes_modes holds the unknown mode '%.*s'",
                               (int)(modes->strings[i].bytes < 40 ? modes->strings[i].bytes : 40),
                               modes->strings[i].data);
        mode = modes->strings[i].data;
    }
    for (uint32_t i = 0; i < node_count; i++) {
        tree_node *current = &state->nodes[i];
        int64_t to[2];
        if (current->mode == TREE_LEAF)
            continue;
        to[0] = tree_find(&index, trees[i], yes[i]);
        to[1] = tree_find(&index, trees[i], no[i]);
        if (!tree_branch(current, to[0], to[1], features[i]))
            return tree_broken(diag, "branch %u has an unknown child, %lld or %lld, or the feature %lld", i,
                               (long long)yes[i], (long long)no[i], (long long)features[i]);
    }
    return tree_assign_weights(state, &lists, &index, diag);
}
