/* Methods that load and unload models and change settings, and Triton's statistics. */
#include "serve/grpc/grpc_internal.h"
#include "inlay/check.h"
#include "serve/base/log.h"
#include "serve/schedule/trace.h"
#include "serve/repository/repository.h"
#include <stdlib.h>
#include <string.h>

static void load_finished(void *user, const inlay_diag *diag)
{
    struct call *call = user;

    if (diag->code == INLAY_NOT_FOUND)
        call_fail(call, GRPC_NOT_FOUND, diag->text);
    else if (diag->code != INLAY_OK)
        call_fail(call, GRPC_INVALID_ARGUMENT, diag->text);
    request_wake(&call->request);
}

/* The reply is Empty: no bytes. */
static void change_model(struct call *call, const uint8_t *message, size_t bytes, bool load)
{
    Inference__RepositoryRequest *request =
        call_unpack(call, &inference__repository_request__descriptor, message, bytes);

    if (request == NULL)
        return;
    if (load && request->n_parameters > 0) {
        call_fail(call, GRPC_INVALID_ARGUMENT,
                  "parameters are not supported: models are always loaded from the repository");
    } else {
        request_load(&call->request, load ? LOAD_TASK_LOAD : LOAD_TASK_UNLOAD, request->model_name,
                     strlen(request->model_name), 0, load_finished, call);
    }
    call_free_unpacked(request);
}

void grpc_load(struct call *call, const uint8_t *message, size_t bytes)
{
    change_model(call, message, bytes, true);
}

void grpc_unload(struct call *call, const uint8_t *message, size_t bytes)
{
    change_model(call, message, bytes, false);
}

static uint64_t get(const atomic_uint_fast64_t *from)
{
    return atomic_load_explicit((atomic_uint_fast64_t *)(uintptr_t)from, memory_order_relaxed);
}

static Inference__Duration duration(uint64_t count, uint64_t ns)
{
    Inference__Duration result = INFERENCE__DURATION__INIT;

    result.count = count;
    result.ns = ns;
    return result;
}

/* Appends the message as field 1 of the reply, so that not all models have to be held at once. */
static void add_model_statistics(struct call *call, Inference__ModelStatistics *statistics)
{
    Inference__StatisticsReply reply = INFERENCE__STATISTICS_REPLY__INIT;

    reply.n_model_stats = 1;
    reply.model_stats = &statistics;
    call_pack(call, &reply.base);
}

/* Adds the runs by their number of rows; false: out of memory. The caller frees the single allocation. */
static bool add_batches(const struct model *model, Inference__ModelStatistics *to)
{
    struct batch {
        Inference__BatchStatistics message, *pointer;
        Inference__Duration input, infer, output;
    };
    struct batch *all = calloc(model->settings.max_batch + 1u, sizeof *all + sizeof(void *));
    size_t used = 0;

    if (all == NULL)
        return false;
    to->batch_stats = (Inference__BatchStatistics **)(void *)(all + model->settings.max_batch + 1);
    for (uint32_t i = 0; i < model->settings.max_batch; i++) {
        uint64_t count = get(&model->metrics.batches[i].count);

        if (count == 0)
            continue;
        inference__batch_statistics__init(&all[used].message);
        all[used].input = duration(count, get(&model->metrics.batches[i].input_ns));
        all[used].infer = duration(count, get(&model->metrics.batches[i].infer_ns));
        all[used].output = duration(count, get(&model->metrics.batches[i].output_ns));
        all[used].message.batch_size = i + 1;
        all[used].message.compute_input = &all[used].input;
        all[used].message.compute_infer = &all[used].infer;
        all[used].message.compute_output = &all[used].output;
        to->batch_stats[used] = &all[used].message;
        used++;
    }
    INLAY_CHECK(used <= model->settings.max_batch);
    to->n_batch_stats = used;
    if (used == 0) {
        free(all);
        to->batch_stats = NULL;
    }
    return true;
}

static void write_statistics(struct call *call, const struct model *model)
{
    const char *name = model->name, *version = model->version;
    board_model sum;
    const model_stats *stats = &sum.stats;
    Inference__ModelStatistics reply = INFERENCE__MODEL_STATISTICS__INIT;
    Inference__InferStatistics infer = INFERENCE__INFER_STATISTICS__INIT;
    uint64_t failed = 0, runs;
    Inference__Duration success, fail, queue, input, compute, output;

    board_sum_model(model->settings.board, model->metrics.board_index, &sum);
    runs = get(&stats->compute.count);
    for (uint32_t i = 0; i < STATS_ERROR_COUNT; i++)
        failed += get(&stats->errors[i]);
    success = duration(get(&stats->request.count), get(&stats->request.ns));
    fail = duration(failed, get(&stats->fail_ns));
    queue = duration(get(&stats->queue.count), get(&stats->queue.ns));
    input = duration(runs, get(&stats->input_ns));
    compute = duration(runs, get(&stats->compute.ns));
    output = duration(runs, get(&stats->output_ns));
    infer.success = &success;
    infer.fail = &fail;
    infer.queue = &queue;
    infer.compute_input = &input;
    infer.compute_infer = &compute;
    infer.compute_output = &output;
    reply.name = (char *)(uintptr_t)name;
    reply.version = (char *)(uintptr_t)version;
    reply.last_inference = get(&stats->last_ms);
    reply.inference_count = get(&stats->rows);
    reply.execution_count = runs;
    reply.inference_stats = &infer;
    if (!add_batches(model, &reply)) {
        call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory for the reply");
        return;
    }
    add_model_statistics(call, &reply);
    if (reply.batch_stats != NULL)
        free(reply.batch_stats[0]); /* the allocation begins with the first message */
}

typedef struct statistics_list {
    struct call *call;
    const char *name; /* "" = all */
    uint64_t version; /* 0 = all */
    uint32_t count;
} statistics_list;

static void add_statistics(void *user, const repository_entry *entry)
{
    statistics_list *list = user;

    if (!repository_matches(entry, list->name[0] != '\0' ? list->name : NULL, strlen(list->name), list->version))
        return;
    list->count++;
    write_statistics(list->call, entry->loaded);
}

void grpc_statistics(struct call *call, const uint8_t *message, size_t bytes)
{
    Inference__ModelName *name = call_unpack(call, &inference__model_name__descriptor, message, bytes);
    statistics_list list = { .call = call };

    if (name == NULL)
        return;
    list.name = name->name;
    if (grpc_version(name->version, &list.version))
        repository_each(call->request.server->repository, add_statistics, &list);
    if (list.count == 0 && (name->name[0] != '\0' || name->version[0] != '\0'))
        call_fail(call, GRPC_NOT_FOUND, "no such model or version is loaded");
    call_free_unpacked(name);
}

static bool change_trace(struct call *call, const Inference__TraceSettings *request, const char *name)
{
    trace_change change = { .given = { false } };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;

    for (size_t i = 0; status == INLAY_OK && i < request->n_settings; i++) {
        const Inference__TraceEntry *entry = request->settings[i];

        status = trace_change_add(call->request.server->trace, &change, entry->key,
                                  entry->value != NULL ? (const char *const *)entry->value->value : NULL,
                                  entry->value != NULL ? (uint32_t)entry->value->n_value : 0, &diag);
    }
    if (status == INLAY_OK)
        status = trace_apply(call->request.server->trace, name, &change, &diag);
    if (status != INLAY_OK)
        call_fail_diag(call, &diag);
    return status == INLAY_OK;
}

static void write_trace(struct call *call, const char *name)
{
    trace_setting settings[TRACE_SETTINGS];
    Inference__TraceSettings reply = INFERENCE__TRACE_SETTINGS__INIT;
    Inference__TraceEntry entries[TRACE_SETTINGS], *list[TRACE_SETTINGS];
    Inference__TraceValue values[TRACE_SETTINGS];
    char *texts[TRACE_SETTINGS];

    trace_read(call->request.server->trace, name, settings);
    for (uint32_t i = 0; i < TRACE_SETTINGS; i++) {
        inference__trace_entry__init(&entries[i]);
        inference__trace_value__init(&values[i]);
        texts[i] = settings[i].value;
        values[i].n_value = 1;
        values[i].value = &texts[i];
        entries[i].key = (char *)(uintptr_t)settings[i].key;
        entries[i].value = &values[i];
        list[i] = &entries[i];
    }
    reply.n_settings = TRACE_SETTINGS;
    reply.settings = list;
    call_pack(call, &reply.base);
}

void grpc_trace_setting(struct call *call, const uint8_t *message, size_t bytes)
{
    Inference__TraceSettings *request = call_unpack(call, &inference__trace_settings__descriptor, message, bytes);
    const char *name;
    struct model *model = NULL;

    if (request == NULL)
        return;
    name = request->model_name[0] != '\0' ? request->model_name : NULL;
    if (name != NULL)
        model = repository_find(call->request.server->repository, name, strlen(name), 0);
    if (name != NULL && model == NULL)
        call_fail(call, GRPC_NOT_FOUND, "no such model is loaded");
    else if (request->n_settings == 0 || (call_may(call, ACCESS_ADMINS) && change_trace(call, request, name)))
        write_trace(call, name);
    model_unref(model);
    call_free_unpacked(request);
}

static bool change_log(struct call *call, const Inference__LogSettings *request)
{
    log_setting changes[LOG_SETTINGS];
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t count = 0;

    for (size_t i = 0; i < request->n_settings; i++) {
        const Inference__LogEntry *entry = request->settings[i];

        if (entry->value == NULL || entry->value->choice_case == INFERENCE__LOG_VALUE__CHOICE__NOT_SET)
            continue;
        if (count == LOG_SETTINGS) {
            (void)inlay_fail(&diag, INLAY_INVALID_ARGUMENT, "more than %d settings", LOG_SETTINGS);
            call_fail_diag(call, &diag);
            return false;
        }
        changes[count] = (log_setting){ .key = entry->key, .kind = LOG_TEXT, .text = "" };
        if (entry->value->choice_case == INFERENCE__LOG_VALUE__CHOICE_STRING_VALUE) {
            changes[count].text = entry->value->string_value;
        } else if (entry->value->choice_case == INFERENCE__LOG_VALUE__CHOICE_BOOL_VALUE) {
            changes[count].kind = LOG_BOOL;
            changes[count].number = entry->value->bool_value != 0;
        } else {
            changes[count].kind = LOG_NUMBER;
            changes[count].number = entry->value->uint_value;
        }
        count++;
    }
    if (log_settings_change(changes, count, &diag) == INLAY_OK)
        return true;
    call_fail_diag(call, &diag);
    return false;
}

static void write_log(struct call *call)
{
    log_setting settings[LOG_SETTINGS];
    Inference__LogSettings reply = INFERENCE__LOG_SETTINGS__INIT;
    Inference__LogEntry entries[LOG_SETTINGS], *list[LOG_SETTINGS];
    Inference__LogValue values[LOG_SETTINGS];

    log_settings_read(settings);
    for (uint32_t i = 0; i < LOG_SETTINGS; i++) {
        inference__log_entry__init(&entries[i]);
        inference__log_value__init(&values[i]);
        entries[i].key = (char *)(uintptr_t)settings[i].key;
        entries[i].value = &values[i];
        list[i] = &entries[i];
        if (settings[i].kind == LOG_TEXT) {
            values[i].choice_case = INFERENCE__LOG_VALUE__CHOICE_STRING_VALUE;
            values[i].string_value = (char *)(uintptr_t)settings[i].text;
        } else if (settings[i].kind == LOG_BOOL) {
            values[i].choice_case = INFERENCE__LOG_VALUE__CHOICE_BOOL_VALUE;
            values[i].bool_value = settings[i].number != 0;
        } else {
            values[i].choice_case = INFERENCE__LOG_VALUE__CHOICE_UINT_VALUE;
            values[i].uint_value = (uint32_t)settings[i].number;
        }
    }
    reply.n_settings = LOG_SETTINGS;
    reply.settings = list;
    call_pack(call, &reply.base);
}

void grpc_log_settings(struct call *call, const uint8_t *message, size_t bytes)
{
    Inference__LogSettings *request = call_unpack(call, &inference__log_settings__descriptor, message, bytes);

    if (request == NULL)
        return;
    if (request->n_settings == 0 || (call_may(call, ACCESS_ADMINS) && change_log(call, request)))
        write_log(call);
    call_free_unpacked(request);
}
