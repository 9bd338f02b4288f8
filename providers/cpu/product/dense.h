/* dense.h - GEMM by built-in kernels: the parts that dense.c and lower_nbits.c share. */
#ifndef CPU_DENSE_H
#define CPU_DENSE_H
#include "cpu/region/build.h"
#include "cpu/product/nbits_rows.h"
#include "cpu/matrix/sgemm.h"
#include "cpu/matrix/terms.h"

/* A post-op of the epilogue. */
typedef struct fused_post {
    sgemm_post post;
    uint32_t arg; /* the step's argument with the other operand; INLAY_NONE: none */
} fused_post;

struct dense {
    cpu_native native;
    sgemm_job job; /* of one GEMM, without addresses */
    int64_t batch; /* number of GEMMs */
    uint32_t axes; /* batch axes */
    int64_t dims[CPU_MAX_RANK], a_steps[CPU_MAX_RANK], b_steps[CPU_MAX_RANK];
    int64_t lines;   /* column-major B: elements from one column to the next; 0: row-major B is read in place */
    bool few;        /* column-major B: few rows, so that B is not packed into panels */
    int64_t b_count; /* matrices B: 1, or one for each GEMM */
    bool biased;
    bool sparse;            /* the constant matrix is packed without its zeros; the last argument is scratch memory */
    const terms_set *terms; /* the constant matrix is packed as terms (terms.h); NULL: as floats */
    bool low_bit; /* low-bit weights (low_bit.h): workers expand a panel at a time to floats in scratch memory */
    const sgemm_halves *halves; /* the constant matrix is the model's, [n, k] of 16 bits; with few rows `few` */
    uint32_t workers;
    uint32_t arg_count;
    uint32_t bias_arg;
    nbits_plan bits;
    fused_post posts[CPU_MAX_POSTS + 1];
};

/* Arguments of the step. */
typedef struct dense_args {
    const cpu_place *list[CPU_MAX_POSTS + 8];
    uint32_t count;
} dense_args;

/* Adds bias, operands of the epilogue and the output to the arguments, and emits a copy of dense with all post-ops
 * that it can fuse; the rest of the group becomes further steps. bias_value: INLAY_NONE for none. */
inlay_status dense_emit(cpu_build *build, const cpu_group *group, struct dense *dense, dense_args *args,
                        uint32_t bias_value);
#endif
