/* cli/types.h - `inlay providers --types`: which element types of each operator's versions which provider takes. */
#ifndef CLI_TYPES_H
#define CLI_TYPES_H
#include "cli/cli.h"
#include "plugin/plugin.h"

/* Asks every provider with default options about nodes of all operators, in several shapes each, and prints a table in
 * Markdown. A type counts where one of the nodes is taken. A plugin that cannot be opened is left out. */
inlay_status cli_types_text(plugin_set *set, inlay_diag *diag);
#endif
