/* base/path.h - the form of paths, and the names of libraries on this system. On Windows a path with a drive is
 * absolute, and ';' separates the paths of a list. */
#ifndef BASE_PATH_H
#define BASE_PATH_H
#include <stdbool.h>
#include <string.h>

#ifdef _WIN32
#define PATH_LIST_SEPARATOR ";"
#define LIBRARY_SUFFIX ".dll"

static inline bool path_is_absolute(const char *path)
{
    return path[0] == '/' || path[0] == '\\' || (path[0] != '\0' && path[1] == ':');
}
#else
#define PATH_LIST_SEPARATOR ":"
#define LIBRARY_SUFFIX ".so"

static inline bool path_is_absolute(const char *path)
{
    return path[0] == '/';
}
#endif

/* The part of a path after its last '/'. */
static inline const char *path_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static inline bool name_ends_in(const char *name, const char *end)
{
    const size_t name_bytes = strlen(name), end_bytes = strlen(end);

    return name_bytes >= end_bytes && strcmp(name + name_bytes - end_bytes, end) == 0;
}
#endif
