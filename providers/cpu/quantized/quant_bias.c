/* The bias of a dynamically quantized convolution, as ONNX Runtime's quantization writes it, in the unit of the sums:
 *
 *     Div(bias, scale) -> Floor -> Cast to int32 -> Reshape to [1, C, 1, ..];  Add to the sums of ConvInteger
 *
 * The scale and the bias are computed in the run. The Add is part of the convolution where a built-in kernel runs it
 * (cpu_fuse_integer_reader), otherwise a separate step. */
#include "cpu/quantized/bytes.h"
#include "inlay/graph_view.h"
#include "inlay/host.h"
#include "cpu/quantized/quant.h"
#include "cpu/weights/read.h"
#include "simd/convert.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(cpu_takes_bias_cast, CPU_BYTE_FAMILIES);
OPTIONAL_WITH(cpu_takes_bias_view, CPU_BYTE_FAMILIES);
OPTIONAL_WITH(cpu_takes_bias, CPU_BYTE_FAMILIES);

bool cpu_takes_bias_cast(const kit_node *node)
{
    const inlay_value_info *input = kit_input(node, 0), *output = kit_output(node, 0);

    return input != NULL && output != NULL && input->dtype == INLAY_FLOAT && output->dtype == INLAY_INT32 &&
           input->rank == 1 && cpu_follows_dynamic_scale(node, input);
}

bool cpu_takes_bias_view(const kit_node *node)
{
    const inlay_value_info *input = kit_input(node, 0);

    return input != NULL && input->dtype == INLAY_INT32 && input->rank == 1 && cpu_is_made_by(node, input, "Cast");
}

/* The index of the sums among the inputs of an Add: the output of ConvInteger. */
static uint32_t sums_of(const kit_node *node)
{
    return cpu_is_made_by(node, kit_input(node, 0), "ConvInteger") ? 0 : 1;
}

bool cpu_takes_bias(const kit_node *node)
{
    const inlay_value_info *sums = kit_input(node, sums_of(node)), *bias = kit_input(node, 1 - sums_of(node));
    uint32_t axis;

    if (!cpu_is_made_by(node, sums, "ConvInteger") || bias == NULL || bias->dtype != INLAY_INT32 ||
        sums->dtype != INLAY_INT32 || sums->rank == INLAY_RANK_UNKNOWN || sums->rank < 3 || sums->rank > CPU_MAX_RANK ||
        (bias->rank != sums->rank && bias->rank + 1 != sums->rank) || sums->dims[1].kind != INLAY_DIM_FIXED)
        return false;
    axis = bias->rank == sums->rank ? 1 : 0;
    return bias->dims[axis].kind == INLAY_DIM_FIXED && bias->dims[axis].value == sums->dims[1].value &&
           cpu_known_count(bias) == sums->dims[1].value;
}

static bool parse_cast(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    (void)op;
    return cpu_known_rank(kit_input(node, 0), 1, 1, "input 0", why);
}

struct bias_cast {
    cpu_native native;
    int64_t count;
};

static inlay_status run_cast(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const int64_t count = ((const struct bias_cast *)(const void *)native)->count;
    const float *from = args[0];
    int32_t *to = args[1];

    (void)state;
    (void)run;
    (void)threads;
    for (int64_t i = 0; i < count; i++)
        to[i] = f32_to_i32(from[i]);
    return INLAY_OK;
}

static inlay_status lower_cast(cpu_build *build, const cpu_group *group)
{
    const struct bias_cast step = { .native.run = run_cast, .count = cpu_count(build, group->out) };
    cpu_place input, output;
    inlay_status status;
    tensor_layout layout;

    INLAY_TRY(cpu_read_plain(build, build->op->in[0], &input));
    layout = q_typed(&input.layout, ELEMENT_INT32);
    INLAY_TRY(cpu_result_place(build, group->out, &layout, &output));
    INLAY_TRY(cpu_emit_step(build, &step.native, sizeof step, (const cpu_place *const[]){ &input, &output }, 2));
    status = cpu_set_place(build, group->out, &output);
done:
    return status;
}

const cpu_family cpu_bias_cast = { .name = "conversion of a bias", .parse = parse_cast, .lower = lower_cast };

static bool parse_bias(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    (void)why;
    op->size = sums_of(node);
    return true;
}

uint32_t cpu_sums_of(const cpu_op *add)
{
    return add->in[add->size];
}

uint32_t cpu_bias_of(const cpu_op *add)
{
    return add->in[1 - add->size];
}

struct bias_add {
    cpu_native native;
    int64_t images, channels, pixels;
};

typedef struct bias_call {
    const struct bias_add *add;
    void *const *args;
} bias_call;

static inlay_status add_planes(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const bias_call *call = user;
    const struct bias_add *add = call->add;
    const int32_t *sums = call->args[0], *bias = call->args[1];
    int32_t *output = call->args[2];

    (void)worker;
    for (int64_t plane = begin; plane < end; plane++) {
        const uint32_t more = (uint32_t)bias[plane % add->channels];

        for (int64_t i = plane * add->pixels; i < (plane + 1) * add->pixels; i++)
            output[i] = (int32_t)((uint32_t)sums[i] + more);
    }
    return INLAY_OK;
}

static inlay_status run_add(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                            uint32_t threads)
{
    enum { GRAIN = 16384 };
    const struct bias_add *add = (const struct bias_add *)(const void *)native;
    bias_call call = { add, args };
    const int64_t planes = add->images * add->channels, grain = GRAIN / (add->pixels + 1) + 1;

    if (threads <= 1 || planes <= grain)
        return add_planes(&call, 0, planes, 0);
    return state->host->parallel_for(state->host->ctx, run, planes, grain, add_planes, &call);
}

static inlay_status lower_bias(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    const int64_t *dims = build->dims[group->out];
    struct bias_add step = { .native.run = run_add, .images = dims[0], .channels = dims[1], .pixels = 1 };
    cpu_place sums, bias, output;
    inlay_status status;

    for (uint32_t d = 2; d < build->ranks[group->out]; d++)
        step.pixels *= dims[d];
    INLAY_TRY(cpu_read_plain(build, cpu_sums_of(op), &sums));
    INLAY_TRY(cpu_read_plain(build, cpu_bias_of(op), &bias));
    INLAY_TRY(cpu_result_place(build, group->out, &sums.layout, &output));
    INLAY_TRY(cpu_emit_step(build, &step.native, sizeof step, (const cpu_place *const[]){ &sums, &bias, &output }, 3));
    status = cpu_set_place(build, group->out, &output);
done:
    return status;
}

const cpu_family cpu_int_bias = {
    .kind = CPU_FAMILY_INT_BIAS, .name = "integer bias", .parse = parse_bias, .lower = lower_bias
};
