/* Arenas for builds and instances, which the next build reuses: first touching new pages would take longer than writing
 * the contents. */
#include "cpu/region/build.h"
#include <stdlib.h>

/* Sizes are multiples of CACHE_LINE. Addresses are aligned like those of malloc. */
enum { CACHE_LINE = 64, KEPT_BYTES = 8 << 20 };

/* Header of an allocation that did not fit into the arena. */
typedef struct overflow_block {
    struct overflow_block *next;
} overflow_block;

struct cpu_scratch {
    char *memory;
    size_t bytes, used;
    overflow_block *extras;
    size_t extra_bytes; /* bytes in extras; reset() enlarges the arena by them */
};

cpu_scratch *cpu_scratch_open(cpu_scratch **spare)
{
    cpu_scratch *scratch = __atomic_exchange_n(spare, NULL, __ATOMIC_ACQUIRE);

    return scratch != NULL ? scratch : calloc(1, sizeof *scratch);
}

void *cpu_scratch_take(cpu_scratch *scratch, size_t count, size_t element)
{
    size_t bytes;
    overflow_block *extra;
    char *taken;

    INLAY_CHECK(scratch->used <= scratch->bytes);
    if (__builtin_mul_overflow(count, element, &bytes) || bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    if (bytes <= scratch->bytes - scratch->used) {
        taken = scratch->memory + scratch->used;
        scratch->used += bytes;
        return taken;
    }
    extra = malloc(CACHE_LINE + bytes);
    if (extra == NULL)
        return NULL;
    extra->next = scratch->extras;
    scratch->extras = extra;
    scratch->extra_bytes += bytes;
    return (char *)extra + CACHE_LINE;
}

void *cpu_scratch_take_zeroed(cpu_scratch *scratch, size_t count, size_t element)
{
    void *taken = cpu_scratch_take(scratch, count, element);

    return taken == NULL ? NULL : memset(taken, 0, count * element);
}

static void reset(cpu_scratch *scratch)
{
    while (scratch->extras != NULL) {
        overflow_block *next = scratch->extras->next;

        free(scratch->extras);
        scratch->extras = next;
    }
    if (scratch->extra_bytes > 0) {
        free(scratch->memory);
        scratch->bytes = scratch->used + scratch->extra_bytes;
        scratch->memory = scratch->bytes <= KEPT_BYTES ? malloc(scratch->bytes) : NULL;
        if (scratch->memory == NULL)
            scratch->bytes = 0;
        scratch->extra_bytes = 0;
    }
    scratch->used = 0;
}

static void destroy(cpu_scratch *scratch)
{
    if (scratch == NULL)
        return;
    reset(scratch);
    free(scratch->memory);
    free(scratch);
}

void cpu_scratch_close(cpu_scratch **spare, cpu_scratch *scratch)
{
    if (scratch == NULL)
        return;
    reset(scratch);
    destroy(__atomic_exchange_n(spare, scratch, __ATOMIC_ACQ_REL));
}

void cpu_scratch_drop(cpu_scratch **spare)
{
    destroy(__atomic_exchange_n(spare, NULL, __ATOMIC_ACQ_REL));
}

bool cpu_scratch_grow(cpu_scratch *scratch, void *array, uint32_t count, uint32_t *capacity, size_t element)
{
    const uint32_t more = *capacity < 32 ? 32 : *capacity * 2;
    void *old, *fresh;

    INLAY_CHECK(count <= *capacity && element > 0);
    if (count < *capacity)
        return true;
    memcpy(&old, array, sizeof old); /* array is the address of a typed pointer */
    fresh = more > *capacity ? cpu_scratch_take(scratch, more, element) : NULL;
    if (fresh == NULL)
        return false;
    if (count > 0)
        memcpy(fresh, old, count * element);
    memcpy(array, &fresh, sizeof fresh);
    *capacity = more;
    return true;
}

bool cpu_grow(void *array, uint32_t count, uint32_t *capacity, size_t element)
{
    uint32_t more = *capacity < 32 ? 32 : *capacity * 2;
    void *old, *fresh;

    INLAY_CHECK(count <= *capacity && element > 0);
    if (count < *capacity)
        return true;
    memcpy(&old, array, sizeof old); /* array is the address of a typed pointer */
    fresh = more > *capacity ? realloc(old, more * element) : NULL;
    if (fresh == NULL)
        return false;
    memset((char *)fresh + *capacity * element, 0, (more - *capacity) * element);
    memcpy(array, &fresh, sizeof fresh);
    *capacity = more;
    return true;
}
