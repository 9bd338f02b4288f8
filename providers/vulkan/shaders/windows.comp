#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#include "program.glsl"

// Pools and depthwise convolutions: each result is a function of a window of one plane. Neighbouring invocations
// compute neighbouring pixels of one plane.
layout(constant_id = ID_OWN) const uint KIND = POOL_MAX;
layout(constant_id = ID_OWN + 1) const uint WITH_PAD = 0u; // AVERAGE: padding counts
layout(constant_id = ID_OWN + 2) const uint LANES = 0u; // subgroups of this size load the pixels of a line one by one
#define CHANNELS (WORD_OWN + 0u)
#define EACH (WORD_OWN + 1u) // workgroups per plane
#define WINDOW_WORDS (WORD_OWN + 2u)
#include "window.glsl"
#define PLANES (WORD_OWN + 20u)
#define POWER (WORD_OWN + 21u)
#define PAD_END (WORD_OWN + 22u)
#define ALONE (WORD_OWN + 25u) // the result of a window that covers padding only, a float

bool is_lane[16];

// Combines acc with another element x of the window, whose weight is at w.
T combined(T acc, T x, uint w, bool first)
{
#ifdef INTEGERS
    return first || acc < x ? x : acc;
#else
    switch (KIND) {
    case POOL_MAX: return first ? x : f_max(acc, x);
    case POOL_LP: return acc + (fword(POWER) == 2.0 ? x * x : fword(POWER) == 1.0 ? abs(x) : f_pow(abs(x), fword(POWER)));
    case POOL_SQUARES: return fma(x, x, acc);
    case POOL_WEIGHTED: return fma(x, load_b(at[PUSH_OWN + 1], w), acc);
    default: return acc + x;
    }
#endif
}

void main()
{
    const uint item = min(workgroup(), word(PLANES) * word(EACH) - 1u);
    const uint plane = item / word(EACH), width = word(OUT_SIZE + 2u), filter_at = plane % word(CHANNELS) * PRODUCT_3(WINDOW);
    const uint pixels = PRODUCT_3(OUT_SIZE), taps = PRODUCT_3(WINDOW), base = plane * PRODUCT_3(IN_SIZE);
    uint pixel = item % word(EACH) * gl_WorkGroupSize.x + gl_LocalInvocationID.x, line = min(pixel, pixels - 1u) / width;
    uint first = min(pixel, pixels - 1u) % width, lane = 0u, tap = 0u, met = 0u, counted = 0u;
    T acc = T(0);

    if (LANES > 0u) {
        const uint strips = (width + LANES - 1u) / LANES, lines = word(OUT_SIZE) * word(OUT_SIZE + 1u);
        const uint strip = min(item % word(EACH) * (gl_WorkGroupSize.x / LANES) + gl_SubgroupID, lines * strips - 1u);

        lane = gl_SubgroupInvocationID;
        line = strip / strips;
        first = strip % strips * LANES;
        pixel = first + lane < width ? line * width + first + lane : pixels;
        [[unroll]] for (uint i = 0u; i < LANES; i++)
            is_lane[i] = lane == i;
    }
    const int oy = int(line % word(OUT_SIZE + 1u) * word(STRIDE + 1u)) - iword(PAD_BEGIN + 1u),
              oz = int(line / word(OUT_SIZE + 1u) * word(STRIDE)) - iword(PAD_BEGIN);
    do { // loops test their condition at the end, see product.comp
        const int x = int(first * word(STRIDE + 2u) + tap % word(WINDOW + 2u) * word(DILATION + 2u)) -
                      iword(PAD_BEGIN + 2u),
                  y = oy + int(tap / word(WINDOW + 2u) % word(WINDOW + 1u) * word(DILATION + 1u)),
                  z = oz + int(tap / word(WINDOW + 2u) / word(WINDOW + 1u) * word(DILATION));
        const int end = iword(IN_SIZE + 2u), last = max(end, 1) - 1, own = x + int(lane * word(STRIDE + 2u));
        // As unsigned numbers, negative coordinates are larger than any size.
        const bool in_line = uint(y) < word(IN_SIZE + 1u) && uint(z) < word(IN_SIZE);
        const uint row = base + (in_line ? uint(z * iword(IN_SIZE + 1u) + y) * uint(end) : 0u);
        T there = load_a(at[PUSH_OWN], row + uint(clamp(x, 0, last)));

        [[unroll]] for (uint i = 1u; i < LANES; i++) {
            const T next = load_a(at[PUSH_OWN], row + uint(clamp(x + int(i * word(STRIDE + 2u)), 0, last)));

            there = is_lane[i] ? next : there;
        }
        const bool inside = in_line && uint(own) < uint(end);
        const T with = combined(acc, there, filter_at + tap, met == 0u);

        acc = inside ? with : acc;
        met += inside ? 1u : 0u;
        counted += own < end + iword(PAD_END + 2u) && y < iword(IN_SIZE + 1u) + iword(PAD_END + 1u) &&
                           z < iword(IN_SIZE) + iword(PAD_END) ? 1u : 0u;
        tap++;
    } while (tap < taps);
    if (KIND == POOL_MAX && met == 0u)
        acc = T(fword(ALONE));
#ifndef INTEGERS
    if (KIND == POOL_AVERAGE)
        acc /= float(max(WITH_PAD != 0u ? counted : met, 1u));
    if (KIND == POOL_LP)
        acc = fword(POWER) == 2.0 ? sqrt(acc) : fword(POWER) == 1.0 ? acc : f_pow(acc, 1.0 / fword(POWER));
#endif
    program_column = plane % word(CHANNELS);
    if (pixel < pixels)
        finish(plane * pixels + pixel, acc);
}
