#version 460
#extension GL_GOOGLE_include_directive : require
#include "program.glsl"

// Rows of softmax(program(alpha * Q * K^T)) * V: a workgroup computes ROWS of them and keeps their scores in shared
// memory: of all keys, or of BLOCK keys at a time. With blocks, sums and weighted values refer to the largest score so
// far, and are multiplied again when a block has a larger one.
layout(constant_id = ID_OWN) const uint ROWS = 4u;
layout(constant_id = ID_OWN + 1) const uint SHARED = 4u; // ROWS * BLOCK, or ROWS * KEYS
layout(constant_id = ID_OWN + 2) const uint BLANK = 0u;  // EMPTY_ROW_*; masked rows are 0: NaN, 1: zeros, 2: values * 0
layout(constant_id = ID_OWN + 3) const uint EIGHTS = 1u; // 1: DEPTH >= 8
layout(constant_id = ID_OWN + 4) const uint REST = 1u;   // 1: DEPTH is not a multiple of 8
layout(constant_id = ID_OWN + 5) const uint BLOCK = 0u;  // 0: one block; not with BLANK 2
layout(constant_id = ID_OWN + 6) const uint HELD = 1u;   // ROWS * WIDTH with blocks
layout(constant_id = ID_OWN + 7) const uint DEPTHS = 8u; // DEPTH, for the size of shared memory
layout(constant_id = ID_OWN + 8) const uint K_WIDE = 0u; // bytes of an element of K, if four neighbours are one load
layout(constant_id = ID_OWN + 9) const uint SINK = 0u;   // 1: each row has one more score, without a key; not BLANK 2
#define QUERIES (WORD_OWN + 0u)
#define KEYS (WORD_OWN + 1u)
#define DEPTH (WORD_OWN + 2u)
#define WIDTH (WORD_OWN + 3u)
#define Q_ROW (WORD_OWN + 4u)
#define Q_STEP (WORD_OWN + 5u)
#define K_STEP (WORD_OWN + 6u)
#define K_COLUMN (WORD_OWN + 7u)
#define V_ROW (WORD_OWN + 8u)
#define V_COLUMN (WORD_OWN + 9u)
#define OUT_ROW (WORD_OWN + 10u)
#define OUT_COLUMN (WORD_OWN + 11u)
#define ALPHA (WORD_OWN + 12u)
#define ITEMS (WORD_OWN + 13u)
#define BATCH (WORD_OWN + 14u) // 3 sizes; 3 strides of Q, K, V, the result and the sinks

shared float share[SHARED], part[4 * 64];
shared vec4 query[DEPTHS]; // element d of all rows
shared float held[HELD]; // weighted values of the blocks before; one lane reads and writes an element
float most[4], sum[4];
#define SCORES (BLOCK != 0u ? BLOCK : word(KEYS)) // of `share`

// Combines the sums, or the maxima, of all lanes.
void combine_lanes(bool sums)
{
    const uint lanes = gl_WorkGroupSize.x, me = gl_LocalInvocationID.x;

    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        part[r * lanes + me] = sums ? sum[r] : most[r];
    for (uint half_n = lanes / 2u; half_n > 0u; half_n /= 2u) {
        barrier();
        if (me < half_n)
            [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                const uint i = r * lanes + me;

                part[i] = sums ? part[i] + part[i + half_n] : f_max(part[i], part[i + half_n]);
            }
    }
    barrier();
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        if (sums)
            sum[r] = part[r * lanes];
        else
            most[r] = part[r * lanes];
    barrier();
}

float score[4], acc[4];

// add_score_terms() adds `steps` terms of the scores of one key; add_weighted_values() adds `steps` weighted values.
void add_score_terms(uint k, uint d, const uint steps)
{
    float x[8];

    if (K_WIDE != 0u && steps == 8u)
        [[unroll]] for (uint s = 0u; s < 2u; s++) {
            const vec4 four = load_four(at[PUSH_OWN + 1], k + d + 4u * s, K_WIDE);

            x[4u * s] = four.x, x[4u * s + 1u] = four.y, x[4u * s + 2u] = four.z, x[4u * s + 3u] = four.w;
        }
    else
        [[unroll]] for (uint s = 0u; s < steps; s++)
            x[s] = load_b(at[PUSH_OWN + 1], k + (d + s) * word(K_STEP));
    [[unroll]] for (uint s = 0u; s < steps; s++)
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            score[r] = fma(query[d + s][r], x[s], score[r]);
}

void add_weighted_values(uint v, uint j, const uint steps)
{
    [[unroll]] for (uint s = 0u; s < steps; s++) {
        const float x = load_c(at[PUSH_OWN + 2], v + (j + s) * word(V_ROW));

        // ONNX: a hidden value takes no part, even if it is NaN or infinity.
        const bool special = BLANK == 1u && (is_nan(x) || is_inf(x));

        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            if (!special || share[r * SCORES + j + s] != 0.0)
                acc[r] = fma(share[r * SCORES + j + s], x, acc[r]);
    }
}

// Loops test their condition at the end, see product.comp.
#define IN_EIGHTS(count, eights, rest, call)          \
    {                                                 \
        uint at_ = 0u;                                \
                                                      \
        if (eights)                                   \
            do {                                      \
                call(at_, 8u);                        \
                at_ += 8u;                            \
            } while (at_ + 8u <= count);              \
        if (rest)                                     \
            do {                                      \
                call(at_, 1u);                        \
                at_++;                                \
            } while (at_ < count);                    \
    }
#define ADD_SCORE_TERMS(d, steps) add_score_terms(k + (begin + j) * word(K_COLUMN), d, steps)
#define ADD_WEIGHTED_VALUES(j, steps) \
    add_weighted_values(v + begin * word(V_ROW) + c * word(V_COLUMN), j, steps)

void main()
{
    const uint item = min(workgroup(), word(ITEMS) - 1u);
    const uint lane = gl_LocalInvocationID.x;
    const uint strips = (word(QUERIES) + ROWS - 1u) / ROWS, z = item / strips;
    const uint first = min(item % strips * ROWS, word(QUERIES) - ROWS);
    BATCHES(BATCH)
    const uint q = BATCH_AT(3u) + first * word(Q_ROW), k = BATCH_AT(6u), v = BATCH_AT(9u);
    const uint out_at = BATCH_AT(12u) + first * word(OUT_ROW);

    float total[4];
    uint begin = 0u;

    // The sink is like a block before the first one, with the weight 1 and no values.
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        if (SINK != 0u)
            most[r] = load_a(at[PUSH_OWN + 3], BATCH_AT(15u)), total[r] = 1.0;
        else
            most[r] = -inf(), total[r] = 0.0;
    for (uint d = lane; d < word(DEPTH); d += gl_WorkGroupSize.x)
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            query[d][r] = load_a(at[PUSH_OWN], q + r * word(Q_ROW) + d * word(Q_STEP));
    barrier();
    do {
        const uint count = BLOCK != 0u ? min(BLOCK, word(KEYS) - begin) : word(KEYS);
        float before[4], base[4], factor[4];

        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            before[r] = most[r];
        for (uint j = lane; j < count; j += gl_WorkGroupSize.x) {
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                score[r] = 0.0;
            IN_EIGHTS(word(DEPTH), EIGHTS != 0u, REST != 0u, ADD_SCORE_TERMS)
            [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                const float x =
                    program((z * word(QUERIES) + first + r) * word(KEYS) + begin + j, score[r] * fword(ALPHA));

                share[r * SCORES + j] = x;
                most[r] = f_max(most[r], x);
            }
        }
        combine_lanes(false);
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            base[r] = (BLANK != 0u || BLOCK != 0u) && is_inf(most[r]) && most[r] < 0.0 ? 0.0 : most[r];
            factor[r] = is_inf(before[r]) && before[r] < 0.0 ? 0.0 : f_exp(before[r] - base[r]);
            sum[r] = 0.0;
        }
        for (uint j = lane; j < count; j += gl_WorkGroupSize.x)
            [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                const float e = f_exp(share[r * SCORES + j] - base[r]);

                share[r * SCORES + j] = e;
                sum[r] += e;
            }
        combine_lanes(true);
        if (BLANK == 2u) {
            for (uint j = lane; j < count; j += gl_WorkGroupSize.x)
                [[unroll]] for (uint r = 0u; r < ROWS; r++)
                    share[r * SCORES + j] = is_nan(sum[r]) ? 0.0 : share[r * SCORES + j];
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                sum[r] = is_nan(sum[r]) || sum[r] == 0.0 ? 1.0 : sum[r];
            barrier();
        }
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            total[r] = BLOCK != 0u || SINK != 0u ? total[r] * factor[r] + sum[r] : sum[r];
        for (uint c = lane; c < word(WIDTH); c += gl_WorkGroupSize.x) {
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                acc[r] = BLOCK != 0u && begin > 0u ? held[r * word(WIDTH) + c] * factor[r] : 0.0;
            IN_EIGHTS(count, count >= 8u, count % 8u != 0u, ADD_WEIGHTED_VALUES)
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                if (BLOCK != 0u && begin + BLOCK < word(KEYS))
                    held[r * word(WIDTH) + c] = acc[r];
                else
                    store_out(at[PUSH_OUT], out_at + r * word(OUT_ROW) + c * word(OUT_COLUMN),
                              BLANK == 1u && total[r] == 0.0 ? 0.0 : acc[r] / total[r]);
        }
        if (BLOCK != 0u)
            barrier(); // the next block overwrites the scores
        begin += BLOCK;
    } while (BLOCK != 0u && begin < word(KEYS));
}
