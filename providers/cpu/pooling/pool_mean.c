/* Means of whole images (ONNX GlobalAveragePool, ReduceMean over the image, an AveragePool whose window is the image),
 * by a loop over the image as it lies: row-major, channels last, or in blocks of channels. Some hundred pixels are
 * added in float, and those sums in double: a mean is as exact as float. oneDNN would make code for each size. */
#include "region/build.h"
#include "pooling/pool_loops.h"
#include "convolution/window.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_IF_CALLED(rg_lower_mean);

/* Images as planes (of one channel, of a block of them, or of all) of pixels with `lanes` numbers side by side. */
struct means {
    rg_native native;
    int64_t images, planes, chunks, pixels, lanes, chunk; /* chunks of lanes are a task each */
    int64_t batch, plane;                                 /* steps of x, in elements; pixels are `lanes` apart */
    int64_t y_batch;
};

typedef struct means_call {
    const struct means *m;
    const float *x;
    float *y;
} means_call;

static inlay_status means_some(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const means_call *c = user;
    const struct means *m = c->m;
    const pool_loops *const loops = KERNEL_BEST(pool_loops);

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t chunk = i % m->chunks, plane = i / m->chunks % m->planes, image = i / m->chunks / m->planes;
        /* The last begins earlier where there are fewer left: some are made twice, in the same order. */
        const int64_t past = (chunk + 1) * m->chunk, first = (past < m->lanes ? past : m->lanes) - m->chunk;
        const float *x = c->x + image * m->batch + plane * m->plane + first;
        float *y = c->y + image * m->y_batch + plane * m->lanes + first;

        if (m->lanes == 1)
            loops->mean_of_row(x, y, m->pixels);
        else if (m->lanes < POOL_LANES / 4 && POOL_LANES % m->lanes == 0)
            loops->mean_of_few(x, y, m->pixels, m->lanes);
        else
            loops->mean_of_lanes(x, y, m->pixels, m->lanes, m->chunk);
    }
    return INLAY_OK;
}

static inlay_status run_means(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                              uint32_t threads)
{
    const struct means *m = (const struct means *)(const void *)native;
    means_call c = { m, args[0], args[1] };
    const int64_t tasks = m->images * m->planes * m->chunks, grain = 32768 / (m->pixels * m->chunk + 1) + 1;

    if (threads <= 1 || tasks <= grain)
        return means_some(&c, 0, tasks, 0);
    return state->host->parallel_for(state->host->ctx, run, tasks, grain, means_some, &c);
}

/* How the image lies; false: in a way that the loop does not know. */
static bool read_image(const rg_md *md, struct means *m)
{
    const rg_md *b = md;
    int64_t step;

    if (md->kind != RG_BLOCKED || md->data_type != DN_F32 || md->ndims < 3 || b->inner_nblks > 1 ||
        (b->inner_nblks == 1 && b->inner_idxs[0] != 1))
        return false;
    m->lanes = b->inner_nblks == 1 ? b->inner_blks[0] : b->strides[1] == 1 ? md->dims[1] : 1;
    m->planes = md->padded_dims[1] / m->lanes;
    m->images = md->dims[0];
    m->batch = b->strides[0];
    m->plane = m->planes > 1 ? b->strides[1] : 0;
    m->pixels = 1;
    step = m->lanes;
    for (int d = md->ndims; d-- > 2; step *= md->dims[d]) { /* all pixels one behind the other */
        if (md->dims[d] > 1 && b->strides[d] != step)
            return false;
        m->pixels *= md->dims[d];
    }
    return m->pixels > 0;
}

/* So many lanes are a task: as many as the loops have at once, yet some tasks for threads, however many there are, for
 * each width adds in an order of its own. */
static int64_t chunk_of(int64_t lanes)
{
    const int64_t most = lanes < 4 * POOL_LANES ? POOL_LANES / 4 : POOL_LANES;

    return lanes >= most ? most : lanes;
}

inlay_status rg_lower_mean(rg_build *b, const rg_place *x, uint32_t result, rg_place *out, bool *out_done)
{
    const uint32_t rank = (uint32_t)x->md.ndims;
    int64_t dims[RG_MAX_RANK];
    inlay_status status = INLAY_OK;
    struct means m = { .native.run = run_means };
    rg_md y;

    *out_done = false;
    if (!read_image(&x->md, &m))
        goto done;
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = d < 2 ? x->md.dims[d] : 1;
    if (rg_md_is_blocked(&x->md)) {
        if (!rg_md_same_blocks(&x->md, rank, dims, &y))
            goto done;
    } else if (m.lanes > 1) {
        rg_md_channels_last(&y, rank, dims);
    } else {
        rg_md_plain(&y, rank, dims);
    }
    m.y_batch = m.planes * m.lanes;
    m.chunk = chunk_of(m.lanes);
    m.chunks = (m.lanes + m.chunk - 1) / m.chunk;
    INLAY_TRY(rg_result_place(b, result, &y, out));
    *out_done = true;
    status = rg_emit_step(b, &m.native, sizeof m, (const rg_place *const[]){ x, out }, 2);
done:
    return status;
}
