/* Softmax, LogSoftmax, Hardmax: ONNX 1, 11, 13. Before 13 the tensor is seen as a matrix cut at axis. */
#include "reference.h"
#include "vecmath.h"
#include <math.h>
#include <stdlib.h>

enum { SOFTMAX, LOG_SOFTMAX, HARDMAX };
enum { SOFTMAX_TILE = 256, SOFTMAX_GRAIN = 1 << 13, SOFTMAX_NARROW = 4096, SOFTMAX_FEW = 16 };

#define BODY "softmax.inc"
#include "floats.inc"

typedef void (*softmax_fn)(const void *x, void *y, int64_t n, int64_t stride, int64_t columns, uint32_t kind);
static const softmax_fn softmax_row[INLAY_DTYPE_COUNT] = BY_FLOAT(softmax_row);
static const softmax_fn softmax_columns[INLAY_DTYPE_COUNT] = BY_FLOAT(softmax_columns);
static const softmax_fn softmax_narrow[INLAY_DTYPE_COUNT] = BY_FLOAT(softmax_narrow);

typedef struct softmax_state {
    uint32_t kind;
    bool flattens;
    int64_t axis;
} softmax_state;

static inlay_status prepare_softmax(const kit_node *node, void **out_state, inlay_diag *diag)
{
    softmax_state *s = malloc(sizeof *s);
    const char *name = node->info->op_type.data;

    if (s == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a softmax's attributes");
    s->kind = name[0] == 'S' ? SOFTMAX : name[0] == 'L' ? LOG_SOFTMAX : HARDMAX;
    s->flattens = node->info->since_version < 13;
    s->axis = kit_attr_int(node->info, "axis", s->flattens ? 1 : -1);
    *out_state = s;
    return INLAY_OK;
}

typedef struct softmax_job {
    softmax_fn row, columns;
    const char *x;
    char *y;
    int64_t n, inner, tiles; /* length of the axis, elements behind it, tiles of those */
    uint32_t elem_bytes;
    uint32_t kind;
} softmax_job;

static inlay_status softmax_items(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const softmax_job *job = user;

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i % job->tiles * SOFTMAX_TILE;
        int64_t offset = (i / job->tiles * job->n * job->inner + first) * job->elem_bytes;
        int64_t columns = job->inner - first < SOFTMAX_TILE ? job->inner - first : SOFTMAX_TILE;
        softmax_fn fn = job->inner == 1 ? job->row : job->columns;

        fn(job->x + offset, job->y + offset, job->n, job->inner, columns, job->kind);
    }
    return INLAY_OK;
}

static inlay_status run_softmax(const kit_call *call)
{
    const softmax_state *s = call->state;
    const kit_tensor *x = &call->in[0];
    int64_t axis = s->axis < 0 ? s->axis + x->rank : s->axis;
    int64_t outer = 1, per_item;
    softmax_job job = { .row = softmax_row[x->dtype],
                        .columns = softmax_columns[x->dtype],
                        .x = x->data,
                        .y = call->out[0].data,
                        .n = 1,
                        .inner = 1,
                        .elem_bytes = inlay_dtype_bits(x->dtype) / 8,
                        .kind = s->kind };

    if (axis < 0 || (axis >= x->rank && !(axis == x->rank && (s->flattens || x->rank == 0))))
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "axis %lld is outside the input's rank %u",
                          (long long)s->axis, x->rank);
    if (x->count == 0)
        return INLAY_OK;
    for (uint32_t d = 0; d < x->rank; d++) {
        if (d < axis)
            outer *= x->dims[d];
        else if (d == axis || s->flattens)
            job.n *= x->dims[d];
        else
            job.inner *= x->dims[d];
    }
    job.tiles = (job.inner + SOFTMAX_TILE - 1) / SOFTMAX_TILE;
    if (job.inner < SOFTMAX_FEW && job.n <= SOFTMAX_NARROW / job.inner)
        job.columns = softmax_narrow[x->dtype];
    per_item = x->count / (outer * job.tiles) + 1;
    return kit_parallel(call, outer * job.tiles, SOFTMAX_GRAIN / per_item + 1, softmax_items, &job);
}

#define SOFTMAX_KERNEL(name)                                                                                           \
    {                                                                                                                  \
        .op_type = name, .in_types = { KIT_FLOATS }, .flags = KIT_IN_PLACE, .prepare = prepare_softmax,                \
        .run = run_softmax                                                                                             \
    }

static const kit_kernel kernels[] = {
    SOFTMAX_KERNEL("Softmax"),
    SOFTMAX_KERNEL("LogSoftmax"),
    SOFTMAX_KERNEL("Hardmax"),
};
const kit_table reference_softmax = { kernels, KIT_COUNT(kernels) };
