/* Option cpu.pack_bytes: the kernels that it allows, as `inlay explain` shows them, and the bytes of their weights. */
#include "compare.h"
#include "text_buffer.h"

enum { LAYERS = 6, WEIGHTS = 64 * 64 * 9 * 4, MATRIX = 1024 * 1024 * 4 };

static const char convolutions[] =
    "w0 = [64,64,3,3]\nw1 = [64,64,3,3]\nw2 = [64,64,3,3]\nw3 = [64,64,3,3]\nw4 = [64,64,3,3]\nw5 = [64,64,3,3]\n"
    "a = Conv(x, w0) pads=1,1,1,1\nb = Conv(a, w1) pads=1,1,1,1\nc = Conv(b, w2) pads=1,1,1,1\n"
    "d = Conv(c, w3) pads=1,1,1,1\ne = Conv(d, w4) pads=1,1,1,1\ny = Conv(e, w5) pads=1,1,1,1\n-> y";

static struct rig open_limited(const char *script, const char *pack_bytes, const char *threads, const char *forbid)
{
    struct wire wire = { 0 };

    script_model(&wire, 17, script);
    return rig_open(&wire, (const char *const[]){ "providers", "cpu,reference", "policy", "priority", "intra_threads",
                                                  threads, "cache_dir", "", "forbid", forbid,
                                                  pack_bytes != NULL ? "cpu.pack_bytes" : NULL, pack_bytes, NULL });
}

static int count_of(const char *text, const char *what)
{
    int n = 0;

    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        n++;
    return n;
}

/* The kernels of a session: layers with Winograd's algorithm, and those that the option kept from it. */
struct kernels {
    int points_6, points_4, kept;
};

static struct kernels kernels_of(const struct rig *rig)
{
    const inlay_explain_options how = { .struct_size = sizeof how, .format = "json", .flags = INLAY_EXPLAIN_KERNELS };
    struct text_buffer told = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct kernels kernels;

    if (inlay_session_explain(rig->session, &how, text_buffer_append, &told, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    kernels = (struct kernels){ .points_6 = count_of(told.data, "\"kernel\": {\"name\": \"winograd_4x4\""),
                                .points_4 = count_of(told.data, "\"kernel\": {\"name\": \"winograd_2x2\""),
                                .kept = count_of(told.data, "option pack_bytes") };
    text_buffer_free(&told);
    return kernels;
}

static struct kernels kernels_with(const char *pack_bytes)
{
    char script[768];
    struct kernels kernels;
    struct rig rig;

    (void)snprintf(script, sizeof script, "x : 1,64,40,40\n%s", convolutions);
    rig = open_limited(script, pack_bytes, "1", "");
    kernels = kernels_of(&rig);
    rig_close(&rig);
    return kernels;
}

/* Packed weights stay below the limit, as a multiple and in bytes, and what it allows is used. */
static void limits(void **state)
{
    static const double factors[] = { 1, 1.5, 1.78, 2.3, 3, 4 };
    const struct kernels all = kernels_with("inf"), usual = kernels_with(NULL);
    int before = 0;

    (void)state;
    assert_int_equal(all.points_6, LAYERS);
    assert_int_equal(all.kept, 0);
    assert_int_equal(usual.points_6, LAYERS); /* the default does not slow down small models */
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        char factor[32], bytes[32];
        struct kernels some, same;
        double packed;

        (void)snprintf(factor, sizeof factor, "%g", factors[i]);
        (void)snprintf(bytes, sizeof bytes, "%.0f", factors[i] * LAYERS * WEIGHTS);
        some = kernels_with(factor);
        same = kernels_with(bytes);
        assert_memory_equal(&some, &same, sizeof some);
        packed = some.points_6 * 4 + some.points_4 * 16.0 / 9 + (LAYERS - some.points_6 - some.points_4);
        assert_true(packed <= factors[i] * LAYERS);
        assert_true(packed > factors[i] * LAYERS - 3);
        assert_true(some.points_6 + some.points_4 >= before);
        assert_int_equal(some.kept, LAYERS - some.points_6);
        before = some.points_6 + some.points_4;
    }
    assert_int_equal(kernels_with("1").points_4, 0);
    assert_int_equal(kernels_with("4").points_6, LAYERS);
}

/* Regions whose weights do not grow leave their part of the limit to those with convolutions. */
static void shares(void **state)
{
    char script[768];
    struct rig rig;

    (void)state;
    (void)snprintf(script, sizeof script,
                   "z : 1600,1024\nm = [1024,64]\nn = [1024,1024]\nk = MatMul(z, n)\nl = MatMul(k, m)\n"
                   "t = Transpose(l) perm=1,0\nf = Erf(t)\ns = i[4] 1,64,40,40\nx = Reshape(f, s)\n%s",
                   convolutions);
    _Static_assert(4 * 9 * (MATRIX + MATRIX / 16 + LAYERS * WEIGHTS) > 10 * 7 * LAYERS * WEIGHTS,
                   "0.4 of the model are enough for 4 points in all layers, of 16/9 of their weights");
    rig = open_limited(script, "1.4", "1", "op:Erf=cpu");
    assert_int_equal(kernels_of(&rig).points_4 + kernels_of(&rig).points_6, LAYERS);
    rig_close(&rig);
}

/* The results are those of the reference, and the same bits on any number of threads. The weights are shared by layers
 * of which some have too small images for Winograd's algorithm. */
static void results(void **state)
{
    static const char script[] = "x : 1,64,20,20\nw = [64,64,3,3]\nv = [64,64,3,3]\na = Conv(x, w) pads=1,1,1,1\n"
                                 "b = Conv(a, v) pads=1,1,1,1\nc = MaxPool(b) kernel_shape=10,10, strides=10,10\n"
                                 "d = Conv(c, w) pads=1,1,1,1\ny = Conv(d, v) pads=1,1,1,1\n-> b, y";
    static const char *const factors[] = { "1", "2", "3.6", "inf" }, *const threads[] = { "1", "2", "3" };
    struct rig plain = compare_open(script, 17, "reference", "1", NULL);

    (void)state;
    script_feed(&plain, 1);
    rig_run(&plain);
    for (size_t i = 0; i < 4; i++) {
        struct rig one = open_limited(script, factors[i], "1", "");

        script_feed(&one, 1);
        rig_run(&one);
        compare_outputs(&one, &plain, script);
        for (size_t t = 1; t < 3; t++) {
            struct rig rig = open_limited(script, factors[i], threads[t], "");

            script_feed(&rig, 1);
            rig_run(&rig);
            for (uint32_t o = 0; o < 2; o++)
                assert_memory_equal(inlay_value_data(inlay_context_output(rig.context, o)),
                                    inlay_value_data(inlay_context_output(one.context, o)),
                                    inlay_value_bytes(inlay_context_output(one.context, o)));
            rig_close(&rig);
        }
        rig_close(&one);
    }
    rig_close(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(limits), cmocka_unit_test(shares), cmocka_unit_test(results) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
