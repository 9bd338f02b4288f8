/* dlfcn.h over LoadLibrary(); in libraries.c. */
#ifndef WINDOWS_DLFCN_H
#define WINDOWS_DLFCN_H

#define RTLD_LAZY 1
#define RTLD_NOW 2
#define RTLD_NOLOAD 4
#define RTLD_LOCAL 0
#define RTLD_GLOBAL 0x100 /* ignored: names are those of one library */
#define RTLD_NODELETE 0x1000
#define RTLD_DEFAULT ((void *)0)
#define RTLD_DI_LINKMAP 2
#define RTLD_DL_LINKMAP 2

typedef struct Dl_info {
    const char *dli_fname; /* of the thread; valid until its next call */
    void *dli_fbase;
    const char *dli_sname; /* NULL */
    void *dli_saddr;
} Dl_info;

void *dlopen(const char *path, int flags);
void *dlsym(void *handle, const char *symbol);
int dlclose(void *handle);
/* The error of the thread's last call that failed; NULL: none since the last dlerror(). */
char *dlerror(void);
int dladdr(const void *address, Dl_info *out);
/* *out: a struct link_map * (link.h) of the thread, valid until its next call. */
int dladdr1(const void *address, Dl_info *out, void **out_map, int flags);
int dlinfo(void *handle, int request, void *out);
#endif
