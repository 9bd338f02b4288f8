/* library.c - loads libopenblas with the right settings, see library.h. */
#include "openblas/library.h"
#include "common/library.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include "simd/cpu.h"
#include "simd/at_fork.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;
enum { MAX_LIBRARIES = 8 };

const char *blas_core_of_cpu(void)
{
#if defined(__x86_64__)
    /* SkylakeX has the same float and double kernels as Cooperlake and SapphireRapids, which differ only in bfloat16.
     * Every version that supports one of them supports SkylakeX. */
    if (cpu_has(CPU_AVX512))
        return "SkylakeX";
    /* Zen has the kernels of Haswell with other block sizes, with which they were up to a fifth slower on a newer AMD
     * CPU. */
    if (cpu_has(CPU_AVX2))
        return "Haswell";
    if (cpu_is_capped())
        return "Nehalem"; /* kernels for SSE4.2, which every CPU has for which option isa can lower the level */
#endif
    return NULL;
}

bool blas_core_is_avx512(const char *core)
{
    static const char *const names[] = { "SkylakeX", "Cooperlake", "SapphireRapids" };

    for (size_t i = 0; core != NULL && i < sizeof names / sizeof names[0]; i++)
        if (strcasecmp(core, names[i]) == 0)
            return true;
    return false;
}

/* The environment while the library is loaded.
 *
 * OpenBLAS reads OPENBLAS_CORETYPE and OPENBLAS_NUM_THREADS in its constructor. Version 0.3.21 has no other way to
 * choose kernels or to prevent its threads from starting. setenv() is not safe in a program with threads: it may free
 * the array that getenv() reads on another thread. So the array is not changed: while the library is loaded, `environ`
 * points to a copy with two more entries. Concurrent readers of `environ` see one of the two complete arrays. The copy
 * is never freed, because a reader may still use it. */

/* An attempt to load a library; never freed, like its environment. A failed attempt is not repeated, so that further
 * sessions without the library cost neither a search nor memory. */
struct load_attempt {
    struct load_attempt *next;
    char core[64], threads[32];
    char **user_environment, **array;
    char *missing; /* name of the library if it was not found; owned */
    char why[320]; /* the loader's message */
};

static struct load_attempt
    *attempts; /* all attempts, the newest first; leak checkers find their memory through this list */

static bool is_variable(const char *entry, const char *name)
{
    size_t n = strlen(name);

    return strncmp(entry, name, n) == 0 && entry[n] == '=';
}

/* Replaces `environ` by a copy with the settings. core NULL: keeps the user's OPENBLAS_CORETYPE. Returns NULL if there
 * is no memory. */
static struct load_attempt *enter_environment(const char *core)
{
    struct load_attempt *attempt = calloc(1, sizeof *attempt);
    size_t n = 0, used = 0;

    while (environ != NULL && environ[n] != NULL)
        n++;
    if (attempt == NULL || (attempt->array = calloc(n + 3, sizeof(char *))) == NULL) {
        free(attempt);
        return NULL;
    }
    attempt->next = attempts;
    attempts = attempt;
    for (size_t i = 0; i < n; i++)
        if (!is_variable(environ[i], "OPENBLAS_NUM_THREADS") &&
            (core == NULL || !is_variable(environ[i], "OPENBLAS_CORETYPE")))
            attempt->array[used++] = environ[i];
    (void)snprintf(attempt->threads, sizeof attempt->threads, "OPENBLAS_NUM_THREADS=1");
    attempt->array[used++] = attempt->threads;
    if (core != NULL) {
        (void)snprintf(attempt->core, sizeof attempt->core, "OPENBLAS_CORETYPE=%s", core);
        attempt->array[used++] = attempt->core;
    }
    attempt->user_environment = environ;
    __atomic_store_n(&environ, attempt->array, __ATOMIC_SEQ_CST);
    return attempt;
}

/* Restores the user's array, unless other code has replaced `environ` in the meantime. */
static void leave_environment(struct load_attempt *attempt)
{
    char **expected = attempt->array;

    (void)__atomic_compare_exchange_n(&environ, &expected, attempt->user_environment, false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_SEQ_CST);
}

/* A library that this plugin uses. Entries are never removed, because libraries are never unloaded. */
typedef struct held_library {
    void *handle;
    bool loaded_here; /* loaded by this plugin, with its settings */
    /* The number of threads of one that the program has loaded; NULL: it has no threads of its own. */
    int (*get_threads)(void);
    void (*set_threads)(int threads);
    uint32_t calls; /* active; guarded by calls_lock */
    int threads;    /* before the first active call */
} held_library;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, calls_lock = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((constructor)) void guard_locks(void)
{
    lock_at_fork(&lock);
    lock_at_fork(&calls_lock);
}

static held_library held[MAX_LIBRARIES];

/* The entry of a library, added if it is new; NULL: too many libraries. */
static held_library *find_held(void *handle)
{
    for (uint32_t i = 0; i < MAX_LIBRARIES; i++) {
        if (held[i].handle == NULL)
            held[i].handle = handle;
        if (held[i].handle == handle)
            return &held[i];
    }
    return NULL;
}

static void log_message(const inlay_host *host, uint32_t level, const char *text)
{
    if (host->log != NULL)
        host->log(host->ctx, level, text);
}

/* Finds the functions of an opened library; INLAY_UNSUPPORTED if one is missing. */
static inlay_status bind_functions(const char *name, blas_library *out, inlay_diag *diag)
{
    char *(*get_config)(void) = NULL, *(*get_corename)(void) = NULL;
    int (*get_parallel)(void) = NULL;

    if (!library_find(out->handle, "openblas_get_config", &get_config) ||
        !library_find(out->handle, "openblas_get_corename", &get_corename) ||
        !library_find(out->handle, "openblas_get_parallel", &get_parallel))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "'%s' is not OpenBLAS; set openblas.library to an OpenBLAS", name);
    if (strstr(get_config(), "USE64BITINT") != NULL || !library_find(out->handle, "cblas_sgemm", &out->sgemm) ||
        !library_find(out->handle, "cblas_dgemm", &out->dgemm) ||
        !library_find(out->handle, "cblas_sgemv", &out->sgemv) ||
        !library_find(out->handle, "cblas_dgemv", &out->dgemv))
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "'%s' has no CBLAS with 32-bit integers; set openblas.library to a build with it", name);
    out->flavour = get_parallel();
    if (out->flavour == BLAS_OPENMP && (!library_find(out->handle, "omp_get_max_threads", &out->omp_get_max_threads) ||
                                        !library_find(out->handle, "omp_set_num_threads", &out->omp_set_num_threads)))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the OpenMP runtime of '%s' cannot be found", name);
    (void)snprintf(out->core, sizeof out->core, "%s", get_corename());
    out->small = blas_core_is_avx512(out->core);
    return INLAY_OK;
}

/* The threads of a library of the program. The OpenMP flavour takes their number from the calling thread. */
static void bind_threads(blas_library *library, held_library *entry)
{
    if (entry->loaded_here || library->flavour != BLAS_PTHREAD ||
        !library_find(library->handle, "openblas_get_num_threads", &entry->get_threads) ||
        !library_find(library->handle, "openblas_set_num_threads", &entry->set_threads))
        return;
    library->shared = entry;
}

/* The number is a setting of the process, or with OpenMP of the calling thread. It is changed for the time of the calls
 * only, because the program computes with the library, too. */
int blas_library_enter(const blas_library *library)
{
    held_library *entry = library->shared;
    int threads = 0;

    if (library->flavour == BLAS_OPENMP) {
        threads = library->omp_get_max_threads();
        if (threads > 1)
            library->omp_set_num_threads(1);
    }
    if (entry == NULL)
        return threads;
    (void)pthread_mutex_lock(&calls_lock);
    if (entry->calls++ == 0) {
        entry->threads = entry->get_threads();
        if (entry->threads > 1)
            entry->set_threads(1);
    }
    (void)pthread_mutex_unlock(&calls_lock);
    return threads;
}

void blas_library_leave(const blas_library *library, int threads)
{
    held_library *entry = library->shared;

    if (threads > 1)
        library->omp_set_num_threads(threads);
    if (entry == NULL)
        return;
    (void)pthread_mutex_lock(&calls_lock);
    INLAY_CHECK(entry->calls > 0);
    if (--entry->calls == 0 && entry->threads > 1)
        entry->set_threads(entry->threads);
    (void)pthread_mutex_unlock(&calls_lock);
}

static inlay_status load_library(const char *name, const char *core, void **out_handle, inlay_diag *diag)
{
    struct load_attempt *attempt = attempts;

    while (attempt != NULL && (attempt->missing == NULL || strcmp(attempt->missing, name) != 0))
        attempt = attempt->next;
    if (attempt == NULL) {
        attempt = enter_environment(core);
        if (attempt == NULL)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to load %s", name);
        *out_handle = library_open(name);
        if (*out_handle == NULL) {
            const char *why = dlerror();

            (void)snprintf(attempt->why, sizeof attempt->why, "%s", why != NULL ? why : name);
            attempt->missing = strdup(name); /* if there is no memory, the next session searches again */
        }
        leave_environment(attempt);
    }
    if (*out_handle == NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "no OpenBLAS: install libopenblas0-pthread or set openblas.library "
                          "(%.300s)",
                          attempt->why);
    return INLAY_OK;
}

/* Does this process have the instructions of a core type? OpenBLAS does not verify the core type that it is given, and
 * an unsupported instruction ends the process. */
static bool is_supported(const char *core)
{
    if (blas_core_is_avx512(core))
        return cpu_has(CPU_AVX512);
    return (strcasecmp(core, "Haswell") != 0 && strcasecmp(core, "Zen") != 0) || cpu_has(CPU_AVX2);
}

/* The core type to request; NULL: the core type in the environment. The option has precedence over the environment. The
 * environment has precedence over the choice for this CPU, unless the instruction set is capped or the CPU lacks the
 * instructions. */
static const char *choose_core(const char *core)
{
    const char *variable = getenv("OPENBLAS_CORETYPE");

    if (strcmp(core, "auto") != 0)
        return core;
    return variable != NULL && variable[0] != '\0' && !cpu_is_capped() && is_supported(variable) ? NULL
                                                                                                 : blas_core_of_cpu();
}

const char *blas_core_expected(const char *core)
{
    const char *chosen = choose_core(core);

    return chosen != NULL ? chosen : getenv("OPENBLAS_CORETYPE");
}

static void report(const inlay_host *host, const char *name, const char *core, const blas_library *library,
                   bool loaded_here)
{
    const char *wanted = blas_core_of_cpu();
    char text[256];

    (void)snprintf(text, sizeof text, "openblas: %.100s, kernels for %s%s", name, library->core,
                   loaded_here ? "" : "; the process had already loaded it, so its core type cannot change");
    log_message(host, loaded_here ? INLAY_LOG_DEBUG : INLAY_LOG_INFO, text);
    if (strcmp(core, "auto") == 0 && wanted != NULL && strcasecmp(wanted, library->core) != 0) {
        (void)snprintf(text, sizeof text,
                       "openblas: this CPU supports the kernels for %s, which may be faster; unset "
                       "OPENBLAS_CORETYPE, or load the library later in the application",
                       wanted);
        log_message(host, INLAY_LOG_INFO, text);
    }
    if (strcmp(core, "auto") != 0 && strcasecmp(core, library->core) != 0) {
        (void)snprintf(text, sizeof text,
                       "openblas: core type '%.32s' is not available; the library uses kernels for %s", core,
                       library->core);
        log_message(host, INLAY_LOG_WARNING, text);
    }
}

inlay_status blas_library_open(const inlay_host *host, const char *name, const char *core, blas_library *out,
                               inlay_diag *diag)
{
    bool loaded = false;
    held_library *library;
    inlay_status status = INLAY_OK;

    *out = (blas_library){ 0 };
    if (strchr(name, '/') != NULL && name[0] != '/')
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "openblas.library is '%s'; give a soname or an absolute path",
                          name);
    if (strcmp(core, "auto") != 0 && !is_supported(core))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "openblas.core is '%.32s', whose instructions this CPU or option isa does not have; use auto",
                          core);
    (void)pthread_mutex_lock(&lock);
    out->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (out->handle == NULL) {
        INLAY_TRY(load_library(name, choose_core(core), &out->handle, diag));
        loaded = true;
    }
    INLAY_TRY(bind_functions(name, out, diag));
    library = find_held(out->handle);
    if (library == NULL) {
        status =
            inlay_fail(diag, INLAY_UNSUPPORTED, "more than %d different libraries as openblas.library", MAX_LIBRARIES);
        goto done;
    }
    library->loaded_here |= loaded;
    bind_threads(out, library);
    report(host, name, core, out, library->loaded_here);
done:
    if (status != INLAY_OK && out->handle != NULL) {
        (void)dlclose(out->handle);
        *out = (blas_library){ 0 };
    }
    (void)pthread_mutex_unlock(&lock);
    return status;
}

void blas_library_move(blas_library *to, const blas_library *from)
{
    INLAY_CHECK(to->handle == NULL && from->handle != NULL);
    to->handle = from->handle;
    to->sgemm = from->sgemm;
    to->dgemm = from->dgemm;
    to->sgemv = from->sgemv;
    to->dgemv = from->dgemv;
    to->omp_get_max_threads = from->omp_get_max_threads;
    to->omp_set_num_threads = from->omp_set_num_threads;
    to->flavour = from->flavour;
    to->shared = from->shared;
    memcpy(to->core, from->core, sizeof to->core);
}

void blas_library_close(blas_library *library)
{
    if (library == NULL || library->handle == NULL)
        return;
    (void)dlclose(library->handle);
    library->handle = NULL;
}
