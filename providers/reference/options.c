/* What options say of how numbers are computed, to the plugin and to the programs of `inlay bundle` alike. */
#include "gemm/set.h"
#include "reference.h"

static const gemm_kernel *strict_kernel(const gemm_engine *self, uint32_t type)
{
    const reference_settings *settings = (const reference_settings *)(const void *)self;

    return type == GEMM_F32 ? &settings->strict : gemm_kernel_best(type);
}

void reference_read_options(reference_settings *settings, const inlay_create_args *args)
{
    bool strict = false;

    settings->engine = reference_engine;
    for (uint32_t i = 0; i < args->option_count; i++) {
        const inlay_option_value *v = INLAY_AT(inlay_option_value, args->options, args->option_stride, i);

        if (strcmp(v->name, "preview") == 0)
            settings->preview = v->i != 0;
        else if (strcmp(v->name, "precision") == 0 && v->s != NULL)
            strict = strcmp(v->s, "strict") == 0;
    }
    if (strict) {
        settings->engine.kernel = strict_kernel;
        settings->strict = *gemm_kernel_best(GEMM_F32);
        settings->strict.chain = GEMM_STRICT_CHAIN;
    }
}
