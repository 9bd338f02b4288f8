#include "base/arena.h"
#include "base/checked.h"
#include "base/memory.h"
#include "base/pages.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* With AddressSanitizer what was not given out cannot be touched, and no two pieces touch each other. */
#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
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

void arena_deinit(struct arena *a)
{
    while (a->blocks != NULL) {
        arena_block *older = a->blocks->older;
        free(a->blocks);
        a->blocks = older;
    }
    *a = (struct arena){ 0 };
}

void arena_reset(struct arena *a)
{
    arena_block *newest = a->blocks;
    char *start;

    if (newest == NULL)
        return;
    if (newest->bytes > ARENA_LARGEST_BLOCK) { /* one allocation, which will hardly come again */
        arena_deinit(a);
        return;
    }
    a->blocks = newest->older;
    newest->older = NULL;
    start = (char *)newest + header_bytes();
    ASAN_UNPOISON_MEMORY_REGION(start, (size_t)(a->next - start));
    memset(start, 0, (size_t)(a->next - start)); /* arena_alloc promises zeroes */
    ASAN_POISON_MEMORY_REGION(start, (size_t)(a->next - start));
    a->next = start;
    while (a->blocks != NULL) {
        arena_block *older = a->blocks->older;
        free(a->blocks);
        a->blocks = older;
    }
    a->blocks = newest;
    a->total_bytes = header_bytes() + newest->bytes;
}

/* Blocks double up to a megabyte: a small model costs a page, a large one few calls. */
static bool grow(struct arena *a, size_t bytes)
{
    size_t block_bytes = a->blocks == NULL ? ARENA_FIRST_BLOCK : a->blocks->bytes * 2;
    arena_block *b;

    if (block_bytes > ARENA_LARGEST_BLOCK)
        block_bytes = ARENA_LARGEST_BLOCK;
    if (block_bytes < bytes)
        block_bytes = bytes;
    if (block_bytes > SIZE_MAX - header_bytes())
        return false;
    b = calloc(1, header_bytes() + block_bytes);
    if (b == NULL)
        return false;
    pages_large(b, header_bytes() + block_bytes);
    b->older = a->blocks;
    b->bytes = block_bytes;
    a->blocks = b;
    a->next = (char *)b + header_bytes();
    a->end = a->next + block_bytes;
    a->total_bytes += header_bytes() + block_bytes;
    ASAN_POISON_MEMORY_REGION(a->next, block_bytes);
    return true;
}

void *arena_alloc(struct arena *a, size_t bytes)
{
    const size_t wanted = bytes;
    void *p;

    if (bytes > SIZE_MAX - ARENA_ALIGN - ARENA_GAP)
        return NULL;
    bytes = ((bytes + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1)) + ARENA_GAP;
    if (bytes == 0)
        bytes = ARENA_ALIGN;
    if (a->next == NULL || (size_t)(a->end - a->next) < bytes) {
        if (!grow(a, bytes))
            return NULL;
    }
    p = a->next;
    a->next += bytes;
    ASAN_UNPOISON_MEMORY_REGION(p, wanted);
    return p;
}

void *arena_alloc_callback(void *ctx, size_t bytes)
{
    return arena_alloc(ctx, bytes);
}

void *arena_array(struct arena *a, size_t count, size_t element_bytes)
{
    if (element_bytes != 0 && count > SIZE_MAX / element_bytes)
        return NULL;
    return arena_alloc(a, count * element_bytes);
}

void *arena_grown(struct arena *a, const void *list, size_t count, size_t room, size_t item_bytes)
{
    void *larger = arena_array(a, room, item_bytes);

    if (larger != NULL && count > 0)
        memcpy(larger, list, count * item_bytes);
    return larger;
}

bool arena_reserve(struct arena *a, void *list_address, size_t count, size_t more, size_t item_bytes)
{
    size_t wanted = count, room;
    void *list;

    if (!add_size(&wanted, more))
        return false;
    room = list_room(wanted);
    if (room == list_room(count))
        return true;
    memcpy(&list, list_address, sizeof list);
    list = arena_grown(a, list, count, room, item_bytes);
    if (list == NULL)
        return false;
    memcpy(list_address, &list, sizeof list);
    return true;
}

void *arena_copy(struct arena *a, const void *data, size_t bytes)
{
    void *p = arena_alloc(a, bytes);

    if (p != NULL && bytes > 0)
        memcpy(p, data, bytes);
    return p;
}

char *arena_string_n(struct arena *a, const char *text, size_t bytes)
{
    char *p = bytes < SIZE_MAX ? arena_alloc(a, bytes + 1) : NULL;

    if (p != NULL && bytes > 0)
        memcpy(p, text, bytes);
    return p;
}

char *arena_string(struct arena *a, const char *text)
{
    return arena_string_n(a, text, strlen(text));
}

char *arena_format(struct arena *a, const char *format, ...)
{
    va_list args;
    char *p;
    int n;

    va_start(args, format);
    n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    p = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
    if (p != NULL) {
        va_start(args, format);
        (void)vsnprintf(p, (size_t)n + 1, format, args);
        va_end(args);
    }
    return p;
}
