/* operator_settings.h - the struct that kit_node.provider points to in the operators of the providers reference and
 * cpu: the gemm engine, and options. */
#ifndef OPERATOR_SETTINGS_H
#define OPERATOR_SETTINGS_H
#include "operators/gemm.h"

typedef struct operator_settings {
    gemm_engine engine; /* must be first: gemm_kernel_for() converts kit_node.provider to it */
    gemm_kernel strict; /* the engine's float kernel for precision strict */
    bool preview;       /* offer operators of preview domains */
} operator_settings;

struct inlay_create_args;
/* kit_provider.open: reads the options `preview` and `precision`. Free with free(). */
inlay_status operator_settings_open(const struct inlay_host *host, const struct inlay_create_args *args, void **out,
                                    inlay_diag *diag);
#endif
