/* pcre.h - PCRE2, opened by name when the first pattern is compiled: a plugin with operators on patterns loads where
 * the library is not installed, and the others of its operators run. Built where CMake finds the library's headers. */
#ifndef COMMON_PCRE_H
#define COMMON_PCRE_H
#include "inlay/plugin.h"
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* What is used of the library: pcre2_ before each name. */
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
    pcre2_compile_context *rules; /* for compile: a line ends with \n, however the library was built */
    pcre2_match_context *limits;  /* for each match: ten million steps, 1 GiB */
} pcre_library;

/* The library, the process's for good. NULL: INLAY_UNSUPPORTED, with a sentence in diag. Any thread. */
const pcre_library *pcre_open(inlay_diag *diag);

/* Why a pattern was refused, from compile's error code; `at` is the byte, SIZE_MAX = not known. Returns `otherwise`
 * unless memory or a limit was the reason. */
inlay_status pcre_refused(inlay_str pattern, int code, size_t at, inlay_status otherwise, inlay_diag *diag);
/* Why a match ended with an error, from its code, which is negative and not PCRE2_ERROR_NOMATCH. */
inlay_status pcre_failed(int code, inlay_diag *diag);
#endif
