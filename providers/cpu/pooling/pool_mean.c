/* Means of whole images (ONNX GlobalAveragePool, ReduceMean over the pixels, AveragePool whose kernel covers the
 * image), in the layout of the input: row-major or channels last. Chains of 128 pixels are added in
 * float, and their sums in double, so the mean is exact to float precision. */
#include "cpu/pooling/pool.h"
#include "cpu/region/build.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include "cpu/pooling/pool_loops.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_IF_CALLED(cpu_lower_mean);

/* A plane holds one channel, a block of channels, or all channels; a pixel of a plane has `lanes` contiguous elements.
 * A task computes the means of `chunk` lanes of a plane. */
struct means {
    cpu_native native;
    int64_t images, planes, chunks, pixels, lanes, chunk;
    int64_t batch, plane; /* strides of the input, in elements; the stride of pixels is `lanes` */
    int64_t y_batch;
};

typedef struct means_call {
    const struct means *means;
    const float *input;
    float *output;
} means_call;

static inlay_status means_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const means_call *call = user;
    const struct means *means = call->means;
    const pool_loops *const loops = KERNEL_BEST(pool_loops);

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t chunk = i % means->chunks, plane = i / means->chunks % means->planes,
                      image = i / means->chunks / means->planes;
        /* If fewer lanes are left, the last chunk overlaps the chunk before it; both compute the same result. */
        const int64_t past = (chunk + 1) * means->chunk,
                      first = (past < means->lanes ? past : means->lanes) - means->chunk;
        const float *input = call->input + image * means->batch + plane * means->plane + first;
        float *output = call->output + image * means->y_batch + plane * means->lanes + first;

        if (means->lanes == 1)
            loops->mean_of_row(input, output, means->pixels);
        else if (means->lanes < POOL_LANES / 4 && POOL_LANES % means->lanes == 0)
            loops->mean_of_few_lanes(input, output, means->pixels, means->lanes);
        else
            loops->mean_of_lanes(input, output, means->pixels, means->lanes, means->chunk);
    }
    return INLAY_OK;
}

static inlay_status run_means(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                              uint32_t threads)
{
    const struct means *means = (const struct means *)(const void *)native;
    means_call call = { means, args[0], args[1] };
    const int64_t tasks = means->images * means->planes * means->chunks,
                  grain = 32768 / (means->pixels * means->chunk + 1) + 1;

    if (threads <= 1 || tasks <= grain)
        return means_range(&call, 0, tasks, 0);
    return state->host->parallel_for(state->host->ctx, run, tasks, grain, means_range, &call);
}

/* Reads the strides, planes and lanes of an image; false: the layout is not supported. */
static bool read_image(const tensor_layout *layout, struct means *means)
{
    int64_t step;

    if (layout->kind != LAYOUT_STRIDED || layout->type != ELEMENT_FLOAT || layout->rank < 3)
        return false;
    means->lanes = layout->strides[1] == 1 ? layout->dims[1] : 1;
    means->planes = layout->padded_dims[1] / means->lanes;
    means->images = layout->dims[0];
    means->batch = layout->strides[0];
    means->plane = means->planes > 1 ? layout->strides[1] : 0;
    means->pixels = 1;
    step = means->lanes;
    for (int d = layout->rank; d-- > 2; step *= layout->dims[d]) { /* pixels must be contiguous */
        if (layout->dims[d] > 1 && layout->strides[d] != step)
            return false;
        means->pixels *= layout->dims[d];
    }
    return means->pixels > 0;
}

/* Lanes of a task. The result must not depend on the number of threads, and the order of additions depends on the
 * width, so the width depends only on the number of lanes: small enough to give several tasks, at most POOL_LANES. */
static int64_t chunk_of(int64_t lanes)
{
    const int64_t most = lanes < 4 * POOL_LANES ? POOL_LANES / 4 : POOL_LANES;

    return lanes >= most ? most : lanes;
}

inlay_status cpu_lower_mean(cpu_build *build, const cpu_place *input, uint32_t result, cpu_place *out, bool *out_done)
{
    const uint32_t rank = (uint32_t)input->layout.rank;
    int64_t dims[CPU_MAX_RANK];
    inlay_status status = INLAY_OK;
    struct means means = { .native.run = run_means };
    tensor_layout output;

    *out_done = false;
    if (!read_image(&input->layout, &means))
        goto done;
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = d < 2 ? input->layout.dims[d] : 1;
    if (means.lanes > 1) {
        layout_channels_last(&output, rank, dims);
    } else {
        layout_plain(&output, rank, dims);
    }
    means.y_batch = means.planes * means.lanes;
    means.chunk = chunk_of(means.lanes);
    INLAY_CHECK(means.chunk > 0 && means.chunk <= POOL_LANES && means.chunk <= means.lanes);
    means.chunks = (means.lanes + means.chunk - 1) / means.chunk;
    INLAY_TRY(cpu_result_place(build, result, &output, out));
    *out_done = true;
    status = cpu_emit_step(build, &means.native, sizeof means, (const cpu_place *const[]){ input, out }, 2);
done:
    return status;
}
