/* remote/shared.h - the memory that a host shares with the process of an isolated provider, and the calls in it.
 *
 * There are two memfds. Both processes map each at the same address, so pointers into them are valid in both:
 *
 *     arguments   graphs, constants, requests and input tensors. Only the host can write them, so a provider that
 *                 writes outside of its buffers cannot damage what the process reads after it has been started again
 *     results     channels, outboxes, output tensors. Both write them. The host allocates them, and copies what the
 *                 process has written before it checks and uses it, because the process may change it at any time
 *
 * A channel carries one call at a time. Its word `state` is a futex:
 *
 *     IDLE -> REQUEST            the host has written a call
 *     REQUEST -> CALLBACK        the process needs something from the host in the middle of the call
 *     CALLBACK -> REQUEST        the host has answered
 *     REQUEST -> IDLE            the call has returned
 *
 * A side that sleeps first adds ISOLATE_SLEEPS to the state, so that the other side makes a system call only to wake
 * it. */
#ifndef ISOLATE_SHARED_H
#define ISOLATE_SHARED_H
#include "inlay/extensions.h"
#include "inlay/plugin.h"
#include <stdalign.h>
#include <stdbool.h>
#include <string.h>

/* Descriptors of the process. Its arguments are "--serve-provider", then in hexadecimal: address and size of the
 * results and of the arguments, and the size of isolate_header, which differs between builds with different layouts. */
enum { ISOLATE_SOCKET_FD = 3, ISOLATE_RESULTS_FD = 4, ISOLATE_ARGUMENTS_FD = 5, ISOLATE_FILE_FD = 6 };
/* Exit codes of the process in addition to those of the provider. */
enum { ISOLATE_EXIT_MAPPING = 71 /* an address is in use */, ISOLATE_EXIT_LAYOUT = 72 /* another layout */ };

enum { ISOLATE_CHANNELS = 16, ISOLATE_OUTBOX_BYTES = 1 << 20 };

/* States of a channel. */
enum { ISOLATE_IDLE = 0, ISOLATE_REQUEST = 1, ISOLATE_CALLBACK = 2, ISOLATE_SLEEPS = 1 << 30 };

/* Calls. */
enum {
    ISOLATE_DESCRIBE = 1, /* load the file, write the description of the plug-in to the outbox */
    ISOLATE_CREATE,       /* load the file, open a provider, enter the sandbox */
    ISOLATE_ASSESS,
    ISOLATE_COST,
    ISOLATE_COST_REGION,
    ISOLATE_COMPILE,
    ISOLATE_RELEASE_COMPILED,
    ISOLATE_SPECIALIZE,
    ISOLATE_RELEASE_INSTANCE,
    ISOLATE_EXECUTE
};

/* Callbacks. */
enum {
    ISOLATE_FLUSH = 1,    /* read the outbox, which is full */
    ISOLATE_OUTPUT_ALLOC, /* inlay_host.output_alloc */
    ISOLATE_LOG           /* inlay_host.log */
};

typedef struct isolate_callback {
    uint32_t kind;   /* ISOLATE_FLUSH ... */
    uint32_t output; /* OUTPUT_ALLOC */
    uint32_t rank;
    uint32_t level; /* LOG */
    int64_t dims[INLAY_MAX_RANK];
    char text[500]; /* LOG */
    /* the host's answer */
    inlay_status status;
    inlay_buffer buffer; /* OUTPUT_ALLOC */
} isolate_callback;

/* Arguments of DESCRIBE and CREATE. */
typedef struct isolate_start {
    char path[4096];
    uint32_t provider; /* its index in the plug-in */
    uint32_t option_count;
    const inlay_option_value *options; /* [option_count] */
    uint32_t max_threads;
    uint32_t reserved;
} isolate_start;

/* Arguments of COMPILE. Functions and pointers that the process cannot use are NULL. request.constants is in the
 * results. */
typedef struct isolate_compile {
    inlay_compile_request request;
} isolate_compile;

/* Arguments of SPECIALIZE. request.outputs is in the results. */
typedef struct isolate_specialize {
    inlay_specialize_request request;
    uint64_t compiled;
} isolate_specialize;

/* Arguments of RELEASE_COMPILED and RELEASE_INSTANCE. */
typedef struct isolate_release {
    uint64_t compiled, instance;
} isolate_release;

/* Arguments of EXECUTE. args.outputs and their dims are in the results. run, cancel, diag, workspace and binding are
 * set by the process. */
typedef struct isolate_execute {
    inlay_exec_args args;
    uint64_t compiled, instance;
    uint64_t workspace_bytes, workspace_alignment;
    uint32_t max_threads;
    uint32_t reserved;
} isolate_execute;

/* What a call returns besides status, message and outbox. */
typedef union isolate_result {
    struct { /* of CREATE: extensions of the provider that have no functions */
        uint32_t has_weights, has_integers;
        uint32_t packed_products, fast_products;
    } create;
    inlay_cost cost;
    struct {
        uint64_t compiled, resident_bytes;
    } compile;
    struct {
        uint64_t instance, workspace_bytes, workspace_alignment;
    } specialize;
} isolate_result;

typedef struct isolate_channel {
    alignas(64) uint32_t state;
    uint32_t call;       /* ISOLATE_DESCRIBE ... */
    uint32_t stop;       /* atomic: the inlay_status that poll returns; 0 = continue */
    uint32_t spins;      /* polls of `state` before a side sleeps; 0 while both are on one CPU */
    int host_cpu;        /* the CPU of the calling thread */
    int cpu;             /* the CPU of the serving thread at the end of its last call */
    const void *request; /* arguments of the call: a struct above, or the request struct of plugin.h */
    uint64_t ticket;     /* number of the call */
    char *outbox;        /* [ISOLATE_OUTBOX_BYTES] or NULL: the call writes no records */
    /* written by the process */
    uint64_t receipt; /* ~ticket after the call: shows that not just any write has set the state to IDLE */
    uint32_t outbox_bytes;
    inlay_status status;
    isolate_result result;
    inlay_diag diag;
    isolate_callback callback;
} isolate_channel;

/* The first bytes of the results. */
typedef struct isolate_header {
    /* Written by the process if an allocation fails: its size, and the limit (RLIMIT_DATA) of the process. */
    uint64_t failed_bytes, failed_limit;
    isolate_channel channels[ISOLATE_CHANNELS];
} isolate_header;

/* Records in an outbox.
 *
 * Numbers and texts without alignment. A reader that runs out of bytes reads zeros and sets failed. */

typedef struct isolate_writer {
    char *at, *end;
    bool failed;
} isolate_writer;

typedef struct isolate_reader {
    const char *at, *end;
    bool failed;
} isolate_reader;

static inline void isolate_put(isolate_writer *writer, const void *data, size_t bytes)
{
    if (writer->failed || (size_t)(writer->end - writer->at) < bytes) {
        writer->failed = true;
        return;
    }
    if (bytes > 0)
        memcpy(writer->at, data, bytes);
    writer->at += bytes;
}

static inline void isolate_put_u64(isolate_writer *writer, uint64_t value)
{
    isolate_put(writer, &value, sizeof value);
}

/* text may be NULL. */
static inline void isolate_put_text(isolate_writer *writer, const char *text)
{
    isolate_put_u64(writer, text != NULL ? strlen(text) + 1 : 0);
    if (text != NULL)
        isolate_put(writer, text, strlen(text) + 1);
}

/* Returns the next `bytes` bytes; NULL: fewer are left. */
static inline const void *isolate_get(isolate_reader *reader, uint64_t bytes)
{
    const char *data = reader->at;

    if (reader->failed || (uint64_t)(reader->end - reader->at) < bytes) {
        reader->failed = true;
        return NULL;
    }
    reader->at += bytes;
    return data;
}

static inline uint64_t isolate_get_u64(isolate_reader *reader)
{
    const void *data = isolate_get(reader, sizeof(uint64_t));
    uint64_t value = 0;

    if (data != NULL)
        memcpy(&value, data, sizeof value);
    return value;
}

/* Returns a text, which lives as long as the buffer of the reader; NULL: none, or failed is set. */
static inline const char *isolate_get_text(isolate_reader *reader)
{
    const uint64_t bytes = isolate_get_u64(reader);
    const char *text = bytes > 0 ? isolate_get(reader, bytes) : NULL;

    if (text != NULL && text[bytes - 1] != '\0') {
        reader->failed = true;
        return NULL;
    }
    return text;
}

/* Replaces the state, and wakes the other side if it sleeps. */
void isolate_set_state(isolate_channel *channel, uint32_t state);
/* Waits until the state differs from `old`: polls it `spins` times, then sleeps for at most limit_ns (0 = no limit).
 * Returns the state without ISOLATE_SLEEPS, which is `old` if the time has passed. */
uint32_t isolate_wait_state(isolate_channel *channel, uint32_t old, uint32_t spins, uint64_t limit_ns);
#endif
