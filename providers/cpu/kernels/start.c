/* What making oneDNN's convolutions is worth. Opening libdnnl and generating the code of a kernel takes longer than all
 * else that a small network needs before its first run. Where its kernels would save less than that in RUNS runs, those
 * of our own are taken, which are compiled ahead. `inlay tune`, which measures, takes the fastest regardless. */
#include "choice/kernels.h"

static const double RUNS = 50;
static const double OPEN_NS = 1.8e6;    /* the library, if nothing else needs it */
static const double KERNEL_NS = 0.15e6; /* one kernel; windows of a few channels are unrolled further */
static const double WINDOW_NS = 0.7e6;
enum { FEW_CHANNELS = 16 };

/* Does a convolution of single channels alone read what the group makes? Then it may be made on the way (kn_wait). */
static bool may_wait(const rg_build *build, const rg_group *group)
{
    if (build->compiled->values[group->out].output != INLAY_NONE || build->compiled->values[group->out].uses != 1)
        return false;
    for (uint32_t o = 0; o < build->compiled->op_count; o++) {
        const rg_op *op = &build->compiled->ops[o];

        if (op->in_count > 0 && op->in[0] == group->out)
            return op->row->family == &rg_conv && op->window.group > 1 && op->window.group == build->dims[op->in[0]][1];
    }
    return false;
}

/* The best of our own, negative: there is none; and that of oneDNN, for an image with channels last. build->op is the
 * convolution. */
static void expect(rg_build *build, const rg_group *group, const kn_case *layer, double *out_own, double *out_library)
{
    static const uint8_t own[] = { KN_TILES, KN_WINOGRAD_4, KN_WINOGRAD_2, KN_DEPTHWISE, KN_GEMM, KN_PAIRS };
    const char *why = NULL;

    *out_own = -1;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        const kn_kernel *kernel = &kn_kernels[own[i]];
        double ns;

        if (!kernel->runs(build, group, layer, &why))
            continue;
        ns = kernel->ns(build, group, layer) + kn_gates_ns(build, group, kernel->gate_ns);
        *out_own = *out_own < 0 || ns < *out_own ? ns : *out_own;
    }
    *out_library = kn_library_ns(build, group, layer) + kn_gates_ns(build, group, kn_kernels[KN_LIBRARY].gate_ns);
}

bool kn_spares_library(rg_build *build)
{
    const rg_op *op = build->op;
    double gain = 0, cost = 0;
    bool needed = false;

    if (build->state->alone)
        return true;
    if (build->state->bf16 || build->state->kernel != KN_COUNT || build->attempt != NULL)
        return false;
    for (uint32_t group_index = 0; group_index < build->group_count; group_index++) {
        const rg_group *group = &build->groups[group_index];
        kn_case layer = { .input.buffer = INLAY_NONE };
        double own, library;

        build->op = &build->compiled->ops[group->op];
        if (build->op->row->family != &rg_conv || may_wait(build, group) || rg_count(build, build->op->out[0]) == 0)
            continue;
        kn_measure(build, build->op, &layer.window);
        rg_md_channels_last(&layer.input.md, build->ranks[build->op->in[0]], build->dims[build->op->in[0]]);
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
