/* abi.h - the part of the C interface of TVM-FFI 0.1 and of DLPack 1 that calls of kernels on the
 * CPU need. A library exports the function NAME as __tvm_ffi_NAME. */
#ifndef ABI_H
#define ABI_H
#include <stdint.h>

/* A DLTensor. */
typedef struct ffi_tensor {
    void *data;
    int32_t device_type, device_id; /* FFI_CPU, 0 */
    int32_t rank;
    uint8_t type_code, type_bits; /* FFI_FLOATS, 32 */
    uint16_t type_lanes;          /* 1 */
    const int64_t *dims;          /* [rank] */
    const int64_t *strides;       /* [rank] elements */
    uint64_t byte_offset;
} ffi_tensor;
enum { FFI_CPU = 1, FFI_FLOATS = 2 };

/* A TVMFFIAny: an argument or a result. */
typedef struct ffi_any {
    int32_t kind;
    uint32_t zero;
    union {
        int64_t number;
        void *pointer;
    };
} ffi_any;
enum { FFI_NONE = 0, FFI_TENSOR = 7, FFI_FIRST_OBJECT = 64 };

/* Returns 0, or another number after a failure, whose object the library libtvm_ffi keeps for the thread. */
typedef int (*ffi_function)(void *self, const ffi_any *args, int32_t count, ffi_any *result);

/* A TVMFFIError object: its header, and its texts. */
typedef struct ffi_error {
    uint64_t references;
    int32_t kind;
    uint32_t padding;
    void *deleter;
    struct {
        const char *data;
        uint64_t bytes;
    } name, message;
} ffi_error;
typedef void (*ffi_take_error)(ffi_error **out); /* TVMFFIErrorMoveFromRaised */
typedef int (*ffi_release)(void *object);        /* TVMFFIObjectDecRef */
#endif
