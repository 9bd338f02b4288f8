/* Parallel loops on the threads of the pool. */
#include "threads/threads.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/float_state.h"
#include "threads/gomp.h"
#include "threads/pool.h"
#include "threads/run.h"
#include "threads/scene.h"
#include "threads/spread.h"
#include "inlay/check.h"
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

static uint32_t budget;
static pthread_once_t budget_once = PTHREAD_ONCE_INIT;

static void find_budget(void)
{
    budget = cpus_allowed();
}

uint32_t threads_budget(void)
{
    (void)pthread_once(&budget_once, find_budget);
    return budget;
}

static _Thread_local uint32_t thread_limit; /* of threads_set_limit() */

uint32_t threads_set_limit(uint32_t limit)
{
    uint32_t before = thread_limit;

    thread_limit = limit;
    return before;
}

uint32_t threads_limit(const inlay_run *run)
{
    if (run != NULL && run->max_threads > 0)
        return run->max_threads;
    return thread_limit > 0 ? thread_limit : threads_budget();
}

/* Number of threads that are in loops, including callers. A session may request more threads than the budget (for
 * example to test scaling); it gets them if no other loop runs. */
static uint32_t in_use;

static uint32_t lease(uint32_t want, uint32_t limit)
{
    uint32_t available = limit > threads_budget() ? limit : threads_budget();
    uint32_t used = __atomic_load_n(&in_use, __ATOMIC_RELAXED), got;

    do {
        got = used >= available ? 1 : available - used; /* at least the caller */
        got = got < want ? got : want;
    } while (!__atomic_compare_exchange_n(&in_use, &used, used + got, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return got;
}

static void give_back(uint32_t count)
{
    const uint32_t before = __atomic_fetch_sub(&in_use, count, __ATOMIC_RELAXED);

    (void)before;
    INLAY_CHECK(before >= count);
}

/* The ranges of a loop that one worker starts with. A worker gets the same part of every loop of the same count, so
 * that it finds the data of the previous loop in its core's cache. A worker that finishes early takes ranges of
 * others. */
enum { MAX_LANES = 32, LINE_BYTES = 64 };
struct lane {
    int64_t next; /* atomic: the first range that is not taken */
    int64_t end;
    char padding[LINE_BYTES - 2 * sizeof(int64_t)];
};

struct loop {
    inlay_parallel_fn fn;
    void *user;
    const inlay_run *run;
    int64_t count, grain;
    int64_t ranges; /* parts of [0, count); their sizes differ by at most 1, and longer ones are spread evenly */
    uint32_t lane_count;
    int32_t status;           /* atomic: the first failure */
    uint64_t until;           /* time after which no range is started; 0 = no limit */
    const crash_scene *scene; /* of the thread that started the loop */
    /* float state of that thread; all workers use it, so that they compute the same results */
    float_state floats;
    struct lane lanes[MAX_LANES];
};

/* The worker index of this thread, and whether it is in a loop. A nested loop runs on its caller with the caller's
 * index, so that no two workers of the outer loop have the same index. */
static _Thread_local uint32_t this_worker;
static _Thread_local bool in_loop;

static void share_ranges(struct loop *loop, uint32_t team)
{
    INLAY_CHECK(team > 0);
    loop->lane_count = team < MAX_LANES ? team : MAX_LANES;
    for (uint32_t i = 0; i < loop->lane_count; i++) {
        loop->lanes[i].next = loop->ranges * i / loop->lane_count;
        loop->lanes[i].end = loop->ranges * (i + 1) / loop->lane_count;
    }
}

/* Takes the next range for a worker; -1: all are taken. */
static int64_t take_range(struct loop *loop, uint32_t worker)
{
    for (uint32_t i = 0; i < loop->lane_count; i++) {
        struct lane *from = &loop->lanes[(worker + i) % loop->lane_count];

        if (__atomic_load_n(&from->next, __ATOMIC_RELAXED) < from->end) {
            int64_t range = __atomic_fetch_add(&from->next, 1, __ATOMIC_RELAXED);

            if (range < from->end)
                return range;
        }
    }
    return -1;
}

static int64_t ranges_taken(const struct loop *loop)
{
    int64_t taken = 0;

    for (uint32_t i = 0; i < loop->lane_count; i++)
        taken += (loop->lanes[i].next < loop->lanes[i].end ? loop->lanes[i].next : loop->lanes[i].end) -
                 loop->ranges * i / loop->lane_count;
    return taken;
}

/* Times of loops.
 *
 * Tables of the time that loops took, or would have taken, on one thread. The upper 32 bits of an entry identify the
 * loop by its function and length, the lower 32 bits are ns. If two loops have the same index in a table, the later
 * entry replaces the earlier one. All threads share the tables, because a library that a program loads late gets little
 * thread-local memory. */
static uint64_t loop_key(inlay_parallel_fn fn, int64_t count)
{
    return ((uint64_t)(uintptr_t)fn / 16 + (uint64_t)count * 31) * UINT64_C(0x9e3779b97f4a7c15);
}

/* The time of a loop in ns, 0 = unknown. size: of the table, a power of two. */
static uint64_t loop_time_find(const uint64_t *table, uint32_t size, uint64_t key)
{
    uint64_t entry = __atomic_load_n(&table[(key >> 32) % size], __ATOMIC_RELAXED);

    INLAY_CHECK(size > 0 && (size & (size - 1)) == 0);
    return entry >> 32 == (key & UINT32_MAX) ? entry & UINT32_MAX : 0;
}

static void loop_time_store(uint64_t *table, uint32_t size, uint64_t key, double ns)
{
    uint64_t stored = ns < 1 ? 1 : ns < (double)UINT32_MAX ? (uint64_t)ns : UINT32_MAX;

    __atomic_store_n(&table[(key >> 32) % size], key << 32 | stored, __ATOMIC_RELAXED);
}

/* Long loops.
 *
 * A run that is cancelled or past its deadline should end within milliseconds, but one range of a large GEMM may take
 * 100 ms. So a long range is executed in slices, and the run is polled before each slice. The time of a loop is known
 * from its previous execution; a new loop starts with a small slice. */
static const uint64_t SLICE_NS = 1500000;
enum { LONG_LOOPS = 1024, FIRST_SLICES = 64 };
static uint64_t long_loops[LONG_LOOPS];

struct sliced_loop {
    const inlay_run *run;
    inlay_parallel_fn fn;
    void *user;
    int64_t count; /* of the whole loop */
    int64_t grain;
};

static inlay_status run_slice(const struct sliced_loop *sliced, int64_t begin, int64_t end, uint32_t worker)
{
    inlay_status status = run_poll(sliced->run);

    return status == INLAY_OK ? sliced->fn(sliced->user, begin, end, worker) : status;
}

static inlay_status run_range(const struct sliced_loop *sliced, int64_t begin, int64_t end, uint32_t worker)
{
    inlay_status status = INLAY_OK;
    uint64_t key, known;

    if (sliced->run == NULL)
        return sliced->fn(sliced->user, begin, end, worker);
    if (!sliced->run->watched)
        return run_slice(sliced, begin, end, worker);
    key = loop_key(sliced->fn, sliced->count);
    known = loop_time_find(long_loops, LONG_LOOPS, key);
    INLAY_CHECK(sliced->count > 0);
    while (status == INLAY_OK && begin < end) {
        const double expected = (double)known * (double)(end - begin) / (double)sliced->count;
        const bool is_short = known != 0 && expected < 2 * (double)SLICE_NS;
        const uint64_t start = clock_ns();
        int64_t length = is_short     ? end - begin
                         : known == 0 ? (end - begin) / FIRST_SLICES
                                      : (int64_t)((double)(end - begin) * (double)SLICE_NS / expected);
        double took;

        length = length < sliced->grain ? sliced->grain : length;
        length = length < 1 ? 1 : length;
        if (end - begin - length < (sliced->grain < 1 ? 1 : sliced->grain)) /* no range is shorter than the grain */
            length = end - begin;
        status = run_slice(sliced, begin, begin + length, worker);
        took = (double)(clock_ns() - start);
        begin += length;
        if (known == 0 || took > (double)SLICE_NS) {
            loop_time_store(long_loops, LONG_LOOPS, key, took * (double)sliced->count / (double)length);
            known = loop_time_find(long_loops, LONG_LOOPS, key);
        }
    }
    return status;
}

static void take_ranges(struct loop *loop)
{
    const struct sliced_loop all = { loop->run, loop->fn, loop->user, loop->count, loop->grain };
    int64_t size = loop->count / loop->ranges, longer = loop->count % loop->ranges;

    while (__atomic_load_n(&loop->status, __ATOMIC_RELAXED) == INLAY_OK &&
           (loop->until == 0 || clock_ns() < loop->until)) {
        int64_t range = take_range(loop, this_worker), begin, end;
        int32_t none = INLAY_OK;
        inlay_status status = INLAY_OK;

        if (range < 0)
            return;
        begin = range * size + range * longer / loop->ranges;
        end = (range + 1) * size + (range + 1) * longer / loop->ranges;
        INLAY_CHECK(begin < end && end <= loop->count);
        status = run_range(&all, begin, end, this_worker);
        if (status != INLAY_OK)
            (void)__atomic_compare_exchange_n(&loop->status, &none, status, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}

static void store_span(run_spans *spans, uint64_t begin, uint32_t worker)
{
    uint32_t at = __atomic_fetch_add(&spans->count, 1, __ATOMIC_RELAXED);

    if (at < spans->capacity)
        spans->list[at] = (run_span){ .begin_ns = begin, .end_ns = clock_ns(), .worker = worker };
}

static void run_worker(struct loop *loop, uint32_t worker)
{
    bool was_in_loop = in_loop;
    const crash_scene *was_borrowed = crash_here.borrowed;
    run_spans *spans = loop->run != NULL ? loop->run->spans : NULL;
    uint64_t begin = spans != NULL ? clock_ns() : 0;

    const float_state floats = float_state_get();
    const uint32_t openmp_threads = gomp_set_threads(1);

    crash_here.borrowed = loop->scene;
    in_loop = true;
    this_worker = worker;
    (void)float_state_restore(loop->floats);
    take_ranges(loop);
    (void)float_state_restore(floats);
    (void)gomp_set_threads(openmp_threads);
    this_worker = 0;
    in_loop = was_in_loop;
    crash_here.borrowed = was_borrowed;
    if (spans != NULL)
        store_span(spans, begin, worker);
}

static void call_worker(void *user, uint32_t worker)
{
    run_worker(user, worker);
}

enum { RANGES_PER_WORKER = 4 }; /* enough to balance the load if some workers are slower or start later */

/* A sleeping team.
 *
 * Waking workers takes their caller about ten microseconds for each, and they arrive tens of microseconds later. That
 * is too long for a model that takes microseconds and runs rarely. So if a worker sleeps, the caller starts the loop
 * alone. It wakes the workers once it has spent as much time alone as waking costs: in this loop, in loops shortly
 * before, or in the previous execution of this loop. If the loops before the last long pause ended soon after that, as
 * those of a small model do, the workers would come too late again, so they may sleep longer. */
#define WAKE_NS 50000u
#define SHORT_NS 150000u

static _Thread_local struct {
    uint64_t loop_begin; /* of the first loop after the last long pause */
    uint64_t loop_end;   /* of the last loop */
    uint64_t alone_ns;   /* time of loops that the caller ran alone since the last team loop or long pause */
    uint64_t limit_ns;   /* of that time, before workers are woken */
    uint64_t gathered;   /* when OpenMP's threads were gathered */
} team_state;

enum { SHORT_LOOPS = 64 };
static uint64_t short_loops[SHORT_LOOPS]; /* times of loops that the caller started alone */

/* Starts the loop on the caller alone. True: the loop is complete. */
static bool run_alone(struct loop *loop)
{
    const uint64_t begin = clock_ns();
    const uint64_t key = loop_key(loop->fn, loop->count);
    uint64_t took;
    int64_t done;

    if (begin - team_state.loop_end >= POOL_SPIN_NS) {
        const bool is_short = team_state.loop_end - team_state.loop_begin < SHORT_NS;

        team_state.limit_ns = team_state.loop_begin > 0 && is_short ? SHORT_NS : WAKE_NS;
        team_state.loop_begin = begin;
        team_state.alone_ns = 0;
    }
    if (team_state.alone_ns >= team_state.limit_ns || loop_time_find(short_loops, SHORT_LOOPS, key) >= 2 * WAKE_NS)
        return false;
    loop->until = begin + team_state.limit_ns - team_state.alone_ns;
    run_worker(loop, 0);
    loop->until = 0;
    team_state.loop_end = clock_ns();
    took = team_state.loop_end - begin;
    team_state.alone_ns += took;
    done = ranges_taken(loop);
    loop_time_store(short_loops, SHORT_LOOPS, key, done > 0 ? (double)took * (double)loop->ranges / (double)done : 0);
    return done == loop->ranges || loop->status != INLAY_OK;
}

static void run_team(struct loop *loop, uint32_t threads)
{
    pool_team team = pool_claim(threads - 1);

    if (team.is_awake || !run_alone(loop)) {
        pool_run(&team, call_worker, loop);
        team_state.alone_ns = 0;
        team_state.loop_end = clock_ns();
    }
    pool_release(&team);
}

inlay_status threads_parallel_for(const inlay_run *run, int64_t count, int64_t grain, inlay_parallel_fn fn, void *user)
{
    uint32_t limit, team;
    struct loop loop;

    if (count <= 0)
        return INLAY_OK;
    limit = threads_limit(run);
    /* An OpenMP region of the application counts as a loop: its other threads may run loops, too. */
    if (count <= grain || limit <= 1 || in_loop || gomp_in_team())
        return run_range(&(struct sliced_loop){ run, fn, user, count, grain }, 0, count, this_worker);
    loop.ranges = count / (grain > 0 ? grain : 1);
    team = lease(loop.ranges < limit ? (uint32_t)loop.ranges : limit, limit);
    loop.fn = fn;
    loop.user = user;
    loop.run = run;
    loop.count = count;
    loop.grain = grain;
    loop.status = INLAY_OK;
    loop.until = 0;
    loop.scene = crash_here.borrowed != NULL ? crash_here.borrowed : &crash_here;
    loop.floats = float_state_get();
    if (loop.ranges > (int64_t)team * RANGES_PER_WORKER)
        loop.ranges = (int64_t)team * RANGES_PER_WORKER;
    loop.ranges -= loop.ranges % team; /* as many for each worker: with one more, some would take twice as long */
    share_ranges(&loop, team);
    if (team <= 1)
        run_worker(&loop, 0);
    else
        run_team(&loop, team);
    give_back(team);
    return loop.status;
}

/* Threads of OpenMP that have waited for longer than this may sleep (gomp.c). */
#define SPREAD_NS 100000u

void threads_gather(const inlay_run *run)
{
    uint32_t limit = threads_limit(run), team;

    if (limit <= 1 || in_loop || gomp_in_team())
        return;
    pool_rest();
    if (clock_ns() - team_state.gathered < SPREAD_NS)
        return;
    team = lease(limit, limit);
    if (team > 1) {
        spread_team(team);
        team_state.gathered = clock_ns();
    }
    give_back(team);
}

void threads_dismissed(void)
{
    team_state.gathered = 0;
}

void threads_forked(void)
{
    threads_dismissed();
    pool_forked();
    if (!in_loop)
        __atomic_store_n(&in_use, 0, __ATOMIC_RELAXED);
}
