/* mutants.h - models bent in every direction a file can take, the same for the same seed. */
#ifndef MUTANTS_H
#define MUTANTS_H
#include <stddef.h>
#include <stdint.h>

/* Random numbers (splitmix64), repeatable. */
struct chance {
    uint64_t state;
};
uint64_t chance_next(struct chance *chance);
/* A number below limit, 0 if limit is 0. */
uint64_t chance_below(struct chance *chance, uint64_t limit);
/* A number of the kind that breaks arithmetic: 0, -1, the ends of types, powers of two, small ones. */
int64_t chance_extreme(struct chance *chance);

struct herd; /* models to mutate */
/* Models at paths[count]; those that can't be read are left out. Never NULL. */
struct herd *herd_create(const char *const *paths, size_t count);
void herd_destroy(struct herd *herd);
size_t herd_count(const struct herd *herd);
/* Mutant chance of one of the models, in a new block that the caller frees; out_name is the path of its model. */
uint8_t *herd_mutant(const struct herd *herd, struct chance *chance, size_t *out_bytes, const char **out_name);

/* Ends the process with a line when `seconds` of its CPU time have passed since the last call, or MUTANT_WAIT_TIMES as
 * many of the clock: a machine that is busy or stopped makes nothing hang. 0: no limit any more. For one thread. */
enum { MUTANT_WAIT_TIMES = 30 };
void mutants_limit(unsigned seconds);
#endif
