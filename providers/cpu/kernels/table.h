/* table.h - the parts of the table of kernels: conditions and models of time. */
#ifndef CPU_KERNEL_TABLE_H
#define CPU_KERNEL_TABLE_H
#include "cpu/choice/kernels.h"

struct inlay_graph;

/* The measured speed of Winograd's algorithm relative to a direct convolution. It depends on the size of the output,
 * since a small one fills few tiles, and on the channels. 0: not supported for this window, or slower. */
bool cpu_winograd_fits(const cpu_op *op, int64_t in, int64_t out);
double cpu_winograd_gain(const cpu_op *op, int64_t in, int64_t out, int64_t height, int64_t width);
/* True if tiled (register-blocked) convolution kernels exist for the layer. */
bool kernel_has_tiles(const cpu_build *build, const kernel_layer *layer);
/* Option pack_bytes (pack_limit.c): the bytes by which the packs of the region may exceed its weights, ... */
uint64_t kernel_pack_share(const inlay_compiled *compiled, const struct inlay_graph *graph);
/* ... and the kernels that this excludes. Before the groups are lowered. */
inlay_status kernel_limit_packs(cpu_build *build);
/* kernel_entry.defer of tiled convolutions (defer.c). */
inlay_status kernel_defer(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_waits);

/* Factor by which a kernel is slower at this instruction set than its model says. */
double kernel_pace(kernel_id kernel);
double kernel_tiles_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_winograd_ns(const kernel_layer *layer, int64_t points);
double kernel_depthwise_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_planes_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_rows_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_fft_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_groups_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_gemm_terms_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_gemm_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);

/* Matrix multiplications (kernels/products.c; the lowerings are in product/product.c). */
bool kernel_packed_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why);
bool kernel_terms_run(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why);
bool kernel_sparse_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why);
bool kernel_batched_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why);
double kernel_packed_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_terms_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_sparse_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_batched_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
#endif
