#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_ballot : require
#include "common.glsl"
#include "program.glsl"

// C[m, n] = sum over k of A[m, k] * B[k, n], in batches; a convolution is the same with B addressed by windows. TM rows
// and TN columns stay in the registers of an invocation; columns of neighbours lie side by side, A is read by all.
#ifndef TM
#define TM 8
#endif
#ifndef TN
#define TN 4
#endif
layout(constant_id = ID_OWN) const uint WINDOWS = 0u; // 1: B is an image
layout(constant_id = ID_OWN + 1) const uint BY_FOUR = 0u; // 1: rows of A are dense, aligned, and a multiple of 4 long
layout(constant_id = ID_OWN + 2) const uint BROADCAST = 0u;
#define M (WORD_OWN + 0u)
#define N (WORD_OWN + 1u)
#define K (WORD_OWN + 2u) // of one tap
#define A_ROW (WORD_OWN + 3u)
#define A_STEP (WORD_OWN + 4u) // from k to k + 1
#define B_ROW (WORD_OWN + 5u)  // from k to k + 1
#define B_STEP (WORD_OWN + 6u) // from n to n + 1
#define TAPS (WORD_OWN + 7u)
#define ALPHA (WORD_OWN + 8u)
#define BATCH (WORD_OWN + 9u) // 3 sizes, 3 strides of A, 3 of B
#define OUT_SIZE (WORD_OWN + 18u) // windows: depth, height, width of the result
#define IN_SIZE (WORD_OWN + 21u)
#define WINDOW (WORD_OWN + 24u)
#define STRIDE (WORD_OWN + 27u)
#define DILATION (WORD_OWN + 30u)
#define PAD_BEGIN (WORD_OWN + 33u)
#define BATCHES (WORD_OWN + 36u)

float acc[TM][TN], made[TM * TN];
uint column[TN]; // of B
bool inside[TN]; // is there anything?

// A row of A is the same for all invocations of a subgroup: where that has TM at least, each loads one and hands it on.
uint own_row() { return BROADCAST != 0u ? gl_SubgroupInvocationID % TM : 0u; }

void multiply_one(uint a, uint b, uint a_row)
{
    float x[TN], own = load_a(at[PUSH_OWN], a + own_row() * a_row);

    [[unroll]] for (uint t = 0u; t < TN; t++) {
        const float there = load_b(at[PUSH_OWN + 1], b + column[t]);

        x[t] = inside[t] ? there : 0.0;
    }
    [[unroll]] for (uint r = 0u; r < TM; r++) {
        float w = own;

        if (TM > 1)
            w = BROADCAST != 0u ? subgroupBroadcast(own, r) : load_a(at[PUSH_OWN], a + r * a_row);
        [[unroll]] for (uint t = 0u; t < TN; t++)
            acc[r][t] = fma(w, x[t], acc[r][t]);
    }
}

void multiply_four(uint a, uint b, uint a_row, uint b_row)
{
    const vec4 own = F32x4(at[PUSH_OWN]).v[(a + own_row() * a_row) / 4u];
    float x[4][TN];

    [[unroll]] for (uint s = 0u; s < 4u; s++)
        [[unroll]] for (uint t = 0u; t < TN; t++) {
            const float there = load_b(at[PUSH_OWN + 1], b + s * b_row + column[t]);

            x[s][t] = inside[t] ? there : 0.0;
        }
    [[unroll]] for (uint r = 0u; r < TM; r++) {
        vec4 w = own;

        if (TM > 1)
            w = BROADCAST != 0u ? subgroupBroadcast(own, r) : F32x4(at[PUSH_OWN]).v[(a + r * a_row) / 4u];
        [[unroll]] for (uint s = 0u; s < 4u; s++)
            [[unroll]] for (uint t = 0u; t < TN; t++)
                acc[r][t] = fma(w[s], x[s][t], acc[r][t]);
    }
}

// Where the pixel of column n lies under a tap of the window; below 0: outside.
int pixel_under(uint n, uint tap)
{
    int index = 0;
    bool outside = false;

    [[unroll]] for (uint d = 3u; d-- > 0u;) {
        const int o = int(d == 0u ? n : n % word(OUT_SIZE + d)), k = int(d == 0u ? tap : tap % word(WINDOW + d));
        const int c = o * iword(STRIDE + d) + k * iword(DILATION + d) - iword(PAD_BEGIN + d);

        n /= word(OUT_SIZE + d);
        tap /= word(WINDOW + d);
        outside = outside || c < 0 || c >= iword(IN_SIZE + d);
        index += c * (d == 2u ? 1 : d == 1u ? iword(IN_SIZE + 2u) : iword(IN_SIZE + 1u) * iword(IN_SIZE + 2u));
    }
    return outside ? -1 : index;
}

void main()
{
    const uint columns = word(N), rows = word(M), depth = word(K), a_row = word(A_ROW), b_row = word(B_ROW);
    const uint strips = (rows + TM - 1u) / TM;
    const uint first = (gl_WorkGroupID.x * TN) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    const uint strip = gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y, z = strip / strips;
    // The last strip of rows overlaps the one before, so that all that is read is there.
    const uint m = min(strip % strips * TM, rows >= TM ? rows - TM : 0u);
    const uint z2 = z % word(BATCH + 2u), z1 = z / word(BATCH + 2u) % word(BATCH + 1u),
               z0 = z / word(BATCH + 2u) / word(BATCH + 1u);
    uint a = z0 * word(BATCH + 3u) + z1 * word(BATCH + 4u) + z2 * word(BATCH + 5u) + m * a_row;
    const uint b = z0 * word(BATCH + 6u) + z1 * word(BATCH + 7u) + z2 * word(BATCH + 8u);

    if (z >= word(BATCHES))
        return; // of all alike
    [[unroll]] for (uint r = 0u; r < TM; r++)
        [[unroll]] for (uint t = 0u; t < TN; t++)
            acc[r][t] = 0.0;
    for (uint tap = 0u; tap < word(TAPS); tap++) {
        [[unroll]] for (uint t = 0u; t < TN; t++) {
            const uint n = first + t * gl_WorkGroupSize.x;

            const uint safe = min(n, columns - 1u);
            const int pixel = WINDOWS != 0u ? pixel_under(safe, tap) : int(safe * word(B_STEP));

            inside[t] = pixel >= 0;
            column[t] = uint(max(pixel, 0));
        }
        if (BY_FOUR != 0u)
            for (uint k = 0u; k < depth; k += 4u)
                multiply_four(a + k, b + k * b_row, a_row, b_row);
        else
            for (uint k = 0u; k < depth; k++)
                multiply_one(a + k * word(A_STEP), b + k * b_row, a_row);
        a += depth * word(A_STEP);
    }
    [[unroll]] for (uint r = 0u; r < TM; r++)
        [[unroll]] for (uint t = 0u; t < TN; t++)
            made[r * TN + t] = acc[r][t] * fword(ALPHA);
    // A loop, for what is fused behind the product may be long, and drivers would copy it for each element.
    [[dont_unroll]] for (uint i = 0u; i < TM * TN; i++) {
        const uint n = first + i % TN * gl_WorkGroupSize.x;

        if (n < columns)
            finish((z * rows + m + i / TN) * columns + n, made[i]);
    }
}
