/* A plugin in several editions: -DPLUGIN, -DPROVIDER and -DVERSION are its texts, -DOPERATOR adds an operator of that
 * version. With -DSILENT its note has no names. */
#define INLAY_NOTE_VERSION VERSION
#include "inlay/kit.h"

static inlay_status run(const kit_call *call)
{
    const float *input = call->in[0].data;
    float *output = call->out[0].data;

    for (int64_t i = 0; i < call->in[0].count; i++)
        output[i] = input[i] < 0 ? 0 : input[i];
    return INLAY_OK;
}

static const kit_kernel kernels[] = { { .op_type = "Relu", .in_types = { KIT_BIT(FLOAT) }, .run = run } };
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };
static const kit_provider provider = { .name = PROVIDER, .description = "Relu", .tables = tables, .table_count = 1 };

#ifdef OPERATOR
static const inlay_operator operators[] = { { .struct_size = sizeof(inlay_operator),
                                              .domain = "com.example.editions",
                                              .op_type = "Edit",
                                              .signature = "X:T -> Y:T; T=float",
                                              .since_version = OPERATOR } };
#define DOMAINS "com.example.editions"
#else
#define DOMAINS ""
#endif

static const kit_plugin plugin = { .name = PLUGIN,
                                   .version = VERSION,
                                   .provider = &provider,
#ifdef OPERATOR
                                   .operators = operators,
                                   .operator_count = KIT_COUNT(operators)
#endif
};

#ifdef SILENT
KIT_PLUGIN(plugin)
#else
KIT_PLUGIN_NAMED(plugin, PLUGIN, PROVIDER, DOMAINS)
#endif
