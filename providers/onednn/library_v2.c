/* library.h for oneDNN 2: layouts are structs, operations have separate descriptors. */
#include "onednn/library.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

dnnl_status_t library_layout_create(dnnl_data_type_t type, uint32_t rank, const int64_t *dims, const int64_t *strides,
                                    library_layout *out)
{
    library_layout layout = calloc(1, sizeof *layout);
    dnnl_status_t code;

    *out = NULL;
    if (layout == NULL)
        return dnnl_out_of_memory;
    INLAY_CHECK(rank > 0 && rank <= LIBRARY_MAX_RANK);
    code = strides != NULL ? dnnl_memory_desc_init_by_strides(layout, (int)rank, dims, type, strides)
                           : dnnl_memory_desc_init_by_tag(layout, (int)rank, dims, type, dnnl_format_tag_any);
    if (code != dnnl_success) {
        free(layout);
        return code;
    }
    *out = layout;
    return dnnl_success;
}

dnnl_status_t library_layout_copy(library_const_layout layout, library_layout *out)
{
    *out = malloc(sizeof **out);
    if (*out == NULL)
        return dnnl_out_of_memory;
    **out = *layout;
    return dnnl_success;
}

void library_layout_destroy(library_layout layout)
{
    free(layout);
}

static uint32_t append_numbers(const int64_t *numbers, int count, int64_t *words, uint32_t used)
{
    memcpy(words + used, numbers, (size_t)count * sizeof *words);
    return used + (uint32_t)count;
}

uint32_t library_layout_words(library_const_layout layout, int64_t *words)
{
    const dnnl_blocking_desc_t *blocking = &layout->format_desc.blocking;
    uint32_t count = 0;

    if (layout->format_kind != dnnl_blocked || layout->extra.flags != 0 || layout->offset0 != 0)
        return 0;
    words[count++] = layout->ndims;
    words[count++] = layout->data_type;
    words[count++] = blocking->inner_nblks;
    count = append_numbers(layout->dims, layout->ndims, words, count);
    count = append_numbers(layout->padded_dims, layout->ndims, words, count);
    count = append_numbers(blocking->strides, layout->ndims, words, count);
    count = append_numbers(blocking->inner_blks, blocking->inner_nblks, words, count);
    count = append_numbers(blocking->inner_idxs, blocking->inner_nblks, words, count);
    INLAY_CHECK(count <= LIBRARY_LAYOUT_WORDS);
    return count;
}

typedef union any_op {
    dnnl_convolution_desc_t convolution; /* also of deconvolutions */
    dnnl_matmul_desc_t matmul;
} any_op;

static dnnl_status_t init_op(const library_op *op, any_op *out)
{
    const dnnl_prop_kind_t forward = dnnl_forward_inference;

    switch ((int)op->kind) {
    case dnnl_convolution:
        return dnnl_dilated_convolution_forward_desc_init(&out->convolution, forward, dnnl_convolution_direct,
                                                          op->input, op->weights, op->bias, op->output, op->strides,
                                                          op->dilations, op->begins, op->ends);
    case dnnl_deconvolution:
        return dnnl_dilated_deconvolution_forward_desc_init(&out->convolution, forward, dnnl_deconvolution_direct,
                                                            op->input, op->weights, op->bias, op->output, op->strides,
                                                            op->dilations, op->begins, op->ends);
    case dnnl_matmul:
        return dnnl_matmul_desc_init(&out->matmul, op->input, op->weights, op->bias, op->output);
    default:
        return dnnl_invalid_arguments;
    }
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
        code = dnnl_post_ops_append_sum(posts, 1);
    if (code == dnnl_success && op->function != dnnl_alg_kind_undef)
        code = dnnl_post_ops_append_eltwise(posts, 1, op->function, op->function_alpha, op->function_beta);
    if (code == dnnl_success)
        code = dnnl_primitive_attr_set_post_ops(*out, posts);
    (void)dnnl_post_ops_destroy(posts);
    return code;
}

dnnl_status_t library_describe(dnnl_engine_t engine, const library_op *op, dnnl_primitive_desc_t *out)
{
    dnnl_primitive_attr_t attributes = NULL;
    any_op desc;
    dnnl_status_t code = init_op(op, &desc);

    *out = NULL;
    if (code == dnnl_success)
        code = make_attributes(op, &attributes);
    if (code == dnnl_success)
        code = dnnl_primitive_desc_create(out, &desc, attributes, engine, NULL);
    (void)dnnl_primitive_attr_destroy(attributes);
    return code;
}
