/* base/core_speed.h - the speed of one core of this machine (inlay.speed/1), and compared with the reference core of
 * cost models. */
#ifndef BASE_CORE_SPEED_H
#define BASE_CORE_SPEED_H
#include "inlay/extensions.h"
#include <stddef.h>

enum { CORE_ALIGN = 64 };

/* The speed of a core. Measured at the first call in the process, in less than a millisecond, unless core_speed_use()
 * has set it. It does not change afterwards. Any thread. */
const inlay_speed *core_speed(void);
/* Sets the speed, as a machine profile has it, unless it is already known. NULL: measures it. Any thread. */
void core_speed_use(const inlay_speed *known);
/* Measures the speed of arithmetic and of the caches next to the core. The other members of *out are 0. Any thread. */
void core_speed_measure(inlay_speed *out);
/* Bytes per nanosecond that one thread reads from memory, by the shortest of `slices` measurements of `passes` passes.
 * memory is aligned to CORE_ALIGN; bytes: a multiple of 8 * CORE_ALIGN. */
double core_read_rate(const void *memory, size_t bytes, uint32_t passes, uint32_t slices);

/* The factor from times of the reference core (INLAY_PROVIDER_REFERENCE_CORE) to times of a core of this machine, from
 * the throughput of float multiply-adds with the instruction level in use. Any thread. */
double core_time_factor(void);
#endif
