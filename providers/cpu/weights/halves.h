/* halves.h - constants of float16 and bfloat16 that are converted when they are packed: Cast of a constant to float.
 *
 * Readers see an ordinary float constant. Its floats are made in temporary memory for each pack, and freed
 * after it. So a session never holds the floats of all constants at once, and converts nothing if the packs are
 * cached from an earlier session. Products by the Transpose of a float16 matrix, and mixtures of experts, read the
 * model's 16-bit elements in each run instead, without a pack (product.c). */
#ifndef CPU_HALVES_H
#define CPU_HALVES_H
#include "cpu/region/build.h"

struct inlay_graph;

/* cpu_operator.takes: Cast of a float16 or bfloat16 constant to float. */
bool cpu_takes_float16_constant(const kit_node *node);
/* Is the value the output of such a Cast? */
bool halves_is_constant(const struct inlay_graph *graph, uint32_t value);
/* Turns the outputs of such Casts into constants of the region. Called when all nodes of a region are parsed. */
void halves_make_constants(inlay_compiled *compiled, const struct inlay_graph *graph);
/* Marks the originals of packed constants as no longer needed (cpu_constant.repacked_ops). */
void halves_mark_packed(inlay_compiled *compiled);
/* Writes the floats of such a constant; a weight_kind of weights.c, as are low_bit_floats() and sparse_unfold(). */
INLAY_NODISCARD inlay_status halves_floats(const inlay_compiled *compiled, const cpu_constant *constant, void *out,
                                           inlay_diag *diag);
#endif
