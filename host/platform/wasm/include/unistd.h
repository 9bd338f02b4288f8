/* unistd.h with functions that wasi-libc lacks. */
#ifndef WASM_UNISTD_H
#define WASM_UNISTD_H
#include_next <unistd.h>

#define _SC_LEVEL2_CACHE_SIZE 185 /* which sysconf() does not know */

/* All files belong to the one user. */
static inline uid_t geteuid(void)
{
    return 0;
}
#endif
