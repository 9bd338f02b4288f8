/* The program of the decoder: its runs wait in a queue, and run on the thread that takes steps. */
#include "base/clock.h"
#include "base/memory.h"
#include "texts/api/api.h"
#include <stdlib.h>

struct queued_step {
    decode_step *step;
    struct queued_step *next;
};

static inlay_status open_step(decode_step *step, inlay_diag *diag)
{
    struct queued_step *part = calloc(1, sizeof *part);

    step->program = part;
    if (part == NULL)
        return no_memory(diag, "for the runs of the model");
    part->step = step;
    return inlay_context_create(step->model->session, &step->context, diag);
}

static void close_step(decode_step *step)
{
    inlay_context_destroy(step->context);
    step->context = NULL;
    free(step->program);
    step->program = NULL;
}

static void queue_step(decode_step *step)
{
    inlay_text_model *model = step->model->owner;
    struct queued_step *part = step->program;

    part->next = NULL;
    if (model->first == NULL)
        model->first = part;
    else
        model->last->next = part;
    model->last = part;
}

static void keep(decode_model *model)
{
    (void)model; /* the texts end before the model is destroyed */
}

static void count_guesses(decode_model *decode, uint32_t read, uint32_t right)
{
    inlay_text_model *model = decode->owner;

    model->guessed_tokens += read;
    model->right_tokens += right;
}

static void warn(const decode_model *decode, const char *text)
{
    (void)decode; /* the library prints nothing */
    (void)text;
}

const decode_program text_program = { .open = open_step,
                                      .close = close_step,
                                      .run = queue_step,
                                      .hold = keep,
                                      .release = keep,
                                      .count_guesses = count_guesses,
                                      .warn = warn };

void text_queue_run(inlay_text_model *model)
{
    bool was_model = false;

    while (model->first != NULL && !was_model) {
        decode_step *step = model->first->step;
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_status status;
        uint64_t start;

        model->first = model->first->next;
        was_model = step->model == &model->model.text->decode;
        start = clock_ns();
        status = model->is_closing ? inlay_fail(&diag, INLAY_CANCELLED, "the model is closed")
                                   : inlay_context_run(step->context, NULL, &diag);
        step->compute_ns = clock_ns() - start;
        model->runs += was_model && !model->is_closing;
        step->finish(step, status == INLAY_OK ? NULL : &diag);
    }
}
