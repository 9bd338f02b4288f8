/* Interpretation of files: inputs and defaults, scopes, declared types, order, and fields that are only preserved. */
#include "cmocka_all.h"
#include "graph_text.h"
#include "model/model.h"
#include "model_script.h"
#include "onnx_bytes.h"
#include <stdlib.h>
#include <unistd.h>

static graph_model *load(const struct wire *wire)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model;

    if (model_load_bytes(wire->bytes, wire->count, NULL, &model, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return model;
}

static const graph_value *value(const struct graph *graph, const char *name)
{
    uint32_t value_index = graph_find_value(graph, name);

    if (value_index == INLAY_NONE)
        fail_msg("no value '%s'", name);
    return &graph->values[value_index];
}

static void initializers_that_are_inputs(void **state)
{
    (void)state;
    for (int64_t ir = 3; ir <= 14; ir++) {
        struct wire wire = { 0 };
        wire_mark mark = mw_begin(&wire, ir, 9);
        graph_model *model;
        const graph_value *v;

        script_add(&wire, "w : 2\n"
                          "x : 2\n"
                          "w = [2] 1,1\n"
                          "y = Add(x,w)\n"
                          "-> y : 2");
        wire_end(&wire, mark);
        model = load(&wire);
        v = value(model->main, "w");
        assert_true(v->has_default);
        if (ir >= 4) {
            assert_int_equal(model->main->input_count, 2);
            assert_null(v->info.data);
            assert_non_null(v->default_value);
            assert_int_equal(graph_freeze_defaults(model->main), INLAY_OK);
            v = value(model->main, "w");
        }
        assert_int_equal(model->main->input_count, 1);
        assert_string_equal(model->main->values[model->main->inputs[0]].info.name.data, "x");
        assert_int_equal(v->info.flags, INLAY_VALUE_CONSTANT);
        assert_memory_equal(v->info.data, (&(float[]){ 1, 1 }), 8);
        graph_model_destroy(model);
        wire_deinit(&wire);
    }
}

static void unknown_dims(void **state)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    graph_model *model;
    const inlay_dim *dim;

    (void)state;
    script_add(&wire, "x : N,3,-1,?,N,floor(N/2),0\n"
                      "scalar : -\n"
                      "any : float");
    mw_value(&wire, MW_INPUT, "untyped", 0, NULL);
    mw_node(&wire, "Relu", "x", "y");
    mw_value(&wire, MW_OUTPUT, "y", 1, "N,-7"); /* a wrong rank, which inference overrides */
    wire_end(&wire, mark);
    model = load(&wire);
    dim = value(model->main, "x")->info.dims;
    assert_int_equal(value(model->main, "x")->info.rank, 7);
    assert_int_equal(dim[0].kind, INLAY_DIM_SYMBOLIC);
    assert_string_equal(model->symbols[dim[0].symbol].name.data, "N");
    assert_int_equal(dim[1].value, 3);
    assert_int_equal(dim[2].kind, INLAY_DIM_SYMBOLIC);
    assert_string_equal(model->symbols[dim[2].symbol].name.data, "x[2]");
    assert_string_equal(model->symbols[dim[3].symbol].name.data, "x[3]");
    assert_int_equal(dim[4].symbol, dim[0].symbol);
    assert_string_equal(model->symbols[dim[5].symbol].name.data, "floor(N/2)");
    assert_int_equal(dim[6].kind, INLAY_DIM_FIXED);
    assert_int_equal(dim[6].value, 0);
    assert_int_equal(value(model->main, "x")->declared_dims[2].kind, INLAY_DIM_UNKNOWN);
    assert_int_equal(value(model->main, "scalar")->info.rank, 0);
    assert_int_equal(value(model->main, "any")->info.rank, INLAY_RANK_UNKNOWN);
    assert_int_equal(value(model->main, "untyped")->info.dtype, INLAY_UNDEFINED);
    assert_int_equal(value(model->main, "y")->info.rank, INLAY_RANK_UNKNOWN);
    assert_int_equal(value(model->main, "y")->declared_rank, 2);
    assert_int_equal(value(model->main, "y")->declared_dims[0].symbol, dim[0].symbol);
    assert_int_equal(value(model->main, "y")->declared_dims[1].kind, INLAY_DIM_UNKNOWN);
    graph_model_destroy(model);
    wire_deinit(&wire);
}

/* Begins the messages of a nested type in the current message; returns their number. */
static int open_types(struct wire *wire, const char *levels, wire_mark *marks)
{
    int open = 0;

    for (; *levels != '\0'; levels++) {
        marks[open++] = wire_begin(wire, *levels == 's' ? 4 : *levels == 'o' ? 9 : *levels == 'm' ? 5 : 8);
        if (*levels == 'm')
            wire_int(wire, 1, INLAY_STRING);
        if (*levels != 'p')
            marks[open++] = wire_begin(wire, *levels == 'm' ? 2 : 1);
    }
    return open;
}

static void types_beyond_tensors(void **state)
{
    static const struct {
        const char *levels;
        uint32_t kind, inner;
        inlay_dtype key;
    } rows[] = {
        { "s", INLAY_VALUE_SEQUENCE, INLAY_VALUE_TENSOR, 0 },
        { "o", INLAY_VALUE_OPTIONAL, INLAY_VALUE_TENSOR, 0 },
        { "os", INLAY_VALUE_OPTIONAL, INLAY_VALUE_SEQUENCE, 0 },
        { "sm", INLAY_VALUE_SEQUENCE, INLAY_VALUE_MAP, 8 },
        { "m", INLAY_VALUE_MAP, 0, 8 },
        { "p", INLAY_VALUE_TENSOR, 0, 0 },
        { "ss", INLAY_VALUE_SEQUENCE, INLAY_VALUE_SEQUENCE, 0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wire wire = { 0 };
        wire_mark mark = mw_begin(&wire, 8, 17), v = wire_begin(&wire, MW_INPUT), type, marks[8];
        bool sparse = strcmp(rows[i].levels, "p") == 0;
        graph_model *model;
        const graph_value *x;
        int open;

        wire_text(&wire, 1, "x");
        type = wire_begin(&wire, 2);
        open = open_types(&wire, rows[i].levels, marks);
        if (!sparse)
            marks[open++] = wire_begin(&wire, 1);
        mw_tensor_type(&wire, INLAY_FLOAT, "2");
        while (open > 0)
            wire_end(&wire, marks[--open]);
        wire_end(&wire, type);
        wire_end(&wire, v);
        wire_end(&wire, mark);
        model = load(&wire);
        x = value(model->main, "x");
        assert_int_equal(x->info.kind, rows[i].kind);
        assert_int_equal(x->inner_kind, rows[i].inner);
        assert_int_equal(x->map_key, rows[i].key);
        assert_int_equal(x->info.dtype, INLAY_FLOAT);
        assert_int_equal(x->info.rank, 1);
        graph_model_destroy(model);
        wire_deinit(&wire);
    }
}

/* main: c, x, t, u; If { then { returns x; If { then { reads x and t, shadows u } } } }, where a node after the outer
 * If computes t. */
static void scopes(void **state)
{
    struct wire wire = { 0 };
    graph_model *model;
    const graph_node *node, *m;

    (void)state;
    script_model(&wire, 17,
                 "c : bool -\n"
                 "x : 2\n"
                 "y = If(c) then_branch {\n"
                 "    z = If(c) then_branch {\n"
                 "        q = Add(x,t)\n"
                 "        x2 = Add(q,u)\n"
                 "        u = [2] 1,1\n"
                 "        -> x2\n"
                 "    }\n"
                 "    -> z\n"
                 "    -> x\n" /* an outer value as an output of the body */
                 "}\n"
                 "t = Relu(x)\n"
                 "u = [3] 1,1,1\n"
                 "-> y");
    model = load(&wire);
    assert_string_equal(model->main->nodes[0]->info.op_type.data, "Relu"); /* t comes first now */
    node = model->main->nodes[1];
    assert_int_equal(node->body_count, 1);
    assert_int_equal(node->capture_count, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_non_null(strchr("cxt", model->main->values[node->captures[i]].info.name.data[0]));
    m = node->bodies[0].graph->nodes[0];
    assert_int_equal(m->capture_count, 2); /* x and t; u belongs to the body */
    assert_int_equal(m->bodies[0].graph->captured_count, 2);
    assert_int_equal(value(m->bodies[0].graph, "u")->info.dims[0].value, 2);
    assert_true(node->bodies[0].graph->parent == model->main);
    graph_model_destroy(model);
    wire_deinit(&wire);
}

static void sparse_constant_becomes_dense(const char *attribute)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 11, 17), n = mw_node_begin(&wire, "Constant", "", "y"), a = wire_begin(&wire, 5),
              s, t;
    graph_model *model;
    const inlay_attr_info *attr;

    wire_text(&wire, 1, attribute);
    wire_int(&wire, 20, 11);
    s = wire_begin(&wire, 22);
    t = wire_begin(&wire, 1);
    mw_tensor_head(&wire, NULL, INLAY_FLOAT, 1, (int64_t[]){ 1 });
    wire_float(&wire, 4, 5.0f);
    wire_end(&wire, t);
    t = wire_begin(&wire, 2);
    mw_tensor_head(&wire, NULL, INLAY_INT64, 1, (int64_t[]){ 1 });
    wire_ints(&wire, 7, (int64_t[]){ 2 }, 1);
    wire_end(&wire, t);
    wire_ints(&wire, 3, (int64_t[]){ 4 }, 1);
    wire_end(&wire, s);
    wire_end(&wire, a);
    wire_end(&wire, n);
    wire_end(&wire, mark);
    model = load(&wire);
    attr = graph_attr(model->main->nodes[0], "value");
    assert_non_null(attr);
    assert_int_equal(attr->kind, INLAY_ATTR_TENSOR);
    assert_memory_equal(attr->tensor->data, (&(float[]){ 0, 0, 5, 0 }), 16);
    graph_model_destroy(model);
    wire_deinit(&wire);
}

/* Some exporters write the attribute as "value". */
static void sparse_constants_become_dense(void **state)
{
    (void)state;
    sparse_constant_becomes_dense("sparse_value");
    sparse_constant_becomes_dense("value");
}

/* Writes a model with every kind of content once. A saved and loaded copy must be equal. */
static void write_rich(struct wire *wire)
{
    wire_mark g, n, a, v;
    mw_body body;

    wire_text(wire, 2, "a test");
    wire_text(wire, 3, "1.5");
    wire_text(wire, 4, "org.example");
    wire_int(wire, 5, -3);
    wire_text(wire, 6, "two\nlines");
    mw_opset(wire, 8, "never.used", 4);
    mw_opset(wire, 8, "ai.onnx.ml", 3);
    mw_entry(wire, 14, "key", "value");
    mw_entry(wire, 14, "empty", "");
    g = mw_begin(wire, 12, 17);
    wire_text(wire, 10, "about the graph");
    mw_entry(wire, 16, "graph", "property"); /* metadata_props of the graph: not interpreted */
    script_add(wire, "x : N,?,3\n"
                     "c : bool -\n"
                     "w : 300");
    mw_ones(wire, "w", 300);
    mw_ones(wire, "k", 2);
    n = mw_node_begin(wire, "Custom", "x,_,w", "a,_,b");
    wire_text(wire, 3, "n1");
    wire_text(wire, 6, "a description");
    wire_text(wire, 7, "ai.onnx.ml");
    mw_entry(wire, 9, "node", "property");
    for (int kind = 1; kind <= 8; kind++) {
        a = wire_begin(wire, 5);
        wire_text(wire, 1, (const char *[]){ "", "f", "i", "s", "t", "", "fs", "is", "ss" }[kind]);
        wire_int(wire, 20, kind);
        if (kind == 1)
            wire_float(wire, 2, 0.25f);
        else if (kind == 2)
            wire_int(wire, 3, INT64_MIN);
        else if (kind == 3)
            wire_bytes(wire, 4, "a\0b", 3);
        else if (kind == 4) {
            v = wire_begin(wire, 5);
            mw_tensor_head(wire, NULL, INLAY_INT64, 1, (int64_t[]){ 2 });
            wire_ints(wire, 7, (int64_t[]){ -1, 300 }, 2);
            wire_end(wire, v);
        } else if (kind == 5) {
            wire_text(wire, 1, "g");
            v = wire_begin(wire, 6);
            script_add(wire, "in : 2\n"
                             "out = Add(in,k)\n"
                             "-> out : 2");
            wire_end(wire, v);
        } else if (kind == 6)
            wire_floats(wire, 7, (float[]){ 1, 2.5f }, 2);
        else if (kind == 7)
            wire_ints(wire, 8, (int64_t[]){ 1, -2, 3 }, 3);
        else
            wire_text(wire, 9, "one");
        wire_end(wire, a);
    }
    a = wire_begin(wire, 5);
    wire_text(wire, 1, "few");
    wire_int(wire, 20, 11);
    v = wire_begin(wire, 22);
    wire_mark few = wire_begin(wire, 1);
    mw_tensor_head(wire, NULL, INLAY_FLOAT, 1, (int64_t[]){ 2 });
    wire_float(wire, 4, 5.0f);
    wire_float(wire, 4, -7.0f);
    wire_end(wire, few);
    few = wire_begin(wire, 2);
    mw_tensor_head(wire, NULL, INLAY_INT64, 2, (int64_t[]){ 2, 2 });
    wire_ints(wire, 7, (int64_t[]){ 0, 2, 1, 0 }, 4);
    wire_end(wire, few);
    wire_ints(wire, 3, (int64_t[]){ 2, 3 }, 2);
    wire_end(wire, v);
    wire_end(wire, a);
    a = wire_begin(wire, 5);
    wire_text(wire, 1, "type");
    wire_int(wire, 20, 13);
    v = wire_begin(wire, 14);
    wire_mark mark = wire_begin(wire, 1);
    mw_tensor_type(wire, INLAY_INT8, "2,M");
    wire_end(wire, mark);
    wire_end(wire, v);
    wire_end(wire, a);
    wire_end(wire, n);
    n = mw_node_begin(wire, "If", "c", "y");
    for (int i = 0; i < 2; i++) {
        body = mw_body_begin(wire, i == 0 ? "then_branch" : "else_branch", "branch");
        mw_node(wire, i == 0 ? "Relu" : "Abs", "a", "out");
        mw_value(wire, MW_OUTPUT, "out", 1, NULL);
        mw_body_end(wire, body);
    }
    wire_end(wire, n);
    mw_value(wire, MW_VALUE_INFO, "a", 1, "N,4");
    mw_value(wire, MW_VALUE_INFO, "left_over", 1, "N,4");
    mw_value(wire, MW_OUTPUT, "y", 1, "N,4");
    wire_end(wire, g);
}

static void compare(const graph_model *a, const graph_model *b)
{
    char *x = graph_to_text(a->main), *y = graph_to_text(b->main);
    struct arena scratch = { 0 };
    inlay_graph graph, other;

    assert_string_equal(x, y);
    free(x);
    free(y);
    assert_int_equal(graph_snapshot(a->main, &scratch, &graph, NULL), INLAY_OK);
    assert_int_equal(graph_snapshot(b->main, &scratch, &other, NULL), INLAY_OK);
    assert_true(graph.content_hash == other.content_hash);
    arena_deinit(&scratch);
    assert_int_equal(a->ir_version, b->ir_version);
    assert_int_equal(a->about.version, b->about.version);
    assert_string_equal(a->about.producer_name, b->about.producer_name);
    assert_string_equal(a->about.doc, b->about.doc);
    assert_int_equal(a->metadata_count, b->metadata_count);
    assert_int_equal(a->opset_count, b->opset_count);
    assert_int_equal(a->main->extra.bytes, b->main->extra.bytes);
}

static void models_survive_saving(void **state)
{
    char path[] = "/tmp/inlay-meaning-XXXXXX";
    int fd = mkstemp(path);
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model, *again = NULL;
    struct wire wire = { 0 };
    const graph_node *node;

    (void)state;
    assert_true(fd >= 0);
    write_rich(&wire);
    model = load(&wire);
    if (model_save(model, path, NULL, &diag) != INLAY_OK || model_load_path(path, NULL, &again, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    compare(model, again);
    assert_string_equal(again->metadata[0].value, "value");
    assert_int_equal(again->about.version, -3);
    assert_string_equal(again->main->doc, "about the graph");
    assert_non_null(memmem(again->main->extra.data, again->main->extra.bytes, "property", 8));
    node = again->main->nodes[0];
    assert_string_equal(node->info.name.data, "n1");
    assert_string_equal(node->doc, "a description");
    assert_non_null(memmem(node->extra.data, node->extra.bytes, "property", 8));
    assert_int_equal(node->type_attr->declared_dtype, INLAY_INT8);
    assert_int_equal(node->type_attr->declared_dims[0].value, 2);
    assert_int_equal(graph_attr(node, "s")->s.bytes, 3);
    assert_true(graph_attr(node, "i")->i == INT64_MIN);
    assert_int_equal(value(again->main, "a")->declared_rank, 2);
    graph_model_destroy(model);
    graph_model_destroy(again);
    wire_deinit(&wire);
    (void)remove(path);
    (void)fclose(fdopen(fd, "rb"));
}

/* Returns the hash of a graph with an If whose branches apply Relu to the outer value `captured`. */
static uint64_t hash_of_capture(const char *captured)
{
    struct wire wire = { 0 };
    struct arena scratch = { 0 };
    inlay_graph snapshot;
    graph_model *model;
    wire_mark graph = mw_begin(&wire, 8, 17), node;
    mw_body body;
    uint64_t hash;

    script_add(&wire, "c : bool -\n"
                      "a : N,4\n"
                      "b : N,4");
    node = mw_node_begin(&wire, "If", "c", "y");
    for (int i = 0; i < 2; i++) {
        body = mw_body_begin(&wire, i == 0 ? "then_branch" : "else_branch", "branch");
        mw_node(&wire, "Relu", captured, "out");
        mw_value(&wire, MW_OUTPUT, "out", INLAY_FLOAT, NULL);
        mw_body_end(&wire, body);
    }
    wire_end(&wire, node);
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "N,4");
    wire_end(&wire, graph);
    model = load(&wire);
    assert_int_equal(graph_snapshot(model->main, &scratch, &snapshot, NULL), INLAY_OK);
    hash = snapshot.content_hash;
    arena_deinit(&scratch);
    graph_model_destroy(model);
    wire_deinit(&wire);
    return hash;
}

/* Compiled regions are cached by the hash, so it must depend on the outer values that a body reads. */
static void hashes_include_captures(void **state)
{
    (void)state;
    assert_true(hash_of_capture("a") == hash_of_capture("a"));
    assert_true(hash_of_capture("a") != hash_of_capture("b"));
}

static void write_tensor(const char *path, const inlay_tensor_view *view)
{
    onnx_bytes file = { .count = 0 };
    FILE *to = fopen(path, "w");

    onnx_tensor(&file, "t", view->dtype, view->rank, view->dims, view->data, (size_t)view->bytes);
    assert_non_null(to);
    assert_int_equal(fwrite(file.data, 1, file.count, to), file.count);
    assert_int_equal(fclose(to), 0);
}

static void single_values(void **state)
{
    char path[] = "/tmp/inlay-value-XXXXXX";
    int fd = mkstemp(path);
    int64_t dims[2] = { 2, 3 };
    float numbers[6] = { 1, 2, 3, 4, 5, 6 };
    inlay_str texts[2] = { { "a\0b", 3 }, { "", 0 } };
    inlay_tensor_view view = {
        .data = numbers, .bytes = sizeof numbers, .dims = dims, .rank = 2, .dtype = INLAY_FLOAT
    };
    inlay_tensor_view tensor_view = {
        .data = texts, .bytes = sizeof texts, .dims = dims, .rank = 1, .dtype = INLAY_STRING
    };
    inlay_diag diag = INLAY_DIAG_INIT;
    model_datum datum;
    struct arena arena = { 0 };

    (void)state;
    assert_true(fd >= 0);
    write_tensor(path, &view);
    assert_int_equal(model_datum_load(path, INLAY_VALUE_TENSOR, &arena, &datum, &diag), INLAY_OK);
    assert_string_equal(datum.name, "t");
    assert_int_equal(datum.tensor.rank, 2);
    assert_int_equal((uintptr_t)datum.tensor.data % 16, 0);
    assert_memory_equal(datum.tensor.data, numbers, sizeof numbers);
    write_tensor(path, &tensor_view);
    assert_int_equal(model_datum_load(path, INLAY_VALUE_TENSOR, &arena, &datum, &diag), INLAY_OK);
    assert_memory_equal(((const inlay_str *)datum.tensor.data)[0].data, "a\0b", 3);
    assert_int_equal(model_datum_load(path, 9, &arena, &datum, &diag), INLAY_INVALID_ARGUMENT);
    arena_deinit(&arena);
    (void)remove(path);
    (void)fclose(fdopen(fd, "rb"));
}

static void nested_values(void **state)
{
    char path[] = "/tmp/inlay-value-XXXXXX";
    int fd = mkstemp(path);
    struct wire wire = { 0 };
    wire_mark outer, mark;
    inlay_diag diag = INLAY_DIAG_INIT;
    model_datum datum;
    struct arena arena = { 0 };

    (void)state;
    assert_true(fd >= 0);
    /* optional(seq(tensor)) */
    wire_text(&wire, 1, "o");
    wire_int(&wire, 2, 3);
    outer = wire_begin(&wire, 5);
    for (int i = 0; i < 2; i++) {
        mark = wire_begin(&wire, 3);
        mw_tensor_head(&wire, NULL, INLAY_INT64, 0, NULL);
        wire_ints(&wire, 7, (int64_t[]){ 40 + i }, 1);
        wire_end(&wire, mark);
    }
    wire_end(&wire, outer);
    assert_true(wire_write(&wire, fd));
    wire_deinit(&wire);
    assert_int_equal(model_datum_load(path, INLAY_VALUE_OPTIONAL, &arena, &datum, &diag), INLAY_OK);
    assert_int_equal(datum.item_count, 1);
    assert_int_equal(datum.items[0].item_count, 2);
    assert_int_equal(*(const int64_t *)datum.items[0].items[1].tensor.data, 41);
    /* The file of an empty optional is empty. */
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(model_datum_load(path, INLAY_VALUE_OPTIONAL, &arena, &datum, &diag), INLAY_OK);
    assert_int_equal(datum.item_count, 0);
    /* map(string, tensor) with a value missing, then complete */
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    wire_int(&wire, 2, INLAY_STRING);
    wire_text(&wire, 4, "key");
    assert_true(wire_write(&wire, fd));
    assert_int_equal(model_datum_load(path, INLAY_VALUE_MAP, &arena, &datum, &diag), INLAY_INVALID_MODEL);
    assert_non_null(strstr(diag.text, "a map has 1 keys and 0 values"));
    outer = wire_begin(&wire, 5);
    mark = wire_begin(&wire, 3);
    mw_tensor_head(&wire, NULL, INLAY_FLOAT, 0, NULL);
    wire_bytes(&wire, 9, &(float){ 2 }, 4);
    wire_end(&wire, mark);
    wire_end(&wire, outer);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_true(wire_write(&wire, fd));
    wire_deinit(&wire);
    assert_int_equal(model_datum_load(path, INLAY_VALUE_MAP, &arena, &datum, &diag), INLAY_OK);
    assert_int_equal(datum.items[0].tensor.dtype, INLAY_STRING);
    assert_int_equal(datum.items[1].kind, INLAY_VALUE_TENSOR); /* values are one tensor */
    assert_int_equal(datum.items[1].dims[0], 1);
    assert_true(*(const float *)datum.items[1].tensor.data == 2);
    arena_deinit(&arena);
    (void)remove(path);
    (void)close(fd);
}

static void sparse_value(void **state)
{
    char path[] = "/tmp/inlay-sparse-XXXXXX";
    int fd = mkstemp(path);
    const int64_t two = 2, places[2] = { 5, 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    model_datum datum;
    struct wire wire = { 0 };
    struct arena arena = { 0 };
    wire_mark mark;

    (void)state;
    assert_true(fd >= 0);
    mark = wire_begin(&wire, 1);
    mw_tensor_head(&wire, NULL, INLAY_FLOAT, 1, &two);
    wire_bytes(&wire, 9, (const float[]){ 7, 8 }, 8);
    wire_end(&wire, mark);
    mark = wire_begin(&wire, 2);
    mw_tensor_head(&wire, NULL, INLAY_INT64, 1, &two);
    wire_ints(&wire, 7, places, 2);
    wire_end(&wire, mark);
    wire_ints(&wire, 3, (const int64_t[]){ 2, 3 }, 2);
    assert_true(wire_write(&wire, fd));
    wire_deinit(&wire);
    assert_int_equal(model_datum_load(path, MODEL_DATUM_SPARSE, &arena, &datum, &diag), INLAY_OK);
    assert_int_equal(datum.kind, INLAY_VALUE_TENSOR);
    assert_int_equal(datum.tensor.rank, 2);
    assert_memory_equal(datum.tensor.data, ((const float[]){ 8, 0, 0, 0, 0, 7 }), 24);
    arena_deinit(&arena);
    (void)remove(path);
    (void)close(fd);
}

static void inferred_shapes_on_request(void **state)
{
    char path[] = "/tmp/inlay-meaning-XXXXXX";
    int fd = mkstemp(path);
    struct wire wire = { 0 };
    model_save_options options = { .with_inferred_shapes = true };
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model, *again;
    graph_value *v;

    (void)state;
    assert_true(fd >= 0);
    script_model(&wire, 17,
                 "x : 2\n"
                 "t = Relu(x)\n"
                 "y = Relu(t)\n"
                 "-> y");
    model = load(&wire);
    v = &model->main->values[graph_find_value(model->main, "t")];
    v->info.dtype = INLAY_FLOAT; /* as inference would set it */
    v->info.rank = 1;
    v->info.dims = &(const inlay_dim){ .value = 2 };
    for (int i = 0; i < 2; i++) {
        assert_int_equal(model_save(model, path, i == 0 ? NULL : &options, &diag), INLAY_OK);
        assert_int_equal(model_load_path(path, NULL, &again, &diag), INLAY_OK);
        assert_int_equal(value(again->main, "t")->declared, i);
        graph_model_destroy(again);
    }
    graph_model_destroy(model);
    wire_deinit(&wire);
    (void)remove(path);
    (void)close(fd);
}

static void add_metadata(onnx_bytes *node, const char *key, const char *text)
{
    onnx_bytes entry = { .count = 0 };

    onnx_text(&entry, 1, key);
    onnx_text(&entry, 2, text);
    onnx_message(node, 9, &entry);
}

/* Metadata of PyTorch's exporter says where a node comes from, and failures of the node repeat it. */
static void sources_of_nodes(void **state)
{
    static const struct {
        const char *trace, *scopes, *source, *module; /* NULL: none */
    } rows[] = {
        { "File \"/a/run.py\", line 3, in main\n    m(x)\n  File \"/a/b/modeling.py\", line 368, in forward\n    a + b",
          "['', 'model', 'model.layers.0', 'add_3']", "modeling.py:368, model.layers.0", "model.layers.0" },
        { "File \"model.py\", line 7, in f", NULL, "model.py:7", NULL },
        { "File \"C:\\m\\model.py\", line 7", "['', 'add']", "model.py:7", NULL },
        { NULL, "[\"\", \"it's\", 'mul']", "it's", "it's" },
        { NULL, "['', 'open", NULL, NULL },
        { "File \"model.py", "", NULL, NULL },
        { "no trace", "no list", NULL, NULL },
        { NULL, NULL, NULL, NULL },
    };
    const model_load_options drop = { .drop_metadata = true };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        onnx_bytes file = { .count = 0 }, graph = { .count = 0 }, node = { .count = 0 };
        inlay_diag diag = INLAY_DIAG_INIT;
        graph_model *model;
        char expected[200];

        onnx_text(&node, 1, "x");
        onnx_text(&node, 2, "y");
        onnx_text(&node, 3, "n");
        onnx_text(&node, 4, "Neg");
        if (rows[i].trace != NULL)
            add_metadata(&node, "pkg.torch.onnx.stack_trace", rows[i].trace);
        add_metadata(&node, "other", "File \"other.py\", line 1");
        if (rows[i].scopes != NULL)
            add_metadata(&node, "pkg.torch.onnx.name_scopes", rows[i].scopes);
        onnx_message(&graph, 1, &node);
        onnx_input(&graph, "x", INLAY_FLOAT, 0, NULL);
        onnx_output(&graph, "y", INLAY_FLOAT, 0, NULL);
        assert_int_equal(onnx_file(&file, &graph, 20, NULL), 0);
        if (model_load_bytes(file.data, file.count, NULL, &model, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        if (rows[i].source == NULL)
            assert_null(model->main->nodes[0]->source);
        else
            assert_string_equal(model->main->nodes[0]->source, rows[i].source);
        if (rows[i].module == NULL)
            assert_null(graph_node_module(model->main->nodes[0]));
        else
            assert_string_equal(graph_node_module(model->main->nodes[0]), rows[i].module);
        assert_true(model->main->nodes[0]->extra.bytes > 0);
        assert_int_equal(graph_fail(model->main, model->main->nodes[0], NULL, INLAY_UNSUPPORTED, &diag, "why"),
                         INLAY_UNSUPPORTED);
        (void)snprintf(expected, sizeof expected, "graph 'test', node 'n' (Neg): why%s%s%s",
                       rows[i].source != NULL ? " (from " : "", rows[i].source != NULL ? rows[i].source : "",
                       rows[i].source != NULL ? ")" : "");
        assert_string_equal(diag.text, expected);
        graph_model_destroy(model);
        /* Without its metadata a node still has its source. */
        assert_int_equal(model_load_bytes(file.data, file.count, &drop, &model, &diag), INLAY_OK);
        assert_int_equal(model->main->nodes[0]->extra.bytes, 0);
        assert_true((model->main->nodes[0]->source != NULL) == (rows[i].source != NULL));
        graph_model_destroy(model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initializers_that_are_inputs),
        cmocka_unit_test(unknown_dims),
        cmocka_unit_test(types_beyond_tensors),
        cmocka_unit_test(scopes),
        cmocka_unit_test(sparse_constants_become_dense),
        cmocka_unit_test(models_survive_saving),
        cmocka_unit_test(hashes_include_captures),
        cmocka_unit_test(single_values),
        cmocka_unit_test(nested_values),
        cmocka_unit_test(sparse_value),
        cmocka_unit_test(inferred_shapes_on_request),
        cmocka_unit_test(sources_of_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
