/* tile_amx.h - tiles (tile.h) in the registers of AMX. Only where tile_problem() (cpu.h) is NULL. */
#ifndef SIMD_TILE_AMX_H
#define SIMD_TILE_AMX_H
#include <immintrin.h>

#define TILE_STAYS 1
typedef struct tile_file {
    const tile_shapes *shapes;
} tile_file;

/* Memory at p is up to date. GCC's intrinsics do not tell the compiler which memory they read. */
#define TILE_READS(p) __asm__ volatile("" : : "r"(p) : "memory")

static inline void tile_begin(tile_file *s, const tile_shapes *shapes)
{
    s->shapes = shapes;
    TILE_READS(shapes);
    _tile_loadconfig(shapes);
}

/* Some intrinsics of GCC are statements. */
#define TILE_DO(s, ...)                                                                                                \
    do {                                                                                                               \
        (void)(s);                                                                                                     \
        __VA_ARGS__;                                                                                                   \
    } while (0)
#define tile_end(s) TILE_DO(s, _tile_release())
#define tile_zero(s, t) TILE_DO(s, _tile_zero(t))
#define tile_load(s, t, p, step) TILE_DO(s, TILE_READS(p); _tile_loadd(t, p, step))
#define tile_load_once(s, t, p, step) TILE_DO(s, TILE_READS(p); _tile_stream_loadd(t, p, step))
#define tile_store(s, t, p, step) TILE_DO(s, _tile_stored(t, p, step))
#define tile_dot_uu(s, c, a, b) TILE_DO(s, _tile_dpbuud(c, a, b))
#define tile_dot_us(s, c, a, b) TILE_DO(s, _tile_dpbusd(c, a, b))
#define tile_dot_su(s, c, a, b) TILE_DO(s, _tile_dpbsud(c, a, b))
#define tile_dot_ss(s, c, a, b) TILE_DO(s, _tile_dpbssd(c, a, b))
#define tile_dot_bf16(s, c, a, b) TILE_DO(s, _tile_dpbf16ps(c, a, b))
#endif
