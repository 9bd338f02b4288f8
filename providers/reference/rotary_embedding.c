/* RotaryEmbedding: ONNX 23. Pairs of elements of each head are turned by the angles of their position. */
#include "instance.h"
#include "args.h"
#include "simd/convert.h"
#include "reference.h"
#include <stdlib.h>

typedef struct rotary_state {
    bool interleaved;
    int64_t heads, rotary;
} rotary_state;

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    rotary_state *s = NULL;
    inlay_status status = arg_state(sizeof *s, (void **)&s, diag);

    if (status != INLAY_OK)
        return status;
    s->interleaved = kit_attr_int(node->info, "interleaved", 0) != 0;
    s->heads = kit_attr_int(node->info, "num_heads", 0);
    s->rotary = kit_attr_int(node->info, "rotary_embedding_dim", 0);
    *out_state = s;
    return INLAY_OK;
}

typedef struct rotary_task {
    const kit_call *call;
    int64_t batch, heads, length, size, half;
    bool packed, interleaved;
} rotary_task;

enum { BLOCK = 256 };

/* One head at one position: x and y are its elements. */
static void turn(const rotary_task *t, int64_t at, int64_t angles)
{
    const kit_tensor *x = &t->call->in[0], *y = &t->call->out[0], *cosines = &t->call->in[1], *sines = &t->call->in[2];
    float a[BLOCK], b[BLOCK], c[BLOCK], s[BLOCK], both[2 * BLOCK];

    for (int64_t i = 0; i < t->half; i += BLOCK) {
        int64_t n = t->half - i < BLOCK ? t->half - i : BLOCK;
        convert_to_f32(c, cosines->dtype, cosines->data, angles + i, n);
        convert_to_f32(s, sines->dtype, sines->data, angles + i, n);
        if (t->interleaved) {
            convert_to_f32(both, x->dtype, x->data, at + 2 * i, 2 * n);
            for (int64_t j = 0; j < n; j++) {
                float real = both[2 * j] * c[j] - both[2 * j + 1] * s[j];
                both[2 * j + 1] = both[2 * j] * s[j] + both[2 * j + 1] * c[j];
                both[2 * j] = real;
            }
            convert_from_f32(y->dtype, y->data, at + 2 * i, 2 * n, both, 0);
            continue;
        }
        convert_to_f32(a, x->dtype, x->data, at + i, n);
        convert_to_f32(b, x->dtype, x->data, at + t->half + i, n);
        for (int64_t j = 0; j < n; j++) {
            float real = a[j] * c[j] - b[j] * s[j];
            b[j] = a[j] * s[j] + b[j] * c[j];
            a[j] = real;
        }
        convert_from_f32(y->dtype, y->data, at + i, n, a, 0);
        convert_from_f32(y->dtype, y->data, at + t->half + i, n, b, 0);
    }
}

/* Positions [begin, end) of all batches. */
static inlay_status run_positions(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const rotary_task *t = user;
    const kit_call *call = t->call;
    int64_t width = (int64_t)kit_bytes(call->in[0].dtype, 1), table = call->in[1].rank > 1 ? call->in[1].dims[0] : 0;

    (void)worker;
    for (int64_t index = begin; index < end; index++) {
        int64_t b = index / t->length, i = index % t->length, angles = index * t->half;
        if (kit_has_input(call, 3)) {
            int64_t position = arg_index(&call->in[3], index);
            if (position < 0 || position >= table)
                return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "position %lld is outside the caches' [0, %lld)",
                                  (long long)position, (long long)table);
            angles = position * t->half;
        }
        for (int64_t h = 0; h < t->heads; h++) {
            int64_t at = t->packed ? (index * t->heads + h) * t->size : ((b * t->heads + h) * t->length + i) * t->size;
            turn(t, at, angles);
            if (2 * t->half < t->size)
                memcpy((char *)call->out[0].data + (at + 2 * t->half) * width,
                       (const char *)call->in[0].data + (at + 2 * t->half) * width,
                       (size_t)((t->size - 2 * t->half) * width));
        }
    }
    return INLAY_OK;
}

static inlay_status run(const kit_call *call)
{
    const rotary_state *s = call->state;
    const kit_tensor *x = &call->in[0], *cosines = &call->in[1], *sines = &call->in[2];
    rotary_task t = { .call = call, .packed = x->rank == 3, .interleaved = s->interleaved };
    int64_t rotary, rows;

    if (x->rank != 4 && (x->rank != 3 || s->heads <= 0 || x->dims[2] % s->heads != 0))
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "X has rank %u; it must be 4, or 3 with num_heads (here %lld) dividing its last dim", x->rank,
                          (long long)s->heads);
    t.batch = x->dims[0];
    t.heads = x->rank == 4 ? x->dims[1] : s->heads;
    t.length = x->dims[x->rank - 2];
    t.size = x->rank == 4 ? x->dims[3] : x->dims[2] / s->heads;
    rotary = s->rotary > 0 ? s->rotary : t.size;
    t.half = rotary / 2;
    rows = kit_has_input(call, 3) ? (cosines->rank > 0 ? cosines->dims[0] : 0) : t.batch * t.length;
    if (rotary > t.size || rotary % 2 != 0 || cosines->count != rows * t.half || sines->count != cosines->count ||
        (kit_has_input(call, 3) && call->in[3].count != t.batch * t.length))
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "caches of %lld elements and %lld positions do not fit heads of %lld, of which %lld turn",
                          (long long)cosines->count, (long long)(kit_has_input(call, 3) ? call->in[3].count : 0),
                          (long long)t.size, (long long)rotary);
    return kit_parallel(call, t.batch * t.length, 16384 / (t.heads * t.size + 1) + 1, run_positions, &t);
}

static const kit_kernel kernels[] = {
    { .op_type = "RotaryEmbedding", .since_max = 23, .prepare = prepare, .run = run },
};
const kit_table OPERATOR(reference_rotary_embedding) = { kernels, KIT_COUNT(kernels) };
