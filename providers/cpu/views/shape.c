/* Operators that only move elements: views, transposes, concatenations. */
#include "cpu/attention/attention.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "cpu/convolution/tiles.h"
#include "cpu/views/concat.h"
#include "cpu/weights/read.h"

/* Shape inference has set the output's shape; only the ranks are checked here. */
static bool parse_view(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    (void)op;
    return cpu_known_rank(kit_input(node, 0), 1, CPU_MAX_RANK, "input 0", why) &&
           cpu_known_rank(kit_output(node, 0), 1, CPU_MAX_RANK, "output 0", why);
}

static inlay_status lower_view(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    cpu_place input;
    tensor_layout seen, merged;
    inlay_status status = cpu_read_strided(build, op->in[0], &input);

    if (status != INLAY_OK)
        return status;
    if (!layout_is_plain(&input.layout) &&
        layout_reshaped(&input.layout, build->ranks[group->out], build->dims[group->out], &seen)) {
        input.layout = seen; /* the input is transposed or a part of a tensor */
        return cpu_set_place(build, group->out, &input);
    }
    if (!layout_is_plain(&input.layout) &&
        layout_merged(&input.layout, build->ranks[group->out], build->dims[group->out], &merged) &&
        !layout_is_plain(&merged) &&
        layout_reshaped(&merged, build->ranks[group->out], build->dims[group->out], &seen)) {
        status = cpu_read_as(build, op->in[0], &merged, &input);
        if (status != INLAY_OK)
            return status;
        input.layout = seen;
        return cpu_set_place(build, group->out, &input);
    }
    status = cpu_read_plain(build, op->in[0], &input);
    if (status != INLAY_OK)
        return status;
    layout_plain(&input.layout, build->ranks[group->out], build->dims[group->out]);
    input.layout.type = cpu_type(build, group->out);
    return cpu_set_place(build, group->out, &input);
}

const cpu_family cpu_view = { .kind = CPU_FAMILY_VIEW, .name = "view", .parse = parse_view, .lower = lower_view };

static bool parse_transpose(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, 0);
    uint32_t count;
    const int64_t *perm = kit_attr_ints(node->info, "perm", &count);

    if (!cpu_known_rank(input, 2, 6, "input 0", why))
        return false;
    if (perm != NULL && count != input->rank)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "perm does not fit the input");
    for (uint32_t d = 0; d < input->rank; d++) {
        int64_t from = perm != NULL ? perm[d] : (int64_t)(input->rank - 1 - d);

        if (from < 0 || from >= input->rank)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "perm[%u] is %lld, but the input has %u axes", d,
                              (long long)from, input->rank);
        op->perm[d] = (int32_t)from;
    }
    return true;
}

/* Only the layout changes. Ops that cannot read the new layout add a reorder. */
static inlay_status lower_transpose(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    uint32_t rank = build->ranks[op->in[0]];
    int64_t strides[CPU_MAX_RANK];
    cpu_place input, output;
    inlay_status status;

    INLAY_TRY(cpu_read_strided(build, op->in[0], &input));
    for (uint32_t d = 0; d < rank; d++) {
        INLAY_CHECK(op->perm[d] >= 0 && op->perm[d] < (int32_t)rank);
        strides[d] = input.layout.strides[op->perm[d]];
    }
    output = input;
    layout_strides(&output.layout, rank, build->dims[group->out], strides);
    output.layout.type = input.layout.type;
    status = cpu_set_place(build, group->out, &output);
done:
    return status;
}

const cpu_family cpu_transpose = {
    .kind = CPU_FAMILY_TRANSPOSE, .name = "transpose", .parse = parse_transpose, .lower = lower_transpose
};

static bool parse_concat(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *output = kit_output(node, 0);

    if (!cpu_known_rank(output, 2, 6, "output 0", why))
        return false;
    for (uint32_t i = 0; i < node->info->input_count; i++)
        if (kit_input(node, i) == NULL)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "input %u is omitted", i);
    if (!cpu_axis(kit_attr_int(node->info, "axis", 1), output->rank, &op->axis))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "the axis is outside the tensor");
    op->size = output->rank;
    return true;
}

/* Concatenates channels-last images: copies each input into its part of the output. */
static inlay_status concat_images(cpu_build *build, const cpu_group *group, const cpu_place *places, uint32_t count)
{
    const int64_t axis = build->op->axis;
    cpu_place out, part;
    inlay_status status;
    tensor_layout layout;

    layout_channels_last(&layout, build->ranks[group->out], build->dims[group->out]);
    layout.type = cpu_type(build, group->out);
    INLAY_TRY(cpu_new_place(build, &layout, &out));
    part = out;
    for (uint32_t i = 0; i < count; i++) {
        layout_strides(&part.layout, build->ranks[group->out], places[i].layout.dims, layout.strides);
        part.layout.type = layout.type;
        INLAY_TRY(cpu_emit_copy(build, &places[i], &part));
        part.offset += (uint64_t)(places[i].layout.dims[axis] * layout.strides[axis]) * cpu_type_bytes(layout.type);
    }
    status = cpu_set_place(build, group->out, &out);
done:
    return status;
}

static inlay_status lower_concat(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    cpu_place *places = cpu_scratch_take(build->scratch, op->in_count + 1u, sizeof *places);
    uint32_t count = 0, images = 0, rank = build->ranks[op->out[0]];
    bool in_place;
    tensor_layout layout;
    inlay_status status = INLAY_OK;

    if (op->appends && build->rooms[group->out] != 0) {
        status = cpu_lower_append(build, group);
        goto done;
    }
    if (places == NULL) {
        status = inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", op->name);
        goto done;
    }
    INLAY_TRY(tiles_concat(build, group, &in_place));
    if (in_place)
        goto done;
    for (uint32_t i = 0; i < op->in_count; i++) {
        if (cpu_count(build, op->in[i]) == 0)
            continue;
        INLAY_TRY(cpu_read(build, op->in[i], &places[count]));
        images += layout_is_image(&places[count].layout) && !layout_is_plain(&places[count].layout);
        count++;
    }
    for (uint32_t i = 0, n = 0; i < op->in_count; i++) {
        if (cpu_count(build, op->in[i]) == 0)
            continue;
        if (images == 0) {
            INLAY_TRY(cpu_read_plain(build, op->in[i], &places[n]));
        } else { /* channels last for all */
            layout_channels_last(&layout, rank, build->dims[op->in[i]]);
            layout.type = cpu_type(build, op->in[i]);
            INLAY_TRY(cpu_read_as(build, op->in[i], &layout, &places[n]));
        }
        n++;
    }
    status = images == 0 ? cpu_concat_rows(build, group, places, count) : concat_images(build, group, places, count);
done:
    return status;
}

const cpu_family cpu_concat = {
    .kind = CPU_FAMILY_CONCAT, .name = "concatenation", .parse = parse_concat, .lower = lower_concat
};
