/* provider.h - a provider that compiles regions. There are two: `cpu`, whose kernels are all in this folder, and
 * `onednn`, which has oneDNN's beside them. */
#ifndef CPU_PROVIDER_H
#define CPU_PROVIDER_H
#include "inlay/kit.h"

typedef struct cpu_front {
    const char *name, *description;
    const struct primitive_library *library; /* NULL: kernels of this folder alone */
} cpu_front;

/* front stays as long as the provider: it is the first argument of create(). */
inlay_provider cpu_provider(const cpu_front *front);
/* inlay_plugin_open() of a plugin that has one provider. */
inlay_status cpu_open_plugin(const inlay_provider *provider, const inlay_host *host, const inlay_plugin **out_plugin,
                             inlay_diag *diag);
#endif
