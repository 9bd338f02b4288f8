/* probe/shortage.c - notices allocations that fail in the process of an isolated provider.
 *
 * A plugin that is out of memory often crashes. So that the host can name the cause, the helper defines the functions
 * by which the plugin and its libraries allocate; the dynamic linker prefers those of the executable. They call the
 * ones of the C library, and note a failure. */
#include "probe/shortage.h"
#include "probe/restrict.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static isolate_header *noted_in;

void shortage_note_in(isolate_header *header)
{
    noted_in = header;
}

#if !RESTRICT_SHADOW_MEMORY /* sanitizers replace the same functions */

#define EXPORTED __attribute__((visibility("default")))

/* The functions behind the names that this file replaces. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *data, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static void *note(void *data, size_t bytes)
{
    struct rlimit limit;

    if (data == NULL && bytes > 0 && noted_in != NULL && getrlimit(RLIMIT_DATA, &limit) == 0) {
        __atomic_store_n(&noted_in->failed_limit, limit.rlim_cur, __ATOMIC_RELAXED);
        __atomic_store_n(&noted_in->failed_bytes, bytes, __ATOMIC_RELAXED);
        errno = ENOMEM;
    }
    return data;
}

EXPORTED void *malloc(size_t bytes)
{
    return note(__libc_malloc(bytes), bytes);
}

EXPORTED void *calloc(size_t count, size_t bytes)
{
    size_t all;

    return note(__libc_calloc(count, bytes), __builtin_mul_overflow(count, bytes, &all) ? SIZE_MAX : all);
}

EXPORTED void *realloc(void *data, size_t bytes)
{
    return note(__libc_realloc(data, bytes), bytes);
}

EXPORTED void *memalign(size_t alignment, size_t bytes)
{
    return note(__libc_memalign(alignment, bytes), bytes);
}

EXPORTED void *aligned_alloc(size_t alignment, size_t bytes)
{
    return memalign(alignment, bytes);
}

EXPORTED int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    void *data;

    if (alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0)
        return EINVAL;
    data = memalign(alignment, bytes);
    if (data == NULL)
        return ENOMEM;
    *out = data;
    return 0;
}

EXPORTED void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    void *data = (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);

    if (data == MAP_FAILED && errno == ENOMEM)
        (void)note(NULL, bytes);
    return data;
}

/* The name for programs with -D_FILE_OFFSET_BITS=64. */
EXPORTED __attribute__((alias("mmap"))) void *mmap64(void *at, size_t bytes, int protection, int flags, int fd,
                                                     off_t offset);
#endif
