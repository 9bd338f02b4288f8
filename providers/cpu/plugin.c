/* The plugin cpu: regions of a graph on built-in kernels, and single operators outside of regions. */
#define INLAY_NOTE_VERSION INLAY_VERSION
#include "cpu/operators/operators.h"
#include "cpu/provider.h"

INLAY_PLUGIN_NOTE("cpu", "cpu", "")

inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    static inlay_provider regions; /* written once: plugins are opened once, by one thread */
    inlay_provider combined;

    regions = cpu_provider();
    combined = cpu_combine(&regions);
    return cpu_open_plugin(&combined, host, out_plugin, diag);
}
