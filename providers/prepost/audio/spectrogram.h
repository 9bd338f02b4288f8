/* spectrogram.h - mel spectrograms, as those of Whisper and librosa: for MelSpectrogram and host/texts/speech. */
#ifndef SPECTROGRAM_H
#define SPECTROGRAM_H
#include "common/fft.h"

typedef enum spectrogram_log { LOG_NONE, LOG_WHISPER, LOG_DB, LOG_LN, LOG_10 } spectrogram_log;

/* A filter: bins [first, first + count) with weights. */
struct mel_filter {
    int64_t first, count;
    const double *weights;
};

/* The caller sets the first part; spectrogram_init() the rest. Read-only afterwards, so that threads can share it. */
struct spectrogram {
    int64_t n_fft, hop, mels; /* samples of a frame; samples between frames; filters */
    bool centre;              /* frame i is around sample i * hop; otherwise it begins there */
    bool reflect;             /* samples outside are mirrored; otherwise they are 0 */
    bool drop_last;           /* the last frame is left out, as Whisper does */
    double power;             /* of the magnitude */

    int64_t bins;
    double *window;             /* [n_fft] periodic Hann window */
    double *weights;            /* of all filters */
    struct mel_filter *filters; /* [mels] */
    double *tables;
    struct fft fft;
};

/* Builds triangular filters from low to high Hz over the bins. htk: on HTK's scale, otherwise Slaney's; slaney: of
 * area 1, otherwise of height 1. false: out of memory; spectrogram_deinit() is due in any case. */
bool spectrogram_init(struct spectrogram *state, double rate, double low, double high, bool htk, bool slaney);
void spectrogram_deinit(struct spectrogram *state);
/* The number of frames of this number of samples. */
int64_t spectrogram_frames(const struct spectrogram *state, int64_t samples);
/* Elements of the scratch memory of one thread. */
size_t spectrogram_scratch(const struct spectrogram *state);
/* Samples of a sound, and its spectrogram. */
struct spectrogram_job {
    const struct spectrogram *state;
    const float *samples;
    int64_t count, whole; /* samples; samples together with the zeros after them */
    int64_t frames;       /* spectrogram_frames(state, whole) */
    float *to;            /* [mels, frames] */
};
/* Computes the frames [begin, end). scratch: of one thread. */
void spectrogram_run(const struct spectrogram_job *job, int64_t begin, int64_t end, double *scratch);
/* Replaces the values of a spectrogram by their logarithms. */
void spectrogram_take_logs(spectrogram_log log, float *values, int64_t count);
#endif
