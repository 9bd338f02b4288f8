/* Children of fork(): they can create sessions and run them on any number of threads, and can use the parent's sessions
 * or get an error, regardless of the activity of other threads. */
#include "rig.h"
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHANNELS = 16, SIDE = 64, ELEMENTS = CHANNELS * SIDE * SIDE, ALARM_S = 60 };

static struct wire model;
static float input[ELEMENTS];

static void weights(struct wire *wire, const char *name, uint32_t rank, const int64_t *dims)
{
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);
    int64_t count = 1;

    mw_tensor_head(wire, name, INLAY_FLOAT, rank, dims);
    for (uint32_t d = 0; d < rank; d++)
        count *= dims[d];
    for (int64_t i = 0; i < count; i++)
        wire_float(wire, 4, (float)(i * 37 % 101 - 50) / 400);
    wire_end(wire, mark);
}

/* Operators whose loops run in libraries of providers (Conv, MatMul), and operators that use the host's pool. */
static void write_model(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17), n;

    mw_value(wire, MW_INPUT, "x", INLAY_FLOAT, "N,16,64,64");
    weights(wire, "k", 4, (const int64_t[]){ CHANNELS, CHANNELS, 3, 3 });
    weights(wire, "m", 2, (const int64_t[]){ SIDE, SIDE });
    n = mw_node_begin(wire, "LRN", "x", "l");
    mw_attr_int(wire, "size", 5);
    wire_end(wire, n);
    mw_node(wire, "Conv", "l,k", "c");
    mw_node(wire, "Tanh", "x", "t");
    mw_node(wire, "MatMul", "t,m", "z");
    mw_value(wire, MW_OUTPUT, "c", INLAY_FLOAT, NULL);
    mw_value(wire, MW_OUTPUT, "z", INLAY_FLOAT, NULL);
    wire_end(wire, mark);
}

/* In the child, the allocator of AddressSanitizer keeps the locks that other threads held at fork(). */
static void need_locks_after_fork(void)
{
#ifdef __SANITIZE_ADDRESS__
    skip();
#endif
}

static inlay_status make_session(const char *providers, int threads, inlay_session **out, inlay_diag *diag)
{
    inlay_options *options = NULL;
    inlay_status status = inlay_options_create(&options, diag);

    if (status == INLAY_OK)
        status = inlay_options_set_int(options, "intra_threads", threads, diag);
    if (status == INLAY_OK && providers != NULL)
        status = inlay_options_set(options, "providers", providers, diag);
    if (status == INLAY_OK)
        status = inlay_session_create_from_bytes(model.bytes, model.count, options, out, diag);
    inlay_options_destroy(options);
    return status;
}

static inlay_status bind(inlay_context *context, inlay_diag *diag)
{
    static const int64_t dims[] = { 1, CHANNELS, SIDE, SIDE };
    inlay_value *value = NULL;
    inlay_status status = inlay_value_borrow(INLAY_FLOAT, 4, dims, input, sizeof input, &value, diag);

    if (status == INLAY_OK)
        status = inlay_context_set_input(context, 0, value, diag);
    inlay_value_unref(value);
    return status;
}

static uint64_t digest_of(inlay_context *context)
{
    uint64_t digest = 14695981039346656037u;

    for (uint32_t k = 0; k < 2; k++) {
        const inlay_value *value = inlay_context_output(context, k);
        const unsigned char *bytes = inlay_value_data(value);

        for (uint64_t i = 0; i < inlay_value_bytes(value); i++)
            digest = (digest ^ bytes[i]) * 1099511628211u;
    }
    return digest;
}

/* One run in context `own`, or in a new one if it is NULL. *out receives the status. Returns the digest of the outputs;
 * 0 if the run failed. */
static uint64_t run_once(inlay_session *session, inlay_context *own, inlay_status *out, inlay_diag *diag)
{
    inlay_context *context = own;
    uint64_t digest = 0;

    *out = context != NULL ? INLAY_OK : inlay_context_create(session, &context, diag);
    if (*out == INLAY_OK)
        *out = bind(context, diag);
    if (*out == INLAY_OK)
        *out = inlay_context_run(context, NULL, diag);
    if (*out == INLAY_OK)
        digest = digest_of(context);
    if (own == NULL)
        inlay_context_destroy(context);
    return digest;
}

static uint64_t run_new_session(const char *providers, int threads, inlay_status *out, inlay_diag *diag)
{
    inlay_session *session = NULL;
    uint64_t digest = 0;

    *out = make_session(providers, threads, &session, diag);
    if (*out == INLAY_OK)
        digest = run_once(session, NULL, out, diag);
    inlay_session_destroy(session);
    return digest;
}

/* The code of a child process. Returns false on failure; most failures also print the reason. */
typedef bool (*child_fn)(void *user);

/* Returns false if the child failed. Makes no assertions, because cmocka cannot leave a test from another thread. */
static bool in_child(child_fn fn, void *user)
{
    pid_t pid = fork();
    int exit_status;

    if (pid == 0) {
        (void)alarm(ALARM_S);
        _exit(fn(user) ? 0 : 1);
    }
    if (pid < 0 || waitpid(pid, &exit_status, 0) != pid) {
        (void)fprintf(stderr, "no child: %s\n", strerror(errno));
        return false;
    }
    if (WIFSIGNALED(exit_status))
        (void)fprintf(stderr, "the child was killed by signal %d\n", WTERMSIG(exit_status));
    return exit_status == 0;
}

static bool expect(const char *what, uint64_t digest, uint64_t wanted, inlay_status status, const inlay_diag *diag)
{
    if (status == INLAY_OK && digest == wanted)
        return true;
    (void)fprintf(stderr, "%s: status %d, %s\n", what, (int)status, status != INLAY_OK ? diag->text : "other values");
    return false;
}

struct family {
    const char *providers;
    int threads;
    uint64_t digest;
    inlay_session *session;
    inlay_context *context;
    int generations;
};

/* Uses the parent's context, a new context of its session, and a new session; then does the same in a grandchild. */
static bool be_child(void *user)
{
    struct family *family = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;
    uint64_t digest = run_once(family->session, family->context, &status, &diag);
    pid_t pid;
    int exit_status;

    if (!expect("the parent's context", digest, family->digest, status, &diag))
        return false;
    digest = run_once(family->session, NULL, &status, &diag);
    if (!expect("the parent's session", digest, family->digest, status, &diag))
        return false;
    digest = run_new_session(family->providers, family->threads, &status, &diag);
    if (!expect("a session of the child", digest, family->digest, status, &diag))
        return false;
    if (--family->generations > 0) {
        pid = fork();
        if (pid == 0)
            _exit(be_child(user) ? 0 : 1);
        if (waitpid(pid, &exit_status, 0) != pid || exit_status != 0)
            return false;
    }
    inlay_context_destroy(family->context);
    inlay_session_destroy(family->session);
    return true;
}

/* Forks twice between runs. */
static bool have_children(struct family *family, inlay_diag *diag)
{
    inlay_status status;
    uint64_t digest;

    family->context = NULL;
    status = inlay_context_create(family->session, &family->context, diag);
    if (status == INLAY_OK)
        family->digest = run_once(family->session, family->context, &status, diag);
    if (!expect("before fork()", family->digest, family->digest, status, diag))
        return false;
    family->generations = 2;
    if (!in_child(be_child, family))
        return false;
    family->generations = 1;
    if (!in_child(be_child, family))
        return false;
    digest = run_once(family->session, family->context, &status, diag);
    return expect("after fork()", digest, family->digest, status, diag);
}

/* A thread. Returns NULL on failure. A provider that is not built is no failure. */
static void *be_parent(void *user)
{
    struct family *family = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = make_session(family->providers, family->threads, &family->session, &diag);
    bool good;

    if (status != INLAY_OK)
        return rig_lacks_provider(&diag) || expect("a session", 0, 0, status, &diag) ? family : NULL;
    good = have_children(family, &diag);
    inlay_context_destroy(family->context);
    inlay_session_destroy(family->session);
    return good ? family : NULL;
}

static const char *const provider_sets[] = { NULL, "reference", "cpu,reference", "onednn,reference",
                                             "openblas,reference" };
enum { SETS = sizeof provider_sets / sizeof provider_sets[0] };

static void test_before_and_after(void **state)
{
    static const int threads[] = { 1, 2, 4 };

    (void)state;
    for (size_t p = 0; p < SETS; p++) {
        for (size_t thread_index = 0; thread_index < sizeof threads / sizeof threads[0]; thread_index++) {
            struct family family = { .providers = provider_sets[p], .threads = threads[thread_index] };
            void *result = NULL;
            pthread_t thread;

            assert_non_null(be_parent(&family));
            assert_int_equal(pthread_create(&thread, NULL, be_parent, &family),
                             0); /* fork from a thread other than the main thread */
            assert_int_equal(pthread_join(thread, &result), 0);
            assert_non_null(result);
        }
    }
}

/* A device belongs to the parent: the child cannot use the parent's session, but can create a new one. */
static bool be_without_device(void *user)
{
    const struct family *family = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;
    uint64_t digest = run_once(family->session, family->context, &status, &diag);

    if (status != INLAY_UNSUPPORTED || strstr(diag.text, "runs on a device (provider vulkan)") == NULL)
        return expect("a session on a device", digest, 0, status, &diag);
    if (inlay_context_run_async(family->context, NULL, NULL, NULL, &diag) != INLAY_UNSUPPORTED)
        return false;
    inlay_context_destroy(family->context); /* both destroy functions do nothing here */
    inlay_session_destroy(family->session);
    digest = run_new_session(family->providers, family->threads, &status, &diag);
    return expect("the child's own device", digest, family->digest, status, &diag);
}

static void test_device(void **state)
{
    struct family family = { .providers = "vulkan", .threads = 2 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;

    (void)state;
    if (make_session(family.providers, family.threads, &family.session, &diag) != INLAY_OK)
        skip();
    assert_int_equal(inlay_context_create(family.session, &family.context, &diag), INLAY_OK);
    family.digest = run_once(family.session, family.context, &status, &diag);
    assert_int_equal(status, INLAY_OK);
    assert_true(in_child(be_without_device, &family));
    assert_true(run_once(family.session, family.context, &status, &diag) == family.digest);
    inlay_context_destroy(family.context);
    inlay_session_destroy(family.session);
}

/* A child whose parent has not used the library yet. */
static bool be_first(void *user)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;

    (void)run_new_session(user, 2, &status, &diag);
    return expect("a first session", 0, 0, status, &diag);
}

static void test_first_in_child(void **state)
{
    (void)state;
    assert_true(in_child(be_first, NULL));
}

struct worker {
    const char *providers;
    inlay_session *session; /* NULL: the worker creates new sessions repeatedly */
    uint64_t digest, runs;
    bool failed;
};

static bool stop_workers; /* atomic */

static void *work(void *user)
{
    struct worker *worker = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_context *context = NULL;
    inlay_status status;

    if (worker->session != NULL && inlay_context_create(worker->session, &context, &diag) != INLAY_OK)
        return NULL;
    while (!__atomic_load_n(&stop_workers, __ATOMIC_RELAXED)) {
        uint64_t digest = context != NULL ? run_once(worker->session, context, &status, &diag)
                                          : run_new_session(worker->providers, 2, &status, &diag);

        worker->failed |= status != INLAY_OK || digest != worker->digest;
        (void)__atomic_add_fetch(&worker->runs, 1, __ATOMIC_RELAXED);
    }
    inlay_context_destroy(context);
    return NULL;
}

struct busy {
    struct worker running, making;
    inlay_session *idle;
};

static bool be_child_of_busy(void *user)
{
    const struct busy *busy = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;
    uint64_t digest = run_once(busy->running.session, NULL, &status, &diag);

    if (status != INLAY_UNSUPPORTED && !expect("a session in use", digest, busy->running.digest, status, &diag))
        return false;
    if (status == INLAY_UNSUPPORTED && strstr(diag.text, "fork") == NULL)
        return false;
    inlay_session_destroy(busy->running.session); /* does nothing if the session cannot be used */
    digest = run_once(busy->idle, NULL, &status, &diag);
    if (!expect("an idle session", digest, busy->running.digest, status, &diag))
        return false;
    digest = run_new_session(busy->making.providers, 2, &status, &diag);
    return expect("a session of the child", digest, busy->running.digest, status, &diag);
}

static void test_others_at_work(void **state)
{
    (void)state;
    need_locks_after_fork();
    for (size_t p = 0; p < SETS; p++) {
        struct busy busy = { .running = { .providers = provider_sets[p] },
                             .making = { .providers = provider_sets[p] } };
        inlay_diag diag = INLAY_DIAG_INIT;
        pthread_t threads[2];
        inlay_status status;
        bool good = true;

        if (make_session(provider_sets[p], 2, &busy.idle, &diag) != INLAY_OK) {
            if (!rig_lacks_provider(&diag))
                fail_msg("%s", diag.text);
            continue;
        }
        assert_int_equal(make_session(provider_sets[p], 2, &busy.running.session, &diag), INLAY_OK);
        busy.running.digest = busy.making.digest = run_once(busy.idle, NULL, &status, &diag);
        __atomic_store_n(&stop_workers, false, __ATOMIC_RELAXED);
        assert_int_equal(pthread_create(&threads[0], NULL, work, &busy.running), 0);
        assert_int_equal(pthread_create(&threads[1], NULL, work, &busy.making), 0);
        for (int i = 0; i < 12 && good; i++) {
            const uint64_t runs = __atomic_load_n(&busy.running.runs, __ATOMIC_RELAXED);

            while (__atomic_load_n(&busy.running.runs, __ATOMIC_RELAXED) == runs) /* until the next run has begun */
                (void)usleep(100);
            (void)run_once(busy.idle, NULL, &status, &diag); /* so that this thread has workers */
            good = in_child(be_child_of_busy, &busy) && good;
        }
        __atomic_store_n(&stop_workers, true, __ATOMIC_RELAXED);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(good);
        assert_false(busy.running.failed || busy.making.failed);
        inlay_session_destroy(busy.running.session);
        inlay_session_destroy(busy.idle);
    }
}

static bool run_async(inlay_context *context, uint64_t wanted)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = inlay_context_run_async(context, NULL, NULL, NULL, &diag);

    if (status == INLAY_OK)
        status = inlay_context_wait(context, UINT64_MAX, &diag);
    return expect("an asynchronous run", status == INLAY_OK ? digest_of(context) : 0, wanted, status, &diag);
}

static bool be_async_child(void *user)
{
    const struct family *family = user;

    if (inlay_context_wait(family->context, UINT64_MAX, NULL) != INLAY_OK ||
        !run_async(family->context, family->digest))
        return false;
    inlay_context_destroy(family->context);
    inlay_session_destroy(family->session);
    return true;
}

static bool destroy_in_child(void *user)
{
    const struct family *family = user;

    inlay_context_destroy(family->context);
    inlay_session_destroy(family->session);
    return true;
}

static void test_async_runs(void **state)
{
    struct family family = { .threads = 2 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;

    (void)state;
    need_locks_after_fork();
    assert_int_equal(make_session(NULL, 2, &family.session, &diag), INLAY_OK);
    assert_int_equal(inlay_context_create(family.session, &family.context, &diag), INLAY_OK);
    family.digest = run_once(family.session, family.context, &status, &diag);
    assert_true(run_async(family.context, family.digest));
    assert_true(in_child(be_async_child, &family));
    assert_true(in_child(destroy_in_child, &family));
    assert_true(run_async(family.context, family.digest));
    inlay_context_destroy(family.context);
    inlay_session_destroy(family.session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_in_child), cmocka_unit_test(test_before_and_after), cmocka_unit_test(test_device),
        cmocka_unit_test(test_others_at_work), cmocka_unit_test(test_async_runs),
    };
    int failures;

    write_model(&model);
    for (int i = 0; i < ELEMENTS; i++)
        input[i] = (float)(i * 7 % 113 - 56) / 50;
    failures = cmocka_run_group_tests(tests, NULL, NULL);
    free(model.bytes);
    return failures;
}
