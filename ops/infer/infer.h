/* ops/infer/infer.h - the interface of shape inference, and the functions that infer functions are written with.
 *
 * An op_infer_fn sets the shape of each output, and the element type unless the schema fixes it. Each dimension is as
 * exact as the inputs allow: a fixed size, a symbol, or unknown. The same function runs when a model is loaded (with
 * symbols and constants) and when a plan is created for concrete shapes (then all sizes that do not depend on data are
 * fixed). An infer function also propagates the elements of small integer tensors that hold dimensions, so that the
 * shape after Shape -> Gather -> Concat -> Reshape is known.
 *
 * For an invalid model, an infer function calls infer_fail() with INLAY_INVALID_MODEL or INLAY_SHAPE_MISMATCH and a
 * message that names the input. A fact that is not known is not an error. */
#ifndef OPS_INFER_H
#define OPS_INFER_H
#include "inlay/graph_view.h"
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

bool infer_has_in(const op_infer *infer, uint32_t i);
bool infer_has_out(const op_infer *infer, uint32_t i);
/* Rank of input i, at most INLAY_MAX_RANK; INLAY_RANK_UNKNOWN if unknown or omitted. */
uint32_t infer_rank(const op_infer *infer, uint32_t i);
/* Dimension d of input i; unknown if the rank is unknown or not above d. */
inlay_dim infer_dim(const op_infer *infer, uint32_t i, uint32_t d);
/* The elements of integer input i (any integer dtype, constant or propagated) as dimensions, at most
 * INFER_MAX_ELEMENTS; NULL if unknown. */
const inlay_dim *infer_elements(op_infer *infer, uint32_t i, uint32_t *out_count);
/* Writes the same elements to values and returns true if all are fixed and there are at most `max`; otherwise returns
 * false. */
bool infer_ints(op_infer *infer, uint32_t i, int64_t *values, uint32_t max, uint32_t *out_count);
/* The elements of constant float, double, float16, bfloat16 or integer input i; otherwise as infer_ints(). */
bool infer_floats(op_infer *infer, uint32_t i, double *values, uint32_t max, uint32_t *out_count);
/* Attributes of the node, which has all default values. `otherwise` is returned if the attribute is absent. */
int64_t infer_attr_int(const op_infer *infer, const char *name, int64_t otherwise);
double infer_attr_float(const op_infer *infer, const char *name, double otherwise);
const char *infer_attr_string(const op_infer *infer, const char *name, const char *otherwise);
const int64_t *infer_attr_ints(const op_infer *infer, const char *name, uint32_t *out_count); /* NULL if absent */
const inlay_attr_info *infer_attr(const op_infer *infer, const char *name);                   /* NULL if absent */
/* The element type whose number is in the attribute; `otherwise` if it is absent, INLAY_UNDEFINED if it is 0. Fails for
 * other numbers. */
INLAY_NODISCARD inlay_status infer_attr_dtype(const op_infer *infer, const char *name, inlay_dtype otherwise,
                                              inlay_dtype *out);
/* Converts an axis in [-rank, rank) to [0, rank); fails with a message that names `what`. */
INLAY_NODISCARD inlay_status infer_axis(const op_infer *infer, int64_t axis, uint32_t rank, const char *what,
                                        uint32_t *out_axis);

void infer_set_dtype(op_infer *infer, uint32_t o, inlay_dtype dtype);
/* dims are copied; rank may be INLAY_RANK_UNKNOWN. */
INLAY_NODISCARD inlay_status infer_set_shape(op_infer *infer, uint32_t o, uint32_t rank, const inlay_dim *dims);
/* Propagates `count` elements in row-major order. An element that the output's type cannot hold becomes unknown,
 * because kernels would wrap it. */
INLAY_NODISCARD inlay_status infer_set_elements(op_infer *infer, uint32_t o, uint32_t count, const inlay_dim *elements);

/* Dimensions.
 *
 * Arithmetic on fixed dimensions is exact. On symbols it creates an expression symbol; equal expressions have the same
 * symbol. With an unknown operand the result is unknown. Division rounds down like Python's //; division by 0 is
 * unknown. Results beyond 64 bits are unknown as elements, because kernels wrap; as sizes infer_set_shape() refuses
 * them. */

static inline inlay_dim dim_fixed(int64_t value)
{
    return (inlay_dim){ .value = value, .kind = INLAY_DIM_FIXED };
}
static inline inlay_dim dim_unknown(void)
{
    return (inlay_dim){ .value = -1, .kind = INLAY_DIM_UNKNOWN };
}
/* A fixed size beyond 64 bits: an unknown dimension that stores the sign. */
static inline inlay_dim dim_beyond(bool negative)
{
    return (inlay_dim){ .value = negative ? INT64_MIN : INT64_MAX, .kind = INLAY_DIM_UNKNOWN };
}
static inline bool dim_is_beyond(inlay_dim dim)
{
    return dim.kind == INLAY_DIM_UNKNOWN && (dim.value == INT64_MIN || dim.value == INT64_MAX);
}
bool dim_same(inlay_dim a, inlay_dim b); /* true if known to be equal */
inlay_dim dim_add(op_infer *infer, inlay_dim a, inlay_dim b);
inlay_dim dim_sub(op_infer *infer, inlay_dim a, inlay_dim b);
inlay_dim dim_mul(op_infer *infer, inlay_dim a, inlay_dim b);
inlay_dim dim_div(op_infer *infer, inlay_dim a, inlay_dim b); /* floor */
inlay_dim dim_ceil_div(op_infer *infer, inlay_dim a, inlay_dim b);
inlay_dim dim_min(op_infer *infer, inlay_dim a, inlay_dim b);
/* The size of a slice of b that starts at -a, where a is not negative: the minimum of both, but b if a is 0. */
inlay_dim dim_last(op_infer *infer, inlay_dim a, inlay_dim b);
/* True if the dimension is known not to be negative: a number, or a sum of sizes. Symbols of dimensions are sizes. */
bool dim_is_size(const op_infer *infer, inlay_dim dim);
/* The dimension that two inputs must share: the fixed one, else the symbolic one. Fails if two fixed sizes differ. */
INLAY_NODISCARD inlay_status dim_merge(const op_infer *infer, inlay_dim a, inlay_dim b, const char *what,
                                       inlay_dim *out);
/* numpy broadcasting of two dimensions: if one is 1, the other one. Fails if fixed sizes differ; two different symbols
 * give a new one. */
INLAY_NODISCARD inlay_status dim_broadcast(op_infer *infer, inlay_dim a, inlay_dim b, inlay_dim *out);

inlay_status infer_same_as_first(op_infer *infer); /* output 0: dtype by schema, shape of input 0 */
inlay_status infer_broadcast_all(op_infer *infer); /* output 0: broadcast of all inputs */
/* Unidirectional broadcasting: fails if input i cannot be broadcast to these dimensions, aligned at the end, because it
 * has a higher rank or a fixed size that is neither 1 nor equal. */
INLAY_NODISCARD inlay_status infer_broadcasts_to(const op_infer *infer, uint32_t i, uint32_t rank,
                                                 const inlay_dim *dims);
/* Fails if input i, which may be omitted, is known to have more than one axis, though it is a list of numbers: sizes,
 * axes, bounds, repetitions. A scalar is a list of one number. */
INLAY_NODISCARD inlay_status infer_check_list(const op_infer *infer, uint32_t i);
/* Fails if input i, which may be omitted, is known not to be a list of `count` elements. */
INLAY_NODISCARD inlay_status infer_check_count(op_infer *infer, uint32_t i, inlay_dim count);
inlay_status infer_scalar(op_infer *infer); /* output 0: rank 0 */
/* Propagates the elements of input 0 to output 0, for operators that keep their order (Reshape, Identity). */
inlay_status infer_same_elements(op_infer *infer);
/* Propagates combine() of each pair of elements of inputs 0 and 1 to output 0, if both are scalars or vectors with
 * known elements. A single element is broadcast. */
INLAY_NODISCARD inlay_status infer_pairwise_elements(op_infer *infer,
                                                     inlay_dim (*combine)(op_infer *infer, inlay_dim a, inlay_dim b));
/* The product of dims[0] ... dims[count - 1]; 1 if count is 0. */
inlay_dim dim_product(op_infer *infer, const inlay_dim *dims, uint32_t count);
#endif
