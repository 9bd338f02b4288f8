/* nbits_weights.h - weights of 2, 4 and 8 bits that stay packed: DequantizeLinear of constants that products alone
 * read, and MatMulNBits. What is computed with them is in nbits.c. */
#ifndef CPU_NBITS_WEIGHTS_H
#define CPU_NBITS_WEIGHTS_H
#include "region/build.h"
#include "weights/nbits.h"

/* The value of the graph as weights: the DequantizeLinear behind it, past a Transpose. *out_bytes: of its integers.
 * false: it is none that products read packed. */
bool nbits_is_weights(const inlay_graph *graph, uint32_t value, double *out_bytes);

/* Finds the products of a region that was read whose weights are packed, and silences what stands between. Copies of
 * small constants have been made. */
inlay_status nbits_find(inlay_compiled *compiled, inlay_diag *diag);

/* The weights of the op in hand, as its product reads them, and their sizes. */
const rg_op *nbits_weights_of(const rg_build *build, rg_nbits *out, nb_shape *shape);
/* Their packs. zeros->buffer is INLAY_NONE where all zero points are out->all. */
inlay_status nbits_read(rg_build *build, const rg_nbits *nbits, rg_place *place, rg_place *scales, rg_place *zeros);

/* The layouts of the three packs (nbits_layout.c): elements of the original are `steps` apart. */
enum { NBITS_WEIGHTS = 0x6e620000, NBITS_SCALES, NBITS_ZEROS };
void nbits_describe(const rg_nbits *nbits, uint32_t what, const int64_t *steps, int64_t bytes, rg_md *md);
/* Bytes of a column of zero points; 0: they lie as elements do. */
int64_t nbits_row_bytes(const rg_nbits *nbits);
bool nbits_is_pack(const rg_md *md);
void nbits_pack(const rg_state *state, const void *source, const rg_md *md, void *out);

/* Lowers a product by such weights (nbits.c). */
inlay_status nbits_lower(rg_build *build, const rg_group *group);
#endif
