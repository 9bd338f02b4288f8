/* operator_settings.h - the struct that operator tables find in kit_node.provider: the gemm engine, and options. The
 * providers reference and cpu open their tables with it. */
#ifndef OPERATOR_SETTINGS_H
#define OPERATOR_SETTINGS_H
#include "gemm.h"

typedef struct operator_settings {
    gemm_engine engine; /* must be first: common/conv.h and others cast the settings to it */
    gemm_kernel strict; /* the engine's float kernel for precision strict */
    bool preview;       /* offer operators of preview domains */
} operator_settings;

/* kit_provider.open: reads the options `preview` and `precision`. Free with free(). */
inlay_status operator_settings_open(const inlay_host *host, const inlay_create_args *args, void **out,
                                    inlay_diag *diag);
#endif
