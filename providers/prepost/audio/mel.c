/* mel.c - MelSpectrogram, compatible with Whisper and librosa. */
#include "prepost/audio/spectrogram.h"
#include "prepost/prepost.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static const char *const logs[] = { "none", "whisper", "db", "ln", "log10" }; /* in the order of spectrogram_log */
static const char *const pads[] = { "reflect", "zero" };
static const char *const scales[] = { "slaney", "htk" };
static const char *const norms[] = { "slaney", "none" };
enum { MAX_FFT = 1 << 20, MAX_MELS = 4096 };
#define MAX_SAMPLES ((int64_t)1 << 40)

typedef struct mel_state {
    struct spectrogram spectrogram;
    spectrogram_log log;
    int64_t samples;
} mel_state;

static void release(void *state)
{
    if (state != NULL)
        spectrogram_deinit(&((mel_state *)state)->spectrogram);
    free(state);
}

static bool drops_last(const inlay_node_info *node)
{
    return strcmp(kit_attr_string(node, "log", "none"), "whisper") == 0;
}

/* What the number of frames depends on. */
static struct spectrogram form_of(const inlay_node_info *node)
{
    return (struct spectrogram){ .n_fft = kit_attr_int(node, "n_fft", 400),
                                 .hop = kit_attr_int(node, "hop", 160),
                                 .mels = kit_attr_int(node, "mels", 80),
                                 .centre = kit_attr_int(node, "center", 1) != 0,
                                 .drop_last = drops_last(node) };
}

static inlay_status infer_mel(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *input = in->inputs[0];
    const int64_t samples = kit_attr_int(in->node, "samples", 0);
    const struct spectrogram form = form_of(in->node);
    int64_t known = samples;
    inlay_dim dims[3] = { prepost_fixed(1), prepost_fixed(form.mels), prepost_open() };
    const inlay_status status = prepost_want_rank(in, 0, 1, 2, "[samples] or [N, samples]", diag);

    (void)ctx;
    if (status != INLAY_OK)
        return status;
    if (form.n_fft < 2 || form.hop < 1 || form.n_fft > MAX_FFT || samples < 0 || samples > MAX_SAMPLES ||
        dims[1].value < 1)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "MelSpectrogram: n_fft must be 2 to %d, hop and mels 1 or more, samples 0 to %" PRId64,
                          MAX_FFT, MAX_SAMPLES);
    if (!prepost_knows_rank(input))
        dims[0] = prepost_open();
    else if (input->rank == 2)
        dims[0] = input->dims[0];
    if (known == 0 && prepost_knows_rank(input) && input->dims[input->rank - 1].kind == INLAY_DIM_FIXED)
        known = input->dims[input->rank - 1].value;
    if (known > 0)
        dims[2] = prepost_fixed(spectrogram_frames(&form, known));
    return prepost_set(in, 0, 3, dims);
}

static bool supports_mel(const kit_node *node, kit_refusal *why)
{
    const int64_t rate = kit_attr_int(node->info, "sample_rate", 16000), mels = kit_attr_int(node->info, "mels", 80);
    const double low = kit_attr_float(node->info, "f_min", 0), high = kit_attr_float(node->info, "f_max", 0);

    if (rate < 1 || mels > MAX_MELS || low < 0 || (high != 0 && !(high > low)) || !(low < (double)rate / 2))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use f_min < f_max up to half the rate, and at most 4096 mels",
                          "sample_rate is %lld, mels %lld, f_min %g, f_max %g", (long long)rate, (long long)mels, low,
                          high);
    return prepost_one_of(node, "log", "none", logs, KIT_COUNT(logs), why) &&
           prepost_one_of(node, "pad", "reflect", pads, 2, why) &&
           prepost_one_of(node, "scale", "slaney", scales, 2, why) &&
           prepost_one_of(node, "norm", "slaney", norms, 2, why);
}

static inlay_status prepare_mel(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const inlay_node_info *info = node->info;
    const double rate = (double)kit_attr_int(info, "sample_rate", 16000), high = kit_attr_float(info, "f_max", 0);
    mel_state *state = calloc(1, sizeof *state);

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "MelSpectrogram");
    state->spectrogram = form_of(info);
    state->spectrogram.reflect = strcmp(kit_attr_string(info, "pad", "reflect"), "reflect") == 0;
    state->spectrogram.power = kit_attr_float(info, "power", 2);
    state->samples = kit_attr_int(info, "samples", 0);
    state->log = (spectrogram_log)prepost_word(kit_attr_string(info, "log", "none"), logs, KIT_COUNT(logs));
    if (!spectrogram_init(&state->spectrogram, rate, kit_attr_float(info, "f_min", 0), high > 0 ? high : rate / 2,
                          strcmp(kit_attr_string(info, "scale", "slaney"), "htk") == 0,
                          strcmp(kit_attr_string(info, "norm", "slaney"), "slaney") == 0)) {
        release(state);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "MelSpectrogram: no memory for the filters");
    }
    *out_state = state;
    return INLAY_OK;
}

static void cost_mel(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const int64_t count = shapes->in[0].count, samples = kit_attr_int(node->info, "samples", 0);
    const double hop = (double)kit_attr_int(node->info, "hop", 160);
    const double all = samples > 0 ? (double)samples : count >= 0 ? (double)count : 160000;

    prepost_cost(cost, count >= 0, 5000 + all / hop * 2 * fft_ns(kit_attr_int(node->info, "n_fft", 400)));
}

static inlay_status shape_mel(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const mel_state *mel = state;
    const kit_tensor *input = &plan->in[0];

    if (input->count < 0 || (input->rank != 1 && input->rank != 2))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "MelSpectrogram: the input must be [samples] or [N, samples]");
    plan->workspace_bytes = spectrogram_scratch(&mel->spectrogram) * sizeof(double) * plan->max_threads;
    plan->allocates = plan->out[0].count < 0 ? 1 : 0;
    return INLAY_OK;
}

/* Arguments of the parallel loop over frames. */
struct job {
    struct spectrogram_job part;
    double *scratch;      /* of all workers */
    size_t scratch_count; /* elements for one worker */
};

static inlay_status do_frames(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct job *job = user;

    spectrogram_run(&job->part, begin, end, job->scratch + worker * job->scratch_count);
    return INLAY_OK;
}

static inlay_status run_mel(const kit_call *call)
{
    const mel_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    const int64_t rows = input->rank == 2 ? input->dims[0] : 1, width = input->dims[input->rank - 1];
    const int64_t whole = state->samples > 0 ? state->samples : width;
    struct job job = { .part = { .state = &state->spectrogram,
                                 .count = width < whole ? width : whole,
                                 .whole = whole,
                                 .frames = spectrogram_frames(&state->spectrogram, whole) },
                       .scratch = call->workspace,
                       .scratch_count = spectrogram_scratch(&state->spectrogram) };
    const int64_t dims[3] = { rows, state->spectrogram.mels, job.part.frames };
    const int64_t count = dims[1] * dims[2];
    inlay_status status = prepost_output(call, 0, 3, dims);

    for (int64_t r = 0; r < rows && status == INLAY_OK; r++) {
        job.part.samples = (const float *)input->data + r * width;
        job.part.to = (float *)call->out[0].data + r * count;
        status = kit_parallel(call, job.part.frames, 16, do_frames, &job);
        spectrogram_take_logs(state->log, job.part.to, count);
    }
    return status;
}

/* A sine of period 4 in a frame of 4: all its power is in bin 1, (4 / 4)^2 with the Hann window. */
static const int64_t sine_dims[] = { 4 }, sine_mel_dims[] = { 1, 1, 1 };
static const float sine[] = { 0, 1, 0, -1 }, sine_mel[] = { 1 };
static const inlay_tensor_view sine_view[] = { PREPOST_VIEW(sine, sine_dims, INLAY_FLOAT) };
static const inlay_tensor_view sine_mel_view[] = { PREPOST_VIEW(sine_mel, sine_mel_dims, INLAY_FLOAT) };
static const inlay_attr_info sine_attrs[] = {
    PREPOST_ATTR_INT("n_fft", 4),          PREPOST_ATTR_INT("hop", 4),    PREPOST_ATTR_INT("mels", 1),
    PREPOST_ATTR_INT("sample_rate", 8),    PREPOST_ATTR_INT("center", 0), PREPOST_ATTR_STRING("norm", "none"),
    PREPOST_ATTR_STRING("scale", "slaney")
};
static const inlay_op_example mel_examples[] = {
    PREPOST_EXAMPLE("a sine under one filter of height 1", sine_attrs, sine_view, sine_mel_view, 1e-6),
};

const prepost_operator prepost_mel_spectrogram = {
    .op_type = "MelSpectrogram",
    .signature =
        "pcm:F -> mel:F; F=float; sample_rate:i=16000, n_fft:i=400, hop:i=160, mels:i=80, f_min:f=0, f_max:f=0, "
        "scale:s='slaney', norm:s='slaney', power:f=2, center:i=1, pad:s='reflect', log:s='none', samples:i=0",
    .doc = "Mel spectrogram of audio, [samples] or [N, samples], as [N, mels, frames], with a Hann window. The "
           "defaults are Whisper's, which also sets log to \"whisper\" (log10, at most 8 below the maximum, (x + 4) / "
           "4; the last frame is dropped); librosa's are n_fft 2048, hop 512, mels 128 and pad \"zero\". log is none, "
           "whisper, db, ln or log10; samples crops or zero-pads the input first; f_max 0 is half the rate; scale is "
           "slaney or htk, norm slaney or none.",
    .infer = infer_mel,
    PREPOST_EXAMPLES(mel_examples),
    .kernel = { .supports = supports_mel,
                .cost = cost_mel,
                .prepare = prepare_mel,
                .release = release,
                .shape = shape_mel,
                .run = run_mel },
};
