/* inlay/extensions.h - optional functions of a host or of a provider, found by name.
 *
 *     const inlay_ext_constants *constants = host->extension(host->ctx, INLAY_EXT_CONSTANTS);
 *     if (constants != NULL && INLAY_HAS(constants, release))
 *         constants->release(host->ctx, request->handle, value);
 *
 * A host or provider without the extension returns NULL; the other side has to work without it. A table lives as long
 * as the host (or, for extensions of a provider, as long as the state that create returned) and grows at its end. If
 * the meaning of a function changes, the extension gets a new name. Names that begin with "inlay." are defined here; a
 * host or a provider with tables of its own names them after a domain of its own, "com.example.trace/1". ctx is
 * inlay_host.ctx, state the state of the provider. The functions of the host may be called from any thread unless the
 * comment says otherwise. The functions of a provider may be called like those of inlay_provider (see "Threads" in
 * plugin.h): by several threads at once, also for the same object, except functions that change the object. */
#ifndef INLAY_EXTENSIONS_H
#define INLAY_EXTENSIONS_H
#include "inlay/execution.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of the host: releases constants during compile, for providers that compile many constants in one region. Without it,
 * all originals stay in memory until compile returns, in addition to the data that is packed from them. */
#define INLAY_EXT_CONSTANTS "inlay.constants/1"
typedef struct inlay_ext_constants {
    uint64_t struct_size;
    /* States that the provider has read constant `value` of the graph and does not expect to read it again soon, so
     * that its pages may be dropped from memory. It stays at its address and can still be read.
     * inlay_compile_request.constants applies as before. compile is the current inlay_compile_request.handle; valid
     * only during that call. */
    void (*release)(void *ctx, void *compile, uint32_t value);
} inlay_ext_constants;

/* Of the host: a cache of packed weights, or of other data that is derived from constants, is expensive to compute and
 * contains no pointers. The host keeps the data in a file (option cache_dir) and maps it when the same model is opened
 * again.
 *
 *     status = packs->take(ctx, request->handle, &key, sizeof key, bytes, &data, &known);
 *     if (status != INLAY_OK)
 *         data = my_own_memory(bytes); // and known is 0
 *     if (known == 0)
 *         pack(data, constant);
 *     if (status == INLAY_OK && known == 0)
 *         packs->keep(ctx, request->handle, data); */
#define INLAY_EXT_PACKS "inlay.packs/1"
/* A selection of equal parts of divided constants or packs, such as the weights and the scales of some experts of a
 * mixture. It consists of the parts with the listed indexes, of the data at each listed address. */
typedef struct inlay_pack_parts {
    uint64_t struct_size;
    const void *const *data; /* [data_count] addresses that were passed to divide; others are ignored */
    const int64_t *parts;    /* [part_count] indexes, each once, in the order in which they will be read */
    uint32_t data_count;     /* at most 16 */
    uint32_t part_count;
    /* NULL, or out: [part_count][data_count] addresses, which `need` sets for the leading *out_count parts; valid until
     * `done`. An address of NULL: the part is at its own address in the data. If places is NULL, the host reads every
     * part to its own address, which takes longer. */
    const void **places;
} inlay_pack_parts;
typedef struct inlay_ext_packs {
    uint64_t struct_size;
    /* Returns memory of the given size, aligned to 64 bytes, valid until release_compiled returns. If *out_known is 1,
     * it is read-only and holds the data that was kept under this key and size, perhaps by an earlier process. If
     * *out_known is 0, the provider fills it before compile returns; afterwards it is read-only. key identifies
     * everything that determines the contents: content_hash of the constants, the layout, relevant properties of the
     * CPU. The host adds the provider, the build of its plugin, its options and the CPU. compile is the current
     * inlay_compile_request.handle; valid only during that call, but on any thread. INLAY_UNSUPPORTED: the cache is off
     * or the size is too large; after this and any other failure the provider has to allocate the memory itself. */
    inlay_status (*take)(void *ctx, void *compile, const void *key, uint64_t key_bytes, uint64_t bytes, void **out_data,
                         uint32_t *out_known);
    /* States that the provider has filled the memory at `data`, a result of take, and that the host may store it.
     * Memory that is not kept is lost with the session. */
    void (*keep)(void *ctx, void *compile, const void *data);
    /* Since 1.1, with the two functions below. The provider states: the memory at `data` (a result of take, or the
     * elements of a constant) has part_count equal parts, a run reads only some of them, and execute calls `need`
     * before it reads a part. If the model is larger than its memory limit, the host reads only these parts from the
     * file. compile is as for take. */
    void (*divide)(void *ctx, void *compile, const void *data, uint64_t bytes, uint32_t part_count);
    /* In execute: waits until parts are in memory. *out_count, at least 1, is the number of leading entries of
     * parts->parts that are in memory; they stay until `done`. A step that needs further parts calls `done`, then
     * `need` for those. INLAY_IO_ERROR: the parts cannot be read; return the status from execute. run is
     * inlay_exec_args.run. */
    inlay_status (*need)(void *ctx, inlay_run *run, const inlay_pack_parts *parts, uint32_t *out_count);
    /* Ends a successful `need`. parts: the parts in memory, so part_count is *out_count of `need`. */
    void (*done)(void *ctx, inlay_run *run, const inlay_pack_parts *parts);
} inlay_ext_packs;

/* Of the host: the kernel times that `inlay tune` measured, see inlay.kernels/1. For providers with several kernels for
 * a layer. */
#define INLAY_EXT_TIMINGS "inlay.timings/1"
typedef struct inlay_ext_timings {
    uint64_t struct_size;
    /* Returns the times of the provider that compiles, valid until release_compiled returns; NULL: none are stored.
     * compile is the current inlay_compile_request.handle; valid only during that call. */
    const void *(*open)(void *ctx, void *compile);
    /* Returns the time stored under the key in nanoseconds; negative: none. key identifies the kernel and everything
     * that determines its time, including sizes and thread count. The host adds to the key the provider, the build of
     * its plugin, its options and the CPU, so that a time is used only for the kernel that was measured. */
    double (*find)(void *ctx, const void *timings, const void *key, uint64_t key_bytes);
} inlay_ext_timings;

/* Of a provider (inlay_provider.extension): lists the kernels that it chose, and measures the alternatives. */
#define INLAY_EXT_KERNELS "inlay.kernels/1"
/* Why a kernel was chosen. */
enum {
    INLAY_KERNEL_ONLY = 0,  /* the only kernel */
    INLAY_KERNEL_MODEL = 1, /* chosen by expected times */
    INLAY_KERNEL_TIMED = 2, /* chosen by measured times */
    INLAY_KERNEL_OPTION = 3 /* chosen by an option */
};
/* The choice of a kernel. Texts are borrowed for the call. */
typedef struct inlay_kernel {
    uint64_t struct_size;
    uint32_t node;         /* index in the graph: the first node that the kernel computes */
    uint32_t reason;       /* INLAY_KERNEL_* */
    const char *name;      /* [a-z0-9_] */
    const char *runner_up; /* name of the second best kernel; NULL = none */
    /* time in nanoseconds on this machine, for the instance's threads: expected, as the price of the node states it, or
     * if TIMED, measured; negative: unknown */
    double ns;
    double runner_up_ns; /* the time of runner_up, likewise */
    /* a reason for the choice, such as why another kernel cannot be used; NULL = no reason to report */
    const char *why;
    /* for a kernel with larger rounding errors than the plain sum: its error with these weights, the largest difference
     * divided by the largest result; 0: unknown */
    double error;
    double error_bound; /* the limit of error, above which another kernel is chosen; 0: none */
} inlay_kernel;
/* Arguments of inlay_ext_kernels.list. */
typedef struct inlay_kernel_list {
    uint64_t struct_size;
    inlay_compiled *compiled;
    inlay_instance *instance; /* the instance whose kernels are listed */
    void *ctx;                /* first argument of kernel */
    /* Receives a choice. A status other than INLAY_OK: list returns it. */
    inlay_status (*kernel)(void *ctx, const inlay_kernel *kernel);
} inlay_kernel_list;
/* Arguments of inlay_ext_kernels.time: the shapes of a region, and its tensors as for execute. */
typedef struct inlay_kernel_trial {
    uint64_t struct_size;
    const inlay_specialize_request *shapes;
    const inlay_exec_args *args; /* without workspace: the provider allocates it for each kernel */
    /* limit for all runs together in nanoseconds; exceeded only if a single run of each kernel takes longer */
    double budget_ns;
    void *ctx;                       /* first argument of poll and keep */
    inlay_status (*poll)(void *ctx); /* INLAY_CANCELLED: stop; the results so far are kept */
    /* Stores a measured time in nanoseconds under a key; `what` describes the kernel for listings. */
    inlay_status (*keep)(void *ctx, const void *key, uint64_t key_bytes, double ns, const char *what);
} inlay_kernel_trial;
typedef struct inlay_ext_kernels {
    uint64_t struct_size;
    /* Calls request->kernel for each choice of the instance. A failure ends the list: the kernels reported before stay,
     * and the host logs the text of diag. */
    inlay_status (*list)(void *state, const inlay_kernel_list *request, inlay_diag *diag);
    /* Measures each plausible kernel of each layer with the region's tensors, and passes the times to keep, under the
     * keys that inlay_ext_timings.find gets later. compiled does not change. */
    inlay_status (*time)(void *state, inlay_compiled *compiled, const inlay_kernel_trial *trial, inlay_diag *diag);
} inlay_ext_kernels;

/* Of a provider (inlay_provider.extension): whether it computes quantized operators fast, for the optimiser. */
#define INLAY_EXT_INTEGERS "inlay.integers/1"
typedef struct inlay_ext_integers {
    uint64_t struct_size;
    uint32_t fast_products; /* 1: QLinearConv and MatMulInteger are faster in this provider than the float operators */
    uint32_t reserved;
} inlay_ext_integers;

/* Of a provider (inlay_provider.extension): the source files of its kernels. Each file is compiled once for each
 * instruction-set level that it supports; one of these instances runs in this process. */
#define INLAY_EXT_SOURCES "inlay.sources/1"
typedef struct inlay_kernel_source {
    const char *name;      /* [a-z0-9_], name of the kernels in the file */
    const char *file;      /* path of the source file, relative to the root of the provider's project */
    const char *instances; /* names separated by '|', best first: "avx512|avx2|c" */
    const char *chosen;    /* the instance that runs on this CPU, within option isa; NULL: none */
} inlay_kernel_source;
/* The table and its texts do not change. */
typedef struct inlay_ext_sources {
    uint64_t struct_size;
    const inlay_kernel_source *sources; /* [source_count], source_stride bytes each */
    uint32_t source_count;
    uint32_t source_stride;
} inlay_ext_sources;

/* Of a provider (inlay_provider.extension): which low-bit weights its kernels read without conversion to float, for the
 * optimiser, which otherwise folds the conversion. */
#define INLAY_EXT_WEIGHTS "inlay.weights/1"
/* The conversions of constants that need not be folded. */
enum {
    /* DequantizeLinear of weights of 2, 4 or 8 bits for MatMul and Gemm, with one scale for the matrix, for a column,
     * or for a block of a column */
    INLAY_WEIGHTS_PRODUCTS = 1u << 0,
    /* DequantizeLinear of any bits and scales, also for Conv, ConvTranspose, LSTM, GRU and RNN; includes PRODUCTS */
    INLAY_WEIGHTS_ANY = 1u << 1,
    /* Cast of float16 and bfloat16 constants to float, for MatMul, Gemm and Conv */
    INLAY_WEIGHTS_HALVES = 1u << 2,
    /* Transpose of a constant matrix of floats, for MatMul and Gemm. The host keeps those of large matrices only, since
     * other providers would compute them in each run. */
    INLAY_WEIGHTS_TURNED = 1u << 3
};
typedef struct inlay_ext_weights {
    uint64_t struct_size;
    uint32_t packed_products; /* INLAY_WEIGHTS_*; the host still folds small constants that a run reads many times */
    uint32_t reserved;
} inlay_ext_weights;

/* Of a provider (inlay_provider.extension): states to which its regions append in place. A state is an input of the
 * model that the next run gets from an output, such as the key-value cache of an attention: Concat(past, new). If the
 * host keeps states, input and output may share one buffer with spare capacity, row-major with the strides of the full
 * capacity.
 */
#define INLAY_EXT_STATES "inlay.states/1"
typedef struct inlay_ext_states {
    uint64_t struct_size;
    /* Returns 1 if the region writes only the new elements, and keeps the rest, when the input and the output begin at
     * the same address with spare capacity along *out_axis; 0: not supported. input, output: indices in the compile
     * request. After 1, the host requests this for some shapes through inlay_specialize_request.rooms. Any thread. */
    uint32_t (*appends)(void *state, inlay_compiled *compiled, uint32_t input, uint32_t output, uint32_t *out_axis);
    /* Returns 1 if the region can read an input to which another region has appended, with spare capacity behind its
     * rows along axis; otherwise 0. inlay_specialize_request.rooms states the capacity. Any thread. NULL: no region
     * supports this. */
    uint32_t (*reads)(void *state, inlay_compiled *compiled, uint32_t input, uint32_t axis);
} inlay_ext_states;

/* Of a provider (inlay_provider.extension): the provider runs If, Loop or Scan as a whole, bodies included, for
 * instance on an NPU whose compiler accepts loops. Nodes of the operators that it lists become its candidates. Each is
 * offered alone or with INLAY_OFFER_MERGE, never in a group. inlay_node_info.bodies contains their bodies in every
 * graph that assess, cost and compile get.
 *
 * The host runs such a node itself, with bodies that are assigned and compiled as separate graphs, if no provider
 * offers it, if rules exclude the offers, or if compile or specialize declines. Otherwise the host takes an offer
 * without comparing costs, because the cost of running the node itself is unknown until the bodies are compiled. Only
 * nodes whose inputs and outputs are all tensors are candidates. */
#define INLAY_EXT_BODIES "inlay.bodies/1"
enum { INLAY_BODIES_IF = 1u << 0, INLAY_BODIES_LOOP = 1u << 1, INLAY_BODIES_SCAN = 1u << 2 };
typedef struct inlay_ext_bodies {
    uint64_t struct_size;
    uint32_t operators; /* INLAY_BODIES_*: the operators that the provider runs; other bits are ignored */
    uint32_t reserved;
} inlay_ext_bodies;

/* A body of a node: "then_branch" and "else_branch" of If, "body" of Loop and Scan. Borrowed like the graph. References
 * to values of the outer graph are explicit: inlay_compile_request.inputs lists these values after the node's own
 * inputs. An outer value that is a constant is not among these inputs; the data is in the outer value. The constants of
 * a body stay mapped until release_compiled. */
typedef struct inlay_body {
    inlay_str attr; /* name of the attribute: "then_branch" ... */
    /* the graph of the body, with the body's inputs and outputs; nodes may have bodies, too */
    const inlay_graph *graph;
    const uint32_t *capture_outer; /* [capture_count] values of the outer graph that the body reads */
    /* [capture_count] the corresponding values of the body, which are not among its inputs and have no producer */
    const uint32_t *capture_inner;
    uint32_t capture_count;
    uint32_t reserved;
} inlay_body;

/* Of the host: the times of kernels within a region, for profiles.
 *
 *     if (steps != NULL && args->run != NULL && steps->wanted(host->ctx, args->run) != 0)
 *         ... read the clock around each kernel, and call steps->done(host->ctx, args->run, node, begin, end);
 *
 * Call it in execute, on the thread of execute; asynchronous providers may call it on any thread, one at a time for a
 * run, until args->signal is reached. A device with a separate clock reports its measured duration: it converts begin
 * and end to CLOCK_MONOTONIC so that end_ns - begin_ns is that duration. */
#define INLAY_EXT_STEPS "inlay.steps/1"
typedef struct inlay_ext_steps {
    uint64_t struct_size;
    /* Returns 1 if the run is profiled, otherwise 0. */
    uint32_t (*wanted)(void *ctx, inlay_run *run);
    /* Reports that a kernel has run. node: index in the graph of the node that it computes, together with the nodes
     * that are fused with it; report preparatory work, such as a change of layout, under the same node. begin_ns,
     * end_ns: its begin and end in nanoseconds on CLOCK_MONOTONIC. */
    void (*done)(void *ctx, inlay_run *run, uint32_t node, uint64_t begin_ns, uint64_t end_ns);
    /* Since 1.1: like `done`, for work with a name of its own, such as a kernel of a device's library: profiles list
     * the work under this name, for its node. name is copied; profiles keep up to 95 bytes of it. */
    void (*named)(void *ctx, inlay_run *run, uint32_t node, const char *name, uint64_t begin_ns, uint64_t end_ns);
} inlay_ext_steps;

/* Of the host: wakes and places OpenMP threads (libgomp). For providers whose libraries contain OpenMP loops: waking
 * idle threads is slow, Linux may have placed several of them on one CPU, and idle workers of parallel_for may use the
 * CPUs. parallel_for places its workers itself; before a library's loops, call gather:
 *
 *     if (team != NULL)
 *         team->gather(host->ctx, args->run);
 *
 * May be called only in execute, on its thread. */
#define INLAY_EXT_TEAM "inlay.team/1"
typedef struct inlay_ext_team {
    uint64_t struct_size;
    /* Lets workers of parallel_for sleep, wakes the OpenMP threads that the run may use, and places each on a separate
     * CPU. This takes about 1 us if they are awake, otherwise about 50 us; so call it only before longer work. */
    void (*gather)(void *ctx, inlay_run *run);
} inlay_ext_team;

/* Of the host: the speed of this machine, so that plugins need not measure it themselves, with results that disagree
 * while other processes are running. It comes from a table of kinds of CPUs, or from the machine profile that
 * `inlay tune --machine` writes, so it is the same in every process. It serves for inlay_cost.local_ns and for choices
 * that depend on the width of the arithmetic units: flops_v4 is about flops_v3 if a core executes 64-byte instructions
 * in two halves. Plugins that option isolate runs in a separate process do not get it.
 *
 *     const inlay_ext_speed *speed = host->extension(host->ctx, INLAY_EXT_SPEED);
 *     const inlay_speed *core = speed != NULL ? speed->get(host->ctx) : NULL;
 *     double flops = core != NULL && core->flops_v3 > 0 ? core->flops_v3 : my_default; */
#define INLAY_EXT_SPEED "inlay.speed/1"
/* Rates are of one thread, per nanosecond. 0: not known. */
typedef struct inlay_speed {
    uint64_t struct_size;
    /* float operations; a multiply-add counts as two. With registers of 16 bytes (INLAY_ISA_BASELINE), of 32 bytes
     * (X86_64_V3) and of 64 bytes (X86_64_V4). 0 also for levels that the CPU lacks or that option isa excludes */
    double flops_baseline;
    double flops_v3;
    double flops_v4;
    double core_bytes;   /* bytes read from the first-level cache, with the widest registers */
    double near_bytes;   /* bytes read from the second-level cache */
    double shared_bytes; /* bytes read from the cache that cores share */
    double memory_bytes; /* bytes read from main memory */
    double loop_ns;      /* nanoseconds, start and end of a parallel_for on two threads */
    /* operations of matrix tiles (AMX) on bytes and on bfloat16, without loads. 0 also for processes that may not use
     * tiles */
    double tile_bytes;
    double tile_bfloat16;
} inlay_speed;
typedef struct inlay_ext_speed {
    uint64_t struct_size;
    /* Returns the speed, which does not change while the process lives. */
    const inlay_speed *(*get)(void *ctx);
} inlay_ext_speed;

/* Of a provider (inlay_provider.extension): orders the work of other libraries and of runs on the same values, without
 * blocking the host. stream: a stream or queue of the device's API (a cudaStream_t; the number that DLPack's protocol
 * passes). Any thread. Both functions return at once. INLAY_UNSUPPORTED: stream does not belong to this device.
 *
 * Only a provider with this extension may wait for work that is submitted later, in another run: its waits may name
 * fences that such work signals. Such a wait delays its own run and no other. A provider with a single in-order queue
 * submits the work when its waits are reached (inlay_host.fence_notify). Without the extension, the host waits before a
 * run begins. */
#define INLAY_EXT_STREAMS "inlay.streams/1"
typedef struct inlay_ext_streams {
    uint64_t struct_size;
    /* Signals fence when all work submitted to stream so far is done; marks it as failed if that work failed. */
    inlay_status (*signal)(void *state, uint64_t stream, inlay_fence fence, inlay_diag *diag);
    /* Makes work that is submitted to stream from now on wait until fence is reached or has failed. */
    inlay_status (*wait)(void *state, uint64_t stream, inlay_fence fence, inlay_diag *diag);
} inlay_ext_streams;

/* Of a provider (inlay_provider.extension): the provider can run several regions of one run concurrently, if the model
 * has branches. The host then calls execute from several threads at once for one run, each for another instance, as
 * ranges of one parallel loop. In these calls parallel_for and OpenMP loops use the calling thread only. */
#define INLAY_EXT_BRANCHES "inlay.branches/1"
typedef struct inlay_ext_branches {
    uint64_t struct_size;
    /* Returns 1 if the instance may run concurrently with others, otherwise 0. Its results are the same either way, bit
     * for bit. Any thread. */
    uint32_t (*may)(void *state, inlay_compiled *compiled, inlay_instance *instance);
} inlay_ext_branches;

/* Of a provider (inlay_provider.extension): what an application may ask of an open device, by inlay_session_control()
 * of inlay.h. Any thread calls it, but only one at a time; SET_OPTION and TRIM also while runs are in progress. */
#define INLAY_EXT_CONTROL "inlay.control/1"
/* Arguments of control. */
typedef struct inlay_control_args {
    uint64_t struct_size;
    uint32_t action;                         /* INLAY_CONTROL_*; INLAY_UNSUPPORTED for an unknown one */
    uint32_t option_bytes;                   /* sizeof(inlay_option_value) of the host, for INLAY_STRIDE_HAS */
    const struct inlay_option_value *option; /* SET_OPTION: checked against the provider's schema; otherwise NULL */
    uint64_t bytes;                          /* TRIM; otherwise 0 */
    uint64_t freed_bytes;                    /* out, TRIM: bytes that were released; initially 0 */
} inlay_control_args;
typedef struct inlay_ext_control {
    uint64_t struct_size;
    /* Carries out an action. INLAY_UNSUPPORTED: the provider cannot do this (change this option after create, ...).
     * After a failure the state is as it was. The host does not call execute, bind, buffer_alloc or buffer_copy between
     * SUSPEND and RESUME; releases and destroy are called for a suspended device, too. */
    inlay_status (*control)(void *state, inlay_control_args *args, inlay_diag *diag);
} inlay_ext_control;

/* How often a declared input or output may occur in a node; VARIADIC: all values have one type, VARIADIC_MIXED: their
 * types may differ. */
enum { INLAY_FORMAL_SINGLE = 0, INLAY_FORMAL_OPTIONAL = 1, INLAY_FORMAL_VARIADIC = 2, INLAY_FORMAL_VARIADIC_MIXED = 3 };

/* A declared input or output. */
typedef struct inlay_formal {
    const char *name;     /* "data" */
    uint32_t option;      /* INLAY_FORMAL_* */
    uint32_t least_count; /* least number of values if it is variadic; otherwise 0 or 1 */
    uint32_t types;       /* index in inlay_schema.types; those with the same index have the same type in a node */
    uint32_t reserved;
} inlay_formal;

/* The permitted types of a declared input or output, or of several. */
typedef struct inlay_schema_types {
    const char *name;         /* name of the type parameter, "T"; "": types of one input or output alone */
    const char *const *types; /* [type_count] as in ONNX: "tensor(float)" */
    uint32_t type_count;
    uint32_t reserved;
} inlay_schema_types;

typedef struct inlay_schema {
    uint64_t struct_size;
    const inlay_formal *inputs;      /* [input_count] */
    const inlay_formal *outputs;     /* [output_count] */
    const inlay_schema_types *types; /* [type_count] */
    uint32_t formal_stride, types_stride;
    uint32_t input_count, output_count, type_count;
    uint32_t since_version; /* first version of the operator set with this schema */
} inlay_schema;

/* Of the host: the schemas of ONNX's operators, and of the operators of other domains that inlay has. */
#define INLAY_EXT_SCHEMAS "inlay.schemas/1"
typedef struct inlay_ext_schemas {
    uint64_t struct_size;
    /* Calls receive, before find returns, with the schema of op_type for models that import version opset of the
     * domain; "" is "ai.onnx". The schema is valid during the call of receive. INLAY_NOT_FOUND: there is no schema. Any
     * thread. */
    inlay_status (*find)(void *ctx, const char *domain, const char *op_type, int64_t opset,
                         void (*receive)(void *user, const inlay_schema *schema), void *user, inlay_diag *diag);
} inlay_ext_schemas;

/* Of a provider (inlay_provider.extension): operators that are known only once the provider is open, because a library
 * that an option names defines them. Models of sessions with this provider may use them like those of
 * inlay_plugin.operators. Of two operators with the same name and version, the one in inlay_plugin.operators is used.
 * The table and the operators stay valid until destroy. Examples are ignored. */
#define INLAY_EXT_OPERATORS "inlay.operators/1"
typedef struct inlay_ext_operators {
    uint64_t struct_size;
    const inlay_operator *operators; /* [operator_count] */
    uint32_t operator_count, operator_stride;
} inlay_ext_operators;

#ifdef __cplusplus
}
#endif
#endif
