/* The pool: loops on libgomp's threads. */
#include "threads/threads.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/float_state.h"
#include "threads/gomp.h"
#include "threads/run.h"
#include "threads/scene.h"
#include "threads/spread.h"
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

/* ------------------------------------------------------------------ the budget */

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

static _Thread_local uint32_t held;

uint32_t threads_hold(uint32_t limit)
{
    uint32_t before = held;

    held = limit;
    return before;
}

uint32_t threads_limit(const inlay_run *run)
{
    if (run != NULL && run->max_threads > 0)
        return run->max_threads;
    return held > 0 ? held : threads_budget();
}

/* Threads inside loops now, callers included. A session may ask for more threads than the budget has (a test of
 * scaling, say): it then gets them when it is alone. */
static uint32_t in_use;

static uint32_t lease(uint32_t want, uint32_t limit)
{
    uint32_t most = limit > threads_budget() ? limit : threads_budget();
    uint32_t used = __atomic_load_n(&in_use, __ATOMIC_RELAXED), got;

    do {
        got = used >= most ? 1 : most - used; /* the caller runs anyway */
        got = got < want ? got : want;
    } while (!__atomic_compare_exchange_n(&in_use, &used, used + got, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return got;
}

static void give_back(uint32_t count)
{
    (void)__atomic_fetch_sub(&in_use, count, __ATOMIC_RELAXED);
}

/* ------------------------------------------------------------------ the loop */

/* Ranges of a loop that one worker begins with. The same worker has the same part of every loop of that count: what a
 * loop left in the cache of a core is read there by the next one. Who is done early takes from the others. */
enum { MAX_LANES = 32, LINE_BYTES = 64 };
struct lane {
    int64_t next; /* atomic: the first range that nobody has taken */
    int64_t end;
    char apart[LINE_BYTES - 2 * sizeof(int64_t)];
};

struct loop {
    inlay_parallel_fn fn;
    void *user;
    const inlay_run *run;
    int64_t count, grain;
    int64_t ranges; /* [0, count) in this many parts whose sizes differ by at most 1, longer ones spread evenly */
    uint32_t lane_count;
    int32_t status;           /* atomic: the first failure */
    uint64_t until;           /* no range is begun from then on; 0: until all are done */
    const crash_scene *scene; /* of the thread that started the loop */
    float_state floats;       /* likewise: all workers compute alike */
    int cpu;                  /* the caller's, when the team began */
    bool crowded;             /* atomic: a worker came on the caller's CPU */
    struct lane lanes[MAX_LANES];
};

/* The worker that this thread is, and whether it is in a loop at all. A nested loop stays on its caller and keeps its
 * number, so that two workers of the outer loop never share one. */
static _Thread_local uint32_t this_worker;
static _Thread_local bool in_loop;

static void share_ranges(struct loop *loop, uint32_t team)
{
    loop->lane_count = team < MAX_LANES ? team : MAX_LANES;
    for (uint32_t i = 0; i < loop->lane_count; i++) {
        loop->lanes[i].next = loop->ranges * i / loop->lane_count;
        loop->lanes[i].end = loop->ranges * (i + 1) / loop->lane_count;
    }
}

/* The next range for a worker; -1: all are taken. */
static int64_t take_range(struct loop *loop, uint32_t worker)
{
    for (uint32_t i = 0; i < loop->lane_count; i++) {
        struct lane *from = &loop->lanes[(worker + i) % loop->lane_count];

        if (__atomic_load_n(&from->next, __ATOMIC_RELAXED) < from->end) {
            int64_t r = __atomic_fetch_add(&from->next, 1, __ATOMIC_RELAXED);

            if (r < from->end)
                return r;
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

/* ------------------------------------------------------------------ what loops took
 *
 * Tables of what loops took, or would have taken, on one thread. An entry has the upper 32 bits for the loop, by its
 * function and length, and ns in the lower ones; two loops in one place push each other out. They are for all threads:
 * a library that a program loads late gets little thread-local memory. */
static uint64_t loop_key(inlay_parallel_fn fn, int64_t count)
{
    return ((uint64_t)(uintptr_t)fn / 16 + (uint64_t)count * 31) * UINT64_C(0x9e3779b97f4a7c15);
}

/* ns, 0 when nothing is known. size: a power of two. */
static uint64_t took_known(const uint64_t *table, uint32_t size, uint64_t key)
{
    uint64_t known = __atomic_load_n(&table[(key >> 32) % size], __ATOMIC_RELAXED);

    return known >> 32 == (key & UINT32_MAX) ? known & UINT32_MAX : 0;
}

static void took_keep(uint64_t *table, uint32_t size, uint64_t key, double ns)
{
    uint64_t kept = ns < 1 ? 1 : ns < (double)UINT32_MAX ? (uint64_t)ns : UINT32_MAX;

    __atomic_store_n(&table[(key >> 32) % size], key << 32 | kept, __ATOMIC_RELAXED);
}

/* ------------------------------------------------------------------ loops that take long
 *
 * A run that is cancelled, or whose time is up, should end in milliseconds, and a range of a large product takes a
 * hundred. So a range that takes long is run in slices, with a look at the run before each. How long a loop takes is
 * remembered from the time before; of one that is new a small part goes first. */
static const uint64_t SLICE_NS = 1500000;
enum { LONG_LOOPS = 1024, FIRST_SLICES = 64 };
static uint64_t long_loops[LONG_LOOPS];

/* What is run. */
struct sliced {
    const inlay_run *run;
    inlay_parallel_fn fn;
    void *user;
    int64_t count; /* of the whole loop */
    int64_t grain;
};

static inlay_status run_slice(const struct sliced *sliced, int64_t begin, int64_t end, uint32_t worker)
{
    inlay_status status = run_poll(sliced->run);

    return status == INLAY_OK ? sliced->fn(sliced->user, begin, end, worker) : status;
}

static inlay_status run_range(const struct sliced *sliced, int64_t begin, int64_t end, uint32_t worker)
{
    inlay_status status = INLAY_OK;
    uint64_t key, known;

    if (sliced->run == NULL)
        return sliced->fn(sliced->user, begin, end, worker);
    if (!sliced->run->watched)
        return run_slice(sliced, begin, end, worker);
    key = loop_key(sliced->fn, sliced->count);
    known = took_known(long_loops, LONG_LOOPS, key);
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
            took_keep(long_loops, LONG_LOOPS, key, took * (double)sliced->count / (double)length);
            known = took_known(long_loops, LONG_LOOPS, key);
        }
    }
    return status;
}

static void take_ranges(struct loop *loop)
{
    const struct sliced all = { loop->run, loop->fn, loop->user, loop->count, loop->grain };
    int64_t size = loop->count / loop->ranges, longer = loop->count % loop->ranges;

    while (__atomic_load_n(&loop->status, __ATOMIC_RELAXED) == INLAY_OK &&
           (loop->until == 0 || clock_ns() < loop->until)) {
        int64_t r = take_range(loop, this_worker), begin, end;
        int32_t none = INLAY_OK;
        inlay_status status = INLAY_OK;

        if (r < 0)
            return;
        begin = r * size + r * longer / loop->ranges;
        end = (r + 1) * size + (r + 1) * longer / loop->ranges;
        status = run_range(&all, begin, end, this_worker);
        if (status != INLAY_OK)
            (void)__atomic_compare_exchange_n(&loop->status, &none, status, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}

static void keep_span(run_spans *spans, uint64_t begin, uint32_t worker)
{
    uint32_t at = __atomic_fetch_add(&spans->count, 1, __ATOMIC_RELAXED);

    if (at < spans->capacity)
        spans->list[at] = (run_span){ .begin_ns = begin, .end_ns = clock_ns(), .worker = worker };
}

static void be_worker(struct loop *loop, uint32_t worker)
{
    bool was_in_loop = in_loop;
    const crash_scene *was_borrowed = crash_here.borrowed;
    run_spans *spans = loop->run != NULL ? loop->run->spans : NULL;
    uint64_t begin = spans != NULL ? clock_ns() : 0;

    const float_state floats = float_state_get();

    crash_here.borrowed = loop->scene;
    in_loop = true;
    this_worker = worker;
    (void)float_state_restore(loop->floats);
    take_ranges(loop);
    (void)float_state_restore(floats);
    this_worker = 0;
    in_loop = was_in_loop;
    crash_here.borrowed = was_borrowed;
    if (spans != NULL)
        keep_span(spans, begin, worker);
}

static void join_team(void *user)
{
    struct loop *loop = user;
    uint32_t worker = gomp_worker();

    if (worker > 0 && sched_getcpu() == loop->cpu)
        __atomic_store_n(&loop->crowded, true, __ATOMIC_RELAXED);
    be_worker(loop, worker);
}

enum { RANGES_PER_WORKER = 4 }; /* enough to even out workers that are slower or start later */

/* ------------------------------------------------------------------ a team that sleeps
 *
 * libgomp's workers spin for a while after a loop (gomp.c), and starting one then takes half a microsecond. Then they
 * sleep: waking them takes tens of microseconds, and milliseconds when they are queued on a CPU that is busy, for the
 * caller waits until all have come. A model that takes microseconds and runs now and then must not pay that. So with a
 * sleeping team the caller begins alone, and wakes it when it has lost as much as waking costs: in this loop, in those
 * shortly before, or in one like it the last time. */
#define AWAKE_NS 200000u
#define WAKE_NS 50000u
#define SPREAD_NS 100000u /* without a team for so long, its workers may have slept (gomp.c) */

static _Thread_local struct {
    uint64_t team_end; /* when the last loop of a team ended */
    uint64_t loop_end; /* of one that went alone */
    uint64_t lost;     /* time of those since the team fell asleep, without long pauses */
    bool crowded;      /* a worker of the last team came on the caller's CPU */
} warmth;

enum { PACES = 64 };
static uint64_t paces[PACES]; /* what loops took, or would have taken, alone */

/* Workers that may have slept get CPUs of their own first. */
static void spread(uint32_t team)
{
    if (!warmth.crowded && clock_ns() - warmth.team_end < SPREAD_NS)
        return;
    spread_team(team);
    warmth.crowded = false;
}

static void run_team(struct loop *loop, uint32_t team)
{
    spread(team);
    loop->cpu = sched_getcpu();
    gomp_team(join_team, loop, team);
    warmth.crowded = __atomic_load_n(&loop->crowded, __ATOMIC_RELAXED);
    warmth.team_end = clock_ns();
    warmth.lost = 0;
}

/* Runs what the caller does alone, and says whether that was all. */
static bool run_cold(struct loop *loop)
{
    const uint64_t begin = clock_ns();
    const uint64_t key = loop_key(loop->fn, loop->count);
    uint64_t took;
    int64_t done;

    if (begin - warmth.team_end < AWAKE_NS)
        return false;
    if (begin - warmth.loop_end >= AWAKE_NS)
        warmth.lost = 0;
    if (warmth.lost >= WAKE_NS || took_known(paces, PACES, key) >= 2 * WAKE_NS)
        return false;
    loop->until = begin + WAKE_NS - warmth.lost;
    be_worker(loop, 0);
    loop->until = 0;
    warmth.loop_end = clock_ns();
    took = warmth.loop_end - begin;
    warmth.lost += took;
    done = ranges_taken(loop);
    took_keep(paces, PACES, key, done > 0 ? (double)took * (double)loop->ranges / (double)done : 0);
    return done == loop->ranges || loop->status != INLAY_OK;
}

inlay_status threads_parallel_for(const inlay_run *run, int64_t count, int64_t grain, inlay_parallel_fn fn, void *user)
{
    uint32_t limit, team;
    struct loop loop;

    if (count <= 0)
        return INLAY_OK;
    limit = threads_limit(run);
    /* An application's own OpenMP region counts as a loop: teams within teams would be more threads than CPUs. */
    if (count <= grain || limit <= 1 || in_loop || gomp_in_team())
        return run_range(&(struct sliced){ run, fn, user, count, grain }, 0, count, this_worker);
    /* The team is as large for a short loop as for a long one: libgomp ends threads that the next team does not need
     * and would have to start them again, which costs far more than waking them for nothing. */
    team = lease(limit, limit);
    loop.fn = fn;
    loop.user = user;
    loop.run = run;
    loop.count = count;
    loop.grain = grain;
    loop.status = INLAY_OK;
    loop.until = 0;
    loop.crowded = false;
    loop.scene = crash_here.borrowed != NULL ? crash_here.borrowed : &crash_here;
    loop.floats = float_state_get();
    loop.ranges = count / (grain > 0 ? grain : 1);
    if (loop.ranges > (int64_t)team * RANGES_PER_WORKER)
        loop.ranges = (int64_t)team * RANGES_PER_WORKER;
    share_ranges(&loop, team);
    if (team <= 1) {
        be_worker(&loop, 0);
    } else if (!run_cold(&loop)) {
        run_team(&loop, team);
    }
    give_back(team);
    return loop.status;
}

void threads_gather(const inlay_run *run)
{
    uint32_t limit = threads_limit(run), team;

    if (limit <= 1 || in_loop || gomp_in_team())
        return;
    team = lease(limit, limit);
    if (team > 1) {
        spread(team);
        warmth.team_end = clock_ns();
        warmth.lost = 0;
    }
    give_back(team);
}

void threads_dismissed(void)
{
    warmth.team_end = 0;
}

void threads_forked(void)
{
    threads_dismissed();
    if (!in_loop)
        __atomic_store_n(&in_use, 0, __ATOMIC_RELAXED);
}
