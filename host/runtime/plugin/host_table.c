/* The function table that every plugin gets: thin wrappers of functions in other folders. */
#include "base/clock.h"
#include "base/core_speed.h"
#include "inlay/check.h"
#include "base/memory.h"
#include "inlay/extensions.h"
#include "inlay/plugin.h"
#include "plugin/plugin.h"
#include "plugin/schemas.h"
#include "threads/fence.h"
#include "threads/fork.h"
#include "threads/run.h"
#include "threads/threads.h"
#include "kit/memory_speed.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct listener {
    plugin_log_fn log;
    void *user;
    uint32_t count;
};

static struct listener *listeners;
static uint32_t listener_count;
static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((constructor)) void guard_log(void)
{
    fork_guard(&log_mutex);
}

inlay_status host_log_add(plugin_log_fn log, void *user)
{
    inlay_status status = INLAY_OK;
    uint32_t i = 0;

    if (log == NULL)
        return INLAY_OK;
    (void)pthread_mutex_lock(&log_mutex);
    while (i < listener_count && (listeners[i].log != log || listeners[i].user != user))
        i++;
    if (i == listener_count) {
        if (!LIST_GROW(listeners, listener_count)) {
            status = INLAY_OUT_OF_MEMORY;
            goto done;
        }
        listeners[listener_count++] = (struct listener){ .log = log, .user = user };
    }
    listeners[i].count++;
done:
    (void)pthread_mutex_unlock(&log_mutex);
    return status;
}

void host_log_remove(plugin_log_fn log, void *user)
{
    if (log == NULL)
        return;
    (void)pthread_mutex_lock(&log_mutex);
    for (uint32_t i = 0; i < listener_count; i++) {
        if (listeners[i].log == log && listeners[i].user == user) {
            INLAY_CHECK(listeners[i].count > 0);
            if (--listeners[i].count == 0)
                listeners[i] = listeners[--listener_count];
            break;
        }
    }
    if (listener_count == 0) {
        free(listeners);
        listeners = NULL;
    }
    (void)pthread_mutex_unlock(&log_mutex);
}

/* The lock is held while listeners run, so that a removed one is never called afterwards. Listeners must not log
 * through this table. */
static void table_log(void *ctx, uint32_t level, const char *text)
{
    (void)ctx;
    (void)pthread_mutex_lock(&log_mutex);
    for (uint32_t i = 0; i < listener_count; i++)
        listeners[i].log(listeners[i].user, level, text != NULL ? text : "");
    (void)pthread_mutex_unlock(&log_mutex);
}

static inlay_status table_poll(void *ctx, inlay_run *run)
{
    (void)ctx;
    return run != NULL ? run_poll(run) : INLAY_OK;
}

static inlay_status table_parallel_for(void *ctx, inlay_run *run, int64_t count, int64_t grain, inlay_parallel_fn fn,
                                       void *user)
{
    (void)ctx;
    return threads_parallel_for(run, count, grain, fn, user);
}

static uint32_t table_thread_count(void *ctx, inlay_run *run)
{
    (void)ctx;
    return threads_limit(run);
}

static inlay_status table_output_alloc(void *ctx, inlay_run *run, const inlay_output_request *request,
                                       inlay_buffer *out)
{
    (void)ctx;
    *out = (inlay_buffer){ 0 };
    if (run == NULL || run->output_alloc == NULL || !INLAY_HAS(request, rank) || request->rank > INLAY_MAX_RANK ||
        (request->rank > 0 && request->dims == NULL))
        return INLAY_INVALID_ARGUMENT;
    for (uint32_t d = 0; d < request->rank; d++)
        if (request->dims[d] < 0)
            return INLAY_INVALID_ARGUMENT;
    return run->output_alloc(run->ctx, request->output, request->rank, request->dims, out);
}

static char *table_string_alloc(void *ctx, inlay_run *run, uint64_t bytes)
{
    (void)ctx;
    return run != NULL && run->string_alloc != NULL ? run->string_alloc(run->ctx, bytes) : NULL;
}

static void table_fence_signal(void *ctx, inlay_fence fence, inlay_status status, const inlay_diag *why)
{
    (void)ctx;
    fence_signal(fence, status, why);
}

static inlay_status table_fence_wait(void *ctx, inlay_run *run, inlay_fence fence, inlay_diag *diag)
{
    (void)ctx;
    return fence_wait(fence, run, diag);
}

static void table_fence_notify(void *ctx, inlay_fence_notice *notice)
{
    (void)ctx;
    fence_notify(notice);
}

static uint32_t table_fence_forget(void *ctx, inlay_fence_notice *notice)
{
    (void)ctx;
    return fence_forget(notice);
}

static uint32_t table_fence_query(void *ctx, inlay_fence fence, inlay_status *out_status)
{
    (void)ctx;
    return fence_reached(fence, out_status);
}

static const void *table_align_constant(void *ctx, void *compile, uint32_t value, uint32_t alignment)
{
    const run_compile_hooks *hooks = compile;

    (void)ctx;
    if (hooks == NULL || alignment == 0 || alignment > 4096 || (alignment & (alignment - 1)) != 0)
        return NULL;
    return hooks->align_constant(hooks->ctx, value, alignment);
}

static void table_release_constant(void *ctx, void *compile, uint32_t value)
{
    const run_compile_hooks *hooks = compile;

    (void)ctx;
    if (hooks != NULL && hooks->release_constant != NULL)
        hooks->release_constant(hooks->ctx, value);
}

static inlay_status table_take_pack(void *ctx, void *compile, const void *key, uint64_t key_bytes, uint64_t bytes,
                                    void **out_data, uint32_t *out_known)
{
    const run_compile_hooks *hooks = compile;

    (void)ctx;
    *out_data = NULL;
    *out_known = 0;
    if (hooks == NULL || hooks->take_pack == NULL || (key == NULL && key_bytes > 0))
        return INLAY_UNSUPPORTED;
    return hooks->take_pack(hooks->ctx, key, key_bytes, bytes, out_data, out_known);
}

static void table_keep_pack(void *ctx, void *compile, const void *data)
{
    const run_compile_hooks *hooks = compile;

    (void)ctx;
    if (hooks != NULL && hooks->keep_pack != NULL)
        hooks->keep_pack(hooks->ctx, data);
}

static void table_divide_pack(void *ctx, void *compile, const void *data, uint64_t bytes, uint32_t part_count)
{
    const run_compile_hooks *hooks = compile;

    (void)ctx;
    if (hooks != NULL && hooks->divide_pack != NULL && part_count > 0 && bytes % part_count == 0)
        hooks->divide_pack(hooks->ctx, data, bytes, part_count);
}

static inlay_status table_need_parts(void *ctx, inlay_run *run, const inlay_pack_parts *parts, uint32_t *out_count)
{
    (void)ctx;
    if (!INLAY_HAS(parts, places))
        return INLAY_INVALID_ARGUMENT;
    for (uint64_t i = 0; parts->places != NULL && i < (uint64_t)parts->data_count * parts->part_count; i++)
        parts->places[i] = NULL;
    *out_count = parts->part_count;
    return run != NULL && run->parts != NULL ? run->parts->need(run->parts->ctx, parts, out_count) : INLAY_OK;
}

static void table_done_parts(void *ctx, inlay_run *run, const inlay_pack_parts *parts)
{
    (void)ctx;
    if (run != NULL && run->parts != NULL)
        run->parts->done(run->parts->ctx, parts);
}

static const void *table_open_timings(void *ctx, void *compile)
{
    (void)ctx;
    return compile != NULL ? ((const run_compile_hooks *)compile)->timings : NULL;
}

static double table_find_timing(void *ctx, const void *timings, const void *key, uint64_t key_bytes)
{
    const run_timings *source = timings;

    (void)ctx;
    return source != NULL && key != NULL ? source->find(source->ctx, key, key_bytes) : -1;
}

static uint32_t table_steps_wanted(void *ctx, inlay_run *run)
{
    (void)ctx;
    return run != NULL && run->part != NULL;
}

static void table_step_done(void *ctx, inlay_run *run, uint32_t node, uint64_t begin_ns, uint64_t end_ns)
{
    (void)ctx;
    if (run != NULL && run->part != NULL)
        run->part(run->part_ctx, node, NULL, begin_ns, end_ns);
}

static void table_named_step(void *ctx, inlay_run *run, uint32_t node, const char *name, uint64_t begin_ns,
                             uint64_t end_ns)
{
    (void)ctx;
    if (run != NULL && run->part != NULL)
        run->part(run->part_ctx, node, name, begin_ns, end_ns);
}

static void table_gather(void *ctx, inlay_run *run)
{
    (void)ctx;
    threads_gather(run);
}

static const inlay_speed *table_speed(void *ctx)
{
    (void)ctx;
    return core_speed();
}

static const memory_speed *table_memory_speed(void *ctx)
{
    (void)ctx;
    return core_memory();
}

static const void *table_extension(void *ctx, const char *name)
{
    static const inlay_ext_constants constants = { .struct_size = sizeof constants, .release = table_release_constant };
    static const inlay_ext_packs packs = { .struct_size = sizeof packs,
                                           .take = table_take_pack,
                                           .keep = table_keep_pack,
                                           .divide = table_divide_pack,
                                           .need = table_need_parts,
                                           .done = table_done_parts };

    static const inlay_ext_timings timings = { .struct_size = sizeof timings,
                                               .open = table_open_timings,
                                               .find = table_find_timing };
    static const inlay_ext_steps steps = {
        .struct_size = sizeof steps, .wanted = table_steps_wanted, .done = table_step_done, .named = table_named_step
    };

    static const inlay_ext_schemas schemas = { .struct_size = sizeof schemas, .find = schema_find };
    static const inlay_ext_team team = { .struct_size = sizeof team, .gather = table_gather };
    static const ext_memory_speed memory = { .struct_size = sizeof memory, .get = table_memory_speed };
    static const inlay_ext_speed speed = { .struct_size = sizeof speed, .get = table_speed };

    (void)ctx;
    if (strcmp(name, INLAY_EXT_STEPS) == 0)
        return &steps;
    if (strcmp(name, INLAY_EXT_TEAM) == 0)
        return &team;
    if (strcmp(name, INLAY_EXT_SPEED) == 0)
        return &speed;
    if (strcmp(name, EXT_MEMORY_SPEED) == 0)
        return &memory;
    if (strcmp(name, INLAY_EXT_PACKS) == 0)
        return &packs;
    if (strcmp(name, INLAY_EXT_TIMINGS) == 0)
        return &timings;
    if (strcmp(name, INLAY_EXT_SCHEMAS) == 0)
        return &schemas;
    return strcmp(name, INLAY_EXT_CONSTANTS) == 0 ? &constants : NULL;
}

const inlay_host *host_table(void)
{
    static const inlay_host table = {
        .struct_size = sizeof table,
        .abi_major = INLAY_ABI_MAJOR,
        .abi_minor = INLAY_ABI_MINOR,
        .abi_major_oldest = INLAY_ABI_MAJOR,
        .log = table_log,
        .parallel_for = table_parallel_for,
        .thread_count = table_thread_count,
        .output_alloc = table_output_alloc,
        .string_alloc = table_string_alloc,
        .poll = table_poll,
        .fence_signal = table_fence_signal,
        .fence_wait = table_fence_wait,
        .align_constant = table_align_constant,
        .extension = table_extension,
        .fence_notify = table_fence_notify,
        .fence_forget = table_fence_forget,
        .fence_query = table_fence_query,
    };
    return &table;
}
