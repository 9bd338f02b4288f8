#include "plugin/guard.h"
#include <string.h>
#include "base/float_state.h"
#include "base/boundary.h"
#include "plugin/crash.h"
#include "plugin/module.h"

/* Sets the state of floats back, and counts it where that was due. */
static void note_floats(struct guard *g, float_state before)
{
    if (float_state_restore(before))
        (void)__atomic_add_fetch(&g->float_changes, 1, __ATOMIC_RELAXED);
}

/* Runs `expression` as call `what` of guard g, at node `where`. */
#define GUARDED(g, what, where, expression)                                                                            \
    do {                                                                                                               \
        crash_scene before = crash_enter((g)->module, what, (g)->name, where);                                         \
        float_state floats = float_state_get();                                                                        \
        expression;                                                                                                    \
        note_floats(g, floats);                                                                                        \
        crash_leave(&before);                                                                                          \
    } while (0)

/* A plugin always gets a diag, and never the host's own: what it wrote becomes the host's when it failed. */
static inlay_status told(const struct guard *g, inlay_status status, inlay_diag *own, inlay_diag *diag)
{
    const boundary_call call = { g->name, g->module != NULL ? g->module->file.name : NULL };

    return boundary_tell(&call, status, own, diag);
}

static const char *first_node(const inlay_graph *g, const uint32_t *nodes, uint32_t count)
{
    if (g->node_count == 0 || (nodes != NULL && (count == 0 || nodes[0] >= g->node_count)))
        return NULL;
    return inlay_graph_node(g, nodes != NULL ? nodes[0] : 0)->name.data;
}

static void guard_destroy(void *state)
{
    struct guard *g = state;
    GUARDED(g, "destroy", NULL, g->real->destroy(g->state));
}

static void guard_quiesce(void *state)
{
    struct guard *g = state;
    GUARDED(g, "quiesce", NULL, g->real->quiesce(g->state));
}

static inlay_status guard_assess(void *state, const inlay_graph *snapshot, const uint8_t *candidates,
                                 const inlay_assess_sink *sink, inlay_diag *diag)
{
    struct guard *g = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;
    const char *node = snapshot->node_count == 1 ? first_node(snapshot, NULL, 0) : NULL;

    GUARDED(g, "assess", node, status = g->real->assess(g->state, snapshot, candidates, sink, &own));
    return told(g, status, &own, diag);
}

static inlay_status guard_cost(void *state, const inlay_cost_request *request, inlay_cost *cost)
{
    struct guard *g = state;
    inlay_status status;

    GUARDED(g, "cost", first_node(request->graph, request->offer->nodes, request->offer->node_count),
            status = g->real->cost(g->state, request, cost));
    return boundary_status(status);
}

static inlay_status guard_compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                                  inlay_diag *diag)
{
    struct guard *g = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(g, "compile", first_node(request->graph, request->nodes, request->node_count),
            status = g->real->compile(g->state, request, out_compiled, &own));
    return told(g, status, &own, diag);
}

static void guard_release_compiled(void *state, inlay_compiled *compiled)
{
    struct guard *g = state;
    GUARDED(g, "release_compiled", NULL, g->real->release_compiled(g->state, compiled));
}

static inlay_status guard_specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                                     inlay_instance **out_instance, inlay_diag *diag)
{
    struct guard *g = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(g, "specialize", NULL, status = g->real->specialize(g->state, compiled, request, out_instance, &own));
    return told(g, status, &own, diag);
}

static void guard_release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    struct guard *g = state;
    GUARDED(g, "release_instance", NULL, g->real->release_instance(g->state, compiled, instance));
}

static inlay_status guard_execute(void *state, inlay_compiled *compiled, inlay_instance *instance,
                                  const inlay_exec_args *args)
{
    struct guard *g = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_exec_args mine = *args;
    inlay_status status;

    mine.diag = &own;
    if (crash_here.describe != NULL) { /* a step of a run, which knows its node */
        float_state floats = float_state_get();

        status = g->real->execute(g->state, compiled, instance, &mine);
        note_floats(g, floats);
    } else {
        GUARDED(g, "execute", NULL, status = g->real->execute(g->state, compiled, instance, &mine));
    }
    /* The run names node and provider. */
    if (status == INLAY_OK)
        return status;
    status = boundary_settle(status, &own);
    if (args->diag != NULL && INLAY_HAS(args->diag, tensor)) {
        own.struct_size = args->diag->struct_size;
        *args->diag = own;
    }
    return status;
}

static inlay_status guard_fingerprint(void *state, char out[64], uint32_t *out_bytes)
{
    struct guard *g = state;
    inlay_status status;

    GUARDED(g, "fingerprint", NULL, status = g->real->fingerprint(g->state, out, out_bytes));
    return boundary_status(status);
}

static uint32_t guard_cache_verdict(void *state, const void *blob, uint64_t bytes, inlay_diag *why)
{
    struct guard *g = state;
    inlay_diag own = INLAY_DIAG_INIT;
    uint32_t answer;

    GUARDED(g, "cache_verdict", NULL, answer = g->real->cache_verdict(g->state, blob, bytes, &own));
    if (answer != INLAY_CACHE_OPTIMAL && own.text[0] != '\0')
        (void)told(g, INLAY_UNSUPPORTED, &own, why);
    return answer;
}

static inlay_status guard_buffer_alloc(void *state, uint32_t domain, uint64_t bytes, inlay_buffer *out,
                                       inlay_diag *diag)
{
    struct guard *g = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(g, "buffer_alloc", NULL, status = g->real->buffer_alloc(g->state, domain, bytes, out, &own));
    return told(g, status, &own, diag);
}

static void guard_buffer_free(void *state, const inlay_buffer *buffer)
{
    struct guard *g = state;
    GUARDED(g, "buffer_free", NULL, g->real->buffer_free(g->state, buffer));
}

static inlay_status guard_buffer_copy(void *state, inlay_run *run, const inlay_buffer *source,
                                      const inlay_buffer *target, const inlay_fence *waits, uint32_t wait_count,
                                      inlay_fence signal, inlay_diag *diag)
{
    struct guard *g = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(g, "buffer_copy", NULL,
            status = g->real->buffer_copy(g->state, run, source, target, waits, wait_count, signal, &own));
    return told(g, status, &own, diag);
}

static inlay_status guard_buffer_copies(void *state, const inlay_copy_request *request, inlay_diag *diag)
{
    struct guard *g = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(g, "buffer_copies", NULL, status = g->real->buffer_copies(g->state, request, &own));
    return told(g, status, &own, diag);
}

static inlay_status guard_bind(void *state, inlay_compiled *compiled, inlay_instance *instance,
                               const inlay_bind_args *args, inlay_binding **out_binding, inlay_diag *diag)
{
    struct guard *g = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(g, "bind", NULL, status = g->real->bind(g->state, compiled, instance, args, out_binding, &own));
    return told(g, status, &own, diag);
}

static void guard_release_binding(void *state, inlay_compiled *compiled, inlay_instance *instance,
                                  inlay_binding *binding)
{
    struct guard *g = state;
    GUARDED(g, "release_binding", NULL, g->real->release_binding(g->state, compiled, instance, binding));
}

static inlay_status guard_import_native(void *state, uint32_t domain, const inlay_native_memory *memory,
                                        inlay_buffer *out, inlay_diag *diag)
{
    struct guard *g = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(g, "import_native", NULL, status = g->real->import_native(g->state, domain, memory, out, &own));
    return told(g, status, &own, diag);
}

static inlay_status guard_export_native(void *state, const inlay_buffer *buffer, inlay_native_memory *out,
                                        inlay_diag *diag)
{
    struct guard *g = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(g, "export_native", NULL, status = g->real->export_native(g->state, buffer, out, &own));
    return told(g, status, &own, diag);
}

static inlay_status guard_buffer_map(void *state, const inlay_buffer *buffer, void **out_address, inlay_diag *diag)
{
    struct guard *g = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(g, "buffer_map", NULL, status = g->real->buffer_map(g->state, buffer, out_address, &own));
    return told(g, status, &own, diag);
}

static void guard_buffer_unmap(void *state, const inlay_buffer *buffer)
{
    struct guard *g = state;
    GUARDED(g, "buffer_unmap", NULL, g->real->buffer_unmap(g->state, buffer));
}

static inlay_status guard_import_host(void *state, uint32_t domain, void *address, uint64_t bytes, inlay_buffer *out,
                                      inlay_diag *diag)
{
    struct guard *g = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(g, "import_host", NULL, status = g->real->import_host(g->state, domain, address, bytes, out, &own));
    return told(g, status, &own, diag);
}

static inlay_status guard_list_kernels(void *state, inlay_compiled *compiled, inlay_instance *instance,
                                       inlay_status (*kernel)(void *ctx, const inlay_kernel *k), void *ctx)
{
    struct guard *g = state;
    inlay_status status;

    GUARDED(g, "list kernels", NULL, status = g->real_kernels->list(g->state, compiled, instance, kernel, ctx));
    return boundary_status(status);
}

static inlay_status guard_time_kernels(void *state, inlay_compiled *compiled, const inlay_kernel_trial *trial,
                                       inlay_diag *diag)
{
    struct guard *g = state;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    GUARDED(g, "time kernels", NULL, status = g->real_kernels->time(g->state, compiled, trial, &own));
    return told(g, status, &own, diag);
}

static uint32_t guard_appends(void *state, inlay_compiled *compiled, uint32_t input, uint32_t output,
                              uint32_t *out_axis)
{
    struct guard *g = state;
    uint32_t can;

    GUARDED(g, "appends", NULL, can = g->real_states->appends(g->state, compiled, input, output, out_axis));
    return can;
}

static uint32_t guard_reads(void *state, inlay_compiled *compiled, uint32_t input, uint32_t axis)
{
    struct guard *g = state;
    uint32_t can;

    GUARDED(g, "reads", NULL, can = g->real_states->reads(g->state, compiled, input, axis));
    return can;
}

static uint32_t guard_may_branch(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    struct guard *g = state;
    uint32_t may;

    GUARDED(g, "may branch", NULL, may = g->real_branches->may(g->state, compiled, instance));
    return may;
}

static const void *find_extension(struct guard *g, const char *name)
{
    const void *found;

    GUARDED(g, "extension", NULL, found = g->real->extension(g->state, name));
    return found;
}

static void wrap_extensions(struct guard *g)
{
    const inlay_ext_kernels *kernels = find_extension(g, INLAY_EXT_KERNELS);
    const inlay_ext_states *states = find_extension(g, INLAY_EXT_STATES);
    const inlay_ext_branches *branches = find_extension(g, INLAY_EXT_BRANCHES);

    if (kernels != NULL && INLAY_HAS(kernels, time) && kernels->list != NULL && kernels->time != NULL) {
        g->real_kernels = kernels;
        g->kernels = (inlay_ext_kernels){ .struct_size = sizeof g->kernels,
                                          .list = guard_list_kernels,
                                          .time = guard_time_kernels };
    }
    if (states != NULL && INLAY_HAS(states, appends) && states->appends != NULL) {
        g->real_states = states;
        g->states =
            (inlay_ext_states){ .struct_size = sizeof g->states,
                                .appends = guard_appends,
                                .reads = INLAY_HAS(states, reads) && states->reads != NULL ? guard_reads : NULL };
    }
    if (branches != NULL && INLAY_HAS(branches, may) && branches->may != NULL) {
        g->real_branches = branches;
        g->branches = (inlay_ext_branches){ .struct_size = sizeof g->branches, .may = guard_may_branch };
    }
}

static const void *guard_extension(void *state, const char *name)
{
    struct guard *g = state;

    if (strcmp(name, INLAY_EXT_KERNELS) == 0)
        return g->real_kernels != NULL ? &g->kernels : NULL;
    if (strcmp(name, INLAY_EXT_STATES) == 0)
        return g->real_states != NULL ? &g->states : NULL;
    if (strcmp(name, INLAY_EXT_BRANCHES) == 0)
        return g->real_branches != NULL ? &g->branches : NULL;
    return find_extension(g, name);
}

void guard_init(struct guard *g, const inlay_provider *real, const char *name, void *state,
                const struct plugin_module *module)
{
    inlay_provider *t = &g->table;

    *g = (struct guard){ .table = *real, .real = real, .name = name, .state = state, .module = module };
    t->destroy = guard_destroy;
    t->assess = guard_assess;
    t->cost = guard_cost;
    t->compile = guard_compile;
    t->release_compiled = guard_release_compiled;
    t->specialize = guard_specialize;
    t->release_instance = guard_release_instance;
    t->execute = guard_execute;
    /* What is optional stays NULL. */
    t->quiesce = real->quiesce != NULL ? guard_quiesce : NULL;
    t->fingerprint = real->fingerprint != NULL ? guard_fingerprint : NULL;
    t->cache_verdict = real->cache_verdict != NULL ? guard_cache_verdict : NULL;
    t->buffer_alloc = real->buffer_alloc != NULL ? guard_buffer_alloc : NULL;
    t->buffer_free = real->buffer_free != NULL ? guard_buffer_free : NULL;
    t->buffer_copy = real->buffer_copy != NULL ? guard_buffer_copy : NULL;
    t->buffer_map = real->buffer_map != NULL ? guard_buffer_map : NULL;
    t->buffer_unmap = real->buffer_unmap != NULL ? guard_buffer_unmap : NULL;
    t->import_host = real->import_host != NULL ? guard_import_host : NULL;
    t->buffer_copies = real->buffer_copies != NULL ? guard_buffer_copies : NULL;
    t->bind = real->bind != NULL ? guard_bind : NULL;
    t->release_binding = real->bind != NULL ? guard_release_binding : NULL;
    t->import_native = real->import_native != NULL ? guard_import_native : NULL;
    t->export_native = real->export_native != NULL ? guard_export_native : NULL;
    t->extension = real->extension != NULL ? guard_extension : NULL;
    if (real->extension != NULL)
        wrap_extensions(g);
}

provider_execute_fn provider_direct(const inlay_provider *table, void **state)
{
    const struct guard *g = *state;

    if (table->execute != guard_execute)
        return table->execute;
    *state = g->state;
    return g->real->execute;
}

const struct plugin_module *provider_module(const inlay_provider *table, const void *state)
{
    return table->execute == guard_execute ? ((const struct guard *)state)->module : NULL;
}

/* ------------------------------------------------------------------ operators */

static inlay_status guard_infer(void *ctx, inlay_infer *infer, inlay_diag *diag)
{
    const guard_operator *g = ctx;
    const boundary_call call = { NULL, g->module != NULL ? g->module->file.name : NULL };
    inlay_diag own = INLAY_DIAG_INIT;
    crash_scene before = crash_enter(g->module, "infer", NULL, infer->node->name.data);
    float_state floats = float_state_get();
    inlay_status status = g->infer(g->ctx, infer, &own);

    (void)float_state_restore(floats);
    crash_leave(&before);
    return boundary_tell(&call, status, &own, diag);
}

void guard_wrap_operator(inlay_operator *op, guard_operator *g, const struct plugin_module *module)
{
    if (op->infer == NULL)
        return;
    *g = (guard_operator){ op->infer, op->ctx, module };
    op->infer = guard_infer;
    op->ctx = g;
}
