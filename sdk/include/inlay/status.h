/* inlay/status.h - how every function of inlay reports failure.
 *
 * A function that can fail returns an inlay_status by value. If it fails, it writes a message into an inlay_diag that
 * the caller owns. The report of a failure allocates no memory, leaves nothing to free, and never unwinds across a
 * module boundary.
 *
 *     inlay_diag diag = INLAY_DIAG_INIT;
 *     if (inlay_session_create(path, options, &session, &diag) != INLAY_OK)
 *         fprintf(stderr, "%s\n", diag.text);
 *
 * The codes, the classes and the layout of inlay_diag are part of the ABI. Codes and classes are added, existing ones
 * never change: treat an unknown code as INLAY_INTERNAL, and an unknown class as INLAY_CLASS_DEFAULT. The fields of
 * inlay_diag up to `tensor` are the same in every major version. */
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
 *     OK                 the call succeeded
 *     INVALID_ARGUMENT   an argument or the value of an option is invalid, or the call is not valid in this state
 *     OUT_OF_MEMORY      host memory or device memory could not be allocated
 *     NOT_FOUND          there is no such file, name or index
 *     UNSUPPORTED        a valid request that the library, a provider or a device does not support
 *     INVALID_MODEL      the model file is damaged or violates ONNX
 *     IO_ERROR           a file could not be read or written
 *     LIMIT_EXCEEDED     a fixed limit, or a limit that an option sets
 *     SHAPE_MISMATCH     a value has a shape or type that the model cannot process, or does not fit its buffer
 *     CANCELLED          the caller stopped the call
 *     DEADLINE_EXCEEDED  the caller's time limit has passed
 *     DEVICE_LOST        the device failed, or does not respond within its time limit
 *     BUSY               work in progress prevents the call, or has not ended yet
 *     INTERNAL           a fault of the library or of a plugin
 *     RESULTS_DIFFER     results are wrong: a tool's comparison failed, or option check_finite found NaN or infinity */
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
    /* No class is stated: the class of the status, inlay_status_class(), applies. A plugin may use this number, which
     * the host replaces by that class; a failed function of inlay.h never reports it. */
    INLAY_CLASS_DEFAULT = 0,
    INLAY_CLASS_RETRY = 1,       /* the same call may succeed later */
    INLAY_CLASS_DEVICE_LOST = 2, /* a new session, which opens the device again, may succeed */
    INLAY_CLASS_MEMORY = 3,      /* may succeed with more memory, a higher memory limit or a smaller batch */
    INLAY_CLASS_SHAPE = 4,       /* may succeed with other input shapes */
    INLAY_CLASS_PERMANENT = 5    /* the same call will fail again */
};

/* A description of a failure, owned by the caller. Set struct_size (INLAY_DIAG_INIT does) and pass it to any number of
 * calls. A failing call overwrites it; a successful call leaves it unchanged. All texts are NUL-terminated and
 * truncated to fit. A struct_size that does not reach the end of `tensor` leaves the whole struct unchanged. One thread
 * at a time may use an inlay_diag. */
typedef struct inlay_diag {
    uint64_t struct_size;
    inlay_status code;    /* the status that the failing call returned */
    uint32_t error_class; /* INLAY_CLASS_*; may differ from inlay_status_class(code) */
    char text[512];       /* one line: the problem, its place and the fix */
    char node[128];       /* name of the node concerned, or empty */
    char tensor[128];     /* name of the tensor concerned, or empty */
} inlay_diag;

#define INLAY_DIAG_INIT                                                                                                \
    {                                                                                                                  \
        sizeof(inlay_diag), INLAY_OK, INLAY_CLASS_DEFAULT, "", "", ""                                                  \
    }

/* Returns a short English name of the code, for instance "invalid model"; "unknown status" if it is not a code. Static
 * text. */
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

/* Returns the default INLAY_CLASS_* of a code; INLAY_CLASS_PERMANENT for INLAY_OK and unknown numbers. */
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

/* Fills diag (may be NULL) and returns code, so that one statement reports a failure:
 *     return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "axis %d is outside [-%d, %d]", axis, rank, rank - 1);
 * It clears diag->node and diag->tensor, derives diag->error_class from code, and replaces each control character of
 * the message by '?'. It is inline because plugins do not link against inlay. */
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

/* Evaluates a call and jumps to the label `done` if it fails. Needs a variable `inlay_status status`, which gets the
 * result. Only ORT_TRY and ORT_NEED, in the bindings to ONNX Runtime, are other macros that leave a function. */
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
