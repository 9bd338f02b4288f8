/* panels/set.h - the products of panels.h, compiled once per instruction-set level. */
#ifndef PANELS_SET_H
#define PANELS_SET_H
#include "panels.h"

#define PANELS_FUNCTION(name)                                                                                          \
    void name(const panels *p, const void *packed, int64_t first, int64_t end, bool backwards, int64_t rows,           \
              const void *const *x, const void *start, void *const *y);
PANELS_FUNCTION(panels_f32_base) /* what the compiler's target has */
PANELS_FUNCTION(panels_f64_base)
PANELS_FUNCTION(panels_f32_avx2) /* x86-64-v3 */
PANELS_FUNCTION(panels_f64_avx2)
PANELS_FUNCTION(panels_f32_avx512) /* x86-64-v4 */
PANELS_FUNCTION(panels_f64_avx512)
#undef PANELS_FUNCTION
#endif
