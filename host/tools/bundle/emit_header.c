/* The C header of a bundle: valid C names, and the functions with the sizes of the model. */
#include "bundle/emit.h"
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

static bool is_taken(const char *const *list, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(list[i], name) == 0)
            return true;
    return false;
}

static bool is_keyword(const char *name)
{
    static const char *const words[] = {
        "auto",   "break",    "case",     "char",     "const", "continue", "default", "do",     "double",
        "else",   "enum",     "extern",   "float",    "for",   "goto",     "if",      "inline", "int",
        "long",   "register", "restrict", "return",   "short", "signed",   "sizeof",  "static", "struct",
        "switch", "typedef",  "union",    "unsigned", "void",  "volatile", "while",   "buffer", "bytes",
        "bool",   "class",    "new",      "delete",   "this",  "template"
    };

    return is_taken(words, sizeof words / sizeof words[0], name);
}

static char *identifier(struct arena *arena, const char *text, const char *const *taken, uint32_t count)
{
    char *name = arena_format(arena, "%s%s", isalpha((unsigned char)text[0]) || text[0] == '_' ? "" : "x", text);

    for (char *c = name; c != NULL && *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) || (unsigned char)*c >= 0x80)
            *c = '_';
    for (uint32_t i = 2; name != NULL && (is_keyword(name) || is_taken(taken, count, name)); i++)
        name = arena_format(arena, "%s_%u", name, i);
    return name;
}

bool bundle_name(bundle_collection *collection, const char *api, bundle_names *out)
{
    const struct graph *graph = collection->parts[0].program->graph;
    const char **list =
        arena_array(&collection->arena, (size_t)graph->input_count + graph->output_count + 1, sizeof *list);

    out->name = "app";
    out->api = identifier(&collection->arena, api, NULL, 0);
    if (list == NULL || out->api == NULL)
        return false;
    for (uint32_t i = 0; i < graph->input_count + graph->output_count; i++) {
        const uint32_t value = i < graph->input_count ? graph->inputs[i] : graph->outputs[i - graph->input_count];

        list[i] = identifier(&collection->arena, graph->values[value].info.name.data, list, i);
        if (list[i] == NULL)
            return false;
    }
    out->inputs = list;
    out->outputs = list + graph->input_count;
    return true;
}

const char *bundle_c_type(inlay_dtype dtype)
{
    switch (inlay_dtype_bits(dtype)) {
    case 8:
        return dtype == INLAY_INT8 ? "int8_t" : "uint8_t";
    case 16:
        return dtype == INLAY_INT16 ? "int16_t" : "uint16_t";
    case 32:
        return dtype == INLAY_FLOAT ? "float" : dtype == INLAY_INT32 ? "int32_t" : "uint32_t";
    case 64:
        return dtype == INLAY_DOUBLE   ? "double"
               : dtype == INLAY_INT64  ? "int64_t"
               : dtype == INLAY_UINT64 ? "uint64_t"
                                       : NULL;
    default:
        return NULL;
    }
}

void bundle_write_parameters(FILE *to, const struct graph *graph, const bundle_names *names)
{
    for (uint32_t i = 0; i < graph->input_count + graph->output_count; i++) {
        const bool in = i < graph->input_count;
        const inlay_value_info *value =
            &graph->values[in ? graph->inputs[i] : graph->outputs[i - graph->input_count]].info;

        (void)fprintf(to, "%s%s%s %s%s", i > 0 ? ", " : "", in ? "const " : "", bundle_c_type(value->dtype),
                      value->rank == 0 ? "*" : "", in ? names->inputs[i] : names->outputs[i - graph->input_count]);
        for (uint32_t axis = 0; axis < value->rank; axis++)
            (void)fprintf(to, "[%" PRId64 "]", value->dims[axis].value);
    }
}

static inlay_status check_types(const struct graph *graph, inlay_diag *diag)
{
    for (uint32_t i = 0; i < graph->input_count + graph->output_count; i++) {
        const inlay_value_info *value =
            &graph->values[i < graph->input_count ? graph->inputs[i] : graph->outputs[i - graph->input_count]].info;

        if (bundle_c_type(value->dtype) == NULL)
            return inlay_fail(diag, INLAY_UNSUPPORTED,
                              "'%s' has type %s, which C does not have: append a Cast to the model", value->name.data,
                              inlay_dtype_name(value->dtype));
        for (uint32_t axis = 0; axis < value->rank; axis++)
            if (value->dims[axis].value == 0)
                return inlay_fail(diag, INLAY_UNSUPPORTED, "'%s' has no elements", value->name.data);
    }
    return INLAY_OK;
}

inlay_status bundle_emit_header(FILE *to, const bundle_collection *collection, const bundle_names *names,
                                const char *name, const bundle_facts *facts, inlay_diag *diag)
{
    const struct graph *graph = collection->parts[0].program->graph;
    const inlay_status status = check_types(graph, diag);

    if (status != INLAY_OK)
        return status;
    (void)fprintf(to,
                  "/* Generated by inlay bundle. Functions return 0 or an error code; %s_error() returns its message. "
                  "Use one thread\n"
                  " * at a time. */\n#ifndef BUNDLE_%s_H\n#define BUNDLE_%s_H\n#include <stdint.h>\n\n"
                  "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
                  name, name, name);
    if (facts->arena_bytes > 0)
        (void)fprintf(to,
                      "/* Size of the buffer of %s_start_in(), which must be aligned to 64 bytes. */\n"
                      "#define %s_ARENA_BYTES %" PRIu64 "\n\n",
                      name, name, facts->arena_bytes);
    (void)fprintf(to,
                  "/* Starts the model in allocated memory, or in a buffer that it keeps. Call it once. */\n"
                  "int %s_start(void);\nint %s_start_in(void *buffer, uint64_t bytes);\n\n"
                  "/* Runs the model, and starts it first if necessary. A started model allocates nothing. */\n"
                  "int %s_run(",
                  name, name, name);
    bundle_write_parameters(to, graph, names);
    (void)fprintf(to, ");\n/* The same, started in a buffer. */\nint %s_run_in(void *buffer, uint64_t bytes, ", name);
    bundle_write_parameters(to, graph, names);
    (void)fprintf(to, ");\nconst char *%s_error(void);\n\n#ifdef __cplusplus\n}\n#endif\n#endif\n", name);
    return INLAY_OK;
}
