#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#include "common.glsl"
#include "program.glsl"

// A filter of its own for each channel: neighbours have neighbouring pixels of one channel, whose weights all read.
layout(constant_id = ID_OWN) const uint LANES = 0u; // subgroups of so many have pixels of one line, loaded one by one
#define CHANNELS (WORD_OWN + 0u)
#define EACH (WORD_OWN + 1u) // workgroups a channel
#define WINDOW_WORDS (WORD_OWN + 2u)
#include "window.glsl"
#define PLANES (WORD_OWN + 20u)

bool is_lane[16];

void main()
{
    const uint item = min(workgroup(), word(PLANES) * word(EACH) - 1u);
    const uint plane = item / word(EACH), width = word(OUT_SIZE + 2u);
    const uint pixels = PRODUCT_3(OUT_SIZE), taps = PRODUCT_3(WINDOW), base = plane * PRODUCT_3(IN_SIZE);
    const uint filter_at = plane % word(CHANNELS) * taps;
    uint pixel = item % word(EACH) * gl_WorkGroupSize.x + gl_LocalInvocationID.x, line = min(pixel, pixels - 1u) / width;
    uint first = min(pixel, pixels - 1u) % width, lane = 0u, tap = 0u;
    float acc = 0.0;

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
    do { // loops ask at their end, see product.comp
        const int x = int(first * word(STRIDE + 2u) + tap % word(WINDOW + 2u) * word(DILATION + 2u)) -
                      iword(PAD_BEGIN + 2u),
                  y = oy + int(tap / word(WINDOW + 2u) % word(WINDOW + 1u) * word(DILATION + 1u)),
                  z = oz + int(tap / word(WINDOW + 2u) / word(WINDOW + 1u) * word(DILATION));
        const int end = iword(IN_SIZE + 2u), own = x + int(lane * word(STRIDE + 2u));
        // As numbers without a sign, those below 0 are large.
        const bool in_line = uint(y) < word(IN_SIZE + 1u) && uint(z) < word(IN_SIZE);
        const uint row = base + (in_line ? uint(z * iword(IN_SIZE + 1u) + y) * uint(end) : 0u);
        float there = load_a(at[PUSH_OWN], row + uint(clamp(x, 0, end - 1)));

        [[unroll]] for (uint i = 1u; i < LANES; i++) {
            const float next = load_a(at[PUSH_OWN], row + uint(clamp(x + int(i * word(STRIDE + 2u)), 0, end - 1)));

            there = is_lane[i] ? next : there;
        }
        acc = fma(in_line && uint(own) < uint(end) ? there : 0.0, load_b(at[PUSH_OWN + 1], filter_at + tap), acc);
        tap++;
    } while (tap < taps);
    program_column = plane % word(CHANNELS);
    if (pixel < pixels)
        finish(plane * pixels + pixel, acc);
}
