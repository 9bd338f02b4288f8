/* compile.h - compiles regions, and builds their instances. */
#ifndef CPU_COMPILE_H
#define CPU_COMPILE_H
#include "cpu/choice/kernels.h"
#include "inlay/extensions.h"
#include "inlay/plugin.h"

inlay_status cpu_compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                         inlay_diag *diag);
void cpu_release_compiled(void *state, inlay_compiled *compiled);
inlay_status cpu_specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                            inlay_instance **out_instance, inlay_diag *diag);
void cpu_release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance);
inlay_status cpu_cost(void *state, const inlay_cost_request *request, inlay_cost *cost, inlay_diag *diag);
/* Reads the options of numerical precision (options.c). */
void cpu_read_options(cpu_state *state, const inlay_create_args *args);

/* The order in which the region's nodes are read, as indices into request->nodes, if it needs much less memory than
 * that of the request; otherwise, or if out of memory, NULL. Free it with free() (order.c). */
uint32_t *cpu_order_nodes(const inlay_compile_request *request);

inlay_status cpu_instance_build(inlay_compiled *compiled, const inlay_value_state *values, uint32_t stride,
                                uint32_t value_count, const uint64_t *rooms, uint32_t threads,
                                const struct kernel_attempt *attempt, inlay_instance **out_instance, inlay_diag *diag);
void cpu_instance_destroy(inlay_instance *instance);
/* Ops with an empty input and a nonempty output (empty.c): sums, means and maxima of no elements. Other ops report an
 * error. */
bool cpu_reads_empty_input(const cpu_build *build);
inlay_status cpu_lower_empty_input(cpu_build *build, const cpu_group *group);

/* Extension inlay.control/1, and the list of regions that it trims (trim.c). cpu_region_unlist() does nothing for a
 * region that was not listed. */
void cpu_region_list(inlay_compiled *compiled);
void cpu_region_unlist(inlay_compiled *compiled);
inlay_status cpu_control(void *state, inlay_control_args *args, inlay_diag *diag);

/* Extension inlay.kernels/1 (tune.c). */
inlay_status kernel_list(void *state, const inlay_kernel_list *request, inlay_diag *diag);
inlay_status kernel_tune(void *state, inlay_compiled *compiled, const inlay_kernel_trial *request, inlay_diag *diag);
#endif
