/* keep_plugins.h - keeps plugins loaded between the sessions of a test. */
#ifndef KEEP_PLUGINS_H
#define KEEP_PLUGINS_H
#include "cmocka_all.h"
#include "plugin/plugin.h"

/* Loads the plugins of the default folder, once, and keeps them until the program ends: loading them takes longer than
 * the rest of a small session. They are not probed, because tests/hostile tests that. Not thread-safe. */
static inline void keep_plugins(void)
{
    static plugin_set *kept;
    const plugin_search search = { .probe = PLUGIN_PROBE_NEVER };
    inlay_diag diag = INLAY_DIAG_INIT;

    if (kept == NULL && plugin_set_search_listed(&search, "", &kept, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
}
#endif
