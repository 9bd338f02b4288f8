/* pack.c - packs strided matrices of all types that the microkernels support. */
#include "simd/convert.h"
#include "operators/gemm.h"

#define SAME(element) (element)
#define WIDEN(element) ((double)(element))

#define SRC float
#define DST float
#define LOAD SAME
#define SCALED 0
#define NAME(name) f32_##name
#include "operators/gemm/pack.inc"
#undef NAME
#undef SCALED
#define SCALED 1
#define NAME(name) f32_scaled_##name
#include "operators/gemm/pack.inc"
#undef NAME
#undef LOAD
#undef SRC
#define SRC uint16_t
#define LOAD f16_to_f32
#define NAME(name) f16_##name
#include "operators/gemm/pack.inc"
#undef NAME
#undef LOAD
#define LOAD bf16_to_f32
#define NAME(name) bf16_##name
#include "operators/gemm/pack.inc"
#undef NAME
#undef LOAD
#undef SRC
#undef DST
#define SRC double
#define DST double
#define LOAD SAME
#define NAME(name) f64_##name
#include "operators/gemm/pack.inc"
#undef NAME
#undef LOAD
#undef SRC
#define SRC float
#define LOAD WIDEN
#define NAME(name) f64_from_f32_##name
#include "operators/gemm/pack.inc"
#undef NAME
#undef LOAD
#undef SCALED
#undef SRC
#undef DST
#define SCALED 0
#define LOAD SAME
#define SRC uint32_t
#define DST uint32_t
#define NAME(name) u32_##name
#include "operators/gemm/pack.inc"
#undef NAME
#undef SRC
#undef DST
#define SRC uint64_t
#define DST uint64_t
#define NAME(name) u64_##name
#include "operators/gemm/pack.inc"
#undef NAME
#undef SRC
#undef DST

#define SRC int8_t
#define NAME(name) s8_##name
#include "operators/gemm/pack_s16.inc"
#undef NAME
#undef SRC
#define SRC uint8_t
#define NAME(name) u8_##name
#include "operators/gemm/pack_s16.inc"
#undef NAME
#undef SRC

/* Packs bfloat16 into panels of quads along k. */
static void bf16_quads_pack(const gemm_operand *self, int64_t batch, int64_t line, int64_t line_end, int64_t k0,
                            int64_t k1, uint32_t width, void *out)
{
    enum { QUAD = 4 };
    const int64_t ks = self->k_stride, depth = k1 - k0, whole = depth / QUAD * QUAD;
    const int64_t panel = gemm_round_up(depth, QUAD) * width;
    const uint16_t *from =
        (const uint16_t *)self->data + gemm_matrix_index(self, batch) * self->matrix_stride + k0 * ks;
    uint16_t *to = out;

    for (int64_t l0 = line; l0 < line_end; l0 += width, to += panel) {
        const int64_t lines = line_end - l0 < width ? line_end - l0 : width;

        if (lines < width || whole < depth)
            memset(to, 0, (size_t)panel * sizeof *to);
        for (int64_t k = 0; k < depth; k += QUAD) {
            const uint16_t *input = from + l0 * self->line_stride + k * ks;
            const int64_t count = k < whole ? QUAD : depth - whole;

            for (int64_t l = 0; l < lines; l++, input += self->line_stride)
                for (int64_t i = 0; i < count; i++)
                    to[(k * width + l * QUAD) + i] = input[i * ks];
        }
    }
}

static void f32_either_pack(const gemm_operand *self, int64_t batch, int64_t line, int64_t line_end, int64_t k0,
                            int64_t k1, uint32_t width, void *out)
{
    bool scaled = self->scale != 0 && self->scale != 1;
    (scaled ? f32_scaled_pack : f32_pack)(self, batch, line, line_end, k0, k1, width, out);
}

gemm_pack_fn gemm_strided_pack(uint32_t type, inlay_dtype dtype)
{
    static const gemm_pack_fn table[GEMM_TYPE_COUNT][INLAY_DTYPE_COUNT] = {
        [GEMM_F32] = { [INLAY_FLOAT] = f32_either_pack, [INLAY_FLOAT16] = f16_pack, [INLAY_BFLOAT16] = bf16_pack },
        [GEMM_F64] = { [INLAY_DOUBLE] = f64_pack, [INLAY_FLOAT] = f64_from_f32_pack },
        [GEMM_U32] = { [INLAY_UINT32] = u32_pack, [INLAY_INT32] = u32_pack },
        [GEMM_U64] = { [INLAY_UINT64] = u64_pack, [INLAY_INT64] = u64_pack },
        [GEMM_S16] = { [INLAY_INT8] = s8_pack, [INLAY_UINT8] = u8_pack },
        [GEMM_BF16] = { [INLAY_BFLOAT16] = bf16_quads_pack },
    };
    return type < GEMM_TYPE_COUNT && dtype > 0 && dtype < INLAY_DTYPE_COUNT ? table[type][dtype] : NULL;
}

uint32_t gemm_type_of(inlay_dtype dtype)
{
    for (uint32_t type = 0; type < GEMM_TYPE_COUNT; type++)
        if (gemm_strided_pack(type, dtype) != NULL)
            return type;
    return GEMM_TYPE_COUNT;
}
