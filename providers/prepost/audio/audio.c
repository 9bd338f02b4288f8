/* audio.c - AudioDecoder: decodes a sound file to samples. */
#include "prepost/prepost.h"
#include "prepost/audio/sound.h"
#include <stdlib.h>

typedef struct audio_state {
    int64_t rate;
    bool mix;
} audio_state;

static inlay_status infer(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_dim dims[2] = { prepost_fixed(1), prepost_open() };
    const inlay_status status = prepost_want_rank(in, 0, 1, 2, "[bytes of a file] or [1, bytes of a file]", diag);

    (void)ctx;
    return status != INLAY_OK ? status : prepost_set(in, 0, 2, dims);
}

static bool supports(const kit_node *node, kit_refusal *why)
{
    const int64_t rate = kit_attr_int(node->info, "downsampling_rate", 0);

    return (rate >= 0 && rate <= 1000000) ||
           kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use 0 to 1000000", "downsampling_rate is %lld", (long long)rate);
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    audio_state *state = malloc(sizeof *state);

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "AudioDecoder");
    *state = (audio_state){ kit_attr_int(node->info, "downsampling_rate", 0),
                            kit_attr_int(node->info, "stereo_to_mono", 0) != 0 };
    *out_state = state;
    return INLAY_OK;
}

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    (void)node;
    prepost_cost_elements(cost, shapes, 2000, 20, 320000);
}

static inlay_status run(const kit_call *call)
{
    const audio_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    struct sound made;
    int64_t dims[2] = { 1, 0 };
    inlay_status status;

    INLAY_TRY(sound_decode(input->data, (size_t)input->count, state->mix, &made, call->diag));
    if (state->rate > 0 && state->rate != made.rate) {
        if (made.channels > 1) {
            status =
                inlay_fail(call->diag, INLAY_UNSUPPORTED,
                           "AudioDecoder: %lld channels at another rate; set stereo_to_mono", (long long)made.channels);
            goto done;
        }
        INLAY_TRY(sound_resample(&made, state->rate, call->diag));
    }
    dims[1] = made.frames * made.channels;
    INLAY_TRY(kit_alloc_output(call, 0, 2, dims));
    if (dims[1] > 0)
        memcpy(call->out[0].data, made.samples, (size_t)dims[1] * sizeof(float));
done:
    free(made.samples);
    return status;
}

/* A WAV file with two frames of two channels, 16 bits, 8000 frames a second. */
static const char wav[] = "RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\x01\0\x02\0\x40\x1f\0\0\0\x7d\0\0\x04\0\x10\0"
                          "data\x08\0\0\0\0\x40\0\xc0\0\x20\0\x20";
static const int64_t file_dims[] = { sizeof wav - 1 }, both_dims[] = { 1, 4 }, mixed_dims[] = { 1, 2 };
static const float both[] = { 0.5f, -0.5f, 0.25f, 0.25f }, mixed[] = { 0, 0.25f };
static const inlay_tensor_view file_view[] = { { wav, sizeof wav - 1, file_dims, 1, INLAY_UINT8 } };
static const inlay_tensor_view both_view[] = { PREPOST_VIEW(both, both_dims, INLAY_FLOAT) };
static const inlay_tensor_view mixed_view[] = { PREPOST_VIEW(mixed, mixed_dims, INLAY_FLOAT) };
static const inlay_attr_info as_is[] = { PREPOST_ATTR_INT("stereo_to_mono", 0) },
                             to_mono[] = { PREPOST_ATTR_INT("stereo_to_mono", 1) };
static const inlay_op_example examples[] = {
    PREPOST_EXAMPLE("two interleaved channels", as_is, file_view, both_view, 0),
    PREPOST_EXAMPLE("the mean of both", to_mono, file_view, mixed_view, 1e-7),
};

const prepost_operator prepost_audio_decoder = {
    .op_type = "AudioDecoder",
    .signature = "encoded:B, format?:S -> pcm:F; B=uint8, S=string, F=float; downsampling_rate:i=0, stereo_to_mono:i=0",
    .doc = "Decodes a sound file into samples from -1 to 1, of shape [1, samples]. The format is detected from the "
           "bytes: WAV, "
           "and with libsndfile FLAC, MP3, Ogg and others; the input format is ignored. A downsampling_rate above 0 "
           "resamples to this rate, higher or lower; stereo_to_mono 1 averages the channels.",
    .extensions = true,
    .infer = infer,
    PREPOST_EXAMPLES(examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN, .supports = supports, .cost = cost, .prepare = prepare, .run = run },
};
