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

static const char doc_compare[] =
    "Runs the models A and B on the same samples and reports how well B's outputs agree with A's: a score with its 95 "
    "% confidence interval, errors, cosine, top-1.\v"
    "Outputs are matched by name, or in order if no names match; one that only one of them has is a difference (exit "
    "code 1). Sequences and maps are compared item by item. A score is a fraction from 0 to 1, except for psnr "
    "(dB) and kl (nats). METRIC is one of\n"
    "  auto     equal for integers, booleans and texts; top1 if Softmax, ArgMax or TopK follows, or made the output; "
    "iou for Sigmoid; otherwise, and for rows of one element, relative. A score of 1 with a relative error above "
    "0.05 "
    "violates every bound\n"
    "  relative 1 - relative error: of all samples, or their mean if larger\n"
    "  equal    fraction of equal elements\n"
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
    uint32_t at[2]; /* output index in each model; INLAY_NONE: the model does not have it */
    struct agree sum;
    bool is_layer;
    bool is_chosen;     /* the metric is the output's default, not that of --metric */
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
    uint32_t samples; /* compared so far */
    uint32_t own[2];  /* numbers of the models' outputs, without values inside */
};

/* A score of 1 says little of outputs whose relative error is above this bound: classes may be equal by luck, and a
 * cosine hides a factor. */
#define MOST_RELATIVE 0.05
#define PERFECT 0.9999

static bool is_single(const struct pair *pair)
{
    return pair->at[0] == INLAY_NONE || pair->at[1] == INLAY_NONE;
}

static error_t take_metric(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    compare_args *args = field;

    (void)option;
    args->metric = agree_metric_find(arg);
    if (strncmp(arg, "custom:", 7) == 0 && arg[7] != '\0')
        args->command = arg + 7;
    else if (args->metric == AGREE_METRIC_COUNT)
        cli_refuse(state, CLI_USAGE,
                   "--metric %s: expected auto, relative, equal, top1, cosine, kl, psnr, iou, text or "
                   "custom:COMMAND",
                   arg);
    return 0;
}

static const cli_option options_of_compare[] = {
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

/* Adds an output or value of A, or an output that only one model has. */
static struct pair *add_pair(struct comparison *comparison, const char *name, uint32_t at_a, uint32_t at_b)
{
    struct pair *pair = &comparison->pairs[comparison->pair_count++];
    const agree_metric metric = comparison->args->metric;

    *pair = (struct pair){ .name = name, .at = { at_a, at_b } };
    pair->is_layer = at_a != INLAY_NONE && at_a >= comparison->own[0];
    pair->is_chosen = metric == AGREE_auto || metric >= AGREE_METRIC_COUNT; /* the latter: --metric custom */
    pair->sum.metric = pair->is_layer       ? AGREE_cosine
                       : !pair->is_chosen   ? metric
                       : at_a == INLAY_NONE ? AGREE_relative
                                            : agree_metric_of(comparison->session[0]->model->main, at_a);
    return pair;
}

/* Pairs the values of the same name; of the outputs, also those that only one model has. *out_matches: the pairs. */
static inlay_status pair_by_name(struct comparison *comparison, uint32_t *out_matches, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    *out_matches = 0;
    for (uint32_t i = 0; i < inlay_session_output_count(comparison->session[0]); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        uint32_t other;

        INLAY_TRY(inlay_session_output(comparison->session[0], i, &info));
        other = inlay_session_find_output(comparison->session[1], info.name);
        if (i >= comparison->own[0] && other == INLAY_NONE)
            continue; /* an inner value of A alone */
        (void)add_pair(comparison, info.name, i, other);
        *out_matches += other != INLAY_NONE;
    }
    for (uint32_t i = 0; i < comparison->own[1]; i++) {
        inlay_io_info info = { .struct_size = sizeof info };

        INLAY_TRY(inlay_session_output(comparison->session[1], i, &info));
        if (inlay_session_find_output(comparison->session[0], info.name) == INLAY_NONE)
            (void)add_pair(comparison, info.name, INLAY_NONE, i);
    }
done:
    (void)diag;
    return status;
}

static inlay_status find_pairs(struct comparison *comparison, inlay_diag *diag)
{
    const uint32_t count =
        inlay_session_output_count(comparison->session[0]) + inlay_session_output_count(comparison->session[1]);
    uint32_t matches;
    inlay_status status;

    comparison->pairs = calloc((size_t)count + 1, sizeof *comparison->pairs);
    if (comparison->pairs == NULL)
        return no_memory(diag, "for %u outputs", count);
    INLAY_TRY(pair_by_name(comparison, &matches, diag));
    if (matches > 0)
        return INLAY_OK;
    if (comparison->args->layers)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the models have no value of the same name");
    if (comparison->own[0] != comparison->own[1])
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "the models have no output of the same name, and different numbers of outputs; inlay inspect "
                          "lists them");
    comparison->pair_count = 0;
    for (uint32_t i = 0; i < comparison->own[0]; i++) {
        inlay_io_info info = { .struct_size = sizeof info };

        INLAY_TRY(inlay_session_output(comparison->session[0], i, &info));
        (void)add_pair(comparison, info.name, i, i);
    }
done:
    return status;
}

/* Compares two tensors. */
static inlay_status add_tensors(struct pair *pair, const inlay_value *a, const inlay_value *b, inlay_diag *why)
{
    inlay_tensor_view first, second;

    if (!value_view(a, &first) || !value_view(b, &second))
        return inlay_fail(why, INLAY_SHAPE_MISMATCH, "a value is not in host memory");
    if (pair->sum.samples == 0 &&
        (first.dtype == INLAY_STRING || (pair->is_chosen && !element_is_float(first.dtype)))) /* an item of a list */
        pair->sum.metric = AGREE_equal;
    return agree_add(&pair->sum, &first, &second, why);
}

/* Compares two values: tensors, or lists and maps item by item. */
static inlay_status add_values(struct pair *pair, const inlay_value *a, const inlay_value *b, inlay_diag *why)
{
    inlay_status status = INLAY_OK;

    if (a == NULL && b == NULL)
        return INLAY_OK;
    if (a == NULL || b == NULL || inlay_value_kind(a) != inlay_value_kind(b))
        return inlay_fail(why, INLAY_SHAPE_MISMATCH, "the two outputs are values of different kinds");
    if (inlay_value_kind(a) == INLAY_KIND_TENSOR)
        return add_tensors(pair, a, b, why);
    if (inlay_value_count(a) != inlay_value_count(b))
        return inlay_fail(why, INLAY_SHAPE_MISMATCH, "the two outputs have different numbers of items");
    for (int64_t i = 0; status == INLAY_OK && i < inlay_value_count(a); i++)
        status = add_values(pair, inlay_value_item(a, (uint32_t)i), inlay_value_item(b, (uint32_t)i), why);
    return status;
}

static const char *type_of(const inlay_value *value, char *text, size_t bytes)
{
    return value != NULL ? value_type_text(value, text, bytes) : "nothing";
}

static inlay_status compare_outputs(struct comparison *comparison, inlay_diag *diag)
{
    for (uint32_t i = 0; i < comparison->pair_count; i++) {
        struct pair *pair = &comparison->pairs[i];
        inlay_diag why = INLAY_DIAG_INIT;
        const inlay_value *a, *b;
        char shapes[2][192];
        inlay_status status;

        if (is_single(pair))
            continue;
        a = inlay_context_output(comparison->context[0], pair->at[0]);
        b = inlay_context_output(comparison->context[1], pair->at[1]);
        status = add_values(pair, a, b, &why);
        if (status == INLAY_SHAPE_MISMATCH && pair->is_layer)
            (void)snprintf(pair->mismatch, sizeof pair->mismatch, "%.150s", why.text);
        else if (status != INLAY_OK)
            return inlay_fail(diag, status, "output '%s': %s: %s and %s", pair->name, why.text,
                              type_of(a, shapes[0], sizeof shapes[0]), type_of(b, shapes[1], sizeof shapes[1]));
    }
    return INLAY_OK;
}

static inlay_status run_samples(struct comparison *comparison, const struct samples *set, inlay_diag *diag)
{
    inlay_value **values = NULL;
    inlay_status status = INLAY_OK;

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

static inlay_status open_both(struct comparison *comparison, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (int k = 0; k < 2; k++) {
        INLAY_TRY(cli_open(comparison->common, comparison->args->models[k], &comparison->session[k], diag));
        comparison->own[k] = inlay_session_output_count(comparison->session[k]);
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
    table_real(table, RELATIVE, agree_relative_error(agree), "%.3g", agree_relative_error(agree));
    table_real(table, COSINE, agree_cosine(agree), "%.6f", agree_cosine(agree));
    if (agree->rows > 0)
        table_real(table, TOP1, (double)agree->rows_same / (double)agree->rows, "%.4f",
                   (double)agree->rows_same / (double)agree->rows);
}

static void add_scores(struct table *table, const struct agree *agree)
{
    const agree_score score = agree_result(agree);
    const bool is_command = agree->metric == AGREE_custom;
    const bool are_texts = agree->broken == 0 && agree->max_error == 0 && agree->same < agree->elements;
    const bool has_no_error = are_texts || (agree->broken > 0 && agree->broken == agree->elements);

    table_text(table, METRIC, agree_metric_name(agree_used(agree)));
    table_real(table, SCORE, score.value, "%.6g", score.value);
    table_real(table, LOW, score.low, "%.5g", score.low);
    table_real(table, HIGH, score.high, "%.5g", score.high);
    if (!is_command && !has_no_error)
        add_errors(table, agree);
    for (uint32_t i = MAX_ERROR; !is_command && has_no_error && i <= COSINE; i++)
        table_say(table, i, "-");
    if (agree->broken > 0 && !is_command) {
        table_whole(table, NOT_FINITE, (int64_t)agree->broken);
        table_say(table, NOTE, "%llu elements are NaN or infinite in one model alone",
                  (unsigned long long)agree->broken);
    }
}

static void add_row(struct table *table, const char *name, const struct agree *agree, const char *why)
{
    table_row(table);
    table_text(table, NAME, name);
    if (agree->samples > 0 && (agree_any(agree) || agree->metric == AGREE_custom))
        add_scores(table, agree);
    for (uint32_t i = METRIC; (agree->samples == 0 || !agree_any(agree)) && i <= TOP1; i++)
        table_say(table, i, "-");
    if (why[0] == '\0')
        return;
    table_text(table, UNLIKE, why);
    table_say(table, NOTE, "%s", why);
}

/* Why an output is no agreement whatever the bound is; "": it may be one. */
static const char *fault_of(const struct pair *pair)
{
    if (pair->at[1] == INLAY_NONE)
        return "only A has this output";
    if (pair->at[0] == INLAY_NONE)
        return "only B has this output";
    if (!agree_any(&pair->sum) && pair->mismatch[0] == '\0')
        return "nothing was compared, because it has no elements";
    return pair->mismatch;
}

static void add_rows(struct table *table, const struct comparison *comparison, bool layers)
{
    if (!layers && comparison->args->command != NULL)
        add_row(table, comparison->args->command, &comparison->custom, "");
    for (uint32_t i = 0; i < comparison->pair_count; i++)
        if (comparison->pairs[i].is_layer == layers)
            add_row(table, comparison->pairs[i].name, &comparison->pairs[i].sum, fault_of(&comparison->pairs[i]));
}

/* Why the output violates the bound; "": it does not. */
static const char *violation(const struct comparison *comparison, const struct pair *pair, char *text, size_t bytes)
{
    const struct agree *sum = &pair->sum;
    const double value = agree_result(sum).value, relative = agree_relative_error(sum);
    const char *metric = agree_metric_name(agree_used(sum));

    text[0] = '\0';
    if (isnan(comparison->args->at_least) || !agree_any(sum))
        return text;
    if (!pair->is_chosen && sum->scored == 0)
        (void)snprintf(text, bytes, "output '%s': metric %s says nothing of it; name another metric", pair->name,
                       agree_metric_name(sum->metric));
    else if (!agree_holds(agree_used(sum), value, comparison->args->at_least))
        (void)snprintf(text, bytes, "output '%s': %s is %.6g, not %s %g", pair->name, metric, value,
                       agree_used(sum) == AGREE_kl ? "at most" : "at least", comparison->args->at_least);
    else if (pair->is_chosen && agree_used(sum) != AGREE_equal && value >= PERFECT && relative > MOST_RELATIVE)
        (void)snprintf(text, bytes,
                       "output '%s': %s is %.6g, but its relative error is %.3g, above %g; --metric %s if it does not "
                       "matter",
                       pair->name, metric, value, relative, MOST_RELATIVE, metric);
    return text;
}

/* Collects why the models do not agree: an array of texts. Outputs that one model lacks count without a bound, too. */
static json_t *find_reasons(const struct comparison *comparison)
{
    json_t *reasons = json_array();
    bool any = false;
    char text[512];

    if (comparison->args->command != NULL) {
        const double value = agree_result(&comparison->custom).value;

        if (!isnan(comparison->args->at_least) && !agree_holds(AGREE_custom, value, comparison->args->at_least))
            (void)json_array_append_new(
                reasons, json_sprintf("the score is %.6g, not at least %g", value, comparison->args->at_least));
        return reasons;
    }
    for (uint32_t i = 0; i < comparison->pair_count; i++) {
        const struct pair *pair = &comparison->pairs[i];

        if (pair->is_layer)
            continue;
        any |= agree_any(&pair->sum);
        if (is_single(pair))
            (void)json_array_append_new(reasons, json_sprintf("output '%s': %s", pair->name, fault_of(pair)));
        else if (violation(comparison, pair, text, sizeof text)[0] != '\0')
            (void)json_array_append_new(reasons, json_string(text));
    }
    if (!any && !isnan(comparison->args->at_least))
        (void)json_array_append_new(reasons, json_string("nothing was compared: no output has an element"));
    return reasons;
}

static int report_json(const struct comparison *comparison, struct table *outputs, struct table *layers,
                       json_t *reasons)
{
    const bool all_hold = json_array_size(reasons) == 0;
    json_t *all = json_pack("{s:s, s:s, s:i, s:o}", "a", cli_text(comparison->args->models[0]), "b",
                            cli_text(comparison->args->models[1]), "samples", (int)comparison->samples, "outputs",
                            cells_json(outputs));

    if (comparison->args->layers)
        (void)json_object_set_new(all, "layers", cells_json(layers));
    if (!isnan(comparison->args->at_least))
        (void)json_object_set_new(all, "at_least", json_real(comparison->args->at_least));
    if (!isnan(comparison->args->at_least) || !all_hold) {
        (void)json_object_set_new(all, "holds", json_boolean(all_hold));
        (void)json_object_set(all, "reasons", reasons);
    }
    return cli_print_json(comparison->common, all, all_hold ? CLI_OK : CLI_FAILED);
}

static int report(const struct comparison *comparison)
{
    table_column layer_columns[COLUMNS];
    struct table outputs = { .columns = pair_columns, .column_count = COLUMNS };
    struct table layers = { .columns = layer_columns, .column_count = COLUMNS };
    json_t *reasons = find_reasons(comparison), *reason;
    size_t i;
    int code = json_array_size(reasons) == 0 ? CLI_OK : CLI_FAILED;

    memcpy(layer_columns, pair_columns, sizeof layer_columns);
    layer_columns[NAME].title = "layer";
    add_rows(&outputs, comparison, false);
    add_rows(&layers, comparison, true);
    if (comparison->common->json) {
        code = report_json(comparison, &outputs, &layers, reasons);
        goto done;
    }
    (void)printf("%u samples%s\n", comparison->samples, comparison->args->data == NULL ? ", random" : "");
    cells_print(&outputs);
    if (comparison->args->layers)
        (void)putchar('\n');
    cells_print(&layers);
    screen_flush();
    json_array_foreach(reasons, i, reason)
        cli_say(comparison->common, "%s", json_string_value(reason));
done:
    json_decref(reasons);
    return code;
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
    const struct pair *pair;
    double before;

    args.layers = true;
    args.command = NULL;
    few.count = few.count > LAYER_SAMPLES ? LAYER_SAMPLES : few.count;
    if (open_both(&layers, NULL) == INLAY_OK && find_pairs(&layers, NULL) == INLAY_OK &&
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
    static const cli_verb verb = { "A B", doc_compare, options_of_compare, NULL };
    static compare_args args = { .at_least = NAN };
    cli_common common;
    struct comparison comparison = { .args = &args, .common = &common, .custom.metric = AGREE_custom };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct dataset *set = NULL;
    struct samples list;
    int code = CLI_OK;
    inlay_status status;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    comparison.command.command = args.command;
    INLAY_TRY(open_both(&comparison, &diag));
    INLAY_TRY(find_pairs(&comparison, &diag));
    INLAY_TRY(dataset_open(args.data,
                           args.samples > 0    ? args.samples
                           : args.data == NULL ? RANDOM_SAMPLES
                                               : 0,
                           cli_samples_caller(&common), comparison.session[0], &set, &diag));
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
