/* Plans: locations of values. Views, in-place execution, outputs that are inputs, constants or equal to each other,
 * strings, empty tensors, alternating shapes, runs that fail in between, memory of the caller. */
#include "graph_script.h"

static float six[] = { 1, -2, 3, -4, 5, -6 };

/* The output of Reshape shares memory with its input: neither may be overwritten while the other is still needed. */
static void view_of_a_value_read_later(void **state)
{
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "x : 2,3\n"
                      "flat = i[1] 6\n"
                      "n = Neg(x)\n"
                      "v = Reshape(n,flat)\n"
                      "a = Abs(v)\n" /* could overwrite n */
                      "b = Neg(a)\n" /* over a */
                      "c = Floor(n)\n"
                      "-> b, c, v");
    for (int i = 0; i < 3; i++) {
        rig_floats(&rig, 0, "2,3", six);
        rig_run(&rig);
        rig_expect_floats(&rig, 0, "6", (float[]){ -1, -2, -3, -4, -5, -6 });
        rig_expect_floats(&rig, 1, "2,3", (float[]){ -1, 2, -3, 4, -5, 6 });
        rig_expect_floats(&rig, 2, "6", (float[]){ -1, 2, -3, 4, -5, 6 });
    }
    rig_close(&rig);
}

/* ScatterND may work in place on its data, but not if the updates are a view of the data. */
static void in_place_with_a_view_of_itself(void **state)
{
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "x : 4\n"
                      "at : int64 4,1\n"
                      "flat = i[1] 4\n"
                      "n = Neg(x)\n"
                      "v = Reshape(n,flat)\n"
                      "y = ScatterND(n,at,v)\n"
                      "-> y");
    rig_floats(&rig, 0, "4", (float[]){ 1, 2, 3, 4 });
    rig_set(&rig, 1, INLAY_INT64, "4,1", (int64_t[]){ 1, 2, 3, 0 });
    rig_run(&rig);
    rig_expect_floats(&rig, 0, "4", (float[]){ -4, -1, -2, -3 });
    rig_close(&rig);
}

static void one_input_twice_in_place(void **state)
{
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "x : 6\n"
                      "a = Neg(x)\n"
                      "b = Add(a,a)\n"
                      "c = Mul(b,b)\n"
                      "y = Sub(c,b)\n"
                      "-> y");
    rig_floats(&rig, 0, "6", six);
    rig_run(&rig);
    rig_expect_floats(&rig, 0, "6", (float[]){ 6, 12, 42, 56, 110, 132 });
    rig_close(&rig);
}

/* Outputs that are an input, an initializer, another output with a second shape, and a value with further consumers. */
static void outputs_of_every_source(void **state)
{
    inlay_value *kept[5];
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "x : 6\n"
                      "shape = i[2] 2,3\n"
                      "y = Neg(x)\n"
                      "view = Reshape(y,shape)\n"
                      "z = Abs(y)\n"
                      "-> x : 6\n"
                      "-> shape : int64 2\n"
                      "-> y, view, z");
    for (int round = 0; round < 3; round++) {
        for (int k = 0; k < 5; k++)
            kept[k] = NULL;
        rig_floats(&rig, 0, "6", six);
        rig_run(&rig);
        for (uint32_t k = 0; k < 5; k++)
            kept[k] = inlay_value_ref(inlay_context_output(rig.context, k));
        rig_floats(&rig, 0, "6", (float[6]){ 9, 9, 9, 9, 9, 9 });
        rig_run(&rig); /* references of the caller stay valid after further runs */
        rig_expect(kept[0], INLAY_FLOAT, "6", six);
        rig_expect(kept[1], INLAY_INT64, "2", (int64_t[]){ 2, 3 });
        rig_expect(kept[2], INLAY_FLOAT, "6", (float[]){ -1, 2, -3, 4, -5, 6 });
        rig_expect(kept[3], INLAY_FLOAT, "2,3", (float[]){ -1, 2, -3, 4, -5, 6 });
        rig_expect(kept[4], INLAY_FLOAT, "6", (float[]){ 1, 2, 3, 4, 5, 6 });
        for (int k = 0; k < 5; k++)
            inlay_value_unref(kept[k]);
    }
    rig_close(&rig);
}

/* A string is in the run's memory until it is copied for the caller: the memory must not be reused before. */
static void strings_survive_later_steps(void **state)
{
    static const char *const texts[] = { "alpha", "b", "", "a longer one than the others" };
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "s : string 4\n"
                      "at : int64 4\n"
                      "x : 16\n"
                      "t = Gather(s,at)\n"
                      "a = Neg(x)\n"
                      "b = Add(a,x)\n"
                      "c = Sub(b,a)\n"
                      "y = Exp(c)\n"
                      "-> t : string\n"
                      "-> y");
    rig_bind(&rig, 0, rig_texts(4, texts));
    rig_set(&rig, 1, INLAY_INT64, "4", (int64_t[]){ 3, 2, 1, 0 });
    rig_floats(&rig, 2, "16", (float[16]){ 1, 2, 3 });
    for (int i = 0; i < 3; i++) {
        rig_run(&rig);
        rig_expect_texts(inlay_context_output(rig.context, 0), 4,
                         (const char *const[]){ texts[3], texts[2], texts[1], texts[0] });
    }
    rig_close(&rig);
}

static void tensors_without_elements(void **state)
{
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "x : N,3\n"
                      "shape = i[2] 3,-1\n"
                      "n = Neg(x)\n"
                      "t = Transpose(n)\n"
                      "sum = ReduceSum(t)\n"
                      "both = Concat(x,n) axis=0\n"
                      "-> t, sum, both");
    for (int i = 0; i < 4; i++) {
        if (i % 2 == 0) {
            rig_floats(&rig, 0, "0,3", six);
            rig_run(&rig);
            rig_expect_floats(&rig, 0, "3,0", six);
            rig_expect_floats(&rig, 1, "1,1", (float[]){ 0 });
            rig_expect_floats(&rig, 2, "0,3", six);
        } else {
            rig_floats(&rig, 0, "1,3", (float[]){ 1, 2, 4 });
            rig_run(&rig);
            rig_expect_floats(&rig, 0, "3,1", (float[]){ -1, -2, -4 });
            rig_expect_floats(&rig, 1, "1,1", (float[]){ -7 });
            rig_expect_floats(&rig, 2, "2,3", (float[]){ 1, 2, 4, -1, -2, -4 });
        }
    }
    rig_close(&rig);
}

/* Three rounds over more shapes than the number of plans that are kept, in one context. */
static void alternating_shapes(void **state)
{
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "x : N\n"
                      "n = Shape(x)\n"
                      "n2 = Add(n,n)\n"
                      "one = [] 1\n"
                      "e = Expand(x,n)\n"
                      "f = Add(e,one)\n"
                      "y = Mul(f,x)\n"
                      "-> y\n"
                      "-> n2 : int64");
    for (int round = 0; round < 3; round++) {
        for (int n = 1; n <= 20; n++) {
            float x[20], y[20];
            char shape[8];

            for (int i = 0; i < n; i++) {
                x[i] = (float)(i + round);
                y[i] = (x[i] + 1) * x[i];
            }
            (void)snprintf(shape, sizeof shape, "%d", n);
            rig_floats(&rig, 0, shape, x);
            rig_run(&rig);
            rig_expect_floats(&rig, 0, shape, y);
            rig_expect_ints(&rig, 1, "1", (int64_t[]){ 2 * n });
        }
    }
    rig_close(&rig);
}

/* A failed run has no outputs and no effect on later runs; the message names the node. */
static void run_after_failure(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "x : 6\n"
                      "at : int64 2\n"
                      "a = Neg(x)\n"
                      "b = Gather(a,at) @the_gather\n"
                      "y = Abs(b)\n"
                      "-> y, a");
    rig_floats(&rig, 0, "6", six);
    for (int i = 0; i < 6; i++) {
        bool bad = i % 2 == 0;

        rig_set(&rig, 1, INLAY_INT64, "2", (int64_t[]){ 1, bad ? 6 : 5 });
        if (bad) {
            assert_int_not_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_OK);
            if (strstr(diag.text, "the_gather") == NULL)
                fail_msg("%s", diag.text);
            assert_null(inlay_context_output(rig.context, 0));
            assert_null(inlay_context_output(rig.context, 1));
        } else {
            rig_run(&rig);
            rig_expect_floats(&rig, 0, "2", (float[]){ 2, 6 });
        }
    }
    rig_close(&rig);
}

/* Outputs bound to the caller's memory: valid, too small, and the memory of the input. */
static void caller_memory(void **state)
{
    float room[8] = { 0 }, small[2] = { 7, 7 }, shared[6];
    inlay_value *value = NULL, *x = NULL;
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "x : 6\n"
                      "a = Neg(x)\n"
                      "b = Mul(a,a)\n" /* in the output's memory, if y is computed in place ... */
                      "y = Add(b,x)\n" /* ... while Add still reads x */
                      "-> y");
    rig_floats(&rig, 0, "6", six);

    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 1, (int64_t[]){ 8 }, room, sizeof room, &value, NULL), INLAY_OK);
    assert_int_equal(inlay_context_set_output(rig.context, 0, value, NULL), INLAY_OK);
    for (int i = 0; i < 2; i++) {
        memset(room, 0, sizeof room);
        rig_run(&rig);
        assert_ptr_equal(inlay_context_output(rig.context, 0), value);
        rig_expect_floats(&rig, 0, "6", (float[]){ 2, 2, 12, 12, 30, 30 });
        assert_float_equal(room[5], 30, 0);
    }
    inlay_value_unref(value);

    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 1, (int64_t[]){ 2 }, small, sizeof small, &value, NULL), INLAY_OK);
    assert_int_equal(inlay_context_set_output(rig.context, 0, value, NULL), INLAY_OK);
    rig_run(&rig);
    rig_expect_floats(&rig, 0, "6", (float[]){ 2, 2, 12, 12, 30, 30 });
    assert_float_equal(small[0], 7, 0);
    inlay_value_unref(value);

    for (int i = 0; i < 2; i++) {
        memcpy(shared, six, sizeof six);
        assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 1, (int64_t[]){ 6 }, shared, sizeof shared, &value, NULL),
                         INLAY_OK);
        assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 1, (int64_t[]){ 6 }, shared, sizeof shared, &x, NULL),
                         INLAY_OK);
        rig_bind(&rig, 0, x);
        assert_int_equal(inlay_context_set_output(rig.context, 0, value, NULL), INLAY_OK);
        inlay_value_unref(value);
        rig_run(&rig);
        rig_expect_floats(&rig, 0, "6", (float[]){ 2, 2, 12, 12, 30, 30 });
        assert_float_equal(shared[5], 30, 0);
    }
    assert_int_equal(inlay_context_set_output(rig.context, 0, NULL, NULL), INLAY_OK);
    rig_floats(&rig, 0, "6", six);
    rig_run(&rig);
    rig_expect_floats(&rig, 0, "6", (float[]){ 2, 2, 12, 12, 30, 30 });
    rig_close(&rig);
}

/* Memory that is not aligned to its elements is rejected, because kernels access it directly. */
static void misaligned_memory_is_refused(void **state)
{
    _Alignas(16) char bytes[64] = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value = NULL;
    int64_t two = 2;

    (void)state;
    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 1, &two, bytes + 1, 32, &value, &diag), INLAY_INVALID_ARGUMENT);
    assert_null(value);
    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 1, &two, bytes + 4, 32, &value, &diag), INLAY_OK);
    inlay_value_unref(value);
    assert_int_equal(inlay_value_borrow(INLAY_INT8, 1, &two, bytes + 1, 32, &value, &diag), INLAY_OK);
    inlay_value_unref(value);
}

/* Reshape to another number of elements is an error. */
static void reshape_to_another_size(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "x : N\n"
                      "shape = i[2] 2,3\n"
                      "y = Reshape(x,shape)\n"
                      "-> y");
    rig_floats(&rig, 0, "4", six);
    assert_int_not_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_OK);
    rig_floats(&rig, 0, "6", six);
    rig_run(&rig);
    rig_expect_floats(&rig, 0, "2,3", six);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(view_of_a_value_read_later),
        cmocka_unit_test(in_place_with_a_view_of_itself),
        cmocka_unit_test(one_input_twice_in_place),
        cmocka_unit_test(outputs_of_every_source),
        cmocka_unit_test(strings_survive_later_steps),
        cmocka_unit_test(tensors_without_elements),
        cmocka_unit_test(alternating_shapes),
        cmocka_unit_test(run_after_failure),
        cmocka_unit_test(caller_memory),
        cmocka_unit_test(misaligned_memory_is_refused),
        cmocka_unit_test(reshape_to_another_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
