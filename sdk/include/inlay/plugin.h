/* inlay/plugin.h - the plugin ABI, version 1. This header is the manual.
 *
 * A plugin is a shared object that brings execution providers, operators of its own, or both. It exports one symbol,
 * inlay_plugin_open(), and links to nothing of inlay: what it needs from the host comes in a table. The life of a
 * plugin is
 *
 *     inlay_plugin_open     describe yourself; pure: no thread, no device, no file
 *     provider.enumerate    list the devices that there are; opens none
 *     provider.create       open the device, read the options
 *     provider.describe     what it is like, now that it is open
 *     provider.assess       look at a graph, make offers, say why not where there is none
 *     provider.cost         what would this offer cost at these shapes?
 *     provider.compile      the host chose a region: prepare it once, pack its weights
 *     provider.specialize   prepare it for concrete shapes; says how much workspace a run needs
 *     provider.bind         keep something for one context and its addresses: recorded commands, a graph of the driver
 *     provider.execute      run it, or enqueue it; no heap use, any number of times, from any thread
 *     provider.release_*    undo bind, specialize, compile
 *     provider.quiesce      stop: finish what is in flight, start nothing
 *     provider.destroy      close the device
 *     plugin.shutdown       the end: the host may dlclose afterwards if the plugin allows it; one that stays mapped may
 *                           be opened again
 *
 * Before the first of these the host reads the plugin's ELF note (inlay/note.h), and has a process of its own try what
 * it has not seen before: see "How plugins are loaded" in README.md.
 *
 * Most authors do not fill these in by hand: the kit (inlay/kit.h) turns a table of kernels into a provider.
 *
 * Rules that hold everywhere:
 *  - Growth. Every struct that is passed on its own starts with struct_size, the sizeof its writer was compiled with;
 *    every array states the stride of its elements. Fields are appended, never moved or removed. Code asks whether
 *    struct_size reaches a field (INLAY_HAS), never for a version; for an element of an array it asks the stride
 *    (INLAY_STRIDE_HAS). What is past either reads as zero = default. Structs that have neither never grow: inlay_str,
 *    inlay_dim, inlay_layout, inlay_buffer, inlay_fence, inlay_tensor_view.
 *    Unknown flag bits are refused where the low half of the word is concerned and ignored in the high half.
 *  - Ownership. What a call receives is borrowed for that call unless its comment says otherwise. Nobody frees what
 *    another module allocated.
 *  - Errors. A status by value, the sentence in the caller's inlay_diag. Nothing aborts, nothing unwinds across. The
 * host never passes a NULL diag. The status returned is what counts: the host sets diag->code to it, ends the texts,
 * makes them one line, and adds the names of provider and plugin. Text alone is enough; error_class 0 is replaced by
 * the class that belongs to the status. A status that the host does not know counts as INLAY_INTERNAL. What a call that
 *    succeeds has written into diag is ignored.
 *  - Out parameters. The host sets struct_size and zeroes the rest (pointers: NULL) before each call, and reads them
 * only after INLAY_OK. Where another value is pre-set, the field's comment says so.
 *  - Context. Every callback gets the context pointer that stands beside it as its first argument.
 *  - Threads. open, create and destroy are called by one thread at a time. assess, cost, compile and specialize may be
 *    called by several threads at once for different graphs; execute by any number for different runs.
 *  - Optional entries are marked; NULL means the default that the comment gives. All others must be set.
 *
 * What a plugin leaves alone. It runs in somebody else's process. When a call returns, these are as they were before
 * it: rounding mode, flush-to-zero and floating-point traps (the host sets them back after each call); locale, working
 * directory, umask, environment, signal handlers and masks, resource limits; stdin, stdout and stderr, to which a
 * plugin prints nothing (inlay_host.log is for that), and every file descriptor that it did not open. It does not fork,
 * and calls neither exit nor abort. Threads of its own are started in create or later and joined in destroy. It does
 * not rely on thread-local variables from one call to the next: the host calls from any thread. C++ exceptions are
 * caught within the plugin. `inlay plugin-check` looks for what a plugin changes of these. */
#ifndef INLAY_PLUGIN_H
#define INLAY_PLUGIN_H
#include "inlay/note.h"
#include "inlay/status.h"
#include "inlay/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define INLAY_ABI_MAJOR 1u /* changes only when old plugins can no longer be loaded; we mean never to */
#define INLAY_ABI_MINOR 0u /* counts appended fields, for people to read; code uses INLAY_HAS */

/* Does the struct behind p, as its writer was compiled, reach field? */
#define INLAY_HAS(p, field) ((p)->struct_size >= offsetof(__typeof__(*(p)), field) + sizeof((p)->field))

/* The same for the elements of an array of type with the given stride. */
#define INLAY_STRIDE_HAS(type, stride, field) ((stride) >= offsetof(type, field) + sizeof(((const type *)0)->field))

/* The i-th element of an array that was laid out with another stride than ours. */
#define INLAY_AT(type, array, stride, i) ((const type *)(const void *)((const char *)(array) + (size_t)(stride) * (i)))

#if defined(__GNUC__)
#define INLAY_EXPORT __attribute__((visibility("default")))
#else
#define INLAY_EXPORT
#endif

/* ------------------------------------------------------------------ the graph that a plugin sees
 *
 * A flat, read-only snapshot: nodes in topological order and values, both known by index. It holds no subgraphs: If,
 * Loop and Scan are the host's, each body being a graph of its own, except for providers that ask for them
 * (INLAY_EXT_BODIES in extensions.h). Attributes are complete: defaults of the operator version have been filled in.
 * Everything is borrowed for the call that receives it, save constant data, see inlay_compile_request.constants.
 *
 * Operators that the file does not have. The optimiser writes some, at the newest version that it needs, whatever the
 * model imports (Swish-24 in a model of opset 17): inlay_node_info.since_version says which. A provider need not know
 * them. What no provider offers becomes again what it replaced; what one provider offers only as it was, and another
 * only as it became, is run in the form that costs less. These are the operators, beside those of the file:
 *     of ai.onnx: Add, Attention, AveragePool, Cast, Clip, Concat, ConvInteger, DequantizeLinear, Div, Einsum, Expand,
 *     Gelu, Gemm, GlobalAveragePool, HardSigmoid, HardSwish, Identity, LayerNormalization, LeakyRelu, LogSoftmax,
 *     MatMul, MatMulInteger, Max, Min, Mish, Mul, Not, Or, QLinearConv, QuantizeLinear, RMSNormalization, ReduceMax,
 *     ReduceMean, ReduceMin, ReduceSum, Reshape, Round, SequenceConstruct, Shape, Sigmoid, Slice, Softmax, Split,
 *     Squeeze, Sub, Swish, Transpose, Unsqueeze, Where;
 *     of com.microsoft: SkipLayerNormalization, SkipSimplifiedLayerNormalization;
 *     of ai.inlay (inlay's own): Attention, SearchEnd, SearchStart, SearchStep, SparseToDense.
 * The list grows by ABI minor: a plugin that was built for an older one is not asked about what was added since
 * (such a node is no candidate of its). */

enum {
    INLAY_ATTR_FLOAT = 1,
    INLAY_ATTR_INT = 2,
    INLAY_ATTR_STRING = 3,
    INLAY_ATTR_TENSOR = 4,
    INLAY_ATTR_FLOATS = 6,
    INLAY_ATTR_INTS = 7,
    INLAY_ATTR_STRINGS = 8
};

/* A tensor in host memory, dense row-major. */
typedef struct inlay_tensor_view {
    const void *data; /* count elements, sub-byte types packed; may be misaligned only where a comment says so */
    uint64_t bytes;
    const int64_t *dims; /* [rank] */
    uint32_t rank;
    inlay_dtype dtype;
} inlay_tensor_view;

/* An attribute; kind says which members hold. */
typedef struct inlay_attr_info {
    inlay_str name;
    uint32_t kind;  /* INLAY_ATTR_*; other numbers are for the host only, skip them */
    uint32_t count; /* elements of floats, ints, strings */
    int64_t i;
    double f; /* the file's float, widened */
    inlay_str s;
    const int64_t *ints;
    const float *floats;
    const inlay_str *strings;
    const inlay_tensor_view *tensor;
} inlay_attr_info;

struct inlay_body;
/* A node. since_version is that of the operator's schema, not the model's opset: Add in opset 15 is Add-14. */
typedef struct inlay_node_info {
    inlay_str name;    /* unique in the graph, never empty: the host names nameless nodes */
    inlay_str domain;  /* "ai.onnx" for ONNX's own operators, never empty */
    inlay_str op_type; /* "Conv" */
    uint32_t since_version;
    uint32_t flags;          /* 0 in version 1 */
    const uint32_t *inputs;  /* [input_count] value indexes; INLAY_NONE = omitted */
    const uint32_t *outputs; /* [output_count] likewise */
    uint32_t input_count;
    uint32_t output_count;
    const inlay_attr_info *attrs;
    uint32_t attr_count;
    uint32_t attr_stride;            /* bytes from one attr to the next */
    const struct inlay_body *bodies; /* [body_count] of If, Loop and Scan, see INLAY_EXT_BODIES in extensions.h */
    uint32_t body_count;
    uint32_t body_stride;
} inlay_node_info;

enum { INLAY_VALUE_TENSOR = 1, INLAY_VALUE_SEQUENCE = 2, INLAY_VALUE_OPTIONAL = 3, INLAY_VALUE_MAP = 4 };
enum {
    INLAY_VALUE_GRAPH_INPUT = 1u << 0,
    INLAY_VALUE_GRAPH_OUTPUT = 1u << 1,
    /* data holds the elements. They are the same in every graph that has the value, but the pointer may be kept only as
     * inlay_compile_request.constants says. */
    INLAY_VALUE_CONSTANT = 1u << 2
};

/* A value: what an edge carries. */
typedef struct inlay_value_info {
    inlay_str name;
    uint32_t kind;         /* INLAY_VALUE_TENSOR ... ; providers meet TENSOR only */
    uint32_t flags;        /* INLAY_VALUE_GRAPH_INPUT ... */
    inlay_dtype dtype;     /* INLAY_UNDEFINED if inference could not tell */
    uint32_t rank;         /* INLAY_RANK_UNKNOWN, or the number of dims */
    const inlay_dim *dims; /* [rank] */
    const void *data;      /* elements when known before the run: constants and folded shape arithmetic; otherwise NULL.
                              Straight from the file, so it may be misaligned: read it with memcpy, or have the host
                              align it (inlay_host.align_constant) */
    uint64_t data_bytes;
    const inlay_dim *elements; /* small integer tensors whose elements are dimensions (Shape, Concat of dims):
                                  [element_count] row-major, or NULL */
    uint64_t element_count;
    uint64_t content_hash; /* of dtype, dims and data of a constant; 0 otherwise */
    uint32_t producer;     /* node index, INLAY_NONE for inputs and constants */
    uint32_t reserved;
} inlay_value_info;

/* A named dimension, with bounds where they are known. */
typedef struct inlay_symbol_info {
    inlay_str name; /* as in the model ("batch"), or an expression over such ("(height/2)") */
    int64_t min;    /* at least 0 */
    int64_t max;    /* INT64_MAX = unknown */
} inlay_symbol_info;

typedef struct inlay_graph {
    uint64_t struct_size;
    inlay_str name;
    uint64_t content_hash; /* of the structure, attributes and constants: the key of any cache */
    const inlay_node_info *nodes;
    const inlay_value_info *values;
    const inlay_symbol_info *symbols; /* index 0 is reserved */
    const uint32_t *inputs;           /* value indexes */
    const uint32_t *outputs;
    uint32_t node_count, node_stride;
    uint32_t value_count, value_stride;
    uint32_t symbol_count, symbol_stride;
    uint32_t input_count, output_count;
    uint64_t constant_bytes; /* of all constants: what a run reads, and caches keep or not */
} inlay_graph;

static inline const inlay_node_info *inlay_graph_node(const inlay_graph *graph, uint32_t node)
{
    return INLAY_AT(inlay_node_info, graph->nodes, graph->node_stride, node);
}
static inline const inlay_value_info *inlay_graph_value(const inlay_graph *graph, uint32_t value)
{
    return value == INLAY_NONE ? NULL : INLAY_AT(inlay_value_info, graph->values, graph->value_stride, value);
}

/* ------------------------------------------------------------------ what the host lends
 *
 * One table for the whole life of the plugin. */

typedef struct inlay_run inlay_run; /* one execution in progress; opaque */

enum { INLAY_LOG_ERROR = 0, INLAY_LOG_WARNING = 1, INLAY_LOG_INFO = 2, INLAY_LOG_DEBUG = 3 };

/* Body of a parallel loop over [begin, end). worker is below thread_count(run) for the run that the loop was given, and
 * no two calls of one loop that run at the same time share it. Scratch for each worker is sized for
 * inlay_specialize_request.max_threads, which thread_count(run) never exceeds. A status other than INLAY_OK stops the
 * hand-out of further ranges and is returned by the loop. */
typedef inlay_status (*inlay_parallel_fn)(void *user, int64_t begin, int64_t end, uint32_t worker);

/* What a provider wants to be told of a fence. The provider's memory, at its place until `reached` is called or
 * fence_forget has taken it back. */
typedef struct inlay_fence_notice {
    uint64_t struct_size;
    inlay_fence fence;
    /* The fence was reached (INLAY_OK), or never will be: why, for the call alone. Called once, from the thread that
     * signals, or within fence_notify; it returns at once, and calls nothing of the host's but fence_signal,
     * fence_query and fence_notify. The notice may be used again from here on. */
    void (*reached)(void *user, inlay_status status, const inlay_diag *why);
    void *user;
    uint64_t host_use[3]; /* the host's while it waits */
} inlay_fence_notice;

typedef struct inlay_host {
    uint64_t struct_size;
    uint32_t abi_major; /* the host's; a plugin that needs another refuses in open */
    uint32_t abi_minor;
    uint32_t abi_major_oldest; /* the host still loads plugins of this major */
    uint32_t reserved;
    void *ctx; /* first argument of everything below */

    /* Hands a line to the application's log. Any thread. */
    void (*log)(void *ctx, uint32_t level, const char *text);

    /* Runs fn over [0, count) on the one pool of the process (OpenMP's), in ranges of at least grain, and returns when
     * all are done. The calling thread takes part. A nested call runs on its caller. run (may be NULL outside a run)
     * holds the budget of its session. */
    inlay_status (*parallel_for)(void *ctx, inlay_run *run, int64_t count, int64_t grain, inlay_parallel_fn fn,
                                 void *user);
    /* The most workers that parallel_for may use for this run; run may be NULL: the process's budget. */
    uint32_t (*thread_count)(void *ctx, inlay_run *run);

    /* Memory for the output of a running region whose shape was not known before (INLAY_OUTPUT_ALLOCATED); output is
     * its place in the request's outputs. Fills *out, in the provider's default domain (the host may call buffer_alloc
     * from here), which lives as long as the output is needed. dims are copied. A repeated call for the same output
     * replaces it. */
    inlay_status (*output_alloc)(void *ctx, inlay_run *run, uint32_t output, uint32_t rank, const int64_t *dims,
                                 inlay_buffer *out);
    /* Bytes for the elements of string tensors, alive as long as the outputs of the run. NULL: out of memory. */
    char *(*string_alloc)(void *ctx, inlay_run *run, uint64_t bytes);

    /* INLAY_OK, INLAY_CANCELLED or INLAY_DEADLINE_EXCEEDED. Cheap; call it as often as the provider's poll_ms says. */
    inlay_status (*poll)(void *ctx, inlay_run *run);

    /* Fences. signal moves the timeline to value (never backwards) and wakes waiters; a status other than INLAY_OK
     * poisons it: waiters get that status. wait blocks until value is reached or the run is cancelled. Any thread. */
    void (*fence_signal)(void *ctx, inlay_fence fence, inlay_status status, const inlay_diag *why);
    inlay_status (*fence_wait)(void *ctx, inlay_run *run, inlay_fence fence, inlay_diag *diag);

    /* The constant of a snapshot value at an address that is a multiple of alignment (a power of two, at most 4096),
     * for as long as the region that is being compiled lives. Copies only when the file did not align it, once per
     * constant. compile is the inlay_compile_request.handle in hand. NULL: out of memory, or no constant. */
    const void *(*align_constant)(void *ctx, void *compile, uint32_t value, uint32_t alignment);

    /* A table of optional functions by name ("inlay.telemetry/1"), NULL when this host has none of that name. */
    const void *(*extension)(void *ctx, const char *name);

    /* Waiting without a thread. notify calls notice->reached as soon as the fence is reached or poisoned, whoever
     * signals it; it takes no memory and cannot fail. forget takes a notice back: 1 = it will not be called; 0 = it
     * was, or is being called. query: 1 = the fence is reached or never will be, and *out_status (may be NULL) says
     * which. Any thread. */
    void (*fence_notify)(void *ctx, inlay_fence_notice *notice);
    uint32_t (*fence_forget)(void *ctx, inlay_fence_notice *notice);
    uint32_t (*fence_query)(void *ctx, inlay_fence fence, inlay_status *out_status);
} inlay_host;

/* ------------------------------------------------------------------ options */

enum {
    INLAY_OPTION_BOOL = 1,
    INLAY_OPTION_INT = 2,
    INLAY_OPTION_FLOAT = 3,
    INLAY_OPTION_STRING = 4,
    INLAY_OPTION_ENUM = 5
};

/* One setting of a provider. The host parses the text, checks it, refuses unknown names with the nearest known one, and
 * shows name, default, range and doc in its help. */
typedef struct inlay_option {
    const char *name;          /* lower_case, the same in YAML, on the command line and here */
    const char *doc;           /* one sentence, with the unit */
    const char *default_value; /* as text; NULL = unset */
    const char *choices;       /* ENUM: the words, separated by '|'; otherwise NULL */
    int64_t min, max;          /* INT: inclusive; 0, 0 = any */
    uint32_t kind;             /* INLAY_OPTION_* */
    uint32_t reserved;
} inlay_option;

/* The value of an option after parsing, in the order of the schema. */
typedef struct inlay_option_value {
    const char *name;
    const char *s; /* STRING and ENUM; NULL = unset */
    int64_t i;     /* INT, BOOL (0, 1) */
    double f;      /* FLOAT */
    uint32_t kind;
    uint32_t is_set; /* 1: somebody set it; 0: the default */
} inlay_option_value;

/* ------------------------------------------------------------------ offers and refusals */

/* Where a boundary value of an offer must lie, and how. Values without one use the provider's own default: domain
 * inlay_provider.default_domain (counted from first_domain, see create), row-major. Several placements of one value are
 * alternatives, best first.
 *
 * Layouts other than INLAY_LAYOUT_ROW_MAJOR are reserved: a host of this version takes a placement that asks for one as
 * not there, and every boundary is row-major.
 *
 * dtype asks for other elements than the model's: a placement with one is taken only between regions of one provider,
 * in a domain of its own, where the region that makes the value and all that read it list the same, the value is no
 * output of the graph, and its shape does not depend on data. Elsewhere the placement counts as not there, so that
 * every value with one needs another without, or the default does. What was agreed on is in
 * inlay_compile_request.placements, and inlay_tensor_arg.dtype of a run has it; shapes and states keep the model's. */
typedef struct inlay_placement {
    uint32_t value;  /* index in the snapshot */
    uint32_t domain; /* INLAY_DOMAIN_HOST, or an id of this provider */
    inlay_layout layout;
    inlay_dtype dtype; /* of the elements between two regions; INLAY_UNDEFINED = the model's */
    uint32_t reserved;
} inlay_placement;

enum {
    /* May be compiled into one region with neighbouring offers of this provider. Without it the host compiles and
     * schedules the offer on its own, and plans the memory between. */
    INLAY_OFFER_MERGE = 1u << 0,
    /* With MERGE: only into regions that are connected, that is, whose offers all hang together by values that one of
     * them makes and another reads. Hosts from before the flag ignore it. */
    INLAY_OFFER_CONNECTED = 1u << 16
};

/* Regions. What a provider that merges is asked to compile is any set of its offers that were chosen, such that all of
 * it can run at one point of the order: no value leaves the region and comes back into it through other nodes. Beyond
 * that nothing is promised:
 *  - connected or not: two branches, even two ends of the graph that have nothing to do with each other, may be one
 *    region, unless the offers ask for INLAY_OFFER_CONNECTED;
 *  - one shape or many: nodes of other sizes, ranks and element types stand side by side;
 *  - around foreign nodes: what another provider runs may read a value of the region, or make one of its inputs, and
 *    indexes between those of the region's nodes may be missing;
 *  - how large: from one offer to the whole graph; nothing limits nodes, inputs or outputs;
 *  - a value that leaves is an output once, whoever reads it within and outside; one that enters is an input once, also
 *    when a node reads it twice; a node may have outputs that nobody reads.
 * A form that can't be compiled is declined (see inlay_provider.compile). */

/* "I can run these nodes." Offers may overlap; the host picks. An offer that breaks a rule (a node index out of range,
 * a group that would form a cycle) voids itself only, with a log line. */
typedef struct inlay_offer {
    uint64_t struct_size;
    uint64_t cookie;       /* the provider's; comes back in cost and compile */
    const uint32_t *nodes; /* ascending indexes; several = a group that runs as one */
    uint32_t node_count;
    uint32_t flags; /* INLAY_OFFER_* */
    const inlay_placement *placements;
    uint32_t placement_count;
    uint32_t placement_stride;
    uint64_t workspace_bytes; /* estimate for one run; 0 = unknown or none */
    uint64_t resident_bytes;  /* packed weights kept between runs, estimate; compile tells how many they are */
} inlay_offer;

enum {
    INLAY_REFUSE_OPERATOR = 1,  /* no such operator here */
    INLAY_REFUSE_VERSION = 2,   /* the operator, but not this since_version */
    INLAY_REFUSE_DTYPE = 3,     /* an element type */
    INLAY_REFUSE_SHAPE = 4,     /* a rank, a size, or a shape that must be known */
    INLAY_REFUSE_ATTRIBUTE = 5, /* a value of an attribute */
    INLAY_REFUSE_DEVICE = 6,    /* the device lacks something */
    INLAY_REFUSE_MEMORY = 7,
    INLAY_REFUSE_OPTION = 8, /* the user's options forbid it */
    INLAY_REFUSE_LATE = 9    /* the host's own word for an offer that compile or specialize declined */
};

/* "I can't run this node, because". Due for every candidate that is in no offer. One for a node that is no candidate is
 * ignored; one for a node that is in an offer, too, does not void the offer, and is shown only where it is not chosen.
 */
typedef struct inlay_refusal {
    uint64_t struct_size;
    uint32_t node;
    uint32_t code;           /* INLAY_REFUSE_* */
    const char *text;        /* a sentence: "input 1 is int8; this kernel takes float and double" */
    const char *accepted_if; /* what would make it acceptable: "insert a Cast to float", NULL = nothing would */
} inlay_refusal;

/* Where assess puts its answers. The host copies what it is handed. */
typedef struct inlay_assess_sink {
    uint64_t struct_size;
    void *ctx;
    inlay_status (*offer)(void *ctx, const inlay_offer *offer);
    inlay_status (*refuse)(void *ctx, const inlay_refusal *refusal);
} inlay_assess_sink;

/* ------------------------------------------------------------------ cost */

enum { INLAY_CONFIDENCE_GUESS = 0, INLAY_CONFIDENCE_MODEL = 1, INLAY_CONFIDENCE_MEASURED = 2 };

/* Zeroed by the host but for struct_size. An answer whose ns is negative, infinite or NaN counts as none: the offer
 * is then taken only where there is no other. enter_ns and leave_ns that are so count as 0. */
typedef struct inlay_cost {
    uint64_t struct_size;
    double ns;           /* required: expected time of one run, nanoseconds, without copies to and from other domains */
    double flops;        /* floating or integer operations done */
    uint64_t bytes_read; /* memory traffic, caches cold */
    uint64_t bytes_written;
    uint32_t confidence; /* INLAY_CONFIDENCE_* */
    uint32_t reserved;
    /* Of an offer that merges: ns is its time as a part of a region, among its like. What comes to that when the values
     * that it reads enter the region there, and when those that it makes leave it: mostly changes of their layout. */
    double enter_ns;
    double leave_ns;
} inlay_cost;

/* A value at concrete shapes, when planning. Arrays of these run parallel to inlay_graph.values. All pointers are
 * borrowed for the call. */
typedef struct inlay_value_state {
    const int64_t *dims; /* [rank]; -1 = known only when the data is; NULL when rank is unknown */
    const void *data;    /* host elements when known before the run, aligned; otherwise NULL */
    uint64_t data_bytes;
    uint32_t rank; /* or INLAY_RANK_UNKNOWN */
    inlay_dtype dtype;
} inlay_value_state;

/* What cost is asked. */
typedef struct inlay_cost_request {
    uint64_t struct_size;
    const inlay_graph *graph;
    const inlay_offer *offer;        /* as the provider made it */
    const inlay_value_state *values; /* [value_count] parallel to graph->values */
    uint32_t value_count;
    uint32_t value_stride;
    uint32_t max_threads; /* workers that a run may use */
    uint32_t reserved;
} inlay_cost_request;

/* ------------------------------------------------------------------ compile, specialize, execute */

enum {
    INLAY_CONST_BORROWED = 0, /* execute reads the host's copy: keep it (the default) */
    INLAY_CONST_COPIED = 1,   /* the provider holds its own: the host may drop the original */
    INLAY_CONST_PACKED = 2    /* the same, in a layout of its own */
};

/* A region to prepare. The provider keeps no pointer into it after the call, except to constants that it answers
 * BORROWED for: those stay mapped at the address given (or at align_constant's) until release_compiled. */
typedef struct inlay_compile_request {
    uint64_t struct_size;
    void *handle; /* for inlay_host.align_constant */
    const inlay_graph *graph;
    const uint32_t *nodes;   /* the region, ascending */
    const uint64_t *cookies; /* [offer_count] of the offers it is made of */
    const uint32_t *inputs;  /* values that enter, without constants; execute gets them in this order */
    const uint32_t *outputs; /* values that leave, likewise */
    uint32_t node_count;
    uint32_t offer_count;
    uint32_t input_count;
    uint32_t output_count;
    const inlay_placement *placements; /* [input_count + output_count]: what was negotiated */
    uint32_t placement_stride;         /* the size of an element also where there is none */
    uint32_t reserved;
    uint8_t *constants; /* [graph->value_count] out: INLAY_CONST_* of the constants that the region reads */

    const void *cache_blob; /* what store_cache was given for the same content hash and fingerprint, or NULL */
    uint64_t cache_bytes;
    void *ctx; /* first argument of the three below; each may be NULL */
    inlay_status (*store_cache)(void *ctx, const void *blob, uint64_t bytes);
    void (*progress)(void *ctx, double fraction, const char *what);
    inlay_status (*poll)(void *ctx); /* INLAY_CANCELLED when the user gave up */

    /* The shapes that runs are expected to have, for choosing kernels; a hint. NULL = none. */
    const inlay_value_state *profile; /* [graph->value_count] */
    uint32_t profile_stride;
    uint32_t max_threads; /* workers that a run may use */
    /* Out, or NULL: bytes that the region keeps in the provider's domains until release_compiled. What is written
     * counts against a limit of memory in place of the offers' estimates. */
    uint64_t *resident_bytes;
} inlay_compile_request;

typedef struct inlay_compiled inlay_compiled; /* the provider's, shared by all shapes and threads */
typedef struct inlay_instance inlay_instance; /* a compiled region at concrete shapes; immutable */

enum {
    INLAY_OUTPUT_KNOWN = 0,    /* its shape is what the host inferred: the host brings the buffer */
    INLAY_OUTPUT_BOUNDED = 1,  /* at most max_bytes: the host brings a buffer of that size, execute writes dims */
    INLAY_OUTPUT_ALLOCATED = 2 /* execute calls inlay_host.output_alloc */
    /* Of BOUNDED and ALLOCATED outputs the dims are there when execute returns, also in asynchronous providers, which
     * wait for what they need; only the elements may come later, with the signal. */
};
typedef struct inlay_output_plan {
    uint64_t max_bytes; /* BOUNDED */
    uint32_t kind;      /* INLAY_OUTPUT_* */
    uint32_t alias;     /* input (index in the request's inputs) whose buffer the output may share: execute works in
                           place. INLAY_NONE = no */
} inlay_output_plan;

/* In: the shapes; the dims of the region's inputs are all known. Out: what a run needs. */
typedef struct inlay_specialize_request {
    uint64_t struct_size;
    const inlay_value_state *values; /* [graph->value_count] of the compile's snapshot */
    uint32_t value_count;
    uint32_t value_stride;
    uint32_t max_threads; /* workers that a run may use */
    uint32_t reserved;
    uint64_t workspace_bytes;     /* out: scratch in the provider's default domain, pre-set to 0 */
    uint64_t workspace_alignment; /* out: pre-set to 64 */
    inlay_output_plan *outputs;   /* out: [output_count], pre-set to KNOWN without alias */
    uint32_t output_count;
    uint32_t output_stride; /* bytes from one output plan to the next */
    /* [input_count of the region], or NULL. Not 0: the input is a state in place (INLAY_EXT_STATES in extensions.h),
     * whose memory has room for so many along its axis; so has the output that is appended to it. */
    const uint64_t *rooms;
} inlay_specialize_request;

/* A tensor of a run. In host memory it starts at a multiple of 64 bytes when the host placed it, and of the element's
 * size when the user did. Tensors without elements have a handle too. */
typedef struct inlay_tensor_arg {
    inlay_buffer buffer; /* handle 0: an output of kind ALLOCATED */
    int64_t *dims;       /* [rank]; execute writes them for BOUNDED outputs, otherwise read-only */
    uint32_t rank;
    inlay_dtype dtype;
} inlay_tensor_arg;

typedef struct inlay_binding inlay_binding; /* what a provider keeps for one context, see inlay_provider.bind */

/* Borrowed for the call, save that run and cancel stay valid until signal is reached. */
typedef struct inlay_exec_args {
    uint64_t struct_size;
    inlay_run *run;
    inlay_tensor_arg *inputs; /* [input_count] in the order of the compile request */
    inlay_tensor_arg *outputs;
    uint32_t input_count;
    uint32_t output_count;
    uint32_t arg_stride;
    uint32_t wait_count;
    inlay_buffer workspace;
    const uint32_t *cancel;   /* 0 until the run is to stop; read it atomically, or call inlay_host.poll */
    uint64_t deadline_ns;     /* CLOCK_MONOTONIC; 0 = none */
    const inlay_fence *waits; /* [wait_count] who must be done before: makers of inputs, and users of the bytes that are
                                 written. Some may have been reached meanwhile */
    inlay_fence signal;       /* asynchronous providers signal it when the outputs are there */
    inlay_diag *diag;         /* of this call; not to be touched after it returns */
    inlay_binding *binding;   /* what bind made for this context; NULL: nothing */
    uint32_t own_wait_count;  /* the first so many of waits are signals that this provider was given: a device with one
                                 queue that works in order has nothing to wait for */
    uint32_t reserved;
} inlay_exec_args;

/* A region's tensors in one context. Addresses that change from run to run (the user's inputs and outputs) have
 * handle 0. */
typedef struct inlay_bind_args {
    uint64_t struct_size;
    const inlay_tensor_arg *inputs; /* [input_count] */
    const inlay_tensor_arg *outputs;
    uint32_t input_count;
    uint32_t output_count;
    uint32_t arg_stride;
    uint32_t reserved;
    inlay_buffer workspace;
} inlay_bind_args;

/* Copies that are asked for together: none reads or writes what another writes. */
typedef struct inlay_copy {
    inlay_buffer source;
    inlay_buffer target;
} inlay_copy;
typedef struct inlay_copy_request {
    uint64_t struct_size;
    inlay_run *run;
    const inlay_copy *copies; /* [copy_count] */
    const inlay_fence *waits; /* [wait_count] before any of them */
    inlay_fence signal;       /* when all are done */
    uint32_t copy_count;
    uint32_t copy_stride;
    uint32_t wait_count;
    uint32_t own_wait_count; /* as in inlay_exec_args */
} inlay_copy_request;

/* ------------------------------------------------------------------ domains */

enum {
    INLAY_DOMAIN_HOST_VISIBLE = 1u << 0, /* map gives an address */
    INLAY_DOMAIN_COHERENT = 1u << 1,     /* writes through a mapping need no unmap to be seen */
    INLAY_DOMAIN_IMPORTS_HOST = 1u << 2  /* import_host shares host memory without a copy */
};
typedef struct inlay_domain_info {
    const char *name;      /* "vulkan0.device" */
    uint64_t alignment;    /* bytes; of every buffer and of offsets */
    uint64_t memory_bytes; /* capacity; 0 = unknown */
    uint32_t flags;        /* INLAY_DOMAIN_* */
    uint32_t reserved;
} inlay_domain_info;

/* ------------------------------------------------------------------ providers */

/* A device. Texts that are not known are NULL. */
enum {
    INLAY_DEVICE_UNIFIED = 1u << 0 /* its memory is the host's */
};
typedef struct inlay_device_info {
    uint64_t struct_size;
    const char *name;      /* "NVIDIA H200" */
    const char *option;    /* the option that chooses it, "device", ... */
    const char *value;     /* ... and its value; NULL: there is nothing to choose */
    const char *unusable;  /* why create would refuse it; NULL: it would not */
    const char *facts;     /* what else people may want to know: "driver=550.1; subgroup=32" */
    uint64_t memory_bytes; /* 0 = unknown */
    uint64_t free_bytes;   /* of these now; 0 = unknown */
    uint32_t kind;         /* INLAY_DEVICE_CPU ... */
    uint32_t flags;        /* INLAY_DEVICE_UNIFIED */
} inlay_device_info;
enum {
    INLAY_PROVIDER_ASYNC = 1u << 0, /* execute and copy may return before the work is done, and signal their fence */
    /* Prices that are not measured are of one reference core, whatever CPU this is: one that does 320, 160 or 80 float
     * operations a nanosecond with AVX-512, with AVX2, and with neither. The host compares such prices as they are, so
     * that choices are the same on every CPU of a level; where it tells people a time, it multiplies by what the core
     * at hand is slower. */
    INLAY_PROVIDER_REFERENCE_CORE = 1u << 16
};
enum { INLAY_CACHE_OPTIMAL = 0, INLAY_CACHE_RECOMPILE = 1, INLAY_CACHE_UNSUPPORTED = 2 };

/* What create gets. */
typedef struct inlay_create_args {
    uint64_t struct_size;
    const inlay_option_value *options; /* [option_count] in the order of the schema */
    uint32_t option_count;
    uint32_t option_stride;
    uint32_t first_domain; /* domains[k] of this provider has the id first_domain + k */
    uint32_t max_threads;  /* the process's budget */
    /* A folder for files that make the next process start faster, named after the provider; they may vanish, or be
     * damaged. NULL: none. What belongs to a region goes through inlay_compile_request.store_cache instead. */
    const char *cache_dir;
} inlay_create_args;

typedef struct inlay_provider {
    uint64_t struct_size;
    const char *name;        /* [a-z0-9_], what configuration calls it */
    const char *description; /* one line */
    uint32_t device_kind;    /* INLAY_DEVICE_* */
    uint32_t flags;          /* INLAY_PROVIDER_* */
    const inlay_option *options;
    uint32_t option_count;
    uint32_t option_stride;
    const inlay_domain_info *domains; /* none for providers that work in host memory */
    uint32_t domain_count;
    uint32_t domain_stride;
    uint32_t default_domain; /* where its inputs, outputs and workspace lie: 0 = host, k = domains[k - 1] */
    uint32_t poll_ms;        /* a cancelled run ends within this many milliseconds; 0 = not cancellable */
    void *ctx;               /* first argument of create */

    /* Opens the device. *out_state is the first argument of everything below. A device that is not there is
     * INLAY_UNSUPPORTED, with the reason in diag. */
    inlay_status (*create)(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag);
    void (*destroy)(void *state);
    void (*quiesce)(void *state); /* optional: nothing is ever in flight */

    /* Reports offers and refusals for the nodes of graph. candidates[i] != 0 marks the nodes that may be offered; the
     * host keeps the rest for itself. */
    inlay_status (*assess)(void *state, const inlay_graph *graph, const uint8_t *candidates,
                           const inlay_assess_sink *sink, inlay_diag *diag);
    inlay_status (*cost)(void *state, const inlay_cost_request *request, inlay_cost *cost);

    /* INLAY_UNSUPPORTED takes the offer back: the host assigns the graph again without it. Where diag->node names a
     * node of the region, the offers of that node are meant, otherwise all of the region's. Other statuses end the
     * session. */
    inlay_status (*compile)(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                            inlay_diag *diag);
    void (*release_compiled)(void *state, inlay_compiled *compiled);
    /* *out_instance may be the compiled itself cast, when shapes make no difference. INLAY_UNSUPPORTED takes the offer
     * back as in compile, for these shapes of the graph's inputs: the host remembers them, and others run as before. */
    inlay_status (*specialize)(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out_instance, inlay_diag *diag);
    void (*release_instance)(void *state, inlay_compiled *compiled, inlay_instance *instance);
    inlay_status (*execute)(void *state, inlay_compiled *compiled, inlay_instance *instance,
                            const inlay_exec_args *args);

    /* Cache, optional: both or neither. fingerprint writes at most 64 bytes that name device, driver and build; a blob
     * with another fingerprint is not offered. */
    inlay_status (*fingerprint)(void *state, char out[64], uint32_t *out_bytes);
    uint32_t (*cache_verdict)(void *state, const void *blob, uint64_t bytes, inlay_diag *why); /* INLAY_CACHE_* */

    /* Domains, all set when domain_count > 0. alignment is at least that of the domain. */
    inlay_status (*buffer_alloc)(void *state, uint32_t domain, uint64_t bytes, inlay_buffer *out, inlay_diag *diag);
    void (*buffer_free)(void *state, const inlay_buffer *buffer);
    /* Copies min(source->bytes, target->bytes) between two domains of which one is the host's and the other this
     * provider's, or both this provider's. Asynchronous providers wait for the fences, copy, and signal. */
    inlay_status (*buffer_copy)(void *state, inlay_run *run, const inlay_buffer *source, const inlay_buffer *target,
                                const inlay_fence *waits, uint32_t wait_count, inlay_fence signal, inlay_diag *diag);
    /* Optional: for HOST_VISIBLE domains. */
    inlay_status (*buffer_map)(void *state, const inlay_buffer *buffer, void **out_address, inlay_diag *diag);
    void (*buffer_unmap)(void *state, const inlay_buffer *buffer);
    /* Optional: for IMPORTS_HOST domains: memory of the host's as a buffer, which is read where it is: the user's input
     * tensors. The memory outlives the import; buffer_free ends it. INLAY_UNSUPPORTED: not this memory (it begins in
     * the middle of a page, say); the host copies then. */
    inlay_status (*import_host)(void *state, uint32_t domain, void *address, uint64_t bytes, inlay_buffer *out,
                                inlay_diag *diag);

    /* Optional: a table of further functions by name. */
    const void *(*extension)(void *state, const char *name);

    /* Optional: calls `device` for each device that there is, whether create would take it or not; texts are borrowed
     * for that call. Opens none, and leaves nothing behind. ctx is that of create, which may be running. What `device`
     * returns other than INLAY_OK ends the list and is returned. INLAY_UNSUPPORTED: there can be none (no driver), with
     * the reason in diag. Without it, the provider has one device, which is what the fields above say. */
    inlay_status (*enumerate)(void *ctx, const inlay_host *host,
                              inlay_status (*device)(void *user, const inlay_device_info *info), void *user,
                              inlay_diag *diag);
    /* Optional: the device that create opened; texts live as long as state. domains ([domain_count]) holds what the
     * provider's static description says, to be replaced by what is so: capacity, alignment (not below the static one),
     * flags. Asked once, after create. */
    inlay_status (*describe)(void *state, inlay_device_info *out_info, inlay_domain_info *domains, inlay_diag *diag);

    /* Optional: buffer_copy for several at once, which then are one submission. */
    inlay_status (*buffer_copies)(void *state, const inlay_copy_request *request, inlay_diag *diag);

    /* Optional, both or neither: what one context keeps of an instance. A context runs once at a time, so a binding is
     * in use by one execute at a time (until its signal is reached). Made when the context first runs these shapes and
     * again when addresses change for good; released before the instance. INLAY_UNSUPPORTED: not for this one. */
    inlay_status (*bind)(void *state, inlay_compiled *compiled, inlay_instance *instance, const inlay_bind_args *args,
                         inlay_binding **out_binding, inlay_diag *diag);
    void (*release_binding)(void *state, inlay_compiled *compiled, inlay_instance *instance, inlay_binding *binding);

    /* Optional: memory that somebody else took of the same device, as a buffer; it outlives that, and buffer_free ends
     * the import alone. INLAY_UNSUPPORTED: not this device's, or not of a kind that can be taken. */
    inlay_status (*import_native)(void *state, uint32_t domain, const inlay_native_memory *memory, inlay_buffer *out,
                                  inlay_diag *diag);
    /* Optional: how others name the memory of a buffer. */
    inlay_status (*export_native)(void *state, const inlay_buffer *buffer, inlay_native_memory *out, inlay_diag *diag);
} inlay_provider;

/* ------------------------------------------------------------------ operators
 *
 * A plugin that brings operators of its own states their schema in one line:
 *
 *     "X:T, scale:T, mask?:M -> Y:T; T=float|double, M=bool; axis:i=-1, mode:s='fast', pads:is"
 *
 * inputs -> outputs; type sets; attributes. `?` marks an optional input, `*` a variadic one (`*2` needs two or more).
 * `%` is `*` whose inputs may differ in type. Attribute kinds are i, f, s, t (tensor) and is, fs, ss; `!` behind it
 * makes it required, `=` gives the default; "..." as the last attribute takes any others. Types are ONNX's names;
 * seq(T), optional(T) and map(K,V) nest. */

/* What shape inference sees and fills in. */
typedef struct inlay_infer {
    uint64_t struct_size;
    void *ctx; /* first argument of the functions below */
    const inlay_node_info *node;
    const inlay_value_info *const *inputs; /* [input_count]; NULL = omitted */
    uint32_t input_count;
    uint32_t output_count;
    uint32_t node_bytes; /* sizes of the two structs as the host was compiled, for INLAY_STRIDE_HAS */
    uint32_t value_bytes;
    /* States type and shape of an output. dtype INLAY_UNDEFINED leaves what the schema gave. dims are copied. */
    inlay_status (*set_output)(void *ctx, uint32_t output, inlay_dtype dtype, uint32_t rank, const inlay_dim *dims);
    /* The symbol with this name or expression, made if it is new. */
    uint32_t (*symbol)(void *ctx, const char *name);
} inlay_infer;

/* A worked example that plugin-check and the tests run: inputs and expected outputs, dense host tensors. */
typedef struct inlay_op_example {
    const char *name;
    const inlay_attr_info *attrs;
    const inlay_tensor_view *inputs;
    const inlay_tensor_view *outputs;
    uint32_t attr_count, attr_stride;
    uint32_t input_count, output_count;
    double rtol, atol; /* |got - want| <= atol + rtol * |want| */
} inlay_op_example;

enum {
    INLAY_OPERATOR_RANDOM = 1u << 0 /* two runs may differ, or have effects: never folded, never merged */
};

typedef struct inlay_operator {
    uint64_t struct_size;
    const char *domain;  /* "com.example"; the domains of ONNX are refused */
    const char *op_type; /* "Blur" */
    const char *signature;
    const char *doc; /* optional: one paragraph */
    uint32_t since_version;
    uint32_t flags;                                                         /* INLAY_OPERATOR_* */
    void *ctx;                                                              /* first argument of infer */
    inlay_status (*infer)(void *ctx, inlay_infer *infer, inlay_diag *diag); /* optional: shapes come with the run */
    const inlay_op_example *examples;
    uint32_t example_count, example_stride;
} inlay_operator;

/* ------------------------------------------------------------------ the plugin */

enum {
    INLAY_PLUGIN_DLCLOSE = 1u << 0 /* may be unmapped after shutdown: leaves no thread, atexit or TLS destructor */
};

/* The first five members stay what they are in every major, so that a refusal can name the plugin. */
typedef struct inlay_plugin {
    uint64_t struct_size;
    uint32_t abi_major; /* INLAY_ABI_MAJOR and MINOR that the plugin was compiled with */
    uint32_t abi_minor;
    const char *name;     /* of the plugin; providers have their own */
    const char *version;  /* "1.2.0" */
    const char *build_id; /* changes with every build that may compute differently; part of cache keys. Without the kit:
                             any text, such as a version with the time of the build; never NULL or empty */
    uint32_t flags;       /* INLAY_PLUGIN_* */
    uint32_t provider_count;
    const inlay_provider *providers;
    const inlay_operator *operators;
    uint32_t provider_stride;
    uint32_t operator_count;
    uint32_t operator_stride;
    uint32_t reserved;
    void *ctx;
    void (*shutdown)(void *ctx); /* optional */
} inlay_plugin;

/* The one symbol. host outlives the plugin. *out_plugin points to what lives as long as the plugin is loaded, usually a
 * static const. A host that is too old or too new is refused with INLAY_UNSUPPORTED and a sentence. */
#define INLAY_PLUGIN_OPEN_SYMBOL "inlay_plugin_open"
typedef inlay_status (*inlay_plugin_open_fn)(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag);
INLAY_EXPORT inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
