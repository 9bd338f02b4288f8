/* cost.h - the prices of nodes. Private to cost.c and its parts: cost_layout.c answers which layouts values have, and
 * cost_conv.c prices convolutions. */
#ifndef CPU_COMPILE_COST_H
#define CPU_COMPILE_COST_H
#include "common/price.h"
#include "cpu/kernels/table.h"
#include "cpu/region/build.h"
#include "simd/cpu.h"

/* The conditions of the price of an op: the machine, and the threads of the run. */
typedef struct cost_machine {
    cpu_pace reference, local;
    kernel_machine kernels;
    price_memory memory;
} cost_machine;

typedef struct cost_sizes {
    double in, out, weights;                          /* bytes */
    const inlay_value_state *first, *second, *output; /* inputs 0 and 1, output 0; NULL: omitted */
} cost_sizes;

/* The state of a value of a list; NULL: omitted. */
const inlay_value_state *cost_state_of(const inlay_cost_request *request, const uint32_t *list, uint32_t count,
                                       uint32_t i);
bool cost_is_elementwise(const cpu_family *family);
/* True if the op will be fused into the producer of its input i (fuse.c). */
bool cost_is_fused(const cpu_state *state, const inlay_cost_request *request, const inlay_node_info *info, uint32_t i,
                   const cpu_op *op);
/* Convolutions choose the layouts of their operands. Other ops keep the layout of their input or need rows. */
bool cost_chooses_layout(const cpu_family *family);
/* True if a region makes the value in a layout that ops outside of it cannot read. */
bool cost_has_layout(const cpu_state *state, const inlay_graph *graph, uint32_t value);
/* True if a convolution reads the value, directly or after ops that keep its layout. */
bool cost_wants_layout(const cpu_state *state, const inlay_graph *graph, uint32_t value);
/* True if the op reads images in the layout of a convolution. */
bool cost_reads_layout(const cpu_state *state, const inlay_graph *graph, const cpu_op *op, const inlay_node_info *info);

/* The price of a convolution, by the kernel that the region will choose (choice/kernels.c). */
typedef struct cost_conv {
    double ns;          /* without changes of layout if row_major is false */
    double flops;       /* without the taps outside the image */
    bool row_major;     /* the kernel reads and writes row-major images */
    double entry_share; /* of the time to change the layout of the input */
} cost_conv;
/* false: a size is unknown, or no kernel supports the shape. */
bool cost_of_conv(const cpu_state *state, const inlay_graph *graph, const cpu_op *op, const inlay_node_info *info,
                  const cost_sizes *sizes, const kernel_machine *machine, double threads, cost_conv *out);
/* The time in which a transposed convolution adds the products of its taps, on one thread. */
double cost_of_sums(const cpu_op *op, const cost_sizes *sizes, const kernel_machine *machine);
#endif
