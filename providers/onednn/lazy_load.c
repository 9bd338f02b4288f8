/* Opens libdnnl at the first call of one of its functions. Loading it (libstdc++ and about 35000 relocations) takes
 * longer than the rest of the start-up of a small model, and many models use only built-in kernels.
 *
 * The functions below have the names of the library's functions, so the provider is written as if it were linked to the
 * library, as the tests are. The plugin's linker script hides these names from other code. */
#include "common/library.h"
#include "inlay/check.h"
#include "simd/cpu.h"
#include "simd/at_fork.h"
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char soname[] = ONEDNN_SONAME; /* the soname of the library that CMake has found */

#define FUNCTION(result, name, parameters, arguments, otherwise) static result(*real_##name) parameters;
#include "onednn/functions.def"
#undef FUNCTION
static dnnl_status_t (*real_engine_create)(dnnl_engine_t *, dnnl_engine_kind_t, size_t);
static dnnl_cpu_isa_t (*real_isa)(void);
static dnnl_status_t (*real_set_isa)(dnnl_cpu_isa_t);
static dnnl_status_t (*real_get_capacity)(int *);
static dnnl_status_t (*real_set_capacity)(int);
static const dnnl_version_t *(*real_version)(void);
static dnnl_engine_t process_engine; /* shared by all sessions of the process; contains no state of a session */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_open, has_failed;

/* Functions that create objects use a cache with internal locks. Calls of them hold `creating` for reading, so that
 * fork() does not copy the process while such a lock is held. */
static pthread_rwlock_t creating = PTHREAD_RWLOCK_INITIALIZER;

static __attribute__((constructor)) void guard_locks(void)
{
    lock_at_fork(&lock);
    rwlock_at_fork(&creating);
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

/* The instruction set of this CPU in the library's terms. */
static dnnl_cpu_isa_t isa_of_cpu(void)
{
#if defined(__x86_64__)
    if (!cpu_has(CPU_AVX512))
        return cpu_has(CPU_AVX2) ? dnnl_cpu_isa_avx2 : dnnl_cpu_isa_sse41;
    if (!__builtin_cpu_supports("avx512vnni"))
        return dnnl_cpu_isa_avx512_core;
    return __builtin_cpu_supports("avx512bf16") ? dnnl_cpu_isa_avx512_core_bf16 : dnnl_cpu_isa_avx512_core_vnni;
#else
    return (dnnl_cpu_isa_t)0; /* all; the name differs between versions */
#endif
}

/* Before version 3.4, descriptions of "brg" kernels (float with AVX-512, and bfloat16) point to their own attributes,
 * and a copy of a description still points to those of the original. The cache of primitives hands out such copies,
 * whose originals no longer exist: a kernel that is then generated from one reads freed memory. Without the cache every
 * description is an original. */
static bool copies_dangle(const dnnl_version_t *version)
{
    return version->major < 3 || (version->major == 3 && version->minor < 4);
}

static bool open_library(void)
{
    void *library = library_open(soname);
    bool good = library != NULL;

#define FUNCTION(result, name, parameters, arguments, otherwise)                                                       \
    good = good && library_find(library, #name, &real_##name);
#include "onednn/functions.def"
#undef FUNCTION
    good = good && library_find(library, "dnnl_engine_create", &real_engine_create) &&
           library_find(library, "dnnl_get_effective_cpu_isa", &real_isa) &&
           library_find(library, "dnnl_set_max_cpu_isa", &real_set_isa) &&
           library_find(library, "dnnl_get_primitive_cache_capacity", &real_get_capacity) &&
           library_find(library, "dnnl_set_primitive_cache_capacity", &real_set_capacity) &&
           library_find(library, "dnnl_version", &real_version);
    if (good && copies_dangle(real_version()))
        good = real_set_capacity(0) == dnnl_success;
    if (good && cpu_is_capped()) /* has no effect if the application has already used the library */
        (void)real_set_isa(isa_of_cpu());
    return good && real_engine_create(&process_engine, dnnl_cpu, 0) == dnnl_success;
}

/* Opens the library unless it is open; false: it cannot be opened. A failure is not retried. */
static bool ensure_open(void)
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

/* Replaces the caller's placeholder engine (see dnnl_engine_create below) by the engine of the process. */
#define ENGINE(placeholder) ((void)(placeholder), process_engine)
#define FUNCTION(result, name, parameters, arguments, otherwise)                                                       \
    result name parameters                                                                                             \
    {                                                                                                                  \
        const bool creates = ensure_open() && strstr(#name, "_create") != NULL && begin_creating();                    \
        result made = ensure_open() ? real_##name arguments : otherwise;                                               \
                                                                                                                       \
        end_creating(creates);                                                                                         \
        return made;                                                                                                   \
    }
#include "onednn/functions.def"
#undef FUNCTION

/* The cache of primitives. A library that is not open has none. Its locks are as above. */
dnnl_status_t dnnl_get_primitive_cache_capacity(int *capacity)
{
    *capacity = 0;
    return __atomic_load_n(&is_open, __ATOMIC_ACQUIRE) ? real_get_capacity(capacity) : dnnl_success;
}

dnnl_status_t dnnl_set_primitive_cache_capacity(int capacity)
{
    dnnl_status_t status;

    if (!__atomic_load_n(&is_open, __ATOMIC_ACQUIRE))
        return dnnl_success;
    (void)begin_creating();
    status = real_set_capacity(capacity);
    end_creating(true);
    return status;
}

/* Called when a provider is created: succeeds if the library is open, can be found by the loader, or can be opened. The
 * engine is a placeholder. */
dnnl_status_t dnnl_engine_create(dnnl_engine_t *engine, dnnl_engine_kind_t kind, size_t index)
{
    static char placeholder;

    INLAY_CHECK(kind == dnnl_cpu && index == 0);
    (void)kind;
    (void)index;
    *engine = (dnnl_engine_t)(void *)&placeholder;
    return __atomic_load_n(&is_open, __ATOMIC_ACQUIRE) || library_is_available_unloaded(soname) || ensure_open()
               ? dnnl_success
               : dnnl_unimplemented;
}

dnnl_status_t dnnl_engine_destroy(dnnl_engine_t engine)
{
    (void)engine;
    return dnnl_success;
}

/* Whether the application or the environment may have limited the library's instruction set. */
static bool is_limited(void)
{
    void *loaded = dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD); /* by the application */

    if (loaded != NULL)
        (void)dlclose(loaded);
    return loaded != NULL || getenv("ONEDNN_MAX_CPU_ISA") != NULL || getenv("DNNL_MAX_CPU_ISA") != NULL;
}

/* Called for every node with 8-bit integers, so it does not open the library. Whether the library may be limited is
 * determined once, because dlopen() of a library that is not loaded searches the loader's cache on disk. An application
 * that opens and limits the library later limits its kernels, but not this result. */
dnnl_cpu_isa_t dnnl_get_effective_cpu_isa(void)
{
    enum { UNKNOWN, FREE, LIMITED };
    static int known = UNKNOWN;
    int limit = __atomic_load_n(&known, __ATOMIC_RELAXED);

    if (__atomic_load_n(&is_open, __ATOMIC_ACQUIRE))
        return real_isa();
    if (limit == UNKNOWN) {
        limit = (int)isa_of_cpu() == 0 || is_limited() ? LIMITED : FREE;
        __atomic_store_n(&known, limit, __ATOMIC_RELAXED);
    }
    if (limit == FREE)
        return isa_of_cpu();
    return ensure_open() ? real_isa() : dnnl_cpu_isa_sse41;
}
