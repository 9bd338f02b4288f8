/* The reference provider: every operator in portable C. */
#define INLAY_NOTE_VERSION INLAY_VERSION
#include "operators/operator_settings.h"
#include "operators/tables.h"
#include "operators/work_ns.h"
#include "reference/reference_tables.h"
#include "inlay/kit.h"
#include "inlay/plugin.h"
#include <stdlib.h>

static const kit_table *const tables[] = {
#define TABLE(stem) &operators_##stem,
#include "operators/tables.def"
#undef TABLE
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
    { .name = "reproducible",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "0",
      .choices = "0|1|cpu",
      .doc = "no effect: results are always the same on every x86-64 and arm64 CPU" },
};

static const kit_provider provider = {
    .name = "reference",
    .description = "every operator in portable C",
    .tables = tables,
    .table_count = KIT_COUNT(tables),
    .options = options,
    .option_count = KIT_COUNT(options),
    .open = operator_settings_open,
    .close = free,
    .flags = INLAY_PROVIDER_REFERENCE_CORE,
    .work_ns = operator_plain_work_ns,
};

static const kit_plugin plugin = {
    .name = "reference",
    .version = INLAY_VERSION,
    .provider = &provider,
};

KIT_PLUGIN_NAMED(plugin, "reference", "reference", "")
