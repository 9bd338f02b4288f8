/* inlay/kit_call.h - the run of a kernel of the kit: its tensors, parallel loops, memory of outputs.
 *
 * A part of inlay/kit.h, which explains the kit. Files that only compute need no more than this header. */
#ifndef INLAY_KIT_CALL_H
#define INLAY_KIT_CALL_H
#include "inlay/types.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct inlay_host;

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
 * serves every x86-64 CPU. Use it for static functions that have loops and whose calls the compiler can all inline. It
 * names levels and not CPUs, because GCC selects "arch=haswell" on CPUs of Intel only. It is empty for Clang; under
 * sanitizers, whose runtimes start after ifuncs are resolved; and with C libraries without ifuncs (musl). */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) &&                           \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define KIT_MULTIVERSION __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define KIT_MULTIVERSION
#endif

/* Returns the highest instruction-set level of this CPU and operating system, INLAY_ISA_* of inlay/note.h. *out_extra,
 * which may be NULL, gets the INLAY_ISA_* extensions beyond that level. Plugins that select code themselves call this
 * function. Store the result: computing *out_extra takes about 50 us on a virtual machine. Thread-safe. */
uint32_t kit_isa(uint32_t *out_extra);

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
    const struct inlay_host *host;
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
inlay_status kit_poll(const kit_call *call);

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

#ifdef __cplusplus
}
#endif
#endif
