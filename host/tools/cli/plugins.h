/* cli/plugins.h - the plugins that a session with the same options finds. */
#ifndef CLI_PLUGINS_H
#define CLI_PLUGINS_H
#include "cli/cli.h"
#include "plugin/plugin.h"

/* Finds and loads the plugins. model: its identity, without the plugins that crashed with it; 0: of no model. */
INLAY_NODISCARD inlay_status cli_plugins(const cli_common *common, uint64_t model, plugin_set **out_set,
                                         inlay_diag *diag);
/* cli_plugins() after forgetting the verdict on the plugin or file `name`; see plugin_retry(). */
INLAY_NODISCARD inlay_status cli_plugins_again(const cli_common *common, const char *name, plugin_set **out_set,
                                               inlay_diag *diag);
#endif
