/* families.h - sets of families of operators by name, for programs of `inlay bundle` (simd/optional.h). */
#ifndef CPU_FAMILIES_H
#define CPU_FAMILIES_H

/* Families of the provider whose operators compute with bytes, as optional.h has them. */
#define CPU_BYTE_FAMILIES                                                                                              \
    "cpu_quantize cpu_dequantize cpu_dynamic cpu_int8_conv cpu_int8_product cpu_int_cast cpu_byte_clip"
#endif
