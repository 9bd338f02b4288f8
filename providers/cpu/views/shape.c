/* Operators that only move: views, transposes, concatenations. */
#include "convolution/tiles.h"

/* ------------------------------------------------------------------ views */

/* The output's shape is what inference says; only that nothing else is meant has to be checked. */
static bool parse_view(const kit_node *node, rg_op *op, kit_refusal *why)
{
    (void)op;
    return rg_known_rank(kit_input(node, 0), 1, RG_MAX_RANK, "input 0", why) &&
           rg_known_rank(kit_output(node, 0), 1, RG_MAX_RANK, "output 0", why);
}

static inlay_status lower_view(rg_build *build, const rg_group *group)
{
    const rg_op *op = build->op;
    rg_place input;
    rg_md seen, merged;
    inlay_status status = rg_read_strided(build, op->in[0], &input);

    if (status != INLAY_OK)
        return status;
    if (!rg_md_is_plain(&input.md) &&
        rg_md_reshaped(&input.md, build->ranks[group->out], build->dims[group->out], &seen)) {
        input.md = seen; /* of what is transposed, or a part */
        return rg_set_place(build, group->out, &input);
    }
    if (!rg_md_is_plain(&input.md) &&
        rg_md_merged(&input.md, build->ranks[group->out], build->dims[group->out], &merged) &&
        !rg_md_is_plain(&merged) && rg_md_reshaped(&merged, build->ranks[group->out], build->dims[group->out], &seen)) {
        status = rg_read_as(build, op->in[0], &merged, &input);
        if (status != INLAY_OK)
            return status;
        input.md = seen;
        return rg_set_place(build, group->out, &input);
    }
    status = rg_read_plain(build, op->in[0], &input);
    if (status != INLAY_OK)
        return status;
    rg_md_plain(&input.md, build->ranks[group->out], build->dims[group->out]);
    input.md.data_type = rg_type(build, group->out);
    return rg_set_place(build, group->out, &input);
}

const rg_family rg_view = { "view", parse_view, lower_view };

/* ------------------------------------------------------------------ transposes */

static bool parse_transpose(const kit_node *node, rg_op *op, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, 0);
    uint32_t count;
    const int64_t *perm = kit_attr_ints(node->info, "perm", &count);

    if (!rg_known_rank(input, 2, 6, "input 0", why))
        return false;
    if (perm != NULL && count != input->rank)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "perm does not fit the input");
    for (uint32_t d = 0; d < input->rank; d++) {
        int64_t from = perm != NULL ? perm[d] : (int64_t)(input->rank - 1 - d);

        if (from < 0 || from >= input->rank)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "perm has an axis out of range");
        op->perm[d] = (int32_t)from;
    }
    return true;
}

/* Nothing moves yet: the layout says where elements are. Who can't read it so has it reordered. */
static inlay_status lower_transpose(rg_build *build, const rg_group *group)
{
    const rg_op *op = build->op;
    uint32_t rank = build->ranks[op->in[0]];
    int64_t strides[RG_MAX_RANK];
    int moves[RG_MAX_RANK];
    rg_place input, output;
    inlay_status status;

    INLAY_TRY(rg_read_strided(build, op->in[0], &input));
    for (uint32_t d = 0; d < rank; d++) {
        moves[op->perm[d]] = (int)d; /* oneDNN: axis i goes to moves[i] */
        strides[d] = input.md.strides[op->perm[d]];
    }
    output = input;
    if (!rg_md_is_blocked(&input.md)) {
        rg_md_strides(&output.md, rank, build->dims[group->out], strides);
        output.md.data_type = input.md.data_type;
        return rg_set_place(build, group->out, &output);
    }
    if (!rg_md_permuted(&input.md, moves, &output.md)) {
        INLAY_TRY(rg_read_plain(build, op->in[0], &input));
        output = input;
        (void)rg_md_permuted(&input.md, moves, &output.md);
    }
    status = rg_set_place(build, group->out, &output);
done:
    return status;
}

const rg_family rg_transpose = { "transpose", parse_transpose, lower_transpose };

/* ------------------------------------------------------------------ concatenation */

static bool parse_concat(const kit_node *node, rg_op *op, kit_refusal *why)
{
    const inlay_value_info *output = kit_output(node, 0);

    if (!rg_known_rank(output, 2, 6, "output 0", why))
        return false;
    for (uint32_t i = 0; i < node->info->input_count; i++)
        if (kit_input(node, i) == NULL)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "input %u is omitted", i);
    if (!rg_axis(kit_attr_int(node->info, "axis", 1), output->rank, &op->axis))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "the axis is outside the tensor");
    op->size = output->rank;
    return true;
}

/* Images with channels last, whose channels follow each other: each is copied to its place. */
static inlay_status concat_images(rg_build *build, const rg_group *group, const rg_place *places, uint32_t count)
{
    rg_place out, part;
    inlay_status status;
    rg_md md;

    rg_md_channels_last(&md, build->ranks[group->out], build->dims[group->out]);
    INLAY_TRY(rg_new_place(build, &md, &out));
    part = out;
    for (uint32_t i = 0; i < count; i++) {
        rg_md_strides(&part.md, build->ranks[group->out], places[i].md.dims, md.strides);
        INLAY_TRY(rg_emit_copy(build, &places[i], &part));
        part.offset += (uint64_t)places[i].md.dims[1] * sizeof(float);
    }
    status = rg_set_place(build, group->out, &out);
done:
    return status;
}

static inlay_status lower_concat(rg_build *build, const rg_group *group)
{
    const rg_op *op = build->op;
    rg_place *places = rg_scratch_take(build->scratch, op->in_count + 1u, sizeof *places), out;
    rg_operand *operands = rg_scratch_take(build->scratch, op->in_count + 2u, sizeof *operands);
    rg_md *mds = rg_scratch_take(build->scratch, op->in_count + 1u, sizeof *mds);
    dn_description pd = NULL;
    uint32_t count = 0, images = 0, blocked = 0, rank = build->ranks[op->out[0]];
    bool at_home;
    rg_md md;
    inlay_status status = INLAY_OK;

    if (op->appends && build->rooms[group->out] != 0) {
        status = rg_lower_append(build, group);
        goto done;
    }
    if (places == NULL || operands == NULL || mds == NULL) {
        status = inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", op->name);
        goto done;
    }
    INLAY_TRY(tiles_concat(build, group, &at_home));
    if (at_home)
        goto done;
    for (uint32_t i = 0; i < op->in_count; i++) {
        if (rg_count(build, op->in[i]) == 0)
            continue;
        INLAY_TRY(rg_read(build, op->in[i], &places[count]));
        images += rg_md_is_image(&places[count].md) && !rg_md_is_plain(&places[count].md);
        blocked += rg_md_is_blocked(&places[count].md);
        count++;
    }
    for (uint32_t i = 0, n = 0; i < op->in_count; i++) {
        if (rg_count(build, op->in[i]) == 0)
            continue;
        if (images == 0) {
            INLAY_TRY(rg_read_plain(build, op->in[i], &places[n]));
        } else if (blocked < count) { /* no blocks in common: channels last for all */
            rg_md_channels_last(&md, rank, build->dims[op->in[i]]);
            md.data_type = rg_type(build, op->in[i]);
            INLAY_TRY(rg_read_as(build, op->in[i], &md, &places[n]));
        }
        mds[n] = places[n].md;
        n++;
    }
    if (images == 0) {
        status = rg_concat_rows(build, group, places, count);
        goto done;
    }
    if (blocked < count && op->axis == 1 && build->state->moves != NULL && rg_type(build, group->out) == DN_F32) {
        status = concat_images(build, group, places, count);
        goto done;
    }
    if (blocked < count)
        rg_md_channels_last(&md, rank, build->dims[op->out[0]]);
    else
        rg_md_any(&md, rank, build->dims[op->out[0]]);
    md.data_type = rg_type(build, op->out[0]);
    INLAY_TRY(rg_check(dn_describe_concat(build->state->engine, &md, (int)op->axis, mds, count, &pd), build->diag,
                       "concatenate", op->name));
    INLAY_TRY(rg_result_place(build, group->out, dn_layout(pd, DN_OPERAND_DST, &(rg_md){ 0 }), &out));
    for (uint32_t i = 0; i < count; i++)
        operands[i] = (rg_operand){ DN_ARG_MULTIPLE_SRC + (int)i, &places[i] };
    operands[count] = (rg_operand){ DN_ARG_DST, &out };
    INLAY_TRY(rg_emit(build, pd, operands, count + 1));
    status = rg_set_place(build, group->out, &out);
done:
    dn_destroy(pd);
    return status;
}

const rg_family rg_concat = { "concatenation", parse_concat, lower_concat };
