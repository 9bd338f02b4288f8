/* Clip: ONNX 1, 6 (bounds are attributes), 11, 12, 13 (bounds are optional scalar inputs). */
#include "operators/instance.h"
#include "inlay/check.h"
#include "inlay/graph_view.h"
#include "operators/elementwise.h"
#include <stdlib.h>

#define T float
#define SUFFIX f32
#include "operators/clip.inc"
#undef T
#undef SUFFIX
#define T double
#define SUFFIX f64
#include "operators/clip.inc"
#undef T
#undef SUFFIX
#define BODY "clip.inc"
#include "operators/integers.inc"

typedef void (*clip_fn)(void *out, const void *in, int64_t count, const void *low, const void *high);
static const clip_fn by_dtype[INLAY_DTYPE_COUNT] = {
    [INLAY_FLOAT] = clip_f32,  [INLAY_DOUBLE] = clip_f64, [INLAY_UINT8] = clip_u8, [INLAY_UINT16] = clip_u16,
    [INLAY_UINT32] = clip_u32, [INLAY_UINT64] = clip_u64, [INLAY_INT8] = clip_i8,  [INLAY_INT16] = clip_i16,
    [INLAY_INT32] = clip_i32,  [INLAY_INT64] = clip_i64,
};

/* A bound in the type of the loop. */
typedef union clip_bound {
    float f32;
    double f64;
    int64_t any;
} clip_bound;

typedef struct clip_state {
    clip_fn fn;
    inlay_dtype compute;
    bool has[2]; /* whether the low and the high bound are given by attributes */
    clip_bound bound[2];
} clip_state;

/* Returns whether the node can be part of a fused chain: its bounds must be constants. */
static bool clip_row_fits(const kit_node *node)
{
    for (uint32_t input = 1; input < 3; input++) {
        const inlay_value_info *bound = kit_input(node, input);
        if (bound != NULL &&
            (!kit_is_constant(node, input) || bound->dtype != INLAY_FLOAT || bound->data_bytes != sizeof(float)))
            return false;
    }
    return kit_input_dtype(node, 0) == INLAY_FLOAT;
}

static inlay_status prepare_clip(const kit_node *node, void **out_state, inlay_diag *diag)
{
    static const char *const names[2] = { "min", "max" };
    inlay_dtype dtype = kit_input_dtype(node, 0);
    clip_state *state = calloc(1, sizeof *state);

    *out_state = state;
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a kernel's state");
    state->compute = dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16 ? INLAY_FLOAT : dtype;
    state->fn = by_dtype[state->compute];
    for (int k = 0; k < 2 && kit_since_version(node) < 11; k++)
        if (kit_attr(node->info, names[k]) != NULL) {
            double value = kit_attr_float(node->info, names[k], 0);
            state->has[k] = true;
            if (state->compute == INLAY_DOUBLE)
                state->bound[k].f64 = value;
            else
                state->bound[k].f32 = (float)value;
        }
    for (uint32_t bound = 0; bound < 2 && clip_row_fits(node); bound++) {
        const float *value = kit_constant(node, bound + 1);
        if (value != NULL) {
            state->bound[bound].f32 = *value;
            state->has[bound] = true;
        }
    }
    return INLAY_OK;
}

static void clip_row(const void *state, float *out, const float *const *in, const int64_t *step, int64_t count)
{
    const clip_state *clip = state;

    clip->fn(out, in[0], step[0] != 0 ? count : 1, clip->has[0] ? &clip->bound[0] : NULL,
             clip->has[1] ? &clip->bound[1] : NULL);
    for (int64_t i = 1; step[0] == 0 && i < count; i++)
        out[i] = out[0];
}

typedef struct clip_job {
    const kit_call *call;
    const void *bound[2];
} clip_job;

static inlay_status clip_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const clip_job *job = user;
    const clip_state *state = job->call->state;
    const kit_tensor *input = &job->call->in[0], *output = &job->call->out[0];
    int64_t bytes = elementwise_bytes(input->dtype);

    (void)worker;
    INLAY_CHECK(state->fn != NULL && begin <= end);
    if (input->dtype == state->compute) {
        state->fn((char *)output->data + begin * bytes, (const char *)input->data + begin * bytes, end - begin,
                  job->bound[0], job->bound[1]);
        return INLAY_OK;
    }
    for (int64_t i = begin; i < end; i += ELEMENTWISE_BLOCK) {
        float buffer[ELEMENTWISE_BLOCK];
        int64_t count = end - i < ELEMENTWISE_BLOCK ? end - i : ELEMENTWISE_BLOCK;
        convert_to_f32(buffer, input->dtype, input->data, i, count);
        state->fn(buffer, buffer, count, job->bound[0], job->bound[1]);
        convert_from_f32(output->dtype, output->data, i, count, buffer, CONVERT_SATURATE);
    }
    return INLAY_OK;
}

static inlay_status run_clip(const kit_call *call)
{
    const clip_state *state = call->state;
    clip_bound from_input[2];
    clip_job job = { call, { NULL, NULL } };

    for (uint32_t bound = 0; bound < 2; bound++) {
        if (state->has[bound])
            job.bound[bound] = &state->bound[bound];
        if (!kit_has_input(call, bound + 1) || call->in[bound + 1].count == 0)
            continue;
        if (call->in[bound + 1].count != 1)
            return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "Clip: %s must be a scalar, it has %lld elements",
                              bound == 0 ? "min" : "max", (long long)call->in[bound + 1].count);
        from_input[bound].any = 0;
        if (call->in[bound + 1].dtype == state->compute)
            memcpy(&from_input[bound], call->in[bound + 1].data, (size_t)elementwise_bytes(state->compute));
        else
            convert_to_f32(&from_input[bound].f32, call->in[bound + 1].dtype, call->in[bound + 1].data, 0, 1);
        job.bound[bound] = &from_input[bound];
    }
    return kit_parallel(call, call->in[0].count, ELEMENTWISE_GRAIN, clip_range, &job);
}

static const kit_kernel kernels[] = {
    { .op_type = "Clip",
      .in_types = { KIT_NUMBERS },
      .flags = KIT_IN_PLACE,
      .prepare = prepare_clip,
      .run = run_clip,
      .row = clip_row,
      .row_inputs = 1,
      .row_fits = clip_row_fits },
};
const kit_table OPERATOR(operators_clip) = { kernels, KIT_COUNT(kernels) };
