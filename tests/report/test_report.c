/* Pages and drawings: complete, with the given JSON, and safe against hostile names. */
#include "graph_script.h"
#include "base/memory.h"
#include "model/model.h"
#include "report/dot.h"
#include "report/model_json.h"
#include "report/page.h"
#include <jansson.h>
#include <unistd.h>

static graph_model *load_script(struct wire *wire, const char *script)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model = NULL;

    *wire = (struct wire){ 0 };
    script_model(wire, 17, script);
    if (model_load_bytes(wire->bytes, wire->count, NULL, &model, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return model;
}

static uint32_t count_text(const char *in, const char *text)
{
    uint32_t count = 0;

    for (; (in = strstr(in, text)) != NULL; in += strlen(text))
        count++;
    return count;
}

static const char hostile[] = "</script><script>alert(1)</script><img src=x onerror=alert(1)><!--\"'";

static void test_dot(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire;
    graph_model *model =
        load_script(&wire, "x : 2,8\n zero = [] 0.0\n s = ReduceSum(x) keepdims=0\n t = Greater(s, zero)\n"
                           "y = If(t) then:Neg(x) else:Relu(x)\n -> y");
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);

    (void)state;
    assert_int_equal(dot_write(to, model, model, &diag), INLAY_OK);
    assert_int_equal(fclose(to), 0);
    assert_int_equal(count_text(text, "subgraph"), 3);
    assert_non_null(strstr(text, "\"Greater\""));
    assert_non_null(strstr(text, "then_branch of"));
    /* x -> ReduceSum -> Greater -> If -> y, and x -> If, which its bodies read; two edges in each body */
    assert_int_equal(count_text(text, " -> "), 5 + 2 * 2);
    assert_non_null(strstr(text, "[label=\"float[2, 8]\"]"));
    free(text);
    graph_model_destroy(model);
    wire_deinit(&wire);
}

/* The JSON of a model file: bodies, constants with their contents, types. */
static void test_model_json(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire;
    graph_model *model =
        load_script(&wire, "x : 2,8\n zero = [] 0.0\n w = [9] 1,2,3,4,5,6,7,8,9\n s = ReduceSum(x) keepdims=0\n"
                           "t = Greater(s, zero)\n a = Add(s, w)\n y = If(t) then:Neg(x) else:Relu(x)\n -> y, a");
    json_t *json = NULL, *graph, *node, *value;

    (void)state;
    assert_int_equal(model_json(model, NULL, "a.onnx", &json, &diag), INLAY_OK);
    assert_int_equal(json_integer_value(json_object_get(json, "nodes")), 4 + 2);
    assert_int_equal(json_integer_value(json_object_get(json, "left_out")), 0);
    graph = json_object_get(json, "main");
    assert_int_equal(json_array_size(json_object_get(graph, "nodes")), 4);
    node = json_array_get(json_object_get(graph, "nodes"), 0);
    assert_string_equal(json_string_value(json_object_get(node, "op")), "ReduceSum");
    assert_string_equal(json_string_value(json_object_get(node, "attributes")), "keepdims=0");
    node = json_array_get(json_object_get(graph, "nodes"), 3);
    assert_int_equal(json_object_size(json_object_get(node, "bodies")), 2);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(json_object_get(node, "bodies"), "else_branch"), "path")),
        "main/If#3.else_branch");
    node = json_array_get(json_object_get(graph, "nodes"), 2);
    value = json_array_get(json_object_get(graph, "values"),
                           (size_t)json_integer_value(json_array_get(json_object_get(node, "inputs"), 1)));
    assert_string_equal(json_string_value(json_object_get(value, "name")), "w");
    assert_true(json_is_true(json_object_get(value, "constant")));
    value = json_object_get(value, "data");
    assert_string_equal(json_string_value(json_object_get(value, "first")), "1, 2, 3, 4, 5, 6, 7, 8");
    assert_true(json_real_value(json_object_get(value, "low")) == 1);
    assert_true(json_real_value(json_object_get(value, "high")) == 9);
    assert_true(json_real_value(json_object_get(value, "mean")) == 5);
    json_decref(json);
    graph_model_destroy(model);
    wire_deinit(&wire);
}

/* Long names are shortened between characters, and a model of any size gives a page of bounded size. */
static void test_bounded(void **state)
{
    enum { NODES = 20000, LONG = 3000 };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), n, attr;
    graph_model *model = NULL;
    json_t *json = NULL, *nodes;
    char name[32], text[LONG + 1], *written;
    const char *shown;

    (void)state;
    for (int i = 0; i < LONG; i += 2)
        memcpy(text + i, "\xc3\xa9", 2);
    text[LONG] = '\0';
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "2");
    for (int i = 0; i < NODES; i++) {
        char before[32];

        (void)snprintf(before, sizeof before, i == 0 ? "x" : "v%d", i - 1);
        (void)snprintf(name, sizeof name, "v%d", i);
        n = mw_node_begin(&wire, "Made", before, name);
        wire_text(&wire, 3, i == 0 ? text : name);
        attr = wire_begin(&wire, 5);
        wire_text(&wire, 1, "text");
        wire_text(&wire, 4, text);
        wire_int(&wire, 20, 3);
        wire_end(&wire, attr);
        wire_end(&wire, n);
    }
    mw_value(&wire, MW_OUTPUT, name, INLAY_FLOAT, "2");
    wire_end(&wire, mark);
    assert_int_equal(model_load_bytes(wire.bytes, wire.count, NULL, &model, &diag), INLAY_OK);
    assert_int_equal(model_json(model, NULL, "a.onnx", &json, &diag), INLAY_OK);
    nodes = json_object_get(json_object_get(json, "main"), "nodes");
    assert_true(json_integer_value(json_object_get(json, "left_out")) > 0);
    assert_int_equal(json_array_size(nodes) + (size_t)json_integer_value(json_object_get(json, "left_out")), NODES);
    shown = json_string_value(json_object_get(json_array_get(nodes, 0), "name"));
    assert_int_equal(strlen(shown), 300 + 3);
    assert_string_equal(shown + 298, "\xc3\xa9\xe2\x80\xa6");
    written = json_dumps(json, JSON_COMPACT);
    assert_non_null(written);
    assert_true(strlen(written) < 48 << 20);
    free(written);
    json_decref(json);
    graph_model_destroy(model);
    wire_deinit(&wire);
}

/* The page contains the JSON and two scripts; hostile names have no effect; the page loads nothing. */
static void check_page(const char *page, const char *json)
{
    const char *begin = strstr(page, "id=\"facts\">"), *end;
    json_t *inside, *alone = json_loads(json, 0, NULL);

    assert_int_equal(strncmp(page, "<!DOCTYPE html>", 15), 0);
    assert_string_equal(page + strlen(page) - 8, "</html>\n");
    assert_int_equal(count_text(page, "<script"), 2);
    assert_int_equal(count_text(page, "</script"), 2);
    assert_int_equal(count_text(page, "<style>"), 1);
    assert_int_equal(count_text(page, "<!--"), 0);
    assert_int_equal(count_text(page, "<img"), 0);
    assert_int_equal(count_text(page, "https://"), 0);
    assert_non_null(begin);
    begin = strchr(begin, '{');
    end = strstr(begin, "</script");
    inside = json_loadb(begin, (size_t)(end - begin), 0, NULL);
    assert_non_null(inside);
    assert_true(json_equal(inside, alone));
    json_decref(inside);
    json_decref(alone);
}

static char *read_all(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);

    assert_non_null(file);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    assert_int_equal(fclose(file), 0);
    return text;
}

/* The page of a session, whose JSON the library writes in pieces. */
static void test_page_of_session(void **state)
{
    const inlay_explain_options options = { .struct_size = sizeof options, .format = "json" };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), n;
    char *page = NULL, *json = NULL;
    size_t bytes;
    FILE *to;
    struct rig rig;

    (void)state;
    mw_value(&wire, MW_INPUT, hostile, INLAY_FLOAT, "2,3");
    n = mw_node_begin(&wire, "Relu", hostile, "y");
    wire_text(&wire, 3, hostile);
    wire_end(&wire, n);
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "2,3");
    wire_end(&wire, mark);
    rig = rig_open(&wire, NULL);
    to = open_memstream(&page, &bytes);
    page_script_begin(to, &page_explain);
    assert_int_equal(inlay_session_explain(rig.session, &options, page_script_json, to, &diag), INLAY_OK);
    page_script_end(to, &page_explain);
    assert_int_equal(fclose(to), 0);
    to = open_memstream(&json, &bytes);
    assert_int_equal(inlay_session_explain(rig.session, &options, page_script_json, to, &diag), INLAY_OK);
    assert_int_equal(fclose(to), 0);
    check_page(page, json);
    free(page);
    free(json);
    rig_close(&rig);
}

/* The pages of model files. */
static void test_pages_of_models(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), n;
    char path[] = "/tmp/report.XXXXXX", *page, *text;
    const int fd = mkstemp(path);
    graph_model *model = NULL;
    json_t *json = NULL, *both;

    (void)state;
    assert_true(fd >= 0);
    mw_value(&wire, MW_INPUT, hostile, INLAY_FLOAT, "2,3");
    n = mw_node_begin(&wire, hostile, hostile, "y");
    wire_text(&wire, 3, hostile);
    wire_end(&wire, n);
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "2,3");
    wire_end(&wire, mark);
    assert_int_equal(model_load_bytes(wire.bytes, wire.count, NULL, &model, &diag), INLAY_OK);
    assert_int_equal(model_json(model, model, hostile, &json, &diag), INLAY_OK);
    assert_int_equal(page_script_write(&page_inspect, json, path, &diag), INLAY_OK);
    page = read_all(path);
    text = json_dumps(json, 0);
    check_page(page, text);
    assert_non_null(strstr(text, "onerror"));
    free(page);
    free(text);
    both = json_pack("{s:O, s:O}", "a", json, "b", json);
    assert_int_equal(page_script_write(&page_diff, both, path, &diag), INLAY_OK);
    page = read_all(path);
    text = json_dumps(both, 0);
    check_page(page, text);
    free(page);
    free(text);
    json_decref(both);
    json_decref(json);
    graph_model_destroy(model);
    wire_deinit(&wire);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
}

/* The page of a JSON file by another program, which does not escape '<'. */
static void test_page_of_file(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    static const char unquoted[] = "</script><script>alert(1)</script><img src=x onerror=alert(1)><!--";
    char from[] = "/tmp/report.XXXXXX", path[64], json[512], *page;
    const int fd = mkstemp(from);

    (void)state;
    assert_true(fd >= 0);
    (void)snprintf(path, sizeof path, "%s.html", from);
    (void)snprintf(json, sizeof json, "{\"version\": 1, \"timeline\": [1.5, \"a & b > %s\"]}", unquoted);
    assert_int_equal(write(fd, json, strlen(json)), (ssize_t)strlen(json));
    assert_int_equal(page_script_convert(&page_profile, from, path, &diag), INLAY_OK);
    page = read_all(path);
    check_page(page, json);
    free(page);
    assert_int_equal(unlink(path), 0);

    assert_int_equal(page_script_convert(&page_explain, from, path, &diag), INLAY_INVALID_MODEL);
    assert_non_null(strstr(diag.text, "inlay explain --json"));
    assert_int_equal(ftruncate(fd, 20), 0);
    assert_int_equal(page_script_convert(&page_profile, from, path, &diag), INLAY_INVALID_MODEL);
    assert_non_null(strstr(diag.text, from));
    assert_int_not_equal(access(path, F_OK), 0); /* no file remains */
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(from), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dot),
        cmocka_unit_test(test_model_json),
        cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_pages_of_models),
        cmocka_unit_test(test_page_of_session),
        cmocka_unit_test(test_page_of_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
