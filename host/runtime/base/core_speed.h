/* base/core_speed.h - the speed of one core of this machine, compared with the reference core of cost models. */
#ifndef BASE_CORE_SPEED_H
#define BASE_CORE_SPEED_H

/* The factor from times of the reference core (INLAY_PROVIDER_REFERENCE_CORE) to times of a core of this machine, from
 * the throughput of float multiply-adds with the instruction level in use. Measured once per process, at the first
 * call, in a fraction of a millisecond. Any thread. */
double core_time_factor(void);
#endif
