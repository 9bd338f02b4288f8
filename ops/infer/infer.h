/* ops/infer/infer.h - what shape inference of an operator sees, and the tools it is written with.
 *
 * An op_infer_fn states the shape (and where the schema does not fix it, the element type) of each output, as exactly
 * as the inputs allow: sizes when they are fixed, symbols when they are named, unknown otherwise. The same function
 * runs when a model is loaded (symbols, constants) and when a plan is made for concrete shapes (everything that does
 * not depend on data is fixed then). It also propagates the *elements* of small integer tensors that hold dimensions,
 * so that Shape -> Gather -> Concat -> Reshape keeps what is known.
 *
 * A wrong model is INLAY_INVALID_MODEL or INLAY_SHAPE_MISMATCH by infer_fail(), whose text names the input; unknown
 * facts are not errors. */
#ifndef OPS_INFER_H
#define OPS_INFER_H
#include "inlay/plugin.h"
#include <stdbool.h>

enum { INFER_MAX_ELEMENTS = 1024 }; /* tensors with more elements do not propagate them */

typedef struct op_infer {
    const inlay_node_info *node;
    const inlay_value_info *const *in; /* [in_count]; NULL = omitted */
    inlay_value_info *const *out;      /* [out_count]; NULL = omitted; dtype pre-set where the schema fixes it */
    uint32_t in_count;
    uint32_t out_count;
    void *ctx;
    void *(*alloc)(void *ctx, size_t bytes);         /* zeroed, lives as long as the values; NULL: out of memory */
    uint32_t (*symbol)(void *ctx, const char *name); /* interned */
    const char *(*symbol_name)(void *ctx, uint32_t symbol);
    inlay_diag *diag;
} op_infer;

typedef inlay_status (*op_infer_fn)(op_infer *infer);

/* Fails with "<op_type> node '<name>': <text>". */
INLAY_PRINTF(3, 4)
inlay_status infer_fail(const op_infer *infer, inlay_status code, const char *format, ...);

/* ------------------------------------------------------------------ inputs */

bool infer_has_in(const op_infer *infer, uint32_t i);
bool infer_has_out(const op_infer *infer, uint32_t i);
/* Rank of input i, INLAY_RANK_UNKNOWN when unknown or omitted. */
uint32_t infer_rank(const op_infer *infer, uint32_t i);
/* Dimension d of input i, unknown when the rank is or d is beyond it. */
inlay_dim infer_dim(const op_infer *infer, uint32_t i, uint32_t d);
/* The elements of integer input i (any integer dtype, constant or propagated) as dimensions; NULL when unknown. */
const inlay_dim *infer_elements(op_infer *infer, uint32_t i, uint32_t *out_count);
/* As above but all fixed: fills values (room for max) and returns true, or returns false. */
bool infer_ints(op_infer *infer, uint32_t i, int64_t *values, uint32_t max, uint32_t *out_count);
/* The elements of constant float, double, float16, bfloat16 or integer input i: as infer_ints(). */
bool infer_floats(op_infer *infer, uint32_t i, double *values, uint32_t max, uint32_t *out_count);
/* Attributes, from the node (complete with defaults). */
int64_t infer_attr_int(const op_infer *infer, const char *name, int64_t otherwise);
double infer_attr_float(const op_infer *infer, const char *name, double otherwise);
const char *infer_attr_string(const op_infer *infer, const char *name, const char *otherwise);
const int64_t *infer_attr_ints(const op_infer *infer, const char *name, uint32_t *out_count); /* NULL when absent */
const inlay_attr_info *infer_attr(const op_infer *infer, const char *name);
/* axis in [-rank, rank) made non-negative; fails with a sentence that names `what`. */
INLAY_NODISCARD inlay_status infer_axis(const op_infer *infer, int64_t axis, uint32_t rank, const char *what,
                                        uint32_t *out_axis);

/* ------------------------------------------------------------------ outputs */

void infer_set_dtype(op_infer *infer, uint32_t o, inlay_dtype dtype);
/* dims are copied; rank may be INLAY_RANK_UNKNOWN. */
INLAY_NODISCARD inlay_status infer_set_shape(op_infer *infer, uint32_t o, uint32_t rank, const inlay_dim *dims);
/* Propagates elements: count dims, row-major. One that does not fit the output's type (it would wrap) is unknown. */
INLAY_NODISCARD inlay_status infer_set_elements(op_infer *infer, uint32_t o, uint32_t count, const inlay_dim *elements);

/* ------------------------------------------------------------------ dimensions
 *
 * Arithmetic on fixed dims is exact; on symbols it makes an expression symbol, so that equal expressions stay equal;
 * with an unknown operand the result is unknown. Division rounds down as Python's //, by 0 the result is unknown.
 * Numbers that 64 bits do not hold are unknown as elements, where kernels wrap; as sizes infer_set_shape() refuses
 * them. */

static inline inlay_dim dim_fixed(int64_t value)
{
    return (inlay_dim){ .value = value, .kind = INLAY_DIM_FIXED };
}
static inline inlay_dim dim_unknown(void)
{
    return (inlay_dim){ .value = -1, .kind = INLAY_DIM_UNKNOWN };
}
/* Fixed, but beyond what 64 bits hold: an unknown dim that remembers on which side. */
static inline inlay_dim dim_beyond(bool negative)
{
    return (inlay_dim){ .value = negative ? INT64_MIN : INT64_MAX, .kind = INLAY_DIM_UNKNOWN };
}
static inline bool dim_is_beyond(inlay_dim dim)
{
    return dim.kind == INLAY_DIM_UNKNOWN && (dim.value == INT64_MIN || dim.value == INT64_MAX);
}
bool dim_same(inlay_dim a, inlay_dim b); /* known to be equal */
inlay_dim dim_add(op_infer *infer, inlay_dim a, inlay_dim b);
inlay_dim dim_sub(op_infer *infer, inlay_dim a, inlay_dim b);
inlay_dim dim_mul(op_infer *infer, inlay_dim a, inlay_dim b);
inlay_dim dim_div(op_infer *infer, inlay_dim a, inlay_dim b); /* floor */
inlay_dim dim_ceil_div(op_infer *infer, inlay_dim a, inlay_dim b);
inlay_dim dim_min(op_infer *infer, inlay_dim a, inlay_dim b);
/* What is left of b when its slice starts at -a, a not negative: the smaller of both, but b when a is 0. */
inlay_dim dim_last(op_infer *infer, inlay_dim a, inlay_dim b);
/* Is it for sure not negative: a number, or a sum of sizes? Names of dims are sizes. */
bool dim_is_size(const op_infer *infer, inlay_dim dim);
/* The dim that two inputs agree on: fixed beats symbolic beats unknown; two fixed sizes that differ fail. */
INLAY_NODISCARD inlay_status dim_merge(const op_infer *infer, inlay_dim a, inlay_dim b, const char *what,
                                       inlay_dim *out);
/* numpy broadcasting of two dims: 1 gives way; fixed sizes that differ fail; of two names that differ it is a new
 * one. */
INLAY_NODISCARD inlay_status dim_broadcast(op_infer *infer, inlay_dim a, inlay_dim b, inlay_dim *out);

/* ------------------------------------------------------------------ common rules */

inlay_status infer_same_as_first(op_infer *infer); /* output 0: dtype by schema, shape of input 0 */
inlay_status infer_broadcast_all(op_infer *infer); /* output 0: broadcast of all inputs */
/* The broadcast of inputs first to end - 1; out_dims has room for INLAY_MAX_RANK. A rank that is not known makes
 * *out_rank INLAY_RANK_UNKNOWN. */
INLAY_NODISCARD inlay_status infer_broadcast(op_infer *infer, uint32_t first, uint32_t end, uint32_t *out_rank,
                                             inlay_dim *out_dims);
/* Fails when input i can't be broadcast to these dims, aligned at the end: when it has more of them, or a fixed one
 * that is neither 1 nor theirs (unidirectional broadcasting). */
INLAY_NODISCARD inlay_status infer_broadcasts_to(const op_infer *infer, uint32_t i, uint32_t rank,
                                                 const inlay_dim *dims);
/* Fails when input i, which may be omitted, is known to have another number of elements. */
INLAY_NODISCARD inlay_status infer_holds(op_infer *infer, uint32_t i, inlay_dim count);
inlay_status infer_scalar(op_infer *infer); /* output 0: rank 0 */
/* Output 0 gets the elements of input 0 when those are known: for operators that keep their order (Reshape,
 * Identity). */
inlay_status infer_same_elements(op_infer *infer);
/* Elements of output 0, when those of inputs 0 and 1 are known and both are scalars or vectors: combine() of each pair,
 * one element standing for all. */
INLAY_NODISCARD inlay_status infer_pairwise_elements(op_infer *infer,
                                                     inlay_dim (*combine)(op_infer *infer, inlay_dim a, inlay_dim b));
/* The product of dims[0] ... dims[count - 1]; 1 when count is 0. */
inlay_dim dim_product(op_infer *infer, const inlay_dim *dims, uint32_t count);
#endif
