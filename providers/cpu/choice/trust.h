/* trust.h - how far Winograd's algorithm is off with the weights of a layer: what is measured (tiles_error.c), kept
 * with their packs (weights.c), and asked before a kernel is taken (kernels.c). */
#ifndef CPU_TRUST_H
#define CPU_TRUST_H
#include "region/build.h"

/* What Winograd's algorithm does with the weights at hand, and the guard of a run (tiles_error.c). Kept between
 * sessions as it lies in memory. */
enum { TILE_MEASURED, TILE_NO_NUMBERS, TILE_INTEGERS, TILE_EXTREME };
typedef struct tile_trust {
    uint32_t verdict;   /* the rest counts only where this is TILE_MEASURED */
    float top;          /* the largest weight */
    double error;       /* the largest of all pictures, relative to the largest result of the picture */
    double times_plain; /* the same relative to the error of a plain sum */
    double uneven;      /* how much larger a pixel may be than the sum of those around a result; 0: never */
    float weight[];     /* [in] what a pixel's channels count in that: in (0, 1] */
} tile_trust;
#define TILE_MOST_ERROR 1e-5
#define TILE_MOST_TIMES 16.0
#define TILE_LEAST_TERMS 6.0 /* of a result: (sum of magnitudes)^2 / sum of squares, pixels weighed */
#define TILE_FAST_ERROR 1e-4 /* precision fast, which has no guard either */
uint64_t tiles_trust_bytes(int64_t in);
/* For weights [out, in, 3, 3] that lie as `plain` says; out: tiles_trust_bytes(in). false: out of memory. */
bool tiles_measure_trust(const cpu_state *state, const memory_desc *plain, const void *source, int64_t points,
                         tile_trust *out);
bool tiles_are_trusted(const cpu_state *state, const tile_trust *trust);
/* Why they are not, as the end of a sentence. */
void tiles_say_distrust(const cpu_state *state, const tile_trust *trust, char *text, size_t bytes);
#endif
