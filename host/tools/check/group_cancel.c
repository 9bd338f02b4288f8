/* How soon a run ends after it was cancelled. */
#include "base/clock.h"
#include "check/bench.h"
#include "check/generate.h"
#include <pthread.h>
#include <string.h>
#include <time.h>

enum { SLACK_MS = 100, ENOUGH_MS = 2000, SCALE = 16, QUICK_SCALE = 8 };

/* The case that runs longest. */
struct search {
    struct check *check;
    const struct world *world;
    const loaded_provider *provider;
    op_case best;
    double best_ms;
    bool found;
    bool offers; /* the operator at hand, in some small case */
};

static double run_ms(const struct bench *bench, const uint32_t *cancel, inlay_status *out_status)
{
    const bench_how how = { .cancel = cancel };
    inlay_diag diag = INLAY_DIAG_INIT;
    bench_result result;
    double ms;

    *out_status = bench_run(bench, &how, &result, &diag);
    ms = result.ns * 1e-6;
    bench_result_deinit(&result);
    return ms;
}

static bool try_case(void *user, op_case *entry)
{
    struct search *search = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;
    case_one one;
    double ms = 0;
    struct bench bench;

    if (case_graph(entry, &search->world->operators, CASE_SIZES, &one, &diag) != INLAY_OK)
        return true;
    if (bench_open(search->check, search->provider, &one, entry, 1, &bench, &diag) == INLAY_OK) {
        ms = run_ms(&bench, NULL, &status);
        if (status == INLAY_OK && ms > search->best_ms) {
            if (search->found)
                case_deinit(&search->best);
            search->best = *entry;
            entry->arena = (struct arena){ 0 }; /* ours now */
            search->best_ms = ms;
            search->found = true;
        }
        bench_close(&bench);
    }
    case_one_deinit(&one);
    return ms == 0 && search->best_ms < ENOUGH_MS;
}

static bool see_offer(void *user, op_case *entry)
{
    struct search *search = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    bench_answer answer = { .kind = BENCH_REFUSED };
    case_one one;

    if (case_graph(entry, &search->world->operators, CASE_SIZES, &one, &diag) != INLAY_OK)
        return true;
    bench_assess(search->provider, &one, &answer);
    case_one_deinit(&one);
    search->offers |= answer.kind == BENCH_OFFERED;
    return !search->offers;
}

static bool try_source(void *user, const case_source *source)
{
    struct search *search = user;
    const case_range small = { .seed = 1, .scale = 1, .quick = true, .scaled = true };
    const case_range range = {
        .seed = 1, .scale = search->check->args->quick ? QUICK_SCALE : SCALE, .quick = true, .scaled = true
    };

    check_subject(search->check, "%s-%lld", source->op_type, (long long)source->opset);
    check_phase(search->check, "assess");
    search->offers = false;
    generate_cases(source, &small, see_offer, search); /* large tensors take long to make */
    check_phase(search->check, "the checker");
    if (search->offers)
        generate_cases(source, &range, try_case, search);
    return search->best_ms < ENOUGH_MS;
}

/* ------------------------------------------------------------------ cancelling */

struct canceller {
    uint32_t word;
    double after_ms;
    double at_ms; /* when it was done */
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

static void judge(struct check *check, const struct search *search, const char *text, const struct canceller *canceller,
                  double took_ms, double late_ms, inlay_status status)
{
    const uint32_t poll = search->provider->table->poll_ms;

    if (took_ms < canceller->after_ms)
        check_skip(check, "cancel", text, "it was done before it could be cancelled");
    else if (late_ms > poll + SLACK_MS)
        check_fail(check, "cancel", text, "that a cancelled run ends within poll_ms",
                   "call inlay_host.poll (or read args->cancel) between pieces of work, or raise poll_ms",
                   "poll_ms is %u, but it went on for %.0f ms", poll, late_ms);
    else if (status != INLAY_CANCELLED && status != INLAY_OK)
        check_fail(check, "cancel", text, "INLAY_CANCELLED", "return what inlay_host.poll returned", "it returned '%s'",
                   inlay_status_text(status));
    else if (late_ms > 2 * poll + 10)
        check_warn(check, "cancel", text, "that a cancelled run ends within poll_ms",
                   "poll more often, or raise poll_ms", "poll_ms is %u, but it went on for %.0f ms", poll, late_ms);
    else
        check_pass(check, "cancel", text, "it ended %.1f ms after it was cancelled, of a run of %.0f ms",
                   late_ms > 0 ? late_ms : 0, search->best_ms);
}

static void cancel_best(struct check *check, struct search *search, const char *text)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct canceller canceller = { .after_ms = search->best_ms / 4 };
    inlay_status status;
    pthread_t thread;
    case_one one;
    struct bench bench;

    if (case_graph(&search->best, &search->world->operators, CASE_SIZES, &one, &diag) != INLAY_OK)
        return;
    if (bench_open(check, search->provider, &one, &search->best, 1, &bench, &diag) == INLAY_OK) {
        if (pthread_create(&thread, NULL, cancel_later, &canceller) == 0) {
            double took = run_ms(&bench, &canceller.word, &status), end = clock_ms();

            (void)pthread_join(thread, NULL);
            judge(check, search, text, &canceller, took, end - canceller.at_ms, status);
        }
        bench_close(&bench);
    }
    case_one_deinit(&one);
}

static void try_provider(struct check *check, const struct world *world, const loaded_provider *provider)
{
    const inlay_operator *custom[64];
    struct search search = { .check = check, .world = world, .provider = provider };
    const uint32_t poll = provider->table->poll_ms;
    char text[256];

    if (poll == 0) {
        check_warn(check, "cancel", provider->name, "a poll_ms above 0, and that a cancelled run ends within it",
                   "poll in long kernels and set poll_ms", "poll_ms is 0: runs cannot be cancelled within an operator");
        return;
    }
    generate_sources(custom, world_operators(world, custom, 64), check->args->op, true, try_source, &search);
    if (!search.found || search.best_ms < 4.0 * poll) {
        check_skip(check, "cancel", provider->name, "the longest run here takes %.1f ms, poll_ms is %u", search.best_ms,
                   poll);
    } else {
        check_subject(check, "%s", case_text(&search.best, text, sizeof text));
        cancel_best(check, &search, text);
    }
    if (search.found)
        case_deinit(&search.best);
}

void check_group_cancel(struct check *check)
{
    struct world world;

    if (check->args->no_timing) {
        check_skip(check, "cancel", NULL, "--no-timing");
        return;
    }
    if (!world_open(check, "cancel", false, &world))
        return;
    for (uint32_t i = 0; i < world.own_count; i++)
        if (check_unit(check, "%s", world.own[i].name))
            try_provider(check, &world, &world.own[i]);
    world_close(&world);
}
