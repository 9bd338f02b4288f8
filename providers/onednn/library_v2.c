/* oneDNN 2: descriptors are structs, operations have separate descriptors, scales and zero points are attributes. */
#include "onednn/library_v2.h"
#include "inlay/check.h"
#include "onednn/library_versions.h"
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ layouts */

void library_v2_describe(const memory_desc *md, dnnl_memory_desc_t *out)
{
    dnnl_blocking_desc_t *blocking = &out->format_desc.blocking;
    const dnnl_memory_desc_t *opaque = md->kind == CPU_OPAQUE ? library_opaque_find(md->opaque) : NULL;
    const size_t n = (size_t)md->ndims * sizeof(int64_t), blocks = (size_t)md->inner_nblks * sizeof(int64_t);

    INLAY_CHECK(md->ndims >= 0 && md->ndims <= LIBRARY_MAX_NDIMS && md->inner_nblks <= CPU_MAX_BLOCKS);
    if (opaque != NULL) {
        *out = *opaque;
        return;
    }
    memset(out, 0, sizeof *out);
    if (md->ndims == 0)
        return;
    out->ndims = md->ndims;
    out->data_type = onednn_type_of(md->data_type);
    out->format_kind = md->kind == CPU_BLOCKED ? dnnl_blocked : dnnl_format_kind_any;
    memcpy(out->dims, md->dims, n);
    memcpy(out->padded_dims, md->padded_dims, n);
    if (md->kind != CPU_BLOCKED)
        return;
    memcpy(blocking->strides, md->strides, n);
    blocking->inner_nblks = md->inner_nblks;
    memcpy(blocking->inner_blks, md->inner_blks, blocks);
    memcpy(blocking->inner_idxs, md->inner_idxs, blocks);
}

bool onednn_knows(const memory_desc *md)
{
    (void)md;
    return true;
}

static int equal_descs(const void *a, const void *b)
{
    return dnnl_memory_desc_equal(a, b);
}

static void *copy_desc(const void *desc)
{
    dnnl_memory_desc_t *copy = malloc(sizeof *copy);

    if (copy != NULL)
        *copy = *(const dnnl_memory_desc_t *)desc;
    return copy;
}

static bool is_simple(const dnnl_memory_desc_t *desc_t)
{
    static const dnnl_dims_t zero;

    return desc_t->format_kind == dnnl_blocked && desc_t->extra.flags == 0 && desc_t->offset0 == 0 &&
           desc_t->format_desc.blocking.inner_nblks <= CPU_MAX_BLOCKS &&
           memcmp(desc_t->padded_offsets, zero, (size_t)desc_t->ndims * sizeof *zero) == 0;
}

bool library_v2_read(const dnnl_memory_desc_t *desc_t, memory_desc *out)
{
    const dnnl_blocking_desc_t *b = &desc_t->format_desc.blocking;
    const size_t n = (size_t)desc_t->ndims * sizeof(int64_t);

    memset(out, 0, sizeof *out);
    if (desc_t->ndims == 0)
        return true;
    out->ndims = desc_t->ndims;
    out->data_type = (library_type)desc_t->data_type;
    memcpy(out->dims, desc_t->dims, n);
    memcpy(out->padded_dims, desc_t->padded_dims, n);
    if (desc_t->format_kind == dnnl_format_kind_any) {
        out->kind = CPU_ANY;
    } else if (is_simple(desc_t)) {
        out->kind = CPU_BLOCKED;
        memcpy(out->strides, b->strides, n);
        out->inner_nblks = b->inner_nblks;
        memcpy(out->inner_blks, b->inner_blks, (size_t)b->inner_nblks * sizeof *b->inner_blks);
        memcpy(out->inner_idxs, b->inner_idxs, (size_t)b->inner_nblks * sizeof *b->inner_idxs);
    } else {
        out->kind = CPU_OPAQUE;
        out->opaque = library_opaque_keep(desc_t, equal_descs, copy_desc);
        out->opaque_bytes = dnnl_memory_desc_get_size(desc_t);
        return out->opaque != 0;
    }
    return true;
}

const memory_desc *onednn_layout(library_const_description pd, library_operand which, memory_desc *out)
{
    const dnnl_memory_desc_t *desc_t = dnnl_primitive_desc_query_md(pd, onednn_query_of(which), 0);

    if (desc_t == NULL || !library_v2_read(desc_t, out))
        memset(out, 0, sizeof *out);
    return out;
}

int onednn_opaque_words(const memory_desc *md, int64_t *out, int most)
{
    const dnnl_memory_desc_t *desc_t = library_opaque_find(md->opaque);
    const dnnl_wino_desc_t *wino = desc_t != NULL ? &desc_t->format_desc.wino_desc : NULL;
    enum { WORDS = 10 };
    int32_t scale;

    if (desc_t == NULL || desc_t->format_kind != dnnl_format_kind_wino || most < WORDS)
        return 0;
    memcpy(&scale, &wino->adj_scale, sizeof scale);
    memcpy(out,
           (const int64_t[WORDS]){ wino->wino_format, wino->r, wino->alpha, wino->ic, wino->oc, wino->ic_block,
                                   wino->oc_block, wino->ic2_block, wino->oc2_block, scale },
           WORDS * sizeof *out);
    return WORDS;
}

bool onednn_has_winograd(void)
{
    return true;
}

/* ------------------------------------------------------------------ operations */

typedef union any_op {
    dnnl_convolution_desc_t conv; /* also of transposed convolutions */
    dnnl_inner_product_desc_t inner;
    dnnl_matmul_desc_t matmul;
    dnnl_binary_desc_t binary;
    dnnl_eltwise_desc_t eltwise;
    dnnl_pooling_v2_desc_t pool;
    dnnl_batch_normalization_desc_t batch;
    dnnl_lrn_desc_t lrn;
} any_op;

static dnnl_status_t init_op(const library_op *op, any_op *out)
{
    const dnnl_prop_kind_t forward = dnnl_forward_inference;
    dnnl_memory_desc_t desc_t, w, bias, y;
    const dnnl_memory_desc_t *bias_or_null = op->bias.ndims > 0 ? &bias : NULL;

    library_v2_describe(&op->input, &desc_t);
    library_v2_describe(&op->weights, &w);
    library_v2_describe(&op->bias, &bias);
    library_v2_describe(&op->output, &y);
    switch (op->kind) {
    case LIBRARY_CONVOLUTION:
        return dnnl_dilated_convolution_forward_desc_init(&out->conv, forward, onednn_alg_of(op->alg), &desc_t, &w,
                                                          bias_or_null, &y, op->strides, op->dilations, op->begins,
                                                          op->ends);
    case LIBRARY_DECONVOLUTION:
        return dnnl_dilated_deconvolution_forward_desc_init(&out->conv, forward, onednn_alg_of(op->alg), &desc_t, &w,
                                                            bias_or_null, &y, op->strides, op->dilations, op->begins,
                                                            op->ends);
    case LIBRARY_INNER_PRODUCT:
        return dnnl_inner_product_forward_desc_init(&out->inner, forward, &desc_t, &w, bias_or_null, &y);
    case LIBRARY_MATMUL:
        return dnnl_matmul_desc_init(&out->matmul, &desc_t, &w, bias_or_null, &y);
    case LIBRARY_BINARY:
        return dnnl_binary_desc_init(&out->binary, onednn_alg_of(op->alg), &desc_t, &w, &y);
    case LIBRARY_ELTWISE:
        return dnnl_eltwise_forward_desc_init(&out->eltwise, forward, onednn_alg_of(op->alg), &desc_t, op->alpha,
                                              op->beta);
    case LIBRARY_POOLING:
        return dnnl_pooling_v2_forward_desc_init(&out->pool, forward, onednn_alg_of(op->alg), &desc_t, &y, op->strides,
                                                 op->kernel, op->dilations, op->begins, op->ends);
    case LIBRARY_BATCH_NORM:
        return dnnl_batch_normalization_forward_desc_init(&out->batch, forward, &desc_t, op->epsilon,
                                                          onednn_flags_of(op->flags));
    case LIBRARY_LRN:
        return dnnl_lrn_forward_desc_init(&out->lrn, forward, dnnl_lrn_across_channels, &desc_t, op->size, op->alpha,
                                          op->beta, op->epsilon);
    default:
        return dnnl_invalid_arguments;
    }
}

static dnnl_status_t append(dnnl_post_ops_t posts, const library_post *post)
{
    dnnl_memory_desc_t other;

    switch (post->kind) {
    case LIBRARY_POST_ELTWISE:
        return dnnl_post_ops_append_eltwise(posts, 1, onednn_alg_of(post->alg), post->alpha, post->beta);
    case LIBRARY_POST_BINARY:
        library_v2_describe(&post->other, &other);
        return dnnl_post_ops_append_binary(posts, onednn_alg_of(post->alg), &other);
    default:
        return dnnl_post_ops_append_sum(posts, 1);
    }
}

static dnnl_status_t set_integers(dnnl_primitive_attr_t attr, const library_attr *attribute)
{
    const int32_t at_run = DNNL_RUNTIME_S32_VAL;
    dnnl_status_t code = dnnl_success;

    if (attribute->scales != NULL) {
        const int64_t count = attribute->scales_md.dims[1];

        code = dnnl_primitive_attr_set_output_scales(attr, count, count > 1 ? 1 << 1 : 0, attribute->scales);
    }
    if (code == dnnl_success && attribute->has_zero)
        code = dnnl_primitive_attr_set_zero_points(attr, DNNL_ARG_SRC, 1, 0, &at_run);
    if (code == dnnl_success && attribute->y_zero != 0)
        code = dnnl_primitive_attr_set_zero_points(attr, DNNL_ARG_DST, 1, 0, &attribute->y_zero);
    return code;
}

static dnnl_status_t make_attr(const library_attr *attribute, dnnl_primitive_attr_t *out)
{
    dnnl_post_ops_t posts = NULL;
    dnnl_status_t code = dnnl_primitive_attr_create(out);

    if (code == dnnl_success)
        code = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    if (code == dnnl_success && attribute != NULL)
        code = set_integers(*out, attribute);
    if (code != dnnl_success || attribute == NULL || attribute->post_count == 0)
        return code;
    code = dnnl_post_ops_create(&posts);
    for (uint32_t post = 0; code == dnnl_success && post < attribute->post_count; post++)
        code = append(posts, &attribute->posts[post]);
    if (code == dnnl_success)
        code = dnnl_primitive_attr_set_post_ops(*out, posts);
    (void)dnnl_post_ops_destroy(posts);
    return code;
}

library_status onednn_describe(library_engine engine, const library_op *op, const library_attr *attr,
                               library_description *out)
{
    dnnl_primitive_attr_t primitive_attr = NULL;
    dnnl_status_t code;
    any_op desc;

    *out = NULL;
    code = init_op(op, &desc);
    if (code == dnnl_success)
        code = make_attr(attr, &primitive_attr);
    if (code == dnnl_success)
        code = dnnl_primitive_desc_create(out, &desc, primitive_attr, engine, NULL);
    (void)dnnl_primitive_attr_destroy(primitive_attr);
    return library_status_of(code);
}

dnnl_status_t library_describe_part(dnnl_engine_t engine, const memory_desc *from, const memory_desc *to,
                                    const int64_t *dims, const int64_t *offsets, dnnl_primitive_desc_t *out)
{
    dnnl_memory_desc_t a, b, a_part, b_part;
    dnnl_status_t code = dnnl_success;

    *out = NULL;
    library_v2_describe(from, &a);
    library_v2_describe(to, &b);
    if (dims != NULL) {
        code = dnnl_memory_desc_init_submemory(&a_part, &a, dims, offsets);
        if (code == dnnl_success)
            code = dnnl_memory_desc_init_submemory(&b_part, &b, dims, offsets);
    }
    if (code != dnnl_success)
        return code;
    return dnnl_reorder_primitive_desc_create(out, dims != NULL ? &a_part : &a, engine, dims != NULL ? &b_part : &b,
                                              engine, NULL);
}

library_status onednn_describe_concat(library_engine engine, const memory_desc *output, int axis, const memory_desc *xs,
                                      uint32_t count, library_description *out)
{
    dnnl_memory_desc_t whole, *parts = malloc(count * sizeof *parts + 1);
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t code = parts == NULL ? dnnl_out_of_memory : make_attr(NULL, &attr);

    *out = NULL;
    library_v2_describe(output, &whole);
    for (uint32_t i = 0; code == dnnl_success && i < count; i++)
        library_v2_describe(&xs[i], &parts[i]);
    if (code == dnnl_success)
        code = dnnl_concat_primitive_desc_create(out, &whole, (int)count, axis, parts, attr, engine);
    (void)dnnl_primitive_attr_destroy(attr);
    free(parts);
    return library_status_of(code);
}

/* ------------------------------------------------------------------ running */

void onednn_engine_destroy(library_engine engine)
{
    (void)dnnl_engine_destroy(engine);
    library_opaque_close(free);
}

library_status onednn_memory_create(library_engine engine, const memory_desc *md, void *data, library_memory *out)
{
    dnnl_memory_desc_t desc;

    library_v2_describe(md, &desc);
    return library_status_of(dnnl_memory_create(out, &desc, engine, data));
}

library_status onednn_memory_move(library_memory memory, void *data, library_stream stream)
{
    void *current = NULL;

    (void)dnnl_memory_get_data_handle(memory, &current);
    return library_status_of(current == data ? dnnl_success : dnnl_memory_set_data_handle_v2(memory, data, stream));
}
