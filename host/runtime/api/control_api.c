/* api/control_api.c - inlay.h: requests to open providers: options, memory, suspension. */
#include "api/context.h"
#include "base/memory.h"
#include "base/sized_struct.h"
#include "plugin/plugin.h"
#include "inlay/extensions.h"
#include "inlay/plugin.h"
#include <stdlib.h>
#include <string.h>

/* Parses the new value of an option; *out_values holds it, for the caller to free. */
static inlay_status parse_option(const struct provider *provider, const inlay_control_request *request,
                                 inlay_option_value **out_values, const inlay_option_value **out, inlay_diag *diag)
{
    const inlay_provider *table = provider->table;
    const provider_setting setting = { request->option, request->value };
    inlay_option_value *values;
    inlay_status status;

    *out = NULL;
    *out_values = NULL;
    if (request->option == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_control_request.option is not set");
    values = *out_values = calloc((size_t)table->option_count + 1, sizeof *values);
    if (values == NULL)
        return no_memory(diag, "to change an option");
    status = provider_parse_options(provider->name, table->options, table->option_count, &setting,
                                    request->value != NULL, values, diag);
    for (uint32_t i = 0; status == INLAY_OK && i < table->option_count; i++)
        if (strcmp(values[i].name, request->option) == 0)
            *out = &values[i];
    if (status == INLAY_OK && *out == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "provider %s has no option '%s'", provider->name,
                          request->option);
    return status;
}

inlay_status inlay_session_control(inlay_session *session, inlay_control_request *request, inlay_diag *diag)
{
    inlay_control_request known;
    const struct provider *provider;
    inlay_option_value *values = NULL;
    inlay_control_args args = { .struct_size = sizeof args, .option_bytes = sizeof *values };
    inlay_status status = session_check_process(session, diag);

    if (status != INLAY_OK)
        return status;
    sized_struct_read(&known, sizeof known, request, request->struct_size);
    args.action = known.action;
    if (known.action < INLAY_CONTROL_SET_OPTION || known.action > INLAY_CONTROL_RESUME)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_control_request.action is %u, which is unknown",
                          known.action);
    if (known.reserved != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_control_request.reserved is not 0");
    INLAY_TRY(session_device(session, known.provider, &provider, diag));
    if (known.action == INLAY_CONTROL_SET_OPTION)
        INLAY_TRY(parse_option(provider, &known, &values, &args.option, diag));
    if (known.action == INLAY_CONTROL_TRIM)
        args.bytes = known.bytes;
    INLAY_TRY(provider_control(provider, &args, diag));
    if (INLAY_HAS(request, freed_bytes))
        request->freed_bytes = args.freed_bytes;
done:
    free(values);
    return status;
}
