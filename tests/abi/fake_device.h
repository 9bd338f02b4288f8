/* fake_device.h - what the fake device tells its tests, through its extension "fake.counters", and what they tell it,
 * through "fake.hold". */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H
#include "inlay/types.h"

/* What "fake.hold" points to, a uint32_t that is written with __atomic_store_n: whether jobs that begin get on with it.
 * A test that has work in flight for as long as it wants needs no delay that somebody else might outlast. */
enum {
    FAKE_FREE,
    FAKE_HELD,          /* jobs wait, until this changes or their run is stopped, which they then are, too */
    FAKE_UNTIL_STOPPED, /* jobs wait until their run is stopped, and then end as if nothing had been */
    FAKE_DEAF           /* jobs wait until this changes, whatever becomes of their run */
};

/* A stream of somebody else's on the fake device, whose number is its address: what others know as a cudaStream_t. The
 * test is that somebody. */
enum { FAKE_STREAM = 0x57, FAKE_STREAM_MOST = 8 };
typedef struct fake_stream {
    uint32_t kind; /* FAKE_STREAM */
    uint32_t busy; /* 1: it has work that is not done */
    uint32_t mark_count, gate_count;
    inlay_fence marks[FAKE_STREAM_MOST]; /* to be signalled once that is done */
    inlay_fence gates[FAKE_STREAM_MOST]; /* which what is put into it waits for */
} fake_stream;

/* Read with __atomic_load_n, since the device's thread counts too. */
typedef struct fake_counters {
    uint32_t compiled; /* regions */
    uint32_t largest;  /* nodes of the largest region */
    uint32_t groups;   /* regions made of a group offer */
    uint32_t executed;
    uint32_t begun;     /* jobs, done or not */
    uint32_t ended;     /* jobs that are over, begun or not */
    uint32_t jobs;      /* and steps that the caller's thread does: what lose_after counts */
    uint32_t copied_in; /* host to device */
    uint32_t copied_out;
    uint32_t live_buffers;
    uint32_t live_kib;     /* of all buffers */
    uint32_t peak_kib;     /* the most so far */
    uint32_t live_regions; /* compiled and instances, not released */
    uint32_t cancelled;    /* jobs that stopped early */
    uint32_t stored_blobs;
    uint32_t seen_blobs;
    uint32_t copy_requests; /* of one copy or several */
    uint32_t mapped;        /* buffers, now */
    uint32_t imported;      /* pieces of the host's memory, so far */
    uint32_t live_bindings;
    uint32_t bound_runs;  /* regions executed with what was kept for the context */
    uint32_t own_waits;   /* fences that the device had been given itself */
    uint32_t notices;     /* fences that it asked to be told of */
    uint32_t narrow_runs; /* regions that passed bfloat16 where the model has floats */
    uint32_t overtaken;   /* jobs that others were done before */
    uint32_t misuse; /* buffers that were not what the device had handed out: the host treats handles as addresses */
    uint32_t order_count; /* jobs in `order`, which has room for the first of a test */
    /* What the device was given, in that order: 'i', 'o' or 'd' for each copy in, out and on the device, 'x' for a
     * region; '(' begins a request of several copies and ')' ends it. */
    char order[128];
} fake_counters;
#endif
