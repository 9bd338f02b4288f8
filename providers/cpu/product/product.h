/* product.h - matrix multiplications. */
#ifndef CPU_PRODUCT_H
#define CPU_PRODUCT_H
#include "cpu/choice/kernels.h"

/* An operand of a batched GEMM with `rank` axes; trans: the last two are transposed. The current layout if it is dense
 * and one of these two axes is contiguous, otherwise row-major. */
inlay_status cpu_read_matrix(cpu_build *build, uint32_t value, uint32_t rank, bool trans, cpu_place *out);

/* The constant matrix of a GEMM: floats (sgemm.h), terms for matrix tiles (terms.h), without its zero blocks
 * (sparse.h), or the model's float16 elements, [n, k]. */
typedef enum dense_kind { DENSE_FLOATS, DENSE_TERMS, DENSE_SPARSE, DENSE_HALVES } dense_kind;
/* A GEMM with a constant matrix by built-in kernels (dense.c). Requires state->sgemm. bias: one element per column, or
 * INLAY_NONE. */
inlay_status cpu_lower_dense(cpu_build *build, const cpu_group *group, uint32_t bias, dense_kind kind);
/* The same for computed matrices; C of Gemm is one of the group's posts. */
inlay_status cpu_lower_batched(cpu_build *build, const cpu_group *group);
/* Lowers a GEMM with n-bit weights (lower_nbits.c). */
inlay_status nbits_lower(cpu_build *build, const cpu_group *group);

/* kernel_entry.lower of the kernels of matrix multiplications (product.c). */
inlay_status kernel_packed(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done);
inlay_status kernel_terms(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done);
inlay_status kernel_sparse(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done);
inlay_status kernel_batched(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done);
#endif
