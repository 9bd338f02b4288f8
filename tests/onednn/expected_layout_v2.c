/* Layouts as described by oneDNN 2. */
#include "expected_layout.h"
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

static bool read(dnnl_status_t code, const dnnl_memory_desc_t *desc, expected_layout *out)
{
    const dnnl_blocking_desc_t *blocking = &desc->format_desc.blocking;

    if (code != dnnl_success)
        return false;
    memcpy(out->strides, blocking->strides, sizeof out->strides);
    memcpy(out->padded_dims, desc->padded_dims, sizeof out->padded_dims);
    memcpy(out->inner_blks, blocking->inner_blks, sizeof out->inner_blks);
    memcpy(out->inner_idxs, blocking->inner_idxs, sizeof out->inner_idxs);
    out->inner_nblks = blocking->inner_nblks;
    out->bytes = dnnl_memory_desc_get_size(desc);
    return true;
}

bool expected_layout_of_tag(dnnl_format_tag_t tag, uint32_t rank, const int64_t *dims, expected_layout *out)
{
    dnnl_memory_desc_t desc;

    return read(dnnl_memory_desc_init_by_tag(&desc, (int)rank, dims, dnnl_f32, tag), &desc, out);
}

bool expected_layout_of_strides(uint32_t rank, const int64_t *dims, const int64_t *strides, expected_layout *out)
{
    dnnl_memory_desc_t desc;

    return read(dnnl_memory_desc_init_by_strides(&desc, (int)rank, dims, dnnl_f32, strides), &desc, out);
}
