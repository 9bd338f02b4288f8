/* nbits_weights.h - n-bit weights of a region: DequantizeLinear of a constant matrix of 2, 4 or 8 bits, or of float4,
 * that only GEMMs read, and MatMulNBits. The kernels are in nbits.c, the lowering is in product/lower_nbits.c.
 *
 * The host does not fold such a DequantizeLinear, because this provider has the extension inlay.weights/1. Weights are
 * packed once; the originals are dropped. */
#ifndef CPU_NBITS_WEIGHTS_H
#define CPU_NBITS_WEIGHTS_H
#include "cpu/region/build.h"
#include "cpu/weights/nbits.h"

struct inlay_graph;

/* Is the value n-bit weights, the output of such a DequantizeLinear or of a Transpose after it? *out_bytes: bytes of
 * its inputs. */
bool nbits_is_weights(const struct inlay_graph *graph, uint32_t value, double *out_bytes);

/* Finds the GEMMs with n-bit weights, and silences the ops whose output only they read. Called when all nodes of a
 * region are parsed and small constants are copied. */
inlay_status nbits_bind_weights(inlay_compiled *compiled, inlay_diag *diag);

/* Replaces zero points that are all the same code by nbits->all. */
void nbits_merge_zeros(const inlay_compiled *compiled, cpu_nbits *nbits);
/* Then, for weights in blocks: packs codes in the bits that their type has, or, if the CPU has the kernels, in 5 or 6
 * bits instead of 8 or as the indexes of 4 bits that the blocks have, and scales with joint factors. */
void nbits_take_blocks(const inlay_compiled *compiled, cpu_nbits *nbits);

/* The sizes of packed weights with n columns. false: out of range. */
bool nbits_weights_shape(const cpu_nbits *nbits, int64_t n, nbits_shape *shape);
/* The weights of the op being lowered and their sizes. Returns the op that has them: the GEMM or the
 * DequantizeLinear. */
const cpu_op *nbits_weights_of(const cpu_build *build, cpu_nbits *out, nbits_shape *shape);
/* The packed weights, scales and zero points. zeros->buffer = INLAY_NONE: all zero points are nbits->all. */
inlay_status nbits_read(cpu_build *build, const cpu_nbits *nbits, cpu_place *place, cpu_place *scales,
                        cpu_place *zeros);

/* Is the constant read by one MatMulNBits or QMoE only, which reads the same pack at all shapes, and is it packed? */
bool nbits_replaces(const inlay_compiled *compiled, uint32_t value);

/* The layouts of the three packs (nbits_layout.c); zero points that are floats are packed as scales are. NBITS_JOINT:
 * scales, or minima, with joint factors, from blocks only. steps: strides of the original in elements, of k (or its
 * blocks) and of n. */
enum { NBITS_WEIGHTS = 0x6e620000, NBITS_SCALES, NBITS_ZEROS, NBITS_JOINT };
void nbits_describe(const cpu_nbits *nbits, uint32_t what, const int64_t *steps, int64_t bytes, tensor_layout *layout);
/* Bytes of a column of packed zero points; 0: they are not packed by column. */
int64_t nbits_row_bytes(const cpu_nbits *nbits);
/* Reads a MatMulNBits (cpu_family.parse). */
bool nbits_parse(const kit_node *node, cpu_op *op, kit_refusal *why);
bool nbits_is_pack(const tensor_layout *layout);
/* The shape of packed weights, scales or zero points of this layout, in which k is contiguous in a column of the
 * original; false: it is not. */
bool nbits_shape_of(const tensor_layout *layout, nbits_shape *out);
/* Packs source into out; layout is one of these layouts. */
void nbits_pack(const cpu_state *state, const void *source, const tensor_layout *layout, void *out);

bool cpu_takes_nbits_weights(
    const kit_node *node); /* cpu_operator.takes: constant n-bit weights that only GEMMs read */
#endif
