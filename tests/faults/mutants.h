/* mutants.h - random mutations of models, reproducible by seed. */
#ifndef MUTANTS_H
#define MUTANTS_H
#include "inlay/status.h"
#include "random.h"
#include <stddef.h>
#include <stdint.h>

/* Returns a number for which arithmetic often fails: 0, -1, limits of integer types, powers of two, small ones. */
int64_t random_extreme(uint64_t *seed);

struct model_set; /* models to mutate */
/* Reads the models at paths[count]; skips unreadable ones. Never NULL. */
struct model_set *model_set_create(const char *const *paths, size_t count);
void model_set_destroy(struct model_set *model_set);
size_t model_set_count(const struct model_set *model_set);
/* Returns a mutation of a random model of the set, in a new block that the caller frees. *out_name: the path of that
 * model. */
uint8_t *model_set_mutate(const struct model_set *model_set, uint64_t *seed, size_t *out_bytes, const char **out_name);

/* Aborts the process with a message once `seconds` of CPU time, or MUTANT_WAIT_TIMES as many seconds of wall-clock
 * time, have passed since the last call. The wall-clock limit is larger because the machine may be busy or suspended.
 * 0: no limit. One thread. */
enum { MUTANT_WAIT_TIMES = 30 };
void mutants_limit(unsigned seconds);

/* Aborts the process unless status is INLAY_OK or diag has a message of one line. what: the call, for the message. */
void mutants_check_message(inlay_status status, const inlay_diag *diag, const char *what);
#endif
