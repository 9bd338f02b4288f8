#include "inlay/check.h"
#include "common/library.h"
#include "common/pcre.h"
#include "simd/at_fork.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define SONAME "libpcre2-8.so.0"

/* Limits of a match. The step limit applies separately to each starting position of the match. */
enum { MAX_STEPS = 10000000, MAX_HEAP_KIB = 1024 * 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pcre_library library;
static bool is_open;

static __attribute__((constructor)) void guard_lock(void)
{
    lock_at_fork(&lock);
}

static bool open_library(pcre_library *out)
{
    void *handle = library_open(SONAME);
    bool good = handle != NULL;

#define FIND(name) good = good && library_find(handle, "pcre2_" #name "_8", &out->name);
    PCRE_FUNCTIONS(FIND)
#undef FIND
    good = good && (out->rules = out->compile_context_create(NULL)) != NULL &&
           (out->limits = out->match_context_create(NULL)) != NULL;
    if (!good)
        return false;
    (void)out->set_newline(out->rules, PCRE2_NEWLINE_LF);
    (void)out->set_match_limit(out->limits, MAX_STEPS);
    (void)out->set_depth_limit(out->limits, MAX_STEPS);
    (void)out->set_heap_limit(out->limits, MAX_HEAP_KIB);
    return true;
}

const pcre_library *pcre_open(inlay_diag *diag)
{
    bool open;

    (void)pthread_mutex_lock(&lock);
    if (!is_open)
        is_open = open_library(&library);
    open = is_open;
    (void)pthread_mutex_unlock(&lock);
    if (!open)
        (void)inlay_fail(diag, INLAY_UNSUPPORTED,
                         "patterns need the library " SONAME ": install PCRE2 (Debian: "
                         "libpcre2-8-0)");
    return open ? &library : NULL;
}

inlay_status pcre_refused(inlay_str pattern, int code, size_t at, inlay_status otherwise, inlay_diag *diag)
{
    const int shown = (int)(pattern.bytes < 200 ? pattern.bytes : 200);
    const char *text = pattern.data != NULL ? pattern.data : "";
    PCRE2_UCHAR why[120] = "";

    (void)library.get_error_message(code, why, sizeof why);
    if (code == PCRE2_ERROR_HEAP_FAILED)
        otherwise = INLAY_OUT_OF_MEMORY;
    else if (code == PCRE2_ERROR_PATTERN_TOO_LARGE || code == PCRE2_ERROR_PATTERN_TOO_COMPLICATED ||
             code == PCRE2_ERROR_PARENTHESES_NEST_TOO_DEEP)
        otherwise = INLAY_LIMIT_EXCEEDED;
    if (at == SIZE_MAX)
        return inlay_fail(diag, otherwise, "pattern '%.*s': %s", shown, text, (const char *)why);
    return inlay_fail(diag, otherwise, "the pattern '%.*s' has an error at byte %zu: %s", shown, text, at,
                      (const char *)why);
}

inlay_status pcre_failed(int code, inlay_diag *diag)
{
    PCRE2_UCHAR why[120] = "";

    INLAY_CHECK(code < 0 && code != PCRE2_ERROR_NOMATCH);
    switch (code) {
    case PCRE2_ERROR_NOMEMORY:
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to match a pattern");
    case PCRE2_ERROR_MATCHLIMIT:
    case PCRE2_ERROR_DEPTHLIMIT:
    case PCRE2_ERROR_HEAPLIMIT:
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                          "matching the pattern exceeds a limit, %d steps or %d MiB: use one with fewer repetitions "
                          "within repetitions, or shorter texts",
                          MAX_STEPS, MAX_HEAP_KIB / 1024);
    case PCRE2_ERROR_DFA_WSSIZE:
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                          "the pattern can be continued in too many ways at once: use smaller repeat counts");
    default:
        (void)library.get_error_message(code, why, sizeof why);
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the pattern cannot be searched for: %s", (const char *)why);
    }
}
