/* library.h for oneDNN 3: layouts are opaque objects, operations have no separate descriptors. */
#include "onednn/library.h"
#include "inlay/check.h"
#include <string.h>

dnnl_status_t library_layout_create(dnnl_data_type_t type, uint32_t rank, const int64_t *dims, const int64_t *strides,
                                    library_layout *out)
{
    *out = NULL;
    INLAY_CHECK(rank > 0 && rank <= LIBRARY_MAX_RANK);
    return strides != NULL ? dnnl_memory_desc_create_with_strides(out, (int)rank, dims, type, strides)
                           : dnnl_memory_desc_create_with_tag(out, (int)rank, dims, type, dnnl_format_tag_any);
}

dnnl_status_t library_layout_copy(library_const_layout layout, library_layout *out)
{
    *out = NULL;
    return dnnl_memory_desc_clone(out, layout);
}

void library_layout_destroy(library_layout layout)
{
    if (layout != NULL)
        (void)dnnl_memory_desc_destroy(layout);
}

static bool append_numbers(library_const_layout layout, dnnl_query_t what, int count, int64_t *words, uint32_t *used)
{
    dnnl_dims_t *numbers = NULL;

    if (count == 0)
        return true;
    if (dnnl_memory_desc_query(layout, what, (void *)&numbers) != dnnl_success || numbers == NULL)
        return false;
    memcpy(words + *used, *numbers, (size_t)count * sizeof *words);
    *used += (uint32_t)count;
    return true;
}

uint32_t library_layout_words(library_const_layout layout, int64_t *words)
{
    dnnl_format_kind_t format = dnnl_format_kind_undef;
    dnnl_data_type_t type = dnnl_data_type_undef;
    int32_t rank = 0, blocks = 0;
    uint32_t count = 3;

    if (dnnl_memory_desc_query(layout, dnnl_query_format_kind, &format) != dnnl_success || format != dnnl_blocked ||
        dnnl_memory_desc_query(layout, dnnl_query_ndims_s32, &rank) != dnnl_success ||
        dnnl_memory_desc_query(layout, dnnl_query_data_type, &type) != dnnl_success ||
        dnnl_memory_desc_query(layout, dnnl_query_inner_nblks_s32, &blocks) != dnnl_success)
        return 0;
    INLAY_CHECK(3 + 3 * rank + 2 * blocks <= LIBRARY_LAYOUT_WORDS);
    words[0] = rank;
    words[1] = type;
    words[2] = blocks;
    return append_numbers(layout, dnnl_query_dims, rank, words, &count) &&
                   append_numbers(layout, dnnl_query_padded_dims, rank, words, &count) &&
                   append_numbers(layout, dnnl_query_strides, rank, words, &count) &&
                   append_numbers(layout, dnnl_query_inner_blks, blocks, words, &count) &&
                   append_numbers(layout, dnnl_query_inner_idxs, blocks, words, &count)
               ? count
               : 0;
}

static dnnl_status_t make_attributes(const library_op *op, dnnl_primitive_attr_t *out)
{
    dnnl_post_ops_t posts = NULL;
    dnnl_status_t code = dnnl_primitive_attr_create(out);

    if (code == dnnl_success)
        code = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    if (code == dnnl_success)
        code = dnnl_post_ops_create(&posts);
    if (code == dnnl_success && op->adds)
        code = dnnl_post_ops_append_sum(posts, 1, 0, dnnl_data_type_undef);
    if (code == dnnl_success && op->function != dnnl_alg_kind_undef)
        code = dnnl_post_ops_append_eltwise(posts, op->function, op->function_alpha, op->function_beta);
    if (code == dnnl_success)
        code = dnnl_primitive_attr_set_post_ops(*out, posts);
    (void)dnnl_post_ops_destroy(posts);
    return code;
}

static dnnl_status_t create_description(dnnl_engine_t engine, const library_op *op,
                                        const_dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t *out)
{
    const dnnl_prop_kind_t forward = dnnl_forward_inference;

    switch ((int)op->kind) {
    case dnnl_convolution:
        return dnnl_convolution_forward_primitive_desc_create(out, engine, forward, dnnl_convolution_direct, op->input,
                                                              op->weights, op->bias, op->output, op->strides,
                                                              op->dilations, op->begins, op->ends, attributes);
    case dnnl_deconvolution:
        return dnnl_deconvolution_forward_primitive_desc_create(
            out, engine, forward, dnnl_deconvolution_direct, op->input, op->weights, op->bias, op->output, op->strides,
            op->dilations, op->begins, op->ends, attributes);
    case dnnl_matmul:
        return dnnl_matmul_primitive_desc_create(out, engine, op->input, op->weights, op->bias, op->output, attributes);
    default:
        return dnnl_invalid_arguments;
    }
}

dnnl_status_t library_describe(dnnl_engine_t engine, const library_op *op, dnnl_primitive_desc_t *out)
{
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_status_t code = make_attributes(op, &attributes);

    *out = NULL;
    if (code == dnnl_success)
        code = create_description(engine, op, attributes, out);
    (void)dnnl_primitive_attr_destroy(attributes);
    return code;
}
