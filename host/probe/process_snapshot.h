/* probe/process_snapshot.h - what a plugin leaves alone (inlay/plugin.h): looked at before and after its calls, by the
 * probe and by plugin-check. Of the two executables; the library has none of it. */
#ifndef PROBE_PROCESS_SNAPSHOT_H
#define PROBE_PROCESS_SNAPSHOT_H
#include "base/float_state.h"
#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

enum { PROCESS_SNAPSHOT_SIGNALS = 65 };

typedef struct process_snapshot {
    void (*handlers[PROCESS_SNAPSHOT_SIGNALS])(int);
    sigset_t blocked;
    char cwd[512];
    char locale[256];
    mode_t mask;
    off_t printed;  /* bytes on standard output and error together */
    unsigned files; /* bit i: descriptor i is open, 0 to 4 */
    float_state floats;
} process_snapshot;

process_snapshot process_snapshot_take(void);
/* Writes what differs, as "the locale was changed, the umask ..."; returns how many things, and sets back those that
 * later checks would suffer from. */
unsigned process_snapshot_compare(const process_snapshot *before, char *text, size_t bytes);
/* Threads of this process; -1: nobody says. */
int process_snapshot_threads(void);
#endif
