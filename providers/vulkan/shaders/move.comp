#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// Copies elements of any type: each element of a box of sizes DIM goes from one strided position to another. With Pad,
// a coordinate outside of the source is mapped inside, or the element is the one at PUSH_INPUT + 1, or 0. With Gather
// and Scatter, indexes at PUSH_INPUT + 2 are added to the source or to the target position. Negative indexes count from
// the end. Indexes out of range are clamped, since a shader cannot stop a run.
layout(constant_id = ID_RANK) const uint RANK = 1u;
layout(constant_id = ID_OWN) const uint SIZE = 4u; // bytes of an element
layout(constant_id = ID_OWN + 1) const uint PAD = PAD_NONE;
layout(constant_id = ID_OWN + 2) const uint INDEX_BYTES = 0u; // 0: no indexes
layout(constant_id = ID_OWN + 3) const uint SCATTERS = 0u;    // 1: indexes address the target
#define COUNT 0u
#define FROM 1u
#define TO 2u
#define ZERO 3u
#define INDEXES 4u // consecutive, one per axis
#define DIM 8u
#define STRIDE_FROM 16u
#define STRIDE_TO 24u
#define BEGIN 32u
#define EXTENT 40u
#define STRIDE_INDEX 48u
#define AXIS_SIZE 56u
#define AXIS_STRIDE 64u

void copy_element(uint to, uvec2 source, uint from)
{
    switch (SIZE) {
    case 1u: U8(at[PUSH_OUT]).v[to] = uint8_t(uint(U8(source).v[from])); break;
    case 2u: U16(at[PUSH_OUT]).v[to] = uint16_t(uint(U16(source).v[from])); break;
    case 4u: U32(at[PUSH_OUT]).v[to] = U32(source).v[from]; break;
    default: U32x2(at[PUSH_OUT]).v[to] = U32x2(source).v[from]; break;
    }
}

void clear_element(uint to)
{
    const uint zero = word(ZERO); // devices may have no 8-bit and 16-bit constants

    switch (SIZE) {
    case 1u: U8(at[PUSH_OUT]).v[to] = uint8_t(zero); break;
    case 2u: U16(at[PUSH_OUT]).v[to] = uint16_t(zero); break;
    case 4u: U32(at[PUSH_OUT]).v[to] = 0u; break;
    default: U32x2(at[PUSH_OUT]).v[to] = uvec2(0u); break;
    }
}

// Maps coordinate c of a padded axis to the source. In modes without such a mapping, c stays outside.
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

int index_at(uint k, int size)
{
    const int64_t x = INDEX_BYTES == 8u ? I64(at[PUSH_INPUT + 2]).v[k] : wide(I32(at[PUSH_INPUT + 2]).v[k]);
    const int64_t end = wide(size);

    return int(clamp(x < 0l ? x + end : x, 0l, end - 1l));
}

void main()
{
    const uint i = invocation();
    uint rest = i, k = 0u;
    int from = iword(FROM), to = iword(TO), far = 0;
    bool outside = false;

    if (i >= word(COUNT))
        return;
    [[unroll]] for (int d = MOST_RANK - 1; d >= 0; d--)
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
            if (INDEX_BYTES != 0u)
                k += uint(c) * WORD_8(STRIDE_INDEX, d);
        }
    for (uint l = 0u; INDEX_BYTES != 0u && l < word(INDEXES); l++)
        far += index_at(k + l, iword(AXIS_SIZE + l)) * iword(AXIS_STRIDE + l);
    from += SCATTERS == 0u ? far : 0;
    to += SCATTERS != 0u ? far : 0;
    if (outside && PAD == PAD_ZERO)
        clear_element(uint(to));
    else if (outside)
        copy_element(uint(to), at[PUSH_INPUT + 1], 0u);
    else
        copy_element(uint(to), at[PUSH_INPUT], uint(from));
}
