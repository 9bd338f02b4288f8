/* pcre.h - PCRE2, opened by name when the first pattern is compiled. Without the library, a plugin still loads, and its
 * operators without regular expressions run. Built only if CMake finds the library's headers. */
#ifndef COMMON_PCRE_H
#define COMMON_PCRE_H
#include "inlay/status.h"
#include "inlay/types.h"
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* The functions in use, without the prefix pcre2_. */
#define PCRE_FUNCTIONS(X)                                                                                              \
    X(code_free)                                                                                                       \
    X(compile)                                                                                                         \
    X(compile_context_create)                                                                                          \
    X(dfa_match)                                                                                                       \
    X(general_context_create)                                                                                          \
    X(get_error_message)                                                                                               \
    X(get_ovector_count)                                                                                               \
    X(get_ovector_pointer)                                                                                             \
    X(match)                                                                                                           \
    X(match_context_create)                                                                                            \
    X(match_data_create)                                                                                               \
    X(match_data_create_from_pattern)                                                                                  \
    X(match_data_free)                                                                                                 \
    X(set_depth_limit)                                                                                                 \
    X(set_heap_limit)                                                                                                  \
    X(set_match_limit)                                                                                                 \
    X(set_newline)

typedef struct pcre_library {
#define PCRE_MEMBER(name) __typeof__(pcre2_##name) *name;
    PCRE_FUNCTIONS(PCRE_MEMBER)
#undef PCRE_MEMBER
    pcre2_compile_context *rules; /* for compile: lines end with \n, regardless of the library's default */
    pcre2_match_context *limits;  /* for each match: at most ten million steps, 1 GiB */
} pcre_library;

/* Opens the library, which stays open until the process ends. NULL: INLAY_UNSUPPORTED, with a message in diag.
 * Thread-safe. */
const pcre_library *pcre_open(inlay_diag *diag);

/* Writes to diag why a pattern was rejected. code: the error code of compile(). at: the byte of the pattern; SIZE_MAX:
 * unknown. Returns `otherwise` unless memory or a limit was the reason. */
inlay_status pcre_refused(inlay_str pattern, int code, size_t at, inlay_status otherwise, inlay_diag *diag);
/* Writes to diag why a match failed. code: the result of the match, negative and not PCRE2_ERROR_NOMATCH. */
inlay_status pcre_failed(int code, inlay_diag *diag);
#endif
