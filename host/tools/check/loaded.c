/* Opening, creating, and the two ways back. */
#include "check/loaded.h"
#include "base/known.h"
#include "base/memory.h"
#include "plugin/unmap.h"
#include "plugin/note.h"
#include "plugin/plugin.h"
#include "threads/threads.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 4096, DOMAIN_STEP = 64 };

static inlay_status adopt_lists(loaded_plugin *p, inlay_diag *diag)
{
    inlay_plugin *t = &p->table;

    if (t->provider_count > MOST || (t->provider_count > 0 && (t->providers == NULL || t->provider_stride < 64)) ||
        t->operator_count > MOST || (t->operator_count > 0 && (t->operators == NULL || t->operator_stride < 64)))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "%u providers, %u bytes apart, and %u operators, %u bytes "
                          "apart",
                          t->provider_count, t->provider_stride, t->operator_count, t->operator_stride);
    p->providers = arena_array(&p->a, t->provider_count, sizeof *p->providers);
    p->operators = arena_array(&p->a, t->operator_count, sizeof *p->operators);
    if (p->providers == NULL || p->operators == NULL)
        return no_memory(diag, "to describe the plugin");
    for (uint32_t i = 0; i < t->provider_count; i++) {
        const inlay_provider *raw = INLAY_AT(inlay_provider, t->providers, t->provider_stride, i);

        known_take(&p->providers[i], sizeof p->providers[i], raw, raw->struct_size);
    }
    for (uint32_t i = 0; i < t->operator_count; i++) {
        const inlay_operator *raw = INLAY_AT(inlay_operator, t->operators, t->operator_stride, i);

        known_take(&p->operators[i], sizeof p->operators[i], raw, raw->struct_size);
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

inlay_status loaded_open(const char *path, loaded_plugin *out, inlay_diag *diag)
{
    char real[PATH_MAX];
    inlay_status status;
    void *symbol;

    *out = (loaded_plugin){ 0 };
    if (realpath(path, real) == NULL || (out->path = arena_string(&out->a, real)) == NULL) {
        arena_deinit(&out->a);
        return inlay_fail(diag, INLAY_NOT_FOUND, "'%s' cannot be found", path);
    }
    out->sanitizers = sanitizers_of(real);
    out->handle = dlopen(real, RTLD_NOW | RTLD_LOCAL);
    if (out->handle == NULL) {
        status = inlay_fail(diag, INLAY_IO_ERROR, "%s", dlerror());
        goto done;
    }
    symbol = dlsym(out->handle, INLAY_PLUGIN_OPEN_SYMBOL);
    if (symbol == NULL) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "it exports no %s", INLAY_PLUGIN_OPEN_SYMBOL);
        goto done;
    }
    memcpy(&out->open, &symbol, sizeof out->open); /* ISO C has no cast from object to function pointers */
    INLAY_TRY(out->open(host_table(), &out->raw, diag));
    if (out->raw == NULL || !INLAY_HAS(out->raw, operator_stride) || out->raw->abi_major != INLAY_ABI_MAJOR) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s gave no description of ABI %u", INLAY_PLUGIN_OPEN_SYMBOL,
                            INLAY_ABI_MAJOR);
        goto done;
    }
    known_take(&out->table, sizeof out->table, out->raw, out->raw->struct_size);
    status = adopt_lists(out, diag);
done:
    if (status != INLAY_OK)
        loaded_close(out);
    return status;
}

void loaded_close(loaded_plugin *p)
{
    if (p->table.shutdown != NULL)
        p->table.shutdown(p->table.ctx);
    if (p->handle != NULL && (p->table.flags & INLAY_PLUGIN_DLCLOSE) != 0 && MAY_DLCLOSE)
        (void)dlclose(p->handle);
    arena_deinit(&p->a);
    *p = (loaded_plugin){ 0 };
}

/* The settings of --option, in memory of the arena. NULL: there is no memory. */
static provider_setting *settings_of(const check_args *args, struct arena *a)
{
    uint32_t count = args != NULL ? args->option_count : 0;
    provider_setting *list = arena_array(a, count + (size_t)1, sizeof *list);

    for (uint32_t i = 0; list != NULL && i < count; i++) {
        size_t name = strcspn(args->options[i], "=");

        list[i].name = arena_string_n(a, args->options[i], name);
        list[i].value = args->options[i] + name + (args->options[i][name] == '=');
        if (list[i].name == NULL)
            return NULL;
    }
    return list;
}

inlay_status loaded_create(const loaded_plugin *p, uint32_t index, const check_args *asked, loaded_provider *out,
                           inlay_diag *diag)
{
    static uint32_t next_domain = 1;
    const inlay_provider *t = &p->providers[index];
    struct arena a = { 0 };
    inlay_option *options = arena_array(&a, t->option_count + (size_t)1, sizeof *options);
    inlay_option_value *values = arena_array(&a, t->option_count + (size_t)1, sizeof *values);
    provider_setting *settings = settings_of(asked, &a);
    inlay_create_args args = { .struct_size = sizeof args,
                               .options = values,
                               .option_count = t->option_count,
                               .option_stride = sizeof *values,
                               .first_domain = next_domain,
                               .max_threads = threads_budget() };
    inlay_status status = INLAY_OK;

    *out = (loaded_provider){ .plugin = p, .table = t, .name = t->name, .first_domain = next_domain };
    next_domain += DOMAIN_STEP;
    if (options == NULL || values == NULL || settings == NULL) {
        status = no_memory(diag, "for %u options", t->option_count);
        goto done;
    }
    for (uint32_t i = 0; i < t->option_count; i++)
        known_take(&options[i], sizeof options[i], INLAY_AT(inlay_option, t->options, t->option_stride, i),
                   t->option_stride);
    INLAY_TRY(provider_parse_options(t->name, options, t->option_count, settings,
                                     asked != NULL ? asked->option_count : 0, values, diag));
    INLAY_TRY(t->create(t->ctx, host_table(), &args, &out->state, diag));
done:
    arena_deinit(&a);
    if (status != INLAY_OK)
        *out = (loaded_provider){ 0 };
    return status;
}

void loaded_destroy(loaded_provider *p)
{
    if (p->table == NULL)
        return;
    if (p->table->quiesce != NULL)
        p->table->quiesce(p->state);
    p->table->destroy(p->state);
    *p = (loaded_provider){ 0 };
}

/* ------------------------------------------------------------------ the world */

static const inlay_operator *find_operator(void *ctx, const char *domain, const char *op_type, int64_t opset)
{
    const struct world *w = ctx;
    const inlay_operator *best = NULL;

    for (uint32_t p = 0; p < w->plugin_count; p++) {
        for (uint32_t i = 0; i < w->plugins[p].table.operator_count; i++) {
            const inlay_operator *op = &w->plugins[p].operators[i];

            if ((int64_t)op->since_version <= opset && (best == NULL || op->since_version > best->since_version) &&
                strcmp(op->op_type, op_type) == 0 && strcmp(op->domain, domain) == 0)
                best = op;
        }
    }
    return best;
}

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Adds a plugin that the first is compared with; one that cannot be opened is left out, with a line. */
static void add_peer(struct check *c, const char *name, struct world *w, const char *path)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    loaded_plugin *p = &w->plugins[w->plugin_count];

    if (loaded_open(path, p, &diag) != INLAY_OK) {
        check_skip(c, name, path, "it cannot be compared with: %s", diag.text);
        return;
    }
    w->plugin_count++;
    for (uint32_t i = 0; i < p->table.provider_count && w->peer_count < WORLD_PROVIDERS; i++)
        if (loaded_create(p, i, NULL, &w->peers[w->peer_count], &diag) == INLAY_OK)
            w->peer_count++;
}

bool world_open(struct check *c, const char *name, bool with_reference, struct world *w)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    loaded_plugin *p = &w->plugins[0];
    char dir[PATH_MAX], path[PATH_MAX + 32];
    inlay_status status;

    *w = (struct world){ 0 };
    check_phase(c, "inlay_plugin_open");
    c->beacon->open = 1;
    status = loaded_open(c->args->file, p, &diag);
    c->beacon->open = 0;
    if (status != INLAY_OK) {
        c->beacon->broken = 1;
        check_skip(c, name, NULL, "the plugin cannot be opened: %s", diag.text);
        return false;
    }
    w->plugin_count = 1;
    w->operators = (graph_operators){ .find = find_operator, .ctx = w };
    check_phase(c, "create");
    for (uint32_t i = 0; i < p->table.provider_count && w->own_count < WORLD_PROVIDERS; i++) {
        if (c->args->provider != NULL && strcmp(c->args->provider, p->providers[i].name) != 0)
            continue;
        if (loaded_create(p, i, c->args, &w->own[w->own_count], &diag) == INLAY_OK)
            w->own_count++;
        else
            check_skip(c, name, p->providers[i].name, "it cannot be created here: %s", diag.text);
    }
    check_phase(c, "the checker");
    if (c->args->with != NULL)
        add_peer(c, name, w, c->args->with);
    if (plugin_default_dir(dir, sizeof dir) != NULL) {
        (void)snprintf(path, sizeof path, "%s/inlay-reference.so", dir);
        w->is_reference = same_file(path, c->args->file);
        if (with_reference && !w->is_reference && access(path, F_OK) == 0)
            add_peer(c, name, w, path);
    }
    return true;
}

uint32_t world_operators(const struct world *w, const inlay_operator **list, uint32_t room)
{
    uint32_t count = 0;

    for (uint32_t p = 0; p < w->plugin_count; p++)
        for (uint32_t i = 0; i < w->plugins[p].table.operator_count && count < room; i++)
            list[count++] = &w->plugins[p].operators[i];
    return count;
}

void world_close(struct world *w)
{
    for (uint32_t i = 0; i < w->own_count; i++)
        loaded_destroy(&w->own[i]);
    for (uint32_t i = 0; i < w->peer_count; i++)
        loaded_destroy(&w->peers[i]);
    for (uint32_t i = w->plugin_count; i-- > 0;)
        loaded_close(&w->plugins[i]);
}

void world_each(struct check *c, const char *name, world_fn fn)
{
    const inlay_operator *custom[64];
    uint32_t custom_count;
    struct world w;

    if (!world_open(c, name, false, &w))
        return;
    custom_count = world_operators(&w, custom, 64);
    for (uint32_t i = 0; i < w.own_count; i++)
        fn(c, &w, &w.own[i], custom, custom_count);
    world_close(&w);
}
