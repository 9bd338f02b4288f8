/* The reference provider: every operator in plain C. */
#include "simd/cpu.h"
#include "gemm/set.h"
#include "reference.h"
#include "reference_tables.h"
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
      .doc = "run operators of ONNX's preview domains (ai.onnx.preview.training), whose definition is not final" },
    { .name = "precision",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "f32",
      .choices = "strict|f32",
      .doc = "strict = products add few terms in a row; a session's option of that name sets it" },
    { .name = "isa",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "auto",
      .choices = CPU_ISA_CHOICES,
      .doc = CPU_ISA_DOC },
};

static inlay_status open_reference(const inlay_host *host, const inlay_create_args *args, void **out, inlay_diag *diag)
{
    reference_settings *settings = calloc(1, sizeof *settings);
    const char *isa = "auto";
    inlay_status status;

    (void)host;
    *out = settings;
    if (settings == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the settings of provider reference");
    for (uint32_t i = 0; i < args->option_count; i++) {
        const inlay_option_value *v = INLAY_AT(inlay_option_value, args->options, args->option_stride, i);
        if (strcmp(v->name, "isa") == 0 && v->s != NULL)
            isa = v->s;
    }
    status = cpu_cap(isa, diag);
    reference_read_options(settings, args);
    if (status != INLAY_OK) {
        free(settings);
        *out = NULL;
    }
    return status;
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
    .version = "0.1.0",
    .provider = &provider,
};

KIT_PLUGIN_NAMED(plugin, "reference", "reference", "")
