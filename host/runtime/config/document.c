/* Loads settings with libcyaml, which checks keys and shapes against a schema and fills a struct. The schema and the
 * struct are generated from options.def, so that a new option needs no line here. Each key is loaded separately, so
 * that a mistake in one key does not hide the mistakes in the next. */
#include "config/document.h"
#include "base/nearest.h"
#include "base/path.h"
#include "config/long_form.h"
#include "config/options.h"
#include <cyaml/cyaml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KEY = 128 };

typedef struct pair_row {
    char *key;
    char *value;
} pair_row;

typedef struct provider_row {
    char *name;
    int32_t optional;
    pair_row *options;
    uint32_t options_count;
} provider_row;

#define MEMBER_TEXT(name) char *name;
#define MEMBER_INT(name) MEMBER_TEXT(name)
#define MEMBER_ENUM(name) MEMBER_TEXT(name)
#define MEMBER_PATH(name) MEMBER_TEXT(name)
#define MEMBER_LIST(name)                                                                                              \
    char **name;                                                                                                       \
    uint32_t name##_count;
#define MEMBER_PAIRS(name) MEMBER_LIST(name)
#define MEMBER_PATHS(name) MEMBER_LIST(name)
#define MEMBER_NAMES(name)                                                                                             \
    provider_row *name;                                                                                                \
    uint32_t name##_count;
typedef struct file_rows {
#define OPTION(name, kind, default_value, min, max, document) MEMBER_##kind(name)
#include "config/options.def"
#undef OPTION
} file_rows;

enum { REQUIRED_TEXT = CYAML_FLAG_POINTER, OPTIONAL = CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL };

static const cyaml_strval_t switch_words[] = { { "false", 0 }, { "no", 0 },  { "off", 0 }, { "0", 0 },
                                               { "true", 1 },  { "yes", 1 }, { "on", 1 },  { "1", 1 } };
static const cyaml_schema_field_t pair_fields[] = {
    CYAML_FIELD_STRING_PTR("key", REQUIRED_TEXT, pair_row, key, 1, CYAML_UNLIMITED),
    CYAML_FIELD_STRING_PTR("value", REQUIRED_TEXT, pair_row, value, 0, CYAML_UNLIMITED),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t pair_schema = { CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, pair_row, pair_fields) };
static const cyaml_schema_field_t provider_fields[] = {
    CYAML_FIELD_STRING_PTR("name", REQUIRED_TEXT, provider_row, name, 1, CYAML_UNLIMITED),
    CYAML_FIELD_ENUM("optional", CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT | CYAML_FLAG_CASE_INSENSITIVE, provider_row,
                     optional, switch_words, CYAML_ARRAY_LEN(switch_words)),
    CYAML_FIELD_SEQUENCE("options", OPTIONAL, provider_row, options, &pair_schema, 0, CYAML_UNLIMITED),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t provider_schema = { CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, provider_row,
                                                                          provider_fields) };
static const cyaml_schema_value_t item_schema = { CYAML_VALUE_STRING(REQUIRED_TEXT, char, 0, CYAML_UNLIMITED) };

#define FIELD_TEXT(name) CYAML_FIELD_STRING_PTR(#name, OPTIONAL, file_rows, name, 0, CYAML_UNLIMITED),
#define FIELD_INT(name) FIELD_TEXT(name) /* inlay_options_set() checks the range and has the better message */
#define FIELD_ENUM(name) FIELD_TEXT(name)
#define FIELD_PATH(name) FIELD_TEXT(name)
#define FIELD_LIST(name) CYAML_FIELD_SEQUENCE(#name, OPTIONAL, file_rows, name, &item_schema, 0, CYAML_UNLIMITED),
#define FIELD_PAIRS(name) FIELD_LIST(name)
#define FIELD_PATHS(name) FIELD_LIST(name)
#define FIELD_NAMES(name) CYAML_FIELD_SEQUENCE(#name, OPTIONAL, file_rows, name, &provider_schema, 0, CYAML_UNLIMITED),
static const cyaml_schema_field_t file_fields[] = {
#define OPTION(name, kind, default_value, min, max, document) FIELD_##kind(name)
#include "config/options.def"
#undef OPTION
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t file_schema = { CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, file_rows, file_fields) };

/* The offsets of an option in file_rows. */
#define COUNT_TEXT(name) 0
#define COUNT_INT(name) 0
#define COUNT_ENUM(name) 0
#define COUNT_PATH(name) 0
#define COUNT_LIST(name) offsetof(file_rows, name##_count)
#define COUNT_PAIRS(name) COUNT_LIST(name)
#define COUNT_PATHS(name) COUNT_LIST(name)
#define COUNT_NAMES(name) COUNT_LIST(name)
static const struct {
    size_t value, count;
} offsets[] = {
#define OPTION(name, kind, default_value, min, max, document) { offsetof(file_rows, name), COUNT_##kind(name) },
#include "config/options.def"
#undef OPTION
};

struct yaml_error {
    char text[256];
    uint32_t line;   /* of the text given to libcyaml; 0 = unknown */
    char field[160]; /* the innermost key concerned, or "" */
    bool item;       /* an item of the list under that key */
};

/* libcyaml logs the error in one line, then its position in several lines, the innermost first. */
static void capture_error(cyaml_log_t level, void *ctx, const char *format, va_list args)
{
    static const char what[] = "Load: ", trace[] = "Load: Backtrace", where[] = "(line: ";
    struct yaml_error *yaml_error = ctx;
    char text[256];
    const char *place;

    (void)level;
    (void)vsnprintf(text, sizeof text, format, args);
    text[strcspn(text, "\n")] = '\0';
    place = strstr(text, where);
    if (strncmp(text, trace, sizeof trace - 1) == 0)
        return;
    if (yaml_error->text[0] == '\0' && strncmp(text, what, sizeof what - 1) == 0)
        (void)memcpy(yaml_error->text, text + sizeof what - 1, sizeof text - sizeof what + 1);
    else if (yaml_error->line == 0 && place != NULL)
        yaml_error->line = (uint32_t)strtoul(place + sizeof where - 1, NULL, 10);
    if (yaml_error->field[0] == '\0') {
        yaml_error->item |= strstr(text, "in sequence entry") != NULL;
        (void)sscanf(text, " in mapping field '%159[^']'", yaml_error->field);
    }
}

/* The text after prefix; NULL if text does not begin with it. */
static const char *after_prefix(const char *text, const char *prefix)
{
    size_t bytes = strlen(prefix);

    return strncmp(text, prefix, bytes) == 0 ? text + bytes : NULL;
}

/* The name for users of a kind of node that libyaml reports. */
static const char *kind_name(const char *event)
{
    return strncmp(event, "SEQUENCE", 8) == 0  ? "a list"
           : strncmp(event, "MAPPING", 7) == 0 ? "a mapping"
                                               : "a single value";
}

static const char *provider_key(const void *ctx, uint32_t i)
{
    (void)ctx;
    return provider_fields[i].key;
}

static const tree_node *find_key(const tree_node *node, const char *key)
{
    const tree_node *found = node->key != NULL && strcmp(node->key, key) == 0 ? node : NULL;

    for (const tree_node *item = node->first; found == NULL && item != NULL; item = item->next)
        found = find_key(item, key);
    return found;
}

static void unknown_key(struct mistakes *mistakes, const tree_node *entry, const char *key)
{
    const tree_node *node = find_key(entry, key);
    const char *nearest = node != entry ? nearest_name(key, provider_key, NULL, CYAML_ARRAY_LEN(provider_fields) - 1)
                                        : options_nearest(key);
    uint32_t line = node != NULL ? node->key_line : entry->key_line;

    if (nearest != NULL)
        (void)mistake(mistakes, line, INLAY_INVALID_ARGUMENT, "unknown key '%s'; did you mean '%s'?", key, nearest);
    else if (node != entry)
        (void)mistake(mistakes, line, INLAY_INVALID_ARGUMENT,
                      "unknown key '%s' of a provider; its keys are name, optional and options", key);
    else
        (void)mistake(mistakes, line, INLAY_INVALID_ARGUMENT, "unknown key '%s'; `inlay config` lists all keys", key);
}

/* The option of a provider on that line whose value is not a scalar; NULL if none. In the schema all of them have the
 * key "value". */
static const char *option_on(const tree_node *node, uint32_t line)
{
    const char *key = NULL;
    bool options = node->key != NULL && strcmp(node->key, "options") == 0;

    for (const tree_node *item = node->first; key == NULL && item != NULL; item = item->next)
        key = options && item->kind != TREE_SCALAR && item->line == line ? item->key : option_on(item, line);
    return key;
}

/* Reports a value of the wrong shape. */
static void wrong_shape(struct mistakes *mistakes, const tree_node *entry, const struct yaml_error *yaml_error,
                        uint32_t line, const char *wanted, const char *got)
{
    const char *key = yaml_error->field, *what = kind_name(wanted);

    if (strcmp(key, "value") == 0 && option_on(entry, line) != NULL)
        key = option_on(entry, line);
    if (strcmp(key, "options") == 0)
        what = "a mapping";
    else if (yaml_error->item && strncmp(wanted, "MAPPING", 7) == 0)
        what = "a name or a mapping";
    (void)mistake(mistakes, line, INLAY_INVALID_ARGUMENT, "%s'%s' must be %s, not %s",
                  yaml_error->item ? "an item of " : "", key, what, kind_name(got));
}

static void report_error(struct mistakes *mistakes, const tree_node *entry, cyaml_err_t error,
                         const struct yaml_error *yaml_error)
{
    uint32_t line = yaml_error->line > 0 ? entry->key_line + yaml_error->line - 1 : entry->key_line;
    const char *key = yaml_error->field[0] != '\0' ? yaml_error->field : entry->key, *rest = NULL,
               *got = strstr(yaml_error->text, "got event: ");

    if (error == CYAML_ERR_OOM)
        (void)mistake_no_memory(mistakes);
    else if (error == CYAML_ERR_INVALID_KEY && (rest = after_prefix(yaml_error->text, "Unexpected key: ")) != NULL)
        unknown_key(mistakes, entry, rest);
    else if (error == CYAML_ERR_MAPPING_FIELD_MISSING)
        (void)mistake(mistakes, line, INLAY_INVALID_ARGUMENT, "a provider without a name; write {name: NAME, ...}");
    else if (error == CYAML_ERR_STRING_LENGTH_MIN)
        (void)mistake(mistakes, line, INLAY_INVALID_ARGUMENT, "an empty name");
    else if (got != NULL && (rest = after_prefix(yaml_error->text, "Expecting ")) != NULL)
        wrong_shape(mistakes, entry, yaml_error, line, rest, got + strlen("got event: "));
    else if ((rest = after_prefix(yaml_error->text, "Invalid ENUM value: ")) != NULL)
        (void)mistake(mistakes, line, INLAY_INVALID_ARGUMENT, "'%s': '%s' is neither true nor false", key, rest);
    else
        (void)mistake(mistakes, line, INLAY_INVALID_ARGUMENT, "'%s': %s", key,
                      yaml_error->text[0] != '\0' ? yaml_error->text : cyaml_strerror(error));
}

struct reader {
    struct arena *arena;
    struct mistakes *mistakes;
    struct document *document;
};

/* Appends a setting; name and value are copied. */
static inlay_status add(struct reader *reader, const char *name, const char *value, uint32_t line)
{
    struct document *document = reader->document;
    document_setting setting = { arena_string(reader->arena, name), arena_string(reader->arena, value), line };

    if (setting.name == NULL || setting.value == NULL ||
        !ARENA_GROW(reader->arena, document->settings, document->count))
        return mistake_no_memory(reader->mistakes);
    document->settings[document->count++] = setting;
    return INLAY_OK;
}

static const tree_node *next_item(const tree_node *entry, const tree_node *item)
{
    return item == NULL ? entry->first : item->next;
}

/* Can the text be an item of a joined list? */
static bool can_join(struct reader *reader, const tree_node *entry, const char *text, const char *separators,
                     uint32_t line)
{
    const char *bad = strpbrk(text, separators);

    if (text[0] == '\0')
        (void)mistake(reader->mistakes, line, INLAY_INVALID_ARGUMENT, "'%s': an item is empty", entry->key);
    else if (bad != NULL)
        (void)mistake(reader->mistakes, line, INLAY_INVALID_ARGUMENT,
                      "'%s': '%s' contains '%c', which is not allowed in an item", entry->key, text, *bad);
    return text[0] != '\0' && bad == NULL;
}

static inlay_status add_items(struct reader *reader, const tree_node *entry, uint32_t option, char *const *items,
                              uint32_t count)
{
    inlay_status status = INLAY_OK;
    const tree_node *item = NULL;

    if (count == 0 || options_kind(option) == KIND_LIST) /* replaces the list of earlier sources */
        status = add(reader, entry->key, "", entry->key_line);
    for (uint32_t i = 0; status == INLAY_OK && i < count; i++) {
        item = next_item(entry, item);
        if (can_join(reader, entry, items[i], "", item != NULL ? item->line : entry->line))
            status = add(reader, entry->key, items[i], item != NULL ? item->line : entry->line);
    }
    return status;
}

static inlay_status add_paths(struct reader *reader, const tree_node *entry, char *const *items, uint32_t count)
{
    const tree_node *item = NULL;
    char *text = arena_string(reader->arena, "");

    for (uint32_t i = 0; text != NULL && i < count; i++) {
        item = next_item(entry, item);
        if (!can_join(reader, entry, items[i], PATH_LIST_SEPARATOR, item->line))
            return INLAY_OK;
        text = arena_format(reader->arena, "%s%s%s", text, i > 0 ? PATH_LIST_SEPARATOR : "", items[i]);
    }
    return text != NULL ? add(reader, entry->key, text, entry->key_line) : mistake_no_memory(reader->mistakes);
}

static inlay_status add_provider_options(struct reader *reader, const tree_node *node, const provider_row *row)
{
    size_t bytes = strlen(row->name) - (row->name[strlen(row->name) - 1] == '?' ? 1 : 0);
    const tree_node *options = node->first;
    inlay_status status = INLAY_OK;

    while (options != NULL && strcmp(options->key, "options") != 0)
        options = options->next;
    for (uint32_t i = 0; status == INLAY_OK && options != NULL && i < row->options_count; i++) {
        const tree_node *item = options->first;
        char *name = arena_format(reader->arena, "%.*s.%s", (int)bytes, row->name, row->options[i].key);

        while (item != NULL && item->key != NULL && strcmp(item->key, row->options[i].key) != 0)
            item = item->next;
        status = name != NULL ? add(reader, name, row->options[i].value, item != NULL ? item->key_line : node->line)
                              : mistake_no_memory(reader->mistakes);
    }
    return status;
}

static inlay_status add_providers(struct reader *reader, const tree_node *entry, const provider_row *rows,
                                  uint32_t count)
{
    const tree_node *item = NULL;
    char *text = arena_string(reader->arena, "");
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; text != NULL && status == INLAY_OK && i < count; i++) {
        const char *name = rows[i].name;
        bool marked = name[strlen(name) - 1] == '?';

        item = next_item(entry, item);
        if (!can_join(reader, entry, name, ",. ", item->line))
            return INLAY_OK;
        text = arena_format(reader->arena, "%s%s%s%s", text, i > 0 ? "," : "", name,
                            rows[i].optional != 0 && !marked ? "?" : "");
        status = add_provider_options(reader, item, &rows[i]);
    }
    if (status != INLAY_OK || text == NULL)
        return status != INLAY_OK ? status : mistake_no_memory(reader->mistakes);
    return add(reader, entry->key, text, entry->key_line);
}

static inlay_status add_rows(struct reader *reader, const tree_node *entry, uint32_t option, const file_rows *rows)
{
    const char *base = (const char *)rows;
    uint32_t count = offsets[option].count > 0 ? *(const uint32_t *)(const void *)(base + offsets[option].count) : 0;
    const void *value = *(const void *const *)(const void *)(base + offsets[option].value);

    switch (options_kind(option)) {
    case KIND_LIST:
    case KIND_PAIRS:
        return add_items(reader, entry, option, value, count);
    case KIND_PATHS:
        return add_paths(reader, entry, value, count);
    case KIND_NAMES:
        return add_providers(reader, entry, value, count);
    default:
        return add(reader, entry->key, value, entry->key_line);
    }
}

/* Refuses a key without a value anywhere in the entry: it is probably a mistake. */
static bool is_complete(struct mistakes *mistakes, const tree_node *node, const char *key)
{
    bool complete = true;

    if (node->kind == TREE_SCALAR && node->missing) {
        (void)mistake(mistakes, node->key != NULL ? node->key_line : node->line, INLAY_INVALID_ARGUMENT,
                      "'%s' has no value; omit it for the default, or write \"\" for an empty text", key);
        return false;
    }
    for (const tree_node *item = node->first; complete && item != NULL; item = item->next)
        complete = is_complete(mistakes, item, item->key != NULL ? item->key : key);
    return complete;
}

static inlay_status load_rows(struct reader *reader, const tree_node *entry, uint32_t option, const char *text,
                              size_t bytes)
{
    struct yaml_error yaml_error = { .line = 0 };
    cyaml_config_t config = { .log_fn = capture_error,
                              .log_ctx = &yaml_error,
                              .mem_fn = cyaml_mem,
                              .log_level = CYAML_LOG_ERROR,
                              .flags = CYAML_CFG_NO_ALIAS };
    file_rows *rows = NULL;
    inlay_status status = INLAY_OK;
    cyaml_err_t error =
        cyaml_load_data((const uint8_t *)text, bytes, &config, &file_schema, (cyaml_data_t **)(void *)&rows, NULL);

    if (error != CYAML_OK)
        report_error(reader->mistakes, entry, error, &yaml_error);
    else if (rows != NULL && option < OPTION_COUNT)
        status = add_rows(reader, entry, option, rows);
    (void)cyaml_free(&config, &file_schema, rows, 0);
    return error == CYAML_ERR_OOM ? INLAY_OUT_OF_MEMORY : status;
}

static inlay_status read_entry(struct reader *reader, const tree_node *entry)
{
    uint32_t option = options_find(entry->key);
    inlay_status status;
    char *text = NULL;
    size_t bytes = 0;

    if (strlen(entry->key) > MAX_KEY) {
        (void)mistake(reader->mistakes, entry->key_line, INLAY_INVALID_ARGUMENT, "a key of more than %d letters",
                      MAX_KEY);
        return INLAY_OK;
    }
    if (!is_complete(reader->mistakes, entry, entry->key))
        return INLAY_OK;
    /* An option of a provider, or a list written as on the command line: the schema cannot describe these. */
    if (entry->kind == TREE_SCALAR &&
        ((option == OPTION_COUNT && strchr(entry->key, '.') != NULL) ||
         (option < OPTION_COUNT && (options_kind(option) == KIND_NAMES || options_kind(option) == KIND_PATHS))))
        return add(reader, entry->key, entry->text, entry->key_line);
    if (!long_form(entry, option, reader->arena, &text, &bytes))
        return mistake_no_memory(reader->mistakes);
    status = load_rows(reader, entry, option, text, bytes);
    free(text);
    return status;
}

inlay_status document_read(const tree_node *root, struct arena *arena, struct mistakes *mistakes,
                           struct document *out_document)
{
    struct reader reader = { arena, mistakes, out_document };
    inlay_status status = INLAY_OK;

    *out_document = (struct document){ 0 };
    if (root == NULL || (root->kind == TREE_SCALAR && root->missing))
        return INLAY_OK;
    if (root->kind != TREE_MAP) {
        (void)mistake(mistakes, root->line, INLAY_INVALID_ARGUMENT,
                      "not a file of settings: it must have lines NAME: VALUE");
        return INLAY_OK;
    }
    for (const tree_node *entry = root->first; status == INLAY_OK && entry != NULL; entry = entry->next)
        status = read_entry(&reader, entry);
    return status;
}
