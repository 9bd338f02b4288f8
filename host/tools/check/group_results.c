/* Every operator that a provider offers, in many shapes and types, against a peer; and against itself: in other memory,
 * with other threads, again, in two threads at once. */
#include "check/agree.h"
#include "check/data.h"
#include "check/generate.h"
#include "check/process.h"
#include "probe/process_snapshot.h"
#include "threads/threads.h"
#include <pthread.h>
#include <string.h>

enum { MAX_COMPLAINTS = 2, FILL = 0xff }; /* 0xff...: NaN in every float type */

/* What is known of one operator so far. */
struct tally {
    struct check *c;
    const struct world *w;
    const loaded_provider *p;
    const case_source *source;
    char subject[160];
    uint32_t sources;  /* operators that --op let through */
    uint32_t cases;    /* of the operator at hand, that the provider offered and ran */
    uint32_t compared; /* of these, with a peer */
    uint32_t complaints;
    uint32_t heap_cases; /* that called malloc while running */
    char heap_at[300];
    uint32_t variants; /* further runs that agreed */
    bool concurrent;   /* tried already */
    bool large;        /* the case at hand is one */
    uint32_t large_cases;
    bool lost;         /* the device went, and that was looked at */
    bool threads_told; /* of threads that a run starts */
};

/* What n stands for in large cases: tensors of a hundred thousand elements, and one or two of a kind. */
enum { LARGE_SCALE = 24, QUICK_SCALE = 6, LARGE_CASES = 2, LARGE_CASES_QUICK = 1 };

static void complain(struct tally *t, const op_case *k, const char *expected, const char *fix, const char *got)
{
    char text[256];

    if (t->complaints++ < MAX_COMPLAINTS)
        check_fail(t->c, "results", case_text(k, text, sizeof text), expected, fix, "%s", got);
}

/* The device is lost: what is called on it still comes back, and once it is closed it can be opened again. */
static void check_loss(struct tally *t, const struct bench *b)
{
    const uint32_t index = (uint32_t)(t->p->table - t->p->plugin->providers);
    const bench_how how = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    loaded_provider again = { .state = NULL };
    bench_result r;
    struct bench other;
    inlay_status status;

    t->lost = true;
    check_phase(t->c, "execute on a device that is lost");
    (void)!bench_run(b, &how, &r, &diag);
    bench_result_deinit(&r);
    check_phase(t->c, "create, for a device that was lost");
    status = loaded_create(t->p->plugin, index, t->c->args, &again, &diag);
    if (status == INLAY_OK)
        status = bench_open(t->c, &again, b->one, b->k, 1, &other, &diag);
    if (status == INLAY_OK) {
        status = bench_run(&other, &how, &r, &diag);
        bench_result_deinit(&r);
        bench_close(&other);
    }
    loaded_destroy(&again);
    check_phase(t->c, "the checker");
    if (status != INLAY_OK)
        check_fail(t->c, "loss", t->p->name, "that a provider that is opened anew runs, after 'device lost'",
                   "keep what a loss leaves in the state, which destroy ends", "'%s': %.300s",
                   inlay_status_text(status), diag.text);
    else
        check_pass(t->c, "loss", t->p->name,
                   "after 'device lost' calls come back, and a provider that is opened anew "
                   "runs; nothing more of this one is checked");
}

/* A run, its fault told. False: there is nothing to compare. */
static bool run(struct tally *t, const struct bench *b, const bench_how *how, bench_result *r, const char *what)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    char got[700];
    inlay_status status = bench_run(b, how, r, &diag);

    if (status == INLAY_DEVICE_LOST) {
        if (!t->lost)
            check_loss(t, b);
        return false;
    }
    if (status != INLAY_OK && r->fault[0] == '\0') {
        (void)snprintf(got, sizeof got, "%s: execute returned '%s': %.300s", what, inlay_status_text(status),
                       diag.text);
        complain(t, b->k, "that a case that was offered, compiled and specialised runs",
                 "refuse in assess (kit: supports) what cannot be run", got);
        return false;
    }
    if (r->fault[0] != '\0') {
        (void)snprintf(got, sizeof got, "%s: %s", what, r->fault);
        complain(t, b->k, "that the contract of execute is kept", r->fault_fix, got);
    }
    return status == INLAY_OK && r->fault[0] == '\0';
}

/* ------------------------------------------------------------------ against itself */

static void compare_variant(struct tally *t, const struct bench *b, const bench_how *how, const bench_result *want,
                            const char *what, const char *fix)
{
    bench_result r;
    char text[400], got[500];

    if (t->lost)
        return;
    if (run(t, b, how, &r, what)) {
        t->variants++;
        if (!b->k->random && !agree(&r, want, text, sizeof text)) {
            (void)snprintf(got, sizeof got, "%s: %s", what, text);
            complain(t, b->k, "the result of the first run", fix, got);
        }
    }
    bench_result_deinit(&r);
}

typedef struct other_run {
    const struct bench *b;
    bench_result result;
    inlay_diag diag;
    inlay_status status;
} other_run;

static void *run_beside(void *user)
{
    static const bench_how how = { .silent = true };
    other_run *o = user;

    o->status = bench_run(o->b, &how, &o->result, &o->diag);
    return NULL;
}

/* Two contexts share what was compiled and specialised; each brings its own workspace. */
static void run_concurrently(struct tally *t, const struct bench *b, const bench_result *want)
{
    other_run o[2] = { { .b = b, .diag = INLAY_DIAG_INIT }, { .b = b, .diag = INLAY_DIAG_INIT } };
    pthread_t threads[2];
    char text[400];
    int started = 0;
    bool gone = false;

    if (t->lost)
        return;
    check_phase(t->c, "execute in two threads at once");
    while (started < 2 && pthread_create(&threads[started], NULL, run_beside, &o[started]) == 0)
        started++;
    for (int i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
    check_phase(t->c, "the checker");
    for (int i = 0; i < started; i++) {
        if (o[i].status == INLAY_DEVICE_LOST)
            gone = true;
        else if (o[i].status != INLAY_OK)
            complain(t, b->k, "that two threads can run it at once",
                     "keep what a run changes in its workspace, not in the state", o[i].diag.text);
        else if (!b->k->random && !agree(&o[i].result, want, text, sizeof text))
            complain(t, b->k, "the same results in two threads at once",
                     "keep what a run changes in its workspace, not in the state", text);
        bench_result_deinit(&o[i].result);
    }
    if (gone)
        check_loss(t, b);
}

/* Behind copies that are not done, and behind one that fails; then once more, as if nothing had been. */
static void compare_queued(struct tally *t, const struct bench *b, const bench_result *want)
{
    static const inlay_status poisons[] = { INLAY_CANCELLED, INLAY_DEVICE_LOST };
    const bench_how queued = { .queued = true }, again = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    bench_result r;
    char got[600];
    inlay_status status;
    bool on_device = false;

    for (uint32_t i = 0; i < b->one->input_count; i++)
        on_device |= b->in_domains[i] != INLAY_DOMAIN_HOST && b->k->in[b->one->input_of[i]].bytes > 0;
    if (!on_device || t->lost || (t->p->table->flags & INLAY_PROVIDER_ASYNC) == 0)
        return;
    compare_variant(t, b, &queued, want, "while its inputs are still being copied",
                    "wait for args->waits before the work starts, in buffer_copy as in execute, and signal when it is "
                    "done");
    if (t->concurrent)
        return;
    for (int i = 0; i < 2; i++) {
        const bench_how poisoned = { .queued = true, .poison = poisons[i] };

        check_phase(t->c, "execute behind a fence that fails");
        status = bench_run(b, &poisoned, &r, &diag);
        check_phase(t->c, "the checker");
        bench_result_deinit(&r);
        if (status == poisons[i])
            continue;
        if (status == INLAY_DEVICE_LOST) {
            check_loss(t, b);
            return;
        }
        (void)snprintf(got, sizeof got, "behind a fence that failed with '%s': '%s' %.400s",
                       inlay_status_text(poisons[i]), inlay_status_text(status), diag.text);
        complain(t, b->k, "the status of the fence that it waited for",
                 "pass what fence_wait returns on to fence_signal, and leave the work out", got);
    }
    compare_variant(t, b, &again, want, "after a run that failed", "leave no trace of a run in the state");
}

static void compare_with_itself(struct tally *t, const struct bench *b, const bench_result *want)
{
    const bench_how tight = { .tight = true, .fill = FILL }, again = { 0 }, in_place = { .in_place = true };
    bool aliased = false;

    compare_variant(t, b, &tight, want,
                    "with a user's buffers, aligned to their elements only, and a workspace "
                    "that is not cleared",
                    "use unaligned loads for inputs and outputs; clear what has to be zero");
    compare_variant(t, b, &again, want, "the second time", "leave no trace of a run in the state");
    for (uint32_t o = 0; o < b->one->output_count; o++)
        aliased |= b->plans[o].alias != INLAY_NONE;
    if (aliased)
        compare_variant(t, b, &in_place, want, "in place, in the buffer that the plan says may be shared",
                        "drop the alias (kit: KIT_IN_PLACE), or read an element before its place is written");
    compare_queued(t, b, want);
    if (!t->concurrent && b->one->output_count > 0)
        run_concurrently(t, b, want);
    t->concurrent = true;
}

static void compare_workers(struct tally *t, const op_case *k, const case_one *one, const bench_result *want,
                            uint32_t workers)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    const bench_how how = { 0 };
    struct bench b;

    if (t->lost)
        return;
    if (bench_open(t->c, t->p, one, k, workers, &b, &diag) != INLAY_OK) {
        complain(t, k, "that it compiles for more threads too", "do not depend on max_threads being 1", diag.text);
        return;
    }
    for (int again = 0; again < (t->large && !t->c->args->quick ? 2 : 1); again++)
        compare_variant(t, &b, &how, want,
                        workers == 2   ? "with 2 threads"
                        : workers == 4 ? "with 4 threads"
                                       : "with 16 threads",
                        "let ranges of a parallel loop not share what they write, and take scratch by worker");
    bench_close(&b);
}

/* More threads than CPUs, too: which range is done when is up to the scheduler then. */
static void compare_threads(struct tally *t, const op_case *k, const case_one *one, const bench_result *want)
{
    compare_workers(t, k, one, want, 2);
    if (t->large || !t->c->args->quick)
        compare_workers(t, k, one, want, 4);
    if (!t->c->args->quick) /* more threads than CPUs wait for each other: seconds */
        compare_workers(t, k, one, want, 16);
}

/* ------------------------------------------------------------------ against others */

/* The first peer that runs the case. */
static bool run_peer(struct tally *t, const op_case *k, const case_one *one, bench_result *r)
{
    const bench_how how = { 0 };

    for (uint32_t i = 0; i < t->w->peer_count; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_status status;
        struct bench b;

        check_phase(t->c, "the provider that is compared with");
        if (bench_open(t->c, &t->w->peers[i], one, k, 1, &b, &diag) != INLAY_OK)
            continue;
        status = bench_run(&b, &how, r, &diag);
        bench_close(&b);
        if (status == INLAY_OK)
            return true;
        bench_result_deinit(r);
    }
    return false;
}

static void note_heap(struct tally *t, const op_case *k, const bench_result *r)
{
    char text[200], at[64];

    if (r->heap_calls == 0)
        return;
    if (t->heap_cases++ == 0) {
        heap_blame(at, sizeof at);
        (void)snprintf(t->heap_at, sizeof t->heap_at, "%s: %llu calls a run%s%s", case_text(k, text, sizeof text),
                       (unsigned long long)r->heap_calls, at[0] != '\0' ? ", one at " : "", at);
    }
}

/* One run on one thread, that of the caller: whoever is there afterwards was started by the plugin. */
static bool run_first(struct tally *t, const struct bench *b, bench_result *first)
{
    const bench_how how = { 0 };
    int threads = t->threads_told ? -1 : process_snapshot_threads(), more;
    bool ran = run(t, b, &how, first, "one thread");

    more = threads < 0 ? 0 : process_snapshot_threads() - threads;
    if (more > 0 && t->p->table->domain_count > 0)
        check_warn(t->c, "manners", t->subject, "no thread that outlives a run of one thread",
                   "see that it is the driver's, which starts some when it likes, and not the plugin's",
                   "%d more after execute", more);
    else if (more > 0)
        check_fail(t->c, "manners", t->subject, "no thread that outlives a run of one thread",
                   "start threads in create and join them in destroy; inlay_host.parallel_for has the host's",
                   "%d more after execute", more);
    else if (!t->threads_told && first->threads > 0)
        check_warn(t->c, "manners", t->subject, "no thread that a run starts",
                   "start threads in create, or use inlay_host.parallel_for: starting one takes longer than most "
                   "kernels",
                   "%llu started in one execute", (unsigned long long)first->threads);
    t->threads_told |= more > 0 || first->threads > 0;
    return ran;
}

static void try_offered(struct tally *t, const op_case *k, const case_one *one, bool legal, const bench_result *want)
{
    const bench_how how = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    bench_result first;
    struct bench b;
    char text[400];
    inlay_status status = bench_open(t->c, t->p, one, k, 1, &b, &diag);

    if (status != INLAY_OK) {
        if (strcmp(b.phase, "assess") != 0 && legal) {
            (void)snprintf(text, sizeof text, "%s returned '%s': %.300s", b.phase, inlay_status_text(status),
                           diag.text);
            complain(t, k, "that what was offered can be compiled and specialised",
                     "refuse in assess (kit: supports) what cannot be run", text);
        }
        return;
    }
    t->cases++;
    heap_mark();
    /* Where no peer ran it nobody knows whether it should run: elements may be out of range. */
    if (!legal) {
        status = bench_run(&b, &how, &first, &diag);
        bench_result_deinit(&first);
    }
    if (status == INLAY_OK && run_first(t, &b, &first)) {
        note_heap(t, k, &first);
        if (want != NULL && !k->random) {
            t->compared++;
            if (!agree(&first, want, text, sizeof text))
                complain(t, k, "what the other provider computes",
                         "see the operator's page in ONNX for the corner at hand", text);
        }
        compare_with_itself(t, &b, &first);
        compare_threads(t, k, one, &first);
    }
    bench_result_deinit(&first);
    bench_close(&b);
}

static bool try_case(void *user, op_case *k)
{
    struct tally *t = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    bench_result want = { .out_count = 0 };
    bench_answer answer;
    case_one one;
    char text[256];
    bool has_want;

    check_subject(t->c, "%s", case_text(k, text, sizeof text));
    if (t->lost)
        return false;
    if (case_graph(k, &t->w->operators, CASE_SIZES, &one, &diag) != INLAY_OK)
        return true; /* no model would come this far */
    check_phase(t->c, "assess");
    bench_assess(t->p, &one, &answer);
    if (answer.kind == BENCH_OFFERED) {
        has_want = run_peer(t, k, &one, &want);
        try_offered(t, k, &one, has_want, has_want ? &want : NULL);
        if (has_want)
            bench_result_deinit(&want);
    }
    case_one_deinit(&one);
    if (t->large && answer.kind == BENCH_OFFERED)
        t->large_cases++;
    return t->complaints < 8 && (!t->large || t->large_cases < (t->c->args->quick ? LARGE_CASES_QUICK : LARGE_CASES));
}

static bool try_source(void *user, const case_source *source)
{
    struct tally *t = user;
    const case_range range = { .seed = t->c->args->seed, .scale = 1, .quick = t->c->args->quick };

    const case_range large = {
        .seed = t->c->args->seed, .scale = t->c->args->quick ? QUICK_SCALE : LARGE_SCALE, .quick = true, .scaled = true
    };
    char changed[600];
    process_snapshot before;

    t->source = source;
    t->sources++;
    (void)snprintf(t->subject, sizeof t->subject, "%s-%lld", source->op_type, (long long)source->opset);
    t->cases = t->compared = t->complaints = t->heap_cases = t->variants = 0;
    t->concurrent = t->large = t->threads_told = false;
    t->large_cases = 0;
    if (!check_unit(t->c, "%s", t->subject))
        return true;
    before = process_snapshot_take();
    generate_cases(source, &range, try_case, t);
    t->large = true;
    if (t->cases > 0)
        generate_cases(source, &large, try_case, t);
    t->large = false;
    if (process_snapshot_compare(&before, changed, sizeof changed) > 0)
        check_fail(t->c, "manners", t->subject, "what a plugin leaves alone as it was",
                   "see \"What a plugin leaves alone\" in inlay/plugin.h; inlay_host.log is for words", "%s", changed);
    if (t->complaints > MAX_COMPLAINTS)
        check_fail(t->c, "results", t->subject, "agreement", "see the lines above", "%u further complaints",
                   t->complaints - MAX_COMPLAINTS);
    else if (t->complaints == 0 && t->cases > 0)
        check_pass(t->c, "results", t->subject,
                   "%u cases, %u compared with another provider, %u runs in other memory, "
                   "threads and order",
                   t->cases, t->compared, t->variants);
    else if (source->own != NULL && t->cases == 0 && t->complaints == 0 && t->w->own_count == 1)
        check_warn(t->c, "results", t->subject, "a case that the plugin's own provider runs",
                   "add an inlay_op_example: cases of other sizes are made of it",
                   "no shape that was tried is offered, so nothing of it was checked");
    if (t->heap_cases > 0)
        check_warn(t->c, "heap", t->subject, "no heap use in execute",
                   "ask for workspace in specialize (kit: kit_plan.workspace_bytes); addr2line names the place",
                   "%u of %u cases, first %s", t->heap_cases, t->cases, t->heap_at);
    return true;
}

/* ONNX's own cases, from the folder that the user named. */
static bool try_data(void *user, op_case *k)
{
    struct tally *t = user;
    char text[256];

    if (check_unit(t->c, "%s", case_text(k, text, sizeof text))) {
        t->concurrent = false;
        (void)try_case(t, k);
    }
    return true;
}

static void try_folder(struct tally *t, const char *dir)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t count;

    t->cases = t->compared = t->complaints = t->heap_cases = t->variants = 0;
    if (data_cases(dir, t->c->args->op, try_data, t, &count, &diag) != INLAY_OK)
        check_fail(t->c, "results", dir, "ONNX test cases", "name a folder with model.onnx and test_data_set_*", "%s",
                   diag.text);
    else if (t->complaints == 0)
        check_pass(t->c, "results", dir,
                   "%u of its %u cases of one operator are offered, %u compared with another "
                   "provider",
                   t->cases, count, t->compared);
}

void check_group_results(struct check *c)
{
    const inlay_operator *custom[64];
    uint32_t custom_count;
    struct world w;

    if (!world_open(c, "results", true, &w))
        return;
    if (w.peer_count == 0 && !w.is_reference && w.own_count > 0)
        check_skip(c, "results", "peers",
                   "there is no reference provider beside this executable and no --with: what "
                   "comes out is compared with nothing but itself");
    (void)heap_watch(w.plugins[0].handle);
    custom_count = world_operators(&w, custom, 64);
    for (uint32_t i = 0; i < w.own_count; i++) {
        struct tally t = { .c = c, .w = &w, .p = &w.own[i] };

        generate_sources(custom, custom_count, c->args->op, c->args->quick, try_source, &t);
        if (t.sources == 0)
            check_fail(c, "results", t.p->name, "an operator that --op names", "give a glob on types, such as 'Conv*'",
                       "no operator's type matches '%s'", c->args->op);
        if (c->args->data != NULL)
            try_folder(&t, c->args->data);
    }
    world_close(&w);
}
