/* The graph by itself: building, ordering, names, constants, snapshots. */
#include "cmocka_all.h"
#include "graph/graph.h"
#include "graph_text.h"
#include <stdlib.h>

static uint32_t value(struct graph *g, const char *name)
{
    return graph_add_value(g, name, strlen(name));
}

static graph_node *node(struct graph *g, const char *op, const char *name, uint32_t in, uint32_t out)
{
    graph_node *n = graph_add_node(g, op, "", name, 1, 1);

    assert_non_null(n);
    ((uint32_t *)(uintptr_t)n->info.inputs)[0] = in;
    ((uint32_t *)(uintptr_t)n->info.outputs)[0] = out;
    return n;
}

static void set_list(struct graph *g, uint32_t **list, uint32_t *count, uint32_t v)
{
    *list = arena_copy(&g->model->arena, &v, sizeof v);
    *count = 1;
}

enum { CHAIN = 100000 };

/* The worst order for a depth-first sort: every node stands before what it needs. */
static void long_chains_backwards(void **state)
{
    graph_model *model = graph_model_create();
    struct graph *g = model->main;
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t first = value(g, "v");

    (void)state;
    for (uint32_t i = 0; i < CHAIN; i++)
        (void)graph_add_value(g, NULL, 0);
    for (uint32_t i = CHAIN; i > 0; i--)
        node(g, "Relu", "", first + i - 1, first + i);
    set_list(g, &g->inputs, &g->input_count, first);
    set_list(g, &g->outputs, &g->output_count, first + CHAIN);
    assert_int_equal(graph_finish(g, &diag), INLAY_OK);
    for (uint32_t i = 0; i < CHAIN; i++) {
        assert_int_equal(g->nodes[i]->info.inputs[0], first + i);
        assert_int_equal(g->values[first + i + 1].info.producer, i);
    }
    assert_int_equal(g->values[first].info.flags, INLAY_VALUE_GRAPH_INPUT);
    assert_int_equal(g->values[first + CHAIN].info.flags, INLAY_VALUE_GRAPH_OUTPUT);

    /* Closing the chain makes a cycle of all of them. */
    ((uint32_t *)(uintptr_t)g->nodes[0]->info.inputs)[0] = first + CHAIN;
    assert_int_equal(graph_finish(g, &diag), INLAY_INVALID_MODEL);
    assert_non_null(strstr(diag.text, "cycle of 100000"));
    graph_model_destroy(model);
}

static void file_order_is_kept(void **state)
{
    graph_model *model = graph_model_create();
    struct graph *g = model->main;
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t x = value(g, "x"), a = value(g, "a"), b = value(g, "b"), c = value(g, "c"), d = value(g, "d");

    (void)state;
    node(g, "Relu", "needs_c", c, d);
    node(g, "Relu", "free_a", x, a);
    node(g, "Relu", "free_b", x, b);
    node(g, "Relu", "makes_c", b, c);
    set_list(g, &g->inputs, &g->input_count, x);
    assert_int_equal(graph_finish(g, &diag), INLAY_OK);
    assert_string_equal(g->nodes[0]->info.name.data, "free_b");
    assert_string_equal(g->nodes[1]->info.name.data, "makes_c");
    assert_string_equal(g->nodes[2]->info.name.data, "needs_c");
    assert_string_equal(g->nodes[3]->info.name.data, "free_a");
    graph_model_destroy(model);
}

static void node_names_become_unique(void **state)
{
    static const char *const given[] = { "", "a", "a", "", "Relu#3", "a" };
    graph_model *model = graph_model_create();
    struct graph *g = model->main;
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t x = value(g, "x");

    (void)state;
    for (int i = 0; i < 6; i++)
        node(g, "Relu", given[i], x, graph_add_value(g, NULL, 0));
    set_list(g, &g->inputs, &g->input_count, x);
    assert_int_equal(graph_finish(g, &diag), INLAY_OK);
    for (uint32_t i = 0; i < 6; i++) {
        assert_true(g->nodes[i]->info.name.bytes > 0);
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal(g->nodes[i]->info.name.data, g->nodes[k]->info.name.data);
    }
    assert_string_equal(g->nodes[1]->info.name.data, "a");
    assert_string_equal(g->nodes[4]->info.name.data, "Relu#3");
    graph_model_destroy(model);
}

/* Names that a pass makes up never meet those of a file that was saved after such a pass. */
static void made_up_names_are_new(void **state)
{
    graph_model *model = graph_model_create();
    struct graph *g = model->main;
    uint32_t v;

    (void)state;
    (void)value(g, "inlay:7");
    for (int i = 0; i < 10; i++) {
        v = graph_add_value(g, NULL, 0);
        assert_int_equal(graph_find_value(g, g->values[v].info.name.data), v);
    }
    graph_model_destroy(model);
}

static void producers_must_be_one(void **state)
{
    graph_model *model = graph_model_create();
    struct graph *g = model->main;
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t x = value(g, "x"), y = value(g, "y"), w = value(g, "w");

    (void)state;
    node(g, "Relu", "one", x, y);
    node(g, "Abs", "two", x, y);
    set_list(g, &g->inputs, &g->input_count, x);
    assert_int_equal(graph_finish(g, &diag), INLAY_INVALID_MODEL);
    assert_string_equal(diag.text,
                        "graph 'main', node 'two' (Abs): output 0 'y' is already made by node 'one'; rename one "
                        "of the two");
    assert_string_equal(diag.node, "two");
    assert_string_equal(diag.tensor, "y");
    ((uint32_t *)(uintptr_t)g->nodes[1]->info.outputs)[0] = x;
    assert_int_equal(graph_finish(g, &diag), INLAY_INVALID_MODEL);
    assert_non_null(strstr(diag.text, "output 0 'x' is also an input of the graph"));
    ((uint32_t *)(uintptr_t)g->nodes[1]->info.outputs)[0] = INLAY_NONE;
    ((uint32_t *)(uintptr_t)g->nodes[1]->info.inputs)[0] = w;
    assert_int_equal(graph_finish(g, &diag), INLAY_INVALID_MODEL);
    assert_non_null(strstr(diag.text, "(Abs): nothing makes input 0 'w'"));
    assert_int_equal(graph_set_constant(g, w, INLAY_FLOAT, 0, NULL, &(float){ 1 }, 4), INLAY_OK);
    assert_int_equal(graph_finish(g, &diag), INLAY_OK);
    graph_model_destroy(model);
}

static void attributes_are_replaced(void **state)
{
    graph_model *model = graph_model_create();
    struct graph *g = model->main;
    graph_node *n = node(g, "Conv", "n", value(g, "x"), value(g, "y"));
    static const inlay_attr_info defaults[2] = { { .name = { "group", 5 }, .kind = INLAY_ATTR_INT, .i = 1 },
                                                 { .name = { "auto_pad", 8 }, .kind = INLAY_ATTR_STRING } };

    (void)state;
    n->info.attrs = defaults; /* as bind fills them in: shared, and not the node's own */
    n->info.attr_count = 2;
    assert_int_equal(graph_set_attr_ints(g, n, "pads", (int64_t[]){ 1, 2 }, 2), INLAY_OK);
    assert_int_equal(graph_set_attr_string(g, n, "auto_pad", "VALID"), INLAY_OK);
    assert_int_equal(graph_set_attr_float(g, n, "alpha", 0.5), INLAY_OK);
    assert_int_equal(graph_set_attr_int(g, n, "alpha", 3), INLAY_OK);
    assert_int_equal(n->info.attr_count, 4);
    assert_int_equal(n->own_attr_count, 3);
    assert_string_equal(n->info.attrs[3].name.data, "group");
    assert_int_equal(graph_attr(n, "pads")->ints[1], 2);
    assert_string_equal(graph_attr(n, "auto_pad")->s.data, "VALID");
    assert_int_equal(graph_attr(n, "alpha")->kind, INLAY_ATTR_INT);
    assert_null(graph_attr(n, "pad"));
    assert_int_equal(defaults[1].s.bytes, 0);
    graph_model_destroy(model);
}

static void symbols_are_interned(void **state)
{
    graph_model *model = graph_model_create();
    char name[16];

    (void)state;
    for (uint32_t i = 1; i < 1000; i++) {
        (void)snprintf(name, sizeof name, "s%u", i);
        assert_int_equal(graph_symbol(model, name), i);
    }
    assert_int_equal(graph_symbol(model, "s17"), 17);
    assert_int_equal(model->symbol_count, 1000);
    assert_string_equal(model->symbols[999].name.data, "s999");
    graph_model_destroy(model);
}

/* x -> op -> y with a constant; hashes must see everything but names. */
static uint64_t hash_of(const char *prefix, const char *op, inlay_dtype dtype, float constant, int64_t attr)
{
    graph_model *model = graph_model_create();
    struct graph *g = model->main;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_graph snapshot;
    struct arena a = { 0 };
    char name[32];
    uint32_t x, y, w;
    graph_node *n;
    uint64_t hash;

    (void)snprintf(name, sizeof name, "%sx", prefix);
    x = value(g, name);
    (void)snprintf(name, sizeof name, "%sy", prefix);
    y = value(g, name);
    w = value(g, "w");
    g->values[x].info.dtype = dtype;
    n = node(g, op, prefix, x, y);
    assert_int_equal(graph_set_attr_int(g, n, "axis", attr), INLAY_OK);
    assert_int_equal(graph_set_constant(g, w, INLAY_FLOAT, 0, NULL, &constant, 4), INLAY_OK);
    set_list(g, &g->inputs, &g->input_count, x);
    set_list(g, &g->outputs, &g->output_count, y);
    assert_int_equal(graph_finish(g, &diag), INLAY_OK);
    assert_int_equal(graph_snapshot(g, &a, &snapshot, &diag), INLAY_OK);
    assert_int_equal(snapshot.node_count, 1);
    assert_string_equal(inlay_graph_node(&snapshot, 0)->op_type.data, op);
    assert_memory_equal(inlay_graph_value(&snapshot, w)->data, &constant, 4);
    assert_int_not_equal(inlay_graph_value(&snapshot, w)->content_hash, 0);
    assert_int_equal(inlay_graph_value(&snapshot, y)->producer, 0);
    hash = snapshot.content_hash;
    arena_deinit(&a);
    graph_model_destroy(model);
    return hash;
}

static void hashes_tell_graphs_apart(void **state)
{
    uint64_t base = hash_of("a", "Relu", INLAY_FLOAT, 1, 0);

    (void)state;
    assert_true(base == hash_of("b", "Relu", INLAY_FLOAT, 1, 0));
    assert_true(base != hash_of("a", "Relu", INLAY_DOUBLE, 1, 0));
    assert_true(base != hash_of("a", "Relu", INLAY_FLOAT16, 1, 0));
    assert_true(base != hash_of("a", "Abs", INLAY_FLOAT, 1, 0));
    assert_true(base != hash_of("a", "Relu", INLAY_FLOAT, 2, 0));
    assert_true(base != hash_of("a", "Relu", INLAY_FLOAT, 1, 1));
}

/* [a, b] of a graph with two symbols. */
static uint64_t hash_of_dims(uint32_t a_symbol, uint32_t b_symbol)
{
    graph_model *model = graph_model_create();
    struct graph *g = model->main;
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t x = value(g, "x"), y = value(g, "y"), names[2] = { graph_symbol(model, "n"), graph_symbol(model, "m") };
    const inlay_dim dims[] = { { .value = -1, .kind = INLAY_DIM_SYMBOLIC, .symbol = names[a_symbol] },
                               { .value = -1, .kind = INLAY_DIM_SYMBOLIC, .symbol = names[b_symbol] } };
    inlay_graph snapshot;
    struct arena a = { 0 };
    uint64_t hash;

    g->values[x].info.dtype = INLAY_FLOAT;
    g->values[x].info.rank = 2;
    g->values[x].info.dims = dims;
    (void)node(g, "Relu", "n", x, y);
    set_list(g, &g->inputs, &g->input_count, x);
    set_list(g, &g->outputs, &g->output_count, y);
    assert_int_equal(graph_finish(g, &diag), INLAY_OK);
    assert_int_equal(graph_snapshot(g, &a, &snapshot, &diag), INLAY_OK);
    hash = snapshot.content_hash;
    arena_deinit(&a);
    graph_model_destroy(model);
    return hash;
}

/* A region that was compiled for a square is not one for [n, m]. */
static void hashes_tell_symbols_apart(void **state)
{
    (void)state;
    assert_true(hash_of_dims(0, 1) == hash_of_dims(0, 1));
    assert_true(hash_of_dims(0, 1) != hash_of_dims(0, 0));
    assert_true(hash_of_dims(0, 1) != hash_of_dims(1, 0));
}

static void dumps_stay_on_their_lines(void **state)
{
    graph_model *model = graph_model_create();
    struct graph *g = model->main;
    uint32_t x = value(g, "x"), y = value(g, "y");
    graph_node *n = node(g, "Relu", "n", x, y);
    inlay_diag diag = INLAY_DIAG_INIT;
    char *text;

    (void)state;
    set_list(g, &g->inputs, &g->input_count, x);
    assert_int_equal(graph_set_attr_string(g, n, "mode", "two\nlines'"), INLAY_OK);
    assert_int_equal(graph_finish(g, &diag), INLAY_OK);
    text = graph_to_text(g);
    assert_string_equal(text, "graph 'main'\n"
                              "  input x: undefined[...]\n"
                              "  y = Relu(x) mode='two\\x0alines\\x27'  # n: undefined[...]\n");
    free(text);
    graph_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_chains_backwards),     cmocka_unit_test(file_order_is_kept),
        cmocka_unit_test(node_names_become_unique),  cmocka_unit_test(made_up_names_are_new),
        cmocka_unit_test(producers_must_be_one),     cmocka_unit_test(attributes_are_replaced),
        cmocka_unit_test(symbols_are_interned),      cmocka_unit_test(hashes_tell_graphs_apart),
        cmocka_unit_test(hashes_tell_symbols_apart), cmocka_unit_test(dumps_stay_on_their_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
