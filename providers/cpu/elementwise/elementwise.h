/* elementwise.h - elementwise functions, as steps and as the fused epilogues of other operators. */
#ifndef CPU_ELEMENTWISE_H
#define CPU_ELEMENTWISE_H
#include "cpu/region/build.h"

/* ------------------------------------------------------------------ fused epilogues (posts.c) */

typedef struct cpu_fused {
    library_description pd; /* the caller destroys it */
    uint32_t count;         /* fused posts: the first `count` of the group */
    bool sums;              /* posts[sum_at] is fused as an addition to the old contents of dst */
    uint32_t sum_at;
    cpu_place others[CPU_MAX_POSTS]; /* binary operands, in the layouts that the primitive reads */
} cpu_fused;

/* Is it an optimised kernel, and not one of oneDNN's reference loops? */
bool cpu_is_fast(library_const_description pd);
/* Creates the descriptor of an operation with as many of the group's posts as a fast kernel can fuse. The operation's
 * output may have fewer axes than the group's: a GEMM views [.., N] as [M, N]. */
inlay_status cpu_fuse_posts(cpu_build *build, const cpu_group *group, const library_op *op, cpu_fused *out);
/* Emits the operation, and steps for the posts that were not fused; sets the place of the group's output. operands: all
 * operands of the operation but dst. */
inlay_status cpu_emit_fused(cpu_build *build, const cpu_group *group, const cpu_fused *fused,
                            const cpu_operand *operands, uint32_t count);

/* ------------------------------------------------------------------ unary functions */

/* A built-in loop for a unary function (functions.c): output[i] = f(input[i]); output may be input. NULL: none. */
typedef void (*cpu_row_fn)(const float *input, float *output, int64_t n, float alpha, float beta);
cpu_row_fn cpu_row_of(const cpu_eltwise *eltwise);
/* output[i] = f(output[i]) for n elements in the cache; the function has a built-in loop. kernel (sgemm.h) may be
 * NULL. */
struct sgemm_kernel;
void cpu_apply(const struct sgemm_kernel *kernel, const cpu_eltwise *eltwise, float *output, int64_t n);
/* Is the built-in loop the fastest kernel for `count` elements? */
bool cpu_row_is_best(const cpu_state *state, const cpu_eltwise *eltwise, int64_t count);
/* Does the function always run as the built-in loop, because oneDNN does not have it or is not accurate enough? */
bool cpu_needs_builtin_loop(library_alg alg);
/* Does oneDNN's kernel turn NaN into a number, or an infinity with a finite limit into NaN? Its minimum and maximum
 * are instructions of x86, which return the second operand if one is NaN; its exponential clamps the operand by both.
 * Built-in loops handle NaN and infinity as ONNX defines it. */
bool cpu_loses_nan(const cpu_eltwise *eltwise);
bool cpu_binary_loses_nan(library_alg alg);
/* Adds the built-in loop as a step. Both places hold floats in the same layout without gaps; a blocked layout may have
 * padding if f(0) = 0. output may be input. */
inlay_status cpu_emit_function(cpu_build *build, const cpu_eltwise *eltwise, const cpu_place *input,
                               const cpu_place *output);
/* Adds a step for a function of a place. overwrite: the result may replace the operand. result: the value that this
 * computes, INLAY_NONE for an intermediate result. */
inlay_status cpu_eltwise_at(cpu_build *build, const cpu_place *place, bool overwrite, const cpu_eltwise *eltwise,
                            uint32_t result, cpu_place *out);
/* The same for alg(input, value `other`), broadcast to the dims of value `like`. */
inlay_status cpu_binary_at(cpu_build *build, library_alg alg, const cpu_place *input, bool overwrite, uint32_t other,
                           uint32_t like, uint32_t result, cpu_place *out);
/* Adds steps for the group's posts from `first` on, applied to the place `made`; sets the place of the group's
 * output. */
inlay_status cpu_finish(cpu_build *build, const cpu_group *group, uint32_t first, const cpu_place *made,
                        bool overwrite);

/* Is it Gelu (exact or tanh) with a built-in loop? */
bool cpu_is_gelu(const cpu_eltwise *eltwise);

struct sgemm_post;
/* The function as an epilogue of built-in GEMMs (dense.c); false: they do not have it. */
bool cpu_function_of(const cpu_eltwise *eltwise, struct sgemm_post *out);

/* ------------------------------------------------------------------ binary functions (binary.c) */

/* A row of n elements: output[i] = alg(p[i], q[i * step]); output may be p. step is 0 or 1. */
void cpu_binary_row(library_alg alg, const float *x0, const float *x1, float *output, int64_t n, int64_t step);
/* The op's binary function of two tensors with the same layout without padding, and the group's posts (binary_chain.c).
 * overwrite: the result may replace x0. */
inlay_status cpu_lower_binary_chain(cpu_build *build, const cpu_group *group, const cpu_place *x0, const cpu_place *x1,
                                    bool overwrite);

/* Does the loop of binary functions support the layout: plain, or blocked once along one axis? */
bool cpu_is_simple_layout(const memory_desc *md);
bool cpu_is_padded(const memory_desc *md);
bool cpu_has_dims(const memory_desc *md, uint32_t rank, const int64_t *dims);
#endif
