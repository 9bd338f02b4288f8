#include "serve/repository/model_config.h"
#include "serve/base/yaml.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The file as libcyaml reads it; NULL = not given. */
typedef struct config_file {
    int64_t *max_batch, *batch_delay_us, *batch_target_us, *instances, *max_queue, *warmup, *priority;
    char *versions, *buckets;
    char **options, **pad;
    unsigned options_count, pad_count;
} config_file;

#define NUMBER(name) CYAML_FIELD_INT_PTR(#name, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, config_file, name)

static const cyaml_schema_value_t option_text = { CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, 1024) };
static const cyaml_schema_field_t fields[] = {
    NUMBER(max_batch),
    NUMBER(batch_delay_us),
    NUMBER(batch_target_us),
    NUMBER(instances),
    NUMBER(max_queue),
    NUMBER(warmup),
    NUMBER(priority),
    CYAML_FIELD_STRING_PTR("versions", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, config_file, versions, 1, 1024),
    CYAML_FIELD_STRING_PTR("buckets", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, config_file, buckets, 1, 1024),
    CYAML_FIELD_SEQUENCE("pad", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, config_file, pad, &option_text, 0, 64),
    CYAML_FIELD_SEQUENCE("options", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, config_file, options, &option_text, 0,
                         64),
    CYAML_FIELD_END
};
static const cyaml_schema_value_t schema = { CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, config_file, fields) };

static bool take(const int64_t *from, int64_t min, int64_t max, int64_t *to)
{
    if (from == NULL)
        return true;
    *to = *from;
    return *from >= min && *from <= max;
}

static inlay_status take_numbers(const char *path, const config_file *file, model_config *config, inlay_diag *diag)
{
    model_settings *settings = &config->settings;
    int64_t batch = settings->max_batch, delay = (int64_t)settings->batch_delay_us,
            target = (int64_t)settings->batch_target_us, instances = settings->instances, queue = settings->max_queue,
            warmup = settings->warmup, priority = settings->priority;
    const char *wrong = !take(file->max_batch, 1, 65536, &batch)           ? "max_batch must be from 1 to 65536"
                        : !take(file->batch_delay_us, 0, 10000000, &delay) ? "batch_delay_us must be from 0 to 10000000"
                        : !take(file->batch_target_us, 0, 3600000000, &target)
                            ? "batch_target_us must be from 0 to 3600000000"
                        : !take(file->instances, 1, 4096, &instances)          ? "instances must be from 1 to 4096"
                        : !take(file->max_queue, 1, 1000000, &queue)           ? "max_queue must be from 1 to 1000000"
                        : !take(file->warmup, 0, 1, &warmup)                   ? "warmup must be 0 or 1"
                        : !take(file->priority, 1, PRIORITY_LEVELS, &priority) ? "priority must be 1, 2 or 3"
                                                                               : NULL;

    if (wrong != NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: %s", path, wrong);
    config->requests_batching = file->max_batch != NULL && batch > 1;
    settings->max_batch = (uint32_t)batch;
    settings->batch_delay_us = (uint64_t)delay;
    settings->batch_target_us = (uint64_t)target;
    settings->instances = (uint32_t)instances;
    settings->max_queue = (uint32_t)queue;
    settings->warmup = warmup != 0;
    settings->priority = (uint32_t)priority;
    return INLAY_OK;
}

static inlay_status take_versions(const char *path, const char *text, model_config *config, inlay_diag *diag)
{
    if (text == NULL || strcmp(text, "latest") == 0)
        return INLAY_OK;
    if (strcmp(text, "all") == 0) {
        config->all_versions = true;
        return INLAY_OK;
    }
    for (const char *at = text;;) {
        char *end;
        uint64_t number = strtoull(at, &end, 10);

        if (end == at || number == 0 || *at == '-' || config->version_count == CONFIG_MAX_VERSIONS)
            break;
        config->versions[config->version_count++] = number;
        if (*end == '\0')
            return INLAY_OK;
        if (*end != ',')
            break;
        at = end + 1;
    }
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: versions must be latest, all, or at most %d numbers: 1,3",
                      path, CONFIG_MAX_VERSIONS);
}

static inlay_status take_options(const char *path, config_file *file, model_config *config, inlay_diag *diag)
{
    static const char *const server_only[] = { "plugin_dirs", "plugin_allow",    "probe",        "probe_timeout_ms",
                                               "cache_dir",   "cache_max_bytes", "crash_report", "external_dir",
                                               "plan",        "profile",         "isa" };

    for (unsigned i = 0; i < file->options_count; i++) {
        size_t name = strcspn(file->options[i], "=");

        if (name == 0 || file->options[i][name] == '\0')
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: options: '%s' is not NAME=VALUE", path,
                              file->options[i]);
        for (size_t k = 0; k < sizeof server_only / sizeof server_only[0]; k++)
            if (strlen(server_only[k]) == name && strncmp(server_only[k], file->options[i], name) == 0)
                return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: option %s can only be set for the whole server",
                                  path, server_only[k]);
    }
    config->options = calloc(file->options_count + 1u, sizeof(char *));
    if (config->options == NULL)
        return no_memory(diag, "for options");
    for (unsigned i = 0; i < file->options_count; i++) {
        config->options[i] = strdup(file->options[i]);
        if (config->options[i] == NULL)
            return no_memory(diag, "for options");
        config->option_count++;
    }
    return INLAY_OK;
}

static inlay_status take_padding(const char *path, const config_file *file, model_config *config, inlay_diag *diag)
{
    padding_config *padding = &config->settings.padding;
    inlay_diag failure = INLAY_DIAG_INIT;
    inlay_status status = file->buckets != NULL ? padding_set_sizes(padding, file->buckets, &failure) : INLAY_OK;

    for (unsigned i = 0; status == INLAY_OK && i < file->pad_count; i++)
        status = padding_set_value(padding, file->pad[i], &failure);
    return status == INLAY_OK ? INLAY_OK : inlay_fail(diag, status, "%s: %s", path, failure.text);
}

inlay_status model_config_read(const char *path, model_config *config, inlay_diag *diag)
{
    void *data = NULL;
    inlay_status status;

    if (access(path, F_OK) != 0)
        return INLAY_OK;
    status = yaml_load(path, &schema, &data, diag);
    if (status == INLAY_OK && data != NULL) {
        status = take_numbers(path, data, config, diag);
        if (status == INLAY_OK)
            status = take_versions(path, ((config_file *)data)->versions, config, diag);
        if (status == INLAY_OK)
            status = take_options(path, data, config, diag);
        if (status == INLAY_OK)
            status = take_padding(path, data, config, diag);
    }
    yaml_free(&schema, data);
    return status;
}

void model_config_deinit(model_config *config)
{
    for (uint32_t i = 0; i < config->option_count; i++)
        free(config->options[i]);
    free(config->options);
    config->options = NULL;
    config->option_count = 0;
}

inlay_status model_config_apply(const model_config *config, inlay_options *options, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; status == INLAY_OK && i < config->option_count; i++) {
        char name[128];
        size_t bytes = strcspn(config->options[i], "=");

        if (bytes >= sizeof name)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "unknown option '%.64s...'", config->options[i]);
        (void)snprintf(name, sizeof name, "%.*s", (int)bytes, config->options[i]);
        status = inlay_options_set_from(options, name, config->options[i] + bytes + 1, "config.yaml", diag);
    }
    return status;
}
