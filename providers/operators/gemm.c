/* Gemm: ONNX 1, 6, 7, 9, 11, 13. Y = alpha * A' * B' + beta * C, where C broadcasts to Y. With beta 0, C is not read,
 * as in ONNX's reference. With alpha 0, the product is computed, because 0 * NaN is NaN. */
#include "operators/gemm.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/product_cost.h"
#include "operators/products.h"
#include <stdlib.h>

typedef struct gemm_state {
    const gemm_kernel *kernel;
    bool trans_a, trans_b;
    double alpha, beta;
    bool scales_sums; /* integers with alpha or beta, and floats with alpha 0: scales whole sums, in double */
    gemm_operand a, b;
    kit_pack b_pack;
} gemm_state;

void product_gemm_release(void *state)
{
    gemm_state *gemm = state;

    if (gemm != NULL)
        kit_pack_free(&gemm->b_pack);
    free(gemm);
}

/* Strides of a matrix [rows, columns] whose lines are its rows (lines_are_rows) or its columns. */
static void set_strides(gemm_operand *operand, int64_t columns, bool lines_are_rows)
{
    operand->line_stride = lines_are_rows ? columns : 1;
    operand->k_stride = lines_are_rows ? 1 : columns;
}

static inlay_status pack_b(const kit_node *node, gemm_state *state, inlay_diag *diag)
{
    const inlay_value_info *a = kit_input(node, 0), *b = kit_input(node, 1);
    const inlay_dim *lines = a->rank == 2 ? &a->dims[state->trans_a ? 1 : 0] : NULL;
    int64_t rows, columns, a_rows = lines != NULL && lines->kind == INLAY_DIM_FIXED ? lines->value : -1;

    if (!kit_is_constant(node, 1) || b->rank != 2 || b->dims[0].value == 0 || b->dims[1].value == 0 ||
        !gemm_packs_b(state->kernel, a_rows, b->dims[state->trans_b ? 0 : 1].value))
        return INLAY_OK;
    rows = b->dims[0].value;
    columns = b->dims[1].value;
    set_strides(&state->b, columns, state->trans_b);
    return gemm_pack_constant(node, 1, state->kernel, state->kernel->nr, &state->b, 1, state->trans_b ? rows : columns,
                              state->trans_b ? columns : rows, &state->b_pack, diag);
}

inlay_status product_gemm_prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_dtype dtype = kit_input_dtype(node, 0);
    uint32_t type = kit_attr_float(node->info, "alpha", 1) == 1 ? gemm_type_for(node, dtype) : gemm_type_of(dtype);
    bool integer = type == GEMM_U32 || type == GEMM_U64;
    gemm_state *state = NULL;
    inlay_status status;

    INLAY_TRY(arg_allocate_state(sizeof *state, (void **)&state, diag));
    state->kernel = gemm_kernel_for(node, type);
    state->trans_a = kit_attr_int(node->info, "transA", 0) != 0;
    state->trans_b = kit_attr_int(node->info, "transB", 0) != 0;
    state->alpha = kit_attr_float(node->info, "alpha", 1);
    state->beta = kit_attr_float(node->info, "beta", 1);
    state->scales_sums = integer ? state->alpha != 1 || state->beta != 1 : state->alpha == 0;
    state->a.pack = state->b.pack = gemm_strided_pack(type, dtype);
    state->a.scale = integer || state->alpha == 0 ? 1 : state->alpha;
    state->b.in_place =
        inlay_dtype_bits(dtype) == 8 * state->kernel->in_bytes && state->kernel->k_step == 1 && !state->trans_b;
    INLAY_TRY(pack_b(node, state, diag));
    *out_state = state;
    state = NULL;
done:
    product_gemm_release(state);
    return status;
}

inlay_status product_gemm_shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const gemm_state *gemm = state;
    const kit_tensor *a = &plan->in[0], *b = &plan->in[1];
    gemm_half_output half;
    gemm_job *job;

    if (a->rank != 2 || b->rank != 2)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "A has rank %u and B rank %u; Gemm takes matrices", a->rank,
                          b->rank);
    if (a->dims[gemm->trans_a ? 0 : 1] != b->dims[gemm->trans_b ? 1 : 0])
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "A' has %lld columns but B' has %lld rows",
                          (long long)a->dims[gemm->trans_a ? 0 : 1], (long long)b->dims[gemm->trans_b ? 1 : 0]);
    job = kit_plan_new(plan, sizeof *job);
    if (job == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of a Gemm");
    job->kernel = gemm->kernel;
    job->batch = 1;
    job->m = a->dims[gemm->trans_a ? 1 : 0];
    job->n = b->dims[gemm->trans_b ? 0 : 1];
    job->k = a->dims[gemm->trans_a ? 0 : 1];
    job->a = gemm->a;
    job->b = gemm->b;
    set_strides(&job->a, a->dims[1], !gemm->trans_a);
    set_strides(&job->b, b->dims[1], gemm->trans_b);
    gemm_set_output(job, &half, plan->out[0].dtype, NULL);
    job->c_in_workspace |= gemm->scales_sums;
    gemm_plan(job, plan->max_threads);
    if (!gemm_workspace(job, plan->max_threads, &plan->workspace_bytes))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the workspace of this product exceeds the address space");
    return INLAY_OK;
}

typedef struct gemm_bias {
    const kit_tensor *tensor; /* NULL: none */
    int64_t row_stride, column_stride;
    double alpha, beta;
    void *output; /* of scaled sums */
    int64_t n;
} gemm_bias;

/* Sets the strides of C, broadcast to [m, n]. */
static inlay_status set_bias(gemm_bias *bias, const kit_tensor *tensor, int64_t m, int64_t n, inlay_diag *diag)
{
    int64_t rows = tensor->rank > 1 ? tensor->dims[tensor->rank - 2] : 1,
            columns = tensor->rank > 0 ? tensor->dims[tensor->rank - 1] : 1;

    if (tensor->count != rows * columns || (rows != 1 && rows != m) || (columns != 1 && columns != n))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "C of %lld x %lld does not broadcast to the result's %lld x %lld",
                          (long long)rows, (long long)columns, (long long)m, (long long)n);
    bias->tensor = tensor;
    bias->row_stride = rows == 1 ? 0 : columns;
    bias->column_stride = columns == 1 ? 0 : 1;
    return INLAY_OK;
}

static void fill_f32(void *user, const gemm_tile *tile)
{
    const gemm_bias *bias = user;
    float beta = (float)bias->beta;
    float *to = tile->c;

    for (int64_t i = tile->i0; i < tile->i1; i++, to += tile->c_stride) {
        int64_t from = i * bias->row_stride + tile->j0 * bias->column_stride, columns = tile->j1 - tile->j0;
        if (bias->column_stride == 0) {
            float value;
            convert_to_f32(&value, bias->tensor->dtype, bias->tensor->data, from, 1);
            for (int64_t j = 0; j < columns; j++)
                to[j] = value * beta;
            continue;
        }
        convert_to_f32(to, bias->tensor->dtype, bias->tensor->data, from, columns);
        for (int64_t j = 0; j < columns && beta != 1; j++)
            to[j] *= beta;
    }
}

static void fill_f64(void *user, const gemm_tile *tile)
{
    const gemm_bias *bias = user;
    const double *c = bias->tensor->data;
    double *to = tile->c;

    for (int64_t i = tile->i0; i < tile->i1; i++, to += tile->c_stride)
        for (int64_t j = tile->j0; j < tile->j1; j++)
            to[j - tile->j0] = bias->beta * c[i * bias->row_stride + j * bias->column_stride];
}

/* Integers without scale: copies C. */
static void fill_integers(void *user, const gemm_tile *tile)
{
    const gemm_bias *bias = user;
    size_t width = inlay_dtype_bits(bias->tensor->dtype) / 8;
    const char *c = bias->tensor->data;

    for (int64_t i = tile->i0; i < tile->i1; i++)
        for (int64_t j = tile->j0; j < tile->j1; j++)
            memcpy((char *)tile->c + (size_t)((i - tile->i0) * tile->c_stride + j - tile->j0) * width,
                   c + (size_t)(i * bias->row_stride + j * bias->column_stride) * width, width);
}

/* Integer sums are exact; their scaled values are truncated towards zero. Sums of 16-bit floats are float. */
static void store_scaled_sums(void *user, const gemm_tile *tile)
{
    const gemm_bias *bias = user;
    inlay_dtype dtype = bias->tensor->dtype, sums = gemm_type_of(dtype) == GEMM_F32 ? INLAY_FLOAT : dtype;
    size_t width = inlay_dtype_bits(dtype) / 8;

    for (int64_t i = tile->i0; i < tile->i1; i++) {
        for (int64_t j = tile->j0; j < tile->j1; j++) {
            double value = convert_get_f64(sums, tile->c, (i - tile->i0) * tile->c_stride + j - tile->j0) * bias->alpha;
            if (bias->tensor->data != NULL && bias->beta != 0)
                value += bias->beta *
                         convert_get_f64(dtype, bias->tensor->data, i * bias->row_stride + j * bias->column_stride);
            convert_from_f64(dtype, (char *)bias->output + (size_t)(i * bias->n + j) * width, 0, 1, &value, 0);
        }
    }
}

inlay_status product_gemm_run(const kit_call *call)
{
    const gemm_state *state = call->state;
    const kit_tensor *output = &call->out[0];
    kit_tensor none = { .dtype = output->dtype };
    gemm_job job = *(const gemm_job *)call->plan;
    gemm_bias bias = {
        .tensor = &none, .alpha = state->alpha, .beta = state->beta, .output = output->data, .n = job.n
    };
    gemm_half_output half;
    inlay_status status = INLAY_OK;

    if (output->count != job.m * job.n)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "the output holds %lld elements, not %lld x %lld",
                          (long long)output->count, (long long)job.m, (long long)job.n);
    job.a.data = call->in[0].data;
    job.b.data = call->in[1].data;
    gemm_set_output(&job, &half, output->dtype, output->data);
    if (kit_has_input(call, 2) && state->beta != 0) {
        status = set_bias(&bias, &call->in[2], job.m, job.n, call->diag);
        if (status != INLAY_OK)
            return status;
        job.init_user = &bias;
        job.init = gemm_type_of(output->dtype) == GEMM_F32   ? fill_f32
                   : gemm_type_of(output->dtype) == GEMM_F64 ? fill_f64
                                                             : fill_integers;
    }
    if (state->scales_sums) {
        job.init = NULL;
        job.c_in_workspace = true;
        job.finish = store_scaled_sums;
        job.finish_user = &bias;
    }
    return gemm_run(call, &job, call->workspace);
}

void product_gemm_cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    const kit_tensor *a = &shapes->in[0], *b = &shapes->in[1], *output = &shapes->out[0];
    bool trans_a = kit_attr_int(node->info, "transA", 0) != 0;
    product_size size = { .batch = 1,
                          .a_constant = kit_is_constant(node, 0),
                          .b_constant = kit_is_constant(node, 1),
                          .a_across = trans_a,
                          .b_along = kit_attr_int(node->info, "transB", 0) != 0 };

    if (a->rank != 2 || output->rank != 2 || a->count < 0 || b->count < 0 || output->count < 0)
        return;
    size.m = (double)output->dims[0];
    size.n = (double)output->dims[1];
    size.k = (double)a->dims[trans_a ? 0 : 1];
    out->bytes_read = kit_bytes(a->dtype, a->count) + kit_bytes(b->dtype, b->count);
    out->bytes_written = kit_bytes(output->dtype, output->count);
    product_cost_set(node, shapes, gemm_type_of(a->dtype), &size, 1, 0, out);
}
