#include "plugin/guard.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include <string.h>
#include "base/float_state.h"
#include "base/boundary.h"
#include "base/memory.h"
#include "base/provider_calls.h"
#include "plugin/crash.h"
#include "plugin/isolate.h"
#include "plugin/module.h"

/* Restores the floating-point state, and counts the calls that had changed it. */
static void restore_floats(struct guard *guard, float_state before)
{
    if (float_state_restore(before))
        (void)__atomic_add_fetch(&guard->float_changes, 1, __ATOMIC_RELAXED);
}

/* Evaluates `expression` as call `what` of the guard, at node `where`. */
#define GUARDED(guard_, what, where, expression)                                                                       \
    do {                                                                                                               \
        crash_scene before = crash_enter((guard_)->module, what, (guard_)->name, where);                               \
        float_state floats = float_state_get();                                                                        \
        expression;                                                                                                    \
        restore_floats(guard_, floats);                                                                                \
        crash_leave(&before);                                                                                          \
    } while (0)

/* A plugin always gets its own diag, never the host's. If the call failed, its text is forwarded to the host's diag. */
static inlay_status forward_error(const struct guard *guard, inlay_status status, inlay_diag *own, inlay_diag *diag)
{
    const boundary_call call = { guard->name, guard->module != NULL ? guard->module->file.name : NULL };

    return forward_plugin_error(&call, status, own, diag);
}

static const char *first_node(const inlay_graph *graph, const uint32_t *nodes, uint32_t count)
{
    if (graph->node_count == 0 || (nodes != NULL && (count == 0 || nodes[0] >= graph->node_count)))
        return NULL;
    return inlay_graph_node(graph, nodes != NULL ? nodes[0] : 0)->name.data;
}

static bool is_serial(const struct guard *guard)
{
    return (guard->real->flags & INLAY_PROVIDER_SERIAL_EXECUTE) != 0;
}

static void guard_destroy(void *state)
{
    struct guard *guard = state;
    GUARDED(guard, "destroy", NULL, guard->real->destroy(guard->state));
    serial_deinit(&guard->serial);
    (void)pthread_mutex_destroy(&guard->control_lock);
}

static void guard_quiesce(void *state)
{
    struct guard *guard = state;
    GUARDED(guard, "quiesce", NULL, guard->real->quiesce(guard->state));
}

static inlay_status guard_assess(void *state, const inlay_assess_request *request, inlay_diag *diag)
{
    struct guard *guard = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;
    const char *node = request->graph->node_count == 1 ? first_node(request->graph, NULL, 0) : NULL;

    GUARDED(guard, "assess", node, status = guard->real->assess(guard->state, request, &own));
    return forward_error(guard, status, &own, diag);
}

static inlay_status guard_cost(void *state, const inlay_cost_request *request, inlay_cost *cost, inlay_diag *diag)
{
    struct guard *guard = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(guard, "cost", first_node(request->graph, request->offer->nodes, request->offer->node_count),
            status = guard->real->cost(guard->state, request, cost, &own));
    return forward_error(guard, status, &own, diag);
}

static inlay_status guard_cost_region(void *state, const inlay_region_cost_request *request, inlay_cost *cost,
                                      inlay_diag *diag)
{
    struct guard *guard = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(guard, "cost_region", first_node(request->graph, request->nodes, request->node_count),
            status = guard->real->cost_region(guard->state, request, cost, &own));
    return forward_error(guard, status, &own, diag);
}

static inlay_status guard_compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                                  inlay_diag *diag)
{
    struct guard *guard = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(guard, "compile", first_node(request->graph, request->nodes, request->node_count),
            status = guard->real->compile(guard->state, request, out_compiled, &own));
    return forward_error(guard, status, &own, diag);
}

static void guard_release_compiled(void *state, inlay_compiled *compiled)
{
    struct guard *guard = state;
    GUARDED(guard, "release_compiled", NULL, guard->real->release_compiled(guard->state, compiled));
}

static inlay_status guard_specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                                     inlay_instance **out_instance, inlay_diag *diag)
{
    struct guard *guard = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(guard, "specialize", NULL,
            status = guard->real->specialize(guard->state, compiled, request, out_instance, &own));
    if (status == INLAY_OK && is_serial(guard) && !serial_add(&guard->serial, *out_instance)) {
        guard->real->release_instance(guard->state, compiled, *out_instance);
        return no_memory(diag, "to prepare a region");
    }
    return forward_error(guard, status, &own, diag);
}

static void guard_release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    struct guard *guard = state;

    if (is_serial(guard))
        serial_remove(&guard->serial, instance);
    GUARDED(guard, "release_instance", NULL, guard->real->release_instance(guard->state, compiled, instance));
}

static inlay_status guard_execute(void *state, inlay_compiled *compiled, inlay_instance *instance,
                                  const inlay_exec_args *args)
{
    struct guard *guard = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_exec_args guarded_args = *args;
    inlay_status status;

    guarded_args.diag = &own;
    status = is_serial(guard) ? serial_enter(&guard->serial, instance, args->run) : INLAY_OK;
    if (status != INLAY_OK)
        return args->diag != NULL ? inlay_fail(args->diag, status, "stopped while another run used the region")
                                  : status;
    if (crash_here.describe != NULL) { /* a step of a run, whose node is already recorded */
        float_state floats = float_state_get();

        status = guard->real->execute(guard->state, compiled, instance, &guarded_args);
        restore_floats(guard, floats);
    } else {
        GUARDED(guard, "execute", NULL, status = guard->real->execute(guard->state, compiled, instance, &guarded_args));
    }
    if (is_serial(guard))
        serial_leave(&guard->serial, instance, status == INLAY_OK ? args->signal : (inlay_fence){ 0, 0 });
    /* The run adds the names of node and provider. */
    if (status == INLAY_OK)
        return status;
    status = boundary_finish_status(status, &own);
    if (args->diag != NULL && INLAY_HAS(args->diag, tensor)) {
        INLAY_CHECK(args->diag != &own);
        own.struct_size = args->diag->struct_size;
        *args->diag = own;
    }
    return status;
}

static inlay_status guard_fingerprint(void *state, inlay_fingerprint *out, inlay_diag *diag)
{
    struct guard *guard = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(guard, "fingerprint", NULL, status = guard->real->fingerprint(guard->state, out, &own));
    if (status == INLAY_OK && (out->bytes > INLAY_MAX_FINGERPRINT_BYTES || (out->bytes > 0 && out->data == NULL)))
        status = inlay_fail(&own, INLAY_INVALID_ARGUMENT, "the fingerprint has %llu bytes%s; at most %d are possible",
                            (unsigned long long)out->bytes, out->data == NULL ? " and no data" : "",
                            INLAY_MAX_FINGERPRINT_BYTES);
    if (status == INLAY_OK && (out->flags & 0xffffu & ~(INLAY_FINGERPRINT_THREADS | INLAY_FINGERPRINT_PROFILE)) != 0)
        status = inlay_fail(&own, INLAY_UNSUPPORTED, "the fingerprint has flags 0x%x, which this host does not know",
                            out->flags);
    return forward_error(guard, status, &own, diag);
}

static inlay_status guard_cache_verdict(void *state, inlay_cache_request *request, inlay_diag *diag)
{
    struct guard *guard = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(guard, "cache_verdict", NULL, status = guard->real->cache_verdict(guard->state, request, &own));
    if (status == INLAY_OK && request->verdict != INLAY_CACHE_OPTIMAL && own.text[0] != '\0')
        (void)forward_error(guard, INLAY_UNSUPPORTED, &own, diag);
    return forward_error(guard, status, &own, diag);
}

/* The domain determines whether a handle is an address, so it does not rely on the plugin to set it. Handle 0 means
 * "no memory" to the host, which would neither use nor free such a buffer. */
static inlay_status forward_buffer(const struct guard *guard, const char *call, inlay_status status, uint32_t domain,
                                   inlay_buffer *out, inlay_diag *own, inlay_diag *diag)
{
    if (status == INLAY_OK && out->handle == 0)
        status = inlay_fail(own, INLAY_INTERNAL, "%s succeeded with handle 0, which no buffer may have", call);
    if (status == INLAY_OK)
        out->domain = domain;
    return forward_error(guard, status, own, diag);
}

static inlay_status guard_buffer_alloc(void *state, const inlay_alloc_request *request, inlay_buffer *out,
                                       inlay_diag *diag)
{
    struct guard *guard = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(guard, "buffer_alloc", NULL, status = guard->real->buffer_alloc(guard->state, request, out, &own));
    return forward_buffer(guard, "buffer_alloc", status, request->domain, out, &own, diag);
}

static void guard_buffer_free(void *state, const inlay_free_request *request)
{
    struct guard *guard = state;
    GUARDED(guard, "buffer_free", NULL, guard->real->buffer_free(guard->state, request));
}

static inlay_status guard_buffer_copy(void *state, const inlay_copy_request *request, inlay_diag *diag)
{
    struct guard *guard = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(guard, "buffer_copy", NULL, status = guard->real->buffer_copy(guard->state, request, &own));
    return forward_error(guard, status, &own, diag);
}

static inlay_status guard_bind(void *state, inlay_compiled *compiled, inlay_instance *instance,
                               const inlay_bind_args *args, inlay_binding **out_binding, inlay_diag *diag)
{
    struct guard *guard = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(guard, "bind", NULL, status = guard->real->bind(guard->state, compiled, instance, args, out_binding, &own));
    return forward_error(guard, status, &own, diag);
}

static void guard_release_binding(void *state, inlay_compiled *compiled, inlay_instance *instance,
                                  inlay_binding *binding)
{
    struct guard *guard = state;
    GUARDED(guard, "release_binding", NULL, guard->real->release_binding(guard->state, compiled, instance, binding));
}

static inlay_status guard_buffer_import(void *state, const inlay_import_request *request, inlay_buffer *out,
                                        inlay_diag *diag)
{
    struct guard *guard = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(guard, "buffer_import", NULL, status = guard->real->buffer_import(guard->state, request, out, &own));
    return forward_buffer(guard, "buffer_import", status, request->domain, out, &own, diag);
}

static inlay_status guard_buffer_export(void *state, const inlay_export_request *request, inlay_native_memory *out,
                                        inlay_diag *diag)
{
    struct guard *guard = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(guard, "buffer_export", NULL, status = guard->real->buffer_export(guard->state, request, out, &own));
    return forward_error(guard, status, &own, diag);
}

static inlay_status guard_buffer_map(void *state, const inlay_map_request *request, void **out_address,
                                     inlay_diag *diag)
{
    struct guard *guard = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(guard, "buffer_map", NULL, status = guard->real->buffer_map(guard->state, request, out_address, &own));
    return forward_error(guard, status, &own, diag);
}

static void guard_buffer_unmap(void *state, const inlay_unmap_request *request)
{
    struct guard *guard = state;
    GUARDED(guard, "buffer_unmap", NULL, guard->real->buffer_unmap(guard->state, request));
}

static inlay_status guard_list_kernels(void *state, const inlay_kernel_list *request, inlay_diag *diag)
{
    struct guard *guard = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(guard, "list kernels", NULL, status = guard->real_kernels->list(guard->state, request, &own));
    return forward_error(guard, status, &own, diag);
}

static inlay_status guard_time_kernels(void *state, inlay_compiled *compiled, const inlay_kernel_trial *trial,
                                       inlay_diag *diag)
{
    struct guard *guard = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(guard, "time kernels", NULL, status = guard->real_kernels->time(guard->state, compiled, trial, &own));
    return forward_error(guard, status, &own, diag);
}

static uint32_t guard_appends(void *state, inlay_compiled *compiled, uint32_t input, uint32_t output,
                              uint32_t *out_axis)
{
    struct guard *guard = state;
    uint32_t can;

    GUARDED(guard, "appends", NULL, can = guard->real_states->appends(guard->state, compiled, input, output, out_axis));
    return can;
}

static uint32_t guard_reads(void *state, inlay_compiled *compiled, uint32_t input, uint32_t axis)
{
    struct guard *guard = state;
    uint32_t can;

    GUARDED(guard, "reads", NULL, can = guard->real_states->reads(guard->state, compiled, input, axis));
    return can;
}

static uint32_t guard_may_branch(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    struct guard *guard = state;
    uint32_t may;

    GUARDED(guard, "may branch", NULL, may = guard->real_branches->may(guard->state, compiled, instance));
    return may;
}

inlay_status guard_control(struct guard *guard, inlay_control_args *args, inlay_diag *diag)
{
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(guard, "control", NULL, status = guard->real_control->control(guard->state, args, &own));
    return forward_error(guard, status, &own, diag);
}

static const void *find_extension(struct guard *guard, const char *name)
{
    const void *found;

    GUARDED(guard, "extension", NULL, found = guard->real->extension(guard->state, name));
    return found;
}

static void wrap_extensions(struct guard *guard)
{
    const inlay_ext_kernels *kernels = find_extension(guard, INLAY_EXT_KERNELS);
    const inlay_ext_states *states = find_extension(guard, INLAY_EXT_STATES);
    const inlay_ext_branches *branches = find_extension(guard, INLAY_EXT_BRANCHES);
    const inlay_ext_control *control = find_extension(guard, INLAY_EXT_CONTROL);

    if (kernels != NULL && INLAY_HAS(kernels, time) && kernels->list != NULL && kernels->time != NULL) {
        guard->real_kernels = kernels;
        guard->kernels = (inlay_ext_kernels){ .struct_size = sizeof guard->kernels,
                                              .list = guard_list_kernels,
                                              .time = guard_time_kernels };
    }
    if (states != NULL && INLAY_HAS(states, appends) && states->appends != NULL) {
        guard->real_states = states;
        guard->states =
            (inlay_ext_states){ .struct_size = sizeof guard->states,
                                .appends = guard_appends,
                                .reads = INLAY_HAS(states, reads) && states->reads != NULL ? guard_reads : NULL };
    }
    if (control != NULL && INLAY_HAS(control, control) && control->control != NULL)
        guard->real_control = control;
    if (branches != NULL && INLAY_HAS(branches, may) && branches->may != NULL) {
        guard->real_branches = branches;
        guard->branches = (inlay_ext_branches){ .struct_size = sizeof guard->branches, .may = guard_may_branch };
    }
}

static void guard_forget(void *state, const inlay_graph *graph)
{
    struct guard *guard = state;
    const isolate_control *control = find_extension(guard, ISOLATE_CONTROL);

    control->forget(guard->state, graph);
}

static const void *guard_extension(void *state, const char *name)
{
    static const extension_forget forget = { guard_forget };
    struct guard *guard = state;

    if (strcmp(name, EXTENSION_FORGET) == 0)
        return guard->module->isolated ? &forget : NULL;
    if (strcmp(name, INLAY_EXT_KERNELS) == 0)
        return guard->real_kernels != NULL ? &guard->kernels : NULL;
    if (strcmp(name, INLAY_EXT_STATES) == 0)
        return guard->real_states != NULL ? &guard->states : NULL;
    if (strcmp(name, INLAY_EXT_BRANCHES) == 0)
        return guard->real_branches != NULL ? &guard->branches : NULL;
    if (strcmp(name, INLAY_EXT_CONTROL) == 0)
        return NULL; /* only provider_control() calls it */
    return find_extension(guard, name);
}

void guard_init(struct guard *guard, const inlay_provider *real, const char *name, void *state,
                const struct plugin_module *module)
{
    inlay_provider *table = &guard->table;

    *guard = (struct guard){ .table = *real, .real = real, .name = name, .state = state, .module = module };
    serial_init(&guard->serial);
    (void)pthread_mutex_init(&guard->control_lock, NULL);
    INLAY_CHECK(real->destroy != NULL && real->execute != NULL); /* adopt_provider() refuses others */
    table->destroy = guard_destroy;
    table->assess = guard_assess;
    table->cost = guard_cost;
    table->compile = guard_compile;
    table->release_compiled = guard_release_compiled;
    table->specialize = guard_specialize;
    table->release_instance = guard_release_instance;
    table->execute = guard_execute;
    /* Optional functions stay NULL. */
    table->quiesce = real->quiesce != NULL ? guard_quiesce : NULL;
    table->fingerprint = real->fingerprint != NULL ? guard_fingerprint : NULL;
    table->cache_verdict = real->cache_verdict != NULL ? guard_cache_verdict : NULL;
    table->buffer_alloc = real->buffer_alloc != NULL ? guard_buffer_alloc : NULL;
    table->buffer_free = real->buffer_free != NULL ? guard_buffer_free : NULL;
    table->buffer_copy = real->buffer_copy != NULL ? guard_buffer_copy : NULL;
    table->buffer_map = real->buffer_map != NULL ? guard_buffer_map : NULL;
    table->buffer_unmap = real->buffer_unmap != NULL ? guard_buffer_unmap : NULL;
    table->cost_region = real->cost_region != NULL ? guard_cost_region : NULL;
    table->bind = real->bind != NULL ? guard_bind : NULL;
    table->release_binding = real->bind != NULL ? guard_release_binding : NULL;
    table->buffer_import = real->buffer_import != NULL ? guard_buffer_import : NULL;
    table->buffer_export = real->buffer_export != NULL ? guard_buffer_export : NULL;
    table->extension = real->extension != NULL ? guard_extension : NULL;
    if (real->extension != NULL)
        wrap_extensions(guard);
}

provider_execute_fn provider_direct(const inlay_provider *table, void **state)
{
    const struct guard *guard = *state;

    if (table->execute != guard_execute || is_serial(guard))
        return table->execute;
    INLAY_CHECK(guard->real != NULL);
    *state = guard->state;
    return guard->real->execute;
}

void *provider_own_state(const inlay_provider *table, void *state)
{
    return table->execute == guard_execute ? ((const struct guard *)state)->state : state;
}

const struct plugin_module *provider_module(const inlay_provider *table, const void *state)
{
    return table->execute == guard_execute ? ((const struct guard *)state)->module : NULL;
}

static inlay_status guard_infer(void *ctx, inlay_infer *infer, inlay_diag *diag)
{
    const guard_operator *guard = ctx;
    const boundary_call call = { NULL, guard->module != NULL ? guard->module->file.name : NULL };
    inlay_diag own = INLAY_DIAG_INIT;
    crash_scene before = crash_enter(guard->module, "infer", NULL, infer->node->name.data);
    float_state floats = float_state_get();
    inlay_status status = guard->infer(guard->ctx, infer, &own);

    (void)float_state_restore(floats);
    crash_leave(&before);
    return forward_plugin_error(&call, status, &own, diag);
}

void guard_wrap_operator(inlay_operator *op, guard_operator *guard, const struct plugin_module *module)
{
    if (op->infer == NULL)
        return;
    *guard = (guard_operator){ op->infer, op->ctx, module };
    op->infer = guard_infer;
    op->ctx = guard;
}
