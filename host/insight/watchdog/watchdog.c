#include "watchdog/watchdog.h"
#include "base/clock.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "threads/threads.h"
#include "watchdog/report.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { QUEUE = 32, KEPT_BYTES = 1 << 20, MAX_SAMPLE_BYTES = 256 << 20 };
#define MAX_INNER_BYTES (UINT64_C(2) << 30) /* of the values within a region */

enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_RUNNING };
struct slot {
    struct sample sample;  /* the first member, see slot_of() */
    uint64_t queued_bytes; /* of the sample, if it waits */
    uint32_t state;        /* atomic: SLOT_* */
};

struct watchdog {
    session_client client;
    watchdog_settings settings;
    partition_provider reference; /* settings.judge */
    sample_sink sink;
    struct slot slots[QUEUE];
    uint64_t queued_bytes; /* atomic: of the samples that wait; at most about MAX_SAMPLE_BYTES */
    sem_t ready;           /* one post for each slot that becomes ready, and one at the end */
    pthread_t thread;
    pthread_mutex_t lock;  /* guards the next four members and `judged`; a run never waits for it */
    region_watch *regions; /* [region_count] that were chosen at least once */
    uint32_t region_count;
    bool started;
    uint64_t refused_until_ns; /* by clock_ns() */
    pthread_cond_t judged;     /* a slot has become free */
    bool inherited;            /* in a child of fork(): does nothing */
    uint32_t stop;             /* atomic: 1 = waiting samples are dropped, and the one in progress is cancelled */
    bool ends;                 /* atomic */
    inlay_watchdog_info info;  /* its members are atomic */
    struct findings findings;  /* the thread appends to it */
    program_folder folder;     /* of the thread */
};

/* Processor time of the checks of all sessions, which may be settings.rate of the process's. */
static uint64_t spent_ns;

/* Adds to a member of `info`. */
static void add(uint64_t *counter, uint64_t more)
{
    (void)__atomic_add_fetch(counter, more, __ATOMIC_RELAXED);
}

static region_watch *find_region(struct watchdog *watchdog, const struct program *program, const program_step *step)
{
    region_watch *region;

    for (uint32_t i = 0; i < watchdog->region_count; i++)
        if (watchdog->regions[i].step == step)
            return &watchdog->regions[i];
    if (!LIST_GROW(watchdog->regions, watchdog->region_count))
        return NULL;
    region = &watchdog->regions[watchdog->region_count];
    if (!region_watch_init(region, program, step, watchdog->reference.name))
        return NULL;
    watchdog->region_count++;
    return region;
}

static uint64_t processor_ns(clockid_t clock)
{
    struct timespec now = { 0 };

    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* May the checks use more time now? The process cannot have used enough before watchdog->refused_until_ns, so until
 * then its time is not read, which would take as long as a small region. The lock is held. */
static bool has_time(struct watchdog *watchdog)
{
    const uint64_t now = clock_ns();
    double missing;

    if (now < watchdog->refused_until_ns)
        return false;
    missing = (double)__atomic_load_n(&spent_ns, __ATOMIC_RELAXED) / watchdog->settings.rate -
              (double)processor_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (missing > 0)
        watchdog->refused_until_ns = now + (uint64_t)(missing / threads_budget());
    return missing <= 0;
}

static void *judge_samples(void *user);

/* Starts the thread at the first sample. */
static bool start(struct watchdog *watchdog)
{
    sigset_t all, before;

    if (watchdog->started)
        return true;
    (void)sigfillset(&all); /* signals are handled by the application's threads */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    watchdog->started = pthread_create(&watchdog->thread, NULL, judge_samples, watchdog) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return watchdog->started;
}

/* Returns whether an execution of the region is wanted. The lock is held. The first one always is, so that a kernel
 * that is wrong in every run is found soon. */
static bool wants(struct watchdog *watchdog, const struct program *program, const program_step *step)
{
    region_watch *region = find_region(watchdog, program, step);

    if (region == NULL || region->shut)
        return false;
    if (region->kind == PIECE_SKIPPED) {
        add(&watchdog->info.skipped, 1);
        return false;
    }
    if ((region->taken && !has_time(watchdog)) || !start(watchdog)) {
        add(&watchdog->info.dropped, 1);
        return false;
    }
    return true;
}

static struct sample *begin_sample(void *ctx, const struct program *program, const program_step *step)
{
    struct watchdog *watchdog = ctx;
    struct sample *taken = NULL;
    bool wanted;

    if (watchdog->inherited)
        return NULL;
    if (pthread_mutex_trylock(&watchdog->lock) != 0) {
        add(&watchdog->info.dropped, 1);
        return NULL;
    }
    wanted = wants(watchdog, program, step);
    for (uint32_t i = 0; wanted && taken == NULL && i < QUEUE &&
                         __atomic_load_n(&watchdog->queued_bytes, __ATOMIC_RELAXED) < MAX_SAMPLE_BYTES;
         i++) {
        uint32_t state = SLOT_FREE;

        if (__atomic_compare_exchange_n(&watchdog->slots[i].state, &state, SLOT_FILLING, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            taken = &watchdog->slots[i].sample;
    }
    if (taken != NULL) {
        taken->program = program;
        taken->step = step;
        find_region(watchdog, program, step)->taken = true;
    } else if (wanted) {
        add(&watchdog->info.dropped, 1);
    }
    (void)pthread_mutex_unlock(&watchdog->lock);
    return taken;
}

static struct slot *slot_of(struct sample *taken)
{
    return (struct slot *)(void *)taken;
}

static void end_sample(void *ctx, struct sample *taken, bool complete)
{
    struct watchdog *watchdog = ctx;

    slot_of(taken)->queued_bytes = complete ? taken->memory_room : 0;
    (void)__atomic_add_fetch(&watchdog->queued_bytes, slot_of(taken)->queued_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&slot_of(taken)->state, complete ? SLOT_READY : SLOT_FREE, __ATOMIC_RELEASE);
    if (complete)
        (void)sem_post(&watchdog->ready);
    else
        add(&watchdog->info.dropped, 1);
}

static void use_idle_processors(void)
{
    const struct sched_param none = { 0 };

    if (pthread_setschedparam(pthread_self(), SCHED_IDLE, &none) != 0)
        (void)setpriority(PRIO_PROCESS, 0, 19); /* of this thread, on Linux */
}

static void judge_slot(struct watchdog *watchdog, struct slot *taken)
{
    const uint64_t began = processor_ns(CLOCK_THREAD_CPUTIME_ID);
    program_folder folder = { .env = watchdog->settings.env };
    const report_request request = { .machine = { .folder = &folder,
                                                  .provider = &watchdog->reference,
                                                  .cancel = &watchdog->stop,
                                                  .max_bytes = MAX_INNER_BYTES,
                                                  .reduced = watchdog->settings.reduced },
                                     .sample = &taken->sample,
                                     .env = watchdog->settings.env,
                                     .folder = watchdog->settings.folder };
    report_result result = { 0 };
    region_watch *known, region = { .shut = true };
    uint64_t used;

    (void)pthread_mutex_lock(&watchdog->lock);
    known = find_region(watchdog, taken->sample.program, taken->sample.step);
    if (known != NULL)
        region = *known; /* its lists stay until forget() */
    (void)pthread_mutex_unlock(&watchdog->lock);
    if (!region.shut)
        report_sample(&request, &region, &watchdog->findings, &result);
    program_folder_deinit(&folder);
    used = processor_ns(CLOCK_THREAD_CPUTIME_ID) - began;
    (void)__atomic_add_fetch(&spent_ns, used, __ATOMIC_RELAXED);
    add(&watchdog->info.cpu_ns, used);
    add(result.judged                  ? &watchdog->info.checked
        : result.skip || result.unsure ? &watchdog->info.skipped
                                       : &watchdog->info.dropped,
        1);
    if (result.wrong)
        (void)__atomic_add_fetch(&watchdog->info.wrong, 1, __ATOMIC_RELEASE); /* never more than checked */
    (void)pthread_mutex_lock(&watchdog->lock);
    known = find_region(watchdog, taken->sample.program, taken->sample.step);
    if (known != NULL && result.skip)
        known->kind = PIECE_SKIPPED;
    if (known != NULL && result.wrong)
        known->shut = true;
    if (taken->sample.memory_room > KEPT_BYTES) {
        free(taken->sample.memory);
        taken->sample.memory = NULL;
        taken->sample.memory_room = 0;
    }
    (void)pthread_mutex_unlock(&watchdog->lock);
}

static void *judge_samples(void *user)
{
    struct watchdog *watchdog = user;

    use_idle_processors();
    (void)threads_set_limit(1);
    for (;;) {
        while (sem_wait(&watchdog->ready) != 0 && errno == EINTR)
            continue;
        for (uint32_t i = 0; i < QUEUE; i++) {
            uint32_t state = SLOT_READY;

            if (!__atomic_compare_exchange_n(&watchdog->slots[i].state, &state, SLOT_RUNNING, false, __ATOMIC_ACQUIRE,
                                             __ATOMIC_RELAXED))
                continue;
            if (__atomic_load_n(&watchdog->stop, __ATOMIC_RELAXED) == 0)
                judge_slot(watchdog, &watchdog->slots[i]);
            else
                add(&watchdog->info.dropped, 1);
            (void)__atomic_sub_fetch(&watchdog->queued_bytes, watchdog->slots[i].queued_bytes, __ATOMIC_RELAXED);
            (void)pthread_mutex_lock(&watchdog->lock);
            __atomic_store_n(&watchdog->slots[i].state, SLOT_FREE, __ATOMIC_RELEASE);
            (void)pthread_cond_broadcast(&watchdog->judged);
            (void)pthread_mutex_unlock(&watchdog->lock);
        }
        if (__atomic_load_n(&watchdog->ends, __ATOMIC_ACQUIRE))
            return NULL;
    }
}

/* Until all samples taken so far are judged. */
static void wait_judged(struct watchdog *watchdog)
{
    if (watchdog->inherited)
        return;
    (void)pthread_mutex_lock(&watchdog->lock);
    for (uint32_t i = 0; i < QUEUE; i++)
        while (__atomic_load_n(&watchdog->slots[i].state, __ATOMIC_ACQUIRE) >= SLOT_READY)
            (void)pthread_cond_wait(&watchdog->judged, &watchdog->lock);
    (void)pthread_mutex_unlock(&watchdog->lock);
}

static void free_regions(struct watchdog *watchdog)
{
    for (uint32_t i = 0; i < watchdog->region_count; i++)
        region_watch_deinit(&watchdog->regions[i]);
    free(watchdog->regions);
    watchdog->regions = NULL;
    watchdog->region_count = 0;
}

static void forget(session_client *client)
{
    struct watchdog *watchdog = (struct watchdog *)client;

    if (watchdog->inherited)
        return;
    __atomic_store_n(&watchdog->stop, 1, __ATOMIC_RELAXED);
    wait_judged(watchdog);
    (void)pthread_mutex_lock(&watchdog->lock);
    free_regions(watchdog);
    __atomic_store_n(&watchdog->stop, 0, __ATOMIC_RELAXED);
    (void)pthread_mutex_unlock(&watchdog->lock);
}

/* The child has no thread. */
static void inherit(session_client *client)
{
    struct watchdog *watchdog = (struct watchdog *)client;

    watchdog->inherited = true;
    watchdog->started = false;
    (void)pthread_mutex_init(&watchdog->lock, NULL);
}

static void destroy(session_client *client)
{
    struct watchdog *watchdog = (struct watchdog *)client;

    __atomic_store_n(&watchdog->stop, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&watchdog->ends, true, __ATOMIC_RELEASE);
    (void)sem_post(&watchdog->ready);
    if (watchdog->started)
        (void)pthread_join(watchdog->thread, NULL);
    for (uint32_t i = 0; i < QUEUE; i++) {
        free(watchdog->slots[i].sample.tensors);
        free(watchdog->slots[i].sample.memory);
    }
    free_regions(watchdog);
    arena_deinit(&watchdog->findings.arena);
    (void)sem_destroy(&watchdog->ready);
    (void)pthread_cond_destroy(&watchdog->judged);
    (void)pthread_mutex_destroy(&watchdog->lock);
    free((char *)(uintptr_t)watchdog->settings.folder);
    provider_close(watchdog->settings.judge);
    free(watchdog);
}

static inlay_status observe(session_client *client, run_observer **out_observer, inlay_diag *diag)
{
    return sampler_create(&((struct watchdog *)client)->sink, out_observer, diag);
}

static const session_client_calls calls = { observe, forget, inherit, destroy };

inlay_status watchdog_create(const watchdog_settings *settings, session_client **out_client, inlay_diag *diag)
{
    struct watchdog *watchdog = calloc(1, sizeof *watchdog);
    char *folder = strdup(settings->folder);

    *out_client = NULL;
    if (watchdog == NULL || folder == NULL) {
        free(folder);
        free(watchdog);
        return no_memory(diag, "for option watchdog");
    }
    INLAY_CHECK(settings->rate > 0 && settings->rate <= 1);
    watchdog->client.calls = &calls;
    watchdog->settings = *settings;
    watchdog->settings.folder = folder;
    watchdog->reference = (partition_provider){ .table = settings->judge->table,
                                                .state = settings->judge->state,
                                                .name = settings->judge->name,
                                                .first_domain = settings->judge->first_domain,
                                                .abi_minor = settings->judge->abi_minor };
    watchdog->sink = (sample_sink){ watchdog, settings->rate, begin_sample, end_sample, MAX_SAMPLE_BYTES };
    (void)sem_init(&watchdog->ready, 0, 0);
    (void)pthread_mutex_init(&watchdog->lock, NULL);
    (void)pthread_cond_init(&watchdog->judged, NULL);
    *out_client = &watchdog->client;
    return INLAY_OK;
}

struct watchdog *watchdog_of(const inlay_session *session)
{
    return session->client != NULL && session->client->calls == &calls ? (struct watchdog *)session->client : NULL;
}

void watchdog_get_info(const inlay_session *session, bool wait, inlay_watchdog_info *out_info)
{
    struct watchdog *watchdog = watchdog_of(session);
    const inlay_watchdog_info *info = &watchdog->info;

    if (wait)
        wait_judged(watchdog);
    out_info->wrong = __atomic_load_n(&info->wrong, __ATOMIC_ACQUIRE);
    out_info->checked = __atomic_load_n(&info->checked, __ATOMIC_RELAXED);
    out_info->dropped = __atomic_load_n(&info->dropped, __ATOMIC_RELAXED);
    out_info->skipped = __atomic_load_n(&info->skipped, __ATOMIC_RELAXED);
    out_info->cpu_ns = __atomic_load_n(&info->cpu_ns, __ATOMIC_RELAXED);
    out_info->finding_count = __atomic_load_n(&watchdog->findings.count, __ATOMIC_ACQUIRE);
}

bool watchdog_get_finding(const inlay_session *session, uint32_t index, inlay_watchdog_finding *out_finding)
{
    const struct watchdog *watchdog = watchdog_of(session);
    const bool found = index < __atomic_load_n(&watchdog->findings.count, __ATOMIC_ACQUIRE);

    if (found)
        *out_finding = watchdog->findings.list[index];
    return found;
}
