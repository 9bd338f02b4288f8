#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "program.glsl"

// What is made of positions: ranges, masks, running sums.
layout(constant_id = ID_OWN) const uint KIND = MAKE_RANGE;
layout(constant_id = ID_OWN + 1) const uint FLAGS = 0u; // TRILU: 1 upper; CUM_SUM: 1 exclusive, 2 reverse
#define COUNT (WORD_OWN + 0u)
#define ROWS (WORD_OWN + 1u)
#define COLUMNS (WORD_OWN + 2u)
#define DIAGONAL (WORD_OWN + 3u)
#define INNER (WORD_OWN + 4u)

T one_hot(uint i)
{
    const uint inner = word(INNER), depth = word(COLUMNS), c = i / inner % depth;
    const int64_t x = int64_t(load_a(at[PUSH_OWN], i / inner / depth * inner + i % inner));

    return load_b(at[PUSH_OWN + 1], (x < 0l ? x + int64_t(depth) : x) == int64_t(c) ? 1u : 0u);
}

// All of one line along the axis.
void running_sum(uint line)
{
    const uint inner = word(INNER), n = word(COLUMNS), base = line / inner * n * inner + line % inner;
    T sum = T(0);

    for (uint k = 0u; k < n; k++) {
        const uint j = base + ((FLAGS & 2u) != 0u ? n - 1u - k : k) * inner;
        const T x = load_a(at[PUSH_OWN], j), before = sum;

        sum += x;
        finish(j, (FLAGS & 1u) != 0u ? before : sum);
    }
}

void main()
{
    const uint i = invocation();
    const uint columns = word(COLUMNS), row = i / columns % word(ROWS), column_ = i % columns;
    const int along = int(column_) - int(row) - iword(DIAGONAL);

    if (i >= word(COUNT))
        return;
    switch (KIND) {
    case MAKE_RANGE:
        finish(i, load_a(at[PUSH_OWN], 0u) + T(i) * load_b(at[PUSH_OWN + 1], 0u));
        break;
    case MAKE_EYE: finish(i, along == 0 ? T(1) : T(0)); break;
    case MAKE_CAUSAL:
#ifndef INTEGERS
        finish(i, along <= 0 ? 0.0 : -inf());
#endif
        break;
    case MAKE_TRILU:
        finish(i, ((FLAGS & 1u) != 0u ? along >= 0 : along <= 0) ? load_a(at[PUSH_OWN], i) : T(0));
        break;
    case MAKE_ONE_HOT: finish(i, one_hot(i)); break;
    default: running_sum(i); break;
    }
}
