/* machine.h - the properties of a machine that determine the time of a kernel, and the terms that the models of several
 * kernels share. Times are nanoseconds. */
#ifndef CPU_CHOICE_MACHINE_H
#define CPU_CHOICE_MACHINE_H
#include "common/price.h"
#include "cpu/choice/kernels.h"

typedef struct kernel_machine {
    double flops;  /* operations of a matrix multiplication on one core, per nanosecond */
    double other;  /* time of other vector instructions, relative to a Zen 4 with AVX-512 */
    double adders; /* speed of additions between multiplications, relative to a core with separate units for them */
    price_memory memory;
} kernel_machine;
/* This machine, by its kind of CPU or its profile. */
kernel_machine kernel_machine_of(const inlay_host *host);

#define KERNEL_CALL_NS 42.0         /* one more step in a region */
#define KERNEL_NEAR_BYTES 1048576.0 /* weights that stay in the cache next to the core */

/* Time of pixels by `vectors` vectors of filters, for sums of `depth` terms. */
double kernel_product_ns(const kernel_machine *machine, double pixels, double vectors, double depth);
/* Time of a tile (tile_set.h) of `depth` terms. */
double kernel_tile_ns(const kernel_machine *machine, double depth);
#define KERNEL_TILE_START_NS 12.7 /* the part of it that does not depend on the depth; times `other` */
/* Time of a vector of channels of a pixel of a depthwise convolution. */
double kernel_vector_ns(const kernel_machine *machine, double taps);
/* Convolutions with up to this many channels read row-major images. */
enum { KERNEL_FEW_CHANNELS = 4 };
/* Time to change the layout of bytes. */
double kernel_reorder_ns(const kernel_machine *machine, double bytes, double threads);
/* The share of the time of kernel_reorder_ns() that a kernel takes to change the layout of its row-major input. */
double kernel_entry_share(kernel_id kernel, const kernel_conv_shape *window);
/* Rows of at least this many pixels change their layout as tiles copy them into an image with a border. */
enum { KERNEL_BORDER_WIDTH = 16 };
/* Time to gather the pixels of a convolution (kernel_gather_pixels) from rows of `width` pixels. */
double kernel_gather_ns(const kernel_machine *machine, const kernel_conv_shape *window, int64_t width, double threads);
/* Bytes of the packed weights of a convolution. */
double kernel_conv_bytes(kernel_id kernel, const kernel_conv_shape *window);
/* Time to read weights during the computation. all: bytes of all weights of the graph, which a run reads between two
 * reads of these. */
double kernel_weights_ns(const kernel_machine *machine, double bytes, double all, double threads);
/* Time of a convolution with its weights: the price of its node, and what the choice among kernels compares. low_bit:
 * the weights are expanded in each run. */
double kernel_conv_ns(kernel_id kernel, const kernel_conv_shape *window, const kernel_machine *machine, double all,
                      bool low_bit, double threads);
#endif
