/* Plugins are parts of the module: there are no plugin files, no processes that test or run them, and no signals that
 * report their crashes. See plugin/module.h, plugin/set.h, plugin/crash.h, isolate/isolate.h. */
#include "isolate/isolate.h"
#include "plugin/crash.h"
#include "plugin/set.h"
#include "plugin/unmap.h"
#include "kit/internal.h"

const char *plugin_default_dir(char *text, size_t bytes)
{
    (void)text, (void)bytes;
    return NULL;
}

inlay_status plugin_set_load_files(plugin_set *set, const plugin_search *search, inlay_diag *diag)
{
    (void)set;
    if (search->dir_count > 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "option plugin_dirs: WebAssembly loads no plugin files");
    if (search->isolate != NULL && search->isolate[0] != '\0')
        return inlay_fail(diag, INLAY_UNSUPPORTED, "option isolate: WebAssembly has no processes");
    return INLAY_OK;
}

const plugin_file *plugin_set_find_missed(const plugin_set *set, const char *name)
{
    (void)set, (void)name;
    return NULL;
}

inlay_status library_probe(const probe_rules *rules, const plugin_provider *provider, const provider_setting *settings,
                           uint32_t setting_count, inlay_diag *diag)
{
    (void)rules, (void)provider, (void)settings, (void)setting_count, (void)diag;
    return INLAY_OK;
}

void unmap_file(void *handle)
{
    (void)handle;
}

void isolate_set_limits(void *state, const isolate_limits *limits)
{
    (void)state, (void)limits;
}

bool isolate_may_restart(void *state)
{
    (void)state;
    return false;
}

void (*crash_on_enter)(const crash_scene *scene);

void crash_install(void)
{
}

void crash_thread(void)
{
}

void crash_remove_module(const struct plugin_module *module)
{
    (void)module;
}

/* The plugins are of this build. */
void kit_build_id(const void *address, const char *version, char *text, size_t bytes)
{
    (void)address;
    (void)snprintf(text, bytes, "%s-web", version);
}
