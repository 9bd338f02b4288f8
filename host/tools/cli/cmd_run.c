/* inlay run: one run of a model, its outputs printed and written. */
#include "base/clock.h"
#include "cli/cli.h"
#include "data/compare.h"
#include "cli/inputs.h"
#include "data/npy.h"
#include "data/value.h"
#include "cli/watched.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char doc[] =
    "Runs MODEL once and prints its outputs: name, type, shape, first values, minimum, maximum, mean.\v"
    "Inputs without a value are random; the same --seed gives the same values.\n\n"
    "Examples:\n"
    "  inlay run model.onnx\n"
    "  inlay run model.onnx --input image=cat.npy --outputs out/\n"
    "  inlay run model.onnx --input ids=random:1,128 --dim batch=1 --providers reference\n"
    "  inlay run model.onnx --inputs case/ --json\n"
    "  inlay run model.onnx --inputs case/ --expect case/ --rtol 1e-4\n"
    "  inlay run model.onnx --watch /encoder/Softmax    # or --watch op:Softmax\n";

enum { KEY_OUTPUTS = 0x4000, KEY_VALUES, KEY_TIMEOUT, KEY_EXPECT, KEY_RTOL, KEY_ATOL, KEY_WATCH };
static const struct argp_option flags[] = {
    FEED_FLAGS,
    { "outputs", KEY_OUTPUTS, "DIR", 0, "Write each output to DIR/<name>.npy; DIR is made if it is not there", 0 },
    { "expect", KEY_EXPECT, "DIR|FILE.npz", 0,
      "Compare each output with DIR/<name>.npy, .pb or .npz, or the arrays of FILE.npz; exit code 1 where one differs",
      0 },
    { "rtol", KEY_RTOL, "X", 0, "Relative tolerance of --expect (default: 1e-3)", 0 },
    { "atol", KEY_ATOL, "X", 0, "Absolute tolerance of --expect (default: 1e-5)", 0 },
    { "values", KEY_VALUES, "N", 0, "Print the first N values of each output (default: 8)", 0 },
    { "watch", KEY_WATCH, "NODE", 0, "Print what these nodes read and make too: a glob on names, or op:GLOB", 0 },
    { "timeout-ms", KEY_TIMEOUT, "MS", 0, "Give up after this many milliseconds of running", 0 },
    { 0 },
};

typedef struct run_args {
    feed feed;
    const char *model;
    const char *outputs, *expect;
    double rtol, atol;
    uint32_t values;
    uint64_t timeout_ms;
    watched watched;
} run_args;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    run_args *args = state->input;

    switch (key) {
    case KEY_OUTPUTS:
        args->outputs = arg;
        return 0;
    case KEY_EXPECT:
        args->expect = arg;
        return 0;
    case KEY_RTOL:
        args->rtol = cli_number(state, "--rtol", arg, 0, 1e300);
        return 0;
    case KEY_ATOL:
        args->atol = cli_number(state, "--atol", arg, 0, 1e300);
        return 0;
    case KEY_VALUES:
        args->values = (uint32_t)cli_number(state, "--values", arg, 0, UINT32_MAX);
        return 0;
    case KEY_WATCH:
        return watched_add(&args->watched, arg, state);
    case KEY_TIMEOUT:
        args->timeout_ms = (uint64_t)cli_number(state, "--timeout-ms", arg, 0, 1e12);
        return 0;
    default:
        return feed_parse_model(&args->feed, &args->model, key, arg, state);
    }
}

/* The model's own: behind them are the values that are watched. */
static uint32_t own_outputs(const run_args *args, const inlay_session *session)
{
    return args->watched.count > 0 ? args->watched.own_outputs : inlay_session_output_count(session);
}

/* Two outputs whose names differ in '/' and ':' only would overwrite each other. */
static inlay_status save_outputs(const run_args *args, const inlay_session *session, inlay_context *context,
                                 inlay_diag *diag)
{
    uint32_t count = inlay_session_output_count(session);
    arena a = { 0 };
    char **paths = arena_array(&a, (size_t)count + 1, sizeof *paths);
    inlay_status status = INLAY_OK;

    if (mkdir(args->outputs, 0777) != 0 && errno != EEXIST) {
        status = inlay_fail(diag, INLAY_IO_ERROR, "--outputs %s: %s", args->outputs, strerror(errno));
        goto done;
    }
    for (uint32_t i = 0; i < count; i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        const inlay_value *value = inlay_context_output(context, i);

        INLAY_TRY(inlay_session_output(session, i, &info));
        if (paths == NULL || (paths[i] = value_path(&a, args->outputs, info.name, "")) == NULL) {
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
        if (value != NULL)
            INLAY_TRY(value_save(args->outputs, &info, value, diag));
    }
done:
    arena_deinit(&a);
    return status;
}

/* Compares every output with what --expect has; *out_wrong counts those that differ, a line each on stderr. */
static inlay_status compare_outputs(const run_args *args, const cli_common *common, const inlay_session *session,
                                    inlay_context *context, uint32_t *out_wrong, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    *out_wrong = 0;
    for (uint32_t i = 0; i < own_outputs(args, session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        const inlay_value *got = inlay_context_output(context, i);
        inlay_value *want = NULL;
        bool same = false;
        char text[256] = "is empty";

        INLAY_TRY(inlay_session_output(session, i, &info));
        INLAY_TRY(value_load_named(args->expect, &info, &want, diag));
        if (want == NULL)
            return value_missing("output", args->expect, &info, diag);
        if (got != NULL)
            status = compare_values(got, want, args->rtol, args->atol, &same, text, sizeof text, diag);
        inlay_value_unref(want);
        if (status != INLAY_OK)
            return status;
        if (!same)
            (void)fprintf(stderr, "%s: output '%s': %s\n", common->verb, info.name, text);
        *out_wrong += !same;
    }
done:
    return status;
}

static void print_text(const run_args *args, const cli_common *common, const inlay_session *session,
                       inlay_context *context, double create_ms, double run_ms)
{
    for (uint32_t i = 0; i < own_outputs(args, session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        const inlay_value *value = inlay_context_output(context, i);

        if (inlay_session_output(session, i, &info) != INLAY_OK || value == NULL)
            continue;
        value_print(stdout, info.name, value, args->values);
        if (args->outputs != NULL && !common->quiet && npy_note(inlay_value_dtype(value)) != NULL)
            (void)fprintf(stderr, "%s: output '%s' is %s: %s\n", common->verb, info.name,
                          inlay_dtype_name(inlay_value_dtype(value)), npy_note(inlay_value_dtype(value)));
    }
    watched_print(&args->watched, session, context, args->values);
    (void)printf("created in %.1f ms, ran in %.3f ms\n", create_ms, run_ms);
}

static json_t *make_json(const run_args *args, const inlay_session *session, inlay_context *context, double create_ms,
                         double run_ms, inlay_value *const *inputs, uint32_t wrong)
{
    json_t *outputs = json_array(), *made = json_array(), *json;

    for (uint32_t i = 0; i < own_outputs(args, session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        const inlay_value *value = inlay_context_output(context, i);

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
    json = json_pack("{s:s, s:o, s:f, s:f, s:o}", "model", args->model, "outputs", outputs, "create_ms", create_ms,
                     "run_ms", run_ms, "assumed_inputs", made);
    if (args->expect != NULL && json != NULL)
        (void)json_object_set_new(json, "differing_outputs", json_integer(wrong));
    if (args->watched.count > 0 && json != NULL)
        (void)json_object_set_new(json, "watched", watched_json(&args->watched, session, context, args->values));
    return json;
}

static inlay_status run(run_args *args, cli_common *common, int *out_code, inlay_diag *diag)
{
    inlay_run_options options = { .struct_size = sizeof options, .cancel = cli_cancel() };
    inlay_session *session = NULL;
    first_run first = { 0 };
    double start = clock_ms(), create_ms;
    uint32_t wrong = 0;
    inlay_status status;

    if (args->expect != NULL)
        INLAY_TRY(value_source("--expect", args->expect, diag));
    if (args->watched.count > 0)
        INLAY_TRY(watched_tap(&args->watched, common, args->model, diag));
    INLAY_TRY(cli_open(common, args->model, &session, diag));
    create_ms = clock_ms() - start;
    options.timeout_ns = args->timeout_ms * 1000000;
    INLAY_TRY(first_run_make(&args->feed, NULL, common, session, &options, &first, diag));
    if (args->outputs != NULL)
        INLAY_TRY(save_outputs(args, session, first.context, diag));
    if (args->expect != NULL)
        INLAY_TRY(compare_outputs(args, common, session, first.context, &wrong, diag));
    *out_code = wrong > 0 ? CLI_FAILED : CLI_OK;
    if (common->json)
        *out_code = cli_print_json(
            common, make_json(args, session, first.context, create_ms, first.ms, first.inputs, wrong), *out_code);
    else
        print_text(args, common, session, first.context, create_ms, first.ms);
done:
    first_run_deinit(&first, session);
    inlay_session_destroy(session);
    return status;
}

int cmd_run(int argc, char **argv)
{
    static const struct argp argp = { flags, parse, "MODEL", doc, NULL, NULL, NULL };
    run_args args = { .values = 8, .rtol = 1e-3, .atol = 1e-5 };
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    int code = CLI_OK;

    cli_parse(&argp, true, argc, argv, &common, &args);
    if (run(&args, &common, &code, &diag) != INLAY_OK)
        code = cli_fail(&common, &diag);
    watched_deinit(&args.watched);
    feed_deinit(&args.feed);
    cli_common_deinit(&common);
    return code;
}
