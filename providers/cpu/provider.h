/* provider.h - the provider that compiles regions. */
#ifndef CPU_PROVIDER_H
#define CPU_PROVIDER_H
#include "inlay/kit_kernel.h"
#include "inlay/plugin.h"

inlay_provider cpu_provider(void);
/* Implements inlay_plugin_open() of a plugin with one provider. */
inlay_status cpu_open_plugin(const inlay_provider *provider, const inlay_host *host, const inlay_plugin **out_plugin,
                             inlay_diag *diag);
#endif
