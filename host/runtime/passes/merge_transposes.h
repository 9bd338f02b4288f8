/* passes/merge_transposes.h - what passes about Transpose share. */
#ifndef PASSES_MERGE_TRANSPOSES_H
#define PASSES_MERGE_TRANSPOSES_H
#include "passes/pass.h"

/* perm of a Transpose of that rank into out[rank]; without the attribute the order is reversed. false: it is of another
 * length. */
bool transpose_perm(const graph_node *node, uint32_t rank, int64_t *out);
#endif
