#include "serve/base/settings.h"
#include "inlay/check.h"
#include "base/cpus.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "shared/mistyped.h"
#include "shared/option_help.h"
#include "serve/base/load_note.h"
#include "serve/base/log.h"
#include "serve/base/rollout.h"
#include "codecs/yaml.h"
#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static const char doc[] =
    "Serves the models in MODELS, a folder (NAME.onnx, or NAME/VERSION/model.onnx and NAME/config.yaml or "
    "config.pbtxt) or one file, over the Open Inference Protocol.\v"
    "Examples:\n"
    "  inlay serve models/\n"
    "  inlay serve model.onnx --port 8080 --max-batch 32 --batch-delay-us 500\n"
    "  curl -d '{\"inputs\":[{\"name\":\"x\",\"shape\":[1],\"datatype\":\"FP32\",\"data\":[3]}]}' \\\n"
    "    http://127.0.0.1:8000/v2/models/model/infer\n";

static const char default_file[] = "/etc/inlay/serve.yaml";

typedef enum setting_kind { KIND_TEXT, KIND_PATH, KIND_READ, KIND_INT } setting_kind;

typedef struct setting_row {
    const char *name;
    setting_kind kind;
    const char *default_value;
    int64_t min, max;
    const char *doc;
} setting_row;

static const setting_row rows[SETTING_COUNT] = {
#define SETTING(name, kind, default_value, min, max, doc) { #name, KIND_##kind, default_value, min, max, doc },
#include "serve/base/settings.def"
#undef SETTING
};

enum {
    MAX_OPTIONS = 128,
    KEY_SETTING = 0x1000,
    KEY_LIBRARY = 0x2000,
    KEY_OPTION = 0x3000,
    KEY_CONFIG,
    KEY_NO_CONFIG,
    KEY_SERVE_CONFIG,
    KEY_VERBOSE,
    KEY_SCHEMA,
    KEY_CHECK,
    KEY_VERSION,
    LIBRARY_GROUP = 3 /* of argp */
};
/* Source of a value; the later one wins. */
enum { FROM_FILE = 1, FROM_ENVIRONMENT, FROM_FLAG };

const char *settings_text(const struct settings *settings, int setting)
{
    INLAY_CHECK(setting >= 0 && setting < SETTING_COUNT);
    return settings->text[setting] != NULL ? settings->text[setting] : rows[setting].default_value;
}

int64_t settings_int(const struct settings *settings, int setting)
{
    return strtoll(settings_text(settings, setting), NULL, 10);
}

inlay_status settings_open(const char *setting, const char *path, FILE **out_file, inlay_diag *diag)
{
    *out_file = fopen(path, "re");
    if (*out_file != NULL)
        return INLAY_OK;
    switch (errno) {
    case EACCES:
    case EPERM:
        return inlay_fail(
            diag, INLAY_INVALID_ARGUMENT,
            "%s: %s: %s for user %u; with systemd, LoadCredential= of the unit gives a copy to the service", setting,
            path, strerror(errno), (unsigned)geteuid());
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: %s: %s", setting, path, strerror(errno));
    default:
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s: %s", setting, path, strerror(errno));
    }
}

static inlay_status check_value(const setting_row *row, const char *value, const char *origin, inlay_diag *diag)
{
    char *end;
    long long number;

    if (strncmp(row->name, "rollout", strlen("rollout")) == 0)
        return rollout_set(&(rollout_rules){ .mode = ROLLOUT_OFF }, row->name, value, origin, diag);
    if (row->kind != KIND_INT)
        return INLAY_OK;
    errno = 0;
    number = strtoll(value, &end, 10);
    if (end == value || *end != '\0' || errno != 0 || number < row->min || number > row->max)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: %s must be a number from %lld to %lld, not '%s'", origin,
                          row->name, (long long)row->min, (long long)row->max, value);
    return INLAY_OK;
}

static inlay_status set_value(struct settings *settings, int setting, const char *value, uint32_t source,
                              const char *origin, inlay_diag *diag)
{
    inlay_status status = check_value(&rows[setting], value, origin, diag);
    char *copy;

    if (status != INLAY_OK || source < settings->source[setting])
        return status;
    copy = strdup(value);
    if (copy == NULL)
        return no_memory(diag, "for settings");
    free(settings->text[setting]);
    settings->text[setting] = copy;
    settings->source[setting] = source;
    return INLAY_OK;
}

static const char *setting_at(const void *table, uint32_t i)
{
    return ((const setting_row *)table)[i].name;
}

static inlay_status read_environment(struct settings *settings, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    char text[NEAREST_SLIP_BYTES];

    for (int i = 0; status == INLAY_OK && i < SETTING_COUNT && getauxval(AT_SECURE) == 0; i++) {
        char name[64] = "INLAY_";
        const char *value;
        size_t used = strlen(name);

        for (const char *c = rows[i].name; *c != '\0'; c++)
            name[used++] = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
        name[used] = '\0';
        value = getenv(name);
        if (value != NULL)
            status = set_value(settings, i, value, FROM_ENVIRONMENT, name, diag);
    }
    for (char **entry = environ; entry != NULL && *entry != NULL && getauxval(AT_SECURE) == 0; entry++)
        if (nearest_slip(text, *entry, setting_at, rows, SETTING_COUNT))
            log_line(LOG_WARNING_LINE, "%s", text);
    return status;
}

/* check_files: a file that a setting names and that cannot be read is a mistake. */
static void read_setting(struct settings *settings, const tree_node *item, bool check_files, struct mistakes *mistakes)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    char hint[NEAREST_HINT_BYTES];
    int i = 0;

    while (i < SETTING_COUNT && strcmp(rows[i].name, item->key) != 0)
        i++;
    if (i == SETTING_COUNT) {
        nearest_hint(hint, "; `inlay serve --help-all` lists the settings", item->key, setting_at, rows, SETTING_COUNT);
        (void)mistake(mistakes, item->key_line, INLAY_INVALID_ARGUMENT, "unknown key '%.64s'%s", item->key, hint);
    } else if (item->kind != TREE_SCALAR) {
        (void)mistake(mistakes, item->line, INLAY_INVALID_ARGUMENT, "%s must be one value", rows[i].name);
    } else if (set_value(settings, i, item->missing ? "" : item->text, FROM_FILE, "", &diag) != INLAY_OK) {
        (void)mistake(mistakes, item->line, diag.code, "%s", diag.text + strlen(": ")); /* after the empty origin */
    } else if (check_files && rows[i].kind == KIND_READ && settings_text(settings, i)[0] != '\0' &&
               access(settings_text(settings, i), R_OK) != 0) {
        (void)mistake(mistakes, item->line, INLAY_INVALID_ARGUMENT, "%s: %s: %s", rows[i].name,
                      settings_text(settings, i), strerror(errno));
    }
}

/* A settings file is a mapping from names to values. */
static inlay_status read_file(struct settings *settings, bool check_files, struct mistakes *mistakes)
{
    struct arena arena = { 0 };
    tree_node *root = NULL;

    if (yaml_read(&arena, mistakes, &root) == INLAY_OK && root != NULL && root->kind != TREE_MAP)
        (void)mistake(mistakes, root->line, INLAY_INVALID_ARGUMENT, "not a mapping, as in \"port: 8080\"");
    for (const tree_node *item = root != NULL && root->kind == TREE_MAP ? root->first : NULL; item != NULL;
         item = item->next)
        read_setting(settings, item, check_files, mistakes);
    arena_deinit(&arena);
    return mistakes->count == 0 ? INLAY_OK : INLAY_INVALID_ARGUMENT;
}

static void print_mistake(void *user, uint32_t level, const char *text)
{
    (void)user;
    (void)level;
    (void)printf("%s\n", text);
}

/* Prints the mistakes of a file, without a word if there are none, and ends the process. */
static void check_file(const char *path)
{
    struct mistakes mistakes = { .path = path, .log = print_mistake };
    struct settings settings = { .models = NULL };

    exit(read_file(&settings, true, &mistakes) == INLAY_OK ? 0 : 2);
}

static struct argp_option flags[SETTING_COUNT + MAX_OPTIONS + 12];
static char flag_names[SETTING_COUNT + MAX_OPTIONS][64];
static char flag_docs[SETTING_COUNT + MAX_OPTIONS][512];

static void add_flag(uint32_t name_index, const char *name, const char *text, const char *default_value,
                     const char *arg, int key, int group)
{
    (void)snprintf(flag_names[name_index], sizeof flag_names[name_index], "%s", name);
    for (char *c = flag_names[name_index]; *c != '\0'; c++)
        *c = *c == '_' ? '-' : *c;
    (void)snprintf(flag_docs[name_index], sizeof flag_docs[name_index],
                   default_value[0] != '\0' ? "%s (default: %s)" : "%s", text, default_value);
    flags[name_index] = (struct argp_option){
        .name = flag_names[name_index], .key = key, .arg = arg, .doc = flag_docs[name_index], .group = group
    };
}

static void describe_flags(void)
{
    static const char *const args[] = { "TEXT", "PATH", "FILE", "N" };
    inlay_option_doc option = { .struct_size = sizeof option };
    uint32_t count = 0;

    for (int i = 0; i < SETTING_COUNT; i++, count++)
        add_flag(count, rows[i].name, rows[i].doc, rows[i].default_value, args[rows[i].kind], KEY_SETTING + i, 1);
    for (uint32_t i = 0; i < MAX_OPTIONS && inlay_options_describe(i, &option) == INLAY_OK; i++, count++)
        add_flag(count, option.name, option.doc, option.default_value, "VALUE", KEY_LIBRARY + (int)i, LIBRARY_GROUP);
    flags[count++] =
        (struct argp_option){ .name = "serve-config",
                              .key = KEY_SERVE_CONFIG,
                              .arg = "FILE",
                              .group = 2,
                              .doc = "YAML file with settings of the server (default: /etc/inlay/serve.yaml)" };
    flags[count++] = (struct argp_option){ .name = "config",
                                           .key = KEY_CONFIG,
                                           .arg = "FILE",
                                           .group = 2,
                                           .doc = "YAML file with library options; overrides the standard files" };
    flags[count++] = (struct argp_option){
        .name = "no-config", .key = KEY_NO_CONFIG, .group = 2, .doc = "Do not read the standard files"
    };
    flags[count++] = (struct argp_option){
        .name = "verbose", .key = KEY_VERBOSE, .group = 2, .doc = "Print the library's log on stderr"
    };
    flags[count++] = (struct argp_option){ .name = "schema",
                                           .key = KEY_SCHEMA,
                                           .group = 2,
                                           .doc = "Print a JSON schema of files with settings, for editors" };
    flags[count++] = (struct argp_option){ .name = "check",
                                           .key = KEY_CHECK,
                                           .arg = "FILE",
                                           .group = 2,
                                           .doc = "Print the mistakes in a file with settings" };
    /* In place of argp's. */
    flags[count++] = (struct argp_option){ .name = "help", .key = '?', .group = -1, .doc = "Print this help" };
    flags[count++] = (struct argp_option){
        .name = "help-all", .key = '?', .group = -1, .flags = OPTION_HIDDEN, .doc = "As --help"
    }; /* of inlay's verbs */
    flags[count++] =
        (struct argp_option){ .name = "version", .key = KEY_VERSION, .group = -1, .doc = "Print the version" };
    flags[count] = (struct argp_option){ .name = "option",
                                         .key = KEY_OPTION,
                                         .arg = "NAME=VALUE",
                                         .group = LIBRARY_GROUP,
                                         .doc = "Set any library option by its name, for example a provider's option" };
}

static inlay_status add_library_flag(struct settings *settings, const char *name, size_t name_bytes, const char *value,
                                     const char *flag, inlay_diag *diag)
{
    if (!LIST_GROW(settings->flags, settings->flag_count))
        return no_memory(diag, "for settings");
    settings->flags[settings->flag_count] = (library_flag){ strndup(name, name_bytes), strdup(value), strdup(flag) };
    settings->flag_count++;
    return INLAY_OK;
}

static void print_help(const char *name)
{
    const help_sheet sheet = help_sheet_of(stdout);
    const char *examples = strchr(doc, '\v') + 1;
    struct argp_option own[SETTING_COUNT + 12] = { { 0 } }, library[MAX_OPTIONS + 2] = { { 0 } };
    uint32_t own_count = 0, library_count = 0;

    for (const struct argp_option *row = flags; row->name != NULL; row++)
        if ((row->flags & OPTION_HIDDEN) != 0)
            continue;
        else if (row->group == LIBRARY_GROUP)
            library[library_count++] = *row;
        else
            own[own_count++] = *row;
    (void)printf("Usage: %s [OPTION...] MODELS\n\n", name);
    help_print_text(&sheet, doc, examples - 1, false);
    (void)printf("\n");
    help_print_text(&sheet, examples, examples + strlen(examples), true);
    help_print_options(&sheet, "Options:", own, true);
    help_print_options(&sheet, "Session options (also in inlay.yaml, and as INLAY_<NAME> in the environment):", library,
                       true);
}

/* A JSON schema of serve.yaml, for editors. */
static void print_schema(void)
{
    json_t *properties = json_object(), *schema;

    for (int i = 0; i < SETTING_COUNT; i++) {
        json_t *one = rows[i].kind == KIND_INT ? json_pack("{s:s, s:I, s:I}", "type", "integer", "minimum",
                                                           (json_int_t)rows[i].min, "maximum", (json_int_t)rows[i].max)
                                               : json_pack("{s:[s, s, s]}", "type", "string", "number", "boolean");

        (void)json_object_set_new(one, "description", json_string(rows[i].doc));
        (void)json_object_set_new(properties, rows[i].name, one);
    }
    schema = json_pack("{s:s, s:s, s:[s, s], s:o, s:b}", "$schema", "http://json-schema.org/draft-07/schema#", "title",
                       "serve.yaml: settings of inlay-serve", "type", "object", "null", "properties", properties,
                       "additionalProperties", 0);
    if (schema == NULL || json_dumpf(schema, stdout, JSON_INDENT(1)) != 0 || putchar('\n') == EOF)
        exit(1);
    json_decref(schema);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct settings *settings = state->input;
    inlay_option_doc option = { .struct_size = sizeof option };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;
    char flag[80];

    if (key >= KEY_SETTING && key < KEY_SETTING + SETTING_COUNT) {
        (void)snprintf(flag, sizeof flag, "--%s", flag_names[key - KEY_SETTING]);
        status = set_value(settings, key - KEY_SETTING, arg, FROM_FLAG, flag, &diag);
    } else if (key >= KEY_LIBRARY && key < KEY_LIBRARY + MAX_OPTIONS &&
               inlay_options_describe((uint32_t)(key - KEY_LIBRARY), &option) == INLAY_OK) {
        (void)snprintf(flag, sizeof flag, "--%s", flag_names[key - KEY_LIBRARY + SETTING_COUNT]);
        status = add_library_flag(settings, option.name, strlen(option.name), arg, flag, &diag);
    } else if (key == KEY_OPTION && strchr(arg, '=') == NULL) {
        argp_failure(state, 2, 0, "--option %s: expected NAME=VALUE", arg);
    } else if (key == KEY_OPTION) {
        status = add_library_flag(settings, arg, strcspn(arg, "="), strchr(arg, '=') + 1, "--option", &diag);
    } else if (key == KEY_CONFIG) {
        settings->config_file = arg;
    } else if (key == KEY_SERVE_CONFIG) {
        settings->serve_config = arg;
    } else if (key == KEY_NO_CONFIG) {
        settings->no_config = true;
    } else if (key == KEY_VERBOSE) {
        log_set_verbose(settings->verbose = true);
    } else if (key == '?') {
        print_help(state->name);
        exit(0);
    } else if (key == KEY_SCHEMA) {
        print_schema();
        exit(0);
    } else if (key == KEY_CHECK) {
        check_file(arg);
    } else if (key == KEY_VERSION) {
        (void)printf("inlay-serve %s\n", inlay_version());
        exit(0);
    } else if (key == ARGP_KEY_ARG) {
        if (settings->models != NULL)
            argp_failure(state, 2, 0, "only one MODELS argument is allowed; unexpected '%s'", arg);
        settings->models = arg;
    } else if (key == ARGP_KEY_END && settings->models == NULL) {
        argp_failure(state, 2, 0, "MODELS is missing: a folder or a file");
    } else if (key != ARGP_KEY_END) {
        return ARGP_ERR_UNKNOWN;
    }
    if (status != INLAY_OK)
        argp_failure(state, 2, 0, "%s", diag.text);
    return 0;
}

static void refuse_word(const struct argp_state *state, const char *text)
{
    (void)fprintf(stderr, "%s: %s\n", state->name, text);
}

void settings_parse(struct settings *settings, int argc, char **argv)
{
    static const struct argp argp = { flags, parse, "MODELS", doc, NULL, NULL, NULL };
    static const struct argp_option own[] = { { .name = "usage" }, { .name = NULL } }; /* argp's */
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = NULL;
    inlay_status status = INLAY_OK;
    const char *file;

    *settings = (struct settings){ .models = NULL };
    argp_err_exit_status = 2;
    describe_flags();
    argc =
        mistyped_check(&(mistyped_options){ (const struct argp_option *[]){ flags, own }, 2, refuse_word }, argc, argv);
    (void)argp_parse(&argp, argc, argv, 0, NULL, settings);
    file = settings->serve_config;
    if (file == NULL && access(default_file, F_OK) == 0)
        file = default_file;
    if (file == default_file && settings->no_config) {
        log_line(LOG_WARNING_LINE, "%s is not read because of --no-config", file);
    } else if (file != NULL) {
        status = read_file(settings, false, &(struct mistakes){ .path = file, .diag = &diag });
        log_line(LOG_INFO_LINE, "settings: %s", file);
    }
    if (status == INLAY_OK)
        status = read_environment(settings, &diag);
    if (status == INLAY_OK)
        status = settings_options(settings, &options, &diag); /* report errors now */
    inlay_options_destroy(options);
    if (status != INLAY_OK) {
        (void)fprintf(stderr, "%s: %s\n", argv[0], diag.text);
        exit(2);
    }
}

void settings_deinit(struct settings *settings)
{
    for (int i = 0; i < SETTING_COUNT; i++)
        free(settings->text[i]);
    for (uint32_t i = 0; i < settings->flag_count; i++) {
        free(settings->flags[i].name);
        free(settings->flags[i].value);
        free(settings->flags[i].flag);
    }
    free(settings->flags);
}

/* Each model has a session, which warns of the same plugin. true: the text is not among the last ones. */
static bool is_new(const char *text)
{
    enum { TEXTS = 64 };
    static atomic_uint_fast64_t seen[TEXTS];
    static atomic_uint next;
    const uint64_t hash = hash_bytes(text, strlen(text), 1);

    for (uint32_t i = 0; i < TEXTS; i++)
        if (atomic_load(&seen[i]) == hash)
            return false;
    atomic_store(&seen[atomic_fetch_add(&next, 1) % TEXTS], hash);
    return true;
}

static void print_log(void *user, uint32_t level, const char *text)
{
    static const uint32_t warning = 1; /* INLAY_LOG_WARNING of plugin.h */

    (void)user;
    if (level == warning && strncmp(text, "plugin ", 7) == 0 && !is_new(text))
        return;
    log_line(level > warning ? LOG_VERBOSE_LINE : level == warning ? LOG_WARNING_LINE : LOG_ERROR_LINE, "%s", text);
}

bool settings_stopped(const struct settings *settings)
{
    return __atomic_load_n(&settings->stop, __ATOMIC_SEQ_CST) != 0;
}

/* An inlay_progress_fn. */
static int is_stopped(void *user, double fraction, const char *what)
{
    load_note_step(what, fraction);
    return settings_stopped(user);
}

uint64_t settings_models_memory(const struct settings *settings)
{
    const int64_t given = settings_int(settings, SET_models_memory), workers = settings_int(settings, SET_workers);

    return given >= 0 ? (uint64_t)given : memory_allowed() / 4 * 3 / (workers > 1 ? (uint64_t)workers : 1);
}

enum { LEAST_RUNS = 16 << 20 }; /* bytes: small models run under any limit */

uint64_t settings_runs_memory(const struct settings *settings)
{
    const uint64_t all = settings_models_memory(settings);

    return all > 0 && all < LEAST_RUNS ? LEAST_RUNS : all;
}

/* Defaults of library options for a server, which files and flags override. */
static inlay_status set_defaults(const struct settings *settings, inlay_options *options, inlay_diag *diag)
{
    char bytes[32];
    inlay_status status;

    /* If a plugin crashes the process, the next start does not load it for that model. */
    INLAY_TRY(inlay_options_set(options, "crash_report", "1", diag));
    /* Files of models are copied over while they are served. */
    INLAY_TRY(inlay_options_set(options, "copy_file_bytes", "67108864", diag));
    /* A request must neither use the memory of all models, nor keep its memory afterwards. */
    (void)snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)(memory_allowed() / 8));
    INLAY_TRY(inlay_options_set(options, "max_run_bytes", bytes, diag));
    (void)snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)settings_runs_memory(settings));
    INLAY_TRY(inlay_options_set(options, "process_memory_budget", bytes, diag));
    INLAY_TRY(inlay_options_set(options, "idle_trim_ms", "5000", diag));
    INLAY_TRY(inlay_options_set(options, "last_logits", "1", diag)); /* prompts need no others */
done:
    return status;
}

inlay_status settings_options(const struct settings *settings, inlay_options **out_options, inlay_diag *diag)
{
    inlay_options *options = NULL;
    inlay_status status = inlay_options_create(&options, diag);

    *out_options = NULL;
    if (status != INLAY_OK)
        return status;
    inlay_options_set_log(options, print_log, (void *)(uintptr_t)settings);
    inlay_options_set_progress(options, is_stopped, (void *)(uintptr_t)settings);
    INLAY_TRY(set_defaults(settings, options, diag));
    if (!settings->no_config)
        INLAY_TRY(inlay_options_load(options, NULL, diag));
    if (settings->config_file != NULL)
        INLAY_TRY(inlay_options_load(options, settings->config_file, diag));
    INLAY_TRY(inlay_options_load_environment(options, diag));
    for (uint32_t i = 0; i < settings->flag_count; i++) {
        if (settings->flags[i].name == NULL || settings->flags[i].value == NULL || settings->flags[i].flag == NULL)
            INLAY_TRY(no_memory(diag, "for settings"));
        INLAY_TRY(inlay_options_set_from(options, settings->flags[i].name, settings->flags[i].value,
                                         settings->flags[i].flag, diag));
    }
    *out_options = options;
    options = NULL;
done:
    inlay_options_destroy(options);
    return status;
}
