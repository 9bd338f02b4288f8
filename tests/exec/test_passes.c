/* The optimiser's passes: small graphs before, the operators that are left after, bodies in braces. What a model
 * computes is the same at every level. */
#include "graph_text.h"
#include "passes/pass.h"
#include "rig.h"
#include "session/session.h"

/* "Neg If{Abs|Relu} Add" */
static void list_ops(const struct graph *g, char *text, size_t bytes)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];
        size_t used = strlen(text);

        (void)snprintf(text + used, bytes - used, "%s%s", i > 0 ? " " : "", n->info.op_type.data);
        for (uint32_t b = 0; b < n->body_count; b++) {
            used = strlen(text);
            (void)snprintf(text + used, bytes - used, "%s", b == 0 ? "{" : "|");
            list_ops(n->bodies[b].graph, text, bytes);
        }
        used = strlen(text);
        (void)snprintf(text + used, bytes - used, "%s", n->body_count > 0 ? "}" : "");
    }
}

/* Opens the model, at the level, and compares what is left; once more over the passes changes nothing. */
static struct rig expect_ops(struct wire *w, const char *level, const char *ops)
{
    struct rig r = rig_open(w, (const char *const[]){ "level", level, NULL });
    program_folder folder = { .env = &r.session->env };
    pass_ctx again = {
        .model = r.session->model, .fold = program_fold_node, .fold_ctx = &folder, .fold_max_bytes = 1 << 20
    };
    char *before = graph_to_text(r.session->model->main), *after, text[512] = "";

    list_ops(r.session->model->main, text, sizeof text);
    assert_string_equal(text, ops);
    assert_int_equal(passes_run(&again, (uint32_t)strtol(level, NULL, 10)), INLAY_OK);
    program_folder_deinit(&folder);
    after = graph_to_text(r.session->model->main);
    assert_string_equal(before, after);
    free(before);
    free(after);
    return r;
}

static void constants_fold(void **state)
{
    static const char *const levels[][2] = { { "0", "Neg Add Mul ConstantOfShape Add" },
                                             { "99", "Mul ConstantOfShape Add" } };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct wire w = { 0 };
        wire_mark g = mw_begin(&w, 8, 17), n, a;
        struct rig r;

        mw_value(&w, MW_INPUT, "x", RIG_FLOAT, "2");
        mw_ones(&w, "ones", 2);
        rig_ints(&w, "many", 1, 1, (int64_t[]){ 1000000 });
        n = mw_node_begin(&w, "Constant", "", "two");
        a = rig_attr_begin(&w, "value_float", 1);
        wire_float(&w, 2, 2);
        wire_end(&w, a);
        wire_end(&w, n);
        mw_node(&w, "Neg", "ones", "minus");
        mw_node(&w, "Add", "minus,two", "one"); /* 1 */
        mw_node(&w, "Mul", "x,one", "y");
        mw_node(&w, "ConstantOfShape", "many", "large"); /* four megabytes out of eight bytes: stays */
        mw_node(&w, "Add", "large,two", "z");
        mw_value(&w, MW_OUTPUT, "y", RIG_FLOAT, NULL);
        mw_value(&w, MW_OUTPUT, "z", RIG_FLOAT, NULL);
        wire_end(&w, g);
        r = expect_ops(&w, levels[i][0], levels[i][1]);
        rig_floats(&r, 0, "2", (float[]){ 3, 4 });
        rig_run(&r);
        rig_expect_floats(&r, 0, "2", (float[]){ 3, 4 });
        assert_int_equal(inlay_value_count(inlay_context_output(r.context, 1)), 1000000);
        rig_close(&r);
    }
}

/* A Constant may be sparse. */
static void sparse_constants(void **state)
{
    static const char *const levels[] = { "0", "99" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct wire w = { 0 };
        wire_mark g = mw_begin(&w, 8, 17), n, a, sparse, values, at;
        struct rig r;

        mw_value(&w, MW_INPUT, "x", RIG_FLOAT, "4");
        n = mw_node_begin(&w, "Constant", "", "c");
        a = rig_attr_begin(&w, "sparse_value", 11);
        sparse = wire_begin(&w, 22);
        values = wire_begin(&w, 1);
        mw_tensor_head(&w, "v", INLAY_FLOAT, 1, (int64_t[]){ 2 });
        wire_float(&w, 4, 5);
        wire_float(&w, 4, 7);
        wire_end(&w, values);
        at = wire_begin(&w, 2);
        mw_tensor_head(&w, "i", INLAY_INT64, 1, (int64_t[]){ 2 });
        wire_int(&w, 7, 1);
        wire_int(&w, 7, 3);
        wire_end(&w, at);
        wire_int(&w, 3, 4);
        wire_end(&w, sparse);
        wire_end(&w, a);
        wire_end(&w, n);
        mw_node(&w, "Add", "x,c", "y");
        mw_value(&w, MW_OUTPUT, "y", RIG_FLOAT, NULL);
        wire_end(&w, g);
        r = expect_ops(&w, levels[i], "Add");
        rig_floats(&r, 0, "4", (float[]){ 1, 1, 1, 1 });
        rig_run(&r);
        rig_expect_floats(&r, 0, "4", (float[]){ 1, 6, 1, 8 });
        rig_close(&r);
    }
}

/* Inference knows the elements of a Constant of 32 bits: what is reshaped by it has known sizes before any run. */
static void narrow_constants_are_sizes(void **state)
{
    static const int32_t sizes[] = { 3, 2 };
    inlay_io_info info = { .struct_size = sizeof info };
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17), n, a, t;
    struct rig r;

    (void)state;
    mw_value(&w, MW_INPUT, "x", RIG_FLOAT, "6");
    n = mw_node_begin(&w, "Constant", "", "c");
    a = rig_attr_begin(&w, "value", 4);
    t = wire_begin(&w, 5);
    mw_tensor_head(&w, "v", INLAY_INT32, 1, (int64_t[]){ 2 });
    wire_bytes(&w, 9, sizes, sizeof sizes);
    wire_end(&w, t);
    wire_end(&w, a);
    wire_end(&w, n);
    n = mw_node_begin(&w, "Cast", "c", "shape");
    rig_attr_int(&w, "to", INLAY_INT64);
    wire_end(&w, n);
    mw_node(&w, "Reshape", "x,shape", "y");
    mw_value(&w, MW_OUTPUT, "y", RIG_FLOAT, NULL);
    wire_end(&w, g);
    r = expect_ops(&w, "0", "Cast Reshape");
    assert_int_equal(inlay_session_output(r.session, 0, &info), INLAY_OK);
    assert_int_equal(info.rank, 2);
    assert_true(info.dims[0] == 3 && info.dims[1] == 2);
    rig_floats(&r, 0, "6", (float[]){ 1, 2, 3, 4, 5, 6 });
    rig_run(&r);
    rig_expect_floats(&r, 0, "3,2", (float[]){ 1, 2, 3, 4, 5, 6 });
    rig_close(&r);
}

/* What is random is drawn in each run, though it reads nothing that changes. */
static void random_stays(void **state)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17), n;
    inlay_value *first;
    struct rig r;

    (void)state;
    mw_value(&w, MW_INPUT, "x", RIG_FLOAT, "64");
    n = mw_node_begin(&w, "RandomNormal", "", "noise");
    rig_attr_ints(&w, "shape", 1, (int64_t[]){ 64 });
    wire_end(&w, n);
    mw_node(&w, "Add", "x,noise", "y");
    mw_value(&w, MW_OUTPUT, "y", RIG_FLOAT, NULL);
    wire_end(&w, g);
    r = expect_ops(&w, "99", "RandomNormal Add");
    rig_floats(&r, 0, "64", (float[64]){ 0 });
    rig_run(&r);
    first = inlay_value_ref(inlay_context_output(r.context, 0));
    rig_run(&r);
    assert_memory_not_equal(inlay_value_data(first), inlay_value_data(inlay_context_output(r.context, 0)), 64 * 4);
    inlay_value_unref(first);
    rig_close(&r);
}

/* Idle nodes go, but an output keeps its name, and a Dropout whose mask is read stays. */
static void idle_nodes(void **state)
{
    static const struct {
        const char *mask; /* a reader of it */
        const char *ops0, *ops;
    } rows[] = {
        { "", "Identity Identity Dropout Cast Sum Neg Identity", "Neg" },
        { "m", "Identity Identity Dropout Cast Sum Neg Identity Not", "Dropout Neg Not" },
    };

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct wire w = { 0 };
        wire_mark g = mw_begin(&w, 8, 17);
        bool mask = i % 2 != 0;
        struct rig r;

        mw_value(&w, MW_INPUT, "x", RIG_FLOAT, "2");
        mw_node(&w, "Identity", "x", "a");
        mw_node(&w, "Identity", "a", "b");
        mw_node(&w, "Dropout", "b", mask ? "c,m" : "c");
        rig_node_int(&w, "Cast", "c", "d", "to", RIG_FLOAT);
        mw_node(&w, "Sum", "d", "e");
        mw_node(&w, "Neg", "e", "f");
        mw_node(&w, "Identity", "f", "y");
        if (mask)
            mw_node(&w, "Not", "m", "n");
        mw_value(&w, MW_OUTPUT, "y", RIG_FLOAT, NULL);
        if (mask)
            mw_value(&w, MW_OUTPUT, "n", RIG_BOOL, NULL);
        wire_end(&w, g);
        r = expect_ops(&w, i < 2 ? "0" : "99", i < 2 ? rows[mask].ops0 : rows[mask].ops);
        assert_int_equal(inlay_session_find_output(r.session, "y"), 0);
        rig_floats(&r, 0, "2", (float[]){ 3, 4 });
        rig_run(&r);
        rig_expect_floats(&r, 0, "2", (float[]){ -3, -4 });
        if (mask)
            rig_expect(inlay_context_output(r.context, 1), INLAY_BOOL, "2", (uint8_t[]){ 0, 0 });
        rig_close(&r);
    }
}

/* What only dead nodes read goes with them, in bodies too, and captures that nobody needs any more. */
static void dead_code_and_captures(void **state)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17), n;
    mw_body b;
    struct rig r;

    (void)state;
    mw_value(&w, MW_INPUT, "c", RIG_BOOL, "");
    mw_value(&w, MW_INPUT, "x", RIG_FLOAT, "2");
    mw_ones(&w, "ones", 2);
    mw_node(&w, "Abs", "x", "unread");
    mw_node(&w, "Exp", "x", "only_by_a_dead_one");
    mw_node(&w, "Identity", "x", "same");
    n = mw_node_begin(&w, "If", "c", "y");
    b = mw_body_begin(&w, "then_branch", "then");
    mw_node(&w, "Neg", "only_by_a_dead_one", "dead");
    mw_node(&w, "Neg", "ones", "folded");
    mw_node(&w, "Add", "same,folded", "t");
    mw_value(&w, MW_OUTPUT, "t", RIG_FLOAT, NULL);
    mw_body_end(&w, b);
    b = mw_body_begin(&w, "else_branch", "else");
    mw_node(&w, "Identity", "ones", "e");
    mw_value(&w, MW_OUTPUT, "e", RIG_FLOAT, NULL);
    mw_body_end(&w, b);
    wire_end(&w, n);
    mw_value(&w, MW_OUTPUT, "y", RIG_FLOAT, NULL);
    wire_end(&w, g);
    r = expect_ops(&w, "99", "If{Add|}");
    assert_int_equal(r.session->model->main->nodes[0]->capture_count, 1);
    for (uint8_t yes = 0; yes < 2; yes++) {
        rig_set(&r, 0, INLAY_BOOL, "", &yes);
        rig_floats(&r, 1, "2", (float[]){ 3, 4 });
        rig_run(&r);
        rig_expect_floats(&r, 0, "2", yes ? (float[]){ 2, 3 } : (float[]){ 1, 1 });
    }
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants_fold),
        cmocka_unit_test(sparse_constants),
        cmocka_unit_test(narrow_constants_are_sizes),
        cmocka_unit_test(random_stays),
        cmocka_unit_test(idle_nodes),
        cmocka_unit_test(dead_code_and_captures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
