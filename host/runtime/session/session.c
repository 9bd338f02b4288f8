#include "session/session.h"
#include "base/among.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/memory.h"
#include "base/parts.h"
#include "config/checks.h"
#include "config/dirs.h"
#include "base/boundary.h"
#include "partition/cost/cost_key.h"
#include "plugin/crash.h"
#include "session/hash_memo.h"
#include "session/insight.h"
#include "session/search.h"
#include "session/trim.h"
#include "session/versions.h"
#include "threads/threads.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/statvfs.h>
#include <unistd.h>

static inlay_status compile_progress(void *ctx, const char *what, uint32_t steps)
{
    inlay_session *session = ctx;

    if (session->progress.report == NULL)
        return INLAY_OK;
    session->progress.done += session->progress.step * steps;
    return session_report(session, session->progress.done < 1 ? session->progress.done : 1, what, NULL);
}

static void log_line(void *ctx, uint32_t level, const char *text)
{
    const inlay_session *session = ctx;

    if (session->log.write != NULL)
        session->log.write(session->log.user, level, text);
}

static const inlay_option *find_option(const inlay_session *session, const char *name, const char *option)
{
    const plugin_provider *provider = plugin_set_find(session->plugins, name);

    for (uint32_t i = 0; provider != NULL && i < provider->table->option_count; i++)
        if (strcmp(provider->options[i].name, option) == 0)
            return &provider->options[i];
    return NULL;
}

/* Does the setting of the session apply to the provider? It does if the provider has an option of that name. Precision
 * "fast" is only a permission: a provider without that choice uses its default. */
static bool takes_setting(const inlay_session *session, const char *name, const char *option, const char *value)
{
    const inlay_option *found = find_option(session, name, option);

    return found != NULL && (strcmp(option, "precision") != 0 || is_choice(value, found->choices));
}

/* The settings of one provider: applicable settings of the session, then "NAME.option" settings without the prefix.
 * *out_own is the number of "NAME.option" settings. */
static provider_setting *settings_of(inlay_session *session, const inlay_options *options, const char *name,
                                     uint32_t *out_count, uint32_t *out_own)
{
    uint32_t total = options == NULL ? 0 : options->setting_count;
    const struct {
        const char *option, *value, *otherwise;
    } shared[] = { { "precision", options == NULL ? "f32" : options_text(options, OPTION_precision), "f32" },
                   { "reproducible", options == NULL ? "0" : options_text(options, OPTION_reproducible), "0" },
                   { "isa", options == NULL ? "auto" : options_text(options, OPTION_isa), "auto" } };
    provider_setting *list =
        arena_array(&session->arena, (size_t)total + 1 + sizeof shared / sizeof shared[0], sizeof *list);
    size_t bytes = strlen(name);

    *out_count = *out_own = 0;
    /* Settings of the session are first, so that settings of the provider override them. */
    for (uint32_t i = 0; list != NULL && i < sizeof shared / sizeof shared[0]; i++)
        if (strcmp(shared[i].value, shared[i].otherwise) != 0 &&
            takes_setting(session, name, shared[i].option, shared[i].value))
            list[(*out_count)++] =
                (provider_setting){ shared[i].option, arena_string(&session->arena, shared[i].value) };
    for (uint32_t i = 0; list != NULL && i < total; i++) {
        const provider_setting *setting = &options->settings[i];
        if (strncmp(setting->name, name, bytes) == 0 && setting->name[bytes] == '.') {
            list[(*out_count)++] = (provider_setting){ arena_string(&session->arena, setting->name + bytes + 1),
                                                       arena_string(&session->arena, setting->value) };
            (*out_own)++;
        }
    }
    for (uint32_t i = 0; list != NULL && i < *out_count; i++)
        if (list[i].name == NULL || list[i].value == NULL)
            return NULL;
    return list;
}

/* Records a skipped provider for explanations. */
static bool add_skipped(inlay_session *session, const char *name, const char *reason)
{
    session_skipped *skipped = arena_alloc(&session->arena, sizeof *skipped);

    if (skipped == NULL)
        return false;
    *skipped = (session_skipped){ session->skipped, arena_string(&session->arena, name),
                                  arena_string(&session->arena, reason) };
    session->skipped = skipped;
    return skipped->name != NULL && skipped->reason != NULL;
}

/* With reproducible=cpu: whether the provider computes the same bits on every CPU. Providers state it by an option of
 * this name that has this choice. */
static bool is_uniform(const inlay_session *session, const char *name)
{
    const inlay_option *option = find_option(session, name, "reproducible");

    return option != NULL && option->kind == INLAY_OPTION_ENUM && is_choice("cpu", option->choices);
}

/* A hash that does not depend on the order of the settings; 0 without settings. */
static uint64_t hash_settings(const provider_setting *settings, uint32_t count)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < count; i++)
        sum += hash_bytes(settings[i].value, strlen(settings[i].value),
                          hash_bytes(settings[i].name, strlen(settings[i].name), 1));
    return sum;
}

/* Does the provider's driver emulate a device on the CPU? Such a provider is slower than any provider for the CPU. */
static bool is_emulated(const struct provider *provider)
{
    return provider->device->kind == INLAY_DEVICE_CPU && provider->table->device_kind != INLAY_DEVICE_CPU;
}

/* listed: the user named the provider. optional: if it cannot be opened, it is skipped. */
static inlay_status open_provider(inlay_session *session, const inlay_options *options, const char *name, bool listed,
                                  bool optional, inlay_diag *diag)
{
    uint32_t count, own;
    provider_setting *settings = settings_of(session, options, name, &count, &own);
    const struct provider *provider = NULL;
    const plugin_provider *info;
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status;
    char line[700], folder[PATH_MAX];

    if (settings == NULL)
        return no_memory(diag, "for provider %s", name);
    for (uint32_t i = 0; i < session->env.provider_count; i++)
        if (strcmp(session->providers[i].name, name) == 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "option providers: '%s' is listed twice; two devices of one "
                              "kind are '%s' and '%s#2', each with its own options",
                              name, name, name);
    info = plugin_set_find(session->plugins, name);
    if (info != NULL && info->table->domain_count > 0 && plugin_set_cache_dir(session->plugins) == NULL &&
        config_cache_folder(options, "devices", folder, sizeof folder))
        plugin_set_cache(session->plugins, folder);
    if (info != NULL && strcmp(options_text(options, OPTION_reproducible), "cpu") == 0 && !is_uniform(session, name))
        status = inlay_fail(&why, INLAY_UNSUPPORTED,
                            "its results are not the same on every CPU, as option reproducible=cpu requires");
    else
        status = provider_open(session->plugins, name, settings, count, &provider, &why);
    /* If the provider exists and has settings of its own, these may be wrong, so the failure is reported even if the
     * provider is optional. The settings of the session were checked with the options. */
    if (status != INLAY_OK && optional && status != INLAY_OUT_OF_MEMORY &&
        (own == 0 || plugin_set_find(session->plugins, name) == NULL)) {
        (void)snprintf(line, sizeof line, "provider %s is not used: %s", name, why.text);
        log_line(session, INLAY_LOG_INFO, line);
        if (!add_skipped(session, name, why.text))
            return no_memory(diag, "for provider %s", name);
        return INLAY_OK;
    }
    if (status != INLAY_OK) {
        const boundary_call call = { info != NULL ? name : NULL, info != NULL ? info->file->name : NULL };

        return forward_plugin_error(&call, status, &why, diag);
    }
    session->open[session->env.provider_count] = provider;
    session->providers[session->env.provider_count] =
        (partition_provider){ .table = provider->table,
                              .state = provider->state,
                              .name = provider->name,
                              .plugin_path = provider->path,
                              .plugin_version = provider->version,
                              .build_id = provider->build_id,
                              .settings = settings,
                              .setting_count = count,
                              .settings_hash = hash_settings(settings, count),
                              .first_domain = provider->first_domain,
                              .place = session->env.provider_count,
                              .abi_minor = provider->abi_minor,
                              .unnamed = !listed && own == 0 && is_emulated(provider) };
    session->providers[session->env.provider_count].identity =
        cost_identity_of(&session->providers[session->env.provider_count]);
    session->env.provider_count++;
    return INLAY_OK;
}

/* The default order of providers: inlay's own for the CPU, so that an added plugin never wins a tie against them and
 * changes a model only where its prices are clearly lower; all others in the order in which their plugins were loaded;
 * the reference provider, because it supports everything. Those that are not listed share one place of preference
 * (partition_provider.place), so that an added plugin does not change the margins between the others. */
static const char *const first_providers[] = { "cpu", "onednn", "openblas" };
enum { FIRST_PROVIDERS = sizeof first_providers / sizeof first_providers[0] };

static uint32_t default_place(const char *name)
{
    uint32_t place = 0;

    while (place < FIRST_PROVIDERS && strcmp(name, first_providers[place]) != 0)
        place++;
    return place;
}

/* Without a list: opens all providers that can be opened, in the default order. */
static inlay_status open_all(inlay_session *session, const inlay_options *options, inlay_diag *diag)
{
    uint32_t count = plugin_set_provider_count(session->plugins);

    for (uint32_t turn = 0; turn <= FIRST_PROVIDERS + 1; turn++) {
        for (uint32_t i = 0; i < count; i++) {
            const char *name = plugin_set_provider(session->plugins, i)->table->name;
            const uint32_t opened = session->env.provider_count, place = default_place(name);
            inlay_status status;

            if (place + (strcmp(name, "reference") == 0) != turn)
                continue;
            status = open_provider(session, options, name, false, true, diag);
            if (status != INLAY_OK)
                return status;
            if (session->env.provider_count > opened)
                session->providers[opened].place = place;
        }
    }
    return INLAY_OK;
}

static inlay_status open_listed(inlay_session *session, const inlay_options *options, const char *list,
                                inlay_diag *diag)
{
    char *copy = arena_string(&session->arena, list), *next = NULL;

    if (copy == NULL)
        return no_memory(diag, "for the list of providers");
    for (char *name = strtok_r(copy, ", ", &next); name != NULL; name = strtok_r(NULL, ", ", &next)) {
        size_t bytes = strlen(name);
        bool optional = name[bytes - 1] == '?';
        inlay_status status;

        if (optional)
            name[bytes - 1] = '\0';
        status = open_provider(session, options, name, true, optional, diag);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

/* The first provider in use that has an option of this name, or NULL. */
static const char *provider_with_option(const inlay_session *session, const char *option)
{
    for (uint32_t k = 0; k < session->env.provider_count; k++) {
        const plugin_provider *provider = plugin_set_find(session->plugins, session->providers[k].name);

        for (uint32_t i = 0; provider != NULL && i < provider->table->option_count; i++)
            if (strcmp(INLAY_AT(inlay_option, provider->table->options, provider->table->option_stride, i)->name,
                       option) == 0)
                return session->providers[k].name;
    }
    return NULL;
}

/* Fails for a setting of a provider that is not in use, which would be ignored silently. Exception: if a source of
 * higher precedence, such as the command line, chose the providers, settings of a file may refer to providers that are
 * not in use. */
static inlay_status check_settings(const inlay_session *session, const inlay_options *options, inlay_diag *diag)
{
    uint32_t source = options != NULL ? options_source(options, OPTION_providers) : (uint32_t)INLAY_SOURCE_DEFAULT;

    for (uint32_t i = 0; options != NULL && i < options->setting_count; i++) {
        const char *name = options->settings[i].name;
        size_t bytes = (size_t)(strchr(name, '.') - name);
        bool known = options->setting_marks[i].source < source;

        for (uint32_t k = 0; !known && k < session->env.provider_count; k++)
            known =
                strlen(session->providers[k].name) == bytes && strncmp(session->providers[k].name, name, bytes) == 0;
        for (const session_skipped *skipped = session->skipped; !known && skipped != NULL;
             skipped = skipped->next) /* optional and missing */
            known = strlen(skipped->name) == bytes && strncmp(skipped->name, name, bytes) == 0;
        if (!known) {
            const char *option = name + bytes + 1, *other = provider_with_option(session, option);

            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option %s: provider %.*s is not in use%s%s%s%s", name,
                              (int)bytes, name, other != NULL ? "; did you mean " : "", other != NULL ? other : "",
                              other != NULL ? "." : "", other != NULL ? option : "");
        }
    }
    return INLAY_OK;
}

static inlay_status open_providers(inlay_session *session, const inlay_options *options, inlay_diag *diag)
{
    const char *list = options_text(options, OPTION_providers);
    size_t capacity = plugin_set_provider_count(session->plugins) + 2;
    inlay_status status;

    for (const char *at = list; *at != '\0'; at++) /* a provider may be opened several times under different names */
        capacity += *at == ',' || *at == ' ';

    session->open = arena_array(&session->arena, capacity, sizeof *session->open);
    session->providers = arena_array(&session->arena, capacity, sizeof *session->providers);
    session->env.memory.device_bytes = arena_array(&session->arena, capacity, sizeof *session->env.memory.device_bytes);
    session->env.memory.resident_bytes =
        arena_array(&session->arena, capacity, sizeof *session->env.memory.resident_bytes);
    if (session->open == NULL || session->providers == NULL || session->env.memory.device_bytes == NULL ||
        session->env.memory.resident_bytes == NULL)
        return no_memory(diag, "for providers");
    session->env.providers = session->providers;
    status = list[0] != '\0' ? open_listed(session, options, list, diag) : open_all(session, options, diag);
    INLAY_CHECK(session->env.provider_count <= capacity);
    return status == INLAY_OK ? check_settings(session, options, diag) : status;
}

/* Does the file name an axis of an input so? Inference makes up the names of other symbols. */
static bool is_of_file(const struct graph *graph, uint32_t symbol)
{
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const graph_value *input = &graph->values[graph->inputs[i]];

        for (uint32_t d = 0; input->declared && input->declared_rank != INLAY_RANK_UNKNOWN && d < input->declared_rank;
             d++)
            if (input->declared_dims[d].kind == INLAY_DIM_SYMBOLIC && input->declared_dims[d].symbol == symbol)
                return true;
    }
    return false;
}

/* Does the file declare a shape that can be the real one? A wrong declaration counts as none, as in ONNX Runtime. */
static bool is_declared(const graph_value *value)
{
    if (!value->declared || value->declared_rank == INLAY_RANK_UNKNOWN)
        return false;
    if (value->info.rank == INLAY_RANK_UNKNOWN)
        return true;
    if (value->info.rank != value->declared_rank)
        return false;
    for (uint32_t d = 0; d < value->declared_rank; d++)
        if (value->declared_dims[d].kind == INLAY_DIM_FIXED && value->info.dims[d].kind == INLAY_DIM_FIXED &&
            value->declared_dims[d].value != value->info.dims[d].value)
            return false;
    return true;
}

/* Axis d of a declared shape. As in ONNX Runtime, a size that inference found replaces a name, and the name of an
 * input's axis replaces nothing but an axis without a name. */
static inlay_dim declared_dim(const struct graph *graph, const graph_value *value, uint32_t rank, uint32_t d)
{
    const inlay_dim none = { .kind = INLAY_DIM_UNKNOWN };
    const inlay_dim declared = is_declared(value) ? value->declared_dims[d] : none;
    const inlay_dim inferred = value->info.rank == rank ? value->info.dims[d] : none;

    if (declared.kind == INLAY_DIM_FIXED || inferred.kind == INLAY_DIM_FIXED)
        return declared.kind == INLAY_DIM_FIXED ? declared : inferred;
    if (declared.kind != INLAY_DIM_SYMBOLIC && inferred.kind == INLAY_DIM_SYMBOLIC &&
        is_of_file(graph, inferred.symbol))
        return inferred;
    return declared;
}

struct shape_text {
    int64_t *dims;
    const char **names;
};

static bool shape_alloc(inlay_session *session, uint32_t rank, struct shape_text *out)
{
    const size_t count = rank == INLAY_RANK_UNKNOWN ? 1 : (size_t)rank + 1;

    out->dims = arena_array(&session->arena, count, sizeof *out->dims);
    out->names = arena_array(&session->arena, count, sizeof *out->names);
    return out->dims != NULL && out->names != NULL;
}

static void shape_set(const inlay_session *session, const inlay_dim *dim, uint32_t d, struct shape_text *out)
{
    out->dims[d] = dim->kind == INLAY_DIM_FIXED ? dim->value : -1;
    out->names[d] = dim->kind == INLAY_DIM_SYMBOLIC ? session->model->symbols[dim->symbol].name.data : "";
}

static inlay_status describe(inlay_session *session, const uint32_t *values, uint32_t count, inlay_io_info **out_list)
{
    const struct graph *graph = session->model->main;
    inlay_io_info *list = arena_array(&session->arena, (size_t)count + 1, sizeof *list);

    *out_list = list;
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        const graph_value *value = &graph->values[values[i]];
        const bool has_declared = is_declared(value);
        /* If only one of the inferred and the declared shape is known, report it as both. */
        const bool use_declared = value->info.rank == INLAY_RANK_UNKNOWN && has_declared;
        const uint32_t rank = use_declared ? value->declared_rank : value->info.rank;
        const uint32_t declared_rank = has_declared ? value->declared_rank : value->info.rank;
        struct shape_text found, declared;

        if (!shape_alloc(session, rank, &found) || !shape_alloc(session, declared_rank, &declared))
            return INLAY_OUT_OF_MEMORY;
        for (uint32_t d = 0; rank != INLAY_RANK_UNKNOWN && d < rank; d++)
            shape_set(session, use_declared ? &value->declared_dims[d] : &value->info.dims[d], d, &found);
        for (uint32_t d = 0; declared_rank != INLAY_RANK_UNKNOWN && d < declared_rank; d++) {
            const inlay_dim dim = declared_dim(graph, value, declared_rank, d);

            shape_set(session, &dim, d, &declared);
        }
        list[i] = (inlay_io_info){ .struct_size = sizeof *list,
                                   .name = value->info.name.data,
                                   .kind = value->info.kind,
                                   .dtype = value->info.dtype,
                                   .rank = rank,
                                   .optional = value->has_default,
                                   .dims = found.dims,
                                   .dim_names = found.names,
                                   .key_dtype = value->map_key,
                                   .sparse = value->sparse,
                                   .declared_rank = declared_rank,
                                   .declared_dims = declared.dims,
                                   .declared_dim_names = declared.names };
    }
    return list == NULL ? INLAY_OUT_OF_MEMORY : INLAY_OK;
}

inlay_status session_describe(inlay_session *session, inlay_diag *diag)
{
    const struct graph *graph = session->model->main;

    if (describe(session, graph->inputs, graph->input_count, &session->inputs) != INLAY_OK ||
        describe(session, graph->outputs, graph->output_count, &session->outputs) != INLAY_OK)
        return no_memory(diag, "for a session");
    return INLAY_OK;
}

/* The default limit is the physical memory. The system overcommits memory, and a process that uses too much is killed,
 * so a run that needs more is refused. */
static uint64_t run_limit(const inlay_options *options)
{
    int64_t wanted = options_int(options, OPTION_max_run_bytes);
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);

    if (wanted > 0)
        return (uint64_t)wanted;
    return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : (uint64_t)INT64_MAX;
}

/* The default limit of the cache is 5 % of the free disk space, at most 1 GiB. */
static uint64_t cache_limit(const inlay_options *options)
{
    const int64_t wanted = options_int(options, OPTION_cache_max_bytes);
    const uint64_t max_bytes = UINT64_C(1) << 30;
    char folder[PATH_MAX];
    struct statvfs disk;
    uint64_t share;

    if (wanted >= 0)
        return (uint64_t)wanted;
    if (!config_cache_dir(options, folder, sizeof folder))
        return max_bytes;
    for (char *slash = folder + strlen(folder); statvfs(folder, &disk) != 0;
         *slash = '\0') /* not created yet: try its parent */
        if ((slash = strrchr(folder, '/')) == NULL || slash == folder)
            return max_bytes;
    share = (uint64_t)disk.f_bavail * disk.f_frsize / 20;
    return share < max_bytes ? share : max_bytes;
}

static inlay_status compile(inlay_session *session, const inlay_options *options, inlay_diag *diag)
{
    uint32_t nodes = session_count_nodes(session->model->main);
    char folder[PATH_MAX];
    uint32_t previous_limit = threads_set_limit(session->env.max_threads);
    inlay_status status;

    INLAY_CHECK(graph_model_check(session->model));
    (void)hash_constants(session->model->main,
                         config_cache_folder(options, "hashes", folder, sizeof folder) ? folder : NULL,
                         (int64_t)time(NULL));
    (void)threads_set_limit(previous_limit);
    if (config_blob_dir(options, folder, sizeof folder)) {
        session->env.cache_dir = arena_string(&session->arena, folder);
        if (session->env.cache_dir == NULL)
            return no_memory(diag, "for a session");
    }
    if (session->env.packs.max_bytes > 0 && config_cache_folder(options, "packs", folder, sizeof folder)) {
        session->env.packs.dir = arena_string(&session->arena, folder);
        if (session->env.packs.dir == NULL)
            return no_memory(diag, "for a session");
    }
    status = session_find_states(session, options, diag);
    if (status == INLAY_OK)
        status = session_check_caches(session, options, diag);
    if (status == INLAY_OK)
        status = session_read_left_out(session, diag);
    if (status != INLAY_OK)
        return status;
    session->progress.done = 0.4;
    session->progress.step = 0.6 / (nodes > 0 ? nodes : 1);
    session->env.progress = compile_progress;
    session->env.progress_ctx = session;
    INLAY_CHECK(session->main == NULL && session->loading.watch == NULL);
    status = session_read_sizes(session, options, diag);
    if (status != INLAY_OK)
        return status;
    if (options_int(options, OPTION_compile_in_background) != 0 && session->env.memory.held_bytes == NULL)
        status = session_background_prepare(session, diag);
    else
        status = program_create(session->model->main, &session->env, &session->main, diag);
    return status == INLAY_OK ? session_prepare_sizes(session, session->main, diag) : status;
}

static uint32_t priority_option(const inlay_options *options)
{
    const char *text = options_text(options, OPTION_priority);

    return strcmp(text, "low") == 0    ? INLAY_PRIORITY_LOW
           : strcmp(text, "high") == 0 ? INLAY_PRIORITY_HIGH
                                       : INLAY_PRIORITY_NORMAL;
}

static uint32_t power_option(const inlay_options *options)
{
    const char *text = options_text(options, OPTION_power);

    return strcmp(text, "efficiency") == 0    ? INLAY_POWER_EFFICIENCY
           : strcmp(text, "performance") == 0 ? INLAY_POWER_PERFORMANCE
                                              : INLAY_POWER_DEFAULT;
}

/* Options of runs that wait for threads, processes or files, or that give memory back. */
static inlay_status check_realtime(const inlay_session *session, const inlay_options *options, inlay_diag *diag)
{
    const char *with = !session->env.runs.realtime                      ? NULL
                       : session->env.max_threads > 1                   ? "intra_threads above 1"
                       : options_text(options, OPTION_isolate)[0] != 0  ? "isolate"
                       : session->limits.host > 0                       ? "memory_limit"
                       : options_int(options, OPTION_idle_trim_ms) != 0 ? "idle_trim_ms"
                       : options_on(options, OPTION_watchdog)           ? "watchdog"
                                                                        : NULL;

    return with == NULL ? INLAY_OK
                        : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option realtime cannot be combined with %s", with);
}

/* Creates a session that has only read its options. NULL: out of memory. */
static inlay_session *session_begin(const inlay_options *options)
{
    inlay_session *session = calloc(1, sizeof *session);
    uint32_t threads = (uint32_t)options_int(options, OPTION_intra_threads), budget = threads_budget();

    if (session == NULL)
        return NULL;
    if (options != NULL) {
        session->log.write = options->log;
        session->log.user = options->log_user;
        session->progress.report = options->progress;
        session->progress.user = options->progress_user;
    }
    session->env.runs.realtime = options_int(options, OPTION_realtime) != 0;
    threads = threads == 0 && session->env.runs.realtime ? 1 : threads;
    session->env.max_threads = threads == 0 || threads > budget ? budget : threads;
    session->env.build_threads = threads == 0 ? budget : threads; /* compilers may wait more than they compute */
    session->env.runs.inter_threads = (uint32_t)options_int(options, OPTION_inter_threads);
    session->env.runs.max_bytes = run_limit(options);
    session->env.runs.without_failed = strcmp(options_text(options, OPTION_device_failure), "other") == 0;
    session->env.runs.device_timeout_ms = (uint64_t)options_int(options, OPTION_device_timeout_ms);
    session->env.runs.priority = priority_option(options);
    session->env.runs.power = power_option(options);
    session->reproducible = options_on(options, OPTION_reproducible);
    session->limits.host = session_host_limit(options);
    session->limits.memory = run_memory_create(
        options != NULL ? &options->allocator : NULL, (uint64_t)options_int(options, OPTION_memory_budget),
        (uint64_t)options_int(options, OPTION_process_memory_budget), session->limits.host);
    if (session->limits.memory == NULL) {
        free(session);
        return NULL;
    }
    (void)pthread_mutex_init(&session->contexts.lock, NULL);
    (void)pthread_mutex_init(&session->versions.update_lock, NULL);
    session_versions_begin(session);
    session->forks = fork_count;
    session->env.memory.held_bytes = run_memory_held(session->limits.memory);
    session->limits.heap_before = session->env.memory.held_bytes != NULL ? heap_bytes() : 0;
    session->env.memory.room = session->env.memory.held_bytes != NULL ? session_limit_room : NULL;
    session->env.memory.room_ctx = session;
    session->env.rules = &session->rules;
    session->env.packs = (packs_place){ .max_bytes = cache_limit(options), .log = log_line, .log_ctx = session };
    session->env.log = log_line;
    session->env.log_ctx = session;
    return session;
}

/* Option reproducible, without a list of providers: whether a session without this one has other bits. */
static bool is_indispensable(const inlay_options *options, const char *name)
{
    return options_on(options, OPTION_reproducible) && options_text(options, OPTION_providers)[0] == '\0' &&
           default_place(name) < FIRST_PROVIDERS;
}

/* Lists the providers of plugins that are in quarantine although they worked before. A probe may also exceed its time
 * because the machine is busy, so the results of option reproducible must not depend on it. */
static inlay_status add_lost(inlay_session *session, const inlay_options *options, inlay_diag *diag)
{
    char reason[700];

    for (uint32_t i = 0; i < plugin_set_file_count(session->plugins); i++) {
        const plugin_file *file = plugin_set_file(session->plugins, i);
        char *names = file->lost ? arena_string(&session->arena, file->providers) : NULL, *next = NULL;

        if (file->lost && names == NULL)
            return no_memory(diag, "for the list of providers");
        (void)snprintf(reason, sizeof reason, "quarantined%s: %s", file->for_one_model ? " for this model" : "",
                       file->lost ? file->reason : "");
        for (char *name = names != NULL ? strtok_r(names, " ", &next) : NULL; name != NULL;
             name = strtok_r(NULL, " ", &next))
            if (is_indispensable(options, name))
                return inlay_fail(diag, INLAY_UNSUPPORTED,
                                  "option reproducible: results without provider %s have other bits, and its plugin "
                                  "was not loaded: %s; %s",
                                  name, file->reason, file->fix);
            else if (!add_skipped(session, name, reason))
                return no_memory(diag, "for the list of providers");
    }
    return INLAY_OK;
}

static inlay_status load_plugins(inlay_session *session, const inlay_options *options, inlay_diag *diag)
{
    config_search search;
    inlay_status status;

    if (options_int(options, OPTION_crash_report) != 0)
        crash_install();
    config_search_init(&search, options, session->log.write, session->log.user);
    search.search.model = session->model != NULL ? session->model->source.identity : 0;
    status = plugin_set_search_listed(&search.search, search.list, &session->plugins, diag);
    if (status == INLAY_OK)
        status = add_lost(session, options, diag);
    return status == INLAY_OK ? open_providers(session, options, diag) : status;
}

inlay_status session_open_providers(const inlay_options *options, inlay_session **out_session, inlay_diag *diag)
{
    inlay_session *session = session_begin(options);
    inlay_status status;

    *out_session = NULL;
    if (session == NULL)
        return no_memory(diag, "for a session");
    status = load_plugins(session, options, diag);
    if (status == INLAY_OK)
        *out_session = session;
    else
        session_close(session);
    return status;
}

/* Constants that the optimiser computes can be as large as the weights. */
static inlay_status spill_constants(const inlay_session *session, const inlay_options *options, inlay_diag *diag)
{
    char folder[PATH_MAX];

    if (session->env.stream == NULL || session->env.packs.max_bytes == 0 ||
        !config_cache_folder(options, "packs", folder, sizeof folder))
        return INLAY_OK;
    session->model->memory.spill_dir = arena_string(&session->model->arena, folder);
    return session->model->memory.spill_dir != NULL ? INLAY_OK : no_memory(diag, "for a session");
}

/* stream: see session_limit_begin(). */
static inlay_status prepare(const session_source *source, const inlay_options *options, const session_watch *watch,
                            bool stream, inlay_session **out_session, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    inlay_session *session = session_begin(options);

    *out_session = NULL;
    if (session == NULL)
        return no_memory(diag, "for a session");
    session->loading.watch = watch;
    session->loading.keeps_sparse = watch == NULL && source->whole == NULL; /* an observer may save the model */
    INLAY_TRY(check_realtime(session, options, diag));
    INLAY_TRY(session_report(session, 0, "loading", diag));
    INLAY_TRY(session_load_model(session, source, options, diag));
    crash_here.model = session->model->source.identity;
    INLAY_TRY(session_limit_begin(session, stream, diag));
    INLAY_TRY(spill_constants(session, options, diag));
    INLAY_TRY(session_report(session, 0.1, "opening providers", diag));
    INLAY_TRY(load_plugins(session, options, diag));
    INLAY_TRY(session_rules_read(session, options, diag));
    INLAY_TRY(session_optimise(session, session->model, options, diag));
    INLAY_TRY(session_costs_open(session, options, diag));
    session->loading.watch = NULL;
    *out_session = session;
    session = NULL;
done:
    session_close(session);
    return status;
}

inlay_status session_prepare(const session_source *source, const inlay_options *options, const session_watch *watch,
                             inlay_session **out_session, inlay_diag *diag)
{
    const uint64_t before = crash_here.model;
    const inlay_status status = prepare(source, options, watch, false, out_session, diag);

    crash_here.model = before;
    return status;
}

/* Adds to a failure without any provider why a plugin was not loaded: the same cause, such as a missing /proc, usually
 * keeps all of them out. */
static void add_plugin_reason(const inlay_session *session, inlay_diag *diag)
{
    const size_t used = diag != NULL ? strlen(diag->text) : 0;

    for (uint32_t i = 0; diag != NULL && i < plugin_set_file_count(session->plugins); i++) {
        const plugin_file *file = plugin_set_file(session->plugins, i);

        if (file->loaded || file->reason == NULL)
            continue;
        (void)snprintf(diag->text + used, sizeof diag->text - used, "; %s was not loaded: %s", file->path,
                       file->reason);
        return;
    }
}

static inlay_status attach_watchdog(inlay_session *session, const inlay_options *options, inlay_diag *diag)
{
    double rate;

    if (!option_share(options_text(options, OPTION_watchdog), &rate) || rate == 0)
        return INLAY_OK;
    return library_parts.watchdog != NULL ? library_parts.watchdog->attach(session, options, rate, diag)
                                          : inlay_fail(diag, INLAY_UNSUPPORTED, "option watchdog " PARTS_LEFT_OUT);
}

/* *inout_stream: see session_limit_begin(); set if a session that failed would have read its weights during runs.
 * *inout_least: the limit that would have sufficed for an earlier session, or for this one. */
static inlay_status open_once(const session_source *source, const inlay_options *options, bool *inout_stream,
                              uint64_t *inout_least, inlay_session **out_session, inlay_diag *diag)
{
    inlay_session *session = NULL;
    inlay_status status = prepare(source, options, NULL, *inout_stream, &session, diag), files;

    *out_session = NULL;
    if (status != INLAY_OK)
        return status;
    session->limits.least = *inout_least;
    INLAY_TRY(session_report(session, 0.4, "compiling", diag));
    INLAY_TRY(session_limit_begin(session, *inout_stream, diag));
    status = compile(session, options, diag);
    if (status == INLAY_UNSUPPORTED && session->env.provider_count == 0)
        add_plugin_reason(session, diag);
    files = graph_files_check(session->model, diag);
    if (files != INLAY_OK) /* a changed file may have caused the other error */
        status = files;
    INLAY_TRY(status);
    INLAY_TRY(session_limit_check(session, diag));
    INLAY_TRY(session_describe(session, diag));
    INLAY_TRY(options_copy(options, &session->versions.options, diag));
    INLAY_TRY(session_idle_begin(session, options, diag));
    INLAY_TRY(attach_watchdog(session, options, diag));
    INLAY_TRY(session_report(session, 1, "ready", diag));
    session->progress.report = NULL;
    session->env.memory.room = NULL;
    session->env.packs.dir = NULL;
    session_background_start(session);
    *out_session = session;
    session = NULL;
done:
    if (session != NULL) {
        *inout_stream = session->env.stream != NULL;
        *inout_least = session->limits.least;
    }
    session_close(session);
    return status;
}

inlay_status session_open(const session_source *source, const inlay_options *options, inlay_session **out_session,
                          inlay_diag *diag)
{
    const uint64_t before = crash_here.model;
    bool streamed = false;
    uint64_t least = 0;
    inlay_status status = open_once(source, options, &streamed, &least, out_session, diag);

    /* The weights fit the limit in the form of the file, but not in the packed form of the providers. */
    if (status == INLAY_LIMIT_EXCEEDED && session_host_limit(options) > 0 && !streamed) {
        streamed = true;
        status = open_once(source, options, &streamed, &least, out_session, diag);
    }
    crash_here.model = before;
    return status;
}

/* Time limit for a hung device: four times the device timeout, at most ten seconds. */
enum { GRACE_FACTOR = 4, GRACE_MS = 10000 };

/* Quiesces the lost devices of an abandoned session, which is not freed. */
static void abandon(const inlay_session *session)
{
    const uint64_t limit = session->env.runs.device_timeout_ms, max_ms = GRACE_MS;

    for (uint32_t i = 0; i < session->env.provider_count; i++)
        if (provider_is_lost(session->open[i]->state))
            provider_quiesce_lost(session->open[i],
                                  limit == 0 || limit > max_ms / GRACE_FACTOR ? max_ms : limit * GRACE_FACTOR);
}

void session_close(inlay_session *session)
{
    if (session == NULL)
        return;
    session_idle_end(session);
    for (uint32_t i = 1; i < session->ladder.count; i++)
        session_close(session->ladder.variants[i]);
    session->ladder.count = 0;
    if (session->client != NULL && session_check_process(session, NULL) == INLAY_OK) {
        session->client->calls->destroy(session->client);
        session->client = NULL;
    }
    if (session->abandoned || session_device_hangs(session)) {
        abandon(session);
        return;
    }
    if (session_check_process(session, NULL) != INLAY_OK) /* only the parent may free it */
        return;
    session_versions_close(session);
    session_background_end(session);
    program_destroy(session->main);
    weight_stream_destroy(session->env.stream);
    session_costs_close(session);
    graph_model_destroy(session->model); /* before the plugins, which own custom operators */
    for (uint32_t i = 0; i < session->env.provider_count; i++)
        provider_close(session->open[i]);
    plugin_set_destroy(session->plugins);
    run_memory_unref(session->limits.memory);
    (void)pthread_mutex_destroy(&session->contexts.lock);
    (void)pthread_mutex_destroy(&session->versions.update_lock);
    options_destroy(session->versions.options);
    free(session->ladder.variants);
    arena_deinit(&session->arena);
    free(session);
}
