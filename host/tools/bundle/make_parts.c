/* The parts of the providers that a program can exclude. */
#include "bundle/maker.h"
#include "base/path.h"
#include "inlay/check.h"
#include <errno.h>
#include <string.h>

enum { MAX_PARTS = 4096 };

/* Whether a step runs the operator, in a region of cpu or from a table. */
static bool has_operator(const struct maker *maker, bool in_region, const char *op)
{
    for (uint32_t i = 0; i < maker->collection->step_count; i++) {
        const bundle_operation *operation = &maker->collection->steps[i];
        graph_node *const *nodes =
            operation->opcode == DO_RUN ? maker->collection->parts[operation->part].program->graph->nodes : NULL;

        if (nodes == NULL || bundle_is_region(maker->collection, operation) != in_region)
            continue;
        for (uint32_t k = 0; k < operation->step->region->node_count; k++)
            if (strcmp(nodes[operation->step->region->nodes[k]]->info.op_type.data, op) == 0)
                return true;
    }
    return false;
}

provider_part *maker_part(const struct maker *maker, const char *name)
{
    for (uint32_t i = 0; i < maker->names.part_count; i++)
        if (strcmp(maker->names.parts[i].name, name) == 0)
            return &maker->names.parts[i];
    return NULL;
}

static bool is_baseline(const struct maker *maker)
{
    return maker->names.isa != NULL && strcmp(maker->names.isa, "baseline") == 0;
}

/* Whether all families of "a+b" are needed. */
static bool has_families(const struct maker *maker, char *word)
{
    char *rest = NULL;

    for (const char *name = strtok_r(word, "+", &rest); name != NULL; name = strtok_r(NULL, "+", &rest)) {
        const provider_part *part = maker_part(maker, name);

        if (part == NULL || !part->needed)
            return false;
    }
    return true;
}

/* Whether the model's operators choose among the kernels of that name by data, so that first runs need not call all. */
static bool is_by_data(const struct maker *maker, const char *name)
{
    for (uint32_t i = 0; i < maker->names.part_count; i++) {
        const provider_part *part = &maker->names.parts[i];

        if (part->kind == PART_BY_DATA && part->needed && strncmp(name, part->name, strlen(part->name)) == 0)
            return true;
    }
    return false;
}

/* Reads a line of parts.txt: the part, and its dependencies. */
static bool read_part(struct maker *maker, char *line)
{
    char *rest = NULL;
    const char *kind = strtok_r(line, " \n", &rest), *name = strtok_r(NULL, " \n", &rest);
    provider_part *part = name != NULL ? maker_part(maker, name) : NULL;

    if (name == NULL)
        return true;
    if (strcmp(kind, "data") == 0)
        part = NULL; /* several lines may have one prefix */
    if (part != NULL && strcmp(kind, "type") == 0) {
        part->signature = arena_string(&maker->collection->arena, strtok_r(NULL, " \n", &rest));
        return part->signature != NULL;
    }
    if (part == NULL) {
        if (maker->names.part_count == MAX_PARTS)
            return false;
        part = &maker->names.parts[maker->names.part_count++];
        (void)snprintf(part->name, sizeof part->name, "%s", name);
        part->kind = strcmp(kind, "table") == 0    ? PART_TABLE
                     : strcmp(kind, "family") == 0 ? PART_FAMILY
                     : strcmp(kind, "set") == 0    ? PART_SET
                     : strcmp(kind, "data") == 0   ? PART_BY_DATA
                     : kind[0] == 'k'              ? PART_KERNEL
                     : kind[0] == 'b'              ? PART_BASELINE
                     : kind[0] == 'l'              ? PART_LEVEL
                                                   : PART_FUNCTION;
        /* Plain C is for CPUs that cannot run the regions of cpu, and for reference in uniform programs; on arm64 there
         * are no such CPUs. */
        part->needed = part->kind == PART_KERNEL
                           ? is_by_data(maker, name)
                           : part->kind == PART_BASELINE &&
                                 (is_baseline(maker) || (maker->names.uniform && maker->names.has_reference) ||
                                  (!maker->names.has_cpu && strcmp(name, "rows_c") == 0 &&
                                   strncmp(maker->job->target, "x86_64", 6) == 0));
    }
    for (char *word = strtok_r(NULL, " \n", &rest); word != NULL; word = strtok_r(NULL, " \n", &rest)) {
        part->needed |= part->kind == PART_SET || part->kind == PART_BY_DATA
                            ? has_families(maker, word)
                            : has_operator(maker, part->kind != PART_TABLE, word);
    }
    return true;
}

/* Whether there is a table for an instruction level that every CPU of the program has. */
static bool has_better(const struct maker *maker, const char *table)
{
    char name[sizeof maker->names.parts->name + sizeof "_avx2"];

    if (maker->names.uniform)
        return false; /* single operators run on reference, see bundled/reference.c */
    (void)snprintf(name, sizeof name, "%s_avx2", table);
    if (maker_part(maker, name) != NULL)
        return maker->names.has_cpu; /* regions of cpu need AVX2 */
    (void)snprintf(name, sizeof name, "%s_neon", table);
    if (maker_part(maker, name) != NULL)
        return true;
    (void)snprintf(name, sizeof name, "%s_wasm", table);
    return maker_part(maker, name) != NULL;
}

/* Excludes tables that no CPU of the program uses. */
static void drop_tables(struct maker *maker)
{
    for (uint32_t i = 0; i < maker->names.part_count; i++) {
        provider_part *part = &maker->names.parts[i];

        if (part->kind == PART_TABLE &&
            (has_better(maker, part->name) || (maker->names.isa != NULL && name_ends_in(part->name, "_avx512")) ||
             ((is_baseline(maker) || maker->names.uniform) && name_ends_in(part->name, "_avx2")) ||
             (maker->names.uniform && name_ends_in(part->name, "_wasm"))))
            part->needed = false;
    }
}

/* Reads a list of parts in the folder of the run-time part. */
static inlay_status read_parts(struct maker *maker, const char *list)
{
    char path[PATH_MAX + 32], line[512];
    bool good = true;
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", maker->runtime_dir, list);
    file = fopen(path, "r");
    if (file == NULL)
        return inlay_fail(maker->diag, INLAY_IO_ERROR, "cannot read %s: %s", path, strerror(errno));
    while (good && fgets(line, sizeof line, file) != NULL)
        good = read_part(maker, line);
    (void)fclose(file);
    INLAY_CHECK(maker->names.part_count <= MAX_PARTS);
    return good ? INLAY_OK : inlay_fail(maker->diag, INLAY_INTERNAL, "%s has too many parts", path);
}

inlay_status maker_find_needs(struct maker *maker)
{
    inlay_status status;

    for (uint32_t i = 0; i < maker->collection->step_count; i++) {
        if (maker->collection->steps[i].opcode != DO_RUN)
            continue;
        *(bundle_is_region(maker->collection, &maker->collection->steps[i]) ? &maker->names.has_cpu
                                                                            : &maker->names.has_reference) = true;
    }
    maker->names.parts = arena_array(&maker->collection->arena, MAX_PARTS, sizeof *maker->names.parts);
    if (maker->names.parts == NULL)
        return no_memory(maker->diag, "to write the bundle");
    INLAY_TRY(read_parts(maker, "parts.txt"));
    if (maker->names.uniform)
        INLAY_TRY(read_parts(maker, "parts_uniform.txt"));
    drop_tables(maker);
done:
    return status;
}

/* Keeps all parts of kernels for instructions that no first run used. */
void maker_keep_untested(struct maker *maker, const uint64_t *levels, uint32_t count)
{
    static const struct {
        const char *end;
        uint64_t bits, value; /* of bundle_level() */
    } ends[] = {
        { "_avx512_vnni", 16, 16 }, { "_avx_vnni", 32, 32 },  { "_avx512", 15, 3 },
        { "_avx2", 15, 2 },         { "_avx2_pairs", 15, 2 }, { "_neon", 15, 1 },
        { "_wasm", 15, 1 },         { "_c", 0, 1 },           { "_base", 0, 1 },
    };
    const uint32_t end_count = sizeof ends / sizeof ends[0];

    for (uint32_t i = 0; i < maker->names.part_count; i++) {
        provider_part *part = &maker->names.parts[i];
        uint32_t end_index = 0, tested = 0;

        if (count == 0 && (part->kind == PART_FUNCTION || part->kind == PART_KERNEL))
            part->needed = true;
        if (part->kind != PART_KERNEL)
            continue;
        while (end_index < end_count && !name_ends_in(part->name, ends[end_index].end))
            end_index++;
        for (uint32_t level = 0; level < count; level++)
            tested += end_index == end_count || (levels[level] & ends[end_index].bits) == ends[end_index].value;
        if (end_index < end_count && ends[end_index].bits == 0 && maker->names.has_cpu && count > 0)
            continue; /* no CPU of the program uses plain C */
        part->needed |= tested == 0;
    }
}
