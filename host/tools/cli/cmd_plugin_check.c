/* inlay plugin-check: tests a plugin against its contract. The checks are in host/tools/check. */
#include "base/among.h"
#include "base/output.h"
#include "check/check.h"
#include "cli/cli.h"
#include "cli/outputs.h"
#include "cli/screen.h"
#include "inlay/check.h"
#include "model/model.h"
#include "session/session.h"
#include <ftw.h>
#include <string.h>

static const char doc_plugin_check[] =
    "Tests the plugin FILE against the contract of inlay/plugin.h: its file, its description, its offers, its results "
    "(compared with the reference provider), its memory, its costs, how it is cancelled and unloaded.\v"
    "Each line begins with PASS, FAIL, WARN or SKIP. The plugin runs in separate processes, so a crash is a FAIL line "
    "that names the phase and the operator. The last line is 'N passed, N failed, N warnings'; the exit code is 1 if a "
    "check failed.\n\n"
    "Examples:\n"
    "  inlay plugin-check build/mine.so\n"
    "  inlay plugin-check build/mine.so --op 'Conv*' --quick --json\n"
    "  inlay plugin-check build/fast_blur.so --with build/blur.so\n"
    "  inlay plugin-check --ort-ep /opt/vendor/libvendor_ep.so --certificate vendor.trust\n";

typedef struct plugin_check_args {
    check_args check;
    const char *ort_ep; /* NULL: a plugin is checked */
    bool child;
} plugin_check_args;

static error_t take_option(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    plugin_check_args *args = field;

    (void)option;
    if (args->check.option_count == CHECK_OPTIONS || strchr(arg, '=') == NULL)
        cli_refuse(state, CLI_USAGE, "--option %s: expected NAME=VALUE, at most %d times", arg, CHECK_OPTIONS);
    args->check.options[args->check.option_count++] = arg;
    return 0;
}

static error_t take_model(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    plugin_check_args *args = field;

    (void)option;
    if (args->check.model_count == CHECK_MODELS)
        cli_refuse(state, CLI_USAGE, "--model %s: at most %d times", arg, CHECK_MODELS);
    args->check.models[args->check.model_count++] = arg;
    return 0;
}

static error_t take_from(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    plugin_check_args *args = field;

    (void)option;
    args->check.child.from = (uint32_t)cli_number(state, "--from", arg, 0, 1e9);
    args->child = true;
    return 0;
}

static error_t take_plugin(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    const char **file = field;

    (void)option;
    if (*file != NULL)
        cli_refuse(state, CLI_USAGE, "unexpected argument '%s': only one plugin can be checked", arg);
    *file = arg;
    return 0;
}

static error_t take_ort_ep(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    plugin_check_args *args = field;

    args->ort_ep = arg;
    return take_plugin(option, &args->check.file, arg, state);
}

static const cli_option options_of_plugin_check[] = {
    { "ort-ep", "LIB", "Check the library of an execution provider for ONNX Runtime, through provider ort_ep",
      CLI_CALL_ALL(take_ort_ep) },
    { "provider", "NAME", "Check this provider only", CLI_TEXT(plugin_check_args, check.provider) },
    { "option", "NAME=VALUE", "Set an option of its providers, or of one, as PROVIDER.NAME=VALUE (repeatable)",
      CLI_CALL_ALL(take_option) },
    { "op", "GLOB", "Check operators of this type only, as 'Conv*'", CLI_TEXT(plugin_check_args, check.op) },
    { "with", "FILE", "Load another plugin too: its operators become known, and results are compared with its provider",
      CLI_TEXT(plugin_check_args, check.with) },
    { "certificate", "FILE", "Write where the results agreed, for option trust",
      CLI_WRITE(plugin_check_args, check.certificate) },
    { "data", "DIR", "Also run the ONNX test cases in DIR (1 to 64 nodes)", CLI_TEXT(plugin_check_args, check.data) },
    { "model", "FILE", "Also run each node of the model alone (repeatable)", CLI_CALL_ALL(take_model) },
    { "seed", "N", "Seed of generated graphs and values (default: 0)",
      CLI_NUMBER(plugin_check_args, check.seed, 0, 1e15) },
    { "quick", NULL, "Fewer shapes, types, versions: seconds, not minutes", CLI_SET(plugin_check_args, check.quick) },
    { "strict", NULL, "Fail if a known operator cannot be run", CLI_SET(plugin_check_args, check.strict) },
    { "no-timing", NULL, "Skip checks that depend on time, for a busy machine",
      CLI_SET(plugin_check_args, check.no_timing) },
    { "isolate", NULL, "Check its calls in a separate process", CLI_SET(plugin_check_args, check.isolate) },
    { "may-abort", NULL, "An abort when memory runs out is only a warning",
      CLI_SET(plugin_check_args, check.may_abort) },
    { "time-limit", "SECONDS", "Longest call of the plugin (default: 60)",
      CLI_NUMBER(plugin_check_args, check.time_limit, 0.1, 86400) },
    { "compile-budget", "SECONDS", "Time of all compiles (default: 400, 40 if --quick)",
      CLI_NUMBER(plugin_check_args, check.compile_budget, 0.1, 1e6) },
    { "max-compiles", "N", "Most compiles of the plugin (default: any number)",
      CLI_NUMBER(plugin_check_args, check.max_compiles, 1, 1e9) },
    { "group", "NAME,...",
      "Only these checks: file, open, offers, device, memory, fences, infer, examples, operators, results, random, "
      "models, values, sharing, "
      "control, regions, patterns, cost, cancel, cache, leaks",
      CLI_TEXT(plugin_check_args, check.child.group) },
    { "from", "N", NULL, CLI_CALL_ALL(take_from), .flags = OPTION_HIDDEN },
    { "certify", NULL, NULL, CLI_SET(plugin_check_args, check.child.certify), .flags = OPTION_HIDDEN },
    { "again", NULL, NULL, CLI_SET(plugin_check_args, check.child.again), .flags = OPTION_HIDDEN },
    { "work", "DIR", NULL, CLI_TEXT(plugin_check_args, check.child.work), .flags = OPTION_HIDDEN },
    { "foreign", NULL, NULL, CLI_SET(plugin_check_args, check.foreign), .flags = OPTION_HIDDEN },
    { .need = "no plugin file given", CLI_CALL(take_plugin, plugin_check_args, check.file) },
    { 0 },
};

static const char *const words[CHECK_RESULTS] = { "PASS", "FAIL", "WARN", "SKIP" };
static const char *const colours[CHECK_RESULTS] = { "\033[32m", "\033[31m", "\033[33m", "\033[0m" };

struct output {
    bool json;
    json_t *lines;
};

static void report_line(void *user, const check_line *line)
{
    struct output *output = user;

    const bool coloured = screen_sink().bold;

    INLAY_CHECK(line->result < CHECK_RESULTS);
    if (output->json) {
        (void)json_array_append_new(output->lines,
                                    json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "result", words[line->result], "check",
                                              line->check, "subject", line->subject, "expected", line->expected, "got",
                                              line->got, "fix", line->fix));
        return;
    }
    (void)printf("%s%s  %s%s%s: %s%s\n", coloured ? colours[line->result] : "", words[line->result], line->check,
                 line->subject[0] != '\0' ? " " : "", line->subject, line->got, coloured ? "\033[0m" : "");
    if (line->expected[0] != '\0')
        (void)printf("      expected: %s\n", line->expected);
    if (line->fix[0] != '\0')
        (void)printf("      fix: %s\n", line->fix);
    screen_flush();
}

/* " file open ..." */
static const char group_names[] =
#define GROUP(name_, doc_, left_out_) " " #name_
#include "check/groups.def"
#undef GROUP
    ;

/* Is the text NULL, or a list of names of groups? */
static bool are_groups(const char *list)
{
    char name[64];

    while (list != NULL) {
        const size_t bytes = strcspn(list, ",");

        (void)snprintf(name, sizeof name, "%.*s", (int)bytes, list);
        if (!is_among(name, group_names + 1))
            return false;
        list = list[bytes] == ',' ? list + bytes + 1 : NULL;
    }
    return true;
}

static int note_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)at;
    if (kind == FTW_F)
        output_note_read_path(path);
    return 0;
}

static inlay_status open_model(const char *path, const graph_model **out, void **out_owner, inlay_diag *diag)
{
    const session_source source = { .path = path, .fd = -1 };
    inlay_session *session = NULL;
    const inlay_status status = session_prepare(&source, NULL, NULL, &session, diag);

    *out = status == INLAY_OK ? session->model : NULL;
    *out_owner = session;
    return status;
}

static void close_model(void *owner)
{
    inlay_session_destroy(owner);
}

/* The certificate must not replace a file that the checks read, which other processes do. */
static inlay_status protect_inputs(const check_args *args, inlay_diag *diag)
{
    if (args->file != NULL)
        output_note_read_path(args->file);
    if (args->with != NULL)
        output_note_read_path(args->with);
    for (uint32_t i = 0; i < args->option_count; i++) /* a value may name a file */
        output_note_read_path(strchr(args->options[i], '=') + 1);
    for (uint32_t i = 0; i < args->model_count && args->certificate != NULL; i++) { /* and its external data */
        graph_model *model = NULL;
        const inlay_status status = model_load_path(args->models[i], NULL, &model, diag);

        graph_model_destroy(model);
        if (status != INLAY_OK)
            return status;
    }
    if (args->data != NULL && args->certificate != NULL)
        (void)nftw(args->data, note_entry, 8, 0);
    return outputs_check(diag);
}

int cmd_plugin_check(int argc, char **argv)
{
    static const cli_verb verb = { "FILE", doc_plugin_check, options_of_plugin_check, NULL };
    plugin_check_args args = { .check = { .time_limit = 60, .open_model = open_model, .close_model = close_model } };
    inlay_diag diag = INLAY_DIAG_INIT;
    check_summary summary = { { 0 } };
    struct output output = { 0 };
    check_ort_ep_texts texts;
    cli_common common;
    inlay_status status = INLAY_OK;
    int code = CLI_OK;

    cli_parse(&verb, CLI_SETTINGS_NONE, argc, argv, &common, &args);
    status = protect_inputs(&args.check, &diag);
    if (status == INLAY_OK && !are_groups(args.check.child.group))
        status = inlay_fail(&diag, INLAY_INVALID_ARGUMENT, "--group %s: expected one of%s", args.check.child.group,
                            group_names);
    else if (status == INLAY_OK && args.ort_ep != NULL)
        status = check_through_ort_ep(&args.check, args.ort_ep, &texts, &diag);
    if (status != INLAY_OK) {
        code = cli_fail(&common, &diag);
        cli_common_deinit(&common);
        return code;
    }
    if (args.check.compile_budget == 0)
        args.check.compile_budget = args.check.quick ? 40 : 400;
    if (args.child) {
        code = check_child(&args.check);
        cli_common_deinit(&common);
        return code;
    }
    output.json = common.json;
    output.lines = json_array();
    cli_catch_interrupt();
    status = check_plugin(&args.check, cli_cancel(), report_line, &output, &summary, &diag);
    if (status != INLAY_OK) {
        code = cli_fail(&common, &diag);
        json_decref(output.lines);
    } else {
        code = summary.counts[CHECK_FAIL] > 0 ? CLI_FAILED : CLI_OK;
        if (common.json) {
            code = cli_print_json(&common,
                                  json_pack("{s:o, s:i, s:i, s:i, s:i}", "checks", output.lines, "passed",
                                            (int)summary.counts[CHECK_PASS], "failed", (int)summary.counts[CHECK_FAIL],
                                            "warnings", (int)summary.counts[CHECK_WARN], "skipped",
                                            (int)summary.counts[CHECK_SKIP]),
                                  code);
        } else {
            (void)printf("%u passed, %u failed, %u warnings\n", summary.counts[CHECK_PASS], summary.counts[CHECK_FAIL],
                         summary.counts[CHECK_WARN]);
            json_decref(output.lines);
        }
    }
    cli_common_deinit(&common);
    return code;
}
