#include "serve/model/shares.h"
#include "base/strbuf.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void collect(void *user, const char *text, size_t bytes)
{
    strbuf_add(user, text, bytes);
}

provider_share *shares_read(const inlay_session *session, uint32_t *out_count)
{
    const inlay_explain_options options = { .struct_size = sizeof options, .format = "json" };
    struct strbuf text = { .data = NULL };
    json_t *root = NULL, *list, *item;
    provider_share *shares = NULL;
    uint32_t count = 0;
    double whole = 0;
    size_t i;

    if (inlay_session_explain(session, &options, collect, &text, NULL) == INLAY_OK && !text.failed)
        root = json_loadb(text.data, text.size, 0, NULL);
    strbuf_deinit(&text);
    list = json_object_get(root, "providers");
    json_array_foreach(list, i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        json_int_t nodes = json_integer_value(json_object_get(item, "nodes"));

        if (name == NULL || nodes <= 0)
            continue;
        if (!LIST_GROW(shares, count)) {
            count = 0;
            break;
        }
        shares[count] =
            (provider_share){ .nodes = (uint32_t)nodes, .part = json_number_value(json_object_get(item, "cost_ns")) };
        (void)snprintf(shares[count].name, sizeof shares[count].name, "%s", name);
        whole += shares[count++].part;
    }
    for (uint32_t k = 0; k < count; k++)
        shares[k].part = whole > 0 ? shares[k].part / whole : 0;
    json_decref(root);
    if (count == 0) {
        free(shares);
        shares = NULL;
    }
    *out_count = count;
    return shares;
}

static const char for_all[] = "quarantined: ", for_one[] = "quarantined for this model: ";

bool shares_next_lost(const inlay_session *session, uint32_t *index, inlay_session_provider_info *out_info)
{
    *out_info = (inlay_session_provider_info){ .struct_size = sizeof *out_info };
    while (inlay_session_provider(session, (*index)++, out_info) == INLAY_OK)
        if (out_info->skipped != NULL && (strncmp(out_info->skipped, for_all, sizeof for_all - 1) == 0 ||
                                          strncmp(out_info->skipped, for_one, sizeof for_one - 1) == 0))
            return true;
    return false;
}

char *shares_lost(const inlay_session *session, bool *out_for_all)
{
    inlay_session_provider_info info;
    struct strbuf text = { .data = NULL };
    uint32_t index = 0;

    *out_for_all = false;
    while (shares_next_lost(session, &index, &info)) {
        *out_for_all |= strncmp(info.skipped, for_all, sizeof for_all - 1) == 0;
        strbuf_format(&text, "%sit runs without provider '%.64s', %.500s", text.size > 0 ? "; " : "", info.name,
                      info.skipped);
    }
    if (text.failed)
        strbuf_deinit(&text);
    return text.data;
}
