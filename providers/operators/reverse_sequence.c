/* ReverseSequence: ONNX 10. Reverses the first sequence_lens[batch] steps of each batch. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/args.h"
#include "operators/operators.h"
#include "operators/strided.h"

typedef struct reverse_state {
    int64_t batch_axis, time_axis;
} reverse_state;

static inlay_status prepare_reverse(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const int64_t batch = kit_attr_int(node->info, "batch_axis", 1), time = kit_attr_int(node->info, "time_axis", 0);
    inlay_status status;

    if (batch < 0 || batch > 1 || time < 0 || time > 1 || batch == time)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "batch_axis %lld and time_axis %lld must be 0 and 1, or 1 and 0",
                          (long long)batch, (long long)time);
    status = arg_allocate_state(sizeof(reverse_state), out_state, diag);
    if (status == INLAY_OK)
        *(reverse_state *)*out_state = (reverse_state){ batch, time };
    return status;
}

typedef struct reverse_job {
    const char *in;
    char *out;
    const int64_t *lengths;
    int64_t batches, times, block, batch_step, time_step; /* block and steps in bytes */
} reverse_job;

/* A unit of work is a (time, batch) pair. */
static inlay_status reverse_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const reverse_job *job = user;

    (void)worker;
    INLAY_CHECK(job->batches > 0);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t time = unit / job->batches, batch = unit % job->batches;
        const int64_t from = time < job->lengths[batch] ? job->lengths[batch] - 1 - time : time;

        memcpy(job->out + time * job->time_step + batch * job->batch_step,
               job->in + from * job->time_step + batch * job->batch_step, (size_t)job->block);
    }
    return INLAY_OK;
}

static inlay_status run_reverse(const kit_call *call)
{
    const reverse_state *state = call->state;
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    int64_t steps[INLAY_MAX_RANK];
    reverse_job job = { .in = input->data, .out = output->data, .lengths = call->in[1].data };
    inlay_status status = arg_expect_dims(call->diag, output, input->rank, input->dims);

    if (status != INLAY_OK)
        return status;
    if (input->rank < 2)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "the input has rank %u; a batch and a time axis are needed",
                          input->rank);
    job.batches = input->dims[state->batch_axis];
    job.times = input->dims[state->time_axis];
    if (call->in[1].count != job.batches)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "sequence_lens has %lld values for a batch of %lld",
                          (long long)call->in[1].count, (long long)job.batches);
    for (int64_t batch = 0; batch < job.batches; batch++)
        if (job.lengths[batch] < 0 || job.lengths[batch] > job.times)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "sequence_lens[%lld] is %lld; there are %lld steps",
                              (long long)batch, (long long)job.lengths[batch], (long long)job.times);
    if (input->count == 0)
        return INLAY_OK;
    strided_row_major(input->rank, input->dims, strided_element_bytes(input->dtype), steps);
    job.batch_step = steps[state->batch_axis];
    job.time_step = steps[state->time_axis];
    job.block = steps[1];
    return kit_parallel(call, job.batches * job.times, 65536 / job.block + 1, reverse_range, &job);
}

static const kit_kernel kernels[] = {
    { .op_type = "ReverseSequence", .prepare = prepare_reverse, .run = run_reverse },
};
const kit_table OPERATOR(operators_reverse_sequence) = { kernels, KIT_COUNT(kernels) };
