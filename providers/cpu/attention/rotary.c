/* RotaryEmbedding-23: rotates pairs of elements of each head by the angles of their position. Input and output are
 * accessed in place with any strides of batches, heads and positions. */
#include "cpu/attention/score_loops.h"
#include "cpu/region/build.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "inlay/host.h"

static bool parse(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, 0), *positions = kit_input(node, 3);

    op->size = kit_attr_int(node->info, "rotary_embedding_dim", 0);
    op->rotary.heads = kit_attr_int(node->info, "num_heads", 0);
    op->rotary.interleaved = kit_attr_int(node->info, "interleaved", 0) != 0;
    if (!cpu_known_rank(input, 3, 4, "input 0", why))
        return false;
    if (input->rank == 3 && op->rotary.heads <= 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "state num_heads", "the number of heads is not known");
    if (positions != NULL && (positions->dtype != INLAY_INT64 || positions->rank != 2))
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "position_ids is not int64 of rank 2");
    return cpu_known_rank(kit_input(node, 1), positions != NULL ? 2 : 3, positions != NULL ? 2 : 3, "input 1", why) &&
           cpu_known_rank(kit_input(node, 2), positions != NULL ? 2 : 3, positions != NULL ? 2 : 3, "input 2", why);
}

typedef struct rotary_step {
    cpu_native native;
    int64_t batch, heads, length, size, half;
    int64_t from[3], to[3]; /* elements from one batch, head and position to the next */
    int64_t table;          /* rows of the cosine and sine tables */
    bool has_positions, interleaved;
} rotary_step;

typedef struct rotary_call {
    const rotary_step *step;
    void *const *args; /* x, cosines, sines, y, and positions if has_positions */
} rotary_call;

static void rotate_pairs(const float *input, const float *c, const float *s, float *output, int64_t half)
{
    for (int64_t i = 0; i < half; i++) {
        const float real = input[2 * i] * c[i] - input[2 * i + 1] * s[i];

        output[2 * i + 1] = input[2 * i] * s[i] + input[2 * i + 1] * c[i];
        output[2 * i] = real;
    }
}

/* Rotates positions [begin, end), counted over all batches. */
static inlay_status run_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const rotary_call *call = user;
    const rotary_step *step = call->step;
    const int64_t *positions = step->has_positions ? call->args[4] : NULL;

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t b = i / step->length, t = i % step->length, row = positions != NULL ? positions[i] : i;
        const float *cosines = (const float *)call->args[1] + row * step->half;
        const float *sines = (const float *)call->args[2] + row * step->half;

        if (row < 0 || row >= step->table)
            return INLAY_INVALID_ARGUMENT;
        for (int64_t h = 0; h < step->heads; h++) {
            const float *input =
                (const float *)call->args[0] + b * step->from[0] + h * step->from[1] + t * step->from[2];
            float *output = (float *)call->args[3] + b * step->to[0] + h * step->to[1] + t * step->to[2];

            if (step->interleaved)
                rotate_pairs(input, cosines, sines, output, step->half);
            else
                KERNEL_BEST(score_loops)->turn_halves(input, cosines, sines, output, step->half);
            if (2 * step->half < step->size)
                memcpy(output + 2 * step->half, input + 2 * step->half,
                       (size_t)(step->size - 2 * step->half) * sizeof *output);
        }
    }
    return INLAY_OK;
}

static inlay_status run_rotary(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const rotary_step *step = (const rotary_step *)(const void *)native;
    rotary_call call = { step, args };
    const int64_t count = step->batch * step->length, grain = 16384 / (step->heads * step->size + 1) + 1;

    if (threads <= 1 || count <= grain)
        return run_range(&call, 0, count, 0);
    return state->host->parallel_for(state->host->ctx, run, count, grain, run_range, &call);
}

/* Sets the sizes. An input of rank 3 has all heads in one row. */
static inlay_status plan(const cpu_build *build, rotary_step *step)
{
    const cpu_op *op = build->op;
    const int64_t *input = build->dims[op->in[0]], *table = build->dims[op->in[1]], *other = build->dims[op->in[2]];
    const bool heads_apart = build->ranks[op->in[0]] == 4;
    int64_t rotary;

    INLAY_CHECK(op->in_count >= 3);
    step->has_positions = op->in_count > 3 && op->in[3] != INLAY_NONE;
    step->interleaved = op->rotary.interleaved;
    step->batch = input[0];
    step->heads = heads_apart ? input[1] : op->rotary.heads;
    step->length = heads_apart ? input[2] : input[1];
    step->size = heads_apart ? input[3] : input[2] / op->rotary.heads;
    rotary = op->size > 0 ? op->size : step->size;
    step->half = rotary / 2;
    step->table = step->has_positions ? table[0] : step->batch * step->length;
    if ((!heads_apart && input[2] % op->rotary.heads != 0) || rotary > step->size || rotary % 2 != 0 ||
        cpu_count(build, op->in[1]) != step->table * step->half ||
        memcmp(table, other, (step->has_positions ? 2 : 3) * sizeof *table) != 0 ||
        (step->has_positions && cpu_count(build, op->in[3]) != step->batch * step->length))
        return inlay_fail(build->diag, INLAY_SHAPE_MISMATCH,
                          "node '%s': the caches and positions do not fit heads of %lld elements, %lld of them rotated",
                          op->name, (long long)step->size, (long long)rotary);
    return INLAY_OK;
}

static void strides_of(const rotary_step *step, const tensor_layout *layout, int64_t *out)
{
    const bool heads_apart = layout->rank == 4;

    out[0] = layout->strides[0];
    out[1] = heads_apart ? layout->strides[1] : step->size;
    out[2] = heads_apart ? layout->strides[2] : layout->strides[1];
}

static inlay_status lower(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    rotary_step step = { .native = { .run = run_rotary, .wrong = "a position is outside the caches" } };
    cpu_place input, cosines, sines, output, positions;
    const cpu_place *const all[] = { &input, &cosines, &sines, &output, &positions };
    const uint32_t rank = build->ranks[op->in[0]];
    inlay_status status;
    tensor_layout layout;

    INLAY_TRY(plan(build, &step));
    INLAY_TRY(cpu_read_strided(build, op->in[0], &input));
    if (input.layout.strides[rank - 1] != 1)
        INLAY_TRY(cpu_read_plain(build, op->in[0], &input));
    INLAY_TRY(cpu_read_plain(build, op->in[1], &cosines));
    INLAY_TRY(cpu_read_plain(build, op->in[2], &sines));
    if (step.has_positions)
        INLAY_TRY(cpu_read_plain(build, op->in[3], &positions));
    layout_plain(&layout, rank, build->dims[group->out]);
    INLAY_TRY(cpu_result_place(build, group->out, &layout, &output));
    strides_of(&step, &input.layout, step.from);
    strides_of(&step, &output.layout, step.to);
    if (cpu_count(build, group->out) > 0)
        INLAY_TRY(cpu_emit_step(build, &step.native, sizeof step, all, step.has_positions ? 5 : 4));
    status = cpu_set_place(build, group->out, &output);
done:
    return status;
}

const cpu_family cpu_rotary = { .kind = CPU_FAMILY_ROTARY, .name = "rotary", .parse = parse, .lower = lower };
