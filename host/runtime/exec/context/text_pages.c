#include "exec/context/text_pages.h"
#include "inlay/check.h"
#include <stdbool.h>
#include <stddef.h>

#if defined(__linux__) && !defined(WITH_ASAN)
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    LEAST_BLOCK = 64 << 10, /* smaller blocks are copied: a mapping takes time, too */
    MOST_MAPPINGS = 24000   /* of the 65,530 of a process; each one splits the memory around it in two */
};

struct text_pages {
    uint32_t references; /* atomic */
    int file;
    int64_t entries;
    struct {
        int64_t at, bytes; /* of the first block in the file, and of each block */
    } parts[];
};

static uint32_t mapping_count; /* atomic */

static int64_t whole_pages(int64_t bytes)
{
    return bytes - bytes % sysconf(_SC_PAGESIZE);
}

text_pages *text_pages_create(const text_part *parts, uint32_t count, int64_t entries)
{
    text_pages *pages = malloc(sizeof *pages + count * sizeof *pages->parts);
    int64_t all = 0;
    bool good;

    if (pages == NULL)
        return NULL;
    *pages = (text_pages){ .references = 1, .file = -1, .entries = entries };
    for (uint32_t k = 0; k < count; k++) {
        pages->parts[k].at = all;
        pages->parts[k].bytes = parts[k].bytes < LEAST_BLOCK ? 0 : whole_pages(parts[k].bytes);
        all += parts[k].blocks * pages->parts[k].bytes;
    }
    pages->file = all > 0 ? memfd_create("states of a text", MFD_CLOEXEC) : -1;
    good = pages->file >= 0;
    for (uint32_t k = 0; k < count; k++)
        for (int64_t i = 0; good && i < parts[k].blocks; i++) {
            const int64_t bytes = pages->parts[k].bytes;

            good = pwrite(pages->file, parts[k].data + i * parts[k].stride, (size_t)bytes,
                          pages->parts[k].at + i * bytes) == bytes;
        }
    if (good)
        return pages;
    text_pages_unref(pages);
    return NULL;
}

text_pages *text_pages_ref(text_pages *pages)
{
    if (pages != NULL)
        (void)__atomic_add_fetch(&pages->references, 1, __ATOMIC_RELAXED);
    return pages;
}

void text_pages_unref(text_pages *pages)
{
    if (pages == NULL || __atomic_sub_fetch(&pages->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    if (pages->file >= 0)
        (void)close(pages->file);
    free(pages);
}

int64_t text_pages_entries(const text_pages *pages)
{
    return pages->entries;
}

int64_t text_pages_map(const text_pages *pages, uint32_t part, int64_t block, char *to, int64_t bytes)
{
    const int64_t all = pages->parts[part].bytes, some = whole_pages(bytes < all ? bytes : all);

    if (some < LEAST_BLOCK || (int64_t)(uintptr_t)to != whole_pages((int64_t)(uintptr_t)to))
        return 0;
    if (__atomic_add_fetch(&mapping_count, 1, __ATOMIC_RELAXED) <= MOST_MAPPINGS &&
        mmap(to, (size_t)some, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, pages->file,
             pages->parts[part].at + block * all) != MAP_FAILED)
        return some;
    text_pages_forget(1);
    return 0;
}

void text_pages_forget(uint32_t mappings)
{
    (void)__atomic_sub_fetch(&mapping_count, mappings, __ATOMIC_RELAXED);
}
#else
text_pages *text_pages_create(const text_part *parts, uint32_t count, int64_t entries)
{
    (void)parts, (void)count, (void)entries;
    return NULL;
}
text_pages *text_pages_ref(text_pages *pages)
{
    return pages;
}
void text_pages_unref(text_pages *pages)
{
    INLAY_CHECK(pages == NULL);
    (void)pages;
}
int64_t text_pages_entries(const text_pages *pages)
{
    (void)pages;
    return 0;
}
int64_t text_pages_map(const text_pages *pages, uint32_t part, int64_t block, char *to, int64_t bytes)
{
    (void)pages, (void)part, (void)block, (void)to, (void)bytes;
    return 0;
}
void text_pages_forget(uint32_t mappings)
{
    (void)mappings;
}
#endif
