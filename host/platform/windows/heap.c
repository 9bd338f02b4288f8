/* The heap. Windows frees aligned blocks by a function of their own, but POSIX by free(). So the linker's --wrap makes
 * all allocating functions those of this file. Each block is within one of the C runtime and follows a struct head.
 * Functions of the C runtime that allocate for their caller are wrapped as well. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void __wrap_free(void *memory);
char *__wrap_strdup(const char *text);
char *__wrap__strdup(const char *text);

enum { ALIGNMENT = 16 };

struct head {
    void *block;
    size_t bytes;
};

static struct head *head_of(void *memory)
{
    return (struct head *)memory - 1;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    const size_t more = sizeof(struct head) + alignment;
    char *block, *memory;

    if (alignment < ALIGNMENT)
        return aligned_alloc(ALIGNMENT, bytes);
    block = bytes <= SIZE_MAX - more ? __real_malloc(bytes + more) : NULL;
    if (block == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    memory = (char *)(((uintptr_t)block + more) & ~(uintptr_t)(alignment - 1));
    *head_of(memory) = (struct head){ block, bytes };
    return memory;
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)) != 0)
        return EINVAL;
    *out = aligned_alloc(alignment, bytes);
    return *out != NULL ? 0 : ENOMEM;
}

void *__wrap_malloc(size_t bytes)
{
    return aligned_alloc(ALIGNMENT, bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    void *memory = bytes == 0 || count <= SIZE_MAX / bytes ? aligned_alloc(ALIGNMENT, count * bytes) : NULL;

    return memory != NULL ? memset(memory, 0, count * bytes) : NULL;
}

void __wrap_free(void *memory)
{
    if (memory != NULL)
        __real_free(head_of(memory)->block);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    void *grown = aligned_alloc(ALIGNMENT, bytes);

    if (grown == NULL || memory == NULL)
        return grown;
    memcpy(grown, memory, head_of(memory)->bytes < bytes ? head_of(memory)->bytes : bytes);
    __wrap_free(memory);
    return grown;
}

char *__wrap_strdup(const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *copy = aligned_alloc(ALIGNMENT, bytes);

    return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}

char *__wrap__strdup(const char *text)
{
    return __wrap_strdup(text);
}
