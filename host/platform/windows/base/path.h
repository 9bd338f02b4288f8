/* base/path.h in place of the file for Linux: a path with a drive is absolute; ';' separates the paths of a list. */
#ifndef BASE_PATH_H
#define BASE_PATH_H
#include <stdbool.h>

#define PATH_LIST_SEPARATOR ";"
#define LIBRARY_SUFFIX ".dll"

static inline bool path_is_absolute(const char *path)
{
    return path[0] == '/' || path[0] == '\\' || (path[0] != '\0' && path[1] == ':');
}
#endif
