/* Functions that wasi-libc lacks. */
#include <errno.h>
#include <limits.h>
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

/* The comparison of the sort in progress; there is one thread. */
static struct {
    int (*compare)(const void *a, const void *b, void *user);
    void *user;
} sorting;

static int compare_now(const void *a, const void *b)
{
    return sorting.compare(a, b, sorting.user);
}

void qsort_r(void *list, size_t count, size_t bytes, int (*compare)(const void *a, const void *b, void *user),
             void *user)
{
    sorting.compare = compare;
    sorting.user = user;
    qsort(list, count, bytes, compare_now);
}
