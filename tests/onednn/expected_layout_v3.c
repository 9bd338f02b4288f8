/* Layouts as described by oneDNN 3. */
#include "expected_layout.h"
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

static bool read_numbers(const_dnnl_memory_desc_t desc, dnnl_query_t what, int count, int64_t *out)
{
    dnnl_dims_t *numbers = NULL;

    if (dnnl_memory_desc_query(desc, what, (void *)&numbers) != dnnl_success)
        return false;
    memcpy(out, *numbers, (size_t)count * sizeof *out);
    return true;
}

/* Reads and destroys the descriptor. */
static bool read(dnnl_status_t code, dnnl_memory_desc_t desc, int rank, expected_layout *out)
{
    bool good;

    if (code != dnnl_success)
        return false;
    good = dnnl_memory_desc_query(desc, dnnl_query_inner_nblks_s32, &out->inner_nblks) == dnnl_success &&
           read_numbers(desc, dnnl_query_strides, rank, out->strides) &&
           read_numbers(desc, dnnl_query_padded_dims, rank, out->padded_dims) &&
           read_numbers(desc, dnnl_query_inner_blks, out->inner_nblks, out->inner_blks) &&
           read_numbers(desc, dnnl_query_inner_idxs, out->inner_nblks, out->inner_idxs);
    out->bytes = dnnl_memory_desc_get_size(desc);
    (void)dnnl_memory_desc_destroy(desc);
    return good;
}

bool expected_layout_of_tag(dnnl_format_tag_t tag, uint32_t rank, const int64_t *dims, expected_layout *out)
{
    dnnl_memory_desc_t desc = NULL;
    dnnl_status_t code = dnnl_memory_desc_create_with_tag(&desc, (int)rank, dims, dnnl_f32, tag);

    return read(code, desc, (int)rank, out);
}

bool expected_layout_of_strides(uint32_t rank, const int64_t *dims, const int64_t *strides, expected_layout *out)
{
    dnnl_memory_desc_t desc = NULL;
    dnnl_status_t code = dnnl_memory_desc_create_with_strides(&desc, (int)rank, dims, dnnl_f32, strides);

    return read(code, desc, (int)rank, out);
}
