/* MatMulInteger: ONNX 10. QLinearMatMul: ONNX 10, 21. Integers minus their zero points are multiplied as int16 and
 * summed in int32; float8 operands are multiplied as floats. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/matmul.h"
#include "operators/gemm/set.h"
#include "operators/operators.h"
#include "operators/requantize.h"
#include <math.h>
#include <stdlib.h>

/* Indices of the inputs; 0, except for a: the operator does not have the input. */
struct layout {
    uint32_t a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero;
};
static const struct layout integer_inputs = { .a = 0, .b = 1, .a_zero = 2, .b_zero = 3 };
static const struct layout linear_inputs = { 0, 1, 2, 3, 4, 5, 6, 7 };

typedef struct quantized_state {
    const struct layout *at;
    const gemm_kernel *kernel; /* NULL: the float kernel; pack_float8() converts the operands */
    bool linear;
    gemm_operand operand; /* packed if B and its zero point are constant */
    kit_pack b_pack;
} quantized_state;

static void release(void *state)
{
    quantized_state *quantized = state;

    if (quantized != NULL)
        kit_pack_free(&quantized->b_pack);
    free(quantized);
}

static bool is_float8(inlay_dtype dtype)
{
    return (INLAY_DTYPE_BIT(dtype) & KIT_FLOAT8) != 0;
}

/* Zero points and scales.
 *
 * A quantization parameter of A has one element, one per row, or one per row of every matrix. A parameter of B has
 * one per column instead of one per row. */

struct parameter {
    int64_t line_stride, matrix_stride;
};

static inlay_status place_parameter(const kit_tensor *tensor, int64_t lines, int64_t matrices, const char *what,
                                    struct parameter *out, inlay_diag *diag)
{
    *out = (struct parameter){ 0, 0 };
    if (tensor->count == 1)
        return INLAY_OK;
    out->line_stride = 1;
    if (tensor->count == lines)
        return INLAY_OK;
    out->matrix_stride = lines;
    if (tensor->count == lines * matrices)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "%s has %lld elements; give it 1, %lld, or %lld", what,
                      (long long)tensor->count, (long long)lines, (long long)(lines * matrices));
}

static inlay_status set_zero(gemm_operand *operand, const kit_call *call, uint32_t input, int64_t lines,
                             int64_t matrices, const char *what)
{
    struct parameter parameter;
    inlay_status status;

    if (input == 0 || !kit_has_input(call, input) || operand->packed != NULL)
        return INLAY_OK;
    status = place_parameter(&call->in[input], lines, matrices, what, &parameter, call->diag);
    operand->zero = call->in[input].data;
    operand->zero_stride = parameter.line_stride;
    operand->zero_matrix_stride = parameter.matrix_stride;
    return status;
}

static inlay_status pack_b(const kit_node *node, quantized_state *state, inlay_diag *diag)
{
    const inlay_value_info *zero = kit_input(node, state->at->b_zero);
    int64_t zeros = 1;
    matmul_constant dims;

    if (!matmul_constant_dims(node, state->at->b, false, &dims) ||
        (zero != NULL && !kit_is_constant(node, state->at->b_zero)))
        return INLAY_OK;
    state->operand.line_stride = 1;
    state->operand.k_stride = dims.columns;
    state->operand.matrix_stride = dims.rows * dims.columns;
    if (zero != NULL) {
        for (uint32_t d = 0; d < zero->rank; d++)
            zeros *= zero->dims[d].value;
        state->operand.zero = kit_constant_unaligned(node, state->at->b_zero);
        state->operand.zero_stride = zeros > 1;
        state->operand.zero_matrix_stride =
            zeros == dims.columns * dims.matrices && dims.matrices > 1 ? dims.columns : 0;
        if (zeros != 1 && zeros != dims.columns && zeros != dims.columns * dims.matrices)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the zero point of B has %lld elements for %lld columns",
                              (long long)zeros, (long long)dims.columns);
    }
    return gemm_pack_constant(node, state->at->b, state->kernel, state->kernel->nr, &state->operand, dims.matrices,
                              dims.columns, dims.rows, &state->b_pack, diag);
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    bool linear = strcmp(kit_op_type(node), "QLinearMatMul") == 0;
    const struct layout *at = linear ? &linear_inputs : &integer_inputs;
    quantized_state *state = NULL;
    inlay_status status;

    INLAY_TRY(arg_allocate_state(sizeof *state, (void **)&state, diag));
    state->at = at;
    state->linear = linear;
    if (!is_float8(kit_input_dtype(node, at->a)) && !is_float8(kit_input_dtype(node, at->b))) {
        state->kernel = gemm_kernel_best(GEMM_S16);
        state->operand.pack = gemm_strided_pack(GEMM_S16, kit_input_dtype(node, at->b));
        INLAY_TRY(pack_b(node, state, diag));
    }
    *out_state = state;
    state = NULL;
done:
    release(state);
    return status;
}

/* Packs elements of any 8-bit type, minus their zero point, as floats. operand->user: its kit_tensor. */
static void pack_float8(const gemm_operand *self, int64_t batch, int64_t line, int64_t line_end, int64_t k0, int64_t k1,
                        uint32_t width, void *out)
{
    const kit_tensor *tensor = self->user;
    int64_t matrix = gemm_matrix_index(self, batch);
    float *to = out;

    INLAY_CHECK(line <= line_end && k0 <= k1);
    for (int64_t l0 = line; l0 < line_end; l0 += width)
        for (int64_t k = k0; k < k1; k++)
            for (uint32_t column = 0; column < width; column++, to++) {
                float zero = 0;
                *to = 0;
                if (l0 + column >= line_end)
                    continue;
                convert_to_f32(to, tensor->dtype, tensor->data,
                               matrix * self->matrix_stride + (l0 + column) * self->line_stride + k * self->k_stride,
                               1);
                if (self->zero != NULL)
                    convert_to_f32(&zero, tensor->dtype, self->zero,
                                   matrix * self->zero_matrix_stride + (l0 + column) * self->zero_stride, 1);
                *to -= zero;
            }
}

/* Returns whether each parameter that applies to rows has a single element. Then the batches of A can be rows of one
 * GEMM. */
static bool rows_are_alike(const quantized_state *state, const kit_plan *plan)
{
    const uint32_t inputs[] = { state->at->a_zero, state->at->a_scale, state->at->y_scale, state->at->y_zero };

    for (uint32_t i = 0; i < KIT_COUNT(inputs); i++)
        if (inputs[i] != 0 && inputs[i] < plan->in_count && plan->in[inputs[i]].dtype != INLAY_UNDEFINED &&
            plan->in[inputs[i]].count != 1)
            return false;
    return true;
}

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const quantized_state *quantized = state;
    matmul_plan *matmul;
    inlay_status status;

    INLAY_TRY(
        matmul_plan_create(plan, quantized->at->a, quantized->at->b, rows_are_alike(quantized, plan), &matmul, diag));
    matmul->job.kernel = quantized->kernel != NULL ? quantized->kernel : gemm_kernel_best(GEMM_F32);
    matmul->job.a.pack =
        quantized->kernel != NULL ? gemm_strided_pack(GEMM_S16, plan->in[quantized->at->a].dtype) : pack_float8;
    matmul->job.b.pack = quantized->kernel != NULL ? quantized->operand.pack : pack_float8;
    matmul->job.b.packed = quantized->operand.packed;
    matmul->job.b.packed_stride = quantized->operand.packed_stride;
    matmul->job.c_in_workspace = quantized->linear;
    matmul->job.c_stride = matmul->job.n;
    matmul->job.c_batch_stride = matmul->job.m * matmul->job.n;
    gemm_plan(&matmul->job, plan->max_threads);
    if (!gemm_workspace(&matmul->job, plan->max_threads, &plan->workspace_bytes))
        status = inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                            "the workspace of this matrix multiplication exceeds the address space");
done:
    return status;
}

struct output {
    const kit_call *call;
    const gemm_job *job;
    struct parameter a_scale, b_scale, y_scale, y_zero;
};

static float scale_at(const kit_call *call, uint32_t input, const struct parameter *parameter, int64_t matrix,
                      int64_t line)
{
    float scale = 1;
    convert_to_f32(&scale, call->in[input].dtype, call->in[input].data,
                   matrix * parameter->matrix_stride + line * parameter->line_stride, 1);
    return scale;
}

/* Requantizes one row of a tile in blocks; the scales of the columns are gathered first. */
static void store_row(const struct output *output, const gemm_tile *tile, int64_t row)
{
    const kit_call *call = output->call;
    const kit_tensor *tensor = &call->out[0];
    int64_t a_matrix = gemm_matrix_index(&output->job->a, tile->batch),
            b_matrix = gemm_matrix_index(&output->job->b, tile->batch);
    float row_scale = scale_at(call, linear_inputs.a_scale, &output->a_scale, a_matrix, row) /
                      scale_at(call, linear_inputs.y_scale, &output->y_scale, tile->batch, row);
    double zero = convert_get_f64(tensor->dtype, call->in[linear_inputs.y_zero].data,
                                  tile->batch * output->y_zero.matrix_stride + row * output->y_zero.line_stride);
    int64_t at = (row - tile->i0) * tile->c_stride, first = (tile->batch * output->job->m + row) * output->job->n;
    float columns[64], values[64];

    INLAY_CHECK(row >= tile->i0 && row < tile->i1 && tile->j0 <= tile->j1);
    for (int64_t j = tile->j0; j < tile->j1; j += 64) {
        int64_t count = tile->j1 - j < 64 ? tile->j1 - j : 64;
        for (int64_t column = 0; column < count; column++)
            columns[column] = scale_at(call, linear_inputs.b_scale, &output->b_scale, b_matrix, j + column);
        if (output->job->kernel->acc_bytes == 4 && output->job->kernel->in_bytes == 2 && !is_float8(tensor->dtype)) {
            requantize_row((const int32_t *)tile->c + at + j - tile->j0, count, row_scale, columns, 1, (int32_t)zero,
                           tensor->dtype == INLAY_INT8, (char *)tensor->data + first + j);
            continue;
        }
        for (int64_t column = 0; column < count; column++) {
            double sum = output->job->kernel->in_bytes == 2
                             ? ((const int32_t *)tile->c)[at + j - tile->j0 + column]
                             : (double)((const float *)tile->c)[at + j - tile->j0 + column];
            values[column] = (float)(sum * (double)(row_scale * columns[column]));
            if (!is_float8(tensor->dtype)) {
                values[column] = nearbyintf(values[column]) + (float)zero;
                values[column] = fminf(fmaxf(values[column], tensor->dtype == INLAY_INT8 ? -128 : 0),
                                       tensor->dtype == INLAY_INT8 ? 127 : 255);
            } else {
                values[column] += (float)zero;
            }
        }
        convert_from_f32(tensor->dtype, tensor->data, first + j, count, values, CONVERT_SATURATE);
    }
}

static void store_tile(void *user, const gemm_tile *tile)
{
    for (int64_t i = tile->i0; i < tile->i1; i++)
        store_row(user, tile, i);
}

static inlay_status run(const kit_call *call)
{
    const quantized_state *state = call->state;
    const matmul_plan *plan = call->plan;
    gemm_job job = plan->job;
    struct output output = { .call = call, .job = &job };
    inlay_status status;

    INLAY_TRY(matmul_check_output(&job, &call->out[0], call->diag));
    job.a.data = call->in[state->at->a].data;
    job.b.data = call->in[state->at->b].data;
    job.a.user = &call->in[state->at->a];
    job.b.user = &call->in[state->at->b];
    INLAY_TRY(set_zero(&job.a, call, state->at->a_zero, job.m, plan->a_matrices, "the zero point of A"));
    INLAY_TRY(set_zero(&job.b, call, state->at->b_zero, job.n, plan->b_matrices, "the zero point of B"));
    job.c = call->out[0].data;
    if (state->linear) {
        const kit_tensor *in = call->in;
        INLAY_TRY(place_parameter(&in[state->at->a_scale], job.m, plan->a_matrices, "the scale of A", &output.a_scale,
                                  call->diag));
        INLAY_TRY(place_parameter(&in[state->at->b_scale], job.n, plan->b_matrices, "the scale of B", &output.b_scale,
                                  call->diag));
        INLAY_TRY(
            place_parameter(&in[state->at->y_scale], job.m, job.batch, "the scale of Y", &output.y_scale, call->diag));
        INLAY_TRY(place_parameter(&in[state->at->y_zero], job.m, job.batch, "the zero point of Y", &output.y_zero,
                                  call->diag));
        job.finish = store_tile;
        job.finish_user = &output;
    }
    status = gemm_run(call, &job, call->workspace);
done:
    return status;
}

static void cost_integer(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    matmul_cost(node, shapes, integer_inputs.b, out);
}
static void cost_linear(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    matmul_cost(node, shapes, linear_inputs.b, out);
}

static const kit_kernel kernels[] = {
    { .op_type = "MatMulInteger",
      .since_max = 10,
      .prepare = prepare,
      .release = release,
      .shape = shape,
      .run = run,
      .cost = cost_integer },
    { .op_type = "QLinearMatMul",
      .since_max = 21,
      .prepare = prepare,
      .release = release,
      .shape = shape,
      .run = run,
      .cost = cost_linear },
};
const kit_table OPERATOR(operators_mat_mul_integer) = { kernels, KIT_COUNT(kernels) };
