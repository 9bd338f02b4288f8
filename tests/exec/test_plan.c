/* Plans: where values lie. Views, memory written in place, outputs that are inputs, constants or each other, texts,
 * empty tensors, shapes in turn, runs that fail in between, memory of the caller's. */
#include "rig.h"

static float six[] = { 1, -2, 3, -4, 5, -6 };

/* Reshape's output stands in for its input: neither may be overwritten while the other is still read. */
static void view_of_a_value_read_later(void **state)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17);
    struct rig r;

    (void)state;
    mw_value(&w, MW_INPUT, "x", RIG_FLOAT, "2,3");
    rig_ints(&w, "flat", 1, 1, (int64_t[]){ 6 });
    mw_node(&w, "Neg", "x", "n");
    mw_node(&w, "Reshape", "n,flat", "v");
    mw_node(&w, "Abs", "v", "a"); /* could be written over n */
    mw_node(&w, "Neg", "a", "b"); /* over a */
    mw_node(&w, "Floor", "n", "c");
    mw_value(&w, MW_OUTPUT, "b", RIG_FLOAT, NULL);
    mw_value(&w, MW_OUTPUT, "c", RIG_FLOAT, NULL);
    mw_value(&w, MW_OUTPUT, "v", RIG_FLOAT, NULL);
    wire_end(&w, g);
    r = rig_open(&w, NULL);
    for (int i = 0; i < 3; i++) {
        rig_floats(&r, 0, "2,3", six);
        rig_run(&r);
        rig_expect_floats(&r, 0, "6", (float[]){ -1, -2, -3, -4, -5, -6 });
        rig_expect_floats(&r, 1, "2,3", (float[]){ -1, 2, -3, 4, -5, 6 });
        rig_expect_floats(&r, 2, "6", (float[]){ -1, 2, -3, 4, -5, 6 });
    }
    rig_close(&r);
}

/* ScatterND may work in its data's memory, but not when the updates are a view of just that. */
static void in_place_beside_a_view_of_itself(void **state)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17);
    struct rig r;

    (void)state;
    mw_value(&w, MW_INPUT, "x", RIG_FLOAT, "4");
    mw_value(&w, MW_INPUT, "at", RIG_INT64, "4,1");
    rig_ints(&w, "flat", 1, 1, (int64_t[]){ 4 });
    mw_node(&w, "Neg", "x", "n");
    mw_node(&w, "Reshape", "n,flat", "v");
    mw_node(&w, "ScatterND", "n,at,v", "y");
    mw_value(&w, MW_OUTPUT, "y", RIG_FLOAT, NULL);
    wire_end(&w, g);
    r = rig_open(&w, NULL);
    rig_floats(&r, 0, "4", (float[]){ 1, 2, 3, 4 });
    rig_set(&r, 1, INLAY_INT64, "4,1", (int64_t[]){ 1, 2, 3, 0 });
    rig_run(&r);
    rig_expect_floats(&r, 0, "4", (float[]){ -4, -1, -2, -3 });
    rig_close(&r);
}

static void one_input_twice_in_place(void **state)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17);
    struct rig r;

    (void)state;
    mw_value(&w, MW_INPUT, "x", RIG_FLOAT, "6");
    mw_node(&w, "Neg", "x", "a");
    mw_node(&w, "Add", "a,a", "b");
    mw_node(&w, "Mul", "b,b", "c");
    mw_node(&w, "Sub", "c,b", "y");
    mw_value(&w, MW_OUTPUT, "y", RIG_FLOAT, NULL);
    wire_end(&w, g);
    r = rig_open(&w, NULL);
    rig_floats(&r, 0, "6", six);
    rig_run(&r);
    rig_expect_floats(&r, 0, "6", (float[]){ 6, 12, 42, 56, 110, 132 });
    rig_close(&r);
}

/* An output that is an input, an initializer, another output under a second shape, and one that is read further on. */
static void outputs_of_every_origin(void **state)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17);
    inlay_value *kept[5];
    struct rig r;

    (void)state;
    mw_value(&w, MW_INPUT, "x", RIG_FLOAT, "6");
    rig_ints(&w, "shape", 1, 2, (int64_t[]){ 2, 3 });
    mw_node(&w, "Neg", "x", "y");
    mw_node(&w, "Reshape", "y,shape", "view");
    mw_node(&w, "Abs", "y", "z");
    mw_value(&w, MW_OUTPUT, "x", RIG_FLOAT, "6");
    mw_value(&w, MW_OUTPUT, "shape", RIG_INT64, "2");
    mw_value(&w, MW_OUTPUT, "y", RIG_FLOAT, NULL);
    mw_value(&w, MW_OUTPUT, "view", RIG_FLOAT, NULL);
    mw_value(&w, MW_OUTPUT, "z", RIG_FLOAT, NULL);
    wire_end(&w, g);
    r = rig_open(&w, NULL);
    for (int round = 0; round < 3; round++) {
        for (int k = 0; k < 5; k++)
            kept[k] = NULL;
        rig_floats(&r, 0, "6", six);
        rig_run(&r);
        for (uint32_t k = 0; k < 5; k++)
            kept[k] = inlay_value_ref(inlay_context_output(r.context, k));
        rig_floats(&r, 0, "6", (float[6]){ 9, 9, 9, 9, 9, 9 });
        rig_run(&r); /* what was kept is the caller's, whatever runs after it */
        rig_expect(kept[0], INLAY_FLOAT, "6", six);
        rig_expect(kept[1], INLAY_INT64, "2", (int64_t[]){ 2, 3 });
        rig_expect(kept[2], INLAY_FLOAT, "6", (float[]){ -1, 2, -3, 4, -5, 6 });
        rig_expect(kept[3], INLAY_FLOAT, "2,3", (float[]){ -1, 2, -3, 4, -5, 6 });
        rig_expect(kept[4], INLAY_FLOAT, "6", (float[]){ 1, 2, 3, 4, 5, 6 });
        for (int k = 0; k < 5; k++)
            inlay_value_unref(kept[k]);
    }
    rig_close(&r);
}

/* A text lies in the run's memory until it is copied for the caller: nothing may be laid over it before. */
static void texts_survive_what_runs_after_them(void **state)
{
    static const char *const texts[] = { "alpha", "b", "", "a longer one than the others" };
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17);
    struct rig r;

    (void)state;
    mw_value(&w, MW_INPUT, "s", RIG_STRING, "4");
    mw_value(&w, MW_INPUT, "at", RIG_INT64, "4");
    mw_value(&w, MW_INPUT, "x", RIG_FLOAT, "16");
    mw_node(&w, "Gather", "s,at", "t");
    mw_node(&w, "Neg", "x", "a");
    mw_node(&w, "Add", "a,x", "b");
    mw_node(&w, "Sub", "b,a", "c");
    mw_node(&w, "Exp", "c", "y");
    mw_value(&w, MW_OUTPUT, "t", RIG_STRING, NULL);
    mw_value(&w, MW_OUTPUT, "y", RIG_FLOAT, NULL);
    wire_end(&w, g);
    r = rig_open(&w, NULL);
    rig_bind(&r, 0, rig_texts(4, texts));
    rig_set(&r, 1, INLAY_INT64, "4", (int64_t[]){ 3, 2, 1, 0 });
    rig_floats(&r, 2, "16", (float[16]){ 1, 2, 3 });
    for (int i = 0; i < 3; i++) {
        rig_run(&r);
        rig_expect_texts(inlay_context_output(r.context, 0), 4,
                         (const char *const[]){ texts[3], texts[2], texts[1], texts[0] });
    }
    rig_close(&r);
}

static void tensors_without_elements(void **state)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17);
    struct rig r;

    (void)state;
    mw_value(&w, MW_INPUT, "x", RIG_FLOAT, "N,3");
    rig_ints(&w, "shape", 1, 2, (int64_t[]){ 3, -1 });
    mw_node(&w, "Neg", "x", "n");
    mw_node(&w, "Transpose", "n", "t");
    mw_node(&w, "ReduceSum", "t", "sum");
    rig_node_int(&w, "Concat", "x,n", "both", "axis", 0);
    mw_value(&w, MW_OUTPUT, "t", RIG_FLOAT, NULL);
    mw_value(&w, MW_OUTPUT, "sum", RIG_FLOAT, NULL);
    mw_value(&w, MW_OUTPUT, "both", RIG_FLOAT, NULL);
    wire_end(&w, g);
    r = rig_open(&w, NULL);
    for (int i = 0; i < 4; i++) {
        if (i % 2 == 0) {
            rig_floats(&r, 0, "0,3", six);
            rig_run(&r);
            rig_expect_floats(&r, 0, "3,0", six);
            rig_expect_floats(&r, 1, "1,1", (float[]){ 0 });
            rig_expect_floats(&r, 2, "0,3", six);
        } else {
            rig_floats(&r, 0, "1,3", (float[]){ 1, 2, 4 });
            rig_run(&r);
            rig_expect_floats(&r, 0, "3,1", (float[]){ -1, -2, -4 });
            rig_expect_floats(&r, 1, "1,1", (float[]){ -7 });
            rig_expect_floats(&r, 2, "2,3", (float[]){ 1, 2, 4, -1, -2, -4 });
        }
    }
    rig_close(&r);
}

/* More shapes than plans are kept, each in turn, twice, in one context. */
static void shapes_in_turn(void **state)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17);
    struct rig r;

    (void)state;
    mw_value(&w, MW_INPUT, "x", RIG_FLOAT, "N");
    mw_node(&w, "Shape", "x", "n");
    mw_node(&w, "Add", "n,n", "n2");
    rig_scalar(&w, "one", RIG_FLOAT, 1);
    mw_node(&w, "Expand", "x,n", "e");
    mw_node(&w, "Add", "e,one", "f");
    mw_node(&w, "Mul", "f,x", "y");
    mw_value(&w, MW_OUTPUT, "y", RIG_FLOAT, NULL);
    mw_value(&w, MW_OUTPUT, "n2", RIG_INT64, NULL);
    wire_end(&w, g);
    r = rig_open(&w, NULL);
    for (int round = 0; round < 3; round++) {
        for (int n = 1; n <= 20; n++) {
            float x[20], y[20];
            char shape[8];

            for (int i = 0; i < n; i++) {
                x[i] = (float)(i + round);
                y[i] = (x[i] + 1) * x[i];
            }
            (void)snprintf(shape, sizeof shape, "%d", n);
            rig_floats(&r, 0, shape, x);
            rig_run(&r);
            rig_expect_floats(&r, 0, shape, y);
            rig_expect_ints(&r, 1, "1", (int64_t[]){ 2 * n });
        }
    }
    rig_close(&r);
}

/* A failed run leaves no outputs and no traces; the message names the node. */
static void fails_and_runs_again(void **state)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17), n;
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig r;

    (void)state;
    mw_value(&w, MW_INPUT, "x", RIG_FLOAT, "6");
    mw_value(&w, MW_INPUT, "at", RIG_INT64, "2");
    mw_node(&w, "Neg", "x", "a");
    n = mw_node_begin(&w, "Gather", "a,at", "b");
    wire_text(&w, 3, "the_gather");
    wire_end(&w, n);
    mw_node(&w, "Abs", "b", "y");
    mw_value(&w, MW_OUTPUT, "y", RIG_FLOAT, NULL);
    mw_value(&w, MW_OUTPUT, "a", RIG_FLOAT, NULL);
    wire_end(&w, g);
    r = rig_open(&w, NULL);
    rig_floats(&r, 0, "6", six);
    for (int i = 0; i < 6; i++) {
        bool bad = i % 2 == 0;

        rig_set(&r, 1, INLAY_INT64, "2", (int64_t[]){ 1, bad ? 6 : 5 });
        if (bad) {
            assert_int_not_equal(inlay_context_run(r.context, NULL, &diag), INLAY_OK);
            if (strstr(diag.text, "the_gather") == NULL)
                fail_msg("%s", diag.text);
            assert_null(inlay_context_output(r.context, 0));
            assert_null(inlay_context_output(r.context, 1));
        } else {
            rig_run(&r);
            rig_expect_floats(&r, 0, "2", (float[]){ 2, 6 });
        }
    }
    rig_close(&r);
}

/* Outputs bound to memory of the caller's: as it should be, too small, and the very memory of the input. */
static void memory_of_the_callers(void **state)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17);
    float room[8] = { 0 }, small[2] = { 7, 7 }, shared[6];
    inlay_value *v = NULL, *x = NULL;
    struct rig r;

    (void)state;
    mw_value(&w, MW_INPUT, "x", RIG_FLOAT, "6");
    mw_node(&w, "Neg", "x", "a");
    mw_node(&w, "Mul", "a,a", "b"); /* in the output's memory, if y is made in place ... */
    mw_node(&w, "Add", "b,x", "y"); /* ... and x is read after that */
    mw_value(&w, MW_OUTPUT, "y", RIG_FLOAT, NULL);
    wire_end(&w, g);
    r = rig_open(&w, NULL);
    rig_floats(&r, 0, "6", six);

    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 1, (int64_t[]){ 8 }, room, sizeof room, &v, NULL), INLAY_OK);
    assert_int_equal(inlay_context_set_output(r.context, 0, v, NULL), INLAY_OK);
    for (int i = 0; i < 2; i++) {
        memset(room, 0, sizeof room);
        rig_run(&r);
        assert_ptr_equal(inlay_context_output(r.context, 0), v);
        rig_expect_floats(&r, 0, "6", (float[]){ 2, 2, 12, 12, 30, 30 });
        assert_float_equal(room[5], 30, 0);
    }
    inlay_value_unref(v);

    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 1, (int64_t[]){ 2 }, small, sizeof small, &v, NULL), INLAY_OK);
    assert_int_equal(inlay_context_set_output(r.context, 0, v, NULL), INLAY_OK);
    rig_run(&r);
    rig_expect_floats(&r, 0, "6", (float[]){ 2, 2, 12, 12, 30, 30 });
    assert_float_equal(small[0], 7, 0);
    inlay_value_unref(v);

    for (int i = 0; i < 2; i++) {
        memcpy(shared, six, sizeof six);
        assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 1, (int64_t[]){ 6 }, shared, sizeof shared, &v, NULL),
                         INLAY_OK);
        assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 1, (int64_t[]){ 6 }, shared, sizeof shared, &x, NULL),
                         INLAY_OK);
        rig_bind(&r, 0, x);
        assert_int_equal(inlay_context_set_output(r.context, 0, v, NULL), INLAY_OK);
        inlay_value_unref(v);
        rig_run(&r);
        rig_expect_floats(&r, 0, "6", (float[]){ 2, 2, 12, 12, 30, 30 });
        assert_float_equal(shared[5], 30, 0);
    }
    assert_int_equal(inlay_context_set_output(r.context, 0, NULL, NULL), INLAY_OK);
    rig_floats(&r, 0, "6", six);
    rig_run(&r);
    rig_expect_floats(&r, 0, "6", (float[]){ 2, 2, 12, 12, 30, 30 });
    rig_close(&r);
}

/* Memory that is not even aligned to its elements is refused, for kernels read it directly. */
static void misaligned_memory_is_refused(void **state)
{
    _Alignas(16) char bytes[64] = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *v = NULL;
    int64_t two = 2;

    (void)state;
    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 1, &two, bytes + 1, 32, &v, &diag), INLAY_INVALID_ARGUMENT);
    assert_null(v);
    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 1, &two, bytes + 4, 32, &v, &diag), INLAY_OK);
    inlay_value_unref(v);
    assert_int_equal(inlay_value_borrow(INLAY_INT8, 1, &two, bytes + 1, 32, &v, &diag), INLAY_OK);
    inlay_value_unref(v);
}

/* Reshape to another number of elements is an error and no view of memory that is not there. */
static void a_view_cannot_grow(void **state)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17);
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig r;

    (void)state;
    mw_value(&w, MW_INPUT, "x", RIG_FLOAT, "N");
    rig_ints(&w, "shape", 1, 2, (int64_t[]){ 2, 3 });
    mw_node(&w, "Reshape", "x,shape", "y");
    mw_value(&w, MW_OUTPUT, "y", RIG_FLOAT, NULL);
    wire_end(&w, g);
    r = rig_open(&w, NULL);
    rig_floats(&r, 0, "4", six);
    assert_int_not_equal(inlay_context_run(r.context, NULL, &diag), INLAY_OK);
    rig_floats(&r, 0, "6", six);
    rig_run(&r);
    rig_expect_floats(&r, 0, "2,3", six);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(view_of_a_value_read_later),
        cmocka_unit_test(in_place_beside_a_view_of_itself),
        cmocka_unit_test(one_input_twice_in_place),
        cmocka_unit_test(outputs_of_every_origin),
        cmocka_unit_test(texts_survive_what_runs_after_them),
        cmocka_unit_test(tensors_without_elements),
        cmocka_unit_test(shapes_in_turn),
        cmocka_unit_test(fails_and_runs_again),
        cmocka_unit_test(memory_of_the_callers),
        cmocka_unit_test(misaligned_memory_is_refused),
        cmocka_unit_test(a_view_cannot_grow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
