#include "serve/schedule/otlp.h"
#include "inlay/check.h"
#include "serve/base/log.h"
#include "serve/base/monitor.h"
#include "serve/model/run_profile.h"
#include "serve/schedule/collector.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    QUEUE = 2048,
    BATCH = 256,           /* records of a message */
    PERIOD_MS = 500,       /* between two looks at the queue */
    MAX_STEPS = 1024,      /* spans of the steps of a request */
    PROFILES = 256,        /* profiled runs at once ... */
    PROFILES_A_SECOND = 1, /* ... and then: a hundredth of a per cent of a CPU */
    TRACE_BYTES = 16,
    SPAN_BYTES = 8
};

/* The spans of a request, as they are numbered from its id. */
typedef enum span_part { PART_INFER, PART_RECEIVE, PART_QUEUE, PART_RUN, PART_STEPS } span_part;

/* A request. */
typedef struct span_record {
    char model[BOARD_NAME_BYTES], version[24], variant[64]; /* of a model package; "": none */
    uint8_t trace[TRACE_BYTES], parent[SPAN_BYTES];
    bool has_parent;
    uint64_t id; /* of its span; its parts have the next numbers */
    uint64_t arrived_ns, received_ns, started_ns, compute_ns, ended_ns, answered_ns, rows;
    char failure[160];    /* "" = none */
    run_profile *profile; /* NULL: none; owned */
} span_record;

struct otlp {
    struct collector *collector;
    uint32_t sample;
    board_counts *counts;
    atomic_uint_fast64_t seen, seed;
    atomic_uint_fast64_t profiled_ns; /* time up to which the profiled runs have used PROFILES_A_SECOND */
    pthread_t thread;
    pthread_mutex_t lock; /* guards the fields below; held only briefly */
    pthread_cond_t changed;
    span_record *queue; /* [QUEUE] ring */
    uint32_t first, count;
    bool stop;
    bool failing; /* the thread only: the last message was not taken */
};

static bool read_hex(const char *text, uint32_t bytes, uint8_t *out)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t any = 0;

    for (uint32_t i = 0; i < bytes; i++) {
        const char *high = text[2 * i] != '\0' ? strchr(digits, text[2 * i]) : NULL,
                   *low = high != NULL && text[2 * i + 1] != '\0' ? strchr(digits, text[2 * i + 1]) : NULL;

        if (low == NULL)
            return false;
        out[i] = (uint8_t)((high - digits) << 4 | (low - digits));
        any |= out[i];
    }
    return any != 0;
}

/* VERSION-TRACE-SPAN-FLAGS (W3C Trace Context); false: it is invalid, and ignored as the specification requires. */
static bool read_parent(const char *text, span_record *record, bool *out_sampled)
{
    uint8_t flags[1] = { 0 };

    if (text == NULL || strlen(text) < 55 || text[2] != '-' || text[35] != '-' || text[52] != '-' ||
        strncmp(text, "ff", 2) == 0 || !read_hex(text + 3, TRACE_BYTES, record->trace) ||
        !read_hex(text + 36, SPAN_BYTES, record->parent))
        return false;
    (void)read_hex(text + 53, 1, flags);
    *out_sampled = (flags[0] & 1) != 0;
    return true;
}

/* The next of a sequence of distinct numbers that look random (splitmix64). */
static uint64_t next_id(struct otlp *otlp)
{
    uint64_t id = atomic_fetch_add_explicit(&otlp->seed, UINT64_C(0x9e3779b97f4a7c15), memory_order_relaxed);

    id = (id ^ id >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    id = (id ^ id >> 27) * UINT64_C(0x94d049bb133111eb);
    id ^= id >> 31;
    return id != 0 ? id : 1;
}

static void count(struct otlp *otlp, span_result result, uint64_t number)
{
    (void)atomic_fetch_add_explicit(&otlp->counts->spans[result], number, memory_order_relaxed);
}

/* Whether a run may be profiled now; it is counted. */
static bool may_profile(struct otlp *otlp)
{
    const uint64_t interval = UINT64_C(1000000000) / PROFILES_A_SECOND;
    uint64_t now = clock_ns();
    uint_fast64_t was = atomic_load_explicit(&otlp->profiled_ns, memory_order_relaxed), then;

    do {
        then = (was > now ? was : now) + interval;
        if (then > now + PROFILES * interval)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&otlp->profiled_ns, &was, then, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

void otlp_sample(struct otlp *otlp, struct job *job, const char *traceparent)
{
    span_record parent;
    bool sampled = true;

    if (otlp == NULL)
        return;
    (void)read_parent(traceparent, &parent, &sampled);
    job->run.profile = NULL;
    job->sampled = sampled && atomic_fetch_add_explicit(&otlp->seen, 1, memory_order_relaxed) % otlp->sample == 0;
    job->is_profiled = job->sampled && may_profile(otlp);
}

void otlp_add(struct otlp *otlp, struct job *job, const char *traceparent, uint64_t answered_ns,
              const inlay_diag *failure)
{
    span_record record = { .rows = job->size.rows, .profile = job->run.profile };
    bool sampled, taken;

    job->run.profile = NULL;
    if (otlp == NULL || !job->sampled)
        return;
    record.has_parent = read_parent(traceparent, &record, &sampled);
    if (!record.has_parent) {
        uint64_t trace[2] = { next_id(otlp), next_id(otlp) };

        memcpy(record.trace, trace, sizeof trace);
    }
    record.id = next_id(otlp);
    (void)snprintf(record.model, sizeof record.model, "%s", job->model->name);
    (void)snprintf(record.version, sizeof record.version, "%s", job->model->version);
    (void)snprintf(record.variant, sizeof record.variant, "%s", job->run.variant != NULL ? job->run.variant : "");
    record.arrived_ns = job->arrived_ns;
    record.received_ns = job->received_ns;
    record.started_ns = job->run.started_ns;
    record.compute_ns = job->run.compute_ns;
    record.ended_ns = job->run.ended_ns;
    record.answered_ns = answered_ns;
    if (failure != NULL)
        (void)snprintf(record.failure, sizeof record.failure, "%.159s",
                       failure->text[0] != '\0' ? failure->text : inlay_status_text(failure->code));
    (void)pthread_mutex_lock(&otlp->lock);
    taken = otlp->count < QUEUE;
    if (taken)
        otlp->queue[(otlp->first + otlp->count++) % QUEUE] = record;
    (void)pthread_mutex_unlock(&otlp->lock);
    if (taken)
        return;
    run_profile_unref(record.profile);
    count(otlp, SPANS_DROPPED, 1);
}

static void write_hex(struct strbuf *to, const uint8_t *bytes, uint32_t number)
{
    static const char digits[] = "0123456789abcdef";
    char text[2 * TRACE_BYTES];

    INLAY_CHECK(number <= TRACE_BYTES);
    for (uint32_t i = 0; i < number; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    strbuf_add(to, text, 2 * (size_t)number);
}

static void write_id(struct strbuf *to, uint64_t id)
{
    uint8_t bytes[SPAN_BYTES];

    for (uint32_t i = 0; i < SPAN_BYTES; i++)
        bytes[i] = (uint8_t)(id >> (8 * (SPAN_BYTES - 1 - i)));
    write_hex(to, bytes, SPAN_BYTES);
}

/* wall_ns: the difference between the time since 1970 and clock_ns(). The caller adds the span's end. printf's formats
 * are not used, because they would take most of the time. */
static void write_span(struct strbuf *to, const span_record *record, uint32_t part, uint32_t parent, const char *name,
                       uint64_t start, uint64_t end, uint64_t wall_ns)
{
    strbuf_text(to, "{\"traceId\":\"");
    write_hex(to, record->trace, TRACE_BYTES);
    strbuf_text(to, "\",\"spanId\":\"");
    write_id(to, record->id + part);
    if (part > 0) {
        strbuf_text(to, "\",\"parentSpanId\":\"");
        write_id(to, record->id + parent);
    } else if (record->has_parent) {
        strbuf_text(to, "\",\"parentSpanId\":\"");
        write_hex(to, record->parent, SPAN_BYTES);
    }
    strbuf_text(to, "\",\"name\":");
    strbuf_json(to, name, strlen(name));
    strbuf_text(to,
                part == PART_INFER ? ",\"kind\":2,\"startTimeUnixNano\":\"" : ",\"kind\":1,\"startTimeUnixNano\":\"");
    strbuf_uint(to, start + wall_ns);
    strbuf_text(to, "\",\"endTimeUnixNano\":\"");
    strbuf_uint(to, (end > start ? end : start) + wall_ns);
    strbuf_text(to, "\"");
}

static void write_attribute(struct strbuf *to, const char *key, const char *value)
{
    strbuf_format(to, "{\"key\":\"%s\",\"value\":{\"stringValue\":", key);
    strbuf_json(to, value, strlen(value));
    strbuf_text(to, "}}");
}

/* The step that contains step `index`: the next one of a lower depth; `count`: none. */
static uint32_t parent_of(const inlay_profile_event *steps, uint32_t count, uint32_t index)
{
    uint32_t parent = index + 1;

    while (parent < count && steps[parent].depth >= steps[index].depth)
        parent++;
    return parent;
}

/* Writes the spans of a part of the run, which have the numbers from `first`. Returns how many there are. */
static uint32_t write_steps(struct strbuf *to, const span_record *record, uint32_t stage, uint32_t first,
                            uint64_t wall_ns)
{
    const inlay_profile_event *steps = record->profile->parts[stage].steps;
    const uint32_t room = PART_STEPS + MAX_STEPS - first;
    const uint32_t count =
        record->profile->parts[stage].step_count < room ? record->profile->parts[stage].step_count : room;

    INLAY_CHECK(first <= PART_STEPS + MAX_STEPS);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t parent = parent_of(steps, count, i);

        strbuf_text(to, ",");
        write_span(to, record, first + i, parent < count ? first + parent : PART_RUN, steps[i].op_type,
                   steps[i].begin_ns, steps[i].end_ns, wall_ns);
        strbuf_text(to, ",\"attributes\":[");
        write_attribute(to, "inlay.node", steps[i].name);
        strbuf_text(to, ",");
        write_attribute(to, "inlay.provider", steps[i].provider);
        strbuf_text(to, "]}");
    }
    return count;
}

static void write_record(struct strbuf *to, const span_record *record, uint64_t wall_ns)
{
    bool ran = record->ended_ns > 0;
    uint32_t part = PART_STEPS;
    char name[sizeof record->model + 8];

    (void)snprintf(name, sizeof name, "infer %.*s", (int)sizeof record->model - 1, record->model);
    write_span(to, record, PART_INFER, 0, name, record->arrived_ns, record->answered_ns, wall_ns);
    strbuf_format(to,
                  ",\"attributes\":[{\"key\":\"model.name\",\"value\":{\"stringValue\":\"%s\"}},"
                  "{\"key\":\"model.version\",\"value\":{\"stringValue\":\"%s\"}},"
                  "{\"key\":\"request.rows\",\"value\":{\"intValue\":\"%llu\"}}",
                  record->model, record->version, (unsigned long long)record->rows);
    if (record->variant[0] != '\0') {
        strbuf_text(to, ",");
        write_attribute(to, "model.variant", record->variant);
    }
    strbuf_text(to, "],\"status\":{");
    if (record->failure[0] != '\0') {
        strbuf_text(to, "\"code\":2,\"message\":");
        strbuf_json(to, record->failure, strlen(record->failure));
    }
    strbuf_text(to, "}},");
    write_span(to, record, PART_RECEIVE, PART_INFER, "receive", record->arrived_ns, record->received_ns, wall_ns);
    strbuf_text(to, "},");
    write_span(to, record, PART_QUEUE, PART_INFER, "queue", record->received_ns,
               ran ? record->started_ns : record->answered_ns, wall_ns);
    strbuf_text(to, "}");
    if (!ran)
        return;
    strbuf_text(to, ",");
    write_span(to, record, PART_RUN, PART_INFER, "run", record->ended_ns - record->compute_ns, record->ended_ns,
               wall_ns);
    strbuf_text(to, "}");
    for (uint32_t i = 0; record->profile != NULL && i < record->profile->part_count; i++)
        part += write_steps(to, record, i, part, wall_ns);
}

static void write_message(struct strbuf *to, const span_record *records, uint32_t number)
{
    struct timespec now;
    uint64_t wall_ns;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    wall_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec - clock_ns();
    strbuf_format(to,
                  "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":"
                  "{\"stringValue\":\"inlay-serve\"}},{\"key\":\"service.version\",\"value\":{\"stringValue\":\"%s\"}},"
                  "{\"key\":\"process.pid\",\"value\":{\"intValue\":\"%d\"}}]},"
                  "\"scopeSpans\":[{\"scope\":{\"name\":\"inlay-serve\"},\"spans\":[",
                  inlay_version(), (int)getpid());
    for (uint32_t i = 0; i < number; i++) {
        strbuf_text(to, i > 0 ? "," : "");
        write_record(to, &records[i], wall_ns);
    }
    strbuf_text(to, "]}]}]}");
}

static void send_records(struct otlp *otlp, const span_record *records, uint32_t number)
{
    struct strbuf message = { .data = NULL };
    char why[COLLECTOR_WHY_BYTES];
    bool taken;

    write_message(&message, records, number);
    taken = collector_post(otlp->collector, &message, why);
    strbuf_deinit(&message);
    count(otlp, taken ? SPANS_SENT : SPANS_FAILED, number);
    if (taken && otlp->failing)
        log_line(LOG_INFO_LINE, "trace_endpoint %s takes spans again", collector_url(otlp->collector));
    else if (!taken && !otlp->failing)
        log_line(LOG_WARNING_LINE, "trace_endpoint %s does not take spans, which are dropped: %s",
                 collector_url(otlp->collector), why);
    otlp->failing = !taken;
}

/* Takes up to BATCH records out of the queue. */
static uint32_t take_records(struct otlp *otlp, span_record *out, bool *out_stop)
{
    struct timespec until;
    uint32_t number;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += PERIOD_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_mutex_lock(&otlp->lock);
    while (!otlp->stop && otlp->count < BATCH &&
           pthread_cond_timedwait(&otlp->changed, &otlp->lock, &until) != ETIMEDOUT)
        ;
    number = otlp->count < BATCH ? otlp->count : BATCH;
    for (uint32_t i = 0; i < number; i++)
        out[i] = otlp->queue[(otlp->first + i) % QUEUE];
    otlp->first = (otlp->first + number) % QUEUE;
    otlp->count -= number;
    *out_stop = otlp->stop;
    (void)pthread_mutex_unlock(&otlp->lock);
    return number;
}

static void *serve(void *user)
{
    static span_record records[BATCH];
    struct otlp *otlp = user;
    bool stop = false;
    uint32_t number = 0;

    while (!stop || number > 0) {
        number = take_records(otlp, records, &stop);
        if (number > 0 && !(stop && otlp->failing))
            send_records(otlp, records, number);
        for (uint32_t i = 0; i < number; i++)
            run_profile_unref(records[i].profile);
    }
    return NULL;
}

inlay_status otlp_create(const char *endpoint, const char *ca, uint32_t sample, board_counts *counts,
                         struct otlp **out_otlp, inlay_diag *diag)
{
    struct otlp *otlp;
    uint64_t seed = clock_ns();
    inlay_status status;

    *out_otlp = NULL;
    if (endpoint[0] == '\0')
        return ca[0] == '\0' ? INLAY_OK
                             : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "trace_ca needs trace_endpoint https://...");
    otlp = calloc(1, sizeof *otlp);
    if (otlp == NULL || (otlp->queue = calloc(QUEUE, sizeof *otlp->queue)) == NULL) {
        free(otlp);
        return no_memory(diag, "for spans");
    }
    status = collector_create(endpoint, ca, &otlp->collector, diag);
    if (status != INLAY_OK) {
        free(otlp->queue);
        free(otlp);
        return status;
    }
    (void)getrandom(&seed, sizeof seed, GRND_NONBLOCK);
    atomic_init(&otlp->seed, seed);
    otlp->sample = sample;
    otlp->counts = counts;
    monitor_init(&otlp->lock, &otlp->changed);
    if (pthread_create(&otlp->thread, NULL, serve, otlp) != 0) {
        collector_destroy(otlp->collector);
        free(otlp->queue);
        free(otlp);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "cannot start the thread that sends spans");
    }
    *out_otlp = otlp;
    return INLAY_OK;
}

void otlp_destroy(struct otlp *otlp)
{
    if (otlp == NULL)
        return;
    (void)pthread_mutex_lock(&otlp->lock);
    otlp->stop = true;
    (void)pthread_cond_signal(&otlp->changed);
    (void)pthread_mutex_unlock(&otlp->lock);
    (void)pthread_join(otlp->thread, NULL);
    (void)pthread_cond_destroy(&otlp->changed);
    (void)pthread_mutex_destroy(&otlp->lock);
    collector_destroy(otlp->collector);
    free(otlp->queue);
    free(otlp);
}
