#include "quantize/agree.h"
#include "base/checked.h"
#include "base/element.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 1024 };

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

/* ------------------------------------------------------------------ which metric */

static const graph_node *maker(const struct graph *graph, uint32_t value)
{
    const uint32_t node = graph->values[value].info.producer;

    return node == INLAY_NONE ? NULL : graph->nodes[node];
}

/* Operators that leave the numbers as they are, or add to each column the same. */
static bool looks_through(const char *op)
{
    static const char *const names[] = { "Reshape", "Transpose", "Squeeze", "Unsqueeze",        "Identity",
                                         "Cast",    "Flatten",   "Add",     "DequantizeLinear", "QuantizeLinear" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(op, names[i]) == 0)
            return true;
    return false;
}

agree_metric agree_metric_of(const struct graph *graph, uint32_t output)
{
    const inlay_value_info *info = &graph->values[graph->outputs[output]].info;
    const graph_node *node = maker(graph, graph->outputs[output]);

    if (!element_is_float(info->dtype))
        return AGREE_top1;
    for (int depth = 0; node != NULL && depth < 8; depth++) {
        const char *op = node->info.op_type.data;

        if (strcmp(op, "Softmax") == 0 || strcmp(op, "LogSoftmax") == 0)
            return AGREE_top1;
        if (strcmp(op, "Sigmoid") == 0 || strcmp(op, "HardSigmoid") == 0)
            return AGREE_iou;
        if (strcmp(op, "Gemm") == 0 || strstr(op, "MatMul") != NULL)
            return AGREE_top1;
        if (!looks_through(op) || node->info.input_count == 0 || node->info.inputs[0] == INLAY_NONE)
            break;
        node = maker(graph, node->info.inputs[0]);
    }
    return AGREE_cosine;
}

/* ------------------------------------------------------------------ adding a sample */

static void fetch(const inlay_tensor_view *view, int64_t from, int64_t count, double *out)
{
    if (view->dtype == INLAY_FLOAT) {
        for (int64_t i = 0; i < count; i++) {
            float f;

            memcpy(&f, (const char *)view->data + (size_t)(from + i) * sizeof f, sizeof f);
            out[i] = f;
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
};

static void add_element(struct agree *agree, struct sums *sums, double want, double got)
{
    double error;

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

/* The place of the largest; -1: one is NaN. */
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

/* Makes probabilities of a row that is none. */
static void to_probabilities(double *row, int64_t count)
{
    double sum = 0, top = row[largest(row, count) < 0 ? 0 : largest(row, count)];
    bool are = true;

    for (int64_t i = 0; i < count; i++) {
        are = are && row[i] >= 0;
        sum += row[i];
    }
    if (are && fabs(sum - 1) < 1e-2)
        return;
    sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += row[i] = exp(row[i] - top);
    for (int64_t i = 0; i < count; i++)
        row[i] /= sum;
}

/* least: elements of want that are no larger are left out. */
static double divergence(double *want, double *got, int64_t count, double least)
{
    double sum = 0;

    to_probabilities(want, count);
    to_probabilities(got, count);
    for (int64_t i = 0; i < count; i++)
        sum += want[i] > least ? want[i] * log(want[i] / (got[i] > 1e-30 ? got[i] : 1e-30)) : 0;
    return sum;
}

/* What rows tell: largest elements, divergence, the text. */
typedef struct by_row {
    uint64_t rows, same;
    double kl;
    bool same_text;
} by_row;

/* Symbols as a decoder of CTC reads them: repeats and 0 are none. Equal sequences need no alignment to be compared. */
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

/* ------------------------------------------------------------------ texts */

/* How probable a text is, as CTC counts it: over all ways to spread its symbols over the rows, blanks between them. */
struct ctc {
    double *alpha; /* [2 * length + 1] of the states blank, first symbol, blank, second symbol ..., of sum 1 */
    double log;    /* of what the sums were before */
};

/* One row of probabilities more; first: it is the first one. */
static void ctc_step(struct ctc *ctc, const int64_t *text, int64_t length, const double *row, bool first)
{
    double sum = 0;

    for (int64_t s = 2 * length; s >= 0; s--) { /* from behind: what is read is of the row before */
        const double p = row[s % 2 == 0 ? 0 : text[s / 2]];
        double from = first ? s <= 1 : ctc->alpha[s];

        if (!first && s > 0)
            from += ctc->alpha[s - 1];
        if (!first && s > 2 && s % 2 == 1 && text[s / 2] != text[s / 2 - 1])
            from += ctc->alpha[s - 2];
        ctc->alpha[s] = from * p;
        sum += ctc->alpha[s];
    }
    ctc->log += sum > 0 ? log(sum) : -1e3;
    for (int64_t s = 0; s <= 2 * length; s++)
        ctc->alpha[s] = sum > 0 ? ctc->alpha[s] / sum : 1 / (2 * (double)length + 1);
}

static double ctc_log(const struct ctc *ctc, int64_t length)
{
    const double end = ctc->alpha[2 * length] + (length > 0 ? ctc->alpha[2 * length - 1] : 0);

    return ctc->log + (end > 0 ? log(end) : -1e3);
}

/* By how much the probability of the text that want reads differs: the square of the difference of logarithms, from 0
 * to 1. Unlike the divergence of rows it is not about in which row a symbol stands. -1: no memory. */
static double text_off(const inlay_tensor_view *want, const inlay_tensor_view *got, int64_t rows, int64_t width)
{
    double *row = malloc((size_t)width * sizeof *row), off;
    int64_t *text = malloc(((size_t)rows + 1) * sizeof *text), length = 0, last = 0;
    struct ctc ctc[2] = { { malloc((2 * (size_t)rows + 1) * sizeof(double)), 0 },
                          { malloc((2 * (size_t)rows + 1) * sizeof(double)), 0 } };
    const bool good = row != NULL && text != NULL && ctc[0].alpha != NULL && ctc[1].alpha != NULL;

    for (int64_t r = 0; good && r < rows; r++) {
        fetch(want, r * width, width, row);
        text[length] = largest(row, width);
        if (text[length] > 0 && text[length] != last)
            last = text[length++];
        else
            last = text[length];
    }
    for (int64_t r = 0; good && r < rows; r++)
        for (int k = 0; k < 2; k++) {
            fetch(k == 0 ? want : got, r * width, width, row);
            to_probabilities(row, width);
            ctc_step(&ctc[k], text, length, row, r == 0);
        }
    off = good ? ctc_log(&ctc[0], length) - ctc_log(&ctc[1], length) : 0;
    free(row);
    free(text);
    free(ctc[0].alpha);
    free(ctc[1].alpha);
    return good ? isfinite(off) ? off * off / (1 + off * off) : 1 : -1;
}

/* ------------------------------------------------------------------ rows */

/* Is it about rows of probabilities? */
static bool diverges(agree_metric metric)
{
    return metric == AGREE_kl || metric == AGREE_top1 || metric == AGREE_text;
}

static bool add_rows(const struct agree *agree, const inlay_tensor_view *want, const inlay_tensor_view *got,
                     int64_t count, by_row *out)
{
    const int64_t width = want->rank == 0 ? 1 : want->dims[want->rank - 1];
    text_reader texts[2] = { { .last = 0 }, { .last = 0 } };
    double *rows;
    bool good;

    *out = (by_row){ .same_text = true };
    if (width < 2 || count == 0)
        return true;
    rows = malloc((size_t)width * 2 * sizeof *rows);
    good = rows != NULL;
    for (int64_t r = 0; good && r < count / width; r++) {
        int64_t best[2];

        fetch(want, r * width, width, rows);
        fetch(got, r * width, width, rows + width);
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
        out->kl = text_off(want, got, count / width, width);
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

static void add_score(struct agree *agree, const struct sums *sums, const by_row *row, int64_t count)
{
    double score = 0;

    switch (agree->metric) {
    case AGREE_top1:
        if (row->rows == 0) /* no rows: equal within half a step of an integer, or on one side of 0.5 */
            score = sums->either == sums->both;
        else
            score = (double)row->same / (double)row->rows;
        break;
    case AGREE_kl:
        score = row->rows == 0 ? 0 : row->kl / (double)row->rows;
        break;
    case AGREE_psnr:
        score = sums->error == 0 ? 200 : 20 * log10(sums->high - sums->low) - 10 * log10(sums->error / (double)count);
        score = score > 200 ? 200 : score;
        break;
    case AGREE_iou:
        score = sums->either == 0 ? 1 : (double)sums->both / (double)sums->either;
        break;
    case AGREE_text:
        score = row->same_text;
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

inlay_status agree_add(struct agree *agree, const inlay_tensor_view *want, const inlay_tensor_view *got,
                       inlay_diag *diag)
{
    struct sums sums = { .low = INFINITY, .high = -INFINITY };
    double x[BATCH], y[BATCH];
    uint64_t broken = agree->broken;
    int64_t count;
    by_row rows;

    if (want->dtype == INLAY_STRING || got->dtype == INLAY_STRING)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "strings have no error; use inlay run --expect");
    if (!same_shape(want, got) || !dims_count(want->dims, want->rank, &count))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the two have different shapes");
    for (int64_t i = 0; i < count; i += BATCH) {
        const int64_t n = count - i < BATCH ? count - i : BATCH;

        fetch(want, i, n, x);
        fetch(got, i, n, y);
        for (int64_t k = 0; k < n; k++)
            add_element(agree, &sums, x[k], y[k]);
    }
    if (!add_rows(agree, want, got, count, &rows))
        return no_memory(diag, "to compare rows");
    agree->samples++;
    agree->elements += (uint64_t)count;
    agree->error_squares += sums.error;
    agree->want_squares += sums.want;
    agree->got_squares += sums.got;
    agree->dot += sums.dot;
    agree->rows += rows.rows;
    agree->rows_same += rows.same;
    agree->divergence += rows.kl;
    if (agree->broken > broken) /* a number where there is none is no agreement, whatever else holds */
        sums = (struct sums){ .error = 1, .want = 1, .got = 1, .either = 1 };
    add_score(agree, &sums, &rows, count > 0 ? count : 1);
    return INLAY_OK;
}

void agree_add_score(struct agree *agree, double score)
{
    agree->samples++;
    agree->score += score;
    agree->score_squares += score * score;
    agree->scored++;
}

/* ------------------------------------------------------------------ results */

/* Wilson's interval of a share; z: so many standard deviations to each side. */
static agree_score wilson(double p, double n, double z)
{
    const double d = 1 + z * z / n, middle = (p + z * z / (2 * n)) / d;
    const double half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / d;

    return (agree_score){ p, middle - half > 0 ? middle - half : 0, middle + half < 1 ? middle + half : 1 };
}

static agree_score share(uint64_t same, uint64_t all)
{
    return wilson((double)same / (double)all, (double)all, 1.959964);
}

double agree_share_bound(double share, uint64_t samples)
{
    return wilson(share, (double)samples, 1.281552).low;
}

agree_score agree_result(const struct agree *agree)
{
    const double n = (double)agree->scored;
    double mean, spread;

    if (agree->scored == 0)
        return (agree_score){ 0, 0, 0 };
    if (agree->metric == AGREE_top1 && agree->rows > 0)
        return share(agree->rows_same, agree->rows);
    mean = agree->score / n;
    if (agree->metric == AGREE_text || agree->metric == AGREE_top1)
        return share((uint64_t)llrint(agree->score), agree->scored);
    spread = n > 1 ? agree->score_squares / n - mean * mean : 0;
    spread = spread > 0 ? 1.959964 * sqrt(spread / (n - 1)) : 0;
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

double agree_off(const struct agree *agree)
{
    if (!diverges(agree->metric) || agree->rows == 0)
        return agree_relative(agree);
    return sqrt(agree->divergence > 0
                    ? agree->divergence / (double)(agree->metric == AGREE_text ? agree->samples : agree->rows)
                    : 0);
}

double agree_relative(const struct agree *agree)
{
    if (agree->error_squares == 0)
        return 0;
    return agree->want_squares == 0 ? INFINITY : sqrt(agree->error_squares / agree->want_squares);
}
