/* The table of kernels: conditions, models of time and lowerings. */
#include "cpu/kernels/table.h"
#include "cpu/matrix/terms.h"
#include "cpu/product/product.h"
#include "cpu/convolution/tiles.h"

/* Minimum share of kernel taps inside the image for Winograd's algorithm, which multiplies by the zeros of the
 * border. */
static const double LEAST_INSIDE = 0.7;

bool kernel_has_tiles(const cpu_state *state, const kernel_conv_shape *window)
{
    return state->tiles != NULL && state->sgemm != NULL && window->group == 1 && window->flat;
}

static bool tiles_run(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why)
{
    (void)group, (void)out_why;
    return kernel_has_tiles(build->state, &layer->window);
}

static inlay_status tiles_direct(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done)
{
    *out_done = true;
    return tiles_lower(build, group, layer, TILES_DIRECT);
}

/* A GEMM of pixels by channels; receptive fields are unfolded (im2col) first. */
static bool gemm_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why)
{
    (void)group, (void)out_why;
    return kernel_has_tiles(build->state, &layer->window) && build->scales[build->op->in[0]] == INLAY_NONE;
}

static bool gemm_terms_run(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why)
{
    return gemm_runs(build, group, layer, out_why) && terms_of_cpu() != NULL && !kernel_weights_are_low_bit(build);
}

/* True if Winograd's algorithm applies: 3x3, stride 1, no dilation, no groups. */
static bool winograd_applies(const kernel_conv_shape *window)
{
    return window->flat && window->group == 1 && window->kernel[0] == 3 && window->kernel[1] == 3 &&
           window->stride[0] == 1 && window->stride[1] == 1 && window->dilation[0] == 1 && window->dilation[1] == 1 &&
           window->in >= 16 && window->out >= 16;
}

static bool winograd_fits(const cpu_state *state, const kernel_conv_shape *window, int64_t points)
{
    const int64_t side = window->out_height < window->out_width ? window->out_height : window->out_width;

    return kernel_has_tiles(state, window) && winograd_applies(window) && state->winograd &&
           window->share >= LEAST_INSIDE && window->in <= TILE_CHANNELS && side >= points - 2;
}

static bool winograd_4_fits(const cpu_state *state, const kernel_conv_shape *window)
{
    return winograd_fits(state, window, 6);
}

static bool winograd_2_fits(const cpu_state *state, const kernel_conv_shape *window)
{
    return winograd_fits(state, window, 4);
}

static bool winograd_runs(const cpu_build *build, const kernel_layer *layer, int64_t points, const char **out_why)
{
    if (kernel_has_tiles(build->state, &layer->window) && winograd_applies(&layer->window) && !build->state->winograd)
        *out_why = build->state->strict ? "precision strict excludes Winograd's algorithm"
                                        : "option winograd forbids Winograd's algorithm";
    return winograd_fits(build->state, &layer->window, points) && build->scales[build->op->in[0]] == INLAY_NONE;
}

static bool winograd_4_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why)
{
    (void)group;
    return winograd_runs(build, layer, 6, out_why);
}

static bool winograd_2_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why)
{
    (void)group;
    return winograd_runs(build, layer, 4, out_why);
}

static inlay_status winograd_4(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done)
{
    *out_done = true;
    return tiles_lower(build, group, layer, 6);
}

static inlay_status winograd_2(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done)
{
    *out_done = true;
    return tiles_lower(build, group, layer, 4);
}

/* Group convolution, other than depthwise. */
static bool groups_fit(const cpu_state *state, const kernel_conv_shape *window)
{
    return window->group > 1 && state->tiles != NULL && !depthwise_fits(state, window);
}

static bool groups_run(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why)
{
    const bool depthwise = build->op->window.spatial == 2 && layer->window.in == layer->window.group &&
                           layer->window.out == layer->window.group;
    (void)group, (void)out_why;
    return layer->window.group > 1 && !depthwise && build->state->tiles != NULL;
}

static inlay_status groups(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done)
{
    if (depthwise_fits_groups(build->state, &layer->window)) {
        *out_done = true;
        return tiles_lower(build, group, layer, TILES_DEPTHWISE);
    }
    return cpu_lower_groups(build, group, layer, out_done);
}

static bool depthwise_can_run(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why)
{
    (void)group, (void)out_why;
    return depthwise_fits(build->state, &layer->window);
}

static inlay_status depthwise_lower(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done)
{
    *out_done = true;
    return tiles_lower(build, group, layer, TILES_DEPTHWISE);
}

/* Depthwise convolution of a row-major image. */
static bool planes_run_here(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why)
{
    (void)group, (void)out_why;
    return planes_run(build, layer);
}

static inlay_status planes(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done)
{
    *out_done = true;
    return planes_lower(build, group, layer);
}

/* GEMM with receptive fields of a row-major image. */
static bool rows_run(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why)
{
    (void)out_why;
    return conv_rows_run(build, group, layer);
}

static inlay_status rows(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done)
{
    *out_done = true;
    return conv_rows_lower(build, group, layer);
}

static bool fft_fits(const cpu_state *state, const kernel_conv_shape *window)
{
    return !state->reproducible && state->winograd && fft_applies(window);
}

static bool fft_can_run(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why)
{
    (void)group;
    return fft_runs(build, layer, out_why);
}

static inlay_status fft(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done)
{
    *out_done = true;
    return fft_lower(build, group, layer);
}

static inlay_status gemm(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done)
{
    *out_done = true;
    return tiles_lower(build, group, layer, TILES_GEMM);
}

static inlay_status gemm_terms(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done)
{
    *out_done = true;
    return tiles_lower(build, group, layer, TILES_TERMS);
}

#define BUILTIN_GATE 1.7
#define GROUPS_GATE 3.7

/* Kernels of low-bit and int8 weights: their lowerings (lower_nbits.c, quant_conv.c) assign them. */
static bool never_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why)
{
    (void)build, (void)group, (void)layer, (void)out_why;
    return false;
}

/* Of kernels with equal times the first is taken. */
const kernel_entry kernel_table[KERNEL_COUNT] = {
    [KERNEL_TILES] = { "tiles", 0, kernel_has_tiles, tiles_run, kernel_tiles_ns, NULL, tiles_direct, BUILTIN_GATE,
                       .is_strict = true, .defer = kernel_defer },
    [KERNEL_WINOGRAD_4] = { "winograd_4x4", 6, winograd_4_fits, winograd_4_runs, kernel_winograd_4_ns, NULL, winograd_4,
                            BUILTIN_GATE, .is_strict = false, .measure = winograd_measure_accuracy },
    [KERNEL_WINOGRAD_2] = { "winograd_2x2", 4, winograd_2_fits, winograd_2_runs, kernel_winograd_2_ns, NULL, winograd_2,
                            BUILTIN_GATE, .is_strict = false, .measure = winograd_measure_accuracy },
    [KERNEL_DEPTHWISE] = { "depthwise", 0, depthwise_fits, depthwise_can_run, kernel_depthwise_ns, NULL,
                           depthwise_lower, BUILTIN_GATE, .is_strict = true },
    [KERNEL_PLANES] = { "planes", 0, planes_fit, planes_run_here, kernel_planes_ns, NULL, planes, BUILTIN_GATE,
                        .is_strict = true },
    [KERNEL_ROWS] = { "rows", 0, conv_rows_fit, rows_run, kernel_rows_ns, NULL, rows, BUILTIN_GATE, .is_strict = true },
    [KERNEL_FFT] = { "fft", FFT_POINTS, fft_fits, fft_can_run, kernel_fft_ns, NULL, fft, BUILTIN_GATE,
                     .is_strict = false, .measure = fft_measure_accuracy },
    [KERNEL_GROUPS] = { "groups", 0, groups_fit, groups_run, kernel_groups_ns, NULL, groups, GROUPS_GATE,
                        .is_strict = true },
    [KERNEL_GEMM] = { "gemm", 0, kernel_has_tiles, gemm_runs, kernel_gemm_ns, NULL, gemm, BUILTIN_GATE,
                      .is_strict = true },
    [KERNEL_GEMM_TERMS] = { "gemm_terms", 0, NULL, gemm_terms_run, NULL, kernel_gemm_terms_ns, gemm_terms, BUILTIN_GATE,
                            .is_strict = true },
    [KERNEL_PACKED] = { "packed", 0, NULL, kernel_packed_runs, NULL, kernel_packed_ns, kernel_packed, 0,
                        .is_strict = true },
    [KERNEL_TERMS] = { "packed_terms", 0, NULL, kernel_terms_run, NULL, kernel_terms_ns, kernel_terms, 0,
                       .is_strict = true },
    [KERNEL_SPARSE] = { "packed_sparse", 0, NULL, kernel_sparse_runs, NULL, kernel_sparse_ns, kernel_sparse, 0,
                        .is_strict = false },
    [KERNEL_BATCHED] = { "batched", 0, NULL, kernel_batched_runs, NULL, kernel_batched_ns, kernel_batched, 0,
                         .is_strict = true },
    [KERNEL_BITS_EXACT] = { "bits_exact", 0, NULL, never_runs, NULL, NULL, NULL, 0, .is_strict = true },
    [KERNEL_BITS_BYTE] = { "bits_byte", 0, NULL, never_runs, NULL, NULL, NULL, 0, .is_strict = false },
    [KERNEL_BITS_FINE] = { "bits_fine", 0, NULL, never_runs, NULL, NULL, NULL, 0, .is_strict = false },
    [KERNEL_BYTES_TILES] = { "bytes_tiles", 0, NULL, never_runs, NULL, NULL, NULL, 0, .is_strict = true },
    [KERNEL_BYTES_CHANNELS] = { "bytes_depthwise", 0, NULL, never_runs, NULL, NULL, NULL, 0, .is_strict = true },
    [KERNEL_BYTES_ROWS] = { "bytes_rows", 0, NULL, never_runs, NULL, NULL, NULL, 0, .is_strict = true },
};
