/* probe/process_snapshot.h - detects changes of process state that a plugin must not make (inlay/plugin.h). The probe
 * and plugin-check take a snapshot before a plugin's calls and compare it afterwards. This code is part of these two
 * executables, not of the library. */
#ifndef PROBE_PROCESS_SNAPSHOT_H
#define PROBE_PROCESS_SNAPSHOT_H
#include "base/float_state.h"
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/types.h>

enum {
    PROCESS_SNAPSHOT_SIGNALS = 65,
    PROCESS_SNAPSHOT_LIMITS = 16,
    PROCESS_SNAPSHOT_ATTRIBUTES = 5,
    PROCESS_SNAPSHOT_TIMERS = 3
};

/* A standard descriptor: the file behind it, its status flags (F_GETFL), its own (F_GETFD), and its position. */
typedef struct process_snapshot_stream {
    dev_t device;
    ino_t inode;
    int flags, own_flags;
    off_t position;
} process_snapshot_stream;

/* Of the calling thread. */
typedef struct process_snapshot_thread {
    sigset_t blocked;
    float_state floats;
    cpu_set_t cpus; /* affinity */
    int niceness, scheduler;
    void *locale;       /* of uselocale() */
    void *signal_stack; /* sigaltstack */
    char name[16];
    int cancel_state, cancel_type; /* pthread_setcancelstate */
    int io_priority;               /* ioprio_set */
    int memory_policy;             /* set_mempolicy */
} process_snapshot_thread;

typedef struct process_snapshot {
    process_snapshot_thread thread;
    void (*handlers[PROCESS_SNAPSHOT_SIGNALS])(int);
    int handler_flags[PROCESS_SNAPSHOT_SIGNALS]; /* SA_* */
    char cwd[512];
    char locale[256];
    mode_t mask;
    off_t printed;        /* size of the file behind standard output and standard error */
    unsigned files;       /* bit i, 0 to 4: descriptor i is open */
    uint64_t environment; /* a hash of all variables */
    struct rlimit limits[PROCESS_SNAPSHOT_LIMITS];
    bool timers[PROCESS_SNAPSHOT_TIMERS]; /* ITIMER_* that run */
    process_snapshot_stream streams[3];
    size_t buffers[2]; /* sizes of the buffers of stdout and stderr, by setvbuf() */
    pid_t group, session;
    int death_signal, subreaper;                 /* of prctl() */
    long oom_score;                              /* oom_score_adj */
    uint64_t random;                             /* a hash of the states of rand() and drand48() */
    long locked_kb;                              /* memory that is locked (mlock, mlockall) */
    int attributes[PROCESS_SNAPSHOT_ATTRIBUTES]; /* of prctl() */
    int personality;
    unsigned timers_created; /* by timer_create() */
} process_snapshot;

process_snapshot process_snapshot_take(void);
/* Writes the differences ("the locale was changed, the umask ...") and returns their number. Restores state that would
 * affect later checks. */
unsigned process_snapshot_compare(const process_snapshot *before, char *text, size_t bytes);
/* Number of threads of this process; -1: unknown. */
int process_snapshot_threads(void);
/* The number of threads beyond `before`, which may be -1. Waits up to 0.2 s until there are none: Linux lists a thread
 * for a moment after it was joined. */
int process_snapshot_more_threads(int before);
#endif
