/* inlay quantize: reduces the bits of a model's weights or computation, and measures the result. */
#include "simd/cpu.h"
#include "base/path.h"
#include "cli/cells.h"
#include "cli/cli.h"
#include "cli/described.h"
#include "cli/outputs.h"
#include "cli/fork_server.h"
#include "cli/inputs.h"
#include "config/options.h"
#include "data/dataset.h"
#include "data/value.h"
#include "quantize/low_bit.h"
#include "quantize/quantize.h"
#include "report/front.h"
#include "session/session.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char doc_quantize[] =
    "Writes MODEL with integers instead of floats. For each layer it reports the change; for the model, the bytes and "
    "the time of a run before and after, and how well the outputs agree.\v"
    "With --data, layers compute with integers (QuantizeLinear and DequantizeLinear around them): ranges, placement "
    "and the layers that stay float are chosen from runs, so that the model is the fastest one that keeps the "
    "agreement. Without --data only the weights become 8-bit integers. A result that agrees less than --at-least, or "
    "is not faster by 3 %, is not written: the unchanged MODEL is written instead, with the reason and exit code 0. "
    "The same happens if no layer can be changed (--json: handed_back). To reduce bytes instead of time, --mode "
    "weights and --pack accept a result of equal speed, and --weights accepts any result.\n\n"
    "The file loads in every runtime that supports its opset, which is raised if necessary: 13 for 8 bits, 21 for 4 "
    "bits with DequantizeLinear. Nothing is written after a failure.\n\n"
    "  --weights 8       8-bit integers, one scale per channel\n"
    "  --weights 4       4-bit integers in blocks that share a scale, for MatMul and\n"
    "                    Gemm; others in 8 bits. With --data the other weights\n"
    "                    compensate for each rounding error\n"
    "  --weights auto    4 or 8 bits for each matrix multiplication: at most\n"
    "                    --bits on average, 8 where 4 would harm the outputs of\n"
    "                    the samples most (--data)\n"
    "  --weights f16     float16, with a Cast before each consumer\n"
    "  --weights exact   float16 if that is lossless\n\n"
    "Samples are given as for inlay compare.\n\n"
    "Examples:\n"
    "  inlay quantize model.onnx -o small.onnx --weights 8\n"
    "  inlay quantize model.onnx -o fast.onnx --data samples/\n"
    "  inlay quantize model.onnx -o small.onnx --weights 4 --format nbits\n"
    "  inlay quantize model.onnx -o q.onnx --skip 'op:Gather' --data samples.npz\n";

enum { MOST_PATTERNS = 256, MOST_NAME = 256 };

struct quantize_flags {
    quantize_args args;
    const char *data, *front;
    const char *patterns[MOST_PATTERNS]; /* of --skip */
    char data_name[MOST_NAME];           /* name of the external file that --pack implies */
    uint32_t samples;
    bool has_mode;
};

static error_t take_weights(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    struct quantize_flags *command = field;

    (void)option;
    if (strcmp(arg, "4") == 0)
        command->args.bits = 4;
    else if (strcmp(arg, "8") == 0)
        command->args.bits = 8;
    else if (strcmp(arg, "f16") == 0)
        command->args.bits = 16;
    else if (strcmp(arg, "auto") == 0)
        command->args.bits = LOW_BIT_MIXED;
    else if (strcmp(arg, "exact") == 0)
        command->args.bits = LOW_BIT_EXACT;
    else
        cli_refuse(state, CLI_USAGE, "--weights %s: expected 4, 8, auto, f16 or exact", arg);
    command->args.must = true;
    return 0;
}

static error_t take_method(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    struct quantize_flags *command = field;
    static const char *const names[] = { "auto", "minmax", "percentile", "entropy", "mse" };

    (void)option;
    for (int i = 0; i <= QUANTIZE_MSE; i++)
        if (strcmp(arg, names[i]) == 0) {
            command->args.method = (quantize_method)i;
            return 0;
        }
    cli_refuse(state, CLI_USAGE, "--method %s: expected auto, minmax, percentile, entropy or mse", arg);
    return 0;
}

static bool finish(void *user, struct argp_state *state)
{
    struct quantize_flags *command = user;

    command->args.front = command->front != NULL;
    if (command->args.output == NULL)
        cli_refuse(state, CLI_USAGE, CLI_OUTPUT_NEED);
    if ((command->args.block & (command->args.block - 1)) != 0)
        cli_refuse(state, CLI_USAGE, "--block %u: expected 16, 32, 64, 128 or 256", command->args.block);
    if (!command->has_mode)
        command->args.mode = command->data != NULL && !command->args.must ? QUANTIZE_STATIC : QUANTIZE_WEIGHTS;
    if (command->args.bits != 4 && command->args.bits != LOW_BIT_MIXED &&
        (command->args.nbits || command->args.block != 32))
        cli_refuse(state, CLI_USAGE, "--block and --format nbits require --weights 4 or auto");
    if (command->args.mode != QUANTIZE_STATIC && command->args.qoperator)
        cli_refuse(state, CLI_USAGE, "--format qoperator requires --mode static");
    if (command->args.bits == LOW_BIT_MIXED && command->data == NULL)
        cli_refuse(state, CLI_USAGE, "--weights auto requires --data: samples determine which weights may have 4 bits");
    if (command->args.mode == QUANTIZE_STATIC && command->data == NULL)
        cli_refuse(state, CLI_USAGE, "--mode static requires --data: the ranges of activations come from samples");
    if (command->args.mode != QUANTIZE_STATIC && command->args.stats != NULL)
        cli_refuse(state, CLI_USAGE, "--stats requires --mode static");
    if (command->args.mode != QUANTIZE_STATIC && command->front != NULL)
        cli_refuse(state, CLI_USAGE, "--front requires --mode static");
    if (command->args.mode != QUANTIZE_WEIGHTS && command->args.must && command->args.bits != 8)
        cli_refuse(state, CLI_USAGE, "--mode static and dynamic support only 8-bit weights");
    if (!isnan(command->args.prune)) {
        if (command->args.must || command->has_mode)
            cli_refuse(state, CLI_USAGE,
                       "--prune keeps weights as floats: quantize its result with another inlay quantize --weights");
        command->args.mode = QUANTIZE_WEIGHTS;
        command->args.must = true;
    }
    command->args.small = command->args.mode == QUANTIZE_WEIGHTS && (command->has_mode || command->args.pack);
    if (command->args.pack && command->args.external == NULL) {
        if ((size_t)snprintf(command->data_name, sizeof command->data_name, "%s.data",
                             path_name(command->args.output)) >= sizeof command->data_name)
            cli_refuse(state, CLI_USAGE,
                       "the output name has more than %zu bytes, so no name of a data file can be derived from it; "
                       "set one with --external",
                       sizeof command->data_name - sizeof ".data");
        command->args.external = command->data_name;
        outputs_set_external(command->data_name);
    }
    return true;
}

static error_t take_mode(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    struct quantize_flags *command = field;

    (void)option;
    command->args.mode = strcmp(arg, "static") == 0    ? QUANTIZE_STATIC
                         : strcmp(arg, "dynamic") == 0 ? QUANTIZE_DYNAMIC
                                                       : QUANTIZE_WEIGHTS;
    if (command->args.mode == QUANTIZE_WEIGHTS && strcmp(arg, "weights") != 0)
        cli_refuse(state, CLI_USAGE, "--mode %s: expected static, dynamic or weights", arg);
    command->has_mode = true;
    return 0;
}

static error_t take_format(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    struct quantize_flags *command = field;

    (void)option;
    command->args.nbits = strcmp(arg, "nbits") == 0;
    command->args.qoperator = strcmp(arg, "qoperator") == 0;
    if (!command->args.nbits && !command->args.qoperator && strcmp(arg, "qdq") != 0)
        cli_refuse(state, CLI_USAGE, "--format %s: expected qdq, qoperator or nbits", arg);
    return 0;
}

static error_t take_pattern(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    struct quantize_flags *command = field;

    (void)option;
    if (command->args.skip_count == MOST_PATTERNS)
        cli_refuse(state, CLI_USAGE, "more than %d patterns to skip", MOST_PATTERNS);
    command->patterns[command->args.skip_count++] = arg;
    return 0;
}

static error_t take_metric(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    struct quantize_flags *command = field;

    (void)option;
    command->args.demand.metric = agree_metric_find(arg);
    if (command->args.demand.metric == AGREE_METRIC_COUNT)
        cli_refuse(state, CLI_USAGE, "--metric %s: expected auto, relative, equal, top1, cosine, kl, psnr, iou or text",
                   arg);
    return 0;
}

static const cli_option options_of_quantize[] = {
    { "output", "FILE", CLI_VERSION_DOC, CLI_CALL(cli_take_version, struct quantize_flags, args.output), .key = 'o' },
    { "mode", "static|dynamic|weights",
      "Compute with integers, or reduce only the weights\v(static: with ranges fixed now; dynamic: found in each run; "
      "default: static with --data, weights without)",
      CLI_CALL_ALL(take_mode) },
    { "method", "METHOD",
      "Ranges: auto, minmax, percentile, entropy or mse\vof activations (default: auto, the one that agrees best)",
      CLI_CALL_ALL(take_method) },
    { "weights", "4|8|auto|f16|exact", "Type of the weights (default: 8)", CLI_CALL_ALL(take_weights) },
    { "block", "N",
      "Weights that share a scale, 16 to 256 (default: 32)\v; with --weights 4 and auto: 16, 32, 64, 128 or 256",
      CLI_NUMBER(struct quantize_flags, args.block, 16, 256) },
    { "bits", "X", "With --weights auto: average bits per weight (default: 6)\vincluding scales",
      CLI_NUMBER(struct quantize_flags, args.most_bits, 4, 9) },
    { "format", "qdq|qoperator|nbits",
      "Operators for integers (default: qdq)\v; qdq: DequantizeLinear and QuantizeLinear; qoperator, with --mode "
      "static: "
      "QLinearConv and QLinearMatMul; nbits, with --weights 4 and auto: MatMulNBits of com.microsoft",
      CLI_CALL_ALL(take_format) },
    { "skip", "GLOB", "Do not change these nodes: names, or op:GLOB\vfor operators; may be repeated",
      CLI_CALL_ALL(take_pattern) },
    { "data", "DIR|FILE", "Samples to compare on: a folder, .npz or .csv file\v; pictures for a model that takes them",
      CLI_TEXT(struct quantize_flags, data) },
    { "samples", "N", "Use at most N samples (default: all; random ones: 8)",
      CLI_NUMBER(struct quantize_flags, samples, 1, 1e7) },
    { "metric", "METRIC",
      "Agreement of outputs, as for inlay compare\v(default: auto, and text if samples are lines of text; without "
      "--data relative)",
      CLI_CALL_ALL(take_metric) },
    { "at-least", "X",
      "The agreement to keep (default: 0.99; relative: 0.9)\v(kl: at most 0.01; text: 0.95 on lines that are not "
      "samples, with 95 % "
      "confidence)",
      CLI_NUMBER(struct quantize_flags, args.demand.goal, -1e300, 1e300) },
    { "front", "FILE",
      "Write an HTML page with all candidates of --mode static\vby time and agreement; - is standard output",
      CLI_WRITE(struct quantize_flags, front) },
    { "stats", "FILE", "Keep measurements in FILE\vso that a stopped search continues from there",
      CLI_UPDATE(struct quantize_flags, args.stats) },
    { "external", "NAME", "Put large tensors into the file NAME\vin the folder of the output",
      CLI_CALL(cli_take_external, struct quantize_flags, args.external) },
    { "prune", "SHARE",
      "Instead of fewer bits: set this share of the weights to zero\v(0 to 0.99, of the blocks of 16 weights of each "
      "matrix multiplication); such blocks are neither stored in memory nor multiplied. Zero or unused channels are "
      "removed",
      CLI_NUMBER(struct quantize_flags, args.prune, 0, 0.99) },
    { "pack", NULL,
      "Compress that file with zstd, for inlay alone\v(without --external: OUTPUT.data); no other runtime loads such "
      "models",
      CLI_SET(struct quantize_flags, args.pack) },
    CLI_MODEL(struct quantize_flags, args.model),
    { 0 },
};

static void add_layers(struct table *table, const quantize_report *report)
{
    enum { NAME, OP, BITS, INTEGERS, BEFORE, AFTER, KEPT, COLUMNS };
    static const table_column columns[COLUMNS] = {
        [NAME] = { "layer", "name", TABLE_NAME },
        [OP] = { "operator", "op", TABLE_NAME },
        [BITS] = { "weights", "bits", TABLE_NAME },
        [INTEGERS] = { NULL, "integers", TABLE_NAME },
        [BEFORE] = { "bytes", "bytes_before", TABLE_NUMBER },
        [AFTER] = { "quantized", "bytes_after", TABLE_NUMBER },
        [KEPT] = { "", "kept", TABLE_TEXT },
    };

    *table = (struct table){ .columns = columns, .column_count = COLUMNS };
    for (uint32_t i = 0; i < report->layer_count; i++) {
        const quantize_layer *layer = &report->layers[i];

        table_row(table);
        table_text(table, NAME, layer->name);
        table_text(table, OP, layer->op);
        table_whole(table, BITS, layer->bits);
        if (layer->bits >= 16)
            table_say(table, BITS, "%s", layer->bits == 32 ? "float" : "float16");
        else
            table_say(table, BITS, "%u bits", layer->bits);
        table_truth(table, INTEGERS, layer->integers, "");
        table_whole(table, BEFORE, (int64_t)layer->bytes_before);
        table_whole(table, AFTER, (int64_t)layer->bytes_after);
        table_text(table, KEPT, layer->kept);
    }
}

static json_t *report_json(const struct quantize_flags *command, const quantize_report *report, json_t *layers)
{
    return json_pack(
        "{s:s, s:s, s:s?, s:s?, s:s?, s:I, s:I, s:f, s:f, s:s, s:s, s:f, s:f, s:f, s:o, s:i, s:b, s:f, s:o}", "output",
        cli_text(command->args.output), "what", report->handed != NULL ? "the unchanged model" : report->what, "tried",
        report->handed != NULL ? report->what : NULL, "handed_back", report->handed, "unmeasured", report->unmeasured,
        "bytes_before", (json_int_t)report->bytes_before, "bytes_after", (json_int_t)report->bytes_after, "ms_before",
        report->ms_before, "ms_after", report->ms_after, "metric", agree_metric_name(report->agreement.metric),
        "worst_output", report->agreement.output, "agreement", report->agreement.score.value, "low",
        report->agreement.score.low, "high", report->agreement.score.high, "relative_error",
        value_number_json(report->agreement.relative), "samples", (int)report->agreement.samples, "made_up",
        command->data == NULL, "seconds", report->seconds, "layers", layers);
}

/* States why the file is not smaller, if it is not. */
static void print_size(const quantize_report *report)
{
    uint64_t bytes = 0;

    (void)printf("bytes      %llu -> %llu (%.1f %%)\n", (unsigned long long)report->bytes_before,
                 (unsigned long long)report->bytes_after,
                 report->bytes_before > 0 ? 100 * (double)report->bytes_after / (double)report->bytes_before : 100);
    for (uint32_t i = 0; i < report->layer_count; i++)
        bytes += report->layers[i].bits < 32 ? report->layers[i].bytes_before : 0;
    if (report->handed == NULL && report->bytes_after / 9 > report->bytes_before / 10)
        (void)printf("           about as large as before: only %llu bytes were weights of layers that are now "
                     "quantized\n",
                     (unsigned long long)bytes);
}

static void print_report(const struct quantize_flags *command, const quantize_report *report, struct table *layers)
{
    cells_print(layers);
    if (report->handed != NULL)
        (void)printf("%s: the unchanged model, because %s\n", command->args.output, report->handed);
    else
        (void)printf("%s: %s\n", command->args.output, report->what);
    print_size(report);
    if (report->unmeasured != NULL)
        (void)printf("not compared, because the model rejects random inputs (use --data): %s\n", report->unmeasured);
    if (report->ms_before > 0)
        (void)printf("run time   %.3g ms -> %.3g ms%s\n", report->ms_before, report->ms_after,
                     report->handed != NULL ? " (rejected result)" : "");
    if (report->agreement.samples > 0)
        (void)printf("agreement  %.6g (%s, 95 %%: %.6g to %.6g) of output '%s' on %u%s samples%s\n",
                     report->agreement.score.value, agree_metric_name(report->agreement.metric),
                     report->agreement.score.low, report->agreement.score.high, report->agreement.output,
                     report->agreement.samples, command->data == NULL ? " random" : "",
                     report->handed != NULL ? " (rejected result)" : "");
    if (report->agreement.samples > 0)
        (void)printf("error      %.3g (relative, the largest of an output)\n", report->agreement.relative);
}

static void print_note(void *user, const char *text)
{
    (void)user;
    cli_progress_clear();
    (void)fprintf(stderr, "tried: %s\n", text);
}

/* The arguments of time_fresh(). */
struct timing {
    const struct quantize_flags *command;
    cli_common common;
};

/* Runs in the fork server: the time of the model at path on the first sample. */
static double time_fresh(void *user, const char *path)
{
    struct timing *timing = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;
    struct dataset *set = NULL;
    struct samples list;
    double ms = NAN;
    inlay_status status;

    timing->common.quiet = true; /* the parent process logs once */
    timing->common.verbose = false;
    cli_attach(&timing->common);
    INLAY_TRY(described_open(&timing->common, timing->command->args.model, timing->command->data,
                             timing->command->samples, &session, &set, &diag));
    list = dataset_samples(set);
    /* Uses the cache, as users do: mapped packed weights have other page placement than weights packed just now. */
    INLAY_TRY(evaluate_time_alone(&list, path, timing->common.options, QUANTIZE_TIMED_S, &ms, &diag));
done:
    dataset_close(set);
    inlay_session_destroy(session);
    return status == INLAY_OK ? ms : NAN;
}

static bool request_time(void *user, const char *path, double *out_ms)
{
    return fork_server_call(user, path, out_ms);
}

int cmd_quantize(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_quantize, options_of_quantize, finish };
    static struct quantize_flags command = { .args = { .bits = 8, .most_bits = 6, .block = 32, .prune = NAN } };
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    quantize_report report = { 0 };
    struct table layers;
    struct timing timing = { .command = &command };
    struct fork_server server;
    inlay_session *session = NULL;
    struct dataset *set = NULL;
    struct samples list;
    int code = CLI_OK;
    inlay_status status;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &command);
    command.args.skip = command.patterns;
    command.args.options = common.options;
    command.args.calls.progress = cli_progress;
    command.args.calls.note = common.verbose ? print_note : NULL;
    common.many_sessions = true; /* one progress bar for all sessions */
    timing.common = common;
    if (fork_server_start(&server, time_fresh, &timing)) {
        command.args.calls.timer = request_time;
        command.args.calls.timer_user = &server;
    }
    INLAY_TRY(described_open(&common, command.args.model, command.data, command.samples, &session, &set, &diag));
    list = dataset_samples(set);
    command.args.data = &list;
    command.args.made_up = command.data == NULL;
    if (command.data == NULL &&
        command.args.demand.metric == AGREE_auto) /* class decisions on random inputs mean nothing */
        command.args.demand.metric = AGREE_relative;
    INLAY_TRY(quantize_model(&command.args, &report, &diag));
    cli_progress_clear();
    if (command.front != NULL)
        INLAY_TRY(front_write(command.front, command.args.model, &report, &diag));
    add_layers(&layers, &report);
    if (common.json)
        code = cli_print_json(&common, report_json(&command, &report, cells_json(&layers)), CLI_OK);
    else
        print_report(&command, &report, &layers);
done:
    if (status != INLAY_OK)
        code = cli_fail(&common, &diag);
    fork_server_stop(&server);
    quantize_report_deinit(&report);
    dataset_close(set);
    inlay_session_destroy(session);
    cli_common_deinit(&common);
    return code;
}
