/* halves.h - constants of float16 and bfloat16 that become floats when they are packed: Cast of a constant to float.
 *
 * What reads them finds a constant of floats like any other, which nobody has ever had as it lies: it is made in
 * memory of its own for each pack, and goes with it. So a session has neither all floats beside all packs, nor any
 * floats at all where the packs are kept from an earlier one. */
#ifndef CPU_HALVES_H
#define CPU_HALVES_H
#include "region/build.h"

/* Is the value one of those? */
bool halves_is_constant(const inlay_graph *graph, uint32_t value);
/* What such Casts of a region that was read make becomes constants of it. */
void halves_find(inlay_compiled *compiled, const inlay_graph *graph);
/* Counts the originals of what was packed as given up. */
void halves_settle(inlay_compiled *compiled);
/* Its floats, which the caller frees. */
INLAY_NODISCARD inlay_status halves_floats(const cpu_constant *constant, void **out, inlay_diag *diag);
#endif
