/* Memory that is given back after runs on large inputs: inlay_context_trim(), inlay_session_trim(), idle_trim_ms. The
 * models run on reference, and on cpu, whose regions also keep packed weights. */
#include "failing_alloc.h"
#include "graph_script.h"
#include "process_counts.h"
#include "run_context.h"
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

/* A slab, and an output whose shape depends on data. */
static const char mixed[] =
    "x : N,64\nr = Relu(x)\ns = Softmax(r)\na = Add(s, x)\ny = Exp(a)\nz = NonZero(r)\n-> y\n=> z";
/* Weights that are packed differently for small and for large images. */
static const char image[] = "x : N,16,H,W\nw = [16,16,3,3]\nv = [32,16,3,3]\nb = [32]\na = Conv(x, w) pads=1,1,1,1\n"
                            "r = Relu(a)\ny = Conv(r, v, b) pads=1,1,1,1\n-> y";
/* A state that each run replaces. */
static const char layer[] = "x : B,8\nold : B,8\na = Add(x, old)\nnew = Tanh(a)\ny = Mul(new, x)\n-> y, new";

static const char *const providers[] = { "reference", "cpu,reference" };
enum { PROVIDERS = sizeof providers / sizeof providers[0] };

/* Returns false if the provider is not built. */
static bool try_open(const char *text, const char *names, const char *option, const char *value, struct rig *out)
{
    const char *options[] = { "providers", names, "policy", "priority", "intra_threads", "1", option, value, NULL };
    struct wire wire = { 0 };

    script_model(&wire, 17, text);
    return rig_open_if_built(&wire, options, names, out);
}

static void bind_shape(inlay_context *context, uint32_t input, uint32_t rank, const int64_t *dims, uint64_t seed)
{
    inlay_value *value = NULL;

    assert_int_equal(inlay_value_create(INLAY_FLOAT, rank, dims, &value, NULL), INLAY_OK);
    for (int64_t i = 0; i < inlay_value_count(value); i++)
        ((float *)inlay_value_data(value))[i] = random_signed(&seed);
    assert_int_equal(inlay_context_set_input(context, input, value, NULL), INLAY_OK);
    inlay_value_unref(value);
}

static void run_rows(inlay_context *context, int64_t rows)
{
    bind_shape(context, 0, 2, (int64_t[]){ rows, 64 }, (uint64_t)rows);
    run_context(context);
}

static uint64_t used_bytes(const struct rig *rig)
{
    inlay_memory_info info = { .struct_size = sizeof info };

    assert_int_equal(inlay_session_memory(rig->session, &info), INLAY_OK);
    return info.used_bytes;
}

/* Bytes that the session counts for a value: its memory is a multiple of 64 bytes. */
static uint64_t counted_bytes(const inlay_value *value)
{
    assert_non_null(value);
    return (inlay_value_bytes(value) + 63) / 64 * 64;
}

static uint64_t output_bytes(inlay_context *context)
{
    return counted_bytes(inlay_context_output(context, 0)) + counted_bytes(inlay_context_output(context, 1));
}

/* The session counts exactly the bytes that stay, and the next runs work as before. */
static void bytes_are_counted(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    for (uint32_t p = 0; p < PROVIDERS; p++) {
        inlay_plan_info plan = { .struct_size = sizeof plan };
        uint64_t small, outputs;
        inlay_value *kept, *again;
        struct rig rig;

        if (!try_open(mixed, providers[p], NULL, NULL, &rig))
            continue;
        run_rows(rig.context, 10);
        kept = inlay_value_ref(inlay_context_output(rig.context, 0));
        for (int i = 0; i < 2; i++) /* the memory of two outputs alternates */
            run_rows(rig.context, 10);
        small = used_bytes(&rig);
        run_rows(rig.context, 2000);
        run_rows(rig.context, 2000);
        outputs = output_bytes(rig.context);
        assert_true(used_bytes(&rig) > small + outputs);
        /* A trim of the session keeps the outputs of the last run, and what the caller holds. */
        assert_int_equal(inlay_session_trim(rig.session, &diag), INLAY_OK);
        assert_int_equal(used_bytes(&rig), outputs + counted_bytes(kept));
        assert_int_equal(inlay_context_plan(rig.context, &plan), INLAY_NOT_FOUND);
        assert_int_equal(inlay_value_bytes(inlay_context_output(rig.context, 0)), 2000 * 64 * sizeof(float));
        /* A trim of the context releases the outputs, too. */
        assert_int_equal(inlay_context_trim(rig.context, &diag), INLAY_OK);
        assert_null(inlay_context_output(rig.context, 0));
        assert_int_equal(used_bytes(&rig), counted_bytes(kept));
        for (int i = 0; i < 2; i++)
            run_rows(rig.context, 10);
        assert_int_equal(inlay_context_plan(rig.context, &plan), INLAY_OK);
        again = inlay_context_output(rig.context, 0);
        assert_memory_equal(inlay_value_data(kept), inlay_value_data(again), inlay_value_bytes(kept));
        assert_int_equal(used_bytes(&rig), small);
        inlay_value_unref(kept);
        assert_int_equal(inlay_context_trim(rig.context, &diag), INLAY_OK);
        assert_int_equal(inlay_context_trim(rig.context, &diag), INLAY_OK);
        assert_int_equal(used_bytes(&rig), 0);
        rig_close(&rig);
    }
}

/* Bound outputs and states stay as they are. */
static void bound_values_stay(void **state)
{
    static const char option[] = "old=new";
    const int64_t dims[2] = { 3, 8 };

    (void)state;
    for (uint32_t p = 0; p < PROVIDERS; p++) {
        struct rig rig, plain;
        inlay_value *target = NULL;

        if (!try_open(layer, providers[p], "state", option, &rig))
            continue;
        assert_true(try_open(layer, providers[p], "state", option, &plain));
        assert_int_equal(inlay_context_keep_states(rig.context, 0, NULL), INLAY_OK);
        assert_int_equal(inlay_context_keep_states(plain.context, 0, NULL), INLAY_OK);
        assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, dims, &target, NULL), INLAY_OK);
        assert_int_equal(inlay_context_set_output(rig.context, 0, target, NULL), INLAY_OK);
        for (uint64_t step = 0; step < 5; step++) {
            inlay_value *got = NULL, *expected = NULL;

            bind_shape(rig.context, 0, 2, dims, step);
            bind_shape(plain.context, 0, 2, dims, step);
            run_context(rig.context);
            run_context(plain.context);
            assert_ptr_equal(inlay_context_output(rig.context, 0), target);
            assert_memory_equal(inlay_value_data(target), inlay_value_data(inlay_context_output(plain.context, 0)),
                                inlay_value_bytes(target));
            assert_int_equal(step % 2 == 0 ? inlay_context_trim(rig.context, NULL)
                                           : inlay_session_trim(rig.session, NULL),
                             INLAY_OK);
            assert_int_equal(inlay_context_state_get(rig.context, 0, &got, NULL), INLAY_OK);
            assert_int_equal(inlay_context_state_get(plain.context, 0, &expected, NULL), INLAY_OK);
            assert_memory_equal(inlay_value_data(got), inlay_value_data(expected), inlay_value_bytes(expected));
            inlay_value_unref(got);
            inlay_value_unref(expected);
        }
        inlay_value_unref(target);
        rig_close(&rig);
        rig_close(&plain);
    }
}

static void run_image(inlay_context *context, int64_t side)
{
    bind_shape(context, 0, 4, (int64_t[]){ 1, 16, side, side }, (uint64_t)side);
    run_context(context);
}

/* Provider cpu frees packed weights that only the large size used; those of other contexts stay. */
static void packed_weights_are_released(void **state)
{
    inlay_control_request request = { .struct_size = sizeof request, .provider = "cpu", .action = INLAY_CONTROL_TRIM };
    inlay_context *other = NULL;
    inlay_value *small, *large;
    struct rig rig;

    (void)state;
    if (!try_open(image, "cpu,reference", NULL, NULL, &rig))
        skip();
    assert_int_equal(inlay_context_create(rig.session, &other, NULL), INLAY_OK);
    run_image(other, 7);
    small = inlay_value_ref(inlay_context_output(other, 0));
    run_image(rig.context, 90);
    large = inlay_value_ref(inlay_context_output(rig.context, 0));
    assert_int_equal(inlay_context_trim(rig.context, NULL), INLAY_OK);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(inlay_session_control(rig.session, &request, NULL), INLAY_OK);
        run_image(other, 7);
        assert_memory_equal(inlay_value_data(small), inlay_value_data(inlay_context_output(other, 0)),
                            inlay_value_bytes(small));
        run_image(rig.context, 90);
        assert_memory_equal(inlay_value_data(large), inlay_value_data(inlay_context_output(rig.context, 0)),
                            inlay_value_bytes(large));
        assert_int_equal(inlay_session_trim(rig.session, NULL), INLAY_OK);
    }
    /* Nothing is left to free, unless the provider is told that it may keep it. */
    assert_int_equal(inlay_session_control(rig.session, &request, NULL), INLAY_OK);
    assert_int_equal(request.freed_bytes, 0);
    run_image(rig.context, 90);
    assert_int_equal(inlay_context_trim(rig.context, NULL), INLAY_OK);
    request.bytes = UINT64_MAX;
    assert_int_equal(inlay_session_control(rig.session, &request, NULL), INLAY_OK);
    assert_int_equal(request.freed_bytes, 0);
    inlay_value_unref(small);
    inlay_value_unref(large);
    inlay_context_destroy(other);
    rig_close(&rig);
}

/* A context that measures keeps its plan; so does one with a pending run. */
static void busy_contexts(void **state)
{
    inlay_plan_info plan = { .struct_size = sizeof plan };
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t count = 0;
    struct rig rig;

    (void)state;
    assert_true(try_open(mixed, "reference", NULL, NULL, &rig));
    assert_int_equal(inlay_context_measure(rig.context, 1, &diag), INLAY_OK);
    run_rows(rig.context, 20);
    assert_int_equal(inlay_context_trim(rig.context, &diag), INLAY_BUSY);
    assert_non_null(strstr(diag.text, "inlay_context_measure"));
    assert_int_equal(inlay_session_trim(rig.session, &diag), INLAY_OK);
    assert_int_equal(inlay_context_plan(rig.context, &plan), INLAY_OK);
    assert_int_equal(inlay_context_measure(rig.context, 0, &diag), INLAY_OK);
    assert_int_equal(inlay_context_trim(rig.context, &diag), INLAY_OK);
    assert_int_equal(inlay_context_record(rig.context, &count, &diag), INLAY_INVALID_ARGUMENT);
    rig_close(&rig);
}

struct pending {
    inlay_context *context;
    inlay_status status;
};

/* The run counts as pending until its callback has returned. */
static void trim_when_done(void *user, inlay_status status)
{
    struct pending *run = user;

    if (status == INLAY_OK)
        run->status = inlay_context_trim(run->context, NULL);
}

static void pending_runs(void **state)
{
    struct pending run = { 0 };
    struct rig rig;

    (void)state;
    assert_true(try_open(mixed, "reference", NULL, NULL, &rig));
    run.context = rig.context;
    bind_shape(rig.context, 0, 2, (int64_t[]){ 30, 64 }, 1);
    assert_int_equal(inlay_context_run_async(rig.context, NULL, trim_when_done, &run, NULL), INLAY_OK);
    assert_int_equal(inlay_context_wait(rig.context, UINT64_MAX, NULL), INLAY_OK);
    assert_int_equal(run.status, INLAY_BUSY);
    assert_non_null(inlay_context_output(rig.context, 0));
    assert_int_equal(inlay_context_trim(rig.context, NULL), INLAY_OK);
    assert_int_equal(used_bytes(&rig), 0);
    rig_close(&rig);
}

/* Option idle_trim_ms: the memory of idle contexts becomes free without a call; outputs stay. */
static void idle_contexts(void **state)
{
    (void)state;
    for (uint32_t p = 0; p < PROVIDERS; p++) {
        const int threads = thread_count();
        inlay_context *other = NULL;
        struct rig rig;

        if (!try_open(mixed, providers[p], "idle_trim_ms", "1", &rig))
            continue;
        assert_int_equal(inlay_context_create(rig.session, &other, NULL), INLAY_OK);
        for (int64_t round = 0; round < 3; round++) {
            uint64_t outputs;

            run_rows(rig.context, 1000 + round);
            run_rows(other, 10);
            outputs = output_bytes(rig.context) + output_bytes(other);
            while (used_bytes(&rig) != outputs)
                (void)sched_yield();
            assert_int_equal(inlay_value_bytes(inlay_context_output(rig.context, 0)),
                             (1000 + (uint64_t)round) * 64 * sizeof(float));
        }
        inlay_context_destroy(other);
        rig_close(&rig);
        assert_int_equal(thread_count(), threads);
    }
}

/* Trimming allocates nothing, so it cannot fail; in the run after it every allocation may. */
static void failing_allocations(void **state)
{
    (void)state;
    for (uint32_t p = 0; p < PROVIDERS; p++) {
        bool failed = true;
        struct rig rig;

        if (!try_open(mixed, providers[p], NULL, NULL, &rig))
            continue;
        for (uint64_t n = 0; failed; n++) {
            inlay_status status;

            run_rows(rig.context, 50);
            failing_alloc_arm(0);
            assert_int_equal(inlay_session_trim(rig.session, NULL), INLAY_OK);
            assert_int_equal(inlay_context_trim(rig.context, NULL), INLAY_OK);
            assert_false(failing_alloc_disarm());
            failing_alloc_arm(n);
            status = inlay_context_run(rig.context, NULL, NULL);
            failed = failing_alloc_disarm();
            if (status != INLAY_OK)
                assert_int_equal(status, INLAY_OUT_OF_MEMORY);
            assert_true(failed || status == INLAY_OK);
            assert_int_equal(inlay_context_trim(rig.context, NULL), INLAY_OK);
            assert_int_equal(used_bytes(&rig), 0);
        }
        rig_close(&rig);
    }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static uint64_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long long all, resident;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu %llu", &all, &resident), 2);
    (void)fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The pages return to the system. */
static void pages_are_returned(void **state)
{
    (void)state;
    for (uint32_t p = 0; p < PROVIDERS; p++) {
        uint64_t small, large;
        struct rig rig;

        if (!try_open(mixed, providers[p], NULL, NULL, &rig))
            continue;
        run_rows(rig.context, 10);
        small = resident_bytes();
        run_rows(rig.context, 300000);
        assert_int_equal(inlay_context_set_input(rig.context, 0, NULL, NULL), INLAY_OK);
        large = resident_bytes();
        assert_true(large > small + 300000 * 64 * sizeof(float));
        assert_int_equal(inlay_context_trim(rig.context, NULL), INLAY_OK);
        assert_int_equal(inlay_session_trim(rig.session, NULL), INLAY_OK);
        if (resident_bytes() > small + (large - small) / 20)
            fail_msg("%s: %llu bytes after a small run, %llu after a large one, %llu after trimming", providers[p],
                     (unsigned long long)small, (unsigned long long)large, (unsigned long long)resident_bytes());
        rig_close(&rig);
    }
}

/* Bytes of this process that are pages of files. Those of a tmpfs count as shared memory. */
static uint64_t file_bytes(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    unsigned long long files = 0, shared = 0;
    char line[256];

    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        (void)sscanf(line, "RssFile: %llu", &files);
        (void)sscanf(line, "RssShmem: %llu", &shared);
    }
    (void)fclose(file);
    return (files + shared) * 1024;
}

/* The pages of the model's file that kernels for new sizes have read return, too; later runs read them again. */
static void pages_of_weights_are_returned(void **state)
{
    static const char script[] = "x : N,256,H,W\nw = [256,256,3,3]\nk = Conv(x, w) pads=1,1,1,1\ny = Relu(k)\n-> y";
    enum { WEIGHTS = 256 * 256 * 9 * 4 };

    (void)state;
    for (uint32_t p = 0; p < PROVIDERS; p++) {
        const int64_t dims[] = { 1, 256, 3, 3 }; /* too small for the kernel of unknown sizes (Winograd) */
        char path[] = "/tmp/inlay-trim-XXXXXX";
        const int fd = mkstemp(path);
        inlay_options *options = NULL;
        uint64_t used;
        struct wire wire = { 0 };
        struct rig rig;

        if (!try_open(script, providers[p], NULL, NULL, &rig))
            continue;
        rig_close(&rig);
        rig = (struct rig){ .session = NULL };
        script_model(&wire, 17, script);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, wire.bytes, wire.count), (ssize_t)wire.count);
        (void)close(fd);
        free(wire.bytes);
        options = rig_options(
            (const char *const[]){ "providers", providers[p], "cache_dir", "", "copy_file_bytes", "0", NULL }, NULL);
        assert_int_equal(inlay_session_create(path, options, &rig.session, NULL), INLAY_OK);
        assert_int_equal(inlay_context_create(rig.session, &rig.context, NULL), INLAY_OK);
        bind_shape(rig.context, 0, 4, dims, 3);
        run_context(rig.context);
        used = file_bytes();
        assert_int_equal(inlay_session_trim(rig.session, NULL), INLAY_OK);
        if (strncmp(providers[p], "cpu", 3) == 0 && file_bytes() + WEIGHTS / 2 > used)
            fail_msg("%llu bytes of files before trimming, %llu after it", (unsigned long long)used,
                     (unsigned long long)file_bytes());
        run_context(rig.context);
        inlay_options_destroy(options);
        rig_close(&rig);
        (void)unlink(path);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        cmocka_unit_test(pages_are_returned),
        cmocka_unit_test(pages_of_weights_are_returned),
#endif
        cmocka_unit_test(bytes_are_counted),
        cmocka_unit_test(bound_values_stay),
        cmocka_unit_test(busy_contexts),
        cmocka_unit_test(packed_weights_are_released),
        cmocka_unit_test(pending_runs),
        cmocka_unit_test(idle_contexts),
        cmocka_unit_test(failing_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
