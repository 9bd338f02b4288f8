/* Compares the results of every offered operator, in many shapes and types, with the results of another provider and of
 * further runs: in other memory, with more threads, repeated, on two threads concurrently. */
#include "check/certify.h"
#include "check/compare_results.h"
#include "check/concurrent.h"
#include "check/coverage.h"
#include "check/data.h"
#include "check/generate.h"
#include "check/host.h"
#include "check/peers.h"
#include "check/process.h"
#include "probe/process_snapshot.h"
#include "inlay/check.h"
#include <string.h>

enum { MAX_REPORTED_FAILURES = 2, MOST_WORKERS = 16, FILL = 0xff }; /* 0xff...: NaN in every float type */

/* Results of the checks of one operator so far. */
struct tally {
    struct check *check;
    const struct fixture *fixture;
    const loaded_provider *provider;
    const case_source *source;
    char subject[160];
    uint32_t sources;  /* operators that match --op */
    uint32_t cases;    /* cases of the current operator that the provider offered and ran */
    uint32_t compared; /* of these, compared with another provider */
    uint32_t declined; /* cases whose offer compile or specialize took back */
    uint32_t failures;
    double distance;     /* largest difference of the results of the current case */
    uint32_t heap_cases; /* cases that called malloc in execute */
    bool heap_of_data;   /* in one of them, the size of an output depends on data */
    char heap_at[300];   /* description of the first of them */
    uint32_t variants;   /* further runs */
    bool concurrent;     /* run_concurrently() was called for the operator */
    bool large;          /* the current case is a large one */
    uint32_t large_cases;
    bool lost;             /* the device was lost, and check_loss() was called */
    bool blocked_reported; /* a line about an execute that waits was written */
    bool threads_reported; /* a line about threads started by a run was written */
    struct coverage coverage;
};

/* Value of n in large cases (tensors of about a hundred thousand elements), and their number for each operator. */
enum { LARGE_SCALE = 24, QUICK_SCALE = 6, LARGE_CASES = 2, LARGE_CASES_QUICK = 1 };

static void report_failure(struct tally *tally, const op_case *entry, const char *expected, const char *fix,
                           const char *got)
{
    char text[256];

    if (tally->failures++ < MAX_REPORTED_FAILURES)
        check_fail(tally->check, "results", case_text(entry, text, sizeof text), expected, fix, "%s", got);
}

/* After the loss of the device, calls must still return, and a new provider must run the case. */
static void check_loss(struct tally *tally, const struct harness *harness)
{
    const uint32_t index = (uint32_t)(tally->provider->table - tally->provider->plugin->providers);
    const harness_options options = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    loaded_provider again = { .state = NULL };
    harness_result result;
    struct harness other;
    inlay_status status;

    INLAY_CHECK(index < tally->provider->plugin->table.provider_count);
    tally->lost = true;
    check_phase(tally->check, "execute on a device that is lost");
    (void)!harness_run(harness, &options, &result, &diag);
    harness_result_deinit(&result);
    check_phase(tally->check, "create, for a device that was lost");
    status = loaded_create(tally->provider->plugin, index, tally->check->args, &again, &diag);
    if (status == INLAY_OK)
        status = harness_open(tally->check, &again, harness->built, harness->entry, 1, &other, &diag);
    if (status == INLAY_OK) {
        status = harness_run(&other, &options, &result, &diag);
        harness_result_deinit(&result);
        harness_close(&other);
    }
    loaded_destroy(&again);
    check_phase(tally->check, "the checker");
    if (status != INLAY_OK)
        check_fail(tally->check, "loss", tally->provider->name, "a newly created provider runs after 'device lost'",
                   "keep data about a loss in the state only, which destroy frees", "'%s': %.300s",
                   inlay_status_text(status), diag.text);
    else
        check_pass(tally->check, "loss", tally->provider->name,
                   "after 'device lost' calls return, and a newly created provider "
                   "runs; the other checks of this provider are skipped");
}

/* Runs the case and reports a violation of the contract. False: no results to compare. */
static bool run(struct tally *tally, const struct harness *harness, const harness_options *options,
                harness_result *result, const char *what)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    char got[700];
    inlay_status status = harness_run(harness, options, result, &diag);

    if (status == INLAY_DEVICE_LOST) {
        if (!tally->lost)
            check_loss(tally, harness);
        return false;
    }
    if (status != INLAY_OK && result->fault[0] == '\0') {
        (void)snprintf(got, sizeof got, "%s: execute returned '%s': %.300s", what, inlay_status_text(status),
                       diag.text);
        report_failure(tally, harness->entry, "execute runs each case that was offered, compiled and specialised",
                       "refuse in assess (kit: supports) what cannot be run", got);
        return false;
    }
    if (result->blocked && !tally->blocked_reported) {
        tally->blocked_reported = true;
        check_warn(tally->check, "results", tally->subject, "an asynchronous provider whose execute does not block",
                   "queue the work, and wait for its fences there",
                   "%s: execute returned only when the fences were reached", what);
    }
    if (result->fault[0] != '\0') {
        (void)snprintf(got, sizeof got, "%s: %s", what, result->fault);
        report_failure(tally, harness->entry, "the contract of execute is kept", result->fault_fix, got);
    }
    return status == INLAY_OK && result->fault[0] == '\0';
}

static void compare_variant(struct tally *tally, const struct harness *harness, const harness_options *options,
                            const harness_result *want, const char *what, const char *fix)
{
    harness_result result;
    char text[400], got[500];

    if (tally->lost)
        return;
    if (run(tally, harness, options, &result, what)) {
        tally->variants++;
        if (!harness->entry->random && !compare_results(&result, want, text, sizeof text)) {
            (void)snprintf(got, sizeof got, "%s: %s", what, text);
            report_failure(tally, harness->entry, "the result of the first run", fix, got);
        }
    }
    harness_result_deinit(&result);
}

/* Two threads run the same compiled instance, each with a separate workspace. */
static void run_concurrently(struct tally *tally, const struct harness *harness, const harness_result *want)
{
    concurrent_run run[CONCURRENT_RUNS];
    uint32_t started;
    char text[400];
    bool gone = false;

    if (tally->lost || (tally->provider->table->flags & INLAY_PROVIDER_SERIAL_EXECUTE) != 0)
        return;
    started = concurrent_runs(harness, run);
    for (uint32_t i = 0; i < started; i++) {
        if (run[i].status == INLAY_DEVICE_LOST)
            gone = true;
        else if (run[i].status != INLAY_OK)
            report_failure(tally, harness->entry, "two threads can run it concurrently",
                           "keep mutable data of a run in its workspace, not in the state", run[i].diag.text);
        else if (!harness->entry->random && !compare_results(&run[i].result, want, text, sizeof text))
            report_failure(tally, harness->entry, "the same results on two threads concurrently",
                           "keep mutable data of a run in its workspace, not in the state", text);
        harness_result_deinit(&run[i].result);
    }
    if (gone)
        check_loss(tally, harness);
}

/* Runs while the inputs are still being copied, then with copies that fail, then normally again. */
static void compare_queued(struct tally *tally, const struct harness *harness, const harness_result *want)
{
    static const inlay_status poisons[] = { INLAY_CANCELLED, INLAY_DEVICE_LOST };
    const harness_options queued = { .queued = true }, again = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result result;
    char got[600];
    inlay_status status;
    bool has_elements = false;

    for (uint32_t i = 0; i < harness->built->input_count; i++)
        has_elements |= harness->entry->in[harness->built->input_of[i]].bytes > 0;
    if (!has_elements || tally->lost || (tally->provider->table->flags & INLAY_PROVIDER_ASYNC) == 0)
        return;
    compare_variant(tally, harness, &queued, want, "while its inputs are still being copied",
                    "wait for args->waits before the work starts, in buffer_copy as in execute, and signal when it is "
                    "done");
    if (tally->concurrent)
        return;
    for (int i = 0; i < 2; i++) {
        const harness_options poisoned = { .queued = true, .poison = poisons[i] };

        check_phase(tally->check, "execute after a fence that fails");
        status = harness_run(harness, &poisoned, &result, &diag);
        check_phase(tally->check, "the checker");
        harness_result_deinit(&result);
        if (status == poisons[i])
            continue;
        if (status == INLAY_DEVICE_LOST) {
            check_loss(tally, harness);
            return;
        }
        (void)snprintf(got, sizeof got, "after a fence that failed with '%s': '%s' %.400s",
                       inlay_status_text(poisons[i]), inlay_status_text(status), diag.text);
        report_failure(tally, harness->entry, "the status of the fence that it waited for",
                       "pass the status of fence_wait to fence_signal, and skip the work", got);
    }
    compare_variant(tally, harness, &again, want, "after a failed run", "do not keep data of a run in the state");
}

static void compare_with_itself(struct tally *tally, const struct harness *harness, const harness_result *want)
{
    const harness_options tight = { .tight = true, .fill = FILL }, again = { .unbound = true },
                          in_place = { .in_place = true };
    bool aliased = false;

    compare_variant(tally, harness, &tight, want,
                    "with buffers aligned to their elements only, and a workspace "
                    "that is not cleared",
                    "use unaligned loads for inputs and outputs; clear memory that must be zero");
    compare_variant(tally, harness, &again, want, "the second run, without a binding",
                    "do not keep data of a run in the state; execute without a binding, too");
    for (uint32_t o = 0; o < harness->built->output_count; o++)
        aliased |= harness->plans[o].alias != INLAY_NONE;
    if (aliased)
        compare_variant(tally, harness, &in_place, want, "in place, with the alias that the output plan allows",
                        "drop the alias (kit: KIT_IN_PLACE), or read each element before overwriting it");
    compare_queued(tally, harness, want);
    if (!tally->concurrent && harness->built->output_count > 0)
        run_concurrently(tally, harness, want);
    tally->concurrent = true;
}

static void compare_workers(struct tally *tally, const op_case *entry, const case_instance *built,
                            const harness_result *want, uint32_t workers)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    const harness_options options = { 0 };
    const bool quick = tally->check->args->quick;
    /* More threads than CPUs take seconds. */
    const int repeats = quick ? workers < MOST_WORKERS : tally->large ? 2 : 1;
    struct harness harness;

    INLAY_CHECK(workers == 2 || workers == 4 || workers == MOST_WORKERS);
    if (tally->lost)
        return;
    if (harness_open(tally->check, tally->provider, built, entry, workers, &harness, &diag) != INLAY_OK) {
        if (strcmp(harness.phase, "budget") != 0)
            report_failure(tally, entry, "the case compiles for several threads", "do not require max_threads to be 1",
                           diag.text);
        return;
    }
    if (workers == MOST_WORKERS) {
        check_host_scatter_loops(true);
        compare_variant(tally, &harness, &options, want, "with loops of 16 workers whose ranges end in another order",
                        "request scratch memory for inlay_specialize_request.max_threads workers, and let no range "
                        "depend on another");
        check_host_scatter_loops(false);
    }
    for (int again = 0; again < repeats; again++)
        compare_variant(tally, &harness, &options, want,
                        workers == 2   ? "with 2 threads"
                        : workers == 4 ? "with 4 threads"
                                       : "with 16 threads",
                        "write disjoint memory in the ranges of a parallel loop, and use scratch memory of the worker");
    harness_close(&harness);
}

/* Runs with several threads, also with more than there are CPUs, so that the scheduler determines the order of the
 * ranges. */
static void compare_threads(struct tally *tally, const op_case *entry, const case_instance *built,
                            const harness_result *want)
{
    compare_workers(tally, entry, built, want, 2);
    if (tally->large || !tally->check->args->quick)
        compare_workers(tally, entry, built, want, 4);
    if (tally->large || !tally->check->args->quick)
        compare_workers(tally, entry, built, want, MOST_WORKERS);
}

static void note_heap(struct tally *tally, const struct harness *harness, const harness_result *result)
{
    const op_case *entry = harness->entry;
    char text[200], at[64];

    if (result->heap_calls == 0)
        return;
    /* The workspace cannot be sized for data that is known in execute only. */
    for (uint32_t o = 0; o < harness->built->output_count; o++)
        tally->heap_of_data |= harness->plans[o].kind == INLAY_OUTPUT_ALLOCATED;
    if (tally->heap_cases++ == 0) {
        heap_main_caller(at, sizeof at);
        (void)snprintf(tally->heap_at, sizeof tally->heap_at, "%s: %llu calls a run%s%s",
                       case_text(entry, text, sizeof text), (unsigned long long)result->heap_calls,
                       at[0] != '\0' ? ", one at " : "", at);
    }
}

/* The first run, on the caller's thread only: threads that exist afterwards were started by the plugin. */
static bool run_first(struct tally *tally, const struct harness *harness, harness_result *first)
{
    const harness_options options = { 0 };
    int threads = tally->threads_reported ? -1 : process_snapshot_threads(), more;
    bool ran = run(tally, harness, &options, first, "one thread");

    more = process_snapshot_more_threads(threads);
    if (more > 0 && tally->provider->table->domain_count > 0)
        check_warn(tally->check, "process", tally->subject, "no thread that outlives a run of one thread",
                   "verify that the driver started it, not the plugin", "%d more after execute", more);
    else if (more > 0)
        check_fail(tally->check, "process", tally->subject, "no thread that outlives a run of one thread",
                   "start threads in create and join them in destroy, or use those of inlay_host.parallel_for",
                   "%d more after execute", more);
    else if (!tally->threads_reported && first->threads > 0)
        check_warn(tally->check, "process", tally->subject, "no thread started by a run",
                   "start threads in create, or use inlay_host.parallel_for: starting one takes longer than most "
                   "kernels",
                   "%llu started in one execute", (unsigned long long)first->threads);
    tally->threads_reported |= more > 0 || first->threads > 0;
    return ran;
}

static void try_offered(struct tally *tally, const op_case *entry, const case_instance *built, bool legal,
                        const harness_result *want)
{
    const harness_options options = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result first;
    struct harness harness;
    char text[400];
    inlay_status status = harness_open(tally->check, tally->provider, built, entry, 1, &harness, &diag);

    if (status == INLAY_UNSUPPORTED && strcmp(harness.phase, "assess") != 0) {
        tally->declined++; /* compile and specialize may take back an offer */
        return;
    }
    if (status != INLAY_OK) {
        if (strcmp(harness.phase, "assess") != 0 && strcmp(harness.phase, "budget") != 0 && legal) {
            (void)snprintf(text, sizeof text, "%s returned '%s': %.300s", harness.phase, inlay_status_text(status),
                           diag.text);
            report_failure(tally, entry, "an offered case can be compiled and specialised",
                           "refuse in assess (kit: supports) what cannot be run", text);
        }
        return;
    }
    tally->cases++;
    heap_mark();
    /* If no peer ran the case, it may be illegal, such as indices out of range: a failed run is not a defect then. */
    if (!legal) {
        status = harness_run(&harness, &options, &first, &diag);
        harness_result_deinit(&first);
    }
    if (status == INLAY_OK && run_first(tally, &harness, &first)) {
        note_heap(tally, &harness, &first);
        if (want != NULL && !entry->random) {
            tally->compared++;
            tally->distance = tally->check->args->child.certify ? result_distance(&first, want) : 0;
            if (!compare_results(&first, want, text, sizeof text))
                report_failure(tally, entry, "the result of the other provider",
                               "see the ONNX specification of the operator for this case", text);
        }
        compare_with_itself(tally, &harness, &first);
        compare_threads(tally, entry, built, &first);
    }
    harness_result_deinit(&first);
    harness_close(&harness);
}

/* Runs a case if it is offered. Otherwise *out_known: the provider knows the operator. */
static bool try_form(struct tally *tally, const op_case *entry, bool *out_known)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result want = { .out_count = 0 };
    const uint32_t failures = tally->failures;
    harness_answer answer;
    case_instance built;
    char text[256];
    bool has_want;

    *out_known = false;
    check_subject(tally->check, "%s", case_text(entry, text, sizeof text));
    if (case_graph(entry, &tally->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return false; /* the host refuses the case */
    check_phase(tally->check, "assess");
    harness_assess(tally->provider, &built, &answer);
    coverage_note(&tally->coverage, &answer);
    *out_known = answer.kind == HARNESS_REFUSED && answer.code != INLAY_REFUSE_OPERATOR;
    if (answer.kind == HARNESS_OFFERED) {
        has_want = peers_run(tally->check, tally->fixture, &built, entry, &want);
        if (has_want)
            certify_begin(tally->check, tally->provider, &built, entry, false);
        try_offered(tally, entry, &built, has_want, has_want ? &want : NULL);
        if (has_want) {
            certify_end(tally->check, tally->failures == failures, tally->distance);
            harness_result_deinit(&want);
        }
    }
    case_instance_deinit(&built);
    return answer.kind == HARNESS_OFFERED;
}

static bool try_case(void *user, op_case *entry)
{
    struct tally *tally = user;
    bool known, ignored, offered;

    if (tally->lost)
        return false;
    offered = try_form(tally, entry, &known);
    /* Providers for fixed weights offer a node only if one of its inputs is a constant. */
    for (uint32_t i = 1; i < entry->in_count && known && !offered && tally->cases == 0; i++)
        if (entry->in[i].dtype != INLAY_UNDEFINED && entry->in[i].dtype != INLAY_STRING && !entry->in[i].constant) {
            const op_case constant = case_with_constant(entry, i);

            offered = try_form(tally, &constant, &ignored);
        }
    if (tally->large && offered)
        tally->large_cases++;
    return tally->failures < 8 &&
           (!tally->large || tally->large_cases < (tally->check->args->quick ? LARGE_CASES_QUICK : LARGE_CASES));
}

/* Writes the lines about the current operator. */
static void report_source(const struct tally *tally)
{
    if (tally->failures > MAX_REPORTED_FAILURES)
        check_fail(tally->check, "results", tally->subject, "no failure", "see the lines above", "%u further failures",
                   tally->failures - MAX_REPORTED_FAILURES);
    else if (tally->failures == 0 && tally->cases > 0)
        check_pass(tally->check, "results", tally->subject,
                   "%u cases, %u compared with another provider, %u further runs with other memory, "
                   "threads and order",
                   tally->cases, tally->compared, tally->variants);
    else if (tally->source->own != NULL && tally->cases == 0 && tally->failures == 0 && tally->fixture->own_count == 1)
        check_warn(tally->check, "results", tally->subject, "a case that the plugin's own provider runs",
                   "add an inlay_op_example: cases of other sizes are generated from it",
                   "no generated shape is offered, so the operator was not checked");
    if (tally->heap_cases > 0 && tally->heap_of_data)
        check_warn(tally->check, "heap", tally->subject, "no heap use in execute",
                   "request the workspace of the largest case in specialize, where there is one",
                   "its outputs have sizes that depend on data; %u of %u cases, first %s", tally->heap_cases,
                   tally->cases, tally->heap_at);
    else if (tally->heap_cases > 0 && tally->check->args->foreign)
        check_warn(tally->check, "heap", tally->subject, "no heap use in execute",
                   "call fewer functions that create objects in each run; ONNX Runtime permits it",
                   "functions that the library calls allocate; %u of %u cases, first %s", tally->heap_cases,
                   tally->cases, tally->heap_at);
    else if (tally->heap_cases > 0)
        check_fail(tally->check, "heap", tally->subject, "no heap use in execute",
                   "request workspace in specialize (kit: kit_plan.workspace_bytes); addr2line shows the call",
                   "%u of %u cases, first %s", tally->heap_cases, tally->cases, tally->heap_at);
}

static bool try_source(void *user, const case_source *source)
{
    struct tally *tally = user;
    const case_range range = { .seed = tally->check->args->seed, .scale = 1, .quick = tally->check->args->quick };

    const case_range large = { .seed = tally->check->args->seed,
                               .scale = tally->check->args->quick ? QUICK_SCALE : LARGE_SCALE,
                               .quick = true,
                               .scaled = true };
    process_snapshot before;

    tally->source = source;
    tally->sources++;
    (void)snprintf(tally->subject, sizeof tally->subject, "%s-%lld", source->op_type, (long long)source->opset);
    tally->cases = tally->compared = tally->declined = tally->failures = tally->heap_cases = tally->variants = 0;
    tally->concurrent = tally->large = tally->threads_reported = tally->heap_of_data = false;
    tally->large_cases = 0;
    if (!check_unit(tally->check, "%s", tally->subject))
        return true;
    coverage_begin_source(&tally->coverage);
    before = process_snapshot_take();
    generate_cases(source, &range, try_case, tally);
    tally->large = true;
    if (tally->cases > 0)
        generate_cases(source, &large, try_case, tally);
    tally->large = false;
    check_process(tally->check, tally->subject, &before);
    check_files(tally->check, tally->subject);
    report_source(tally);
    coverage_end_source(&tally->coverage, source, tally->cases, tally->compared, tally->declined, tally->variants);
    return true;
}

/* Runs a test case of ONNX from the folder of --data. */
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

    tally->cases = tally->compared = tally->declined = tally->failures = tally->heap_cases = tally->variants = 0;
    if (data_cases(dir, tally->check->args->op, try_data, tally, &count, &diag) != INLAY_OK)
        check_fail(tally->check, "results", dir, "ONNX test cases", "name a folder with model.onnx and test_data_set_*",
                   "%s", diag.text);
    else if (count == 0)
        check_skip(tally->check, "results", dir, "no model of one operator; group `patterns` runs those of several");
    else if (tally->failures == 0)
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
                   "no reference provider is installed and --with is not given: results "
                   "are only compared with further runs");
    (void)heap_watch(fixture.plugins[0].handle);
    custom_count = fixture_operators(&fixture, custom, 64);
    for (uint32_t i = 0; i < fixture.own_count; i++) {
        struct tally tally = { .check = check, .fixture = &fixture, .provider = &fixture.own[i] };

        coverage_plan(check, &fixture, tally.provider, custom, custom_count);
        generate_sources(custom, custom_count, check->args->op, check->args->quick, try_source, &tally);
        if (tally.sources == 0)
            check_fail(check, "results", tally.provider->name, "an operator that --op matches",
                       "give a pattern of operator types, such as 'Conv*'", "no operator's type matches '%s'",
                       check->args->op);
        if (check->args->data != NULL)
            try_folder(&tally, check->args->data);
        if (tally.sources > 0 &&
            check->args->child.from == 0) /* otherwise another process has checked some operators */
            coverage_report(&tally.coverage, check, &fixture, tally.provider);
    }
    fixture_close(&fixture);
}
