/* The device: choice, absence, many threads, changing sizes, exhausted memory. */
#include "vulkan_case.h"
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static inlay_status open_with(const char *option, const char *value, inlay_diag *diag)
{
    struct wire wire = { 0 };
    struct rig rig;
    inlay_status status;

    script_model(&wire, 13, "x : 4\ny = Relu(x)\n-> y");
    status = rig_try_open(
        &wire, (const char *const[]){ "providers", "vulkan,reference", "policy", "priority", option, value, NULL },
        &rig, diag);
    rig_close(&rig);
    return status;
}

static void device_by_name(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    vulkan_case_require_device();
    assert_int_equal(open_with("vulkan.device", "0", &diag), INLAY_OK);
    assert_int_not_equal(open_with("vulkan.device", "no such device", &diag), INLAY_OK);
    assert_non_null(strstr(diag.text, "no Vulkan device 'no such device'"));
    assert_non_null(strstr(diag.text, "0 = ")); /* the list of devices */
    assert_int_not_equal(open_with("vulkan.device", "77", &diag), INLAY_OK);
    assert_int_not_equal(open_with("vulkan.timeout_ms", "-1", &diag), INLAY_OK);
}

/* Sizes change from run to run; each size has its own dispatches. */
static void sizes_change(void **state)
{
    const char *script = "x : N,6\nw = [6,5]\nm = MatMul(x, w)\ny = Softmax(m)\nz = ReduceSum(y)\n-> y, z";
    struct rig a, b;

    (void)state;
    vulkan_case_require_device();
    a = vulkan_case_open(script, 13, "Softmax", true);
    b = vulkan_case_open(script, 13, "Softmax", false);
    for (int64_t n = 1; n < 40; n = 2 * n + 1)
        for (int again = 0; again < 2; again++) {
            script_feed_sized(&a, n, (uint32_t)n, 0);
            script_feed_sized(&b, n, (uint32_t)n, 0);
            rig_run(&a);
            rig_run(&b);
            vulkan_case_compare(&a, &b, script);
        }
    rig_close(&a);
    rig_close(&b);
}

/* Shapes that are only known when the region is reached. */
static void sizes_from_data(void **state)
{
    (void)state;
    vulkan_case_expect("x : 40\nr = Relu(x)\nn = NonZero(r)\nt = Transpose(n)\nf = Cast(t) to=1\ny = Exp(f)\n-> y", 13,
                       NULL, 0);
}

struct worker {
    inlay_session *session;
    inlay_value *input;
    bool same;
    float want[64];
};

static void *work(void *user)
{
    struct worker *worker = user;
    inlay_context *context = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;

    worker->same = inlay_context_create(worker->session, &context, &diag) == INLAY_OK;
    for (int i = 0; worker->same && i < 50; i++)
        worker->same =
            inlay_context_set_input(context, 0, worker->input, &diag) == INLAY_OK &&
            inlay_context_run(context, NULL, &diag) == INLAY_OK &&
            memcmp(inlay_value_data(inlay_context_output(context, 0)), worker->want, sizeof worker->want) == 0;
    inlay_context_destroy(context);
    return NULL;
}

/* More concurrent contexts than recordings. */
static void many_threads(void **state)
{
    enum { THREADS = 6 };
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    inlay_value *input = NULL;
    struct rig rig;

    (void)state;
    vulkan_case_require_device();
    rig = vulkan_case_open("x : 8,8\nm = MatMul(x, x)\na = Tanh(m)\ny = Add(a, x)\n-> y", 13, "MatMul", true);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, (const int64_t[]){ 8, 8 }, &input, NULL), INLAY_OK);
    for (int i = 0; i < 64; i++)
        ((float *)inlay_value_data(input))[i] = (float)(i % 7) * 0.25f - 0.7f;
    assert_int_equal(inlay_context_set_input(rig.context, 0, input, NULL), INLAY_OK);
    rig_run(&rig);
    for (int thread = 0; thread < THREADS; thread++) {
        workers[thread] = (struct worker){ .session = rig.session, .input = input };
        memcpy(workers[thread].want, inlay_value_data(inlay_context_output(rig.context, 0)),
               sizeof workers[thread].want);
        assert_int_equal(pthread_create(&threads[thread], NULL, work, &workers[thread]), 0);
    }
    for (int thread = 0; thread < THREADS; thread++) {
        assert_int_equal(pthread_join(threads[thread], NULL), 0);
        assert_true(workers[thread].same);
    }
    rig_close(&rig);
    inlay_value_unref(input);
}

/* A decoder step whose key and value caches grow by a row. */
static const char decoder[] = "x : 1,8\np : N,8\nq : N,8\nw = [8,8]\nk = MatMul(x, w)\nc = Concat(p, k) axis=0\n"
                              "d = Concat(q, x) axis=0\nt = Transpose(c)\ns = MatMul(k, t)\nf = Softmax(s) axis=1\n"
                              "y = MatMul(f, d)\n-> y, c, d";

static inlay_value *rows_on(const struct rig *rig, bool device, int64_t rows)
{
    const int64_t dims[] = { rows, 8 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value = NULL;

    assert_int_equal(device ? inlay_session_value_create_on(rig->session, "vulkan", INLAY_FLOAT, 2, dims, &value, &diag)
                            : inlay_value_create(INLAY_FLOAT, 2, dims, &value, &diag),
                     INLAY_OK);
    return value;
}

/* Runs a step. caches[i] is replaced by a cache with one more row in the same place. */
static void decode(struct rig *rig, bool device, int64_t rows, inlay_value *caches[2])
{
    inlay_value *value = rows_on(rig, false, 1), *longer[2];
    inlay_diag diag = INLAY_DIAG_INIT;

    for (int i = 0; i < 8; i++)
        ((float *)inlay_value_data(value))[i] = (float)((7 * rows + i) % 11) * 0.25f - 1;
    assert_int_equal(inlay_context_set_input(rig->context, 0, value, &diag), INLAY_OK);
    for (uint32_t i = 0; i < 2; i++) {
        longer[i] = rows_on(rig, device, rows + 1);
        assert_int_equal(inlay_context_set_input(rig->context, 1 + i, caches[i], &diag), INLAY_OK);
        assert_int_equal(inlay_context_set_output(rig->context, 1 + i, longer[i], &diag), INLAY_OK);
    }
    rig_run(rig);
    for (uint32_t i = 0; i < 2; i++) {
        inlay_value_unref(caches[i]);
        caches[i] = longer[i];
    }
    inlay_value_unref(value);
}

/* Caches stay on the device: each step copies its row to the device and the result back, but no cache. */
static void caches_stay_on_the_device(void **state)
{
    static char text[1 << 16];
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *caches[2], *plain[2];
    struct rig a, b;

    (void)state;
    vulkan_case_require_device();
    a = vulkan_case_open(decoder, 13, NULL, true);
    b = vulkan_case_open(decoder, 13, NULL, false);
    for (uint32_t i = 0; i < 2; i++) {
        caches[i] = rows_on(&a, true, 1);
        plain[i] = rows_on(&b, false, 1);
        memset(inlay_value_data(plain[i]), 0, inlay_value_bytes(plain[i]));
        assert_int_equal(inlay_value_copy(plain[i], caches[i], &diag), INLAY_OK);
    }
    assert_int_equal(inlay_context_profile(a.context, 1, 0, &diag), INLAY_OK);
    for (int64_t rows = 1; rows < 8; rows++) {
        const float *input, *output;

        decode(&a, true, rows, caches);
        decode(&b, false, rows, plain);
        input = inlay_value_data(inlay_context_output(a.context, 0));
        output = inlay_value_data(inlay_context_output(b.context, 0));
        for (int i = 0; i < 8; i++)
            assert_true(fabsf(input[i] - output[i]) < 1e-5f);
        assert_string_equal(inlay_value_device(caches[0]), "vulkan");
    }
    assert_int_equal(inlay_context_profile_write(
                         a.context,
                         &(inlay_profile_options){ .struct_size = sizeof(inlay_profile_options), .format = "text" },
                         vulkan_case_keep, text, &diag),
                     INLAY_OK);
    if (strstr(text, "copy of x") == NULL || strstr(text, "copy of y") == NULL || strstr(text, "copy of p") != NULL ||
        strstr(text, "copy of q") != NULL || strstr(text, "copy of c") != NULL || strstr(text, "copy of d") != NULL)
        fail_msg("%s", text);
    for (uint32_t i = 0; i < 2; i++) { /* the contents are right */
        inlay_value *home = rows_on(&b, false, 8);

        assert_int_equal(inlay_value_copy(caches[i], home, &diag), INLAY_OK);
        for (int k = 0; k < 64; k++)
            assert_true(fabsf(((const float *)inlay_value_data(home))[k] -
                              ((const float *)inlay_value_data(plain[i]))[k]) < 1e-5f);
        inlay_value_unref(home);
        inlay_value_unref(caches[i]);
        inlay_value_unref(plain[i]);
    }
    rig_close(&a);
    rig_close(&b);
}

/* The native memory of a value is used for another value: both see writes to either. */
static void handles_are_wrapped(void **state)
{
    const int64_t dims[] = { 1, 8 };
    inlay_native_memory memory = { .struct_size = sizeof memory };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *home, *there, *twin = NULL;
    const float *got;
    struct rig rig;

    (void)state;
    vulkan_case_require_device();
    rig = vulkan_case_open("x : 1,8\ny = Neg(x)\n-> y", 13, "Neg", true);
    home = rows_on(&rig, false, 1);
    there = rows_on(&rig, true, 1);
    assert_int_equal(inlay_value_native(there, &memory, &diag), INLAY_OK);
    assert_int_equal(memory.device_type, 7);
    assert_true(memory.handle != 0 && memory.bytes >= 32);
    assert_int_equal(inlay_session_value_wrap(rig.session, "vulkan", &memory, INLAY_FLOAT, 2, dims, &twin, &diag),
                     INLAY_OK);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 8; i++)
            ((float *)inlay_value_data(home))[i] = (float)(i + 10 * round);
        assert_int_equal(inlay_value_copy(home, there, &diag), INLAY_OK);
        assert_int_equal(inlay_context_set_input(rig.context, 0, twin, &diag), INLAY_OK);
        rig_run(&rig);
        got = inlay_value_data(inlay_context_output(rig.context, 0));
        for (int i = 0; i < 8; i++)
            assert_true(got[i] == -(float)(i + 10 * round));
    }
    memory.device_type = 2;
    inlay_value_unref(twin);
    assert_int_equal(inlay_session_value_wrap(rig.session, "vulkan", &memory, INLAY_FLOAT, 2, dims, &twin, &diag),
                     INLAY_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "not a VkBuffer"));
    rig_close(&rig);
    inlay_value_unref(there);
    inlay_value_unref(home);
}

/* Results are the same if the host cannot map the device's memory. */
static void memory_is_apart(void **state)
{
    const char *script = "x : 9,6\nw = [6,5]\nm = MatMul(x, w)\ny = Softmax(m)\nz = ReduceSum(y)\n-> y, z, m";
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };
    struct rig a, b;

    (void)state;
    vulkan_case_require_device();
    script_model(&wire, 13, script);
    assert_int_equal(rig_try_open(&wire,
                                  (const char *const[]){ "providers", "vulkan,reference", "policy", "priority",
                                                         "vulkan.fault", "apart:0", NULL },
                                  &a, &diag),
                     INLAY_OK);
    b = vulkan_case_open(script, 13, NULL, false);
    script_feed(&a, 1);
    script_feed(&b, 1);
    rig_run(&a);
    rig_run(&b);
    vulkan_case_compare(&a, &b, script);
    rig_close(&a);
    rig_close(&b);
}

/* Windows in the padding alone: the image has no elements, thus may have no memory. */
static void images_without_pixels(void **state)
{
    static const char *const scripts[] = {
        ("x : 1,20,N,N\nk = [20,4,3,1]\na = ConvTranspose(x, k) group=4\nv = [8,16,3,2]\nb = [8]\n"
         "y = Conv(a, v, b) pads=1,1,0,1\n-> y"),
        "x : 1,4,2,N\na = Abs(x)\nk = [4,1,1,2]\ny = Conv(a, k) pads=0,1,0,1 group=4\n-> y",
        "x : 1,4,2,N\na = Abs(x)\ny = AveragePool(a) kernel_shape=1,2 pads=0,1,0,1 count_include_pad=1\n-> y",
    };

    (void)state;
    vulkan_case_require_device();
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        struct rig a = vulkan_case_open(scripts[i], 13, NULL, true), b = vulkan_case_open(scripts[i], 13, NULL, false);

        script_feed_sized(&a, 0, 1, 0);
        script_feed_sized(&b, 0, 1, 0);
        rig_run(&a);
        rig_run(&b);
        vulkan_case_compare(&a, &b, scripts[i]);
        rig_close(&a);
        rig_close(&b);
    }
}

/* Sessions open and close repeatedly: first while another session keeps the device open, then with a device that each
 * of them reopens. */
static void many_sessions(void **state)
{
    (void)state;
    vulkan_case_require_device();
    for (int i = 0; i < 8; i++) {
        if (i >= 4)
            vulkan_case_release_device(); /* vulkan_case_expect() reopens it */
        vulkan_case_expect("x : 9\ny = Exp(x)\n-> y", 13, "Exp", 0);
    }
}

/* A tensor that exceeds the device's memory is an error with a message. The session continues at other sizes. */
static void memory_ends(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value = NULL;
    struct rig rig;

    (void)state;
    vulkan_case_require_device();
    rig = vulkan_case_open("x : N\nc = i[2] 30000,1\ny = Expand(x, c)\nz = Neg(y)\nw = ReduceMax(z) keepdims=0\n-> w",
                           13, "Expand", true);
    for (int64_t n = 40000; n > 0; n -= 39990) { /* 4.8 GB, then 1.2 MB */
        const bool fits = n < 1000;

        assert_int_equal(inlay_value_create(INLAY_FLOAT, 1, &n, &value, NULL), INLAY_OK);
        for (int64_t i = 0; i < n; i++)
            ((float *)inlay_value_data(value))[i] = (float)i;
        assert_int_equal(inlay_context_set_input(rig.context, 0, value, NULL), INLAY_OK);
        inlay_value_unref(value);
        assert_int_equal(inlay_context_run(rig.context, NULL, &diag), fits ? INLAY_OK : INLAY_OUT_OF_MEMORY);
    }
    assert_true(*(const float *)inlay_value_data(inlay_context_output(rig.context, 0)) == 0);
    rig_close(&rig);
}

/* The size of the weights replaces the estimate once; the memory limit leaves the remainder to runs. */
static void weight_bytes_are_reported(void **state)
{
    const char *script = "x : N,64\nw = [64,512]\nm = MatMul(x, w)\ny = Softmax(m)\nz = ReduceMax(y) keepdims=0\n-> z";
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };
    struct rig rig;

    (void)state;
    vulkan_case_require_device();
    script_model(&wire, 13, script);
    assert_int_equal(rig_try_open(&wire,
                                  (const char *const[]){ "providers", "vulkan,reference", "policy", "priority", "pin",
                                                         "op:MatMul=vulkan", "memory_limit", "vulkan=256KiB", NULL },
                                  &rig, &diag),
                     INLAY_OK);
    script_feed_sized(&rig, 20, 1, 0); /* 128 KiB remain, of which this uses about 90 */
    rig_run(&rig);
    script_feed_sized(&rig, 200, 1, 0);
    assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_LIMIT_EXCEEDED);
    if (strstr(diag.text, "memory_limit, 131072 without weights") == NULL)
        fail_msg("%s", diag.text);
    rig_close(&rig);
}

/* Pipelines are cached across processes; a damaged file is replaced. */
static void pipelines_are_kept(void **state)
{
    char dir[] = "/tmp/inlay-pipelines-XXXXXX", line[256], path[256] = "";
    long sizes[3] = { 0 };

    (void)state;
    vulkan_case_require_device();
    vulkan_case_release_device(); /* an open session keeps the device and its cache folder */
    assert_non_null(mkdtemp(dir));
    for (int round = 0; round < 3; round++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        struct wire wire = { 0 };
        FILE *file;
        struct rig rig;

        script_model(&wire, 13, "x : 6,7\na = Exp(x)\ny = Softmax(a)\n-> y");
        assert_int_equal(rig_try_open(&wire,
                                      (const char *const[]){ "providers", "vulkan,reference", "policy", "priority",
                                                             "cache_dir", dir, NULL },
                                      &rig, &diag),
                         INLAY_OK);
        script_feed(&rig, 1);
        rig_run(&rig);
        rig_close(&rig);
        if (round == 0) {
            (void)snprintf(line, sizeof line, "ls %s/devices/vulkan-*.pipelines", dir);
            file = popen(line, "r");
            assert_non_null(file);
            assert_non_null(fgets(path, sizeof path, file));
            assert_int_equal(pclose(file), 0);
            path[strcspn(path, "\n")] = '\0';
        }
        file = fopen(path, "r+");
        assert_non_null(file);
        assert_int_equal(fseek(file, 0, SEEK_END), 0);
        sizes[round] = ftell(file);
        assert_true(sizes[round] > 8); /* more than its checksum */
        if (round == 1)                /* truncates the file for the next process */
            assert_int_equal(ftruncate(fileno(file), sizes[round] - 3), 0);
        assert_int_equal(fclose(file), 0);
    }
    assert_int_equal(sizes[0], sizes[1]);
    assert_int_equal(sizes[0], sizes[2]);
    (void)snprintf(line, sizeof line, "rm -r %s", dir);
    assert_int_equal(system(line), 0);
}

#ifndef __SANITIZE_ADDRESS__ /* memory that the device may still write to is not freed */
/* A device that exceeds its time limit is lost for its session, not for the next one. */
static void work_hangs(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };
    struct rig rig;

    (void)state;
    vulkan_case_require_device();
    script_model(&wire, 13, "x : 700,700\na = MatMul(x, x)\nb = MatMul(a, x)\ny = MatMul(b, x)\n-> y");
    assert_int_equal(rig_try_open(&wire,
                                  (const char *const[]){ "providers", "vulkan,reference", "policy", "priority",
                                                         "vulkan.timeout_ms", "1", NULL },
                                  &rig, &diag),
                     INLAY_OK);
    script_feed(&rig, 1);
    assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_DEVICE_LOST);
    assert_non_null(strstr(diag.text, "did not end its work in 1 ms"));
    assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_DEVICE_LOST);
    rig_close(&rig);
    vulkan_case_expect("x : 9\ny = Exp(x)\n-> y", 13, "Exp", 0);
}
#endif

static inlay_status open_two(const char *const *options, struct rig *out, inlay_diag *diag)
{
    struct wire wire = { 0 };

    script_model(&wire, 13, "x : 4\na = Relu(x)\ny = Exp(a)\n-> y");
    return rig_try_open(&wire, options, out, diag);
}

/* A driver for the CPU runs nodes only if an option names it or its provider, under any policy. */
static void a_driver_of_the_cpu_is_named(void **state)
{
    static const struct {
        const char *options[10];
        int nodes;
    } rows[] = {
        { { "providers", "" }, 0 },
        { { "providers", "", "policy", "priority" }, 0 },
        { { "providers", "", "reproducible", "1" }, 0 },
        { { "providers", "", "reproducible", "1", "pin", "op:Exp=vulkan" }, 1 },
        { { "providers", "", "policy", "priority", "vulkan.device", "cpu", "forbid", "cpu,onednn" }, 1 },
        { { "providers", "vulkan,reference" }, 0 },
        { { "providers", "vulkan,reference", "policy", "priority" }, 2 },
        { { "providers", "vulkan,reference", "reproducible", "1" }, 2 },
    };

    (void)state;
    vulkan_case_require_device();
    if (open_with("vulkan.device", "cpu", &(inlay_diag)INLAY_DIAG_INIT) != INLAY_OK || access("/dev/dri", F_OK) == 0 ||
        access("/dev/nvidia0", F_OK) == 0 || access("/dev/dxg", F_OK) == 0)
        skip(); /* a better device exists */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        struct rig rig;

        if (open_two(rows[i].options, &rig, &diag) != INLAY_OK)
            fail_msg("row %zu: %s", i, diag.text);
        /* pin and vulkan.device enable the driver, but other providers may run some of the nodes. */
        if (rows[i].nodes == 1 ? vulkan_case_nodes(rig.session) < 1 : vulkan_case_nodes(rig.session) != rows[i].nodes)
            fail_msg("row %zu: %d nodes", i, vulkan_case_nodes(rig.session));
        rig_close(&rig);
    }
}

/* A device that fails its self-test is not used. If it is named, that is an error; otherwise other providers run the
 * nodes. */
static void a_failing_device_is_refused(void **state)
{
    char fault[16];

    (void)state;
    vulkan_case_require_device();
    for (int n = 0; n < 100; n += 7) {
        inlay_diag diag = INLAY_DIAG_INIT;
        struct rig rig;

        (void)snprintf(fault, sizeof fault, "wrong:%d", n);
        assert_int_equal(open_two((const char *const[]){ "providers", "vulkan,reference", "policy", "priority",
                                                         "vulkan.fault", fault, "vulkan.device", "0", NULL },
                                  &rig, &diag),
                         INLAY_UNSUPPORTED);
        rig_close(&rig);
        if (strstr(diag.text, " is not used: it fails the check of ") == NULL ||
            strstr(diag.text, "update its driver, or choose another by option device") == NULL)
            fail_msg("%s", diag.text);
    }
    {
        inlay_diag diag = INLAY_DIAG_INIT;
        struct rig rig;

        if (open_two((const char *const[]){ "providers", "vulkan?,reference", "policy", "priority", "vulkan.fault",
                                            "wrong:0", NULL },
                     &rig, &diag) == INLAY_OK) { /* the provider opens its device later */
            assert_int_equal(vulkan_case_nodes(rig.session), 0);
            script_feed(&rig, 1);
            rig_run(&rig);
        } else {
            assert_non_null(strstr(diag.text, "it fails the check of negative indexes of 32 bits"));
        }
        rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caches_stay_on_the_device),
        cmocka_unit_test(handles_are_wrapped),
        cmocka_unit_test(memory_is_apart),
        cmocka_unit_test(images_without_pixels),
        cmocka_unit_test(device_by_name),
        cmocka_unit_test(a_driver_of_the_cpu_is_named),
        cmocka_unit_test(a_failing_device_is_refused),
        cmocka_unit_test(sizes_change),
        cmocka_unit_test(sizes_from_data),
        cmocka_unit_test(many_threads),
        cmocka_unit_test(many_sessions),
        cmocka_unit_test(memory_ends),
        cmocka_unit_test(weight_bytes_are_reported),
        cmocka_unit_test(pipelines_are_kept),
#ifndef __SANITIZE_ADDRESS__
        cmocka_unit_test(work_hangs),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, vulkan_case_end);
}
