/* DequantizeLinear and QuantizeLinear; see quantized.h. */
#include "passes/quantized.h"
#include "base/element.h"
#include <math.h>
#include <string.h>

static bool is_byte(inlay_dtype t)
{
    return t == INLAY_UINT8 || t == INLAY_INT8;
}

int64_t quant_count(const inlay_value_info *v)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < v->rank; d++)
        count *= v->dims[d].value;
    return count;
}

bool quant_read_scales(const struct rewrite *w, const graph_node *n, inlay_dtype dtype, struct quant *q)
{
    const inlay_value_info *scale, *zero;
    int64_t rank = (int64_t)rw_info(w, rw_input(w, n, 0))->rank;

    q->scale = rw_input(w, n, 1);
    q->zero = rw_input(w, n, 2);
    q->dtype = dtype;
    scale = rw_info(w, q->scale);
    zero = rw_info(w, q->zero);
    if (!is_byte(dtype) || scale == NULL || !rw_is_constant(w, q->scale) || scale->dtype != INLAY_FLOAT ||
        scale->rank > 1 || rw_attr_int(n, "block_size", 0) != 0)
        return false;
    q->count = quant_count(scale);
    if (zero != NULL && (!rw_is_constant(w, q->zero) || zero->dtype != dtype || quant_count(zero) != q->count))
        return false;
    for (int64_t i = 0; i < q->count; i++) {
        double s;

        if (!element_number(INLAY_FLOAT, scale->data, i, &s, NULL) || !isfinite(s) || s <= 0)
            return false;
    }
    if (rank == (int64_t)INLAY_RANK_UNKNOWN)
        return q->count == 1;
    q->axis = rw_attr_int(n, "axis", 1);
    q->axis = q->axis < 0 ? q->axis + rank : q->axis;
    return q->count == 1 || (q->count > 1 && q->axis >= 0 && q->axis < rank);
}

bool quant_read(const struct rewrite *w, uint32_t v, struct quant *q)
{
    const graph_node *n = rw_maker_op(w, v, "DequantizeLinear");

    memset(q, 0, sizeof *q);
    if (n == NULL)
        return false;
    q->value = rw_input(w, n, 0);
    return q->value != INLAY_NONE && rw_info(w, v)->dtype == INLAY_FLOAT &&
           quant_read_scales(w, n, rw_info(w, q->value)->dtype, q);
}

double quant_scale(const struct rewrite *w, const struct quant *q, int64_t i)
{
    double s = 1;

    (void)element_number(INLAY_FLOAT, rw_info(w, q->scale)->data, q->count > 1 ? i : 0, &s, NULL);
    return s;
}

int64_t quant_zero(const struct rewrite *w, const struct quant *q, int64_t i)
{
    int64_t z = 0;

    if (q->zero != INLAY_NONE)
        (void)element_integer(q->dtype, rw_info(w, q->zero)->data, q->count > 1 ? i : 0, &z);
    return z;
}

uint32_t quant_byte(struct rewrite *w, inlay_dtype dtype, int64_t value)
{
    int8_t byte = (int8_t)value;

    return rw_constant(w, dtype, 0, NULL, &byte, 1);
}

uint32_t quant_zero_value(struct rewrite *w, const struct quant *q)
{
    return q->zero != INLAY_NONE ? q->zero : quant_byte(w, q->dtype, 0);
}

inlay_status quant_scale_product(struct rewrite *w, graph_node *n, const graph_node *product, uint32_t scale, bool last,
                                 uint32_t *out)
{
    graph_node *cast = rw_make(w, "Cast", 13, n, product->info.outputs, 1, 1), *mul;
    inlay_status status;

    if (cast == NULL || graph_set_attr_int(w->g, cast, "to", INLAY_FLOAT) != INLAY_OK)
        return rw_no_memory(w);
    INLAY_TRY(rw_insert(w, cast, INLAY_FLOAT));
    mul = rw_make(w, "Mul", 13, n, (const uint32_t[]){ cast->info.outputs[0], scale }, 2, 1);
    if (mul == NULL)
        return rw_no_memory(w);
    if (last)
        return rw_replace(w, n, mul);
    status = rw_insert(w, mul, INLAY_FLOAT);
    *out = mul->info.outputs[0];
done:
    return status;
}

bool quant_is_offered(const struct rewrite *w, graph_node *fresh, uint32_t like, inlay_dtype dtype)
{
    inlay_value_info made = *rw_info(w, like);

    if (w->ctx->offers_integers == NULL)
        return true;
    made.dtype = dtype;
    made.flags = 0;
    made.data = NULL;
    made.data_bytes = 0;
    if (fresh->info.since_version == 0) /* what is made of floats has this; it is bound once it is in the graph */
        fresh->info.since_version = 10;
    return w->ctx->offers_integers(w->ctx->fold_ctx, w->g, fresh, &made);
}

/* Is v a constant of zeros, or omitted? */
static bool is_zero(const struct rewrite *w, uint32_t v)
{
    const inlay_value_info *zero = rw_info(w, v);
    int64_t z;

    for (int64_t i = 0; zero != NULL && i < quant_count(zero); i++)
        if (!rw_is_constant(w, v) || !element_integer(zero->dtype, zero->data, i, &z) || z != 0)
            return false;
    return true;
}

bool quant_bias(const struct rewrite *w, uint32_t v, int64_t filters, double *out, double *out_factor)
{
    const graph_node *back = rw_maker_op(w, v, "DequantizeLinear");
    const uint32_t whole = back == NULL ? v : rw_input(w, back, 0);
    const uint32_t factor = back == NULL ? INLAY_NONE : rw_input(w, back, 1);
    const inlay_value_info *info = rw_info(w, whole), *scale = rw_info(w, factor);

    if (!rw_is_constant(w, whole) || info->dtype != (back == NULL ? INLAY_FLOAT : INLAY_INT32) ||
        quant_count(info) != filters)
        return false;
    if (back != NULL &&
        (scale == NULL || !rw_is_constant(w, factor) || scale->dtype != INLAY_FLOAT || scale->rank > 1 ||
         (quant_count(scale) != 1 && quant_count(scale) != filters) || !is_zero(w, rw_input(w, back, 2))))
        return false;
    for (int64_t i = 0; i < filters; i++) {
        out_factor[i] = 1;
        if (!element_number(info->dtype, info->data, i, &out[i], NULL) ||
            (scale != NULL &&
             !element_number(INLAY_FLOAT, scale->data, quant_count(scale) > 1 ? i : 0, &out_factor[i], NULL)))
            return false;
    }
    return true;
}
