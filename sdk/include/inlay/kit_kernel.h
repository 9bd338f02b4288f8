/* inlay/kit_kernel.h - kernels for the kit: the nodes that they see, their state, their calls, and tables of them.
 *
 * A part of inlay/kit.h, which explains the kit. Files that define kernels only need no more than this header. */
#ifndef INLAY_KIT_KERNEL_H
#define INLAY_KIT_KERNEL_H
#include "inlay/execution.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Number of elements of an array. */
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
#define KIT_ANY UINT64_C(0) /* all types of the operator's schema */

/* Compiles a function once for each instruction-set level and selects the variant at load time, so that one binary
 * serves every x86-64 CPU. Use it for static functions with loops, all of whose calls the compiler can inline. It names
 * levels and not CPUs, because GCC selects "arch=haswell" on CPUs of Intel only. It is empty for Clang; under
 * sanitizers, whose runtimes start after ifuncs are resolved; and with C libraries without ifuncs (musl). */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) &&                           \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define KIT_MULTIVERSION __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define KIT_MULTIVERSION
#endif

/* Returns the highest instruction-set level of this CPU and operating system, INLAY_ISA_* of inlay/note.h. *out_extra,
 * which may be NULL, gets the INLAY_ISA_* extensions beyond that level. For plugins that select code themselves. Store
 * the result: computing *out_extra takes about 50 us on a virtual machine. Thread-safe. */
uint32_t kit_isa(uint32_t *out_extra);

/* A node in supports, cost and prepare. Borrowed for the call. */
typedef struct kit_node {
    const inlay_host *host;
    const inlay_graph *graph;
    const inlay_node_info *info;
    void *provider;         /* the result of kit_provider.open; NULL without it */
    void *compile_handle;   /* internal */
    uint8_t *constant_fate; /* internal */
} kit_node;

/* Returns input or output i of the node; NULL if it is omitted or does not exist. */
const inlay_value_info *kit_input(const kit_node *node, uint32_t i);
const inlay_value_info *kit_output(const kit_node *node, uint32_t i);
/* Returns the element type of input or output i; INLAY_UNDEFINED if it is omitted or does not exist. */
inlay_dtype kit_input_dtype(const kit_node *node, uint32_t i);
inlay_dtype kit_output_dtype(const kit_node *node, uint32_t i);
/* Returns true if input i is a constant. */
bool kit_is_constant(const kit_node *node, uint32_t i);
/* Returns the elements of constant input i, aligned, valid as long as the prepared state; NULL if it is omitted or not
 * a constant, or if memory ran out. Only in prepare. */
const void *kit_constant(const kit_node *node, uint32_t i);
/* Like kit_constant(), but the elements may be misaligned, which avoids a copy: read them with memcpy. */
const void *kit_constant_unaligned(const kit_node *node, uint32_t i);
/* States that run never reads constant input i, because prepare has packed or copied it. The host may release it, and
 * call->in[i].data is NULL in run. Only in prepare. */
void kit_drop_constant(const kit_node *node, uint32_t i);

/* States that run reads the elements of constant input i with memcpy: they may be misaligned, and the host need not
 * copy a constant that the model's file does not align. For kernels that read a few rows of a large constant. Only in
 * prepare. */
void kit_accept_unaligned(const kit_node *node, uint32_t i);

/* States that prepare has finished reading constant input i for now. Its pages may be dropped from memory; they are
 * loaded again when they are read. For kernels that pack weights piece by piece. Only in prepare. */
void kit_release_constant(const kit_node *node, uint32_t i);

/* Memory for data that prepare derives from constants, such as packed weights. If the host supports extension
 * inlay.packs/1, the memory belongs to the host, which keeps it in a file and finds it there the next time; otherwise
 * it is allocated in this process.
 *
 *     INLAY_TRY(kit_pack_take(node, key, sizeof key, bytes, &state->pack, diag));
 *     if (!state->pack.filled)
 *         pack_weights(state->pack.data);
 *     kit_pack_keep(node, &state->pack);
 *
 * The kernel's release function calls kit_pack_free(&state->pack). */
typedef struct kit_pack {
    void *data; /* aligned to 64 bytes; prepare fills it before it returns; read-only afterwards; NULL: no memory */
    /* true: data already holds the contents stored under the key, perhaps by an earlier process; read-only */
    bool filled;
    bool own; /* internal */
} kit_pack;
/* Gets memory of `bytes` bytes. key identifies everything that determines the contents: content_hash of the constants,
 * layout, sizes; the host adds the provider, its build and options, and the CPU. key NULL and key_bytes 0: the memory
 * is not stored. Only in prepare, on any thread. INLAY_OUT_OF_MEMORY: *out is {0}, and diag states the size. */
INLAY_NODISCARD inlay_status kit_pack_take(const kit_node *node, const void *key, uint64_t key_bytes, uint64_t bytes,
                                           kit_pack *out, inlay_diag *diag);
/* States that the memory is filled and may be stored; otherwise its contents are lost with the session. Has no effect
 * on memory that was already filled. */
void kit_pack_keep(const kit_node *node, const kit_pack *pack);
void kit_pack_free(kit_pack *pack); /* a no-op for {0} */

/* Returns the attribute with this name, or NULL. */
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
/* Each returns the value of an attribute, or `otherwise` if the node has none of that name and kind. */
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
/* Returns the list and, in *out_count, its length; NULL and 0 if the node has no such attribute. */
static inline const int64_t *kit_attr_ints(const inlay_node_info *node, const char *name, uint32_t *out_count)
{
    const inlay_attr_info *a = kit_attr(node, name);
    bool has = a != NULL && a->kind == INLAY_ATTR_INTS;
    *out_count = has ? a->count : 0;
    return has ? a->ints : NULL;
}

/* A tensor of a run. data is NULL if and only if an optional input or output is omitted (dtype is then
 * INLAY_UNDEFINED), the constant was dropped, or the output has yet to be allocated with kit_alloc_output. */
typedef struct kit_tensor {
    void *data;
    const int64_t *dims; /* [rank] elements */
    int64_t count;       /* product of dims; 1 for scalars */
    uint32_t rank;
    inlay_dtype dtype;
} kit_tensor;

/* Arguments of run. */
typedef struct kit_call {
    const kit_tensor *in; /* [in_count] */
    kit_tensor *out;      /* [out_count] */
    uint32_t in_count;
    uint32_t out_count;
    void *state;     /* result of prepare; NULL without it */
    void *plan;      /* kit_plan.plan of shape; NULL without it */
    void *workspace; /* the workspace that shape requested; each run has its own; aligned to 64 bytes, not cleared */
    uint32_t max_threads; /* maximum number of workers of kit_parallel */
    const inlay_host *host;
    inlay_run *run;   /* may be NULL outside of a run */
    inlay_diag *diag; /* for the message of a failure; never NULL */
    void *exec;       /* internal */
} kit_call;

/* Return true if in[i] or out[i] is present. Optional ones may be omitted at the end or in the middle. */
static inline bool kit_has_input(const kit_call *call, uint32_t i)
{
    return i < call->in_count && call->in[i].dtype != INLAY_UNDEFINED;
}
static inline bool kit_has_output(const kit_call *call, uint32_t i)
{
    return i < call->out_count && call->out[i].dtype != INLAY_UNDEFINED;
}

/* Runs fn over [0, count) on the thread pool, in ranges of at least grain iterations, see inlay_host.parallel_for. A
 * loop with count <= grain runs on the calling thread. Returns the first status of fn other than INLAY_OK, or that of
 * kit_poll. */
inlay_status kit_parallel(const kit_call *call, int64_t count, int64_t grain, inlay_parallel_fn fn, void *user);

/* Returns INLAY_OK, or the status that run, or the body of a loop, has to return at once because the run was cancelled
 * or is late. Cheap enough to be called every few hundred microseconds. Between nodes and between ranges of a parallel
 * loop, the host polls. */
static inline inlay_status kit_poll(const kit_call *call)
{
    return call->run != NULL ? call->host->poll(call->host->ctx, call->run) : INLAY_OK;
}

/* Sets the shape of output i and allocates its memory, for kernels that set kit_plan.allocates. Fills call->out[i],
 * whose dims then point to the caller's array. For an omitted output it does nothing and returns INLAY_OK. */
inlay_status kit_alloc_output(const kit_call *call, uint32_t i, uint32_t rank, const int64_t *dims);

/* Allocates the bytes of string elements of an output; NULL: out of memory. */
char *kit_alloc_string(const kit_call *call, uint64_t bytes);

/* Returns the size of `count` elements of dtype in bytes, rounded up; sub-byte types are packed. */
static inline uint64_t kit_bytes(inlay_dtype dtype, int64_t count)
{
    return ((uint64_t)count * inlay_dtype_bits(dtype) + 7) / 8;
}

/* Flags of kernels. */
enum {
    KIT_IN_PLACE = 1u << 0,      /* output 0 may share the buffer of an input with the same dtype and dims */
    KIT_SHAPES_AT_RUN = 1u << 1, /* run allocates every output: shapes depend on data */
    /* Output 0 may share the buffer of input 0, and of no other input, if dtype and number of elements agree; the
     * dims may differ: for Reshape, which then does nothing, and ScatterND, which starts from a copy of input 0. */
    KIT_IN_PLACE_FIRST = 1u << 2
};

/* The reason why a kernel cannot run a node. */
typedef struct kit_refusal {
    uint32_t code;         /* INLAY_REFUSE_* */
    char text[192];        /* the reason, one sentence */
    char accepted_if[128]; /* a change that would make the node acceptable, or empty */
} kit_refusal;
/* Fills the refusal and returns false: `return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use mode linear", "...")`. */
INLAY_PRINTF(4, 5)
bool kit_refuse(kit_refusal *why, uint32_t code, const char *accepted_if, const char *format, ...);

/* Arguments and results of shape. in and out hold the dims (those of out are inferred; count is -1 if they are not
 * known, and rank 0 if the rank is not known). in[i].data is NULL unless the elements are known before the run. */
typedef struct kit_plan {
    const kit_tensor *in;  /* [in_count] */
    const kit_tensor *out; /* [out_count] */
    uint32_t in_count;
    uint32_t out_count;
    uint32_t max_threads;     /* maximum number of workers of kit_parallel in run */
    uint32_t allocates;       /* out: bit i set = run allocates output i; UINT32_MAX = all; initially 0 */
    uint64_t workspace_bytes; /* out: initially 0 */
    void *plan;               /* out: memory of kit_plan_new or malloc, freed by the kit; initially NULL */
    void *room;               /* for kit_plan_new: memory of a plan that is no longer used */
    size_t room_bytes;        /* for kit_plan_new: size of room, afterwards of plan */
} kit_plan;

/* Sets plan->plan to cleared memory of `bytes` bytes and returns it; NULL: out of memory. If shapes change between
 * runs, the function reuses the memory of a discarded plan. */
static inline void *kit_plan_new(kit_plan *plan, size_t bytes)
{
    if (plan->room != NULL && plan->room_bytes >= bytes)
        return plan->plan = memset(plan->room, 0, bytes);
    plan->room_bytes = bytes;
    return plan->plan = calloc(1, bytes);
}

/* A kernel: the nodes that it can run, and its functions. All functions except run may be NULL. */
typedef struct kit_kernel {
    const char *domain; /* NULL = "ai.onnx" */
    const char *op_type;
    uint32_t since_min;    /* inclusive range of since_version that run supports; 0 = from the first */
    uint32_t since_max;    /* 0 = no upper limit, so set it: a later version of the operator may differ */
    uint64_t in_types[4];  /* sets of dtypes for inputs 0 to 3; KIT_ANY = all types of the schema */
    uint64_t out_types[2]; /* sets of dtypes for outputs 0 and 1, likewise */
    uint32_t flags;        /* KIT_IN_PLACE ... */
    /* Returns true if the kernel can run the node, otherwise fills *why with kit_refuse(). NULL: the kernel can run
     * every node that has the stated versions and types. */
    bool (*supports)(const kit_node *node, kit_refusal *why);
    /* Refines *cost, which is initialised with the bytes of inputs and outputs and one operation for each output
     * element. Setting flops suffices: the kit then derives ns. Kernels of operators with more operations, such as
     * MatMul, need this function. */
    void (*cost)(const kit_node *node, const kit_plan *shapes, inlay_cost *cost);
    inlay_status (*prepare)(const kit_node *node, void **out_state, inlay_diag *diag);
    void (*release)(void *state); /* frees the result of prepare; NULL = free() */
    inlay_status (*shape)(const void *state, kit_plan *plan, inlay_diag *diag);
    inlay_status (*run)(const kit_call *call);

    /* Optional, for element-wise operators on floats: computes n elements of the output. in[k] has n elements, or a
     * single one for all if step[k] is 0 instead of 1; out may be the memory of an input with n elements. state comes
     * from prepare. Kernels with row also run in fused chains, tile by tile, without storing intermediate results. */
    void (*row)(const void *state, float *out, const float *const *in, const int64_t *step, int64_t n);
    /* number of inputs that row reads, at most KIT_ROW_INPUTS; the node's other inputs must be constants */
    uint32_t row_inputs;
    bool (*row_fits)(const kit_node *node); /* optional: whether row computes the same as run for this node */
} kit_kernel;
enum { KIT_ROW_INPUTS = 2 };

/* An array of kernels. */
typedef struct kit_table {
    const kit_kernel *kernels;
    uint32_t count;
} kit_table;

#ifdef __cplusplus
}
#endif
#endif
