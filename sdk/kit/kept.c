/* Files that make the next process start faster. */
#include "inlay/kit_region.h"
#include <limits.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 28, SUM_BYTES = 8 };

/* FNV-1a, on top of another. */
static uint64_t sum_of(uint64_t sum, const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ data[i]) * 1099511628211u;
    return sum;
}

/* Of the identity and what follows; the file begins with it. */
static uint64_t head_of(const void *identity, size_t identity_bytes, const void *data, size_t bytes)
{
    return sum_of(sum_of(14695981039346656037u ^ identity_bytes, identity, identity_bytes), data, bytes);
}

static bool path_of(const char *dir, const char *name, char path[PATH_MAX])
{
    return dir != NULL && dir[0] != '\0' && snprintf(path, PATH_MAX, "%s/%s", dir, name) < PATH_MAX;
}

void *kit_kept_load(const char *dir, const char *name, const void *identity, size_t identity_bytes, size_t *out_bytes)
{
    char path[PATH_MAX];
    FILE *file = path_of(dir, name, path) ? fopen(path, "re") : NULL;
    uint8_t *data = NULL;
    uint64_t sum = 0;
    long size = -1;
    bool whole = false;

    if (file != NULL && fseek(file, 0, SEEK_END) == 0)
        size = ftell(file) - SUM_BYTES;
    if (size > 0 && size < MOST_BYTES && fseek(file, 0, SEEK_SET) == 0 && (data = malloc((size_t)size)) != NULL)
        whole = fread(&sum, sizeof sum, 1, file) == 1 && fread(data, 1, (size_t)size, file) == (size_t)size &&
                sum == head_of(identity, identity_bytes, data, (size_t)size);
    if (file != NULL)
        (void)fclose(file);
    *out_bytes = whole ? (size_t)size : 0;
    if (whole)
        return data;
    free(data);
    return NULL;
}

/* To write beyond RLIMIT_FSIZE would be a signal. */
static bool fits(size_t bytes)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur);
}

void kit_kept_save(const char *dir, const char *name, const void *identity, size_t identity_bytes, const void *data,
                   size_t bytes)
{
    const uint64_t sum = head_of(identity, identity_bytes, data, bytes);
    char path[PATH_MAX], beside[PATH_MAX];
    FILE *file = NULL;
    bool whole;

    if (bytes < MOST_BYTES && path_of(dir, name, path) &&
        snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid()) < (int)sizeof beside)
        file = fits(sizeof sum + bytes) ? fopen(beside, "wxe") : NULL; /* written beside, then renamed */
    if (file == NULL)
        return;
    whole = fwrite(&sum, sizeof sum, 1, file) == 1 && fwrite(data, 1, bytes, file) == bytes;
    whole &= fclose(file) == 0;
    if (!whole || rename(beside, path) != 0)
        (void)unlink(beside);
}
