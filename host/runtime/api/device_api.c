/* api/device_api.c - inlay.h: devices, and values on them. */
#include "api/context.h"
#include "base/sized_struct.h"
#include "session/search.h"
#include "inlay/plugin.h"
#include <string.h>

typedef struct device_list {
    inlay_device_fn device;
    void *user;
    const plugin_provider *provider;
} device_list;

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

static inlay_status show_device(void *user, const inlay_device_info *info)
{
    const device_list *list = user;
    char setting[128] = "";
    const inlay_device shown = { .struct_size = sizeof shown,
                                 .provider = list->provider->table->name,
                                 .name = or_empty(info->name),
                                 .setting = setting,
                                 .value = or_empty(info->value),
                                 .unusable = or_empty(info->unusable),
                                 .facts = or_empty(info->facts),
                                 .memory_bytes = info->memory_bytes,
                                 .free_bytes = info->free_bytes,
                                 .kind = info->kind,
                                 .unified = (info->flags & INLAY_DEVICE_UNIFIED) != 0 };

    if (info->option != NULL)
        (void)snprintf(setting, sizeof setting, "%s.%s", list->provider->table->name, info->option);
    list->device(list->user, &shown);
    return INLAY_OK;
}

inlay_status inlay_device_list(const inlay_options *options, inlay_device_fn device, void *user, inlay_diag *diag)
{
    config_search search;
    plugin_set *set = NULL;
    inlay_status status;

    config_search_init(&search, options, NULL, NULL);
    status = plugin_set_search_listed(&search.search, search.list, &set, diag);
    for (uint32_t i = 0; status == INLAY_OK && i < plugin_set_provider_count(set); i++) {
        device_list list = { device, user, plugin_set_provider(set, i) };
        inlay_diag why = INLAY_DIAG_INIT;

        if (plugin_devices(list.provider, show_device, &list, &why) != INLAY_OK)
            (void)show_device(&list,
                              &(inlay_device_info){ .unusable = why.text, .kind = list.provider->table->device_kind });
    }
    plugin_set_destroy(set);
    return status;
}

inlay_status session_device(const inlay_session *session, const char *name, const struct provider **out,
                            inlay_diag *diag)
{
    INLAY_CHECK(session_check(session));
    for (uint32_t i = 0; name != NULL && i < session->env.provider_count; i++)
        if (strcmp(session->providers[i].name, name) == 0) {
            *out = session->open[i];
            return INLAY_OK;
        }
    return inlay_fail(diag, INLAY_NOT_FOUND, "the session has no provider '%s'; see inlay_session_provider()",
                      or_empty(name));
}

inlay_status inlay_session_value_create_on(inlay_session *session, const char *provider_name, inlay_dtype dtype,
                                           uint32_t rank, const int64_t *dims, inlay_value **out_value,
                                           inlay_diag *diag)
{
    const struct provider *provider;
    inlay_status status = session_device(session, provider_name, &provider, diag);

    *out_value = NULL;
    if (status == INLAY_OK)
        status = provider_begin_use(provider, diag);
    if (status != INLAY_OK)
        return status;
    status = value_create_on(provider, session->env.runs.priority, dtype, rank, dims, out_value, diag);
    provider_end_use(provider);
    return status;
}

inlay_status inlay_session_value_wrap(inlay_session *session, const char *provider_name,
                                      const inlay_native_memory *memory, inlay_dtype dtype, uint32_t rank,
                                      const int64_t *dims, inlay_value **out_value, inlay_diag *diag)
{
    const struct provider *provider;
    inlay_status status = session_device(session, provider_name, &provider, diag);

    *out_value = NULL;
    if (status == INLAY_OK)
        status = provider_begin_use(provider, diag);
    if (status != INLAY_OK)
        return status;
    status = value_wrap_on(provider, memory, dtype, rank, dims, NULL, NULL, out_value, diag);
    provider_end_use(provider);
    return status;
}
