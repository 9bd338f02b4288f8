/* Unary mathematics: ONNX 1 to 22. float16 and bfloat16 compute in float, integers in int64 or double
 * (elementwise.h). */
#include "operators/instance.h"
#include "inlay/check.h"
#include "inlay/graph_view.h"
#include "operators/elementwise.h"
#include "simd/row_set.h"
#include "simd/vecmath.h"
#include <math.h>
#include <stdlib.h>

#define LOOP abs
#define F(x) vm_abs(x)
#define D(x) fabs(x)
#include "operators/unary.inc"
#define LOOP neg
#define F(x) (-(x))
#define D(x) (-(x))
#include "operators/unary.inc"
#define LOOP sign /* NaN stays NaN */
#define F(x) ((x) > 0.0f ? 1.0f : (x) < 0.0f ? -1.0f : (x) == 0.0f ? 0.0f : (x))
#define D(x) ((x) > 0.0 ? 1.0 : (x) < 0.0 ? -1.0 : (x) == 0.0 ? 0.0 : (x))
#include "operators/unary.inc"
#define LOOP floor
#define F(x) floorf(x)
#define D(x) floor(x)
#include "operators/unary.inc"
#define LOOP ceil
#define F(x) ceilf(x)
#define D(x) ceil(x)
#include "operators/unary.inc"
#define LOOP round /* halves to even: Round-11 */
#define F(x) rintf(x)
#define D(x) rint(x)
#include "operators/unary.inc"
#define LOOP sqrt
#define F(x) sqrtf(x)
#define D(x) sqrt(x)
#include "operators/unary.inc"
#define LOOP exp /* the loop for float follows below */
#define D(x) vd_exp(x)
#include "operators/unary.inc"
#define LOOP log
#define F(x) vm_log(x)
#define D(x) vd_log(x)
#include "operators/unary.inc"
#define LOOP reciprocal
#define F(x) (1.0f / (x))
#define D(x) (1.0 / (x))
#include "operators/unary.inc"
#define LOOP erf /* the loop for float follows below */
#define D(x) erf(x)
#include "operators/unary.inc"
#define LOOP sin_near
#define F(x) ((x) == 0 ? (x) : vm_sin(x)) /* keeps the sign of 0 */
#define D(x) sin(x)
#include "operators/unary.inc"
#define LOOP cos_near
#define F(x) vm_cos(x)
#define D(x) cos(x)
#include "operators/unary.inc"
#define LOOP tan_near
#define F(x) ((x) == 0 ? (x) : vm_tan(x))
#define D(x) tan(x)
#include "operators/unary.inc"
#define LOOP asin
#define F(x) vm_asin(x)
#define D(x) asin(x)
#include "operators/unary.inc"
#define LOOP acos
#define F(x) vm_acos(x)
#define D(x) acos(x)
#include "operators/unary.inc"
#define LOOP atan
#define F(x) vm_atan(x)
#define D(x) atan(x)
#include "operators/unary.inc"
#define LOOP sinh
#define F(x) vm_sinh(x)
#define D(x) sinh(x)
#include "operators/unary.inc"
#define LOOP cosh
#define F(x) vm_cosh(x)
#define D(x) cosh(x)
#include "operators/unary.inc"
#define LOOP tanh /* the loop for float follows below */
#define D(x) vd_tanh(x)
#include "operators/unary.inc"
#define LOOP asinh
#define F(x) vm_asinh(x)
#define D(x) asinh(x)
#include "operators/unary.inc"
#define LOOP acosh
#define F(x) acoshf(x)
#define D(x) acosh(x)
#include "operators/unary.inc"
#define LOOP atanh
#define F(x) vm_atanh(x)
#define D(x) atanh(x)
#include "operators/unary.inc"
#define LOOP is_nan
#define F(x) ((x) != (x))
#define D(x) ((x) != (x))
#define RESULT uint8_t
#include "operators/unary.inc"
#define LOOP is_inf /* A: detect_negative, B: detect_positive */
#define F(x) (((x) > 3.40282347e38f && B != 0.0f) || ((x) < -3.40282347e38f && A != 0.0f))
#define D(x) (((x) > 1.7976931348623157e308 && B != 0.0) || ((x) < -1.7976931348623157e308 && A != 0.0))
#define RESULT uint8_t
#include "operators/unary.inc"

/* Loops that have SIMD kernels. */
#define KERNEL_LOOP(name)                                                                                              \
    static void name##_f32(void *out, const void *in, int64_t count, const double *args)                               \
    {                                                                                                                  \
        (void)args;                                                                                                    \
        KERNEL_BEST(rows)->name(in, out, count);                                                                       \
    }
KERNEL_LOOP(exp)
KERNEL_LOOP(erf)
KERNEL_LOOP(tanh)

/* Returns whether the fast trigonometric functions can be used, which are for moderate angles only. A block with other
 * angles uses the C library. */
static bool all_near(const float *angles, int64_t count)
{
    int far = 0;
    for (int64_t i = 0; i < count; i++)
        far |= !(vm_abs(angles[i]) < VM_TRIG_MAX);
    return far == 0;
}

static void angle_f32(float *output, const float *input, int64_t count, elementwise_unary_fn near, float (*any)(float))
{
    for (int64_t i = 0; i < count; i += ELEMENTWISE_BLOCK) {
        int64_t block = count - i < ELEMENTWISE_BLOCK ? count - i : ELEMENTWISE_BLOCK;
        static const double none[ELEMENTWISE_ARGS];

        if (all_near(input + i, block))
            near(output + i, input + i, block, none);
        else
            for (int64_t k = i; k < i + block; k++)
                output[k] = any(input[k]);
    }
}
static void sin_f32(void *out, const void *in, int64_t count, const double *args)
{
    (void)args;
    angle_f32(out, in, count, sin_near_f32, sinf);
}
static void cos_f32(void *out, const void *in, int64_t count, const double *args)
{
    (void)args;
    angle_f32(out, in, count, cos_near_f32, cosf);
}
static void tan_f32(void *out, const void *in, int64_t count, const double *args)
{
    (void)args;
    angle_f32(out, in, count, tan_near_f32, tanf);
}

/* Loops for integers. Overflow wraps: the absolute value of -128 is -128 in int8. */
#define INTEGER_LOOP(name, type, suffix, EXPR)                                                                         \
    static void name##_##suffix(void *out, const void *in, int64_t count, const double *args)                          \
    {                                                                                                                  \
        type *output = out;                                                                                            \
        const type *input = in;                                                                                        \
        (void)args;                                                                                                    \
        VECTOR_LOOP                                                                                                    \
        for (int64_t i = 0; i < count; i++)                                                                            \
            output[i] = (type)(EXPR);                                                                                  \
    }
#define INTEGER_LOOPS(bits)                                                                                            \
    INTEGER_LOOP(abs, int##bits##_t, i##bits, input[i] < 0 ? 0 - (uint64_t)input[i] : (uint64_t)input[i])              \
    INTEGER_LOOP(neg, int##bits##_t, i##bits, 0 - (uint64_t)input[i])                                                  \
    INTEGER_LOOP(sign, int##bits##_t, i##bits, (input[i] > 0) - (input[i] < 0))                                        \
    INTEGER_LOOP(sign, uint##bits##_t, u##bits, input[i] != 0)                                                         \
    INTEGER_LOOP(bitwise_not, uint##bits##_t, u##bits, ~input[i])
INTEGER_LOOPS(8)
INTEGER_LOOPS(16)
INTEGER_LOOPS(32)
INTEGER_LOOPS(64)

/* Arrays indexed by dtype. NULL: a copy. */
#define OF_SIGNED(name)                                                                                                \
    [INLAY_INT8] = name##_i8, [INLAY_INT16] = name##_i16, [INLAY_INT32] = name##_i32, [INLAY_INT64] = name##_i64
#define OF_UNSIGNED(name)                                                                                              \
    [INLAY_UINT8] = name##_u8, [INLAY_UINT16] = name##_u16, [INLAY_UINT32] = name##_u32, [INLAY_UINT64] = name##_u64
static const elementwise_unary_fn abs_integer[INLAY_DTYPE_COUNT] = { OF_SIGNED(abs) };
static const elementwise_unary_fn neg_integer[INLAY_DTYPE_COUNT] = { OF_SIGNED(neg) };
static const elementwise_unary_fn sign_integer[INLAY_DTYPE_COUNT] = { OF_SIGNED(sign), OF_UNSIGNED(sign) };
static const elementwise_unary_fn not_integer[INLAY_DTYPE_COUNT] = {
    OF_UNSIGNED(bitwise_not),        [INLAY_INT8] = bitwise_not_u8,   [INLAY_INT16] = bitwise_not_u16,
    [INLAY_INT32] = bitwise_not_u32, [INLAY_INT64] = bitwise_not_u64,
};

static void not_bool(void *out, const void *in, int64_t count, const double *args)
{
    uint8_t *output = out;
    const uint8_t *input = in;

    (void)args;
    for (int64_t i = 0; i < count; i++)
        output[i] = input[i] == 0;
}

typedef struct unary_row {
    const char *op_type;
    elementwise_unary_fn f32, f64;
    const elementwise_unary_fn *integer; /* by dtype; NULL: integers are unsupported, or (Erf) computed in double */
    int64_t grain;                       /* an ELEMENTWISE_GRAIN constant, for float */
} unary_row;

#define FLOATS(name) name##_f32, name##_f64, NULL
static const unary_row rows[] = {
    { "Abs", abs_f32, abs_f64, abs_integer, ELEMENTWISE_GRAIN },
    { "Neg", neg_f32, neg_f64, neg_integer, ELEMENTWISE_GRAIN },
    { "Sign", sign_f32, sign_f64, sign_integer, ELEMENTWISE_GRAIN },
    { "Floor", FLOATS(floor), ELEMENTWISE_GRAIN },
    { "Ceil", FLOATS(ceil), ELEMENTWISE_GRAIN },
    { "Round", FLOATS(round), ELEMENTWISE_GRAIN },
    { "Sqrt", FLOATS(sqrt), ELEMENTWISE_GRAIN },
    { "Exp", FLOATS(exp), ELEMENTWISE_GRAIN_MATH },
    { "Log", FLOATS(log), ELEMENTWISE_GRAIN_MATH },
    { "Reciprocal", FLOATS(reciprocal), ELEMENTWISE_GRAIN },
    { "Erf", FLOATS(erf), ELEMENTWISE_GRAIN_MATH },
    { "Sin", sin_f32, sin_near_f64, NULL, ELEMENTWISE_GRAIN_MATH },
    { "Cos", cos_f32, cos_near_f64, NULL, ELEMENTWISE_GRAIN_MATH },
    { "Tan", tan_f32, tan_near_f64, NULL, ELEMENTWISE_GRAIN_MATH },
    { "Asin", FLOATS(asin), ELEMENTWISE_GRAIN_CALLS },
    { "Acos", FLOATS(acos), ELEMENTWISE_GRAIN_CALLS },
    { "Atan", FLOATS(atan), ELEMENTWISE_GRAIN_CALLS },
    { "Sinh", FLOATS(sinh), ELEMENTWISE_GRAIN_MATH },
    { "Cosh", FLOATS(cosh), ELEMENTWISE_GRAIN_MATH },
    { "Tanh", FLOATS(tanh), ELEMENTWISE_GRAIN_MATH },
    { "Asinh", FLOATS(asinh), ELEMENTWISE_GRAIN_CALLS },
    { "Acosh", FLOATS(acosh), ELEMENTWISE_GRAIN_CALLS },
    { "Atanh", FLOATS(atanh), ELEMENTWISE_GRAIN_CALLS },
    { "IsNaN", FLOATS(is_nan), ELEMENTWISE_GRAIN },
    { "IsInf", FLOATS(is_inf), ELEMENTWISE_GRAIN },
    { "BitwiseNot", NULL, NULL, not_integer, ELEMENTWISE_GRAIN },
    { "Not", NULL, NULL, NULL, ELEMENTWISE_GRAIN },
};

static const unary_row *find_row(const inlay_node_info *info)
{
    const unary_row *row = rows;

    while (row < rows + KIT_COUNT(rows) - 1 && !elementwise_is(info, row->op_type))
        row++;
    INLAY_CHECK(elementwise_is(info, row->op_type));
    return row;
}

static void cost_unary(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    (void)shapes;
    elementwise_cost(find_row(node->info)->grain, cost);
}

static inlay_status prepare_unary(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_dtype dtype = kit_input_dtype(node, 0);
    const unary_row *row = find_row(node->info);
    elementwise_unary *unary = calloc(1, sizeof *unary);

    if (unary == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a kernel's state");
    *out_state = unary;
    if (dtype == INLAY_BOOL) {
        unary->fn = not_bool;
        unary->compute = dtype;
    } else if ((KIT_INTEGERS & INLAY_DTYPE_BIT(dtype)) != 0 && row->integer != NULL) {
        unary->fn = row->integer[dtype];
        unary->compute = dtype;
    } else if (dtype == INLAY_DOUBLE || (KIT_INTEGERS & INLAY_DTYPE_BIT(dtype)) != 0) {
        unary->fn = row->f64;
        unary->compute = INLAY_DOUBLE;
    } else {
        unary->fn = row->f32;
        unary->compute = INLAY_FLOAT;
    }
    unary->grain =
        unary->compute == INLAY_DOUBLE && row->grain != ELEMENTWISE_GRAIN ? ELEMENTWISE_GRAIN_CALLS : row->grain;
    unary->result = kit_output_dtype(node, 0) == INLAY_BOOL ? INLAY_BOOL : unary->compute;
    unary->args[0] = (double)kit_attr_int(node->info, "detect_negative", 1);
    unary->args[1] = (double)kit_attr_int(node->info, "detect_positive", 1);
    return INLAY_OK;
}

#define UNARY(name, types)                                                                                             \
    {                                                                                                                  \
        .op_type = name, .in_types = { types }, .flags = KIT_IN_PLACE, .prepare = prepare_unary,                       \
        .run = elementwise_unary_run, .cost = cost_unary, .row = elementwise_unary_row, .row_inputs = 1                \
    }
static const kit_kernel kernels[] = {
    UNARY("Abs", KIT_NUMBERS),
    UNARY("Neg", KIT_FLOATS | KIT_SIGNED),
    UNARY("Sign", KIT_NUMBERS),
    UNARY("Floor", KIT_FLOATS),
    UNARY("Ceil", KIT_FLOATS),
    UNARY("Round", KIT_FLOATS),
    UNARY("Sqrt", KIT_FLOATS),
    UNARY("Exp", KIT_FLOATS),
    UNARY("Log", KIT_FLOATS),
    UNARY("Reciprocal", KIT_FLOATS),
    UNARY("Erf", KIT_NUMBERS),
    UNARY("Sin", KIT_FLOATS),
    UNARY("Cos", KIT_FLOATS),
    UNARY("Tan", KIT_FLOATS),
    UNARY("Asin", KIT_FLOATS),
    UNARY("Acos", KIT_FLOATS),
    UNARY("Atan", KIT_FLOATS),
    UNARY("Sinh", KIT_FLOATS),
    UNARY("Cosh", KIT_FLOATS),
    UNARY("Tanh", KIT_FLOATS),
    UNARY("Asinh", KIT_FLOATS),
    UNARY("Acosh", KIT_FLOATS),
    UNARY("Atanh", KIT_FLOATS),
    UNARY("IsNaN", KIT_FLOATS | KIT_FLOAT8),
    UNARY("IsInf", KIT_FLOATS | KIT_FLOAT8),
    UNARY("Not", KIT_BIT(BOOL)),
    UNARY("BitwiseNot", KIT_INTEGERS),
};
const kit_table OPERATOR(operators_unary) = { kernels, KIT_COUNT(kernels) };
