/* sound.h - decodes sound files: WAV here; FLAC, MP3, Ogg and others with libsndfile, if it was found at build time. */
#ifndef SOUND_H
#define SOUND_H
#include "inlay/status.h"
#include <stdbool.h>
#include <stddef.h>

struct sound {
    float *samples; /* [frames, channels], -1 to 1; freed with free() */
    int64_t frames, channels, rate;
};
enum { SOUND_MOST = 1 << 28 }; /* most samples of a file */

/* mix: averages the channels of each frame. */
INLAY_NODISCARD inlay_status sound_decode(const uint8_t *bytes, size_t count, bool mix, struct sound *out,
                                          inlay_diag *diag);
/* Resamples one channel to another rate with a sinc kernel under a Kaiser window, 32 zero crossings wide; frequencies
 * above half the lower rate are filtered out. */
INLAY_NODISCARD inlay_status sound_resample(struct sound *sound, int64_t rate, inlay_diag *diag);
#endif
