/* limits.h with the longest paths and names of files. */
#ifndef WINDOWS_LIMITS_H
#define WINDOWS_LIMITS_H
#include_next <limits.h>

#undef PATH_MAX
#define PATH_MAX 4096
#undef NAME_MAX
#define NAME_MAX 255
#endif
