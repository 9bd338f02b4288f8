/* base/pace.h - how fast one core of this machine is beside the one that models of time are of. */
#ifndef BASE_PACE_H
#define BASE_PACE_H

/* Times of the reference core (INLAY_PROVIDER_REFERENCE_CORE) times this are times of a core of this machine, as fast
 * as it multiplies and adds floats at the level of instructions in use. Measured once a process, in a fraction of a
 * millisecond, when it is first asked for. Any thread. */
double pace_of_cpu(void);
#endif
