/* infer.c - shape inference, one row per case: operator, opset, inputs, attributes, and the expected outputs.
 *
 * Inputs are separated by spaces: "float[N,3,224,224]", "int64[2]=3,4" (a constant), "int64[2]=N,4" (not constant, but
 * its elements are known), "float" (rank unknown), "float[?,3]" (a size unknown), "seq(float)[N]", "-" (omitted).
 * Attributes: "axis=1 alpha=0.5 mode='x' pads=[1,1]". Outputs have the same notation; "!1 text" is
 * a failure of a node with one output, whose message contains the text. A row with opset 0 uses the newest opset.
 * "ml:Scaler" is an operator of ai.onnx.ml, "ms:QAttention" one of com.microsoft. */
#include "graph/graph.h"
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct infer_row {
    const char *op_type;
    int64_t opset;
    const char *inputs;
    const char *attrs;
    const char *outputs;
} infer_row;

#include "infer_rows.inc"

/* Reads a size (a number, "?" or a symbol) up to the first character of `ends` that is outside parentheses. */
static inlay_dim read_dim(graph_model *model, const char **at, const char *ends)
{
    char name[256];
    size_t n = 0;
    int open = 0;
    char *end;
    long long value;

    while (**at != '\0' && (open > 0 || strchr(ends, **at) == NULL)) {
        open += **at == '(';
        open -= **at == ')';
        assert_true(n + 1 < sizeof name);
        name[n++] = *(*at)++;
    }
    name[n] = '\0';
    value = strtoll(name, &end, 10);
    if (n > 0 && *end == '\0')
        return dim_fixed(value);
    if (strcmp(name, "?") == 0)
        return dim_unknown();
    return (inlay_dim){ .value = -1, .kind = INLAY_DIM_SYMBOLIC, .symbol = graph_symbol(model, name) };
}

static inlay_dtype read_dtype(const char **at)
{
    size_t n = strspn(*at, "abcdefghijklmnopqrstuvwxyz0123456789");

    for (inlay_dtype dtype = 1; dtype < INLAY_DTYPE_COUNT; dtype++) {
        if (strlen(inlay_dtype_name(dtype)) == n && memcmp(inlay_dtype_name(dtype), *at, n) == 0) {
            *at += n;
            return dtype;
        }
    }
    fail_msg("no type at '%s'", *at);
    return 0;
}

/* Stores an integer or (with a point) a float constant element. */
static void store(void *data, inlay_dtype dtype, uint32_t i, int64_t value, const char *text)
{
    switch (dtype) {
    case INLAY_INT64:
        ((int64_t *)data)[i] = value;
        break;
    case INLAY_INT32:
        ((int32_t *)data)[i] = (int32_t)value;
        break;
    case INLAY_BOOL:
    case INLAY_UINT8:
        ((uint8_t *)data)[i] = (uint8_t)value;
        break;
    case INLAY_FLOAT:
        ((float *)data)[i] = strtof(text, NULL);
        break;
    default:
        fail_msg("rows support no constants of type %s", inlay_dtype_name(dtype));
    }
}

/* Reads the elements that follow an input, such as "=1,2,N". */
static void read_elements(struct graph *graph, uint32_t value_index, const char **at)
{
    inlay_dim *elements = arena_array(&graph->model->arena, 64, sizeof *elements);
    void *data = arena_array(&graph->model->arena, 64, 8);
    graph_value *value = &graph->values[value_index];
    int64_t dims[INLAY_MAX_RANK];
    bool constant = true;
    uint32_t n = 0;

    while (**at == '=' || **at == ',') {
        const char *text = ++*at;

        if (**at == '\0' || **at == ' ')
            break;
        assert_true(n < 64);
        if (value->info.dtype == INLAY_FLOAT) {
            store(data, INLAY_FLOAT, n++, 0, text);
            *at += strcspn(*at, ", ");
            continue;
        }
        elements[n] = read_dim(graph->model, at, ", ");
        constant = constant && elements[n].kind == INLAY_DIM_FIXED;
        if (constant)
            store(data, value->info.dtype, n, elements[n].value, text);
        n++;
    }
    if (constant) {
        for (uint32_t d = 0; d < value->info.rank; d++)
            dims[d] = value->info.dims[d].value;
        assert_int_equal(graph_set_constant(graph, value_index, value->info.dtype, value->info.rank, dims, data,
                                            n * inlay_dtype_bits(value->info.dtype) / 8),
                         INLAY_OK);
    } else {
        value->info.elements = elements;
        value->info.element_count = n;
    }
}

static uint32_t read_input(struct graph *graph, const char **at)
{
    uint32_t value_index = graph_add_value(graph, NULL, 0);
    inlay_dim *dims = arena_array(&graph->model->arena, INLAY_MAX_RANK, sizeof *dims);
    graph_value *value = &graph->values[value_index];
    bool sequence = strncmp(*at, "seq(", 4) == 0, optional = strncmp(*at, "optional(", 9) == 0;

    *at += sequence ? 4 : optional ? 9 : 0;
    value->info.dtype = read_dtype(at);
    if (sequence || optional) {
        assert_int_equal(*(*at)++, ')');
        value->info.kind = sequence ? INLAY_VALUE_SEQUENCE : INLAY_VALUE_OPTIONAL;
        value->inner_kind = INLAY_VALUE_TENSOR;
    }
    if (**at == '[') {
        value->info.rank = 0;
        value->info.dims = dims;
        for (++*at; **at != ']'; *at += **at == ',')
            dims[value->info.rank++] = read_dim(graph->model, at, ",]");
        ++*at;
    }
    if (**at == '=')
        read_elements(graph, value_index, at);
    return value_index;
}

static uint32_t read_inputs(struct graph *graph, const char *text, uint32_t *list)
{
    uint32_t count = 0;

    while (*text != '\0') {
        list[count] = INLAY_NONE;
        if (*text == '-')
            text++;
        else
            list[count] = read_input(graph, &text);
        count++;
        while (*text == ' ')
            text++;
    }
    return count;
}

static void read_attrs(struct graph *graph, graph_node *node, const char *text)
{
    while (*text != '\0') {
        char name[64], string[128];
        size_t bytes = strcspn(text, "="), length;
        int64_t ints[32];
        uint32_t count = 0;
        inlay_status status;

        memcpy(name, text, bytes);
        name[bytes] = '\0';
        text += bytes + 1;
        if (*text == '\'') {
            length = strcspn(text + 1, "'");
            memcpy(string, text + 1, length);
            string[length] = '\0';
            text += length + 2;
            status = graph_set_attr_string(graph, node, name, string);
        } else if (*text == '[') {
            for (text++; *text != ']'; text += *text == ',')
                ints[count++] = strtoll(text, (char **)(uintptr_t)&text, 10);
            text++;
            status = graph_set_attr_ints(graph, node, name, ints, count);
        } else if (memchr(text, '.', strcspn(text, " ")) != NULL) {
            status = graph_set_attr_float(graph, node, name, strtod(text, (char **)(uintptr_t)&text));
        } else {
            status = graph_set_attr_int(graph, node, name, strtoll(text, (char **)(uintptr_t)&text, 10));
        }
        assert_int_equal(status, INLAY_OK);
        while (*text == ' ')
            text++;
    }
}

static void write_dim(const graph_model *model, inlay_dim dim, char *out, size_t room)
{
    size_t used = strlen(out);

    if (dim.kind == INLAY_DIM_FIXED)
        snprintf(out + used, room - used, "%lld", (long long)dim.value);
    else
        snprintf(out + used, room - used, "%s",
                 dim.kind == INLAY_DIM_SYMBOLIC ? model->symbols[dim.symbol].name.data : "?");
}

static void write_value(const graph_model *model, const graph_value *value, char *out, size_t room)
{
    op_value_type type = { value->info.kind, value->inner_kind, value->info.dtype, value->map_key };

    op_value_type_text(&type, out + strlen(out), room - strlen(out));
    if (value->info.rank != INLAY_RANK_UNKNOWN) {
        strcat(out, "[");
        for (uint32_t d = 0; d < value->info.rank; d++) {
            strcat(out, d > 0 ? "," : "");
            write_dim(model, value->info.dims[d], out, room);
        }
        strcat(out, "]");
    }
    for (uint64_t element = 0; value->info.elements != NULL && element < value->info.element_count; element++) {
        strcat(out, element > 0 ? "," : "=");
        write_dim(model, value->info.elements[element], out, room);
    }
}

static uint32_t count_outputs(const char *text)
{
    uint32_t count = 1, open = 0;

    if (*text == '!')
        return (uint32_t)(text[1] - '0');
    for (; *text != '\0'; text++) {
        open += *text == '[';
        open -= *text == ']';
        count += open == 0 && *text == ' ' && text[1] != '+' && text[1] != '-' && text[-1] != '+' && text[-1] != '-';
    }
    return count;
}

static bool check_row(const infer_row *row)
{
    graph_model *model = graph_model_create();
    const char *colon = strchr(row->op_type, ':'), *domain = colon == NULL            ? "ai.onnx"
                                                             : row->op_type[1] == 's' ? "com.microsoft"
                                                                                      : "ai.onnx.ml";
    graph_opset opset = { domain, row->opset == 0 ? op_domain_newest(domain) : row->opset };
    uint32_t inputs[20], input_count, output_count = count_outputs(row->outputs);
    inlay_diag diag = INLAY_DIAG_INIT;
    char got[1024] = "";
    inlay_status status;
    graph_node *node;
    struct graph *graph;
    bool passed;

    assert_non_null(model);
    model->opsets = &opset;
    model->opset_count = 1;
    graph = model->main;
    input_count = read_inputs(graph, row->inputs, inputs);
    node = graph_add_node(graph, colon == NULL ? row->op_type : colon + 1, domain, "n", input_count, output_count);
    assert_non_null(node);
    if (input_count > 0)
        memcpy((uint32_t *)(uintptr_t)node->info.inputs, inputs, input_count * sizeof *inputs);
    for (uint32_t o = 0; o < output_count; o++)
        ((uint32_t *)(uintptr_t)node->info.outputs)[o] = graph_add_value(graph, NULL, 0);
    read_attrs(graph, node, row->attrs);
    status = graph_bind(model, NULL, &diag);
    if (status == INLAY_OK)
        status = graph_infer(model, &diag);
    for (uint32_t output = 0; output < output_count && status == INLAY_OK; output++) {
        strcat(got, output > 0 ? " " : "");
        write_value(model, &graph->values[node->info.outputs[output]], got, sizeof got);
    }
    passed = row->outputs[0] == '!' ? status != INLAY_OK && strstr(diag.text, row->outputs + 3) != NULL
                                    : status == INLAY_OK && strcmp(got, row->outputs) == 0;
    if (!passed)
        print_error("%s(%s; %s) gives\n    %s%s\ninstead of\n    %s\n", row->op_type, row->inputs, row->attrs, got,
                    status == INLAY_OK ? "" : diag.text, row->outputs);
    graph_model_destroy(model);
    return passed;
}

static void test_rows(void **state)
{
    uint32_t failed = 0;

    (void)state;
    for (size_t i = 0; i < sizeof infer_rows / sizeof infer_rows[0]; i++)
        failed += !check_row(&infer_rows[i]);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
