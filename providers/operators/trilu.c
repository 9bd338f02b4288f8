/* Trilu: ONNX 14. Keeps one triangle of each matrix; the other becomes 0. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/args.h"
#include "operators/operators.h"
#include "operators/strided.h"

typedef struct trilu_state {
    bool upper;
} trilu_state;

static inlay_status prepare_trilu(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_status status = arg_allocate_state(sizeof(trilu_state), out_state, diag);

    if (status == INLAY_OK)
        ((trilu_state *)*out_state)->upper = kit_attr_int(node->info, "upper", 1) != 0;
    return status;
}

typedef struct trilu_job {
    const char *in;
    char *out;
    int64_t rows, columns, diagonal;
    int64_t element;
    bool upper;
} trilu_job;

/* Processes rows of all matrices. Row r keeps the columns from r + k on (upper), or up to r + k (lower). */
static inlay_status trilu_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const trilu_job *job = user;
    const int64_t bytes = job->columns * job->element;

    INLAY_CHECK(job->rows > 0 && job->columns > 0);
    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        const char *from = job->in + row * bytes;
        char *to = job->out + row * bytes;
        const int64_t edge = row % job->rows + job->diagonal + (job->upper ? 0 : 1);
        const int64_t split = (edge < 0 ? 0 : edge > job->columns ? job->columns : edge) * job->element;
        const int64_t keep = job->upper ? split : 0, keep_end = job->upper ? bytes : split;

        if (from != to)
            memcpy(to + keep, from + keep, (size_t)(keep_end - keep));
        memset(to, 0, (size_t)keep);
        memset(to + keep_end, 0, (size_t)(bytes - keep_end));
    }
    return INLAY_OK;
}

static inlay_status run_trilu(const kit_call *call)
{
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    trilu_job job = { .in = input->data, .out = output->data, .upper = ((const trilu_state *)call->state)->upper };
    inlay_status status = arg_expect_dims(call->diag, output, input->rank, input->dims);

    if (status != INLAY_OK)
        return status;
    if (input->rank < 2)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "the input has rank %u; matrices are needed", input->rank);
    if (kit_has_input(call, 1) && call->in[1].count != 1)
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "k must hold one value");
    if (input->count == 0)
        return INLAY_OK;
    job.rows = input->dims[input->rank - 2];
    job.columns = input->dims[input->rank - 1];
    job.element = strided_element_bytes(input->dtype);
    job.diagonal = kit_has_input(call, 1) ? *(const int64_t *)call->in[1].data : 0;
    /* A diagonal outside the matrix has the same effect as one at its corner. */
    job.diagonal = job.diagonal < -job.rows ? -job.rows : job.diagonal > job.columns ? job.columns : job.diagonal;
    return kit_parallel(call, input->count / job.columns, 65536 / (job.columns * job.element) + 1, trilu_range, &job);
}

static const kit_kernel kernels[] = {
    { .op_type = "Trilu", .flags = KIT_IN_PLACE_FIRST, .prepare = prepare_trilu, .run = run_trilu },
};
const kit_table OPERATOR(operators_trilu) = { kernels, KIT_COUNT(kernels) };
