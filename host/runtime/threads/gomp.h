/* threads/gomp.h - libgomp's threads, which libraries of plugins use, through the functions that compilers call for a
 * parallel region. libgomp is loaded with dlopen() because only environment variables at load time configure how its
 * threads wait: see gomp.c. */
#ifndef THREADS_GOMP_H
#define THREADS_GOMP_H
#include <stdbool.h>
#include <stdint.h>

/* Calls fn(data) on `threads` threads, including the caller, and waits for all. Without libgomp: on the caller only. */
void gomp_team(void (*fn)(void *data), void *data, uint32_t threads);
/* The caller's index in its team, from 0. */
uint32_t gomp_worker(void);
/* Sets the number of threads of parallel regions that the calling thread starts, and returns the previous one. */
uint32_t gomp_set_threads(uint32_t threads);
/* Ends the idle workers of the calling thread; its next loop starts a new team. A no-op in a parallel region. */
void gomp_dismiss(void);
/* Is the caller in a parallel region of this library or of the application? */
bool gomp_in_team(void);
#endif
