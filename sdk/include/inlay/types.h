/* inlay/types.h - element types, dimensions, strings, tensors and buffers, shared by the host and plugins.
 *
 * Everything in this header is part of the ABI, which is defined for systems with pointers of 64 bits. Structs without
 * struct_size never grow. inlay_native_memory, which has one, grows at the end only: set struct_size to its sizeof
 * before passing it. */
#ifndef INLAY_TYPES_H
#define INLAY_TYPES_H
#include "inlay/status.h"
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* True if the struct at p, as its writer was compiled, includes field. */
#define INLAY_HAS(p, field) ((p)->struct_size >= offsetof(__typeof__(*(p)), field) + sizeof((p)->field))

/* True if the elements of an array of type with the given stride include field. */
#define INLAY_STRIDE_HAS(type, stride, field) ((stride) >= offsetof(type, field) + sizeof(((const type *)0)->field))

/* Returns a pointer to element i of an array whose writer may have been compiled with a struct of another size. */
#define INLAY_AT(type, array, stride, i) ((const type *)(const void *)((const char *)(array) + (size_t)(stride) * (i)))

/* The same for an array that the callee writes, such as inlay_describe_request.domains. */
#define INLAY_AT_OUT(type, array, stride, i) ((type *)(void *)((char *)(array) + (size_t)(stride) * (i)))

#if defined(__GNUC__)
#define INLAY_EXPORT __attribute__((visibility("default")))
#else
#define INLAY_EXPORT
#endif

#define INLAY_NONE UINT32_MAX         /* an index of nothing: no node, no value, an omitted input or output */
#define INLAY_RANK_UNKNOWN UINT32_MAX /* the rank itself is unknown */
/* highest rank of a tensor, in every 1.x; models and calls with higher ranks are rejected */
#define INLAY_MAX_RANK 16

/* Element types have the numbers of TensorProto.DataType, so a dtype read from a file needs no conversion. X(number,
 * ENUM, bits, name): bits is the size of one element in a buffer. Elements of 4 bits are packed two to a byte, elements
 * of 2 bits four to a byte, low bits first, both in files and in buffers. A STRING element is an inlay_str. */
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

/* The bit of an element type in a set of types, a uint64_t: bit N represents dtype N. */
#define INLAY_DTYPE_BIT(dtype) (UINT64_C(1) << (dtype))

/* Returns the size of one element in bits, 0 for a number that is not a dtype. */
static inline uint32_t inlay_dtype_bits(inlay_dtype dtype)
{
    static const uint8_t bits[INLAY_DTYPE_COUNT] = { 0,
#define INLAY_DTYPE_BITS(number, name, bits, text) bits,
                                                     INLAY_DTYPE_LIST(INLAY_DTYPE_BITS)
#undef INLAY_DTYPE_BITS
    };
    return dtype > 0 && dtype < INLAY_DTYPE_COUNT ? bits[dtype] : 0;
}

/* Returns ONNX's name of the type, "undefined" for a number that is not a dtype. */
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

/* Text of known length in bytes. Names that the host provides are also NUL-terminated (data[bytes] is NUL). Elements of
 * string tensors may hold any bytes and need not be NUL-terminated. */
typedef struct inlay_str {
    const char *data;
    uint64_t bytes;
} inlay_str;

/* Kinds of dimensions. */
enum {
    INLAY_DIM_FIXED = 0,    /* value is the size */
    INLAY_DIM_SYMBOLIC = 1, /* symbol identifies the size; equal symbols mean equal sizes; value is -1 */
    INLAY_DIM_UNKNOWN = 2   /* the size is known only after execution (output of NonZero); value is -1 */
};
/* One dimension of a shape. */
typedef struct inlay_dim {
    int64_t value;   /* elements, >= 0, when FIXED */
    uint32_t kind;   /* INLAY_DIM_* */
    uint32_t symbol; /* index into inlay_graph.symbols when SYMBOLIC, otherwise 0 */
} inlay_dim;

/* A tensor in host memory, dense row-major. */
typedef struct inlay_tensor_view {
    const void *data;    /* all elements, sub-byte types packed; misaligned only where a comment permits it */
    uint64_t bytes;      /* size of data */
    const int64_t *dims; /* [rank] */
    uint32_t rank;
    inlay_dtype dtype;
} inlay_tensor_view;

/* A range of memory in a domain. Domain 0 is host memory, where handle is the address. */
#define INLAY_DOMAIN_HOST 0u
typedef struct inlay_buffer {
    uint64_t handle;   /* address in the host domain, otherwise the provider's handle; 0 = no memory, never valid */
    uint64_t offset;   /* bytes from the start of handle */
    uint64_t bytes;    /* bytes from offset that may be accessed */
    uint32_t domain;   /* INLAY_DOMAIN_HOST or a domain id of a provider */
    uint32_t reserved; /* 0 */
} inlay_buffer;

/* Returns the address of a buffer in the host domain. */
static inline void *inlay_buffer_host(const inlay_buffer *buffer)
{
    return (void *)(uintptr_t)(buffer->handle + buffer->offset);
}

/* Kinds of devices. */
enum { INLAY_DEVICE_CPU = 1, INLAY_DEVICE_GPU = 2, INLAY_DEVICE_NPU = 3, INLAY_DEVICE_OTHER = 4 };

/* Kinds of handles of memory. */
enum {
    /* As DLPack's `data`: a device address, or a handle of the device's API (a VkBuffer). */
    INLAY_MEMORY_DEVICE = 0,
    INLAY_MEMORY_HOST = 1,      /* an address in this process */
    INLAY_MEMORY_DMA_BUF = 2,   /* file descriptor of a DMA-buf */
    INLAY_MEMORY_OPAQUE_FD = 3, /* file descriptor that only drivers of the same kind understand (Vulkan's OPAQUE_FD) */
    INLAY_MEMORY_SHARED_FD = 4  /* file descriptor of POSIX shared memory (shm_open, memfd_create) */
};
/* The bit of a kind in a set of kinds, a uint32_t. */
#define INLAY_MEMORY_BIT(kind) (UINT32_C(1) << (kind))

/* Who closes a file descriptor. After a call that fails, in both cases the side that passed the descriptor closes
 * it. */
enum {
    /* The side that passes the descriptor closes it. The receiver of an import duplicates the descriptor for use after
     * the call. An exported descriptor stays open as long as the buffer. */
    INLAY_MEMORY_BORROWED = 0,
    /* The receiver (the importer, or the caller of an export) closes the descriptor, exactly once, as soon as it is not
     * needed. */
    INLAY_MEMORY_OWNED = 1
};

/* Device memory as the driver and other libraries identify it. Set struct_size. Device type and id have DLPack's
 * numbers. */
typedef struct inlay_native_memory {
    uint64_t struct_size;
    uint64_t handle;     /* address, handle or file descriptor, see kind */
    uint64_t offset;     /* bytes from the start of handle */
    uint64_t bytes;      /* bytes from offset that may be accessed */
    int32_t device_type; /* DLDeviceType: 2 CUDA, 7 Vulkan, 10 ROCm, 12 extension device */
    int32_t device_id;   /* number of the device among those of its type */
    uint32_t kind;       /* INLAY_MEMORY_DEVICE ... */
    uint32_t ownership;  /* INLAY_MEMORY_BORROWED, _OWNED; of file descriptors only */
    /* bytes from the start of one row of the last dimension to the start of the next row; 0 = dense. A provider that
     * needs dense memory returns INLAY_UNSUPPORTED */
    uint64_t pitch;
    uint64_t modifier; /* DMA_BUF: the DRM format modifier; 0 = linear (DRM_FORMAT_MOD_LINEAR) */
} inlay_native_memory;

/* Importance of a run, or of memory. A hint: it changes neither results nor the order of dependent work. A provider
 * passes it to the queues of its device, if they have priorities. */
enum { INLAY_PRIORITY_NORMAL = 0, INLAY_PRIORITY_LOW = 1, INLAY_PRIORITY_HIGH = 2 };
/* Power profile of a run. A hint. EFFICIENCY: as little energy as possible for the run, which may take longer.
 * PERFORMANCE: as fast as possible, for instance with raised clocks. */
enum { INLAY_POWER_DEFAULT = 0, INLAY_POWER_EFFICIENCY = 1, INLAY_POWER_PERFORMANCE = 2 };

/* What an application may ask of an open provider: inlay_session_control() of inlay.h, which calls the provider's
 * extension inlay.control/1. */
enum {
    INLAY_CONTROL_SET_OPTION = 1, /* change an option of the open provider */
    /* release unused memory until the provider holds at most the requested number of unused bytes */
    INLAY_CONTROL_TRIM = 2,
    INLAY_CONTROL_SUSPEND = 3, /* until RESUME, release the memory and the power that the provider can do without */
    INLAY_CONTROL_RESUME = 4   /* end SUSPEND */
};

/* A point on a timeline. The host owns the timelines; their counters start at 0 and only increase. A fence is reached
 * when the counter of its timeline is at least value. A fence whose timeline is 0 is always reached. If the host has
 * destroyed a timeline, its fences count as reached, and signals to it are ignored. Numbers of timelines are not used
 * again. */
typedef struct inlay_fence {
    uint64_t timeline;
    uint64_t value;
} inlay_fence;

typedef struct inlay_run inlay_run; /* one execution in progress; opaque */

/* Body of a parallel loop: processes the iterations [begin, end). worker identifies one of the loop's threads: calls
 * that run at the same time have different numbers, below thread_count(run), where run is the run that the loop belongs
 * to. thread_count(run) never exceeds inlay_specialize_request.max_threads: allocate scratch memory for that number of
 * workers. A status other than INLAY_OK stops the distribution of further ranges; the loop returns it. */
typedef inlay_status (*inlay_parallel_fn)(void *user, int64_t begin, int64_t end, uint32_t worker);

#ifdef __cplusplus
}
#endif
#endif
