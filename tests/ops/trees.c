/* trees.c - trees as flat arrays (ml_tree_flat.c), compared with a walk from node to node: every comparison, missing
 * values, values next to the splits, all input types, one row and many rows. */
#include "operators/ml_tree.h"
#include "cmocka_all.h"
#include "random.h"

enum { TREES = 20, NODES = 1200, FEATURES = 6, ROWS = 37, TARGETS = 3 };

/* Returns one of a few numbers, so that many are equal to a split. */
static double draw(uint64_t *seed)
{
    static const float some[] = {
        0, -0.0f, 1, -1, 0.5f, 2.5f, -3, 1e-30f, -1e-30f, 3e38f, -3e38f, INFINITY, -INFINITY
    };

    return (double)some[random_below(seed, sizeof some / sizeof some[0])];
}

struct forest {
    tree_state state;
    tree_node nodes[NODES];
    tree_weight weights[NODES];
    int64_t roots[TREES];
};

static uint32_t leaf(struct forest *forest, uint32_t tree, uint64_t *seed, bool mixed)
{
    const uint32_t at = (uint32_t)forest->state.node_count++;

    forest->weights[at] = (tree_weight){ (double)(int32_t)random_below(seed, 64) - 32,
                                         mixed ? random_below(seed, TARGETS) : tree % TARGETS };
    forest->nodes[at] = (tree_node){ .mode = TREE_LEAF, .first = at, .end = at + (random_below(seed, 8) != 0) };
    return at;
}

static uint32_t grow(struct forest *forest, uint32_t tree, uint32_t depth, uint64_t *seed, bool mixed)
{
    uint32_t at;

    if (depth == 0 || random_below(seed, 6) == 0)
        return leaf(forest, tree, seed, mixed);
    at = (uint32_t)forest->state.node_count++;
    forest->nodes[at] = (tree_node){ .mode = (uint8_t)random_below(seed, 4),
                                     .feature = random_below(seed, FEATURES),
                                     .split = draw(seed),
                                     .missing_goes_true = random_below(seed, 2) };
    forest->nodes[at].yes = grow(forest, tree, depth - 1, seed, mixed);
    forest->nodes[at].no = grow(forest, tree, depth - 1, seed, mixed);
    return at;
}

static void plant(struct forest *forest, uint64_t seed, bool mixed, uint32_t aggregate)
{
    memset(forest, 0, sizeof *forest);
    forest->state.nodes = forest->nodes;
    forest->state.weights = forest->weights;
    forest->state.roots = forest->roots;
    forest->state.root_count = TREES;
    forest->state.features = FEATURES;
    forest->state.targets = TARGETS;
    forest->state.aggregate = aggregate;
    for (uint32_t t = 0; t < TREES; t++)
        forest->roots[t] = grow(forest, t, t % 6, &seed, mixed);
    assert_in_range(forest->state.node_count, TREES, NODES);
}

static bool takes_yes_branch(const tree_node *node, double v)
{
    if (isnan(v))
        return node->missing_goes_true;
    return node->mode == TREE_LEQ   ? v <= node->split
           : node->mode == TREE_LT  ? v < node->split
           : node->mode == TREE_GTE ? v >= node->split
                                    : v > node->split;
}

static void walk(const struct forest *forest, const double *input, double *scores)
{
    for (uint32_t root = 0; root < TREES; root++) {
        const tree_node *node = &forest->nodes[forest->roots[root]];

        while (node->mode != TREE_LEAF)
            node = &forest->nodes[takes_yes_branch(node, input[node->feature]) ? node->yes : node->no];
        tree_add(&forest->state, node->first, node->end, scores);
    }
}

/* Compares the flat form of the forest with walk() on random rows of that type. */
static void compare(const struct forest *forest, inlay_dtype dtype, int64_t rows, uint64_t seed)
{
    enum { COLUMNS = FEATURES + 1 }; /* one more than the trees use */
    tree_flat *flat = tree_flat_create(&forest->state, dtype);
    double x[ROWS * COLUMNS], scores[ROWS * 2 * TARGETS] = { 0 }, want[2 * TARGETS];
    int64_t stored[ROWS * COLUMNS];
    tree_block block = { stored, dtype, COLUMNS, 0, 0, NULL, NULL };

    assert_non_null(flat);
    for (int64_t i = 0; i < rows * COLUMNS; i++)
        x[i] = random_below(&seed, 7) == 0 ? (double)NAN : draw(&seed) * (random_below(&seed, 3) == 0 ? 1.0000001 : 1);
    convert_from_f64(dtype, stored, 0, rows * COLUMNS, x, 0);
    convert_to_f64(x, dtype, stored, 0, rows * COLUMNS);
    for (int64_t r = 0; r < rows; r += block.rows) {
        block.row = r;
        block.rows = rows - r < tree_flat_rows(flat) ? rows - r : tree_flat_rows(flat);
        block.scores = scores + r * 2 * TARGETS;
        block.room = malloc(tree_flat_room(flat, block.rows));
        assert_non_null(block.room);
        tree_flat_run(flat, &forest->state, &block);
        free(block.room);
    }
    for (int64_t r = 0; r < rows; r++) {
        memset(want, 0, sizeof want);
        walk(forest, x + r * COLUMNS, want);
        for (int k = 0; k < TARGETS; k++)
            assert_true(scores[r * 2 * TARGETS + k] == want[k]);
    }
    tree_flat_destroy(flat);
}

static void test_flat(void **state)
{
    static const inlay_dtype types[] = { INLAY_FLOAT, INLAY_DOUBLE, INLAY_FLOAT16, INLAY_INT64, INLAY_INT32 };
    static struct forest forest;

    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        plant(&forest, seed, seed % 2 == 0, seed % 4);
        for (size_t type = 0; type < sizeof types / sizeof types[0]; type++) {
            compare(&forest, types[type], 1, seed);
            compare(&forest, types[type], 2 + seed, seed);
            compare(&forest, types[type], ROWS, seed);
        }
    }
}

/* Trees without a flat form. */
static void test_refused(void **state)
{
    static struct forest forest;
    tree_flat *flat;

    (void)state;
    plant(&forest, 3, false, TREE_SUM);
    for (int64_t i = 0; i < forest.state.node_count; i++) {
        tree_node *node = &forest.nodes[i];
        const tree_node was = *node;

        if (node->mode == TREE_LEAF)
            continue;
        node->mode = TREE_EQ;
        assert_null(tree_flat_create(&forest.state, INLAY_FLOAT));
        *node = was;
        node->split = NAN;
        assert_null(tree_flat_create(&forest.state, INLAY_FLOAT));
        node->split =
            0.1; /* not a float: float inputs are compared with the next lower float, double inputs cannot be */
        assert_null(tree_flat_create(&forest.state, INLAY_DOUBLE));
        flat = tree_flat_create(&forest.state, INLAY_FLOAT);
        assert_non_null(flat);
        tree_flat_destroy(flat);
        *node = was;
        node->yes = (uint32_t)i; /* a cycle */
        assert_null(tree_flat_create(&forest.state, INLAY_FLOAT));
        return;
    }
    fail();
}

/* With many features, nodes need a larger format. */
static void test_wide(void **state)
{
    static struct forest forest;

    (void)state;
    plant(&forest, 5, false, TREE_SUM);
    forest.state.features = 70000;
    for (int rows = 1; rows <= 13; rows += 12) {
        tree_flat *flat = tree_flat_create(&forest.state, INLAY_FLOAT);
        float *input = calloc((size_t)rows * 70000, sizeof *input);
        double scores[13 * 2 * TARGETS] = { 0 }, want[2 * TARGETS], row[FEATURES];
        uint64_t seed = 11;
        tree_block block = { input, INLAY_FLOAT, 70000, 0, rows, scores, NULL };

        assert_non_null(flat);
        assert_non_null(input);
        block.room = malloc(tree_flat_room(flat, rows));
        assert_non_null(block.room);
        for (int r = 0; r < rows; r++)
            for (int i = 0; i < FEATURES; i++)
                input[r * 70000 + i] = (float)draw(&seed);
        for (int r = 0; r < rows; r += (int)block.rows) {
            block.row = r;
            block.rows = rows - r < tree_flat_rows(flat) ? rows - r : tree_flat_rows(flat);
            block.scores = scores + r * 2 * TARGETS;
            tree_flat_run(flat, &forest.state, &block);
        }
        for (int r = 0; r < rows; r++) {
            memset(want, 0, sizeof want);
            for (int i = 0; i < FEATURES; i++)
                row[i] = (double)input[r * 70000 + i];
            walk(&forest, row, want);
            for (int k = 0; k < TARGETS; k++)
                assert_true(scores[r * 2 * TARGETS + k] == want[k]);
        }
        free(block.room);
        free(input);
        tree_flat_destroy(flat);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flat),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_wide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
