#include "bundle/emitter.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "base/memory.h"
#include <inttypes.h>
#include <string.h>

static void mark_used(struct emitter *emitter, uint32_t part, uint32_t value)
{
    if (value != INLAY_NONE)
        emitter->value[part][value] = 0;
}

/* Numbers the values that nodes use and the inputs and outputs; the others remain of nodes that were optimized away. */
static bool number_values(struct emitter *emitter)
{
    bundle_collection *collection = emitter->collection;

    emitter->value = arena_array(&collection->arena, (size_t)collection->part_count + 1, sizeof *emitter->value);
    emitter->values = arena_array(&collection->arena, (size_t)collection->part_count + 1, sizeof *emitter->values);
    for (uint32_t i = 0; emitter->value != NULL && emitter->values != NULL && i < collection->part_count; i++) {
        const struct graph *graph = collection->parts[i].program->graph;

        emitter->value[i] = arena_array(&collection->arena, (size_t)graph->value_count + 1, sizeof **emitter->value);
        if (emitter->value[i] == NULL)
            return false;
        memset(emitter->value[i], 0xff, graph->value_count * sizeof **emitter->value);
        for (uint32_t node = 0; node < graph->node_count; node++) {
            for (uint32_t k = 0; k < graph->nodes[node]->info.input_count; k++)
                mark_used(emitter, i, graph->nodes[node]->info.inputs[k]);
            for (uint32_t k = 0; k < graph->nodes[node]->info.output_count; k++)
                mark_used(emitter, i, graph->nodes[node]->info.outputs[k]);
        }
        for (uint32_t k = 0; k < graph->input_count; k++)
            mark_used(emitter, i, graph->inputs[k]);
        for (uint32_t k = 0; k < graph->output_count; k++)
            mark_used(emitter, i, graph->outputs[k]);
        for (uint32_t value = 0; value < graph->value_count; value++)
            if (emitter->value[i][value] == 0 || collection->parts[i].item_of[value] != INLAY_NONE)
                emitter->value[i][value] = emitter->values[i]++;
    }
    return emitter->value != NULL && emitter->values != NULL;
}

static void put_place(struct emitter *emitter, uint32_t item)
{
    static const char *const kinds[] = { "BUNDLE_SLAB", "BUNDLE_INPUT", "BUNDLE_OUTPUT", "BUNDLE_DATA" };
    const bundle_item *place = &emitter->collection->items[item];

    INLAY_CHECK(item < emitter->collection->item_count);
    (void)fprintf(emitter->to, "{ %s, %u, %" PRIu64 "u, %" PRIu64 "u, ", kinds[place->kind], place->index,
                  place->kind == ITEM_SLAB ? place->offset : 0, place->bytes);
    if (place->kind == ITEM_DATA)
        (void)fprintf(emitter->to, "%s_data + %" PRIu64 "u }, ", emitter->names->name, place->offset);
    else
        (void)fputs("0 }, ", emitter->to);
}

static void put_numbers(struct emitter *emitter, const char *name, uint32_t first, uint32_t second,
                        const uint32_t *list, uint32_t count)
{
    (void)fprintf(emitter->to, "static const uint32_t %s%u_%u[] = { ", name, first, second);
    for (uint32_t i = 0; i < count; i++)
        (void)fprintf(emitter->to, "%uu, ", list[i]);
    (void)fprintf(emitter->to, "0 };\n");
}

static void put_region(struct emitter *emitter, uint32_t step)
{
    const bundle_operation *operation = &emitter->collection->steps[step];
    const partition_region *region = operation->step->region;
    const struct program *program = emitter->collection->parts[operation->part].program;

    INLAY_CHECK(operation->opcode == DO_RUN);
    put_numbers(emitter, "rn", step, 0, region->nodes, region->node_count);
    emit_values_of(emitter, "ri", step, 0, operation->part, region->inputs, region->input_count);
    emit_values_of(emitter, "ro", step, 0, operation->part, region->outputs, region->output_count);
    (void)fprintf(emitter->to, "static const uint64_t rc%u_0[] = { ", step);
    for (uint32_t i = 0; i < region->offer_count; i++)
        (void)fprintf(emitter->to, "%" PRIu64 "u, ", program->parts.offers[region->offers[i]].cookie);
    (void)fprintf(emitter->to, "0 };\n");
}

static void put_regions(struct emitter *emitter)
{
    for (uint32_t i = 0; i < emitter->collection->step_count; i++)
        if (emitter->collection->steps[i].opcode == DO_RUN)
            put_region(emitter, i);
    (void)fprintf(emitter->to, "static const bundle_region regions[] = {\n");
    for (uint32_t i = 0; i < emitter->collection->step_count; i++) {
        const bundle_operation *operation = &emitter->collection->steps[i];

        if (operation->opcode == DO_RUN)
            (void)fprintf(
                emitter->to, "    { %s, &graph%u, states%u, rn%u_0, rc%u_0, ri%u_0, ro%u_0, %u, %u, %u, %u },\n",
                bundle_is_region(emitter->collection, operation) ? "BUNDLE_CPU" : "BUNDLE_REFERENCE", operation->part,
                operation->part, i, i, i, i, operation->step->region->node_count, operation->step->region->offer_count,
                operation->step->region->input_count, operation->step->region->output_count);
    }
    (void)fprintf(emitter->to, "    { .node_count = 0 } };\n\n");
}

static void put_steps(struct emitter *emitter)
{
    static const char *const names[] = { "BUNDLE_RUN",  "BUNDLE_COPY", "BUNDLE_UNLESS", "BUNDLE_JUMP",   "BUNDLE_BEGIN",
                                         "BUNDLE_TEST", "BUNDLE_NEXT", "BUNDLE_SCAN",   "BUNDLE_ELEMENT" };
    uint32_t region = 0;

    for (uint32_t i = 0; i < emitter->collection->step_count; i++) {
        const bundle_operation *operation = &emitter->collection->steps[i];

        (void)fprintf(emitter->to, "static const bundle_place places%u[] = { ", i);
        for (uint32_t k = 0; k < operation->in_count + operation->out_count; k++)
            put_place(emitter, operation->in[k]);
        (void)fprintf(emitter->to, "{ 0 } };\n");
    }
    (void)fprintf(emitter->to, "static const bundle_step steps[] = {\n");
    for (uint32_t i = 0; i < emitter->collection->step_count; i++) {
        const bundle_operation *operation = &emitter->collection->steps[i];

        (void)fprintf(emitter->to, "    { %s, %u, %u, %u, %d, %llu, places%u, places%u + %u },\n",
                      names[operation->opcode], operation->opcode == DO_RUN ? region++ : 0, operation->target,
                      operation->in_count, operation->backwards, (unsigned long long)operation->block, i, i,
                      operation->in_count);
    }
    (void)fprintf(emitter->to, "    { .kind = 0 } };\n\n");
}

/* Writes the header of a .npy file of the type and shape, version 1.0; returns its length. */
static uint32_t npy_header(const inlay_value_info *value, char *out, size_t bytes)
{
    const char *type = bundle_c_type(value->dtype);
    const char kind = strcmp(type, "float") == 0 || strcmp(type, "double") == 0 || value->dtype == INLAY_FLOAT16 ? 'f'
                      : value->dtype == INLAY_BOOL                                                               ? 'b'
                      : type[0] == 'u'                                                                           ? 'u'
                                                                                                                 : 'i';
    const uint32_t size = inlay_dtype_bits(value->dtype) / 8;
    size_t used = (size_t)snprintf(out + 10, bytes - 10, "{'descr': '%c%c%u', 'fortran_order': False, 'shape': (",
                                   size == 1 ? '|' : '<', kind, size) +
                  10;
    uint32_t length;

    for (uint32_t axis = 0; axis < value->rank; axis++)
        used += (size_t)snprintf(out + used, bytes - used, "%" PRId64 ",%s", value->dims[axis].value,
                                 axis + 1 < value->rank ? " " : "");
    used += (size_t)snprintf(out + used, bytes - used, "), }");
    length = (uint32_t)((used + 1 + 63) / 64 * 64);
    INLAY_CHECK(length <= bytes && used < length);
    memset(out + used, ' ', length - used);
    out[length - 1] = '\n';
    memcpy(out, "\x93NUMPY\x01", 8);
    out[8] = (char)((length - 10) & 0xff);
    out[9] = (char)((length - 10) >> 8);
    return length;
}

static void put_tensors(struct emitter *emitter, const char *what, const uint32_t *list, uint32_t count)
{
    const struct graph *graph = emitter->collection->parts[0].program->graph;

    (void)fprintf(emitter->to, "static const bundle_tensor %s[] = {\n", what);
    for (uint32_t i = 0; i < count; i++) {
        const inlay_value_info *value = &graph->values[list[i]].info;
        char npy[2048];
        const uint32_t npy_bytes = npy_header(value, npy, sizeof npy);

        (void)fputs("    { ", emitter->to);
        bundle_write_text(emitter->to, value->name.data, value->name.bytes);
        (void)fputs(", ", emitter->to);
        bundle_write_text(emitter->to, npy, npy_bytes);
        (void)fprintf(emitter->to, ", %u, %u, %" PRIu64 "u, (const int64_t[]){ ", npy_bytes,
                      inlay_dtype_bits(value->dtype) / 8,
                      emitter->collection->items[emitter->collection->parts[0].item_of[list[i]]].bytes);
        for (uint32_t axis = 0; axis < value->rank; axis++)
            (void)fprintf(emitter->to, "%" PRId64 ", ", value->dims[axis].value);
        (void)fprintf(emitter->to, "0 }, %u, %u },\n", value->rank, value->dtype);
    }
    (void)fprintf(emitter->to, "    { .name = 0 } };\n");
}

static void put_packs(struct emitter *emitter)
{
    (void)fprintf(emitter->to, "static const bundle_pack packs[] = {\n");
    for (uint32_t i = 0; i < emitter->facts->pack_count; i++)
        (void)fprintf(emitter->to, "    { { %" PRIu64 "u, %" PRIu64 "u }, %" PRIu64 "u, %" PRIu64 "u },\n",
                      emitter->facts->packs[i].key[0], emitter->facts->packs[i].key[1], emitter->facts->packs[i].bytes,
                      emitter->facts->packs[i].kept ? emitter->facts->packs[i].offset : UINT64_MAX);
    (void)fprintf(emitter->to, "    { { 0, 0 }, 0, 0 } };\n\n");
}

/* Whether the source refers to a part only to have it linked. The linker for WebAssembly includes functions without. */
static bool is_referenced(const bundle_names *names, const provider_part *part)
{
    return part->needed && part->kind != PART_TABLE && part->kind != PART_LEVEL && part->kind != PART_KERNEL &&
           part->kind != PART_BY_DATA && part->signature == NULL &&
           (!names->has_cpu || names->uniform || part->kind != PART_BASELINE);
}

/* References the needed parts, so that the linker includes them, and defines the others as functions that do nothing.
 * In a first run, these functions report that they were called. */
static void put_parts(struct emitter *emitter)
{
    static const char *const kinds[] = { "extern const kit_table", "extern const char", "void *", "int",
                                         "extern const char" };

    if (!emitter->names->in_assembly)
        (void)fprintf(emitter->to,
                      "void bundle_report_missing(const char *name);\n"
                      "void bundle_fail_excluded(void);\nvoid fail_excluded(void);\nvoid fail_excluded(void)\n{\n"
                      "    bundle_fail_excluded();\n}\n");
    for (uint32_t i = 0; i < emitter->names->part_count; i++) {
        const provider_part *part = &emitter->names->parts[i];
        const bool function = part->kind == PART_SET || part->kind == PART_FUNCTION;

        if (emitter->names->in_assembly && (function || part->kind == PART_KERNEL))
            continue;
        if (part->kind == PART_KERNEL) {
            if (!part->needed &&
                !emitter->facts->first) /* the first run uses functions in assembly, which report their names */
                (void)fprintf(emitter->to, "void %s(void) __attribute__((alias(\"fail_excluded\")));\n", part->name);
            continue;
        }
        if (part->kind == PART_LEVEL || part->kind == PART_BY_DATA ||
            (!emitter->names->has_cpu && part->kind == PART_FAMILY))
            continue;
        if (part->needed)
            (void)fprintf(emitter->to, "%s %s%s;\n", kinds[part->kind], part->name, function ? "(void)" : "");
        else if (part->kind == PART_SET)
            (void)fprintf(emitter->to, "void *%s(void);\nvoid *%s(void)\n{\n    return 0;\n}\n", part->name,
                          part->name);
        else if (part->kind == PART_FUNCTION)
            (void)fprintf(emitter->to, "int %s(void);\nint %s(void)\n{\n    %s%s%sreturn %d;\n}\n", part->name,
                          part->name, emitter->facts->first ? "bundle_report_missing(\"" : "",
                          emitter->facts->first ? part->name : "", emitter->facts->first ? "\");\n    " : "",
                          INLAY_UNSUPPORTED);
    }
    (void)fprintf(emitter->to, "__attribute__((used)) static const void *const needed[] = { 0, ");
    for (uint32_t i = 0; i < emitter->names->part_count; i++)
        if (is_referenced(emitter->names, &emitter->names->parts[i]))
            (void)fprintf(emitter->to, "(const void *)&%s, ", emitter->names->parts[i].name);
    (void)fprintf(emitter->to, "};\n");
}

/* The list of bundled_tables that a table belongs to, by the suffix of its name. */
static const char *table_list(const char *name)
{
    const char *end = strrchr(name, '_');

    end = end != NULL ? end + 1 : name;
    if (strcmp(end, "neon") == 0 || strcmp(end, "wasm") == 0)
        return "only";
    return strcmp(end, "avx512") == 0 || strcmp(end, "avx2") == 0 ? end : "plain";
}

static void put_providers(struct emitter *emitter)
{
    static const char *const lists[] = { "avx512", "avx2", "only", "plain" };

    put_parts(emitter);
    if (!emitter->names->has_reference)
        return;
    (void)fprintf(emitter->to, "static const inlay_provider *open_reference(const inlay_host *host)\n{\n");
    for (size_t list = 0; list < sizeof lists / sizeof lists[0]; list++) {
        (void)fprintf(emitter->to, "    static const kit_table *const %s[] = { ", lists[list]);
        for (uint32_t i = 0; i < emitter->names->part_count; i++)
            if (emitter->names->parts[i].kind == PART_TABLE && emitter->names->parts[i].needed &&
                strcmp(table_list(emitter->names->parts[i].name), lists[list]) == 0)
                (void)fprintf(emitter->to, "&%s, ", emitter->names->parts[i].name);
        (void)fprintf(emitter->to, "0 };\n");
    }
    (void)fprintf(emitter->to, "    static const bundled_tables tables = { avx512, avx2, only, plain };\n\n"
                               "    return bundled_reference(host, &tables);\n}\n");
}

/* Writes the options of a provider's create(): every option, with its default if it is not set. */
static uint32_t put_options(struct emitter *emitter, const char *name, inlay_diag *diag, inlay_status *status)
{
    uint32_t count = 0;

    (void)fprintf(emitter->to, "static const inlay_option_value options_%s[] = {\n", name);
    for (uint32_t i = 0; i < emitter->collection->provider_count; i++) {
        const partition_provider *provider = &emitter->collection->providers[i];
        inlay_option_value *values;

        if (strcmp(provider->name, name) != 0 || provider->table->option_stride != sizeof *provider->table->options)
            continue;
        count = provider->table->option_count;
        values = arena_array(&emitter->collection->arena, (size_t)count + 1, sizeof *values);
        if (values == NULL)
            *status = no_memory(diag, "to write the bundle");
        else
            *status = provider_parse_options(name, provider->table->options, count, provider->settings,
                                             provider->setting_count, values, diag);
        for (uint32_t k = 0; *status == INLAY_OK && k < count; k++) {
            (void)fputs("    { .name = ", emitter->to);
            bundle_write_text(emitter->to, values[k].name, strlen(values[k].name));
            (void)fprintf(emitter->to, ", .i = %" PRId64 ", .f = ", values[k].i);
            emit_double(emitter->to, values[k].f);
            (void)fputs(", .s = ", emitter->to);
            bundle_write_text(emitter->to, values[k].s != NULL ? values[k].s : "",
                              values[k].s != NULL ? strlen(values[k].s) : 0);
            (void)fprintf(emitter->to, ", .is_set = %u },\n", values[k].is_set);
        }
    }
    (void)fputs("    { .name = 0 } };\n", emitter->to);
    return count;
}

static void put_model(struct emitter *emitter, const uint32_t *option_counts)
{
    const struct graph *graph = emitter->collection->parts[0].program->graph;
    uint32_t regions = 0;

    for (uint32_t i = 0; i < emitter->collection->step_count; i++)
        regions += emitter->collection->steps[i].opcode == DO_RUN;
    (void)fprintf(
        emitter->to,
        "const bundle_model %s_model = {\n    .providers = { %s, %s },\n"
        "    .options = { options_reference, options_cpu }, .option_counts = { %u, %u },\n"
        "    .regions = regions, .steps = steps, .inputs = tensors_in, .outputs = tensors_out, .packs = packs,\n"
        "    .packs_data = %s_packs, .data = %s_data, .data_bytes = %" PRIu64
        "u, .region_count = %u, .step_count = %u, .input_count = %u,\n"
        "    .output_count = %u, .pack_count = %u, .packs_levels = %u, .has_originals = %d,\n"
        "    .packs_first = %d, .only_level = %u, .isa = %s%s%s, .slab_bytes = %" PRIu64 "u, .arena_bytes = %" PRIu64
        "u,\n};\n\n",
        emitter->names->name, emitter->names->has_reference ? "open_reference" : "0",
        emitter->names->has_cpu ? "bundled_cpu" : "0", option_counts[0], option_counts[1], emitter->names->name,
        emitter->names->name, emitter->at, regions, emitter->collection->step_count, graph->input_count,
        graph->output_count, emitter->facts->pack_count, emitter->facts->packs_levels, !emitter->facts->drops,
        emitter->facts->first, emitter->facts->only_level, emitter->names->isa != NULL ? "\"" : "",
        emitter->names->isa != NULL ? emitter->names->isa : "0", emitter->names->isa != NULL ? "\"" : "",
        emitter->collection->slab_bytes, emitter->facts->arena_bytes);
}

static void put_functions(struct emitter *emitter)
{
    const struct graph *graph = emitter->collection->parts[0].program->graph;
    const char *name = emitter->names->name;

    (void)fprintf(emitter->to,
                  "int %s_start(void)\n{\n    return bundle_start(&%s_model, 0, 0);\n}\n\n"
                  "int %s_start_in(void *buffer, uint64_t bytes)\n{\n"
                  "    return bundle_start(&%s_model, buffer, bytes);\n}\n\nint %s_run(",
                  name, name, name, name, name);
    bundle_write_parameters(emitter->to, graph, emitter->names);
    (void)fprintf(emitter->to, ")\n{\n    const void *const bundle_in[] = { ");
    for (uint32_t i = 0; i < graph->input_count; i++)
        (void)fprintf(emitter->to, "%s, ", emitter->names->inputs[i]);
    (void)fprintf(emitter->to, "0 };\n    void *const bundle_out[] = { ");
    for (uint32_t i = 0; i < graph->output_count; i++)
        (void)fprintf(emitter->to, "%s, ", emitter->names->outputs[i]);
    (void)fprintf(emitter->to,
                  "0 };\n\n    return bundle_run(&%s_model, bundle_in, bundle_out);\n}\n\n"
                  "int %s_run_in(void *buffer, uint64_t bytes, ",
                  name, name);
    bundle_write_parameters(emitter->to, graph, emitter->names);
    (void)fprintf(emitter->to,
                  ")\n{\n    const int bundle_code = bundle_start(&%s_model, buffer, bytes);\n\n"
                  "    return bundle_code != 0 ? bundle_code : %s_run(",
                  name, name);
    for (uint32_t i = 0; i < graph->input_count + graph->output_count; i++)
        (void)fprintf(emitter->to, "%s%s", i > 0 ? ", " : "",
                      i < graph->input_count ? emitter->names->inputs[i]
                                             : emitter->names->outputs[i - graph->input_count]);
    (void)fprintf(emitter->to, ");\n}\n\nconst char *%s_error(void)\n{\n    return bundle_error();\n}\n", name);
}

inlay_status bundle_emit_source(FILE *to, FILE *data, bundle_collection *collection, const bundle_names *names,
                                bundle_facts *facts, inlay_diag *diag)
{
    struct emitter emitter = { .to = to, .data = data, .collection = collection, .names = names, .facts = facts };
    uint32_t option_counts[2] = { 0 };
    inlay_status status = INLAY_OK;
    bool good = number_values(&emitter) && emit_arrays_init(&emitter.arrays, to, &collection->arena);

    if (!good)
        return no_memory(diag, "to write the bundle");
    facts->value = emitter.value;
    facts->values = emitter.values;
    (void)fprintf(
        to,
        "/* Generated by inlay bundle. */\n#include \"bundle.h\"\n#include \"bundled.h\"\n#include \"%s.h\"\n\n"
        "#define inlay_body_none inlay_node_info /* no node has bodies */\n"
        "extern const char %s_data[], %s_packs[];\n\n",
        names->name, names->name, names->name);
    for (uint32_t i = 0; good && i < collection->part_count; i++)
        good = emit_graph(&emitter, i);
    good &= !emitter.arrays.failed;
    emit_arrays_deinit(&emitter.arrays);
    if (!good)
        return no_memory(diag, "to write the bundle");
    put_regions(&emitter);
    put_steps(&emitter);
    put_tensors(&emitter, "tensors_in", collection->parts[0].program->graph->inputs,
                collection->parts[0].program->graph->input_count);
    put_tensors(&emitter, "tensors_out", collection->parts[0].program->graph->outputs,
                collection->parts[0].program->graph->output_count);
    put_packs(&emitter);
    put_providers(&emitter);
    option_counts[0] = put_options(&emitter, "reference", diag, &status);
    if (status == INLAY_OK)
        option_counts[1] = put_options(&emitter, "cpu", diag, &status);
    put_model(&emitter, option_counts);
    put_functions(&emitter);
    return status;
}
