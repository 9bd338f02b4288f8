/* plan/stream/stream_parts.c - divided weights: steps ask for the parts that they read, and parts that were used
 * recently stay in memory.
 *
 * While a step runs that reads such weights, memory for one part of each is reserved (weight_stream_enter). The first
 * parts that the step asks for take its place, so that the step never waits for another one. */
#include "plan/stream/stream_state.h"
#include "inlay/check.h"
#include "inlay/extensions.h"
#include "inlay/types.h"
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_DATA = 16 };

/* The divided weights that a request is about. */
struct request {
    struct {
        uint32_t range;
        const char *data; /* valid without the lock, as `bytes` */
        uint64_t bytes;   /* of a part */
    } list[MOST_DATA];
    uint32_t count;
};

static stream_range *find(const struct weight_stream *stream, const void *data)
{
    for (uint32_t i = 0; i < stream->range_count; i++)
        if (stream->ranges[i].users > 0 && stream->ranges[i].data == data && stream->ranges[i].parts != NULL)
            return &stream->ranges[i];
    return NULL;
}

static bool has(const struct request *asked, const void *data)
{
    uint32_t i = 0;

    while (i < asked->count && asked->list[i].data != data)
        i++;
    return i < asked->count;
}

/* False: an index is too large. */
static bool read_request(const struct weight_stream *stream, const inlay_pack_parts *wanted, struct request *out)
{
    out->count = 0;
    if (wanted->data_count > MOST_DATA)
        return false;
    for (uint32_t i = 0; i < wanted->data_count; i++) {
        const stream_range *range = find(stream, wanted->data[i]);

        for (uint32_t p = 0; range != NULL && p < wanted->part_count; p++)
            if (wanted->parts[p] < 0 || wanted->parts[p] >= range->parts->count)
                return false;
        if (range == NULL || has(out, range->data)) /* layers may share their zero points */
            continue;
        out->list[out->count].range = (uint32_t)(range - stream->ranges);
        out->list[out->count].data = range->data;
        out->list[out->count++].bytes = range->parts->bytes;
    }
    return true;
}

static stream_part *part_of(const struct weight_stream *stream, const struct request *asked, uint32_t i, int64_t part)
{
    INLAY_CHECK(part < stream->ranges[asked->list[i].range].parts->count);
    return &stream->ranges[asked->list[i].range].parts->list[part];
}

/* Bytes of one part of each. */
static uint64_t reserved(const struct request *asked)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < asked->count; i++)
        sum += asked->list[i].bytes;
    return sum;
}

/* change: 1 or UINT32_MAX, which is -1. Returns the bytes that are not in memory. */
static uint64_t set_pins(struct weight_stream *stream, const struct request *asked, int64_t index, uint32_t change)
{
    uint64_t absent = 0;

    for (uint32_t i = 0; i < asked->count; i++) {
        stream_part *part = part_of(stream, asked, i, index);

        INLAY_CHECK(part->pins > 0 || change == 1);
        part->pins += change;
        absent += part->used == 0 ? asked->list[i].bytes : 0;
    }
    return absent;
}

static const char *place_of(const struct request *asked, uint32_t i, int64_t part)
{
    return asked->list[i].data + (uint64_t)part * asked->list[i].bytes;
}

/* Waits until the first `ready` parts are in memory, and stores their addresses in wanted->places. */
static void find_places(struct weight_stream *stream, const struct request *asked, const inlay_pack_parts *wanted,
                        uint32_t ready)
{
    for (uint32_t p = 0; p < ready; p++)
        for (uint32_t i = 0; i < asked->count; i++) {
            const int64_t part = wanted->parts[p];
            const char *slot = stream_direct_await(stream, &stream->ranges[asked->list[i].range], (uint32_t)part);

            for (uint32_t d = 0; wanted->places != NULL && d < wanted->data_count; d++)
                if (wanted->data[d] == asked->list[i].data)
                    wanted->places[p * wanted->data_count + d] = slot != NULL ? slot : place_of(asked, i, part);
        }
}

/* Is the part read from the mapping of its file? Called without the lock. */
static bool is_mapped(struct weight_stream *stream, const struct request *asked, uint32_t i,
                      const inlay_pack_parts *wanted, uint32_t p)
{
    bool mapped;

    (void)pthread_mutex_lock(&stream->lock);
    mapped = wanted->places == NULL || part_of(stream, asked, i, wanted->parts[p])->slot == NULL;
    (void)pthread_mutex_unlock(&stream->lock);
    return mapped;
}

/* Asks for all parts before it waits for the first `ready` ones: the disk has many requests at a time. */
static int read_mapped(struct weight_stream *stream, const struct request *asked, const inlay_pack_parts *wanted,
                       uint32_t count, uint32_t ready)
{
    int error = 0;

#if defined(MADV_WILLNEED)
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

    for (uint32_t p = 0; p < count; p++)
        for (uint32_t i = 0; i < asked->count; i++) {
            const uintptr_t data = (uintptr_t)place_of(asked, i, wanted->parts[p]);

            if (is_mapped(stream, asked, i, wanted, p))
                (void)madvise((void *)(data / page * page), data % page + asked->list[i].bytes, MADV_WILLNEED);
        }
#endif
    for (uint32_t p = 0; p < ready && error == 0; p++)
        for (uint32_t i = 0; i < asked->count && error == 0; i++)
            if (is_mapped(stream, asked, i, wanted, p))
                error = stream_read_pages(place_of(asked, i, wanted->parts[p]), asked->list[i].bytes, false);
    return error;
}

static void unpin(struct weight_stream *stream, const struct request *asked, const inlay_pack_parts *parts,
                  uint32_t count)
{
    for (uint32_t p = 0; p < count; p++)
        (void)set_pins(stream, asked, parts->parts[p], UINT32_MAX);
    stream->loaded += reserved(asked);
    (void)pthread_cond_broadcast(&stream->moved);
}

static inlay_status need(void *ctx, const inlay_pack_parts *wanted, uint32_t *out_count)
{
    struct weight_stream *stream = ctx;
    uint32_t count = 0, ready = 0;
    struct request asked;
    int error;

    (void)pthread_mutex_lock(&stream->lock);
    if (!read_request(stream, wanted, &asked)) {
        (void)pthread_mutex_unlock(&stream->lock);
        return INLAY_INVALID_ARGUMENT;
    }
    stream->clock++;
    INLAY_CHECK(stream->loaded >= reserved(&asked));
    stream->loaded -= reserved(&asked);
    for (; count < wanted->part_count; count++) {
        const uint64_t absent = set_pins(stream, &asked, wanted->parts[count], 1);

        if (!stream_make_room(stream, absent, 0) && count > 0) {
            (void)set_pins(stream, &asked, wanted->parts[count], UINT32_MAX);
            break;
        }
        stream->loaded += absent;
        ready += ready == count && absent == 0;
        for (uint32_t i = 0; i < asked.count; i++) {
            stream_part *part = part_of(stream, &asked, i, wanted->parts[count]);

            if (part->used == 0 && wanted->places != NULL)
                stream_direct_read(stream, &stream->ranges[asked.list[i].range], (uint32_t)wanted->parts[count]);
            part->used = stream->clock;
        }
    }
    /* The step computes with the parts that were in memory, or with the first one, while the others are read. */
    ready = ready > 0 ? ready : 1;
    for (uint32_t p = ready; p < count; p++)
        (void)set_pins(stream, &asked, wanted->parts[p], UINT32_MAX);
    find_places(stream, &asked, wanted, ready);
    (void)pthread_mutex_unlock(&stream->lock);
    *out_count = ready;
    error = read_mapped(stream, &asked, wanted, count, ready);
    if (error == 0)
        return INLAY_OK;
    (void)pthread_mutex_lock(&stream->lock);
    unpin(stream, &asked, wanted, ready);
    stream->error = error;
    (void)pthread_mutex_unlock(&stream->lock);
    return INLAY_IO_ERROR;
}

static void done(void *ctx, const inlay_pack_parts *parts)
{
    struct weight_stream *stream = ctx;
    struct request asked;

    (void)pthread_mutex_lock(&stream->lock);
    if (read_request(stream, parts, &asked))
        unpin(stream, &asked, parts, parts->part_count);
    (void)pthread_mutex_unlock(&stream->lock);
}

run_parts stream_requests(struct weight_stream *stream)
{
    return (run_parts){ .ctx = stream, .need = need, .done = done };
}

const run_parts *weight_stream_parts(const struct weight_stream *stream)
{
    return stream != NULL ? &stream->requests : NULL;
}

void weight_stream_explain(struct weight_stream *stream, inlay_diag *diag)
{
    (void)pthread_mutex_lock(&stream->lock);
    if (stream->error != 0)
        (void)stream_fail(stream->error, diag);
    stream->error = 0;
    (void)pthread_mutex_unlock(&stream->lock);
}
