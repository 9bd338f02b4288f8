/* Measures how soon a run ends after it was cancelled. */
#include "base/clock.h"
#include "check/harness.h"
#include "check/generate.h"
#include "inlay/check.h"
#include <pthread.h>
#include <string.h>
#include <time.h>

enum {
    SLACK_MS = 100,
    ENOUGH_MS = 2000,
    SCALE = 16,
    QUICK_SCALE = 8,
    MOST_SCALE = 48,
    QUICK_MOST_SCALE = 24, /* for the longest case, if it is too short to be cancelled */
    ATTEMPTS = 2
};

/* Searches for the case with the longest run. */
struct search {
    struct check *check;
    const struct fixture *fixture;
    const loaded_provider *provider;
    op_case best;
    double best_ms;
    bool found;
    bool offers;      /* the provider offers the current operator in a small case */
    uint32_t scale;   /* of large cases */
    char op_type[64]; /* of the best case; try larger cases of this operator only */
};

static double run_ms(const struct harness *harness, const uint32_t *cancel, inlay_status *out_status)
{
    const harness_options options = { .cancel = cancel };
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result result;
    double ms;

    *out_status = harness_run(harness, &options, &result, &diag);
    ms = result.ns * 1e-6;
    harness_result_deinit(&result);
    return ms;
}

/* The least time of a few runs that succeed, as other processes may delay a run; at most `ms`. */
static double least_ms(const struct harness *harness, double ms)
{
    enum { TIMED = 3 };
    inlay_status status;

    for (int i = 0; i < TIMED; i++) {
        const double next = run_ms(harness, NULL, &status);

        ms = status == INLAY_OK && next < ms ? next : ms;
    }
    return ms;
}

static bool try_case(void *user, op_case *entry)
{
    struct search *search = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;
    case_instance built;
    double ms = 0;
    struct harness harness;

    if (case_graph(entry, &search->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return true;
    if (harness_open(search->check, search->provider, &built, entry, 1, &harness, &diag) == INLAY_OK) {
        ms = run_ms(&harness, NULL, &status);
        if (status == INLAY_OK && ms > search->best_ms && ms < ENOUGH_MS)
            ms = least_ms(&harness, ms);
        if (status == INLAY_OK && ms > search->best_ms) {
            if (search->found)
                case_deinit(&search->best);
            search->best = *entry;
            entry->arena = (struct arena){ 0 }; /* the search owns it now */
            search->best_ms = ms;
            search->found = true;
        }
        harness_close(&harness);
    }
    case_instance_deinit(&built);
    return ms == 0 && search->best_ms < ENOUGH_MS;
}

/* Sets search->offers if the provider offers the case, and then stops the generator. */
static bool note_offer(void *user, op_case *entry)
{
    struct search *search = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_answer answer = { .kind = HARNESS_REFUSED };
    case_instance built;

    if (case_graph(entry, &search->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return true;
    harness_assess(search->provider, &built, &answer);
    case_instance_deinit(&built);
    search->offers |= answer.kind == HARNESS_OFFERED;
    return !search->offers;
}

static bool try_source(void *user, const case_source *source)
{
    struct search *search = user;
    const case_range small = { .seed = 1, .scale = 1, .quick = true, .scaled = true };
    const case_range range = { .seed = 1, .scale = search->scale, .quick = true, .scaled = true };

    if (search->op_type[0] != '\0' && strcmp(search->op_type, source->op_type) != 0)
        return true;

    check_subject(search->check, "%s-%lld", source->op_type, (long long)source->opset);
    check_phase(search->check, "assess");
    search->offers = false;
    /* Tries small cases first: large tensors take long to generate. */
    generate_cases(source, &small, note_offer, search);
    check_phase(search->check, "the checker");
    if (search->offers)
        generate_cases(source, &range, try_case, search);
    return search->best_ms < ENOUGH_MS;
}

struct canceller {
    uint32_t word;   /* the flag that cancels the run */
    double after_ms; /* delay before the flag is set */
    double at_ms;    /* time at which the flag was set */
};

static void *cancel_later(void *user)
{
    struct canceller *canceller = user;
    const struct timespec pause = { .tv_sec = (time_t)(canceller->after_ms / 1e3),
                                    .tv_nsec = (long)(1e6 * canceller->after_ms) % 1000000000L };

    (void)nanosleep(&pause, NULL);
    canceller->at_ms = clock_ms();
    __atomic_store_n(&canceller->word, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void report_result(struct check *check, const struct search *search, const char *text,
                          const struct canceller *canceller, double took_ms, double late_ms, inlay_status status)
{
    const uint32_t poll = search->provider->table->poll_ms;

    if (took_ms < canceller->after_ms)
        check_skip(check, "cancel", text, "the run ended before it could be cancelled");
    else if (late_ms > poll + SLACK_MS)
        check_fail(check, "cancel", text, "a cancelled run ends within poll_ms",
                   "call inlay_host.poll (or read args->cancel) between pieces of work, or raise poll_ms",
                   "poll_ms is %u, but the run continued for %.0f ms", poll, late_ms);
    else if (status != INLAY_CANCELLED && status != INLAY_OK)
        check_fail(check, "cancel", text, "INLAY_CANCELLED", "return what inlay_host.poll returned", "it returned '%s'",
                   inlay_status_text(status));
    else if (late_ms > 2 * poll + 10)
        check_warn(check, "cancel", text, "a cancelled run ends within poll_ms", "poll more often, or raise poll_ms",
                   "poll_ms is %u, but the run continued for %.0f ms", poll, late_ms);
    else
        check_pass(check, "cancel", text, "ended %.1f ms after the cancellation of a run of %.0f ms",
                   late_ms > 0 ? late_ms : 0, search->best_ms);
}

/* A run that takes longer than poll_ms and is cancelled before it begins has to notice. True: it did not; reported. */
static bool ignores_cancellation(struct check *check, const struct search *search, const struct harness *harness,
                                 const char *text)
{
    static const uint32_t stop = 1;
    const uint32_t poll = search->provider->table->poll_ms;
    const double least = least_ms(harness, search->best_ms);
    inlay_status status;

    if (least < 2.0 * poll)
        return false;
    (void)run_ms(harness, &stop, &status);
    if (status != INLAY_OK)
        return false;
    check_fail(check, "cancel", text, "INLAY_CANCELLED, within poll_ms", "call inlay_host.poll between pieces of work",
               "poll_ms is %u, but a cancelled run returned 'ok', although it takes %.0f ms", poll, least);
    return true;
}

static void cancel_best(struct check *check, struct search *search, const char *text)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct canceller canceller = { .after_ms = search->best_ms / 4 };
    const double poll = search->provider->table->poll_ms;
    inlay_status status = INLAY_OK;
    pthread_t thread;
    case_instance built;
    struct harness harness;

    INLAY_CHECK(search->found);
    if (case_graph(&search->best, &search->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return;
    if (harness_open(check, search->provider, &built, &search->best, 1, &harness, &diag) == INLAY_OK) {
        double took = 0, late = 0;
        const bool ignored = ignores_cancellation(check, search, &harness, text);
        int attempt = 0;

        /* Measures again if the run ended late: on a busy machine, the run itself may have waited for a CPU. */
        for (; attempt < ATTEMPTS && (attempt == 0 || late > poll) && !ignored; attempt++) {
            canceller.word = 0;
            if (pthread_create(&thread, NULL, cancel_later, &canceller) != 0)
                break;
            took = run_ms(&harness, &canceller.word, &status);
            late = clock_ms();
            (void)pthread_join(thread, NULL);
            late -= canceller.at_ms;
        }
        if (attempt > 0)
            report_result(check, search, text, &canceller, took, late, status);
        harness_close(&harness);
    }
    case_instance_deinit(&built);
}

static void try_provider(struct check *check, const struct fixture *fixture, const loaded_provider *provider)
{
    const inlay_operator *custom[64];
    const bool quick = check->args->quick;
    struct search search = {
        .check = check, .fixture = fixture, .provider = provider, .scale = quick ? QUICK_SCALE : SCALE
    };
    const uint32_t poll = provider->table->poll_ms;
    char text[256];

    if (poll == 0) {
        check_warn(check, "cancel", provider->name, "a poll_ms above 0, within which a cancelled run ends",
                   "poll in long kernels and set poll_ms", "poll_ms is 0: runs cannot be cancelled within an operator");
        return;
    }
    generate_sources(custom, fixture_operators(fixture, custom, 64), check->args->op, true, try_source, &search);
    while (search.found && search.best_ms < 4.0 * poll && search.scale < (quick ? QUICK_MOST_SCALE : MOST_SCALE)) {
        search.scale += quick ? QUICK_SCALE : SCALE;
        (void)snprintf(search.op_type, sizeof search.op_type, "%s", search.best.op_type);
        generate_sources(custom, fixture_operators(fixture, custom, 64), check->args->op, true, try_source, &search);
    }
    if (!search.found || search.best_ms < 4.0 * poll) {
        check_skip(check, "cancel", provider->name, "too short to test: the longest run takes %.1f ms, poll_ms is %u",
                   search.best_ms, poll);
    } else {
        check_subject(check, "%s", case_text(&search.best, text, sizeof text));
        cancel_best(check, &search, text);
    }
    if (search.found)
        case_deinit(&search.best);
}

void check_group_cancel(struct check *check)
{
    struct fixture fixture;

    if (check->args->no_timing) {
        check_skip(check, "cancel", NULL, "--no-timing");
        return;
    }
    if (!fixture_open(check, "cancel", false, &fixture))
        return;
    for (uint32_t i = 0; i < fixture.own_count; i++)
        if (check_unit(check, "%s", fixture.own[i].name))
            try_provider(check, &fixture, &fixture.own[i]);
    fixture_close(&fixture);
}
