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
static bool may_wait(const rg_build *b, const rg_group *group)
{
    if (b->c->values[group->out].output != INLAY_NONE || b->c->values[group->out].uses != 1)
        return false;
    for (uint32_t o = 0; o < b->c->op_count; o++) {
        const rg_op *op = &b->c->ops[o];

        if (op->in_count > 0 && op->in[0] == group->out)
            return op->row->family == &rg_conv && op->window.group > 1 && op->window.group == b->dims[op->in[0]][1];
    }
    return false;
}

/* The best of our own, negative: there is none; and that of oneDNN, for an image with channels last. b->op is the
 * convolution. */
static void expect(rg_build *b, const rg_group *group, const kn_case *c, double *out_own, double *out_library)
{
    static const uint8_t own[] = { KN_TILES, KN_WINOGRAD_4, KN_WINOGRAD_2, KN_DEPTHWISE, KN_GEMM, KN_PAIRS };
    const char *why = NULL;

    *out_own = -1;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        const kn_kernel *k = &kn_kernels[own[i]];
        double ns;

        if (!k->runs(b, group, c, &why))
            continue;
        ns = k->ns(b, group, c) + kn_gates_ns(b, group, k->gate_ns);
        *out_own = *out_own < 0 || ns < *out_own ? ns : *out_own;
    }
    *out_library = kn_library_ns(b, group, c) + kn_gates_ns(b, group, kn_kernels[KN_LIBRARY].gate_ns);
}

bool kn_spares_library(rg_build *b)
{
    const rg_op *op = b->op;
    double gain = 0, cost = 0;
    bool needed = false;

    if (b->state->alone)
        return true;
    if (b->state->bf16 || b->state->kernel != KN_COUNT || b->attempt != NULL)
        return false;
    for (uint32_t g = 0; g < b->group_count; g++) {
        const rg_group *group = &b->groups[g];
        kn_case c = { .x.buffer = INLAY_NONE };
        double own, library;

        b->op = &b->c->ops[group->op];
        if (b->op->row->family != &rg_conv || may_wait(b, group) || rg_count(b, b->op->out[0]) == 0)
            continue;
        kn_measure(b, b->op, &c.w);
        rg_md_channels_last(&c.x.md, b->ranks[b->op->in[0]], b->dims[b->op->in[0]]);
        expect(b, group, &c, &own, &library);
        if (own < 0) {
            needed = true;
        } else if (library < own) {
            gain += own - library;
            cost += c.w.in < FEW_CHANNELS && c.w.kernel[0] * c.w.kernel[1] > 1 ? WINDOW_NS : KERNEL_NS;
        }
    }
    b->op = op;
    return gain * RUNS < cost + (needed ? 0 : OPEN_NS);
}
