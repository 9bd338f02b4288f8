/* Plugins are parts of the module: there are no plugin files. See plugin/module.h, plugin/set.h. */
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

void unmap_file(void *handle)
{
    (void)handle;
}

/* The plugins are of this build. */
void kit_build_id(const void *address, const char *version, char *text, size_t bytes)
{
    (void)address;
    (void)snprintf(text, bytes, "%s-web", version);
}
