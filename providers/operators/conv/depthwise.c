/* depthwise.c - convolution with one input channel per group: a window slides over each staged channel. */
#include "inlay/check.h"
#include "operators/conv.h"
#include "operators/conv/conv_loops.h"
#include "simd/convert.h"
#include "simd/optional.h"

typedef struct depthwise_task {
    const conv_run *run;
    const void *weights;
} depthwise_task;

/* Converts the weights of a filter to the type of the sums; returns its bias. */
static double load_filter(const depthwise_task *task, int64_t filter, void *weights)
{
    const conv_plan *plan = task->run->plan;

    if (plan->stage.bytes == 8)
        convert_to_f64(weights, plan->stage.dtype, task->weights, filter * plan->geometry.taps, plan->geometry.taps);
    else
        convert_to_f32(weights, plan->stage.dtype, task->weights, filter * plan->geometry.taps, plan->geometry.taps);
    return task->run->bias != NULL ? convert_get_f64(task->run->bias_dtype, task->run->bias, filter) : 0;
}

/* Computes one output row. Half precision goes through a buffer of 128 outputs. */
static void run_row(const depthwise_task *task, const char *input, const void *weights, double bias, int64_t first)
{
    const conv_plan *plan = task->run->plan;
    inlay_dtype dtype = plan->stage.dtype;
    int64_t columns = plan->geometry.out[2];

    if (dtype == INLAY_DOUBLE) {
        KERNEL_BEST(conv_loops)
            ->f64_row((const void *)input, plan->offset, weights, plan->geometry.taps, bias, columns,
                      (double *)task->run->output + first);
    } else if (dtype == INLAY_FLOAT) {
        KERNEL_BEST(conv_loops)
            ->f32_row((const void *)input, plan->offset, weights, plan->geometry.taps, (float)bias, columns,
                      (float *)task->run->output + first);
    } else {
        float block[128];
        for (int64_t j = 0; j < columns; j += 128) {
            int64_t count = columns - j < 128 ? columns - j : 128;
            KERNEL_BEST(conv_loops)
                ->f32_row((const float *)(const void *)input + j, plan->offset, weights, plan->geometry.taps,
                          (float)bias, count, block);
            convert_from_f32(dtype, task->run->output, first + j, count, block, 0);
        }
    }
}

static inlay_status run_channels(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const depthwise_task *task = user;
    const conv_plan *plan = task->run->plan;
    const conv_geometry *geometry = &plan->geometry;
    int64_t per_group = geometry->filters / geometry->group;
    char *weights = (char *)task->run->call->workspace + worker * plan->thread_bytes;
    char *staged = weights + (((size_t)geometry->taps * plan->stage.bytes + 63) & ~(size_t)63);

    for (int64_t channel = begin; channel < end; channel++) {
        conv_stage_channel(&plan->stage, geometry, task->run->input, channel * geometry->in_positions, staged);
        for (int64_t index = 0; index < per_group; index++) {
            int64_t filter = channel % geometry->group * per_group + index;
            int64_t first = (channel / geometry->group * geometry->filters + filter) * geometry->positions;
            double bias = load_filter(task, filter, weights);
            for (int64_t row = 0; row < geometry->out[0] * geometry->out[1]; row++, first += geometry->out[2]) {
                int64_t d = row / geometry->out[1] * geometry->stride[0],
                        h = row % geometry->out[1] * geometry->stride[1];
                run_row(task, staged + (d * plan->stage.padded[1] + h) * plan->stage.row * plan->stage.bytes, weights,
                        bias, first);
            }
        }
    }
    return INLAY_OK;
}

inlay_status conv_execute_depthwise(conv_run *run, const void *weights)
{
    depthwise_task task = { run, weights };
    const conv_geometry *geometry = &run->plan->geometry;
    int64_t work = geometry->positions * geometry->taps + run->plan->stage.channel;

    INLAY_CHECK(run->plan->depthwise && geometry->channels == geometry->group);
    return kit_parallel(run->call, geometry->images * geometry->channels, 65536 / (work > 0 ? work : 1) + 1,
                        run_channels, &task);
}

/* Programs of `inlay bundle` may omit this function. */
OPTIONAL_IF_CALLED(conv_execute_depthwise);
