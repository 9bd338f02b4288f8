/* The plugin onednn: whole regions of a graph, with the kernels of oneDNN. */
#include "provider.h"

INLAY_PLUGIN_NOTE("onednn", "onednn", "")

inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    static const rg_front front = {
        "onednn", "regions of float operators on oneDNN: blocked layouts, packed weights, fused functions", true
    };

    return rg_open_plugin(&front, host, out_plugin, diag);
}
