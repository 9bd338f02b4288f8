/* libgomp waits by turning in a loop, 300000 times unless its environment says otherwise, which is 2 to 8 ms. When
 * other programs want the CPUs, too, the kernel may leave a caller and its worker on one CPU for seconds: then each
 * keeps the other from working while it waits for it, and a run of 100 loops takes half a second instead of 4 ms. With
 * 5000 turns it takes 19, and on a machine of its own nothing is lost: loops follow each other closer than that.
 *
 * Each thread that ever had a team keeps it, asleep, and once all of them are more than the CPUs libgomp takes only 100
 * turns, so that nearly every loop wakes its workers anew. One thread that creates sessions and another that runs them
 * are enough for that: MobileNetV2 takes 2.6 ms with two threads instead of 1.6. Those turns can't be set, but where
 * the policy is an active one they are 1000, some 10 to 30 us: longer than the parts of a loop differ, and short enough
 * where there really are more runs than CPUs.
 *
 * The numbers are read when libgomp is loaded, from the environment, so this file must load it, before a plugin does,
 * and set the variables for that moment: when this library is loaded. Where somebody has said how to wait, or libgomp
 * is there already, all stays as it is. */
#include "threads/gomp.h"
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* libgomp's, unchanged since GCC 4.9; set where the program links with it. */
extern void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags) __attribute__((weak));
extern int omp_get_thread_num(void) __attribute__((weak));
extern int omp_in_parallel(void) __attribute__((weak));
extern int omp_pause_resource_all(int kind) __attribute__((weak)); /* of OpenMP 5.0, since GCC 9 */

static struct {
    void (*parallel)(void (*fn)(void *), void *data, unsigned threads, unsigned flags);
    int (*thread_num)(void);
    int (*in_parallel)(void);
    int (*pause)(int kind); /* NULL: too old */
} gomp;

/* Others may be reading the environment just then, so it is exchanged rather than changed; setenv would move it. */
static void *open_told(const char *name)
{
    static char turns[] = "GOMP_SPINCOUNT=5000", policy[] = "OMP_WAIT_POLICY=active";
    static char **kept; /* never freed: somebody may still be reading in it. Stored atomically, since a compiler leaves
                         * out what nobody reads, and LeakSanitizer then finds nothing that points there. */
    char **told, **was = __atomic_load_n(&environ, __ATOMIC_ACQUIRE), **expected;
    size_t count = 0;
    void *library;

    while (was != NULL && was[count] != NULL)
        count++;
    told = malloc((count + 3) * sizeof *told);
    if (told == NULL)
        return dlopen(name, RTLD_NOW);
    __atomic_store_n(&kept, told, __ATOMIC_RELAXED);
    if (count > 0)
        memcpy(told, was, count * sizeof *told);
    told[count] = turns;
    told[count + 1] = policy;
    told[count + 2] = NULL;
    expected = told;
    __atomic_store_n(&environ, told, __ATOMIC_RELEASE);
    library = dlopen(name, RTLD_NOW);
    if (!__atomic_compare_exchange_n(&environ, &expected, was, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
        (void)unsetenv("OMP_WAIT_POLICY"); /* somebody has set a variable: there is another list, made of this one */
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
                                                                                 : open_told(name);
}

static __attribute__((constructor)) void find_gomp(void)
{
    void *library;

    if (GOMP_parallel != NULL && omp_get_thread_num != NULL && omp_in_parallel != NULL) {
        gomp.parallel = GOMP_parallel;
        gomp.thread_num = omp_get_thread_num;
        gomp.in_parallel = omp_in_parallel;
        gomp.pause = omp_pause_resource_all;
        return;
    }
    library = open_library(); /* never closed: its threads may be waiting in it */
    if (library == NULL)
        return;
    *(void **)&gomp.thread_num = dlsym(library, "omp_get_thread_num");
    *(void **)&gomp.in_parallel = dlsym(library, "omp_in_parallel");
    *(void **)&gomp.pause = dlsym(library, "omp_pause_resource_all");
    if (gomp.thread_num != NULL && gomp.in_parallel != NULL)
        *(void **)&gomp.parallel = dlsym(library, "GOMP_parallel");
}

/* ThreadSanitizer does not see what libgomp does between threads, so it is told: what happened before is known to every
 * thread of the team, and what they did is known to the caller. */
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

/* What libgomp calls: exempt, for it reads the task before anything is known. */
static __attribute__((noinline, no_sanitize("thread"))) void do_task(void *user)
{
    const struct task *t = user;

    __tsan_acquire(t->data);
    t->fn(t->data);
    __tsan_release(t->data);
}

static void start(void (*fn)(void *data), void *data, uint32_t threads)
{
    struct task t = { fn, data };

    __tsan_release(data);
    gomp.parallel(do_task, &t, threads, 0);
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

void gomp_dismiss(void)
{
    enum { SOFT = 1 }; /* omp_pause_soft */

    if (gomp.pause != NULL)
        (void)gomp.pause(SOFT);
}
