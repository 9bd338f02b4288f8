#version 460
#extension GL_GOOGLE_include_directive : require
#include "program.glsl"

// Each result is a sum of TAPS elements per axis. Tables give their indexes and weights: tap k of element o of an axis
// is at word TABLE + k * size + o, and its weight at the same offset after all indexes. An axis without taps is not
// resized.
layout(constant_id = ID_OWN) const uint WEIGHTED = 0u;
layout(constant_id = ID_OWN + 1) const uint AXES = 1u;
#define COUNT (WORD_OWN + 0u)
#define OUTSIDE (WORD_OWN + 1u) // the value beyond the image
#define DIM (WORD_OWN + 2u)
#define IN_STRIDE (WORD_OWN + 8u)
#define TAPS (WORD_OWN + 14u)
#define TABLE (WORD_OWN + 20u)

void main()
{
    const uint i = invocation();
    uint rest = i, o[6], total = 1u;
    float acc = 0.0;
    bool outside = false;

    if (i >= word(COUNT))
        return;
    [[unroll]] for (int d = 5; d >= 0; d--)
        if (d < AXES) {
            o[d] = rest % WORD_8(DIM, d);
            rest /= WORD_8(DIM, d);
            total *= max(WORD_8(TAPS, d), 1u);
            outside = outside || (WORD_8(TAPS, d) > 0u && iword(WORD_8(TABLE, d) + o[d]) < 0);
        }
    for (uint tap = 0u; tap < total && !outside; tap++) {
        uint left = tap, index = 0u;
        float weight = 1.0;

        [[unroll]] for (int d = 5; d >= 0; d--)
            if (d < AXES) {
                const uint taps = WORD_8(TAPS, d), size = WORD_8(DIM, d);
                const uint entry = WORD_8(TABLE, d) + left % max(taps, 1u) * size + o[d];

                left /= max(taps, 1u);
                index += (taps > 0u ? word(entry) : o[d]) * WORD_8(IN_STRIDE, d);
                if (WEIGHTED != 0u && taps > 0u)
                    weight *= fword(entry + taps * size);
            }
        if (weight != 0.0)
            acc += WEIGHTED != 0u ? weight * load_a(at[PUSH_OWN], index) : load_a(at[PUSH_OWN], index);
    }
    finish(i, outside ? fword(OUTSIDE) : acc);
}
