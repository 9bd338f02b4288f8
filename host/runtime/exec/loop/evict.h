/* exec/loop/evict.h - frees memory of a device that is full. */
#ifndef EXEC_EVICT_H
#define EXEC_EVICT_H
#include "exec/run/run.h"

/* Frees the device memory that the runner and the runners of its bodies cache for later runs. `all`: also moves values
 * that the current run holds for later steps to host memory. `idle`: none of these runners is in a run. */
void evict_device_values(struct runner *runner, bool idle, bool all);
#endif
