#include "shared/agree.h"
#include "inlay/check.h"
#include "base/checked.h"
#include "base/element.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 1024 }; /* elements converted to double at once */

const char *agree_metric_name(agree_metric metric)
{
    static const char *const names[] = { "auto",
#define AGREE_NAME(name, text) #name,
                                         AGREE_METRICS(AGREE_NAME)
#undef AGREE_NAME
    };
    return metric < AGREE_METRIC_COUNT ? names[metric] : "custom";
}

agree_metric agree_metric_find(const char *name)
{
    agree_metric metric = AGREE_auto;

    while (metric < AGREE_METRIC_COUNT && strcmp(agree_metric_name(metric), name) != 0)
        metric++;
    return metric;
}

static void read_doubles(const inlay_tensor_view *view, int64_t from, int64_t count, double *out)
{
    if (view->dtype == INLAY_FLOAT) {
        for (int64_t i = 0; i < count; i++) {
            float element;

            memcpy(&element, (const char *)view->data + (size_t)(from + i) * sizeof element, sizeof element);
            out[i] = element;
        }
        return;
    }
    for (int64_t i = 0; i < count; i++)
        if (!element_number(view->dtype, view->data, from + i, &out[i], NULL))
            out[i] = NAN;
}

/* Sums of one sample. */
struct sums {
    double error, want, got, dot; /* squares, product */
    double low, high;             /* of want */
    uint64_t both, either;        /* above 0.5 */
    uint64_t same;                /* equal elements */
};

static void add_element(struct agree *agree, struct sums *sums, double want, double got)
{
    double error;

    sums->same += want == got || (isnan(want) && isnan(got));
    sums->both += want > 0.5 && got > 0.5;
    sums->either += want > 0.5 || got > 0.5;
    if (!isfinite(want) || !isfinite(got)) {
        const bool same = (isnan(want) && isnan(got)) || want == got;

        agree->broken += !same;
        return;
    }
    error = fabs(got - want);
    agree->max_error = error > agree->max_error ? error : agree->max_error;
    sums->error += error * error;
    sums->want += want * want;
    sums->got += got * got;
    sums->dot += want * got;
    sums->low = want < sums->low ? want : sums->low;
    sums->high = want > sums->high ? want : sums->high;
}

/* Index of the largest element; -1: an element is NaN. */
static int64_t largest(const double *row, int64_t count)
{
    int64_t best = 0;

    for (int64_t i = 0; i < count; i++) {
        if (isnan(row[i]))
            return -1;
        best = row[i] > row[best] ? i : best;
    }
    return best;
}

/* Applies softmax to a row unless it already holds probabilities. */
static void to_probabilities(double *row, int64_t count)
{
    double sum = 0, top = row[largest(row, count) < 0 ? 0 : largest(row, count)];
    bool no_negative = true;

    for (int64_t i = 0; i < count; i++) {
        no_negative = no_negative && row[i] >= 0;
        sum += row[i];
    }
    if (no_negative && fabs(sum - 1) < 1e-2)
        return;
    sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += row[i] = exp(row[i] - top);
    for (int64_t i = 0; i < count; i++)
        row[i] /= sum;
}

/* The Kullback-Leibler divergence of two rows. Elements of want that are at most `least` are skipped. */
static double divergence(double *want, double *got, int64_t count, double least)
{
    double sum = 0;

    to_probabilities(want, count);
    to_probabilities(got, count);
    for (int64_t i = 0; i < count; i++)
        sum += want[i] > least ? want[i] * log(want[i] / (got[i] > 1e-30 ? got[i] : 1e-30)) : 0;
    return sum;
}

/* Results of the rows of one sample: equal largest elements, divergence, equal text. */
typedef struct row_results {
    uint64_t rows, same;
    double kl;
    bool same_text;
} row_results;

/* Hashes symbols as a CTC decoder reads them: repeats and symbol 0 are dropped. Only equality is needed, so no
 * alignment is computed. */
typedef struct text_reader {
    int64_t last;
    uint64_t hash, length;
} text_reader;

static void read_symbol(text_reader *reader, int64_t symbol)
{
    if (symbol != reader->last && symbol != 0) {
        reader->hash = (reader->hash ^ (uint64_t)symbol) * UINT64_C(0x100000001b3) + 1;
        reader->length++;
    }
    reader->last = symbol;
}

/* Probability of a text under CTC: the sum over all ways to spread its symbols over the rows, with blanks between. */
struct ctc {
    double *alpha; /* [2 * length + 1] states: blank, first symbol, blank, second symbol ...; normalised to sum 1 */
    double log;    /* sum of the logarithms of the normalisation factors */
};

/* Adds one row of probabilities; `first` marks the first row. */
static void ctc_step(struct ctc *ctc, const int64_t *text, int64_t length, const double *row, bool first)
{
    double sum = 0;

    for (int64_t state = 2 * length; state >= 0; state--) { /* descending: reads values of the row before */
        const double probability = row[state % 2 == 0 ? 0 : text[state / 2]];
        double from = first ? state <= 1 : ctc->alpha[state];

        if (!first && state > 0)
            from += ctc->alpha[state - 1];
        if (!first && state > 2 && state % 2 == 1 && text[state / 2] != text[state / 2 - 1])
            from += ctc->alpha[state - 2];
        ctc->alpha[state] = from * probability;
        sum += ctc->alpha[state];
    }
    ctc->log += sum > 0 ? log(sum) : -1e3;
    for (int64_t state = 0; state <= 2 * length; state++)
        ctc->alpha[state] = sum > 0 ? ctc->alpha[state] / sum : 1 / (2 * (double)length + 1);
}

static double ctc_log(const struct ctc *ctc, int64_t length)
{
    const double end = ctc->alpha[2 * length] + (length > 0 ? ctc->alpha[2 * length - 1] : 0);

    return ctc->log + (end > 0 ? log(end) : -1e3);
}

/* Squared difference of the log probabilities of want's text, mapped to 0 .. 1. Unlike the divergence of rows it does
 * not depend on the row in which a symbol appears. -1: out of memory. */
static double text_distance(const inlay_tensor_view *want, const inlay_tensor_view *got, int64_t rows, int64_t width)
{
    double *row = malloc((size_t)width * sizeof *row), difference;
    int64_t *text = malloc(((size_t)rows + 1) * sizeof *text), length = 0, last = 0;
    struct ctc ctc[2] = { { malloc((2 * (size_t)rows + 1) * sizeof(double)), 0 },
                          { malloc((2 * (size_t)rows + 1) * sizeof(double)), 0 } };
    const bool good = row != NULL && text != NULL && ctc[0].alpha != NULL && ctc[1].alpha != NULL;

    for (int64_t r = 0; good && r < rows; r++) {
        read_doubles(want, r * width, width, row);
        text[length] = largest(row, width);
        if (text[length] > 0 && text[length] != last)
            last = text[length++];
        else
            last = text[length];
    }
    for (int64_t r = 0; good && r < rows; r++)
        for (int k = 0; k < 2; k++) {
            read_doubles(k == 0 ? want : got, r * width, width, row);
            to_probabilities(row, width);
            ctc_step(&ctc[k], text, length, row, r == 0);
        }
    difference = good ? ctc_log(&ctc[0], length) - ctc_log(&ctc[1], length) : 0;
    free(row);
    free(text);
    free(ctc[0].alpha);
    free(ctc[1].alpha);
    return good ? isfinite(difference) ? difference * difference / (1 + difference * difference) : 1 : -1;
}

/* Does the metric use the divergence of rows of probabilities? */
static bool diverges(agree_metric metric)
{
    return metric == AGREE_kl || metric == AGREE_top1 || metric == AGREE_text;
}

static bool add_rows(const struct agree *agree, const inlay_tensor_view *want, const inlay_tensor_view *got,
                     int64_t count, row_results *out)
{
    const int64_t width = want->rank == 0 ? 1 : want->dims[want->rank - 1];
    text_reader texts[2] = { { .last = 0 }, { .last = 0 } };
    double *rows;
    bool good;

    *out = (row_results){ .same_text = true };
    if (width < 2 || count == 0)
        return true;
    rows = malloc((size_t)width * 2 * sizeof *rows);
    good = rows != NULL;
    for (int64_t r = 0; good && r < count / width; r++) {
        int64_t best[2];

        read_doubles(want, r * width, width, rows);
        read_doubles(got, r * width, width, rows + width);
        best[0] = largest(rows, width);
        best[1] = largest(rows + width, width);
        out->rows++;
        out->same += best[0] == best[1];
        read_symbol(&texts[0], best[0]);
        read_symbol(&texts[1], best[1]);
        if (best[0] < 0 || best[1] < 0)
            out->kl += best[0] == best[1] ? 0 : INFINITY;
        else if (diverges(agree->metric) && agree->metric != AGREE_text)
            out->kl += divergence(rows, rows + width, width, agree->metric == AGREE_kl ? 0 : 1e-7);
    }
    if (good && agree->metric == AGREE_text) {
        out->kl = text_distance(want, got, count / width, width);
        good = out->kl >= 0;
    }
    out->same_text = texts[0].hash == texts[1].hash && texts[0].length == texts[1].length;
    free(rows);
    return good;
}

static double cosine_of(double dot, double want, double got)
{
    if (want == 0 || got == 0)
        return want == got ? 1 : 0;
    return dot / sqrt(want) / sqrt(got);
}

/* The relative error of a sample, at most 1; -1: unknown, because all elements of `want` are 0 and others of `got`. */
static double relative_of(const struct sums *sums)
{
    if (sums->want == 0)
        return sums->error == 0 ? 0 : -1;
    return sums->error < sums->want ? sqrt(sums->error / sums->want) : 1;
}

/* Does the metric say anything of the sample? */
static bool is_scored(agree_metric metric, const struct sums *sums, const row_results *row)
{
    switch (metric) {
    case AGREE_top1:
    case AGREE_kl:
    case AGREE_text:
        return row->rows > 0;
    case AGREE_iou:
        return sums->either > 0;
    default:
        return true;
    }
}

static void add_score(struct agree *agree, const struct sums *sums, const row_results *row, int64_t count)
{
    const double relative = relative_of(sums);
    double score = 0;

    if (relative >= 0) {
        agree->relative += relative;
        agree->relative_squares += relative * relative;
        agree->relative_samples++;
    }
    if (!is_scored(agree->metric, sums, row))
        return;
    switch (agree->metric) {
    case AGREE_top1:
        score = (double)row->same / (double)row->rows;
        break;
    case AGREE_kl:
        score = row->kl / (double)row->rows;
        break;
    case AGREE_psnr:
        score = sums->error == 0 ? 200 : 20 * log10(sums->high - sums->low) - 10 * log10(sums->error / (double)count);
        score = score > 200 ? 200 : score;
        break;
    case AGREE_iou:
        score = (double)sums->both / (double)sums->either;
        break;
    case AGREE_text:
        score = row->same_text;
        break;
    case AGREE_relative:
        score = 1 - fabs(relative);
        break;
    case AGREE_equal:
        score = (double)sums->same / (double)count;
        break;
    default:
        score = cosine_of(sums->dot, sums->want, sums->got);
        break;
    }
    if (isnan(score))
        score = agree->metric == AGREE_kl ? INFINITY : 0;
    agree->score += score;
    agree->score_squares += score * score;
    agree->scored++;
}

static bool same_shape(const inlay_tensor_view *a, const inlay_tensor_view *b)
{
    return a->rank == b->rank && (a->rank == 0 || memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0);
}

static inlay_status add_texts(struct agree *agree, const inlay_tensor_view *want, const inlay_tensor_view *got,
                              int64_t count, inlay_diag *diag)
{
    const inlay_str *first = want->data, *second = got->data;
    struct sums sums = { .same = 0 };

    if (want->dtype != got->dtype || agree->metric != AGREE_equal)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          want->dtype != got->dtype ? "only one of the two outputs has texts"
                                                    : "texts are compared by metric equal alone");
    for (int64_t i = 0; i < count; i++)
        sums.same += first[i].bytes == second[i].bytes && memcmp(first[i].data, second[i].data, first[i].bytes) == 0;
    agree->samples++;
    agree->elements += (uint64_t)count;
    agree->same += sums.same;
    if (count > 0)
        add_score(agree, &sums, &(row_results){ 0 }, count);
    return INLAY_OK;
}

/* Complex elements are compared as two floats each. */
static void split_complex(inlay_tensor_view *view, int64_t *count)
{
    if (view->dtype != INLAY_COMPLEX64 && view->dtype != INLAY_COMPLEX128)
        return;
    view->dtype = view->dtype == INLAY_COMPLEX64 ? INLAY_FLOAT : INLAY_DOUBLE;
    *count *= 2;
}

/* The number of equal elements: `same`, unless the numbers of the type are not all exact as doubles. */
static uint64_t same_bits(const inlay_tensor_view *want, const inlay_tensor_view *got, int64_t count, uint64_t same)
{
    const int64_t *first = want->data, *second = got->data;

    if (want->dtype != got->dtype || (want->dtype != INLAY_INT64 && want->dtype != INLAY_UINT64))
        return same;
    same = 0;
    for (int64_t i = 0; i < count; i++)
        same += first[i] == second[i];
    return same;
}

inlay_status agree_add(struct agree *agree, const inlay_tensor_view *want_view, const inlay_tensor_view *got_view,
                       inlay_diag *diag)
{
    inlay_tensor_view sides[2] = { *want_view, *got_view };
    const inlay_tensor_view *const want = &sides[0], *const got = &sides[1];
    struct sums sums = { .low = INFINITY, .high = -INFINITY };
    double want_values[BATCH], got_values[BATCH];
    uint64_t broken = agree->broken;
    int64_t count, other;
    row_results rows;

    INLAY_CHECK(agree->metric != AGREE_auto && agree->metric != AGREE_custom);
    if (!same_shape(want_view, got_view) || !dims_count(want_view->dims, want_view->rank, &count))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the two outputs have different shapes");
    if (want_view->dtype == INLAY_STRING || got_view->dtype == INLAY_STRING)
        return add_texts(agree, want_view, got_view, count, diag);
    other = count;
    split_complex(&sides[0], &count);
    split_complex(&sides[1], &other);
    if (count != other)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "only one of the two outputs is complex");
    for (int64_t i = 0; i < count; i += BATCH) {
        const int64_t batch = count - i < BATCH ? count - i : BATCH;

        read_doubles(want, i, batch, want_values);
        read_doubles(got, i, batch, got_values);
        for (int64_t k = 0; k < batch; k++)
            add_element(agree, &sums, want_values[k], got_values[k]);
    }
    if (!add_rows(agree, want, got, count, &rows))
        return no_memory(diag, "to compare rows");
    sums.same = same_bits(want, got, count, sums.same);
    agree->samples++;
    agree->same += sums.same;
    agree->elements += (uint64_t)count;
    agree->error_squares += sums.error;
    agree->want_squares += sums.want;
    agree->got_squares += sums.got;
    agree->dot += sums.dot;
    agree->rows += rows.rows;
    agree->rows_same += rows.same;
    agree->divergence += rows.kl;
    if (agree->broken > broken) /* a mismatch of finite and non-finite elements counts as total disagreement */
        sums = (struct sums){ .error = 1, .want = 1, .got = 1, .either = 1, .same = sums.same };
    if (count > 0)
        add_score(agree, &sums, &rows, count);
    return INLAY_OK;
}

void agree_add_score(struct agree *agree, double score)
{
    INLAY_CHECK(agree->metric == AGREE_custom);
    agree->samples++;
    agree->score += score;
    agree->score_squares += score * score;
    agree->scored++;
}

void agree_merge(struct agree *into, const struct agree *from)
{
    INLAY_CHECK(into->metric == from->metric);
    into->samples += from->samples;
    into->elements += from->elements;
    into->broken += from->broken;
    into->max_error = from->max_error > into->max_error ? from->max_error : into->max_error;
    into->error_squares += from->error_squares;
    into->want_squares += from->want_squares;
    into->dot += from->dot;
    into->got_squares += from->got_squares;
    into->rows += from->rows;
    into->rows_same += from->rows_same;
    into->same += from->same;
    into->relative += from->relative;
    into->relative_squares += from->relative_squares;
    into->relative_samples += from->relative_samples;
    into->divergence += from->divergence;
    into->score += from->score;
    into->score_squares += from->score_squares;
    into->scored += from->scored;
}

/* Wilson's interval of a share; z is the half width in standard deviations. */
static agree_score wilson(double share, double samples, double z)
{
    const double denominator = 1 + z * z / samples, middle = (share + z * z / (2 * samples)) / denominator;
    const double half = z * sqrt(share * (1 - share) / samples + z * z / (4 * samples * samples)) / denominator;

    return (agree_score){ share, middle - half > 0 ? middle - half : 0, middle + half < 1 ? middle + half : 1 };
}

static agree_score share(uint64_t same, uint64_t all)
{
    return wilson((double)same / (double)all, (double)all, 1.959964);
}

double agree_share_bound(double share, uint64_t samples)
{
    return wilson(share, (double)samples, 1.281552).low;
}

agree_metric agree_used(const struct agree *agree)
{
    return agree->scored == 0 && agree->elements > 0 ? AGREE_relative : agree->metric;
}

bool agree_any(const struct agree *agree)
{
    return agree->scored > 0 || agree->elements > 0;
}

/* Half of the 95 % interval of a mean. */
static double half_interval(double sum, double squares, double samples)
{
    const double mean = sum / samples, spread = samples > 1 ? squares / samples - mean * mean : 0;

    return spread > 0 ? 1.959964 * sqrt(spread / (samples - 1)) : 0;
}

static agree_score relative_score(const struct agree *agree)
{
    const double value = fmax(1 - agree_relative_error(agree), 0);
    const double half = agree->relative_samples == 0
                            ? 0
                            : half_interval(agree->relative, agree->relative_squares, (double)agree->relative_samples);

    return (agree_score){ value, fmax(value - half, 0), fmin(value + half, 1) };
}

agree_score agree_result(const struct agree *agree)
{
    const double samples = (double)agree->scored;
    double mean, spread;

    if (!agree_any(agree))
        return (agree_score){ 0, 0, 0 };
    if (agree_used(agree) == AGREE_relative)
        return relative_score(agree);
    if (agree->metric == AGREE_equal)
        return share(agree->same, agree->elements);
    if (agree->metric == AGREE_top1 && agree->rows > 0)
        return share(agree->rows_same, agree->rows);
    mean = agree->score / samples;
    if (agree->metric == AGREE_text || agree->metric == AGREE_top1)
        return share((uint64_t)llrint(agree->score), agree->scored);
    spread = half_interval(agree->score, agree->score_squares, samples);
    if (agree->metric == AGREE_psnr || agree->metric == AGREE_kl || agree->metric == AGREE_custom)
        return (agree_score){ mean, mean - spread, mean + spread };
    return (agree_score){ mean, mean - spread > -1 ? mean - spread : -1, mean + spread < 1 ? mean + spread : 1 };
}

bool agree_holds(agree_metric metric, double value, double bound)
{
    return metric == AGREE_kl ? value <= bound : value >= bound;
}

double agree_cosine(const struct agree *agree)
{
    return cosine_of(agree->dot, agree->want_squares, agree->got_squares);
}

double agree_rms(const struct agree *agree)
{
    return agree->elements == 0 ? 0 : sqrt(agree->error_squares / (double)agree->elements);
}

double agree_distance(const struct agree *agree)
{
    if (!diverges(agree->metric) || agree->rows == 0)
        return agree_relative(agree);
    return sqrt(agree->divergence > 0
                    ? agree->divergence / (double)(agree->metric == AGREE_text ? agree->samples : agree->rows)
                    : 0);
}

double agree_relative(const struct agree *agree)
{
    if (agree->error_squares == 0 && agree->broken == 0)
        return 0;
    return agree->want_squares == 0 || agree->broken > 0 ? INFINITY : sqrt(agree->error_squares / agree->want_squares);
}

double agree_relative_error(const struct agree *agree)
{
    const double mean = agree->relative_samples == 0 ? 0 : agree->relative / (double)agree->relative_samples;

    return fmax(agree_relative(agree), mean);
}
