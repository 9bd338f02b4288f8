// Parameters of a matrix multiplication or convolution, of product.comp, tiles.comp and matrices.comp. HOW, the set of
// PRODUCT_ flags, is a constant of the shader.
#define HAS(flag) ((HOW & (flag)) != 0u)
#define LINE (WORD_OWN + 0u) // consecutive rows: those of a line of an image, or all
#define LINES (WORD_OWN + 1u)
#define N (WORD_OWN + 2u)
#define K (WORD_OWN + 3u) // per tap
#define TAPS (WORD_OWN + 4u)
#define A_ROW (WORD_OWN + 5u)
#define A_STEP (WORD_OWN + 6u) // from k to k + 1
#define B_STEP (WORD_OWN + 7u)
#define B_COLUMN (WORD_OWN + 8u)
#define B_TAP (WORD_OWN + 9u)
#define B_PANEL (WORD_OWN + 10u)
#define OUT_ROW (WORD_OWN + 11u)
#define OUT_COLUMN (WORD_OWN + 12u)
#define ALPHA (WORD_OWN + 13u)
#define PANELS (WORD_OWN + 14u)
#define ITEMS (WORD_OWN + 15u) // workgroups
#define BATCH (WORD_OWN + 16u) // 3 sizes; 3 strides of A, B, and the result
#define INPUTS (WORD_OWN + 46u) // inputs of the program of one sibling
#define GROUP (WORD_OWN + 47u)
#define B_ZERO_STEP (WORD_OWN + 48u) // integers: 1: a zero point for each column
#define WINDOW_WORDS (WORD_OWN + 28u)
#include "window.glsl"

// Element i of panels of weights of BITS bits (blocks.c). A panel has blocks of BLOCK rows of k; each is 32-bit words:
// the scales of PANEL columns, their zero points if there are any, and lines of one word per column, with the weights of
// neighbouring k. The index counts from the start of the panels: B_BYTES is 0, so that address b_base does not move.
layout(constant_id = ID_BLOCK) const uint BLOCK = 32u;
layout(constant_id = ID_BLOCK + 1) const uint PANEL = 32u;
layout(constant_id = ID_BLOCK + 2) const uint BITS = 4u;
layout(constant_id = ID_BLOCK + 3) const uint ZEROS = 0u; // 1: there are zero points
float load_blocks(uvec2 base, uint i)
{
    const uint per_word = 32u / BITS, column = i % PANEL, k = i / PANEL % BLOCK;
    const uint first = i / (PANEL * BLOCK) * (1u + ZEROS + BLOCK / per_word) * PANEL + column;
    const uint weights = U32(base).v[first + (1u + ZEROS + k / per_word) * PANEL];
    const uint code = (weights >> k % per_word * BITS) & ((1u << BITS) - 1u);
    const float zero = ZEROS != 0u ? F32(base).v[first + PANEL] : float(1u << (BITS - 1u));

    return (float(code) - zero) * F32(base).v[first];
}
