/* BatchNormalization of row-major or channels-last images in one pass, limited by memory bandwidth. Other layouts
 * become row-major. */
#include "cpu/elementwise/elementwise.h"
#include "cpu/normalization/row_loops.h"
#include "cpu/region/build.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include <math.h>

enum { CHUNK = 1024, UNIT_ELEMENTS = 16384 }; /* channels per table of factors; elements worth another thread */

struct batch {
    cpu_native native;
    int64_t rows, channels, pixels; /* pixels > 0: a row is the pixels of one channel; 0: a row has all channels */
    float epsilon;
    bool relu;
};

typedef struct batch_call {
    const struct batch *batch;
    const float *input, *scale, *shift, *mean, *variance;
    float *output;
    int64_t unit; /* rows of a unit of work */
} batch_call;

static float factor_of(const batch_call *call, int64_t channel)
{
    return call->scale[channel] / sqrtf(call->variance[channel] + call->batch->epsilon);
}

static inlay_status run_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const batch_call *call = user;
    const struct batch *batch = call->batch;
    int64_t first = begin * call->unit, last = end * call->unit < batch->rows ? end * call->unit : batch->rows;
    float factors[CHUNK];

    (void)worker;
    if (batch->pixels > 0) {
        for (int64_t r = first; r < last; r++)
            KERNEL_BEST(row_loops)->pixels_row(call->output + r * batch->pixels, call->input + r * batch->pixels,
                                               call->mean[r % batch->channels], factor_of(call, r % batch->channels),
                                               call->shift[r % batch->channels], batch->pixels, batch->relu);
        return INLAY_OK;
    }
    for (int64_t at = 0; at < batch->channels; at += CHUNK) {
        int64_t count = batch->channels - at < CHUNK ? batch->channels - at : CHUNK;

        for (int64_t i = 0; i < count; i++)
            factors[i] = factor_of(call, at + i);
        for (int64_t r = first; r < last; r++)
            KERNEL_BEST(row_loops)->channels_row(call->output + r * batch->channels + at,
                                                 call->input + r * batch->channels + at, call->mean + at, factors,
                                                 call->shift + at, count, batch->relu);
    }
    return INLAY_OK;
}

/* args: x, scale, shift, mean, variance, y. */
static inlay_status run_batch(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                              uint32_t threads)
{
    const struct batch *batch = (const struct batch *)(const void *)native;
    int64_t length = batch->pixels > 0 ? batch->pixels : batch->channels, units;
    batch_call call = { batch, args[0], args[1], args[2], args[3], args[4], args[5], 1 };

    INLAY_CHECK(length > 0);
    call.unit = length < UNIT_ELEMENTS ? (UNIT_ELEMENTS + length - 1) / length : 1;
    units = (batch->rows + call.unit - 1) / call.unit;
    if (threads <= 1 || units < 2)
        return run_rows(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, run_rows, &call);
}

inlay_status cpu_lower_batch(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    const cpu_post *next = group->post_count > 0 ? &group->posts[0] : NULL;
    const bool relu =
        next != NULL && next->kind == CPU_POST_UNARY && next->unary.function == FUNCTION_RELU && next->unary.alpha == 0;
    uint32_t rank = build->ranks[op->in[0]];
    const int64_t *dims = build->dims[op->in[0]];
    cpu_place input, output, parameters[4];
    const cpu_place *places[6] = { &input, &parameters[0], &parameters[1], &parameters[2], &parameters[3], &output };
    bool overwrite = cpu_is_last_use(build, op->in[0]), last;
    inlay_status status;
    tensor_layout vector, image;
    struct batch batch = { 0 };

    INLAY_CHECK(op->in_count >= 5 && cpu_type(build, op->in[0]) == ELEMENT_FLOAT);
    INLAY_TRY(cpu_read(build, op->in[0], &input));
    if (rank >= 3)
        layout_channels_last(&image, rank, dims);
    last = rank == 2 ? layout_is_plain(&input.layout) : layout_equal(&input.layout, &image);
    if (!last && !layout_is_plain(&input.layout)) {
        INLAY_TRY(cpu_read_plain(build, op->in[0], &input));
        overwrite = false;
    }
    if (overwrite && build->compiled->values[group->out].output == INLAY_NONE)
        output = input;
    else
        INLAY_TRY(cpu_result_place(build, group->post_count == (relu ? 1u : 0u) ? group->out : op->out[0],
                                   &input.layout, &output));
    layout_plain(&vector, 1, &dims[1]);
    for (uint32_t i = 0; i < 4; i++)
        INLAY_TRY(cpu_read_constant(build, op->in[1 + i], &vector, &vector, &parameters[i]));
    batch.native.run = run_batch;
    batch.channels = dims[1];
    batch.pixels = last ? 0 : cpu_count(build, op->in[0]) / dims[0] / dims[1];
    batch.rows = last ? cpu_count(build, op->in[0]) / dims[1] : dims[0] * dims[1];
    batch.epsilon = op->normalization.epsilon;
    batch.relu = relu;
    INLAY_TRY(cpu_emit_step(build, &batch.native, sizeof batch, places, 6));
    status = cpu_finish(build, group, relu ? 1 : 0, &output, true);
done:
    return status;
}
