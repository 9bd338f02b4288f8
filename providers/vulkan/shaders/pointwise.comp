#version 460
#extension GL_GOOGLE_include_directive : require
#include "program.glsl"

// Elementwise operators: runs the program for each element. Word WORD_OWN is the number of elements.
void main()
{
    const uint i = invocation();

    if (i < word(WORD_OWN))
        finish(i, T(0));
}
