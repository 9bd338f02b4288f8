/* elementwise.h - common code of element-wise operators.
 *
 * A kernel supplies loop functions over contiguous elements. This code handles element types, broadcasting and threads.
 * A loop computes in one type, `compute`: FLOAT, DOUBLE, INT64, or the type of the tensor. Elements of another type are
 * converted through a block on the stack (convert.h), so float16 and similar types cost a conversion but no extra loop.
 * A loop may be called with the output in place of an input (KIT_IN_PLACE), so it must read element i before it writes
 * element i. */
#ifndef ELEMENTWISE_H
#define ELEMENTWISE_H
#include "operators/instance.h"
#include "inlay/cost.h"
#include "operators/broadcast.h"
#include "simd/convert.h"
#include "operators/operators.h"

enum {
    ELEMENTWISE_BLOCK = 512,        /* elements converted on the stack at once */
    ELEMENTWISE_GRAIN = 16384,      /* minimum elements per thread: loops limited by memory bandwidth */
    ELEMENTWISE_GRAIN_MATH = 8192,  /* minimum elements per thread: vectorized arithmetic (vecmath.h) */
    ELEMENTWISE_GRAIN_CALLS = 2048, /* minimum elements per thread: one C library call per element */
    ELEMENTWISE_SMALL_ROW = 32      /* rows shorter than this are gathered into blocks first; with conversions, those
                                       of less than half a block */
};

/* Informs GCC that a loop has no dependency between elements, although the output may be the input. */
#if defined(__GNUC__) && !defined(__clang__)
#define VECTOR_LOOP _Pragma("GCC ivdep")
#else
#define VECTOR_LOOP
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

enum { ELEMENTWISE_ARGS = 4 };

/* output[i] = f(input[i]) for `count` elements; args are the numbers from the node's attributes. */
typedef void (*elementwise_unary_fn)(void *output, const void *input, int64_t count, const double *args);

/* The prepared state of a unary kernel, allocated with malloc. */
typedef struct elementwise_unary {
    elementwise_unary_fn fn; /* NULL: copy */
    inlay_dtype compute;     /* input type of fn */
    inlay_dtype result;      /* output type of fn */
    int64_t grain;           /* an ELEMENTWISE_GRAIN constant */
    double args[ELEMENTWISE_ARGS];
} elementwise_unary;

/* Computes out[0] = f(in[0]); the kernel's state is an elementwise_unary. */
inlay_status elementwise_unary_run(const kit_call *call);

/* The member `row` of the kit_kernel of such a kernel; it replaces `run` where input and output are float. */
void elementwise_unary_row(const void *state, float *out, const float *const *in, const int64_t *step, int64_t count);

/* output[i] = f(first[i * first_step], second[i * second_step]) for `count` elements; the steps are 0 or 1. */
typedef void (*elementwise_binary_fn)(void *output, const void *first, int64_t first_step, const void *second,
                                      int64_t second_step, int64_t count);

/* The rule of broadcasting. */
enum {
    ELEMENTWISE_NUMPY = 0,  /* numpy, both inputs: opset 7 and later */
    ELEMENTWISE_LEGACY = 1, /* the second input to the first, starting at `axis`: opsets 1 to 6 with broadcast = 1 */
    ELEMENTWISE_CHANNEL = 2 /* a vector along dimension 1 of the first input, otherwise numpy: PRelu-1 and PRelu-6 */
};

/* The prepared state of a binary kernel, allocated with malloc. */
typedef struct elementwise_binary {
    elementwise_binary_fn fn;
    inlay_dtype compute; /* input type of fn */
    inlay_dtype result;  /* output type of fn */
    int64_t grain;       /* an ELEMENTWISE_GRAIN constant; 0 = ELEMENTWISE_GRAIN */
    uint32_t broadcast;  /* ELEMENTWISE_NUMPY, _LEGACY or _CHANNEL */
    int64_t
        axis; /* ELEMENTWISE_LEGACY: dimension of input 0 aligned with the first one of input 1; -1: the last ones */
} elementwise_binary;

/* Reads the broadcast and axis attributes of opsets 1 to 6 (`since` below 7) into binary. */
void elementwise_binary_legacy(const kit_node *node, elementwise_binary *binary);

/* The members `shape` and `run` of the kit_kernel of a binary kernel, whose state is an elementwise_binary. */
inlay_status elementwise_binary_shape(const void *state, kit_plan *plan, inlay_diag *diag);
inlay_status elementwise_binary_run(const kit_call *call);
/* The members `row` and `row_fits` of the kit_kernel of such a kernel, for the broadcasting of opset 7 and later. */
void elementwise_binary_row(const void *state, float *out, const float *const *in, const int64_t *step, int64_t count);
bool elementwise_binary_row_fits(const kit_node *node);

/* Expands input `index` of the broadcast: writes one element for each of the output elements [first, first + count).
 * Where rows are short, this gives loops long rows. bytes: size of an element. bcast has at least two dimensions. */
void elementwise_spread(void *to, const void *from, int64_t bytes, const struct bcast *bcast, int input, int64_t first,
                        int64_t count);

/* Bytes of an element. The type must not be smaller than a byte. */
static inline int64_t elementwise_bytes(inlay_dtype dtype)
{
    return (int64_t)inlay_dtype_bits(dtype) / 8;
}

/* Reads elements [first, first + count) of a tensor as type `compute` (FLOAT, DOUBLE, INT64). Returns a pointer into
 * the tensor if the tensor has that type; otherwise converts the elements to `buffer` and returns it. */
const void *elementwise_load(inlay_dtype compute, inlay_dtype dtype, const void *data, int64_t first, int64_t count,
                             void *buffer);

/* The inverse of elementwise_load(): converts `buffer` to the tensor's type. */
void elementwise_store(inlay_dtype compute, inlay_dtype dtype, void *data, int64_t first, int64_t count,
                       const void *buffer);

/* Returns whether the node's operator is op_type. */
bool elementwise_is(const struct inlay_node_info *node, const char *op_type);

/* Sets the operations of a function with this grain, for kit_kernel.cost: an element takes about as long as this number
 * of additions. */
static inline void elementwise_cost(int64_t grain, inlay_cost *cost)
{
    cost->flops *= grain == ELEMENTWISE_GRAIN ? 1 : grain == ELEMENTWISE_GRAIN_MATH ? 16 : 64;
}
#endif
