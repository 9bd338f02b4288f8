#include "quantize/calibrate.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TRIM_EVERY = 8 };

/* One pass over the samples. */
struct pass {
    const struct samples *set;
    struct subject subject;
    uint32_t *outputs; /* [count] of the session; INLAY_NONE: the value is an input */
    uint32_t *inputs;  /* [count] of the samples */
    struct calibration *c;
    bool histogram;
    inlay_diag *diag;
};

/* ------------------------------------------------------------------ passes */

static void add_bounds(tensor_range *r, const float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float v;

        memcpy(&v, x + i, sizeof v);
        if (!isfinite(v)) {
            r->broken++;
            continue;
        }
        r->low = v < r->low ? v : r->low;
        r->high = v > r->high ? v : r->high;
    }
}

static void add_bins(tensor_range *r, const float *x, int64_t count)
{
    const float scale = r->high > r->low ? (float)CALIBRATE_BINS / (r->high - r->low) : 0;

    for (int64_t i = 0; i < count; i++) {
        int bin;

        if (!isfinite(x[i]))
            continue;
        bin = (int)((x[i] - r->low) * scale);
        r->bins[bin < 0 ? 0 : bin >= CALIBRATE_BINS ? CALIBRATE_BINS - 1 : bin]++;
        r->count++;
    }
}

/* Memory for the sums of channels, when the first sample shows how many there are. Others have another number: then
 * there is no mean. */
static void count_channels(struct calibration *c, tensor_range *r, int64_t channels)
{
    if (r->per_channel == 0 && r->means == NULL && channels > 0) {
        r->means = arena_array(&c->a, (size_t)channels, sizeof *r->means);
        r->channels = r->means != NULL ? channels : 0;
    }
    if (r->channels != channels) {
        r->axis = 0;
        r->channels = 0;
        r->means = NULL;
    }
}

static void add_channels(struct calibration *c, tensor_range *r, const inlay_tensor_view *view)
{
    const uint32_t axis = r->axis < 0 ? view->rank - 1 : (uint32_t)r->axis;
    const float *x = view->data;
    int64_t outer = 1, inner = 1;

    if (r->axis == 0 || axis >= view->rank)
        return;
    count_channels(c, r, view->dims[axis]);
    if (r->means == NULL)
        return;
    for (uint32_t d = 0; d < view->rank; d++) {
        outer *= d < axis ? view->dims[d] : 1;
        inner *= d > axis ? view->dims[d] : 1;
    }
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < r->channels; k++) {
            double sum = 0;

            for (int64_t i = 0; i < inner; i++)
                sum += isfinite(x[i]) ? (double)x[i] : 0;
            r->means[k] += sum;
            x += inner;
        }
    r->per_channel += (uint64_t)(outer * inner);
}

static inlay_status add_sample(struct pass *p, inlay_value *const *values)
{
    for (uint32_t k = 0; k < p->c->count; k++) {
        tensor_range *r = &p->c->ranges[k];
        const inlay_value *v = p->outputs[k] != INLAY_NONE ? inlay_context_output(p->subject.context, p->outputs[k])
                                                           : values[p->inputs[k]];
        inlay_tensor_view view;

        if (v == NULL)
            continue; /* an input that was left to its default */
        if (!judge_view(v, &view) || view.dtype != INLAY_FLOAT)
            return inlay_fail(p->diag, INLAY_INVALID_ARGUMENT, "value '%s' is no float tensor", r->name);
        if (p->histogram) {
            add_bins(r, view.data, inlay_value_count(v));
            add_channels(p->c, r, &view);
        } else {
            add_bounds(r, view.data, inlay_value_count(v));
        }
    }
    return INLAY_OK;
}

static inlay_status run_pass(struct pass *p, double from, double to, int (*progress)(void *, double, const char *),
                             void *user)
{
    inlay_value **values = NULL;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < p->set->count; i++) {
        if (progress != NULL && progress(user, from + (to - from) * i / p->set->count, "calibrating") != 0) {
            status = inlay_fail(p->diag, INLAY_CANCELLED, "stopped at sample %u of %u; nothing was written", i + 1,
                                p->set->count);
            goto done;
        }
        INLAY_TRY(samples_load(p->set, i, &values, p->diag));
        INLAY_TRY(samples_run(p->set, values, p->subject.session, p->subject.context, p->diag));
        INLAY_TRY(add_sample(p, values));
        samples_release(p->set, values);
        values = NULL;
        if (i % TRIM_EVERY == 0)
            subject_trim(&p->subject);
    }
done:
    samples_release(p->set, values);
    return status;
}

static inlay_status find_values(struct pass *p, const calibrate_value *values, uint32_t count)
{
    struct arena *a = &p->c->a;

    p->outputs = arena_array(a, (size_t)count + 1, sizeof *p->outputs);
    p->inputs = arena_array(a, (size_t)count + 1, sizeof *p->inputs);
    p->c->ranges = arena_array(a, (size_t)count + 1, sizeof *p->c->ranges);
    if (p->outputs == NULL || p->inputs == NULL || p->c->ranges == NULL)
        return no_memory(p->diag, "for %u ranges", count);
    p->c->count = count;
    for (uint32_t k = 0; k < count; k++) {
        p->c->ranges[k] = (tensor_range){
            .name = arena_string(a, values[k].name), .low = INFINITY, .high = -INFINITY, .axis = values[k].axis
        };
        p->outputs[k] = inlay_session_find_output(p->subject.session, values[k].name);
        p->inputs[k] = inlay_session_find_input(p->set->of, values[k].name);
        if (p->outputs[k] == INLAY_NONE && p->inputs[k] == INLAY_NONE)
            return inlay_fail(p->diag, INLAY_INTERNAL, "value '%s' cannot be watched", values[k].name);
    }
    return INLAY_OK;
}

/* Options with each name as a tap, but those of inputs and outputs, which are there anyway. */
static inlay_status tap_options(const inlay_options *options, const struct samples *set, const calibrate_value *values,
                                uint32_t count, inlay_options **out, inlay_diag *diag)
{
    inlay_status status = judge_options(options, NULL, NULL, out, diag);

    for (uint32_t k = 0; k < count && status == INLAY_OK; k++)
        if (inlay_session_find_input(set->of, values[k].name) == INLAY_NONE &&
            inlay_session_find_output(set->of, values[k].name) == INLAY_NONE)
            status = inlay_options_set(*out, "tap", values[k].name, diag);
    return status;
}

inlay_status calibrate(const char *path, const inlay_options *options, const struct samples *set,
                       const calibrate_value *values, uint32_t count,
                       int (*progress)(void *user, double fraction, const char *what), void *user,
                       struct calibration *out, inlay_diag *diag)
{
    struct pass p = { .set = set, .c = out, .diag = diag };
    inlay_options *tapped = NULL;
    inlay_status status;

    *out = (struct calibration){ 0 };
    INLAY_TRY(tap_options(options, set, values, count, &tapped, diag));
    INLAY_TRY(subject_open(path, tapped, &p.subject, diag));
    INLAY_TRY(find_values(&p, values, count));
    INLAY_TRY(run_pass(&p, 0.1, 0.25, progress, user));
    for (uint32_t k = 0; k < count; k++) {
        out->ranges[k].bins = arena_array(&out->a, CALIBRATE_BINS, sizeof *out->ranges[k].bins);
        if (out->ranges[k].bins == NULL) {
            status = no_memory(diag, "for %u histograms", count);
            goto done;
        }
    }
    p.histogram = true;
    INLAY_TRY(run_pass(&p, 0.25, 0.4, progress, user));
    for (uint32_t k = 0; k < count; k++)
        for (int64_t i = 0; i < out->ranges[k].channels; i++)
            out->ranges[k].means[i] /= out->ranges[k].per_channel > 0 ? (double)out->ranges[k].per_channel : 1;
done:
    subject_close(&p.subject);
    inlay_options_destroy(tapped);
    return status;
}

void calibration_end(struct calibration *c)
{
    arena_deinit(&c->a);
    *c = (struct calibration){ 0 };
}

/* ------------------------------------------------------------------ methods */

static float bin_edge(const tensor_range *r, int bin)
{
    return r->low + (r->high - r->low) * (float)bin / (float)CALIBRATE_BINS;
}

static void with_zero(float *low, float *high)
{
    *low = *low > 0 ? 0 : *low;
    *high = *high < 0 ? 0 : *high;
}

void calibrate_minmax(const tensor_range *r, float *low, float *high)
{
    *low = r->low <= r->high ? r->low : 0;
    *high = r->low <= r->high ? r->high : 0;
    with_zero(low, high);
}

void calibrate_percentile(const tensor_range *r, double percentile, float *low, float *high)
{
    const double outside = (1 - percentile) / 2 * (double)r->count;
    int from = 0, to = CALIBRATE_BINS;
    double below = 0, above = 0;

    while (from + 1 < to && below + (double)r->bins[from] <= outside)
        below += (double)r->bins[from++];
    while (to - 1 > from && above + (double)r->bins[to - 1] <= outside)
        above += (double)r->bins[--to];
    calibrate_minmax(r, low, high);
    if (r->low < r->high) {
        *low = bin_edge(r, from);
        *high = bin_edge(r, to);
        with_zero(low, high);
    }
}

/* The sum of squared errors when all bins are rounded to `levels` steps from low to high, or cut there. */
static double square_error(const tensor_range *r, float low, float high, int levels)
{
    const double step = (double)(high - low) / levels;
    double sum = 0;

    for (int i = 0; i < CALIBRATE_BINS; i++) {
        const double x = ((double)bin_edge(r, i) + (double)bin_edge(r, i + 1)) / 2;
        const double outside = x < low ? low - x : x > high ? x - high : 0;

        if (r->bins[i] > 0)
            sum += (double)r->bins[i] * (outside > 0 ? outside * outside : step * step / 12);
    }
    return sum;
}

/* Both ends are moved towards zero, together and each alone. */
void calibrate_mse(const tensor_range *r, float *low, float *high)
{
    enum { STEPS = 40 };
    double least = INFINITY;
    float bottom, top;

    calibrate_minmax(r, &bottom, &top);
    *low = bottom;
    *high = top;
    for (int i = 0; i < STEPS && r->low < r->high; i++)
        for (int k = 0; k < 3; k++) {
            const float share = 1 - (float)i / (STEPS + 1);
            const float l = k == 1 ? bottom : bottom * share, h = k == 2 ? top : top * share;
            const double error = square_error(r, l, h, 255);

            if (error < least) {
                least = error;
                *low = l;
                *high = h;
            }
        }
}

/* The divergence of the histogram, cut at the bins from and to, from itself in 255 steps. Zeros, of which Relu makes
 * many, are exact in any steps: their bin is left out. */
static double divergence(const tensor_range *r, int from, int to, int zero)
{
    enum { STEPS = 255 };
    const int width = to - from;
    double all = 0, sum = 0, outside[2] = { 0, 0 };

    for (int i = 0; i < CALIBRATE_BINS; i++) {
        outside[0] += i < from ? (double)r->bins[i] : 0;
        outside[1] += i >= to ? (double)r->bins[i] : 0;
        all += (double)r->bins[i];
    }
    for (int s = 0; s < STEPS; s++) {
        const int begin = from + width * s / STEPS, end = from + width * (s + 1) / STEPS;
        double inside = 0, filled = 0;

        for (int i = begin; i < end; i++) {
            inside += i != zero ? (double)r->bins[i] : 0;
            filled += i != zero && r->bins[i] > 0;
        }
        for (int i = begin; i < end; i++) {
            const double p = (double)r->bins[i] + (i == from ? outside[0] : 0) + (i == to - 1 ? outside[1] : 0);
            const double q = r->bins[i] > 0 ? inside / filled : 0;

            if (p > 0 && i != zero)
                sum += p / all * log(p / (q > 0 ? q : 1e-3));
        }
    }
    return sum;
}

static int within(int x, int low, int high)
{
    return x < low ? low : x > high ? high : x;
}

void calibrate_entropy(const tensor_range *r, float *low, float *high)
{
    enum { LEAST = 256, STEP = 16 };
    const int zero = r->low < r->high ? (int)((0 - r->low) / (r->high - r->low) * CALIBRATE_BINS) : 0;
    double least = INFINITY;
    int best[2] = { 0, CALIBRATE_BINS };

    calibrate_minmax(r, low, high);
    if (!(r->low < r->high))
        return;
    for (int half = LEAST / 2; half <= CALIBRATE_BINS; half += STEP) {
        const int from = within(zero - half, 0, CALIBRATE_BINS - LEAST);
        const int to = within(zero + half, LEAST, CALIBRATE_BINS);
        const double d = to - from >= LEAST ? divergence(r, from, to, zero) : INFINITY;

        if (d < least) {
            least = d;
            best[0] = from;
            best[1] = to;
        }
    }
    *low = bin_edge(r, best[0]);
    *high = bin_edge(r, best[1]);
    with_zero(low, high);
}
