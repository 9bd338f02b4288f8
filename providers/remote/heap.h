/* remote/heap.h - allocates in the shared memory of an isolated provider. All bookkeeping is in the host's memory,
 * where the other process cannot change it. A heap is used by one thread at a time. */
#ifndef ISOLATE_HEAP_H
#define ISOLATE_HEAP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ISOLATE_PAGE = 4096 };

typedef struct isolate_extent {
    size_t offset, bytes;
} isolate_extent;

typedef struct isolate_heap {
    int fd; /* of the memfd; -1 = none */
    char *base;
    size_t bytes;
    isolate_extent *free; /* [free_count] ascending, never adjacent */
    uint32_t free_count;
} isolate_heap;

/* Creates and maps the shared memory. Returns 0 or an errno. Always follow with isolate_heap_deinit(). */
int isolate_heap_init(isolate_heap *heap);
/* Returns a new descriptor of the memory, with which it can be read only; -1: failed. */
int isolate_heap_read_only(const isolate_heap *heap);
void isolate_heap_deinit(isolate_heap *heap);
/* Whole pages, zeroed if they were not used before; NULL: out of memory. */
void *isolate_heap_alloc(isolate_heap *heap, size_t bytes);
/* bytes as for isolate_heap_alloc(). NULL is a no-op. */
void isolate_heap_free(isolate_heap *heap, void *data, size_t bytes);
/* Gives the memory of whole pages back to the system, if isolate_heap_drops(); they read as zeros afterwards, and stay
 * allocated. */
void isolate_heap_drop(void *data, size_t bytes);
/* Is a block of this size large enough for isolate_heap_drop()? A smaller one is not worth a system call. */
static inline bool isolate_heap_drops(size_t bytes)
{
    return bytes >= 16 * ISOLATE_PAGE;
}
/* Does the range lie in the shared memory? */
static inline bool isolate_heap_contains(const isolate_heap *heap, const void *data, size_t bytes)
{
    const uintptr_t at = (uintptr_t)data - (uintptr_t)heap->base;

    return at < heap->bytes && bytes <= heap->bytes - at;
}

/* Small objects that are freed together. */
typedef struct isolate_chunk isolate_chunk;
typedef struct isolate_arena {
    isolate_heap *heap;
    isolate_chunk *chunks; /* newest first */
    bool failed;           /* an allocation has failed */
} isolate_arena;

/* Memory aligned to 64 bytes; NULL: out of memory, and failed is set. 0 bytes give a valid pointer. */
void *isolate_arena_alloc(isolate_arena *arena, size_t bytes);
void *isolate_arena_copy(isolate_arena *arena, const void *data, size_t bytes);
void isolate_arena_deinit(isolate_arena *arena);
#endif
