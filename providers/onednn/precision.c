/* Option precision: in which types products are computed, and in which their results wait. With `reduced` operands are
 * bfloat16 and sums float; a result stays bfloat16 where only such products read it. */
#include "build.h"

bool rg_has_bf16(void)
{
    const int isa = (int)dnnl_get_effective_cpu_isa(), wanted = (int)dnnl_cpu_isa_avx512_core_bf16;

    return (isa & wanted) == wanted;
}

dnnl_data_type_t rg_product_type(const rg_build *b)
{
    return b->state->bf16 ? dnnl_bf16 : dnnl_f32;
}

dnnl_data_type_t rg_kept_type(const rg_build *b, uint32_t value)
{
    uint32_t reads = 0;

    if (!b->state->bf16 || b->c->values[value].output != INLAY_NONE)
        return dnnl_f32;
    for (uint32_t o = 0; o < b->c->op_count; o++) {
        const rg_op *op = &b->c->ops[o];

        for (uint32_t i = 0; i < op->in_count; i++) {
            if (op->in[i] != value)
                continue;
            if (i != 0 || op->row->family != &rg_product || !rg_is_packed(b, op))
                return dnnl_f32;
            reads++;
        }
    }
    return reads > 0 ? dnnl_bf16 : dnnl_f32;
}

inlay_status rg_read_rows(rg_build *b, uint32_t value, dnnl_data_type_t type, rg_place *out)
{
    rg_md md;

    if (type == dnnl_f32)
        return rg_read_plain(b, value, out);
    rg_md_plain(&md, b->ranks[value], b->dims[value]);
    md.data_type = type;
    return rg_read_as(b, value, &md, out);
}
