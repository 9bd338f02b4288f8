#version 460
#extension GL_GOOGLE_include_directive : require
#include "program.glsl"

// Elementwise operators: runs the program for each element. Word WORD_OWN is the number of elements. An invocation has
// EACH of them, a workgroup apart.
layout(constant_id = ID_OWN) const uint EACH = 1u;

void main()
{
    const uint local = gl_WorkGroupSize.x, first = workgroup() * local * EACH + gl_LocalInvocationID.x;

    [[unroll]] for (uint e = 0u; e < EACH; e++)
        if (first + e * local < word(WORD_OWN))
            finish(first + e * local, T(0));
}
