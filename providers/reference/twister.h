/* twister.h - random numbers for the random operators: Mersenne Twister (MT19937, Matsumoto and Nishimura 1998).
 *
 * Seeded with an integer it produces the sequence of numpy.random.RandomState, which generated ONNX's examples. Every
 * run of a node restarts from the seed of the node, so runs with a seed give equal results and share no state. */
#ifndef TWISTER_H
#define TWISTER_H
#include "inlay/kit_node.h"

enum { TWISTER_WORDS = 624 };

struct twister {
    uint32_t word[TWISTER_WORDS];  /* the state */
    uint32_t drawn[TWISTER_WORDS]; /* the numbers of this state */
    uint32_t next;                 /* index of the next number; TWISTER_WORDS: generate new ones */
    bool has_normal;               /* normal numbers are generated in pairs; the second one is stored */
    double normal;
};

void twister_seed(struct twister *twister, uint32_t seed);

/* Writes the next `count` numbers: uniformly distributed in [0, 1), with 53 random bits, or of the standard normal
 * distribution. The numbers do not depend on the division of a sequence into calls. near: numbers may differ in their
 * last bits, which takes half the time. */
void twister_uniforms(struct twister *twister, double *out, int64_t count);
void twister_normals(struct twister *twister, double *out, int64_t count, bool near);

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
