/* time.h with clocks that newer versions of wasi-libc lack: the CPU time is not known. */
#ifndef WASM_TIME_H
#define WASM_TIME_H
#include_next <time.h>

#ifndef CLOCK_PROCESS_CPUTIME_ID
#define CLOCK_PROCESS_CPUTIME_ID CLOCK_MONOTONIC
#endif
#ifndef CLOCK_THREAD_CPUTIME_ID
#define CLOCK_THREAD_CPUTIME_ID CLOCK_MONOTONIC
#endif
#endif
