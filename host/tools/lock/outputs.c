/* The results of a record: hashes of all outputs, and the distance from recorded values. */
#include "lock/lock.h"
#include "shared/agree.h"
#include "base/element.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "data/compare.h"
#include "data/hash.h"
#include "data/value.h"
#include "data/view.h"
#include "quantize/metric.h"
#include "session/session.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What differs in one sample: the largest difference of an element, and the largest magnitude of a recorded one. */
typedef struct sample_error {
    double error, largest;
} sample_error;

/* One output over all samples. */
struct output {
    inlay_io_info info;
    json_t *entry, *hashes, *values; /* members of the new record */
    const json_t *was;               /* the entry of the earlier record; NULL: none */
    struct agree agree;
    sample_error *errors; /* [error_count] the samples whose bits differ */
    uint32_t error_count;
    bool differs;  /* the bits of some sample */
    char why[256]; /* why no error is known; "" = it is */
};

struct run {
    const inlay_session *session;
    inlay_context *context;
    bool keeps_values;      /* in the record */
    struct output *outputs; /* [count] */
    uint32_t count;
};

static json_t *hash_json(const inlay_value *value)
{
    char text[65];

    value_hash_hex(value, text);
    return json_string(text);
}

static json_t *inputs_hash(const inlay_session *session, inlay_value *const *values)
{
    struct sha256 sha256;
    char text[65];

    sha256_init(&sha256);
    for (uint32_t i = 0; i < inlay_session_input_count(session); i++)
        value_hash(&sha256, values[i]);
    sha256_hex(&sha256, text);
    return json_string(text);
}

static const json_t *find_named(const json_t *list, const char *name)
{
    json_t *entry;
    size_t i;

    json_array_foreach(list, i, entry) {
        const char *other = json_string_value(json_object_get(entry, "name"));

        if (other != NULL && strcmp(other, name) == 0)
            return entry;
    }
    return NULL;
}

static inlay_status begin_outputs(struct run *run, const json_t *was, json_t *list, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    run->outputs = calloc((size_t)run->count + 1, sizeof *run->outputs);
    if (run->outputs == NULL)
        return no_memory(diag, "for %u outputs", run->count);
    for (uint32_t i = 0; i < run->count; i++) {
        struct output *output = &run->outputs[i];

        output->info.struct_size = sizeof output->info;
        INLAY_TRY(inlay_session_output(run->session, i, &output->info));
        output->agree.metric = output->info.kind == INLAY_KIND_TENSOR && output->info.dtype != INLAY_STRING
                                   ? agree_metric_of(run->session->model->main, i)
                                   : AGREE_cosine;
        output->hashes = json_array();
        output->entry = json_pack("{s:s, s:s, s:o}", "name", output->info.name, "metric",
                                  agree_metric_name(output->agree.metric), "sha256", output->hashes);
        if (output->entry == NULL || json_array_append_new(list, output->entry) != 0)
            return no_memory(diag, "for a record");
        if (run->keeps_values)
            (void)json_object_set_new(output->entry, "values", output->values = json_array());
        output->was = find_named(json_object_get(was, "outputs"), output->info.name);
    }
done:
    return status;
}

/* The elements of a tensor of numbers as one line of text; NULL: other values, or no memory. Nine digits tell all
 * floats apart. */
static json_t *values_json(const inlay_value *value)
{
    inlay_tensor_view view;
    struct strbuf text = { 0 };
    json_t *json = NULL;
    double re, im;

    if (value == NULL || !value_view(value, &view))
        return NULL;
    for (int64_t i = 0; i < inlay_value_count(value); i++) {
        if (!element_number(view.dtype, view.data, i, &re, &im) || im != 0) {
            strbuf_deinit(&text);
            return NULL;
        }
        strbuf_format(&text, "%s%.9g", i > 0 ? " " : "", re);
    }
    json = text.failed ? NULL : json_stringn(text.data != NULL ? text.data : "", text.size);
    strbuf_deinit(&text);
    return json;
}

/* Reads the recorded and the new elements as doubles: numbers[0, count) and numbers[count, 2 * count). False: another
 * number of elements was recorded. */
static bool read_numbers(const char *text, const inlay_tensor_view *view, int64_t count, double *numbers)
{
    double im;

    for (int64_t i = 0; i < count; i++) {
        char *end = NULL;

        numbers[i] = strtod(text, &end);
        if (view->dtype == INLAY_FLOAT)
            numbers[i] = (float)numbers[i];
        if (end == text || !element_number(view->dtype, view->data, i, &numbers[count + i], &im))
            return false;
        text = end;
    }
    return text[0] == '\0';
}

/* Of the elements that are finite in both. */
static double largest_difference(const double *numbers, int64_t count)
{
    double most = 0;

    for (int64_t i = 0; i < count; i++) {
        const double difference = fabs(numbers[count + i] - numbers[i]);

        most = isfinite(difference) && difference > most ? difference : most;
    }
    return most;
}

/* The largest relative error of a sample, so that samples of large values do not hide the others. Values that are
 * nearly 0 in one sample alone, compared with the other samples, are no scale of their own. */
static double relative_error(const struct output *output)
{
    double largest = 1e-30, relative = 0;

    for (uint32_t i = 0; i < output->error_count; i++)
        largest = fmax(largest, 1e-7 * output->errors[i].largest);
    for (uint32_t i = 0; i < output->error_count; i++)
        relative = fmax(relative, output->errors[i].error / fmax(output->errors[i].largest, largest));
    return relative;
}

/* Adds the distance of a value from the recorded one. */
static void measure_error(struct output *output, const inlay_value *value, const json_t *was_values)
{
    const char *text = json_string_value(was_values);
    const int64_t count = value != NULL ? inlay_value_count(value) : 0;
    inlay_tensor_view got;
    inlay_diag why = INLAY_DIAG_INIT;
    double *numbers;

    if (text == NULL || value == NULL || !value_view(value, &got)) {
        (void)snprintf(output->why, sizeof output->why, "the record has no values to compare with");
        return;
    }
    numbers = calloc(2 * (size_t)count + 1, sizeof *numbers);
    if (numbers == NULL || !read_numbers(text, &got, count, numbers)) {
        (void)snprintf(output->why, sizeof output->why, "the record has other elements");
    } else {
        inlay_tensor_view sides[2] = { got, got };

        for (int k = 0; k < 2; k++) {
            sides[k].dtype = INLAY_DOUBLE;
            sides[k].data = numbers + (k == 0 ? 0 : count);
            sides[k].bytes = (uint64_t)count * sizeof *numbers;
        }
        if (agree_add(&output->agree, &sides[0], &sides[1], &why) != INLAY_OK)
            (void)snprintf(output->why, sizeof output->why, "%.250s", why.text);
        else if (!LIST_GROW(output->errors, output->error_count))
            (void)snprintf(output->why, sizeof output->why, "out of memory");
        else
            output->errors[output->error_count++] = (sample_error){ .error = largest_difference(numbers, count),
                                                                    .largest = compare_largest(&sides[0], count) };
    }
    free(numbers);
}

static inlay_status record_sample(struct run *run, uint32_t sample, inlay_diag *diag)
{
    for (uint32_t i = 0; i < run->count; i++) {
        struct output *output = &run->outputs[i];
        const inlay_value *value = inlay_context_output(run->context, i);
        const json_t *was = json_array_get(json_object_get(output->was, "sha256"), sample);
        json_t *hash = hash_json(value), *values;
        char type[192];

        if (hash == NULL || json_array_append_new(output->hashes, hash) != 0)
            return no_memory(diag, "for a record");
        if (sample == 0 && value != NULL) {
            (void)json_object_set_new(output->entry, "dtype", json_string(inlay_dtype_name(inlay_value_dtype(value))));
            (void)json_object_set_new(output->entry, "type", json_string(value_type_text(value, type, sizeof type)));
        }
        if (run->keeps_values) {
            values = values_json(value);
            (void)json_array_append_new(output->values, values != NULL ? values : json_null());
        } else if (was != NULL && !json_equal(was, hash)) {
            output->differs = true;
            measure_error(output, value, json_array_get(json_object_get(output->was, "values"), sample));
        }
    }
    return INLAY_OK;
}

/* {"max", "relative", "cosine", "other_class", "why"} */
static json_t *error_json(const struct output *output)
{
    const struct agree *agree = &output->agree;
    const bool other_class = agree->metric == AGREE_top1 && agree->rows_same < agree->rows;
    json_t *error = json_object();

    if (output->why[0] != '\0') {
        (void)json_object_set_new(error, "why", json_string(output->why));
        return error;
    }
    if (agree->broken > 0)
        (void)json_object_set_new(error, "why",
                                  json_sprintf("%llu elements are NaN or infinite in only one of the two",
                                               (unsigned long long)agree->broken));
    else
        (void)json_object_set_new(error, "relative", json_real(relative_error(output)));
    (void)json_object_set_new(error, "max", value_number_json(agree->max_error));
    (void)json_object_set_new(error, "cosine", value_number_json(agree_cosine(agree)));
    (void)json_object_set_new(error, "other_class", json_boolean(other_class));
    return error;
}

inlay_status lock_outputs(const inlay_session *session, inlay_context *context, const struct samples *samples,
                          const json_t *was, json_t *record, inlay_diag *diag)
{
    struct run run = { .session = session,
                       .context = context,
                       .keeps_values = was == NULL,
                       .count = inlay_session_output_count(session) };
    json_t *inputs = json_array(), *outputs = json_array();
    inlay_value **values = NULL;
    inlay_status status = INLAY_OK;

    INLAY_TRY(begin_outputs(&run, was, outputs, diag));
    for (uint32_t i = 0; i < samples->count; i++) {
        INLAY_TRY(samples_load(samples, i, &values, diag));
        (void)json_array_append_new(inputs, inputs_hash(session, values));
        INLAY_TRY(samples_run(samples, values, session, context, diag));
        INLAY_TRY(record_sample(&run, i, diag));
        samples_release(samples, values);
        values = NULL;
    }
    for (uint32_t i = 0; i < run.count; i++)
        if (run.outputs[i].differs)
            (void)json_object_set_new(run.outputs[i].entry, "error", error_json(&run.outputs[i]));
    (void)json_object_set(record, "inputs", inputs);
    (void)json_object_set(record, "outputs", outputs);
done:
    samples_release(samples, values);
    for (uint32_t i = 0; run.outputs != NULL && i < run.count; i++)
        free(run.outputs[i].errors);
    free(run.outputs);
    json_decref(inputs);
    json_decref(outputs);
    return status;
}
