/* Loops and branches on the fake device: carried and captured values stay in device memory. */
#include "fake_models.h"

/* Captured and carried values of a loop are uploaded once; carried values are downloaded at its end. */
static void loops_upload_once(void **state)
{
    int64_t trips = 100;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value;
    float x[6] = { 0 }, want[6];
    struct rig rig;

    (void)state;
    rig = open_script(NULL, "a : 2,3\n"
                            "b : 2,3\n"
                            "n : int64 -\n" /* a known number would be unrolled */
                            "y = Loop(n,_,a) body {\n"
                            "    i : int64 -\n"
                            "    go : bool -\n"
                            "    x : 2,3\n"
                            "    more = Add(x,b)\n"
                            "    on = Identity(go)\n"
                            "    -> on : bool -\n"
                            "    -> more : 2,3\n"
                            "}\n"
                            "-> y : 2,3");
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
    struct rig rig;

    (void)state;
    rig = open_script(NULL, "a : 2,3\n"
                            "b : 2,3\n"
                            "s0 : 1\n"
                            "step : 1\n"
                            "limit : 1\n"
                            "c = Neg(b)\n"
                            "y,steps = Loop(_,_,a,s0) body {\n"
                            "    i : int64 -\n"
                            "    go : bool -\n"
                            "    x : 2,3\n"
                            "    s : 1\n"
                            "    more = Add(x,c)\n"
                            "    next = Add(s,step)\n"
                            "    on = Less(next,limit)\n"
                            "    -> on : bool 1\n"
                            "    -> more : 2,3\n"
                            "    -> next : 1\n"
                            "}\n"
                            "-> y : 2,3\n"
                            "-> steps : 1");
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
    inlay_diag diag = INLAY_DIAG_INIT;
    uint8_t choice = 0;
    inlay_value *cond;
    struct rig rig;

    (void)state;
    rig = open_script(NULL, "a : 2,3\n"
                            "which : bool -\n"
                            "c = Neg(a)\n"
                            "y = If(which) then_branch {\n"
                            "    p = Relu(c)\n"
                            "    -> p : 2,3\n"
                            "} else_branch {\n"
                            "    q = Neg(c)\n"
                            "    -> q : 2,3\n"
                            "}\n"
                            "-> y : 2,3");
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
    float x[512], want[512];
    struct rig rig;

    (void)state;
    rig = open_script(settings, "a : 16,32\n"
                                "n : int64 -\n"
                                "y = Loop(n,_,a) body {\n"
                                "    i : int64 -\n"
                                "    go : bool -\n"
                                "    x : 16,32\n"
                                "    more = Add(x,x)\n"
                                "    on = Identity(go)\n"
                                "    -> on : bool -\n"
                                "    -> more : 16,32\n"
                                "}\n"
                                "-> y : 16,32");
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
