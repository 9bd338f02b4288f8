/* dlpack.h - DLPack 0.6, used for values whose memory must be released by a function of this library. */
#ifndef ORT_DLPACK_H
#define ORT_DLPACK_H
#include <stdint.h>

struct DLManagedTensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t rank;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *dims, *strides;
    uint64_t byte_offset;
    void *manager;
    void (*deleter)(struct DLManagedTensor *self);
};
#endif
