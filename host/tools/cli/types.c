#include "cli/types.h"
#include "base/among.h"
#include "base/arena.h"
#include "check/harness.h"
#include "check/generate.h"
#include "passes/contributed.h"
#include "schema.h"
#include <stdlib.h>
#include <string.h>

enum { ENOUGH_CASES = 12 }; /* nodes tried for each type */

/* One version of an operator. */
typedef struct types_row {
    char name[96];
    long long since;
    uint64_t tried;  /* types with at least one legal node */
    uint64_t *taken; /* [provider_count] types that a provider accepts */
    uint64_t others; /* types that the schema allows, but without a generated legal node */
    char why[512];   /* types that no provider accepts, and the reference provider's reasons */
    bool expanded;   /* the optimiser replaces the operator by others */
} types_row;

typedef struct types_table {
    loaded_plugin *plugins; /* [plugin_count] */
    loaded_provider *providers;
    uint32_t plugin_count, provider_count;
    bool *takes; /* [provider_count] the provider accepts at least one node */
    bool failed; /* out of memory */
    struct arena arena;
    types_row *rows;
    uint32_t count;
    uint32_t cases[INLAY_DTYPE_COUNT]; /* legal nodes tried for each type of the current operator */
    char why[INLAY_DTYPE_COUNT][128];
} types_table;

static const char *const short_names[INLAY_DTYPE_COUNT] = {
    [INLAY_FLOAT] = "f32",     [INLAY_DOUBLE] = "f64",      [INLAY_FLOAT16] = "f16", [INLAY_BFLOAT16] = "bf16",
    [INLAY_INT8] = "i8",       [INLAY_INT16] = "i16",       [INLAY_INT32] = "i32",   [INLAY_INT64] = "i64",
    [INLAY_UINT8] = "u8",      [INLAY_UINT16] = "u16",      [INLAY_UINT32] = "u32",  [INLAY_UINT64] = "u64",
    [INLAY_COMPLEX64] = "c64", [INLAY_COMPLEX128] = "c128",
};

static const char *name_of(uint32_t type)
{
    return short_names[type] != NULL ? short_names[type] : inlay_dtype_name((inlay_dtype)type);
}

static void print_types(uint64_t types, uint64_t all)
{
    if (types == all || types == 0) {
        (void)printf(" %s |", types == 0 ? "-" : "all");
        return;
    }
    for (uint32_t type = 1; type < INLAY_DTYPE_COUNT; type++)
        if ((types & INLAY_DTYPE_BIT(type)) != 0)
            (void)printf(" %s", name_of(type));
    (void)printf(" |");
}

static void print_row(const types_table *table, const types_row *row)
{
    (void)printf("| %s | %lld |", row->name, row->since);
    print_types(row->tried, 0);
    for (uint32_t p = 0; p < table->provider_count; p++)
        if (table->takes[p])
            print_types(row->taken[p], row->tried);
    (void)printf(" %s", row->expanded     ? "expanded by the optimiser"
                        : row->tried == 0 ? "not tested: no legal node was generated"
                                          : row->why);
    if (!row->expanded && row->others != 0) {
        (void)printf("%s", row->tried == 0 ? ":" : row->why[0] != '\0' ? "; not tested:" : "not tested:");
        for (uint32_t d = 1; d < INLAY_DTYPE_COUNT; d++)
            if ((row->others & INLAY_DTYPE_BIT(d)) != 0)
                (void)printf(" %s", name_of(d));
    }
    (void)puts(" |");
}

/* Does an optimiser pass expand the operator into others? */
static bool is_expanded(const case_source *source)
{
    return contributed_has(source->domain, source->op_type) ||
           is_among(source->op_type, "BeamSearch FlexAttention GreedySearch QGemm Sampling") ||
           (strcmp(source->domain, "com.microsoft") == 0 && strncmp(source->op_type, "QLinear", 7) == 0);
}

/* Assesses a generated node with each provider. Some providers accept few shapes, so several nodes are tried for each
 * type. */
static bool assess_case(void *user, op_case *entry)
{
    types_table *table = user;
    types_row *row = &table->rows[table->count];
    inlay_diag diag = INLAY_DIAG_INIT;
    const inlay_dtype dtype = entry->in_count > 0 ? entry->in[0].dtype : INLAY_FLOAT;
    harness_answer answer;
    case_instance built;

    if (table->cases[dtype] >= ENOUGH_CASES || case_graph(entry, NULL, CASE_SIZES, &built, &diag) != INLAY_OK)
        return true;
    table->cases[dtype]++;
    row->tried |= INLAY_DTYPE_BIT(dtype);
    for (uint32_t provider = 0; provider < table->provider_count; provider++) {
        if ((row->taken[provider] & INLAY_DTYPE_BIT(dtype)) != 0)
            continue;
        harness_assess(&table->providers[provider], &built, &answer);
        if (answer.kind == HARNESS_OFFERED) {
            row->taken[provider] |= INLAY_DTYPE_BIT(dtype);
            table->takes[provider] = true;
        } else if (strcmp(table->providers[provider].name, "reference") == 0) {
            (void)snprintf(table->why[dtype], sizeof table->why[dtype], "%.120s", answer.reason);
        }
    }
    case_instance_deinit(&built);
    return true;
}

/* Collects the types that no provider accepts, grouped by reason. */
static void collect_unsupported(types_table *table, types_row *row)
{
    uint64_t none = row->tried;
    size_t used = 0;

    for (uint32_t p = 0; p < table->provider_count; p++)
        none &= ~row->taken[p];
    for (uint32_t d = 1; d < INLAY_DTYPE_COUNT; d++) {
        if ((none & INLAY_DTYPE_BIT(d)) == 0)
            continue;
        used += (size_t)snprintf(row->why + used, sizeof row->why - used, "%s%s", used > 0 ? ", " : "", name_of(d));
        for (uint32_t e = d + 1; e < INLAY_DTYPE_COUNT && used < sizeof row->why; e++)
            if ((none & INLAY_DTYPE_BIT(e)) != 0 && strcmp(table->why[d], table->why[e]) == 0) {
                used += (size_t)snprintf(row->why + used, sizeof row->why - used, " %s", name_of(e));
                none &= ~INLAY_DTYPE_BIT(e);
            }
        if (used < sizeof row->why)
            used += (size_t)snprintf(row->why + used, sizeof row->why - used, ": %s", table->why[d]);
        if (used >= sizeof row->why)
            return;
    }
}

static bool take_operator(void *user, const case_source *source)
{
    const case_range range = { .seed = 1, .scale = 1, .quick = true };
    const bool own = strcmp(source->domain, "ai.onnx") == 0;
    types_table *table = user;
    uint64_t *taken = arena_array(&table->arena, (size_t)table->provider_count + 1, sizeof *taken);
    types_row *row;

    table->failed = taken == NULL || !LIST_GROW(table->rows, table->count);
    if (table->failed)
        return false;
    row = &table->rows[table->count];
    *row = (types_row){ .taken = taken };
    memset(table->cases, 0, sizeof table->cases);
    (void)snprintf(row->name, sizeof row->name, "%s%s%s", own ? "" : source->domain, own ? "" : ".", source->op_type);
    row->since = (long long)source->opset;
    generate_cases(source, &range, assess_case, table);
    collect_unsupported(table, row);
    if (source->schema->input_count > 0 && source->schema->inputs[0].type_param >= 0)
        row->others = source->schema->types[source->schema->inputs[0].type_param].types.tensor & ~row->tried;
    row->expanded = (row->tried == 0 || row->why[0] != '\0') && is_expanded(source);
    table->count++;
    return true;
}

/* By name, so that the columns do not depend on the order of files. */
static int by_name(const void *a, const void *b)
{
    return strcmp(((const loaded_provider *)a)->name, ((const loaded_provider *)b)->name);
}

/* False: out of memory. */
static bool open_all(types_table *table, const plugin_set *set)
{
    const uint32_t files = plugin_set_file_count(set);
    inlay_diag diag = INLAY_DIAG_INIT;
    size_t most = 1;

    table->plugins = arena_array(&table->arena, (size_t)files + 1, sizeof *table->plugins);
    for (uint32_t i = 0; table->plugins != NULL && i < files; i++) {
        const plugin_file *file = plugin_set_file(set, i);
        loaded_plugin *plugin = &table->plugins[table->plugin_count];

        if (!file->loaded || loaded_open(file->path, file->isolated, plugin, &diag) != INLAY_OK)
            continue;
        table->plugin_count++;
        most += plugin->table.provider_count;
    }
    table->providers = arena_array(&table->arena, most, sizeof *table->providers);
    table->takes = arena_array(&table->arena, most, sizeof *table->takes);
    if (table->plugins == NULL || table->providers == NULL || table->takes == NULL)
        return false;
    for (uint32_t i = 0; i < table->plugin_count; i++)
        for (uint32_t k = 0; k < table->plugins[i].table.provider_count; k++)
            if (loaded_create(&table->plugins[i], k, NULL, &table->providers[table->provider_count], &diag) == INLAY_OK)
                table->provider_count++;
    qsort(table->providers, table->provider_count, sizeof *table->providers, by_name);
    return true;
}

static void *from_arena(void *a, size_t bytes)
{
    return arena_alloc(a, bytes);
}

/* Prints operators that the host runs (control flow, sequences, optionals, maps) with the types of the first input, or
 * of the output if there is no input. */
static void print_host_rows(const types_table *table)
{
    uint32_t count;
    const op_table *const *tables = op_tables(&count);

    for (uint32_t k = 0; k < count; k++) {
        for (uint32_t row_index = 0; row_index < tables[k]->count; row_index++) {
            const op_row *row = &tables[k]->rows[row_index];
            const bool own = strcmp(tables[k]->domain, "ai.onnx") == 0;
            op_schema schema;
            struct arena arena = { 0 };
            char types[2048] = "";
            int32_t set = -1;

            if ((row->flags & OP_HOST) == 0)
                continue;
            if (op_schema_parse(row->signature, from_arena, &arena, &schema, NULL) != INLAY_OK) {
                arena_deinit(&arena);
                continue;
            }
            if (schema.input_count > 0)
                set = schema.inputs[0].type_param;
            else if (schema.output_count > 0)
                set = schema.outputs[0].type_param;
            if (set >= 0)
                op_types_text(&schema.types[set].types, types, sizeof types);
            (void)printf("| %s%s%s | %lld | %s |", own ? "" : tables[k]->domain, own ? "" : ".", row->op_type,
                         (long long)row->since_version, types[0] != '\0' ? types : "-");
            for (uint32_t p = 0; p < table->provider_count; p++)
                if (table->takes[p])
                    (void)printf(" - |");
            (void)puts(" run by the host |");
            arena_deinit(&arena);
        }
    }
}

static void print_table(const types_table *table)
{
    (void)printf("| operator | since | types |");
    for (uint32_t provider = 0; provider < table->provider_count; provider++)
        if (table->takes[provider])
            (void)printf(" %s |", table->providers[provider].name);
    (void)printf(" accepted by none |\n|---|---|---|");
    for (uint32_t p = 0; p < table->provider_count; p++)
        if (table->takes[p])
            (void)printf("---|");
    (void)puts("---|");
    for (uint32_t row = 0; row < table->count; row++)
        print_row(table, &table->rows[row]);
    print_host_rows(table);
}

inlay_status cli_types_text(plugin_set *set, inlay_diag *diag)
{
    types_table *table = calloc(1, sizeof *table);
    inlay_status status = INLAY_OK;

    if (table == NULL)
        return no_memory(diag, "for a table of types");
    table->failed = !open_all(table, set);
    if (!table->failed)
        generate_sources(NULL, 0, NULL, false, take_operator, table);
    if (table->failed)
        status = no_memory(diag, "for a table of types");
    else
        print_table(table);
    for (uint32_t provider = 0; provider < table->provider_count; provider++)
        loaded_destroy(&table->providers[provider]);
    for (uint32_t i = 0; i < table->plugin_count; i++)
        loaded_close(&table->plugins[i]);
    arena_deinit(&table->arena);
    free(table->rows);
    free(table);
    return status;
}
