/* failing_alloc.h - makes the n-th allocation of a test fail.
 *
 * Link with failing_alloc.c and inlay_wrap_allocations(target), which redirects the allocations of the code under test:
 * malloc and similar functions, and allocations from arenas, which rarely call malloc. */
#ifndef FAILING_ALLOC_H
#define FAILING_ALLOC_H
#include <stdint.h>

/* Makes allocation n from now on fail (0 = the next one), and no other. UINT64_MAX: none. */
void failing_alloc_arm(uint64_t n);
/* Disarms; returns whether the allocation has failed. */
int failing_alloc_disarm(void);
#endif
