#include "check/surroundings.h"
#include "check/imports.h"
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static int64_t offset_s; /* atomic */
static bool is_inverted; /* atomic */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char variable[128];    /* read last; guarded by lock */
static const char *forbidden; /* atomic */

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

static int noted_mallopt(int parameter, int value)
{
    __atomic_store_n(&forbidden, "mallopt", __ATOMIC_RELAXED);
    return mallopt(parameter, value);
}

static int noted_mlockall(int flags)
{
    __atomic_store_n(&forbidden, "mlockall", __ATOMIC_RELAXED);
    return mlockall(flags);
}

static int noted_munlockall(void)
{
    __atomic_store_n(&forbidden, "munlockall", __ATOMIC_RELAXED);
    return munlockall();
}

bool surroundings_watch(void *handle)
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
    };

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
    return __atomic_exchange_n(&forbidden, NULL, __ATOMIC_RELAXED);
}
