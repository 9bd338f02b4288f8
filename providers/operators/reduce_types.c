/* reduce_types.c - the loops of reduce.inc for each element type. It contains no kernels. */
#include "operators/lanes.h"
#include "operators/double_rows.h"
#include "operators/reduce_types.h"
#include "simd/convert.h"
#include "inlay/types.h"
#include "simd/row_set.h"
#include "simd/vecmath.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

/* Converts a root or logarithm to an integer: truncates and clamps it. NaN gives `least`. */
static inline int64_t truncate_to_integer(double value, double least, double most)
{
    return value >= most ? (int64_t)most : value > least ? (int64_t)value : (int64_t)least;
}

#define SUFFIX f32
#define T float
#define LOAD(x) (x)
#define STORE(v) (v)
#define ACC float
#define ACC_IS_FLOAT 1
#define EXP(v) vm_exp(v)
#define LOWEST (-INFINITY)
#define HIGHEST INFINITY
#include "operators/reduce.inc"

#define DOUBLE_ROWS
#define SUFFIX f64
#define T double
#define LOAD(x) (x)
#define STORE(v) (v)
#define ACC double
#define ACC_IS_FLOAT 1
#define EXP(v) exp(v)
#define LOWEST ((double)-INFINITY)
#define HIGHEST ((double)INFINITY)
#include "operators/reduce.inc"
#undef DOUBLE_ROWS

#define SUFFIX f16
#define T uint16_t
#define LOAD(x) f16_to_f32(x)
#define STORE(v) f32_to_f16(v)
#define ACC float
#define ACC_IS_FLOAT 1
#define EXP(v) vm_exp(v)
#define LOWEST (-INFINITY)
#define HIGHEST INFINITY
#define THROUGH_F32 INLAY_FLOAT16
#include "operators/reduce.inc"
#undef THROUGH_F32

#define SUFFIX bf16
#define T uint16_t
#define LOAD(x) bf16_to_f32(x)
#define STORE(v) f32_to_bf16(v)
#define ACC float
#define ACC_IS_FLOAT 1
#define EXP(v) vm_exp(v)
#define LOWEST (-INFINITY)
#define HIGHEST INFINITY
#define THROUGH_F32 INLAY_BFLOAT16
#include "operators/reduce.inc"
#undef THROUGH_F32

#define SUFFIX i32
#define T int32_t
#define LOAD(x) (x)
#define STORE(v) ((int32_t)(v))
#define ACC int64_t
#define ACC_IS_FLOAT 0
#define LOWEST INT32_MIN
#define HIGHEST INT32_MAX
#include "operators/reduce.inc"

#define SUFFIX i64
#define T int64_t
#define LOAD(x) (x)
#define STORE(v) (v)
#define ACC int64_t
#define ACC_IS_FLOAT 0
#define LOWEST INT64_MIN
#define HIGHEST INT64_MAX
#include "operators/reduce.inc"

#define SUFFIX u32
#define T uint32_t
#define LOAD(x) (x)
#define STORE(v) ((uint32_t)(v))
#define ACC uint64_t
#define ACC_IS_FLOAT 0
#define LOWEST 0
#define HIGHEST UINT32_MAX
#include "operators/reduce.inc"

#define SUFFIX u64
#define T uint64_t
#define LOAD(x) (x)
#define STORE(v) (v)
#define ACC uint64_t
#define ACC_IS_FLOAT 0
#define LOWEST 0
#define HIGHEST UINT64_MAX
#include "operators/reduce.inc"

#define SUFFIX i8
#define T int8_t
#define LOAD(x) (x)
#define STORE(v) ((int8_t)(v))
#define ACC int32_t
#define ACC_IS_FLOAT 0
#define LOWEST INT8_MIN
#define HIGHEST INT8_MAX
#include "operators/reduce.inc"

#define SUFFIX u8
#define T uint8_t
#define LOAD(x) (x)
#define STORE(v) ((uint8_t)(v))
#define ACC int32_t
#define ACC_IS_FLOAT 0
#define LOWEST 0
#define HIGHEST UINT8_MAX
#include "operators/reduce.inc"

#define SUFFIX flag
#define T uint8_t
#define LOAD(x) ((x) != 0)
#define STORE(v) ((uint8_t)(v))
#define ACC int32_t
#define ACC_IS_FLOAT 0
#define LOWEST 0
#define HIGHEST 1
#include "operators/reduce.inc"

/* Integers whose result is a root or a logarithm are folded as doubles. */
#define SUFFIX i32_real
#define T int32_t
#define LOAD(x) (x)
#define STORE(v) ((int32_t)truncate_to_integer(v, INT32_MIN, INT32_MAX))
#define ACC double
#define ACC_IS_FLOAT 1
#define EXP(v) exp(v)
#define LOWEST ((double)-INFINITY)
#define HIGHEST ((double)INFINITY)
#include "operators/reduce.inc"

#define SUFFIX i64_real
#define T int64_t
#define LOAD(x) (x)
#define STORE(v) truncate_to_integer(v, -9223372036854775808.0, 9223372036854774784.0)
#define ACC double
#define ACC_IS_FLOAT 1
#define EXP(v) exp(v)
#define LOWEST ((double)-INFINITY)
#define HIGHEST ((double)INFINITY)
#include "operators/reduce.inc"

#define SUFFIX u32_real
#define T uint32_t
#define LOAD(x) (x)
#define STORE(v) ((uint32_t)truncate_to_integer(v, 0, UINT32_MAX))
#define ACC double
#define ACC_IS_FLOAT 1
#define EXP(v) exp(v)
#define LOWEST ((double)-INFINITY)
#define HIGHEST ((double)INFINITY)
#include "operators/reduce.inc"

#define SUFFIX u64_real
#define T uint64_t
#define LOAD(x) (x)
#define STORE(v) ((v) > 0 ? f64_to_u64(v) : 0)
#define ACC double
#define ACC_IS_FLOAT 1
#define EXP(v) exp(v)
#define LOWEST ((double)-INFINITY)
#define HIGHEST ((double)INFINITY)
#include "operators/reduce.inc"

const reduce_type *const reduce_types[INLAY_DTYPE_COUNT] = {
    [INLAY_FLOAT] = &reduce_type_f32,     [INLAY_DOUBLE] = &reduce_type_f64, [INLAY_FLOAT16] = &reduce_type_f16,
    [INLAY_BFLOAT16] = &reduce_type_bf16, [INLAY_INT32] = &reduce_type_i32,  [INLAY_INT64] = &reduce_type_i64,
    [INLAY_UINT32] = &reduce_type_u32,    [INLAY_UINT64] = &reduce_type_u64, [INLAY_INT8] = &reduce_type_i8,
    [INLAY_UINT8] = &reduce_type_u8,      [INLAY_BOOL] = &reduce_type_flag,
};
const reduce_type *const reduce_real_types[INLAY_DTYPE_COUNT] = {
    [INLAY_FLOAT] = &reduce_type_f32,       [INLAY_DOUBLE] = &reduce_type_f64,
    [INLAY_FLOAT16] = &reduce_type_f16,     [INLAY_BFLOAT16] = &reduce_type_bf16,
    [INLAY_INT32] = &reduce_type_i32_real,  [INLAY_INT64] = &reduce_type_i64_real,
    [INLAY_UINT32] = &reduce_type_u32_real, [INLAY_UINT64] = &reduce_type_u64_real,
};
