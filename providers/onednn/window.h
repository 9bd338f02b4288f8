/* window.h - attributes of windows. */
#ifndef ONEDNN_WINDOW_H
#define ONEDNN_WINDOW_H
#include "region.h"

/* Reads strides, dilations, pads, auto_pad and output_padding for a window of `spatial` axes. */
bool rg_parse_window(const kit_node *node, uint32_t spatial, rg_op *op, kit_refusal *why);
#endif
