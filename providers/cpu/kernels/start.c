/* Whether oneDNN's convolutions are worth their start-up. Opening libdnnl and generating the code of a kernel takes
 * longer than the rest of the first run of a small network. If its kernels would save less than that over RUNS runs,
 * built-in kernels are used, which are compiled ahead of time. `inlay tune` measures and takes the fastest kernel
 * regardless. */
#include "cpu/kernels/table.h"

static const double RUNS = 50;
static const double OPEN_NS = 1.8e6;    /* opening the library, unless another op needs it */
static const double KERNEL_NS = 0.15e6; /* generating one kernel; kernels for few channels are unrolled further */
static const double UNROLLED_NS = 0.7e6;
enum { FEW_CHANNELS = 16 };

/* True if the only consumer of the group's output is a depthwise convolution. Then the group may be deferred
 * (kernel_defer). */
static bool may_be_deferred(const cpu_build *build, const cpu_group *group)
{
    if (build->compiled->values[group->out].output != INLAY_NONE || build->compiled->values[group->out].uses != 1)
        return false;
    for (uint32_t o = 0; o < build->compiled->op_count; o++) {
        const cpu_op *op = &build->compiled->ops[o];

        if (op->in_count > 0 && op->in[0] == group->out)
            return op->row->family == &cpu_conv && op->window.group > 1 &&
                   op->window.group == build->dims[op->in[0]][1];
    }
    return false;
}

/* Predicted times for a channels-last image: of the best built-in kernel (negative: none can run) and of oneDNN's.
 * build->op must be the convolution. */
static void predict(cpu_build *build, const cpu_group *group, const kernel_layer *layer, double *out_builtin,
                    double *out_library)
{
    static const uint8_t builtin[] = { KERNEL_TILES, KERNEL_WINOGRAD_4, KERNEL_WINOGRAD_2, KERNEL_DEPTHWISE,
                                       KERNEL_GEMM };
    const char *why = NULL;

    *out_builtin = -1;
    for (size_t i = 0; i < sizeof builtin / sizeof builtin[0]; i++) {
        const kernel_entry *kernel = &kernel_table[builtin[i]];
        double ns;

        if (!kernel->runs(build, group, layer, &why))
            continue;
        ns = kernel->ns(build, group, layer) + kernel_gates_ns(build, group, kernel->gate_ns);
        *out_builtin = *out_builtin < 0 || ns < *out_builtin ? ns : *out_builtin;
    }
    *out_library =
        kernel_library_ns(build, group, layer) + kernel_gates_ns(build, group, kernel_table[KERNEL_LIBRARY].gate_ns);
}

bool kernel_skips_onednn_startup(cpu_build *build)
{
    const cpu_op *op = build->op;
    double gain = 0, cost = 0;
    bool needed = false;

    if (build->state->alone)
        return true;
    if (build->state->bf16 || build->state->kernel != KERNEL_COUNT || build->attempt != NULL)
        return false;
    for (uint32_t group_index = 0; group_index < build->group_count; group_index++) {
        const cpu_group *group = &build->groups[group_index];
        kernel_layer layer = { .input.buffer = INLAY_NONE };
        double builtin, library;

        build->op = &build->compiled->ops[group->op];
        if (build->op->row->family != &cpu_conv || may_be_deferred(build, group) ||
            cpu_count(build, build->op->out[0]) == 0)
            continue;
        kernel_conv_shape_of(build, build->op, &layer.window);
        memory_desc_channels_last(&layer.input.md, build->ranks[build->op->in[0]], build->dims[build->op->in[0]]);
        predict(build, group, &layer, &builtin, &library);
        if (builtin < 0) {
            needed = true;
        } else if (library < builtin) {
            gain += builtin - library;
            cost += layer.window.in < FEW_CHANNELS && layer.window.kernel[0] * layer.window.kernel[1] > 1 ? UNROLLED_NS
                                                                                                          : KERNEL_NS;
        }
    }
    build->op = op;
    return gain * RUNS < cost + (needed ? 0 : OPEN_NS);
}
