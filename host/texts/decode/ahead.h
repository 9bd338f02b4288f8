/* texts/decode/ahead.h - how many guessed tokens a run of one text reads ahead, by measured times of runs and by how
 * many guesses were right so far. */
#ifndef TEXTS_AHEAD_H
#define TEXTS_AHEAD_H
#include <stdint.h>

enum { MOST_AHEAD = 16 };

/* Times of a model's runs of one text. */
typedef struct ahead_cost {
    double ns[MOST_AHEAD + 1]; /* of a run that reads i tokens ahead, smoothed */
    uint32_t runs[MOST_AHEAD + 1];
} ahead_cost;

/* The guesses for a text. */
typedef struct ahead_record {
    uint32_t read, right; /* guesses so far: that runs have read, and that were right; old ones count less */
    uint32_t passed;      /* how often no guess was read although there were some */
} ahead_record;

/* A run has taken this time. */
void ahead_add_run(ahead_cost *cost, uint32_t ahead, double ns);
/* Records that a run has read this number of guesses of the text, and that the first `right` of them were right. */
void ahead_add_guesses(ahead_record *record, uint32_t ahead, uint32_t right);
/* Returns how many of `found` guesses the next run should read to generate the most tokens per unit of time. guess_ns:
 * the time to make one guess. */
uint32_t ahead_best(const ahead_cost *cost, ahead_record *record, uint32_t found, double guess_ns);
#endif
