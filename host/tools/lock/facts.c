/* The members of a record that say where and how a model runs: origin, settings, placement, memory. */
#include "lock/lock.h"
#include "base/among.h"
#include "base/sha256.h"
#include "base/strbuf.h"
#include "config/options.h"
#include "partition/cost/cost_profile.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static inlay_status hash_file(const char *path, char text[65], inlay_diag *diag)
{
    FILE *file = fopen(path, "rbe");
    char *block = malloc(1 << 20);
    struct sha256 sha256;
    size_t bytes;
    inlay_status status = INLAY_OK;

    sha256_init(&sha256);
    if (block == NULL)
        status = no_memory(diag, "to read %s", path);
    while (status == INLAY_OK && file != NULL && (bytes = fread(block, 1, 1 << 20, file)) > 0)
        sha256_update(&sha256, block, bytes);
    if (status == INLAY_OK && (file == NULL || ferror(file)))
        status = inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(errno));
    sha256_hex(&sha256, text);
    free(block);
    if (file != NULL)
        (void)fclose(file);
    return status;
}

static void *run_hash(void *user)
{
    file_hash *hash = user;

    hash->status = hash_file(hash->path, hash->sha256, &hash->diag);
    return NULL;
}

void file_hash_begin(file_hash *hash, const char *path)
{
    *hash = (file_hash){ .path = path, .diag = INLAY_DIAG_INIT };
    hash->is_running = pthread_create(&hash->thread, NULL, run_hash, hash) == 0;
    if (!hash->is_running)
        (void)run_hash(hash);
}

inlay_status file_hash_end(file_hash *hash, inlay_diag *diag)
{
    if (hash->is_running)
        (void)pthread_join(hash->thread, NULL);
    hash->is_running = false;
    if (hash->status != INLAY_OK)
        return inlay_fail(diag, hash->status, "%s", hash->diag.text);
    return INLAY_OK;
}

inlay_status lock_origin(file_hash *model, json_t **out, inlay_diag *diag)
{
    const inlay_status status = file_hash_end(model, diag);
    char cpu[160];

    *out = NULL;
    if (status != INLAY_OK)
        return status;
    profile_cpu(cpu, sizeof cpu);
    *out = json_pack("{s:s, s:s, s:s}", "sha256", model->sha256, "inlay", inlay_version(), "cpu", cpu);
    return *out != NULL ? INLAY_OK : no_memory(diag, "for a record");
}

bool lock_is_local(const char *name)
{
    inlay_option_doc doc = { .struct_size = sizeof doc };

    if (is_among(name, "probe probe_timeout_ms crash_report cache_max_bytes"))
        return true;
    for (uint32_t i = 0; inlay_options_describe(i, &doc) == INLAY_OK; i++)
        if (strcmp(name, doc.name) == 0)
            return doc.kind == INLAY_SETTING_PATH || doc.kind == INLAY_SETTING_PATHS;
    return false;
}

json_t *lock_settings(const inlay_options *options)
{
    inlay_setting item = { .struct_size = sizeof item };
    json_t *list = json_array();

    for (uint32_t i = 0; inlay_options_setting(options, i, &item) == INLAY_OK; i++)
        if (item.source != INLAY_SOURCE_DEFAULT && item.text[0] != '\0' && !lock_is_local(item.name))
            (void)json_array_append_new(list, json_sprintf("%s=%s", item.name, item.text));
    return list;
}

inlay_status lock_apply_settings(const json_t *settings, inlay_options *options, inlay_diag *diag)
{
    inlay_setting item = { .struct_size = sizeof item };
    json_t *given = json_object(), *entry;
    char name[128];
    size_t i;
    inlay_status status = INLAY_OK;

    for (uint32_t k = 0; inlay_options_setting(options, k, &item) == INLAY_OK; k++)
        if (item.source != INLAY_SOURCE_DEFAULT)
            (void)json_object_set_new(given, item.name, json_true());
    json_array_foreach(settings, i, entry) {
        const char *text = json_string_value(entry), *equals = text != NULL ? strchr(text, '=') : NULL;

        if (equals == NULL || (size_t)(equals - text) >= sizeof name) {
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "settings of the record: expected NAME=VALUE");
            goto done;
        }
        (void)snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
        if (lock_is_local(name)) { /* such as plugin_dirs: a file that others wrote must not choose what is loaded */
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                                "settings of the record: %s is a setting of a machine, which records do not have; "
                                "remove it",
                                name);
            goto done;
        }
        if (json_object_get(given, name) == NULL)
            INLAY_TRY(options_set_item(options, name, equals + 1, diag));
    }
done:
    json_decref(given);
    return status;
}

/* "" for the main graph, so that its nodes keep their names; otherwise "PATH: ". */
static const char *prefix_of(const json_t *graph, char *text, size_t bytes)
{
    const char *path = json_string_value(json_object_get(graph, "path"));

    text[0] = '\0';
    if (path != NULL && strcmp(path, "main") != 0)
        (void)snprintf(text, bytes, "%s: ", path);
    return text;
}

/* {"provider", "operators", "nodes": {name: kernel}}; the kernel is null if its provider reports none. */
static json_t *region_json(const json_t *graph, const json_t *region)
{
    const json_t *nodes = json_object_get(graph, "nodes");
    json_t *names = json_object(), *operators = json_object(), *index;
    char prefix[256], name[512];
    size_t i;

    json_array_foreach(json_object_get(region, "nodes"), i, index) {
        const json_t *node = json_array_get(nodes, (size_t)json_integer_value(index));
        const char *op = json_string_value(json_object_get(node, "op"));
        json_t *kernel = json_object_get(json_object_get(node, "kernel"), "name");

        (void)snprintf(name, sizeof name, "%s%s", prefix_of(graph, prefix, sizeof prefix),
                       json_string_value(json_object_get(node, "name")));
        (void)json_object_set_new(names, name, kernel != NULL ? json_incref(kernel) : json_null());
        if (op != NULL)
            (void)json_object_set_new(operators, op,
                                      json_integer(json_integer_value(json_object_get(operators, op)) + 1));
    }
    return json_pack("{s:O, s:o, s:o}", "provider", json_object_get(region, "provider"), "operators", operators,
                     "nodes", names);
}

static void add_regions(const json_t *graph, json_t *list)
{
    json_t *region, *body;
    const char *name;
    size_t i;

    json_array_foreach(json_object_get(graph, "regions"), i, region) {
        (void)json_array_append_new(list, region_json(graph, region));
        json_object_foreach(json_object_get(region, "bodies"), name, body)
            add_regions(body, list);
    }
}

inlay_status lock_placement(const inlay_session *session, const inlay_context *context, json_t *record,
                            json_t **out_explanation, inlay_diag *diag)
{
    const inlay_explain_options options = { .struct_size = sizeof options,
                                            .format = "json",
                                            .flags = INLAY_EXPLAIN_KERNELS };
    inlay_plan_info plan = { .struct_size = sizeof plan };
    struct strbuf text = { 0 };
    json_t *providers = json_object(), *regions = json_array(), *provider;
    size_t i;
    inlay_status status;

    *out_explanation = NULL;
    INLAY_TRY(inlay_session_explain(session, &options, strbuf_write, &text, diag));
    *out_explanation = text.failed ? NULL : json_loadb(text.data, text.size, 0, NULL);
    if (*out_explanation == NULL) {
        status = no_memory(diag, "for the explanation");
        goto done;
    }
    json_array_foreach(json_object_get(*out_explanation, "providers"), i, provider)
        if (json_is_string(json_object_get(provider, "version")))
            (void)json_object_set(providers, json_string_value(json_object_get(provider, "name")),
                                  json_object_get(provider, "version"));
    add_regions(json_object_get(*out_explanation, "main"), regions);
    (void)json_object_set(record, "providers", providers);
    (void)json_object_set(record, "regions", regions);
    INLAY_TRY(inlay_context_plan(context, &plan));
    (void)json_object_set_new(record, "memory",
                              json_pack("{s:I, s:I}", "planned_bytes", (json_int_t)plan.slab_bytes, "constant_bytes",
                                        (json_int_t)plan.constant_bytes));
done:
    strbuf_deinit(&text);
    json_decref(providers);
    json_decref(regions);
    return status;
}
