/* mel.c - MelSpectrogram, compatible with Whisper and librosa. */
#include "common/fft.h"
#include "inlay/check.h"
#include "prepost/prepost.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static const char *const logs[] = { "none", "whisper", "db", "ln", "log10" };
static const char *const pads[] = { "reflect", "zero" };
static const char *const scales[] = { "slaney", "htk" };
static const char *const norms[] = { "slaney", "none" };
enum { LOG_NONE, LOG_WHISPER, LOG_DB, LOG_LN, LOG_10 };
enum { MAX_FFT = 1 << 20, MAX_MELS = 4096 };
#define MAX_SAMPLES ((int64_t)1 << 40)

/* A filter: bins [first, first + count) with weights. */
struct filter {
    int64_t first, count;
    const double *weights;
};

typedef struct mel_state {
    int64_t n_fft, hop, mels, samples, bins;
    bool centre, reflect, drop_last;
    int log;
    double power;
    double *window;         /* [n_fft] periodic Hann window */
    double *weights;        /* of all filters */
    struct filter *filters; /* [mels] */
    double *tables;
    struct fft fft;
} mel_state;

static void release(void *state)
{
    mel_state *mel = state;

    if (mel != NULL) {
        free(mel->window);
        free(mel->weights);
        free(mel->filters);
        free(mel->tables);
    }
    free(mel);
}

/* Slaney's scale is linear below 1000 Hz and logarithmic above; HTK's is 2595 log10(1 + f / 700). */
static double mel_of(double hz, bool htk)
{
    const double step = 200.0 / 3, from = 1000, log_step = log(6.4) / 27;

    if (htk)
        return 2595 * log10(1 + hz / 700);
    return hz < from ? hz / step : from / step + log(hz / from) / log_step;
}

static double hz_of(double mel, bool htk)
{
    const double step = 200.0 / 3, from = 1000, log_step = log(6.4) / 27;

    if (htk)
        return 700 * (pow(10, mel / 2595) - 1);
    return mel < from / step ? mel * step : from * exp(log_step * (mel - from / step));
}

/* Builds triangular filters over the bins, of height 1 or (Slaney norm) area 1. */
static bool make_filters(mel_state *state, double rate, double low, double high, bool htk, bool slaney)
{
    const double from = mel_of(low, htk), step = (mel_of(high, htk) - from) / (double)(state->mels + 1);
    double *at;

    state->filters = calloc((size_t)state->mels, sizeof *state->filters);
    state->weights = calloc((size_t)(state->mels * state->bins), sizeof *state->weights);
    if (state->filters == NULL || state->weights == NULL)
        return false;
    at = state->weights;
    for (int64_t filter_index = 0; filter_index < state->mels; filter_index++) {
        const double left = hz_of(from + step * (double)filter_index, htk),
                     middle = hz_of(from + step * (double)(filter_index + 1), htk);
        const double right = hz_of(from + step * (double)(filter_index + 2), htk),
                     height = slaney ? 2 / (right - left) : 1;
        struct filter *filter = &state->filters[filter_index];

        filter->weights = at;
        for (int64_t k = 0; k < state->bins; k++) {
            const double hz = (double)k * rate / (double)state->n_fft;
            const double up = (hz - left) / (middle - left), down = (right - hz) / (right - middle);
            const double weight = (up < down ? up : down) * height;

            if (!(weight > 0))
                continue;
            if (filter->count == 0)
                filter->first = k;
            for (; filter->first + filter->count < k; filter->count++) /* zeros for a gap between bins */
                *at++ = 0;
            *at++ = weight;
            filter->count++;
        }
    }
    return true;
}

/* Arguments of the parallel loop over frames. */
struct job {
    const mel_state *state;
    const float *input;
    int64_t count, whole, frames; /* samples of the input; samples after zero padding; output columns */
    float *to;                    /* [mels, frames] */
    double *scratch;              /* scratch of all workers */
    size_t scratch_count;         /* elements for one worker */
};

static inlay_status do_frames(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct job *job = user;
    const mel_state *state = job->state;
    double *data = job->scratch + worker * job->scratch_count, *powers = data + 2 * state->n_fft,
           *inner = powers + state->bins;

    INLAY_CHECK(end <= job->frames);
    for (int64_t frame = begin; frame < end; frame++) {
        const int64_t start = frame * state->hop - (state->centre ? state->n_fft / 2 : 0);

        for (int64_t i = 0; i < state->n_fft; i++) {
            int64_t at = start + i;

            /* Samples past the end are zeros up to `whole`; positions outside `whole` are mirrored. */
            if (state->reflect && job->whole > 1 && (at < 0 || at >= job->whole)) {
                at %= 2 * (job->whole - 1);
                at = at < 0 ? at + 2 * (job->whole - 1) : at;
                at = at < job->whole ? at : 2 * (job->whole - 1) - at;
            }
            data[2 * i] = at >= 0 && at < job->count ? (double)job->input[at] * state->window[i] : 0;
            data[2 * i + 1] = 0;
        }
        fft_run(&state->fft, false, data, inner);
        for (int64_t k = 0; k < state->bins; k++) {
            const double square = data[2 * k] * data[2 * k] + data[2 * k + 1] * data[2 * k + 1];

            powers[k] = state->power == 2 ? square : state->power == 1 ? sqrt(square) : pow(square, state->power / 2);
        }
        for (int64_t filter_index = 0; filter_index < state->mels; filter_index++) {
            const struct filter *filter = &state->filters[filter_index];
            double sum = 0;

            for (int64_t k = 0; k < filter->count; k++)
                sum += filter->weights[k] * powers[filter->first + k];
            job->to[filter_index * job->frames + frame] = (float)sum;
        }
    }
    return INLAY_OK;
}

/* Replaces the values of a spectrogram by their logarithms. */
static void take_logs(const mel_state *state, float *input, int64_t count)
{
    float most = -INFINITY;

    for (int64_t i = 0; i < count && state->log != LOG_NONE; i++) {
        const double value = input[i] > 1e-10f ? (double)input[i] : 1e-10;

        input[i] = (float)(state->log == LOG_LN ? log(value) : state->log == LOG_DB ? 10 * log10(value) : log10(value));
        most = input[i] > most ? input[i] : most;
    }
    if (state->log != LOG_WHISPER && state->log != LOG_DB)
        return;
    for (int64_t i = 0; i < count; i++) {
        const float least = most - (state->log == LOG_DB ? 80 : 8);

        input[i] = input[i] > least ? input[i] : least;
        if (state->log == LOG_WHISPER)
            input[i] = (input[i] + 4) / 4;
    }
}

static int64_t frames_of(int64_t samples, int64_t n_fft, int64_t hop, bool centre, bool drop_last)
{
    const int64_t room = centre ? samples + n_fft / 2 * 2 - n_fft : samples - n_fft;
    const int64_t frames = room < 0 ? 0 : room / hop + 1;

    return drop_last && frames > 0 ? frames - 1 : frames;
}

static bool drops_last(const inlay_node_info *node)
{
    return strcmp(kit_attr_string(node, "log", "none"), "whisper") == 0;
}

static inlay_status infer_mel(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *input = in->inputs[0];
    const int64_t samples = kit_attr_int(in->node, "samples", 0), fft_size = kit_attr_int(in->node, "n_fft", 400);
    const int64_t hop = kit_attr_int(in->node, "hop", 160);
    int64_t known = samples;
    inlay_dim dims[3] = { prepost_fixed(1), prepost_fixed(kit_attr_int(in->node, "mels", 80)), prepost_open() };
    const inlay_status status = prepost_want_rank(in, 0, 1, 2, "[samples] or [N, samples]", diag);

    (void)ctx;
    if (status != INLAY_OK)
        return status;
    if (fft_size < 2 || hop < 1 || fft_size > MAX_FFT || samples < 0 || samples > MAX_SAMPLES || dims[1].value < 1)
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
        dims[2] = prepost_fixed(
            frames_of(known, fft_size, hop, kit_attr_int(in->node, "center", 1) != 0, drops_last(in->node)));
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

static bool make_window(mel_state *state)
{
    state->tables = calloc(fft_table_count(state->n_fft) + 1, sizeof *state->tables);
    state->window = calloc((size_t)state->n_fft, sizeof *state->window);
    if (state->tables == NULL || state->window == NULL)
        return false;
    fft_init(&state->fft, state->n_fft, state->tables);
    for (int64_t i = 0; i < state->n_fft; i++)
        state->window[i] = 0.5 - 0.5 * cos(2 * acos(-1.0) * (double)i / (double)state->n_fft);
    return true;
}

static inlay_status prepare_mel(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const inlay_node_info *info = node->info;
    const double rate = (double)kit_attr_int(info, "sample_rate", 16000), high = kit_attr_float(info, "f_max", 0);
    mel_state *state = calloc(1, sizeof *state);

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "MelSpectrogram");
    state->n_fft = kit_attr_int(info, "n_fft", 400);
    state->bins = state->n_fft / 2 + 1;
    state->hop = kit_attr_int(info, "hop", 160);
    state->mels = kit_attr_int(info, "mels", 80);
    state->samples = kit_attr_int(info, "samples", 0);
    state->centre = kit_attr_int(info, "center", 1) != 0;
    state->reflect = strcmp(kit_attr_string(info, "pad", "reflect"), "reflect") == 0;
    state->drop_last = drops_last(info);
    state->log = prepost_word(kit_attr_string(info, "log", "none"), logs, KIT_COUNT(logs));
    state->power = kit_attr_float(info, "power", 2);
    if (!make_window(state) || !make_filters(state, rate, kit_attr_float(info, "f_min", 0), high > 0 ? high : rate / 2,
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
    const double fft_size = (double)kit_attr_int(node->info, "n_fft", 400),
                 hop = (double)kit_attr_int(node->info, "hop", 160);
    const double all = samples > 0 ? (double)samples : count >= 0 ? (double)count : 160000;

    /* Lengths that are not a power of two need three longer transforms. */
    prepost_cost(cost, count >= 0, 5000 + all / hop * fft_size * log2(fft_size) * 12);
}

static size_t scratch_of(const mel_state *state)
{
    return (size_t)(2 * state->n_fft + state->bins) + fft_scratch_count(&state->fft);
}

static inlay_status shape_mel(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const mel_state *mel = state;
    const kit_tensor *input = &plan->in[0];

    if (input->count < 0 || (input->rank != 1 && input->rank != 2))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "MelSpectrogram: the input must be [samples] or [N, samples]");
    plan->workspace_bytes = scratch_of(mel) * sizeof(double) * plan->max_threads;
    plan->allocates = plan->out[0].count < 0 ? 1 : 0;
    return INLAY_OK;
}

static inlay_status run_mel(const kit_call *call)
{
    const mel_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    const int64_t rows = input->rank == 2 ? input->dims[0] : 1, width = input->dims[input->rank - 1];
    const int64_t whole = state->samples > 0 ? state->samples : width;
    struct job job = { .state = state,
                       .count = width < whole ? width : whole,
                       .whole = whole,
                       .scratch = call->workspace,
                       .scratch_count = scratch_of(state) };
    int64_t dims[3] = { rows, state->mels, 0 };
    inlay_status status;

    job.frames = dims[2] = frames_of(whole, state->n_fft, state->hop, state->centre, state->drop_last);
    status = prepost_output(call, 0, 3, dims);
    for (int64_t r = 0; r < rows && status == INLAY_OK; r++) {
        job.input = (const float *)input->data + r * width;
        job.to = (float *)call->out[0].data + r * state->mels * job.frames;
        status = kit_parallel(call, job.frames, 16, do_frames, &job);
        take_logs(state, job.to, state->mels * job.frames);
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
