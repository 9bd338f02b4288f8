/* Kernels that a library registers: a definition (operator, versions, types, kinds of memory), and a function that
 * creates the kernel of a node. */
#include "ort_ep/provider.h"
#include <stdlib.h>
#include <string.h>

/* The types of a type parameter of the operator's schema. */
typedef struct type_constraint {
    char *name;
    uint64_t types; /* bits of ONNXTensorElementDataType */
} type_constraint;
typedef struct memory_type {
    size_t index;
    bool is_output;
    OrtMemType type;
} memory_type;
struct OrtKernelDef {
    char *op_type, *domain, *ep_name;
    int first_version, last_version;
    type_constraint *constraints; /* [constraint_count] */
    memory_type *memory_types;    /* [memory_type_count] inputs and outputs that are not in the EP's memory */
    size_t constraint_count, memory_type_count;
};
struct OrtKernelDefBuilder {
    OrtKernelDef def;
};
struct ep_kernel {
    OrtKernelDef *def;
    OrtKernelCreateFunc create;
    void *state;
};
struct OrtKernelRegistry {
    ep_kernel *kernels; /* [count] */
    size_t count;
};
struct OrtDataType {
    ONNXTensorElementDataType type;
};

static void clear_def(OrtKernelDef *def)
{
    for (size_t i = 0; i < def->constraint_count; i++)
        free(def->constraints[i].name);
    free(def->constraints);
    free(def->memory_types);
    free(def->op_type);
    free(def->domain);
    free(def->ep_name);
    *def = (OrtKernelDef){ 0 };
}

static bool add_constraint(OrtKernelDef *def, const char *name, uint64_t types)
{
    char *copy = strdup(name);

    if (copy == NULL || !ORT_GROW(def->constraints, def->constraint_count)) {
        free(copy);
        return false;
    }
    def->constraints[def->constraint_count++] = (type_constraint){ copy, types };
    return true;
}

static OrtStatus *add_memory_type(OrtKernelDef *def, size_t index, bool is_output, OrtMemType type)
{
    if (!ORT_GROW(def->memory_types, def->memory_type_count))
        return ort_no_memory();
    def->memory_types[def->memory_type_count++] = (memory_type){ index, is_output, type };
    return NULL;
}

static OrtKernelDef *copy_def(const OrtKernelDef *from)
{
    OrtKernelDef *def = calloc(1, sizeof *def);
    bool ok = def != NULL;

    if (!ok)
        return NULL;
    def->first_version = from->first_version;
    def->last_version = from->last_version;
    ok = ort_set_text(&def->op_type, from->op_type) && ort_set_text(&def->domain, from->domain) &&
         ort_set_text(&def->ep_name, from->ep_name);
    for (size_t i = 0; ok && i < from->constraint_count; i++)
        ok = add_constraint(def, from->constraints[i].name, from->constraints[i].types);
    for (size_t i = 0; ok && i < from->memory_type_count; i++) {
        OrtStatus *failed = add_memory_type(def, from->memory_types[i].index, from->memory_types[i].is_output,
                                            from->memory_types[i].type);

        ok = failed == NULL;
        ort_ReleaseStatus(failed);
    }
    if (!ok) {
        ort_ReleaseKernelDef(def);
        return NULL;
    }
    return def;
}

OrtStatus *ort_CreateKernelDefBuilder(OrtKernelDefBuilder **kernel_def_builder_out)
{
    ORT_NEED(kernel_def_builder_out);
    *kernel_def_builder_out = calloc(1, sizeof **kernel_def_builder_out);
    if (*kernel_def_builder_out == NULL)
        return ort_no_memory();
    (*kernel_def_builder_out)->def.first_version = 1;
    (*kernel_def_builder_out)->def.last_version = INT32_MAX;
    return NULL;
}

void ort_ReleaseKernelDefBuilder(OrtKernelDefBuilder *builder)
{
    if (builder != NULL)
        clear_def(&builder->def);
    free(builder);
}

static OrtStatus *set_text(char **text, const char *value)
{
    ORT_NEED(value);
    return ort_set_text(text, value) ? NULL : ort_no_memory();
}

OrtStatus *ort_KernelDefBuilder_SetOperatorType(OrtKernelDefBuilder *kernel_def_builder, const char *op_type)
{
    ORT_NEED(kernel_def_builder);
    return set_text(&kernel_def_builder->def.op_type, op_type);
}

OrtStatus *ort_KernelDefBuilder_SetDomain(OrtKernelDefBuilder *kernel_def_builder, const char *domain)
{
    ORT_NEED(kernel_def_builder);
    return set_text(&kernel_def_builder->def.domain, domain);
}

OrtStatus *ort_KernelDefBuilder_SetExecutionProvider(OrtKernelDefBuilder *kernel_def_builder, const char *ep_name)
{
    ORT_NEED(kernel_def_builder);
    return set_text(&kernel_def_builder->def.ep_name, ep_name);
}

OrtStatus *ort_KernelDefBuilder_SetSinceVersion(OrtKernelDefBuilder *kernel_def_builder, int since_version_start,
                                                int since_version_end)
{
    ORT_NEED(kernel_def_builder);
    if (since_version_start < 1 || since_version_end < since_version_start)
        return ort_fail(ORT_INVALID_ARGUMENT, "versions %d to %d of an operator", since_version_start,
                        since_version_end);
    kernel_def_builder->def.first_version = since_version_start;
    kernel_def_builder->def.last_version = since_version_end;
    return NULL;
}

OrtStatus *ort_KernelDefBuilder_SetInputMemType(OrtKernelDefBuilder *kernel_def_builder, size_t input_index,
                                                OrtMemType mem_type)
{
    ORT_NEED(kernel_def_builder);
    return add_memory_type(&kernel_def_builder->def, input_index, false, mem_type);
}

OrtStatus *ort_KernelDefBuilder_SetOutputMemType(OrtKernelDefBuilder *kernel_def_builder, size_t output_index,
                                                 OrtMemType mem_type)
{
    ORT_NEED(kernel_def_builder);
    return add_memory_type(&kernel_def_builder->def, output_index, true, mem_type);
}

OrtStatus *ort_KernelDefBuilder_AddTypeConstraint(OrtKernelDefBuilder *kernel_def_builder, const char *arg_name,
                                                  const OrtDataType *const *types, size_t num_types)
{
    uint64_t bits = 0;

    ORT_NEED(kernel_def_builder);
    ORT_NEED(arg_name);
    if (num_types > 0)
        ORT_NEED(types);
    for (size_t i = 0; i < num_types; i++)
        bits |= UINT64_C(1) << types[i]->type;
    return add_constraint(&kernel_def_builder->def, arg_name, bits) ? NULL : ort_no_memory();
}

/* Outputs that may share the memory of an input need not: kernels copy where the host has planned other memory. */
static OrtStatus *accept_aliases(const OrtKernelDefBuilder *kernel_def_builder, const int *input_indices,
                                 const int *output_indices)
{
    ORT_NEED(kernel_def_builder);
    ORT_NEED(input_indices);
    ORT_NEED(output_indices);
    return NULL;
}

OrtStatus *ort_KernelDefBuilder_AddInputOutputAliases(OrtKernelDefBuilder *kernel_def_builder, const int *input_indices,
                                                      const int *output_indices, size_t num_io_indices)
{
    (void)num_io_indices;
    return accept_aliases(kernel_def_builder, input_indices, output_indices);
}

OrtStatus *ort_KernelDefBuilder_AddInputOutputMutableAliases(OrtKernelDefBuilder *kernel_def_builder,
                                                             const int *input_indices, const int *output_indices,
                                                             size_t num_io_indices)
{
    (void)num_io_indices;
    return accept_aliases(kernel_def_builder, input_indices, output_indices);
}

OrtStatus *ort_KernelDefBuilder_Build(OrtKernelDefBuilder *kernel_def_builder, OrtKernelDef **kernel_def_out)
{
    ORT_NEED(kernel_def_builder);
    ORT_NEED(kernel_def_out);
    *kernel_def_out = NULL;
    if (kernel_def_builder->def.op_type == NULL)
        return ort_fail(ORT_INVALID_ARGUMENT, "a kernel has no operator: call KernelDefBuilder_SetOperatorType");
    *kernel_def_out = copy_def(&kernel_def_builder->def);
    return *kernel_def_out != NULL ? NULL : ort_no_memory();
}

void ort_ReleaseKernelDef(OrtKernelDef *def)
{
    if (def != NULL)
        clear_def(def);
    free(def);
}

const char *ort_KernelDef_GetOperatorType(const OrtKernelDef *kernel_def)
{
    return kernel_def->op_type;
}

const char *ort_KernelDef_GetDomain(const OrtKernelDef *kernel_def)
{
    return kernel_def->domain != NULL ? kernel_def->domain : "";
}

const char *ort_KernelDef_GetExecutionProvider(const OrtKernelDef *kernel_def)
{
    return kernel_def->ep_name != NULL ? kernel_def->ep_name : "";
}

OrtStatus *ort_KernelDef_GetSinceVersion(const OrtKernelDef *kernel_def, int *start_version, int *end_version)
{
    ORT_NEED(kernel_def);
    ORT_NEED(start_version);
    ORT_NEED(end_version);
    *start_version = kernel_def->first_version;
    *end_version = kernel_def->last_version;
    return NULL;
}

static OrtMemType memory_type_of(const OrtKernelDef *def, size_t index, bool is_output)
{
    for (size_t i = 0; i < def->memory_type_count; i++)
        if (def->memory_types[i].index == index && def->memory_types[i].is_output == is_output)
            return def->memory_types[i].type;
    return ORT_MEM_DEFAULT;
}

OrtStatus *ort_KernelDef_GetInputMemType(const OrtKernelDef *kernel_def, size_t input_index, OrtMemType *mem_type)
{
    ORT_NEED(kernel_def);
    ORT_NEED(mem_type);
    *mem_type = memory_type_of(kernel_def, input_index, false);
    return NULL;
}

OrtStatus *ort_KernelDef_GetOutputMemType(const OrtKernelDef *kernel_def, size_t output_index, OrtMemType *mem_type)
{
    ORT_NEED(kernel_def);
    ORT_NEED(mem_type);
    *mem_type = memory_type_of(kernel_def, output_index, true);
    return NULL;
}

OrtStatus *ort_GetTensorDataType(ONNXTensorElementDataType elem_type, const OrtDataType **out)
{
    static const OrtDataType types[ORT_DTYPE_COUNT] = {
        { 0 },  { 1 },  { 2 },  { 3 },  { 4 },  { 5 },  { 6 },  { 7 },  { 8 },  { 9 },  { 10 }, { 11 }, { 12 }, { 13 },
        { 14 }, { 15 }, { 16 }, { 17 }, { 18 }, { 19 }, { 20 }, { 21 }, { 22 }, { 23 }, { 24 }, { 25 }, { 26 },
    };

    ORT_NEED(out);
    *out = NULL;
    if (ort_dtype(elem_type) == INLAY_UNDEFINED)
        return ort_fail(ORT_INVALID_ARGUMENT, "element type %d does not exist", elem_type);
    *out = &types[elem_type];
    return NULL;
}

OrtStatus *ort_CreateKernelRegistry(OrtKernelRegistry **kernel_registry)
{
    ORT_NEED(kernel_registry);
    *kernel_registry = calloc(1, sizeof **kernel_registry);
    return *kernel_registry != NULL ? NULL : ort_no_memory();
}

void ort_ReleaseKernelRegistry(OrtKernelRegistry *registry)
{
    if (registry == NULL)
        return;
    for (size_t i = 0; i < registry->count; i++)
        ort_ReleaseKernelDef(registry->kernels[i].def);
    free(registry->kernels);
    free(registry);
}

OrtStatus *ort_KernelRegistry_AddKernel(OrtKernelRegistry *kernel_registry, const OrtKernelDef *kernel_def,
                                        OrtKernelCreateFunc kernel_create_func, void *kernel_create_func_state)
{
    OrtKernelDef *def;

    ORT_NEED(kernel_registry);
    ORT_NEED(kernel_def);
    ORT_NEED(kernel_create_func);
    def = copy_def(kernel_def);
    if (def == NULL || !ORT_GROW(kernel_registry->kernels, kernel_registry->count)) {
        ort_ReleaseKernelDef(def);
        return ort_no_memory();
    }
    kernel_registry->kernels[kernel_registry->count++] =
        (ep_kernel){ def, kernel_create_func, kernel_create_func_state };
    return NULL;
}

/* Whether a node of an operator without a schema, a custom one, has types that a constraint permits: T and T1 are the
 * type of the first input; others are of some input or output. */
static bool guess_fit(const OrtNode *node, const type_constraint *constraint)
{
    if ((strcmp(constraint->name, "T") == 0 || strcmp(constraint->name, "T1") == 0) && node->input_count > 0)
        return ep_value_has_type(node->inputs[0], constraint->types);
    for (size_t i = 0; i < node->input_count; i++)
        if (ep_value_has_type(node->inputs[i], constraint->types))
            return true;
    for (size_t i = 0; i < node->output_count; i++)
        if (ep_value_has_type(node->outputs[i], constraint->types))
            return true;
    return false;
}

static bool fits_constraints(const OrtKernelDef *def, const OrtNode *node)
{
    OrtOpSchema *schema = NULL;
    bool ok = true;

    if (def->constraint_count == 0)
        return true;
    ort_ReleaseStatus(
        ort_GetOpSchema(node->info->op_type.data, (int)node->info->since_version, node->info->domain.data, &schema));
    for (size_t i = 0; ok && i < def->constraint_count; i++)
        ok = schema != NULL ? ep_schema_fits(schema, node, def->constraints[i].name, def->constraints[i].types)
                            : guess_fit(node, &def->constraints[i]);
    ort_ReleaseOpSchema(schema);
    return ok;
}

static bool fits(const OrtKernelDef *def, const char *ep_name, const OrtNode *node)
{
    const char *domain = ort_KernelDef_GetDomain(def), *own = ort_KernelDef_GetExecutionProvider(def);
    const char *node_domain = node->info->domain.data;
    const int version = (int)node->info->since_version;

    if (strcmp(def->op_type, node->info->op_type.data) != 0 || version < def->first_version ||
        version > def->last_version || (own[0] != '\0' && strcmp(own, ep_name) != 0))
        return false;
    return strcmp(domain[0] != '\0' ? domain : "ai.onnx", node_domain) == 0 && fits_constraints(def, node);
}

const OrtKernelDef *ep_kernel_find(const OrtKernelRegistry *registry, const char *ep_name, const OrtNode *node)
{
    for (size_t i = 0; registry != NULL && i < registry->count; i++)
        if (fits(registry->kernels[i].def, ep_name, node))
            return registry->kernels[i].def;
    return NULL;
}

OrtStatus *ep_kernel_create(const OrtKernelRegistry *registry, const OrtKernelDef *found, const OrtKernelInfo *info,
                            OrtKernelImpl **out)
{
    *out = NULL;
    for (size_t i = 0; i < registry->count; i++)
        if (registry->kernels[i].def == found)
            ORT_TRY(registry->kernels[i].create(registry->kernels[i].state, info, out));
    return *out != NULL ? NULL : ort_fail(ORT_EP_FAIL, "no kernel was created");
}

void ort_ReleaseKernelImpl(OrtKernelImpl *kernel)
{
    if (kernel != NULL && kernel->Release != NULL)
        kernel->Release(kernel);
}

ORT_GETTER(ort_KernelInfo_GetEp, const OrtKernelInfo *, info, const OrtEp *, ep, info->ep)
