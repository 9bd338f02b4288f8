/* Selects the kernel of a node; implements assess and cost. */
#include "internal.h"
#include "inlay/extensions.h"
#include "inlay/kit_region.h"
#include "memory_speed.h"
#include <stdio.h>

static const char *domain_of(const kit_kernel *kernel)
{
    return kernel->domain != NULL ? kernel->domain : "ai.onnx";
}

/* FNV-1a. */
static uint32_t hash_text(uint32_t hash, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (uint8_t)text[i]) * 16777619u;
    return hash;
}

static uint32_t hash_operator(const char *domain, size_t domain_bytes, const char *op_type, size_t op_bytes)
{
    return hash_text(hash_text(2166136261u, domain, domain_bytes) ^ '.', op_type, op_bytes);
}

inlay_status kit_rows_init(kit_state *state, inlay_diag *diag)
{
    const kit_provider *self = state->self;
    uint32_t buckets = 16, row_count = 0;

    for (uint32_t table = 0; table < self->table_count; table++)
        row_count += self->tables[table]->count;
    while (buckets < 2 * row_count)
        buckets *= 2;
    state->mask = buckets - 1;
    state->row_count = row_count;
    state->rows = calloc(row_count > 0 ? row_count : 1, sizeof *state->rows);
    state->heads = malloc(buckets * sizeof *state->heads);
    if (state->rows == NULL || state->heads == NULL) {
        kit_rows_deinit(state);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "the kernel table of provider '%s'", self->name);
    }
    for (uint32_t b = 0; b < buckets; b++)
        state->heads[b] = INLAY_NONE;
    row_count = 0;
    for (uint32_t table = 0; table < self->table_count; table++)
        for (uint32_t k = 0; k < self->tables[table]->count; k++) {
            state->rows[row_count++].kernel = &self->tables[table]->kernels[k];
            state->has_rows |= self->tables[table]->kernels[k].row != NULL;
        }
    INLAY_CHECK(row_count == state->row_count);
    /* Each row is inserted at the head of its bucket. Insert in reverse, so that buckets keep the order of the
     * tables. */
    for (uint32_t row = row_count; row-- > 0;) {
        const kit_kernel *kernel = state->rows[row].kernel;
        const char *domain = domain_of(kernel);

        state->rows[row].hash = hash_operator(domain, strlen(domain), kernel->op_type, strlen(kernel->op_type));
        state->rows[row].next = state->heads[state->rows[row].hash & state->mask];
        state->heads[state->rows[row].hash & state->mask] = row;
    }
    return INLAY_OK;
}

void kit_rows_deinit(kit_state *state)
{
    free(state->rows);
    free(state->heads);
    state->rows = NULL;
    state->heads = NULL;
}

static bool same_text(inlay_str text, const char *other)
{
    return strlen(other) == text.bytes && memcmp(other, text.data, text.bytes) == 0;
}

/* Writes the names of a set of types, as in "float, double". */
static const char *types_text(uint64_t types, char *text, size_t bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (inlay_dtype dtype = 1; dtype < INLAY_DTYPE_COUNT && used < bytes; dtype++) {
        if ((types & INLAY_DTYPE_BIT(dtype)) != 0)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used > 0 ? ", " : "", inlay_dtype_name(dtype));
    }
    return text;
}

/* Does the value have a type of the set? `direction` ("input" or "output") and i name the value in the reason. */
static bool type_fits(const inlay_value_info *value, uint64_t types, const char *direction, uint32_t i,
                      kit_refusal *why)
{
    char text[96];
    uint64_t bit;

    if (value == NULL)
        return true;
    if (value->kind != INLAY_VALUE_TENSOR)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "%s %u is not a tensor", direction, i);
    bit = value->dtype > 0 && value->dtype < INLAY_DTYPE_COUNT ? INLAY_DTYPE_BIT(value->dtype) : 0;
    if (bit == 0)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, "declare it", "the element type of %s %u is not known", direction,
                          i);
    if (types == KIT_ANY || (types & bit) != 0)
        return true;
    types_text(types, text, sizeof text);
    return kit_refuse(why, INLAY_REFUSE_DTYPE, strcmp(direction, "input") == 0 ? "insert a Cast" : NULL,
                      "%s %u is %s; this kernel takes %s", direction, i, inlay_dtype_name(value->dtype), text);
}

static bool types_fit(const kit_kernel *kernel, const kit_node *node, kit_refusal *why)
{
    for (uint32_t i = 0; i < node->info->input_count; i++)
        if (!type_fits(kit_input(node, i), i < 4 ? kernel->in_types[i] : KIT_ANY, "input", i, why))
            return false;
    for (uint32_t i = 0; i < node->info->output_count; i++)
        if (!type_fits(kit_output(node, i), i < 2 ? kernel->out_types[i] : KIT_ANY, "output", i, why))
            return false;
    return true;
}

static bool version_fits(const kit_kernel *kernel, uint32_t since, kit_refusal *why)
{
    if (since >= kernel->since_min && (kernel->since_max == 0 || since <= kernel->since_max))
        return true;
    if (kernel->since_max == 0)
        return kit_refuse(why, INLAY_REFUSE_VERSION, "convert the model to a newer opset",
                          "%s-%u: the kernel is for version %u and later", kernel->op_type, since, kernel->since_min);
    return kit_refuse(why, INLAY_REFUSE_VERSION, "convert the model to an opset with one of these versions",
                      "%s-%u: the kernel is for versions %u to %u", kernel->op_type, since, kernel->since_min,
                      kernel->since_max);
}

/* The test that a kernel failed, in the order of the tests. The refusal has the reason of the kernel that passed most
 * tests. */
enum { AT_OPERATOR, AT_VERSION, AT_TYPES, AT_SUPPORTS };

const kit_kernel *kit_match(const kit_state *state, const kit_node *node, kit_refusal *why)
{
    const inlay_node_info *info = node->info;
    uint32_t hash = hash_operator(info->domain.data, info->domain.bytes, info->op_type.data, info->op_type.bytes);
    int farthest = AT_OPERATOR;

    INLAY_CHECK(state->heads != NULL);
    kit_refuse(why, INLAY_REFUSE_OPERATOR, NULL, "no kernel for %s of %s", info->op_type.data, info->domain.data);
    for (uint32_t row = state->heads[hash & state->mask]; row != INLAY_NONE; row = state->rows[row].next) {
        const kit_kernel *kernel = state->rows[row].kernel;
        kit_refusal mine = { 0, "", "" };
        int at = AT_VERSION;

        if (state->rows[row].hash != hash || !same_text(info->op_type, kernel->op_type) ||
            !same_text(info->domain, domain_of(kernel)))
            continue;
        if (version_fits(kernel, info->since_version, &mine)) {
            at = AT_TYPES;
            if (types_fit(kernel, node, &mine)) {
                at = AT_SUPPORTS;
                if (kernel->supports == NULL || kernel->supports(node, &mine))
                    return kernel;
            }
        }
        if (at > farthest) {
            farthest = at;
            *why = mine;
        }
    }
    return NULL;
}

struct assessment {
    const kit_state *state;
    const kit_kernel **kernels; /* out: [node_count] the kernel of each node; NULL: not needed */
};

static bool has_kernel(void *ctx, const kit_node *node, uint32_t n, inlay_offer *offer, kit_refusal *why)
{
    const struct assessment *assessment = ctx;
    const kit_kernel *kernel = kit_match(assessment->state, node, why);

    (void)offer;
    if (assessment->kernels != NULL)
        assessment->kernels[n] = kernel;
    return kernel != NULL;
}

inlay_status kit_assess(void *state_, const inlay_assess_request *request, inlay_diag *diag)
{
    const inlay_graph *graph = request->graph;
    const uint8_t *candidates = request->candidates;
    const inlay_assess_sink *sink = request->sink;
    const kit_state *state = state_;
    const kit_node prototype = { .host = state->host, .provider = state->user };
    struct assessment assessment = { .state = state };
    inlay_status status;

    (void)diag;
    if (state->has_rows &&
        (assessment.kernels = calloc((size_t)graph->node_count + 1, sizeof *assessment.kernels)) == NULL)
        return INLAY_OUT_OF_MEMORY;
    status = kit_assess_each(&prototype, graph, candidates, sink, has_kernel, &assessment);
    if (status == INLAY_OK && assessment.kernels != NULL)
        status = kit_offer_chains(state, graph, assessment.kernels, sink);
    free(assessment.kernels);
    return status;
}

/* Rates of one core of a typical machine. Machine profiles and measurements correct the estimates. */
#define CORE_FLOPS_PER_NS 20.0
#define CORE_BYTES_PER_NS 8.0
#define ELEMENT_NS 0.25
#define CALL_NS 60.0
#define PARALLEL_NS 8000.0 /* shorter loops run on one thread, ... */
#define SHARED_NS 1000.0   /* ... and longer ones take so much longer than their part of the work */
#define NEAR_KEPT 0.6      /* of the near cache: of more, a growing part is in the shared one */
#define KEPT_SHARE 0.4     /* of the shared cache, for the tensors of a node */
#define FETCHED 0.6        /* of the lines of memory that are written, those that are read first */
#define NEAR_WRITTEN 2.0   /* the time of a byte written to the near cache, relative to one read */

/* The time of reading and writing `read` and `written` bytes on `threads` threads, from the cache that holds them. */
static double stream_ns(const inlay_host *host, double read, double written, double threads)
{
    const inlay_ext_speed *core = host->extension(host->ctx, INLAY_EXT_SPEED);
    const ext_memory_speed *rest = host->extension(host->ctx, EXT_MEMORY_SPEED);
    const inlay_speed *speed = core != NULL ? core->get(host->ctx) : NULL;
    const memory_speed *memory = rest != NULL ? rest->get(host->ctx) : NULL;
    const double bytes = read + written;
    double over, far, rate, near, shared, beyond;

    if (speed == NULL || memory == NULL || !INLAY_HAS(speed, memory_bytes) || !(speed->shared_bytes > 0) ||
        !(speed->memory_bytes > 0) || !(memory->shared_size > 0))
        return bytes / CORE_BYTES_PER_NS / threads;
    near = (read + NEAR_WRITTEN * written) / speed->near_bytes;
    shared = bytes / speed->shared_bytes > near ? bytes / speed->shared_bytes : near;
    beyond = (bytes / threads / memory->near_size - NEAR_KEPT) / (1 - NEAR_KEPT);
    if (beyond < 1)
        return (near + (beyond > 0 ? beyond * (shared - near) : 0)) / threads;
    over = bytes / memory->shared_size - KEPT_SHARE;
    far = over > 0 ? 1 - 1 / (1 + over + over * over / 2) : 0;
    rate = threads * speed->memory_bytes < memory->all_bytes ? threads * speed->memory_bytes : memory->all_bytes;
    return bytes * (1 - far) / speed->shared_bytes / threads + (bytes + FETCHED * written) * far / rate;
}

static double on_threads(double ns, uint32_t threads)
{
    const double shared = ns / threads + SHARED_NS;

    return threads > 1 && ns > PARALLEL_NS && shared < ns ? shared : ns;
}

/* The time of reading and writing the bytes of *cost, for a provider that knows the work of its kernels. */
static double memory_ns(const kit_state *state, const inlay_cost *cost, double threads)
{
    const double read = (double)cost->bytes_read, written = (double)cost->bytes_written;

    return state->self->bytes_per_ns > 0 ? (read + written) / state->self->bytes_per_ns
                                         : stream_ns(state->host, read, written, threads);
}

/* Sets the expected time of a kernel with so much work, in nanoseconds on one thread. A provider that knows its work
 * has prices of this machine. */
static void set_time(const kit_state *state, double work, uint32_t threads, inlay_cost *cost)
{
    const double read = (double)cost->bytes_read, written = (double)cost->bytes_written;
    double memory = (read + written) / CORE_BYTES_PER_NS;

    if (state->self->bytes_per_ns > 0)
        memory = (read + written) / state->self->bytes_per_ns;
    if (state->self->work_ns == NULL || state->self->bytes_per_ns > 0) {
        cost->ns = CALL_NS + on_threads(memory > work ? memory : work, threads);
    } else {
        memory = memory_ns(state, cost, threads > 1 && work > PARALLEL_NS ? threads : 1);
        work = on_threads(work, threads);
        cost->ns = CALL_NS + (memory > work ? memory : work);
    }
    if (INLAY_HAS(cost, local_ns) && state->self->work_ns != NULL)
        cost->local_ns = cost->ns;
}

/* The work of a kernel, from its operations and elements. */
static double work_of(const kit_state *state, const kit_node *node, const kit_plan *shapes, double elements,
                      const inlay_cost *cost)
{
    const double work = cost->flops / CORE_FLOPS_PER_NS + elements * ELEMENT_NS;

    return state->self->work_ns != NULL ? state->self->work_ns(node, shapes, work) : work;
}

/* Completes the cost of a kernel that states a time of the reference core, for all threads that share it, and returns
 * its work. */
static double own_work(const kit_state *state, const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const uint32_t threads = shapes->max_threads;
    double work = cost->ns > CALL_NS ? cost->ns - CALL_NS : 0, memory;

    cost->local_ns = 0;
    if (state->self->work_ns == NULL)
        return work;
    work = state->self->work_ns(node, shapes, work);
    memory = memory_ns(state, cost, threads > 1 && work * threads > PARALLEL_NS ? threads : 1);
    cost->local_ns = CALL_NS + (memory > work ? memory : work);
    return work;
}

/* *out_work: on one thread, without reading and writing memory. */
static inlay_status cost_of_node(const kit_state *state, const inlay_cost_request *request, uint32_t node_index,
                                 inlay_cost *cost, double *out_work)
{
    const inlay_node_info *info = inlay_graph_node(request->graph, node_index);
    const kit_node node = { .host = state->host, .graph = request->graph, .info = info, .provider = state->user };
    uint32_t tensor_count = info->input_count + info->output_count;
    kit_tensor local[KIT_STACK_TENSORS], *tensor = local;
    const kit_kernel *kernel;
    kit_refusal why;
    kit_plan plan;
    double elements = 0, guess, flops;
    inlay_status status = INLAY_OK;

    kernel = kit_match(state, &node, &why);
    if (kernel == NULL)
        return INLAY_INVALID_ARGUMENT;
    if (tensor_count > KIT_STACK_TENSORS && (tensor = malloc(tensor_count * sizeof *tensor)) == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < tensor_count; i++) {
        bool output = i >= info->input_count;
        uint32_t v = output ? info->outputs[i - info->input_count] : info->inputs[i];
        int64_t count;

        status = kit_describe(request->values, request->value_stride, request->value_count, v, &tensor[i], NULL);
        if (status != INLAY_OK)
            goto done;
        /* Assume that an output of unknown size is as large as the first input. */
        count = tensor[i].count >= 0                                     ? tensor[i].count
                : output && info->input_count > 0 && tensor[0].count > 0 ? tensor[0].count
                                                                         : 0;
        if (v == INLAY_NONE)
            continue;
        *(output ? &cost->bytes_written : &cost->bytes_read) += kit_bytes(tensor[i].dtype, count);
        elements += output ? (double)count : 0;
    }
    cost->flops = flops = elements;
    plan = (kit_plan){ .in = tensor,
                       .out = tensor + info->input_count,
                       .in_count = info->input_count,
                       .out_count = info->output_count,
                       .max_threads = request->max_threads };
    *out_work = work_of(state, &node, &plan, elements, cost);
    set_time(state, *out_work, request->max_threads, cost);
    if (kernel->cost != NULL) {
        guess = cost->ns;
        kernel->cost(&node, &plan, cost);
        if (cost->ns == guess && cost->flops != flops) {
            *out_work = work_of(state, &node, &plan, elements, cost);
            set_time(state, *out_work, request->max_threads, cost);
        } else if (cost->ns != guess && (cost->local_ns == guess || cost->local_ns <= 0)) {
            *out_work = own_work(state, &node, &plan, cost);
        }
    }
done:
    if (tensor != local)
        free(tensor);
    return status;
}

/* Does one of the nodes compute the value? nodes is sorted in ascending order. */
static bool computed_within(const inlay_graph *graph, const uint32_t *nodes, uint32_t count, uint32_t value)
{
    uint32_t producer = inlay_graph_value(graph, value)->producer, low = 0;

    while (count > 0) {
        uint32_t half = count / 2;

        if (nodes[low + half] == producer)
            return true;
        if (nodes[low + half] < producer) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return false;
}

/* Corrects the cost of a chain: it computes as much as its nodes, but only its inputs and its output are in memory.
 * work: the sum of its nodes. */
static void cost_of_chain(const kit_state *state, const inlay_cost_request *request, double work, inlay_cost *cost)
{
    const inlay_offer *offer = request->offer;
    const inlay_node_info *last = inlay_graph_node(request->graph, offer->nodes[offer->node_count - 1]);
    kit_tensor tensor;

    INLAY_CHECK(offer->node_count > 0);
    cost->bytes_read = cost->bytes_written = 0;
    for (uint32_t k = 0; k < offer->node_count; k++) {
        const inlay_node_info *info = inlay_graph_node(request->graph, offer->nodes[k]);
        for (uint32_t i = 0; i < info->input_count; i++)
            if (info->inputs[i] != INLAY_NONE &&
                !computed_within(request->graph, offer->nodes, offer->node_count, info->inputs[i]) &&
                kit_describe(request->values, request->value_stride, request->value_count, info->inputs[i], &tensor,
                             NULL) == INLAY_OK &&
                tensor.count > 0)
                cost->bytes_read += kit_bytes(tensor.dtype, tensor.count);
    }
    if (kit_describe(request->values, request->value_stride, request->value_count, last->outputs[0], &tensor, NULL) ==
            INLAY_OK &&
        tensor.count > 0)
        cost->bytes_written = kit_bytes(tensor.dtype, tensor.count);
    set_time(state, work, request->max_threads, cost);
}

inlay_status kit_cost(void *state, const inlay_cost_request *request, inlay_cost *cost, inlay_diag *diag)
{
    bool is_local = INLAY_HAS(cost, local_ns); /* every node so far has a local time */
    double local_ns = 0, work = 0, node_work = 0;

    cost->ns = 0;
    cost->flops = 0;
    cost->bytes_read = 0;
    cost->bytes_written = 0;
    cost->confidence = INLAY_CONFIDENCE_MODEL;
    for (uint32_t i = 0; i < request->offer->node_count; i++) {
        inlay_cost node_cost = { .struct_size = sizeof node_cost, .confidence = INLAY_CONFIDENCE_GUESS };
        inlay_status status = cost_of_node(state, request, request->offer->nodes[i], &node_cost, &node_work);

        if (status != INLAY_OK)
            return inlay_fail(diag, status, "the cost of %s is not known",
                              inlay_graph_node(request->graph, request->offer->nodes[i])->name.data);
        cost->ns += node_cost.ns;
        local_ns += node_cost.local_ns;
        work += node_work;
        is_local = is_local && node_cost.local_ns > 0;
        cost->flops += node_cost.flops;
        cost->bytes_read += node_cost.bytes_read;
        cost->bytes_written += node_cost.bytes_written;
        if (node_cost.confidence < cost->confidence)
            cost->confidence = node_cost.confidence;
    }
    if (request->offer->cookie == KIT_COOKIE_CHAIN)
        cost_of_chain(state, request, work, cost);
    else if (is_local)
        cost->local_ns = local_ns;
    return INLAY_OK;
}
