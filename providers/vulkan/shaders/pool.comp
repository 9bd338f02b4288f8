#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "program.glsl"

// Windows over images of up to three dimensions, one result an invocation.
layout(constant_id = ID_OWN) const uint KIND = POOL_MAX;
layout(constant_id = ID_OWN + 1) const uint WITH_PAD = 0u; // AVERAGE: pixels of the padding count
#define COUNT (WORD_OWN + 0u)
#define POWER (WORD_OWN + 1u)
#define WINDOW_WORDS (WORD_OWN + 2u)
#include "window.glsl"
#define PAD_END (WORD_OWN + 20u)

void main()
{
    const uint i = invocation();
    const uint plane = PRODUCT_3(IN_SIZE);
    uint rest = i, o[3], pixels = 0u;
    T acc = T(0);
    bool any = false;

    if (i >= word(COUNT))
        return;
    [[unroll]] for (uint d = 3u; d-- > 0u;) {
        o[d] = rest % WORD_3(OUT_SIZE, d);
        rest /= WORD_3(OUT_SIZE, d);
    }
    for (uint tap = 0u; tap < PRODUCT_3(WINDOW); tap++) {
        uint left = tap, index = 0u, step = 1u;
        bool outside = false, beyond = false;

        [[unroll]] for (uint d = 3u; d-- > 0u;) {
            const uint tapped = left % WORD_3(WINDOW, d) * WORD_3(DILATION, d);
            const int c = int(o[d] * WORD_3(STRIDE, d) + tapped) - IWORD_3(PAD_BEGIN, d);

            left /= WORD_3(WINDOW, d);
            outside = outside || c < 0 || c >= IWORD_3(IN_SIZE, d);
            beyond = beyond || c >= IWORD_3(IN_SIZE, d) + IWORD_3(PAD_END, d);
            index += uint(c) * step;
            step *= WORD_3(IN_SIZE, d);
        }
        if (!outside) {
            const T x = load_a(at[PUSH_OWN], rest * plane + index);

#ifdef INTEGERS
            acc = !any || acc < x ? x : acc;
#else
            acc = KIND == POOL_MAX ? (any ? f_max(acc, x) : x)
                  : KIND == POOL_LP ? acc + (fword(POWER) == 2.0   ? x * x
                                             : fword(POWER) == 1.0 ? abs(x)
                                                                   : f_pow(abs(x), fword(POWER)))
                  : KIND == POOL_SQUARES ? acc + x * x
                                    : acc + x;
#endif
            any = true;
        }
        pixels += WITH_PAD != 0u ? (beyond ? 0u : 1u) : outside ? 0u : 1u;
    }
#ifndef INTEGERS
    if (KIND == POOL_AVERAGE)
        acc /= float(pixels);
    if (KIND == POOL_LP)
        acc = fword(POWER) == 2.0 ? sqrt(acc) : fword(POWER) == 1.0 ? acc : f_pow(acc, 1.0 / fword(POWER));
#endif
    finish(i, acc);
}
