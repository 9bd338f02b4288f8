#include "serve/schedule/batching.h"
#include "inlay/check.h"

/* Batch size with the best throughput. */
static uint64_t best_rows(const struct model *model)
{
    uint32_t best = model->queue.cost.best;

    return best > 0 && best < model->settings.max_batch ? best : model->settings.max_batch;
}

/* Time at which a run of the request should end: its deadline, or the target p99 less a sixteenth for receiving and
 * sending. UINT64_MAX = none. */
static uint64_t due_at(const struct job *job)
{
    uint64_t target = job->model->settings.batch_target_us * 1000,
             due = target > 0 ? job->received_ns + target - target / 16 : UINT64_MAX;

    return job->deadline_ns > 0 && job->deadline_ns < due ? job->deadline_ns : due;
}

/* Latest time at which a run of `run` ns for the request may begin. The request waits for others at most half of its
 * client's timeout. */
static uint64_t latest_start(const struct job *job, uint64_t run)
{
    uint64_t until = job->received_ns + job->model->settings.batch_delay_us * 1000, due = due_at(job),
             latest = due > run ? due - run : 0;

    if (job->deadline_ns > job->arrived_ns && job->arrived_ns + (job->deadline_ns - job->arrived_ns) / 2 < latest)
        latest = job->arrived_ns + (job->deadline_ns - job->arrived_ns) / 2;
    return latest < until ? latest : until;
}

uint64_t batching_ready_at(const struct model *model)
{
    uint64_t at = UINT64_MAX, run;

    if (model->settings.max_batch <= 1 || model->settings.batch_delay_us == 0 || model->queue.rows >= best_rows(model))
        return 0;
    run = (uint64_t)batch_cost_latest(&model->queue.cost, best_rows(model));
    for (uint32_t level = 0; level < PRIORITY_LEVELS; level++) {
        for (const struct job *job = model->queue.first[level]; job != NULL; job = job->next) {
            uint64_t until = latest_start(job, run);

            at = until < at ? until : at;
        }
    }
    return at;
}

static const infer_tensor *find_input(const infer_request *request, uint32_t input)
{
    for (uint32_t i = 0; i < request->input_count; i++)
        if (request->inputs[i].input == input)
            return &request->inputs[i];
    return NULL;
}

bool batching_fits(const struct job *first, const struct job *second)
{
    INLAY_CHECK(first->model == second->model);
    if (first->sequence != NULL || second->sequence != NULL || first->size.rows == 0 || second->size.rows == 0 ||
        first->size.padded != second->size.padded || first->request->input_count != second->request->input_count)
        return false;
    for (uint32_t i = 0; i < first->request->input_count; i++) {
        const infer_tensor *left = &first->request->inputs[i], *right = find_input(second->request, left->input);
        uint32_t padded = first->size.padded > 0 ? first->model->padding.input_axes[left->input] : 0;

        if (right == NULL || left->rank != right->rank)
            return false;
        for (uint32_t axis = 1; axis < left->rank; axis++)
            if (axis != padded && left->dims[axis] != right->dims[axis])
                return false;
    }
    return true;
}

uint64_t batching_rows(const struct job *job, uint64_t now)
{
    const struct model *model = job->model;
    uint64_t rows = best_rows(model), due = due_at(job), left = due > now ? due - now : 0;

    /* A request that is already late gains nothing by a short run, and the requests after it would lose time. */
    if (due == UINT64_MAX || batch_cost_of(&model->queue.cost, 1) > (double)left)
        return rows;
    while (rows > 1 && batch_cost_latest(&model->queue.cost, rows) > (double)left)
        rows /= 2;
    return rows;
}
