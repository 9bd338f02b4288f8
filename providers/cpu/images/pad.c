/* Pad (ONNX Pad-2..25) of floats in the layout of the input: channels last stays channels last. The source index of
 * each position is computed per axis; contiguous elements are copied together. */
#include "cpu/elementwise/elementwise.h"
#include "cpu/layout/moves.h"
#include "cpu/region/build.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "inlay/host.h"

enum { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP };

static bool parse_mode(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    static const char *const names[] = { "constant", "reflect", "edge", "wrap" };
    const char *mode = kit_attr_string(node->info, "mode", "constant");

    for (uint32_t m = 0; m < KIT_COUNT(names); m++) {
        if (strcmp(names[m], mode) == 0) {
            op->pad.mode = m;
            return true;
        }
    }
    return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "the mode '%.32s' is not supported", mode);
}

/* Reads the pads of each axis: attributes in version 2, inputs since version 11, optional axes since version 18. */
static bool parse_pads(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const uint32_t rank = kit_input(node, 0)->rank;
    int64_t pads[2 * CPU_MAX_RANK], axes[CPU_MAX_RANK];
    uint32_t count = 0, axis_count = 0, named = 0; /* named: bit mask of axes */
    bool has_axes = false;

    if (kit_since_version(node) < 11) {
        const int64_t *list = kit_attr_ints(node->info, "pads", &count);

        if (list == NULL || count != 2 * rank)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "pads does not fit the input");
        memcpy(pads, list, count * sizeof *pads);
        op->alpha = (float)kit_attr_float(node->info, "value", 0);
    } else if (!cpu_known_ints(kit_input(node, 1), pads, KIT_COUNT(pads), &count)) {
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "make pads a constant", "pads are not constant");
    } else if (kit_input(node, 2) != NULL && !cpu_known_scalar(kit_input(node, 2), &op->alpha)) {
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "make constant_value a constant",
                          "constant_value is not constant");
    }
    if (kit_since_version(node) >= 18 && kit_input(node, 3) != NULL) {
        has_axes = true;
        if (!cpu_known_ints(kit_input(node, 3), axes, CPU_MAX_RANK, &axis_count))
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "make axes a constant", "axes are not constant");
    }
    if (count != 2 * (has_axes ? axis_count : rank))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "pads does not fit the axes");
    for (uint32_t i = 0; i < count / 2; i++) {
        int64_t axis = i;

        if (has_axes && !cpu_axis(axes[i], rank, &axis))
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "an axis is outside the tensor");
        if ((named >> axis & 1) != 0)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "an axis is named twice");
        named |= 1u << axis;
        if (pads[i] < 0 || pads[count / 2 + i] < 0)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "negative pads are not supported");
        op->pad.amounts[axis] = pads[i];
        op->pad.amounts[CPU_MAX_PAD_RANK + axis] = pads[count / 2 + i];
    }
    return true;
}

static bool parse_pad(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    return cpu_known_rank(kit_input(node, 0), 1, CPU_MAX_PAD_RANK, "input 0", why) && parse_mode(node, op, why) &&
           parse_pads(node, op, why);
}

enum { BRIEF = 16 }; /* a brief margin has at most BRIEF elements, and is written as BRIEF elements at once */

/* The axes of the target, outermost first. Axes inside the innermost padded axis are merged into `block` contiguous
 * elements at each position of it. */
typedef struct pad_step {
    cpu_native native;
    const move_set *set; /* NULL: not available on this CPU */
    uint32_t rank;
    int64_t dims[CPU_MAX_PAD_RANK];                            /* of the target */
    int64_t begins[CPU_MAX_PAD_RANK], sizes[CPU_MAX_PAD_RANK]; /* [begin, begin + size) is copied from the source */
    int64_t from[CPU_MAX_PAD_RANK];                            /* strides of the source */
    int64_t block, rows;                                       /* rows: product of dims without the innermost */
    uint32_t mode;
    float value;
} pad_step;

typedef struct pad_call {
    const pad_step *step;
    const float *input;
    float *output;
} pad_call;

/* The source index of position i of an axis; -1: the constant. */
static int64_t source_of(uint32_t mode, int64_t i, int64_t begin, int64_t size)
{
    int64_t at = i - begin, period = mode == PAD_REFLECT ? 2 * (size - 1) : size;

    INLAY_CHECK(mode <= PAD_WRAP && size >= 0);
    if (at >= 0 && at < size)
        return at;
    switch (mode) {
    case PAD_EDGE:
        return at < 0 ? 0 : size - 1;
    case PAD_REFLECT:
    case PAD_WRAP:
        if (period < 1)
            return 0;
        at += at < 0 ? period : at >= period ? -period : 0; /* avoids the division for short pads */
        if (at < 0 || at >= period)
            at = (at % period + period) % period;
        return at < size ? at : period - at;
    default:
        return -1;
    }
}

/* Copies by vector instructions, without the start-up time of memcpy(). */
static void copy_elements(const pad_step *step, const float *input, float *output, int64_t count)
{
    if (step->set != NULL)
        step->set->rows(input, 0, output, 0, 1, count);
    else
        memcpy(output, input, (size_t)count * sizeof *output);
}

static void fill(float *output, float value, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        output[i] = value;
}

/* Source indices of the padding before and after the data of the innermost axis; they are the same in all rows. */
enum { ENDS = 256 };
typedef struct pad_ends_map {
    int64_t from[2][ENDS];
    bool whole; /* all positions fit into the map */
} pad_ends_map;

static void map_ends(const pad_step *step, pad_ends_map *map)
{
    const uint32_t last = step->rank - 1;
    const int64_t past = step->begins[last] + step->sizes[last], after = step->dims[last] - past;

    map->whole = step->mode != PAD_CONSTANT && step->begins[last] <= ENDS && after <= ENDS;
    for (int64_t i = 0; map->whole && i < step->begins[last]; i++)
        map->from[0][i] = source_of(step->mode, i, step->begins[last], step->sizes[last]);
    for (int64_t i = 0; map->whole && i < after; i++)
        map->from[1][i] = source_of(step->mode, past + i, step->begins[last], step->sizes[last]);
}

/* Fills positions [begin, end) of the innermost axis, all of them padding. */
static void pad_ends(const pad_step *step, const pad_ends_map *map, const float *input, float *output, int64_t begin,
                     int64_t end)
{
    const uint32_t last = step->rank - 1;
    const int64_t *from = map->from[begin > 0];

    if (step->mode == PAD_CONSTANT) {
        fill(output + begin * step->block, step->value, (end - begin) * step->block);
        return;
    }
    if (map->whole && step->block == 1) {
        for (int64_t i = begin; i < end; i++)
            output[i] = input[from[i - begin]];
        return;
    }
    for (int64_t i = begin; i < end; i++)
        copy_elements(step, input + source_of(step->mode, i, step->begins[last], step->sizes[last]) * step->block,
                      output + i * step->block, step->block);
}

static inlay_status pad_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const pad_call *call = user;
    const pad_step *step = call->step;
    const uint32_t last = step->rank - 1;
    const int64_t row = step->dims[last] * step->block, size = step->sizes[last], first = step->begins[last];
    int64_t index[CPU_MAX_PAD_RANK], rest = begin;
    const int64_t past = first + size, after = step->dims[last] - past;
    /* The next writes overwrite what is written too much, except before `stop`. */
    const bool brief = step->mode == PAD_CONSTANT && first * step->block <= BRIEF && after * step->block <= BRIEF;
    const float *stop = call->output + end * row;
    float margin[BRIEF];
    pad_ends_map map;

    (void)worker;
    fill(margin, step->value, BRIEF);
    INLAY_CHECK(step->rank > 0 && step->rank <= CPU_MAX_PAD_RANK && end <= step->rows);
    map_ends(step, &map);
    for (uint32_t d = last; d-- > 0; rest /= step->dims[d])
        index[d] = rest % step->dims[d];
    for (int64_t r = begin; r < end; r++) {
        float *output = call->output + r * row;
        int64_t offset = 0; /* of the row in the input; without meaning if `constant` */
        bool constant = false;

        for (uint32_t d = 0; d < last; d++) {
            int64_t at = source_of(step->mode, index[d], step->begins[d], step->sizes[d]);

            constant = constant || at < 0;
            offset += at * step->from[d];
        }
        for (uint32_t d = last; d-- > 0 && ++index[d] == step->dims[d];)
            index[d] = 0;
        if (constant) {
            fill(output, step->value, row);
            continue;
        }
        if (brief && stop - output >= BRIEF)
            memcpy(output, margin, sizeof margin);
        else
            pad_ends(step, &map, call->input + offset, output, 0, first);
        copy_elements(step, call->input + offset, output + first * step->block, size * step->block);
        if (brief && stop - output >= past * step->block + BRIEF)
            memcpy(output + past * step->block, margin, sizeof margin);
        else
            pad_ends(step, &map, call->input + offset, output, past, step->dims[last]);
    }
    return INLAY_OK;
}

static inlay_status run_pad(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                            uint32_t threads)
{
    const pad_step *step = (const pad_step *)(const void *)native;
    pad_call call = { step, args[0], args[1] };
    int64_t grain = 16384 / (step->dims[step->rank - 1] * step->block + 1) + 1;

    if (threads <= 1 || step->rows <= 2 * grain)
        return pad_range(&call, 0, step->rows, 0);
    return state->host->parallel_for(state->host->ctx, run, step->rows, grain, pad_range, &call);
}

/* Sorts the axes of layout by stride, outermost first. */
static void order_axes(const tensor_layout *layout, uint32_t *order)
{
    const int64_t *strides = layout->strides;

    for (uint32_t d = 0; d < (uint32_t)layout->rank; d++) {
        uint32_t at = d;

        for (; at > 0 && strides[order[at - 1]] < strides[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
}

/* Sets up the step that pads input by `before` and `after` along each axis; dims are those of the result. */
static void plan_step(const tensor_layout *input, const uint32_t *order, const int64_t *dims, const int64_t *before,
                      const int64_t *after, pad_step *step)
{
    step->block = step->rows = 1;
    for (uint32_t i = (uint32_t)input->rank; i-- > 0;) { /* from the innermost */
        uint32_t d = order[i];

        if (step->rank == 0 && before[d] == 0 && after[d] == 0) {
            step->block *= dims[d];
            continue;
        }
        step->dims[step->rank] = dims[d];
        step->begins[step->rank] = before[d];
        step->sizes[step->rank] = input->dims[d];
        step->from[step->rank++] = input->strides[d];
    }
    if (step->rank == 0) { /* no axis is padded: one row */
        step->dims[0] = step->sizes[0] = step->from[0] = step->rank = 1;
    }
    for (uint32_t a = 0, z = step->rank - 1; a < z; a++, z--) { /* outermost first */
        const pad_step old = *step;

        step->dims[a] = old.dims[z], step->begins[a] = old.begins[z], step->sizes[a] = old.sizes[z],
        step->from[a] = old.from[z];
        step->dims[z] = old.dims[a], step->begins[z] = old.begins[a], step->sizes[z] = old.sizes[a],
        step->from[z] = old.from[a];
    }
    for (uint32_t a = 0; a + 1 < step->rank; a++)
        step->rows *= step->dims[a];
}

inlay_status cpu_emit_border(cpu_build *build, const cpu_place *input, const int64_t *before, const int64_t *after,
                             cpu_place *out)
{
    uint32_t rank = (uint32_t)input->layout.rank, order[CPU_MAX_RANK];
    int64_t dims[CPU_MAX_RANK];
    pad_step step = { .native.run = run_pad, .set = build->state->moves };
    inlay_status status;
    tensor_layout layout;

    INLAY_CHECK(rank >= 3 && rank <= CPU_MAX_PAD_RANK);
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = input->layout.dims[d] + before[d] + after[d];
    layout_channels_last(&layout, rank, dims);
    order_axes(&input->layout, order);
    plan_step(&input->layout, order, dims, before, after, &step);
    status = cpu_new_place(build, &layout, out);
    return status != INLAY_OK
               ? status
               : cpu_emit_step(build, &step.native, sizeof step, (const cpu_place *const[]){ input, out }, 2);
}

/* Reads the input without gaps, and derives the output's layout with the same order of axes. */
static inlay_status read_input(cpu_build *build, uint32_t *order, cpu_place *input, tensor_layout *out_y)
{
    const cpu_op *op = build->op;
    const int64_t *dims = build->dims[op->out[0]];
    uint32_t rank = build->ranks[op->in[0]];
    int64_t strides[CPU_MAX_RANK], stride = 1;
    inlay_status status;

    INLAY_TRY(cpu_read(build, op->in[0], input));
    order_axes(&input->layout, order);
    for (uint32_t i = rank; i-- > 0; stride *= dims[order[i]])
        strides[order[i]] = stride;
    layout_strides(out_y, rank, dims, strides);
done:
    return status;
}

static inlay_status lower_pad(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    const int64_t *from = build->dims[op->in[0]], *dims = build->dims[op->out[0]];
    const bool empty = cpu_count(build, op->in[0]) == 0;
    uint32_t rank = build->ranks[op->in[0]], order[CPU_MAX_RANK];
    cpu_place input, output;
    tensor_layout layout;
    pad_step step = { .native.run = run_pad, .set = build->state->moves };
    inlay_status status;

    for (uint32_t d = 0; d < rank; d++) {
        int64_t size;

        if (build->ranks[op->out[0]] != rank || __builtin_add_overflow(from[d], op->pad.amounts[d], &size) ||
            __builtin_add_overflow(size, op->pad.amounts[CPU_MAX_PAD_RANK + d], &size) || dims[d] != size ||
            (from[d] == 0 && op->pad.mode != PAD_CONSTANT))
            return inlay_fail(build->diag, INLAY_INVALID_ARGUMENT, "node '%s': the pads of axis %u do not fit",
                              op->name, d);
    }
    if (empty) { /* every element is the constant */
        step = (pad_step){ .native = step.native,
                           .set = step.set,
                           .rank = 1,
                           .dims = { cpu_count(build, op->out[0]) },
                           .block = 1,
                           .rows = 1,
                           .value = op->alpha };
        layout_plain(&layout, rank, dims);
    } else {
        INLAY_TRY(read_input(build, order, &input, &layout));
        step.mode = op->pad.mode;
        step.value = op->alpha;
        plan_step(&input.layout, order, dims, op->pad.amounts, op->pad.amounts + CPU_MAX_PAD_RANK, &step);
    }
    INLAY_TRY(cpu_result_place(build, op->out[0], &layout, &output));
    INLAY_TRY(cpu_emit_step(build, &step.native, sizeof step,
                            (const cpu_place *const[]){ empty ? &output : &input, &output }, 2));
    status = cpu_finish(build, group, 0, &output, true);
done:
    return status;
}

const cpu_family cpu_pad = { .kind = CPU_FAMILY_PAD, .name = "padding", .parse = parse_pad, .lower = lower_pad };
