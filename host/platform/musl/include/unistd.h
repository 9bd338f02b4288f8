/* unistd.h with a name of glibc, which sysconf() does not know: -1. */
#ifndef MUSL_UNISTD_H
#define MUSL_UNISTD_H
#include_next <unistd.h>

#define _SC_LEVEL2_CACHE_SIZE 191
#endif
