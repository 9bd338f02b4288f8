/* plan/stream/stream_slots.c - memory for parts of divided weights that are read without the system's cache of files.
 *
 * Slots of the same size are neighbours, so that large pages hold them: the disk writes to a large page in one piece.
 * Memory of a slot that was given back is used again, because the system clears new pages. */
#include "plan/stream/stream_state.h"
#include "base/memory.h"
#include "base/pages.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <sys/mman.h>

enum { CHUNK_SLOTS = 8 };
enum slot_state { SLOT_EMPTY, SLOT_FREE, SLOT_USED }; /* empty: without pages */

typedef struct slot_chunk {
    char *map, *data; /* data: aligned to large pages */
    size_t map_bytes;
    uint64_t bytes; /* of a slot */
    uint8_t states[CHUNK_SLOTS];
} slot_chunk;

struct stream_slots {
    slot_chunk *chunks; /* [count] */
    uint32_t count;
};

/* A slot of this size in this state; NULL: there is none. */
static char *find(struct stream_slots *slots, uint64_t bytes, uint8_t state)
{
    for (uint32_t i = 0; i < slots->count; i++)
        for (uint32_t k = 0; slots->chunks[i].bytes == bytes && k < CHUNK_SLOTS; k++)
            if (slots->chunks[i].states[k] == state) {
                slots->chunks[i].states[k] = SLOT_USED;
                return slots->chunks[i].data + k * bytes;
            }
    return NULL;
}

static bool add_chunk(struct stream_slots *slots, uint64_t bytes)
{
    slot_chunk chunk = { .bytes = bytes };

    if (bytes > (SIZE_MAX - PAGES_LARGE) / CHUNK_SLOTS || !LIST_GROW(slots->chunks, slots->count))
        return false;
    chunk.map_bytes = (size_t)bytes * CHUNK_SLOTS + PAGES_LARGE;
    chunk.map = mmap(NULL, chunk.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (chunk.map == MAP_FAILED)
        return false;
    chunk.data = (char *)(((uintptr_t)chunk.map + PAGES_LARGE - 1) / PAGES_LARGE * PAGES_LARGE);
    pages_large(chunk.data, bytes * CHUNK_SLOTS);
#if defined(MADV_DONTFORK)
    /* The disk may be writing to it during fork(). */
    (void)madvise(chunk.map, chunk.map_bytes, MADV_DONTFORK);
#endif
    slots->chunks[slots->count++] = chunk;
    return true;
}

char *stream_slots_take(struct stream_slots **inout_slots, uint64_t bytes)
{
    char *slot;

    if (*inout_slots == NULL)
        *inout_slots = calloc(1, sizeof **inout_slots);
    if (*inout_slots == NULL)
        return NULL;
    slot = find(*inout_slots, bytes, SLOT_FREE);
    if (slot != NULL)
        return slot;
    stream_slots_trim(*inout_slots); /* free slots of other sizes are not counted in the limit */
    slot = find(*inout_slots, bytes, SLOT_EMPTY);
    if (slot == NULL && add_chunk(*inout_slots, bytes))
        slot = find(*inout_slots, bytes, SLOT_EMPTY);
    return slot;
}

void stream_slots_give(struct stream_slots *slots, const char *slot)
{
    const slot_chunk *chunk = slots->chunks;

    while (slot < chunk->data || slot >= chunk->data + chunk->bytes * CHUNK_SLOTS)
        chunk++;
    slots->chunks[chunk - slots->chunks].states[(uint64_t)(slot - chunk->data) / chunk->bytes] = SLOT_FREE;
}

void stream_slots_trim(struct stream_slots *slots)
{
    for (uint32_t i = 0; slots != NULL && i < slots->count; i++)
        for (uint32_t k = 0; k < CHUNK_SLOTS; k++)
            if (slots->chunks[i].states[k] == SLOT_FREE) {
                slots->chunks[i].states[k] = SLOT_EMPTY;
                pages_unmap(slots->chunks[i].data + k * slots->chunks[i].bytes, slots->chunks[i].bytes);
            }
}

void stream_slots_destroy(struct stream_slots *slots, bool forked)
{
    for (uint32_t i = 0; slots != NULL && i < slots->count; i++)
        if (!forked)
            (void)munmap(slots->chunks[i].map, slots->chunks[i].map_bytes);
    if (slots != NULL)
        free(slots->chunks);
    free(slots);
}
