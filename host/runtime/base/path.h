/* base/path.h - the form of paths and the names of libraries on this system. */
#ifndef BASE_PATH_H
#define BASE_PATH_H
#include <stdbool.h>

#define PATH_LIST_SEPARATOR ":"
#define LIBRARY_SUFFIX ".so"

static inline bool path_is_absolute(const char *path)
{
    return path[0] == '/';
}
#endif
