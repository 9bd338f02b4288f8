#include "check/surroundings.h"
#include "check/imports.h"
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>

static int64_t offset_s; /* atomic */
static bool is_inverted; /* atomic */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char variable[128];  /* read last; guarded by lock */
static char forbidden[256]; /* the first call since it was taken; guarded by lock */
static const check_args *settings;

static char *read_variable(const char *name)
{
    char *value = getenv(name);

    (void)pthread_mutex_lock(&lock);
    (void)snprintf(variable, sizeof variable, "%s", name);
    (void)pthread_mutex_unlock(&lock);
    if (!__atomic_load_n(&is_inverted, __ATOMIC_RELAXED))
        return value;
    return value == NULL ? (char *)(uintptr_t) "1" : NULL;
}

static int64_t offset(void)
{
    return __atomic_load_n(&offset_s, __ATOMIC_RELAXED);
}

static time_t moved_time(time_t *out)
{
    const time_t now = time(NULL) + offset();

    if (out != NULL)
        *out = now;
    return now;
}

static int moved_clock_gettime(clockid_t clock, struct timespec *out)
{
    const int failed = clock_gettime(clock, out);

    if (failed == 0)
        out->tv_sec += offset();
    return failed;
}

static int moved_gettimeofday(struct timeval *out, void *zone)
{
    const int failed = gettimeofday(out, zone);

    if (failed == 0)
        out->tv_sec += offset();
    return failed;
}

static void note(const char *function, const char *path)
{
    (void)pthread_mutex_lock(&lock);
    if (forbidden[0] == '\0')
        (void)snprintf(forbidden, sizeof forbidden, "%s%s%s", function, path != NULL ? " of " : "",
                       path != NULL ? path : "");
    (void)pthread_mutex_unlock(&lock);
}

/* Is the path in the folder? NULL and "": in none. */
static bool is_in(const char *path, const char *folder)
{
    const size_t bytes = folder != NULL ? strlen(folder) : 0;

    return bytes > 0 && strncmp(path, folder, bytes) == 0;
}

/* May a plugin write this file? Files in the working directory are found there, and files of the system are devices. */
static bool may_write(const char *path)
{
    static const char *const folders[] = { "/tmp/", "/var/tmp/", "/dev/", "/proc/", "/sys/" };
    bool may = path[0] != '/' || is_in(path, settings->child.work) || is_in(path, getenv("TMPDIR"));

    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        may = may || is_in(path, folders[i]);
    for (uint32_t i = 0; i < settings->option_count; i++) {
        const char *value = strchr(settings->options[i], '=');

        may = may || is_in(path, value != NULL ? value + 1 : NULL);
    }
    return may;
}

static int noted_open(const char *path, int flags, ...)
{
    va_list args;
    mode_t mode;

    va_start(args, flags);
    mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (((flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0) && !may_write(path))
        note("open", path);
    return open(path, flags, mode);
}

static int noted_creat(const char *path, mode_t mode)
{
    return noted_open(path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

static FILE *noted_fopen(const char *path, const char *mode)
{
    if (strpbrk(mode, "wa+") != NULL && !may_write(path))
        note("fopen", path);
    return fopen(path, mode);
}

static int noted_mkdir(const char *path, mode_t mode)
{
    if (!may_write(path))
        note("mkdir", path);
    return mkdir(path, mode);
}

static int noted_unshare(int flags)
{
    note("unshare", NULL);
    return unshare(flags);
}

static int noted_mallopt(int parameter, int value)
{
    note("mallopt", NULL);
    return mallopt(parameter, value);
}

static int noted_mlockall(int flags)
{
    note("mlockall", NULL);
    return mlockall(flags);
}

static int noted_munlockall(void)
{
    note("munlockall", NULL);
    return munlockall();
}

bool surroundings_watch(void *handle, const check_args *args)
{
    static const import_hook hooks[] = {
        { "getenv", (void (*)(void))read_variable },
        { "secure_getenv", (void (*)(void))read_variable },
        { "time", (void (*)(void))moved_time },
        { "clock_gettime", (void (*)(void))moved_clock_gettime },
        { "gettimeofday", (void (*)(void))moved_gettimeofday },
        { "mallopt", (void (*)(void))noted_mallopt },
        { "mlockall", (void (*)(void))noted_mlockall },
        { "munlockall", (void (*)(void))noted_munlockall },
        { "unshare", (void (*)(void))noted_unshare },
        { "open", (void (*)(void))noted_open },
        { "open64", (void (*)(void))noted_open },
        { "creat", (void (*)(void))noted_creat },
        { "fopen", (void (*)(void))noted_fopen },
        { "fopen64", (void (*)(void))noted_fopen },
        { "mkdir", (void (*)(void))noted_mkdir },
    };

    settings = args;
    return imports_replace(handle, hooks, sizeof hooks / sizeof hooks[0], NULL);
}

void surroundings_move_clocks(int64_t seconds)
{
    __atomic_store_n(&offset_s, seconds, __ATOMIC_RELAXED);
}

void surroundings_invert_variables(bool on)
{
    __atomic_store_n(&is_inverted, on, __ATOMIC_RELAXED);
}

const char *surroundings_take_variable(void)
{
    static char taken[sizeof variable];

    (void)pthread_mutex_lock(&lock);
    memcpy(taken, variable, sizeof taken);
    variable[0] = '\0';
    (void)pthread_mutex_unlock(&lock);
    return taken[0] != '\0' ? taken : NULL;
}

const char *surroundings_take_forbidden(void)
{
    static char taken[sizeof forbidden];

    (void)pthread_mutex_lock(&lock);
    memcpy(taken, forbidden, sizeof taken);
    forbidden[0] = '\0';
    (void)pthread_mutex_unlock(&lock);
    return taken[0] != '\0' ? taken : NULL;
}
