/* table.h - the parts of the table of kernels: conditions and models of time. */
#ifndef CPU_KERNEL_TABLE_H
#define CPU_KERNEL_TABLE_H
#include "cpu/choice/machine.h"

struct inlay_graph;

/* By default, a byte of packs beyond the weights must save this many nanoseconds of a run (pack_limit.c). */
#define KERNEL_LEAST_SAVED 0.01

/* True if tiled (register-blocked) convolution kernels exist for the layer. */
bool kernel_has_tiles(const cpu_state *state, const kernel_conv_shape *window);
/* Option pack_bytes (pack_limit.c): the bytes by which the packs of the region may exceed its weights, ... */
uint64_t kernel_pack_share(const inlay_compiled *compiled, const struct inlay_graph *graph);
/* ... and the kernels that this excludes. Before the groups are lowered. */
inlay_status kernel_limit_packs(cpu_build *build);
/* kernel_entry.defer of tiled convolutions (defer.c). */
inlay_status kernel_defer(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_waits);

/* Factor by which a kernel is slower at this instruction set than its model says. */
double kernel_pace(kernel_id kernel);
/* Time of a convolution on `threads` threads, without changes of layout from and to row-major, and without the time to
 * read weights. The images are channels-last; of kernels planes, rows and fft, row-major. */
double kernel_tiles_ns(const kernel_conv_shape *window, const kernel_machine *machine, double threads);
double kernel_winograd_4_ns(const kernel_conv_shape *window, const kernel_machine *machine, double threads);
double kernel_winograd_2_ns(const kernel_conv_shape *window, const kernel_machine *machine, double threads);
double kernel_depthwise_ns(const kernel_conv_shape *window, const kernel_machine *machine, double threads);
double kernel_planes_ns(const kernel_conv_shape *window, const kernel_machine *machine, double threads);
double kernel_rows_ns(const kernel_conv_shape *window, const kernel_machine *machine, double threads);
double kernel_fft_ns(const kernel_conv_shape *window, const kernel_machine *machine, double threads);
double kernel_groups_ns(const kernel_conv_shape *window, const kernel_machine *machine, double threads);
double kernel_gemm_ns(const kernel_conv_shape *window, const kernel_machine *machine, double threads);
/* With the time to read weights; kernel_entry.ns. */
double kernel_gemm_terms_ns(const cpu_build *build, const kernel_layer *layer, const kernel_machine *machine,
                            double threads);
/* Matrix multiplications (kernels/products.c; the lowerings are in product/product.c). */
bool kernel_packed_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why);
bool kernel_terms_run(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why);
bool kernel_sparse_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why);
bool kernel_batched_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why);
/* kernel_entry.ns. */
double kernel_packed_ns(const cpu_build *build, const kernel_layer *layer, const kernel_machine *machine,
                        double threads);
double kernel_terms_ns(const cpu_build *build, const kernel_layer *layer, const kernel_machine *machine,
                       double threads);
double kernel_sparse_ns(const cpu_build *build, const kernel_layer *layer, const kernel_machine *machine,
                        double threads);
double kernel_batched_ns(const cpu_build *build, const kernel_layer *layer, const kernel_machine *machine,
                         double threads);
/* What a matrix multiplication reads and writes, in bytes. */
typedef struct kernel_gemm_bytes {
    double read, written; /* activations */
    double weights;       /* constants */
    double graph;         /* all weights of the graph */
    double matrix;        /* the second operand if it is computed, otherwise 0 */
    double share;         /* of the second operand that is multiplied: below 1, its other blocks are zeros */
} kernel_gemm_bytes;
/* The price of a matrix multiplication of floats. */
double kernel_gemm_product_ns(const kernel_gemm_shape *product, const kernel_gemm_bytes *bytes,
                              const kernel_machine *machine, double threads);
/* The threads that share it, on average (dense.c). They divide it into panels of columns, and many rows into
 * blocks. */
double kernel_gemm_threads(const kernel_gemm_shape *product, double threads);
#endif
