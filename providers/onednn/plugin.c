/* The plugin onednn: whole regions of a graph, with the kernels of oneDNN. */
#include "dn_versions.h"
#include "provider.h"

INLAY_PLUGIN_NOTE("onednn", "onednn", "")

inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    static const rg_front front = { "onednn",
                                    "regions of operators that oneDNN has kernels for, and of what stands between them",
                                    &dn_onednn };

    const inlay_provider provider = rg_provider(&front);

    return rg_open_plugin(&provider, host, out_plugin, diag);
}
