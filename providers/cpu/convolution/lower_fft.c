/* Convolutions of row-major images by the fast Fourier transform (fft_conv.c): the choice of blocks, the condition, and
 * the lowering. */
#include "cpu/convolution/fft_conv.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include "simd/optional.h"
#include <math.h>

/* Programs of `inlay bundle` omit these. */
OPTIONAL_IF_CALLED(fft_lower);

enum {
    LEAST_TAPS = 64,
    NEAR_BLOCK = 16 * 1024,       /* floats: the filters of larger blocks do not stay in the nearest caches */
    SLICE = 16,                   /* pairs of blocks that share the transform of a filter */
    ALONE_SLICE = 8,              /* the same in groups of one input channel */
    SPECTRA_FLOATS = 4 << 20,     /* of a slice: fewer pairs if they would have more */
    MOST_SPECTRA_FLOATS = 1 << 24 /* of one pair */
};

static bool is_line(const kernel_conv_shape *window)
{
    return window->height == 1 && window->out_height == 1 && window->kernel[0] == 1;
}

/* Time, in nanoseconds on one core with AVX-512, of the convolution with blocks of this size. */
static double cut_ns(const kernel_conv_shape *window, int64_t rows, int64_t columns, fft_cut *cut)
{
    /* for each record of a block: a transform, for each factor 2 of the points, and that of a filter, which is mostly
     * zeros; copies to and from the image, and the guard; a product */
    const double step = 0.75, filter_step = 0.8, rest = 2.2, start = 150, near_product = 1.5, far_product = 3;
    const double in = (double)(window->in / window->group), out = (double)(window->out / window->group),
                 records = (double)(rows * columns) / FFT_LANES;
    const double factors = log2((double)(rows * columns));
    const double transform = start + records * (rest + step * factors), filter = records * filter_step * factors;
    const int64_t block_floats = rows * fft_row_floats(columns);
    const double product = block_floats > NEAR_BLOCK ? far_product : near_product;
    int64_t most = (int64_t)((double)SPECTRA_FLOATS / ((double)block_floats * in));

    *cut = (fft_cut){ .rows = rows, .columns = columns, .alone = window->in == window->group };
    cut->valid[0] = is_line(window) ? 1 : rows - window->kernel[0] + 1;
    cut->valid[1] = (is_line(window) ? rows * columns : columns) - window->kernel[1] + 1;
    if (cut->valid[0] < 1 || cut->valid[1] < 1 || (double)block_floats * in > MOST_SPECTRA_FLOATS)
        return INFINITY;
    cut->across = (window->out_width + cut->valid[1] - 1) / cut->valid[1];
    cut->blocks = (window->out_height + cut->valid[0] - 1) / cut->valid[0] * cut->across;
    cut->pairs = (cut->blocks + 1) / 2;
    cut->slice = cut->alone ? ALONE_SLICE : most < 1 ? 1 : most < SLICE ? most : SLICE;
    cut->slices = (cut->pairs + cut->slice - 1) / cut->slice;
    cut->slice = (cut->pairs + cut->slices - 1) / cut->slices;
    cut->inputs = in < FFT_INPUTS ? (int64_t)in : FFT_INPUTS;
    cut->filters = out < FFT_FILTERS ? (int64_t)out : FFT_FILTERS;
    cut->kept = in > FFT_INPUTS ? cut->slice : 1;
    return (double)(window->images * window->group) *
           ((double)cut->pairs * ((in + out) * transform + in * out * records * product) +
            (double)cut->slices * in * out * filter);
}

double fft_find_cut(const kernel_conv_shape *window, fft_cut *out)
{
    double best = INFINITY;

    *out = (fft_cut){ 0 };
    for (int64_t rows = FFT_LEAST; rows <= FFT_MOST; rows *= 2)
        for (int64_t columns = FFT_LEAST; columns <= FFT_MOST; columns *= 2) {
            fft_cut cut;
            const double ns = cut_ns(window, rows, columns, &cut);

            if (ns < best) {
                best = ns;
                *out = cut;
            }
        }
    return best;
}

bool fft_applies(const kernel_conv_shape *window)
{
    fft_cut cut;

    if (!window->flat || window->kernel[0] * window->kernel[1] < LEAST_TAPS || window->in < window->group ||
        window->out < window->group)
        return false;
    for (int i = 0; i < 2; i++) /* cells of the guard are inside the receptive field of each result */
        if (window->stride[i] != 1 || window->dilation[i] != 1 || window->begin[i] < 0 || window->end[i] < 0 ||
            window->begin[i] > window->kernel[i] / 2 || window->end[i] > window->kernel[i] / 2)
            return false;
    return isfinite(fft_find_cut(window, &cut));
}

bool fft_runs(const cpu_build *build, const kernel_layer *layer, const char **out_why)
{
    if (build->state->reproducible || layer->window.in_concat || !kernel_input_is_ready(build) ||
        kernel_weights_are_low_bit(build) || !fft_applies(&layer->window))
        return false;
    if (!build->state->winograd)
        *out_why = build->state->strict ? "precision strict excludes convolution by FFT"
                                        : "option winograd forbids convolution by FFT";
    return build->state->winograd;
}

static void make_factors(fft_conv *conv)
{
    const double pi = 3.14159265358979323846;
    const int64_t rows = conv->block.rows, columns = conv->block.columns;

    for (int i = 0; i < FFT_MOST; i++) {
        conv->block.factors[2 * i] = (float)cos(-2 * pi * i / FFT_MOST);
        conv->block.factors[2 * i + 1] = (float)sin(-2 * pi * i / FFT_MOST);
    }
    if (!is_line(&conv->window))
        return;
    conv->block.twist = conv->twist;
    for (int64_t row = 0; row < rows; row++) {
        /* the frequency in this row: digits of base 4, the last of base 2 if needed, in reverse */
        int64_t frequency = 0, weight = 1, left = row;

        for (int64_t points = rows; points > 1;) {
            const int64_t radix = points >= 4 ? 4 : 2;

            points /= radix;
            frequency += left / points * weight;
            left %= points;
            weight *= radix;
        }
        for (int64_t column = 0; column < columns; column++) {
            const double angle = -2 * pi * (double)(frequency * column) / (double)(rows * columns);
            float *at = conv->twist + row * 2 * columns + column / FFT_LANES * 2 * FFT_LANES + column % FFT_LANES;

            at[0] = (float)cos(angle);
            at[FFT_LANES] = (float)sin(angle);
        }
    }
}

/* Sets the sizes of the scratch memory: first a slice's spectra that threads share, then the memory of each worker.
 * Groups of one input channel have their spectra in the memory of each worker. */
static int64_t plan_memory(fft_conv *conv)
{
    const fft_cut *cut = &conv->cut;
    const kernel_conv_shape *window = &conv->window;
    const int64_t spectra = cut->slice * (window->in * fft_block_floats(&conv->block) + FFT_LANES);
    const int64_t direct =
        (cut->valid[0] + window->kernel[0] - 1) * (cut->valid[1] + window->kernel[1] - 1 + FFT_SPARE) +
        PLANES_ROWS * (cut->valid[1] + FFT_SPARE);
    const int64_t cells = 2 * (cut->valid[1] + window->kernel[1]);

    conv->block_floats = fft_block_floats(&conv->block);
    conv->work_floats = ((direct > cells ? direct : cells) + FFT_LANES - 1) / FFT_LANES * FFT_LANES;
    conv->worker_floats = conv->work_floats + (1 + cut->filters * (cut->inputs + cut->kept)) * conv->block_floats +
                          (cut->alone ? spectra : 0);
    conv->slice_floats = cut->alone ? 0 : spectra;
    return conv->slice_floats + conv->workers * conv->worker_floats;
}

static inlay_status make_conv(cpu_build *build, const kernel_layer *layer, fft_conv **out)
{
    cpu_constant *constant = &build->compiled->constants[build->compiled->values[build->op->in[1]].constant];
    tensor_layout filters;
    fft_cut cut;
    fft_conv *conv;

    (void)fft_find_cut(&layer->window, &cut);
    INLAY_CHECK(cut.rows > 0);
    conv = cpu_new_native(build, sizeof *conv + (is_line(&layer->window) ? 2 * (size_t)(cut.rows * cut.columns) : 0) *
                                                    sizeof *conv->twist);
    if (conv == NULL)
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", build->op->name);
    conv->native.run = fft_conv_run;
    conv->set = KERNEL_BEST(fft_blocks);
    conv->planes = KERNEL_BEST(planes);
    conv->window = layer->window;
    conv->window.in /= conv->window.group;
    conv->window.out /= conv->window.group;
    conv->cut = cut;
    conv->fast = build->state->fast;
    conv->workers = build->instance->threads > 0 ? build->instance->threads : 1;
    conv->block.rows = cut.rows;
    conv->block.columns = cut.columns;
    for (int i = 0; i < 2; i++) {
        /* at most half the kernel, and the last cell of the image is not much smaller */
        const int64_t size = i == 0 ? conv->window.height : conv->window.width, half = (conv->window.kernel[i] + 1) / 2,
                      cells = (size + half - 1) / half;

        conv->cell[i] = (size + cells - 1) / cells;
    }
    make_factors(conv);
    *out = conv;
    kernel_filters(&layer->window, &filters);
    return cpu_constant_accuracy(build->compiled, constant, &filters, FFT_POINTS, fft_measure_accuracy, &conv->accuracy,
                                 build->diag);
}

inlay_status fft_lower(cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    const cpu_op *op = build->op;
    tile_epilogue epilogue = { 0 };
    cpu_place input, weights, output, bias, scratch;
    const cpu_place *places[FFT_BIAS + 2] = { &input, &weights, &output };
    fft_conv *conv = NULL;
    inlay_status status;
    uint32_t posts, count = FFT_BIAS;
    tensor_layout layout;

    INLAY_TRY(make_conv(build, layer, &conv));
    INLAY_TRY(cpu_read_plain(build, op->in[0], &input));
    layout_plain(&layout, (uint32_t)layer->weights.rank, layer->weights.dims);
    INLAY_TRY(cpu_read_constant(build, op->in[1], &layer->weights, &layout, &weights));
    conv->biased = layer->bias_value != INLAY_NONE;
    if (conv->biased) {
        INLAY_TRY(cpu_read_floats(build, layer->bias_value, layer->window.out, &bias));
        places[count++] = &bias;
    }
    posts = group->post_count > 0 && group->posts[0].kind == CPU_POST_UNARY &&
            tiles_fuse_clamp(&group->posts[0].unary, &epilogue);
    conv->clamp = epilogue.clamp;
    conv->low = epilogue.low;
    conv->high = epilogue.high;
    INLAY_TRY(cpu_new_floats(build, plan_memory(conv), &scratch));
    conv->scratch = count;
    places[count++] = &scratch;
    layout_plain(&layout, build->ranks[op->out[0]], build->dims[op->out[0]]);
    INLAY_TRY(cpu_step_result_place(build, group, posts, &layout, &output));
    INLAY_TRY(cpu_emit_native(build, &conv->native, places, count));
    status = cpu_finish(build, group, posts, &output, true);
done:
    return status;
}
