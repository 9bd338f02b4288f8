/* inlay/kit.h - a provider from a table of kernels.
 *
 * The kit is a small static library that is linked into a plugin. You write functions that compute one operator each
 * and list them; the kit answers the host's questions (assess, cost, compile, specialize, execute) from the list.
 *
 *     static inlay_status run_relu(const kit_call *call) { ... }
 *
 *     static const kit_kernel kernels[] = {
 *         { .op_type = "Relu", .in_types = { KIT_FLOATS }, .flags = KIT_IN_PLACE, .run = run_relu },
 *     };
 *     static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };
 *     static const kit_provider provider = { .name = "mine", .description = "..", .tables = tables, .table_count = 1 };
 *     static const kit_plugin mine = { .name = "mine", .version = "1.0", .provider = &provider };
 *     KIT_PLUGIN(mine)
 *
 * A kernel passes four phases, of which only run is a must:
 *     supports   once per node and model: can this node be run? otherwise why not
 *     prepare    once per node and session: read attributes, pack constant weights -> state, shared by all threads
 *     shape      once per input shapes: workspace, output kinds, numbers that depend on shapes -> plan, likewise shared
 *     run        compute; no heap, no lock, any number of threads at once
 *
 * Tensors are dense row-major in host memory, aligned to 64 bytes unless they are user buffers (then to the element).
 * Offsets within a tensor are int64_t. Sub-byte types are packed, low bits first. */
#ifndef INLAY_KIT_H
#define INLAY_KIT_H
#include "inlay/plugin.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KIT_COUNT(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

/* Sets of element types. */
#define KIT_BIT(name) INLAY_DTYPE_BIT(INLAY_##name)
#define KIT_FLOATS (KIT_BIT(FLOAT) | KIT_BIT(DOUBLE) | KIT_BIT(FLOAT16) | KIT_BIT(BFLOAT16))
#define KIT_SIGNED (KIT_BIT(INT8) | KIT_BIT(INT16) | KIT_BIT(INT32) | KIT_BIT(INT64))
#define KIT_UNSIGNED (KIT_BIT(UINT8) | KIT_BIT(UINT16) | KIT_BIT(UINT32) | KIT_BIT(UINT64))
#define KIT_INTEGERS (KIT_SIGNED | KIT_UNSIGNED)
#define KIT_NUMBERS (KIT_FLOATS | KIT_INTEGERS)
#define KIT_FLOAT8                                                                                                     \
    (KIT_BIT(FLOAT8E4M3FN) | KIT_BIT(FLOAT8E4M3FNUZ) | KIT_BIT(FLOAT8E5M2) | KIT_BIT(FLOAT8E5M2FNUZ) |                 \
     KIT_BIT(FLOAT8E8M0))
#define KIT_SUBBYTE (KIT_BIT(UINT4) | KIT_BIT(INT4) | KIT_BIT(FLOAT4E2M1) | KIT_BIT(UINT2) | KIT_BIT(INT2))
#define KIT_COMPLEX (KIT_BIT(COMPLEX64) | KIT_BIT(COMPLEX128))
#define KIT_ANY 0u /* whatever the operator's schema allows */

/* Compiles a function once per instruction-set level and picks at load time: one binary serves any x86-64. For static
 * loop functions without calls that are not inlined. Levels and not CPU names: GCC picks "arch=haswell" on that CPU
 * alone, and on no other vendor's. Nothing under sanitizers, whose runtimes start after ifuncs, and with C libraries
 * that have no ifuncs (musl). */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) &&                           \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define KIT_MULTIVERSION __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define KIT_MULTIVERSION
#endif

/* The highest level of instructions that this CPU and its system have, INLAY_ISA_* of inlay/note.h; *out_extra, which
 * may be NULL, gets those beyond. For loops that a plugin itself chooses. Keep the answer: to ask for *out_extra takes
 * a virtual machine some 50 us. Thread-safe. */
uint32_t kit_isa(uint32_t *out_extra);

/* ------------------------------------------------------------------ a node, before the run */

/* Borrowed for the call. */
typedef struct kit_node {
    const inlay_host *host;
    const inlay_graph *graph;
    const inlay_node_info *info;
    void *provider;         /* what kit_provider.open returned */
    void *compile_handle;   /* internal */
    uint8_t *constant_fate; /* internal */
} kit_node;

/* Input or output i as the graph knows it; NULL if omitted or beyond the last. */
const inlay_value_info *kit_input(const kit_node *node, uint32_t i);
const inlay_value_info *kit_output(const kit_node *node, uint32_t i);
/* Element type of input or output i, INLAY_UNDEFINED when omitted. */
inlay_dtype kit_input_dtype(const kit_node *node, uint32_t i);
inlay_dtype kit_output_dtype(const kit_node *node, uint32_t i);
/* Is input i a constant? */
bool kit_is_constant(const kit_node *node, uint32_t i);
/* The elements of constant input i, aligned, valid as long as the prepared state; NULL if it is no constant or omitted,
 * or if memory ran out. Only in prepare. */
const void *kit_constant(const kit_node *node, uint32_t i);
/* As kit_constant, without the promise of alignment and therefore without a copy: read it with memcpy. */
const void *kit_constant_unaligned(const kit_node *node, uint32_t i);
/* Says that run never reads constant input i, because prepare has packed or copied it: the host may drop it, and
 * call->in[i].data is NULL in run. Only in prepare. */
void kit_drop_constant(const kit_node *node, uint32_t i);

/* Says that prepare has read constant input i for now: its pages may leave memory, and come back when they are read
 * again. For who packs piece by piece. Only in prepare. */
void kit_release_constant(const kit_node *node, uint32_t i);

/* Memory for what prepare makes of constants, such as packed weights. Where the host has extension inlay.packs/1 it is
 * the host's, which keeps it in a file and finds it there the next time; otherwise it is this process's own.
 *
 *     INLAY_TRY(kit_pack_take(node, key, sizeof key, bytes, &state->pack, diag));
 *     if (!state->pack.filled)
 *         pack_weights(state->pack.data);
 *     kit_pack_keep(node, &state->pack);
 *
 * and kit_pack_free(&state->pack) in release. */
typedef struct kit_pack {
    void *data;  /* aligned to 64; to be filled before prepare returns, and only to be read then. NULL: nothing */
    bool filled; /* holds what was kept under the key, perhaps by an earlier process: only to be read already */
    bool own;    /* internal */
} kit_pack;
/* key: bytes that name all that decides the contents: content_hash of the constants, layout, sizes; the host adds the
 * provider, its build and options, and the CPU. NULL, 0: not to be kept. Only in prepare, from any thread.
 * INLAY_OUT_OF_MEMORY: *out is {0}, and diag says how much was asked for. */
INLAY_NODISCARD inlay_status kit_pack_take(const kit_node *node, const void *key, uint64_t key_bytes, uint64_t bytes,
                                           kit_pack *out, inlay_diag *diag);
/* The memory is filled; what is not kept is lost with the session. Nothing happens to what was found. */
void kit_pack_keep(const kit_node *node, const kit_pack *pack);
void kit_pack_free(kit_pack *pack); /* of {0}: a no-op */

/* The attribute of that name, or NULL. */
static inline const inlay_attr_info *kit_attr(const inlay_node_info *node, const char *name)
{
    size_t bytes = strlen(name);
    for (uint32_t i = 0; i < node->attr_count; i++) {
        const inlay_attr_info *a = INLAY_AT(inlay_attr_info, node->attrs, node->attr_stride, i);
        if (a->name.bytes == bytes && memcmp(a->name.data, name, bytes) == 0)
            return a;
    }
    return NULL;
}
/* Values of attributes, or what to take when the node has none of that name and kind. */
static inline int64_t kit_attr_int(const inlay_node_info *node, const char *name, int64_t otherwise)
{
    const inlay_attr_info *a = kit_attr(node, name);
    return a != NULL && a->kind == INLAY_ATTR_INT ? a->i : otherwise;
}
static inline double kit_attr_float(const inlay_node_info *node, const char *name, double otherwise)
{
    const inlay_attr_info *a = kit_attr(node, name);
    return a != NULL && a->kind == INLAY_ATTR_FLOAT ? a->f : otherwise;
}
static inline const char *kit_attr_string(const inlay_node_info *node, const char *name, const char *otherwise)
{
    const inlay_attr_info *a = kit_attr(node, name);
    return a != NULL && a->kind == INLAY_ATTR_STRING ? a->s.data : otherwise;
}
/* The list and its length; NULL and 0 when absent. */
static inline const int64_t *kit_attr_ints(const inlay_node_info *node, const char *name, uint32_t *out_count)
{
    const inlay_attr_info *a = kit_attr(node, name);
    bool has = a != NULL && a->kind == INLAY_ATTR_INTS;
    *out_count = has ? a->count : 0;
    return has ? a->ints : NULL;
}

/* ------------------------------------------------------------------ a call */

/* A tensor of a run. data is NULL exactly when an optional input or output is omitted (dtype is then
 * INLAY_UNDEFINED), when the constant was dropped, or when the output is yet to be allocated with kit_alloc_output. */
typedef struct kit_tensor {
    void *data;
    const int64_t *dims; /* [rank] elements */
    int64_t count;       /* product of dims; 1 for scalars */
    uint32_t rank;
    inlay_dtype dtype;
} kit_tensor;

typedef struct kit_call {
    const kit_tensor *in;
    kit_tensor *out;
    uint32_t in_count;
    uint32_t out_count;
    void *state;          /* from prepare */
    void *plan;           /* from shape */
    void *workspace;      /* what shape asked for; per run, 64-byte aligned, not cleared */
    uint32_t max_threads; /* workers that kit_parallel may use */
    const inlay_host *host;
    inlay_run *run;
    inlay_diag *diag;
    void *exec; /* internal */
} kit_call;

/* Is there an in[i], out[i] at all? (Optional ones may be omitted at the end or in the middle.) */
static inline bool kit_has_input(const kit_call *call, uint32_t i)
{
    return i < call->in_count && call->in[i].dtype != INLAY_UNDEFINED;
}
static inline bool kit_has_output(const kit_call *call, uint32_t i)
{
    return i < call->out_count && call->out[i].dtype != INLAY_UNDEFINED;
}

/* Runs fn over [0, count) in ranges of at least grain elements on the pool; a small loop runs on the caller at once. */
inlay_status kit_parallel(const kit_call *call, int64_t count, int64_t grain, inlay_parallel_fn fn, void *user);

/* INLAY_OK while the run is to go on; otherwise what run, or the body of a loop, is to return at once. Cheap enough to
 * be called every few hundred microseconds; between operators and the ranges of a shared loop the host asks by
 * itself. */
static inline inlay_status kit_poll(const kit_call *call)
{
    return call->run != NULL ? call->host->poll(call->host->ctx, call->run) : INLAY_OK;
}

/* Gives output i its shape and memory, for kernels that set kit_plan.allocates; fills call->out[i], whose dims are then
 * the caller's array. An omitted output is left alone and is no error. */
inlay_status kit_alloc_output(const kit_call *call, uint32_t i, uint32_t rank, const int64_t *dims);

/* Bytes for string elements of an output; NULL: out of memory. */
char *kit_alloc_string(const kit_call *call, uint64_t bytes);

/* Bytes of count elements of dtype, packed. */
static inline uint64_t kit_bytes(inlay_dtype dtype, int64_t count)
{
    return ((uint64_t)count * inlay_dtype_bits(dtype) + 7) / 8;
}

/* ------------------------------------------------------------------ a kernel */

enum {
    KIT_IN_PLACE = 1u << 0,      /* output 0 may share the buffer of an input of the same dtype and dims */
    KIT_SHAPES_AT_RUN = 1u << 1, /* every output is allocated by run: its shape depends on data */
    /* Output 0 may share the buffer of input 0, and of no other, when dtype and number of elements agree, whatever the
     * dims: Reshape, which then has nothing to do, and ScatterND, which starts from a copy of input 0. */
    KIT_IN_PLACE_FIRST = 1u << 2
};

/* Where a kernel says why not. */
typedef struct kit_refusal {
    uint32_t code;         /* INLAY_REFUSE_* */
    char text[192];        /* a sentence */
    char accepted_if[128]; /* what would make it acceptable, or empty */
} kit_refusal;
/* Fills the refusal and returns false: `return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use mode linear", "...")`. */
INLAY_PRINTF(4, 5)
bool kit_refuse(kit_refusal *why, uint32_t code, const char *accepted_if, const char *format, ...);

/* What shape sees and fills in. in and out carry dims (of out: as inferred; count -1 when not known) and, where the
 * elements are known before the run, in[i].data. An output whose rank is not known either has rank 0. */
typedef struct kit_plan {
    const kit_tensor *in;
    const kit_tensor *out;
    uint32_t in_count;
    uint32_t out_count;
    uint32_t max_threads;
    uint32_t allocates;       /* out: bit i set = run allocates output i; UINT32_MAX = all */
    uint64_t workspace_bytes; /* out */
    void *plan;               /* out: from kit_plan_new or malloc, freed by the kit */
    void *room;               /* of kit_plan_new: memory of a plan that has gone, */
    size_t room_bytes;        /* and its size; then that of plan */
} kit_plan;

/* Cleared memory for plan->plan; where shapes change from run to run, that of a plan that has gone. NULL: out of
 * memory. */
static inline void *kit_plan_new(kit_plan *plan, size_t bytes)
{
    if (plan->room != NULL && plan->room_bytes >= bytes)
        return plan->plan = memset(plan->room, 0, bytes);
    plan->room_bytes = bytes;
    return plan->plan = calloc(1, bytes);
}

typedef struct kit_kernel {
    const char *domain; /* NULL = "ai.onnx" */
    const char *op_type;
    uint32_t since_min;   /* inclusive range of the schema's since_version that run understands; 0 = from the first */
    uint32_t since_max;   /* 0 = to the newest known when this was written: set it when an operator may change */
    uint32_t in_types[4]; /* set of dtypes for inputs 0 to 3; KIT_ANY = as the schema says */
    uint32_t out_types[2];
    uint32_t flags; /* KIT_IN_PLACE ... */
    /* All but run may be NULL. */
    bool (*supports)(const kit_node *node, kit_refusal *why);
    /* Finds *cost filled in from the bytes of inputs and outputs and one operation an output element, and sets what it
     * knows better. Setting flops alone is enough: ns then follows. For MatMul and the like. */
    void (*cost)(const kit_node *node, const kit_plan *shapes, inlay_cost *cost);
    inlay_status (*prepare)(const kit_node *node, void **out_state, inlay_diag *diag);
    void (*release)(void *state); /* default: free */
    inlay_status (*shape)(const void *state, kit_plan *plan, inlay_diag *diag);
    inlay_status (*run)(const kit_call *call);

    /* Optional, for operators that work element by element on floats: computes n elements of the output. in[k] has n
     * elements, or one that counts for all where step[k] is 0 instead of 1; out may lie on one of those with n. state
     * is prepare's. Kernels with it also run in chains, tile by tile, without a trip to memory between them. */
    void (*row)(const void *state, float *out, const float *const *in, const int64_t *step, int64_t n);
    uint32_t row_inputs; /* how many inputs row reads, at most KIT_ROW_INPUTS; the node's others must be constants */
    bool (*row_fits)(const kit_node *node); /* optional: may row stand for run? */
} kit_kernel;
enum { KIT_ROW_INPUTS = 2 };

typedef struct kit_table {
    const kit_kernel *kernels;
    uint32_t count;
} kit_table;

typedef struct kit_provider {
    const char *name;
    const char *description;
    const kit_table *const *tables; /* [table_count]; the first row that matches a node wins */
    uint32_t table_count;
    uint32_t option_count;
    const inlay_option *options;
    /* Optional: reads options, opens what is needed. *out is kit_node.provider. */
    inlay_status (*open)(const inlay_host *host, const inlay_create_args *args, void **out, inlay_diag *diag);
    void (*close)(void *provider);
    /* A run that is cancelled, or late, ends within this many milliseconds, because kernels that take long call
     * kit_poll; 0 = no promise. */
    uint32_t poll_ms;
    uint32_t
        flags; /* INLAY_PROVIDER_REFERENCE_CORE, or 0; the kit's own prices, of rows without cost, are of that core */
} kit_provider;

/* ------------------------------------------------------------------ the plugin */

/* What a plugin built on the kit consists of. Either part may be missing. */
typedef struct kit_plugin {
    const char *name;
    const char *version;
    const kit_provider *provider;
    const inlay_operator *operators; /* [operator_count] operators of the plugin's own domain */
    uint32_t operator_count;
    uint32_t flags; /* INLAY_PLUGIN_* */
} kit_plugin;

/* The ABI's structs, filled in by kit_open; static storage of the plugin. */
typedef struct kit_exports {
    inlay_plugin plugin;
    inlay_provider provider;
    char build_id[72];
} kit_exports;

/* Checks the host's ABI and describes the plugin; the body of inlay_plugin_open. The build id is the linker's
 * (--build-id), or else a hash of the code. */
inlay_status kit_open(const kit_plugin *self, kit_exports *exports, const inlay_host *host,
                      const inlay_plugin **out_plugin, inlay_diag *diag);

/* The ABI's description of a kit_provider, for a provider that is made of tables in part and hands their nodes on.
 * `self` outlives it, and is its ctx. */
inlay_provider kit_describe_provider(const kit_provider *self);

/* Defines inlay_plugin_open for a kit_plugin and the note that says what it was built for (inlay/note.h), at the end of
 * one source file: KIT_PLUGIN_NAMED(mine, "mine", "mine_cpu", "com.example"). The texts are string literals: the names
 * of the plugin, of its provider, and of the domains of its operators separated by spaces ("" = none). They are in the
 * note, where the host finds them without running the plugin, and have to be what `self` says too: a plugin whose note
 * differs is refused. */
#define KIT_PLUGIN_NAMED(self, name, provider, domains)                                                                \
    INLAY_PLUGIN_NOTE(name, provider, domains)                                                                         \
    inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)          \
    {                                                                                                                  \
        static kit_exports exports;                                                                                    \
        return kit_open(&(self), &exports, host, out_plugin, diag);                                                    \
    }

/* The same with a note that gives no names: a host that can't load the file can't say what would have been in it. */
#define KIT_PLUGIN(self) KIT_PLUGIN_NAMED(self, "", "", "")

#ifdef __cplusplus
}
#endif
#endif
