#include "base/mapped_file.h"
#include "base/pin.h"
#include "inlay/check.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Records are in a list that only grows, since a signal handler reads it, and are reused. */
struct mapped_file {
    mapped_file *next;
    uint32_t used;        /* atomic */
    uintptr_t begin, end; /* atomic: whole pages; begin 0: none */
    uint32_t failed;      /* atomic: an access failed */
    uint32_t changed;     /* atomic: the file was found changed */
    file_id id;
    char *path; /* NULL: unknown, so that only failed accesses are noticed */
};

static mapped_file *first; /* atomic */

file_id file_id_of(const struct stat *st)
{
    return (file_id){ .device = (uint64_t)st->st_dev,
                      .inode = (uint64_t)st->st_ino,
                      .bytes = (uint64_t)st->st_size,
                      .modified = { st->st_mtim.tv_sec, st->st_mtim.tv_nsec },
                      .changed = { st->st_ctim.tv_sec, st->st_ctim.tv_nsec } };
}

bool mapped_file_repair(int code, const void *address)
{
    const uintptr_t at = (uintptr_t)address;

    if (code <= 0) /* sent by a program */
        return false;
    for (mapped_file *file = __atomic_load_n(&first, __ATOMIC_ACQUIRE); file != NULL; file = file->next) {
        const uintptr_t begin = __atomic_load_n(&file->begin, __ATOMIC_ACQUIRE);
        const uintptr_t end = __atomic_load_n(&file->end, __ATOMIC_ACQUIRE);
        const uintptr_t page = at & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);

        /* The mapping at `at` is in use, so its record does not change; the record of another mapping may change while
         * it is read here. */
        if (begin == 0 || at < begin || at >= end || __atomic_load_n(&file->begin, __ATOMIC_ACQUIRE) != begin)
            continue;
        __atomic_store_n(&file->failed, 1, __ATOMIC_RELEASE);
        return mmap((void *)page, end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
    }
    return false;
}

static void handle(int number, siginfo_t *info, void *context)
{
    const int error = errno;
    struct sigaction plain = { .sa_handler = SIG_DFL };

    (void)context;
    if (!mapped_file_repair(info->si_code, info->si_addr)) {
        (void)sigaction(number, &plain, NULL);
        if (info->si_code <= 0) /* otherwise the access is repeated */
            (void)raise(number);
    }
    errno = error;
}

static void install(void)
{
    struct sigaction action = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK }, before;

    if (sigaction(SIGBUS, NULL, &before) != 0 || (before.sa_flags & SA_SIGINFO) != 0 || before.sa_handler != SIG_DFL)
        return;
    pin_library(&first);
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGBUS, &action, NULL);
}

/* A record that no other thread uses; NULL: out of memory. */
static mapped_file *claim(void)
{
    mapped_file *file = __atomic_load_n(&first, __ATOMIC_ACQUIRE);

    for (; file != NULL; file = file->next) {
        uint32_t unused = 0;

        if (__atomic_compare_exchange_n(&file->used, &unused, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return file;
    }
    file = calloc(1, sizeof *file);
    if (file == NULL)
        return NULL;
    file->used = 1;
    file->next = __atomic_load_n(&first, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(&first, &file->next, file, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
        ;
    return file;
}

mapped_file *mapped_file_watch(const void *address, size_t bytes, int fd, const struct stat *st)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)address;
    mapped_file *file = claim();
    char name[32], path[PATH_MAX];
    ssize_t length;

    INLAY_CHECK(begin % page == 0 && bytes > 0);
    if (file == NULL)
        return NULL;
    (void)pthread_once(&once, install);
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    length = readlink(name, path, sizeof path);
    file->path = length > 0 && (size_t)length < sizeof path ? strndup(path, (size_t)length) : NULL;
    file->id = file_id_of(st);
    file->failed = file->changed = 0;
    __atomic_store_n(&file->end, begin + (bytes + page - 1) / page * page, __ATOMIC_RELEASE);
    __atomic_store_n(&file->begin, begin, __ATOMIC_RELEASE);
    return file;
}

void mapped_file_forget(mapped_file *file)
{
    if (file == NULL)
        return;
    INLAY_CHECK(file->used == 1);
    __atomic_store_n(&file->begin, 0, __ATOMIC_RELEASE);
    free(file->path);
    __atomic_store_n(&file->used, 0, __ATOMIC_RELEASE);
}

const file_id *mapped_file_id(const mapped_file *file)
{
    return &file->id;
}

/* Has the file changed? A file that has another name by now, or none, keeps its bytes for the mapping. */
static bool has_changed(const mapped_file *file)
{
    struct stat st;
    file_id now;

    if (file->path == NULL || stat(file->path, &st) != 0)
        return false;
    now = file_id_of(&st);
    return now.device == file->id.device && now.inode == file->id.inode &&
           (now.bytes != file->id.bytes || now.modified[0] != file->id.modified[0] ||
            now.modified[1] != file->id.modified[1]);
}

inlay_status mapped_file_check(mapped_file *file, inlay_diag *diag)
{
    const char *name = file->path != NULL ? file->path : "a mapped file";
    const bool failed = __atomic_load_n(&file->failed, __ATOMIC_ACQUIRE) != 0;

    if (__atomic_load_n(&file->changed, __ATOMIC_RELAXED) == 0 && has_changed(file))
        __atomic_store_n(&file->changed, 1, __ATOMIC_RELAXED);
    if (__atomic_load_n(&file->changed, __ATOMIC_RELAXED) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR,
                          "%.300s was written to while it was in use; load it again, and replace files by renaming "
                          "(mv) instead of writing into them",
                          name);
    if (failed)
        return inlay_fail(diag, INLAY_IO_ERROR, "%.300s cannot be read: the disk failed, or the file was cut short",
                          name);
    return INLAY_OK;
}
