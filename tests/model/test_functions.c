/* Model-local functions: calls become copies of the body. */
#include "cmocka_all.h"
#include "graph_text.h"
#include "model/model.h"
#include "model_writer.h"
#include <stdlib.h>
#include <unistd.h>

static wire_mark call_begin(struct wire *wire, const char *function, const char *name, const char *inputs,
                            const char *outputs)
{
    wire_mark node = mw_node_begin(wire, function, inputs, outputs);

    wire_text(wire, 3, name);
    wire_text(wire, 7, "my");
    return node;
}

static wire_mark begin(struct wire *wire)
{
    wire_mark mark;

    mw_opset(wire, 8, "my", 1);
    mark = mw_begin(wire, 10, 17);
    mw_value(wire, MW_INPUT, "x", 1, "N");
    mw_value(wire, MW_INPUT, "b", 9, "");
    mw_value(wire, MW_OUTPUT, "y", 1, NULL);
    return mark;
}

/* Loads and inlines; then compares the status and a part of the message, or a part of the dump. */
static void check(const struct wire *wire, inlay_status status, const char *expected)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model;
    char *text;

    if (model_load_bytes(wire->bytes, wire->count, NULL, &model, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    if (graph_inline_functions(model, &diag) != status)
        fail_msg("status %d: %s", diag.code, diag.text);
    if (status != INLAY_OK) {
        if (strstr(diag.text, expected) == NULL)
            fail_msg("%s", diag.text);
    } else {
        text = graph_to_text(model->main);
        if (strstr(text, expected) == NULL)
            fail_msg("%s", text);
        for (uint32_t i = 0; i < model->main->node_count; i++)
            assert_string_not_equal(model->main->nodes[i]->info.domain.data, "my");
        free(text);
    }
    graph_model_destroy(model);
}

static void attributes_come_from_the_call(void **state)
{
    static const struct {
        bool given, defaulted;
        const char *expected;
    } rows[] = {
        { true, true, "y = Softmax(x) axis=7  # c/Softmax#0" },
        { true, false, "y = Softmax(x) axis=7  # c/Softmax#0" },
        { false, true, "y = Softmax(x) axis=3  # c/Softmax#0" },
        { false, false, "y = Softmax(x)  # c/Softmax#0" },
    };

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct wire wire = { 0 };
        wire_mark mark = begin(&wire), m = call_begin(&wire, "F", "c", "x", "y");

        if (rows[i].given)
            mw_attr_int(&wire, "ax", 7);
        wire_end(&wire, m);
        wire_end(&wire, mark);
        m = mw_function_begin(&wire, "F", "a", "r", rows[i].defaulted ? "" : "ax");
        if (rows[i].defaulted)
            mw_function_default(&wire, "ax", 3);
        wire_mark n = mw_function_node_begin(&wire, "", "Softmax", "a", "r");
        mw_attr_ref(&wire, "axis", "ax", INLAY_ATTR_INT);
        wire_end(&wire, n);
        wire_end(&wire, m);
        check(&wire, INLAY_OK, rows[i].expected);
        wire_deinit(&wire);
    }
}

/* G calls F twice and passes its attribute on; the names of both copies differ. */
static void functions_call_functions(void **state)
{
    struct wire wire = { 0 };
    wire_mark mark = begin(&wire), m = call_begin(&wire, "G", "c", "x", "y"), n;

    (void)state;
    mw_attr_int(&wire, "outer", 5);
    wire_end(&wire, m);
    wire_end(&wire, mark);
    m = mw_function_begin(&wire, "G", "a", "r", "outer");
    for (int i = 0; i < 2; i++) {
        n = mw_function_node_begin(&wire, "my", "F", i == 0 ? "a" : "t", i == 0 ? "t" : "r");
        mw_attr_ref(&wire, "inner", "outer", INLAY_ATTR_INT);
        wire_end(&wire, n);
    }
    wire_end(&wire, m);
    m = mw_function_begin(&wire, "F", "a", "r", "inner");
    n = mw_function_node_begin(&wire, "", "Softmax", "a", "t");
    mw_attr_ref(&wire, "axis", "inner", INLAY_ATTR_INT);
    wire_end(&wire, n);
    mw_function_node(&wire, "", "Relu", "t", "r");
    wire_end(&wire, m);
    check(&wire, INLAY_OK,
          "  c/F#0/t = Softmax(x) axis=5  # c/F#0/Softmax#0: undefined[...]\n"
          "  c/t = Relu(c/F#0/t)  # c/F#0/Relu#1: undefined[...]\n"
          "  c/F#1/t = Softmax(c/t) axis=5  # c/F#1/Softmax#0: undefined[...]\n"
          "  y = Relu(c/F#1/t)  # c/F#1/Relu#1: undefined[...]\n");
    wire_deinit(&wire);
}

static void omitted_inputs_and_outputs(void **state)
{
    struct wire wire = { 0 };
    wire_mark mark = begin(&wire), m;

    (void)state;
    wire_end(&wire, call_begin(&wire, "F", "c", "x", "_,y"));
    wire_end(&wire, mark);
    m = mw_function_begin(&wire, "F", "a,opt", "p,q", "");
    mw_function_node(&wire, "", "Clip", "a,opt", "p");
    mw_function_node(&wire, "", "Relu", "p", "q");
    wire_end(&wire, m);
    check(&wire, INLAY_OK, "  c/p = Clip(x, _)  # c/Clip#0: undefined[...]\n  y = Relu(c/p)  # c/Relu#1");
    wire_deinit(&wire);
}

static void outputs_that_are_inputs(void **state)
{
    struct wire wire = { 0 };
    wire_mark mark = begin(&wire), m;

    (void)state;
    wire_end(&wire, call_begin(&wire, "F", "c", "x", "y,z"));
    wire_end(&wire, mark);
    m = mw_function_begin(&wire, "F", "a", "a,a", "");
    wire_end(&wire, m);
    check(&wire, INLAY_OK, "  y = Identity(x)  # Identity#0: undefined[...]\n  z = Identity(x)  # Identity#1");
    wire_deinit(&wire);
}

/* A body in the function captures a formal input, a value computed in the function and an omitted input. */
static void bodies_in_functions(void **state)
{
    struct wire wire = { 0 };
    wire_mark mark = begin(&wire), m, n;
    mw_body body;

    (void)state;
    wire_end(&wire, call_begin(&wire, "F", "c", "x,b", "y"));
    wire_end(&wire, mark);
    m = mw_function_begin(&wire, "F", "a,cond,opt", "r", "");
    mw_function_node(&wire, "", "Abs", "a", "t");
    n = mw_function_node_begin(&wire, "", "If", "cond", "r");
    for (int i = 0; i < 2; i++) {
        body = mw_body_begin(&wire, i == 0 ? "then_branch" : "else_branch", "inner");
        mw_node(&wire, i == 0 ? "Add" : "Clip", i == 0 ? "a,t" : "a,opt", "o");
        mw_value(&wire, MW_OUTPUT, "o", 1, NULL);
        mw_body_end(&wire, body);
    }
    wire_end(&wire, n);
    wire_end(&wire, m);
    check(&wire, INLAY_OK,
          "  c/t = Abs(x)  # c/Abs#0: undefined[...]\n"
          "  y = If(b)  # c/If#1: undefined[...]\n"
          "    then_branch uses (x, c/t):\n"
          "      graph 'inner'\n"
          "        o = Add(a, t)  # Add#0: undefined[...]\n"
          "        output o: undefined[...]\n"
          "    else_branch uses (x):\n"
          "      graph 'inner'\n"
          "        o = Clip(a, _)  # Clip#0: undefined[...]\n");
    wire_deinit(&wire);
}

static void calls_in_bodies(void **state)
{
    struct wire wire = { 0 };
    wire_mark mark = begin(&wire), m, n = mw_node_begin(&wire, "If", "b", "y");
    mw_body body = mw_body_begin(&wire, "then_branch", "inner");

    (void)state;
    wire_end(&wire, call_begin(&wire, "F", "c", "x", "o"));
    mw_value(&wire, MW_OUTPUT, "o", 1, NULL);
    mw_body_end(&wire, body);
    wire_end(&wire, n);
    wire_end(&wire, mark);
    m = mw_function_begin(&wire, "F", "a", "r", "");
    mw_function_node(&wire, "", "Relu", "a", "r");
    wire_end(&wire, m);
    check(&wire, INLAY_OK, "        o = Relu(x)  # c/Relu#0");
    wire_deinit(&wire);
}

static void overloads(void **state)
{
    struct wire wire = { 0 };
    wire_mark mark = begin(&wire), m = call_begin(&wire, "F", "c", "x", "y");

    (void)state;
    wire_text(&wire, 8, "second");
    wire_end(&wire, m);
    wire_end(&wire, mark);
    for (int i = 0; i < 2; i++) {
        m = mw_function_begin(&wire, "F", "a", "r", "");
        mw_function_node(&wire, "", i == 0 ? "Relu" : "Abs", "a", "r");
        wire_text(&wire, 13, i == 0 ? "first" : "second");
        wire_end(&wire, m);
    }
    check(&wire, INLAY_OK, "y = Abs(x)");
    wire_deinit(&wire);
}

static void recursion_is_refused(void **state)
{
    struct wire wire = { 0 };
    wire_mark mark = begin(&wire), m;

    (void)state;
    wire_end(&wire, call_begin(&wire, "F", "c", "x", "y"));
    wire_end(&wire, mark);
    m = mw_function_begin(&wire, "F", "a", "r", "");
    mw_function_node(&wire, "my", "G", "a", "r");
    wire_end(&wire, m);
    m = mw_function_begin(&wire, "G", "a", "r", "");
    mw_function_node(&wire, "my", "F", "a", "r");
    wire_end(&wire, m);
    check(&wire, INLAY_INVALID_MODEL, "function 'F' calls itself");
    wire_deinit(&wire);
}

/* f0 calls f1 twice, f1 calls f2 twice, and so on: the model would have 2^24 nodes. In the second model, calls are
 * nested 200 deep. */
static void explosions_are_refused(void **state)
{
    static const struct {
        int levels, calls;
        const char *text;
    } rows[] = { { 24, 2, "makes more than" }, { 200, 1, "functions call functions more than 128 deep" } };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct wire wire = { 0 };
        wire_mark mark = begin(&wire), m;
        char name[16], callee[16];

        wire_end(&wire, call_begin(&wire, "f0", "c", "x", "y"));
        wire_end(&wire, mark);
        for (int level = 0; level <= rows[i].levels; level++) {
            (void)snprintf(name, sizeof name, "f%d", level);
            (void)snprintf(callee, sizeof callee, "f%d", level + 1);
            m = mw_function_begin(&wire, name, "a", "r", "");
            if (level == rows[i].levels || rows[i].calls == 1) {
                mw_function_node(&wire, level == rows[i].levels ? "" : "my", level == rows[i].levels ? "Relu" : callee,
                                 "a", "r");
            } else {
                mw_function_node(&wire, "my", callee, "a", "t");
                mw_function_node(&wire, "my", callee, "t", "r");
            }
            wire_end(&wire, m);
        }
        check(&wire, INLAY_LIMIT_EXCEEDED, rows[i].text);
        wire_deinit(&wire);
    }
}

static void too_many_arguments(void **state)
{
    struct wire wire = { 0 };
    wire_mark mark = begin(&wire), m;

    (void)state;
    wire_end(&wire, call_begin(&wire, "F", "c", "x,x", "y"));
    wire_end(&wire, mark);
    m = mw_function_begin(&wire, "F", "a", "r", "");
    mw_function_node(&wire, "", "Relu", "a", "r");
    wire_end(&wire, m);
    check(&wire, INLAY_INVALID_MODEL, "node 'c' (F): has 2 inputs and 1 outputs, but function 'F' takes 1 and gives 1");
    wire_deinit(&wire);
}

/* Functions are saved: after loading, inlining gives the same graph. */
static void functions_are_saved(void **state)
{
    char path[] = "/tmp/inlay-functions-XXXXXX", *texts[2];
    int fd = mkstemp(path);
    struct wire wire = { 0 };
    wire_mark mark = begin(&wire), m = call_begin(&wire, "F", "c", "x", "y"), n;
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model, *again;

    (void)state;
    assert_true(fd >= 0);
    mw_attr_int(&wire, "ax", 7);
    wire_end(&wire, m);
    wire_end(&wire, mark);
    m = mw_function_begin(&wire, "F", "a", "r", "other");
    mw_function_default(&wire, "ax", 3);
    mw_value(&wire, 12, "t", 1, "N");
    n = mw_function_node_begin(&wire, "", "Softmax", "a", "t");
    mw_attr_ref(&wire, "axis", "ax", INLAY_ATTR_INT);
    wire_end(&wire, n);
    mw_function_node(&wire, "", "Relu", "t", "r");
    wire_text(&wire, 8, "a description");
    wire_end(&wire, m);
    assert_int_equal(model_load_bytes(wire.bytes, wire.count, NULL, &model, &diag), INLAY_OK);
    assert_int_equal(model_save(model, path, NULL, &diag), INLAY_OK);
    assert_int_equal(model_load_fd(fd, NULL, &again, &diag), INLAY_INVALID_MODEL); /* the old file, which is empty */
    assert_int_equal(model_load_path(path, NULL, &again, &diag), INLAY_OK);
    assert_int_equal(again->function_count, 1);
    assert_string_equal(again->functions[0].doc, "a description");
    assert_string_equal(again->functions[0].attrs[0], "other");
    assert_int_equal(again->functions[0].defaults[0].i, 3);
    assert_int_equal(again->functions[0].opset_count, 2);
    assert_int_equal(graph_inline_functions(model, &diag), INLAY_OK);
    assert_int_equal(graph_inline_functions(again, &diag), INLAY_OK);
    texts[0] = graph_to_text(model->main);
    texts[1] = graph_to_text(again->main);
    assert_string_equal(texts[0], texts[1]);
    free(texts[0]);
    free(texts[1]);
    graph_model_destroy(model);
    graph_model_destroy(again);
    wire_deinit(&wire);
    (void)remove(path);
    (void)fclose(fdopen(fd, "rb"));
}

static bool represents_outer(const struct graph *graph, uint32_t value)
{
    for (uint32_t i = 0; i < graph->captured_count; i++)
        if (graph->captured[i] == value)
            return true;
    return false;
}

static void expect_no_name_twice(const struct graph *graph)
{
    for (const struct graph *outer = graph->parent; outer != NULL; outer = outer->parent)
        for (uint32_t value = 0; value < graph->value_count; value++)
            if (!represents_outer(graph, value) &&
                graph_find_value(outer, graph->values[value].info.name.data) != INLAY_NONE)
                fail_msg("'%s' of graph '%s' is in '%s', too", graph->values[value].info.name.data, graph->name,
                         outer->name);
    for (uint32_t i = 0; i < graph->node_count; i++)
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++)
            expect_no_name_twice(graph->nodes[i]->bodies[b].graph);
}

/* Inlining gives values of bodies the names of outer values: x in the body of the function, and c/t, because both calls
 * are named c. In files each name is that of one value, as ONNX requires and ONNX Runtime checks. */
static void saved_names_are_unique(void **state)
{
    char path[] = "/tmp/inlay-functions-XXXXXX";
    int fd = mkstemp(path);
    struct wire wire = { 0 };
    wire_mark mark = begin(&wire), m, n;
    mw_body body;
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model, *again;

    (void)state;
    assert_true(fd >= 0);
    wire_end(&wire, call_begin(&wire, "F", "c", "x,b", "p"));
    n = mw_node_begin(&wire, "If", "b", "y");
    for (int i = 0; i < 2; i++) {
        body = mw_body_begin(&wire, i == 0 ? "then_branch" : "else_branch", "middle");
        wire_end(&wire, call_begin(&wire, "F", "c", "p,b", "o"));
        mw_value(&wire, MW_OUTPUT, "o", 1, NULL);
        mw_body_end(&wire, body);
    }
    wire_end(&wire, n);
    wire_end(&wire, mark);
    m = mw_function_begin(&wire, "F", "a,cond", "r", "");
    mw_function_node(&wire, "", "Abs", "a", "t");
    n = mw_function_node_begin(&wire, "", "If", "cond", "r");
    for (int i = 0; i < 2; i++) {
        body = mw_body_begin(&wire, i == 0 ? "then_branch" : "else_branch", "inner");
        mw_node(&wire, i == 0 ? "Relu" : "Neg", "t", "x");
        mw_value(&wire, MW_OUTPUT, "x", 1, NULL);
        mw_body_end(&wire, body);
    }
    wire_end(&wire, n);
    wire_end(&wire, m);
    assert_int_equal(model_load_bytes(wire.bytes, wire.count, NULL, &model, &diag), INLAY_OK);
    assert_int_equal(graph_inline_functions(model, &diag), INLAY_OK);
    assert_int_equal(model_save(model, path, NULL, &diag), INLAY_OK);
    assert_int_equal(model_load_path(path, NULL, &again, &diag), INLAY_OK);
    assert_int_equal(again->main->node_count, 3);
    expect_no_name_twice(again->main);
    graph_model_destroy(model);
    graph_model_destroy(again);
    wire_deinit(&wire);
    (void)remove(path);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attributes_come_from_the_call),
        cmocka_unit_test(functions_call_functions),
        cmocka_unit_test(omitted_inputs_and_outputs),
        cmocka_unit_test(outputs_that_are_inputs),
        cmocka_unit_test(bodies_in_functions),
        cmocka_unit_test(calls_in_bodies),
        cmocka_unit_test(overloads),
        cmocka_unit_test(recursion_is_refused),
        cmocka_unit_test(explosions_are_refused),
        cmocka_unit_test(too_many_arguments),
        cmocka_unit_test(functions_are_saved),
        cmocka_unit_test(saved_names_are_unique),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
