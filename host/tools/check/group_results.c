/* Every operator that a provider offers, in many shapes and types, against a peer; and against itself: in other memory,
 * with other threads, again, in two threads at once. */
#include "check/compare_results.h"
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
    struct check *check;
    const struct fixture *fixture;
    const loaded_provider *provider;
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
    bool lost;             /* the device went, and that was looked at */
    bool threads_reported; /* of threads that a run starts */
};

/* What n stands for in large cases: tensors of a hundred thousand elements, and one or two of a kind. */
enum { LARGE_SCALE = 24, QUICK_SCALE = 6, LARGE_CASES = 2, LARGE_CASES_QUICK = 1 };

static void complain(struct tally *tally, const op_case *entry, const char *expected, const char *fix, const char *got)
{
    char text[256];

    if (tally->complaints++ < MAX_COMPLAINTS)
        check_fail(tally->check, "results", case_text(entry, text, sizeof text), expected, fix, "%s", got);
}

/* The device is lost: what is called on it still comes back, and once it is closed it can be opened again. */
static void check_loss(struct tally *tally, const struct harness *harness)
{
    const uint32_t index = (uint32_t)(tally->provider->table - tally->provider->plugin->providers);
    const harness_options how = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    loaded_provider again = { .state = NULL };
    harness_result result;
    struct harness other;
    inlay_status status;

    tally->lost = true;
    check_phase(tally->check, "execute on a device that is lost");
    (void)!harness_run(harness, &how, &result, &diag);
    harness_result_deinit(&result);
    check_phase(tally->check, "create, for a device that was lost");
    status = loaded_create(tally->provider->plugin, index, tally->check->args, &again, &diag);
    if (status == INLAY_OK)
        status = harness_open(tally->check, &again, harness->built, harness->entry, 1, &other, &diag);
    if (status == INLAY_OK) {
        status = harness_run(&other, &how, &result, &diag);
        harness_result_deinit(&result);
        harness_close(&other);
    }
    loaded_destroy(&again);
    check_phase(tally->check, "the checker");
    if (status != INLAY_OK)
        check_fail(tally->check, "loss", tally->provider->name,
                   "that a provider that is opened anew runs, after 'device lost'",
                   "keep what a loss leaves in the state, which destroy ends", "'%s': %.300s",
                   inlay_status_text(status), diag.text);
    else
        check_pass(tally->check, "loss", tally->provider->name,
                   "after 'device lost' calls come back, and a provider that is opened anew "
                   "runs; nothing more of this one is checked");
}

/* A run, its fault told. False: there is nothing to compare. */
static bool run(struct tally *tally, const struct harness *harness, const harness_options *how, harness_result *result,
                const char *what)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    char got[700];
    inlay_status status = harness_run(harness, how, result, &diag);

    if (status == INLAY_DEVICE_LOST) {
        if (!tally->lost)
            check_loss(tally, harness);
        return false;
    }
    if (status != INLAY_OK && result->fault[0] == '\0') {
        (void)snprintf(got, sizeof got, "%s: execute returned '%s': %.300s", what, inlay_status_text(status),
                       diag.text);
        complain(tally, harness->entry, "that a case that was offered, compiled and specialised runs",
                 "refuse in assess (kit: supports) what cannot be run", got);
        return false;
    }
    if (result->fault[0] != '\0') {
        (void)snprintf(got, sizeof got, "%s: %s", what, result->fault);
        complain(tally, harness->entry, "that the contract of execute is kept", result->fault_fix, got);
    }
    return status == INLAY_OK && result->fault[0] == '\0';
}

/* ------------------------------------------------------------------ against itself */

static void compare_variant(struct tally *tally, const struct harness *harness, const harness_options *how,
                            const harness_result *want, const char *what, const char *fix)
{
    harness_result result;
    char text[400], got[500];

    if (tally->lost)
        return;
    if (run(tally, harness, how, &result, what)) {
        tally->variants++;
        if (!harness->entry->random && !compare_results(&result, want, text, sizeof text)) {
            (void)snprintf(got, sizeof got, "%s: %s", what, text);
            complain(tally, harness->entry, "the result of the first run", fix, got);
        }
    }
    harness_result_deinit(&result);
}

typedef struct other_run {
    const struct harness *harness;
    harness_result result;
    inlay_diag diag;
    inlay_status status;
} other_run;

static void *run_in_thread(void *user)
{
    static const harness_options how = { .silent = true };
    other_run *run = user;

    run->status = harness_run(run->harness, &how, &run->result, &run->diag);
    return NULL;
}

/* Two contexts share what was compiled and specialised; each brings its own workspace. */
static void run_concurrently(struct tally *tally, const struct harness *harness, const harness_result *want)
{
    other_run run[2] = { { .harness = harness, .diag = INLAY_DIAG_INIT },
                         { .harness = harness, .diag = INLAY_DIAG_INIT } };
    pthread_t threads[2];
    char text[400];
    int started = 0;
    bool gone = false;

    if (tally->lost)
        return;
    check_phase(tally->check, "execute in two threads at once");
    while (started < 2 && pthread_create(&threads[started], NULL, run_in_thread, &run[started]) == 0)
        started++;
    for (int i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
    check_phase(tally->check, "the checker");
    for (int i = 0; i < started; i++) {
        if (run[i].status == INLAY_DEVICE_LOST)
            gone = true;
        else if (run[i].status != INLAY_OK)
            complain(tally, harness->entry, "that two threads can run it at once",
                     "keep what a run changes in its workspace, not in the state", run[i].diag.text);
        else if (!harness->entry->random && !compare_results(&run[i].result, want, text, sizeof text))
            complain(tally, harness->entry, "the same results in two threads at once",
                     "keep what a run changes in its workspace, not in the state", text);
        harness_result_deinit(&run[i].result);
    }
    if (gone)
        check_loss(tally, harness);
}

/* Behind copies that are not done, and behind one that fails; then once more, as if nothing had been. */
static void compare_queued(struct tally *tally, const struct harness *harness, const harness_result *want)
{
    static const inlay_status poisons[] = { INLAY_CANCELLED, INLAY_DEVICE_LOST };
    const harness_options queued = { .queued = true }, again = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result result;
    char got[600];
    inlay_status status;
    bool on_device = false;

    for (uint32_t i = 0; i < harness->built->input_count; i++)
        on_device |=
            harness->in_domains[i] != INLAY_DOMAIN_HOST && harness->entry->in[harness->built->input_of[i]].bytes > 0;
    if (!on_device || tally->lost || (tally->provider->table->flags & INLAY_PROVIDER_ASYNC) == 0)
        return;
    compare_variant(tally, harness, &queued, want, "while its inputs are still being copied",
                    "wait for args->waits before the work starts, in buffer_copy as in execute, and signal when it is "
                    "done");
    if (tally->concurrent)
        return;
    for (int i = 0; i < 2; i++) {
        const harness_options poisoned = { .queued = true, .poison = poisons[i] };

        check_phase(tally->check, "execute behind a fence that fails");
        status = harness_run(harness, &poisoned, &result, &diag);
        check_phase(tally->check, "the checker");
        harness_result_deinit(&result);
        if (status == poisons[i])
            continue;
        if (status == INLAY_DEVICE_LOST) {
            check_loss(tally, harness);
            return;
        }
        (void)snprintf(got, sizeof got, "behind a fence that failed with '%s': '%s' %.400s",
                       inlay_status_text(poisons[i]), inlay_status_text(status), diag.text);
        complain(tally, harness->entry, "the status of the fence that it waited for",
                 "pass what fence_wait returns on to fence_signal, and leave the work out", got);
    }
    compare_variant(tally, harness, &again, want, "after a run that failed", "leave no trace of a run in the state");
}

static void compare_with_itself(struct tally *tally, const struct harness *harness, const harness_result *want)
{
    const harness_options tight = { .tight = true, .fill = FILL }, again = { 0 }, in_place = { .in_place = true };
    bool aliased = false;

    compare_variant(tally, harness, &tight, want,
                    "with a user's buffers, aligned to their elements only, and a workspace "
                    "that is not cleared",
                    "use unaligned loads for inputs and outputs; clear what has to be zero");
    compare_variant(tally, harness, &again, want, "the second time", "leave no trace of a run in the state");
    for (uint32_t o = 0; o < harness->built->output_count; o++)
        aliased |= harness->plans[o].alias != INLAY_NONE;
    if (aliased)
        compare_variant(tally, harness, &in_place, want, "in place, in the buffer that the plan says may be shared",
                        "drop the alias (kit: KIT_IN_PLACE), or read an element before its place is written");
    compare_queued(tally, harness, want);
    if (!tally->concurrent && harness->built->output_count > 0)
        run_concurrently(tally, harness, want);
    tally->concurrent = true;
}

static void compare_workers(struct tally *tally, const op_case *entry, const case_instance *built,
                            const harness_result *want, uint32_t workers)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    const harness_options how = { 0 };
    struct harness harness;

    if (tally->lost)
        return;
    if (harness_open(tally->check, tally->provider, built, entry, workers, &harness, &diag) != INLAY_OK) {
        complain(tally, entry, "that it compiles for more threads too", "do not depend on max_threads being 1",
                 diag.text);
        return;
    }
    for (int again = 0; again < (tally->large && !tally->check->args->quick ? 2 : 1); again++)
        compare_variant(tally, &harness, &how, want,
                        workers == 2   ? "with 2 threads"
                        : workers == 4 ? "with 4 threads"
                                       : "with 16 threads",
                        "let ranges of a parallel loop not share what they write, and take scratch by worker");
    harness_close(&harness);
}

/* More threads than CPUs, too: which range is done when is up to the scheduler then. */
static void compare_threads(struct tally *tally, const op_case *entry, const case_instance *built,
                            const harness_result *want)
{
    compare_workers(tally, entry, built, want, 2);
    if (tally->large || !tally->check->args->quick)
        compare_workers(tally, entry, built, want, 4);
    if (!tally->check->args->quick) /* more threads than CPUs wait for each other: seconds */
        compare_workers(tally, entry, built, want, 16);
}

/* ------------------------------------------------------------------ against others */

/* The first peer that runs the case. */
static bool run_peer(struct tally *tally, const op_case *entry, const case_instance *built, harness_result *result)
{
    const harness_options how = { 0 };

    for (uint32_t i = 0; i < tally->fixture->peer_count; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_status status;
        struct harness harness;

        check_phase(tally->check, "the provider that is compared with");
        if (harness_open(tally->check, &tally->fixture->peers[i], built, entry, 1, &harness, &diag) != INLAY_OK)
            continue;
        status = harness_run(&harness, &how, result, &diag);
        harness_close(&harness);
        if (status == INLAY_OK)
            return true;
        harness_result_deinit(result);
    }
    return false;
}

static void note_heap(struct tally *tally, const op_case *entry, const harness_result *result)
{
    char text[200], at[64];

    if (result->heap_calls == 0)
        return;
    if (tally->heap_cases++ == 0) {
        heap_main_caller(at, sizeof at);
        (void)snprintf(tally->heap_at, sizeof tally->heap_at, "%s: %llu calls a run%s%s",
                       case_text(entry, text, sizeof text), (unsigned long long)result->heap_calls,
                       at[0] != '\0' ? ", one at " : "", at);
    }
}

/* One run on one thread, that of the caller: whoever is there afterwards was started by the plugin. */
static bool run_first(struct tally *tally, const struct harness *harness, harness_result *first)
{
    const harness_options how = { 0 };
    int threads = tally->threads_reported ? -1 : process_snapshot_threads(), more;
    bool ran = run(tally, harness, &how, first, "one thread");

    more = threads < 0 ? 0 : process_snapshot_threads() - threads;
    if (more > 0 && tally->provider->table->domain_count > 0)
        check_warn(tally->check, "process", tally->subject, "no thread that outlives a run of one thread",
                   "see that it is the driver's, which starts some when it likes, and not the plugin's",
                   "%d more after execute", more);
    else if (more > 0)
        check_fail(tally->check, "process", tally->subject, "no thread that outlives a run of one thread",
                   "start threads in create and join them in destroy; inlay_host.parallel_for has the host's",
                   "%d more after execute", more);
    else if (!tally->threads_reported && first->threads > 0)
        check_warn(tally->check, "process", tally->subject, "no thread that a run starts",
                   "start threads in create, or use inlay_host.parallel_for: starting one takes longer than most "
                   "kernels",
                   "%llu started in one execute", (unsigned long long)first->threads);
    tally->threads_reported |= more > 0 || first->threads > 0;
    return ran;
}

static void try_offered(struct tally *tally, const op_case *entry, const case_instance *built, bool legal,
                        const harness_result *want)
{
    const harness_options how = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result first;
    struct harness harness;
    char text[400];
    inlay_status status = harness_open(tally->check, tally->provider, built, entry, 1, &harness, &diag);

    if (status != INLAY_OK) {
        if (strcmp(harness.phase, "assess") != 0 && legal) {
            (void)snprintf(text, sizeof text, "%s returned '%s': %.300s", harness.phase, inlay_status_text(status),
                           diag.text);
            complain(tally, entry, "that what was offered can be compiled and specialised",
                     "refuse in assess (kit: supports) what cannot be run", text);
        }
        return;
    }
    tally->cases++;
    heap_mark();
    /* Where no peer ran it nobody knows whether it should run: elements may be out of range. */
    if (!legal) {
        status = harness_run(&harness, &how, &first, &diag);
        harness_result_deinit(&first);
    }
    if (status == INLAY_OK && run_first(tally, &harness, &first)) {
        note_heap(tally, entry, &first);
        if (want != NULL && !entry->random) {
            tally->compared++;
            if (!compare_results(&first, want, text, sizeof text))
                complain(tally, entry, "what the other provider computes",
                         "see the operator's page in ONNX for the corner at hand", text);
        }
        compare_with_itself(tally, &harness, &first);
        compare_threads(tally, entry, built, &first);
    }
    harness_result_deinit(&first);
    harness_close(&harness);
}

static bool try_case(void *user, op_case *entry)
{
    struct tally *tally = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result want = { .out_count = 0 };
    harness_answer answer;
    case_instance built;
    char text[256];
    bool has_want;

    check_subject(tally->check, "%s", case_text(entry, text, sizeof text));
    if (tally->lost)
        return false;
    if (case_graph(entry, &tally->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return true; /* no model would come this far */
    check_phase(tally->check, "assess");
    harness_assess(tally->provider, &built, &answer);
    if (answer.kind == HARNESS_OFFERED) {
        has_want = run_peer(tally, entry, &built, &want);
        try_offered(tally, entry, &built, has_want, has_want ? &want : NULL);
        if (has_want)
            harness_result_deinit(&want);
    }
    case_instance_deinit(&built);
    if (tally->large && answer.kind == HARNESS_OFFERED)
        tally->large_cases++;
    return tally->complaints < 8 &&
           (!tally->large || tally->large_cases < (tally->check->args->quick ? LARGE_CASES_QUICK : LARGE_CASES));
}

static bool try_source(void *user, const case_source *source)
{
    struct tally *tally = user;
    const case_range range = { .seed = tally->check->args->seed, .scale = 1, .quick = tally->check->args->quick };

    const case_range large = { .seed = tally->check->args->seed,
                               .scale = tally->check->args->quick ? QUICK_SCALE : LARGE_SCALE,
                               .quick = true,
                               .scaled = true };
    char changed[600];
    process_snapshot before;

    tally->source = source;
    tally->sources++;
    (void)snprintf(tally->subject, sizeof tally->subject, "%s-%lld", source->op_type, (long long)source->opset);
    tally->cases = tally->compared = tally->complaints = tally->heap_cases = tally->variants = 0;
    tally->concurrent = tally->large = tally->threads_reported = false;
    tally->large_cases = 0;
    if (!check_unit(tally->check, "%s", tally->subject))
        return true;
    before = process_snapshot_take();
    generate_cases(source, &range, try_case, tally);
    tally->large = true;
    if (tally->cases > 0)
        generate_cases(source, &large, try_case, tally);
    tally->large = false;
    if (process_snapshot_compare(&before, changed, sizeof changed) > 0)
        check_fail(tally->check, "process", tally->subject, "what a plugin leaves alone as it was",
                   "see \"What a plugin leaves alone\" in inlay/plugin.h; inlay_host.log is for words", "%s", changed);
    if (tally->complaints > MAX_COMPLAINTS)
        check_fail(tally->check, "results", tally->subject, "agreement", "see the lines above", "%u further complaints",
                   tally->complaints - MAX_COMPLAINTS);
    else if (tally->complaints == 0 && tally->cases > 0)
        check_pass(tally->check, "results", tally->subject,
                   "%u cases, %u compared with another provider, %u runs in other memory, "
                   "threads and order",
                   tally->cases, tally->compared, tally->variants);
    else if (source->own != NULL && tally->cases == 0 && tally->complaints == 0 && tally->fixture->own_count == 1)
        check_warn(tally->check, "results", tally->subject, "a case that the plugin's own provider runs",
                   "add an inlay_op_example: cases of other sizes are made of it",
                   "no shape that was tried is offered, so nothing of it was checked");
    if (tally->heap_cases > 0)
        check_warn(tally->check, "heap", tally->subject, "no heap use in execute",
                   "ask for workspace in specialize (kit: kit_plan.workspace_bytes); addr2line names the place",
                   "%u of %u cases, first %s", tally->heap_cases, tally->cases, tally->heap_at);
    return true;
}

/* ONNX's own cases, from the folder that the user named. */
static bool try_data(void *user, op_case *entry)
{
    struct tally *tally = user;
    char text[256];

    if (check_unit(tally->check, "%s", case_text(entry, text, sizeof text))) {
        tally->concurrent = false;
        (void)try_case(tally, entry);
    }
    return true;
}

static void try_folder(struct tally *tally, const char *dir)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t count;

    tally->cases = tally->compared = tally->complaints = tally->heap_cases = tally->variants = 0;
    if (data_cases(dir, tally->check->args->op, try_data, tally, &count, &diag) != INLAY_OK)
        check_fail(tally->check, "results", dir, "ONNX test cases", "name a folder with model.onnx and test_data_set_*",
                   "%s", diag.text);
    else if (tally->complaints == 0)
        check_pass(tally->check, "results", dir,
                   "%u of its %u cases of one operator are offered, %u compared with another "
                   "provider",
                   tally->cases, count, tally->compared);
}

void check_group_results(struct check *check)
{
    const inlay_operator *custom[64];
    uint32_t custom_count;
    struct fixture fixture;

    if (!fixture_open(check, "results", true, &fixture))
        return;
    if (fixture.peer_count == 0 && !fixture.is_reference && fixture.own_count > 0)
        check_skip(check, "results", "peers",
                   "there is no reference provider beside this executable and no --with: what "
                   "comes out is compared with nothing but itself");
    (void)heap_watch(fixture.plugins[0].handle);
    custom_count = fixture_operators(&fixture, custom, 64);
    for (uint32_t i = 0; i < fixture.own_count; i++) {
        struct tally tally = { .check = check, .fixture = &fixture, .provider = &fixture.own[i] };

        generate_sources(custom, custom_count, check->args->op, check->args->quick, try_source, &tally);
        if (tally.sources == 0)
            check_fail(check, "results", tally.provider->name, "an operator that --op names",
                       "give a glob on types, such as 'Conv*'", "no operator's type matches '%s'", check->args->op);
        if (check->args->data != NULL)
            try_folder(&tally, check->args->data);
    }
    fixture_close(&fixture);
}
