#version 460
#extension GL_GOOGLE_include_directive : require
#include "program.glsl"

// Softmax and normalisations of rows. Elements of a row are INNER apart.
layout(constant_id = ID_OWN) const uint KIND = ROW_SOFTMAX;
layout(constant_id = ID_OWN + 1) const uint LANES = 1u;
layout(constant_id = ID_OWN + 2) const uint SCALE = 0u;
layout(constant_id = ID_OWN + 3) const uint BIAS = 0u;
layout(constant_id = ID_OWN + 4) const uint MEAN = 0u; // 1: stores the row's mean, and 1 / deviation
layout(constant_id = ID_OWN + 5) const uint DEVIATION = 0u;
layout(constant_id = ID_OWN + 6) const uint SKIP = 0u; // 1: elements are sums of two inputs of one type; 2: plus a bias per j
layout(constant_id = ID_OWN + 7) const uint SUM = 0u;  // stores these sums: 4 as float, 2 as float16
layout(constant_id = ID_OWN + 8) const uint PARTS = 0u; // above 0: the number of float tensors whose sum is the first input
#define ROWS (WORD_OWN + 0u)
#define LENGTH (WORD_OWN + 1u)
#define INNER (WORD_OWN + 2u)
#define EPSILON (WORD_OWN + 3u)
// The scale of element j of row r is at r % SCALE_ROWS * SCALE_STEP + j / SCALE_PER.
#define SCALE_ROWS (WORD_OWN + 4u)
#define SCALE_STEP (WORD_OWN + 5u)
#define SCALE_PER (WORD_OWN + 6u)

#define JOIN(a, b) ((a) + (b))
#define LARGER f_max
#include "lanes.glsl"

float element(uint i, uint j)
{
    float x = PARTS == 0u ? load_a(at[PUSH_OWN], i) : 0.0;

    [[unroll]] for (uint part = 0u; part < PARTS; part++)
        x += F32(at[PUSH_OWN]).v[part * word(ROWS) * word(LENGTH) + i];
    if (SKIP == 2u)
        x += load_a(at[PUSH_OWN + 3], j);
    if (SKIP != 0u)
        x += load_a(at[PUSH_OWN + 5], i);
    return x;
}

void main()
{
    const uint row = shared_item(), lane = own_lane();
    const uint n = word(LENGTH), inner = word(INNER);
    const uint base = row / inner * n * inner + row % inner;
    float shift = 0.0, factor = 1.0, sum = 0.0;

    if (row >= word(ROWS))
        return;
    if (KIND == ROW_SOFTMAX || KIND == ROW_LOG_SOFTMAX || KIND == ROW_HARDMAX) {
        shift = -inf();
        for (uint j = lane; j < n; j += LANES)
            shift = f_max(shift, element(base + j * inner, j));
        shift = combine_lanes(shift, true);
    } else if (KIND == ROW_NORM) {
        for (uint j = lane; j < n; j += LANES)
            sum += element(base + j * inner, j);
        shift = combine_lanes(sum, false) / float(n);
    }
    sum = 0.0;
    if (KIND == ROW_HARDMAX) { // the first largest element
        float first = float(n);

        for (uint j = lane; j < n; j += LANES)
            if (element(base + j * inner, j) == shift)
                first = min(first, float(j));
        factor = -combine_lanes(-first, true);
    } else {
        for (uint j = lane; j < n; j += LANES) {
            const float x = element(base + j * inner, j) - shift;

            sum += KIND == ROW_SOFTMAX || KIND == ROW_LOG_SOFTMAX ? f_exp(x) : KIND == ROW_L1 ? abs(x) : x * x;
        }
        sum = combine_lanes(sum, false);
    }
    switch (KIND) {
    case ROW_SOFTMAX: factor = 1.0 / sum; break;
    case ROW_LOG_SOFTMAX: factor = f_log(sum); break;
    case ROW_NORM: case ROW_RMS: factor = 1.0 / sqrt(sum / float(n) + fword(EPSILON)); break;
    case ROW_L1: factor = sum == 0.0 ? 0.0 : 1.0 / sum; break;
    case ROW_L2: factor = sum == 0.0 ? 0.0 : 1.0 / sqrt(sum); break;
    default: break;
    }
    if (MEAN != 0u && lane == 0u)
        F32(at[PUSH_OWN + 3]).v[row] = shift;
    if (DEVIATION != 0u && lane == 0u)
        F32(at[PUSH_OWN + 4]).v[row] = factor;
    for (uint j = lane; j < n; j += LANES) {
        const uint i = base + j * inner;
        const float x = element(i, j);

        if (SUM == 4u)
            store_f32(at[PUSH_OWN + 4], i, x);
        if (SUM == 2u)
            store_f16(at[PUSH_OWN + 4], i, x);
        const uint s = row % word(SCALE_ROWS) * word(SCALE_STEP) + j / word(SCALE_PER);
        float y = KIND == ROW_SOFTMAX ? f_exp(x - shift) * factor
                  : KIND == ROW_LOG_SOFTMAX ? x - shift - factor
                  : KIND == ROW_HARDMAX     ? (float(j) == factor ? 1.0 : 0.0)
                                            : (x - shift) * factor;

        if (SCALE != 0u)
            y *= load_b(at[PUSH_OWN + 1], s);
        if (BIAS != 0u)
            y += load_c(at[PUSH_OWN + 2], s);
        finish(i, y);
    }
}
