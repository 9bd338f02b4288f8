/* Runs. Each run uses a separate context, so that any number of threads may run a session at once. A session keeps idle
 * contexts for later runs. */
#include "ort.h"
#include "inlay/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static OrtStatus *take_context(OrtSession *session, inlay_context **out)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    *out = NULL;
    (void)pthread_mutex_lock(&session->lock);
    if (session->idle_count > 0)
        *out = session->idle[--session->idle_count];
    (void)pthread_mutex_unlock(&session->lock);
    return *out != NULL ? NULL : ort_from(inlay_context_create(session->session, out, &diag), &diag);
}

static void give_context(OrtSession *session, inlay_context *context)
{
    (void)pthread_mutex_lock(&session->lock);
    INLAY_CHECK(session->idle_count <= ORT_MOST_IDLE);
    if (session->idle_count < ORT_MOST_IDLE) {
        session->idle[session->idle_count++] = context;
        context = NULL;
    }
    (void)pthread_mutex_unlock(&session->lock);
    inlay_context_destroy(context);
}

/* key: of maps. */
static const char *type_text(uint32_t kind, inlay_dtype key, inlay_dtype dtype, char *text, size_t bytes)
{
    const char *inner = ort_type_text(dtype);

    if (kind == INLAY_KIND_MAP)
        (void)snprintf(text, bytes, "map(%s,%s)", key == INLAY_STRING ? "string" : "int64", inner);
    else
        (void)snprintf(text, bytes,
                       kind == INLAY_KIND_SEQUENCE   ? "seq(%s)"
                       : kind == INLAY_KIND_OPTIONAL ? "optional(%s)"
                                                     : "%s",
                       inner);
    return text;
}

/* True if the tensor can be used for a scalar input. ONNX Runtime accepts any tensor; inlay requires one element. */
static bool stands_for_scalar(const inlay_io_info *info, const inlay_value *value)
{
    return value != NULL && info->kind == INLAY_KIND_TENSOR && info->rank == 0 &&
           inlay_value_kind(value) == INLAY_KIND_TENSOR && inlay_value_rank(value) > 0 && inlay_value_count(value) == 1;
}

/* The type of a map's keys; of other values INLAY_UNDEFINED. */
static inlay_dtype key_of(const inlay_value *content)
{
    return inlay_value_kind(content) == INLAY_KIND_MAP ? inlay_value_dtype(inlay_value_item(content, 0))
                                                       : INLAY_UNDEFINED;
}

/* Checks an input before inlay does, so that errors have the text of ONNX Runtime. content: the value for the run. */
static OrtStatus *check_feed(const inlay_io_info *info, const OrtValue *value, const inlay_value *content)
{
    char got[80], want[80], indexes[512] = "";
    size_t at = 0;

    if (content == NULL && value->type == ONNX_TYPE_SPARSETENSOR)
        return ort_fail(ORT_INVALID_ARGUMENT, "Input with name: %s is not expected to be of type sparse tensor.",
                        info->name);
    if (content == NULL)
        return value->type == ONNX_TYPE_UNKNOWN || value->type == ONNX_TYPE_OPTIONAL
                   ? NULL
                   : ort_fail(ORT_NOT_IMPLEMENTED, "input %s: sequences of maps as inputs are not implemented in inlay",
                              info->name);
    if ((info->dtype != INLAY_UNDEFINED && inlay_value_dtype(content) != info->dtype) ||
        (inlay_value_kind(content) != info->kind && info->kind != INLAY_KIND_OPTIONAL) ||
        (info->kind == INLAY_KIND_MAP && key_of(content) != info->key_dtype))
        return ort_fail(
            ORT_INVALID_ARGUMENT, "Unexpected input data type. Actual: (%s) , expected: (%s)",
            type_text(inlay_value_kind(content), key_of(content), inlay_value_dtype(content), got, sizeof got),
            type_text(info->kind, info->key_dtype, info->dtype, want, sizeof want));
    if (info->kind != INLAY_KIND_TENSOR || info->rank == INLAY_RANK_UNKNOWN || stands_for_scalar(info, content))
        return NULL;
    if (inlay_value_rank(content) != info->rank)
        return ort_fail(ORT_INVALID_ARGUMENT,
                        "Invalid rank for input: %s Got: %u Expected: %u Please fix either the "
                        "inputs/outputs or the model.",
                        info->name, inlay_value_rank(content), info->rank);
    for (uint32_t d = 0; d < info->rank; d++)
        if (info->dims[d] >= 0 && info->dims[d] != inlay_value_dims(content)[d] && at < sizeof indexes)
            at += (size_t)snprintf(indexes + at, sizeof indexes - at, " index: %u Got: %lld Expected: %lld\n", d,
                                   (long long)inlay_value_dims(content)[d], (long long)info->dims[d]);
    if (at > 0)
        return ort_fail(ORT_INVALID_ARGUMENT,
                        "Got invalid dimensions for input: %s for the following indices\n%s Please fix "
                        "either the inputs/outputs or the model.",
                        info->name, indexes);
    return NULL;
}

static OrtStatus *bind_feed(inlay_context *context, const inlay_io_info *info, const ort_feed *feed, inlay_value *value)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *scalar = NULL;
    inlay_status status = INLAY_OK;

    ORT_TRY(check_feed(info, feed->value, value));
    if (stands_for_scalar(info, value))
        status = inlay_value_borrow(inlay_value_dtype(value), 0, NULL, inlay_value_data(value),
                                    inlay_value_bytes(value), &scalar, &diag);
    if (status == INLAY_OK)
        status = inlay_context_set_input(context, feed->index, scalar != NULL ? scalar : value, &diag);
    inlay_value_unref(scalar);
    return ort_from(status, &diag);
}

static OrtStatus *bind_feeds(OrtSession *session, inlay_context *context, const ort_feed *feeds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        inlay_io_info info = ort_input_info(session, feeds[i].index);
        inlay_value *dense = NULL;
        OrtStatus *failed;

        if (__atomic_load_n(&feeds[i].value->references, __ATOMIC_ACQUIRE) == 0)
            return ort_fail(ORT_INVALID_ARGUMENT, "the value for input %s has been released", info.name);
        ort_strings_sync(feeds[i].value);
        if (info.sparse != 0 && feeds[i].value->sparse != NULL)
            ORT_TRY(ort_sparse_to_dense(feeds[i].value->sparse, &dense));
        failed = bind_feed(context, &info, &feeds[i], dense != NULL ? dense : feeds[i].value->value);
        inlay_value_unref(dense);
        if (failed != NULL)
            return failed;
    }
    return NULL;
}

/* Is the tensor that an error is about an input without a value? */
static bool is_unfed(const OrtSession *session, const char *name, const ort_feed *feeds, size_t count)
{
    const uint32_t index = inlay_session_find_input(session->session, name);

    for (size_t i = 0; i < count; i++)
        if (feeds[i].index == index)
            return false;
    return index != INLAY_NONE;
}

/* True for a string tensor created by the program: the output's strings are copied to it. */
static bool is_copied(const OrtValue *fetch)
{
    return fetch->strings != NULL;
}

/* The outputs of a run. */
typedef struct fetch_list {
    const uint32_t *wanted;
    OrtValue **values;
    size_t count;
} fetch_list;

/* Binds the program's tensors. A run may change the shape of its output value, so it gets a separate value over the
 * program's memory. */
static OrtStatus *bind_fetches(OrtSession *session, inlay_context *context, const fetch_list *list)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    for (size_t i = 0; i < list->count; i++) {
        inlay_value *target = NULL;
        const inlay_value *value;
        inlay_status status;

        if (list->values[i] == NULL || is_copied(list->values[i]))
            continue;
        if (list->values[i]->type != ONNX_TYPE_TENSOR)
            return ort_fail(ORT_NOT_IMPLEMENTED,
                            "output %s: preallocated values other than tensors are not implemented in "
                            "inlay",
                            ort_output_info(session, list->wanted[i]).name);
        value = list->values[i]->value;
        status = inlay_value_borrow(inlay_value_dtype(value), inlay_value_rank(value), inlay_value_dims(value),
                                    inlay_value_data(value), inlay_value_bytes(value), &target, &diag);
        if (status == INLAY_OK)
            status = inlay_context_set_output(context, list->wanted[i], target, &diag);
        inlay_value_unref(target);
        if (status != INLAY_OK)
            return ort_from(status, &diag);
    }
    return NULL;
}

static void write_shape(const inlay_value *value, char *text, size_t bytes)
{
    size_t at = (size_t)snprintf(text, bytes, "{");

    for (uint32_t d = 0; d < inlay_value_rank(value) && at < bytes; d++)
        at +=
            (size_t)snprintf(text + at, bytes - at, "%s%lld", d > 0 ? "," : "", (long long)inlay_value_dims(value)[d]);
    if (at < bytes)
        (void)snprintf(text + at, bytes - at, "}");
}

/* Stores an output of a run in the value that the program supplied. */
static OrtStatus *fill_fetch(const inlay_io_info *info, inlay_value *output, OrtValue *fetch)
{
    const inlay_value *wanted = fetch->value;
    char current[256], requested[256];
    bool fits = inlay_value_rank(output) == inlay_value_rank(wanted);

    if (inlay_value_dtype(output) != inlay_value_dtype(wanted))
        return ort_fail(ORT_INVALID_ARGUMENT,
                        "The output OrtValue provided for output '%s' has element type %s but the model computes %s. "
                        "Give a value of that type, or none.",
                        info->name, inlay_dtype_name(inlay_value_dtype(wanted)),
                        inlay_dtype_name(inlay_value_dtype(output)));
    for (uint32_t d = 0; fits && d < inlay_value_rank(output); d++)
        fits = inlay_value_dims(output)[d] == inlay_value_dims(wanted)[d];
    if (!fits) {
        write_shape(wanted, current, sizeof current);
        write_shape(output, requested, sizeof requested);
        return ort_fail(ORT_INVALID_ARGUMENT,
                        "The output OrtValue provided for output '%s' has shape %s but the computed "
                        "output shape for this run is %s. Give a value of that shape, or none.",
                        info->name, current, requested);
    }
    if (!is_copied(fetch)) {
        if (inlay_value_data(output) != inlay_value_data(wanted))
            memcpy(inlay_value_data(wanted), inlay_value_data(output), (size_t)inlay_value_bytes(output));
        return NULL;
    }
    for (int64_t i = 0; i < inlay_value_count(output); i++) {
        const inlay_str *text = (const inlay_str *)inlay_value_data(output) + i;

        ORT_TRY(ort_strings_set(fetch, (size_t)i, text->data, (size_t)text->bytes));
    }
    return NULL;
}

static OrtStatus *collect(OrtSession *session, inlay_context *context, const fetch_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        inlay_value *output = inlay_context_output(context, list->wanted[i]);
        inlay_io_info info = ort_output_info(session, list->wanted[i]);

        INLAY_CHECK(list->wanted[i] < session->output_count);
        if (list->values[i] != NULL && output == NULL)
            return ort_fail(ORT_INVALID_ARGUMENT,
                            "output '%s' is empty and cannot be put into the OrtValue provided for it", info.name);
        if (list->values[i] != NULL)
            ORT_TRY(fill_fetch(&info, output, list->values[i]));
        else if (output != NULL && info.sparse != 0)
            ORT_TRY(ort_sparse_of_dense(output, &list->values[i]));
        else if (output != NULL)
            ORT_TRY(ort_value_wrap(inlay_value_ref(output), &list->values[i]));
        else
            ORT_TRY(ort_value_bare(ONNX_TYPE_OPTIONAL, &list->values[i]));
    }
    return NULL;
}

static void write_piece(void *user, const char *text, size_t bytes)
{
    (void)fwrite(text, 1, bytes, user);
}

/* Writes the trace of a context to PREFIX_DATE.json and returns this name in path. */
static OrtStatus *write_profile(inlay_context *context, const char *prefix, char *path, size_t bytes)
{
    const inlay_profile_options how = { .struct_size = sizeof how, .format = "onnxruntime" };
    inlay_diag diag = INLAY_DIAG_INIT;
    time_t now = time(NULL);
    inlay_status status;
    struct tm parts;
    char when[64];
    bool bad;
    FILE *file;

    if (localtime_r(&now, &parts) == NULL || strftime(when, sizeof when, "%Y-%m-%d_%H-%M-%S", &parts) == 0)
        when[0] = '\0';
    if ((size_t)snprintf(path, bytes, "%s_%s.json", prefix, when) >= bytes)
        return ort_fail(ORT_INVALID_ARGUMENT, "the prefix of the profile's file name has %zu bytes; shorten it to %zu",
                        strlen(prefix), bytes - sizeof when);
    file = fopen(path, "we");
    if (file == NULL)
        return ort_fail(ORT_FAIL, "profile %s cannot be written", path);
    status = inlay_context_profile_write(context, &how, write_piece, file, &diag);
    if (status == INLAY_INVALID_ARGUMENT && ftell(file) == 0) /* no run happened */
        status = fputs("[\n]\n", file) < 0 ? INLAY_IO_ERROR : INLAY_OK;
    bad = ferror(file) != 0;
    bad |= fclose(file) != 0;
    if (bad && status == INLAY_OK)
        return ort_fail(ORT_FAIL, "profile %s cannot be written", path);
    return ort_from(status, &diag);
}

OrtStatus *ort_end_profiling(OrtSession *session, OrtAllocator *allocator, char **out)
{
    OrtStatus *failed = NULL;
    char path[1200] = "";

    *out = NULL;
    (void)pthread_mutex_lock(&session->lock);
    if (session->profiled != NULL) {
        failed = write_profile(session->profiled, session->profile_prefix, path, sizeof path);
        inlay_context_destroy(session->profiled);
        session->profiled = NULL;
    }
    (void)pthread_mutex_unlock(&session->lock);
    return failed != NULL ? failed : ort_give_text(allocator, path, out);
}

OrtStatus *ort_SessionEndProfiling(OrtSession *session, OrtAllocator *allocator, char **out)
{
    OrtStatus *failed;

    ORT_NEED(session);
    ORT_NEED(allocator);
    ORT_NEED(out);
    ORT_TRY(ort_session_enter(session));
    failed = ort_end_profiling(session, allocator, out);
    ort_session_leave(session);
    return failed;
}

ORT_GETTER(ort_SessionGetProfilingStartTimeNs, const OrtSession *, session, uint64_t, out, session->profile_start_ns)

/* Reads the run's entry `key`, one of the words: *out is the number of the word. Without the entry it is unchanged. */
static OrtStatus *read_word(const OrtRunOptions *options, const char *key, const char *const *words, uint32_t *out)
{
    const char *text = ort_pairs_get(&options->entries, key);

    if (text == NULL)
        return NULL;
    for (uint32_t i = 0; i < 3; i++) {
        if (strcmp(text, words[i]) == 0) {
            *out = i;
            return NULL;
        }
    }
    return ort_fail(ORT_INVALID_ARGUMENT, "%s must be %s, %s or %s, not '%s'", key, words[0], words[1], words[2], text);
}

static OrtStatus *read_options(const OrtRunOptions *options, inlay_run_options *out)
{
    static const char *const priorities[] = { "normal", "low", "high" }; /* INLAY_PRIORITY_* */
    static const char *const powers[] = { "default", "efficiency", "performance" };

    out->cancel = &options->terminate;
    for (size_t i = 0; i < options->entries.count; i++) {
        const char *key = options->entries.keys[i];

        if (strncmp(key, "inlay.", 6) == 0 && strcmp(key, "inlay.priority") != 0 && strcmp(key, "inlay.power") != 0)
            return ort_fail(ORT_INVALID_ARGUMENT,
                            "%.180s is no config entry of a run; there are inlay.priority and inlay.power", key);
    }
    ORT_TRY(read_word(options, "inlay.priority", priorities, &out->priority));
    return read_word(options, "inlay.power", powers, &out->power);
}

static OrtStatus *run_in(OrtSession *session, inlay_context *context, const OrtRunOptions *options,
                         const ort_feed *feeds, size_t feed_count, const fetch_list *list)
{
    inlay_run_options run = INLAY_RUN_OPTIONS_INIT;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;

    ORT_TRY(bind_feeds(session, context, feeds, feed_count));
    ORT_TRY(bind_fetches(session, context, list));
    if (options != NULL)
        ORT_TRY(read_options(options, &run));
    status = inlay_context_run(context, &run, &diag);
    if (status == INLAY_CANCELLED)
        return ort_fail(ORT_FAIL, "Exiting due to terminate flag being set to true.");
    if (status == INLAY_INVALID_ARGUMENT && is_unfed(session, diag.tensor, feeds, feed_count))
        return ort_fail(ORT_FAIL, "Missing Input: %s", diag.tensor);
    if (status != INLAY_OK)
        return ort_fail(status == INLAY_INVALID_ARGUMENT || status == INLAY_SHAPE_MISMATCH ? ORT_INVALID_ARGUMENT
                        : status == INLAY_OUT_OF_MEMORY                                    ? ORT_RUNTIME_EXCEPTION
                        : status == INLAY_UNSUPPORTED                                      ? ORT_NOT_IMPLEMENTED
                                                                                           : ORT_FAIL,
                        "%s%s",
                        status == INLAY_INVALID_ARGUMENT || status == INLAY_SHAPE_MISMATCH
                            ? ""
                            : "Non-zero status code returned while running the model. ",
                        diag.text);
    return collect(session, context, list);
}

static void unbind(inlay_context *context, const ort_feed *feeds, size_t feed_count, const fetch_list *list)
{
    for (size_t i = 0; i < feed_count; i++)
        (void)inlay_context_set_input(context, feeds[i].index, NULL, NULL);
    for (size_t i = 0; i < list->count; i++)
        (void)inlay_context_set_output(context, list->wanted[i], NULL, NULL);
}

static OrtStatus *run_profiled(OrtSession *session, const OrtRunOptions *options, const ort_feed *feeds,
                               size_t feed_count, const fetch_list *list)
{
    OrtStatus *failed;

    (void)pthread_mutex_lock(&session->lock); /* the profile records one run at a time */
    if (session->profiled == NULL) {
        (void)pthread_mutex_unlock(&session->lock);
        return ort_fail(ORT_FAIL, "profiling ended while the run began; run again");
    }
    failed = run_in(session, session->profiled, options, feeds, feed_count, list);
    unbind(session->profiled, feeds, feed_count, list);
    (void)pthread_mutex_unlock(&session->lock);
    return failed;
}

/* A run whose options request a separate profile. */
static OrtStatus *run_and_write(OrtSession *session, inlay_context *context, const OrtRunOptions *options,
                                const ort_feed *feeds, size_t feed_count, const fetch_list *list)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    char path[1200];

    INLAY_CHECK(options != NULL && options->profile_prefix != NULL);
    ORT_TRY(ort_from(inlay_context_profile(context, 1, 0, &diag), &diag));
    ORT_TRY(run_in(session, context, options, feeds, feed_count, list));
    return write_profile(context, options->profile_prefix, path, sizeof path);
}

static OrtStatus *run_free(OrtSession *session, const OrtRunOptions *options, const ort_feed *feeds, size_t feed_count,
                           const fetch_list *list)
{
    bool watched = options != NULL && options->profile_prefix != NULL;
    inlay_context *context;
    OrtStatus *failed;

    ORT_TRY(take_context(session, &context));
    failed = watched ? run_and_write(session, context, options, feeds, feed_count, list)
                     : run_in(session, context, options, feeds, feed_count, list);
    unbind(context, feeds, feed_count, list);
    if (watched)
        inlay_context_destroy(context);
    else
        give_context(session, context);
    return failed;
}

static OrtStatus *run_feeds(OrtSession *session, const OrtRunOptions *options, const ort_feed *feeds, size_t feed_count,
                            const uint32_t *wanted, OrtValue **fetches, size_t fetch_count)
{
    fetch_list list = { .wanted = wanted, .values = fetches, .count = fetch_count };
    bool *created; /* [fetch_count] the run creates this output, which is released if the run fails */
    OrtStatus *failed;

    if (options != NULL && __atomic_load_n(&options->terminate, __ATOMIC_ACQUIRE) != 0)
        return ort_fail(ORT_FAIL, "Exiting due to terminate flag being set to true.");
    created = calloc(fetch_count + 1, sizeof *created);
    if (created == NULL)
        return ort_no_memory();
    for (size_t i = 0; i < fetch_count; i++)
        created[i] = fetches[i] == NULL;
    failed = __atomic_load_n(&session->profiled, __ATOMIC_ACQUIRE) != NULL
                 ? run_profiled(session, options, feeds, feed_count, &list)
                 : run_free(session, options, feeds, feed_count, &list);
    for (size_t i = 0; failed != NULL && i < fetch_count; i++) {
        if (!created[i])
            continue;
        ort_ReleaseValue(fetches[i]);
        fetches[i] = NULL;
    }
    free(created);
    return failed;
}

/* Runs with the parameters of active adapters as further inputs. */
static OrtStatus *run_adapted(OrtSession *session, const OrtRunOptions *options, const ort_feed *feeds,
                              size_t feed_count, const uint32_t *wanted, OrtValue **fetches, size_t fetch_count)
{
    size_t count, all = feed_count;
    OrtStatus *failed = NULL;
    ort_feed *both;

    for (size_t i = 0; i < options->adapter_count; i++) {
        (void)ort_adapter_parameters(options->adapters[i], &count);
        all += count;
    }
    both = calloc(all + 1, sizeof *both);
    if (both == NULL)
        return ort_no_memory();
    if (feed_count > 0)
        memcpy(both, feeds, feed_count * sizeof *feeds);
    all = feed_count;
    for (size_t i = 0; failed == NULL && i < options->adapter_count; i++) {
        const ort_parameter *parameters = ort_adapter_parameters(options->adapters[i], &count);

        for (size_t k = 0; failed == NULL && k < count; k++) {
            failed = ort_find_input(session, parameters[k].name, &both[all].index);
            both[all++].value = parameters[k].value;
        }
    }
    if (failed == NULL)
        failed = run_feeds(session, options, both, all, wanted, fetches, fetch_count);
    free(both);
    return failed;
}

OrtStatus *ort_run(OrtSession *session, const OrtRunOptions *options, const ort_feed *feeds, size_t feed_count,
                   const uint32_t *wanted, OrtValue **fetches, size_t fetch_count)
{
    if (options != NULL && options->adapter_count > 0)
        return run_adapted(session, options, feeds, feed_count, wanted, fetches, fetch_count);
    return run_feeds(session, options, feeds, feed_count, wanted, fetches, fetch_count);
}

OrtStatus *ort_find_input(const OrtSession *session, const char *name, uint32_t *out)
{
    ORT_NEED(name);
    ORT_TRY(ort_session_ready(session));
    *out = inlay_session_find_input(session->session, name);
    return *out != INLAY_NONE ? NULL : ort_fail(ORT_INVALID_ARGUMENT, "Invalid input name: %s", name);
}

OrtStatus *ort_find_output(const OrtSession *session, const char *name, uint32_t *out)
{
    ORT_NEED(name);
    ORT_TRY(ort_session_ready(session));
    *out = inlay_session_find_output(session->session, name);
    return *out != INLAY_NONE ? NULL : ort_fail(ORT_INVALID_ARGUMENT, "Invalid output name: %s", name);
}

static OrtStatus *run_by_name(OrtSession *session, const OrtRunOptions *run_options, const char *const *input_names,
                              const OrtValue *const *inputs, size_t input_len, const char *const *output_names,
                              size_t output_names_len, OrtValue **outputs)
{
    OrtStatus *failed = NULL;
    uint32_t *wanted;
    ort_feed *feeds;

    if (input_len > 0) {
        ORT_NEED(input_names);
        ORT_NEED(inputs);
    }
    if (output_names_len == 0)
        return ort_fail(ORT_INVALID_ARGUMENT, "At least one output should be requested.");
    ORT_NEED(output_names);
    ORT_NEED(outputs);
    feeds = calloc(input_len + 1, sizeof *feeds);
    wanted = calloc(output_names_len, sizeof *wanted);
    if (feeds == NULL || wanted == NULL)
        failed = ort_no_memory();
    for (size_t i = 0; i < input_len && failed == NULL; i++) {
        failed = ort_find_input(session, input_names[i], &feeds[i].index);
        feeds[i].value = inputs[i];
        if (failed == NULL && inputs[i] == NULL)
            failed = ort_fail(ORT_INVALID_ARGUMENT, "NULL input supplied for input %s", input_names[i]);
    }
    for (size_t i = 0; i < output_names_len && failed == NULL; i++)
        failed = ort_find_output(session, output_names[i], &wanted[i]);
    if (failed == NULL)
        failed = ort_run(session, run_options, feeds, input_len, wanted, outputs, output_names_len);
    free(feeds);
    free(wanted);
    return failed;
}

OrtStatus *ort_Run(OrtSession *session, const OrtRunOptions *run_options, const char *const *input_names,
                   const OrtValue *const *inputs, size_t input_len, const char *const *output_names,
                   size_t output_names_len, OrtValue **outputs)
{
    OrtStatus *failed;

    ORT_NEED(session);
    ORT_TRY(ort_session_enter(session));
    failed = run_by_name(session, run_options, input_names, inputs, input_len, output_names, output_names_len, outputs);
    ort_session_leave(session);
    return failed;
}
