/* Special values have one meaning at every level and on every provider: what the operators of the file make of them,
 * one after the other (README, "Special values"). Graphs that passes put together and kernels of every family, with
 * NaN, infinities and numbers from the least to the largest, beside the reference at level 0. */
#include "cmocka_all.h"
#include "graph_script.h"
#include <float.h>

static const char *const plain[] = { "providers", "reference", "level", "0", NULL };
static const char *const reference[] = { "providers", "reference", NULL };
static const char *const best[] = { "policy", "priority", "providers", "onednn,reference", NULL };
static const char *const loops[] = { "policy",           "priority", "providers", "onednn,reference",
                                     "onednn.own_loops", "0",        NULL };
static const char *const device[] = { "policy", "priority", "providers", "vulkan,reference", NULL };
static const struct {
    const char *name;
    const char *const *options;
    bool optional; /* the machine may not have it */
} settings[] = {
    { "reference", reference, false },
    { "onednn", best, true },
    { "onednn without loops of its own", loops, true },
    { "vulkan", device, true },
};
enum { SETTINGS = sizeof settings / sizeof *settings };
static bool there[SETTINGS];

static bool try_open(const char *script, const char *const *options, rig *out)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    wire w = { 0 };

    script_model(&w, script, 23);
    return rig_try_open(&w, options, out, &diag) == INLAY_OK;
}

static int find_providers(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETTINGS; i++) {
        rig r;

        there[i] = try_open("x : 3\ny = Relu(x)\n-> y", settings[i].options, &r);
        if (there[i])
            rig_close(&r);
        else if (!settings[i].optional)
            return 1;
    }
    return 0;
}

/* A number of which element of which input. */
typedef struct plant {
    const char *input;
    int64_t at;
    float value;
} plant;

static void feed(rig *r, const plant *plants, size_t count)
{
    uint32_t state = 5;

    for (uint32_t i = 0; i < inlay_session_input_count(r->session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        inlay_value *v = NULL;
        float *data;

        (void)inlay_session_input(r->session, i, &info);
        assert_int_equal(inlay_value_create(INLAY_FLOAT, info.rank, info.dims, &v, NULL), INLAY_OK);
        data = inlay_value_data(v);
        for (int64_t k = 0; k < inlay_value_count(v); k++)
            data[k] = 2 * script_random(&state) - 1;
        for (size_t k = 0; k < count; k++)
            if (strcmp(plants[k].input, info.name) == 0)
                data[plants[k].at % inlay_value_count(v)] = plants[k].value;
        rig_bind(r, i, v);
    }
}

static int wrong;

static void compare(const rig *got, const rig *want, const char *setting, const char *what, const char *script)
{
    for (uint32_t o = 0; o < inlay_session_output_count(want->session); o++) {
        const inlay_value *a = inlay_context_output(got->context, o), *b = inlay_context_output(want->context, o);
        const float *x = inlay_value_data(a), *y = inlay_value_data(b);
        float most = 1e-6f;

        assert_int_equal(inlay_value_count(a), inlay_value_count(b));
        for (int64_t i = 0; i < inlay_value_count(b); i++)
            most = isfinite(y[i]) && fabsf(y[i]) > most ? fabsf(y[i]) : most;
        for (int64_t i = 0; i < inlay_value_count(b); i++)
            if (!(x[i] == y[i] || (isnan(x[i]) && isnan(y[i])) || fabsf(x[i] - y[i]) <= 2e-5f * most)) {
                print_error("%s, %s: element %lld of output %u is %g, not %g, in\n%s\n", setting, what, (long long)i, o,
                            (double)x[i], (double)y[i], script);
                wrong++;
                break;
            }
    }
}

/* few: only where a session opens fast. */
static void expect_same(const char *script, const char *what, const plant *plants, size_t count, bool few)
{
    rig want;

    assert_true(try_open(script, plain, &want));
    feed(&want, plants, count);
    rig_run(&want);
    for (size_t i = 0; i < SETTINGS; i++) {
        rig got;

        if (!there[i] || (few && settings[i].options == device))
            continue;
        if (!try_open(script, settings[i].options, &got))
            fail_msg("%s does not open\n%s", settings[i].name, script);
        feed(&got, plants, count);
        rig_run(&got);
        compare(&got, &want, settings[i].name, what, script);
        rig_close(&got);
    }
    rig_close(&want);
}

static void expect_none_wrong(void)
{
    if (wrong > 0)
        fail_msg("%d results differ from those of level 0", wrong);
}

/* ------------------------------------------------------------------ attention */

/* From scores s to what Softmax reads, a. pad, hole: conditions of keys and of scores; m, n: inputs to be added. */
static const char *const masks[] = {
    "a = Identity(s)",
    "a = Add(s, m)",
    "b = Add(s, m)\na = Add(n, b)",
    "a = Where(pad, low, s)",
    "a = Where(hole, s, low)",
    "a = Where(all, low, s)",
    "b = Where(hole, low, s)\na = Add(b, m)",
    "b = Add(s, m)\na = Where(pad, low, b)",
    "b = Where(pad, low, s)\na = Where(hole, high, b)",
    "b = Where(hole, low, s)\nc = Add(b, m)\na = Where(pad, high, c)",
    "a = Add(s, tri)",
};
static const char *const lows[] = { "-1e9", "-inf", "-3.4028235e38", "-10", "5" };
static const char *const guards[] = { "w = Identity(p)", "e = IsNaN(p)\nw = Where(e, zero, p)" };

static const struct {
    const char *what;
    plant plants[6];
    size_t count;
} attended[] = {
    { "ordinary numbers", { { "q", 0, 0.5f } }, 1 },
    { "a query that is NaN", { { "q", 9, NAN } }, 1 },
    { "a key that is NaN", { { "k", 33, NAN } }, 1 },
    { "a key that is infinite", { { "k", 33, INFINITY } }, 1 },
    { "a key that overflows", { { "k", 33, -3e38f }, { "q", 1, 3e38f }, { "q", 9, 3e38f } }, 3 },
    { "large scores", { { "k", 33, 1e18f }, { "k", 17, -1e18f }, { "q", 1, 1e18f } }, 3 },
    { "a value that is NaN", { { "v", 35, NAN } }, 1 },
    { "a value that is infinite", { { "v", 35, -INFINITY } }, 1 },
    { "an infinite query", { { "q", 10, INFINITY } }, 1 },
    { "a hidden row",
      { { "m", 0, -INFINITY },
        { "m", 1, -INFINITY },
        { "m", 2, -INFINITY },
        { "m", 3, -INFINITY },
        { "m", 4, -INFINITY } },
      5 },
    { "a row at -1e9", { { "m", 0, -1e9f }, { "m", 1, -1e9f }, { "m", 2, -1e9f }, { "m", 3, -1e9f }, { "m", 4, -1e9f } }, 5 },
    { "a mask that is NaN", { { "m", 7, NAN } }, 1 },
    { "a mask that is infinite", { { "m", 7, INFINITY } }, 1 },
    { "keys padded on the left", { { "m", 0, -3.4028235e38f }, { "u", 0, 9 }, { "u", 1, 9 } }, 3 },
    { "all keys padded", { { "u", 0, 9 }, { "u", 1, 9 }, { "u", 2, 9 }, { "u", 3, 9 }, { "u", 4, 9 } }, 5 },
    { "NaN where keys are padded", { { "u", 4, 9 }, { "k", 33, NAN } }, 2 },
    { "NaN where a hole is", { { "h", 4, 9 }, { "h", 9, 9 }, { "h", 14, 9 }, { "h", 19, 9 }, { "h", 24, 9 }, { "k", 33, NAN } }, 6 },
};

static void attention(void **state)
{
    static const char shape[] =
        "q : 2,2,5,8\nk : 2,2,5,8\nv : 2,2,5,8\nm : 1,1,5,5\nn : 2,1,1,5\nu : 1,1,1,5\nh : 1,1,5,5\none = [] 1.5\n"
        "zero = [] 0\nhigh = [] -1e9\nlow = [] %s\nscale = [] 0.35\nt = Transpose(k) perm=0,1,3,2\nr = MatMul(q, t)\n"
        "tri = [5,5] 0,%s,%s,%s,%s,0,0,%s,%s,%s,0,0,0,%s,%s,0,0,0,0,%s,0,0,0,0,0\nminus = [] -2\n"
        "pad = Greater(u, one)\nhole = Greater(h, one)\nall = Greater(m, minus)\ns = Mul(r, scale)\n%s\n"
        "p = Softmax(a) axis=-1\n%s\ny = MatMul(w, v)\n-> y";

    (void)state;
    wrong = 0;
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++)
        for (size_t l = 0; l < sizeof lows / sizeof *lows; l++)
            for (size_t g = 0; g < 2; g++) {
                const char *low = lows[l];
                char script[1600];

                if (l > 0 && strstr(masks[i], "low") == NULL && (strstr(masks[i], "tri") == NULL || l > 2))
                    continue;
                assert_true((size_t)snprintf(script, sizeof script, shape, low, low, low, low, low, low, low, low, low,
                                             low, low, masks[i], guards[g]) < sizeof script);
                for (size_t k = 0; k < sizeof attended / sizeof *attended; k++)
                    expect_same(script, attended[k].what, attended[k].plants, attended[k].count,
                                (i + l + g + k) % 8 != 0);
            }
    expect_none_wrong();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention),
    };

    return cmocka_run_group_tests(tests, find_providers, NULL);
}
