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
    const tree_name *x = a, *y = b;

    if (x->tree != y->tree)
        return x->tree < y->tree ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* All names, in their order. guess: where a tree's numbers begin, which most files count from 0 without gaps. */
typedef struct tree_index {
    const int64_t *trees, *numbers; /* as the lists have them: their order, where names is NULL */
    tree_name *names;
    int64_t count, guess;
} tree_index;

static tree_name tree_named(const tree_index *x, int64_t k)
{
    return x->names != NULL ? x->names[k] : (tree_name){ x->trees[k], x->numbers[k], k };
}

/* The first name that is not below (tree, number). */
static int64_t tree_lower(const tree_index *x, int64_t tree, int64_t number)
{
    const tree_name key = { tree, number, 0 };
    int64_t low = 0, high = x->count;

    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const tree_name name = tree_named(x, middle);
        if (tree_name_compare(&name, &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool tree_is(const tree_index *x, int64_t k, int64_t tree, int64_t number)
{
    const tree_name name = tree_named(x, k);
    return name.tree == tree && name.number == number;
}

static int64_t tree_find(tree_index *x, int64_t tree, int64_t number)
{
    int64_t k;

    if (x->names == NULL && number >= 0 && number < x->count - x->guess) {
        k = x->guess + number;
        if (x->trees[x->guess] == tree && x->trees[k] == tree && x->numbers[k] == number)
            return k;
    }
    if (x->guess >= x->count || tree_named(x, x->guess).tree != tree)
        x->guess = tree_lower(x, tree, INT64_MIN);
    k = x->guess + number;
    if (number < 0 || number >= x->count - x->guess || !tree_is(x, k, tree, number))
        k = tree_lower(x, tree, number);
    return k < x->count && tree_is(x, k, tree, number) ? tree_named(x, k).at : -1;
}

/* Sorts the names, unless the lists have them in order. */
static void tree_sort(tree_index *x, ml_pool *pool)
{
    int64_t i = 1;

    while (i < x->count &&
           (x->trees[i - 1] < x->trees[i] || (x->trees[i - 1] == x->trees[i] && x->numbers[i - 1] <= x->numbers[i])))
        i++;
    if (i >= x->count)
        return;
    x->names = ml_alloc(pool, (uint64_t)x->count, sizeof *x->names);
    for (i = 0; x->names != NULL && i < x->count; i++)
        x->names[i] = (tree_name){ x->trees[i], x->numbers[i], i };
    if (x->names != NULL)
        qsort(x->names, (size_t)x->count, sizeof *x->names, tree_name_compare);
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

static tree_reals tree_reals_read(tree_state *s, const kit_node *node, const char *name, const char *name_tensor)
{
    const inlay_attr_info *a = kit_attr(node->info, name);
    tree_reals r = { 0 };

    if (kit_attr(node->info, name_tensor) == NULL && a != NULL && a->kind == INLAY_ATTR_FLOATS)
        r = (tree_reals){ .list = a->floats, .count = a->count };
    else
        r.tensor = ml_doubles(&s->reading, node, name, name_tensor, &r.count);
    return r;
}

static double tree_real(const tree_reals *r, int64_t i)
{
    return r->list != NULL ? (double)r->list[i] : r->tensor[i];
}

/* The lists of the weights: class_* or target_*. */
typedef struct tree_lists {
    const int64_t *trees, *numbers, *targets;
    tree_reals weights;
    uint32_t count;
} tree_lists;

static bool tree_lists_read(const kit_node *node, tree_state *s, tree_lists *l)
{
    bool c = s->classifies;
    uint32_t a, b;

    l->trees = kit_attr_ints(node->info, c ? "class_treeids" : "target_treeids", &a);
    l->numbers = kit_attr_ints(node->info, c ? "class_nodeids" : "target_nodeids", &b);
    l->targets = kit_attr_ints(node->info, c ? "class_ids" : "target_ids", &l->count);
    l->weights = tree_reals_read(s, node, c ? "class_weights" : "target_weights",
                                 c ? "class_weights_as_tensor" : "target_weights_as_tensor");
    return a == l->count && b == l->count && l->weights.count == l->count;
}

/* Hangs the weights on their leaves: counted first, then filled in. */
static inlay_status tree_hang(tree_state *s, const tree_lists *l, tree_index *names, inlay_diag *diag)
{
    uint32_t total = 0;

    s->weights = ml_alloc(&s->pool, l->count, sizeof *s->weights);
    if (s->weights == NULL)
        return INLAY_OK; /* the pool says it */
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < l->count; i++) {
            int64_t at = tree_find(names, l->trees[i], l->numbers[i]);
            if (at < 0 || s->nodes[at].mode != TREE_LEAF || l->targets[i] < 0 || l->targets[i] >= s->targets)
                return tree_broken(diag, "a weight belongs to no leaf, or to a target or class that is not there");
            if (pass == 1)
                s->weights[s->nodes[at].end] = (tree_weight){ tree_real(&l->weights, i), (uint32_t)l->targets[i] };
            s->nodes[at].end++;
        }
        for (int64_t i = 0; i < s->node_count && pass == 0; i++) {
            const uint32_t n = s->nodes[i].end;
            s->nodes[i].first = s->nodes[i].end = total;
            total += n;
        }
    }
    return INLAY_OK;
}

inlay_status tree_read_named(const kit_node *node, tree_state *s, inlay_diag *diag)
{
    uint32_t n, counts[5], missing_count;
    const int64_t *trees = kit_attr_ints(node->info, "nodes_treeids", &n);
    const int64_t *numbers = kit_attr_ints(node->info, "nodes_nodeids", &counts[0]);
    const int64_t *yes = kit_attr_ints(node->info, "nodes_truenodeids", &counts[1]);
    const int64_t *no = kit_attr_ints(node->info, "nodes_falsenodeids", &counts[2]);
    const int64_t *features = kit_attr_ints(node->info, "nodes_featureids", &counts[3]);
    const int64_t *missing = kit_attr_ints(node->info, "nodes_missing_value_tracks_true", &missing_count);
    const inlay_attr_info *modes = kit_attr(node->info, "nodes_modes");
    const tree_reals splits = tree_reals_read(s, node, "nodes_values", "nodes_values_as_tensor");
    tree_index index = { trees, numbers, NULL, n, 0 };
    const char *mode = NULL; /* the text that was read last: neighbours share it */
    tree_lists lists;

    counts[4] = modes != NULL && modes->kind == INLAY_ATTR_STRINGS ? modes->count : 0;
    for (uint32_t i = 0; i < 5; i++)
        if (counts[i] != n)
            return tree_broken(diag, "the nodes_* attributes differ in length");
    if (n == 0 || splits.count != n || !tree_lists_read(node, s, &lists))
        return tree_broken(diag, "there are no nodes, or lists of nodes or weights differ in length");
    for (uint32_t i = 0; i < n; i++) /* the first node of a tree is its root */
        s->root_count += i == 0 || trees[i] != trees[i - 1];
    s->node_count = n;
    s->nodes = ml_alloc(&s->pool, n, sizeof *s->nodes);
    s->roots = ml_alloc(&s->pool, (uint64_t)s->root_count, sizeof *s->roots);
    tree_sort(&index, &s->reading);
    if (s->pool.failed || s->reading.failed)
        return INLAY_OK;
    s->root_count = 0;
    for (uint32_t i = 0; i < n; i++) {
        tree_node *t = &s->nodes[i];
        if (i == 0 || trees[i] != trees[i - 1])
            s->roots[s->root_count++] = i;
        t->split = tree_real(&splits, i);
        t->missing_goes_true = i < missing_count && missing[i] != 0;
        if (i > 0 && modes->strings[i].data == mode)
            t->mode = s->nodes[i - 1].mode;
        else if (!tree_mode_find(modes->strings[i], &t->mode))
            return tree_broken(diag, "nodes_modes holds an unknown mode");
        mode = modes->strings[i].data;
    }
    for (uint32_t i = 0; i < n; i++) {
        tree_node *t = &s->nodes[i];
        int64_t to[2];
        if (t->mode == TREE_LEAF)
            continue;
        to[0] = tree_find(&index, trees[i], yes[i]);
        to[1] = tree_find(&index, trees[i], no[i]);
        if (!tree_branch(t, to[0], to[1], features[i]))
            return tree_broken(diag, "a branch leads to a node that is not there, or its feature is not possible");
    }
    return tree_hang(s, &lists, &index, diag);
}
