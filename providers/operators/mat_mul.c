/* MatMul: ONNX 1, 9, 13. Also the shapes of its quantized variants, see matmul.h. */
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "operators/args.h"
#include "operators/matmul.h"
#include "operators/product_cost.h"
#include "operators/products.h"
#include <stdlib.h>

/* Splits the dims of a tensor: the last two are those of a matrix, and the product of the others is the number of
 * matrices. */
static matmul_constant split_dims(const kit_tensor *tensor, bool is_a)
{
    matmul_constant constant = { 1, 1, 1 };

    for (uint32_t d = 0; d + 2 < tensor->rank; d++)
        constant.matrices *= tensor->dims[d]; /* no overflow, since the tensor exists; a zero dim gives 0 */
    if (tensor->rank > 1) {
        constant.rows = tensor->dims[tensor->rank - 2];
        constant.columns = tensor->dims[tensor->rank - 1];
    } else if (is_a) {
        constant.columns = tensor->dims[0];
    } else {
        constant.rows = tensor->dims[0];
    }
    return constant;
}

/* Broadcasts the leading dims of A and B. Returns the number of broadcast dims; UINT32_MAX: they do not broadcast. */
static uint32_t broadcast_batch(const kit_tensor *a, const kit_tensor *b, int64_t dims[INLAY_MAX_RANK])
{
    uint32_t a_rank = a->rank > 2 ? a->rank - 2 : 0, b_rank = b->rank > 2 ? b->rank - 2 : 0,
             rank = a_rank > b_rank ? a_rank : b_rank;

    for (uint32_t i = 0; i < rank; i++) {
        int64_t a_size = i + a_rank >= rank ? a->dims[i + a_rank - rank] : 1,
                b_size = i + b_rank >= rank ? b->dims[i + b_rank - rank] : 1;
        if (a_size != b_size && a_size != 1 && b_size != 1)
            return UINT32_MAX;
        dims[i] = a_size == 1 ? b_size : a_size;
    }
    return rank;
}

/* Writes for each batch the index of its matrix in a tensor whose leading dims broadcast to dims. */
static void number_matrices(const kit_tensor *tensor, uint32_t rank, const int64_t *dims, int64_t batch, int64_t *which)
{
    uint32_t own = tensor->rank > 2 ? tensor->rank - 2 : 0;
    int64_t stride[INLAY_MAX_RANK] = { 0 }, step = 1;

    INLAY_CHECK(own <= rank);
    for (uint32_t i = own; i-- > 0;) {
        stride[i + rank - own] = tensor->dims[i] == 1 ? 0 : step;
        step *= tensor->dims[i];
    }
    for (int64_t index = 0; index < batch; index++) {
        int64_t rest = index, at = 0;
        for (uint32_t i = rank; i-- > 0; rest /= dims[i])
            at += rest % dims[i] * stride[i];
        which[index] = at;
    }
}

inlay_status matmul_plan_create(kit_plan *shapes, uint32_t a_input, uint32_t b_input, bool collapse,
                                matmul_plan **out_plan, inlay_diag *diag)
{
    const kit_tensor *a = &shapes->in[a_input], *b = &shapes->in[b_input];
    int64_t dims[INLAY_MAX_RANK], batch = 1;
    matmul_constant a_dims, b_dims;
    uint32_t rank;
    matmul_plan *plan;

    *out_plan = NULL;
    if (a->rank == 0 || b->rank == 0)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "input %s of a matrix multiplication is a scalar",
                          a->rank == 0 ? "A" : "B");
    a_dims = split_dims(a, true);
    b_dims = split_dims(b, false);
    if (a_dims.columns != b_dims.rows)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "A has %lld columns but B has %lld rows: a matrix multiplication needs them equal",
                          (long long)a_dims.columns, (long long)b_dims.rows);
    rank = broadcast_batch(a, b, dims);
    if (rank == UINT32_MAX)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the leading dims of A and B do not broadcast");
    for (uint32_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(batch, dims[i], &batch))
            return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the product has more batches than can be counted");
    INLAY_CHECK(rank <= INLAY_MAX_RANK);
    collapse = collapse && b_dims.matrices == 1 && a_dims.matrices == batch;
    if (batch > INT32_MAX ||
        (plan = kit_plan_new(shapes, sizeof *plan + (size_t)(collapse ? 0 : 2 * batch) * sizeof(int64_t))) == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of %lld matrix products",
                          (long long)batch);
    plan->a_matrices = a_dims.matrices;
    plan->b_matrices = b_dims.matrices;
    plan->job.batch = collapse ? 1 : batch;
    plan->job.m = collapse ? a_dims.rows * batch : a_dims.rows;
    plan->job.n = b_dims.columns;
    plan->job.k = a_dims.columns;
    plan->job.a.line_stride = a_dims.columns;
    plan->job.a.k_stride = 1;
    plan->job.a.matrix_stride = a_dims.rows * a_dims.columns;
    plan->job.b.line_stride = 1;
    plan->job.b.k_stride = b_dims.columns;
    plan->job.b.matrix_stride = b_dims.rows * b_dims.columns;
    if (!collapse) {
        plan->job.a.which = plan->which;
        plan->job.b.which = plan->which + batch;
        number_matrices(a, rank, dims, batch, plan->which);
        number_matrices(b, rank, dims, batch, plan->which + batch);
    }
    *out_plan = plan;
    return INLAY_OK;
}

inlay_status matmul_check_output(const gemm_job *job, const kit_tensor *output, inlay_diag *diag)
{
    if (output->count == job->batch * job->m * job->n)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                      "the product is %lld x %lld x %lld but the output holds %lld elements", (long long)job->batch,
                      (long long)job->m, (long long)job->n, (long long)output->count);
}

bool matmul_constant_dims(const kit_node *node, uint32_t input, bool is_a, matmul_constant *out)
{
    const inlay_value_info *value = kit_input(node, input);
    uint32_t rank;

    if (!kit_is_constant(node, input) || value->rank == 0 || value->rank == INLAY_RANK_UNKNOWN)
        return false;
    rank = value->rank;
    *out = (matmul_constant){ 1, 1, 1 };
    for (uint32_t d = 0; d + 2 < rank; d++)
        out->matrices *= value->dims[d].value;
    if (rank > 1)
        out->rows = value->dims[rank - 2].value;
    if (rank > 1 || is_a)
        out->columns = value->dims[rank - 1].value;
    else
        out->rows = value->dims[0].value;
    return out->matrices > 0 && out->rows > 0 && out->columns > 0;
}

typedef struct matmul_state {
    const gemm_kernel *kernel;
    gemm_operand a, b; /* packed if constant */
    kit_pack a_pack, b_pack;
} matmul_state;

void product_mat_mul_release(void *state)
{
    matmul_state *matmul = state;

    if (matmul != NULL) {
        kit_pack_free(&matmul->a_pack);
        kit_pack_free(&matmul->b_pack);
    }
    free(matmul);
}

/* The total number of rows of all matrices of A; -1: unknown. */
static int64_t known_rows(const kit_node *node)
{
    const inlay_value_info *info = kit_input(node, 0);
    int64_t rows = 1;

    if (info->rank == INLAY_RANK_UNKNOWN)
        return -1;
    for (uint32_t d = 0; d + 1 < info->rank; d++)
        if (info->dims[d].kind != INLAY_DIM_FIXED || __builtin_mul_overflow(rows, info->dims[d].value, &rows))
            return -1;
    return rows;
}

/* Packs a constant operand in the order that the microkernel reads. */
static inlay_status pack_constant(const kit_node *node, matmul_state *state, uint32_t input, inlay_diag *diag)
{
    bool is_a = input == 0;
    gemm_operand *operand = is_a ? &state->a : &state->b;
    matmul_constant dims;

    if (!matmul_constant_dims(node, input, is_a, &dims) ||
        !(is_a ? (state->kernel->packs & GEMM_PACKS_A) != 0
               : gemm_packs_b(state->kernel, known_rows(node), dims.columns)))
        return INLAY_OK;
    operand->line_stride = is_a ? dims.columns : 1;
    operand->k_stride = is_a ? 1 : dims.columns;
    operand->matrix_stride = dims.rows * dims.columns;
    return gemm_pack_constant(node, input, state->kernel, is_a ? state->kernel->mr : state->kernel->nr, operand,
                              dims.matrices, is_a ? dims.rows : dims.columns, is_a ? dims.columns : dims.rows,
                              is_a ? &state->a_pack : &state->b_pack, diag);
}

inlay_status product_mat_mul_prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_dtype dtype = kit_input_dtype(node, 0);
    uint32_t type = gemm_type_for(node, dtype);
    matmul_state *state = NULL;
    inlay_status status;

    INLAY_TRY(arg_allocate_state(sizeof *state, (void **)&state, diag));
    state->kernel = gemm_kernel_for(node, type);
    state->a.pack = state->b.pack = gemm_strided_pack(type, dtype);
    state->b.in_place = inlay_dtype_bits(dtype) == 8 * state->kernel->in_bytes && state->kernel->k_step == 1;
    INLAY_TRY(pack_constant(node, state, 1, diag));
    if (state->b.packed == NULL)
        INLAY_TRY(pack_constant(node, state, 0, diag));
    *out_state = state;
    state = NULL;
done:
    product_mat_mul_release(state);
    return status;
}

inlay_status product_mat_mul_shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const matmul_state *matmul = state;
    gemm_half_output half;
    matmul_plan *created;
    inlay_status status;

    /* Packed A is padded per matrix, so it cannot be treated as one tall matrix. */
    INLAY_TRY(matmul_plan_create(plan, 0, 1, matmul->a.packed == NULL, &created, diag));
    created->job.kernel = matmul->kernel;
    created->job.a.pack = created->job.b.pack = matmul->a.pack;
    created->job.a.packed = matmul->a.packed;
    created->job.a.packed_stride = matmul->a.packed_stride;
    created->job.b.packed = matmul->b.packed;
    created->job.b.packed_stride = matmul->b.packed_stride;
    created->job.b.in_place = matmul->b.in_place;
    gemm_set_output(&created->job, &half, plan->out[0].dtype, NULL);
    gemm_plan(&created->job, plan->max_threads);
    if (!gemm_workspace(&created->job, plan->max_threads, &plan->workspace_bytes))
        status = inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the workspace of this product exceeds the address space");
done:
    return status;
}

inlay_status product_mat_mul_run(const kit_call *call)
{
    const matmul_plan *plan = call->plan;
    gemm_job job = plan->job;
    gemm_half_output half;
    inlay_status status = matmul_check_output(&job, &call->out[0], call->diag);

    if (status != INLAY_OK)
        return status;
    job.a.data = call->in[0].data;
    job.b.data = call->in[1].data;
    gemm_set_output(&job, &half, call->out[0].dtype, call->out[0].data);
    return gemm_run(call, &job, call->workspace);
}

void matmul_cost(const kit_node *node, const kit_plan *shapes, uint32_t b_input, inlay_cost *out)
{
    const kit_tensor *a = &shapes->in[0], *b = &shapes->in[b_input], *output = &shapes->out[0];
    matmul_constant a_dims, b_dims;
    product_size size;

    if (a->rank == 0 || b->rank == 0 || a->count < 0 || b->count < 0 || output->count < 0)
        return;
    out->bytes_read = kit_bytes(a->dtype, a->count) + kit_bytes(b->dtype, b->count);
    out->bytes_written = kit_bytes(output->dtype, output->count);
    a_dims = split_dims(a, true);
    b_dims = split_dims(b, false);
    size = (product_size){ .m = (double)a_dims.rows,
                           .n = (double)b_dims.columns,
                           .k = (double)a_dims.columns,
                           .a_constant = kit_is_constant(node, 0),
                           .b_constant = kit_is_constant(node, b_input) };
    size.batch = size.m > 0 && size.n > 0 ? (double)output->count / size.m / size.n : 0;
    if (b_dims.matrices == 1) { /* B is one matrix: the batches become rows of one multiplication */
        size.m *= size.batch;
        size.batch = size.m > 0;
    }
    product_cost_set(node, shapes, gemm_type_for(node, a->dtype), &size, 1, 0, out);
}

void product_mat_mul_cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    matmul_cost(node, shapes, 1, out);
}
