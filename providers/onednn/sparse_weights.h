/* sparse_weights.h - packs of matrices with zeros in blocks (sparse.h) as constants of a region. */
#ifndef ONEDNN_SPARSE_WEIGHTS_H
#define ONEDNN_SPARSE_WEIGHTS_H
#include "build.h"
#include "sparse.h"

/* Blocks of the constant matrix of the product in hand that are not zero; -1: so many that it is not worth to leave out
 * those that are, or nobody knows any more. */
int64_t sparse_blocks_of(rg_build *b, const rg_op *op);
/* A matrix with so many as it is packed: three axes, the last one floats. plain: [n, k]. */
void sparse_layout(const rg_md *plain, int64_t count, rg_md *md);
/* Is md that layout? Then it is packed here. */
bool sparse_pack_weights(const rg_md *plain, const void *source, const rg_md *md, void *target);
/* The share of blocks of a constant of the graph that are not zero, by a sample: for prices. upright: [k, n]. */
double sparse_share_of(const inlay_value_info *weights, bool upright);
#endif
