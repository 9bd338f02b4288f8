// Fused elementwise operators: a program of at most 16 slots. Which function a slot calls, and how an input is
// loaded, is decided when the pipeline is made: gpu_patch.c lets the calls of slot_n, input_n, load_x and store_out go to op_name,
// load_type and store_type, and drops what nobody calls. Drivers would take seconds to find that out from constants.
// T is the type that a program computes with: float, double, or int64_t for integers of every size.
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
SLOT_CONSTANT(0) SLOT_CONSTANT(1) SLOT_CONSTANT(2) SLOT_CONSTANT(3)
SLOT_CONSTANT(4) SLOT_CONSTANT(5) SLOT_CONSTANT(6) SLOT_CONSTANT(7)
SLOT_CONSTANT(8) SLOT_CONSTANT(9) SLOT_CONSTANT(10) SLOT_CONSTANT(11)
SLOT_CONSTANT(12) SLOT_CONSTANT(13) SLOT_CONSTANT(14) SLOT_CONSTANT(15)
INPUT_CONSTANT(0) INPUT_CONSTANT(1) INPUT_CONSTANT(2) INPUT_CONSTANT(3)
INPUT_CONSTANT(4) INPUT_CONSTANT(5) INPUT_CONSTANT(6) INPUT_CONSTANT(7)

// ------------------------------------------------------------------ elements
#ifdef INTEGERS
// By hand: Mesa 22.3's CPU driver compares what it made 64 bits wide as if it had no sign.
T widened(int x) { return packInt2x32(ivec2(x, x >> 31)); }
#else
T widened(int x) { return T(x); }
#endif
T load_f32(uvec2 base, uint i) { return T(F32(base).v[i]); }
T load_f16(uvec2 base, uint i) { return T(float(F16(base).v[i])); }
T load_bf16(uvec2 base, uint i) { return T(from_bf16(uint(U16(base).v[i]))); }
T load_i8(uvec2 base, uint i) { return widened(int(I8(base).v[i])); }
T load_u8(uvec2 base, uint i) { return T(uint(U8(base).v[i])); }
T load_i16(uvec2 base, uint i) { return widened(int(I16(base).v[i])); }
T load_u16(uvec2 base, uint i) { return T(uint(U16(base).v[i])); }
T load_i32(uvec2 base, uint i) { return widened(I32(base).v[i]); }
T load_u32(uvec2 base, uint i) { return T(U32(base).v[i]); }
T load_i64(uvec2 base, uint i) { return T(I64(base).v[i]); }
#ifdef DOUBLES
T load_f64(uvec2 base, uint i) { return F64(base).v[i]; }
void store_f64(uvec2 base, uint i, T x) { F64(base).v[i] = x; }
#endif
T load_bool(uvec2 base, uint i) { return uint(U8(base).v[i]) != 0u ? T(1) : T(0); }

#ifdef INTEGERS
int64_t whole(T x) { return x; }
int64_t whole32(T x) { return x; }
#else
// As all providers have it: NaN becomes 0, what is left the nearest number of 64 bits, or of 32 for INT32 and all types
// of at most 16 bits, of which the lowest bits are stored.
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
void store_f32(uvec2 base, uint i, T x) { F32(base).v[i] = float(x); }
void store_f16(uvec2 base, uint i, T x) { F16(base).v[i] = float16_t(float(x)); }
void store_bf16(uvec2 base, uint i, T x) { U16(base).v[i] = uint16_t(to_bf16(float(x))); }
void store_i8(uvec2 base, uint i, T x) { U8(base).v[i] = uint8_t(uint(whole32(x) & 0xffl)); }
void store_u8(uvec2 base, uint i, T x) { U8(base).v[i] = uint8_t(uint(whole32(x) & 0xffl)); }
void store_i16(uvec2 base, uint i, T x) { U16(base).v[i] = uint16_t(uint(whole32(x) & 0xffffl)); }
void store_u16(uvec2 base, uint i, T x) { U16(base).v[i] = uint16_t(uint(whole32(x) & 0xffffl)); }
void store_i32(uvec2 base, uint i, T x) { U32(base).v[i] = uint(whole32(x) & 0xffffffffl); }
void store_u32(uvec2 base, uint i, T x) { U32(base).v[i] = uint(whole(x) & 0xffffffffl); }
void store_i64(uvec2 base, uint i, T x) { I64(base).v[i] = whole(x); }
void store_bool(uvec2 base, uint i, T x) { U8(base).v[i] = uint8_t(x != T(0) ? 1u : 0u); }

// ------------------------------------------------------------------ operations
#ifdef INTEGERS
#define NUMBER(k) int64_t((uint64_t(word(WORD_NUMBER + 2u * k + 1u)) << 32) | uint64_t(word(WORD_NUMBER + 2u * k)))
int64_t divide(int64_t a, int64_t b) { return b == 0l ? 0l : b == -1l ? -a : a / b; }
T op_add(T a, T b, T c) { return a + b; }
T op_sub(T a, T b, T c) { return a - b; }
T op_mul(T a, T b, T c) { return a * b; }
T op_div(T a, T b, T c) { return divide(a, b); }
T op_max(T a, T b, T c) { return a < b ? b : a; }
T op_min(T a, T b, T c) { return b < a ? b : a; }
T op_fmod(T a, T b, T c) { return a - divide(a, b) * b; }
T op_equal(T a, T b, T c) { return a == b ? 1l : 0l; }
T op_less(T a, T b, T c) { return a < b ? 1l : 0l; }
T op_less_equal(T a, T b, T c) { return a <= b ? 1l : 0l; }
T op_and(T a, T b, T c) { return a != 0l && b != 0l ? 1l : 0l; }
T op_or(T a, T b, T c) { return a != 0l || b != 0l ? 1l : 0l; }
T op_xor(T a, T b, T c) { return (a != 0l) != (b != 0l) ? 1l : 0l; }
T op_not(T a, T b, T c) { return a == 0l ? 1l : 0l; }
T op_to_bool(T a, T b, T c) { return a != 0l ? 1l : 0l; }
T op_where(T a, T b, T c) { return a != 0l ? b : c; }
T op_neg(T a, T b, T c) { return -a; }
T op_abs(T a, T b, T c) { return a < 0l ? -a : a; }
T op_sign(T a, T b, T c) { return a > 0l ? 1l : a < 0l ? -1l : 0l; }
T op_relu(T a, T b, T c) { return a < 0l ? 0l : a; }
T op_prelu(T a, T b, T c) { return a < 0l ? a * b : a; }
T op_bit_and(T a, T b, T c) { return a & b; }
T op_bit_or(T a, T b, T c) { return a | b; }
T op_bit_xor(T a, T b, T c) { return a ^ b; }
T op_bit_not(T a, T b, T c) { return ~a; }
T op_shift_left(T a, T b, T c) { return b > 63l ? 0l : a << int(b); }
T op_shift_right(T a, T b, T c) { return b > 63l ? 0l : a >> int(b); }
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
T op_move(T a, T b, T c) { return a; }
#else
#ifdef DOUBLES
#define NUMBER(k) packDouble2x32(uvec2(word(WORD_NUMBER + 2u * k), word(WORD_NUMBER + 2u * k + 1u)))
T op_max(T a, T b, T c) { return is_nan(a) ? a : is_nan(b) ? b : a < b ? b : a; }
T op_min(T a, T b, T c) { return is_nan(a) ? a : is_nan(b) ? b : b < a ? b : a; }
#else
#define NUMBER(k) fword(WORD_NUMBER + 2u * k)
float gelu(float x) { return is_inf(x) ? max(x, 0.0) : 0.5 * x * (1.0 + f_erf(x * 0.70710678)); }
T op_pow(T a, T b, T c) { return f_pow(a, b); }
T op_max(T a, T b, T c) { return f_max(a, b); }
T op_min(T a, T b, T c) { return f_min(a, b); }
T op_fmod(T a, T b, T c) { return f_fmod(a, b); }
T op_exp(T a, T b, T c) { return f_exp(a); }
T op_log(T a, T b, T c) { return f_log(a); }
T op_sin(T a, T b, T c) { return sine(a, false); }
T op_cos(T a, T b, T c) { return sine(a, true); }
T op_tan(T a, T b, T c) { return sine(a, false) / sine(a, true); }
T op_asin(T a, T b, T c) { return f_asin(a); }
T op_acos(T a, T b, T c) { return f_acos(a); }
T op_atan(T a, T b, T c) { return f_atan(a); }
T op_sinh(T a, T b, T c) { return f_sinh(a); }
T op_cosh(T a, T b, T c) { return f_cosh(a); }
T op_tanh(T a, T b, T c) { return f_tanh(a); }
T op_asinh(T a, T b, T c) { return f_asinh(a); }
T op_acosh(T a, T b, T c) { return f_acosh(a); }
T op_atanh(T a, T b, T c) { return f_atanh(a); }
T op_erf(T a, T b, T c) { return f_erf(a); }
T op_round(T a, T b, T c) { return f_round(a); }
T op_sigmoid(T a, T b, T c) { return f_sigmoid(a); }
T op_elu(T a, T b, T c) { return a < 0.0 ? b * expm1_of(a) : a; }
T op_selu(T a, T b, T c) { return a > 0.0 ? c * a : c * b * expm1_of(a); }
T op_celu(T a, T b, T c) { return a < 0.0 ? b * expm1_of(a / b) : a; }
T op_softplus(T a, T b, T c) { return f_softplus(a); }
T op_softsign(T a, T b, T c) { return a / (1.0 + abs(a)); }
T op_hard_sigmoid(T a, T b, T c) { return f_max(0.0, f_min(1.0, fma(a, b, c))); }
T op_hard_swish(T a, T b, T c) { return a * f_max(0.0, f_min(1.0, fma(a, 1.0 / 6.0, 0.5))); }
T op_gelu(T a, T b, T c) { return gelu(a); }
T op_gelu_tanh(T a, T b, T c)
{
    return is_inf(a) ? max(a, 0.0) : 0.5 * a * (1.0 + f_tanh(0.797884561 * fma(0.044715 * a * a, a, a)));
}
T op_swish(T a, T b, T c) { return is_inf(a) ? max(a * b, 0.0) : a * f_sigmoid(a * b); }
T op_mish(T a, T b, T c) { return is_inf(a) ? max(a, 0.0) : a * f_tanh(f_softplus(a)); }
T op_thresholded_relu(T a, T b, T c) { return a > b ? a : is_nan(a) ? a : 0.0; }
T op_shrink(T a, T b, T c) { return a < -c ? a + b : a > c ? a - b : is_nan(a) ? a : 0.0; }
T op_is_nan(T a, T b, T c) { return is_nan(a) ? 1.0 : 0.0; }
T op_is_inf(T a, T b, T c) { return is_inf(a) && (a > 0.0 ? b : c) != 0.0 ? 1.0 : 0.0; }
#endif
T op_move(T a, T b, T c) { return a; }
T op_add(T a, T b, T c) { return a + b; }
T op_sub(T a, T b, T c) { return a - b; }
T op_mul(T a, T b, T c) { return a * b; }
T op_div(T a, T b, T c) { return a / b; }
T op_prelu(T a, T b, T c) { return a < T(0) ? a * b : a; }
T op_equal(T a, T b, T c) { return a == b ? T(1) : T(0); }
T op_less(T a, T b, T c) { return a < b ? T(1) : T(0); }
T op_less_equal(T a, T b, T c) { return a <= b ? T(1) : T(0); }
T op_and(T a, T b, T c) { return a != T(0) && b != T(0) ? T(1) : T(0); }
T op_or(T a, T b, T c) { return a != T(0) || b != T(0) ? T(1) : T(0); }
T op_xor(T a, T b, T c) { return (a != T(0)) != (b != T(0)) ? T(1) : T(0); }
T op_not(T a, T b, T c) { return a == T(0) ? T(1) : T(0); }
T op_to_bool(T a, T b, T c) { return a != T(0) ? T(1) : T(0); }
T op_where(T a, T b, T c) { return a != T(0) ? b : c; }
T op_neg(T a, T b, T c) { return -a; }
T op_abs(T a, T b, T c) { return abs(a); }
T op_sign(T a, T b, T c) { return is_nan(a) ? a : a > T(0) ? T(1) : a < T(0) ? -T(1) : T(0); }
T op_sqrt(T a, T b, T c) { return a < T(0) ? T(nan()) : sqrt(a); }
T op_floor(T a, T b, T c) { return floor(a); }
T op_ceil(T a, T b, T c) { return ceil(a); }
T op_reciprocal(T a, T b, T c) { return T(1) / a; }
T op_relu(T a, T b, T c) { return a < T(0) ? T(0) : a; }
T op_leaky_relu(T a, T b, T c) { return a < T(0) ? a * b : a; }
#endif

// ------------------------------------------------------------------ what calls are redirected from
T load_a(uvec2 base, uint i) { return T(0); }
T load_b(uvec2 base, uint i) { return T(0); }
T load_c(uvec2 base, uint i) { return T(0); }
void store_out(uvec2 base, uint i, T x) {}
T input_0(uvec2 base, uint i) { return T(0); }
T input_1(uvec2 base, uint i) { return T(0); }
T input_2(uvec2 base, uint i) { return T(0); }
T input_3(uvec2 base, uint i) { return T(0); }
T input_4(uvec2 base, uint i) { return T(0); }
T input_5(uvec2 base, uint i) { return T(0); }
T input_6(uvec2 base, uint i) { return T(0); }
T input_7(uvec2 base, uint i) { return T(0); }
T slot_0(T a, T b, T c) { return a; }
T slot_1(T a, T b, T c) { return a; }
T slot_2(T a, T b, T c) { return a; }
T slot_3(T a, T b, T c) { return a; }
T slot_4(T a, T b, T c) { return a; }
T slot_5(T a, T b, T c) { return a; }
T slot_6(T a, T b, T c) { return a; }
T slot_7(T a, T b, T c) { return a; }
T slot_8(T a, T b, T c) { return a; }
T slot_9(T a, T b, T c) { return a; }
T slot_10(T a, T b, T c) { return a; }
T slot_11(T a, T b, T c) { return a; }
T slot_12(T a, T b, T c) { return a; }
T slot_13(T a, T b, T c) { return a; }
T slot_14(T a, T b, T c) { return a; }
T slot_15(T a, T b, T c) { return a; }

uint input_shift = 0u; // to addresses of other inputs of the same form
uint program_column = 0u;

// What becomes of element i of the result, of which a skeleton has made acc.
T program(uint i, T acc)
{
    T reg[32];
    uint where[MOST_RANK], rest = i;

#define COORDINATE(d)                                           \
    if (d < RANK) {                                             \
        where[d] = d == 0u ? rest : rest % word(WORD_DIM + d);  \
        rest /= d == 0u ? 1u : word(WORD_DIM + d);              \
    }
    COORDINATE(7u) COORDINATE(6u) COORDINATE(5u) COORDINATE(4u)
    COORDINATE(3u) COORDINATE(2u) COORDINATE(1u) COORDINATE(0u)
#define STEP(n, d)   \
    if (d < RANK)    \
        index += where[d] * word(WORD_STRIDE + 8u * n + d);
#define LOAD_INPUT(n)                                                            \
    if ((INPUT##n >> 8) != AT_NONE) {                                            \
        uint index = (INPUT##n >> 8) == AT_LINEAR   ? i                          \
                     : (INPUT##n >> 8) == AT_COLUMN ? program_column : 0u;       \
        if ((INPUT##n >> 8) == AT_STRIDED) {                                     \
            STEP(n, 0u) STEP(n, 1u) STEP(n, 2u) STEP(n, 3u)                      \
            STEP(n, 4u) STEP(n, 5u) STEP(n, 6u) STEP(n, 7u)                      \
        }                                                                        \
        reg[REG_INPUT + n] = input_##n(at[PUSH_INPUT + n + input_shift], index); \
    }
    LOAD_INPUT(0) LOAD_INPUT(1) LOAD_INPUT(2) LOAD_INPUT(3)
    LOAD_INPUT(4) LOAD_INPUT(5) LOAD_INPUT(6) LOAD_INPUT(7)
#define SET_NUMBER(k) reg[REG_NUMBER + k] = NUMBER(k);
    SET_NUMBER(0u) SET_NUMBER(1u) SET_NUMBER(2u) SET_NUMBER(3u) SET_NUMBER(4u) SET_NUMBER(5u) SET_NUMBER(6u)
    reg[REG_ACC] = acc;
#define RUN_SLOT(n) \
    if (n < SLOTS)  \
        acc = reg[n] = slot_##n(reg[(SLOT##n >> 8) & 31u], reg[(SLOT##n >> 16) & 31u], reg[(SLOT##n >> 24) & 31u]);
    RUN_SLOT(0) RUN_SLOT(1) RUN_SLOT(2) RUN_SLOT(3)
    RUN_SLOT(4) RUN_SLOT(5) RUN_SLOT(6) RUN_SLOT(7)
    RUN_SLOT(8) RUN_SLOT(9) RUN_SLOT(10) RUN_SLOT(11)
    RUN_SLOT(12) RUN_SLOT(13) RUN_SLOT(14) RUN_SLOT(15)
    return acc;
}

// Ends a skeleton: element i of the result.
void finish(uint i, T acc) { store_out(at[PUSH_OUT], i, program(i, acc)); }
