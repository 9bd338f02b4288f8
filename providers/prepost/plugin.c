/* plugin.c - the plugin prepost: preprocessing and postprocessing as operators of the graph. */
#define INLAY_NOTE_VERSION INLAY_VERSION
#include "prepost/prepost.h"
#include "inlay/kit.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include <stdlib.h>

#define OPERATOR(name) &prepost_##name,
static const prepost_operator *const all[] = {
#include "prepost/operators.def"
};
#undef OPERATOR
enum { ALL = sizeof all / sizeof all[0], MOST = 2 * ALL };

/* Filled in by inlay_plugin_open, with the same contents each time; only one thread calls it at a time. */
static inlay_operator operators[MOST];
static kit_kernel kernels[MOST];
static kit_table table = { kernels, 0 };
static const kit_table *const tables[] = { &table };

static const inlay_option options[] = { { .name = "max_pixels",
                                          .doc = "limit: pixels (width times height) of an image to decode",
                                          .default_value = "100000000",
                                          .min = 1,
                                          .max = INT64_C(4290250000),
                                          .kind = INLAY_OPTION_INT } };

static inlay_status open_provider(const inlay_host *host, const inlay_create_args *args, void **out, inlay_diag *diag)
{
    prepost_settings *settings = malloc(sizeof *settings);

    (void)host;
    if (settings == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to open the provider");
    settings->max_pixels = 100000000;
    for (uint32_t i = 0; i < args->option_count; i++) {
        const inlay_option_value *value = INLAY_AT(inlay_option_value, args->options, args->option_stride, i);

        if (strcmp(value->name, options[0].name) == 0)
            settings->max_pixels = value->i;
    }
    *out = settings;
    return INLAY_OK;
}

static const kit_provider provider = { .name = "prepost",
                                       .description =
                                           "preprocessing and postprocessing of images, audio, text and boxes",
                                       .tables = tables,
                                       .table_count = KIT_COUNT(tables),
                                       .options = options,
                                       .option_count = KIT_COUNT(options),
                                       .open = open_provider,
                                       .close = free };

static kit_plugin prepost = {
    .name = "prepost", .version = INLAY_VERSION, .provider = &provider, .operators = operators
};

static void add(const prepost_operator *operator, const char * domain)
{
    const uint32_t i = table.count++;

    INLAY_CHECK(i < MOST);
    operators[i] = (inlay_operator){ .struct_size = sizeof operators[i],
                                     .domain = domain,
                                     .op_type = operator->op_type,
                                     .signature = operator->signature,
                                     .doc = operator->doc,
                                     .since_version = 1,
                                     .infer = operator->infer,
                                     .examples = operator->examples,
                                     .example_count = operator->example_count,
                                     .example_stride = sizeof operator->examples[0] };
    kernels[i] = operator->kernel;
    kernels[i].domain = domain;
    kernels[i].op_type = operator->op_type;
    kernels[i].since_max = 1;
}

INLAY_PLUGIN_NOTE("prepost", "prepost", PREPOST_DOMAIN " " PREPOST_CONTRIB " " PREPOST_EXTENSIONS)
inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    static kit_exports exports;

    table.count = 0;
    for (int i = 0; i < ALL; i++) {
        add(all[i], all[i]->extensions ? PREPOST_CONTRIB : PREPOST_DOMAIN);
        if (all[i]->extensions)
            add(all[i], PREPOST_EXTENSIONS);
    }
    prepost.operator_count = table.count;
    return kit_open(&prepost, &exports, host, out_plugin, diag);
}
