#include "serve/schedule/text_jobs.h"
#include "inlay/check.h"
#include "serve/base/log.h"
#include "serve/model/sequence.h"
#include <stdlib.h>

/* The server's part of a step. */
struct text_job {
    struct sequence sequence; /* its instance has the step's context */
    struct job job;
    infer_request request; /* without inputs: they are bound to the context */
    infer_wanted wanted[1 + HEAD_SOURCES];
};

static void finish_job(struct job *job, const inlay_diag *failure, const infer_output *outputs, uint32_t output_count)
{
    decode_step *step = job->user;

    (void)outputs;
    (void)output_count;
    step->compute_ns = job->run.compute_ns;
    step->finish(step, failure);
}

static inlay_status open_step(decode_step *step, inlay_diag *diag)
{
    struct model *model = step->model->owner;
    struct text_job *part = calloc(1, sizeof *part);
    inlay_status status;

    step->program = part;
    if (part == NULL)
        return no_memory(diag, "for the runs of model '%s'", model->name);
    part->request.id = "";
    part->request.outputs = part->wanted;
    part->job = (struct job){ .model = model,
                              .request = &part->request,
                              .sequence = &part->sequence,
                              .level = model->settings.priority,
                              .is_admitted = true,
                              .finish = finish_job,
                              .user = step };
    status = instance_init(model, &part->sequence.instance, 1, diag);
    step->context = part->sequence.instance.context;
    return status;
}

static void close_step(decode_step *step)
{
    struct text_job *part = step->program;

    if (part == NULL)
        return;
    instance_deinit(step->model->owner, &part->sequence.instance);
    free(part);
    step->program = NULL;
    step->context = NULL;
}

static void keep_suspended(void *user)
{
    (void)user; /* the connections are suspended already, or have their responses */
}

static void run_step(decode_step *step)
{
    struct text_job *part = step->program;
    const struct model *model = step->model->owner;

    part->request.output_count = step->output_count;
    for (uint32_t i = 0; i < step->output_count; i++)
        part->wanted[i] = (infer_wanted){ .name = model->io.outputs[step->outputs[i]].name,
                                          .binary = -1,
                                          .output = step->outputs[i] };
    part->job.size.rows = step->rows;
    part->job.size.bytes = step->bytes;
    part->job.arrived_ns = part->job.received_ns = clock_ns();
    /* max_queue does not apply */
    (void)sched_submit(model->decoding.sched, &part->job, keep_suspended, NULL);
}

static void hold_model(decode_model *model)
{
    (void)model_ref(model->owner);
}

static void release_model(decode_model *model)
{
    model_unref(model->owner);
}

static void count_guesses(decode_model *model, uint32_t read, uint32_t right)
{
    model_stats *stats = ((const struct model *)model->owner)->metrics.stats;

    (void)atomic_fetch_add_explicit(&stats->guessed_tokens, read, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&stats->right_tokens, right, memory_order_relaxed);
}

static void warn_operator(const decode_model *model, const char *text)
{
    log_line(LOG_WARNING_LINE, "model '%s': %s", model->name, text);
}

static const decode_program program = { .open = open_step,
                                        .close = close_step,
                                        .run = run_step,
                                        .hold = hold_model,
                                        .release = release_model,
                                        .count_guesses = count_guesses,
                                        .warn = warn_operator };

/* Tells the decoder of a loaded model what it needs to know of it. */
static void link_model(struct sched *sched, struct model *model)
{
    const model_settings *settings = &model->settings;
    decode_model *decode = &model->text->decode;

    model->decoding.sched = sched;
    decode->name = model->name;
    decode->owner = model;
    decode->program = &program;
    decode->adapter_count = model->decoding.adapter_count;
    decode->limits = (decode_limits){ .max_sequences = settings->max_sequences,
                                      .max_waiting = settings->max_queue,
                                      .kv_memory = settings->kv_memory,
                                      .prefix_memory = settings->prefix_memory,
                                      .prompt_tokens = settings->prompt_tokens,
                                      .draft_tokens = settings->draft_tokens,
                                      .lookup_tokens = settings->lookup_tokens };
    if (model->decoding.draft == NULL)
        return;
    link_model(sched, model->decoding.draft);
    decode->draft = &model->decoding.draft->text->decode;
}

static pthread_mutex_t link_lock = PTHREAD_MUTEX_INITIALIZER; /* of model_decoding.sched */

inlay_status text_jobs_add(struct sched *sched, struct model *model, decoding_text *texts, inlay_diag *diag)
{
    (void)pthread_mutex_lock(&link_lock);
    if (model->decoding.sched == NULL)
        link_model(sched, model);
    (void)pthread_mutex_unlock(&link_lock);
    return decoding_add(&model->text->decode, texts, diag);
}

/* Tells a part of a model for speech who runs it. */
static void link_part(struct sched *sched, struct model *owner, decode_model *part)
{
    part->name = owner->name;
    part->owner = owner;
    part->program = &program;
    owner->decoding.sched = sched;
}

inlay_status speech_jobs_add(struct sched *sched, struct model *model, struct transcription *text, inlay_diag *diag)
{
    speech_model *speech = model->speech.model;

    (void)pthread_mutex_lock(&link_lock);
    if (model->decoding.sched == NULL) {
        speech->most_lanes = model->settings.instances;
        speech->most_waiting = model->settings.max_queue;
        link_part(sched, model->speech.decoder, &speech->decoder.model);
        if (model->speech.past != NULL)
            link_part(sched, model->speech.past, &speech->next.model);
        link_part(sched, model, &speech->encoder);
    }
    (void)pthread_mutex_unlock(&link_lock);
    return transcription_add(speech, text, diag);
}

decoding_load text_jobs_load(const struct model *model, uint8_t *adapters)
{
    return model->text != NULL ? decoding_load_of(&model->text->decode, adapters) : (decoding_load){ 0 };
}

bool text_jobs_is_over(const struct job *request, inlay_diag *diag)
{
    if (request->cancelled)
        (void)inlay_fail(diag, INLAY_CANCELLED, "the text was not finished");
    else if (request->deadline_ns != 0 && request->deadline_ns <= clock_ns())
        (void)inlay_fail(diag, INLAY_DEADLINE_EXCEEDED, "the request's deadline passed before its text was finished");
    return diag->code != INLAY_OK;
}
