#include "sparse_weights.h"

/* Blocks beyond this share are multiplied as fast with their zeros. */
#define MOST_SHARE 0.75

static sp_weights weights_of(const rg_md *plain, const void *source)
{
    return (sp_weights){ .data = source, .k = plain->dims[1], .n = plain->dims[0], .k_step = plain->strides[1],
                         .n_step = plain->strides[0] };
}

int64_t sparse_blocks_of(rg_build *b, const rg_op *op)
{
    const uint32_t value = op->in[1], number = b->c->values[value].constant;
    rg_constant *k = number != INLAY_NONE ? &b->c->constants[number] : NULL;
    const int64_t *dims = b->dims[value];
    sp_weights w;

    if (k == NULL || sparse_of_cpu() == NULL)
        return -1;
    if (k->sparse_blocks == 0 && k->data != NULL) {
        w = (sp_weights){ .data = k->data, .k = dims[op->trans_b ? 1 : 0], .n = dims[op->trans_b ? 0 : 1],
                          .k_step = op->trans_b ? 1 : dims[1], .n_step = op->trans_b ? dims[1] : 1 };
        if ((uint64_t)w.k * (uint64_t)w.n * sizeof(float) != k->bytes || w.k > UINT32_MAX)
            return -1;
        k->sparse_blocks = sparse_count(&w, MOST_SHARE);
        k->sparse_blocks += k->sparse_blocks >= 0;
    }
    return k->sparse_blocks > 0 ? k->sparse_blocks - 1 : -1;
}

void sparse_layout(const rg_md *plain, int64_t count, rg_md *md)
{
    const sp_weights w = weights_of(plain, NULL);
    const int64_t dims[] = { 1, count + 1, (sparse_pack_floats(&w, count) + count) / (count + 1) };

    rg_md_plain(md, 3, dims);
}

/* How many blocks a layout has room for stands among its axes. */
bool sparse_pack_weights(const rg_md *plain, const void *source, const rg_md *md, void *target)
{
    const int64_t count = md->ndims == 3 ? md->dims[1] - 1 : -1;
    rg_md same;

    if (count < 0 || plain->ndims != 2 || plain->kind != RG_BLOCKED || rg_md_is_blocked(plain) ||
        plain->data_type != dnnl_f32 || md->data_type != dnnl_f32)
        return false;
    sparse_layout(plain, count, &same);
    if (!rg_md_equal(&same, md))
        return false;
    {
        const sp_weights w = weights_of(plain, source);

        return sparse_pack(&w, count, target);
    }
}

double sparse_share_of(const inlay_value_info *v, bool upright)
{
    sp_weights w;

    if (v->data == NULL || v->dtype != INLAY_FLOAT || v->rank != 2 || sparse_of_cpu() == NULL)
        return 1;
    w = (sp_weights){ .data = v->data, .k = v->dims[upright ? 0 : 1].value, .n = v->dims[upright ? 1 : 0].value,
                      .k_step = upright ? v->dims[1].value : 1, .n_step = upright ? 1 : v->dims[1].value };
    return sparse_share(&w);
}
