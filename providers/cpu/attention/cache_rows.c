/* QuantizeRows and DequantizeRows of ai.inlay: keys and values in 8 or 4 bits (common/cache_rows.h). */
#include "cpu/attention/attention.h"
#include "cpu/attention/cache_loops.h"
#include "cpu/region/build.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "inlay/host.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit it. */
OPTIONAL_WITH(cpu_cache_loops, "cpu_dequantize_rows cpu_quantize_rows");

enum { WORK_GRAIN = 1 << 14 /* minimum elements per thread */ };

const cache_loops *cpu_cache_loops(void)
{
    return KERNEL_BEST(cache_loops);
}

static bool parse(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const bool back = op->row->family->kind == CPU_FAMILY_DEQUANTIZE_ROWS;
    const inlay_value_info *floats = back ? kit_output(node, 0) : kit_input(node, 0);

    if (!cpu_known_rank(kit_input(node, 0), 4, 4, "the rows", why))
        return false;
    op->code_bits = (int32_t)kit_attr_int(node->info, "bits", 8);
    return floats->dtype == INLAY_FLOAT || kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "the elements are not float");
}

inlay_status cpu_read_scales(cpu_build *build, uint32_t input, int64_t heads, int64_t size, cpu_scales *scales,
                             cpu_place *out)
{
    const cpu_op *op = build->op;
    const uint32_t value = input < op->in_count ? op->in[input] : INLAY_NONE;
    int64_t count;

    *scales = (cpu_scales){ .there = value != INLAY_NONE };
    if (value == INLAY_NONE)
        return INLAY_OK;
    count = cpu_count(build, value);
    if (count != 1 && count != heads * size)
        return inlay_fail(
            build->diag, INLAY_SHAPE_MISMATCH,
            "node '%s': there are %lld scales; expected 1, or one for each of %lld heads of %lld elements", op->name,
            (long long)count, (long long)heads, (long long)size);
    if (count != 1) {
        scales->head = size;
        scales->step = 1;
    }
    return cpu_read_plain(build, value, out);
}

typedef struct rows_step {
    cpu_native native;
    const cache_loops *loops;
    cache_format format;
    cpu_scales scales;
    int64_t heads, positions, rows;
    int64_t from[3], to[3]; /* elements or bytes from one batch, head and position to the next */
    int64_t worker_floats;
    bool back;
} rows_step;

typedef struct rows_call {
    const rows_step *step;
    void *const *args; /* from, to, scratch, and scales, if they are given */
} rows_call;

static inlay_status run_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const rows_call *call = user;
    const rows_step *step = call->step;
    const int64_t size = step->format.size;
    float *room = (float *)call->args[2] + worker * step->worker_floats;

    for (int64_t i = begin; i < end; i++) {
        const int64_t t = i % step->positions, h = i / step->positions % step->heads,
                      b = i / step->positions / step->heads;
        const int64_t from = b * step->from[0] + h * step->from[1] + t * step->from[2],
                      to = b * step->to[0] + h * step->to[1] + t * step->to[2];
        const float *scales = step->scales.there ? (const float *)call->args[3] + h * step->scales.head : NULL;

        if (step->back) {
            step->loops->decode(&step->format, (const uint8_t *)call->args[0] + from, scales, step->scales.step,
                                (float *)call->args[1] + to);
        } else if (scales == NULL) {
            memcpy(room, (const float *)call->args[0] + from, (size_t)size * sizeof *room);
            step->loops->encode_own(&step->format, room, (uint8_t *)call->args[1] + to);
        } else {
            for (int64_t e = 0; e < size; e++)
                room[e] = cache_inverse(scales[e * step->scales.step]);
            step->loops->encode(&step->format, (const float *)call->args[0] + from, room,
                                (uint8_t *)call->args[1] + to);
        }
    }
    return INLAY_OK;
}

static inlay_status run_rows(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const rows_step *step = (const rows_step *)(const void *)native;
    rows_call call = { step, args };
    const int64_t grain = WORK_GRAIN / (step->format.size + 1) + 1;

    if (threads <= 1 || step->rows <= grain)
        return run_range(&call, 0, step->rows, 0);
    return state->host->parallel_for(state->host->ctx, run, step->rows, grain, run_range, &call);
}

static inlay_status lower(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    const bool back = op->row->family->kind == CPU_FAMILY_DEQUANTIZE_ROWS;
    const int64_t *floats = build->dims[back ? group->out : op->in[0]];
    rows_step step = { .native.run = run_rows,
                       .loops = cpu_cache_loops(),
                       .format = { .size = floats[3], .bits = op->code_bits },
                       .heads = floats[1],
                       .positions = floats[2],
                       .rows = floats[0] * floats[1] * floats[2],
                       .worker_floats = (floats[3] + 15) / 16 * 16,
                       .back = back };
    cpu_place input, output, scratch, scales;
    const cpu_place *const places[] = { &input, &output, &scratch, &scales };
    inlay_status status;
    tensor_layout layout;

    INLAY_TRY(cpu_read_strided(build, op->in[0], &input));
    if (input.layout.strides[3] != 1)
        INLAY_TRY(cpu_read_plain(build, op->in[0], &input));
    INLAY_TRY(cpu_read_scales(build, 1, step.heads, floats[3], &step.scales, &scales));
    step.format.own = !step.scales.there;
    INLAY_CHECK(build->dims[back ? op->in[0] : group->out][3] == cache_row_bytes(&step.format));
    layout_plain(&layout, 4, build->dims[group->out]);
    layout.type = cpu_type(build, group->out);
    INLAY_TRY(cpu_result_place(build, group->out, &layout, &output));
    INLAY_TRY(cpu_new_floats(build, step.worker_floats * (build->instance->threads > 0 ? build->instance->threads : 1),
                             &scratch));
    for (uint32_t d = 0; d < 3; d++) {
        step.from[d] = input.layout.strides[d];
        step.to[d] = output.layout.strides[d];
    }
    INLAY_TRY(cpu_emit_step(build, &step.native, sizeof step, places, step.scales.there ? 4 : 3));
    status = cpu_set_place(build, group->out, &output);
done:
    return status;
}

const cpu_family cpu_dequantize_rows = {
    .kind = CPU_FAMILY_DEQUANTIZE_ROWS, .name = "dequantize_rows", .parse = parse, .lower = lower
};
const cpu_family cpu_quantize_rows = { .name = "quantize_rows", .parse = parse, .lower = lower };
