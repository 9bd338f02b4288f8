#include "serve/schedule/trace.h"
#include "base/output.h"
#include "inlay/check.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_MODELS = 256 };

/* Settings of one model; those that are not set are the global ones. */
typedef struct trace_entry {
    char *model; /* NULL: global */
    bool set[TRACE_KEYS];
    int64_t values[TRACE_KEYS];
    uint64_t seen; /* requests since the last recorded one */
} trace_entry;

struct trace {
    int file; /* -1 = none */
    char *path;
    atomic_bool on; /* any model is traced */
    pthread_mutex_t lock;
    trace_entry all, models[MAX_MODELS];
    uint32_t model_count;
    uint64_t written; /* requests */
    board_counts *counts;
    off_t end; /* size of the file without the final "\n]\n"; 0: the disk was full at the start */
};

static const int64_t defaults[TRACE_KEYS] = { 0, 1000, -1 }; /* as in Triton */

/* Writes an empty array. A full disk does not keep the server from starting: the first record begins the array then. */
static void begin_array(struct trace *trace)
{
    static const char empty[] = "[\n]\n";

    if (pwrite(trace->file, empty, sizeof empty - 1, 0) == (ssize_t)sizeof empty - 1)
        trace->end = 1;
    else
        (void)ftruncate(trace->file, 0);
}

inlay_status trace_create(const char *path, board_counts *counts, struct trace **out_trace, inlay_diag *diag)
{
    struct trace *trace = calloc(1, sizeof *trace);

    *out_trace = NULL;
    if (trace == NULL || (trace->path = strdup(path)) == NULL) {
        free(trace);
        return no_memory(diag, "for the trace");
    }
    trace->file = path[0] != '\0' ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640) : -1;
    if (path[0] != '\0' && trace->file < 0) {
        free(trace->path);
        free(trace);
        return output_not_created(path, diag);
    }
    if (trace->file >= 0)
        begin_array(trace);
    trace->counts = counts;
    (void)pthread_mutex_init(&trace->lock, NULL);
    memcpy(trace->all.values, defaults, sizeof defaults);
    *out_trace = trace;
    return INLAY_OK;
}

void trace_destroy(struct trace *trace)
{
    if (trace == NULL)
        return;
    for (uint32_t i = 0; i < trace->model_count; i++)
        free(trace->models[i].model);
    if (trace->file >= 0)
        (void)close(trace->file);
    (void)pthread_mutex_destroy(&trace->lock);
    free(trace->path);
    free(trace);
}

static inlay_status take_level(const struct trace *trace, const char *text, int64_t *out, inlay_diag *diag)
{
    if (strcmp(text, "TENSORS") == 0)
        return inlay_fail(
            diag, INLAY_INVALID_ARGUMENT,
            "trace_level TENSORS is not supported, because it would write the clients' data; use TIMESTAMPS or OFF");
    if (strcmp(text, "TIMESTAMPS") != 0 && strcmp(text, "OFF") != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "trace_level must be TIMESTAMPS or OFF, not '%.40s'", text);
    *out = text[0] == 'T';
    if (*out == 1 && trace->file < 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "no trace file: start the server with trace_file");
    return INLAY_OK;
}

static inlay_status take_number(const char *key, const char *text, int64_t least, int64_t *out, inlay_diag *diag)
{
    char *end;

    errno = 0;
    *out = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || *out < least || *out > UINT32_MAX)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s must be a number from %lld to 4294967295", key,
                          (long long)least);
    return INLAY_OK;
}

/* Settings that cannot be changed are accepted with their present value. */
static inlay_status check_fixed(const struct trace *trace, const char *key, const char *const *values, uint32_t count,
                                inlay_diag *diag)
{
    const struct {
        const char *key, *value;
    } fixed[] = { { "log_frequency", "0" }, { "trace_file", trace->path }, { "trace_mode", "triton" } };

    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        if (strcmp(fixed[i].key, key) != 0)
            continue;
        return count == 0 || (count == 1 && strcmp(values[0], fixed[i].value) == 0)
                   ? INLAY_OK
                   : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "a request cannot change %s; it is \"%s\"", key,
                                fixed[i].value);
    }
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "unknown trace setting '%.64s'", key);
}

inlay_status trace_change_add(const struct trace *trace, trace_change *change, const char *key,
                              const char *const *values, uint32_t count, inlay_diag *diag)
{
    static const char *const keys[TRACE_KEYS] = { "trace_level", "trace_rate", "trace_count" };
    static const int64_t least[TRACE_KEYS] = { 0, 1, -1 };
    inlay_status status = INLAY_OK;
    int index = 0;

    while (index < TRACE_KEYS && strcmp(keys[index], key) != 0)
        index++;
    if (index == TRACE_KEYS)
        return check_fixed(trace, key, values, count, diag);
    if (count > 1 && index != TRACE_LEVEL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s must be one number", key);
    for (uint32_t i = 0; status == INLAY_OK && i < count; i++)
        status = index == TRACE_LEVEL ? take_level(trace, values[i], &change->values[index], diag)
                                      : take_number(key, values[i], least[index], &change->values[index], diag);
    change->given[index] = true;
    change->cleared[index] = count == 0;
    return status;
}

/* The settings of a model; NULL: it has none. The caller holds the lock. */
static trace_entry *find_entry(struct trace *trace, const char *name)
{
    if (name == NULL)
        return &trace->all;
    for (uint32_t i = 0; i < trace->model_count; i++)
        if (strcmp(trace->models[i].model, name) == 0)
            return &trace->models[i];
    return NULL;
}

static int64_t value_of(const struct trace *trace, const trace_entry *entry, trace_key key)
{
    return entry != NULL && entry->set[key] ? entry->values[key] : trace->all.values[key];
}

inlay_status trace_apply(struct trace *trace, const char *name, const trace_change *change, inlay_diag *diag)
{
    trace_entry *entry;
    bool on;

    (void)pthread_mutex_lock(&trace->lock);
    entry = find_entry(trace, name);
    if (entry == NULL && trace->model_count < MAX_MODELS &&
        (trace->models[trace->model_count].model = strdup(name)) != NULL)
        entry = &trace->models[trace->model_count++];
    for (int k = 0; entry != NULL && k < TRACE_KEYS; k++) {
        if (!change->given[k])
            continue;
        entry->set[k] = !change->cleared[k];
        entry->values[k] = change->cleared[k] ? defaults[k] : change->values[k];
        if (k == TRACE_RATE)
            entry->seen = 0;
    }
    on = trace->all.values[TRACE_LEVEL] != 0;
    for (uint32_t i = 0; i < trace->model_count; i++)
        on |= value_of(trace, &trace->models[i], TRACE_LEVEL) != 0;
    atomic_store(&trace->on, on);
    (void)pthread_mutex_unlock(&trace->lock);
    return entry != NULL
               ? INLAY_OK
               : inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "more than %d models have separate trace settings", MAX_MODELS);
}

void trace_read(struct trace *trace, const char *name, trace_setting out[TRACE_SETTINGS])
{
    const trace_entry *entry;

    memset(out, 0, TRACE_SETTINGS * sizeof *out);
    (void)pthread_mutex_lock(&trace->lock);
    entry = find_entry(trace, name);
    out[0] = (trace_setting){ .key = "trace_level", .is_list = true };
    (void)snprintf(out[0].value, sizeof out[0].value, "%s",
                   value_of(trace, entry, TRACE_LEVEL) != 0 ? "TIMESTAMPS" : "OFF");
    out[1].key = "trace_rate";
    (void)snprintf(out[1].value, sizeof out[1].value, "%lld", (long long)value_of(trace, entry, TRACE_RATE));
    out[2].key = "trace_count";
    (void)snprintf(out[2].value, sizeof out[2].value, "%lld", (long long)value_of(trace, entry, TRACE_COUNT));
    (void)pthread_mutex_unlock(&trace->lock);
    out[3] = (trace_setting){ .key = "log_frequency", .value = "0" };
    out[4].key = "trace_file";
    (void)snprintf(out[4].value, sizeof out[4].value, "%s", trace->path);
    out[5] = (trace_setting){ .key = "trace_mode", .value = "triton" };
}

/* Whether the request is sampled. The caller holds the lock. */
static bool is_due(struct trace *trace, const struct model *model)
{
    trace_entry *entry = find_entry(trace, model->name), *counter;
    int64_t left = value_of(trace, entry, TRACE_COUNT);

    if (value_of(trace, entry, TRACE_LEVEL) == 0 || left == 0)
        return false;
    counter = entry != NULL && entry->set[TRACE_RATE] ? entry : &trace->all;
    if (++counter->seen < (uint64_t)value_of(trace, entry, TRACE_RATE))
        return false;
    counter->seen = 0;
    counter = entry != NULL && entry->set[TRACE_COUNT] ? entry : &trace->all;
    if (left > 0)
        counter->values[TRACE_COUNT]--;
    return true;
}

static void write_timestamp(struct strbuf *to, const char *name, uint64_t ns, bool last)
{
    strbuf_format(to, "{\"name\":\"%s\",\"ns\":%llu}%s", name, (unsigned long long)ns, last ? "" : ",");
}

/* Overwrites the end of the array with the record, which ends in the same way. false: the disk is full; the array
 * remains as it was, since its end is written where it has been before. */
static bool write_record(const struct trace *trace, const struct strbuf *record)
{
    static const char tail[] = "\n]\n";
    const size_t tail_bytes = sizeof tail - 1;

    if (!record->failed && pwrite(trace->file, record->data, record->size, trace->end) == (ssize_t)record->size)
        return true;
    if (trace->end == 0)
        (void)ftruncate(trace->file, 0);
    else if (pwrite(trace->file, tail, tail_bytes, trace->end) == (ssize_t)tail_bytes)
        (void)ftruncate(trace->file, trace->end + (off_t)tail_bytes);
    return false;
}

void trace_request(struct trace *trace, const struct job *job, uint64_t answered_ns)
{
    struct strbuf record = { .data = NULL };
    uint64_t input_end;

    if (!atomic_load_explicit(&trace->on, memory_order_relaxed))
        return;
    INLAY_CHECK(job->run.ended_ns >= job->run.compute_ns);
    input_end = job->run.ended_ns - job->run.compute_ns;
    (void)pthread_mutex_lock(&trace->lock);
    if (is_due(trace, job->model)) {
        unsigned long long id = trace->written + 1;

        strbuf_format(&record, "%s{\"id\":%llu,\"model_name\":\"%s\",\"model_version\":%s",
                      trace->end == 0 ? "[\n"
                      : id > 1        ? ",\n"
                                      : "\n",
                      id, job->model->name, job->model->version);
        if (job->run.variant != NULL) {
            strbuf_text(&record, ",\"variant\":");
            strbuf_json(&record, job->run.variant, strlen(job->run.variant));
        }
        if (job->request->id[0] != '\0') {
            strbuf_text(&record, ",\"request_id\":");
            strbuf_json(&record, job->request->id, strlen(job->request->id));
        }
        strbuf_format(&record, "},\n{\"id\":%llu,\"timestamps\":[", id);
        write_timestamp(&record, "REQUEST_START", job->arrived_ns, false);
        write_timestamp(&record, "QUEUE_START", job->run.queued_ns, false);
        write_timestamp(&record, "COMPUTE_START", job->run.started_ns, false);
        write_timestamp(&record, "COMPUTE_INPUT_END", input_end, false);
        write_timestamp(&record, "COMPUTE_OUTPUT_START", job->run.ended_ns, false);
        write_timestamp(&record, "COMPUTE_END", answered_ns, false);
        write_timestamp(&record, "REQUEST_END", answered_ns, true);
        strbuf_text(&record, "]}\n]\n");
        if (write_record(trace, &record)) {
            trace->end += (off_t)(record.size - strlen("\n]\n"));
            trace->written++;
        } else {
            (void)atomic_fetch_add_explicit(&trace->counts->lost_records, 1, memory_order_relaxed);
        }
    }
    (void)pthread_mutex_unlock(&trace->lock);
    strbuf_deinit(&record);
}
