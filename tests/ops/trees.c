/* Trees as flat arrays (ml_tree_flat.c) against a walk node by node: every comparison, missing numbers, numbers beside
 * the splits, of all types of inputs, for one row and for many. */
#include "ml_tree.h"
#include "cmocka_all.h"

enum { TREES = 20, NODES = 1200, FEATURES = 6, ROWS = 37, TARGETS = 3 };

static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* A number among few, so that many equal a split. */
static double draw(uint32_t *seed)
{
    static const float some[] = {
        0, -0.0f, 1, -1, 0.5f, 2.5f, -3, 1e-30f, -1e-30f, 3e38f, -3e38f, INFINITY, -INFINITY
    };

    return (double)some[next(seed) % (sizeof some / sizeof some[0])];
}

struct forest {
    tree_state s;
    tree_node nodes[NODES];
    tree_weight weights[NODES];
    int64_t roots[TREES];
};

static uint32_t leaf(struct forest *f, uint32_t tree, uint32_t *seed, bool mixed)
{
    const uint32_t at = (uint32_t)f->s.node_count++;

    f->weights[at] =
        (tree_weight){ (double)(int32_t)(next(seed) % 64) - 32, mixed ? next(seed) % TARGETS : tree % TARGETS };
    f->nodes[at] = (tree_node){ .mode = TREE_LEAF, .first = at, .end = at + (next(seed) % 8 != 0) };
    return at;
}

static uint32_t grow(struct forest *f, uint32_t tree, uint32_t depth, uint32_t *seed, bool mixed)
{
    uint32_t at;

    if (depth == 0 || next(seed) % 6 == 0)
        return leaf(f, tree, seed, mixed);
    at = (uint32_t)f->s.node_count++;
    f->nodes[at] = (tree_node){ .mode = (uint8_t)(next(seed) % 4),
                                .feature = next(seed) % FEATURES,
                                .split = draw(seed),
                                .missing_goes_true = next(seed) % 2 };
    f->nodes[at].yes = grow(f, tree, depth - 1, seed, mixed);
    f->nodes[at].no = grow(f, tree, depth - 1, seed, mixed);
    return at;
}

static void plant(struct forest *f, uint32_t seed, bool mixed, uint32_t aggregate)
{
    memset(f, 0, sizeof *f);
    f->s.nodes = f->nodes;
    f->s.weights = f->weights;
    f->s.roots = f->roots;
    f->s.root_count = TREES;
    f->s.features = FEATURES;
    f->s.targets = TARGETS;
    f->s.aggregate = aggregate;
    for (uint32_t t = 0; t < TREES; t++)
        f->roots[t] = grow(f, t, t % 6, &seed, mixed);
    assert_in_range(f->s.node_count, TREES, NODES);
}

static bool goes(const tree_node *t, double v)
{
    if (isnan(v))
        return t->missing_goes_true;
    return t->mode == TREE_LEQ   ? v <= t->split
           : t->mode == TREE_LT  ? v < t->split
           : t->mode == TREE_GTE ? v >= t->split
                                 : v > t->split;
}

static void walk(const struct forest *f, const double *x, double *scores)
{
    for (uint32_t r = 0; r < TREES; r++) {
        const tree_node *t = &f->nodes[f->roots[r]];

        while (t->mode != TREE_LEAF)
            t = &f->nodes[goes(t, x[t->feature]) ? t->yes : t->no];
        tree_add(&f->s, t->first, t->end, scores);
    }
}

/* The flat form of f, for `rows` of random inputs of that type. */
static void compare(const struct forest *f, inlay_dtype dtype, int64_t rows, uint32_t seed)
{
    enum { COLUMNS = FEATURES + 1 }; /* one more than the trees look at */
    tree_flat *flat = tree_flat_create(&f->s, dtype);
    double x[ROWS * COLUMNS], scores[ROWS * 2 * TARGETS] = { 0 }, want[2 * TARGETS];
    int64_t stored[ROWS * COLUMNS];
    tree_block block = { stored, dtype, COLUMNS, 0, 0, NULL, NULL };

    assert_non_null(flat);
    for (int64_t i = 0; i < rows * COLUMNS; i++)
        x[i] = next(&seed) % 7 == 0 ? (double)NAN : draw(&seed) * (next(&seed) % 3 == 0 ? 1.0000001 : 1);
    convert_from_f64(dtype, stored, 0, rows * COLUMNS, x, 0);
    convert_to_f64(x, dtype, stored, 0, rows * COLUMNS);
    for (int64_t r = 0; r < rows; r += block.rows) {
        block.row = r;
        block.rows = rows - r < tree_flat_rows(flat) ? rows - r : tree_flat_rows(flat);
        block.scores = scores + r * 2 * TARGETS;
        block.room = malloc(tree_flat_room(flat, block.rows));
        assert_non_null(block.room);
        tree_flat_run(flat, &f->s, &block);
        free(block.room);
    }
    for (int64_t r = 0; r < rows; r++) {
        memset(want, 0, sizeof want);
        walk(f, x + r * COLUMNS, want);
        for (int k = 0; k < TARGETS; k++)
            assert_true(scores[r * 2 * TARGETS + k] == want[k]);
    }
    tree_flat_destroy(flat);
}

static void test_flat(void **state)
{
    static const inlay_dtype types[] = { INLAY_FLOAT, INLAY_DOUBLE, INLAY_FLOAT16, INLAY_INT64, INLAY_INT32 };
    static struct forest f;

    (void)state;
    for (uint32_t seed = 1; seed <= 12; seed++) {
        plant(&f, seed, seed % 2 == 0, seed % 4);
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
            compare(&f, types[t], 1, seed);
            compare(&f, types[t], 2 + seed, seed);
            compare(&f, types[t], ROWS, seed);
        }
    }
}

/* What has no flat form. */
static void test_refused(void **state)
{
    static struct forest f;
    tree_flat *flat;

    (void)state;
    plant(&f, 3, false, TREE_SUM);
    for (int64_t i = 0; i < f.s.node_count; i++) {
        tree_node *t = &f.nodes[i];
        const tree_node was = *t;

        if (t->mode == TREE_LEAF)
            continue;
        t->mode = TREE_EQ;
        assert_null(tree_flat_create(&f.s, INLAY_FLOAT));
        *t = was;
        t->split = NAN;
        assert_null(tree_flat_create(&f.s, INLAY_FLOAT));
        t->split = 0.1; /* no float: what is float compares with the one below, what is double does not */
        assert_null(tree_flat_create(&f.s, INLAY_DOUBLE));
        flat = tree_flat_create(&f.s, INLAY_FLOAT);
        assert_non_null(flat);
        tree_flat_destroy(flat);
        *t = was;
        t->yes = (uint32_t)i; /* a circle */
        assert_null(tree_flat_create(&f.s, INLAY_FLOAT));
        return;
    }
    fail();
}

/* So many features that nodes need more room. */
static void test_wide(void **state)
{
    static struct forest f;

    (void)state;
    plant(&f, 5, false, TREE_SUM);
    f.s.features = 70000;
    for (int rows = 1; rows <= 13; rows += 12) {
        tree_flat *flat = tree_flat_create(&f.s, INLAY_FLOAT);
        float *x = calloc((size_t)rows * 70000, sizeof *x);
        double scores[13 * 2 * TARGETS] = { 0 }, want[2 * TARGETS], row[FEATURES];
        uint32_t seed = 11;
        tree_block block = { x, INLAY_FLOAT, 70000, 0, rows, scores, NULL };

        assert_non_null(flat);
        assert_non_null(x);
        block.room = malloc(tree_flat_room(flat, rows));
        assert_non_null(block.room);
        for (int r = 0; r < rows; r++)
            for (int i = 0; i < FEATURES; i++)
                x[r * 70000 + i] = (float)draw(&seed);
        for (int r = 0; r < rows; r += (int)block.rows) {
            block.row = r;
            block.rows = rows - r < tree_flat_rows(flat) ? rows - r : tree_flat_rows(flat);
            block.scores = scores + r * 2 * TARGETS;
            tree_flat_run(flat, &f.s, &block);
        }
        for (int r = 0; r < rows; r++) {
            memset(want, 0, sizeof want);
            for (int i = 0; i < FEATURES; i++)
                row[i] = (double)x[r * 70000 + i];
            walk(&f, row, want);
            for (int k = 0; k < TARGETS; k++)
                assert_true(scores[r * 2 * TARGETS + k] == want[k]);
        }
        free(block.room);
        free(x);
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
