/* QuantizeLinear of DequantizeLinear with the same scale and zero point gives back what went in, for types of up to 16
 * bits: (x - z) * s, divided by s, is nearest to x - z again. */
#include "passes/rewrite.h"
#include <string.h>

static bool is_narrow(inlay_dtype t)
{
    return t == INLAY_UINT8 || t == INLAY_INT8 || t == INLAY_UINT16 || t == INLAY_INT16;
}

static bool same_value(const struct rewrite *w, uint32_t a, uint32_t b)
{
    const inlay_value_info *x = rw_info(w, a), *y = rw_info(w, b);

    if (a == b)
        return true;
    return x != NULL && y != NULL && rw_is_constant(w, a) && rw_is_constant(w, b) && rw_same_type(w, a, b) &&
           x->data_bytes == y->data_bytes && memcmp(x->data, y->data, (size_t)x->data_bytes) == 0;
}

static inlay_status match(struct rewrite *w, graph_node *n)
{
    graph_node *back = pass_is_op(n, "QuantizeLinear") ? rw_maker_op(w, rw_input(w, n, 0), "DequantizeLinear") : NULL;
    uint32_t x = back == NULL ? INLAY_NONE : rw_input(w, back, 0);
    bool done;

    if (x == INLAY_NONE || !is_narrow(rw_info(w, x)->dtype) ||
        rw_info(w, x)->dtype != rw_info(w, n->info.outputs[0])->dtype ||
        !same_value(w, rw_input(w, n, 1), rw_input(w, back, 1)) ||
        !same_value(w, rw_input(w, n, 2), rw_input(w, back, 2)) ||
        rw_attr_int(n, "axis", 1) != rw_attr_int(back, "axis", 1) ||
        rw_attr_int(n, "block_size", 0) != rw_attr_int(back, "block_size", 0))
        return INLAY_OK;
    return rw_forward(w, n->info.outputs[0], x, &done);
}

inlay_status pass_quantized_pairs(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
