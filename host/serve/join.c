#include "serve/join.h"

/* Rows that are worth joining. */
static uint64_t wanted_rows(const struct model *model)
{
    uint32_t best = model->queue.cost.best;

    return best > 0 && best < model->settings.max_batch ? best : model->settings.max_batch;
}

/* When a run of the request should end: by its deadline, or by the target of joined requests, of which a part is for
 * the way there and back. UINT64_MAX = whenever. */
static uint64_t due_at(const struct job *job)
{
    uint64_t target = job->model->settings.batch_target_us * 1000,
             due = target > 0 ? job->arrived_ns + target - target / 16 : UINT64_MAX;

    return job->deadline_ns > 0 && job->deadline_ns < due ? job->deadline_ns : due;
}

/* How long a request may wait for others before a run of so many ns; of the time that its client gives it, no more than
 * half. */
static uint64_t waits_until(const struct job *job, uint64_t run)
{
    uint64_t until = job->arrived_ns + job->model->settings.batch_delay_us * 1000, due = due_at(job),
             latest = due > run ? due - run : 0;

    if (job->deadline_ns > job->arrived_ns && job->arrived_ns + (job->deadline_ns - job->arrived_ns) / 2 < latest)
        latest = job->arrived_ns + (job->deadline_ns - job->arrived_ns) / 2;
    return latest < until ? latest : until;
}

uint64_t join_ready_at(const struct model *model)
{
    uint64_t at = UINT64_MAX, run;

    if (model->settings.max_batch <= 1 || model->settings.batch_delay_us == 0 ||
        model->queue.rows >= wanted_rows(model))
        return 0;
    run = (uint64_t)batch_cost_latest(&model->queue.cost, wanted_rows(model));
    for (uint32_t level = 0; level < PRIORITY_LEVELS; level++) {
        for (const struct job *job = model->queue.first[level]; job != NULL; job = job->next) {
            uint64_t until = waits_until(job, run);

            at = until < at ? until : at;
        }
    }
    return at;
}

static const infer_tensor *same_input(const infer_request *request, uint32_t input)
{
    for (uint32_t i = 0; i < request->input_count; i++)
        if (request->inputs[i].input == input)
            return &request->inputs[i];
    return NULL;
}

bool join_fits(const struct job *a, const struct job *b)
{
    if (a->sequence != NULL || b->sequence != NULL || a->rows == 0 || b->rows == 0 || a->padded != b->padded ||
        a->request->input_count != b->request->input_count)
        return false;
    for (uint32_t i = 0; i < a->request->input_count; i++) {
        const infer_tensor *input = &a->request->inputs[i], *output = same_input(b->request, input->input);
        uint32_t padded = a->padded > 0 ? a->model->padding.input_axes[input->input] : 0;

        if (output == NULL || input->rank != output->rank)
            return false;
        for (uint32_t d = 1; d < input->rank; d++)
            if (d != padded && input->dims[d] != output->dims[d])
                return false;
    }
    return true;
}

uint64_t join_rows(const struct job *job, uint64_t now)
{
    const struct model *model = job->model;
    uint64_t rows = wanted_rows(model), due = due_at(job), left = due > now ? due - now : 0;

    /* One that is late already gains nothing by a short run, and those behind it would lose. */
    if (due == UINT64_MAX || batch_cost_of(&model->queue.cost, 1) > (double)left)
        return rows;
    while (rows > 1 && batch_cost_latest(&model->queue.cost, rows) > (double)left)
        rows /= 2;
    return rows;
}
