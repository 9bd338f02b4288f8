/* One run of a model for one request, or for several that are joined along their first axis. */
#include "serve/datatype.h"
#include "serve/sequence.h"
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ inputs */

static inlay_status bind(const struct instance *i, uint32_t input, const infer_tensor *t, const int64_t *dims,
                         void *data, uint64_t bytes, inlay_diag *diag)
{
    inlay_value *value = NULL;
    inlay_status status = inlay_value_borrow(t->dtype, t->rank, dims, data, bytes, &value, diag);

    if (status == INLAY_OK)
        status = inlay_context_set_input(i->context, input, value, diag);
    inlay_value_unref(value);
    return status;
}

/* The input of each job, one behind the other, padded where the run is. */
static inlay_status bind_joined(const struct model *m, struct instance *i, uint32_t k, uint32_t count, uint64_t rows,
                                inlay_diag *diag)
{
    const infer_tensor *first = &i->jobs[0]->request->inputs[k];
    uint32_t input = first->input, axis = i->jobs[0]->padded > 0 ? m->padding.input_axes[input] : 0;
    uint64_t length = i->jobs[0]->padded, bytes = first->bytes / i->jobs[0]->rows * rows, used = 0;
    int64_t dims[INLAY_MAX_RANK];

    memcpy(dims, first->dims, sizeof dims);
    dims[0] = m->joinable ? (int64_t)rows : dims[0];
    if (axis > 0) {
        bytes = bytes / (uint64_t)dims[axis] * length;
        dims[axis] = (int64_t)length;
    }
    if (i->joined_bytes[input] < bytes) {
        void *more = aligned_alloc(64, (bytes + 63) / 64 * 64);

        if (more == NULL)
            return no_memory(diag, "to join %llu rows", (unsigned long long)rows);
        free(i->joined[input]);
        i->joined[input] = more;
        i->joined_bytes[input] = bytes;
    }
    for (uint32_t n = 0; n < count; n++) {
        const infer_request *q = i->jobs[n]->request;

        for (uint32_t t = 0; t < q->input_count; t++)
            if (q->inputs[t].input == input)
                used += padding_write(&m->padding, &q->inputs[t], length, (char *)i->joined[input] + used);
    }
    return bind(i, input, first, dims, i->joined[input], bytes, diag);
}

static inlay_status bind_inputs(const struct model *m, struct instance *i, uint32_t count, uint64_t rows,
                                inlay_diag *diag)
{
    const struct job *j = i->jobs[0];
    bool written = count > 1 || j->padded > j->length; /* otherwise the inputs stay where they arrived */
    inlay_status status = INLAY_OK;

    for (uint32_t k = 0; status == INLAY_OK && k < j->request->input_count; k++) {
        const infer_tensor *t = &j->request->inputs[k];

        status =
            written ? bind_joined(m, i, k, count, rows, diag) : bind(i, t->input, t, t->dims, t->data, t->bytes, diag);
    }
    return status;
}

static void unbind_inputs(const struct model *m, const struct instance *i)
{
    for (uint32_t k = 0; k < m->input_count; k++)
        (void)inlay_context_set_input(i->context, k, NULL, NULL);
}

/* ------------------------------------------------------------------ outputs */

static inlay_status read_output(const struct model *m, const struct instance *i, uint32_t k, infer_output *o,
                                inlay_diag *diag)
{
    inlay_value *value = inlay_context_output(i->context, k);

    if (value == NULL || inlay_value_kind(value) != INLAY_KIND_TENSOR)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "output '%s' is no tensor, which the protocol has no form for",
                          m->outputs[k].name);
    *o = (infer_output){ .name = m->outputs[k].name,
                         .dtype = inlay_value_dtype(value),
                         .rank = inlay_value_rank(value),
                         .count = (uint64_t)inlay_value_count(value),
                         .data = inlay_value_data(value) };
    if (o->rank > 0)
        memcpy(o->dims, inlay_value_dims(value), o->rank * sizeof o->dims[0]);
    if (o->data == NULL && o->count > 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "output '%s' is not in host memory", o->name);
    return INLAY_OK;
}

/* Rows [from, from + the job's own) of an output of the run, as long as the job's inputs. */
static inlay_status slice_output(const struct model *m, const struct instance *i, const struct job *j, uint64_t from,
                                 uint64_t rows, uint32_t k, infer_output *o, inlay_diag *diag)
{
    uint32_t axis = j->padded > j->length ? m->padding.output_axes[k] : 0;
    inlay_status status = read_output(m, i, k, o, diag);
    uint64_t row_count;

    if (status != INLAY_OK)
        return status;
    if (rows != j->rows) {
        if (o->rank == 0 || (uint64_t)o->dims[0] != rows)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                              "output '%s' has no row for each of its inputs'; serve this model with max_batch: 1",
                              o->name);
        row_count = o->count / rows;
        o->data = o->count > 0 ? (const char *)o->data + from * row_count * datatype_bytes(o->dtype) : NULL;
        o->count = j->rows * row_count;
        o->dims[0] = (int64_t)j->rows;
    }
    if (axis == 0)
        return INLAY_OK;
    if (axis >= o->rank || (uint64_t)o->dims[axis] != j->padded)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "output '%s' is not as long as its inputs; serve this model without buckets", o->name);
    return padding_cut(o, axis, j->length, &i->cut[k], &i->cut_bytes[k]) ? INLAY_OK
                                                                         : no_memory(diag, "for output '%s'", o->name);
}

/* The job's outputs in the order in which it wants them. */
static inlay_status slice_outputs(const struct model *m, const struct instance *i, const struct job *j, uint64_t from,
                                  uint64_t rows, uint32_t *out_count, inlay_diag *diag)
{
    const infer_request *q = j->request;
    uint32_t count = q->output_count > 0 ? q->output_count : m->output_count;
    inlay_status status = INLAY_OK;

    *out_count = 0;
    for (uint32_t n = 0; status == INLAY_OK && n < count; n++) {
        if (q->output_count == 0 && j->sequence != NULL && m->state_outputs[n])
            continue; /* what the context keeps */
        status = slice_output(m, i, j, from, rows, q->output_count > 0 ? q->outputs[n].output : n,
                              &i->outputs[(*out_count)++], diag);
    }
    return status;
}

/* ------------------------------------------------------------------ the run */

/* Time that the run has: until the last of its jobs has none left; 0 = one of them has no limit. */
static uint64_t time_left(const struct instance *i, uint32_t count, uint64_t now)
{
    uint64_t latest = 0;

    for (uint32_t n = 0; n < count; n++) {
        if (i->jobs[n]->deadline_ns == 0)
            return 0;
        latest = i->jobs[n]->deadline_ns > latest ? i->jobs[n]->deadline_ns : latest;
    }
    return latest > now ? latest - now : 1;
}

/* Each alone, after a run of all failed: what is wrong with one request is nothing to the others. */
static void run_apart(struct model *m, struct instance *i, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) {
        struct job *j = i->jobs[n];

        i->jobs[0] = j;
        model_run(m, i, 1);
    }
}

/* Forgets the states of before, where a sequence begins. */
static void begin_sequence(const struct instance *i)
{
    struct sequence *q = i->jobs[0]->sequence;

    if (q == NULL || !(q->fresh || i->jobs[0]->request->sequence_start))
        return;
    (void)inlay_context_state_rewind(i->context, 0, NULL);
    q->fresh = false;
}

void model_run(struct model *m, struct instance *i, uint32_t count)
{
    inlay_run_options run = INLAY_RUN_OPTIONS_INIT;
    inlay_diag diag = INLAY_DIAG_INIT;
    uint64_t rows = 0, from = 0, start = clock_ns(), bound, ended;
    inlay_status status;

    for (uint32_t n = 0; n < count; n++)
        rows += i->jobs[n]->rows;
    begin_sequence(i);
    status = bind_inputs(m, i, count, rows, &diag);
    bound = clock_ns();
    run.cancel = &i->cancel;
    run.max_threads = i->threads;
    run.timeout_ns = time_left(i, count, bound);
    if (status == INLAY_OK)
        status = inlay_context_run(i->context, &run, &diag);
    ended = clock_ns();
    unbind_inputs(m, i);
    if (status != INLAY_OK && count > 1 && status != INLAY_CANCELLED && status != INLAY_DEADLINE_EXCEEDED) {
        run_apart(m, i, count);
        return;
    }
    /* Before the first answer leaves: a client that has its answer finds the run in the statistics. */
    if (status == INLAY_OK)
        stats_add_run(&m->stats, rows, bound - start, ended - bound);
    for (uint32_t n = 0; n < count; n++) {
        struct job *j = i->jobs[n];
        uint32_t outputs = 0;
        inlay_status own = status;

        j->started_ns = start;
        j->compute_ns = ended - bound;
        j->ended_ns = ended;
        j->run_rows = rows;
        stats_add_time(&m->stats.queue, start - j->arrived_ns);
        if (own == INLAY_OK)
            own = slice_outputs(m, i, j, from, rows, &outputs, &diag);
        from += j->rows;
        j->finish(j, own == INLAY_OK ? NULL : &diag, own == INLAY_OK ? i->outputs : NULL,
                  own == INLAY_OK ? outputs : 0);
    }
    if (status == INLAY_OK)
        stats_add_output(&m->stats, rows, clock_ns() - ended);
}
