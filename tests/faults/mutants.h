/* mutants.h - random mutations of models, reproducible by seed. */
#ifndef MUTANTS_H
#define MUTANTS_H
#include <stddef.h>
#include <stdint.h>

/* Pseudo-random numbers (splitmix64). */
struct rng {
    uint64_t state;
};
uint64_t rng_next(struct rng *rng);
/* A number below limit, 0 if limit is 0. */
uint64_t rng_below(struct rng *rng, uint64_t limit);
/* Returns a number for which arithmetic often fails: 0, -1, limits of integer types, powers of two, small ones. */
int64_t rng_extreme(struct rng *rng);

struct model_set; /* models to mutate */
/* Reads the models at paths[count]; skips unreadable ones. Never NULL. */
struct model_set *model_set_create(const char *const *paths, size_t count);
void model_set_destroy(struct model_set *model_set);
size_t model_set_count(const struct model_set *model_set);
/* Returns a mutation of a random model of the set, in a new block that the caller frees. *out_name: the path of that
 * model. */
uint8_t *model_set_mutate(const struct model_set *model_set, struct rng *rng, size_t *out_bytes, const char **out_name);

/* Aborts the process with a message once `seconds` of CPU time, or MUTANT_WAIT_TIMES as many seconds of wall-clock
 * time, have passed since the last call. The wall-clock limit is larger because the machine may be busy or suspended.
 * 0: no limit. One thread. */
enum { MUTANT_WAIT_TIMES = 30 };
void mutants_limit(unsigned seconds);
#endif
