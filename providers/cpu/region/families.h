/* families.h - names of operator families that `inlay bundle` links together or leaves out (simd/optional.h). */
#ifndef CPU_FAMILIES_H
#define CPU_FAMILIES_H

/* The families of int8 operators, as a list for optional.h. */
#define CPU_BYTE_FAMILIES                                                                                              \
    "cpu_quantize cpu_dequantize cpu_dynamic cpu_int8_conv cpu_int8_product cpu_int_cast cpu_byte_clip "               \
    "cpu_bias_cast cpu_int_bias"
#endif
