/* remote/regions.c - compile and specialize of an isolated provider. */
#include "base/memory.h"
#include "inlay/check.h"
#include "remote/proxy.h"
#include <stdlib.h>
#include <string.h>

static bool add_constant(proxy_compiled *region, const inlay_graph *graph, uint32_t value)
{
    isolate_constant *constant = region->graph->constants[value];

    if (constant == NULL || region->used[value] != 0)
        return true;
    if (!LIST_GROW(region->constants, region->constant_count))
        return false;
    region->constants[region->constant_count++] =
        (proxy_constant){ constant, inlay_graph_value(graph, value)->data, value, false };
    return true;
}

/* Lists the values of the region's nodes, and the constants among them. */
static bool list_values(proxy_compiled *region, const inlay_compile_request *request)
{
    const inlay_graph *graph = request->graph;
    bool ok;

    region->used = calloc((size_t)graph->value_count + 1, 1);
    ok = region->used != NULL;
    for (uint32_t i = 0; i < request->node_count && ok; i++) {
        const inlay_node_info *node = inlay_graph_node(graph, request->nodes[i]);

        for (uint32_t k = 0; k < node->input_count && ok; k++) {
            if (node->inputs[k] == INLAY_NONE)
                continue;
            ok = add_constant(region, graph, node->inputs[k]);
            region->used[node->inputs[k]] = 1;
        }
        for (uint32_t k = 0; k < node->output_count; k++)
            if (node->outputs[k] != INLAY_NONE)
                region->used[node->outputs[k]] = 1;
    }
    return ok;
}

static const inlay_placement *copy_placements(isolate_arena *arena, const inlay_compile_request *request)
{
    const uint32_t count = request->input_count + request->output_count;
    inlay_placement *copy = request->placements != NULL ? isolate_arena_alloc(arena, count * sizeof *copy) : NULL;

    for (uint32_t i = 0; copy != NULL && i < count; i++)
        copy[i] = *INLAY_AT(inlay_placement, request->placements, request->placement_stride, i);
    return copy;
}

/* Copies the request to the shared arguments. process.lock is held. */
static bool pack_compile(isolate_proxy *self, proxy_compiled *region, const inlay_compile_request *request)
{
    isolate_arena *arena = &region->arena;
    isolate_compile *copy;
    inlay_compile_request *to;

    arena->heap = &self->process.arguments;
    region->answers = isolate_heap_alloc(&self->process.results, request->graph->value_count);
    region->cookies = malloc((size_t)request->offer_count * sizeof *region->cookies + 1);
    copy = region->request = isolate_arena_alloc(arena, sizeof *copy);
    if (region->answers == NULL || region->cookies == NULL || copy == NULL)
        return false;
    if (request->offer_count > 0)
        memcpy(region->cookies, request->cookies, request->offer_count * sizeof *region->cookies);
    to = &copy->request;
    *to = (inlay_compile_request){
        .struct_size = sizeof *to,
        .graph = region->graph->graph,
        .nodes = isolate_arena_copy(arena, request->nodes, request->node_count * sizeof *request->nodes),
        .cookies = isolate_arena_alloc(arena, request->offer_count * sizeof *request->cookies),
        .inputs = isolate_arena_copy(arena, request->inputs, request->input_count * sizeof *request->inputs),
        .outputs = isolate_arena_copy(arena, request->outputs, request->output_count * sizeof *request->outputs),
        .node_count = request->node_count,
        .offer_count = request->offer_count,
        .input_count = request->input_count,
        .output_count = request->output_count,
        .placements = copy_placements(arena, request),
        .placement_stride = sizeof *request->placements,
        .constants = region->answers,
        .profile = isolate_pack_states(arena, region->graph, NULL, request->profile, request->graph->value_count,
                                       request->profile_stride),
        .profile_stride = sizeof *request->profile,
        .max_threads = request->max_threads
    };
    return !arena->failed && list_values(region, request);
}

static void free_region(isolate_proxy *self, proxy_compiled *region)
{
    if (region->holds_offers)
        proxy_drop_offers(self, region->cookies, region->request->request.offer_count);
    if (region->graph != NULL) {
        (void)pthread_mutex_lock(&self->process.lock);
        for (uint32_t i = 0; i < region->constant_count; i++)
            if (region->constants[i].borrowed)
                isolate_constant_leave(region->constants[i].constant);
        isolate_arena_deinit(&region->arena);
        isolate_heap_free(&self->process.results, region->answers, region->graph->value_count);
        (void)pthread_mutex_unlock(&self->process.lock);
        proxy_release_graph(self, region->graph);
    }
    free(region->constants);
    free(region->cookies);
    free(region->used);
    (void)pthread_mutex_destroy(&region->lock);
    free(region);
}

/* Compiles in the process of the call's generation. The constants that the region reads are present. */
static inlay_status compile_now(isolate_proxy *self, proxy_call *call, proxy_compiled *region, isolate_wait *wait,
                                uint64_t *out_resident, inlay_diag *diag)
{
    const uint32_t value_count = region->graph->value_count;
    isolate_result result;
    inlay_status status;

    status = proxy_cookies(self, call, region->cookies, region->request->request.offer_count,
                           (uint64_t *)(uintptr_t)region->request->request.cookies, diag);
    if (status == INLAY_OK) {
        memset(region->answers, INLAY_CONST_BORROWED, value_count);
        status = proxy_make(self, call, ISOLATE_COMPILE, region->request, wait, diag);
    }
    if (status != INLAY_OK)
        return status;
    result = call->channel->result;
    region->generation = call->generation;
    region->remote = result.compile.compiled;
    if (out_resident != NULL)
        *out_resident = result.compile.resident_bytes;
    (void)pthread_mutex_lock(&self->process.lock);
    for (uint32_t i = 0; i < region->constant_count; i++) {
        proxy_constant *used = &region->constants[i];
        const bool borrowed = region->answers[used->value] == INLAY_CONST_BORROWED;

        if (borrowed && !used->borrowed)
            isolate_constant_enter(used->constant, used->data);
        if (!borrowed && used->borrowed)
            isolate_constant_leave(used->constant);
        used->borrowed = borrowed;
    }
    (void)pthread_mutex_unlock(&self->process.lock);
    return INLAY_OK;
}

struct compile_poll {
    isolate_proxy *self;
    void *ctx;
    inlay_status (*poll)(void *ctx);
};

static inlay_status poll_caller(void *ctx)
{
    const struct compile_poll *caller = ctx;

    return caller->poll != NULL ? caller->poll(caller->ctx) : INLAY_OK;
}

static inlay_status log_only(void *ctx, isolate_channel *channel, isolate_callback *callback)
{
    (void)channel;
    return proxy_log(((const struct compile_poll *)ctx)->self, callback);
}

/* The process has ended: the host withdraws the offers, and other providers run the nodes. */
static inlay_status decline(inlay_status status, inlay_diag *diag)
{
    if (status != INLAY_DEVICE_LOST)
        return status;
    diag->code = INLAY_UNSUPPORTED;
    diag->error_class = inlay_status_class(INLAY_UNSUPPORTED);
    return INLAY_UNSUPPORTED;
}

inlay_status proxy_compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                           inlay_diag *diag)
{
    isolate_proxy *self = state;
    proxy_compiled *region = calloc(1, sizeof *region);
    struct compile_poll caller = { self, request->ctx, request->poll };
    isolate_wait wait = { .poll = poll_caller, .callback = log_only, .ctx = &caller };
    uint64_t resident = 0;
    inlay_status status;
    proxy_call call;
    bool packed;

    if (region == NULL)
        return no_memory(diag, "to compile a region");
    (void)pthread_mutex_init(&region->lock, NULL);
    status = proxy_enter_graph(self, request->graph, &region->graph, diag);
    if (status != INLAY_OK) {
        free_region(self, region);
        return status;
    }
    (void)pthread_mutex_lock(&self->process.lock);
    packed = pack_compile(self, region, request);
    (void)pthread_mutex_unlock(&self->process.lock);
    if (packed)
        proxy_hold_offers(self, region->cookies, request->offer_count);
    region->holds_offers = packed;
    status = packed ? proxy_begin(self, &call, diag) : no_memory(diag, "to compile a region");
    if (status == INLAY_OK) {
        status = compile_now(self, &call, region, &wait, &resident, diag);
        proxy_end(self, &call);
    }
    proxy_leave_graph(self, region->graph, true);
    if (status != INLAY_OK) {
        free_region(self, region);
        return decline(status, diag);
    }
    if (request->resident_bytes != NULL)
        *request->resident_bytes = resident;
    *out_compiled = (inlay_compiled *)region;
    return INLAY_OK;
}

/* Releases an object of the process, unless it is one of an earlier generation. */
static void release_remote(isolate_proxy *self, uint32_t kind, uint32_t generation, isolate_release what)
{
    proxy_call call = { isolate_channel_take(&self->process, generation), generation };
    isolate_release *shared;

    if (call.channel == NULL)
        return;
    (void)pthread_mutex_lock(&self->process.lock);
    shared = isolate_heap_alloc(&self->process.arguments, sizeof *shared);
    (void)pthread_mutex_unlock(&self->process.lock);
    if (shared != NULL) {
        *shared = what;
        (void)!proxy_make(self, &call, kind, shared, NULL, NULL);
    }
    (void)pthread_mutex_lock(&self->process.lock);
    isolate_heap_free(&self->process.arguments, shared, sizeof *shared);
    (void)pthread_mutex_unlock(&self->process.lock);
    proxy_end(self, &call);
}

void proxy_release_compiled(void *state, inlay_compiled *compiled)
{
    proxy_compiled *region = (proxy_compiled *)compiled;

    release_remote(state, ISOLATE_RELEASE_COMPILED, region->generation, (isolate_release){ region->remote, 0 });
    free_region(state, region);
}

/* Withholds the data of large constants that the region does not keep: their pages may be dropped during the call. */
static void withhold_dropped(const proxy_compiled *region, inlay_value_state *values, uint32_t count)
{
    for (uint32_t i = 0; i < region->constant_count; i++) {
        const proxy_constant *used = &region->constants[i];

        if (!used->borrowed && used->value < count && isolate_heap_drops(used->constant->bytes))
            values[used->value].data = NULL;
    }
}

static bool pack_specialize(isolate_proxy *self, proxy_instance *instance, const inlay_specialize_request *request)
{
    const proxy_compiled *region = instance->compiled;
    isolate_arena *arena = &instance->arena;
    inlay_value_state *values;
    isolate_specialize *copy;

    arena->heap = &self->process.arguments;
    copy = instance->request = isolate_arena_alloc(arena, sizeof *copy);
    instance->plans = isolate_heap_alloc(&self->process.results, request->output_count * sizeof *instance->plans);
    instance->kinds = calloc((size_t)request->output_count + 1, sizeof *instance->kinds);
    if (copy == NULL || instance->plans == NULL || instance->kinds == NULL)
        return false;
    values = isolate_pack_states(arena, region->graph, region->used, request->values, request->value_count,
                                 request->value_stride);
    if (values != NULL)
        withhold_dropped(region, values, request->value_count);
    *copy = (isolate_specialize){
        .request = { .struct_size = sizeof copy->request,
                     .values = values,
                     .value_count = request->value_count,
                     .value_stride = sizeof *request->values,
                     .max_threads = request->max_threads,
                     .workspace_alignment = request->workspace_alignment,
                     .outputs = instance->plans,
                     .output_count = request->output_count,
                     .output_stride = sizeof *instance->plans },
    };
    return !arena->failed;
}

/* Calls specialize of the process. The region exists in its generation. */
static inlay_status specialize_now(isolate_proxy *self, proxy_call *call, proxy_instance *instance, isolate_wait *wait,
                                   inlay_diag *diag)
{
    isolate_result result;
    inlay_status status;

    instance->request->compiled = instance->compiled->remote;
    for (uint32_t i = 0; i < instance->request->request.output_count; i++)
        instance->plans[i] = (inlay_output_plan){ .alias = INLAY_NONE };
    status = proxy_make(self, call, ISOLATE_SPECIALIZE, instance->request, wait, diag);
    if (status != INLAY_OK)
        return status;
    result = call->channel->result;
    instance->remote = result.specialize.instance;
    instance->workspace_bytes = result.specialize.workspace_bytes;
    instance->workspace_alignment = result.specialize.workspace_alignment;
    __atomic_store_n(&instance->generation, call->generation, __ATOMIC_RELEASE);
    return INLAY_OK;
}

/* Compiles the region again if it was compiled in an earlier generation. region->lock is held. */
static inlay_status revive_region(isolate_proxy *self, proxy_call *call, proxy_compiled *region, inlay_diag *diag)
{
    inlay_status status;

    if (region->generation == call->generation)
        return INLAY_OK;
    (void)pthread_mutex_lock(&self->process.lock);
    for (uint32_t i = 0; i < region->constant_count; i++)
        isolate_constant_enter(region->constants[i].constant, region->constants[i].data);
    self->untrimmed = true;
    (void)pthread_mutex_unlock(&self->process.lock);
    status = compile_now(self, call, region, NULL, NULL, diag);
    (void)pthread_mutex_lock(&self->process.lock);
    for (uint32_t i = 0; i < region->constant_count; i++)
        isolate_constant_leave(region->constants[i].constant);
    (void)pthread_mutex_unlock(&self->process.lock);
    return status;
}

inlay_status proxy_revive(isolate_proxy *self, proxy_call *call, proxy_instance *instance, inlay_diag *diag)
{
    proxy_compiled *region = instance->compiled;
    inlay_status status;

    if (__atomic_load_n(&instance->generation, __ATOMIC_ACQUIRE) == call->generation)
        return INLAY_OK;
    (void)pthread_mutex_lock(&region->lock);
    status = revive_region(self, call, region, diag);
    if (status == INLAY_OK && instance->generation != call->generation)
        status = specialize_now(self, call, instance, NULL, diag);
    (void)pthread_mutex_unlock(&region->lock);
    return status;
}

static void free_instance(isolate_proxy *self, proxy_instance *instance)
{
    const uint32_t outputs = instance->compiled->request->request.output_count;

    proxy_free_frames(self, instance);
    (void)pthread_mutex_lock(&self->process.lock);
    isolate_arena_deinit(&instance->arena);
    isolate_heap_free(&self->process.results, instance->plans, outputs * sizeof *instance->plans);
    (void)pthread_mutex_unlock(&self->process.lock);
    free(instance->kinds);
    free(instance);
}

/* What the process plans for the outputs, as far as it is valid. */
static void take_plans(proxy_instance *instance, inlay_specialize_request *request)
{
    const uint32_t inputs = instance->compiled->request->request.input_count;

    for (uint32_t i = 0; i < request->output_count; i++) {
        const inlay_output_plan plan = instance->plans[i];
        inlay_output_plan *to = INLAY_AT_OUT(inlay_output_plan, request->outputs, request->output_stride, i);

        to->kind = instance->kinds[i] = plan.kind;
        to->max_bytes = plan.max_bytes;
        to->alias = plan.alias < inputs ? plan.alias : INLAY_NONE;
    }
}

inlay_status proxy_specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                              inlay_instance **out_instance, inlay_diag *diag)
{
    isolate_proxy *self = state;
    proxy_instance *instance = calloc(1, sizeof *instance);
    struct compile_poll caller = { self, request->ctx, request->poll };
    isolate_wait wait = { .poll = poll_caller, .callback = log_only, .ctx = &caller };
    inlay_status status;
    proxy_call call;
    bool packed;

    if (instance == NULL)
        return no_memory(diag, "to prepare a region");
    instance->compiled = (proxy_compiled *)compiled;
    (void)pthread_mutex_lock(&self->process.lock);
    packed = pack_specialize(self, instance, request);
    (void)pthread_mutex_unlock(&self->process.lock);
    status = packed ? proxy_begin(self, &call, diag) : no_memory(diag, "to prepare a region");
    if (status == INLAY_OK) {
        (void)pthread_mutex_lock(&instance->compiled->lock);
        status = revive_region(self, &call, instance->compiled, diag);
        (void)pthread_mutex_unlock(&instance->compiled->lock);
        if (status == INLAY_OK)
            status = specialize_now(self, &call, instance, &wait, diag);
        proxy_end(self, &call);
    }
    if (status != INLAY_OK) {
        free_instance(self, instance);
        return decline(status, diag);
    }
    take_plans(instance, request);
    request->workspace_bytes = 0; /* it is in the memory of the process */
    *out_instance = (inlay_instance *)instance;
    return INLAY_OK;
}

void proxy_release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    proxy_instance *own = (proxy_instance *)instance;

    INLAY_CHECK(own->compiled == (proxy_compiled *)compiled);
    release_remote(state, ISOLATE_RELEASE_INSTANCE, own->generation,
                   (isolate_release){ own->compiled->remote, own->remote });
    free_instance(state, own);
}
