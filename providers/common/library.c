#include "common/library.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void *library_open(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

bool library_find(void *library, const char *name, void *out_function)
{
    void *symbol = dlsym(library, name);

    memcpy(out_function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static const char here; /* an address inside of the plugin that contains this code */

/* Copies the ELF header of the file that contains this code. */
static bool own_head(ElfW(Ehdr) * out)
{
    Dl_info info;

    if (dladdr((const void *)&here, &info) == 0 || info.dli_fbase == NULL)
        return false;
    memcpy(out, info.dli_fbase, sizeof *out);
    return memcmp(out->e_ident, ELFMAG, SELFMAG) == 0;
}

/* Whether the file is a shared ELF library for this machine. */
static bool is_library(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ElfW(Ehdr) head, own;
    struct stat info;
    bool good;

    if (fd < 0)
        return false;
    good = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && read(fd, &head, sizeof head) == (ssize_t)sizeof head;
    (void)close(fd);
    if (!good || !own_head(&own))
        return false;
    return memcmp(head.e_ident, own.e_ident, EI_DATA + 1) == 0 && head.e_machine == own.e_machine &&
           head.e_type == ET_DYN;
}

bool library_is_available_unloaded(const char *name)
{
    Dl_serinfo size, *folders = NULL;
    void *self = dlopen(NULL, RTLD_NOW | RTLD_LOCAL), *loaded = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    char path[PATH_MAX];
    bool found = false;

    if (self != NULL && loaded == NULL && dlinfo(self, RTLD_DI_SERINFOSIZE, &size) == 0 &&
        (folders = malloc(size.dls_size)) != NULL && dlinfo(self, RTLD_DI_SERINFOSIZE, folders) == 0 &&
        dlinfo(self, RTLD_DI_SERINFO, folders) == 0) {
        for (unsigned i = 0; i < folders->dls_cnt && !found; i++) {
            int length = snprintf(path, sizeof path, "%s/%s", folders->dls_serpath[i].dls_name, name);

            found = length > 0 && (size_t)length < sizeof path && is_library(path);
        }
    }
    free(folders);
    if (loaded != NULL)
        (void)dlclose(loaded);
    if (self != NULL)
        (void)dlclose(self);
    return found;
}
