/* sparse_weights.h - packed weights of block-sparse matrices (sparse.h). */
#ifndef CPU_SPARSE_WEIGHTS_H
#define CPU_SPARSE_WEIGHTS_H
#include "cpu/region/build.h"
#include "cpu/sparse/sparse.h"

struct inlay_graph;
struct inlay_value_info;

/* Reads a SparseToDense (cpu_family.parse). */
bool sparse_parse(const kit_node *node, cpu_op *op, kit_refusal *why);
/* The number of nonzero blocks of the op's constant matrix. -1: too many to gain by block sparsity, or not known,
 * because the original was dropped before they were counted. */
int64_t sparse_blocks_of(cpu_build *build, const cpu_op *op);
/* The layout of a matrix packed with `count` nonzero blocks. It has three axes, the last one of floats. plain:
 * [n, k]. */
void sparse_layout(const tensor_layout *plain, int64_t count, tensor_layout *layout);
/* A packer (packs.h) for these layouts. */
bool sparse_pack_weights(const tensor_layout *plain, const void *source, const tensor_layout *layout, void *target);
/* For a constant that the model stores sparse, as values and indices: packs it without making it dense (false: layout
 * is not one of these layouts), or writes it dense. */
bool sparse_pack_entries(const inlay_compiled *compiled, const cpu_constant *constant, const tensor_layout *plain,
                         const tensor_layout *layout, void *target);
INLAY_NODISCARD inlay_status sparse_unfold(const inlay_compiled *compiled, const cpu_constant *constant, void *out,
                                           inlay_diag *diag);
/* Turns the outputs of SparseToDense into constants of the region. Called when all nodes of a region are parsed. */
void sparse_make_constants(inlay_compiled *compiled);
/* For the cost model: the share of a matrix that a GEMM multiplies, that of nonzero blocks, estimated from a sample.
 * upright: the matrix is [k, n]. false: `value` is not a constant float matrix. */
bool sparse_share_of(const struct inlay_graph *graph, const struct inlay_value_info *value, bool upright,
                     double *out_share);
#endif
