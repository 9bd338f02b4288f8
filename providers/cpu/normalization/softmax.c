/* Softmax and LogSoftmax (ONNX Softmax-1..13): loops over rows, or over tiles of columns (simd/axis.h). A row with NaN
 * or +infinity becomes NaN, as ONNX specifies, because the maximum is subtracted. */
#include "cpu/elementwise/elementwise.h"
#include "cpu/normalization/row_loops.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "inlay/host.h"
#include "cpu/region/build.h"
#include "cpu/weights/read.h"
#include "simd/row_set.h"

static bool parse_softmax(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, 0);
    const bool old = kit_since_version(node) < 13;

    if (!cpu_known_rank(input, 1, CPU_MAX_RANK, "input 0", why))
        return false;
    /* Versions 1 to 11 flatten the input to a matrix at the axis. */
    if (!cpu_axis(kit_attr_int(node->info, "axis", old ? 1 : -1), input->rank, &op->axis))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "the axis is outside the tensor");
    op->softmax.flattened = old;
    op->softmax.is_log = strcmp(op->row->op_type, "LogSoftmax") == 0;
    return true;
}

/* TOGETHER_FROM: elements of rows from which on the loop over rows is faster than tiles.
 * Columns of a tile, which is read three times, so that it should stay in the cache: all up to WHOLE, else BLOCK. */
enum { TOGETHER_FROM = 9, WHOLE = 128, BLOCK = 64 };

struct softmax {
    cpu_native native;
    axis_cut cut;
    bool log;
};

typedef struct softmax_call {
    const struct softmax *softmax;
    const float *input;
    float *output; /* may be input */
} softmax_call;

/* An axis_fn; ctx: a bool, whether the result is the logarithm. */
static void softmax_tile(const void *ctx, const void *input, void *output, const axis_tile *tile)
{
    const row_loops *const loops = KERNEL_BEST(row_loops);

    (*(const bool *)ctx ? loops->log_softmax : loops->softmax)(input, output, tile);
}

static inlay_status softmax_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const softmax_call *call = user;
    const struct softmax *softmax = call->softmax;
    const axis_cut *cut = &softmax->cut;

    (void)worker;
    if (axis_is_rows(cut))
        (softmax->log ? KERNEL_BEST(rows)->log_softmax : KERNEL_BEST(rows)->softmax)(
            call->input + begin * cut->n, call->output + begin * cut->n, end - begin, cut->n);
    else
        axis_run(cut, begin, end, call->input, call->output, softmax_tile, &softmax->log);
    return INLAY_OK;
}

static inlay_status run_softmax(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                                uint32_t threads)
{
    const struct softmax *softmax = (const struct softmax *)(const void *)native;
    softmax_call call = { softmax, args[0], args[1] };
    const int64_t grain = 8192 / axis_unit_elements(&softmax->cut) + 1;

    if (threads <= 1 || softmax->cut.units <= grain)
        return softmax_range(&call, 0, softmax->cut.units, 0);
    return state->host->parallel_for(state->host->ctx, run, softmax->cut.units, grain, softmax_range, &call);
}

static inlay_status lower_softmax(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    const uint32_t rank = build->ranks[op->in[0]];
    bool overwrite = cpu_is_last_use(build, op->in[0]);
    int64_t n = build->dims[op->in[0]][op->axis], inner = 1;
    struct softmax softmax;
    cpu_place input, output;
    inlay_status status;

    /* flattened: several axes are treated as one */
    INLAY_TRY(op->softmax.flattened ? cpu_read_plain(build, op->in[0], &input)
                                    : cpu_read_summed(build, op->in[0], &input));
    overwrite = overwrite && build->places[op->in[0]].buffer == input.buffer;
    if (overwrite && build->compiled->values[group->out].output == INLAY_NONE)
        output = input;
    else
        INLAY_TRY(cpu_result_place(build, group->out, &input.layout, &output));
    for (uint32_t d = (uint32_t)op->axis + 1; op->softmax.flattened && d < rank; d++)
        n *= build->dims[op->in[0]][d];
    if (!op->softmax.flattened && n > 1)
        inner = input.layout.strides[op->axis];
    INLAY_CHECK(n > 0 && inner > 0);
    softmax = (struct softmax){ .native.run = run_softmax, .log = op->softmax.is_log };
    softmax.cut = axis_cut_of(cpu_count(build, op->in[0]) / n / inner, n, inner, sizeof(float), sizeof(float), false,
                              inner <= WHOLE ? WHOLE : BLOCK, TOGETHER_FROM);
    INLAY_TRY(cpu_emit_step(build, &softmax.native, sizeof softmax, (const cpu_place *const[]){ &input, &output }, 2));
    status = cpu_finish(build, group, 0, &output, false);
done:
    return status;
}

const cpu_family cpu_softmax = {
    .kind = CPU_FAMILY_SOFTMAX, .name = "softmax", .parse = parse_softmax, .lower = lower_softmax
};
