#include "serve/join.h"

/* Rows that are worth joining. */
static uint64_t wanted_rows(const struct model *m)
{
    uint32_t best = m->queue.cost.best;

    return best > 0 && best < m->settings.max_batch ? best : m->settings.max_batch;
}

/* When a run of the request should end: by its deadline, or by the target of joined requests, of which a part is for
 * the way there and back. UINT64_MAX = whenever. */
static uint64_t due_at(const struct job *j)
{
    uint64_t target = j->model->settings.batch_target_us * 1000,
             due = target > 0 ? j->arrived_ns + target - target / 16 : UINT64_MAX;

    return j->deadline_ns > 0 && j->deadline_ns < due ? j->deadline_ns : due;
}

/* How long a request may wait for others before a run of so many ns; of the time that its client gives it, no more than
 * half. */
static uint64_t waits_until(const struct job *j, uint64_t run)
{
    uint64_t until = j->arrived_ns + j->model->settings.batch_delay_us * 1000, due = due_at(j),
             latest = due > run ? due - run : 0;

    if (j->deadline_ns > j->arrived_ns && j->arrived_ns + (j->deadline_ns - j->arrived_ns) / 2 < latest)
        latest = j->arrived_ns + (j->deadline_ns - j->arrived_ns) / 2;
    return latest < until ? latest : until;
}

uint64_t join_ready_at(const struct model *m)
{
    uint64_t at = UINT64_MAX, run;

    if (m->settings.max_batch <= 1 || m->settings.batch_delay_us == 0 || m->queue.rows >= wanted_rows(m))
        return 0;
    run = (uint64_t)batch_cost_latest(&m->queue.cost, wanted_rows(m));
    for (uint32_t level = 0; level < PRIORITY_LEVELS; level++) {
        for (const struct job *j = m->queue.first[level]; j != NULL; j = j->next) {
            uint64_t until = waits_until(j, run);

            at = until < at ? until : at;
        }
    }
    return at;
}

static const infer_tensor *same_input(const infer_request *q, uint32_t input)
{
    for (uint32_t i = 0; i < q->input_count; i++)
        if (q->inputs[i].input == input)
            return &q->inputs[i];
    return NULL;
}

bool join_fits(const struct job *a, const struct job *b)
{
    if (a->sequence != NULL || b->sequence != NULL || a->rows == 0 || b->rows == 0 || a->padded != b->padded ||
        a->request->input_count != b->request->input_count)
        return false;
    for (uint32_t i = 0; i < a->request->input_count; i++) {
        const infer_tensor *x = &a->request->inputs[i], *y = same_input(b->request, x->input);
        uint32_t padded = a->padded > 0 ? a->model->padding.input_axes[x->input] : 0;

        if (y == NULL || x->rank != y->rank)
            return false;
        for (uint32_t d = 1; d < x->rank; d++)
            if (d != padded && x->dims[d] != y->dims[d])
                return false;
    }
    return true;
}

uint64_t join_rows(const struct job *j, uint64_t now)
{
    const struct model *m = j->model;
    uint64_t rows = wanted_rows(m), due = due_at(j), left = due > now ? due - now : 0;

    /* One that is late already gains nothing by a short run, and those behind it would lose. */
    if (due == UINT64_MAX || batch_cost_of(&m->queue.cost, 1) > (double)left)
        return rows;
    while (rows > 1 && batch_cost_latest(&m->queue.cost, rows) > (double)left)
        rows /= 2;
    return rows;
}
