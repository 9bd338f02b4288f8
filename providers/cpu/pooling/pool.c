/* Pooling (ONNX MaxPool, AveragePool, GlobalAveragePool, GlobalMaxPool), and ReduceMean and ReduceMax over all pixels
 * of an image, which run as global pooling. For other reductions see reduce.c. */
#include "cpu/elementwise/elementwise.h"
#include "cpu/pooling/pool.h"
#include "cpu/region/build.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "cpu/region/window.h"
#include "cpu/weights/read.h"

static bool parse_pool(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, 0);
    const char *type = op->row->op_type;
    bool include;
    const int64_t *kernel;
    uint32_t given;

    if (!cpu_known_rank(input, 3, 5, "input 0", why))
        return false;
    op->reduction.keepdims = true;
    op->window.spatial = input->rank - 2;
    if (strncmp(type, "Global", 6) == 0) {
        op->window.global = true;
        op->function = strcmp(type, "GlobalMaxPool") == 0 ? FUNCTION_POOL_MAX : FUNCTION_POOL_MEAN;
        return true;
    }
    if (!cpu_parse_window(node, input->rank - 2, op, why))
        return false;
    kernel = kit_attr_ints(node->info, "kernel_shape", &given);
    if (kernel == NULL || given != op->window.spatial)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "kernel_shape does not fit the input");
    memcpy(op->window.kernel, kernel, given * sizeof *kernel);
    op->window.ceil_mode = kit_attr_int(node->info, "ceil_mode", 0) != 0;
    include = kit_attr_int(node->info, "count_include_pad", 0) != 0;
    op->function = strcmp(type, "MaxPool") == 0 ? FUNCTION_POOL_MAX
                   : include                    ? FUNCTION_POOL_MEAN_OF_PADS
                                                : FUNCTION_POOL_MEAN;
    if (op->window.ceil_mode && include)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "remove one of the two",
                          "with ceil_mode and count_include_pad, this provider counts positions beyond the pads");
    if (op->function != FUNCTION_POOL_MAX)
        for (uint32_t i = 0; i < op->window.spatial; i++)
            if (op->window.dilations[i] != 1)
                return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "dilated AveragePool is not supported");
    for (uint32_t i = 0; i < op->window.spatial; i++)
        if (op->window.pads[i] >= op->window.kernel[i] ||
            op->window.pads[op->window.spatial + i] >= op->window.kernel[i])
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "pads are as wide as the kernel");
    return true;
}

/* Sets the output of a pool or reduction. `made` has all axes; without keepdims the output has fewer. */
static inlay_status set_reduced(cpu_build *build, const cpu_group *group, const cpu_place *made)
{
    cpu_place place = *made;
    inlay_status status;

    if (!build->op->reduction.keepdims) {
        tensor_layout plain;

        layout_plain(&plain, (uint32_t)place.layout.rank, place.layout.dims);
        status = cpu_reorder(build, made, &plain, &place);
        if (status != INLAY_OK)
            return status;
        layout_plain(&place.layout, build->ranks[group->out], build->dims[group->out]);
    }
    return cpu_finish(build, group, 0, &place, false);
}

static inlay_status read_image(cpu_build *build, uint32_t value, cpu_place *out)
{
    tensor_layout layout;

    if (build->op->window.global || build->dims[value][1] < 8)
        return cpu_read_plain(build, value, out);
    layout_channels_last(&layout, build->ranks[value], build->dims[value]);
    layout.type = cpu_type(build, value);
    return cpu_read_as(build, value, &layout, out);
}

/* True if a single window covers the whole image without padding. */
static bool is_whole_image(const pool_window *window, const int64_t *ends)
{
    for (int axis = 0; axis < 3; axis++)
        if (window->kernel[axis] != window->in[axis] || window->out[axis] != 1 || window->begin[axis] != 0 ||
            ends[axis] != 0)
            return false;
    return true;
}

/* Reads the windows at concrete sizes, and the pads at the ends of axes. */
static void read_window(const cpu_op *op, const int64_t *in, const int64_t *out, pool_window *window, int64_t *ends)
{
    const uint32_t missing = 3 - op->window.spatial;
    tensor_dims kernel = { 0 }, begins = { 0 }, past = { 0 };

    for (uint32_t i = 0; i < op->window.spatial; i++)
        kernel[i] = op->window.global ? in[i] : op->window.kernel[i];
    if (!op->window.global)
        cpu_window_pads(op, in, out, kernel, begins, past);
    for (uint32_t axis = 0; axis < 3; axis++) {
        const bool exists = axis >= missing, steps = exists && !op->window.global;
        const uint32_t i = exists ? axis - missing : 0;

        window->in[axis] = exists ? in[i] : 1;
        window->out[axis] = exists ? out[i] : 1;
        window->kernel[axis] = exists ? kernel[i] : 1;
        window->stride[axis] = steps ? op->window.strides[i] : 1;
        window->dilation[axis] = steps ? op->window.dilations[i] : 1;
        window->begin[axis] = exists ? begins[i] : 0;
        ends[axis] = exists ? past[i] : 0;
    }
    window->is_mean = op->function != FUNCTION_POOL_MAX;
    window->counts_pads = op->function == FUNCTION_POOL_MEAN_OF_PADS;
}

/* True if each window is a single pixel of the image. */
static bool is_every_pixel(const pool_window *window, const int64_t *ends)
{
    for (int axis = 0; axis < 3; axis++)
        if (window->kernel[axis] != 1 || window->begin[axis] != 0 || ends[axis] > 0)
            return false;
    return true;
}

/* Copies every stride-th pixel. */
static inlay_status take_pixels(cpu_build *build, const cpu_place *in, const int64_t *dims, uint32_t result,
                                cpu_place *out)
{
    const uint32_t rank = (uint32_t)in->layout.rank;
    cpu_place from = *in;
    inlay_status status;
    tensor_layout target;

    for (uint32_t d = 2; d < rank; d++) {
        from.layout.dims[d] = from.layout.padded_dims[d] = dims[d];
        from.layout.strides[d] *= dims[d] > 1 ? build->op->window.strides[d - 2] : 1; /* else it might overflow */
    }
    if (layout_is_image(&in->layout))
        layout_channels_last(&target, rank, dims);
    else
        layout_plain(&target, rank, dims);
    target.type = in->layout.type;
    INLAY_TRY(cpu_result_place(build, result, &target, out));
    status = cpu_emit_copy(build, &from, out);
done:
    return status;
}

/* Lowers pooling of a row-major image without a change of layout. */
static inlay_status lower_plain(cpu_build *build, const cpu_place *in, const pool_window *window, bool whole,
                                const int64_t *out_dims, uint32_t result, cpu_place *out, bool *out_done)
{
    cpu_place plain = *in;
    inlay_status status = INLAY_OK;

    *out_done = false;
    if (layout_is_image(&in->layout) || in->layout.type != ELEMENT_FLOAT || cpu_count(build, build->op->in[0]) == 0)
        goto done;
    INLAY_TRY(cpu_read_plain(build, build->op->in[0], &plain));
    if (whole) {
        *out_done = true;
        status = cpu_lower_planes(build, &plain, result, out);
    } else {
        status = cpu_lower_rows(build, &plain, out_dims, window, result, out, out_done);
    }
done:
    return status;
}

static inlay_status lower_pool(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    uint32_t value = op->in[0], rank = build->ranks[value], result = op->reduction.keepdims ? group->out : op->out[0];
    pool_window window;
    int64_t ends[3];
    tensor_dims dims;
    cpu_place in, out;
    inlay_status status;
    bool done, whole;

    INLAY_CHECK(rank >= 3 && op->window.spatial == rank - 2);
    if (!cpu_count_fits(build->dims[value], rank) || !cpu_count_fits(build->dims[op->out[0]], build->ranks[op->out[0]]))
        return inlay_fail(build->diag, INLAY_UNSUPPORTED, "node '%s': pooling of more than 2^31 - 1 elements",
                          op->name);
    INLAY_TRY(op->function == FUNCTION_POOL_MAX ? cpu_read(build, value, &in) : cpu_read_summed(build, value, &in));
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = d < 2 ? build->dims[value][d] : op->window.global ? 1 : build->dims[op->out[0]][d];
    read_window(op, build->dims[value] + 2, dims + 2, &window, ends);
    whole = is_whole_image(&window, ends);
    if (!op->window.global && is_every_pixel(&window, ends) && in.layout.kind == LAYOUT_STRIDED &&
        in.layout.block_count == 0) {
        INLAY_TRY(take_pixels(build, &in, dims, result, &out));
        return set_reduced(build, group, &out);
    }
    INLAY_TRY(lower_plain(build, &in, &window, whole, dims, result, &out, &done));
    if (done)
        return set_reduced(build, group, &out);
    if (!layout_is_image(&in.layout))
        INLAY_TRY(read_image(build, value, &in));
    if (window.is_mean && whole) {
        INLAY_TRY(cpu_lower_mean(build, &in, result, &out, &done));
        if (done)
            return set_reduced(build, group, &out);
    }
    INLAY_TRY(cpu_lower_image(build, &in, dims, &window, result, &out, &done));
    if (done)
        return set_reduced(build, group, &out);
    INLAY_TRY(cpu_read_plain(build, value, &in));
    INLAY_TRY(cpu_lower_rows(build, &in, dims, &window, result, &out, &done));
    if (done)
        return set_reduced(build, group, &out);
    status =
        inlay_fail(build->diag, INLAY_UNSUPPORTED, "node '%s': there is no kernel for this window and image", op->name);
done:
    return status;
}

const cpu_family cpu_pool = { .kind = CPU_FAMILY_POOL, .name = "pooling", .parse = parse_pool, .lower = lower_pool };
