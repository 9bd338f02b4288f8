/* operator.hpp: optional outputs, lists, half precision, states, shapes of unknown sizes, costs, examples, texts. */
#include "rig.h"
#include "inlay/plugin.h"
#include "plugin_dirs.h"

enum { LONG_BYTES = 160 };

static wire_mark begin(struct wire *wire, int64_t version, wire_mark *out_graph)
{
    wire_int(wire, 1, 8);
    mw_opset(wire, 8, "", 17);
    mw_opset(wire, 8, "com.example.more", version);
    *out_graph = wire_begin(wire, 7);
    wire_text(wire, 2, "g");
    return *out_graph;
}

static wire_mark node(struct wire *wire, const char *op, const char *inputs, const char *outputs)
{
    wire_mark mark = mw_node_begin(wire, op, inputs, outputs);

    wire_text(wire, 7, "com.example.more");
    return mark;
}

static struct rig open_model(struct wire *wire, wire_mark graph)
{
    const char *options[] = { "plugin_dirs", CPP_DIR, "providers", "cpp_more", NULL };

    wire_end(wire, graph);
    return rig_open(wire, options);
}

static void optional_outputs_and_lists(void **state)
{
    const float x[] = { 1, -2, 4 }, want[] = { 3, -1, 3 };
    const uint8_t mask[] = { 1, 0, 1 };

    (void)state;
    for (int outputs = 1; outputs <= 2; outputs++) {
        struct wire wire = { 0 };
        wire_mark graph;
        struct rig rig;

        begin(&wire, 1, &graph);
        mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "3");
        wire_end(&wire, node(&wire, "Gate", "x", outputs == 1 ? "y" : "y,m"));
        mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "3");
        if (outputs == 2)
            mw_value(&wire, MW_OUTPUT, "m", INLAY_BOOL, "3");
        rig = open_model(&wire, graph);
        rig_floats(&rig, 0, "3", x);
        rig_run(&rig);
        rig_expect_floats(&rig, 0, "3", want);
        if (outputs == 2)
            rig_expect(inlay_context_output(rig.context, 1), INLAY_BOOL, "3", mask);
        rig_close(&rig);
    }
}

static void half_precision(void **state)
{
    /* 1, -2, 4 -> 3, -1, 3; the third times 0.5 plus 1 */
    static const struct {
        inlay_dtype dtype;
        uint16_t x[3], want[3];
    } rows[] = { { INLAY_FLOAT16, { 0x3c00, 0xc000, 0x4400 }, { 0x4200, 0xbc00, 0x4200 } },
                 { INLAY_BFLOAT16, { 0x3f80, 0xc000, 0x4080 }, { 0x4040, 0xbf80, 0x4040 } },
                 /* special values: NaN, infinity, the least subnormal (times 0.5 plus 1 is 1) */
                 { INLAY_FLOAT16, { 0x7e00, 0xfc00, 0x0001 }, { 0x7e00, 0xfc00, 0x3c00 } },
                 { INLAY_BFLOAT16, { 0x7fc0, 0xff80, 0x0001 }, { 0x7fc0, 0xff80, 0x3f80 } } };

    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        struct wire wire = { 0 };
        wire_mark graph;
        struct rig rig;

        begin(&wire, 1, &graph);
        mw_value(&wire, MW_INPUT, "x", rows[row].dtype, "3");
        wire_end(&wire, node(&wire, "Gate", "x", "y"));
        mw_value(&wire, MW_OUTPUT, "y", rows[row].dtype, "3");
        rig = open_model(&wire, graph);
        rig_set(&rig, 0, rows[row].dtype, "3", rows[row].x);
        rig_run(&rig);
        rig_expect(inlay_context_output(rig.context, 0), rows[row].dtype, "3", rows[row].want);
        rig_close(&rig);
    }
}

/* Prepared once for each node, not for each run; from a constant that the function then does not get. */
static void states_of_nodes(void **state)
{
    const float index[] = { 2, 0, 1 }, weights[] = { 3, 4, 5 };
    const int64_t dims[] = { 3 };
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    for (int wrong = 0; wrong < 2; wrong++) {
        const char *options[] = { "plugin_dirs", CPP_DIR, "providers", "cpp_more", NULL };
        struct wire wire = { 0 };
        wire_mark graph, mark;
        struct rig rig;

        begin(&wire, 1, &graph);
        mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "3");
        mark = wire_begin(&wire, MW_INITIALIZER);
        mw_tensor_head(&wire, "w", INLAY_FLOAT, 1, dims);
        wire_bytes(&wire, 9, weights, sizeof weights);
        wire_end(&wire, mark);
        mark = node(&wire, "Lookup", "x,w", "y");
        mw_attr_int(&wire, "factor", wrong ? 13 : 2);
        wire_end(&wire, mark);
        mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "3");
        wire_end(&wire, graph);
        if (wrong) {
            assert_int_equal(rig_try_open(&wire, options, &rig, &diag), INLAY_INVALID_ARGUMENT);
            assert_non_null(strstr(diag.text, "Lookup: a factor of 13 is not wanted"));
        } else {
            rig = rig_open(&wire, options);
            for (int run = 0; run < 2; run++) {
                rig_floats(&rig, 0, "3", index);
                rig_run(&rig);
                rig_expect_floats(&rig, 0, "3", (float[]){ 50, 18, 1 });
            }
        }
        rig_close(&rig);
    }
}

/* Symbolic sizes keep the rank and equal sizes, before sizes are known. */
static void symbolic_shapes(void **state)
{
    struct wire wire = { 0 };
    inlay_io_info info = { .struct_size = sizeof info };
    float want[2 * 6 * LONG_BYTES];
    wire_mark graph;
    struct rig rig;

    (void)state;
    begin(&wire, 1, &graph);
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "N,3");
    wire_end(&wire, node(&wire, "Rows", "x", "y,z"));
    wire_end(&wire, node(&wire, "First", "x", "f"));
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, NULL);
    mw_value(&wire, MW_OUTPUT, "z", INLAY_FLOAT, NULL);
    mw_value(&wire, MW_OUTPUT, "f", INLAY_FLOAT, NULL);
    rig = open_model(&wire, graph);
    assert_int_equal(inlay_session_output(rig.session, 0, &info), INLAY_OK);
    assert_int_equal(info.rank, 3);
    assert_int_equal(info.dims[0], -1);
    assert_string_equal(info.dim_names[0], "N");
    assert_int_equal(info.dims[1], 6);
    assert_int_equal(info.dims[2], LONG_BYTES);
    assert_int_equal(inlay_session_output(rig.session, 1, &info), INLAY_OK);
    assert_int_equal(info.rank, 1);
    assert_int_equal(info.dims[0], -1);
    assert_int_equal(inlay_session_output(rig.session, 2, &info), INLAY_OK);
    assert_int_equal(info.rank, INLAY_RANK_UNKNOWN);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        want[i] = LONG_BYTES;
    rig_floats(&rig, 0, "2,3", (float[]){ 8, 7, 6, 5, 4, 3 });
    rig_run(&rig);
    rig_expect_floats(&rig, 0, "2,6,160", want);
    rig_expect_floats(&rig, 1, "6", (float[]){ 8, 8, 8, 8, 8, 8 });
    rig_expect_floats(&rig, 2, "2", (float[]){ 8, 7 });
    rig_close(&rig);
}

/* A rank of 16, and two versions of one operator. */
static void ranks_and_versions(void **state)
{
    static const char dims[] = "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2";
    const uint16_t x[] = { 0x3c00, 0xc000 };
    struct wire wire = { 0 };
    wire_mark graph;
    struct rig rig;

    (void)state;
    begin(&wire, 3, &graph);
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT16, dims);
    wire_end(&wire, node(&wire, "Copy", "x", "y"));
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT16, NULL);
    rig = open_model(&wire, graph);
    rig_set(&rig, 0, INLAY_FLOAT16, dims, x);
    rig_run(&rig);
    rig_expect(inlay_context_output(rig.context, 0), INLAY_FLOAT16, dims, x);
    rig_close(&rig);
}

static void keep(void *user, const char *text, size_t bytes)
{
    char *kept = user;
    const size_t used = strlen(kept);

    if (used + bytes < 65536) {
        memcpy(kept + used, text, bytes);
        kept[used + bytes] = '\0';
    }
}

static void costs_by_the_author(void **state)
{
    static char text[65536];
    const int64_t dims[] = { 3 };
    const float weights[] = { 3, 4, 5 };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };
    wire_mark graph, mark;
    struct rig rig;

    (void)state;
    begin(&wire, 1, &graph);
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "3");
    mark = wire_begin(&wire, MW_INITIALIZER);
    mw_tensor_head(&wire, "w", INLAY_FLOAT, 1, dims);
    wire_bytes(&wire, 9, weights, sizeof weights);
    wire_end(&wire, mark);
    mark = node(&wire, "Lookup", "x,w", "y");
    mw_attr_int(&wire, "factor", 2);
    wire_end(&wire, mark);
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "3");
    rig = open_model(&wire, graph);
    assert_int_equal(inlay_session_explain(rig.session, NULL, keep, text, &diag), INLAY_OK);
    if (strstr(text, "42.0 ms") == NULL && strstr(text, "42 ms") == NULL)
        fail_msg("no 42 ms in: %s", text);
    rig_close(&rig);
}

static void texts_and_examples(void **state)
{
    const char *dirs[] = { CPP_DIR };
    inlay_diag diag = INLAY_DIAG_INIT;
    const plugin_provider *provider;
    const inlay_operator *op = NULL;
    plugin_set *set;

    (void)state;
    assert_int_equal(plugin_set_create(dirs, 1, NULL, NULL, &set, &diag), INLAY_OK);
    provider = plugin_set_find(set, "cpp_more");
    assert_non_null(provider);
    assert_string_equal(provider->file->version, "2.5.1");
    assert_string_equal(provider->table->description, "more operators");
    assert_int_equal(provider->table->poll_ms, 20);
    for (uint32_t i = 0; i < plugin_set_operator_count(set); i++)
        if (strcmp(plugin_set_operator(set, i)->op_type, "Gate") == 0)
            op = plugin_set_operator(set, i);
    assert_non_null(op);
    assert_string_equal(op->signature, "x:T0 -> y:T0, mask?:T5; T0=float|float16|bfloat16, T5=bool; which:is=[0, 2], "
                                       "scales:fs=[2, 0.5], modes:ss=['plus, one', '->']");
    assert_int_equal(op->example_count, 2);
    assert_string_equal(op->examples[1].name, "without mask");
    assert_int_equal(op->examples[1].output_count, 1);
    assert_int_equal(op->examples[1].attr_count, 2);
    plugin_set_destroy(set);
}

static struct rig open_texts(const char *op, const char *inputs, const char *outputs)
{
    const char *options[] = { "plugin_dirs", CPP_DIR, "providers", "texts", NULL };
    struct wire wire = { 0 };
    wire_mark graph, mark;

    wire_int(&wire, 1, 8);
    mw_opset(&wire, 8, "", 17);
    mw_opset(&wire, 8, "com.example.texts", 1);
    graph = wire_begin(&wire, 7);
    wire_text(&wire, 2, "g");
    mw_value(&wire, MW_INPUT, "x", inputs[0] == 's' ? INLAY_STRING : INLAY_FLOAT, "2");
    mark = mw_node_begin(&wire, op, inputs + 2, outputs + 2);
    wire_text(&wire, 7, "com.example.texts");
    wire_end(&wire, mark);
    for (const char *name = outputs + 2; *name != '\0'; name += 2) {
        const char text[] = { *name, '\0' };

        mw_value(&wire, MW_OUTPUT, text, outputs[0] == 's' ? INLAY_STRING : INLAY_FLOAT, NULL);
        if (name[1] == '\0')
            break;
    }
    wire_end(&wire, graph);
    return rig_open(&wire, options);
}

/* String tensors, variadic inputs and outputs, and outputs that the function allocates. */
static void strings_and_variadics(void **state)
{
    struct rig rig = open_texts("Join", "s:x,x,x", "s:y");
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    rig_bind(&rig, 0, rig_texts(2, (const char *const[]){ "a", "" }));
    rig_run(&rig);
    rig_expect_texts(inlay_context_output(rig.context, 0), 2, (const char *const[]){ "a-a-a", "--" });
    rig_close(&rig);
    rig = open_texts("Neighbours", "f:x,x,x", "f:a,b,c");
    rig_floats(&rig, 0, "2", (float[]){ 1, 2 });
    rig_run(&rig);
    for (uint32_t o = 0; o < 3; o++)
        rig_expect_floats(&rig, o, "2", (float[]){ 2, 4 });
    rig_close(&rig);
    rig = open_texts("Above", "f:x", "f:y");
    rig_floats(&rig, 0, "2", (float[]){ -1, 2 });
    rig_run(&rig);
    rig_expect_floats(&rig, 0, "1", (float[]){ 2 });
    rig_floats(&rig, 0, "2", (float[]){ -1, -2 });
    rig_run(&rig);
    rig_expect_floats(&rig, 0, "0", NULL);
    rig_close(&rig);
    rig = open_texts("Forgets", "f:x", "f:y");
    rig_floats(&rig, 0, "2", (float[]){ 1, 2 });
    assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "the function does not allocate output 0"));
    rig_close(&rig);
}

#ifdef LITE_DIR
/* A file that is written for ONNX Runtime (samples/custom_op_cpp/lite.cpp). */
static struct rig open_lite(const char *op, inlay_dtype dtype, const char *inputs, float bound)
{
    const char *options[] = { "plugin_dirs", LITE_DIR, "providers", "lite", NULL };
    struct wire wire = { 0 };
    wire_mark graph, mark;

    wire_int(&wire, 1, 8);
    mw_opset(&wire, 8, "", 17);
    mw_opset(&wire, 8, "com.example.lite", 1);
    graph = wire_begin(&wire, 7);
    wire_text(&wire, 2, "g");
    mw_value(&wire, MW_INPUT, "x", dtype, "3");
    mw_scalar(&wire, "s", INLAY_FLOAT, 0.5);
    mark = mw_node_begin(&wire, op, inputs, "y");
    wire_text(&wire, 7, "com.example.lite");
    if (bound > 0) {
        const wire_mark attr = mw_attr_begin(&wire, "bound", 1);

        wire_float(&wire, 2, bound);
        wire_end(&wire, attr);
    }
    wire_end(&wire, mark);
    mw_value(&wire, MW_OUTPUT, "y", dtype, NULL);
    wire_end(&wire, graph);
    return rig_open(&wire, options);
}

static void lite_operators(void **state)
{
    struct rig rig = open_lite("AddScaled", INLAY_FLOAT, "x,x,s", 0);

    (void)state;
    rig_floats(&rig, 0, "3", (float[]){ 2, 4, -6 });
    rig_run(&rig);
    rig_expect_floats(&rig, 0, "3", (float[]){ 3, 6, -9 });
    rig_close(&rig);
    rig = open_lite("Above", INLAY_FLOAT, "x", 2.5F);
    rig_floats(&rig, 0, "3", (float[]){ 2, 4, 3 });
    rig_run(&rig);
    rig_expect_floats(&rig, 0, "2", (float[]){ 4, 3 });
    rig_close(&rig);
    rig = open_lite("Join", INLAY_STRING, "x,x,s", 0);
    rig_bind(&rig, 0, rig_texts(3, (const char *const[]){ "a", "b", "" }));
    rig_run(&rig);
    rig_expect_texts(inlay_context_output(rig.context, 0), 1, (const char *const[]){ "ab+3+1" });
    rig_close(&rig);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optional_outputs_and_lists),
        cmocka_unit_test(half_precision),
        cmocka_unit_test(states_of_nodes),
        cmocka_unit_test(symbolic_shapes),
        cmocka_unit_test(ranks_and_versions),
        cmocka_unit_test(costs_by_the_author),
        cmocka_unit_test(texts_and_examples),
        cmocka_unit_test(strings_and_variadics),
#ifdef LITE_DIR
        cmocka_unit_test(lite_operators),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
