/* Passes cannot change the type, the rank or a size of a value: a wrong edit for each way of replacing a value. */
#include "model/model.h"
#include "passes/type_guard.h"
#include "passes/rewrite.h"
#include "rewrite_rows.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Loads a model for passes. Its errors may come from the file, so that checks do not abort the process. */
static graph_model *load(struct wire *wire)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model = NULL;

    if (model_load_bytes(wire->bytes, wire->count, NULL, &model, &diag) != INLAY_OK ||
        graph_bind(model, NULL, &diag) != INLAY_OK || graph_infer(model, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    model->trusts_file = true;
    return model;
}

/* The model reads from memory that the next call frees. */
static graph_model *load_script(const char *script)
{
    static struct wire wire;

    wire_deinit(&wire);
    script_model(&wire, 17, script);
    return load(&wire);
}

#ifdef INLAY_CHECKS
/* Runs the pass in a child process, which INLAY_CHECK() must abort. */
static void expect_abort(pass_fn pass, pass_ctx *ctx)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        bool changed = false;

        (void)pass(ctx, &changed);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
#endif

/* Runs the pass; *out_changed is its result. A wrong pass must report no change; with INLAY_CHECKS it aborts. */
static void run_pass(pass_fn pass, pass_ctx *ctx, bool wrong, bool *out_changed)
{
    *out_changed = false;
    ctx->model->trusts_file = false;
#ifdef INLAY_CHECKS
    if (wrong) {
        expect_abort(pass, ctx);
        return;
    }
#endif
    assert_int_equal(pass(ctx, out_changed), INLAY_OK);
    assert_int_equal(*out_changed, !wrong);
}

static void expect_ops(const char *name, const graph_model *model, const char *ops)
{
    char text[256];

    list_ops(model->main, text, sizeof text);
    if (strcmp(text, ops) != 0)
        fail_msg("%s: the operators are '%s', expected '%s'", name, text, ops);
}

/* The wrong edit of an earlier pass, which the next pass would propagate to the value that the graph reads. */
struct wrong_edit {
    const char *name, *script;
    pass_fn pass;
    void (*spoil)(struct graph *graph);
    const char *ops;   /* with the wrong edit */
    const char *right; /* without it */
};

static uint32_t value(const struct graph *graph, const char *name)
{
    uint32_t v = graph_find_value(graph, name);

    assert_int_not_equal(v, INLAY_NONE);
    return v;
}

static void spoil_attribute(struct graph *graph)
{
    static const float three[3];
    const inlay_attr_info attr = {
        .name = { "value_floats", 12 }, .kind = INLAY_ATTR_FLOATS, .floats = three, .count = 3
    };

    assert_int_equal(graph_set_attr(graph, graph->nodes[0], &attr), INLAY_OK);
}

static void spoil_shape(struct graph *graph)
{
    static const int64_t shape[] = { 3, 2 }, two = 2;

    assert_int_equal(graph_set_constant(graph, value(graph, "s"), INLAY_INT64, 1, &two, shape, sizeof shape), INLAY_OK);
}

static void spoil_captured(struct graph *graph)
{
    static const float data[3];
    static const int64_t three = 3;

    assert_int_equal(graph_set_constant(graph, value(graph, "k"), INLAY_FLOAT, 1, &three, data, sizeof data), INLAY_OK);
}

static void spoil_branch(struct graph *graph)
{
    const graph_body *body = &graph->nodes[0]->bodies[0];

    assert_string_equal(body->attr, "then_branch");
    assert_int_equal(body->capture_count, 2);
    body->graph->outputs[0] = body->capture_inner[body->graph->values[body->capture_inner[0]].info.rank == 1 ? 0 : 1];
}

static uint32_t captures(const struct graph *graph)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < graph->node_count; i++)
        count += graph->nodes[i]->capture_count;
    return count;
}

/* A folding function that folds views only, without a provider. */
static inlay_status fold_views_only(void *ctx, struct graph *graph, graph_node *node, uint32_t dying,
                                    uint64_t max_bytes, inlay_tensor_view *results, struct arena *arena,
                                    inlay_diag *diag)
{
    (void)ctx, (void)graph, (void)node, (void)dying, (void)max_bytes, (void)results, (void)arena, (void)diag;
    return INLAY_UNSUPPORTED;
}

static void wrong_edits_are_not_propagated(void **state)
{
    static const struct wrong_edit edits[] = {
        { "Constant", "x : 2\nc = Constant() value_floats=1.5,2.5\nz = Add(x, c)\n-> z", pass_constant_nodes,
          spoil_attribute, "Constant Add", "Add" },
        { "a constant's view", "x : 6\nc = [2,3]\ns = i[1] 6\na = Reshape(c, s)\ny = Add(x, a)\n-> y",
          pass_fold_constants, spoil_shape, "Reshape Add", "Add" },
        { "If", "x : 2,3\nz : 3\nc = bool[] 1\ny = If(c) then:Add(x,z) else:Mul(x,z)\n-> y", pass_if_constant,
          spoil_branch, "If", "Add" },
    };

    (void)state;
    for (size_t i = 0; i < 2 * (sizeof edits / sizeof edits[0]); i++) {
        const struct wrong_edit *wrong_edit = &edits[i / 2];
        graph_model *model = load_script(wrong_edit->script);
        pass_ctx ctx = {
            .model = model, .providers.fold = fold_views_only, .limits.fold_bytes = 1 << 20, .limits.rewrites = -1
        };
        bool changed = false;

        if (i % 2 == 0)
            wrong_edit->spoil(model->main);
        run_pass(wrong_edit->pass, &ctx, i % 2 == 0, &changed);
        expect_ops(wrong_edit->name, model, i % 2 == 0 ? wrong_edit->ops : wrong_edit->right);
        graph_model_destroy(model);
    }
}

/* The branches differ in rank, so that inference does not know the rank of the If. The file declares the rank of the
 * branch that does not run, which is wrong, and the If is replaced by the other branch. */
static void wrong_declaration(void **state)
{
    static const inlay_dim three = { .kind = INLAY_DIM_FIXED, .value = 3 };
    graph_model *model =
        load_script("x : 2,3\nz : 3\nc = bool[] 1\na = If(c) then:Neg(x) else:Neg(z)\ny = Abs(a)\n=> y");
    graph_value *branch_value = &model->main->values[value(model->main, "a")];
    pass_ctx ctx = { .model = model, .limits.rewrites = -1 };
    bool changed = false;

    (void)state;
    branch_value->declared = true;
    branch_value->declared_dtype = INLAY_FLOAT;
    branch_value->declared_rank = 1;
    branch_value->declared_dims = &three;
    assert_int_equal(graph_infer(model, NULL), INLAY_OK);
    assert_true(model->trusts_file);
    assert_int_equal(branch_value->info.rank, 1);
    assert_int_equal(pass_if_constant(&ctx, &changed), INLAY_OK);
    assert_true(changed);
    graph_model_destroy(model);
}

static void captured_constants(void **state)
{
    static const char script[] = "x : 2\nc : 1\nt = [] 1\nb = Greater(c, t)\nk = [2]\n"
                                 "y = If(b) then:Add(x,k) else:Mul(x,k)\n=> y";

    (void)state;
    for (int wrong = 0; wrong < 2; wrong++) {
        graph_model *model = load_script(script);
        pass_ctx ctx = { .model = model, .limits.rewrites = -1 };
        bool changed = false;

        assert_int_equal(captures(model->main), 2);
        if (wrong)
            spoil_captured(model->main);
        run_pass(pass_capture_constants, &ctx, wrong, &changed);
        assert_int_equal(captures(model->main), wrong ? 2 : 1);
        graph_model_destroy(model);
    }
}

/* The Loop carries y of shape [2], and s stacks it; the wrong edit returns the body's `other` of shape [3] instead. */
static graph_model *load_loop(bool y_is_output)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), loop;
    graph_model *model;
    mw_body body;

    mw_value(&wire, MW_INPUT, "x", RIG_FLOAT, "2");
    mw_value(&wire, MW_INPUT, "z", RIG_FLOAT, "3");
    mw_ints(&wire, "n", 0, 1, (int64_t[]){ 2 });
    loop = mw_node_begin(&wire, "Loop", "n,,x", "y,s");
    body = mw_body_begin(&wire, "body", "body");
    mw_value(&wire, MW_INPUT, "i", RIG_INT64, "");
    mw_value(&wire, MW_INPUT, "c", RIG_BOOL, "");
    mw_value(&wire, MW_INPUT, "v", RIG_FLOAT, NULL);
    mw_node(&wire, "Identity", "c", "go");
    mw_node(&wire, "Neg", "v", "next");
    mw_node(&wire, "Neg", "z", "other");
    mw_node(&wire, "Abs", "x", "row");
    mw_value(&wire, MW_OUTPUT, "go", RIG_BOOL, "");
    mw_value(&wire, MW_OUTPUT, "next", RIG_FLOAT, NULL);
    mw_value(&wire, MW_OUTPUT, "row", RIG_FLOAT, NULL);
    mw_body_end(&wire, body);
    wire_end(&wire, loop);
    mw_node(&wire, "Neg", "y", "u");
    mw_value(&wire, MW_OUTPUT, y_is_output ? "y" : "u", RIG_FLOAT, NULL);
    mw_value(&wire, MW_OUTPUT, "s", RIG_FLOAT, NULL);
    wire_end(&wire, mark);
    model = load(&wire);
    wire_deinit(&wire);
    return model;
}

static void unrolled_loops(void **state)
{
    (void)state;
    for (int wrong = 0; wrong < 4; wrong++) { /* no error, the carried value, the stacked value, a carried output */
        graph_model *model = load_loop(wrong == 3);
        struct graph *body = model->main->nodes[0]->bodies[0].graph;
        const uint32_t nodes = model->main->node_count;
        pass_ctx ctx = { .model = model, .limits.rewrites = -1 };
        bool changed = false;

        if (wrong > 0)
            body->outputs[wrong == 2 ? 2 : 1] = value(body, "other");
        run_pass(pass_unroll, &ctx, wrong > 0, &changed);
        if (wrong > 0)
            assert_int_equal(model->main->node_count, nodes);
        assert_int_equal(graph_bind(model, NULL, NULL), INLAY_OK);
        assert_int_equal(graph_finish(model->main, NULL), INLAY_OK);
        graph_model_destroy(model);
    }
}

static struct {
    inlay_dtype dtype;
    uint32_t rank;
    int64_t dims[2];
} folded;

static inlay_status fold_wrongly(void *ctx, struct graph *graph, graph_node *node, uint32_t dying, uint64_t max_bytes,
                                 inlay_tensor_view *results, struct arena *arena, inlay_diag *diag)
{
    static const double zeros[6];

    (void)ctx, (void)graph, (void)node, (void)dying, (void)max_bytes, (void)arena, (void)diag;
    results[0] = (inlay_tensor_view){
        .data = zeros, .bytes = sizeof zeros, .dims = folded.dims, .rank = folded.rank, .dtype = folded.dtype
    };
    return INLAY_OK;
}

static inlay_status run(graph_model *model, pass_fold_fn fold, inlay_diag *diag)
{
    pass_ctx ctx = {
        .model = model, .providers.fold = fold, .limits.fold_bytes = 1 << 20, .limits.rewrites = -1, .diag = diag
    };

    return passes_run(&ctx, 1);
}

static void folded_constants(void **state)
{
    static const struct {
        inlay_dtype dtype;
        uint32_t rank;
        int64_t dims[2];
    } results[] = {
        { INLAY_FLOAT, 2, { 2, 3 } },  { INLAY_FLOAT, 2, { 3, 2 } }, { INLAY_FLOAT, 1, { 6, 0 } },
        { INLAY_DOUBLE, 2, { 2, 3 } }, { INLAY_FLOAT, 0, { 0, 0 } },
    };

    (void)state;
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        graph_model *model = load_script("x : 2,3\nc = [2,3]\na = Abs(c)\ny = Add(x, a)\n-> y");
        inlay_diag diag = INLAY_DIAG_INIT;

        model->trusts_file = false; /* the provider is to blame, not a pass: no check ends the process */
        memcpy(&folded, &results[i], sizeof folded); /* the first result is right */
        assert_int_equal(run(model, fold_wrongly, &diag), INLAY_OK);
        expect_ops("fold", model, i == 0 ? "Add" : "Abs Add");
        graph_model_destroy(model);
    }
}

typedef enum mistake {
    READS_OTHER,
    SETS_ATTRIBUTE,
    EDITS_IN_PLACE,
    FORWARDS_CONSTANT,
    FORWARDS_INVALID,
    READS_INVALID,
    MISTAKES
} mistake;
static mistake planted;

/* Inserts a Transpose of the node's input that names an axis which the input lacks. */
static uint32_t insert_invalid(struct rewrite *rewrite, const graph_node *node)
{
    const int64_t perm[] = { 0, -7 };
    graph_node *transpose = rewrite_make_node(rewrite, "Transpose", 0, NULL, node->info.inputs, 1, 1);

    assert_non_null(transpose);
    assert_int_equal(graph_set_attr_ints(rewrite->graph, transpose, "perm", perm, 2), INLAY_OK);
    assert_int_equal(rewrite_insert_node(rewrite, transpose, INLAY_FLOAT), INLAY_OK);
    return transpose->info.outputs[0];
}

static inlay_status edit(struct rewrite *rewrite, graph_node *node)
{
    const uint32_t other = value(rewrite->graph, "k"), constant = value(rewrite->graph, "c");
    graph_node *fresh;
    bool done;

    if (!pass_is_op(node, "Flatten"))
        return INLAY_OK;
    if (planted == FORWARDS_CONSTANT)
        return rewrite_forward(rewrite, constant, other, &done);
    if (planted == FORWARDS_INVALID || planted == READS_INVALID) {
        uint32_t made = insert_invalid(rewrite, node);

        if (planted == FORWARDS_INVALID)
            return rewrite_forward(rewrite, node->info.outputs[0], made, &done);
        fresh = rewrite_make_node(rewrite, "Identity", 0, NULL, &made, 1, 1);
        assert_non_null(fresh);
        return rewrite_replace_node(rewrite, node, fresh);
    }
    if (planted == EDITS_IN_PLACE) {
        rewrite_set_input(rewrite, node, 0, other);
        return INLAY_OK;
    }
    fresh = rewrite_copy_node(rewrite, node);
    assert_non_null(fresh);
    if (planted == READS_OTHER)
        rewrite_set_input(rewrite, fresh, 0, other);
    else
        assert_int_equal(graph_set_attr_int(rewrite->graph, fresh, "axis", 0), INLAY_OK);
    return rewrite_replace_node(rewrite, node, fresh);
}

static void edited_nodes(void **state)
{
    (void)state;
    for (planted = 0; planted < MISTAKES; planted++) {
        graph_model *model = load_script("x : 2,3\nk = [3,2]\nc = [2,3]\na = Flatten(x) axis=1\nb = Add(a, c)\n"
                                         "d = Abs(k)\n-> b, d");
        pass_ctx ctx = { .model = model, .limits.rewrites = -1, .run.pass = "careless" };
        const graph_node *flatten = model->main->nodes[0];
        const uint32_t read = flatten->info.inputs[0];
        bool changed = false;

        assert_int_equal(rewrite_each_graph(&ctx, edit, &changed), INLAY_OK);
        assert_false(changed);
        assert_int_equal(model->main->node_count, 3);
        assert_ptr_equal(model->main->nodes[0], flatten);
        assert_int_equal(flatten->info.inputs[0], read);
        assert_int_equal(graph_attr_int(flatten, "axis", 0), 1);
        assert_int_equal(model->main->nodes[1]->info.inputs[1], value(model->main, "c"));
        graph_model_destroy(model);
    }
}

static inlay_status run_passes(pass_ctx *ctx, bool *out_changed)
{
    *out_changed = false;
    return passes_run(ctx, 1);
}

static inlay_status verify(pass_ctx *ctx, bool *out_changed)
{
    *out_changed = false;
    return type_guard_verify(ctx);
}

/* Expects the step to succeed; if wrong, to fail with a message that contains `part`, or to abort with INLAY_CHECKS. */
static void expect_step(pass_fn step, pass_ctx *ctx, bool wrong, const char *part)
{
    bool changed;

#ifdef INLAY_CHECKS
    (void)part;
    if (wrong) {
        expect_abort(step, ctx);
        return;
    }
#endif
    assert_int_equal(step(ctx, &changed), wrong ? INLAY_INTERNAL : INLAY_OK);
    if (wrong && strstr(ctx->diag->text, part) == NULL)
        fail_msg("%s", ctx->diag->text);
    if (wrong)
        assert_int_equal(type_guard_verify(ctx), INLAY_OK); /* reported once */
}

/* The expansion of a node that no provider supports as a whole is an error if it gives another type or shape. */
static void expected_values(void **state)
{
    static const inlay_dim wrong = { .kind = INLAY_DIM_FIXED, .value = 7 };
    static const char script[] = "q : 1,2,3,4\nk : 1,2,5,4\nv : 1,2,5,4\ny = pv.FlexAttention(q, k, v)\n-> y";

    (void)state;
    for (int mistaken = 0; mistaken < 2; mistaken++) {
        graph_model *model = load_script(script);
        inlay_diag diag = INLAY_DIAG_INIT;
        pass_ctx ctx = { .model = model, .limits.rewrites = -1, .diag = &diag };

        model->trusts_file = false;
        if (mistaken)
            model->main->values[value(model->main, "y")].info.dims = &wrong;
        expect_step(run_passes, &ctx, mistaken, "pass 'flex_attention' changes the type or shape of 'y'");
        graph_model_destroy(model);
    }
}

/* An edit that bypasses all functions above: builds with INLAY_CHECKS find it around each round of passes. */
static void verified_after_each_round(void **state)
{
    (void)state;
    for (int wrong = 0; wrong < 2; wrong++) {
        graph_model *model = load_script("x : 2,3\nz : 3\na = Neg(x)\ny = Abs(a)\n-> y");
        inlay_diag diag = INLAY_DIAG_INIT;
        pass_ctx ctx = { .model = model, .run.pass = "careless", .diag = &diag };

        model->trusts_file = false;
        type_guard_expect_all(&ctx);
        if (wrong)
            ((uint32_t *)(uintptr_t)model->main->nodes[0]->info.inputs)[0] = value(model->main, "z");
        assert_int_equal(graph_infer(model, &diag), INLAY_OK);
        expect_step(verify, &ctx, wrong, "pass 'careless' changes the type or shape of 'a'");
        graph_model_destroy(model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_edits_are_not_propagated),
        cmocka_unit_test(wrong_declaration),
        cmocka_unit_test(captured_constants),
        cmocka_unit_test(unrolled_loops),
        cmocka_unit_test(folded_constants),
        cmocka_unit_test(edited_nodes),
        cmocka_unit_test(expected_values),
        cmocka_unit_test(verified_after_each_round),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
