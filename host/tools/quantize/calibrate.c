#include "quantize/calibrate.h"
#include "config/options.h"
#include "inlay/check.h"
#include <math.h>
#include <string.h>

enum { TRIM_EVERY = 8 }; /* samples between two calls of subject_trim() */

/* One pass over the samples. */
struct pass {
    const struct samples *set;
    struct subject subject;
    uint32_t *outputs; /* [count] output index of the session; INLAY_NONE: the value is an input */
    uint32_t *inputs;  /* [count] input index of the samples */
    struct calibration *calibration;
    bool histogram;
    inlay_diag *diag;
};

static void add_bounds(tensor_range *range, const float *input, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float element;

        memcpy(&element, input + i, sizeof element);
        if (!isfinite(element)) {
            range->broken++;
            continue;
        }
        range->low = element < range->low ? element : range->low;
        range->high = element > range->high ? element : range->high;
    }
}

static void add_bins(tensor_range *range, const float *input, int64_t count)
{
    const double low = range->low; /* in float, the width may be infinite, or its reciprocal */
    const double scale = range->high > range->low ? CALIBRATE_BINS / (range->high - low) : 0;

    INLAY_CHECK(range->bins != NULL);
    for (int64_t i = 0; i < count; i++) {
        double bin;

        if (!isfinite(input[i]))
            continue;
        bin = (input[i] - low) * scale;
        range->bins[bin < 0 ? 0 : bin >= CALIBRATE_BINS ? CALIBRATE_BINS - 1 : (int)bin]++;
        range->count++;
    }
}

/* Allocates the sums of channels when the first sample shows their number. If a later sample has another number, there
 * are no means. */
static void count_channels(struct calibration *calibration, tensor_range *range, int64_t channels)
{
    if (range->per_channel == 0 && range->means == NULL && channels > 0) {
        range->means = arena_array(&calibration->arena, (size_t)channels, sizeof *range->means);
        range->channels = range->means != NULL ? channels : 0;
    }
    if (range->channels != channels) {
        range->axis = 0;
        range->channels = 0;
        range->means = NULL;
    }
}

static void add_channels(struct calibration *calibration, tensor_range *range, const inlay_tensor_view *view)
{
    const uint32_t axis = range->axis < 0 ? view->rank - 1 : (uint32_t)range->axis;
    const float *input = view->data;
    int64_t outer = 1, inner = 1;

    if (range->axis == 0 || axis >= view->rank)
        return;
    count_channels(calibration, range, view->dims[axis]);
    if (range->means == NULL)
        return;
    for (uint32_t axis_index = 0; axis_index < view->rank; axis_index++) {
        outer *= axis_index < axis ? view->dims[axis_index] : 1;
        inner *= axis_index > axis ? view->dims[axis_index] : 1;
    }
    for (int64_t outer_index = 0; outer_index < outer; outer_index++)
        for (int64_t k = 0; k < range->channels; k++) {
            double sum = 0;

            for (int64_t i = 0; i < inner; i++)
                sum += isfinite(input[i]) ? (double)input[i] : 0;
            range->means[k] += sum;
            input += inner;
        }
    range->per_channel += (uint64_t)(outer * inner);
}

static inlay_status add_sample(struct pass *pass, inlay_value *const *values)
{
    for (uint32_t k = 0; k < pass->calibration->count; k++) {
        tensor_range *range = &pass->calibration->ranges[k];
        const inlay_value *value = pass->outputs[k] != INLAY_NONE
                                       ? inlay_context_output(pass->subject.context, pass->outputs[k])
                                       : values[pass->inputs[k]];
        inlay_tensor_view view;

        if (value == NULL)
            continue; /* an optional input without a value */
        if (!evaluate_view(value, &view) || view.dtype != INLAY_FLOAT)
            return inlay_fail(pass->diag, INLAY_INVALID_ARGUMENT, "value '%s' is not a float tensor", range->name);
        if (pass->histogram) {
            add_bins(range, view.data, inlay_value_count(value));
            add_channels(pass->calibration, range, &view);
        } else {
            add_bounds(range, view.data, inlay_value_count(value));
        }
    }
    return INLAY_OK;
}

static inlay_status run_pass(struct pass *pass, double from, double to, int (*progress)(void *, double, const char *),
                             void *user)
{
    inlay_value **values = NULL;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < pass->set->count; i++) {
        if (progress != NULL && progress(user, from + (to - from) * i / pass->set->count, "calibrating") != 0) {
            status = inlay_fail(pass->diag, INLAY_CANCELLED, "stopped at sample %u of %u; nothing was written", i + 1,
                                pass->set->count);
            goto done;
        }
        INLAY_TRY(samples_load(pass->set, i, &values, pass->diag));
        INLAY_TRY(samples_run(pass->set, values, pass->subject.session, pass->subject.context, pass->diag));
        INLAY_TRY(add_sample(pass, values));
        samples_release(pass->set, values);
        values = NULL;
        if (i % TRIM_EVERY == 0)
            subject_trim(&pass->subject);
    }
done:
    samples_release(pass->set, values);
    return status;
}

static inlay_status find_values(struct pass *pass, const calibrate_value *values, uint32_t count)
{
    struct arena *arena = &pass->calibration->arena;

    pass->outputs = arena_array(arena, (size_t)count + 1, sizeof *pass->outputs);
    pass->inputs = arena_array(arena, (size_t)count + 1, sizeof *pass->inputs);
    pass->calibration->ranges = arena_array(arena, (size_t)count + 1, sizeof *pass->calibration->ranges);
    if (pass->outputs == NULL || pass->inputs == NULL || pass->calibration->ranges == NULL)
        return no_memory(pass->diag, "for %u ranges", count);
    pass->calibration->count = count;
    for (uint32_t k = 0; k < count; k++) {
        pass->calibration->ranges[k] = (tensor_range){
            .name = arena_string(arena, values[k].name), .low = INFINITY, .high = -INFINITY, .axis = values[k].axis
        };
        if (pass->calibration->ranges[k].name == NULL)
            return no_memory(pass->diag, "for %u ranges", count);
        pass->outputs[k] = inlay_session_find_output(pass->subject.session, values[k].name);
        pass->inputs[k] = inlay_session_find_input(pass->set->of, values[k].name);
        if (pass->outputs[k] == INLAY_NONE && pass->inputs[k] == INLAY_NONE)
            return inlay_fail(pass->diag, INLAY_INTERNAL, "value '%s' cannot be tapped", values[k].name);
    }
    return INLAY_OK;
}

/* Options with a tap for each value that is not already an input or output. */
static inlay_status tap_options(const inlay_options *options, const struct samples *set, const calibrate_value *values,
                                uint32_t count, inlay_options **out, inlay_diag *diag)
{
    inlay_status status = evaluate_options(options, NULL, NULL, out, diag);

    for (uint32_t k = 0; k < count && status == INLAY_OK; k++)
        if (inlay_session_find_input(set->of, values[k].name) == INLAY_NONE &&
            inlay_session_find_output(set->of, values[k].name) == INLAY_NONE)
            status = options_set_item(*out, "tap", values[k].name, diag);
    return status;
}

inlay_status calibrate(const char *path, const inlay_options *options, const struct samples *set,
                       const calibrate_value *values, uint32_t count,
                       int (*progress)(void *user, double fraction, const char *what), void *user,
                       struct calibration *out, inlay_diag *diag)
{
    struct pass pass = { .set = set, .calibration = out, .diag = diag };
    inlay_options *tapped = NULL;
    inlay_status status;

    *out = (struct calibration){ 0 };
    INLAY_TRY(tap_options(options, set, values, count, &tapped, diag));
    INLAY_TRY(subject_open(path, tapped, &pass.subject, diag));
    INLAY_TRY(find_values(&pass, values, count));
    INLAY_TRY(run_pass(&pass, 0.1, 0.25, progress, user));
    for (uint32_t k = 0; k < count; k++) {
        out->ranges[k].bins = arena_array(&out->arena, CALIBRATE_BINS, sizeof *out->ranges[k].bins);
        if (out->ranges[k].bins == NULL) {
            status = no_memory(diag, "for %u histograms", count);
            goto done;
        }
    }
    pass.histogram = true;
    INLAY_TRY(run_pass(&pass, 0.25, 0.4, progress, user));
    for (uint32_t k = 0; k < count; k++)
        for (int64_t i = 0; i < out->ranges[k].channels; i++)
            out->ranges[k].means[i] /= out->ranges[k].per_channel > 0 ? (double)out->ranges[k].per_channel : 1;
done:
    subject_close(&pass.subject);
    inlay_options_destroy(tapped);
    return status;
}

void calibration_end(struct calibration *calibration)
{
    arena_deinit(&calibration->arena);
    *calibration = (struct calibration){ 0 };
}

static float bin_edge(const tensor_range *range, int bin)
{
    return (float)(range->low + ((double)range->high - range->low) * bin / CALIBRATE_BINS);
}

static void with_zero(float *low, float *high)
{
    *low = *low > 0 ? 0 : *low;
    *high = *high < 0 ? 0 : *high;
}

void calibrate_minmax(const tensor_range *range, float *low, float *high)
{
    *low = range->low <= range->high ? range->low : 0;
    *high = range->low <= range->high ? range->high : 0;
    with_zero(low, high);
}

void calibrate_percentile(const tensor_range *range, double percentile, float *low, float *high)
{
    const double outside = (1 - percentile) / 2 * (double)range->count;
    int from = 0, to = CALIBRATE_BINS;
    double below = 0, above = 0;

    INLAY_CHECK(percentile > 0 && percentile <= 1 && range->bins != NULL);
    while (from + 1 < to && below + (double)range->bins[from] <= outside)
        below += (double)range->bins[from++];
    while (to - 1 > from && above + (double)range->bins[to - 1] <= outside)
        above += (double)range->bins[--to];
    calibrate_minmax(range, low, high);
    if (range->low < range->high) {
        *low = bin_edge(range, from);
        *high = bin_edge(range, to);
        with_zero(low, high);
    }
}

/* The sum of squared errors if all elements are clipped to low .. high and rounded to `levels` steps. */
static double square_error(const tensor_range *range, float low, float high, int levels)
{
    const double step = ((double)high - low) / levels;
    double sum = 0;

    for (int i = 0; i < CALIBRATE_BINS; i++) {
        const double center = ((double)bin_edge(range, i) + (double)bin_edge(range, i + 1)) / 2;
        const double outside = center < low ? low - center : center > high ? center - high : 0;

        if (range->bins[i] > 0)
            sum += (double)range->bins[i] * (outside > 0 ? outside * outside : step * step / 12);
    }
    return sum;
}

/* Shrinks the range towards zero: both ends together, and each end alone. */
void calibrate_mse(const tensor_range *range, float *low, float *high)
{
    enum { STEPS = 40 };
    double least = INFINITY;
    float bottom, top;

    calibrate_minmax(range, &bottom, &top);
    *low = bottom;
    *high = top;
    for (int i = 0; i < STEPS && range->low < range->high; i++)
        for (int k = 0; k < 3; k++) {
            const float share = 1 - (float)i / (STEPS + 1);
            const float low_candidate = k == 1 ? bottom : bottom * share, high_candidate = k == 2 ? top : top * share;
            const double error = square_error(range, low_candidate, high_candidate, 255);

            if (error < least) {
                least = error;
                *low = low_candidate;
                *high = high_candidate;
            }
        }
}

/* The divergence of the histogram, clipped to bins from .. to, from its version with 255 steps. The bin of zero is
 * excluded: zeros, which Relu often produces, are exact with any step. */
static double divergence(const tensor_range *range, int from, int to, int zero)
{
    enum { STEPS = 255 };
    const int width = to - from;
    double all = 0, sum = 0, outside[2] = { 0, 0 };

    for (int i = 0; i < CALIBRATE_BINS; i++) {
        outside[0] += i < from ? (double)range->bins[i] : 0;
        outside[1] += i >= to ? (double)range->bins[i] : 0;
        all += (double)range->bins[i];
    }
    for (int step = 0; step < STEPS; step++) {
        const int begin = from + width * step / STEPS, end = from + width * (step + 1) / STEPS;
        double inside = 0, filled = 0;

        for (int i = begin; i < end; i++) {
            inside += i != zero ? (double)range->bins[i] : 0;
            filled += i != zero && range->bins[i] > 0;
        }
        for (int i = begin; i < end; i++) {
            const double probability =
                (double)range->bins[i] + (i == from ? outside[0] : 0) + (i == to - 1 ? outside[1] : 0);
            const double approximation = range->bins[i] > 0 ? inside / filled : 0;

            if (probability > 0 && i != zero)
                sum += probability / all * log(probability / (approximation > 0 ? approximation : 1e-3));
        }
    }
    return sum;
}

static int within(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

void calibrate_entropy(const tensor_range *range, float *low, float *high)
{
    enum { LEAST = 256, STEP = 16 };
    const double place =
        range->low < range->high ? -range->low / ((double)range->high - range->low) * CALIBRATE_BINS : 0;
    const int zero = (int)fmin(fmax(place, -CALIBRATE_BINS), 2 * CALIBRATE_BINS); /* may be far outside of the bins */
    double least = INFINITY;
    int best[2] = { 0, CALIBRATE_BINS };

    calibrate_minmax(range, low, high);
    if (!(range->low < range->high))
        return;
    for (int half = LEAST / 2; half <= CALIBRATE_BINS; half += STEP) {
        const int from = within(zero - half, 0, CALIBRATE_BINS - LEAST);
        const int to = within(zero + half, LEAST, CALIBRATE_BINS);
        const double distance = to - from >= LEAST ? divergence(range, from, to, zero) : INFINITY;

        if (distance < least) {
            least = distance;
            best[0] = from;
            best[1] = to;
        }
    }
    *low = bin_edge(range, best[0]);
    *high = bin_edge(range, best[1]);
    with_zero(low, high);
}
