/* Channel scales, as in squeeze-and-excitation: Conv(x * s) with a 1x1 kernel equals x by (W * s). One pass over the
 * weights replaces one over the image. */
#include "cpu/convolution/tiles.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"

struct scale {
    cpu_native native;
    int64_t panels, in;
};

/* args: weights [panels][in][TILE_WIDTH], factors [in], scaled weights. */
static inlay_status run_scale(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                              uint32_t threads)
{
    const struct scale *scale = (const struct scale *)(const void *)native;
    const float *restrict weights = args[0], *restrict factors = args[1];
    float *restrict output = args[2];

    (void)state, (void)run, (void)threads; /* cheaper than waking a thread */
    INLAY_CHECK(scale->panels >= 0 && scale->in > 0);
    for (int64_t panel = 0; panel < scale->panels; panel++)
        for (int64_t i = 0; i < scale->in; i++, weights += TILE_WIDTH, output += TILE_WIDTH)
            for (int64_t j = 0; j < TILE_WIDTH; j++)
                output[j] = weights[j] * factors[i];
    return INLAY_OK;
}

inlay_status tiles_scale_weights(cpu_build *build, uint32_t factors, int64_t in, cpu_place *weights)
{
    const struct scale step = { .native.run = run_scale,
                                .in = in,
                                .panels = weights->layout.padded_dims[0] / TILE_WIDTH };
    inlay_status status;
    cpu_place place, output;

    INLAY_TRY(cpu_read_plain(build, factors, &place));
    INLAY_TRY(cpu_new_place(build, &weights->layout, &output));
    INLAY_TRY(
        cpu_emit_step(build, &step.native, sizeof step, (const cpu_place *const[]){ weights, &place, &output }, 3));
    *weights = output;
done:
    return status;
}

static bool is_pointwise(const cpu_op *op, uint32_t value)
{
    if (op->row->family->kind != CPU_FAMILY_CONV || op->window.group != 1 || op->window.spatial > 2 ||
        op->in[0] != value)
        return false;
    for (uint32_t i = 0; i < op->window.spatial; i++)
        if (op->window.kernel[i] != 1 || op->window.strides[i] != 1 || op->window.pads[i] != 0 ||
            op->window.pads[op->window.spatial + i] != 0)
            return false;
    return true;
}

inlay_status tiles_defer_scale(cpu_build *build, const cpu_group *group, uint32_t reader, bool *out_done)
{
    const cpu_op *op = build->op;
    uint32_t output = op->out[0], rank = build->ranks[output], image, factors;
    inlay_status status = INLAY_OK;
    int64_t pixels = 1;
    cpu_place place;

    *out_done = false;
    if (build->state->tiles == NULL || build->state->sgemm == NULL || op->function != FUNCTION_MUL ||
        group->post_count > 0 || group->out != output || rank < 3 || rank > 4 || build->dims[output][0] != 1)
        return INLAY_OK;
    if (!is_pointwise(&build->compiled->ops[reader], output))
        return INLAY_OK;
    for (uint32_t d = 2; d < rank; d++)
        pixels *= build->dims[output][d];
    image = cpu_count(build, op->in[0]) == cpu_count(build, output) ? op->in[0] : op->in[1];
    factors = image == op->in[0] ? op->in[1] : op->in[0];
    if (image == factors || build->ranks[image] != rank || build->ranks[factors] != rank ||
        cpu_count(build, image) != cpu_count(build, output) || build->dims[factors][1] != build->dims[output][1] ||
        cpu_count(build, factors) != build->dims[factors][1] ||
        pixels < build->dims[build->compiled->ops[reader].out[0]][1])
        return INLAY_OK;
    INLAY_TRY(cpu_read(build, factors, &place)); /* both buffers must stay valid until the consumer runs */
    build->instance->buffers[place.buffer].pending++;
    INLAY_TRY(cpu_read(build, image, &place));
    INLAY_TRY(cpu_set_place(build, output, &place));
    build->scales[output] = factors;
    *out_done = true;
done:
    return status;
}
