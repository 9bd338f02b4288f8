/* operator_settings.h - what the tables of operators find in kit_node.provider: the engine of the products, and
 * options. The providers reference and cpu open their tables with it. */
#ifndef OPERATOR_SETTINGS_H
#define OPERATOR_SETTINGS_H
#include "gemm.h"

typedef struct operator_settings {
    gemm_engine engine; /* first: common/conv.h and its neighbours take the settings for it */
    gemm_kernel strict; /* what the engine has for floats with precision strict */
    bool preview;       /* operators of preview domains are offered */
} operator_settings;

/* kit_provider.open: reads the options `preview` and `precision`; free() closes it. */
inlay_status operator_settings_open(const inlay_host *host, const inlay_create_args *args, void **out,
                                    inlay_diag *diag);
#endif
