/* Assigns all work buffers to one workspace; buffers that are never used by the same step may share bytes. */
#include "cpu/region/build.h"
#include "common/spans.h"

enum { ALIGN = 64 };

/* A buffer gets 1/ROOM_SHARE of its size as additional room, at most MOST_ROOM bytes, so that one placement serves
 * several sizes. */
enum { ROOM_SHARE = 8, MOST_ROOM = 64 << 10 };

static uint64_t room_of(uint64_t bytes)
{
    return bytes / ROOM_SHARE < MOST_ROOM ? bytes / ROOM_SHARE : MOST_ROOM;
}

/* Can the buffers have the places that the previous instance gave them? They must be used by the same steps, and need
 * about as many bytes. list: by id. */
static bool last_placement_fits(const inlay_compiled *compiled, const struct span *list, uint32_t count)
{
    if (count != compiled->placed.count)
        return false;
    for (uint32_t k = 0; k < count; k++) {
        const struct span *last = &compiled->placed.spans[k];

        if (list[k].first != last->first || list[k].last != last->last || list[k].id != last->id ||
            list[k].bytes > last->bytes || last->bytes > list[k].bytes + room_of(list[k].bytes) + ALIGN)
            return false;
    }
    return true;
}

/* Places the buffers, and remembers their places for the next instance. list: by id, also on return. sorted: [count]
 * temporary. */
static void place_anew(inlay_compiled *compiled, struct span *list, uint32_t count, struct span *sorted)
{
    const struct span *last = count == compiled->placed.count ? compiled->placed.spans : NULL;
    struct span *kept;

    for (uint32_t k = 0; k < count; k++) {
        const uint64_t bytes = list[k].bytes, room = room_of(bytes);

        sorted[k] = list[k];
        sorted[k].id = k;
        if (last != NULL && bytes != last[k].bytes && bytes <= last[k].bytes + room && last[k].bytes <= bytes + room)
            sorted[k].bytes += room;
    }
    compiled->placed.bytes = spans_place(sorted, count, ALIGN);
    for (uint32_t k = 0; k < count; k++) {
        list[sorted[k].id].bytes = sorted[k].bytes;
        list[sorted[k].id].offset = sorted[k].offset;
    }
    kept = last != NULL ? compiled->placed.spans : realloc(compiled->placed.spans, (count + 1u) * sizeof *kept);
    if (kept == NULL) /* the next instance places its buffers anew */
        return;
    memcpy(kept, list, count * sizeof *kept);
    compiled->placed.spans = kept;
    compiled->placed.count = count;
}

inlay_status cpu_plan(cpu_build *build)
{
    inlay_compiled *compiled = build->compiled;
    inlay_instance *instance = build->instance;
    struct span *list = cpu_scratch_take(build->scratch, 2 * ((size_t)instance->buffer_count + 1), sizeof *list);
    const struct span *placed = list;
    uint32_t count = 0;

    if (list == NULL)
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory to plan a region of %u nodes",
                          compiled->op_count);
    for (uint32_t k = 0; k < instance->buffer_count; k++) {
        const cpu_buffer *buffer = &instance->buffers[k];

        if (buffer->kind == CPU_WORK && buffer->first != INLAY_NONE && buffer->parent == INLAY_NONE)
            list[count++] = (struct span){ buffer->bytes, buffer->first, buffer->last, k, 0 };
    }
    if (last_placement_fits(compiled, list, count))
        placed = compiled->placed.spans;
    else
        place_anew(compiled, list, count, list + count);
    instance->workspace_bytes = compiled->placed.bytes;
    for (uint32_t k = 0; k < count; k++)
        instance->buffers[placed[k].id].offset = placed[k].offset;
    for (uint32_t k = 0; k < instance->buffer_count; k++) {
        cpu_buffer *buffer = &instance->buffers[k];
        const cpu_buffer *root = buffer;
        uint64_t within = 0;

        while (root->parent != INLAY_NONE) {
            INLAY_CHECK(root->parent < instance->buffer_count);
            within += root->within;
            root = &instance->buffers[root->parent];
        }
        if (root != buffer)
            buffer->offset = root->offset + within;
    }
    return INLAY_OK;
}
