// Common part of every shader: extensions, addresses, types.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_spirv_intrinsics : require
#include "opcodes.h"
// SignedZeroInfNanPreserve for 32 bits: drivers must not assume that there is no NaN.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(push_constant) uniform push_constants { uvec2 at[PUSH_COUNT]; };

#define ADDRESSED(name, type, bytes) \
    layout(buffer_reference, std430, buffer_reference_align = bytes) buffer name { type v[]; };
ADDRESSED(F32, float, 4) ADDRESSED(F16, float16_t, 2) ADDRESSED(I8, int8_t, 1) ADDRESSED(U8, uint8_t, 1)
ADDRESSED(I16, int16_t, 2) ADDRESSED(U16, uint16_t, 2) ADDRESSED(I32, int, 4) ADDRESSED(U32, uint, 4)
ADDRESSED(U32x2, uvec2, 8) ADDRESSED(I64, int64_t, 8)

// Extends x to 64 bits. The built-in conversion is not used, since Mesa 22.3's CPU driver compares its results as
// unsigned numbers. All conversions from int to int64_t use this function.
int64_t wide(int x) { return packInt2x32(ivec2(x, x >> 31)); }

// A word of the dispatch's parameters. gpu_patch.c may replace a call with a literal by the word itself. Loops over
// dimensions therefore select among literals, and count down to 0, which Mesa unrolls.
uint word(const uint k) { return U32(at[PUSH_PARAMS]).v[k]; }
#define iword(k) int(word(k))
#define fword(k) uintBitsToFloat(word(k))
#define WORD_3(k, d) ((d) == 0u ? word(k) : (d) == 1u ? word((k) + 1u) : word((k) + 2u))
#define IWORD_3(k, d) int(WORD_3(k, d))
#define WORD_4(k, d) ((d) == 3u ? word((k) + 3u) : WORD_3(k, d))
#define WORD_8(k, d) ((d) < 4u ? WORD_4(k, d) : WORD_4((k) + 4u, (d) - 4u))

// Splits z by three batch sizes, which start at word `first`; the strides of each tensor follow.
#define BATCHES(first) \
    const uint z2 = z % word(first + 2u), z1 = z / word(first + 2u) % word(first + 1u), \
               z0 = z / word(first + 2u) / word(first + 1u);
#define BATCH_AT(k) (z0 * word(BATCH + k) + z1 * word(BATCH + k + 1u) + z2 * word(BATCH + k + 2u))

// Linear indexes of the workgroup and of the invocation. Workgroups count along x, then y, since one dimension is
// limited to 65535.
uint workgroup() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }
uint invocation() { return workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationID.x; }

bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }
bool is_inf(float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0x7f800000u; }
float nan() { return uintBitsToFloat(0x7fc00000u); }
float inf() { return uintBitsToFloat(0x7f800000u); }

// The nearest float16, by integers: compilers may replace two conversions by none.
float rounded_to_f16(float x)
{
    const uint bits = floatBitsToUint(x), size = bits & 0x7fffffffu, sign = bits ^ size;

    if (size >= 0x7f800000u)
        return x;
    if (size >= 0x477ff000u) // 65520 and more
        return uintBitsToFloat(sign | 0x7f800000u);
    if (size < 0x38800000u) { // multiples of 2^-24
        precise float shifted = uintBitsToFloat(size) + 0.5;

        shifted -= 0.5;
        return uintBitsToFloat(sign | floatBitsToUint(shifted));
    }
    return uintBitsToFloat((bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu);
}

float from_bf16(uint x) { return uintBitsToFloat(x << 16); }
uint to_bf16(float x)
{
    const uint b = floatBitsToUint(x);

    return is_nan(x) ? (b >> 16) | 0x40u : (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
}

// Four floats from element i on, a multiple of four. bytes: of an element: 4, or 2 for float16.
ADDRESSED(F32x4, vec4, 16)
vec4 load_four(uvec2 base, uint i, uint bytes)
{
    if (bytes == 4u)
        return F32x4(base).v[i / 4u];
    const uvec2 x = U32x2(base).v[i / 4u];

    return vec4(unpackHalf2x16(x.x), unpackHalf2x16(x.y));
}

// Eight floats from element i on, a multiple of eight; float16 by one load.
ADDRESSED(U32x4, uvec4, 16)
void load_eight(uvec2 base, uint i, uint bytes, out vec4 low, out vec4 high)
{
    if (bytes == 4u) {
        low = F32x4(base).v[i / 4u];
        high = F32x4(base).v[i / 4u + 1u];
        return;
    }
    const uvec4 x = U32x4(base).v[i / 8u];

    low = vec4(unpackHalf2x16(x.x), unpackHalf2x16(x.y));
    high = vec4(unpackHalf2x16(x.z), unpackHalf2x16(x.w));
}
