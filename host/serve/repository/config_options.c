/* The library options of a model's configuration. */
#include "serve/repository/model_config.h"
#include <stdlib.h>
#include <string.h>

inlay_status model_config_add_option(model_config *config, const char *origin, const char *name, size_t name_bytes,
                                     const char *value, inlay_diag *diag)
{
    static const char *const server_only[] = { "plugin_dirs", "plugin_allow",    "probe",        "probe_timeout_ms",
                                               "cache_dir",   "cache_max_bytes", "crash_report", "external_dir",
                                               "plan",        "profile",         "isa" };

    if (name_bytes == strlen("isolate") && strncmp(name, "isolate", name_bytes) == 0 && strcmp(value, "all") != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: option isolate can only be all for one model", origin);
    for (size_t k = 0; k < sizeof server_only / sizeof server_only[0]; k++)
        if (strlen(server_only[k]) == name_bytes && strncmp(server_only[k], name, name_bytes) == 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: option %s can only be set for the whole server",
                              origin, server_only[k]);
    if (!LIST_GROW(config->options, config->option_count) ||
        asprintf(&config->options[config->option_count], "%.*s=%s", (int)name_bytes, name, value) < 0)
        return no_memory(diag, "for options");
    config->option_count++;
    return INLAY_OK;
}

void model_config_deinit(model_config *config)
{
    for (uint32_t i = 0; i < config->option_count; i++)
        free(config->options[i]);
    free(config->options);
    free(config->draft_hidden);
    config->options = NULL;
    config->draft_hidden = NULL;
    config->option_count = 0;
    pbtxt_close(&config->text);
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
        status = inlay_options_set_from(options, name, config->options[i] + bytes + 1,
                                        config->text.message != NULL ? "config.pbtxt" : "config.yaml", diag);
        if (status == INLAY_NOT_FOUND) /* of an option, not of a model */
            status = INLAY_INVALID_ARGUMENT;
    }
    return status;
}
