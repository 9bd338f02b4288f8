/* The plugin cpu: whole regions of a graph on kernels of our own. */
#include "provider.h"

INLAY_PLUGIN_NOTE("cpu", "cpu", "")

inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    static const rg_front front = {
        "cpu", "regions of float and integer operators on kernels of inlay: packed weights, fused functions", NULL
    };

    return rg_open_plugin(&front, host, out_plugin, diag);
}
