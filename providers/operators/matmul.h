/* matmul.h - the shapes of MatMul and its quantized variants: numpy.matmul's rules as one gemm job. */
#ifndef MATMUL_H
#define MATMUL_H
#include "inlay/kit_table.h"
#include "operators/gemm.h"

/* A plan: created in shape(), freed by the kit. job has sizes, strides and the matrix of each batch. */
typedef struct matmul_plan {
    gemm_job job;
    int64_t a_matrices, b_matrices; /* number of matrices in A and B */
    int64_t which[];                /* [2 * batch] */
} matmul_plan;

/* Creates shapes->plan for dense inputs A [..., m, k] and B [..., k, n]. A vector is a row for A and a column for B;
 * leading dims broadcast. collapse: if B is one matrix, the batches of A become rows of one multiplication. */
INLAY_NODISCARD inlay_status matmul_plan_create(kit_plan *shapes, uint32_t a_input, uint32_t b_input, bool collapse,
                                                matmul_plan **out_plan, inlay_diag *diag);

/* Fails unless output has batch * m * n elements. */
INLAY_NODISCARD inlay_status matmul_check_output(const gemm_job *job, const kit_tensor *output, inlay_diag *diag);

/* kit_kernel.cost of MatMul, MatMulInteger and QLinearMatMul; b_input is the index of B. */
void matmul_cost(const kit_node *node, const kit_plan *shapes, uint32_t b_input, struct inlay_cost *cost);

/* The matrices of a constant input and their sizes (a vector is a row for A, a column for B). false: the input is
 * not constant, or its rank is 0. */
typedef struct matmul_constant {
    int64_t matrices, rows, columns;
} matmul_constant;
bool matmul_constant_dims(const kit_node *node, uint32_t input, bool is_a, matmul_constant *out);
#endif
