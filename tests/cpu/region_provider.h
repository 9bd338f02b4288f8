/* region_provider.h - the provider under test: cpu, or one with a library, which CMake names. The latter also has the
 * built-in kernels. */
#ifndef REGION_PROVIDER_H
#define REGION_PROVIDER_H
#include <stdbool.h>
#include <string.h>

#ifdef REGION
#define REGION_HAS_LIBRARY true
#define REGION_LOOPS REGION ".own_loops", "1",
#else
#define REGION "cpu"
#define REGION_HAS_LIBRARY false
#define REGION_LOOPS /* options of a session, in front of others */
#endif

/* Is this a value of the provider's option `kernel`? */
static inline bool region_has_kernel(const char *kernel)
{
    static const char *const library[] = { "library",       "library_blocked", "library_winograd",
                                           "inner_product", "plain",           "matmul" };

    for (size_t i = 0; !REGION_HAS_LIBRARY && i < sizeof library / sizeof *library; i++)
        if (strcmp(kernel, library[i]) == 0)
            return false;
    return true;
}
#endif
