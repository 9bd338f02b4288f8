/* layer.h - recurrent layers in regions. */
#ifndef CPU_RECURRENT_LAYER_H
#define CPU_RECURRENT_LAYER_H
#include "cpu/region/region.h"

struct inlay_cost;
struct inlay_node_info;

struct inlay_compile_request;
struct inlay_cost_request;

/* Packs the constant weights of a recurrent layer. op is otherwise complete. Called by compile only. */
inlay_status cpu_recurrent_prepare(inlay_compiled *compiled, const struct inlay_compile_request *request,
                                   const struct inlay_node_info *info, cpu_op *op, inlay_diag *diag);
void cpu_recurrent_release(cpu_op *op);
/* Adds the cost of a recurrent layer. */
void cpu_recurrent_cost(const cpu_state *state, const struct inlay_cost_request *request,
                        const struct inlay_node_info *info, struct inlay_cost *cost);
#endif
