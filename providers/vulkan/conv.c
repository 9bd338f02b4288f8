/* Convolutions (as a matrix multiplication over windows, or depthwise), and transposed convolutions. */
#include "inlay/check.h"
#include "vulkan/region.h"

static bool reaches_outside(const vulkan_window *window)
{
    bool outside = false;

    for (uint32_t d = 0; d < 3; d++) {
        const int64_t first = -window->begin[d], last = (window->out[d] - 1) * window->stride[d] - window->begin[d];
        const int64_t reach = (window->size[d] - 1) * window->dilation[d];

        outside |= first < 0 || first + reach < 0 || last >= window->in[d] || last + reach >= window->in[d];
    }
    return outside;
}

/* Lowers to C = A x B: rows are pixels, columns are the channels of a group, and A is the image at the taps of the
 * window. vulkan_wants_panels() gives the layout of B. */
static inlay_status emit_conv(vulkan_build *build, const vulkan_op *op, uint32_t image, const vulkan_window *window,
                              vulkan_program *program)
{
    const uint32_t second = vulkan_second_factor(op);
    const vulkan_tensor *weights = vulkan_input(build, op, second);
    const int64_t plane = window->in[0] * window->in[1] * window->in[2];
    vulkan_panels at;
    vulkan_product product;

    (void)vulkan_wants_panels(op, second, weights->rank, weights->dims, &at);
    product = vulkan_product_of(window->pixels, at.k, at.columns);
    vulkan_product_batches(&product, (const int64_t[]){ 1, build->tensors[image].dims[0], at.groups });
    INLAY_CHECK(window->taps > 0 && window->pixels > 0);
    product.windows = !window->is_pointwise;
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
    return vulkan_finish_product(build, op, image, &product, program);
}

/* The program of convolutions: adds the bias of a channel. */
static void start_program(vulkan_build *build, const vulkan_op *op, vulkan_program *program)
{
    vulkan_program_start(build, program, op->info.outputs[0], VULKAN_SINGLE);
    if (vulkan_input(build, op, 2) != NULL)
        (void)vulkan_add_slot(program, OP_ADD, REG_ACC, vulkan_load_axis(build, program, op->info.inputs[2], 1), 0);
    program->has_columns = true;
    program->column_dim = 1;
}

static inlay_status lower_conv(vulkan_build *build, const vulkan_op *op)
{
    const vulkan_tensor *input = vulkan_input(build, op, 0),
                        *weights = vulkan_input(build, op, vulkan_second_factor(op));
    const int64_t groups = kit_attr_int(&op->info, "group", 1);
    vulkan_window window;
    vulkan_program program;

    if (!vulkan_window_read(build, op, weights, false, &window))
        return build->status;
    if (groups < 1 || weights->dims[1] * groups != input->dims[1])
        return vulkan_decline(build, op, "its weights have %lld channels in %lld groups, the input %lld",
                              (long long)weights->dims[1], (long long)groups, (long long)input->dims[1]);
    if (vulkan_is_integer_product(op)) {
        vulkan_start_integers(build, op, &program, true);
        return emit_conv(build, op, op->info.inputs[0], &window, &program);
    }
    start_program(build, op, &program);
    if (weights->dims[1] == 1 && weights->dims[0] == groups)
        return vulkan_emit_windows(build, op, &program, POOL_WEIGHTED, &window);
    vulkan_fuse_epilogue(build, op, &program);
    return emit_conv(build, op, op->info.inputs[0], &window, &program);
}

/* Emits a copy of the input with stride - 1 zeros between neighbouring elements. Returns the new value. */
static uint32_t insert_zeros(vulkan_build *build, const vulkan_op *op, const int64_t *stride)
{
    const vulkan_tensor *input = vulkan_input(build, op, 0);
    int64_t dims[VULKAN_RANK];
    uint32_t wide;
    vulkan_box box = vulkan_whole_box(input);

    memcpy(dims, input->dims, sizeof dims);
    for (uint32_t d = 2; d < input->rank; d++)
        dims[d] = (input->dims[d] - 1) * stride[d + 3 - input->rank] + 1;
    wide = vulkan_add_temporary(build, input->dtype, input->rank, dims);
    vulkan_emit_fill(build, wide, 0);
    vulkan_row_major(dims, input->rank, box.to);
    for (uint32_t d = 2; d < input->rank; d++)
        box.to[d] *= stride[d + 3 - input->rank];
    (void)vulkan_emit_move(build, &box, op->info.inputs[0], wide);
    return wide;
}

/* ConvTranspose is a convolution of the dilated input by the reversed window. */
static inlay_status lower_conv_transpose(vulkan_build *build, const vulkan_op *op)
{
    const vulkan_tensor *input = vulkan_input(build, op, 0), *weights = vulkan_input(build, op, 1);
    const int64_t groups = kit_attr_int(&op->info, "group", 1);
    uint32_t image = op->info.inputs[0];
    vulkan_window window;
    vulkan_program program;

    if (!vulkan_window_read(build, op, weights, true, &window))
        return build->status;
    if (groups < 1 || weights->dims[0] != input->dims[1] || weights->dims[0] % groups != 0)
        return vulkan_decline(build, op, "%lld groups of %lld channels", (long long)groups, (long long)input->dims[1]);
    if (window.stride[0] * window.stride[1] * window.stride[2] > 1)
        image = insert_zeros(build, op, window.stride);
    for (uint32_t d = 0; d < 3; d++) {
        window.in[d] = (window.in[d] - 1) * window.stride[d] + 1;
        window.stride[d] = 1;
        window.begin[d] = -window.begin[d];
        window.dilation[d] = -window.dilation[d];
    }
    start_program(build, op, &program);
    vulkan_fuse_epilogue(build, op, &program);
    return emit_conv(build, op, image, &window, &program);
}

const vulkan_family vulkan_conv = { .lower = lower_conv, .weights = VULKAN_WINDOW, .min_rank = 3, .max_rank = 5 };
const vulkan_family vulkan_conv_integer = { .supports = vulkan_integers_support,
                                            .lower = lower_conv,
                                            .checks_types = true,
                                            .is_integer = true,
                                            .weights = VULKAN_WINDOW,
                                            .min_rank = 3,
                                            .max_rank = 5 };
const vulkan_family vulkan_conv_transpose = {
    .lower = lower_conv_transpose, .weights = VULKAN_TRANSPOSED_WINDOW, .min_rank = 3, .max_rank = 5
};
