/* base/pin.h - keeps this library in memory when the application closes it. */
#ifndef BASE_PIN_H
#define BASE_PIN_H
#include <dlfcn.h>
#include <stddef.h>

/* For code that something calls after the application's last call: signal handlers, threads, destructors of keys.
 * address: of a variable of the library. */
static inline void pin_library(const void *address)
{
    Dl_info info;

    if (dladdr(address, &info) != 0 && info.dli_fname != NULL)
        (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}
#endif
