/* Packs weights for oneDNN's Winograd convolutions of 3x3 kernels: G w G^T of each kernel w, in oneDNN's layouts.
 *
 * oneDNN's own packing uses plain loops that take about twenty times as long as the memory transfer. Its matrices G and
 * its layouts are not documented, so they are probed once per process and format: oneDNN packs a small tensor that
 * contains unit kernels, from whose transforms G is read. If the code below packs the tensor with the same result, it
 * is used for this format; otherwise oneDNN packs the weights. */
#include "cpu/region/build.h"
#include "cpu/weights/packs.h"
#include "inlay/check.h"
#include "onednn/library_v2.h"
#include "onednn/wino_windows.h"
#include "simd/at_fork.h"
#include <math.h>

enum { R = WINO_R, TAPS = R * R, MAX_ALPHA = WINO_ALPHA, MAX_BLOCK = WINO_BLOCK, FORMATS = 5 };

/* The result of probing a format. */
typedef struct wino_probe {
    bool probed, usable;
    int alpha;
    float adj_scale;
    wino_matrix matrix;
} wino_probe;

static pthread_mutex_t probe_lock = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((constructor)) void guard_probes(void)
{
    lock_at_fork(&probe_lock);
}

static wino_probe probes[FORMATS]; /* by dnnl_wino_memory_format_t; guarded by probe_lock */

/* Channels are numbered in two levels of blocks: (ob * oc2 + o2) * oc_block + o is an output channel, and likewise for
 * input channels. Strides count elements. */
typedef struct wino_layout {
    int alpha, oc_block, ic_block, oc2, ic2;
    int64_t oc, ic; /* rounded up to blocks */
    int64_t point;  /* stride of the alpha * alpha points */
    int64_t ob, o2, ib, i2, i;
} wino_layout;

/* The arguments of a transform. */
typedef struct wino_job {
    wino_layout to;
    const char *source;            /* may be unaligned */
    const int64_t *dims, *strides; /* [4] of the original, O I H W */
    float *target;
    const wino_matrix *matrix;
} wino_job;

/* ------------------------------------------------------------------ layouts */

/* Reads a layout; false: not supported. */
static bool read_layout(const dnnl_memory_desc_t *md, wino_layout *layout)
{
    const dnnl_wino_desc_t *desc_t = &md->format_desc.wino_desc;
    int64_t block;

    if (md->format_kind != dnnl_format_kind_wino || md->data_type != dnnl_f32 || md->ndims != 4 || desc_t->r != R ||
        desc_t->alpha < R || desc_t->alpha > MAX_ALPHA || desc_t->oc_block < TAPS || desc_t->oc_block > MAX_BLOCK ||
        desc_t->ic_block < 1)
        return false;
    *layout = (wino_layout){ .alpha = desc_t->alpha,
                             .oc_block = desc_t->oc_block,
                             .ic_block = desc_t->ic_block,
                             .oc2 = 1,
                             .ic2 = 1,
                             .oc = desc_t->oc,
                             .ic = desc_t->ic,
                             .point = (int64_t)desc_t->oc * desc_t->ic };
    block = (int64_t)layout->oc_block * layout->ic_block;
    switch (desc_t->wino_format) {
    case dnnl_wino_wei_aaOio:
    case dnnl_wino_wei_aaOBiOo:
        if (desc_t->wino_format == dnnl_wino_wei_aaOBiOo)
            layout->oc2 = desc_t->oc2_block;
        layout->o2 = layout->oc_block;
        layout->i = (int64_t)layout->oc2 * layout->oc_block;
        layout->ib = layout->ic_block * layout->i;
        layout->ob = layout->ic * layout->i;
        break;
    case dnnl_wino_wei_OBaaIBOIio:
        layout->oc2 = desc_t->oc2_block;
        layout->ic2 = desc_t->ic2_block;
        layout->i = layout->oc_block;
        layout->i2 = block;
        layout->o2 = layout->ic2 * block;
        layout->ib = layout->oc2 * layout->o2;
        layout->point = layout->ic / layout->ic_block * layout->oc2 * block;
        layout->ob = layout->alpha * layout->alpha * layout->point;
        break;
    default: /* formats of 8-bit weights */
        return false;
    }
    return layout->oc2 > 0 && layout->ic2 > 0 && layout->oc > 0 && layout->ic > 0 &&
           layout->oc % (layout->oc_block * layout->oc2) == 0 && layout->ic % (layout->ic_block * layout->ic2) == 0 &&
           desc_t->size ==
               (size_t)layout->oc * (size_t)layout->ic * (size_t)(layout->alpha * layout->alpha) * sizeof(float);
}

/* ------------------------------------------------------------------ the transform */

/* Loads the kernels of input channel ic and output channels from oc on; padding is zero. */
static void load_kernels(const wino_job *job, int64_t oc, int64_t ic, float *weights)
{
    memset(weights, 0, TAPS * MAX_BLOCK * sizeof *weights);
    for (int o = 0; o < job->to.oc_block && oc + o < job->dims[0] && ic < job->dims[1]; o++) {
        const char *from = job->source + ((oc + o) * job->strides[0] + ic * job->strides[1]) * (int64_t)sizeof(float);

        for (int t = 0; t < TAPS; t++)
            memcpy(&weights[t * MAX_BLOCK + o],
                   from + (t / R * job->strides[2] + t % R * job->strides[3]) * (int64_t)sizeof(float),
                   sizeof *weights);
    }
}

static void transform_block(const wino_job *job, int64_t oc, int64_t ic, float *out)
{
    const wino_layout *layout = &job->to;
    float w[TAPS * MAX_BLOCK];

    for (int64_t i = 0; i < layout->ic_block; i++) {
        load_kernels(job, oc, ic + i, w);
        KERNEL_BEST(wino_windows)(*job->matrix, layout->alpha, w, layout->oc_block, out + i * layout->i, layout->point);
    }
}

/* Transforms blocks [begin, end) of output channels. */
static inlay_status transform_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const wino_job *job = user;
    const wino_layout *layout = &job->to;

    (void)worker;
    for (int64_t n = begin; n < end; n++) {
        float *out = job->target + n / layout->oc2 * layout->ob + n % layout->oc2 * layout->o2;

        for (int64_t k = 0; k < layout->ic / layout->ic_block; k++)
            transform_block(job, n * layout->oc_block, k * layout->ic_block,
                            out + k / layout->ic2 * layout->ib + k % layout->ic2 * layout->i2);
    }
    return INLAY_OK;
}

static inlay_status transform_all(const cpu_state *state, const memory_desc *plain, const void *source,
                                  const wino_layout *layout, const wino_matrix *matrix, void *target)
{
    wino_job job = { .to = *layout,
                     .source = source,
                     .dims = plain->dims,
                     .target = target,
                     .matrix = matrix,
                     .strides = plain->strides };
    int64_t count = layout->oc / layout->oc_block;

    if (!cpu_threads_several())
        return transform_range(&job, 0, count, 0);
    return state->host->parallel_for(state->host->ctx, NULL, count, 1, transform_range, &job);
}

/* ------------------------------------------------------------------ probing */

/* Makes a descriptor in the format of md with few channels: two blocks of each kind. */
static void describe_small_tensor(const dnnl_memory_desc_t *md, memory_desc *plain, dnnl_memory_desc_t *out)
{
    enum { INPUTS = 2 };
    const dnnl_wino_desc_t *like = &md->format_desc.wino_desc;
    dnnl_wino_desc_t *desc_t = &out->format_desc.wino_desc;
    int second = like->wino_format == dnnl_wino_wei_aaOio ? 1 : 2;
    int inputs = like->wino_format == dnnl_wino_wei_OBaaIBOIio ? 2 : 1;
    dnnl_dims_t dims = { 2 * like->oc_block * second, INPUTS * like->ic_block * inputs, R, R };

    memory_desc_plain(plain, 4, dims);
    *out = *md;
    memcpy(out->dims, dims, sizeof dims);
    memcpy(out->padded_dims, dims, sizeof dims);
    desc_t->oc = (int)dims[0];
    desc_t->ic = (int)dims[1];
    desc_t->oc2_block = second;
    desc_t->ic2_block = inputs;
    desc_t->size = (size_t)desc_t->oc * (size_t)desc_t->ic * (size_t)(desc_t->alpha * desc_t->alpha) * sizeof(float);
}

/* Computes G from transformed unit kernels. The kernel with its 1 at (h, w) is output channel h * R + w; element (a, b)
 * of its transform is G[a][h] * G[b][w]. */
static bool read_matrix(const float *transformed, const wino_layout *layout, wino_matrix matrix)
{
    float corner =
        transformed[(layout->alpha * layout->alpha - 1) * layout->point + TAPS - 1]; /* square of G's last element */
    bool usable = corner > 0;

    for (int a = 0; usable && a < layout->alpha; a++)
        for (int h = 0; h < R; h++)
            matrix[a][h] =
                transformed[(a * layout->alpha + layout->alpha - 1) * layout->point + h * R + R - 1] / sqrtf(corner);
    return usable;
}

static bool agree(const float *a, const float *b, size_t count)
{
    float largest = 0, worst = 0;

    for (size_t i = 0; i < count; i++) {
        largest = fmaxf(largest, fabsf(a[i]));
        worst = fmaxf(worst, fabsf(a[i] - b[i]));
    }
    return largest > 0 && worst <= 1e-6f * largest;
}

/* Lets oneDNN pack a tensor with unit kernels for the first nine output channels at input channel 0 and arbitrary
 * numbers elsewhere. true: the code above gives the same result. */
static bool probe(const cpu_state *state, const dnnl_memory_desc_t *md, wino_probe *out, inlay_diag *diag)
{
    dnnl_memory_desc_t small;
    memory_desc plain, small_md;
    wino_layout layout;
    size_t bytes;
    void *expected = NULL, *result = NULL;
    float *source = NULL;
    bool usable = false;

    describe_small_tensor(md, &plain, &small);
    if (!read_layout(&small, &layout) || !library_v2_read(&small, &small_md))
        return false;
    bytes = small.format_desc.wino_desc.size;
    source = malloc(memory_desc_bytes(&plain));
    if (source == NULL || posix_memalign(&expected, 64, bytes) != 0 || posix_memalign(&result, 64, bytes) != 0) {
        (void)inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to pack weights");
        goto done;
    }
    for (int64_t i = 0; i < memory_desc_count(&plain); i++)
        source[i] = (float)(i * 7919 % 1009) / 1009 - 0.5f;
    for (int64_t o = 0; o < TAPS; o++)
        for (int64_t t = 0; t < TAPS; t++)
            source[o * plain.strides[0] + t] = o == t ? 1 : 0;
    if (cpu_reorder_now(state, &plain, source, &small_md, expected, diag) != INLAY_OK)
        goto done;
    out->alpha = layout.alpha;
    out->adj_scale = md->format_desc.wino_desc.adj_scale;
    usable = read_matrix(expected, &layout, out->matrix) &&
             transform_all(state, &plain, source, &layout, (const wino_matrix *)&out->matrix, result) == INLAY_OK &&
             agree(expected, result, bytes / sizeof(float));
done:
    free(source);
    free(expected);
    free(result);
    return usable;
}

bool onednn_pack_winograd(const cpu_state *state, const memory_desc *plain, const void *source, const memory_desc *md,
                          void *target)
{
    inlay_diag quiet = INLAY_DIAG_INIT;
    dnnl_memory_desc_t desc;
    wino_layout layout;
    wino_probe *found;
    bool usable;

    if (md->kind != CPU_OPAQUE || plain->kind != CPU_BLOCKED || memory_desc_is_blocked(plain))
        return false;
    library_v2_describe(md, &desc);
    if (!read_layout(&desc, &layout) || plain->ndims != 4 || plain->dims[2] != R || plain->dims[3] != R ||
        plain->dims[0] > layout.oc || plain->dims[1] > layout.ic)
        return false;
    INLAY_CHECK((unsigned)desc.format_desc.wino_desc.wino_format < FORMATS);
    found = &probes[desc.format_desc.wino_desc.wino_format];
    (void)pthread_mutex_lock(&probe_lock);
    if (!found->probed) {
        found->usable = probe(state, &desc, found, &quiet);
        found->probed = quiet.code != INLAY_OUT_OF_MEMORY;
    }
    usable = found->usable && desc.format_desc.wino_desc.adj_scale == found->adj_scale && layout.alpha == found->alpha;
    (void)pthread_mutex_unlock(&probe_lock);
    return usable &&
           transform_all(state, plain, source, &layout, (const wino_matrix *)&found->matrix, target) == INLAY_OK;
}
