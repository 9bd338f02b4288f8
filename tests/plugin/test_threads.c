/* The pool: every index runs once, workers are never shared, errors and cancellation stop the loop, nested loops
 * stay on their worker, and a worker that does not run delays no loop. */
#include "cmocka_all.h"
#include "threads/gomp.h"
#include "threads/pool.h"
#include "threads/run.h"
#include "threads/spread.h"
#include "threads/threads.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t no_cancel;

static inlay_run run_with(uint32_t threads)
{
    return (inlay_run){ .cancel = &no_cancel, .max_threads = threads };
}

struct marks {
    int32_t *seen;
    int32_t busy[64]; /* per worker */
    int64_t shortest;
};

static inlay_status mark(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    struct marks *marks = user;
    int64_t shortest = __atomic_load_n(&marks->shortest, __ATOMIC_RELAXED);

    if (worker >= 64 || __atomic_exchange_n(&marks->busy[worker], 1, __ATOMIC_RELAXED) != 0)
        return INLAY_INTERNAL;
    for (int64_t i = begin; i < end; i++)
        marks->seen[i]++; /* not atomic on purpose: ThreadSanitizer would notice a shared index */
    while (end - begin < shortest && !__atomic_compare_exchange_n(&marks->shortest, &shortest, end - begin, false,
                                                                  __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    __atomic_store_n(&marks->busy[worker], 0, __ATOMIC_RELAXED);
    return INLAY_OK;
}

static void every_index_once(void **state)
{
    static const struct {
        int64_t count, grain;
        uint32_t threads;
    } rows[] = { { 0, 1, 4 },       { 1, 1, 4 },       { 7, 1, 4 },      { 7, 100, 4 },
                 { 1000, 1, 4 },    { 1000, 333, 3 },  { 1000, 999, 3 }, { 100000, 64, 1 },
                 { 100000, 64, 2 }, { 100003, 64, 8 }, { 5, 0, 4 } };

    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        inlay_run run = run_with(rows[row].threads);
        struct marks marks = { .seen = calloc((size_t)rows[row].count + 1, sizeof(int32_t)), .shortest = INT64_MAX };

        assert_int_equal(threads_parallel_for(&run, rows[row].count, rows[row].grain, mark, &marks), INLAY_OK);
        for (int64_t i = 0; i < rows[row].count; i++)
            assert_int_equal(marks.seen[i], 1);
        if (rows[row].count >= rows[row].grain && rows[row].count > 0)
            assert_true(marks.shortest >= rows[row].grain);
        free(marks.seen);
    }
}

/* Data written by one loop is visible to the next, on any worker. */
struct sums {
    double *values;
    double total[64];
};
static inlay_status fill(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        ((struct sums *)user)->values[i] = (double)i;
    return INLAY_OK;
}
static inlay_status add(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    struct sums *sums = user;

    for (int64_t i = begin; i < end; i++)
        sums->total[worker] += sums->values[i];
    return INLAY_OK;
}
static void loops_follow_each_other(void **state)
{
    enum { N = 4096 };
    inlay_run run = run_with(4);
    struct sums sums = { .values = malloc(N * sizeof(double)) };
    double total;

    (void)state;
    for (int i = 0; i < 200; i++) {
        memset(sums.total, 0, sizeof sums.total);
        assert_int_equal(threads_parallel_for(&run, N, 16, fill, &sums), INLAY_OK);
        assert_int_equal(threads_parallel_for(&run, N, 100, add, &sums), INLAY_OK);
        total = 0;
        for (int w = 0; w < 64; w++)
            total += sums.total[w];
        assert_true(total == (double)N * (N - 1) / 2);
    }
    free(sums.values);
}

struct failure {
    int64_t done;    /* atomic: number of indices in all calls */
    uint32_t failed; /* atomic */
};
/* Fails at index 40. Ranges that do not contain it take long, so that the failure is known before the last of them. */
static inlay_status fail_at_40(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    struct failure *failure = user;

    (void)worker;
    __atomic_fetch_add(&failure->done, end - begin, __ATOMIC_RELAXED);
    if (begin <= 40 && 40 < end) {
        __atomic_store_n(&failure->failed, 1, __ATOMIC_RELAXED);
        return INLAY_SHAPE_MISMATCH;
    }
    for (int i = 0; i < 1000 && __atomic_load_n(&failure->failed, __ATOMIC_RELAXED) == 0; i++)
        (void)usleep(1000);
    (void)usleep(20000);
    return INLAY_OK;
}
/* On one thread, the loop of a watched run is executed in slices; the first slice fails. */
static void a_failure_stops(void **state)
{
    enum { COUNT = 10000 };
    struct failure alone = { 0 }, shared = { 0 };
    inlay_run run = run_with(1);

    (void)state;
    run.watched = 1;
    assert_int_equal(threads_parallel_for(&run, COUNT, 1, fail_at_40, &alone), INLAY_SHAPE_MISMATCH);
    assert_in_range(alone.done, 41, COUNT - 1);
    run = run_with(4);
    assert_int_equal(threads_parallel_for(&run, COUNT, 1, fail_at_40, &shared), INLAY_SHAPE_MISMATCH);
    assert_in_range(shared.done, 41, COUNT - 1);
}

static inlay_status cancel_now(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    (void)begin, (void)end, (void)worker;
    __atomic_store_n((uint32_t *)user, 1, __ATOMIC_RELAXED);
    return INLAY_OK;
}
static void a_cancelled_run_stops(void **state)
{
    uint32_t cancel = 0;
    inlay_run run = { .cancel = &cancel, .max_threads = 2 };

    (void)state;
    assert_int_equal(threads_parallel_for(&run, 1000, 1, cancel_now, &cancel), INLAY_CANCELLED);
    cancel = 0;
    run.deadline_ns = 1; /* long ago */
    assert_int_equal(threads_parallel_for(&run, 1000, 1, cancel_now, &cancel), INLAY_DEADLINE_EXCEEDED);
    assert_int_equal(cancel, 0);
}

struct nest {
    inlay_run run;
    int32_t *seen;
    uint32_t outer[64];
};
static inlay_status inner(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    struct nest *nest = user;

    for (int64_t i = begin; i < end; i++)
        __atomic_fetch_add(&nest->seen[i], 1, __ATOMIC_RELAXED);
    return nest->outer[worker] == worker + 1 ? INLAY_OK : INLAY_INTERNAL; /* the number of the outer loop's worker */
}
static inlay_status outer(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    struct nest *nest = user;

    nest->outer[worker] = worker + 1;
    for (int64_t i = begin; i < end; i++) {
        inlay_status status = threads_parallel_for(&nest->run, 100, 1, inner, nest);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}
static void nested_loops_stay_on_their_worker(void **state)
{
    struct nest nest = { .run = run_with(4), .seen = calloc(100, sizeof(int32_t)) };

    (void)state;
    assert_int_equal(threads_parallel_for(&nest.run, 50, 1, outer, &nest), INLAY_OK);
    for (int i = 0; i < 100; i++)
        assert_int_equal(nest.seen[i], 50);
    free(nest.seen);
}

static void *run_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < 100; i++) {
        inlay_run run = run_with(1 + (uint32_t)i % 4);
        struct marks marks = { .seen = calloc(500, sizeof(int32_t)), .shortest = INT64_MAX };
        bool good = threads_parallel_for(&run, 500, 8, mark, &marks) == INLAY_OK;

        for (int k = 0; k < 500; k++)
            good &= marks.seen[k] == 1;
        free(marks.seen);
        if (!good)
            return (void *)1;
    }
    return NULL;
}
static void several_threads_share_the_budget(void **state)
{
    pthread_t threads[4];
    void *bad;

    (void)state;
    for (int thread = 0; thread < 4; thread++)
        assert_int_equal(pthread_create(&threads[thread], NULL, run_many, NULL), 0);
    for (int thread = 0; thread < 4; thread++) {
        assert_int_equal(pthread_join(threads[thread], &bad), 0);
        assert_null(bad);
    }
    assert_true(threads_budget() >= 1);
    assert_int_equal(threads_limit(NULL), threads_budget());
}

/* A worker of the pool, in loops of two threads. */
struct helper {
    inlay_run run;
    pthread_t caller, thread;
    uint32_t is_known;   /* atomic: `thread` is set */
    uint32_t holds;      /* 1: the helper waits for `go` within its next range. atomic */
    uint32_t held;       /* atomic: it waits */
    uint32_t stop;       /* atomic: for let_go_last */
    int64_t begun, done; /* atomic: ranges */
    int go[2];           /* a pipe */
};

static void wait_for_byte(const struct helper *helper)
{
    char byte;

    while (read(helper->go[0], &byte, 1) != 1)
        ;
}

static void let_go(const struct helper *helper)
{
    assert_int_equal(write(helper->go[1], "", 1), 1);
}

enum { RANGES = 8 }; /* of a loop on two threads */

static inlay_status help(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    struct helper *helper = user;

    if (end - begin != 1 || (worker == 0) != (pthread_equal(pthread_self(), helper->caller) != 0))
        return INLAY_INTERNAL;
    (void)__atomic_fetch_add(&helper->begun, 1, __ATOMIC_RELAXED);
    if (worker > 0 && !__atomic_load_n(&helper->is_known, __ATOMIC_RELAXED)) {
        helper->thread = pthread_self();
        __atomic_store_n(&helper->is_known, 1, __ATOMIC_RELEASE);
    }
    if (worker > 0 && __atomic_exchange_n(&helper->holds, 0, __ATOMIC_RELAXED) != 0) {
        __atomic_store_n(&helper->held, 1, __ATOMIC_RELEASE);
        wait_for_byte(helper);
    }
    (void)__atomic_fetch_add(&helper->done, 1, __ATOMIC_RELEASE);
    (void)usleep(100); /* so that the helper can take part */
    return INLAY_OK;
}

/* Lets a helper that is held within a range go when all other ranges are done. */
static void *let_go_last(void *user)
{
    struct helper *helper = user;

    while (!__atomic_load_n(&helper->stop, __ATOMIC_RELAXED)) {
        if (__atomic_load_n(&helper->done, __ATOMIC_ACQUIRE) == RANGES - 1 &&
            __atomic_exchange_n(&helper->held, 0, __ATOMIC_ACQUIRE) != 0)
            let_go(helper);
        (void)sched_yield();
    }
    return NULL;
}

static void run_with_helper(struct helper *helper)
{
    __atomic_store_n(&helper->begun, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&helper->done, 0, __ATOMIC_RELAXED);
    assert_int_equal(threads_parallel_for(&helper->run, RANGES, 1, help, helper), INLAY_OK);
    assert_int_equal(helper->begun, RANGES);
    assert_int_equal(helper->done, RANGES);
}

static void helper_init(struct helper *helper)
{
    *helper = (struct helper){ .run = run_with(2), .caller = pthread_self() };
    assert_int_equal(pipe(helper->go), 0);
    while (!__atomic_load_n(&helper->is_known, __ATOMIC_ACQUIRE))
        run_with_helper(helper);
}

static void helper_deinit(const struct helper *helper)
{
    (void)close(helper->go[0]);
    (void)close(helper->go[1]);
}

/* While a worker is held within a range, its caller executes all others. */
static void a_loop_waits_for_begun_ranges_only(void **state)
{
    struct helper helper;
    pthread_t thread;

    (void)state;
    if (threads_budget() < 2)
        skip();
    helper_init(&helper);
    assert_int_equal(pthread_create(&thread, NULL, let_go_last, &helper), 0);
    for (int i = 0; i < 20; i++) {
        __atomic_store_n(&helper.holds, 1, __ATOMIC_RELAXED);
        while (__atomic_load_n(&helper.holds, __ATOMIC_RELAXED) != 0)
            run_with_helper(&helper);
    }
    __atomic_store_n(&helper.stop, 1, __ATOMIC_RELAXED);
    assert_int_equal(pthread_join(thread, NULL), 0);
    helper_deinit(&helper);
}

/* The handler stops a worker, as the operating system does when other programs use its CPU. */
static struct helper *stopped_helper;
static void stop_here(int signal)
{
    (void)signal;
    __atomic_store_n(&stopped_helper->held, 1, __ATOMIC_RELEASE);
    wait_for_byte(stopped_helper);
    __atomic_store_n(&stopped_helper->held, 0, __ATOMIC_RELEASE);
}

static void a_stopped_worker_delays_no_loop(void **state)
{
    struct sigaction action = { .sa_handler = stop_here }, before;
    struct helper helper;

    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* ThreadSanitizer delays signals until the thread calls a function of the C library that waits */
#endif
    if (threads_budget() < 2)
        skip();
    helper_init(&helper);
    stopped_helper = &helper;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    for (int i = 0; i < 20; i++) {
        if (i % 2 == 0)
            (void)usleep(2000); /* the worker probably sleeps */
        assert_int_equal(pthread_kill(helper.thread, SIGUSR1), 0);
        while (!__atomic_load_n(&helper.held, __ATOMIC_ACQUIRE))
            (void)sched_yield();
        for (int k = 0; k < 5; k++)
            run_with_helper(&helper);
        let_go(&helper);
        while (__atomic_load_n(&helper.held, __ATOMIC_ACQUIRE))
            (void)sched_yield();
        run_with_helper(&helper);
    }
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
    helper_deinit(&helper);
}

/* pool_rest() while other threads run loops. */
static void *rest_often(void *stop)
{
    while (!__atomic_load_n((uint32_t *)stop, __ATOMIC_RELAXED))
        pool_rest();
    return NULL;
}

static void rest_disturbs_no_loop(void **state)
{
    pthread_t thread;
    uint32_t stop = 0;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, rest_often, &stop), 0);
    assert_null(run_many(NULL));
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void note_worker(void *data)
{
    (void)__atomic_fetch_or((uint32_t *)data, gomp_in_team() ? 1u << gomp_worker() : 1u << 31, __ATOMIC_RELAXED);
}

/* Was the variable set when the program started? */
static bool set_at_start(const char *name)
{
    static char all[1 << 16];
    FILE *file = fopen("/proc/self/environ", "re");
    size_t bytes = file != NULL ? fread(all, 1, sizeof all - 1, file) : 0;

    assert_non_null(file);
    (void)fclose(file);
    for (const char *at = all; at < all + bytes; at += strlen(at) + 1)
        if (strncmp(at, name, strlen(name)) == 0 && at[strlen(name)] == '=')
            return true;
    return false;
}

/* libgomp was found, and the variable that sets its wait policy does not remain in the program's environment. */
static void libgomp_is_configured(void **state)
{
    static const char *const names[] = { "GOMP_SPINCOUNT", "OMP_WAIT_POLICY" };
    static uint32_t workers; /* static, because ThreadSanitizer does not see the end of workers' writes to a stack */

    (void)state;
    assert_false(gomp_in_team());
    gomp_team(note_worker, &workers, 2);
    /* ThreadSanitizer does not see that libgomp has waited for the workers. */
    assert_int_equal(__atomic_load_n(&workers, __ATOMIC_RELAXED), 3);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(getenv(names[i]) != NULL, set_at_start(names[i]));
}

static inlay_status count_openmp_threads(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    (void)begin, (void)end, (void)worker;
    return gomp_set_threads(1) == 1 ? INLAY_OK : *(inlay_status *)user;
}

/* Within a loop, OpenMP regions have one thread; afterwards as many as before. */
static void loops_limit_openmp(void **state)
{
    inlay_run run = run_with(2);
    inlay_status status = INLAY_INTERNAL;
    const uint32_t before = gomp_set_threads(3);

    (void)state;
    for (int i = 0; i < 20; i++)
        assert_int_equal(threads_parallel_for(&run, 1000, 1, count_openmp_threads, &status), INLAY_OK);
    assert_int_equal(gomp_set_threads(before), 3);
}

/* The operating system may move threads between CPUs, but the sets of allowed CPUs must not change. */
static void note_cpus(void *data)
{
    cpu_set_t *sets = data;

    if (sched_getaffinity(0, sizeof *sets, &sets[gomp_worker()]) != 0)
        CPU_ZERO(&sets[gomp_worker()]);
}

static void team_keeps_its_cpus(void **state)
{
    static cpu_set_t before[3], after[3];

    (void)state;
    for (int round = 0; round < 20; round++) {
        gomp_team(note_cpus, before, 3); /* more threads than some machines have CPUs */
        (void)usleep(1000);
        spread_team(3);
        gomp_team(note_cpus, after, 3);
        assert_memory_equal(before, after, sizeof before);
    }
    threads_gather(NULL);
    threads_gather(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libgomp_is_configured),
        cmocka_unit_test(team_keeps_its_cpus),
        cmocka_unit_test(loops_limit_openmp),
        cmocka_unit_test(every_index_once),
        cmocka_unit_test(loops_follow_each_other),
        cmocka_unit_test(a_failure_stops),
        cmocka_unit_test(a_cancelled_run_stops),
        cmocka_unit_test(nested_loops_stay_on_their_worker),
        cmocka_unit_test(several_threads_share_the_budget),
        cmocka_unit_test(a_loop_waits_for_begun_ranges_only),
        cmocka_unit_test(a_stopped_worker_delays_no_loop),
        cmocka_unit_test(rest_disturbs_no_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
