/* inlay config: shows every setting with its origin, and checks settings files. */
#include "base/nearest.h"
#include "base/path.h"
#include "cli/cells.h"
#include "cli/cli.h"
#include "inlay/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char doc_config[] =
    "Shows every setting, or those NAMEd, and the origin of its value. Later sources override earlier ones: default, "
    "/etc/inlay/inlay.yaml, ~/.config/inlay/inlay.yaml, --config FILE, INLAY_<NAME> in the environment, flags. inlay "
    "config check [FILE...] lists the mistakes in files.\v"
    "Examples:\n"
    "  inlay config\n"
    "  inlay config policy --policy priority\n"
    "  inlay config --yaml > inlay.yaml\n"
    "  inlay config --schema > inlay.schema.json\n"
    "  inlay config check inlay.yaml\n";
static const char check_doc[] =
    "Reads settings files, the standard ones by default, and prints every mistake in them. A file whose name ends in "
    "serve.yaml has settings of inlay-serve.\v"
    "Examples:\n"
    "  inlay config check\n"
    "  inlay config check serve.yaml\n"
    "  inlay config check inlay.yaml --json\n";

static const char *const sources[] = { "default", "system file", "user file", "file", "environment", "flag" };

typedef struct show_args {
    const char **names; /* [name_count] to show; empty = all */
    uint32_t name_count;
    bool yaml, schema;
} show_args;

static bool is_plain(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;

    for (; *c != '\0'; c++)
        if (*c < ' ' || *c == 0x7f || *c == '"')
            return false;
    return text[0] != '\0' && text[0] != ' ' && c[-1] != ' ';
}

/* The text as a double-quoted YAML scalar, which is also valid JSON; the caller frees it. NULL: no memory. */
static char *quoted(const char *text)
{
    char *result = malloc(4 * strlen(text) + 3), *to = result;

    if (result == NULL)
        return NULL;
    *to++ = '"';
    for (const unsigned char *from = (const unsigned char *)text; *from != '\0'; from++) {
        if (*from == '"' || *from == '\\')
            to += sprintf(to, "\\%c", *from);
        else if (*from < ' ' || *from == 0x7f)
            to += sprintf(to, "\\x%02x", *from);
        else
            *to++ = (char)*from;
    }
    memcpy(to, "\"", 2);
    return result;
}

static void print_quoted(const char *text)
{
    char *scalar = quoted(text);

    (void)fputs(scalar != NULL ? scalar : "\"\"", stdout);
    free(scalar);
}

static bool is_wanted(const show_args *args, const char *name)
{
    bool wanted = args->name_count == 0;

    for (uint32_t i = 0; !wanted && i < args->name_count; i++)
        wanted = strcmp(args->names[i], name) == 0;
    return wanted;
}

static bool next_setting(const inlay_options *options, const show_args *args, uint32_t *i, inlay_setting *setting)
{
    while (inlay_options_setting(options, (*i)++, setting) == INLAY_OK)
        if (is_wanted(args, setting->name))
            return true;
    return false;
}

static void add_settings(struct table *table, const inlay_options *options, const show_args *args)
{
    enum { NAME, VALUE, ORIGIN, SOURCE, ITEM, COLUMNS };
    static const table_column columns[COLUMNS] = { [NAME] = { "", "name", TABLE_NAME },
                                                   [VALUE] = { "", "value", TABLE_NAME },
                                                   [ORIGIN] = { "", "origin", TABLE_NAME },
                                                   [SOURCE] = { NULL, "source", TABLE_NAME },
                                                   [ITEM] = { NULL, "item", TABLE_NUMBER } };
    inlay_setting setting = { .struct_size = sizeof setting };

    *table = (struct table){ .columns = columns, .column_count = COLUMNS };
    for (uint32_t i = 0; next_setting(options, args, &i, &setting);) {
        char *scalar = is_plain(setting.text) ? NULL : quoted(setting.text);

        table_row(table);
        table_text(table, NAME, setting.name);
        table_text(table, VALUE, setting.text);
        table_text(table, ORIGIN, setting.origin);
        table_text(table, SOURCE, sources[setting.source]);
        if (setting.item != INLAY_NONE)
            table_whole(table, ITEM, setting.item);
        if (setting.item != INLAY_NONE && setting.item > 0)
            table_say(table, NAME, "%s", "");
        if (scalar != NULL)
            table_say(table, VALUE, "%s", scalar);
        free(scalar);
    }
}

/* A folder as an absolute path, because a file cannot refer to the working directory. */
static void print_path(const char *path, size_t bytes)
{
    char cwd[4096], text[8192];

    if (bytes == 0 || path_is_absolute(path) || getcwd(cwd, sizeof cwd) == NULL)
        (void)snprintf(text, sizeof text, "%.*s", (int)bytes, path);
    else
        (void)snprintf(text, sizeof text, "%s/%.*s", cwd, (int)bytes, path);
    print_quoted(text);
}

/* A separated list as a YAML list. */
static void print_parts(const char *text, char separator, bool paths)
{
    (void)putchar('[');
    while (*text != '\0') {
        size_t bytes = (size_t)(strchrnul(text, separator) - text);

        if (paths) {
            print_path(text, bytes);
        } else {
            char name[256];
            (void)snprintf(name, sizeof name, "%.*s", (int)bytes, text);
            print_quoted(name);
        }
        text += bytes;
        if (*text != '\0') {
            (void)fputs(", ", stdout);
            text++;
        }
    }
    (void)putchar(']');
}

static void print_value(const inlay_setting *setting, const inlay_option_doc *option)
{
    if (option->kind == INLAY_SETTING_INT)
        (void)fputs(setting->text, stdout);
    else if (option->kind == INLAY_SETTING_NAMES || option->kind == INLAY_SETTING_PATHS)
        print_parts(setting->text, option->kind == INLAY_SETTING_NAMES ? ',' : PATH_LIST_SEPARATOR[0],
                    option->kind == INLAY_SETTING_PATHS);
    else if (option->kind == INLAY_SETTING_PATH && strcmp(setting->text, option->default_value) != 0)
        print_path(setting->text, strlen(setting->text));
    else if ((option->kind == INLAY_SETTING_LIST || option->kind == INLAY_SETTING_PAIRS) && setting->item == INLAY_NONE)
        (void)fputs("[]", stdout);
    else
        print_quoted(setting->text);
}

/* Settings that differ from their defaults as lines of a YAML file, defaults as comments. */
static void print_yaml(const inlay_options *options, const show_args *args)
{
    inlay_setting setting = { .struct_size = sizeof setting };

    for (uint32_t i = 0; next_setting(options, args, &i, &setting);) {
        inlay_option_doc option = { .struct_size = sizeof option };
        uint32_t k = 0;

        while (inlay_options_describe(k++, &option) == INLAY_OK && strcmp(option.name, setting.name) != 0)
            ;
        if (strcmp(option.name, setting.name) != 0) /* of a provider */
            option = (inlay_option_doc){ .kind = INLAY_SETTING_TEXT, .default_value = "" };
        if (setting.source == INLAY_SOURCE_DEFAULT)
            (void)fputs("# ", stdout);
        if (setting.item == INLAY_NONE)
            (void)printf("%s: ", setting.name);
        else
            (void)printf("%s%s  - ", setting.item == 0 ? setting.name : "", setting.item == 0 ? ":\n" : "");
        print_value(&setting, &option);
        (void)printf(setting.source == INLAY_SOURCE_DEFAULT ? "\n" : " # %s\n", setting.origin);
    }
}

static json_t *one_of(json_t *first, json_t *second)
{
    return json_pack("{s:[o, o]}", "anyOf", first, second);
}

/* A text that YAML may read as a number or a truth value. */
static json_t *any_scalar(void)
{
    return json_pack("{s:[s, s, s]}", "type", "string", "number", "boolean");
}

static json_t *list_of(json_t *items)
{
    return json_pack("{s:s, s:o}", "type", "array", "items", items);
}

/* Adds what YAML takes for 0 and 1. */
static void add_switch(json_t *list)
{
    static const char *const words[] = { "true", "false", "yes", "no", "on", "off", "0", "1" };

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        (void)json_array_append_new(list, json_string(words[i]));
    for (int i = 0; i < 2; i++) {
        (void)json_array_append_new(list, json_integer(i));
        (void)json_array_append_new(list, json_boolean(i));
    }
}

static json_t *integer_of(int64_t min, int64_t max)
{
    return json_pack("{s:s, s:I, s:I}", "type", "integer", "minimum", (json_int_t)min, "maximum", (json_int_t)max);
}

static json_t *integer_schema(const inlay_option_doc *option)
{
    json_t *list;

    if (option->min != 0 || option->max != 1)
        return one_of(integer_of(option->min, option->max),
                      json_pack("{s:s, s:s}", "type", "string", "pattern", "^[+-]?[0-9]+$"));
    list = json_array();
    add_switch(list);
    return json_pack("{s:o}", "enum", list);
}

static json_t *choice_schema(const char *choices)
{
    json_t *list = json_array();

    for (const char *at = choices; *at != '\0'; at += strcspn(at, "|"), at += *at == '|')
        (void)json_array_append_new(list, json_stringn(at, strcspn(at, "|")));
    if (strncmp(choices, "0|1", 3) == 0)
        add_switch(list);
    return json_pack("{s:o}", "enum", list);
}

/* What a settings file may have for an option, by its kind. */
static json_t *option_schema(const inlay_option_doc *option)
{
    json_t *map;

    switch (option->kind) {
    case INLAY_SETTING_INT:
        return integer_schema(option);
    case INLAY_SETTING_ENUM:
        return choice_schema(option->choices);
    case INLAY_SETTING_NAMES: /* {name: NAME, options: {...}} is a provider with its options */
        map = json_pack("{s:s, s:[s]}", "type", "object", "required", "name");
        return one_of(any_scalar(), list_of(one_of(any_scalar(), map)));
    case INLAY_SETTING_PATHS:
        return one_of(any_scalar(), list_of(any_scalar()));
    case INLAY_SETTING_LIST:
        map = json_pack("{s:s, s:o}", "type", "object", "additionalProperties", any_scalar());
        return one_of(one_of(any_scalar(), list_of(any_scalar())), map);
    case INLAY_SETTING_PAIRS:
        map = json_pack("{s:s, s:o}", "type", "object", "additionalProperties",
                        option->min == 0 && option->max == 0
                            ? any_scalar()
                            : one_of(integer_of(option->min, option->max), json_pack("{s:s}", "type", "string")));
        return one_of(map, list_of(any_scalar()));
    default:
        return any_scalar();
    }
}

/* A JSON schema of inlay.yaml, for editors; an empty value is refused, as `inlay config check` does. */
static json_t *schema_json(void)
{
    inlay_option_doc option = { .struct_size = sizeof option };
    json_t *properties = json_object();

    for (uint32_t i = 0; inlay_options_describe(i, &option) == INLAY_OK; i++) {
        json_t *one = option_schema(&option);

        (void)json_object_set_new(one, "description", json_string(option.doc));
        (void)json_object_set_new(properties, option.name, one);
    }
    return json_pack("{s:s, s:s, s:[s, s], s:o, s:{s:o}, s:b}", "$schema", "http://json-schema.org/draft-07/schema#",
                     "title", "inlay.yaml: options of inlay " INLAY_VERSION, "type", "object", "null", "properties",
                     properties, "patternProperties", "^[A-Za-z][A-Za-z0-9_-]*(#[A-Za-z0-9_-]+)?\\.[a-z][a-z0-9_]*$",
                     any_scalar(), "additionalProperties", 0);
}

typedef struct check_args {
    const char **files; /* [file_count] */
    uint32_t file_count;
} check_args;

static json_t *text_json(const char *text)
{
    json_t *json = json_string(text);

    return json != NULL ? json : json_string("(not printable)"); /* not UTF-8 */
}

/* Appends to a JSON array. */
static void note_mistake(void *user, uint32_t level, const char *text)
{
    (void)level;
    (void)json_array_append_new(user, text_json(text));
}

static const char *pass_at(const void *ctx, uint32_t i)
{
    uint32_t level;

    (void)ctx;
    return inlay_optimize_pass(i, &level);
}

/* Checks the names of optimiser passes, which the options do not know. */
static inlay_status check_passes(const inlay_options *options, json_t *mistakes)
{
    inlay_setting setting = { .struct_size = sizeof setting };
    inlay_status status = INLAY_OK;
    uint32_t count = 0;
    char line[512];

    while (pass_at(NULL, count) != NULL)
        count++;
    for (uint32_t i = 0; inlay_options_setting(options, i, &setting) == INLAY_OK; i++) {
        char hint[NEAREST_HINT_BYTES];
        bool known =
            (strcmp(setting.name, "pass") != 0 && strcmp(setting.name, "no_pass") != 0) || setting.item == INLAY_NONE;

        for (uint32_t k = 0; !known && k < count; k++)
            known = strcmp(setting.text, pass_at(NULL, k)) == 0;
        if (known)
            continue;
        nearest_hint(hint, "; `inlay optimize --list` lists them", setting.text, pass_at, NULL, count);
        (void)snprintf(line, sizeof line, "%.240s: unknown optimiser pass '%.64s'%s", setting.origin, setting.text,
                       hint);
        note_mistake(mistakes, 0, line);
        status = INLAY_INVALID_ARGUMENT;
    }
    return status;
}

/* Whether the file has settings of inlay-serve, and not options of the library. */
static bool is_of_server(const char *path)
{
    static const char name[] = "serve.yaml";
    const size_t bytes = strlen(path);

    return bytes >= strlen(name) && strcmp(path + bytes - strlen(name), name) == 0;
}

/* Lists the mistakes of a file with options of the library. */
static inlay_status check_options(const char *path, json_t *mistakes)
{
    inlay_options *options = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = inlay_options_create(&options, &diag);

    if (status != INLAY_OK)
        return status;
    inlay_options_set_log(options, note_mistake, mistakes);
    status = inlay_options_load(options, path, &diag);
    if (check_passes(options, mistakes) != INLAY_OK && status == INLAY_OK)
        status = INLAY_INVALID_ARGUMENT;
    inlay_options_destroy(options);
    return status;
}

static uint32_t unknown_keys(const json_t *mistakes)
{
    uint32_t count = 0;
    const json_t *mistake;
    size_t i;

    json_array_foreach(mistakes, i, mistake)
        count += strstr(json_string_value(mistake), ": unknown key '") != NULL;
    return count;
}

/* A file with another name than serve.yaml may have settings of the server, too: if the server knows more of its keys,
 * the server's mistakes replace those in *inout_mistakes. */
static inlay_status check_as_servers(const char *path, json_t **inout_mistakes, inlay_status status)
{
    json_t *mistakes = json_array();
    const inlay_status of_server = cli_serve_check(path, note_mistake, mistakes);

    if (of_server == INLAY_NOT_FOUND || unknown_keys(mistakes) >= unknown_keys(*inout_mistakes)) {
        json_decref(mistakes);
        return status;
    }
    json_decref(*inout_mistakes);
    *inout_mistakes = mistakes;
    return of_server;
}

/* Checks one file; CLI_OK or CLI_BAD_FILE. A missing file is an error only if it was named. */
static int check_file(const char *path, bool named, json_t *list)
{
    json_t *mistakes = json_array();
    const bool exists = named || access(path, F_OK) == 0;
    inlay_status status = INLAY_OK;
    bool good;
    size_t i;
    json_t *mistake;

    if (is_of_server(path)) {
        status = cli_serve_check(path, note_mistake, mistakes);
    } else if (exists) {
        status = check_options(path, mistakes);
        if (unknown_keys(mistakes) > 0)
            status = check_as_servers(path, &mistakes, status);
    }
    good = status == INLAY_OK;
    if (list != NULL)
        (void)json_array_append_new(list, json_pack("{s:o, s:b, s:b, s:O}", "path", text_json(path), "there", exists,
                                                    "ok", good, "mistakes", mistakes));
    else if (good)
        (void)printf("%s: %s\n", path, exists ? "ok" : "does not exist");
    else
        json_array_foreach(mistakes, i, mistake)
            (void)printf("%s\n", json_string_value(mistake));
    json_decref(mistakes);
    return good ? CLI_OK : CLI_BAD_FILE;
}

static error_t take_file(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    check_args *args = field;

    (void)option;
    (void)state;
    INLAY_CHECK(args->files != NULL);
    args->files[args->file_count++] = arg;
    return 0;
}

static int check(int argc, char **argv)
{
    static const cli_option options_of_config[] = { { CLI_CALL_ALL(take_file) }, { 0 } };
    static const cli_verb verb = { "[FILE...]", check_doc, options_of_config, NULL };
    check_args args = { calloc((size_t)argc, sizeof *args.files), 0 };
    char name[] = "inlay config check", path[4096];
    cli_common common;
    json_t *list;
    int code = CLI_OK;

    if (args.files == NULL)
        return CLI_FAILED;
    argv[0] = name;
    cli_parse(&verb, CLI_SETTINGS_NONE, argc, argv, &common, &args);
    list = common.json ? json_array() : NULL;
    for (uint32_t i = 0; i < args.file_count; i++)
        if (check_file(args.files[i], true, list) != CLI_OK)
            code = CLI_BAD_FILE;
    for (uint32_t i = 0; args.file_count == 0 && inlay_options_standard_file(i, path, sizeof path) == INLAY_OK; i++)
        if (check_file(path, false, list) != CLI_OK)
            code = CLI_BAD_FILE;
    if (list != NULL)
        code = cli_print_json(&common, json_pack("{s:b, s:o}", "ok", code == CLI_OK, "files", list), code);
    cli_common_deinit(&common);
    free(args.files);
    return code;
}

static error_t take_name(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    show_args *args = field;

    (void)option;
    (void)state;
    args->names[args->name_count++] = arg;
    return 0;
}

static const cli_option options_of_config[] = {
    { "yaml", NULL, "Print the settings as a YAML file, defaults as comments", CLI_SET(show_args, yaml), .key = 'y' },
    { "schema", NULL, "Print a JSON schema of settings files, for editors", CLI_SET(show_args, schema) },
    { CLI_CALL_ALL(take_name) },
    { 0 },
};

/* Names a settings file in the working directory that no rule makes inlay read. */
static void note_unread(const cli_common *common)
{
    static const char file[] = "inlay.yaml";
    inlay_setting setting = { .struct_size = sizeof setting };
    bool read = common->json || common->quiet || access(file, F_OK) != 0;
    struct stat here, other;

    for (uint32_t i = 0; !read && inlay_options_setting(common->options, i, &setting) == INLAY_OK; i++) {
        char path[4096];
        const size_t bytes = strcspn(setting.origin, ":");

        (void)snprintf(path, sizeof path, "%.*s", (int)(bytes < sizeof path ? bytes : 0), setting.origin);
        read = setting.source != INLAY_SOURCE_DEFAULT && stat(path, &other) == 0 && stat(file, &here) == 0 &&
               here.st_dev == other.st_dev && here.st_ino == other.st_ino;
    }
    if (!read)
        cli_say(common, "./%s is not read: files in the working directory are not settings; --config %s reads it", file,
                file);
}

/* An unknown name is an error that suggests the nearest known one. */
static inlay_status check_names(const inlay_options *options, const show_args *args, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; status == INLAY_OK && i < args->name_count; i++)
        status = inlay_options_get(options, args->names[i], NULL, 0, NULL, diag);
    return status;
}

int cmd_config(int argc, char **argv)
{
    static const cli_verb verb = { "[NAME...]\ncheck [FILE...]", doc_config, options_of_config, NULL };
    show_args args = { .names = NULL };
    inlay_diag diag = INLAY_DIAG_INIT;
    cli_common common;
    struct table table;
    int code = CLI_OK;

    if (argc > 1 && strcmp(argv[1], "check") == 0)
        return check(argc - 1, argv + 1);
    args.names = calloc((size_t)argc, sizeof *args.names);
    if (args.names == NULL)
        return CLI_FAILED;
    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    if (check_names(common.options, &args, &diag) != INLAY_OK) {
        diag.code = INLAY_INVALID_ARGUMENT; /* a wrong word on the command line */
        code = cli_fail(&common, &diag);
    } else if (args.schema) {
        code = cli_print_json(&common, schema_json(), CLI_OK);
    } else if (common.json) {
        add_settings(&table, common.options, &args);
        code = cli_print_json(&common, json_pack("{s:o}", "settings", cells_json(&table)), CLI_OK);
    } else if (args.yaml) {
        print_yaml(common.options, &args);
    } else {
        add_settings(&table, common.options, &args);
        cells_print(&table);
        note_unread(&common);
    }
    cli_common_deinit(&common);
    free(args.names);
    return code;
}
