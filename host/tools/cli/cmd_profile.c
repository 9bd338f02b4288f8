/* inlay profile: the time of each step, compared with the limits of the machine. */
#include "api/context.h"
#include "base/output.h"
#include "base/wire.h"
#include "cli/cli.h"
#include "cli/inputs.h"
#include "cli/screen.h"
#include "profile/profile.h"
#include "report/page.h"
#include "timing/timing.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char doc_profile[] =
    "Runs MODEL and shows each step, and each kernel within regions whose provider reports them: time, operations and "
    "bytes per second, the share of the machine's peak, memory in use.\v"
    "A kernel has the name of its node; its time includes fused nodes. More than 100 % of the peak means that a kernel "
    "needs fewer operations than the operator has (Winograd), or that its data fit in a cache.\n\n"
    "The files of --trace open in Perfetto or chrome://tracing, those of --stacks in flame graph scripts, the page of "
    "--html in any browser.\n\n"
    "Examples:\n"
    "  inlay profile model.onnx\n"
    "  inlay profile model.onnx --seconds 3 --html profile.html --trace trace.json\n";

typedef struct profile_args {
    struct feed feed;
    const char *model;
    const char *trace, *stacks, *html, *from;
    double seconds;
    uint32_t runs;
    bool no_peak;
} profile_args;

static const cli_option options_of_profile[] = {
    { "seconds", "S", "Run for S seconds (default: 1)", CLI_NUMBER(profile_args, seconds, 0, 1e6) },
    { "runs", "N", "Stop after N runs (default: 100)", CLI_NUMBER(profile_args, runs, 1, 4000) },
    { "trace", "FILE", "Write Chrome's trace events to FILE; - is standard output", CLI_WRITE(profile_args, trace) },
    { "stacks", "FILE", "Write folded stacks to FILE", CLI_WRITE(profile_args, stacks) },
    { "html", "FILE", "Write an HTML page with timeline, graph and roofline to FILE", CLI_WRITE(profile_args, html) },
    { "from", "FILE",
      "With --html: show the JSON in FILE, written by --json or by a program that calls the library, instead of MODEL",
      CLI_READ(profile_args, from) },
    { "no-peak", NULL, "Do not measure the peak performance of the machine", CLI_SET(profile_args, no_peak) },
    FEED_OPTIONS(profile_args, feed),
    CLI_MODEL(profile_args, model),
    { 0 },
};

static bool finish(void *user, struct argp_state *state)
{
    const profile_args *args = user;

    if (args->from == NULL)
        return true;
    if (args->html == NULL || args->model != NULL)
        cli_refuse(state, CLI_USAGE, "--from requires --html, and no MODEL");
    return false;
}

/* Runs for the given time, at most `runs` times, after two warm-up runs. *out_best_ms is the shortest time in
 * milliseconds. */
static inlay_status run_for(inlay_context *context, bool profiled, double seconds, uint32_t runs, double *out_best_ms,
                            inlay_diag *diag)
{
    const inlay_run_options run = { .struct_size = sizeof run, .cancel = cli_cancel() };
    const timing_plan plan = {
        .seconds = seconds, .least = 1, .most = runs, .progress = profiled ? cli_progress : NULL, .what = "profiling"
    };
    run_times times = { 0 };
    inlay_status status;

    INLAY_TRY(timing_warm_up(context, &run, 2, diag));
    if (profiled)
        INLAY_TRY(inlay_context_profile(context, 1, 0, diag));
    INLAY_TRY(timing_context(&plan, context, &run, &times, diag));
    timing_sort(&times);
    *out_best_ms = times.ms[0];
done:
    free(times.ms);
    return status;
}

/* The peak of the machine.
 *
 * A matrix multiplication that fits in the caches gives the peak of operations, a sum of tensors that does not fit
 * gives the peak of bytes. Both use the same providers and threads as the profile. */

static void put_input(struct wire *wire, uint32_t field, const char *name, inlay_dtype dtype, const int64_t *dims,
                      uint32_t rank)
{
    wire_mark value = wire_begin(wire, field), type, tensor, shape;

    wire_text(wire, 1, name);
    type = wire_begin(wire, 2);
    tensor = wire_begin(wire, 1);
    wire_int(wire, 1, dtype);
    shape = wire_begin(wire, 2);
    for (uint32_t d = 0; d < rank; d++) {
        wire_mark dim = wire_begin(wire, 1);
        wire_int(wire, 1, dims[d]);
        wire_end(wire, dim);
    }
    wire_end(wire, shape);
    wire_end(wire, tensor);
    wire_end(wire, type);
    wire_end(wire, value);
}

/* Writes the model y = op(a, b) for two tensors of equal shape and type. If `weights` is not NULL, b is a constant with
 * these contents; it is int8 if a is uint8. */
static void write_model(struct wire *wire, const char *op, inlay_dtype dtype, const int64_t *dims, uint32_t rank,
                        const void *weights, size_t bytes)
{
    const bool integers = dtype == INLAY_UINT8;
    wire_mark part, node;

    wire_int(wire, 1, 8);
    part = wire_begin(wire, 8);
    wire_int(wire, 2, 14);
    wire_end(wire, part);
    part = wire_begin(wire, 7);
    node = wire_begin(wire, 1);
    wire_text(wire, 1, "a");
    wire_text(wire, 1, "b");
    wire_text(wire, 2, "y");
    wire_text(wire, 4, op);
    wire_end(wire, node);
    wire_text(wire, 2, "peak");
    if (weights != NULL) {
        node = wire_begin(wire, 5);
        for (uint32_t d = 0; d < rank; d++)
            wire_int(wire, 1, dims[d]);
        wire_int(wire, 2, integers ? INLAY_INT8 : dtype);
        wire_text(wire, 8, "b");
        wire_bytes(wire, 9, weights, bytes);
        wire_end(wire, node);
    }
    put_input(wire, 11, "a", dtype, dims, rank);
    if (weights == NULL)
        put_input(wire, 11, "b", dtype, dims, rank);
    put_input(wire, 12, "y", integers ? INLAY_INT32 : dtype, dims, rank);
    wire_end(wire, part);
}

/* Options for the models above: options about the user's model (sizes, pins) are not copied. NULL: no memory. */
static inlay_options *bare_options(const inlay_options *from)
{
    static const char *const kept[] = { "providers", "plugin_dirs", "plugin_allow", "intra_threads",
                                        "cache_dir", "precision",   "isa" };
    inlay_options *options = NULL;

    if (inlay_options_create(&options, NULL) != INLAY_OK)
        return NULL;
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        size_t bytes = 0;
        char *text = NULL;

        if (inlay_options_get(from, kept[i], NULL, 0, &bytes, NULL) == INLAY_OK)
            text = malloc(bytes);
        if (text != NULL && inlay_options_get(from, kept[i], text, bytes, NULL, NULL) == INLAY_OK)
            (void)inlay_options_set(options, kept[i], text, NULL); /* the value was valid before */
        free(text);
    }
    return options;
}

/* The shortest run of the model in seconds; 0 if it cannot be run. */
static double best_seconds(const inlay_options *options, const char *op, inlay_dtype dtype, const int64_t *dims,
                           uint32_t rank)
{
    const bool has_weights = strcmp(op, "Add") != 0;
    const size_t bytes = has_weights ? (size_t)(dims[0] * dims[1]) * inlay_dtype_bits(dtype) / 8 : 0;
    void *weights = has_weights ? malloc(bytes) : NULL;
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    double best_ms = 0;
    struct wire wire = { 0 };
    inlay_status status;

    if (weights != NULL)
        feed_random(dtype == INLAY_UINT8 ? INLAY_INT8 : dtype, weights, dims[0] * dims[1], 7);
    write_model(&wire, op, dtype, dims, rank, weights, bytes);
    free(weights);
    status = wire.failed ? INLAY_OUT_OF_MEMORY
                         : inlay_session_create_from_bytes(wire.bytes, wire.count, options, &session, NULL);
    if (status == INLAY_OK)
        status = inlay_context_create(session, &context, NULL);
    for (uint32_t i = 0; status == INLAY_OK && i < (has_weights ? 1 : 2); i++) {
        inlay_value *value = NULL;

        status = inlay_value_create(dtype, rank, dims, &value, NULL);
        if (status == INLAY_OK) {
            feed_random(dtype, inlay_value_data(value), inlay_value_count(value), i);
            status = inlay_context_set_input(context, i, value, NULL);
        }
        inlay_value_unref(value);
    }
    if (status == INLAY_OK)
        status = run_for(context, false, 0.15, 1000, &best_ms, NULL);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    wire_deinit(&wire);
    return status == INLAY_OK ? best_ms / 1e3 : 0;
}

/* Sets the rates of the machine; a rate that cannot be measured stays 0. */
static void measure_peaks(const inlay_options *from, inlay_profile_options *out)
{
    static const int64_t square[] = { 512, 512 }, line[] = { 16 << 20 };
    inlay_options *options = bare_options(from);
    double product = best_seconds(options, "MatMul", INLAY_FLOAT, square, 2);
    double integers = best_seconds(options, "MatMulInteger", INLAY_UINT8, square, 2);
    double halves = best_seconds(options, "MatMul", INLAY_FLOAT16, square, 2);
    double sum = best_seconds(options, "Add", INLAY_FLOAT, line, 1);

    inlay_options_destroy(options);
    out->peak_flops_per_s = product > 0 ? 2.0 * 512 * 512 * 512 / product : 0;
    out->peak_integer_ops_per_s = integers > 0 ? 2.0 * 512 * 512 * 512 / integers : 0;
    out->peak_half_flops_per_s = halves > 0 ? 2.0 * 512 * 512 * 512 / halves : 0;
    out->peak_bytes_per_s = sum > 0 ? 3.0 * (16 << 20) * sizeof(float) / sum : 0;
}

/* Writes one of the files; path NULL: not requested. */
static inlay_status write_format(const inlay_context *context, const char *format, const char *path,
                                 inlay_profile_options options, inlay_diag *diag)
{
    output_file file = { .fd = -1 };
    inlay_status status;

    if (path == NULL)
        return INLAY_OK;
    INLAY_TRY(output_open_stream(&file, path, diag));
    options.format = format;
    INLAY_TRY(inlay_context_profile_write(context, &options, say_to_file, file.to, diag));
    status = output_commit(&file, NULL, diag);
done:
    output_drop(&file);
    return status;
}

/* Writes the page: the profile, and the graph of the session; path NULL: not requested. */
static inlay_status write_page(const inlay_session *session, const inlay_context *context, const char *path,
                               inlay_profile_options options, inlay_diag *diag)
{
    const inlay_explain_options explain = { .struct_size = sizeof explain,
                                            .format = "json",
                                            .flags = INLAY_EXPLAIN_KERNELS };
    output_file file = { .fd = -1 };
    inlay_status status;

    if (path == NULL)
        return INLAY_OK;
    INLAY_TRY(output_open_stream(&file, path, diag));
    page_script_begin(file.to, &page_profile);
    options.format = "json";
    INLAY_TRY(inlay_context_profile_write(context, &options, page_script_json, file.to, diag));
    page_script_graph(file.to);
    INLAY_TRY(inlay_session_explain(session, &explain, page_script_json, file.to, diag));
    page_script_end(file.to, &page_profile);
    status = output_commit(&file, NULL, diag);
done:
    output_drop(&file);
    return status;
}

static inlay_status profile_model(cli_common *common, profile_args *args, inlay_diag *diag)
{
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    inlay_value **inputs = NULL;
    inlay_profile_options how = { .struct_size = sizeof how, .format = common->json ? "json" : "text" };
    const explain_sink sink = screen_sink();
    double best;
    inlay_status status = INLAY_OK;

    if (args->from != NULL) {
        cli_reads_none(common, "--from");
        return page_script_convert(&page_profile, args->from, args->html, diag);
    }
    INLAY_TRY(cli_open(common, args->model, &session, diag));
    args->feed.trial = true;
    INLAY_TRY(feed_make(&args->feed, cli_caller(common), session, &inputs, diag));
    INLAY_TRY(inlay_context_create(session, &context, diag));
    INLAY_TRY(feed_bind(inputs, session, context, diag));
    INLAY_TRY(run_for(context, true, args->seconds, args->runs, &best, diag));
    if (!args->no_peak)
        measure_peaks(common->options, &how);
    cli_progress_clear();
    INLAY_TRY(profile_write(profile_of(context->measuring), &how, &sink, diag));
    INLAY_TRY(write_format(context, "trace", args->trace, how, diag));
    INLAY_TRY(write_format(context, "stacks", args->stacks, how, diag));
    INLAY_TRY(write_page(session, context, args->html, how, diag));
done:
    cli_progress_clear();
    if (session != NULL)
        feed_release(inputs, session);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    return status;
}

int cmd_profile(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_profile, options_of_profile, finish };
    profile_args args = { .seconds = 1, .runs = 100 };
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    int code = CLI_OK;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    if (profile_model(&common, &args, &diag) != INLAY_OK)
        code = cli_fail(&common, &diag);
    feed_deinit(&args.feed);
    cli_common_deinit(&common);
    return code;
}
