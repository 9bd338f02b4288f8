/* inlay/status.h - how every function of inlay reports failure.
 *
 * A function returns an inlay_status by value and writes the sentence into an inlay_diag that the caller owns. Nothing
 * is allocated while failing, nothing has to be freed afterwards, and nothing unwinds across a module boundary.
 *
 *     inlay_diag diag = INLAY_DIAG_INIT;
 *     if (inlay_session_create(path, options, &session, &diag) != INLAY_OK)
 *         fprintf(stderr, "%s\n", diag.text);
 *
 * The codes and the layout of inlay_diag are ABI: they are only appended to. */
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

/* One list makes the enum and the texts of inlay_status_text(). A number never changes its meaning. */
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
    X(13, INTERNAL, "internal error")

typedef int32_t inlay_status;
enum {
#define INLAY_STATUS_ENUM(number, name, text) INLAY_##name = number,
    INLAY_STATUS_LIST(INLAY_STATUS_ENUM)
#undef INLAY_STATUS_ENUM
};

/* What a caller can do about a failure. */
enum {
    INLAY_CLASS_PERMANENT = 0,   /* the same call will fail again */
    INLAY_CLASS_RETRY = 1,       /* the same call may succeed later */
    INLAY_CLASS_DEVICE_LOST = 2, /* the provider must be closed and opened again */
    INLAY_CLASS_MEMORY = 3,      /* succeeds with more memory, or a smaller batch */
    INLAY_CLASS_SHAPE = 4        /* succeeds with other input shapes */
};

/* A failure in words, owned by the caller. Set struct_size (INLAY_DIAG_INIT does) and pass it to any number of calls;
 * a failing call overwrites it, a succeeding call leaves it alone. All texts end in NUL and are cut to fit. */
typedef struct inlay_diag {
    uint64_t struct_size;
    inlay_status code;    /* what the failing call returned */
    uint32_t error_class; /* INLAY_CLASS_* */
    char text[512];       /* one line: what is wrong, where, and how to fix it */
    char node[128];       /* the node concerned, or empty */
    char tensor[128];     /* the tensor concerned, or empty */
} inlay_diag;

#define INLAY_DIAG_INIT                                                                                                \
    {                                                                                                                  \
        sizeof(inlay_diag), INLAY_OK, INLAY_CLASS_PERMANENT, "", "", ""                                                \
    }

/* A short English name of the code, for instance "invalid model"; "unknown status" for other numbers. */
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

/* The class that belongs to a code when nothing more is known. */
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

/* Fills diag (may be NULL) and returns code, so that a failure is one statement:
 *     return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "axis %d is outside [-%d, %d]", axis, rank, rank - 1);
 * It is inline because plugins link to nothing of ours. */
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
        /* Names come from files: a message stays one line, and no terminal obeys it. */
        for (char *c = diag->text; *c != '\0'; c++)
            if ((unsigned char)*c < ' ' || *c == 0x7f)
                *c = '?';
    }
    return code;
}

/* The only control-flow macro of inlay: runs a call and leaves through the function's single exit when it fails.
 * Expects a local `inlay_status status` and a label `done:`. */
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
