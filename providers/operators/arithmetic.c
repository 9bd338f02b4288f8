/* Add, Sub, Mul, Div (ONNX 1, 6, 7, 13, 14), Pow (1, 7, 12, 13, 15), Mod (10, 13). */
#include "inlay/cost.h"
#include "operators/instance.h"
#include "operators/elementwise.h"
#include "simd/vecmath.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define T float
#define RESULT float
#define LOOP add_f32
#define OP(a, b) ((a) + (b))
#include "operators/binary.inc"
#undef OP
#define LOOP sub_f32
#define OP(a, b) ((a) - (b))
#include "operators/binary.inc"
#undef OP
#define LOOP mul_f32
#define OP(a, b) ((a) * (b))
#include "operators/binary.inc"
#undef OP
#define LOOP div_f32
#define OP(a, b) ((a) / (b))
#include "operators/binary.inc"
#undef OP
#undef T
#undef RESULT
#define T double
#define RESULT double
#define LOOP add_f64
#define OP(a, b) ((a) + (b))
#include "operators/binary.inc"
#undef OP
#define LOOP sub_f64
#define OP(a, b) ((a) - (b))
#include "operators/binary.inc"
#undef OP
#define LOOP mul_f64
#define OP(a, b) ((a) * (b))
#include "operators/binary.inc"
#undef OP
#define LOOP div_f64
#define OP(a, b) ((a) / (b))
#include "operators/binary.inc"
#undef OP
/* Mod-10 requires fmod = 1 for floats; without it the remainder has the sign of the divisor, as with numpy.mod. */
static inline double mod_double(double a, double b)
{
    double remainder = fmod(a, b);
    return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}
#define LOOP fmod_f64
#define OP(a, b) fmod(a, b)
#include "operators/binary.inc"
#undef OP
#define LOOP mod_f64
#define OP(a, b) mod_double(a, b)
#include "operators/binary.inc"
#undef OP
#define LOOP pow_f64
#define OP(a, b) pow(a, b)
#include "operators/binary.inc"
#undef OP
#undef T
#undef RESULT
#define T float
#define RESULT float
#define LOOP mod_f32
#define OP(a, b) (float)mod_double((double)(a), (double)(b))
#include "operators/binary.inc"
#undef OP

/* x^y for positive normal x and finite y, computed in double as 2^(y log2 x): one of about 10^6 results is not the
 * nearest float. x may have been multiplied by 2^shift. */
static inline float power_of_normal(float x, float y, double shift)
{
    const uint32_t bits = f32_bits(x) - 0x3f3504f3u; /* relative to sqrt(1/2) */
    const double f = (double)f32_from_bits((bits & 0x7fffffu) + 0x3f3504f3u) - 1.0, s = f / (2.0 + f), z = s * s;
    const double z2 = z * z;
    double p, q, t, n, t2;

    /* log2 m = s (2 / ln 2 + z 2 / (3 ln 2) + ...), where s = (m - 1) / (m + 1) */
    p = (2.8853900817779268 + 0.96179669392597556 * z) + (0.57707801635558537 + 0.41219858311113241 * z) * z2 +
        ((0.32059889797532521 + 0.26230818925253878 * z) + (0.22195308321368667 + 0.19235933878519512 * z) * z2) *
            (z2 * z2);
    t = (double)y * (((double)((int32_t)bits >> 23) - shift) + s * p);
    t = t < 200 ? t : 200;
    t = t > -200 ? t : -200;
    n = (t + VD_INTEGER) - VD_INTEGER;
    t = t - n;
    t2 = t * t;
    q = (1.0 + 0.69314718055994531 * t) + (0.24022650695910072 + 5.5504108664821580e-2 * t) * t2 +
        ((9.6181291076284772e-3 + 1.3333558146428443e-3 * t) +
         (1.5403530393381609e-4 + 1.5252733804059840e-5 * t) * t2) *
            (t2 * t2) +
        ((1.3215486790144307e-6 + 1.0178086009239699e-7 * t) + 7.0549116208011209e-9 * t2) * ((t2 * t2) * (t2 * t2));
    return (float)(q * vd_pow2i(n));
}

/* x^y of any floats: those of power_of_normal() have the same bits. Special values as in C's Annex F. */
static inline float power_of_any(float x, float y)
{
    const float a = vm_abs(x), most = 1073741824.0f; /* floats from 2^24 on are even integers */
    const float limited = y < most ? y : most;
    const int32_t integer = (int32_t)(limited > -most ? limited : -most);
    const bool tiny = a < 1.17549435e-38f, whole = (float)integer == y || vm_abs(y) > most;
    float power = power_of_normal(tiny ? a * 8388608.0f : a, y, tiny ? 23.0 : 0.0);

    power = (a == 0 && y > 0) || (a > 3.40282347e38f && y < 0) ? 0 : power;
    power = (a == 0 && y < 0) || (a > 3.40282347e38f && y > 0) ? VM_INFINITY : power;
    power = a == 1 ? 1 : power; /* y may be infinite */
    power = x < 0 && a <= 3.40282347e38f && !whole ? VM_NAN : power;
    power = whole && (integer & 1) != 0 ? vm_copysign(power, x) : power;
    power = x != x || y != y ? x + y : power;
    return x == 1 || y == 0 ? 1 : power;
}

/* Blocks of normal numbers take less time. The result may be one of the inputs. One loop for all steps: GCC vectorises
 * none with a constant operand. */
static void pow_any_f32(void *result, const void *base, int64_t base_step, const void *exponent, int64_t exponent_step,
                        int64_t count)
{
    for (int64_t at = 0; at < count; at += ELEMENTWISE_BLOCK) {
        const int64_t block = count - at < ELEMENTWISE_BLOCK ? count - at : ELEMENTWISE_BLOCK;
        const float *a = (const float *)base + at * base_step, *b = (const float *)exponent + at * exponent_step;
        float made[ELEMENTWISE_BLOCK], by[ELEMENTWISE_BLOCK];
        int32_t special = 0;

        for (int64_t i = 0; i < block; i++) {
            made[i] = a[i * base_step];
            by[i] = b[i * exponent_step];
        }
        for (int64_t i = 0; i < block; i++)
            special |=
                !(made[i] >= 1.17549435e-38f) | !(made[i] <= 3.40282347e38f) | !(vm_abs(by[i]) <= 3.40282347e38f);
        for (int64_t i = 0; i < block && special == 0; i++)
            made[i] = power_of_normal(made[i], by[i], 0);
        for (int64_t i = 0; i < block && special != 0; i++)
            made[i] = power_of_any(made[i], by[i]);
        memcpy((float *)result + at, made, (size_t)block * sizeof *made);
    }
}

/* fmod(a, b) is a - n b with n = trunc(a / b), which is exact in double if n is below 2^29: n b has at most 29 + 24
 * bits, and a / b is at least 2^-24 away from any integer that it is not. NaN for a larger n. */
static inline float fmod_near(float a, float b)
{
    const double n = trunc((double)a / (double)b), rest = (double)a - n * (double)b;
    return fabs(n) < 536870912.0 ? vm_copysign((float)rest, a) : VM_NAN;
}
#define LOOP fmod_near_f32
#define OP(a, b) fmod_near(a, b)
#include "operators/binary.inc"
#undef OP
#define LOOP fmod_any_f32
#define OP(a, b) fmodf(a, b)
#include "operators/binary.inc"
#undef OP

/* Blocks in which fmod_near() gives NaN are left to the C library. The result may be one of the inputs, so a block is
 * complete before it is stored. */
static void fmod_f32(void *result, const void *first, int64_t first_step, const void *second, int64_t second_step,
                     int64_t count)
{
    for (int64_t at = 0; at < count; at += ELEMENTWISE_BLOCK) {
        const int64_t block = count - at < ELEMENTWISE_BLOCK ? count - at : ELEMENTWISE_BLOCK;
        const float *a = (const float *)first + at * first_step, *b = (const float *)second + at * second_step;
        float made[ELEMENTWISE_BLOCK];
        int32_t nan = 0;

        fmod_near_f32(made, a, first_step, b, second_step, block);
        for (int64_t i = 0; i < block; i++)
            nan |= made[i] != made[i];
        if (nan != 0)
            fmod_any_f32(made, a, first_step, b, second_step, block);
        memcpy((float *)result + at, made, (size_t)block * sizeof *made);
    }
}
#undef T
#undef RESULT

#define BODY "arithmetic.inc"
#include "operators/integers.inc"

/* Computes powers with exponent 2, 3, 1/2, -1 or 1, the usual constants. Returns false for any other exponent. */
static bool pow_by_constant(float *output, const float *input, float exponent, int64_t count)
{
    if (exponent == 2.0f) {
        VECTOR_LOOP
        for (int64_t i = 0; i < count; i++)
            output[i] = input[i] * input[i];
    } else if (exponent == 3.0f) {
        VECTOR_LOOP
        for (int64_t i = 0; i < count; i++)
            output[i] = input[i] * input[i] * input[i];
    } else if (exponent == 0.5f) { /* pow(-0, 0.5) is 0 and pow(-infinity, 0.5) is infinity, unlike sqrt */
        VECTOR_LOOP
        for (int64_t i = 0; i < count; i++)
            output[i] = input[i] < -3.40282347e38f ? -input[i] : sqrtf(input[i]) + 0.0f;
    } else if (exponent == -1.0f) {
        VECTOR_LOOP
        for (int64_t i = 0; i < count; i++)
            output[i] = 1.0f / input[i];
    } else if (exponent == 1.0f) {
        VECTOR_LOOP
        for (int64_t i = 0; i < count; i++)
            output[i] = input[i];
    } else {
        return false;
    }
    return true;
}

/* Is the exponent a constant of pow_by_constant()? */
static bool has_usual_exponent(const kit_tensor *exponent)
{
    float value;

    if (exponent->count != 1 || exponent->data == NULL || exponent->dtype != INLAY_FLOAT)
        return false;
    memcpy(&value, exponent->data, sizeof value);
    return value == 2.0f || value == 3.0f || value == 0.5f || value == -1.0f || value == 1.0f;
}

/* In operations of the kit's estimate; work.def has the rest. Powers of doubles and of integers to doubles are the C
 * library's, which the plain kernels replace by functions with the same results on every CPU. */
static void cost_pow(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
#ifdef KERNEL_LEVEL
    const double of_doubles = 255;
#else
    const double of_doubles = 7200;
#endif
    const bool narrow = (KIT_FLOATS & ~KIT_BIT(DOUBLE) & INLAY_DTYPE_BIT(shapes->in[0].dtype)) != 0;

    (void)node;
    cost->flops *= has_usual_exponent(&shapes->in[1]) ? 1 : narrow ? 150 : of_doubles;
}

static void pow_f32(void *output, const void *base, int64_t base_step, const void *exponent, int64_t exponent_step,
                    int64_t count)
{
    if (base_step == 0 || exponent_step != 0 || !pow_by_constant(output, base, *(const float *)exponent, count))
        pow_any_f32(output, base, base_step, exponent, exponent_step, count);
}

/* Returns a^b modulo 2^64. If b is negative, the result is 1 / a^-b, truncated, or 0 if a is 0. */
static int64_t pow_int(int64_t a, int64_t b)
{
    uint64_t base = (uint64_t)a, result = 1;

    if (b < 0)
        return a == 1 ? 1 : a == -1 ? ((b & 1) != 0 ? -1 : 1) : 0;
    for (; b > 0; b >>= 1) {
        if ((b & 1) != 0)
            result *= base;
        base *= base;
    }
    return (int64_t)result;
}
#define T int64_t
#define RESULT int64_t
#define LOOP pow_i64
#define OP(a, b) pow_int(a, b)
#include "operators/binary.inc"
#undef OP
#undef T
#undef RESULT

typedef struct arithmetic_row {
    const char *op_type;
    elementwise_binary_fn by_dtype[INLAY_DTYPE_COUNT];
} arithmetic_row;

#define BY_DTYPE(f, u, s)                                                                                              \
    {                                                                                                                  \
        [INLAY_FLOAT] = f##_f32, [INLAY_DOUBLE] = f##_f64, [INLAY_UINT8] = u##_u8, [INLAY_UINT16] = u##_u16,           \
        [INLAY_UINT32] = u##_u32, [INLAY_UINT64] = u##_u64, [INLAY_INT8] = s##8, [INLAY_INT16] = s##16,                \
        [INLAY_INT32] = s##32, [INLAY_INT64] = s##64                                                                   \
    }
static const arithmetic_row rows[] = {
    { "Add", BY_DTYPE(add, add_loop, add_loop_u) },
    { "Sub", BY_DTYPE(sub, sub_loop, sub_loop_u) },
    { "Mul", BY_DTYPE(mul, mul_loop, mul_loop_u) },
    { "Div", BY_DTYPE(div, div_loop, div_loop_i) },
    { "Mod", BY_DTYPE(mod, mod_loop, mod_loop_i) },
    { "Fmod", BY_DTYPE(fmod, fmod_loop, fmod_loop_i) }, /* Mod with fmod = 1 */
};

static elementwise_binary *new_state(const kit_node *node, void **out_state, inlay_diag *diag)
{
    elementwise_binary *binary = calloc(1, sizeof *binary);

    *out_state = binary;
    if (binary == NULL)
        (void)inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a kernel's state");
    else
        elementwise_binary_legacy(node, binary);
    return binary;
}

static inlay_status prepare_arithmetic(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_dtype dtype = kit_input_dtype(node, 0);
    const arithmetic_row *row = rows;
    elementwise_binary *binary = new_state(node, out_state, diag);

    if (binary == NULL)
        return INLAY_OUT_OF_MEMORY;
    while (row < rows + KIT_COUNT(rows) - 1 && !elementwise_is(node->info, row->op_type))
        row++;
    if (elementwise_is(node->info, "Mod") && kit_attr_int(node->info, "fmod", 0) != 0)
        row = &rows[KIT_COUNT(rows) - 1];
    binary->compute = dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16 ? INLAY_FLOAT : dtype;
    binary->result = binary->compute;
    binary->fn = row->by_dtype[binary->compute];
    if ((KIT_INTEGERS & INLAY_DTYPE_BIT(dtype)) != 0 &&
        (elementwise_is(node->info, "Div") || elementwise_is(node->info, "Mod")))
        binary->grain = ELEMENTWISE_GRAIN_CALLS; /* an integer division takes as long as a call */
    return INLAY_OK;
}

typedef int64_t (*find_zero_fn)(const void *data, int64_t count);

/* Div and Mod: an integer division by 0 has no result, so it is an error unless the output is empty. */
static inlay_status run_division(const kit_call *call)
{
    static const find_zero_fn by_dtype[INLAY_DTYPE_COUNT] = {
        [INLAY_UINT8] = find_zero_u8,   [INLAY_UINT16] = find_zero_u16, [INLAY_UINT32] = find_zero_u32,
        [INLAY_UINT64] = find_zero_u64, [INLAY_INT8] = find_zero_i8,    [INLAY_INT16] = find_zero_i16,
        [INLAY_INT32] = find_zero_i32,  [INLAY_INT64] = find_zero_i64
    };
    const kit_tensor *divisor = &call->in[1];
    find_zero_fn find = by_dtype[divisor->dtype];
    int64_t at = find != NULL && call->out[0].count > 0 ? find(divisor->data, divisor->count) : divisor->count;

    if (at < divisor->count)
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                          "element %lld of the divisor is 0; an integer cannot be divided by it", (long long)at);
    return elementwise_binary_run(call);
}

/* The exponent may have another type (Pow-12). Integers to integer powers are computed exactly in int64, everything
 * else in float or double. */
static inlay_status prepare_pow(const kit_node *node, void **out_state, inlay_diag *diag)
{
    uint64_t base = INLAY_DTYPE_BIT(kit_input_dtype(node, 0)), exponent = INLAY_DTYPE_BIT(kit_input_dtype(node, 1));
    elementwise_binary *binary = new_state(node, out_state, diag);

    if (binary == NULL)
        return INLAY_OUT_OF_MEMORY;
    binary->fn = pow_f32;
    binary->grain = ELEMENTWISE_GRAIN_CALLS;
    binary->compute = INLAY_FLOAT;
    if ((base & KIT_INTEGERS) != 0 && (exponent & KIT_INTEGERS) != 0) {
        binary->fn = pow_i64;
        binary->compute = INLAY_INT64;
    } else if ((base & (KIT_INTEGERS | KIT_BIT(DOUBLE))) != 0) {
        binary->fn = pow_f64;
        binary->compute = INLAY_DOUBLE;
    }
    binary->result = binary->compute;
    return INLAY_OK;
}

#define BINARY(name, runs)                                                                                             \
    {                                                                                                                  \
        .op_type = name, .in_types = { KIT_NUMBERS, KIT_NUMBERS }, .flags = KIT_IN_PLACE,                              \
        .prepare = prepare_arithmetic, .shape = elementwise_binary_shape, .run = runs, .row = elementwise_binary_row,  \
        .row_inputs = 2, .row_fits = elementwise_binary_row_fits                                                       \
    }
static const kit_kernel kernels[] = {
    BINARY("Add", elementwise_binary_run),
    BINARY("Sub", elementwise_binary_run),
    BINARY("Mul", elementwise_binary_run),
    BINARY("Div", run_division),
    BINARY("Mod", run_division),
    { .op_type = "Pow",
      .in_types = { KIT_FLOATS | KIT_BIT(INT32) | KIT_BIT(INT64), KIT_NUMBERS },
      .flags = KIT_IN_PLACE,
      .prepare = prepare_pow,
      .shape = elementwise_binary_shape,
      .cost = cost_pow,
      .run = elementwise_binary_run,
      .row = elementwise_binary_row,
      .row_inputs = 2,
      .row_fits = elementwise_binary_row_fits },
};
const kit_table OPERATOR(operators_arithmetic) = { kernels, KIT_COUNT(kernels) };
