#include "plan/stream/stream_state.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "inlay/types.h"
#include <stdlib.h>

struct weight_stream *weight_stream_create(void)
{
    struct weight_stream *stream = calloc(1, sizeof *stream);

    if (stream == NULL)
        return NULL;
    (void)pthread_mutex_init(&stream->lock, NULL);
    (void)pthread_cond_init(&stream->moved, NULL);
    (void)pthread_cond_init(&stream->wanted, NULL);
    stream->at = INLAY_NONE;
    stream->requests = stream_requests(stream);
    return stream;
}

void weight_stream_destroy(struct weight_stream *stream)
{
    if (stream == NULL)
        return;
    if (stream->has_thread) {
        (void)pthread_mutex_lock(&stream->lock);
        stream->ends = true;
        (void)pthread_cond_signal(&stream->wanted);
        (void)pthread_mutex_unlock(&stream->lock);
        (void)pthread_join(stream->thread, NULL);
    }
    stream_direct_end(stream, false);
    (void)pthread_cond_destroy(&stream->wanted);
    (void)pthread_cond_destroy(&stream->moved);
    (void)pthread_mutex_destroy(&stream->lock);
    for (uint32_t i = 0; i < stream->range_count; i++)
        free(stream->ranges[i].parts);
    free(stream->ranges);
    free(stream);
}

/* The range of these bytes, a new one if necessary; INLAY_NONE: out of memory. */
static uint32_t range_of(struct weight_stream *stream, const void *data, uint64_t bytes)
{
    uint32_t unused = INLAY_NONE;

    for (uint32_t i = 0; i < stream->range_count; i++) {
        if (stream->ranges[i].users > 0 && stream->ranges[i].data == data && stream->ranges[i].bytes == bytes)
            return i;
        if (stream->ranges[i].users == 0)
            unused = i;
    }
    if (unused == INLAY_NONE) {
        if (!LIST_GROW(stream->ranges, stream->range_count))
            return INLAY_NONE;
        unused = stream->range_count++;
        stream->ranges[unused].parts = NULL;
    }
    free(stream->ranges[unused].parts);
    stream->ranges[unused] =
        (stream_range){ .data = (char *)(uintptr_t)data, .bytes = bytes, .first = INLAY_NONE, .last = INLAY_NONE };
    return unused;
}

static bool reads(const struct step_weights *weights, uint32_t range)
{
    uint32_t i = 0;

    while (i < weights->count && weights->entries[i].range != range)
        i++;
    return i < weights->count;
}

static bool add(struct weight_stream *stream, struct step_weights *weights, const void *data, uint64_t bytes,
                stream_use use)
{
    uint32_t range;

    if (!LIST_GROW(weights->entries, weights->count))
        return false;
    range = range_of(stream, data, bytes);
    if (range == INLAY_NONE)
        return false;
    if (reads(weights, range))
        return true;
    stream->ranges[range].users++;
    stream->ranges[range].read_by += use == STREAM_ALL;
    weights->entries[weights->count++] = (weights_entry){ range, use };
    return true;
}

bool weight_stream_add(struct weight_stream *stream, struct step_weights **inout_weights, const void *data,
                       uint64_t bytes, stream_use use)
{
    bool good;

    if (bytes < STREAM_MIN_BYTES)
        return true;
    (void)pthread_mutex_lock(&stream->lock);
    if (*inout_weights == NULL) {
        *inout_weights = calloc(1, sizeof **inout_weights);
        if (*inout_weights != NULL) {
            (*inout_weights)->next = stream->steps;
            stream->steps = *inout_weights;
        }
    }
    good = *inout_weights != NULL && add(stream, *inout_weights, data, bytes, use);
    (void)pthread_mutex_unlock(&stream->lock);
    return good;
}

bool weight_stream_divide(struct weight_stream *stream, struct step_weights **inout_weights, const void *data,
                          uint64_t bytes, uint32_t count)
{
    weights_entry *entry;
    stream_range *range;
    bool good;

    INLAY_CHECK(count > 0 && bytes % count == 0);
    if (bytes < STREAM_MIN_BYTES)
        return true;
    if (!weight_stream_add(stream, inout_weights, data, bytes, STREAM_FEW))
        return false;
    (void)pthread_mutex_lock(&stream->lock);
    entry = (*inout_weights)->entries;
    while (stream->ranges[entry->range].data != data || stream->ranges[entry->range].bytes != bytes)
        entry++;
    range = &stream->ranges[entry->range];
    range->read_by -= entry->use == STREAM_ALL;
    entry->use = STREAM_FEW;
    if (range->parts == NULL) {
        range->parts = calloc(1, sizeof *range->parts + count * sizeof range->parts->list[0]);
        if (range->parts != NULL) {
            range->parts->bytes = bytes / count;
            range->parts->count = count;
            range->parts->file = -1;
        }
    }
    good = range->parts != NULL && range->parts->count == count;
    if (good)
        entry->use = STREAM_PARTS;
    (void)pthread_mutex_unlock(&stream->lock);
    return good;
}

void weight_stream_place(struct weight_stream *stream, struct step_weights *weights, uint32_t position, bool repeated)
{
    (void)pthread_mutex_lock(&stream->lock);
    weights->position = position;
    if (position >= stream->positions)
        stream->positions = position + 1;
    for (uint32_t i = 0; i < weights->count; i++) {
        stream_range *range = &stream->ranges[weights->entries[i].range];

        if (weights->entries[i].use != STREAM_ALL)
            continue;
        range->first = range->first == INLAY_NONE || position < range->first ? position : range->first;
        range->last = range->last == INLAY_NONE || position > range->last ? position : range->last;
        range->repeated |= repeated;
    }
    (void)pthread_mutex_unlock(&stream->lock);
}

void weight_stream_remove(struct weight_stream *stream, struct step_weights *weights)
{
    struct step_weights **link = &stream->steps;

    if (weights == NULL)
        return;
    (void)pthread_mutex_lock(&stream->lock);
    while (*link != weights)
        link = &(*link)->next;
    *link = weights->next;
    stream_direct_settle(stream);
    for (uint32_t i = 0; i < weights->count; i++) {
        const uint32_t index = weights->entries[i].range;

        while (stream->ranges[index].state == RANGE_LOADING)
            (void)pthread_cond_wait(&stream->moved, &stream->lock);
        INLAY_CHECK(stream->ranges[index].users > 0 && stream->ranges[index].pins == 0);
        stream->ranges[index].read_by -= weights->entries[i].use == STREAM_ALL;
        if (--stream->ranges[index].users > 0)
            continue;
        stream_drop(stream, &stream->ranges[index]);
        stream_drop_parts(stream, &stream->ranges[index]);
    }
    (void)pthread_mutex_unlock(&stream->lock);
    free(weights->entries);
    free(weights);
}

/* The bytes of a step that do not stay in memory, of divided weights those of one part. */
static uint64_t bytes_of(const struct weight_stream *stream, const struct step_weights *weights)
{
    uint64_t sum = stream_part_bytes(stream, weights);

    for (uint32_t i = 0; i < weights->count; i++) {
        const stream_range *range = &stream->ranges[weights->entries[i].range];

        sum += weights->entries[i].use == STREAM_ALL && !range->resident ? range->bytes : 0;
    }
    return sum;
}

/* The step with the largest sum of such bytes; NULL: no step has any. */
static const struct step_weights *largest_of(const struct weight_stream *stream, uint64_t *out_bytes)
{
    const struct step_weights *largest = NULL;

    *out_bytes = 0;
    for (const struct step_weights *step = stream->steps; step != NULL; step = step->next) {
        const uint64_t bytes = bytes_of(stream, step);

        if (bytes <= *out_bytes)
            continue;
        *out_bytes = bytes;
        largest = step;
    }
    return largest;
}

uint64_t weight_stream_largest(struct weight_stream *stream)
{
    uint64_t bytes;

    (void)pthread_mutex_lock(&stream->lock);
    (void)largest_of(stream, &bytes);
    (void)pthread_mutex_unlock(&stream->lock);
    return bytes;
}

/* Bytes for the weights that do not stay: the current step, and up to two that are read ahead. */
static uint64_t window_of(uint64_t largest, uint64_t bytes)
{
    const uint64_t wanted = largest < UINT64_MAX / 3 ? 3 * largest : largest;

    return wanted < bytes / 2 ? wanted : largest > bytes / 2 ? largest : bytes / 2;
}

static void set_resident(struct weight_stream *stream, const struct step_weights *weights, bool resident)
{
    for (uint32_t i = 0; i < weights->count; i++)
        if (weights->entries[i].use == STREAM_ALL)
            stream->ranges[weights->entries[i].range].resident = resident;
}

/* A step that is much larger than the others stays in memory if it fits: otherwise memory of its size would always have
 * to be free to read it into. Returns the bytes left for other weights that stay. */
static uint64_t keep_largest(struct weight_stream *stream, uint64_t bytes)
{
    uint64_t largest, next, kept = 0;
    const struct step_weights *step;

    while ((step = largest_of(stream, &largest)) != NULL) {
        set_resident(stream, step, true);
        (void)largest_of(stream, &next);
        if (next > largest / 4 * 3 || kept + largest + window_of(next, bytes) > bytes) {
            set_resident(stream, step, false);
            break;
        }
        kept += largest;
    }
    kept += window_of(largest, bytes);
    return kept < bytes ? bytes - kept : 0;
}

static bool may_stay(const stream_range *range)
{
    return range->read_by > 0 && !range->resident;
}

/* Weights that a run reads several times stay first. Reading any of the others costs the same per byte. Runs read all
 * weights in the same order, so the weights that were used last are needed again last, and the choice must not change.
 * It is spread evenly over the run: while a step computes with weights that are in memory, the thread reads others. */
static void keep_others(struct weight_stream *stream, uint64_t bytes)
{
    uint64_t others = 0;
    double share = 0;

    for (uint32_t i = 0; i < stream->range_count; i++) {
        stream_range *range = &stream->ranges[i];

        if (may_stay(range) && range->repeated && range->bytes <= bytes) {
            range->resident = true;
            bytes -= range->bytes;
        }
        others += may_stay(range) ? range->bytes : 0;
    }
    for (uint32_t i = 0; i < stream->range_count; i++) {
        stream_range *range = &stream->ranges[i];

        if (!may_stay(range))
            continue;
        share += (double)range->bytes * (double)bytes / (double)others;
        range->resident = share >= (double)range->bytes;
        share -= range->resident ? (double)range->bytes : 0;
    }
}

/* Tables are read in no order. */
static void advise_tables(const struct weight_stream *stream)
{
    for (uint32_t i = 0; i < stream->range_count; i++)
        if (stream->ranges[i].users > 0 && stream->ranges[i].read_by == 0 && stream->ranges[i].parts == NULL)
            stream_advise_random(&stream->ranges[i]);
}

static stream_sizes sizes_of(const stream_range *range)
{
    const bool all = range->read_by > 0 && range->users > 0;

    return (stream_sizes){ .resident = all && range->resident ? range->bytes : 0,
                           .streamed = all && !range->resident ? range->bytes : 0,
                           .on_demand = !all && range->users > 0 ? range->bytes : 0 };
}

static void add_sizes(stream_sizes *sum, stream_sizes more)
{
    sum->resident += more.resident;
    sum->streamed += more.streamed;
    sum->on_demand += more.on_demand;
}

static stream_sizes sum_sizes(const struct weight_stream *stream)
{
    stream_sizes sum = { 0 };

    for (uint32_t i = 0; i < stream->range_count; i++)
        add_sizes(&sum, sizes_of(&stream->ranges[i]));
    return sum;
}

uint64_t weight_stream_begin(struct weight_stream *stream, uint64_t bytes, uint64_t (*spare)(void *ctx), void *ctx)
{
    stream_sizes sizes;
    uint64_t parts = 0; /* the most of a step */

    (void)pthread_mutex_lock(&stream->lock);
    INLAY_CHECK(stream->spare == NULL);
    sizes = sum_sizes(stream);
    for (const struct step_weights *step = stream->steps; step != NULL; step = step->next)
        parts = parts > stream_part_bytes(stream, step) ? parts : stream_part_bytes(stream, step);
    keep_others(stream, sizes.streamed + parts <= bytes ? sizes.streamed : keep_largest(stream, bytes));
    sizes = sum_sizes(stream);
    (void)largest_of(stream, &stream->least);
    stream->spare = spare;
    stream->spare_ctx = ctx;
    advise_tables(stream);
    if (stream->least > 0)
        stream_start(stream);
    (void)pthread_mutex_unlock(&stream->lock);
    return sizes.resident + stream->least;
}

stream_sizes weight_stream_sizes(struct weight_stream *stream)
{
    stream_sizes sum = { 0 };

    if (stream == NULL)
        return sum;
    (void)pthread_mutex_lock(&stream->lock);
    sum = sum_sizes(stream);
    (void)pthread_mutex_unlock(&stream->lock);
    return sum;
}

double weight_stream_read_ns(struct weight_stream *stream)
{
    double ns = 0;

    if (stream == NULL)
        return ns;
    (void)pthread_mutex_lock(&stream->lock);
    if (stream->reads.bytes > 0)
        ns = (double)sum_sizes(stream).streamed * (double)stream->reads.ns / (double)stream->reads.bytes;
    (void)pthread_mutex_unlock(&stream->lock);
    return ns;
}

stream_sizes weight_stream_sizes_of(struct weight_stream *stream, const struct step_weights *weights)
{
    stream_sizes sum = { 0 };

    if (weights == NULL)
        return sum;
    (void)pthread_mutex_lock(&stream->lock);
    for (uint32_t i = 0; i < weights->count; i++)
        add_sizes(&sum, sizes_of(&stream->ranges[weights->entries[i].range]));
    (void)pthread_mutex_unlock(&stream->lock);
    return sum;
}
