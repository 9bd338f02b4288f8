/* provider.h - a provider that compiles regions. Two plugins use it: `cpu` has only the kernels of this folder,
 * `onednn` also has the kernels of oneDNN. */
#ifndef CPU_PROVIDER_H
#define CPU_PROVIDER_H
#include "inlay/kit.h"

typedef struct cpu_provider_config {
    const char *name, *description;
    const struct primitive_library *library; /* NULL: only the kernels of this folder */
} cpu_provider_config;

/* config is the first argument of create() and must outlive the provider. */
inlay_provider cpu_provider(const cpu_provider_config *config);
/* Implements inlay_plugin_open() of a plugin with one provider. */
inlay_status cpu_open_plugin(const inlay_provider *provider, const inlay_host *host, const inlay_plugin **out_plugin,
                             inlay_diag *diag);
#endif
