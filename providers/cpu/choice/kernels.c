/* Convolutions and products: the table of kernels, and the choice. */
#include "choice/kernels.h"
#include "convolution/library.h"
#include "convolution/tiles.h"
#include <float.h>

/* ------------------------------------------------------------------ the convolution in hand */

void kn_measure(const rg_build *b, const rg_op *op, kn_window *g)
{
    const int64_t *x = b->dims[op->in[0]], *y = b->dims[op->out[0]];
    const bool linear = op->row->family == &rg_int8_conv && op->in_count > 4; /* scale and zero point of x first */
    uint32_t n = op->spatial, o = 2 - n;
    dn_dims begins, ends;

    *g = (kn_window){ .flat = n <= 2,
                      .images = x[0],
                      .in = x[1],
                      .out = y[1],
                      .group = op->group,
                      .share = 1,
                      .kernel = { 1, 1 },
                      .stride = { 1, 1 },
                      .dilation = { 1, 1 } };
    rg_window_pads(op, x + 2, y + 2, op->kernel, begins, ends);
    g->flops = 2 * (double)rg_count(b, op->out[0]) * (double)b->dims[op->in[linear ? 3 : 1]][1];
    for (uint32_t i = 0; i < n; i++) {
        double share = rg_window_share(op->kernel[i], op->dilations[i], op->strides[i], begins[i], x[2 + i], y[2 + i]);

        g->share *= share;
        g->flops *= (double)op->kernel[i] * share;
        g->padded = g->padded || begins[i] > 0 || ends[i] > 0;
    }
    if (!g->flat)
        return;
    g->height = n == 2 ? x[2] : 1;
    g->width = x[1 + n];
    g->out_height = n == 2 ? y[2] : 1;
    g->out_width = y[1 + n];
    for (uint32_t i = 0; i < n; i++) {
        g->kernel[o + i] = op->kernel[i];
        g->stride[o + i] = op->strides[i];
        g->dilation[o + i] = op->dilations[i];
        g->begin[o + i] = begins[i];
        g->end[o + i] = ends[i];
    }
}

/* Does the tap lie in the image for some pixel? */
static bool meets(const kn_window *w, int axis, int64_t tap)
{
    const int64_t size = axis == 0 ? w->height : w->width, outs = axis == 0 ? w->out_height : w->out_width;
    const int64_t step = w->stride[axis], at = tap * w->dilation[axis] - w->begin[axis];
    const int64_t pixel = at >= 0 ? 0 : (step - 1 - at) / step; /* the first for which it is not before the image */

    return pixel < outs && at + pixel * step < size;
}

kn_window kn_trimmed(const kn_window *w, int64_t *out_first)
{
    int64_t first[2] = { 0, 0 }, end[2] = { w->kernel[0], w->kernel[1] };
    kn_window inner = *w;

    *out_first = 0;
    if (!w->flat)
        return inner;
    for (int i = 0; i < 2; i++) {
        while (first[i] + 1 < end[i] && !meets(w, i, first[i]))
            first[i]++;
        while (first[i] + 1 < end[i] && !meets(w, i, end[i] - 1))
            end[i]--;
        if (i == 1 && inner.kernel[0] > 1) { /* they would not follow one another */
            first[1] = 0;
            end[1] = w->kernel[1];
        }
        inner.kernel[i] = end[i] - first[i];
        inner.begin[i] -= first[i] * w->dilation[i];
        inner.end[i] -= (w->kernel[i] - end[i]) * w->dilation[i];
    }
    inner.share *= (double)(w->kernel[0] * w->kernel[1]) / (double)(inner.kernel[0] * inner.kernel[1]);
    inner.padded = inner.begin[0] != 0 || inner.begin[1] != 0 || inner.end[0] != 0 || inner.end[1] != 0;
    *out_first = first[0] * w->kernel[1] + first[1];
    return inner;
}

/* ------------------------------------------------------------------ the table */

/* Tiles multiply by the zeros of the border; oneDNN's loops leave taps outside the image out. */
static const double TRANSFORM_NS = 0.25;
static const double LEAST_INSIDE = 0.7, LEAST_SPARING = 0.3;

/* How many times as long a layer may take for not having a pack of its own. */
static const double KN_WORTH_A_PACK = 1.25, KN_WORTH_A_MATRIX = 1.5;

bool kn_has_tiles(const rg_build *b, const kn_case *c)
{
    return b->state->tiles != NULL && b->state->sgemm != NULL && c->w.group == 1 && c->w.flat;
}

/* oneDNN's kernels describe each column of an image while they are made: a second and hundreds of megabytes for some
 * 250000 of them, and all memory for a hundred million. Tiles take nearly the same time in such a layer, and the same
 * where there is one row. */
static bool is_wide(const rg_build *b, const kn_case *c)
{
    const int64_t without_tiles = 1 << 16;
    const uint32_t y = b->op->out[0];
    const int64_t width = c->w.flat ? c->w.out_width : b->dims[y][b->ranks[y] - 1];

    return width > (!kn_has_tiles(b, c) ? without_tiles : c->w.out_height == 1 ? 256 : 1024);
}

static bool tiles_run(rg_build *b, const rg_group *group, const kn_case *c, const char **out_why)
{
    (void)group, (void)out_why;
    return kn_has_tiles(b, c) && (b->state->reproducible || b->state->strict || is_wide(b, c) ||
                                  c->w.share >= (b->spares_library ? LEAST_SPARING : LEAST_INSIDE));
}

static inlay_status tiles_direct(rg_build *b, const rg_group *group, const kn_case *c, bool *out_done)
{
    *out_done = true;
    return tiles_lower(b, group, c, TILES_WRITTEN);
}

/* A product of pixels by channels; windows are laid out in rows first. */
static bool gemm_runs(rg_build *b, const rg_group *group, const kn_case *c, const char **out_why)
{
    int64_t first;

    (void)group, (void)out_why;
    return kn_has_tiles(b, c) && kn_trimmed(&c->w, &first).share >= (cpu_has(CPU_AVX512) ? LEAST_INSIDE : 0) &&
           b->scales[b->op->in[0]] == INLAY_NONE;
}

bool kn_is_narrow(const rg_build *b)
{
    const uint32_t k = b->op->in_count > 1 ? b->c->values[b->op->in[1]].constant : INLAY_NONE;

    return k != INLAY_NONE && b->c->constants[k].narrow != NULL;
}

bool kn_pairs_wanted(const rg_build *b, const char **out_why)
{
    if (b->state->pairs && b->c->as_written)
        *out_why = "what DynamicQuantizeLinear rounds is summed as written";
    return b->state->pairs && !b->c->as_written && !kn_is_narrow(b);
}

static bool pairs_run_here(rg_build *b, const rg_group *group, const kn_case *c, const char **out_why)
{
    return kn_pairs_wanted(b, out_why) && c->w.share >= LEAST_INSIDE && gemm_runs(b, group, c, out_why);
}

static inlay_status in_pairs(rg_build *b, const rg_group *group, const kn_case *c, bool *out_done)
{
    *out_done = true;
    return tiles_lower(b, group, c, TILES_PAIRS);
}

/* Is this what Winograd's algorithm is for? */
static bool is_window(const rg_build *b, const kn_case *c, const char **out_why)
{
    const kn_window *w = &c->w;

    if (!w->flat || b->op->spatial != 2 || w->group != 1 || w->kernel[0] != 3 || w->kernel[1] != 3 ||
        w->stride[0] != 1 || w->stride[1] != 1 || w->dilation[0] != 1 || w->dilation[1] != 1 || w->in < 16 ||
        w->out < 16)
        return false;
    if (!b->state->winograd)
        *out_why = b->state->strict ? "precision strict is without Winograd's algorithm"
                                    : "option winograd forbids Winograd's algorithm";
    return b->state->winograd;
}

static bool windows_run(const rg_build *b, const kn_case *c, int64_t points, const char **out_why)
{
    int64_t side = c->w.out_height < c->w.out_width ? c->w.out_height : c->w.out_width;

    return kn_has_tiles(b, c) && is_window(b, c, out_why) && c->w.share >= LEAST_INSIDE && c->w.in <= TILE_CHANNELS &&
           side >= points - 2 && b->scales[b->op->in[0]] == INLAY_NONE;
}

static bool windows_4_run(rg_build *b, const rg_group *group, const kn_case *c, const char **out_why)
{
    (void)group;
    return windows_run(b, c, 6, out_why);
}

static bool windows_2_run(rg_build *b, const rg_group *group, const kn_case *c, const char **out_why)
{
    (void)group;
    return windows_run(b, c, 4, out_why);
}

/* Narrow weights are transformed in each run, as many numbers as there are points for nine. */
static double transform_ns(const rg_build *b, const kn_case *c, double points)
{
    return kn_is_narrow(b) ? (double)(c->w.in * c->w.out) * points * TRANSFORM_NS / KN_THREADS : 0;
}

static double windows_4_ns(const rg_build *b, const rg_group *group, const kn_case *c)
{
    (void)group;
    return kn_windows_ns(c, 6) + transform_ns(b, c, 36);
}

static double windows_2_ns(const rg_build *b, const rg_group *group, const kn_case *c)
{
    (void)group;
    return kn_windows_ns(c, 4) + transform_ns(b, c, 16);
}

static inlay_status windows_4(rg_build *b, const rg_group *group, const kn_case *c, bool *out_done)
{
    *out_done = true;
    return tiles_lower(b, group, c, 6);
}

static inlay_status windows_2(rg_build *b, const rg_group *group, const kn_case *c, bool *out_done)
{
    *out_done = true;
    return tiles_lower(b, group, c, 4);
}

/* Factors that wait for a convolution to take them into its weights are for tiles, and so is an input that waits. */
bool kn_is_whole(const rg_build *b)
{
    return b->scales[b->op->in[0]] == INLAY_NONE && b->ahead[b->op->in[0]] == NULL;
}

static bool library_runs(rg_build *b, const rg_group *group, const kn_case *c, const char **out_why)
{
    (void)group;
    if (is_wide(b, c)) {
        *out_why = "oneDNN takes long to prepare for rows of that length";
        return false;
    }
    return kn_is_whole(b) && !b->state->alone;
}

static bool blocks_run(rg_build *b, const rg_group *group, const kn_case *c, const char **out_why)
{
    (void)group, (void)out_why;
    return kn_is_whole(b) && !b->state->alone && rg_md_is_blocked(&c->x.md) && !is_wide(b, c);
}

static bool library_winograd_runs(rg_build *b, const rg_group *group, const kn_case *c, const char **out_why)
{
    (void)group;
    return dn_has_winograd() && b->state->fast && kn_is_whole(b) && !kn_is_narrow(b) && is_window(b, c, out_why) &&
           tiles_of_cpu() != NULL && rg_winograd_gain(b->op, c->w.in, c->w.out, c->w.out_height, c->w.out_width) > 0;
}

static inlay_status library(rg_build *b, const rg_group *group, const kn_case *c, bool *out_done)
{
    return lib_lower(b, group, c, LIB_AS_LIKED, out_done);
}

static inlay_status blocks(rg_build *b, const rg_group *group, const kn_case *c, bool *out_done)
{
    return lib_lower(b, group, c, LIB_AS_IT_LIES, out_done);
}

static inlay_status library_winograd(rg_build *b, const rg_group *group, const kn_case *c, bool *out_done)
{
    return lib_lower(b, group, c, LIB_WINOGRAD, out_done);
}

/* Groups by loops of our own, where oneDNN has none to speak of, or where the option asks for them. Planes of one
 * channel a group it has. */
static bool groups_run(rg_build *b, const rg_group *group, const kn_case *c, const char **out_why)
{
    const bool depthwise = b->op->spatial == 2 && c->w.in == c->w.group && c->w.out == c->w.group;
    const bool wanted = b->state->strict || b->state->alone || b->state->kernel == KN_GROUPS;

    (void)out_why;
    return c->w.group > 1 && !depthwise && b->state->tiles != NULL && (wanted || lib_unfolds(b, group, c));
}

static double groups_ns(const rg_build *b, const rg_group *group, const kn_case *c)
{
    return kn_library_ns(b, group, c) / 2;
}

static inlay_status groups(rg_build *b, const rg_group *group, const kn_case *c, bool *out_done)
{
    return rg_lower_groups(b, group, &c->weights, c->bias_value, out_done);
}

static bool channels_run(rg_build *b, const rg_group *group, const kn_case *c, const char **out_why)
{
    (void)group, (void)out_why;
    return depthwise_runs(b, c);
}

static inlay_status channels(rg_build *b, const rg_group *group, const kn_case *c, bool *out_done)
{
    *out_done = true;
    return tiles_lower(b, group, c, TILES_DEPTHWISE);
}

/* Single channels of an image that lies row by row. */
static bool planes_run_here(rg_build *b, const rg_group *group, const kn_case *c, const char **out_why)
{
    (void)group, (void)out_why;
    return planes_run(b, c);
}

static inlay_status planes(rg_build *b, const rg_group *group, const kn_case *c, bool *out_done)
{
    *out_done = true;
    return planes_lower(b, group, c);
}

/* Products of weights and windows of an image that lies row by row. */
static bool rows_run(rg_build *b, const rg_group *group, const kn_case *c, const char **out_why)
{
    (void)out_why;
    return conv_rows_run(b, group, c);
}

static inlay_status rows(rg_build *b, const rg_group *group, const kn_case *c, bool *out_done)
{
    *out_done = true;
    return conv_rows_lower(b, group, c);
}

static inlay_status gemm(rg_build *b, const rg_group *group, const kn_case *c, bool *out_done)
{
    *out_done = true;
    return tiles_lower(b, group, c, TILES_GEMM);
}

#define OWN_GATE 1.7
#define LIBRARY_GATE 3.7

/* Of equals the first is taken. */
/* Lowered by what has such weights (nbits.c). */
static bool never_runs(rg_build *b, const rg_group *group, const kn_case *c, const char **out_why)
{
    (void)b, (void)group, (void)c, (void)out_why;
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

uint32_t kn_find(const char *name)
{
    for (uint32_t k = 0; k < KN_COUNT; k++)
        if (strcmp(kn_kernels[k].name, name) == 0)
            return k;
    return KN_COUNT;
}

/* ------------------------------------------------------------------ the choice */

static void put(kn_choice *choice, uint32_t at, uint8_t kernel, double ns)
{
    for (uint32_t i = choice->count; i > at; i--) {
        choice->kernel[i] = choice->kernel[i - 1];
        choice->ns[i] = choice->ns[i - 1];
    }
    choice->kernel[at] = kernel;
    choice->ns[at] = ns;
    choice->count++;
}

static void take_out(kn_choice *choice, uint32_t at)
{
    choice->count--;
    for (uint32_t i = at; i < choice->count; i++) {
        choice->kernel[i] = choice->kernel[i + 1];
        choice->ns[i] = choice->ns[i + 1];
    }
}

static void to_front(kn_choice *choice, uint32_t at)
{
    uint8_t kernel = choice->kernel[at];
    double ns = choice->ns[at];

    take_out(choice, at);
    put(choice, 0, kernel, ns);
}

/* Kernels with short chains, where there are any. */
static void leave_strict(kn_choice *choice)
{
    kn_choice strict = *choice;

    strict.count = 0;
    for (uint32_t i = 0; i < choice->count; i++)
        if (kn_kernels[choice->kernel[i]].is_strict)
            put(&strict, strict.count, choice->kernel[i], choice->ns[i]);
    if (strict.count == 0)
        return;
    if (strict.count < choice->count && choice->why == NULL)
        strict.why = "precision strict adds few terms in a row, as only loops of our own do";
    *choice = strict;
}

/* By what each is expected to take. */
static void by_model(rg_build *b, const rg_group *group, const kn_case *c, kn_choice *choice)
{
    for (uint8_t k = 0; k < KN_COUNT; k++) {
        const char *why = NULL;
        uint32_t at = 0;
        double ns;

        if ((k >= KN_PACKED) != c->product)
            continue;
        if (!kn_kernels[k].runs(b, group, c, &why)) {
            choice->why = why != NULL ? why : choice->why;
            continue;
        }
        ns = kn_kernels[k].ns(b, group, c) + kn_gates_ns(b, group, kn_kernels[k].gate_ns) + kn_turns_ns(b, group, c, k);
        while (at < choice->count && choice->ns[at] <= ns)
            at++;
        put(choice, at, k, ns);
    }
    if (b->state->strict)
        leave_strict(choice);
    choice->source = choice->count > 1 ? KN_BY_MODEL : KN_ONLY;
}

static double timing(const rg_build *b, const uint64_t key[2])
{
    if (b->attempt != NULL)
        return b->attempt->find(b->attempt->ctx, key);
    return b->state->timings->find(b->state->host->ctx, b->c->timings, key, sizeof(kn_key_words));
}

/* By what they took, where at least two were timed: those that were not go behind. */
static void by_time(const rg_build *b, kn_choice *choice)
{
    kn_choice timed = *choice;
    bool left[KN_COUNT] = { false };
    uint32_t known = 0;

    if (b->attempt == NULL && b->c->timings == NULL)
        return;
    timed.count = 0;
    for (uint32_t i = 0; i < choice->count; i++) {
        uint64_t word[2];
        uint32_t at = 0;
        double ns;

        kn_key(choice, choice->kernel[i], word);
        ns = timing(b, word);
        left[i] = ns < 0;
        if (ns < 0)
            continue;
        while (at < timed.count && timed.ns[at] <= ns)
            at++;
        put(&timed, at, choice->kernel[i], ns);
        known++;
    }
    if (known < 2)
        return;
    for (uint32_t i = 0; i < choice->count; i++)
        if (left[i])
            put(&timed, timed.count, choice->kernel[i], choice->ns[i]);
    timed.source = KN_BY_TIME;
    *choice = timed;
}

/* The best of our own in the place of oneDNN's, where those are not worth making. */
static void spare_library(const rg_build *b, kn_choice *choice)
{
    for (uint32_t i = 0; b->spares_library && choice->source == KN_BY_MODEL && i < choice->count; i++) {
        const uint8_t k = choice->kernel[i];

        if (k == KN_LIBRARY || k == KN_BLOCKS || k == KN_LIBRARY_WINOGRAD)
            continue;
        if (i > 0) {
            to_front(choice, i);
            choice->why = "oneDNN's would save less than making its code takes";
        }
        return;
    }
}

/* The time of a kernel, plus the price of the memory for its packed weights: the original weights stay as well. */
static double priced_ns(const rg_build *b, const kn_case *c, uint8_t kernel, double ns)
{
    const double points = (double)kn_kernels[kernel].points;

    return ns + b->state->pack_price * points * points * (double)(c->w.in * c->w.out) * sizeof(float);
}

/* Option pack_price: orders the kernels by time plus the price of memory. */
static void spare_memory(const rg_build *b, const kn_case *c, kn_choice *choice)
{
    kn_choice spared = *choice;

    if (b->state->pack_price <= 0 || c->product || kn_is_narrow(b))
        return;
    spared.count = 0;
    for (uint32_t i = 0; i < choice->count; i++) {
        const double ns = priced_ns(b, c, choice->kernel[i], choice->ns[i]);
        uint32_t at = spared.count;

        while (at > 0 && priced_ns(b, c, spared.kernel[at - 1], spared.ns[at - 1]) > ns)
            at--;
        put(&spared, at, choice->kernel[i], choice->ns[i]);
    }
    if (spared.kernel[0] != choice->kernel[0])
        spared.why = "by option pack_price, transformed weights would save too little for the memory that they take";
    *choice = spared;
}

/* The kernel whose pack the weights have already, where it costs little: weights that several layers have in common, as
 * the heads of a detector on images of all sizes do, or layers of other sizes, of a sentence one word longer. A pack
 * for each would be several times the weights in memory. */
static void share_pack(const rg_build *b, kn_choice *choice)
{
    const double worth = choice->kernel[0] >= KN_PACKED ? KN_WORTH_A_MATRIX : KN_WORTH_A_PACK;
    const uint32_t kernel = kn_packs_find(b);

    for (uint32_t i = 0; choice->source == KN_BY_MODEL && i < choice->count && choice->ns[i] <= worth * choice->ns[0];
         i++) {
        if (choice->kernel[i] != kernel)
            continue;
        if (i > 0) {
            to_front(choice, i);
            choice->why = "its weights are packed so for another layer, or other sizes";
        }
        return;
    }
}

/* One for each kind, for option reproducible: what is not listed comes behind these. */
static void by_kind(kn_choice *choice)
{
    static const uint8_t kinds[] = { KN_PACKED,  KN_BATCHED, KN_DEPTHWISE, KN_TILES, KN_GROUPS,
                                     KN_LIBRARY, KN_INNER,   KN_PLAIN,     KN_MATMUL };

    for (size_t k = 0; k < sizeof kinds; k++)
        for (uint32_t i = 0; i < choice->count; i++)
            if (choice->kernel[i] == kinds[k]) {
                to_front(choice, i);
                choice->why = "option reproducible takes it whatever the sizes are";
                choice->source = choice->count > 1 ? KN_BY_OPTION : KN_ONLY;
                return;
            }
}

static void choose(rg_build *b, const rg_group *group, const kn_case *c, kn_choice *choice)
{
    *choice = (kn_choice){ .op = group->op };
    by_model(b, group, c, choice);
    if (choice->count < 2)
        return;
    kn_layer_key(b, group, c, choice->key);
    if (b->state->reproducible && b->state->kernel == KN_COUNT)
        by_kind(choice);
    else if (b->attempt == NULL || b->attempt->find != NULL) {
        by_time(b, choice);
        spare_library(b, choice);
        spare_memory(b, c, choice);
        share_pack(b, choice);
    } else if (b->attempt->order < choice->count && choice->ns[b->attempt->order] < KN_PLAUSIBLE * choice->ns[0]) {
        choice->moved = b->attempt->order > 0;
        to_front(choice, b->attempt->order);
    }
    for (uint32_t i = 0; b->state->kernel != KN_COUNT && i < choice->count; i++) {
        if (choice->kernel[i] != b->state->kernel)
            continue;
        to_front(choice, i);
        choice->source = KN_BY_OPTION;
        return;
    }
}

/* Does the error of the first have a bound? Otherwise it is taken out. */
static inlay_status check_error(rg_build *b, const kn_case *c, kn_choice *choice, bool *out_fine)
{
    const uint8_t kernel = choice->kernel[0];
    const uint32_t constant = b->c->values[b->op->in[1]].constant;
    const tile_trust **trust = &choice->trusts[kernel];
    inlay_status status = INLAY_OK;

    *out_fine = kn_kernels[kernel].points == 0;
    if (*out_fine)
        return INLAY_OK;
    INLAY_TRY(
        rg_constant_trust(b->c, &b->c->constants[constant], &c->weights, kn_kernels[kernel].points, trust, b->diag));
    *out_fine = tiles_are_trusted(b->state, *trust);
    if (*out_fine)
        return INLAY_OK;
    take_out(choice, 0);
    choice->moved = false;
    choice->source = choice->count < 2 ? KN_ONLY : choice->source == KN_BY_OPTION ? KN_BY_MODEL : choice->source;
done:
    return status;
}

inlay_status kn_remember(rg_build *b, const kn_choice *choice)
{
    inlay_instance *i = b->instance;

    if (!rg_scratch_grow(i->memory, &i->choices, i->choice_count, &b->choice_capacity, sizeof *i->choices))
        return inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", b->op->name);
    i->choices[i->choice_count++] = *choice;
    return INLAY_OK;
}

inlay_status kn_lower(rg_build *b, const rg_group *group, const kn_case *c)
{
    inlay_status status = INLAY_OK;
    kn_choice choice;

    choose(b, group, c, &choice);
    while (choice.count > 0) {
        bool done = false, fine;

        INLAY_TRY(check_error(b, c, &choice, &fine));
        if (!fine)
            continue;
        INLAY_TRY(kn_kernels[choice.kernel[0]].lower(b, group, c, &done));
        if (done) {
            if (b->attempt == NULL)
                kn_packs_note(b, choice.kernel[0]);
            return kn_remember(b, &choice);
        }
        take_out(&choice, 0);
        choice.source = choice.count > 1 ? choice.source : KN_ONLY;
    }
    if (b->state->strict && !c->product) { /* where no loop of our own can be after all */
        bool done = false;

        choice = (kn_choice){ .op = group->op, .count = 1, .source = KN_ONLY, .kernel = { KN_LIBRARY } };
        INLAY_TRY(kn_kernels[KN_LIBRARY].lower(b, group, c, &done));
        if (done)
            return kn_remember(b, &choice);
    }
    status = inlay_fail(b->diag, INLAY_UNSUPPORTED, "node '%s': %s has no kernel for this %s", b->op->name,
                        dn_in_use->title, c->product ? "product" : "convolution");
done:
    return status;
}
