/* panels/set.h - the multiplication functions of panels.h, compiled once for each instruction level. */
#ifndef PANELS_SET_H
#define PANELS_SET_H
#include "operators/panels.h"
#include "simd/instances.h"

typedef void panels_product_fn(const struct panels *panels, const void *packed, int64_t first, int64_t end,
                               bool backwards, int64_t rows, const void *const *x, const void *start, void *const *y);
panels_product_fn panels_f32_avx512, panels_f32_avx2, panels_f32_neon, panels_f32_rvv, panels_f32_wasm, panels_f32_c;
panels_product_fn panels_f64_avx512, panels_f64_avx2, panels_f64_neon, panels_f64_rvv, panels_f64_wasm, panels_f64_c;
__attribute__((weak)) panels_product_fn panels_f32_uniform, panels_f32_uniform_c, panels_f64_uniform,
    panels_f64_uniform_c;
#endif
