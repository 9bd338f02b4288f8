/* A provider that computes fast on integers and supports QLinearConv without groups, MaxPool and MatMulInteger of up to
 * 16 terms. The optimiser must query it before it creates such nodes. No model runs on it: it has no kernels. */
#include "inlay/extensions.h"
#include "inlay/kit.h"

static bool one_group(const kit_node *node, kit_refusal *why)
{
    return kit_attr_int(node->info, "group", 1) == 1 || kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "groups");
}

static bool few_terms(const kit_node *node, kit_refusal *why)
{
    const inlay_value_info *info = kit_input(node, 1);

    if (kit_output_dtype(node, 0) != INLAY_INT32 || kit_output(node, 0)->rank != kit_input(node, 0)->rank)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "an output of another type");
    return (info->rank == 2 && info->dims[0].value <= 16) || kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "many terms");
}

static bool bytes(const kit_node *node, kit_refusal *why)
{
    return kit_input(node, 0)->dtype == INLAY_UINT8 || kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "no bytes");
}

static inlay_status run(const kit_call *call)
{
    return inlay_fail(call->diag, INLAY_UNSUPPORTED, "provider integers computes nothing");
}

static const kit_kernel kernels[] = {
    { .op_type = "QLinearConv", .since_min = 10, .since_max = 10, .supports = one_group, .run = run },
    { .op_type = "MaxPool", .since_min = 12, .since_max = 22, .supports = bytes, .run = run },
    { .op_type = "MatMulInteger", .since_min = 10, .since_max = 10, .supports = few_terms, .run = run },
};
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };
static const kit_provider provider = {
    .name = "integers", .description = "offers some", .tables = tables, .table_count = 1
};
static const kit_plugin self = { .name = "integers", .version = "1.0", .provider = &provider };
static kit_exports exports;

static const void *extension(void *state, const char *name)
{
    static const inlay_ext_integers fast = { .struct_size = sizeof fast, .fast_products = 1 };

    (void)state;
    return strcmp(name, INLAY_EXT_INTEGERS) == 0 ? &fast : NULL;
}

INLAY_PLUGIN_NOTE("integers", "integers", "")
INLAY_EXPORT inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    inlay_status status = kit_open(&self, &exports, host, out_plugin, diag);

    exports.provider.extension = extension;
    return status;
}
