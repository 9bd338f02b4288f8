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
    struct check *c;
    const struct world *w;
    const loaded_provider *p;
    op_case best;
    double best_ms;
    bool found;
    bool offers; /* the operator at hand, in some small case */
};

static double run_ms(const struct bench *b, const uint32_t *cancel, inlay_status *out_status)
{
    const bench_how how = { .cancel = cancel };
    inlay_diag diag = INLAY_DIAG_INIT;
    bench_result r;
    double ms;

    *out_status = bench_run(b, &how, &r, &diag);
    ms = r.ns * 1e-6;
    bench_result_deinit(&r);
    return ms;
}

static bool try_case(void *user, op_case *k)
{
    struct search *s = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;
    case_one one;
    double ms = 0;
    struct bench b;

    if (case_graph(k, &s->w->operators, CASE_SIZES, &one, &diag) != INLAY_OK)
        return true;
    if (bench_open(s->c, s->p, &one, k, 1, &b, &diag) == INLAY_OK) {
        ms = run_ms(&b, NULL, &status);
        if (status == INLAY_OK && ms > s->best_ms) {
            if (s->found)
                case_deinit(&s->best);
            s->best = *k;
            k->a = (struct arena){ 0 }; /* ours now */
            s->best_ms = ms;
            s->found = true;
        }
        bench_close(&b);
    }
    case_one_deinit(&one);
    return ms == 0 && s->best_ms < ENOUGH_MS;
}

static bool see_offer(void *user, op_case *k)
{
    struct search *s = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    bench_answer answer = { .kind = BENCH_REFUSED };
    case_one one;

    if (case_graph(k, &s->w->operators, CASE_SIZES, &one, &diag) != INLAY_OK)
        return true;
    bench_assess(s->p, &one, &answer);
    case_one_deinit(&one);
    s->offers |= answer.kind == BENCH_OFFERED;
    return !s->offers;
}

static bool try_source(void *user, const case_source *source)
{
    struct search *s = user;
    const case_range small = { .seed = 1, .scale = 1, .quick = true, .scaled = true };
    const case_range range = {
        .seed = 1, .scale = s->c->args->quick ? QUICK_SCALE : SCALE, .quick = true, .scaled = true
    };

    check_subject(s->c, "%s-%lld", source->op_type, (long long)source->opset);
    check_phase(s->c, "assess");
    s->offers = false;
    generate_cases(source, &small, see_offer, s); /* large tensors take long to make */
    check_phase(s->c, "the checker");
    if (s->offers)
        generate_cases(source, &range, try_case, s);
    return s->best_ms < ENOUGH_MS;
}

/* ------------------------------------------------------------------ cancelling */

struct canceller {
    uint32_t word;
    double after_ms;
    double at_ms; /* when it was done */
};

static void *cancel_later(void *user)
{
    struct canceller *k = user;
    const struct timespec pause = { .tv_sec = (time_t)(k->after_ms / 1e3),
                                    .tv_nsec = (long)(1e6 * k->after_ms) % 1000000000L };

    (void)nanosleep(&pause, NULL);
    k->at_ms = clock_ms();
    __atomic_store_n(&k->word, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void judge(struct check *c, const struct search *s, const char *text, const struct canceller *k, double took_ms,
                  double late_ms, inlay_status status)
{
    const uint32_t poll = s->p->table->poll_ms;

    if (took_ms < k->after_ms)
        check_skip(c, "cancel", text, "it was done before it could be cancelled");
    else if (late_ms > poll + SLACK_MS)
        check_fail(c, "cancel", text, "that a cancelled run ends within poll_ms",
                   "call inlay_host.poll (or read args->cancel) between pieces of work, or raise poll_ms",
                   "poll_ms is %u, but it went on for %.0f ms", poll, late_ms);
    else if (status != INLAY_CANCELLED && status != INLAY_OK)
        check_fail(c, "cancel", text, "INLAY_CANCELLED", "return what inlay_host.poll returned", "it returned '%s'",
                   inlay_status_text(status));
    else if (late_ms > 2 * poll + 10)
        check_warn(c, "cancel", text, "that a cancelled run ends within poll_ms", "poll more often, or raise poll_ms",
                   "poll_ms is %u, but it went on for %.0f ms", poll, late_ms);
    else
        check_pass(c, "cancel", text, "it ended %.1f ms after it was cancelled, of a run of %.0f ms",
                   late_ms > 0 ? late_ms : 0, s->best_ms);
}

static void cancel_best(struct check *c, struct search *s, const char *text)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct canceller k = { .after_ms = s->best_ms / 4 };
    inlay_status status;
    pthread_t thread;
    case_one one;
    struct bench b;

    if (case_graph(&s->best, &s->w->operators, CASE_SIZES, &one, &diag) != INLAY_OK)
        return;
    if (bench_open(c, s->p, &one, &s->best, 1, &b, &diag) == INLAY_OK) {
        if (pthread_create(&thread, NULL, cancel_later, &k) == 0) {
            double took = run_ms(&b, &k.word, &status), end = clock_ms();

            (void)pthread_join(thread, NULL);
            judge(c, s, text, &k, took, end - k.at_ms, status);
        }
        bench_close(&b);
    }
    case_one_deinit(&one);
}

static void try_provider(struct check *c, const struct world *w, const loaded_provider *p)
{
    const inlay_operator *custom[64];
    struct search s = { .c = c, .w = w, .p = p };
    const uint32_t poll = p->table->poll_ms;
    char text[256];

    if (poll == 0) {
        check_warn(c, "cancel", p->name, "a poll_ms above 0, and that a cancelled run ends within it",
                   "poll in long kernels and set poll_ms", "poll_ms is 0: runs cannot be cancelled within an operator");
        return;
    }
    generate_sources(custom, world_operators(w, custom, 64), c->args->op, true, try_source, &s);
    if (!s.found || s.best_ms < 4.0 * poll) {
        check_skip(c, "cancel", p->name, "the longest run here takes %.1f ms, poll_ms is %u", s.best_ms, poll);
    } else {
        check_subject(c, "%s", case_text(&s.best, text, sizeof text));
        cancel_best(c, &s, text);
    }
    if (s.found)
        case_deinit(&s.best);
}

void check_group_cancel(struct check *c)
{
    struct world w;

    if (c->args->no_timing) {
        check_skip(c, "cancel", NULL, "--no-timing");
        return;
    }
    if (!world_open(c, "cancel", false, &w))
        return;
    for (uint32_t i = 0; i < w.own_count; i++)
        if (check_unit(c, "%s", w.own[i].name))
            try_provider(c, &w, &w.own[i]);
    world_close(&w);
}
