#include "remote/heap.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "inlay/note.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Where to map: far from where Linux places programs, libraries and stacks, so that the other process can map there as
 * well. ThreadSanitizer permits only some ranges. */
#if defined(__SANITIZE_THREAD__) || INLAY_NOTE_FEATURE(thread_sanitizer)
static const uintptr_t first_address = UINT64_C(0x7e8000000000);
#else
static const uintptr_t first_address = UINT64_C(0x200000000000);
#endif

static void *map_shared(int fd, size_t bytes)
{
    const uintptr_t step = UINT64_C(0x4000000000);

    for (uintptr_t i = 0; i < 64; i++) {
        void *at = mmap((void *)(first_address + i * step), bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd, 0);

        if (at != MAP_FAILED)
            return at;
        if (errno != EEXIST)
            break;
    }
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
}

/* The size is only address space: pages are allocated when they are written. */
int isolate_heap_init(isolate_heap *heap)
{
    static const size_t sizes[] = { (size_t)256 << 30, (size_t)16 << 30, (size_t)1 << 30 };
    int error = 0;

    *heap = (isolate_heap){ .fd = memfd_create("inlay-isolate", MFD_CLOEXEC | MFD_ALLOW_SEALING) };
    if (heap->fd < 0)
        return errno;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && heap->base == NULL; i++) {
        void *at = MAP_FAILED;

        error = ftruncate(heap->fd, (off_t)sizes[i]) != 0 ? errno : 0;
        if (error == 0) {
            at = map_shared(heap->fd, sizes[i]);
            error = at == MAP_FAILED ? errno : 0;
        }
        if (at != MAP_FAILED) {
            heap->base = at;
            heap->bytes = sizes[i];
        }
    }
    /* The other process must not shrink the file: the host would get SIGBUS. */
    if (error == 0 && fcntl(heap->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        error = errno;
    if (error == 0)
        (void)madvise(heap->base, heap->bytes, MADV_DONTDUMP);
    if (error == 0 && !LIST_GROW(heap->free, heap->free_count))
        error = ENOMEM;
    if (error != 0)
        return error;
    heap->free[heap->free_count++] = (isolate_extent){ 0, heap->bytes };
    return 0;
}

int isolate_heap_read_only(const isolate_heap *heap)
{
    char path[64];

    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", heap->fd);
    return open(path, O_RDONLY | O_CLOEXEC);
}

void isolate_heap_deinit(isolate_heap *heap)
{
    if (heap->base != NULL)
        (void)munmap(heap->base, heap->bytes);
    if (heap->fd >= 0)
        (void)close(heap->fd);
    free(heap->free);
    *heap = (isolate_heap){ .fd = -1 };
}

static size_t whole_pages(size_t bytes)
{
    return bytes == 0 ? ISOLATE_PAGE : (bytes + ISOLATE_PAGE - 1) / ISOLATE_PAGE * ISOLATE_PAGE;
}

void *isolate_heap_alloc(isolate_heap *heap, size_t bytes)
{
    void *data = NULL;

    if (bytes > heap->bytes)
        return NULL;
    bytes = whole_pages(bytes);
    for (uint32_t i = 0; i < heap->free_count && data == NULL; i++) {
        isolate_extent *extent = &heap->free[i];

        if (extent->bytes < bytes)
            continue;
        data = heap->base + extent->offset;
        extent->offset += bytes;
        extent->bytes -= bytes;
        if (extent->bytes == 0)
            memmove(extent, extent + 1, (--heap->free_count - i) * sizeof *extent);
    }
    return data;
}

void isolate_heap_free(isolate_heap *heap, void *data, size_t bytes)
{
    size_t offset;
    uint32_t i = 0;
    bool joins_previous, joins_next;

    if (data == NULL)
        return;
    bytes = whole_pages(bytes);
    offset = (size_t)((char *)data - heap->base);
    INLAY_CHECK(isolate_heap_contains(heap, data, bytes));
    isolate_heap_drop(data, bytes);
    while (i < heap->free_count && heap->free[i].offset < offset)
        i++;
    joins_previous = i > 0 && heap->free[i - 1].offset + heap->free[i - 1].bytes == offset;
    joins_next = i < heap->free_count && offset + bytes == heap->free[i].offset;
    if (joins_previous) {
        heap->free[i - 1].bytes += bytes;
        if (joins_next) {
            heap->free[i - 1].bytes += heap->free[i].bytes;
            memmove(&heap->free[i], &heap->free[i + 1], (--heap->free_count - i) * sizeof *heap->free);
        }
    } else if (joins_next) {
        heap->free[i].offset = offset;
        heap->free[i].bytes += bytes;
    } else if (LIST_GROW(heap->free, heap->free_count)) {
        memmove(&heap->free[i + 1], &heap->free[i], (heap->free_count++ - i) * sizeof *heap->free);
        heap->free[i] = (isolate_extent){ offset, bytes };
    } /* otherwise only address space is lost */
}

void isolate_heap_drop(void *data, size_t bytes)
{
    if (isolate_heap_drops(bytes))
        (void)madvise(data, whole_pages(bytes), MADV_REMOVE);
}

struct isolate_chunk {
    isolate_chunk *next;
    char *data;
    size_t bytes, used;
};

void *isolate_arena_alloc(isolate_arena *arena, size_t bytes)
{
    enum { CHUNK_BYTES = 16 * ISOLATE_PAGE, ALIGNMENT = 64 };
    isolate_chunk *chunk = arena->chunks;
    const size_t usual = chunk == NULL ? ISOLATE_PAGE : CHUNK_BYTES; /* many arenas hold little */
    void *data;

    if (bytes > arena->heap->bytes) {
        arena->failed = true;
        return NULL;
    }
    bytes = bytes == 0 ? ALIGNMENT : (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (chunk == NULL || chunk->bytes - chunk->used < bytes) {
        chunk = calloc(1, sizeof *chunk);
        if (chunk != NULL) {
            chunk->bytes = bytes > usual ? whole_pages(bytes) : usual;
            chunk->data = isolate_heap_alloc(arena->heap, chunk->bytes);
        }
        if (chunk == NULL || chunk->data == NULL) {
            free(chunk);
            arena->failed = true;
            return NULL;
        }
        chunk->next = arena->chunks;
        arena->chunks = chunk;
    }
    data = chunk->data + chunk->used;
    chunk->used += bytes;
    return data;
}

void *isolate_arena_copy(isolate_arena *arena, const void *data, size_t bytes)
{
    void *copy = isolate_arena_alloc(arena, bytes);

    if (copy != NULL && bytes > 0)
        memcpy(copy, data, bytes);
    return copy;
}

void isolate_arena_deinit(isolate_arena *arena)
{
    while (arena->chunks != NULL) {
        isolate_chunk *chunk = arena->chunks;

        arena->chunks = chunk->next;
        isolate_heap_free(arena->heap, chunk->data, chunk->bytes);
        free(chunk);
    }
}
