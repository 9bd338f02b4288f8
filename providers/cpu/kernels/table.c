/* The table of kernels: where each can run, what it is expected to take, and how it is lowered. */
#include "choice/kernels.h"
#include "convolution/library.h"
#include "convolution/tiles.h"
#include "simd/cpu.h"

/* Tiles multiply by the zeros of the border; oneDNN's loops leave taps outside the image out. */
static const double TRANSFORM_NS = 0.25;
static const double LEAST_INSIDE = 0.7, LEAST_SPARING = 0.3;

bool kn_has_tiles(const rg_build *build, const kn_case *layer)
{
    return build->state->tiles != NULL && build->state->sgemm != NULL && layer->window.group == 1 && layer->window.flat;
}

/* oneDNN's kernels describe each column of an image while they are made: a second and hundreds of megabytes for some
 * 250000 of them, and all memory for a hundred million. Tiles take nearly the same time in such a layer, and the same
 * where there is one row. */
static bool is_wide(const rg_build *build, const kn_case *layer)
{
    const int64_t without_tiles = 1 << 16;
    const uint32_t y = build->op->out[0];
    const int64_t width = layer->window.flat ? layer->window.out_width : build->dims[y][build->ranks[y] - 1];

    return width > (!kn_has_tiles(build, layer) ? without_tiles : layer->window.out_height == 1 ? 256 : 1024);
}

static bool tiles_run(rg_build *build, const rg_group *group, const kn_case *layer, const char **out_why)
{
    (void)group, (void)out_why;
    return kn_has_tiles(build, layer) &&
           (build->state->reproducible || build->state->strict || is_wide(build, layer) ||
            layer->window.share >= (build->spares_library ? LEAST_SPARING : LEAST_INSIDE));
}

static inlay_status tiles_direct(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done)
{
    *out_done = true;
    return tiles_lower(build, group, layer, TILES_WRITTEN);
}

/* A product of pixels by channels; windows are laid out in rows first. */
static bool gemm_runs(rg_build *build, const rg_group *group, const kn_case *layer, const char **out_why)
{
    int64_t first;

    (void)group, (void)out_why;
    return kn_has_tiles(build, layer) &&
           kn_trimmed(&layer->window, &first).share >= (cpu_has(CPU_AVX512) ? LEAST_INSIDE : 0) &&
           build->scales[build->op->in[0]] == INLAY_NONE;
}

bool kn_is_narrow(const rg_build *build)
{
    const uint32_t k = build->op->in_count > 1 ? build->compiled->values[build->op->in[1]].constant : INLAY_NONE;

    return k != INLAY_NONE && build->compiled->constants[k].narrow != NULL;
}

bool kn_pairs_wanted(const rg_build *build, const char **out_why)
{
    if (build->state->pairs && build->compiled->as_written)
        *out_why = "what DynamicQuantizeLinear rounds is summed as written";
    return build->state->pairs && !build->compiled->as_written && !kn_is_narrow(build);
}

static bool pairs_run_here(rg_build *build, const rg_group *group, const kn_case *layer, const char **out_why)
{
    return kn_pairs_wanted(build, out_why) && layer->window.share >= LEAST_INSIDE &&
           gemm_runs(build, group, layer, out_why);
}

static inlay_status in_pairs(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done)
{
    *out_done = true;
    return tiles_lower(build, group, layer, TILES_PAIRS);
}

/* Is this what Winograd's algorithm is for? */
static bool is_window(const rg_build *build, const kn_case *layer, const char **out_why)
{
    const kn_window *window = &layer->window;

    if (!window->flat || build->op->window.spatial != 2 || window->group != 1 || window->kernel[0] != 3 ||
        window->kernel[1] != 3 || window->stride[0] != 1 || window->stride[1] != 1 || window->dilation[0] != 1 ||
        window->dilation[1] != 1 || window->in < 16 || window->out < 16)
        return false;
    if (!build->state->winograd)
        *out_why = build->state->strict ? "precision strict is without Winograd's algorithm"
                                        : "option winograd forbids Winograd's algorithm";
    return build->state->winograd;
}

static bool windows_run(const rg_build *build, const kn_case *layer, int64_t points, const char **out_why)
{
    int64_t side =
        layer->window.out_height < layer->window.out_width ? layer->window.out_height : layer->window.out_width;

    return kn_has_tiles(build, layer) && is_window(build, layer, out_why) && layer->window.share >= LEAST_INSIDE &&
           layer->window.in <= TILE_CHANNELS && side >= points - 2 && build->scales[build->op->in[0]] == INLAY_NONE;
}

static bool windows_4_run(rg_build *build, const rg_group *group, const kn_case *layer, const char **out_why)
{
    (void)group;
    return windows_run(build, layer, 6, out_why);
}

static bool windows_2_run(rg_build *build, const rg_group *group, const kn_case *layer, const char **out_why)
{
    (void)group;
    return windows_run(build, layer, 4, out_why);
}

/* Narrow weights are transformed in each run, as many numbers as there are points for nine. */
static double transform_ns(const rg_build *build, const kn_case *layer, double points)
{
    return kn_is_narrow(build) ? (double)(layer->window.in * layer->window.out) * points * TRANSFORM_NS / KN_THREADS
                               : 0;
}

static double windows_4_ns(const rg_build *build, const rg_group *group, const kn_case *layer)
{
    (void)group;
    return kn_windows_ns(layer, 6) + transform_ns(build, layer, 36);
}

static double windows_2_ns(const rg_build *build, const rg_group *group, const kn_case *layer)
{
    (void)group;
    return kn_windows_ns(layer, 4) + transform_ns(build, layer, 16);
}

static inlay_status windows_4(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done)
{
    *out_done = true;
    return tiles_lower(build, group, layer, 6);
}

static inlay_status windows_2(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done)
{
    *out_done = true;
    return tiles_lower(build, group, layer, 4);
}

/* Factors that wait for a convolution to take them into its weights are for tiles, and so is an input that waits. */
bool kn_is_whole(const rg_build *build)
{
    return build->scales[build->op->in[0]] == INLAY_NONE && build->ahead[build->op->in[0]] == NULL;
}

static bool library_runs(rg_build *build, const rg_group *group, const kn_case *layer, const char **out_why)
{
    (void)group;
    if (is_wide(build, layer)) {
        *out_why = "oneDNN takes long to prepare for rows of that length";
        return false;
    }
    return kn_is_whole(build) && !build->state->alone;
}

static bool blocks_run(rg_build *build, const rg_group *group, const kn_case *layer, const char **out_why)
{
    (void)group, (void)out_why;
    return kn_is_whole(build) && !build->state->alone && rg_md_is_blocked(&layer->input.md) && !is_wide(build, layer);
}

static bool library_winograd_runs(rg_build *build, const rg_group *group, const kn_case *layer, const char **out_why)
{
    (void)group;
    return dn_has_winograd() && build->state->fast && kn_is_whole(build) && !kn_is_narrow(build) &&
           is_window(build, layer, out_why) && tiles_of_cpu() != NULL &&
           rg_winograd_gain(build->op, layer->window.in, layer->window.out, layer->window.out_height,
                            layer->window.out_width) > 0;
}

static inlay_status library(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done)
{
    return lib_lower(build, group, layer, LIB_AS_LIKED, out_done);
}

static inlay_status blocks(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done)
{
    return lib_lower(build, group, layer, LIB_AS_IT_LIES, out_done);
}

static inlay_status library_winograd(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done)
{
    return lib_lower(build, group, layer, LIB_WINOGRAD, out_done);
}

/* Groups by loops of our own, where oneDNN has none to speak of, or where the option asks for them. Planes of one
 * channel a group it has. */
static bool groups_run(rg_build *build, const rg_group *group, const kn_case *layer, const char **out_why)
{
    const bool depthwise = build->op->window.spatial == 2 && layer->window.in == layer->window.group &&
                           layer->window.out == layer->window.group;
    const bool wanted = build->state->strict || build->state->alone || build->state->kernel == KN_GROUPS;

    (void)out_why;
    return layer->window.group > 1 && !depthwise && build->state->tiles != NULL &&
           (wanted || lib_unfolds(build, group, layer));
}

static double groups_ns(const rg_build *build, const rg_group *group, const kn_case *layer)
{
    return kn_library_ns(build, group, layer) / 2;
}

static inlay_status groups(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done)
{
    return rg_lower_groups(build, group, &layer->weights, layer->bias_value, out_done);
}

static bool channels_run(rg_build *build, const rg_group *group, const kn_case *layer, const char **out_why)
{
    (void)group, (void)out_why;
    return depthwise_runs(build, layer);
}

static inlay_status channels(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done)
{
    *out_done = true;
    return tiles_lower(build, group, layer, TILES_DEPTHWISE);
}

/* Single channels of an image that lies row by row. */
static bool planes_run_here(rg_build *build, const rg_group *group, const kn_case *layer, const char **out_why)
{
    (void)group, (void)out_why;
    return planes_run(build, layer);
}

static inlay_status planes(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done)
{
    *out_done = true;
    return planes_lower(build, group, layer);
}

/* Products of weights and windows of an image that lies row by row. */
static bool rows_run(rg_build *build, const rg_group *group, const kn_case *layer, const char **out_why)
{
    (void)out_why;
    return conv_rows_run(build, group, layer);
}

static inlay_status rows(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done)
{
    *out_done = true;
    return conv_rows_lower(build, group, layer);
}

static inlay_status gemm(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done)
{
    *out_done = true;
    return tiles_lower(build, group, layer, TILES_GEMM);
}

#define OWN_GATE 1.7
#define LIBRARY_GATE 3.7

/* Of equals the first is taken. */
/* Lowered by what has such weights (nbits.c). */
static bool never_runs(rg_build *build, const rg_group *group, const kn_case *layer, const char **out_why)
{
    (void)build, (void)group, (void)layer, (void)out_why;
    return false;
}

const kn_kernel kn_kernels[KN_COUNT] = {
    [KN_TILES] = { "tiles", 0, tiles_run, kn_tiles_ns, tiles_direct, OWN_GATE, true },
    [KN_WINOGRAD_4] = { "winograd_4x4", 6, windows_4_run, windows_4_ns, windows_4, OWN_GATE, false },
    [KN_WINOGRAD_2] = { "winograd_2x2", 4, windows_2_run, windows_2_ns, windows_2, OWN_GATE, false },
    [KN_DEPTHWISE] = { "depthwise", 0, channels_run, kn_depthwise_ns, channels, OWN_GATE, true },
    [KN_PLANES] = { "planes", 0, planes_run_here, kn_planes_ns, planes, OWN_GATE, true },
    [KN_ROWS] = { "rows", 0, rows_run, kn_rows_ns, rows, OWN_GATE, true },
    [KN_GROUPS] = { "groups", 0, groups_run, groups_ns, groups, LIBRARY_GATE, true },
    [KN_BLOCKS] = { "library_blocked", 0, blocks_run, kn_blocks_ns, blocks, LIBRARY_GATE, false },
    [KN_LIBRARY] = { "library", 0, library_runs, kn_library_ns, library, LIBRARY_GATE, false },
    /* oneDNN's has the points of ours: the error is taken to be the same. It has no guard: precision fast alone. */
    [KN_LIBRARY_WINOGRAD] = { "library_winograd", 6, library_winograd_runs, kn_library_winograd_ns, library_winograd,
                              LIBRARY_GATE, false },
    [KN_GEMM] = { "gemm", 0, gemm_runs, kn_gemm_ns, gemm, OWN_GATE, true },
    [KN_PAIRS] = { "pairs", 0, pairs_run_here, kn_pairs_ns, in_pairs, OWN_GATE, false },
    [KN_PACKED] = { "packed", 0, kn_packed_runs, kn_packed_ns, kn_packed, 0, true },
    [KN_PAIRED] = { "packed_pairs", 0, kn_paired_runs, kn_paired_ns, kn_paired, 0, false },
    [KN_SPARSE] = { "packed_sparse", 0, kn_sparse_runs, kn_sparse_ns, kn_sparse, 0, false },
    [KN_INNER] = { "inner_product", 0, kn_inner_runs, kn_inner_ns, kn_inner, 0, false },
    [KN_PLAIN] = { "plain", 0, kn_plain_runs, kn_plain_ns, kn_plain, 0, false },
    [KN_BATCHED] = { "batched", 0, kn_batched_runs, kn_batched_ns, kn_batched, 0, true },
    [KN_MATMUL] = { "matmul", 0, kn_matmul_runs, kn_matmul_ns, kn_matmul, 0, false },
    [KN_BITS_EXACT] = { "bits_exact", 0, never_runs, NULL, NULL, 0, true },
    [KN_BITS_BYTE] = { "bits_byte", 0, never_runs, NULL, NULL, 0, false },
    [KN_BITS_FINE] = { "bits_fine", 0, never_runs, NULL, NULL, 0, false },
    [KN_BYTES_TILES] = { "bytes_tiles", 0, never_runs, NULL, NULL, 0, true },
    [KN_BYTES_CHANNELS] = { "bytes_depthwise", 0, never_runs, NULL, NULL, 0, true },
    [KN_BYTES_LIBRARY] = { "bytes_library", 0, never_runs, NULL, NULL, 0, true },
    [KN_BYTES_ROWS] = { "bytes_rows", 0, never_runs, NULL, NULL, 0, true },
};
