/* The reference provider: every operator in plain C. */
#include "reference.h"

static const kit_table *const tables[] = {
#define TABLE(stem) &reference_##stem,
#include "kernels.def"
#undef TABLE
};

static const kit_provider provider = {
    .name = "reference",
    .description = "every operator in portable C",
    .tables = tables,
    .table_count = KIT_COUNT(tables),
};

static const kit_plugin plugin = {
    .name = "reference",
    .version = "0.1.0",
    .provider = &provider,
};

KIT_PLUGIN(plugin)
