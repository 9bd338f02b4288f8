/* Attributes of operators: names and values that a signature does not have are refused by name. */
#include "cmocka_all.h"
#include "graph/graph.h"
#include "schema.h"
#include <stdlib.h>
#include <string.h>

/* Binds a node with one attribute of that operator, which has as many inputs and outputs as it needs. Returns the
 * status; text gets the error. */
static inlay_status bind(const op_table *table, const op_row *row, const op_schema *schema,
                         const inlay_attr_info *attribute, char *text, size_t bytes)
{
    graph_model *model = graph_model_create();
    graph_opset opset = { table->domain, row->since_version };
    const uint32_t outputs = schema->min_outputs;
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_node *node;
    inlay_status status;

    model->opsets = &opset;
    model->opset_count = 1;
    node = graph_add_node(model->main, row->op_type, table->domain, "", schema->min_inputs, outputs);
    assert_non_null(node);
    for (uint32_t i = 0; i < schema->min_inputs + outputs; i++) {
        const uint32_t value = graph_add_value(model->main, NULL, 0);

        if (i < schema->min_inputs)
            ((uint32_t *)(uintptr_t)node->info.inputs)[i] = value;
        else
            ((uint32_t *)(uintptr_t)node->info.outputs)[i - schema->min_inputs] = value;
    }
    node->info.attrs = attribute;
    node->info.attr_count = 1;
    node->info.attr_stride = sizeof *attribute;
    status = graph_bind(model, NULL, &diag);
    snprintf(text, bytes, "%s", diag.text);
    graph_model_destroy(model);
    return status;
}

static inlay_str str_of(const char *text)
{
    return (inlay_str){ text, strlen(text) };
}

/* ONNX Runtime ignores unknown attributes of this operator alone. */
static bool ignores_unknown(const op_row *row)
{
    return strcmp(row->op_type, "LayerNormalization") == 0 || strcmp(row->op_type, "SimplifiedLayerNormalization") == 0;
}

/* Calls check for every row of every table. Returns the number of rows. */
static uint32_t each_row(void (*check)(const op_table *table, const op_row *row, const op_schema *schema))
{
    uint32_t count, rows = 0;
    const op_table *const *tables = op_tables(&count);

    for (uint32_t t = 0; t < count; t++)
        for (uint32_t r = 0; r < tables[t]->count; r++, rows++) {
            struct arena arena = { 0 };
            inlay_diag diag = INLAY_DIAG_INIT;
            op_schema schema;

            assert_int_equal(
                op_schema_parse(tables[t]->rows[r].signature, arena_alloc_callback, &arena, &schema, &diag), INLAY_OK);
            check(tables[t], &tables[t]->rows[r], &schema);
            arena_deinit(&arena);
        }
    return rows;
}

static void check_name(const op_table *table, const op_row *row, const op_schema *schema)
{
    const inlay_attr_info bogus = { .name = str_of("bogus"), .kind = INLAY_ATTR_INT, .i = 1 };
    char text[512];
    const inlay_status status = bind(table, row, schema, &bogus, text, sizeof text);

    if (schema->open_attrs || ignores_unknown(row))
        assert_null(strstr(text, "bogus"));
    else if (status != INLAY_INVALID_MODEL || strstr(text, "has no attribute 'bogus'") == NULL)
        fail_msg("%s %s-%u: %d %s", table->domain, row->op_type, row->since_version, (int)status, text);
}

static void test_unknown_names(void **state)
{
    (void)state;
    assert_true(each_row(check_name) > 500);
}

static uint32_t lists;

static void check_values(const op_table *table, const op_row *row, const op_schema *schema)
{
    for (uint32_t a = 0; a < schema->attr_count; a++) {
        const op_attr *attr = &schema->attrs[a];
        inlay_attr_info given = { .name = str_of(attr->name), .kind = attr->kind, .i = -77, .s = str_of("bogus") };
        char text[512], refused[96];

        if (attr->allowed_count == 0)
            continue;
        lists++;
        snprintf(refused, sizeof refused, "attribute '%s' is %s;", attr->name,
                 attr->kind == INLAY_ATTR_INT ? "-77" : "bogus");
        if (bind(table, row, schema, &given, text, sizeof text) != INLAY_INVALID_MODEL || strstr(text, refused) == NULL)
            fail_msg("%s %s: %s", row->op_type, attr->name, text);
        if (attr->has_default) {
            bool listed = false;

            for (uint32_t i = 0; i < attr->allowed_count; i++)
                listed = listed || (attr->kind == INLAY_ATTR_INT ? attr->allowed.ints[i] == attr->i
                                                                 : strcmp(attr->allowed.strings[i], attr->s) == 0);
            assert_true(listed);
        }
        for (uint32_t i = 0; i < attr->allowed_count; i++) {
            if (attr->kind == INLAY_ATTR_INT)
                given.i = attr->allowed.ints[i];
            else
                given.s = str_of(attr->allowed.strings[i]);
            (void)bind(table, row, schema, &given, text, sizeof text);
            if (strstr(text, "attribute '") != NULL && strstr(text, "lacks attribute") == NULL)
                fail_msg("%s %s: %s", row->op_type, attr->name, text);
        }
    }
}

static void test_unlisted_values(void **state)
{
    (void)state;
    (void)each_row(check_values);
    assert_true(lists > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_unknown_names), cmocka_unit_test(test_unlisted_values) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
