/* Functions that glibc got after 2.28, for the files of a bundle on older systems. older_libc.py makes these files use
 * them. If the C library has such a function, plugins and libraries use that one. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__
enum { STAT_VERSION = 1 };
#else
enum { STAT_VERSION = 0 };
#endif
#define EXPORTED __attribute__((visibility("default")))
/* Until glibc 2.33, stat(), lstat(), fstat() and fstatat() called these functions; no header declares them any more. */
extern int __xstat(int version, const char *path, struct stat *out);
extern int __lxstat(int version, const char *path, struct stat *out);
extern int __fxstat(int version, int fd, struct stat *out);
extern int __fxstatat(int version, int fd, const char *path, struct stat *out, int flags);

EXPORTED char __libc_single_threaded; /* false is always right */

EXPORTED int stat(const char *restrict path, struct stat *restrict out)
{
    return __xstat(STAT_VERSION, path, out);
}

EXPORTED int lstat(const char *restrict path, struct stat *restrict out)
{
    return __lxstat(STAT_VERSION, path, out);
}

EXPORTED int fstat(int fd, struct stat *out)
{
    return __fxstat(STAT_VERSION, fd, out);
}

EXPORTED int fstatat(int fd, const char *restrict path, struct stat *restrict out, int flags)
{
    return __fxstatat(STAT_VERSION, fd, path, out, flags);
}

EXPORTED pid_t gettid(void)
{
    return (pid_t)syscall(SYS_gettid);
}

/* The older function is deprecated, since its numbers wrap at 4 GiB. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
EXPORTED struct mallinfo2 mallinfo2(void)
{
    const struct mallinfo older = mallinfo();

    return (struct mallinfo2){
        .arena = (unsigned)older.arena,
        .ordblks = (unsigned)older.ordblks,
        .smblks = (unsigned)older.smblks,
        .hblks = (unsigned)older.hblks,
        .hblkhd = (unsigned)older.hblkhd,
        .usmblks = (unsigned)older.usmblks,
        .fsmblks = (unsigned)older.fsmblks,
        .uordblks = (unsigned)older.uordblks,
        .fordblks = (unsigned)older.fordblks,
        .keepcost = (unsigned)older.keepcost,
    };
}

EXPORTED const char *sigabbrev_np(int number)
{
    static const char *const names[] = {
        [SIGHUP] = "HUP",   [SIGINT] = "INT",   [SIGQUIT] = "QUIT", [SIGILL] = "ILL",   [SIGTRAP] = "TRAP",
        [SIGABRT] = "ABRT", [SIGBUS] = "BUS",   [SIGFPE] = "FPE",   [SIGKILL] = "KILL", [SIGUSR1] = "USR1",
        [SIGSEGV] = "SEGV", [SIGUSR2] = "USR2", [SIGPIPE] = "PIPE", [SIGALRM] = "ALRM", [SIGTERM] = "TERM",
        [SIGXCPU] = "XCPU", [SIGXFSZ] = "XFSZ", [SIGSYS] = "SYS",
    };

    return number >= 0 && (size_t)number < sizeof names / sizeof names[0] ? names[number] : NULL;
}

/* Closes the descriptors that are open now. Unlike glibc's function, it does not close descriptors that other threads
 * open before the child starts; those have O_CLOEXEC. */
EXPORTED int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int from)
{
    DIR *open_files = opendir("/proc/self/fd");
    int error = 0;

    if (open_files == NULL)
        return errno;
    for (const struct dirent *entry = readdir(open_files); entry != NULL && error == 0; entry = readdir(open_files)) {
        const int fd = atoi(entry->d_name); /* 0 for . and .. */

        if (fd >= from && fd > 0)
            error = posix_spawn_file_actions_addclose(actions, fd);
    }
    (void)closedir(open_files);
    return error;
}

/* Calls the constructors of the program, which is the first that dl_iterate_phdr() names. */
static int call_constructors(struct dl_phdr_info *program, size_t bytes, void *user)
{
    const ElfW(Dyn) *entries = NULL;
    void (*const *functions)(void) = NULL;
    size_t count = 0;

    (void)bytes;
    (void)user;
    for (size_t i = 0; i < program->dlpi_phnum; i++)
        if (program->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entries = (const ElfW(Dyn) *)(program->dlpi_addr + program->dlpi_phdr[i].p_vaddr);
    for (size_t i = 0; entries != NULL && entries[i].d_tag != DT_NULL; i++)
        if (entries[i].d_tag == DT_INIT_ARRAY)
            functions = (void (*const *)(void))(program->dlpi_addr + entries[i].d_un.d_ptr);
        else if (entries[i].d_tag == DT_INIT_ARRAYSZ)
            count = entries[i].d_un.d_val / sizeof *functions;
    for (size_t i = 0; functions != NULL && i < count; i++)
        functions[i]();
    return 1;
}

static void begin(void)
{
    (void)dl_iterate_phdr(call_constructors, NULL);
}

/* Before 2.34 a program contained the function that calls its constructors; since then glibc calls them if the program
 * has no such function. This one is found before glibc's own, because this library is the first that the program needs.
 * */
EXPORTED int __libc_start_main(int (*run)(int, char **, char **), int argc, char **argv, void (*init)(void),
                               void (*fini)(void), void (*loader_fini)(void), void *stack_end)
{
    int (*start)(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
    void *symbol = dlsym(RTLD_NEXT, "__libc_start_main");

    if (symbol == NULL)
        _exit(127);
    memcpy(&start, &symbol, sizeof start);
    return start(run, argc, argv,
                 init != NULL || dlvsym(RTLD_NEXT, "__libc_start_main", "GLIBC_2.34") != NULL ? init : begin, fini,
                 loader_fini, stack_end);
}
