/* The sizes at which costs of a graph are estimated, and the keys that equal layers share. */
#include "model/model.h"
#include "inlay/plugin.h"
#include "model_script.h"
#include "cmocka_all.h"
#include "partition/cost/cost_class.h"
#include "partition/cost/cost_key.h"

/* A small graph after loading, binding and shape inference. */
struct rig {
    graph_model *model;
    inlay_graph snapshot;
    struct arena arena;
    inlay_value_state *values;
};

static void load(struct rig *rig, struct wire *wire)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    *rig = (struct rig){ .model = NULL };
    assert_false(wire->failed);
    if (model_load_bytes(wire->bytes, wire->count, NULL, &rig->model, &diag) != INLAY_OK ||
        graph_bind(rig->model, NULL, &diag) != INLAY_OK || graph_infer(rig->model, &diag) != INLAY_OK ||
        graph_snapshot(rig->model->main, &rig->arena, &rig->snapshot, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
}

static void drop(struct rig *rig, struct wire *wire)
{
    arena_deinit(&rig->arena);
    graph_model_destroy(rig->model);
    wire_deinit(wire);
}

static const inlay_value_state *value(const struct rig *rig, const char *name)
{
    uint32_t value_index = graph_find_value(rig->model->main, name);

    assert_int_not_equal(value_index, INLAY_NONE);
    return &rig->values[value_index];
}

/* "1,3,224,224" */
static void expect_shape(const struct rig *rig, const char *name, const char *shape)
{
    const inlay_value_state *state = value(rig, name);
    char text[128] = "";

    for (uint32_t d = 0; d < state->rank; d++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%lld", d > 0 ? "," : "",
                       (long long)state->dims[d]);
    assert_string_equal(text, shape);
}

/* A model with inputs of several kinds and values whose shapes depend on them. */
static void write_model(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17), n;

    script_add(wire, "image : N,C,H,W\n"
                     "ids : int64 batch,length\n"
                     "state : 2,batch,512\n"
                     "chw : 3,h,w");
    n = mw_node_begin(wire, "MaxPool", "image", "pooled");
    {
        static const int64_t two[] = { 2, 2 };
        for (int a = 0; a < 2; a++) {
            wire_mark attr = wire_begin(wire, 5);
            wire_text(wire, 1, a == 0 ? "kernel_shape" : "strides");
            wire_int(wire, 20, 7);
            for (int i = 0; i < 2; i++)
                wire_int(wire, 8, two[i]);
            wire_end(wire, attr);
        }
    }
    wire_end(wire, n);
    script_add(wire, "shape = Shape(pooled)\n"
                     "found = NonZero(ids)\n"
                     "less = Neg(found)\n"
                     "minus = Neg(state)\n"
                     "dark = Neg(chw)\n"
                     "-> shape, less : int64\n"
                     "-> minus, dark");
    wire_end(wire, mark);
}

static void sizes_have_defaults(void **state)
{
    struct wire wire = { 0 };
    struct rig rig;
    int64_t dims[4];

    (void)state;
    write_model(&wire);
    load(&rig, &wire);
    rig.values = cost_shapes(rig.model->main, &rig.snapshot, NULL, &rig.arena);
    assert_non_null(rig.values);
    expect_shape(&rig, "image", "1,3,224,224");
    expect_shape(&rig, "pooled", "1,3,112,112");
    expect_shape(&rig, "ids", "1,64");
    expect_shape(&rig, "minus", "2,1,512");
    expect_shape(&rig, "dark", "3,224,224");
    expect_shape(&rig, "less", "2,32"); /* depends on data: half of the elements */
    assert_int_equal(value(&rig, "shape")->data_bytes, 32);
    memcpy(dims, value(&rig, "shape")->data, 32);
    assert_int_equal(dims[2], 112);
    drop(&rig, &wire);
}

/* Names decide: a past is no side of an image; a mask covers the past and the new elements, by its name or as a sum. */
static void sizes_follow_names(void **state)
{
    struct wire wire = { 0 };
    struct rig rig;

    (void)state;
    script_model(&wire, 17,
                 "ids : int64 batch,new_length\n"
                 "mask : int64 batch,past_length + new_length\n"
                 "other_mask : int64 batch,total_sequence_length\n"
                 "key : batch,4,past_length,16\n"
                 "encoded : batch,4,encoder_sequence_length_out,16\n"
                 "sound : batch,num_samples\n"
                 "rows : n_samples,5\n"
                 "picture : batch,height,width,channels\n"
                 "half : batch,3,floor((height + 1)/2),floor((height + 1)/2) + new_length\n"
                 "y = Neg(sound)\n"
                 "-> y");
    load(&rig, &wire);
    rig.values = cost_shapes(rig.model->main, &rig.snapshot, NULL, &rig.arena);
    assert_non_null(rig.values);
    expect_shape(&rig, "ids", "1,64");
    expect_shape(&rig, "mask", "1,128");
    expect_shape(&rig, "other_mask", "1,128");
    expect_shape(&rig, "key", "1,4,64,16");
    expect_shape(&rig, "encoded", "1,4,64,16");
    expect_shape(&rig, "sound", "1,16000");
    expect_shape(&rig, "rows", "1,5");
    expect_shape(&rig, "picture", "1,224,224,3");
    expect_shape(&rig, "half", "1,3,224,288"); /* a call is not computed: it has the size of a name with its words */
    drop(&rig, &wire);
}

static void sizes_are_assumed(void **state)
{
    static const cost_assumption assumed[] = { { "H", 1, 32 }, { "batch", 5, 7 }, { "unused", 6, 9 }, { "w", 1, 10 } };
    static const int64_t image[] = { 2, 1, 8, 8 };
    static const cost_input inputs[] = { { 4, image }, { INLAY_RANK_UNKNOWN, NULL } };
    cost_sizes sizes = { .assumed = assumed, .assumed_count = 4 };
    struct wire wire = { 0 };
    struct rig rig;

    (void)state;
    write_model(&wire);
    load(&rig, &wire);
    rig.values = cost_shapes(rig.model->main, &rig.snapshot, &sizes, &rig.arena);
    expect_shape(&rig, "image", "1,3,32,224");
    expect_shape(&rig, "pooled", "1,3,16,112");
    expect_shape(&rig, "ids", "7,64");
    expect_shape(&rig, "minus", "2,7,512");
    expect_shape(&rig, "dark", "3,224,10");
    /* Shapes of real inputs have precedence over assumptions. */
    sizes.inputs = inputs;
    sizes.input_count = 2;
    rig.values = cost_shapes(rig.model->main, &rig.snapshot, &sizes, &rig.arena);
    expect_shape(&rig, "image", "2,1,8,8");
    expect_shape(&rig, "pooled", "2,1,4,4");
    expect_shape(&rig, "ids", "7,64");
    cost_sizes_deinit(&sizes);
    drop(&rig, &wire);
}

/* An int64 initializer of one element. */
static void write_integer(struct wire *wire, const char *name, int64_t value)
{
    static const int64_t one = 1;
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);

    mw_tensor_head(wire, name, INLAY_INT64, 1, &one);
    wire_int(wire, 7, value);
    wire_end(wire, mark);
}

/* A size that depends on data is estimated as a share of its upper bound. A size observed in a run replaces the
 * estimate, also for the values computed from it. */
static void data_dependent_sizes_are_bounded(void **state)
{
    static const int64_t found[] = { 7, 3 };
    cost_input observed[32];
    cost_sizes sizes = { .seen = observed };
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), n;
    struct rig rig;

    (void)state;
    script_add(&wire, "boxes : 2,100,4\n"
                      "scores : 2,3,100\n"
                      "k : int64 1\n"
                      "mask : bool 60");
    write_integer(&wire, "most", 50);
    script_add(&wire, "picked = NonMaxSuppression(boxes,scores,most)\n" /* upper bound: 2 * 3 * 50 */
                      "nothing = NonMaxSuppression(boxes,scores)\n"     /* the default of the maximum is 0 */
                      "behind = Neg(picked)\n"
                      "best,where = TopK(scores,k)\n"
                      "distinct = Unique(scores)");
    n = mw_node_begin(&wire, "Compress", "scores,mask", "kept"); /* at most the length of the condition */
    mw_attr_int(&wire, "axis", -1);
    wire_end(&wire, n);
    mw_value(&wire, MW_OUTPUT, "behind", INLAY_INT64, NULL);
    wire_end(&wire, mark);
    load(&rig, &wire);
    rig.values = cost_shapes(rig.model->main, &rig.snapshot, NULL, &rig.arena);
    assert_non_null(rig.values);
    expect_shape(&rig, "picked", "30,3");
    expect_shape(&rig, "nothing", "0,3");
    expect_shape(&rig, "behind", "30,3");
    expect_shape(&rig, "best", "2,3,50");
    expect_shape(&rig, "where", "2,3,50");
    expect_shape(&rig, "distinct", "300");
    expect_shape(&rig, "kept", "2,3,30");
    assert_true(rig.model->main->value_count <= 32);
    for (uint32_t v = 0; v < 32; v++)
        observed[v].rank = INLAY_RANK_UNKNOWN;
    observed[graph_find_value(rig.model->main, "picked")] = (cost_input){ 2, found };
    rig.values = cost_shapes(rig.model->main, &rig.snapshot, &sizes, &rig.arena);
    assert_non_null(rig.values);
    expect_shape(&rig, "picked", "7,3");
    expect_shape(&rig, "behind", "7,3");
    expect_shape(&rig, "distinct", "300");
    cost_sizes_deinit(&sizes);
    drop(&rig, &wire);
}

/* Contradicting sizes are no error: shapes that cannot be inferred are estimated. */
static void contradicting_sizes_are_harmless(void **state)
{
    static const cost_assumption assumed[] = { { "N", 1, 3 }, { "M", 1, INT64_MAX } };
    cost_sizes sizes = { .assumed = assumed, .assumed_count = 2 };
    struct wire wire = { 0 };
    struct rig rig;

    (void)state;
    script_model(&wire, 17,
                 "a : N,K\n"
                 "b : M,8\n"
                 "y = MatMul(a,b)\n"
                 "z = Neg(y)\n"
                 "-> z");
    load(&rig, &wire);
    rig.values = cost_shapes(rig.model->main, &rig.snapshot, &sizes, &rig.arena);
    assert_non_null(rig.values);
    assert_int_equal(value(&rig, "y")->rank, 2);
    assert_true(value(&rig, "z")->dims[0] >= 0 && value(&rig, "z")->dims[1] >= 0);
    assert_true(cost_value_bytes(value(&rig, "b")) > 0);
    cost_sizes_deinit(&sizes);
    drop(&rig, &wire);
}

/* One layer: y = op(x, w), with an attribute. */
struct layer {
    const char *op, *names; /* of x, w, y */
    const char *shape;
    int64_t axis;
    float weight;
    uint32_t threads;
    uint64_t identity;
};

static void write_layer(struct wire *wire, const struct layer *layer)
{
    wire_mark mark = mw_begin(wire, 8, 17), n, t;
    char x[8], c[8], y[8], ins[24];
    int64_t one = 1;

    assert_int_equal(sscanf(layer->names, "%7s %7s %7s", x, c, y), 3);
    (void)snprintf(ins, sizeof ins, "%s,%s", x, c);
    t = wire_begin(wire, MW_INITIALIZER);
    wire_int(wire, 1, one);
    wire_int(wire, 2, INLAY_FLOAT);
    wire_float(wire, 4, layer->weight);
    wire_text(wire, 8, c);
    wire_end(wire, t);
    mw_value(wire, MW_INPUT, x, INLAY_FLOAT, layer->shape);
    n = mw_node_begin(wire, layer->op, strcmp(layer->op, "Softmax") == 0 ? x : ins, y);
    if (strcmp(layer->op, "Softmax") == 0) {
        mw_attr_int(wire, "axis", layer->axis);
    }
    wire_end(wire, n);
    mw_value(wire, MW_OUTPUT, y, INLAY_FLOAT, NULL);
    wire_end(wire, mark);
}

static cost_key key_of(const struct layer *layer)
{
    static const uint32_t node = 0;
    static const inlay_provider table = { .struct_size = sizeof table };
    const partition_provider provider = {
        .table = &table, .name = "p", .first_domain = 5, .identity = layer->identity
    };
    const partition_offer offer = { .nodes = &node, .node_count = 1 };
    cost_question question = { .provider = &provider, .offer = &offer, .max_threads = layer->threads };
    struct wire wire = { 0 };
    cost_key key;
    struct rig rig;

    write_layer(&wire, layer);
    load(&rig, &wire);
    rig.values = cost_shapes(rig.model->main, &rig.snapshot, NULL, &rig.arena);
    assert_non_null(rig.values);
    question.graph = &rig.snapshot;
    question.values = rig.values;
    key = cost_key_of(&question);
    drop(&rig, &wire);
    return key;
}

static bool same_key(const struct layer *a, const struct layer *b)
{
    cost_key key = key_of(a), y = key_of(b);

    return memcmp(&key, &y, sizeof key) == 0;
}

static void equal_layers_share_a_key(void **state)
{
    static const struct layer base = { "Softmax", "x w y", "2,3,4", 1, 0.5f, 2, 77 };
    struct layer other = base;

    (void)state;
    assert_true(same_key(&base, &base));
    other.names = "input weight out";
    assert_true(same_key(&base, &other));
#define DIFFERS(field, value)                                                                                          \
    other = base;                                                                                                      \
    other.field = value;                                                                                               \
    assert_false(same_key(&base, &other));
    DIFFERS(op, "Add")
    DIFFERS(shape, "2,3,5")
    DIFFERS(shape, "2,12")
    DIFFERS(axis, 2)
    DIFFERS(threads, 1)
    DIFFERS(identity, 78)
#undef DIFFERS
    /* The exponent of Pow is part of the key. */
    other = base;
    other.op = "Pow";
    {
        struct layer cube = other;
        cube.weight = 3;
        assert_false(same_key(&other, &cube));
    }
}

static void identities_differ(void **state)
{
    uint64_t base = cost_identity("p", "b1", "cpu", 3, 0);

    (void)state;
    assert_true(base == cost_identity("p", "b1", "cpu", 3, 0));
    assert_true(base != cost_identity("q", "b1", "cpu", 3, 0));
    assert_true(base != cost_identity("p", "b2", "cpu", 3, 0));
    assert_true(base != cost_identity("p", NULL, "cpu", 3, 0));
    assert_true(base != cost_identity("p", "b1", "gpu", 3, 0));
    assert_true(base != cost_identity("p", "b1", "cpu", 3, 1));
}

static void classes_have_names(void **state)
{
    (void)state;
    for (uint32_t v = 0; v < COST_VARIANT_COUNT; v++)
        assert_int_equal(cost_variant_of(cost_variant_name(v)), v);
    assert_int_equal(cost_variant_of("nonsense"), COST_VARIANT_COUNT);
    assert_string_equal(cost_variant_name(1000), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_have_defaults),
        cmocka_unit_test(sizes_follow_names),
        cmocka_unit_test(sizes_are_assumed),
        cmocka_unit_test(contradicting_sizes_are_harmless),
        cmocka_unit_test(data_dependent_sizes_are_bounded),
        cmocka_unit_test(equal_layers_share_a_key),
        cmocka_unit_test(identities_differ),
        cmocka_unit_test(classes_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
