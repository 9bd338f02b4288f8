/* exec/context/run_shared.h - creates and destroys the state shared by the runners of one context. */
#ifndef EXEC_RUN_SHARED_H
#define EXEC_RUN_SHARED_H
#include "exec/loop/runner.h"

/* memory may be NULL; it must outlive shared. */
inlay_status run_shared_init(run_shared *shared, uint32_t max_threads, uint64_t max_bytes, run_memory *memory);
void run_shared_deinit(run_shared *shared);
#endif
