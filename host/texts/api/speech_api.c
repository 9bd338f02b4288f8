/* The functions of inlay/text.h for speech. */
#include "base/clock.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "inlay/text.h"
#include "texts/speech/speech.h"
#include <stdlib.h>

struct inlay_text_speech {
    inlay_session *encoder, *decoder, *past; /* past NULL: none */
    speech_model *model;
    decode_step *next; /* that runs next; NULL: none */
    struct transcription last;
    struct strbuf text, part; /* text: of the last transcription; part: of the segment asked for last */
    const inlay_text_sound *sound;
    inlay_diag failure;
    bool has_ended;
};

/* The program of the model: the calling thread runs one step after another. */

static inlay_status open_step(decode_step *step, inlay_diag *diag)
{
    step->program = step->model->owner;
    return inlay_context_create(step->model->session, &step->context, diag);
}

static void close_step(decode_step *step)
{
    inlay_context_destroy(step->context);
    step->context = NULL;
    step->program = NULL;
}

static void queue_step(decode_step *step)
{
    ((inlay_text_speech *)step->model->owner)->next = step;
}

static void keep(decode_model *model)
{
    (void)model;
}

static void warn(const decode_model *model, const char *text)
{
    (void)model; /* the library prints nothing */
    (void)text;
}

static const decode_program program = {
    .open = open_step, .close = close_step, .run = queue_step, .hold = keep, .release = keep, .warn = warn
};

static bool is_cancelled(const inlay_text_speech *speech, inlay_diag *diag)
{
    const uint32_t *cancel = speech->sound->cancel;

    return cancel != NULL && __atomic_load_n(cancel, __ATOMIC_RELAXED) != 0 &&
           inlay_fail(diag, INLAY_CANCELLED, "the transcription was cancelled") != INLAY_OK;
}

static bool is_over(struct transcription *text, inlay_diag *diag)
{
    return is_cancelled(text->user, diag);
}

static bool goes_on(void *user, inlay_diag *diag)
{
    return !is_cancelled(user, diag);
}

static void end_text(struct transcription *text, const inlay_diag *failure)
{
    inlay_text_speech *speech = text->user;

    speech->has_ended = true;
    if (failure != NULL)
        speech->failure = *failure;
}

static void run_steps(inlay_text_speech *speech)
{
    inlay_run_options options = INLAY_RUN_OPTIONS_INIT;

    options.cancel = speech->sound->cancel;
    while (speech->next != NULL) {
        decode_step *step = speech->next;
        const uint64_t start = clock_ns();
        inlay_diag diag = INLAY_DIAG_INIT;
        const inlay_status status = inlay_context_run(step->context, &options, &diag);

        speech->next = NULL;
        step->compute_ns = clock_ns() - start;
        step->finish(step, status == INLAY_OK ? NULL : &diag);
    }
}

void inlay_text_speech_destroy(inlay_text_speech *speech)
{
    if (speech == NULL)
        return;
    transcription_deinit(&speech->last);
    strbuf_deinit(&speech->text);
    strbuf_deinit(&speech->part);
    speech_model_close(speech->model);
    inlay_session_destroy(speech->encoder);
    inlay_session_destroy(speech->decoder);
    inlay_session_destroy(speech->past);
    free(speech);
}

const char *inlay_text_speech_warning(const inlay_text_speech *speech)
{
    return speech->model->generation.warning;
}

inlay_status inlay_text_speech_create(const char *folder, const char *variant, const inlay_options *options,
                                      inlay_text_speech **out_speech, inlay_diag *diag)
{
    inlay_text_speech *speech = calloc(1, sizeof *speech);
    speech_source source = { .folder = folder };
    speech_files files;
    inlay_status status;

    *out_speech = NULL;
    if (speech == NULL)
        return no_memory(diag, "for the model");
    if (!speech_is_folder(folder)) {
        status =
            inlay_fail(diag, INLAY_UNSUPPORTED,
                       "%.300s is not the folder of a model for speech: it needs a config.json with the "
                       "model_type whisper, encoder_model.onnx and decoder_model_merged.onnx or decoder_model.onnx",
                       folder);
        goto done;
    }
    INLAY_TRY(speech_files_find(folder, variant != NULL ? variant : "", &files, diag));
    INLAY_TRY(inlay_session_create(files.encoder, options, &speech->encoder, diag));
    INLAY_TRY(inlay_session_create(files.decoder, options, &speech->decoder, diag));
    if (files.past[0] != '\0')
        INLAY_TRY(inlay_session_create(files.past, options, &speech->past, diag));
    source.encoder = speech->encoder;
    source.decoder = speech->decoder;
    source.past = speech->past;
    INLAY_TRY(speech_model_open(&source, &speech->model, diag));
    speech->model->most_lanes = 1;
    speech->model->encoder.owner = speech->model->decoder.model.owner = speech->model->next.model.owner = speech;
    speech->model->encoder.program = speech->model->decoder.model.program = speech->model->next.model.program =
        &program;
    *out_speech = speech;
    speech = NULL;
done:
    inlay_text_speech_destroy(speech);
    return status;
}

/* Writes what the last transcription is. */
static inlay_status describe(inlay_text_speech *speech, inlay_text_transcript *out, inlay_diag *diag)
{
    const struct transcription *text = &speech->last;
    const speech_tokens *tokens = &speech->model->tokens;

    transcription_text(speech->model, text, &speech->text);
    strbuf_add(&speech->text, "", 1);
    if (speech->text.failed)
        return no_memory(diag, "for the text of a sound");
    out->text = speech->text.data;
    out->text_bytes = speech->text.size - 1;
    out->language = text->language != SPEECH_DETECT ? tokens->languages[text->language].code : "en";
    out->seconds = text->sound.seconds;
    out->segment_count = text->segment_count;
    return INLAY_OK;
}

inlay_status inlay_text_speech_transcribe(inlay_text_speech *speech, const inlay_text_sound *sound,
                                          inlay_text_transcript *out_transcript, inlay_diag *diag)
{
    struct transcription *text = &speech->last;
    inlay_status status;

    if (sound->struct_size < sizeof *sound || out_transcript->struct_size < sizeof *out_transcript)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "struct_size: set it to the size of the struct");
    if (!(sound->temperature >= 0 && sound->temperature <= 1))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "temperature: not a number from 0 to 1");
    if (sound->translates != 0 && speech->model->tokens.language_count == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "translates: the model has one language");
    transcription_deinit(text);
    strbuf_deinit(&speech->text);
    strbuf_deinit(&speech->part);
    speech->sound = sound;
    speech->has_ended = false;
    speech->failure = (inlay_diag)INLAY_DIAG_INIT;
    INLAY_TRY(speech_find_language(speech->model, sound->language, &text->language, diag));
    INLAY_TRY(speech_hear(speech->model, sound->file, (size_t)sound->bytes, goes_on, speech, &text->sound, diag));
    text->translates = sound->translates != 0;
    text->has_times = sound->has_times != 0;
    text->prompt = sound->prompt;
    text->temperature = sound->temperature;
    text->is_over = is_over;
    text->end = end_text;
    text->user = speech;
    INLAY_TRY(transcription_add(speech->model, text, diag));
    run_steps(speech);
    INLAY_CHECK(speech->has_ended);
    if (speech->failure.code != INLAY_OK)
        status = inlay_fail(diag, speech->failure.code, "%s", speech->failure.text);
    else
        status = describe(speech, out_transcript, diag);
done:
    speech->sound = NULL;
    if (status != INLAY_OK)
        transcription_deinit(text);
    return status;
}

inlay_status inlay_text_speech_segment(inlay_text_speech *speech, uint64_t index, inlay_text_segment *out_segment,
                                       inlay_diag *diag)
{
    const struct transcription *text = &speech->last;
    const speech_segment *segment;

    if (out_segment->struct_size < sizeof *out_segment)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "struct_size: set it to the size of the struct");
    if (index >= text->segment_count)
        return inlay_fail(diag, INLAY_NOT_FOUND, "the last transcription has %zu segments", text->segment_count);
    segment = &text->segments[index];
    strbuf_deinit(&speech->part);
    speech_text(speech->model, text->tokens + segment->first, segment->count, &speech->part);
    strbuf_add(&speech->part, "", 1);
    if (speech->part.failed)
        return no_memory(diag, "for the text of a segment");
    out_segment->begin = segment->begin;
    out_segment->end = segment->end;
    out_segment->text = speech->part.data;
    out_segment->text_bytes = speech->part.size - 1;
    out_segment->tokens = text->tokens + segment->first;
    out_segment->token_count = segment->count;
    out_segment->logprob = segment->logprob;
    out_segment->no_speech = segment->no_speech;
    return INLAY_OK;
}
