/* library.c - loading libopenblas with the right settings, see library.h. */
#include "library.h"
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
    /* float and double have the same kernels in SkylakeX as in Cooperlake and SapphireRapids, which differ from it in
     * bfloat16 only; and SkylakeX is known to every version that has any of them. */
    if (cpu_has(CPU_AVX512))
        return "SkylakeX";
    /* Zen has the kernels of Haswell with other block sizes, which lost by up to a fifth on a newer AMD CPU. */
    if (cpu_has(CPU_AVX2))
        return "Haswell";
    if (cpu_is_capped())
        return "Nehalem"; /* SSE4.2, which any CPU has that has more than the cap allows */
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

/* ------------------------------------------------------------------ the environment that the library wakes up in
 *
 * OpenBLAS reads OPENBLAS_CORETYPE and OPENBLAS_NUM_THREADS in its constructor, and there is no other way to choose
 * kernels in 0.3.21, nor to keep its threads from being started. setenv() would be a hazard in a program with threads:
 * it may free the array that another thread's getenv() is walking. So the array is not changed: one of our own, with
 * two more entries, takes its place while the library is loaded. Who reads `environ` meanwhile finds either of them,
 * both complete. Ours is kept for good, since somebody may still be reading it. */

/* An attempt to load a library, kept for good with its environment. One that failed is not repeated: a session that is
 * opened where the library is missing costs neither a search nor memory after the first. */
struct attempt {
    struct attempt *next;
    char core[64], threads[32];
    char **before, **array;
    char *missing; /* the library's name when there was none; owned */
    char why[320]; /* what the loader said */
};

static struct attempt *attempts; /* the newest first; reachable, so that nobody takes them for leaks */

static bool starts(const char *entry, const char *name)
{
    size_t n = strlen(name);

    return strncmp(entry, name, n) == 0 && entry[n] == '=';
}

/* core NULL: the variable stays as the user has it. NULL: out of memory. */
static struct attempt *enter_environment(const char *core)
{
    struct attempt *attempt = calloc(1, sizeof *attempt);
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
        if (!starts(environ[i], "OPENBLAS_NUM_THREADS") && (core == NULL || !starts(environ[i], "OPENBLAS_CORETYPE")))
            attempt->array[used++] = environ[i];
    (void)snprintf(attempt->threads, sizeof attempt->threads, "OPENBLAS_NUM_THREADS=1");
    attempt->array[used++] = attempt->threads;
    if (core != NULL) {
        (void)snprintf(attempt->core, sizeof attempt->core, "OPENBLAS_CORETYPE=%s", core);
        attempt->array[used++] = attempt->core;
    }
    attempt->before = environ;
    __atomic_store_n(&environ, attempt->array, __ATOMIC_SEQ_CST);
    return attempt;
}

/* Puts the user's array back, unless somebody else has replaced it in the meantime: then theirs stays. */
static void leave_environment(struct attempt *attempt)
{
    char **ours = attempt->array;

    (void)__atomic_compare_exchange_n(&environ, &ours, attempt->before, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* ------------------------------------------------------------------ opening */

/* What this plugin did to libraries of the process: an entry a library, for good, since none is unloaded. */
typedef struct held_library {
    void *handle;
    uint32_t providers; /* that hold it now */
    int threads_before; /* what its number of threads was before the first of them */
    bool ours;          /* loaded by us, with our settings */
} held_library;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((constructor)) void guard_lock(void)
{
    lock_at_fork(&lock);
}

static held_library held[MAX_LIBRARIES];

/* The entry of a library, made if it is new; NULL when there are too many. */
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

/* dlsym's result as a function pointer, as POSIX allows and ISO C does not. */
static bool find(void *handle, const char *name, void *out_function)
{
    void *symbol = dlsym(handle, name);

    memcpy(out_function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static void say(const inlay_host *host, uint32_t level, const char *text)
{
    if (host->log != NULL)
        host->log(host->ctx, level, text);
}

/* The functions of an opened library; INLAY_UNSUPPORTED says what it lacks. */
static inlay_status bind(const char *name, blas_library *out, inlay_diag *diag)
{
    char *(*get_config)(void) = NULL, *(*get_corename)(void) = NULL;
    int (*get_parallel)(void) = NULL;

    if (!find(out->handle, "openblas_get_config", &get_config) ||
        !find(out->handle, "openblas_get_corename", &get_corename) ||
        !find(out->handle, "openblas_get_parallel", &get_parallel))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "'%s' is no OpenBLAS; set openblas.library to one", name);
    if (strstr(get_config(), "USE64BITINT") != NULL || !find(out->handle, "cblas_sgemm", &out->sgemm) ||
        !find(out->handle, "cblas_dgemm", &out->dgemm) || !find(out->handle, "cblas_sgemv", &out->sgemv) ||
        !find(out->handle, "cblas_dgemv", &out->dgemv))
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "'%s' has no CBLAS with 32-bit integers; set openblas.library to one that has", name);
    out->flavour = get_parallel();
    if (out->flavour == BLAS_OPENMP && (!find(out->handle, "omp_get_max_threads", &out->omp_get_max_threads) ||
                                        !find(out->handle, "omp_set_num_threads", &out->omp_set_num_threads)))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "'%s' runs on an OpenMP that cannot be found", name);
    (void)snprintf(out->core, sizeof out->core, "%s", get_corename());
    out->small = blas_core_is_avx512(out->core);
    return INLAY_OK;
}

/* Sets the library's number of threads. The OpenMP flavour also changes the calling thread's setting, which is none of
 * its business. */
static void set_threads(const blas_library *library, int threads)
{
    void (*set)(int) = NULL;
    int omp = library->flavour == BLAS_OPENMP ? library->omp_get_max_threads() : 0;

    if (library->flavour == BLAS_SERIAL || !find(library->handle, "openblas_set_num_threads", &set))
        return;
    set(threads);
    if (omp > 0)
        library->omp_set_num_threads(omp);
}

/* Each of our threads calls the library for itself: it must start none. The number counts for the process, so the last
 * provider to close puts back what it was. */
static void hold_threads(const inlay_host *host, const blas_library *library, held_library *h)
{
    int (*get_threads)(void) = NULL;
    char text[160];

    if (h->providers++ > 0 || !find(library->handle, "openblas_get_num_threads", &get_threads))
        return;
    h->threads_before = get_threads();
    if (h->threads_before <= 1)
        return;
    set_threads(library, 1);
    if (!h->ours) {
        (void)snprintf(text, sizeof text,
                       "openblas: the process's OpenBLAS had %d threads; it has 1 as long as this "
                       "provider is open",
                       h->threads_before);
        say(host, INLAY_LOG_WARNING, text);
    }
}

static inlay_status load(const char *name, const char *core, void **out_handle, inlay_diag *diag)
{
    struct attempt *attempt = attempts;

    while (attempt != NULL && (attempt->missing == NULL || strcmp(attempt->missing, name) != 0))
        attempt = attempt->next;
    if (attempt == NULL) {
        attempt = enter_environment(core);
        if (attempt == NULL)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to load %s", name);
        *out_handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (*out_handle == NULL) {
            const char *why = dlerror();

            (void)snprintf(attempt->why, sizeof attempt->why, "%s", why != NULL ? why : name);
            attempt->missing = strdup(name); /* NULL: it is searched again */
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

/* Which core type to ask for; NULL: none. What the user says in the options goes before what the environment says,
 * and that before our own choice, unless that is capped. */
static const char *choose_core(const char *core)
{
    const char *variable = getenv("OPENBLAS_CORETYPE");

    if (strcmp(core, "auto") != 0)
        return core;
    return variable != NULL && variable[0] != '\0' && !cpu_is_capped() ? NULL : blas_core_of_cpu();
}

const char *blas_core_expected(const char *core)
{
    const char *chosen = choose_core(core);

    return chosen != NULL ? chosen : getenv("OPENBLAS_CORETYPE");
}

static void report(const inlay_host *host, const char *name, const char *core, const blas_library *library, bool ours)
{
    const char *wanted = blas_core_of_cpu();
    char text[256];

    (void)snprintf(text, sizeof text, "openblas: %.100s, kernels for %s%s", name, library->core,
                   ours ? "" : "; the process had loaded it before, so its core type stays");
    say(host, ours ? INLAY_LOG_DEBUG : INLAY_LOG_INFO, text);
    if (strcmp(core, "auto") == 0 && wanted != NULL && strcasecmp(wanted, library->core) != 0) {
        (void)snprintf(text, sizeof text,
                       "openblas: this CPU could run the kernels for %s, which may be faster; "
                       "OPENBLAS_CORETYPE, or who loaded the library first, chose otherwise",
                       wanted);
        say(host, INLAY_LOG_INFO, text);
    }
    if (strcmp(core, "auto") != 0 && strcasecmp(core, library->core) != 0) {
        (void)snprintf(text, sizeof text, "openblas: core type '%.32s' was asked for; the library runs that for %s",
                       core, library->core);
        say(host, INLAY_LOG_WARNING, text);
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
    (void)pthread_mutex_lock(&lock);
    out->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (out->handle == NULL) {
        INLAY_TRY(load(name, choose_core(core), &out->handle, diag));
        loaded = true;
    }
    INLAY_TRY(bind(name, out, diag));
    library = find_held(out->handle);
    if (library == NULL) {
        status =
            inlay_fail(diag, INLAY_UNSUPPORTED, "more than %d different libraries as openblas.library", MAX_LIBRARIES);
        goto done;
    }
    library->ours |= loaded;
    hold_threads(host, out, library);
    report(host, name, core, out, library->ours);
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
    to->handle = from->handle;
    to->sgemm = from->sgemm;
    to->dgemm = from->dgemm;
    to->sgemv = from->sgemv;
    to->dgemv = from->dgemv;
    to->omp_get_max_threads = from->omp_get_max_threads;
    to->omp_set_num_threads = from->omp_set_num_threads;
    to->flavour = from->flavour;
    memcpy(to->core, from->core, sizeof to->core);
}

void blas_library_close(blas_library *library)
{
    held_library *h;

    if (library == NULL || library->handle == NULL)
        return;
    (void)pthread_mutex_lock(&lock);
    h = find_held(library->handle);
    if (h != NULL && --h->providers == 0 && h->threads_before > 1)
        set_threads(library, h->threads_before);
    (void)dlclose(library->handle);
    library->handle = NULL;
    (void)pthread_mutex_unlock(&lock);
}
