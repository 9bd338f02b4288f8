/* Model-local functions: calls become copies of the body. */
#include "cmocka_all.h"
#include "graph_text.h"
#include "model/model.h"
#include "model_writer.h"
#include <stdlib.h>

/* FunctionProto, open; nodes are written with fn_node. */
static wire_mark fn_begin(struct wire *w, const char *name, const char *inputs, const char *outputs, const char *attrs)
{
    wire_mark f = wire_begin(w, 25);

    wire_text(w, 1, name);
    mw_list(w, 4, inputs);
    mw_list(w, 5, outputs);
    mw_list(w, 6, attrs);
    mw_opset(w, 9, "", 17);
    mw_opset(w, 9, "my", 1);
    wire_text(w, 10, "my");
    return f;
}

static wire_mark fn_node_begin(struct wire *w, const char *domain, const char *op, const char *inputs,
                               const char *outputs)
{
    wire_mark node = wire_begin(w, 7);

    mw_list(w, 1, inputs);
    mw_list(w, 2, outputs);
    wire_text(w, 4, op);
    wire_text(w, 7, domain);
    return node;
}

static void fn_node(struct wire *w, const char *domain, const char *op, const char *inputs, const char *outputs)
{
    wire_end(w, fn_node_begin(w, domain, op, inputs, outputs));
}

static void int_attr(struct wire *w, uint32_t field, const char *name, int64_t value)
{
    wire_mark a = wire_begin(w, field);

    wire_text(w, 1, name);
    wire_int(w, 3, value);
    wire_int(w, 20, INLAY_ATTR_INT);
    wire_end(w, a);
}

static void ref_attr(struct wire *w, const char *name, const char *from, int kind)
{
    wire_mark a = wire_begin(w, 5);

    wire_text(w, 1, name);
    wire_int(w, 20, kind);
    wire_text(w, 21, from);
    wire_end(w, a);
}

static wire_mark call_begin(struct wire *w, const char *function, const char *name, const char *inputs,
                            const char *outputs)
{
    wire_mark node = mw_node_begin(w, function, inputs, outputs);

    wire_text(w, 3, name);
    wire_text(w, 7, "my");
    return node;
}

static wire_mark begin(struct wire *w)
{
    wire_mark g;

    mw_opset(w, 8, "my", 1);
    g = mw_begin(w, 10, 17);
    mw_value(w, MW_INPUT, "x", 1, "N");
    mw_value(w, MW_INPUT, "b", 9, "");
    mw_value(w, MW_OUTPUT, "y", 1, NULL);
    return g;
}

/* Loads, inlines, and compares: either the status and a piece of the message, or the nodes in the dump. */
static void check(const struct wire *w, inlay_status status, const char *expected)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model;
    char *text;

    if (model_load_bytes(w->bytes, w->count, NULL, &model, &diag) != INLAY_OK)
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
        struct wire w = { 0 };
        wire_mark g = begin(&w), m = call_begin(&w, "F", "c", "x", "y");

        if (rows[i].given)
            int_attr(&w, 5, "ax", 7);
        wire_end(&w, m);
        wire_end(&w, g);
        m = fn_begin(&w, "F", "a", "r", rows[i].defaulted ? "" : "ax");
        if (rows[i].defaulted)
            int_attr(&w, 11, "ax", 3);
        wire_mark n = fn_node_begin(&w, "", "Softmax", "a", "r");
        ref_attr(&w, "axis", "ax", INLAY_ATTR_INT);
        wire_end(&w, n);
        wire_end(&w, m);
        check(&w, INLAY_OK, rows[i].expected);
        wire_deinit(&w);
    }
}

/* G calls F twice, passing its own attribute on; names stay apart. */
static void functions_call_functions(void **state)
{
    struct wire w = { 0 };
    wire_mark g = begin(&w), m = call_begin(&w, "G", "c", "x", "y"), n;

    (void)state;
    int_attr(&w, 5, "outer", 5);
    wire_end(&w, m);
    wire_end(&w, g);
    m = fn_begin(&w, "G", "a", "r", "outer");
    for (int i = 0; i < 2; i++) {
        n = fn_node_begin(&w, "my", "F", i == 0 ? "a" : "t", i == 0 ? "t" : "r");
        ref_attr(&w, "inner", "outer", INLAY_ATTR_INT);
        wire_end(&w, n);
    }
    wire_end(&w, m);
    m = fn_begin(&w, "F", "a", "r", "inner");
    n = fn_node_begin(&w, "", "Softmax", "a", "t");
    ref_attr(&w, "axis", "inner", INLAY_ATTR_INT);
    wire_end(&w, n);
    fn_node(&w, "", "Relu", "t", "r");
    wire_end(&w, m);
    check(&w, INLAY_OK,
          "  c/F#0/t = Softmax(x) axis=5  # c/F#0/Softmax#0: undefined[...]\n"
          "  c/t = Relu(c/F#0/t)  # c/F#0/Relu#1: undefined[...]\n"
          "  c/F#1/t = Softmax(c/t) axis=5  # c/F#1/Softmax#0: undefined[...]\n"
          "  y = Relu(c/F#1/t)  # c/F#1/Relu#1: undefined[...]\n");
    wire_deinit(&w);
}

static void omitted_inputs_and_outputs(void **state)
{
    struct wire w = { 0 };
    wire_mark g = begin(&w), m;

    (void)state;
    wire_end(&w, call_begin(&w, "F", "c", "x", "_,y"));
    wire_end(&w, g);
    m = fn_begin(&w, "F", "a,opt", "p,q", "");
    fn_node(&w, "", "Clip", "a,opt", "p");
    fn_node(&w, "", "Relu", "p", "q");
    wire_end(&w, m);
    check(&w, INLAY_OK, "  c/p = Clip(x, _)  # c/Clip#0: undefined[...]\n  y = Relu(c/p)  # c/Relu#1");
    wire_deinit(&w);
}

static void outputs_that_are_inputs(void **state)
{
    struct wire w = { 0 };
    wire_mark g = begin(&w), m;

    (void)state;
    wire_end(&w, call_begin(&w, "F", "c", "x", "y,z"));
    wire_end(&w, g);
    m = fn_begin(&w, "F", "a", "a,a", "");
    wire_end(&w, m);
    check(&w, INLAY_OK, "  y = Identity(x)  # Identity#0: undefined[...]\n  z = Identity(x)  # Identity#1");
    wire_deinit(&w);
}

/* A body inside the function captures a formal input, a value made in the function and an omitted input. */
static void bodies_in_functions(void **state)
{
    struct wire w = { 0 };
    wire_mark g = begin(&w), m, n;
    mw_body b;

    (void)state;
    wire_end(&w, call_begin(&w, "F", "c", "x,b", "y"));
    wire_end(&w, g);
    m = fn_begin(&w, "F", "a,cond,opt", "r", "");
    fn_node(&w, "", "Abs", "a", "t");
    n = fn_node_begin(&w, "", "If", "cond", "r");
    for (int i = 0; i < 2; i++) {
        b = mw_body_begin(&w, i == 0 ? "then_branch" : "else_branch", "inner");
        mw_node(&w, i == 0 ? "Add" : "Clip", i == 0 ? "a,t" : "a,opt", "o");
        mw_value(&w, MW_OUTPUT, "o", 1, NULL);
        mw_body_end(&w, b);
    }
    wire_end(&w, n);
    wire_end(&w, m);
    check(&w, INLAY_OK,
          "  c/t = Abs(x)  # c/Abs#0: undefined[...]\n"
          "  y = If(b)  # c/If#1: undefined[...]\n"
          "    then_branch uses (x, c/t):\n"
          "      graph 'inner'\n"
          "        o = Add(a, t)  # Add#0: undefined[...]\n"
          "        output o: undefined[...]\n"
          "    else_branch uses (x):\n"
          "      graph 'inner'\n"
          "        o = Clip(a, _)  # Clip#0: undefined[...]\n");
    wire_deinit(&w);
}

static void calls_in_bodies(void **state)
{
    struct wire w = { 0 };
    wire_mark g = begin(&w), m, n = mw_node_begin(&w, "If", "b", "y");
    mw_body b = mw_body_begin(&w, "then_branch", "inner");

    (void)state;
    wire_end(&w, call_begin(&w, "F", "c", "x", "o"));
    mw_value(&w, MW_OUTPUT, "o", 1, NULL);
    mw_body_end(&w, b);
    wire_end(&w, n);
    wire_end(&w, g);
    m = fn_begin(&w, "F", "a", "r", "");
    fn_node(&w, "", "Relu", "a", "r");
    wire_end(&w, m);
    check(&w, INLAY_OK, "        o = Relu(x)  # c/Relu#0");
    wire_deinit(&w);
}

static void overloads(void **state)
{
    struct wire w = { 0 };
    wire_mark g = begin(&w), m = call_begin(&w, "F", "c", "x", "y");

    (void)state;
    wire_text(&w, 8, "second");
    wire_end(&w, m);
    wire_end(&w, g);
    for (int i = 0; i < 2; i++) {
        m = fn_begin(&w, "F", "a", "r", "");
        fn_node(&w, "", i == 0 ? "Relu" : "Abs", "a", "r");
        wire_text(&w, 13, i == 0 ? "first" : "second");
        wire_end(&w, m);
    }
    check(&w, INLAY_OK, "y = Abs(x)");
    wire_deinit(&w);
}

static void recursion_is_refused(void **state)
{
    struct wire w = { 0 };
    wire_mark g = begin(&w), m;

    (void)state;
    wire_end(&w, call_begin(&w, "F", "c", "x", "y"));
    wire_end(&w, g);
    m = fn_begin(&w, "F", "a", "r", "");
    fn_node(&w, "my", "G", "a", "r");
    wire_end(&w, m);
    m = fn_begin(&w, "G", "a", "r", "");
    fn_node(&w, "my", "F", "a", "r");
    wire_end(&w, m);
    check(&w, INLAY_INVALID_MODEL, "function 'F' calls itself");
    wire_deinit(&w);
}

/* f0 calls f1 twice, f1 calls f2 twice ...: a few lines that would be 2^24 nodes; and a ladder of 200 calls. */
static void explosions_are_refused(void **state)
{
    static const struct {
        int levels, calls;
        const char *text;
    } rows[] = { { 24, 2, "makes more than" }, { 200, 1, "functions call functions more than 128 deep" } };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct wire w = { 0 };
        wire_mark g = begin(&w), m;
        char name[16], callee[16];

        wire_end(&w, call_begin(&w, "f0", "c", "x", "y"));
        wire_end(&w, g);
        for (int level = 0; level <= rows[i].levels; level++) {
            (void)snprintf(name, sizeof name, "f%d", level);
            (void)snprintf(callee, sizeof callee, "f%d", level + 1);
            m = fn_begin(&w, name, "a", "r", "");
            if (level == rows[i].levels || rows[i].calls == 1) {
                fn_node(&w, level == rows[i].levels ? "" : "my", level == rows[i].levels ? "Relu" : callee, "a", "r");
            } else {
                fn_node(&w, "my", callee, "a", "t");
                fn_node(&w, "my", callee, "t", "r");
            }
            wire_end(&w, m);
        }
        check(&w, INLAY_LIMIT_EXCEEDED, rows[i].text);
        wire_deinit(&w);
    }
}

static void too_many_arguments(void **state)
{
    struct wire w = { 0 };
    wire_mark g = begin(&w), m;

    (void)state;
    wire_end(&w, call_begin(&w, "F", "c", "x,x", "y"));
    wire_end(&w, g);
    m = fn_begin(&w, "F", "a", "r", "");
    fn_node(&w, "", "Relu", "a", "r");
    wire_end(&w, m);
    check(&w, INLAY_INVALID_MODEL, "node 'c' (F): has 2 inputs and 1 outputs, but function 'F' takes 1 and gives 1");
    wire_deinit(&w);
}

/* Functions survive saving: the model that comes back inlines to the same graph. */
static void functions_are_saved(void **state)
{
    char path[] = "/tmp/inlay-functions-XXXXXX", *texts[2];
    int fd = mkstemp(path);
    struct wire w = { 0 };
    wire_mark g = begin(&w), m = call_begin(&w, "F", "c", "x", "y"), n;
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model, *again;

    (void)state;
    assert_true(fd >= 0);
    int_attr(&w, 5, "ax", 7);
    wire_end(&w, m);
    wire_end(&w, g);
    m = fn_begin(&w, "F", "a", "r", "other");
    int_attr(&w, 11, "ax", 3);
    mw_value(&w, 12, "t", 1, "N");
    n = fn_node_begin(&w, "", "Softmax", "a", "t");
    ref_attr(&w, "axis", "ax", INLAY_ATTR_INT);
    wire_end(&w, n);
    fn_node(&w, "", "Relu", "t", "r");
    wire_text(&w, 8, "what it does");
    wire_end(&w, m);
    assert_int_equal(model_load_bytes(w.bytes, w.count, NULL, &model, &diag), INLAY_OK);
    assert_int_equal(model_save(model, path, NULL, &diag), INLAY_OK);
    assert_int_equal(model_load_fd(fd, NULL, &again, &diag), INLAY_INVALID_MODEL); /* the old, empty file */
    assert_int_equal(model_load_path(path, NULL, &again, &diag), INLAY_OK);
    assert_int_equal(again->function_count, 1);
    assert_string_equal(again->functions[0].doc, "what it does");
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
    wire_deinit(&w);
    (void)remove(path);
    (void)fclose(fdopen(fd, "rb"));
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
