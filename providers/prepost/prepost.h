/* prepost.h - declarations shared by the files of the plugin.
 *
 * A file defines one or more operators: schema, shapes, examples and kernel of each in a constant prepost_<name> that
 * operators.def lists. Operators that onnxruntime-extensions also has keep its names and belong to its two domains,
 * ai.onnx.contrib and com.microsoft.extensions; the others belong to inlay.prepost. */
#ifndef PREPOST_H
#define PREPOST_H
#include "inlay/kit_kernel.h"
#include "inlay/note.h"

#define PREPOST_DOMAIN "inlay.prepost"
#define PREPOST_CONTRIB "ai.onnx.contrib"
#define PREPOST_EXTENSIONS "com.microsoft.extensions"

typedef struct prepost_operator {
    const char *op_type, *signature, *doc;
    bool extensions; /* an operator of onnxruntime-extensions */
    inlay_status (*infer)(void *ctx, inlay_infer *in, inlay_diag *diag);
    const inlay_op_example *examples;
    uint32_t example_count;
    kit_kernel kernel; /* domain and op_type are filled in */
} prepost_operator;

#define OPERATOR(name) extern const prepost_operator prepost_##name;
#include "prepost/operators.def"
#undef OPERATOR

/* The provider's settings; kit_node.provider points to them. */
typedef struct prepost_settings {
    int64_t max_pixels;
} prepost_settings;

static inline inlay_dim prepost_fixed(int64_t size)
{
    return (inlay_dim){ .value = size, .kind = INLAY_DIM_FIXED };
}
static inline inlay_dim prepost_open(void)
{
    return (inlay_dim){ .value = -1, .kind = INLAY_DIM_UNKNOWN };
}
static inline bool prepost_knows_rank(const inlay_value_info *value)
{
    return value != NULL && value->rank != INLAY_RANK_UNKNOWN;
}
/* Sets shape and rank of output `i`; its type comes from the schema. */
static inline inlay_status prepost_set(inlay_infer *in, uint32_t i, uint32_t rank, const inlay_dim *dims)
{
    return i < in->output_count ? in->set_output(in->ctx, i, INLAY_UNDEFINED, rank, dims) : INLAY_OK;
}
/* An inlay_infer: output 0 has the shape of input 0. */
inlay_status prepost_infer_same(void *ctx, inlay_infer *in, inlay_diag *diag);
/* An inlay_infer: output 0 is a list whose length depends on the data. */
inlay_status prepost_infer_list(void *ctx, inlay_infer *in, inlay_diag *diag);
/* Fails if the rank of input i is known and neither `one` nor `other`. */
inlay_status prepost_want_rank(const inlay_infer *in, uint32_t i, uint32_t one, uint32_t other, const char *shape,
                               inlay_diag *diag);

#define PREPOST_VIEW(array, sizes, type)                                                                               \
    {                                                                                                                  \
        .data = (array), .bytes = sizeof(array), .dims = (sizes), .rank = KIT_COUNT(sizes), .dtype = (type)            \
    }
#define PREPOST_STR(text)                                                                                              \
    {                                                                                                                  \
        (text), sizeof(text) - 1                                                                                       \
    }
#define PREPOST_ATTR_INT(title, value)                                                                                 \
    {                                                                                                                  \
        .name = PREPOST_STR(title), .kind = INLAY_ATTR_INT, .i = (value)                                               \
    }
#define PREPOST_ATTR_FLOAT(title, value)                                                                               \
    {                                                                                                                  \
        .name = PREPOST_STR(title), .kind = INLAY_ATTR_FLOAT, .f = (value)                                             \
    }
#define PREPOST_ATTR_STRING(title, text)                                                                               \
    {                                                                                                                  \
        .name = PREPOST_STR(title), .kind = INLAY_ATTR_STRING, .s = PREPOST_STR(text)                                  \
    }
#define PREPOST_EXAMPLE(title, attributes, ins, outs, tolerance)                                                       \
    {                                                                                                                  \
        .name = (title), .attrs = (attributes), .attr_count = KIT_COUNT(attributes),                                   \
        .attr_stride = sizeof(inlay_attr_info), .inputs = (ins), .input_count = KIT_COUNT(ins), .outputs = (outs),     \
        .output_count = KIT_COUNT(outs), .atol = (tolerance)                                                           \
    }
/* The same without attributes. */
#define PREPOST_PLAIN_EXAMPLE(title, ins, outs, tolerance)                                                             \
    {                                                                                                                  \
        .name = (title), .attr_stride = sizeof(inlay_attr_info), .inputs = (ins), .input_count = KIT_COUNT(ins),       \
        .outputs = (outs), .output_count = KIT_COUNT(outs), .atol = (tolerance)                                        \
    }
#define PREPOST_EXAMPLES(list) .examples = (list), .example_count = KIT_COUNT(list)

/* prepost_##name: an operator of onnxruntime-extensions whose output sizes are known only after the run. The arguments
 * after the list of examples initialise members of its kernel. */
#define PREPOST_EXTENSION(name, type, sign, text, shapes, list, ...)                                                   \
    const prepost_operator prepost_##name = { .op_type = (type),                                                       \
                                              .signature = (sign),                                                     \
                                              .doc = (text),                                                           \
                                              .extensions = true,                                                      \
                                              .infer = (shapes),                                                       \
                                              PREPOST_EXAMPLES(list),                                                  \
                                              .kernel = { .flags = KIT_SHAPES_AT_RUN, __VA_ARGS__ } };

/* The index of text in the list, or -1. */
int prepost_word(const char *text, const char *const *list, uint32_t count);
/* Refuses the node unless its string attribute is one of the words; true: accepted. */
bool prepost_one_of(const kit_node *node, const char *attr, const char *otherwise, const char *const *list,
                    uint32_t count, kit_refusal *why);
/* Allocates output i, unless its shape was known before the run. */
static inline inlay_status prepost_output(const kit_call *call, uint32_t i, uint32_t rank, const int64_t *dims)
{
    return call->out[i].data == NULL ? kit_alloc_output(call, i, rank, dims) : INLAY_OK;
}
/* Stores a copy of the text in a string element of an output. */
inlay_status prepost_put_string(const kit_call *call, inlay_str *to, const char *text, size_t bytes);
/* Sets cost->ns and its confidence; known: were the shapes known? */
static inline void prepost_cost(inlay_cost *cost, bool known, double ns)
{
    cost->ns = ns;
    cost->confidence = known ? INLAY_CONFIDENCE_MODEL : INLAY_CONFIDENCE_GUESS;
}
/* The cost of a run and of each element of input 0; guess: the number of elements if the shape is not known. */
static inline void prepost_cost_elements(inlay_cost *cost, const kit_plan *shapes, double run_ns, double element_ns,
                                         double guess)
{
    const int64_t count = shapes->in[0].count;

    prepost_cost(cost, count >= 0, run_ns + element_ns * (count >= 0 ? (double)count : guess));
}
#endif
