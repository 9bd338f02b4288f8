/* dlopen and the handshake. Nothing that a plugin says is used before it was checked here. */
#include "plugin/module.h"
#include "base/boundary.h"
#include "base/float_state.h"
#include "base/known.h"
#include "base/memory.h"
#include "plugin/crash.h"
#include "plugin/guard.h"
#include "plugin/unmap.h"
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };      /* providers, operators, options, domains of one plugin */
#define KNOWN_HALF 0xffffu /* unknown bits below are refused, above ignored (plugin.h, Growth) */
#define LOW_BITS(flags, known) ((flags)&KNOWN_HALF & ~(uint32_t)(known))

/* Does a struct that says `bytes` of itself reach field? */
#define REACHES(type, field, bytes) ((bytes) >= offsetof(type, field) + sizeof(((type *)0)->field))

static bool is_word(const char *name, const char *more)
{
    if (name == NULL || *name == '\0')
        return false;
    for (const char *c = name; *c != '\0'; c++)
        if (!(*c >= 'a' && *c <= 'z') && !(*c >= '0' && *c <= '9') && strchr(more, *c) == NULL)
            return false;
    return true;
}

/* ------------------------------------------------------------------ providers */

/* Copies options of whatever stride into ours, and checks them: names, kinds, defaults. */
static inlay_status adopt_options(plugin_module *m, plugin_provider *p, inlay_diag *diag)
{
    inlay_provider *t = &p->table;
    inlay_option *options;
    inlay_option_value *values;

    if (t->option_count > MOST || (t->option_count > 0 && (t->options == NULL || t->option_stride == 0)))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "provider %s: %u options at %p, %u bytes apart", t->name,
                          t->option_count, (const void *)t->options, t->option_stride);
    options = arena_array(&m->arena, t->option_count, sizeof *options);
    values = arena_array(&m->arena, t->option_count, sizeof *values);
    if (options == NULL || values == NULL)
        return no_memory(diag, "to describe the plugin");
    for (uint32_t i = 0; i < t->option_count; i++) {
        known_take(&options[i], sizeof options[i], INLAY_AT(inlay_option, t->options, t->option_stride, i),
                   t->option_stride);
        if (!is_word(options[i].name, "_"))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "provider %s: option %u has no name of a-z, 0-9 and _",
                              t->name, i);
        if (options[i].kind < INLAY_OPTION_BOOL || options[i].kind > INLAY_OPTION_ENUM ||
            (options[i].kind == INLAY_OPTION_ENUM && options[i].choices == NULL))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "provider %s: option '%s' is of unknown kind %u, or an enum without choices", t->name,
                              options[i].name, options[i].kind);
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(options[i].name, options[j].name) == 0)
                return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "provider %s has two options '%s'", t->name,
                                  options[i].name);
    }
    p->options = options;
    t->options = options;
    t->option_stride = sizeof *options;
    return provider_parse_options(t->name, options, t->option_count, NULL, 0, values, diag);
}

static inlay_status adopt_domains(plugin_module *m, plugin_provider *p, inlay_diag *diag)
{
    inlay_provider *t = &p->table;
    inlay_domain_info *domains;

    if (t->domain_count > MOST || (t->domain_count > 0 && (t->domains == NULL || t->domain_stride == 0)) ||
        t->default_domain > t->domain_count)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "provider %s: %u domains at %p, %u bytes apart, default %u",
                          t->name, t->domain_count, (const void *)t->domains, t->domain_stride, t->default_domain);
    if (t->domain_count > 0 && (t->buffer_alloc == NULL || t->buffer_free == NULL || t->buffer_copy == NULL))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "provider %s has domains but no buffer_alloc, buffer_free or "
                          "buffer_copy",
                          t->name);
    domains = arena_array(&m->arena, t->domain_count, sizeof *domains);
    if (domains == NULL)
        return no_memory(diag, "to describe the plugin");
    for (uint32_t i = 0; i < t->domain_count; i++) {
        inlay_domain_info *d = &domains[i];

        known_take(d, sizeof *d, INLAY_AT(inlay_domain_info, t->domains, t->domain_stride, i), t->domain_stride);
        if (d->name == NULL)
            d->name = "";
        if (d->alignment == 0)
            d->alignment = 1;
        if ((d->alignment & (d->alignment - 1)) != 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "provider %s: domain '%s' has alignment %llu, which is no "
                              "power of two",
                              t->name, d->name, (unsigned long long)d->alignment);
        if (((d->flags & INLAY_DOMAIN_HOST_VISIBLE) != 0 && (t->buffer_map == NULL || t->buffer_unmap == NULL)) ||
            ((d->flags & INLAY_DOMAIN_IMPORTS_HOST) != 0 && t->import_host == NULL))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "provider %s: domain '%s' promises what buffer_map, "
                              "buffer_unmap or import_host would do, but they are not set",
                              t->name, d->name);
        if (LOW_BITS(d->flags, INLAY_DOMAIN_HOST_VISIBLE | INLAY_DOMAIN_COHERENT | INLAY_DOMAIN_IMPORTS_HOST) != 0)
            return inlay_fail(diag, INLAY_UNSUPPORTED,
                              "provider %s: domain '%s' has flags 0x%x that this host does not know", t->name, d->name,
                              d->flags);
    }
    p->domains = domains;
    t->domains = domains;
    t->domain_stride = sizeof *domains;
    return INLAY_OK;
}

static inlay_status adopt_provider(plugin_module *m, plugin_provider *p, const inlay_provider *raw, inlay_diag *diag)
{
    inlay_provider *t = &p->table;
    inlay_status status;

    if (!INLAY_HAS(raw, execute))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "a provider's struct of %llu bytes does not reach execute",
                          (unsigned long long)raw->struct_size);
    known_take(t, sizeof *t, raw, raw->struct_size);
    t->struct_size = sizeof *t;
    p->file = &m->file;
    p->module = m;
    if (!is_word(t->name, "_"))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "a provider has no name of a-z, 0-9 and _");
    if (t->description == NULL)
        t->description = "";
    if (t->create == NULL || t->destroy == NULL || t->assess == NULL || t->cost == NULL || t->compile == NULL ||
        t->release_compiled == NULL || t->specialize == NULL || t->release_instance == NULL || t->execute == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "provider %s lacks one of create, destroy, assess, cost, compile, "
                          "release_compiled, specialize, release_instance, execute",
                          t->name);
    if ((t->fingerprint == NULL) != (t->cache_verdict == NULL))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "provider %s sets only one of fingerprint and cache_verdict",
                          t->name);
    if ((t->bind == NULL) != (t->release_binding == NULL))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "provider %s sets only one of bind and release_binding",
                          t->name);
    if (LOW_BITS(t->flags, INLAY_PROVIDER_ASYNC) != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "provider %s has flags 0x%x that this host does not know", t->name,
                          t->flags);
    INLAY_TRY(adopt_options(m, p, diag));
    INLAY_TRY(adopt_domains(m, p, diag));
done:
    return status;
}

/* ------------------------------------------------------------------ operators */

static inlay_status adopt_operator(inlay_operator *op, const inlay_operator *raw, inlay_diag *diag)
{
    struct arena scratch = { 0 };
    op_schema schema;
    inlay_status status;

    if (!INLAY_HAS(raw, infer))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "an operator's struct of %llu bytes does not reach infer",
                          (unsigned long long)raw->struct_size);
    known_take(op, sizeof *op, raw, raw->struct_size);
    op->struct_size = sizeof *op;
    if (op->op_type == NULL || *op->op_type == '\0' || op->domain == NULL || *op->domain == '\0' ||
        op->signature == NULL || op->since_version == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "an operator lacks domain, op_type, signature or since_version");
    if (op_domain_known(op->domain))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "operator %s is in domain '%s', which is ONNX's own; use one of "
                          "yours, such as 'com.example'",
                          op->op_type, op->domain);
    if (LOW_BITS(op->flags, INLAY_OPERATOR_RANDOM) != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "operator %s.%s has flags 0x%x that this host does not know",
                          op->domain, op->op_type, op->flags);
    if (op->doc == NULL)
        op->doc = "";
    if (op->examples == NULL || op->example_stride == 0)
        op->example_count = 0;
    status = op_schema_parse(op->signature, arena_alloc_callback, &scratch, &schema, diag);
    arena_deinit(&scratch);
    if (status != INLAY_OK && diag != NULL) {
        inlay_diag inner = *diag;

        (void)inlay_fail(diag, status, "operator %s.%s: %.300s", op->domain, op->op_type, inner.text);
    }
    return status;
}

/* ------------------------------------------------------------------ the plugin */

static inlay_status adopt_parts(plugin_module *m, inlay_diag *diag)
{
    inlay_plugin *t = &m->table;
    inlay_status status = INLAY_OK;
    guard_operator *guards;

    if (t->provider_count > MOST || (t->provider_count > 0 && (t->providers == NULL || t->provider_stride == 0)) ||
        t->operator_count > MOST || (t->operator_count > 0 && (t->operators == NULL || t->operator_stride == 0)))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the plugin's lists make no sense: %u providers, %u operators",
                          t->provider_count, t->operator_count);
    if (t->provider_count + t->operator_count == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the plugin brings neither providers nor operators");
    m->providers = arena_array(&m->arena, t->provider_count, sizeof *m->providers);
    m->operators = arena_array(&m->arena, t->operator_count, sizeof *m->operators);
    guards = arena_array(&m->arena, t->operator_count, sizeof *guards);
    if (m->providers == NULL || m->operators == NULL || guards == NULL)
        return no_memory(diag, "to describe the plugin");
    for (uint32_t i = 0; i < t->provider_count && status == INLAY_OK; i++)
        status =
            adopt_provider(m, &m->providers[i], INLAY_AT(inlay_provider, t->providers, t->provider_stride, i), diag);
    for (uint32_t i = 0; i < t->operator_count && status == INLAY_OK; i++) {
        status = adopt_operator(&m->operators[i], INLAY_AT(inlay_operator, t->operators, t->operator_stride, i), diag);
        if (status == INLAY_OK)
            guard_wrap_operator(&m->operators[i], &guards[i], m);
    }
    m->file.provider_count = t->provider_count;
    m->file.operator_count = t->operator_count;
    return status;
}

static inlay_status adopt_plugin(plugin_module *m, const inlay_plugin *raw, inlay_diag *diag)
{
    inlay_plugin *t = &m->table;

    if (raw == NULL || !INLAY_HAS(raw, abi_minor))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s succeeded without a description", INLAY_PLUGIN_OPEN_SYMBOL);
    if (raw->abi_major != INLAY_ABI_MAJOR)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "built for plugin ABI %u.%u; this host loads %u.x: rebuild the plugin", raw->abi_major,
                          raw->abi_minor, INLAY_ABI_MAJOR);
    if (!INLAY_HAS(raw, operator_stride))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the plugin's struct of %llu bytes does not reach operator_stride",
                          (unsigned long long)raw->struct_size);
    known_take(t, sizeof *t, raw, raw->struct_size);
    if (t->name == NULL || *t->name == '\0')
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the plugin has no name");
    if (LOW_BITS(t->flags, INLAY_PLUGIN_DLCLOSE) != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "plugin %s has flags 0x%x that this host does not know", t->name,
                          t->flags);
    m->file.abi_minor = t->abi_minor;
    /* Copies, so that reports outlive the mapping. */
    m->file.name = arena_string(&m->arena, t->name);
    m->file.version = arena_string(&m->arena, t->version != NULL ? t->version : "");
    m->file.build_id = arena_string(&m->arena, t->build_id != NULL ? t->build_id : "");
    if (m->file.name == NULL || m->file.version == NULL || m->file.build_id == NULL)
        return no_memory(diag, "to describe the plugin");
    return adopt_parts(m, diag);
}

static const char *provider_name(const void *ctx, uint32_t i)
{
    const plugin_module *m = ctx;

    return m->providers[i].table.name;
}

/* Calls the plugin's entry and takes over what it says. */
static inlay_status open_module(plugin_module *m, inlay_plugin_open_fn open_plugin, inlay_diag *diag)
{
    const inlay_plugin *raw = NULL;
    inlay_diag own = INLAY_DIAG_INIT;
    crash_scene before = crash_enter(m, INLAY_PLUGIN_OPEN_SYMBOL, NULL, NULL);
    float_state floats = float_state_get();
    inlay_status status = open_plugin(host_table(), &raw, &own);

    (void)float_state_restore(floats);
    crash_leave(&before);
    if (status != INLAY_OK)
        return boundary_tell(&(boundary_call){ NULL, NULL }, status, &own, diag);
    return adopt_plugin(m, raw, diag);
}

inlay_status module_register(inlay_plugin_open_fn open_plugin, plugin_module **out_module, inlay_diag *diag)
{
    plugin_module *m = calloc(1, sizeof *m);
    inlay_status status;

    *out_module = NULL;
    if (m == NULL)
        return no_memory(diag, "to describe the plugin");
    m->file.path = "(within the program)";
    m->file.providers = "";
    m->open_plugin = open_plugin;
    status = open_module(m, open_plugin, diag);
    if (status != INLAY_OK) {
        module_unload(m);
        return status;
    }
    m->file.loaded = true;
    *out_module = m;
    return INLAY_OK;
}

inlay_status module_load(const char *path, const struct admission *a, plugin_module **out_module, inlay_diag *diag)
{
    plugin_module *m = calloc(1, sizeof *m);
    inlay_plugin_open_fn open_plugin;
    struct link_map *map = NULL;
    crash_scene before;
    inlay_status status;
    void *symbol;

    *out_module = NULL;
    if (m == NULL)
        return no_memory(diag, "to describe the plugin");
    m->device = a->st.st_dev;
    m->inode = a->st.st_ino;
    m->changed = a->st.st_mtim;
    m->file.path = arena_string(&m->arena, path);
    m->file.providers = arena_string(&m->arena, a->facts.providers);
    if (m->file.path == NULL || m->file.providers == NULL) {
        status = no_memory(diag, "to describe the plugin");
        goto done;
    }
    if (a->key.file[0] != '\0') {
        m->mark_key = arena_string(&m->arena, a->key.text);
        m->mark_file = arena_string(&m->arena, a->key.file);
        if (m->mark_key == NULL || m->mark_file == NULL) {
            status = no_memory(diag, "to describe the plugin");
            goto done;
        }
    }
    before = crash_enter(m, "its constructors", NULL, NULL);
    m->handle = dlopen(a->path, RTLD_NOW | RTLD_LOCAL);
    crash_leave(&before);
    if (m->handle == NULL) {
        status = inlay_fail(diag, INLAY_IO_ERROR, "%s", dlerror());
        goto done;
    }
    if (dlinfo(m->handle, RTLD_DI_LINKMAP, &map) != 0 || map == NULL || map->l_ld == NULL) {
        status = inlay_fail(diag, INLAY_IO_ERROR, "the dynamic linker does not say where it was mapped");
        goto done;
    }
    INLAY_TRY(trust_mapped(a->fd, map->l_ld, (const void *)map->l_addr, diag));
    symbol = dlsym(m->handle, INLAY_PLUGIN_OPEN_SYMBOL);
    if (symbol == NULL) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "exports no %s: not a plugin", INLAY_PLUGIN_OPEN_SYMBOL);
        goto done;
    }
    memcpy(&open_plugin, &symbol, sizeof open_plugin); /* ISO C has no cast from object to function pointers */
    crash_add_module(m, symbol);
    INLAY_TRY(open_module(m, open_plugin, diag));
    INLAY_TRY(note_agrees(&a->facts, &m->table, provider_name, m, m->operators, diag));
    m->file.loaded = true;
    *out_module = m;
    m = NULL;
done:
    if (m != NULL)
        module_unload(m);
    return status;
}

void module_unload(plugin_module *m)
{
    crash_scene before = crash_enter(m, "shutdown", NULL, NULL);

    if (m->table.shutdown != NULL)
        m->table.shutdown(m->table.ctx);
    if (m->handle != NULL && (m->table.flags & INLAY_PLUGIN_DLCLOSE) != 0 && MAY_DLCLOSE)
        (void)dlclose(m->handle);
    crash_leave(&before);
    crash_remove_module(m);
    arena_deinit(&m->arena);
    free(m);
}
