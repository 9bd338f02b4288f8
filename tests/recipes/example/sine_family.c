/* Sin: ONNX 7 to 22, of a tensor in any layout. */
#include "cpu/region/build.h"
#include "cpu/weights/read.h"
#include <math.h>

static bool parse(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    (void)node, (void)op, (void)why; /* no attributes: every tensor of floats that the row takes */
    return true;
}

typedef struct sine_step {
    cpu_native native;
    int64_t count;
} sine_step;

static inlay_status run_sine(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const sine_step *step = (const sine_step *)(const void *)native;
    const float *input = args[0];
    float *output = args[1];

    (void)state, (void)run, (void)threads;
    for (int64_t i = 0; i < step->count; i++)
        output[i] = sinf(input[i]);
    return INLAY_OK;
}

static inlay_status lower(cpu_build *build, const cpu_group *group)
{
    sine_step step = { .native.run = run_sine };
    cpu_place input, output;
    inlay_status status;

    INLAY_TRY(cpu_read(build, build->op->in[0], &input));
    INLAY_TRY(cpu_result_place(build, group->out, &input.layout, &output));
    step.count = (int64_t)(layout_bytes(&input.layout) / sizeof(float)); /* also the padding of a blocked layout */
    INLAY_TRY(cpu_emit_step(build, &step.native, sizeof step, (const cpu_place *const[]){ &input, &output }, 2));
    status = cpu_set_place(build, group->out, &output);
done:
    return status;
}

const cpu_family cpu_sine = { .name = "sine", .parse = parse, .lower = lower };
