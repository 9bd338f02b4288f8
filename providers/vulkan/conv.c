/* Convolutions: products over windows, sums over a window alone, and transposed ones. */
#include "region.h"

static bool reaches_outside(const vr_window *window)
{
    bool outside = false;

    for (uint32_t d = 0; d < 3; d++) {
        const int64_t first = -window->begin[d], last = (window->out[d] - 1) * window->stride[d] - window->begin[d];
        const int64_t reach = (window->window[d] - 1) * window->dilation[d];

        outside |= first < 0 || first + reach < 0 || last >= window->in[d] || last + reach >= window->in[d];
    }
    return outside;
}

/* Rows are pixels, columns are the channels of a group, and A is the image under the window's taps. vr_wants_panels()
 * says where B lies. */
static inlay_status emit_conv(vr_build *build, const vr_op *op, uint32_t image, const vr_window *window,
                              vr_program *program)
{
    const vr_tensor *weights = vr_in(build, op, 1);
    const int64_t plane = window->in[0] * window->in[1] * window->in[2];
    vr_panels at;
    vr_product product;

    (void)vr_wants_panels(op, 1, weights->rank, weights->dims, &at);
    product = vr_product_of(window->pixels, at.k, at.columns);
    vr_product_batches(&product, (const int64_t[]){ 1, build->tensors[image].dims[0], at.groups });
    product.windows = !window->plain;
    product.padded = reaches_outside(window);
    if (product.windows) {
        product.line = window->out[2];
        product.lines = window->out[0] * window->out[1];
    }
    product.taps = window->taps;
    product.a_row = 1;
    product.a_step = plane;
    product.a_batch[1] = at.groups * at.k * plane;
    product.a_batch[2] = at.k * plane;
    product.b_step = at.k_step;
    product.b_column = at.column_step;
    product.b_tap = at.tap_step;
    product.b_batch[2] = at.group_step;
    product.out_row = 1;
    product.out_column = window->pixels;
    product.group = at.columns;
    product.window = *window;
    vr_grow(build, op, program);
    return vr_finish_product(build, op, image, &product, program);
}

/* What both kinds do to a sum: the bias of its channel. */
static void start_program(vr_build *build, const vr_op *op, vr_program *program)
{
    vr_program_start(build, program, op->info.outputs[0], VR_SINGLE);
    if (vr_in(build, op, 2) != NULL)
        (void)vr_slot(program, OP_ADD, REG_ACC, vr_load_axis(build, program, op->info.inputs[2], 1), 0);
    program->has_columns = true;
    program->columns = 1;
}

static inlay_status lower_conv(vr_build *build, const vr_op *op)
{
    const vr_tensor *input = vr_in(build, op, 0), *weights = vr_in(build, op, 1);
    const int64_t groups = kit_attr_int(&op->info, "group", 1);
    vr_window window;
    vr_program program;

    if (!vr_window_read(build, op, weights, false, &window))
        return build->status;
    if (groups < 1 || weights->dims[1] * groups != input->dims[1])
        return vr_decline(build, op, "its weights have %lld channels in %lld groups, the input %lld",
                          (long long)weights->dims[1], (long long)groups, (long long)input->dims[1]);
    start_program(build, op, &program);
    if (weights->dims[1] == 1 && weights->dims[0] == groups)
        return vr_emit_windows(build, op, &program, POOL_WEIGHTED, &window);
    return emit_conv(build, op, op->info.inputs[0], &window, &program);
}

/* The input with stride - 1 zeros between neighbours. */
static uint32_t spread(vr_build *build, const vr_op *op, const int64_t *stride)
{
    const vr_tensor *input = vr_in(build, op, 0);
    int64_t dims[VR_RANK];
    uint32_t wide;
    vr_box box = vr_whole_box(input);

    memcpy(dims, input->dims, sizeof dims);
    for (uint32_t d = 2; d < input->rank; d++)
        dims[d] = (input->dims[d] - 1) * stride[d + 3 - input->rank] + 1;
    wide = vr_temporary(build, input->dtype, input->rank, dims);
    vr_fill(build, wide, 0);
    vr_row_major(dims, input->rank, box.to);
    for (uint32_t d = 2; d < input->rank; d++)
        box.to[d] *= stride[d + 3 - input->rank];
    (void)vr_move(build, &box, op->info.inputs[0], wide);
    return wide;
}

/* A convolution of the input, spread out, by a window that is walked through backwards. */
static inlay_status lower_conv_transpose(vr_build *build, const vr_op *op)
{
    const vr_tensor *input = vr_in(build, op, 0), *weights = vr_in(build, op, 1);
    const int64_t groups = kit_attr_int(&op->info, "group", 1);
    uint32_t image = op->info.inputs[0];
    vr_window window;
    vr_program program;

    if (!vr_window_read(build, op, weights, true, &window))
        return build->status;
    if (groups < 1 || weights->dims[0] != input->dims[1] || weights->dims[0] % groups != 0)
        return vr_decline(build, op, "%lld groups of %lld channels", (long long)groups, (long long)input->dims[1]);
    if (window.stride[0] * window.stride[1] * window.stride[2] > 1)
        image = spread(build, op, window.stride);
    for (uint32_t d = 0; d < 3; d++) {
        window.in[d] = (window.in[d] - 1) * window.stride[d] + 1;
        window.stride[d] = 1;
        window.begin[d] = -window.begin[d];
        window.dilation[d] = -window.dilation[d];
    }
    start_program(build, op, &program);
    return emit_conv(build, op, image, &window, &program);
}

const vr_family vr_conv = { .lower = lower_conv, .least_rank = 3, .most_rank = 5 };
const vr_family vr_conv_transpose = { .lower = lower_conv_transpose, .least_rank = 3, .most_rank = 5 };
