/* A provider, written with the kit, that fails on demand. It offers Relu and Add for float. The environment variable
 * FAULTY, of the form CALL:STATUS:HOW, selects a fault:
 *
 *     CALL    create, assess, compile, specialize or execute: the call that fails
 *     STATUS  the number that it returns
 *     HOW     full     writes code, class and message, as inlay_fail() does
 *             text     writes the message only
 *             nothing  writes nothing
 *             endless  writes texts without a terminating zero, and control characters
 *             float    leaves the thread with upward rounding and flush-to-zero
 *             null     compile, STATUS 0: succeeds without a compiled region; specialize likewise
 *             odd      specialize, STATUS 0: requests a workspace whose alignment is not a power of two
 *
 * FAULTY_DECLINES makes it decline offers that it made: "compile" declines every third region, "specialize" odd numbers
 * of rows, "both" does both, and "named" regions whose last value has a name that begins with "no".
 *
 * FAULTY_ORDER, if it is set when the plugin is opened, permits the host to compile regions concurrently. The provider
 * reads it when it is created: the first calls of compile, one for each character, wait for each other and then end in
 * the order of the characters, which are the last ones of the names of the regions' last values. */
#include "inlay/kit.h"
#include <fenv.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static inlay_status run_relu(const kit_call *call)
{
    const float *input = call->in[0].data;
    float *output = call->out[0].data;

    for (int64_t i = 0; i < call->in[0].count; i++)
        output[i] = input[i] < 0 ? 0 : input[i];
    return INLAY_OK;
}

static inlay_status run_add(const kit_call *call)
{
    const float *a = call->in[0].data, *b = call->in[1].data;
    float *output = call->out[0].data;

    for (int64_t i = 0; i < call->out[0].count; i++)
        output[i] = a[i] + b[i];
    return INLAY_OK;
}

static bool same_shapes(const kit_node *node, kit_refusal *why)
{
    const inlay_value_info *a = kit_input(node, 0), *b = kit_input(node, 1);
    bool same = a->rank == b->rank && a->rank != INLAY_RANK_UNKNOWN;

    for (uint32_t d = 0; same && d < a->rank; d++)
        same = memcmp(&a->dims[d], &b->dims[d], sizeof a->dims[d]) == 0;
    return same || kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the inputs differ in shape");
}

static void cheap(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    (void)node, (void)shapes;
    cost->ns = 1;
}

static const kit_kernel kernels[] = {
    { .op_type = "Relu", .in_types = { KIT_BIT(FLOAT) }, .cost = cheap, .run = run_relu },
    { .op_type = "Add", .in_types = { KIT_BIT(FLOAT) }, .supports = same_shapes, .cost = cheap, .run = run_add },
};
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };
static const inlay_option own_options[] = {
    { .name = "isa",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "auto",
      .choices = "auto|baseline|avx2",
      .doc = "ignored" },
    { .name = "other", .kind = INLAY_OPTION_STRING, .default_value = "", .doc = "ignored" },
};
static const kit_provider provider = { .name = "faulty",
                                       .description = "fails on demand",
                                       .tables = tables,
                                       .table_count = 1,
                                       .options = own_options,
                                       .option_count = KIT_COUNT(own_options) };
static const kit_plugin self = { .name = "faulty_plugin", .version = "1.0", .provider = &provider };
static kit_exports exports;
static inlay_provider original; /* a copy of the kit's table */

static void write_badly(const char *how, inlay_status status, inlay_diag *diag)
{
    if (strcmp(how, "full") == 0) {
        (void)inlay_fail(diag, status, "it failed as requested");
    } else if (strcmp(how, "text") == 0) {
        (void)snprintf(diag->text, sizeof diag->text, "only a sentence");
    } else if (strcmp(how, "endless") == 0) {
        memset(diag->text, '\n', sizeof diag->text);
        memset(diag->node, 'n', sizeof diag->node);
        memset(diag->tensor, 't', sizeof diag->tensor);
        diag->error_class = 77;
        diag->struct_size = 1;
    }
}

/* The fault selected for this call; INLAY_OK: none. */
static inlay_status fault(const char *call, inlay_diag *diag)
{
    const char *plan = getenv("FAULTY"), *how;
    size_t bytes = strlen(call);
    inlay_status status;

    if (plan == NULL || strncmp(plan, call, bytes) != 0 || plan[bytes] != ':')
        return INLAY_OK;
    status = (inlay_status)strtol(plan + bytes + 1, NULL, 10);
    how = strchr(plan + bytes + 1, ':');
    how = how != NULL ? how + 1 : "nothing";
    if (strcmp(how, "float") == 0) {
        (void)fesetround(FE_UPWARD);
#if defined(__x86_64__)
        __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#endif
    } else {
        write_badly(how, status, diag);
    }
    return status;
}

static bool is_selected(const char *plan)
{
    return getenv("FAULTY") != NULL && strcmp(getenv("FAULTY"), plan) == 0;
}

static bool declines(const char *call)
{
    const char *which = getenv("FAULTY_DECLINES");

    return which != NULL && (strcmp(which, "both") == 0 || strcmp(which, call) == 0);
}

/* The calls of compile that end in the order FAULTY_ORDER. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    const char *order;
    size_t begun, ended;
} turns = { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .order = "" };

static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    inlay_status status = fault("create", diag);

    turns.order = getenv("FAULTY_ORDER") != NULL ? getenv("FAULTY_ORDER") : "";
    turns.begun = turns.ended = 0;
    return status != INLAY_OK ? status : original.create(ctx, host, args, out_state, diag);
}

static inlay_status assess(void *state, const inlay_assess_request *request, inlay_diag *diag)
{
    inlay_status status = fault("assess", diag);

    return status != INLAY_OK ? status : original.assess(state, request, diag);
}

/* Waits for the turn of the region. A plugin cannot see when the host has taken the result of the call before: the
 * pause leaves time for that. */
static void take_turn(const char *name)
{
    const struct timespec pause = { .tv_nsec = 1000000 };
    const size_t count = strlen(turns.order);

    (void)pthread_mutex_lock(&turns.mutex);
    if (turns.begun < count) {
        turns.begun++;
        (void)pthread_cond_broadcast(&turns.changed);
        while (turns.begun < count || turns.order[turns.ended] != name[strlen(name) - 1])
            (void)pthread_cond_wait(&turns.changed, &turns.mutex);
        (void)nanosleep(&pause, NULL);
        turns.ended++;
        (void)pthread_cond_broadcast(&turns.changed);
    }
    (void)pthread_mutex_unlock(&turns.mutex);
}

static inlay_status compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                            inlay_diag *diag)
{
    static uint32_t calls;
    const char *name = inlay_graph_value(request->graph, request->outputs[request->output_count - 1])->name.data;
    inlay_status status = fault("compile", diag);

    if (status != INLAY_OK)
        return status;
    take_turn(name);
    status = request->poll != NULL ? request->poll(request->ctx) : INLAY_OK;
    if (status != INLAY_OK)
        return status;
    if (declines("named") && strncmp(name, "no", 2) == 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the name of '%s' begins with no", name);
    if (declines("compile") && __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % 3 == 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "every third region is too much");
    return is_selected("compile:0:null") ? INLAY_OK : original.compile(state, request, out_compiled, diag);
}

static inlay_status specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out_instance, inlay_diag *diag)
{
    inlay_status status = fault("specialize", diag);

    if (status != INLAY_OK)
        return status;
    for (uint32_t v = 0; declines("specialize") && v < request->value_count; v++) {
        const inlay_value_state *value_state = INLAY_AT(inlay_value_state, request->values, request->value_stride, v);

        /* The batch dimension of the graphs in test_declines.c. */
        if (value_state->rank == 2 && value_state->dims != NULL && value_state->dims[0] > 0 &&
            value_state->dims[0] % 2 == 1)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "%lld rows are an odd number", (long long)value_state->dims[0]);
    }
    if (is_selected("specialize:0:null"))
        return INLAY_OK;
    status = original.specialize(state, compiled, request, out_instance, diag);
    if (is_selected("specialize:0:odd")) {
        request->workspace_bytes = 100;
        request->workspace_alignment = 96;
    }
    return status;
}

static inlay_status execute(void *state, inlay_compiled *compiled, inlay_instance *instance,
                            const inlay_exec_args *args)
{
    inlay_status status = fault("execute", args->diag);

    return status != INLAY_OK ? status : original.execute(state, compiled, instance, args);
}

#if !defined(FAULTY_WITHIN)
INLAY_PLUGIN_NOTE("faulty_plugin", "faulty", "")
#endif
INLAY_EXPORT inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    inlay_status status = kit_open(&self, &exports, host, out_plugin, diag);

    original = exports.provider;
    exports.provider.create = create;
    exports.provider.assess = assess;
    exports.provider.compile = compile;
    exports.provider.specialize = specialize;
    exports.provider.execute = execute;
    if (getenv("FAULTY_ORDER") != NULL)
        exports.provider.flags |= INLAY_PROVIDER_CONCURRENT_COMPILE;
    return status;
}
