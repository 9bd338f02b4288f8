/* Which DequantizeLinear no kernel on integers reads, and why: by the rules of the optimiser's pass quantized_ops. */
#include "base/memory.h"
#include "cli/inspect_quant.h"
#include <stdlib.h>
#include <string.h>

enum { FAR = 8 }; /* operators between DequantizeLinear and QuantizeLinear that become one kernel, at most */

struct pairs {
    const struct graph *g;
    uint32_t *maker;        /* [value_count + 1] the node that makes a value, INLAY_NONE */
    uint32_t *first, *next; /* nodes that read a value, as lists; next is by number of the read */
    uint32_t *reader;
};

static bool is_op(const graph_node *n, const char *op_type)
{
    return n != NULL && strcmp(n->info.op_type.data, op_type) == 0;
}

static bool is_any_of(const graph_node *n, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_op(n, names[i]))
            return true;
    return false;
}

static uint32_t input_of(const graph_node *n, uint32_t i)
{
    return i < n->info.input_count ? n->info.inputs[i] : INLAY_NONE;
}

static const inlay_value_info *info_of(const struct pairs *p, uint32_t v)
{
    return v == INLAY_NONE ? NULL : &p->g->values[v].info;
}

static bool is_constant(const inlay_value_info *v)
{
    return v != NULL && (v->flags & INLAY_VALUE_CONSTANT) != 0;
}

static bool is_one(const inlay_value_info *v)
{
    return v->rank == 0 || (v->rank == 1 && v->dims[0].value == 1);
}

static int64_t block_of(const graph_node *n)
{
    const inlay_attr_info *a = graph_attr(n, "block_size");

    return a == NULL || a->kind != INLAY_ATTR_INT ? 0 : a->i;
}

static bool find_links(struct pairs *p)
{
    const struct graph *g = p->g;
    uint32_t reads = 0, at = 0;

    for (uint32_t i = 0; i < g->node_count; i++)
        reads += g->nodes[i]->info.input_count;
    p->maker = malloc(((size_t)g->value_count + 1) * sizeof *p->maker);
    p->first = malloc(((size_t)g->value_count + 1) * sizeof *p->first);
    p->next = malloc(((size_t)reads + 1) * sizeof *p->next);
    p->reader = malloc(((size_t)reads + 1) * sizeof *p->reader);
    if (p->maker == NULL || p->first == NULL || p->next == NULL || p->reader == NULL)
        return false;
    memset(p->maker, 0xff, ((size_t)g->value_count + 1) * sizeof *p->maker);
    memset(p->first, 0xff, ((size_t)g->value_count + 1) * sizeof *p->first);
    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];

        for (uint32_t k = 0; k < n->info.output_count; k++)
            if (n->info.outputs[k] != INLAY_NONE)
                p->maker[n->info.outputs[k]] = i;
        for (uint32_t k = 0; k < n->info.input_count; k++, at++) {
            if (n->info.inputs[k] == INLAY_NONE)
                continue;
            p->reader[at] = i;
            p->next[at] = p->first[n->info.inputs[k]];
            p->first[n->info.inputs[k]] = at;
        }
    }
    return true;
}

static const graph_node *maker_of(const struct pairs *p, uint32_t v)
{
    return v == INLAY_NONE || p->maker[v] == INLAY_NONE ? NULL : p->g->nodes[p->maker[v]];
}

/* Why the other operand of a convolution or product keeps it on floats; NULL: it does not. */
static const char *weights_fault(const struct pairs *p, const graph_node *n, uint32_t at)
{
    const graph_node *back = maker_of(p, input_of(n, at));
    const inlay_value_info *w = back == NULL ? NULL : info_of(p, input_of(back, 0));

    if (is_constant(info_of(p, input_of(n, at))))
        return "its weights are floats";
    if (!is_op(back, "DequantizeLinear") || !is_constant(w))
        return "its other operand is computed";
    if (w->dtype != INLAY_INT8 && w->dtype != INLAY_UINT8)
        return "its weights have other than 8 bits";
    if (block_of(back) != 0)
        return "its weights have scales by blocks";
    return !is_op(n, "Conv") && w->rank != 2 ? "its weights are no matrix" : NULL;
}

static bool is_quantized_again(const struct pairs *p, uint32_t v, int depth)
{
    static const char *const between[] = {
        "Add",     "Sub",        "Mul",       "Div",     "Max",        "Min",         "Relu",
        "Clip",    "LeakyRelu",  "HardSwish", "Sigmoid", "Tanh",       "AveragePool", "GlobalAveragePool",
        "Softmax", "ReduceMean", "Resize",    "Concat",  "HardSigmoid"
    };

    for (uint32_t at = p->first[v]; at != INLAY_NONE; at = p->next[at]) {
        const graph_node *n = p->g->nodes[p->reader[at]];

        if (is_op(n, "QuantizeLinear"))
            return true;
        if (depth < FAR && is_any_of(n, between, sizeof between / sizeof between[0]) &&
            n->info.outputs[0] != INLAY_NONE && is_quantized_again(p, n->info.outputs[0], depth + 1))
            return true;
    }
    return false;
}

/* Does somebody quantize v, which was only moved? Q comes first then, and bytes are moved. */
static bool quantizes(const struct pairs *p, uint32_t v)
{
    for (uint32_t at = v == INLAY_NONE ? v : p->first[v]; at != INLAY_NONE; at = p->next[at])
        if (is_op(p->g->nodes[p->reader[at]], "QuantizeLinear"))
            return true;
    return false;
}

/* Why reader n of what is dequantized computes with floats; NULL: it does not. */
static const char *reader_fault(const struct pairs *p, const graph_node *n, uint32_t v)
{
    static const char *const moves[] = { "MaxPool", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten" };
    static const char *const functions[] = { "Add",  "Sub",  "Mul",       "Div",       "Max",     "Min",
                                             "Relu", "Clip", "LeakyRelu", "HardSwish", "Sigmoid", "Tanh" };
    const inlay_attr_info *turned = graph_attr(n, "transA");

    if (n->body_count > 0 || is_op(n, "QuantizeLinear"))
        return NULL;
    if (is_any_of(n, moves, sizeof moves / sizeof moves[0]))
        return quantizes(p, n->info.outputs[0]) ? NULL : "what it makes is not quantized again";
    if (is_op(n, "Conv") || is_op(n, "MatMul") || is_op(n, "Gemm")) {
        if (input_of(n, 0) != v)
            return input_of(n, 1) == v ? "its other operand is computed" : NULL;
        if (is_op(n, "Gemm") && turned != NULL && turned->i != 0)
            return "it turns its first operand (transA)";
        return weights_fault(p, n, 1);
    }
    if (!is_any_of(n, functions, sizeof functions / sizeof functions[0]))
        return "it has no kernel that reads integers";
    return n->info.outputs[0] != INLAY_NONE && is_quantized_again(p, n->info.outputs[0], 0)
               ? NULL
               : "what it makes is not quantized again";
}

/* The QuantizeLinear whose result DequantizeLinear n reads, past a Cast to bytes, which is how torch writes that they
 * are; NULL: there is none. */
static const graph_node *rounding_of(const struct pairs *p, const graph_node *n)
{
    const graph_node *q = maker_of(p, input_of(n, 0));
    const inlay_attr_info *to = is_op(q, "Cast") ? graph_attr(q, "to") : NULL;

    if (to != NULL && (to->i == INLAY_INT8 || to->i == INLAY_UINT8))
        q = maker_of(p, input_of(q, 0));
    return is_op(q, "QuantizeLinear") ? q : NULL;
}

/* Of what QuantizeLinear q makes and DequantizeLinear n reads; types of values in between are not inferred yet. */
static inlay_dtype integers_of(const struct pairs *p, const graph_node *q, const graph_node *n)
{
    const inlay_value_info *zero = info_of(p, input_of(n, 2)), *first = info_of(p, input_of(q, 2));
    const inlay_attr_info *stated = graph_attr(q, "output_dtype");

    if (zero != NULL || first != NULL)
        return zero != NULL ? zero->dtype : first->dtype;
    return stated != NULL && stated->kind == INLAY_ATTR_INT && stated->i != 0 ? (inlay_dtype)stated->i : INLAY_UINT8;
}

/* Why no kernel on integers reads what DequantizeLinear n makes; NULL: one does, or nobody reads it. *out_by: who. */
static const char *fault_of(const struct pairs *p, const graph_node *n, const char **out_by)
{
    const inlay_value_info *scale = info_of(p, input_of(n, 1));
    const inlay_dtype type = integers_of(p, rounding_of(p, n), n);
    const char *fault = NULL;

    *out_by = NULL;
    if (scale == NULL)
        return NULL;
    if (type != INLAY_INT8 && type != INLAY_UINT8)
        return "integers of other than 8 bits have no kernels";
    if (!is_constant(scale) || (input_of(n, 2) != INLAY_NONE && !is_constant(info_of(p, input_of(n, 2)))))
        return "its scale or zero point is no constant";
    if (!is_one(scale))
        return "it has several scales";
    for (uint32_t at = p->first[n->info.outputs[0]]; at != INLAY_NONE; at = p->next[at]) {
        const graph_node *reader = p->g->nodes[p->reader[at]];
        const char *own = reader_fault(p, reader, n->info.outputs[0]);

        if (own == NULL)
            return NULL;
        *out_by = reader->info.op_type.data;
        fault = own;
    }
    return fault;
}

static bool add(quant_report *r, const char *node, const char *by, const char *reason)
{
    if (!LIST_GROW(r->unused, r->unused_count))
        return false;
    r->unused[r->unused_count++] = (quant_unused){ node, by, reason };
    return true;
}

bool quant_look_at_pairs(const struct graph *g, quant_report *r)
{
    struct pairs p = { .g = g };
    bool ok = find_links(&p);

    for (uint32_t i = 0; ok && i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];
        const char *reason, *by;
        bool leaves = false;

        if (!is_op(n, "DequantizeLinear") || n->info.output_count == 0 || n->info.outputs[0] == INLAY_NONE ||
            rounding_of(&p, n) == NULL)
            continue;
        for (uint32_t k = 0; k < g->output_count; k++)
            leaves |= g->outputs[k] == n->info.outputs[0];
        reason = leaves ? NULL : fault_of(&p, n, &by);
        if (reason != NULL)
            ok = add(r, n->info.name.data, by, reason);
    }
    free(p.maker);
    free(p.first);
    free(p.next);
    free(p.reader);
    return ok;
}

void quant_release(quant_report *r)
{
    free(r->unused);
    r->unused = NULL;
    r->unused_count = 0;
}
