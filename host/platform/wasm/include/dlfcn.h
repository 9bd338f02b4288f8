/* dlfcn.h where there are no shared objects. */
#ifndef WASM_DLFCN_H
#define WASM_DLFCN_H
#include <stddef.h>

#define RTLD_NOW 2
#define RTLD_LOCAL 0

static inline void *dlopen(const char *name, int flags)
{
    (void)name, (void)flags;
    return NULL;
}
static inline void *dlsym(void *handle, const char *symbol)
{
    (void)handle, (void)symbol;
    return NULL;
}
#endif
