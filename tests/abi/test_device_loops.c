/* Loops and branches on the fake device: carried and captured values stay in device memory. */
#include "fake_models.h"

/* Captured and carried values of a loop are uploaded once; carried values are downloaded at its end. */
static void loops_upload_once(void **state)
{
    int64_t trips = 100;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value;
    onnx_bytes bytes = { .count = 0 }, body = { .count = 0 }, node = { .count = 0 }, attr = { .count = 0 };
    float x[6] = { 0 }, want[6];
    struct rig rig;

    (void)state;
    onnx_input(&body, "i", INLAY_INT64, 0, &scalar);
    onnx_input(&body, "go", INLAY_BOOL, 0, &scalar);
    onnx_input(&body, "x", INLAY_FLOAT, 2, dims);
    onnx_node(&body, "Add", "", "x,b", "more");
    onnx_node(&body, "Identity", "", "go", "on");
    onnx_output(&body, "on", INLAY_BOOL, 0, &scalar);
    onnx_output(&body, "more", INLAY_FLOAT, 2, dims);
    onnx_text(&body, 2, "body");
    onnx_input(&bytes, "a", INLAY_FLOAT, 2, dims);
    onnx_input(&bytes, "b", INLAY_FLOAT, 2, dims);
    onnx_input(&bytes, "n", INLAY_INT64, 0, &scalar); /* a known number would be unrolled */
    onnx_names(&node, 1, "n,,a");
    onnx_names(&node, 2, "y");
    onnx_text(&node, 4, "Loop");
    onnx_text(&attr, 1, "body");
    onnx_message(&attr, 6, &body);
    onnx_number(&attr, 20, 5); /* GRAPH */
    onnx_message(&node, 5, &attr);
    onnx_message(&bytes, 1, &node);
    onnx_output(&bytes, "y", INLAY_FLOAT, 2, dims);
    rig = open_rig(&bytes, NULL);
    assert_int_equal(inlay_value_borrow(INLAY_INT64, 0, NULL, &trips, sizeof trips, &value, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(rig.context, 2, value, &diag), INLAY_OK);
    inlay_value_unref(value);
    for (int round = 1; round <= 3; round++) {
        for (int i = 0; i < 6; i++) {
            b[i] += 1; /* another value in each round */
            want[i] = 100 * b[i];
        }
        set_floats(rig.context, 0, 2, dims, x);
        set_floats(rig.context, 1, 2, dims, b);
        run(&rig);
        expect_floats(rig.context, 0, want, 6);
        assert_int_equal(counted(&rig.counters->copied_in), 2 * round);
        assert_int_equal(counted(&rig.counters->copied_out), round);
    }
    close_rig(&rig);
}

/* A loop that a condition ends after 100 iterations: only the input of the condition is downloaded. The captured value
 * is computed on the device and read there. */
static void a_loop_moves_its_condition_only(void **state)
{
    static const int64_t one[] = { 1 };
    float x[6] = { 0 }, count = 0, step = 1, limit = 100, want[6];
    onnx_bytes bytes = { .count = 0 }, body = { .count = 0 }, node = { .count = 0 };
    struct rig rig;

    (void)state;
    onnx_input(&body, "i", INLAY_INT64, 0, &scalar);
    onnx_input(&body, "go", INLAY_BOOL, 0, &scalar);
    onnx_input(&body, "x", INLAY_FLOAT, 2, dims);
    onnx_input(&body, "s", INLAY_FLOAT, 1, one);
    onnx_node(&body, "Add", "", "x,c", "more");
    onnx_node(&body, "Add", "", "s,step", "next");
    onnx_node(&body, "Less", "", "next,limit", "on");
    onnx_output(&body, "on", INLAY_BOOL, 1, one);
    onnx_output(&body, "more", INLAY_FLOAT, 2, dims);
    onnx_output(&body, "next", INLAY_FLOAT, 1, one);
    onnx_text(&body, 2, "body");
    onnx_input(&bytes, "a", INLAY_FLOAT, 2, dims);
    onnx_input(&bytes, "b", INLAY_FLOAT, 2, dims);
    onnx_input(&bytes, "s0", INLAY_FLOAT, 1, one);
    onnx_input(&bytes, "step", INLAY_FLOAT, 1, one);
    onnx_input(&bytes, "limit", INLAY_FLOAT, 1, one);
    onnx_node(&bytes, "Neg", "", "b", "c");
    onnx_names(&node, 1, ",,a,s0");
    onnx_names(&node, 2, "y,steps");
    onnx_text(&node, 4, "Loop");
    onnx_body(&node, "body", &body);
    onnx_message(&bytes, 1, &node);
    onnx_output(&bytes, "y", INLAY_FLOAT, 2, dims);
    onnx_output(&bytes, "steps", INLAY_FLOAT, 1, one);
    rig = open_rig(&bytes, NULL);
    set_floats(rig.context, 0, 2, dims, x);
    set_floats(rig.context, 1, 2, dims, a);
    set_floats(rig.context, 2, 1, one, &count);
    set_floats(rig.context, 3, 1, one, &step);
    set_floats(rig.context, 4, 1, one, &limit);
    for (int i = 0; i < 6; i++)
        want[i] = -100 * a[i];
    for (uint32_t round = 1; round <= 3; round++) {
        run(&rig);
        expect_floats(rig.context, 0, want, 6);
        expect_floats(rig.context, 1, &limit, 1);
        assert_int_equal(counted(&rig.counters->copied_in), 4 * round);    /* b; a and s0, which are carried; step */
        assert_int_equal(counted(&rig.counters->copied_out), 102 * round); /* the count, then the results of the loop */
    }
    close_rig(&rig);
}

/* Branches read captured values on the device. */
static void branches_read_on_the_device(void **state)
{
    static const float want[2][6] = { { 1, -2, 3, -4, 5, -6 }, { 0, 2, 0, 4, 0, 6 } };
    onnx_bytes bytes = { .count = 0 }, yes = { .count = 0 }, no = { .count = 0 }, node = { .count = 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    uint8_t choice = 0;
    inlay_value *cond;
    struct rig rig;

    (void)state;
    onnx_node(&yes, "Relu", "", "c", "p");
    onnx_output(&yes, "p", INLAY_FLOAT, 2, dims);
    onnx_text(&yes, 2, "yes");
    onnx_node(&no, "Neg", "", "c", "q");
    onnx_output(&no, "q", INLAY_FLOAT, 2, dims);
    onnx_text(&no, 2, "no");
    onnx_input(&bytes, "a", INLAY_FLOAT, 2, dims);
    onnx_input(&bytes, "which", INLAY_BOOL, 0, &scalar);
    onnx_node(&bytes, "Neg", "", "a", "c");
    onnx_names(&node, 1, "which");
    onnx_names(&node, 2, "y");
    onnx_text(&node, 4, "If");
    onnx_body(&node, "then_branch", &yes);
    onnx_body(&node, "else_branch", &no);
    onnx_message(&bytes, 1, &node);
    onnx_output(&bytes, "y", INLAY_FLOAT, 2, dims);
    rig = open_rig(&bytes, NULL);
    set_floats(rig.context, 0, 2, dims, a);
    assert_int_equal(inlay_value_borrow(INLAY_BOOL, 0, NULL, &choice, 1, &cond, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(rig.context, 1, cond, &diag), INLAY_OK);
    for (uint32_t i = 1; i <= 4; i++) {
        choice = i % 2;
        run(&rig);
        expect_floats(rig.context, 0, want[choice], 6);
        assert_int_equal(counted(&rig.counters->copied_in), i);
        assert_int_equal(counted(&rig.counters->copied_out), i);
    }
    inlay_value_unref(cond);
    close_rig(&rig);
}

/* A loop whose carried values do not fit on the device keeps them on the host. */
static void loops_without_device_memory(void **state)
{
    static const char *const settings[] = { "memory_kib", "5", NULL };
    static const int64_t shape[] = { 16, 32 }; /* 2 KiB */
    int64_t trips = 10;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value;
    onnx_bytes bytes = { .count = 0 }, body = { .count = 0 }, node = { .count = 0 };
    float x[512], want[512];
    struct rig rig;

    (void)state;
    onnx_input(&body, "i", INLAY_INT64, 0, &scalar);
    onnx_input(&body, "go", INLAY_BOOL, 0, &scalar);
    onnx_input(&body, "x", INLAY_FLOAT, 2, shape);
    onnx_node(&body, "Add", "", "x,x", "more");
    onnx_node(&body, "Identity", "", "go", "on");
    onnx_output(&body, "on", INLAY_BOOL, 0, &scalar);
    onnx_output(&body, "more", INLAY_FLOAT, 2, shape);
    onnx_text(&body, 2, "body");
    onnx_input(&bytes, "a", INLAY_FLOAT, 2, shape);
    onnx_input(&bytes, "n", INLAY_INT64, 0, &scalar);
    onnx_names(&node, 1, "n,,a");
    onnx_names(&node, 2, "y");
    onnx_text(&node, 4, "Loop");
    onnx_body(&node, "body", &body);
    onnx_message(&bytes, 1, &node);
    onnx_output(&bytes, "y", INLAY_FLOAT, 2, shape);
    rig = open_rig(&bytes, settings);
    assert_int_equal(inlay_value_borrow(INLAY_INT64, 0, NULL, &trips, sizeof trips, &value, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(rig.context, 1, value, &diag), INLAY_OK);
    inlay_value_unref(value);
    for (int i = 0; i < 512; i++) {
        x[i] = (float)i;
        want[i] = 1024 * x[i];
    }
    set_floats(rig.context, 0, 2, shape, x);
    for (int round = 0; round < 3; round++) {
        run(&rig);
        expect_floats(rig.context, 0, want, 512);
    }
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_upload_once),
        cmocka_unit_test(a_loop_moves_its_condition_only),
        cmocka_unit_test(branches_read_on_the_device),
        cmocka_unit_test(loops_without_device_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
