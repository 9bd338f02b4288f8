/* base/core_speed.h - the speed of one core of this machine (inlay.speed/1), and compared with the reference core of
 * cost models. */
#ifndef BASE_CORE_SPEED_H
#define BASE_CORE_SPEED_H
struct inlay_speed;

/* The speed of a core: that of its kind (base/core_kind.h), unless core_speed_use() has set it. It does not change
 * after the first call. Any thread. */
const struct inlay_speed *core_speed(void);
/* Sets the speed, as a machine profile has it, unless it is already known, or a kind of CPU is assumed. Members that
 * are 0 are those of the CPU's kind. NULL: all of them. Any thread. */
void core_speed_use(const struct inlay_speed *known);

/* The speed of the memory of this machine's kind of CPU (kit/memory_speed.h). It does not change. Any thread. */
const struct memory_speed *core_memory(void);
/* Float operations of a core in a nanosecond, with the instruction level in use. Any thread. */
double core_flops(void);
/* The factor from times of the reference core (INLAY_PROVIDER_REFERENCE_CORE) to times of a core of this machine, from
 * the throughput of float multiply-adds with the instruction level in use. Any thread. */
double core_time_factor(void);
#endif
