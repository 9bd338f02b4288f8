/* inlay test: runs ONNX test cases and compares the outputs with the expected ones. */
#include "base/clock.h"
#include "check/cases.h"
#include "cli/cli.h"
#include "cli/screen.h"
#include "data/compare.h"
#include "data/hash.h"
#include "data/value.h"
#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char doc_test[] =
    "Runs the ONNX test cases at or below each DIR (folders with model.onnx and test_data_set_*) and compares the "
    "outputs with the expected ones.\v"
    "A number passes when |got - want| <= atol + rtol * |want|; strings, types and shapes must be the same. A case is "
    "skipped only when no provider has an operator, version or type that it needs. The last line is 'N passed, N "
    "failed, N skipped'; the exit code is 1 when one failed.\n\n"
    "Examples:\n"
    "  inlay test /usr/lib/python3/dist-packages/onnx/backend/test/data/node\n"
    "  inlay test cases/ --match '*conv*' --rtol 1e-5 --verbose\n";

typedef struct test_args {
    const char **dirs; /* [dir_count] */
    uint32_t dir_count;
    const char *match;
    double rtol, atol;
    bool fail_fast, hash;
} test_args;

/* State of the run of one case. */
typedef struct case_state {
    const test_case *test_case;
    json_t *problems; /* with --json */
    uint32_t wrong;
    struct sha256 sha256; /* with --hash: of the outputs of all runs */
    uint32_t runs;
    enum { UNKNOWN, DETERMINISTIC, RANDOM } kind; /* of the model's outputs; determined after the first mismatch */
} case_state;

typedef enum outcome { PASSED, FAILED, SKIPPED, OUTCOMES } outcome;

typedef struct test_run {
    const test_args *args;
    cli_common *common;
    uint32_t counts[OUTCOMES];
    json_t *cases;       /* with --json */
    inlay_session *last; /* kept until the next session exists, so that devices stay open */
} test_run;

static error_t take_folder(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    test_args *args = (test_args *)((char *)field - offsetof(test_args, dirs));

    (void)option;
    (void)state;
    if (!LIST_GROW(args->dirs, args->dir_count))
        return ENOMEM;
    args->dirs[args->dir_count++] = arg;
    return 0;
}

static const cli_option options_of_test[] = {
    { "rtol", "X", "Relative tolerance (default: 1e-3)", CLI_NUMBER(test_args, rtol, 0, 1e300) },
    { "atol", "X", "Absolute tolerance (default: 1e-7)", CLI_NUMBER(test_args, atol, 0, 1e300) },
    { "fail-fast", NULL, "Stop at the first failure", CLI_SET(test_args, fail_fast) },
    { "hash", NULL, "Also print the SHA-256 of the outputs of each case, all NaN being equal, to compare machines",
      CLI_SET(test_args, hash) },
    { "match", "GLOB", "Only cases whose name matches, for instance '*conv*'", CLI_TEXT(test_args, match) },
    { .need = "no folder given", CLI_CALL(take_folder, test_args, dirs) },
    { 0 },
};

/* Prints one line for a case, or for a mismatch in it. */
static void report(const test_run *run, const char *word, const char *name, const char *text)
{
    if (run->common->json)
        return;
    cli_progress_clear();
    (void)printf("%s %s%s%s\n", word, name, text[0] != '\0' ? ": " : "", text);
    screen_flush();
}

static void note_mismatch(const test_run *run, case_state *state, const char *text)
{
    report(run, "FAIL", state->test_case->name, text);
    if (state->problems != NULL)
        (void)json_array_append_new(state->problems, json_string(text));
    state->wrong++;
}

/* Does the graph generate random numbers? Dropout is random only in training, so its outputs are compared. */
static bool uses_random_numbers(const struct graph *graph)
{
    bool found = false;

    for (uint32_t i = 0; i < graph->node_count && !found; i++) {
        const graph_node *node = graph->nodes[i];
        const op_row *row = op_find(node->info.domain.data, node->info.op_type.data, node->opset, NULL);

        found = row != NULL && (row->flags & OP_RANDOM) != 0 && strcmp(row->op_type, "Dropout") != 0;
        for (uint32_t b = 0; b < node->body_count && !found; b++)
            found = uses_random_numbers(node->bodies[b].graph);
    }
    return found;
}

/* Outputs of a model that generates random numbers need the right type and shape, but no particular values. */
static bool is_random(case_state *state)
{
    graph_model *model = NULL;

    if (state->kind == UNKNOWN) {
        state->kind =
            model_load_path(state->test_case->model, NULL, &model, NULL) == INLAY_OK && uses_random_numbers(model->main)
                ? RANDOM
                : DETERMINISTIC;
        graph_model_destroy(model);
    }
    return state->kind == RANDOM;
}

static uint32_t count_files(const char *dir, const char *what)
{
    char path[4096];

    for (uint32_t k = 0;; k++) {
        int n = snprintf(path, sizeof path, "%s/%s_%u.pb", dir, what, k);
        if (n < 0 || (size_t)n >= sizeof path || access(path, F_OK) != 0)
            return k;
    }
}

/* The files are the inputs in the model's order, without those that have a default value; a set with more files than
 * that also contains the defaults. */
static inlay_status bind_inputs(const char *set, const inlay_session *session, inlay_context *context, inlay_diag *diag)
{
    uint32_t count = inlay_session_input_count(session), files = count_files(set, "input"), required = 0, k = 0;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < count; i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        INLAY_TRY(inlay_session_input(session, i, &info));
        required += !info.optional;
    }
    for (uint32_t i = 0; i < count; i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        inlay_value *value = NULL;
        char path[4096];

        INLAY_TRY(inlay_session_input(session, i, &info));
        if (k >= files || (info.optional && files <= required)) {
            INLAY_TRY(inlay_context_set_input(context, i, NULL, diag));
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/input_%u.pb", set, k++);
        INLAY_TRY(value_load(path, &info, &value, diag));
        status = inlay_context_set_input(context, i, value, diag);
        inlay_value_unref(value);
        if (status != INLAY_OK)
            goto done;
    }
done:
    return status;
}

/* Compares the outputs that have a file. */
static inlay_status check_outputs(const test_run *run, case_state *state, const char *set, const inlay_session *session,
                                  inlay_context *context, inlay_diag *diag)
{
    uint32_t files = count_files(set, "output"), count = inlay_session_output_count(session);
    const char *set_name = strrchr(set, '/') + 1;
    inlay_status status = INLAY_OK;
    struct arena arena = { 0 };
    char line[1200];

    for (uint32_t i = 0; i < count && i < files; i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        const inlay_value *got = inlay_context_output(context, i);
        char path[4096], text[900];
        model_datum want;

        INLAY_TRY(inlay_session_output(session, i, &info));
        (void)snprintf(path, sizeof path, "%s/output_%u.pb", set, i);
        INLAY_TRY(value_datum(path, &info, &arena, &want, diag));
        if (got == NULL)
            (void)snprintf(text, sizeof text, "no value was produced");
        else if (compare_value(got, &want, run->args->rtol, run->args->atol, text, sizeof text) ||
                 (is_random(state) && compare_value(got, &want, 0, INFINITY, text, sizeof text)))
            continue;
        (void)snprintf(line, sizeof line, "%s output '%s': %s", set_name, info.name, text);
        note_mismatch(run, state, line);
    }
    if (files > count) {
        (void)snprintf(line, sizeof line, "%s has %u outputs, the model has %u", set_name, files, count);
        note_mismatch(run, state, line);
    }
done:
    arena_deinit(&arena);
    return status;
}

/* Creates one session and runs all data sets. *out_created: was the session created? */
static inlay_status run_sets(test_run *run, case_state *state, bool *out_created, inlay_diag *diag)
{
    inlay_run_options options = { .struct_size = sizeof options, .cancel = cli_cancel() };
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    inlay_status status;

    *out_created = false;
    INLAY_TRY(cli_open(run->common, state->test_case->model, &session, diag));
    *out_created = true;
    INLAY_TRY(inlay_context_create(session, &context, diag));
    for (uint32_t i = 0; i < state->test_case->set_count; i++) {
        INLAY_TRY(bind_inputs(state->test_case->sets[i], session, context, diag));
        INLAY_TRY(inlay_context_run(context, &options, diag));
        for (uint32_t o = 0; run->args->hash && o < inlay_session_output_count(session); o++)
            value_hash(&state->sha256, inlay_context_output(context, o));
        state->runs++;
        INLAY_TRY(check_outputs(run, state, state->test_case->sets[i], session, context, diag));
    }
done:
    inlay_context_destroy(context);
    if (session != NULL) {
        inlay_session_destroy(run->last);
        run->last = session;
    }
    return status;
}

/* out_hash: with --hash, the hash of the outputs; empty if the case did not run. */
static outcome run_case(test_run *run, const test_case *test, json_t *problems, char out_hash[65], inlay_diag *diag)
{
    case_state state = { .test_case = test, .problems = problems };
    inlay_status status;
    bool created;

    sha256_init(&state.sha256);
    status = run_sets(run, &state, &created, diag);

    /* Some cases feed inputs of other sizes than their model declares. */
    if (status == INLAY_SHAPE_MISMATCH && created && state.wrong == 0) {
        inlay_diag second = INLAY_DIAG_INIT;
        if (inlay_options_set(run->common->options, "free_shapes", "1", &second) == INLAY_OK) {
            status = run_sets(run, &state, &created, &second);
            (void)inlay_options_set(run->common->options, "free_shapes", "0", NULL);
        }
        if (status != INLAY_OK && status != INLAY_SHAPE_MISMATCH)
            *diag = second;
    }
    out_hash[0] = '\0';
    if (run->args->hash && state.runs > 0)
        sha256_hex(&state.sha256, out_hash);
    if (status == INLAY_UNSUPPORTED && !created)
        return SKIPPED;
    if (status != INLAY_OK && !cli_cancelled())
        note_mismatch(run, &state, diag->text);
    return status == INLAY_OK && state.wrong == 0 ? PASSED : FAILED;
}

static void add_json(test_run *run, const test_case *test, outcome result, json_t *problems, const char *hash,
                     const inlay_diag *diag, double ms)
{
    static const char *const words[OUTCOMES] = { "passed", "failed", "skipped" };
    json_t *json = json_pack("{s:s, s:s, s:f}", "name", test->name, "result", words[result], "ms", ms);

    if (result == FAILED)
        (void)json_object_set(json, "problems", problems);
    if (hash[0] != '\0')
        (void)json_object_set_new(json, "sha256", json_string(hash));
    if (result == SKIPPED)
        (void)json_object_set_new(json, "reason", json_string(diag->text));
    (void)json_array_append_new(run->cases, json);
}

static inlay_status run_all(test_run *run, const case_list *list, inlay_diag *out_diag)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const test_case *test = &list->cases[i];
        inlay_diag diag = INLAY_DIAG_INIT;
        json_t *problems = NULL;
        double start = clock_ms();
        char hash[65];
        outcome result;

        if (run->args->match != NULL && fnmatch(run->args->match, test->name, 0) != 0)
            continue;
        (void)cli_progress(NULL, (double)i / list->count, test->name);
        problems = run->common->json ? json_array() : NULL;
        result = run_case(run, test, problems, hash, &diag);
        if (cli_cancelled()) {
            json_decref(problems);
            return inlay_fail(out_diag, INLAY_CANCELLED, "stopped at %s", test->name);
        }
        run->counts[result]++;
        if (result == SKIPPED)
            report(run, "skip", test->name, diag.text);
        else if (result == PASSED && run->common->verbose)
            report(run, "pass", test->name, "");
        if (hash[0] != '\0')
            report(run, "hash", test->name, hash);
        if (run->common->json)
            add_json(run, test, result, problems, hash, &diag, clock_ms() - start);
        json_decref(problems);
        if (result == FAILED && run->args->fail_fast)
            break;
    }
    return INLAY_OK;
}

int cmd_test(int argc, char **argv)
{
    static const cli_verb verb = { "DIR...", doc_test, options_of_test, NULL };
    test_args args = { .rtol = 1e-3, .atol = 1e-7 };
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    struct arena arena = { 0 };
    case_list list = { 0 };
    test_run run = { .args = &args, .common = &common };
    inlay_status status = INLAY_OK;
    int code;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    common.many_sessions = true;
    run.cases = common.json ? json_array() : NULL;
    for (uint32_t i = 0; i < args.dir_count && status == INLAY_OK; i++)
        status = cases_find(args.dirs[i], &arena, &list, &diag);
    if (status == INLAY_OK)
        status = run_all(&run, &list, &diag);
    if (status == INLAY_OK && args.match != NULL && run.counts[PASSED] + run.counts[FAILED] + run.counts[SKIPPED] == 0)
        status =
            inlay_fail(&diag, INLAY_NOT_FOUND, "no name of the %u test cases matches '%s'", list.count, args.match);
    cli_progress_clear();
    code = status != INLAY_OK ? cli_fail(&common, &diag) : run.counts[FAILED] > 0 ? CLI_FAILED : CLI_OK;
    if (status == INLAY_OK && common.json)
        code = cli_print_json(&common,
                              json_pack("{s:i, s:i, s:i, s:O}", "passed", run.counts[PASSED], "failed",
                                        run.counts[FAILED], "skipped", run.counts[SKIPPED], "cases", run.cases),
                              code);
    else if (!common.json && (status == INLAY_OK || status == INLAY_CANCELLED))
        (void)printf("%u passed, %u failed, %u skipped\n", run.counts[PASSED], run.counts[FAILED], run.counts[SKIPPED]);
    inlay_session_destroy(run.last);
    json_decref(run.cases);
    arena_deinit(&arena);
    free(args.dirs);
    cli_common_deinit(&common);
    return code;
}
