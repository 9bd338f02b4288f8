/* The layout of a recurrent layer's packed matrices. */
#include "cpu/weights/recurrent_panels.h"
#include "inlay/kit_call.h"
#include "operators/recurrent/recurrent.h"
#include <string.h>

enum { PACK_PANELS = 0x72630000 };
/* The dims of the layout of panels. */
enum { D_INPUT, D_LINEAR, D_DIRECTIONS, D_HIDDEN, D_DEPTH, D_CELL, D_COUNT };

void recurrent_panels_layout(const int64_t *dims, uint64_t bytes, tensor_layout *out)
{
    memset(out, 0, sizeof *out);
    out->rank = D_COUNT;
    out->type = ELEMENT_FLOAT;
    out->kind = LAYOUT_PACKED;
    memcpy(out->dims, dims, D_COUNT * sizeof *dims);
    out->packing = PACK_PANELS;
    out->packed_bytes = bytes;
}

bool recurrent_is_pack(const tensor_layout *packed)
{
    return packed->kind == LAYOUT_PACKED && packed->packing == PACK_PANELS;
}

static const char *const cells[] = { [CELL_RNN] = "RNN", [CELL_GRU] = "GRU", [CELL_LSTM] = "LSTM" };

void recurrent_reorder_panels(const tensor_layout *packed, const int32_t *from, int32_t *to)
{
    const kit_tensor tensor = { .data = (void *)(uintptr_t)from, .dtype = INLAY_FLOAT };
    const int64_t *d = packed->dims;
    recurrent_layout layout;
    recurrent_state state;

    memset(to, 0, packed->packed_bytes);
    if (!recurrent_read_cell(cells[d[D_CELL]], d[D_LINEAR] != 0, &state) ||
        !recurrent_compute_layout(&state, d[D_DEPTH], d[D_HIDDEN], &layout))
        return; /* cannot happen: its author has checked the sizes */
    for (int64_t i = 0; i < d[D_DIRECTIONS]; i++)
        recurrent_pack_matrix(&state, &layout, &tensor, (uint32_t)d[D_INPUT], i,
                              (char *)to + (uint64_t)i * recurrent_panel_bytes(&layout, (uint32_t)d[D_INPUT]));
}
