/* Children of fork(): they make sessions and run them on any number of threads, and use the parent's sessions or are
 * told that they cannot, whatever other threads were doing. */
#include "cmocka_all.h"
#include "inlay/inlay.h"
#include "model_writer.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHANNELS = 16, SIDE = 64, ELEMENTS = CHANNELS * SIDE * SIDE, ALARM_S = 60 };

static struct wire model;
static float input[ELEMENTS];

static void weights(struct wire *w, const char *name, uint32_t rank, const int64_t *dims)
{
    wire_mark t = wire_begin(w, MW_INITIALIZER);
    int64_t count = 1;

    mw_tensor_head(w, name, INLAY_FLOAT, rank, dims);
    for (uint32_t d = 0; d < rank; d++)
        count *= dims[d];
    for (int64_t i = 0; i < count; i++)
        wire_float(w, 4, (float)(i * 37 % 101 - 50) / 400);
    wire_end(w, t);
}

/* What the libraries of providers have loops of their own for, and what the pool of the host runs. */
static void write_model(struct wire *w)
{
    wire_mark g = mw_begin(w, 8, 17), n, size;

    mw_value(w, MW_INPUT, "x", INLAY_FLOAT, "N,16,64,64");
    weights(w, "k", 4, (const int64_t[]){ CHANNELS, CHANNELS, 3, 3 });
    weights(w, "m", 2, (const int64_t[]){ SIDE, SIDE });
    n = mw_node_begin(w, "LRN", "x", "l");
    size = wire_begin(w, 5);
    wire_text(w, 1, "size");
    wire_int(w, 3, 5);
    wire_int(w, 20, 2);
    wire_end(w, size);
    wire_end(w, n);
    mw_node(w, "Conv", "l,k", "c");
    mw_node(w, "Tanh", "x", "t");
    mw_node(w, "MatMul", "t,m", "z");
    mw_value(w, MW_OUTPUT, "c", INLAY_FLOAT, NULL);
    mw_value(w, MW_OUTPUT, "z", INLAY_FLOAT, NULL);
    wire_end(w, g);
}

/* The allocator of AddressSanitizer keeps, in the child, the locks that other threads held at fork(). */
static void need_locks_after_fork(void)
{
#ifdef __SANITIZE_ADDRESS__
    skip();
#endif
}

static inlay_status make_session(const char *providers, int threads, inlay_session **out, inlay_diag *diag)
{
    inlay_options *o = NULL;
    inlay_status status = inlay_options_create(&o, diag);

    if (status == INLAY_OK)
        status = inlay_options_set_int(o, "intra_threads", threads, diag);
    if (status == INLAY_OK && providers != NULL)
        status = inlay_options_set(o, "providers", providers, diag);
    if (status == INLAY_OK)
        status = inlay_session_create_from_bytes(model.bytes, model.count, o, out, diag);
    inlay_options_destroy(o);
    return status;
}

static inlay_status bind(inlay_context *c, inlay_diag *diag)
{
    static const int64_t dims[] = { 1, CHANNELS, SIDE, SIDE };
    inlay_value *x = NULL;
    inlay_status status = inlay_value_borrow(INLAY_FLOAT, 4, dims, input, sizeof input, &x, diag);

    if (status == INLAY_OK)
        status = inlay_context_set_input(c, 0, x, diag);
    inlay_value_unref(x);
    return status;
}

static uint64_t digest_of(inlay_context *c)
{
    uint64_t h = 14695981039346656037u;

    for (uint32_t k = 0; k < 2; k++) {
        const inlay_value *v = inlay_context_output(c, k);
        const unsigned char *bytes = inlay_value_data(v);

        for (uint64_t i = 0; i < inlay_value_bytes(v); i++)
            h = (h ^ bytes[i]) * 1099511628211u;
    }
    return h;
}

/* One run in a context of its own, or in that one; status in *out, 0 as the digest of what failed. */
static uint64_t run_once(inlay_session *s, inlay_context *own, inlay_status *out, inlay_diag *diag)
{
    inlay_context *c = own;
    uint64_t digest = 0;

    *out = c != NULL ? INLAY_OK : inlay_context_create(s, &c, diag);
    if (*out == INLAY_OK)
        *out = bind(c, diag);
    if (*out == INLAY_OK)
        *out = inlay_context_run(c, NULL, diag);
    if (*out == INLAY_OK)
        digest = digest_of(c);
    if (own == NULL)
        inlay_context_destroy(c);
    return digest;
}

static uint64_t run_anew(const char *providers, int threads, inlay_status *out, inlay_diag *diag)
{
    inlay_session *s = NULL;
    uint64_t digest = 0;

    *out = make_session(providers, threads, &s, diag);
    if (*out == INLAY_OK)
        digest = run_once(s, NULL, out, diag);
    inlay_session_destroy(s);
    return digest;
}

/* What a child does; false: it has said why not. */
typedef bool (*child_fn)(void *user);

static void await(pid_t pid)
{
    int how;

    assert_int_equal(waitpid(pid, &how, 0), pid);
    if (WIFSIGNALED(how))
        fail_msg("the child ended by signal %d", WTERMSIG(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

static void in_child(child_fn fn, void *user)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)alarm(ALARM_S);
        _exit(fn(user) ? 0 : 1);
    }
    await(pid);
}

static bool expect(const char *what, uint64_t digest, uint64_t wanted, inlay_status status, const inlay_diag *diag)
{
    if (status == INLAY_OK && digest == wanted)
        return true;
    (void)fprintf(stderr, "%s: status %d, %s\n", what, (int)status, status != INLAY_OK ? diag->text : "other values");
    return false;
}

/* ------------------------------------------------------------------ before and after */

struct family {
    const char *providers;
    int threads;
    uint64_t digest;
    inlay_session *session;
    inlay_context *context;
    int generations;
};

/* The parent's context, a new context of its session, a session of the child's own, and all that in a grandchild. */
static bool be_child(void *user)
{
    struct family *f = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;
    uint64_t digest = run_once(f->session, f->context, &status, &diag);
    pid_t pid;
    int how;

    if (!expect("the parent's context", digest, f->digest, status, &diag))
        return false;
    digest = run_once(f->session, NULL, &status, &diag);
    if (!expect("the parent's session", digest, f->digest, status, &diag))
        return false;
    digest = run_anew(f->providers, f->threads, &status, &diag);
    if (!expect("a session of the child", digest, f->digest, status, &diag))
        return false;
    if (--f->generations > 0) {
        pid = fork();
        if (pid == 0)
            _exit(be_child(user) ? 0 : 1);
        if (waitpid(pid, &how, 0) != pid || how != 0)
            return false;
    }
    inlay_context_destroy(f->context);
    inlay_session_destroy(f->session);
    return true;
}

static void *be_parent(void *user)
{
    struct family *f = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;

    if (make_session(f->providers, f->threads, &f->session, &diag) != INLAY_OK)
        return NULL; /* a provider that is not built here */
    assert_int_equal(inlay_context_create(f->session, &f->context, &diag), INLAY_OK);
    f->generations = 2;
    f->digest = run_once(f->session, f->context, &status, &diag);
    assert_int_equal(status, INLAY_OK);
    in_child(be_child, f);
    f->generations = 1;
    in_child(be_child, f); /* and once more, after a fork */
    assert_true(run_once(f->session, f->context, &status, &diag) == f->digest);
    inlay_context_destroy(f->context);
    inlay_session_destroy(f->session);
    return NULL;
}

static const char *const sets[] = { NULL, "reference", "cpu,reference", "onednn,reference", "openblas,reference" };
enum { SETS = sizeof sets / sizeof sets[0] };

static void test_before_and_after(void **state)
{
    static const int threads[] = { 1, 2, 4 };

    (void)state;
    for (size_t p = 0; p < SETS; p++) {
        for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++) {
            struct family f = { .providers = sets[p], .threads = threads[t] };
            pthread_t thread;

            (void)be_parent(&f);
            assert_int_equal(pthread_create(&thread, NULL, be_parent, &f),
                             0); /* who forks need not be the first thread */
            assert_int_equal(pthread_join(thread, NULL), 0);
        }
    }
}

/* A device is the parent's: its session is refused, one of the child's own runs. */
static bool be_without_device(void *user)
{
    const struct family *f = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;
    uint64_t digest = run_once(f->session, f->context, &status, &diag);

    if (status != INLAY_UNSUPPORTED || strstr(diag.text, "runs on a device (provider vulkan)") == NULL)
        return expect("a session on a device", digest, 0, status, &diag);
    if (inlay_context_run_async(f->context, NULL, NULL, NULL, &diag) != INLAY_UNSUPPORTED)
        return false;
    inlay_context_destroy(f->context); /* both do nothing */
    inlay_session_destroy(f->session);
    digest = run_anew(f->providers, f->threads, &status, &diag);
    return expect("the child's own device", digest, f->digest, status, &diag);
}

static void test_device(void **state)
{
    struct family f = { .providers = "vulkan", .threads = 2 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;

    (void)state;
    if (make_session(f.providers, f.threads, &f.session, &diag) != INLAY_OK)
        skip();
    assert_int_equal(inlay_context_create(f.session, &f.context, &diag), INLAY_OK);
    f.digest = run_once(f.session, f.context, &status, &diag);
    assert_int_equal(status, INLAY_OK);
    in_child(be_without_device, &f);
    assert_true(run_once(f.session, f.context, &status, &diag) == f.digest);
    inlay_context_destroy(f.context);
    inlay_session_destroy(f.session);
}

/* A child whose parent has only made a session, or nothing yet. */
static bool be_first(void *user)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;

    (void)run_anew(user, 2, &status, &diag);
    return expect("a first session", 0, 0, status, &diag);
}

static void test_first_in_child(void **state)
{
    (void)state;
    in_child(be_first, NULL);
}

/* ------------------------------------------------------------------ others at work */

struct worker {
    const char *providers;
    inlay_session *session; /* NULL: makes one after the other */
    uint64_t digest, runs;
    bool failed;
};

static bool ends; /* atomic */

static void *work(void *user)
{
    struct worker *w = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_context *c = NULL;
    inlay_status status;

    if (w->session != NULL && inlay_context_create(w->session, &c, &diag) != INLAY_OK)
        return NULL;
    while (!__atomic_load_n(&ends, __ATOMIC_RELAXED)) {
        uint64_t digest =
            c != NULL ? run_once(w->session, c, &status, &diag) : run_anew(w->providers, 2, &status, &diag);

        w->failed |= status != INLAY_OK || digest != w->digest;
        (void)__atomic_add_fetch(&w->runs, 1, __ATOMIC_RELAXED);
    }
    inlay_context_destroy(c);
    return NULL;
}

struct busy {
    struct worker running, making;
    inlay_session *idle;
};

static bool be_beside(void *user)
{
    const struct busy *b = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;
    uint64_t digest = run_once(b->running.session, NULL, &status, &diag);

    if (status != INLAY_UNSUPPORTED && !expect("a session in use", digest, b->running.digest, status, &diag))
        return false;
    if (status == INLAY_UNSUPPORTED && strstr(diag.text, "fork") == NULL)
        return false;
    inlay_session_destroy(b->running.session); /* does nothing, where it cannot be used */
    digest = run_once(b->idle, NULL, &status, &diag);
    if (!expect("a session that nobody uses", digest, b->running.digest, status, &diag))
        return false;
    digest = run_anew(b->making.providers, 2, &status, &diag);
    return expect("a session of the child", digest, b->running.digest, status, &diag);
}

static void test_others_at_work(void **state)
{
    (void)state;
    need_locks_after_fork();
    for (size_t p = 0; p < SETS; p++) {
        struct busy b = { .running = { .providers = sets[p] }, .making = { .providers = sets[p] } };
        inlay_diag diag = INLAY_DIAG_INIT;
        pthread_t threads[2];
        inlay_status status;

        if (make_session(sets[p], 2, &b.idle, &diag) != INLAY_OK)
            continue;
        assert_int_equal(make_session(sets[p], 2, &b.running.session, &diag), INLAY_OK);
        b.running.digest = b.making.digest = run_once(b.idle, NULL, &status, &diag);
        __atomic_store_n(&ends, false, __ATOMIC_RELAXED);
        assert_int_equal(pthread_create(&threads[0], NULL, work, &b.running), 0);
        assert_int_equal(pthread_create(&threads[1], NULL, work, &b.making), 0);
        for (int i = 0; i < 12; i++) {
            const uint64_t runs = __atomic_load_n(&b.running.runs, __ATOMIC_RELAXED);

            while (__atomic_load_n(&b.running.runs, __ATOMIC_RELAXED) == runs) /* it has begun the next */
                (void)usleep(100);
            (void)run_once(b.idle, NULL, &status, &diag); /* with workers of this thread */
            in_child(be_beside, &b);
        }
        __atomic_store_n(&ends, true, __ATOMIC_RELAXED);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_false(b.running.failed || b.making.failed);
        inlay_session_destroy(b.running.session);
        inlay_session_destroy(b.idle);
    }
}

/* ------------------------------------------------------------------ runs that go on */

static bool run_aside(inlay_context *c, uint64_t wanted)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = inlay_context_run_async(c, NULL, NULL, NULL, &diag);

    if (status == INLAY_OK)
        status = inlay_context_wait(c, UINT64_MAX, &diag);
    return expect("a run aside", status == INLAY_OK ? digest_of(c) : 0, wanted, status, &diag);
}

static bool be_aside(void *user)
{
    const struct family *f = user;

    if (inlay_context_wait(f->context, UINT64_MAX, NULL) != INLAY_OK || !run_aside(f->context, f->digest))
        return false;
    inlay_context_destroy(f->context);
    inlay_session_destroy(f->session);
    return true;
}

static bool end_aside(void *user)
{
    const struct family *f = user;

    inlay_context_destroy(f->context);
    inlay_session_destroy(f->session);
    return true;
}

static void test_runs_that_go_on(void **state)
{
    struct family f = { .threads = 2 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;

    (void)state;
    need_locks_after_fork();
    assert_int_equal(make_session(NULL, 2, &f.session, &diag), INLAY_OK);
    assert_int_equal(inlay_context_create(f.session, &f.context, &diag), INLAY_OK);
    f.digest = run_once(f.session, f.context, &status, &diag);
    assert_true(run_aside(f.context, f.digest));
    in_child(be_aside, &f);
    in_child(end_aside, &f);
    assert_true(run_aside(f.context, f.digest));
    inlay_context_destroy(f.context);
    inlay_session_destroy(f.session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_in_child), cmocka_unit_test(test_before_and_after), cmocka_unit_test(test_device),
        cmocka_unit_test(test_others_at_work), cmocka_unit_test(test_runs_that_go_on),
    };
    int failures;

    write_model(&model);
    for (int i = 0; i < ELEMENTS; i++)
        input[i] = (float)(i * 7 % 113 - 56) / 50;
    failures = cmocka_run_group_tests(tests, NULL, NULL);
    free(model.bytes);
    return failures;
}
