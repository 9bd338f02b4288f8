/* inlay/extensions.h - functions that a host, or a provider, may have, by name.
 *
 *     const inlay_ext_constants *e = host->extension(host->ctx, INLAY_EXT_CONSTANTS);
 *     if (e != NULL && INLAY_HAS(e, release))
 *         e->release(host->ctx, request->handle, value);
 *
 * A host without one answers NULL, and a plugin works without. A table lives as long as the host and grows at its end;
 * a change of meaning gets another name. */
#ifndef INLAY_EXTENSIONS_H
#define INLAY_EXTENSIONS_H
#include "inlay/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For providers that compile many constants in one region: otherwise all originals stay in memory until compile
 * returns, beside everything that was packed from them. */
#define INLAY_EXT_CONSTANTS "inlay.constants/1"
typedef struct inlay_ext_constants {
    uint64_t struct_size;
    /* The provider has read constant `value` of the snapshot and does not expect to soon again: its pages may leave
     * memory. It stays where it is and can still be read; what compile answers in inlay_compile_request.constants holds
     * as before. compile is the inlay_compile_request.handle in hand; only during that call. */
    void (*release)(void *ctx, void *compile, uint32_t value);
} inlay_ext_constants;

/* For providers that pack weights, or make other things of constants that take long and need nothing but memory: the
 * host keeps them in a file (option cache_dir) and maps it when the same model is opened again.
 *
 *     status = packs->take(ctx, request->handle, &key, sizeof key, bytes, &data, &known);
 *     if (status == INLAY_UNSUPPORTED)
 *         data = my_own_memory(bytes);
 *     if (known == 0)
 *         pack(data, constant);
 *     if (status == INLAY_OK && known == 0)
 *         packs->keep(ctx, request->handle, data);
 */
#define INLAY_EXT_PACKS "inlay.packs/1"
typedef struct inlay_ext_packs {
    uint64_t struct_size;
    /* Memory of that many bytes, aligned to 64, until release_compiled returns. *out_known = 1: it holds what was kept
     * under this key and size, perhaps by an earlier process, and can only be read. Otherwise the provider fills it
     * before compile returns, and can only read it afterwards. key: bytes of the provider's that name all that decides
     * the contents: the content_hash of the constants, the layout, what of the CPU matters. The host adds the provider,
     * the build of its plugin, its options and the CPU. compile is the inlay_compile_request.handle in hand; only
     * during that call, but from any thread. INLAY_UNSUPPORTED: nothing is kept here, or not that much; take memory
     * of your own. */
    inlay_status (*take)(void *ctx, void *compile, const void *key, uint64_t key_bytes, uint64_t bytes, void **out_data,
                         uint32_t *out_known);
    /* The memory is filled, and may be found next time. What is not kept is lost with the session. */
    void (*keep)(void *ctx, void *compile, const void *data);
} inlay_ext_packs;

/* For providers that can run a layer by several kernels: what `inlay tune` has measured of them, see
 * inlay.kernels/1. */
#define INLAY_EXT_TIMINGS "inlay.timings/1"
typedef struct inlay_ext_timings {
    uint64_t struct_size;
    /* What there is for the provider that compiles, to be asked until release_compiled returns; NULL: nothing is kept
     * here. compile is the inlay_compile_request.handle in hand; only during that call. */
    const void *(*open)(void *ctx, void *compile);
    /* The nanoseconds that were kept under the key; negative: none. key: bytes of the provider's that name the kernel
     * and all that decides how long it takes, sizes and threads among it. The host adds the provider, the build of its
     * plugin, its options and the CPU, so that no figure outlives what it was measured of. Any thread. */
    double (*find)(void *ctx, const void *timings, const void *key, uint64_t key_bytes);
} inlay_ext_timings;

/* Of a provider (inlay_provider.extension): which kernels it runs by, and timing them. */
#define INLAY_EXT_KERNELS "inlay.kernels/1"
enum {
    INLAY_KERNEL_ONLY = 0,  /* there is no other */
    INLAY_KERNEL_MODEL = 1, /* by what each is expected to take */
    INLAY_KERNEL_TIMED = 2, /* by what each took */
    INLAY_KERNEL_OPTION = 3 /* an option says so */
};
typedef struct inlay_kernel {
    uint64_t struct_size;
    uint32_t node;         /* of the snapshot: the first of those that the kernel runs */
    uint32_t reason;       /* INLAY_KERNEL_* */
    const char *name;      /* [a-z0-9_] texts are borrowed for the call */
    const char *runner_up; /* NULL = none */
    double ns;             /* expected or, where TIMED, measured; negative: not known */
    double runner_up_ns;
    const char *why; /* a sentence on what could not be taken; NULL */
    double error;    /* of a kernel that rounds more than the sum as written, as measured with the weights: the largest
                        difference / the largest result; 0: none is known */
    double error_bound; /* the most that error may be until another kernel is chosen; 0: there is none */
} inlay_kernel;
/* What kernels are timed with: a region, its shapes, and tensors as for execute. */
typedef struct inlay_kernel_trial {
    uint64_t struct_size;
    const inlay_specialize_request *shapes;
    const inlay_exec_args *args;     /* workspace is none: each kernel may want another, which the provider brings */
    double budget_ns;                /* of all runs together, as far as one of each kernel allows */
    void *ctx;                       /* first argument of both: */
    inlay_status (*poll)(void *ctx); /* INLAY_CANCELLED: stop, and keep what is known */
    inlay_status (*keep)(void *ctx, const void *key, uint64_t key_bytes, double ns, const char *what);
} inlay_kernel_trial;
typedef struct inlay_ext_kernels {
    uint64_t struct_size;
    /* Calls `kernel` for each choice of the instance; what that returns other than INLAY_OK ends the list, and is
     * returned. */
    inlay_status (*list)(void *state, inlay_compiled *compiled, inlay_instance *instance,
                         inlay_status (*kernel)(void *ctx, const inlay_kernel *k), void *ctx);
    /* Times each plausible kernel of each layer where it would run, and gives the figures to keep, under keys that
     * inlay_ext_timings.find is asked with later. compiled stays as it is. */
    inlay_status (*time)(void *state, inlay_compiled *compiled, const inlay_kernel_trial *trial, inlay_diag *diag);
} inlay_ext_kernels;

/* Of a provider (inlay_provider.extension): what the optimiser should know of its integers. */
#define INLAY_EXT_INTEGERS "inlay.integers/1"
typedef struct inlay_ext_integers {
    uint64_t struct_size;
    uint32_t fast_products; /* 1: QLinearConv and MatMulInteger take less time here than the same with floats would */
    uint32_t reserved;
} inlay_ext_integers;

/* Of a provider (inlay_provider.extension): the sources of its kernels. Each is compiled once for each level of
 * instructions that it has an instance for; one of the instances runs in this process. */
#define INLAY_EXT_SOURCES "inlay.sources/1"
typedef struct inlay_kernel_source {
    const char *name;      /* [a-z0-9_] of the kernels in it */
    const char *file;      /* the source, below the root of the provider's project */
    const char *instances; /* names separated by '|', the best first: "avx512|avx2|c" */
    const char *chosen;    /* the one that this CPU runs, under the cap of the level; NULL: none */
} inlay_kernel_source;
/* Lives as long as the provider, and does not change. */
typedef struct inlay_ext_sources {
    uint64_t struct_size;
    const inlay_kernel_source *sources; /* [source_count], source_stride bytes each */
    uint32_t source_count;
    uint32_t source_stride;
} inlay_ext_sources;

/* Of a provider: what the optimiser should know of weights that it reads packed. */
#define INLAY_EXT_WEIGHTS "inlay.weights/1"
typedef struct inlay_ext_weights {
    uint64_t struct_size;
    /* DequantizeLinear of constants that may stay unfolded: 1: of 2, 4 or 8 bits for MatMul and Gemm, with one scale
     * for the matrix, a column, or a block of one; 2: of any bits, any scales, for Conv, ConvTranspose, LSTM, GRU and
     * RNN, too. The host folds small ones that are read many times in a run all the same. 4 beside either: Cast of
     * constants of float16 and bfloat16 to float, for MatMul, Gemm and Conv. */
    uint32_t packed_products;
    uint32_t reserved;
} inlay_ext_weights;

/* Of a provider (inlay_provider.extension): states that it appends to in place. A state is an input of the model that
 * the next run gets from an output, as the past of an attention: Concat(past, new). Where the host keeps states, both
 * may be one memory with room for more, row-major as if it were full. */
#define INLAY_EXT_STATES "inlay.states/1"
typedef struct inlay_ext_states {
    uint64_t struct_size;
    /* 1: the region can leave its output as its input with more behind it along *out_axis, where both begin at one
     * address: it writes what is new and leaves the rest as it is. input, output: numbers in the compile request. The
     * host then asks for it, at some shapes, by inlay_specialize_request.rooms. 0: it can't. Any thread. */
    uint32_t (*appends)(void *state, inlay_compiled *compiled, uint32_t input, uint32_t output, uint32_t *out_axis);
    /* 1: the region can read its input where another region has appended to it, with room behind its rows along axis.
     * rooms says at which shapes it has to. May be NULL: none can. */
    uint32_t (*reads)(void *state, inlay_compiled *compiled, uint32_t input, uint32_t axis);
} inlay_ext_states;

/* Of a provider (inlay_provider.extension): it runs control flow whole, bodies included, as an NPU does that compiles a
 * loop. Nodes of the operators that it names become its candidates; each is offered alone or with INLAY_OFFER_MERGE,
 * never in a group. Their bodies are in inlay_node_info.bodies, of every snapshot that assess, cost and compile get.
 *
 * The host runs such a node itself, with bodies that are assigned and compiled as graphs of their own, where nobody
 * offers it, where rules keep the offers out, and where compile or specialize declines. Otherwise an offer is taken:
 * what the host would need for it is not known before the bodies are compiled. Only nodes that read and make nothing
 * but tensors are candidates. */
#define INLAY_EXT_BODIES "inlay.bodies/1"
enum { INLAY_BODIES_IF = 1u << 0, INLAY_BODIES_LOOP = 1u << 1, INLAY_BODIES_SCAN = 1u << 2 };
typedef struct inlay_ext_bodies {
    uint64_t struct_size;
    uint32_t operators; /* INLAY_BODIES_*; other bits are ignored */
    uint32_t reserved;
} inlay_ext_bodies;

/* A graph within a node: of If "then_branch" and "else_branch", of Loop and Scan "body". Borrowed as the snapshot is.
 * What a body reads of the graph around it is explicit. inlay_compile_request.inputs holds such outer values, behind
 * those that the node itself reads; one that is a constant is not among them, and its data is in the outer value. The
 * constants of a body stay mapped until release_compiled. */
typedef struct inlay_body {
    inlay_str attr;
    const inlay_graph *graph;      /* its inputs and outputs are the body's; its nodes may have bodies in turn */
    const uint32_t *capture_outer; /* [capture_count] values of the graph around it that the body reads ... */
    const uint32_t *capture_inner; /* ... and the values of the body that stand for them: no inputs, without producer */
    uint32_t capture_count;
    uint32_t reserved;
} inlay_body;

/* For providers that run several kernels in one region: who profiles a run wants to know what each of them takes.
 *
 *     if (steps != NULL && args->run != NULL && steps->wanted(host->ctx, args->run) != 0)
 *         ... look at the clock around each kernel, and steps->done(host->ctx, args->run, node, begin, end);
 *
 * From execute, on its thread; from asynchronous providers on any thread, one at a time for a run, until args->signal
 * is reached. A device that has a clock of its own tells the time that it measured: begin and end are then put on
 * CLOCK_MONOTONIC so that end_ns - begin_ns is what the device took. */
#define INLAY_EXT_STEPS "inlay.steps/1"
typedef struct inlay_ext_steps {
    uint64_t struct_size;
    /* 0, nearly always: nobody looks. */
    uint32_t (*wanted)(void *ctx, inlay_run *run);
    /* A kernel has run. node: of the snapshot, the one that it is for, with what is fused to it; what only prepares it,
     * such as a change of layout, is told under the same. begin_ns, end_ns: on CLOCK_MONOTONIC. */
    void (*done)(void *ctx, inlay_run *run, uint32_t node, uint64_t begin_ns, uint64_t end_ns);
} inlay_ext_steps;

/* For providers whose libraries run loops of their own on OpenMP's threads, which are those of parallel_for: a team
 * that has slept is slow to come, and the kernel may leave its threads on one CPU, where each keeps the others from
 * working. parallel_for sees to that by itself; before such a library's loops, somebody has to say so.
 *
 *     if (team != NULL)
 *         team->gather(host->ctx, args->run);
 *
 * Only from execute, and on its thread. */
#define INLAY_EXT_TEAM "inlay.team/1"
typedef struct inlay_ext_team {
    uint64_t struct_size;
    /* Wakes the threads that the run may use and puts each on a CPU of its own. A microsecond when they are awake; what
     * waking takes, some 50 us, when not: so only before work that takes longer than that. */
    void (*gather)(void *ctx, inlay_run *run);
} inlay_ext_team;

/* Of a provider (inlay_provider.extension), for values that other libraries work on, too: their work and the runs' come
 * one after the other without anybody waiting on the host. stream: a stream or queue of the device's API (a
 * cudaStream_t), the number that DLPack's protocol passes. Any thread. Both return at once; INLAY_UNSUPPORTED: stream
 * is none of this device. The waits of a provider that has this may name fences which work signals that the provider is
 * given later, in another run: they hold up their own run and no other. Whoever has a single queue in order puts work
 * into it when its waits are reached (inlay_host.fence_notify). Without it, the host waits before a run begins. */
#define INLAY_EXT_STREAMS "inlay.streams/1"
typedef struct inlay_ext_streams {
    uint64_t struct_size;
    /* Signals fence once all that has been put into stream so far is done, or poisons it where that failed. */
    inlay_status (*signal)(void *state, uint64_t stream, inlay_fence fence, inlay_diag *diag);
    /* What is put into stream from now on begins once fence is reached, or never will be. */
    inlay_status (*wait)(void *state, uint64_t stream, inlay_fence fence, inlay_diag *diag);
} inlay_ext_streams;

/* Of a provider (inlay_provider.extension): its work of one run may go on side by side, where a model has branches. The
 * host then calls execute from several threads at once for one run, each for another instance, as ranges of one loop of
 * its own: parallel_for stays on its caller there, and so do OpenMP's loops. */
#define INLAY_EXT_BRANCHES "inlay.branches/1"
typedef struct inlay_ext_branches {
    uint64_t struct_size;
    /* 1: the instance may be one of those. Its bits are the same either way. Any thread. */
    uint32_t (*may)(void *state, inlay_compiled *compiled, inlay_instance *instance);
} inlay_ext_branches;

#ifdef __cplusplus
}
#endif
#endif
