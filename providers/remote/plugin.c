#include "plugin/isolate.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "remote/proxy.h"
#include "remote/remote.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void take_extensions(void *ctx, const isolate_channel *channel, const char *outbox)
{
    isolate_proxy *self = ctx;
    const isolate_result result = channel->result;

    (void)outbox;
    self->weights = (inlay_ext_weights){ .struct_size = result.create.has_weights != 0 ? sizeof self->weights : 0,
                                         .packed_products = result.create.packed_products };
    self->integers = (inlay_ext_integers){ .struct_size = result.create.has_integers != 0 ? sizeof self->integers : 0,
                                           .fast_products = result.create.fast_products };
}

static void proxy_destroy(void *state)
{
    isolate_proxy *self = state;

    proxy_free_records(self);
    for (uint32_t i = 0; i < PROXY_GRAPH_LISTS; i++)
        INLAY_CHECK(self->graphs[i] == NULL);
    INLAY_CHECK(self->constants.first == NULL);
    isolate_arena_deinit(&self->arena);
    isolate_process_deinit(&self->process);
    (void)pthread_mutex_destroy(&self->renew_lock);
    free(self);
}

/* Copies the options to the shared arguments. */
static bool pack_start(isolate_proxy *self, const inlay_create_args *args)
{
    const isolate_plugin *plugin = self->info->plugin;
    inlay_option_value *values = isolate_arena_alloc(&self->arena, args->option_count * sizeof *values);
    isolate_start *start = self->start = isolate_arena_alloc(&self->arena, sizeof *self->start);

    if (start == NULL || values == NULL || strlen(plugin->path) >= sizeof start->path)
        return false;
    for (uint32_t i = 0; i < args->option_count; i++) {
        const inlay_option_value *value = INLAY_AT(inlay_option_value, args->options, args->option_stride, i);

        values[i] = *value;
        values[i].name = isolate_arena_copy(&self->arena, value->name, strlen(value->name) + 1);
        if (value->s != NULL)
            values[i].s = isolate_arena_copy(&self->arena, value->s, strlen(value->s) + 1);
    }
    *start = (isolate_start){ .provider = self->info->index,
                              .option_count = args->option_count,
                              .options = values,
                              .max_threads = args->max_threads };
    (void)strcpy(start->path, plugin->path);
    return !self->arena.failed;
}

static inlay_status proxy_create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                                 inlay_diag *diag)
{
    const isolate_info *info = ctx;
    inlay_status status;
    uint32_t generation;
    isolate_proxy *self;

    if (info->refused != NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "provider %s cannot be isolated (option isolate): %s", info->name,
                          info->refused);
    self = calloc(1, sizeof *self);
    if (self == NULL)
        return no_memory(diag, "to open isolated %s", info->name);
    self->info = info;
    self->host = host;
    (void)pthread_mutex_init(&self->renew_lock, NULL);
    self->limit_ms = ISOLATE_START_MS;
    self->next_cookie = 1;
    self->arena.heap = self->constants.heap = &self->process.arguments;
    status = isolate_process_init(&self->process, info->plugin->helper, info->name, info->plugin->fd, diag);
    if (status == INLAY_OK && !pack_start(self, args))
        status = no_memory(diag, "to open isolated %s", info->name);
    if (status == INLAY_OK)
        status = isolate_process_start(&self->process, ISOLATE_CREATE, self->start, take_extensions, self, &generation,
                                       diag);
    if (status != INLAY_OK) {
        proxy_destroy(self);
        return status;
    }
    *out_state = self;
    return INLAY_OK;
}

static void set_limits(void *state, const isolate_limits *limits)
{
    isolate_proxy *self = state;

    __atomic_store_n(&self->limit_ms, limits->call_ms, __ATOMIC_RELAXED);
    isolate_process_limit(&self->process, limits->memory_bytes);
}

static bool may_restart(void *state)
{
    return isolate_process_may_run(&((isolate_proxy *)state)->process);
}

static const void *proxy_extension(void *state, const char *name)
{
    static const isolate_control control = { set_limits, may_restart, proxy_forget };
    const isolate_proxy *self = state;

    if (strcmp(name, ISOLATE_CONTROL) == 0)
        return &control;
    if (strcmp(name, INLAY_EXT_WEIGHTS) == 0 && self->weights.struct_size > 0)
        return &self->weights;
    return strcmp(name, INLAY_EXT_INTEGERS) == 0 && self->integers.struct_size > 0 ? &self->integers : NULL;
}

static const inlay_provider functions = {
    .struct_size = sizeof functions,
    .create = proxy_create,
    .destroy = proxy_destroy,
    .assess = proxy_assess,
    .cost = proxy_cost,
    .cost_region = proxy_cost_region,
    .compile = proxy_compile,
    .release_compiled = proxy_release_compiled,
    .specialize = proxy_specialize,
    .release_instance = proxy_release_instance,
    .execute = proxy_execute,
    .extension = proxy_extension,
};

static void close_plugin(void *ctx)
{
    isolate_plugin *plugin = ctx;

    if (plugin->fd >= 0)
        (void)close(plugin->fd);
    arena_deinit(&plugin->arena);
    free(plugin);
}

struct reading {
    isolate_plugin *plugin;
    inlay_status status;
    inlay_diag *diag;
};

static void read_description(void *ctx, const isolate_channel *channel, const char *outbox)
{
    struct reading *reading = ctx;
    const uint32_t bytes = channel->outbox_bytes;
    char *copy = malloc(ISOLATE_OUTBOX_BYTES);

    reading->status = INLAY_OUT_OF_MEMORY;
    if (copy != NULL) {
        memcpy(copy, outbox, ISOLATE_OUTBOX_BYTES);
        reading->status =
            isolate_read_description(reading->plugin, &functions, copy,
                                     bytes < ISOLATE_OUTBOX_BYTES ? bytes : ISOLATE_OUTBOX_BYTES, reading->diag);
    }
    free(copy);
}

static inlay_status describe(isolate_plugin *plugin, inlay_diag *diag)
{
    struct reading reading = { plugin, INLAY_OK, diag };
    isolate_process process;
    isolate_start *start = NULL;
    uint32_t generation;
    inlay_status status = isolate_process_init(&process, plugin->helper, "plugin", plugin->fd, diag);

    if (status == INLAY_OK) {
        start = isolate_heap_alloc(&process.arguments, sizeof *start);
        if (start == NULL || strlen(plugin->path) >= sizeof start->path)
            status = no_memory(diag, "to describe the plugin");
    }
    if (status == INLAY_OK) {
        (void)strcpy(start->path, plugin->path);
        status =
            isolate_process_start(&process, ISOLATE_DESCRIBE, start, read_description, &reading, &generation, diag);
    }
    isolate_process_deinit(&process);
    return status == INLAY_OK ? reading.status : status;
}

inlay_status remote_open(const char *helper, const char *path, int fd, const inlay_plugin **out_plugin,
                         inlay_diag *diag)
{
    isolate_plugin *plugin = calloc(1, sizeof *plugin);
    inlay_status status = INLAY_OK;

    if (plugin == NULL)
        return no_memory(diag, "to describe the plugin");
    plugin->helper = arena_string(&plugin->arena, helper);
    plugin->path = arena_string(&plugin->arena, path);
    plugin->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (plugin->helper == NULL || plugin->path == NULL || plugin->fd < 0)
        status = no_memory(diag, "to describe the plugin");
    if (status == INLAY_OK)
        status = describe(plugin, diag);
    if (status != INLAY_OK) {
        close_plugin(plugin);
        return status;
    }
    plugin->table.ctx = plugin;
    plugin->table.shutdown = close_plugin;
    *out_plugin = &plugin->table;
    return INLAY_OK;
}
