/* turned.h - constant matrices that products read through a Transpose: [n, k], as files of language models have them.
 * They are packed from the original, or read there, so that a transposed copy never exists. */
#ifndef CPU_TURNED_H
#define CPU_TURNED_H
#include "cpu/region/build.h"

struct inlay_graph;

/* Is the value the Transpose of a constant matrix of floats, or of 16-bit floats that a Cast widens? */
bool turned_is_matrix(const struct inlay_graph *graph, uint32_t value);
/* Makes products read such constants instead of their Transposes. Called when halves_make_constants() has run. */
void turned_bind_products(inlay_compiled *compiled);
#endif
