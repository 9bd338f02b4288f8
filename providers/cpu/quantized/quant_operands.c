/* What operators of integers ask of their operands: which nodes are theirs, scales, zero points and constants. */
#include "quantized/quant.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_WITH(rg_is_dynamic_scale, RG_BYTE_FAMILIES " rg_weights rg_nbits_product");
OPTIONAL_WITH(rg_takes_any, RG_BYTE_FAMILIES " rg_weights rg_nbits_product");
OPTIONAL_WITH(rg_takes_bytes, RG_BYTE_FAMILIES " rg_weights rg_nbits_product");
OPTIONAL_WITH(rg_takes_product, RG_BYTE_FAMILIES " rg_weights rg_nbits_product");

/* ------------------------------------------------------------------ which nodes */

bool rg_takes_any(const kit_node *node)
{
    (void)node;
    return true;
}

bool q_is_bytes(const inlay_value_info *v)
{
    return v != NULL && (v->dtype == INLAY_UINT8 || v->dtype == INLAY_INT8);
}

bool rg_takes_bytes(const kit_node *node)
{
    return q_is_bytes(kit_input(node, 0));
}

static bool is_made_by(const kit_node *node, const inlay_value_info *v, const char *op_type)
{
    return v != NULL && v->producer != INLAY_NONE && v->producer < node->graph->node_count &&
           strcmp(inlay_graph_node(node->graph, v->producer)->op_type.data, op_type) == 0;
}

bool rg_is_dynamic_scale(const kit_node *node, const inlay_value_info *v)
{
    return v != NULL && v->dtype == INLAY_FLOAT && is_made_by(node, v, "DynamicQuantizeLinear");
}

bool rg_takes_product(const kit_node *node)
{
    const inlay_value_info *x = kit_input(node, 0), *y = kit_output(node, 0);

    return x != NULL && y != NULL && x->dtype == INLAY_INT32 && y->dtype == INLAY_FLOAT &&
           (is_made_by(node, x, "MatMulInteger") || is_made_by(node, x, "ConvInteger"));
}

/* ------------------------------------------------------------------ parsing */

bool q_library_has_products(kit_refusal *why)
{
    return dn_has_isa(DN_ISA_AVX512_VNNI) ||
           kit_refuse(why, INLAY_REFUSE_DEVICE, "a CPU with AVX-512 VNNI",
                      "without AVX-512 VNNI oneDNN's products of bytes saturate in between");
}

bool q_known_scale(const inlay_value_info *v, int64_t most, const char *what, float *out_first, kit_refusal *why)
{
    int64_t count = v != NULL ? rg_known_count(v) : -1;

    if (count < 1 || (v->flags & INLAY_VALUE_CONSTANT) == 0 || v->data == NULL || v->dtype != INLAY_FLOAT)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant", "the scale of %s is not a float constant",
                          what);
    if (count != 1 && (count != most || v->rank != 1))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the scale of %s has %lld elements", what, (long long)count);
    for (int64_t i = 0; i < count; i++) {
        float s;

        memcpy(&s, (const char *)v->data + (size_t)i * sizeof s, sizeof s);
        if (!(s > 0) || !isfinite(s))
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "the scale of %s is not above 0", what);
        if (i == 0)
            *out_first = s;
    }
    return true;
}

bool q_known_zero(const inlay_value_info *v, const inlay_value_info *of, const char *what, int32_t *out,
                  kit_refusal *why)
{
    *out = 0;
    if (v == NULL)
        return true;
    if ((v->flags & INLAY_VALUE_CONSTANT) == 0 || v->data == NULL || v->data_bytes != 1 || v->dtype != of->dtype)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant",
                          "the zero point of %s is not one constant of its type", what);
    *out = v->dtype == INLAY_INT8 ? *(const int8_t *)v->data : *(const uint8_t *)v->data;
    return true;
}

/* ------------------------------------------------------------------ at a build */

inlay_status q_no_memory(const rg_build *b)
{
    return inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", b->op->name);
}

const void *q_constant(rg_build *b, uint32_t value)
{
    rg_constant *k = value == INLAY_NONE || b->c->values[value].constant == INLAY_NONE
                         ? NULL
                         : &b->c->constants[b->c->values[value].constant];

    if (k == NULL)
        return NULL;
    k->plain_used = true;
    return k->data;
}

void q_shift(rg_build *b, uint32_t value)
{
    b->c->constants[b->c->values[value].constant].shifted = true;
}

inlay_status q_read_dense(rg_build *b, uint32_t value, const rg_md *as, rg_place *out)
{
    inlay_status status = rg_read(b, value, out);
    uint32_t rank = b->ranks[value];
    rg_md md;

    if (status != INLAY_OK)
        return status;
    if (as != NULL) {
        md = q_typed(as, rg_type(b, value));
        return rg_read_as(b, value, &md, out);
    }
    if (!rg_md_is_blocked(&out->md) && rg_md_is_dense(&out->md))
        return INLAY_OK;
    if (!rg_md_is_image(&out->md) || rank < 3 || rank > 5)
        return rg_read_plain(b, value, out);
    rg_md_channels_last(&md, rank, b->dims[value]);
    md.data_type = rg_type(b, value);
    return rg_read_as(b, value, &md, out);
}
