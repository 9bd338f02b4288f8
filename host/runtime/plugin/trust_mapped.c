/* Whether a loaded library is the file that was checked. */
#include "plugin/trust.h"
#include "base/memory.h"
#include "threads/fork.h"
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct mapping {
    unsigned major, minor;
    unsigned long inode;
    bool found;
};

/* Finds the mappings of two addresses in /proc/self/maps. The kernel resolves the file name of each line, which
 * takes longer than everything else here, so reading stops at the second hit. */
static bool find_mappings(uintptr_t first, struct mapping *out_first, uintptr_t second, struct mapping *out_second)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[PATH_MAX + 128];

    while (maps != NULL && !(out_first->found && out_second->found) && fgets(line, sizeof line, maps) != NULL) {
        char *at;
        const uintptr_t begin = strtoul(line, &at, 16), end = *at == '-' ? strtoul(at + 1, &at, 16) : 0;
        const bool has_first = first >= begin && first < end, has_second = second >= begin && second < end;
        struct mapping mapping = { .found = true };

        /* There are hundreds of lines, and only two of them are read completely. */
        if ((!has_first && !has_second) ||
            sscanf(at, "%*s %*x %x:%x %lu", &mapping.major, &mapping.minor, &mapping.inode) != 3)
            continue;
        if (has_first)
            *out_first = mapping;
        if (has_second)
            *out_second = mapping;
    }
    if (maps != NULL)
        (void)fclose(maps);
    return out_first->found && out_second->found;
}

/* Libraries whose file was verified. They stay mapped until trust_forget(), so that later sessions need not search the
 * list of mappings, which takes a third of the time to create a small session. */
enum { MOST_VERIFIED = 64 };
static struct verified {
    const void *address;
    dev_t device;
    ino_t inode;
} verified[MOST_VERIFIED];
static uint32_t verified_count;
static pthread_mutex_t verified_lock = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((constructor)) void guard_verified(void)
{
    fork_guard(&verified_lock);
}

static bool is_verified(const void *address, const struct stat *st)
{
    bool found = false;

    (void)pthread_mutex_lock(&verified_lock);
    for (uint32_t i = 0; i < verified_count; i++)
        found |= verified[i].address == address && verified[i].device == st->st_dev && verified[i].inode == st->st_ino;
    (void)pthread_mutex_unlock(&verified_lock);
    return found;
}

static void set_verified(const void *address, const struct stat *st)
{
    (void)pthread_mutex_lock(&verified_lock);
    if (verified_count < MOST_VERIFIED)
        verified[verified_count++] = (struct verified){ .address = address, .device = st->st_dev, .inode = st->st_ino };
    (void)pthread_mutex_unlock(&verified_lock);
}

void trust_forget(void)
{
    (void)pthread_mutex_lock(&verified_lock);
    verified_count = 0;
    (void)pthread_mutex_unlock(&verified_lock);
}

/* Layered file systems (overlayfs, btrfs) report other device numbers in stat() than in /proc/self/maps. So the
 * checked file is mapped, too, and the two mappings are compared. */
inlay_status trust_mapped(int fd, const void *address, const void *lowest, inlay_diag *diag)
{
    enum { PAGE = 65536 };
    struct mapping checked = { 0 }, loaded = { 0 };
    /* Near the library if possible, so that the two mappings are close together in the list. */
    uintptr_t near = (uintptr_t)lowest / PAGE * PAGE - 2 * PAGE;
    struct stat st;
    void *page;
    bool found;

    if (fstat(fd, &st) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s", strerror(errno));
    if (is_verified(address, &st))
        return INLAY_OK;
    page = mmap((void *)near, 1, PROT_READ, MAP_PRIVATE, fd, 0);
    if (page == MAP_FAILED)
        return no_memory(diag, "to compare a file with the loaded library");
    errno = 0;
    found = find_mappings((uintptr_t)page, &checked, (uintptr_t)address, &loaded);
    (void)munmap(page, 1);
    if (!found)
        return inlay_fail(diag, errno == ENOMEM ? INLAY_OUT_OF_MEMORY : INLAY_IO_ERROR,
                          "cannot verify in /proc/self/maps that the loaded file is the one that was checked");
    if (checked.major == loaded.major && checked.minor == loaded.minor && checked.inode == loaded.inode) {
        set_verified(address, &st);
        return INLAY_OK;
    }
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "the loaded file is not the one that was checked: it was replaced in between, or an older file "
                      "of this name is still loaded in this process; restart the process");
}
