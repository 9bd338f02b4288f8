/* test_modelkit.c - edits, differences and reductions of models, by function calls. */
#include "planted.h"
#include "model/model.h"
#include "modelkit/change.h"
#include "modelkit/diff.h"
#include "modelkit/reduce.h"

static graph_model *load(const struct wire *wire)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model = NULL;

    if (model_load_bytes(wire->bytes, wire->count, NULL, &model, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return model;
}

static graph_model *load_script(struct wire *wire, const char *script)
{
    *wire = (struct wire){ 0 };
    script_model(wire, 17, script);
    return load(wire);
}

static const char mlp[] = "x : N,16\n w = [16,8]\n b = [8]\n h = MatMul(x, w)\n s = Add(h, b)\n y = Relu(s)\n -> y";
static const char loops[] = "x : 2,8\n zero = [] 0.0\n s = ReduceSum(x) keepdims=0\n t = Greater(s, zero)\n"
                            "y = If(t) then:Neg(x) else:Relu(x)\n -> y";

static const char *metadata_of(const graph_model *model, const char *key)
{
    for (uint32_t i = 0; i < model->metadata_count; i++)
        if (strcmp(model->metadata[i].key, key) == 0)
            return model->metadata[i].value;
    return NULL;
}

static void test_metadata(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire;
    graph_model *model = load_script(&wire, mlp);

    (void)state;
    assert_int_equal(change_metadata(model, "author", "me", &diag), INLAY_OK);
    assert_int_equal(change_metadata(model, "license", "MIT", &diag), INLAY_OK);
    assert_int_equal(change_metadata(model, "author", "you", &diag), INLAY_OK);
    assert_int_equal(model->metadata_count, 2);
    assert_string_equal(metadata_of(model, "author"), "you");
    assert_int_equal(change_metadata(model, "author", NULL, &diag), INLAY_OK);
    assert_null(metadata_of(model, "author"));
    assert_string_equal(metadata_of(model, "license"), "MIT");
    assert_int_equal(change_metadata(model, "author", NULL, &diag), INLAY_INVALID_ARGUMENT);
    graph_model_destroy(model);
    wire_deinit(&wire);
}

static void test_names(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire;
    graph_model *model = load_script(&wire, loops);

    (void)state;
    assert_int_equal(change_input_name(model, "x", "image", &diag), INLAY_OK);
    assert_int_equal(change_output_name(model, "y", "scores", &diag), INLAY_OK);
    assert_string_equal(model->main->values[model->main->inputs[0]].info.name.data, "image");
    assert_string_equal(model->main->values[model->main->outputs[0]].info.name.data, "scores");
    assert_int_equal(change_input_name(model, "x", "z", &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(change_input_name(model, "imag", "z", &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "did you mean 'image'"));
    assert_int_equal(change_input_name(model, "image", "s", &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "another value"));
    assert_int_equal(change_input_name(model, "image", "", &diag), INLAY_INVALID_ARGUMENT);
    graph_model_destroy(model);
    wire_deinit(&wire);
}

static void test_dims(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire;
    graph_model *model = load_script(&wire, mlp);
    const graph_value *value = &model->main->values[model->main->inputs[0]];

    (void)state;
    assert_int_equal(change_dim(model, "M", 4, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(change_dim(model, "x:2", 4, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(change_dim(model, "x:-2", 4, &diag), INLAY_OK);
    assert_int_equal(value->declared_dims[0].kind, INLAY_DIM_FIXED);
    assert_int_equal(value->declared_dims[0].value, 4);
    assert_int_equal(change_dim(model, "N", 4, &diag), INLAY_INVALID_ARGUMENT);
    graph_model_destroy(model);
    wire_deinit(&wire);
    model = load_script(&wire, mlp);
    assert_int_equal(change_dim(model, "N", 7, &diag), INLAY_OK);
    assert_int_equal(model->main->values[model->main->inputs[0]].declared_dims[0].value, 7);
    graph_model_destroy(model);
    wire_deinit(&wire);
}

static uint32_t count_side(const struct diff *diff, diff_side side, const char *text)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < diff->part_count; i++)
        for (uint32_t k = 0; k < diff->parts[i].count; k++)
            count += diff->parts[i].lines[k].side == side && strstr(diff->parts[i].lines[k].text, text) != NULL;
    return count;
}

static struct diff compare(const char *left, const char *right)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    static struct wire wires[2];
    static graph_model *models[2];
    struct diff diff;

    for (int i = 0; i < 2; i++) { /* the models of a call exist until the next call, which destroys them */
        graph_model_destroy(models[i]);
        wire_deinit(&wires[i]);
        models[i] = left == NULL ? NULL : load_script(&wires[i], i == 0 ? left : right);
    }
    if (left == NULL)
        return (struct diff){ .part_count = 0 };
    assert_int_equal(diff_models(models[0], models[1], &diff, &diag), INLAY_OK);
    return diff;
}

static void test_diff(void **state)
{
    struct diff diff = compare(mlp, mlp);

    (void)state;
    assert_int_equal(diff.changed, 0);
    assert_int_equal(diff.weight_count, 0);
    diff_deinit(&diff);
    /* A node inserted in the middle changes its line and that of its consumer. */
    diff = compare(
        mlp, "x : N,16\n w = [16,8]\n b = [8]\n h = MatMul(x, w)\n s = Add(h, b)\n t = Tanh(s)\n y = Relu(t)\n -> y");
    assert_int_equal(count_side(&diff, DIFF_B, "Tanh(s)"), 1);
    assert_int_equal(count_side(&diff, DIFF_A, "Relu(s)"), 1);
    assert_int_equal(count_side(&diff, DIFF_B, "Relu(t)"), 1);
    assert_int_equal(diff.changed, 3);
    diff_deinit(&diff);
    /* An attribute, a shape, a weight. */
    diff = compare("x : 2,3,4\n y = Transpose(x) perm=0,2,1\n -> y", "x : 2,3,4\n y = Transpose(x) perm=1,0,2\n -> y");
    assert_int_equal(count_side(&diff, DIFF_A, "perm=[0, 2, 1]"), 1);
    assert_int_equal(count_side(&diff, DIFF_B, "perm=[1, 0, 2]"), 1);
    diff_deinit(&diff);
    diff = compare("x : 4\n w = [12] @3 1.25\n y = Relu(x)\n -> y", "x : 4\n w = [12] @3 3.25\n y = Relu(x)\n -> y");
    assert_int_equal(diff.weight_count, 1);
    assert_string_equal(diff.weights[0].name, "w");
    assert_int_equal(diff.weights[0].elements, 12);
    assert_int_equal(diff.weights[0].differing, 1);
    assert_float_equal(diff.weights[0].largest, 2.0, 1e-9);
    assert_int_equal(diff.changed, 2);
    diff_deinit(&diff);
    /* Inside of bodies. */
    diff = compare(loops, "x : 2,8\n zero = [] 0.0\n s = ReduceSum(x) keepdims=0\n t = Greater(s, zero)\n"
                          "y = If(t) then:Abs(x) else:Relu(x)\n -> y");
    assert_int_equal(count_side(&diff, DIFF_A, "Neg("), 1);
    assert_int_equal(count_side(&diff, DIFF_B, "Abs("), 1);
    assert_int_equal(diff.changed, 2);
    diff_deinit(&diff);
    (void)compare(NULL, NULL);
}

/* An If in each branch of an If, both without a name. Their bodies have one node each, `ops`. */
static graph_model *load_nested(struct wire *wire, const char *const ops[4])
{
    wire_mark mark, node;

    *wire = (struct wire){ 0 };
    mark = plant_begin(wire, "4", 17);
    mw_scalar(wire, "c", INLAY_BOOL, 1);
    node = mw_node_begin(wire, "If", "c", "y");
    for (int outer = 0; outer < 2; outer++) {
        const mw_body body = mw_body_begin(wire, outer == 0 ? "then_branch" : "else_branch", "outer");
        const char *out = outer == 0 ? "t" : "e";
        const wire_mark inner_node = mw_node_begin(wire, "If", "c", out);

        for (int i = 0; i < 2; i++) {
            const mw_body inner = mw_body_begin(wire, i == 0 ? "then_branch" : "else_branch", "inner");
            char name[8];

            (void)snprintf(name, sizeof name, "%s%d", out, i);
            mw_node(wire, ops[2 * outer + i], "x", name);
            mw_value(wire, MW_OUTPUT, name, INLAY_FLOAT, "4");
            mw_body_end(wire, inner);
        }
        wire_end(wire, inner_node);
        mw_value(wire, MW_OUTPUT, out, INLAY_FLOAT, "4");
        mw_body_end(wire, body);
    }
    wire_end(wire, node);
    plant_end(wire, mark, "4");
    return load(wire);
}

/* Bodies of nodes with the same name in different graphs are compared with each other in their order. */
static void test_diff_of_nested_bodies(void **state)
{
    static const char *const ops[][4] = { { "Neg", "Abs", "Relu", "Exp" }, { "Neg", "Abs", "Relu", "Tanh" } };
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *models[3];
    struct wire wires[3];
    struct diff diff;

    (void)state;
    for (int i = 0; i < 3; i++)
        models[i] = load_nested(&wires[i], ops[i / 2]);
    assert_int_equal(diff_models(models[0], models[1], &diff, &diag), INLAY_OK);
    assert_int_equal(diff.changed, 0);
    diff_deinit(&diff);
    assert_int_equal(diff_models(models[0], models[2], &diff, &diag), INLAY_OK);
    assert_int_equal(count_side(&diff, DIFF_A, "Exp("), 1);
    assert_int_equal(count_side(&diff, DIFF_B, "Tanh("), 1);
    assert_int_equal(diff.changed, 2);
    diff_deinit(&diff);
    for (int i = 0; i < 3; i++) {
        graph_model_destroy(models[i]);
        wire_deinit(&wires[i]);
    }
}

/* The lines of each side of the differences, in order, are the complete model of that side. */
static void test_diff_is_whole(void **state)
{
    struct diff diff = compare(mlp, loops);

    (void)state;
    for (uint32_t i = 0; i < diff.part_count; i++) {
        const diff_part *part = &diff.parts[i];

        for (int side = 0; side < 2; side++) {
            uint32_t at = 0;

            for (uint32_t t = 0; t < diff.text[side].count; t++) {
                const lines_part *of = &diff.text[side].parts[t];

                if (strcmp(of->title, part->title) != 0)
                    continue;
                for (uint32_t k = 0; k < part->count; k++)
                    if (part->lines[k].side != (side == 0 ? DIFF_B : DIFF_A))
                        assert_string_equal(part->lines[k].text, of->lines[at++]);
                assert_int_equal(at, of->count);
            }
        }
    }
    diff_deinit(&diff);
    (void)compare(NULL, NULL);
}

/* The checked fault occurs in parts with all nodes of `needed`. A part with only one of the two nodes `together` is not
 * a valid model. */
struct oracle {
    uint32_t needed[4], need_count;
    uint32_t together[2];
    uint32_t calls, stop_after;
};

static bool has(const uint32_t *list, uint32_t count, uint32_t v)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == v)
            return true;
    return false;
}

static reduce_answer ask(void *ctx, const uint32_t *list, uint32_t count, inlay_status *status, inlay_diag *diag)
{
    struct oracle *oracle = ctx;

    if (++oracle->calls == oracle->stop_after) {
        *status = inlay_fail(diag, INLAY_CANCELLED, "stopped");
        return REDUCE_STOP;
    }
    for (uint32_t i = 1; i < count; i++)
        assert_true(list[i] > list[i - 1]);
    if (oracle->together[1] > 0 && has(list, count, oracle->together[0]) != has(list, count, oracle->together[1]))
        return REDUCE_PASSES;
    for (uint32_t i = 0; i < oracle->need_count; i++)
        if (!has(list, count, oracle->needed[i]))
            return REDUCE_PASSES;
    return REDUCE_FAILS;
}

static struct reduction all_of(uint32_t *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        list[i] = i;
    return (struct reduction){ .list = list, .count = count, .most = 10000 };
}

static void test_reduce(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t list[1000];
    struct reduction reduction = all_of(list, 1000);
    struct oracle one = { .needed = { 617 }, .need_count = 1 }, three = { .needed = { 3, 500, 999 }, .need_count = 3 };
    struct oracle pair = { .needed = { 40 }, .need_count = 1, .together = { 40, 700 } }, stopped = { .stop_after = 3 };

    (void)state;
    assert_int_equal(reduce_nodes(&reduction, ask, &one, &diag), INLAY_OK);
    assert_int_equal(reduction.count, 1);
    assert_int_equal(list[0], 617);
    assert_true(one.calls < 40);
    reduction = all_of(list, 1000);
    assert_int_equal(reduce_nodes(&reduction, ask, &three, &diag), INLAY_OK);
    assert_int_equal(reduction.count, 3);
    assert_true(list[0] == 3 && list[1] == 500 && list[2] == 999);
    reduction = all_of(list, 1000);
    assert_int_equal(reduce_nodes(&reduction, ask, &pair, &diag), INLAY_OK);
    assert_int_equal(reduction.count, 2);
    assert_true(list[0] == 40 && list[1] == 700);
    /* Cancelled: the result is the smallest part so far. */
    reduction = all_of(list, 1000);
    assert_int_equal(reduce_nodes(&reduction, ask, &stopped, &diag), INLAY_CANCELLED);
    assert_int_equal(reduction.count, 250);
    /* The limit of attempts is reached. */
    three.calls = 0;
    reduction = all_of(list, 1000);
    reduction.most = 5;
    assert_int_equal(reduce_nodes(&reduction, ask, &three, &diag), INLAY_OK);
    assert_int_equal(three.calls, 5);
    assert_true(reduction.count >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_dims),
        cmocka_unit_test(test_diff),
        cmocka_unit_test(test_diff_is_whole),
        cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_diff_of_nested_bodies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
