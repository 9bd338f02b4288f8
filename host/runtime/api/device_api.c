/* api/device_api.c - inlay.h: devices, and values on them. */
#include "api/context.h"
#include "base/known.h"
#include "session/search.h"
#include "threads/fence.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ------------------------------------------------------------------ devices */

typedef struct device_list {
    inlay_device_fn device;
    void *user;
    const plugin_provider *provider;
} device_list;

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

static inlay_status show_device(void *user, const inlay_device_info *d)
{
    const device_list *l = user;
    char setting[128] = "";
    const inlay_device shown = { .struct_size = sizeof shown,
                                 .provider = l->provider->table.name,
                                 .name = or_empty(d->name),
                                 .setting = setting,
                                 .value = or_empty(d->value),
                                 .unusable = or_empty(d->unusable),
                                 .facts = or_empty(d->facts),
                                 .memory_bytes = d->memory_bytes,
                                 .free_bytes = d->free_bytes,
                                 .kind = d->kind,
                                 .unified = (d->flags & INLAY_DEVICE_UNIFIED) != 0 };

    if (d->option != NULL)
        (void)snprintf(setting, sizeof setting, "%s.%s", l->provider->table.name, d->option);
    l->device(l->user, &shown);
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
        device_list l = { device, user, plugin_set_provider(set, i) };
        inlay_diag why = INLAY_DIAG_INIT;

        if (plugin_devices(l.provider, show_device, &l, &why) != INLAY_OK)
            (void)show_device(&l, &(inlay_device_info){ .unusable = why.text, .kind = l.provider->table.device_kind });
    }
    plugin_set_destroy(set);
    return status;
}

/* ------------------------------------------------------------------ values */

inlay_status session_device(const inlay_session *session, const char *name, const struct provider **out,
                            inlay_diag *diag)
{
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
    const struct provider *p;
    inlay_status status = session_device(session, provider_name, &p, diag);

    *out_value = NULL;
    return status == INLAY_OK ? value_create_on(p, dtype, rank, dims, out_value, diag) : status;
}

inlay_status inlay_session_value_wrap(inlay_session *session, const char *provider_name,
                                      const inlay_native_memory *memory, inlay_dtype dtype, uint32_t rank,
                                      const int64_t *dims, inlay_value **out_value, inlay_diag *diag)
{
    const struct provider *p;
    inlay_status status = session_device(session, provider_name, &p, diag);

    *out_value = NULL;
    return status == INLAY_OK ? value_wrap_on(p, memory, dtype, rank, dims, NULL, NULL, out_value, diag) : status;
}
