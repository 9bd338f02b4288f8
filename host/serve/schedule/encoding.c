#include "serve/schedule/encoding.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "serve/model/text.h"
#include <stdlib.h>
#include <string.h>

enum {
    RUN_TOKENS = 1024, /* most tokens of a run with several texts: more are not faster */
    INPUTS = 4
};

/* A run. */
struct batch {
    struct encoder *encoder;
    struct job job;
    infer_request request;
    infer_tensor inputs[INPUTS];
    infer_wanted wanted;
    encoding_text **texts; /* [rows], capacity of text_room */
    uint32_t rows, text_room;
    size_t longest;  /* tokens of the longest one */
    int64_t *memory; /* the inputs, INPUTS times `room` numbers */
    size_t room;
    bool runs;
    struct batch *queue; /* batches to be submitted when the lock is released */
};

struct encoder {
    pthread_mutex_t lock;
    struct sched *sched;
    struct model *model;
    encoding_text **waiting; /* [count] by length and arrival */
    uint32_t count;
    uint64_t arrived;      /* texts so far */
    struct batch *batches; /* [batch_count] */
    uint32_t batch_count;
};

static int by_length(const void *left, const void *right)
{
    const encoding_text *a = *(encoding_text *const *)left, *b = *(encoding_text *const *)right;

    return a->count != b->count ? (a->count > b->count) - (a->count < b->count)
                                : (a->order > b->order) - (a->order < b->order);
}

/* Whether texts can share a run. */
static bool joins(const struct model *model)
{
    const inlay_io_info *ids = &model->io.inputs[model->text->decode.ids];

    return model->batchable && model->text->decode.mask != INLAY_NONE && ids->rank == 2 && ids->dims[1] < 0;
}

/* The number of waiting texts from `first` on that share a run. */
static uint32_t group_from(const struct encoder *encoder, uint32_t first)
{
    size_t sum = 0;
    uint32_t rows = 0;

    while (first + rows < encoder->count && (rows == 0 || joins(encoder->model))) {
        const size_t longest = encoder->waiting[first + rows]->count, padded = (rows + 1) * longest;

        sum += longest;
        if (rows > 0 && (padded > RUN_TOKENS || 4 * sum < 3 * padded))
            break;
        rows++;
    }
    return rows;
}

/* Moves the texts that share a run with the one that waits longest to the batch. false: out of memory. */
static bool take_group(struct encoder *encoder, struct batch *batch)
{
    uint32_t oldest = 0, first = 0, rows = 0;

    INLAY_CHECK(encoder->count > 0);
    for (uint32_t i = 1; i < encoder->count; i++)
        oldest = encoder->waiting[i]->order < encoder->waiting[oldest]->order ? i : oldest;
    for (uint32_t i = 0; i <= oldest; i += rows) {
        first = i;
        rows = group_from(encoder, i);
    }
    if (rows > batch->text_room) {
        encoding_text **more = realloc((void *)batch->texts, rows * sizeof *more);

        if (more == NULL)
            return false;
        batch->texts = more;
        batch->text_room = rows;
    }
    memcpy(batch->texts, &encoder->waiting[first], rows * sizeof *batch->texts);
    encoder->count -= rows;
    memmove(&encoder->waiting[first], &encoder->waiting[first + rows],
            (encoder->count - first) * sizeof *encoder->waiting);
    batch->rows = rows;
    batch->longest = batch->texts[rows - 1]->count;
    return true;
}

static void add_input(struct batch *batch, const char *name, uint32_t input, int64_t *data)
{
    const size_t count = batch->rows * batch->longest;

    if (input == INLAY_NONE)
        return;
    batch->inputs[batch->request.input_count++] = (infer_tensor){ .name = name,
                                                                  .dtype = INLAY_INT64,
                                                                  .rank = 2,
                                                                  .dims = { batch->rows, (int64_t)batch->longest },
                                                                  .count = count,
                                                                  .bytes = count * sizeof *data,
                                                                  .data = data };
}

/* Sets the inputs of the run: tokens, a mask, positions, token types. */
static bool make_inputs(struct batch *batch, inlay_diag *diag)
{
    const text_model *model = batch->encoder->model->text;
    const size_t count = batch->rows * batch->longest;
    int64_t *tokens, *mask, *positions, *types;

    if (count > batch->room) {
        free(batch->memory);
        batch->memory = malloc(INPUTS * count * sizeof *batch->memory);
        batch->room = batch->memory != NULL ? count : 0;
    }
    if (batch->memory == NULL)
        return no_memory(diag, "for the tokens") == INLAY_OK;
    tokens = batch->memory;
    mask = tokens + count;
    positions = mask + count;
    types = positions + count;
    for (uint32_t row = 0; row < batch->rows; row++) {
        const encoding_text *text = batch->texts[row];

        for (size_t i = 0; i < batch->longest; i++) {
            const size_t at = row * batch->longest + i;

            tokens[at] = i < text->count ? text->tokens[i] : 0;
            mask[at] = i < text->count;
            types[at] = text->second > 0 && i >= text->second && i < text->count;
            positions[at] = (int64_t)i;
        }
    }
    batch->request.input_count = 0;
    add_input(batch, "input_ids", model->decode.ids, tokens);
    add_input(batch, "attention_mask", model->decode.mask, mask);
    add_input(batch, "token_type_ids", model->types, types);
    add_input(batch, "position_ids", model->decode.positions, positions);
    batch->job.size.bytes = 0;
    return model_check(&batch->job, diag) == INLAY_OK;
}

/* The last texts of requests, linked by next: end() is to be called when the lock is released. */
static void take_result(encoding_text *text, const float *vectors, size_t count, size_t size, const inlay_diag *failure,
                        encoding_text **ended)
{
    if (!text->take(text, vectors, count, size, failure))
        return;
    text->next = *ended;
    *ended = text;
}

/* Ends texts that wait and for which nobody waits any more. */
static void drop_waiting(struct encoder *encoder, encoding_text **ended)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < encoder->count; i++) {
        encoding_text *text = encoder->waiting[i];
        const struct job *request = text->request;
        inlay_diag diag = INLAY_DIAG_INIT;

        if (request->cancelled)
            (void)inlay_fail(&diag, INLAY_CANCELLED, "the client disconnected");
        else if (request->deadline_ns != 0 && request->deadline_ns <= clock_ns())
            (void)inlay_fail(&diag, INLAY_DEADLINE_EXCEEDED, "the request's deadline passed before its texts were run");
        if (diag.code != INLAY_OK)
            take_result(text, NULL, 0, 0, &diag, ended);
        else
            encoder->waiting[kept++] = text;
    }
    encoder->count = kept;
}

static void fail_batch(struct batch *batch, const inlay_diag *failure, encoding_text **ended)
{
    for (uint32_t i = 0; i < batch->rows; i++)
        take_result(batch->texts[i], NULL, 0, 0, failure, ended);
    batch->rows = 0;
}

/* Prepares a run of each idle batch while texts wait. Returns the batches to be submitted. Under the lock. */
static struct batch *next_runs(struct encoder *encoder, encoding_text **ended)
{
    struct batch *queue = NULL;

    drop_waiting(encoder, ended);
    for (uint32_t k = 0; k < encoder->batch_count && encoder->count > 0; k++) {
        struct batch *batch = &encoder->batches[k];
        inlay_diag diag = INLAY_DIAG_INIT;

        while (!batch->runs && encoder->count > 0) {
            if (!take_group(encoder, batch)) {
                batch->rows = 0;
                (void)no_memory(&diag, "for the texts");
                while (encoder->count > 0)
                    take_result(encoder->waiting[--encoder->count], NULL, 0, 0, &diag, ended);
            } else if (!make_inputs(batch, &diag)) {
                fail_batch(batch, &diag, ended);
                diag = (inlay_diag)INLAY_DIAG_INIT;
            } else {
                batch->job.arrived_ns = batch->job.received_ns = clock_ns();
                batch->runs = true;
                batch->queue = queue;
                queue = batch;
            }
        }
    }
    return queue;
}

static void keep_suspended(void *user)
{
    (void)user; /* the connections are suspended already */
}

/* Ends requests and submits runs; without the lock. */
static void go_on(struct encoder *encoder, struct batch *queue, encoding_text *ended)
{
    for (struct batch *batch = queue, *after; batch != NULL; batch = after) {
        after = batch->queue; /* the batch may be queued again as soon as it is submitted */
        (void)sched_submit(encoder->sched, &batch->job, keep_suspended, NULL); /* max_queue does not apply */
    }
    for (encoding_text *text = ended, *after; text != NULL; text = after) {
        after = text->next;
        text->end(text);
    }
}

/* Gives the texts of a run their vectors. */
static void take_vectors(struct batch *batch, const infer_output *output, encoding_text **ended)
{
    const size_t size = output->rank >= 2 ? (size_t)output->dims[output->rank - 1] : 0;
    const size_t vectors = size > 0 ? (size_t)output->count / size / batch->rows : 0;
    const float *data = output->data;
    inlay_diag diag = INLAY_DIAG_INIT;

    if (output->dtype != INLAY_FLOAT || output->rank > 3 || (vectors != 1 && vectors != batch->longest) ||
        output->count != (uint64_t)vectors * size * batch->rows)
        (void)inlay_fail(&diag, INLAY_UNSUPPORTED, "'%s' is not a float tensor of embeddings", output->name);
    for (uint32_t row = 0; row < batch->rows; row++) {
        encoding_text *text = batch->texts[row];

        text->compute_ns = batch->job.run.compute_ns;
        text->rows = batch->rows;
        take_result(text, data + row * vectors * size, output->rank == 2 ? 1 : text->count, size,
                    diag.code != INLAY_OK ? &diag : NULL, ended);
    }
    batch->rows = 0;
}

/* Called when a run ends. Any thread. */
static void finish_run(struct job *job, const inlay_diag *failure, const infer_output *outputs, uint32_t output_count)
{
    struct batch *batch = job->user, *queue;
    struct encoder *encoder = batch->encoder;
    encoding_text *ended = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)inlay_fail(&diag, INLAY_UNSUPPORTED, "the run did not return exactly one output");
    (void)pthread_mutex_lock(&encoder->lock);
    batch->runs = false;
    if (failure != NULL || output_count != 1)
        fail_batch(batch, failure != NULL ? failure : &diag, &ended);
    else
        take_vectors(batch, &outputs[0], &ended);
    queue = next_runs(encoder, &ended);
    (void)pthread_mutex_unlock(&encoder->lock);
    go_on(encoder, queue, ended);
}

static void encoder_close(void *runner)
{
    struct encoder *encoder = runner;

    INLAY_CHECK(encoder->count == 0);
    for (uint32_t k = 0; encoder->batches != NULL && k < encoder->batch_count; k++) {
        free((void *)encoder->batches[k].texts);
        free(encoder->batches[k].memory);
    }
    free(encoder->batches);
    free((void *)encoder->waiting);
    (void)pthread_mutex_destroy(&encoder->lock);
    free(encoder);
}

static void batch_init(struct batch *batch, struct encoder *encoder)
{
    struct model *model = encoder->model;

    batch->encoder = encoder;
    batch->wanted = (infer_wanted){
        .name = model->io.outputs[model->text->vectors != INLAY_NONE ? model->text->vectors : model->text->scores].name,
        .binary = -1
    };
    batch->request.id = "";
    batch->request.inputs = batch->inputs;
    batch->request.outputs = &batch->wanted;
    batch->request.output_count = 1;
    batch->job.model = model;
    batch->job.request = &batch->request;
    batch->job.level = model->settings.priority;
    batch->job.is_admitted = true;
    batch->job.finish = finish_run;
    batch->job.user = batch;
}

/* The model's encoder, made for its first text. NULL: out of memory. */
static struct encoder *encoder_of(struct sched *sched, struct model *model)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct encoder *encoder;

    (void)pthread_mutex_lock(&lock);
    if (model->text->decode.runner == NULL && (encoder = calloc(1, sizeof *encoder)) != NULL) {
        (void)pthread_mutex_init(&encoder->lock, NULL);
        encoder->sched = sched;
        encoder->model = model;
        encoder->batch_count = model->settings.instances;
        encoder->batches = calloc(encoder->batch_count, sizeof *encoder->batches);
        for (uint32_t k = 0; encoder->batches != NULL && k < encoder->batch_count; k++)
            batch_init(&encoder->batches[k], encoder);
        if (encoder->batches != NULL) {
            model->text->decode.runner = encoder;
            model->text->decode.close_runner = encoder_close;
        } else {
            encoder_close(encoder);
        }
    }
    encoder = model->text->decode.runner;
    (void)pthread_mutex_unlock(&lock);
    return encoder;
}

inlay_status encoding_add(struct sched *sched, struct model *model, encoding_text *texts, inlay_diag *diag)
{
    struct encoder *encoder = encoder_of(sched, model);
    encoding_text *ended = NULL;
    inlay_status status = INLAY_OK;
    struct batch *queue = NULL;
    size_t more = 0;

    if (encoder == NULL)
        return no_memory(diag, "for the texts of model '%s'", model->name);
    for (const encoding_text *text = texts; text != NULL; text = text->next)
        more++;
    (void)model_ref(model); /* the texts may end, and their references, before this function does */
    (void)pthread_mutex_lock(&encoder->lock);
    if (encoder->count >= model->settings.max_queue) {
        status = inlay_fail(diag, INLAY_BUSY, "the model's queue is full; try again later");
    } else if (!list_reserve(&encoder->waiting, encoder->count, more, sizeof *encoder->waiting)) {
        status = no_memory(diag, "for the texts of model '%s'", model->name);
    } else {
        for (encoding_text *text = texts; text != NULL; text = text->next) {
            text->order = ++encoder->arrived;
            encoder->waiting[encoder->count++] = text;
        }
        qsort((void *)encoder->waiting, encoder->count, sizeof *encoder->waiting, by_length);
        queue = next_runs(encoder, &ended);
    }
    (void)pthread_mutex_unlock(&encoder->lock);
    go_on(encoder, queue, ended);
    model_unref(model);
    return status;
}
