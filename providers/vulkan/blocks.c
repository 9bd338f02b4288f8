/* Weights of 2, 4 and 8 bits in blocks along k (MatMulNBits), each of which has a scale and may have a zero point. The
 * shaders of multiplications load them by load_blocks (shaders/product.glsl), which converts a weight to float. */
#include "simd/convert.h"
#include "inlay/check.h"
#include "vulkan/region.h"

vulkan_panels vulkan_block_panels(const vulkan_op *op)
{
    return (vulkan_panels){ .groups = 1,
                            .columns = kit_attr_int(&op->info, "N", 0),
                            .taps = 1,
                            .k = kit_attr_int(&op->info, "K", 0),
                            .bits = (uint32_t)kit_attr_int(&op->info, "bits", 4),
                            .block = (uint32_t)kit_attr_int(&op->info, "block_size", 0),
                            .scales = op->info.inputs[2],
                            .zeros = vulkan_input_value(op, 3) };
}

static int64_t blocks_of(const vulkan_panels *panels)
{
    return (panels->k + panels->block - 1) / panels->block;
}

/* Words of a block for each column: scale, zero point, weights. */
static int64_t words_of(const vulkan_panels *panels)
{
    return 1 + (panels->zeros != INLAY_NONE) + (int64_t)panels->block * panels->bits / 32;
}

uint64_t vulkan_block_bytes(const vulkan_panels *panels, int64_t width)
{
    return (uint64_t)((panels->columns + width - 1) / width * width * blocks_of(panels) * words_of(panels)) * 4;
}

/* Element i of a list of codes of `bits` bits. */
static uint32_t code_at(const uint8_t *codes, int64_t i, uint32_t bits)
{
    return (uint32_t)codes[i * bits / 8] >> i * bits % 8 & ((1u << bits) - 1);
}

/* The bits of element i of scales or zero points as float. */
static uint32_t float_at(const inlay_value_info *value, int64_t i)
{
    const char *data = value->data;
    uint16_t half;
    float x;

    if (value->dtype == INLAY_FLOAT) {
        memcpy(&x, data + i * 4, sizeof x);
    } else {
        memcpy(&half, data + i * 2, sizeof half);
        x = value->dtype == INLAY_FLOAT16 ? f16_to_f32(half) : bf16_to_f32(half);
    }
    return (uint32_t)vulkan_bits(x);
}

/* Columns of the last panel beyond the matrix keep a scale of 0. */
void vulkan_pack_blocks(const inlay_compiled *compiled, const inlay_compile_request *request,
                        const vulkan_constant *constant, int64_t width, uint32_t *to)
{
    const vulkan_panels *panels = &constant->panels;
    const int64_t blocks = blocks_of(panels);
    const uint32_t bits = panels->bits, per_word = 32 / bits;
    const bool has_zeros = panels->zeros != INLAY_NONE;
    const inlay_value_info *weights = inlay_graph_value(request->graph, compiled->values[constant->value].snapshot),
                           *scales = inlay_graph_value(request->graph, compiled->values[panels->scales].snapshot),
                           *zeros = has_zeros
                                        ? inlay_graph_value(request->graph, compiled->values[panels->zeros].snapshot)
                                        : NULL;
    const int64_t zero_bytes = (blocks * bits + 7) / 8; /* of a column, if zero points are codes */

    request->constants[compiled->values[panels->scales].snapshot] = INLAY_CONST_PACKED;
    if (has_zeros)
        request->constants[compiled->values[panels->zeros].snapshot] = INLAY_CONST_PACKED;
    for (int64_t n = 0; n < panels->columns; n++)
        for (int64_t b = 0; b < blocks; b++) {
            const int64_t i = n * blocks + b;
            const uint8_t *codes = (const uint8_t *)weights->data + i * panels->block * bits / 8;
            uint32_t *block = to + (n / width * blocks + b) * words_of(panels) * width + n % width;

            *block = float_at(scales, i);
            block += width;
            if (has_zeros) {
                *block =
                    zeros->dtype == INLAY_UINT8
                        ? (uint32_t)vulkan_bits((float)code_at((const uint8_t *)zeros->data + n * zero_bytes, b, bits))
                        : float_at(zeros, i);
                block += width;
            }
            for (uint32_t k = 0; k < panels->block; k++)
                block[k / per_word * width] |= code_at(codes, k, bits) << k % per_word * bits;
        }
}
