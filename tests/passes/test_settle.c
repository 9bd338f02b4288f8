/* Rewrites are kept or undone depending on the operators that providers support, and on their cost. */
#include "graph/history.h"
#include "inlay/plugin.h"
#include "rewrite_rows.h"

static struct rig open_on(const char *script, const char *providers, const char *ops, const char *ns, inlay_diag *diag)
{
    const char *options[] = { "plugin_dirs", NARROW_DIR, "probe", "never", "cache_dir", "",
                              "providers",   providers,  "level", "99",    NULL };
    struct wire wire = { 0 };
    struct rig rig;

    assert_int_equal(setenv("NARROW_OPS", ops, 1), 0);
    if (ns != NULL)
        assert_int_equal(setenv("LOW_BIT_NS", ns, 1), 0);
    script_model(&wire, 17, script);
    if (rig_try_open(&wire, options, &rig, diag) != INLAY_OK && diag->code == INLAY_OK)
        fail_msg("it failed without a message");
    (void)unsetenv("LOW_BIT_NS");
    return rig;
}

static void expect_ops(const char *script, const char *providers, const char *narrow_ops, const char *ns,
                       const char *want)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig = open_on(script, providers, narrow_ops, ns, &diag);
    char ops[512];

    if (rig.session == NULL)
        fail_msg("%s on %s with%s: %s", script, providers, narrow_ops, diag.text);
    list_ops(rig.session->model->main, ops, sizeof ops);
    if (strcmp(ops, want) != 0)
        fail_msg("on %s with%s: the operators are '%s', expected '%s'", providers, narrow_ops, ops, want);
    script_feed(&rig, 1);
    rig_run(&rig);
    rig_close(&rig);
}

static const char swish[] = "x : 64,64\na = Sigmoid(x)\ny = Mul(a, x)\n-> y";
static const char gemm[] = "x : 64,64\nb = [64,64]\nc = [64]\na = MatMul(x, b)\ny = Add(a, c)\n-> y";
static const char norm[] = "x : 2,3,8\nt = [] 2\ne = [] 0.00001\ng = [8]\nb = [8]\nm = ReduceMean(x) axes=-1,\n"
                           "d = Sub(x, m)\np = Pow(d, t)\nv = ReduceMean(p) axes=-1,\nw = Add(v, e)\ns = Sqrt(w)\n"
                           "n = Div(d, s)\no = Mul(n, g)\ny = Add(o, b)\n-> y";

static void only_original_operators(void **state)
{
    (void)state;
    expect_ops(swish, "narrow", " Sigmoid Mul ", NULL, "Sigmoid Mul");
    expect_ops(gemm, "narrow", " MatMul Add ", NULL, "MatMul Add");
    expect_ops(norm, "narrow", " ReduceMean Sub Pow Add Sqrt Div Mul ", NULL,
               "ReduceMean Sub Mul ReduceMean Add Sqrt Div Mul Add");
}

static void the_fused_form(void **state)
{
    (void)state;
    expect_ops(swish, "narrow", " Swish ", NULL, "Swish");
    expect_ops(swish, "narrow", " Swish Sigmoid Mul ", NULL, "Swish");
    expect_ops(gemm, "narrow", " Gemm ", NULL, "Gemm");
    expect_ops(norm, "narrow", " LayerNormalization Mul Add ", NULL, "LayerNormalization");
}

/* The reference supports Gemm, narrow only the original operators. */
static void by_cost(void **state)
{
    (void)state;
    expect_ops(gemm, "narrow,reference", " MatMul Add ", "1", "MatMul Add");
    expect_ops(gemm, "reference,narrow", " MatMul Add ", "1", "MatMul Add");
    expect_ops(gemm, "narrow,reference", " MatMul Add ", "1e9", "Gemm");
    expect_ops(gemm, "reference,narrow", " MatMul Add ", "1e9", "Gemm");
    expect_ops(swish, "narrow,reference", " Sigmoid Mul ", "1", "Sigmoid Mul");
    expect_ops(swish, "narrow,reference", " Sigmoid Mul Swish ", "1", "Swish");
}

/* The provider offers the fused operator and compile declines it: the original nodes are tried before an error is
 * reported. */
static void declined_by_compile(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    (void)state;
    assert_int_equal(setenv("NARROW_LATE", " Swish Gemm LayerNormalization ", 1), 0);
    expect_ops(swish, "narrow", " Swish Sigmoid Mul ", NULL, "Sigmoid Mul");
    expect_ops(gemm, "narrow", " Gemm MatMul Add ", NULL, "MatMul Add");
    expect_ops(norm, "narrow", " LayerNormalization ReduceMean Sub Pow Add Sqrt Div Mul ", NULL,
               "ReduceMean Sub Mul ReduceMean Add Sqrt Div Mul Add");
    expect_ops(swish, "narrow,reference", " Swish Sigmoid Mul ", "1", "Swish"); /* the runner-up supports it */
    expect_ops("c : 1\nx : 4,4\nh = [1] 0.5\nk = Greater(c, h)\na = Sigmoid(x)\nb = Mul(x, a)\n"
               "i = If(k) then:Neg(b) else:Add(b,x)\nd = Sigmoid(i)\ny = Mul(d, i)\n-> y",
               "narrow", " Swish Sigmoid Mul Greater Neg Add ", NULL, "Greater Sigmoid Mul If Sigmoid Mul");
    assert_int_equal(setenv("NARROW_LATE", " Swish Sigmoid ", 1), 0);
    rig = open_on(swish, "narrow", " Swish Sigmoid Mul ", NULL, &diag);
    assert_null(rig.session);
    assert_int_equal(diag.code, INLAY_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "the compiler has no Sigmoid after all"));
    wire_deinit(&rig.model);
    (void)unsetenv("NARROW_LATE");
}

/* At every level of the optimiser: with the operators of the file, and with those that passes create. */
static void every_level(void **state)
{
    static const char *const rows[][3] = {
        { swish, " Sigmoid Mul ", " Swish Sigmoid Mul " },
        { gemm, " MatMul Add ", " Gemm MatMul Add " },
        { norm, " ReduceMean Sub Pow Add Sqrt Div Mul ", " LayerNormalization ReduceMean Sub Pow Add Sqrt Div Mul " },
    };

    (void)state;
    for (int i = 0; i < 3 * 2 * 5; i++) {
        static const char *const levels[] = { "0", "1", "2", "3", "99" };
        const char *options[] = { "plugin_dirs", NARROW_DIR, "probe", "never",       "cache_dir", "",
                                  "providers",   "narrow",   "level", levels[i % 5], NULL };
        const char *script = rows[i / 10][0];
        inlay_diag diag = INLAY_DIAG_INIT;
        char ops[512];
        struct wire wire = { 0 };
        struct rig rig;

        assert_int_equal(setenv("NARROW_OPS", rows[i / 10][1 + i / 5 % 2], 1), 0);
        script_model(&wire, 17, script);
        if (rig_try_open(&wire, options, &rig, &diag) != INLAY_OK)
            fail_msg("%s at level %s with%s: %s", script, levels[i % 5], rows[i / 10][1 + i / 5 % 2], diag.text);
        list_ops(rig.session->model->main, ops, sizeof ops);
        if (i / 5 % 2 == 1 && i % 5 >= 2 && strcmp(ops, "Swish") != 0 && strcmp(ops, "Gemm") != 0 &&
            strncmp(ops, "LayerNormalization", 18) != 0)
            fail_msg("%s at level %s: %s", script, levels[i % 5], ops);
        script_feed(&rig, 1);
        rig_run(&rig);
        rig_close(&rig);
    }
}

/* Neither form is supported: the error names the node of the file. */
static void refusals(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig = open_on(swish, "narrow", " Mul ", NULL, &diag);

    (void)state;
    assert_null(rig.session);
    assert_int_equal(diag.code, INLAY_UNSUPPORTED);
    if (strstr(diag.text, "no provider runs Sigmoid-13") == NULL || strstr(diag.text, "not listed") == NULL)
        fail_msg("%s", diag.text);
    wire_deinit(&rig.model);
}

/* Shapes that no provider and no rewrite takes are refused by name, not computed with other ones. */
static void refused_shapes(void **state)
{
    static const struct {
        const char *script, *part;
        inlay_status status;
    } rows[] = { { "x : 1,2,4,4,4,4\nw = [3,2,3,3,3,3]\ny = Conv(x, w)\n-> y",
                   "the input has rank 6; convolutions take 3 to 5", INLAY_UNSUPPORTED },
                 { "x : 6\ndims : int64 R\nt = Reshape(x, dims)\ny = ms.UnfoldTensor(t) size=2\n-> y",
                   "the optimiser does not replace it: the rank of the input is not known", INLAY_UNSUPPORTED },
                 { "x : 1,1,4,4\ny = Crop(x) border=0,1,0,0 scale=9223372036854775807,1\n-> y",
                   "border and scale do not fit into the input", INLAY_UNSUPPORTED },
                 { "x : 1,1,4,4\ny = Crop(x) border=0,9223372036854775807,0,9223372036854775807\n-> y",
                   "border and scale do not fit into the input", INLAY_UNSUPPORTED },
                 { "x : 1,2,4,4\ny = ImageScaler(x) bias=1.5,2.5,3.5\n-> y",
                   "bias has 3 elements; it must have one for each channel", INLAY_INVALID_MODEL } };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        struct wire wire = { 0 };
        struct rig rig;

        script_model(&wire, 17, rows[i].script);
        assert_int_equal(rig_try_open(&wire, NULL, &rig, &diag), rows[i].status);
        if (strstr(diag.text, rows[i].part) == NULL)
            fail_msg("%s", diag.text);
        wire_deinit(&rig.model);
    }
}

static void rules(void **state)
{
    const char *const pins[][2] = { { "pin", "op:Swish=narrow" }, { "forbid", "op:Swish=reference" } };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const char *options[] = { "plugin_dirs", NARROW_DIR,         "probe",    "never",    "cache_dir", "",
                                  "providers",   "reference,narrow", pins[i][0], pins[i][1], NULL };
        inlay_diag diag = INLAY_DIAG_INIT;
        char ops[256];
        struct wire wire = { 0 };
        struct rig rig;

        assert_int_equal(setenv("NARROW_OPS", " Sigmoid Mul ", 1), 0);
        script_model(&wire, 17, swish);
        if (rig_try_open(&wire, options, &rig, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        list_ops(rig.session->model->main, ops, sizeof ops);
        assert_string_equal(ops, "Sigmoid Mul");
        rig_close(&rig);
    }
}

/* Nodes inside and outside of bodies are restored. */
static void bodies(void **state)
{
    static const char script[] = "c : 1\nx : 4,4\nh = [1] 0.5\nk = Greater(c, h)\na = Sigmoid(x)\nb = Mul(x, a)\n"
                                 "i = If(k) then:Neg(b) else:Add(b,x)\nd = Sigmoid(i)\ny = Mul(d, i)\n-> y";

    (void)state;
    expect_ops(script, "narrow", " Sigmoid Mul Greater Neg Add ", NULL, "Greater Sigmoid Mul If Sigmoid Mul");
    expect_ops(script, "narrow", " Swish Greater Neg Add ", NULL, "Greater Swish If Swish");
    expect_ops(script, "narrow,reference", " Sigmoid Mul Greater Neg Add ", "1", "Greater Sigmoid Mul If Sigmoid Mul");
    expect_ops(script, "narrow,reference", " Sigmoid Mul Greater Neg Add ", "1e9", "Greater Swish If Swish");
}

static void keep(void *user, const char *text, size_t bytes)
{
    assert_int_equal(fwrite(text, 1, bytes, user), bytes);
}

/* A saved plan with restored nodes works in a session that would not have undone the rewrite. Other rewrites stay, also
 * if one of their nodes has the name of the node that it replaces, as in an expanded operator. */
static void saved_plans(void **state)
{
    static const struct {
        const char *script, *ops;
    } rows[] = {
        { gemm, "MatMul Add" },
        { "x : 4,4\nw = [4,4]\nb = [4]\nm = MatMul(x, w)\na = Add(m, b)\ny = ms.BiasGelu(a, b)\n-> y",
          "MatMul Add Add Gelu" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char plan_path[] = "/tmp/inlay-settled-XXXXXX";
        const char *options[] = { "plugin_dirs",      NARROW_DIR, "probe", "never", "cache_dir", "",  "providers",
                                  "reference,narrow", "level",    "99",    "plan",  plan_path,   NULL };
        inlay_diag diag = INLAY_DIAG_INIT;
        struct rig rig = open_on(rows[i].script, "reference,narrow", " MatMul Add ", "1", &diag);
        FILE *file = fdopen(mkstemp(plan_path), "w");
        char ops[256];
        struct wire wire = { 0 };

        assert_non_null(file);
        assert_int_equal(inlay_session_plan_save(rig.session, keep, file, &diag), INLAY_OK);
        assert_int_equal(fclose(file), 0);
        rig_close(&rig);
        script_model(&wire, 17, rows[i].script);
        if (rig_try_open(&wire, options, &rig, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        list_ops(rig.session->model->main, ops, sizeof ops);
        assert_string_equal(ops, rows[i].ops);
        rig_close(&rig);
        assert_int_equal(remove(plan_path), 0);
    }
}

/* The manual lists exactly the operators that passes create. */
static void manual_lists_created_operators(void **state)
{
    static const struct {
        uint32_t minor;
        const char *domain, *op;
    } ops[] = {
#define MADE(minor, domain, op) { minor, domain, op },
#include "graph/made_ops.def"
#undef MADE
    };
    static char manual[1 << 17];
    FILE *file = fopen(INLAY_SOURCE_DIR "/sdk/include/inlay/graph_view.h", "r");
    char *list, *end, word[96];
    uint32_t commas = 0;

    (void)state;
    assert_non_null(file);
    manual[fread(manual, 1, sizeof manual - 1, file)] = '\0';
    assert_int_equal(fclose(file), 0);
    list = strstr(manual, "of ai.onnx:");
    assert_non_null(list);
    end = strstr(list, " * The list grows");
    assert_non_null(end);
    *end = '\0';
    for (char *c = list; *c != '\0'; c++) {
        commas += *c == ',';
        if (*c == ',' || *c == ';' || *c == '\n' || *c == '.')
            *c = ' ';
    }
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        (void)snprintf(word, sizeof word, " %s ", ops[i].op);
        if (strstr(list, word) == NULL)
            fail_msg("graph_view.h does not list %s", ops[i].op);
        assert_true(ops[i].minor <= INLAY_ABI_MINOR);
    }
    assert_int_equal(commas + 3, sizeof ops / sizeof ops[0]); /* three lists */
}

/* Operators that were added to the list after a plugin was built are not offered to the plugin. */
static void older_plugins(void **state)
{
    graph_node node = { 0 };

    (void)state;
    node.info.op_type = (inlay_str){ "Swish", 5 };
    node.info.domain = (inlay_str){ "ai.onnx", 7 };
    assert_int_equal(graph_op_since_minor(&node), 0);
    node.made_by = "swish";
    assert_int_equal(graph_op_since_minor(&node), 0);
    node.info.op_type = (inlay_str){ "NoSuchOperator", 14 };
    assert_int_equal(graph_op_since_minor(&node), UINT32_MAX);
}

/* Nodes that would give a value another shape are not restored. */
static void guarded(void **state)
{
    static const char script[] = "x : 2,3\nz : 4,2,3\na = Sigmoid(x)\nb = Mul(a, x)\ny = ReduceSum(b) keepdims=0\n-> y";
    const char *options[] = { "plugin_dirs", NARROW_DIR, "probe", "never", "cache_dir", "", "providers", "narrow" };
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    assert_int_equal(setenv("NARROW_OPS", " Sigmoid Mul ReduceSum ", 1), 0);
    for (int wrong = 0; wrong < 2; wrong++) {
        inlay_session *session = NULL;
        inlay_options *created = NULL;
        struct program *program = NULL;
        const graph_node *node;
        char ops[64];
        struct wire wire = { 0 };
        struct graph *graph;

        script_model(&wire, 17, script);
        assert_int_equal(inlay_options_create(&created, &diag), INLAY_OK);
        for (size_t i = 0; i < sizeof options / sizeof options[0]; i += 2)
            assert_int_equal(inlay_options_set(created, options[i], options[i + 1], &diag), INLAY_OK);
        if (session_prepare(&(session_source){ .data = wire.bytes, .bytes = wire.count }, created, NULL, &session,
                            &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        graph = session->model->main;
        session->model->trusts_file = true; /* the mistake may be the file's, so that checks do not end the process */
        for (uint32_t i = 0; wrong && (node = history_replaced(graph, graph->nodes[0]->rewrite, i)) != NULL; i++)
            if (strcmp(node->info.op_type.data, "Mul") == 0)
                ((uint32_t *)(uintptr_t)node->info.inputs)[1] = graph->inputs[1];
        assert_int_equal(program_create(graph, &session->env, &program, &diag), wrong ? INLAY_UNSUPPORTED : INLAY_OK);
        list_ops(graph, ops, sizeof ops);
        assert_string_equal(ops, wrong ? "Swish ReduceSum" : "Sigmoid Mul ReduceSum");
        if (wrong)
            assert_non_null(strstr(diag.text, "which pass swish made"));
        program_destroy(program);
        inlay_session_destroy(session);
        inlay_options_destroy(created);
        wire_deinit(&wire);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_original_operators),
        cmocka_unit_test(the_fused_form),
        cmocka_unit_test(by_cost),
        cmocka_unit_test(declined_by_compile),
        cmocka_unit_test(every_level),
        cmocka_unit_test(refusals),
        cmocka_unit_test(refused_shapes),
        cmocka_unit_test(rules),
        cmocka_unit_test(bodies),
        cmocka_unit_test(saved_plans),
        cmocka_unit_test(manual_lists_created_operators),
        cmocka_unit_test(older_plugins),
        cmocka_unit_test(guarded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
