/* elementwise.h - elementwise functions, as steps and as the fused epilogues of other operators. */
#ifndef CPU_ELEMENTWISE_H
#define CPU_ELEMENTWISE_H
#include "cpu/region/build.h"

/* The loop of a unary function (functions.c): output[i] = f(input[i]); output may be input. */
typedef void (*cpu_row_fn)(const float *input, float *output, int64_t n, float alpha, float beta);
cpu_row_fn cpu_row_of(const cpu_unary *unary);
/* output[i] = f(output[i]) for n elements in the cache. kernel (sgemm.h) may be NULL. */
struct sgemm_kernel;
void cpu_apply(const struct sgemm_kernel *kernel, const cpu_unary *unary, float *output, int64_t n);
/* Adds the loop as a step. Both places hold floats in the same layout without gaps; output may be input. */
inlay_status cpu_emit_function(cpu_build *build, const cpu_unary *unary, const cpu_place *input,
                               const cpu_place *output);
/* Adds a step for a function of a place. overwrite: the result may replace the operand. result: the value that this
 * computes, INLAY_NONE for an intermediate result. */
inlay_status cpu_unary_at(cpu_build *build, const cpu_place *place, bool overwrite, const cpu_unary *unary,
                          uint32_t result, cpu_place *out);
/* The same for function(input, value `other`), broadcast to the dims of value `like`. */
inlay_status cpu_binary_at(cpu_build *build, element_function function, const cpu_place *input, bool overwrite,
                           uint32_t other, uint32_t like, uint32_t result, cpu_place *out);
/* Adds steps for the group's posts from `first` on, applied to the place `made`; sets the place of the group's
 * output. */
inlay_status cpu_finish(cpu_build *build, const cpu_group *group, uint32_t first, const cpu_place *made,
                        bool overwrite);

/* Is it Gelu (exact or tanh) with a built-in loop? */
bool cpu_is_gelu(const cpu_unary *unary);

struct sgemm_post;
/* The function as an epilogue of built-in GEMMs (dense.c); false: they do not have it. */
bool cpu_function_of(const cpu_unary *unary, struct sgemm_post *out);

/* A row of n elements: output[i] = function(p[i], q[i * step]); output may be p. step is 0 or 1. */
void cpu_binary_row(element_function function, const float *x0, const float *x1, float *output, int64_t n,
                    int64_t step);
/* The op's binary function of two tensors with the same layout without padding, and the group's posts (binary_chain.c).
 * overwrite: the result may replace x0. */
inlay_status cpu_lower_binary_chain(cpu_build *build, const cpu_group *group, const cpu_place *x0, const cpu_place *x1,
                                    bool overwrite);

bool cpu_has_dims(const tensor_layout *layout, uint32_t rank, const int64_t *dims);
#endif
