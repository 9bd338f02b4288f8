#include "plugin/unmap.h"
#include <dlfcn.h>
#include <stdbool.h>

/* LeakSanitizer resolves addresses at exit: allocations of a library that is unmapped by then have no symbols and
 * count as leaks. */
#if defined(__SANITIZE_ADDRESS__)
#define MAY_DLCLOSE false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MAY_DLCLOSE false
#endif
#endif
#ifndef MAY_DLCLOSE
#define MAY_DLCLOSE true
#endif

void unmap_file(void *handle)
{
    if (MAY_DLCLOSE)
        (void)dlclose(handle);
}
