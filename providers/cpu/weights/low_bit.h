/* low_bit.h - low-bit constants that stay quantized: DequantizeLinear of a constant of 2 to 16 bits, float8 or float4,
 * perhaps followed by views.
 *
 * Readers (convolutions, recurrent layers, GEMMs that nbits.c does not support) see an ordinary constant.
 * cpu_read_constant packs its elements once, with the bits that they have in the file, in the order of the requested
 * layout. In each run, a step dequantizes them into the workspace; tiled convolutions, GEMMs and recurrent layers
 * dequantize a panel at a time instead. The floats equal those of DequantizeLinear to the last bit: (q - zero) * scale.
 * So results equal those of the float model with the same kernel. Such packs are not cached between sessions. */
#ifndef CPU_NARROW_H
#define CPU_NARROW_H
#include "cpu/region/build.h"

struct inlay_graph;

#define LOW_BIT_NS 0.05 /* to dequantize an element */

bool cpu_takes_low_bit_constant(const kit_node *node); /* cpu_operator.takes: low-bit constants but n-bit weights */
/* Is the value a low-bit constant? *out_bytes: bytes of its elements, scales and zero points; may be NULL. */
bool low_bit_is_constant(const struct inlay_graph *graph, uint32_t value, double *out_bytes);

/* Turns the outputs of such ops, and of views after them, into constants of the region, and removes these ops from its
 * steps. Called when all nodes of a region are parsed. Convolutions whose weights are computed in another region get
 * the family of computed weights. */
inlay_status low_bit_make_constants(inlay_compiled *compiled, const struct inlay_graph *graph, inlay_diag *diag);
/* Marks the originals of packed constants as no longer needed (cpu_constant.repacked_ops). */
void low_bit_mark_packed(inlay_compiled *compiled);
void low_bit_destroy(struct low_bit_constant *narrow);

/* A pack in a layout that must be a permutation of elements, perhaps with padding. The caller frees it. */
inlay_status low_bit_pack(const inlay_compiled *compiled, const cpu_constant *constant, const tensor_layout *plain,
                          const tensor_layout *packed, void **out, uint64_t *out_bytes, inlay_diag *diag);
/* Elements [first, last) of a pack as floats; first is a multiple of 16. */
void low_bit_dequantize(const void *pack, int64_t first, int64_t last, float *out);

/* cpu_read_constant of a low-bit constant. */
inlay_status low_bit_read(cpu_build *build, uint32_t value, const tensor_layout *plain, const tensor_layout *layout,
                          cpu_place *out);
/* The pack itself, for a step that dequantizes parts of it (low_bit_dequantize). layout: as for low_bit_pack. */
inlay_status low_bit_read_pack(cpu_build *build, uint32_t value, const tensor_layout *plain,
                               const tensor_layout *layout, cpu_place *out);
/* Writes all elements as row-major floats. */
INLAY_NODISCARD inlay_status low_bit_floats(const inlay_compiled *compiled, const cpu_constant *constant, void *out,
                                            inlay_diag *diag);
#endif
