/* builder.h - building an instance for concrete shapes: its state, and the steps that all groups add (steps.c). */
#ifndef ONEDNN_BUILDER_H
#define ONEDNN_BUILDER_H
#include "onednn/provider.h"

enum { MOST_ELEMENTS = INT32_MAX }; /* of a tensor */

/* A tensor at concrete sizes. */
struct tensor {
    const int64_t *dims;
    uint32_t rank;
};

/* State of instance_build(). */
struct builder {
    const onednn_state *state;
    inlay_compiled *compiled;
    const struct group *group;
    const pack_source *source;
    inlay_instance *instance;
    struct tensor operands[OPERAND_COUNT], output;
    uint64_t workspace; /* bytes */
    bool reduced;
    bool alone; /* the work is too short for several threads */
    inlay_diag *diag;
};

/* Layouts of a group: the plain layouts of its tensors, and the layouts that builder_describe() gets. */
struct layouts {
    library_layout input, weights, bias, output;
    library_layout any_input, any_weights, any_output;
};

/* The number of elements; above MOST_ELEMENTS for any larger number. */
int64_t tensor_count(const struct tensor *tensor);
/* Describes a row-major tensor. */
dnnl_status_t layout_make_plain(dnnl_data_type_t type, uint32_t rank, const int64_t *dims, library_layout *out);
/* Where the tensor of an operand is: an input of the run or a constant. */
struct place builder_place(const struct builder *builder, uint32_t operand);
/* Room in the workspace. */
struct place builder_take(struct builder *builder, uint64_t bytes);
/* Creates the primitive of a description as the next step. */
dnnl_status_t builder_add_step(struct builder *builder, const_dnnl_primitive_desc_t description, bool alone,
                               struct step **out);
/* Adds an operand to a step; number: DNNL_ARG_*. */
dnnl_status_t builder_add_operand(const struct builder *builder, struct step *step, int number,
                                  library_const_layout layout, struct place place);
/* Adds a change of layout, by the loops of copy.c or else by the library. */
dnnl_status_t builder_add_reorder(struct builder *builder, library_const_layout from, struct place source,
                                  library_const_layout to, struct place target);
/* Changes *place to one that has the layout `wanted`, by a reorder if necessary. */
dnnl_status_t builder_read_as(struct builder *builder, library_const_layout plain, library_const_layout wanted,
                              struct place *inout);
/* Adds the operand scratchpad, if the kernel needs one. */
dnnl_status_t builder_add_scratchpad(struct builder *builder, struct step *step,
                                     const_dnnl_primitive_desc_t description);
/* Describes the library's kernel; dnnl_unimplemented: it has a reference loop only. */
dnnl_status_t builder_describe(const struct builder *builder, library_op *op, bool *out_alone,
                               dnnl_primitive_desc_t *out);
/* Describes a kernel with packed weights: one that reads the existing pack of the slice, or else the preferred one, for
 * which the weights are packed. `any` and `plain` are layouts of the weights. */
inlay_status builder_describe_packed(struct builder *builder, library_op *op, uint32_t part, library_const_layout any,
                                     library_const_layout plain, const float *data, const weights_pack **out_pack,
                                     bool *out_alone, dnnl_primitive_desc_t *out);
/* Frees those that are not NULL. */
void layouts_destroy(struct layouts *layouts);

/* Adds the steps of a convolution or transposed convolution (window.c), and of a matrix multiplication (product.c). */
inlay_status builder_add_window(struct builder *builder);
inlay_status builder_add_product(struct builder *builder);
#endif
