/* inlay plugin-check: a plugin held against its contract. The checks are in host/tools/check. */
#include "check/check.h"
#include "cli/cli.h"
#include <string.h>

static const char doc[] =
    "Tests the plugin FILE against the contract of inlay/plugin.h: its file, its description, its offers, its results "
    "(compared with the reference provider), its memory, its costs, how it is cancelled and unloaded.\v"
    "Each line begins with PASS, FAIL, WARN or SKIP. The plugin runs in processes of its own, so one that crashes is a "
    "FAIL line that names the phase and the operator. The last line is 'N passed, N failed, N warnings'; the exit code "
    "is 1 when something failed.\n\n"
    "Examples:\n"
    "  inlay plugin-check build/mine.so\n"
    "  inlay plugin-check build/mine.so --op 'Conv*' --quick --json\n"
    "  inlay plugin-check build/fast_blur.so --with build/blur.so\n";

enum {
    KEY_WITH = 0x4000,
    KEY_PROVIDER,
    KEY_OP,
    KEY_SEED,
    KEY_QUICK,
    KEY_LIMIT,
    KEY_DATA,
    KEY_GROUP,
    KEY_FROM,
    KEY_OPTION,
    KEY_NO_TIMING
};
static const struct argp_option flags[] = {
    { "provider", KEY_PROVIDER, "NAME", 0, "Check this provider only", 0 },
    { "option", KEY_OPTION, "NAME=VALUE", 0, "Set an option of its providers; may be given several times", 0 },
    { "op", KEY_OP, "GLOB", 0, "Check operators of this type only, for instance 'Conv*'", 0 },
    { "with", KEY_WITH, "FILE", 0, "Another plugin: its operators are known too, and its provider is compared with",
      0 },
    { "data", KEY_DATA, "DIR", 0, "ONNX test cases whose models of one operator are run besides", 0 },
    { "seed", KEY_SEED, "N", 0, "Seed of generated graphs and values (default: 0)", 0 },
    { "quick", KEY_QUICK, NULL, 0, "Fewer shapes, types and versions: seconds instead of minutes", 0 },
    { "no-timing", KEY_NO_TIMING, NULL, 0, "Skip checks that depend on time, for a busy machine", 0 },
    { "time-limit", KEY_LIMIT, "SECONDS", 0, "How long the plugin may take for one call (default: 60)", 0 },
    { "group", KEY_GROUP, "NAME", 0,
      "Only these checks: file, open, infer, offers, examples, results, cost, cancel, leaks", 0 },
    { "from", KEY_FROM, "N", OPTION_HIDDEN, NULL, 0 },
    { 0 },
};

typedef struct plugin_check_args {
    check_args check;
    bool child;
} plugin_check_args;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    plugin_check_args *args = state->input;

    switch (key) {
    case KEY_WITH:
        args->check.with = arg;
        return 0;
    case KEY_PROVIDER:
        args->check.provider = arg;
        return 0;
    case KEY_OPTION:
        if (args->check.option_count == CHECK_OPTIONS || strchr(arg, '=') == NULL)
            argp_error(state, "--option %s: expected NAME=VALUE, at most %d times", arg, CHECK_OPTIONS);
        args->check.options[args->check.option_count++] = arg;
        return 0;
    case KEY_OP:
        args->check.op = arg;
        return 0;
    case KEY_DATA:
        args->check.data = arg;
        return 0;
    case KEY_SEED:
        args->check.seed = (uint64_t)cli_number(state, "--seed", arg, 0, 1e15);
        return 0;
    case KEY_QUICK:
        args->check.quick = true;
        return 0;
    case KEY_NO_TIMING:
        args->check.no_timing = true;
        return 0;
    case KEY_LIMIT:
        args->check.time_limit = cli_number(state, "--time-limit", arg, 0.1, 86400);
        return 0;
    case KEY_GROUP:
        args->check.group = arg;
        return 0;
    case KEY_FROM:
        args->check.from = (uint32_t)cli_number(state, "--from", arg, 0, 1e9);
        args->child = true;
        return 0;
    case ARGP_KEY_ARG:
        if (args->check.file != NULL)
            argp_error(state, "'%s': one plugin at a time", arg);
        args->check.file = arg;
        return 0;
    case ARGP_KEY_END:
        if (args->check.file == NULL)
            argp_error(state, "which plugin?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char *const words[CHECK_RESULTS] = { "PASS", "FAIL", "WARN", "SKIP" };

typedef struct output {
    bool json;
    json_t *lines;
} output;

static void say(void *user, const check_line *line)
{
    output *o = user;

    if (o->json) {
        (void)json_array_append_new(o->lines, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "result", words[line->result],
                                                        "check", line->check, "subject", line->subject, "expected",
                                                        line->expected, "got", line->got, "fix", line->fix));
        return;
    }
    (void)printf("%s  %s%s%s: %s\n", words[line->result], line->check, line->subject[0] != '\0' ? " " : "",
                 line->subject, line->got);
    if (line->expected[0] != '\0')
        (void)printf("      expected: %s\n", line->expected);
    if (line->fix[0] != '\0')
        (void)printf("      fix: %s\n", line->fix);
    (void)fflush(stdout);
}

static bool known_group(const char *name)
{
    static const char *const groups[] = {
#define GROUP(name_, doc_) #name_,
#include "check/groups.def"
#undef GROUP
    };

    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        if (strcmp(groups[i], name) == 0)
            return true;
    return false;
}

int cmd_plugin_check(int argc, char **argv)
{
    static const struct argp argp = { flags, parse, "FILE", doc, NULL, NULL, NULL };
    plugin_check_args args = { .check = { .time_limit = 60 } };
    inlay_diag diag = INLAY_DIAG_INIT;
    check_summary summary = { { 0 } };
    output o = { 0 };
    cli_common common;
    inlay_status status = INLAY_OK;
    int code = CLI_OK;

    cli_parse(&argp, false, argc, argv, &common, &args);
    if (args.check.group != NULL && !known_group(args.check.group)) {
        (void)inlay_fail(&diag, INLAY_INVALID_ARGUMENT,
                         "--group %s: there are file, open, infer, offers, examples, "
                         "results, cost, cancel, leaks",
                         args.check.group);
        code = cli_fail(&common, &diag);
        cli_common_deinit(&common);
        return code;
    }
    if (args.child) {
        code = check_child(&args.check);
        cli_common_deinit(&common);
        return code;
    }
    o.json = common.json;
    o.lines = json_array();
    cli_catch_interrupt();
    status = check_plugin(&args.check, cli_cancel(), say, &o, &summary, &diag);
    if (status != INLAY_OK) {
        code = cli_fail(&common, &diag);
        json_decref(o.lines);
    } else {
        code = summary.counts[CHECK_FAIL] > 0 ? CLI_FAILED : CLI_OK;
        if (common.json) {
            code = cli_print_json(&common,
                                  json_pack("{s:o, s:i, s:i, s:i, s:i}", "checks", o.lines, "passed",
                                            (int)summary.counts[CHECK_PASS], "failed", (int)summary.counts[CHECK_FAIL],
                                            "warnings", (int)summary.counts[CHECK_WARN], "skipped",
                                            (int)summary.counts[CHECK_SKIP]),
                                  code);
        } else {
            (void)printf("%u passed, %u failed, %u warnings\n", summary.counts[CHECK_PASS], summary.counts[CHECK_FAIL],
                         summary.counts[CHECK_WARN]);
            json_decref(o.lines);
        }
    }
    cli_common_deinit(&common);
    return code;
}
