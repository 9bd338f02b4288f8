/* Values that remain resident on the fake device although their shape or source is known during the run only: results
 * of branches and loops, and values of data-dependent size. Each test counts the copies. */
#include "fake_models.h"

static void expect_copies(const struct rig *rig, uint32_t in, uint32_t out)
{
    assert_int_equal(counted(&rig->counters->copied_in), in);
    assert_int_equal(counted(&rig->counters->copied_out), out);
}

#define BRANCH(other)                                                                                                  \
    "a : 2,3\nwhich : bool -\nc = Relu(a)\nm = If(which) then:Neg(c) else:" other "\ny = Add(m,m)\n-> y : 2,3"

/* The next region reads the result of a branch in device memory, also if the branch returns a captured value. */
static void results_of_branches(void **state)
{
    (void)state;
    for (int as_it_is = 0; as_it_is < 2; as_it_is++) {
        uint8_t choice = 0;
        struct rig rig;

        rig = open_script(NULL, as_it_is ? BRANCH("Identity(c)") : BRANCH("Add(c,c)"));
        set_floats(rig.context, 0, 2, dims, a);
        set_one(&rig, 1, INLAY_BOOL, &choice, 1);
        for (uint32_t i = 1; i <= 4; i++) {
            float expected[6];

            choice = i % 2;
            for (int k = 0; k < 6; k++)
                expected[k] = 2 * (a[k] < 0 ? 0 : a[k]) * (choice ? -1.0f : as_it_is ? 1.0f : 2.0f);
            run(&rig);
            expect_floats(rig.context, 0, expected, 6);
            expect_copies(&rig, i, i);
        }
        close_rig(&rig);
    }
}

/* A result that is a graph output is written where the caller requested it; one that the host also reads is downloaded
 * once. */
static void results_are_written_where_requested(void **state)
{
    static const float want[2][6] = { { 2, 0, 6, 0, 10, 0 }, { -1, 0, -3, 0, -5, 0 } };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *there, *home;
    uint8_t choice = 0;
    uint32_t out;
    struct rig rig;

    (void)state;
    rig = open_script(NULL, "a : 2,3\n"
                            "which : bool -\n"
                            "c = Relu(a)\n"
                            "m = If(which) then:Neg(c) else:Add(c,c)\n"
                            "n = Add(m,m)\n"
                            "h = Ceil(m)\n"
                            "f = Floor(m)\n"
                            "-> m, n, h, f : 2,3");
    set_floats(rig.context, 0, 2, dims, a);
    set_one(&rig, 1, INLAY_BOOL, &choice, 1);
    for (uint32_t i = 1; i <= 4; i++) {
        choice = i % 2;
        run(&rig);
        expect_floats(rig.context, 0, want[choice], 6);
        expect_floats(rig.context, 2, want[choice], 6);
        expect_floats(rig.context, 3, want[choice], 6);
        expect_copies(&rig, i, 2 * i); /* m once, n */
    }
    out = counted(&rig.counters->copied_out);
    assert_int_equal(inlay_session_value_create_on(rig.session, "fake", INLAY_FLOAT, 2, dims, &there, &diag), INLAY_OK);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, dims, &home, &diag), INLAY_OK);
    for (uint32_t i = 1; i <= 4; i++) {
        choice = i % 2;
        assert_int_equal(inlay_context_set_output(rig.context, 0, there, &diag), INLAY_OK);
        run(&rig);
        assert_ptr_equal(inlay_context_output(rig.context, 0), there);
        expect_floats(rig.context, 2, want[choice], 6);
        expect_copies(&rig, 4 + i, out + 2 * i + (i - 1)); /* m for the host, n; the download of this test */
        assert_int_equal(inlay_value_copy(there, home, &diag), INLAY_OK);
        for (int k = 0; k < 6; k++)
            assert_true(((const float *)inlay_value_data(home))[k] == want[choice][k]);
    }
    inlay_value_unref(there);
    inlay_value_unref(home);
    close_rig(&rig);
}

/* A branch within a branch. */
static void branches_within_branches(void **state)
{
    uint8_t outer = 0, inner = 0;
    struct rig rig;

    (void)state;
    rig = open_script(NULL, "a : 2,3\n"
                            "which : bool -\n"
                            "deep : bool -\n"
                            "c = Relu(a)\n"
                            "z = If(which) then_branch {\n"
                            "    m = If(deep) then:Neg(c) else:Add(c,c)\n"
                            "    p = Add(m,m)\n"
                            "    -> p : 2,3\n"
                            "} else_branch {\n"
                            "    q = If(deep) then:Neg(c) else:Mul(c,c)\n"
                            "    -> q : 2,3\n"
                            "}\n"
                            "y = Add(z,z)\n"
                            "-> y : 2,3");
    set_floats(rig.context, 0, 2, dims, a);
    set_one(&rig, 1, INLAY_BOOL, &outer, 1);
    set_one(&rig, 2, INLAY_BOOL, &inner, 1);
    for (uint32_t i = 1; i <= 8; i++) {
        float want[6];

        outer = i / 2 % 2;
        inner = i % 2;
        for (int k = 0; k < 6; k++) {
            const float c = a[k] < 0 ? 0 : a[k], deep = inner ? -c : outer ? 2 * c : c * c;

            want[k] = outer ? 4 * deep : 2 * deep;
        }
        run(&rig);
        expect_floats(rig.context, 0, want, 6);
        expect_copies(&rig, i, i);
    }
    close_rig(&rig);
}

/* A value that a branch, or a step of data-dependent size, reads may also be a graph output, which is downloaded. */
static void read_and_output(void **state)
{
    static const int64_t at[] = { 0, 0, 1, 0, 2, 1 };
    static const float relu[] = { 1, 0, 3, 0, 5, 0 };
    uint8_t choice = 0;
    struct rig rig;

    (void)state;
    rig = open_script(NULL, "a : 2,3\n"
                            "which : bool -\n"
                            "c = Relu(a)\n"
                            "m = If(which) then:Neg(c) else:Add(c,c)\n"
                            "z = NonZero(c)\n"
                            "-> c, m : 2,3\n"
                            "-> z : int64 n,n");
    set_one(&rig, 1, INLAY_BOOL, &choice, 1);
    for (int i = 0; i < 6; i++) {
        float x[6], want[6];

        choice = i % 2;
        for (int k = 0; k < 6; k++)
            x[k] = a[k] * (float)(i + 1);
        set_floats(rig.context, 0, 2, dims, x);
        run(&rig);
        for (int k = 0; k < 6; k++)
            want[k] = relu[k] * (float)(i + 1);
        expect_floats(rig.context, 0, want, 6);
        for (int k = 0; k < 6; k++)
            want[k] *= choice ? -1 : 2;
        expect_floats(rig.context, 1, want, 6);
        assert_int_equal(inlay_value_dims(inlay_context_output(rig.context, 2))[1], 3);
        assert_memory_equal(inlay_value_data(inlay_context_output(rig.context, 2)), at, sizeof at);
    }
    close_rig(&rig);
}

/* The next region reads carried and stacked results of a loop on the device, with zero, one and many iterations. The
 * device can stack slices that it can address: here 256 bytes. */
static void results_of_loops(void **state)
{
    static const int64_t shape[] = { 8, 8 };
    static const int64_t numbers[] = { 9, 1, 0, 5, 40, 9 };
    static float x[64], y[64], want[64 * 40];
    int64_t trips = 0;
    struct rig rig;

    (void)state;
    rig = open_script(NULL, "a : 8,8\n"
                            "b : 8,8\n"
                            "n : int64 -\n"
                            "z,s = Loop(n,_,a) body {\n"
                            "    i : int64 -\n"
                            "    go : bool -\n"
                            "    x : 8,8\n"
                            "    more = Add(x,b)\n"
                            "    less = Neg(more)\n"
                            "    on = Identity(go)\n"
                            "    -> on : bool -\n"
                            "    -> more, less : 8,8\n"
                            "}\n"
                            "y = Neg(z)\n"
                            "t = Neg(s)\n"
                            "-> y : 8,8\n"
                            "-> t : n,8,8");
    for (int i = 0; i < 64; i++) {
        x[i] = (float)i;
        y[i] = (float)(i % 3);
    }
    set_floats(rig.context, 0, 2, shape, x);
    set_floats(rig.context, 1, 2, shape, y);
    set_one(&rig, 2, INLAY_INT64, &trips, sizeof trips);
    for (uint32_t round = 0; round < sizeof numbers / sizeof numbers[0]; round++) {
        const uint32_t in = counted(&rig.counters->copied_in), out = counted(&rig.counters->copied_out);

        trips = numbers[round];
        run(&rig);
        for (int i = 0; i < 64; i++)
            want[i] = -(x[i] + (float)trips * y[i]);
        expect_floats(rig.context, 0, want, 64);
        for (int64_t k = 0; k < trips * 64; k++)
            want[k] = x[k % 64] + (float)(k / 64 + 1) * y[k % 64];
        expect_floats(rig.context, 1, want, trips * 64);
        if (trips > 0) /* a, b; y, t */
            expect_copies(&rig, in + 2, out + 2);
    }
    close_rig(&rig);
}

/* If resident values do not fit on the device, they are moved to the host, and the run continues. */
static void results_without_room(void **state)
{
    static const int64_t shape[] = { 16, 32 }; /* 2 KiB */
    static float x[512], y[512], want[512 * 30];
    int64_t trips = 30;

    (void)state;
    for (int i = 0; i < 512; i++) {
        x[i] = (float)i;
        y[i] = (float)(i % 3);
    }
    for (int kib = 9; kib <= 130; kib += 11) {
        char number[16];
        const char *const settings[] = { "memory_kib", number, NULL };
        struct rig rig;

        (void)snprintf(number, sizeof number, "%d", kib);
        rig = open_script(settings, "a : 16,32\n"
                                    "b : 16,32\n"
                                    "n : int64 -\n"
                                    "z,s = Loop(n,_,a) body {\n"
                                    "    i : int64 -\n"
                                    "    go : bool -\n"
                                    "    x : 16,32\n"
                                    "    more = Add(x,b)\n"
                                    "    less = Neg(more)\n"
                                    "    on = Identity(go)\n"
                                    "    -> on : bool -\n"
                                    "    -> more, less : 16,32\n"
                                    "}\n"
                                    "y = Neg(z)\n"
                                    "t = Floor(s)\n"
                                    "-> y : 16,32\n"
                                    "-> t : n,16,32");
        set_floats(rig.context, 0, 2, shape, x);
        set_floats(rig.context, 1, 2, shape, y);
        set_one(&rig, 2, INLAY_INT64, &trips, sizeof trips);
        for (int round = 0; round < 2; round++) {
            run(&rig);
            for (int i = 0; i < 512; i++)
                want[i] = -(x[i] + (float)trips * y[i]);
            expect_floats(rig.context, 0, want, 512);
            for (int64_t k = 0; k < trips * 512; k++)
                want[k] = -(x[k % 512] + (float)(k / 512 + 1) * y[k % 512]);
            expect_floats(rig.context, 1, want, trips * 512);
        }
        close_rig(&rig);
    }
}

/* A step of data-dependent size reads the result of a previous region on the device. */
static void inputs_of_sized_steps(void **state)
{
    static const char *const modes[][3] = { { "bounded", "true", NULL }, { "bounded", "false", NULL } };
    static const int64_t expected[] = { 0, 0, 1, 3, 0, 2, 1, 2 }, shape[] = { 4, 3 };
    float x[] = { 7, 0, 7, 0, 7, 0, 0, 0, 0, 0, 0, 7 };

    (void)state;
    for (int m = 0; m < 2; m++) {
        struct rig rig;

        rig = open_script(modes[m], "a : 4,3\n"
                                    "n = Neg(a)\n"
                                    "y = NonZero(n)\n"
                                    "-> y : int64 n,n");
        set_floats(rig.context, 0, 2, shape, x);
        for (uint32_t i = 1; i <= 3; i++) {
            run(&rig);
            assert_memory_equal(inlay_value_data(inlay_context_output(rig.context, 0)), expected, sizeof expected);
            expect_copies(&rig, i, i);
        }
        close_rig(&rig);
    }
}

/* Two regions on the device after a Compress on the host: values between them stay on the device, values that the host
 * also reads are downloaded once, and values that two regions read are uploaded once. */
static void values_of_unknown_size(void **state)
{
    static const char *const settings[][3] = { { NULL }, { "memory_kib", "8", NULL } };
    static const int64_t shape[] = { 600 };
    static float x[600], want[600];
    static uint8_t take[600];

    (void)state;
    for (int tight = 0; tight < 2; tight++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_value *value;
        struct rig rig;

        rig = open_script(settings[tight], "a : 600\n"
                                           "take : bool 600\n"
                                           "c = Compress(a,take)\n"
                                           "n = Relu(c)\n"  /* a region */
                                           "m = Mul(n,n)\n" /* and another */
                                           "s = Add(m,n)\n"
                                           "h = Ceil(n)\n" /* the host's */
                                           "f = Floor(n)\n"
                                           "k = Mul(c,c)\n" /* one more */
                                           "y = Add(k,s)\n"
                                           "-> y, h, f : n");
        set_floats(rig.context, 0, 1, shape, x);
        assert_int_equal(inlay_value_borrow(INLAY_BOOL, 1, shape, take, sizeof take, &value, &diag), INLAY_OK);
        assert_int_equal(inlay_context_set_input(rig.context, 1, value, &diag), INLAY_OK);
        inlay_value_unref(value);
        for (uint32_t round = 1; round <= 4; round++) {
            int64_t count = 0;

            for (int i = 0; i < 600; i++) {
                x[i] = (float)(i % 17) - 8;
                take[i] = (uint32_t)i % round == 0;
                if (take[i])
                    want[count++] = x[i] * x[i] + (x[i] > 0 ? x[i] * x[i] + x[i] : 0);
            }
            run(&rig);
            expect_floats(rig.context, 0, want, count);
            count = 0;
            for (int i = 0; i < 600; i++)
                if (take[i])
                    want[count++] = x[i] > 0 ? x[i] : 0;
            expect_floats(rig.context, 1, want, count);
            expect_floats(rig.context, 2, want, count);
            if (!tight)
                expect_copies(&rig, round, 2 * round); /* c; n, y */
        }
        close_rig(&rig);
    }
}

/* A result of data-dependent size is written into the caller's device value, and refused if it is too large. */
static void results_of_unknown_size(void **state)
{
    static const int64_t shape[] = { 6 }, room[] = { 4 };
    float x[] = { 1, 2, 3, 4, 5, 6 }, got[4];
    static const float want[] = { -1, -3, -5 };
    uint8_t take[] = { 1, 0, 1, 0, 1, 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value, *there, *home;
    struct rig rig;

    (void)state;
    rig = open_script(NULL, "a : 6\n"
                            "take : bool 6\n"
                            "c = Compress(a,take)\n"
                            "y = Neg(c)\n"
                            "-> y, c : n");
    set_floats(rig.context, 0, 1, shape, x);
    assert_int_equal(inlay_value_borrow(INLAY_BOOL, 1, shape, take, sizeof take, &value, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(rig.context, 1, value, &diag), INLAY_OK);
    inlay_value_unref(value);
    for (uint32_t o = 0; o < 2; o++) { /* one output is computed on the device, one on the host */
        const uint32_t out = counted(&rig.counters->copied_out);

        assert_int_equal(inlay_session_value_create_on(rig.session, "fake", INLAY_FLOAT, 1, room, &there, &diag),
                         INLAY_OK);
        assert_int_equal(inlay_context_set_output(rig.context, o, there, &diag), INLAY_OK);
        run(&rig);
        assert_ptr_equal(inlay_context_output(rig.context, o), there);
        assert_int_equal(inlay_value_count(there), 3);
        assert_int_equal(counted(&rig.counters->copied_out), out + o); /* the other output, if the device computes it */
        assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 1, (const int64_t[]){ 3 }, got, sizeof got, &home, &diag),
                         INLAY_OK);
        assert_int_equal(inlay_value_copy(there, home, &diag), INLAY_OK);
        for (int i = 0; i < 3; i++)
            assert_true(got[i] == (o == 0 ? want[i] : -want[i]));
        inlay_value_unref(home);
        memset(take, 1, sizeof take);
        assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_SHAPE_MISMATCH);
        for (int i = 1; i < 6; i += 2)
            take[i] = 0;
        assert_int_equal(inlay_context_set_output(rig.context, o, NULL, &diag), INLAY_OK);
        inlay_value_unref(there);
    }
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_of_branches),      cmocka_unit_test(results_are_written_where_requested),
        cmocka_unit_test(branches_within_branches), cmocka_unit_test(read_and_output),
        cmocka_unit_test(results_of_loops),         cmocka_unit_test(results_without_room),
        cmocka_unit_test(inputs_of_sized_steps),    cmocka_unit_test(values_of_unknown_size),
        cmocka_unit_test(results_of_unknown_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
