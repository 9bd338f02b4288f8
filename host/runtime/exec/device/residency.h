/* exec/device/residency.h - values that stay on a device until they are read elsewhere.
 *
 * A value is in one domain; a mirror is a copy in a second domain, made at most once per run. Memory that host and
 * device share is accessed by both without a copy. */
#ifndef EXEC_RESIDENCY_H
#define EXEC_RESIDENCY_H
#include "exec/run/run.h"

/* Creates a tensor in the session's memory on a device; it must be freed before the session. usage: INLAY_USE_*. */
INLAY_NODISCARD inlay_status device_value_create(struct runner *runner, uint32_t domain, uint32_t usage,
                                                 inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                                 inlay_value **out, inlay_diag *diag);
/* Initialises runner.out.shares. False: out of memory. */
bool init_output_shares(struct runner *runner);
/* Returns whether the domain's memory is shared with the host, so that run values can be accessed by both. False if the
 * user limits the device's memory: values there are then counted, and not shared. */
bool domain_is_shared(const program_env *env, uint32_t domain);
/* Creates a tensor in host memory; if possible in memory shared with the device that reads `value`. */
INLAY_NODISCARD inlay_status create_host_value(struct runner *runner, uint32_t value, inlay_dtype dtype, uint32_t rank,
                                               const int64_t *dims, inlay_value **out, inlay_diag *diag);
/* Returns whether `domain` can access the host memory of the value, importing it if necessary. *device_buffer: its
 * buffer in the domain. */
bool map_into_domain(const struct runner *runner, inlay_value *value, uint32_t domain, inlay_buffer *device_buffer);
/* Creates a tensor in memory that a domain (for which domain_is_shared() holds) shares with the host. */
INLAY_NODISCARD inlay_status shared_value_create(const struct runner *runner, uint32_t domain, inlay_dtype dtype,
                                                 uint32_t rank, const int64_t *dims, inlay_value **out,
                                                 inlay_diag *diag);
/* Returns whether device_value_create() made the value, in that domain, and the caller holds the only reference. */
bool device_value_is_exclusive(const inlay_value *value, uint32_t domain);
/* Copies the value to the domain; the copy is complete on return. */
INLAY_NODISCARD inlay_status copy_to_domain(struct runner *runner, const run_value *value, uint32_t domain,
                                            inlay_value **out, inlay_diag *diag);
/* Copies between two domains of the session, or within one; complete on return. */
INLAY_NODISCARD inlay_status copy_between_domains(struct runner *runner, const inlay_buffer *from,
                                                  const inlay_buffer *to, inlay_diag *diag);
/* The domain in which the caller wants output k. */
uint32_t runner_output_domain(const struct runner *runner, uint32_t k);
/* The domain where a run stores the result `value`: where a step reads it, or where the caller wants it; otherwise host
 * memory. */
uint32_t residency_domain(const struct runner *runner, uint32_t value);
/* Makes *current, which describes value `index`, readable in the domain; the value is copied at most once per run.
 * Lists and absent values are left unchanged. */
INLAY_NODISCARD inlay_status read_in_domain(struct runner *runner, struct bound *bound, uint32_t index, uint32_t domain,
                                            run_value *current, inlay_diag *diag);
/* Starts copying value `index`, which the run created in host memory, to the domain where a later step reads it. Errors
 * are reported when the value is read. */
void prefetch_begin(struct runner *runner, struct bound *bound, uint32_t index);
/* Waits until the mirror of the value is complete, or the device hangs. */
INLAY_NODISCARD inlay_status prefetch_wait(struct runner *runner, struct bound *bound, uint32_t index,
                                           inlay_diag *diag);
/* Returns whether the status says that a device is full. Values that the run holds there can then be moved to the
 * host. */
static inline bool is_out_of_room(inlay_status status)
{
    return status == INLAY_LIMIT_EXCEEDED || status == INLAY_OUT_OF_MEMORY;
}
/* The domain where the region that computes the value writes it; the host's domain if no region computes it. */
uint32_t producing_domain(const struct program *program, uint32_t value);
/* The domain where the value is read next, or wanted by the caller. */
uint32_t next_reader_domain(const struct runner *runner, uint32_t value);
/* The domain where a value for `domain` is stored: the host's if the memory is shared, otherwise the domain itself. */
uint32_t storage_domain(const struct runner *runner, uint32_t domain);
/* The domain, or the host's domain if its device is lost. */
uint32_t live_domain(const program_env *env, uint32_t domain);
/* Returns whether output `value` of the graph may stay on a device. */
bool output_can_be_resident(const struct graph *graph, uint32_t value);
/* Frees the results in list[output_count] that are in device memory. */
void release_device_values(struct runner *runner, inlay_value **list);
#endif
