/* The interpreter. */
#include "whole_run.h"
#include <math.h>
#include <stdlib.h>

/* ------------------------------------------------------------------ values */

static int64_t count_of(const whole_value *v)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < v->rank; d++)
        count *= v->dims[d];
    return count;
}

whole_value whole_make(inlay_dtype dtype, uint32_t rank, const int64_t *dims)
{
    whole_value v = { .dtype = dtype, .rank = rank };

    if (rank > 0)
        memcpy(v.dims, dims, rank * sizeof *dims);
    v.e = whole_alloc((size_t)count_of(&v) * sizeof *v.e);
    return v;
}

static whole_value copy_of(const whole_value *v)
{
    whole_value copy = whole_make(v->dtype, v->rank, v->dims);

    memcpy(copy.e, v->e, (size_t)count_of(v) * sizeof *v->e);
    return copy;
}

void whole_load(whole_value *v, const void *data)
{
    size_t step = inlay_dtype_bits(v->dtype) / 8;

    for (int64_t i = 0; i < count_of(v); i++) {
        const char *at = (const char *)data + (size_t)i * step;
        float f;
        int64_t wide;
        int32_t narrow;

        if (v->dtype == INLAY_FLOAT)
            memcpy(&f, at, sizeof f), v->e[i] = (double)f;
        else if (v->dtype == INLAY_INT64)
            memcpy(&wide, at, sizeof wide), v->e[i] = (double)wide;
        else if (v->dtype == INLAY_INT32)
            memcpy(&narrow, at, sizeof narrow), v->e[i] = narrow;
        else
            v->e[i] = *at != 0;
    }
}

void whole_store(const whole_value *v, void *data)
{
    size_t step = inlay_dtype_bits(v->dtype) / 8;

    for (int64_t i = 0; i < count_of(v); i++) {
        char *at = (char *)data + (size_t)i * step;
        float f = (float)v->e[i];
        int64_t wide = (int64_t)v->e[i];
        int32_t narrow = (int32_t)v->e[i];

        if (v->dtype == INLAY_FLOAT)
            memcpy(at, &f, sizeof f);
        else if (v->dtype == INLAY_INT64)
            memcpy(at, &wide, sizeof wide);
        else if (v->dtype == INLAY_INT32)
            memcpy(at, &narrow, sizeof narrow);
        else
            *at = v->e[i] != 0;
    }
}

/* ------------------------------------------------------------------ elementwise */

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

static inlay_dtype result_type(const whole_node *n, const whole_value *a)
{
    if (n->op == WHOLE_Cast)
        return n->to;
    return n->op == WHOLE_Less || n->op == WHOLE_Greater || n->op == WHOLE_Equal ? INLAY_BOOL : a->dtype;
}

/* Where the element of a broadcast tensor is that belongs to element i of y. */
static int64_t place_in(const whole_value *x, const whole_value *y, int64_t i)
{
    int64_t place = 0, stride = 1;

    for (uint32_t d = y->rank; d-- > 0;) {
        int64_t at = i % y->dims[d];
        uint32_t missing = y->rank - x->rank;

        i /= y->dims[d];
        if (d < missing)
            continue;
        place += x->dims[d - missing] == 1 ? 0 : at * stride;
        stride *= x->dims[d - missing];
    }
    return place;
}

static inlay_status elementwise(const whole_node *n, const whole_value *a, const whole_value *b, whole_value *y,
                                inlay_diag *diag)
{
    whole_value shape = { .rank = a->rank };

    memcpy(shape.dims, a->dims, sizeof shape.dims);
    if (b != NULL) {
        shape.rank = a->rank > b->rank ? a->rank : b->rank;
        for (uint32_t d = 0; d < shape.rank; d++) {
            int64_t p = d + a->rank < shape.rank ? 1 : a->dims[d + a->rank - shape.rank];
            int64_t q = d + b->rank < shape.rank ? 1 : b->dims[d + b->rank - shape.rank];

            if (p != q && p != 1 && q != 1)
                return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "operands of %lld and %lld", (long long)p, (long long)q);
            shape.dims[d] = p == 1 ? q : p;
        }
    }
    *y = whole_make(result_type(n, a), shape.rank, shape.dims);
    for (int64_t i = 0; i < count_of(y); i++) {
        double e = compute(n->op, a->e[place_in(a, y, i)], b != NULL ? b->e[place_in(b, y, i)] : 0);

        y->e[i] = y->dtype == INLAY_FLOAT                              ? (double)(float)e
                  : y->dtype == INLAY_BOOL                             ? e != 0
                  : y->dtype == INLAY_INT64 || y->dtype == INLAY_INT32 ? trunc(e)
                                                                       : e;
    }
    return INLAY_OK;
}

/* ------------------------------------------------------------------ control flow */

struct scene {
    const inlay_host *host;
    inlay_run *run;
    inlay_diag *diag;
};

static inlay_status run_graph(const struct scene *s, const whole_graph *g, const whole_node *node, int which,
                              const whole_value *around, const whole_value *in, whole_value *out);

static inlay_status run_if(const struct scene *s, const whole_node *n, const whole_value *values, whole_value *out)
{
    int which = values[n->inputs[0]].e[0] == 0;

    return run_graph(s, n->bodies[which], n, which, values, NULL, out);
}

/* Puts one more result behind those that are stacked. */
static void push(whole_value *stack, whole_value *one)
{
    int64_t count = count_of(one), had = stack->dtype == INLAY_UNDEFINED ? 0 : stack->dims[0];
    whole_value next = { .dtype = one->dtype, .rank = one->rank + 1 };

    next.dims[0] = had + 1;
    memcpy(next.dims + 1, one->dims, one->rank * sizeof *one->dims);
    next.e = whole_alloc((size_t)(count * (had + 1)) * sizeof *next.e);
    if (had > 0)
        memcpy(next.e, stack->e, (size_t)(count * had) * sizeof *next.e);
    memcpy(next.e + count * had, one->e, (size_t)count * sizeof *next.e);
    free(stack->e);
    free(one->e);
    *stack = next;
    one->e = NULL;
}

/* Loop and Scan: what is carried is out[0 .. carried), what is stacked comes behind. */
static inlay_status iterate(const struct scene *s, const whole_node *n, const whole_value *values, whole_value *out)
{
    const whole_graph *g = n->bodies[0];
    const bool scan = n->op == WHOLE_Scan;
    const uint32_t heads = scan ? 0 : 2, tails = scan ? n->scan_inputs : 0;
    const uint32_t carried = n->input_count - heads - tails, first = scan ? 0 : 1;
    whole_value in[WHOLE_OPERANDS] = { 0 }, made[WHOLE_OPERANDS] = { 0 };
    int64_t most = INT64_MAX;
    inlay_status status = INLAY_OK;
    bool go = true;

    if (scan)
        most = values[n->inputs[carried]].dims[0];
    else if (n->inputs[0] != INLAY_NONE)
        most = (int64_t)values[n->inputs[0]].e[0];
    if (!scan && n->inputs[1] != INLAY_NONE)
        go = values[n->inputs[1]].e[0] != 0;
    for (uint32_t i = 0; i < carried; i++)
        out[i] = copy_of(&values[n->inputs[heads + i]]);
    for (int64_t t = 0; go && t < most && status == INLAY_OK; t++) {
        if (!scan) {
            in[0] = whole_make(INLAY_INT64, 0, NULL);
            in[1] = whole_make(INLAY_BOOL, 0, NULL);
            in[0].e[0] = (double)t;
            in[1].e[0] = 1;
        }
        for (uint32_t i = 0; i < carried; i++)
            in[heads + i] = out[i];
        for (uint32_t i = 0; i < tails; i++) {
            const whole_value *x = &values[n->inputs[carried + i]];

            in[carried + i] = whole_make(x->dtype, x->rank - 1, x->dims + 1);
            memcpy(in[carried + i].e, x->e + t * count_of(&in[carried + i]),
                   (size_t)count_of(&in[carried + i]) * sizeof *x->e);
        }
        status = s->host->poll(s->host->ctx, s->run);
        if (status == INLAY_OK)
            status = run_graph(s, g, n, 0, values, in, made);
        for (uint32_t i = 0; i < g->input_count; i++)
            free(in[i].e);
        for (uint32_t i = 0; i < carried; i++)
            out[i] = (whole_value){ 0 };
        if (status != INLAY_OK)
            break;
        if (!scan)
            go = made[0].e[0] != 0, free(made[0].e);
        for (uint32_t i = 0; i < carried; i++)
            out[i] = made[first + i];
        for (uint32_t i = carried; first + i < g->output_count; i++)
            if (i < n->output_count)
                push(&out[i], &made[first + i]);
            else
                free(made[first + i].e);
    }
    return status;
}

/* A stack without elements keeps the shape that the host knows, if it does. */
static inlay_status run_node(const struct scene *s, const whole_node *n, whole_value *values)
{
    const whole_value *a = n->input_count > 0 && n->inputs[0] != INLAY_NONE ? &values[n->inputs[0]] : NULL;
    whole_value out[WHOLE_OPERANDS] = { 0 };
    inlay_status status;

    if (n->op == WHOLE_If)
        status = run_if(s, n, values, out);
    else if (n->op == WHOLE_Loop || n->op == WHOLE_Scan)
        status = iterate(s, n, values, out);
    else
        status = elementwise(n, a, n->input_count > 1 ? &values[n->inputs[1]] : NULL, &out[0], s->diag);
    for (uint32_t o = 0; o < WHOLE_OPERANDS; o++)
        if (o < n->output_count && n->outputs[o] != INLAY_NONE)
            values[n->outputs[o]] = out[o];
        else
            free(out[o].e);
    return status;
}

/* in: the graph's inputs, or NULL: they are in `around` already; node and which say whose body it is. */
static inlay_status run_graph(const struct scene *s, const whole_graph *g, const whole_node *node, int which,
                              const whole_value *around, const whole_value *in, whole_value *out)
{
    whole_value *values = whole_alloc(g->value_count * sizeof *values);
    inlay_status status = INLAY_OK;

    for (uint32_t v = 0; v < g->value_count; v++)
        if (g->constants[v].dtype != INLAY_UNDEFINED)
            values[v] = copy_of(&g->constants[v]);
    for (uint32_t i = 0; i < g->input_count; i++)
        values[g->inputs[i]] = copy_of(&in[i]);
    for (uint32_t i = 0; node != NULL && i < node->capture_count[which]; i++) {
        whole_value *inner = &values[node->capture_inner[which][i]];

        free(inner->e);
        *inner = copy_of(&around[node->capture_outer[which][i]]);
    }
    for (uint32_t i = 0; i < g->node_count && status == INLAY_OK; i++)
        status = run_node(s, &g->nodes[i], values);
    for (uint32_t o = 0; o < g->output_count && status == INLAY_OK; o++)
        out[o] = values[g->outputs[o]].dtype == INLAY_UNDEFINED ? (whole_value){ 0 } : copy_of(&values[g->outputs[o]]);
    for (uint32_t v = 0; v < g->value_count; v++)
        free(values[v].e);
    free(values);
    return status;
}

/* ------------------------------------------------------------------ from the host and back */

static inlay_status give(const struct scene *s, const whole_value *v, uint32_t output, const inlay_tensor_arg *arg)
{
    inlay_buffer buffer = arg->buffer;
    inlay_status status = INLAY_OK;

    if (v->dtype == INLAY_UNDEFINED || v->dtype != arg->dtype)
        return inlay_fail(s->diag, INLAY_UNSUPPORTED, "output %u is of another type, or nothing was stacked", output);
    if (buffer.handle == 0)
        status = s->host->output_alloc(s->host->ctx, s->run, output, v->rank, v->dims, &buffer);
    else if (v->rank != arg->rank || (v->rank > 0 && memcmp(v->dims, arg->dims, v->rank * sizeof *v->dims) != 0))
        status = inlay_fail(s->diag, INLAY_SHAPE_MISMATCH, "output %u has another shape than was known", output);
    if (status == INLAY_OK)
        whole_store(v, inlay_buffer_host(&buffer));
    return status;
}

inlay_status whole_execute(const whole_graph *g, const inlay_host *host, const inlay_exec_args *args)
{
    const struct scene s = { host, args->run, args->diag };
    whole_value in[WHOLE_OPERANDS * 4] = { 0 }, out[WHOLE_OPERANDS * 4] = { 0 };
    inlay_status status;

    if (g->input_count > WHOLE_OPERANDS * 4 || g->output_count > WHOLE_OPERANDS * 4)
        return inlay_fail(args->diag, INLAY_LIMIT_EXCEEDED, "too many operands");
    for (uint32_t i = 0; i < g->input_count; i++) {
        const inlay_tensor_arg *x = INLAY_AT(inlay_tensor_arg, args->inputs, args->arg_stride, i);

        in[i] = whole_make(x->dtype, x->rank, x->dims);
        whole_load(&in[i], inlay_buffer_host(&x->buffer));
    }
    status = run_graph(&s, g, NULL, 0, NULL, in, out);
    for (uint32_t o = 0; o < g->output_count && status == INLAY_OK; o++)
        status = give(&s, &out[o], o, INLAY_AT(inlay_tensor_arg, args->outputs, args->arg_stride, o));
    for (uint32_t i = 0; i < g->input_count; i++)
        free(in[i].e);
    for (uint32_t o = 0; o < g->output_count; o++)
        free(out[o].e);
    return status;
}
