/* record.c - what runs took, filed as measurements of their kernels. */
#include "exec/session.h"
#include "exec/watch.h"
#include "partition/cost_store.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

typedef struct recording {
    const inlay_session *s;
    const timings *t;
    uint64_t *identities; /* [provider_count] owned */
    cost_record *records; /* [count] owned */
    uint32_t count, capacity;
} recording;

static bool add(recording *r, const cost_record *one)
{
    if (r->count == r->capacity) {
        uint32_t capacity = r->capacity * 2 + 256;
        cost_record *more = realloc(r->records, capacity * sizeof *more);
        if (more == NULL)
            return false;
        r->records = more;
        r->capacity = capacity;
    }
    r->records[r->count++] = *one;
    return true;
}

/* A step that is one offer's kernel, at sizes that the plan knew. */
static bool add_step(recording *r, const program *p, const plan *now, const plan_step *step)
{
    const part_region *region = step->step->region;
    uint32_t calls = 0;
    double ns = timings_step_ns(r->t, p, (uint32_t)(step->step - p->steps), &calls);
    cost_question q = { .graph = &p->snapshot, .provider = step->step->provider, .values = now->states,
                        .max_threads = p->env->max_threads, .runs = true };
    cost_record one = { .samples = timings_runs(r->t), .when = (int64_t)time(NULL) };

    if (step->kind != PLAN_EXEC || region->offer_count != 1 || calls == 0 || !(ns > 0))
        return true;
    q.offer = &p->parts.offers[region->offers[0]];
    one.key = cost_key_of(r->identities[q.offer->provider], &q);
    one.ns = ns / calls;
    (void)snprintf(one.what, sizeof one.what, "%s", step->step->node->info.op_type.data);
    return add(r, &one);
}

static bool add_program(recording *r, const runner *run)
{
    const bound *b = run->now;

    for (uint32_t i = 0; b != NULL && i < b->plan->step_count; i++) {
        const plan_step *step = &b->plan->steps[i];
        uint32_t index = step->step != NULL ? (uint32_t)(step->step - run->prog->steps) : 0;

        if (step->step == NULL)
            continue; /* a copy */
        if (step->kind != PLAN_HOST && !add_step(r, run->prog, b->plan, step))
            return false;
        if (step->kind != PLAN_HOST || run->children == NULL || run->children[index] == NULL)
            continue;
        for (uint32_t k = 0; k < step->step->node->body_count; k++)
            if (run->children[index][k] != NULL && !add_program(r, run->children[index][k]))
                return false;
    }
    return true;
}

static int by_key(const void *a_, const void *b_)
{
    const cost_record *a = a_, *b = b_;

    return cost_key_less(&a->key, &b->key) ? -1 : cost_key_less(&b->key, &a->key) ? 1 : 0;
}

/* Equal kernels become one: the mean of theirs, and how far apart they are. */
static void merge_equal(recording *r)
{
    uint32_t n = 0;

    if (r->count > 0)
        qsort(r->records, r->count, sizeof *r->records, by_key);
    for (uint32_t i = 0, end; i < r->count; i = end) {
        double sum = 0, off = 0;

        for (end = i; end < r->count && by_key(&r->records[i], &r->records[end]) == 0; end++)
            sum += r->records[end].ns;
        sum /= end - i;
        for (uint32_t k = i; k < end; k++)
            off += fabs(r->records[k].ns / sum - 1);
        r->records[n] = r->records[i];
        r->records[n].ns = sum;
        r->records[n++].spread = (float)(off / (end - i));
    }
    r->count = n;
}

inlay_status session_record(const inlay_session *s, const runner *run, const timings *t, uint32_t *out_count,
                            inlay_diag *diag)
{
    recording r = { .s = s, .t = t };
    cost_log log = { s->env.log, s->env.log_ctx };
    inlay_status status = INLAY_OK;
    char folder[PATH_MAX];

    INLAY_TRY(session_costs_folder(s, folder, sizeof folder, diag));
    r.identities = calloc((size_t)s->env.provider_count + 1, sizeof *r.identities);
    for (uint32_t i = 0; r.identities != NULL && i < s->env.provider_count; i++)
        r.identities[i] = cost_identity_of(&s->providers[i]);
    if (r.identities == NULL || !add_program(&r, run)) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to record what runs took");
        goto done;
    }
    merge_equal(&r);
    INLAY_TRY(cost_store_merge(folder, r.records, r.count, &log, diag));
    *out_count = r.count;
done:
    free(r.identities);
    free(r.records);
    return status;
}
