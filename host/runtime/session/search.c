#include "session/search.h"
#include "config/checks.h"
#include "config/dirs.h"
#include <string.h>

void config_search_init(config_search *out, const inlay_options *options, plugin_log_fn log, void *log_user)
{
    const char *probe = options_text(options, OPTION_probe);
    uint64_t memory_bytes = 0;

    *out = (config_search){ .list = options_text(options, OPTION_plugin_dirs) };
    if (!config_cache_folder(options, "plugins", out->verdict_dir, sizeof out->verdict_dir))
        out->verdict_dir[0] = '\0';
    (void)option_bytes(options_text(options, OPTION_isolate_memory), &memory_bytes); /* false: 0 */
    out->search = (plugin_search){
        .probe = strcmp(probe, "always") == 0  ? PLUGIN_PROBE_ALWAYS
                 : strcmp(probe, "never") == 0 ? PLUGIN_PROBE_NEVER
                                               : PLUGIN_PROBE_AUTO,
        .probe_ms = (uint32_t)options_int(options, OPTION_probe_timeout_ms),
        .verdict_dir = out->verdict_dir,
        .isolate = options_text(options, OPTION_isolate),
        .isolate_limits = { .call_ms = (uint64_t)options_int(options, OPTION_device_timeout_ms),
                            .memory_bytes = memory_bytes },
        .allow = options_text(options, OPTION_plugin_allow),
        .log = log,
        .log_user = log_user,
    };
}
