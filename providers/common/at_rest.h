/* at_rest.h - libraries that a plugin opens only when it needs them. */
#ifndef COMMON_AT_REST_H
#define COMMON_AT_REST_H
#include <stdbool.h>

/* Is the library of this name one that the system's loader will find, and that the process has not loaded? Loads
 * nothing. Any thread. */
bool library_is_at_rest(const char *name);
#endif
