/* glob.h: no path matches. */
#ifndef WINDOWS_GLOB_H
#define WINDOWS_GLOB_H
#include <stddef.h>

#define GLOB_NOMATCH 3
typedef struct glob_t {
    size_t gl_pathc;
    char **gl_pathv;
} glob_t;

static inline int glob(const char *pattern, int flags, int (*failed)(const char *path, int error), glob_t *out)
{
    (void)pattern, (void)flags, (void)failed;
    *out = (glob_t){ 0 };
    return GLOB_NOMATCH;
}
static inline void globfree(glob_t *found)
{
    (void)found;
}
#endif
