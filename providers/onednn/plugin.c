/* The plugin onednn: whole regions of a graph, with the kernels of oneDNN. */
#include "library_versions.h"
#include "provider.h"

INLAY_PLUGIN_NOTE("onednn", "onednn", "")

inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    static const cpu_front front = { "onednn",
                                     "regions of operators that oneDNN supports, and of the operators between them",
                                     &onednn_table };

    const inlay_provider provider = cpu_provider(&front);

    return cpu_open_plugin(&provider, host, out_plugin, diag);
}
