/* Runs each offered operator with values, sizes and memory that its usual cases lack: other values in the same memory,
 * special values, each input as a constant, a run that is cancelled already, all small sizes, and very large ones. */
#include "check/certify.h"
#include "check/compare_results.h"
#include "check/coverage.h"
#include "check/generate.h"
#include "check/host.h"
#include "check/peers.h"
#include "check/sizes.h"
#include "check/special.h"
#include "inlay/check.h"
#include <string.h>

enum {
    MAX_REPORTED_FAILURES = 2,
    FILL = 0xff,            /* NaN in every float type */
    CASES = 6,              /* of an operator ... */
    QUICK_CASES = 2,        /* ... with --quick */
    MOST_SIZE = 67,         /* more than four vectors of 16 floats, with every remainder */
    QUICK_SIZED = 8,        /* operators whose sizes are all tried with --quick, of each kind */
    HUGE_VECTOR = 16777259, /* above 2^24, where floats no longer count */
    QUICK_HUGE_VECTOR = 2097169,
    HUGE_ROW = 1048601,
    QUICK_HUGE_ROW = 70001, /* above 2^16 */
    HUGE_OPERATORS = 8,
    QUICK_HUGE_OPERATORS = 2
};

struct values {
    struct check *check;
    const struct fixture *fixture;
    const loaded_provider *provider;
    uint32_t cases;                                                   /* of the current operator ... */
    case_failures failures;                                           /* ... and theirs */
    int64_t size;                                                     /* the current size */
    bool ran;                                                         /* a case of the current size ran */
    uint32_t sized[SIZES_EXAMPLES + 1], huge[SIZES_EXAMPLES + 1];     /* operators whose sizes were tried, by kind */
    uint32_t operators, reused, special, constants, cancelled, sizes; /* runs */
    bool flush_reported;
};

/* The result for the elements of entry: of another provider, or of this one in other memory. False: none. */
static bool find_expected(struct values *values, const struct harness *harness, const op_case *entry,
                          harness_result *out)
{
    const harness_options options = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct harness fresh = *harness;

    if (peers_run(values->check, values->fixture, harness->built, entry, out))
        return true;
    fresh.entry = entry;
    if (harness_run(&fresh, &options, out, &diag) == INLAY_OK && out->fault[0] == '\0')
        return true;
    harness_result_deinit(out);
    return false;
}

static void check_reuse(struct values *values, const struct harness *harness)
{
    op_case other;
    harness_result want, got;
    char text[400];

    for (int poisoned = 0; poisoned < 2; poisoned++) {
        harness_options options = { .then = &other, .poisoned = poisoned != 0, .fill = FILL };
        inlay_diag diag = INLAY_DIAG_INIT;

        if (!case_vary(harness->entry, values->check->args->seed + 77 + (uint64_t)poisoned, &other))
            return;
        if (find_expected(values, harness, &other, &want)) {
            values->reused++;
            if (harness_run(harness, &options, &got, &diag) != INLAY_OK)
                case_fail(&values->failures, &other, "a second run in the same memory", "do not keep data of a run",
                          "%s", diag.text);
            else if (got.fault[0] != '\0')
                case_fail(&values->failures, &other, "the contract of execute is kept", got.fault_fix, "%s", got.fault);
            else if (!compare_results(&got, &want, text, sizeof text))
                case_fail(&values->failures, &other, "the result for the values of each run",
                          "keep neither results nor workspace contents from one run to the next: buffers are used "
                          "again with other contents",
                          "%s: %s",
                          poisoned != 0 ? "a second run with other values, the workspace overwritten in between"
                                        : "a second run with other values at the same addresses",
                          text);
            harness_result_deinit(&got);
            harness_result_deinit(&want);
        }
        case_deinit(&other);
    }
}

static void report_flushed(struct values *values, const op_case *entry, const char *got)
{
    static const char fix[] = "set INLAY_PROVIDER_FLUSHES_DENORMALS, or do not flush them";
    char text[256];

    if ((values->provider->table->flags & INLAY_PROVIDER_FLUSHES_DENORMALS) != 0)
        return;
    if (values->provider->table->device_kind == INLAY_DEVICE_CPU) {
        case_fail(&values->failures, entry, "denormals are kept", fix, "%s", got);
        return;
    }
    if (!values->flush_reported)
        check_warn(values->check, "values", case_text(entry, text, sizeof text), "denormals are kept", fix, "%s", got);
    values->flush_reported = true;
}

static void check_special(struct values *values, const struct harness *harness, uint32_t rules)
{
    const harness_options options = { .fill = 0x11 };
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result want = { .out_count = 0 }, got;
    struct harness other = *harness;
    op_case entry;
    char text[400];
    uint32_t found;

    if (rules == 0 || !case_special(harness->entry, special_values(rules), &entry))
        return;
    other.entry = &entry;
    if (peers_run(values->check, values->fixture, harness->built, &entry, &want)) {
        values->special++;
        if (harness_run(&other, &options, &got, &diag) != INLAY_OK) {
            case_fail(&values->failures, &entry, "a run with NaN, infinities and denormals", "they are ordinary values",
                      "%s", diag.text);
        } else {
            found = special_compare(&got, &want, rules, text, sizeof text);
            if (found == SPECIAL_FLUSHED)
                report_flushed(values, &entry, text);
            else if (found == SPECIAL_DIFFERENT)
                case_fail(&values->failures, &entry, "the result of the other provider for NaN, infinities and zeros",
                          "compare so that NaN passes through; do not saturate at the largest number", "%s", text);
        }
        harness_result_deinit(&got);
        harness_result_deinit(&want);
    }
    case_deinit(&entry);
}

static void check_constant(struct values *values, const struct harness *harness, uint32_t input,
                           const harness_result *want)
{
    const harness_options options = { .fill = FILL };
    const op_case entry = case_with_constant(harness->entry, input);
    inlay_diag diag = INLAY_DIAG_INIT;
    struct harness constant;
    harness_result got;
    case_instance built;
    char text[400];
    inlay_status status;

    if (case_graph(&entry, &values->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return;
    check_subject(values->check, "%s", case_text(&entry, text, 256));
    status = harness_open(values->check, values->provider, &built, &entry, 1, &constant, &diag);
    if (status == INLAY_OK) {
        values->constants++;
        if (harness_run(&constant, &options, &got, &diag) != INLAY_OK)
            case_fail(&values->failures, &entry, "a compiled case runs", "read the constant in compile", "%s",
                      diag.text);
        else if (got.fault[0] != '\0')
            case_fail(&values->failures, &entry, "the contract of execute is kept", got.fault_fix, "%s", got.fault);
        else if (!entry.random && !compare_results(&got, want, text, sizeof text))
            case_fail(&values->failures, &entry, "the same result if an input is a constant",
                      "constants are in the graph, not in the inputs of execute", "input %u as a constant: %s", input,
                      text);
        harness_result_deinit(&got);
        harness_close(&constant);
    } else if (status != INLAY_UNSUPPORTED && strcmp(constant.phase, "budget") != 0) {
        case_fail(&values->failures, &entry, "an offered case compiles, or is declined with INLAY_UNSUPPORTED",
                  "refuse in assess what cannot be run", "%s returned '%s': %s", constant.phase,
                  inlay_status_text(status), diag.text);
    }
    case_instance_deinit(&built);
}

static void check_constants(struct values *values, const struct harness *harness, const harness_result *want)
{
    for (uint32_t i = 0; i < harness->entry->in_count; i++)
        if (harness->entry->in[i].dtype != INLAY_UNDEFINED && harness->entry->in[i].dtype != INLAY_STRING &&
            !harness->entry->in[i].constant)
            check_constant(values, harness, i, want);
}

/* A cancelled run returns INLAY_CANCELLED, or INLAY_OK with a complete result. in_loops: it is cancelled when its first
 * parallel loop begins; otherwise before execute. */
static void check_cancelled(struct values *values, const struct harness *harness, const harness_result *want,
                            bool in_loops)
{
    uint32_t stop = !in_loops;
    const harness_options options = { .cancel = &stop, .fill = FILL };
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result got;
    char text[400];
    inlay_status status;

    if (in_loops)
        check_host_cancel_in_loops(&stop);
    status = harness_run(harness, &options, &got, &diag);
    check_host_cancel_in_loops(NULL);
    values->cancelled++;
    if (got.fault[0] != '\0')
        case_fail(&values->failures, harness->entry, "the contract of execute is kept", got.fault_fix,
                  "a cancelled run: %s", got.fault);
    else if (status == INLAY_OK && !harness->entry->random && !compare_results(&got, want, text, sizeof text))
        case_fail(&values->failures, harness->entry,
                  "INLAY_CANCELLED from a cancelled run whose result is not complete",
                  "return the status of parallel_for and poll", "a cancelled run returned INLAY_OK, but %s", text);
    else if (status != INLAY_OK && status != INLAY_CANCELLED && status != INLAY_DEVICE_LOST)
        case_fail(&values->failures, harness->entry, "INLAY_CANCELLED from a cancelled run",
                  "return the status of parallel_for and poll", "it returned '%s': %s", inlay_status_text(status),
                  diag.text);
    harness_result_deinit(&got);
}

/* The cost of an offer depends on the arguments only, so that assignments are the same in every process. */
static void check_price(struct values *values, const struct harness *harness)
{
    enum { ASKED = 4 };
    inlay_cost first, next;

    if (harness_cost(values->provider, harness->built, &harness->answer, 1, &first) != INLAY_OK ||
        first.confidence == INLAY_CONFIDENCE_MEASURED)
        return;
    for (int i = 1; i < ASKED; i++) {
        if (harness_cost(values->provider, harness->built, &harness->answer, 1, &next) == INLAY_OK &&
            next.ns == first.ns && next.enter_ns == first.enter_ns && next.leave_ns == first.leave_ns)
            continue;
        case_fail(&values->failures, harness->entry, "the same cost for the same offer and shapes",
                  "compute the cost from the request only", "first %g ns, then %g ns",
                  first.ns + first.enter_ns + first.leave_ns, next.ns + next.enter_ns + next.leave_ns);
        return;
    }
}

/* Runs all checks of a case. False: it is not offered, or does not run. */
static bool try_form(struct values *values, const op_case *entry)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result want;
    struct harness harness;
    case_instance built;
    const uint32_t failures = values->failures.count;
    char text[256];
    bool ran = false;

    if (case_graph(entry, &values->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return false;
    check_subject(values->check, "%s", case_text(entry, text, sizeof text));
    if (harness_open(values->check, values->provider, &built, entry, 1, &harness, &diag) == INLAY_OK) {
        certify_begin(values->check, values->provider, &built, entry, false);
        ran = find_expected(values, &harness, entry, &want);
        if (ran) {
            values->cases++;
            if (!entry->random) {
                check_reuse(values, &harness);
                for (uint32_t turn = 0; turn < SPECIAL_TURNS; turn++)
                    check_special(values, &harness, special_rules(entry->op_type, turn));
            }
            check_cancelled(values, &harness, &want, false);
            check_cancelled(values, &harness, &want, true);
            check_constants(values, &harness, &want);
            harness_result_deinit(&want);
        }
        certify_end(values->check, values->failures.count == failures, 0);
        if (ran)
            check_price(values, &harness);
        harness_close(&harness);
    }
    case_instance_deinit(&built);
    return ran;
}

static bool try_case(void *user, op_case *entry)
{
    struct values *values = user;
    const uint32_t most = values->check->args->quick ? QUICK_CASES : CASES;
    bool ran = try_form(values, entry);

    /* Providers for fixed weights offer a node only if one of its inputs is a constant. */
    for (uint32_t i = 1; i < entry->in_count && !ran; i++)
        if (entry->in[i].dtype != INLAY_UNDEFINED && entry->in[i].dtype != INLAY_STRING && !entry->in[i].constant) {
            const op_case constant = case_with_constant(entry, i);

            ran = try_form(values, &constant);
        }
    return values->cases < most && values->failures.count == 0;
}

static bool try_size(void *user, op_case *entry)
{
    struct values *values = user;
    const uint32_t failures = values->failures.count;
    const harness_options options = { .fill = FILL };
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result want, got;
    struct harness harness;
    case_instance built;
    char text[400];

    if (case_graph(entry, &values->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return true;
    check_subject(values->check, "%s", case_text(entry, text, 256));
    if (harness_open(values->check, values->provider, &built, entry, values->size > MOST_SIZE ? 2 : 1, &harness,
                     &diag) == INLAY_OK) {
        values->ran = true;
        values->sizes++;
        if (harness_run(&harness, &options, &got, &diag) != INLAY_OK) {
            if (peers_run(values->check, values->fixture, &built, entry, &want)) {
                case_fail(&values->failures, entry, "a compiled case runs", "refuse in assess what cannot be run", "%s",
                          diag.text);
                harness_result_deinit(&want);
            }
        } else if (got.fault[0] != '\0') {
            case_fail(&values->failures, entry, "the contract of execute is kept", got.fault_fix, "%s", got.fault);
        } else if (!entry->random && peers_run(values->check, values->fixture, &built, entry, &want)) {
            certify_begin(values->check, values->provider, &built, entry, false);
            if (!compare_results(&got, &want, text, sizeof text))
                case_fail(&values->failures, entry, "the result of the other provider at every size",
                          "check the remainder of the loop, and the type of its counters", "size %lld: %s",
                          (long long)values->size, text);
            if (values->size > MOST_SIZE) { /* long enough for parallel loops */
                check_cancelled(values, &harness, &want, false);
                check_cancelled(values, &harness, &want, true);
            }
            certify_end(values->check, values->failures.count == failures, result_distance(&got, &want));
            harness_result_deinit(&want);
        }
        harness_result_deinit(&got);
        harness_close(&harness);
    }
    case_instance_deinit(&built);
    return true;
}

static void try_sizes(struct values *values, const case_source *source)
{
    const bool quick = values->check->args->quick;
    const uint32_t kind = sizes_kind(source), most_huge = quick ? QUICK_HUGE_OPERATORS : HUGE_OPERATORS;
    const uint64_t seed = values->check->args->seed;

    if (kind == SIZES_NONE || source->random)
        return;
    if (!quick || values->sized[kind] < QUICK_SIZED) {
        values->ran = false;
        for (values->size = 1; values->size <= MOST_SIZE && values->failures.count == 0; values->size++)
            sizes_generate(source, values->size, seed + (uint64_t)values->size, try_size, values);
        values->sized[kind] += values->ran;
    }
    if (values->huge[kind] < most_huge && kind != SIZES_EXAMPLES && values->failures.count == 0) {
        values->ran = false;
        values->size =
            kind == SIZES_ROWS ? (quick ? QUICK_HUGE_ROW : HUGE_ROW) : (quick ? QUICK_HUGE_VECTOR : HUGE_VECTOR);
        sizes_generate(source, values->size, seed, try_size, values);
        values->huge[kind] += values->ran;
    }
}

static bool try_source(void *user, const case_source *source)
{
    struct values *values = user;
    const case_range range = { .seed = values->check->args->seed, .scale = 1, .quick = true };

    if (!check_unit(values->check, "%s-%lld", source->op_type, (long long)source->opset))
        return true;
    values->cases = values->failures.count = 0;
    generate_cases(source, &range, try_case, values);
    values->operators += values->cases > 0;
    if (values->cases > 0)
        try_sizes(values, source);
    (void)case_fail_others(&values->failures, source->op_type);
    return true;
}

void check_group_values(struct check *check)
{
    const inlay_operator *custom[64];
    struct fixture fixture;
    uint32_t custom_count;

    if (!fixture_open(check, "values", true, &fixture))
        return;
    custom_count = fixture_operators(&fixture, custom, 64);
    for (uint32_t i = 0; i < fixture.own_count; i++) {
        struct values values = { .check = check,
                                 .fixture = &fixture,
                                 .provider = &fixture.own[i],
                                 .failures = { check, "values", MAX_REPORTED_FAILURES, 0 } };

        coverage_plan(check, &fixture, values.provider, custom, custom_count);
        generate_sources(custom, custom_count, check->args->op, true, try_source, &values);
        if (values.operators > 0)
            check_pass(check, "values", fixture.own[i].name,
                       "%u operators: %u runs with other values in the same memory, %u with special values, %u with a "
                       "further constant, %u cancelled, %u sizes",
                       values.operators, values.reused, values.special, values.constants, values.cancelled,
                       values.sizes);
    }
    fixture_close(&fixture);
}
