/* inlay/status.h - how every function of inlay reports failure.
 *
 * A function returns an inlay_status by value and writes a message into an inlay_diag that the caller owns. Failing
 * allocates nothing, leaves nothing to free, and never unwinds across a module boundary.
 *
 *     inlay_diag diag = INLAY_DIAG_INIT;
 *     if (inlay_session_create(path, options, &session, &diag) != INLAY_OK)
 *         fprintf(stderr, "%s\n", diag.text);
 *
 * The codes and the layout of inlay_diag are part of the ABI: new ones are appended, existing ones never change. */
#ifndef INLAY_STATUS_H
#define INLAY_STATUS_H
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define INLAY_NODISCARD __attribute__((warn_unused_result))
#define INLAY_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define INLAY_NODISCARD
#define INLAY_PRINTF(fmt, args)
#endif

/* The single list of status codes. It generates the enum and inlay_status_text(). A number never changes its meaning.
 */
#define INLAY_STATUS_LIST(X)                                                                                           \
    X(0, OK, "ok")                                                                                                     \
    X(1, INVALID_ARGUMENT, "invalid argument")                                                                         \
    X(2, OUT_OF_MEMORY, "out of memory")                                                                               \
    X(3, NOT_FOUND, "not found")                                                                                       \
    X(4, UNSUPPORTED, "unsupported")                                                                                   \
    X(5, INVALID_MODEL, "invalid model")                                                                               \
    X(6, IO_ERROR, "input/output error")                                                                               \
    X(7, LIMIT_EXCEEDED, "limit exceeded")                                                                             \
    X(8, SHAPE_MISMATCH, "wrong shape")                                                                                \
    X(9, CANCELLED, "cancelled")                                                                                       \
    X(10, DEADLINE_EXCEEDED, "deadline exceeded")                                                                      \
    X(11, DEVICE_LOST, "device lost")                                                                                  \
    X(12, BUSY, "busy")                                                                                                \
    X(13, INTERNAL, "internal error")                                                                                  \
    X(14, RESULTS_DIFFER, "results differ")

typedef int32_t inlay_status;
enum {
#define INLAY_STATUS_ENUM(number, name, text) INLAY_##name = number,
    INLAY_STATUS_LIST(INLAY_STATUS_ENUM)
#undef INLAY_STATUS_ENUM
};

/* How a caller can react to a failure. */
enum {
    INLAY_CLASS_PERMANENT = 0,   /* the same call will fail again */
    INLAY_CLASS_RETRY = 1,       /* the same call may succeed later */
    INLAY_CLASS_DEVICE_LOST = 2, /* the provider must be closed and opened again */
    INLAY_CLASS_MEMORY = 3,      /* succeeds with more memory, or a smaller batch */
    INLAY_CLASS_SHAPE = 4        /* succeeds with other input shapes */
};

/* A description of a failure, owned by the caller. Set struct_size (INLAY_DIAG_INIT does) and pass it to any number of
 * calls. A failing call overwrites it; a successful call leaves it unchanged. All texts are NUL-terminated and
 * truncated to fit. Not for use by two threads at once. */
typedef struct inlay_diag {
    uint64_t struct_size;
    inlay_status code;    /* the status that the failing call returned */
    uint32_t error_class; /* INLAY_CLASS_* */
    char text[512];       /* one line: the problem, its place and the fix */
    char node[128];       /* name of the node concerned, or empty */
    char tensor[128];     /* name of the tensor concerned, or empty */
} inlay_diag;

#define INLAY_DIAG_INIT                                                                                                \
    {                                                                                                                  \
        sizeof(inlay_diag), INLAY_OK, INLAY_CLASS_PERMANENT, "", "", ""                                                \
    }

/* Returns a short English name of the code, for instance "invalid model"; "unknown status" for any other number. */
static inline const char *inlay_status_text(inlay_status status)
{
    switch (status) {
#define INLAY_STATUS_CASE(number, name, text)                                                                          \
    case number:                                                                                                       \
        return text;
        INLAY_STATUS_LIST(INLAY_STATUS_CASE)
#undef INLAY_STATUS_CASE
    default:
        return "unknown status";
    }
}

/* Returns the default INLAY_CLASS_* of a code. */
static inline uint32_t inlay_status_class(inlay_status status)
{
    switch (status) {
    case INLAY_OUT_OF_MEMORY:
        return INLAY_CLASS_MEMORY;
    case INLAY_SHAPE_MISMATCH:
        return INLAY_CLASS_SHAPE;
    case INLAY_DEVICE_LOST:
        return INLAY_CLASS_DEVICE_LOST;
    case INLAY_BUSY:
    case INLAY_CANCELLED:
    case INLAY_DEADLINE_EXCEEDED:
        return INLAY_CLASS_RETRY;
    default:
        return INLAY_CLASS_PERMANENT;
    }
}

/* Fills diag (may be NULL) and returns code, so that reporting a failure takes one statement:
 *     return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "axis %d is outside [-%d, %d]", axis, rank, rank - 1);
 * It clears diag->node and diag->tensor and derives diag->error_class from code. It is inline because plugins do not
 * link against inlay. */
INLAY_PRINTF(3, 4)
static inline inlay_status inlay_fail(inlay_diag *diag, inlay_status code, const char *format, ...)
{
    if (diag != NULL && diag->struct_size >= offsetof(inlay_diag, tensor) + sizeof diag->tensor) {
        va_list args;
        diag->code = code;
        diag->error_class = inlay_status_class(code);
        diag->node[0] = '\0';
        diag->tensor[0] = '\0';
        va_start(args, format);
        (void)vsnprintf(diag->text, sizeof diag->text, format, args);
        va_end(args);
        /* Names come from untrusted files: keep the message on one line and drop terminal control characters. */
        for (char *c = diag->text; *c != '\0'; c++)
            if ((unsigned char)*c < ' ' || *c == 0x7f)
                *c = '?';
    }
    return code;
}

/* The only control-flow macro of inlay: evaluates a call and jumps to the function's single exit when the call fails.
 * Requires a local `inlay_status status` and a label `done:`. */
#define INLAY_TRY(call)                                                                                                \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != INLAY_OK)                                                                                        \
            goto done;                                                                                                 \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
