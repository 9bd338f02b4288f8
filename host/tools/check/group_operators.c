/* The operators of a plugin, which perhaps no other provider runs. The results of their cases are compared with those
 * of another process that runs the same cases in the opposite order, so a result that depends on earlier runs differs.
 * Further checks need no expected result: tensors without elements, strings with NUL bytes, strings that a later run
 * overwrites, and many inputs of operators that take any number. */
#include "base/memory.h"
#include "check/compare_results.h"
#include "check/coverage.h"
#include "check/generate.h"
#include "check/operator_record.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

enum {
    CASES = 64, /* of an operator, with a second one of the same shapes for each */
    QUICK_CASES = 24,
    INPUTS = 16, /* of an operator that takes any number */
    VARIATIONS = 3,
    MAX_REPORTED_FAILURES = 2
};

struct operators {
    struct check *check;
    const struct fixture *fixture;
    const loaded_provider *provider;
    const case_source *source;
    char subject[160];
    op_case *cases; /* [count] that the provider offers; room for CASES */
    uint32_t count;
    uint32_t ran;
    case_failures failures;
    uint32_t refused; /* runs that failed, perhaps because of values */
    char first_refused[400];
};

/* True if the inputs have no elements: values cannot be the cause of a failed run. */
static bool is_empty(const op_case *entry)
{
    bool has_input = false;

    for (uint32_t i = 0; i < entry->in_count; i++) {
        if (entry->in[i].dtype == INLAY_UNDEFINED)
            continue;
        if (entry->in[i].count > 0)
            return false;
        has_input = true;
    }
    return has_input;
}

/* A copy of the case with other elements in input `only`, INLAY_NONE: in all inputs. Constants and given elements stay;
 * the copy borrows them. Free it with case_deinit(). False: nothing to vary, or no memory. */
static bool vary(const op_case *from, uint32_t only, uint64_t seed, op_case *out)
{
    bool varied = false;

    *out = *from;
    out->arena = (struct arena){ 0 };
    for (uint32_t i = 0; i < from->in_count; i++)
        if ((only == INLAY_NONE || only == i) && from->in[i].count > 0 && !from->in[i].constant &&
            from->in[i].given_count == 0) {
            out->in[i].data = NULL;
            varied = true;
        }
    if (varied && case_fill(out, seed) == INLAY_OK)
        return true;
    case_deinit(out);
    return false;
}

/* A copy of the case whose strings are all `text`; it borrows the rest. Free it with case_deinit(). False: it has no
 * strings, or no memory. */
static bool with_text(const op_case *from, inlay_str text, op_case *out)
{
    bool has_strings = false;

    *out = *from;
    out->arena = (struct arena){ 0 };
    for (uint32_t i = 0; i < from->in_count; i++) {
        case_tensor *tensor = &out->in[i];
        inlay_str *strings;

        if (tensor->dtype != INLAY_STRING || tensor->constant || tensor->count == 0)
            continue;
        strings = arena_array(&out->arena, (size_t)tensor->count, sizeof *strings);
        for (int64_t k = 0; strings != NULL && k < tensor->count; k++)
            strings[k] = text;
        has_strings |= strings != NULL;
        tensor->data = strings != NULL ? (void *)strings : tensor->data;
    }
    if (!has_strings)
        case_deinit(out);
    return has_strings;
}

static bool run(struct operators *operators, const op_case *entry, harness_result *out);

/* Does the case run if its sizes of 0 are replaced by others? If not, something else than the lack of elements makes it
 * fail. */
static bool runs_with_elements(struct operators *operators, const op_case *entry)
{
    const uint32_t refused = operators->refused;
    op_case other = *entry;
    harness_result result;
    bool ran = false;

    other.arena = (struct arena){ 0 };
    for (uint32_t i = 0; i < other.in_count; i++) {
        for (uint32_t d = 0; d < other.in[i].rank; d++)
            other.in[i].dims[d] += other.in[i].dims[d] == 0 ? 2 : 0;
        other.in[i].data = NULL;
    }
    if (case_fill(&other, 1) == INLAY_OK)
        ran = run(operators, &other, &result);
    if (ran)
        harness_result_deinit(&result);
    operators->refused = refused;
    case_deinit(&other);
    return ran;
}

/* Runs a case. False: it is not offered, or it failed; *out is then empty. */
static bool run(struct operators *operators, const op_case *entry, harness_result *out)
{
    const harness_options options = { .fill = 0xff };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct harness harness;
    case_instance built;
    char text[200];
    bool ok = false;
    inlay_status status;

    memset(out, 0, sizeof *out);
    if (case_graph(entry, &operators->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return false;
    check_subject(operators->check, "%s", case_text(entry, text, sizeof text));
    if (harness_open(operators->check, operators->provider, &built, entry, 1, &harness, &diag) == INLAY_OK) {
        status = harness_run(&harness, &options, out, &diag);
        ok = status == INLAY_OK && out->fault[0] == '\0';
        if (out->fault[0] != '\0')
            case_fail(&operators->failures, entry, "the contract of execute is kept", out->fault_fix, "%s", out->fault);
        else if (status != INLAY_OK && status != INLAY_SHAPE_MISMATCH && is_empty(entry) &&
                 runs_with_elements(operators, entry))
            case_fail(&operators->failures, entry,
                      "tensors without elements are computed, or refused as INLAY_SHAPE_MISMATCH",
                      "return at once if there is no element", "execute returned '%s': %.300s",
                      inlay_status_text(status), diag.text);
        else if (status != INLAY_OK && operators->refused++ == 0)
            (void)snprintf(operators->first_refused, sizeof operators->first_refused, "%s: '%s' %.150s", text,
                           inlay_status_text(status), diag.text);
        harness_close(&harness);
    }
    case_instance_deinit(&built);
    if (!ok)
        harness_result_deinit(out);
    return ok;
}

/* Runs a case and keeps its results as bytes, which are equal for equal results. NULL: it did not run. The caller frees
 * them. */
static char *run_to_record(struct operators *operators, const op_case *entry, size_t *out_bytes)
{
    harness_result result;
    char *record;

    if (!run(operators, entry, &result))
        return NULL;
    record = operator_record(&result, out_bytes);
    harness_result_deinit(&result);
    return record;
}

/* Do the two cases have the same results? -1: one of them did not run. */
static int same_results(struct operators *operators, const op_case *one, const op_case *other)
{
    size_t bytes = 0, other_bytes = 0;
    char *record = run_to_record(operators, one, &bytes), *other_record = run_to_record(operators, other, &other_bytes);
    const int same =
        record == NULL || other_record == NULL ? -1 : bytes == other_bytes && memcmp(record, other_record, bytes) == 0;

    free(record);
    free(other_record);
    return same;
}

/* Do these texts, in place of those of the case, have the same results? -1: one of the runs failed. */
static int same_of_texts(struct operators *operators, const op_case *entry, const inlay_str texts[2])
{
    op_case one, other;
    int same = -1;

    if (!with_text(entry, texts[0], &one))
        return -1;
    if (with_text(entry, texts[1], &other)) {
        same = same_results(operators, &one, &other);
        case_deinit(&other);
    }
    case_deinit(&one);
    return same;
}

/* Strings may have NUL bytes: what tells two texts apart must do so behind a NUL byte, too. Several pairs, as some
 * operators have the same result for different texts, such as a hash. */
static void check_nul(struct operators *operators, const op_case *entry)
{
    static const inlay_str plain[][2] = { { { "ab1cd", 5 }, { "ab1xy1", 6 } },
                                          { { "ab1e", 4 }, { "ab1fgh", 6 } },
                                          { { "ab1k2", 5 }, { "ab1m", 4 } },
                                          { { "ab1p", 4 }, { "ab1qz1", 6 } } },
                           nul[][2] = { { { "ab\0cd", 5 }, { "ab\0xy1", 6 } },
                                        { { "ab\0e", 4 }, { "ab\0fgh", 6 } },
                                        { { "ab\0k2", 5 }, { "ab\0m", 4 } },
                                        { { "ab\0p", 4 }, { "ab\0qz1", 6 } } };

    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (same_of_texts(operators, entry, plain[i]) != 0 || same_of_texts(operators, entry, nul[i]) != 1)
            return;
    case_fail(&operators->failures, entry, "strings of any bytes, also NUL",
              "use inlay_str.bytes, and no function of C that ends at a NUL byte",
              "'ab1cd' and 'ab1xy1' have different results, but the same with NUL instead of the first 1");
}

/* Does the result depend on the elements of this input? */
static bool has_effect(struct operators *operators, const op_case *entry, uint32_t input)
{
    op_case other;

    for (uint64_t seed = 1; seed <= VARIATIONS; seed++) {
        int same;

        if (!vary(entry, input, seed, &other))
            return true;
        same = same_results(operators, entry, &other);
        case_deinit(&other);
        if (same != 1)
            return true;
    }
    return false;
}

/* Does the run of the case fail for other elements, too? */
static bool always_fails(struct operators *operators, const op_case *entry)
{
    uint32_t failed = 0;

    for (uint64_t seed = 1; seed <= VARIATIONS; seed++) {
        const uint32_t before = operators->refused;
        harness_result result;
        op_case other;

        if (!vary(entry, INLAY_NONE, seed, &other))
            return false;
        if (run(operators, &other, &result))
            harness_result_deinit(&result);
        failed += operators->refused > before;
        case_deinit(&other);
    }
    return failed == VARIATIONS;
}

/* An operator of any number of inputs that reads the first ones only, or that fails if there are many. One that selects
 * one of its inputs does not read the first ones only: that one alone has an effect. */
static bool check_inputs(void *user, op_case *entry)
{
    struct operators *operators = user;
    const uint32_t first = operators->source->schema->input_count - 1;
    uint32_t read = first, more;
    harness_result result;

    if (entry->in_count != INPUTS || entry->random)
        return true;
    if (!run(operators, entry, &result)) {
        if (always_fails(operators, entry))
            case_fail(&operators->failures, entry, "a run with any number of inputs, as the signature states",
                      "refuse in infer or assess more inputs than the kernel takes", "it fails with %u", INPUTS);
        return true;
    }
    harness_result_deinit(&result);
    while (read < INPUTS && has_effect(operators, entry, read))
        read++;
    for (more = read; more < INPUTS && !has_effect(operators, entry, more); more++)
        continue;
    if (read >= first + 2 && read < INPUTS && more == INPUTS)
        case_fail(&operators->failures, entry, "a result that depends on every input",
                  "loop over the number of inputs of the call, or state the most in the signature",
                  "it depends on inputs 0 to %u of %u only", read - 1, INPUTS);
    return operators->failures.count == 0;
}

/* True for any number of inputs and a stated number of outputs: if both vary, they often have to be equal. */
static bool is_variadic(const op_schema *schema)
{
    return schema->max_inputs == UINT32_MAX && schema->input_count > 0 && schema->max_outputs != UINT32_MAX;
}

/* Keeps a case that the provider offers. */
static bool keep_case(void *user, op_case *entry)
{
    struct operators *operators = user;
    const uint32_t most = operators->check->args->quick ? QUICK_CASES : CASES;
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_answer answer;
    case_instance built;

    if (case_graph(entry, &operators->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return true;
    harness_assess(operators->provider, &built, &answer);
    case_instance_deinit(&built);
    if (answer.kind != HARNESS_OFFERED)
        return true;
    operators->cases[operators->count++] = *entry;
    entry->arena = (struct arena){ 0 };
    if (vary(&operators->cases[operators->count - 1], INLAY_NONE, operators->count,
             &operators->cases[operators->count]))
        operators->count++;
    return operators->count + 2 <= most;
}

static void collect_cases(struct operators *operators)
{
    const struct check_args *args = operators->check->args;
    const case_range range = { .seed = args->seed, .scale = 1, .quick = args->quick };
    static const uint32_t numbers[] = { 1, 2, 5, 9, INPUTS };
    const op_schema *schema = operators->source->schema;

    generate_larger_examples(operators->source, &range, 0, keep_case, operators);
    if (operators->count + 2 <= CASES / 2)
        generate_empty(operators->source, &range, keep_case, operators);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && is_variadic(schema); i++)
        if (operators->count + 2 <= CASES)
            generate_variadic(operators->source, &range, numbers[i], keep_case, operators);
    if (operators->count + 2 <= (args->quick ? QUICK_CASES : CASES))
        generate_cases(operators->source, &range, keep_case, operators);
}

/* The file with the results of the first process. */
static void record_path(const struct operators *operators, char *path, size_t bytes)
{
    (void)snprintf(path, bytes, "%s/blobs/%s-%s.%s-%lld", operators->check->args->child.work, operators->provider->name,
                   operators->source->domain, operators->source->op_type, (long long)operators->source->opset);
}

/* Runs the cases in order and writes their results. A later run must not change the strings of an earlier one. */
static void run_first(struct operators *operators)
{
    char path[4500], done[4520], *latest = NULL, *again;
    size_t latest_bytes = 0, again_bytes = 0;
    harness_result results[2] = { { .out_count = 0 }, { .out_count = 0 } };
    FILE *file = NULL;

    if (operators->check->args->child.work != NULL) {
        record_path(operators, done, sizeof done);
        (void)snprintf(path, sizeof path, "%.4490s.new", done);
        file = fopen(path, "wbe");
    }
    for (uint32_t i = 0; i < operators->count; i++) {
        harness_result *result = &results[i % 2], *before = &results[(i + 1) % 2];
        const bool ran = run(operators, &operators->cases[i], result);

        operators->ran += ran;
        again = latest != NULL ? operator_record(before, &again_bytes) : NULL;
        if (again != NULL && (again_bytes != latest_bytes || memcmp(again, latest, latest_bytes) != 0))
            case_fail(&operators->failures, &operators->cases[i - 1],
                      "results whose strings no later run changes",
                      "allocate them with inlay_host.string_alloc (kit: kit_alloc_string)",
                      "the next run changed the strings of its result");
        free(again);
        free(latest);
        latest = ran ? operator_record(result, &latest_bytes) : NULL;
        if (file != NULL)
            operator_record_write(file, latest, latest != NULL ? latest_bytes : 0);
        harness_result_deinit(before);
    }
    harness_result_deinit(&results[0]);
    harness_result_deinit(&results[1]);
    free(latest);
    if (file != NULL && fclose(file) == 0 && rename(path, done) == 0 && !operators->source->random)
        operators->check->progress->again = 1;
}

/* Runs the cases in the opposite order and compares the results with those of the first process. */
static void run_again(struct operators *operators)
{
    struct arena arena = { 0 };
    harness_result *want;
    char path[4500], text[400];
    FILE *file;

    record_path(operators, path, sizeof path);
    file = fopen(path, "rbe");
    want = file != NULL ? arena_array(&arena, operators->count + (size_t)1, sizeof *want) : NULL;
    for (uint32_t i = 0; want != NULL && i < operators->count; i++)
        if (!operator_record_read(file, &arena, &want[i]))
            want = NULL;
    for (uint32_t i = operators->count; want != NULL && i-- > 0;) {
        harness_result got;

        if (want[i].out_count == 0 || !run(operators, &operators->cases[i], &got))
            continue;
        operators->ran++;
        if (got.out_count == want[i].out_count && !compare_results(&got, &want[i], text, sizeof text))
            case_fail(&operators->failures, &operators->cases[i], "the result depends on the inputs only",
                      "keep no results, sizes or buffers in static variables or in the state",
                      "in another process, after other cases: %s", text);
        harness_result_deinit(&got);
    }
    if (file != NULL)
        (void)fclose(file);
    arena_deinit(&arena);
}

static void report(const struct operators *operators)
{
    struct check *check = operators->check;

    (void)case_fail_others(&operators->failures, operators->subject);
    if (operators->refused > 0 && !check->args->child.again)
        check_warn(check, "operators", operators->subject, "each case that infer and assess accept runs",
                   "refuse in infer or assess what depends on types and shapes only", "%u runs failed, such as %s",
                   operators->refused, operators->first_refused);
    if (operators->failures.count == 0 && operators->ran > 0 && check->args->child.again)
        check_pass(check, "operators", operators->subject, "the same results of %u cases in another process and order",
                   operators->ran);
    else if (operators->failures.count == 0 && operators->ran > 0)
        check_pass(check, "operators", operators->subject,
                   "%u cases, also without elements, with NUL bytes in strings, and with up to %u inputs",
                   operators->ran, INPUTS);
}

static bool try_source(void *user, const case_source *source)
{
    struct operators *operators = user;
    const case_range range = { .seed = operators->check->args->seed, .scale = 1, .quick = true };
    uint32_t texts = 0;

    if (source->own == NULL)
        return true;
    (void)snprintf(operators->subject, sizeof operators->subject, "%.140s-%lld", source->op_type,
                   (long long)source->opset);
    if (!check_unit(operators->check, "%s", operators->subject))
        return true;
    operators->source = source;
    operators->count = operators->ran = operators->failures.count = operators->refused = 0;
    check_phase(operators->check, "assess");
    collect_cases(operators);
    if (operators->check->args->child.again) {
        run_again(operators);
    } else {
        run_first(operators);
        for (uint32_t i = 0; i < operators->count && texts < VARIATIONS && !source->random; i += 2)
            for (uint32_t k = 0; k < operators->cases[i].in_count; k++)
                if (operators->cases[i].in[k].dtype == INLAY_STRING && operators->cases[i].in[k].count > 0) {
                    check_nul(operators, &operators->cases[i]);
                    texts++;
                    break;
                }
        if (is_variadic(source->schema))
            generate_variadic(source, &range, INPUTS, check_inputs, operators);
    }
    report(operators);
    for (uint32_t i = 0; i < operators->count; i++)
        case_deinit(&operators->cases[i]);
    return true;
}

void check_group_operators(struct check *check)
{
    const inlay_operator *custom[64];
    struct fixture fixture;
    uint32_t custom_count;

    if (!fixture_open(check, "operators", false, &fixture))
        return;
    custom_count = fixture_operators(&fixture, custom, 64);
    for (uint32_t i = 0; i < fixture.own_count && custom_count > 0; i++) {
        struct operators operators = { .check = check,
                                       .fixture = &fixture,
                                       .provider = &fixture.own[i],
                                       .failures = { check, "operators", MAX_REPORTED_FAILURES, 0 } };

        operators.cases = calloc(CASES + 2, sizeof *operators.cases);
        if (operators.cases != NULL)
            generate_sources(custom, custom_count, check->args->op, true, try_source, &operators);
        free(operators.cases);
    }
    fixture_close(&fixture);
}
