/* depthwise.c - convolution whose groups have one input channel: a window slides over each staged channel. */
#include "conv.h"
#include "conv/conv_loops.h"
#include "simd/convert.h"
#include "simd/optional.h"

typedef struct depthwise_task {
    const conv_run *run;
    const void *weights;
} depthwise_task;

/* The weights of a filter in the type that is computed in, and its bias. */
static double load_filter(const depthwise_task *t, int64_t filter, void *weights)
{
    const conv_plan *p = t->run->plan;

    if (p->stage.bytes == 8)
        convert_to_f64(weights, p->stage.dtype, t->weights, filter * p->g.taps, p->g.taps);
    else
        convert_to_f32(weights, p->stage.dtype, t->weights, filter * p->g.taps, p->g.taps);
    return t->run->bias != NULL ? convert_get_f64(t->run->bias_dtype, t->run->bias, filter) : 0;
}

/* One output row. Half precision passes through a buffer of a block of outputs. */
static void run_row(const depthwise_task *t, const char *x, const void *weights, double bias, int64_t first)
{
    const conv_plan *p = t->run->plan;
    inlay_dtype dtype = p->stage.dtype;
    int64_t n = p->g.out[2];

    if (dtype == INLAY_DOUBLE) {
        KERNEL_BEST(conv_loops)
            ->f64_row((const void *)x, p->offset, weights, p->g.taps, bias, n, (double *)t->run->y + first);
    } else if (dtype == INLAY_FLOAT) {
        KERNEL_BEST(conv_loops)
            ->f32_row((const void *)x, p->offset, weights, p->g.taps, (float)bias, n, (float *)t->run->y + first);
    } else {
        float block[128];
        for (int64_t j = 0; j < n; j += 128) {
            int64_t count = n - j < 128 ? n - j : 128;
            KERNEL_BEST(conv_loops)
                ->f32_row((const float *)(const void *)x + j, p->offset, weights, p->g.taps, (float)bias, count, block);
            convert_from_f32(dtype, t->run->y, first + j, count, block, 0);
        }
    }
}

static inlay_status run_channels(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const depthwise_task *t = user;
    const conv_plan *p = t->run->plan;
    const conv_geometry *g = &p->g;
    int64_t per_group = g->filters / g->group;
    char *weights = (char *)t->run->call->workspace + worker * p->thread_bytes;
    char *staged = weights + (((size_t)g->taps * p->stage.bytes + 63) & ~(size_t)63);

    for (int64_t c = begin; c < end; c++) {
        conv_stage_channel(&p->stage, g, t->run->x, c * g->in_positions, staged);
        for (int64_t f = 0; f < per_group; f++) {
            int64_t filter = c % g->group * per_group + f;
            int64_t first = (c / g->group * g->filters + filter) * g->positions;
            double bias = load_filter(t, filter, weights);
            for (int64_t row = 0; row < g->out[0] * g->out[1]; row++, first += g->out[2]) {
                int64_t d = row / g->out[1] * g->stride[0], h = row % g->out[1] * g->stride[1];
                run_row(t, staged + (d * p->stage.padded[1] + h) * p->stage.row * p->stage.bytes, weights, bias, first);
            }
        }
    }
    return INLAY_OK;
}

inlay_status conv_execute_depthwise(conv_run *run, const void *weights)
{
    depthwise_task task = { run, weights };
    const conv_geometry *g = &run->plan->g;
    int64_t work = g->positions * g->taps + run->plan->stage.channel;

    return kit_parallel(run->call, g->images * g->channels, 65536 / (work > 0 ? work : 1) + 1, run_channels, &task);
}

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_IF_CALLED(conv_execute_depthwise);
