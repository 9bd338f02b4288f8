/* Functions of glibc that musl lacks. */
#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>

int dladdr1(const void *address, Dl_info *out, void **out_map, int flags)
{
    static _Thread_local struct link_map map;
    static char none[] = "";
    Dl_info program;

    if (flags != RTLD_DL_LINKMAP || dladdr(address, out) == 0)
        return 0;
    map.l_name = (char *)(uintptr_t)out->dli_fname;
    if (dladdr((const void *)getauxval(AT_PHDR), &program) != 0 && program.dli_fbase == out->dli_fbase)
        map.l_name = none;
    *out_map = &map;
    return 1;
}
