/* window.h - windows over images of up to three dimensions, missing ones at the front of size 1. */
#ifndef VULKAN_WINDOW_H
#define VULKAN_WINDOW_H
#include "region.h"

typedef struct vr_window {
    int64_t out[3], in[3], window[3], stride[3], dilation[3], begin[3], end[3];
    bool plain; /* one pixel, one apart, no padding: the result's pixels are the input's */
} vr_window;

/* Sizes are the operator's and those that the host inferred for the result; window NULL: attribute kernel_shape.
 * false: they do not fit. */
bool vr_window_read(const inlay_node_info *node, const vr_tensor *x, const vr_tensor *y, const int64_t *window,
                    vr_window *out);
bool vr_window_read_transposed(const inlay_node_info *node, const vr_tensor *x, const vr_tensor *y,
                               const int64_t *window, vr_window *out);
/* out, in, window, stride, dilation, begin, as shaders have them. */
void vr_window_words(const vr_window *v, uint32_t out[18]);
#endif
