/* families.h - sets of families of operators by name, for programs of `inlay bundle` (simd/optional.h). */
#ifndef CPU_FAMILIES_H
#define CPU_FAMILIES_H

/* Families of the provider whose operators compute with bytes, as optional.h has them. */
#define RG_BYTE_FAMILIES "rg_quantize rg_dequantize rg_dynamic rg_int8_conv rg_int8_product rg_int_cast rg_byte_clip"
#endif
