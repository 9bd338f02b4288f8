/* Flags that all verbs share, and the conversion of flags, files and environment into options of the library. */
#include "base/output.h"
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/outputs.h"
#include "cli/screen.h"
#include "config/dirs.h"
#include "config/options.h"
#include "session/session.h"
#include "shared/mistyped.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_OPTIONS = 128, /* of the library; further ones are ignored, which a test detects */
    KEY_JSON = 0x1000,
    KEY_QUIET,
    KEY_VERBOSE,
    KEY_OPTION,
    KEY_CONFIG,
    KEY_NO_CONFIG,
    KEY_HELP_ALL,
    KEY_USAGE,
    KEY_SESSION = 0x2000 /* + index of the library's option */
};

/* The input of the root parser, which passes it to its children. */
typedef struct parse_input {
    cli_verb_input verb;
    cli_common *common;
    help_page help;
} parse_input;

/* The library's options as flags; filled once, never freed. */
static struct argp_option session_flags[MAX_OPTIONS + 4];
static char flag_names[MAX_OPTIONS][64];
static char flag_docs[MAX_OPTIONS][512];

/* Is the option one of 0 and 1, so that its flag may stand alone and then means 1? */
static bool is_switch(const inlay_option_doc *doc)
{
    return (doc->kind == INLAY_SETTING_INT && doc->min == 0 && doc->max == 1) || strncmp(doc->choices, "0|1|", 4) == 0;
}

static const char *placeholder(const inlay_option_doc *doc)
{
    switch (doc->kind) {
    case INLAY_SETTING_INT:
        return is_switch(doc) ? "0|1" : "N";
    case INLAY_SETTING_PAIRS:
        return doc->min != doc->max ? "NAME=N" : "NAME=VALUE";
    case INLAY_SETTING_NAMES:
        return "NAME,...";
    case INLAY_SETTING_PATH:
        return "PATH";
    case INLAY_SETTING_PATHS:
        return "PATH:...";
    case INLAY_SETTING_ENUM:
        return doc->choices;
    default:
        return "VALUE";
    }
}

/* What reads the option, CLI_SETTINGS_*. */
static uint32_t reader_of(uint32_t option)
{
    switch (option) {
    case OPTION_cache_dir:
        return CLI_SETTINGS_CACHE;
    case OPTION_plugin_dirs:
    case OPTION_plugin_allow:
    case OPTION_isolate:
    case OPTION_isolate_memory:
    case OPTION_probe:
    case OPTION_probe_timeout_ms:
    case OPTION_device_timeout_ms: /* of an isolated provider */
        return CLI_SETTINGS_PLUGINS;
    case OPTION_isa:
        return CLI_SETTINGS_PROVIDERS;
    case OPTION_external_dir:
    case OPTION_copy_file_bytes:
    case OPTION_node_metadata:
    case OPTION_strict_model:
    case OPTION_model_limits:
        return CLI_SETTINGS_MODEL;
    default:
        return CLI_SETTINGS_SESSION & ~(CLI_SETTINGS_CHECK | CLI_SETTINGS_PROVIDERS);
    }
}

/* Does the verb read the option of this name? One of a provider has a dot. An unknown name is refused later. */
static bool is_read(const cli_common *common, const char *name)
{
    const uint32_t option = options_find(name);

    return (common->settings & (strchr(name, '.') != NULL ? CLI_SETTINGS_PROVIDERS
                                : option != OPTION_COUNT  ? reader_of(option)
                                                          : CLI_SETTINGS_SESSION)) != 0;
}

static void describe_flags(cli_settings settings)
{
    inlay_option_doc doc = { .struct_size = sizeof doc };
    uint32_t name = 0;

    for (; name < MAX_OPTIONS && inlay_options_describe(name, &doc) == INLAY_OK; name++) {
        (void)snprintf(flag_names[name], sizeof flag_names[name], "%s", doc.name);
        for (char *c = flag_names[name]; *c != '\0'; c++)
            *c = *c == '_' ? '-' : *c;
        if (doc.default_value[0] != '\0')
            (void)snprintf(flag_docs[name], sizeof flag_docs[name], "%s (default: %s)", doc.doc, doc.default_value);
        else
            (void)snprintf(flag_docs[name], sizeof flag_docs[name], "%s", doc.doc);
        session_flags[name] = (struct argp_option){
            .name = flag_names[name],
            .key = KEY_SESSION + (int)name,
            .arg = placeholder(&doc),
            .flags = (is_switch(&doc) ? OPTION_ARG_OPTIONAL : 0) |
                     ((settings & reader_of(options_find(doc.name))) == 0 ? OPTION_HIDDEN : 0),
            .doc = flag_docs[name],
        };
    }
    session_flags[name++] = (struct argp_option){
        .name = "option",
        .key = KEY_OPTION,
        .arg = "NAME=VALUE",
        .doc = "Set any option by its name, for instance one of a provider: --option reference.NAME=VALUE",
    };
    session_flags[name++] = (struct argp_option){
        .name = "config",
        .key = KEY_CONFIG,
        .arg = "FILE",
        .doc = "Also read this YAML file; it overrides the standard ones",
    };
    session_flags[name] = (struct argp_option){
        .name = "no-config",
        .key = KEY_NO_CONFIG,
        .doc = "Do not read the standard files (see inlay config)",
    };
}

static inlay_status set_option(cli_common *common, const char *name, const char *value, const char *flag,
                               inlay_diag *diag)
{
    if (is_read(common, name))
        return inlay_options_set_from(common->options, name, value, flag, diag);
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: option %s has no effect, because %s creates no session", flag,
                      name, common->verb);
}

static inlay_status set_pair(cli_common *common, const char *pair, inlay_diag *diag)
{
    const char *equals = strchr(pair, '=');
    char name[128];

    if (equals == NULL || equals == pair || (size_t)(equals - pair) >= sizeof name)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "--option %s: expected NAME=VALUE", pair);
    (void)snprintf(name, sizeof name, "%.*s", (int)(equals - pair), pair);
    return set_option(common, name, equals + 1, "--option", diag);
}

static error_t parse_session(int key, char *arg, struct argp_state *state)
{
    cli_common *common = state->input;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_option_doc doc = { .struct_size = sizeof doc };
    inlay_status status = INLAY_OK;
    char flag[80];

    if (key == KEY_OPTION) {
        status = set_pair(common, arg, &diag);
    } else if (key == KEY_CONFIG) {
        common->config_file = arg;
        output_note_read_path(arg);
    } else if (key == KEY_NO_CONFIG) {
        common->no_config = true;
    } else if (key >= KEY_SESSION && key < KEY_SESSION + MAX_OPTIONS) {
        if (inlay_options_describe((uint32_t)(key - KEY_SESSION), &doc) != INLAY_OK)
            return ARGP_ERR_UNKNOWN;
        (void)snprintf(flag, sizeof flag, "--%s", flag_names[key - KEY_SESSION]);
        status = set_option(common, doc.name, arg != NULL ? arg : "1", flag, &diag);
        if (doc.kind == INLAY_SETTING_PATH && arg != NULL)
            output_note_read_path(arg);
    } else {
        return ARGP_ERR_UNKNOWN;
    }
    if (status != INLAY_OK)
        cli_refuse(state, CLI_USAGE, "%s", diag.text);
    return 0;
}

static const struct argp_option common_flags[] = {
    { "json", KEY_JSON, NULL, 0, "Print one JSON value instead of text", 0 },
    { "quiet", KEY_QUIET, NULL, 0, "No progress bar, no notes", 0 },
    { "verbose", KEY_VERBOSE, NULL, 0, "More detail, and the library's log on stderr", 0 },
    { "help", '?', NULL, 0, "Print examples and the verb's options", 0 },
    { "help-all", KEY_HELP_ALL, NULL, 0, "Print details and all options", 0 },
    { "usage", KEY_USAGE, NULL, 0, "Print the syntax", 0 },
    { 0 },
};

static error_t parse_common(int key, char *arg, struct argp_state *state)
{
    const parse_input *in = state->input;

    (void)arg;
    switch (key) {
    case KEY_JSON:
        in->common->json = true;
        return 0;
    case KEY_QUIET:
        in->common->quiet = true;
        return 0;
    case KEY_VERBOSE:
        in->common->verbose = true;
        return 0;
    case '?':
    case KEY_HELP_ALL:
        help_print(&in->help, key == KEY_HELP_ALL, stdout);
        exit(CLI_OK);
    case KEY_USAGE:
        help_print_usage(&in->help, stdout);
        exit(CLI_OK);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_root(int key, char *arg, struct argp_state *state)
{
    parse_input *in = state->input;

    (void)arg;
    if (key != ARGP_KEY_INIT)
        return ARGP_ERR_UNKNOWN;
    state->child_inputs[0] = &in->verb;
    state->child_inputs[1] = in;
    if (in->help.session != NULL)
        state->child_inputs[2] = in->common;
    return 0;
}

static void print_mistake(void *user, uint32_t level, const char *text)
{
    const cli_common *common = user;

    if (level <= 1 || !common->quiet)
        cli_write_line(common, level, text);
}

/* Ends the process after print_mistake() has reported a failure. */
static void exit_with_code(const cli_common *common, const inlay_diag *diag, int code)
{
    if (common->json)
        (void)cli_print_json(common, json_pack("{s:o}", "error", cli_diag_json(diag)), 0);
    exit(code);
}

/* The flags have been parsed already; they still override files, because each value records its source. */
static void load_settings(cli_common *common)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;

    inlay_options_set_log(common->options, print_mistake, common);
    if (!common->no_config)
        status = inlay_options_load(common->options, NULL, &diag);
    if (status == INLAY_OK && common->config_file != NULL)
        status = inlay_options_load(common->options, common->config_file, &diag);
    if (status != INLAY_OK)
        exit_with_code(common, &diag, cli_exit_code(diag.code));
    status = inlay_options_load_environment(common->options, &diag);
    if (status != INLAY_OK)
        exit_with_code(common, &diag, cli_exit_code(diag.code));
    inlay_options_set_log(common->options, NULL, NULL);
}

static void refuse_word(const struct argp_state *state, const char *text)
{
    cli_refuse(state, CLI_USAGE, "%s", text);
}

void cli_parse(const cli_verb *verb, cli_settings settings, int argc, char **argv, cli_common *common, void *args)
{
    static const struct argp common_argp = { common_flags, parse_common, NULL, NULL, NULL, NULL, NULL };
    static const struct argp session_argp = { session_flags, parse_session, NULL, NULL, NULL, NULL, NULL };
    const struct argp own = cli_verb_argp(verb);
    struct argp_child children[] = {
        { &own, 0, NULL, 0 },
        { &common_argp, 0, NULL, 0 },
        { settings != CLI_SETTINGS_NONE ? &session_argp : NULL, 0, NULL, 0 },
        { 0 },
    };
    struct argp root = { NULL, parse_root, verb->words, NULL, children, NULL, NULL };
    parse_input in = { { verb, args },
                       common,
                       { argv[0], verb, own.options, common_flags, settings != CLI_SETTINGS_NONE ? session_flags : NULL,
                         settings == CLI_SETTINGS_SESSION } };
    const struct argp_option *const known[] = { own.options, common_flags, in.help.session };
    inlay_diag diag = INLAY_DIAG_INIT;
    const char *folder;

    *common = (cli_common){ .verb = argv[0], .settings = settings };
    if (inlay_options_create(&common->options, &diag) != INLAY_OK) {
        (void)fprintf(stderr, "%s: %s\n", common->verb, diag.text);
        exit(CLI_FAILED);
    }
    if (settings != CLI_SETTINGS_NONE)
        describe_flags(settings);
    argc = mistyped_check(&(mistyped_options){ known, sizeof known / sizeof known[0], refuse_word }, argc, argv);
    if (argp_parse(&root, argc, argv, ARGP_NO_HELP, NULL, &in) != 0)
        exit(CLI_USAGE); /* out of memory; everything else has ended the process with a message */
    if (cli_choose_model(verb, args, &folder, &diag) != INLAY_OK || outputs_check(&diag) != INLAY_OK)
        exit(cli_fail(common, &diag));
    if (settings != CLI_SETTINGS_NONE)
        load_settings(common);
    cli_progress_enable(!common->quiet);
    cli_catch_interrupt();
    if (!common->json && !cli_stdout_is_file())
        screen_begin();
}

void cli_reads_none(const cli_common *common, const char *mode)
{
    inlay_setting setting = { .struct_size = sizeof setting };
    inlay_diag diag = INLAY_DIAG_INIT;

    for (uint32_t i = 0; inlay_options_setting(common->options, i, &setting) == INLAY_OK; i++) {
        if (setting.source != INLAY_SOURCE_PROGRAM)
            continue;
        (void)inlay_fail(&diag, INLAY_INVALID_ARGUMENT, "%s: option %s has no effect with %s", setting.origin,
                         setting.name, mode);
        exit(cli_fail(common, &diag));
    }
}

void cli_common_deinit(cli_common *common)
{
    inlay_options_destroy(common->options);
    *common = (cli_common){ 0 };
}

static void print_log(void *user, uint32_t level, const char *text)
{
    static const char *const words[] = { "error", "warning", "info", "debug" };
    const cli_common *common = user;
    char *line = NULL;

    if (common->quiet || (level > 1 && !common->verbose)) /* errors and warnings always */
        return;
    cli_progress_clear();
    if (asprintf(&line, "%s: %s", level < 4 ? words[level] : "debug", text) < 0)
        return;
    cli_write_line(common, level, line);
    free(line);
}

static int only_cancel(void *user, double fraction, const char *what)
{
    (void)user;
    (void)fraction;
    (void)what;
    return cli_cancelled();
}

void cli_attach(cli_common *common)
{
    inlay_options_set_log(common->options, print_log, common);
    inlay_options_set_progress(common->options, common->many_sessions ? only_cancel : cli_progress, NULL);
}

/* Does the cache have a folder for packed weights, its largest part? */
static bool has_packs(const cli_common *common, char folder[PATH_MAX])
{
    char packs[PATH_MAX + 8];

    if (!config_cache_dir(common->options, folder, PATH_MAX))
        return true; /* the cache is disabled */
    (void)snprintf(packs, sizeof packs, "%s/packs", folder);
    return access(packs, F_OK) == 0;
}

inlay_status cli_open(cli_common *common, const char *path, inlay_session **out_session, inlay_diag *diag)
{
    char folder[PATH_MAX];
    const bool had_packs = has_packs(common, folder);
    inlay_status status;

    cli_attach(common);
    cli_restart_allow(!common->many_sessions);
    status = inlay_session_create(path, common->options, out_session, diag);
    cli_restart_allow(false);
    if (status == INLAY_OK && (status = outputs_check(diag)) != INLAY_OK) { /* the files of the model are known now */
        inlay_session_destroy(*out_session);
        *out_session = NULL;
    }
    if (!common->many_sessions)
        cli_progress_clear();
    if (status == INLAY_OK && !common->quiet && (*out_session)->loading.chosen != NULL)
        cli_say(common, "%s", (*out_session)->loading.chosen);
    if (!had_packs && status == INLAY_OK && !common->quiet && has_packs(common, folder)) /* the first session */
        cli_say(common,
                "packed weights are stored in %s for faster starts, at most 1 GiB or 5 %% of the free disk; "
                "`inlay cache` lists and clears them, --cache-dir= disables the cache",
                folder);
    return status;
}
