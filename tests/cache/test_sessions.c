/* Sessions on cpu with a cache folder: the second one reads the packed weights of the first, and never those of
 * another model. */
#include "folder.h"
#include "model.h"
#include "rig.h"
#include "session/session.h"
#include <sys/wait.h>

static const float start = 0.25f;

struct result {
    float y[50];
    packs_count count;
};

struct session_setup {
    const char *path, *cache, *option, *value;
    bool cancel;
};

static int cancel_halfway(void *user, double fraction, const char *what)
{
    (void)user;
    (void)what;
    return fraction > 0.5;
}

static inlay_status try_run(const struct session_setup *setup, struct result *out)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = NULL;
    struct rig rig = { .session = NULL };
    float x[MODEL_CHANNELS * MODEL_SIDE * MODEL_SIDE];
    inlay_status status;

    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "providers", "cpu,reference", &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "policy", "priority", &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "cache_dir", setup->cache, &diag), INLAY_OK);
    if (setup->option != NULL && inlay_options_set(options, setup->option, setup->value, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    if (setup->cancel)
        inlay_options_set_progress(options, cancel_halfway, NULL);
    status = inlay_session_create(setup->path, options, &rig.session, &diag);
    inlay_options_destroy(options);
    if (status != INLAY_OK)
        return status;
    out->count = packs_counted(rig.session->main->packs);
    assert_int_equal(inlay_context_create(rig.session, &rig.context, &diag), INLAY_OK);
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
        x[i] = (float)(i % 17) / 17 - 0.4f;
    rig_floats(&rig, 0, "1,64,12,12", x);
    rig_run(&rig);
    memcpy(out->y, inlay_value_data(inlay_context_output(rig.context, 0)), sizeof out->y);
    inlay_context_destroy(rig.context);
    inlay_session_destroy(rig.session);
    return INLAY_OK;
}

static struct result run(const char *path, const char *cache, const char *option, const char *value)
{
    const struct session_setup setup = { path, cache, option, value, false };
    struct result result;

    assert_int_equal(try_run(&setup, &result), INLAY_OK);
    return result;
}

struct stage {
    struct folder folder;
    char path[128], cache[128];
};

static struct stage stage_make(void)
{
    struct stage stage = { .folder = folder_make() };
    struct wire wire = model_make(start);

    (void)snprintf(stage.path, sizeof stage.path, "%s/m.onnx", stage.folder.path);
    (void)snprintf(stage.cache, sizeof stage.cache, "%s/cache", stage.folder.path);
    mw_save(&wire, stage.path);
    free(wire.bytes);
    return stage;
}

static void second_start(void **state)
{
    struct stage stage = stage_make();
    struct result plain = run(stage.path, "", NULL, NULL), first = run(stage.path, stage.cache, NULL, NULL), second;

    (void)state;
    assert_int_equal(plain.count.made + plain.count.found, 0);
    assert_true(first.count.made >= 2); /* without AVX2 convolutions read unpacked weights */
    assert_int_equal(first.count.found, 0);
    second = run(stage.path, stage.cache, NULL, NULL);
    assert_int_equal(second.count.made, 0);
    assert_int_equal(second.count.found, first.count.made);
    assert_memory_equal(first.y, plain.y, sizeof plain.y);
    assert_memory_equal(second.y, plain.y, sizeof plain.y);
    assert_int_equal(run(stage.path, stage.cache, "cache_max_bytes", "0").count.found, 0);
    folder_remove(&stage.folder);
}

/* After any change, the results are those without a cache. */
static void never_stale(void **state)
{
    static const char *const options[][2] = { { "cpu.winograd", "0" },   { "intra_threads", "1" },
                                              { "level", "0" },          { "precision", "reduced" },
                                              { "precision", "strict" }, { "cpu.kernel", "gemm" } };
    struct stage stage = stage_make();
    struct wire wire = model_make(start);
    long place = model_first_weight(&wire, start);
    struct result want, got, before = run(stage.path, stage.cache, NULL, NULL);

    (void)state;
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        for (int round = 0; round < 2; round++) {
            want = run(stage.path, "", options[i][0], options[i][1]);
            got = run(stage.path, stage.cache, options[i][0], options[i][1]);
            assert_memory_equal(got.y, want.y, sizeof got.y);
            assert_true(round == 0 || got.count.made == 0);
        }
    }
    folder_flip(stage.path, place + 4 * 777 + 2, true); /* one bit of a weight */
    want = run(stage.path, "", NULL, NULL);
    assert_memory_not_equal(want.y, before.y, sizeof want.y);
    got = run(stage.path, stage.cache, NULL, NULL);
    assert_memory_equal(got.y, want.y, sizeof got.y);
    assert_true(got.count.made > 0);
    free(wire.bytes);
    folder_remove(&stage.folder);
}

static void damaged_files(void **state)
{
    struct stage stage = stage_make();
    struct result want = run(stage.path, stage.cache, NULL, NULL), got;
    char file[512];
    struct stat st;

    (void)state;
    for (long i = 0; i < 8; i++) {
        assert_int_equal(folder_count(&stage.folder, "cache/packs", ".packs", file), 1);
        assert_int_equal(stat(file, &st), 0);
        if (i < 6)
            folder_flip(file, i == 0 ? 3 : 4096 + (st.st_size - 4096) / 6 * i, true);
        else
            assert_int_equal(truncate(file, i == 6 ? 0 : st.st_size / 2), 0);
        got = run(stage.path, stage.cache, NULL, NULL);
        assert_memory_equal(got.y, want.y, sizeof got.y);
        if (i >= 6 || i == 0)
            assert_int_equal(got.count.found, 0);
        got = run(stage.path, stage.cache, NULL, NULL);
        assert_int_equal(got.count.made, 0);
        assert_memory_equal(got.y, want.y, sizeof got.y);
    }
    folder_remove(&stage.folder);
}

/* A cancelled compilation leaves no files. */
static void cancelled(void **state)
{
    struct stage stage = stage_make();
    const struct session_setup setup = { stage.path, stage.cache, NULL, NULL, true };
    struct result result;

    (void)state;
    assert_int_equal(try_run(&setup, &result), INLAY_CANCELLED);
    assert_int_equal(folder_count(&stage.folder, "cache/packs", ".packs", NULL), 0);
    assert_int_equal(folder_count(&stage.folder, "cache/packs", ".new", NULL), 0);
    folder_remove(&stage.folder);
}

/* A matrix multiplication whose weights are packed in slices, along either axis, compared with the reference. */
static void large_matrices(void **state)
{
    static const int64_t dims[2][2] = { { 2989, 3019 }, { 3019, 2989 } };
    static float x[2989], y[2][3019];
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    for (int64_t i = 0; i < 2989; i++)
        x[i] = (float)(i % 23) / 23 - 0.5f;
    for (int transposed = 0; transposed < 2; transposed++) {
        for (int on = 0; on < 2; on++) {
            struct wire wire = { 0 };
            wire_mark mark = mw_begin(&wire, 8, 17), n;
            struct rig rig;

            mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "1,2989");
            model_weights(&wire, "w", 2, dims[transposed], -0.5f);
            n = mw_node_begin(&wire, "Gemm", "x,w", "y");
            mw_attr_int(&wire, "transB", transposed);
            wire_end(&wire, n);
            mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "1,3019");
            wire_end(&wire, mark);
            if (rig_try_open(&wire,
                             (const char *const[]){ "providers", on ? "cpu,reference" : "reference", "policy",
                                                    "priority", "cache_dir", "", NULL },
                             &rig, &diag) != INLAY_OK)
                fail_msg("%s", diag.text);
            rig_floats(&rig, 0, "1,2989", x);
            rig_run(&rig);
            memcpy(y[on], inlay_value_data(inlay_context_output(rig.context, 0)), sizeof y[on]);
            rig_close(&rig);
        }
        for (int i = 0; i < 3019; i++)
            if (!(y[1][i] - y[0][i] < 1e-3f && y[0][i] - y[1][i] < 1e-3f))
                fail_msg("element %d is %g, not %g", i, (double)y[1][i], (double)y[0][i]);
    }
}

/* The sizes that are guessed for the past, the present and the mask of both contradict each other. Weights are
 * nevertheless packed and cached when the session is created. */
static void guesses_that_conflict(void **state)
{
    static const int64_t dims[] = { 96, 160 };
    struct folder folder = folder_make();

    (void)state;
    for (uint32_t round = 0; round < 2; round++) {
        struct wire wire = { 0 };
        wire_mark mark = mw_begin(&wire, 8, 17);
        packs_count count;
        struct rig rig;

        mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "1,seq,96");
        mw_value(&wire, MW_INPUT, "past", INLAY_FLOAT, "1,past,96");
        mw_value(&wire, MW_INPUT, "mask", INLAY_FLOAT, "1,total,96");
        model_weights(&wire, "w", 2, dims, -0.5f);
        mw_node_int(&wire, "Concat", "past,x", "both", "axis", 1);
        mw_node(&wire, "Add", "both,mask", "masked");
        mw_node(&wire, "MatMul", "masked,w", "y");
        mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "1,total,160");
        wire_end(&wire, mark);
        rig = rig_open(&wire, (const char *const[]){ "providers", "cpu,reference", "policy", "priority", "cache_dir",
                                                     folder.path, NULL });
        count = packs_counted(rig.session->main->packs);
        /* With AMX, two kernels for different numbers of rows each have a pack. */
        assert_true(round == 0 ? count.made > 0 && count.found == 0 : count.made == 0 && count.found > 0);
        rig_close(&rig);
    }
    folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(second_start),   cmocka_unit_test(never_stale),
                                        cmocka_unit_test(damaged_files),  cmocka_unit_test(cancelled),
                                        cmocka_unit_test(large_matrices), cmocka_unit_test(guesses_that_conflict) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
