#version 460
#extension GL_GOOGLE_include_directive : require
#include "program.glsl"

// Reductions over any axes, and running sums. LANES invocations of a workgroup share an output: LANES is 1 for short
// sums and the size of the workgroup for long ones.
layout(constant_id = ID_OWN) const uint KIND = RED_SUM;
layout(constant_id = ID_OWN + 1) const uint LANES = 1u;
layout(constant_id = ID_OWN + 2) const uint FLAGS = 0u; // ARG: 1 = last of equal; RUNNING: 1 = exclusive, 2 = reverse
#define COUNT (WORD_OWN + 0u)
#define LENGTH (WORD_OWN + 1u)
#define KEPT_DIM (WORD_OWN + 2u) // 4 sizes, 4 strides
#define REDUCED_DIM (WORD_OWN + 10u)

shared uint shared_index;

#define OFFSET_OF(name, table)                            \
uint name(uint i)                                         \
{                                                         \
    uint offset = 0u;                                     \
                                                          \
    [[unroll]] for (int d = 3; d >= 0; d--) {             \
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
const T least = -0x7fffffffffffffffl - 1l;
T larger(T a, T b) { return a < b ? b : a; }
T reversed(T x) { return ~x; }
bool is_nan(T x) { return false; }
#else
#define least -inf()
T larger(T a, T b) { return f_max(a, b); }
T reversed(T x) { return -x; }
#endif
T join(T a, T b) { return KIND == RED_PROD ? a * b : a + b; }

#define JOIN join
#define LARGER larger
#include "lanes.glsl"

// A minimum is computed as the maximum of the reversed elements.
const bool is_least = KIND == RED_MIN || KIND == RED_ARG_MIN;
T element(uint k)
{
    const T x = load_a(at[PUSH_OWN], k);

    return is_least ? reversed(x) : x;
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

// The index of the first or the last of the largest elements.
uint index_of_largest(T most, uint base, uint lane)
{
    const bool last = FLAGS != 0u;
    uint best = last ? 0u : 0xffffffffu;

    for (uint k = lane; k < word(LENGTH); k += LANES) {
        const T x = element(base + offset_reduced(k));

        if (x == most || (is_nan(x) && is_nan(most)))
            best = last ? k : min(best, k);
    }
    if (LANES == 1u)
        return best;
    if (lane == 0u)
        shared_index = best;
    barrier();
    if (last)
        atomicMax(shared_index, best);
    else
        atomicMin(shared_index, best);
    barrier();
    return shared_index;
}

void store_running_sums(uint base)
{
    const uint n = word(LENGTH);
    T sum = T(0);

    for (uint k = 0u; k < n; k++) {
        const uint i = base + offset_reduced((FLAGS & 2u) != 0u ? n - 1u - k : k);
        const T before = sum;

        sum += element(i);
        finish(i, (FLAGS & 1u) != 0u ? before : sum);
    }
}

void main()
{
    const uint i = shared_item(), lane = own_lane();
    const bool is_arg = KIND == RED_ARG_MAX || KIND == RED_ARG_MIN, is_most = KIND == RED_MAX || KIND == RED_MIN;
    T acc = KIND == RED_PROD ? T(1) : T(0), most = least;
    uint base, best;

    if (i >= word(COUNT))
        return; // uniform for all lanes
    base = offset_kept(i);
    if (KIND == RED_RUNNING) {
        store_running_sums(base);
        return;
    }
    if (is_arg || is_most || KIND == RED_LOG_SUM_EXP) {
        for (uint k = lane; k < word(LENGTH); k += LANES)
            most = larger(most, element(base + offset_reduced(k)));
        most = combine_lanes(most, true);
    }
    if (is_arg) {
        best = index_of_largest(most, base, lane);
        if (lane == 0u)
            I64(at[PUSH_OUT]).v[i] = int64_t(best);
        return;
    }
    if (is_most) {
        acc = is_least ? reversed(most) : most;
    } else {
#ifndef INTEGERS
        most = is_inf(most) || is_nan(most) ? 0.0 : most;
#endif
        for (uint k = lane; k < word(LENGTH); k += LANES)
            acc = join(acc, prepared(element(base + offset_reduced(k)), most));
        acc = ended(combine_lanes(acc, false), most);
    }
    if (lane == 0u)
        finish(i, acc);
}
