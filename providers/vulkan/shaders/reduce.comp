#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "program.glsl"

// Reductions over any axes. LANES invocations of a workgroup share an output: one for short sums, all for long ones.
layout(constant_id = ID_OWN) const uint KIND = RED_SUM;
layout(constant_id = ID_OWN + 1) const uint LANES = 1u;
layout(constant_id = ID_OWN + 2) const uint LAST = 0u; // ARG: of equals the last
#define COUNT (WORD_OWN + 0u)
#define LENGTH (WORD_OWN + 1u)
#define KEPT_DIM (WORD_OWN + 2u) // 4 sizes, 4 strides
#define REDUCED_DIM (WORD_OWN + 10u)

shared uint shared_index[256];

#define OFFSET_OF(name, table)                            \
uint name(uint i)                                         \
{                                                         \
    uint offset = 0u;                                     \
                                                          \
    [[unroll]] for (uint d = 4u; d-- > 0u;) {             \
        const uint size = WORD_4(table, d);               \
                                                          \
        offset += i % size * WORD_4(table + 4u, d);       \
        i /= size;                                        \
    }                                                     \
    return offset;                                        \
}
OFFSET_OF(offset_kept, KEPT_DIM)
OFFSET_OF(offset_reduced, REDUCED_DIM)

#ifdef INTEGERS
T first_of() { return KIND == RED_PROD ? 1l : 0l; }
T big(bool most) { return most ? 0x7fffffffffffffffl : -0x7fffffffffffffffl - 1l; }
T larger(T a, T b) { return a < b ? b : a; }
T smaller(T a, T b) { return b < a ? b : a; }
bool odd(T a) { return false; }
#else
T first_of() { return KIND == RED_PROD ? 1.0 : 0.0; }
T big(bool most) { return most ? inf() : -inf(); }
T larger(T a, T b) { return f_max(a, b); }
T smaller(T a, T b) { return f_min(a, b); }
bool odd(T a) { return is_nan(a); }
#endif

T join(T a, T b)
{
    switch (KIND) {
    case RED_MAX: return larger(a, b);
    case RED_MIN: return smaller(a, b);
    case RED_PROD: return a * b;
    default: return a + b;
    }
}

#define JOIN join
#define LARGER larger
#include "lanes.glsl"

T start()
{
    return KIND == RED_MAX || KIND == RED_ARG_MAX ? big(false) : KIND == RED_MIN || KIND == RED_ARG_MIN ? big(true) : first_of();
}

// Is element a, at index ia, to be taken rather than b at ib?
bool wins(T a, uint ia, T b, uint ib)
{
    if (odd(a) != odd(b))
        return odd(a);
    if (a == b || odd(a))
        return LAST != 0u ? ia > ib : ia < ib;
    return KIND == RED_ARG_MAX ? a > b : a < b;
}

T prepared(T x, T most)
{
    switch (KIND) {
    case RED_L1: return x < T(0) ? -x : x;
    case RED_L2: case RED_SUM_SQUARE: return x * x;
#ifndef INTEGERS
    case RED_LOG_SUM_EXP: return f_exp(x - most);
#endif
    default: return x;
    }
}

T ended(T x, T most)
{
#ifdef INTEGERS
    return KIND == RED_MEAN ? divide(x, int64_t(word(LENGTH))) : x;
#else
    switch (KIND) {
    case RED_MEAN: return x / float(word(LENGTH));
    case RED_L2: return sqrt(x);
    case RED_LOG_SUM: return f_log(x);
    case RED_LOG_SUM_EXP: return f_log(x) + most;
    default: return x;
    }
#endif
}

void main()
{
    const uint i = shared_item(), lane = own_lane();
    const uint length = word(LENGTH);
    const bool is_arg = KIND == RED_ARG_MAX || KIND == RED_ARG_MIN;
    T acc = start(), most = big(false);
    uint base, best = is_arg && lane < length ? lane : 0xffffffffu;

    if (i >= word(COUNT))
        return; // of all lanes alike
    base = offset_kept(i);
#ifndef INTEGERS
    if (KIND == RED_LOG_SUM_EXP) {
        for (uint k = lane; k < length; k += LANES)
            most = larger(most, load_a(at[PUSH_OWN], base + offset_reduced(k)));
        most = across(most, true);
        most = is_inf(most) || is_nan(most) ? 0.0 : most;
    }
#endif
    for (uint k = lane; k < length; k += LANES) {
        const T x = load_a(at[PUSH_OWN], base + offset_reduced(k));

        if (!is_arg) {
            acc = join(acc, prepared(x, most));
        } else if (k == lane || wins(x, k, acc, best)) {
            acc = x;
            best = k;
        }
    }
    if (!is_arg) {
        acc = ended(across(acc, false), most);
        if (lane == 0u)
            finish(i, acc);
        return;
    }
    if (LANES > 1u) {
        shared_value[lane] = acc;
        shared_index[lane] = best;
        for (uint half_n = LANES / 2u; half_n > 0u; half_n /= 2u) {
            barrier();
            if (lane < half_n && shared_index[lane + half_n] != 0xffffffffu &&
                wins(shared_value[lane + half_n], shared_index[lane + half_n], shared_value[lane], shared_index[lane])) {
                shared_value[lane] = shared_value[lane + half_n];
                shared_index[lane] = shared_index[lane + half_n];
            }
        }
        best = shared_index[0];
    }
    if (lane == 0u)
        I64(at[PUSH_OUT]).v[i] = int64_t(best);
}
