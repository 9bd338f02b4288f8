/* The graph: building, ordering, names, constants, snapshots. */
#include "cmocka_all.h"
#include "graph/graph.h"
#include "graph_text.h"
#include <stdlib.h>

static uint32_t value(struct graph *graph, const char *name)
{
    return graph_add_value(graph, name, strlen(name));
}

static graph_node *node(struct graph *graph, const char *op, const char *name, uint32_t in, uint32_t out)
{
    graph_node *added = graph_add_node(graph, op, "", name, 1, 1);

    assert_non_null(added);
    ((uint32_t *)(uintptr_t)added->info.inputs)[0] = in;
    ((uint32_t *)(uintptr_t)added->info.outputs)[0] = out;
    return added;
}

static void set_list(struct graph *graph, uint32_t **list, uint32_t *count, uint32_t v)
{
    *list = arena_copy(&graph->model->arena, &v, sizeof v);
    *count = 1;
}

enum { CHAIN = 100000 };

/* The worst order for a depth-first sort: every node precedes the producer of its input. */
static void long_chains_backwards(void **state)
{
    graph_model *model = graph_model_create();
    struct graph *graph = model->main;
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t first = value(graph, "v");

    (void)state;
    for (uint32_t i = 0; i < CHAIN; i++)
        (void)graph_add_value(graph, NULL, 0);
    for (uint32_t i = CHAIN; i > 0; i--)
        node(graph, "Relu", "", first + i - 1, first + i);
    set_list(graph, &graph->inputs, &graph->input_count, first);
    set_list(graph, &graph->outputs, &graph->output_count, first + CHAIN);
    assert_int_equal(graph_finish(graph, &diag), INLAY_OK);
    for (uint32_t i = 0; i < CHAIN; i++) {
        assert_int_equal(graph->nodes[i]->info.inputs[0], first + i);
        assert_int_equal(graph->values[first + i + 1].info.producer, i);
    }
    assert_int_equal(graph->values[first].info.flags, INLAY_VALUE_GRAPH_INPUT);
    assert_int_equal(graph->values[first + CHAIN].info.flags, INLAY_VALUE_GRAPH_OUTPUT);

    /* The first node now reads the last value, so that all nodes form a cycle. */
    ((uint32_t *)(uintptr_t)graph->nodes[0]->info.inputs)[0] = first + CHAIN;
    assert_int_equal(graph_finish(graph, &diag), INLAY_INVALID_MODEL);
    assert_non_null(strstr(diag.text, "cycle of 100000"));
    graph_model_destroy(model);
}

static void file_order_is_kept(void **state)
{
    graph_model *model = graph_model_create();
    struct graph *graph = model->main;
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t x = value(graph, "x"), a = value(graph, "a"), b = value(graph, "b"), c = value(graph, "c"),
             d = value(graph, "d");

    (void)state;
    node(graph, "Relu", "needs_c", c, d);
    node(graph, "Relu", "free_a", x, a);
    node(graph, "Relu", "free_b", x, b);
    node(graph, "Relu", "makes_c", b, c);
    set_list(graph, &graph->inputs, &graph->input_count, x);
    assert_int_equal(graph_finish(graph, &diag), INLAY_OK);
    assert_string_equal(graph->nodes[0]->info.name.data, "free_b");
    assert_string_equal(graph->nodes[1]->info.name.data, "makes_c");
    assert_string_equal(graph->nodes[2]->info.name.data, "needs_c");
    assert_string_equal(graph->nodes[3]->info.name.data, "free_a");
    graph_model_destroy(model);
}

static void node_names_become_unique(void **state)
{
    static const char *const given[] = { "", "a", "a", "", "Relu#3", "a" };
    graph_model *model = graph_model_create();
    struct graph *graph = model->main;
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t x = value(graph, "x");

    (void)state;
    for (int i = 0; i < 6; i++)
        node(graph, "Relu", given[i], x, graph_add_value(graph, NULL, 0));
    set_list(graph, &graph->inputs, &graph->input_count, x);
    assert_int_equal(graph_finish(graph, &diag), INLAY_OK);
    for (uint32_t i = 0; i < 6; i++) {
        assert_true(graph->nodes[i]->info.name.bytes > 0);
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal(graph->nodes[i]->info.name.data, graph->nodes[k]->info.name.data);
    }
    assert_string_equal(graph->nodes[1]->info.name.data, "a");
    assert_string_equal(graph->nodes[4]->info.name.data, "Relu#3");
    graph_model_destroy(model);
}

/* Generated names never collide with names of a file that was saved after passes had generated names. */
static void generated_names_are_new(void **state)
{
    graph_model *model = graph_model_create();
    struct graph *graph = model->main;
    uint32_t value_index;

    (void)state;
    (void)value(graph, "inlay:7");
    for (int i = 0; i < 10; i++) {
        value_index = graph_add_value(graph, NULL, 0);
        assert_int_equal(graph_find_value(graph, graph->values[value_index].info.name.data), value_index);
    }
    graph_model_destroy(model);
}

static void producers_must_be_one(void **state)
{
    graph_model *model = graph_model_create();
    struct graph *graph = model->main;
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t x = value(graph, "x"), y = value(graph, "y"), w = value(graph, "w");

    (void)state;
    node(graph, "Relu", "one", x, y);
    node(graph, "Abs", "two", x, y);
    set_list(graph, &graph->inputs, &graph->input_count, x);
    assert_int_equal(graph_finish(graph, &diag), INLAY_INVALID_MODEL);
    assert_string_equal(diag.text,
                        "graph 'main', node 'two' (Abs): output 0 'y' is already produced by node 'one'; rename one "
                        "of the two");
    assert_string_equal(diag.node, "two");
    assert_string_equal(diag.tensor, "y");
    ((uint32_t *)(uintptr_t)graph->nodes[1]->info.outputs)[0] = x;
    assert_int_equal(graph_finish(graph, &diag), INLAY_INVALID_MODEL);
    assert_non_null(strstr(diag.text, "output 0 'x' is also an input of the graph"));
    ((uint32_t *)(uintptr_t)graph->nodes[1]->info.outputs)[0] = INLAY_NONE;
    ((uint32_t *)(uintptr_t)graph->nodes[1]->info.inputs)[0] = w;
    assert_int_equal(graph_finish(graph, &diag), INLAY_INVALID_MODEL);
    assert_non_null(strstr(diag.text, "(Abs): input 0 'w' has no producer"));
    assert_int_equal(graph_set_constant(graph, w, INLAY_FLOAT, 0, NULL, &(float){ 1 }, 4), INLAY_OK);
    assert_int_equal(graph_finish(graph, &diag), INLAY_OK);
    graph_model_destroy(model);
}

static void attributes_are_replaced(void **state)
{
    graph_model *model = graph_model_create();
    struct graph *graph = model->main;
    graph_node *n = node(graph, "Conv", "n", value(graph, "x"), value(graph, "y"));
    static const inlay_attr_info defaults[2] = { { .name = { "group", 5 }, .kind = INLAY_ATTR_INT, .i = 1 },
                                                 { .name = { "auto_pad", 8 }, .kind = INLAY_ATTR_STRING } };

    (void)state;
    n->info.attrs = defaults; /* as graph_bind() fills them in: shared, not attributes of the node */
    n->info.attr_count = 2;
    assert_int_equal(graph_set_attr_ints(graph, n, "pads", (int64_t[]){ 1, 2 }, 2), INLAY_OK);
    assert_int_equal(graph_set_attr_string(graph, n, "auto_pad", "VALID"), INLAY_OK);
    assert_int_equal(graph_set_attr_float(graph, n, "alpha", 0.5), INLAY_OK);
    assert_int_equal(graph_set_attr_int(graph, n, "alpha", 3), INLAY_OK);
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

/* Returns the hash of a graph x -> op -> y with a constant. It must depend on everything except names. */
static uint64_t hash_of(const char *prefix, const char *op, inlay_dtype dtype, float constant, int64_t attr)
{
    graph_model *model = graph_model_create();
    struct graph *graph = model->main;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_graph snapshot;
    struct arena arena = { 0 };
    char name[32];
    uint32_t input, y, w;
    graph_node *n;
    uint64_t hash;

    (void)snprintf(name, sizeof name, "%sx", prefix);
    input = value(graph, name);
    (void)snprintf(name, sizeof name, "%sy", prefix);
    y = value(graph, name);
    w = value(graph, "w");
    graph->values[input].info.dtype = dtype;
    n = node(graph, op, prefix, input, y);
    assert_int_equal(graph_set_attr_int(graph, n, "axis", attr), INLAY_OK);
    assert_int_equal(graph_set_constant(graph, w, INLAY_FLOAT, 0, NULL, &constant, 4), INLAY_OK);
    set_list(graph, &graph->inputs, &graph->input_count, input);
    set_list(graph, &graph->outputs, &graph->output_count, y);
    assert_int_equal(graph_finish(graph, &diag), INLAY_OK);
    assert_int_equal(graph_snapshot(graph, &arena, &snapshot, &diag), INLAY_OK);
    assert_int_equal(snapshot.node_count, 1);
    assert_string_equal(inlay_graph_node(&snapshot, 0)->op_type.data, op);
    assert_memory_equal(inlay_graph_value(&snapshot, w)->data, &constant, 4);
    assert_int_not_equal(inlay_graph_value(&snapshot, w)->content_hash, 0);
    assert_int_equal(inlay_graph_value(&snapshot, y)->producer, 0);
    hash = snapshot.content_hash;
    arena_deinit(&arena);
    graph_model_destroy(model);
    return hash;
}

static void hashes_distinguish_graphs(void **state)
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

/* Returns the hash of a graph whose input has two symbolic dimensions. a_symbol, b_symbol: 0 selects symbol n, 1 symbol
 * m. */
static uint64_t hash_of_dims(uint32_t a_symbol, uint32_t b_symbol)
{
    graph_model *model = graph_model_create();
    struct graph *graph = model->main;
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t input = value(graph, "x"), y = value(graph, "y"),
             names[2] = { graph_symbol(model, "n"), graph_symbol(model, "m") };
    const inlay_dim dims[] = { { .value = -1, .kind = INLAY_DIM_SYMBOLIC, .symbol = names[a_symbol] },
                               { .value = -1, .kind = INLAY_DIM_SYMBOLIC, .symbol = names[b_symbol] } };
    inlay_graph snapshot;
    struct arena arena = { 0 };
    uint64_t hash;

    graph->values[input].info.dtype = INLAY_FLOAT;
    graph->values[input].info.rank = 2;
    graph->values[input].info.dims = dims;
    (void)node(graph, "Relu", "n", input, y);
    set_list(graph, &graph->inputs, &graph->input_count, input);
    set_list(graph, &graph->outputs, &graph->output_count, y);
    assert_int_equal(graph_finish(graph, &diag), INLAY_OK);
    assert_int_equal(graph_snapshot(graph, &arena, &snapshot, &diag), INLAY_OK);
    hash = snapshot.content_hash;
    arena_deinit(&arena);
    graph_model_destroy(model);
    return hash;
}

/* A region compiled for [n, n] must not be used for [n, m]. */
static void hashes_distinguish_symbols(void **state)
{
    (void)state;
    assert_true(hash_of_dims(0, 1) == hash_of_dims(0, 1));
    assert_true(hash_of_dims(0, 1) != hash_of_dims(0, 0));
    assert_true(hash_of_dims(0, 1) != hash_of_dims(1, 0));
}

static void dumps_stay_on_their_lines(void **state)
{
    graph_model *model = graph_model_create();
    struct graph *graph = model->main;
    uint32_t x = value(graph, "x"), y = value(graph, "y");
    graph_node *n = node(graph, "Relu", "n", x, y);
    inlay_diag diag = INLAY_DIAG_INIT;
    char *text;

    (void)state;
    set_list(graph, &graph->inputs, &graph->input_count, x);
    assert_int_equal(graph_set_attr_string(graph, n, "mode", "two\nlines'"), INLAY_OK);
    assert_int_equal(graph_finish(graph, &diag), INLAY_OK);
    text = graph_to_text(graph);
    assert_string_equal(text, "graph 'main'\n"
                              "  input x: undefined[...]\n"
                              "  y = Relu(x) mode='two\\x0alines\\x27'  # n: undefined[...]\n");
    free(text);
    graph_model_destroy(model);
}

/* The module of a node: as its exporter stored it, or else what precedes the last '/' of its name. */
static void scopes_of_nodes(void **state)
{
    static const struct {
        const char *source, *name, *scope; /* NULL: none */
    } rows[] = {
        { "model.py:3, net.head", "/a/b/Add", "net.head" },
        { "net.head", "Add", "net.head" },
        { "model.py:3", "/a/b/Add", "/a/b" },
        { NULL, "/a/b/Add", "/a/b" },
        { NULL, "a/Add", "/a" },
        { NULL, "/Add", NULL },
        { NULL, "Add", NULL },
        { NULL, "", NULL },
        { NULL, "//", NULL },
        { NULL, "/layers.0/Add", "/layers.0" },
        { "net.layers.0", "/a/Add", "net.layers.0" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const graph_node n = { .source = rows[i].source, .info.name.data = rows[i].name };
        char text[GRAPH_SCOPE];

        assert_int_equal(graph_node_scope(&n, text) == NULL, rows[i].scope == NULL);
        if (rows[i].scope != NULL)
            assert_string_equal(graph_node_scope(&n, text), rows[i].scope);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_chains_backwards),
        cmocka_unit_test(file_order_is_kept),
        cmocka_unit_test(node_names_become_unique),
        cmocka_unit_test(generated_names_are_new),
        cmocka_unit_test(producers_must_be_one),
        cmocka_unit_test(attributes_are_replaced),
        cmocka_unit_test(symbols_are_interned),
        cmocka_unit_test(hashes_distinguish_graphs),
        cmocka_unit_test(hashes_distinguish_symbols),
        cmocka_unit_test(dumps_stay_on_their_lines),
        cmocka_unit_test(scopes_of_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
