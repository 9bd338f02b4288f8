/* threads/gomp.h - libgomp's threads, by the functions that compilers call for a parallel region. It is opened by hand
 * so that it can be told how to wait, which only its environment can: see gomp.c. */
#ifndef THREADS_GOMP_H
#define THREADS_GOMP_H
#include <stdbool.h>
#include <stdint.h>

/* fn(data) on so many threads, the caller among them; returns when all are done. Without libgomp: on the caller. */
void gomp_team(void (*fn)(void *data), void *data, uint32_t threads);
/* Which thread of its team the caller is, from 0. */
uint32_t gomp_worker(void);
/* Ends the workers that the calling thread keeps; its next team is a new one. In a parallel region: does nothing. */
void gomp_dismiss(void);
/* Is the caller in a parallel region, also one of the application's? */
bool gomp_in_team(void);
#endif
