/* devices.h - the counters of the two devices of this sample, for the program that links them. */
#ifndef DEVICES_H
#define DEVICES_H
#include <stdint.h>

/* Changed atomically by the device. */
typedef struct device_counters {
    uint32_t host_copies;   /* from or to host memory */
    uint32_t device_copies; /* within the device's domain; source or target may be memory of another device */
    uint32_t imports;       /* memory of others that was made a buffer of the device */
    uint32_t buffers;       /* number of buffers that exist now, imported ones included */
} device_counters;

extern device_counters isp_counters, npu_counters;
#endif
