/* The optimiser's passes: small graphs and the operators that remain; bodies are in braces. Results are equal at
 * every level. */
#include "graph_script.h"
#include "graph_text.h"
#include "passes/pass.h"
#include "rig.h"
#include "session/session.h"

/* Writes the operators of a graph, as in "Neg If{Abs|Relu} Add". */
static void list_ops(const struct graph *graph, char *text, size_t bytes)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];
        size_t used = strlen(text);

        (void)snprintf(text + used, bytes - used, "%s%s", i > 0 ? " " : "", node->info.op_type.data);
        for (uint32_t b = 0; b < node->body_count; b++) {
            used = strlen(text);
            (void)snprintf(text + used, bytes - used, "%s", b == 0 ? "{" : "|");
            list_ops(node->bodies[b].graph, text, bytes);
        }
        used = strlen(text);
        (void)snprintf(text + used, bytes - used, "%s", node->body_count > 0 ? "}" : "");
    }
}

/* Opens the model at a level and compares the remaining operators; a second application of the passes changes
 * nothing. */
static struct rig expect_ops(struct wire *wire, const char *level, const char *ops)
{
    struct rig rig = rig_open(wire, (const char *const[]){ "level", level, NULL });
    program_folder folder = { .env = &rig.session->env };
    pass_ctx again = { .model = rig.session->model,
                       .providers.fold = program_fold_node,
                       .providers.ctx = &folder,
                       .limits.fold_bytes = 1 << 20 };
    char *before = graph_to_text(rig.session->model->main), *after, text[512] = "";

    list_ops(rig.session->model->main, text, sizeof text);
    assert_string_equal(text, ops);
    assert_int_equal(passes_run(&again, (uint32_t)strtol(level, NULL, 10)), INLAY_OK);
    program_folder_deinit(&folder);
    after = graph_to_text(rig.session->model->main);
    assert_string_equal(before, after);
    free(before);
    free(after);
    return rig;
}

static void constants_fold(void **state)
{
    static const char *const levels[][2] = { { "0", "Neg Add Mul ConstantOfShape Add" },
                                             { "99", "Mul ConstantOfShape Add" } };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct wire wire = { 0 };
        wire_mark mark = mw_begin(&wire, 8, 17), n, a;
        struct rig rig;

        script_add(&wire, "x : 2\n"
                          "ones = [2] 1,1\n"
                          "many = i[1] 1000000");
        n = mw_node_begin(&wire, "Constant", "", "two");
        a = mw_attr_begin(&wire, "value_float", 1);
        wire_float(&wire, 2, 2);
        wire_end(&wire, a);
        wire_end(&wire, n);
        script_add(&wire, "minus = Neg(ones)\n"
                          "one = Add(minus,two)\n" /* 1 */
                          "y = Mul(x,one)\n"
                          "large = ConstantOfShape(many)\n" /* not folded: 8 bytes would become 4 MB */
                          "z = Add(large,two)\n"
                          "-> y, z");
        wire_end(&wire, mark);
        rig = expect_ops(&wire, levels[i][0], levels[i][1]);
        rig_floats(&rig, 0, "2", (float[]){ 3, 4 });
        rig_run(&rig);
        rig_expect_floats(&rig, 0, "2", (float[]){ 3, 4 });
        assert_int_equal(inlay_value_count(inlay_context_output(rig.context, 1)), 1000000);
        rig_close(&rig);
    }
}

/* Counts nodes whose result is in the memory of an operand that nothing reads afterwards. */
static uint32_t nodes_in_place;
static inlay_status fold_and_count(void *ctx, struct graph *graph, graph_node *node, uint32_t dying, uint64_t max_bytes,
                                   inlay_tensor_view *results, struct arena *arena, inlay_diag *diag)
{
    const void *operand = dying != INLAY_NONE ? graph->values[dying].info.data : NULL;
    const inlay_status status = program_fold_node(ctx, graph, node, dying, max_bytes, results, arena, diag);

    nodes_in_place += status == INLAY_OK && operand != NULL && results[0].data == operand;
    return status;
}

/* A chain of large constants needs the memory of one value: its end is in that of its start. */
static void large_constants_share_memory(void **state)
{
    static const char script[] = "x : N,N\ns = i[2] 80,80\nk = i[] 0\none = [] 1\nhuge = [] 1000000\n"
                                 "o = ConstantOfShape(s) value=#1.0\nt = Trilu(o, k) upper=0\nd = Sub(t, one)\n"
                                 "m = Mul(d, huge)\nn = Shape(x)\nz = i[2] 0,0\nc = Slice(m, z, n)\n"
                                 "y = Add(x, c)\n-> y";
    struct wire wire = { 0 };
    struct rig rig;
    program_folder folder = { 0 };
    pass_ctx ctx = {
        .providers.fold = fold_and_count, .providers.ctx = &folder, .limits.fold_bytes = 1024, .limits.rewrites = -1
    };
    char text[512] = "";
    uint32_t large = 0;

    (void)state;
    script_model(&wire, 17, script);
    rig = rig_open(&wire, (const char *const[]){ "level", "0", NULL });
    folder.env = &rig.session->env;
    ctx.model = rig.session->model;
    nodes_in_place = 0;
    assert_int_equal(passes_run(&ctx, 99), INLAY_OK);
    program_folder_deinit(&folder);
    list_ops(rig.session->model->main, text, sizeof text);
    assert_string_equal(text, "Shape Slice Add");
    assert_int_equal(nodes_in_place, 3);
    for (uint32_t i = 0; i < rig.session->model->main->value_count; i++)
        large += rig.session->model->main->values[i].info.data_bytes == 80 * 80 * sizeof(float);
    assert_int_equal(large, 1);
    rig_close(&rig);
}

/* A Constant may be sparse. */
static void sparse_constants(void **state)
{
    static const char *const levels[] = { "0", "99" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct wire wire = { 0 };
        wire_mark mark = mw_begin(&wire, 8, 17), n, a, sparse, values, at;
        struct rig rig;

        mw_value(&wire, MW_INPUT, "x", RIG_FLOAT, "4");
        n = mw_node_begin(&wire, "Constant", "", "c");
        a = mw_attr_begin(&wire, "sparse_value", 11);
        sparse = wire_begin(&wire, 22);
        values = wire_begin(&wire, 1);
        mw_tensor_head(&wire, "v", INLAY_FLOAT, 1, (int64_t[]){ 2 });
        wire_float(&wire, 4, 5);
        wire_float(&wire, 4, 7);
        wire_end(&wire, values);
        at = wire_begin(&wire, 2);
        mw_tensor_head(&wire, "i", INLAY_INT64, 1, (int64_t[]){ 2 });
        wire_int(&wire, 7, 1);
        wire_int(&wire, 7, 3);
        wire_end(&wire, at);
        wire_int(&wire, 3, 4);
        wire_end(&wire, sparse);
        wire_end(&wire, a);
        wire_end(&wire, n);
        mw_node(&wire, "Add", "x,c", "y");
        mw_value(&wire, MW_OUTPUT, "y", RIG_FLOAT, NULL);
        wire_end(&wire, mark);
        rig = expect_ops(&wire, levels[i], "Add");
        rig_floats(&rig, 0, "4", (float[]){ 1, 1, 1, 1 });
        rig_run(&rig);
        rig_expect_floats(&rig, 0, "4", (float[]){ 1, 6, 1, 8 });
        rig_close(&rig);
    }
}

/* Shape inference knows the elements of 32-bit Constants: a Reshape by such a constant has a known shape. */
static void int32_constants_as_shapes(void **state)
{
    static const int32_t sizes[] = { 3, 2 };
    inlay_io_info info = { .struct_size = sizeof info };
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), n, a, t;
    struct rig rig;

    (void)state;
    mw_value(&wire, MW_INPUT, "x", RIG_FLOAT, "6");
    n = mw_node_begin(&wire, "Constant", "", "c");
    a = mw_attr_begin(&wire, "value", 4);
    t = wire_begin(&wire, 5);
    mw_tensor_head(&wire, "v", INLAY_INT32, 1, (int64_t[]){ 2 });
    wire_bytes(&wire, 9, sizes, sizeof sizes);
    wire_end(&wire, t);
    wire_end(&wire, a);
    wire_end(&wire, n);
    script_add(&wire, "shape = Cast(c) to=int64\n"
                      "y = Reshape(x,shape)\n"
                      "-> y");
    wire_end(&wire, mark);
    rig = expect_ops(&wire, "0", "Cast Reshape");
    assert_int_equal(inlay_session_output(rig.session, 0, &info), INLAY_OK);
    assert_int_equal(info.rank, 2);
    assert_true(info.dims[0] == 3 && info.dims[1] == 2);
    rig_floats(&rig, 0, "6", (float[]){ 1, 2, 3, 4, 5, 6 });
    rig_run(&rig);
    rig_expect_floats(&rig, 0, "3,2", (float[]){ 1, 2, 3, 4, 5, 6 });
    rig_close(&rig);
}

/* Random operators are not folded, although their inputs are constant. */
static void random_operators_are_not_folded(void **state)
{
    struct wire wire = { 0 };
    inlay_value *first;
    struct rig rig;

    (void)state;
    script_model(&wire, 17,
                 "x : 64\n"
                 "noise = RandomNormal() shape=64,\n"
                 "y = Add(x,noise)\n"
                 "-> y");
    rig = expect_ops(&wire, "99", "RandomNormal Add");
    rig_floats(&rig, 0, "64", (float[64]){ 0 });
    rig_run(&rig);
    first = inlay_value_ref(inlay_context_output(rig.context, 0));
    rig_run(&rig);
    assert_memory_not_equal(inlay_value_data(first), inlay_value_data(inlay_context_output(rig.context, 0)), 64 * 4);
    inlay_value_unref(first);
    rig_close(&rig);
}

/* Operators without effect are removed, but an output keeps its name, and a Dropout whose mask is used remains. */
static void operators_without_effect(void **state)
{
    static const struct {
        const char *mask; /* a consumer of the mask */
        const char *ops0, *ops;
    } rows[] = {
        { "", "Identity Identity Dropout Cast Sum Neg Identity", "Neg" },
        { "m", "Identity Identity Dropout Cast Sum Neg Identity Not", "Dropout Neg Not" },
    };

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct wire wire = { 0 };
        wire_mark mark = mw_begin(&wire, 8, 17);
        bool mask = i % 2 != 0;
        struct rig rig;

        script_add(&wire,
                   "x : 2\n"
                   "a = Identity(x)\n"
                   "b = Identity(a)\n"
                   "%s = Dropout(b)\n"
                   "d = Cast(c) to=float\n"
                   "e = Sum(d)\n"
                   "f = Neg(e)\n"
                   "y = Identity(f)",
                   mask ? "c,m" : "c");
        if (mask)
            mw_node(&wire, "Not", "m", "n");
        mw_value(&wire, MW_OUTPUT, "y", RIG_FLOAT, NULL);
        if (mask)
            mw_value(&wire, MW_OUTPUT, "n", RIG_BOOL, NULL);
        wire_end(&wire, mark);
        rig = expect_ops(&wire, i < 2 ? "0" : "99", i < 2 ? rows[mask].ops0 : rows[mask].ops);
        assert_int_equal(inlay_session_find_output(rig.session, "y"), 0);
        rig_floats(&rig, 0, "2", (float[]){ 3, 4 });
        rig_run(&rig);
        rig_expect_floats(&rig, 0, "2", (float[]){ -3, -4 });
        if (mask)
            rig_expect(inlay_context_output(rig.context, 1), INLAY_BOOL, "2", (uint8_t[]){ 0, 0 });
        rig_close(&rig);
    }
}

/* Values that only dead nodes read are removed with them, also in bodies, and so are captures without consumers. */
static void dead_code_and_captures(void **state)
{
    struct wire wire = { 0 };
    struct rig rig;

    (void)state;
    script_model(&wire, 17,
                 "c : bool -\n"
                 "x : 2\n"
                 "ones = [2] 1,1\n"
                 "unread = Abs(x)\n"
                 "only_by_a_dead_one = Exp(x)\n"
                 "same = Identity(x)\n"
                 "y = If(c) then_branch {\n"
                 "    dead = Neg(only_by_a_dead_one)\n"
                 "    folded = Neg(ones)\n"
                 "    t = Add(same,folded)\n"
                 "    -> t\n"
                 "} else_branch {\n"
                 "    e = Identity(ones)\n"
                 "    -> e\n"
                 "}\n"
                 "-> y");
    rig = expect_ops(&wire, "99", "If{Add|}");
    assert_int_equal(rig.session->model->main->nodes[0]->capture_count, 1);
    for (uint8_t yes = 0; yes < 2; yes++) {
        rig_set(&rig, 0, INLAY_BOOL, "", &yes);
        rig_floats(&rig, 1, "2", (float[]){ 3, 4 });
        rig_run(&rig);
        rig_expect_floats(&rig, 0, "2", yes ? (float[]){ 2, 3 } : (float[]){ 1, 1 });
    }
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants_fold),
        cmocka_unit_test(large_constants_share_memory),
        cmocka_unit_test(sparse_constants),
        cmocka_unit_test(int32_constants_as_shapes),
        cmocka_unit_test(random_operators_are_not_folded),
        cmocka_unit_test(operators_without_effect),
        cmocka_unit_test(dead_code_and_captures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
