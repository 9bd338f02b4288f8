/* The plugin onednn: regions of a graph on the kernels of oneDNN. */
#define INLAY_NOTE_VERSION INLAY_VERSION
#include "onednn/library_versions.h"
#include "cpu/provider.h"

INLAY_PLUGIN_NOTE("onednn", "onednn", "")

inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    static const cpu_provider_config config = {
        "onednn", "regions of operators on kernels of oneDNN, and of views and simple operators between them",
        &onednn_table
    };

    const inlay_provider provider = cpu_provider(&config);

    return cpu_open_plugin(&provider, host, out_plugin, diag);
}
