#include "serve/repository/model_config.h"
#include "model_config.pb-c.h"
#include "codecs/yaml.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The numbers: X(name, least, most). Each is a member of model_settings, too. */
#define NUMBER_LIST(X)                                                                                                 \
    X(max_batch, 0, 65536)                                                                                             \
    X(batch_delay_us, 0, 10000000)                                                                                     \
    X(batch_target_us, 0, 3600000000)                                                                                  \
    X(instances, 1, 4096)                                                                                              \
    X(max_queue, 1, 1000000)                                                                                           \
    X(context, 0, 1 << 30)                                                                                             \
    X(warmup, 0, 1)                                                                                                    \
    X(priority, 1, PRIORITY_LEVELS)

/* The settings of rollouts, which rollout_set() reads. */
#define ROLLOUT_FIELD(name)                                                                                            \
    CYAML_FIELD_STRING_PTR(#name, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, config_file, name, 1, 64),

/* The file as libcyaml reads it; NULL = not given. */
typedef struct config_file {
#define NUMBER_MEMBER(name, least, most) int64_t *name;
    NUMBER_LIST(NUMBER_MEMBER)
#undef NUMBER_MEMBER
#define ROLLOUT_MEMBER(name) char *name;
    ROLLOUT_SETTINGS(ROLLOUT_MEMBER)
#undef ROLLOUT_MEMBER
    char *versions, *buckets, *draft_hidden;
    char **options, **pad;
    unsigned options_count, pad_count;
} config_file;

static const cyaml_schema_value_t option_text = { CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, 1024) };
static const cyaml_schema_field_t fields[] = {
#define NUMBER_FIELD(name, least, most)                                                                                \
    CYAML_FIELD_INT_PTR(#name, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, config_file, name),
    NUMBER_LIST(NUMBER_FIELD)
#undef NUMBER_FIELD
        ROLLOUT_SETTINGS(ROLLOUT_FIELD) CYAML_FIELD_STRING_PTR("versions", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                                                               config_file, versions, 1, 1024),
    CYAML_FIELD_STRING_PTR("buckets", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, config_file, buckets, 1, 1024),
    CYAML_FIELD_STRING_PTR("draft_hidden", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, config_file, draft_hidden, 1,
                           1024),
    CYAML_FIELD_SEQUENCE("pad", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, config_file, pad, &option_text, 0, 64),
    CYAML_FIELD_SEQUENCE("options", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, config_file, options, &option_text, 0,
                         64),
    CYAML_FIELD_END
};
static const cyaml_schema_value_t schema = { CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, config_file, fields) };

/* Stores a number in a member of model_settings of `bytes` bytes. */
static void store(void *member, size_t bytes, int64_t number)
{
    if (bytes == sizeof(uint64_t))
        *(uint64_t *)member = (uint64_t)number;
    else if (bytes == sizeof(uint32_t))
        *(uint32_t *)member = (uint32_t)number;
    else
        *(bool *)member = number != 0;
}

static inlay_status take_numbers(const char *path, const config_file *file, model_config *config, inlay_diag *diag)
{
    model_settings *settings = &config->settings;
    const struct {
        const char *name;
        const int64_t *given;
        int64_t least, most;
        void *member;
        size_t bytes;
    } rows[] = {
#define NUMBER_ROW(name, least, most) { #name, file->name, least, most, &settings->name, sizeof settings->name },
        NUMBER_LIST(NUMBER_ROW)
#undef NUMBER_ROW
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].given == NULL)
            continue;
        if (*rows[i].given < rows[i].least || *rows[i].given > rows[i].most)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: %s must be from %lld to %lld", path, rows[i].name,
                              (long long)rows[i].least, (long long)rows[i].most);
        store(rows[i].member, rows[i].bytes, *rows[i].given);
    }
    config->requests_batching = file->max_batch != NULL && settings->max_batch > 1;
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
    inlay_status status = INLAY_OK;

    for (unsigned i = 0; status == INLAY_OK && i < file->options_count; i++) {
        const char *option = file->options[i];
        size_t name = strcspn(option, "=");

        status = name == 0 || option[name] == '\0'
                     ? inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: options: '%s' is not NAME=VALUE", path, option)
                     : model_config_add_option(config, path, option, name, option + name + 1, diag);
    }
    return status;
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

static inlay_status take_rollout(const char *path, const config_file *file, model_config *config, inlay_diag *diag)
{
    const struct {
        const char *name, *given;
    } rows[] = {
#define ROLLOUT_ROW(name) { #name, file->name },
        ROLLOUT_SETTINGS(ROLLOUT_ROW)
#undef ROLLOUT_ROW
    };
    inlay_status status = INLAY_OK;

    for (size_t i = 0; status == INLAY_OK && i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].given != NULL)
            status = rollout_set(&config->settings.rollout, rows[i].name, rows[i].given, path, diag);
    return status;
}

static inlay_status read_yaml(const char *path, model_config *config, inlay_diag *diag)
{
    void *data = NULL;
    inlay_status status = yaml_load(
        path, &schema, "; keys are versions, options, pad, buckets, draft_hidden and settings such as max_batch", &data,
        diag);

    if (status == INLAY_OK && data != NULL) {
        status = take_numbers(path, data, config, diag);
        if (status == INLAY_OK)
            status = take_versions(path, ((config_file *)data)->versions, config, diag);
        if (status == INLAY_OK)
            status = take_options(path, data, config, diag);
        if (status == INLAY_OK)
            status = take_padding(path, data, config, diag);
        if (status == INLAY_OK)
            status = take_rollout(path, data, config, diag);
        if (status == INLAY_OK && ((config_file *)data)->draft_hidden != NULL &&
            (config->draft_hidden = strdup(((config_file *)data)->draft_hidden)) == NULL)
            status = no_memory(diag, "for draft_hidden");
    }
    yaml_free(&schema, data);
    return status;
}

bool model_config_is_ensemble(const char *folder)
{
    struct pbtxt text;
    char path[4200];
    bool is_ensemble;

    (void)snprintf(path, sizeof path, "%s/config.pbtxt", folder);
    is_ensemble = pbtxt_read(path, &inference__model_config__descriptor, &text, NULL) == INLAY_OK &&
                  strcmp(((const Inference__ModelConfig *)(const void *)text.message)->platform, "ensemble") == 0;
    pbtxt_close(&text);
    return is_ensemble;
}

bool model_config_exists(const char *folder)
{
    char yaml[4200], text[4200];

    (void)snprintf(yaml, sizeof yaml, "%s/config.yaml", folder);
    (void)snprintf(text, sizeof text, "%s/config.pbtxt", folder);
    return access(yaml, F_OK) == 0 || access(text, F_OK) == 0;
}

inlay_status model_config_read(const char *folder, const char *name, model_config *config, inlay_diag *diag)
{
    char yaml[4200], text[4200];
    inlay_status status;

    (void)snprintf(yaml, sizeof yaml, "%s/config.yaml", folder);
    (void)snprintf(text, sizeof text, "%s/config.pbtxt", folder);
    if (access(text, F_OK) != 0)
        return access(yaml, F_OK) == 0 ? read_yaml(yaml, config, diag) : INLAY_OK;
    if (access(yaml, F_OK) == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s has both config.yaml and config.pbtxt; remove one of them",
                          folder);
    status = pbtxt_read(text, &inference__model_config__descriptor, &config->text, diag);
    return status == INLAY_OK ? config_text_take(name, config, diag) : status;
}
