/* libdnnl, opened when the first of its functions is needed. It brings libstdc++ and some 35000 relocations, which take
 * longer than all else that a small model needs before it runs, and many models run on loops of our own alone.
 *
 * The functions below have the library's names: the provider is written as if it were linked to it, as the tests are.
 * The plugin's linker script hides them. */
#include "at_rest.h"
#include "simd/cpu.h"
#include "simd/at_fork.h"
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char soname[] = ONEDNN_SONAME; /* of the library that CMake found */

#define LATE(result, name, parameters, arguments, otherwise) static result(*late_##name) parameters;
#include "late.def"
#undef LATE
static dnnl_status_t (*late_engine_create)(dnnl_engine_t *, dnnl_engine_kind_t, size_t);
static dnnl_cpu_isa_t (*late_isa)(void);
static dnnl_status_t (*late_set_isa)(dnnl_cpu_isa_t);
static dnnl_engine_t late_engine; /* the process's; it has no state of a session */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_open, has_failed;

/* What creates objects looks into a cache of the library, behind locks of its own, which a child of fork() must not
 * find taken. */
static pthread_rwlock_t creating = PTHREAD_RWLOCK_INITIALIZER;

static __attribute__((constructor)) void guard_locks(void)
{
    lock_at_fork(&lock);
    calls_at_fork(&creating);
}

static bool begin_creating(void)
{
    (void)pthread_rwlock_rdlock(&creating);
    return true;
}

static void end_creating(bool begun)
{
    if (begun)
        (void)pthread_rwlock_unlock(&creating);
}

/* dlsym's result as a function pointer, as POSIX allows and ISO C does not. */
static bool find(void *library, const char *name, void *out_function)
{
    void *symbol = dlsym(library, name);

    memcpy(out_function, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* By what the CPU has, as the library would say. */
static dnnl_cpu_isa_t isa_of_cpu(void)
{
#if defined(__x86_64__)
    if (!cpu_has(CPU_AVX512))
        return cpu_has(CPU_AVX2) ? dnnl_cpu_isa_avx2 : dnnl_cpu_isa_sse41;
    if (!__builtin_cpu_supports("avx512vnni"))
        return dnnl_cpu_isa_avx512_core;
    return __builtin_cpu_supports("avx512bf16") ? dnnl_cpu_isa_avx512_core_bf16 : dnnl_cpu_isa_avx512_core_vnni;
#else
    return (dnnl_cpu_isa_t)0; /* all, by either name that the library has for it */
#endif
}

static bool open_library(void)
{
    void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    bool good = library != NULL;

#define LATE(result, name, parameters, arguments, otherwise) good = good && find(library, #name, &late_##name);
#include "late.def"
#undef LATE
    good = good && find(library, "dnnl_engine_create", &late_engine_create) &&
           find(library, "dnnl_get_effective_cpu_isa", &late_isa) &&
           find(library, "dnnl_set_max_cpu_isa", &late_set_isa);
    if (good && cpu_is_capped()) /* refused where somebody else has used the library: then it stays as they have it */
        (void)late_set_isa(isa_of_cpu());
    return good && late_engine_create(&late_engine, dnnl_cpu, 0) == dnnl_success;
}

/* Is the library open, now at the latest? One that could not be opened once is not tried again. */
static bool need(void)
{
    bool open = __atomic_load_n(&is_open, __ATOMIC_ACQUIRE);

    if (open)
        return true;
    (void)pthread_mutex_lock(&lock);
    if (!is_open && !has_failed) {
        has_failed = !open_library();
        __atomic_store_n(&is_open, !has_failed, __ATOMIC_RELEASE);
    }
    open = is_open;
    (void)pthread_mutex_unlock(&lock);
    return open;
}

/* Who opens a provider gets a stand-in for an engine, see below. */
#define ENGINE(of_the_caller) ((void)(of_the_caller), late_engine)
#define LATE(result, name, parameters, arguments, otherwise)                                                           \
    result name parameters                                                                                             \
    {                                                                                                                  \
        const bool creates = need() && strstr(#name, "_create") != NULL && begin_creating();                           \
        result made = need() ? late_##name arguments : otherwise;                                                      \
                                                                                                                       \
        end_creating(creates);                                                                                         \
        return made;                                                                                                   \
    }
#include "late.def"
#undef LATE

/* A provider that opens wants to know whether there will be an engine. */
dnnl_status_t dnnl_engine_create(dnnl_engine_t *engine, dnnl_engine_kind_t kind, size_t index)
{
    static char stand_in;

    (void)kind;
    (void)index;
    *engine = (dnnl_engine_t)(void *)&stand_in;
    return __atomic_load_n(&is_open, __ATOMIC_ACQUIRE) || library_is_at_rest(soname) || need() ? dnnl_success
                                                                                               : dnnl_unimplemented;
}

dnnl_status_t dnnl_engine_destroy(dnnl_engine_t engine)
{
    (void)engine;
    return dnnl_success;
}

/* May somebody have limited the instructions that the library is to use? */
static bool is_limited(void)
{
    void *loaded = dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD); /* by the application, too */

    if (loaded != NULL)
        (void)dlclose(loaded);
    return loaded != NULL || getenv("ONEDNN_MAX_CPU_ISA") != NULL || getenv("DNNL_MAX_CPU_ISA") != NULL;
}

/* Every node of 8-bit integers asks for this, so it is answered without the library, and whether anybody may have
 * limited it is looked up once: dlopen searches the cache of libraries on the disk for one that is not open. Whoever
 * opens and limits the library later limits its kernels, not this answer. */
dnnl_cpu_isa_t dnnl_get_effective_cpu_isa(void)
{
    enum { UNKNOWN, FREE, LIMITED };
    static int known = UNKNOWN;
    int is = __atomic_load_n(&known, __ATOMIC_RELAXED);

    if (__atomic_load_n(&is_open, __ATOMIC_ACQUIRE))
        return late_isa();
    if (is == UNKNOWN) {
        is = (int)isa_of_cpu() == 0 || is_limited() ? LIMITED : FREE;
        __atomic_store_n(&known, is, __ATOMIC_RELAXED);
    }
    if (is == FREE)
        return isa_of_cpu();
    return need() ? late_isa() : dnnl_cpu_isa_sse41;
}
