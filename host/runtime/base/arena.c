#include "base/arena.h"
#include "base/asan.h"
#include "base/checked.h"
#include "base/memory.h"
#include "base/pages.h"
#include "inlay/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* With AddressSanitizer, free memory of a block is poisoned, and a gap separates allocations. */
#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
enum { ARENA_GAP = 16 };
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
enum { ARENA_GAP = 0 };
#endif

enum { ARENA_ALIGN = 16, ARENA_FIRST_BLOCK = 4096, ARENA_LARGEST_BLOCK = 1 << 20 };

struct arena_block {
    arena_block *older;
    size_t bytes;
};

static size_t header_bytes(void)
{
    return (sizeof(arena_block) + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
}

void arena_deinit(struct arena *arena)
{
    while (arena->blocks != NULL) {
        arena_block *older = arena->blocks->older;
        free(arena->blocks);
        arena->blocks = older;
    }
    *arena = (struct arena){ 0 };
}

void arena_reset(struct arena *arena)
{
    arena_block *newest = arena->blocks;
    char *start;

    if (newest == NULL)
        return;
    if (newest->bytes > ARENA_LARGEST_BLOCK) { /* a single large allocation, which is unlikely to be repeated */
        arena_deinit(arena);
        return;
    }
    arena->blocks = newest->older;
    newest->older = NULL;
    start = (char *)newest + header_bytes();
    INLAY_CHECK(arena->next >= start && arena->next <= arena->end);
    ASAN_POISON_MEMORY_REGION(start, (size_t)(arena->next - start));
    if (arena->clean < arena->next)
        arena->clean = arena->next;
    arena->next = start;
    while (arena->blocks != NULL) {
        arena_block *older = arena->blocks->older;
        free(arena->blocks);
        arena->blocks = older;
    }
    arena->blocks = newest;
    arena->total_bytes = header_bytes() + newest->bytes;
}

/* Block sizes double up to a megabyte: a small model takes one page, a large one few allocations. */
static bool grow(struct arena *arena, size_t bytes)
{
    size_t block_bytes = arena->blocks == NULL ? ARENA_FIRST_BLOCK : arena->blocks->bytes * 2;
    arena_block *block;

    if (block_bytes > ARENA_LARGEST_BLOCK)
        block_bytes = ARENA_LARGEST_BLOCK;
    if (block_bytes < bytes)
        block_bytes = bytes;
    if (block_bytes > SIZE_MAX - header_bytes())
        return false;
    block = calloc(1, header_bytes() + block_bytes);
    if (block == NULL)
        return false;
    pages_large(block, header_bytes() + block_bytes);
    block->older = arena->blocks;
    block->bytes = block_bytes;
    arena->blocks = block;
    arena->next = (char *)block + header_bytes();
    arena->end = arena->next + block_bytes;
    arena->clean = arena->next;
    arena->total_bytes += header_bytes() + block_bytes;
    ASAN_POISON_MEMORY_REGION(arena->next, block_bytes);
    return true;
}

/* As arena_alloc(), but the memory is not zeroed. */
static void *take(struct arena *arena, size_t bytes)
{
    const size_t wanted = bytes;
    void *memory;

    if (bytes > SIZE_MAX - ARENA_ALIGN - ARENA_GAP)
        return NULL;
    bytes = ((bytes + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1)) + ARENA_GAP;
    if (bytes == 0)
        bytes = ARENA_ALIGN;
    if (arena->next == NULL || (size_t)(arena->end - arena->next) < bytes) {
        if (!grow(arena, bytes))
            return NULL;
    }
    memory = arena->next;
    INLAY_CHECK((uintptr_t)memory % ARENA_ALIGN == 0);
    arena->next += bytes;
    ASAN_UNPOISON_MEMORY_REGION(memory, wanted);
    return memory;
}

/* Zeroes bytes of a new allocation where they are not zero anyway. */
static void zero(const struct arena *arena, char *memory, size_t bytes)
{
    if (memory < arena->clean && bytes > 0)
        memset(memory, 0, bytes < (size_t)(arena->clean - memory) ? bytes : (size_t)(arena->clean - memory));
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    void *memory = take(arena, bytes);

    if (memory != NULL)
        zero(arena, memory, bytes);
    return memory;
}

void *arena_alloc_callback(void *ctx, size_t bytes)
{
    return arena_alloc(ctx, bytes);
}

void *arena_array(struct arena *arena, size_t count, size_t element_bytes)
{
    if (element_bytes != 0 && count > SIZE_MAX / element_bytes)
        return NULL;
    return arena_alloc(arena, count * element_bytes);
}

void *arena_grown(struct arena *arena, const void *list, size_t count, size_t room, size_t item_bytes)
{
    char *larger;

    INLAY_CHECK(room >= count);
    larger = item_bytes == 0 || room <= SIZE_MAX / item_bytes ? take(arena, room * item_bytes) : NULL;
    if (larger != NULL && count > 0)
        memcpy(larger, list, count * item_bytes);
    if (larger != NULL)
        zero(arena, larger + count * item_bytes, (room - count) * item_bytes);
    return larger;
}

bool arena_reserve(struct arena *arena, void *list_address, size_t count, size_t more, size_t item_bytes)
{
    size_t wanted = count, room;
    void *list;

    if (!add_size(&wanted, more))
        return false;
    room = list_room(wanted);
    if (room == list_room(count))
        return true;
    memcpy(&list, list_address, sizeof list);
    list = arena_grown(arena, list, count, room, item_bytes);
    if (list == NULL)
        return false;
    memcpy(list_address, &list, sizeof list);
    return true;
}

void *arena_copy(struct arena *arena, const void *data, size_t bytes)
{
    void *copy = take(arena, bytes);

    if (copy != NULL && bytes > 0)
        memcpy(copy, data, bytes);
    return copy;
}

char *arena_string_n(struct arena *arena, const char *text, size_t bytes)
{
    char *copy = bytes < SIZE_MAX ? take(arena, bytes + 1) : NULL;

    if (copy != NULL && bytes > 0)
        memcpy(copy, text, bytes);
    if (copy != NULL)
        copy[bytes] = '\0';
    return copy;
}

char *arena_string(struct arena *arena, const char *text)
{
    return arena_string_n(arena, text, strlen(text));
}

char *arena_format(struct arena *arena, const char *format, ...)
{
    va_list args;
    char *text;
    int length;

    va_start(args, format);
    length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    text = length < 0 ? NULL : take(arena, (size_t)length + 1);
    if (text != NULL) {
        va_start(args, format);
        (void)vsnprintf(text, (size_t)length + 1, format, args);
        va_end(args);
    }
    return text;
}
