/* plugin/library_probe.h - tests a library that a provider is about to load, in the probe process. Private to this
 * folder.
 *
 * A provider with an option LIBRARY_OPTION loads the code of a file in create: the probe of its plugin, which opens it
 * with default options, does not reach that code. So the host first opens it with the session's options in the probe
 * process (plugin/probe.h), once for each state of the plugin, of the library and of the options. */
#ifndef PLUGIN_LIBRARY_PROBE_H
#define PLUGIN_LIBRARY_PROBE_H
#include "plugin/plugin.h"

#define LIBRARY_OPTION "library"
enum { LIBRARY_PROBE_TIMES = 6 }; /* times the limit of a plugin: opening drivers takes longer */

/* What plugin_search says about probes. */
typedef struct probe_rules {
    uint32_t probe, probe_ms;
    const char *verdict_dir;
} probe_rules;

const probe_rules *plugin_set_rules(const plugin_set *set);

/* INLAY_OK: the provider may be opened with these settings, because it names no library, or because the library neither
 * crashed nor hung. INLAY_UNSUPPORTED: it did; diag names it. No lock is held. */
INLAY_NODISCARD inlay_status library_probe(const probe_rules *rules, const plugin_provider *provider,
                                           const provider_setting *settings, uint32_t setting_count, inlay_diag *diag);
#endif
