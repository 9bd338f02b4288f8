/* Schemas of operators (OrtOpSchema), which the host's extension inlay.schemas/1 provides. */
#include "ort_ep/provider.h"
#include <stdlib.h>
#include <string.h>

struct OrtOpSchemaTypeConstraint {
    char *name;
    char **types;    /* [type_count] */
    size_t *inputs;  /* [input_count] indices of the inputs with this constraint */
    size_t *outputs; /* [output_count] */
    size_t type_count, input_count, output_count;
};

/* A declared input or output. */
struct formal {
    char *name;
    OrtOpSchemaTypeConstraint *constraint; /* NULL: it states its types itself */
    bool is_variadic;
};

struct OrtOpSchema {
    int since_version;
    struct formal *inputs, *outputs; /* [input_count], [output_count] */
    size_t input_count, output_count;
    OrtOpSchemaTypeConstraint *constraints; /* [constraint_count] */
    size_t constraint_count;
    bool failed; /* while it is copied: no memory */
};

static void free_formals(struct formal *formals, size_t count)
{
    for (size_t i = 0; formals != NULL && i < count; i++)
        free(formals[i].name);
    free(formals);
}

void ort_ReleaseOpSchema(OrtOpSchema *schema)
{
    if (schema == NULL)
        return;
    free_formals(schema->inputs, schema->input_count);
    free_formals(schema->outputs, schema->output_count);
    for (size_t i = 0; schema->constraints != NULL && i < schema->constraint_count; i++) {
        OrtOpSchemaTypeConstraint *constraint = &schema->constraints[i];

        for (size_t k = 0; constraint->types != NULL && k < constraint->type_count; k++)
            free(constraint->types[k]);
        free(constraint->types);
        free(constraint->inputs);
        free(constraint->outputs);
        free(constraint->name);
    }
    free(schema->constraints);
    free(schema);
}

static bool copy_constraint(const inlay_schema_types *from, size_t inputs, size_t outputs,
                            OrtOpSchemaTypeConstraint *out)
{
    bool ok;

    out->name = strdup(from->name);
    out->types = calloc((size_t)from->type_count + 1, sizeof *out->types);
    out->inputs = calloc(inputs + 1, sizeof *out->inputs);
    out->outputs = calloc(outputs + 1, sizeof *out->outputs);
    ok = out->name != NULL && out->types != NULL && out->inputs != NULL && out->outputs != NULL;
    for (uint32_t i = 0; ok && i < from->type_count; i++) {
        out->types[i] = strdup(from->types[i]);
        ok = out->types[i] != NULL;
        out->type_count += ok;
    }
    return ok;
}

/* Only types with a name are constraints, as in ONNX. place_of: the index of the constraint for an index of the host's
 * types. */
static bool copy_formals(OrtOpSchema *schema, const inlay_schema *from, const size_t *place_of, bool is_output,
                         struct formal **out, size_t *out_count)
{
    const uint32_t count = is_output ? from->output_count : from->input_count;

    *out = calloc((size_t)count + 1, sizeof **out);
    for (uint32_t i = 0; *out != NULL && i < count; i++) {
        const inlay_formal *one =
            INLAY_AT(inlay_formal, is_output ? from->outputs : from->inputs, from->formal_stride, i);
        const size_t place = place_of[one->types];
        struct formal *copy = &(*out)[(*out_count)++];

        copy->name = strdup(one->name);
        copy->is_variadic = one->option == INLAY_FORMAL_VARIADIC || one->option == INLAY_FORMAL_VARIADIC_MIXED;
        if (copy->name == NULL)
            return false;
        if (place == SIZE_MAX)
            continue;
        copy->constraint = &schema->constraints[place];
        if (is_output)
            copy->constraint->outputs[copy->constraint->output_count++] = i;
        else
            copy->constraint->inputs[copy->constraint->input_count++] = i;
    }
    return *out != NULL;
}

static void receive(void *user, const inlay_schema *from)
{
    size_t *place_of = calloc((size_t)from->type_count + 1, sizeof *place_of);
    OrtOpSchema *schema = user;

    schema->since_version = (int)from->since_version;
    schema->constraints = calloc((size_t)from->type_count + 1, sizeof *schema->constraints);
    schema->failed = place_of == NULL || schema->constraints == NULL;
    for (uint32_t i = 0; !schema->failed && i < from->type_count; i++) {
        const inlay_schema_types *types = INLAY_AT(inlay_schema_types, from->types, from->types_stride, i);

        place_of[i] = types->name[0] == '\0' ? SIZE_MAX : schema->constraint_count++;
        if (place_of[i] != SIZE_MAX)
            schema->failed =
                !copy_constraint(types, from->input_count, from->output_count, &schema->constraints[place_of[i]]);
    }
    schema->failed = schema->failed ||
                     !copy_formals(schema, from, place_of, false, &schema->inputs, &schema->input_count) ||
                     !copy_formals(schema, from, place_of, true, &schema->outputs, &schema->output_count);
    free(place_of);
}

OrtStatus *ort_GetOpSchema(const char *name, int max_inclusive_version, const char *domain, OrtOpSchema **out_schema)
{
    const inlay_host *host = ep_host();
    const inlay_ext_schemas *schemas = host->extension(host->ctx, INLAY_EXT_SCHEMAS);
    inlay_diag diag = INLAY_DIAG_INIT;
    OrtOpSchema *schema;
    inlay_status status;

    ORT_NEED(name);
    ORT_NEED(domain);
    ORT_NEED(out_schema);
    *out_schema = NULL;
    if (schemas == NULL)
        return ort_fail(ORT_NOT_IMPLEMENTED, "GetOpSchema: this version of inlay states no schemas");
    schema = calloc(1, sizeof *schema);
    if (schema == NULL)
        return ort_no_memory();
    status = schemas->find(host->ctx, domain, name, max_inclusive_version, receive, schema, &diag);
    if (status == INLAY_OK && !schema->failed) {
        *out_schema = schema;
        return NULL;
    }
    ort_ReleaseOpSchema(schema);
    return status == INLAY_NOT_FOUND ? NULL : status == INLAY_OK ? ort_no_memory() : ort_from(status, &diag);
}

ORT_GETTER(ort_OpSchema_GetSinceVersion, const OrtOpSchema *, schema, int, out, schema->since_version)

static OrtStatus *check_index(size_t index, size_t count, const char *what)
{
    return index < count ? NULL : ort_fail(ORT_INVALID_ARGUMENT, "%s %zu of %zu of an operator", what, index, count);
}

ORT_GETTER(ort_OpSchema_GetNumInputs, const OrtOpSchema *, schema, size_t, out, schema->input_count)

OrtStatus *ort_OpSchema_GetInputName(const OrtOpSchema *schema, size_t index, const char **out)
{
    ORT_NEED(schema);
    ORT_NEED(out);
    ORT_TRY(check_index(index, schema->input_count, "input"));
    *out = schema->inputs[index].name;
    return NULL;
}

OrtStatus *ort_OpSchema_GetInputTypeConstraint(const OrtOpSchema *schema, size_t index,
                                               const OrtOpSchemaTypeConstraint **out)
{
    ORT_NEED(schema);
    ORT_NEED(out);
    ORT_TRY(check_index(index, schema->input_count, "input"));
    *out = schema->inputs[index].constraint;
    return NULL;
}

ORT_GETTER(ort_OpSchema_GetNumOutputs, const OrtOpSchema *, schema, size_t, out, schema->output_count)

OrtStatus *ort_OpSchema_GetOutputName(const OrtOpSchema *schema, size_t index, const char **out)
{
    ORT_NEED(schema);
    ORT_NEED(out);
    ORT_TRY(check_index(index, schema->output_count, "output"));
    *out = schema->outputs[index].name;
    return NULL;
}

OrtStatus *ort_OpSchema_GetOutputTypeConstraint(const OrtOpSchema *schema, size_t index,
                                                const OrtOpSchemaTypeConstraint **out)
{
    ORT_NEED(schema);
    ORT_NEED(out);
    ORT_TRY(check_index(index, schema->output_count, "output"));
    *out = schema->outputs[index].constraint;
    return NULL;
}

ORT_GETTER(ort_OpSchema_GetTypeConstraintCount, const OrtOpSchema *, schema, size_t, out, schema->constraint_count)

OrtStatus *ort_OpSchema_GetTypeConstraint(const OrtOpSchema *schema, size_t index,
                                          const OrtOpSchemaTypeConstraint **out)
{
    ORT_NEED(schema);
    ORT_NEED(out);
    ORT_TRY(check_index(index, schema->constraint_count, "type constraint"));
    *out = &schema->constraints[index];
    return NULL;
}

ORT_GETTER(ort_OpSchemaTypeConstraint_GetTypeParamName, const OrtOpSchemaTypeConstraint *, type_constraint,
           const char *, out, type_constraint->name)

OrtStatus *ort_OpSchemaTypeConstraint_GetAllowedTypes(const OrtOpSchemaTypeConstraint *type_constraint,
                                                      const char *const **out_types, size_t *num_types)
{
    ORT_NEED(type_constraint);
    ORT_NEED(out_types);
    ORT_NEED(num_types);
    *out_types = (const char *const *)type_constraint->types;
    *num_types = type_constraint->type_count;
    return NULL;
}

OrtStatus *ort_OpSchemaTypeConstraint_GetInputIndices(const OrtOpSchemaTypeConstraint *type_constraint,
                                                      const size_t **out_indices, size_t *count)
{
    ORT_NEED(type_constraint);
    ORT_NEED(out_indices);
    ORT_NEED(count);
    *out_indices = type_constraint->inputs;
    *count = type_constraint->input_count;
    return NULL;
}

OrtStatus *ort_OpSchemaTypeConstraint_GetOutputIndices(const OrtOpSchemaTypeConstraint *type_constraint,
                                                       const size_t **out_indices, size_t *count)
{
    ORT_NEED(type_constraint);
    ORT_NEED(out_indices);
    ORT_NEED(count);
    *out_indices = type_constraint->outputs;
    *count = type_constraint->output_count;
    return NULL;
}

static bool all_have_types(const struct formal *formals, size_t formal_count, const OrtValueInfo *const *values,
                           size_t count, const char *name, uint64_t types, bool *found)
{
    bool ok = true;

    for (size_t i = 0; i < count && formal_count > 0; i++) {
        const struct formal *one = &formals[i < formal_count ? i : formal_count - 1];

        if (i >= formal_count && !one->is_variadic)
            break;
        if (strcmp(one->name, name) != 0 && (one->constraint == NULL || strcmp(one->constraint->name, name) != 0))
            continue;
        *found = true;
        ok = ok && (values[i] == NULL || ep_value_has_type(values[i], types));
    }
    return ok;
}

bool ep_schema_fits(const OrtOpSchema *schema, const OrtNode *node, const char *name, uint64_t types)
{
    bool found = false;

    for (size_t i = 0; i < schema->constraint_count; i++)
        found = found || strcmp(schema->constraints[i].name, name) == 0;
    return all_have_types(schema->inputs, schema->input_count, node->inputs, node->input_count, name, types, &found) &&
           all_have_types(schema->outputs, schema->output_count, node->outputs, node->output_count, name, types,
                          &found) &&
           found;
}
