/* twister.h - random numbers for the random operators: Mersenne Twister (MT19937, Matsumoto and Nishimura 1998).
 *
 * Seeded with an integer it produces the sequence of numpy.random.RandomState, which generated ONNX's examples. Every
 * run of a node restarts from the seed of the node, so runs with a seed give equal results and share no state. */
#ifndef TWISTER_H
#define TWISTER_H
#include "inlay/kit.h"
#include "inlay/check.h"
#include <math.h>

enum { TWISTER_WORDS = 624, TWISTER_SHIFT = 397 };

struct twister {
    uint32_t word[TWISTER_WORDS];
    uint32_t next;   /* index of the next word; TWISTER_WORDS: generate new ones */
    bool has_normal; /* normal numbers are generated in pairs; the second one is stored */
    double normal;
};

static inline void twister_seed(struct twister *twister, uint32_t seed)
{
    twister->word[0] = seed;
    for (uint32_t i = 1; i < TWISTER_WORDS; i++)
        twister->word[i] = 1812433253u * (twister->word[i - 1] ^ twister->word[i - 1] >> 30) + i;
    twister->next = TWISTER_WORDS;
    twister->has_normal = false;
}

static inline void twister_refill(struct twister *twister)
{
    for (uint32_t i = 0; i < TWISTER_WORDS; i++) {
        uint32_t after = twister->word[i + 1 < TWISTER_WORDS ? i + 1 : 0];
        uint32_t far =
            twister->word[i + TWISTER_SHIFT < TWISTER_WORDS ? i + TWISTER_SHIFT : i + TWISTER_SHIFT - TWISTER_WORDS];
        uint32_t mixed = (twister->word[i] & 0x80000000u) | (after & 0x7fffffffu);

        twister->word[i] = far ^ mixed >> 1 ^ ((mixed & 1u) != 0 ? 0x9908b0dfu : 0u);
    }
    twister->next = 0;
}

static inline uint32_t twister_u32(struct twister *twister)
{
    uint32_t word;

    if (twister->next >= TWISTER_WORDS)
        twister_refill(twister);
    word = twister->word[twister->next++];
    word ^= word >> 11;
    word ^= word << 7 & 0x9d2c5680u;
    word ^= word << 15 & 0xefc60000u;
    return word ^ word >> 18;
}

/* Returns a uniformly distributed number in [0, 1) with 53 random bits. */
static inline double twister_uniform(struct twister *twister)
{
    uint32_t high = twister_u32(twister) >> 5, low = twister_u32(twister) >> 6;
    return ((double)high * 67108864.0 + (double)low) / 9007199254740992.0;
}

/* Returns a number of the standard normal distribution, by Marsaglia's polar method. */
static inline double twister_normal(struct twister *twister)
{
    double first, second, square;

    if (twister->has_normal) {
        twister->has_normal = false;
        return twister->normal;
    }
    do {
        first = 2.0 * twister_uniform(twister) - 1.0;
        second = 2.0 * twister_uniform(twister) - 1.0;
        square = first * first + second * second;
    } while (square >= 1.0 || square == 0.0);
    square = sqrt(-2.0 * log(square) / square);
    twister->normal = square * first;
    twister->has_normal = true;
    return square * second;
}

/* The seed of a node's generator: its attribute, or a different one for every call. */
typedef struct twister_source {
    bool fixed;
    uint32_t seed;
    uint32_t calls; /* atomic number of calls, used if the seed is not fixed */
} twister_source;

/* Reads the attribute `seed` of any numeric kind. */
void twister_source_init(twister_source *source, const kit_node *node);
void twister_start(struct twister *twister, twister_source *source);
#endif
