/* Opens plugins and creates their providers, and undoes both. */
#include "check/loaded.h"
#include "check/host.h"
#include "check/shown.h"
#include "check/surroundings.h"
#include "base/sized_struct.h"
#include "base/memory.h"
#include "plugin/unmap.h"
#include "plugin/isolate.h"
#include "plugin/note.h"
#include "plugin/plugin.h"
#include "plugin/probe.h"
#include "threads/threads.h"
#include "inlay/check.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_ENTRIES = 4096, DOMAIN_STEP = 64 };

static inlay_status adopt_lists(loaded_plugin *plugin, inlay_diag *diag)
{
    inlay_plugin *table = &plugin->table;

    if (table->provider_count > MAX_ENTRIES ||
        (table->provider_count > 0 && (table->providers == NULL || table->provider_stride < 64)) ||
        table->operator_count > MAX_ENTRIES ||
        (table->operator_count > 0 && (table->operators == NULL || table->operator_stride < 64)))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "%u providers, %u bytes apart, and %u operators, %u bytes "
                          "apart",
                          table->provider_count, table->provider_stride, table->operator_count, table->operator_stride);
    plugin->providers = arena_array(&plugin->arena, table->provider_count, sizeof *plugin->providers);
    plugin->operators = arena_array(&plugin->arena, table->operator_count, sizeof *plugin->operators);
    if (plugin->providers == NULL || plugin->operators == NULL)
        return no_memory(diag, "to describe the plugin");
    for (uint32_t i = 0; i < table->provider_count; i++) {
        const inlay_provider *raw = INLAY_AT(inlay_provider, table->providers, table->provider_stride, i);

        sized_struct_read(&plugin->providers[i], sizeof plugin->providers[i], raw, raw->struct_size);
    }
    for (uint32_t i = 0; i < table->operator_count; i++) {
        const inlay_operator *raw = INLAY_AT(inlay_operator, table->operators, table->operator_stride, i);

        sized_struct_read(&plugin->operators[i], sizeof plugin->operators[i], raw, raw->struct_size);
    }
    return INLAY_OK;
}

static uint32_t sanitizers_of(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    note_facts facts = { .sanitizers = 0 };
    struct stat st;

    if (fd >= 0 && fstat(fd, &st) == 0)
        (void)!note_read(fd, (uint64_t)st.st_size, &facts, NULL);
    if (fd >= 0)
        (void)close(fd);
    return facts.sanitizers;
}

/* Maps the file and finds its entry. */
static inlay_status map_file(const char *real, loaded_plugin *out, inlay_diag *diag)
{
    void *symbol;

    out->handle = dlopen(real, RTLD_NOW | RTLD_LOCAL);
    if (out->handle == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s", dlerror());
    symbol = dlsym(out->handle, INLAY_PLUGIN_OPEN_SYMBOL);
    if (symbol == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "it does not export %s", INLAY_PLUGIN_OPEN_SYMBOL);
    memcpy(&out->open, &symbol, sizeof out->open); /* ISO C has no cast from object to function pointers */
    return INLAY_OK;
}

/* Gets the description from a process of the plugin's own. */
static inlay_status open_isolated(const char *real, loaded_plugin *out, inlay_diag *diag)
{
    char helper[PATH_MAX], host[128];
    const int fd = open(real, O_RDONLY | O_CLOEXEC);
    inlay_status status = probe_find(helper, host, diag);

    if (status == INLAY_OK)
        status = isolate_open(helper, real, fd, &out->raw, diag);
    if (fd >= 0)
        (void)close(fd);
    return status;
}

inlay_status loaded_open(const char *path, bool isolated, loaded_plugin *out, inlay_diag *diag)
{
    char real[PATH_MAX];
    inlay_status status;

    *out = (loaded_plugin){ 0 };
    if (realpath(path, real) == NULL || (out->path = arena_string(&out->arena, real)) == NULL) {
        arena_deinit(&out->arena);
        return inlay_fail(diag, INLAY_NOT_FOUND, "'%s' cannot be found", path);
    }
    out->sanitizers = sanitizers_of(real);
    if (!isolated) {
        INLAY_TRY(map_file(real, out, diag));
        INLAY_TRY(out->open(check_host(), &out->raw, diag));
    } else {
        INLAY_TRY(open_isolated(real, out, diag));
    }
    if (out->raw == NULL || !INLAY_HAS(out->raw, operator_stride) || out->raw->abi_major != INLAY_ABI_MAJOR) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s returned no description for ABI %u",
                            INLAY_PLUGIN_OPEN_SYMBOL, INLAY_ABI_MAJOR);
        goto done;
    }
    sized_struct_read(&out->table, sizeof out->table, out->raw, out->raw->struct_size);
    status = adopt_lists(out, diag);
done:
    if (status != INLAY_OK)
        loaded_close(out);
    return status;
}

void loaded_close(loaded_plugin *plugin)
{
    if (plugin->table.shutdown != NULL)
        plugin->table.shutdown(plugin->table.ctx);
    if (plugin->handle != NULL && (plugin->table.flags & INLAY_PLUGIN_DLCLOSE) != 0)
        unmap_file(plugin->handle);
    arena_deinit(&plugin->arena);
    *plugin = (loaded_plugin){ 0 };
}

const char *check_option_of(const char *option, const char *provider)
{
    const size_t bytes = strcspn(option, ".=");

    if (option[bytes] != '.')
        return option;
    return strlen(provider) == bytes && strncmp(option, provider, bytes) == 0 ? option + bytes + 1 : NULL;
}

/* Is the option for a provider of the plugin? */
static bool is_for_plugin(const loaded_plugin *plugin, const char *option)
{
    for (uint32_t i = 0; i < plugin->table.provider_count; i++)
        if (plugin->providers[i].name != NULL && check_option_of(option, plugin->providers[i].name) != NULL)
            return true;
    return false;
}

/* Parses the settings of --option for a provider of the plugin into memory of the arena. One for no provider of the
 * plugin keeps its name, which the provider refuses. NULL: no memory. */
static provider_setting *settings_of(const loaded_plugin *plugin, const char *provider, const check_args *args,
                                     struct arena *arena, uint32_t *out_count)
{
    const uint32_t count = args != NULL ? args->option_count : 0;
    provider_setting *list = arena_array(arena, count + (size_t)1, sizeof *list);

    *out_count = 0;
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        const char *option = check_option_of(args->options[i], provider);
        provider_setting *setting = &list[*out_count];
        size_t name;

        if (option == NULL && is_for_plugin(plugin, args->options[i]))
            continue;
        option = option != NULL ? option : args->options[i];
        name = strcspn(option, "=");
        setting->name = arena_string_n(arena, option, name);
        setting->value = option + name + (option[name] == '=');
        if (setting->name == NULL)
            return NULL;
        (*out_count)++;
    }
    return list;
}

/* Calls create with arguments that are inaccessible afterwards. */
static inlay_status call_create(const inlay_provider *table, const inlay_create_args *args,
                                const inlay_option_value *values, void **out_state, struct shown *out_shown,
                                inlay_diag *diag)
{
    size_t texts = 0;
    struct shown shown;
    inlay_create_args *mine;
    char *options, *text;
    inlay_status status;

    for (uint32_t i = 0; i < args->option_count; i++)
        texts += (values[i].s != NULL ? strlen(values[i].s) : 0) + 1;
    if (!shown_open(shown_bytes(sizeof *args, 1, 0) + shown_bytes(sizeof *values, args->option_count, SHOWN_LATER) +
                        shown_bytes(texts, 1, 0),
                    &shown))
        return no_memory(diag, "for %u options", args->option_count);
    mine = shown_put(&shown, args, sizeof *args, 1, 0);
    options = shown_put(&shown, values, sizeof *values, args->option_count, SHOWN_LATER);
    text = shown_put(&shown, NULL, texts, 1, 0);
    mine->options = (const inlay_option_value *)(const void *)options;
    mine->option_stride = (uint32_t)sizeof *values + SHOWN_LATER;
    for (uint32_t i = 0; i < args->option_count; i++) {
        inlay_option_value *value = INLAY_AT_OUT(inlay_option_value, options, mine->option_stride, i);

        if (value->s == NULL)
            continue;
        value->s = strcpy(text, value->s);
        text += strlen(text) + 1;
    }
    status = table->create(table->ctx, check_host(), mine, out_state, diag);
    shown_hide(&shown, "of the arguments of create, after create returned");
    *out_shown = shown;
    return status;
}

/* The folder for cache files of a provider under test, as hosts give one: what a provider measures or verifies when it
 * is created takes its time once, not in each process of the check. NULL: there is no private folder. */
static const char *cache_dir_of(uint32_t provider, const check_args *args, struct arena *arena)
{
    char *path =
        args != NULL && args->child.work != NULL ? arena_format(arena, "%s/kept-%u", args->child.work, provider) : NULL;

    return path != NULL && (mkdir(path, 0700) == 0 || errno == EEXIST) ? path : NULL;
}

inlay_status loaded_create(const loaded_plugin *plugin, uint32_t index, const check_args *settings_from,
                           loaded_provider *out, inlay_diag *diag)
{
    static uint32_t next_domain = 1;
    const inlay_provider *table = &plugin->providers[index];
    struct arena arena = { 0 };
    inlay_option *options = arena_array(&arena, table->option_count + (size_t)1, sizeof *options);
    inlay_option_value *values = arena_array(&arena, table->option_count + (size_t)1, sizeof *values);
    uint32_t setting_count = 0;
    provider_setting *settings = settings_of(plugin, table->name, settings_from, &arena, &setting_count);
    inlay_create_args args = { .struct_size = sizeof args,
                               .options = values,
                               .option_count = table->option_count,
                               .option_stride = sizeof *values,
                               .first_domain = next_domain,
                               .max_threads = threads_budget(),
                               .cache_dir = cache_dir_of(index, settings_from, &arena) };
    inlay_status status = INLAY_OK;

    INLAY_CHECK(index < plugin->table.provider_count);
    *out = (loaded_provider){ .plugin = plugin,
                              .table = table,
                              .name = table->name,
                              .first_domain = next_domain,
                              .is_own = settings_from != NULL };
    next_domain += DOMAIN_STEP;
    if (options == NULL || values == NULL || settings == NULL) {
        status = no_memory(diag, "for %u options", table->option_count);
        goto done;
    }
    for (uint32_t i = 0; i < table->option_count; i++)
        sized_struct_read(&options[i], sizeof options[i],
                          INLAY_AT(inlay_option, table->options, table->option_stride, i), table->option_stride);
    INLAY_TRY(provider_parse_options(table->name, options, table->option_count, settings, setting_count, values, diag));
    INLAY_TRY(call_create(table, &args, values, &out->state, &out->arguments, diag));
done:
    arena_deinit(&arena);
    if (status != INLAY_OK) {
        shown_close(&out->arguments);
        *out = (loaded_provider){ 0 };
    }
    return status;
}

void loaded_destroy(loaded_provider *provider)
{
    if (provider->table == NULL)
        return;
    if (provider->table->quiesce != NULL)
        provider->table->quiesce(provider->state);
    provider->table->destroy(provider->state);
    shown_close(&provider->arguments);
    *provider = (loaded_provider){ 0 };
}

bool loaded_is_whole(const inlay_operator *op)
{
    return op->op_type != NULL && op->domain != NULL && op->signature != NULL;
}

static const inlay_operator *find_operator(void *ctx, const char *domain, const char *op_type, int64_t opset)
{
    const struct fixture *fixture = ctx;
    const inlay_operator *best = NULL;

    for (uint32_t plugin = 0; plugin < fixture->plugin_count; plugin++) {
        for (uint32_t i = 0; i < fixture->plugins[plugin].table.operator_count; i++) {
            const inlay_operator *op = &fixture->plugins[plugin].operators[i];

            if ((int64_t)op->since_version <= opset && (best == NULL || op->since_version > best->since_version) &&
                loaded_is_whole(op) && strcmp(op->op_type, op_type) == 0 && strcmp(op->domain, domain) == 0)
                best = op;
        }
    }
    return best;
}

static bool same_file(const char *path, const char *other_path)
{
    struct stat first, second;

    return stat(path, &first) == 0 && stat(other_path, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

/* Adds the providers of a plugin to compare with. If the plugin cannot be opened, writes a SKIP line. */
static void add_peer(struct check *check, const char *name, struct fixture *fixture, const char *path)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    loaded_plugin *plugin = &fixture->plugins[fixture->plugin_count];

    INLAY_CHECK(fixture->plugin_count < FIXTURE_PLUGINS);
    if (loaded_open(path, false, plugin, &diag) != INLAY_OK) {
        check_skip(check, name, path, "not used for comparison: %s", diag.text);
        return;
    }
    fixture->plugin_count++;
    for (uint32_t i = 0; i < plugin->table.provider_count && fixture->peer_count < FIXTURE_PROVIDERS; i++)
        if (plugin->providers[i].name != NULL &&
            loaded_create(plugin, i, NULL, &fixture->peers[fixture->peer_count], &diag) == INLAY_OK)
            fixture->peer_count++;
}

bool fixture_open(struct check *check, const char *name, bool with_reference, struct fixture *fixture)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    loaded_plugin *plugin = &fixture->plugins[0];
    char dir[PATH_MAX], path[PATH_MAX + 32];
    bool is_refused = false;
    inlay_status status;

    *fixture = (struct fixture){ 0 };
    check_phase(check, "inlay_plugin_open");
    check->progress->open = 1;
    status = loaded_open(check->args->file, check->args->isolate, plugin, &diag);
    check->progress->open = 0;
    if (status != INLAY_OK) {
        check->progress->broken = 1;
        check_skip(check, name, NULL, "the plugin cannot be opened: %s", diag.text);
        return false;
    }
    fixture->plugin_count = 1;
    (void)surroundings_watch(plugin->handle, check->args);
    fixture->operators = (graph_operators){ .find = find_operator, .ctx = fixture };
    check_phase(check, "create");
    for (uint32_t i = 0; i < plugin->table.provider_count; i++) {
        if (plugin->providers[i].name == NULL || /* the group `open` reports it */
            (check->args->provider != NULL && strcmp(check->args->provider, plugin->providers[i].name) != 0))
            continue;
        if (fixture->own_count == FIXTURE_PROVIDERS) {
            check_skip(check, name, plugin->providers[i].name, "the file has more than %d providers; use --provider %s",
                       FIXTURE_PROVIDERS, plugin->providers[i].name);
            continue;
        }
        status = loaded_create(plugin, i, check->args, &fixture->own[fixture->own_count], &diag);
        if (status == INLAY_OK)
            fixture->own_count++;
        else if (status == INLAY_UNSUPPORTED)
            check_skip(check, name, plugin->providers[i].name, "it cannot be created on this machine: %s", diag.text);
        else
            check_skip(check, name, plugin->providers[i].name, "it cannot be created: %s", diag.text);
        is_refused |= status != INLAY_OK && status != INLAY_UNSUPPORTED;
    }
    if (is_refused && fixture->own_count == 0) {
        check->progress->broken = 1;
        fixture_close(fixture);
        return false;
    }
    check_phase(check, "the checker");
    if (check->args->with != NULL)
        add_peer(check, name, fixture, check->args->with);
    if (plugin_default_dir(dir, sizeof dir) != NULL) {
        (void)snprintf(path, sizeof path, "%s/inlay-reference.so", dir);
        fixture->is_reference = same_file(path, check->args->file);
        if (with_reference && !fixture->is_reference && access(path, F_OK) == 0)
            add_peer(check, name, fixture, path);
    }
    return true;
}

uint32_t fixture_operators(const struct fixture *fixture, const inlay_operator **list, uint32_t room)
{
    uint32_t count = 0;

    for (uint32_t plugin = 0; plugin < fixture->plugin_count; plugin++)
        for (uint32_t i = 0; i < fixture->plugins[plugin].table.operator_count && count < room; i++)
            if (loaded_is_whole(&fixture->plugins[plugin].operators[i]))
                list[count++] = &fixture->plugins[plugin].operators[i];
    return count;
}

void fixture_close(struct fixture *fixture)
{
    for (uint32_t i = 0; i < fixture->own_count; i++)
        loaded_destroy(&fixture->own[i]);
    for (uint32_t i = 0; i < fixture->peer_count; i++)
        loaded_destroy(&fixture->peers[i]);
    for (uint32_t i = fixture->plugin_count; i-- > 0;)
        loaded_close(&fixture->plugins[i]);
}

void fixture_each(struct check *check, const char *name, fixture_fn fn)
{
    const inlay_operator *custom[64];
    uint32_t custom_count;
    struct fixture fixture;

    if (!fixture_open(check, name, false, &fixture))
        return;
    custom_count = fixture_operators(&fixture, custom, 64);
    for (uint32_t i = 0; i < fixture.own_count; i++)
        fn(check, &fixture, &fixture.own[i], custom, custom_count);
    fixture_close(&fixture);
}
