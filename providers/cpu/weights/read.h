/* read.h - reads values while a region is lowered: the place of a value in a layout that the kernel accepts. */
#ifndef CPU_READ_H
#define CPU_READ_H
#include "cpu/region/build.h"

/* The place of a value, without gaps, with its axes in any order. Constants are row-major. */
inlay_status cpu_read(cpu_build *build, uint32_t value, cpu_place *out);
/* The same, but rows may have gaps: the place may be a part of a larger tensor. */
inlay_status cpu_read_strided(cpu_build *build, uint32_t value, cpu_place *out);
/* The same in row-major order; the elements are reordered if needed. */
inlay_status cpu_read_plain(cpu_build *build, uint32_t value, cpu_place *out);
/* The input of an operator that adds elements: cpu_read_plain() with option reproducible, so that the order of sums
 * does not depend on the layout that other nodes choose, and so not on where a model is cut; otherwise cpu_read(). */
inlay_status cpu_read_summed(cpu_build *build, uint32_t value, cpu_place *out);
/* The same; a constant may not be aligned for its type: model files do not align tensors. */
inlay_status cpu_read_unaligned(cpu_build *build, uint32_t value, cpu_place *out);
/* The 16-bit elements of a constant that a Cast makes floats, as the model has them, and not aligned. cpu_halves_of:
 * the functions of the build's kernel for their type; NULL: it is another constant. */
const sgemm_halves *cpu_halves_of(const cpu_build *build, uint32_t value);
inlay_status cpu_read_halves(cpu_build *build, uint32_t value, cpu_place *out);
/* The same in the given layout. */
inlay_status cpu_read_as(cpu_build *build, uint32_t value, const tensor_layout *layout, cpu_place *out);
/* A constant in the given layout. plain: dims and strides with which the original is read. */
inlay_status cpu_read_constant(cpu_build *build, uint32_t value, const tensor_layout *plain,
                               const tensor_layout *layout, cpu_place *out);
/* The elements of a constant as the model has them, for use while a region is lowered; NULL: value is INLAY_NONE or not
 * a constant. They are restored from a pack if the original was dropped. Not for low-bit constants (low_bit.h). */
inlay_status cpu_read_original(cpu_build *build, uint32_t value, const void **out);
/* A constant vector of `count` floats, such as a bias. */
inlay_status cpu_read_floats(cpu_build *build, uint32_t value, int64_t count, cpu_place *out);
#endif
