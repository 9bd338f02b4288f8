/* api/about_api.c - inlay.h: information about the model and the providers of a session. */
#include "base/sized_struct.h"
#include "session/session.h"
#include "inlay/plugin.h"

static const char *known_text(const char *text)
{
    return text != NULL ? text : "";
}

inlay_status inlay_session_model(const inlay_session *session, inlay_model_info *out_info)
{
    const graph_model *model = session->model;
    const inlay_model_info info = { .producer_name = known_text(model->about.producer_name),
                                    .producer_version = known_text(model->about.producer_version),
                                    .domain = known_text(model->about.domain),
                                    .graph_name = known_text(model->main->name),
                                    .doc = known_text(model->about.doc),
                                    .model_version = model->about.version,
                                    .ir_version = model->ir_version,
                                    .metadata_count = model->metadata_count };

    INLAY_CHECK(session_check(session));
    return sized_struct_write(out_info, &info, sizeof info) ? INLAY_OK : INLAY_INVALID_ARGUMENT;
}

inlay_status inlay_session_metadata(const inlay_session *session, uint32_t index, const char **out_key,
                                    const char **out_value)
{
    const graph_model *model = session->model;

    *out_key = *out_value = NULL;
    if (index >= model->metadata_count)
        return INLAY_NOT_FOUND;
    *out_key = known_text(model->metadata[index].key);
    *out_value = known_text(model->metadata[index].value);
    return INLAY_OK;
}

inlay_status inlay_session_provider(const inlay_session *session, uint32_t index, inlay_session_provider_info *out_info)
{
    inlay_session_provider_info info = { .plugin_path = "", .plugin_version = "" };
    const session_skipped *skipped = session->skipped;

    if (index < session->env.provider_count) {
        const partition_provider *provider = &session->providers[index];
        const inlay_device_info *device = session->open[index]->device;

        info.name = provider->name;
        info.plugin_path = known_text(provider->plugin_path);
        info.plugin_version = known_text(provider->plugin_version);
        info.device = device->name;
        info.device_facts = device->facts;
        info.device_kind = device->kind;
        return sized_struct_write(out_info, &info, sizeof info) ? INLAY_OK : INLAY_INVALID_ARGUMENT;
    }
    for (index -= session->env.provider_count; skipped != NULL && index > 0; index--)
        skipped = skipped->next;
    if (skipped == NULL)
        return INLAY_NOT_FOUND;
    info.name = skipped->name;
    info.skipped = skipped->reason;
    return sized_struct_write(out_info, &info, sizeof info) ? INLAY_OK : INLAY_INVALID_ARGUMENT;
}
