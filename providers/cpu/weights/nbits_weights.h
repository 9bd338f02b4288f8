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
const cpu_op *nbits_weights_of(const cpu_build *build, cpu_nbits *out, nbits_shape *shape);
/* Their packs. zeros->buffer is INLAY_NONE where all zero points are out->all. */
inlay_status nbits_read(cpu_build *build, const cpu_nbits *nbits, cpu_place *place, cpu_place *scales,
                        cpu_place *zeros);

/* The layouts of the three packs (nbits_layout.c): elements of the original are `steps` apart. */
enum { NBITS_WEIGHTS = 0x6e620000, NBITS_SCALES, NBITS_ZEROS };
void nbits_describe(const cpu_nbits *nbits, uint32_t what, const int64_t *steps, int64_t bytes, memory_desc *md);
/* Bytes of a column of zero points; 0: they lie as elements do. */
int64_t nbits_row_bytes(const cpu_nbits *nbits);
bool nbits_is_pack(const memory_desc *md);
void nbits_pack(const cpu_state *state, const void *source, const memory_desc *md, void *out);

/* Lowers a product by such weights (nbits.c). */
inlay_status nbits_lower(cpu_build *build, const cpu_group *group);
#endif
