/* fake_device.h - interface between the fake device and its tests: counters ("fake.counters") and a control of its jobs
 * ("fake.hold"), both returned by extension(). */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H
#include "inlay/types.h"

/* Values of the uint32_t at "fake.hold", written with __atomic_store_n: whether jobs that begin may continue. So a test
 * can keep work in flight as long as needed, independent of timing. */
enum {
    FAKE_FREE,
    FAKE_HELD,          /* jobs wait until this changes, or until their run is stopped, which cancels them */
    FAKE_UNTIL_STOPPED, /* jobs wait until their run is stopped, and then complete normally */
    FAKE_DEAF           /* jobs wait until this changes, even if their run is stopped */
};

/* An external stream on the fake device, such as a cudaStream_t of another library. Its number is its address. The test
 * plays the other library. */
enum { FAKE_STREAM = 0x57, MAX_STREAM_FENCES = 8 };
typedef struct fake_stream {
    uint32_t kind; /* FAKE_STREAM */
    uint32_t busy; /* 1: it has unfinished work */
    uint32_t mark_count, gate_count;
    inlay_fence marks[MAX_STREAM_FENCES]; /* to be signalled once that work is done */
    inlay_fence gates[MAX_STREAM_FENCES]; /* fences that later work in the stream waits for */
} fake_stream;

/* Read with __atomic_load_n, because the device's thread increments them. */
typedef struct fake_counters {
    uint32_t compiled; /* regions */
    uint32_t largest;  /* nodes of the largest region */
    uint32_t groups;   /* regions compiled from a group offer */
    uint32_t executed;
    uint32_t begun;     /* jobs, done or not */
    uint32_t ended;     /* jobs that ended, begun or not */
    uint32_t jobs;      /* including steps on the caller's thread: counted by lose_after */
    uint32_t copied_in; /* host to device */
    uint32_t copied_out;
    uint32_t live_buffers;
    uint32_t live_kib;     /* of all buffers */
    uint32_t peak_kib;     /* maximum of live_kib */
    uint32_t live_regions; /* compiled regions and instances that are not released */
    uint32_t cancelled;    /* jobs that stopped early */
    uint32_t stored_blobs;
    uint32_t seen_blobs;
    uint32_t copy_requests; /* with one copy or several */
    uint32_t mapped;        /* buffers mapped now */
    uint32_t imported;      /* ranges of host memory imported so far */
    uint32_t live_bindings;
    uint32_t bound_runs;  /* regions executed with a binding */
    uint32_t own_waits;   /* waits for fences of the device itself */
    uint32_t notices;     /* fences for which it requested a notification */
    uint32_t narrow_runs; /* regions that exchanged bfloat16 where the model has floats */
    uint32_t overtaken;   /* jobs that a later job overtook */
    uint32_t misuse;      /* invalid buffers from the host, which may treat handles as addresses */
    uint32_t uses;        /* INLAY_USE_* of all allocations so far */
    uint32_t lifetimes;   /* bit N: an allocation of INLAY_LIFETIME_ N */
    uint32_t most_waits;  /* of one call */
    uint32_t submitted;   /* calls of execute that queued a job */
    uint32_t overlaps;    /* of these, while a job of the same instance was in flight */
    uint32_t priority;    /* of the latest execute */
    uint32_t power;
    uint32_t memory_priority; /* of the latest allocation */
    uint32_t controls;        /* calls of control */
    uint32_t suspended;       /* 1 between SUSPEND and RESUME */
    uint32_t trimmed;         /* bytes of the latest TRIM */
    uint32_t order_count;     /* jobs in `order`, which holds the first jobs of a test */
    /* The jobs in the order in which they were queued: 'i', 'o' or 'd' for each copy to, from and on the device, 'x'
     * for a region; '(' begins a request of several copies and ')' ends it. */
    char order[128];
} fake_counters;
#endif
