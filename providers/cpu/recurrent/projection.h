/* projection.h - the input projection of a recurrent layer by matrix tiles (matrix/terms.h): one GEMM of all rows of X
 * before the first step. The rows of a strip do not depend on the division of samples among threads, and neither do the
 * results. */
#ifndef CPU_RECURRENT_PROJECTION_H
#define CPU_RECURRENT_PROJECTION_H
#include "cpu/matrix/terms.h"
#include "operators/recurrent/recurrent.h"

/* The nanoseconds that terms save for one direction of `rows` rows, on one thread; 0 or less: floats are as fast.
 * tile_pace: cpu_tile_pace(), or 1 for the reference core. */
double projection_saves_ns(const struct panels *weights, int64_t rows, bool strict, double tile_pace);
/* Packs W of `directions` directions from its panels. The caller frees the result; NULL: no memory. */
float *projection_pack(const struct panels *weights, const recurrent_weights *from, int64_t directions);

/* The GEMM of direction d: job->c is row-major, job->c_row elements a row (recurrent_projected). */
void projection_job(const sgemm_kernel *kernel, const recurrent_state *state, const recurrent_plan *plan,
                    const float *packed, int64_t d, bool strict, uint32_t threads, sgemm_job *job);
#endif
