/* blocks.h - constants of codes, scales and zero points whose model has the blocks of a quantized type of GGUF instead:
 * the results of UnpackBlocks (ai.inlay). They are read while they are packed, so they are never in memory as such. */
#ifndef CPU_BLOCKS_H
#define CPU_BLOCKS_H
#include "cpu/region/build.h"

struct inlay_graph;

enum { BLOCKS_CODES, BLOCKS_SCALES, BLOCKS_ZEROS }; /* outputs */

/* Reads an UnpackBlocks (cpu_family.parse). */
bool blocks_parse(const kit_node *node, cpu_op *op, kit_refusal *why);
/* The blocks that the constant is a part of; NULL: none. */
static inline const kit_blocks *blocks_of_constant(const cpu_constant *constant)
{
    return constant != NULL && constant->kind == CONSTANT_BLOCKS ? &constant->stored.blocks.of : NULL;
}
/* Is the value a result of such a node? */
bool blocks_is_constant(const struct inlay_graph *graph, uint32_t value);
/* Turns these results into constants of the region. Called when all nodes of a region are parsed. */
void blocks_make_constants(inlay_compiled *compiled, const struct inlay_graph *graph);
/* Marks the blocks of packed constants as no longer needed (cpu_constant.repacked_ops). */
void blocks_mark_packed(inlay_compiled *compiled);
/* Can blocks_pack pack a matrix of k elements in a column with a scale for each `block` of them? */
bool blocks_fit(const kit_blocks *blocks, int64_t k, int64_t block);
/* The table (nbits_shape.table) whose indexes it packs in 4 bits instead of codes of 8 bits; NULL: there is none. */
const uint8_t *blocks_table(const kit_blocks *blocks);
/* The bits, 5 or 6, in which it packs codes of 8 bits in two planes, minus the difference of the middles of both ranges
 * if the type has no zero points; 0: it does not. */
uint8_t blocks_plane_bits(const kit_blocks *blocks);
/* For weights.c: fills a pack of n-bit weights, on the host's threads and in slices whose pages are then released
 * (false: layout is not one of these), or writes the elements. */
bool blocks_pack(const inlay_compiled *compiled, const cpu_constant *constant, const tensor_layout *plain,
                 const tensor_layout *layout, void *target);
INLAY_NODISCARD inlay_status blocks_write(const inlay_compiled *compiled, const cpu_constant *constant, void *out,
                                          inlay_diag *diag);
#endif
