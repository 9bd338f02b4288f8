/* Modules of plugin files: dlopen, and the process of an isolated plugin. */
#include "plugin/module.h"
#include "base/path.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "base/memory.h"
#include "base/parts.h"
#include "plugin/isolate.h"
#include "plugin/crash.h"
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

/* Creates the module of an admitted file, without its description. NULL: out of memory. */
static plugin_module *create_module(const char *path, const struct admission *admission)
{
    plugin_module *module = calloc(1, sizeof *module);
    char advice[VERDICT_TEXT];
    bool ok = module != NULL;

    if (!ok)
        return NULL;
    module->device = admission->st.st_dev;
    module->inode = admission->st.st_ino;
    module->changed = admission->st.st_mtim;
    module->file.path = arena_string(&module->arena, path);
    module->file.providers = arena_string(&module->arena, admission->facts.providers);
    if (note_advice(&admission->facts, advice, sizeof advice))
        module->file.advice = arena_string(&module->arena, advice);
    module->warned_of = module->file.advice != NULL || admission->verdict.text[0] != '\0';
    ok = module->file.path != NULL && module->file.providers != NULL;
    if (ok && admission->key.file[0] != '\0') {
        module->mark_key = arena_string(&module->arena, admission->key.text);
        module->mark_file = arena_string(&module->arena, admission->key.file);
        ok = module->mark_key != NULL && module->mark_file != NULL;
    }
    if (ok)
        return module;
    module_unload(module);
    return NULL;
}

static const char *provider_name(const void *ctx, uint32_t i)
{
    const plugin_module *module = ctx;

    return module->providers[i].table->name;
}

/* Ends the loading of MODULE, whose providers and operators are known if STATUS is INLAY_OK: compares them with the
 * note of its file. Unloads the module on failure. */
static inlay_status finish(plugin_module *module, const struct admission *admission, inlay_status status,
                           plugin_module **out_module, inlay_diag *diag)
{
    if (status == INLAY_OK)
        status = note_agrees(&admission->facts, &module->table, provider_name, module, module->operators, diag);
    if (status != INLAY_OK) {
        module_unload(module);
        return status;
    }
    module->file.loaded = true;
    *out_module = module;
    return INLAY_OK;
}

inlay_status module_load(const char *path, const struct admission *admission, plugin_module **out_module,
                         inlay_diag *diag)
{
    plugin_module *module = create_module(path, admission);
    inlay_plugin_open_fn open_plugin;
    struct link_map *map = NULL;
    crash_scene before;
    inlay_status status;
    void *symbol;

    *out_module = NULL;
    if (module == NULL)
        return no_memory(diag, "to describe the plugin");
    INLAY_CHECK(admission->fd >= 0 && path_is_absolute(admission->path));
    before = crash_enter(module, "its constructors", NULL, NULL);
    module->handle = dlopen(admission->path, RTLD_NOW | RTLD_LOCAL);
    crash_leave(&before);
    if (module->handle == NULL) {
        const char *message = dlerror();

        status = note_explain_rejection(&admission->facts, message != NULL ? message : "dlopen failed", diag);
        goto done;
    }
    if (dlinfo(module->handle, RTLD_DI_LINKMAP, &map) != 0 || map == NULL || map->l_ld == NULL) {
        status = inlay_fail(diag, INLAY_IO_ERROR, "the dynamic linker does not report its address");
        goto done;
    }
    INLAY_TRY(trust_mapped(admission->fd, map->l_ld, (const void *)map->l_addr, diag));
    symbol = dlsym(module->handle, INLAY_PLUGIN_OPEN_SYMBOL);
    if (symbol == NULL) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "exports no %s: not a plugin", INLAY_PLUGIN_OPEN_SYMBOL);
        goto done;
    }
    memcpy(&open_plugin, &symbol, sizeof open_plugin); /* ISO C cannot cast an object pointer to a function pointer */
    crash_add_module(module, symbol);
    status = module_open(module, open_plugin, diag);
done:
    return finish(module, admission, status, out_module, diag);
}

inlay_status isolate_open(const char *helper, const char *path, int fd, const inlay_plugin **out_plugin,
                          inlay_diag *diag)
{
    *out_plugin = NULL;
    return library_parts.open_isolated != NULL ? library_parts.open_isolated(helper, path, fd, out_plugin, diag)
                                               : inlay_fail(diag, INLAY_UNSUPPORTED, "option isolate " PARTS_LEFT_OUT);
}

inlay_status module_load_isolated(const char *path, const struct admission *admission, const char *helper,
                                  plugin_module **out_module, inlay_diag *diag)
{
    plugin_module *module = create_module(path, admission);
    const inlay_plugin *raw = NULL;
    inlay_status status;

    *out_module = NULL;
    if (module == NULL)
        return no_memory(diag, "to describe the plugin");
    module->isolated = module->file.isolated = true;
    status = isolate_open(helper, admission->path, admission->fd, &raw, diag);
    if (status == INLAY_OK)
        status = module_adopt(module, raw, diag);
    return finish(module, admission, status, out_module, diag);
}
