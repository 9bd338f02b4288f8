#include "check/in_flight.h"
#include "check/compare_results.h"
#include "check/harness_run.h"
#include "threads/fence.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <time.h>

enum { RUNS = 4, SUBMIT_MS = 400, SETTLE_MS = 5, PATIENCE_MS = 3000, DRAIN_MS = 200 };

struct flight_run {
    pthread_t thread;
    bool is_running;
    struct harness harness; /* with the elements of `entry` */
    op_case entry;
    harness_flight flight;
    harness_options options;
    harness_result want, got;
    inlay_status status;
    inlay_diag diag;
};

/* The runs, and the fence that the first one waits for. */
struct flights {
    const struct harness *harness;
    struct flight_run runs[RUNS];
    uint32_t count;
    inlay_fence gate;
    uint32_t end; /* see harness_flight */
};

static void *run_one(void *user)
{
    struct flight_run *run = user;

    run->status = harness_run(&run->harness, &run->options, &run->got, &run->diag);
    if (__atomic_load_n(&run->flight.submitted, __ATOMIC_ACQUIRE) == 0) { /* execute was not called */
        run->flight.status = run->status;
        __atomic_store_n(&run->flight.submitted, 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

/* Has execute accepted the run? */
static bool is_submitted(const struct flight_run *run)
{
    return __atomic_load_n(&run->flight.submitted, __ATOMIC_ACQUIRE) != 0;
}

static void pause_ms(long ms)
{
    (void)nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

/* Computes the expected results of each run, one run after the other. */
static bool prepare(struct flights *flights)
{
    const harness_options options = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;

    for (; flights->count < RUNS; flights->count++) {
        struct flight_run *run = &flights->runs[flights->count];

        if (!case_vary(flights->harness->entry, flights->count + 1, &run->entry))
            return false;
        run->harness = *flights->harness;
        run->harness.entry = &run->entry;
        if (harness_run(&run->harness, &options, &run->want, &diag) != INLAY_OK) {
            harness_result_deinit(&run->want);
            case_deinit(&run->entry);
            return false;
        }
    }
    return true;
}

/* Submits the runs in order. A provider whose execute waits for its fences is left behind after some time: group
 * `results` reports it. */
static void submit(struct flights *flights)
{
    static const uint32_t priorities[RUNS] = { INLAY_PRIORITY_NORMAL, INLAY_PRIORITY_HIGH, INLAY_PRIORITY_LOW,
                                               INLAY_PRIORITY_HIGH };

    for (uint32_t i = 0; i < RUNS; i++) {
        struct flight_run *run = &flights->runs[i];

        run->flight = (harness_flight){ .after = i == 0 ? flights->gate : flights->runs[i - 1].flight.signal,
                                        .after_own = i > 0,
                                        .end = &flights->end };
        run->options = (harness_options){ .quiet = true, .priority = priorities[i], .flight = &run->flight };
        run->is_running = pthread_create(&run->thread, NULL, run_one, run) == 0;
        for (int ms = 0; ms < SUBMIT_MS && run->is_running && !is_submitted(run); ms++)
            pause_ms(1);
        if (!run->is_running || !is_submitted(run) || run->flight.status != INLAY_OK)
            return;
    }
}

/* Waits for the signals. Returns what is wrong, or NULL. */
static const char *await(struct flights *flights, char *text, size_t bytes)
{
    bool early = false;

    pause_ms(SETTLE_MS);
    for (uint32_t i = 0; i < RUNS && flights->runs[i].is_running; i++)
        early |= is_submitted(&flights->runs[i]) && flights->runs[i].flight.status == INLAY_OK &&
                 fence_reached(flights->runs[i].flight.signal, NULL);
    fence_signal(flights->gate, INLAY_OK, NULL);
    for (uint32_t i = 0; i < RUNS && flights->runs[i].is_running; i++) {
        const struct flight_run *run = &flights->runs[i];
        int ms = 0;

        while (ms < PATIENCE_MS &&
               (!is_submitted(run) || (run->flight.status == INLAY_OK && !fence_reached(run->flight.signal, NULL)))) {
            pause_ms(1);
            ms++;
        }
        if (ms < PATIENCE_MS)
            continue;
        (void)snprintf(text, bytes, "run %u of %u, which waits for %s, has not signalled in %d ms", i + 1, RUNS,
                       i == 0 ? "a fence" : "the run before it", PATIENCE_MS);
        for (uint32_t k = i; k < RUNS && flights->runs[k].is_running; k++)
            if (is_submitted(&flights->runs[k]))
                fence_signal(flights->runs[k].flight.signal, INLAY_INTERNAL, NULL);
        pause_ms(DRAIN_MS); /* the provider may still use the memory of the runs */
        return text;
    }
    return early ? "a run signalled before the fence that it had to wait for" : NULL;
}

/* Compares the results of the runs. Returns what is wrong, or NULL. */
static const char *compare(const struct flights *flights, char *text, size_t bytes)
{
    char inner[300];

    for (uint32_t i = 0; i < RUNS && flights->runs[i].is_running; i++) {
        const struct flight_run *run = &flights->runs[i];

        if (run->status != INLAY_OK)
            (void)snprintf(text, bytes, "run %u of %u: '%s' %.300s", i + 1, RUNS, inlay_status_text(run->status),
                           run->diag.text);
        else if (run->got.fault[0] != '\0')
            (void)snprintf(text, bytes, "run %u of %u: %s", i + 1, RUNS, run->got.fault);
        else if (!compare_results(&run->got, &run->want, inner, sizeof inner))
            (void)snprintf(text, bytes, "run %u of %u: %s", i + 1, RUNS, inner);
        else
            continue;
        return text;
    }
    return NULL;
}

bool check_in_flight(const struct harness *harness)
{
    struct flights *flights = calloc(1, sizeof *flights);
    inlay_diag diag = INLAY_DIAG_INIT;
    const char *wrong = NULL;
    char text[500];

    if (flights == NULL)
        return true;
    flights->harness = harness;
    flights->gate.value = FENCE_VALUE;
    if (prepare(flights) && timeline_create(&flights->gate.timeline, &diag) == INLAY_OK) {
        fence_signal((inlay_fence){ flights->gate.timeline, (uint32_t)FENCE_VALUE }, INLAY_OK, NULL);
        check_phase(harness->check, "execute, several runs in flight");
        submit(flights);
        wrong = await(flights, text, sizeof text);
        __atomic_store_n(&flights->end, 1, __ATOMIC_RELEASE);
        for (uint32_t i = 0; i < RUNS; i++)
            if (flights->runs[i].is_running)
                (void)pthread_join(flights->runs[i].thread, NULL);
        check_phase(harness->check, "the checker");
        if (wrong == NULL)
            wrong = compare(flights, text, sizeof text);
    }
    if (wrong != NULL)
        check_fail(harness->check, "in_flight", harness->provider->name,
                   "runs of any priority that wait for each other, and fences with values of 64 bits",
                   "keep the order of work that waits for earlier work, and the data of each job in the job", "%s",
                   wrong);
    timeline_destroy(flights->gate.timeline);
    for (uint32_t i = 0; i < flights->count; i++) {
        harness_result_deinit(&flights->runs[i].want);
        harness_result_deinit(&flights->runs[i].got);
        case_deinit(&flights->runs[i].entry);
    }
    free(flights);
    return wrong == NULL;
}
