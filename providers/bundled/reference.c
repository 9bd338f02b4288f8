#include "bundled.h"
#include "simd/cpu.h"
#include "gemm/set.h"
#include "reference.h"
#include <stdlib.h>

static inlay_status open_reference(const inlay_host *host, const inlay_create_args *args, void **out, inlay_diag *diag)
{
    reference_settings *settings = calloc(1, sizeof *settings);

    (void)host;
    *out = settings;
    if (settings == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the settings of provider reference");
    reference_read_options(settings, args);
    return INLAY_OK;
}

const inlay_provider *bundled_reference(const inlay_host *host, const kit_table *const *tables, uint32_t count)
{
    static kit_provider provider = { .name = "reference", .description = "", .open = open_reference, .close = free };
    static kit_plugin plugin = { .name = "reference", .version = "0.1.0", .provider = &provider };
    static kit_exports exports;
    const inlay_plugin *opened;

    provider.tables = tables;
    provider.table_count = count;
    return kit_open(&plugin, &exports, host, &opened, NULL) == INLAY_OK ? &exports.provider : NULL;
}
