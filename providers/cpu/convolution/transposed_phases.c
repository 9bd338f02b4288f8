/* ConvTranspose-1..22 without dilation whose kernel is a multiple of its stride, as direct convolutions
 * (tiles_direct.c). For a stride s, the outputs at positions p, p + s, p + 2s, ... along an axis (phase p) read the
 * same kernel / s taps at neighbouring inputs. So each phase is a convolution with stride 1, whose results are s
 * positions apart, and no products are stored and summed. */
#include "cpu/convolution/tiles.h"
#include "cpu/convolution/transposed.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_IF_CALLED(transposed_lower_phases);

enum {
    MAX_PHASES = 16, /* of both axes */
    LEAST_CHANNELS = 8
};
/* Highest ratio of the multiplications of all phases to those of the pixels of the input by all taps. Phases multiply
 * zeros of the border. */
#define MAX_WORK 1.25

typedef struct phase_axis {
    int64_t in, out, stride, begin; /* begin: the pad */
    int64_t taps;                   /* of a phase */
    int64_t before, after;          /* border of the input */
} phase_axis;

/* Number of outputs of phase `phase`. */
static int64_t outputs_of(const phase_axis *axis, int64_t phase)
{
    return phase < axis->out ? (axis->out - phase + axis->stride - 1) / axis->stride : 0;
}

/* The input position that the first tap of a phase reads for its first output; the next tap reads the position before
 * it. */
static int64_t first_of(const phase_axis *axis, int64_t phase)
{
    return (phase + axis->begin) / axis->stride;
}

static void find_border(phase_axis *axis)
{
    axis->before = axis->taps - 1 - first_of(axis, 0);
    axis->before = axis->before > 0 ? axis->before : 0;
    axis->after = 0;
    for (int64_t phase = 0; phase < axis->stride; phase++) {
        const int64_t past = first_of(axis, phase) + outputs_of(axis, phase) - axis->in;

        axis->after = past > axis->after ? past : axis->after;
    }
}

/* Fills both axes; false: the operator has no such phases, or they would take longer than other kernels. */
static bool describe(const cpu_build *build, phase_axis axes[2])
{
    const cpu_op *op = build->op;
    const uint32_t spatial = op->window.spatial, first_axis = 2 - spatial;
    const int64_t *input = build->dims[op->in[0]], *output = build->dims[op->out[0]];
    int64_t begins[2], ends[2];
    double work = 1, products = 1;

    if (build->state->tiles == NULL || build->state->sgemm == NULL || spatial > 2 || op->window.group != 1 ||
        input[1] < LEAST_CHANNELS || output[1] < LEAST_CHANNELS || cpu_count(build, op->in[0]) == 0 ||
        cpu_count(build, op->out[0]) == 0)
        return false;
    cpu_deconvolution_pads(op, input + 2, output + 2, begins, ends);
    axes[0] = axes[1] = (phase_axis){ .in = 1, .out = 1, .stride = 1, .taps = 1 };
    for (uint32_t i = 0; i < spatial; i++) {
        phase_axis *axis = &axes[first_axis + i];

        if (op->window.dilations[i] != 1 || op->window.kernel[i] % op->window.strides[i] != 0 || begins[i] < 0)
            return false;
        *axis = (phase_axis){ .in = input[2 + i],
                              .out = output[2 + i],
                              .stride = op->window.strides[i],
                              .begin = begins[i],
                              .taps = op->window.kernel[i] / op->window.strides[i] };
        find_border(axis);
        work *= (double)(axis->out * axis->taps);
        products *= (double)(axis->in * op->window.kernel[i]);
    }
    return axes[0].stride * axes[1].stride <= MAX_PHASES && work <= MAX_WORK * products;
}

/* The weights as panels for each phase: [stride][stride][out / TILE_WIDTH][taps][taps][in][TILE_WIDTH]. */
static inlay_status read_weights(cpu_build *build, const phase_axis axes[2], cpu_place *out)
{
    const int64_t in = build->dims[build->op->in[0]][1], channels = build->dims[build->op->out[0]][1];
    const int64_t row = axes[1].taps * axes[1].stride, window = axes[0].taps * axes[0].stride * row;
    const int64_t dims[] = { channels, in, axes[0].taps, axes[0].stride, axes[1].taps, axes[1].stride };
    const int64_t strides[] = { window, channels * window, axes[0].stride * row, row, axes[1].stride, 1 };
    tensor_layout plain, packed;

    layout_strides(&plain, 6, dims, strides);
    if (!layout_blocks(&packed, 6, dims, "dfAceb32a"))
        return inlay_fail(build->diag, INLAY_INTERNAL, "node '%s': no layout for its weights", build->op->name);
    return cpu_read_constant(build, build->op->in[1], &plain, &packed, out);
}

/* Emits the convolution of outputs (i * stride + row, j * stride + column). */
static inlay_status emit_phase(cpu_build *build, const phase_axis axes[2], int64_t row, int64_t column,
                               const tile_epilogue *epilogue, const cpu_place *const *places, uint32_t count)
{
    const phase_axis *high = &axes[0], *wide = &axes[1];
    const int64_t in = build->dims[build->op->in[0]][1], channels = build->dims[build->op->out[0]][1],
                  x_row = (wide->before + wide->in + wide->after) * in,
                  y_pixel = tiles_pixel_step(&places[TILES_Y]->layout), y_row = wide->out * y_pixel;
    const int64_t phase_floats = (channels + TILE_WIDTH - 1) / TILE_WIDTH * TILE_WIDTH * high->taps * wide->taps * in;
    const int64_t residues[] = { (row + high->begin) % high->stride, (column + wide->begin) % wide->stride };
    cpu_place weights = *places[TILES_W], output = *places[TILES_Y];
    const cpu_place *moved[TILES_OPERANDS + 2] = { places[TILES_X], &weights, &output };
    const tiles_window window = { .images = build->dims[build->op->in[0]][0],
                                  .rows = outputs_of(high, row),
                                  .columns = outputs_of(wide, column),
                                  .channels = channels,
                                  .in = { (high->before + high->in + high->after) * x_row, x_row, in },
                                  .out = { high->out * y_row, high->stride * y_row, wide->stride * y_pixel },
                                  .depth = in,
                                  .tap_rows = high->taps,
                                  .tap_columns = wide->taps,
                                  .first_tap = (high->before + first_of(high, row)) * x_row +
                                               (wide->before + first_of(wide, column)) * in,
                                  .tap_row = -x_row,
                                  .tap_column = -in };

    INLAY_CHECK(count <= TILES_OPERANDS + 1);
    for (uint32_t i = TILES_OPERANDS; i < count; i++)
        moved[i] = places[i];
    if (window.rows == 0 || window.columns == 0)
        return INLAY_OK;
    weights.offset += (uint64_t)((residues[0] * wide->stride + residues[1]) * phase_floats) * sizeof(float);
    output.offset += (uint64_t)(row * y_row + column * y_pixel) * sizeof(float);
    return tiles_emit_direct(build, &window, epilogue, moved, count);
}

/* Reads the input with its border, channels-last. */
static inlay_status read_input(cpu_build *build, const phase_axis axes[2], cpu_place *out)
{
    const cpu_op *op = build->op;
    kernel_conv_shape window = { .images = build->dims[op->in[0]][0],
                                 .in = build->dims[op->in[0]][1],
                                 .height = axes[0].in,
                                 .width = axes[1].in,
                                 .begin = { axes[0].before, axes[1].before },
                                 .end = { axes[0].after, axes[1].after } };
    const bool padded = axes[0].before > 0 || axes[0].after > 0 || axes[1].before > 0 || axes[1].after > 0;
    inlay_status status = cpu_read(build, op->in[0], out);

    if (status == INLAY_OK && (padded || !layout_is_image(&out->layout)))
        status = tiles_add_border(build, &window, out);
    return status;
}

inlay_status transposed_lower_phases(cpu_build *build, const cpu_group *group, bool *out_done)
{
    const cpu_op *op = build->op;
    const uint32_t bias_value = op->in_count > 2 && op->in[2] != INLAY_NONE ? op->in[2] : group->bias;
    cpu_place input, weights, output, bias;
    const cpu_place *places[TILES_OPERANDS + 1] = { &input, &weights, &output, &bias };
    uint32_t count = TILES_OPERANDS, posts;
    bool in_slice = false;
    tile_epilogue epilogue;
    phase_axis axes[2];
    tensor_layout layout;
    inlay_status status;

    *out_done = false;
    if (!describe(build, axes))
        return INLAY_OK;
    *out_done = true;
    INLAY_TRY(read_input(build, axes, &input));
    INLAY_TRY(read_weights(build, axes, &weights));
    posts = tiles_fuse_unary(group, &epilogue);
    if (bias_value != INLAY_NONE) {
        INLAY_TRY(cpu_read_floats(build, bias_value, build->dims[op->out[0]][1], &bias));
        epilogue.bias = count++;
    }
    if (posts == group->post_count)
        INLAY_TRY(tiles_concat_slice(build, group->out, &output, &in_slice));
    layout_channels_last(&layout, build->ranks[op->out[0]], build->dims[op->out[0]]);
    if (!in_slice)
        INLAY_TRY(cpu_step_result_place(build, group, posts, &layout, &output));
    for (int64_t row = 0; row < axes[0].stride; row++)
        for (int64_t column = 0; column < axes[1].stride; column++)
            INLAY_TRY(emit_phase(build, axes, row, column, &epilogue, places, count));
    status = cpu_finish(build, group, posts, &output, true);
done:
    return status;
}
