/* A plugin that defines operators of a separate domain in versions that do not start at 1, without a provider. */
#include "inlay/plugin.h"

#define LATE(version)                                                                                                  \
    {                                                                                                                  \
        .struct_size = sizeof(inlay_operator), .domain = "org.example.late", .op_type = "Late",                        \
        .signature = "X:T -> Y:T; T=float", .since_version = version                                                   \
    }

inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    static const inlay_operator operators[] = { LATE(2), LATE(5) };
    static const inlay_plugin plugin = { .struct_size = sizeof plugin,
                                         .abi_major = INLAY_ABI_MAJOR,
                                         .abi_minor = INLAY_ABI_MINOR,
                                         .name = "versions",
                                         .version = "1.0",
                                         .build_id = "v",
                                         .operators = operators,
                                         .operator_count = 2,
                                         .operator_stride = sizeof operators[0] };

    (void)host, (void)diag;
    *out_plugin = &plugin;
    return INLAY_OK;
}
