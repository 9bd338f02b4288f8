/* passes/merge_transposes.h - helpers shared by the passes for Transpose. */
#ifndef PASSES_MERGE_TRANSPOSES_H
#define PASSES_MERGE_TRANSPOSES_H
#include "passes/pass.h"

/* Writes the permutation of a Transpose of that rank to out[rank]; without the attribute the axes are reversed. Returns
 * false if the attribute has another length. */
bool transpose_perm(const graph_node *node, uint32_t rank, int64_t *out);
#endif
