/* inlay run: runs a model once, prints its outputs and writes them to files. */
#include "base/clock.h"
#include "base/element.h"
#include "base/output.h"
#include "cli/cli.h"
#include "cli/described.h"
#include "cli/outputs.h"
#include "data/compare.h"
#include "cli/inputs.h"
#include "data/npy.h"
#include "data/value.h"
#include "data/view.h"
#include "tables/words.h"
#include "cli/watchdog_report.h"
#include "lock/proof.h"
#include "cli/watched.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char doc_run[] =
    "Runs MODEL once and prints its outputs: name, type, shape, first values, minimum, maximum, mean.\v"
    "Inputs without a value are random; the same --seed gives the same values.\n\n"
    "Examples:\n"
    "  inlay run model.onnx\n"
    "  inlay run model.onnx --input image=cat.npy --outputs out/\n"
    "  inlay run model.onnx --input image=1,2,3,4       # or image='[[1,2,3,4]]'\n"
    "  inlay run model.onnx --input image=rows.csv\n"
    "  inlay run model.onnx --input ids=random:1,128 --dim batch=1\n"
    "  inlay run model.onnx --inputs case/ --expect case/ --rtol 1e-4\n"
    "  inlay run model.onnx --watch /encoder/Softmax    # or --watch op:Softmax\n"
    "  inlay run model.onnx --check-finite\n"
    "  inlay run model.onnx --commit run.proof          # for inlay verify-run\n";

enum { DEFAULT_REGIONS = 8 };

typedef struct run_args {
    struct feed feed;
    const char *model;
    const char *outputs, *expect;
    double rtol, atol; /* negative: by type, see element_tolerance() */
    uint32_t values;
    uint64_t timeout_ms;
    struct watched watched;
    bool check_finite;
    const char *commit;
    uint32_t regions;
    proof_run proof;      /* --commit */
    file_hash model_hash; /* --commit: of the model's file */
} run_args;

/* --check-finite, --check-finite=1: as the option of other verbs, which --help leaves out. */
static error_t take_switch(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    if (arg != NULL && strcmp(arg, "0") != 0 && strcmp(arg, "1") != 0)
        cli_refuse(state, CLI_USAGE, "--%s %s: expected 0 or 1", option->name, arg);
    *(bool *)field = arg == NULL || arg[0] == '1';
    return 0;
}

static const cli_option options_of_run[] = {
    FEED_OPTIONS(run_args, feed),
    { "outputs", "DIR", "Write outputs to DIR/<name>.npy; DIR may be new", CLI_TEXT(run_args, outputs) },
    { "expect", "DIR|FILE",
      "Compare outputs with <name>.npy, .pb or .npz in DIR, FILE.npz or FILE.npy; exit code 1 if one differs",
      CLI_TEXT(run_args, expect) },
    { "rtol", "X", "Relative tolerance of --expect\v (default: by type of the expected value; float: 1e-3)",
      CLI_NUMBER(run_args, rtol, 0, 1e300) },
    { "atol", "X", "Absolute tolerance of --expect\v (default: by type; float: 1e-5)",
      CLI_NUMBER(run_args, atol, 0, 1e300) },
    { "values", "N", "Print the first N values of each output (default: 8)",
      CLI_NUMBER(run_args, values, 0, UINT32_MAX) },
    { "watch", "NODE", "Also print the inputs and outputs of these nodes\v: a glob that matches names, or op:GLOB",
      CLI_CALL(watched_add, run_args, watched) },
    { "check-finite", "0|1", "Fail at the first node that makes a NaN or an infinity, and report its index and inputs",
      CLI_CALL(take_switch, run_args, check_finite), .flags = OPTION_ARG_OPTIONAL },
    { "commit", "DIR",
      "Write what inlay verify-run needs to DIR\v: hashes and tensors of regions; sets reproducible=cpu",
      CLI_TEXT(run_args, commit) },
    { "regions", "N", "With --commit: the number of regions (default: 8)", CLI_NUMBER(run_args, regions, 1, 1e6) },
    { "timeout-ms", "MS", "Give up after this many milliseconds of running",
      CLI_NUMBER(run_args, timeout_ms, 0, 1e12) },
    CLI_MODEL(run_args, model),
    { 0 },
};

/* The number of outputs of the model itself; the watched values follow them. */
static uint32_t own_outputs(const run_args *args, const inlay_session *session)
{
    return args->watched.count > 0 ? args->watched.own_outputs : inlay_session_output_count(session);
}

/* Output `index` of the run; borrowed. A committed run has no context, because its regions have their own. */
static const inlay_value *output_of(const run_args *args, inlay_context *context, uint32_t index)
{
    return args->commit != NULL ? proof_run_output(&args->proof, index) : inlay_context_output(context, index);
}

/* Outputs whose names differ only in '/' and ':' would overwrite each other, and an output may have the name of an
 * input of the same folder; these are errors. */
static inlay_status check_names(const run_args *args, const inlay_session *session, inlay_diag *diag)
{
    uint32_t count = inlay_session_output_count(session);
    struct arena arena = { 0 };
    char **paths = arena_array(&arena, (size_t)count + 1, sizeof *paths);
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < count; i++) {
        static const char *const suffixes[] = { ".npy", ".pb" };
        inlay_io_info info = { .struct_size = sizeof info };

        INLAY_TRY(inlay_session_output(session, i, &info));
        for (uint32_t k = 0; paths != NULL && k < 2; k++) {
            paths[i] = value_path(&arena, args->outputs, info.name, suffixes[k]);
            if (paths[i] != NULL)
                INLAY_TRY(output_check(paths[i], diag));
        }
        if (paths == NULL || (paths[i] = value_path(&arena, args->outputs, info.name, "")) == NULL) {
            status = no_memory(diag, "for the names of the outputs");
            goto done;
        }
        for (uint32_t k = 0; k < i; k++) {
            inlay_io_info other = { .struct_size = sizeof other };

            INLAY_TRY(inlay_session_output(session, k, &other));
            if (strcmp(paths[k], paths[i]) == 0 && strcmp(other.name, info.name) != 0) {
                status =
                    inlay_fail(diag, INLAY_INVALID_ARGUMENT, "two outputs would both be written to %s.npy", paths[i]);
                goto done;
            }
        }
    }
done:
    arena_deinit(&arena);
    return status;
}

static inlay_status save_outputs(const run_args *args, const inlay_session *session, inlay_context *context,
                                 inlay_diag *diag)
{
    inlay_status status = check_names(args, session, diag);

    if (status == INLAY_OK && mkdir(args->outputs, 0777) != 0 && errno != EEXIST)
        status = output_not_created(args->outputs, diag);
    for (uint32_t i = 0; status == INLAY_OK && i < inlay_session_output_count(session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        const inlay_value *value = output_of(args, context, i);

        INLAY_TRY(inlay_session_output(session, i, &info));
        if (value != NULL)
            INLAY_TRY(value_save(args->outputs, &info, value, diag));
    }
done:
    return status;
}

/* The result of --expect. */
struct verdict {
    uint32_t wrong;    /* outputs that differ */
    double error;      /* the largest difference between elements of any output; INFINITY for NaN or infinity */
    const char *where; /* the output that has it; NULL: all elements are equal */
};

/* Adds the largest difference between the elements of two tensors of the same type and shape. */
static void add_error(struct verdict *verdict, const char *name, const inlay_value *got, const inlay_value *want)
{
    inlay_tensor_view view;
    struct comparison exact;

    if (!value_view(want, &view) || inlay_value_data(got) == NULL)
        return;
    exact = compare_elements(inlay_value_data(got), &view, inlay_value_count(want), 0, 0);
    if (exact.wrong > 0 && (verdict->where == NULL || exact.worst > verdict->error)) {
        verdict->error = exact.worst;
        verdict->where = name;
    }
}

/* Whether --expect is a file of one value. */
static bool expects_one(const run_args *args)
{
    struct stat st;

    return (value_has_suffix(args->expect, ".npy") || value_has_suffix(args->expect, ".pb")) &&
           (stat(args->expect, &st) != 0 || !S_ISDIR(st.st_mode));
}

/* Compares every output with the value of --expect. Prints a line to stderr for each output that differs. */
static inlay_status compare_outputs(const run_args *args, const cli_common *common, const inlay_session *session,
                                    inlay_context *context, struct verdict *out, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    *out = (struct verdict){ 0 };
    for (uint32_t i = 0; i < own_outputs(args, session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        const inlay_value *got = output_of(args, context, i);
        inlay_value *want = NULL;
        bool same = false;
        double rtol, atol;
        char text[256] = "is empty";

        INLAY_TRY(inlay_session_output(session, i, &info));
        INLAY_TRY(expects_one(args) ? value_load(args->expect, &info, &want, diag)
                                    : value_load_named(args->expect, &info, &want, diag));
        if (want == NULL)
            return value_missing("output", args->expect, &info, diag);
        element_tolerance(inlay_value_dtype(want), &rtol, &atol);
        rtol = args->rtol >= 0 ? args->rtol : rtol;
        atol = args->atol >= 0 ? args->atol : atol;
        if (got != NULL)
            status = compare_values(got, want, rtol, atol, &same, text, sizeof text, diag);
        if (same)
            add_error(out, info.name, got, want);
        inlay_value_unref(want);
        if (status != INLAY_OK)
            return status;
        if (!same)
            cli_say(common, "output '%s': %s (tolerance %.3g + %.3g |expected|)", info.name, text, atol, rtol);
        out->wrong += !same;
    }
done:
    return status;
}

static void print_verdict(const run_args *args, const inlay_session *session, const struct verdict *verdict)
{
    const uint32_t count = own_outputs(args, session);

    if (verdict->wrong > 0)
        (void)printf("%u of %u outputs differ from %s\n", verdict->wrong, count, args->expect);
    else if (verdict->where == NULL)
        (void)printf("%s as in %s: every element is equal\n", count == 1 ? "the output is" : "all outputs are",
                     args->expect);
    else
        (void)printf("%s as in %s within the tolerance: largest error %.3g, in '%s'\n",
                     count == 1 ? "the output is" : "all outputs are", args->expect, verdict->error, verdict->where);
}

static void print_text(const run_args *args, const cli_common *common, inlay_session *session, inlay_context *context,
                       double create_ms, double run_ms, const struct verdict *verdict, const char *root)
{
    for (uint32_t i = 0; i < own_outputs(args, session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        const inlay_value *value = output_of(args, context, i);

        if (inlay_session_output(session, i, &info) != INLAY_OK || value == NULL)
            continue;
        if (!value_print(stdout, info.name, value, args->values) && !args->check_finite && !common->quiet)
            cli_say(common,
                    "output '%s' is not finite; --check-finite finds the node that makes the first NaN or infinity",
                    info.name);
        if (args->outputs != NULL && !common->quiet && npy_note(inlay_value_dtype(value)) != NULL)
            cli_say(common, "output '%s' is %s: %s", info.name, inlay_dtype_name(inlay_value_dtype(value)),
                    npy_note(inlay_value_dtype(value)));
    }
    watched_print(&args->watched, session, context, args->values);
    if (args->expect != NULL)
        print_verdict(args, session, verdict);
    if (args->commit != NULL)
        (void)printf("committed to %u %s in %s: SHA-256 %s\n", args->proof.count,
                     plural(args->proof.count, "region", "regions"), args->commit, root);
    (void)printf("created in %.1f ms, ran in %.3f ms\n", create_ms, run_ms);
    watchdog_report_print(session);
}

static json_t *make_json(const run_args *args, inlay_session *session, inlay_context *context, double create_ms,
                         double run_ms, inlay_value *const *inputs, const struct verdict *verdict, const char *root)
{
    json_t *outputs = json_array(), *made = json_array(), *json, *watchdog;

    for (uint32_t i = 0; i < own_outputs(args, session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        const inlay_value *value = output_of(args, context, i);

        if (inlay_session_output(session, i, &info) == INLAY_OK && value != NULL)
            (void)json_array_append_new(outputs, value_json(info.name, value, args->values));
    }
    for (uint32_t i = 0; i < inlay_session_input_count(session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        json_t *dims;

        if (args->feed.made == NULL || args->feed.made[i] == 0 || inlay_session_input(session, i, &info) != INLAY_OK)
            continue;
        dims = json_array();
        for (uint32_t d = 0; d < inlay_value_rank(inputs[i]); d++)
            (void)json_array_append_new(dims, json_integer((json_int_t)inlay_value_dims(inputs[i])[d]));
        (void)json_array_append_new(made, json_pack("{s:s, s:o}", "name", info.name, "shape", dims));
    }
    json = json_pack("{s:s, s:o, s:f, s:f, s:o}", "model", cli_text(args->model), "outputs", outputs, "create_ms",
                     create_ms, "run_ms", run_ms, "assumed_inputs", made);
    if (args->commit != NULL && json != NULL)
        (void)json_object_set_new(json, "commit",
                                  json_pack("{s:s, s:i, s:s}", "folder", cli_text(args->commit), "regions",
                                            (int)args->proof.count, "sha256", root));
    if (args->expect != NULL && json != NULL)
        (void)json_object_set_new(json, "differing_outputs", json_integer(verdict->wrong));
    if (args->expect != NULL && json != NULL && verdict->wrong == 0)
        (void)json_object_set_new(json, "largest_error", value_number_json(verdict->error));
    if (args->watched.count > 0 && json != NULL)
        (void)json_object_set_new(json, "watched", watched_json(&args->watched, session, context, args->values));
    watchdog = watchdog_report_json(session);
    if (watchdog != NULL)
        (void)json_object_set_new(json, "watchdog", watchdog);
    return json;
}

/* --commit: a session that describes the model, and the regions. */
static inlay_status open_regions(run_args *args, cli_common *common, inlay_session **out_session, inlay_diag *diag)
{
    inlay_status status;

    file_hash_begin(&args->model_hash, args->model);
    cli_attach(common);
    INLAY_TRY(proof_run_begin(args->model, common->options, args->regions > 0 ? args->regions : DEFAULT_REGIONS,
                              &args->proof, diag));
    INLAY_TRY(described_session(common, args->model, out_session, diag));
    status = outputs_check(diag); /* the files of the model are known now */
done:
    cli_progress_clear();
    return status;
}

/* first_run_make() for --commit. */
static inlay_status run_regions(run_args *args, const cli_common *common, const inlay_session *session,
                                const inlay_run_options *options, first_run *out, inlay_diag *diag)
{
    inlay_status status;

    args->feed.defer_report = true;
    do {
        feed_release(out->inputs, session);
        INLAY_TRY(feed_make(&args->feed, cli_caller(common), session, &out->inputs, diag));
        status = proof_run_make(&args->proof, session, out->inputs, options, diag);
    } while (feed_next_sizes(&args->feed, status));
    out->ms = args->proof.run_ms;
    feed_report_sizes(&args->feed, cli_caller(common), session, out->inputs);
done:
    return status;
}

static inlay_status run(run_args *args, cli_common *common, int *out_code, inlay_diag *diag)
{
    inlay_run_options options = { .struct_size = sizeof options, .cancel = cli_cancel() };
    inlay_session *session = NULL;
    first_run first = { 0 };
    double start = clock_ms(), create_ms;
    struct verdict verdict = { 0 };
    char root[65] = "";
    inlay_status status;

    if (args->expect != NULL && !expects_one(args))
        INLAY_TRY(value_source("--expect", args->expect, diag));
    if (args->check_finite)
        INLAY_TRY(inlay_options_set_from(common->options, "check_finite", "1", "--check-finite", diag));
    if (args->watched.count > 0)
        INLAY_TRY(watched_tap(&args->watched, common, args->model, diag));
    INLAY_TRY(args->commit != NULL ? open_regions(args, common, &session, diag)
                                   : cli_open(common, args->model, &session, diag));
    create_ms = clock_ms() - start;
    if (args->expect != NULL && expects_one(args) && own_outputs(args, session) != 1)
        INLAY_TRY(inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                             "--expect %s: the model has %u outputs; give a folder, or a .npz archive of named arrays",
                             args->expect, own_outputs(args, session)));
    options.timeout_ns = args->timeout_ms * 1000000;
    INLAY_TRY(args->commit != NULL ? run_regions(args, common, session, &options, &first, diag)
                                   : first_run_make(&args->feed, NULL, common, session, &options, &first, diag));
    create_ms += args->proof.create_ms;
    if (args->outputs != NULL)
        INLAY_TRY(save_outputs(args, session, first.context, diag));
    if (args->expect != NULL)
        INLAY_TRY(compare_outputs(args, common, session, first.context, &verdict, diag));
    if (args->commit != NULL)
        INLAY_TRY(proof_run_write(&args->proof, &args->model_hash, args->commit, common->options, root, diag));
    *out_code = verdict.wrong > 0 ? CLI_FAILED : CLI_OK;
    if (common->json)
        *out_code = cli_print_json(
            common, make_json(args, session, first.context, create_ms, first.ms, first.inputs, &verdict, root),
            *out_code);
    else
        print_text(args, common, session, first.context, create_ms, first.ms, &verdict, root);
done:
    first_run_deinit(&first, session);
    inlay_session_destroy(session);
    return status;
}

static bool finish(void *user, struct argp_state *state)
{
    const run_args *args = user;

    if (args->commit != NULL && args->watched.count > 0)
        cli_refuse(state, CLI_USAGE, "--commit and --watch exclude each other");
    if (args->regions > 0 && args->commit == NULL)
        cli_refuse(state, CLI_USAGE, "--regions requires --commit");
    return true;
}

int cmd_run(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_run, options_of_run, finish };
    run_args args = { .values = 8, .rtol = -1, .atol = -1 };
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    int code = CLI_OK;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    if (run(&args, &common, &code, &diag) != INLAY_OK)
        code = cli_fail(&common, &diag);
    (void)!file_hash_end(&args.model_hash, NULL);
    proof_run_deinit(&args.proof);
    watched_deinit(&args.watched);
    feed_deinit(&args.feed);
    cli_common_deinit(&common);
    return code;
}
