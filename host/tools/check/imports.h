/* check/imports.h - replaces functions that a plugin imports, by patching its import table. Calls within the libraries
 * that the plugin uses stay as they are. */
#ifndef CHECK_IMPORTS_H
#define CHECK_IMPORTS_H
#include <stdbool.h>
#include <stdint.h>

typedef struct import_hook {
    const char *name;
    void (*function)(void);
} import_hook;

/* Replaces imported functions of the plugin with that dlopen handle by these functions [count]. *out_base (may be
 * NULL): its load address. False: the imports cannot be patched, for instance because the plugin is isolated. */
bool imports_replace(void *handle, const import_hook *hooks, uint32_t count, uintptr_t *out_base);
#endif
