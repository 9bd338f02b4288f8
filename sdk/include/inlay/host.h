/* inlay/host.h - the functions that the host provides to plugins.
 *
 * Part of the plugin ABI: terms and rules of inlay/plugin.h apply. */
#ifndef INLAY_HOST_H
#define INLAY_HOST_H
#include "inlay/types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { INLAY_LOG_ERROR = 0, INLAY_LOG_WARNING = 1, INLAY_LOG_INFO = 2, INLAY_LOG_DEBUG = 3 };

/* A callback for a fence. The struct is the provider's memory and must stay at its address until `reached` is called or
 * fence_forget has withdrawn it. */
typedef struct inlay_fence_notice {
    uint64_t struct_size;
    inlay_fence fence;
    /* The fence was reached (INLAY_OK, why is NULL) or failed (status and why, borrowed for the call). If the host
     * destroys the timeline while the notice is pending, status is INLAY_CANCELLED. Called once, from the thread that
     * signals or within fence_notify. It must return at once and may call only fence_signal, fence_query and
     * fence_notify of the host. From here on the notice may be freed or reused. */
    void (*reached)(void *user, inlay_status status, const inlay_diag *why);
    void *user;           /* first argument of reached */
    uint64_t host_use[3]; /* for the host, while the notice is pending */
} inlay_fence_notice;

/* Arguments of output_alloc. */
typedef struct inlay_output_request {
    uint64_t struct_size;
    const int64_t *dims; /* [rank], each at least 0; copied. May be NULL if rank is 0 */
    uint32_t output;     /* index of the output in the compile request's outputs */
    uint32_t rank;       /* at most INLAY_MAX_RANK */
} inlay_output_request;

/* The functions that the host provides: one table for the whole lifetime of the plugin. Any thread may call them unless
 * the comment says otherwise. run is inlay_exec_args.run or inlay_copy_request.run of the run that the call belongs
 * to. */
typedef struct inlay_host {
    uint64_t struct_size;
    uint32_t abi_major; /* ABI of the host; a plugin that needs another major returns INLAY_UNSUPPORTED from open */
    uint32_t abi_minor;
    uint32_t abi_major_oldest; /* oldest major of plugins that the host loads */
    uint32_t reserved;
    void *ctx; /* first argument of all functions below */

    /* Writes a line to the application's log; level is INLAY_LOG_*. */
    void (*log)(void *ctx, uint32_t level, const char *text);

    /* Runs fn over [0, count) on the process's thread pool, in ranges of at least grain iterations, and returns when
     * all are done. The calling thread takes part; fn waits for no other worker. A loop with count <= grain runs on the
     * calling thread alone; so does one within another loop or an OpenMP region of the application. OpenMP regions of
     * fn have one thread. count <= 0: fn is not called. run limits the number of threads and, if it is cancelled, ends
     * the loop; outside of a run it is NULL. Returns the first status of fn other than INLAY_OK, or that of poll. */
    inlay_status (*parallel_for)(void *ctx, inlay_run *run, int64_t count, int64_t grain, inlay_parallel_fn fn,
                                 void *user);
    /* Returns the maximum number of workers that parallel_for uses in this run; run NULL: the maximum of the process,
     * or of the session that is compiling on this thread. */
    uint32_t (*thread_count)(void *ctx, inlay_run *run);

    /* Allocates the output of a running region whose shape was not known before (INLAY_OUTPUT_ALLOCATED). Only until
     * execute returns, and for one run by one thread at a time. Fills *out with memory in the provider's default domain
     * (the host may call buffer_alloc within this call, so hold no lock that buffer_alloc takes); the host keeps it as
     * long as the output is needed. A second call for the same output replaces the first. INLAY_INVALID_ARGUMENT: the
     * output is not of kind ALLOCATED, or its dims are invalid. INLAY_OUT_OF_MEMORY, INLAY_LIMIT_EXCEEDED: there is no
     * memory, or the user's limit forbids it; return the status from execute. */
    inlay_status (*output_alloc)(void *ctx, inlay_run *run, const inlay_output_request *request, inlay_buffer *out);
    /* Allocates the bytes of string elements of an output; they live as long as the outputs of the run. Not cleared.
     * NULL: out of memory. An element may also point to bytes of an element of an input or of a constant, or to memory
     * of the region that stays unchanged until release_compiled; never to memory that a later call overwrites. */
    char *(*string_alloc)(void *ctx, inlay_run *run, uint64_t bytes);

    /* Returns INLAY_OK, INLAY_CANCELLED or INLAY_DEADLINE_EXCEEDED; run NULL: INLAY_OK. Cheap. Call it so often that a
     * cancelled run ends within the provider's poll_ms. */
    inlay_status (*poll)(void *ctx, inlay_run *run);

    /* Fences. fence_signal raises the counter of the timeline to value (never lowers it) and wakes waiters. A status
     * other than INLAY_OK marks the timeline as failed: whatever fence.value is, all values that are not reached at
     * this moment never will be, and waiters get that status and why (may be NULL; copied). The first failure counts,
     * and later signals of the timeline have no effect. fence_wait blocks until the fence is reached (INLAY_OK) or has
     * failed (its status), or until the run is cancelled or late (INLAY_CANCELLED, INLAY_DEADLINE_EXCEEDED); run NULL:
     * not cancellable. */
    void (*fence_signal)(void *ctx, inlay_fence fence, inlay_status status, const inlay_diag *why);
    inlay_status (*fence_wait)(void *ctx, inlay_run *run, inlay_fence fence, inlay_diag *diag);

    /* Returns the data of a constant at an address that is a multiple of alignment (a power of two, at most 4096),
     * valid for the lifetime of the region being compiled. The host copies the data only if the file does not align it,
     * at most once for each constant. compile is the handle of the current inlay_compile_request or
     * inlay_specialize_request; valid only during that call, but on any thread. NULL: out of memory, value is not a
     * constant, or alignment is not as stated. */
    const void *(*align_constant)(void *ctx, void *compile, uint32_t value, uint32_t alignment);

    /* Returns a table of optional functions by its name (INLAY_EXT_* in inlay/extensions.h), or NULL if this host does
     * not provide it. The table lives as long as the host. */
    const void *(*extension)(void *ctx, const char *name);

    /* Asynchronous waiting. fence_notify calls notice->reached as soon as the fence is reached or has failed, whichever
     * module signals it; it allocates nothing and cannot fail. A notice waits for one fence at a time. fence_forget
     * withdraws a notice that waits: 1 = it will not be called; 0 = it was called, or another thread is about to call
     * it, so that the notice must stay in memory until `reached` begins. fence_query: 1 = the fence is reached or has
     * failed, and *out_status (may be NULL) says which; 0 = neither. */
    void (*fence_notify)(void *ctx, inlay_fence_notice *notice);
    uint32_t (*fence_forget)(void *ctx, inlay_fence_notice *notice);
    uint32_t (*fence_query)(void *ctx, inlay_fence fence, inlay_status *out_status);
} inlay_host;

#ifdef __cplusplus
}
#endif
#endif
