/* The reference provider: every operator in plain C. */
#include "operator_settings.h"
#include "reference_tables.h"
#include "simd/cpu.h"
#include <stdlib.h>

static const kit_table *const tables[] = {
#define TABLE(stem) &reference_##stem,
#include "kernels.def"
#undef TABLE
};

/* The preview domains of ONNX may change under the feet of their users, and do: Adam's first test data contradict its
 * schema. So who runs them says so. */
static const inlay_option options[] = {
    { .name = "preview",
      .kind = INLAY_OPTION_BOOL,
      .default_value = "false",
      .doc = "true = run operators of the preview domains of ONNX (ai.onnx.preview.training), which may still change" },
    { .name = "precision",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "f32",
      .choices = "strict|f32",
      .doc = "how float operators are computed: strict = matrix multiplications add short partial sums, for smaller "
             "rounding errors; the session's option of this name sets it" },
};

/* What it shares with other providers has kernels for more than plain C, too: not here. */
static inlay_status open_reference(const inlay_host *host, const inlay_create_args *args, void **out, inlay_diag *diag)
{
    const inlay_status status = cpu_cap("baseline", diag);

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
