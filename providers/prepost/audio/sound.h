/* sound.h - decodes sound files: WAV here; FLAC, MP3, Ogg and others with libsndfile, if it was found at build time. */
#ifndef SOUND_H
#define SOUND_H
#include "inlay/status.h"
#include <stddef.h>

struct sound {
    float *samples; /* [frames, channels], -1 to 1; freed with free() */
    int64_t frames, channels, rate;
};
enum { SOUND_MOST = 1 << 28 }; /* most samples of a file */

inlay_status sound_decode(const uint8_t *bytes, size_t count, struct sound *out, inlay_diag *diag);
/* Averages the channels, in place. */
void sound_mix(struct sound *sound);
/* Resamples one channel to another rate with a sinc kernel under a Kaiser window, 32 zero crossings wide; frequencies
 * above half the lower rate are filtered out. */
inlay_status sound_resample(struct sound *sound, int64_t rate, inlay_diag *diag);
#endif
