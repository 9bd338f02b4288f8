/* their_layout.h - what oneDNN says of a layout, whichever version it is. */
#ifndef TESTS_THEIR_LAYOUT_H
#define TESTS_THEIR_LAYOUT_H
#include <oneapi/dnnl/dnnl_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct their_layout {
    dnnl_dims_t strides, padded_dims, inner_blks, inner_idxs;
    int inner_nblks;
    size_t bytes;
} their_layout;

/* Of floats; false: oneDNN refuses it. */
bool their_tag(dnnl_format_tag_t tag, uint32_t rank, const int64_t *dims, their_layout *out);
bool their_strides(uint32_t rank, const int64_t *dims, const int64_t *strides, their_layout *out);
#endif
