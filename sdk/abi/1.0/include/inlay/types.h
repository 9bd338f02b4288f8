/* inlay/types.h - element types, dimensions, strings, buffers: the words that the host and plugins share.
 *
 * Everything here is ABI. Structs that stand in arrays are walked with the stride that their container states, so they
 * can grow at the end; structs passed on their own start with struct_size. */
#ifndef INLAY_TYPES_H
#define INLAY_TYPES_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define INLAY_NONE UINT32_MAX         /* no node, no value: an omitted optional input */
#define INLAY_RANK_UNKNOWN UINT32_MAX /* the number of dimensions itself is unknown */
#define INLAY_MAX_RANK 16             /* the loader refuses tensors of higher rank */

/* Element types carry the numbers of TensorProto.DataType, so a dtype read from a file needs no translation.
 * X(number, ENUM, bits, name): bits is the size of one element as packed in a file; sub-byte types are packed two (or
 * four) to a byte, low bits first, both in files and in buffers. A STRING element is an inlay_str. */
#define INLAY_DTYPE_LIST(X)                                                                                            \
    X(1, FLOAT, 32, "float")                                                                                           \
    X(2, UINT8, 8, "uint8")                                                                                            \
    X(3, INT8, 8, "int8")                                                                                              \
    X(4, UINT16, 16, "uint16")                                                                                         \
    X(5, INT16, 16, "int16")                                                                                           \
    X(6, INT32, 32, "int32")                                                                                           \
    X(7, INT64, 64, "int64")                                                                                           \
    X(8, STRING, 128, "string")                                                                                        \
    X(9, BOOL, 8, "bool")                                                                                              \
    X(10, FLOAT16, 16, "float16")                                                                                      \
    X(11, DOUBLE, 64, "double")                                                                                        \
    X(12, UINT32, 32, "uint32")                                                                                        \
    X(13, UINT64, 64, "uint64")                                                                                        \
    X(14, COMPLEX64, 64, "complex64")                                                                                  \
    X(15, COMPLEX128, 128, "complex128")                                                                               \
    X(16, BFLOAT16, 16, "bfloat16")                                                                                    \
    X(17, FLOAT8E4M3FN, 8, "float8e4m3fn")                                                                             \
    X(18, FLOAT8E4M3FNUZ, 8, "float8e4m3fnuz")                                                                         \
    X(19, FLOAT8E5M2, 8, "float8e5m2")                                                                                 \
    X(20, FLOAT8E5M2FNUZ, 8, "float8e5m2fnuz")                                                                         \
    X(21, UINT4, 4, "uint4")                                                                                           \
    X(22, INT4, 4, "int4")                                                                                             \
    X(23, FLOAT4E2M1, 4, "float4e2m1")                                                                                 \
    X(24, FLOAT8E8M0, 8, "float8e8m0")                                                                                 \
    X(25, UINT2, 2, "uint2")                                                                                           \
    X(26, INT2, 2, "int2")

typedef int32_t inlay_dtype;
enum {
    INLAY_UNDEFINED = 0,
#define INLAY_DTYPE_ENUM(number, name, bits, text) INLAY_##name = number,
    INLAY_DTYPE_LIST(INLAY_DTYPE_ENUM)
#undef INLAY_DTYPE_ENUM
        INLAY_DTYPE_COUNT = 27
};

/* A set of element types: bit N stands for dtype N. */
#define INLAY_DTYPE_BIT(dtype) (UINT32_C(1) << (dtype))

/* Bits of one element, 0 for a number that is no dtype. */
static inline uint32_t inlay_dtype_bits(inlay_dtype dtype)
{
    static const uint8_t bits[INLAY_DTYPE_COUNT] = { 0,
#define INLAY_DTYPE_BITS(number, name, bits, text) bits,
                                                     INLAY_DTYPE_LIST(INLAY_DTYPE_BITS)
#undef INLAY_DTYPE_BITS
    };
    return dtype > 0 && dtype < INLAY_DTYPE_COUNT ? bits[dtype] : 0;
}

/* ONNX's name of the type, "undefined" for a number that is no dtype. */
static inline const char *inlay_dtype_name(inlay_dtype dtype)
{
    switch (dtype) {
#define INLAY_DTYPE_NAME(number, name, bits, text)                                                                     \
    case number:                                                                                                       \
        return text;
        INLAY_DTYPE_LIST(INLAY_DTYPE_NAME)
#undef INLAY_DTYPE_NAME
    default:
        return "undefined";
    }
}

/* Text of known length. In what the host hands out data[bytes] is NUL for names; string tensor elements may hold any
 * bytes and need not end in NUL. */
typedef struct inlay_str {
    const char *data;
    uint64_t bytes;
} inlay_str;

/* One dimension. */
enum {
    INLAY_DIM_FIXED = 0,    /* value is the size */
    INLAY_DIM_SYMBOLIC = 1, /* symbol names it; equal symbols are equal sizes; value is -1 */
    INLAY_DIM_UNKNOWN = 2   /* known only when the data is (NonZero); value is -1 */
};
typedef struct inlay_dim {
    int64_t value;   /* elements, >= 0, when FIXED */
    uint32_t kind;   /* INLAY_DIM_* */
    uint32_t symbol; /* index into inlay_graph.symbols when SYMBOLIC, otherwise 0 */
} inlay_dim;

/* How the elements of a tensor lie in its buffer. {0} is dense row-major, what ONNX calls for. */
enum { INLAY_LAYOUT_ROW_MAJOR = 0, INLAY_LAYOUT_BLOCKED = 1, INLAY_LAYOUT_OPAQUE = 2 };
typedef struct inlay_layout {
    uint32_t kind;          /* INLAY_LAYOUT_* */
    uint32_t block_count;   /* BLOCKED: inner blocks in use, 0 to 2 */
    uint8_t order[16];      /* BLOCKED: order[i] is the axis stored i-th, outermost first */
    uint32_t block_axis[2]; /* BLOCKED: axis that is cut into blocks; nChw16c has block_axis 1, block_size 16 */
    uint32_t block_size[2]; /* BLOCKED: elements of the block; the axis is padded to a multiple of it */
    uint64_t opaque_id;     /* OPAQUE: chosen by the provider; only its own regions exchange it */
} inlay_layout;

/* Memory is a place in a domain, never a bare pointer. Domain 0 is the host's memory, where handle is the address. */
#define INLAY_DOMAIN_HOST 0u
typedef struct inlay_buffer {
    uint64_t handle; /* address in the host domain, the provider's own handle elsewhere; 0 = not there */
    uint64_t offset; /* bytes from the start of handle */
    uint64_t bytes;  /* bytes from offset that may be touched */
    uint32_t domain; /* INLAY_DOMAIN_HOST or a domain of a provider */
    uint32_t reserved;
} inlay_buffer;

/* The address of a buffer in the host domain. */
static inline void *inlay_buffer_host(const inlay_buffer *buffer)
{
    return (void *)(uintptr_t)(buffer->handle + buffer->offset);
}

/* What a device is. */
enum { INLAY_DEVICE_CPU = 1, INLAY_DEVICE_GPU = 2, INLAY_DEVICE_NPU = 3, INLAY_DEVICE_OTHER = 4 };

/* Memory of a device as its driver and other libraries know it. Numbers of devices are DLPack's. */
typedef struct inlay_native_memory {
    uint64_t struct_size;
    uint64_t handle; /* what DLPack has as data: an address of the device, or a handle of its API (a VkBuffer) */
    uint64_t offset; /* bytes from there */
    uint64_t bytes;
    int32_t device_type; /* DLDeviceType: 2 CUDA, 7 Vulkan, 10 ROCm, 12 of another kind */
    int32_t device_id;
} inlay_native_memory;

/* A point on a timeline that the host owns: reached when the timeline's counter is at least value. A fence whose
 * timeline is 0 is always reached. */
typedef struct inlay_fence {
    uint64_t timeline;
    uint64_t value;
} inlay_fence;

#ifdef __cplusplus
}
#endif
#endif
