/* Interprets a whole_graph (whole.h). */
#include "whole_run.h"
#include <math.h>
#include <stdlib.h>

static int64_t count_of(const whole_value *value)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < value->rank; d++)
        count *= value->dims[d];
    return count;
}

whole_value whole_make(inlay_dtype dtype, uint32_t rank, const int64_t *dims)
{
    whole_value value = { .dtype = dtype, .rank = rank };

    if (rank > 0)
        memcpy(value.dims, dims, rank * sizeof *dims);
    value.elements = whole_alloc((size_t)count_of(&value) * sizeof *value.elements);
    return value;
}

static whole_value copy_of(const whole_value *value)
{
    whole_value copy = whole_make(value->dtype, value->rank, value->dims);

    memcpy(copy.elements, value->elements, (size_t)count_of(value) * sizeof *value->elements);
    return copy;
}

void whole_load(whole_value *value, const void *data)
{
    size_t step = inlay_dtype_bits(value->dtype) / 8;

    for (int64_t i = 0; i < count_of(value); i++) {
        const char *at = (const char *)data + (size_t)i * step;
        float real;
        int64_t wide;
        int32_t narrow;

        if (value->dtype == INLAY_FLOAT)
            memcpy(&real, at, sizeof real), value->elements[i] = (double)real;
        else if (value->dtype == INLAY_INT64)
            memcpy(&wide, at, sizeof wide), value->elements[i] = (double)wide;
        else if (value->dtype == INLAY_INT32)
            memcpy(&narrow, at, sizeof narrow), value->elements[i] = narrow;
        else
            value->elements[i] = *at != 0;
    }
}

void whole_store(const whole_value *value, void *data)
{
    size_t step = inlay_dtype_bits(value->dtype) / 8;

    for (int64_t i = 0; i < count_of(value); i++) {
        char *at = (char *)data + (size_t)i * step;
        float real = (float)value->elements[i];
        int64_t wide = (int64_t)value->elements[i];
        int32_t narrow = (int32_t)value->elements[i];

        if (value->dtype == INLAY_FLOAT)
            memcpy(at, &real, sizeof real);
        else if (value->dtype == INLAY_INT64)
            memcpy(at, &wide, sizeof wide);
        else if (value->dtype == INLAY_INT32)
            memcpy(at, &narrow, sizeof narrow);
        else
            *at = value->elements[i] != 0;
    }
}

static double compute(uint32_t op, double a, double b)
{
    switch (op) {
    case WHOLE_Neg:
        return -a;
    case WHOLE_Abs:
        return fabs(a);
    case WHOLE_Relu:
        return a < 0 ? 0 : a;
    case WHOLE_Not:
        return a == 0;
    case WHOLE_Add:
        return a + b;
    case WHOLE_Sub:
        return a - b;
    case WHOLE_Mul:
        return a * b;
    case WHOLE_Mod:
        return a - b * floor(a / b);
    case WHOLE_Less:
        return a < b;
    case WHOLE_Greater:
        return a > b;
    case WHOLE_Equal:
        return a == b;
    case WHOLE_And:
        return a != 0 && b != 0;
    case WHOLE_Or:
        return a != 0 || b != 0;
    case WHOLE_Sigmoid:
        return 1 / (1 + exp(-a));
    case WHOLE_Swish:
        return a / (1 + exp(-a));
    default:
        return a;
    }
}

static inlay_dtype result_type(const whole_node *node, const whole_value *value)
{
    if (node->op == WHOLE_Cast)
        return node->to;
    return node->op == WHOLE_Less || node->op == WHOLE_Greater || node->op == WHOLE_Equal ? INLAY_BOOL : value->dtype;
}

/* Returns the index of the element of a broadcast operand that belongs to element i of the output. */
static int64_t broadcast_index(const whole_value *value, const whole_value *output, int64_t i)
{
    int64_t place = 0, stride = 1;

    for (uint32_t d = output->rank; d-- > 0;) {
        int64_t at = i % output->dims[d];
        uint32_t missing = output->rank - value->rank;

        i /= output->dims[d];
        if (d < missing)
            continue;
        place += value->dims[d - missing] == 1 ? 0 : at * stride;
        stride *= value->dims[d - missing];
    }
    return place;
}

static inlay_status elementwise(const whole_node *node, const whole_value *a, const whole_value *b, whole_value *value,
                                inlay_diag *diag)
{
    whole_value shape = { .rank = a->rank };

    memcpy(shape.dims, a->dims, sizeof shape.dims);
    if (b != NULL) {
        shape.rank = a->rank > b->rank ? a->rank : b->rank;
        for (uint32_t d = 0; d < shape.rank; d++) {
            int64_t first_dim = d + a->rank < shape.rank ? 1 : a->dims[d + a->rank - shape.rank];
            int64_t second_dim = d + b->rank < shape.rank ? 1 : b->dims[d + b->rank - shape.rank];

            if (first_dim != second_dim && first_dim != 1 && second_dim != 1)
                return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "operands of %lld and %lld", (long long)first_dim,
                                  (long long)second_dim);
            shape.dims[d] = first_dim == 1 ? second_dim : first_dim;
        }
    }
    *value = whole_make(result_type(node, a), shape.rank, shape.dims);
    for (int64_t i = 0; i < count_of(value); i++) {
        double result = compute(node->op, a->elements[broadcast_index(a, value, i)],
                                b != NULL ? b->elements[broadcast_index(b, value, i)] : 0);

        value->elements[i] = value->dtype == INLAY_FLOAT                                  ? (double)(float)result
                             : value->dtype == INLAY_BOOL                                 ? result != 0
                             : value->dtype == INLAY_INT64 || value->dtype == INLAY_INT32 ? trunc(result)
                                                                                          : result;
    }
    return INLAY_OK;
}

struct run_environment {
    const inlay_host *host;
    inlay_run *run;
    inlay_diag *diag;
};

static inlay_status run_graph(const struct run_environment *run_environment, const whole_graph *graph,
                              const whole_node *node, int which, const whole_value *around, const whole_value *in,
                              whole_value *out);

static inlay_status run_if(const struct run_environment *run_environment, const whole_node *node,
                           const whole_value *values, whole_value *out)
{
    int which = values[node->inputs[0]].elements[0] == 0;

    return run_graph(run_environment, node->bodies[which], node, which, values, NULL, out);
}

/* Appends a slice to a stacked output. */
static void append_slice(whole_value *stack, whole_value *one)
{
    int64_t count = count_of(one), had = stack->dtype == INLAY_UNDEFINED ? 0 : stack->dims[0];
    whole_value next = { .dtype = one->dtype, .rank = one->rank + 1 };

    next.dims[0] = had + 1;
    memcpy(next.dims + 1, one->dims, one->rank * sizeof *one->dims);
    next.elements = whole_alloc((size_t)(count * (had + 1)) * sizeof *next.elements);
    if (had > 0)
        memcpy(next.elements, stack->elements, (size_t)(count * had) * sizeof *next.elements);
    memcpy(next.elements + count * had, one->elements, (size_t)count * sizeof *next.elements);
    free(stack->elements);
    free(one->elements);
    *stack = next;
    one->elements = NULL;
}

/* Runs a Loop or Scan. out[0 .. carried) are the carried values, followed by the stacked outputs. */
static inlay_status iterate(const struct run_environment *run_environment, const whole_node *node,
                            const whole_value *values, whole_value *out)
{
    const whole_graph *graph = node->bodies[0];
    const bool scan = node->op == WHOLE_Scan;
    const uint32_t heads = scan ? 0 : 2, tails = scan ? node->scan_inputs : 0;
    const uint32_t carried = node->input_count - heads - tails, first = scan ? 0 : 1;
    whole_value in[WHOLE_OPERANDS] = { 0 }, results[WHOLE_OPERANDS] = { 0 };
    int64_t most = INT64_MAX;
    inlay_status status = INLAY_OK;
    bool proceed = true;

    if (scan)
        most = values[node->inputs[carried]].dims[0];
    else if (node->inputs[0] != INLAY_NONE)
        most = (int64_t)values[node->inputs[0]].elements[0];
    if (!scan && node->inputs[1] != INLAY_NONE)
        proceed = values[node->inputs[1]].elements[0] != 0;
    for (uint32_t i = 0; i < carried; i++)
        out[i] = copy_of(&values[node->inputs[heads + i]]);
    for (int64_t t = 0; proceed && t < most && status == INLAY_OK; t++) {
        if (!scan) {
            in[0] = whole_make(INLAY_INT64, 0, NULL);
            in[1] = whole_make(INLAY_BOOL, 0, NULL);
            in[0].elements[0] = (double)t;
            in[1].elements[0] = 1;
        }
        for (uint32_t i = 0; i < carried; i++)
            in[heads + i] = out[i];
        for (uint32_t i = 0; i < tails; i++) {
            const whole_value *value = &values[node->inputs[carried + i]];

            in[carried + i] = whole_make(value->dtype, value->rank - 1, value->dims + 1);
            memcpy(in[carried + i].elements, value->elements + t * count_of(&in[carried + i]),
                   (size_t)count_of(&in[carried + i]) * sizeof *value->elements);
        }
        status = run_environment->host->poll(run_environment->host->ctx, run_environment->run);
        if (status == INLAY_OK)
            status = run_graph(run_environment, graph, node, 0, values, in, results);
        for (uint32_t i = 0; i < graph->input_count; i++)
            free(in[i].elements);
        for (uint32_t i = 0; i < carried; i++)
            out[i] = (whole_value){ 0 };
        if (status != INLAY_OK)
            break;
        if (!scan)
            proceed = results[0].elements[0] != 0, free(results[0].elements);
        for (uint32_t i = 0; i < carried; i++)
            out[i] = results[first + i];
        for (uint32_t i = carried; first + i < graph->output_count; i++)
            if (i < node->output_count)
                append_slice(&out[i], &results[first + i]);
            else
                free(results[first + i].elements);
    }
    return status;
}

/* Runs a node. A stacked output without iterations stays INLAY_UNDEFINED. */
static inlay_status run_node(const struct run_environment *run_environment, const whole_node *node, whole_value *values)
{
    const whole_value *value = node->input_count > 0 && node->inputs[0] != INLAY_NONE ? &values[node->inputs[0]] : NULL;
    whole_value out[WHOLE_OPERANDS] = { 0 };
    inlay_status status;

    if (node->op == WHOLE_If)
        status = run_if(run_environment, node, values, out);
    else if (node->op == WHOLE_Loop || node->op == WHOLE_Scan)
        status = iterate(run_environment, node, values, out);
    else
        status = elementwise(node, value, node->input_count > 1 ? &values[node->inputs[1]] : NULL, &out[0],
                             run_environment->diag);
    for (uint32_t output = 0; output < WHOLE_OPERANDS; output++)
        if (output < node->output_count && node->outputs[output] != INLAY_NONE)
            values[node->outputs[output]] = out[output];
        else
            free(out[output].elements);
    return status;
}

/* Runs a graph, or body `which` of node, whose captured values are in `around`. in: the inputs of the graph; NULL: it
 * has none. */
static inlay_status run_graph(const struct run_environment *run_environment, const whole_graph *graph,
                              const whole_node *node, int which, const whole_value *around, const whole_value *in,
                              whole_value *out)
{
    whole_value *values = whole_alloc(graph->value_count * sizeof *values);
    inlay_status status = INLAY_OK;

    for (uint32_t value = 0; value < graph->value_count; value++)
        if (graph->constants[value].dtype != INLAY_UNDEFINED)
            values[value] = copy_of(&graph->constants[value]);
    for (uint32_t i = 0; i < graph->input_count; i++)
        values[graph->inputs[i]] = copy_of(&in[i]);
    for (uint32_t i = 0; node != NULL && i < node->capture_count[which]; i++) {
        whole_value *inner = &values[node->capture_inner[which][i]];

        free(inner->elements);
        *inner = copy_of(&around[node->capture_outer[which][i]]);
    }
    for (uint32_t i = 0; i < graph->node_count && status == INLAY_OK; i++)
        status = run_node(run_environment, &graph->nodes[i], values);
    for (uint32_t output = 0; output < graph->output_count && status == INLAY_OK; output++)
        out[output] = values[graph->outputs[output]].dtype == INLAY_UNDEFINED
                          ? (whole_value){ 0 }
                          : copy_of(&values[graph->outputs[output]]);
    for (uint32_t value = 0; value < graph->value_count; value++)
        free(values[value].elements);
    free(values);
    return status;
}

static inlay_status store_output(const struct run_environment *run_environment, const whole_value *value,
                                 uint32_t output, const inlay_tensor_arg *arg)
{
    const inlay_output_request request = {
        .struct_size = sizeof request, .dims = value->dims, .output = output, .rank = value->rank
    };
    inlay_buffer buffer = arg->buffer;
    inlay_status status = INLAY_OK;

    if (value->dtype == INLAY_UNDEFINED || value->dtype != arg->dtype)
        return inlay_fail(run_environment->diag, INLAY_UNSUPPORTED,
                          "output %u has another type, or no slice was stacked", output);
    if (buffer.handle == 0)
        status =
            run_environment->host->output_alloc(run_environment->host->ctx, run_environment->run, &request, &buffer);
    else if (value->rank != arg->rank ||
             (value->rank > 0 && memcmp(value->dims, arg->dims, value->rank * sizeof *value->dims) != 0))
        status = inlay_fail(run_environment->diag, INLAY_SHAPE_MISMATCH, "output %u does not have its inferred shape",
                            output);
    if (status == INLAY_OK)
        whole_store(value, inlay_buffer_host(&buffer));
    return status;
}

inlay_status whole_execute(const whole_graph *graph, const inlay_host *host, const inlay_exec_args *args)
{
    const struct run_environment run_environment = { host, args->run, args->diag };
    whole_value in[WHOLE_OPERANDS * 4] = { 0 }, out[WHOLE_OPERANDS * 4] = { 0 };
    inlay_status status;

    if (graph->input_count > WHOLE_OPERANDS * 4 || graph->output_count > WHOLE_OPERANDS * 4)
        return inlay_fail(args->diag, INLAY_LIMIT_EXCEEDED, "too many operands");
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const inlay_tensor_arg *arg = INLAY_AT(inlay_tensor_arg, args->inputs, args->arg_stride, i);

        in[i] = whole_make(arg->dtype, arg->rank, arg->dims);
        whole_load(&in[i], inlay_buffer_host(&arg->buffer));
    }
    status = run_graph(&run_environment, graph, NULL, 0, NULL, in, out);
    for (uint32_t o = 0; o < graph->output_count && status == INLAY_OK; o++)
        status =
            store_output(&run_environment, &out[o], o, INLAY_AT(inlay_tensor_arg, args->outputs, args->arg_stride, o));
    for (uint32_t i = 0; i < graph->input_count; i++)
        free(in[i].elements);
    for (uint32_t o = 0; o < graph->output_count; o++)
        free(out[o].elements);
    return status;
}
