/* Sessions that load plugins at the same time: a session that needs only known files does not wait for a plugin that
 * hangs in its probe, sessions that need the same file share the probe, and each file is loaded once. */
#include "folder.h"
#include "plugin/admit.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>

enum { LONG_MS = 600000 }; /* the time limit of probes that wait for this test */

/* A pipe at which variant `gate` of evil.c waits in its constructor. */
struct gate {
    char path[80];
    int fd; /* for writing; -1 = not held yet */
};

static void gate_make(struct gate *gate, const struct folder *folder)
{
    (void)snprintf(gate->path, sizeof gate->path, "%s/gate", folder->root);
    assert_int_equal(mkfifo(gate->path, 0600), 0);
    assert_int_equal(setenv("INLAY_GATE", gate->path, 1), 0);
    gate->fd = -1;
}

/* Returns when the plugin waits at the gate. */
static void gate_await(struct gate *gate)
{
    gate->fd = open(gate->path, O_WRONLY | O_CLOEXEC);
    assert_true(gate->fd >= 0);
}

/* Lets the plugin go on, there and wherever it is loaded later. */
static void gate_open(struct gate *gate)
{
    assert_int_equal(unlink(gate->path), 0);
    assert_int_equal(close(gate->fd), 0);
}

struct searcher {
    const struct folder *folder;
    plugin_set *set;
    atomic_bool ended;
};

static void *search_slowly(void *user)
{
    struct searcher *searcher = user;

    searcher->set = folder_search_with(searcher->folder, (plugin_search){ .probe_ms = LONG_MS });
    atomic_store(&searcher->ended, true);
    return NULL;
}

/* Loads the plugin of the folder and opens its provider. */
static plugin_set *open_only(const struct folder *folder, const char *name, const struct provider **out_provider)
{
    plugin_set *set = folder_search_with(folder, (plugin_search){ .probe_ms = LONG_MS });
    inlay_diag diag = INLAY_DIAG_INIT;

    assert_int_equal(plugin_set_file_count(set), 1);
    expect_file(plugin_set_file(set, 0), PLUGIN_LOADED, NULL);
    if (provider_open(set, name, NULL, 0, out_provider, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return set;
}

static void others_open_while_a_plugin_hangs(void **state)
{
    const struct provider *before, *known, *fresh;
    plugin_set *before_set, *known_set, *fresh_set;
    struct folder good, new, slow;
    struct searcher searcher = { .folder = &slow };
    struct gate gate;
    pthread_t thread;

    (void)state;
    folder_make(&good), folder_make(&new), folder_make(&slow);
    folder_add(&good, "good", "good"), folder_add(&new, "no_note", "no_note"), folder_add(&slow, "gate", "gate");
    before_set = open_only(&good, "good", &before);
    gate_make(&gate, &slow);
    assert_int_equal(pthread_create(&thread, NULL, search_slowly, &searcher), 0);
    gate_await(&gate);

    known_set = open_only(&good, "good", &known);
    assert_ptr_equal(known, before);
    fresh_set = open_only(&new, "no_note", &fresh); /* a new file, with a probe of its own */
    provider_close(known), provider_close(before), provider_close(fresh);
    plugin_set_destroy(known_set), plugin_set_destroy(before_set), plugin_set_destroy(fresh_set);
    assert_false(atomic_load(&searcher.ended));

    gate_open(&gate);
    assert_int_equal(pthread_join(thread, NULL), 0);
    expect_file(plugin_set_file(searcher.set, 0), PLUGIN_LOADED, NULL);
    plugin_set_destroy(searcher.set);
    folder_remove(&good), folder_remove(&new), folder_remove(&slow);
}

/* A child of fork() does not wait for a probe of its parent, also for the same file. */
static void children_probe_for_themselves(void **state)
{
    struct folder slow;
    struct searcher searcher = { .folder = &slow };
    struct gate gate;
    pthread_t thread;
    int status = -1;
    pid_t child;

    (void)state;
    folder_make(&slow);
    folder_add(&slow, "gate", "gate");
    gate_make(&gate, &slow);
    assert_int_equal(pthread_create(&thread, NULL, search_slowly, &searcher), 0);
    gate_await(&gate);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct provider *provider;

        (void)unlink(gate.path);
        (void)close(gate.fd);
        (void)open_only(&slow, "gate", &provider);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child); /* the child ends before the parent's probe does */
    assert_int_equal(status, 0);
    assert_false(atomic_load(&searcher.ended));
    assert_int_equal(close(gate.fd), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    expect_file(plugin_set_file(searcher.set, 0), PLUGIN_LOADED, NULL);
    plugin_set_destroy(searcher.set);
    folder_remove(&slow);
}

static void begin(const struct folder *folder, const char *name, struct admission *admission)
{
    const plugin_search search = { .probe_ms = LONG_MS, .verdict_dir = folder->verdicts };
    inlay_diag diag = INLAY_DIAG_INIT;
    char path[160];

    (void)snprintf(path, sizeof path, "%s/%s.so", folder->plugins, name);
    if (admit_open(&search, path, folder->plugins, admission, &diag) != INLAY_OK ||
        admit_begin(&search, admission, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
}

static void expect_admitted(struct admission *admission)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (admit_finish(admission, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    admission_close(admission);
}

static void a_probe_is_shared(void **state)
{
    static struct admission first, second, third;
    struct folder folder;

    (void)state;
    folder_make(&folder);
    folder_add(&folder, "good", "good");
    folder_add(&folder, "good", "other");
    begin(&folder, "good", &first);
    begin(&folder, "good", &second);
    begin(&folder, "other", &third);
    assert_non_null(first.probe);
    assert_ptr_equal(second.probe, first.probe);
    assert_ptr_not_equal(third.probe, first.probe);
    expect_admitted(&second); /* reads the report of the probe that the first has started */
    expect_admitted(&first);
    admission_close(&third);
    begin(&folder, "good", &second);
    assert_null(second.probe); /* there is a verdict */
    expect_admitted(&second);
    begin(&folder, "other", &third); /* an abandoned probe leaves no verdict */
    assert_non_null(third.probe);
    expect_admitted(&third);
    folder_remove(&folder);
}

struct starter {
    const struct folder *folder;
    pthread_barrier_t joined;
};

static void *start_and_leave(void *user)
{
    static struct admission admission;
    struct starter *starter = user;

    begin(starter->folder, "gate", &admission);
    (void)pthread_barrier_wait(&starter->joined); /* started */
    (void)pthread_barrier_wait(&starter->joined); /* the other has joined */
    admission_close(&admission);
    return NULL;
}

/* The helper would end with the thread that started it. */
static void a_starter_that_leaves_does_not_end_the_probe(void **state)
{
    static struct admission admission;
    struct folder folder;
    struct starter starter = { .folder = &folder };
    struct gate gate;
    pthread_t thread;

    (void)state;
    folder_make(&folder);
    folder_add(&folder, "gate", "gate");
    gate_make(&gate, &folder);
    assert_int_equal(pthread_barrier_init(&starter.joined, NULL, 2), 0);
    assert_int_equal(pthread_create(&thread, NULL, start_and_leave, &starter), 0);
    (void)pthread_barrier_wait(&starter.joined);
    gate_await(&gate);
    begin(&folder, "gate", &admission);
    assert_non_null(admission.probe);
    (void)pthread_barrier_wait(&starter.joined);
    gate_open(&gate);
    assert_int_equal(pthread_join(thread, NULL), 0);
    expect_admitted(&admission);
    (void)pthread_barrier_destroy(&starter.joined);
    folder_remove(&folder);
}

enum { SESSIONS = 4, ROUNDS = 3 };

struct session {
    const char *dirs[2];
    const char *verdicts;
    plugin_set *set;
    const plugin_provider *infos[2];
    const struct provider *good;
    pthread_barrier_t *all;
};

static void *open_session(void *user)
{
    struct session *session = user;
    const plugin_search search = {
        .dirs = session->dirs, .dir_count = 2, .verdict_dir = session->verdicts, .probe_ms = LONG_MS
    };
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)pthread_barrier_wait(session->all);
    if (plugin_set_search(&search, &session->set, &diag) != INLAY_OK ||
        provider_open(session->set, "good", NULL, 0, &session->good, &diag) != INLAY_OK)
        return NULL;
    session->infos[0] = plugin_set_find(session->set, "good");
    session->infos[1] = plugin_set_find(session->set, "no_note");
    return NULL;
}

static void *close_session(void *user)
{
    struct session *session = user;

    (void)pthread_barrier_wait(session->all);
    provider_close(session->good);
    plugin_set_destroy(session->set);
    return NULL;
}

static void in_all(void *(*action)(void *), struct session sessions[SESSIONS])
{
    pthread_t threads[SESSIONS];

    for (int i = 0; i < SESSIONS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, action, &sessions[i]), 0);
    for (int i = 0; i < SESSIONS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* Sessions whose folders are the same, in different orders, load the same new files at the same time. */
static void sessions_load_the_same_files(void **state)
{
    pthread_barrier_t all;

    (void)state;
    assert_int_equal(pthread_barrier_init(&all, NULL, SESSIONS), 0);
    for (int round = 0; round < ROUNDS; round++) {
        struct session sessions[SESSIONS];
        struct folder first, second;

        folder_make(&first), folder_make(&second);
        folder_add(&first, "good", "good"), folder_add(&second, "no_note", "no_note");
        for (int i = 0; i < SESSIONS; i++)
            sessions[i] = (struct session){ .dirs = { i % 2 == 0 ? first.plugins : second.plugins,
                                                      i % 2 == 0 ? second.plugins : first.plugins },
                                            .verdicts = first.verdicts,
                                            .all = &all };
        in_all(open_session, sessions);
        for (int i = 0; i < SESSIONS; i++) {
            assert_non_null(sessions[i].good);
            assert_ptr_equal(sessions[i].good, sessions[0].good);
            for (int file = 0; file < 2; file++) {
                assert_non_null(sessions[i].infos[file]);
                assert_ptr_equal(sessions[i].infos[file], sessions[0].infos[file]);
            }
        }
        in_all(close_session, sessions);
        folder_remove(&first), folder_remove(&second);
    }
    (void)pthread_barrier_destroy(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_open_while_a_plugin_hangs),
        cmocka_unit_test(children_probe_for_themselves),
        cmocka_unit_test(a_probe_is_shared),
        cmocka_unit_test(a_starter_that_leaves_does_not_end_the_probe),
        cmocka_unit_test(sessions_load_the_same_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
