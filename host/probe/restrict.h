/* probe/restrict.h - what the processes of plugins may not do. */
#ifndef PROBE_RESTRICT_H
#define PROBE_RESTRICT_H
#include "inlay/status.h"

/* No core dumps and no new privileges. */
void restrict_process(void);
/* Drops pending signals, which were sent to the parent's process group, by ignoring them; then restores the
 * defaults. */
void restrict_signals(void);
/* Limits the memory that the process may allocate to a part of that of the machine. If memory becomes scarce, Linux
 * ends this process first. */
void restrict_memory(void);
/* Forbids all threads of the process, with seccomp, to open files, sockets and devices, to start processes, and all
 * else that kernels of a provider do not need. Such a system call fails with EPERM. INLAY_UNSUPPORTED: this system has
 * no seccomp. */
INLAY_NODISCARD inlay_status restrict_system_calls(inlay_diag *diag);
#endif
