/* The provider openblas: operators that are matrix multiplications of float or double, computed by OpenBLAS. */
#define INLAY_NOTE_VERSION INLAY_VERSION
#include "openblas/blas.h"
#include "simd/cpu.h"
#include "operators/products.h"
#include "inlay/kit.h"
#include "inlay/plugin.h"
#include <stdlib.h>

#define TYPES (KIT_BIT(FLOAT) | KIT_BIT(DOUBLE))

#define PRODUCT(operator, newest, stem, check)                                                                         \
    static inlay_status prepare_##stem(const kit_node *node, void **out_state, inlay_diag *diag)                       \
    {                                                                                                                  \
        inlay_status status = blas_engine_ensure_open(node->host, node->provider, diag);                               \
                                                                                                                       \
        return status == INLAY_OK ? product_##stem##_prepare(node, out_state, diag) : status;                          \
    }
#include "operators/products.def"
#undef PRODUCT

static const kit_kernel kernels[] = {
#define PRODUCT(operator, newest, stem, check)                                                                         \
    { .op_type = operator,                                                                                             \
      .since_max = newest,                                                                                             \
      .in_types = { TYPES, TYPES, TYPES },                                                                             \
      .supports = blas_supports,                                                                                       \
      .prepare = prepare_##stem,                                                                                       \
      .release = product_##stem##_release,                                                                             \
      .shape = product_##stem##_shape,                                                                                 \
      .run = product_##stem##_run,                                                                                     \
      .cost = product_##stem##_cost },
#include "operators/products.def"
#undef PRODUCT
};
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };

static const inlay_option options[] = {
    { .name = "library",
      .kind = INLAY_OPTION_STRING,
      .default_value = BLAS_DEFAULT_LIBRARY,
      .doc = "the OpenBLAS library: a soname for the system's loader, or an absolute path" },
    { .name = "core",
      .kind = INLAY_OPTION_STRING,
      .default_value = BLAS_DEFAULT_CORE,
      .doc = "core type whose kernels OpenBLAS uses (Haswell, Zen, SkylakeX); auto = OPENBLAS_CORETYPE if set, "
             "otherwise chosen for this CPU" },
    { .name = "precision",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "f32",
      .choices = "strict|f32",
      .doc = "strict = sums use short chains of additions; set by the session option of the same name" },
    { .name = "isa",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "auto",
      .choices = CPU_ISA_CHOICES,
      .doc = CPU_ISA_DOC },
};

static void close_blas(void *provider)
{
    blas_engine *engine = provider;

    blas_engine_close(engine);
    free(engine);
}

static inlay_status open_blas(const inlay_host *host, const inlay_create_args *args, void **out, inlay_diag *diag)
{
    const char *library = options[0].default_value, *core = options[1].default_value, *isa = "auto";
    blas_engine *engine = calloc(1, sizeof *engine);
    inlay_status status;
    bool strict = false;

    *out = NULL;
    if (engine == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for provider openblas");
    for (uint32_t i = 0; i < args->option_count; i++) {
        const inlay_option_value *value = INLAY_AT(inlay_option_value, args->options, args->option_stride, i);
        if (value->s == NULL || value->s[0] == '\0')
            continue;
        if (strcmp(value->name, "library") == 0)
            library = value->s;
        else if (strcmp(value->name, "core") == 0)
            core = value->s;
        else if (strcmp(value->name, "precision") == 0)
            strict = strcmp(value->s, "strict") == 0;
        else if (strcmp(value->name, "isa") == 0)
            isa = value->s;
    }
    status = cpu_limit_isa(isa, diag);
    if (status == INLAY_OK)
        status = blas_engine_open_lazily(host, library, core, engine, diag);
    if (strict && status == INLAY_OK)
        blas_engine_set_strict(engine);
    if (status != INLAY_OK)
        close_blas(engine);
    else
        *out = engine;
    return status;
}

static const kit_provider provider = {
    .name = "openblas",
    .description = "matrix multiplications and convolutions on OpenBLAS, float and double",
    .tables = tables,
    .table_count = KIT_COUNT(tables),
    .options = options,
    .option_count = KIT_COUNT(options),
    .open = open_blas,
    .close = close_blas,
    .flags = INLAY_PROVIDER_REFERENCE_CORE,
};

static const kit_plugin plugin = {
    .name = "openblas",
    .version = INLAY_VERSION,
    .provider = &provider,
};

KIT_PLUGIN_NAMED(plugin, "openblas", "openblas", "")
