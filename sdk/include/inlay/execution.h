/* inlay/execution.h - what a provider works with when it compiles and runs a region: shapes, memory, tensors.
 *
 * It includes the graph (graph_view.h), the functions of the host (host.h), and refusals and prices (cost.h). Part of
 * the plugin ABI: terms and rules of inlay/plugin.h apply. */
#ifndef INLAY_EXECUTION_H
#define INLAY_EXECUTION_H
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "inlay/host.h"

#ifdef __cplusplus
extern "C" {
#endif

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
 * valid until signal is reached or has failed. So a provider signals, success and failure alike, only after the device
 * has stopped using all of these. For a provider without INLAY_PROVIDER_ASYNC the host waits itself before the call:
 * wait_count is 0, and signal is a fence that is always reached. */
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
     * queues (for copies and for kernels) waits for the fences of its other queues. The count may be smaller than the
     * number of this provider's fences, even 0: the other waits may also be fences of this provider */
    uint32_t own_wait_count;
    uint32_t priority; /* INLAY_PRIORITY_*; treat an unknown number as NORMAL */
    uint32_t power;    /* INLAY_POWER_*; treat an unknown number as DEFAULT */
    uint32_t reserved;
} inlay_exec_args;

#ifdef __cplusplus
}
#endif
#endif
