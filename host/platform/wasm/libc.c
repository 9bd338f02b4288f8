/* Functions that wasi-libc lacks, and a lock for its heap. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Memory is not divided into pages that the program could give back. */
int madvise(void *memory, size_t bytes, int advice)
{
    (void)memory, (void)bytes, (void)advice;
    return 0;
}

int mlockall(int flags)
{
    (void)flags;
    errno = ENOSYS;
    return -1;
}

/* There is no environment. */
char *secure_getenv(const char *name)
{
    (void)name;
    return NULL;
}

/* There are no links, so only "." and ".." are resolved. */
char *realpath(const char *path, char *real)
{
    char *out = real != NULL ? real : malloc(PATH_MAX);
    size_t bytes = 0;
    struct stat st;

    if (out == NULL)
        return NULL;
    for (const char *part = path; *part != '\0';) {
        const size_t length = strcspn(part, "/");

        if (length == 2 && memcmp(part, "..", 2) == 0) {
            while (bytes > 0 && out[--bytes] != '/')
                continue;
        } else if (length > 0 && !(length == 1 && *part == '.')) {
            if (bytes + length + 2 > PATH_MAX) {
                errno = ENAMETOOLONG;
                goto failed;
            }
            out[bytes++] = '/';
            memcpy(out + bytes, part, length);
            bytes += length;
        }
        part += length + (part[length] == '/');
    }
    if (bytes == 0)
        out[bytes++] = '/';
    out[bytes] = '\0';
    if (stat(out, &st) == 0)
        return out;
failed:
    if (real == NULL)
        free(out);
    return NULL;
}

/* The heap.
 *
 * wasi-libc is compiled for one thread. Of its functions with state, parallel loops call only those of the heap. The
 * linker's --wrap redirects these calls. */
static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER;

#define WRAP(result, name, parameters, arguments)                                                                      \
    result __real_##name parameters;                                                                                   \
    result __wrap_##name parameters;                                                                                   \
    result __wrap_##name parameters                                                                                    \
    {                                                                                                                  \
        result value;                                                                                                  \
                                                                                                                       \
        (void)pthread_mutex_lock(&heap_lock);                                                                          \
        value = __real_##name arguments;                                                                               \
        (void)pthread_mutex_unlock(&heap_lock);                                                                        \
        return value;                                                                                                  \
    }
WRAP(void *, malloc, (size_t bytes), (bytes))
WRAP(void *, calloc, (size_t count, size_t bytes), (count, bytes))
WRAP(void *, realloc, (void *memory, size_t bytes), (memory, bytes))
WRAP(void *, aligned_alloc, (size_t alignment, size_t bytes), (alignment, bytes))
WRAP(int, posix_memalign, (void **out, size_t alignment, size_t bytes), (out, alignment, bytes))

void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory)
{
    (void)pthread_mutex_lock(&heap_lock);
    __real_free(memory);
    (void)pthread_mutex_unlock(&heap_lock);
}
