/* fake_device.h - what the fake device tells its tests, through its extension "fake.counters". */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H
#include <stdint.h>

/* Read with __atomic_load_n, since the device's thread counts too. */
typedef struct fake_counters {
    uint32_t compiled;      /* regions */
    uint32_t largest;       /* nodes of the largest region */
    uint32_t groups;        /* regions made of a group offer */
    uint32_t executed;
    uint32_t copied_in;     /* host to device */
    uint32_t copied_out;
    uint32_t live_buffers;
    uint32_t live_kib;      /* of all buffers */
    uint32_t peak_kib;      /* the most so far */
    uint32_t live_regions;  /* compiled and instances, not released */
    uint32_t cancelled;     /* jobs that stopped early */
    uint32_t stored_blobs;
    uint32_t seen_blobs;
    uint32_t misuse; /* buffers that were not what the device had handed out: the host treats handles as addresses */
} fake_counters;
#endif
