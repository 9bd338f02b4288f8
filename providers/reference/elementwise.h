/* elementwise.h - the machinery under operators that work element by element.
 *
 * A kernel brings loop functions over contiguous elements; this brings the rest: element types, broadcasting, threads.
 * A loop computes in one type ("compute": FLOAT, DOUBLE or INT64, or whatever the tensor holds). Where a tensor has
 * another type its elements pass through a block on the stack, converted (convert.h), so float16 and its kin cost a
 * conversion and no code. Loops may be called with the output on top of an input (KIT_IN_PLACE): element i is read
 * before it is written, and nothing else is assumed. */
#ifndef ELEMENTWISE_H
#define ELEMENTWISE_H
#include "instance.h"
#include "broadcast.h"
#include "simd/convert.h"
#include "reference.h"

enum {
    ELEMENTWISE_BLOCK = 512,        /* elements that pass through the stack at once */
    ELEMENTWISE_GRAIN = 16384,      /* elements below which a second thread does not pay: loops that memory limits */
    ELEMENTWISE_GRAIN_MATH = 8192,  /* that vectorise but compute for some time (vecmath.h) */
    ELEMENTWISE_GRAIN_CALLS = 2048, /* that call the C library for each element */
    ELEMENTWISE_SMALL_ROW = 32      /* shorter rows are gathered into blocks first */
};

/* Tells GCC that a loop carries no dependency from one element to the next although the output may be the input. */
#if defined(__GNUC__) && !defined(__clang__)
#define VECTOR_LOOP _Pragma("GCC ivdep")
#else
#define VECTOR_LOOP
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

/* ------------------------------------------------------------------ one input */

enum { ELEMENTWISE_ARGS = 4 };

/* output[i] = f(input[i]) for n elements; args are the numbers from the node's attributes. */
typedef void (*elementwise_unary_fn)(void *output, const void *input, int64_t n, const double *args);

/* The prepared state of a unary kernel, made with malloc. */
typedef struct elementwise_unary {
    elementwise_unary_fn fn; /* NULL: copy */
    inlay_dtype compute;     /* what fn reads */
    inlay_dtype result;      /* what fn writes */
    int64_t grain;           /* ELEMENTWISE_GRAIN ... */
    double args[ELEMENTWISE_ARGS];
} elementwise_unary;

/* out[0] = f(in[0]) by the elementwise_unary that is the state. */
inlay_status elementwise_unary_run(const kit_call *call);

/* kit_kernel.row of such a kernel, and whether it can stand for run: all is float. */
void elementwise_unary_row(const void *state, float *out, const float *const *in, const int64_t *step, int64_t n);

/* ------------------------------------------------------------------ two inputs */

/* z[i] = f(input[i * sx], output[i * sy]) for n elements; sx and sy are 0 or 1. */
typedef void (*elementwise_binary_fn)(void *z, const void *input, int64_t sx, const void *output, int64_t sy,
                                      int64_t n);

/* How the inputs broadcast. */
enum {
    ELEMENTWISE_NUMPY = 0,  /* both ways: opset 7 and on */
    ELEMENTWISE_LEGACY = 1, /* the second input into the first, from `axis` on: opsets 1 to 6 with broadcast = 1 */
    ELEMENTWISE_CHANNEL = 2 /* a vector into dimension 1 of the first, otherwise like numpy: PRelu-1 and -6 */
};

/* The prepared state of a binary kernel, made with malloc. */
typedef struct elementwise_binary {
    elementwise_binary_fn fn;
    inlay_dtype compute; /* what fn reads */
    inlay_dtype result;  /* what fn writes */
    int64_t grain;       /* ELEMENTWISE_GRAIN ...; 0 = ELEMENTWISE_GRAIN */
    uint32_t broadcast;  /* ELEMENTWISE_NUMPY ... */
    int64_t axis; /* ELEMENTWISE_LEGACY: first dimension of input 0 that input 1 lines up with; -1: the last ones */
} elementwise_binary;

/* Reads the broadcast and axis attributes of opsets 1 to 6 (`since` below 7) into binary. */
void elementwise_binary_legacy(const kit_node *node, elementwise_binary *binary);

/* shape and run of a binary kernel whose state is an elementwise_binary. */
inlay_status elementwise_binary_shape(const void *state, kit_plan *plan, inlay_diag *diag);
inlay_status elementwise_binary_run(const kit_call *call);
/* kit_kernel.row and row_fits: broadcasting as of opset 7. */
void elementwise_binary_row(const void *state, float *out, const float *const *in, const int64_t *step, int64_t n);
bool elementwise_binary_row_fits(const kit_node *node);

/* Lays elements [first, first + n) of the output out as input k of the broadcast has them: for loops that want long
 * runs where rows are short. bytes: of an element; bcast has at least two dimensions. */
void elementwise_spread(void *to, const void *from, int64_t bytes, const struct bcast *bcast, int k, int64_t first,
                        int64_t n);

/* ------------------------------------------------------------------ small tools */

/* Bytes of an element that is not sub-byte. */
static inline int64_t elementwise_bytes(inlay_dtype dtype)
{
    return (int64_t)inlay_dtype_bits(dtype) / 8;
}

/* Elements [first, first + count) of a tensor as `compute` (FLOAT, DOUBLE, INT64): a pointer into the tensor when it
 * has that type, otherwise into buffer, converted. */
const void *elementwise_load(inlay_dtype compute, inlay_dtype dtype, const void *data, int64_t first, int64_t count,
                             void *buffer);

/* The way back. */
void elementwise_store(inlay_dtype compute, inlay_dtype dtype, void *data, int64_t first, int64_t count,
                       const void *buffer);

/* Names the operator that fits a node among rows that start with their name. */
static inline bool elementwise_is(const inlay_node_info *node, const char *op_type)
{
    return strlen(op_type) == node->op_type.bytes && memcmp(op_type, node->op_type.data, node->op_type.bytes) == 0;
}
#endif
