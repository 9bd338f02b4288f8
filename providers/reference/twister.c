/* Mersenne Twister, see twister.h. All loops but those of the seed and of the exact logarithm are vectorised. */
#define _GNU_SOURCE /* clock_gettime */
#include "reference/twister.h"
#include "inlay/check.h"
#include "inlay/graph_view.h"
#include "simd/clock.h"
#include "simd/convert.h"
#include "simd/vecmath.h"
#include <math.h>

enum {
    SHIFT = 397,                  /* distance of the words that are combined */
    WRAP = TWISTER_WORDS - SHIFT, /* index of the first word that is combined with a new one */
    PAIRS = 256                   /* candidates for normal numbers that are drawn at once */
};

void twister_source_init(twister_source *source, const kit_node *node)
{
    const inlay_attr_info *seed = kit_attr(node->info, "seed");
    uint64_t now;

    source->fixed = seed != NULL;
    source->calls = 0;
    if (seed != NULL) {
        source->seed = (uint32_t)(uint64_t)(seed->kind == INLAY_ATTR_INT ? seed->i : f64_to_i64(seed->f));
        return;
    }
    now = clock_ns();
    source->seed = (uint32_t)now * 2654435761u ^ (uint32_t)(now >> 32) ^ (uint32_t)(uintptr_t)source;
}

void twister_start(struct twister *twister, twister_source *source)
{
    uint32_t seed = source->seed;

    if (!source->fixed)
        seed += 2654435761u * __atomic_fetch_add(&source->calls, 1, __ATOMIC_RELAXED);
    twister_seed(twister, seed);
}

void twister_seed(struct twister *twister, uint32_t seed)
{
    twister->word[0] = seed;
    for (uint32_t i = 1; i < TWISTER_WORDS; i++)
        twister->word[i] = 1812433253u * (twister->word[i - 1] ^ twister->word[i - 1] >> 30) + i;
    twister->next = TWISTER_WORDS;
    twister->has_normal = false;
}

/* The new value of a word, from this word, the next word, and the word at distance SHIFT. */
static inline uint32_t mix(uint32_t word, uint32_t after, uint32_t far)
{
    const uint32_t mixed = (word & 0x80000000u) | (after & 0x7fffffffu);

    return far ^ mixed >> 1 ^ ((0u - (mixed & 1u)) & 0x9908b0dfu);
}

/* Computes the next state and its numbers. The second loop reads words that lie WRAP before those that it writes. */
static void refill(struct twister *twister)
{
    uint32_t *word = twister->word;

    for (uint32_t i = 0; i < WRAP; i++)
        word[i] = mix(word[i], word[i + 1], word[i + SHIFT]);
    for (uint32_t i = WRAP; i < TWISTER_WORDS - 1; i++)
        word[i] = mix(word[i], word[i + 1], word[i - WRAP]);
    word[TWISTER_WORDS - 1] = mix(word[TWISTER_WORDS - 1], word[0], word[SHIFT - 1]);
    for (uint32_t i = 0; i < TWISTER_WORDS; i++) {
        uint32_t drawn = word[i];

        drawn ^= drawn >> 11;
        drawn ^= drawn << 7 & 0x9d2c5680u;
        drawn ^= drawn << 15 & 0xefc60000u;
        twister->drawn[i] = drawn ^ drawn >> 18;
    }
    twister->next = 0;
}

void twister_uniforms(struct twister *twister, double *out, int64_t count)
{
    while (count > 0) {
        const uint32_t *drawn;
        int64_t some;

        if (twister->next >= TWISTER_WORDS)
            refill(twister);
        drawn = twister->drawn + twister->next;
        some = (TWISTER_WORDS - twister->next) / 2; /* a number takes two words, and their count is even */
        some = some < count ? some : count;
        INLAY_CHECK(some > 0);
        for (int64_t i = 0; i < some; i++) { /* int32_t: SSE2 has no conversion of uint32_t */
            const int32_t high = (int32_t)(drawn[2 * i] >> 5), low = (int32_t)(drawn[2 * i + 1] >> 6);

            out[i] = ((double)high * 67108864.0 + (double)low) * 0x1p-53;
        }
        twister->next += 2 * (uint32_t)some;
        out += some;
        count -= some;
    }
}

/* Writes the next 2 `pairs` normal numbers, at most 2 PAIRS, by Marsaglia's polar method. As many candidates are drawn
 * as pairs are missing, until none is, so that no candidate is drawn that the sequence does not need. */
static void normal_pairs(struct twister *twister, double *out, int64_t pairs, bool near)
{
    double uniform[2 * PAIRS], first[PAIRS], second[PAIRS], square[PAIRS];
    int64_t kept = 0;

    INLAY_CHECK(pairs <= PAIRS);
    while (kept < pairs) {
        const int64_t drawn = pairs - kept;

        twister_uniforms(twister, uniform, 2 * drawn);
        for (int64_t i = 0; i < drawn; i++) { /* a rejected candidate is overwritten by the next */
            const double x = 2.0 * uniform[2 * i] - 1.0, y = 2.0 * uniform[2 * i + 1] - 1.0;

            first[kept] = x;
            second[kept] = y;
            square[kept] = x * x + y * y;
            kept += (square[kept] < 1.0) & (square[kept] != 0.0);
        }
    }
    for (int64_t i = 0; i < pairs && near; i++)
        uniform[i] = vd_log(square[i]);
    for (int64_t i = 0; i < pairs && !near; i++)
        uniform[i] = log(square[i]);
    for (int64_t i = 0; i < pairs; i++) {
        const double factor = sqrt(-2.0 * uniform[i] / square[i]);

        out[2 * i] = factor * second[i];
        out[2 * i + 1] = factor * first[i];
    }
}

void twister_normals(struct twister *twister, double *out, int64_t count, bool near)
{
    if (count > 0 && twister->has_normal) {
        twister->has_normal = false;
        *out++ = twister->normal;
        count--;
    }
    for (; count > 1;) {
        const int64_t pairs = count / 2 < PAIRS ? count / 2 : PAIRS;

        normal_pairs(twister, out, pairs, near);
        out += 2 * pairs;
        count -= 2 * pairs;
    }
    if (count == 1) {
        double pair[2];

        normal_pairs(twister, pair, 1, near);
        *out = pair[0];
        twister->normal = pair[1];
        twister->has_normal = true;
    }
}
