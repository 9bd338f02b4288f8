/* schemas.c - compares every operator row with schemas.tsv, and checks the lists of source files. */
#include "schema.h"
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MAX_SETS = 256, MAX_FIELDS = 12 };

extern const op_table op_microsoft_early;

static void *heap_alloc(void *ctx, size_t bytes)
{
    void ***list = ctx;
    void **block = malloc(bytes + 2 * sizeof(void *));

    assert_non_null(block);
    block[0] = *list;
    *list = block;
    return block + 2;
}

static void heap_free(void **list)
{
    while (list != NULL) {
        void **next = list[0];

        free(list);
        list = next;
    }
}

static inlay_dtype dtype_named(const char *name, size_t bytes)
{
    for (inlay_dtype dtype = 1; dtype < INLAY_DTYPE_COUNT; dtype++)
        if (strlen(inlay_dtype_name(dtype)) == bytes && memcmp(inlay_dtype_name(dtype), name, bytes) == 0)
            return dtype;
    fail_msg("type %s", name);
    return 0;
}

/* Parses a type in ONNX's notation, such as "seq(tensor(float))". */
static void add_type(op_types *types, const char *text)
{
    static const struct {
        const char *prefix;
        size_t member;
        size_t close; /* parentheses at the end */
    } forms[] = {
        { "tensor(", offsetof(op_types, tensor), 1 },
        { "seq(tensor(", offsetof(op_types, sequence), 2 },
        { "optional(tensor(", offsetof(op_types, optional), 2 },
        { "optional(seq(tensor(", offsetof(op_types, optional_sequence), 3 },
        { "map(", offsetof(op_types, map), 1 },
        { "seq(map(", offsetof(op_types, sequence_map), 2 },
    };

    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        size_t prefix = strlen(forms[i].prefix), bytes = strlen(text);
        uint64_t *mask = (uint64_t *)((char *)types + forms[i].member);
        const char *comma;

        if (strncmp(text, forms[i].prefix, prefix) != 0)
            continue;
        bytes -= prefix + forms[i].close;
        comma = memchr(text + prefix, ',', bytes);
        if (comma == NULL) {
            *mask |= INLAY_DTYPE_BIT(dtype_named(text + prefix, bytes));
        } else {
            size_t key = (size_t)(comma - text) - prefix;

            *mask |= op_map_bit(dtype_named(text + prefix, key), dtype_named(comma + 1, bytes - key - 1));
        }
        return;
    }
    fail_msg("type %s", text);
}

struct facts {
    op_types sets[MAX_SETS];
    const op_row *row;
    op_schema schema;
    uint32_t inputs, outputs, attrs, rows;
    void **heap;
    char where[96];
};

static void check_number(const char *text, uint32_t got, const char *where)
{
    uint32_t wanted = strcmp(text, "many") == 0 ? UINT32_MAX : (uint32_t)strtoul(text, NULL, 10);

    if (got != wanted)
        fail_msg("%s: %u instead of %s", where, got, text);
}

static void end_op(struct facts *facts)
{
    if (facts->row == NULL)
        return;
    assert_int_equal(facts->inputs, facts->schema.input_count);
    assert_int_equal(facts->outputs, facts->schema.output_count);
    assert_int_equal(facts->attrs, facts->schema.attr_count);
    heap_free(facts->heap);
    facts->heap = NULL;
}

static void check_op(struct facts *facts, char **field)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t since = (uint32_t)strtoul(field[3], NULL, 10);

    end_op(facts);
    snprintf(facts->where, sizeof facts->where, "%s %s-%u", field[1], field[2], since);
    facts->row = op_find(field[1], field[2], since, NULL);
    if (facts->row == NULL || facts->row->since_version != since)
        fail_msg("%s is missing", facts->where);
    assert_int_equal((facts->row->flags & OP_DEPRECATED) != 0, field[4][0] == 'd');
    if (op_schema_parse(facts->row->signature, heap_alloc, &facts->heap, &facts->schema, &diag) != INLAY_OK)
        fail_msg("%s: %s", facts->where, diag.text);
    check_number(field[5], facts->schema.min_inputs, facts->where);
    check_number(field[6], facts->schema.max_inputs, facts->where);
    check_number(field[7], facts->schema.min_outputs, facts->where);
    check_number(field[8], facts->schema.max_outputs, facts->where);
    facts->inputs = facts->outputs = facts->attrs = 0;
    facts->rows++;
}

static void check_formal(struct facts *facts, char **field, const op_formal *formal, bool inside)
{
    static const char *const options[] = { "single", "optional", "variadic", "mixed" };

    if (!inside || strcmp(formal->name, field[1]) != 0 || strcmp(options[formal->option], field[3]) != 0)
        fail_msg("%s: formal %s", facts->where, field[1]);
    if (formal->option >= OP_VARIADIC)
        check_number(field[4], formal->min_arity, facts->where);
    if (field[2][0] == '=') {
        op_types types = { 0 };

        add_type(&types, field[2] + 1);
        assert_string_equal(facts->schema.types[formal->type_param].name, "");
        assert_memory_equal(&types, &facts->schema.types[formal->type_param].types, sizeof types);
    } else {
        assert_string_equal(facts->schema.types[formal->type_param].name, field[2]);
    }
}

static void check_type(struct facts *facts, char **field)
{
    for (uint32_t i = 0; i < facts->schema.type_count; i++) {
        if (strcmp(facts->schema.types[i].name, field[1]) != 0)
            continue;
        if (memcmp(&facts->schema.types[i].types, &facts->sets[strtoul(field[2], NULL, 10)], sizeof facts->sets[0]) !=
            0)
            fail_msg("%s: type %s", facts->where, field[1]);
        return;
    }
    fail_msg("%s: no type %s", facts->where, field[1]);
}

static uint32_t kind_named(const char *name)
{
    static const char *const names[] = {
        "",     "FLOAT",   "INT",     "STRING", "TENSOR",        "GRAPH",          "FLOATS",
        "INTS", "STRINGS", "TENSORS", "GRAPHS", "SPARSE_TENSOR", "SPARSE_TENSORS", "TYPE_PROTO"
    };

    for (uint32_t i = 1; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return 0;
}

/* Writes the default in the notation of schemas.tsv: numbers separated by commas, strings without quotes. */
static void check_default(const struct facts *facts, const op_attr *attr, char *text)
{
    char *rest = text, *one;
    uint32_t i = 0;

    switch (attr->kind) {
    case INLAY_ATTR_INT:
        assert_int_equal(attr->i, strtoll(text, NULL, 10));
        return;
    case INLAY_ATTR_FLOAT:
        assert_true((float)attr->f == strtof(text, NULL) && (double)(float)attr->f == attr->f);
        return;
    case INLAY_ATTR_STRING:
        assert_string_equal(attr->s, text);
        return;
    default:
        break;
    }
    while ((one = strsep(&rest, ",")) != NULL) {
        assert_true(i < attr->count);
        if (attr->kind == INLAY_ATTR_INTS)
            assert_int_equal(attr->ints[i], strtoll(one, NULL, 10));
        else if (attr->kind == INLAY_ATTR_STRINGS)
            assert_string_equal(attr->strings[i], one);
        else
            fail_msg("%s: default of %s", facts->where, attr->name);
        i++;
    }
    assert_int_equal(i, attr->count);
}

static void check_attr(struct facts *facts, char **field)
{
    for (uint32_t i = 0; i < facts->schema.attr_count; i++) {
        const op_attr *attr = &facts->schema.attrs[i];

        if (strcmp(attr->name, field[1]) != 0)
            continue;
        if (attr->kind != kind_named(field[2]) || attr->required != (field[3][0] == 'r') ||
            attr->has_default != (field[4][0] == '='))
            fail_msg("%s: attribute %s", facts->where, field[1]);
        if (attr->has_default)
            check_default(facts, attr, field[4] + 1);
        facts->attrs++;
        return;
    }
    fail_msg("%s: no attribute %s", facts->where, field[1]);
}

static void check_line(struct facts *facts, char **field)
{
    if (strcmp(field[0], "set") == 0) {
        char *rest = field[2], *one;

        while ((one = strsep(&rest, "|")) != NULL)
            add_type(&facts->sets[strtoul(field[1], NULL, 10)], one);
    } else if (strcmp(field[0], "op") == 0) {
        check_op(facts, field);
    } else if (strcmp(field[0], "input") == 0) {
        check_formal(facts, field, &facts->schema.inputs[facts->inputs], facts->inputs < facts->schema.input_count);
        facts->inputs++;
    } else if (strcmp(field[0], "output") == 0) {
        check_formal(facts, field, &facts->schema.outputs[facts->outputs], facts->outputs < facts->schema.output_count);
        facts->outputs++;
    } else if (strcmp(field[0], "type") == 0) {
        check_type(facts, field);
    } else if (strcmp(field[0], "attr") == 0) {
        check_attr(facts, field);
    } else {
        assert_string_equal(field[0], "#");
    }
}

static void test_rows_match_facts(void **state)
{
    FILE *file = fopen(INLAY_SOURCE_DIR "/tests/ops/schemas.tsv", "r");
    char *line = NULL;
    size_t room = 0;
    struct facts facts = { .rows = 0 };
    uint32_t rows = 0, table_count;

    (void)state;
    assert_non_null(file);
    while (getline(&line, &room, file) > 0) {
        char *field[MAX_FIELDS] = { NULL }, *rest = line;

        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#')
            continue;
        for (uint32_t i = 0; i < MAX_FIELDS && rest != NULL; i++)
            field[i] = strsep(&rest, "\t");
        check_line(&facts, field);
    }
    end_op(&facts);
    free(line);
    fclose(file);
    const op_table *const *tables = op_tables(&table_count);
    for (uint32_t table = 0; table < table_count; table++)
        if (tables[table] != &op_microsoft_early) /* operators of ONNX Runtime in the domain ai.onnx */
            rows += op_domain_known(tables[table]->domain) ? tables[table]->count : 0;
    assert_non_null(op_find("ai.onnx", "MeanVarianceNormalization", 8, NULL)); /* an experiment, too */
    assert_int_equal(rows - 1, facts.rows); /* no operators that ONNX does not have */
}

static void test_versions_ascend(void **state)
{
    uint32_t count;
    const op_table *const *tables = op_tables(&count);

    (void)state;
    for (uint32_t table = 0; table < count; table++) {
        for (uint32_t row_index = 0; row_index < tables[table]->count; row_index++) {
            const op_row *row = &tables[table]->rows[row_index], *next = row + 1;

            assert_ptr_equal(op_find(tables[table]->domain, row->op_type, row->since_version, NULL), row);
            assert_true(row->since_version <= op_domain_newest(tables[table]->domain));
            if (row_index + 1 == tables[table]->count || strcmp(next->op_type, row->op_type) != 0)
                assert_ptr_equal(op_find(tables[table]->domain, row->op_type, INT64_MAX, NULL), row);
            else
                assert_true(row->since_version < next->since_version);
        }
    }
}

static void test_find(void **state)
{
    static const struct {
        const char *domain, *op_type;
        int64_t opset;
        uint32_t since; /* 0: nothing */
        uint32_t lowest;
    } rows[] = {
        { "", "Add", 1, 1, 1 },
        { "", "Add", 6, 6, 1 },
        { "ai.onnx", "Add", 12, 7, 1 },
        { "ai.onnx", "Add", 28, 14, 1 },
        { "ai.onnx", "Gelu", 19, 0, 20 },
        { "ai.onnx", "Add", 0, 0, 1 },
        { "ai.onnx", "Add", INT64_MIN, 0, 1 },
        { "ai.onnx", "Addd", 14, 0, 0 },
        { "ai.onnx", "", 14, 0, 0 },
        { "ai.onnx.ml", "Add", 14, 0, 0 },
        { "ai.onnx.ml", "Scaler", 3, 1, 1 },
        { "ai.onnx.preview.training", "Adam", 1, 1, 1 },
        { "com.example", "Add", 14, 0, 0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t lowest = 77;
        const op_row *row = op_find(rows[i].domain, rows[i].op_type, rows[i].opset, &lowest);

        assert_int_equal(row == NULL ? 0 : row->since_version, rows[i].since);
        assert_int_equal(lowest, rows[i].lowest);
    }
    assert_string_equal(op_nearest("", "conv"), "Conv");
    assert_string_equal(op_nearest("ai.onnx", "Softmaxx"), "Softmax");
    assert_string_equal(op_nearest("ai.onnx.ml", "Scalar"), "Scaler");
    assert_null(op_nearest("ai.onnx", "FusedMatMulWithEverything"));
    assert_null(op_nearest("com.example", "Conv"));
    assert_true(op_domain_known("") && op_domain_known("ai.onnx.ml") && !op_domain_known("com.example"));
    assert_int_equal(op_domain_newest("ai.onnx"), 28);
    assert_int_equal(op_domain_newest("com.example"), 0);
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t bytes = 0;

    if (file == NULL)
        fail_msg("cannot open %s", path);
    if (getdelim(&text, &bytes, '\0', file) < 0)
        fail_msg("cannot read %s", path);
    fclose(file);
    return text;
}

/* Checks that the list has the line of each <stem>.c in the folder whose text contains mark_format; in both formats %s
 * is the stem. */
static void check_listed(const char *folder, const char *list_path, const char *line_format, const char *mark_format)
{
    char *list = read_text(list_path);
    DIR *dir = opendir(folder);
    const struct dirent *entry;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        size_t bytes = strlen(entry->d_name);
        char path[512], stem[128], wanted[256], mark[256], *text;

        if (bytes < 3 || bytes >= sizeof stem || strcmp(entry->d_name + bytes - 2, ".c") != 0)
            continue;
        snprintf(stem, sizeof stem, "%.*s", (int)bytes - 2, entry->d_name);
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        snprintf(wanted, sizeof wanted, line_format, stem);
        snprintf(mark, sizeof mark, mark_format, stem);
        text = read_text(path);
        if (strstr(text, mark) != NULL && strstr(list, wanted) == NULL)
            fail_msg("%s is not in %s: add the line %s", path, list_path, wanted);
        free(text);
    }
    closedir(dir);
    free(list);
}

static void test_files_are_listed(void **state)
{
    (void)state;
#define OPS INLAY_SOURCE_DIR "/ops"
    check_listed(OPS "/onnx", OPS "/ops.def", "TABLE(onnx, %s)\n", "op_onnx_%s");
    check_listed(OPS "/ml", OPS "/ops.def", "TABLE(ml, %s)\n", "op_ml_%s");
    check_listed(OPS "/preview", OPS "/ops.def", "TABLE(preview, %s)\n", "op_preview_%s");
#define REFERENCE INLAY_SOURCE_DIR "/providers/reference"
    check_listed(REFERENCE, REFERENCE "/kernels.def", "TABLE(%s)\n", "kit_table reference_%s");
#define OPERATORS INLAY_SOURCE_DIR "/providers/operators"
    check_listed(OPERATORS, OPERATORS "/tables.def", "TABLE(%s)\n", "kit_table OPERATOR(operators_%s)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_match_facts),
        cmocka_unit_test(test_versions_ascend),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_files_are_listed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
