/* Shared libraries: dlfcn.h. */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <windows.h>

static _Thread_local char error_text[256];
static _Thread_local bool has_error;

static void *fail(const char *what)
{
    const DWORD error = GetLastError();
    char reason[160] = "";

    (void)FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, error,
                         MAKELANGID(LANG_ENGLISH, SUBLANG_ENGLISH_US), reason, sizeof reason, NULL);
    reason[strcspn(reason, "\r\n")] = '\0';
    (void)snprintf(error_text, sizeof error_text, "%.80s: %s (error %lu)", what,
                   reason[0] != '\0' ? reason : "cannot be loaded", (unsigned long)error);
    has_error = true;
    return NULL;
}

void *dlopen(const char *path, int flags)
{
    HMODULE library = NULL;

    if (path == NULL)
        return GetModuleHandleA(NULL);
    if ((flags & RTLD_NOLOAD) != 0)
        (void)GetModuleHandleExA((flags & RTLD_NODELETE) != 0 ? GET_MODULE_HANDLE_EX_FLAG_PIN : 0, path, &library);
    else /* the folder of the library is searched for the libraries that it needs */
        library = LoadLibraryExA(path, NULL, strchr(path, '/') != NULL ? LOAD_WITH_ALTERED_SEARCH_PATH : 0);
    return library != NULL ? library : fail(path);
}

void *dlsym(void *handle, const char *symbol)
{
    const FARPROC found = GetProcAddress(handle != NULL ? handle : GetModuleHandleA(NULL), symbol);
    void *address = NULL;

    if (found == NULL)
        return fail(symbol);
    memcpy(&address, &found, sizeof address);
    return address;
}

int dlclose(void *handle)
{
    return FreeLibrary(handle) ? 0 : -1;
}

char *dlerror(void)
{
    const bool has = has_error;

    has_error = false;
    return has ? error_text : NULL;
}

static _Thread_local char library_path[PATH_MAX];

static bool find_path(HMODULE library)
{
    const DWORD bytes = GetModuleFileNameA(library, library_path, sizeof library_path);

    for (char *at = library_path; *at != '\0'; at++)
        if (*at == '\\')
            *at = '/';
    return bytes > 0 && bytes < sizeof library_path;
}

int dladdr(const void *address, Dl_info *out)
{
    HMODULE library;

    if (!GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                            (LPCSTR)address, &library) ||
        !find_path(library))
        return 0;
    *out = (Dl_info){ .dli_fname = library_path, .dli_fbase = library };
    return 1;
}

static struct link_map *map_of(void *library)
{
    static _Thread_local struct link_map map;

    map = (struct link_map){ .l_addr = (uintptr_t)library, .l_name = library_path, .l_ld = library };
    return &map;
}

int dladdr1(const void *address, Dl_info *out, void **out_map, int flags)
{
    (void)flags;
    if (dladdr(address, out) == 0)
        return 0;
    *out_map = map_of(out->dli_fbase);
    return 1;
}

int dlinfo(void *handle, int request, void *out)
{
    struct link_map *map;

    (void)request;
    if (!find_path(handle))
        return -1;
    map = map_of(handle);
    memcpy(out, &map, sizeof map);
    return 0;
}
