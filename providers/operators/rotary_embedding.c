/* RotaryEmbedding: ONNX 23. Rotates pairs of elements of each head by the angles of their position. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/operators.h"
#include <stdlib.h>

typedef struct rotary_state {
    bool interleaved;
    int64_t heads, rotary;
} rotary_state;

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    rotary_state *state = NULL;
    inlay_status status = arg_allocate_state(sizeof *state, (void **)&state, diag);

    if (status != INLAY_OK)
        return status;
    state->interleaved = kit_attr_int(node->info, "interleaved", 0) != 0;
    state->heads = kit_attr_int(node->info, "num_heads", 0);
    state->rotary = kit_attr_int(node->info, "rotary_embedding_dim", 0);
    *out_state = state;
    return INLAY_OK;
}

typedef struct rotary_task {
    const kit_call *call;
    int64_t batch, heads, length, size, half;
    bool packed, interleaved;
} rotary_task;

enum { BLOCK = 256 };

/* Rotates one head at one position. */
static void rotate_head(const rotary_task *task, int64_t at, int64_t angles)
{
    const kit_tensor *input = &task->call->in[0], *output = &task->call->out[0], *cosines = &task->call->in[1],
                     *sines = &task->call->in[2];
    float first[BLOCK], second[BLOCK], cosine[BLOCK], sine[BLOCK], both[2 * BLOCK];

    for (int64_t i = 0; i < task->half; i += BLOCK) {
        int64_t count = task->half - i < BLOCK ? task->half - i : BLOCK;
        convert_to_f32(cosine, cosines->dtype, cosines->data, angles + i, count);
        convert_to_f32(sine, sines->dtype, sines->data, angles + i, count);
        if (task->interleaved) {
            convert_to_f32(both, input->dtype, input->data, at + 2 * i, 2 * count);
            for (int64_t j = 0; j < count; j++) {
                float real = both[2 * j] * cosine[j] - both[2 * j + 1] * sine[j];
                both[2 * j + 1] = both[2 * j] * sine[j] + both[2 * j + 1] * cosine[j];
                both[2 * j] = real;
            }
            convert_from_f32(output->dtype, output->data, at + 2 * i, 2 * count, both, 0);
            continue;
        }
        convert_to_f32(first, input->dtype, input->data, at + i, count);
        convert_to_f32(second, input->dtype, input->data, at + task->half + i, count);
        for (int64_t j = 0; j < count; j++) {
            float real = first[j] * cosine[j] - second[j] * sine[j];
            second[j] = first[j] * sine[j] + second[j] * cosine[j];
            first[j] = real;
        }
        convert_from_f32(output->dtype, output->data, at + i, count, first, 0);
        convert_from_f32(output->dtype, output->data, at + task->half + i, count, second, 0);
    }
}

/* Processes positions [begin, end) of all batches. */
static inlay_status run_positions(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const rotary_task *task = user;
    const kit_call *call = task->call;
    int64_t element_bytes = (int64_t)kit_bytes(call->in[0].dtype, 1),
            table = call->in[1].rank > 1 ? call->in[1].dims[0] : 0;

    INLAY_CHECK(task->length > 0 && 2 * task->half <= task->size);
    (void)worker;
    for (int64_t index = begin; index < end; index++) {
        int64_t batch = index / task->length, step = index % task->length, angles = index * task->half;
        if (kit_has_input(call, 3)) {
            int64_t position = arg_index(&call->in[3], index);
            if (position < 0 || position >= table)
                return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "position %lld is outside the caches' [0, %lld)",
                                  (long long)position, (long long)table);
            angles = position * task->half;
        }
        for (int64_t head = 0; head < task->heads; head++) {
            int64_t at = task->packed ? (index * task->heads + head) * task->size
                                      : ((batch * task->heads + head) * task->length + step) * task->size;
            rotate_head(task, at, angles);
            if (2 * task->half < task->size)
                memcpy((char *)call->out[0].data + (at + 2 * task->half) * element_bytes,
                       (const char *)call->in[0].data + (at + 2 * task->half) * element_bytes,
                       (size_t)((task->size - 2 * task->half) * element_bytes));
        }
    }
    return INLAY_OK;
}

static inlay_status run(const kit_call *call)
{
    const rotary_state *state = call->state;
    const kit_tensor *input = &call->in[0], *cosines = &call->in[1], *sines = &call->in[2];
    rotary_task task = { .call = call, .packed = input->rank == 3, .interleaved = state->interleaved };
    int64_t rotary, rows;

    if (input->rank != 4 && (input->rank != 3 || state->heads <= 0 || input->dims[2] % state->heads != 0))
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "X has rank %u; it must be 4, or 3 with num_heads (here %lld) dividing its last dim",
                          input->rank, (long long)state->heads);
    task.batch = input->dims[0];
    task.heads = input->rank == 4 ? input->dims[1] : state->heads;
    task.length = input->dims[input->rank - 2];
    task.size = input->rank == 4 ? input->dims[3] : input->dims[2] / state->heads;
    rotary = state->rotary > 0 ? state->rotary : task.size;
    task.half = rotary / 2;
    rows = kit_has_input(call, 3) ? (cosines->rank > 0 ? cosines->dims[0] : 0) : task.batch * task.length;
    if (rotary > task.size || rotary % 2 != 0 || cosines->count != rows * task.half || sines->count != cosines->count ||
        (kit_has_input(call, 3) && call->in[3].count != task.batch * task.length))
        return inlay_fail(
            call->diag, INLAY_SHAPE_MISMATCH,
            "caches of %lld elements and %lld positions do not match heads of %lld with %lld rotated elements",
            (long long)cosines->count, (long long)(kit_has_input(call, 3) ? call->in[3].count : 0),
            (long long)task.size, (long long)rotary);
    return kit_parallel(call, task.batch * task.length, 16384 / (task.heads * task.size + 1) + 1, run_positions, &task);
}

static const kit_kernel kernels[] = {
    { .op_type = "RotaryEmbedding", .since_max = 23, .prepare = prepare, .run = run },
};
const kit_table OPERATOR(operators_rotary_embedding) = { kernels, KIT_COUNT(kernels) };
