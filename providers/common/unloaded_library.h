/* unloaded_library.h - libraries that a plugin opens on first use. */
#ifndef COMMON_UNLOADED_LIBRARY_H
#define COMMON_UNLOADED_LIBRARY_H
#include <stdbool.h>

/* Whether the system loader would find the library and the process has not loaded it. Loads nothing. Thread-safe. */
bool library_is_available_unloaded(const char *name);
#endif
