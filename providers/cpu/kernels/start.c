/* What making oneDNN's convolutions is worth. Opening libdnnl and generating the code of a kernel takes longer than all
 * else that a small network needs before its first run. Where its kernels would save less than that in RUNS runs, those
 * of our own are taken, which are compiled ahead. `inlay tune`, which measures, takes the fastest regardless. */
#include "choice/kernels.h"

static const double RUNS = 50;
static const double OPEN_NS = 1.8e6;    /* the library, if nothing else needs it */
static const double KERNEL_NS = 0.15e6; /* one kernel; windows of a few channels are unrolled further */
static const double WINDOW_NS = 0.7e6;
enum { FEW_CHANNELS = 16 };

/* Does a convolution of single channels alone read what the group makes? Then it may be made on the way (kernel_wait).
 */
static bool may_wait(const cpu_build *build, const cpu_group *group)
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

/* The best of our own, negative: there is none; and that of oneDNN, for an image with channels last. build->op is the
 * convolution. */
static void expect(cpu_build *build, const cpu_group *group, const kernel_layer *layer, double *out_own,
                   double *out_library)
{
    static const uint8_t own[] = { KERNEL_TILES,     KERNEL_WINOGRAD_4, KERNEL_WINOGRAD_2,
                                   KERNEL_DEPTHWISE, KERNEL_GEMM,       KERNEL_PAIRS };
    const char *why = NULL;

    *out_own = -1;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        const kernel_kernel *kernel = &kernel_kernels[own[i]];
        double ns;

        if (!kernel->runs(build, group, layer, &why))
            continue;
        ns = kernel->ns(build, group, layer) + kernel_gates_ns(build, group, kernel->gate_ns);
        *out_own = *out_own < 0 || ns < *out_own ? ns : *out_own;
    }
    *out_library =
        kernel_library_ns(build, group, layer) + kernel_gates_ns(build, group, kernel_kernels[KERNEL_LIBRARY].gate_ns);
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
        double own, library;

        build->op = &build->compiled->ops[group->op];
        if (build->op->row->family != &cpu_conv || may_wait(build, group) || cpu_count(build, build->op->out[0]) == 0)
            continue;
        kernel_measure(build, build->op, &layer.window);
        memory_desc_channels_last(&layer.input.md, build->ranks[build->op->in[0]], build->dims[build->op->in[0]]);
        expect(build, group, &layer, &own, &library);
        if (own < 0) {
            needed = true;
        } else if (library < own) {
            gain += own - library;
            cost += layer.window.in < FEW_CHANNELS && layer.window.kernel[0] * layer.window.kernel[1] > 1 ? WINDOW_NS
                                                                                                          : KERNEL_NS;
        }
    }
    build->op = op;
    return gain * RUNS < cost + (needed ? 0 : OPEN_NS);
}
