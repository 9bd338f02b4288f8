#version 460
#extension GL_GOOGLE_include_directive : require
#include "program.glsl"

// Elementwise. Word WORD_OWN: number of elements.
void main()
{
    const uint i = invocation();

    if (i < word(WORD_OWN))
        finish(i, T(0));
}
