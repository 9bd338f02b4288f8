/* recurrent_panels.h - the layout of a recurrent layer's packed matrices: panels (operators/recurrent/recurrent.h). */
#ifndef CPU_RECURRENT_PANELS_H
#define CPU_RECURRENT_PANELS_H
#include "cpu/layout/layout.h"

/* The layout. dims: the input (1: W, 2: R), linear_before_reset, directions, hidden size, depth, and cell. bytes: of
 * all directions. */
void recurrent_panels_layout(const int64_t *dims, uint64_t bytes, tensor_layout *out);
/* Is layout this layout? */
bool recurrent_is_pack(const tensor_layout *layout);
/* Copies 32-bit words into it; from: row-major. */
void recurrent_reorder_panels(const tensor_layout *packed, const int32_t *from, int32_t *to);
#endif
