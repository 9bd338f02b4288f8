/* probe/restrict.h - what the processes of plugins may not do. */
#ifndef PROBE_RESTRICT_H
#define PROBE_RESTRICT_H
#include "inlay/note.h"
#include "inlay/status.h"

/* 1: a sanitizer has shadow memory, more than any limit, and functions of its own that allocate. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || INLAY_NOTE_FEATURE(address_sanitizer) ||          \
    INLAY_NOTE_FEATURE(thread_sanitizer)
#define RESTRICT_SHADOW_MEMORY 1
#else
#define RESTRICT_SHADOW_MEMORY 0
#endif

/* No core dumps and no new privileges. */
void restrict_process(void);
/* Drops pending signals, which were sent to the parent's process group, by ignoring them; then restores the
 * defaults. */
void restrict_signals(void);
/* Limits the memory that the process may allocate to a part of that of the machine. If memory becomes scarce, Linux
 * ends this process first. */
void restrict_memory(void);
/* Forbids all threads of the process, with seccomp, what opening a provider does not need: to write to or change files,
 * to use sockets, to start programs or to touch other processes. Such a system call fails with EPERM. Files can be
 * read, but where the kernel has Landlock not the memory and environment of other processes in /proc. Root's
 * capabilities are dropped. Called by the only thread of the process. INLAY_UNSUPPORTED: this system has no seccomp. */
INLAY_NODISCARD inlay_status restrict_opening(inlay_diag *diag);
/* Forbids all threads of the process, with seccomp, to open files, sockets and devices, to start processes, and all
 * else that kernels of a provider do not need. Such a system call fails with EPERM. INLAY_UNSUPPORTED: this system has
 * no seccomp. */
INLAY_NODISCARD inlay_status restrict_system_calls(inlay_diag *diag);
#endif
