/* cli/sources.h - `inlay providers --kernels`: the source files of the providers' kernels, and the active instances. */
#ifndef CLI_SOURCES_H
#define CLI_SOURCES_H
#include "cli/cli.h"
#include "plugin/plugin.h"

/* Both functions open each provider with its settings and with option isa, which limits the instruction set. A provider
 * that cannot be opened has a line with the reason instead. */
void cli_sources_text(plugin_set *set, const inlay_options *options);
/* [{"provider": "cpu", "kernels": [{"name", "source", "instances": [...], "chosen"}]}, ...]; NULL: no memory. */
json_t *cli_sources_json(plugin_set *set, const inlay_options *options);
#endif
