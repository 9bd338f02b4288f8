#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// Gather and Scatter. PUSH_INPUT is the data or the updates, PUSH_INPUT + 1 the indexes. Indexes from the end are
// negative; what lies outside is taken for the nearest that does not, for a device can't stop a run.
layout(constant_id = ID_RANK) const uint RANK = 1u;
#include "element.glsl"
layout(constant_id = ID_OWN + 1) const uint MODE = INDEX_GATHER;
layout(constant_id = ID_OWN + 2) const uint INDEX_BYTES = 8u;
#define COUNT 0u
#define INNER 1u  // elements that belong to one index
#define LENGTH 2u // GATHER: indexes; ND: coordinates of a tuple
#define AXIS_SIZE 3u
#define AXIS 4u
#define TUPLES 5u       // ND: of one batch
#define BATCH_STRIDE 6u // ND
#define DIM 8u          // ELEMENTS: sizes of the indexes; ND: sizes of the data behind the batches
#define STRIDE 16u      // of the data

uint index_at(uint k, uint size)
{
    const int64_t x = INDEX_BYTES == 8u ? I64(at[PUSH_INPUT + 1]).v[k] : int64_t(I32(at[PUSH_INPUT + 1]).v[k]);

    return uint(clamp(x < 0l ? x + int64_t(size) : x, 0l, int64_t(size) - 1l));
}

void main()
{
    const uint i = invocation();
    const uint inner = word(INNER);
    uint far = 0u; // the element that the indexes choose

    if (i >= word(COUNT))
        return;
    if (MODE == INDEX_GATHER) {
        const uint k = i / inner % word(LENGTH), outer = i / inner / word(LENGTH);

        copy_element(i, at[PUSH_INPUT], (outer * word(AXIS_SIZE) + index_at(k, word(AXIS_SIZE))) * inner + i % inner);
        return;
    }
    if (MODE == INDEX_GATHER_ELEMENTS || MODE == INDEX_SCATTER_ELEMENTS) {
        uint rest = i;

        [[unroll]] for (uint d = MOST_RANK; d-- > 0u;)
            if (d < RANK) {
                const uint size = WORD_8(DIM, d);
                const uint c = d == word(AXIS) ? index_at(i, word(AXIS_SIZE)) : rest % size;

                rest /= size;
                far += c * WORD_8(STRIDE, d);
            }
    } else {
        const uint tuple = i / inner;

        far = tuple / word(TUPLES) * word(BATCH_STRIDE) + i % inner;
        for (uint l = 0u; l < word(LENGTH); l++)
            far += index_at(tuple * word(LENGTH) + l, word(DIM + l)) * word(STRIDE + l);
    }
    if (MODE == INDEX_SCATTER_ELEMENTS || MODE == INDEX_SCATTER_ND)
        copy_element(far, at[PUSH_INPUT], i);
    else
        copy_element(i, at[PUSH_INPUT], far);
}
