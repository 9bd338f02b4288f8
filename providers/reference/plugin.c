/* The reference provider: every operator in portable C. */
#define INLAY_NOTE_VERSION INLAY_VERSION
#include "common/operator_settings.h"
#include "reference/reference_tables.h"
#include "simd/cpu.h"
#include <stdlib.h>

static const kit_table *const tables[] = {
#define TABLE(stem) &reference_##stem,
#include "reference/kernels.def"
#undef TABLE
};

/* Operators of ONNX's preview domains are supported only with an option, because their definitions may change at any
 * time. For example, the first test data of Adam contradict its schema. */
static const inlay_option options[] = {
    { .name = "preview",
      .kind = INLAY_OPTION_BOOL,
      .default_value = "false",
      .doc = "true = run operators of the preview domains of ONNX (ai.onnx.preview.training), which may still change" },
    { .name = "precision",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "f32",
      .choices = "strict|f32",
      .doc = "strict = matrix multiplications add few terms in a row; the session option of that name sets it" },
};

/* Code shared with other providers also has kernels for instruction set extensions: disable them. */
static inlay_status open_reference(const inlay_host *host, const inlay_create_args *args, void **out, inlay_diag *diag)
{
    const inlay_status status = cpu_limit_isa("baseline", diag);

    *out = NULL;
    return status == INLAY_OK ? operator_settings_open(host, args, out, diag) : status;
}

static const kit_provider provider = {
    .name = "reference",
    .description = "every operator in portable C",
    .tables = tables,
    .table_count = KIT_COUNT(tables),
    .options = options,
    .option_count = KIT_COUNT(options),
    .open = open_reference,
    .close = free,
    .flags = INLAY_PROVIDER_REFERENCE_CORE,
};

static const kit_plugin plugin = {
    .name = "reference",
    .version = INLAY_VERSION,
    .provider = &provider,
};

KIT_PLUGIN_NAMED(plugin, "reference", "reference", "")
