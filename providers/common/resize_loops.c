/* Loops of Resize over elements, for the common element types; see resize_loops.h. */
#include "common/resize_loops.h"
#include "simd/vec.h"
#include "simd/convert.h"
#include <string.h>

#define FN__(what, suffix) what##_##suffix
#define FN_(what, suffix) FN__(what, suffix)
#define FN(what) FN_(what, SUFFIX)
#define TABLE(suffix, store_of, direct_of)                                                                             \
    const resize_loops_##suffix KERNEL(resize_##suffix) = { .across = resize_across_##suffix,                          \
                                                            .add = resize_add_##suffix,                                \
                                                            .blend = resize_blend_##suffix,                            \
                                                            .store = store_of,                                         \
                                                            .direct = direct_of };

#define SUFFIX f32
#define T float
#define LOAD(element) (element)
#define STORE(sum) (sum)
#define ACC float
#define PLAIN
#include "common/resize_loops.inc"
TABLE(f32, NULL, resize_direct_f32)
#undef SUFFIX
#undef T
#undef LOAD
#undef STORE
#undef ACC
#undef PLAIN

#define SUFFIX f64
#define T double
#define LOAD(element) (element)
#define STORE(sum) (sum)
#define ACC double
#define PLAIN
#include "common/resize_loops.inc"
TABLE(f64, NULL, resize_direct_f64)
#undef SUFFIX
#undef T
#undef LOAD
#undef STORE
#undef ACC
#undef PLAIN

#define SUFFIX f16
#define T uint16_t
#define LOAD(element) f16_to_f32(element)
#define STORE(sum) f32_to_f16(sum)
#define ACC float
#include "common/resize_loops.inc"
TABLE(f16, resize_store_f16, NULL)
#undef SUFFIX
#undef T
#undef LOAD
#undef STORE
#undef ACC

#define SUFFIX bf16
#define T uint16_t
#define LOAD(element) bf16_to_f32(element)
#define STORE(sum) f32_to_bf16(sum)
#define ACC float
#include "common/resize_loops.inc"
TABLE(bf16, resize_store_bf16, NULL)
#undef SUFFIX
#undef T
#undef LOAD
#undef STORE
#undef ACC

#define SUFFIX u8
#define T uint8_t
#define LOAD(element) ((float)(element))
#define STORE(sum) CLAMP_CAST(uint8_t, WHOLE(sum), 0.0f, 255.0f)
#define ACC float
#include "common/resize_loops.inc"
TABLE(u8, resize_store_u8, NULL)
#undef SUFFIX
#undef T
#undef LOAD
#undef STORE
#undef ACC

#define SUFFIX i8
#define T int8_t
#define LOAD(element) ((float)(element))
#define STORE(sum) CLAMP_CAST(int8_t, WHOLE(sum), -128.0f, 127.0f)
#define ACC float
#include "common/resize_loops.inc"
TABLE(i8, resize_store_i8, NULL)
#undef SUFFIX
#undef T
#undef LOAD
#undef STORE
#undef ACC
