/* sound.h - sound in files: WAV here, FLAC, MP3, Ogg and others by libsndfile where this was built with it. */
#ifndef SOUND_H
#define SOUND_H
#include "inlay/status.h"
#include <stddef.h>

struct sound {
    float *samples; /* [frames, channels], -1 to 1; freed with free() */
    int64_t frames, channels, rate;
};
enum { SOUND_MOST = 1 << 28 }; /* samples of a file */

inlay_status sound_decode(const uint8_t *bytes, size_t count, struct sound *out, inlay_diag *diag);
/* The mean of the channels, in place. */
void sound_mix(struct sound *sound);
/* To another rate, by a sinc under Kaiser's window, 32 zeros wide; what the lower rate cannot hold is filtered out. One
 * channel. */
inlay_status sound_resample(struct sound *sound, int64_t rate, inlay_diag *diag);
#endif
