/* provider.h - what the files of this provider share. */
#ifndef XNNPACK_PROVIDER_H
#define XNNPACK_PROVIDER_H
#include "inlay/kit_region.h"
#include <pthread.h>
#include <pthreadpool.h>
#include <sys/types.h>
#include <xnnpack.h>

enum {
    IMAGE_RANK = 4,  /* tensors of this rank have the layout NHWC inside a region, all others ONNX's */
    MOST_RANK = 6,   /* XNN_MAX_TENSOR_DIMS */
    MOST_INPUTS = 3, /* of a node that has constants */
    MOST_THREADS = 64
};

enum operator_kind {
    KIND_CONV,
    KIND_GEMM,
    KIND_MATMUL,
    KIND_MAX_POOL,
    KIND_AVERAGE_POOL,
    KIND_GLOBAL_AVERAGE,
    KIND_ADD,
    KIND_SUB,
    KIND_MUL,
    KIND_RELU,
    KIND_CLIP,
    KIND_HARDSWISH,
    KIND_SIGMOID,
    KIND_SOFTMAX,
    KIND_RESHAPE,
    KIND_CONCAT,
    KIND_COUNT /* none of these */
};

/* Returns the kind of a node; KIND_COUNT: XNNPACK does not have the operator. */
enum operator_kind operator_of(const inlay_node_info *node);
/* A kit_fits_fn. */
bool operator_fits(void *ctx, const kit_node *node, uint32_t n, inlay_offer *offer, kit_refusal *why);
/* Reads the bounds of a Relu or Clip. low_data and high_data are the elements of inputs 1 and 2; NULL: omitted. */
void clamp_bounds(const inlay_node_info *node, const void *low_data, const void *high_data, float *out_low,
                  float *out_high);

/* A window that slides over height (0) and width (1). */
struct window {
    int64_t size[2], stride[2], dilation[2], before[2], after[2]; /* in elements */
};
/* Reads the attributes of a convolution or pooling. kernel, in and out are [height, width]; kernel NULL: attribute
 * kernel_shape. in and out determine the padding where auto_pad or ceil_mode leave it open. */
struct window window_of(const inlay_node_info *node, const int64_t *kernel, const int64_t *in, const int64_t *out);

inlay_status price_offer(void *state, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag);
inlay_status price_region(void *state, const inlay_region_cost_request *request, inlay_cost *out, inlay_diag *diag);

/* A tensor at the border of a region. */
struct border {
    uint64_t offset;                 /* of XNNPACK's copy in the instance's memory, in bytes */
    int64_t batch, channels, pixels; /* elements; a tensor that is not an image has one pixel */
};
/* Converts a tensor from ONNX's layout into XNNPACK's, or back, on the threads of the pool; NULL: the calling thread.
 */
void layout_enter(pthreadpool_t pool, const struct border *border, const float *from, float *to);
void layout_leave(pthreadpool_t pool, const struct border *border, const float *from, float *to);
/* Permutes a constant [dims] to [order[0] of dims, ...]; rank is at most 4. from may be misaligned. */
void layout_permute(const void *from, const int64_t dims[4], const int order[4], float *to);

struct provider {
    const inlay_host *host;
    int64_t most_threads; /* option threads; 0 = the limit of the run */
    pthread_mutex_t mutex;
    pthreadpool_t pools[MOST_THREADS + 1]; /* by number of threads, made when first needed */
    /* the process that made the pools: a child after fork() has none of their threads */
    pid_t process;
};

/* Returns the number of threads of a region, including the calling one; max_threads is the limit of the run. */
uint32_t provider_threads(const struct provider *provider, uint32_t max_threads);

/* The constant inputs of a node in XNNPACK's layout; NULL: not a constant, or not read by XNNPACK. */
struct node_constants {
    const float *data[MOST_INPUTS];
    bool borrowed[MOST_INPUTS]; /* data is the host's */
};

struct inlay_compiled {
    kit_region region;
    enum operator_kind *kinds;        /* [region.node_count] */
    struct node_constants *constants; /* [region.node_count] */
    uint32_t *borders;                /* [input_count + output_count] indices into region.values */
};

/* A region that is being defined for concrete shapes. */
struct definition {
    const inlay_compiled *compiled;
    const inlay_specialize_request *shapes;
    xnn_subgraph_t graph;
    uint32_t *ids; /* [region.value_count] XNNPACK's number of a value */
};
/* Converts the constants of node n as its definition needs them. */
inlay_status define_constants(const inlay_host *host, const inlay_compile_request *request, inlay_compiled *compiled,
                              uint32_t n, inlay_diag *diag);
/* Adds node n to the subgraph. */
enum xnn_status define_node(struct definition *definition, uint32_t n);
const inlay_value_state *define_state(const struct definition *definition, uint32_t value);
/* Writes the sizes of a value in XNNPACK's layout. */
void define_dims(const inlay_value_state *state, size_t dims[MOST_RANK]);
/* Reads the bounds of a Relu or Clip of a compiled region. */
void clamp_of(const inlay_compiled *compiled, const inlay_node_info *node, float *out_low, float *out_high);
/* Returns the axis of a Concat in XNNPACK's layout. */
size_t concat_axis(const inlay_node_info *node, uint32_t rank);

/* A value of an instance, in XNNPACK's layout. */
struct plain_value {
    size_t dims[MOST_RANK];
    uint32_t rank;
    uint64_t offset, bytes; /* in the workspace; of values inside the region */
};
/* Returns whether one of the elements is NaN or infinite. */
bool plain_is_needed(const float *x, int64_t count);
/* Computes node n. data and values are parallel to region.values. */
void plain_run(const inlay_compiled *compiled, const struct plain_value *values, float *const *data, uint32_t n);

inlay_status region_compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                            inlay_diag *diag);
void region_release_compiled(void *state, inlay_compiled *compiled);
inlay_status region_specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out_instance, inlay_diag *diag);
void region_release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance);
inlay_status region_execute(void *state, inlay_compiled *compiled, inlay_instance *instance,
                            const inlay_exec_args *args);
#endif
