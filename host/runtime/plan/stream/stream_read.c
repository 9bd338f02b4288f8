/* plan/stream/stream_read.c - reads weights from their files, and gives their pages back. */
#include "plan/stream/stream_state.h"
#include "base/clock.h"
#include "base/pages.h"
#include "inlay/check.h"
#include "inlay/types.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Since Linux 5.14; older headers lack it. */
#if defined(__linux__) && !defined(MADV_POPULATE_READ)
#define MADV_POPULATE_READ 22
#endif

enum { PIECE_BYTES = 8 << 20 }; /* read at once: a thread that stops waits for one piece */

#if defined(MADV_POPULATE_READ)
/* The piece of [from, end) that is read at once. */
static size_t piece(const char *from, const char *end)
{
    return end - from < PIECE_BYTES ? (size_t)(end - from) : PIECE_BYTES;
}
#endif

/* Reads the pages [from, end) of a mapping. Returns an errno. A page after the end of a truncated file is an error
 * here, where an access would raise SIGBUS. ahead: they are probably not in memory, so two pieces at a
 * time are requested before they are mapped. A page fault would also read neighbouring pages. */
static int read_pages(char *from, char *end, bool ahead)
{
#if defined(MADV_POPULATE_READ)
    if (ahead)
        (void)madvise(from, piece(from, end), MADV_WILLNEED);
    while (from < end) {
        const size_t bytes = piece(from, end);

        if (ahead && from + bytes < end)
            (void)madvise(from + bytes, piece(from + bytes, end), MADV_WILLNEED);
        if (madvise(from, bytes, MADV_POPULATE_READ) == 0)
            from += bytes;
        else if (errno == EINVAL) /* an old system: the pages are read when the step uses them */
            return madvise(from, (size_t)(end - from), MADV_WILLNEED) == 0 ? 0 : errno;
        else if (errno != EINTR && errno != EAGAIN)
            return errno;
    }
    return 0;
#else
    (void)ahead;
    return madvise(from, (size_t)(end - from), MADV_WILLNEED) == 0 ? 0 : errno;
#endif
}

int stream_read_pages(const char *data, uint64_t bytes, bool ahead)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

    return read_pages((char *)((uintptr_t)data / page * page),
                      (char *)(((uintptr_t)data + bytes + page - 1) / page * page), ahead);
}

void stream_advise_random(const stream_range *range)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)range->data + page - 1) / page * page;
    const uintptr_t end = ((uintptr_t)range->data + range->bytes) / page * page;

    if (from < end)
        (void)madvise((char *)from, end - from, MADV_RANDOM);
}

static uint32_t distance_to(const struct weight_stream *stream, uint32_t position)
{
    return position >= stream->at ? position - stream->at : stream->positions - stream->at + position;
}

/* Number of steps, in the order of a run, from the step that began last to the next step that reads the range. */
static uint32_t stream_distance(const struct weight_stream *stream, const stream_range *range)
{
    uint32_t first, last;

    if (range->first == INLAY_NONE || stream->at >= stream->positions) /* of a program that was created later */
        return stream->positions;
    first = distance_to(stream, range->first);
    last = distance_to(stream, range->last);
    return first < last ? first : last;
}

static uint64_t allowed(const struct weight_stream *stream)
{
    return stream->least + (stream->spare != NULL ? stream->spare(stream->spare_ctx) : 0);
}

void stream_drop(struct weight_stream *stream, stream_range *range)
{
    INLAY_CHECK(range->pins == 0 && range->state != RANGE_LOADING);
    if (range->state != RANGE_PRESENT)
        return;
    range->state = RANGE_ABSENT;
    pages_drop(range->data, range->bytes);
    if (!range->resident)
        stream->loaded -= range->bytes;
}

static void drop_one(struct weight_stream *stream, const stream_range *range, uint32_t part)
{
    if (range->parts->list[part].slot == NULL)
        pages_drop(range->data + part * range->parts->bytes, range->parts->bytes);
    stream_direct_forget(stream, &range->parts->list[part]);
    range->parts->list[part].used = 0;
    stream->loaded -= range->parts->bytes;
}

/* Gives back the pages of the part that was used longest ago. False: no part is in memory that no step reads. */
static bool stream_drop_part(struct weight_stream *stream)
{
    const stream_range *oldest = NULL;
    uint64_t least = UINT64_MAX;
    uint32_t index = 0;

    for (uint32_t i = 0; i < stream->range_count; i++) {
        const stream_parts *parts = stream->ranges[i].parts;

        for (uint32_t p = 0; parts != NULL && p < parts->count; p++) {
            const stream_part *part = &parts->list[p];

            if (part->used == 0 || part->pins > 0 || part->pending > 0 || part->used >= least)
                continue;
            least = part->used;
            oldest = &stream->ranges[i];
            index = p;
        }
    }
    if (oldest != NULL)
        drop_one(stream, oldest, index);
    return oldest != NULL;
}

void stream_drop_parts(struct weight_stream *stream, const stream_range *range)
{
    for (uint32_t p = 0; range->parts != NULL && p < range->parts->count; p++)
        if (range->parts->list[p].used > 0 && range->parts->list[p].pins == 0)
            drop_one(stream, range, p);
}

uint64_t stream_part_bytes(const struct weight_stream *stream, const struct step_weights *weights)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < weights->count; i++)
        if (weights->entries[i].use == STREAM_PARTS)
            sum += stream->ranges[weights->entries[i].range].parts->bytes;
    return sum;
}

bool stream_make_room(struct weight_stream *stream, uint64_t bytes, uint32_t distance)
{
    const uint64_t most = allowed(stream);

    while (stream->loaded + bytes > most) {
        stream_range *furthest = NULL;
        uint32_t longest = distance;

        if (stream_drop_part(stream))
            continue;

        for (uint32_t i = 0; i < stream->range_count; i++) {
            stream_range *range = &stream->ranges[i];
            const bool idle = range->state == RANGE_PRESENT && range->pins == 0 && !range->resident;
            const uint32_t away = idle ? stream_distance(stream, range) : 0;

            if (away <= longest)
                continue;
            longest = away;
            furthest = range;
        }
        if (furthest == NULL)
            return false;
        stream_drop(stream, furthest);
    }
    return true;
}

/* Reads a range that is absent; gives the lock up meanwhile. Returns an errno; then the range stays absent. The index
 * stays valid, pointers to ranges do not. */
static int stream_load(struct weight_stream *stream, uint32_t index)
{
    stream_range *range = &stream->ranges[index];
    const stream_range copy = *range;
    uint64_t start;
    int error;

    INLAY_CHECK(range->state == RANGE_ABSENT);
    range->state = RANGE_LOADING;
    stream->loaded += range->resident ? 0 : range->bytes;
    stream->loading++;
    (void)pthread_mutex_unlock(&stream->lock);
    start = clock_ns();
    error = stream_read_pages(copy.data, copy.bytes, true);
    (void)pthread_mutex_lock(&stream->lock);
    if (error == 0 && !copy.resident) {
        stream->reads.bytes += copy.bytes;
        stream->reads.ns += clock_ns() - start;
    }
    range = &stream->ranges[index];
    range->state = error == 0 ? RANGE_PRESENT : RANGE_ABSENT;
    stream->loading--;
    if (error != 0)
        stream->loaded -= range->resident ? 0 : range->bytes;
    (void)pthread_cond_broadcast(&stream->moved);
    return error;
}

/* The next range in the order of the run that is absent; INLAY_NONE: none. */
static uint32_t next_absent(const struct weight_stream *stream)
{
    uint32_t next = INLAY_NONE, least = stream->positions;

    for (uint32_t i = 0; i < stream->range_count; i++) {
        const stream_range *range = &stream->ranges[i];
        const uint32_t away =
            range->state == RANGE_ABSENT && range->read_by > 0 ? stream_distance(stream, range) : stream->positions;

        if (away >= least)
            continue;
        least = away;
        next = i;
    }
    return next;
}

static void *read_ahead(void *user)
{
    struct weight_stream *stream = user;

    (void)pthread_mutex_lock(&stream->lock);
    while (!stream->ends) {
        const uint32_t next = stream->at == INLAY_NONE || stream->broken ? INLAY_NONE : next_absent(stream);
        const stream_range *range = next != INLAY_NONE ? &stream->ranges[next] : NULL;

        if (range == NULL ||
            !stream_make_room(stream, range->resident ? 0 : range->bytes, stream_distance(stream, range)))
            (void)pthread_cond_wait(&stream->wanted, &stream->lock);
        else if (stream_load(stream, next) != 0)
            stream->broken = true;
    }
    (void)pthread_mutex_unlock(&stream->lock);
    return NULL;
}

void stream_start(struct weight_stream *stream)
{
    sigset_t all, before;

    (void)sigfillset(&all); /* signals are handled by the application's threads */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    stream->has_thread = pthread_create(&stream->thread, NULL, read_ahead, stream) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void weight_stream_inherit(struct weight_stream *stream)
{
    if (stream == NULL)
        return;
    (void)pthread_mutex_init(&stream->lock, NULL);
    (void)pthread_cond_init(&stream->moved, NULL);
    (void)pthread_cond_init(&stream->wanted, NULL);
    for (uint32_t i = 0; i < stream->range_count; i++)
        stream->ranges[i].state = RANGE_ABSENT; /* also ranges that the thread was reading */
    for (uint32_t i = 0; i < stream->range_count; i++)
        for (uint32_t k = 0; stream->ranges[i].parts != NULL && k < stream->ranges[i].parts->count; k++)
            stream->ranges[i].parts->list[k] = (stream_part){ .used = 0 };
    stream_direct_end(stream, true);
    stream->loaded = 0;
    stream->pinned = stream->loading = 0;
    stream->has_thread = false;
    if (stream->least > 0)
        stream_start(stream);
}

static bool is_read(const struct step_weights *weights, uint32_t i)
{
    return weights->entries[i].use == STREAM_ALL;
}

/* Bytes that must be read for the step, and that do not stay in memory. Those of parts are not known yet. */
static uint64_t absent_bytes(const struct weight_stream *stream, const struct step_weights *weights)
{
    uint64_t sum = stream_part_bytes(stream, weights);

    for (uint32_t i = 0; i < weights->count; i++) {
        const stream_range *range = &stream->ranges[weights->entries[i].range];

        sum += is_read(weights, i) && range->state == RANGE_ABSENT && !range->resident ? range->bytes : 0;
    }
    return sum;
}

/* change: 1 or UINT32_MAX, which is -1. */
static void set_pins(struct weight_stream *stream, const struct step_weights *weights, uint32_t change)
{
    for (uint32_t i = 0; i < weights->count; i++)
        if (is_read(weights, i))
            stream->ranges[weights->entries[i].range].pins += change;
}

/* Waits until the range is in memory, or reads it. Returns an errno. */
static int await_range(struct weight_stream *stream, uint32_t range)
{
    const bool present = stream->ranges[range].state == RANGE_PRESENT;
    stream_range copy;
    int error = 0;

    while (error == 0 && stream->ranges[range].state != RANGE_PRESENT) {
        if (stream->ranges[range].state == RANGE_LOADING)
            (void)pthread_cond_wait(&stream->moved, &stream->lock);
        else
            error = stream_load(stream, range);
    }
    if (!present)
        return error;
    /* The system may have taken pages, and the file may have been truncated. If neither happened, reading the range
     * again takes no time. */
    copy = stream->ranges[range];
    (void)pthread_mutex_unlock(&stream->lock);
    error = stream_read_pages(copy.data, copy.bytes, false);
    (void)pthread_mutex_lock(&stream->lock);
    return error;
}

inlay_status stream_fail(int error, inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_IO_ERROR,
                      "its weights cannot be read (%s): the model's file, or that of its packed weights in the cache "
                      "folder, was truncated or is damaged; create the session again",
                      strerror(error == EFAULT ? EIO : error));
}

inlay_status weight_stream_enter(struct weight_stream *stream, struct step_weights *weights, inlay_diag *diag)
{
    int error = 0;

    (void)pthread_mutex_lock(&stream->lock);
    /* Memory for all weights of the step is reserved in one call, so that steps of several contexts never wait for each
     * other's memory. A step that runs alone may read in any case. */
    for (;;) {
        stream->at = weights->position;
        /* the weights of the step that are in memory must not be dropped to make room for its other weights */
        set_pins(stream, weights, 1);
        if (stream_make_room(stream, absent_bytes(stream, weights), 0) || stream->pinned + stream->loading == 0)
            break;
        set_pins(stream, weights, UINT32_MAX);
        (void)pthread_cond_wait(&stream->moved, &stream->lock);
    }
    stream->pinned++;
    stream->loaded += stream_part_bytes(stream, weights); /* until the step asks for parts */
    stream->broken = false;
    (void)pthread_cond_signal(&stream->wanted);
    for (uint32_t i = 0; i < weights->count && error == 0; i++)
        if (is_read(weights, i))
            error = await_range(stream, weights->entries[i].range);
    (void)pthread_mutex_unlock(&stream->lock);
    if (error == 0)
        return INLAY_OK;
    weight_stream_leave(stream, weights);
    return stream_fail(error, diag);
}

void weight_stream_leave(struct weight_stream *stream, struct step_weights *weights)
{
    (void)pthread_mutex_lock(&stream->lock);
    INLAY_CHECK(stream->pinned > 0);
    stream->pinned--;
    stream->loaded -= stream_part_bytes(stream, weights);
    set_pins(stream, weights, UINT32_MAX);
    for (uint32_t i = 0; i < weights->count; i++) {
        const stream_range *range = &stream->ranges[weights->entries[i].range];

        if (range->read_by == 0 && range->parts == NULL)
            pages_drop(range->data, range->bytes);
    }
    (void)pthread_cond_broadcast(&stream->moved);
    (void)pthread_cond_signal(&stream->wanted);
    (void)pthread_mutex_unlock(&stream->lock);
}

void weight_stream_trim(struct weight_stream *stream)
{
    if (stream == NULL)
        return;
    (void)pthread_mutex_lock(&stream->lock);
    stream->at = INLAY_NONE;
    for (uint32_t i = 0; i < stream->range_count; i++)
        if (stream->ranges[i].pins == 0 && stream->ranges[i].state == RANGE_PRESENT)
            stream_drop(stream, &stream->ranges[i]);
    stream_direct_settle(stream);
    while (stream_drop_part(stream))
        ;
    stream_slots_trim(stream->slots);
    (void)pthread_mutex_unlock(&stream->lock);
}
