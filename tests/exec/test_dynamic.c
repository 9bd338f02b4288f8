/* Steps with data-dependent shapes: chains of such steps, equal shapes with other data, empty results, and steps with
 * known shapes after them. */
#include "graph_script.h"

/* NonZero -> Transpose -> GatherND: the elements that are not zero, and their number. */
static void chain_after_nonzero(void **state)
{
    static const struct {
        float x[6];
        const char *count;
        float y[6];
        int64_t n;
    } rows[] = {
        { { 1, 0, 3, 0, 5, 0 }, "3", { 1, 3, 5 }, 3 },
        { { 0, 2, 0, 4, 0, 6 }, "3", { 2, 4, 6 }, 3 }, /* same dims, other data */
        { { 0, 0, 0, 0, 0, 0 }, "0", { 0 }, 0 },
        { { 1, 2, 3, 4, 5, 6 }, "6", { 1, 2, 3, 4, 5, 6 }, 6 },
        { { 0, 0, 0, 0, 0, 9 }, "1", { 9 }, 1 },
    };
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "x : 2,3\n"
                      "zero = i[] 0\n"
                      "vector = i[1] 1\n"
                      "nz = NonZero(x)\n"
                      "at = Transpose(nz)\n"
                      "y = GatherND(x,at)\n"
                      "shape = Shape(at)\n"
                      "n = Gather(shape,zero)\n"
                      "count = Reshape(n,vector)\n"
                      "minus = Neg(y)\n"
                      "zeros = Add(minus,y)\n"
                      "sum = ReduceSum(y) keepdims=0\n"
                      "-> y\n"
                      "-> n, count : int64\n"
                      "-> zeros, sum");
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            float zeros[6] = { 0 }, sum = 0;

            for (int k = 0; k < 6; k++)
                sum += rows[i].x[k];
            rig_floats(&rig, 0, "2,3", rows[i].x);
            rig_run(&rig);
            rig_expect_floats(&rig, 0, rows[i].count, rows[i].y);
            rig_expect_ints(&rig, 1, "", &rows[i].n);
            rig_expect_ints(&rig, 2, "1", &rows[i].n);
            rig_expect_floats(&rig, 3, rows[i].count, zeros);
            rig_expect_floats(&rig, 4, "", &sum);
        }
    }
    rig_close(&rig);
}

/* A step whose shape is computed during the run may have an output of known shape, and a view of that output may be an
 * output of the graph. */
static void known_shape_after_dynamic_step(void **state)
{
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "x : 6\n"
                      "square = i[2] 1,1\n"
                      "nz = NonZero(x)\n"
                      "sum = ReduceSum(nz) keepdims=0\n"
                      "y = Reshape(sum,square)\n"
                      "-> y : int64");
    for (int i = 0; i < 2; i++) {
        rig_floats(&rig, 0, "6", (float[]){ 0, 1, 0, 1, 0, 1 });
        rig_run(&rig);
        rig_expect_ints(&rig, 0, "1,1", (int64_t[]){ 1 + 3 + 5 });
        rig_floats(&rig, 0, "6", (float[]){ 1, 0, 1, 0, 0, 0 });
        rig_run(&rig);
        rig_expect_ints(&rig, 0, "1,1", (int64_t[]){ 2 });
    }
    rig_close(&rig);
}

/* Unique allocates all of its outputs during the run, even `inverse`, whose shape inference may know. A planned step
 * reads `inverse`. */
static void allocated_although_known(void **state)
{
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "x : 6\n"
                      "u,first,inverse,counts = Unique(x)\n"
                      "minus = Neg(inverse)\n"
                      "y = Add(minus,minus)\n"
                      "-> y, inverse : int64\n"
                      "-> u\n"
                      "-> counts : int64");
    for (int i = 0; i < 2; i++) {
        rig_floats(&rig, 0, "6", (float[]){ 5, 4, 5, 3, 4, 5 });
        rig_run(&rig);
        rig_expect_ints(&rig, 0, "6", (int64_t[]){ -4, -2, -4, 0, -2, -4 });
        rig_expect_ints(&rig, 1, "6", (int64_t[]){ 2, 1, 2, 0, 1, 2 });
        rig_expect_floats(&rig, 2, "3", (float[]){ 3, 4, 5 });
        rig_expect_ints(&rig, 3, "3", (int64_t[]){ 1, 2, 3 });
    }
    rig_close(&rig);
}

/* Shapes as inputs: Reshape, Slice, Range, Expand, ConstantOfShape, each with other data and equal input shapes. */
static void shapes_from_data(void **state)
{
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "x : 6\n"
                      "shape : int64 2\n"
                      "end : int64 1\n"
                      "zeros = i[1] 0\n"
                      "zero = i[] 0\n"
                      "one = i[] 1\n"
                      "none = i[0]\n"
                      "y = Reshape(x,shape)\n"
                      "z = Slice(x,zeros,end)\n"
                      "limit = Reshape(end,none)\n"
                      "range = Range(zero,limit,one)\n"
                      "filled = ConstantOfShape(shape)\n"
                      "sum = Add(y,filled)\n"
                      "-> y, z\n"
                      "-> range : int64\n"
                      "-> sum");
    for (int64_t i = 0; i < 8; i++) {
        static const char *const shapes[] = { "2,3", "3,2", "6,1", "1,6" };
        static const int64_t dims[][2] = { { 2, 3 }, { 3, 2 }, { 6, 1 }, { 1, 6 } };
        float x[] = { 1, 2, 3, 4, 5, (float)i };
        int64_t end = (i * 2) % 7, range[6] = { 0, 1, 2, 3, 4, 5 };
        char text[8];

        (void)snprintf(text, sizeof text, "%d", (int)end);
        rig_floats(&rig, 0, "6", x);
        rig_set(&rig, 1, INLAY_INT64, "2", dims[i % 4]);
        rig_set(&rig, 2, INLAY_INT64, "1", &end);
        rig_run(&rig);
        rig_expect_floats(&rig, 0, shapes[i % 4], x);
        rig_expect_floats(&rig, 1, text, x);
        rig_expect_ints(&rig, 2, text, range);
        rig_expect_floats(&rig, 3, shapes[i % 4], x);
    }
    rig_close(&rig);
}

/* A step fails during the run, and the next run succeeds. */
static void wrong_shapes_are_reported(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "x : 6\n"
                      "shape : int64 2\n"
                      "y = Reshape(x,shape) @the_reshape\n"
                      "-> y");
    rig_floats(&rig, 0, "6", (float[]){ 1, 2, 3, 4, 5, 6 });
    for (int i = 0; i < 4; i++) {
        rig_set(&rig, 1, INLAY_INT64, "2", i % 2 == 0 ? (int64_t[]){ 4, 2 } : (int64_t[]){ 3, 2 });
        if (i % 2 == 0) {
            assert_int_not_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_OK);
            assert_non_null(strstr(diag.text, "the_reshape"));
        } else {
            rig_run(&rig);
            rig_expect_floats(&rig, 0, "3,2", (float[]){ 1, 2, 3, 4, 5, 6 });
        }
    }
    rig_close(&rig);
}

/* One session with an operator whose inputs have another meaning for each rank, which the model does not declare:
 * keys and values with or without a head axis, masks by length, by key, or by key and row. All scores are 0, so that
 * each row of the result is the mean of the values that are not masked. */
static void ranks_known_at_run_time(void **state)
{
    static const struct {
        const char *keys, *mask;
        int32_t counts[6];
        float y[2];
        const char *error;
    } rows[] = {
        { "1,3,1", "1", { 2 }, { 1.5f, 1.5f }, NULL },
        { "1,3,1", "1,3", { 1, 0, 1 }, { 4, 4 }, NULL },
        { "1,1,3,1", "1,2,3", { 1, 0, 0, 1, 1, 0 }, { 1, 1.5f }, NULL },
        { "1,1,3,1", "1", { 1 }, { 1, 1 }, NULL },
        { "1,3,1", "1,2,3", { 0, 0, 1, 0, 1, 1 }, { 7, 4.5f }, NULL },
        { "1,3,1", "1,1,2,3", { 1, 1, 1, 1, 1, 1 }, { 0 }, "att" },
        { "3", "1,3", { 1, 1, 1 }, { 0 }, "att" },
    };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "q : float\n"
                      "k : float\n"
                      "v : float\n"
                      "m : int32\n"
                      "y,_,same = ms.MultiHeadAttention(q,k,v,_,m) @att num_heads=1\n"
                      "-> y, same");
    for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
        const size_t k = i % (sizeof rows / sizeof rows[0]);

        rig_floats(&rig, 0, "1,2,1", (float[]){ 0, 0 });
        rig_floats(&rig, 1, rows[k].keys, (float[]){ 3, 4, 5 });
        rig_floats(&rig, 2, rows[k].keys, (float[]){ 1, 2, 7 });
        rig_set(&rig, 3, INLAY_INT32, rows[k].mask, rows[k].counts);
        if (rows[k].error != NULL) {
            assert_int_not_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_OK);
            assert_non_null(strstr(diag.text, rows[k].error));
            continue;
        }
        rig_run(&rig);
        rig_expect_floats(&rig, 0, "1,2,1", rows[k].y);
        rig_expect_floats(&rig, 1, "1,1,3,1", (float[]){ 1, 2, 7 });
    }
    rig_close(&rig);
}

/* Attention of com.microsoft that reads other ones, without declared shapes: ranks are known all the way. */
static void chained_attention(void **state)
{
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "x : b,s,4\n"
                      "m : int32 b,s\n"
                      "w = [4,12]\n"
                      "u = [4,4]\n"
                      "a = ms.Attention(x,w,_,m) num_heads=2\n"
                      "k = MatMul(a,u)\n"
                      "c = ms.MultiHeadAttention(a,k,k,_,m) num_heads=2\n"
                      "l = MatMul(c,u)\n"
                      "e = ms.MultiHeadAttention(a,l,c,_,m) num_heads=2\n"
                      "y = ms.DecoderMaskedMultiHeadAttention(c,l,e) num_heads=2\n"
                      "-> y");
    rig_floats(&rig, 0, "1,1,4", (float[]){ 1, 2, 3, 4 });
    rig_set(&rig, 1, INLAY_INT32, "1,1", (int32_t[]){ 1 });
    rig_run(&rig);
    assert_int_equal(inlay_value_count(inlay_context_output(rig.context, 0)), 4);
    rig_close(&rig);
}

/* The peak memory of a run of `count` MatMul steps over a tensor whose rows are known at run time only. */
static uint64_t peak_of_products(uint32_t count)
{
    enum { ROWS = 256, COLUMNS = 64 };
    static float x[ROWS * COLUMNS], w[COLUMNS * COLUMNS];
    inlay_memory_info info = { .struct_size = sizeof info };
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    char inputs[32], output[16] = "g";
    struct rig rig;

    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = i % COLUMNS == 0;
    script_add(&wire, "x : 256,64\n"
                      "w : 64,64\n"
                      "first = i[1] 0\n"
                      "nz = NonZero(x)\n"
                      "at = Gather(nz,first) axis=0\n"
                      "rows = Squeeze(at,first)\n"
                      "g = Gather(x,rows) axis=0");
    for (uint32_t k = 0; k < count; k++) {
        (void)snprintf(inputs, sizeof inputs, "%s,w", output);
        (void)snprintf(output, sizeof output, "y%u", k);
        mw_node(&wire, "MatMul", inputs, output);
    }
    mw_value(&wire, MW_OUTPUT, output, RIG_FLOAT, NULL);
    wire_end(&wire, mark);
    rig = rig_open(&wire, (const char *[]){ "providers", "reference", "intra_threads", "1", NULL });
    rig_floats(&rig, 0, "256,64", x);
    rig_floats(&rig, 1, "64,64", w);
    rig_run(&rig);
    assert_int_equal(inlay_session_memory(rig.session, &info), INLAY_OK);
    rig_close(&rig);
    return info.peak_bytes;
}

/* Steps that are sized when they run share one workspace: more steps do not need more memory. */
static void steps_share_a_workspace(void **state)
{
    const uint64_t few = peak_of_products(4), many = peak_of_products(40);

    (void)state;
    assert_true(few > 0);
    assert_int_equal(many, few);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chain_after_nonzero),
        cmocka_unit_test(chained_attention),
        cmocka_unit_test(known_shape_after_dynamic_step),
        cmocka_unit_test(allocated_although_known),
        cmocka_unit_test(shapes_from_data),
        cmocka_unit_test(wrong_shapes_are_reported),
        cmocka_unit_test(ranks_known_at_run_time),
        cmocka_unit_test(steps_share_a_workspace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
