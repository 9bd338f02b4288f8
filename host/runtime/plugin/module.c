/* The handshake. All tables of a plugin are checked here before they are used. */
#include "plugin/module.h"
#include "inlay/check.h"
#include "inlay/graph_view.h"
#include "inlay/plugin.h"
#include "base/boundary.h"
#include "base/float_state.h"
#include "base/sized_struct.h"
#include "base/memory.h"
#include "plugin/crash.h"
#include "plugin/guard.h"
#include "plugin/unmap.h"
#include "schema.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_ENTRIES = 4096 }; /* limit for providers, operators, options and domains of one plugin */
#define KNOWN_HALF                                                                                                     \
    0xffffu /* unknown flags in the low half are refused, in the high half ignored (plugin.h, Growth)                  \
             */
#define LOW_BITS(flags, known) ((flags)&KNOWN_HALF & ~(uint32_t)(known))

static bool is_word(const char *name, const char *extra_letters)
{
    if (name == NULL || *name == '\0')
        return false;
    for (const char *letter = name; *letter != '\0'; letter++)
        if (!(*letter >= 'a' && *letter <= 'z') && !(*letter >= '0' && *letter <= '9') &&
            strchr(extra_letters, *letter) == NULL)
            return false;
    return true;
}

static inlay_status reserved_is_set(const char *owner, const char *name, inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_UNSUPPORTED,
                      "%s '%s' sets a field that is reserved in this host's ABI %u.%u: set it to 0", owner, name,
                      INLAY_ABI_MAJOR, INLAY_ABI_MINOR);
}

/* Copies the options from the plugin's stride into this host's structs, and checks them: names, kinds, defaults. */
static inlay_status adopt_options(plugin_module *module, plugin_provider *provider, inlay_provider *table,
                                  inlay_diag *diag)
{
    inlay_option *options;
    inlay_option_value *values;

    if (table->option_count > MAX_ENTRIES ||
        (table->option_count > 0 && (table->options == NULL || table->option_stride == 0)))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "provider %s: %u options at %p, %u bytes apart", table->name,
                          table->option_count, (const void *)table->options, table->option_stride);
    options = arena_array(&module->arena, table->option_count, sizeof *options);
    values = arena_array(&module->arena, table->option_count, sizeof *values);
    if (options == NULL || values == NULL)
        return no_memory(diag, "to describe the plugin");
    for (uint32_t i = 0; i < table->option_count; i++) {
        sized_struct_read(&options[i], sizeof options[i],
                          INLAY_AT(inlay_option, table->options, table->option_stride, i), table->option_stride);
        if (!is_word(options[i].name, "_"))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "provider %s: the name of option %u must consist of a-z, 0-9 and _", table->name, i);
        if (options[i].kind < INLAY_OPTION_BOOL || options[i].kind > INLAY_OPTION_ENUM ||
            (options[i].kind == INLAY_OPTION_ENUM && options[i].choices == NULL))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "provider %s: option '%s' has the unknown kind %u, or is an enum without choices",
                              table->name, options[i].name, options[i].kind);
        if (options[i].reserved != 0)
            return reserved_is_set("option", options[i].name, diag);
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(options[i].name, options[j].name) == 0)
                return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "provider %s has two options '%s'", table->name,
                                  options[i].name);
    }
    provider->options = options;
    table->options = options;
    table->option_stride = sizeof *options;
    return provider_parse_options(table->name, options, table->option_count, NULL, 0, values, diag);
}

inlay_status module_check_domain(const inlay_provider *table, const inlay_domain_info *info, inlay_diag *diag)
{
    const uint32_t known = INLAY_DOMAIN_HOST_VISIBLE | INLAY_DOMAIN_COHERENT | INLAY_DOMAIN_IMPORTS_HOST;

    if (info->alignment == 0 || (info->alignment & (info->alignment - 1)) != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "provider %s: domain '%s' has alignment %llu, which is not a power of two", table->name,
                          info->name, (unsigned long long)info->alignment);
    if (((info->flags & INLAY_DOMAIN_HOST_VISIBLE) != 0 &&
         (table->buffer_map == NULL || table->buffer_unmap == NULL)) ||
        ((info->flags & INLAY_DOMAIN_IMPORTS_HOST) != 0 && table->buffer_import == NULL))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "provider %s: domain '%s' has flags that require buffer_map, buffer_unmap or "
                          "buffer_import, but these functions are not set",
                          table->name, info->name);
    if ((info->exports != 0 && table->buffer_export == NULL) || (info->imports != 0 && table->buffer_import == NULL))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "provider %s: domain '%s' exports or imports memory, but buffer_export or buffer_import is "
                          "not set",
                          table->name, info->name);
    if (LOW_BITS(info->flags, known) != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "provider %s: domain '%s' has flags 0x%x that this host does not know", table->name,
                          info->name, info->flags);
    return info->reserved != 0 ? reserved_is_set("domain", info->name, diag) : INLAY_OK;
}

static inlay_status adopt_domains(plugin_module *module, plugin_provider *provider, inlay_provider *table,
                                  inlay_diag *diag)
{
    inlay_domain_info *domains;
    inlay_status status;

    if (table->domain_count > MAX_ENTRIES ||
        (table->domain_count > 0 && (table->domains == NULL || table->domain_stride == 0)) ||
        table->default_domain > table->domain_count)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "provider %s: %u domains at %p, %u bytes apart, default %u",
                          table->name, table->domain_count, (const void *)table->domains, table->domain_stride,
                          table->default_domain);
    if (table->domain_count > 0 &&
        (table->buffer_alloc == NULL || table->buffer_free == NULL || table->buffer_copy == NULL))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "provider %s has domains but no buffer_alloc, buffer_free or "
                          "buffer_copy",
                          table->name);
    domains = arena_array(&module->arena, table->domain_count, sizeof *domains);
    if (domains == NULL)
        return no_memory(diag, "to describe the plugin");
    for (uint32_t i = 0; i < table->domain_count; i++) {
        inlay_domain_info *info = &domains[i];

        sized_struct_read(info, sizeof *info, INLAY_AT(inlay_domain_info, table->domains, table->domain_stride, i),
                          table->domain_stride);
        if (info->name == NULL)
            info->name = "";
        if (info->alignment == 0)
            info->alignment = 1;
        status = module_check_domain(table, info, diag);
        if (status != INLAY_OK)
            return status;
    }
    provider->domains = domains;
    table->domains = domains;
    table->domain_stride = sizeof *domains;
    return INLAY_OK;
}

static inlay_status adopt_provider(plugin_module *module, plugin_provider *provider, const inlay_provider *raw,
                                   inlay_diag *diag)
{
    inlay_provider *table = arena_array(&module->arena, 1, sizeof *table);
    inlay_status status;

    if (table == NULL)
        return no_memory(diag, "to describe the plugin");
    if (!INLAY_HAS(raw, execute))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "a provider's struct of %llu bytes is too small to include execute",
                          (unsigned long long)raw->struct_size);
    sized_struct_read(table, sizeof *table, raw, raw->struct_size);
    table->struct_size = sizeof *table;
    provider->table = table;
    provider->file = &module->file;
    provider->module = module;
    if (!is_word(table->name, "_"))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the name of a provider must consist of a-z, 0-9 and _");
    for (const plugin_provider *other = module->providers; other < provider; other++)
        if (strcmp(other->table->name, table->name) == 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the plugin has two providers '%s'", table->name);
    if (table->description == NULL)
        table->description = "";
    if (table->create == NULL || table->destroy == NULL || table->assess == NULL || table->cost == NULL ||
        table->compile == NULL || table->release_compiled == NULL || table->specialize == NULL ||
        table->release_instance == NULL || table->execute == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "provider %s does not set one of create, destroy, assess, cost, compile, "
                          "release_compiled, specialize, release_instance, execute",
                          table->name);
    if ((table->fingerprint == NULL) != (table->cache_verdict == NULL))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "provider %s sets only one of fingerprint and cache_verdict",
                          table->name);
    if ((table->bind == NULL) != (table->release_binding == NULL))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "provider %s sets only one of bind and release_binding",
                          table->name);
    if (LOW_BITS(table->flags, INLAY_PROVIDER_ASYNC | INLAY_PROVIDER_SERIAL_EXECUTE) != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "provider %s has flags 0x%x that this host does not know",
                          table->name, table->flags);
    if (table->reserved != 0)
        return reserved_is_set("provider", table->name, diag);
    INLAY_TRY(adopt_options(module, provider, table, diag));
    INLAY_TRY(adopt_domains(module, provider, table, diag));
done:
    return status;
}

/* scratch: an arena whose contents the call replaces. */
static inlay_status adopt_operator(inlay_operator *op, const inlay_operator *raw, struct arena *scratch,
                                   inlay_diag *diag)
{
    op_schema schema;
    inlay_status status;

    if (!INLAY_HAS(raw, infer))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "an operator's struct of %llu bytes is too small to include infer",
                          (unsigned long long)raw->struct_size);
    sized_struct_read(op, sizeof *op, raw, raw->struct_size);
    op->struct_size = sizeof *op;
    if (op->op_type == NULL || *op->op_type == '\0' || op->domain == NULL || *op->domain == '\0' ||
        op->signature == NULL || op->since_version == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "an operator does not set one of domain, op_type, signature, since_version");
    if (op_domain_known(op->domain))
        return inlay_fail(
            diag, INLAY_INVALID_ARGUMENT,
            "operator %s is in domain '%s', which belongs to ONNX; use your own domain, such as 'com.example'",
            op->op_type, op->domain);
    if (LOW_BITS(op->flags, INLAY_OPERATOR_RANDOM) != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "operator %s.%s has flags 0x%x that this host does not know",
                          op->domain, op->op_type, op->flags);
    if (op->doc == NULL)
        op->doc = "";
    if (op->examples == NULL || op->example_stride == 0)
        op->example_count = 0;
    arena_reset(scratch);
    status = op_schema_parse(op->signature, arena_alloc_callback, scratch, &schema, diag);
    if (status != INLAY_OK && diag != NULL) {
        inlay_diag inner = *diag;

        (void)inlay_fail(diag, status, "operator %s.%s: %.300s", op->domain, op->op_type, inner.text);
    }
    return status;
}

bool module_same_operator(const inlay_operator *a, const inlay_operator *b)
{
    return a->since_version == b->since_version && strcmp(a->op_type, b->op_type) == 0 &&
           strcmp(a->domain, b->domain) == 0;
}

inlay_status module_adopt_operators(const plugin_module *module, const inlay_operator *raw, uint32_t stride,
                                    uint32_t count, struct arena *arena, inlay_operator **out, inlay_diag *diag)
{
    guard_operator *guards = arena_array(arena, count, sizeof *guards);
    inlay_operator *list = arena_array(arena, count, sizeof *list);
    struct arena scratch = { 0 };
    inlay_status status = INLAY_OK;

    *out = list;
    if (guards == NULL || list == NULL)
        return no_memory(diag, "to describe the operators");
    for (uint32_t i = 0; i < count && status == INLAY_OK; i++) {
        status = adopt_operator(&list[i], INLAY_AT(inlay_operator, raw, stride, i), &scratch, diag);
        for (uint32_t k = 0; k < i && status == INLAY_OK; k++)
            if (module_same_operator(&list[k], &list[i]))
                status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the plugin has two operators %s.%s-%u",
                                    list[i].domain, list[i].op_type, list[i].since_version);
        if (status == INLAY_OK)
            guard_wrap_operator(&list[i], &guards[i], module);
    }
    arena_deinit(&scratch);
    return status;
}

static inlay_status adopt_parts(plugin_module *module, inlay_diag *diag)
{
    inlay_plugin *plugin = &module->table;
    inlay_status status = INLAY_OK;

    if (plugin->provider_count > MAX_ENTRIES ||
        (plugin->provider_count > 0 && (plugin->providers == NULL || plugin->provider_stride == 0)) ||
        plugin->operator_count > MAX_ENTRIES ||
        (plugin->operator_count > 0 && (plugin->operators == NULL || plugin->operator_stride == 0)))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the plugin's lists are invalid: %u providers, %u operators",
                          plugin->provider_count, plugin->operator_count);
    if (plugin->provider_count + plugin->operator_count == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the plugin has neither providers nor operators");
    module->providers = arena_array(&module->arena, plugin->provider_count, sizeof *module->providers);
    if (module->providers == NULL)
        return no_memory(diag, "to describe the plugin");
    for (uint32_t i = 0; i < plugin->provider_count && status == INLAY_OK; i++)
        status = adopt_provider(module, &module->providers[i],
                                INLAY_AT(inlay_provider, plugin->providers, plugin->provider_stride, i), diag);
    if (status == INLAY_OK)
        status = module_adopt_operators(module, plugin->operators, plugin->operator_stride, plugin->operator_count,
                                        &module->arena, &module->operators, diag);
    module->file.provider_count = plugin->provider_count;
    module->file.operator_count = plugin->operator_count;
    return status;
}

inlay_status module_adopt(plugin_module *module, const inlay_plugin *raw, inlay_diag *diag)
{
    inlay_plugin *plugin = &module->table;

    if (raw == NULL || !INLAY_HAS(raw, abi_minor))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s returned no description", INLAY_PLUGIN_OPEN_SYMBOL);
    if (raw->abi_major != INLAY_ABI_MAJOR)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "built for plugin ABI %u.%u; this host loads %u.x: rebuild the plugin", raw->abi_major,
                          raw->abi_minor, INLAY_ABI_MAJOR);
    if (!INLAY_HAS(raw, operator_stride))
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "the plugin's struct of %llu bytes is too small to include operator_stride",
                          (unsigned long long)raw->struct_size);
    sized_struct_read(plugin, sizeof *plugin, raw, raw->struct_size);
    if (plugin->name == NULL || *plugin->name == '\0')
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the plugin has no name");
    if (plugin->build_id == NULL || *plugin->build_id == '\0') /* caches could not distinguish builds */
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "plugin %s has no build_id", plugin->name);
    if (LOW_BITS(plugin->flags, INLAY_PLUGIN_DLCLOSE) != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "plugin %s has flags 0x%x that this host does not know",
                          plugin->name, plugin->flags);
    if (plugin->reserved != 0)
        return reserved_is_set("plugin", plugin->name, diag);
    module->file.abi_minor = plugin->abi_minor;
    /* Copies, so that reports outlive the mapping. */
    module->file.name = arena_string(&module->arena, plugin->name);
    module->file.version = arena_string(&module->arena, plugin->version != NULL ? plugin->version : "");
    module->file.build_id = arena_string(&module->arena, plugin->build_id);
    if (module->file.name == NULL || module->file.version == NULL || module->file.build_id == NULL)
        return no_memory(diag, "to describe the plugin");
    return adopt_parts(module, diag);
}

inlay_status module_open(plugin_module *module, inlay_plugin_open_fn open_plugin, inlay_diag *diag)
{
    const inlay_plugin *raw = NULL;
    inlay_diag own = INLAY_DIAG_INIT;
    crash_scene before = crash_enter(module, INLAY_PLUGIN_OPEN_SYMBOL, NULL, NULL);
    float_state floats = float_state_get();
    inlay_status status = open_plugin(host_table(), &raw, &own);

    (void)float_state_restore(floats);
    crash_leave(&before);
    if (status != INLAY_OK)
        return forward_plugin_error(&(boundary_call){ NULL, NULL }, status, &own, diag);
    return module_adopt(module, raw, diag);
}

inlay_status module_register(inlay_plugin_open_fn open_plugin, plugin_module **out_module, inlay_diag *diag)
{
    plugin_module *module = calloc(1, sizeof *module);
    inlay_status status;

    *out_module = NULL;
    if (module == NULL)
        return no_memory(diag, "to describe the plugin");
    module->file.path = "(within the program)";
    module->file.providers = "";
    module->open_plugin = open_plugin;
    status = module_open(module, open_plugin, diag);
    if (status != INLAY_OK) {
        module_unload(module);
        return status;
    }
    module->file.loaded = true;
    *out_module = module;
    return INLAY_OK;
}

void module_unload(plugin_module *module)
{
    crash_scene before = crash_enter(module, "shutdown", NULL, NULL);
    const float_state floats = float_state_get();

    INLAY_CHECK(module->references == 0);
    if (module->table.shutdown != NULL)
        module->table.shutdown(module->table.ctx);
    (void)float_state_restore(floats);
    if (module->handle != NULL && (module->table.flags & INLAY_PLUGIN_DLCLOSE) != 0)
        unmap_file(module->handle);
    crash_leave(&before);
    crash_remove_module(module);
    arena_deinit(&module->arena);
    free(module);
}
