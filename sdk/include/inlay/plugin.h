/* inlay/plugin.h - the plugin ABI, version 1. This header is the manual.
 *
 * This file declares inlay_provider, the table of functions of a provider. graph_view.h (the graph that a plugin sees,
 * and operators), host.h (the functions of the host), cost.h (refusals and prices) and execution.h (what a provider
 * compiles and runs) are parts of the same interface.
 *
 * Most authors do not fill in these structs by hand: the kit (inlay/kit.h) turns a table of kernels into a provider,
 * and samples/provider_skeleton is a provider to copy. This header is for authors who need more than the kit offers.
 *
 * Terms (all of them are in sdk/docs/pages/glossary.md):
 *     plugin         a shared object with providers, custom operators or both. It exports one symbol,
 *                    inlay_plugin_open(), and does not link against inlay: the host passes its functions in a table
 *     provider       what runs nodes of a graph, on a CPU or a device
 *     candidate      a node that the host asks a provider about
 *     offer          the answer that the provider can run a candidate, or several as a unit; the opposite is a refusal
 *     region         the nodes that a provider compiles as a unit, from the offers that the host has chosen
 *     instance       a region that is prepared for concrete shapes; a binding is one prepared for one context
 *     memory domain  memory of one kind, such as that of a GPU; domain 0 is the host's. (The domain of an operator is
 *                    the first part of its name, as in ONNX.)
 *     placement      the memory domain, and for some regions the element type, of a value at the edge of a region
 *
 * The host makes these calls, in this order:
 *
 *     inlay_plugin_open     describe the plugin; starts no thread, opens no device or file
 *     provider.enumerate    list the available devices; opens none
 *     provider.create       open the device, read the options
 *     provider.describe     report the properties of the open device
 *     provider.assess       examine a graph; report offers, and a refusal for each node without one
 *     provider.cost         estimate the cost of an offer at given shapes
 *     provider.compile      prepare a region that the host chose; pack its weights
 *     provider.specialize   prepare it for concrete shapes; report the workspace that a run needs
 *     provider.bind         prepare objects for one context and its addresses: recorded commands, a driver's graph
 *     provider.execute      run it, or enqueue it; no heap use, any number of times, from any thread
 *     provider.release_*    undo bind, specialize, compile
 *     provider.quiesce      finish the work in flight; the host submits no more
 *     provider.destroy      close the device, after quiesce has returned
 *     plugin.shutdown       the last call: the host may then dlclose the plugin if INLAY_PLUGIN_DLCLOSE permits it; a
 *                           plugin that stays loaded may be opened again
 *
 * Each inlay_plugin_open that succeeded is followed by one shutdown, unless the host cannot use the description because
 * its major version differs or it is too short, and unless the process exits before. A plugin may be opened a second
 * time before shutdown, with the same host table, for instance when only the time stamp of its file has changed.
 *
 * Before the first of these calls, the host reads the plugin's ELF note (inlay/note.h) and loads a file that it has not
 * seen before in a separate probe process: see "How plugins are loaded" in sdk/docs/pages/plugins.md.
 *
 * General rules:
 *  - Ownership. The arguments of a call are borrowed for that call unless a comment says otherwise. A module frees only
 *    the memory that it allocated itself. Texts of type const char * are NUL-terminated. The struct inlay_plugin and
 *    all that it points to are borrowed until shutdown has returned.
 *  - Objects. For each call of create, compile, specialize, bind, buffer_alloc and buffer_import that returned
 *    INLAY_OK, the host once calls the function that releases the object, also if several calls returned the same
 *    pointer. After a failure there is nothing to release. The host releases the bindings of an instance before the
 *    instance, the instances of a region before the region, and everything before destroy. compile and specialize never
 *    return NULL with INLAY_OK. If bind returns NULL, there is no binding, and nothing to release.
 *  - Errors. A call returns its status by value and writes a message into the caller's inlay_diag. Nothing aborts or
 *    unwinds across a module boundary. The host never passes a NULL diag. Only the returned status counts: the host
 *    sets diag->code to it, terminates the texts, makes each a single line, and adds the names of provider and plugin.
 *    Setting the text is enough; the host replaces INLAY_CLASS_DEFAULT (0) and unknown classes by the class of the
 *    status. A status that the host does not know counts as INLAY_INTERNAL. The contents of diag after a successful
 *    call are ignored.
 *  - Out parameters. Before each call the host sets struct_size and zeroes the rest (pointers: NULL); out parameters
 *    are read only after INLAY_OK. The comment of a field states any other initial value.
 *  - Context. The first argument of a callback is the member `ctx` of its struct; for most functions of inlay_provider
 *    it is the state that create returned.
 *  - Threads. open, create, describe, quiesce, destroy and shutdown are called by one thread of the process at a time
 *    (exception: quiesce of a device that hangs, see "Failed devices"). All other functions may be called by any number
 *    of threads at once, also while runs are in progress: assess, cost, cost_region, fingerprint, cache_verdict and
 *    extension without restriction; specialize and execute also for the same region, execute for different runs;
 *    compile for different graphs (see INLAY_PROVIDER_CONCURRENT_COMPILE); the functions that bind, allocate, map,
 *    copy, export or release, for different objects. infer of an operator is called by any number of threads at once.
 *    Sessions whose options for a provider are the same share one open provider; sessions with other options open it
 *    once more.
 *  - Failed devices. If a device no longer works, calls return INLAY_DEVICE_LOST, and work in flight signals its fence
 *    with this status. The host then closes the provider as usual, so the functions that release something, quiesce and
 *    destroy must work for a lost device, too. Later sessions open the provider again (create), possibly while the
 *    state of the lost device still exists. A device hangs if it does not signal a fence in time: within option
 *    device_timeout_ms, or, after the run was cancelled or has failed, within eight times poll_ms, but at least two
 *    seconds (if poll_ms is 0: device_timeout_ms). The host treats a device that hangs as lost. It never frees the
 *    memory and never releases the objects of a session whose work hangs, and never calls destroy. When such a session
 *    is destroyed, the host calls quiesce on a separate thread, and waits for it for at most ten seconds.
 *  - Optional functions are marked as such; NULL selects the behaviour stated in the comment. All others must be set.
 *
 * Values. A provider computes each operator as ONNX defines it, for all values, also if it fuses operators: NaN is not
 * lost, infinities are not replaced by the largest number. Denormals may be flushed to zero
 * (INLAY_PROVIDER_FLUSHES_DENORMALS), and sums may be rounded in another order. A provider cannot decline a run because
 * of its values: assess, compile and specialize see only the values that are known before the run, and a failure of
 * execute, also INLAY_UNSUPPORTED, ends the run. So a library that treats some values differently (clamps that turn NaN
 * into a bound, tables of a limited range) needs other code for such values, in execute; or assess refuses the
 * operators concerned.
 *
 * Process state. A plugin owns what it has made itself: its memory, threads, descriptors and files. Everything else in
 * the process belongs to the application, and a plugin leaves it unchanged when a call returns:
 *  - rounding mode, flush-to-zero, traps and x87 control, which the host restores; resource limits, timers, rand();
 *  - locale, working directory, umask, environment, prctl(); signal handlers, masks and stacks; malloc's options;
 *  - locked memory; name, affinity, nice value and scheduling class of threads that it did not start; standard streams.
 * It prints nothing (use inlay_host.log). It writes files only in inlay_create_args.cache_dir, in temporary folders,
 * and where an option of the user says so. It does not fork and calls neither exit nor abort. It starts threads in
 * create or later and joins them in destroy. The host calls from any thread, so it relies on no thread-local variable
 * between calls. With INLAY_PLUGIN_DLCLOSE it leaves no thread-local variable with a destructor, which would run after
 * the plugin is unmapped. C++ exceptions are caught within it. A function uses at most 512 KiB of its caller's stack,
 * also a body of parallel_for and `reached` of a notice. `inlay plugin-check` detects many violations.
 *
 * Threads of a wrapped library (OpenMP, pthreadpool, TBB). The rules above apply to them as to threads of the plugin:
 * none before create, none after destroy; the plugin may set their affinity. The host leaves no core free for them: it
 * counts the threads of parallel_for only. So a plugin sets up the library with the calling thread alone and splits the
 * work with parallel_for, or, if the library has to have threads, limits them to inlay_specialize_request.max_threads
 * including the calling one, lets them sleep between calls, and states them in its note (inlay/note.h). For libraries
 * with OpenMP loops (libgomp) see INLAY_EXT_TEAM in extensions.h.
 *
 * For those who write the structs by hand, or a generator of bindings:
 *  - Growth. Every struct that is passed on its own starts with struct_size: the sizeof of the struct when its writer
 *    was compiled. Every array comes with its stride: the size of an element in bytes. Fields are appended, never moved
 *    or removed. Code tests whether struct_size reaches a field (INLAY_HAS), or whether the stride of an array does
 *    (INLAY_STRIDE_HAS), and does not test a version. A field that is not reached counts as zero, which means the
 *    default. So never copy, assign or clear a whole struct that another module allocated (an out parameter, a request,
 *    an element of an array): read and write single fields, and only fields that its struct_size or stride reaches.
 *    Structs without size and stride never grow: inlay_str, inlay_dim, inlay_buffer, inlay_fence, inlay_tensor_view.
 *    Functions never get another argument: later ones travel in a request struct.
 *  - Flags and reserved fields. Of the flags of plugins, providers, domains, operators, offers, fingerprints and notes,
 *    the host rejects unknown bits in the low 16 bits and ignores those in the high 16 bits; a plugin ignores unknown
 *    bits of every word. Fields called `reserved` are 0. Of plugins, providers, options, domains, offers and placements
 *    the host rejects any other value as it does an unknown low bit. A plugin ignores these fields: a later minor
 *    version may give them a meaning, in which 0 stands for the present behaviour. The one use of a version: before a
 *    plugin sets such a field, or a new low bit, it compares inlay_host.abi_minor with the minor version that
 *    introduced it.
 *  - Numbers of kinds, reasons, actions and similar enumerations are added, too. A plugin that gets an unknown one
 *    treats a hint (priority, power, usage, lifetime) as 0, and returns INLAY_UNSUPPORTED if it gets an unknown request
 *    (an action, a kind of memory). The host treats an unknown inlay_cost.confidence as MODEL, an unknown verdict as
 *    RECOMPILE, an unknown answer in inlay_compile_request.constants as COPIED, and an unknown inlay_output_plan.kind
 *    as KNOWN. It refuses a plugin with an unknown kind of option.
 *  - Constants. The constants of these headers are enumerators of anonymous enums, so that they have no type of their
 *    own; every field that holds one has a fixed width. Generators of bindings may choose another type for an anonymous
 *    enum (bindgen: u32). All values fit into int32_t: convert them to the type of the field, which is int32_t for
 *    inlay_status and inlay_dtype, and uint32_t for flags and kinds.
 *  - Inline functions and macros of these headers, except the names of extensions and of the entry point, are for
 *    convenience: the ABI consists of the structs, the constants, the functions behind pointers, the entry point and
 *    the note. A plugin in another language replaces those that it needs by functions of its own (inlay_fail by one
 *    that fills in text and node of the diag; the host sets the rest).
 *
 * fork(). The application may fork. In a child process the host opens a provider with domains again (create), and never
 * calls or closes the parent's provider. An open provider without domains continues to be used, unless a call of the
 * session was in progress during the fork. A plugin with a process-wide lock, or with a thread, needs
 * pthread_atfork(). */
#ifndef INLAY_PLUGIN_H
#define INLAY_PLUGIN_H
#include "inlay/execution.h"
#include "inlay/note.h"

#ifdef __cplusplus
extern "C" {
#endif

#define INLAY_ABI_MAJOR 1u /* changes only when old plugins can no longer be loaded, which is not planned */
#define INLAY_ABI_MINOR 1u /* it grows with additions; to test for a field, use INLAY_HAS, never this number */

/* Types of options. */
enum {
    INLAY_OPTION_BOOL = 1,   /* 0/1, false/true, no/yes, off/on */
    INLAY_OPTION_INT = 2,    /* decimal, hexadecimal with 0x, or octal with a leading 0 */
    INLAY_OPTION_FLOAT = 3,  /* any number, also infinity; not NaN */
    INLAY_OPTION_STRING = 4, /* any text */
    INLAY_OPTION_ENUM = 5    /* one of inlay_option.choices */
};

/* An option of a provider. The host parses and checks the text, rejects unknown names with the closest known one, and
 * shows name, default, range and doc in its help. An option of kind STRING called "library" names a file with code that
 * create loads: for a plugin from a file, the host first runs create with the user's options in the probe process, once
 * for these options, and again after that file has changed. If create crashes or hangs there, the host does not call it
 * in its own process. */
typedef struct inlay_option {
    const char *name;          /* [a-z0-9_]; the same in YAML, on the command line and here */
    const char *doc;           /* one sentence, with the unit */
    const char *default_value; /* as text, which must be valid; NULL = unset */
    const char *choices;       /* ENUM: the valid words, separated by '|'; otherwise NULL */
    int64_t min, max;          /* INT: inclusive range; 0, 0 = any */
    uint32_t kind;             /* INLAY_OPTION_* */
    uint32_t reserved;
} inlay_option;

/* The parsed value of an option. Fields of other kinds, and of an unset option, are 0 or NULL. */
typedef struct inlay_option_value {
    const char *name;
    const char *s;   /* STRING and ENUM; NULL = unset */
    int64_t i;       /* INT, BOOL (0, 1) */
    double f;        /* FLOAT */
    uint32_t kind;   /* INLAY_OPTION_* */
    uint32_t is_set; /* 1: set explicitly; 0: the default */
} inlay_option_value;

/* Flags of offers. */
enum {
    /* May be merged with neighbouring offers of this provider into one region. Without this flag, the host compiles and
     * schedules the offer separately, and plans the memory between regions. */
    INLAY_OFFER_MERGE = 1u << 0,
    /* With MERGE: only into connected regions, in which every offer is linked to the others by values that one offer
     * writes and another reads. Hosts older than this flag ignore it. */
    INLAY_OFFER_CONNECTED = 1u << 16
};

/* Regions. compile() of a provider that merges may get any subset of its chosen offers that can be scheduled as one
 * unit: no value leaves the region and returns through other nodes. There are no further guarantees:
 *  - Connectivity: two branches, or two parts of the graph that are not connected, may be one region, unless the offers
 *    set INLAY_OFFER_CONNECTED.
 *  - Shapes: nodes of different sizes, ranks and element types may be in one region.
 *  - Foreign nodes: a node of another provider may read a value of the region or write one of its inputs, and node
 *    indices of a region need not be contiguous.
 *  - Size: from one offer to the whole graph, with any number of nodes, inputs and outputs, within the limits that its
 *    offers state (inlay_offer.max_nodes and following).
 *  - Boundary: a value that leaves the region is one output, however many nodes inside and outside read it; a value
 *    that enters is one input, even if a node reads it twice. Outputs of nodes may be unused.
 *
 * A provider can decline a region that it cannot compile (see inlay_provider.compile). */

/* States that the provider can run these nodes. Offers may overlap; the host chooses. The host ignores an offer that
 * breaks a rule (a node index out of range, a group that would form a cycle) and logs a line; the others stay valid. */
typedef struct inlay_offer {
    uint64_t struct_size;
    /* any number, chosen by the provider; passed to cost, cost_region and compile. Use a number from which compile
     * finds the offer in the graph, such as the number of a pattern. A pointer would have to stay valid as long as the
     * state, because the host does not say when it has finished with an offer, and calls assess any number of times */
    uint64_t cookie;
    const uint32_t *nodes; /* [node_count] ascending indices; several nodes run as one group */
    uint32_t node_count;
    uint32_t flags;                    /* INLAY_OFFER_* */
    const inlay_placement *placements; /* [placement_count] */
    uint32_t placement_count;
    uint32_t placement_stride;
    uint64_t workspace_bytes; /* estimated workspace of one run in bytes; 0 = unknown or none */
    uint64_t resident_bytes;  /* estimated size of packed weights in bytes; compile reports the actual size */
    /* Limits of a region that contains the offer; 0 = none. The limit of a region is the smallest limit of its offers;
     * the host divides nodes that would exceed this limit among several regions. An offer that breaks its own limits is
     * ignored. */
    uint32_t max_nodes;
    uint32_t max_inputs;  /* values that enter, without constants */
    uint32_t max_outputs; /* values that leave */
    uint32_t reserved;
    uint64_t max_resident_bytes; /* limit of the sum of resident_bytes of the region's offers */
} inlay_offer;

/* States why the provider cannot run a node. Required for every candidate that is in no offer; without it, reports
 * state that the provider gave no answer. A refusal of a node that is not a candidate is ignored. A refusal of a node
 * that is also in an offer does not invalidate the offer; it is shown only if the offer is not chosen. */
typedef struct inlay_refusal {
    uint64_t struct_size;
    uint32_t node;           /* index of the node in the graph */
    uint32_t code;           /* INLAY_REFUSE_* */
    const char *text;        /* the reason: "input 1 is int8; this kernel takes float and double" */
    const char *accepted_if; /* a change that would make the node acceptable: "insert a Cast to float"; NULL = none */
} inlay_refusal;

/* Functions of the host that receive the results of assess and copy them. Only during assess, by one thread at a time.
 * If one returns a status other than INLAY_OK, assess ends and returns it. */
typedef struct inlay_assess_sink {
    uint64_t struct_size;
    void *ctx;
    inlay_status (*offer)(void *ctx, const inlay_offer *offer);
    inlay_status (*refuse)(void *ctx, const inlay_refusal *refusal);
} inlay_assess_sink;

/* Arguments of assess. */
typedef struct inlay_assess_request {
    uint64_t struct_size;
    const inlay_graph *graph;
    /* [graph->node_count] not 0: the node may be offered; 0: the node is not for this provider */
    const uint8_t *candidates;
    const inlay_assess_sink *sink; /* receives offers and refusals */
} inlay_assess_request;

/* Arguments of cost. */
typedef struct inlay_cost_request {
    uint64_t struct_size;
    const inlay_graph *graph;
    const inlay_offer *offer;        /* as reported; price it at the first placement of each value */
    const inlay_value_state *values; /* [value_count] parallel to graph->values */
    uint32_t value_count;
    uint32_t value_stride;
    /* workers of the run to be priced. This is not the number of threads of the session: the host compares all
     * providers at the same fixed number of workers (2 in this version), so that neither the assignment nor the results
     * depend on the threads of a session. The host passes the number of a session's threads only to report times and to
     * compare them with measurements */
    uint32_t max_threads;
    uint32_t reserved;
} inlay_cost_request;

/* Arguments of cost_region: a region as compile would get it. All its values are in the provider's default domain,
 * because offers with other placements form no regions with their neighbours. */
typedef struct inlay_region_cost_request {
    uint64_t struct_size;
    const inlay_graph *graph;
    const uint32_t *nodes;   /* [node_count] nodes of the region, ascending */
    const uint64_t *cookies; /* [offer_count] cookies of the region's offers */
    const uint32_t *inputs;  /* [input_count] values that enter, without constants */
    const uint32_t *outputs; /* [output_count] values that leave */
    uint32_t node_count;
    uint32_t offer_count;
    uint32_t input_count;
    uint32_t output_count;
    const inlay_value_state *values; /* [value_count] parallel to graph->values */
    uint32_t value_count;
    uint32_t value_stride;
    uint32_t max_threads; /* as in inlay_cost_request */
    uint32_t reserved;
} inlay_region_cost_request;

/* A region to compile. The provider keeps no pointer into the request after the call, except to constants for which it
 * answers BORROWED: the data of such a constant stays mapped until release_compiled, at its address or at the address
 * that align_constant returned. */
typedef struct inlay_compile_request {
    uint64_t struct_size;
    void *handle; /* for inlay_host.align_constant */
    const inlay_graph *graph;
    const uint32_t *nodes;   /* [node_count] nodes of the region, ascending */
    const uint64_t *cookies; /* [offer_count] cookies of the region's offers */
    /* [input_count] values that enter, without constants; the order of inlay_exec_args.inputs */
    const uint32_t *inputs;
    const uint32_t *outputs; /* [output_count] values that leave; the order of inlay_exec_args.outputs */
    uint32_t node_count;
    uint32_t offer_count;
    uint32_t input_count;
    uint32_t output_count;
    const inlay_placement *placements; /* [input_count + output_count] negotiated placements */
    uint32_t placement_stride;         /* size of an element of placements in bytes, also if there are no elements */
    uint32_t reserved;
    /* out: [graph->value_count] INLAY_CONST_* for each constant that the region reads; initially BORROWED */
    uint8_t *constants;

    /* The blob that was stored for an equal region, see inlay_provider.fingerprint; NULL: none. The file is mapped
     * read-only: the blob needs no further memory, starts at a multiple of 4096 and stays until release_compiled. */
    const void *cache_blob;
    uint64_t cache_bytes; /* size of cache_blob */
    void *ctx; /* first argument of the functions below; each may be NULL; call them from one thread at a time */
    /* Store a blob in the cache folder, where it replaces an earlier one, in pieces of any size: begin, write for each
     * piece, end. bytes of begin is the size of the blob, 0 if it is not known yet. A blob without a call of end, or
     * with a call that failed, is dropped. A failure does not end compile: go on without storing. INLAY_LIMIT_EXCEEDED:
     * the blob is larger than the limit of the folder. */
    inlay_status (*store_begin)(void *ctx, uint64_t bytes);
    inlay_status (*store_write)(void *ctx, const void *data, uint64_t bytes);
    inlay_status (*store_end)(void *ctx);
    void (*progress)(void *ctx, double fraction, const char *what); /* fraction of this region: 0 to 1 */
    /* Any status but INLAY_OK: return it. INLAY_CANCELLED: the user cancelled. INLAY_DEADLINE_EXCEEDED: the run that
     * needs the region is late. INLAY_LIMIT_EXCEEDED: the session would exceed its memory limit. */
    inlay_status (*poll)(void *ctx);

    /* A hint: shapes that runs are expected to have, for choosing kernels. NULL = none. */
    const inlay_value_state *profile; /* [graph->value_count] */
    uint32_t profile_stride;
    uint32_t max_threads; /* workers that a run may use */
    /* Out, or NULL: bytes that the region occupies in the provider's domains until release_compiled. A memory limit
     * counts this value instead of the estimates of the offers. */
    uint64_t *resident_bytes;
} inlay_compile_request;

/* Arguments of bind: a region's tensors in one context. Tensors whose address changes between runs (inputs and outputs
 * of the user) have handle 0. */
typedef struct inlay_bind_args {
    uint64_t struct_size;
    const inlay_tensor_arg *inputs;  /* [input_count] */
    const inlay_tensor_arg *outputs; /* [output_count] */
    uint32_t input_count;
    uint32_t output_count;
    uint32_t arg_stride; /* size of an element of inputs and outputs in bytes */
    uint32_t reserved;
    inlay_buffer workspace;
} inlay_bind_args;

/* A copy of min(source.bytes, target.bytes) bytes, see inlay_provider.buffer_copy. */
typedef struct inlay_copy {
    inlay_buffer source;
    inlay_buffer target;
} inlay_copy;
/* Arguments of buffer_copy: one or more copies that are submitted together. No copy reads or writes memory that another
 * copy of the request writes. waits, own_wait_count and signal are as in inlay_exec_args; the buffers stay valid until
 * signal is reached or has failed. */
typedef struct inlay_copy_request {
    uint64_t struct_size;
    inlay_run *run;           /* NULL: outside of a run */
    const inlay_copy *copies; /* [copy_count] */
    const inlay_fence *waits; /* [wait_count] must be reached before the first copy */
    inlay_fence signal;       /* signalled when all copies are done */
    uint32_t copy_count;
    uint32_t copy_stride;
    uint32_t wait_count;
    uint32_t own_wait_count;
} inlay_copy_request;

/* Flags of memory domains. */
enum {
    INLAY_DOMAIN_HOST_VISIBLE = 1u << 0, /* buffer_map returns an address */
    INLAY_DOMAIN_COHERENT = 1u << 1,     /* writes through a mapping are visible without buffer_unmap */
    INLAY_DOMAIN_IMPORTS_HOST = 1u << 2  /* buffer_import accepts INLAY_MEMORY_HOST: no copy of the user's tensors */
};
/* A memory domain of a provider: a kind of memory with separate handles, such as the memory of a device. */
typedef struct inlay_domain_info {
    const char *name;      /* "vulkan0.device" */
    uint64_t alignment;    /* alignment of buffers and of offsets in bytes: a power of two */
    uint64_t memory_bytes; /* capacity in bytes; 0 = unknown */
    uint32_t flags;        /* INLAY_DOMAIN_HOST_VISIBLE ... */
    uint32_t reserved;
    /* exports and imports are sets of INLAY_MEMORY_BIT(DMA_BUF, OPAQUE_FD, SHARED_FD), see "Devices that meet"; other
     * bits are ignored. exports: the kinds of handles that buffer_export returns for buffers of this domain with
     * INLAY_USE_SHARED */
    uint32_t exports;
    uint32_t imports; /* the kinds of handles that buffer_import accepts from other providers and from the user */
} inlay_domain_info;

/* Devices that meet. A value that one provider computes and another one reads is passed on without the host's memory if
 * the domains of both name a kind of memory. For each pair of domains the host tests this once: it allocates a page
 * with INLAY_USE_SHARED, exports it, and imports it. Then:
 *  - If the reader's domain imports what the writer's domain exports, the reader gets the writer's memory as a buffer
 *    of its own domain: no copy. The host imports whole allocations and passes ranges of them. Offsets in shared
 *    allocations are multiples of the larger alignment of the two domains.
 *  - Otherwise, if the writer's domain imports what the reader's domain exports, the writer copies into the reader's
 *    memory: buffer_copy between two buffers of its own domain, one of which is imported. One copy.
 *  - Otherwise the value is copied to host memory and from there.
 * Values whose sizes depend on data, and those that pass through control flow, are copied through the host. A value
 * that leaves the graph on one device is copied if another device reads it, too. Fences order the accesses; a provider
 * with caches writes them back before it signals, and invalidates them before it reads. */

/* What a buffer holds; a sum of these numbers. A hint for the choice of memory. A request may have bits that are not
 * defined here yet: ignore them. */
enum {
    INLAY_USE_INPUT = 1u << 0,     /* inputs of the graph, written by copies or by the user */
    INLAY_USE_OUTPUT = 1u << 1,    /* outputs of the graph, read by copies or by the user */
    INLAY_USE_INNER = 1u << 2,     /* values between regions */
    INLAY_USE_WEIGHTS = 1u << 3,   /* constants: written once, then only read */
    INLAY_USE_WORKSPACE = 1u << 4, /* workspace of regions: not accessed outside of execute */
    INLAY_USE_SHARED = 1u << 5     /* buffer_export is called for it, with a kind of inlay_domain_info.exports */
};
/* How long a buffer is used. A hint; treat an unknown number as UNKNOWN. */
enum {
    INLAY_LIFETIME_UNKNOWN = 0,
    INLAY_LIFETIME_RUN = 1,  /* one run, or a part of it */
    INLAY_LIFETIME_PLAN = 2, /* all runs of a context at the same shapes */
    INLAY_LIFETIME_USER = 3  /* the user decides: a tensor of inlay_session_value_create_on(), or a result */
};

/* Arguments of buffer_alloc. */
typedef struct inlay_alloc_request {
    uint64_t struct_size;
    uint64_t bytes; /* at least 1 */
    /* alignment of offset 0 in bytes: a power of two up to 2 MiB, at least the alignment of the domain, and at least
     * inlay_specialize_request.workspace_alignment if the buffer holds a workspace */
    uint64_t alignment;
    uint32_t domain;   /* id of one of the provider's domains */
    uint32_t usage;    /* INLAY_USE_*; 0 = unknown */
    uint32_t lifetime; /* INLAY_LIFETIME_* */
    uint32_t priority; /* INLAY_PRIORITY_* of the session: which buffers stay if others move to slower memory */
} inlay_alloc_request;

/* Arguments of buffer_free. */
typedef struct inlay_free_request {
    uint64_t struct_size;
    const inlay_buffer *buffer; /* the whole buffer, as buffer_alloc or buffer_import returned it */
} inlay_free_request;

/* Accesses of a mapping. */
enum { INLAY_MAP_READ = 1u << 0, INLAY_MAP_WRITE = 1u << 1 };
/* Arguments of buffer_map. */
typedef struct inlay_map_request {
    uint64_t struct_size;
    const inlay_buffer *buffer;
    uint32_t access; /* INLAY_MAP_*: what the host does through the mapping. Without READ the contents may be lost */
    uint32_t reserved;
} inlay_map_request;

/* Arguments of buffer_unmap. */
typedef struct inlay_unmap_request {
    uint64_t struct_size;
    const inlay_buffer *buffer; /* the same as that of buffer_map */
    uint32_t access;            /* INLAY_MAP_*, the same as that of buffer_map */
    uint32_t reserved;
} inlay_unmap_request;

/* Arguments of buffer_import. */
typedef struct inlay_import_request {
    uint64_t struct_size;
    const inlay_native_memory *memory; /* memory->struct_size states which fields it has */
    uint32_t domain;                   /* id of the domain that the buffer belongs to */
    uint32_t usage;                    /* INLAY_USE_* */
} inlay_import_request;

/* Arguments of buffer_export. */
typedef struct inlay_export_request {
    uint64_t struct_size;
    const inlay_buffer *buffer;
    uint32_t kind; /* INLAY_MEMORY_*: the kind of handle that the caller needs */
    uint32_t reserved;
} inlay_export_request;

/* Flags of devices. */
enum {
    INLAY_DEVICE_UNIFIED = 1u << 0 /* the device shares the host's memory */
};
/* A device. Unknown texts are NULL. */
typedef struct inlay_device_info {
    uint64_t struct_size;
    const char *name;      /* "NVIDIA H200" */
    const char *option;    /* the option that selects it, "device", ... */
    const char *value;     /* ... and its value; NULL: no option selects it */
    const char *unusable;  /* why create would fail; NULL: it would succeed */
    const char *facts;     /* further properties for listings: "driver=550.1; subgroup=32" */
    uint64_t memory_bytes; /* capacity in bytes; 0 = unknown */
    uint64_t free_bytes;   /* bytes of memory_bytes that are available now; 0 = unknown */
    uint32_t kind;         /* INLAY_DEVICE_CPU ... */
    uint32_t flags;        /* INLAY_DEVICE_UNIFIED */
} inlay_device_info;

/* Arguments of enumerate. */
typedef struct inlay_enumerate_request {
    uint64_t struct_size;
    const inlay_host *host;
    void *user; /* first argument of device */
    /* Receives a device; its texts are borrowed for the call. A status other than INLAY_OK: enumerate returns it. */
    inlay_status (*device)(void *user, const inlay_device_info *info);
} inlay_enumerate_request;

/* Arguments of describe. The number of domains is inlay_provider.domain_count, which is fixed when the plugin is
 * opened: describe can change the properties of a domain, but neither add nor remove a domain. A provider whose devices
 * have different kinds of memory states all of them; buffer_alloc returns INLAY_UNSUPPORTED for a domain that the
 * opened device lacks, and assess places no value there. If describe changes this struct itself, the host reports that
 * the provider cannot be opened. */
typedef struct inlay_describe_request {
    uint64_t struct_size;
    inlay_device_info *device; /* out: the device that create opened; texts live as long as the state */
    /* out: [domain_count] initially the provider's static description; replace it by the actual capacity, alignment
     * (not below the static one) and flags. Access the elements with INLAY_AT_OUT */
    inlay_domain_info *domains;
    uint32_t domain_count;
    uint32_t domain_stride;
} inlay_describe_request;

/* Flags of providers. */
enum {
    INLAY_PROVIDER_ASYNC = 1u << 0, /* execute and copy may return before the work is done; they signal their fence */
    /* At most one execute of an instance at a time: the host does not call execute for an instance before an earlier
     * execute of the same instance has returned and, if the provider is asynchronous, has signalled. Different
     * instances may run concurrently. For libraries whose compiled objects are not re-entrant */
    INLAY_PROVIDER_SERIAL_EXECUTE = 1u << 1,
    /* Estimated costs are times of threads of this CPU; inlay_cost.ns refers to a reference core, which performs 320
     * float operations per nanosecond if the instruction-set level is AVX-512, 160 if it is AVX2, otherwise 80. The
     * host uses inlay_cost.local_ns instead, or scales the cost of nodes with more than two float operations per byte
     * to the speed of this machine's kind of CPU. It raises costs that are below the time of reading the weights from
     * memory, or of the multiplications of matrices of floats. */
    INLAY_PROVIDER_REFERENCE_CORE = 1u << 16,
    /* compile may be called by several threads at once also for regions of one graph; the host builds up to
     * intra_threads engines at a time. For compilers that use one thread or few; hosts may ignore it */
    INLAY_PROVIDER_CONCURRENT_COMPILE = 1u << 17,
    /* Denormal floats may count as zero, in inputs and in results, see "Values". Without the flag, plugin-check expects
     * them to be kept. */
    INLAY_PROVIDER_FLUSHES_DENORMALS = 1u << 18
};
/* Flags of fingerprints. */
enum {
    INLAY_FINGERPRINT_THREADS = 1u << 0, /* the stored blob depends on max_threads of the requests */
    INLAY_FINGERPRINT_PROFILE = 1u << 1  /* the stored blob depends on the shapes in inlay_compile_request.profile */
};
enum { INLAY_MAX_FINGERPRINT_BYTES = 4096 };
/* Identifies what, besides the region, determines a blob, see inlay_provider.fingerprint. */
typedef struct inlay_fingerprint {
    uint64_t struct_size;
    const void *data; /* out: any bytes, the same in every process; borrowed until the provider is destroyed */
    uint64_t bytes;   /* out: size of data; with more than INLAY_MAX_FINGERPRINT_BYTES nothing is cached */
    uint32_t flags;   /* out: INLAY_FINGERPRINT_* */
    uint32_t reserved;
} inlay_fingerprint;

/* Verdicts on a cached blob. The host passes an OPTIMAL blob on. For both other verdicts the host logs the text of diag
 * as the reason, and passes no blob. */
enum { INLAY_CACHE_OPTIMAL = 0, INLAY_CACHE_RECOMPILE = 1, INLAY_CACHE_UNSUPPORTED = 2 };
/* Arguments of cache_verdict. */
typedef struct inlay_cache_request {
    uint64_t struct_size;
    const void *blob; /* a blob that this provider stored for an equal region; its checksum is right */
    uint64_t bytes;   /* size of blob */
    uint32_t verdict; /* out: INLAY_CACHE_*; initially OPTIMAL */
    uint32_t reserved;
} inlay_cache_request;

/* Arguments of create. */
typedef struct inlay_create_args {
    uint64_t struct_size;
    const inlay_option_value *options; /* [option_count] in the order of the schema */
    uint32_t option_count;
    uint32_t option_stride;
    uint32_t first_domain; /* domains[k] of this provider has the id first_domain + k */
    uint32_t max_threads;  /* thread limit of the process */
    /* A folder, named after the provider, for files that speed up the start of later processes. The files may disappear
     * or be damaged. NULL: none. Store the data of a region with inlay_compile_request.store_begin instead. */
    const char *cache_dir;
} inlay_create_args;

/* An execution provider. The general rules at the top of this header apply to all functions. */
typedef struct inlay_provider {
    uint64_t struct_size;
    const char *name;            /* [a-z0-9_], the name in option providers */
    const char *description;     /* one line */
    uint32_t device_kind;        /* INLAY_DEVICE_* */
    uint32_t flags;              /* INLAY_PROVIDER_* */
    const inlay_option *options; /* [option_count] */
    uint32_t option_count;
    uint32_t option_stride;
    const inlay_domain_info *domains; /* [domain_count]; none for providers that work in host memory */
    uint32_t domain_count;            /* the same for every device, see inlay_describe_request */
    uint32_t domain_stride;
    uint32_t default_domain; /* domain of inputs, outputs and workspace: 0 = host, k = domains[k - 1] */
    /* A cancelled run ends within this number of milliseconds; 0 = not cancellable. See also "Failed devices". */
    uint32_t poll_ms;
    void *ctx; /* first argument of create and enumerate */

    /* Opens the device. *out_state is the first argument of all functions below. INLAY_UNSUPPORTED, with the reason in
     * diag: the device is not available. */
    inlay_status (*create)(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag);
    /* Closes the device. The host calls it after it has released everything else, and after quiesce has returned. */
    void (*destroy)(void *state);
    /* Optional: returns when no work is in flight, or when the device is lost. NULL: there never is any work in flight.
     * Called before destroy, without a time limit. If the device hangs, quiesce is called for each session whose
     * work hangs, and such a call may still be running when the process exits; see "Failed devices". */
    void (*quiesce)(void *state);

    /* Reports offers and refusals for the candidates among the nodes of a graph. Called several times for a session,
     * also with graphs of a single node. A failure of the call is not a refusal: it ends the creation of the
     * session. */
    inlay_status (*assess)(void *state, const inlay_assess_request *request, inlay_diag *diag);
    /* Estimates the cost of an offer at given shapes. After a failure the offer has no cost, see inlay_cost; reports
     * show the text of diag. */
    inlay_status (*cost)(void *state, const inlay_cost_request *request, inlay_cost *out_cost, inlay_diag *diag);

    /* Prepares a region. INLAY_UNSUPPORTED declines it: the host withdraws its offers and assigns the graph again. If
     * diag->node names a node of the region, only the offers of that node are withdrawn. Any other failure ends the
     * creation of the session. assess, cost and compile are also called during a run if the host has to assign the
     * graph again, because specialize declined or a device failed; a failure then ends that run. */
    inlay_status (*compile)(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                            inlay_diag *diag);
    void (*release_compiled)(void *state, inlay_compiled *compiled);
    /* Prepares a region for concrete shapes. *out_instance may be the compiled region, cast, if it does not depend on
     * shapes. Called in the first run at new shapes, or in every run if shapes depend on data; it may be called again
     * for shapes that it has prepared before. INLAY_UNSUPPORTED declines as in compile, but only for these shapes of
     * the graph's inputs, which the host remembers. Any other failure ends the run. */
    inlay_status (*specialize)(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out_instance, inlay_diag *diag);
    void (*release_instance)(void *state, inlay_compiled *compiled, inlay_instance *instance);
    /* Runs the region, or submits it to the device and returns (INLAY_PROVIDER_ASYNC). If it fails, no work of this
     * call may be in flight, and the provider does not signal: the host treats args->signal as failed. The same applies
     * to buffer_copy. */
    inlay_status (*execute)(void *state, inlay_compiled *compiled, inlay_instance *instance,
                            const inlay_exec_args *args);

    /* The engine cache: blobs from which compile and specialize start faster than from the graph. Optional, both or
     * neither. fingerprint sets *out, whose struct_size the host sets; it identifies device, driver and build, and is
     * also part of the keys of measured times. The host passes a blob on only if it was stored for an equal region. Two
     * regions are equal if these are equal:
     *  - the provider: name, build_id of its plugin, options that the user set, fingerprint;
     *  - the operators with their versions and attributes, the values between them, the order of inputs and of outputs;
     *  - contents of constants, elements that are known before the run, and types and shapes of all values: fixed
     *    sizes by value, symbols by their bounds and by where they recur, expressions of symbols also by their text;
     *  - the placements of inputs and outputs: their types, and their domains by index in the provider's list;
     *  - what inlay_fingerprint.flags adds.
     * The key has no other part: not the names of nodes and values, their indices, the rest of the graph, the
     * cookies, or the number of threads. So a layer that two models share is built once, and a blob must depend on
     * nothing that is not in its key. cache_verdict sets request->verdict; a failure counts as
     * INLAY_CACHE_RECOMPILE. */
    inlay_status (*fingerprint)(void *state, inlay_fingerprint *out, inlay_diag *diag);
    inlay_status (*cache_verdict)(void *state, inlay_cache_request *request, inlay_diag *diag);

    /* Memory of domains; alloc, free and copy are required if domain_count > 0. buffer_alloc sets handle, offset and
     * domain of *out; the host sets bytes. Handle 0 is never valid: if the provider sets it, the host fails the call
     * with INLAY_INTERNAL and regards nothing as allocated. Buffers are not cleared. buffer_free gets the same buffer;
     * no work in flight uses it. INLAY_OUT_OF_MEMORY: the domain is full; the host may free memory and try again. */
    inlay_status (*buffer_alloc)(void *state, const inlay_alloc_request *request, inlay_buffer *out, inlay_diag *diag);
    void (*buffer_free)(void *state, const inlay_free_request *request);
    /* Copies min(source.bytes, target.bytes) bytes, possibly 0, for each copy of the request, between the host's domain
     * and one of this provider's, or within this provider's domains. Asynchronous providers wait for the fences, copy,
     * and signal when all copies are done. Other providers have finished the copies when they return. */
    inlay_status (*buffer_copy)(void *state, const inlay_copy_request *request, inlay_diag *diag);
    /* buffer_map maps a buffer into host memory, and buffer_unmap ends the mapping. Required if a domain is
     * HOST_VISIBLE, otherwise optional. Buffers of a domain that is HOST_VISIBLE and COHERENT may stay mapped while the
     * device uses them; fences order the accesses. The host maps a buffer once at a time, and unmaps the same buffer
     * before buffer_free. */
    inlay_status (*buffer_map)(void *state, const inlay_map_request *request, void **out_address, inlay_diag *diag);
    void (*buffer_unmap)(void *state, const inlay_unmap_request *request);
    /* Optional; required if a domain has IMPORTS_HOST or imports. Makes existing memory a buffer of the provider:
     * memory of the same device, host memory (a tensor of the user), or memory that another driver exports. The memory
     * outlives the buffer; buffer_free ends only the import. INLAY_MEMORY_BORROWED and INLAY_MEMORY_OWNED state when a
     * file descriptor is closed. INLAY_UNSUPPORTED: memory of a kind that the provider does not import, memory of
     * another device, or memory that the provider cannot import (host memory that begins in the middle of a page, rows
     * with a pitch); the host then copies, or reports it to the user. *out is set as by buffer_alloc. */
    inlay_status (*buffer_import)(void *state, const inlay_import_request *request, inlay_buffer *out,
                                  inlay_diag *diag);
    /* Optional; required if a domain has exports. Returns the identity of a buffer's memory for other libraries, as a
     * handle of the requested kind. ownership states who closes a file descriptor. INLAY_UNSUPPORTED: the buffer has no
     * handle of this kind. */
    inlay_status (*buffer_export)(void *state, const inlay_export_request *request, inlay_native_memory *out,
                                  inlay_diag *diag);

    /* Optional: returns a table of further functions by its name (INLAY_EXT_* in inlay/extensions.h), or NULL. The
     * table lives as long as the state. Called at any time between create and destroy, also before describe, and any
     * number of times; the answer to a name is always the same. */
    const void *(*extension)(void *state, const char *name);

    /* Optional: calls request->device for each device, whether create would accept it or not. It opens no device and
     * leaves no state behind. ctx is the same as for create, which may be running concurrently. INLAY_UNSUPPORTED, with
     * the reason in diag: there can be no device (no driver). NULL: the provider has one device, described by the
     * fields above. */
    inlay_status (*enumerate)(void *ctx, const inlay_enumerate_request *request, inlay_diag *diag);
    /* Optional: describes the device that create opened and its domains. Called once, after create. */
    inlay_status (*describe)(void *state, const inlay_describe_request *request, inlay_diag *diag);

    /* Optional, both or neither: creates the objects of one context for an instance. A context executes one run at a
     * time, so at most one execute uses a binding at a time (until its signal is reached). Called when the context
     * first runs these shapes, and again, after release_binding, when addresses change permanently. Released before the
     * instance. INLAY_UNSUPPORTED: no binding for this instance; execute then gets NULL. Any other failure ends the
     * run. */
    inlay_status (*bind)(void *state, inlay_compiled *compiled, inlay_instance *instance, const inlay_bind_args *args,
                         inlay_binding **out_binding, inlay_diag *diag);
    void (*release_binding)(void *state, inlay_compiled *compiled, inlay_instance *instance, inlay_binding *binding);

    /* Optional: estimates the cost of a region that the host has formed of several offers. It is for providers whose
     * costs of a region differ from the sum of the offers' costs, because an engine fuses or runs out of on-chip
     * memory. The host forms regions by the costs of the offers, asks for the price of each region of more than one
     * offer, and assigns the graph once more with these prices. The host does not ask if the time of one of these
     * offers was measured or calibrated. ns includes the times that enter_ns and leave_ns of the offers state; these
     * two fields of *out_cost are ignored. After a failure, for instance INLAY_UNSUPPORTED, or with an invalid ns the
     * host uses the sum. */
    inlay_status (*cost_region)(void *state, const inlay_region_cost_request *request, inlay_cost *out_cost,
                                inlay_diag *diag);

    /* The number of fences that execute and buffer_copy accept in waits; 0 = any number. If there are more fences, the
     * host waits for some of them itself, and passes the others. */
    uint32_t max_waits;
    uint32_t reserved;
} inlay_provider;

/* Flags of plugins. */
enum {
    /* may be unmapped after shutdown: no thread, atexit function or TLS destructor remains */
    INLAY_PLUGIN_DLCLOSE = 1u << 0
};

/* The description of a plugin. The first five members are the same in every major version, so that a host can name a
 * plugin that it rejects. */
typedef struct inlay_plugin {
    uint64_t struct_size;
    uint32_t abi_major; /* INLAY_ABI_MAJOR and INLAY_ABI_MINOR when the plugin was compiled */
    uint32_t abi_minor;
    const char *name;    /* name of the plugin; providers have separate names */
    const char *version; /* "1.2.0" */
    /* identifies the build: changes with every build that may compute different results; part of cache keys. The
     * host refuses a plugin whose build_id is NULL or empty. The kit fills it in; without the kit it is any text, such
     * as a version with the build time */
    const char *build_id;
    uint32_t flags; /* INLAY_PLUGIN_* */
    uint32_t provider_count;
    const inlay_provider *providers; /* [provider_count] */
    const inlay_operator *operators; /* [operator_count] */
    uint32_t provider_stride;
    uint32_t operator_count;
    uint32_t operator_stride;
    uint32_t reserved;
    void *ctx;                   /* first argument of shutdown */
    void (*shutdown)(void *ctx); /* optional */
} inlay_plugin;

/* The exported symbol. host outlives the plugin. *out_plugin must stay valid until shutdown has returned; usually it is
 * static const. A plugin rejects a host that is too old or too new with INLAY_UNSUPPORTED and a message. */
#define INLAY_PLUGIN_OPEN_SYMBOL "inlay_plugin_open"
typedef inlay_status (*inlay_plugin_open_fn)(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag);
INLAY_EXPORT inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag);

/* Details of the contract.
 *  - Blobs. The file of a blob has its key and a checksum, and the host verifies both: a blob that cache_verdict,
 *    compile or specialize gets is what this provider stored for an equal region, and no other one. cache_verdict
 *    decides what the key does not say: whether this build and this driver still read the format of the blob. It
 *    answers for any bytes of any length without a crash, as plugin-check also passes truncated and damaged blobs.
 *  - Timelines. The values of a timeline are reached in ascending order: work that signals a value waits for the work
 *    that signals lower values of the same timeline, or is submitted after that work has ended. Fences of different
 *    timelines are reached in any order.
 *  - Outputs in another domain. output_alloc allocates in the provider's default domain only, so an output that a
 *    placement puts into another domain must be KNOWN or BOUNDED.
 *  - Growth of answers. inlay_buffer never grows. A later minor version may append members to inlay_output_request that
 *    point to further answers, as inlay_compile_request.resident_bytes does.
 *  - Bounds. An array whose comment states no bound may have any number of elements, such as inlay_copy_request.copies;
 *    a device that takes fewer at once submits several lists. waits are at most max_waits.
 *  - Notices. `reached` of a notice may call the three functions that its comment names, but not log: a provider keeps
 *    the text and logs it in its next call.
 *  - enumerate may run while other threads are in create or in any other function with the same ctx.
 *  - Exit. When the process exits, the host calls nothing, neither destroy nor shutdown, so threads of the plugin may
 *    still exist. The plugin's static destructors run while threads of the application may still be in its functions:
 *    they free nothing that a call uses, and call no function of the host.
 *  - Measured times. `inlay tune` takes the time from the call of execute until it returns, or until its signal is
 *    reached. If the calling thread has not waited meanwhile (no voluntary context switch), `inlay tune` takes the
 *    thread's CPU time instead, which does not contain the time that other processes took.
 *  - Byte order. Numbers have the byte order of the machine. Packed elements fill each byte from its low bits on, so
 *    their bytes are the same on every machine. */

#ifdef __cplusplus
}
#endif
#endif
