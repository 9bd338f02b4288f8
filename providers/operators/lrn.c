/* LRN: ONNX 1, 13. Divides each element by a power of the sum of squares over neighboring channels:
 * y[c] = x[c] / (bias + alpha / size * sum x[c - floor((size - 1) / 2)] ... x[c + ceil((size - 1) / 2)]
 * squared)^beta. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/operators.h"
#include "simd/vecmath.h"
#include <math.h>
#include <stdlib.h>

enum { LRN_TILE = 256, LRN_GRAIN = 1 << 13 };

typedef struct lrn_args {
    double factor, beta, bias; /* factor: alpha / size */
    int64_t before, after;     /* channels of the window on each side */
    bool is_three_quarters;
} lrn_args;

#define BODY "lrn.inc"
#include "operators/floats.inc"

typedef void (*lrn_fn)(const void *input, void *output, int64_t channels, int64_t spatial, int64_t columns,
                       const lrn_args *args);
static const lrn_fn lrn_columns[INLAY_DTYPE_COUNT] = BY_FLOAT(lrn_columns);

static inlay_status prepare_lrn(const kit_node *node, void **out_state, inlay_diag *diag)
{
    int64_t size = kit_attr_int(node->info, "size", 0);
    lrn_args *args;

    if (size <= 0)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "LRN: size is %lld; it must be at least 1", (long long)size);
    args = malloc(sizeof *args);
    if (args == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the attributes of an LRN");
    args->factor = kit_attr_float(node->info, "alpha", 1e-4) / (double)size;
    args->beta = kit_attr_float(node->info, "beta", 0.75);
    args->bias = kit_attr_float(node->info, "bias", 1);
    args->before = (size - 1) / 2;
    args->after = size / 2;
    args->is_three_quarters = args->beta == 0.75;
    *out_state = args;
    return INLAY_OK;
}

typedef struct lrn_job {
    const kit_call *call;
    lrn_args args;
    int64_t channels, inner, tiles;
} lrn_job;

static inlay_status lrn_items(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const lrn_job *job = user;
    const kit_tensor *input = &job->call->in[0];
    int64_t element_bytes = inlay_dtype_bits(input->dtype) / 8;

    (void)worker;
    INLAY_CHECK(job->tiles > 0 && job->args.before < job->channels && job->args.after < job->channels);
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t first = tile % job->tiles * LRN_TILE;
        int64_t columns = job->inner - first < LRN_TILE ? job->inner - first : LRN_TILE;
        int64_t offset = (tile / job->tiles * job->channels * job->inner + first) * element_bytes;
        lrn_columns[input->dtype]((const char *)input->data + offset, (char *)job->call->out[0].data + offset,
                                  job->channels, job->inner, columns, &job->args);
    }
    return INLAY_OK;
}

static inlay_status run_lrn(const kit_call *call)
{
    const kit_tensor *input = &call->in[0];
    lrn_job job = { .call = call, .args = *(const lrn_args *)call->state, .inner = 1 };

    if (input->rank < 2)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "LRN: X has rank %u; it must be [N, C, ...]", input->rank);
    if (input->count == 0)
        return INLAY_OK;
    job.channels = input->dims[1];
    if (job.args.before >= job.channels) /* the window may be larger than the tensor */
        job.args.before = job.channels - 1;
    if (job.args.after >= job.channels)
        job.args.after = job.channels - 1;
    for (uint32_t d = 2; d < input->rank; d++)
        job.inner *= input->dims[d];
    job.tiles = (job.inner + LRN_TILE - 1) / LRN_TILE;
    return kit_parallel(call, input->dims[0] * job.tiles,
                        LRN_GRAIN / (input->count / (input->dims[0] * job.tiles) + 1) + 1, lrn_items, &job);
}

static const kit_kernel kernels[] = {
    { .op_type = "LRN", .in_types = { KIT_FLOATS }, .prepare = prepare_lrn, .run = run_lrn },
};
const kit_table OPERATOR(operators_lrn) = { kernels, KIT_COUNT(kernels) };
