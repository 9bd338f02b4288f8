/* A provider of groups of nodes: Sigmoid and Mul (x * sigmoid(x)), MatMul and Add, MatMul and LeakyRelu, Add and Sub,
 * and a MatMul between DequantizeLinear and QuantizeLinear. It runs the nodes of a region one by one. Option `fault`
 * plants one of the defects of fused kernels; without it nothing is wrong. Option `alone` offers the nodes one by one,
 * too, and `merge` permits regions of several offers. */
#include "inlay/kit.h"
#include "plugin_entry.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 4, MOST_RANK = 8, ALIGN = 64 };

enum fault {
    NONE,
    GROUP_RESULT,       /* the result + 1 */
    GROUP_INTERIOR,     /* a value inside of a group is not written, although it leaves the region */
    GROUP_OPERAND,      /* any operand of Mul is taken for the input of Sigmoid */
    GROUP_BIAS,         /* any constant of Add is taken for a row */
    GROUP_CONSTANT,     /* the second group reads the bias of the first */
    GROUP_OUTPUTS,      /* outputs of a region in the order of their values' numbers from behind */
    GROUP_TWICE,        /* a result that is both operands of Add is added once */
    GROUP_ORDER,        /* a - b for b - a */
    GROUP_ZERO_POINT,   /* of QuantizeLinear: lost */
    GROUP_SCALE,        /* both DequantizeLinear have the scale of the first */
    GROUP_ALPHA,        /* of LeakyRelu: the default */
    GROUP_ROW,          /* a matrix of one row loses its bias */
    GROUP_NEIGHBOUR,    /* the first operand of Sub is the result of the node before it */
    GROUP_SHARED_INPUT, /* two groups of a region that read one input: the second one reads its own result instead */
    GROUP_EMPTY,        /* fails for empty tensors */
    GROUP_PRICE,        /* no price for a group */
    FAULTS
};

enum op { MATMUL, ADD, MUL, SUB, SIGMOID, LEAKY_RELU, DEQUANTIZE, QUANTIZE, OPS };
static const char *const op_names[OPS] = { "MatMul",           "Add",           "Mul", "Sub", "Sigmoid", "LeakyRelu",
                                           "DequantizeLinear", "QuantizeLinear" };

struct state {
    const inlay_host *host;
    int64_t fault;
    bool alone, merge;
};

struct value {
    uint32_t number; /* in the graph */
    uint32_t input, output;
    bool is_bytes;
    void *constant; /* owned; NULL: none */
};

struct step {
    enum op op;
    uint32_t in[3], out; /* values of the region */
    float alpha;
    uint32_t group; /* number of the offer of several nodes; INLAY_NONE: none */
    bool is_last;   /* of its group */
};

struct inlay_compiled {
    struct step *steps;
    struct value *values;
    uint32_t step_count, value_count;
};

struct inlay_instance {
    int64_t *counts, *rows; /* elements and last dims of the values */
    uint64_t *offsets;      /* in the workspace */
};

static enum op op_of(const inlay_node_info *node)
{
    enum op op = MATMUL;

    while (op < OPS && (strcmp(node->domain.data, "ai.onnx") != 0 || strcmp(node->op_type.data, op_names[op]) != 0))
        op++;
    return op;
}

static bool same_dims(const inlay_value_info *a, const inlay_value_info *b)
{
    if (a->rank != b->rank || a->rank > MOST_RANK)
        return false;
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->dims[d].kind != INLAY_DIM_FIXED || b->dims[d].kind != INLAY_DIM_FIXED ||
            a->dims[d].value != b->dims[d].value)
            return false;
    return true;
}

static bool is_constant(const inlay_value_info *info)
{
    return (info->flags & INLAY_VALUE_CONSTANT) != 0;
}

static bool is_row(const inlay_value_info *info, const inlay_value_info *of)
{
    return is_constant(info) && info->rank == 1 && of->rank >= 1 && of->rank <= MOST_RANK &&
           info->dims[0].value == of->dims[of->rank - 1].value;
}

static bool is_scalar(const inlay_value_info *info, inlay_dtype dtype)
{
    return info != NULL && is_constant(info) && info->rank == 0 && info->dtype == dtype;
}

/* Can the kernels run the node? */
static bool runs(const struct state *s, const inlay_graph *graph, const inlay_node_info *node, bool in_group)
{
    const enum op op = op_of(node);
    const inlay_value_info *a, *b, *y;

    if (op == OPS || node->input_count == 0)
        return false;
    a = inlay_graph_value(graph, node->inputs[0]);
    b = node->input_count > 1 ? inlay_graph_value(graph, node->inputs[1]) : NULL;
    y = inlay_graph_value(graph, node->outputs[0]);
    if (!same_dims(a, a) || !same_dims(y, y))
        return false;
    if (op == DEQUANTIZE || op == QUANTIZE)
        return in_group && node->input_count == 3 && is_scalar(b, INLAY_FLOAT) &&
               is_scalar(inlay_graph_value(graph, node->inputs[2]), INLAY_UINT8) &&
               (op == DEQUANTIZE ? a : y)->dtype == INLAY_UINT8 && (op == DEQUANTIZE ? y : a)->dtype == INLAY_FLOAT;
    if (a->dtype != INLAY_FLOAT || (b != NULL && b->dtype != INLAY_FLOAT))
        return false;
    if (op == MATMUL)
        return a->rank >= 2 && b->rank == 2;
    if (op == SIGMOID || op == LEAKY_RELU)
        return true;
    if (s->fault == GROUP_BIAS && op == ADD && in_group && is_constant(b))
        return same_dims(a, y);
    return node->since_version >= 7 && same_dims(a, y) && (same_dims(b, y) || is_row(b, y));
}

/* The node of this operator that reads the value of this number; INLAY_NONE: there is none. */
static uint32_t reader(const inlay_graph *graph, uint32_t number, enum op op)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const inlay_node_info *node = inlay_graph_node(graph, n);

        for (uint32_t i = 0; op_of(node) == op && i < node->input_count; i++)
            if (node->inputs[i] == number)
                return n;
    }
    return INLAY_NONE;
}

static uint32_t dequantize_before(const struct state *s, const inlay_graph *graph, uint32_t number)
{
    const uint32_t producer = inlay_graph_value(graph, number)->producer;

    return producer != INLAY_NONE && op_of(inlay_graph_node(graph, producer)) == DEQUANTIZE &&
                   runs(s, graph, inlay_graph_node(graph, producer), true)
               ? producer
               : INLAY_NONE;
}

/* The group whose main node is n, ascending; returns the number of its nodes, 0: none. */
static uint32_t group_at(const struct state *s, const inlay_graph *graph, uint32_t n, uint32_t nodes[MOST_NODES])
{
    static const struct {
        enum op first, second;
    } pairs[] = { { SIGMOID, MUL }, { MATMUL, ADD }, { MATMUL, LEAKY_RELU }, { ADD, SUB } };
    const inlay_node_info *node = inlay_graph_node(graph, n), *next;
    uint32_t left, right, after;

    if (!runs(s, graph, node, true))
        return 0;
    if (op_of(node) == MATMUL) {
        left = dequantize_before(s, graph, node->inputs[0]);
        right = dequantize_before(s, graph, node->inputs[1]);
        after = reader(graph, node->outputs[0], QUANTIZE);
        if (left != INLAY_NONE && right != INLAY_NONE && left != right && after != INLAY_NONE &&
            runs(s, graph, inlay_graph_node(graph, after), true) &&
            inlay_graph_node(graph, after)->inputs[0] == node->outputs[0]) {
            nodes[0] = left < right ? left : right;
            nodes[1] = left < right ? right : left;
            nodes[2] = n;
            nodes[3] = after;
            return 4;
        }
    }
    for (size_t p = 0; p < KIT_COUNT(pairs); p++) {
        after = op_of(node) == pairs[p].first ? reader(graph, node->outputs[0], pairs[p].second) : INLAY_NONE;
        if (after == INLAY_NONE)
            continue;
        next = inlay_graph_node(graph, after);
        if (!runs(s, graph, next, true) || (pairs[p].first == MATMUL && next->inputs[0] != node->outputs[0]))
            continue;
        if (pairs[p].second == MUL && s->fault != GROUP_OPERAND &&
            next->inputs[next->inputs[0] == node->outputs[0]] != node->inputs[0])
            continue;
        nodes[0] = n;
        nodes[1] = after;
        return 2;
    }
    return 0;
}

static inlay_status assess(void *ctx, const inlay_assess_request *request, inlay_diag *diag)
{
    const struct state *s = ctx;
    const inlay_graph *graph = request->graph;
    uint8_t *in_group = calloc(graph->node_count + (size_t)1, 1);
    inlay_status status = INLAY_OK;

    if (in_group == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the nodes");
    for (uint32_t n = 0; n < graph->node_count && status == INLAY_OK; n++) {
        uint32_t nodes[MOST_NODES], count = group_at(s, graph, n, nodes);

        for (uint32_t k = 0; k < count; k++)
            if (request->candidates[nodes[k]] == 0)
                count = 0;
        for (uint32_t k = 0; k < count; k++)
            in_group[nodes[k]] = 1;
        if (count > 0)
            status = request->sink->offer(request->sink->ctx, &(inlay_offer){ .struct_size = sizeof(inlay_offer),
                                                                              .nodes = nodes,
                                                                              .node_count = count,
                                                                              .flags = s->merge ? INLAY_OFFER_MERGE : 0,
                                                                              .cookie = (uint64_t)1 << 32 | n });
    }
    for (uint32_t n = 0; n < graph->node_count && status == INLAY_OK; n++) {
        if (request->candidates[n] == 0)
            continue;
        if (s->alone && runs(s, graph, inlay_graph_node(graph, n), false))
            status = request->sink->offer(request->sink->ctx, &(inlay_offer){ .struct_size = sizeof(inlay_offer),
                                                                              .nodes = &n,
                                                                              .node_count = 1,
                                                                              .flags = s->merge ? INLAY_OFFER_MERGE : 0,
                                                                              .cookie = n });
        else if (in_group[n] == 0)
            status = request->sink->refuse(request->sink->ctx, &(inlay_refusal){ .struct_size = sizeof(inlay_refusal),
                                                                                 .node = n,
                                                                                 .code = INLAY_REFUSE_OPERATOR,
                                                                                 .text = "it belongs to no group" });
    }
    free(in_group);
    return status;
}

static inlay_status cost(void *ctx, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    const struct state *s = ctx;

    if (s->fault == GROUP_PRICE && request->offer->node_count > 1)
        return inlay_fail(diag, INLAY_INTERNAL, "no price for a group");
    out->ns = 1000.0 * request->offer->node_count;
    out->confidence = INLAY_CONFIDENCE_GUESS;
    return INLAY_OK;
}

static void release_compiled(void *ctx, inlay_compiled *compiled)
{
    (void)ctx;
    for (uint32_t i = 0; compiled->values != NULL && i < compiled->value_count; i++)
        free(compiled->values[i].constant);
    free(compiled->values);
    free(compiled->steps);
    free(compiled);
}

/* The value of the region for a value of the graph, which it adds. INLAY_NONE: no memory. */
static uint32_t value_of(inlay_compiled *compiled, const inlay_compile_request *request, uint32_t number)
{
    const inlay_value_info *info = inlay_graph_value(request->graph, number);
    struct value *added = &compiled->values[compiled->value_count];

    for (uint32_t i = 0; i < compiled->value_count; i++)
        if (compiled->values[i].number == number)
            return i;
    *added = (struct value){ number, INLAY_NONE, INLAY_NONE, info->dtype == INLAY_UINT8, NULL };
    for (uint32_t i = 0; i < request->input_count; i++)
        added->input = request->inputs[i] == number ? i : added->input;
    for (uint32_t i = 0; i < request->output_count; i++)
        added->output = request->outputs[i] == number ? i : added->output;
    if (is_constant(info)) {
        added->constant = malloc((size_t)info->data_bytes + 1);
        if (added->constant == NULL)
            return INLAY_NONE;
        memcpy(added->constant, info->data, (size_t)info->data_bytes);
        request->constants[number] = INLAY_CONST_COPIED;
    }
    return compiled->value_count++;
}

static uint32_t group_of(const struct state *s, const inlay_compile_request *request, uint32_t node, bool *out_last)
{
    for (uint32_t o = 0; o < request->offer_count; o++) {
        uint32_t nodes[MOST_NODES], count = 0;

        if (request->cookies[o] >> 32 != 0)
            count = group_at(s, request->graph, (uint32_t)request->cookies[o], nodes);
        for (uint32_t k = 0; k < count; k++)
            if (nodes[k] == node) {
                *out_last = k + 1 == count;
                return o;
            }
    }
    return INLAY_NONE;
}

/* Defects of the compiler. */
static void plant(const struct state *s, inlay_compiled *compiled, const inlay_compile_request *request)
{
    struct step *first = NULL;

    for (uint32_t k = 0; k < compiled->step_count; k++) {
        struct step *one = &compiled->steps[k];

        if (one->group == INLAY_NONE)
            continue;
        if (s->fault == GROUP_NEIGHBOUR && one->op == SUB && k > 0)
            one->in[0] = compiled->steps[k - 1].out;
        if (s->fault == GROUP_OPERAND && one->op == MUL && first != NULL && first->op == SIGMOID)
            one->in[one->in[0] == first->out] = first->in[0];
        if (s->fault == GROUP_SCALE && one->op == DEQUANTIZE && first != NULL && first->op == DEQUANTIZE)
            one->in[1] = first->in[1];
        if (s->fault == GROUP_CONSTANT && one->op == ADD && first != NULL && first->op == ADD &&
            compiled->values[one->in[1]].constant != NULL && compiled->values[first->in[1]].constant != NULL)
            one->in[1] = first->in[1];
        if (s->fault == GROUP_SHARED_INPUT && one->op == MATMUL && first != NULL && first->op == MATMUL &&
            one->in[0] == first->in[0] && one->group != first->group && one->in[1] != first->in[1])
            one->in[1] = first->in[1];
        if (first == NULL || (s->fault == GROUP_CONSTANT && first->op != ADD) ||
            (s->fault == GROUP_OPERAND && one->op == SIGMOID))
            first = one;
    }
    for (uint32_t i = 0; s->fault == GROUP_OUTPUTS && i < compiled->value_count && request->output_count > 1; i++)
        if (compiled->values[i].output != INLAY_NONE)
            compiled->values[i].output = request->output_count - 1 - compiled->values[i].output;
}

static inlay_status compile(void *ctx, const inlay_compile_request *request, inlay_compiled **out, inlay_diag *diag)
{
    const struct state *s = ctx;
    inlay_compiled *compiled = calloc(1, sizeof *compiled);

    if (compiled == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region");
    compiled->steps = calloc(request->node_count, sizeof *compiled->steps);
    compiled->values = calloc((size_t)request->node_count * 4, sizeof *compiled->values);
    for (uint32_t k = 0; compiled->steps != NULL && compiled->values != NULL && k < request->node_count; k++) {
        const inlay_node_info *node = inlay_graph_node(request->graph, request->nodes[k]);
        struct step *one = &compiled->steps[compiled->step_count++];
        bool ok = true;

        *one = (struct step){ .op = op_of(node), .alpha = (float)kit_attr_float(node, "alpha", 0.01F) };
        for (uint32_t i = 0; i < node->input_count && i < 3; i++) {
            one->in[i] = value_of(compiled, request, node->inputs[i]);
            ok = ok && one->in[i] != INLAY_NONE;
        }
        one->out = value_of(compiled, request, node->outputs[0]);
        one->group = group_of(s, request, request->nodes[k], &one->is_last);
        if (!ok || one->out == INLAY_NONE)
            compiled->step_count = 0;
    }
    if (compiled->step_count < request->node_count) {
        release_compiled(ctx, compiled);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region");
    }
    plant(s, compiled, request);
    *out = compiled;
    return INLAY_OK;
}

static void release_instance(void *ctx, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)ctx, (void)compiled;
    free(instance->counts);
    free(instance->rows);
    free(instance->offsets);
    free(instance);
}

static inlay_status specialize(void *ctx, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out, inlay_diag *diag)
{
    inlay_instance *instance = calloc(1, sizeof *instance);

    if (instance == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for an instance");
    instance->counts = calloc(compiled->value_count, sizeof *instance->counts);
    instance->rows = calloc(compiled->value_count, sizeof *instance->rows);
    instance->offsets = calloc(compiled->value_count, sizeof *instance->offsets);
    if (instance->counts == NULL || instance->rows == NULL || instance->offsets == NULL) {
        release_instance(ctx, compiled, instance);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for an instance");
    }
    for (uint32_t i = 0; i < compiled->value_count; i++) {
        const inlay_value_state *shape =
            INLAY_AT(inlay_value_state, request->values, request->value_stride, compiled->values[i].number);

        instance->counts[i] = 1;
        instance->rows[i] = shape->rank > 0 ? shape->dims[shape->rank - 1] : 1;
        for (uint32_t d = 0; d < shape->rank; d++)
            instance->counts[i] *= shape->dims[d];
        instance->offsets[i] = request->workspace_bytes;
        request->workspace_bytes += ((uint64_t)instance->counts[i] * sizeof(float) + ALIGN - 1) / ALIGN * ALIGN;
    }
    *out = instance;
    return INLAY_OK;
}

static float load(const void *data, int64_t i) /* buffers may be unaligned */
{
    float number;

    memcpy(&number, (const char *)data + i * (int64_t)sizeof number, sizeof number);
    return number;
}

static void store(void *data, int64_t i, float number)
{
    memcpy((char *)data + i * (int64_t)sizeof number, &number, sizeof number);
}

static void multiply(const void *a, const void *b, void *y, int64_t rows, int64_t depth, int64_t columns)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            double sum = 0;

            for (int64_t k = 0; k < depth; k++)
                sum += (double)load(a, i * depth + k) * (double)load(b, k * columns + j);
            store(y, i * columns + j, (float)sum);
        }
}

static float combine(const struct state *s, const struct step *one, float a, float b, int64_t rows)
{
    const bool grouped = one->group != INLAY_NONE;

    if (one->op == MUL)
        return a * b;
    if (one->op == SUB)
        return grouped && s->fault == GROUP_ORDER ? b - a : a - b;
    if (grouped && s->fault == GROUP_TWICE && one->in[0] == one->in[1])
        return a;
    return grouped && s->fault == GROUP_ROW && rows == 1 ? a : a + b;
}

static uint8_t quantize(const struct state *s, float number, float scale, uint8_t zero_point)
{
    const float at = nearbyintf(number / scale) + (s->fault == GROUP_ZERO_POINT ? 0 : (float)zero_point);

    return at >= 255 ? 255 : at > 0 ? (uint8_t)at : 0;
}

static void run_step(const struct state *s, const inlay_compiled *compiled, const inlay_instance *instance, uint32_t k,
                     void *const *data)
{
    const struct step *one = &compiled->steps[k];
    const void *a = data[one->in[0]], *b = data[one->in[1]];
    void *y = data[one->out];
    const int64_t count = instance->counts[one->out], row = instance->rows[one->out];
    const bool is_bias = instance->counts[one->in[1]] != count || (s->fault == GROUP_BIAS && one->op == ADD);
    const int64_t others = instance->counts[one->in[1]];

    for (int64_t i = 0; i < count; i++) {
        const uint8_t byte = one->op == DEQUANTIZE ? ((const uint8_t *)a)[i] : 0;
        const float x = one->op == DEQUANTIZE || one->op == MATMUL ? 0 : load(a, i);

        switch (one->op) {
        case ADD:
        case MUL:
        case SUB:
            store(y, i, combine(s, one, x, load(b, is_bias ? i % row % (others > 0 ? others : 1) : i), count / row));
            break;
        case SIGMOID:
            store(y, i, (float)(1 / (1 + exp(-(double)x))));
            break;
        case LEAKY_RELU:
            store(y, i, x < 0 ? x * (s->fault == GROUP_ALPHA && one->group != INLAY_NONE ? 0.01F : one->alpha) : x);
            break;
        case DEQUANTIZE:
            store(y, i, (float)(byte - *(const uint8_t *)data[one->in[2]]) * load(b, 0));
            break;
        case QUANTIZE:
            ((uint8_t *)y)[i] = quantize(s, x, load(b, 0), *(const uint8_t *)data[one->in[2]]);
            break;
        default:
            break;
        }
    }
    if (one->op == MATMUL)
        multiply(a, b, y, row > 0 ? count / row : 0, instance->rows[one->in[0]], row);
    if (s->fault == GROUP_RESULT && one->group != INLAY_NONE && one->is_last && count > 0 && one->op != QUANTIZE)
        store(y, 0, load(y, 0) + 1);
}

static inlay_status execute(void *ctx, inlay_compiled *compiled, inlay_instance *instance, const inlay_exec_args *args)
{
    const struct state *s = ctx;
    char *workspace = (char *)(uintptr_t)(args->workspace.handle + args->workspace.offset);
    enum { MOST_VALUES = 160 };
    void *data[MOST_VALUES];
    inlay_status status = INLAY_OK;

    if (compiled->value_count > MOST_VALUES)
        return inlay_fail(args->diag, INLAY_LIMIT_EXCEEDED, "more than %d values", MOST_VALUES);
    for (uint32_t i = 0; i < compiled->value_count; i++) {
        const struct value *one = &compiled->values[i];
        const inlay_tensor_arg *arg =
            one->input != INLAY_NONE    ? INLAY_AT(inlay_tensor_arg, args->inputs, args->arg_stride, one->input)
            : one->output != INLAY_NONE ? INLAY_AT(inlay_tensor_arg, args->outputs, args->arg_stride, one->output)
                                        : NULL;

        data[i] = one->constant != NULL ? one->constant
                  : arg != NULL         ? (void *)(uintptr_t)(arg->buffer.handle + arg->buffer.offset)
                                        : workspace + instance->offsets[i];
        if (s->fault == GROUP_EMPTY && instance->counts[i] == 0)
            return inlay_fail(args->diag, INLAY_INTERNAL, "an empty tensor");
    }
    for (uint32_t k = 0; k < compiled->step_count; k++) { /* a defect: the value stays in the workspace */
        const struct step *one = &compiled->steps[k];

        if (s->fault == GROUP_INTERIOR && one->group != INLAY_NONE && !one->is_last &&
            compiled->values[one->out].output != INLAY_NONE)
            data[one->out] = workspace + instance->offsets[one->out];
    }
    for (uint32_t k = 0; k < compiled->step_count && status == INLAY_OK; k++) {
        status = s->host->poll(s->host->ctx, args->run);
        if (status == INLAY_OK)
            run_step(s, compiled, instance, k, data);
    }
    return status;
}

static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out,
                           inlay_diag *diag)
{
    struct state *s = calloc(1, sizeof *s);

    (void)ctx;
    if (s == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a provider");
    s->host = host;
    s->fault = INLAY_AT(inlay_option_value, args->options, args->option_stride, 0)->i;
    s->alone = INLAY_AT(inlay_option_value, args->options, args->option_stride, 1)->i != 0;
    s->merge = INLAY_AT(inlay_option_value, args->options, args->option_stride, 2)->i != 0;
    *out = s;
    return INLAY_OK;
}

static void destroy(void *s)
{
    free(s);
}

static const inlay_option options[] = {
    { .name = "fault", .doc = "the planted defect", .default_value = "0", .kind = INLAY_OPTION_INT, .max = FAULTS - 1 },
    { .name = "alone", .doc = "offer nodes one by one, too", .default_value = "0", .kind = INLAY_OPTION_BOOL },
    { .name = "merge", .doc = "offers may be merged", .default_value = "1", .kind = INLAY_OPTION_BOOL },
};
static const inlay_provider provider = { .struct_size = sizeof provider,
                                         .name = "groups",
                                         .description = "groups of nodes with a planted defect",
                                         .device_kind = INLAY_DEVICE_CPU,
                                         .poll_ms = 200,
                                         .options = options,
                                         .option_count = KIT_COUNT(options),
                                         .option_stride = sizeof options[0],
                                         .create = create,
                                         .destroy = destroy,
                                         .assess = assess,
                                         .cost = cost,
                                         .compile = compile,
                                         .release_compiled = release_compiled,
                                         .specialize = specialize,
                                         .release_instance = release_instance,
                                         .execute = execute };
PLUGIN_ENTRY("planted_groups", "groups", provider)
