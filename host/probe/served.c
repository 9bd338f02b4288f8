#include "probe/served.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "probe/load.h"
#include "probe/restrict.h"
#include "probe/trial.h"
#include "threads/run.h"
#include "threads/threads.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The open provider. Written by the first call, before other threads exist. */
static const inlay_provider *table;
static void *state;

static _Thread_local isolate_channel *current; /* the channel that this thread serves */

static inlay_status call_host(isolate_channel *channel, uint32_t kind)
{
    channel->callback.kind = kind;
    isolate_set_state(channel, ISOLATE_CALLBACK);
    while (isolate_wait_state(channel, ISOLATE_CALLBACK, channel->spins, 0) == ISOLATE_CALLBACK)
        continue;
    return channel->callback.status;
}

/* Logs of threads that serve no call are dropped. */
static void log_to_host(void *user, uint32_t level, const char *text)
{
    isolate_channel *channel = current;

    (void)user;
    if (channel == NULL)
        return;
    channel->callback.level = level;
    (void)snprintf(channel->callback.text, sizeof channel->callback.text, "%s", text);
    (void)call_host(channel, ISOLATE_LOG);
}

static inlay_status poll_host(void *ctx)
{
    return (inlay_status)__atomic_load_n(&((isolate_channel *)ctx)->stop, __ATOMIC_RELAXED);
}

static void put_provider(isolate_writer *out, const plugin_provider *provider)
{
    const inlay_provider *from = provider->table;

    isolate_put_text(out, from->name);
    isolate_put_text(out, from->description);
    isolate_put_u64(out, from->device_kind);
    isolate_put_u64(out, from->flags);
    isolate_put_u64(out, from->poll_ms);
    isolate_put_u64(out, from->default_domain);
    isolate_put_u64(out, from->cost_region != NULL);
    isolate_put_text(out, from->default_domain > 0 ? provider->domains[from->default_domain - 1].name : NULL);
    isolate_put_u64(out, from->option_count);
    for (uint32_t i = 0; i < from->option_count; i++) {
        const inlay_option *option = &provider->options[i];

        isolate_put_text(out, option->name);
        isolate_put_text(out, option->doc);
        isolate_put_text(out, option->default_value);
        isolate_put_text(out, option->choices);
        isolate_put_u64(out, (uint64_t)option->min);
        isolate_put_u64(out, (uint64_t)option->max);
        isolate_put_u64(out, option->kind);
    }
}

static inlay_status describe(isolate_channel *channel, inlay_diag *diag)
{
    const isolate_start *start = channel->request;
    isolate_writer out = { channel->outbox, channel->outbox + ISOLATE_OUTBOX_BYTES, false };
    plugin_module *module = NULL;
    inlay_status status = restrict_opening(diag);

    if (status == INLAY_OK)
        status = load_plugin(ISOLATE_FILE_FD, start->path, &module, diag);
    if (status != INLAY_OK)
        return status;
    isolate_put_text(&out, module->table.name);
    isolate_put_text(&out, module->table.version);
    isolate_put_text(&out, module->table.build_id);
    isolate_put_u64(&out, module->table.abi_minor);
    isolate_put_u64(&out, module->table.operator_count);
    isolate_put_u64(&out, module->file.provider_count);
    for (uint32_t i = 0; i < module->file.provider_count; i++)
        put_provider(&out, &module->providers[i]);
    channel->outbox_bytes = (uint32_t)(out.at - channel->outbox);
    return out.failed ? inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "its description is too long to be isolated") : INLAY_OK;
}

static const void *extension(const char *name)
{
    return table->extension != NULL ? table->extension(state, name) : NULL;
}

/* Runs the nodes of the probe, because libraries open files when they are first used: code, tables of a CPU. */
static void warm_up(const plugin_module *module)
{
    static struct guard guard;

    guard_init(&guard, table, table->name, state, module);
    trial_run_provider(module, &guard);
}

static inlay_status create(isolate_channel *channel, inlay_diag *diag)
{
    const isolate_start *start = channel->request;
    const inlay_create_args args = { .struct_size = sizeof args,
                                     .options = start->options,
                                     .option_count = start->option_count,
                                     .option_stride = sizeof *start->options,
                                     /* the provider's own memory domains are replaced by host memory */
                                     .first_domain = INLAY_DOMAIN_HOST,
                                     .max_threads = start->max_threads };
    const inlay_ext_weights *weights;
    const inlay_ext_integers *integers;
    plugin_module *module = NULL;
    inlay_status status = INLAY_OK;

    INLAY_TRY(host_log_add(log_to_host, NULL));
    INLAY_TRY(restrict_opening(diag));
    INLAY_TRY(load_plugin(ISOLATE_FILE_FD, start->path, &module, diag));
    if (start->provider >= module->file.provider_count)
        return inlay_fail(diag, INLAY_NOT_FOUND, "the file has other providers than before");
    table = module->providers[start->provider].table;
    INLAY_TRY(table->create(table->ctx, host_table(), &args, &state, diag));
    weights = extension(INLAY_EXT_WEIGHTS);
    integers = extension(INLAY_EXT_INTEGERS);
    memset(&channel->result, 0, sizeof channel->result);
    channel->result.create.has_weights = weights != NULL && INLAY_HAS(weights, packed_products);
    channel->result.create.has_integers = integers != NULL && INLAY_HAS(integers, fast_products);
    if (channel->result.create.has_weights != 0)
        channel->result.create.packed_products = weights->packed_products;
    if (channel->result.create.has_integers != 0)
        channel->result.create.fast_products = integers->fast_products;
    warm_up(module);
    status = restrict_system_calls(diag);
done:
    return status;
}

typedef struct offer_sink {
    isolate_channel *channel;
    isolate_writer out;
} offer_sink;

/* Writes a record that `put` produces; has the host read the outbox if the record does not fit. */
static inlay_status put_record(offer_sink *sink, void (*put)(isolate_writer *out, const void *record),
                               const void *record)
{
    isolate_channel *channel = sink->channel;
    isolate_writer before = sink->out;

    put(&sink->out, record);
    if (sink->out.failed && before.at > channel->outbox) {
        inlay_status status;

        channel->outbox_bytes = (uint32_t)(before.at - channel->outbox);
        status = call_host(channel, ISOLATE_FLUSH);
        if (status != INLAY_OK)
            return status;
        before.at = channel->outbox;
        sink->out = before;
        put(&sink->out, record);
    }
    if (!sink->out.failed)
        return INLAY_OK;
    sink->out = before;
    return INLAY_LIMIT_EXCEEDED;
}

static void put_offer(isolate_writer *out, const void *record)
{
    const inlay_offer *offer = record;

    isolate_put_u64(out, 1);
    isolate_put(out, offer, sizeof *offer);
    isolate_put(out, offer->nodes, (size_t)offer->node_count * sizeof *offer->nodes);
    for (uint32_t i = 0; i < offer->placement_count && !out->failed; i++)
        isolate_put(out, INLAY_AT(inlay_placement, offer->placements, offer->placement_stride, i),
                    sizeof(inlay_placement));
}

static void put_refusal(isolate_writer *out, const void *record)
{
    const inlay_refusal *refusal = record;

    isolate_put_u64(out, 2);
    isolate_put_u64(out, refusal->node);
    isolate_put_u64(out, refusal->code);
    isolate_put_text(out, refusal->text);
    isolate_put_text(out, refusal->accepted_if);
}

static inlay_status send_offer(void *ctx, const inlay_offer *offer)
{
    inlay_offer copy = { 0 };

    memcpy(&copy, offer, offer->struct_size < sizeof copy ? (size_t)offer->struct_size : sizeof copy);
    copy.struct_size = sizeof copy;
    return put_record(ctx, put_offer, &copy);
}

static inlay_status send_refusal(void *ctx, const inlay_refusal *refusal)
{
    inlay_refusal copy = { 0 };

    memcpy(&copy, refusal, refusal->struct_size < sizeof copy ? (size_t)refusal->struct_size : sizeof copy);
    return put_record(ctx, put_refusal, &copy);
}

static inlay_status assess(isolate_channel *channel, inlay_diag *diag)
{
    offer_sink own = { channel, { channel->outbox, channel->outbox + ISOLATE_OUTBOX_BYTES, false } };
    const inlay_assess_sink sink = {
        .struct_size = sizeof sink, .ctx = &own, .offer = send_offer, .refuse = send_refusal
    };
    inlay_assess_request request = *(const inlay_assess_request *)channel->request;
    inlay_status status;

    request.sink = &sink;
    status = table->assess(state, &request, diag);
    channel->outbox_bytes = (uint32_t)(own.out.at - channel->outbox);
    return status;
}

static inlay_status price(isolate_channel *channel, inlay_diag *diag)
{
    inlay_cost cost = { .struct_size = sizeof cost };
    const inlay_status status = channel->call == ISOLATE_COST
                                    ? table->cost(state, channel->request, &cost, diag)
                                    : table->cost_region(state, channel->request, &cost, diag);

    channel->result.cost = cost;
    return status;
}

/* A compiled region, and the aligned copies of constants that it requested. */
typedef struct served_region {
    inlay_compiled *compiled;
    const inlay_graph *graph; /* valid as long as the region */
    pthread_mutex_t lock;
    void **copies;
    uint32_t copy_count;
} served_region;

static const void *align_constant(void *ctx, uint32_t value, uint32_t alignment)
{
    served_region *region = ctx;
    const inlay_value_info *info = value < region->graph->value_count ? inlay_graph_value(region->graph, value) : NULL;
    void **copies, *copy = NULL;

    if (info == NULL || info->data == NULL || (uintptr_t)info->data % alignment == 0)
        return info != NULL ? info->data : NULL;
    if (posix_memalign(&copy, alignment < sizeof(void *) ? sizeof(void *) : alignment, info->data_bytes) != 0)
        return NULL;
    memcpy(copy, info->data, info->data_bytes);
    (void)pthread_mutex_lock(&region->lock);
    copies = realloc(region->copies, (region->copy_count + 1) * sizeof *copies);
    if (copies != NULL) {
        region->copies = copies;
        copies[region->copy_count++] = copy;
    }
    (void)pthread_mutex_unlock(&region->lock);
    if (copies == NULL)
        free(copy);
    return copies != NULL ? copy : NULL;
}

static void free_region(served_region *region)
{
    for (uint32_t i = 0; i < region->copy_count; i++)
        free(region->copies[i]);
    free(region->copies);
    (void)pthread_mutex_destroy(&region->lock);
    free(region);
}

static inlay_status compile(isolate_channel *channel, inlay_diag *diag)
{
    inlay_compile_request request = ((const isolate_compile *)channel->request)->request;
    served_region *region = calloc(1, sizeof *region);
    run_compile_hooks hooks = { .ctx = region, .align_constant = align_constant };
    const uint32_t limit = threads_set_limit(request.max_threads);
    uint64_t resident = 0;
    inlay_status status = INLAY_OUT_OF_MEMORY;

    if (region != NULL) {
        (void)pthread_mutex_init(&region->lock, NULL);
        region->graph = request.graph;
        request.handle = &hooks;
        request.ctx = channel;
        request.poll = poll_host;
        request.resident_bytes = &resident;
        status = table->compile(state, &request, &region->compiled, diag);
        if (status != INLAY_OK)
            free_region(region);
    }
    (void)threads_set_limit(limit);
    channel->result.compile.compiled = (uintptr_t)region;
    channel->result.compile.resident_bytes = resident;
    return status;
}

static inlay_status specialize(isolate_channel *channel, inlay_diag *diag)
{
    const isolate_specialize *arguments = channel->request;
    served_region *region = (served_region *)(uintptr_t)arguments->compiled;
    inlay_specialize_request request = arguments->request;
    run_compile_hooks hooks = { .ctx = region, .align_constant = align_constant };
    const uint32_t limit = threads_set_limit(request.max_threads);
    inlay_instance *instance = NULL;
    inlay_status status;

    request.handle = &hooks;
    request.ctx = channel;
    request.poll = poll_host;
    status = table->specialize(state, region->compiled, &request, &instance, diag);
    (void)threads_set_limit(limit);
    channel->result.specialize.instance = (uintptr_t)instance;
    channel->result.specialize.workspace_bytes = request.workspace_bytes;
    channel->result.specialize.workspace_alignment = request.workspace_alignment;
    return status;
}

static inlay_status release(const isolate_channel *channel)
{
    const isolate_release *what = channel->request;
    served_region *region = (served_region *)(uintptr_t)what->compiled;

    if (channel->call == ISOLATE_RELEASE_INSTANCE) {
        table->release_instance(state, region->compiled, (inlay_instance *)(uintptr_t)what->instance);
        return INLAY_OK;
    }
    table->release_compiled(state, region->compiled);
    free_region(region);
    return INLAY_OK;
}

static inlay_status alloc_output(void *ctx, uint32_t output, uint32_t rank, const int64_t *dims, inlay_buffer *out)
{
    isolate_channel *channel = ctx;
    inlay_status status;

    channel->callback.output = output;
    channel->callback.rank = rank;
    if (rank > 0)
        memcpy(channel->callback.dims, dims, rank * sizeof *dims);
    status = call_host(channel, ISOLATE_OUTPUT_ALLOC);
    *out = channel->callback.buffer;
    return status;
}

/* The workspace of this thread, which grows as needed; NULL: out of memory. */
static void *reserve_workspace(uint64_t bytes, uint64_t alignment)
{
    static _Thread_local void *workspace;
    static _Thread_local uint64_t room;

    if (bytes > room || (uintptr_t)workspace % alignment != 0) {
        free(workspace);
        workspace = NULL;
        room = bytes;
        if (posix_memalign(&workspace, alignment, bytes > 0 ? bytes : 1) != 0)
            workspace = NULL;
        if (workspace == NULL)
            room = 0;
    }
    return workspace;
}

static inlay_status execute(isolate_channel *channel, inlay_diag *diag)
{
    const isolate_execute *arguments = channel->request;
    const served_region *region = (const served_region *)(uintptr_t)arguments->compiled;
    inlay_exec_args args = arguments->args;
    const uint64_t alignment = arguments->workspace_alignment < 64 ? 64 : arguments->workspace_alignment;
    struct inlay_run run = { .cancel = &channel->stop,
                             .deadline_ns = args.deadline_ns,
                             .max_threads = arguments->max_threads,
                             .priority = args.priority,
                             .power = args.power,
                             .watched = 1,
                             .ctx = channel,
                             .output_alloc = alloc_output };

    args.run = &run;
    args.cancel = &channel->stop;
    args.diag = diag;
    if (arguments->workspace_bytes > 0) {
        void *workspace = reserve_workspace(arguments->workspace_bytes, alignment);

        if (workspace == NULL)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the workspace");
        args.workspace = (inlay_buffer){ .handle = (uintptr_t)workspace, .bytes = arguments->workspace_bytes };
    }
    return table->execute(state, region->compiled, (inlay_instance *)(uintptr_t)arguments->instance, &args);
}

inlay_status served_call(isolate_channel *channel)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = INLAY_UNSUPPORTED;

    current = channel;
    switch (channel->call) {
    case ISOLATE_DESCRIBE:
        status = describe(channel, &diag);
        break;
    case ISOLATE_CREATE:
        status = create(channel, &diag);
        break;
    case ISOLATE_ASSESS:
        status = assess(channel, &diag);
        break;
    case ISOLATE_COST:
    case ISOLATE_COST_REGION:
        status = price(channel, &diag);
        break;
    case ISOLATE_COMPILE:
        status = compile(channel, &diag);
        break;
    case ISOLATE_SPECIALIZE:
        status = specialize(channel, &diag);
        break;
    case ISOLATE_RELEASE_COMPILED:
    case ISOLATE_RELEASE_INSTANCE:
        status = release(channel);
        break;
    case ISOLATE_EXECUTE:
        status = execute(channel, &diag);
        break;
    default:
        break;
    }
    if (status != INLAY_OK)
        channel->diag = diag;
    return status;
}
