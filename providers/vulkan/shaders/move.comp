#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// Elements of any type that change places: each element of a box of sizes DIM goes from where its strides say to where
// they say. A coordinate outside of the source (Pad) comes from inside, or is the element at PUSH_INPUT + 1, or 0.
layout(constant_id = ID_RANK) const uint RANK = 1u;
#include "element.glsl"
layout(constant_id = ID_OWN + 1) const uint PAD = PAD_NONE;
#define COUNT 0u
#define FROM 1u
#define TO 2u
#define ZERO 3u
#define DIM 8u
#define STRIDE_FROM 16u
#define STRIDE_TO 24u
#define BEGIN 32u
#define EXTENT 40u

void clear_element(uint to)
{
    const uint zero = word(ZERO); // devices may have no constants of 8 and 16 bits

    switch (SIZE) {
    case 1u: U8(at[PUSH_OUT]).v[to] = uint8_t(zero); break;
    case 2u: U16(at[PUSH_OUT]).v[to] = uint16_t(zero); break;
    case 4u: U32(at[PUSH_OUT]).v[to] = 0u; break;
    default: U32x2(at[PUSH_OUT]).v[to] = uvec2(0u); break;
    }
}

// Where coordinate c of a padded axis comes from; outside stays outside.
int inside(int c, int extent)
{
    if (PAD == PAD_EDGE)
        return clamp(c, 0, extent - 1);
    if (PAD == PAD_WRAP)
        return c - int(floor(float(c) / float(extent))) * extent;
    if (PAD == PAD_REFLECT) {
        const int period = max(2 * (extent - 1), 1);
        const int m = abs(c) % period;

        return extent == 1 ? 0 : m < extent ? m : period - m;
    }
    return c;
}

void main()
{
    const uint i = invocation();
    uint rest = i;
    int from = iword(FROM), to = iword(TO);
    bool outside = false;

    if (i >= word(COUNT))
        return;
    [[unroll]] for (uint d = MOST_RANK; d-- > 0u;)
        if (d < RANK) {
            const uint size = WORD_8(DIM, d);
            const int c = int(d == 0u ? rest : rest % size);
            int s = c;

            if (d > 0u)
                rest /= size;
            if (PAD != PAD_NONE) {
                s = inside(c - int(WORD_8(BEGIN, d)), int(WORD_8(EXTENT, d)));
                outside = outside || s < 0 || s >= int(WORD_8(EXTENT, d));
            }
            from += s * int(WORD_8(STRIDE_FROM, d));
            to += c * int(WORD_8(STRIDE_TO, d));
        }
    if (outside && PAD == PAD_ZERO)
        clear_element(uint(to));
    else if (outside)
        copy_element(uint(to), at[PUSH_INPUT + 1], 0u);
    else
        copy_element(uint(to), at[PUSH_INPUT], uint(from));
}
