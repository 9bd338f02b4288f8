#include "prepost/audio/spectrogram.h"
#include "inlay/check.h"
#include <math.h>
#include <stdlib.h>

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

static bool make_filters(struct spectrogram *state, double rate, double low, double high, bool htk, bool slaney)
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
        struct mel_filter *filter = &state->filters[filter_index];

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

static bool make_window(struct spectrogram *state)
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

bool spectrogram_init(struct spectrogram *state, double rate, double low, double high, bool htk, bool slaney)
{
    state->bins = state->n_fft / 2 + 1;
    state->window = state->weights = state->tables = NULL;
    state->filters = NULL;
    return make_window(state) && make_filters(state, rate, low, high, htk, slaney);
}

void spectrogram_deinit(struct spectrogram *state)
{
    free(state->window);
    free(state->weights);
    free(state->filters);
    free(state->tables);
}

int64_t spectrogram_frames(const struct spectrogram *state, int64_t samples)
{
    const int64_t room = state->centre ? samples + state->n_fft / 2 * 2 - state->n_fft : samples - state->n_fft;
    const int64_t frames = room < 0 ? 0 : room / state->hop + 1;

    return state->drop_last && frames > 0 ? frames - 1 : frames;
}

size_t spectrogram_scratch(const struct spectrogram *state)
{
    return (size_t)(2 * state->n_fft + state->bins) + fft_scratch_count(&state->fft);
}

void spectrogram_run(const struct spectrogram_job *job, int64_t begin, int64_t end, double *scratch)
{
    const struct spectrogram *state = job->state;
    double *data = scratch, *powers = data + 2 * state->n_fft, *inner = powers + state->bins;

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
            data[2 * i] = at >= 0 && at < job->count ? (double)job->samples[at] * state->window[i] : 0;
            data[2 * i + 1] = 0;
        }
        fft_run(&state->fft, false, data, inner);
        for (int64_t k = 0; k < state->bins; k++) {
            const double square = data[2 * k] * data[2 * k] + data[2 * k + 1] * data[2 * k + 1];

            powers[k] = state->power == 2 ? square : state->power == 1 ? sqrt(square) : pow(square, state->power / 2);
        }
        for (int64_t filter_index = 0; filter_index < state->mels; filter_index++) {
            const struct mel_filter *filter = &state->filters[filter_index];
            double sum = 0;

            for (int64_t k = 0; k < filter->count; k++)
                sum += filter->weights[k] * powers[filter->first + k];
            job->to[filter_index * job->frames + frame] = (float)sum;
        }
    }
}

void spectrogram_take_logs(spectrogram_log which, float *values, int64_t count)
{
    float most = -INFINITY;

    for (int64_t i = 0; i < count && which != LOG_NONE; i++) {
        const double value = values[i] > 1e-10f ? (double)values[i] : 1e-10;

        values[i] = (float)(which == LOG_LN ? log(value) : which == LOG_DB ? 10 * log10(value) : log10(value));
        most = values[i] > most ? values[i] : most;
    }
    if (which != LOG_WHISPER && which != LOG_DB)
        return;
    for (int64_t i = 0; i < count; i++) {
        const float least = most - (which == LOG_DB ? 80 : 8);

        values[i] = values[i] > least ? values[i] : least;
        if (which == LOG_WHISPER)
            values[i] = (values[i] + 4) / 4;
    }
}
