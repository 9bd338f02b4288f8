// Elements of SIZE bytes, whatever their type.
layout(constant_id = ID_OWN) const uint SIZE = 4u;

void copy_element(uint to, uvec2 source, uint from)
{
    switch (SIZE) {
    case 1u: U8(at[PUSH_OUT]).v[to] = uint8_t(uint(U8(source).v[from])); break;
    case 2u: U16(at[PUSH_OUT]).v[to] = uint16_t(uint(U16(source).v[from])); break;
    case 4u: U32(at[PUSH_OUT]).v[to] = U32(source).v[from]; break;
    default: U32x2(at[PUSH_OUT]).v[to] = U32x2(source).v[from]; break;
    }
}
