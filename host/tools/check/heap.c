/* Counts the allocations of a plugin. The plugin's relocations name the imported functions; the slots of malloc and
 * related functions are set to the functions below. A hash table records the blocks, because the plugin may free blocks
 * that it did not allocate itself (strdup, getline). */
#include "check/imports.h"
#include "check/process.h"
#include "inlay/check.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 1 << 18, BUCKETS = 1 << 16 }; /* beyond BLOCKS live blocks only the calls are counted */

struct block {
    void *address;
    size_t bytes;
    void *caller;
    uint64_t number; /* of the call that allocated it */
    uint32_t next;   /* in the bucket, or in the list of unused entries; 0 = the end */
};

static struct block *blocks; /* [BLOCKS]; entry 0 is not used */
static uint32_t *buckets;    /* [BUCKETS] */
static uint32_t free_list, next_unused = 1;
static heap_counts counts;
static uint64_t mark, fail_at;
static void *last_caller;
static uintptr_t base; /* load address of the plugin */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint32_t *bucket_of(const void *memory)
{
    INLAY_CHECK(buckets != NULL);
    return &buckets[(uint64_t)((uintptr_t)memory >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 48];
}

static uint32_t take_block(void)
{
    uint32_t index = free_list;

    if (index != 0)
        free_list = blocks[index].next;
    else if (next_unused < BLOCKS)
        index = next_unused++;
    return index;
}

static void remember(void *memory, size_t bytes, void *caller)
{
    uint32_t *bucket = bucket_of(memory), index;

    (void)pthread_mutex_lock(&lock);
    counts.calls++;
    last_caller = caller;
    index = memory != NULL ? take_block() : 0;
    if (index != 0) {
        blocks[index] = (struct block){ memory, bytes, caller, counts.calls, *bucket };
        *bucket = index;
        counts.all_blocks++;
        counts.live_blocks++;
        counts.live_bytes += bytes;
    }
    (void)pthread_mutex_unlock(&lock);
}

/* Removes the block. *out_old: the block, for restore(); its address is NULL if it is unknown. */
static void forget(const void *memory, struct block *out_old)
{
    uint32_t *link = bucket_of(memory);

    *out_old = (struct block){ .address = NULL };
    if (memory == NULL)
        return;
    (void)pthread_mutex_lock(&lock);
    while (*link != 0 && blocks[*link].address != memory)
        link = &blocks[*link].next;
    if (*link != 0) {
        uint32_t index = *link;

        *out_old = blocks[index];
        counts.all_blocks--;
        if (blocks[index].number > mark) {
            INLAY_CHECK(counts.live_blocks > 0 && counts.live_bytes >= blocks[index].bytes);
            counts.live_blocks--;
            counts.live_bytes -= blocks[index].bytes;
        }
        *link = blocks[index].next;
        blocks[index].address = NULL;
        blocks[index].next = free_list;
        free_list = index;
    }
    (void)pthread_mutex_unlock(&lock);
}

/* Undoes forget(), after a realloc() that failed. */
static void restore(const struct block *old)
{
    uint32_t *bucket = bucket_of(old->address), index;

    (void)pthread_mutex_lock(&lock);
    index = old->address != NULL ? take_block() : 0;
    if (index != 0) {
        blocks[index] = *old;
        blocks[index].next = *bucket;
        *bucket = index;
        counts.all_blocks++;
        if (old->number > mark) {
            counts.live_blocks++;
            counts.live_bytes += old->bytes;
        }
    }
    (void)pthread_mutex_unlock(&lock);
}

/* Is this the call chosen by heap_fail_at()? Several threads may call it. */
static bool must_fail(void)
{
    uint64_t left = __atomic_load_n(&fail_at, __ATOMIC_RELAXED);

    while (left != 0)
        if (__atomic_compare_exchange_n(&fail_at, &left, left - 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return left == 1;
    return false;
}

#define CALLER __builtin_return_address(0)

static void *counted_malloc(size_t bytes)
{
    void *memory = must_fail() ? NULL : malloc(bytes);
    remember(memory, bytes, CALLER);
    return memory;
}
static void *counted_calloc(size_t count, size_t bytes)
{
    void *memory = must_fail() ? NULL : calloc(count, bytes);
    remember(memory, count * bytes, CALLER);
    return memory;
}
static void *counted_realloc(void *old, size_t bytes)
{
    const bool fails = must_fail();
    struct block before = { .address = NULL };
    void *memory;

    if (!fails)
        forget(old, &before); /* first, because another thread may be given the address as soon as it is free */
    memory = fails ? NULL : realloc(old, bytes);
    if (memory == NULL && bytes > 0)
        restore(&before);
    remember(memory, bytes, CALLER);
    return memory;
}
static void *counted_aligned_alloc(size_t alignment, size_t bytes)
{
    void *memory = must_fail() ? NULL : aligned_alloc(alignment, bytes);
    remember(memory, bytes, CALLER);
    return memory;
}
static int counted_posix_memalign(void **out, size_t alignment, size_t bytes)
{
    int error = must_fail() ? ENOMEM : posix_memalign(out, alignment, bytes);
    remember(error == 0 ? *out : NULL, bytes, CALLER);
    return error;
}
static char *counted_strdup(const char *text)
{
    char *memory = strdup(text);
    remember(memory, strlen(text) + 1, CALLER);
    return memory;
}
static int counted_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*start)(void *), void *user)
{
    (void)__atomic_add_fetch(&counts.threads, 1, __ATOMIC_RELAXED);
    return pthread_create(out, attributes, start, user);
}
static void counted_free(void *memory)
{
    struct block old;

    forget(memory, &old);
    free(memory);
}

#define HOOK(name)                                                                                                     \
    {                                                                                                                  \
#name, (void (*)(void))counted_##name                                                                          \
    }
static const import_hook hooks[] = { HOOK(malloc),         HOOK(calloc), HOOK(realloc),        HOOK(aligned_alloc),
                                     HOOK(posix_memalign), HOOK(strdup), HOOK(pthread_create), HOOK(free) };
#undef HOOK

bool heap_watch(void *handle)
{
    if (blocks == NULL)
        blocks = calloc(BLOCKS, sizeof *blocks);
    if (buckets == NULL)
        buckets = calloc(BUCKETS, sizeof *buckets);
    return blocks != NULL && buckets != NULL && imports_replace(handle, hooks, sizeof hooks / sizeof hooks[0], &base);
}

heap_counts heap_read_counts(void)
{
    heap_counts now;

    (void)pthread_mutex_lock(&lock);
    now = counts;
    (void)pthread_mutex_unlock(&lock);
    return now;
}

void heap_mark(void)
{
    (void)pthread_mutex_lock(&lock);
    mark = counts.calls;
    counts.live_blocks = counts.live_bytes = 0;
    (void)pthread_mutex_unlock(&lock);
}

void heap_fail_at(uint64_t call)
{
    __atomic_store_n(&fail_at, call, __ATOMIC_RELAXED);
}

bool heap_has_failed(void)
{
    return __atomic_load_n(&fail_at, __ATOMIC_RELAXED) == 0;
}

void heap_main_caller(char *text, size_t bytes)
{
    void *callers[32];
    uint32_t block_counts[32], count = 0, best = 0;

    INLAY_CHECK(next_unused <= BLOCKS);
    text[0] = '\0';
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 1; i < next_unused; i++) {
        uint32_t k = 0;

        if (blocks[i].address == NULL || blocks[i].number <= mark)
            continue;
        while (k < count && callers[k] != blocks[i].caller)
            k++;
        if (k == count && count < 32) {
            callers[count] = blocks[i].caller;
            block_counts[count++] = 0;
        }
        if (k < count)
            block_counts[k]++;
    }
    (void)pthread_mutex_unlock(&lock);
    for (uint32_t k = 1; k < count; k++)
        best = block_counts[k] > block_counts[best] ? k : best;
    if (count > 0 || last_caller != NULL)
        (void)snprintf(text, bytes, "0x%llx",
                       (unsigned long long)((uintptr_t)(count > 0 ? callers[best] : last_caller) - base));
}
