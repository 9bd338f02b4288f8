/* library.h - oneDNN 2 and 3 behind one set of names. What both versions declare alike is called directly.
 *
 * A layout is a pointer to a memory descriptor: a struct of the caller in version 2, an opaque object in version 3. The
 * functions here hide the difference; dnnl_memory_create, dnnl_memory_desc_equal, dnnl_memory_desc_get_size and
 * dnnl_reorder_primitive_desc_create take these pointers in both versions. */
#ifndef ONEDNN_LIBRARY_H
#define ONEDNN_LIBRARY_H
#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdint.h>

#if DNNL_VERSION_MAJOR < 3
typedef dnnl_memory_desc_t *library_layout;
typedef const dnnl_memory_desc_t *library_const_layout;
#else
typedef dnnl_memory_desc_t library_layout;
typedef const_dnnl_memory_desc_t library_const_layout;
#endif

enum { LIBRARY_MAX_RANK = 12, LIBRARY_LAYOUT_WORDS = 64 };

/* Describes a tensor. strides [rank] in elements; NULL: the library chooses the layout. The caller destroys *out by
 * library_layout_destroy(). */
dnnl_status_t library_layout_create(dnnl_data_type_t type, uint32_t rank, const int64_t *dims, const int64_t *strides,
                                    library_layout *out);
dnnl_status_t library_layout_copy(library_const_layout layout, library_layout *out);
void library_layout_destroy(library_layout layout); /* NULL is a no-op */
/* Writes numbers that describe the layout, in every process, into words [LIBRARY_LAYOUT_WORDS]: rank, type, number of
 * blocks; dims, padded dims and strides of the axes; sizes and axes of the blocks, outermost first. Returns their
 * number; 0: the layout cannot be described by numbers. */
uint32_t library_layout_words(library_const_layout layout, int64_t *words);

/* An operation on tensors: a convolution, a deconvolution or a matrix multiplication (dnnl_convolution ...). */
typedef struct library_op {
    dnnl_primitive_kind_t kind;
    library_const_layout input, weights, bias, output; /* NULL: none */
    dnnl_dims_t strides, dilations, begins, ends;      /* of windows; dilation 0: adjacent taps; negative ends crop */
    bool adds;                                         /* adds the result to the contents of the output */
    dnnl_alg_kind_t function;                          /* applied to the result (dnnl_eltwise_*); undef: none */
    float function_alpha, function_beta;
} library_op;

/* Describes the library's preferred kernel for the operation; the caller provides the scratchpad and destroys *out by
 * dnnl_primitive_desc_destroy(). */
dnnl_status_t library_describe(dnnl_engine_t engine, const library_op *op, dnnl_primitive_desc_t *out);
#endif
