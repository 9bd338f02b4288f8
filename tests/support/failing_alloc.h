/* failing_alloc.h - makes the n-th allocation of a test fail.
 *
 * Link with failing_alloc.c and inlay_wrap_allocations(target), which redirects the allocations of the code under test:
 * malloc and its kin, and those of arenas, which otherwise would hide behind the arena's blocks. */
#ifndef FAILING_ALLOC_H
#define FAILING_ALLOC_H
#include <stdint.h>

/* Allocation number n from now (0 = the next) fails, and no other. UINT64_MAX: none. */
void failing_alloc_arm(uint64_t n);
/* Has it failed? Disarms. */
int failing_alloc_disarm(void);
#endif
