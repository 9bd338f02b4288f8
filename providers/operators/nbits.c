/* MatMulNBits-1, MatMulBnb4-1, MatMulFpQ4-1 and GatherBlockQuantized-1 of com.microsoft: packed weights of 2, 4 and 8
 * bits. One column of weights, or one row of a table, is converted to float at a time. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "simd/convert.h"
#include "operators/args.h"
#include "operators/elementwise.h"
#include "operators/operators.h"
#include <stdlib.h>

enum {
    LANES = 16,        /* partial sums of a dot product */
    WORK_GRAIN = 65536 /* minimum multiplications per thread */
};

/* The values of the 4-bit codes of the library bitsandbytes: FP4, its 4-bit float, and NF4, quantiles of a normal
 * distribution. */
static const float fp4[16] = {
    0.0f,  5.208333333e-03f,  0.66666667f,  1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
    -0.0f, -5.208333333e-03f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f
};
static const float nf4[16] = { -1.0f,
                               -0.6961928009986877f,
                               -0.5250730514526367f,
                               -0.39491748809814453f,
                               -0.28444138169288635f,
                               -0.18477343022823334f,
                               -0.09105003625154495f,
                               0.0f,
                               0.07958029955625534f,
                               0.16093020141124725f,
                               0.24611230194568634f,
                               0.33791524171829224f,
                               0.44070982933044434f,
                               0.5626170039176941f,
                               0.7229568362236023f,
                               1.0f };

enum { IN_A, IN_B, IN_SCALES, IN_ZEROS, IN_GROUPS, IN_BIAS };

typedef struct nbits_state {
    int64_t k, n, block; /* k and n: 0 for MatMulFpQ4, whose shapes have them */
    int64_t blocks;      /* blocks per column; 0 for MatMulFpQ4 */
    const float *table;  /* MatMulBnb4, whose blocks span columns of B; NULL: integers */
    bool has_zeros;      /* MatMulFpQ4: each block has a zero point */
    inlay_dtype packed;  /* UINT2, UINT4, UINT8 */
    uint32_t bits;
} nbits_state;

typedef struct nbits_plan {
    int64_t rows, k, n;
    bool converts;         /* A is converted to float first */
    uint64_t worker_bytes; /* bytes of a column of floats */
} nbits_plan;

static inlay_status prepare_product(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const bool bnb = strcmp(kit_op_type(node), "MatMulBnb4") == 0;
    nbits_state *state = calloc(1, sizeof *state);

    *out_state = state;
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a kernel's state");
    state->k = kit_attr_int(node->info, "K", 0);
    state->n = kit_attr_int(node->info, "N", 0);
    state->block = kit_attr_int(node->info, "block_size", 0);
    state->bits = bnb ? 4 : (uint32_t)kit_attr_int(node->info, "bits", 4);
    state->packed = state->bits == 2 ? INLAY_UINT2 : state->bits == 4 ? INLAY_UINT4 : INLAY_UINT8;
    state->table = !bnb ? NULL : kit_attr_int(node->info, "quant_type", 0) == 1 ? nf4 : fp4;
    if (state->k < 1 || state->n < 1 || state->block < 1)
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "K, N and block_size are %lld, %lld and %lld; they must be "
                          "positive",
                          (long long)state->k, (long long)state->n, (long long)state->block);
    state->blocks = state->k / state->block + (state->k % state->block != 0);
    return INLAY_OK;
}

static inlay_status prepare_blobs(const kit_node *node, void **out_state, inlay_diag *diag)
{
    nbits_state *state;
    inlay_status status = arg_allocate_state(sizeof *state, out_state, diag);

    if (status != INLAY_OK)
        return status;
    state = *out_state;
    state->block = 32;
    state->has_zeros = kit_attr_int(node->info, "blk_quant_type", 1) == 1;
    return INLAY_OK;
}

static inlay_status expect(const kit_plan *plan, uint32_t index, int64_t count, const char *what, inlay_diag *diag)
{
    if (index >= plan->in_count || plan->in[index].dtype == INLAY_UNDEFINED || plan->in[index].count == count)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "%s has %lld elements; K, N, bits and block_size require %lld", what,
                      (long long)plan->in[index].count, (long long)count);
}

/* Sets the plan and the workspace of a product with n columns of k weights. */
static void plan_columns(kit_plan *plan, nbits_plan *product, int64_t k, int64_t n)
{
    const kit_tensor *input = &plan->in[IN_A];

    product->k = k;
    product->n = n;
    product->rows = k > 0 ? input->count / k : 0;
    for (uint32_t d = 0; k == 0 && d + 1 < input->rank; d++)
        product->rows = (d == 0 ? 1 : product->rows) * input->dims[d];
    product->converts = input->dtype != INLAY_FLOAT;
    product->worker_bytes = ((uint64_t)k * sizeof(float) + 63) / 64 * 64;
    plan->workspace_bytes = product->worker_bytes * ((uint64_t)plan->max_threads + 1) +
                            (product->converts ? (uint64_t)input->count * sizeof(float) : 0);
}

static inlay_status shape_product(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const nbits_state *attributes = state;
    const kit_tensor *input = &plan->in[IN_A];
    nbits_plan *product = calloc(1, sizeof *product);
    inlay_status status = INLAY_OK;

    plan->plan = product;
    if (product == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a plan");
    if (input->rank < 1 || input->dims[input->rank - 1] != attributes->k)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "A has rows of %lld elements; K is %lld",
                          (long long)(input->rank < 1 ? 0 : input->dims[input->rank - 1]), (long long)attributes->k);
    if (attributes->table != NULL) {
        INLAY_TRY(expect(plan, IN_B, (attributes->n * attributes->k + 1) / 2, "B", diag));
        INLAY_TRY(expect(plan, IN_SCALES, (attributes->n * attributes->k + attributes->block - 1) / attributes->block,
                         "absmax", diag));
    } else {
        INLAY_TRY(expect(plan, IN_B, attributes->n * attributes->blocks * (attributes->block * attributes->bits / 8),
                         "B", diag));
        INLAY_TRY(expect(plan, IN_SCALES, attributes->n * attributes->blocks, "scales", diag));
        if (plan->in_count > IN_ZEROS)
            INLAY_TRY(expect(plan, IN_ZEROS,
                             plan->in[IN_ZEROS].dtype == INLAY_UINT8
                                 ? attributes->n * ((attributes->blocks * attributes->bits + 7) / 8)
                                 : attributes->n * attributes->blocks,
                             "zero_points", diag));
        if (plan->in_count > IN_GROUPS && plan->in[IN_GROUPS].count != attributes->k)
            INLAY_TRY(expect(plan, IN_GROUPS, attributes->blocks * attributes->block, "g_idx", diag));
        INLAY_TRY(expect(plan, IN_BIAS, attributes->n, "bias", diag));
    }
    plan_columns(plan, product, attributes->k, attributes->n);
done:
    return status;
}

/* MatMulFpQ4: K is the length of A's rows, and N that of the output's. */
static inlay_status shape_blobs(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const nbits_state *attributes = state;
    const kit_tensor *input = &plan->in[IN_A], *output = &plan->out[0];
    nbits_plan *product = calloc(1, sizeof *product);
    int64_t k, n, bytes;

    plan->plan = product;
    if (product == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a plan");
    if (input->rank < 1 || output->rank != input->rank || plan->in[2].count != 2)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "A has rank %u, B_shape %lld elements; it must have K and N",
                          input->rank, (long long)plan->in[2].count);
    k = input->dims[input->rank - 1];
    n = output->dims[output->rank - 1];
    bytes = (k + attributes->block - 1) / attributes->block * (attributes->block / 2 + (attributes->has_zeros ? 5 : 4));
    if (__builtin_mul_overflow(bytes, n, &bytes) || plan->in[IN_B].count != bytes)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "B has %lld bytes; K %lld and N %lld require another number",
                          (long long)plan->in[IN_B].count, (long long)k, (long long)n);
    plan_columns(plan, product, k, n);
    return INLAY_OK;
}

/* Returns the zero point of a block of a column. */
static float zero_of(const kit_call *call, const nbits_state *state, int64_t column, int64_t block)
{
    const kit_tensor *zeros = &call->in[IN_ZEROS];
    float zero = (float)(1 << (state->bits - 1));

    if (!kit_has_input(call, IN_ZEROS))
        return zero;
    if (zeros->dtype == INLAY_UINT8)
        convert_to_f32(&zero, state->packed,
                       (const char *)zeros->data + column * ((state->blocks * state->bits + 7) / 8), block, 1);
    else
        convert_to_f32(&zero, zeros->dtype, zeros->data, column * state->blocks + block, 1);
    return zero;
}

static float scale_of(const kit_call *call, int64_t index)
{
    float scale;

    convert_to_f32(&scale, call->in[IN_SCALES].dtype, call->in[IN_SCALES].data, index, 1);
    return scale;
}

static void unpack_column(const kit_call *call, const nbits_state *state, int64_t column, float *weights)
{
    const char *packed = (const char *)call->in[IN_B].data + column * state->blocks * (state->block * state->bits / 8);
    const int32_t *groups = kit_has_input(call, IN_GROUPS) ? call->in[IN_GROUPS].data : NULL;

    INLAY_CHECK(column >= 0 && column < state->n);
    convert_to_f32(weights, state->packed, packed, 0, state->k);
    for (int64_t k = 0; groups != NULL && k < state->k; k++)
        weights[k] =
            (weights[k] - zero_of(call, state, column, groups[k])) * scale_of(call, column * state->blocks + groups[k]);
    for (int64_t block = 0; groups == NULL && block < state->blocks; block++) {
        const int64_t last = (block + 1) * state->block < state->k ? (block + 1) * state->block : state->k;
        const float zero = zero_of(call, state, column, block), scale = scale_of(call, column * state->blocks + block);

        for (int64_t k = block * state->block; k < last; k++)
            weights[k] = (weights[k] - zero) * scale;
    }
}

/* MatMulBnb4: converts a column of B to floats. Two elements share a byte; the first one is in the high half. */
static void look_up_column(const kit_call *call, const nbits_state *state, int64_t column, float *weights)
{
    const uint8_t *packed = call->in[IN_B].data;

    INLAY_CHECK(state->table != NULL && column < state->n);
    for (int64_t k = 0; k < state->k;) {
        const int64_t first = column * state->k + k, remaining = state->block - first % state->block;
        const int64_t count = remaining < state->k - k ? remaining : state->k - k;
        const float scale = scale_of(call, first / state->block);

        for (int64_t i = 0; i < count; i++)
            weights[k + i] = state->table[packed[(first + i) / 2] >> ((first + i) % 2 == 0 ? 4 : 0) & 15] * scale;
        k += count;
    }
}

static float dot(const float *a, const float *b, int64_t count)
{
    float sums[LANES] = { 0 }, sum = 0;
    int64_t i = 0;

    for (; i + LANES <= count; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            sums[lane] += a[i + lane] * b[i + lane];
    for (; i < count; i++)
        sums[0] += a[i] * b[i];
    for (int lane = 0; lane < LANES; lane++)
        sum += sums[lane];
    return sum;
}

/* MatMulFpQ4: converts a column of B, whose blocks have a float scale, the zero point if any, and 32 codes of 4 bits:
 * the first 16 in the low halves of the bytes. */
static void unpack_blobs(const kit_call *call, const nbits_state *state, int64_t column, float *weights)
{
    const int64_t k = ((const nbits_plan *)call->plan)->k, header = state->has_zeros ? 5 : 4,
                  bytes = header + state->block / 2;
    const uint8_t *blob =
        (const uint8_t *)call->in[IN_B].data + column * ((k + state->block - 1) / state->block) * bytes;

    for (int64_t first = 0; first < k; first += state->block, blob += bytes) {
        const int32_t zero = state->has_zeros ? blob[4] : 8;
        const int64_t count = k - first < state->block ? k - first : state->block;
        float scale;

        memcpy(&scale, blob, sizeof scale);
        for (int64_t i = 0; i < count; i++) {
            const int32_t codes = blob[header + i % 16];

            weights[first + i] = (float)((i < 16 ? codes & 15 : codes >> 4) - zero) * scale;
        }
    }
}

typedef void (*nbits_unpack)(const kit_call *call, const nbits_state *state, int64_t column, float *weights);

typedef struct nbits_job {
    const kit_call *call;
    nbits_unpack unpack;
    const float *a;
    char *workers;
} nbits_job;

static inlay_status product_columns(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const nbits_job *job = user;
    const kit_call *call = job->call;
    const nbits_state *state = call->state;
    const nbits_plan *plan = call->plan;
    float *weights = (float *)(void *)(job->workers + worker * plan->worker_bytes);

    INLAY_CHECK(end <= plan->n);
    for (int64_t column = begin; column < end; column++) {
        float bias = 0;
        inlay_status status = kit_poll(call);

        if (status != INLAY_OK)
            return status;
        job->unpack(call, state, column, weights);
        if (kit_has_input(call, IN_BIAS))
            convert_to_f32(&bias, call->in[IN_BIAS].dtype, call->in[IN_BIAS].data, column, 1);
        for (int64_t row = 0; row < plan->rows; row++) {
            const float result = dot(job->a + row * plan->k, weights, plan->k) + bias;

            convert_from_f32(call->out[0].dtype, call->out[0].data, row * plan->n + column, 1, &result, 0);
        }
    }
    return INLAY_OK;
}

static inlay_status run_product(const kit_call *call)
{
    const nbits_state *state = call->state;
    const nbits_plan *plan = call->plan;
    const kit_tensor *tensor = &call->in[IN_A];
    float *copy = call->workspace;
    nbits_job job = { .call = call,
                      .unpack = state->k == 0          ? unpack_blobs
                                : state->table != NULL ? look_up_column
                                                       : unpack_column,
                      .a = plan->converts ? copy : tensor->data,
                      .workers =
                          (char *)call->workspace + (plan->converts ? (uint64_t)tensor->count * sizeof(float) : 0) };

    if (state->k == 0 &&
        (((const int64_t *)call->in[2].data)[0] != plan->k || ((const int64_t *)call->in[2].data)[1] != plan->n))
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "B_shape is [%lld, %lld]; A and B require [%lld, %lld]",
                          (long long)((const int64_t *)call->in[2].data)[0],
                          (long long)((const int64_t *)call->in[2].data)[1], (long long)plan->k, (long long)plan->n);
    if (call->out[0].count == 0)
        return INLAY_OK;
    for (int64_t k = 0; kit_has_input(call, IN_GROUPS) && k < state->k; k++) {
        const int32_t group = ((const int32_t *)call->in[IN_GROUPS].data)[k];

        if (group < 0 || group >= state->blocks)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "g_idx[%lld] is %d, outside [0, %lld)", (long long)k,
                              group, (long long)state->blocks);
    }
    if (plan->converts)
        convert_to_f32(copy, tensor->dtype, tensor->data, 0, tensor->count);
    return kit_parallel(call, plan->n, WORK_GRAIN / (plan->k * plan->rows + 1) + 1, product_columns, &job);
}

static void cost_product(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const int64_t k = kit_attr_int(node->info, "K", 0), n = kit_attr_int(node->info, "N", 0);

    if (shapes->in[0].count >= 0 && k > 0)
        cost->flops = (2.0 * (double)shapes->in[0].count / (double)k + 4) * (double)k * (double)n;
}

static void cost_blobs(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const kit_tensor *input = &shapes->in[IN_A], *output = &shapes->out[0];

    (void)node;
    if (input->count > 0 && output->count > 0)
        cost->flops = (2.0 * (double)input->count + 4 * (double)input->dims[input->rank - 1]) *
                      (double)output->dims[output->rank - 1];
}

typedef struct gather_state {
    int64_t block, gather_axis, quantize_axis;
    uint32_t bits;
    inlay_dtype packed; /* type of the packed elements; UNDEFINED: the type of data */
} gather_state;

typedef struct gather_job {
    const kit_call *call;
    inlay_dtype dtype;
    int64_t dim;                                           /* size of the gathered axis */
    int64_t inner;                                         /* elements after the gathered axis */
    int64_t quantize_dim, quantize_inner, quantize_blocks; /* sizes for the axis that is divided into blocks */
    int64_t last, last_blocks;                             /* sizes of the last axis of data, and of the zero points */
    float zero;
} gather_job;

static inlay_status prepare_gathered(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const int64_t block = kit_attr_int(node->info, "block_size", 128), bits = kit_attr_int(node->info, "bits", 4);
    gather_state *state = block > 0 ? calloc(1, sizeof *state) : NULL;

    *out_state = state;
    if (block <= 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "block_size is %lld, not at least 1", (long long)block);
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a kernel's state");
    state->block = block;
    state->gather_axis = kit_attr_int(node->info, "gather_axis", 0);
    state->quantize_axis = kit_attr_int(node->info, "quantize_axis", 1);
    state->bits = (uint32_t)bits;
    state->packed = kit_input_dtype(node, 0) != INLAY_UINT8 ? INLAY_UNDEFINED
                    : state->bits == 2                      ? INLAY_UINT2
                    : state->bits == 4                      ? INLAY_UINT4
                                                            : INLAY_UINT8;
    return INLAY_OK;
}

/* Returns the zero point of block `index`. The zero points of uint8 data are packed along the last axis; each row
 * starts at a byte. */
static float gathered_zero(const gather_job *job, int64_t index)
{
    float zero = job->zero;
    const kit_tensor *zeros = &job->call->in[3];
    const int64_t bits = (int64_t)inlay_dtype_bits(job->dtype);

    if (!kit_has_input(job->call, 3))
        return zero;
    if (zeros->dtype == INLAY_UINT8 && bits < 8)
        convert_to_f32(&zero, job->dtype,
                       (const char *)zeros->data + index / job->last_blocks * ((job->last_blocks * bits + 7) / 8),
                       index % job->last_blocks, 1);
    else
        convert_to_f32(&zero, zeros->dtype, zeros->data, index, 1);
    return zero;
}

static inlay_status gather_pieces(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const gather_job *job = user;
    const kit_call *call = job->call;
    const gather_state *state = call->state;
    const kit_tensor *indices = &call->in[1];

    (void)worker;
    for (int64_t piece = begin; piece < end; piece++) {
        const int64_t outer = piece / indices->count, position = piece % indices->count;
        int64_t index = indices->dtype == INLAY_INT64 ? ((const int64_t *)indices->data)[position]
                                                      : ((const int32_t *)indices->data)[position];
        const int64_t first = (outer * job->dim + (index < 0 ? index + job->dim : index)) * job->inner;

        for (int64_t element = 0; element < job->inner; element++) {
            const int64_t at = first + element, inner = at % job->quantize_inner, axis = at / job->quantize_inner;
            const int64_t scale =
                (axis / job->quantize_dim * job->quantize_blocks + axis % job->quantize_dim / state->block) *
                    job->quantize_inner +
                inner;
            float weight;

            convert_to_f32(&weight, job->dtype, call->in[0].data, at, 1);
            weight = (weight - gathered_zero(job, scale)) * scale_of(call, scale);
            convert_from_f32(call->out[0].dtype, call->out[0].data, piece * job->inner + element, 1, &weight, 0);
        }
    }
    return INLAY_OK;
}

static inlay_status check_scales(const kit_call *call, const gather_job *job, int64_t count)
{
    const int64_t bits = (int64_t)inlay_dtype_bits(job->dtype);
    const int64_t packed = bits < 8 && call->in[0].dtype == INLAY_UINT8
                               ? count / job->last_blocks * ((job->last_blocks * bits + 7) / 8)
                               : count;

    if (call->in[2].count != count)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "scales has %lld elements; data and block_size require "
                          "%lld",
                          (long long)call->in[2].count, (long long)count);
    if (kit_has_input(call, 3) && call->in[3].count != packed)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "zero_points has %lld elements; data and block_size require "
                          "%lld",
                          (long long)call->in[3].count, (long long)packed);
    return INLAY_OK;
}

static inlay_status run_gathered(const kit_call *call)
{
    const gather_state *state = call->state;
    const kit_tensor *input = &call->in[0], *indices = &call->in[1];
    gather_job job = { .call = call,
                       .dtype = state->packed != INLAY_UNDEFINED ? state->packed : input->dtype,
                       .dim = 1,
                       .inner = 1,
                       .quantize_inner = 1,
                       .zero = state->packed == INLAY_UNDEFINED ? 0 : (float)(1 << (state->bits - 1)) };
    const int64_t per_byte = input->dtype == INLAY_UINT8 ? 8 / (int64_t)state->bits : 1;
    int64_t gather = state->gather_axis, quantize = state->quantize_axis, pieces = indices->count, count = 1;

    gather += gather < 0 ? (int64_t)input->rank : 0;
    quantize += quantize < 0 ? (int64_t)input->rank : 0;
    if (gather < 0 || quantize < 0 || gather >= (int64_t)input->rank || quantize >= (int64_t)input->rank)
        return inlay_fail(call->diag, INLAY_INVALID_MODEL,
                          "gather_axis %lld and quantize_axis %lld must be axes of data of rank %u",
                          (long long)state->gather_axis, (long long)state->quantize_axis, input->rank);
    for (int64_t d = 0; d < (int64_t)input->rank; d++) {
        const int64_t dim = input->dims[d] * (d + 1 == (int64_t)input->rank ? per_byte : 1);
        const int64_t scales = d == quantize ? dim / state->block + (dim % state->block != 0) : dim;

        pieces *= d < gather ? dim : 1;
        job.dim = d == gather ? dim : job.dim;
        job.inner *= d > gather ? dim : 1;
        job.quantize_dim = d == quantize ? dim : job.quantize_dim;
        job.quantize_blocks = d == quantize ? scales : job.quantize_blocks;
        job.quantize_inner *= d > quantize ? dim : 1;
        job.last_blocks = scales;
        count *= scales;
    }
    if (call->out[0].count == 0)
        return INLAY_OK;
    for (int64_t i = 0; i < indices->count; i++) {
        const int64_t index =
            indices->dtype == INLAY_INT64 ? ((const int64_t *)indices->data)[i] : ((const int32_t *)indices->data)[i];

        if (index < -job.dim || index >= job.dim)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "indices[%lld] is %lld, outside [-%lld, %lld)",
                              (long long)i, (long long)index, (long long)job.dim, (long long)job.dim);
    }
    if (call->out[0].count != pieces * job.inner)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "the output has %lld elements; data and indices require %lld", (long long)call->out[0].count,
                          (long long)(pieces * job.inner));
    inlay_status status = check_scales(call, &job, count);
    return status != INLAY_OK ? status : kit_parallel(call, pieces, 4096 / job.inner + 1, gather_pieces, &job);
}

/* The cost of reading the selected elements of the table only. */
static void cost_gathered(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    (void)node;
    if (shapes->out[0].count < 0)
        return;
    out->bytes_written = kit_bytes(shapes->out[0].dtype, shapes->out[0].count);
    out->bytes_read = out->bytes_written / 4;
    out->ns = 60 + 4.0 * (double)shapes->out[0].count;
}

static const kit_kernel kernels[] = {
    { .domain = "com.microsoft",
      .op_type = "MatMulNBits",
      .prepare = prepare_product,
      .shape = shape_product,
      .run = run_product,
      .cost = cost_product },
    { .domain = "com.microsoft",
      .op_type = "MatMulBnb4",
      .prepare = prepare_product,
      .shape = shape_product,
      .run = run_product,
      .cost = cost_product },
    { .domain = "com.microsoft",
      .op_type = "MatMulFpQ4",
      .since_max = 1,
      .prepare = prepare_blobs,
      .shape = shape_blobs,
      .run = run_product,
      .cost = cost_blobs },
    { .domain = "com.microsoft",
      .op_type = "GatherBlockQuantized",
      .prepare = prepare_gathered,
      .run = run_gathered,
      .cost = cost_gathered },
};
const kit_table OPERATOR(operators_nbits) = { kernels, KIT_COUNT(kernels) };
