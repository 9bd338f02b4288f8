/* sparse_weights.h - packs of matrices with zeros in blocks (sparse.h), or with two of four (fours.h), as constants of
 * a region. */
#ifndef CPU_SPARSE_WEIGHTS_H
#define CPU_SPARSE_WEIGHTS_H
#include "region/build.h"
#include "sparse/fours.h"

/* Blocks of the constant matrix of the product in hand that are not zero; -1: so many that it is not worth to leave out
 * those that are, or nobody knows any more. */
int64_t sparse_blocks_of(cpu_build *build, const cpu_op *op);
/* Otherwise: are of each four k at most two not zero? */
bool sparse_fours_of(cpu_build *build, const cpu_op *op);
/* A matrix with so many blocks as it is packed: three axes, the last one floats. -1: with two of four. plain: [n, k].
 */
void sparse_layout(const memory_desc *plain, int64_t count, memory_desc *md);
/* Is md that layout? Then it is packed here. */
bool sparse_pack_weights(const memory_desc *plain, const void *source, const memory_desc *md, void *target);
/* A matrix that came as values and places: packed without being dense, or dense in memory that the caller frees. */
bool sparse_pack_entries(const cpu_constant *constant, const memory_desc *plain, const memory_desc *md, void *target);
INLAY_NODISCARD inlay_status sparse_unfold(const cpu_constant *constant, void **out, inlay_diag *diag);
/* What SparseToDense makes becomes a constant of the region. */
void sparse_find(inlay_compiled *compiled);
/* For prices: the share of a matrix of the graph that rows are multiplied by: of blocks that are not zero, by a sample,
 * or two of four where rows are few; upright: [k, n]. elements: of what it multiplies. false: it is no constant matrix
 * of floats. */
bool sparse_share_of(const inlay_graph *graph, const inlay_value_info *value, bool upright, double elements,
                     double *out_share);
#endif
