/* oracle.h - functions that only calculate what a test expects, from buffers that tested code has written or reads. */
#ifndef ORACLE_H
#define ORACLE_H

/* Leaves out the checks of sanitizers, which took most of the time of such functions and watch only the test itself. A
 * function with buffers on its stack that tested code accesses keeps them. */
#define ORACLE __attribute__((no_sanitize("address", "undefined")))
#endif
