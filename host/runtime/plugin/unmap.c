#include "plugin/unmap.h"
#include "plugin/trust.h"
#include "base/asan.h"
#include <dlfcn.h>
#include <stdbool.h>

/* LeakSanitizer resolves addresses at exit: allocations of a library that is unmapped by then have no symbols and
 * count as leaks. */
#ifdef WITH_ASAN
#define MAY_DLCLOSE false
#else
#define MAY_DLCLOSE true
#endif

void unmap_file(void *handle)
{
    if (!MAY_DLCLOSE)
        return;
    trust_forget();
    (void)dlclose(handle);
}
