/* cli/plugins.h - the plugins that a session with the same options would see. */
#ifndef CLI_PLUGINS_H
#define CLI_PLUGINS_H
#include "cli/cli.h"
#include "plugin/plugin.h"

INLAY_NODISCARD inlay_status cli_plugins(const cli_common *common, plugin_set **out_set, inlay_diag *diag);
/* The same, after what is remembered of the plugin or file of that name was forgotten; see plugin_retry(). */
INLAY_NODISCARD inlay_status cli_plugins_again(const cli_common *common, const char *name, plugin_set **out_set,
                                               inlay_diag *diag);
#endif
