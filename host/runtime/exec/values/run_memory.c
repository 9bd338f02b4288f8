#include "exec/values/run_memory.h"
#include "base/asan.h"
#include "base/memory.h"
#include "base/pages.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct run_memory {
    uint32_t references;       /* atomic */
    inlay_allocator allocator; /* alloc NULL: malloc */
    uint64_t budget, process_budget, cap;
    uint64_t held;       /* atomic: bytes held between runs */
    uint64_t used, peak; /* atomic */
    uint64_t calls;      /* atomic: number of allocations */
};

static uint64_t process_used; /* atomic: of all run_memory with a process_budget */

static uint64_t rounded(uint64_t bytes, uint64_t alignment)
{
    return (bytes + alignment - 1) / alignment * alignment;
}

static void *heap_block(uint64_t bytes, uint64_t alignment)
{
    const uint64_t room = rounded(bytes, alignment);

    if (room < bytes || room > PTRDIFF_MAX)
        return NULL;
    return aligned_alloc((size_t)alignment, (size_t)(room > 0 ? room : alignment));
}

#if defined(__linux__) && !defined(WITH_ASAN)
/* Blocks of at least this size are mapped, and unmapped when they are given back. malloc would keep them: once a larger
 * block was freed, it places blocks of up to 32 MiB in the heap, and tensors that grow from step to step do not fit
 * into the gaps that their predecessors leave. AddressSanitizer checks accesses of blocks of malloc only. */
static const uint64_t mapped_bytes = 4 << 20;

static void *map_block(uint64_t bytes, uint64_t alignment)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), room = rounded(bytes, page),
                   more = alignment > page ? alignment : 0;
    char *memory, *aligned;

    if (room < bytes || room > SIZE_MAX - more)
        return NULL;
    memory = mmap(NULL, (size_t)(room + more), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (more == 0)
        return memory;
    aligned = memory + (rounded((uintptr_t)memory, alignment) - (uintptr_t)memory);
    if (aligned > memory)
        (void)munmap(memory, (size_t)(aligned - memory));
    if (memory + more > aligned)
        (void)munmap(aligned + room, (size_t)(memory + more - aligned));
    return aligned;
}

static void *take_block(uint64_t bytes, uint64_t alignment, uint64_t least_mapped)
{
    return bytes >= least_mapped ? map_block(bytes, alignment) : heap_block(bytes, alignment);
}

static void give_block(void *memory, uint64_t bytes, uint64_t least_mapped)
{
    if (bytes >= least_mapped)
        (void)munmap(memory, (size_t)rounded(bytes, (uint64_t)sysconf(_SC_PAGESIZE)));
    else
        free(memory);
}
#else
static const uint64_t mapped_bytes = UINT64_MAX;

static void *take_block(uint64_t bytes, uint64_t alignment, uint64_t least_mapped)
{
    (void)least_mapped;
    return heap_block(bytes, alignment);
}

static void give_block(void *memory, uint64_t bytes, uint64_t least_mapped)
{
    (void)bytes, (void)least_mapped;
    free(memory);
}
#endif

run_memory *run_memory_create(const inlay_allocator *allocator, uint64_t budget, uint64_t process_budget, uint64_t cap)
{
    run_memory *memory = calloc(1, sizeof *memory);

    if (memory == NULL)
        return NULL;
    memory->references = 1;
    memory->budget = budget;
    memory->process_budget = process_budget;
    memory->cap = cap;
    if (allocator != NULL)
        memory->allocator = *allocator;
    return memory;
}

run_memory *run_memory_ref(run_memory *memory)
{
    INLAY_CHECK(memory == NULL || __atomic_load_n(&memory->references, __ATOMIC_RELAXED) > 0);
    if (memory != NULL)
        (void)__atomic_add_fetch(&memory->references, 1, __ATOMIC_RELAXED);
    return memory;
}

void run_memory_unref(run_memory *memory)
{
    INLAY_CHECK(memory == NULL || __atomic_load_n(&memory->references, __ATOMIC_RELAXED) > 0);
    if (memory != NULL && __atomic_sub_fetch(&memory->references, 1, __ATOMIC_ACQ_REL) == 0)
        free(memory);
}

uint64_t *run_memory_held(run_memory *memory)
{
    return memory == NULL || memory->cap == 0 ? NULL : &memory->held;
}

bool run_memory_fits(const run_memory *memory, uint64_t more, uint64_t mine, uint64_t *out_least)
{
    uint64_t used;

    if (memory == NULL || memory->cap == 0)
        return true;
    used = __atomic_load_n(&memory->used, __ATOMIC_RELAXED);
    used = used > mine ? used - mine : 0;
    *out_least = used + __atomic_load_n(&memory->held, __ATOMIC_RELAXED);
    if (__builtin_add_overflow(*out_least, more, out_least))
        *out_least = UINT64_MAX;
    return *out_least <= memory->cap;
}

uint64_t run_memory_spare(const run_memory *memory)
{
    uint64_t taken;

    if (memory == NULL || memory->cap == 0)
        return UINT64_MAX;
    taken = __atomic_load_n(&memory->used, __ATOMIC_RELAXED) + __atomic_load_n(&memory->held, __ATOMIC_RELAXED);
    return taken < memory->cap ? memory->cap - taken : 0;
}

inlay_status run_memory_limit_error(const run_memory *memory, const char *what, uint64_t least, bool estimated,
                                    inlay_diag *diag)
{
    (void)inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                     "%s needs memory_limit host=%llu %s; it is %llu, of which %llu are for weights and plans", what,
                     (unsigned long long)least, estimated ? "by estimate" : "at least", (unsigned long long)memory->cap,
                     (unsigned long long)__atomic_load_n(&memory->held, __ATOMIC_RELAXED));
    if (diag != NULL)
        diag->error_class = INLAY_CLASS_MEMORY;
    return INLAY_LIMIT_EXCEEDED;
}

/* Adds bytes to process_used. False: that exceeds the budget. */
static bool count_in_process(const run_memory *memory, uint64_t bytes)
{
    uint64_t used = __atomic_load_n(&process_used, __ATOMIC_RELAXED);

    do {
        if (used > memory->process_budget || bytes > memory->process_budget - used)
            return false;
    } while (
        !__atomic_compare_exchange_n(&process_used, &used, used + bytes, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return true;
}

/* Takes bytes off what count_in() has added. */
static void count_out(run_memory *memory, uint64_t bytes)
{
    (void)__atomic_sub_fetch(&memory->used, bytes, __ATOMIC_RELAXED);
    if (memory->process_budget != 0)
        (void)__atomic_sub_fetch(&process_used, bytes, __ATOMIC_RELAXED);
}

/* Adds bytes to `used`. False: that exceeds a budget or the cap. */
static bool count_in(run_memory *memory, uint64_t bytes)
{
    const uint64_t held = __atomic_load_n(&memory->held, __ATOMIC_RELAXED);
    uint64_t used = __atomic_load_n(&memory->used, __ATOMIC_RELAXED), peak, all;

    do {
        if (memory->budget != 0 && (used > memory->budget || bytes > memory->budget - used))
            return false;
        if (memory->cap != 0 && (__builtin_add_overflow(used + held, bytes, &all) || all > memory->cap))
            return false;
    } while (
        !__atomic_compare_exchange_n(&memory->used, &used, used + bytes, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    if (memory->process_budget != 0 && !count_in_process(memory, bytes)) {
        (void)__atomic_sub_fetch(&memory->used, bytes, __ATOMIC_RELAXED);
        return false;
    }
    peak = __atomic_load_n(&memory->peak, __ATOMIC_RELAXED);
    while (peak < used + bytes &&
           !__atomic_compare_exchange_n(&memory->peak, &peak, used + bytes, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return true;
}

static inlay_status over_budget(const run_memory *memory, uint64_t bytes, inlay_diag *diag)
{
    const uint64_t used = __atomic_load_n(&memory->used, __ATOMIC_RELAXED);
    const bool own = memory->budget != 0 && (used > memory->budget || bytes > memory->budget - used);
    uint64_t least;

    if (!run_memory_fits(memory, bytes, 0, &least))
        return run_memory_limit_error(memory, "the run", least, false, diag);
    if (own || memory->process_budget == 0)
        (void)inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                         "%llu bytes more would exceed memory_budget: %llu of %llu are in use; "
                         "raise it, or run fewer contexts or smaller inputs",
                         (unsigned long long)bytes, (unsigned long long)used, (unsigned long long)memory->budget);
    else
        (void)inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                         "%llu bytes more would exceed process_memory_budget: %llu of %llu are in use, %llu of them by "
                         "this session; raise it, or run fewer contexts or smaller inputs",
                         (unsigned long long)bytes,
                         (unsigned long long)__atomic_load_n(&process_used, __ATOMIC_RELAXED),
                         (unsigned long long)memory->process_budget, (unsigned long long)used);
    if (diag != NULL)
        diag->error_class = own || used > memory->process_budget || bytes > memory->process_budget - used
                                ? INLAY_CLASS_MEMORY
                                : INLAY_CLASS_RETRY;
    return INLAY_LIMIT_EXCEEDED;
}

/* The smallest block that is mapped. */
static uint64_t least_mapped(bool states)
{
    return states && mapped_bytes != UINT64_MAX ? 1 << 20 : mapped_bytes;
}

inlay_status run_memory_take(run_memory *memory, bool states, uint64_t bytes, uint64_t alignment, void **out_memory,
                             inlay_diag *diag)
{
    /* Slabs and outputs are written as a whole, and faults of small pages would take longer than the first run. States
     * of texts are written bit by bit. */
    const bool large = !states && bytes >= PAGES_LARGE;

    INLAY_CHECK(alignment >= 64);
    *out_memory = NULL;
    if (memory != NULL && !count_in(memory, bytes))
        return over_budget(memory, bytes, diag);
    if (memory != NULL && memory->allocator.alloc != NULL)
        *out_memory = memory->allocator.alloc(memory->allocator.user, bytes, alignment);
    else
        *out_memory =
            take_block(bytes, large && alignment < PAGES_LARGE ? PAGES_LARGE : alignment, least_mapped(states));
    if (large && *out_memory != NULL && (memory == NULL || memory->allocator.alloc == NULL))
        pages_large(*out_memory, bytes);
    if (memory != NULL)
        (void)__atomic_add_fetch(&memory->calls, 1, __ATOMIC_RELAXED);
    if (*out_memory != NULL)
        return INLAY_OK;
    if (memory != NULL)
        count_out(memory, bytes);
    return no_memory(diag, "for %llu bytes", (unsigned long long)bytes);
}

bool run_memory_is_mapped(const run_memory *source, uint64_t bytes)
{
    return (source == NULL || source->allocator.alloc == NULL) && bytes >= least_mapped(true);
}

void run_memory_give(run_memory *source, bool states, void *memory, uint64_t bytes)
{
    if (memory == NULL)
        return;
    INLAY_CHECK(source == NULL || __atomic_load_n(&source->used, __ATOMIC_RELAXED) >= bytes);
    if (source != NULL && source->allocator.alloc != NULL)
        source->allocator.free(source->allocator.user, memory, bytes);
    else
        give_block(memory, bytes, least_mapped(states));
    if (source != NULL)
        count_out(source, bytes);
}

uint64_t run_memory_used(const run_memory *memory)
{
    return __atomic_load_n(&memory->used, __ATOMIC_RELAXED);
}

void run_memory_get_info(const run_memory *memory, inlay_memory_info *out)
{
    *out = (inlay_memory_info){ .struct_size = sizeof *out,
                                .used_bytes = __atomic_load_n(&memory->used, __ATOMIC_RELAXED),
                                .peak_bytes = __atomic_load_n(&memory->peak, __ATOMIC_RELAXED),
                                .budget_bytes = memory->budget,
                                .allocations = __atomic_load_n(&memory->calls, __ATOMIC_RELAXED) };
}
