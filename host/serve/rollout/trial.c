#include "serve/rollout/trial.h"
#include "inlay/check.h"
#include "serve/base/rollouts.h"
#include "serve/model/run_profile.h"
#include "serve/repository/repository.h"
#include <stdlib.h>
#include <string.h>

#define WAIT_NS UINT64_C(1000000000) /* most time that a copy waits */
enum { UNTIMED = 10 };               /* one in this many of the pairs of a rollout, the first ones, is not timed */

typedef struct kept_output {
    infer_output output;
    void *memory; /* owned */
} kept_output;

/* What the first run leaves to do. */
typedef enum trial_rest {
    REST_NOTHING, /* it failed on both versions, or did not run */
    REST_COMPARE, /* its outputs are kept */
    REST_LATE,    /* the candidate was stopped by the deadline or the client: was it slower than the other version? */
    REST_FAILED,  /* only the candidate failed */
    REST_DROPPED  /* there is no room for a copy */
} trial_rest;

struct trial {
    struct server *server;
    struct rollout *rollout;
    bool by_candidate; /* the first run is the candidate's */
    bool is_retried;   /* it failed, and the stable version has the request */

    /* The first run. */
    trial_rest rest;
    kept_output *outputs; /* [output_count]; NULL: not kept */
    uint32_t output_count;
    uint64_t ns;
    const char *variant; /* job_run.variant */
    uint32_t threads;    /* of the run */
    bool was_alone;      /* in its run */

    /* The copy. */
    infer_request request;
    struct job job;
    uint64_t held; /* see server_hold_copy() */
};

static void destroy(struct trial *trial)
{
    for (uint32_t i = 0; trial->outputs != NULL && i < trial->output_count; i++)
        free(trial->outputs[i].memory);
    free(trial->outputs);
    infer_request_deinit(&trial->request);
    server_release_copy(trial->server, trial->held);
    model_unref(trial->job.model);
    rollout_unref(trial->rollout);
    free(trial);
}

/* The statistics of the rollout, locked until board_unlock(); NULL: it has ended. */
static rollout_figures *lock(const struct rollout *rollout)
{
    return rollouts_lock(rollout->board, rollout->index, rollout->key);
}

/* Adds a copy that failed, or was dropped, to the statistics of the rollout. */
typedef enum copy_end { COPY_FAILED, COPY_DROPPED } copy_end;
static void count(const struct rollout *rollout, copy_end end)
{
    rollout_figures *figures = lock(rollout);

    if (figures == NULL)
        return;
    if (end == COPY_FAILED)
        figures->failed++;
    else
        figures->dropped++;
    board_unlock(rollout->board);
}

/* The request gets another model. */
static void change_model(struct job *job, struct model *model)
{
    model_unref(job->model);
    job->model = model_ref(model);
}

void trial_choose(struct server *server, struct job *job)
{
    struct rollout *rollout = repository_rollout(server->repository, job->model);
    struct trial *trial = NULL;
    uint64_t n;

    INLAY_CHECK(job->trial == NULL);
    if (rollout == NULL)
        return;
    n = atomic_fetch_add(&rollout->board->rollout_requests[rollout->index], 1);
    if (job->request->sequence[0] == '\0' &&
        rollout_chosen(&rollout->rules, n + 1) > rollout_chosen(&rollout->rules, n))
        trial = calloc(1, sizeof *trial);
    if (trial == NULL) {
        rollout_unref(rollout);
        return;
    }
    trial->server = server;
    trial->rollout = rollout;
    trial->request.id = "";
    trial->by_candidate = rollout->rules.mode == ROLLOUT_CANARY;
    job->trial = trial;
    if (trial->by_candidate)
        change_model(job, rollout->candidate);
}

/* The stable version gets the job that the candidate has failed. */
static inlay_status fall_back(struct job *job, inlay_diag *diag)
{
    INLAY_CHECK(job->trial->by_candidate && !job->trial->is_retried);
    job->trial->is_retried = true;
    change_model(job, job->trial->rollout->stable);
    return model_check(job, diag);
}

inlay_status trial_check(struct job *job, inlay_diag *diag)
{
    inlay_status status = model_check(job, diag);

    return status != INLAY_OK && job->trial != NULL && job->trial->by_candidate ? fall_back(job, diag) : status;
}

sched_result trial_submit(struct server *server, struct job *job, void (*suspend)(void *user), void *user)
{
    struct trial *trial = job->trial;
    sched_result result = sched_submit(server->sched, job, suspend, user);
    inlay_diag diag = INLAY_DIAG_INIT;

    if (result != SCHED_FULL || trial == NULL || !trial->by_candidate || trial->is_retried)
        return result;
    count(trial->rollout, COPY_DROPPED);
    job->trial = NULL; /* not a failure of the candidate */
    change_model(job, trial->rollout->stable);
    destroy(trial);
    return model_check(job, &diag) == INLAY_OK ? sched_submit(server->sched, job, suspend, user) : SCHED_FULL;
}

bool trial_can_retry(const struct job *job, const inlay_diag *failure)
{
    return job->trial != NULL && job->trial->by_candidate && !job->trial->is_retried && !job->cancelled &&
           failure->code != INLAY_CANCELLED && failure->code != INLAY_DEADLINE_EXCEEDED && failure->code != INLAY_BUSY;
}

bool trial_retry(struct server *server, struct job *job, const inlay_diag *failure, void (*suspend)(void *user),
                 void *user)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    stats_add_error(job->model->metrics.stats, stats_error_of(failure->code), clock_ns() - job->arrived_ns);
    run_profile_unref(job->run.profile);
    job->run.profile = NULL;
    job->is_retry = true;
    return fall_back(job, &diag) == INLAY_OK && sched_submit(server->sched, job, suspend, user) != SCHED_FULL;
}

/* The names of outputs are borrowed from a model of the rollout, which lives as long as the trial. */
static uint32_t index_of(const struct model *model, const char *name)
{
    uint32_t i = 0;

    while (i < model->io.output_count && strcmp(model->io.outputs[i].name, name) != 0)
        i++;
    return i < ROLLOUT_OUTPUTS ? i : ROLLOUT_OUTPUTS - 1;
}

static inlay_tensor_view view_of(const infer_output *output)
{
    return (
        inlay_tensor_view){ .data = output->data, .dims = output->dims, .rank = output->rank, .dtype = output->dtype };
}

static bool same_texts(const infer_output *want, const infer_output *got)
{
    const inlay_str *a = want->data, *b = got->data;

    if (want->count != got->count)
        return false;
    for (uint64_t i = 0; i < want->count; i++)
        if (a[i].bytes != b[i].bytes || (a[i].bytes > 0 && memcmp(a[i].data, b[i].data, a[i].bytes) != 0))
            return false;
    return true;
}

/* Compares an output of both versions. *out_unlike: the outputs differ in a way that no metric measures (type, shape,
 * text). */
static inlay_status compare_output(struct agree *sums, const infer_output *want, const infer_output *got,
                                   bool *out_unlike, inlay_diag *diag)
{
    inlay_tensor_view want_view = view_of(want), got_view = view_of(got);
    uint64_t broken = sums->broken;
    inlay_status status;

    if (want->dtype != got->dtype)
        status = INLAY_SHAPE_MISMATCH;
    else if (want->dtype == INLAY_STRING)
        status = same_texts(want, got) ? INLAY_OK : INLAY_SHAPE_MISMATCH;
    else
        status = agree_add(sums, &want_view, &got_view, diag);
    *out_unlike |= status == INLAY_SHAPE_MISMATCH || sums->broken > broken;
    return status == INLAY_SHAPE_MISMATCH ? INLAY_OK : status;
}

/* Compares the kept outputs with those of the copy, by name. */
static inlay_status compare(const struct trial *trial, const infer_output *outputs, uint32_t output_count,
                            struct agree *sums, bool *out_unlike, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    *out_unlike = output_count != trial->output_count;
    for (uint32_t i = 0; status == INLAY_OK && i < trial->output_count; i++) {
        const infer_output *first = &trial->outputs[i].output, *second = NULL;

        for (uint32_t k = 0; second == NULL && k < output_count; k++)
            if (strcmp(outputs[k].name, first->name) == 0)
                second = &outputs[k];
        if (second == NULL) {
            *out_unlike = true;
            continue;
        }
        status =
            compare_output(&sums[index_of(trial->rollout->stable, first->name)], trial->by_candidate ? second : first,
                           trial->by_candidate ? first : second, out_unlike, diag);
    }
    return status;
}

static void set_variant(char *name, const char *variant)
{
    (void)snprintf(name, ROLLOUT_NAME_BYTES, "%s", variant != NULL ? variant : "");
}

/* Adds a pair to the statistics. */
static void add_pair(const struct trial *trial, const struct agree *sums, bool is_unlike)
{
    const struct job *job = &trial->job;
    rollout_figures *figures = lock(trial->rollout);
    bool alike = trial->was_alone && job->run.rows == job->size.rows && trial->threads == job->run.threads;

    if (figures == NULL)
        return;
    figures->compared++;
    figures->unlike += is_unlike;
    set_variant(trial->by_candidate ? figures->candidate_variant : figures->stable_variant, trial->variant);
    set_variant(trial->by_candidate ? figures->stable_variant : figures->candidate_variant, job->run.variant);
    for (uint32_t i = 0; i < ROLLOUT_OUTPUTS; i++)
        agree_merge(&figures->outputs[i], &sums[i]);
    if (alike && (double)figures->compared > trial->rollout->rules.requests / UNTIMED) {
        rollout_times_add(trial->by_candidate ? &figures->candidate : &figures->stable, trial->ns);
        rollout_times_add(trial->by_candidate ? &figures->stable : &figures->candidate, job->run.compute_ns);
    }
    board_unlock(trial->rollout->board);
}

/* Whether the copy was stopped in favour of other requests. */
static bool was_stopped(const inlay_diag *failure)
{
    return failure->code == INLAY_BUSY || failure->code == INLAY_CANCELLED ||
           failure->code == INLAY_DEADLINE_EXCEEDED || failure->code == INLAY_OUT_OF_MEMORY;
}

/* Whether the stable version would have answered a request on which the candidate was stopped. */
static bool was_faster(const struct trial *trial, const inlay_diag *failure)
{
    return failure == NULL && trial->job.run.threads <= trial->threads && trial->job.run.compute_ns < trial->ns;
}

/* The copy ran or failed. */
static void finish_copy(struct job *job, const inlay_diag *failure, const infer_output *outputs, uint32_t output_count)
{
    struct trial *trial = job->user;
    struct agree sums[ROLLOUT_OUTPUTS] = { { .metric = AGREE_auto } };
    inlay_diag diag = INLAY_DIAG_INIT;
    bool is_unlike = false;

    for (uint32_t i = 0; i < ROLLOUT_OUTPUTS; i++)
        sums[i].metric = trial->rollout->rules.metric == AGREE_auto ? AGREE_cosine : trial->rollout->rules.metric;
    if (trial->rest == REST_LATE ? was_faster(trial, failure)
                                 : failure != NULL && !trial->by_candidate && !was_stopped(failure))
        count(trial->rollout, COPY_FAILED);
    else if (failure != NULL || trial->rest == REST_LATE ||
             compare(trial, outputs, output_count, sums, &is_unlike, &diag) != INLAY_OK)
        count(trial->rollout, COPY_DROPPED);
    else
        add_pair(trial, sums, is_unlike);
    destroy(trial);
}

/* Copies the outputs of the first run. false: out of memory, or copies have too much of it. */
static bool keep_outputs(struct trial *trial, const infer_output *outputs, uint32_t output_count)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < output_count; i++)
        bytes += infer_output_bytes(&outputs[i]);
    if (!server_hold_copy(trial->server, 0, bytes))
        return false;
    trial->held = bytes;
    trial->outputs = calloc(output_count + 1u, sizeof *trial->outputs);
    while (trial->outputs != NULL && trial->output_count < output_count) {
        kept_output *kept = &trial->outputs[trial->output_count];

        if (infer_output_copy(&outputs[trial->output_count], &kept->output, &kept->memory, NULL) != INLAY_OK)
            return false;
        trial->output_count++;
    }
    return trial->outputs != NULL;
}

/* Whether the run of the job was stopped by its deadline or its client. */
static bool was_late(const struct job *job, const inlay_diag *failure)
{
    return job->running != NULL && (failure->code == INLAY_DEADLINE_EXCEEDED || failure->code == INLAY_CANCELLED);
}

void trial_keep(struct job *job, const inlay_diag *failure, const infer_output *outputs, uint32_t output_count)
{
    struct trial *trial = job->trial;

    if (trial == NULL)
        return;
    trial->ns = job->run.compute_ns;
    trial->variant = job->run.variant;
    trial->threads = job->run.threads;
    trial->was_alone = job->run.rows == job->size.rows;
    if (trial->is_retried)
        trial->rest = failure == NULL ? REST_FAILED : REST_NOTHING;
    else if (failure != NULL)
        trial->rest = trial->by_candidate && was_late(job, failure) ? REST_LATE : REST_NOTHING;
    else
        trial->rest = sched_has_room(trial->server->sched) && keep_outputs(trial, outputs, output_count) ? REST_COMPARE
                                                                                                         : REST_DROPPED;
}

/* Copies the request and submits it to the other version, which then owns the trial. false: no copy was submitted;
 * *out_refused: because the other version does not accept the request. */
static bool submit_copy(struct trial *trial, const struct job *first, bool *out_refused)
{
    struct model *other = trial->by_candidate ? trial->rollout->stable : trial->rollout->candidate;
    uint64_t bytes = infer_request_bytes(first->request);
    inlay_diag diag = INLAY_DIAG_INIT;

    *out_refused = false;
    if (!sched_has_room(trial->server->sched) || !server_hold_copy(trial->server, trial->held, bytes))
        return false;
    trial->held += bytes;
    if (infer_request_copy(first->request, &trial->request, &diag) != INLAY_OK)
        return false;
    trial->job = (struct job){ .model = model_ref(other),
                               .request = &trial->request,
                               .arrived_ns = clock_ns(),
                               .is_copy = true,
                               .finish = finish_copy,
                               .user = trial };
    trial->job.received_ns = trial->job.arrived_ns;
    trial->job.deadline_ns = trial->job.arrived_ns + WAIT_NS;
    *out_refused = model_check(&trial->job, &diag) != INLAY_OK;
    return !*out_refused && sched_submit_spare(trial->server->sched, &trial->job);
}

void trial_end(struct job *job)
{
    struct trial *trial = job->trial;
    bool refused = false;

    job->trial = NULL;
    if (trial == NULL)
        return;
    if ((trial->rest == REST_COMPARE || trial->rest == REST_LATE) && submit_copy(trial, job, &refused))
        return;
    if (trial->rest == REST_FAILED || (refused && !trial->by_candidate))
        count(trial->rollout, COPY_FAILED);
    else if (trial->rest != REST_NOTHING)
        count(trial->rollout, COPY_DROPPED);
    destroy(trial);
}
