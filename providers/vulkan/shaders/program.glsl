#include "common.glsl"

// Fused elementwise operators: a program of at most 16 slots. gpu_patch.c redirects the calls of slot_n, input_n,
// load_x and store_out to op_name, load_type and store_type. T is the type of the registers: float, double, or int64_t
// for integers of every size.
#ifdef INTEGERS
#define T int64_t
#elif defined(DOUBLES)
#define T double
layout(buffer_reference, std430, buffer_reference_align = 8) buffer F64 { double v[]; };
bool is_nan(double x) { return (unpackDouble2x32(x).y & 0x7fffffffu) > 0x7ff00000u || isnan(x); }
#else
#include "functions.glsl"
#define T float
#endif

layout(constant_id = ID_RANK) const uint RANK = 0u;
layout(constant_id = ID_SLOTS) const uint SLOTS = 0u;
#define SLOT_CONSTANT(n) layout(constant_id = ID_SLOT + n) const uint SLOT##n = 0u;
#define INPUT_CONSTANT(n) layout(constant_id = ID_INPUT + n) const uint INPUT##n = 0u;
#define EACH_INPUT(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define EACH_SLOT(X) EACH_INPUT(X) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
EACH_SLOT(SLOT_CONSTANT)
EACH_INPUT(INPUT_CONSTANT)

// ------------------------------------------------------------------ elements
#ifdef INTEGERS
T widened(int x) { return wide(x); }
#else
T widened(int x) { return T(x); }
#endif
#define LOAD(type, expression) T load_##type(uvec2 base, uint i) { return expression; }
LOAD(f32, T(F32(base).v[i]))
LOAD(f16, T(float(F16(base).v[i])))
LOAD(bf16, T(from_bf16(uint(U16(base).v[i]))))
LOAD(i8, widened(int(I8(base).v[i]))) LOAD(u8, T(uint(U8(base).v[i])))
LOAD(i16, widened(int(I16(base).v[i]))) LOAD(u16, T(uint(U16(base).v[i])))
LOAD(i32, widened(I32(base).v[i])) LOAD(u32, T(U32(base).v[i]))
LOAD(i64, T(I64(base).v[i]))
LOAD(bool, uint(U8(base).v[i]) != 0u ? T(1) : T(0))
#ifdef DOUBLES
LOAD(f64, F64(base).v[i])
#endif

#ifdef INTEGERS
int64_t whole(T x) { return x; }
int64_t whole32(T x) { return x; }
#else
// Converts to integers as all providers do: NaN becomes 0. Other values are clamped to 64 bits; for INT32 and for types
// of at most 16 bits they are clamped to 32 bits, of which the lowest bits are stored.
int64_t whole(T x)
{
    const T end = T(9.2233720368547758e18);

    return is_nan(x) ? 0l : x >= end ? 0x7fffffffffffffffl : x <= -end ? int64_t(1) << 63 : int64_t(x);
}
int64_t whole32(T x)
{
    return is_nan(x) ? 0l : x >= 2147483648.0 ? 2147483647l : x <= -2147483648.0 ? -2147483648l : int64_t(x);
}
#endif
#define STORE(type, view, expression) void store_##type(uvec2 base, uint i, T x) { view(base).v[i] = expression; }
STORE(f32, F32, float(x))
STORE(f16, F16, float16_t(float(x)))
STORE(bf16, U16, uint16_t(to_bf16(float(x))))
STORE(i8, U8, uint8_t(uint(whole32(x) & 0xffl))) STORE(u8, U8, uint8_t(uint(whole32(x) & 0xffl)))
STORE(i16, U16, uint16_t(uint(whole32(x) & 0xffffl))) STORE(u16, U16, uint16_t(uint(whole32(x) & 0xffffl)))
STORE(i32, U32, uint(whole32(x) & 0xffffffffl)) STORE(u32, U32, uint(whole(x) & 0xffffffffl))
STORE(i64, I64, whole(x))
STORE(bool, U8, uint8_t(x != T(0) ? 1u : 0u))
#ifdef DOUBLES
STORE(f64, F64, x)
#endif

// ------------------------------------------------------------------ operations
#define OP(name, expression) T op_##name(T a, T b, T c) { return expression; }
T flag(bool x) { return x ? T(1) : T(0); }

OP(move, a)
OP(add, a + b) OP(sub, a - b) OP(mul, a * b)
OP(equal, flag(a == b)) OP(less, flag(a < b)) OP(less_equal, flag(a <= b))
OP(and, flag(a != T(0) && b != T(0))) OP(or, flag(a != T(0) || b != T(0)))
OP(xor, flag((a != T(0)) != (b != T(0)))) OP(not, flag(a == T(0))) OP(to_bool, flag(a != T(0)))
OP(where, a != T(0) ? b : c)
OP(neg, -a)
OP(relu, a < T(0) ? T(0) : a) OP(prelu, a < T(0) ? a * b : a)

#ifdef INTEGERS
#define NUMBER(k) int64_t((uint64_t(word(WORD_NUMBER + 2u * k + 1u)) << 32) | uint64_t(word(WORD_NUMBER + 2u * k)))
int64_t divide(int64_t a, int64_t b) { return b == 0l ? 0l : b == -1l ? -a : a / b; }
OP(div, divide(a, b)) OP(fmod, a - divide(a, b) * b)
OP(max, a < b ? b : a) OP(min, b < a ? b : a)
OP(abs, a < 0l ? -a : a) OP(sign, a > 0l ? 1l : a < 0l ? -1l : 0l)
OP(bit_and, a & b) OP(bit_or, a | b) OP(bit_xor, a ^ b) OP(bit_not, ~a)
OP(shift_left, b > 63l ? 0l : a << int(b)) OP(shift_right, b > 63l ? 0l : a >> int(b))
T op_mod(T a, T b, T c)
{
    const int64_t r = a - divide(a, b) * b;

    return r != 0l && (r ^ b) < 0l ? r + b : r;
}
T op_pow(T a, T b, T c)
{
    T r = 1l;

    if (b < 0l)
        return a == 1l ? 1l : a == -1l ? ((b & 1l) != 0l ? -1l : 1l) : 0l;
    for (; b != 0l; b >>= 1) {
        if ((b & 1l) != 0l)
            r *= a;
        a *= a;
    }
    return r;
}
#else
OP(abs, abs(a)) OP(sign, is_nan(a) ? a : a > T(0) ? T(1) : a < T(0) ? -T(1) : T(0))
OP(sqrt, a < T(0) ? T(nan()) : sqrt(a)) OP(floor, floor(a)) OP(ceil, ceil(a))
OP(leaky_relu, a < T(0) ? a * b : a)
#ifdef DOUBLES
OP(div, a / b) OP(reciprocal, T(1) / a)
#define NUMBER(k) packDouble2x32(uvec2(word(WORD_NUMBER + 2u * k), word(WORD_NUMBER + 2u * k + 1u)))
OP(max, is_nan(a) ? a : is_nan(b) ? b : a < b ? b : a)
OP(min, is_nan(a) ? a : is_nan(b) ? b : b < a ? b : a)
#else
#define NUMBER(k) fword(WORD_NUMBER + 2u * k)
OP(max, f_max(a, b)) OP(min, f_min(a, b)) OP(pow, f_pow(a, b)) OP(fmod, f_fmod(a, b))
OP(at_least, a > b ? a : b) // NaN becomes b
OP(div, f_div(a, b)) OP(reciprocal, f_div(1.0, a))
OP(exp, f_exp(a)) OP(log, f_log(a)) OP(erf, f_erf(a)) OP(round, f_round(a))
OP(sin, sine(a, false)) OP(cos, sine(a, true)) OP(tan, sine(a, false) / sine(a, true))
OP(asin, f_asin(a)) OP(acos, f_acos(a)) OP(atan, f_atan(a))
OP(sinh, f_sinh(a)) OP(cosh, f_cosh(a)) OP(tanh, f_tanh(a))
OP(asinh, f_asinh(a)) OP(acosh, f_acosh(a)) OP(atanh, f_atanh(a))
OP(sigmoid, f_sigmoid(a)) OP(softplus, f_softplus(a)) OP(softsign, a / (1.0 + abs(a)))
OP(elu, a < 0.0 ? b * expm1_of(a) : a)
OP(selu, a > 0.0 ? c * a : c * b * expm1_of(a))
OP(celu, a < 0.0 ? b * expm1_of(a / b) : a)
OP(hard_sigmoid, f_max(0.0, f_min(1.0, fma(a, b, c))))
OP(hard_swish, a * f_max(0.0, f_min(1.0, fma(a, 1.0 / 6.0, 0.5))))
// Activations x * gate(x). For infinite a the gate is 1 if x > 0, so the result is a; otherwise it is 0, and the result
// is NaN (infinity times 0).
#define GATED(name, x, gate) OP(name, is_inf(a) ? (x > 0.0 ? a : nan()) : gate)
GATED(gelu, a, 0.5 * a * (1.0 + f_erf(a * 0.70710678)))
GATED(gelu_tanh, a, 0.5 * a * (1.0 + f_tanh(0.797884561 * fma(0.044715 * a * a, a, a))))
GATED(swish, a * b, a * f_sigmoid(a * b))
GATED(mish, a, a * f_tanh(f_softplus(a)))
OP(thresholded_relu, a > b ? a : 0.0)
OP(shrink, a < -c ? a + b : a > c ? a - b : 0.0)
OP(to_f16, rounded_to_f16(a)) OP(to_bf16, from_bf16(to_bf16(a)))
OP(is_nan, flag(is_nan(a))) OP(is_inf, flag(is_inf(a) && (a > 0.0 ? b : c) != 0.0))
#endif
#endif

// ------------------------------------------------------------------ placeholder functions
LOAD(a, T(0)) LOAD(b, T(0)) LOAD(c, T(0))
void store_out(uvec2 base, uint i, T x) {}
#define INPUT(n) T input_##n(uvec2 base, uint i) { return T(0); }
EACH_INPUT(INPUT)
#define SLOT(n) T slot_##n(T a, T b, T c) { return a; }
EACH_SLOT(SLOT)

uint input_shift = 0u; // distance from the inputs of the program to those of the sibling in use
uint program_column = 0u;

// Applies the program to element i of the result, for which the shader has computed acc.
T program(uint i, T acc)
{
    T reg[32];
    uint where[MOST_RANK], rest = i;

    [[unroll]] for (int d = MOST_RANK - 1; d >= 0; d--)
        if (d < RANK) {
            where[d] = d == 0u ? rest : rest % WORD_8(WORD_DIM, d);
            rest /= d == 0u ? 1u : WORD_8(WORD_DIM, d);
        }
#define LOAD_INPUT(n)                                                                          \
    if ((INPUT##n >> 8) != AT_NONE) {                                                          \
        const uint how = INPUT##n >> 8;                                                        \
        uint index = how == AT_LINEAR ? i : how == AT_COLUMN ? program_column : 0u;            \
                                                                                               \
        [[unroll]] for (uint d = 0u; d < MOST_RANK; d++)                                       \
            if ((how == AT_STRIDED || how == AT_POSITION) && d < RANK)                         \
                index += where[d] * WORD_8(WORD_STRIDE + 8u * n, d);                           \
        reg[REG_INPUT + n] = how == AT_POSITION ? widened(int(index))                          \
                                                : input_##n(at[PUSH_INPUT + n + input_shift], index); \
    }
    EACH_INPUT(LOAD_INPUT)
#define SET_NUMBER(k) reg[REG_NUMBER + k] = NUMBER(k);
    SET_NUMBER(0u) SET_NUMBER(1u) SET_NUMBER(2u) SET_NUMBER(3u) SET_NUMBER(4u) SET_NUMBER(5u) SET_NUMBER(6u)
    reg[REG_ACC] = acc;
#define RUN_SLOT(n) \
    if (n < SLOTS)  \
        acc = reg[n] = slot_##n(reg[(SLOT##n >> 8) & 31u], reg[(SLOT##n >> 16) & 31u], reg[(SLOT##n >> 24) & 31u]);
    EACH_SLOT(RUN_SLOT)
    return acc;
}

// Stores element i of the result.
void finish(uint i, T acc) { store_out(at[PUSH_OUT], i, program(i, acc)); }
