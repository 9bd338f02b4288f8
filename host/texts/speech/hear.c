/* Sound files to what the encoder reads. */
#include "base/memory.h"
#include "prepost/audio/sound.h"
#include "prepost/audio/spectrogram.h"
#include "texts/speech/speech.h"
#include <stdlib.h>

void speech_sound_deinit(speech_sound *sound)
{
    free(sound->mel);
    *sound = (speech_sound){ .mel = NULL };
}

/* Samples of one channel, at the rate of the model. */
static inlay_status decode(const speech_model *model, const void *file, size_t bytes, struct sound *out,
                           inlay_diag *diag)
{
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status = sound_decode(file, bytes, true, out, &why);

    if (status == INLAY_OK && out->frames / out->rate >= SPEECH_MOST_SECONDS)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "file: the sound has %lld seconds; at most %d are read: cut it",
                          (long long)(out->frames / out->rate), SPEECH_MOST_SECONDS);
    if (status == INLAY_OK)
        status = sound_resample(out, model->rate, &why);
    if (status != INLAY_OK) /* the file is the client's: what cannot be read is wrong there */
        return inlay_fail(diag, status == INLAY_OUT_OF_MEMORY ? status : INLAY_INVALID_ARGUMENT, "file: %s", why.text);
    return out->frames > 0 ? INLAY_OK : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "file: the sound has no samples");
}

inlay_status speech_hear(const speech_model *model, const void *file, size_t bytes,
                         bool (*goes_on)(void *user, inlay_diag *diag), void *user, speech_sound *out_sound,
                         inlay_diag *diag)
{
    enum { STEP = 500 }; /* frames between two questions */
    const struct spectrogram *form = model->spectrogram;
    const int64_t window = model->window_frames * form->hop; /* samples */
    struct spectrogram_job job = { .state = form };
    struct sound sound = { .samples = NULL };
    double *scratch = NULL;
    inlay_status status;

    *out_sound = (speech_sound){ .mel = NULL };
    INLAY_TRY(decode(model, file, bytes, &sound, diag));
    job.samples = sound.samples;
    job.count = sound.frames;
    job.whole = sound.frames > window ? sound.frames : window;
    job.frames = spectrogram_frames(form, job.whole);
    job.to = malloc((size_t)(form->mels * job.frames) * sizeof *job.to);
    scratch = malloc(spectrogram_scratch(form) * sizeof *scratch);
    *out_sound = (speech_sound){ .mel = job.to,
                                 .frames = job.frames,
                                 .heard = (sound.frames + form->hop - 1) / form->hop,
                                 .seconds = (double)sound.frames / (double)model->rate };
    if (out_sound->heard > out_sound->frames)
        out_sound->heard = out_sound->frames;
    if (job.to == NULL || scratch == NULL) {
        status = no_memory(diag, "for the spectrogram of a sound");
        goto done;
    }
    for (int64_t begin = 0; begin < job.frames; begin += STEP) {
        if (!goes_on(user, diag)) {
            status = diag->code;
            goto done;
        }
        spectrogram_run(&job, begin, begin + STEP < job.frames ? begin + STEP : job.frames, scratch);
    }
    spectrogram_take_logs(LOG_WHISPER, job.to, form->mels * job.frames);
done:
    free(scratch);
    free(sound.samples);
    return status;
}
