#include "inlay/check.h"
#include "inlay/plugin.h"
#include "operators/operator_settings.h"
#include "operators/gemm/set.h"
#include <stdlib.h>
#include <string.h>

static const gemm_kernel *strict_kernel(const gemm_engine *self, uint32_t type)
{
    const operator_settings *settings = (const operator_settings *)(const void *)self;

    INLAY_CHECK(type < GEMM_TYPE_COUNT);
    return type == GEMM_F32 ? &settings->strict : type == GEMM_BF16 ? NULL : gemm_kernel_best(type);
}

inlay_status operator_settings_open(const inlay_host *host, const inlay_create_args *args, void **out, inlay_diag *diag)
{
    operator_settings *settings = calloc(1, sizeof *settings);
    bool strict = false;

    (void)host;
    *out = settings;
    if (settings == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the settings of operators");
    settings->engine = blocked_engine;
    for (uint32_t i = 0; i < args->option_count; i++) {
        const inlay_option_value *value = INLAY_AT(inlay_option_value, args->options, args->option_stride, i);

        if (strcmp(value->name, "preview") == 0)
            settings->preview = value->i != 0;
        else if (strcmp(value->name, "precision") == 0 && value->s != NULL)
            strict = strcmp(value->s, "strict") == 0;
    }
    if (strict) {
        settings->engine.kernel = strict_kernel;
        settings->strict = *gemm_kernel_best(GEMM_F32);
        settings->strict.chain = GEMM_STRICT_CHAIN;
    }
    return INLAY_OK;
}
