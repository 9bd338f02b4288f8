/* Copies of the fake device begin as soon as what they move is there, not when somebody waits for it: each test reads
 * in which order the device was given its work. */
#include "fake_models.h"

static const float first[6] = { 3, 0, 0, 2, 9, -9 };

static void expect_order(const rig *r, const char *expected)
{
    assert_string_equal(r->counters->order, expected);
}

/* What a later region reads of the caller's goes to the device before the host computes, and before other regions. */
static void inputs_go_first(void **state)
{
    onnx_bytes g = { .count = 0 };
    float x[6], want[6];
    rig r;

    (void)state;
    onnx_input(&g, "a", INLAY_FLOAT, 2, dims);
    onnx_input(&g, "b", INLAY_FLOAT, 2, dims);
    onnx_input(&g, "c", INLAY_FLOAT, 2, dims);
    onnx_node(&g, "Neg", "", "a", "n");
    onnx_node(&g, "Floor", "", "n", "f"); /* the host's */
    onnx_node(&g, "Add", "", "f,b", "s");
    onnx_node(&g, "Floor", "", "s", "t");
    onnx_node(&g, "Add", "", "t,c", "y");
    onnx_output(&g, "y", INLAY_FLOAT, 2, dims);
    r = open_rig(&g, NULL);
    for (int i = 0; i < 6; i++) {
        x[i] = (float)i;
        want[i] = -a[i] + x[i] + first[i];
    }
    set_floats(r.context, 0, 2, dims, a);
    set_floats(r.context, 1, 2, dims, x);
    set_floats(r.context, 2, 2, dims, (float *)(uintptr_t)first);
    run(&r);
    expect_floats(r.context, 0, want, 6);
    expect_order(&r, "(iii)xoixoixo");
    run(&r);
    expect_floats(r.context, 0, want, 6);
    close_rig(&r);
}

/* What the host makes goes to the device when it is made, though regions that do not read it come in between; what a
 * region makes for the host is on its way before the next region begins, and so is what leaves the graph. */
static void values_go_when_they_are_made(void **state)
{
    onnx_bytes g = { .count = 0 };
    float want[2][6];
    rig r;

    (void)state;
    onnx_input(&g, "a", INLAY_FLOAT, 2, dims);
    onnx_input(&g, "b", INLAY_FLOAT, 2, dims);
    onnx_node(&g, "Floor", "", "b", "f");
    onnx_node(&g, "Mul", "", "a,a", "p"); /* a Mul is a region of its own, with an Add behind it */
    onnx_node(&g, "Add", "", "p,a", "q");
    onnx_node(&g, "Mul", "", "q,q", "u");
    onnx_node(&g, "Add", "", "u,q", "w");
    onnx_node(&g, "Mul", "", "w,f", "v");
    onnx_node(&g, "Add", "", "v,w", "y");
    onnx_node(&g, "Ceil", "", "q", "z");
    onnx_output(&g, "y", INLAY_FLOAT, 2, dims);
    onnx_output(&g, "z", INLAY_FLOAT, 2, dims);
    onnx_output(&g, "w", INLAY_FLOAT, 2, dims);
    r = open_rig(&g, NULL);
    set_floats(r.context, 0, 2, dims, a);
    set_floats(r.context, 1, 2, dims, (float *)(uintptr_t)first);
    for (int i = 0; i < 6; i++) {
        const float q = a[i] * a[i] + a[i], w = q * q + q;

        want[0][i] = w * first[i] + w;
        want[1][i] = q;
    }
    for (int round = 0; round < 3; round++) {
        run(&r);
        expect_floats(r.context, 0, want[0], 6);
        expect_floats(r.context, 1, want[1], 6);
    }
    assert_int_equal(r.counters->groups, 3);
    assert_memory_equal(r.counters->order, "iixoxoxo", 8);
    close_rig(&r);
}

/* Where memory has a limit nothing is fetched that other regions need the room of. */
static void limits_come_before(void **state)
{
    static const char *const limits[][3] = { { "memory_limit", "fake=768KiB", NULL }, { NULL } };
    static const int64_t shape[] = { 256, 256 }; /* 256 KiB */
    enum { COUNT = 256 * 256 };
    float *x = calloc(3 * COUNT, sizeof *x);

    (void)state;
    assert_non_null(x);
    for (int free = 0; free < 2; free++) {
        onnx_bytes g = { .count = 0 };
        rig r;

        onnx_input(&g, "a", INLAY_FLOAT, 2, shape);
        onnx_input(&g, "b", INLAY_FLOAT, 2, shape);
        onnx_input(&g, "c", INLAY_FLOAT, 2, shape);
        onnx_node(&g, "Neg", "", "a", "n");
        onnx_node(&g, "Floor", "", "n", "f");
        onnx_node(&g, "Add", "", "f,b", "s");
        onnx_node(&g, "Floor", "", "s", "t");
        onnx_node(&g, "Add", "", "t,c", "y");
        onnx_output(&g, "y", INLAY_FLOAT, 2, shape);
        session_options = limits[free];
        r = open_rig(&g, NULL);
        session_options = NULL;
        for (uint32_t i = 0; i < 3 * COUNT; i++)
            x[i] = (float)(i % 1000);
        for (uint32_t i = 0; i < 3; i++)
            set_floats(r.context, i, 2, shape, x + i * COUNT);
        run(&r);
        for (uint32_t i = 0; i < COUNT; i++)
            x[i] = x[COUNT + i] + x[2 * COUNT + i] - x[i];
        expect_floats(r.context, 0, x, COUNT);
        assert_true(r.counters->peak_kib <= (free ? 1280u : 768u));
        expect_order(&r, free ? "iiixoixoixo" : "iixoixoiixo");
        close_rig(&r);
    }
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_go_first),
        cmocka_unit_test(values_go_when_they_are_made),
        cmocka_unit_test(limits_come_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
