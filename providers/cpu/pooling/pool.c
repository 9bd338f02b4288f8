/* Pooling, and reductions that are pooling: over all of the image (ONNX MaxPool, AveragePool, GlobalAveragePool,
 * GlobalMaxPool, ReduceMean, ReduceMax). Other reductions are loops (reduce.c). */
#include "region/build.h"
#include "convolution/window.h"

static bool parse_pool(const kit_node *node, rg_op *op, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, 0);
    const char *type = op->row->op_type;
    bool include;
    const int64_t *kernel;
    uint32_t given;

    if (!rg_known_rank(input, 3, 5, "input 0", why))
        return false;
    op->reduction.keepdims = true;
    op->window.spatial = input->rank - 2;
    if (strncmp(type, "Global", 6) == 0) {
        op->window.global = true;
        op->alg = strcmp(type, "GlobalMaxPool") == 0 ? DN_POOLING_MAX : DN_POOLING_AVG_EXCLUDE_PADDING;
        return true;
    }
    if (!rg_parse_window(node, input->rank - 2, op, why))
        return false;
    kernel = kit_attr_ints(node->info, "kernel_shape", &given);
    if (kernel == NULL || given != op->window.spatial)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "kernel_shape does not fit the input");
    memcpy(op->window.kernel, kernel, given * sizeof *kernel);
    op->window.ceil_mode = kit_attr_int(node->info, "ceil_mode", 0) != 0;
    include = kit_attr_int(node->info, "count_include_pad", 0) != 0;
    op->alg = strcmp(type, "MaxPool") == 0 ? DN_POOLING_MAX
              : include                    ? DN_POOLING_AVG_INCLUDE_PADDING
                                           : DN_POOLING_AVG_EXCLUDE_PADDING;
    if (op->window.ceil_mode && include)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "leave one of the two away",
                          "ceil_mode with count_include_pad counts what lies past the pads in %s", dn_in_use->title);
    if (op->alg != DN_POOLING_MAX)
        for (uint32_t i = 0; i < op->window.spatial; i++)
            if (op->window.dilations[i] != 1)
                return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "a dilated AveragePool");
    for (uint32_t i = 0; i < op->window.spatial; i++)
        if (op->window.pads[i] >= op->window.kernel[i] ||
            op->window.pads[op->window.spatial + i] >= op->window.kernel[i])
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "pads as wide as the window");
    return true;
}

/* The output of a reduction: what was made has all axes, what ONNX wants perhaps not. */
static inlay_status set_reduced(rg_build *build, const rg_group *group, const rg_place *made)
{
    rg_place place = *made;
    inlay_status status;

    if (!build->op->reduction.keepdims) {
        rg_md plain;

        rg_md_plain(&plain, (uint32_t)place.md.ndims, place.md.dims);
        status = rg_reorder(build, made, &plain, &place);
        if (status != INLAY_OK)
            return status;
        rg_md_plain(&place.md, build->ranks[group->out], build->dims[group->out]);
    }
    return rg_finish(build, group, 0, &place, false);
}

static inlay_status read_image(rg_build *build, uint32_t x, rg_place *out)
{
    rg_md md;

    if (build->op->window.global || build->dims[x][1] < 8)
        return rg_read_plain(build, x, out);
    rg_md_channels_last(&md, build->ranks[x], build->dims[x]);
    md.data_type = rg_type(build, x);
    return rg_read_as(build, x, &md, out);
}

/* Is the only window all of the image, and nothing else? */
static bool is_whole_image(const rg_op *op, const int64_t *in, const int64_t *out, const int64_t *begins,
                           const int64_t *ends)
{
    for (uint32_t i = 0; !op->window.global && i < op->window.spatial; i++)
        if (op->window.kernel[i] != in[i] || out[i] != 1 || begins[i] != 0 || ends[i] != 0)
            return false;
    return true;
}

/* A pool of an image that lies row by row anyway, and of some pixels of it. */
static inlay_status lower_plain(rg_build *build, const rg_place *in, const dn_op *desc, const int64_t *out_dims,
                                uint32_t result, rg_place *out, bool *out_done)
{
    const rg_op *op = build->op;
    rg_place plain = *in;
    inlay_status status = INLAY_OK;

    *out_done = false;
    if (rg_md_is_image(&in->md) || in->md.data_type != DN_F32 || rg_count(build, op->in[0]) == 0)
        goto done;
    INLAY_TRY(rg_read_plain(build, op->in[0], &plain));
    if (is_whole_image(op, build->dims[op->in[0]] + 2, out_dims + 2, desc->begins, desc->ends)) {
        *out_done = true;
        status = rg_lower_planes(build, &plain, result, out);
    } else {
        status = rg_lower_rows(build, &plain, out_dims, desc->kernel, desc->strides, desc->dilations, desc->begins,
                               result, out, out_done);
    }
done:
    return status;
}

static inlay_status lower_pool(rg_build *build, const rg_group *group)
{
    const rg_op *op = build->op;
    uint32_t x = op->in[0], rank = build->ranks[x];
    dn_description pd = NULL;
    dn_op desc = { .kind = DN_POOLING, .alg = op->alg };
    const int64_t *dims_of_image = build->dims[x] + 2;
    dn_dims dims;
    rg_place in, out;
    rg_md y_md;
    inlay_status status;
    bool done;

    if (!rg_counts(build->dims[x], rank) || !rg_counts(build->dims[op->out[0]], build->ranks[op->out[0]]))
        return inlay_fail(build->diag, INLAY_UNSUPPORTED, "node '%s': pooling of more than 2^31 - 1 elements",
                          op->name);
    INLAY_TRY(rg_read(build, x, &in));
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = d < 2 ? build->dims[x][d] : op->window.global ? 1 : build->dims[op->out[0]][d];
    if (!op->window.global)
        rg_window_pads(op, build->dims[x] + 2, dims + 2, op->window.kernel, desc.begins, desc.ends);
    for (uint32_t i = 0; i < op->window.spatial; i++) {
        desc.kernel[i] = op->window.global ? build->dims[x][2 + i] : op->window.kernel[i];
        desc.strides[i] = op->window.global ? 1 : op->window.strides[i];
        desc.dilations[i] = op->window.global ? 0 : op->window.dilations[i] - 1;
    }
    INLAY_TRY(lower_plain(build, &in, &desc, dims, op->reduction.keepdims ? group->out : op->out[0], &out, &done));
    if (done)
        return set_reduced(build, group, &out);
    if (!rg_md_is_image(&in.md)) /* oneDNN's kernels for row-major images are many times slower than a reorder */
        INLAY_TRY(read_image(build, x, &in));
    if (op->alg == DN_POOLING_MAX) {
        INLAY_TRY(rg_lower_max(build, &in, dims, desc.kernel, desc.strides, desc.dilations, desc.begins,
                               op->reduction.keepdims ? group->out : op->out[0], &out, &done));
        if (done)
            return set_reduced(build, group, &out);
    }
    if (op->alg != DN_POOLING_MAX && is_whole_image(op, build->dims[x] + 2, dims + 2, desc.begins, desc.ends)) {
        INLAY_TRY(rg_lower_mean(build, &in, op->reduction.keepdims ? group->out : op->out[0], &out, &done));
        if (done)
            return set_reduced(build, group, &out);
    }
    if (build->state->alone && in.md.data_type == DN_F32) {
        INLAY_TRY(rg_read_plain(build, x, &in));
        INLAY_TRY(rg_lower_rows(build, &in, dims, desc.kernel, desc.strides, desc.dilations, desc.begins,
                                op->reduction.keepdims ? group->out : op->out[0], &out, &done));
        if (done)
            return set_reduced(build, group, &out);
    }
    for (uint32_t i = 0; i < op->window.spatial; i++)
        if (desc.kernel[i] / 8 > dims_of_image[i])
            INLAY_TRY(inlay_fail(build->diag, INLAY_UNSUPPORTED,
                                 "a window of %lld for an image of %lld: %s would look "
                                 "at all of its padding",
                                 (long long)desc.kernel[i], (long long)dims_of_image[i], dn_in_use->title));
    desc.input = in.md;
    rg_md_any(&desc.output, rank, dims);
    desc.output.data_type = in.md.data_type;
    INLAY_TRY(rg_describe(build, &desc, &pd));
    INLAY_TRY(rg_result_place(build, op->reduction.keepdims ? group->out : op->out[0],
                              dn_layout(pd, DN_OPERAND_DST, &y_md), &out));
    INLAY_TRY(rg_emit(build, pd, (const rg_operand[]){ { DN_ARG_SRC, &in }, { DN_ARG_DST, &out } }, 2));
    status = set_reduced(build, group, &out);
done:
    dn_destroy(pd);
    return status;
}

const rg_family rg_pool = { "pooling", parse_pool, lower_pool };
