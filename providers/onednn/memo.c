/* Descriptors of oneDNN's kernels, each made once for an instance: layers of a network are alike, and to look for a
 * kernel takes longer than small ones run. */
#include "build.h"

struct rg_memo {
    rg_memo *next;
    dnnl_primitive_desc_t pd;
    size_t bytes;
    uint64_t hash;
    /* the descriptor of the operation follows */
};

/* Of the descriptor, which begins with its kind; 0: no kind that is kept. */
static size_t desc_bytes(const void *op_desc)
{
    dnnl_primitive_kind_t kind;

    memcpy(&kind, op_desc, sizeof kind);
    switch (kind) {
    case dnnl_inner_product:
        return sizeof(dnnl_inner_product_desc_t);
    case dnnl_matmul:
        return sizeof(dnnl_matmul_desc_t);
    case dnnl_convolution:
        return sizeof(dnnl_convolution_desc_t);
    case dnnl_binary:
        return sizeof(dnnl_binary_desc_t);
    case dnnl_eltwise:
        return sizeof(dnnl_eltwise_desc_t);
    default:
        return 0;
    }
}

static uint64_t hash_of(const char *bytes, size_t count)
{
    uint64_t hash = count, word;

    for (size_t i = 0; i + sizeof word <= count; i += sizeof word) {
        memcpy(&word, bytes + i, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

bool rg_memo_find(const rg_build *b, const void *op_desc, dnnl_primitive_desc_t *out)
{
    const size_t bytes = desc_bytes(op_desc);
    const uint64_t hash = hash_of(op_desc, bytes);

    for (const rg_memo *m = bytes > 0 ? b->memo : NULL; m != NULL; m = m->next)
        if (m->hash == hash && m->bytes == bytes && memcmp(m + 1, op_desc, bytes) == 0)
            return dnnl_primitive_desc_clone(out, m->pd) == dnnl_success;
    return false;
}

void rg_memo_keep(rg_build *b, const void *op_desc, const_dnnl_primitive_desc_t pd)
{
    const size_t bytes = desc_bytes(op_desc);
    rg_memo *m = bytes > 0 ? rg_scratch_take(b->scratch, 1, sizeof *m + bytes) : NULL;

    if (m == NULL) /* nothing is lost */
        return;
    *m = (rg_memo){ .next = b->memo, .bytes = bytes, .hash = hash_of(op_desc, bytes) };
    memcpy(m + 1, op_desc, bytes);
    if (dnnl_primitive_desc_clone(&m->pd, pd) == dnnl_success)
        b->memo = m;
}

void rg_memo_drop(rg_build *b)
{
    for (; b->memo != NULL; b->memo = b->memo->next)
        (void)dnnl_primitive_desc_destroy(b->memo->pd);
}
