#include "plugin/library_probe.h"
#include "base/hash.h"
#include "base/memory.h"
#include "plugin/module.h"
#include "plugin/probe.h"
#include "inlay/plugin.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The path that the settings name; NULL: none. */
static const char *named_library(const plugin_provider *provider, const provider_setting *settings, uint32_t count)
{
    bool has_option = false;

    for (uint32_t i = 0; i < provider->table->option_count; i++)
        has_option = has_option || (strcmp(provider->options[i].name, LIBRARY_OPTION) == 0 &&
                                    provider->options[i].kind == INLAY_OPTION_STRING);
    for (uint32_t i = 0; has_option && i < count; i++)
        if (strcmp(settings[i].name, LIBRARY_OPTION) == 0 && settings[i].value[0] != '\0')
            return settings[i].value;
    return NULL;
}

/* The settings as arguments of the helper, which end with NULL; NULL: no memory. The caller frees the list. */
static char **as_arguments(const provider_setting *settings, uint32_t count)
{
    size_t bytes = ((size_t)count + 1) * sizeof(char *);
    char **list, *at;

    for (uint32_t i = 0; i < count; i++)
        bytes += strlen(settings[i].name) + strlen(settings[i].value) + 2;
    list = malloc(bytes);
    if (list == NULL)
        return NULL;
    at = (char *)(list + count + 1);
    for (uint32_t i = 0; i < count; i++) {
        list[i] = at;
        at += sprintf(at, "%s=%s", settings[i].name, settings[i].value) + 1;
    }
    list[count] = NULL;
    return list;
}

/* Runs the probe unless its verdict is known. A probe that cannot be started is not a reason against the library. */
static void find_verdict(const probe_rules *rules, const plugin_provider *provider, const char *library,
                         const struct stat *st, char **arguments, struct verdict *out)
{
    char helper[PATH_MAX], host[128], identity[128];
    const uint32_t limit = LIBRARY_PROBE_TIMES * (rules->probe_ms != 0 ? rules->probe_ms : PROBE_DEFAULT_MS);
    inlay_diag why = INLAY_DIAG_INIT;
    struct probe probe = { 0 };
    uint64_t hash = 0;
    verdict_key key;

    out->kind = VERDICT_NONE;
    if (probe_find(helper, host, &why) != INLAY_OK)
        return;
    for (char **argument = arguments; *argument != NULL; argument++)
        hash = hash_bytes(*argument, strlen(*argument), hash);
    hash = hash_bytes(host, strlen(host), hash);
    (void)snprintf(identity, sizeof identity, "%.60s with options %016llx", provider->table->name,
                   (unsigned long long)hash);
    verdict_key_init(&key, rules->verdict_dir, library, st, provider->file->build_id, identity);
    verdict_find(&key, out);
    if (out->kind != VERDICT_NONE ||
        probe_start(helper, provider->file->path, arguments, limit, false, &probe, &why) != INLAY_OK)
        return;
    probe_finish(&probe, out);
    verdict_keep(&key, out);
}

inlay_status library_probe(const probe_rules *rules, const plugin_provider *provider, const provider_setting *settings,
                           uint32_t setting_count, inlay_diag *diag)
{
    const char *library = named_library(provider, settings, setting_count);
    char real[PATH_MAX], **arguments;
    struct verdict verdict;
    struct stat st;

    /* A name that the system's loader looks for is not probed, nor is the library of a provider within the program. */
    if (library == NULL || rules->probe == PLUGIN_PROBE_NEVER || provider->module->handle == NULL ||
        realpath(library, real) == NULL || stat(real, &st) != 0)
        return INLAY_OK;
    arguments = as_arguments(settings, setting_count);
    if (arguments == NULL)
        return no_memory(diag, "to probe a library");
    find_verdict(rules, provider, real, &st, arguments, &verdict);
    free(arguments);
    if (verdict.kind != VERDICT_CRASHED && verdict.kind != VERDICT_HUNG)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_UNSUPPORTED,
                      "library %.120s: %.280s; it is quarantined until it changes, or 'inlay providers --retry FILE'",
                      real, verdict.text);
}
