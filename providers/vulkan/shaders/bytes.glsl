// Products of 8-bit integers (tiles.comp, matrices.comp): exact sums in int32. An element of a tile is four neighbouring k of a row or
// column as signed bytes; unsigned elements, and their zero points, are moved by -128. The sum of (a - za) * (b - zb) is
// that of a * b, minus zb times that of a, minus za times that of b, plus za * zb for each term.
const uint A_MOVED = HAS(PRODUCT_A_UNSIGNED) ? 0x80u : 0u, B_MOVED = HAS(PRODUCT_B_UNSIGNED) ? 0x80u : 0u;
const bool HAS_ZA = (HOW & (PRODUCT_A_UNSIGNED | PRODUCT_A_ZERO)) != 0u;
const bool HAS_ZB = (HOW & (PRODUCT_B_UNSIGNED | PRODUCT_B_ZERO)) != 0u;
#define ONES 0x01010101u

#ifdef DOT
// OpSDot of operands in the packed format 0, 4 x 8 bits.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int packed_dot(uint a, uint b, spirv_literal int format);
int dot_of(uint a, uint b) { return packed_dot(a, b, 0); }
#else
int byte_of(uint x, int i) { return bitfieldExtract(int(x), 8 * i, 8); }
int dot_of(uint a, uint b)
{
    return byte_of(a, 0) * byte_of(b, 0) + byte_of(a, 1) * byte_of(b, 1) + byte_of(a, 2) * byte_of(b, 2) +
           byte_of(a, 3) * byte_of(b, 3);
}
#endif
int multiply_add(uint a, uint b, int sum) { return sum + dot_of(a, b); }

int zero_of_a()
{
    return bitfieldExtract(int((HAS(PRODUCT_A_ZERO) ? uint(U8(at[PUSH_OWN + 2]).v[0]) : 0u) ^ A_MOVED), 0, 8);
}
int zero_of_b(uint column)
{
    const uint zero = HAS(PRODUCT_B_ZERO) ? uint(U8(at[PUSH_OWN + 3]).v[column * word(B_ZERO_STEP)]) : 0u;

    return bitfieldExtract(int(zero ^ B_MOVED), 0, 8);
}

// What belongs to a column, whatever the row.
int own_terms(uint column)
{
    const int zeros = HAS_ZA && HAS_ZB ? int(k_size * taps) * zero_of_a() * zero_of_b(column) : 0;

    return zeros + (HAS(PRODUCT_BIAS) ? I32(at[PUSH_OWN + 4]).v[column] : 0);
}

// Four elements, `step` apart, of which `left` exist; others are 0.
uint four_of(uvec2 base, uint first, uint step, uint left, uint moved)
{
    uint four = 0u;

    [[unroll]] for (uint i = 0u; i < 4u; i++)
        if (i < left)
            four |= (uint(U8(base).v[first + i * step]) ^ moved) << (8u * i);
    return four;
}

// Elements from s on of a row or column. Padding has the value of the zero point.
uint unit_of_a(uint64_t row, uint s, bool inside)
{
    const uint left = k_size - s;

    if (HAS(PRODUCT_PADDED) && !inside)
        return (uint(zero_of_a()) & 0xffu) * ONES & (left < 4u ? (1u << 8u * left) - 1u : ~0u);
    if (HAS(PRODUCT_A_WIDE))
        return U32(unpackUint2x32(row)).v[s / 4u] ^ A_MOVED * ONES;
    return four_of(unpackUint2x32(row), s * a_step, a_step, left, A_MOVED);
}
uint unit_of_b(uint first, uint s, uint column)
{
    if (HAS(PRODUCT_PACKED))
        return U32(unpackUint2x32(b_base)).v[(first + s * b_step) / 4u + column];
    return four_of(unpackUint2x32(b_base), first + s * b_step + min(first_column + column, columns - 1u) * b_column,
                   b_step, k_size - s, B_MOVED);
}
