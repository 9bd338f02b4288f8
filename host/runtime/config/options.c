#include "config/options.h"
#include "base/among.h"
#include "base/sized_struct.h"
#include "base/nearest.h"
#include "base/memory.h"
#include "config/checks.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    uint32_t kind;
    const char *default_value;
    int64_t min, max;
    const char *doc;
    const char *choices; /* KIND_ENUM: "a|b|c"; otherwise "" */
} table[] = {
#define OPTION(name, kind, default_value, min, max, doc) { #name, KIND_##kind, default_value, min, max, doc, "" },
#define CHOICE(name, choices, default_value, doc) { #name, KIND_ENUM, default_value, 0, 0, doc, choices },
#include "config/options.def"
#undef OPTION
};

const char *options_text(const inlay_options *options, uint32_t option)
{
    return options != NULL && options->values[option].count > 0 ? options->values[option].items[0].text
                                                                : table[option].default_value;
}

bool options_on(const inlay_options *options, uint32_t option)
{
    return strcmp(options_text(options, option), "0") != 0;
}

int64_t options_int(const inlay_options *options, uint32_t option)
{
    return strtoll(options_text(options, option), NULL, 10);
}

uint32_t options_source(const inlay_options *options, uint32_t option)
{
    return options->values[option].count > 0 ? options->values[option].items[0].source : (uint32_t)INLAY_SOURCE_DEFAULT;
}

const char *options_list(const inlay_options *options, uint32_t option, uint32_t i)
{
    return options != NULL && i < options->values[option].count ? options->values[option].items[i].text : NULL;
}

static option_pair split_pair(const char *text)
{
    const char *equals = strrchr(text, '=');

    return (option_pair){ text, equals != NULL ? (size_t)(equals - text) : 0, equals != NULL ? equals + 1 : NULL };
}

bool options_pair(const inlay_options *options, uint32_t option, uint32_t i, option_pair *out_pair)
{
    const char *text = options_list(options, option, i);

    if (text != NULL)
        *out_pair = split_pair(text);
    return text != NULL;
}

inlay_status options_create(inlay_options **out_options, inlay_diag *diag)
{
    *out_options = calloc(1, sizeof **out_options);
    return *out_options != NULL ? INLAY_OK : no_memory(diag, "for options");
}

static void value_deinit(option_value *value)
{
    free(value->text);
    free(value->origin);
}

static void values_deinit(option_values *values)
{
    for (uint32_t i = 0; i < values->count; i++)
        value_deinit(&values->items[i]);
    free(values->items);
    value_deinit(&values->emptied);
    *values = (option_values){ 0 };
}

void options_destroy(inlay_options *options)
{
    if (options == NULL)
        return;
    for (uint32_t i = 0; i < OPTION_COUNT; i++)
        values_deinit(&options->values[i]);
    for (uint32_t i = 0; i < options->setting_count; i++) {
        free((char *)(uintptr_t)options->settings[i].name);
        free((char *)(uintptr_t)options->settings[i].value);
        value_deinit(&options->setting_marks[i]);
    }
    for (uint32_t i = 0; i < options->file_count; i++)
        free((char *)(uintptr_t)options->files[i].location);
    free(options->settings);
    free(options->setting_marks);
    free(options->files);
    free(options);
}

uint32_t options_find(const char *name)
{
    for (uint32_t i = 0; i < OPTION_COUNT; i++)
        if (strcmp(table[i].name, name) == 0)
            return i;
    return OPTION_COUNT;
}

const char *options_name_at(const void *ctx, uint32_t i)
{
    (void)ctx;
    return table[i].name;
}

const char *options_nearest(const char *name)
{
    return nearest_name(name, options_name_at, NULL, OPTION_COUNT);
}

uint32_t options_kind(uint32_t option)
{
    return table[option].kind;
}

static inlay_status fail_unknown(const char *name, inlay_diag *diag)
{
    const char *nearest = options_nearest(name);

    if (nearest != NULL)
        return inlay_fail(diag, INLAY_NOT_FOUND, "unknown option '%s'; did you mean '%s'?", name, nearest);
    return inlay_fail(diag, INLAY_NOT_FOUND,
                      "unknown option '%s'; `inlay config`, or inlay_options_describe() in C, lists all options", name);
}

/* Checks that the whole text is an integer within the range of the option. */
static inlay_status check_int(uint32_t option, const char *text, inlay_diag *diag)
{
    char *end;
    int64_t number;

    errno = 0;
    number = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno == ERANGE || number < table[option].min || number > table[option].max)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option %s: '%s' is not an integer from %lld to %lld",
                          table[option].name, text, (long long)table[option].min, (long long)table[option].max);
    return INLAY_OK;
}

/* A switch may be given as a word, which becomes "1" or "0". Any other text is returned unchanged. */
static const char *switch_to_digits(uint32_t option, const char *text)
{
    static const char *const spellings[] = { "false", "no", "off", "true", "yes", "on" };

    if ((table[option].kind == KIND_INT && table[option].min == 0 && table[option].max == 1) ||
        strncmp(table[option].choices, "0|1|", 4) == 0)
        for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++)
            if (strcasecmp(text, spellings[i]) == 0)
                return i < 3 ? "0" : "1";
    return text;
}

/* Checks a pair; its value must be an integer if the option has a range. */
static inlay_status check_pair(uint32_t option, const char *text, inlay_diag *diag)
{
    option_pair pair = split_pair(text);
    bool number = table[option].min != table[option].max;

    if (pair.key_bytes == 0 || pair.value[0] == '\0')
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option %s: '%s' is not NAME=%s", table[option].name, text,
                          number ? "N" : "VALUE");
    return number ? check_int(option, pair.value, diag) : INLAY_OK;
}

/* Checks that the text is one of the choices. */
static inlay_status check_choice(uint32_t option, const char *text, inlay_diag *diag)
{
    const char *choices = table[option].choices;
    char list[128];
    size_t used = 0;

    if (is_choice(text, choices))
        return INLAY_OK;
    for (const char *at = choices; *at != '\0' && used + 2 < sizeof list; at++) {
        list[used++] = *at == '|' ? ',' : *at;
        if (*at == '|')
            list[used++] = ' ';
    }
    list[used] = '\0';
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option %s: '%.64s' is not one of %s", table[option].name, text,
                      list);
}

static bool is_list(uint32_t option)
{
    return table[option].kind == KIND_LIST || table[option].kind == KIND_PAIRS;
}

static inlay_status check_value(uint32_t option, const char *text, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    if (is_list(option) && text[0] == '\0') /* empties the list */
        return INLAY_OK;
    if (table[option].kind == KIND_INT)
        status = check_int(option, switch_to_digits(option, text), diag);
    else if (table[option].kind == KIND_PAIRS)
        status = check_pair(option, text, diag);
    else if (table[option].kind == KIND_ENUM)
        status = check_choice(option, switch_to_digits(option, text), diag);
    return status == INLAY_OK ? option_check(option, text, diag) : status;
}

inlay_status options_check(const char *name, const char *value, inlay_diag *diag)
{
    uint32_t option = options_find(name);

    if (option == OPTION_COUNT)
        return strchr(name, '.') != NULL ? INLAY_OK : fail_unknown(name, diag);
    return check_value(option, value, diag);
}

static bool value_init(option_value *value, const char *text, uint32_t source, const char *origin)
{
    *value = (option_value){ strdup(text), strdup(origin), source };
    if (value->text != NULL && value->origin != NULL)
        return true;
    value_deinit(value);
    return false;
}

/* The index of the item that the new one replaces: the only value of a scalar, the item with the same key for pairs;
 * values->count if none. */
static uint32_t find_replaced(uint32_t option, const option_values *values, const char *text)
{
    option_pair new = split_pair(text), old;
    uint32_t i = 0;

    if (table[option].kind == KIND_LIST)
        return values->count;
    if (table[option].kind != KIND_PAIRS)
        return 0;
    for (; i < values->count; i++) {
        old = split_pair(values->items[i].text);
        if (old.key_bytes == new.key_bytes && memcmp(old.key, new.key, new.key_bytes) == 0)
            break;
    }
    return i;
}

/* Removes the items of a list that come from this source or an earlier one. */
static void remove_items(option_values *values, uint32_t source)
{
    uint32_t kept_count = 0;

    for (uint32_t i = 0; i < values->count; i++) {
        if (values->items[i].source > source)
            values->items[kept_count++] = values->items[i];
        else
            value_deinit(&values->items[i]);
    }
    values->count = kept_count;
}

static inlay_status empty_list(option_values *values, uint32_t source, const char *origin, inlay_diag *diag)
{
    char *copy = strdup(origin);

    if (copy == NULL)
        return no_memory(diag, "for options");
    remove_items(values, source);
    if (values->emptied.origin != NULL && values->emptied.source > source) {
        free(copy);
        return INLAY_OK;
    }
    value_deinit(&values->emptied);
    values->emptied = (option_value){ NULL, copy, source };
    return INLAY_OK;
}

/* Has a later source already set the whole list, or the value at that index? */
static bool is_overruled(const option_values *values, uint32_t option, uint32_t at, uint32_t source)
{
    if (values->emptied.origin != NULL && values->emptied.source > source)
        return true;
    if (table[option].kind == KIND_LIST)
        return values->count > 0 && values->items[0].source > source;
    return at < values->count && values->items[at].source > source;
}

/* Inserts an item after the items of its source and of earlier sources. The list has space for it. */
static void insert(option_values *values, option_value value)
{
    uint32_t at = values->count;

    while (at > 0 && values->items[at - 1].source > value.source)
        at--;
    memmove(&values->items[at + 1], &values->items[at], (values->count - at) * sizeof value);
    values->items[at] = value;
    values->count++;
}

static inlay_status set_value(option_values *values, uint32_t option, const char *text, uint32_t source,
                              const char *origin, inlay_diag *diag)
{
    uint32_t at = find_replaced(option, values, text);
    option_value value;

    if (is_overruled(values, option, at, source))
        return INLAY_OK;
    if (at == values->count && values->count == OPTIONS_MAX_ITEMS)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "option %s: more than %d items", table[option].name,
                          OPTIONS_MAX_ITEMS);
    if (!value_init(&value, text, source, origin))
        return no_memory(diag, "for options");
    if (!LIST_GROW(values->items, values->count)) {
        value_deinit(&value);
        return no_memory(diag, "for options");
    }
    if (at < values->count) {
        value_deinit(&values->items[at]);
        values->items[at] = value;
        return INLAY_OK;
    }
    if (table[option].kind == KIND_LIST && values->count > 0 && values->items[0].source < source)
        remove_items(values, source);
    insert(values, value);
    return INLAY_OK;
}

static uint32_t find_setting(const inlay_options *options, const char *name)
{
    uint32_t i = 0;

    while (i < options->setting_count && strcmp(options->settings[i].name, name) != 0)
        i++;
    return i;
}

/* Sets "reference.option", which is checked against the provider's schema when that is opened. */
static inlay_status set_provider_option(inlay_options *options, const char *name, const char *value, uint32_t source,
                                        const char *origin, inlay_diag *diag)
{
    uint32_t at = find_setting(options, name);
    option_value new;
    char *copy;

    if (at < options->setting_count && options->setting_marks[at].source > source)
        return INLAY_OK;
    if (at == OPTIONS_MAX_ITEMS)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "more than %d provider options", OPTIONS_MAX_ITEMS);
    if (!value_init(&new, value, source, origin))
        return no_memory(diag, "for options");
    if (at < options->setting_count) {
        free((char *)(uintptr_t)options->settings[at].value);
        options->settings[at].value = new.text;
        free(options->setting_marks[at].origin);
        options->setting_marks[at] = (option_value){ NULL, new.origin, source };
        return INLAY_OK;
    }
    copy = strdup(name);
    if (copy == NULL || !LIST_GROW(options->settings, at) || !LIST_GROW(options->setting_marks, at)) {
        free(copy);
        value_deinit(&new);
        return no_memory(diag, "for options");
    }
    options->settings[at] = (provider_setting){ copy, new.text };
    options->setting_marks[at] = (option_value){ NULL, new.origin, source };
    options->setting_count++;
    return INLAY_OK;
}

inlay_status options_set_as(inlay_options *options, const char *name, const char *value, uint32_t source,
                            const char *origin, inlay_diag *diag)
{
    uint32_t option = options_find(name);
    inlay_status status = options_check(name, value, diag);

    if (status != INLAY_OK)
        return status;
    if (option == OPTION_COUNT)
        return set_provider_option(options, name, value, source, origin, diag);
    if (is_list(option) && value[0] == '\0')
        return empty_list(&options->values[option], source, origin, diag);
    return set_value(&options->values[option], option, switch_to_digits(option, value), source, origin, diag);
}

size_t options_item_bytes(uint32_t option, const char *list)
{
    size_t bytes = strcspn(list, ",");

    /* Names of nodes may contain commas: an item NAME=VALUE ends only after its '='. */
    while (list[bytes] == ',' &&
           (option == OPTION_pin || option == OPTION_reduce || table[option].kind == KIND_PAIRS) &&
           memchr(list, '=', bytes) == NULL)
        bytes += 1 + strcspn(list + bytes + 1, ",");
    return bytes;
}

/* Sets items that are separated by commas; none if one of them is invalid. */
static inlay_status set_items(inlay_options *options, uint32_t option, const char *list, const char *origin,
                              inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (int set = 0; status == INLAY_OK && set < 2; set++)
        for (const char *at = list; status == INLAY_OK && *at != '\0';) {
            size_t bytes = options_item_bytes(option, at);
            char *item = strndup(at, bytes);

            if (item == NULL)
                return no_memory(diag, "for options");
            if (bytes > 0 && set == 0)
                status = options_check(table[option].name, item, diag);
            else if (bytes > 0)
                status = options_set_as(options, table[option].name, item, INLAY_SOURCE_PROGRAM, origin, diag);
            free(item);
            at += bytes + (at[bytes] == ',');
        }
    return status;
}

inlay_status options_set_from(inlay_options *options, const char *name, const char *value, const char *origin,
                              inlay_diag *diag)
{
    uint32_t option = options_find(name);

    if (option < OPTION_COUNT && is_list(option) && strchr(value, ',') != NULL)
        return set_items(options, option, value, origin, diag);
    return options_set_as(options, name, value, INLAY_SOURCE_PROGRAM, origin, diag);
}

inlay_status options_set(inlay_options *options, const char *name, const char *value, inlay_diag *diag)
{
    return options_set_from(options, name, value, "set by the program", diag);
}

inlay_status options_set_item(inlay_options *options, const char *name, const char *value, inlay_diag *diag)
{
    return options_set_as(options, name, value, INLAY_SOURCE_PROGRAM, "set by the program", diag);
}

inlay_status options_set_int(inlay_options *options, const char *name, int64_t value, inlay_diag *diag)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%lld", (long long)value);
    return options_set(options, name, text, diag);
}

/* Appends up to `bytes` bytes of the array to text, which has `at` bytes so far, and returns the length of the
 * whole. */
static size_t append_text(char *text, size_t bytes, size_t at, const char *separator, const char *item)
{
    const size_t rest = at < bytes ? bytes - at : 0;

    return at + (size_t)snprintf(rest > 0 ? text + at : NULL, rest, "%s%s", separator, item);
}

inlay_status options_get(const inlay_options *options, const char *name, char *text, size_t bytes, size_t *out_bytes,
                         inlay_diag *diag)
{
    uint32_t option = options_find(name), setting = option == OPTION_COUNT ? find_setting(options, name) : 0;
    size_t length = 0;

    if (bytes > 0)
        text[0] = '\0';
    if (out_bytes != NULL)
        *out_bytes = 0;
    if (option == OPTION_COUNT && setting == options->setting_count)
        return fail_unknown(name, diag);
    if (option == OPTION_COUNT)
        length = append_text(text, bytes, 0, "", options->settings[setting].value);
    else if (!is_list(option))
        length = append_text(text, bytes, 0, "", options_text(options, option));
    else
        for (uint32_t i = 0; i < options->values[option].count; i++)
            length = append_text(text, bytes, length, i > 0 ? "," : "", options_list(options, option, i));
    if (out_bytes != NULL)
        *out_bytes = length + 1;
    if (bytes > 0 && length >= bytes)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the value of option '%.60s' needs %zu bytes; the buffer has %zu",
                          name, length + 1, bytes);
    return INLAY_OK;
}

inlay_status options_describe(uint32_t index, inlay_option_doc *out_doc)
{
    inlay_option_doc doc = { .struct_size = sizeof doc };

    if (index >= OPTION_COUNT)
        return INLAY_NOT_FOUND;
    doc.name = table[index].name;
    doc.doc = table[index].doc;
    doc.default_value = table[index].default_value;
    doc.choices = table[index].choices;
    doc.kind = table[index].kind;
    doc.min = table[index].min;
    doc.max = table[index].max;
    return sized_struct_write(out_doc, &doc, sizeof doc) ? INLAY_OK : INLAY_INVALID_ARGUMENT;
}

/* The index-th value; false past the last. */
static bool setting_at(const inlay_options *options, uint32_t index, inlay_setting *setting)
{
    for (uint32_t option = 0; option < OPTION_COUNT; option++) {
        const option_values *values = &options->values[option];
        uint32_t count = values->count > 0 ? values->count : 1;
        bool emptied = values->emptied.origin != NULL;

        if (index >= count) {
            index -= count;
            continue;
        }
        setting->name = table[option].name;
        setting->text = values->count > 0 ? values->items[index].text : table[option].default_value;
        setting->origin = values->count > 0 ? values->items[index].origin
                          : emptied         ? values->emptied.origin
                                            : "default";
        setting->source = values->count > 0 ? values->items[index].source
                          : emptied         ? values->emptied.source
                                            : (uint32_t)INLAY_SOURCE_DEFAULT;
        setting->item = is_list(option) && values->count > 0 ? index : INLAY_NONE;
        return true;
    }
    if (index >= options->setting_count)
        return false;
    setting->name = options->settings[index].name;
    setting->text = options->settings[index].value;
    setting->origin = options->setting_marks[index].origin;
    setting->source = options->setting_marks[index].source;
    setting->item = INLAY_NONE;
    return true;
}

inlay_status options_setting(const inlay_options *options, uint32_t index, inlay_setting *out_setting)
{
    inlay_setting setting = { .struct_size = sizeof setting };

    if (!setting_at(options, index, &setting))
        return INLAY_NOT_FOUND;
    return sized_struct_write(out_setting, &setting, sizeof setting) ? INLAY_OK : INLAY_INVALID_ARGUMENT;
}

void options_set_log(inlay_options *options, inlay_log_fn log, void *user)
{
    options->log = log;
    options->log_user = user;
}

void options_set_progress(inlay_options *options, inlay_progress_fn progress, void *user)
{
    options->progress = progress;
    options->progress_user = user;
}

/* The number of the file in memory at location; file_count if there is none. */
static uint32_t find_file(const inlay_options *options, const char *location)
{
    uint32_t i = 0;

    while (i < options->file_count && strcmp(options->files[i].location, location) != 0)
        i++;
    return i;
}

inlay_status options_set_file(inlay_options *options, const char *location, const void *data, uint64_t bytes,
                              inlay_diag *diag)
{
    char *copy;
    uint32_t i;

    if (location == NULL || location[0] == '\0' || bytes > SIZE_MAX)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "inlay_options_set_file: location is empty, or bytes too large");
    i = find_file(options, location);
    if (data == NULL) {
        if (i < options->file_count) {
            free((char *)(uintptr_t)options->files[i].location);
            options->files[i] = options->files[--options->file_count];
        }
        return INLAY_OK;
    }
    if (i == options->file_count) {
        copy = strdup(location);
        if (copy == NULL || !LIST_GROW(options->files, options->file_count)) {
            free(copy);
            return no_memory(diag, "for options");
        }
        options->files[options->file_count++] = (memory_file){ .location = copy };
    }
    options->files[i].bytes = data;
    options->files[i].count = (size_t)bytes;
    return INLAY_OK;
}

inlay_status options_set_allocator(inlay_options *options, const inlay_allocator *allocator, inlay_diag *diag)
{
    inlay_allocator complete = { 0 };

    if (allocator != NULL) {
        sized_struct_read(&complete, sizeof complete, allocator, allocator->struct_size);
        if (complete.alloc == NULL || complete.free == NULL)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_allocator: struct_size, alloc or free is not set");
    }
    options->allocator = complete;
    return INLAY_OK;
}

/* Copies a value; its text or origin may be NULL. */
static bool value_copy(const option_value *from, option_value *to)
{
    *to = (option_value){ from->text != NULL ? strdup(from->text) : NULL,
                          from->origin != NULL ? strdup(from->origin) : NULL, from->source };
    return (to->text != NULL) == (from->text != NULL) && (to->origin != NULL) == (from->origin != NULL);
}

static bool values_copy(const option_values *from, option_values *to)
{
    for (uint32_t i = 0; i < from->count; i++)
        if (!LIST_GROW(to->items, to->count) || !value_copy(&from->items[i], &to->items[to->count++]))
            return false;
    return value_copy(&from->emptied, &to->emptied);
}

static inlay_status copy_all(const inlay_options *from, inlay_options *to, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < OPTION_COUNT; i++)
        if (!values_copy(&from->values[i], &to->values[i]))
            return no_memory(diag, "for options");
    for (uint32_t i = 0; i < from->setting_count; i++)
        INLAY_TRY(set_provider_option(to, from->settings[i].name, from->settings[i].value,
                                      from->setting_marks[i].source, from->setting_marks[i].origin, diag));
    for (uint32_t i = 0; i < from->file_count; i++)
        INLAY_TRY(options_set_file(to, from->files[i].location, from->files[i].bytes, from->files[i].count, diag));
    options_set_log(to, from->log, from->log_user);
    options_set_progress(to, from->progress, from->progress_user);
    to->allocator = from->allocator;
done:
    return status;
}

inlay_status options_copy(const inlay_options *options, inlay_options **out_copy, inlay_diag *diag)
{
    inlay_status status = options_create(out_copy, diag);

    if (status == INLAY_OK && options != NULL)
        status = copy_all(options, *out_copy, diag);
    if (status != INLAY_OK) {
        options_destroy(*out_copy);
        *out_copy = NULL;
    }
    return status;
}
