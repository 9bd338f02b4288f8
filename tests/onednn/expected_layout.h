/* expected_layout.h - layouts as described by oneDNN, for either version. */
#ifndef TESTS_EXPECTED_LAYOUT_H
#define TESTS_EXPECTED_LAYOUT_H
#include <oneapi/dnnl/dnnl_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct expected_layout {
    dnnl_dims_t strides, padded_dims, inner_blks, inner_idxs;
    int inner_nblks;
    size_t bytes;
} expected_layout;

/* The layout of floats with a format tag, or with strides; false: oneDNN rejects it. */
bool expected_layout_of_tag(dnnl_format_tag_t tag, uint32_t rank, const int64_t *dims, expected_layout *out);
bool expected_layout_of_strides(uint32_t rank, const int64_t *dims, const int64_t *strides, expected_layout *out);
#endif
