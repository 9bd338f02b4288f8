#include "check/host.h"
#include "inlay/host.h"
#include "plugin/plugin.h"
#include "threads/run.h"

static uint32_t *cancel_word; /* atomic */
static bool is_scattered;     /* atomic */
static uint64_t messages;     /* atomic */
/* The worker that runs a part of a scattered loop; nested loops run on the same worker. */
static _Thread_local uint32_t scattered_worker;
static _Thread_local bool in_scattered;

/* Runs the ranges on the calling thread from the last to the first, as the workers with the highest numbers. */
static inlay_status scatter(inlay_run *run, int64_t count, int64_t grain, inlay_parallel_fn fn, void *user)
{
    enum { MOST_RANGES = 7 }; /* odd, so that ranges do not end at powers of two */
    const int64_t least = (count + MOST_RANGES - 1) / MOST_RANGES, size = grain > least ? grain : least;
    inlay_status status = INLAY_OK;

    if (in_scattered || count <= grain)
        return count > 0 ? fn(user, 0, count, scattered_worker) : INLAY_OK;
    in_scattered = true;
    for (int64_t range = (count - 1) / size; range >= 0 && status == INLAY_OK; range--) {
        const int64_t end = range * size + size;

        scattered_worker = run->max_threads - 1 - (uint32_t)range % run->max_threads;
        status = run_poll(run);
        if (status == INLAY_OK)
            status = fn(user, range * size, end < count ? end : count, scattered_worker);
    }
    scattered_worker = 0;
    in_scattered = false;
    return status;
}

static inlay_status parallel_for(void *ctx, inlay_run *run, int64_t count, int64_t grain, inlay_parallel_fn fn,
                                 void *user)
{
    uint32_t *word = __atomic_load_n(&cancel_word, __ATOMIC_ACQUIRE);

    if (word != NULL && run != NULL)
        __atomic_store_n(word, 1, __ATOMIC_RELAXED);
    if (run != NULL && __atomic_load_n(&is_scattered, __ATOMIC_ACQUIRE))
        return scatter(run, count, grain, fn, user);
    return host_table()->parallel_for(ctx, run, count, grain, fn, user);
}

static uint32_t thread_count(void *ctx, inlay_run *run)
{
    if (run != NULL && __atomic_load_n(&is_scattered, __ATOMIC_ACQUIRE))
        return run->max_threads;
    return host_table()->thread_count(ctx, run);
}

static void count_message(void *ctx, uint32_t level, const char *text)
{
    if (level <= INLAY_LOG_INFO)
        (void)__atomic_add_fetch(&messages, 1, __ATOMIC_RELAXED);
    host_table()->log(ctx, level, text);
}

uint64_t check_host_messages(void)
{
    return __atomic_load_n(&messages, __ATOMIC_RELAXED);
}

const inlay_host *check_host(void)
{
    static inlay_host table;

    if (table.struct_size == 0) {
        table = *host_table();
        table.parallel_for = parallel_for;
        table.thread_count = thread_count;
        table.log = count_message;
    }
    return &table;
}

void check_host_cancel_in_loops(uint32_t *word)
{
    __atomic_store_n(&cancel_word, word, __ATOMIC_RELEASE);
}

void check_host_scatter_loops(bool on)
{
    __atomic_store_n(&is_scattered, on, __ATOMIC_RELEASE);
}
