/* Configures how libgomp's threads wait, for the libraries of plugins that run OpenMP loops.
 *
 * libgomp waits by spinning, 300000 times by default, which takes 2 to 8 ms. If other programs need the CPUs, the
 * kernel may leave a caller and its worker on one CPU for seconds. Each then delays the other while it spins, and a run
 * of 100 loops takes half a second instead of 4 ms. With 5000 spins the run takes 19 ms, and on an otherwise idle
 * machine nothing is lost, because the gaps between loops are shorter than that.
 *
 * A thread that has executed a parallel loop keeps its team of workers, which sleep between loops. If the teams of all
 * threads together have more threads than there are CPUs, libgomp spins only 100 times, so that nearly every loop has
 * to wake its workers. A thread that creates sessions and a thread that runs them are enough for that. The 100 cannot
 * be configured, but with the wait policy "active" libgomp spins 1000 times (10 to 30 us) instead. That is longer than
 * workers of a loop usually wait for each other, and short enough if there are in fact more concurrent runs than CPUs.
 *
 * libgomp reads these settings from the environment when it is loaded. So this file loads it before any plugin does,
 * when this library is loaded, and sets the variables only for that moment. If the user has set one of the variables,
 * or libgomp is already loaded, nothing is changed. */
#include "threads/gomp.h"
#include "inlay/check.h"
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* libgomp's functions, unchanged since GCC 4.9. Not NULL if the program links with libgomp. */
extern void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags) __attribute__((weak));
extern int omp_get_thread_num(void) __attribute__((weak));
extern int omp_in_parallel(void) __attribute__((weak));
extern int omp_get_max_threads(void) __attribute__((weak));
extern void omp_set_num_threads(int threads) __attribute__((weak));
extern int omp_pause_resource_all(int kind) __attribute__((weak)); /* OpenMP 5.0, since GCC 9 */

static struct {
    void (*parallel)(void (*fn)(void *), void *data, unsigned threads, unsigned flags);
    int (*thread_num)(void);
    int (*in_parallel)(void);
    int (*max_threads)(void);
    void (*set_threads)(int threads);
    int (*pause)(int kind); /* NULL: this libgomp is too old */
} gomp;

/* Loads libgomp with the variables set. Other threads may read the environment concurrently, so the list is replaced by
 * an extended copy and restored afterwards; setenv() would reallocate it. */
static void *open_with_settings(const char *name)
{
    static char spins[] = "GOMP_SPINCOUNT=5000", policy[] = "OMP_WAIT_POLICY=active";
    /* Never freed, because another thread may still be reading the list. Stored atomically, because a compiler may
     * remove a variable that is never read, and LeakSanitizer would then report the list. */
    static char **last_list;
    char **extended, **original = __atomic_load_n(&environ, __ATOMIC_ACQUIRE), **expected;
    size_t count = 0;
    void *library;

    while (original != NULL && original[count] != NULL)
        count++;
    extended = malloc((count + 3) * sizeof *extended);
    if (extended == NULL)
        return dlopen(name, RTLD_NOW);
    __atomic_store_n(&last_list, extended, __ATOMIC_RELAXED);
    if (count > 0)
        memcpy(extended, original, count * sizeof *extended);
    extended[count] = spins;
    extended[count + 1] = policy;
    extended[count + 2] = NULL;
    expected = extended;
    __atomic_store_n(&environ, extended, __ATOMIC_RELEASE);
    library = dlopen(name, RTLD_NOW);
    if (!__atomic_compare_exchange_n(&environ, &expected, original, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
        (void)unsetenv("OMP_WAIT_POLICY"); /* another thread has set a variable meanwhile and has copied this list */
        (void)unsetenv("GOMP_SPINCOUNT");
    }
    return library;
}

static void *open_library(void)
{
    static const char name[] = "libgomp.so.1";
    void *library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);

    if (library != NULL)
        return library;
    return getenv("GOMP_SPINCOUNT") != NULL || getenv("OMP_WAIT_POLICY") != NULL ? dlopen(name, RTLD_NOW)
                                                                                 : open_with_settings(name);
}

static __attribute__((constructor)) void find_gomp(void)
{
    void *library;

    if (GOMP_parallel != NULL && omp_get_thread_num != NULL && omp_in_parallel != NULL && omp_get_max_threads != NULL &&
        omp_set_num_threads != NULL) {
        gomp.parallel = GOMP_parallel;
        gomp.thread_num = omp_get_thread_num;
        gomp.in_parallel = omp_in_parallel;
        gomp.max_threads = omp_get_max_threads;
        gomp.set_threads = omp_set_num_threads;
        gomp.pause = omp_pause_resource_all;
        return;
    }
    library = open_library(); /* never closed: its threads may be executing its code */
    if (library == NULL)
        return;
    *(void **)&gomp.thread_num = dlsym(library, "omp_get_thread_num");
    *(void **)&gomp.in_parallel = dlsym(library, "omp_in_parallel");
    *(void **)&gomp.max_threads = dlsym(library, "omp_get_max_threads");
    *(void **)&gomp.set_threads = dlsym(library, "omp_set_num_threads");
    *(void **)&gomp.pause = dlsym(library, "omp_pause_resource_all");
    if (gomp.thread_num != NULL && gomp.in_parallel != NULL && gomp.max_threads != NULL && gomp.set_threads != NULL)
        *(void **)&gomp.parallel = dlsym(library, "GOMP_parallel");
}

/* ThreadSanitizer does not see libgomp's synchronisation, so it is annotated: writes before the start are visible to
 * every thread of the team, and writes of the team are visible to the caller afterwards. */
#if defined(__SANITIZE_THREAD__)
#define HAS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_TSAN 1
#endif
#endif
#ifdef HAS_TSAN
void __tsan_acquire(void *address);
void __tsan_release(void *address);

struct task {
    void (*fn)(void *data);
    void *data;
};

/* Called by libgomp. Not instrumented, because it reads the task before the first annotation. */
static __attribute__((noinline, no_sanitize("thread"))) void run_task(void *user)
{
    const struct task *task = user;

    __tsan_acquire(task->data);
    task->fn(task->data);
    __tsan_release(task->data);
}

static void start(void (*fn)(void *data), void *data, uint32_t threads)
{
    struct task task = { fn, data };

    __tsan_release(data);
    gomp.parallel(run_task, &task, threads, 0);
    __tsan_acquire(data);
}
#else
static void start(void (*fn)(void *data), void *data, uint32_t threads)
{
    gomp.parallel(fn, data, threads, 0);
}
#endif

void gomp_team(void (*fn)(void *data), void *data, uint32_t threads)
{
    INLAY_CHECK(threads > 0);
    if (gomp.parallel != NULL)
        start(fn, data, threads);
    else
        fn(data);
}

uint32_t gomp_worker(void)
{
    return gomp.parallel != NULL ? (uint32_t)gomp.thread_num() : 0;
}

bool gomp_in_team(void)
{
    return gomp.parallel != NULL && gomp.in_parallel() != 0;
}

uint32_t gomp_set_threads(uint32_t threads)
{
    const uint32_t before = gomp.parallel != NULL ? (uint32_t)gomp.max_threads() : threads;

    if (before != threads)
        gomp.set_threads((int)threads);
    return before;
}

void gomp_dismiss(void)
{
    enum { SOFT = 1 }; /* omp_pause_soft */

    if (gomp.pause != NULL)
        (void)gomp.pause(SOFT);
}
