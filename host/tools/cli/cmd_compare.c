/* inlay compare: compares the outputs of two models over samples. */
#include "base/element.h"
#include "cli/cells.h"
#include "cli/cli.h"
#include "cli/custom_metric.h"
#include "cli/screen.h"
#include "cli/inputs.h"
#include "data/dataset.h"
#include "data/value.h"
#include "data/view.h"
#include "quantize/metric.h"
#include "session/session.h"
#include "inlay/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char doc[] =
    "Runs the models A and B on the same samples and reports how well B's outputs agree with A's: a score with its 95 "
    "% confidence interval, errors, cosine, top-1.\v"
    "Outputs are matched by name, or in order if no names match. A score is a fraction from 0 to 1, except for psnr "
    "(dB) and kl (nats). METRIC is one of\n"
    "  auto     top1 for Softmax and matrix multiplication if the samples have 30 rows or more, iou for Sigmoid, "
    "otherwise cosine\n"
    "  top1     fraction of rows along the last axis with the same largest element\n"
    "  cosine   cosine similarity, mean of the samples\n"
    "  kl       Kullback-Leibler divergence of the probabilities of a row\n"
    "  psnr     peak signal-to-noise ratio\n"
    "  iou      intersection over union of the elements above 0.5\n"
    "  text     fraction of samples with the same text after greedy CTC decoding\n"
    "  custom:COMMAND   the number printed by COMMAND, run with the folders of A's and B's outputs (.npy)\n\n"
    "--data DIR contains <input>.npy or .pb for each input, or such folders, or .npz files, each with one or several "
    "samples; FILE.npz has an array for each input, with one sample, or with several along an additional axis or the "
    "batch axis; each row of FILE.csv or FILE.csv:COLUMN,... is a sample; for a model with one input that takes "
    "pictures, "
    "sound or texts, each such file is one. Without --data, inputs are random, as for inlay run. If the bound is "
    "violated, a few samples are run "
    "again to find the first value that differs.\n\n"
    "Examples:\n"
    "  inlay compare model.onnx small.onnx --data samples/ --at-least 0.99\n"
    "  inlay compare model.onnx small.onnx --data samples.npz --layers\n"
    "  inlay compare a.onnx b.onnx --metric kl --at-least 0.01\n";

enum { RANDOM_SAMPLES = 8, LAYER_SAMPLES = 4 };

typedef struct compare_args {
    const char *models[2], *data, *command;
    agree_metric metric;
    uint32_t samples;
    double at_least; /* NAN: no bound */
    bool layers;
} compare_args;

/* An output of the first model and the matching one of the second. */
struct pair {
    const char *name;
    uint32_t at[2]; /* output index in each model */
    struct agree sum;
    bool is_layer;
    bool is_chosen;     /* the metric is the default one of the output, not that of --metric */
    char mismatch[160]; /* why a layer could not be compared */
};

struct comparison {
    const compare_args *args;
    cli_common *common;
    inlay_session *session[2];
    inlay_context *context[2];
    struct pair *pairs;
    uint32_t pair_count;
    struct agree custom;
    struct custom_metric command;
    uint32_t samples, sample_count; /* compared so far; all */
};

/* With fewer rows, the interval of a share of rows says little: 2 of 2 equal rows are a share from 0.34 to 1. */
enum { MIN_ROWS = 30 };

static error_t take_metric(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    compare_args *args = field;

    (void)option;
    args->metric = agree_metric_find(arg);
    if (strncmp(arg, "custom:", 7) == 0 && arg[7] != '\0')
        args->command = arg + 7;
    else if (args->metric == AGREE_METRIC_COUNT)
        cli_refuse(state, CLI_USAGE, "--metric %s: expected auto, top1, cosine, kl, psnr, iou, text or custom:COMMAND",
                   arg);
    return 0;
}

static const cli_option own_options[] = {
    { "data", "DIR|FILE", "Samples to run on: a folder, .npz or .csv file\v; pictures for a model that takes them",
      CLI_TEXT(compare_args, data) },
    { "samples", "N", "Use at most N samples (default: all; random ones: 8)",
      CLI_NUMBER(compare_args, samples, 1, 1e7) },
    { "metric", "METRIC", "Score of an output (default: auto)", CLI_CALL_ALL(take_metric) },
    { "at-least", "X", "Exit code 1 if the score of an output is below X (kl: above X)",
      CLI_NUMBER(compare_args, at_least, -1e300, 1e300) },
    { "layers", NULL, "Also compare all values that have the same name in both models", CLI_SET(compare_args, layers) },
    CLI_TWO_MODELS(compare_args, models),
    { 0 },
};

/* Both values are numeric tensors. Shapes are compared after a run. */
static bool is_comparable(const inlay_io_info *a, const inlay_io_info *b)
{
    return a->kind == INLAY_KIND_TENSOR && b->kind == INLAY_KIND_TENSOR && a->dtype != INLAY_STRING &&
           b->dtype != INLAY_STRING;
}

static inlay_status add_pair(struct comparison *comparison, uint32_t i, uint32_t own)
{
    inlay_io_info info = { .struct_size = sizeof info }, other = { .struct_size = sizeof other };
    const struct graph *graph = comparison->session[0]->model->main;
    struct pair *pair = &comparison->pairs[comparison->pair_count];
    inlay_status status;

    INLAY_TRY(inlay_session_output(comparison->session[0], i, &info));
    INLAY_CHECK(i < inlay_session_output_count(comparison->session[0]));
    *pair = (struct pair){ .name = info.name,
                           .at = { i, inlay_session_find_output(comparison->session[1], info.name) },
                           .is_layer = i >= own };
    if (pair->at[1] == INLAY_NONE)
        return INLAY_OK;
    INLAY_TRY(inlay_session_output(comparison->session[1], pair->at[1], &other));
    if (!is_comparable(&info, &other))
        return INLAY_OK;
    pair->sum.metric = pair->is_layer                                  ? AGREE_cosine
                       : comparison->args->metric < AGREE_METRIC_COUNT ? comparison->args->metric
                                                                       : AGREE_auto;
    pair->is_chosen = pair->sum.metric == AGREE_auto;
    if (pair->is_chosen)
        pair->sum.metric = agree_metric_of(graph, i);
    comparison->pair_count++;
done:
    return status;
}

static inlay_status find_pairs(struct comparison *comparison, uint32_t own, inlay_diag *diag)
{
    const uint32_t count = inlay_session_output_count(comparison->session[0]);
    inlay_status status = INLAY_OK;

    comparison->pairs = calloc((size_t)count + 1, sizeof *comparison->pairs);
    if (comparison->pairs == NULL)
        return no_memory(diag, "for %u outputs", count);
    for (uint32_t i = 0; i < count; i++)
        INLAY_TRY(add_pair(comparison, i, own));
    if (comparison->pair_count > 0 && !comparison->pairs[0].is_layer)
        return INLAY_OK;
    if (own != inlay_session_output_count(comparison->session[1]) && !comparison->args->layers)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "the models have no output of the same name, and different numbers of outputs; inlay inspect "
                          "lists them");
    for (uint32_t i = 0; i < own && !comparison->args->layers; i++) {
        inlay_io_info info = { .struct_size = sizeof info };

        INLAY_TRY(inlay_session_output(comparison->session[0], i, &info));
        comparison->pairs[comparison->pair_count++] =
            (struct pair){ .name = info.name,
                           .at = { i, i },
                           .sum.metric =
                               comparison->args->metric == AGREE_auto || comparison->args->metric >= AGREE_METRIC_COUNT
                                   ? agree_metric_of(comparison->session[0]->model->main, i)
                                   : comparison->args->metric,
                           .is_chosen = comparison->args->metric == AGREE_auto };
    }
    if (comparison->pair_count == 0)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the models have no value of the same name");
done:
    return status;
}

/* Before the first sample: replaces a share of rows by the cosine if all samples together have too few rows. */
static void fit_metric(const struct comparison *comparison, struct pair *pair, const inlay_tensor_view *view)
{
    int64_t rows = 1;

    for (uint32_t d = 0; d + 1 < view->rank; d++)
        rows *= view->dims[d] < MIN_ROWS ? view->dims[d] : MIN_ROWS;
    if (pair->is_chosen && pair->sum.samples == 0 && pair->sum.metric == AGREE_top1 && element_is_float(view->dtype) &&
        rows * comparison->sample_count < MIN_ROWS)
        pair->sum.metric = AGREE_cosine;
}

static inlay_status compare_outputs(struct comparison *comparison, inlay_diag *diag)
{
    for (uint32_t i = 0; i < comparison->pair_count; i++) {
        struct pair *pair = &comparison->pairs[i];
        const inlay_value *a = inlay_context_output(comparison->context[0], pair->at[0]);
        const inlay_value *b = inlay_context_output(comparison->context[1], pair->at[1]);
        inlay_diag why = INLAY_DIAG_INIT;
        inlay_tensor_view first, second;
        inlay_status status;

        if (a == NULL || b == NULL || !value_view(a, &first) || !value_view(b, &second))
            continue;
        fit_metric(comparison, pair, &first);
        status = agree_add(&pair->sum, &first, &second, &why);
        if (status == INLAY_SHAPE_MISMATCH && pair->is_layer) {
            (void)snprintf(pair->mismatch, sizeof pair->mismatch, "%.150s", why.text);
        } else if (status != INLAY_OK) {
            char shapes[2][192];

            return inlay_fail(diag, status, "output '%s': %s: %s and %s", pair->name, why.text,
                              value_type_text(a, shapes[0], sizeof shapes[0]),
                              value_type_text(b, shapes[1], sizeof shapes[1]));
        }
    }
    return INLAY_OK;
}

static inlay_status run_samples(struct comparison *comparison, const struct samples *set, inlay_diag *diag)
{
    inlay_value **values = NULL;
    inlay_status status = INLAY_OK;

    comparison->sample_count = set->count;
    for (uint32_t i = 0; i < set->count; i++) {
        char label[48];
        double score;

        (void)snprintf(label, sizeof label, "sample %u of %u", i + 1, set->count);
        if (cli_progress(NULL, (double)i / set->count, label) != 0)
            return inlay_fail(diag, INLAY_CANCELLED, "stopped at sample %u of %u", i + 1, set->count);
        INLAY_TRY(samples_load(set, i, &values, diag));
        for (int k = 0; k < 2; k++)
            INLAY_TRY(samples_run(set, values, comparison->session[k], comparison->context[k], diag));
        INLAY_TRY(compare_outputs(comparison, diag));
        if (comparison->args->command != NULL) {
            INLAY_TRY(custom_metric_score(&comparison->command, comparison->session[0], comparison->context[0],
                                          comparison->session[1], comparison->context[1], &score, diag));
            agree_add_score(&comparison->custom, score);
        }
        samples_release(set, values);
        values = NULL;
        comparison->samples++;
    }
done:
    samples_release(set, values);
    return status;
}

static inlay_status open_both(struct comparison *comparison, uint32_t *out_own, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (int k = 0; k < 2; k++) {
        INLAY_TRY(cli_open(comparison->common, comparison->args->models[k], &comparison->session[k], diag));
        *out_own = k == 0 ? inlay_session_output_count(comparison->session[0]) : *out_own;
    }
    for (int k = 0; comparison->args->layers && k < 2; k++) { /* open again, with all values as outputs */
        inlay_session_destroy(comparison->session[k]);
        comparison->session[k] = NULL;
    }
    if (comparison->args->layers)
        INLAY_TRY(inlay_options_set(comparison->common->options, "tap", "*", diag));
    for (int k = 0; k < 2; k++) {
        if (comparison->session[k] == NULL)
            INLAY_TRY(cli_open(comparison->common, comparison->args->models[k], &comparison->session[k], diag));
        INLAY_TRY(inlay_context_create(comparison->session[k], &comparison->context[k], diag));
    }
done:
    return status;
}

enum { NAME, METRIC, SCORE, LOW, HIGH, MAX_ERROR, RMS, RELATIVE, COSINE, TOP1, NOT_FINITE, UNLIKE, NOTE, COLUMNS };
static const table_column pair_columns[COLUMNS] = {
    [NAME] = { "output", "name", TABLE_NAME },
    [METRIC] = { "metric", "metric", TABLE_NAME },
    [SCORE] = { "score", "score", TABLE_NUMBER },
    [LOW] = { "from", "low", TABLE_NUMBER },
    [HIGH] = { "to", "high", TABLE_NUMBER },
    [MAX_ERROR] = { "max error", "max_error", TABLE_NUMBER },
    [RMS] = { "rms error", "rms_error", TABLE_NUMBER },
    [RELATIVE] = { "relative", "relative_error", TABLE_NUMBER },
    [COSINE] = { "cosine", "cosine", TABLE_NUMBER },
    [TOP1] = { "top-1", "top1", TABLE_NUMBER },
    [NOT_FINITE] = { NULL, "not_finite", TABLE_NUMBER },
    [UNLIKE] = { NULL, "unlike", TABLE_TEXT },
    [NOTE] = { "", NULL, TABLE_TEXT },
};

static void add_errors(struct table *table, const struct agree *agree)
{
    table_real(table, MAX_ERROR, agree->max_error, "%.3g", agree->max_error);
    table_real(table, RMS, agree_rms(agree), "%.3g", agree_rms(agree));
    table_real(table, RELATIVE, agree_relative(agree), "%.3g", agree_relative(agree));
    table_real(table, COSINE, agree_cosine(agree), "%.6f", agree_cosine(agree));
    if (agree->rows > 0)
        table_real(table, TOP1, (double)agree->rows_same / (double)agree->rows, "%.4f",
                   (double)agree->rows_same / (double)agree->rows);
}

static void add_row(struct table *table, const char *name, const struct agree *agree, const char *mismatch)
{
    const agree_score score = agree_result(agree);
    const bool is_command = agree->metric == AGREE_custom;
    const bool all_broken = agree->broken > 0 && agree->broken == agree->elements; /* there is no error to state */

    table_row(table);
    table_text(table, NAME, name);
    table_text(table, METRIC, agree_metric_name(agree->metric));
    table_real(table, SCORE, score.value, "%.6g", score.value);
    table_real(table, LOW, score.low, "%.5g", score.low);
    table_real(table, HIGH, score.high, "%.5g", score.high);
    if (!is_command && !all_broken)
        add_errors(table, agree);
    for (uint32_t i = MAX_ERROR; !is_command && all_broken && i <= COSINE; i++)
        table_say(table, i, "-");
    if (agree->broken > 0 && !is_command) {
        table_whole(table, NOT_FINITE, (int64_t)agree->broken);
        table_say(table, NOTE, "%llu elements are NaN or infinite in one model alone",
                  (unsigned long long)agree->broken);
    }
    if (mismatch[0] == '\0')
        return;
    table_text(table, UNLIKE, mismatch);
    table_say(table, NOTE, "%s", mismatch);
    for (uint32_t i = SCORE; agree->samples == 0 && i <= TOP1; i++)
        table_say(table, i, "-");
}

static void add_rows(struct table *table, const struct comparison *comparison, bool layers)
{
    if (!layers && comparison->args->command != NULL)
        add_row(table, comparison->args->command, &comparison->custom, "");
    for (uint32_t i = 0; i < comparison->pair_count; i++)
        if (comparison->pairs[i].is_layer == layers)
            add_row(table, comparison->pairs[i].name, &comparison->pairs[i].sum, comparison->pairs[i].mismatch);
}

/* Does every output, or the score of the command, satisfy the bound? */
static bool holds(const struct comparison *comparison)
{
    bool all = true;

    if (isnan(comparison->args->at_least))
        return true;
    if (comparison->args->command != NULL)
        return agree_holds(AGREE_custom, agree_result(&comparison->custom).value, comparison->args->at_least);
    for (uint32_t i = 0; i < comparison->pair_count; i++)
        if (!comparison->pairs[i].is_layer)
            all = all && agree_holds(comparison->pairs[i].sum.metric, agree_result(&comparison->pairs[i].sum).value,
                                     comparison->args->at_least);
    return all;
}

static int report_json(const struct comparison *comparison, struct table *outputs, struct table *layers, bool all_hold)
{
    json_t *all = json_pack("{s:s, s:s, s:i, s:o}", "a", comparison->args->models[0], "b", comparison->args->models[1],
                            "samples", (int)comparison->samples, "outputs", cells_json(outputs));

    if (comparison->args->layers)
        (void)json_object_set_new(all, "layers", cells_json(layers));
    if (!isnan(comparison->args->at_least)) {
        (void)json_object_set_new(all, "at_least", json_real(comparison->args->at_least));
        (void)json_object_set_new(all, "holds", json_boolean(all_hold));
    }
    return cli_print_json(comparison->common, all, all_hold ? CLI_OK : CLI_FAILED);
}

static int report(const struct comparison *comparison)
{
    table_column layer_columns[COLUMNS];
    struct table outputs = { .columns = pair_columns, .column_count = COLUMNS };
    struct table layers = { .columns = layer_columns, .column_count = COLUMNS };
    const bool all_hold = holds(comparison);

    memcpy(layer_columns, pair_columns, sizeof layer_columns);
    layer_columns[NAME].title = "layer";
    add_rows(&outputs, comparison, false);
    add_rows(&layers, comparison, true);
    if (comparison->common->json)
        return report_json(comparison, &outputs, &layers, all_hold);
    (void)printf("%u samples%s\n", comparison->samples, comparison->args->data == NULL ? ", random" : "");
    cells_print(&outputs);
    if (comparison->args->layers)
        (void)putchar('\n');
    cells_print(&layers);
    screen_flush();
    if (!isnan(comparison->args->at_least) && !all_hold)
        cli_say(comparison->common, "the score is not %s %g",
                comparison->args->metric == AGREE_kl ? "at most" : "at least", comparison->args->at_least);
    return all_hold ? CLI_OK : CLI_FAILED;
}

static void end_runs(struct comparison *comparison)
{
    for (int k = 0; k < 2; k++) {
        inlay_context_destroy(comparison->context[k]);
        inlay_session_destroy(comparison->session[k]);
    }
    free(comparison->pairs);
}

/* The first value, in execution order, whose relative error is at least half of the outputs' largest error or, if an
 * output is finite in only one model, the first such value; NULL: no common value is like that. *out_before: the
 * largest error of the values before it. */
static const struct pair *find_first_difference(const struct comparison *comparison, const struct comparison *layers,
                                                double *out_before)
{
    bool broken = false;
    double most = 0;

    for (uint32_t i = 0; i < comparison->pair_count; i++) {
        const struct agree *sum = &comparison->pairs[i].sum;

        broken |= !comparison->pairs[i].is_layer && sum->broken > 0;
        if (!comparison->pairs[i].is_layer && isfinite(agree_relative(sum)))
            most = fmax(most, agree_relative(sum));
    }
    *out_before = 0;
    for (uint32_t i = 0; i < layers->pair_count; i++) {
        const struct pair *pair = &layers->pairs[i];
        const double off = pair->sum.samples > 0 ? agree_relative(&pair->sum) : 0;

        if (pair->is_layer && pair->sum.samples > 0 && (broken ? pair->sum.broken > 0 : !(off < most / 2)))
            return pair;
        *out_before = pair->is_layer ? fmax(*out_before, off) : *out_before;
    }
    return NULL;
}

/* Runs a few samples with all values as outputs. A failure is ignored, because the scores have been printed already. */
static void report_first_difference(const struct comparison *comparison, const struct samples *set)
{
    compare_args args = *comparison->args;
    struct comparison layers = { .args = &args, .common = comparison->common };
    struct samples few = *set;
    uint32_t own = 0;
    const struct pair *pair;
    double before;

    args.layers = true;
    args.command = NULL;
    few.count = few.count > LAYER_SAMPLES ? LAYER_SAMPLES : few.count;
    if (open_both(&layers, &own, NULL) == INLAY_OK && find_pairs(&layers, own, NULL) == INLAY_OK &&
        run_samples(&layers, &few, NULL) == INLAY_OK &&
        (pair = find_first_difference(comparison, &layers, &before)) != NULL) {
        cli_progress_clear();
        cli_say(comparison->common,
                "the models first differ at value '%s': relative error %.3g there, at most %.3g before", pair->name,
                agree_relative(&pair->sum), before);
    }
    cli_progress_clear();
    end_runs(&layers);
}

int cmd_compare(int argc, char **argv)
{
    static const cli_verb verb = { "A B", doc, own_options, NULL };
    static compare_args args = { .at_least = NAN };
    cli_common common;
    struct comparison comparison = { .args = &args, .common = &common, .custom.metric = AGREE_custom };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct dataset *set = NULL;
    struct samples list;
    uint32_t own = 0;
    int code = CLI_OK;
    inlay_status status;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    comparison.command.command = args.command;
    INLAY_TRY(open_both(&comparison, &own, &diag));
    INLAY_TRY(find_pairs(&comparison, own, &diag));
    INLAY_TRY(dataset_open(args.data,
                           args.samples > 0    ? args.samples
                           : args.data == NULL ? RANDOM_SAMPLES
                                               : 0,
                           cli_caller(&common), comparison.session[0], &set, &diag));
    list = dataset_samples(set);
    INLAY_TRY(samples_fit(&list, comparison.session[1], &diag));
    INLAY_TRY(run_samples(&comparison, &list, &diag));
    cli_progress_clear();
    code = report(&comparison);
    if (code == CLI_FAILED && !common.json && !common.quiet && args.command == NULL)
        report_first_difference(&comparison, &list);
done:
    if (status != INLAY_OK)
        code = cli_fail(&common, &diag);
    custom_metric_end(&comparison.command);
    dataset_close(set);
    end_runs(&comparison);
    cli_common_deinit(&common);
    return code;
}
