/* NegativeLogLikelihoodLoss (ONNX 12, 13, 22) and SoftmaxCrossEntropyLoss (12, 13).
 *
 * Scores are [N, C, D1, ...], labels [N, D1, ...]. Each position has a loss and a weight, which is 0 for ignored
 * labels. The mean divides by the sum of the weights. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/operators.h"
#include "simd/row_set.h"
#include "simd/vecmath.h"
#include <math.h>
#include <stdlib.h>

enum { LOSS_TILE = 256, LOSS_GRAIN = 1 << 12 };
enum { REDUCE_NONE, REDUCE_SUM, REDUCE_MEAN };

typedef struct loss_task {
    int64_t classes, stride; /* C, and the distance between classes: D1 * ... */
    const void *weights;     /* [C], or NULL */
    bool softmax, ignores;
    int64_t ignored;
} loss_task;

/* A log-probability is (score - max) - log(sum of e^(score - max)). One subtraction of a rounded max + log(sum) would
 * lose the logarithm behind large scores. */
typedef struct loss_shift {
    float max, log_sum;
} loss_shift;

/* n: number of scores, above 0. */
static loss_shift shift_of_row(const float *scores, int64_t n)
{
    const row_set *rows = KERNEL_BEST(rows);
    float terms[LOSS_TILE], max;
    double sum = 0;

    rows->tops(scores, &max, 1, n);
    for (int64_t first = 0; first < n; first += LOSS_TILE) {
        const int64_t count = n - first < LOSS_TILE ? n - first : LOSS_TILE;

        for (int64_t i = 0; i < count; i++)
            terms[i] = scores[first + i] - max;
        rows->exp(terms, terms, count);
        sum += rows->sum(terms, count);
    }
    return (loss_shift){ max, vm_log((float)sum) };
}

#define BODY "loss.inc"
#include "operators/floats.inc"

typedef int64_t (*loss_fn)(const loss_task *task, const void *scores, const loss_shift *known_shift, void *log_prob,
                           const int64_t *labels, int64_t columns, double *losses, double *totals);
static const loss_fn loss_columns[INLAY_DTYPE_COUNT] = BY_FLOAT(loss_columns);

typedef struct loss_state {
    uint32_t reduction;
    bool softmax, ignores;
    int64_t ignored;
} loss_state;

static inlay_status prepare_loss(const kit_node *node, void **out_state, inlay_diag *diag)
{
    static const char *const names[] = { "none", "sum", "mean" };
    const char *reduction = kit_attr_string(node->info, "reduction", "mean");
    uint32_t found = 0;
    loss_state *state;

    while (found < KIT_COUNT(names) && strcmp(names[found], reduction) != 0)
        found++;
    if (found == KIT_COUNT(names))
        return inlay_fail(diag, INLAY_INVALID_MODEL, "reduction is '%s'; it must be none, sum or mean", reduction);
    state = malloc(sizeof *state);
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the attributes of a loss");
    state->reduction = found;
    state->softmax = kit_op_type(node)[0] == 'S';
    state->ignores = kit_attr(node->info, "ignore_index") != NULL;
    state->ignored = kit_attr_int(node->info, "ignore_index", 0);
    *out_state = state;
    return INLAY_OK;
}

static inlay_status shape_loss(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *scores = &plan->in[0], *labels = &plan->in[1];
    bool fits = scores->rank >= 2 && labels->rank == scores->rank - 1;

    (void)state;
    for (uint32_t d = 0; fits && d < labels->rank; d++)
        fits = labels->dims[d] == scores->dims[d == 0 ? 0 : d + 1];
    if (!fits)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "the second input must have the shape of the first without its axis 1, the classes");
    if (plan->in_count > 2 && plan->in[2].dtype != INLAY_UNDEFINED && plan->in[2].count != scores->dims[1])
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "%lld weights for %lld classes", (long long)plan->in[2].count,
                          (long long)scores->dims[1]);
    plan->workspace_bytes = (uint64_t)labels->count * 2 * sizeof(double);
    return INLAY_OK;
}

typedef struct loss_job {
    const kit_call *call;
    loss_task task;
    int64_t tiles;
    double *losses, *totals; /* [N * stride]; totals: the weights of the positions */
} loss_job;

static inlay_status loss_items(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const loss_job *job = user;
    const kit_call *call = job->call;
    const kit_tensor *scores = &call->in[0], *labels = &call->in[1];
    const bool are_rows =
        job->task.softmax && scores->dtype == INLAY_FLOAT && job->task.stride == 1 && job->task.classes > 0;
    int64_t element_bytes = inlay_dtype_bits(scores->dtype) / 8, numbers[LOSS_TILE], invalid;
    loss_shift shift = { 0 };

    (void)worker;
    INLAY_CHECK(job->tiles > 0);
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t batch = tile / job->tiles, first = tile % job->tiles * LOSS_TILE,
                position = batch * job->task.stride + first;
        int64_t columns = job->task.stride - first < LOSS_TILE ? job->task.stride - first : LOSS_TILE;
        int64_t offset = (batch * job->task.classes * job->task.stride + first) * element_bytes;

        convert_to_i64(numbers, labels->dtype, labels->data, position, columns);
        if (are_rows)
            shift = shift_of_row((const float *)scores->data + position * job->task.classes, job->task.classes);
        invalid = loss_columns[scores->dtype](&job->task, (const char *)scores->data + offset, are_rows ? &shift : NULL,
                                              kit_has_output(call, 1) ? (char *)call->out[1].data + offset : NULL,
                                              numbers, columns, job->losses + position, job->totals + position);
        if (invalid >= 0)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "label %lld at position %lld is not in [0, %lld)",
                              (long long)numbers[invalid], (long long)(position + invalid),
                              (long long)job->task.classes);
    }
    return INLAY_OK;
}

static inlay_status run_loss(const kit_call *call)
{
    const loss_state *state = call->state;
    const kit_tensor *scores = &call->in[0];
    int64_t positions = call->in[1].count;
    loss_job job = { .call = call, .losses = call->workspace };
    double loss = 0, total = 0;
    inlay_status status = INLAY_OK;

    job.totals = job.losses + positions;
    job.task = (loss_task){ .classes = scores->dims[1],
                            .stride = 1,
                            .softmax = state->softmax,
                            .ignores = state->ignores,
                            .ignored = state->ignored,
                            .weights = kit_has_input(call, 2) ? call->in[2].data : NULL };
    if (positions > 0) {
        job.task.stride = positions / scores->dims[0];
        job.tiles = (job.task.stride + LOSS_TILE - 1) / LOSS_TILE;
        status = kit_parallel(call, scores->dims[0] * job.tiles,
                              LOSS_GRAIN / (scores->count / (scores->dims[0] * job.tiles) + 1) + 1, loss_items, &job);
    }
    if (status != INLAY_OK)
        return status;
    if (state->reduction == REDUCE_NONE) {
        convert_from_f64(scores->dtype, call->out[0].data, 0, positions, job.losses, 0);
        return INLAY_OK;
    }
    for (int64_t i = 0; i < positions; i++) {
        loss += job.losses[i];
        total += job.totals[i];
    }
    loss = state->reduction == REDUCE_MEAN ? loss / total : loss;
    convert_from_f64(scores->dtype, call->out[0].data, 0, 1, &loss, 0);
    return INLAY_OK;
}

#define LOSS_KERNEL(name)                                                                                              \
    {                                                                                                                  \
        .op_type = name, .in_types = { KIT_FLOATS, KIT_BIT(INT32) | KIT_BIT(INT64) }, .prepare = prepare_loss,         \
        .shape = shape_loss, .run = run_loss                                                                           \
    }

static const kit_kernel kernels[] = {
    LOSS_KERNEL("NegativeLogLikelihoodLoss"),
    LOSS_KERNEL("SoftmaxCrossEntropyLoss"),
};
const kit_table OPERATOR(operators_loss) = { kernels, KIT_COUNT(kernels) };
