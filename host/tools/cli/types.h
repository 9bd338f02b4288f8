/* cli/types.h - `inlay providers --types`: the element types that each provider supports for each operator version. */
#ifndef CLI_TYPES_H
#define CLI_TYPES_H
#include "cli/cli.h"
#include "plugin/plugin.h"

/* Queries every provider, with default options, about several nodes of each operator, and prints a Markdown table. A
 * type is listed if at least one of its nodes is accepted. Plugins that cannot be opened are omitted. */
inlay_status cli_types_text(plugin_set *set, inlay_diag *diag);
#endif
