/* Sessions with an isolated provider: whatever it does, the session gives the right answers, and nothing is left when
 * it is closed. */
#include "fragile.h"
#include "graph_script.h"
#include "process_counts.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { ELEMENTS = 6 };

/* A model with one Relu, whose node has the given name. */
static struct wire relu_model(const char *node)
{
    struct wire wire = { 0 };
    wire_mark graph = mw_begin(&wire, 8, 17);

    script_add(&wire,
               "x : 6\n"
               "y = Relu(x) @%s\n"
               "-> y : 6",
               node);
    wire_end(&wire, graph);
    return wire;
}

static struct rig open_fragile(const char *node, const char *failure, const char *timeout_ms)
{
    struct wire wire = relu_model(node);
    const char *const options[] = {
        "providers", "fragile,reference", "isolate", "fragile",           "plugin_dirs", FRAGILE_DIR, "probe",
        "never",     "device_failure",    failure,   "device_timeout_ms", timeout_ms,    NULL
    };

    return rig_open(&wire, options);
}

/* Runs with an input that begins with `first`. */
static inlay_status run_with(struct rig *rig, int first, inlay_diag *diag)
{
    const float input[ELEMENTS] = { (float)first, -1, 2, -3, 4, -5 };

    rig_floats(rig, 0, "6", input);
    return inlay_context_run(rig->context, NULL, diag);
}

static void expect_right(struct rig *rig, int first)
{
    rig_expect_floats(rig, 0, "6", (float[ELEMENTS]){ (float)first, 0, 2, 0, 4, 0 });
}

/* Does the isolated provider run the model? */
static bool is_used(struct rig *rig)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (run_with(rig, FRAGILE_MARK, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return ((const float *)inlay_value_data(inlay_context_output(rig->context, 0)))[0] == -1;
}

static void failures_are_repeated_on_others(void **state)
{
    static const int demands[] = { FRAGILE_CRASH,       FRAGILE_HANG,        FRAGILE_EXIT,
                                   FRAGILE_WRITE_INPUT, FRAGILE_OVERWRITE_0, FRAGILE_OVERWRITE_FF };

    (void)state;
    for (size_t i = 0; i < sizeof demands / sizeof demands[0]; i++) {
        struct rig rig = open_fragile("n", "other", demands[i] == FRAGILE_HANG ? "300" : "60000");
        inlay_diag diag = INLAY_DIAG_INIT;

        assert_true(is_used(&rig));
        for (int again = 0; again < 2; again++) {
            if (run_with(&rig, demands[i], &diag) != INLAY_OK)
                fail_msg("demand %d: %s", demands[i], diag.text);
            expect_right(&rig, demands[i]);
            assert_true(is_used(&rig)); /* the process was started again */
        }
        rig_close(&rig);
    }
}

/* A provider that allocates without limit ends at the limit of its process, which the message states if the provider
 * reports it. The process that is started after a crash has the limit, too. */
static void memory_is_limited(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)state; /* their shadow memory exceeds any limit */
#else
    const char *const options[] = { "providers", "fragile", "isolate",        "all",  "plugin_dirs", FRAGILE_DIR,
                                    "probe",     "never",   "isolate_memory", "512M", NULL };
    struct wire wire = relu_model("n");
    struct rig rig = rig_open(&wire, options);
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    for (int again = 0; again < 2; again++) {
        assert_int_equal(run_with(&rig, FRAGILE_EXHAUST, &diag), INLAY_OUT_OF_MEMORY);
        if (strstr(diag.text,
                   "no memory for another piece (option isolate_memory: its process may have 536870912 bytes)") == NULL)
            fail_msg("%s", diag.text);
        for (int demand = FRAGILE_ALLOCATE; demand <= FRAGILE_MAP; demand++) {
            assert_int_equal(run_with(&rig, demand, &diag), INLAY_DEVICE_LOST);
            if (strstr(diag.text, "it ran out of its 536870912 bytes of memory (16777216 more were requested; option "
                                  "isolate_memory), and crashed (SIGSEGV)") == NULL)
                fail_msg("%s", diag.text);
            assert_true(is_used(&rig));
        }
        assert_int_equal(run_with(&rig, FRAGILE_LARGE, &diag), INLAY_OK); /* goes on without the memory */
        assert_int_equal(run_with(&rig, FRAGILE_CRASH, &diag), INLAY_DEVICE_LOST);
        assert_non_null(strstr(diag.text, "ended: it crashed (SIGSEGV)"));
    }
    rig_close(&rig);
#endif
}

static void sandbox_forbids(void **state)
{
    const int file = open("/tmp", O_TMPFILE | O_RDWR, 0600); /* inherited by programs that the process starts */
    const bool is_set = setenv("FRAGILE_TOKEN", "secret", 1) == 0 && ftruncate(file, FRAGILE_FILE_BYTES) == 0;
    struct rig rig = open_fragile("n", "fail", "60000");
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    assert_true(is_set);
    for (int demand = FRAGILE_FILE; demand <= FRAGILE_TILES; demand++) {
        if (run_with(&rig, demand, &diag) != INLAY_OK)
            fail_msg("demand %d: %s", demand, diag.text);
        expect_right(&rig, demand);
    }
    rig_close(&rig);
    (void)close(file);
}

/* The probe of a plugin that is to be isolated runs with the same restrictions: its code never runs without them. */
static void probe_is_isolated(void **state)
{
    char dir[] = "/tmp/inlay-fragile-XXXXXX", witness[64], command[64];

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(witness, sizeof witness, "%s/witness", dir);
    assert_int_equal(setenv(FRAGILE_WITNESS, witness, 1), 0);
    for (int is_isolated = 1; is_isolated >= 0; is_isolated--) {
        struct wire wire = relu_model("n");
        const char *const options[] = { "providers",
                                        "fragile,reference",
                                        "plugin_dirs",
                                        FRAGILE_DIR,
                                        "probe",
                                        "always",
                                        "cache_dir",
                                        dir,
                                        is_isolated ? "isolate" : NULL,
                                        "fragile",
                                        NULL };
        struct rig rig;

        if (is_isolated)
            assert_int_equal(setenv("FRAGILE_REFUSED", "1", 1), 0);
        rig = rig_open(&wire, options);
        assert_int_equal(access(witness, F_OK) == 0, !is_isolated);
        rig_close(&rig);
        assert_int_equal(unsetenv("FRAGILE_REFUSED"), 0);
    }
    assert_int_equal(unsetenv(FRAGILE_WITNESS), 0);
    (void)snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

/* device_failure: fail reports the end of the process; the next run starts it again. */
static void failure_is_reported(void **state)
{
    struct rig rig = open_fragile("n", "fail", "60000");
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    assert_int_equal(run_with(&rig, FRAGILE_CRASH, &diag), INLAY_DEVICE_LOST);
    assert_non_null(strstr(diag.text, "isolated fragile has ended: it crashed (SIGSEGV)"));
    assert_int_equal(run_with(&rig, FRAGILE_ABORT, &diag), INLAY_DEVICE_LOST);
    assert_non_null(strstr(diag.text, "isolated fragile has ended: it crashed (SIGABRT)"));
    assert_true(is_used(&rig));
    rig_close(&rig);
}

/* A process that ends too often is not started again; the others run the model from then on. */
static void restarts_are_bounded(void **state)
{
    enum { ENDS = 6 }; /* ISOLATE_MAX_ENDS + 1 */
    struct rig rig = open_fragile("n", "other", "60000");
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    for (int i = 0; i < ENDS; i++) {
        assert_true(is_used(&rig));
        assert_int_equal(run_with(&rig, FRAGILE_CRASH, &diag), INLAY_OK);
        expect_right(&rig, FRAGILE_CRASH);
    }
    assert_false(is_used(&rig));
    rig_close(&rig);
}

/* A crash before a run: the nodes go to other providers. */
static void crashes_before_runs(void **state)
{
    static const char *const nodes[] = { "assess", "compile" };

    (void)state;
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
        struct rig rig = open_fragile(nodes[i], "fail", "60000");

        assert_false(is_used(&rig));
        rig_close(&rig);
    }
}

enum { THREADS = 4, RUNS = 250 };

struct worker {
    inlay_session *session;
    int number, wrong;
    char text[200];
};

static void *run_many(void *arg)
{
    struct worker *worker = arg;
    struct rig rig = { .session = worker->session };
    inlay_diag diag = INLAY_DIAG_INIT;

    if (inlay_context_create(worker->session, &rig.context, &diag) != INLAY_OK)
        worker->wrong = RUNS;
    for (int i = 0; i < RUNS && worker->wrong == 0; i++) {
        const int first = worker->number < 3 && i == RUNS / 4 * (worker->number + 1) ? FRAGILE_CRASH : i;
        const float input[ELEMENTS] = { (float)first, -1, 2, -3, 4, -5 };
        const float want[ELEMENTS] = { (float)first, 0, 2, 0, 4, 0 };
        const inlay_value *output;

        inlay_value *value = rig_tensor(INLAY_FLOAT, "6", input);
        worker->wrong += inlay_context_set_input(rig.context, 0, value, &diag) != INLAY_OK;
        inlay_value_unref(value);
        worker->wrong += inlay_context_run(rig.context, NULL, &diag) != INLAY_OK;
        output = worker->wrong == 0 ? inlay_context_output(rig.context, 0) : NULL;
        worker->wrong += output == NULL || memcmp(inlay_value_data(output), want, sizeof want) != 0;
    }
    (void)snprintf(worker->text, sizeof worker->text, "%.190s", diag.text);
    inlay_context_destroy(rig.context);
    return NULL;
}

/* 1,000 runs on four threads, with three crashes: no answer is lost or wrong. */
static void no_answer_is_lost(void **state)
{
    struct rig rig = open_fragile("n", "other", "60000");
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .session = rig.session, .number = i };
        assert_int_equal(pthread_create(&threads[i], NULL, run_many, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++)
        if (workers[i].wrong != 0)
            fail_msg("thread %d: %d wrong, %s", i, workers[i].wrong, workers[i].text);
    assert_true(is_used(&rig));
    rig_close(&rig);
}

/* An isolated reference: sizes that depend on data, and strings, which stay with the provider in this process. */
static void reference_is_isolated(void **state)
{
    const char *const options[] = { "providers", "reference", "isolate", "reference", "probe", "never", NULL };
    struct rig rig;

    (void)state;
    rig = script_open(options, 17,
                      "x : N\n"
                      "y = NonZero(x)\n"
                      "s = Shape(y)\n"
                      "-> y, s : int64");
    rig_floats(&rig, 0, "5", (float[]){ 0, 1, 0, 2, 3 });
    rig_run(&rig);
    rig_expect_ints(&rig, 0, "1,3", (int64_t[]){ 1, 3, 4 });
    rig_expect_ints(&rig, 1, "2", (int64_t[]){ 1, 3 });
    rig_floats(&rig, 0, "2", (float[]){ 0, 0 });
    rig_run(&rig);
    rig_expect_ints(&rig, 0, "1,0", (int64_t[]){ 0 });
    rig_close(&rig);
}

/* Providers that load their libraries when they are first used: that is before the sandbox. */
static void libraries_are_loaded(void **state)
{
    static const char *const providers[] = { "openblas", "onednn", "cpu" };

    (void)state;
    for (size_t i = 0; i < sizeof providers / sizeof providers[0]; i++) {
        const char *const options[] = { "providers", providers[i], "isolate", providers[i], "probe", "never", NULL };
        struct wire wire = { 0 };
        wire_mark graph = mw_begin(&wire, 8, 17), weights;
        inlay_diag diag = INLAY_DIAG_INIT;
        struct rig rig;

        mw_value(&wire, MW_INPUT, "a", INLAY_FLOAT, "2,2");
        weights = wire_begin(&wire, MW_INITIALIZER);
        mw_tensor_head(&wire, "b", INLAY_FLOAT, 2, (int64_t[]){ 2, 2 });
        for (int k = 0; k < 4; k++)
            wire_float(&wire, 4, (float[]){ 1, 0, 2, 1 }[k]);
        wire_end(&wire, weights);
        mw_node(&wire, "MatMul", "a,b", "y");
        mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "2,2");
        wire_end(&wire, graph);
        if (rig_try_open(&wire, options, &rig, &diag) == INLAY_OK) {
            rig_floats(&rig, 0, "2,2", (float[]){ 1, 2, 3, 4 });
            rig_run(&rig);
            rig_expect_floats(&rig, 0, "2,2", (float[]){ 5, 2, 11, 4 });
        } else if (!rig_lacks_provider(&diag)) {
            fail_msg("%s: %s", providers[i], diag.text);
        }
        rig_close(&rig);
    }
}

static void strings_are_refused(void **state)
{
    const char *const options[] = { "providers", "reference", "isolate", "reference", "probe", "never", NULL };
    struct wire wire = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    (void)state;
    script_model(&wire, 17,
                 "x : string 2\n"
                 "y = Identity(x)\n"
                 "-> y : string 2");
    assert_int_equal(rig_try_open(&wire, options, &rig, &diag), INLAY_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "cannot use strings of another process"));
    rig_close(&rig);
}

static void unknown_names_are_refused(void **state)
{
    const char *const options[] = { "providers", "reference", "isolate", "nobody", "probe", "never", NULL };
    struct wire wire = relu_model("n");
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    (void)state;
    assert_int_equal(rig_try_open(&wire, options, &rig, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "option isolate: no provider 'nobody'"));
    rig_close(&rig);
}

/* Calls `visit` for each process whose parent is `parent`; returns their number. */
static int count_children(pid_t parent, pid_t *out_last)
{
    DIR *dir = opendir("/proc");
    int count = 0;

    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[300], line[512] = "";
        const char *after;
        int of = 0;
        FILE *file;

        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        (void)snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        file = fopen(path, "r");
        if (file == NULL)
            continue;
        (void)!fgets(line, sizeof line, file);
        (void)fclose(file);
        after = strrchr(line, ')');
        if (after == NULL || sscanf(after, ") %*c %d", &of) != 1 || of != parent)
            continue;
        *out_last = (pid_t)atoi(entry->d_name);
        count++;
    }
    (void)closedir(dir);
    return count;
}

/* Waits until a process has ended, whether its parent has noticed or not: its command line is empty then. */
static void wait_for_end(pid_t process)
{
    char path[64];

    (void)snprintf(path, sizeof path, "/proc/%d/cmdline", (int)process);
    for (bool runs = true; runs;) {
        FILE *file = fopen(path, "r");

        runs = file != NULL && fgetc(file) != EOF;
        if (file != NULL)
            (void)fclose(file);
    }
}

static bool maps_shared_memory(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    char line[1024];
    bool found = false;

    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        found = found || strstr(line, "inlay-isolate") != NULL;
    (void)fclose(file);
    return found;
}

/* Constants of 256 KiB, whose pages in the shared memory are given back after compile, are there again after a
 * restart. */
static void weights_survive_a_restart(void **state)
{
    enum { SIDE = 256 };
    static const char *const providers[] = { "reference", "openblas", "cpu" };
    static float weights[SIDE * SIDE], input[SIDE];

    (void)state;
    for (size_t i = 0; i < SIDE; i++)
        input[i] = (float)(i % 5) - 2;
    for (size_t i = 0; i < SIDE * SIDE; i++)
        weights[i] = (float)(i % 7) - 3;
    for (size_t i = 0; i < sizeof providers / sizeof providers[0]; i++) {
        const char *const options[] = { "providers", providers[i],     "isolate", providers[i], "probe",
                                        "never",     "device_failure", "fail",    NULL };
        struct wire wire = { 0 };
        wire_mark graph = mw_begin(&wire, 8, 17), tensor;
        inlay_diag diag = INLAY_DIAG_INIT;
        float before[SIDE];
        struct rig rig;
        pid_t child;

        mw_value(&wire, MW_INPUT, "a", INLAY_FLOAT, "1,256");
        tensor = wire_begin(&wire, MW_INITIALIZER);
        mw_tensor_head(&wire, "b", INLAY_FLOAT, 2, (int64_t[]){ SIDE, SIDE });
        for (size_t k = 0; k < SIDE * SIDE; k++)
            wire_float(&wire, 4, weights[k]);
        wire_end(&wire, tensor);
        mw_node(&wire, "MatMul", "a,b", "y");
        mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "1,256");
        wire_end(&wire, graph);
        if (!rig_open_if_built(&wire, options, providers[i], &rig))
            continue;
        rig_floats(&rig, 0, "1,256", input);
        rig_run(&rig);
        memcpy(before, inlay_value_data(inlay_context_output(rig.context, 0)), sizeof before);
        assert_int_equal(count_children(getpid(), &child), 1);
        assert_int_equal(kill(child, SIGKILL), 0);
        wait_for_end(child);
        assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_DEVICE_LOST);
        rig_run(&rig);
        rig_expect_floats(&rig, 0, "1,256", before);
        rig_close(&rig);
    }
}

/* Each session has a process of its own. */
static void sessions_share_nothing(void **state)
{
    struct rig crashing = open_fragile("n", "fail", "60000"), other = open_fragile("n", "fail", "60000");
    inlay_diag diag = INLAY_DIAG_INIT;
    pid_t child;

    (void)state;
    assert_int_equal(count_children(getpid(), &child), 2);
    assert_int_equal(run_with(&crashing, FRAGILE_CRASH, &diag), INLAY_DEVICE_LOST);
    assert_int_equal(run_with(&other, 1, &diag), INLAY_OK);
    rig_close(&crashing);
    assert_int_equal(run_with(&other, 1, &diag), INLAY_OK);
    rig_close(&other);
}

/* all: each provider that the session opens has a process. */
static void all_are_isolated(void **state)
{
    const char *const options[] = { "providers",   "fragile,reference", "isolate", "all",
                                    "plugin_dirs", FRAGILE_DIR,         "probe",   "never",
                                    NULL };
    struct wire wire = relu_model("n");
    struct rig rig = rig_open(&wire, options);
    pid_t child;

    (void)state;
    assert_int_equal(count_children(getpid(), &child), 2);
    assert_true(is_used(&rig));
    rig_close(&rig);
}

static void nothing_is_left(void **state)
{
    struct rig rig = open_fragile("n", "other", "60000");
    int before, threads;
    pid_t child;

    (void)state;
    rig_close(&rig);
    before = descriptor_count();
    threads = thread_count();
    for (int i = 0; i < 3; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;

        rig = open_fragile("n", "other", "60000");
        assert_int_equal(count_children(getpid(), &child), 1);
        assert_true(maps_shared_memory());
        assert_int_equal(run_with(&rig, i == 1 ? FRAGILE_CRASH : 1, &diag), INLAY_OK);
        rig_close(&rig);
        assert_int_equal(count_children(getpid(), &child), 0);
        assert_int_equal(descriptor_count(), before);
        assert_false(maps_shared_memory());
    }
    assert_true(thread_count() <= threads);
}

/* The process ends when the host is killed. */
static void process_ends_with_host(void **state)
{
    int ends[2];
    pid_t host, helper = 0;
    char ready;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    host = fork();
    if (host != 0)
        (void)close(ends[1]); /* so that read() returns if the host ends early */
    if (host == 0) {
        struct rig rig = open_fragile("n", "other", "60000");
        const char used = is_used(&rig);

        (void)!write(ends[1], &used, 1);
        for (;;)
            (void)pause();
    }
    assert_true(host > 0);
    assert_int_equal(read(ends[0], &ready, 1), 1);
    assert_int_equal(count_children(host, &helper), 1);
    assert_int_equal(kill(host, SIGKILL), 0);
    assert_int_equal(waitpid(host, NULL, 0), host);
    wait_for_end(helper);
    (void)close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(process_ends_with_host), /* first: the process has no threads yet */
        cmocka_unit_test(failures_are_repeated_on_others),
        cmocka_unit_test(memory_is_limited),
        cmocka_unit_test(sessions_share_nothing),
        cmocka_unit_test(all_are_isolated),
        cmocka_unit_test(sandbox_forbids),
        cmocka_unit_test(probe_is_isolated),
        cmocka_unit_test(failure_is_reported),
        cmocka_unit_test(restarts_are_bounded),
        cmocka_unit_test(crashes_before_runs),
        cmocka_unit_test(no_answer_is_lost),
        cmocka_unit_test(reference_is_isolated),
        cmocka_unit_test(libraries_are_loaded),
        cmocka_unit_test(strings_are_refused),
        cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test(weights_survive_a_restart),
        cmocka_unit_test(nothing_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
