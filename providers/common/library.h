/* library.h - libraries that a plugin opens by name on first use. All functions are thread-safe. */
#ifndef COMMON_LIBRARY_H
#define COMMON_LIBRARY_H
#include <stdbool.h>

/* Opens a library, which then stays in the process. NULL: dlerror() says why. */
void *library_open(const char *name);
/* Stores a function of the library in *out_function, a function pointer; false: there is none. dlsym's result as a
 * function pointer is what POSIX allows and ISO C does not. */
bool library_find(void *library, const char *name, void *out_function);
/* Whether the system loader would find the library and the process has not loaded it. Loads nothing. */
bool library_is_available_unloaded(const char *name);
#endif
