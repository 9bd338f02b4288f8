/* sound.c - decoding and resampling of sound files, see sound.h. */
#include "common/library.h"
#include "prepost/audio/sound.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef SNDFILE_SONAME
#include <sndfile.h>
#include <threads.h>
#endif

enum { PCM = 1, FLOATS = 3, A_LAW = 6, MU_LAW = 7, EXTENSIBLE = 0xfffe };

struct wav {
    uint32_t format, channels, rate, bits;
    const uint8_t *data;
    size_t bytes;
};

static uint32_t word(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8;
}

static uint32_t dword(const uint8_t *bytes)
{
    return word(bytes) | word(bytes + 2) << 16;
}

static bool starts(const uint8_t *bytes, size_t count, const char *magic)
{
    return count >= 4 && memcmp(bytes, magic, 4) == 0;
}

/* Reads the chunks up to the data, which may end with the file, as in streams. */
static bool read_chunks(const uint8_t *bytes, size_t count, struct wav *wav)
{
    for (size_t at = 12; at + 8 <= count;) {
        const size_t left = count - at - 8, chunk_bytes = dword(bytes + at + 4) < left ? dword(bytes + at + 4) : left;

        if (starts(bytes + at, count - at, "fmt ") && chunk_bytes >= 16) {
            wav->format = word(bytes + at + 8);
            wav->channels = word(bytes + at + 10);
            wav->rate = dword(bytes + at + 12);
            wav->bits = word(bytes + at + 22);
            if (wav->format == EXTENSIBLE && chunk_bytes >= 26)
                wav->format = word(bytes + at + 32);
        } else if (starts(bytes + at, count - at, "data")) {
            wav->data = bytes + at + 8;
            wav->bytes = chunk_bytes;
            return wav->channels > 0 && wav->rate > 0;
        }
        at += 8 + chunk_bytes + (chunk_bytes & 1);
    }
    return false;
}

static float a_law(uint8_t code)
{
    const int bits = code ^ 0x55, exponent = bits >> 4 & 7, mantissa = bits & 15;
    const int size = exponent == 0 ? mantissa * 2 + 1 : (mantissa * 2 + 33) << (exponent - 1);

    return (float)((bits & 0x80) != 0 ? size : -size) / 4096;
}

static float mu_law(uint8_t code)
{
    const int bits = ~code & 0xff, size = (((bits & 15) << 3) + 0x84) << (bits >> 4 & 7);

    return (float)((bits & 0x80) != 0 ? 0x84 - size : size - 0x84) / 32768;
}

static float sample_at(const struct wav *wav, const uint8_t *bytes)
{
    uint64_t bits = 0;
    double wide;
    float single;

    for (uint32_t i = 0; i < wav->bits / 8; i++)
        bits |= (uint64_t)bytes[i] << (8 * i);
    if (wav->format == A_LAW)
        return a_law(bytes[0]);
    if (wav->format == MU_LAW)
        return mu_law(bytes[0]);
    if (wav->format == FLOATS && wav->bits == 32) {
        const uint32_t word_bits = (uint32_t)bits;

        memcpy(&single, &word_bits, sizeof single);
        return single;
    }
    if (wav->format == FLOATS) {
        memcpy(&wide, &bits, sizeof wide);
        return (float)wide;
    }
    if (wav->bits == 8)
        return ((float)bits - 128) / 128;
    bits <<= 64 - wav->bits;
    return (float)((double)(int64_t)bits / 9223372036854775808.0);
}

static bool is_known(const struct wav *wav)
{
    if (wav->format == PCM)
        return wav->bits == 8 || wav->bits == 16 || wav->bits == 24 || wav->bits == 32;
    return wav->format == FLOATS ? wav->bits == 32 || wav->bits == 64
                                 : (wav->format == A_LAW || wav->format == MU_LAW) && wav->bits == 8;
}

/* Averages the channels of frames, in place. */
static void mix_channels(float *samples, int64_t frames, int64_t channels)
{
    for (int64_t i = 0; i < frames && channels > 1; i++) {
        double sum = 0;

        for (int64_t channel = 0; channel < channels; channel++)
            sum += (double)samples[i * channels + channel];
        samples[i] = (float)(sum / (double)channels);
    }
}

static inlay_status decode_wav(const uint8_t *bytes, size_t count, bool mix, struct sound *out, inlay_diag *diag)
{
    struct wav wav = { 0 };
    size_t samples;

    if (!read_chunks(bytes, count, &wav))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "WAV: the file is cut off or damaged");
    if (!is_known(&wav) || wav.channels > 64)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "WAV: format %u with %u bits and %u channels is not supported",
                          wav.format, wav.bits, wav.channels);
    samples = wav.bytes / (wav.bits / 8) / wav.channels * wav.channels;
    if (samples > SOUND_MOST)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "WAV: %llu samples; at most %d are allowed",
                          (unsigned long long)samples, SOUND_MOST);
    *out = (struct sound){ .samples = malloc((samples + 1) * sizeof(float)),
                           .frames = (int64_t)(samples / wav.channels),
                           .channels = wav.channels,
                           .rate = wav.rate };
    if (out->samples == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "WAV: no memory for %llu samples", (unsigned long long)samples);
    for (size_t i = 0; i < samples; i++)
        out->samples[i] = sample_at(&wav, wav.data + i * (wav.bits / 8));
    if (mix) {
        mix_channels(out->samples, out->frames, out->channels);
        out->channels = 1;
    }
    return INLAY_OK;
}

#ifdef SNDFILE_SONAME
/* The functions of libsndfile that are used, without the prefix sf_. The library loads eight others, so it is opened
 * when the first file that needs it is decoded, and not with the plugin. */
#define FUNCTIONS(X) X(open_virtual) X(readf_float) X(strerror) X(close)

static struct {
#define MEMBER(name) __typeof__(sf_##name) *name;
    FUNCTIONS(MEMBER)
#undef MEMBER
    bool loaded;
} lib;
static once_flag opened = ONCE_FLAG_INIT;

static void open_library(void)
{
    void *handle = library_open(SNDFILE_SONAME);

    lib.loaded = handle != NULL;
#define FIND(name) lib.loaded = lib.loaded && library_find(handle, "sf_" #name, &lib.name);
    FUNCTIONS(FIND)
#undef FIND
}

struct reader {
    const uint8_t *bytes;
    sf_count_t count, at;
};

static sf_count_t on_size(void *user)
{
    return ((struct reader *)user)->count;
}

static sf_count_t on_seek(sf_count_t offset, int whence, void *user)
{
    struct reader *reader = user;
    const sf_count_t to = whence == SEEK_SET   ? offset
                          : whence == SEEK_CUR ? reader->at + offset
                                               : reader->count + offset;

    if (to < 0 || to > reader->count)
        return -1;
    return reader->at = to;
}

static sf_count_t on_read(void *to, sf_count_t count, void *user)
{
    struct reader *reader = user;
    const sf_count_t taken = count < reader->count - reader->at ? count : reader->count - reader->at;

    if (taken <= 0)
        return 0;
    memcpy(to, reader->bytes + reader->at, (size_t)taken);
    reader->at += taken;
    return taken;
}

static sf_count_t on_write(const void *from, sf_count_t count, void *user)
{
    (void)from;
    (void)count;
    (void)user;
    return 0;
}

static sf_count_t on_tell(void *user)
{
    return ((struct reader *)user)->at;
}

/* Reads in pieces of `channels` channels, because the length in the header is not trusted. Mixed pieces have one. */
static inlay_status read_all(SNDFILE *file, int64_t channels, struct sound *out, inlay_diag *diag)
{
    enum { PIECE = 1 << 16 };
    int64_t room = 0; /* samples */

    for (;;) {
        const int64_t used = out->frames * out->channels;
        sf_count_t taken;

        if (used + PIECE * channels > room) {
            float *more;

            if (used + PIECE * channels > SOUND_MOST)
                return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the sound has more than %d samples", SOUND_MOST);
            room = (used + PIECE * channels) * 2;
            more = realloc(out->samples, (size_t)room * sizeof *more);
            if (more == NULL)
                return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a sound");
            out->samples = more;
        }
        taken = lib.readf_float(file, out->samples + used, PIECE);
        if (taken <= 0)
            return INLAY_OK;
        if (out->channels < channels)
            mix_channels(out->samples + used, taken, channels);
        out->frames += taken;
    }
}

static inlay_status decode_other(const uint8_t *bytes, size_t count, bool mix, struct sound *out, inlay_diag *diag)
{
    SF_VIRTUAL_IO io = { on_size, on_seek, on_read, on_write, on_tell };
    struct reader reader = { bytes, (sf_count_t)count, 0 };
    SF_INFO info = { 0 };
    SNDFILE *file;
    inlay_status status;

    call_once(&opened, open_library);
    if (!lib.loaded)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "this sound file needs the library %s, which cannot be opened",
                          SNDFILE_SONAME);
    file = lib.open_virtual(&io, SFM_READ, &info, &reader);
    if (file == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the sound file cannot be read: %.200s", lib.strerror(NULL));
    if (info.channels < 1 || info.channels > 64 || info.samplerate < 1) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            "the sound has %d channels with %d samples a second, which is not supported", info.channels,
                            info.samplerate);
    } else {
        *out = (struct sound){ .channels = mix ? 1 : info.channels, .rate = info.samplerate };
        status = read_all(file, info.channels, out, diag);
    }
    (void)lib.close(file);
    return status;
}
#else
static inlay_status decode_other(const uint8_t *bytes, size_t count, bool mix, struct sound *out, inlay_diag *diag)
{
    (void)bytes;
    (void)mix;
    (void)out;
    return inlay_fail(diag, INLAY_UNSUPPORTED,
                      "the %llu bytes are not a WAV file, and this plugin was built without libsndfile, which reads "
                      "other formats: build it again with the package libsndfile1-dev",
                      (unsigned long long)count);
}
#endif

inlay_status sound_decode(const uint8_t *bytes, size_t count, bool mix, struct sound *out, inlay_diag *diag)
{
    inlay_status status;

    *out = (struct sound){ 0 };
    if (count >= 12 && starts(bytes, count, "RIFF") && starts(bytes + 8, count - 8, "WAVE"))
        status = decode_wav(bytes, count, mix, out, diag);
    else
        status = decode_other(bytes, count, mix, out, diag);
    if (status == INLAY_OK)
        return status;
    free(out->samples);
    *out = (struct sound){ 0 };
    return status;
}

/* The modified Bessel function of the first kind, order 0. */
static double bessel(double x)
{
    double sum = 1, term = 1;

    for (int k = 1; k < 50; k++) {
        term *= x / (2 * k) * (x / (2 * k));
        sum += term;
    }
    return sum;
}

/* The greatest common divisor. */
static int64_t divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

inlay_status sound_resample(struct sound *sound, int64_t rate, inlay_diag *diag)
{
    enum { ZEROS = 32, PHASES = 512, MOST_WEIGHTS = 1 << 23 }; /* weights: of a rate that a damaged header states */
    const int64_t common = divisor(sound->rate, rate), up = rate / common, down = sound->rate / common;
    const double cut = up < down ? (double)up / (double)down : 1, reach = ZEROS / cut, beta = 9;
    const int64_t taps = (int64_t)ceil(reach) * 2, frames = (sound->frames * up + down - 1) / down;
    const int64_t phases = up < PHASES ? up : PHASES;
    double *table = NULL;
    float *to = NULL;
    inlay_status status = INLAY_OK;

    if (up == down)
        return status;
    if (sound->frames > SOUND_MOST || up > 1000000 || frames > SOUND_MOST || taps > MOST_WEIGHTS / phases)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "resampling from %lld to %lld samples a second: the ratio is too large",
                          (long long)sound->rate, (long long)rate);
    table = malloc((size_t)(taps * phases) * sizeof *table);
    to = malloc((size_t)(frames + 1) * sizeof *to);
    if (table == NULL || to == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a sound of %lld samples", (long long)frames);
        goto done;
    }
    for (int64_t phase = 0; phase < phases; phase++) {
        for (int64_t k = 0; k < taps; k++) {
            const double offset = (double)(k - taps / 2 + 1) - (double)phase / (double)phases,
                         position = offset / reach;
            const double turn = acos(-1.0) * offset * cut;

            table[phase * taps + k] = fabs(position) >= 1
                                          ? 0
                                          : (offset == 0 ? 1 : sin(turn) / turn) * cut *
                                                bessel(beta * sqrt(1 - position * position)) / bessel(beta);
        }
    }
    for (int64_t i = 0; i < frames; i++) {
        const int64_t at = i * down / up, phase = (i * down % up) * phases / up;
        const double *weights = table + phase * taps;
        double sum = 0;

        for (int64_t k = 0; k < taps; k++) {
            const int64_t from = at + k - taps / 2 + 1;

            if (from >= 0 && from < sound->frames)
                sum += (double)sound->samples[from] * weights[k];
        }
        to[i] = (float)sum;
    }
    free(sound->samples);
    sound->samples = to;
    sound->frames = frames;
    sound->rate = rate;
    to = NULL;
done:
    free(table);
    free(to);
    return status;
}
