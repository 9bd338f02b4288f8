#include "remote/description.h"
#include "base/memory.h"
#include "plugin/isolate.h"
#include "remote/shared.h"

enum { MAX_ENTRIES = 4096 }; /* of providers, and of options */

static const char *copy_text(isolate_plugin *plugin, isolate_reader *reader)
{
    const char *text = isolate_get_text(reader);

    return text != NULL ? arena_string(&plugin->arena, text) : NULL;
}

static inlay_status read_options(isolate_plugin *plugin, isolate_reader *reader, inlay_provider *out, inlay_diag *diag)
{
    const uint64_t count = isolate_get_u64(reader);
    inlay_option *options =
        count <= MAX_ENTRIES ? arena_array(&plugin->arena, (size_t)count + 1, sizeof *options) : NULL;

    if (options == NULL)
        return no_memory(diag, "for %llu options of a plugin", (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++) {
        options[i].name = copy_text(plugin, reader);
        options[i].doc = copy_text(plugin, reader);
        options[i].default_value = copy_text(plugin, reader);
        options[i].choices = copy_text(plugin, reader);
        options[i].min = (int64_t)isolate_get_u64(reader);
        options[i].max = (int64_t)isolate_get_u64(reader);
        options[i].kind = (uint32_t)isolate_get_u64(reader);
    }
    out->options = options;
    out->option_count = (uint32_t)count;
    out->option_stride = sizeof *options;
    return INLAY_OK;
}

/* What the calls of a provider need that another process does not have. */
static const char *find_reason(isolate_plugin *plugin, uint64_t flags, uint64_t default_domain, const char *domain)
{
    if (default_domain != INLAY_DOMAIN_HOST)
        return arena_format(&plugin->arena,
                            "it has memory of its own ('%.100s'), whose handles are valid only in one "
                            "process",
                            domain != NULL ? domain : "?");
    return (flags & INLAY_PROVIDER_ASYNC) != 0
               ? "it is asynchronous, and its fences can be signalled only in the process of the host"
               : NULL;
}

static inlay_status read_provider(isolate_plugin *plugin, isolate_reader *reader, uint32_t index, inlay_provider *out,
                                  inlay_diag *diag)
{
    isolate_info *info = arena_alloc(&plugin->arena, sizeof *info);
    uint64_t flags, default_domain;

    if (info == NULL)
        return no_memory(diag, "to describe the plugin");
    out->name = copy_text(plugin, reader);
    out->description = copy_text(plugin, reader);
    out->device_kind = (uint32_t)isolate_get_u64(reader);
    flags = isolate_get_u64(reader);
    out->poll_ms = (uint32_t)isolate_get_u64(reader);
    default_domain = isolate_get_u64(reader);
    if (isolate_get_u64(reader) == 0)
        out->cost_region = NULL;
    *info = (isolate_info){ plugin, out->name, find_reason(plugin, flags, default_domain, isolate_get_text(reader)),
                            index, out->poll_ms };
    out->flags = (uint32_t)flags & ~(uint32_t)INLAY_PROVIDER_ASYNC;
    out->ctx = info;
    return read_options(plugin, reader, out, diag);
}

inlay_status isolate_read_description(isolate_plugin *plugin, const inlay_provider *functions, const char *records,
                                      uint32_t bytes, inlay_diag *diag)
{
    isolate_reader reader = { records, records + bytes, false };
    inlay_plugin *table = &plugin->table;
    inlay_status status = INLAY_OK;
    inlay_provider *providers;
    uint64_t operators, count;

    *table = (inlay_plugin){ .struct_size = sizeof *table, .abi_major = INLAY_ABI_MAJOR };
    table->name = copy_text(plugin, &reader);
    table->version = copy_text(plugin, &reader);
    table->build_id = copy_text(plugin, &reader);
    table->abi_minor = (uint32_t)isolate_get_u64(&reader);
    operators = isolate_get_u64(&reader);
    count = isolate_get_u64(&reader);
    if (operators > 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, ISOLATE_HAS_OPERATORS);
    providers = count <= MAX_ENTRIES ? arena_array(&plugin->arena, (size_t)count + 1, sizeof *providers) : NULL;
    if (providers == NULL)
        return no_memory(diag, "for %llu providers of a plugin", (unsigned long long)count);
    for (uint32_t i = 0; i < count && status == INLAY_OK; i++) {
        providers[i] = *functions;
        status = read_provider(plugin, &reader, i, &providers[i], diag);
    }
    if (status == INLAY_OK && reader.failed)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "its process sent an incomplete description");
    table->providers = providers;
    table->provider_count = (uint32_t)count;
    table->provider_stride = sizeof *providers;
    return status;
}
