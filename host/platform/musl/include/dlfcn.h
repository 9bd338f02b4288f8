/* dlfcn.h with a function of glibc; in libc.c. */
#ifndef MUSL_DLFCN_H
#define MUSL_DLFCN_H
#include_next <dlfcn.h>

#define RTLD_DL_LINKMAP 2

/* *out_map: a struct link_map * (link.h) of the thread, valid until its next call, whose l_name alone is set: the path
 * of the library that contains the address, or "" if the executable does. 0: neither does. */
int dladdr1(const void *address, Dl_info *out, void **out_map, int flags);
#endif
