/* exec/device/stay.h - values that stay on a device, for as long as nobody reads them elsewhere. */
#ifndef EXEC_STAY_H
#define EXEC_STAY_H
#include "exec/run/run.h"

/* A tensor on a device, of the session's memory there; gone before the session. */
INLAY_NODISCARD inlay_status stay_make(struct runner *runner, uint32_t domain, inlay_dtype dtype, uint32_t rank,
                                       const int64_t *dims, inlay_value **out, inlay_diag *diag);
/* Sets runner.out.shares. False: no memory. */
bool stay_share(struct runner *runner);
/* Is the domain's memory the host's, too, so that values of the run lie in both? Where the user limits a device's
 * memory, what is kept there is counted, and lies there alone. */
bool stay_is_shared(const program_env *env, uint32_t domain);
/* A tensor in host memory, which a device that reads v there has in common with the host where that is possible. */
INLAY_NODISCARD inlay_status create_host_value(struct runner *runner, uint32_t v, inlay_dtype dtype, uint32_t rank,
                                               const int64_t *dims, inlay_value **out, inlay_diag *diag);
/* Does the domain know the memory of value, which is at home, or can it be told of it? *there: as it does. */
bool map_into_domain(const struct runner *runner, inlay_value *value, uint32_t domain, inlay_buffer *there);
/* One in the memory of such a domain. */
INLAY_NODISCARD inlay_status stay_make_shared(uint32_t domain, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                              inlay_value **out, inlay_diag *diag);
/* Is it such a tensor, in that domain, that nobody else holds? */
bool stay_is_free(const inlay_value *value, uint32_t domain);
/* A copy of value in that domain, made when it returns. */
INLAY_NODISCARD inlay_status stay_move(struct runner *runner, const rt_value *value, uint32_t domain, inlay_value **out,
                                       inlay_diag *diag);
/* Copies between two domains that the session knows, or within one; returns when it is done. */
INLAY_NODISCARD inlay_status stay_copy(struct runner *runner, const inlay_buffer *from, const inlay_buffer *to,
                                       inlay_diag *diag);
/* The domain in which output k is wanted. */
uint32_t runner_wanted(const struct runner *runner, uint32_t k);
/* Where what a run makes of v stays: where a step reads it, or the caller wants it; otherwise in the host's memory. */
uint32_t stay_domain(const struct runner *runner, uint32_t v);
/* Value v, which *value is, in that domain: it is copied at most once in a run. A list or an absent value is left. */
INLAY_NODISCARD inlay_status stay_read(struct runner *runner, struct bound *bound, uint32_t v, uint32_t domain,
                                       rt_value *value, inlay_diag *diag);
/* Begins to copy v, which the run has made at home, to where a later step reads it. What that lacks, it will say then.
 */
void stay_begin(struct runner *runner, struct bound *bound, uint32_t v);
/* The twin of v is there, or the device hangs. */
INLAY_NODISCARD inlay_status stay_arrive(struct runner *runner, struct bound *bound, uint32_t v, inlay_diag *diag);
/* Has the device no room for it? What a run holds there can come home then. */
static inline bool stay_lacks_room(inlay_status status)
{
    return status == INLAY_LIMIT_EXCEEDED || status == INLAY_OUT_OF_MEMORY;
}
/* Where a value of the program lies when the region that makes it is done; the host's domain where none makes it. */
uint32_t stay_made_in(const struct program *program, uint32_t v);
/* Where v is read next, or wanted. */
uint32_t stay_next_domain(const struct runner *runner, uint32_t v);
/* What both know is at home. */
uint32_t stay_home_of(const struct runner *runner, uint32_t domain);
/* The domain, or the host's where its device is lost: nothing stays there. */
uint32_t stay_unless_lost(const program_env *env, uint32_t domain);
/* May output v of the graph stay on a device? */
bool stay_can(const struct graph *graph, uint32_t v);
/* Memory that results ([output_count]) had on a device, and will not have again. */
void stay_drop_results(struct runner *runner, inlay_value **list);
#endif
