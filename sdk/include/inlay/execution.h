/* inlay/execution.h - what the kernels of a provider work with: the functions of the host, prices, reasons of refusals,
 * and the arguments of a run.
 *
 * Part of the plugin ABI: terms and rules of inlay/plugin.h apply. */
#ifndef INLAY_EXECUTION_H
#define INLAY_EXECUTION_H
#include "inlay/graph_view.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Functions of the host.
 *
 * One table for the whole lifetime of the plugin. */

typedef struct inlay_run inlay_run; /* one execution in progress; opaque */

enum { INLAY_LOG_ERROR = 0, INLAY_LOG_WARNING = 1, INLAY_LOG_INFO = 2, INLAY_LOG_DEBUG = 3 };

/* Body of a parallel loop: processes the iterations [begin, end). worker identifies one of the loop's threads: calls
 * that run at the same time have different numbers, below thread_count(run), where run is the run that the loop belongs
 * to. thread_count(run) never exceeds inlay_specialize_request.max_threads: allocate scratch memory for that number of
 * workers. A status other than INLAY_OK stops the distribution of further ranges; the loop returns it. */
typedef inlay_status (*inlay_parallel_fn)(void *user, int64_t begin, int64_t end, uint32_t worker);

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

/* The functions that the host provides. Any thread may call them unless the comment says otherwise. run is
 * inlay_exec_args.run or inlay_copy_request.run of the run that the call belongs to. */
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

/* Reasons of refusals. `inlay explain` shows the text of each refusal, but only counts those with INLAY_REFUSE_OPERATOR
 * unless --all is given: a provider that supports the operator elsewhere states another reason. */
enum {
    INLAY_REFUSE_OPERATOR = 1,  /* the provider does not support the operator at all */
    INLAY_REFUSE_VERSION = 2,   /* the provider supports the operator, but not this since_version */
    INLAY_REFUSE_DTYPE = 3,     /* because of an element type */
    INLAY_REFUSE_SHAPE = 4,     /* because of a rank, a size, or a shape that is not known */
    INLAY_REFUSE_ATTRIBUTE = 5, /* because of the value of an attribute */
    INLAY_REFUSE_DEVICE = 6,    /* the device lacks a feature */
    INLAY_REFUSE_MEMORY = 7,    /* the device lacks memory */
    INLAY_REFUSE_OPTION = 8,    /* an option of the user excludes it */
    INLAY_REFUSE_LATE = 9,      /* set by the host: compile or specialize declined the offer */
    INLAY_REFUSE_PATTERN = 10   /* because of its neighbours: it runs only together with nodes that are not there */
};

/* Origin of a cost: a rough guess, a model of the kernel's time, or a measurement. */
enum { INLAY_CONFIDENCE_GUESS = 0, INLAY_CONFIDENCE_MODEL = 1, INLAY_CONFIDENCE_MEASURED = 2 };

/* The estimated cost of an offer. If ns is negative, infinite or NaN, or if the function fails, the offer has no cost
 * and is used only for nodes without another offer; such values of enter_ns and leave_ns count as 0. All times count
 * for each provider, whatever its memory domain; the host prices copies to and from a domain. */
typedef struct inlay_cost {
    uint64_t struct_size;
    double ns;    /* required: expected time of one run in nanoseconds, without copies to and from other domains */
    double flops; /* operations on floats or integers; up to 2 per byte, 0 too, the memory limits the node's speed */
    uint64_t bytes_read;    /* bytes read from memory if the caches are cold */
    uint64_t bytes_written; /* bytes written to memory */
    uint32_t confidence;    /* INLAY_CONFIDENCE_* */
    uint32_t reserved;
    /* For an offer that merges, ns is its time inside a region together with its neighbours. enter_ns is the additional
     * time if its inputs enter the region at this offer, leave_ns the additional time if its outputs leave the region;
     * mostly changes of layout. If only some of its values do, each counts by its share of the bytes. A value that
     * several offers read enters the regions of the provider once, at the highest price. For an offer that does not
     * merge, both are added to ns. */
    double enter_ns;
    double leave_ns;
    /* Since 1.1. For a provider with INLAY_PROVIDER_REFERENCE_CORE: the expected time on this machine's kind of CPU, as
     * INLAY_EXT_SPEED in extensions.h describes it. The host uses it instead of ns. 0: not known; the host scales
     * ns. */
    double local_ns;
} inlay_cost;

/* A value at concrete shapes, during planning. Arrays of these are parallel to inlay_graph.values. All pointers are
 * borrowed for the call. */
typedef struct inlay_value_state {
    const int64_t *dims; /* [rank]; -1 = known only after execution; NULL if rank is unknown */
    const void *data;    /* elements in host memory, aligned, if known before the run; otherwise NULL */
    uint64_t data_bytes; /* size of data */
    uint32_t rank;       /* or INLAY_RANK_UNKNOWN */
    inlay_dtype dtype;
} inlay_value_state;

/* Memory domain of a value at the boundary of an offer. Values without a placement are in the provider's default
 * domain, inlay_provider.default_domain. The ids of a provider's domains begin at inlay_create_args.first_domain.
 * Several placements of one value are alternatives, best first. Place STRING values in INLAY_DOMAIN_HOST, because their
 * elements are pointers into host memory. Every boundary is dense row-major.
 *
 * dtype requests another element type than the model's, of at least 8 bits and not STRING. The host uses such a
 * placement only between regions of one provider, in one of that provider's domains, if the region that writes the
 * value and all regions that read it request the same dtype, the value is not an output of the graph, and its shape
 * does not depend on data. Otherwise it ignores the placement, so the provider must also accept the value with the
 * model's type: by another placement without dtype, or by default. inlay_compile_request.placements holds the result,
 * and inlay_tensor_arg.dtype of a run has that type. The dims of the value, and dtype of inlay_value_info and
 * inlay_value_state, remain those of the model. */
typedef struct inlay_placement {
    uint32_t value;    /* index of the value in the graph */
    uint32_t domain;   /* INLAY_DOMAIN_HOST, or a domain id of this provider */
    inlay_dtype dtype; /* element type between two regions; INLAY_UNDEFINED = the model's */
    uint32_t reserved;
} inlay_placement;

/* What compile did with a constant. */
enum {
    INLAY_CONST_BORROWED = 0, /* execute reads the host's data: the host must keep it (the default) */
    INLAY_CONST_COPIED = 1,   /* the provider has a copy: the host may release the original */
    INLAY_CONST_PACKED = 2    /* the provider has a copy in its own layout: the host may release the original */
};

/* A compiled region; the provider defines the type. All shapes and threads share it. */
typedef struct inlay_compiled inlay_compiled;
/* A compiled region at concrete shapes; the provider defines the type. Immutable. */
typedef struct inlay_instance inlay_instance;

/* How the buffer of an output is provided. */
enum {
    INLAY_OUTPUT_KNOWN = 0,    /* the host inferred the shape and provides the buffer */
    INLAY_OUTPUT_BOUNDED = 1,  /* at most max_bytes: the host provides a buffer of that size, execute sets the shape */
    INLAY_OUTPUT_ALLOCATED = 2 /* execute calls inlay_host.output_alloc */
};
/* The buffer of an output of a region. When execute returns, the dims of BOUNDED and ALLOCATED outputs are valid, also
 * in asynchronous providers, which must wait for the data that determines them. Only the elements may become valid
 * later, with the signal. An output whose shape the host cannot infer must not be KNOWN: the run then fails. */
typedef struct inlay_output_plan {
    uint64_t max_bytes; /* BOUNDED: size of the buffer */
    uint32_t kind;      /* INLAY_OUTPUT_* */
    /* index of the input (in the request's inputs) whose buffer the output may share, so that execute works in place;
     * INLAY_NONE = none. The host lets input and output share a buffer only where this is possible, so execute must
     * support both cases */
    uint32_t alias;
} inlay_output_plan;

/* Arguments of specialize. In: shapes; the dims of the region's inputs are all known. Out: the memory that a run needs.
 */
typedef struct inlay_specialize_request {
    uint64_t struct_size;
    const inlay_value_state *values; /* [graph->value_count] in the order of the compile request's graph */
    uint32_t value_count;
    uint32_t value_stride;
    uint32_t max_threads; /* workers that a run may use */
    uint32_t reserved;
    uint64_t workspace_bytes; /* out: workspace in the provider's default domain, in bytes; initially 0 */
    /* out: in bytes, a power of two up to 2 MiB; initially 64. In host memory the address of the workspace is a
     * multiple of this number. In a domain of the provider the offset of the workspace is a multiple of this number and
     * of the domain's alignment, and inlay_alloc_request.alignment of its buffer was at least the larger of the two; so
     * the device sees an aligned address if buffer_alloc aligns as requested */
    uint64_t workspace_alignment;
    inlay_output_plan *outputs; /* out: [output_count], initially KNOWN without alias */
    uint32_t output_count;
    uint32_t output_stride; /* size of an element of outputs in bytes */
    /* [input_count of the region], or NULL. An entry other than 0: the input is an in-place state (INLAY_EXT_STATES in
     * extensions.h), and its buffer has capacity for this number of elements along the state's axis; the output that
     * extends the state has the same buffer. */
    const uint64_t *rooms;

    /* As in inlay_compile_request, for providers that build their engines for concrete shapes. The key of a blob is the
     * key of the region together with the shapes of its values, the known elements, and rooms. cache_blob stays until
     * release_instance. poll also ends the call if the run that needs these shapes is cancelled or late. */
    void *handle; /* for inlay_host.align_constant */
    const void *cache_blob;
    uint64_t cache_bytes;
    void *ctx;
    inlay_status (*store_begin)(void *ctx, uint64_t bytes);
    inlay_status (*store_write)(void *ctx, const void *data, uint64_t bytes);
    inlay_status (*store_end)(void *ctx);
    void (*progress)(void *ctx, double fraction, const char *what);
    inlay_status (*poll)(void *ctx);
} inlay_specialize_request;

/* A tensor of a run. In host memory it is aligned to 64 bytes if the host allocated it. If the user did, it is aligned
 * to the element size, but to no more than 8 bytes (COMPLEX64: 4). Tensors without elements also have a handle other
 * than 0, except outputs of kind ALLOCATED. */
typedef struct inlay_tensor_arg {
    inlay_buffer buffer; /* handle 0 for an output of kind ALLOCATED */
    /* [rank]; execute writes those of BOUNDED outputs, which have room for INLAY_MAX_RANK; otherwise read-only. Neither
     * dims nor rank has a meaning for an output of kind ALLOCATED */
    int64_t *dims;
    uint32_t rank; /* of a BOUNDED output whose rank is not known before execute: 0, and execute sets it */
    inlay_dtype dtype;
} inlay_tensor_arg;

/* The provider's objects for one context, see inlay_provider.bind; the provider defines the type. */
typedef struct inlay_binding inlay_binding;

/* Arguments of execute. Borrowed for the call, except run, cancel, binding and the memory of the buffers, which stay
 * valid until signal is reached or has failed. So a provider signals, also a failure, only when the device no longer
 * accesses any of these. For a provider without INLAY_PROVIDER_ASYNC the host waits itself before the call: wait_count
 * is 0, and signal is a fence that is always reached. */
typedef struct inlay_exec_args {
    uint64_t struct_size;
    inlay_run *run;            /* never NULL */
    inlay_tensor_arg *inputs;  /* [input_count] in the order of the compile request */
    inlay_tensor_arg *outputs; /* [output_count] likewise */
    uint32_t input_count;
    uint32_t output_count;
    uint32_t arg_stride;    /* size of an element of inputs and outputs in bytes */
    uint32_t wait_count;    /* of waits */
    inlay_buffer workspace; /* as specialize requested it; not cleared */
    /* never NULL. *cancel other than 0: the run has to stop; read it atomically, or call inlay_host.poll */
    const uint32_t *cancel;
    uint64_t deadline_ns; /* time limit of the run, on CLOCK_MONOTONIC; 0 = none */
    /* [wait_count] work that must finish first: writers of the inputs, and users of the memory that is written. Some
     * fences may have been reached already. If one has failed, the work is not executed, and signal fails with the same
     * status */
    const inlay_fence *waits;
    /* asynchronous providers signal this fence when the outputs are complete, or have failed; not if execute itself
     * fails */
    inlay_fence signal;
    inlay_diag *diag; /* valid only during the call */
    /* the result of bind for this context. NULL: the provider has no bind, bind returned INLAY_UNSUPPORTED for the
     * instance, or the instance runs without a context's addresses (a trial run of the optimiser, of tune or of
     * plugin-check). So a provider with bind must also be able to execute without a binding */
    inlay_binding *binding;
    /* The first own_wait_count waits are fences that this provider signals. A device may skip the wait for one of them
     * only if the work that signals it was submitted to the same in-order queue as this work; a device with several
     * queues (for copies and for kernels) waits for the fences of its other queues. 0 is always permitted: fences of
     * this provider may also be among the other waits */
    uint32_t own_wait_count;
    uint32_t priority; /* INLAY_PRIORITY_*; treat an unknown number as NORMAL */
    uint32_t power;    /* INLAY_POWER_*; treat an unknown number as DEFAULT */
    uint32_t reserved;
} inlay_exec_args;

#ifdef __cplusplus
}
#endif
#endif
