/* The plugin cpu: whole regions of a graph on built-in kernels, and operators by themselves. */
#include "operators/operators.h"
#include "provider.h"

INLAY_PLUGIN_NOTE("cpu", "cpu", "")

inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    static const cpu_front front = {
        "cpu", "regions of float and integer operators on kernels of inlay: packed weights, fused functions", NULL
    };
    static inlay_provider regions; /* written once: plugins are opened once, by one thread */
    inlay_provider combined;

    regions = cpu_provider(&front);
    combined = cpu_combine(&regions);
    return cpu_open_plugin(&combined, host, out_plugin, diag);
}
