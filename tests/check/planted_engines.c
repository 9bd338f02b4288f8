/* A provider with an engine cache, for element-wise operators with attributes. Option `fault` plants a defect in what
 * it stores; without it nothing is wrong. */
#include "plugin_entry.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum fault {
    NONE,
    ENGINE_ALPHA,    /* the blob lacks an attribute */
    ENGINE_SECOND,   /* it lacks the second attribute */
    ENGINE_ROUNDED,  /* it holds attributes with one decimal place */
    ENGINE_OPERATOR, /* the operator of the latest compile instead of this one's */
    ENGINE_ADDRESS,  /* the address of memory of this process */
    ENGINE_HANDLE,   /* an index in a table of this process */
    ENGINE_PROCESS,  /* the verdict is for blobs of this process only */
    ENGINE_BEGIN,    /* compile fails if store_begin does */
    ENGINE_WRITE,    /* the same for store_write */
    ENGINE_END,      /* the same for store_end */
    FAULTS
};

enum { MAGIC = 0x656e6730, TABLE = 4096 };

/* The operators, and the defaults of their attributes. */
static const struct kind {
    const char *op_type;
    const char *names[2];
    float defaults[2];
} kinds[] = {
    { "LeakyRelu", { "alpha", NULL }, { 0.01F, 0 } },
    { "Elu", { "alpha", NULL }, { 1, 0 } },
    { "HardSigmoid", { "alpha", "beta" }, { 0.2F, 0.5F } },
    { "ThresholdedRelu", { "alpha", NULL }, { 1, 0 } },
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* What compile stores. */
struct engine {
    uint32_t magic, kind;
    float values[2];
    uint64_t link; /* of ENGINE_ADDRESS, ENGINE_HANDLE and ENGINE_PROCESS */
};

struct inlay_compiled {
    struct engine engine;
    uint32_t output; /* value of the graph */
};

struct inlay_instance {
    int64_t count; /* elements */
};

static int64_t elements_of(const inlay_value_state *values, uint64_t stride, uint32_t value)
{
    const inlay_value_state *state = INLAY_AT(inlay_value_state, values, stride, value);
    int64_t count = 1;

    for (uint32_t d = 0; state->rank != INLAY_RANK_UNKNOWN && d < state->rank; d++)
        count *= state->dims[d] >= 0 ? state->dims[d] : 1;
    return count;
}

static int64_t fault;
static struct engine table[TABLE];
static uint32_t table_count;

static uint32_t kind_of(const inlay_node_info *node)
{
    uint32_t kind = 0;

    while (kind < KINDS &&
           (strcmp(node->domain.data, "ai.onnx") != 0 || strcmp(node->op_type.data, kinds[kind].op_type) != 0))
        kind++;
    return kind;
}

static inlay_status assess(void *ctx, const inlay_assess_request *request, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    (void)ctx, (void)diag;
    for (uint32_t n = 0; n < request->graph->node_count && status == INLAY_OK; n++) {
        const inlay_node_info *node = inlay_graph_node(request->graph, n);
        const inlay_value_info *x = node->input_count > 0 ? inlay_graph_value(request->graph, node->inputs[0]) : NULL;

        if (request->candidates[n] == 0)
            continue;
        if (kind_of(node) < KINDS && node->since_version >= 6 && x->dtype == INLAY_FLOAT &&
            (x->flags & INLAY_VALUE_CONSTANT) == 0)
            status = request->sink->offer(
                request->sink->ctx, &(inlay_offer){ .struct_size = sizeof(inlay_offer), .nodes = &n, .node_count = 1 });
        else
            status = request->sink->refuse(request->sink->ctx, &(inlay_refusal){ .struct_size = sizeof(inlay_refusal),
                                                                                 .node = n,
                                                                                 .code = INLAY_REFUSE_OPERATOR,
                                                                                 .text = "not one of the engines" });
    }
    return status;
}

static inlay_status cost(void *ctx, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    const inlay_node_info *node = inlay_graph_node(request->graph, request->offer->nodes[0]);

    (void)ctx, (void)diag;
    out->flops = (double)elements_of(request->values, request->value_stride, node->outputs[0]);
    out->ns = 100 + out->flops;
    out->confidence = INLAY_CONFIDENCE_GUESS;
    return INLAY_OK;
}

static struct engine build(const inlay_node_info *node)
{
    struct engine engine = { .magic = MAGIC, .kind = kind_of(node) };

    for (uint32_t k = 0; k < 2 && kinds[engine.kind].names[k] != NULL; k++) {
        engine.values[k] = kinds[engine.kind].defaults[k];
        for (uint32_t i = 0; i < node->attr_count; i++) {
            const inlay_attr_info *attr = INLAY_AT(inlay_attr_info, node->attrs, node->attr_stride, i);

            if (strcmp(attr->name.data, kinds[engine.kind].names[k]) == 0)
                engine.values[k] = (float)attr->f;
        }
    }
    return engine;
}

/* The blob of an engine, with the planted defect. */
static struct engine blob_of(struct engine engine)
{
    static uint32_t latest;
    const uint32_t before = latest;

    latest = engine.kind;
    if (fault == ENGINE_ALPHA)
        engine.values[0] = kinds[engine.kind].defaults[0];
    else if (fault == ENGINE_SECOND)
        engine.values[1] = kinds[engine.kind].defaults[1];
    else if (fault == ENGINE_ROUNDED)
        engine.values[0] = roundf(engine.values[0] * 10) / 10;
    else if (fault == ENGINE_OPERATOR)
        engine.kind = before;
    else if (fault == ENGINE_PROCESS)
        engine.link = (uint64_t)getpid();
    else if (fault == ENGINE_ADDRESS || fault == ENGINE_HANDLE)
        table[table_count++ % TABLE] = engine;
    if (fault == ENGINE_ADDRESS)
        engine.link = (uint64_t)(uintptr_t)&table[(table_count - 1) % TABLE];
    else if (fault == ENGINE_HANDLE)
        engine.link = (table_count - 1) % TABLE;
    return engine;
}

static struct engine engine_of(const void *data)
{
    struct engine engine;

    memcpy(&engine, data, sizeof engine);
    if (fault == ENGINE_ADDRESS)
        return *(const struct engine *)(uintptr_t)engine.link;
    return fault == ENGINE_HANDLE ? table[engine.link] : engine;
}

static inlay_status store(const inlay_compile_request *request, const struct engine *engine, inlay_diag *diag)
{
    inlay_status status;

    if (request->store_begin == NULL)
        return INLAY_OK;
    status = request->store_begin(request->ctx, sizeof *engine);
    if (status != INLAY_OK)
        return fault == ENGINE_BEGIN ? inlay_fail(diag, status, "cannot store the engine") : INLAY_OK;
    status = request->store_write(request->ctx, engine, sizeof *engine);
    if (status != INLAY_OK)
        return fault == ENGINE_WRITE ? inlay_fail(diag, status, "cannot write the engine") : INLAY_OK;
    status = request->store_end(request->ctx);
    return status != INLAY_OK && fault == ENGINE_END ? inlay_fail(diag, status, "cannot end the engine") : INLAY_OK;
}

static inlay_status compile(void *ctx, const inlay_compile_request *request, inlay_compiled **out, inlay_diag *diag)
{
    const struct engine built = build(inlay_graph_node(request->graph, request->nodes[0]));
    inlay_compiled *compiled = calloc(1, sizeof *compiled);
    inlay_status status = INLAY_OK;

    (void)ctx;
    if (compiled == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for an engine");
    compiled->output = request->outputs[0];
    if (request->cache_blob != NULL) {
        compiled->engine = engine_of(request->cache_blob);
    } else {
        const struct engine blob = blob_of(built);

        compiled->engine = built;
        status = store(request, &blob, diag);
    }
    if (status == INLAY_OK)
        *out = compiled;
    else
        free(compiled);
    return status;
}

static void release_compiled(void *ctx, inlay_compiled *compiled)
{
    (void)ctx;
    free(compiled);
}

static inlay_status specialize(void *ctx, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out, inlay_diag *diag)
{
    (void)ctx;
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for an instance");
    (*out)->count = elements_of(request->values, request->value_stride, compiled->output);
    return INLAY_OK;
}

static void release_instance(void *ctx, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)ctx, (void)compiled;
    free(instance);
}

static float apply(const struct engine *engine, float x)
{
    const float a = engine->values[0], b = engine->values[1];

    switch (engine->kind) {
    case 0:
        return x < 0 ? a * x : x;
    case 1:
        return x < 0 ? a * expm1f(x) : x;
    case 2:
        return x != x ? x : fmaxf(0, fminf(1, a * x + b));
    default:
        return x > a ? x : x != x ? x : 0;
    }
}

static inlay_status execute(void *ctx, inlay_compiled *compiled, inlay_instance *instance, const inlay_exec_args *args)
{
    const float *x = inlay_buffer_host(&args->inputs->buffer);
    float *y = inlay_buffer_host(&args->outputs->buffer);

    (void)ctx;
    for (int64_t i = 0; i < instance->count; i++)
        y[i] = apply(&compiled->engine, x[i]);
    return INLAY_OK;
}

static inlay_status fingerprint(void *ctx, inlay_fingerprint *out, inlay_diag *diag)
{
    (void)ctx, (void)diag;
    out->data = "engines 1";
    out->bytes = 9;
    return INLAY_OK;
}

static inlay_status cache_verdict(void *ctx, inlay_cache_request *request, inlay_diag *diag)
{
    struct engine engine;

    (void)ctx;
    memset(&engine, 0, sizeof engine);
    if (request->bytes == sizeof engine)
        memcpy(&engine, request->blob, sizeof engine);
    request->verdict = engine.magic == MAGIC && (fault != ENGINE_PROCESS || engine.link == (uint64_t)getpid())
                           ? INLAY_CACHE_OPTIMAL
                           : INLAY_CACHE_UNSUPPORTED;
    if (request->verdict != INLAY_CACHE_OPTIMAL)
        (void)inlay_fail(diag, INLAY_UNSUPPORTED, "not an engine of this process");
    return INLAY_OK;
}

static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out,
                           inlay_diag *diag)
{
    (void)ctx, (void)host, (void)diag;
    fault = INLAY_AT(inlay_option_value, args->options, args->option_stride, 0)->i;
    *out = &fault;
    return INLAY_OK;
}

static void destroy(void *ctx)
{
    (void)ctx;
}

static const inlay_option options[] = {
    { .name = "fault", .doc = "the planted defect", .default_value = "0", .kind = INLAY_OPTION_INT, .max = FAULTS - 1 },
};
static const inlay_provider provider = { .struct_size = sizeof provider,
                                         .name = "engines",
                                         .description = "engines with a planted defect",
                                         .device_kind = INLAY_DEVICE_CPU,
                                         .poll_ms = 200,
                                         .options = options,
                                         .option_count = 1,
                                         .option_stride = sizeof options[0],
                                         .create = create,
                                         .destroy = destroy,
                                         .assess = assess,
                                         .cost = cost,
                                         .compile = compile,
                                         .release_compiled = release_compiled,
                                         .specialize = specialize,
                                         .release_instance = release_instance,
                                         .execute = execute,
                                         .fingerprint = fingerprint,
                                         .cache_verdict = cache_verdict };
PLUGIN_ENTRY("planted_engines", "engines", provider)
