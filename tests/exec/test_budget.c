/* The number of threads stays within the budget, whichever providers a model runs on: while models run, the test counts
 * the threads of the process in /proc, all of them and those that are runnable.
 *
 * Each case runs in a separate process that starts with the allowed CPUs, because a process determines its budget once.
 * A sampler thread counts; it and the waiting main thread are excluded. Guarantees: one caller never has more threads
 * than its limit, running or not. Several callers have at most the threads of the budget and themselves, because a
 * caller continues alone if all workers are leased.
 *
 * A count is not a snapshot, since threads are read sequentially, and a worker that has finished counts as runnable
 * until it sleeps, for milliseconds on a busy machine. A count above the limit is therefore a failure only if a quarter
 * of all counts exceed it. If the process had a second thread pool, nearly all counts would exceed it. */
#include "cmocka_all.h"
#include "model_writer.h"
#include "random.h"
#include "session/session.h"
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_CALLERS = 4, MAX_SEEN = 64, SAMPLES = 600, EXCESS_SHARE = 4, SIZE = 192, FAILED = 1, SKIPPED = 77 };

static void write_model(struct wire *wire)
{
    static const int64_t dims[] = { SIZE, SIZE };
    wire_mark mark, t, n;

    wire_int(wire, 1, 8);
    mw_opset(wire, 8, "", 17);
    mw_opset(wire, 8, "com.example", 1);
    mark = wire_begin(wire, 7);
    wire_text(wire, 2, "g");
    mw_value(wire, MW_INPUT, "x", INLAY_FLOAT, "192,192");
    t = wire_begin(wire, MW_INITIALIZER);
    mw_tensor_head(wire, "w", INLAY_FLOAT, 2, dims);
    for (int i = 0; i < SIZE * SIZE; i++)
        wire_float(wire, 4, (float)(i % 7 - 3) / SIZE);
    wire_end(wire, t);
    mw_node(wire, "MatMul", "x,w", "a");
    mw_node(wire, "Relu", "a", "b");
    mw_node(wire, "MatMul", "b,x", "c");
    n = mw_node_begin(wire, "MovingAverage", "c", "d");
    wire_text(wire, 7, "com.example");
    mw_attr_int(wire, "window", 16);
    wire_end(wire, n);
    mw_node(wire, "Softmax", "d", "e");
    mw_node(wire, "Erf", "e", "y");
    mw_value(wire, MW_OUTPUT, "y", INLAY_FLOAT, "192,192");
    wire_end(wire, mark);
}

/* Orders of preference in which every provider runs a node. */
static const char *const orders[] = {
    "skeleton,fast_average,moving_average,reference",
#ifdef HAVE_OPENBLAS
    "openblas?,moving_average,fast_average,skeleton,reference",
#endif
    "cpu,moving_average,fast_average,skeleton,reference",
    "moving_average,reference,skeleton,fast_average",
};
enum { ORDERS = sizeof orders / sizeof orders[0] };

static struct wire model;
static const char *intra_threads;

static inlay_session *open_order(const char *names)
{
    inlay_options *options = NULL;
    inlay_session *session = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;

    INLAY_TRY(inlay_options_create(&options, &diag));
    INLAY_TRY(inlay_options_set(options, "plugin_dirs", SAMPLE_DIR, &diag));
    INLAY_TRY(inlay_options_set(options, "providers", names, &diag));
    INLAY_TRY(inlay_options_set(options, "policy", "priority", &diag));
    INLAY_TRY(inlay_options_set(options, "intra_threads", intra_threads, &diag));
    INLAY_TRY(inlay_session_create_from_bytes(model.bytes, model.count, options, &session, &diag));
done:
    inlay_options_destroy(options);
    if (status != INLAY_OK)
        (void)fprintf(stderr, "test_budget: %s\n", diag.text);
    return session;
}

static inlay_session *sessions[ORDERS];

/* Does every available provider that is named run a node in one of the sessions? */
static bool all_are_active(void)
{
    for (int i = 0; i < ORDERS; i++) {
        for (uint32_t provider = 0; provider < sessions[i]->env.provider_count; provider++) {
            const char *name = sessions[i]->providers[provider].name;
            bool active = false;

            for (int k = 0; k < ORDERS; k++)
                for (uint32_t step = 0; step < sessions[k]->main->step_count; step++)
                    active |= sessions[k]->main->steps[step].provider != NULL &&
                              strcmp(sessions[k]->main->steps[step].provider->name, name) == 0;
            if (!active) {
                (void)fprintf(stderr, "test_budget: nothing runs on %s\n", name);
                return false;
            }
        }
    }
    return true;
}

static uint32_t stop, failed, running;

/* Runs every session, one after another, in separate contexts, until `stop` is set. */
static void *call(void *user)
{
    const int64_t dims[] = { SIZE, SIZE };
    inlay_context *contexts[ORDERS] = { NULL };
    inlay_value *value = NULL;
    bool fine = inlay_value_create(INLAY_FLOAT, 2, dims, &value, NULL) == INLAY_OK;

    (void)user;
    for (int i = 0; i < ORDERS && fine; i++)
        fine = inlay_context_create(sessions[i], &contexts[i], NULL) == INLAY_OK &&
               inlay_context_set_input(contexts[i], 0, value, NULL) == INLAY_OK &&
               inlay_context_run(contexts[i], NULL, NULL) == INLAY_OK;
    (void)__atomic_fetch_add(&running, 1, __ATOMIC_RELEASE);
    while (fine && !__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
        for (int i = 0; i < ORDERS && fine; i++)
            fine = inlay_context_run(contexts[i], NULL, NULL) == INLAY_OK;
    if (!fine)
        __atomic_store_n(&failed, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < ORDERS; i++)
        inlay_context_destroy(contexts[i]);
    inlay_value_unref(value);
    return NULL;
}

struct counts {
    uint32_t threads, runnable;
};

/* Returns the state of a thread from /proc/self/task/TID/stat, where it follows the thread's name in parentheses; the
 * name may contain any character. 0: the thread has ended. */
static char state_of(const char *tid)
{
    char path[64], line[512], *end;
    FILE *file;
    size_t n;

    (void)snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", tid);
    file = fopen(path, "re");
    if (file == NULL)
        return 0;
    n = fread(line, 1, sizeof line - 1, file);
    (void)fclose(file);
    line[n] = '\0';
    end = strrchr(line, ')');
    return (char)(end != NULL && end[1] == ' ' ? end[2] : 0);
}

/* Counts threads other than the main thread and the caller. */
static struct counts count_threads(void)
{
    struct counts counts = { 0, 0 };
    long self = syscall(SYS_gettid), main_thread = getpid();
    DIR *dir = opendir("/proc/self/task");

    for (const struct dirent *dirent; dir != NULL && (dirent = readdir(dir)) != NULL;) {
        long tid = strtol(dirent->d_name, NULL, 10);
        char state;

        if (tid <= 0 || tid == self || tid == main_thread || (state = state_of(dirent->d_name)) == 0)
            continue;
        counts.threads++;
        counts.runnable += state == 'R';
    }
    if (dir != NULL)
        (void)closedir(dir);
    return counts;
}

typedef struct budget_case {
    int cpus; /* CPUs that the process may use */
    const char *intra_threads;
    int callers;
    uint32_t limit;        /* maximum number of runnable threads, including callers */
    uint32_t thread_limit; /* maximum number of threads; 0: not checked, because later callers may find workers free */
} budget_case;

static bool limit_cpus(int cpus)
{
    cpu_set_t have, want;
    int taken = 0;

    CPU_ZERO(&want);
    if (sched_getaffinity(0, sizeof have, &have) != 0)
        return false;
    for (int i = 0; i < CPU_SETSIZE && taken < cpus; i++) {
        if (CPU_ISSET(i, &have)) {
            CPU_SET(i, &want);
            taken++;
        }
    }
    return taken == cpus && sched_setaffinity(0, sizeof want, &want) == 0;
}

static uint32_t others;                /* threads that existed at the start: those of a sanitizer */
static uint32_t largest, most_threads; /* maximum counts; rare ones are ignored in `largest` */

static void *sample(void *user)
{
    const budget_case *budget = user;
    uint32_t seen[MAX_SEEN] = { 0 }, above = 0;

    while (__atomic_load_n(&running, __ATOMIC_ACQUIRE) < (uint32_t)budget->callers)
        (void)sched_yield();
    for (int i = 0; i < SAMPLES; i++) {
        struct counts now = count_threads();

        seen[now.runnable < MAX_SEEN ? now.runnable : MAX_SEEN - 1]++;
        if (now.threads - others > most_threads)
            most_threads = now.threads - others;
        (void)sched_yield();
    }
    for (uint32_t n = MAX_SEEN; n-- > 1 && largest == 0;) {
        above += seen[n];
        if (above * EXCESS_SHARE >= SAMPLES || (n <= budget->limit && seen[n] > 0))
            largest = n;
    }
    return NULL;
}

/* Runs a case in its process. Returns 0 if it passes. */
static int run_case(const budget_case *budget)
{
    pthread_t callers[MAX_CALLERS], sampler;
    bool fine = true;

    others = count_threads().threads;
    intra_threads = budget->intra_threads;
    write_model(&model);
    for (int i = 0; i < ORDERS && fine; i++)
        fine = (sessions[i] = open_order(orders[i])) != NULL;
    if (!fine || !all_are_active() || pthread_create(&sampler, NULL, sample, (void *)(uintptr_t)budget) != 0)
        return FAILED;
    for (int i = 0; i < budget->callers; i++)
        if (pthread_create(&callers[i], NULL, call, NULL) != 0)
            return FAILED;
    (void)pthread_join(sampler, NULL);
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < budget->callers; i++)
        (void)pthread_join(callers[i], NULL);
    for (int i = 0; i < ORDERS; i++)
        inlay_session_destroy(sessions[i]);
    wire_deinit(&model);
    (void)printf("%d CPUs, intra_threads %s, %d callers: at most %u threads, %u of them runnable (limit %u)\n",
                 budget->cpus, budget->intra_threads, budget->callers, most_threads, largest, budget->limit);
    (void)fflush(stdout);
    return failed || largest > budget->limit || largest == 0 ||
           (budget->thread_limit > 0 && most_threads > budget->thread_limit);
}

static const budget_case cases[] = {
    { 1, "0", 1, 1, 1 }, { 1, "1", 1, 1, 1 }, { 1, "0", 3, 3, 3 }, { 2, "0", 1, 2, 2 }, { 2, "1", 1, 1, 1 },
    { 2, "2", 1, 2, 2 }, { 2, "1", 3, 3, 3 }, { 2, "2", 2, 3, 0 }, { 2, "2", 4, 5, 0 },
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void threads_stay_within_the_budget(void **state)
{
    int ran = 0;

    (void)state;
    for (int i = 0; i < CASES; i++) {
        char number[16];
        int how;
        pid_t child;

        if (!random_takes((uint64_t)i))
            continue;
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            if (!limit_cpus(cases[i].cpus))
                _exit(SKIPPED);
            /* The child executes the program again, because libgomp counts the CPUs when it is loaded. */
            (void)snprintf(number, sizeof number, "%d", i);
            (void)execl("/proc/self/exe", "test_exec_budget", number, (char *)NULL);
            _exit(FAILED);
        }
        assert_int_equal(waitpid(child, &how, 0), child);
        if (!WIFEXITED(how) || (WEXITSTATUS(how) != 0 && WEXITSTATUS(how) != SKIPPED))
            fail_msg("case %d: %d CPUs, intra_threads %s, %d callers: status 0x%x", i, cases[i].cpus,
                     cases[i].intra_threads, cases[i].callers, how);
        ran += WEXITSTATUS(how) == 0;
    }
    assert_true(ran >= (random_takes(1) ? 3 : 1));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(threads_stay_within_the_budget) };
    long number = argc == 2 ? strtol(argv[1], NULL, 10) : -1;

    if (number >= 0 && number < CASES)
        return run_case(&cases[number]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
