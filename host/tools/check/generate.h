/* check/generate.h - generates the cases of an operator: shapes from recipes.def or a general list, in every element
 * type; for a plugin's own operators also the shapes of their examples at other sizes. */
#ifndef CHECK_GENERATE_H
#define CHECK_GENERATE_H
#include "check/case.h"

/* An operator at one version. */
typedef struct case_source {
    const char *domain, *op_type;
    int64_t opset;
    const op_schema *schema;
    const inlay_operator *own; /* NULL: an operator of ONNX */
    bool random;
} case_source;

typedef struct case_range {
    uint64_t seed;
    uint32_t scale; /* value of n in recipes.def, at least 1 */
    bool quick;     /* fewer general shapes, and only the first shapes in the other element types */
    bool scaled;    /* only shapes that grow with the scale, in one element type */
} case_range;

/* Calls fn with each case, its elements filled in; fn returns false to stop. fn may keep the case: it copies
 * *entry and sets entry->arena to zero. A case may be invalid; case_graph() then fails. */
typedef bool (*case_fn)(void *user, op_case *entry);
void generate_cases(const case_source *source, const case_range *range, case_fn fn, void *user);

/* Calls fn with one case in the usual element types. inputs and attrs as in recipes.def; inputs NULL: the shape `shape`
 * for every required input. false: fn has ended the generation. */
bool generate_one(const case_source *source, const case_range *range, const char *inputs, const char *shape,
                  uint32_t outputs, const char *attrs, case_fn fn, void *user);
/* Calls fn with the examples of a plugin's operator, `more` added to all of their sizes; where that makes many
 * elements, to the sizes alone that are equal to that of the last axis. */
void generate_larger_examples(const case_source *source, const case_range *range, int64_t more, case_fn fn, void *user);
/* Calls fn with cases of an operator of a plugin in which tensors have no elements: shapes of a general list, and its
 * examples with some or all of their sizes 0. */
void generate_empty(const case_source *source, const case_range *range, case_fn fn, void *user);
/* Calls fn with cases of an operator of a plugin, which takes any number of inputs, with `inputs` inputs: its examples,
 * whose last input is repeated; an operator without examples gets tensors of one shape. */
void generate_variadic(const case_source *source, const case_range *range, uint32_t inputs, case_fn fn, void *user);
/* Does recipes.def have rows for the operator? Operators without one take one shape for every input. */
bool generate_has_recipe(const char *op_type);

/* generate_cases() for an operator of a plugin. */
void generate_operator(const inlay_operator *op, case_fn fn, void *user, const case_range *range);

/* Calls fn with every operator: first ONNX's, one version at a time (newest: the last version only) without the
 * internal and deprecated ones, then the operators in custom. match is a glob on the operator's type, or NULL. */
typedef bool (*source_fn)(void *user, const case_source *source);
void generate_sources(const inlay_operator *const *custom, uint32_t custom_count, const char *match, bool newest,
                      source_fn fn, void *user);
#endif
