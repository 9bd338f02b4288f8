/* Layouts as oneDNN 2 has them. */
#include "their_layout.h"
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

static bool read(dnnl_status_t code, const dnnl_memory_desc_t *desc, their_layout *out)
{
    const dnnl_blocking_desc_t *desc_t = &desc->format_desc.blocking;

    if (code != dnnl_success)
        return false;
    memcpy(out->strides, desc_t->strides, sizeof out->strides);
    memcpy(out->padded_dims, desc->padded_dims, sizeof out->padded_dims);
    memcpy(out->inner_blks, desc_t->inner_blks, sizeof out->inner_blks);
    memcpy(out->inner_idxs, desc_t->inner_idxs, sizeof out->inner_idxs);
    out->inner_nblks = desc_t->inner_nblks;
    out->bytes = dnnl_memory_desc_get_size(desc);
    return true;
}

bool their_tag(dnnl_format_tag_t tag, uint32_t rank, const int64_t *dims, their_layout *out)
{
    dnnl_memory_desc_t desc;

    return read(dnnl_memory_desc_init_by_tag(&desc, (int)rank, dims, dnnl_f32, tag), &desc, out);
}

bool their_strides(uint32_t rank, const int64_t *dims, const int64_t *strides, their_layout *out)
{
    dnnl_memory_desc_t desc;

    return read(dnnl_memory_desc_init_by_strides(&desc, (int)rank, dims, dnnl_f32, strides), &desc, out);
}
