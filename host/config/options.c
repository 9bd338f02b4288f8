#include "config/options.h"
#include "base/nearest.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { KIND_TEXT, KIND_INT, KIND_LIST };

static const struct {
    const char *name;
    uint32_t kind;
    const char *otherwise;
    int64_t min, max;
    const char *doc;
} table[] = {
#define OPTION(name, kind, otherwise, min, max, doc) { #name, KIND_##kind, otherwise, min, max, doc },
#include "config/options.def"
#undef OPTION
};

const char *options_text(const inlay_options *options, uint32_t option)
{
    return options != NULL && options->text[option] != NULL ? options->text[option] : table[option].otherwise;
}

int64_t options_int(const inlay_options *options, uint32_t option)
{
    return strtoll(options_text(options, option), NULL, 10);
}

inlay_status inlay_options_create(inlay_options **out_options, inlay_diag *diag)
{
    *out_options = calloc(1, sizeof **out_options);
    return *out_options != NULL ? INLAY_OK : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for options");
}

void inlay_options_destroy(inlay_options *options)
{
    if (options == NULL)
        return;
    for (uint32_t i = 0; i < OPTION_COUNT; i++)
        free(options->text[i]);
    for (uint32_t i = 0; i < options->dim_count; i++)
        free(options->dims[i].name);
    for (uint32_t i = 0; i < options->setting_count; i++) {
        free((char *)(uintptr_t)options->settings[i].name);
        free((char *)(uintptr_t)options->settings[i].value);
    }
    free(options->dims);
    free(options->settings);
    free(options);
}

static inlay_status no_memory(inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for options");
}

static uint32_t find(const char *name)
{
    for (uint32_t i = 0; i < OPTION_COUNT; i++)
        if (strcmp(table[i].name, name) == 0)
            return i;
    return OPTION_COUNT;
}

static const char *name_at(const void *ctx, uint32_t i)
{
    (void)ctx;
    return table[i].name;
}

static inlay_status unknown(const char *name, inlay_diag *diag)
{
    const char *nearest = nearest_name(name, name_at, NULL, OPTION_COUNT);

    if (nearest != NULL)
        return inlay_fail(diag, INLAY_NOT_FOUND, "there is no option '%s'; did you mean '%s'?", name, nearest);
    return inlay_fail(diag, INLAY_NOT_FOUND, "there is no option '%s'; inlay_options_describe lists them", name);
}

/* Whole text is an integer within the range. */
static inlay_status parse_int(const char *name, const char *text, int64_t min, int64_t max, int64_t *out,
                              inlay_diag *diag)
{
    char *end;

    errno = 0;
    *out = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno == ERANGE || *out < min || *out > max)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option %s: '%s' is not an integer from %lld to %lld", name,
                          text, (long long)min, (long long)max);
    return INLAY_OK;
}

static inlay_status set_dim(inlay_options *options, const char *value, inlay_diag *diag)
{
    const char *equals = strrchr(value, '=');
    option_dim *dims, *d = NULL;
    inlay_status status;
    int64_t size = 0;
    char *name;

    if (equals == NULL || equals == value)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option dim: '%s' is not NAME=N", value);
    status = parse_int("dim", equals + 1, 0, INT64_MAX, &size, diag);
    if (status != INLAY_OK)
        return status;
    name = strndup(value, (size_t)(equals - value));
    if (name == NULL)
        return no_memory(diag);
    for (uint32_t i = 0; d == NULL && i < options->dim_count; i++)
        if (strcmp(options->dims[i].name, name) == 0)
            d = &options->dims[i];
    if (d != NULL) {
        free(name);
        d->size = size;
        return INLAY_OK;
    }
    dims = realloc(options->dims, (options->dim_count + 1) * sizeof *dims);
    if (dims == NULL) {
        free(name);
        return no_memory(diag);
    }
    options->dims = dims;
    dims[options->dim_count++] = (option_dim){ name, size };
    return INLAY_OK;
}

/* "reference.option": checked against the provider's schema when it is opened. */
static inlay_status set_provider_option(inlay_options *options, const char *name, const char *value, inlay_diag *diag)
{
    provider_setting *settings, *s = NULL;
    char *name_copy = strdup(name), *value_copy = strdup(value);

    if (name_copy == NULL || value_copy == NULL)
        goto no_memory;
    for (uint32_t i = 0; s == NULL && i < options->setting_count; i++)
        if (strcmp(options->settings[i].name, name) == 0)
            s = &options->settings[i];
    if (s != NULL) {
        free(name_copy);
        free((char *)(uintptr_t)s->value);
        s->value = value_copy;
        return INLAY_OK;
    }
    settings = realloc(options->settings, (options->setting_count + 1) * sizeof *settings);
    if (settings == NULL)
        goto no_memory;
    options->settings = settings;
    settings[options->setting_count++] = (provider_setting){ name_copy, value_copy };
    return INLAY_OK;
no_memory:
    free(name_copy);
    free(value_copy);
    return no_memory(diag);
}

inlay_status inlay_options_set(inlay_options *options, const char *name, const char *value, inlay_diag *diag)
{
    uint32_t option = find(name);
    inlay_status status = INLAY_OK;
    int64_t number;
    char *copy;

    if (option == OPTION_COUNT)
        return strchr(name, '.') != NULL ? set_provider_option(options, name, value, diag) : unknown(name, diag);
    if (table[option].kind == KIND_LIST)
        return set_dim(options, value, diag);
    if (table[option].kind == KIND_INT)
        status = parse_int(name, value, table[option].min, table[option].max, &number, diag);
    else if (option == OPTION_policy && strcmp(value, "cost") != 0 && strcmp(value, "priority") != 0)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option policy: '%s' is neither cost nor priority", value);
    if (status != INLAY_OK)
        return status;
    copy = strdup(value);
    if (copy == NULL)
        return no_memory(diag);
    free(options->text[option]);
    options->text[option] = copy;
    return INLAY_OK;
}

inlay_status inlay_options_set_int(inlay_options *options, const char *name, int64_t value, inlay_diag *diag)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%lld", (long long)value);
    return inlay_options_set(options, name, text, diag);
}

inlay_status inlay_options_get(const inlay_options *options, const char *name, char *text, size_t bytes,
                               inlay_diag *diag)
{
    uint32_t option = find(name);
    size_t at = 0;

    if (bytes > 0)
        text[0] = '\0';
    for (uint32_t i = 0; option == OPTION_COUNT && i < options->setting_count; i++) {
        if (strcmp(options->settings[i].name, name) == 0) {
            (void)snprintf(text, bytes, "%s", options->settings[i].value);
            return INLAY_OK;
        }
    }
    if (option == OPTION_COUNT)
        return unknown(name, diag);
    if (option != OPTION_dim) {
        (void)snprintf(text, bytes, "%s", options_text(options, option));
        return INLAY_OK;
    }
    for (uint32_t i = 0; i < options->dim_count && at < bytes; i++)
        at += (size_t)snprintf(text + at, bytes - at, "%s%s=%lld", i > 0 ? "," : "", options->dims[i].name,
                               (long long)options->dims[i].size);
    return INLAY_OK;
}

inlay_status inlay_options_describe(uint32_t index, inlay_option_doc *out_doc)
{
    inlay_option_doc doc = { .struct_size = sizeof doc };
    uint64_t bytes = out_doc->struct_size < sizeof doc ? out_doc->struct_size : sizeof doc;

    if (index >= OPTION_COUNT)
        return INLAY_NOT_FOUND;
    if (bytes < sizeof doc.struct_size)
        return INLAY_INVALID_ARGUMENT;
    doc.name = table[index].name;
    doc.doc = table[index].doc;
    doc.default_value = table[index].otherwise;
    memcpy((char *)out_doc + sizeof doc.struct_size, (const char *)&doc + sizeof doc.struct_size,
           (size_t)bytes - sizeof doc.struct_size);
    return INLAY_OK;
}

void inlay_options_set_log(inlay_options *options, inlay_log_fn log, void *user)
{
    options->log = log;
    options->log_user = user;
}

void inlay_options_set_progress(inlay_options *options, inlay_progress_fn progress, void *user)
{
    options->progress = progress;
    options->progress_user = user;
}
