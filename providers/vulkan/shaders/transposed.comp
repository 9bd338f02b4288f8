#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "program.glsl"

// ConvTranspose: each result gathers what falls on it. Weights are [C, M / groups, window].
#define COUNT (WORD_OWN + 0u)
#define CHANNELS (WORD_OWN + 1u) // of the input, of one group
#define FILTERS (WORD_OWN + 2u)  // of the result, of one group
#define GROUPS (WORD_OWN + 3u)
#define WINDOW_WORDS (WORD_OWN + 4u)
#include "window.glsl"

void main()
{
    const uint i = invocation();
    const uint plane = PRODUCT_3(IN_SIZE), taps = PRODUCT_3(WINDOW);
    uint rest = i, o[3], filter_, group, image;
    float acc = 0.0;

    if (i >= word(COUNT))
        return;
    [[unroll]] for (uint d = 3u; d-- > 0u;) {
        o[d] = rest % WORD_3(OUT_SIZE, d);
        rest /= WORD_3(OUT_SIZE, d);
    }
    filter_ = rest % word(FILTERS);
    group = rest / word(FILTERS) % word(GROUPS);
    image = rest / word(FILTERS) / word(GROUPS);
    for (uint tap = 0u; tap < taps; tap++) {
        uint left = tap, index = 0u, step = 1u;
        bool hit = true;

        [[unroll]] for (uint d = 3u; d-- > 0u;) {
            const int c = int(o[d]) + IWORD_3(PAD_BEGIN, d) - int(left % WORD_3(WINDOW, d) * WORD_3(DILATION, d));

            left /= WORD_3(WINDOW, d);
            hit = hit && c >= 0 && c % IWORD_3(STRIDE, d) == 0 && c / IWORD_3(STRIDE, d) < IWORD_3(IN_SIZE, d);
            index += uint(c / IWORD_3(STRIDE, d)) * step;
            step *= WORD_3(IN_SIZE, d);
        }
        if (hit)
            for (uint c = 0u; c < word(CHANNELS); c++) {
                const uint channel = group * word(CHANNELS) + c;

                acc = fma(load_a(at[PUSH_OWN], (channel * word(FILTERS) + filter_) * taps + tap),
                          load_b(at[PUSH_OWN + 1], (image * word(GROUPS) * word(CHANNELS) + channel) * plane + index), acc);
            }
    }
    finish(i, acc);
}
