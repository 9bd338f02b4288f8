/* plugin_entry.h - the entry of a plugin with one provider, for plugins of tests that do not use the kit. */
#ifndef PLUGIN_ENTRY_H
#define PLUGIN_ENTRY_H
#include "inlay/plugin.h"

/* Defines the plugin `plugin_name` with `provider_table`, an inlay_provider called `provider_name`, and
 * inlay_plugin_open. Use it at the end of one source file, without a semicolon. */
#define PLUGIN_ENTRY(plugin_name, provider_name, provider_table)                                                       \
    static const inlay_plugin plugin = { .struct_size = sizeof plugin,                                                 \
                                         .abi_major = INLAY_ABI_MAJOR,                                                 \
                                         .abi_minor = INLAY_ABI_MINOR,                                                 \
                                         .name = plugin_name,                                                          \
                                         .version = "1.0.0",                                                           \
                                         .build_id = plugin_name " 1.0.0",                                             \
                                         .providers = &(provider_table),                                               \
                                         .provider_count = 1,                                                          \
                                         .provider_stride = sizeof(provider_table) };                                  \
    INLAY_PLUGIN_NOTE(plugin_name, provider_name, "")                                                                  \
    INLAY_EXPORT inlay_status inlay_plugin_open(const inlay_host *caller, const inlay_plugin **out, inlay_diag *diag)  \
    {                                                                                                                  \
        if (caller->abi_major != INLAY_ABI_MAJOR)                                                                      \
            return inlay_fail(diag, INLAY_UNSUPPORTED, "made for ABI %u", INLAY_ABI_MAJOR);                            \
        *out = &plugin;                                                                                                \
        return INLAY_OK;                                                                                               \
    }
#endif
