/* inlay run: one run of a model, its outputs printed and written. */
#include "cli/cli.h"
#include "cli/feed.h"
#include "cli/npy.h"
#include "cli/timing.h"
#include "cli/value.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char doc[] =
    "Runs MODEL once and prints its outputs: name, type, shape, first values, minimum, maximum, mean.\v"
    "Inputs without a value are random; the same --seed gives the same values.\n\n"
    "Examples:\n"
    "  inlay run model.onnx\n"
    "  inlay run model.onnx --input image=cat.npy --outputs out/\n"
    "  inlay run model.onnx --input ids=random:1,128 --dim batch=1 --providers reference\n"
    "  inlay run model.onnx --inputs case/ --json\n";

enum { KEY_OUTPUTS = 0x4000, KEY_VALUES, KEY_TIMEOUT };
static const struct argp_option flags[] = {
    FEED_FLAGS,
    { "outputs", KEY_OUTPUTS, "DIR", 0, "Write each output to DIR/<name>.npy; DIR is made if it is not there", 0 },
    { "values", KEY_VALUES, "N", 0, "Print the first N values of each output (default: 8)", 0 },
    { "timeout-ms", KEY_TIMEOUT, "MS", 0, "Give up after this many milliseconds of running", 0 },
    { 0 },
};

typedef struct run_args {
    feed feed;
    const char *model;
    const char *outputs;
    uint32_t values;
    uint64_t timeout_ms;
} run_args;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    run_args *args = state->input;

    switch (key) {
    case KEY_OUTPUTS:
        args->outputs = arg;
        return 0;
    case KEY_VALUES:
        args->values = (uint32_t)cli_number(state, "--values", arg, 0, UINT32_MAX);
        return 0;
    case KEY_TIMEOUT:
        args->timeout_ms = (uint64_t)cli_number(state, "--timeout-ms", arg, 0, 1e12);
        return 0;
    case ARGP_KEY_ARG:
    case ARGP_KEY_END:
        return cli_parse_model(key, arg, state, &args->model);
    default:
        return feed_parse(&args->feed, key, arg, state);
    }
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
            status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the names of the outputs");
            goto done;
        }
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(paths[k], paths[i]) == 0) {
                status =
                    inlay_fail(diag, INLAY_INVALID_ARGUMENT, "two outputs would both be written to %s.npy", paths[i]);
                goto done;
            }
        }
        if (value != NULL)
            INLAY_TRY(value_save(args->outputs, info.name, value, diag));
    }
done:
    arena_deinit(&a);
    return status;
}

static void print_text(const run_args *args, const cli_common *common, const inlay_session *session,
                       inlay_context *context, double create_ms, double run_ms)
{
    for (uint32_t i = 0; i < inlay_session_output_count(session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        const inlay_value *value = inlay_context_output(context, i);

        if (inlay_session_output(session, i, &info) != INLAY_OK || value == NULL)
            continue;
        value_print(stdout, info.name, value, args->values);
        if (args->outputs != NULL && !common->quiet && npy_note(inlay_value_dtype(value)) != NULL)
            (void)fprintf(stderr, "%s: output '%s' is %s: %s\n", common->verb, info.name,
                          inlay_dtype_name(inlay_value_dtype(value)), npy_note(inlay_value_dtype(value)));
    }
    (void)printf("created in %.1f ms, ran in %.3f ms\n", create_ms, run_ms);
}

static json_t *make_json(const run_args *args, const inlay_session *session, inlay_context *context, double create_ms,
                         double run_ms)
{
    json_t *outputs = json_array();

    for (uint32_t i = 0; i < inlay_session_output_count(session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        const inlay_value *value = inlay_context_output(context, i);

        if (inlay_session_output(session, i, &info) == INLAY_OK && value != NULL)
            (void)json_array_append_new(outputs, value_json(info.name, value, args->values));
    }
    return json_pack("{s:s, s:o, s:f, s:f}", "model", args->model, "outputs", outputs, "create_ms", create_ms, "run_ms",
                     run_ms);
}

static inlay_status run(run_args *args, cli_common *common, int *out_code, inlay_diag *diag)
{
    inlay_run_options options = { .struct_size = sizeof options, .cancel = cli_cancel() };
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    inlay_value **inputs = NULL;
    double start = cli_now_ms(), create_ms, run_ms;
    inlay_status status;

    INLAY_TRY(cli_open(common, args->model, &session, diag));
    create_ms = cli_now_ms() - start;
    INLAY_TRY(feed_make(&args->feed, common, session, &inputs, diag));
    INLAY_TRY(inlay_context_create(session, &context, diag));
    INLAY_TRY(feed_bind(inputs, session, context, diag));
    options.timeout_ns = args->timeout_ms * 1000000;
    start = cli_now_ms();
    INLAY_TRY(inlay_context_run(context, &options, diag));
    run_ms = cli_now_ms() - start;
    if (args->outputs != NULL)
        INLAY_TRY(save_outputs(args, session, context, diag));
    if (common->json)
        *out_code = cli_print_json(common, make_json(args, session, context, create_ms, run_ms), CLI_OK);
    else
        print_text(args, common, session, context, create_ms, run_ms);
done:
    inlay_context_destroy(context);
    feed_release(inputs, session);
    inlay_session_destroy(session);
    return status;
}

int cmd_run(int argc, char **argv)
{
    static const struct argp argp = { flags, parse, "MODEL", doc, NULL, NULL, NULL };
    run_args args = { .values = 8 };
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    int code = CLI_OK;

    cli_parse(&argp, true, argc, argv, &common, &args);
    if (run(&args, &common, &code, &diag) != INLAY_OK)
        code = cli_fail(&common, &diag);
    feed_deinit(&args.feed);
    cli_common_deinit(&common);
    return code;
}
