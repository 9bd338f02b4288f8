#include "failing_alloc.h"
#include "base/arena.h"
#include <stdlib.h>

static uint64_t countdown = UINT64_MAX;
static int failed;

void failing_alloc_arm(uint64_t n)
{
    countdown = n;
    failed = 0;
}

int failing_alloc_disarm(void)
{
    countdown = UINT64_MAX;
    return failed;
}

static int fails(void)
{
    if (countdown == UINT64_MAX)
        return 0;
    if (countdown-- > 0)
        return 0;
    countdown = UINT64_MAX;
    failed = 1;
    return 1;
}

/* Symbols of the linker option --wrap=f: calls of f become __wrap_f, and the original is __real_f. */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__real_arena_alloc(struct arena *arena, size_t bytes);
void *__real_arena_array(struct arena *arena, size_t count, size_t element_bytes);
void *__real_arena_copy(struct arena *arena, const void *data, size_t bytes);
char *__real_arena_string(struct arena *arena, const char *text);
char *__real_arena_string_n(struct arena *arena, const char *text, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_arena_alloc(struct arena *arena, size_t bytes);
void *__wrap_arena_array(struct arena *arena, size_t count, size_t element_bytes);
void *__wrap_arena_copy(struct arena *arena, const void *data, size_t bytes);
char *__wrap_arena_string(struct arena *arena, const char *text);
char *__wrap_arena_string_n(struct arena *arena, const char *text, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return fails() ? NULL : __real_realloc(old, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, bytes);
}

void *__wrap_arena_alloc(struct arena *arena, size_t bytes)
{
    return fails() ? NULL : __real_arena_alloc(arena, bytes);
}

void *__wrap_arena_array(struct arena *arena, size_t count, size_t element_bytes)
{
    return fails() ? NULL : __real_arena_array(arena, count, element_bytes);
}

void *__wrap_arena_copy(struct arena *arena, const void *data, size_t bytes)
{
    return fails() ? NULL : __real_arena_copy(arena, data, bytes);
}

char *__wrap_arena_string(struct arena *arena, const char *text)
{
    return fails() ? NULL : __real_arena_string(arena, text);
}

char *__wrap_arena_string_n(struct arena *arena, const char *text, size_t bytes)
{
    return fails() ? NULL : __real_arena_string_n(arena, text, bytes);
}
