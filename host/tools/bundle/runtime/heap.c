/* Memory of the providers while they start: one arena, first fit. The bundle is linked with --wrap, so that malloc()
 * and related functions are redirected here. The lists are short, and nothing is allocated once the model runs. */
#include "bundle.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>

/* A block; free blocks are linked in the order of their addresses. The header is a multiple of 64 bytes from the start.
 */
struct block {
    uint64_t bytes; /* after the header */
    struct block *next;
    char pad[64 - sizeof(uint64_t) - sizeof(void *)];
};

enum { HEAD = sizeof(struct block), MIN_MAPPING = 16 << 20 };

static struct block *free_list;
static char *begin, *end; /* of the fixed arena */
/* The part of the newest mapping that was never used, and is zero except for headers of blocks. */
static char *clean, *clean_end;
static uint64_t in_use, peak, calls;
static int is_fixed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void free_block(struct block *block)
{
    struct block **at = &free_list;

    while (*at != NULL && *at < block)
        at = &(*at)->next;
    block->next = *at;
    *at = block;
    if (block->next != NULL && (char *)block + HEAD + block->bytes == (char *)block->next) {
        block->bytes += HEAD + block->next->bytes;
        block->next = block->next->next;
    }
    if (at != &free_list) { /* the block before it holds the pointer */
        struct block *before = (struct block *)(void *)((char *)at - offsetof(struct block, next));

        if ((char *)before + HEAD + before->bytes == (char *)block) {
            before->bytes += HEAD + block->bytes;
            before->next = block->next;
        }
    }
}

static void add_memory(void *memory, uint64_t bytes)
{
    struct block *block = memory;

    if (bytes <= HEAD)
        return;
    block->bytes = bytes / 64 * 64 - HEAD;
    free_block(block);
}

void heap_open(void *memory, uint64_t bytes)
{
    is_fixed = memory != NULL;
    if (is_fixed) { /* earlier blocks stay valid, but are not reused */
        begin = memory;
        end = begin + bytes;
        free_list = NULL;
        add_memory(memory, bytes);
    }
}

/* Maps pages of the system, in large pieces. */
static int grow(uint64_t bytes)
{
    uint64_t piece = (bytes + 2 * HEAD + 4095) / 4096 * 4096;
    void *memory;

    if (is_fixed)
        return 0;
    if (piece < MIN_MAPPING)
        piece = MIN_MAPPING;
    memory = pages_map(piece);
    if (memory == NULL)
        return 0;
    clean = memory;
    clean_end = clean + piece;
    add_memory(memory, piece);
    return 1;
}

static struct block *take_block(uint64_t bytes)
{
    for (struct block **at = &free_list; *at != NULL; at = &(*at)->next) {
        struct block *block = *at;

        if (block->bytes < bytes)
            continue;
        if (block->bytes >= bytes + HEAD + 64) {
            struct block *rest = (struct block *)(void *)((char *)block + HEAD + bytes);

            rest->bytes = block->bytes - bytes - HEAD;
            rest->next = block->next;
            block->bytes = bytes;
            *at = rest;
        } else {
            *at = block->next;
        }
        return block;
    }
    return NULL;
}

/* *out_zero: whether the bytes are zero. */
static void *alloc(uint64_t bytes, uint64_t alignment, int *out_zero)
{
    struct block *block;
    char *data;

    /* With larger alignments, the address of the header is stored before the data. */
    bytes = (bytes + (alignment > 64 ? alignment : 0) + 63) / 64 * 64;
    if (bytes == 0)
        bytes = 64;
    if (bytes > UINT64_C(1) << 46)
        return NULL;
    (void)pthread_mutex_lock(&lock);
    calls++;
    block = take_block(bytes);
    if (block == NULL && grow(bytes))
        block = take_block(bytes);
    if (block != NULL) {
        const uint64_t reach =
            is_fixed ? (uint64_t)((char *)block + HEAD + block->bytes - begin) : in_use + block->bytes + HEAD;

        data = (char *)block + HEAD;
        *out_zero = data >= clean && data + block->bytes <= clean_end;
        if (data < clean_end && data + block->bytes + HEAD > clean) /* including the header of the rest of the block */
            clean = data + block->bytes + HEAD;
        in_use += block->bytes + HEAD;
        if (reach > peak)
            peak = reach;
    }
    (void)pthread_mutex_unlock(&lock);
    if (block == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    data = (char *)block + HEAD;
    if (alignment > 64)
        data = (char *)(((uintptr_t)data + alignment - 1) / alignment * alignment);
    *(struct block **)(void *)(data - sizeof(struct block *)) = block;
    return data;
}

void *heap_alloc(uint64_t bytes, uint64_t alignment)
{
    int zero;

    return alloc(bytes, alignment, &zero);
}

uint64_t heap_peak(void)
{
    return peak;
}

uint64_t heap_calls(void)
{
    return calls;
}

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void __wrap_free(void *memory);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return heap_alloc(bytes, 64);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    size_t all;
    void *memory;
    int zero;

    if (__builtin_mul_overflow(count, bytes, &all))
        return NULL;
    memory = alloc(all, 64, &zero);
    if (memory != NULL && !zero)
        memset(memory, 0, all);
    return memory;
}

void __wrap_free(void *memory)
{
    struct block *block;

    if (memory == NULL || (is_fixed && ((char *)memory < begin || (char *)memory >= end)))
        return;
    block = *(struct block **)(void *)((char *)memory - sizeof(struct block *));
    (void)pthread_mutex_lock(&lock);
    in_use -= block->bytes + HEAD;
    free_block(block);
    (void)pthread_mutex_unlock(&lock);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    void *memory = heap_alloc(bytes, 64);

    if (memory != NULL && old != NULL) {
        const struct block *block = *(struct block **)(void *)((char *)old - sizeof(struct block *));
        const size_t had = (size_t)((const char *)block + HEAD + block->bytes - (char *)old);

        memcpy(memory, old, had < bytes ? had : bytes);
        __wrap_free(old);
    }
    return memory;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return heap_alloc(bytes, alignment);
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes)
{
    *out = heap_alloc(bytes, alignment);
    return *out == NULL ? ENOMEM : 0;
}
